"""`make contest`: who is right is ranked, who is not gets a sentence, and nothing is left."""

import re

import psutil
import pytest

from helpers import board
from helpers.machine.compilers import has_compiler
from helpers.waiting import comes_true
from tests.conftest import no_compiler
from tools.contest import __main__ as contest
from tools.contest import trials

SLEEPER = """
import subprocess, time
def compressor():
    subprocess.Popen(["sleep", "871.25"])
    time.sleep(1000)
"""
CRASH = """
import os, signal
def compressor():
    os.kill(os.getpid(), signal.SIGSEGV)
def allreduce(x, comm):
    os._exit(3)
"""
WRONG = """
def compressor():
    raise SystemExit("no")
def allreduce(x, comm):
    return x if comm.rank else x + 1
product = "void multiply(int64_t n, const float *a, const float *b, float *c) { c[n] = 1; }"
"""
HANG = """
import time
def allreduce(x, comm):
    time.sleep(1000)
"""


def ranked(text):
    return re.findall(r"^ +\d+  (.*?)  ", text, re.M)


@pytest.fixture
def short(monkeypatch):
    """Small inputs: the same code in less time."""
    monkeypatch.setattr(trials, "NUMBERS", 4096)


@pytest.mark.mpi
@pytest.mark.skipif(not has_compiler("C"), reason=no_compiler("C"))
@pytest.mark.timeout(1200)
def test_right_programs_are_ranked_and_others_get_a_sentence(tmp_path, capsys, monkeypatch, short):
    monkeypatch.setattr(contest, "offer", lambda found: False)
    for name, text in {"wrong": WRONG, "crash": CRASH, "bad": "def (", "none": "x = 1"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    for path in contest.STARTERS.glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text())
    assert contest.main([str(tmp_path), "--rounds=1", "--limit=200"]) == 0
    said = capsys.readouterr().out
    assert set(ranked(said)) == {
        "product.py", "course's loop ikj", "allreduce.py", "course's ring", "MPI's own",
        "compressor.py", "course's top 1 %",
    }  # fmt: skip
    assert said.count("1.00 × as fast as the course's") >= 3
    assert re.search(r"wrong.py +not ranked: \d+ of \d+ elements of c are wrong for n = \d+", said)
    assert re.search(r"wrong.py +not ranked: arrays of length 1, seed \d+, 4 ranks: the su", said)
    assert re.search(r"wrong.py +not ranked: it raised SystemExit: no", said)
    assert re.search(r"crash.py +not ranked: Rank \d died", said)
    assert re.search(r"crash.py +not ranked: it crashed: signal 11", said)
    assert "bad.py: left out, since Python cannot read it" in said
    assert "none.py: left out, since it defines none of product, allreduce, compressor" in said


def test_a_program_without_end_is_ended_with_all_that_it_started(tmp_path):
    path = tmp_path / "sleeper.py"
    path.write_text(SLEEPER)
    entry = contest.Entry("sleeper.py", str(path))
    contest.compete("compressor", [entry], 1, 6.0)
    assert (entry.trouble, entry.times) == ("no end within 6 s", [])

    def alive():
        found = psutil.process_iter(["cmdline"])
        return any("871.25" in (one.info["cmdline"] or []) for one in found)

    assert comes_true(lambda: not alive())  # one that was killed is a process until it is reaped


@pytest.mark.mpi
def test_ranks_without_end_do_not_end_the_contest(tmp_path, short):
    (tmp_path / "hang.py").write_text(HANG)
    rivals = [contest.Entry("the ring", ""), contest.Entry("hang", str(tmp_path / "hang.py"))]
    contest.compete("allreduce", rivals, 1, 10.0)
    assert "Time limit of 10 s" in rivals[1].trouble
    assert len(rivals[0].times) == 1


def test_the_folder_is_made_with_starters_and_a_file_is_refused(tmp_path, capsys, monkeypatch):
    ran = []
    monkeypatch.setenv("WORK", str(tmp_path / "work"))
    monkeypatch.setattr(contest, "compete", lambda kind, rivals, *_: ran.append(kind))
    assert contest.main([]) == 1  # nobody was timed
    assert "has a starter for each kind" in capsys.readouterr().out
    assert ran == list(contest.KINDS)
    made = tmp_path / "work" / "contest"
    assert sorted(path.name for path in made.iterdir()) == [
        "allreduce.py", "compressor.py", "product.py"
    ]  # fmt: skip
    assert contest.main([str(made / "product.py")]) == 1
    assert "expected a folder, and it is a file" in capsys.readouterr().err


def test_the_board_is_offered_the_best_ratio_of_who_joined(tmp_path, monkeypatch):
    offered = []
    monkeypatch.setenv("WORK", str(tmp_path))
    monkeypatch.setattr(board, "offer", lambda name, **values: offered.append((name, values)))
    monkeypatch.setattr(board, "flush", lambda limit: 0)
    own, mine = contest.Entry("ring", "", [2.0, 3.0]), contest.Entry("a.py", "a.py", [1.0, 0.5])
    wrong = contest.Entry("b.py", "b.py", [0.1], "wrong")
    assert contest.offer({"allreduce": [own, mine, wrong]}) is False
    monkeypatch.setattr(board, "joined", lambda: True)
    assert contest.offer({"allreduce": [own, mine, wrong]}) is True
    assert offered == [("contest: allreduce", {"× the course's": 4.0})]
