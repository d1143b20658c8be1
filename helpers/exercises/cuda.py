"""Checks behind the exercises of notebook 05: kernels are run on the CPU, every access checked."""

from __future__ import annotations

import re

import numpy as np

from helpers.exercises.core import NotAttempted, call, close, equal, exercise, wrong

BEGIN, END = "// your part", "// end of your part"


def _module(answer):
    """Compile the reader's kernel (a Kernel, or its source); an empty part is not attempted."""
    from helpers import cuda

    if callable(answer) and not isinstance(answer, cuda.Kernel):
        call(answer)
        wrong("expected the kernel that your %%cuda cell makes")
    source = answer.module.source if isinstance(answer, cuda.Kernel) else answer
    defines = answer.module.defines if isinstance(answer, cuda.Kernel) else {}
    if not isinstance(source, str):
        wrong(f"expected the kernel that your %%cuda cell makes, got {source!r}")
    part = re.search(rf"{BEGIN}[^\n]*\n(.*?){END}", source, re.DOTALL)
    if part and not re.sub(r"//[^\n]*|/\*.*?\*/|\s", "", part.group(1), flags=re.DOTALL):
        raise NotAttempted("the kernel's part is still empty")
    try:
        return cuda.Module(source, defines, "cpu", name="cell", check=True, timeout=20)
    except cuda.CudaError as error:
        wrong(f"it does not compile: {error}")


def _run(module, name: str, grid, block, *arguments, record: bool = False):
    from helpers import cuda

    if name not in module.signatures:
        wrong(f"the cell defines no kernel {name}; it has {', '.join(module.signatures)}")
    launch = module[name][grid, block]
    try:
        return launch.record(*arguments) if record else launch(*arguments)
    except cuda.CudaError as error:
        wrong(f"with grid {grid} and block {block}: {error}")


@exercise
def axpy(answer):
    """axpy(a, x, y, n): y = a x + y, for any n and any grid that covers it."""
    with _module(answer) as module:
        rng = np.random.default_rng(0)
        for n, grid, block in ((64, 2, 32), (1, 1, 32), (100, 4, 32), (33, 3, 16)):
            x, y = rng.standard_normal((2, n)).astype(np.float32)
            want = 2.5 * x + y
            _run(module, "axpy", grid, block, 2.5, x, y, n)
            close(y, want, f"y for {n} elements, {grid} blocks of {block}", rtol=1e-5, atol=1e-6)


@exercise
def moving_average(answer):
    """moving_average(x, y, n): y[i] = mean of x[i-2 .. i+2], zeros outside, through a tile."""
    with _module(answer) as module:
        rng = np.random.default_rng(1)
        for n in (64, 100, 7, 1):
            x, y = rng.standard_normal(n).astype(np.float32), np.zeros(n, np.float32)
            grid = -(-n // 32)
            record = _run(module, "moving_average", grid, 32, x, y, n, record=True)
            want = np.convolve(np.pad(x, 2), np.full(5, 0.2), "valid")
            close(y, want, f"y for {n} elements", rtol=1e-4, atol=1e-5)
            reads = record.count(array="x", kind="read")
            if n == 64 and reads > 36 * grid:
                wrong(
                    f"y is right, but x was read {reads} times by {grid} blocks: each block needs "
                    "no element of global memory twice"
                )


@exercise
def brighten(answer):
    """brighten(image, out, height, width): out = 1.2 image, each warp's access coalesced."""
    with _module(answer) as module:
        for height, width in ((64, 64), (33, 70)):
            image = np.random.default_rng(2).random((height, width), np.float32)
            out = np.zeros_like(image)
            grid = (-(-width // 32), -(-height // 32))
            record = _run(module, "brighten", grid, (32, 32), image, out, height, width,
                          record=True)  # fmt: skip
            close(out, 1.2 * image, f"out for {height} × {width}", rtol=1e-5, atol=1e-6)
            worst = max(access.worst for access in record.select(space="global"))
            if height == 64 and worst > 4:
                wrong(
                    f"the numbers are right, but one warp's access touches {worst} sectors of 32 "
                    "bytes to move 128 bytes"
                )


@exercise
def reverse_blocks(answer):
    """reverse_blocks(x, n): each block of 64 elements turned round, through shared memory."""
    with _module(answer) as module:
        for n in (64, 256, 100):
            x = np.arange(n, dtype=np.float32)
            want = np.concatenate([part[::-1] for part in np.split(x, range(64, n, 64))])
            _run(module, "reverse_blocks", -(-n // 64), 64, x, n)
            close(x, want, f"x for {n} elements", rtol=0, atol=0)


@exercise
def loads_per_output(answer):
    """answer(tile_height, tile_width, k): global loads per output of the tiled kernel."""
    for height, width, k in ((8, 32, 5), (16, 16, 3), (32, 32, 15), (8, 8, 1)):
        want = (height + k - 1) * (width + k - 1) / (height * width)
        got = call(answer, height, width, k)
        if isinstance(got, (int, float, np.number)):
            close(got, want, f"tile {height} × {width}, filter {k} × {k}", rtol=1e-6)
        else:
            equal(got, want, f"tile {height} × {width}, filter {k} × {k}")
