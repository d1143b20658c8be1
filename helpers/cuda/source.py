"""Read from a CUDA C source what a launch needs: kernels, their parameters, constant symbols."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.cuda.c_types import (
    DTYPES,
    Parameter,
    base_type,
    closed,
    code,
    line_at,
    macros_of,
    number_of,
    parameter_of,
    strip_comments,
    structs,
)
from helpers.cuda.errors import CompileError


@dataclass(frozen=True)
class Signature:
    """A ``__global__`` function."""

    name: str
    parameters: tuple[Parameter, ...]
    line: int  # of the source, from 1
    most_threads: int | None = None  # of a block, by __launch_bounds__

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{p.c_type} {p.name}' for p in self.parameters)})"


def kernels(
    source: str,
    defines: Mapping[str, object] | None = None,
    instances: Sequence[str] = (),
) -> dict[str, Signature]:
    """Return the signatures of all ``__global__`` functions, and of wanted template instances."""
    _no_kernels_of_macros(source)
    found: dict[str, Signature] = {}
    for signature in _declared(source, defines, instances):
        known = found.get(signature.name, signature)
        found[signature.name] = signature  # the definition, after its declaration
        if [p.c_type for p in known.parameters] != [p.c_type for p in signature.parameters]:
            raise CompileError(
                f"line {signature.line}: another kernel is called {signature.name} (line "
                f"{known.line}): a launch finds its kernel by name, so give each its own"
            )
    return found


def _no_kernels_of_macros(source: str) -> None:
    text = strip_comments(source)
    for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", text, re.M):
        if "__global__" in match[2] and re.search(rf"\b{match[1]}\b", code(source)):
            raise CompileError(
                f"line {line_at(text, match.start())}: the macro {match[1]} makes kernels, and "
                "kernels are read from the text as it stands: write them out, or make a template "
                "of them"
            )


def names(source: str) -> list[str]:
    """Return the names of all kernels and templates of a source, which need not compile."""
    return [match["name"] for match, _ in _heads(code(source))]


def templates(source: str) -> dict[str, tuple[str, ...]]:
    """Return the kernel templates: the names of each one's parameters."""
    return {match["name"]: names for match, names in _heads(code(source)) if names}


Head = tuple[re.Match[str], tuple[str, ...]]  # of a kernel, and its template's parameters


