"""A short assignment with one exercise on two ranks, as a teacher writes one of their own.

That nbgrader grades the course's notebooks is tested in ``tests/notebooks``; here a class hands in
at once, on whatever machine the tests run.
"""

from __future__ import annotations

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

NAME = "first_ranks"
SET_UP = """\
%load_ext helpers.cluster
from helpers.cluster import Cluster

cluster = Cluster(2)"""
STUB = "%%ranks\nmine = None\n{}"
ANSWER = "mine = 10 * rank + 3"
CHECK = "assert cluster.run(lambda: mine) == [3, 13]"


def solved() -> str:
    """Return the notebook as the teacher's folder has it in ``source/``."""
    answer = STUB.format(f"# BEGIN SOLUTION\n{ANSWER}\n# END SOLUTION")
    cells = [
        new_code_cell(SET_UP),
        new_code_cell(answer, metadata={"nbgrader": _marks("mine", solution=True)}),
        new_code_cell(CHECK, metadata={"nbgrader": _marks("check", grade=True, points=3)}),
        new_code_cell("cluster.stop()"),
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.writes(new_notebook(cells=cells, metadata={"kernelspec": kernel}))


def answered(notebook: dict) -> dict:
    """Return the released notebook with the exercise answered."""
    (cell,) = (cell for cell in notebook["cells"] if _grading(cell).get("solution"))
    assert ANSWER not in cell["source"], "the release shows the answer"
    cell["source"] = STUB.format(ANSWER)
    return notebook


def _marks(grade_id: str, solution: bool = False, grade: bool = False, **more: int) -> dict:
    kind = {"solution": solution, "grade": grade, "locked": grade, "task": False}
    return {"grade_id": grade_id, "schema_version": 3, **kind, **more}


def _grading(cell: dict) -> dict:
    return cell["metadata"].get("nbgrader", {})
