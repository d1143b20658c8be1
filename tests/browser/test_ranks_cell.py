"""A cell on ranks in JupyterLab: the debugger, 32 ranks at one glance."""

import pytest

from tests.browser.driver import READY, OpenNotebook, take, write

pytestmark = [
    pytest.mark.browser,
    pytest.mark.part(of="browser"),
    pytest.mark.mpi,
    pytest.mark.timeout(400),
]
CELLS = [
    "%load_ext helpers.cluster\nfrom helpers.cluster import Cluster\ncluster = Cluster(4)",
    "%%ranks\nif rank == 2: breakpoint()\nx = comm.allreduce(rank)\nx",
    "cluster.stop(); cluster = Cluster(32)",
    "%%ranks\nfor i in range(5): print('rank', rank, 'line', i)",
]
RUN = """index => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = index;
    window.jupyterapp.commands.execute('notebook:run-cell');
}"""
DONE = """index => {
    const model = window.jupyterapp.shell.currentWidget.content.widgets[index].model;
    return model.executionCount && model.executionState === 'idle';
}"""


@pytest.fixture(scope="module")
def notebook(browser, lab):
    path = lab.work / "ranks_cell.ipynb"
    write(path, CELLS)
    opened = OpenNotebook(browser, lab, "ranks_cell")
    opened.page.set_default_timeout(25_000)
    try:
        opened.page.wait_for_function(READY)
        run(opened, 0)
        yield opened
        assert opened.errors == []
    finally:
        take(opened.page, "ranks_cell-end")
        opened.context.close()
        path.unlink()


def begin(notebook, index: int):
    """Run a cell; return its output, which need not be complete."""
    cell = notebook.show(index)
    notebook.page.evaluate(RUN, index)
    return cell.locator(".jp-OutputArea")


def run(notebook, index: int) -> str:
    """Run a cell to its end; return what it shows."""
    area = begin(notebook, index)
    notebook.page.wait_for_function(DONE, arg=index)
    return area.inner_text()


def test_the_debugger_of_a_rank_asks_in_the_notebook(notebook):
    area = begin(notebook, 1)
    for typed in ("p 6 * 7", "c"):
        box = area.locator("input.jp-Stdin-input").last
        box.wait_for()
        assert "[2] (Pdb)" in area.inner_text()
        take(notebook.page, f"ranks_cell-debugger-{typed[0]}")
        box.fill(typed)
        box.press("Enter")
        notebook.page.wait_for_timeout(1500)
    area.get_by_text("[0-1,3] 6").wait_for()
    shown = area.inner_text()
    assert "[2] 42" in shown
    assert shown.rstrip().endswith("[2] 6")


def test_with_32_ranks_it_stays_readable(notebook):
    run(notebook, 2)
    shown = run(notebook, 3)
    assert shown.count("\n") < 40, shown
    assert "[31] rank 31 line 0 … (5 lines)" in shown
    assert "line 4" not in shown
    area = notebook.show(3).locator(".jp-OutputArea")
    area.locator("summary").nth(7).focus()
    notebook.page.keyboard.press("Enter")  # as who has no mouse
    assert area.locator("details[open]").inner_text().endswith("rank 7 line 4")
    take(notebook.page, "ranks_cell-32")
