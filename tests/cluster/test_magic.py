"""``%%ranks`` as a reader sees it: the outputs of cells executed in a real kernel."""

import base64

import pytest

pytestmark = pytest.mark.mpi


def test_output_and_last_expression_in_rank_order_and_variables_persist(cell):
    shown = cell("%%ranks\nkept = rank + 1\nprint('I am', rank)\nrank * 10")
    assert shown.text == "[0] I am 0\n[0] 0\n[1] I am 1\n[1] 10\n[2] I am 2\n[2] 20\n"
    assert not shown.error
    assert cell("%%ranks --only 0,2\nkept").text == "[0] 1\n[2] 3\n"
    shown = cell("%%ranks\nMPI.COMM_WORLD is comm, rank == comm.rank, size == comm.size")
    assert shown.text == "[0-2] (True, True, True)\n"


def test_a_semicolon_and_none_show_nothing(cell):
    assert cell("%%ranks\n5;").outputs == cell("%%ranks\nNone").outputs == []


def test_ipython_puts_no_error_into_words_which_an_interrupt_could_meet(cell):
    source = (
        "%%ranks --timeout 2 --only 1\nimport time\nclass Slow(Exception):\n"
        "    def _render_traceback_(self): time.sleep(6)\nraise Slow"
    )
    shown = cell(source)
    assert not shown.text
    assert "Slow" in shown.error
    assert "Time limit" not in shown.error


def test_an_error_that_ipython_would_only_show_is_the_cells(cell):
    source = "%%ranks\nclass Mute:\n    def __repr__(self): raise ValueError('no words')\nMute()"
    shown = cell(source)
    assert not shown.text
    assert "no words" in shown.error


def test_figures_are_displayed_under_their_rank(cell):
    source = (
        "%%ranks\nimport matplotlib.pyplot as plt\nfrom helpers.plots import style\nstyle.use()\n"
        "if rank == 1:\n    plt.plot([1, 2])\n    plt.show()"
    )
    shown = cell(source)
    (picture,) = [out for out in shown.outputs if "data" in out]
    assert base64.b64decode(picture["data"]["image/png"]).startswith(b"\x89PNG")
    assert picture["metadata"]["image/png"]["alt"] == "Line: from 1 at 0 to 2 at 1."


def test_prints_and_displays_keep_their_order(cell):
    source = (
        "%%ranks --only 0\nfrom IPython.display import HTML, display\n"
        "print('first')\ndisplay(HTML('<b>second</b>'))\nprint('third')"
    )
    shown = cell(source)
    kinds = [out.get("text") or out["data"]["text/html"] for out in shown.outputs]
    assert "".join(kinds) == "[0] first\n[0]\n<b>second</b>[0] third\n"


def test_an_error_names_rank_and_line_of_the_readers_cell(cell):
    shown = cell("%%ranks\nprint('x')\nif rank == 1:\n    undefined_name")
    assert shown.text == "[0-2] x\n"
    text = shown.error
    assert "Rank 1 raised" in text
    assert "line 4" in text
    assert "NameError: name 'undefined_name' is not defined" in text
    assert "rankside" not in text
    assert "are kept" in text


def test_a_syntax_error_is_shown_once(cell):
    text = cell("%%ranks\nfor in x").error
    assert text.count("invalid syntax") == 1
    assert "Ranks 0, 1 and 2 raised" in text


def test_a_deadlock_is_explained_and_the_next_cell_works(cell):
    source = (
        "%%ranks --timeout 1\nprint('got here', flush=True)\n"
        "x = comm.recv(source=(rank + 1) % size, tag=3)"
    )
    shown = cell(source)
    assert shown.text == "[0-2] got here\n"
    text = shown.error
    assert "Time limit of 1 s reached by ranks 0, 1 and 2" in text
    assert "3: x = comm.recv(source=(rank + 1) % size, tag=3)" in text
    assert "0 → 1 → 2 → 0" in text
    assert "variables are gone" in text
    shown = cell("%%ranks\ncomm.allreduce(1)")
    assert shown.text == "[0-2] 3\n"
    assert not shown.error


def test_new_ranks_import_and_define_what_the_lost_ones_had(cell):
    cell(
        "%%ranks\nfrom math import pi\nprint('x')\nmade = 1\n\ndef ends():\n    1 / 0\n\n"
        "class Kept:\n    base = made"  # which new ranks do not have
    )
    cell("%%ranks\n@staticmethod\ndef double(x):\n    return 2 * x")
    assert "died" in cell("%%ranks\nimport os\nif rank == 1: os._exit(3)").error
    assert cell("%%ranks\ndouble(round(pi)), os.sep").text == "[0-2] (6, '/')\n"
    assert "name 'made' is not defined" in cell("%%ranks\nmade").error
    assert "> 7     1 / 0" in cell("%%ranks\nends()").error  # its own line of its cell


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("nobody", "expected a variable that holds a Cluster; there is none"),
        ("SETUP", "expected a variable that holds a Cluster; it is 3"),
        ("--only 7", "this cluster has 0 to 2"),
        ("--only one", "--only one: expected ranks"),
        ("--timeout 0", "timeout=0.0: expected"),
        ("--trace 1x", "--trace 1x: expected a name"),
        ("--nonsense", "unrecognized arguments"),
    ],
)
def test_bad_arguments(cell, line, expected):
    cell("SETUP = 3")
    shown = cell(f"%%ranks {line}\nrank")
    assert expected in shown.text + shown.error
    assert "Traceback" not in shown.text + shown.error


def test_none_or_several_clusters_need_a_name(cell):
    cell("second = Cluster(1)")
    assert "2 clusters are running" in cell("%%ranks\nrank").error
    assert cell("%%ranks second\nrank").text == "[0] 0\n"
    cell("second.stop(); cluster.stop()")
    assert "no cluster is running" in cell("%%ranks\nrank").error
    assert "was stopped" in cell("%%ranks cluster\nrank").error
