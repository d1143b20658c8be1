"""Answers to the exercises of the appendix to notebook 01."""
# ruff: noqa: F821 - answers on the ranks find MPI among their names

from tests.exercises.case import Case


def once_a_text(text):
    for word in set(text.split()):
        yield word, 1


def add(word, ones):
    return sum(ones)


def serves(rank, request, words, waiting, size):
    if request["cmd"] == "put":
        words[request["key"]] = request["value"]
        return {rank: "cmd=put_result rc=0"}
    if request["cmd"] == "get":
        return {rank: f"cmd=get_result rc=0 value={words[request['key']]}"}
    waiting.append(rank)
    if len(waiting) < size:
        return {}
    everybody = waiting.copy()
    waiting.clear()
    return dict.fromkeys(everybody, "cmd=barrier_out rc=0")


OUT = "cmd=barrier_out rc=0"


def with_barrier(barrier):
    """Serve as is right, but for the barrier, with a newline after each answer."""

    def serve(rank, request, words, waiting, size):
        if request["cmd"] != "barrier_in":
            return {rank: serves(rank, request, words, waiting, size)[rank] + "\n"}
        return barrier(rank, words, waiting, size)

    return serve


@with_barrier
def serves_by_counting(rank, words, waiting, size):
    """Right in another way."""
    words["came"] = words.get("came", 0) + 1
    return dict.fromkeys(range(size), OUT) if words["came"] % size == 0 else {}


def serves_the_tables_keys(rank, request, words, waiting, size):
    """As if a request had no further keys."""
    command, *rest = request.values()
    if command == "put":
        key, value = rest
        words[key] = value
        return {rank: "cmd=put_result rc=0"}
    return serves(rank, request, words, waiting, size)


@with_barrier
def serves_without_waiting(rank, words, waiting, size):
    return {rank: OUT}


@with_barrier
def serves_one_barrier(rank, words, waiting, size):
    """Does not close the barrier again."""
    waiting.append(rank)
    return dict.fromkeys(range(size), OUT) if len(waiting) >= size else {}


def serves_the_last(rank, request, words, waiting, size):
    """Forgets those who came before."""
    told = serves(rank, request, words, waiting, size)
    return {rank: told[rank]} if told else {}


@with_barrier
def serves_with_a_new_list(rank, words, waiting, size):
    waiting.append(rank)
    if len(waiting) < size:
        return {}
    everybody = waiting
    waiting = []
    return dict.fromkeys(everybody, OUT)


def serves_after_a_blank(rank, *asked):
    told = serves(rank, *asked)
    return {other: text.replace("value=", "value= ") for other, text in told.items()}


def serves_what_is_ones_own(rank, request, words, waiting, size):
    if request["cmd"] == "put":
        words[rank] = request["value"]
        return {rank: "cmd=put_result rc=0"}
    if request["cmd"] == "get":
        return {rank: f"cmd=get_result rc=0 value={words[rank]}"}
    return serves(rank, request, words, waiting, size)


def whoever_asks(tasks, comm, workers=None, until_told=True):
    """With three ``workers``, right for the notebook's four ranks only."""
    results, status, left, at_home = {}, MPI.Status(), list(tasks), 0
    while left if not until_told else at_home < (workers or comm.size - 1):
        done = comm.recv(source=MPI.ANY_SOURCE, status=status)
        if done is not None:
            results[done[0]] = done[1]
        at_home += not left
        comm.send(left.pop(0) if left else None, dest=status.Get_source())
    return results


def whoever_asks_of_three(tasks, comm):
    return whoever_asks(tasks, comm, workers=3)


def forgets_the_last_results(tasks, comm):
    return whoever_asks(tasks, comm, until_told=False)


def without_the_last_two(tasks, comm):
    results = whoever_asks(tasks, comm)
    return {task: results[task] for task in results if task not in (18, 19)}


def answers_in_turns(tasks, comm):
    """Receives from whoever asks, and answers the next in a row."""
    results, left, workers = {}, list(tasks), comm.size - 1
    for turn in range(len(tasks) + workers):
        done = comm.recv(source=MPI.ANY_SOURCE)
        if done is not None:
            results[done[0]] = done[1]
        comm.send(left.pop(0) if left else None, dest=1 + turn % workers)
    return results


def never_ends(tasks, comm):
    """Goes on to receive from workers that have ended."""
    in_turns(tasks, comm)
    return comm.recv(source=3)


def in_turns(tasks, comm):
    results, left, working = {}, list(tasks), list(range(1, comm.size))
    while working:
        for worker in list(working):
            done = comm.recv(source=worker)
            if done is not None:
                results[done[0]] = done[1]
            task = left.pop(0) if left else None
            comm.send(task, dest=worker)
            if task is None:
                working.remove(worker)
    return results


CASES = {
    "hand_out": Case(
        right=whoever_asks,
        wrong=[in_turns, forgets_the_last_results],
        told={
            "the tasks 18, 19 are missing": without_the_last_two,
            "which had not asked; a Status says": answers_in_turns,
            "Done: ranks 1, 2, 3.": never_ends,
        },
        hangs=[whoever_asks_of_three],
    ),
    "document_frequency": Case(
        right=(once_a_text, add),
        wrong=[
            (lambda text: [(word, 1) for word in text.split()], add),
            (lambda text: once_a_text(text.lower()), add),
            (  # wrong where two texts are alike
                lambda text: [(word, text) for word in text.split()],
                lambda word, texts: len(set(texts)),
            ),
            (lambda text: [text], add),
        ],
    ),
    "serve": Case(
        right=serves,
        also=[serves_by_counting],
        wrong=[
            *(serves_without_waiting, serves_one_barrier, serves_the_last),
            serves_what_is_ones_own,
            lambda *asked: serves(*asked) or None,
            lambda rank, request, words, waiting, size: request,
        ],
        told={
            "raised ValueError: too many values to unpack": serves_the_tables_keys,
            "`waiting = []` makes another one": serves_with_a_new_list,
            "got 'cmd=get_result rc=0 value= n0'": serves_after_a_blank,
        },
    ),
}
