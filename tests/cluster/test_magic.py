"""``%%ranks`` as a reader sees it: the outputs of cells executed in a real kernel."""

import base64

import nbformat
import pytest

from tests.cluster.kernel import SETUP, plain

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def cell():
    """Call it with a cell's source; it returns (text on stdout, all outputs)."""
    from nbclient import NotebookClient

    book = nbformat.v4.new_notebook()
    client = NotebookClient(book, timeout=150, allow_errors=True)
    with client.setup_kernel():

        def run(source: str):
            book.cells = [nbformat.v4.new_code_cell(source)]
            client.execute_cell(book.cells[0], 0)
            outputs = book.cells[0].outputs
            printed = "".join(out["text"] for out in outputs if out.get("name") == "stdout")
            return printed, outputs

        _, outputs = run(SETUP)
        assert not errors(outputs), outputs
        yield run


def errors(outputs) -> str:
    return "\n".join(
        f"{out['ename']}: " + "\n".join(out["traceback"])
        for out in outputs
        if out["output_type"] == "error"
    )


def test_output_and_last_expression_in_rank_order_and_variables_persist(cell):
    printed, outputs = cell("%%ranks\nkept = rank + 1\nprint('I am', rank)\nrank * 10")
    assert printed == "[0] I am 0\n[0] 0\n[1] I am 1\n[1] 10\n[2] I am 2\n[2] 20\n"
    assert not errors(outputs)
    assert cell("%%ranks\nkept")[0] == "[0] 1\n[1] 2\n[2] 3\n"
    printed, _ = cell("%%ranks\nMPI.COMM_WORLD is comm, rank == comm.rank, size == comm.size")
    assert printed == "[0-2] (True, True, True)\n"


def test_a_semicolon_and_none_show_nothing(cell):
    assert cell("%%ranks\n5;")[1] == []
    assert cell("%%ranks\nNone")[1] == []


def test_ipython_puts_no_error_into_words_which_an_interrupt_could_meet(cell):
    source = (
        "%%ranks --timeout 2 --only 1\nimport time\nclass Slow(Exception):\n"
        "    def _render_traceback_(self): time.sleep(6)\nraise Slow"
    )
    printed, outputs = cell(source)
    assert not printed
    assert [out["output_type"] for out in outputs] == ["error"], outputs
    assert "Slow" in errors(outputs)
    assert "Time limit" not in errors(outputs)


def test_an_error_that_ipython_would_only_show_is_the_cells(cell):
    source = "%%ranks\nclass Mute:\n    def __repr__(self): raise ValueError('no words')\nMute()"
    printed, outputs = cell(source)
    assert not printed
    assert "no words" in errors(outputs)


def test_only_some_ranks(cell):
    assert cell("%%ranks --only 0,2\nrank")[0] == "[0] 0\n[2] 2\n"


def test_what_several_ranks_show_alike_is_shown_once(cell):
    assert cell("%%ranks\nprint(rank % 2)\nrank % 2")[0] == "[0,2] 0\n[0,2] 0\n[1] 1\n[1] 1\n"
    source = (
        "%%ranks\nfrom matplotlib import pyplot as plt\nplt.plot([1, 2 + (rank == 1)])\nplt.show()"
    )
    printed, outputs = cell(source)
    assert printed == "[0,2]\n[1]\n"
    assert sum(out["output_type"] == "display_data" for out in outputs) == 2


def test_figures_are_displayed_under_their_rank(cell):
    pytest.importorskip("matplotlib")
    source = (
        "%%ranks\nimport matplotlib.pyplot as plt\nfrom helpers.plots import style\nstyle.use()\n"
        "if rank == 1:\n    plt.plot([1, 2])\n    plt.show()"
    )
    printed, outputs = cell(source)
    assert printed == "[1]\n"
    (picture,) = [out for out in outputs if out["output_type"] == "display_data"]
    assert base64.b64decode(picture["data"]["image/png"]).startswith(b"\x89PNG")
    assert picture["metadata"]["image/png"]["alt"] == "Line: from 1 at 0 to 2 at 1."


