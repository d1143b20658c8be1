"""What a library exports, and what its docstrings lack: ``tools/docstrings.py``."""

import pytest

from helpers.paths import ROOT
from tools import docstrings


@pytest.mark.parametrize(
    ("name", "exported"),
    [
        ("tracing.trace.Trace", True),  # in __all__, defined elsewhere
        ("tracing.trace.Trace.steps", True),
        ("tracing.trace.Trace._sum", False),
        ("tracing.trace.rounds", False),
        ("plots.pagerank.bars", True),  # a notebook's draw.bars
        ("plots.roofline_html.interactive", True),  # its draw.interactive, imported there
        ("plots.style.ink", False),  # of a module that notebooks import
    ],
)
def test_exported_is_what_a_library_lists_and_what_a_notebook_uses(name, exported):
    assert docstrings.is_exported(f"helpers.{name}") is exported


def test_what_a_docstring_lacks_or_says_wrong_is_a_fault():
    file = ROOT / "helpers" / "tracing" / "trace.py"
    entry = "Parameters\n    ----------\n    {} : int\n        A number.\n    "
    method = "    def steps(self, n):\n        pass"
    bare = docstrings.faults(f"class Trace:\n{method}", file)
    assert bare == [f"{file}:1: helpers.tracing.trace.Trace: no docstring"]
    for name, found in (("n", []), ("m", ["no parameter is called m"])):
        text = f'class Trace:\n    """A trace.\n\n    {entry.format(name)}"""\n    n: int = 0'
        assert [line.partition("Trace: ")[2] for line in docstrings.faults(text, file)] == found
    private = f'"""A module."""\n\ndef private(n):\n    """Count.\n\n    {entry.format("m")}"""'
    assert len(docstrings.faults(private, file)) == 2
