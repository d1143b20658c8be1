"""In JupyterLab a reader's answers are kept beside the notebook, and a fresh kernel knows them."""

import json
import shutil

import nbformat
import pytest

from tests.browser.driver import OpenNotebook, take, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.part(of="browser"), pytest.mark.timeout(300)]
CELLS = [
    "from helpers import progress\nfrom helpers.exercises.predictions import Predictions\n"
    "from helpers.exercises import start_here as check",
    "guess = Predictions()\nguess['steps'] = 3",
    "guess.answer('steps', 7)",
    "from helpers.exercises.core import exercise\n@exercise\ndef right(answer):\n    pass",
    "right(1)",
    "progress.show()",
]


@pytest.fixture
def folder(lab):
    cells = [nbformat.v4.new_markdown_cell("## Lesson 1. What is kept?")]
    cells += [nbformat.v4.new_code_cell(text) for text in CELLS]
    cells[5].source = "check = type('', (), {'right': right})\ncheck.right(1)"
    cells[5].metadata["nbgrader"] = {"grade": True}
    made = nbformat.v4.new_notebook(cells=cells)
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": ""}
    path = lab.work / "kept" / "trial.ipynb"
    path.parent.mkdir()
    nbformat.write(made, path)
    yield path.parent
    shutil.rmtree(path.parent)


def said(notebook) -> str:
    return "".join(
        "".join(output.get("text", "")) for cell in notebook.cells() for output in cell["outputs"]
    )


def test_what_was_predicted_and_solved_is_kept(browser, lab, folder):
    notebook = OpenNotebook(browser, lab, "kept/trial")
    try:
        notebook.run_all()
        wait_for([notebook], seconds=120)
        assert notebook.failed() == []
        assert "steps: you predicted 3; it is 7" in said(notebook)
        take(notebook.page, "progress")
        kept = json.loads((folder / ".progress" / "trial.json").read_text())
        assert kept == {"predictions": {"steps": {"said": 3.0, "came": 7.0}}, "solved": ["right"]}
        assert "| [trial](trial.ipynb) | ● | 1 |" in (folder / "progress.md").read_text()
        assert notebook.show(6).locator("table").inner_text().endswith("trial\t●\t1")
    finally:
        notebook.context.close()
