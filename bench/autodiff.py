"""The computation graph beside its peers: fused loops, memory. One thread each."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.launch import best, in_turns
from helpers import autodiff as ad
from helpers.autodiff import checkpoint, passes
from helpers.records import Row
from helpers.timing import measure

SUITE = "autodiff"
SIZE = 1_000_000  # elements of an operand of the elementwise chains
MIB = 1 << 20
UNIT = 16 * 160 * 160 * 4  # bytes between two convolutions: the source's 15 624 MiB / 10 000
SOURCE_KEPT, SOURCE_SUBLINEAR = 15624.37, 173.03  # MiB, the lecture's slide "Sublinear Memory"
CHAIN = 100  # convolutions of the chain that is measured


def rows() -> list[Row]:
    """Return every comparison."""
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    with threadpool_limits(1):
        return [*chain_rows(), *count_rows(), *memory_rows()]


# An expression for NumPy, PyTorch and this package (F gives exp and tanh), and for numexpr.
CHAINS: dict[str, tuple[Callable, str]] = {
    "polynomial": (
        lambda x, y, F: ((x * 0.3 + y) * x - 1.5) * x + y * y - 0.25,
        "((x * 0.3 + y) * x - 1.5) * x + y * y - 0.25",
    ),
    "gate": (
        lambda x, y, F: F.tanh(x) * y + (1 - y) * F.exp(-x * x),
        "tanh(x) * y + (1 - y) * exp(-x * x)",
    ),
}


def chain_rows() -> list[Row]:
    """Time elementwise chains."""
    import torch

    try:
        import numexpr

        numexpr.set_num_threads(1)
    except ImportError:
        numexpr = None
        print("numexpr is not installed: its column stays empty")
    found = []
    for dtype in ("float64", "float32"):
        random = np.random.default_rng(0)
        x, y = (random.uniform(-1, 1, SIZE).astype(dtype) for _ in range(2))
        tx, ty = torch.from_numpy(x), torch.from_numpy(y)
        for name, (chain, text) in CHAINS.items():
            vx, vy = (ad.variable(v, ("n",), dtype) for v in "xy")
            outputs = passes.fuse([chain(vx, vy, ad)])
            fused, memory = ad.plan([vx, vy], outputs, {"n": SIZE}), ad.Allocator(keep=True)

            def ours(fused=fused, memory=memory, x=x, y=y) -> np.ndarray:
                (result,) = fused(x, y, allocator=memory)
                memory.free(result)
                return result

            compiled = torch.compile(lambda a, b, chain=chain: chain(a, b, torch))
            ways: dict[str, Callable[[], object]] = {
                "ours": ours,
                "torch.compile": lambda compiled=compiled, tx=tx, ty=ty: compiled(tx, ty),
                "NumPy": lambda chain=chain, x=x, y=y: chain(x, y, np),
            }
            if numexpr:
                ways["numexpr"] = lambda text=text, x=x, y=y: numexpr.evaluate(text)
            expected = chain(x, y, np)
            for peer, way in ways.items():
                np.testing.assert_allclose(way(), expected, 1e-5, 1e-6, err_msg=peer)
            taken = best(in_turns(ways, 40))
            about = {"chain": text, "elements": SIZE, "dtype": dtype, "threads": 1}
            for peer in ("torch.compile", "NumPy", "numexpr"):
                theirs = taken[peer] * 1e3 if peer in taken else None
                label = f"elementwise: {name}, {dtype}"
                found.append(Row(label, taken["ours"] * 1e3, "ms", peer, theirs, about))
    return found


def count_rows() -> list[Row]:
    """Count what the source's 10 000 convolutions need, at its 1.5625 MiB between two."""
    n, unit = 10_000, UNIT / MIB
    every = checkpoint.cost(n, checkpoint.keep_all(n))
    segments = checkpoint.cost(n, checkpoint.in_segments(n))
    units = int(SOURCE_SUBLINEAR / unit) - 2  # a walk holds two more
    best = checkpoint.cost(n, checkpoint.optimal(n, units))
    return [
        Row(f"10 000 convolutions: {name}", cost.peak * unit, "MiB", "the source", theirs, about)
        for name, cost, theirs in [
            ("all kept", every, SOURCE_KEPT),
            ("√n segments", segments, SOURCE_SUBLINEAR),
            ("optimal in the source's memory", best, SOURCE_SUBLINEAR),
        ]
        for about in [{"units": cost.peak, "forwards": cost.forwards}]
    ]


