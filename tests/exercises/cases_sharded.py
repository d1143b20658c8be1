"""Answers to the exercises of notebook 13."""

import math

import numpy as np

from helpers.sharded import planner
from helpers.sharded.planner import plans
from tests.exercises.case import Case


def by_stage(stage, ranks):
    return (
        2 / (ranks if stage > 2 else 1)
        + 2 / (ranks if stage > 1 else 1)
        + 12 / (ranks if stage else 1)
    )


def in_float32(stage, ranks):
    return [16, 8 + 8 / ranks, 4 + 12 / ranks, 16 / ranks][stage]


def without_the_copy(stage, ranks):
    return [12, 4 + 8 / ranks, 2 + 10 / ranks, 12 / ranks][stage]


def by_shards(values, gradient, comm, rate):
    size = len(values) // comm.Get_size()
    mean, whole = np.empty(size), np.empty_like(values)
    comm.Reduce_scatter_block(gradient, mean)
    mine = comm.Get_rank() * size
    comm.Allgather(values[mine : mine + size] - rate * mean / comm.Get_size(), whole)
    return whole


def by_pickles(values, gradient, comm, rate):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = comm.alltoall(np.split(gradient, n))
    return np.concatenate(comm.allgather(np.split(values, n)[rank] - rate * sum(parts) / n))


def everything(values, gradient, comm, rate):
    total = np.empty_like(gradient)
    comm.Allreduce(gradient, total)
    return values - rate * total / comm.Get_size()


def raises_on_one_rank(values, gradient, comm, rate):
    """The others' messages to that rank are left over: the next answer must not receive them."""
    if comm.Get_rank() == 1:
        raise KeyError("no such shard")
    return by_shards(values + 1, gradient - 1, comm, rate)


def sums(values, gradient, comm, rate):
    return by_shards(values, gradient, comm, rate * comm.Get_size())


def keeps_its_own(values, gradient, comm, rate):
    size, rank = len(values) // comm.Get_size(), comm.Get_rank()
    mean = np.empty(size)
    comm.Reduce_scatter_block(gradient, mean)
    values[rank * size : rank * size + size] -= rate * mean / comm.Get_size()
    return values


def by_four(values, gradient, comm, rate):
    return by_shards(values, gradient, comm, rate * comm.Get_size() / 4)


def by_a_root(values, gradient, comm, rate):
    n, size = comm.Get_size(), len(values) // comm.Get_size()
    total, mean, whole = np.empty_like(gradient), np.empty(size), np.empty_like(values)
    comm.Reduce(gradient, total, root=0)
    comm.Scatter(total, mean, root=0)
    mine = comm.Get_rank() * size
    comm.Allgather(values[mine : mine + size] - rate * mean / n, whole)
    return whole


def by_all_gradients(values, gradient, comm, rate):
    return values - rate * sum(comm.allgather(gradient)) / comm.Get_size()


def by_gathered_gradients(values, gradient, comm, rate):
    every = np.empty((comm.Get_size(), len(gradient)))
    comm.Allgather(gradient, every)
    return values - rate * every.mean(0)


def by_owners(values, gradient, comm, rate):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = [np.ascontiguousarray(part) for part in np.split(gradient, n)]
    mean = np.empty_like(parts[0])
    for root, part in enumerate(parts):
        comm.Reduce(part, mean if rank == root else None, root=root)
    shards = comm.allgather(np.split(values, n)[rank] - rate * mean / n)
    return np.concatenate(shards).tolist()


def in_place(values, gradient, comm, rate):
    from mpi4py import MPI

    size = len(values) // comm.Get_size()
    mean, mine = np.empty(size), comm.Get_rank() * size
    comm.Reduce_scatter_block(gradient, mean)
    values[mine : mine + size] -= rate * mean / comm.Get_size()
    comm.Allgather(MPI.IN_PLACE, values)
    return values


def by_a_messenger(values, gradient, comm, rate):
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = comm.alltoall(np.split(gradient, n))
    shards = comm.gather(np.split(values, n)[rank] - rate * sum(parts) / n)
    return comm.bcast(np.concatenate(shards) if rank == 0 else None)


def merged(o1, l1, o2, l2):
    both = np.logaddexp(l1, l2)
    return np.exp(l1 - both)[:, None] * o1 + np.exp(l2 - both)[:, None] * o2, both


