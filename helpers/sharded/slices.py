"""Which rank has what of a transformer's matrices: arithmetic alone, no messages.

Megatron's cut: the first matrix of a pair by columns, so that each rank makes some of the hidden
numbers from the whole input; the second by rows, so that it needs just those, and gives one part of
a sum. (As ``torch.nn.Linear`` keeps a matrix transposed, columns are its dimension 0.) Attention is
such a pair with heads between, the perceptron one with GELU between. Embedding and head are cut by
the vocabulary. Norms and what is added behind a sum are on every rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from helpers.sharded.arrays import need_divisible

COLUMNS = ("query", "key", "value", "up")
ROWS = ("out", "down")
VOCABULARY = ("token", "scores")


def cut_dimension(name: str) -> int | None:
    """Return the dimension in which a parameter is cut, or None if every rank has it whole."""
    layer, _, kind = name.rpartition(".")
    last = layer.rpartition(".")[2]
    if last in COLUMNS or last in VOCABULARY:
        return 0
    if last in ROWS and kind == "weight":
        return 1
    return None


def cut(name: str, whole: Tensor, ranks: int, rank: int) -> Tensor:
    """Return one rank's part of a parameter."""
    dim = cut_dimension(name)
    if dim is None:
        return whole.clone()
    length = need_divisible(whole.shape[dim], ranks, f"{name}, dimension {dim}")
    return whole.narrow(dim, rank * length, length).clone()


def join(name: str, parts: Sequence[Tensor]) -> Tensor:
    """Return the whole parameter."""
    dim = cut_dimension(name)
    return parts[0].clone() if dim is None else torch.cat(list(parts), dim)


def cut_all(state: Mapping[str, Tensor], ranks: int, rank: int) -> dict[str, Tensor]:
    """Return one rank's part of every parameter."""
    return {name: cut(name, whole, ranks, rank) for name, whole in state.items()}
