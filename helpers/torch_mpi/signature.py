"""A number for a call, by which ranks see whether all made the same one."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import torch

from helpers.torch_mpi.reductions import COMBINE
from helpers.torch_mpi.transport import MismatchError

NAMES = ["barrier", "all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter"]
NAMES += ["reduce_scatter", "all_to_all"]
ROOTED = ("reduce", "broadcast", "gather", "scatter")
OPS = ["", *COMBINE]
TYPES = [None, *sorted({t for t in vars(torch).values() if isinstance(t, torch.dtype)}, key=str)]
_CODES: dict[tuple, int] = {}


def sign(
    name: str,
    nbytes: int,
    dtype: torch.dtype | None = None,
    op: str = "",
    parts: Sequence[torch.Tensor] = (),
    root: int = 0,
) -> int:
    """Return the number that stands for one call.

    Bits: 4 for the name, 6 the type, 4 the operation, 10 unequal ``parts`` or root, 40 the bytes.
    """
    key = name, dtype, op
    if key not in _CODES:
        place = NAMES.index(name) + 1, TYPES.index(dtype), OPS.index(op)
        _CODES[key] = place[0] << 60 | place[1] << 54 | place[2] << 50
    lengths = [len(part) for part in parts]
    unequal = 1 + crc32(repr(lengths).encode()) % 1023 if len(set(lengths)) > 1 else root % 1024
    return _CODES[key] | unequal << 40 | nbytes % (1 << 40)


def differ(rank: int, signature: int, other: int, theirs: int) -> None:
    """Raise a MismatchError about two ranks' signatures."""
    raise MismatchError(
        f"rank {rank} called {_spell(signature)} while rank {other} called {_spell(theirs)}"
    )


def _spell(signature: int) -> str:
    if not signature >> 60:
        return "something else"
    name = NAMES[(signature >> 60) - 1]
    dtype, op, more = TYPES[signature >> 54 & 63], OPS[signature >> 50 & 15], signature >> 40 & 1023
    said = f"{name} of {signature % (1 << 40)} bytes"
    said += f" of {dtype}" if dtype else ""
    said += f" with {op}" if op else ""
    if name in ROOTED:
        return f"{said}, root {more}"
    return said + (f" in unequal parts (checksum {more})" if more else "")
