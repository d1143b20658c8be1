"""The schedules of the literature, each as the rule that its authors give.

p ranks, m micro-batches, r this rank; v chunks of the model on each rank.
"""

from __future__ import annotations

from collections.abc import Callable

from helpers.pipeline.schedule import Action, Schedule


def gpipe(ranks: int, micro: int) -> Schedule:
    """All forward, then all backward (Huang et al., 2019): each rank keeps m activations."""
    order = [Action("F", i) for i in range(micro)] + [Action("B", i) for i in range(micro)]
    return Schedule("GPipe", (tuple(order),) * ranks, micro)


def _one_by_one(rank: int, ranks: int, micro: int, back: str = "B") -> list[Action]:
    """p − 1 − r forward passes first; then one forward, one backward; then what is left."""
    warm = min(ranks - 1 - rank, micro)
    order = [Action("F", i) for i in range(warm)]
    for i in range(micro):
        if warm + i < micro:
            order.append(Action("F", warm + i))
        order.append(Action(back, i))
    return order


def one_f_one_b(ranks: int, micro: int) -> Schedule:
    """One forward, one backward (PipeDream-Flush; Narayanan et al., 2021).

    Rank r keeps min(m, p − r) activations.
    """
    orders = tuple(tuple(_one_by_one(rank, ranks, micro)) for rank in range(ranks))
    return Schedule("1F1B", orders, micro)


def pipedream(ranks: int, micro: int) -> Schedule:
    """1F1B in which every backward pass is followed by an update (Narayanan et al., 2019).

    Here a "micro-batch" is a whole batch of its own: the pipeline is never emptied between updates.
    Rank r keeps up to p − r versions of its weights.
    """
    orders = []
    for rank in range(ranks):
        order = []
        for action in _one_by_one(rank, ranks, micro):
            order.append(action)
            if action.kind == "B":
                order.append(Action("U", action.micro))
        orders.append(tuple(order))
    return Schedule("PipeDream", tuple(orders), micro)


def interleaved(ranks: int, micro: int, chunks: int = 2) -> Schedule:
    """1F1B in which each rank has v chunks of the model (Narayanan et al., 2021).

    Micro-batches go through in groups of p: a group passes all chunks before the next begins.
    """
    if micro % ranks:
        raise ValueError(
            f"interleaved: micro={micro} does not come in groups of ranks={ranks}: its order is "
            "defined for multiples"
        )
    total, orders = micro * chunks, []

    def nth(kind: str, k: int) -> Action:
        group, place = divmod(k, ranks * chunks)
        chunk = place // ranks if kind == "F" else chunks - 1 - place // ranks
        return Action(kind, group * ranks + place % ranks, chunk)

    for rank in range(ranks):
        warm = min(2 * (ranks - rank - 1) + (chunks - 1) * ranks, total)
        order = [nth("F", k) for k in range(warm)]
        for k in range(total):
            if warm + k < total:
                order.append(nth("F", warm + k))
            order.append(nth("B", k))
        orders.append(tuple(order))
    return Schedule("interleaved", tuple(orders), micro, chunks)


def zero_bubble(ranks: int, micro: int) -> Schedule:
    """1F1B with the backward pass in two parts, ZB-H1 (Qi et al., 2024).

    The gradient of the inputs (I) goes on to the rank before at once; that of the weights (W) is
    waited for by nobody, and rank r puts it off by r micro-batches, into what would be the bubble.
    """
    orders = []
    for rank in range(ranks):
        order, put_off = [], []
        for action in _one_by_one(rank, ranks, micro, back="I"):
            order.append(action)
            if action.kind == "I":
                put_off.append(Action("W", action.micro))
                if len(put_off) > rank:
                    order.append(put_off.pop(0))
        orders.append(tuple(order + put_off))
    return Schedule("zero-bubble", tuple(orders), micro)


FAMILIES: dict[str, Callable[..., Schedule]] = {
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "interleaved": interleaved,
    "zero-bubble": zero_bubble,
    "PipeDream": pipedream,
}
