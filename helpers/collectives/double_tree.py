"""Allreduce by two trees at once (Sanders, Speck & Träff 2009): who sends which chunk when.

Each tree adds up half of the array. A rank that has children in one tree is a leaf of the other
(but for rank 0 of an odd number), so no rank sends more than 2 K bytes, however many there are. It
is not in :data:`helpers.collectives.ALGORITHMS`: a rank must receive from either tree at any time.
"""

from __future__ import annotations

from helpers.collectives.schedule import Schedule, Transfer


def parents(ranks: int) -> dict[int, int]:
    """Return the parent of every rank but 0, the root, in the first tree.

    Below rank 0 is a binary tree in the order of ranks, in which all odd ranks are leaves.

    >>> parents(8)
    {4: 0, 2: 4, 1: 2, 3: 2, 6: 4, 5: 6, 7: 6}
    """
    found = {}

    def hang(first: int, end: int, parent: int) -> None:
        if first < end:
            top = max(range(first, end), key=lambda rank: rank & -rank)  # its lowest bit
            found[top] = parent
            hang(first, top, top)
            hang(top + 1, end, top)

    hang(1, ranks, 0)
    return found


def schedule(ranks: int, pieces: int = 1) -> Schedule:
    """Return the schedule of an allreduce by two trees, each of which cuts its half into pieces.

    In each step a rank sends at most one chunk and receives at most one. What can be sent is sent,
    the first pieces first. In the second tree, each rank has the place that the rank before it has
    in the first. ValueError for fewer than one rank or piece.
    """
    if ranks < 1 or pieces < 1:
        raise ValueError(f"double trees expect ranks and pieces >= 1; got {ranks} and {pieces}")
    first = parents(ranks)
    trees = [{(rank + k) % ranks: (top + k) % ranks for rank, top in first.items()} for k in (0, 1)]
    waits = [[0] * ranks for _ in range(2 * pieces)]  # for so many sums of children
    left = []  # (chunk, source, dest, whether up)
    for chunk, missing in enumerate(waits):
        for rank, top in trees[chunk % 2].items():
            missing[top] += 1
            left += [(chunk, rank, top, True), (chunk, top, rank, False)]
    transfers: list[Transfer] = []
    roots = [chunk % 2 % ranks for chunk in range(2 * pieces)]
    total = {(chunk, root) for chunk, root in enumerate(roots) if not waits[chunk][root]}
    step = 0
    while left:
        step, sending, receiving, now = step + 1, set(), set(), []
        for chunk, source, dest, up in left:
            ready = not waits[chunk][source] if up else (chunk, source) in total
            if ready and source not in sending and dest not in receiving:
                sending.add(source)
                receiving.add(dest)
                now.append((chunk, source, dest, up))
        for chunk, source, dest, up in now:
            transfers.append(Transfer(step, source, dest, chunk))
            if up:
                waits[chunk][dest] -= 1
                if dest == roots[chunk] and not waits[chunk][dest]:
                    total.add((chunk, dest))
            else:
                total.add((chunk, dest))
        done = set(now)
        left = [one for one in left if one not in done]
    held = tuple((frozenset({rank}),) * (2 * pieces) for rank in range(ranks))
    what = "double_tree", ranks, pieces, 2 * pieces
    return Schedule(*what, tuple(transfers), held, "model", "allreduce: double trees")
