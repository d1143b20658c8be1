"""What the CPU runner does not have, by name."""

from __future__ import annotations

import re

from helpers.cuda.c_types import strip_comments
from helpers.cuda.errors import CompileError

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
