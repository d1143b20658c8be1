"""Tensors as NumPy sees them, and which rank has what of a transformer.

Megatron's cut: the first matrix of a pair by columns, so that each rank makes some of the hidden
numbers from the whole input; the second by rows, so that it needs just those, and gives one part of
a sum. (As ``torch.nn.Linear`` keeps a matrix transposed, columns are its dimension 0.) Embedding
and head are cut by the vocabulary. Norms and what is added behind a sum are on every rank.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def array_of(tensor: Tensor) -> np.ndarray:
    """Return a tensor's memory as a flat array; the tensor must live as long as the array is used.

    ``tensor.numpy()`` forbids PyTorch for ever to resize the storage; a parameter that is freed and
    gathered again needs just that.
    """
    if not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise ValueError(
            "array_of expects a contiguous tensor on the CPU; got shape "
            f"{tuple(tensor.shape)}, strides {tensor.stride()} on {tensor.device}"
        )
    dtype = np.dtype(str(tensor.dtype).removeprefix("torch."))
    count = tensor.numel()
    if count == 0:
        return np.empty(0, dtype)
    memory: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(tensor.data_ptr())
    return np.frombuffer(memory, dtype)


def need_divisible(total: int, ranks: int, what: str) -> int:
    """Return ``total // ranks``, or say by its name what cannot be shared out evenly."""
    if ranks < 1 or total % ranks:
        raise ValueError(f"{what} expects a multiple of the {ranks} ranks; got {total}")
    return total // ranks


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
