"""What docstrings lack or say wrong: ``tools/docstrings.py``."""

import pytest

from helpers.paths import ROOT
from tools import docstrings

ENTRY = (
    '    """Count.\n\n    Parameters\n    ----------\n    {} : int\n        A number.\n    """\n'
)


@pytest.mark.parametrize(
    ("head", "entry", "found"),
    [
        ("class Trace:\n", "n", []),  # in an __all__
        ("class Trace:\n", "m", ["no parameter is called m"]),
        ("def bars(n):\n", "n", []),  # a notebook's draw.bars
        ("def rank_block(n):\n", "n", ["sections, though no notebook or library uses it"]),  # shown
        ("def _private(n):\n", "m", ["sections, though", "no parameter is called m"]),
    ],
)
def test_sections_stand_where_readers_need_them_and_their_entries_are_parameters(
    head, entry, found
):
    lines = docstrings.faults(f"{head}{ENTRY.format(entry)}    n: int = 0", ROOT / "distributed.py")
    assert len(lines) == len(found)
    assert all(part in line for part, line in zip(found, lines, strict=True))
