"""A step of our pipeline beside `torch.distributed.pipelining` on the course's backend.

    python -m bench pipeline

Both run the same transformer, cut alike, on the same ranks and micro-batches, in turns, inside one
job; that their losses and gradients agree is checked before anything is timed.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from bench.launch import on_ranks
from helpers.records import Row

SUITE = "pipeline"
RANKS = (2, 4)
MICRO = 8
SIZE = 4  # sequences in a micro-batch
ROUNDS = 24  # turns of each, in changing order; the median is reported


def rows() -> list[Row]:
    """Measure on 2 and 4 ranks; times in milliseconds."""
    return [
        Row(**line)
        for ranks in RANKS
        for line in on_ranks(ranks, "bench.pipeline", "--rank", timeout=600)
    ]


def _rank_main() -> None:
    import torch
    import torch.distributed as dist
    from mpi4py import MPI
    from torch.distributed import pipelining

    import helpers.torch_mpi  # noqa: F401 (registers the backend)
    from helpers.models.transformer import Config, loss
    from helpers.pipeline import families, runs
    from helpers.pipeline.runner import Pipeline

    torch.set_num_threads(1)
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    dist.init_process_group("mpi4py", init_method="mpi://")
    config = Config(context=64, layers=6, heads=4, width=128)
    draws = torch.Generator().manual_seed(0)
    both = torch.randint(96, (2, MICRO * SIZE, config.context), generator=draws)
    x, y = both[0], both[1]
    inputs, targets = list(x.chunk(MICRO)), list(y.chunk(MICRO))
    theirs_of = {
        "GPipe": pipelining.ScheduleGPipe,
        "1F1B": pipelining.Schedule1F1B,
        "interleaved": pipelining.ScheduleInterleaved1F1B,
    }
    lines = []
    for name, kind in theirs_of.items():
        schedule = families.FAMILIES[name](size, MICRO)
        mine, _ = runs.modules_of(schedule, rank, config)
        copies, _ = runs.modules_of(schedule, rank, config)
        ours = Pipeline(MPI.COMM_WORLD, schedule, mine, loss)
        stages = [
            pipelining.PipelineStage(
                module, schedule.stage(rank, chunk), schedule.stages, torch.device("cpu")
            )
            for chunk, module in enumerate(copies)
        ]
        many = schedule.chunks > 1
        peer = kind(stages if many else stages[0], n_microbatches=MICRO, loss_fn=loss)

        def step(peer=peer) -> list:
            losses: list = []
            arguments = (x,) if rank == 0 else ()
            if rank == size - 1:
                peer.step(*arguments, target=y, losses=losses)
            else:
                peer.step(*arguments)
            return losses

        def our_step(ours=ours) -> list:
            return ours.step(inputs, targets).losses

        _agree(our_step(), step(), mine, copies)
        for modules in (mine, copies):
            for module in modules:
                module.zero_grad()
        took = _in_turns({"ours": our_step, "theirs": step}, comm)
        ratios = [a / b for a, b in zip(took["ours"], took["theirs"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        lines.append(
            {
                "name": f"a step, {name}",
                "value": 1e3 * statistics.median(took["ours"]),
                "unit": "ms",
                "peer": "torch.distributed.pipelining",
                "peer_value": 1e3 * statistics.median(took["theirs"]),
                "parameters": {
                    "ranks": size,
                    "micro": MICRO,
                    "width": config.width,
                    "rounds": ROUNDS,
                    "ratio of a round, quartiles": [round(q, 3) for q in (low, middle, high)],
                    "best, ms": [round(1e3 * min(took[side]), 2) for side in ("ours", "theirs")],
                },
            }
        )
    if rank == 0:
        print(json.dumps(lines))
    dist.barrier()
    dist.destroy_process_group()


def _agree(ours: list, theirs: list, mine: list, copies: list) -> None:
    """Raise if losses or gradients differ by more than float32's rounding."""
    import torch

    if theirs:
        found = torch.tensor([float(value) for value in theirs])
        torch.testing.assert_close(torch.tensor(ours), found, atol=1e-5, rtol=1e-5)
    for a, b in zip(mine, copies, strict=True):
        for p, q in zip(a.parameters(), b.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, atol=1e-5, rtol=1e-3)


def _in_turns(calls: dict, comm) -> dict[str, list[float]]:
    """Seconds of each call, the slowest rank's, in every round; who goes first changes."""
    from mpi4py import MPI

    samples: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS + 2):
        for name in list(calls)[:: 1 if turn % 2 else -1]:
            comm.Barrier()
            began = time.perf_counter()
            calls[name]()
            took = comm.allreduce(time.perf_counter() - began, MPI.MAX)
            if turn > 1:  # the first two warm up
                samples[name].append(took)
    return samples


if __name__ == "__main__" and "--rank" in sys.argv:
    _rank_main()
