"""What the forward passes keep for the backward passes, counted in bytes while it is kept.

Autograd tells of each tensor that it saves (`torch.autograd.graph.saved_tensors_hooks`). Storages
that several operations save count once, and weights do not count: they are there anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor


class Meter:
    """Counts the bytes that are kept ``now``, and the ``most`` there were."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._holders: Counter[int] = Counter()
        self._free: set[int] = set()

    def watch(self, weights: Iterable[Tensor]) -> torch.autograd.graph.saved_tensors_hooks:
        """Return a context in which what autograd saves, but weights, counts until dropped."""
        free = {weight.untyped_storage().data_ptr() for weight in weights}

        def pack(tensor: Tensor) -> Tensor | Kept:
            if tensor.untyped_storage().data_ptr() in free:
                return tensor
            return self.keep(tensor)

        return torch.autograd.graph.saved_tensors_hooks(pack, _unpack)

    def keep(self, tensor: Tensor) -> Kept:
        """Count a tensor while the result lives."""
        return Kept(tensor, self)

    def _add(self, address: int, size: int) -> None:
        self._holders[address] += 1
        if self._holders[address] == 1:
            self.now += size
            self.most = max(self.most, self.now)

    def _drop(self, address: int, size: int) -> None:
        self._holders[address] -= 1
        if not self._holders[address]:
            del self._holders[address]
            self.now -= size


class Kept:
    """A tensor that counts while this lives."""

    __slots__ = ("_address", "_meter", "_size", "tensor")

    def __init__(self, tensor: Tensor, meter: Meter) -> None:
        storage = tensor.untyped_storage()
        self.tensor, self._meter = tensor, meter
        self._address, self._size = storage.data_ptr(), storage.nbytes()
        meter._add(self._address, self._size)

    def __del__(self) -> None:
        self._meter._drop(self._address, self._size)


def _unpack(saved: Tensor | Kept) -> Tensor:
    return saved.tensor if isinstance(saved, Kept) else saved
