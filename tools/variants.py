"""A course with other names, sizes and numbers in its exercises: ``make course VARIANT=7``.

The number decides which names and numbers each exercise draws. Its text, stub, solution and check
get the same ones, so a published solution fails: the check asks for another name, and in
some exercises for another number. :mod:`tools.varying` is the table of what varies.
"""

from __future__ import annotations

import ast
import io
import random
import re
import tokenize
from collections.abc import Iterable
from typing import NamedTuple

from nbformat import NotebookNode

from tools.notebooks import SourceError
from tools.varying import CUDA_NAMES, NAMES, NUMBERS, Numbers

SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
RENAMED = 2  # of an exercise's parameters: enough that a pasted body does not run
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


class Graded(NamedTuple):
    """An exercise: its name, its cells from the text to the check, its answer and its check."""

    name: str
    cells: range
    answer: NotebookNode
    check: NotebookNode


class _Word(int):
    """A number that ``{n:word}`` writes as a word."""

    def __format__(self, how: str) -> str:
        return WORDS[self] if how == "word" else super().__format__(how)


def exercises(notebook: NotebookNode) -> list[Graded]:
    """List the graded exercises; each begins at the text above that states its difficulty."""
    roles = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    places = {mark.grade_id: i for i, mark in enumerate(roles) if mark}
    found = []
    for name, at in places.items():
        if not roles[at].get("solution"):
            continue
        first = at
        while first and not notebook.cells[first].source.count("*Difficulty "):
            first -= 1
        last = places[f"{name}-check"]
        cells = range(first, last + 1)
        found.append(Graded(name, cells, notebook.cells[at], notebook.cells[last]))
    return found


def vary(notebook: NotebookNode, stem: str, variant: int) -> dict[str, set[str]]:
    """Change a solved notebook into a variant of it; return what varies in each exercise.

    An exercise has ``names``, and ``numbers`` where the table has some. Variant 0 changes nothing.
    Raises SourceError if the table does not fit the notebook.
    """
    if not variant:
        return {}
    changed = {}
    for graded in exercises(notebook):
        drawn = random.Random(f"{variant}/{stem}/{graded.name}")
        where = f"{stem}, exercise {graded.name!r}"
        numbers = NUMBERS.get(f"{stem[:2]} {graded.name}")
        if numbers:
            _number(notebook, graded, numbers, drawn, where)
        _name(notebook, graded, drawn, where)
        changed[graded.name] = {"names", "numbers"} if numbers else {"names"}
    return changed


def _number(
    notebook: NotebookNode, graded: Graded, numbers: Numbers, drawn: random.Random, where: str
) -> None:
    """Draw the exercise's numbers and put them into its cells and into each call of its check."""
    chosen = dict(drawn.choice(numbers.draws))
    values = {key: _Word(v) if isinstance(v, int) else v for key, v in chosen.items()}
    own = [notebook.cells[i] for i in graded.cells]
    for cells, pairs in ((own, numbers.replace), (notebook.cells, numbers.later)):
        for old, new in pairs:
            if not any(old in cell.source for cell in cells):
                raise SourceError(f"{where}: tools/varying.py replaces {old!r}, which no cell has")
            for cell in cells:
                cell.source = cell.source.replace(old, new.format(**values))
    if "order" in chosen:
        for cell in own:
            cell.source = _relettered(cell.source, chosen["order"])
    said = "".join(f", {key}={chosen[key]!r}" for key in numbers.keywords)
    (call,) = re.findall(r"check\w*\.\w+(?=\()", graded.check.source)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = _with_keywords(cell.source, call, said)


def _relettered(text: str, order: str) -> str:
    """Put lettered statements in another order: with ``order`` "CABDE", C becomes A."""
    new = dict(zip(order, "ABCDE", strict=True))  # the old letter -> the new one
    lines = text.split("\n")
    at = [i for i, line in enumerate(lines) if re.match(r"- (\*\*[a-e]\*\*|[A-E]:)", line)]
    moved = [lines[at["ABCDE".index(letter)]] for letter in order] if at else []
    for i, line in zip(at, moved, strict=True):
        lines[i] = line
    text = re.sub(r"(?m)^- ([A-E]):", lambda m: f"- {new[m[1]]}:", "\n".join(lines))
    text = re.sub(r"\*\*([a-e])\*\*", lambda m: f"**{new[m[1].upper()].lower()}**", text)
    return re.sub(  # the solution
        r'(?m)^(\w+ = ")([A-E]{2,}|[a-e]{2,})"$',
        lambda m: m[1] + "".join(sorted(_as(new[c.upper()], c) for c in m[2])) + '"',
        text,
    )


def _as(letter: str, like: str) -> str:
    return letter.upper() if like.isupper() else letter.lower()


def _with_keywords(text: str, call: str, said: str) -> str:
    """Return the cell with ``said`` added to the arguments of a check, and of its ``passed``."""
    for match in reversed(list(re.finditer(rf"{re.escape(call)}(\.passed)?\(", text))):
        depth, at = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        text = text[: at - 1] + said + text[at - 1 :]
    return text


