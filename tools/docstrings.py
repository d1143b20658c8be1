"""Check the docstrings of ``helpers`` (``make lint``): NumPy's sections where readers need them.

Sections may stand on what a notebook's code names, on what a library lists in ``__all__``, and on
public members of these; not on what a notebook prints with ``inspect.getsource``, where code is to
be seen and not parameters. No entry is of a parameter that is not there. Everything else has a
sentence.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEFINED = ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
HEADING = re.compile(r"^\s*-{3,}\s*$", re.MULTILINE)


@cache
def known() -> tuple[set[str], list[str]]:
    """Return the names that notebooks use or libraries list, and those that notebooks print."""
    notebooks = [path.read_text("utf-8") for path in (ROOT / "notebooks/source").glob("*.py")]
    code = re.sub(r"^#.*", "", "\n".join(notebooks), flags=re.MULTILINE)
    inits = [path.read_text("utf-8") for path in (ROOT / "helpers").rglob("__init__.py")]
    listed = re.findall(r"^__all__ = \[(.*?)\]", "\n".join(inits), re.MULTILINE | re.DOTALL)
    names = set(re.findall(r"\w+", " ".join([code, *listed])))
    printed = []
    for name in re.findall(r"getsource\(([\w.]+)\)", code):
        source = re.search(
            rf"^from [\w.]*?(\w+) import .*\b{re.escape(name)}\b", code, re.MULTILINE
        )
        printed.append(f"{source[1]}.{name}" if source else name)
    return names, printed


def faults(text: str, file: Path) -> list[str]:
    """Return a line for each docstring of a file that is too long or wrong."""
    found = []
    names, printed = known()
    for node, name in described(ast.parse(text), ""):
        where = f"{file}:{node.body[0].lineno}: {name.removeprefix('.')}"
        words = ast.get_docstring(node)
        above, own = f".{name}".split(".")[-2:]
        read = own in names or (above in names and not own.startswith("_"))
        read &= not any(f".{file.stem}{name}".endswith(f".{one}") for one in printed)
        if HEADING.search(words) and not read:
            found.append(f"{where}: sections, though no notebook or library uses it")
        if wrong := _entries(words) - _taken(node):
            found.append(f"{where}: no parameter is called {', '.join(sorted(wrong))}")
    return found


def _entries(words: str) -> set[str]:
    """Return the names below the heading Parameters."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?:^\w+\n-+\n|\Z)", words, re.M | re.S)
    entries = re.findall(r"^(\S[^:\n]*)", section[1], re.M) if section else []
    return {name.strip(" *") for entry in entries for name in entry.split(",")}


def _taken(node: ast.AST) -> set[str]:
    """Return the parameters of a function, or those with which a class is made."""
    if isinstance(node, ast.ClassDef):
        made = [each for each in node.body if getattr(each, "name", "") == "__init__"]
        fields = {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
        return fields.union(*map(_taken, made))
    return {each.arg for each in ast.walk(getattr(node, "args", node)) if isinstance(each, ast.arg)}


def described(node: ast.AST, name: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield each module, class and function that has a docstring, with its full name."""
    if isinstance(node, (ast.Module, *DEFINED)) and ast.get_docstring(node, False) is not None:
        yield node, name
    for child in ast.iter_child_nodes(node):
        own = f"{name}.{child.name}" if isinstance(child, DEFINED) else name
        yield from described(child, own)


def main() -> int:
    """Print every fault of every library; 1 if there is one."""
    files = sorted((ROOT / "helpers").rglob("*.py"))
    found = [line for file in files for line in faults(file.read_text("utf-8"), file)]
    print("\n".join(found) or "every docstring says what it is to say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
