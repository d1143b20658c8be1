"""What people type in a cell on ranks: ``exit()``, a second magic, ``await``, endless output."""

import os
import signal
import threading
import time

import pytest

from tests.cluster.ways import PART

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("leave", ["exit()", "import sys; sys.exit()", "raise SystemExit(0)"])
def test_exit_ends_the_cell_and_keeps_the_ranks(cell, leave):
    shown = cell(f"%%ranks\nkept = rank\n{leave}\nprint('not reached')")
    assert shown.text == "[0-2] exit() ended this cell here; the ranks go on.\n"
    assert shown.error == ""
    assert cell("%%ranks\nprint(kept)").text == "[0] 0\n[1] 1\n[2] 2\n"


def test_an_exit_that_reports_a_failure_is_an_error_without_advice(cell):
    shown = cell("%%ranks\nimport sys\nsys.exit('no data')")
    assert shown.text == ""
    assert "no data" in shown.error
    assert "To exit: use" not in str(shown.outputs)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("%%bash\necho from bash", "[0-2] from bash\n"),
        ("\n%%capture kept\nprint(1)", ""),
        ("%%timeit -n 2 -r 2\nrank + 1", "2 loops each)"),
        ("%%time\nprint('timed')", "Wall time"),
    ],
)
def test_a_second_cell_magic_runs_on_the_ranks(cell, source, said):
    shown = cell(f"%%ranks\n{source}")
    assert said in shown.text
    assert shown.error == ""


def test_await_runs_and_its_tasks_live_on(cell):
    begin = (
        "import asyncio\nasync def twice(x): return 2 * x\nlater = asyncio.create_task(twice(rank))"
    )
    assert cell(f"%%ranks\n{begin}\nawait asyncio.sleep(0)").error == ""
    assert cell("%%ranks\nprint(await later)").text == "[0] 0\n[1] 2\n[2] 4\n"
    shown = cell("%%ranks\nawait asyncio.sleep(0)\n1 / 0")
    assert "ZeroDivisionError" in shown.error
    assert "Cell line 3" in shown.error


def test_await_ends_at_the_time_limit(cell):
    shown = cell("%%ranks --timeout 1\nimport asyncio\nawait asyncio.sleep(60)")
    assert "Time limit of 1 s reached by ranks 0, 1 and 2" in shown.error
    assert "CancelledError" not in shown.error
    assert cell("%%ranks\nprint(1)").text == "[0-2] 1\n"


ENDLESS = {
    "print": "print('0123456789')",
    "display": "display(1)",
    "written over": "print('0123456789', end='\\r')",
    "updates": "handle.update(1)",
}


@pytest.mark.parametrize(
    "what", ["print", *(pytest.param(what, marks=PART) for what in [*ENDLESS][1:])]
)
def test_endless_output_is_bounded_and_ends_at_the_time_limit(cell, what):
    begin = "from IPython.display import display\nhandle = display(0, display_id=True)\n"
    began = time.monotonic()
    shown = cell(f"%%ranks --only 0 --timeout 2\n{begin}while True: {ENDLESS[what]}")
    assert time.monotonic() - began < 60
    assert "Time limit of 2 s" in shown.error
    assert len(str(shown.outputs)) < 5_000_000
    memory = "import psutil\nprint(psutil.Process().memory_info().rss < 1.5e9)"
    assert cell(f"%%ranks\n{memory}").text == "[0-2] True\n"


def test_a_long_animation_is_not_cut(cell):
    begin = "from IPython.display import clear_output, display\nfor frame in range(700):\n"
    shown = cell(f"%%ranks --only 0\n{begin}    clear_output(wait=True); display(frame)")
    assert "cut" not in str(shown.outputs)
    assert "699" in str(shown.outputs)


def test_stop_pressed_twice_is_as_good_as_once(cell):
    def press():
        for seconds in (1.0, 0.4):
            time.sleep(seconds)
            os.kill(cell.pid, signal.SIGINT)

    threading.Thread(target=press).start()
    stuck = "import re\nre.match('(a+)+$', 40 * 'a' + 'b')"  # C code that keeps the interpreter
    shown = cell(f"%%ranks --timeout 60 --only 1\n{stuck}")
    assert shown.error.startswith("RanksInterrupted: ")
    assert "KeyboardInterrupt" not in shown.error
    assert cell("%%ranks\nprint(rank)").text == "[0] 0\n[1] 1\n[2] 2\n"


def test_a_hidden_variable_is_named(cell):
    shown = cell("size = 1000\ncluster.run(lambda: size)")
    assert shown.text.startswith("size on a rank is the rank's own, not the notebook's 1000")


def test_what_run_calls_is_quoted_by_its_line_of_the_cell(cell):
    cell("def inverse(x):\n    return 1 / x")
    shown = cell("def two():\n    return inverse(0)\ncluster.run(two)")
    told = shown.error
    assert "return inverse(0)" in told
    assert "return 1 / x" in told
    assert "ipykernel_" not in told
    shown = cell("def late():\n    comm.recv()\ncluster.run(late, timeout=1)")
    assert "2: comm.recv()" in shown.error


def test_finalize_in_an_earlier_cell_is_named(cell):
    cell("%%ranks\nMPI.Finalize()")
    shown = cell("%%ranks\ncomm.barrier()")
    assert "MPI.Finalize() was called in an earlier cell" in shown.error
    cell("cluster.restart()")
    assert cell("%%ranks\nprint(comm.allreduce(1))").text == "[0-2] 3\n"
