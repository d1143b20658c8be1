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
    return sum(segments(config, pieces, sequences, length))


def segments(config: Config, pieces: Iterable[int], sequences: int, length: int) -> list[float]:
    """Return the same, apart by where ranks that share each matrix meet after it.

    Parameters
    ----------
    config : Config
        The model's size.
    pieces : iterable of int
        Which of its pieces.
    sequences, length : int
        B and T.

    Returns
    -------
    list of float
        0 of an embedding, two numbers of a block (attention, perceptron), one of the head; a
        backward pass has twice each, the last first.

    Examples
    --------
    >>> segments(Config(width=2, layers=1, vocabulary=5, heads=1), range(3), 1, 1)
    [0.0, 40.0, 64.0, 20.0]
    """
    width, found = config.width, []
    for piece in pieces:
        if piece == config.layers + 1:
            found.append(2.0 * config.vocabulary * width)
        elif piece:
            found += [8.0 * width**2 + 4.0 * length * width, 16.0 * width**2]
        else:
            found.append(0.0)
    return [each * sequences * length for each in found]
