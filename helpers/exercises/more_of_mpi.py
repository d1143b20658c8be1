"""Checks of the appendix to notebook 01: how ranks come to life, a queue, and MapReduce."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict

from helpers.exercises.core import NotAttempted, call, equal, exercise, short, wrong
from helpers.exercises.groups import in_case
from helpers.exercises.on_ranks import on_ranks


@exercise
def document_frequency(mapper, reducer, least=1):
    """mapper(text) yields pairs, reducer(key, values) -> in how many texts a word is so often."""
    texts = ["a rose is a rose", "a red rose", "blue", "blue", "is it blue or is it red", "", "Red"]
    texts.append("on and on and on and off")
    gathered = defaultdict(list)
    for text in texts:
        for pair in list(call(_listed(mapper), text)):
            try:
                key, value = pair
            except (TypeError, ValueError):
                wrong(f"mapper({text!r}) gave {pair!r}: expected pairs (word, value)")
            gathered[key].append(value)
    words = [Counter(text.split()) for text in texts]
    want = Counter(word for one in words for word, times in one.items() if times >= least)
    if set(gathered) != set(want):
        odd = sorted(set(gathered) ^ set(want), key=repr)[0]
        wrong(f"the keys are not the words of the texts: look at {odd!r}")
    for word in sorted(want):
        values = sorted(gathered[word], key=repr)
        equal(call(reducer, word, values), want[word], f"the number of texts with {word!r}")


def _listed(mapper):
    """A generator that yields nothing for an empty text is an answer, no result at all is not."""

    @functools.wraps(mapper)
    def listed(text):
        found = mapper(text)
        return None if found is None else iter(list(found))

    return listed


def _told(answer, rank: int, line: str, left: dict, waiting: list, size: int) -> dict:
    """Ask the answer; return who was told what."""
    from helpers.first_words import words

    try:
        told = call(answer, rank, words(line), left, waiting, size)
    except NotAttempted:
        if "barrier" in line:  # it has answered others
            wrong(f"to {line!r} of rank {rank} it returned None; an empty dictionary tells nobody")
        raise
    if not isinstance(told, dict) or not all(isinstance(text, str) for text in told.values()):
        wrong(f"to {line!r} of rank {rank}: expected a dictionary {{rank: text}}, got {told!r}")
    return told


def _only(told: dict, rank: int, line: str, command: str) -> dict:
    """Return what the rank that asked was told, taken apart; nobody else may be told anything."""
    from helpers.first_words import words

    if set(told) != {rank}:
        wrong(f"{line!r} of rank {rank}: told were {sorted(told)}, and it was that rank that asked")
    found = words(told[rank])
    if found.get("cmd") != command or found.get("rc") != "0":
        wrong(f"{line!r}: expected an answer that begins cmd={command} rc=0, got {told[rank]!r}")
    return found


@exercise
def serve(answer):
    """answer(rank, request, words, waiting, size) -> {rank: text}, and real ranks come to life."""
    from helpers.first_words import SILENT, start, words

    for size in (3, 2, 1):
        left: dict = {}
        waiting: list = []
        for sender in range(size):
            for key in ("port", "name"):
                line = f"cmd=put kvsname=all key={key}-{sender} value={key[0]}{sender}"
                told = _told(answer, sender, line, left, waiting, size)
                _only(told, sender, line, "put_result")
        for turn, last in enumerate((size - 1, 0)):
            full = (
                f"; `waiting` still held {waiting} from barrier {turn}: empty that list itself, "
                "since `waiting = []` makes another one"
            )
            full = full if waiting else ""
            order = [rank for rank in range(size) if rank != last] + [last]
            for rank in order[:-1]:
                told = _told(answer, rank, "cmd=barrier_in", left, waiting, size)
                if told:
                    wrong(
                        f"barrier {turn + 1} of {size} ranks: rank {rank} came, and {sorted(told)} "
                        f"were answered while others were still on their way{full}"
                    )
            told = _told(answer, last, "cmd=barrier_in", left, waiting, size)
            if sorted(told) != list(range(size)):
                wrong(
                    f"barrier {turn + 1} of {size} ranks: the last one came, and {sorted(told)} "
                    f"were answered{full}"
                )
            if any(words(text).get("cmd") != "barrier_out" for text in told.values()):
                wrong(f"barrier {turn + 1}: expected answers cmd=barrier_out rc=0, got {told}")
        for reader in range(size):
            for sender in range(size):
                line = f"cmd=get kvsname=all key=name-{sender}"
                told = _told(answer, reader, line, left, waiting, size)
                if _only(told, reader, line, "get_result").get("value") != f"n{sender}":
                    wrong(
                        f"rank {sender} put n{sender}; rank {reader} asked, expected an answer "
                        f"that ends in value=n{sender}, without a blank, got {told[reader]!r}"
                    )
    born = start(3, answer, hosts=3)
    if born.trouble and born.trouble != SILENT:  # the answers are right, whoever asks for them
        wrong(f"three ranks were started, and did not come to life with it: {born.trouble}")


def _queue(answer, tasks: list, ranks: int) -> tuple | None:
    """On the first ranks: rank 0 hands out by the answer; the others work, rank 1 slowly.

    Rank 0 returns the results and whom it sent to unasked; the others return how many tasks they
    did, and whether they were told the end.
    """
    import time

    from mpi4py import MPI

    from helpers.tracing.activity import KIND, PEER, RECEIVE, SEND

    inside = MPI.COMM_WORLD.rank < ranks  # split: without what an earlier attempt left over
    comm = MPI.COMM_WORLD.Split(0 if inside else 1, MPI.COMM_WORLD.rank)
    if not inside:
        return None
    over = comm.Dup()  # so that workers end whatever the answer does
    if comm.rank == 0:
        results = answer(list(tasks), comm)
        asked, unasked = list[int](), None
        for call in answer.calls:  # type: ignore[attr-defined]
            if call[KIND] == RECEIVE:
                asked.append(call[PEER])
            elif call[KIND] == SEND and call[PEER] in asked:
                asked.remove(call[PEER])
            elif call[KIND] == SEND and unasked is None:
                unasked = call[PEER]
        for worker in range(1, comm.size):
            over.send(None, worker)
        return results, unasked
    done, result = 0, None
    while True:
        comm.send(result, dest=0)
        while not comm.iprobe(source=0):
            if over.iprobe(source=0) and not comm.iprobe(source=0):
                return done, False
            time.sleep(0.001)
        task = comm.recv(source=0)
        if task is None:
            return done, True
        time.sleep(0.15 if comm.rank == 1 else 0.005)
        done, result = done + 1, (task, task**2)


@exercise(time_limit=60.0)
def hand_out(answer, cluster):
    """answer(tasks, comm) -> on rank 0 {task: result}, each task given to whoever asks."""
    for tasks, ranks in ((list(range(20)), 4), ([7, 3], 4), ([], 4), ([5, 0, 6], 3)):
        with in_case(f"{len(tasks)} tasks, {ranks} ranks", first=len(tasks) == 20):
            (results, unasked), *workers = on_ranks(cluster, _queue, answer, tasks, ranks)[:ranks]
        if unasked is not None:
            wrong(
                f"{len(tasks)} tasks: rank 0 sent to rank {unasked}, which had not asked; "
                "a Status says which rank did"
            )
        if results != {task: task**2 for task in tasks}:
            if not isinstance(results, dict):
                wrong(f"{len(tasks)} tasks: expected {{task: result}}, got {short(results)}")
            missing = ", ".join(str(task) for task in tasks if task not in results)
            if missing:
                wrong(f"of the results of {len(tasks)} tasks, the tasks {missing} are missing")
            wrong(f"of the tasks {tasks} it returned {dict(sorted(results.items(), key=str))}")
        for rank, (_, told) in enumerate(workers, 1):
            if not told:
                wrong(f"{len(tasks)} tasks: rank {rank} was never told that there are no more")
        if len(tasks) > 9 and workers[0][0] > len(tasks) // 5:
            wrong(
                f"rank 1 is slow, and was given {workers[0][0]} of {len(tasks)} tasks, while "
                "others waited"
            )