def merged_by_largest(o1, l1, o2, l2):
    top = np.maximum(l1, l2)
    a, b = np.exp(l1 - top), np.exp(l2 - top)
    return (a[:, None] * o1 + b[:, None] * o2) / (a + b)[:, None], top + np.log(a + b)


def overflows(o1, l1, o2, l2):
    a, b = np.exp(l1), np.exp(l2)
    return (a[:, None] * o1 + b[:, None] * o2) / (a + b)[:, None], np.log(a + b)


def adds(o1, l1, o2, l2):
    return o1 + o2, np.logaddexp(l1, l2)


def looks_at_one_query(o1, l1, o2, l2):
    """Overlooks that one query may see a piece of which another sees nothing."""
    if l1[0] == -np.inf:
        return o2, l2
    return merged(o1, l1, o2, l2)


def averages(o1, l1, o2, l2):
    return (o1 + o2) / 2, np.logaddexp(l1, l2)


def three_messages(scores, target, comm):
    from mpi4py import MPI

    top = comm.allreduce(scores.max(), op=MPI.MAX)
    total = comm.allreduce(np.exp(scores - top).sum())
    place = target - comm.Get_rank() * len(scores)
    found = comm.allreduce(scores[place] if 0 <= place < len(scores) else 0.0)
    return top + np.log(total) - found


def by_logarithms(scores, target, comm):
    """Right: what a rank's scores come to is one number, and these are merged."""
    whole = np.logaddexp.reduce(comm.allgather(np.logaddexp.reduce(scores)))
    owner, place = divmod(target, len(scores))
    return whole - comm.bcast(scores[place] if comm.Get_rank() == owner else None, root=owner)


def all_scores(scores, target, comm):
    every = np.concatenate(comm.allgather(scores))
    return np.logaddexp.reduce(every) - every[target]


def without_the_largest(scores, target, comm):
    total = comm.allreduce(np.exp(scores).sum())
    place = target - comm.Get_rank() * len(scores)
    return np.log(total) - comm.allreduce(scores[place] if 0 <= place < len(scores) else 0.0)


def own_largest(scores, target, comm):
    total = comm.allreduce(np.exp(scores - scores.max()).sum())
    place = target - comm.Get_rank() * len(scores)
    found = comm.allreduce(scores[place] if 0 <= place < len(scores) else 0.0)
    return scores.max() + np.log(total) - found


def loss_that_one_rank_misses(scores, target, comm):
    if comm.Get_rank() == 1:
        raise KeyError(target)
    return three_messages(scores + 1, target, comm)


def wraps_around(scores, target, comm):
    from mpi4py import MPI

    top = comm.allreduce(scores.max(), op=MPI.MAX)
    total = comm.allreduce(np.exp(scores - top).sum())
    found = comm.allreduce(scores[target % len(scores)])
    return top + np.log(total) - found


def planned(config, machine, batch):
    plan, micro = planner.plans(config, machine, batch)[0]
    return plan.layout, micro


def planned_by_its_own_name(config, machine, batch):
    plan, micro = plans(config, machine, batch)[0]
    return plan.layout, micro


def planned_or_nothing(config, machine, batch):
    """Falls back on a layout that fits nowhere near the fastest."""
    from helpers.sharded.mesh import Layout

    try:
        return planned_by_its_own_name(config, machine, batch)
    except Exception:
        return Layout(8), 1


