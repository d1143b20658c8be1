"""Answers to the exercises of 10: right ones, and wrong ones that a reader could write."""

import numpy as np

from tests.exercises.case import Case


def meets(values, comm, step, period):
    if (step + 1) % period == 0:
        comm.Allreduce(values.copy(), values)
        values /= comm.size


def by_objects(values, comm, step, period, meets_at=-1):
    """Right: in words that need no buffer."""
    if (step - meets_at) % period == 0:
        values[:] = np.mean(comm.allgather(values), axis=0)


def changes_its_own_name(values, comm, step, period):
    """Rebinds its own name: the parameters do not change."""
    if (step + 1) % period == 0:
        values = comm.allreduce(values) / comm.size
    return values


def not_at_step_0(values, comm, step, period):
    """The classic wrong condition."""
    if step and step % period == 0:
        meets(values, comm, 0, 1)


def of_the_world(values, comm, step, period):
    from mpi4py import MPI

    meets(values, MPI.COMM_WORLD, step, period)


def of_doubles(values, comm, step, period):
    """Wrong: reads the bytes of other types as float64."""
    from mpi4py import MPI

    if (step + 1) % period == 0:
        comm.Allreduce(MPI.IN_PLACE, [values.view(np.float64), MPI.DOUBLE])
        values /= comm.size


def divides_alone(values, comm, step, period):
    """Changes the parameters, and sends nothing."""
    if (step + 1) % period == 0:
        values /= comm.size


def distance(values):
    return float(np.square(values - values.mean(0)).sum(1).mean())


def nesterov(anchor, mean, velocity, rate, momentum, ahead=1):
    """Heavy ball, if not ``ahead``."""
    moved = anchor - mean
    faster = momentum * velocity + moved
    step = moved + momentum * faster if ahead else faster
    return anchor - rate * step, faster


def in_place(anchor, mean, velocity, rate, momentum):
    """Right: writes into what it was given."""
    moved = anchor - mean
    velocity *= momentum
    velocity += moved
    anchor -= rate * moved
    anchor -= rate * momentum * velocity
    return [anchor, velocity]


def best(needed, compute, average):
    left = {H: steps for H, steps in needed.items() if steps is not None}
    return min(left, key=lambda H: left[H] * (compute + average / H))


def takes_out_what_never_got_there(needed, compute, average):
    """Right for one link: the next one finds fewer intervals."""
    found = best(needed, compute, average)
    for H in [H for H in needed if needed[H] is None]:
        needed.pop(H)
    return found


def outer(period, rate, momentum, sent_as=np.float32):
    """Meet every so many steps, and make the step of DiLoCo."""

    def meeting(values, comm, made, state):
        if made == 0:
            state.update(anchor=values.copy(), velocity=np.zeros_like(values))
        elif made % period == 0:
            mean = comm.allreduce(values.astype(sent_as)) / comm.size
            step = nesterov(state["anchor"], mean, state["velocity"], rate, momentum)
            state["anchor"], state["velocity"] = step
            values[:] = state["anchor"]

    return meeting


def not_in_place(values, comm, made, state):
    """Wrong: the parameters stay as they are."""
    if made and made % 10 == 0:
        values = comm.allreduce(values) / comm.size


def not_divided(values, comm, made, state):
    """Wrong: four times the mean."""
    if made and made % 10 == 0:
        values[:] = comm.allreduce(values)


def every(period):
    """Wrong: a constant H; 6 is the soonest."""
    return lambda values, comm, made, state: meets(values, comm, made - 1, period) if made else None


def only_notes(values, comm, made, state):
    """Wrong: keeps a note, and sends nothing."""
    state["made"] = made


def only_rank_0(values, comm, made, state):
    """Wrong: all take what rank 0 has, which has seen its own classes only."""
    if made and made % 6 == 0:
        comm.Bcast(values, root=0)


CASES = {
    "meet": Case(
        right=meets,
        also=[by_objects],
        wrong=[divides_alone, of_the_world, of_doubles],
        told={
            "only binds the name": changes_its_own_name,
            "after 1 step are unchanged: called with step = 0, it sends nothing": not_at_step_0,
            "called with step = 0, it should do nothing": lambda *given: by_objects(
                *given, meets_at=0
            ),
        },
    ),
    "consensus_distance": Case(
        right=distance,
        also=[lambda values: np.float64(distance(values))],
        wrong=[lambda values: float(np.square(values - values.mean()).sum(1).mean())],
        told={
            "divided by the number of parameters": lambda values: values.var(0).mean(),
            "sum over the replicas": lambda values: float(np.square(values - values.mean(0)).sum()),
        },
    ),
    "outer_step": Case(
        right=nesterov,
        also=[in_place],
        wrong=[
            lambda *given: nesterov(*given, ahead=0),
            lambda anchor, mean, v, *more: (nesterov(anchor, mean, v, *more)[0], v),
        ],
        told={
            "in the other order": lambda *given: nesterov(*given)[::-1],
            "Δ of the other sign": lambda a, mean, *more: nesterov(a, 2 * a - mean, *more),
        },
    ),
    "best_period": Case(
        right=best,
        also=[lambda *a: np.float64(best(*a))],
        wrong=[
            lambda needed, *link: best(needed, 1, 0),  # the fewest steps
            lambda needed, *link: best({H: needed[H] or 0 for H in needed}, *link),
            takes_out_what_never_got_there,
        ],
    ),
    "slow_link": Case(
        right=outer(10, 1.0, 0.7),
        also=[outer(6, 1.0, 0.5, np.float16)],
        wrong=[outer(8, 0.7, 0.9), every(6), only_rank_0, only_notes],  # first: the paper's
        told={"no call changes the numbers": not_in_place, "but grew from": not_divided},
    ),
}
