"""The check of notebook 02's exercise on the data: which samples a rank goes through."""

from __future__ import annotations

from itertools import combinations, pairwise

from helpers.exercises.answers import whole_numbers
from helpers.exercises.core import call, exercise, wrong


def _positions(answer, count: int, rank: int, size: int, epoch: int) -> list[int]:
    """Return what the answer gives as a list of whole numbers."""
    what = f"{count} samples, rank {rank} of {size}, epoch {epoch}"
    places = whole_numbers(call(answer, count, rank, size, epoch), what)
    outside = [place for place in places if not 0 <= place < count]
    if outside:
        wrong(f"{what}: there is no sample {outside[0]}")
    return places


def _one_epoch(answer, count: int, size: int, epoch: int) -> list[list[int]]:
    """Ask all ranks, and refuse parts that are of unequal length or share a sample."""
    parts = [_positions(answer, count, rank, size, epoch) for rank in range(size)]
    where = f"{count} samples on {size} ranks, epoch {epoch}"
    for rank, part in enumerate(parts):
        if len(part) != count // size:
            wrong(f"{where}: rank {rank} has {len(part)}; each should have {count // size}")
    owner: dict[int, int] = {}
    for rank, part in enumerate(parts):
        for place in part:
            if place in owner:
                wrong(
                    f"{where}: sample {place} comes twice, on rank {owner[place]} and on {rank}; "
                    "does every rank shuffle in the same way?"
                )
            owner[place] = rank
    return parts


def _neighbours(parts: list[list[int]]) -> set[frozenset[int]]:
    """Return the pairs of samples that follow one another on a rank."""
    return {frozenset(pair) for part in parts for pair in pairwise(part)}


@exercise
def shard(answer):
    """answer(count, rank, size, epoch) -> the rank's positions in the epoch, in its order."""
    for count, size in ((12, 4), (50, 3), (13, 4), (60, 1)):
        numbers = (0, 1, 2, 5, 12, 64)
        epochs = [_one_epoch(answer, count, size, epoch) for epoch in numbers]
        if epochs[0] != _one_epoch(answer, count, size, 0):
            wrong(f"{count} samples on {size} ranks: asked twice, epoch 0 has two orders")
        if count < 50:
            continue
        for parts in epochs:
            steps = {(b - a) % count for a, b in zip(parts[0], parts[0][1:], strict=False)}
            if len(steps) == 1:
                wrong(f"{count} samples on {size} ranks: rank 0 has {parts[0]}: not shuffled")
        for (first, one), (second, other) in combinations(zip(numbers, epochs, strict=True), 2):
            where = f"{count} samples on {size} ranks, epochs {first} and {second}"
            if one[0] == other[0]:
                wrong(f"{where}: both have the same order")
            both = _neighbours(one) & _neighbours(other)
            if len(both) > count / 2:
                wrong(
                    f"{where}: {len(both)} samples follow the same one in both; shuffle each anew"
                )
            if size > 1 and set(one[0]) == set(other[0]):
                wrong(f"{where}: rank 0 sees the same samples in both")
    seen = {place for epoch in range(60) for part in _one_epoch(answer, 13, 4, epoch)
            for place in part}  # fmt: skip
    missing = sorted(set(range(13)) - seen)
    if missing:
        wrong(f"13 samples on 4 ranks: in 60 epochs nobody has seen sample {missing[0]}")
