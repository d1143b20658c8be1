"""Run a module's kernels on this machine's processor."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from helpers.cuda.arguments import PAGE, Argument, Call, whole_pages
from helpers.cuda.c_types import macros_of, strip_comments
from helpers.cuda.cpu import compiler, protocol, symbols
from helpers.cuda.cpu.faults import Explainer, read_in_advance
from helpers.cuda.cpu.worker import Worker
from helpers.cuda.errors import LaunchError
from helpers.cuda.occupancy import BLOCK_SHARED
from helpers.cuda.record import EVENT, AccessRecord, merge
from helpers.cuda.refused import too_many_constants
from helpers.machine import usable_cores

SMALL_TYPES = re.compile(
    r"\b(char|short|bool(?!\s+\w+\s*[=(])|half|half2|u?char[1-4]|u?short[1-4]|u?int(8|16)_t)\b"
)

# Faults whose report depends on which block came first.
ORDERED = frozenset(
    ("bounds", "const", "uninitialised", "race", "index", "misaligned", "barrier", "warp", "assert")
)
LOCAL = ("guard", "index")  # what the program with gaps between local variables reports


class CpuBackend:
    """A compiled source: one program that runs fast, one that records; each made when needed."""

    device = "cpu"

    def __init__(
        self,
        source: str,
        name: str,
        defines: dict[str, str],
        threads: int | None,
        check: bool,
        instances: Sequence[str] = (),
    ):
        self.source, self.name, self.defines = source, name, defines
        self.instances = instances
        self.threads = max(1, min(threads or usable_cores(), 256))
        self.constants: dict[str, bytes] = {}
        self._programs: dict[str, compiler.Program] = {}
        self._workers: dict[str, Worker] = {}
        # What does not compile is told at once.
        self.symbols = self._program(compiler.WATCHED if check else compiler.FAST).symbols
        if (size := sum(self.symbols.constants.values())) > 65_536:
            raise too_many_constants(size)

    def _program(self, kind: str) -> compiler.Program:
        if kind not in self._programs:
            self._programs[kind] = compiler.build(
                self.source, self.name, self.defines, self.instances, kind=kind
            )
        return self._programs[kind]

    def _worker(self, kind: str) -> Worker:
        if kind not in self._workers:
            silent = kind == compiler.GUARDED  # runs first what another program then runs again
            self._workers[kind] = Worker(self._program(kind).path, silent=silent)
        return self._workers[kind]

    def set_constant(self, name: str, array: np.ndarray) -> None:
        """Keep a constant's content for every worker, and tell those that run."""
        size = self.symbols.constants[name]
        if array.nbytes > size:
            raise LaunchError(
                f"constant {name} holds {size} bytes; got {array.nbytes} (shape {array.shape})"
            )
        self.constants[name] = array.tobytes()
        for worker in self._workers.values():
            worker.tell(protocol.constant_request(name, self.constants[name]))

    def launch(
        self,
        call: Call,
        *,
        check: bool,
        record: bool,
        blocks: list[int] | None = None,
        event_limit: int = 0,
    ) -> AccessRecord | None:
        """Run one kernel; a fault leaves the arrays as they were.

        ``check`` watches every access; ``record`` also returns what was touched, and the single
        accesses of ``blocks``, at most ``event_limit``.
        """
        self._fit(call)
        if check or record:
            self._guard_locals(call)
        kind = compiler.WATCHED if check or record else compiler.FAST
        worker, program = self._worker(kind), self._program(kind)
        memory = self._copy_in(call, worker)
        watch = None
        if kind == compiler.WATCHED:
            arrays = [
                replace(array, bytes=call.shared) if array.dynamic else array
                for array in program.symbols.visible(call.signature.name)
            ]
            variables = list(program.symbols.variables)
            watch = protocol.Watch(self._granule(call.arguments), arrays, variables)
        if watch is None or not record:
            self._ask(call, worker, program, watch)
            call.copy_out(memory)
            return None
        with tempfile.TemporaryDirectory(prefix="cuda-on-cpu-") as folder:
            kept = Path(folder) / "events"
            watch = replace(watch, events=kept, event_limit=event_limit, blocks=blocks)
            answer = self._ask(call, worker, program, watch)
            events = np.fromfile(kept, EVENT)
        call.copy_out(memory)
        return self._record(call, watch, program, answer, events)

    def ways(
        self, call: Call, limit: int
    ) -> tuple[np.ndarray, Callable[[Sequence[int]], list[int | None]]]:
        """Run one kernel, block after block, and note each thread's way through its code.

        The words are as :func:`helpers.cuda.warps.assemble` takes them; the callable gives lines of
        pieces.
        """
        self._fit(call)
        worker, program = self._worker(compiler.TRACED), self._program(compiler.TRACED)
        memory = self._copy_in(call, worker)
        with tempfile.TemporaryDirectory(prefix="cuda-on-cpu-") as folder:
            kept = Path(folder) / "ways"
            answer = self._send(call, worker, None, 1, (kept, limit))
            if "error" in answer:
                raise self._explainer(call, program).exception(answer)
            words = np.fromfile(kept, np.uint32)
        if answer["pieces"] > limit:
            raise LaunchError(
                f"kernel {call.signature.name}: its threads pass through more than {limit} pieces "
                "of code; launch fewer of them, or give a higher limit"
            )
        call.copy_out(memory)
        return words, lambda pieces: symbols.lines(program.path, pieces, self.name)

    # One method for each step of a launch.

    def _fit(self, call: Call) -> None:
        static = self.symbols.static_bytes(call.signature.name)
        if static + call.shared > BLOCK_SHARED:
            raise LaunchError(
                f"kernel {call.signature.name} asks for {static} bytes of static and {call.shared} "
                f"of dynamic shared memory; a block has at most {BLOCK_SHARED}"
            )

    def _copy_in(self, call: Call, worker: Worker) -> np.ndarray:
        """Copy the arrays to where the worker sees them; return that memory, bytes as uint8."""
        size = sum(whole_pages(region.bytes) for region in call.regions)
        memory = worker.memory.bytes(max(size, PAGE))
        call.copy_in(memory)
        return memory

    def _ask(
        self,
        call: Call,
        worker: Worker,
        program: compiler.Program,
        watch: protocol.Watch | None,
    ) -> dict:
        """Have the worker run the launch; return its answer, or raise what it says went wrong.

        A fault that several processors found is looked for again by one, block after block: what
        is reported is then the same each time. What it does not find is reported all the same, but
        for what only it can judge.
        """
        threads = min(self.threads, math.prod(call.grid))
        answer = self._send(call, worker, watch, threads)
        if watch and threads > 1 and answer.get("error") in ORDERED:
            self._copy_in(call, worker)
            again = self._send(call, worker, watch, 1)
            answer = again if "error" in again or read_in_advance(answer) else answer
        if "error" in answer:
            raise self._explainer(call, program).exception(answer)
        return answer

    def _guard_locals(self, call: Call) -> None:
        """Run the launch where local variables have gaps between them; raise what leaves one.

        A program of its own, since no compiler gives both these gaps and the recorder's calls. It
        comes first: a write beside a local variable changes another one, and what the recorder
        then sees is not the fault. Whatever else happens is the recorder's to report; only a
        kernel that does not end is not waited for twice.
        """
        if not compiler.guards_locals(self.source):
            return
        program = self._program(compiler.GUARDED)
        if not program.path.stat().st_size:
            return
        worker = self._worker(compiler.GUARDED)
        for threads in (min(self.threads, math.prod(call.grid)), 1):
            self._copy_in(call, worker)
            answer = self._send(call, worker, None, threads)
            if threads == 1 or answer.get("error") not in LOCAL:  # else again, in order
                break
        if answer.get("error") in (*LOCAL, "timeout"):
            raise self._explainer(call, program).exception(answer)

    def _explainer(self, call: Call, program: compiler.Program) -> Explainer:
        return Explainer(
            call.signature.name,
            self.source,
            {a.parameter.name: (a.shape, np.dtype(a.parameter.dtype)) for a in call.pointers},
            lambda addresses: symbols.lines(program.path, addresses, self.name),
            call.timeout,
            program.text,
            macros_of(self.source, self.defines),
        )

    def _send(
        self,
        call: Call,
        worker: Worker,
        watch: protocol.Watch | None,
        threads: int,
        ways: tuple[Path, int] | None = None,
    ) -> dict:
        if worker.start():
            for name, data in self.constants.items():
                worker.tell(protocol.constant_request(name, data))
        request = protocol.launch_request(call, threads, worker.memory.path, watch, ways)
        return worker.ask(request, call.timeout)

    def _granule(self, arguments: list[Argument]) -> int:
        """Bytes that the recorder tells apart: 4, or 1 where the source has smaller types."""
        small = any(np.dtype(a.parameter.dtype).itemsize < 4 for a in arguments)
        return 1 if small or SMALL_TYPES.search(strip_comments(self.source)) else 4

    def _record(
        self,
        call: Call,
        watch: protocol.Watch,
        program: compiler.Program,
        answer: dict,
        events: np.ndarray,
    ) -> AccessRecord:
        """Give the answer's instructions their lines and their arrays' names."""
        lines = symbols.lines(program.path, [i["pc"] for i in answer["instructions"]], self.name)
        accesses = protocol.accesses(call, watch, answer["instructions"], lines)
        merged, events = merge(accesses, events)
        touched = zip(call.regions, answer["touched"], strict=True)
        return AccessRecord(
            kernel=call.signature.name,
            grid=call.grid,
            block=call.block,
            accesses=merged,
            events=events,
            touched={region.name: (read, written) for region, (read, written) in touched},
            itemsizes={
                a.parameter.name: np.dtype(a.parameter.dtype).itemsize for a in call.pointers
            },
            shapes={a.parameter.name: a.shape for a in call.pointers},
            seconds=answer["seconds"],
            complete=answer["events"] < watch.event_limit,
        )

    @property
    def processes(self) -> list[int]:
        """Numbers of the workers' processes that run now."""
        return [worker.pid for worker in self._workers.values() if worker.pid]

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
