"""Tensors as MPI and NumPy see them, and how a row of numbers is cut for N ranks."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from torch import Tensor

from helpers.collectives.parts import split


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


def shards(elements: int, ranks: int) -> list[slice]:
    """Cut a row of numbers into consecutive shards, none longer than another by more than one."""
    if elements < 0 or ranks < 1:
        raise ValueError(f"shards expects elements >= 0 and ranks >= 1; got {elements}, {ranks}")
    return split(elements, ranks)


def need_divisible(total: int, ranks: int, what: str) -> int:
    """Return ``total // ranks``, or say by its name what cannot be shared out evenly."""
    if ranks < 1 or total % ranks:
        raise ValueError(f"{what} expects a multiple of the {ranks} ranks; got {total}")
    return total // ranks
