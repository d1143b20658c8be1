"""What this process and a worker say to each other: every message and field, for both ends.

A request is text on the worker's standard input, one line for each part, its name first
(``runtime/requests.cpp`` reads them by these names); ``run`` closes a launch.

=========  ==============================  =====================================================
line       fields                          meaning
=========  ==============================  =====================================================
constant   name bytes hex                  set a ``__constant__`` variable, from now on
kernel     name                            begin a launch
grid       x y z                           blocks
block      x y z                           threads of a block
shared     bytes                           dynamic shared memory of a block
threads    number                          of the operating system, which take blocks in turn
timeout    milliseconds                    the worker reports itself after that
memory     path                            file of the arrays, mapped by both ends
region     offset bytes itemsize           one array (or several that overlap) in that memory
           writable name
pointer    region offset                   the next argument: an address in a region
value      bytes hex                       the next argument: a number
check      granule                         watch accesses, told apart by 1 or 4 bytes
array      offset bytes name               a ``__shared__`` array, from the runtime's anchor
variable   address bytes writable name     a ``__device__`` variable
fixed      address bytes writable name     a ``__constant__`` variable
record     limit path                      keep at most ``limit`` events in the file ``path``
only       block                           keep events of this block (and of others so named)
paths      limit path                      note each thread's way, ``limit`` pieces at most
run                                        end of the launch: run it and answer
=========  ==============================  =====================================================

An answer is one line of JSON on the worker's pipe. Of a launch that ended well:

============  ===========================  =====================================================
field         value                        meaning
============  ===========================  =====================================================
seconds       number                       that the kernel ran
pieces        number                       of code that all threads went through
events        number                       kept in the file (:data:`helpers.cuda.record.EVENT`)
instructions  objects                      accesses of the code, each summed over the launch
touched       [[read, written], ...]       bytes of each region touched at least once
============  ===========================  =====================================================

An instruction has its code address ``pc``, and the fields of :class:`helpers.cuda.record.Access`
but for its line; ``array`` counts the regions, then the shared arrays, then the variables.
``pieces`` comes with ``paths`` only, ``events`` and what follows with ``check``. Of a launch that
failed, ``error`` names the fault and the other fields describe it: :mod:`helpers.cuda.cpu.faults`
has one method for each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.cuda.arguments import Call
from helpers.cuda.record import KINDS, SPACES, SUMS, Access


@dataclass(frozen=True)
class SharedArray:
    """A ``__shared__`` array of the compiled module."""

    name: str
    offset: int  # bytes from the runtime's anchor in thread-local memory
    bytes: int
    dynamic: bool  # declared extern: its size comes with the launch
    owner: str  # the function that declares it; empty outside functions


@dataclass(frozen=True)
class Variable:
    """A ``__constant__`` or ``__device__`` variable of the compiled module."""

    name: str
    address: int  # in the worker's memory
    bytes: int
    constant: bool


@dataclass(frozen=True)
class Watch:
    """What an instrumented launch is watched for, and what is kept of it."""

    granule: int  # bytes that the recorder tells apart
    shared: list[SharedArray]  # with their sizes in this launch
    variables: list[Variable]
    events: Path | None = None  # without a file nothing is recorded
    event_limit: int = 0
    blocks: list[int] | None = None  # whose accesses are kept; by default all blocks'

    def lines(self) -> list[str]:
        """Return the request's lines."""
        rows = [f"check {self.granule}"]
        rows += [f"array {s.offset} {s.bytes} {s.name}" for s in self.shared]
        rows += [
            f"{'fixed' if v.constant else 'variable'} {v.address} {v.bytes} "
            f"{int(not v.constant)} {v.name}"
            for v in self.variables
        ]
        if self.events:
            rows.append(f"record {self.event_limit} {self.events}")
            # A launch that keeps no block's accesses names one that no grid has.
            rows += [
                f"only {block}" for block in ([2**63] if self.blocks == [] else self.blocks or [])
            ]
        return rows


def launch_request(
    call: Call, threads: int, memory: str, watch: Watch | None, ways: tuple[Path, int] | None
) -> str:
    """Return the request of a launch on so many threads of the operating system.

    ``memory`` is the file that holds the arrays; ``ways``, where the threads' ways go, and the most
    pieces of code.
    """
    rows = [
        f"kernel {token(call.signature.name)}",
        "grid {} {} {}".format(*call.grid),
        "block {} {} {}".format(*call.block),
        f"shared {call.shared}",
        f"threads {threads}",
        f"timeout {max(1, round(1000 * call.timeout))}",
        f"memory {memory}",
    ]
    rows += [
        f"region {r.offset} {r.bytes} {r.itemsize} {int(r.writable)} {r.name}" for r in call.regions
    ]
    for argument, place in zip(call.arguments, call.places, strict=True):
        if place:
            rows.append("pointer {} {}".format(*place))
        else:
            rows.append(f"value {len(argument.value)} {argument.value.hex(' ')}")
    if watch:
        rows += watch.lines()
    if ways:
        rows.append("paths {1} {0}".format(*ways))
    return "\n".join([*rows, "run\n"])


def token(kernel: str) -> str:
    """Return a kernel's name as one word."""
    return re.sub(r"\s+", "_", kernel)


def constant_request(name: str, data: bytes) -> str:
    """Return the request that sets a ``__constant__`` variable."""
    return f"constant {name} {len(data)} {data.hex(' ')}\n"


def accesses(
    call: Call, watch: Watch, instructions: Sequence[dict], lines: Sequence[int | None]
) -> list[Access]:
    """Give an answer's instructions their lines and their arrays' names."""
    names = [region.name for region in call.regions]
    names += [array.name for array in watch.shared]
    names += [variable.name for variable in watch.variables]
    return [
        Access(
            line=line,
            array=names[i["array"]],
            kind=KINDS[i["kind"]],
            space=SPACES[i["space"]],
            size=i["size"],
            worst=i["worst"],
            **{name: i[name] for name in SUMS},
        )
        for line, i in zip(lines, instructions, strict=True)
    ]
