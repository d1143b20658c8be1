"""Marks at the loops of a CUDA C source: the recorder then knows in which round a thread is."""

from __future__ import annotations

import re

from helpers.cuda.c_types import blank, closed, strip_comments

AROUND = "if (cuda_loop cuda_here; 0) {} else "
ROUND = " if (cuda_round()) {} else "


def with_marks(source: str) -> str:
    """Return the source with a mark before each loop and in it, on the lines where they stand.

    ``for (...) x;`` becomes ``AROUND for (...) ROUND x;`` (runtime/cuda_on_cpu.h has both words).
    Loops of ``constexpr`` functions, and such as ``do x; while (y);``, stay as they are.
    """
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', blank, strip_comments(source)).replace("\\\n", " \n")
    text = re.sub(r"^[ \t]*#(?![ \t]*define\b)[^\n]*", blank, text, flags=re.M)
    text = _without_constexpr(text)
    marks: list[tuple[int, str]] = []
    tails: set[int] = set()  # the `while` behind a `do { }`
    for loop in re.finditer(r"\b(?:do\b|(?:for|while)\b(?=\s*\())", text):
        if loop.start() in tails:
            continue
        inside = loop.end()
        if loop[0] == "do":
            opened = re.compile(r"\s*\{").match(text, inside)
            end = opened and closed(text, opened.end() - 1)
            tail = end and re.compile(r"\s*(?=while\b)").match(text, end)
            if not tail:
                continue
            tails.add(tail.end())
        else:
            end = closed(text, text.index("(", inside))
            if not end:
                continue
            inside = end
        marks += [(loop.start(), AROUND), (inside, ROUND)]
    for at, mark in sorted(marks, reverse=True):
        source = source[:at] + mark + source[at:]
    return re.sub(r"^[ \t]*#[ \t]*pragma[ \t]+(?:GCC[ \t]+)?(?:no)?unroll\b[^\n]*", "", source,
                  flags=re.M)  # fmt: skip


def _without_constexpr(text: str) -> str:
    head = re.compile(r"\bconstexpr\b[^;{}=]*\([^;{}]*\)[^;{}]*\{")
    while found := head.search(text):
        end = closed(text, found.end() - 1) or len(text)
        text = text[: found.start()] + re.sub(r"\S", " ", text[found.start() : end]) + text[end:]
    return text
