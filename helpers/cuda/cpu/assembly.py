"""Rework the compiler's assembly of a CUDA C source before it is assembled and linked.

Four things that no compiler flag gives:

- bytes that belong to nobody after each variable, so that one element too far is seen;
- the source's own names stay its own: none can collide with the runner's or the C library's;
- the kernels' code lies in one section, so that a signal handler can tell whether it was there;
- index checks of arrays in memory go, since their addresses are checked: a row of a
  two-dimensional array may be left as long as the array is not. Local arrays keep theirs.
"""

from __future__ import annotations

import re

GAP = 64  # bytes after each variable
READER = "cuda_reader"  # the symbol table's name for the reader's file
KEPT = frozenset(
    {"cuda_kernels", "cuda_constants", "cuda_guards_locals"}
)  # what the runner looks for
DATA = re.compile(
    r"\s+\.(zero|byte|value|short|hword|2byte|long|int|word|4byte|quad|xword|8byte|float|double"
    r"|string|ascii|asciz|skip|space|octa)\b"
)


def rework(text: str, source: str, instrumented: bool) -> str:
    """Return the assembly of a source, reworked as this module's text says."""
    labels = set(re.findall(r"^(?:\s+\.set\s+)?([\w.$]+)[:,]", text, re.M))
    objects = set(re.findall(r"^\s+\.type\s+([\w$][\w.$]*), [@%](?:object|tls_object)", text, re.M))
    rows, open_object, filed = [], False, False
    for row in _without_index_checks(text, source).split("\n"):
        if instrumented and open_object and not DATA.match(row):
            rows.append(f"\t.zero\t{GAP}")
            open_object = False
        if match := re.match(r"\s+\.(?:globl|weak|global)\s+([\w.$]+)$", row):
            if match[1] in labels and match[1] not in KEPT:
                continue
        elif instrumented and (match := re.match(r"\s+\.comm\s+([\w.$]+),(\d+),(\d+)", row)):
            rows += _zeros(*match.groups())
            continue
        elif not filed and re.match(r'\s+\.file\s+"', row):
            filed, row = True, f'\t.file\t"{READER}"'
        elif re.match(r"\s+\.(text\b|section\s+\.text)", row):
            row = '\t.section\tcuda_code,"ax"'
        elif match := re.match(r"([\w.$]+):", row):
            open_object = match[1] in objects
        rows.append(row)
    return "\n".join(rows)


def _zeros(name: str, size: str, alignment: str) -> list[str]:
    """Spell a ``.comm`` out, so that it can have its gap."""
    return [
        "\t.pushsection\t.bss",
        f"\t.balign\t{alignment}",
        f"\t.type\t{name}, %object",
        f"\t.size\t{name}, {size}",
        f"{name}:",
        f"\t.zero\t{int(size) + GAP}",
        "\t.popsection",
    ]


def _without_index_checks(text: str, source: str) -> str:
    """Set to 0 the line of each index check that is not about a local array."""
    local = source.splitlines()
    names = set(re.findall(r"^\s+\.type\s+(\w+), [@%](?:object|tls_object)", text, re.M))
    names |= set(re.findall(r"^\s+\.(?:local|comm)\s+(\w+)", text, re.M))
    known = {name for mangled in names for name in _identifiers(mangled)}

    def silence(match: re.Match[str]) -> str:
        line, column = int(match[3]), int(match[4])
        name = indexed(local[line - 1], column) if 0 < line <= len(local) else None
        return match[0].replace(f".long\t{line}", ".long\t0", 1) if name in known else match[0]

    # Location (file, line, column), then two types: an index check and nothing else has these.
    return re.sub(
        r"(\.Lubsan_data\d+:\n\s+\.[a-z0-9]+\s+)(\S+)\n\s+\.long\t(\d+)\n\s+\.long\t(\d+)\n"
        r"\s+\.[a-z0-9]+\s+\.Lubsan_type\d+\n\s+\.[a-z0-9]+\s+\.Lubsan_type\d+",
        silence,
        text,
    )


def _identifiers(mangled: str) -> list[str]:
    """Return the names that a mangled one is made of: tile of ``_ZZ4copyPfE4tile``."""
    if not mangled.startswith("_Z"):
        return [mangled]
    found, rest = [], mangled
    while match := re.search(r"(\d+)([A-Za-z_]\w*)", rest):
        found.append(match[2][: int(match[1])])
        rest = rest[match.start(2) + int(match[1]) :]
    return found[-1:]


def indexed(row: str, column: int) -> str | None:
    """Return the array whose index ends at a column: ``a`` of ``a[i][j]`` at the last bracket."""
    at = column - 1
    while 0 <= at < len(row) and row[at] == "]":
        depth = 0
        while at >= 0:
            depth += {"]": 1, "[": -1}.get(row[at], 0)
            at -= 1
            if not depth:
                break
        while at >= 0 and row[at].isspace():
            at -= 1
    match = re.search(r"([A-Za-z_]\w*)$", row[: at + 1])
    return match[1] if match and at < column - 1 else None
