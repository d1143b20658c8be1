"""Tensors and options as torch hands them over, brought into the form that a transport takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist


class Receiving:
    """Byte views of tensors to receive into; those that are not contiguous are filled at exit.

    >>> output = torch.zeros(2, 3).T
    >>> with Receiving([output]) as (view,):
    ...     view.copy_(torch.ones(6).view(torch.uint8)).shape
    torch.Size([24])
    >>> output.sum()
    tensor(6.)
    """

    def __init__(self, tensors: Sequence[torch.Tensor]):
        self._tensors = tensors
        self._parts = [flatten(tensor) for tensor in tensors]

    def __enter__(self) -> list[torch.Tensor]:
        return [flat.view(torch.uint8) for flat in self._parts]

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            for flat, tensor in zip(self._parts, self._tensors, strict=True):
                put_back(flat, tensor)


def flatten(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements of a tensor in a row: a view where possible, else a copy."""
    if tensor.dim() == 1 and tensor.stride(0) == 1:
        return tensor
    dense = tensor.contiguous()
    return dense.as_strided((dense.numel(),), (1,))  # one element may claim any stride


def put_back(flat: torch.Tensor, tensor: torch.Tensor) -> None:
    """Write a flattened tensor's elements back where flattening had to copy."""
    if flat is not tensor and flat.data_ptr() != tensor.data_ptr():
        tensor.copy_(flat.view(tensor.shape))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor in a row: a view where possible, else a copy."""
    return flatten(tensor).view(torch.uint8)


def refuse_overlaps(tensors: Sequence) -> None:
    """Raise ValueError where a tensor that is to be written to has several elements in one place.

    Torch would refuse only when the numbers are there, and then the ranks are out of step.
    """
    for tensor in tensors:
        if isinstance(tensor, (list, tuple)):
            refuse_overlaps(tensor)
        elif tensor.layout is torch.strided and 0 in tensor.stride():
            steps = zip(tensor.shape, tensor.stride(), strict=True)
            if any(size > 1 and step == 0 for size, step in steps):
                raise ValueError(
                    "a tensor that is written to must have a place for each element; got an "
                    f"expanded one, {spell(tensor)}, of strides {tensor.stride()}: pass its clone()"
                )


def innermost(tensors: Sequence) -> Sequence:
    """Return the only list in a list of lists (torch hands over one a device), or the list."""
    return tensors[0] if tensors and isinstance(tensors[0], (list, tuple)) else tensors


def spell(tensor: torch.Tensor) -> str:
    """Return a tensor's shape and dtype in words, such as ``"(2, 3) of torch.float32"``."""
    return f"{tuple(tensor.shape)} of {tensor.dtype}"


def checked(
    tensors: torch.Tensor | Sequence[torch.Tensor], count: int | None = 1
) -> list[torch.Tensor]:
    """Return ``count`` tensors (None: any number) without their autograd history.

    ValueError if there are more or fewer, or one is quantized, or not in this machine's memory.
    """
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
    if count is not None and len(tensors) != count:
        raise ValueError(f"a call expects {count} tensor per rank; got {len(tensors)}")
    for tensor in tensors:
        if not tensor.is_cpu:
            raise ValueError(
                f"the backend mpi4py expects tensors in the memory of the CPU; got one on "
                f"{tensor.device}. Use init_process_group('nccl') for CUDA tensors, or send "
                "tensor.cpu()"
            )
        if tensor.is_quantized:
            raise ValueError(
                f"a quantized tensor's scale would not travel; got {spell(tensor)}: pass "
                "tensor.int_repr() or tensor.dequantize()"
            )
    return [tensor.detach() if tensor.requires_grad else tensor for tensor in tensors]


def options_of(kind: type, how: Any, op: dist.ReduceOp | None = None) -> Any:
    """Return the options of a call: torch's newer calls bring them, its older ones a root or op."""
    if isinstance(how, kind):
        return how
    made = kind()
    if isinstance(how, int):
        made.rootRank, how = how, op
    if how is not None and hasattr(made, "reduceOp"):
        made.reduceOp = how
    made.asyncOp = False
    return made
