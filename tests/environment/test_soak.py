"""`make soak`: what fails is counted and said, what is left is named, the record is written."""

import contextlib
import getpass
import mmap
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

from helpers import records
from tests.cluster.ways import PART
from tools import grading, notebooks, run, soak
from tools.site import __main__ as site

DO = ("--clusters", "0")


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(soak, "SETTLE", 0.0)


def test_failures_are_counted_and_the_first_is_said(capsys):
    answers = iter([[], ["cell 3 raised", "and more"], [], ["died"]])
    (row,) = soak.in_turn([soak.Trial("01_a", 4, lambda: next(answers))])
    assert (row.value, row.unit) == (2, "failures")
    assert (row.parameters["runs"], row.parameters["first"]) == (4, "cell 3 raised")
    said = capsys.readouterr().out
    assert "run 2 of 4: cell 3 raised" in said
    assert "round 3: 1 of 3 runs failed\n" in said


def test_they_take_turns_and_ctrl_c_keeps_what_was_done(monkeypatch, tmp_path):
    done = []

    def the_fifth_is_interrupted(name):
        done.append(name)
        if len(done) == 5:
            raise KeyboardInterrupt
        return []

    monkeypatch.setattr(soak, "notebook", the_fifth_is_interrupted)
    monkeypatch.setattr(soak, "SHARED", tmp_path / "shm")
    *ran, left = soak.soak(["00_a", "01_b", "02_c"], 3, 0)
    assert done == ["00_a", "01_b", "02_c", "00_a", "01_b"]
    assert {row.name: row.parameters["runs"] for row in ran} == {"00_a": 2, "01_b": 1, "02_c": 1}
    assert left.value == 0


def test_what_the_readme_names_is_not_left_behind_and_the_rest_is(monkeypatch, tmp_path):
    def leaves(name):
        for folder in (f"torchinductor_{getpass.getuser()}", "torchinductor_nobody"):
            (Path(tempfile.gettempdir()) / folder).mkdir(exist_ok=True)
        return []

    monkeypatch.setattr(soak, "notebook", leaves)
    monkeypatch.setattr(soak, "SHARED", tmp_path / "shm")
    *_, left = soak.soak(["00_a"], 1, 0)
    assert [Path(name).name for name in left.parameters["names"]] == ["torchinductor_nobody"]


@PART
@pytest.mark.mpi
def test_ctrl_c_while_a_notebook_runs_ends_its_kernel_and_leaves_nothing(monkeypatch):
    found, seen = [], []

    def words(of: list[psutil.Process]) -> str:
        lines = []
        for one in of:
            with contextlib.suppress(psutil.Error):
                lines += one.cmdline()
        return " ".join(lines)

    def interrupt():
        deadline = time.monotonic() + 120
        while "forkserver" not in words(found) and time.monotonic() < deadline:  # ranks are there
            time.sleep(0.1)
            found[:] = set(psutil.Process().children(recursive=True)) - before
        seen.append(words(found))
        os.kill(os.getpid(), signal.SIGINT)

    def alive() -> list[str]:
        lines = []
        for one in found:
            with contextlib.suppress(psutil.Error):
                if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                    lines.append(" ".join(one.cmdline()))
        return lines

    monkeypatch.setattr(soak, "SETTLE", 5.0)
    before = set(psutil.Process().children(recursive=True))
    threading.Thread(target=interrupt, daemon=True).start()
    (left,) = soak.soak(["00_start_here"], 2, 0)
    assert "ipykernel" in seen[0]
    assert "forkserver" in seen[0]
    deadline = time.monotonic() + 10
    while alive() and time.monotonic() < deadline:  # orphans too: pytest has them no longer
        time.sleep(0.1)
    assert alive() == []
    assert left.parameters["names"] == []


def test_ctrl_c_while_the_last_processes_end_keeps_the_record(monkeypatch, tmp_path):
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(soak, "notebook", lambda name: [])
    monkeypatch.setattr(soak, "SHARED", tmp_path / "shm")
    monkeypatch.setattr(soak.time, "sleep", interrupted)
    ran, left = soak.soak(["00_a"], 1, 0)
    assert (ran.parameters["runs"], left.value) == (1, 0)


def test_a_fault_of_a_notebook_is_told(monkeypatch, tmp_path):
    fault = "00_start_here, reader: cell 3 raised"
    monkeypatch.setattr(soak, "ROOT", tmp_path)
    (tmp_path / "tools").mkdir()
    run = tmp_path / "tools" / "run.py"
    run.write_text(f"import sys; print('{fault}'); print('a table'); sys.exit(1)")
    assert soak.notebook("00_start_here") == ["cell 3 raised"]
    run.write_text("raise OSError('no kernel')")
    assert soak.notebook("00_start_here") == ["OSError: no kernel"]
    run.write_text("print('a table')")
    assert soak.notebook("00_start_here") == []


def test_what_is_left_is_named_and_the_record_says_all(monkeypatch, tmp_path):
    def leaves(name):
        Path(tempfile.mkdtemp(prefix="left-"))
        assert os.environ["TMPDIR"] == tempfile.gettempdir()
        return []

    monkeypatch.setattr(soak, "notebook", leaves)
    monkeypatch.setattr(soak, "SHARED", tmp_path / "shm")
    before = tempfile.gettempdir(), os.environ.get("TMPDIR")
    out = tmp_path / "records"
    assert soak.main(["00", *DO, "--times", "2", "--out", str(out)]) == 1
    assert (tempfile.gettempdir(), os.environ.get("TMPDIR")) == before
    (read,) = records.load(out)
    ran, left = read.suites["soak"]
    assert (ran.value, ran.parameters["runs"]) == (0, 2)
    assert left.value == 2
    assert all("/left-" in name for name in left.parameters["names"])


@pytest.mark.parametrize("wrong", [["--times", "-1"], ["--clusters", "-1"]])
def test_bad_numbers_are_refused(wrong):
    with pytest.raises(SystemExit):
        soak.main(wrong)


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="/dev/shm is Linux's")
def test_what_others_use_is_not_left():
    path = Path(f"/dev/shm/mpich_shm_soak{os.getpid()}_0")
    path.write_bytes(bytes(4096))
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            assert str(path) in soak.in_use()
        assert str(path) in soak.there([soak.SHARED]) - soak.in_use()
    finally:
        path.unlink()


@pytest.mark.parametrize("tool", [soak, run, grading, notebooks, site])
def test_a_notebook_that_is_not_there_is_named(tool, capsys):
    with pytest.raises(SystemExit, match="1"):
        raise SystemExit(tool.main(["77"]))  # some return it
    assert "there is no notebook '77'; there are 00_start_here" in capsys.readouterr().err


@PART
@pytest.mark.mpi
def test_clusters_at_once_live_and_a_failure_among_them_is_told(monkeypatch):
    monkeypatch.setattr(soak, "KERNELS", 2)
    assert soak.at_once() == []
    monkeypatch.setattr(soak, "KERNEL", "raise SystemExit('not today')")
    assert soak.at_once() == ["2 of 2 kernels: not today"]