def memory_rows() -> list[Row]:
    """Measure a chain of convolutions in fresh processes: what the system saw at the peak."""
    found = []
    for name in ("all kept", "√n segments"):
        ours, theirs = (_fresh(whose, name) for whose in ("ours", "torch"))
        about = {"convolutions": CHAIN, "predicted B": ours["predicted"]}
        if ours["predicted"] != ours["counted"]:
            raise AssertionError(f"predicted and counted memory differ: {ours}")
        label = f"chain of {CHAIN} convolutions, {name}"
        peer = "torch.utils.checkpoint" if "segments" in name else "autograd"
        found += [
            Row(
                f"{label}: peak seen", ours["peak"] / MIB, "MiB", peer, theirs["peak"] / MIB, about
            ),
            Row(f"{label}: time", ours["seconds"], "s", peer, theirs["seconds"], about),
            Row(f"{label}: predicted", ours["predicted"], "B", "counted", ours["counted"], about),
        ]
    return found


def _fresh(whose: str, name: str) -> dict:
    """Run one chain in a process of its own, where freed memory goes back to the system."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(
        [sys.executable, "-m", "bench.autodiff", whose, name],
        env={**os.environ, **threads, "MALLOC_MMAP_THRESHOLD_": "65536"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(f"the chain {whose}, {name} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def _resident(field: str) -> int:
    """Return bytes of this process in memory: ``VmRSS`` now, ``VmHWM`` at most."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]


def _chain_main(whose: str, name: str) -> None:
    run = our_chain if whose == "ours" else torch_chain
    run(3, name)  # whatever is loaded on first use
    gc.collect()
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
    outcome: dict = {}
    taken = measure(lambda: outcome.update(run(CHAIN, name)), repeats=1, warmup=0)
    peak = _resident("VmHWM") - before
    print(json.dumps({**outcome, "peak": peak, "seconds": taken.median}))


def our_chain(n: int, name: str) -> dict:
    """Walk a chain there and back by a schedule; return predicted and counted bytes."""
    shape = (1, 16, 160, 160)
    x, w, g = (ad.variable(v, s, "float32") for v, s in
               [("x", shape), ("w", (16, 16, 3, 3)), ("g", shape)])  # fmt: skip
    y = ad.conv2d(x, w, padding=1)
    forward, backward = ad.plan([x, w], [y]), ad.plan([x, w, g], ad.gradients(y, [x, w], seed=g))
    random = np.random.default_rng(0)
    weights = [(random.normal(size=w.shape) / 12).astype(np.float32) for _ in range(n)]
    memory, found = ad.Allocator(), []

    def go(i: int, x: np.ndarray) -> np.ndarray:
        return forward(x, weights[i - 1], allocator=memory)[0]

    def back(i: int, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        to_x, to_w = backward(x, weights[i - 1], g, allocator=memory)
        memory.free(g)
        found.append(to_w)
        return to_x

    start = random.normal(size=shape).astype(np.float32)
    schedule = checkpoint.keep_all(n) if name == "all kept" else checkpoint.in_segments(n)
    memory.now = memory.peak = start.nbytes  # the gradient that comes from outside
    checkpoint.run_chain(schedule, start, np.ones_like(start), go, back, memory.free)
    predicted = predict(schedule, forward.peak, backward.peak, w.dtype.itemsize * weights[0].size)
    return {"predicted": predicted, "counted": memory.peak}


def predict(schedule: list, forward: int, backward: int, per_weight: int) -> int:
    """Return the peak of a schedule in bytes from the peaks of one step there and one back."""
    held, slopes, peak = 0, 0, UNIT
    for action in schedule:
        now = held * UNIT + UNIT + slopes  # x's, the gradient that walks, those of the weights
        if action.kind == "forward":
            peak, held = max(peak, now + forward), held + 1
        elif action.kind == "backward":
            peak, slopes = max(peak, now + backward), slopes + per_weight
        else:
            held -= 1
    return peak


def torch_chain(n: int, name: str) -> dict:
    """Do the same with PyTorch."""
    import torch
    from torch.utils.checkpoint import checkpoint_sequential

    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        *(torch.nn.Conv2d(16, 16, 3, padding=1, bias=False) for _ in range(n))
    )
    x = torch.randn(1, 16, 160, 160, requires_grad=True)
    if name == "all kept":
        y = layers(x)
    else:
        y = checkpoint_sequential(layers, int(n**0.5), x, use_reentrant=False)
    y.backward(torch.ones_like(y))
    return {}


if __name__ == "__main__":
    _chain_main(*sys.argv[1:])
