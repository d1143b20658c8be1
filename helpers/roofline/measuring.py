"""Measure the ceilings of this machine, within a minute: what is left then is named."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict

from IPython import get_ipython
from IPython.display import HTML, display

from helpers.machine import cpu_model, usable_cores
from helpers.roofline import probes
from helpers.roofline.curves import (
    ends,
    first_full_step,
    first_jump,
    implausible,
    implausible_peaks,
    levels,
)
from helpers.roofline.system import instruction_sets, reported_caches

HURRY = 30.0  # seconds: from here on, on a busy machine, few and short samples
LIMIT = 55.0  # seconds for the whole: what is not measured by then is left out and named


def measure(threads: list[int], progress: bool, quick: bool) -> dict:
    """Return the fields of :class:`helpers.roofline.ceilings.Ceilings`, measured now."""
    reported = [asdict(one) for one in reported_caches()]
    largest = 2 * max([one["size"] for one in reported], default=32 << 20)
    sizes = _sizes(4096, min(max(largest, 64 << 20), 256 << 20), 1 if quick else 2)
    count = max(2, len(reported) + 1) if reported else 4
    cores = usable_cores()
    jobs = len(sizes) + 2 + len(instruction_sets()) * 2 * len(threads)
    jobs += len(probes.KINDS) * count * len(threads) + 1
    session = _Session(cores, _Bar(jobs, progress), quick)
    frequency = max(session.run("frequency", probes.frequency))
    peaks = _peaks(session, threads)
    latency = _latency(session, sizes)
    found = levels(*zip(*latency, strict=True), count) if len(latency) >= 2 * count else []
    edges = ends(found, reported)
    bandwidths = _bandwidths(session, threads, edges, largest)
    session.bar.step("line and ways")
    line, ways = _line_and_ways(edges[0] if edges else 32768)
    session.bar.close()
    return {
        "machine": f"{cpu_model()}, {cores} core{'s' if cores > 1 else ''}",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": cores,
        "frequency": frequency,
        "peaks": peaks,
        "bandwidths": bandwidths,
        "latency": latency,
        "found": found,
        "reported": reported,
        "line": line,
        "ways": ways,
        "seconds": time.perf_counter() - session.begin,
        "skipped": session.skipped,
    }


class _Session:
    """One round of measurements: how long each may take, and which were left out."""

    def __init__(self, cores: int, bar: _Bar, quick: bool):
        self.begin, self.cores, self.bar = time.perf_counter(), cores, bar
        self.sample, self.repeats = (0.004, 3) if quick else (0.015, 7)  # seconds, samples
        self.skipped: list[str] = []

    def run(
        self, name: str, probe: Callable[..., list[float]], *arguments, needed: bool = False
    ) -> list[float] | None:
        """Return one measurement's samples, or None when the time is up and no roof needs it."""
        self.bar.step(name)
        spent = time.perf_counter() - self.begin
        if spent > LIMIT and not needed:
            self.skipped.append(name)
            return None
        if spent > HURRY:
            return probe(*arguments, sample=0.003, repeats=5)
        if arguments[-1:] == (self.cores,) and self.cores > 1:  # short: all must run at once
            return probe(*arguments, sample=self.sample / 4, repeats=3 * self.repeats)
        return probe(*arguments, sample=self.sample, repeats=self.repeats)


def raise_rates(rows: list[dict], cores: int) -> None:
    """Measure rows of peaks or of bandwidths again, in place: of each, the higher rate stays."""
    session = _Session(cores, _Bar(len(rows), shown=False), quick=False)
    for row in rows:
        rate = "rate" if "rate" in row else "flops"
        again = (_bandwidth if rate == "rate" else _peak)(session, row)
        if again and again[rate] > row[rate]:
            row |= again


def _peaks(session: _Session, threads: list[int]) -> list[dict]:
    named = [
        {"isa": chosen.name, "dtype": dtype, "threads": n}
        for chosen in reversed(instruction_sets())  # the widest first
        for dtype in ("float32", "float64")
        for n in threads
    ]
    peaks = [made for one in named if (made := _peak(session, one))]
    return _settled(session, peaks, "flops", implausible_peaks, lambda low: _peak(session, low))[
        ::-1
    ]


def _peak(session: _Session, named: dict) -> dict | None:
    name, dtype, n = (named[key] for key in ("isa", "dtype", "threads"))
    chosen = next(one for one in instruction_sets() if one.name == name)
    rates = session.run(f"{name} {dtype}", probes.flops, chosen, dtype, n)
    return named | {"flops": max(rates), "spread": _spread(rates)} if rates else None


def _settled(
    session: _Session,
    rows: list[dict],
    rate: str,
    too_low: Callable[[list[dict]], list[dict]],
    measured: Callable[[dict], dict | None],
) -> list[dict]:
    """Measure what cannot be again, twice; leave out, and name, what then still cannot."""
    for _ in range(2):
        for low in too_low(rows):
            again = measured(low)
            if again and again[rate] > low[rate]:
                low |= again
    refused = too_low(rows)
    session.skipped += [_refusal(one, rate) for one in refused]
    return [one for one in rows if not any(one is low for low in refused)]


