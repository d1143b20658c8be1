"""`python -m tools.test`: every test runs in one of the stages, and no failure gets lost."""

import os
import re
import signal
import subprocess
import sys

import pytest

from helpers.paths import ROOT
from tools.test import failures, process_of, wait_for, worst

TESTS = """
import os, pytest

def test_shares_the_cores():
    assert os.environ.get("PYTEST_XDIST_WORKER")

@pytest.mark.mpi
def test_with_ranks_shares_too():
    assert os.environ.get("PYTEST_XDIST_WORKER")

@pytest.mark.mpi
@pytest.mark.slurm
def test_on_a_slurm_shares_too():
    assert os.environ["PYTEST_XDIST_WORKER_COUNT"] == "2"

@pytest.mark.alone
@pytest.mark.mpi
def test_has_the_machine():
    assert not os.environ.get("PYTEST_XDIST_WORKER")

@pytest.mark.alone
@pytest.mark.gpu
def test_fails():
    assert False
"""


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [([0, 0], 0), ([1, 0], 1), ([0, 1], 1), ([0, 5], 0), ([5, 1], 1), ([5, 5], 5), ([-11], 11)],
)
def test_one_exit_status_for_all_stages(statuses, expected):
    assert worst(statuses) == expected


@pytest.mark.timeout(900)  # several sessions of pytest, one after the other
@pytest.mark.parametrize(
    ("marks", "status", "passed"),
    [("not gpu", 0, ["1"] * 4), ("gpu", 1, [])],
)
def test_each_test_runs_in_its_stage(tmp_path, marks, status, passed):
    (tmp_path / "test_four.py").write_text(TESTS)
    command = [sys.executable, "-m", "tools.test", "-m", marks, str(tmp_path)]
    command += ["-c", str(ROOT / "pyproject.toml")]
    said = tmp_path / "failures"
    command += ["--failures", str(said)]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    answer = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True)
    assert answer.returncode == status, answer.stdout + answer.stderr
    assert re.findall(r"(\d+) passed", answer.stdout) == passed
    assert said.read_text().splitlines()[1] == f"{status} tests failed"
    assert ("once more alone" in answer.stdout) == (status == 1)
    assert ("test_four::test_fails: assert False" in said.read_text()) == (status == 1)
    assert answer.stdout.endswith(said.read_text())


FLAKY = """
import os, pytest

@pytest.mark.parametrize("n", range(2))
def test_wants_the_machine_for_itself(n):
    assert not os.environ.get("PYTEST_XDIST_WORKER"), "busy"
"""
LEAVES = """
import pathlib, tempfile

def test_leaves_a_file():
    pathlib.Path(tempfile.gettempdir(), "left-by-a-test").touch()
"""

HAS_MPI = """
import pytest
from mpi4py import MPI

@pytest.mark.alone
def test_has_a_world_of_one_rank():
    assert MPI.COMM_WORLD.size == 1
"""


def run_tests(tmp_path, source, **environment):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text(source)
    said = tmp_path / "failures"
    command = [sys.executable, "-m", "tools.test", str(tmp_path / "tests"), "--failures", str(said)]
    command += ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.leftovers"]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    answer = subprocess.run(
        command, cwd=ROOT, env=clean | environment, capture_output=True, text=True
    )
    return answer.returncode, said.read_text().strip().splitlines()


@pytest.mark.timeout(900)
def test_what_fails_beside_others_and_not_alone_has_passed_and_is_said(tmp_path):
    status, said = run_tests(tmp_path, FLAKY)
    assert status == 0
    assert said == ["0 tests failed, 2 more at first and not alone"]


@pytest.mark.timeout(900)
def test_started_in_the_background_it_has_tests_that_ctrl_c_reaches(tmp_path):
    source = (
        "import signal, time\nimport pytest\n\ndef test_is_interrupted():\n"
        "    with pytest.raises(KeyboardInterrupt):\n"
        "        signal.raise_signal(signal.SIGINT)\n        time.sleep(1)\n"
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a child keeps that
    try:
        status, said = run_tests(tmp_path, source)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (status, said) == (0, ["0 tests failed"])


@pytest.mark.timeout(900)
def test_what_is_left_behind_is_said_and_no_success(tmp_path):
    (tmp_path / "temporary").mkdir()
    status, said = run_tests(tmp_path, LEAVES, CI="true", TMPDIR=str(tmp_path / "temporary"))
    assert status == 1
    assert said[0] == "0 tests failed"
    assert "left behind: " in said[1]
    assert "left-by-a-test" in said[1]


@pytest.mark.timeout(900)
def test_what_mpi_has_until_the_tests_own_process_ends_is_not_left_behind(tmp_path):
    status, said = run_tests(tmp_path, HAS_MPI, CI="true")
    assert (status, said) == (0, ["0 tests failed"])


def test_a_stage_that_left_no_report_is_no_success(tmp_path):
    assert failures(tmp_path / "side by side.xml") == [
        "side by side: pytest ended without a report"
    ]


def test_the_last_stage_waits_for_what_runs_beside():
    beside = subprocess.Popen(["sleep", "1"])  # nobody waits for it here: it becomes a zombie
    process = process_of(beside.pid)
    wait_for(process)
    assert beside.poll() == 0
    wait_for(process)
    wait_for(process_of(None))
