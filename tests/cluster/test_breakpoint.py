"""``breakpoint()`` and ``input()`` on a rank ask in the notebook; the others rest meanwhile."""

import time

import psutil
import pytest

from helpers.cluster import Cluster
from tests.cluster.kernel import SETUP, Kernel, plain
from tests.cluster.ways import WAYS

pytestmark = pytest.mark.mpi


def script(*answers: str):
    """Return who types these, and what was asked."""
    asked, left = [], list(answers)

    def answer(prompt: str, shown) -> str:
        asked.append((prompt, plain(shown.text)))
        return left.pop(0)

    return answer, asked


def test_what_is_typed_reaches_the_rank_that_asked(cell):
    answer, asked = script("7")
    shown = cell("%%ranks\nx = int(input('How many? ')) if rank == 1 else 0\nx * 2", answer)
    assert not shown.error
    assert [prompt for prompt, _ in asked] == ["[1] How many? "]
    assert shown.text == "[0,2] 0\n[1] How many? 7\n[1] 14\n"


def test_a_breakpoint_opens_the_debugger_in_the_cell(cell):
    answer, asked = script("p secret", "n", "p here", "c")
    source = (
        "%%ranks\ndef work():\n    secret = 40 + rank\n    if rank == 0: breakpoint()\n"
        "    here = comm.allreduce(1)\n    return here + secret\nwork()"
    )
    shown = cell(source, answer)
    assert not shown.error
    assert [prompt for prompt, _ in asked] == ["[0] (Pdb) "] * 4
    assert "[0] -> here = comm.allreduce(1)" in asked[0][1]
    assert "[0] 40\n" in asked[1][1]
    assert "[0] 3\n" in asked[3][1]  # the others came to that line meanwhile
    assert shown.text.endswith("[0] (Pdb) c\n[0] 43\n[1] 44\n[2] 45\n")


def test_several_ranks_take_turns(cell):
    answer, asked = script("p rank", "c", "p rank", "c", "p rank", "c")
    shown = cell("%%ranks\nbreakpoint()\nx = 1", answer)
    assert not shown.error
    assert [prompt for prompt, _ in asked] == [f"[{r}] (Pdb) " for r in (0, 0, 1, 1, 2, 2)]


def test_meanwhile_the_others_leave_the_cores_and_the_time_limit_rests(cell):
    pids = eval(cell("print(cluster.pids)").text)
    used = []

    def cpu() -> float:
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)

    def answer(prompt: str, shown) -> str:
        before = cpu()
        time.sleep(1.5)
        used.append(cpu() - before)
        return "x"

    source = "%%ranks --timeout 1\nif rank == 0: input('?')\ncomm.barrier()\nrank"
    shown = cell(source, answer)
    assert shown.error == ""
    assert shown.text.endswith("[1] 1\n[2] 2\n")
    assert used[0] < 0.4, "ranks that wait for a debugger burnt a core"
    states = {psutil.Process(pid).status() for pid in pids}
    assert psutil.STATUS_STOPPED not in states


def test_the_limit_counts_what_the_ranks_take(cell):
    answer, _ = script("x")
    shown = cell("%%ranks --timeout 1\ninput('?') if rank == 0 else None\ncomm.recv()", answer)
    assert "Time limit of 1 s" in shown.error
    assert cell("%%ranks\nsize").text.endswith("[0-2] 3\n")  # after a bar, if ranks start slowly


def test_without_a_reader_a_sentence_says_so(cell):
    shown = cell("%%ranks --only 1\nbreakpoint()\nx = 1")
    assert "nobody can answer here" in shown.text
    assert "BdbQuit" in shown.error
    shown = cell("%%ranks --only 1\ninput('?')")
    assert "EOFError: nobody can answer here" in shown.error
    assert cell("%%ranks\nsize").text == "[0-2] 3\n"


@pytest.mark.parametrize("how", ["input('?')", "breakpoint()"])
def test_stop_ends_the_question_and_keeps_the_variables(cell, how):
    cell("%%ranks\nkept = rank")

    def answer(prompt: str, shown) -> str:
        cell.manager.interrupt_kernel()
        time.sleep(0.5)
        return ""

    shown = cell(f"%%ranks\nif rank == 1:\n    {how}\ncomm.barrier() if rank == 1 else 0", answer)
    assert "RanksInterrupted" in shown.error
    assert cell("%%ranks\nkept").text == "[0] 0\n[1] 1\n[2] 2\n"


def one_asks() -> str:
    from mpi4py import MPI

    return input("How many? ") if MPI.COMM_WORLD.rank else ""


@pytest.mark.parametrize("start", WAYS)
def test_a_function_asks_too(monkeypatch, start):
    asked = []
    monkeypatch.setattr("builtins.input", lambda prompt: asked.append(prompt) or "five")
    with Cluster(2, start=start) as cluster:
        assert cluster.run(one_asks) == ["", "five"]
    assert asked == ["[1] How many? "]


def test_a_kernel_killed_at_a_question_leaves_no_rank():
    kernel = Kernel()
    kernel(SETUP)
    pids = eval(kernel("print(cluster.pids)").text)
    own = eval(kernel("import os; print(os.getpid())").text)

    def answer(prompt: str, shown) -> str:
        psutil.Process(own).kill()
        raise EOFError

    with pytest.raises(EOFError):
        kernel("%%ranks\nif rank == 0: input('?')\ncomm.barrier()", answer)
    _, alive = psutil.wait_procs(
        [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=15
    )
    kernel.end()
    assert alive == []
