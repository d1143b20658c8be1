"""Compile C with the system compiler and load it: once for each source, flags and processor.

>>> lib = load_c("double half(double x) { return x / 2; }")  # doctest: +SKIP
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from helpers.machine.cache import cache_folder
from helpers.machine.compilers import CompilerError, compiler_version, find_compiler
from helpers.machine.facts import processor

COMPILE_LIMIT = 120.0  # seconds
BASE_FLAGS = ("-O3", "-march=native", "-fPIC", "-shared")
OPENMP = ("-fopenmp",)
PROBE = """#include <omp.h>
int threads(void) { return omp_get_max_threads(); }
"""


def load_c(
    source: str, flags: tuple[str, ...] = (), *, base: tuple[str, ...] = BASE_FLAGS
) -> ctypes.CDLL:
    """Compile C into a shared library and load it.

    The library is kept in the user's cache under a name made from the source, the flags, the
    compiler's version and the processor, so that a second call costs no compilation. CompilerError
    has the compiler's own words, or says that there is none.
    """
    return ctypes.CDLL(str(build_c(source, (*base, *flags))))


def openmp() -> tuple[str, ...]:
    """Return the flags with which the C compiler divides loops over threads; () if it cannot.

    Apple's clang cannot: ``#pragma omp`` is then ignored, and loops run on one thread.
    """
    return _openmp(find_compiler("C"))


@cache
def _openmp(compiler: str) -> tuple[str, ...]:
    try:
        load_c(PROBE, OPENMP)
    except (CompilerError, OSError):
        return ()
    return OPENMP


def build_c(source: str, flags: tuple[str, ...]) -> Path:
    """Compile C into the user's cache, once for each source, flags, compiler and processor."""
    cc = find_compiler("C")
    key = hashlib.sha256(
        "\0".join((source, *flags, compiler_version(cc), processor(), platform.system())).encode()
    ).hexdigest()[:24]
    folder = cache_folder("c")
    made = folder / f"{key}.so"
    if made.exists():
        return made
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        text, output = Path(scratch, "source.c"), Path(scratch, "made")
        text.write_text(source)
        done = subprocess.run(
            [cc, *flags, str(text), "-o", str(output), "-lm"],
            capture_output=True,
            text=True,
            timeout=COMPILE_LIMIT,
        )
        if done.returncode:
            raise CompilerError(f"{cc} {' '.join(flags)} failed:\n{done.stderr.strip()}")
        output.replace(made)  # atomic: another kernel may compile the same source at this moment
    return made
