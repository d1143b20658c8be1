"""How many floating-point operations a piece of the transformer takes."""

from __future__ import annotations

from collections.abc import Iterable

from helpers.models.transformer import Config


def flops(config: Config, pieces: Iterable[int], sequences: int, length: int) -> float:
    """Return the operations of a forward pass; a backward pass has twice as many.

    A token takes 2 for each number of a matrix: 24 C² in a block, 2 V C in the head; and 4 T C for
    its scores and their use (all T keys: what a mask hides is computed too).

    Parameters
    ----------
    config : Config
        The model's size.
    pieces : iterable of int
        Which of its pieces: 0 is the embedding, which only looks up.
    sequences, length : int
        B and T.

    Returns
    -------
    float
        Operations.

    Examples
    --------
    >>> flops(Config(width=128, layers=1), [1], 1, 64) == 64 * (24 * 128**2 + 4 * 64 * 128)
    True
    """
    width, total = config.width, 0.0
    for piece in pieces:
        if piece == config.layers + 1:
            total += 2 * config.vocabulary * width
        elif piece:
            total += 24 * width**2 + 4 * length * width
    return total * sequences * length
