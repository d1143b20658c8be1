"""What the system says about its processor: instruction sets and caches."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from helpers.machine.facts import processor

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class InstructionSet:
    """A width of register, and the compiler's flags that use it and nothing wider.

    ``fma``: multiplication and addition in one instruction.
    """

    name: str
    width: int  # bytes; 0: one number
    flags: tuple[str, ...]
    fma: bool


X86 = (
    InstructionSet("scalar", 0, ("-mno-avx", "-fno-tree-vectorize"), False),
    InstructionSet("SSE", 16, ("-mno-avx",), False),
    InstructionSet("AVX2", 32, ("-mavx2", "-mfma", "-mno-avx512f"), True),
    InstructionSet("AVX-512", 64, ("-mavx512f", "-mfma", "-mprefer-vector-width=512"), True),
)
ARM = (
    InstructionSet("scalar", 0, ("-fno-tree-vectorize",), True),
    InstructionSet("NEON", 16, (), True),
)


def instruction_sets() -> list[InstructionSet]:
    """Return those that this processor has, the narrowest first."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return list(ARM)
    words = set(processor().split()) | set(_mac_features())
    present = {"scalar", "SSE"}
    present |= {"AVX2"} if {"avx2", "fma"} <= words else set()
    present |= {"AVX-512"} if "avx512f" in words else set()
    return [one for one in X86 if one.name in present]


def _mac_features() -> list[str]:
    if platform.system() != "Darwin":
        return []
    keys = ["machdep.cpu.features", "machdep.cpu.leaf7_features"]
    done = subprocess.run(["sysctl", "-n", *keys], capture_output=True, text=True, timeout=10)
    return done.stdout.lower().split()


@dataclass(frozen=True)
class CacheLevel:
    """A data cache as the system reports it: bytes, bytes of a line, ways (0: not said)."""

    level: int
    size: int
    line: int
    ways: int


def reported_caches(folder: Path = CACHES) -> list[CacheLevel]:
    """Return the data caches of processor 0, the smallest first; empty where nothing is said."""
    found = []
    for index in sorted(folder.glob("index*")):

        def text(name: str, index=index) -> str:
            try:
                return (index / name).read_text().strip()
            except OSError:
                return ""

        if text("type") in ("Data", "Unified") and text("size"):
            number, unit = text("size")[:-1], text("size")[-1]
            size = int(number) * {"K": 2**10, "M": 2**20}[unit]
            line, ways = (
                int(text(n) or 0) for n in ("coherency_line_size", "ways_of_associativity")
            )
            found.append(CacheLevel(int(text("level")), size, line, ways))
    if not found and platform.system() == "Darwin":
        for level, key in ((1, "hw.l1dcachesize"), (2, "hw.l2cachesize"), (3, "hw.l3cachesize")):
            done = subprocess.run(["sysctl", "-n", key, "hw.cachelinesize"], capture_output=True)
            values = done.stdout.split()
            if len(values) == 2 and int(values[0]):
                found.append(CacheLevel(level, int(values[0]), int(values[1]), 0))
    return sorted(found, key=lambda one: one.size)
