"""Read from a CUDA C source what a launch needs: kernels, their parameters, constant symbols."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

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
    "half": "float16",
    "__half": "float16",
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
# C type → NumPy dtype of one component, and how many it has. A float4* takes a float32 array.
DTYPES: dict[str, tuple[str, int]] = {
    **{name: (dtype, 1) for name, dtype in SCALARS.items()},
    **{f"{name}{n}": (dtype, n) for name, dtype in VECTORS.items() for n in (1, 2, 3, 4)},
    **dict.fromkeys(("half2", "__half2"), ("float16", 2)),
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Parameters
    ----------
    name, c_type : str
        As the source spells them.
    dtype : str or numpy.dtype
        Of the number, or of one array element; structured for a struct.
    pointer : bool
        Whether it takes an array.
    const : bool
        Whether the kernel may only read it.
    components : int
        Numbers in one value: 3 of a ``float3``.
    """

    name: str
    c_type: str
    dtype: str | np.dtype
    pointer: bool
    const: bool
    components: int = 1


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


def kernels(
    source: str,
    defines: Mapping[str, object] | None = None,
    instances: Sequence[str] = (),
) -> dict[str, Signature]:
    """Return the signatures of all ``__global__`` functions.

    Parameters
    ----------
    source : str
        CUDA C.
    defines : dict, optional
        Macros.
    instances : list of str, optional
        Instances of kernel templates that are wanted, such as "scale<float>".

    Returns
    -------
    dict
        :class:`Signature` by name.

    Raises
    ------
    CompileError
        For a parameter of a type that no array element has.
    """
    return {name: signature for name, signature, _ in _declared(source, defines, instances)}


def templates(source: str) -> dict[str, tuple[str, ...]]:
    """Return the kernel templates.

    Parameters
    ----------
    source : str
        CUDA C.

    Returns
    -------
    dict
        Names of the template's parameters by name of the kernel.
    """
    return {match["name"]: names for match, names in _heads(strip_comments(source)) if names}


def structs(source: str, defines: Mapping[str, object] | None = None) -> dict[str, np.dtype]:
    """Return the plain structs.

    Parameters
    ----------
    source : str
        CUDA C.
    defines : dict, optional
        Macros.

    Returns
    -------
    dict
        Structured dtypes by name; structs with members that NumPy does not have are left out.
    """
    text, macros = strip_comments(source), _macros(source, defines)
    found: dict[str, np.dtype] = {}
    pattern = r"\bstruct\s+(\w*)\s*\{([^{}]*)\}\s*(\w*)\s*;"
    for match in re.finditer(pattern, text):
        members: list | None = []
        for declaration in match[2].split(";"):
            if declaration.strip() and members is not None:
                members = _members(declaration, macros, found, members)
        for name in (match[1], match[3]):
            if name and members:
                found[name] = np.dtype(members, align=True)
    return found


def _members(
    declaration: str, macros: dict[str, str], known: dict[str, np.dtype], before: list
) -> list | None:
    """Append the members of one declaration, such as ``float x, y[3]``; None if NumPy has none."""
    match = re.fullmatch(r"\s*((?:\w+\s+)+?)(\w+(?:\[\w+\])?(?:\s*,\s*\w+(?:\[\w+\])?)*)\s*",
                         declaration)  # fmt: skip
    if not match:
        return None
    base = _base_type(match[1], macros)
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


Head = tuple[re.Match[str], tuple[str, ...]]  # of a kernel, and its template's parameters


def _heads(text: str) -> list[Head]:
    bounds = r"__launch_bounds__\s*\([^)]*\)"
    kernel = rf"__global__\b((?:[^;{{}}()]|{bounds})*?)\b(?P<name>(?!__launch_bounds__)\w+)\s*\("
    found = []
    for match in re.finditer(kernel, text):
        template = re.search(r"template\s*<([^<>]*)>\s*(?:static\s+)?$", text[: match.start()])
        names = re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", template[1]) if template else []
        found.append((match, tuple(names)))
    return found


def _declared(
    source: str, defines: Mapping[str, object] | None, instances: Sequence[str]
) -> list[tuple[str, Signature, int]]:
    text, macros = strip_comments(source), _macros(source, defines)
    known = structs(source, defines)
    found = []
    for match, names in _heads(text):
        line = text.count("\n", 0, match.start()) + 1
        inside = _until_parenthesis(text, match.end(), line)
        wanted = [i for i in instances if i.split("<")[0] == match["name"]] if names else [None]
        for instance in wanted:
            given = instance.partition("<")[2].rstrip(">").split(",") if instance else []
            types = macros | dict(zip(names, map(str.strip, given), strict=False))
            name = instance or match["name"]
            parameters = tuple(
                _parameter(part, name, line, types, known)
                for part in _split(inside)
                if part != "void"
            )
            found.append((name, Signature(name, parameters, line), line))
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
            found[match.group(2)] = Constant(match.group(2), DTYPES[base][0])
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


