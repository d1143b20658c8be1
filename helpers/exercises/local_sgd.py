"""The checks of notebook 10: local SGD, drift, the outer step, which H at which link."""

from __future__ import annotations

from typing import NoReturn

from helpers.exercises.answers import several
from helpers.exercises.core import NotAttempted, call, close, counted, equal, exercise, wrong
from helpers.exercises.on_ranks import on_ranks


def _in_place(cluster, *given, after_answers=False, **settings) -> list:
    """As ``on_ranks``, for an answer that is to change its array and return nothing."""
    try:
        return on_ranks(cluster, *given, **settings)
    except NotAttempted:
        nothing = NotAttempted("on every rank it sent nothing and changed nothing")
        nothing.after_answers = after_answers
        raise nothing from None


# ------------------------------------------------------------------------------ local SGD


def _met(answer, period: int, steps: int, parts: int) -> list:
    """On every rank: the parameters after each step, and whether the answer called MPI there.

    A step moves them by something of the rank's own.
    With two parts, ranks of even and of odd number meet apart, on communicators of their own.
    """
    import numpy as np
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    comm = MPI.COMM_WORLD.Split(rank % parts, rank)
    values, path = np.full(4, 3.0, dtype=_type(parts)), []
    for step in range(steps):
        values -= (rank + 1) ** 2 * np.arange(1.0, 5.0)
        before = values.copy()
        answer(values, comm, step, period)
        if not np.array_equal(values, before):
            answer.attempted()
        path.append((values.tolist(), bool(answer.calls)))
    comm.Free()
    return path


def _type(parts: int) -> str:
    """Of the parameters: float32, as a network's are, where ranks meet in two parts."""
    return "float32" if parts == 2 else "float64"


@exercise(time_limit=60)
def meet(answer, *, cluster):
    """answer(values, comm, step, period): in place, the mean over the ranks after each H steps."""
    import numpy as np

    for period, steps, parts in ((1, 3, 1), (3, 7, 1), (2, 3, 2)):
        later = period != 1
        found = _in_place(cluster, _met, answer, period, steps, parts, after_answers=later)
        at = np.full((cluster.n, 4), 3.0, dtype=_type(parts))
        moves = np.outer(np.arange(1, cluster.n + 1) ** 2, np.arange(1, 5)).astype(at.dtype)
        for step in range(steps):
            alone = at - moves
            at = alone.copy()
            for part in range(parts if (step + 1) % period == 0 else 0):
                at[part::parts] = at[part::parts].mean(0)
            for rank, path in enumerate(found):
                among = "" if parts == 1 else f" (comm has {len(at[rank % parts :: parts])} ranks)"
                made = counted(step + 1, "step")
                what = f"H = {period}: rank {rank}'s parameters after {made}{among}"
                (got, called), meets = path[step], (step + 1) % period == 0
                if meets and got == alone[rank].tolist() and not np.allclose(got, at[rank]):
                    if called:
                        wrong(
                            f"{what} are unchanged, though it calls MPI: every rank's `values` "
                            "must hold the mean (assigning to a parameter's name only binds the "
                            "name to another array)"
                        )
                    wrong(f"{what} are unchanged: called with step = {step}, it sends nothing")
                if not meets and got != alone[rank].tolist():
                    wrong(f"{what} are changed: called with step = {step}, it should do nothing")
                close(got, at[rank].tolist(), what, rtol=1e-6)


# ------------------------------------------------------------------------------------ drift


@exercise
def consensus_distance(answer):
    """answer(values) -> the mean squared distance of replicas from their mean, (R, P) given."""
    import numpy as np

    from helpers.data_parallel.theory.drift import consensus

    rng = np.random.default_rng(3)
    for shape in ((4, 5), (3, 7), (1, 4), (2, 1)):
        values = rng.normal(size=shape) + 3.0
        what = f"{counted(shape[0], 'replica')} of {counted(shape[1], 'parameter')}: Ξ"
        got, want = call(answer, values.copy()), float(consensus(values))
        if shape == (4, 5):
            for factor, says in (
                (1 / 5, "it is divided by the number of parameters, too"),
                (4, "it is a sum over the replicas"),
                (4 / 5, "it is a sum over the replicas and a mean over the parameters"),
            ):
                if _near(got, want * factor):
                    wrong(f"{what}: {says}")
        close(got, want, what, rtol=1e-6)


# ------------------------------------------------------------------------------------ DiLoCo


def _near(got: object, want: object) -> bool:
    import numpy as np

    try:
        return np.shape(got) == np.shape(want) and np.allclose(np.asarray(got, float), want)
    except (TypeError, ValueError):
        return False


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
        new = kept[0] - rate * (moved + momentum * v)
        what = f"η = {rate}, μ = {momentum}"
        if _near(returned[0], v) and _near(returned[1], new):
            wrong(f"{what}: both arrays are right, but in the other order")
        if _near(returned[1], momentum * kept[2] - moved):
            wrong(f"{what}: the velocity is right for a Δ of the other sign")
        close(returned[1], v, f"{what}: the velocity")
        close(returned[0], new, f"{what}: the anchor")


# ---------------------------------------------------------------------------- which H at which link


