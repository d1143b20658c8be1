"""Open the exercises of a solved notebook: what `make notebooks` and nbgrader's release both do."""

from __future__ import annotations

import re

from nbgrader.preprocessors import ClearSolutions

STUBS = {"python": "...  # your code here", "c": "// your code here"}
"""What stands where a solution stood: of no effect, and legal as a function's whole body."""


class OpenExercises(ClearSolutions):
    """nbgrader's ClearSolutions with stubs that do not raise, so that "Run All" reaches the end.

    A region marked ``// BEGIN SOLUTION`` is C (a CUDA kernel in a Python string) and gets C's
    stub; one marked ``# BEGIN SOLUTION`` is Python.
    """

    def __init__(self, **kwargs):
        super().__init__(**{"code_stub": STUBS, **kwargs})

    def preprocess_cell(self, cell, resources, cell_index):
        """Replace the cell's solution regions; raises RuntimeError where they are not closed."""
        language = "c" if re.search(r"^\s*//\s*BEGIN SOLUTION", cell.source, re.M) else "python"
        super().preprocess_cell(cell, {**resources, "language": language}, cell_index)
        # outside of a body the dots are not needed, and as a last line they would be shown
        cell.source = re.sub(r"^\.\.\.  (?=# your code here$)", "", cell.source, flags=re.M)
        return cell, resources
