"""Read a compiled module: variables from its symbol table, lines of the source from addresses."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.cuda.cpu.assembly import READER
from helpers.cuda.cpu.protocol import SharedArray, Variable

KERNEL = "cuda_kernel_"  # before each kernel's name in the compiled module
LIMIT = 60.0  # seconds for a tool
# What the compiler and compiler.py add to the reader's variables.
HIDDEN = re.compile(
    r"cuda_(kernels|constants|dynamic_shared|guards_locals)$|vtable |typeinfo |VTT "
    r"|guard variable |__|_ZG|_ZT"
)


@dataclass(frozen=True)
class Symbols:
    """The variables of a source."""

    shared: tuple[SharedArray, ...]
    variables: tuple[Variable, ...]

    def visible(self, kernel: str) -> list[SharedArray]:
        """Return the shared arrays that a kernel may touch: not those of another kernel."""
        owned = [(array, re.search(rf"{KERNEL}(\w+)", array.owner)) for array in self.shared]
        return [array for array, owner in owned if not owner or owner[1] == kernel.split("<")[0]]

    def static_bytes(self, kernel: str) -> int:
        """Return what a kernel's own static ``__shared__`` arrays take."""
        sums: dict[str, int] = {}
        for array in self.visible(kernel):
            if KERNEL in array.owner and not array.dynamic:
                sums[array.owner] = sums.get(array.owner, 0) + array.bytes
        return max(sums.values(), default=0)

    @property
    def constants(self) -> dict[str, int]:
        """Bytes of the ``__constant__`` variables by name."""
        return {v.name: v.bytes for v in self.variables if v.constant}


@functools.lru_cache(maxsize=256)
def read(program: Path, dynamic: tuple[str, ...]) -> Symbols:
    """Read the variables of a compiled module; none where there is no ``readelf``."""
    tool = shutil.which("readelf") or shutil.which("llvm-readelf")
    if not tool:
        return Symbols((), ())
    answer = subprocess.run(
        [tool, "-sWC", str(program)], capture_output=True, text=True, timeout=LIMIT
    )
    anchor = begin = end = 0
    reader = False
    found: list[tuple[str, str, int, int]] = []
    for text in answer.stdout.splitlines():
        words = text.split(maxsplit=7)
        if len(words) < 8 or not words[0][:-1].isdigit() or words[6] == "UND":
            continue
        address, size, kind, name = int(words[1], 16), int(words[2], 0), words[3], words[7]
        if kind == "FILE":
            reader = name == READER
        elif name == "cuda_tls_anchor":
            anchor = address
        elif name == "__start_cuda_constant":
            begin = address
        elif name == "__stop_cuda_constant":
            end = address
        elif (reader and kind in ("TLS", "OBJECT")) or (
            kind == "TLS" and words[4] in ("UNIQUE", "WEAK")  # in a template: under no file
        ):
            found.append((kind, name, address, size))
    shared, variables = [], []
    for kind, name, address, size in found:
        owner, _, label = name.rpartition("::")
        label = re.sub(r"\W.*", "", label)[:60]
        if kind == "TLS" and name in dynamic:
            shared.append(SharedArray(label, address - anchor, size, True, ""))
        elif kind == "TLS" and not HIDDEN.match(name):
            shared.append(SharedArray(label, address - anchor, size, False, owner))
        elif kind == "OBJECT" and label and not HIDDEN.match(name) and ".L" not in name:
            variables.append(Variable(label, address, size, begin <= address < end))
    return Symbols(tuple(shared), tuple(variables))


def lines(program: Path, addresses: Sequence[int], name: str) -> list[int | None]:
    """Return the lines of the source that code addresses come from; None where none is known."""
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if not tool or not addresses:
        return [None] * len(addresses)
    answer = subprocess.run(
        [tool, "-a", "-i", "-e", str(program), *(hex(address) for address in addresses)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    found: list[int | None] = []
    for text in answer.stdout.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", text):
            found.append(None)
        elif found and found[-1] is None:  # inlined calls: the innermost frame in the source
            # GCC may name the file that it was given in place of the one in its first #line.
            match = re.match(rf"(?:.*/)?(?:{re.escape(name)}|unit\.cpp):(\d+)", text)
            found[-1] = int(match.group(1)) if match else None
    return found if len(found) == len(addresses) else [None] * len(addresses)
