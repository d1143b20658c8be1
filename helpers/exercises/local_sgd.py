"""The checks of notebook 10: local SGD, drift, the outer step, gossip, which H at which link."""

from __future__ import annotations

import math
from numbers import Integral

from helpers.exercises.core import call, close, equal, exercise, on_ranks, wrong
from helpers.exercises.values import several

# ------------------------------------------------------------------------------ local SGD


def _met(answer, period: int, steps: int, parts: int) -> list:
    """On every rank: the parameters after each step, moved by something of the rank's own.

    With two parts, ranks of even and of odd number meet apart, on communicators of their own.
    """
    import numpy as np
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    comm = MPI.COMM_WORLD.Split(rank % parts, rank)
    values, path = np.full(4, 3.0), []
    for step in range(steps):
        values -= (rank + 1) ** 2 * np.arange(1.0, 5.0)
        answer(values, comm, step, period)
        path.append(values.tolist())
    comm.Free()
    return path


@exercise(time_limit=60)
def meet(answer, *, cluster):
    """answer(values, comm, step, period): in place, the mean over the ranks after each H steps."""
    import numpy as np

    for period, steps, parts in ((1, 2, 1), (3, 7, 1), (2, 3, 2)):
        found = on_ranks(cluster, _met, answer, period, steps, parts)
        moves = (np.arange(1, cluster.n + 1) ** 2)[:, None] * np.arange(1.0, 5.0)
        at = np.full((cluster.n, 4), 3.0)
        for step in range(steps):
            at = at - moves
            for part in range(parts if (step + 1) % period == 0 else 0):
                at[part::parts] = at[part::parts].mean(0)
            for rank, path in enumerate(found):
                among = "" if parts == 1 else f" (comm has {len(at[rank % parts :: parts])} ranks)"
                what = f"H = {period}: rank {rank}'s parameters after {step + 1} steps{among}"
                close(path[step], at[rank].tolist(), what, rtol=1e-6)


# --------------------------------------------------------------------------------- speed-ups


@exercise
def predicted_speed_up(answer):
    """answer(workers, compute, average, every) -> the speed-up over one worker."""
    for workers, compute, average, every in (
        (8, 10.0, 1.4, 1), (4, 10.0, 1.4, 1), (4, 3.0, 6.0, 2), (2, 5.0, 5.0, 10),
    ):  # fmt: skip
        want = workers * compute / (compute + average / every)
        what = f"{workers} workers, {compute} ms a step, {average} ms an average, every {every}"
        close(call(answer, workers, compute, average, every), want, what, rtol=1e-6)


# ------------------------------------------------------------------------------------ drift


@exercise
def consensus_distance(answer):
    """answer(values) -> the mean squared distance of replicas from their mean, (R, P) given."""
    import numpy as np

    from helpers.data_parallel.drift import consensus

    rng = np.random.default_rng(3)
    for shape in ((4, 5), (3, 7), (1, 4), (2, 1)):
        values = rng.normal(size=shape) + 3.0
        what = f"{shape[0]} replicas of {shape[1]} parameters: Ξ"
        close(call(answer, values.copy()), float(consensus(values)), what, rtol=1e-6)


# ------------------------------------------------------------------------------------ DiLoCo


@exercise
def outer_step(answer):
    """answer(anchor, mean, velocity, rate, momentum) -> (new anchor, new velocity)."""
    import numpy as np

    rng = np.random.default_rng(4)
    for rate, momentum in ((1.0, 0.0), (0.7, 0.9), (0.4, 0.5)):
        anchor, mean, velocity = rng.normal(size=(3, 6))
        kept = anchor.copy(), mean.copy(), velocity.copy()
        returned = call(answer, anchor, mean, velocity, rate, momentum)
        expected = "expected two arrays, the new anchor and the new velocity"
        returned = several(returned, 2, expected)
        moved = kept[0] - kept[1]
        v = momentum * kept[2] + moved
        what = f"η = {rate}, μ = {momentum}"
        close(returned[1], v, f"{what}: the velocity")
        close(returned[0], kept[0] - rate * (moved + momentum * v), f"{what}: the anchor")


# ------------------------------------------------------------------------------------ gossip


@exercise
def mixings_until(answer):
    """answer(W, part) -> how many mixings until the slowest difference is below ``part``."""
    import numpy as np

    from helpers.data_parallel.schemes.gossip import mixing, spectral_gap

    cases = [(mixing(n, w), part) for n, w, part in ((4, 1 / 3, 0.01), (8, 1 / 3, 0.01),
                                                     (16, 0.25, 0.1), (5, 0.45, 0.05))]  # fmt: skip
    cases.append((np.full((3, 3), 1 / 3), 0.01))
    for W, part in cases:
        left = 1 - spectral_gap(W)
        want = 1 if left < 1e-9 else math.floor(math.log(part) / math.log(left)) + 1
        equal(call(answer, W.copy(), part), want, f"{len(W)} replicas, down to {part:g}: mixings")


