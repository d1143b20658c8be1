"""What ranks print, draw and update is there while the cell still runs, and once in the end."""

import re

import pytest

from tests.cluster.ways import PART

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def cell(cell):
    cell("%%ranks\nimport time\nfrom IPython.display import clear_output, display")
    return cell


@pytest.mark.parametrize("where", [pytest.param("tqdm", marks=PART), "tqdm.auto"])
def test_a_progress_bar_moves_and_leaves_its_end(cell, where):
    source = (
        f"%%ranks --only 1\nfrom {where} import tqdm\n"
        "for _ in tqdm(range(30), mininterval=0): time.sleep(0.1)"
    )
    shown = cell(source)
    assert shown.text.count("\n") == 1
    assert re.match(r"\[1\] 100%.* 30/30 \[", shown.text)
    moves = {found for state in shown.states for found in re.findall(r"^\[1\].* (\d+)/30 ", state)}
    assert len(moves) >= 3, shown.states


def test_a_control_is_shown_as_words_and_that_it_stands_still(cell):
    slider = "ipywidgets.IntSlider(3 + rank // 2, description='n:')"
    for code in (slider, f"display({slider})"):
        shown = cell(f"%%ranks\nimport ipywidgets\n{code}")
        words = [line.partition(" (")[0] for line in shown.text.splitlines()]
        assert words == ["[0-1] [n: 3]", "[2] [n: 4]"]
        assert shown.text.count("show it in a cell without %%ranks") == 2


def test_a_display_is_updated_in_its_place(cell):
    source = (
        "%%ranks\nprint('first')\nshown = display('state 0', display_id=True)\nprint('last')\n"
        "for i in range(1, 5):\n    time.sleep(0.6)\n    shown.update(f'state {i}')"
    )
    shown = cell(source)
    assert shown.text == "[0-2] first\n[0-2] 'state 4'\n[0-2] last\n"
    live = [state.split("\n")[1] for state in shown.states if state.count("\n") == 3]
    assert len({"[0-2] 'state 1'", "[0-2] 'state 2'", "[0-2] 'state 3'"} & set(live)) > 1, live


def test_a_display_of_an_earlier_cell_is_shown_anew(cell):
    cell("%%ranks\nearlier = display('old', display_id='earlier');")
    assert cell("%%ranks\nearlier.update('new')").text == "[0-2] 'new'\n"


def test_what_is_cleared_is_gone(cell):
    assert cell("%%ranks\nprint('a')\nclear_output()\nprint('b')").text == "[0-2] b\n"
    source = "%%ranks\nprint('a')\nclear_output(wait=True)"
    assert cell(source).text == "[0-2] a\n"
    assert cell(source + "\nprint('b')").text == "[0-2] b\n"
    assert cell(source + "\nrank").text == "[0] 0\n[1] 1\n[2] 2\n"


def test_figures_are_there_while_the_cell_runs(cell):
    cell("%%ranks\nimport matplotlib.pyplot as plt")
    source = (
        "%%ranks --only 0\nfor i in range(4):\n    clear_output(wait=True)\n"
        "    plt.plot([0, i])\n    plt.show()\n    print('step', i)\n    time.sleep(0.7)"
    )
    shown = cell(source)
    assert sum("image/png" in output.get("data", {}) for output in shown.outputs) == 1
    assert shown.text.endswith("[0] step 3\n")
    assert any("step 1" in state or "step 2" in state for state in shown.states)


def test_much_is_shown_by_its_end(cell):
    source = "%%ranks\nfor i in range(2000): print('line', i, rank)\ntime.sleep(2.5)\nprint('done')"
    shown = cell(source)
    live = [state for state in shown.states if "done" not in state]
    assert any("[1] line 1999 1\n" in state for state in live)
    assert max(map(len, live)) < 2000
    assert shown.text.count("\n") == 3 * 2001


def test_one_cells_output_never_shows_in_the_next(cell):
    cell("%%ranks\nprint('of the first')\ntime.sleep(1.6)")
    shown = cell("%%ranks\ntime.sleep(1.6)\nprint('of the second')\ntime.sleep(0.6)")
    assert not any("first" in state for state in shown.states)
    assert shown.text == "[0-2] of the second\n"


def test_a_rank_that_begins_late_does_not_show_the_cell_before(cell):
    pids = re.findall(r"\d+$", cell("%%ranks\nimport os\nprint(os.getpid())").text, re.MULTILINE)
    cell("%%ranks\nprint('of the first')\ntime.sleep(1.6)")
    cell(
        f"import os, signal, threading\ndef all_get(number):\n    for pid in {pids}:\n"
        "        os.kill(int(pid), number)\nall_get(signal.SIGSTOP)\n"
        "threading.Timer(2.5, all_get, [signal.SIGCONT]).start()"
    )
    shown = cell("%%ranks\nprint('of the second')\ntime.sleep(1.6)")
    assert shown.text == "[0-2] of the second\n"
    assert not any("first" in state for state in shown.states), shown.states


def test_a_bar_that_moves_for_long_leaves_room_for_the_rest(cell):
    source = (
        "%%ranks --only 0 --timeout 60\nimport sys\nfor i in range(30_000):\n"
        "    print(f'\\r{i:20}', end='')\nprint()\nprint('after')"
    )
    text = cell(source).text
    assert text == f"[0] {29999:20}\n[0] after\n"


def test_a_second_cluster_starts_without_a_word(cell):
    assert "are ready" not in cell("with Cluster(1) as other:\n    print(other.n)").text
