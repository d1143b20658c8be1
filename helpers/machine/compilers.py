"""Ask a program; the C and the C++ compiler, the same for every part that compiles.

``$CC`` and ``$CXX`` count first, as for make; then the system's names in one order.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache


def ask(command: list[str], timeout: float = 20.0) -> str:
    """Return what a command writes; an empty string if it fails or takes over ``timeout`` s."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def tidy(text: str) -> str:
    """Return a product's name without trade marks, nominal clock and doubled spaces."""
    text = re.sub(r"\((?:R|TM|C)\)|\bCPU\b|@.*$", " ", text)
    return " ".join(text.split())


NAMES = {
    "C": ("CC", "cc", "gcc", "clang"),
    "C++": ("CXX", "c++", "g++", "clang++"),
}
PACKAGES = {"C": ("gcc", "gcc", "c-compiler"), "C++": ("g++", "gcc-c++", "cxx-compiler")}


class CompilerError(RuntimeError):
    """No compiler was found, or it refused the source."""


def find_compiler(language: str = "C") -> str:
    """Return the path of the compiler: what ``$CC`` or ``$CXX`` names, else the first of NAMES."""
    variable, *names = NAMES[language]
    for name in (os.environ.get(variable), *names):
        if name and (path := shutil.which(name)):
            return path
    debian, fedora, conda = PACKAGES[language]
    raise CompilerError(
        f"no {language} compiler on PATH (tried ${variable}, {', '.join(names)}): install one, for "
        f"example with 'apt install {debian}', 'dnf install {fedora}', 'xcode-select --install' or "
        f"'conda install {conda}'"
    )


def has_compiler(language: str = "C") -> bool:
    """Tell whether :func:`find_compiler` finds a compiler for C or C++."""
    try:
        find_compiler(language)
    except CompilerError:
        return False
    return True


@cache
def compiler_version(path: str) -> str:
    """Return the first line of a compiler's ``--version``, its path if it says nothing."""
    said = ask([path, "--version"]).strip()
    return said.splitlines()[0] if said else path
