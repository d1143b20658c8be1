"""Turn the worker's report of a fault into an exception that a reader can act on."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from helpers.cuda import errors, record
from helpers.cuda.c_types import code, number_of
from helpers.cuda.cpu.assembly import indexed
from helpers.cuda.source import templates

KINDS = {0: "read", 1: "wrote", 2: "atomically updated"}
WAITED_FOR = {"barrier": ("__syncthreads()", "block"), "warp": ("a warp-level call", "warp")}
SPACES = {0: "global", 1: "shared", 2: "constant"}

DID: dict[str, tuple[type[errors.KernelError], str]] = {  # the error of what a thread did
    "bounds": (errors.BoundsError, " {did} {element}, outside {whole}"),
    "wild": (errors.BoundsError, " {did} {address}, which belongs to no array"),
    "const": (errors.KernelError, " wrote to {array}, which the kernel may only read"),
    "uninitialised": (
        errors.UninitialisedError,
        " read {element} in shared memory, which no thread of its block has written,",
    ),
    "index": (errors.BoundsError, " touched {local}[{index}], outside {local}, a {type}"),
    "local": (
        errors.BoundsError,
        " {did} a {type} through a pointer, outside the local variable that it points to",
    ),
    "guard": (
        errors.BoundsError,
        " {did} bytes {offset} to {last} of {variable}, outside the local variable {variable} of "
        "{bytes} bytes",
    ),
    "misaligned": (
        errors.KernelError,
        " touched {size} bytes at once at {address}: misaligned, no multiple of {size},",
    ),
    "assert": (errors.KernelError, ": {what} failed"),
    "division": (errors.KernelError, " divided a whole number by zero"),
}


class Explainer:
    """Knows one launch: its arrays by name, its source and how it was compiled, its time limit."""

    def __init__(
        self,
        kernel: str,
        source: str,
        arrays: dict[str, tuple[tuple[int, ...], np.dtype]],
        find_lines: Callable[[list[int]], list[int | None]],
        timeout: float,
        compiled: str,
        macros: dict[str, str],
    ):
        self.text = code(source)
        self.names = macros | _constants(self.text)
        base, _, instance = kernel.partition("<")
        if instance:  # product<16>: T is 16
            self.names |= zip(
                templates(source).get(base, ()), instance[:-1].split(","), strict=False
            )
        self.kernel = kernel
        self.compiled = compiled.splitlines()
        self.rows = source.splitlines()
        self.arrays = arrays  # name → (shape, dtype) of the global arrays
        self.find_lines = find_lines  # code addresses → lines
        self.timeout = timeout

    def exception(self, report: dict) -> errors.CudaError:
        """Return the exception, with thread, place and line, that a worker's report stands for."""
        name, place = report["error"], report.get("now", report)
        if name == "memory":  # the system's own finding, which does not say what was done
            name = "bounds" if report["array"] else "wild"
        if name not in DID:
            return getattr(self, f"_{name}", self._internal)(report)
        kind, did = DID[name]
        line = place["line"] if "line" in place else self._line(place)
        after = " (a GPU gives garbage without a word)" if name == "division" else ""
        said = did.format_map(self._words(report, place))
        return kind(f"{self._who(place)}{said}{self._at(line)}{after}", line)

    def _words(self, report: dict, place: dict) -> dict:
        """Return what the sentences of DID have gaps for, as far as a report tells it."""
        address = f"address {report.get('offset', 0) & (2**64 - 1):#x}"
        words = report | {"did": KINDS.get(place.get("kind", -1), "touched"), "address": address}
        words["type"] = report.get("type", "").strip("'")
        words["last"] = report.get("offset", 0) + report.get("size", 0) - 1
        if report.get("array"):
            words |= {"element": self._element(report), "whole": self._array(report)}
            words["address"] = f"byte {report['offset']} of {report['array']}"
        if "column" in report:
            line = self._line(report)
            row = self.compiled[line - 1] if line and line <= len(self.compiled) else ""
            words["local"] = indexed(row, report["column"]) or "a local array"
        return words

    # One method for each kind of report that tells of more than what one thread did.

    def _race(self, report: dict) -> errors.CudaError:
        now, before = report["now"], report["before"]
        line, earlier = self._line(now), self._line(before)
        same_block = now["block"] == before["block"]
        why = "with no __syncthreads() between"
        if not same_block:
            why = "and nothing orders two blocks of one launch"
        elif line == earlier and now["kind"] == before["kind"] == 1:
            why = "in one step: let a single thread write there, or use an atomic operation"
        elif line == earlier:
            why += (
                " the reading and the writing; if both add to this element, use an atomic operation"
            )
        return errors.RaceError(
            f"race on {self._element(report)} in {SPACES[report['space']]} memory: "
            f"{self._who(before)} {KINDS[before['kind']]} it{self._at(earlier, False)}, "
            f"{self._who(now)} {KINDS[now['kind']]} it{self._at(line, False)}, {why}"
            f"{self._quote(line)}",
            line,
        )

    def _barrier(self, report: dict) -> errors.CudaError:
        call, group = WAITED_FOR[report["error"]]
        waiting, threads, line = report["waiting"], report["threads"], report["line"]
        places: dict[int, str] = {}  # where the others are, and the first thread that is there
        for x, y, z, other in report["others"]:
            places.setdefault(other, _triple((x, y, z)))
        parts = []
        for other, first in places.items():
            where = f"waits at line {other}" if other else "has ended"
            where = f"waits at another call of line {line}" if other == line else where
            parts.append(f"thread {first} {where}")
        ended = group == "block" and not any(places)
        so = " (GPUs since Volta go on without threads that have ended, older ones may hang)"
        so = so if ended else ""
        missing = threads - waiting
        some = ", for example" if missing > len(parts) else ""
        return errors.BarrierError(
            f"block {_triple(report['block'])}: {waiting} of {threads} threads wait for their "
            f"{group} at {call} of line {line}, the others never come: "
            f"{', '.join(parts)}{some}{so}{self._quote(line)}",
            line,
        )

    _warp = _barrier

    def _stack(self, report: dict) -> errors.CudaError:
        return errors.KernelError(
            f"{self._who(report)} used more than 128 KiB of local memory (deep recursion, or a "
            "large array inside the kernel?)"
        )

    def _timeout(self, report: dict) -> errors.CudaError:
        line = self._line(report)
        where = f"; {self._who(report)} was running{self._at(line)}" if report["running"] else ""
        return errors.KernelTimeoutError(
            f"kernel {self.kernel} did not end within {self.timeout:g} s and was stopped{where}",
            line,
        )

    def _lost(self, report: dict) -> errors.CudaError:
        return errors.KernelError(
            f"the worker that ran kernel {self.kernel} ended without an answer (status "
            f"{report.get('status')}): killed from outside, or out of memory"
        )

    def _internal(self, report: dict) -> errors.CudaError:
        return errors.CudaError(f"the CPU runner failed: {report.get('what', report)}")

    # Words.

    def _line(self, place: dict) -> int | None:
        return self.find_lines([place["pc"]])[0] if place.get("pc") else None

    def _at(self, line: int | None, quote: bool = True) -> str:
        return f" at line {line}{self._quote(line) if quote else ''}" if line else ""

    def _quote(self, line: int | None) -> str:
        if not line or line > len(self.rows):
            return ""
        return f"\n    {line:4d} | {self.rows[line - 1]}"

    def _who(self, place: dict) -> str:
        return f"thread {_triple(place['thread'])} of block {_triple(place['block'])}"

    def _element(self, report: dict) -> str:
        name, offset, size = report["array"], report["offset"], report["size"]
        _, dtype = self.arrays.get(name, (None, None))
        lengths = self._lengths(name)
        itemsize = dtype.itemsize if dtype is not None else max(size, 1)
        if dtype is None and all(lengths):  # of float4, too, one member of which was touched
            itemsize = report["bytes"] // math.prod(lengths) if lengths else itemsize
        index, places = offset // itemsize, ""
        for length in reversed(lengths[1:]):
            index, place = divmod(index, length)
            places = f"[{place}]{places}"
        return f"{name}[{index}]{places}"

    def _lengths(self, name: str) -> list[int]:
        """Return the lengths with which the source declares an array of several dimensions."""
        declared = rf"(?:[\w>*]\s+|[,*]\s*){re.escape(name)}\s*(\)?)\s*((?:\[[^][]*\]\s*)+)"
        for found in re.finditer(declared, self.text):
            sizes = [""] * len(found[1]) + re.findall(r"\[([^][]*)\]", found[2])  # (*x)[N]
            lengths = [number_of(size, self.names) or 0 for size in sizes]
            if all(lengths[1:]) and (lengths[0] or not sizes[0].strip()):
                return lengths
        return []

    def _array(self, report: dict) -> str:
        name = report["array"]
        if name in self.arrays:
            shape, dtype = self.arrays[name]
            count = report["bytes"] // dtype.itemsize
            sizes = f", shape {' × '.join(map(str, shape))}" if len(shape) > 1 else ""
            return f"{name} ({count} elements of {dtype.name}{sizes})"
        size = max(report["size"], 1)
        return (
            f"{name} ({report['bytes']} bytes of {SPACES[report.get('space', 0)]} memory: "
            f"{report['bytes'] // size} elements of {size} bytes)"
        )


def _constants(text: str) -> dict[str, str]:
    """Return the values of a source's constants and enumerators; of two of one name, neither."""
    declared = re.findall(
        r"\bconst(?:expr)?\b([^;(){}]*=[^;{}]*);|\benum\b[^;{}]*\{([^}]*)\}", text
    )
    pairs = re.findall(r"(\w+)\s*=\s*([^,]+)", ",".join(map(",".join, declared)))
    values: dict[str, set[str]] = {}
    for name, value in pairs:
        values.setdefault(name, set()).add(value.strip())
    return {name: value for name, (value, *others) in values.items() if not others}


def _triple(numbers: Sequence[int]) -> str:
    return f"({', '.join(map(str, numbers))})"


def read_in_advance(answer: dict) -> bool:
    """Return whether an atomic has met a plain read, which the reader's own atomic may put right.

    So begins a loop of compare and swap (recorder.cpp, ``settle``): the reader's atomic had not
    come yet when another processor's did. With one processor nothing comes between the two.
    """
    if answer["error"] != "race":
        return False
    kinds = [record.KINDS[answer[one]["kind"]] for one in ("before", "now")]
    return kinds == [record.READ, record.ATOMIC]
