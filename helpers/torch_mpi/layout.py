"""Tensors and options as torch hands them over, brought into the form that a transport takes."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d


class Landing:
    """Byte views of tensors to receive into; those that are not contiguous are filled at exit."""

    def __init__(self, tensors: list[torch.Tensor]):
        self._tensors = tensors
        self._parts = [flatten(tensor) for tensor in tensors]

    def __enter__(self) -> list[torch.Tensor]:
        return [flat.view(torch.uint8) for flat in self._parts]

    def __exit__(self, kind, error, trace) -> None:
        if kind is None:
            for flat, tensor in zip(self._parts, self._tensors, strict=True):
                put_back(flat, tensor)


def flatten(tensor: torch.Tensor) -> torch.Tensor:
    """One-dimensional, of stride 1: a view where possible, else a copy."""
    if tensor.dim() == 1 and tensor.stride(0) == 1:
        return tensor
    dense = tensor.contiguous()
    return dense.as_strided((dense.numel(),), (1,))  # one element may claim any stride


def put_back(flat: torch.Tensor, tensor: torch.Tensor) -> None:
    """Write ``flat`` back where reshaping had to copy."""
    if flat is not tensor and flat.data_ptr() != tensor.data_ptr():
        tensor.copy_(flat.view(tensor.shape))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return flatten(tensor).view(torch.uint8)


def innermost(tensors):
    return tensors[0] if tensors and isinstance(tensors[0], (list, tuple)) else tensors


def spell(tensor: torch.Tensor) -> str:
    return f"{tuple(tensor.shape)} of {tensor.dtype}"


def checked(tensors, count: int | None = 1) -> list[torch.Tensor]:
    """The tensors without their autograd history; refuses those not in this machine's memory."""
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
    if count is not None and len(tensors) != count:
        raise ValueError(f"expected {count} tensor per rank, got {len(tensors)}")
    for tensor in tensors:
        if not tensor.is_cpu:
            raise ValueError(
                f"the backend mpi4py moves tensors in the memory of the CPU; got one on "
                f"{tensor.device}. Use init_process_group('nccl') for CUDA tensors, or send "
                "tensor.cpu()"
            )
    return [tensor.detach() if tensor.requires_grad else tensor for tensor in tensors]


def options_of(kind, opts, timeout=None):
    """Torch calls with an options object; its older signatures pass a reduce op, or nothing."""
    if isinstance(opts, kind):
        return opts
    made = kind()
    if opts is not None and hasattr(made, "reduceOp"):
        made.reduceOp = opts
    made.asyncOp = False
    if timeout is not None:
        made.timeout = timeout
    return made


def rooted(root, op, timeout):
    made = c10d.ReduceOptions()
    made.rootRank = root or 0
    made.reduceOp = op or dist.ReduceOp.SUM
    made.asyncOp = False
    if timeout is not None:
        made.timeout = timeout
    return made
