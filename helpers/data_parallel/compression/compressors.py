"""What a scheme is handed: a compressor turns values into bytes, and adds what bytes stand for.

One of your own inherits :class:`Compressor`; :class:`Half` is the shortest.
"""

from __future__ import annotations

import numpy as np

from helpers.data_parallel.compression import packing


class Compressor:
    """Values into bytes, and back: what the others inherit."""

    name = ""

    def nbytes(self, n: int) -> int:
        """Return the bytes of `n` values: the same on every rank."""
        raise NotImplementedError

    def encode(self, v: np.ndarray) -> np.ndarray:
        """Return the bytes of contiguous float32 values, which stay as they are."""
        raise NotImplementedError

    def add(self, code: np.ndarray, out: np.ndarray) -> None:
        """Add in place what a code stands for, that of another rank's ``encode`` too."""
        raise NotImplementedError


class Half(Compressor):
    """Half precision: 2 bytes each, 11 significant bits, sizes from 6·10⁻⁸ to 65 504."""

    name = "float16"

    def nbytes(self, n: int) -> int:
        return 2 * n

    def encode(self, v: np.ndarray) -> np.ndarray:
        return v.astype(np.float16).view(np.uint8)

    def add(self, code: np.ndarray, out: np.ndarray) -> None:
        out += code.view(np.float16)


class Quantised(Compressor):
    """QSGD: buckets of 512 values, rounded at random to s levels of their norm, without bias."""

    def __init__(self, levels: int, seed: int = 0):
        packing.bits_of(levels)
        self.levels, self.name = levels, f"QSGD, s = {levels}"
        self._state = packing.generator(seed)

    def nbytes(self, n: int) -> int:
        return packing.packed_bytes(n, self.levels)

    def encode(self, v: np.ndarray) -> np.ndarray:
        return packing.pack(v, self.levels, self._state)

    def add(self, code: np.ndarray, out: np.ndarray) -> None:
        packing.add(code, self.levels, out)


class TopK(Compressor):
    """The largest part of the values as they are, with their places; the others are dropped.

    ``share`` of the values is above 0 and at most 1, else ValueError.
    """

    def __init__(self, share: float):
        if not 0 < share <= 1:
            raise ValueError(f"TopK expects a share above 0 and at most 1; got {share}")
        self.share, self.name = share, f"top {share:.3g}"

    def count(self, n: int) -> int:
        """Return how many of n values are kept."""
        return min(n, max(1, round(self.share * n)))

    def nbytes(self, n: int) -> int:
        return 8 * self.count(n)

    def encode(self, v: np.ndarray) -> np.ndarray:
        kept = self.count(len(v))
        where = np.argpartition(np.abs(v), len(v) - kept)[len(v) - kept :].astype(np.int32)
        return np.concatenate([where.view(np.uint8), v[where].view(np.uint8)])

    def add(self, code: np.ndarray, out: np.ndarray) -> None:
        half = len(code) // 2
        out[code[:half].view(np.int32)] += code[half:].view(np.float32)


class Sign(Compressor):
    """One bit each, and the mean size of each bucket's values (Karimireddy et al., 2019)."""

    name = "sign"

    def nbytes(self, n: int) -> int:
        return 4 * packing.buckets(n) + -(-n // 8)

    def encode(self, v: np.ndarray) -> np.ndarray:
        starts = np.arange(0, len(v), packing.BUCKET)
        sums = np.add.reduceat(np.abs(v), starts) if len(v) else np.zeros(0, np.float32)
        sizes = (sums / np.diff(np.append(starts, len(v)))).astype(np.float32)
        return np.concatenate([sizes.view(np.uint8), np.packbits(v < 0)])

    def add(self, code: np.ndarray, out: np.ndarray) -> None:
        norms = 4 * packing.buckets(len(out))
        sizes = np.repeat(code[:norms].view(np.float32), packing.BUCKET)[: len(out)]
        minus = np.unpackbits(code[norms:], count=len(out)).astype(bool)
        out += np.where(minus, -sizes, sizes)
