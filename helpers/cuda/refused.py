"""What the CPU runner does not have, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from helpers.cuda.c_types import code, line_at, strip_comments
from helpers.cuda.errors import CompileError

HEADERS = (
    *("cuda_fp16.h", "cooperative_groups.h", "cooperative_groups/reduce.h", "cuda_runtime.h"),
    *("device_launch_parameters.h", "assert.h", "cassert", "float.h", "cfloat", "limits"),
    *("limits.h", "climits", "math.h", "cmath", "stddef.h", "cstddef", "stdint.h", "cstdint"),
    "math_constants.h",
    *("stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h", "cstring", "type_traits"),
)


PROGRAM = {  # what no launch from Python has, and what to write in its place
    r"\bmain\s*\(": "this is a whole program: leave main() out, and launch its kernels from "
    "Python by kernel[grid, block](...), which copies the arrays to the device and back",
    r"<<<": "a launch stands in Python here: write kernel[grid, block](...) for "
    "kernel<<<grid, block>>>(...); kernels that launch kernels (dynamic parallelism) are not taken",
    r"\b(?:texture\s*<|cuda(?:Texture|Surface)Object_t\b|(?:tex|surf)[123]D\w*\s*[<(])": "textures"
    " and surfaces are not taken: pass the array and read its element, image[y * width + x]",
}


HEAP = {
    r"\b(?:malloc|free)\s*\(|\bnew\s+\w|\bdelete\b(?!\s*;)": "accesses to memory from malloc or "
    "new cannot be checked: hand the kernel an array, or launch with check=False"
}


def check(source: str, instead: Mapping[str, str]) -> None:
    """Refuse what matches a pattern, outside of comments and quotes, in one sentence."""
    text = code(source)
    for pattern, sentence in instead.items():
        if found := re.search(pattern, text):
            raise CompileError(f"line {line_at(text, found.start())}: {sentence}")


def too_many_constants(size: int) -> CompileError:
    """Return the error for constants that do not fit a device."""
    return CompileError(f"the __constant__ variables take {size} bytes; a device has 65536")


def check_includes(source: str) -> None:
    """Refuse headers and inline PTX, which the CPU runner does not have."""
    text = strip_comments(source)
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', text, re.M):
        if match[1] not in HEADERS:
            raise CompileError(
                f"line {line_at(text, match.start())}: the CPU runner has no {match[1]}; it has "
                f"{', '.join(HEADERS)}"
            )
    assembly = r'\b(?:asm|__asm__|__asm)\s*(?:volatile|__volatile__)?\s*\(\s*"\s*([^\s";][^"]*)"'
    if found := re.search(assembly, text):
        raise CompileError(
            f"line {line_at(text, found.start())}: the CPU runner has no inline PTX (asm), here "
            f"`{found[1].strip()}`: it runs CUDA C++ only"
        )


def lacking(log: str) -> str:
    """Return what a compiler or linker says is missing, such as "it has no __dp4a"."""
    if "no such instruction" in log or "impossible constraint" in log:
        return "it has no inline assembly (asm)"
    names = re.findall(
        r"'([^']+)' (?:was not declared|has not been declared|does not name a type|is not a member)"
        r"|undefined reference to [`']([^'(]+)|no member named '([^']+)'",
        log,
    )
    every = dict.fromkeys(name for found in names for name in found if name)
    return f"it has no {', '.join(every)}" if every else "see the compiler's message"
