"""Print how many lines each part of the house has, and of which kind: python -m tools.weigh

With names of folders or files (``python -m tools.weigh helpers/plots``), a row for each file in
them.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

from tools.docstrings import ROOT, described

KINDS = ("files", "lines", "code", "docstring", "comment", "blank")
PARTS = ("tests", "claims", "tools", "bench", "notebooks/source")


def weigh(file: Path) -> Counter[str]:
    """Count the lines of a module by kind; a line of code with a comment is code."""
    text = file.read_text("utf-8")
    kinds = ["code" if line.strip() else "blank" for line in text.splitlines()]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            kinds[token.start[0] - 1] = "comment"
    for node, _ in described(ast.parse(text), ""):
        first, last = node.body[0].lineno, node.body[0].end_lineno
        kinds[first - 1 : last] = ["docstring"] * (last - first + 1)
    return Counter(kinds) + Counter(files=1, lines=len(kinds))


def _row(name: str, count: Counter[str]) -> str:
    return f"{name:32}" + "".join(f"{count[kind]:>10,}" for kind in KINDS).replace(",", " ")


def main(wanted: list[str]) -> int:
    """Print the table of the house, or of what was named."""
    print(f"{'':32}" + "".join(f"{kind:>10}" for kind in KINDS))
    if wanted:
        rows = {
            str(file.relative_to(ROOT)): weigh(file)
            for each in wanted
            for file in (sorted((ROOT / each).rglob("*.py")) or [ROOT / each])
        }
    else:
        rows = {}
        for file in sorted((ROOT / "helpers").rglob("*.py")):
            room = file.relative_to(ROOT).parts[1]
            room = "helpers/*.py" if room.endswith(".py") else f"helpers/{room}"
            rows[room] = rows.get(room, Counter()) + weigh(file)
    for name, count in sorted(rows.items(), key=lambda row: -row[1]["lines"]):
        print(_row(name, count))
    print(_row("in all" if wanted else "helpers", sum(rows.values(), Counter())))
    for part in () if wanted else PARTS:
        print(_row(part, sum(map(weigh, (ROOT / part).rglob("*.py")), Counter())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
