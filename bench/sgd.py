"""Steps per second and bytes per step of each way to train on four ranks.

A step is one update of the parameters. The peer of every speed is the synchronous run with MPI's
allreduce, in the same job. Bytes are counted from traces of the MPI calls, and their peer is what
the formula predicts: a ring sends 2(R−1)/R·K of the K bytes of gradients, a server and its workers
2K for each gradient. MPI's own collectives keep to themselves what they send: for those ways the
count is what a rank hands over, K, and ``torch.distributed`` goes over MPI, not through the window.
"""

from __future__ import annotations

from bench.launch import on_ranks
from helpers.records import Row

SUITE = "sgd"
RANKS, BATCH, STEPS, ROUNDS = 4, 8, 60, 3
SHORT, LONG = 3, 9  # steps of the two traced runs: their difference has no beginning and no end
PEER = "synchronous, mpi"
REDUCTIONS = ("Allreduce", "Iallreduce")


def rows() -> list[Row]:
    """Steps and gradients per second of each scheme (the best of three turns), bytes per step."""
    return [Row(**line) for line in on_ranks(RANKS, _measure, timeout=900)]


def _schemes() -> dict:
    """Name → a function (steps, comm) that trains so many steps and returns the history."""
    from helpers.data_parallel.schemes import (
        DDP,
        Asynchronous,
        MPIAllreduce,
        PerTensor,
        Ring,
        Server,
    )
    from helpers.data_parallel.tasks import lenet

    schemes = {}
    for scheme in (Ring, MPIAllreduce, PerTensor, DDP, Server):
        schemes[scheme.name] = lambda steps, comm=None, scheme=scheme: lenet.train(
            scheme, comm, steps=steps, batch=BATCH
        )
    schemes[Asynchronous.name] = lambda steps, comm=None: lenet.train(
        Asynchronous, comm, steps=steps * (RANKS - 1), batch=BATCH, momentum=0.0
    )
    return schemes


def _measure() -> list[dict]:
    from helpers.data_parallel.tasks import init_distributed

    init_distributed()
    rates: dict[str, tuple[float, float]] = {}
    for turn in range(ROUNDS + 1):
        for name, call in _schemes().items():
            history = call(STEPS)
            seconds = history.seconds[-1]
            rate = history.gradients / seconds, history.updates / seconds
            if turn:  # the first is a warm-up
                rates[name] = max(rates.get(name, (0.0, 0.0)), rate)
    counted = {name: _bytes_per_step(name, call) for name, call in _schemes().items()}
    return _lines(rates, counted, len(history.weights) * 4)


def _bytes_per_step(name: str, call) -> float:
    """Bytes of one step, all ranks together, from the traces of a short and a longer run."""
    totals, updates = [], []
    for steps in (SHORT, LONG):
        trace, history = _traced(call, steps)
        updates.append(history.updates)
        if trace is not None:
            collective = name.split(", ")[-1] in ("mpi", "torch", "ddp")
            totals.append(
                sum(event.bytes for event in trace.events if event.call in REDUCTIONS)
                if collective
                else sum(trace.bytes_sent().values())
            )
    return (totals[1] - totals[0]) / (updates[1] - updates[0]) if totals else 0.0


def _traced(call, steps: int):
    """Train with every MPI call recorded, torch.distributed's too; return (trace, history)."""
    import torch.distributed as dist
    from mpi4py import MPI

    from helpers import tracing
    from helpers.torch_mpi import Options

    dist.destroy_process_group()
    with tracing.record(MPI.COMM_WORLD) as comm:
        tracing.install(comm.recorder)
        try:
            dist.init_process_group("mpi4py", init_method="mpi://", pg_options=Options("network"))
            history = call(steps, comm)
            dist.destroy_process_group()
        finally:
            tracing.uninstall()
    dist.init_process_group("mpi4py", init_method="mpi://")
    return tracing.gather(comm), history


def _lines(rates: dict, counted: dict, size: int) -> list[dict]:
    """The rows; ``size`` is K, the bytes of all gradients."""
    common = {"ranks": RANKS, "batch": BATCH}
    speed = {"unit": "1/s", "peer": PEER, "parameters": common}
    lines = [
        {"name": f"{name}: {what}", "value": value, "peer_value": peer} | speed
        for name, rate in rates.items()
        for what, value, peer in zip(("gradients", "steps"), rate, rates[PEER], strict=True)
    ]
    ring = "sent", "2(R−1)/R·K from each rank", 2 * (RANKS - 1)
    server = "sent", "2K for each worker", 2 * (RANKS - 1)
    predicted = {"ours": ring, "server": server, "asynchronous": ("sent", "2K", 2)}
    for name, nbytes in counted.items():
        handed = "handed over", "K from each rank", RANKS
        how, peer, count = predicted.get(name.split(", ")[-1], handed)
        line = {"name": f"{name}: bytes {how} in one step, all ranks", "value": nbytes}
        line |= {"unit": "B", "peer": peer, "peer_value": count * size, "parameters": common}
        lines.append(line)
    return lines
