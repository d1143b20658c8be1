"""``%autoranks``: all cells of a notebook on the ranks by one line."""

import pytest

from tests.cluster.kernel import SETUP, Kernel

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def cell():
    kernel = Kernel()
    assert not kernel(SETUP).error
    yield kernel
    kernel.end()


@pytest.fixture
def on(cell):
    said = cell("%autoranks on").text
    assert "all run on the 3 ranks" in said
    assert "'%autoranks off' ends this" in said
    yield cell
    assert cell("%autoranks off").text == "Cells run in the kernel again.\n"
    assert "NameError" in cell("rank").error


def test_every_cell_runs_on_the_ranks(on):
    assert on("x = 10 * rank\nx").text == "[0] 0\n[1] 10\n[2] 20\n"
    assert on("# a remark\n\ncomm.allreduce(x)").text == "[0-2] 30\n"


@pytest.mark.parametrize(
    "source",
    [
        "%%local\nprint(type(cluster).__name__)",
        "%%capture shown\nprint(cluster)\n",
        "%%time\nnobody = cluster.n",
        "!echo $((1 + 1))",
        "# a remark\n%pwd",
    ],
)
def test_what_begins_with_a_magic_stays_here(on, source):
    shown = on(source)
    assert not shown.error
    assert "[0" not in shown.text


def test_what_the_notebooks_tools_ask_stays_here(on):
    assert on("cluster.n", store_history=False).text == "3"


def test_an_error_names_the_line_that_the_reader_sees(on):
    assert "line 2" in on("x = 1\nundefined_name").error
    assert "----> 3 undefined_name" in on("%%local\nx = 1\nundefined_name").error


def test_options_are_those_of_ranks(cell):
    cell("%autoranks on --only 1 --timeout 1")
    assert cell("rank").text == "[1] 1\n"
    assert "Time limit of 1 s" in cell("comm.recv(source=1)").error
    cell("%autoranks off")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", "expected on or off; it is off"),
        ("maybe", "%autoranks maybe: expected on or off; it is off"),
        ("on --only 7", "this cluster has 0 to 2"),
        ("on nobody", "expected a variable that holds a Cluster"),
    ],
)
def test_bad_arguments(cell, line, expected):
    shown = cell(f"%autoranks {line}")
    assert expected in shown.text + shown.error
    assert "NameError" in cell("rank").error


def test_without_a_cluster_the_way_out_is_said(cell):
    cell("%autoranks on")
    cell("%%local\ncluster.stop()")
    shown = cell("rank")
    assert "no cluster is running" in shown.error
    assert "under %%local or after '%autoranks off'" in shown.error
    cell("%%local\ncluster = Cluster(3)")
    assert cell("size").text == "[0-2] 3\n"
    cell("%autoranks off")