def _refusal(one: dict, rate: str) -> str:
    what = f"{one['isa']} {one['dtype']}" if rate == "flops" else f"{one['level']} {one['kind']}"
    unit = "Gflop/s" if rate == "flops" else "GB/s"
    many = f"{one['threads']} thread{'s' * (one['threads'] > 1)}"
    return f"{what}, {many}: {one[rate] / 1e9:.3g} {unit} cannot be"


def _latency(session: _Session, sizes: list[int]) -> list[list[float]]:
    """Measure each size, and again each that is slower than a larger one, which is noise."""

    def least(size: int) -> float:
        times = session.run(f"latency, {size >> 10} KiB", probes.latency, size)
        return min(times or [float("inf")])

    best = {size: least(size) for size in sizes}
    for size in sizes:
        if best[size] > 1.1 * min(best[s] for s in sizes if s >= size):
            best[size] = min(best[size], least(size))
    return [[size, time] for size, time in best.items() if time < float("inf")]


def _bandwidths(
    session: _Session, threads: list[int], ends: list[float], largest: float
) -> list[dict]:
    """Measure each level; ``ends`` are the caches' capacities, ``largest`` twice the last's."""
    bandwidths: list[dict] = []
    edges = list(enumerate(zip([4096, *ends], [*ends, None], strict=True), 1))
    for number, (low, high) in reversed(edges):
        level = f"L{number}" if high else "memory"
        for n in threads:
            size = _working_set(low if high else max(low, largest / 2), high, n)
            for kind in probes.KINDS:
                named = {"level": level, "kind": kind, "threads": n, "bytes": size}
                if made := _bandwidth(session, named):
                    bandwidths.append(made)
    kept = _settled(session, bandwidths, "rate", implausible, lambda low: _bandwidth(session, low))
    return sorted(kept, key=lambda one: one["level"])  # L1, L2, ..., memory


def _bandwidth(session: _Session, named: dict) -> dict | None:
    level, kind, size, n = (named[key] for key in ("level", "kind", "bytes", "threads"))
    needed = (level, kind, n) == ("memory", "read", 1)  # without it there is no roof
    rates = session.run(f"{level} {kind}", probes.bandwidth, kind, size, n, needed=needed)
    return named | {"rate": max(rates), "spread": _spread(rates)} if rates else None


def _line_and_ways(first: float) -> tuple[int | None, int | None]:
    """Return bytes of a line and ways of L1, which holds ``first`` bytes; None: does not show."""
    offsets, ways = (8, 16, 32, 64, 128, 192, 256), range(2, 25)
    short = {"sample": 0.002, "repeats": 15}
    # Beyond L1 and within L2, so that no prefetch into L2 changes the time of a second line; an odd
    # number of lines apart, so that the slots fall into all sets: with half of them left free the
    # second words hit there.
    stride = 320
    slots = int(2.5 * first / 64)
    line = first_full_step(
        offsets, [min(probes.latency(slots * stride, stride, k, **short)) for k in offsets]
    )
    # Addresses a way apart share a set; a way has 4 KiB, or up to 16 KiB on Arm. Further apart,
    # pages share a set of the TLB, too: 64 KiB showed the six ways of an Intel Xeon's TLB.
    jumps = (
        first_jump(ways, [min(probes.latency(k * apart, apart, **short)) for k in ways])
        for apart in (4096, 16384)
    )
    full = min(filter(None, jumps), default=None)
    return line, full - 1 if full else None


def _sizes(low: int, high: int, per_octave: int) -> list[int]:
    steps = range(int(per_octave * ((high // low).bit_length() - 1)) + 1)
    return [*dict.fromkeys(int(low * 2 ** (k / per_octave)) // 4096 * 4096 for k in steps)]


def _working_set(low: float, high: float | None, threads: int) -> int:
    """Bytes a thread: well inside one level and well outside the one before.

    Only the last cache is taken to be shared: above 4 MiB, threads divide it.
    """
    if high is None:
        return int(max(4 * low, 64 << 20) / threads)
    share = threads if high > 4 << 20 else 1
    return int(max(min(0.5 * high, (low * high) ** 0.5 * 1.5), 4096) / share)


def _spread(rates: list[float]) -> float:
    middle = sorted(rates)[len(rates) // 2]
    return (max(rates) - middle) / max(rates)


class _Bar:
    """A progress bar that leaves nothing behind: in a notebook as HTML, else on standard output."""

    def __init__(self, jobs: int, shown: bool):
        self.jobs, self.done, self.shown = jobs, 0, shown
        # a place in the notebook's output that can be written again; None outside of one
        notebook = shown and hasattr(get_ipython(), "kernel")
        self.handle = display(HTML(""), display_id=True) if notebook else None

    def step(self, name: str) -> None:
        self.done += 1
        part = min(1.0, self.done / self.jobs)
        self._write(
            f"|{'█' * round(30 * part)}{' ' * (30 - round(30 * part))}| {name:30.30}",
            f'<progress value="{part:.3f}" aria-label="measuring"></progress> {name}',
        )

    def close(self) -> None:
        self._write(" " * 64 + "\r", "")

    def _write(self, text: str, page: str) -> None:
        if self.handle is not None:
            self.handle.update(HTML(page))
        elif self.shown:
            print(f"\r{text}", end="", flush=True)
