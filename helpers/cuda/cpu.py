"""Run a module's kernels on this machine's processor."""

from __future__ import annotations

import math
import re
import tempfile
from pathlib import Path

import numpy as np

from helpers.cuda import compiler
from helpers.cuda.arguments import PAGE, Argument, whole_pages
from helpers.cuda.arguments import regions as lay_out
from helpers.cuda.errors import LaunchError
from helpers.cuda.faults import Explainer
from helpers.cuda.nvrtc import SHARED_LIMITS
from helpers.cuda.record import EVENT, KINDS, SPACES, Access, Record, merge
from helpers.cuda.source import Signature, strip_comments
from helpers.cuda.worker import Worker
from helpers.machine import usable_cores

SMALL_TYPES = re.compile(r"\b(char|short|bool|uchar4)\b")


class CpuBackend:
    """A compiled source: one program that runs fast, one that records; each made when needed."""

    device = "cpu"

    def __init__(
        self, source: str, name: str, defines: dict, arch: str, threads: int | None, check: bool
    ):
        self.source, self.name, self.defines = source, name, defines
        self.threads = max(1, min(threads or usable_cores(), 256))
        self.shared_limit = SHARED_LIMITS.get(int(re.sub(r"\D", "", arch)), 49_152)
        self.constants: dict[str, bytes] = {}
        self._programs: dict[bool, compiler.Program] = {}
        self._workers: dict[bool, Worker] = {}
        self.symbols = self._program(check)  # what does not compile is told at once

    def _program(self, instrumented: bool) -> compiler.Program:
        if instrumented not in self._programs:
            self._programs[instrumented] = compiler.build(
                self.source, self.name, self.defines, instrumented=instrumented
            )
        return self._programs[instrumented]

    def _worker(self, instrumented: bool) -> Worker:
        if instrumented not in self._workers:
            self._workers[instrumented] = Worker(self._program(instrumented).path)
        return self._workers[instrumented]

    def set_constant(self, name: str, array: np.ndarray) -> None:
        size = self.symbols.constants[name]
        if array.nbytes > size:
            raise LaunchError(
                f"constant {name} holds {size} bytes; got {array.nbytes} (shape {array.shape})"
            )
        self.constants[name] = array.tobytes()
        for worker in self._workers.values():
            if worker.pid:
                worker._process.stdin.write(self._constant_request(name).encode())

    def _constant_request(self, name: str) -> str:
        data = self.constants[name]
        return f"constant {name} {len(data)} {data.hex(' ')}\n"

    def shared_bytes(self) -> int:
        """Return the bytes of all static ``__shared__`` arrays of the source."""
        return sum(s.bytes for s in self.symbols.shared if not s.dynamic)

    def launch(
        self,
        signature: Signature,
        grid: tuple,
        block: tuple,
        shared: int,
        arguments: list[Argument],
        *,
        check: bool,
        record: bool,
        timeout: float,
        blocks: list[int] | None = None,
        event_limit: int = 0,
    ) -> Record | None:
        """Run one kernel; arrays change only when it ends without a fault."""
        if self.shared_bytes() + shared > self.shared_limit:
            raise LaunchError(
                f"kernel {signature.name} asks for {self.shared_bytes()} bytes of static and "
                f"{shared} of dynamic shared memory; a block has at most {self.shared_limit}"
            )
        instrumented = check or record
        worker, program = self._worker(instrumented), self._program(instrumented)
        regions, places = lay_out(arguments)
        size = sum(whole_pages(r["bytes"]) for r in regions)
        memory = worker.memory.bytes(max(size, PAGE))
        for region in regions:
            for at, array in region["arrays"]:
                begin = region["offset"] + at
                memory[begin : begin + array.nbytes] = array.reshape(-1).view(np.uint8)
        if worker.start():
            prefix = "".join(self._constant_request(name) for name in self.constants)
        else:
            prefix = ""
        shared_variables = [s for s in program.shared if not s.dynamic or shared][:64]
        with tempfile.TemporaryDirectory(prefix="cuda-on-cpu-") as folder:
            events = Path(folder) / "events"
            chosen = [] if blocks is None else blocks
            head = [
                "launch", signature.name, *grid, *block, shared,
                1 if instrumented else min(self.threads, math.prod(grid)),
                int(instrumented), int(record), self._granule(arguments),
                max(1, round(timeout * 1000)), event_limit,
                0 if blocks is None else len(chosen) + 1, *chosen,
                worker.memory.path, events,
            ]  # fmt: skip
            rows = [" ".join(map(str, head)), str(len(regions))]
            rows += [f"{r['offset']} {r['bytes']} {r['itemsize']} {int(r['writable'])} {r['name']}"
                     for r in regions]  # fmt: skip
            rows.append(str(len(shared_variables)))
            rows += [f"{s.offset} {shared if s.dynamic else s.bytes} {s.name}"
                     for s in shared_variables]  # fmt: skip
            rows.append(str(len(arguments)))
            for argument, place in zip(arguments, places, strict=True):
                if place:
                    rows.append(f"p {place[0]} {place[1]}")
                else:
                    rows.append(f"v {len(argument.value)} {argument.value.hex(' ')}")
            answer = worker.ask(prefix + "\n".join(rows) + "\n", timeout)
            if "error" in answer:
                arrays = {
                    a.parameter.name: (a.shape, np.dtype(a.parameter.dtype))
                    for a in arguments
                    if a.parameter.pointer
                }
                find = lambda pcs: compiler.lines(program.path, pcs, self.name)  # noqa: E731
                raise Explainer(signature.name, self.source, arrays, find, timeout).exception(
                    answer
                )
            for region in regions:
                for at, array in region["arrays"] if region["writable"] else ():
                    begin = region["offset"] + at
                    array.reshape(-1).view(np.uint8)[:] = memory[begin : begin + array.nbytes]
            if not record:
                return None
            found = np.fromfile(events, EVENT)
        return self._record(signature, grid, block, arguments, regions, shared_variables, program,
                            answer, found, event_limit)  # fmt: skip

    def _granule(self, arguments: list[Argument]) -> int:
        """Bytes that the recorder tells apart: 4, or 1 where the source has smaller types."""
        small = any(np.dtype(a.parameter.dtype).itemsize < 4 for a in arguments)
        return 1 if small or SMALL_TYPES.search(strip_comments(self.source)) else 4

    def _record(self, signature, grid, block, arguments, regions, shared, program, answer, events,
                limit) -> Record:  # fmt: skip
        names = [r["name"] for r in regions] + [s.name for s in shared]
        found = compiler.lines(program.path, [i[0] for i in answer["instructions"]], self.name)
        accesses = [
            Access(line, names[array] if array < len(names) else "constant", KINDS[kind],
                   SPACES[space], size, *rest)
            for line, (_, array, kind, size, space, *rest) in zip(
                found, answer["instructions"], strict=True
            )
        ]  # fmt: skip
        constants = list(program.constants)
        if len(constants) == 1:
            accesses = [
                Access(**{**vars(a), "array": constants[0]}) if a.space == "constant" else a
                for a in accesses
            ]
        merged, events = merge(accesses, events)
        pointers = [a for a in arguments if a.parameter.pointer]
        return Record(
            signature.name,
            grid,
            block,
            merged,
            events,
            {r["name"]: tuple(t) for r, t in zip(regions, answer["unique"], strict=True)},
            {a.parameter.name: np.dtype(a.parameter.dtype).itemsize for a in pointers},
            {a.parameter.name: a.shape for a in pointers},
            answer["seconds"],
            answer["events"] < limit,
        )

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