def _heads(text: str) -> list[Head]:
    limit = "(?:__launch_bounds__|__maxnreg__|__cluster_dims__)"
    bounds = rf"{limit}\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    kernel = rf"__global__\b((?:[^;{{}}()]|{bounds})*?)\b(?P<name>(?!{limit})\w+)\s*\("
    found = []
    for match in re.finditer(kernel, text):
        template = re.search(r"template\s*<([^<>]*)>\s*(?:static\s+)?$", text[: match.start()])
        names = re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", template[1]) if template else []
        found.append((match, tuple(names)))
    return found


def _namespace(text: str, position: int) -> str | None:
    """Return the namespace that a place in the text lies in."""
    rooms: list[str | None] = []
    for brace in re.finditer(r"[{}]", text[:position]):
        if brace[0] == "{":
            named = re.search(r"\bnamespace\s*([\w:]*)\s*$", text[: brace.start()])
            rooms.append((named[1] or "without a name") if named else None)
        elif rooms:
            rooms.pop()
    return next((room for room in rooms if room), None)


def _declared(
    source: str, defines: Mapping[str, object] | None, instances: Sequence[str]
) -> list[Signature]:
    text, macros = code(source), macros_of(source, defines)
    known = structs(source, defines)
    found = []
    for match, names in _heads(text):
        line = line_at(text, match.start())
        if room := _namespace(text, match.start()):
            raise CompileError(
                f"line {line}: kernel {match['name']} stands in a namespace ({room}), and a launch "
                "finds only kernels that stand outside: move it out, its functions may stay"
            )
        inside = _in_parentheses(text, match.end() - 1, line)
        wanted = [i for i in instances if i.split("<")[0] == match["name"]] if names else [None]
        for instance in wanted:
            given = instance.partition("<")[2].rstrip(">").split(",") if instance else []
            types = macros | dict(zip(names, map(str.strip, given), strict=False))
            name = instance or match["name"]
            parameters = tuple(
                parameter_of(part, name, line, types, known)
                for part in _split(inside)
                if part != "void"
            )
            bounds = re.search(r"__launch_bounds__\s*\(", match[0])
            given_bounds = _in_parentheses(match[0], bounds.end() - 1, line) if bounds else ""
            most = number_of(given_bounds.split(",")[0], types) if bounds else None
            found.append(Signature(name, parameters, line, most))
    return found


def constants(
    source: str, defines: Mapping[str, object] | None = None
) -> dict[str, str | np.dtype | None]:
    """Return the ``__constant__`` variables: an element's dtype, None where NumPy has none."""
    macros, known, text = macros_of(source, defines), structs(source, defines), code(source)
    found: dict[str, str | np.dtype | None] = {}
    for match in re.finditer(r"[^;{}]*\b__constant__\b", text):
        rest, depth = "", 0
        for letter in text[match.end() :]:  # without what stands in braces: values, or members
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if letter == ";" and not depth:
                break
            rest += letter if not depth and letter != "}" else ""
        plain = re.sub(r"=[^,]*", "", match[0] + rest)
        plain = re.sub(r"\b(?:__align__|alignas)\s*\([^)]*\)", " ", plain)
        plain = re.sub(r"\b(?:__constant__|static|const|constexpr|extern)\b", " ", plain)
        names = r"\w+\s*(?:\[[^]]*\]\s*)*"
        declared = re.fullmatch(rf"\s*((?:\w+\s+)+?)({names}(?:,\s*{names})*)", plain)
        if declared:
            base = base_type(declared[1], macros)
            dtype = known.get(base) or DTYPES.get(base, (None,))[0]
            if declared[1].split() == ["struct"]:  # one without a name
                dtype = None
            declarators = re.findall(r"(\w+)\s*(?:\[[^]]*\]\s*)*(?:,|$)", declared[2])
            found |= dict.fromkeys(declarators, dtype)
    return found


def dynamic_shared(source: str) -> list[str]:
    """Return the names that are declared as ``extern __shared__ T name[]``, each once."""
    names = re.findall(r"extern\s+__shared__\s+[^;\[]*?(\w+)\s*\[\s*\]\s*;", strip_comments(source))
    return list(dict.fromkeys(names))


def excerpt(source: str, signature: Signature, *, numbered: bool = False) -> str:
    """Return the lines of one kernel, from the comment directly above it to its last brace."""
    rows, plain = source.splitlines(), strip_comments(source).splitlines()
    first = last = signature.line - 1
    while first > 0 and rows[first - 1].lstrip().startswith("//"):
        first -= 1
    depth, opened = 0, False
    for last in range(signature.line - 1, len(plain)):
        opened |= "{" in plain[last]
        depth += plain[last].count("{") - plain[last].count("}")
        if opened and depth <= 0:
            break
    chosen = rows[first : last + 1]
    if numbered:
        chosen = [f"{number:3}  {row}".rstrip() for number, row in enumerate(chosen, first + 1)]
    return "\n".join(chosen)


def explain(log: str, source: str, name: str) -> str:
    """Return a compiler's messages with the line of the source under each that names one."""
    rows = source.splitlines()
    said = []
    for text in log.splitlines():
        match = re.match(rf"(?:.*/)?{re.escape(name)}[:(](\d+)(?::\d+)?\)?: (.*)", text)
        if match and not match.group(2).startswith("note"):
            number = int(match.group(1))
            line = rows[number - 1] if 0 < number <= len(rows) else ""
            said.append(f"{name}, line {number}: {match.group(2)}\n    {number:4d} | {line}")
    return "\n".join(said) if said else log.strip()


def _in_parentheses(text: str, opening: int, line: int) -> str:
    """Return what stands between a parenthesis and the one that closes it."""
    end = closed(text, opening)
    if end is None:
        raise CompileError(f"line {line}: the parameter list of this kernel has no end")
    return text[opening + 1 : end - 1]


def _split(parameters: str) -> list[str]:
    return [part.strip() for part in parameters.split(",") if part.strip()]
