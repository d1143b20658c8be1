"""`make test` and `make test-all`: every test runs in one of them; no failure gets lost."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from helpers import records
from helpers.paths import ROOT
from tools import test as quick
from tools import test_all
from tools.test import Results, read

TESTS = """
import atexit, os, pathlib, signal, tempfile, time
import pytest

ALONE = not os.environ.get("PYTEST_XDIST_WORKER")

def test_shares_the_cores():
    assert not ALONE

@pytest.mark.mpi
def test_begins_mpi_in_a_process_that_ends_without_clearing_up():
    assert not ALONE
    from mpi4py import MPI

    assert MPI.COMM_WORLD.size == 1
    pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
    atexit.register(os._exit, 0)

@pytest.mark.mpi
def test_wants_the_machine_for_itself():
    assert ALONE, "busy"
    from mpi4py import MPI

    assert MPI.COMM_WORLD.size == 1

@pytest.mark.part(of="cluster")
def test_belongs_to_a_part():
    assert False

@pytest.mark.gpu
def test_lacks_something():
    pytest.skip("no wheel here: install one")

def test_is_interrupted():
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
        time.sleep(1)

def test_leaves_a_file():
    pathlib.Path(tempfile.gettempdir(), "left-by-a-test").touch()

def test_fails():
    assert False, "as it must"
"""


@pytest.mark.timeout(300)
def test_each_test_runs_in_its_stage_and_the_end_says_what_came_out(tmp_path):
    """As `make test` runs them, in the background of a script."""
    tests, place = tmp_path / "tests", tmp_path / "temporary"
    tests.mkdir()
    place.mkdir()
    (tests / "test_one.py").write_text(TESTS)
    (tests / "conftest.py").write_text("from tests import leftovers\nleftovers.GRACE = 2.0\n")
    command = [sys.executable, "-m", "tools.test", str(tests)]
    command += ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.leftovers"]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command],  # as a script's & does
        cwd=ROOT,
        env=clean | {"CI": "true", "TMPDIR": str(place)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    said = re.split(r"\nTests .*: \d+ s\n", done.stdout)[-1].splitlines()
    left = [line for line in said if line.startswith("left behind: ")]
    assert any("left-by-a-test" in line for line in left)  # others run beside this and may, too
    worker = int((tests / "pid").read_text())
    assert not any(f"mpich_shm_{worker:x}_" in line for line in left)
    assert said[1:] == [
        "1 skipped: no wheel here: install one",
        "5 passed, 1 failed",
        "test_one::test_fails: AssertionError: as it must assert False",
        *left,
        "1 passed only alone, which make test-all counts as failed:",
        "test_one::test_wants_the_machine_for_itself",
    ]


@pytest.mark.mpi
def test_a_session_without_a_test_is_not_blamed_for_what_lies_there(monkeypatch, tmp_path):
    """A part's tests that no rival disturbs run in a second session, which may select none."""
    (tmp_path / "test_one.py").write_text("from mpi4py import MPI\n\ndef test(): pass\n")
    (tmp_path / "conftest.py").write_text("from tests import leftovers\nleftovers.GRACE = 0.5\n")
    for name in [name for name in os.environ if name.startswith("PYTEST")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CI", "true")
    options = [str(tmp_path), "-k", "nothing", "-c", str(ROOT / "pyproject.toml")]
    found = quick.session(tmp_path, "without a test", [*options, "-p", "tests.leftovers"])
    assert "mpich_shm_" in (tmp_path / "without a test.left").read_text()  # pytest's own
    assert (found.status, found.left) == (quick.NO_TESTS, [])


def test_what_fails_beside_others_and_not_alone_has_passed(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        quick, "session", lambda *given: asked.append(given[2]) or Results(0, passed=["a"])
    )
    whole, alone = quick.again(tmp_path, Results(1, failed={"a": "busy"}), ["t", "-n", "0"])
    assert asked[0][-3:] == ["-p", "no:xdist", "t"]
    assert (whole.status, whole.passed, whole.failed, alone) == (0, ["a"], {}, ["a"])
    whole, alone = quick.again(tmp_path, Results(1, failed={"a": "busy", "b": "broken"}), [])
    assert (whole.status, whole.failed, alone) == (1, {"b": "broken"}, ["a"])


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [([0, 0], 0), ([1, 0], 1), ([0, 1], 1), ([0, 5], 0), ([5, 1], 1), ([5, 5], 5), ([-11], 11)],
)
def test_one_exit_status_for_several_sessions(statuses, expected):
    whole = Results()
    for status in statuses:
        whole.add(Results(status))
    assert whole.status == expected
    assert whole.over == (expected == 11)


