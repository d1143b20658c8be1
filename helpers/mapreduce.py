"""MapReduce on MPI ranks, short enough to be read aloud (Dean and Ghemawat 2004).

The programmer gives two functions; who does what, who sends what to whom, and what happens when a
task fails are decided here::

    counts = mapreduce(documents, count_words, add_up, comm)    # a dict, on every rank

``mapper(split)`` yields (key, value) pairs, ``reducer(key, values)`` returns one value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    from mpi4py import MPI

ASK, TASK = 1, 2  # tags


class TaskFailedError(RuntimeError):
    """A mapper failed on the same split as often as it was allowed to."""


def mapreduce(
    splits: list | None,
    mapper: Callable[[Any], Iterable[tuple[Hashable, Any]]],
    reducer: Callable[[Hashable, list], Any],
    comm: MPI.Intracomm,
    attempts: int = 2,
) -> dict:
    """Map all splits, bring what belongs to one key together, and reduce it.

    Rank 0 hands out splits and maps none, unless it is alone; a split whose mapper raised is handed
    out again.

    Parameters
    ----------
    splits
        On rank 0; those of the others are not looked at.
    mapper
        ``mapper(split)`` yields (key, value) pairs.
    reducer
        ``reducer(key, values)`` returns one value.
    attempts
        How often a split is tried; 1 or more, else ValueError.

    Returns
    -------
    dict
        The reduced value of each key, on every rank.

    Raises
    ------
    TaskFailedError
        On every rank, if a mapper failed on one split in every attempt.
    """
    if attempts < 1:
        raise ValueError(f"mapreduce expects attempts >= 1; got {attempts!r}")
    pairs: list[tuple] = []
    failure: str | None = None
    splits = splits or []
    if comm.Get_size() == 1:
        for task, split in enumerate(splits):
            for _ in range(attempts):
                found, failure = _try(mapper, split)
                if failure is None:
                    break
            else:
                failure = _final(task, attempts, str(failure))
                break
            pairs += found
    elif comm.Get_rank() == 0:
        failure = _schedule(splits, comm, attempts)
    else:
        pairs = _work(mapper, comm)
    failure = comm.bcast(failure, root=0)
    if failure is not None:
        raise TaskFailedError(failure)
    reduced = {key: reducer(key, values) for key, values in _shuffle(pairs, comm).items()}
    return {key: value for part in comm.allgather(reduced) for key, value in part.items()}


def _schedule(splits: list, comm: MPI.Intracomm, attempts: int) -> str | None:
    """Rank 0: give the next split to whoever asks; return what failed for good, or None."""
    from mpi4py import MPI

    waiting, tried, failure = list(range(len(splits))), [0] * len(splits), None
    status = MPI.Status()
    working = comm.Get_size() - 1
    while working:
        task, error = comm.recv(source=MPI.ANY_SOURCE, tag=ASK, status=status)
        if error is not None and tried[task] < attempts:
            waiting.insert(0, task)
        elif error is not None:
            failure, waiting = _final(task, attempts, error), []
        if waiting:
            task = waiting.pop(0)
            tried[task] += 1
            comm.send((task, splits[task]), status.Get_source(), TASK)
        else:
            comm.send(None, status.Get_source(), TASK)
            working -= 1
    return failure


def _work(mapper: Callable, comm: MPI.Intracomm) -> list:
    """Every other rank: ask for splits and map them until there are no more; return the pairs."""
    pairs: list[tuple] = []
    task, error = None, None
    while True:
        comm.send((task, error), 0, ASK)
        order = comm.recv(source=0, tag=TASK)
        if order is None:
            return pairs
        task, split = order
        found, error = _try(mapper, split)
        pairs += found


def _try(mapper: Callable, split: object) -> tuple[list, str | None]:
    try:
        return list(mapper(split)), None
    except Exception as error:
        return [], f"{type(error).__name__}: {error}"


def _final(task: int, attempts: int, error: str) -> str:
    return f"split {task} failed {attempts} times, the last with {error}"


def _shuffle(pairs: list, comm: MPI.Intracomm) -> dict:
    """Bring all values of a key to one rank: key k belongs to rank crc32(k) mod N.

    Not to hash(k) mod N: Python salts the hash of text in every process, so that ranks would not
    agree where a word belongs.
    """
    boxes: list[dict] = [defaultdict(list) for _ in range(comm.Get_size())]
    for key, value in pairs:
        boxes[crc32(repr(key).encode()) % len(boxes)][key].append(value)
    gathered: dict[Any, list] = defaultdict(list)
    for box in comm.alltoall(boxes):
        for key, values in box.items():
            gathered[key] += values
    return gathered
