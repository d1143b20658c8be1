"""A notebook in JupyterLab, driven as a reader does: open, Run All, look at a cell."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat

from helpers.paths import ROOT

SCREENSHOTS = ROOT / "build" / "screenshots"

# the notebook's cells as JupyterLab holds them; those out of sight are not in the page
CELLS = """() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => ({
    kind: cell.model.type,
    source: cell.model.sharedModel.getSource(),
    tags: cell.model.getMetadata('tags') || [],
    ran: cell.model.executionCount ?? null,
    state: cell.model.executionState ?? 'idle',
    outputs: cell.model.type === 'code' ? cell.model.outputs.toJSON() : [],
}))"""
PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
READY = """() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    return panel?.content?.model && panel.sessionContext?.session?.kernel?.status === 'idle';
}"""
BEGUN = """() => window.jupyterapp.shell.currentWidget.content.widgets.some(({model}) =>
    model.type === 'code' && (model.executionCount || model.executionState !== 'idle'))"""
THEME = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
SHOW = """async index => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = index;
    await notebook.scrollToItem(index, 'start');
}"""


@contextlib.contextmanager
def serving(command: list[str], runtime: Path, log: Path, **options) -> Iterator[dict]:
    """Start Jupyter's server; yields what it tells of itself once it is there, and ends it."""
    with log.open("w") as output:
        server = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, **options
        )
    try:
        deadline = time.monotonic() + 120
        said = None
        while said is None:
            assert server.poll() is None, f"Jupyter ended at once:\n{log.read_text()}"
            assert time.monotonic() < deadline, f"no Jupyter after 120 s:\n{log.read_text()}"
            time.sleep(0.2)
            with contextlib.suppress(FileNotFoundError, ValueError):  # made first, written later
                said = json.loads((runtime / f"jpserver-{server.pid}.json").read_text())
        yield said
    finally:
        server.send_signal(signal.SIGTERM)  # JupyterLab ends its kernels, and they their ranks
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def write(path: Path, cells: list) -> None:
    """Write a notebook of cells, of which a text is one of code."""
    made = [nbformat.v4.new_code_cell(one) if isinstance(one, str) else one for one in cells]
    book = nbformat.v4.new_notebook(cells=made)
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": ""}
    path.parent.mkdir(exist_ok=True)
    nbformat.write(book, path)


class OpenNotebook:
    """A notebook in a tab of its own."""

    def __init__(self, browser, lab, name: str):
        self.name = name
        self.errors: list[str] = []  # of scripts in the page
        self.context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.context.set_default_timeout(120_000)  # a machine that also runs ranks is slow
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(lab.address(f"{name}.ipynb"))
        self.page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")

    def run_all(self) -> None:
        """Choose Run → Run All Cells as soon as the kernel is there, and see that it begins."""
        self.page.wait_for_function(READY)
        self.page.locator(".lm-MenuBar-itemLabel", has_text="Run").first.click()
        self.page.locator(".lm-Menu-itemLabel", has_text="Run All Cells").first.click(
            no_wait_after=True
        )
        self.page.wait_for_function(BEGUN)

    def cells(self) -> list[dict]:
        """Return what JupyterLab holds of each cell."""
        return self.page.evaluate(CELLS)

    def failed(self) -> list[str]:
        """Return the errors of cells that are not meant to fail."""
        return [
            f"{cell['source'][:80]!r} raised {output['ename']}: {output['evalue']}"
            for cell in self.cells()
            for output in cell["outputs"]
            if output["output_type"] == "error" and "raises-exception" not in cell["tags"]
        ]

    def finished(self) -> bool:
        """Tell whether every cell has run, or one has failed (which ends the run)."""
        code = [cell for cell in self.cells() if cell["kind"] == "code"]
        done = all(cell["ran"] is not None and cell["state"] == "idle" for cell in code)
        return done or bool(self.failed())

    def show(self, index: int):
        """Scroll to a cell and return it, as it is in the page."""
        self.page.evaluate(SHOW, index)
        cell = self.page.locator(f'{PANEL} .jp-Cell[data-windowed-list-index="{index}"]')
        cell.wait_for()
        cell.scroll_into_view_if_needed()
        return cell

    def dress(self, theme: str) -> None:
        """Choose JupyterLab's theme, "Dark" or "Light"."""
        self.page.evaluate(THEME, f"JupyterLab {theme}")
        light = str(theme == "Light").lower()
        self.page.locator(f'body[data-jp-theme-light="{light}"]').wait_for(state="attached")

    def save(self) -> None:
        """Save the notebook to its file."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")


def wait_for(notebooks: list[OpenNotebook], seconds: float) -> None:
    """Wait until all are finished; fails with what has not run ``seconds`` from now."""
    deadline = time.monotonic() + seconds
    while waiting := [notebook for notebook in notebooks if not notebook.finished()]:
        if time.monotonic() > deadline:
            left = {
                notebook.name: next(
                    cell["source"][:80]
                    for cell in notebook.cells()
                    if cell["kind"] == "code" and (cell["ran"] is None or cell["state"] != "idle")
                )
                for notebook in waiting
            }
            raise AssertionError(f"not finished after {seconds:g} s: {left}")
        waiting[0].page.wait_for_timeout(500)


def take(page, name: str) -> Path:
    """Keep a picture of the page in build/screenshots."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path)
    return path
