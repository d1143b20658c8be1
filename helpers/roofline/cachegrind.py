"""Cache misses of the loop orders as Valgrind's cachegrind counts them, to check the simulation."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from helpers import native
from helpers.machine.compilers import has_compiler
from helpers.roofline.matmul import SOURCE

MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    int64_t n = atoi(argv[1]);
    void *all = aligned_alloc(4096, (3 * n * n * sizeof(float) + 4095) / 4096 * 4096);
    float *a = all, *b = a + n * n, *c = b + n * n;
    memset(a, 0, 3 * n * n * sizeof(float));
    for (int64_t x = 0; x < (1 << 16); x += 64) sink[x] = 1;  /* other lines first */
    matmul_@ORDER@(n, a, b, c);
    return c[0] != 0;
}
"""


def available() -> bool:
    """Whether valgrind and a C compiler are installed."""
    return shutil.which("valgrind") is not None and has_compiler()


def count_misses(order: str, n: int, size: int, line: int, ways: int) -> dict[str, int]:
    """Run one loop order under cachegrind; return "accesses" and "misses" of its first-level cache.

    Compiled without AVX-512, every access as written (volatile). Raises RuntimeError with
    valgrind's words when it fails.
    """
    text = (
        f"#define TYPE volatile float\n{SOURCE.read_text()}\nstatic volatile char sink[1 << 16];\n"
    )
    text += MAIN.replace("@ORDER@", order)
    flags = ("-O1", "-g", "-mno-avx512f") if os.uname().machine == "x86_64" else ("-O1", "-g")
    program = native.build_c(text, flags)
    with tempfile.TemporaryDirectory(prefix="cachegrind-") as folder:
        out = Path(folder, "counts")
        done = subprocess.run(
            [
                *("valgrind", "--tool=cachegrind", "--cache-sim=yes", f"--D1={size},{ways},{line}"),
                *(f"--LL={max(1 << 20, 8 * size)},16,{line}", f"--cachegrind-out-file={out}"),
                *(str(program), str(n)),
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
        if not out.exists():
            raise RuntimeError(f"valgrind failed:\n{done.stderr.strip()}")
        return _totals(out.read_text(), f"matmul_{order}")


def _totals(text: str, function: str) -> dict[str, int]:
    """Add up the lines of one function in cachegrind's output."""
    events, inside, counts = [], False, {}
    for row in text.splitlines():
        if row.startswith("events:"):
            events = row.split()[1:]
        elif row.startswith("fn="):
            inside = row[3:] == function
        elif inside and row[:1].isdigit():
            for name, value in zip(events, row.split()[1:], strict=False):
                counts[name] = counts.get(name, 0) + int(value)
    if not counts:
        raise RuntimeError(f"cachegrind's output holds no function {function!r}")
    return {
        "accesses": counts["Dr"] + counts["Dw"],
        "misses": counts["D1mr"] + counts["D1mw"],
    }
