"""C's types as NumPy has them: numbers, vectors, and the macros that stand for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from helpers.cuda.errors import CompileError

SCALARS = {
    "float": "float32",
    "double": "float64",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
    "bool": "bool",
    **{f"{kind}{bits}_t": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
VECTORS = {
    "float": "float32",
    "double": "float64",
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "longlong": "int64",
    "ulonglong": "uint64",
}
QUALIFIERS = ("const", "volatile", "signed")
# C type → NumPy dtype of one component, and how many it has. A float4* takes a float32 array.
DTYPES: dict[str, tuple[str, int]] = {
    **{name: (dtype, 1) for name, dtype in SCALARS.items()},
    **{f"{name}{n}": (dtype, n) for name, dtype in VECTORS.items() for n in (1, 2, 3, 4)},
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    c_type: str
    dtype: str  # of the number or an element
    pointer: bool  # whether it takes an array
    const: bool


def strip_comments(source: str) -> str:
    """Blank out comments, keeping every line where it is."""
    comment = r"(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\])')|//[^\n]*|/\*.*?\*/"
    return re.sub(comment, lambda m: m[1] or blank(m), source, flags=re.DOTALL)


def blank(match: re.Match[str]) -> str:
    """Return blanks for a match, and its ends of lines."""
    return re.sub(r"[^\n]", " ", match.group())


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


def macros_of(source: str, defines: Mapping[str, object] | None) -> dict[str, str]:
    """Return the text that a source's macros, and those of a launch, have for a name."""
    text = strip_comments(source)
    found = dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+?)[ \t]*$", text, re.M))
    found.update({name: str(value) for name, value in (defines or {}).items()})
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


def parameter_of(text: str, kernel: str, line: int, macros: dict[str, str]) -> Parameter:
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
    dtype, components = DTYPES.get(base, ("", 1))
    if stars > 1 or "&" in plain or not dtype or (components > 1 and not stars):
        raise CompileError(
            f"line {line}: parameter `{text}` of kernel {kernel} is of a type that no array and no "
            f"number has; expected one of {', '.join(SCALARS)}, or a pointer to one of these or to "
            "a vector such as float4"
            + (f" (for rows and columns write *{name}, or {name}[][width])" if stars > 1 else "")
        )
    c_type = " ".join(declared.split()) + (" *" if brackets else "")
    const = bool(re.search(r"\bconst\b", plain.split("*")[0]))
    return Parameter(name, c_type, dtype, stars == 1, const)
