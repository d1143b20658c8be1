"""The allreduce of sparse (COO) tensors, whose ranks hold different numbers of elements."""

from __future__ import annotations

import torch

from helpers.torch_mpi.transport import Transport


def all_reduce_sparse(transport: Transport, tensor: torch.Tensor, deadline: float) -> None:
    """Replace a sparse tensor by its sum over ranks; indices and values of all are gathered."""
    mine = tensor.detach().coalesce()
    counts = [torch.zeros(1, dtype=torch.int64) for _ in range(transport.size)]
    here = torch.tensor([mine._nnz()])
    transport.all_gather([c.view(torch.uint8) for c in counts], here.view(torch.uint8), deadline)
    numbers = [int(count) for count in counts]
    gathered = []
    for part in (mine.indices().t().contiguous(), mine.values().contiguous()):  # (nnz, ...)
        outputs = [part.new_empty((n, *part.shape[1:])) for n in numbers]
        flat = [output.reshape(-1).view(torch.uint8) for output in outputs]
        transport.all_gather(flat, part.reshape(-1).view(torch.uint8), deadline)
        gathered.append(torch.cat(outputs))  # (sum of all ranks' nnz, ...)
    indices, values = gathered
    total = torch.sparse_coo_tensor(indices.t(), values, tensor.shape).coalesce()
    with torch.no_grad():
        tensor.copy_(total)
