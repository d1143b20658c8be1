"""How many floating-point operations a piece of the transformer takes."""

from __future__ import annotations

from collections.abc import Iterable

from helpers.models.transformer import Config


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
