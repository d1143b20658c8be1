"""All ceilings of this machine, measured once and kept: peaks, bandwidths, latencies, caches."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from helpers import native
from helpers.machine import usable_cores
from helpers.machine.cache import cache_folder
from helpers.machine.compilers import compiler_version, find_compiler
from helpers.machine.facts import processor
from helpers.roofline.measuring import measure, raise_rates
from helpers.roofline.system import instruction_sets
from helpers.timing import Others

VERSION = 13  # of what is measured: kept ceilings of another version are measured anew


@dataclass(frozen=True)
class Ceilings:
    """What this machine reaches. Rates are the best of their samples; spread is (best−median)/best.

    ``peaks``: dicts with isa, dtype, threads, flops (flop/s), spread.
    ``bandwidths``: level ("L1", ..., "memory"), kind, threads, bytes (of the working set, a
    thread), rate (bytes/s), spread. ``latency``: lists [bytes, seconds]. ``found``: plateaus of the
    latency curve (seconds, rise, capacity). ``reported``: caches as the system has them. ``line``,
    ``ways`` (of L1): from the curves, None where they do not show. ``frequency`` in Hz. ``busy``
    says that other programs disturbed the measurement.
    """

    machine: str
    date: str
    cores: int
    frequency: float
    peaks: list[dict]
    bandwidths: list[dict]
    latency: list[list[float]]
    found: list[dict]
    reported: list[dict]
    line: int | None
    ways: int | None
    seconds: float
    skipped: list[str] = field(default_factory=list)
    busy: str = ""

    def peak(self, dtype: str = "float32", threads: int | None = None, isa: str = "") -> float:
        """The highest peak in flop/s with ``threads`` (default: the best number), of an ISA or any.

        On a busy machine one thread may do better than one for each core.
        """
        return max(
            p["flops"]
            for p in self.peaks
            if p["dtype"] == dtype and threads in (None, p["threads"]) and isa in ("", p["isa"])
        )

    def roof(self, threads: int, dtype: str = "float32") -> tuple[float, float]:
        """The peak in flop/s and memory's bandwidth in bytes/s that so many threads can reach.

        The bandwidth is that of the loop that reaches most. Those of one thread where no more could
        be measured.
        """
        counted = {
            p["threads"] for p in self.peaks if p["threads"] <= threads and p["dtype"] == dtype
        } or {1}
        rates = [
            b["rate"]
            for b in self.bandwidths
            if b["level"] == "memory" and b["threads"] <= max(threads, 1)
        ]
        return max(self.peak(dtype, count) for count in counted), max(rates)

    def lines(self, *threads: int) -> tuple[dict[str, float], dict[str, float]]:
        """Peaks and memory's bandwidths by name, as the picture takes them.

        For each of the numbers of threads, or for one and all cores.
        """
        peaks, memory = {}, {}
        for k in threads or thread_counts(self.cores):
            words = f"{k} thread" + "s" * (k > 1)
            peaks[f"fp32, {words}"], memory[f"memory, {words}"] = self.roof(k)
        return peaks, memory

    def raise_roof(self, threads: int, limit: str) -> None:
        """Measure a roof again; a higher rate replaces the old one, also where it is kept.

        ``limit`` says which part of the roof: "peak" or "memory".
        """
        memory = [b for b in self.bandwidths if b["level"] == "memory"]
        rows = self.peaks if limit == "peak" else memory
        most = max((row["threads"] for row in rows if row["threads"] <= threads), default=1)
        raise_rates([row for row in rows if row["threads"] == most], self.cores)
        kept = _file()
        if kept.exists() and f'"date": "{self.date}"' in kept.read_text():
            _keep(self, kept)

    def cache_roofs(self) -> dict[str, float]:
        """The bandwidth in bytes/s of each cache, with the best number of threads.

        That of the loop that reaches most, as for memory. Of those that could be measured, the
        fastest first.
        """
        found: dict[str, float] = {}
        for b in self.bandwidths:
            if b["level"] != "memory":
                found[b["level"]] = max(b["rate"], found.get(b["level"], 0))
        return found

    def theory(self) -> list[dict]:
        """Peak of one core by f · lanes · instructions/cycle (row D9) beside what was measured.

        ``per_cycle``: floating-point operations per cycle, measured ÷ frequency. ``units``: that
        divided by lanes, and by 2 where one instruction multiplies and adds (FMA).
        """
        made = []
        for chosen in instruction_sets():
            for dtype, size in (("float32", 4), ("float64", 8)):
                alone = {"isa": chosen.name, "dtype": dtype, "threads": 1}
                if not any(p | alone == p for p in self.peaks):  # left out
                    continue
                flops = self.peak(dtype, 1, chosen.name)
                lanes = (chosen.width or size) // size
                per_cycle = flops / self.frequency
                units = per_cycle / lanes / (2 if chosen.fma else 1)
                assumed = 2 * lanes * 2  # two units that each multiply and add in a cycle
                made.append(
                    {
                        "isa": chosen.name,
                        "dtype": dtype,
                        "lanes": lanes,
                        "fma": chosen.fma,
                        "measured": flops,
                        "per_cycle": per_cycle,
                        "units": units,
                        "theory": self.frequency * assumed,
                    }
                )
        return made


def ceilings(*, again: bool = False, progress: bool = True, quick: bool = False) -> Ceilings:
    """Return this machine's ceilings: measured on the first call, kept in the user's cache.

    It takes under a minute: after half of one the samples become few, and what is left at the end
    is skipped and named in ``skipped``. CompilerError without a C compiler.

    Parameters
    ----------
    again
        Measure anew.
    progress
        Show a bar on standard output.
    quick
        Take fewer samples and a shorter latency curve (for tests).
    """
    kept = _file(quick)
    if not again and kept.exists():
        try:
            return Ceilings(**json.loads(kept.read_text()))
        except (ValueError, TypeError):  # cut off or of another version: measure
            pass
    with Others() as others:
        measured = measure(thread_counts(usable_cores()), progress, quick)
    made = Ceilings(**measured | {"busy": str(others)})
    if not made.skipped:  # else the machine was too busy: another call may do better
        _keep(made, kept)
    return made


def _file(quick: bool = False) -> Path:
    """Return where this machine's ceilings are kept."""
    # The compiler counts too: one without OpenMP measures one thread.
    built = f"{compiler_version(find_compiler())} {native.openmp()}"
    key = hashlib.sha256(f"{processor()} {usable_cores()} {built} {VERSION} {quick}".encode())
    return cache_folder() / f"ceilings-{key.hexdigest()[:16]}.json"


def _keep(made: Ceilings, kept: Path) -> None:
    part = kept.with_suffix(f".{time.monotonic_ns()}.part")
    part.write_text(json.dumps(asdict(made)))
    part.replace(kept)


def thread_counts(cores: int) -> list[int]:
    """The numbers of threads measured: one and all cores, where the C compiler knows OpenMP."""
    return sorted({1, cores}) if native.openmp() else [1]