def test_prints_and_displays_keep_their_order(cell):
    source = (
        "%%ranks --only 0\nfrom IPython.display import HTML, display\n"
        "print('first')\ndisplay(HTML('<b>second</b>'))\nprint('third')"
    )
    _, outputs = cell(source)
    kinds = [out.get("text") or out["data"]["text/html"] for out in outputs]
    assert "".join(kinds) == "[0] first\n[0]\n<b>second</b>[0] third\n"


def test_an_error_names_rank_and_line_of_the_readers_cell(cell):
    printed, outputs = cell("%%ranks\nprint('x')\nif rank == 1:\n    undefined_name")
    assert printed == "[0-2] x\n"
    text = plain(errors(outputs))
    assert "Rank 1 raised" in text
    assert "line 4" in text
    assert "NameError: name 'undefined_name' is not defined" in text
    assert "rankside" not in text
    assert "are kept" in text


def test_a_syntax_error_is_shown_once(cell):
    text = plain(errors(cell("%%ranks\nfor in x")[1]))
    assert text.count("invalid syntax") == 1
    assert "Ranks 0, 1 and 2 raised" in text


def test_a_deadlock_is_explained_and_the_next_cell_works(cell):
    source = "%%ranks --timeout 1\nother = (rank + 1) % size\nx = comm.recv(source=other, tag=3)"
    text = plain(errors(cell(source)[1]))
    assert "Time limit of 1 s reached by ranks 0, 1 and 2" in text
    assert "3: x = comm.recv(source=other, tag=3)" in text
    assert "0 → 1 → 2 → 0" in text
    assert "variables are gone" in text
    printed, outputs = cell("%%ranks\ncomm.allreduce(1)")
    assert printed == "[0-2] 3\n"
    assert not errors(outputs)


def test_what_a_stuck_rank_had_printed_is_shown(cell):
    source = "%%ranks --timeout 1\nprint('got here', flush=True)\nif rank == 0: comm.recv(source=1)"
    printed, outputs = cell(source)
    assert printed == "[0-2] got here\n"
    assert "Time limit" in errors(outputs)


def test_a_trace_is_left_in_a_variable(cell):
    pytest.importorskip("numpy")
    source = (
        "%%ranks --trace chain\nif rank:\n    comm.recv(source=rank - 1)\n"
        "if rank < size - 1:\n    comm.send('token', rank + 1)"
    )
    assert not errors(cell(source)[1])
    printed, _ = cell("print([(m.source, m.dest) for m in chain.messages], chain.steps())")
    assert printed == "[(0, 1), (1, 2)] 2\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("nobody", "expected a variable that holds a Cluster; there is none"),
        ("SETUP", "expected a variable that holds a Cluster; it is 3"),
        ("--only 7", "this cluster has 0 to 2"),
        ("--only one", "--only one: expected ranks"),
        ("--timeout 0", "timeout=0.0: expected"),
        ("--timeout soon", "invalid float value"),
        ("--trace 1x", "--trace 1x: expected a name"),
        ("--nonsense", "unrecognized arguments"),
    ],
)
def test_bad_arguments(cell, line, expected):
    cell("SETUP = 3")
    _, outputs = cell(f"%%ranks {line}\nrank")
    everything = plain(errors(outputs)) + "".join(out.get("text", "") for out in outputs)
    assert expected in everything
    assert "Traceback" not in everything


def test_none_or_several_clusters_need_a_name(cell):
    cell("second = Cluster(1)")
    assert "2 clusters are running" in errors(cell("%%ranks\nrank")[1])
    assert cell("%%ranks second\nrank")[0] == "[0] 0\n"
    cell("second.stop(); cluster.stop()")
    assert "no cluster is running" in errors(cell("%%ranks\nrank")[1])
    assert "was stopped" in errors(cell("%%ranks cluster\nrank")[1])
