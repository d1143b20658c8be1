"""In JupyterLab a reader's answers are kept beside the notebook, and a fresh kernel knows them."""

import json

import nbformat
import pytest

from tests.browser.driver import take, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.part(of="browser"), pytest.mark.timeout(300)]
CELLS = [
    nbformat.v4.new_markdown_cell("## Lesson 1. What is kept?"),
    "from helpers import progress\nfrom helpers.exercises.predictions import Predictions\n"
    "from helpers.exercises import start_here as check",
    "guess = Predictions()\nguess['steps'] = 3",
    "guess.answer('steps', 7)",
    "from helpers.exercises.core import exercise\n@exercise\ndef right(answer):\n    pass",
    nbformat.v4.new_code_cell(
        "check = type('', (), {'right': right})\ncheck.right(1)",
        metadata={"nbgrader": {"grade": True}},
    ),
    "progress.show()",
]


def said(notebook) -> str:
    return "".join(
        "".join(output.get("text", "")) for cell in notebook.cells() for output in cell["outputs"]
    )


def test_what_was_predicted_and_solved_is_kept(lab, opened):
    notebook = opened("trial", CELLS)
    notebook.run_all()
    wait_for([notebook], seconds=120)
    assert notebook.failed() == []
    assert "steps: you predicted 3; it is 7" in said(notebook)
    take(notebook.page, "progress")
    kept = json.loads((lab.work / "trial" / ".progress" / "trial.json").read_text())
    assert kept == {"predictions": {"steps": {"said": 3.0, "came": 7.0}}, "solved": ["right"]}
    assert "| [trial](trial.ipynb) | ● | 1 |" in (lab.work / "trial" / "progress.md").read_text()
    assert notebook.show(6).locator("table").inner_text().endswith("trial\t●\t1")
