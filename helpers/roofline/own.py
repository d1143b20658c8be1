"""A matrix product in C by the reader: compiled, and run in a process of its own beside a loop."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from helpers import native
from helpers.machine.compilers import CompilerError

FLAGS = ("-O3", "-march=native", "-Wno-psabi", "-include", "stdint.h")
LIMIT = 4.0  # seconds: what a run may take before it is taken to hang
MAIN = Path(__file__).with_name("own.c")


class ProductError(RuntimeError):
    """A product that does not compile, crashes or does not end; the message says which."""


@dataclass(frozen=True)
class ProductRun:
    """What a product did with n × n matrices.

    ``wrong``: how many elements are off by more than rounding; ``overrun``: it wrote beside c;
    ``changed``: it wrote to a or b. ``seconds`` and ``rival``: best times of one call and of one of
    the ikj loop of matmul.c, in turn, compiled alike.
    """

    n: int
    wrong: int
    overrun: bool
    changed: bool
    seconds: float
    rival: float


def try_product(
    source: str, n: int, rounds: int = 5, seed: int = 0, limit: float = LIMIT
) -> ProductRun:
    """Run the reader's ``multiply`` on n × n matrices, in a process that may crash or hang.

    ``source``: C that defines ``void multiply(int64_t n, const float *a, const float *b, float
    *c)``; c holds zeros at the call. ``rounds``: calls that are timed, each after one of the rival.
    ``seed`` chooses the matrices.
    Raises ProductError for source that does not compile, a crash, or no end within ``limit``
    seconds.
    """
    text = f"{source}\n{MAIN.read_text()}"
    try:
        program = native.build_c(text, FLAGS)
    except CompilerError as error:
        missing, _, words = str(error).partition("\n")  # of one line: there is no compiler
        words = re.sub(r"\S*/source\.c: In .*\n|\S*/source\.c:(?=\d)", "", words)
        said = f"it does not compile, line {words[:600]}" if words else missing
        raise ProductError(said) from None
    try:
        done = subprocess.run(
            [str(program), str(n), str(rounds), str(seed)],
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        raise ProductError(
            f"no end within {limit:g} s for n = {n}: does a loop never end, or take far longer "
            "than ikj?"
        ) from None
    if done.returncode < 0:
        raise ProductError(
            f"it crashed for n = {n} (signal {-done.returncode}): does an index leave its array, "
            "or does a vector type lack aligned(4)?"
        )
    _, measured, figures = done.stdout.rpartition("\nmeasured: ")  # what multiply prints is before
    if done.returncode or not measured:
        raise ProductError(f"it ended the program for n = {n}: multiply has to return")
    wrong, overrun, changed, mine, rival = figures.split()
    return ProductRun(n, int(wrong), overrun == "1", changed == "1", float(mine), float(rival))
