"""Tab, Shift+Tab and ``?`` in a cell that is for the ranks tell of the ranks' names."""

import os
import signal

import pytest

from tests.cluster.kernel import plain

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def cell(cell):
    cell("import math\nhere_only = 1\npids = cluster.pids")
    # limits for a busy machine; jedi takes longer than all else
    cell("from helpers.cluster.kernel import calls\ncalls.QUERY_SECONDS = 6")
    cell("%config Completer.use_jedi = False")
    assert not cell(
        "%%ranks\nfrom helpers.cluster.rank import remote\nremote.ANSWER_SECONDS = 5\n"
        "class Layer:\n    def forward(self, inputs, scale=2):\n"
        "        '''Multiply what comes in.'''\n        return inputs * scale\n"
        "layer_on_ranks = Layer()\nif rank == 2: layer_on_two = 1"
    ).error
    return cell


def matches(cell, code: str, cursor: int | None = None) -> list[str]:
    reply = cell.completions(code, cursor)
    start, end = reply["cursor_start"], reply["cursor_end"]
    return [code[:start] + match + code[end:] for match in reply["matches"]]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("%%ranks\nlayer_on_r", "", "%%ranks\nlayer_on_ranks"),
        ("%%ranks\nlayer_on_ranks.for", "", "%%ranks\nlayer_on_ranks.forward"),
        ("%%ranks\nx = 'ä' + layer_on_r", "\nprint(x)", "%%ranks\nx = 'ä' + layer_on_ranks"),
        ("%%ranks --only 1,2\nlayer_on_t", "", None),  # the first of them answers
        ("%%ranks --only 2\nlayer_on_t", "", "%%ranks --only 2\nlayer_on_two"),
        ("layer_on_r", "", None),
        ("%%ranks\nhere_on", "", None),
    ],
)
def test_names_and_attributes_of_the_ranks_are_completed(cell, before, after, found):
    assert matches(cell, before + after, len(before)) == ([found + after] if found else [])


def test_a_cell_of_the_kernels_and_the_line_of_the_magic_are_completed_as_ever(cell):
    assert "here_only" in matches(cell, "here_on")
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
        cell("unanswered = cluster._query")
        assert matches(cell, code) == []  # nothing is asked while something is unanswered
        assert cell("print(cluster._query is unanswered)").text == "True\n"
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
