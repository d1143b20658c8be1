"""C's types as NumPy has them: numbers, vectors, structs, and what names stand for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from helpers.cuda.errors import CompileError

WHOLE = {"char": "int8", "short": "int16", "int": "int32", "long": "int64", "long long": "int64"}
UNSIGNED = {name: f"u{dtype}" for name, dtype in WHOLE.items()}
SCALARS = {
    "float": "float32",
    "double": "float64",
    **WHOLE,
    **{f"unsigned {name}": dtype for name, dtype in UNSIGNED.items()},
    "unsigned": "uint32",
    "signed char": "int8",
    "size_t": "uint64",
    "bool": "bool",
    "half": "float16",
    "__half": "float16",
    **{f"{kind}{bits}_t": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
VECTORS = {"float": "float32", "double": "float64"}
VECTORS |= {name.replace(" ", ""): dtype for name, dtype in WHOLE.items()}
VECTORS |= {f"u{name.replace(' ', '')}": dtype for name, dtype in UNSIGNED.items()}
QUALIFIERS = ("const", "volatile", "signed", "struct", "enum")
# C type → NumPy dtype of one component, and how many it has. A float4* takes a float32 array.
DTYPES: dict[str, tuple[str, int]] = {
    **{name: (dtype, 1) for name, dtype in SCALARS.items()},
    **{f"{name}{n}": (dtype, n) for name, dtype in VECTORS.items() for n in (1, 2, 3, 4)},
    **dict.fromkeys(("half2", "__half2"), ("float16", 2)),
    "dim3": ("uint32", 3),
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    c_type: str
    dtype: str | np.dtype  # of the number or an element; structured for a struct
    pointer: bool  # whether it takes an array
    const: bool
    components: int = 1  # numbers in one value: 3 of a float3


def strip_comments(source: str) -> str:
    """Blank out comments, keeping every line where it is."""
    comment = r"(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\])')|//[^\n]*|/\*.*?\*/"
    return re.sub(comment, lambda m: m[1] or blank(m), source, flags=re.DOTALL)


def blank(match: re.Match[str]) -> str:
    """Return blanks for a match, and its ends of lines."""
    return re.sub(r"[^\n]", " ", match.group())


def line_at(text: str, place: int) -> int:
    """Return the number of the line in which a place of a text lies."""
    return text.count("\n", 0, place) + 1


def closed(text: str, at: int) -> int | None:
    """Return where the bracket at a place of the text is closed: behind the one that closes it."""
    pair, depth = {"(": "()", "{": "{}"}[text[at]], 0
    for bracket in re.compile(rf"[{re.escape(pair)}]").finditer(text, at):
        depth += 1 if bracket[0] == pair[0] else -1
        if not depth:
            return bracket.end()
    return None


def code(source: str) -> str:
    """Blank out comments, directives, ``#if 0`` and quoted text, keeping every line in place."""
    rows, dead = [], 0
    for row in strip_comments(source).split("\n"):
        directive = re.match(r"\s*#\s*(if|else|elif|endif)\w*\s*(.*)", row)
        if dead and directive:
            dead += {"if": 1, "endif": -1}.get(directive[1], -1 if dead == 1 else 0)
        elif directive and directive[1] == "if" and directive[2].strip() in ("0", "false"):
            dead = 1
        rows.append(" " * len(row) if dead else row)
    text = re.sub(r"^[ \t]*#(?:\\.|\\\n|[^\\\n])*", blank, "\n".join(rows), flags=re.M)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', blank, text)
    return text.replace("\\\n", " \n")


def structs(source: str, defines: Mapping[str, object] | None = None) -> dict[str, np.dtype]:
    """Return the plain structs as dtypes; those with members that NumPy lacks are left out."""
    text, macros = code(source), macros_of(source, defines)
    found: dict[str, np.dtype] = {}
    head = r"\b(?:struct|class)\s+(?:(?:alignas|__align__)\s*\([^)]*\)\s*)?(\w*)\s*\{"
    for match in re.finditer(head, text):
        after = closed(text, match.end() - 1) or len(text)
        members: list | None = []
        for declaration in _without_functions(text[match.end() : after - 1]).split(";"):
            if declaration.strip() and members is not None:
                members = _members(re.sub(r"=[^,]*", "", declaration), macros, found, members)
        alias = re.match(r"\s*(\w*)\s*;", text[after:])
        for name in (match[1], alias[1] if alias else ""):
            if name and members:
                found[name] = np.dtype(members, align=True)
    return found


def _without_functions(inside: str) -> str:
    """Leave only the members of a struct that take room."""
    while "{" in inside:
        shorter = re.sub(r"[^;{}]*\)[^;{}()]*\{[^{}]*\}", ";", inside)  # a function with its body
        shorter = re.sub(r"\{[^{}]*\}", "", shorter) if shorter == inside else shorter
        inside = shorter
    inside = re.sub(r"\b(?:public|private|protected)\s*:", " ", inside)
    inside = re.sub(r"[^;]*\([^;]*\)[^;]*;", ";", inside)
    return re.sub(r"\b(?:static|using|typedef)\b[^;]*;", ";", inside)