@exercise
def best_period(answer):
    """answer(needed, compute, average) -> the H with the least predicted seconds."""
    needed = {1: 88, 2: 104, 4: 136, 8: 200}
    cases = [(needed, 0.010, average) for average in (0.1285, 0.0131, 0.0016, 0.03)]
    cases += [({1: 50, 3: 60, 20: None}, 1.0, 0.5), ({5: 10, 7: 10}, 0.1, 0.0001)]
    cases += [({1: 50, 2: None, 4: 30}, 1.0, 1.0), ({1: 20, 2: 40, 4: 10}, 1.0, 0.1)]
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

LINK, PACE = 10e6, 10e-3  # bit/s of each rank's link; seconds of a step's arithmetic
TARGET, WANTED, MOST = 0.5, 2.0, 200  # test loss; seconds to it, at most; steps that are made
EVERY = 4  # steps from one look at the loss to the next
reached: dict = {}  # steps and seconds to the loss, of the answer that passed last


def theirs(answer):
    """Make ``answer(values, comm, made, state)`` a scheme: called before a step, and after each."""
    from helpers.data_parallel import Scheme

    class Theirs(Scheme):
        def begin(self, replica) -> None:
            super().begin(replica)
            self.state: dict = {}
            self.after_step(replica, -1)

        def after_step(self, replica, step: int) -> None:
            answer(replica.flat.values.numpy(), self.comm, step + 1, self.state)

    return Theirs


def _ready() -> None:
    """On every rank: load torch and the digits, which is not the answer's time."""
    from helpers.data_parallel.schemes.local import LocalSGD
    from helpers.data_parallel.tasks import perceptron

    perceptron.train(lambda comm: LocalSGD(comm, 1), steps=1)


def _trained(answer):
    """On every rank: one training, data sorted by class; its run, what each call sent.

    And how many calls changed the parameters.
    """
    import numpy as np

    from helpers.data_parallel.tasks import perceptron
    from helpers.tracing.activity import BYTES, KIND, NAME

    sent, changes = [], 0

    def watched(values, comm, made, state):
        nonlocal changes
        before = values.copy()
        answer(values, comm, made, state)
        changed = not np.array_equal(values, before)
        changes += changed
        if state or changed:
            answer.attempted()
        sent.append([(call[NAME].lower(), call[KIND], call[BYTES]) for call in answer.calls])

    run = perceptron.train(theirs(watched), steps=MOST, sorted_share=1.0, follow=EVERY)
    return run, sent, changes


def link_seconds(calls, ranks: int) -> float:
    """Predict what a rank's MPI calls cost on the slow link: (name, kind, bytes) of each.

    An allreduce is a ring, and any other collective sends what it is given to each other rank.
    """
    from helpers.cluster import Network
    from helpers.data_parallel.theory.time_model import link_time
    from helpers.tracing.activity import COLLECTIVE, EXCHANGE, SEND

    payload, found = Network(ranks, rate=LINK).payload, 0.0
    assert payload is not None
    for name, kind, nbytes in calls:
        if kind == COLLECTIVE and "allreduce" in name:
            found += link_time(max(nbytes, 0) / 4, ranks, payload)
        elif kind in (COLLECTIVE, SEND, EXCHANGE):
            others = ranks - 1 if kind == COLLECTIVE else 1
            found += others * (60e-6 + max(nbytes, 0) / payload)
    return found


def _never_there(runs, sends, changes) -> NoReturn:
    """Say what is seen of a training that never had the loss."""
    from helpers.data_parallel.tasks import perceptron
    from helpers.data_parallel.theory.drift import middle

    never = f"within {MOST} steps the loss did not come down to {TARGET}"
    if not any(changes):
        if any(map(any, sends)):
            wrong(f"{never}: it sends, but no call changes the numbers in `values`")
        wrong(f"{never}: it sends nothing, and no call changes `values`")
    steps, values = middle([run.path for run in runs])
    first, last = (perceptron.judge(values[k])[0] for k in (0, -1))
    if not last <= first:
        wrong(
            f"{never}, but grew from {first:.1f} to {last:.3g}: where do `values` stand after "
            "the first meeting, beside the replicas' mean?"
        )
    wrong(f"{never}; after {steps[-1]} steps it is {last:.2f}")


@exercise(time_limit=240)
def slow_link(answer, *, cluster):
    """answer(values, comm, made, state): reaches the loss in 2 s on links of 10 Mbit/s."""
    from helpers.data_parallel.tasks import perceptron

    cluster.run(_ready, timeout=120)
    replies = _in_place(cluster, _trained, answer, limit=60.0)
    runs, sends, changes = zip(*replies, strict=True)
    steps = perceptron.steps_to(list(runs), TARGET)
    if steps is None:
        _never_there(runs, sends, changes)
    costs = [[link_seconds(calls, cluster.n) for calls in sent[: steps + 1]] for sent in sends]
    met = sum(any(step) for step in zip(*costs, strict=True))
    spent = sum(max(step) for step in zip(*costs, strict=True))
    if (total := steps * PACE + spent) > WANTED:
        wrong(
            f"it needs {steps} steps and sends after {met} of them: {steps * PACE:.2f} s of "
            f"arithmetic and {spent:.2f} s of messages. {total:.2f} s are more than {WANTED:g}"
        )
    reached.update(steps=steps, seconds=total)
