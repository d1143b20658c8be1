"""What people type in a cell on ranks: ``exit()``, a second magic, ``await``, endless output."""

import os
import signal
import threading
import time

import pytest

from tests.cluster.kernel import plain
from tests.cluster.test_magic import cell, errors
from tests.cluster.ways import PART

pytestmark = pytest.mark.mpi
__all__ = ["cell"]


@pytest.mark.parametrize("leave", ["exit()", "import sys; sys.exit()", "raise SystemExit(0)"])
def test_exit_ends_the_cell_and_keeps_the_ranks(cell, leave):
    printed, outputs = cell(f"%%ranks\nkept = rank\n{leave}\nprint('not reached')")
    assert printed == "[0-2] exit() ended this cell here; the ranks go on.\n"
    assert errors(outputs) == ""
    assert cell("%%ranks\nprint(kept)")[0] == "[0] 0\n[1] 1\n[2] 2\n"


def test_an_exit_that_reports_a_failure_is_an_error_without_advice(cell):
    printed, outputs = cell("%%ranks\nimport sys\nsys.exit('no data')")
    assert printed == ""
    assert "no data" in errors(outputs)
    assert "To exit: use" not in str(outputs)


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
    printed, outputs = cell(f"%%ranks\n{source}")
    shown = printed + "".join(str(out.get("data", "")) for out in outputs)
    assert said in shown
    assert errors(outputs) == ""


def test_await_runs_and_its_tasks_live_on(cell):
    begin = (
        "import asyncio\nasync def twice(x): return 2 * x\nlater = asyncio.create_task(twice(rank))"
    )
    assert errors(cell(f"%%ranks\n{begin}\nawait asyncio.sleep(0)")[1]) == ""
    assert cell("%%ranks\nprint(await later)")[0] == "[0] 0\n[1] 2\n[2] 4\n"
    _, outputs = cell("%%ranks\nawait asyncio.sleep(0)\n1 / 0")
    assert "ZeroDivisionError" in errors(outputs)
    assert "Cell line 3" in errors(outputs)


def test_await_ends_at_the_time_limit(cell):
    _, outputs = cell("%%ranks --timeout 1\nimport asyncio\nawait asyncio.sleep(60)")
    assert "Time limit of 1 s reached by ranks 0, 1 and 2" in errors(outputs)
    assert "CancelledError" not in errors(outputs)
    assert cell("%%ranks\nprint(1)")[0] == "[0-2] 1\n"


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
    _, outputs = cell(f"%%ranks --only 0 --timeout 2\n{begin}while True: {ENDLESS[what]}")
    assert time.monotonic() - began < 60
    assert "Time limit of 2 s" in errors(outputs)
    assert len(str(outputs)) < 5_000_000
    memory = "import psutil\nprint(psutil.Process().memory_info().rss < 1.5e9)"
    assert cell(f"%%ranks\n{memory}")[0] == "[0-2] True\n"


def test_a_long_animation_is_not_cut(cell):
    begin = "from IPython.display import clear_output, display\nfor frame in range(700):\n"
    _, outputs = cell(f"%%ranks --only 0\n{begin}    clear_output(wait=True); display(frame)")
    assert "cut" not in str(outputs)
    assert "699" in str(outputs)


def test_stop_pressed_twice_is_as_good_as_once(cell):
    pid = int(cell("import os\nprint(os.getpid())")[0])

    def press():
        for seconds in (1.0, 0.4):
            time.sleep(seconds)
            os.kill(pid, signal.SIGINT)

    threading.Thread(target=press).start()
    stuck = "import re\nre.match('(a+)+$', 40 * 'a' + 'b')"  # C code that keeps the interpreter
    _, outputs = cell(f"%%ranks --timeout 60 --only 1\n{stuck}")
    assert [out["ename"] for out in outputs if out["output_type"] == "error"] == [
        "RanksInterrupted"
    ]
    assert cell("%%ranks\nprint(rank)")[0] == "[0] 0\n[1] 1\n[2] 2\n"


def test_a_hidden_variable_is_named(cell):
    printed, _ = cell("size = 1000\ncluster.run(lambda: size)")
    assert printed.startswith("size on a rank is the rank's own, not the notebook's 1000")


def test_what_run_calls_is_quoted_by_its_line_of_the_cell(cell):
    cell("def inverse(x):\n    return 1 / x")
    _, outputs = cell("def two():\n    return inverse(0)\ncluster.run(two)")
    told = plain(errors(outputs))
    assert "return inverse(0)" in told
    assert "return 1 / x" in told
    assert "ipykernel_" not in told
    _, outputs = cell("def late():\n    comm.recv()\ncluster.run(late, timeout=1)")
    assert "2: comm.recv()" in errors(outputs)


def test_finalize_in_an_earlier_cell_is_named(cell):
    cell("%%ranks\nMPI.Finalize()")
    _, outputs = cell("%%ranks\ncomm.barrier()")
    assert "MPI.Finalize() was called in an earlier cell" in errors(outputs)
    cell("cluster.restart()")
    assert cell("%%ranks\nprint(comm.allreduce(1))")[0] == "[0-2] 3\n"
