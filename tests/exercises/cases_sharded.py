"""Answers to the exercises of notebook 13."""

import math
from fractions import Fraction

import numpy as np

from helpers.sharded.planner import plans
from tests.exercises.case import Case


def by_stage(stage, ranks):
    return (
        2 / (ranks if stage > 2 else 1)
        + 2 / (ranks if stage > 1 else 1)
        + 12 / (ranks if stage else 1)
    )


def by_shards(values, gradient, comm, rate):
    n, size, whole = comm.size, len(values) // comm.size, values.copy()
    mean, mine = np.empty(size), slice(comm.rank * size, comm.rank * size + size)
    comm.Reduce_scatter_block(gradient, mean)
    whole[mine] -= rate * mean / n
    comm.Allgather(whole[mine].copy(), whole)
    return whole


def by_owners(values, gradient, comm, rate):
    n, rank = comm.size, comm.rank
    parts = [np.ascontiguousarray(part) for part in np.split(gradient, n)]
    mean = np.empty_like(parts[0])
    for root, part in enumerate(parts):
        comm.Reduce(part, mean if rank == root else None, root=root)
    shards = comm.allgather(np.split(values, n)[rank] - rate * mean / n)
    return np.concatenate(shards).tolist()


def in_place(values, gradient, comm, rate):
    from mpi4py import MPI

    size = len(values) // comm.size
    mean, mine = np.empty(size), comm.rank * size
    comm.Reduce_scatter_block(gradient, mean)
    values[mine : mine + size] -= rate * mean / comm.size
    comm.Allgather(MPI.IN_PLACE, values)
    return values


def everything(values, gradient, comm, rate):
    total = np.empty_like(gradient)
    comm.Allreduce(gradient, total)
    return values - rate * total / comm.size


def raises_on_one_rank(values, gradient, comm, rate):
    """The others' messages to that rank are left over: the next answer must not receive them."""
    if comm.rank == 1:
        raise KeyError("no such shard")
    return by_shards(values + 1, gradient - 1, comm, rate)


def by_a_root(values, gradient, comm, rate):
    size = len(values) // comm.size
    total, mean, whole = np.empty_like(gradient), np.empty(size), np.empty_like(values)
    comm.Reduce(gradient, total, root=0)
    comm.Scatter(total, mean, root=0)
    mine = comm.rank * size
    comm.Allgather(values[mine : mine + size] - rate * mean / comm.size, whole)
    return whole


def in_halves(values, gradient, comm, rate):
    total = np.concatenate([sum(comm.allgather(half)) for half in np.array_split(gradient, 2)])
    return moved_alone(values, total, comm, rate)


def by_broadcasts(values, gradient, comm, rate):
    total = np.zeros_like(gradient)
    for root in range(comm.size):
        one = gradient.copy()
        comm.Bcast(one, root)
        total += one
    return moved_alone(values, total, comm, rate)


def round_the_ring(values, gradient, comm, rate):
    total, one = gradient.copy(), gradient.copy()
    for _ in range(comm.size - 1):
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        comm.Sendrecv_replace(one, right, source=left)
        total += one
    return moved_alone(values, total, comm, rate)


def moved_alone(values, total, comm, rate):
    """Move one's own shard by the whole sum of gradients."""
    size, whole = len(values) // comm.size, np.empty_like(values)
    mine = slice(comm.rank * size, comm.rank * size + size)
    comm.Allgather(values[mine] - rate * total[mine] / comm.size, whole)
    return whole