def test_a_session_without_a_report_is_no_success(tmp_path):
    assert read(tmp_path / "side by side.xml").failed == {
        "side by side": "pytest ended without a report"
    }


@pytest.fixture
def part(monkeypatch, tmp_path):
    """Return a function that runs parts which come to the results given: status and lines."""

    def run(*names, results, arguments=()):
        waiting = list(results)
        monkeypatch.setattr(test_all, "run_part", lambda name, arguments: waiting.pop(0))
        return test_all.main([*names, "--out", str(tmp_path), *arguments])

    run.folder = tmp_path
    return run


GOOD = Results(0, passed=["a", "b"], seconds=12.4)
BAD = Results(1, passed=["a"], failed={"b": "no"}, seconds=3)
NONE = Results(0, skipped={"it takes root": 2})


def test_a_record_says_what_each_part_came_to(part, capsys):
    assert part("site", "slurm", "hub", results=[GOOD, BAD, NONE]) == 1
    (record,) = records.load(part.folder)
    site, slurm = record.suites["test-all"]
    assert record.command == "python -m tools.test_all site slurm hub"
    assert (site.name, site.value, site.unit) == ("site", 12, "s")
    assert site.parameters == {
        "commit": test_all.commit(), "passed": 2, "failed": 0, "skipped": 0, "failures": []
    }  # fmt: skip
    assert (slurm.parameters["failed"], slurm.parameters["failures"]) == (1, ["b"])
    said = capsys.readouterr().out
    assert "Part hub did not run: it takes root" in said
    assert re.search(r"^site  .*Z  .* 2 +0 +12$", said, re.M)
    assert re.search(r"^hub +never$", said, re.M)


def test_a_part_that_cannot_run_here_is_no_failure_of_all(part, monkeypatch):
    monkeypatch.setattr(test_all, "PARTS", {"site": test_all.PARTS["site"]})
    assert part(results=[NONE]) == 0
    assert part("site", results=[NONE]) == 1
    assert part("site", results=[GOOD]) == 0
    assert part("site", results=[BAD]) == 1
    assert part("site", results=[Results(0, passed=["a"], left=["left behind: b"])]) == 1


def test_what_was_narrowed_or_broke_off_is_no_record_of_a_part(part):
    assert part("site", results=[GOOD], arguments=["-x"]) == 0
    assert part("site", results=[Results(2, passed=["a"])]) == 1
    assert records.load(part.folder) == []


def test_a_part_runs_alone_what_asks_for_it(monkeypatch):
    selected = []

    def session(folder, name, options):
        selected.append((options[options.index("-m") + 1], "no:xdist" in options))
        return Results(0, passed=[name])

    for module in (quick, test_all):
        monkeypatch.setattr(module, "session", session)
    results = test_all.run_part("site", [])
    assert results.passed == ["side by side", "one after the other"]
    assert selected == [
        ("part(of='site') and not alone", False),
        ("part(of='site') and alone", True),
    ]


def test_every_part_has_tests_and_its_night():
    text = "\n".join(path.read_text("utf-8") for path in ROOT.glob("tests/**/*.py"))
    used = set(re.findall(r'part\(of="([a-z-]+)"\)', text)) | {"quick"}
    assert used == set(test_all.PARTS)
    jobs = yaml.safe_load((ROOT / ".github/workflows/nightly.yml").read_text("utf-8"))["jobs"]
    assert jobs["part"]["strategy"]["matrix"]["part"] == list(test_all.PARTS)