def lacking(log: str) -> str:
    """Return what a compiler or linker says is missing.

    Parameters
    ----------
    log : str
        Its messages.

    Returns
    -------
    str
        Such as "it has no __dp4a".
    """
    if "no such instruction" in log or "impossible constraint" in log:
        return "it has no inline assembly (asm)"
    names = re.findall(
        r"'([^']+)' (?:was not declared|has not been declared|does not name a type|is not a member)"
        r"|undefined reference to [`']([^'(]+)|no member named '([^']+)'",
        log,
    )
    every = dict.fromkeys(name for found in names for name in found if name)
    return f"it has no {', '.join(every)}" if every else "see the compiler's message"


def _macros(source: str, defines: Mapping[str, object] | None) -> dict[str, str]:
    """Return what a name in a declaration may stand for: macros, ``typedef`` and ``using``."""
    text = strip_comments(source)
    found = dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+?)[ \t]*$", text, re.M))
    found.update({name: str(value) for name, value in (defines or {}).items()})
    found.update((b, a) for a, b in re.findall(r"\btypedef\s+([\w\s]+?)\s+(\w+)\s*;", text))
    found.update(re.findall(r"\busing\s+(\w+)\s*=\s*([\w\s]+?)\s*;", text))
    return found


HEADERS = (
    *("cuda_fp16.h", "cooperative_groups.h", "cooperative_groups/reduce.h", "cuda_runtime.h"),
    *("device_launch_parameters.h", "assert.h", "cassert", "float.h", "cfloat", "limits"),
    *("limits.h", "climits", "math.h", "cmath", "stddef.h", "cstddef", "stdint.h", "cstdint"),
    *("stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h", "cstring", "type_traits"),
)


MISSING = {  # what a header that the CPU runner does not have stands for
    "cuda_bf16.h": "bfloat16",
    "cuda_fp8.h": "8-bit floating point",
    "cuda_pipeline.h": "asynchronous copies",
    "cuda/pipeline": "asynchronous copies",
    "cuda/barrier": "split barriers",
    "cuda/atomic": "the C++ library's atomics",
    "mma.h": "tensor cores",
    "curand_kernel.h": "cuRAND's generators",
}


def check_includes(source: str) -> None:
    """Refuse headers and inline PTX, which the CPU runner does not have.

    Parameters
    ----------
    source : str
        CUDA C.

    Raises
    ------
    CompileError
        Names the line, and the header or the instruction.
    """
    text = strip_comments(source)
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', text, re.M):
        if match[1] not in HEADERS:
            line = text.count("\n", 0, match.start()) + 1
            what = f"{MISSING[match[1]]}: no {match[1]}" if match[1] in MISSING else match[1]
            raise CompileError(
                f"line {line}: the CPU runner has no {what}; it has {', '.join(HEADERS)}"
            )
    assembly = r'\b(?:asm|__asm__|__asm)\s*(?:volatile|__volatile__)?\s*\(\s*"\s*([^\s";][^"]*)"'
    if found := re.search(assembly, text):
        line = text.count("\n", 0, found.start()) + 1
        raise CompileError(
            f"line {line}: the CPU runner has no inline PTX (asm), here `{found[1].strip()}`: "
            "it runs CUDA C++ only"
        )


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
    words = text.split()
    for _ in range(8):  # a name may stand for a name
        words = [word for name in words for word in macros.get(name, name).split()]
    words = [word for word in words if word not in ("const", "volatile", "signed", "struct")]
    if len(words) > 1 and words[-1] == "int":
        words = words[:-1]
    return " ".join(words) or "int"


def _parameter(
    text: str,
    kernel: str,
    line: int,
    macros: dict[str, str],
    known: dict[str, np.dtype],
) -> Parameter:
    match = re.fullmatch(r"(.*?)(\w+)\s*((?:\[\s*\w*\s*\])?)", text, re.DOTALL)
    if not match or not match.group(1).strip():
        raise CompileError(f"line {line}: cannot read parameter `{text}` of kernel {kernel}")
    declared, name, brackets = match.groups()
    plain = re.sub(r"\b(__restrict__|__restrict|restrict)\b", " ", declared)
    stars = plain.count("*") + bool(brackets)
    base = _base_type(plain.replace("*", " "), macros)
    if stars > 1 or "&" in plain or base not in (DTYPES | known):
        raise CompileError(
            f"line {line}: parameter `{text}` of kernel {kernel} is of a type that no array and no "
            f"number has; expected one of {', '.join(SCALARS)}, a vector such as float4, a struct "
            "of these, or a pointer to one"
        )
    c_type = " ".join(declared.split()) + (" *" if brackets else "")
    const = bool(re.search(r"\bconst\b", plain.split("*")[0]))
    if base in known:
        return Parameter(name, c_type, known[base], stars == 1, const)
    dtype, components = DTYPES[base]
    return Parameter(name, c_type, dtype, stars == 1, const, components)
