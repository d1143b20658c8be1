"""What the test of the notebook's runs runs on its ranks."""

from __future__ import annotations

from helpers.machine import usable_cores


def _cores() -> bool:
    """Whether this rank may use every core again that it could before."""
    import os

    return not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) == usable_cores()


def all_of_it() -> dict:
    from mpi4py import MPI

    from helpers.data_parallel import link_runs, straggler_runs
    from helpers.data_parallel.schemes import Ring

    found: dict = {
        "backup": straggler_runs.backup(1, steps=6, least=0.002, mean=0.002),
        "beside": [straggler_runs.beside(b, steps=12, pace=5e-3, batch=4) for b in (0, 1)],
        "cores": _cores(),
        "bias": straggler_runs.by_class(1, steps=4),
        "cures": [
            straggler_runs.cure(kind, gradients=24)
            for kind in ("plain", "staleness", "constant", "elastic")
        ],
        "accuracy": link_runs.to_accuracy("QSGD, s = 7", 0.0, limit=30),
        "accuracy of a scheme": link_runs.to_accuracy(Ring, 0.0, limit=30)[0],
        "sent": {
            name: link_runs.sent(name, [(30, 20), (40,)])
            for name in ("float32", "top 0.01, feedback", "PowerSGD, r = 2")
        },
        "exchange": link_runs.exchange("PowerSGD, r = 2", 8, repeats=1),
        "hook": link_runs.exchange("torch, fp16", 8, repeats=1),
    }
    try:
        link_runs.scheme("zip", MPI.COMM_WORLD)
    except ValueError as error:
        found["refused"] = str(error)
    return found
