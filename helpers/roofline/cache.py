"""A small simulated cache: set-associative, least recently used out first, write-allocate.

>>> cache = Cache(size=64, line=16, ways=2)     # 4 lines in 2 sets
>>> [cache.access(address) for address in (0, 4, 16, 0, 64, 128, 0)]
[False, True, False, True, False, False, False]
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

ORDERS = ("ijk", "ikj", "jik", "jki", "kij", "kji")


@dataclass
class Cache:
    """A set-associative cache that evicts the least recently used line of a full set.

    An address belongs to line address // line, and that line to set (line number) mod (sets). A
    store fetches its line, as a load does. ValueError unless line and sets are powers of two.

    Parameters
    ----------
    size, line
        In bytes.
    ways
        Lines to a set.
    """

    size: int = 32768
    line: int = 64
    ways: int = 8
    hits: int = 0
    misses: int = 0
    held: list[list[int]] = field(default_factory=list, repr=False)  # a set: oldest line first

    def __post_init__(self):
        for name in ("size", "line", "ways"):
            if getattr(self, name) < 1:
                raise ValueError(f"Cache expects {name} >= 1; got {getattr(self, name)}")
        sets = self.size // (self.line * self.ways)
        if (
            sets * self.line * self.ways != self.size
            or sets & (sets - 1)
            or self.line & (self.line - 1)
        ):
            raise ValueError(
                "Cache expects size = line · ways · sets, line and sets powers of two; got "
                f"size={self.size}, line={self.line}, ways={self.ways}"
            )
        self.held = [[] for _ in range(sets)]

    @classmethod
    def like(cls, level: Mapping[str, int]) -> Cache:
        """Return an empty cache like one that the system reports, or one of 32 KiB.

        ``size`` and ``line`` are in bytes, as in ``Ceilings.reported``; a line or ways of 0 were
        not said, and are taken as 64 and as 8, or what is next to it. A size such as 48 KiB, which
        is no power of two, gets 12 ways.

        >>> Cache.like({"size": 49152, "line": 64, "ways": 12}).ways
        12
        >>> Cache.like({"size": 49152, "line": 64, "ways": 0}).ways
        12
        """
        line = level["line"] or 64
        odd = level["size"] // line
        while odd and odd % 2 == 0:
            odd //= 2
        for ways in (level["ways"], 8, *(odd << shift for shift in range(5) if odd << shift >= 8)):
            with contextlib.suppress(ValueError):
                return cls(level["size"], line, ways)
        return cls()

    def access(self, address: int) -> bool:
        """Read or write one byte; return True for a hit."""
        number = address // self.line
        lines = self.held[number % len(self.held)]
        hit = number in lines
        if hit:
            lines.remove(number)
            self.hits += 1
        else:
            self.misses += 1
            if len(lines) == self.ways:
                lines.pop(0)
        lines.append(number)
        return hit

    @property
    def lines(self) -> set[int]:
        """Numbers of the lines that are held now."""
        return {number for lines in self.held for number in lines}


def matmul_trace(order: str, n: int, size: int = 4) -> Iterator[tuple[str, int, int, int]]:
    """Yield the accesses of C += A B in a loop order: (matrix, row, column, address).

    For each i, j, k in that order: c[i,j], a[i,k] and b[k,j] are loaded and c[i,j] is stored,
    as matmul.c does with volatile arrays. The matrices follow one another from address 0, ``size``
    bytes an element. Raises ValueError for an unknown order.
    """
    if sorted(order) != ["i", "j", "k"]:
        raise ValueError(f"a loop order is one of {', '.join(ORDERS)}; got {order!r}")
    base = {"a": 0, "b": n * n * size, "c": 2 * n * n * size}
    at = dict.fromkeys("ijk", 0)
    p, q, r = order
    for at[p] in range(n):
        for at[q] in range(n):
            for at[r] in range(n):
                i, j, k = at["i"], at["j"], at["k"]
                for name, row, column in (("c", i, j), ("a", i, k), ("b", k, j), ("c", i, j)):
                    yield name, row, column, base[name] + (row * n + column) * size


def count_misses(order: str, n: int, cache: Cache) -> dict[str, int]:
    """Run the product of two n × n matrices of float32 through ``cache``.

    Parameters
    ----------
    order
        Loops from the outermost, such as "ikj".

    Returns
    -------
    dict of str to int
        Misses of the matrices "a", "b" and "c", and all "accesses".
    """
    counts = {"a": 0, "b": 0, "c": 0, "accesses": 0}
    for name, _, _, address in matmul_trace(order, n):
        counts["accesses"] += 1
        counts[name] += not cache.access(address)
    return counts
