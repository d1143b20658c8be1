"""Split a Debian package description into sentences of words.

A description (Debian Policy 3.4 and 5.6.13) is a one-line synopsis, then lines indented by one
space, a lone ``.`` for an empty line, and lists or literal text indented further. Its markup, its
links and the package's own name are dropped: a model should learn from what is *said*, and a reader
should not have to wonder whether it recognised ``aspell-ga`` or a row of bullets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

NAME = "<name>"  # stands where the description names its own package
NUMBER = "<number>"  # stands for every run of digits

_BULLET = re.compile(r"^\s*(?:[-*+•·o#]|\(?\d{1,2}[.)])\s+")
_LINK = re.compile(r"<?\b(?:https?|ftp|git|svn)://[^\s>]+>?|\bwww\.\S+|\S+@\S+\.\w+")
_HEADER = re.compile(r"^\s*(?:homepage|url|web ?site|author|upstream authors?)\s*:", re.IGNORECASE)
_CAPITALS = "".join(filter(str.isupper, map(chr, range(0x590))))  # Latin, Greek, Cyrillic, Armenian
_END = re.compile(rf"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[{_CAPITALS}0-9<])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|resp|approx|incl|no|fig|et al|dr|mr|mrs|st|inc|[^\W\d_])\.)$",
    re.IGNORECASE,
)
_WORD = re.compile(r"<name>|[^\W\d_]+(?:['’][^\W\d_]+)*\+{0,2}|\d+")


def sentences(description: str, names: Iterable[str] = ()) -> list[str]:
    """Return the sentences of ``description``; the synopsis, its first line, is the first of them.

    Each item of a list is a sentence of its own. ``names`` (the package, its source) are replaced
    by ``NAME``. An empty description has no sentences. Any other text has no synopsis, and its
    first line may hold several sentences: put an empty line before it.

    >>> sentences("a tool\\n It runs. It stops, e.g. now.\\n .\\n  * fast\\n  * small", ["tool"])
    ['a <name>', 'It runs.', 'It stops, e.g. now.', 'fast', 'small']
    >>> sentences("\\n" + "It runs. Überall läuft es.")
    ['It runs.', 'Überall läuft es.']
    """
    synopsis, _, body = description.partition("\n")
    found = [synopsis.strip()]
    for block in _blocks(body):
        found += _split(block)
    hidden = _names(names)
    cleaned = (" ".join(_LINK.sub(" ", s).split()) for s in found)
    cleaned = (hidden.sub(NAME, s) if hidden else s for s in cleaned)
    return [s for s in cleaned if words(s)]


def words(sentence: str) -> list[str]:
    """Return the lower-case words of ``sentence``, numbers as ``NUMBER``, punctuation dropped.

    >>> words("The C++ library libfoo2, v1.5 (fast!)")
    ['the', 'c++', 'library', 'libfoo', '<number>', 'v', '<number>', '<number>', 'fast']
    """
    return [NUMBER if w[0].isdigit() else w for w in _WORD.findall(sentence.lower())]


def _blocks(body: str) -> list[str]:
    """Join lines into paragraphs and list items; header lines such as ``Homepage:`` are dropped."""
    blocks: list[list[str]] = [[]]
    for line in body.split("\n"):
        if line.strip() in ("", "."):
            blocks.append([])
        elif not _HEADER.match(line):
            if bullet := _BULLET.match(line):
                blocks.append([line[bullet.end() :].strip()])
            else:
                blocks[-1].append(line.strip())
    return [" ".join(block) for block in blocks if block]


def _split(paragraph: str) -> list[str]:
    """Split at a full stop before a capital, unless an abbreviation or an initial carries it."""
    parts: list[str] = []
    for part in _END.split(paragraph):
        if parts and _ABBREVIATION.search(parts[-1]):
            parts[-1] += " " + part
        else:
            parts.append(part)
    return parts


def _names(names: Iterable[str]) -> re.Pattern | None:
    longest_first = sorted({n for n in names if n}, key=len, reverse=True)
    if not longest_first:
        return None
    choice = "|".join(re.escape(name) for name in longest_first)
    return re.compile(rf"(?<![\w-])(?:{choice})(?![\w-])", re.IGNORECASE)
