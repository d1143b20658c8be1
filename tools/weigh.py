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


def weigh_file(file: Path) -> Counter[str]:
    """Count the lines of one file by kind."""
    return weigh(file.read_text("utf-8"))


def weigh(text: str) -> Counter[str]:
    """Count the lines of a module's text by kind; a line of code with a comment is code."""
    lines = text.splitlines()
    docstrings, count = set(), Counter(files=1, lines=len(lines))
    for node, _ in described(ast.parse(text), ""):
        words = node.body[0]
        docstrings |= set(range(words.lineno, words.end_lineno + 1))
    for number, comment in _rest(text, len(lines)).items():
        kind = "comment" if comment else "blank" if not lines[number - 1].strip() else "code"
        count["docstring" if number in docstrings else kind] += 1
    return count


def _rest(text: str, long: int) -> dict[int, bool]:
    """Return for each line whether it holds nothing but a comment."""
    alone = dict.fromkeys(range(1, long + 1), False)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            alone[token.start[0]] = True
    return alone


def _row(name: str, count: Counter[str]) -> str:
    return f"{name:32}" + "".join(f"{count[kind]:>10,}" for kind in KINDS).replace(",", " ")


def main(wanted: list[str]) -> int:
    """Print the table of the house, or of what was named."""
    print(f"{'':32}" + "".join(f"{kind:>10}" for kind in KINDS))
    if wanted:
        rows = {
            str(file.relative_to(ROOT)): weigh_file(file)
            for each in wanted
            for file in (sorted((ROOT / each).rglob("*.py")) or [ROOT / each])
        }
    else:
        rows = {}
        for file in sorted((ROOT / "helpers").rglob("*.py")):
            room = file.relative_to(ROOT).parts[1]
            room = "helpers/*.py" if room.endswith(".py") else f"helpers/{room}"
            rows[room] = rows.get(room, Counter()) + weigh_file(file)
    for name, count in sorted(rows.items(), key=lambda row: -row[1]["lines"]):
        print(_row(name, count))
    print(_row("in all" if wanted else "helpers", sum(rows.values(), Counter())))
    for part in () if wanted else PARTS:
        print(_row(part, sum(map(weigh_file, (ROOT / part).rglob("*.py")), Counter())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