# ---------------------------------------------------------------------------- which H at which link


@exercise
def best_period(answer):
    """answer(needed, compute, average) -> the H with the least predicted seconds."""
    needed = {1: 88, 2: 104, 4: 136, 8: 200}
    cases = [(needed, 0.010, average) for average in (0.1285, 0.0131, 0.0016, 0.03)]
    cases += [({1: 50, 3: 60, 20: None}, 1.0, 0.5), ({5: 10, 7: 10}, 0.1, 0.0001)]
    for given, compute, average in cases:
        seconds = {
            period: steps * (compute + average / period)
            for period, steps in given.items()
            if steps is not None
        }
        want = min(seconds, key=seconds.__getitem__)
        mine, what = dict(given), f"steps {given}, {compute} s a step, {average} s an average"
        equal(call(answer, mine, compute, average), want, f"{what}: the best H")
        if mine != given:
            wrong(f"{what}: it changes `needed`, which is asked for more links; left is {mine}")


# -------------------------------------------------------------------------------- the project

LINK = 100e6  # bit/s
PACE, TARGET, MOST = 10e-3, 0.5, 136  # seconds, test loss, steps
LEFT_OUT = {4: {3: 112}}  # by ranks: steps of the constant H that the notebook's table leaves out


def seconds(steps: int, averages: int, ranks: int) -> float:
    """Predict seconds at 100 Mbit/s, each step 10 ms and each average what the ring needs.

    Parameters
    ----------
    steps, averages, ranks : int
        How many.

    Returns
    -------
    float
        Seconds.
    """
    from helpers.cluster import Network
    from helpers.data_parallel.local_runs import link_time

    payload = Network(ranks, rate=LINK).payload
    assert payload is not None
    return steps * PACE + averages * link_time(25_450, ranks, payload)


def planned(plan, cluster, limit: float = 60.0) -> tuple[int | None, int]:
    """Train by a schedule on the ranks, data sorted by class.

    Parameters
    ----------
    plan : callable
        ``plan(step)`` → H from there on.
    cluster : helpers.cluster.Cluster
        Real ranks.
    limit : float
        Seconds that the run may take.

    Returns
    -------
    tuple of int or None and int
        Steps to the loss (None: not within 136), and averages until then.
    """
    from helpers.data_parallel import local_runs

    cluster.run(_ready, timeout=120)
    runs = on_ranks(cluster, _planned, plan, limit=limit)
    steps = local_runs.steps_to(runs, TARGET)
    met, at = 0, 0
    while steps and 0 < (ahead := plan(at)) <= steps - at:
        at, met = at + ahead, met + 1
    return steps, met


def _ready() -> None:
    """On every rank: load torch and the digits, which is not the answer's time."""
    from helpers.data_parallel import local_runs
    from helpers.data_parallel.schemes.local import LocalSGD

    local_runs.digits(lambda comm: LocalSGD(comm, 1), steps=1)


def _planned(plan):
    """On every rank: one training by the reader's schedule, data sorted by class."""
    from helpers.data_parallel import local_runs
    from helpers.data_parallel.schemes.local import LocalSGD, patient_average

    def made(comm):
        return LocalSGD(comm, plan, average=patient_average)

    return local_runs.digits(made, steps=MOST, sorted_share=1.0, follow=8)


@exercise(time_limit=240)
def schedule(answer, *, cluster, needed):
    """answer(step) -> H, which reaches the loss sooner at 100 Mbit/s than each constant H."""
    for step in range(MOST):
        ahead = call(answer, step)
        if isinstance(ahead, bool) or not isinstance(ahead, Integral) or ahead < 1:
            wrong(f"plan({step}) is {ahead!r}; expected a whole number of steps, at least 1")
    if len(always := {int(answer(step)) for step in range(MOST)}) == 1:
        wrong(
            f"plan returns {always.pop()} for every step, a constant H: your schedule is to beat it"
        )
    best = min(seconds(steps, steps // period, cluster.n)
               for period, steps in (needed | LEFT_OUT.get(cluster.n, {})).items()
               if steps is not None)  # fmt: skip
    steps, met = planned(answer, cluster)
    if steps is None:
        wrong(f"within {MOST} steps the loss did not come down to {TARGET}")
    if (mine := seconds(steps, met, cluster.n)) >= best:
        wrong(
            f"{steps} steps with {met} averages take {mine:.2f} s at 100 Mbit/s; "
            f"the best constant H takes {best:.2f} s"
        )