def gathers_the_gradient(values, gradient, comm, rate):
    part, whole = np.empty(len(values) // comm.size), np.empty_like(values)
    comm.Reduce_scatter_block(gradient, part)
    comm.Allgather(part, whole)
    return values - rate * whole / comm.size


def merged(o1, l1, o2, l2):
    both = np.logaddexp(l1, l2)
    return np.exp(l1 - both)[:, None] * o1 + np.exp(l2 - both)[:, None] * o2, both


def merged_by(o1, l1, o2, l2, most=np.maximum):
    top = most(l1, l2)
    a, b = np.exp(l1 - top), np.exp(l2 - top)
    return (a[:, None] * o1 + b[:, None] * o2) / (a + b)[:, None], top + np.log(a + b)


def writes_into_o1(o1, l1, o2, l2):
    both = np.logaddexp(l1, l2)
    o1 *= np.exp(l1 - both)[:, None]
    o1 += np.exp(l2 - both)[:, None] * o2
    return o1, both


def looks_at_one_query(o1, l1, o2, l2):
    """Overlooks that one query may see a piece of which another sees nothing."""
    if l1[0] == -np.inf:
        return o2, l2
    return merged(o1, l1, o2, l2)


def planned_by_its_own_name(config, machine, batch):
    plan, micro = plans(config, machine, batch)[0]
    return plan.layout, micro


def searched(
    config,
    machine,
    batch,
    replicas=range(1, 9),
    stages=(1, 2, 4),
    pieces=(1, 2, 4),
    zero=(1,),
    gain=1.0,
    tensor=8,
):
    """``gain``: how many times as fast a layout must be to be taken; ``tensor``: the largest t."""
    from helpers.sharded import planner
    from helpers.sharded.mesh import Layout

    best, n = (math.inf, None, 0), len(machine.places)
    for data in replicas:
        for pipeline in stages:
            for shard in zero:
                for micro in pieces:
                    if n % (data * pipeline) or n // (data * pipeline) > tensor:
                        continue
                    layout = Layout(data, pipeline, n // (data * pipeline), shard)
                    try:
                        plan = planner.predict(config, layout, machine, batch, micro)
                    except ValueError:
                        continue
                    if plan.memory <= machine.memory and plan.seconds * gain < best[0]:
                        best = (plan.seconds, layout, micro)
    return best[1:]


def always(data, pipeline, tensor, micro=1):
    def answer(config, machine, batch):
        from helpers.sharded.mesh import Layout

        return Layout(data, pipeline, tensor), micro

    return answer


def of_eight(config, machine, batch):
    """Right on eight ranks only."""
    from dataclasses import replace

    return searched(config, replace(machine, places=(machine.places * 2)[:8]), batch)


def inside_a_host(config, machine, batch):
    return searched(config, machine, batch, tensor=machine.places.count(0))


def finds_none(*given):
    """By powers of two, of which six ranks have none that fits the model."""
    found = searched(*given, replicas=(1, 2, 4, 8))
    return found if found[0] else None


def stops_at_none(*given):
    layout, micro = searched(*given, replicas=(1, 2, 4, 8))
    return type(layout)(layout.data, layout.pipeline, layout.tensor, 1), micro


def fastest_without_memory(config, machine, batch):
    from dataclasses import replace

    return searched(config, replace(machine, memory=math.inf), batch)


CASES = {
    "bytes_of_a_stage": Case(
        right=by_stage,
        wrong=[
            lambda stage, ranks: 16 / ranks if stage else 16,
            lambda stage, ranks: by_stage(stage + 1, ranks),
        ],
    ),
    "zero_step": Case(
        right=by_shards,
        also=[by_owners, in_place],
        wrong=[
            *(gathers_the_gradient, everything, in_halves, by_broadcasts, round_the_ring),
            lambda v, g, comm, rate: by_shards(v, g, comm, rate * comm.size / 4),
            by_a_root,
            lambda v, g, comm, rate: v - rate * sum(comm.allgather(g)) / comm.size,
            raises_on_one_rank,
        ],
    ),
    "conjugate_backward": Case(
        right=(lambda gradient, add: add(gradient), lambda gradient, add: gradient),
        wrong=[
            (lambda gradient, add: gradient, lambda gradient, add: add(gradient)),
            (lambda gradient, add: add(gradient), lambda gradient, add: add(gradient)),
            (lambda gradient, add: gradient.copy_(add(gradient)), lambda gradient, add: gradient),
        ],
        also=[(lambda gradient, add: add(gradient.clone()), lambda gradient, add: 1 * gradient)],
    ),
    "merge_pieces": Case(
        right=merged,
        also=[merged_by, writes_into_o1],
        wrong=[
            lambda *pieces: merged_by(*pieces, most=lambda l1, l2: 0.0),  # overflows
            looks_at_one_query,
            lambda *pieces: merged_by(*pieces, most=lambda l1, l2: max(l1.max(), l2.max())),
        ],
    ),
    "equal_bytes": Case(
        right=lambda parameters, T, C, L: 1.5 * parameters / T / C / (4 * L + 2),
        also=[lambda parameters, T, C, L: Fraction(3 * parameters, (8 * L + 4) * T * C)],
        wrong=[
            lambda parameters, T, C, L: 1.5 * parameters / (4 * L * T * C),
            lambda parameters, T, C, L: parameters / (4 * L + 2) / T / C,
            lambda parameters, T, C, L: 1.5 * parameters / (2 * L + 2) / T / C,
        ],
    ),
    "place": Case(
        right=searched,
        also=[
            lambda *a: list(searched(*a)),
            lambda *a: searched(*a, zero=(0, 1)),  # finds 0 where both are as fast
        ],
        wrong=[
            planned_by_its_own_name,
            lambda *a: searched(*a, replicas=(2, 4, 8)),
            lambda *a: searched(*a, stages=(1,)),
            lambda *a: searched(*a, pieces=(2, 4)),
            lambda *a: searched(*a, pieces=(1, 4)),
            lambda *a: searched(*a, replicas=range(1, 8)),
            lambda *a: searched(*a, replicas=(1, 2, 4, 8)),
            lambda *a: searched(*a, gain=1.05),
            lambda *a: searched(*a, gain=1.05, replicas=range(8, 0, -1)),
            lambda *a: searched(*a, gain=1.05, stages=(4, 2, 1), pieces=(4, 2, 1)),
            inside_a_host,
            always(3, 1, 1),
            always(8, 1, 1, 0),
            fastest_without_memory,
            of_eight,
        ],
        told={
            "finds no layout here, but": finds_none,
            "; your search finds no layout here": stops_at_none,
            "which uses ZeRO 1": lambda *a: searched(*a, zero=(0,)),
        },
    ),
}
