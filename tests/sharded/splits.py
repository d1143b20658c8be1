"""Matrices, sequences and experts on ranks, each beside one process that does all."""

from __future__ import annotations

import torch
from torch.nn import functional

from helpers.models.transformer import loss, transformer
from helpers.sharded.arrays import cut
from helpers.sharded.experts import Experts
from helpers.sharded.ring_attention import ring_attention
from helpers.sharded.tensor_parallel import Split, tensor_transformer, vocabulary_loss
from helpers.tracing import gather, record
from tests.sharded.ranks import SMALL, begin, messages_sent, tokens


def close(ours, theirs, atol=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


def counted(work):
    """Do some work with a traced communicator; return messages and bytes that each rank sent."""
    comm, _, _ = begin()
    with record(comm) as traced:
        work(traced)
    trace = gather(traced)
    if trace is None:
        return None
    assert not trace.unmatched_sends
    return set(messages_sent(trace).values()), set(trace.bytes_sent().values())


def tensor(sequence: bool):
    """Loss and gradients of the transformer cut over all ranks."""
    _, rank, size = begin()
    whole = transformer(SMALL, seed=1, dtype=torch.float64)
    x, y = tokens(2)
    expected = loss(whole(x), y)
    expected.backward()

    def work(traced):
        part = tensor_transformer(SMALL, Split(traced, sequence), seed=1, dtype=torch.float64)
        value = vocabulary_loss(part(x), y, traced)
        value.backward()
        close(value, expected)
        for name, p in whole.named_parameters():
            close(part.get_parameter(name).grad, cut(name, p.grad, size, rank))

    return counted(work)


def context():
    """Ring attention forwards and backwards, at two sizes."""
    _, rank, size = begin()
    torch.manual_seed(7)
    q, k, v, weight = (torch.randn(2, 3, 24, 5, dtype=torch.float64) for _ in range(4))
    for part in (q, k, v):
        part.requires_grad_()
    expected = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    (expected * weight).sum().backward()
    mine = slice(rank * 24 // size, (rank + 1) * 24 // size)

    def work(traced):
        parts = [x.detach()[:, :, mine].clone().requires_grad_() for x in (q, k, v)]
        out = ring_attention(*parts, traced)
        close(out, expected[:, :, mine])
        (out * weight[:, :, mine]).sum().backward()
        for part, x in zip(parts, (q, k, v), strict=True):
            close(part.grad, x.grad[:, :, mine])

    return counted(work)


def unequal_lengths():
    """Every rank says so; some waited for ever."""
    comm, rank, _ = begin()
    x = torch.zeros(1, 3 if rank == 1 else 2, 4)
    try:
        ring_attention(x, x, x, comm)
    except ValueError as error:
        return str(error)


def experts(choices: int, factor: float):
    """Experts on all ranks against all experts here, each rank's tokens alone in their queue."""
    from mpi4py import MPI

    comm, rank, size = begin()
    settings = {"width": 6, "hidden": 8, "experts": 24, "seed": 5}
    settings |= {"choices": choices, "factor": factor}
    torch.manual_seed(11)
    x = torch.randn(size, 20, 6, dtype=torch.float64)
    weight = torch.randn_like(x)
    whole = Experts(**settings, comm=MPI.COMM_SELF, dtype=torch.float64)
    given = x.clone().requires_grad_()
    answers = [whole(part) for part in given]
    sum((a * w).sum() for a, w in zip(answers, weight, strict=True)).backward()

    def work(traced):
        part = Experts(**settings, comm=traced, dtype=torch.float64)
        mine = x[rank].clone().requires_grad_()
        out = part(mine)
        close(out, answers[rank])
        (out * weight[rank]).sum().backward()
        close(mine.grad, given.grad[rank])
        each = 24 // size
        for ours, theirs in zip(
            part.experts, whole.experts[rank * each : (rank + 1) * each], strict=True
        ):
            for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
                close(a.grad if a.grad is not None else torch.zeros_like(a), b.grad)
        total = part.gate.weight.grad.numpy().copy()
        comm.Allreduce(MPI.IN_PLACE, total)
        close(torch.from_numpy(total), whole.gate.weight.grad)

    return counted(work)


def every_split():
    """All of the above in one start of the ranks."""
    return {
        "tensor": tensor(False),
        "sequence": tensor(True),
        "context": context(),
        "top-1": experts(1, 0.5),  # some find no place
        "top-2": experts(2, 1.25),
    }
