"""Read from a CUDA C source what a launch needs: kernels, their parameters, constant symbols."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from helpers.cuda.errors import CompileError

# C type → NumPy dtype of one element. A float4* takes a float32 array.
DTYPES = {
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
    **{f"float{n}": "float32" for n in (2, 4)},
    **{f"int{n}": "int32" for n in (2, 4)},
    "uchar4": "uint8",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Parameters
    ----------
    name, c_type : str
        As the source spells them.
    dtype : str
        Of the number, or of one array element.
    pointer : bool
        Whether it takes an array.
    const : bool
        Whether the kernel may only read it.
    """

    name: str
    c_type: str
    dtype: str
    pointer: bool
    const: bool


@dataclass(frozen=True)
class Signature:
    """A ``__global__`` function.

    Parameters
    ----------
    name : str
        As the source spells it.
    parameters : tuple of Parameter
        In order.
    line : int
        Of the source, from 1.
    """

    name: str
    parameters: tuple[Parameter, ...]
    line: int

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{p.c_type} {p.name}' for p in self.parameters)})"


@dataclass(frozen=True)
class Constant:
    """A ``__constant__`` variable.

    Parameters
    ----------
    name : str
        As the source spells it.
    dtype : str
        Of one element.
    """

    name: str
    dtype: str


def strip_comments(source: str) -> str:
    """Blank out comments, keeping every line where it is.

    Parameters
    ----------
    source : str
        CUDA C.

    Returns
    -------
    str
        As many lines, as long as before.
    """
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())  # noqa: E731
    return re.sub(r"//[^\n]*|/\*.*?\*/", blank, source, flags=re.DOTALL)


def kernels(source: str, defines: Mapping[str, object] | None = None) -> dict[str, Signature]:
    """Return the signatures of all ``__global__`` functions.

    Parameters
    ----------
    source : str
        CUDA C.
    defines : dict, optional
        Macros.

    Returns
    -------
    dict
        :class:`Signature` by name.

    Raises
    ------
    CompileError
        For a kernel template, or a parameter of a type that no array element has.
    """
    text, macros = strip_comments(source), _macros(source, defines)
    found = {}
    bounds = r"__launch_bounds__\s*\([^)]*\)"
    pattern = rf"__global__\b((?:[^;{{}}()]|{bounds})*?)\b((?!__launch_bounds__)\w+)\s*\("
    for match in re.finditer(pattern, text):
        line = text.count("\n", 0, match.start()) + 1
        name = match.group(2)
        if re.search(r"template\s*<[^<>]*>\s*$", text[: match.start()]):
            raise CompileError(
                f"line {line}: kernel {name} is a template; give it plain parameters, or a macro "
                "set through defines=..."
            )
        inside = _until_parenthesis(text, match.end(), line)
        parameters = tuple(
            _parameter(part, name, line, macros) for part in _split(inside) if part != "void"
        )
        found[name] = Signature(name, parameters, line)
    return found


def constants(source: str, defines: Mapping[str, object] | None = None) -> dict[str, Constant]:
    """Return the ``__constant__`` variables.

    Parameters
    ----------
    source : str
        CUDA C.
    defines : dict, optional
        Macros.

    Returns
    -------
    dict
        :class:`Constant` by name.
    """
    macros = _macros(source, defines)
    found = {}
    for match in re.finditer(
        r"__constant__\s+((?:(?:const|unsigned|signed|long)\s+)*\w+)\s+(\w+)\s*[\[;=]",
        strip_comments(source),
    ):
        base = _base_type(match.group(1), macros)
        if base in DTYPES:
            found[match.group(2)] = Constant(match.group(2), DTYPES[base])
    return found


def dynamic_shared(source: str) -> list[str]:
    """Return what is declared as ``extern __shared__ T name[]``.

    Parameters
    ----------
    source : str
        CUDA C.

    Returns
    -------
    list of str
        The names, each once.
    """
    names = re.findall(r"extern\s+__shared__\s+[^;\[]*?(\w+)\s*\[\s*\]\s*;", strip_comments(source))
    return list(dict.fromkeys(names))


def excerpt(source: str, signature: Signature) -> str:
    """Return the lines of one kernel, from the comment directly above it to its last brace.

    Parameters
    ----------
    source : str
        CUDA C.
    signature : Signature
        The kernel.

    Returns
    -------
    str
        Lines as they stand.
    """
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
    return "\n".join(rows[first : last + 1])


def explain(log: str, source: str, name: str) -> str:
    """Return a compiler's messages with the line of the source under each.

    Parameters
    ----------
    log : str
        What the compiler printed.
    source, name : str
        CUDA C, and what the compiler calls it.

    Returns
    -------
    str
        The log itself where it names no line.
    """
    rows = source.splitlines()
    said = []
    for text in log.splitlines():
        match = re.match(rf"(?:.*/)?{re.escape(name)}[:(](\d+)(?::\d+)?\)?: (.*)", text)
        if match and not match.group(2).startswith("note"):
            number = int(match.group(1))
            line = rows[number - 1] if 0 < number <= len(rows) else ""
            said.append(f"{name}, line {number}: {match.group(2)}\n    {number:4d} | {line}")
    return "\n".join(said) if said else log.strip()


def _macros(source: str, defines: Mapping[str, object] | None) -> dict[str, str]:
    found = dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+?)[ \t]*$", source, re.M))
    found.update({name: str(value) for name, value in (defines or {}).items()})
    return found


def _until_parenthesis(text: str, start: int, line: int) -> str:
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if not depth:
            return text[start:position]
    raise CompileError(f"line {line}: the parameter list of this kernel has no end")


def _split(parameters: str) -> list[str]:
    return [part.strip() for part in parameters.split(",") if part.strip()]


def _base_type(text: str, macros: dict[str, str]) -> str:
    words = [macros.get(word, word) for word in text.split()]
    words = [word for word in words if word not in ("const", "volatile", "signed", "struct")]
    if len(words) > 1 and words[-1] == "int":
        words = words[:-1]
    return " ".join(words) or "int"


def _parameter(text: str, kernel: str, line: int, macros: dict[str, str]) -> Parameter:
    match = re.fullmatch(r"(.*?)(\w+)\s*((?:\[\s*\w*\s*\])?)", text, re.DOTALL)
    if not match or not match.group(1).strip():
        raise CompileError(f"line {line}: cannot read parameter `{text}` of kernel {kernel}")
    declared, name, brackets = match.groups()
    plain = re.sub(r"\b(__restrict__|__restrict|restrict)\b", " ", declared)
    stars = plain.count("*") + bool(brackets)
    base = _base_type(plain.replace("*", " "), macros)
    if stars > 1 or "&" in plain or base not in DTYPES:
        raise CompileError(
            f"line {line}: parameter `{text}` of kernel {kernel} is of a type that no array and no "
            f"number has; expected one of {', '.join(DTYPES)}, or a pointer to one"
        )
    c_type = " ".join(declared.split()) + (" *" if brackets else "")
    const = bool(re.search(r"\bconst\b", plain.split("*")[0]))
    return Parameter(name, c_type, DTYPES[base], stars == 1, const)
