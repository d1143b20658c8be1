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


def late(behind, at=0):
    """Insert each W after `behind(rank)` others wait; ``at`` says which of them goes first."""

    def answer(order, rank):
        made, waiting = [], []
        for action in order:
            made.append(action)
            if action[0] == "I":
                waiting.append("W" + action[1:])
                while len(waiting) > behind(rank):
                    made.append(waiting.pop(at))
        return made + waiting

    return answer


def before_the_next(order, rank):
    """Right: a W comes after the forward pass that follows its turn."""
    made = late(lambda rank: rank)(order, rank)
    for k in range(len(made) - 1):
        if made[k][0] == "W" and made[k + 1][0] == "F":
            made[k : k + 2] = made[k + 1], made[k]
    return made


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
    "put_off": Case(
        right=late(lambda rank: rank),
        also=[
            late(lambda rank: rank, at=-1),  # the last that came goes first
            before_the_next,
            lambda *a: " ".join(late(lambda rank: rank)(*a)),
            lambda order, rank: iter(late(lambda rank: rank)(order, rank)),
        ],
        wrong=[
            late(lambda rank: 0),  # 1F1B
            late(lambda rank: 99),  # all at the end
            late(lambda rank: 1),
            late(lambda rank: rank + 1),
            late(lambda rank: max(rank - 1, 0)),
            late(lambda rank: 3 - rank),
            lambda order, rank: order,
            lambda order, rank: late(lambda rank: rank)(order, rank)[:-1],
            lambda order, rank: order + [a.replace("I", "W") for a in order if a[0] == "I"],
            lambda order, rank: [a for o in order for a in (o, o.replace("I", "W"))],  # F twice
            lambda order, rank: set(order),
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
