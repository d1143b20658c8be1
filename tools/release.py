"""Open the exercises of a solved notebook: what `make notebooks` and nbgrader's release both do."""

from __future__ import annotations

import re

from nbgrader.preprocessors import ClearSolutions

STUBS = {"python": "...  # your code here", "c": "// your code here"}
"""What stands where a solution stood: legal in a function's body and outside, and of no effect."""


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
        return super().preprocess_cell(cell, {**resources, "language": language}, cell_index)
