"""Compile C with the system compiler and load it: once for each source, flags and processor.

>>> lib = load_c("double half(double x) { return x / 2; }")  # doctest: +SKIP
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

COMPILE_LIMIT = 120.0  # seconds
BASE_FLAGS = ("-O3", "-march=native", "-fPIC", "-shared")
OPENMP = ("-fopenmp",)


class CompilerError(RuntimeError):
    """No C compiler was found, or it refused the source."""


def compiler() -> str:
    """Return the C compiler's path: ``$CC`` if set, else cc, gcc or clang.

    Raises CompilerError when there is none.
    """
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    raise CompilerError(
        "no C compiler on PATH (tried $CC, cc, gcc, clang): install one, for example with "
        "'apt install gcc', 'xcode-select --install' or 'conda install c-compiler'"
    )


def has_compiler() -> bool:
    """Tell whether C can be compiled on this machine."""
    try:
        compiler()
    except CompilerError:
        return False
    return True


def cache_folder() -> Path:
    """Where compiled libraries and measured ceilings are kept, under the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "parallel-deep-learning"


def load_c(source: str, flags: tuple[str, ...] = (), *, base=BASE_FLAGS) -> ctypes.CDLL:
    """Compile ``source`` (C text) into a shared library and load it.

    The library is kept in the user's cache under a name made from the source, the flags, the
    compiler's version and the processor, so that a second call costs no compilation.
    Raises CompilerError, with the compiler's own words, when the source does not compile.
    """
    return ctypes.CDLL(str(build_c(source, (*base, *flags))))


def build_c(source: str, flags: tuple[str, ...]) -> Path:
    """Compile ``source`` with exactly ``flags``; return the file made (kept in the cache)."""
    cc = compiler()
    key = hashlib.sha256(
        "\0".join((source, *flags, _version(cc), processor(), platform.system())).encode()
    ).hexdigest()[:24]
    folder = cache_folder() / "c"
    made = folder / f"{key}.so"
    if made.exists():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="compile-") as scratch:
        text = Path(scratch, "source.c")
        text.write_text(source)
        output = Path(scratch, "made")
        done = subprocess.run(
            [cc, *flags, str(text), "-o", str(output), "-lm"],
            capture_output=True,
            text=True,
            timeout=COMPILE_LIMIT,
        )
        if done.returncode:
            raise CompilerError(f"{cc} {' '.join(flags)} failed:\n{done.stderr.strip()}")
        part = folder / f"{key}.{os.getpid()}.part"
        shutil.copy(output, part)
        part.replace(made)  # atomic: another kernel may compile the same source at this moment
    return made


@cache
def processor() -> str:
    """The processor's name and its instruction sets, as the system reports them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = {}
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "flags", "Features"):
            wanted.setdefault(name.strip(), value.strip())
    return " ".join(wanted.values()) or platform.machine()


@cache
def _version(cc: str) -> str:
    done = subprocess.run([cc, "--version"], capture_output=True, text=True, timeout=30)
    return done.stdout.splitlines()[0] if done.stdout else cc