def _name(notebook: NotebookNode, graded: Graded, drawn: random.Random, where: str) -> None:
    """Rename the answer everywhere, and its parameters within the exercise."""
    given = _without_solutions(graded.answer.source)
    cuda = graded.answer.source.startswith("%%cuda")
    known = CUDA_NAMES if cuda else NAMES
    used = set(re.findall(r"\w+", graded.answer.source))
    inner: dict[str, str] = {}
    for name, others in known.items():
        kept = re.search(rf"\b{name} ?=(?!=)", given) and not cuda  # may be passed by its name
        free = [other for other in others if other not in used | set(inner.values())]
        if name in _names(given, cuda) and not kept and free and len(inner) < RENAMED:
            inner[name] = drawn.choice(free)
    outer = {}
    for name in _names(graded.check.source):
        defined = re.search(rf"(?m)^(def |class |%%cuda )?.*\b{name}\b", given)
        if defined and not name.startswith("check") and name not in ("cluster", "lambda"):
            outer[name] = f"{name}_{drawn.choice(SYLLABLES)}"
    if not outer:
        raise SourceError(f"{where}: no argument of the check is a name that the answer defines")
    for i in graded.cells:
        _rename(notebook.cells[i], inner, prose=True)
        _rename(notebook.cells[i], outer, prose=True)
    for cell in notebook.cells[graded.cells.stop :]:
        bound = _bound(cell) if cell.cell_type == "code" else set(outer)
        _rename(cell, {k: v for k, v in outer.items() if k not in bound}, prose=False)


def _without_solutions(text: str) -> str:
    return re.sub(r"(#|//) BEGIN SOLUTION.*?END SOLUTION", "", text, flags=re.DOTALL)


def _bound(cell: NotebookNode) -> set[str]:
    """Return the names that a cell assigns, also as parameters and loop variables."""
    try:
        tree = ast.parse(_python(cell.source))
    except SyntaxError:  # CUDA C
        return set()
    nodes = list(ast.walk(tree))
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {n.arg for n in nodes if isinstance(n, ast.arg)}


def _python(text: str) -> str:
    """Return a cell with its magics as comments of the same length."""
    return re.sub(r"(?m)^%(?=\w)", "#", re.sub(r"^%%.*", lambda m: "#" * len(m[0]), text))


def _names(text: str, cuda: bool = False) -> set[str]:
    """Return the names in a cell; in Python without attributes, keywords of calls and strings."""
    if cuda:
        return set(re.findall(r"\b[a-zA-Z]\w*\b", re.sub(r"//.*", "", text)))
    return {text[slice(*place)] for place in _places(text)}


def _rename(cell: NotebookNode, new: dict[str, str], *, prose: bool) -> None:
    """Rename in a cell. With ``prose`` also in text, within backquotes, and in docstrings."""
    if cell.cell_type == "markdown":
        if prose:
            cell.source = _spans(cell.source, new)
        return
    if cell.source.startswith("%%cuda"):
        if prose:
            cell.source = re.sub(r"\w+", lambda m: new.get(m[0], m[0]), cell.source)
        return
    text = cell.source
    for first, last in sorted(_places(text, docstrings=new if prose else {}), reverse=True):
        piece = text[first:last]
        if piece in new:
            text = text[:first] + new[piece] + text[last:]
        elif prose and piece.startswith('"""'):
            text = text[:first] + _documented(piece, new) + text[last:]
    cell.source = text


def _spans(text: str, new: dict[str, str]) -> str:
    """Rename within backquotes."""

    def renamed(span: re.Match) -> str:
        return re.sub(r"(?<![\w.])\w+", lambda m: new.get(m[0], m[0]), span[0])

    return re.sub(r"`[^`\n]+`", renamed, text)


def _documented(text: str, new: dict[str, str]) -> str:
    """Rename in a docstring; outside backquotes only names that are no English words."""
    names = {k: v for k, v in new.items() if len(k) == 1 or re.search(r"[_\d]", k)}
    text = re.sub(r"(?<![\w.`])\w+(?!\()", lambda m: names.get(m[0], m[0]), _spans(text, new))
    return re.sub(r"\b(\w+)(?=\()", lambda m: new.get(m[0], m[0]), text)


def _places(text: str, docstrings: Iterable[str] = ()) -> list[tuple[int, int]]:
    """Return where names stand in a cell of Python, also in f-strings, and where docstrings do."""
    body = _python(text)
    starts = [0]
    for line in body.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    found, depth = [], 0
    tokens = list(tokenize.generate_tokens(io.StringIO(body).readline))
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        at = starts[token.start[0] - 1] + token.start[1]
        depth += {"(": 1, ")": -1}.get(token.string, 0)
        if token.type == tokenize.NAME:
            attribute = before is not None and before.string == "."
            keyword = depth and after is not None and after.string == "="
            method = before is not None and before.string == "def" and before.start[1] > 0
            if not attribute and not keyword and not method:
                found.append((at, at + len(token.string)))
        elif token.type == tokenize.STRING and re.match(r"[rR]?[fF]", token.string):
            for part in re.finditer(r"\{([^{}]+)\}", token.string):
                for name in re.finditer(r"(?<![\w.'\"])[A-Za-z_]\w*(?![\w'\"])", part[1]):
                    first = at + part.start(1) + name.start()
                    found.append((first, first + len(name[0])))
        elif token.type == tokenize.STRING and token.string.startswith('"""') and docstrings:
            found.append((at, at + len(token.string)))
    return found
