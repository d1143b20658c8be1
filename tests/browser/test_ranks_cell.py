"""A cell on ranks in JupyterLab: Tab, a bar that moves, the debugger, 32 ranks at one glance."""

import pytest

from tests.browser.driver import PANEL, READY, OpenNotebook, take, write

pytestmark = [
    pytest.mark.browser,
    pytest.mark.part(of="browser"),
    pytest.mark.mpi,
    pytest.mark.timeout(400),
]
CELLS = [
    "%load_ext helpers.cluster\nfrom helpers.cluster import Cluster\ncluster = Cluster(4)",
    "%%ranks\nlong_name_on_ranks = rank\ncomm.allreduce(1)",
    "%%ranks\nlong_name_on_ranks.bit_le",
    "%%ranks --only 1\nfrom tqdm.auto import tqdm\nimport time\n"
    "for _ in tqdm(range(60)): time.sleep(0.1)",
    "%%ranks\nif rank == 2: breakpoint()\nx = comm.allreduce(rank)\nx",
    "cluster.stop(); cluster = Cluster(32)",
    "%%ranks\nfor i in range(5): print('rank', rank, 'line', i)",
    "%%ranks\nraise ValueError(f'no data for {rank}')",
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


def test_equal_output_has_one_label_and_tab_knows_the_ranks_names(notebook):
    assert run(notebook, 1).strip() == "[0-3] 4"
    notebook.show(2)
    notebook.show(2).locator(".cm-content").click()
    notebook.page.keyboard.press("Control+End")
    notebook.page.keyboard.press("Tab")
    notebook.page.wait_for_timeout(3000)
    if notebook.page.locator(".jp-Completer:not(.lm-mod-hidden) .jp-Completer-item").count():
        notebook.page.keyboard.press("Enter")
    source = notebook.cells()[2]["source"]
    take(notebook.page, "ranks_cell-tab")
    assert source == "%%ranks\nlong_name_on_ranks.bit_length"
    notebook.page.keyboard.press("Shift+Tab")
    tip = notebook.page.locator(".jp-Tooltip")
    tip.wait_for()
    assert "Number of bits necessary" in tip.inner_text()
    take(notebook.page, "ranks_cell-help")
    notebook.page.keyboard.press("Escape")


def test_a_bar_moves_while_the_cell_runs(notebook):
    area = begin(notebook, 3)
    seen = []
    for part in ("[1] ", "30/60", "60/60"):
        area.get_by_text(
            part
        ).first.wait_for() if part == "[1] " else notebook.page.wait_for_function(
            f"""() => {{ const text = document.querySelectorAll('{PANEL} .jp-Cell')[3]?.innerText
            ?? ''; return Number((text.match(/(\\d+)\\/60/) ?? [0, 0])[1]) >= {part[:2]} }}"""
        )
        seen.append(area.inner_text())
    take(notebook.page, "ranks_cell-bar")
    assert len(set(seen)) == 3
    assert seen[-1].count("/60") == 1


def test_the_debugger_of_a_rank_asks_in_the_notebook(notebook):
    area = begin(notebook, 4)
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
    run(notebook, 5)
    shown = run(notebook, 6)
    assert shown.count("\n") < 40, shown
    assert "[31] rank 31 line 0 … (5 lines)" in shown
    assert "line 4" not in shown
    area = notebook.show(6).locator(".jp-OutputArea")
    area.locator("summary").nth(7).focus()
    notebook.page.keyboard.press("Enter")  # as who has no mouse
    assert area.locator("details[open]").inner_text().endswith("rank 7 line 4")
    take(notebook.page, "ranks_cell-32")
    shown = run(notebook, 7)
    assert "Ranks 0 to 31 raised" in shown
    assert shown.count("raise ValueError(f'no data") == 1
    assert "[31] ValueError: no data for 31" in shown
    take(notebook.page, "ranks_cell-32-errors")
