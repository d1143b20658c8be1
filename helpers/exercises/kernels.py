"""What the checks of kernels share: they compile, run and watch the reader's, on the CPU."""

from __future__ import annotations

import functools
import re

import numpy as np

from helpers.exercises.core import NotAttempted, call, close, exercise, wrong

# A launch that never ends is stopped after 4 s; to compile may take long on a busy machine.
kernel_exercise = functools.partial(exercise, time_limit=180.0)
BEGIN, END = "// your part", "// end of your part"


def compiled(answer):
    """Compile the reader's kernels for the CPU, every access checked."""
    from helpers import cuda
    from helpers.cuda.magic import Uncompiled

    if isinstance(answer, Uncompiled):
        wrong(f"its cell does not compile: {answer.error}")
    if callable(answer) and not isinstance(answer, cuda.Kernel):
        call(answer)
        wrong("expected the kernel that your %%cuda cell makes")
    module = answer.module if isinstance(answer, cuda.Kernel) else answer
    source = module.source if isinstance(module, cuda.Module) else answer
    defines = module.defines if isinstance(module, cuda.Module) else {}
    if not isinstance(source, str):
        wrong(f"expected the kernel that your %%cuda cell makes, got {source!r}")
    part = re.search(rf"{BEGIN}[^\n]*\n(.*?){END}", source, re.DOTALL)
    if part and not re.sub(r"//[^\n]*|/\*.*?\*/|\s", "", part.group(1), flags=re.DOTALL):
        raise NotAttempted("the kernel's part is still empty")
    try:
        return cuda.Module(source, defines, "cpu", name="cell", check=True, timeout=4)
    except cuda.CudaError as error:
        wrong(f"it does not compile: {error}")


def renamed(module, name: str) -> str:
    """Return what a variant of the course calls a kernel: its name with two letters behind."""
    there = (*module.signatures, *module.templates)
    return next((each for each in there if re.fullmatch(rf"{name}_[a-z]{{2}}", each)), name)


def run(module, name: str, grid, block, *arguments, record: bool = False):
    """Launch one of the reader's kernels; a fault is a wrong answer."""
    from helpers import cuda

    base, instance, rest = name.partition("<")
    there = {**module.signatures, **module.templates}
    base = renamed(module, base)
    name = base + instance + rest
    if base not in (module.templates if instance else module.signatures):
        listed = ", ".join(there) or "none"
        wrong(f"the cell defines no kernel {'template ' * bool(instance)}{base}; it has {listed}")
    try:
        launch = module[name][grid, block]
        return launch.record(*arguments) if record else launch(*arguments)
    except cuda.CompileError as error:
        wrong(f"{name} does not compile: {error}")
    except cuda.CudaError as error:
        what = f"{name} with" if instance else "with"
        wrong(f"{what} grid {grid} and block {block}: {error}")


def sums_of_blocks(module, kernel, blocks, size):
    """Run a kernel that sums blocks of random numbers; refuse wrong sums."""
    x = np.random.default_rng(blocks).random(size * blocks, np.float32)
    total = np.full(blocks, np.nan, np.float32)
    record = run(module, kernel, blocks, size, x, total, record=True)
    what = f"total of {blocks} block{'s' * (blocks > 1)}"
    close(total, x.reshape(blocks, size).sum(axis=1), what, rtol=1e-5)
    return record, what


def shared_out(record, array: str, kind: str, most: int, what: str) -> None:
    """Refuse work that one thread does for many."""
    events = record.picked(array=array, kind=kind, space="global")
    if not len(events):
        return
    worker, times = np.unique(threads_of(events), return_counts=True)
    if times.max() > most:
        block, thread = divmod(int(worker[times.argmax()]), 1024)
        wrong(
            f"{what}: the numbers are right, but thread {thread} of block {block} makes "
            f"{times.max()} {kind}s of {array}: if all take their part, none needs more than {most}"
        )


def read_once(record, array: str, what: str) -> None:
    """Refuse a block that reads an element of global memory more than once."""
    events = record.picked(array=array, kind="read", space="global")
    places = np.stack([events["block"].astype(np.int64), record.elements(events)])
    places, times = np.unique(places, axis=1, return_counts=True)
    if times.max(initial=0) > 1:
        block, element = places[:, times.argmax()]
        wrong(
            f"{what}: the numbers are right, but block {block} reads {array}[{element}] "
            f"{times.max()} times"
        )


def threads_of(events: np.ndarray) -> np.ndarray:
    """Number the events' threads through all blocks."""
    return events["block"].astype(np.int64) * 1024 + events["thread"]


def most_by_one(events: np.ndarray) -> int:
    """Return how many of the events are those of the thread that has most."""
    return int(np.unique(threads_of(events), return_counts=True)[1].max(initial=0))
