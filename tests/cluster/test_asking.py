"""Tab, Shift+Tab and ``?`` in a cell that is for the ranks tell of the ranks' names."""

import os
import signal

import pytest

from tests.cluster.kernel import SETUP, Kernel, plain

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def cell():
    kernel = Kernel()
    assert not kernel(SETUP).error
    kernel("import math\nhere_only = 1\npids = cluster.pids")
    # limits for a busy machine; jedi takes longer than all else
    kernel("from helpers.cluster.kernel import calls\ncalls.ASK_SECONDS = 6")
    kernel("%config Completer.use_jedi = False")
    assert not kernel(
        "%%ranks\nfrom helpers.cluster.rank import remote\nremote.ANSWER_SECONDS = 5\n"
        "class Layer:\n    def forward(self, inputs, scale=2):\n"
        "        '''Multiply what comes in.'''\n        return inputs * scale\n"
        "layer_on_ranks = Layer()\nif rank == 2: layer_on_two = 1"
    ).error
    yield kernel
    kernel.end()


def matches(cell, code: str, cursor: int | None = None) -> list[str]:
    reply = cell.completions(code, cursor)
    start, end = reply["cursor_start"], reply["cursor_end"]
    return [code[:start] + match + code[end:] for match in reply["matches"]]


def test_names_and_attributes_of_the_ranks_are_completed(cell):
    assert matches(cell, "%%ranks\nlayer_on_r") == ["%%ranks\nlayer_on_ranks"]
    assert "%%ranks\nlayer_on_ranks.forward" in matches(cell, "%%ranks\nlayer_on_ranks.for")
    assert "%%ranks --timeout 9\ncomm.allreduce" in matches(cell, "%%ranks --timeout 9\ncomm.allr")


def test_in_the_middle_of_a_cell(cell):
    code = "%%ranks\nx = 'ä' + layer_on_r\nprint(x)"
    assert matches(cell, code, code.index("\nprint")) == [code.replace("_r\n", "_ranks\n")]


def test_the_rank_is_one_that_runs_the_cell(cell):
    assert matches(cell, "%%ranks --only 1,2\nlayer_on_t") == []
    assert matches(cell, "%%ranks --only 2\nlayer_on_t") == ["%%ranks --only 2\nlayer_on_two"]


def test_a_cell_of_the_kernels_is_completed_as_ever(cell):
    assert matches(cell, "layer_on_r") == []
    assert "here_only" in matches(cell, "here_on")


def test_names_that_the_kernel_alone_has_are_not_offered(cell):
    assert matches(cell, "%%ranks\nhere_on") == []


def test_the_line_of_the_magic_is_the_kernels(cell):
    assert "%%ranks" in matches(cell, "%%rank")


def test_shift_tab_explains(cell):
    assert "Multiply what comes in." in cell.help("%%ranks\nlayer_on_ranks.forward")
    assert "return inputs * scale" in cell.help("%%ranks\nlayer_on_ranks.forward", 1)
    assert cell.help("layer_on_ranks.forward") == ""
    assert "factorial" in cell.help("math.factorial")


def test_a_question_mark_explains_once(cell):
    shown = cell("%%ranks\nlayer_on_ranks.forward?")
    assert shown.text.count("Multiply what comes in.") == 1
    assert "[0-2]" in shown.text
    assert "return inputs * scale" in plain(cell("%%ranks\nlayer_on_ranks.forward??").text)


def test_a_rank_that_does_not_answer_keeps_nobody_waiting(cell):
    code = "%%ranks\nlayer_on_r"
    rank0 = eval(cell("print(pids[0])").text)
    os.kill(rank0, signal.SIGSTOP)
    try:
        assert matches(cell, code) == []
        cell("unanswered = cluster._question")
        assert matches(cell, code) == []  # nothing is asked while something is unanswered
        assert cell("print(cluster._question is unanswered)").text == "True\n"
    finally:
        os.kill(rank0, signal.SIGCONT)
    assert cell("%%ranks\ncomm.allreduce(1)").text == "[0-2] 3\n"
    assert matches(cell, code) == [code + "anks"]


def test_a_name_that_takes_for_ever_is_given_up(cell):
    cell("%%ranks\nclass Slow:\n    def __dir__(self): import time; time.sleep(60)\nslow = Slow()")
    matches(cell, "%%ranks\nslow.x")
    assert cell("%%ranks --timeout 5\ncomm.allreduce(1)").text == "[0-2] 3\n"


def test_ranks_that_are_busy_or_gone_keep_nobody_waiting(cell):
    cell(
        "import threading\npids = cluster.pids\nbusy = threading.Thread(target=cluster.run, args=("
        "lambda: __import__('time').sleep(60),))\nbusy.start()\n"
        "while not cluster._lock.locked(): pass"
    )
    assert matches(cell, "%%ranks\nlayer_on_r") == []
    assert cell("print(busy.is_alive())").text == "True\n"
    cell("import os\nos.kill(pids[0], 9)\nbusy.join()\ncluster.stop()")
    assert matches(cell, "%%ranks\nlayer_on_r") == []
    assert cell.help("%%ranks\nlen")  # for want of ranks, the kernel's own