def searched(config, machine, batch, replicas=(1, 2, 4, 8), stages=(1, 2, 4), pieces=(1, 2, 4)):
    from helpers.sharded import planner
    from helpers.sharded.mesh import Layout

    best, n = (math.inf, None, 0), len(machine.places)
    for data in replicas:
        for pipeline in stages:
            for shard in (0, 1):
                for micro in pieces:
                    if n % (data * pipeline):
                        continue
                    layout = Layout(data, pipeline, n // (data * pipeline), shard)
                    try:
                        plan = planner.predict(config, layout, machine, batch, micro)
                    except ValueError:
                        continue
                    if plan.memory <= machine.memory and plan.seconds < best[0]:
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


def fastest_without_memory(config, machine, batch):
    from dataclasses import replace

    return searched(config, replace(machine, memory=math.inf), batch)


def gathers_the_gradient(values, gradient, comm, rate):
    n = comm.Get_size()
    part, whole = np.empty(len(values) // n), np.empty_like(values)
    comm.Reduce_scatter_block(gradient, part)
    comm.Allgather(part, whole)
    return values - rate * whole / n


def gradients_go_round(values, gradient, comm, rate):
    n, rank, total = comm.Get_size(), comm.Get_rank(), gradient.copy()
    there, here = gradient.copy(), np.empty_like(gradient)
    for _ in range(n - 1):
        comm.Sendrecv(there, (rank + 1) % n, 0, here, (rank - 1) % n, 0)
        there, here = here, there
        total += there
    return values - rate * total / n


def score_by_score(scores, target, comm):
    every = np.array([comm.allgather(float(score)) for score in scores]).T.ravel()
    return every.max() + np.log(np.exp(every - every.max()).sum()) - every[target]


def one_largest(o1, l1, o2, l2):
    most = max(l1.max(), l2.max())
    a, b = np.exp(l1 - most), np.exp(l2 - most)
    return (a[:, None] * o1 + b[:, None] * o2) / (a + b)[:, None], most + np.log(a + b)


CASES = {
    "bytes_of_a_stage": Case(
        right=by_stage,
        wrong=[
            lambda stage, ranks: 16 / ranks if stage else 16,
            lambda stage, ranks: 16 / (ranks if stage == 3 else 1),
            lambda stage, ranks: by_stage(stage + 1, ranks),
            lambda stage, ranks: by_stage(stage, 4),
            *(in_float32, without_the_copy),
        ],
    ),
    "zero_step": Case(
        right=by_shards,
        also=[by_pickles, by_owners, in_place, by_a_messenger],
        wrong=[
            *(gathers_the_gradient, gradients_go_round),
            everything,
            sums,
            keeps_its_own,
            by_four,
            by_a_root,
            by_all_gradients,
            by_gathered_gradients,
            raises_on_one_rank,
        ],
    ),
    "conjugate_backward": Case(
        right=(lambda gradient, add: add(gradient), lambda gradient, add: gradient),
        wrong=[
            (lambda gradient, add: gradient, lambda gradient, add: add(gradient)),
            (lambda gradient, add: add(gradient), lambda gradient, add: add(gradient)),
            (lambda gradient, add: gradient, lambda gradient, add: gradient),
            (lambda gradient, add: add(gradient) / 2, lambda gradient, add: gradient),
            (lambda gradient, add: gradient.copy_(add(gradient)), lambda gradient, add: gradient),
        ],
        also=[(lambda gradient, add: add(gradient.clone()), lambda gradient, add: 1 * gradient)],
    ),
    "merge_pieces": Case(
        right=merged,
        also=[merged_by_largest, lambda *pieces: iter(merged(*pieces))],
        wrong=[overflows, adds, averages, looks_at_one_query, one_largest],
    ),
    "vocabulary_loss": Case(
        right=three_messages,
        also=[by_logarithms],
        wrong=[
            *(all_scores, score_by_score),
            without_the_largest,
            own_largest,
            wraps_around,
            loss_that_one_rank_misses,
        ],
    ),
    "equal_bytes": Case(
        right=lambda parameters, T, C, L: 1.5 * parameters / T / C / (4 * L + 2),
        wrong=[
            lambda parameters, T, C, L: 3 * parameters / ((4 * L + 2) * T * C),
            lambda parameters, T, C, L: 1.5 * parameters / (4 * L * T * C),
            lambda parameters, T, C, L: 1.5 * parameters // (T * C * (4 * L + 2)),
            lambda parameters, T, C, L: 1.5 * parameters / (C * (4 * L + 2)),
        ],
    ),
    "place": Case(
        right=searched,
        also=[lambda *a: list(searched(*a))],
        wrong=[
            *(planned, planned_by_its_own_name, planned_or_nothing),  # somebody else's search
            lambda *a: searched(*a, replicas=(2, 4, 8)),
            lambda *a: searched(*a, stages=(1,)),
            lambda *a: searched(*a, pieces=(2, 4)),
            lambda *a: searched(*a, pieces=(1, 2)),
            always(8, 1, 1),
            always(2, 2, 2),
            always(3, 1, 1),
            always(8, 1, 1, 0),
            fastest_without_memory,
            of_eight,
        ],
    ),
}
