"""Answers to the exercises of 11: right ones, and wrong ones that a reader could write."""

from helpers.pipeline import families
from tests.exercises.case import Case


def one_by_one(rank, p, m):
    warm = min(p - 1 - rank, m)
    order = [f"F{i}" for i in range(warm)]
    for i in range(m):
        if warm + i < m:
            order.append(f"F{warm + i}")
        order.append(f"B{i}")
    return order


def raises_later(rank, p, m):
    yield "F0"
    yield f"B{m // 0}"


def lines(make, **more):
    def answer(p, m, room):
        return [[str(action) for action in order] for order in make(p, m, **more).orders]

    return answer


def ahead(times, more, put_off):
    """Send ahead `times` micro-batches for each rank after this one, and put W off."""

    def answer(p, m, room):
        orders = []
        for rank in range(p):
            warm = min(times * (p - 1 - rank) + more, room - 1, m)
            order, late = [f"F{i}" for i in range(warm)], []
            for i in range(m):
                order += [f"F{warm + i}"] * (warm + i < m) + [f"I{i}"]
                late.append(f"W{i}")
                while len(late) > min(rank if put_off else 0, room - 1 - warm):
                    order.append(late.pop(0))
            orders.append(order + late)
        return orders

    return answer


right_schedule = ahead(2, 0, True)


def late_ones_backwards(p, m, room):
    """Right: where a rank ends with two W's, they change places."""
    made = right_schedule(p, m, room)
    return [o[:-2] + (o[:-3:-1] if o[-2][0] == "W" else o[-2:]) for o in made]


CASES = {
    "one_by_one": Case(
        right=one_by_one,
        also=[lambda *a: " ".join(one_by_one(*a)), lambda *a: iter(one_by_one(*a))],
        wrong=[
            lambda rank, p, m: [f"F{i}" for i in range(m)] + [f"B{i}" for i in range(m)],
            lambda rank, p, m: one_by_one(rank, p, m)[:-1],
            lambda rank, p, m: one_by_one(p - 1 - rank, p, m),
            *(lambda rank, p, m: list(range(m)), raises_later),
        ],
    ),
    "kept_at_most": Case(
        right=lambda rank, p, m: min(m, p - rank),
        wrong=[
            lambda rank, p, m: m,
            lambda rank, p, m: p - rank,
            lambda rank, p, m: min(m, p - rank - 1),
        ],
    ),
    "own_schedule": Case(
        right=right_schedule,
        also=[late_ones_backwards, lambda *a: (" ".join(order) for order in right_schedule(*a))],
        wrong=[
            *(lines(make) for make in families.FAMILIES.values()),
            *(ahead(1, 2, True), ahead(2, 0, False)),  # the second is one forward pass too long
            lambda p, m, room: right_schedule(
                *min((4, 8, 6), (3, 6, 4), (2, 4, 3), key=lambda known: known != (p, m, room))
            ),
            lambda *a: right_schedule(*a)[::-1],  # stuck
            lambda p, m, room: dict(enumerate(right_schedule(p, m, room))),
        ],
    ),
}
