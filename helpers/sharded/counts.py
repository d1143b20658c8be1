"""Messages, bytes and operations of each way to split a model, by formula; a trace counts the same.

Messages and bytes are what one rank sends in one forward and one backward pass. N ranks, B
sequences of T positions, C = width, V = vocabulary, L blocks; bytes are elements times
``itemsize``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from helpers.models.transformer import Config


class Sent(NamedTuple):
    """What one rank sends."""

    messages: int
    bytes: float

    def __add__(self, other: Sent) -> Sent:  # type: ignore[override]
        return Sent(self.messages + other.messages, self.bytes + other.bytes)

    def times(self, count: int) -> Sent:
        """Return so many of them."""
        return Sent(self.messages * count, self.bytes * count)


def all_reduce(elements: int, ranks: int, itemsize: int = 4) -> Sent:
    """Return what a ring allreduce sends: 2(N − 1) messages of 1/N of the elements."""
    return half(elements, ranks, itemsize).times(2)


def half(elements: int, ranks: int, itemsize: int = 4) -> Sent:
    """Return what an all-gather or a reduce-scatter sends: N − 1 messages, half of an allreduce."""
    return Sent(ranks - 1, (ranks - 1) / ranks * elements * itemsize)


def tensor(
    config: Config, ranks: int, sequences: int, sequence: bool = False, itemsize: int = 4
) -> Sent:
    """Return what tensor parallelism sends in a step of the transformer, loss included.

    A block has two pairs of matrices: an allreduce each at g forwards and at f backwards. With the
    sequence split each allreduce is the two halves of one, and the parameters that every rank has
    whole (two norms, two biases: 6C) add their gradients.
    """
    B, T, C, L = sequences, config.context, config.width, config.layers
    stream = all_reduce(B * T * C, ranks, itemsize)
    loss = all_reduce(B * T, ranks, itemsize) + all_reduce(2 * B * T, ranks, itemsize)
    if not sequence:
        return stream.times(4 * L + 2) + loss  # 2 pairs, 2 ways; embedding's g, head's f
    small = [C] * 6 * L + [C] * 2 + [config.context * C]
    extra = [all_reduce(n, ranks, itemsize) for n in small]
    return sum(extra, stream.times(4 * L + 2) + loss)


def ring_attention(elements: int, ranks: int, itemsize: int = 4) -> Sent:
    """Return what ring attention sends: keys and values, and their gradients on the way back."""
    count = 6 * (ranks - 1) + 2 if ranks > 1 else 0
    return Sent(count, float(count * elements * itemsize))


def experts(
    tokens: int, width: int, ranks: int, choices: int = 1, experts: int = 1, itemsize: int = 4
) -> Sent:
    """Return what equally busy experts send: tokens four times, and counts (8 bytes each) once."""
    away = (ranks - 1) / ranks
    return Sent(
        5 * (ranks - 1), 4 * away * choices * tokens * width * itemsize + 8 * away * experts
    )


def flops(config: Config, pieces: Iterable[int], sequences: int, length: int) -> float:
    """Return the operations of a forward pass; a backward pass has twice as many.

    A token takes 2 for each number of a matrix: 24 C² in a block, 2 V C in the head; and 4 T C for
    its scores and their use (all T keys: what a mask hides is computed too).
    """
    return sum(segments(config, pieces, sequences, length))


def segments(config: Config, pieces: Iterable[int], sequences: int, length: int) -> list[float]:
    """Return the same, apart by where ranks that share each matrix meet after it."""
    width, found = config.width, []
    for piece in pieces:
        if piece == config.layers + 1:
            found.append(2.0 * config.vocabulary * width)
        elif piece:
            found += [8.0 * width**2 + 4.0 * length * width, 16.0 * width**2]
        else:
            found.append(0.0)
    return [each * sequences * length for each in found]
