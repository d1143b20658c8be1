"""The trial on a bare machine, and what it reads, refuses and finds."""

import subprocess
import sys

import pytest

from tools import bare_machine
from tools.lock import ROOT

PAGE = """
## What it leaves on your disk

| `~/.cache/course`, `~/.local/share/jupyter` | kept | `/tmp/torch_YOU` |

## More

`~/.other`
"""


@pytest.fixture
def machine(tmp_path):
    for folder in ("dev/shm", "tmp", "var/tmp", "home/student"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def test_the_readmes_own_commands_are_typed():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    typed = bare_machine.first_command(readme, "/srv/a bundle")
    folder = "parallel-deep-learning"
    assert typed == f"git clone '/srv/a bundle' {folder} && cd {folder} && make lab"
    with pytest.raises(bare_machine.TrialError, match="Two commands"):
        bare_machine.first_command("# Nothing", "/srv")


def test_only_what_the_pages_section_names_may_stay():
    found = ["~/.cache/course/c/a.so", "~/.cache/courses", "~/.local/share/other", "~/.other"]
    named = ["~/.local/share/jupyter", "/tmp/torch_student"]
    left = bare_machine.undocumented([*found, *named], PAGE)
    assert left == ["~/.cache/courses", "~/.local/share/other", "~/.other"]
    assert bare_machine.undocumented(named, "# No such section") == sorted(named)


def test_what_is_left_is_found(machine, monkeypatch):
    monkeypatch.setattr(bare_machine, "processes", lambda machine: {})
    home = machine / "home/student"
    (home / ".bashrc").touch()
    before = set(bare_machine.at_home(machine))
    (home / ".cache/course").mkdir(parents=True)
    (home / ".cache/course/kept").touch()
    (machine / "tmp/torch_student").mkdir()
    segments = bare_machine.left_behind(machine, before, PAGE)
    assert not [line for line in segments if not line.startswith("shared memory segment")]
    (home / ".dgl").mkdir()
    (home / "notes").mkdir()
    (machine / "dev/shm/mpich_shm_1").touch()
    (machine / "tmp/scratch").mkdir()
    left = bare_machine.left_behind(machine, before, PAGE)
    names = [line.partition(",")[0] for line in left if "INSTALL" in line]
    assert names == ["/dev/shm/mpich_shm_1", "/tmp/scratch", "~/.dgl", "~/notes"]


def test_a_process_that_lives_on_is_named(machine, monkeypatch):
    monkeypatch.setattr(bare_machine, "GRACE", 0.1)
    sleeper = subprocess.Popen(["sleep", "60"])
    try:  # the machine's user is here whoever runs the test
        left = bare_machine.left_behind(machine, set(), PAGE)
        assert f"process {sleeper.pid} still runs: sleep 60" in left
    finally:
        sleeper.kill()
        sleeper.wait()
    assert sleeper.pid not in bare_machine.processes(machine)


def test_pips_local_folders_are_shared_and_an_index_with_its_files(tmp_path):
    index, wheels = tmp_path / "index/simple", tmp_path / "wheels"
    for folder in (index, wheels):
        folder.mkdir(parents=True)
    values = [f"{wheels} {tmp_path}/absent", f"file://{index} https://example.org/simple", "180"]
    assert bare_machine.local_paths(values) == [tmp_path / "index", wheels]


@pytest.mark.part(of="bare-machine")
@pytest.mark.timeout(2400)
def test_the_course_works_on_a_fresh_debian_and_leaves_nothing():
    if why := bare_machine.hindrance():
        pytest.skip(f"no bare machine, because {why}")
    done = subprocess.run([sys.executable, "-m", "tools.bare_machine"], cwd=ROOT)
    assert done.returncode == 0, "what it said stands above"


def test_it_needs_nothing_but_python():
    command = [sys.executable, "-S", "-m", "tools.bare_machine", "--help"]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True, timeout=60)