def _members(
    declaration: str, macros: dict[str, str], known: dict[str, np.dtype], before: list
) -> list | None:
    """Append the members of one declaration, such as ``float x, y[3]``; None if NumPy has none."""
    match = re.fullmatch(r"\s*((?:\w+\s+)+?)(\w+(?:\[\w+\])?(?:\s*,\s*\w+(?:\[\w+\])?)*)\s*",
                         declaration)  # fmt: skip
    if not match:
        return None
    base = base_type(match[1], macros)
    dtype, count = known.get(base) or DTYPES.get(base, (None, 1))[0], DTYPES.get(base, ("", 1))[1]
    if dtype is None:
        return None
    added = []
    for item in match[2].split(","):
        name, _, size = item.strip().partition("[")
        number = macros.get(size[:-1], size[:-1]) if size else "1"
        if not number.isdigit():
            return None
        shape = ((int(number),) if size else ()) + ((count,) if count > 1 else ())
        added.append((name, dtype, shape) if shape else (name, dtype))
    return [*before, *added]


def macros_of(source: str, defines: Mapping[str, object] | None) -> dict[str, str]:
    """Return the text that macros, ``typedef``, ``using`` and ``enum`` have for a name."""
    text = strip_comments(source)
    found = dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+?)[ \t]*$", text, re.M))
    found.update({name: str(value) for name, value in (defines or {}).items()})
    found.update((b, a) for a, b in re.findall(r"\btypedef\s+([\w\s]+?)\s+(\w+)\s*;", text))
    found.update(re.findall(r"\busing\s+(\w+)\s*=\s*([\w\s]+?)\s*;", text))
    enum = r"\benum\s+(?:class\s+|struct\s+)?(\w+)\s*(?::\s*([\w\s]+?)\s*)?\{"
    found.update((name, below or "int") for name, below in re.findall(enum, text))
    return found


def number_of(text: str, macros: Mapping[str, str]) -> int | None:
    """Return what an expression of numbers and macros comes to; None where it has other parts."""
    for _ in range(8):  # a name may stand for a name
        text = re.sub(r"[A-Za-z_]\w*", lambda name: f"({macros.get(name[0], name[0])})", text)
    text = re.sub(r"(?<=\d)[uUlL]+\b", "", text)
    if not re.fullmatch(r"[\d\s()+*/%<>-]+", text):
        return None
    try:
        return int(eval(text.replace("/", "//"), {"__builtins__": {}}))
    except (SyntaxError, TypeError, ArithmeticError):
        return None


def base_type(text: str, macros: dict[str, str]) -> str:
    """Return a type's shortest name: "unsigned long" for ``const long unsigned int``."""
    words = text.split()
    for _ in range(8):  # a name may stand for a name
        words = [word for name in words for word in macros.get(name, name).split()]
    words = [word for word in words if word not in QUALIFIERS]
    words.sort(key=lambda word: word != "unsigned")
    if len(words) > 1 and "int" in words:
        words.remove("int")
    return " ".join(words) or "int"


def parameter_of(
    text: str,
    kernel: str,
    line: int,
    macros: dict[str, str],
    known: dict[str, np.dtype],
) -> Parameter:
    """Read one parameter of a kernel."""
    plain = text.split("=")[0].strip()  # without a default value, which a launch does not use
    match = re.fullmatch(  # float *x, float x[], float x[M][N], float (*x)[N]
        r"(.*?)(?:\(\s*\*\s*(?=\w+\s*\)))?(\w+)\s*\)?\s*((?:\[[^][]*\]\s*)*)", plain, re.DOTALL
    )
    if not match or not match.group(1).strip():
        raise CompileError(f"line {line}: cannot read parameter `{text}` of kernel {kernel}")
    declared, name, brackets = match.groups()
    plain = re.sub(r"\b(__restrict__|__restrict|restrict)\b", " ", declared)
    stars = plain.count("*") + bool(brackets)
    base = base_type(plain.replace("*", " "), macros)
    if stars > 1 or "&" in plain or base not in (DTYPES | known):
        raise CompileError(
            f"line {line}: parameter `{text}` of kernel {kernel} is of a type that no array and no "
            f"number has; expected one of {', '.join(SCALARS)}, a vector such as float4, a struct "
            "of these, or a pointer to one"
            + (f" (for rows and columns write *{name}, or {name}[][width])" if stars > 1 else "")
        )
    c_type = " ".join(declared.split()) + (" *" if brackets else "")
    const = bool(re.search(r"\bconst\b", plain.split("*")[0]))
    if base in known:
        return Parameter(name, c_type, known[base], stars == 1, const)
    dtype, components = DTYPES[base]
    return Parameter(name, c_type, dtype, stars == 1, const, components)
