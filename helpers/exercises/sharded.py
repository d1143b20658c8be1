"""The checks of notebook 13: bytes, a sharded step, f and g, softmax in pieces, places."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from helpers.exercises.answers import several
from helpers.exercises.core import NotAttempted, WrongAnswer, call, close, exercise, wrong
from helpers.exercises.groups import in_case, more_ranks
from helpers.exercises.on_ranks import on_ranks

if TYPE_CHECKING:
    import numpy as np

WHOLES = {"reduce", "Reduce", "gather", "allgather"}  # of a whole array, never right


@exercise
def bytes_of_a_stage(answer, optimizer=12):
    """answer(stage, ranks) -> bytes for each parameter on one rank, mixed precision and Adam."""
    for stage, ranks in ((0, 4), (1, 4), (2, 4), (3, 4), (1, 1), (2, 3), (3, 64), (1, 10)):
        shards = [2, 2, optimizer]
        for part, first in ((2, 1), (1, 2), (0, 3)):
            if stage >= first:
                shards[part] /= ranks
        got = call(answer, stage, ranks)
        on = f"stage {stage} on {ranks} rank{'s' * (ranks != 1)}"
        close(got, sum(shards), f"{on}: bytes for each parameter")


def _zero(answer, sizes: tuple) -> list:
    import numpy as np
    from mpi4py import MPI

    from helpers.tracing.activity import BYTES, NAME

    comm, found = MPI.COMM_WORLD, []
    rank, n = comm.Get_rank(), comm.Get_size()
    for size, rate in sizes:
        values = np.arange(1.0, n * size + 1)
        if size == sizes[-1][0]:  # so that nobody can move another's shard
            mine = slice(rank * size, rank * size + size)
            values = np.where(np.isin(np.arange(n * size), np.arange(n * size)[mine]), values, 1e6)
        gradient = (rank + 1.0) ** 2 * np.cos(np.arange(n * size))
        returned = answer(values, gradient, comm, rate)

        calls = [(call[NAME], call[BYTES]) for call in answer.calls]
        found.append((None if returned is None else np.array(returned, float).tolist(), calls))
    return found


@exercise(time_limit=60)
def zero_step(answer, *, cluster):
    """answer(values, gradient, comm, rate) -> values after a step, each rank moving its shard."""
    import numpy as np

    sizes = ((3, 0.1), (5, -0.5), (250, 0.2))

    def compare(replies: list, n: int) -> None:
        for rank, found in enumerate(replies):
            for (size, rate), (got, calls) in zip(sizes, found, strict=True):
                if size == sizes[-1][0]:  # so long that a pickle's frame does not count
                    _in_shards(calls, 8 * n * size)
                mean = sum((r + 1.0) ** 2 for r in range(n)) / n * np.cos(np.arange(n * size))
                want = np.arange(1.0, n * size + 1) - rate * mean
                if size == sizes[-1][0] and not _near(got, want):
                    wrong(
                        f"rank {rank} of {n}: where a rank has no other rank's parameters, its "
                        "result is another: it should move its own shard, and get the others moved"
                    )
                close(got, want, f"rank {rank} of {n}, {n * size} parameters, rate {rate}")

    compare(on_ranks(cluster, _zero, answer, sizes), cluster.n)
    with more_ranks(2, "torch") as two, in_case("on 2 ranks", first=False):
        if two:  # a number that nobody wrote down
            compare(on_ranks(two, _zero, answer, sizes), 2)


def _near(got: list, want: np.ndarray) -> bool:
    import numpy as np

    return len(got) == len(want) and np.allclose(got, want)


def _in_shards(calls: list, whole: int) -> None:
    """Refuse calls that bring the whole mean gradient, or all that it is made of, to one rank."""
    names = {name.lower().removeprefix("i") for name, _ in calls}
    if names <= {"allgather", "allgatherv"} and sum(size for _, size in calls) >= whole:
        wrong(
            "it gathers every rank's whole gradient on every rank, where each needs the mean of "
            "its own shard"
        )
    for name, size in calls:
        if name.lower().removeprefix("i") == "allreduce":
            wrong(
                f"it calls {name}, which brings the whole mean gradient to every rank: each needs "
                "the mean of its own shard"
            )
        if name in WHOLES and size >= whole:
            wrong(
                f"it hands all {whole // 8} numbers to {name}: some rank then has the whole, where "
                "each needs the mean of its own shard"
            )
    if sum(size for _, size in calls) > 2.2 * whole:
        wrong("it sends whole gradients round: each rank needs the mean of its own shard only")


@exercise
def conjugate_backward(f_backward, g_backward):
    """f_backward(gradient, add), g_backward(gradient, add): what each gives back."""
    import torch

    for seed, others in ((0, 3.0), (1, -0.5)):
        gradient = torch.randn(3, 2, generator=torch.Generator().manual_seed(seed)).double()
        for name, answer, want, count in (
            ("f", f_backward, gradient + others, 1),
            ("g", g_backward, gradient, 0),
        ):
            asked = []

            def add(x, asked=asked, others=others):
                asked.append(x)
                return x + others  # as if the other ranks had these

            given = gradient.clone()
            got = call(answer, given, add)
            what = f"the backward of {name}, whose forward is a {'copy' if count else 'sum'}"
            if len(asked) != count:
                times = {0: "never asks", 1: "asks"}.get(len(asked), f"asks {len(asked)} times")
                wrong(f"{what}: it {times} for a sum over ranks; think what each rank knows")
            close(got, want, what)
            if not given.equal(gradient):
                wrong(f"{what}: it changes the gradient that it is given; others may read it")


@exercise
def merge_pieces(answer):
    """answer(o1, l1, o2, l2) -> (o, l) of both pieces as one softmax."""
    import numpy as np

    rng = np.random.default_rng(0)
    apart = np.array([[900.0], [0.0], [-900.0], [5.0]])
    trials = ((0.0, 2), (800.0, 3), (-900.0, 1), (2.0, 3), (apart, 2))
    for case, (shift, length) in enumerate(trials):
        scores, v = rng.normal(size=(4, 5)) * 3 + shift, rng.normal(size=(5, 2))

        def piece(s, v):
            top = s.max(-1, keepdims=True)
            weight = np.exp(s - top)
            return weight @ v / weight.sum(-1, keepdims=True), top[:, 0] + np.log(weight.sum(-1))

        first, second = piece(scores[:, :length], v[:length]), piece(scores[:, length:], v[length:])
        near = " and ".join(f"{s:g}" for s in np.ravel(shift))
        what = f"two pieces, scores near {near}"
        given = [*map(np.copy, first), *map(np.copy, second)]
        if case == 2:  # as the first step of a ring begins: with nothing
            first = (np.zeros((4, 2)), np.full(4, -np.inf))
            second = piece(scores, v)
            given = [*map(np.copy, first), *map(np.copy, second)]
            what = "a piece of which nothing is seen (l = -inf), and another"
        if case == 3:  # two queries see only the second piece, one only the first
            for rows, piece_of, keys in (([0, 2], 0, slice(0, 3)), ([1], 2, slice(3, 5))):
                given[piece_of][rows], given[piece_of + 1][rows] = 0.0, -np.inf
                scores[rows, keys] = -np.inf
            what = "pieces of which some queries see nothing (l = -inf there)"
        with np.errstate(all="ignore"):
            got = call(answer, *given)
        got = several(got, 2, f"{what}: expected two things, the output and l")
        want = piece(scores, v)
        close(np.asarray(got[1], float), want[1], f"{what}: l")
        close(np.asarray(got[0], float), want[0], f"{what}: the output")


@exercise
def equal_bytes(answer):
    """answer(parameters, T, C, L) -> sequences at which tensor parallel sends as much as ZeRO 3."""
    for parameters, T, C, L in (
        (209_088, 32, 64, 4),
        (1_000_000, 10, 100, 1),
        (6_700_000_000, 2048, 4096, 32),
    ):
        got = call(answer, parameters, T, C, L)
        what = f"{parameters:,} parameters, T = {T}, C = {C}, {L} blocks: sequences"
        close(got, 3 * parameters / (2 * (4 * L + 2) * T * C), what)


@contextlib.contextmanager
def _refused(function: Callable) -> Iterator[None]:
    """Let a function refuse every call, by whatever name an answer has it."""

    def refused(*_, **__):
        raise NotImplementedError(
            "planner.plans is the search that you are to write yourself, by planner.predict"
        )

    kept = function.__code__
    function.__code__ = refused.__code__
    try:
        yield
    finally:
        function.__code__ = kept


# On each of these a search that leaves something out is slower: a batch, flop/s, α and β within a
# host and between hosts, each rank's host, and its bytes of memory. Best are 1 × 4 × 1, 4 × 2 × 1
# (by two micro-batches), 2 × 1 × 4 (across hosts), 4 × 1 × 2 (by 2.5 %), 2 × 4 × 1 (by two),
# 8 × 1 × 1, 3 × 1 × 2.
_MACHINES = {
    "two hosts with two fast ranks each": (16, 2e10, 2e-5, 1e-9, 1e-3, 1e-7, "0011", math.inf),
    "one host, 2 MB on each of 8 ranks": (8, 6.2e8, 4e-4, 3.2e-9, 0, 0, "00000000", 2e6),
    "four hosts with two ranks each": (8, 3.3e8, 5.6e-4, 6.4e-9, 1.4e-6, 9e-8, "00112233", 2.6e6),
    "one host, 2.8 MB on each of 8 ranks": (8, 2.4e8, 4.2e-5, 1.1e-8, 0, 0, "00000000", 2.8e6),
    "eight hosts, 1.8 MB on each rank": (8, 3.3e9, 6.4e-4, 6.7e-9, 4.1e-3, 6e-8, "01234567", 1.8e6),
    "two hosts with four ranks each": (8, 2.2e8, 4.6e-5, 8.4e-8, 9.9e-5, 4.8e-8, "00001111", 2.9e6),
    "three hosts with two ranks each": (24, 1.6e9, 1.2e-5, 5e-9, 2.2e-4, 3.5e-8, "001122", 8.5e6),
}


@contextlib.contextmanager
def _found(name: str, fit: int) -> Iterator[None]:
    """Say how many layouts fit where a search returns None, or stops at the None that it found."""
    try:
        yield
    except NotAttempted as error:
        if not error.after_answers:
            raise
        wrong(f"{name}: {_none(fit)}")
    except WrongAnswer as error:
        none = f"; {_none(fit)}" if "'NoneType' object" in str(error) else ""
        wrong(f"{name}: {error}{none}")


def _none(fit: int) -> WrongAnswer:
    return WrongAnswer(f"your search finds no layout here, but {fit} fit at ZeRO's stage 1")


@exercise
def place(answer):
    """answer(config, machine, batch) -> (Layout, micro-batches) that fits, near the fastest."""
    from helpers.collectives.cost import Link
    from helpers.models.transformer import Config
    from helpers.sharded import planner
    from helpers.sharded.mesh import Layout

    config = Config(context=32, layers=4, heads=4, width=64)
    for name, (batch, speed, *links, hosts, memory) in _MACHINES.items():
        inside, between = Link("", *links[:2]), Link("", *links[2:])
        machine = planner.Machine(speed, inside, between, tuple(map(int, hosts)), memory)
        every = [plan for plan, _ in planner.plans(config, machine, batch)]
        fit = len({plan.layout for plan in every if plan.layout.shard or plan.layout.data == 1})
        with _refused(planner.plans), _found(name, fit):
            got = call(answer, config, machine, batch)
            if isinstance(got, tuple | list) and got[:1] in ((None,), [None]):
                raise _none(fit)
        if not isinstance(got, tuple | list) or len(got) != 2 or not isinstance(got[0], Layout):
            wrong(f"{name}: expected a Layout and a number of micro-batches; got {got!r}")
        layout, micro = got
        if layout.shard > 1 or micro not in (1, 2, 4):
            wrong(f"{name}: expected ZeRO's stage 1, and 1, 2 or 4 micro-batches; got {got!r}")
        try:
            plan = planner.predict(config, layout, machine, batch, micro)
        except (TypeError, ValueError, ZeroDivisionError) as error:
            wrong(f"{name}: {error}")
        if plan.memory > machine.memory:
            more = 100 * (plan.memory / machine.memory - 1)
            wrong(f"{name}: {layout} needs {more:.0f} % more memory than a rank has")
        longer = 100 * (plan.seconds / every[0].seconds - 1)
        if longer > 2:
            wrong(
                f"{name}: {layout} with m = {micro} is predicted to take {longer:.1f} % longer "
                f"than the fastest that fits{'' if layout.shard else ', which uses ZeRO 1'}"
            )
