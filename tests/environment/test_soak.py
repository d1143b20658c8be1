"""`make soak`: what fails is counted and said, what is left is named, the record is written."""

import mmap
import os
import tempfile
from pathlib import Path

import pytest

from helpers import records
from tools import grading, run, soak

DO = ("--clusters", "0", "--starts", "0")


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(soak, "SETTLE", 0.0)


def test_failures_are_counted_and_the_first_is_said(capsys):
    answers = iter([[], ["cell 3 raised", "and more"], [], ["died"]])
    row = soak.repeat("01_a", 4, lambda: next(answers))
    assert (row.value, row.unit) == (2, "failures")
    assert (row.parameters["runs"], row.parameters["first"]) == (4, "cell 3 raised")
    assert "run 2 of 4: cell 3 raised" in capsys.readouterr().out


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


@pytest.mark.parametrize("wrong", [["--times", "-1"], ["--starts", "-1"]])
def test_bad_numbers_are_refused(wrong):
    with pytest.raises(SystemExit):
        soak.main(wrong)


def test_little_shared_memory_is_a_row_and_what_fails_there_is_told(monkeypatch, tmp_path):
    test = tmp_path / "test_small.py"
    test.write_text(
        "import os, pytest\n"
        "def test_many_starts():\n    assert os.environ['STARTS'] == '3'\n"
        "@pytest.mark.parametrize('n', [int(os.environ['MEGABYTES']), 8])\n"
        "def test_long_messages(n):\n    assert n > 8\n"
        "def test_other():\n    assert False\n"
    )
    monkeypatch.setattr(soak, "SMALL", str(test))
    assert soak.small(3) == []
    (said,) = soak.small(4)
    assert said.startswith("FAILED")
    assert "test_many_starts" in said
    test.write_text(
        "import pytest\ndef test_many_starts():\n    pytest.skip('no right to mount')\n"
    )
    (said,) = soak.small(3)
    assert "no right" in said
    monkeypatch.setattr(soak, "SHARED", tmp_path / "shm")
    row, left = soak.soak([], 0, 0, 3)
    assert (row.value, row.parameters["runs"]) == (1, 1)
    assert left.parameters["names"] == []  # of pytest's folders


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


@pytest.mark.parametrize("tool", [soak, run, grading])
def test_a_notebook_that_is_not_there_is_named(tool, capsys):
    with pytest.raises(SystemExit) as ended:
        tool.main(["77"])
    assert ended.value.code == 1
    assert "there is no notebook '77'; there are 00_start_here" in capsys.readouterr().err


@pytest.mark.mpi
def test_clusters_at_once_live_and_a_failure_among_them_is_told(monkeypatch):
    monkeypatch.setattr(soak, "KERNELS", 2)
    assert soak.at_once() == []
    monkeypatch.setattr(soak, "KERNEL", "raise SystemExit('not today')")
    assert soak.at_once() == ["2 of 2 kernels: not today"]
