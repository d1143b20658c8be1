"""Checks of notebook 08: collectives on ranks, their bytes and steps, and what they cost."""

from __future__ import annotations

import math
import operator

from helpers.exercises.core import NotAttempted, call, close, equal, exercise, on_ranks, wrong
from helpers.exercises.groups import Case, emptied, in_case, nothing_begun, outcomes
from helpers.exercises.values import number

PICKLE = 300  # bytes that pickling adds to a message, at most: long arrays are what is judged


@exercise
def chunk_to_send(answer):
    """answer(rank, step, N) -> the chunk that the rank sends in step 0, 1, ... of the allgather."""
    for N in (2, 3, 4, 7):
        held = [{rank} for rank in range(N)]  # finished chunks on each rank
        for step in range(N - 1):
            sent = [call(answer, rank, step, N) for rank in range(N)]
            for rank, chunk in enumerate(sent):
                what = f"N={N}, step {step}: rank {rank} sends chunk {chunk!r}"
                if isinstance(chunk, bool) or not hasattr(chunk, "__index__"):
                    wrong(f"{what}, expected the number of a chunk")
                chunk = sent[rank] = operator.index(chunk)  # of an array without dimensions, too
                if not 0 <= chunk < N:
                    wrong(f"{what}, but chunks are numbered from 0 to {N - 1}")
                if chunk not in held[rank]:
                    wrong(f"{what}, of which it does not have the sum yet")
            for rank, chunk in enumerate(sent):
                if chunk in held[(rank + 1) % N]:
                    wrong(
                        f"N={N}, step {step}: rank {rank} sends chunk {chunk} to a neighbour that "
                        "has it already"
                    )
                held[(rank + 1) % N].add(chunk)


def _is_array(returned: object, where: str) -> None:
    """Refuse what later cells, and exercises that build on this one, cannot use as an array."""
    import numpy as np

    if not isinstance(returned, np.ndarray):
        got = "None" if returned is None else f"a {type(returned).__name__}"
        wrong(f"{where}: it returned {got}, expected a NumPy array")


def _part(rank: int, length: int):
    """What rank ``rank`` has before the allgather: numbers that differ everywhere."""
    import numpy as np

    return 100.0 * rank + np.arange(length)


@exercise
def allgather(answer, cluster):
    """answer(work, comm) -> work, with every rank's part filled in, by messages on a ring."""
    import numpy as np

    def work(rank: int, n: int, length: int) -> tuple:
        whole = np.full(n * length, -1.0)
        whole[rank * length : (rank + 1) * length] = _part(rank, length)
        return (whole,)

    sizes = [case for case in ((4, 1), (4, 200_000), (3, 5), (1, 2)) if case[0] <= cluster.n]
    cases = [
        Case(n, lambda r, n=n, length=length: work(r, n, length), f"parts of {length * 8} bytes")
        for n, length in sizes
    ]
    for (n, length), there in zip(sizes, outcomes(cluster, answer, cases), strict=True):
        whole = np.concatenate([_part(rank, length) for rank in range(n)])
        for rank, outcome in enumerate(there):
            where = f"on rank {rank} of {n}, parts of {length * 8} bytes"
            _is_array(outcome.returned, where)
            close(outcome.returned, whole, where)
            too_many = outcome.bytes - (n - 1) * length * 8
            if outcome.messages != n - 1 or not 0 <= too_many <= PICKLE * (n - 1):
                wrong(
                    f"{where}: right, but it sent {outcome.messages} messages of {outcome.bytes} "
                    f"bytes altogether; on a ring it is one part of {length * 8} bytes in each of "
                    "N−1 steps"
                )
            if n > 1 and set(outcome.sent_to) not in ({(rank + 1) % n}, {(rank - 1) % n}):
                wrong(
                    f"{where}: right, but it sent to ranks {list(outcome.sent_to)}; on a ring it "
                    "has one neighbour to send to"
                )
        nothing_begun(there)


@exercise
def long_broadcast(answer, cluster):
    """answer(work, comm) -> work with rank 0's numbers on every rank, sent in N parts."""
    import numpy as np

    def work(rank: int, length: int, kind: str) -> tuple:
        return ((_part(0, length) if rank == 0 else np.full(length, -1.0 - rank)).astype(kind),)

    trials = [
        *((4, 8, "float64"), (4, 100_000, "float64"), (3, 6, "float64"), (2, 2, "float64")),
        *((1, 3, "float64"), (4, 12, "float32")),
    ]
    cases = [
        Case(
            n,
            lambda r, length=length, kind=kind: work(r, length, kind),
            f"{length} numbers of {kind}",
        )
        for n, length, kind in trials
    ]
    for (n, length, kind), there in zip(trials, outcomes(cluster, answer, cases), strict=True):
        for outcome in there:
            for used in ("scatter", "scatterv", "bcast", "ibcast", "iscatter", "allgather"):
                if outcome.calls[used]:
                    wrong(f"right, but by {used}: do it with sends and receives alone")
        whole = np.dtype(kind).itemsize * length
        for rank, outcome in enumerate(there):
            where = f"on rank {rank} of {n}, {length} numbers of {kind}"
            _is_array(outcome.returned, where)
            close(outcome.returned, _part(0, length), where)
        if sum(outcome.bytes for outcome in there) < (n - 1) * whole:  # each must hear it all
            wrong(
                f"right, but {n} ranks sent too little by messages for all to hear it: do it with "
                "sends and receives alone"
            )
        for rank, outcome in enumerate(there):
            most = (n - 1) * whole // n * (2 if rank == 0 else 1)
            if outcome.bytes > most + PICKLE * outcome.messages:  # so only long ones are judged
                wrong(
                    f"right, but rank {rank} of {n} sent {outcome.messages} messages of "
                    f"{outcome.bytes} bytes altogether, of an array of {whole}: scatter {n} "
                    "parts by sends, then let them go round the ring"
                )
        nothing_begun(there)


@exercise
def bytes_sent(answer):
    """answer(algorithm, N, K) -> bytes that the busiest rank sends: chain, tree or ring."""
    from helpers.collectives import cost

    for algorithm in ("chain", "tree", "ring"):
        for N, K in ((4, 1_000_000), (8, 4_000), (64, 6_400), (1024, 10_240_000)):
            what = f"{algorithm}, N={N}, K={K}"
            close(call(answer, algorithm, N, K), cost.sent(algorithm, N) * K, what)


@exercise
def crossover(answer):
    """answer(N, alpha, beta) -> size in bytes at which tree and ring take the same time."""
    for N, alpha, beta in ((4, 1e-6, 1e-9), (16, 10e-6, 1e-10), (1024, 5e-6, 4e-11)):
        what = f"N={N}, alpha={alpha:g} s, beta={beta:g} s per byte"
        K = number(call(answer, N, alpha, beta), f"{what}: the bytes")
        if not math.isfinite(K):
            wrong(f"{what}: expected a number of bytes, got {K!r}")
        levels = N.bit_length() - 1
        tree = 2 * levels * (alpha + K * beta)
        ring = 2 * (N - 1) * (alpha + K / N * beta)
        if K <= 0 or not math.isclose(tree, ring, rel_tol=1e-6):
            wrong(
                f"{what}: at your size of {K:.4g} bytes the tree takes {tree:.4g} s and the ring "
                f"{ring:.4g} s, which is not the same"
            )


@exercise
def rate_for(answer):
    """answer(seconds, N, K, alpha, data) -> the bit/s that a ring needs, math.inf if none do."""
    for seconds, N, K, alpha, data in (
        (1.0, 2, 1_000_000, 0.0, 1.0),
        (0.2, 4, 1_048_576, 1e-3, 0.95),
        (0.05, 8, 102_000_000, 5e-6, 128 / 130),
        (3.0, 64, 64_000, 0.02, 0.8),
        (0.01, 4, 1_000, 0.002, 1.0),  # six latencies take 12 ms
        (2.0, 1024, 8, 1e-3, 0.9),  # the latencies of one way would leave half of the time
    ):
        what = f"{seconds:g} s, N={N}, K={K}, alpha={alpha:g} s, data={data:.4g}"
        try:
            rate = call(answer, seconds, N, K, alpha, data)
        except NotAttempted:
            if N == 2:  # it has answered nothing else before
                raise
            wrong(f"{what}: expected a number of bits a second, or math.inf, got None")
        try:
            got = math.nan if isinstance(rate, bool | str) else float(rate)
        except (TypeError, ValueError):
            got = math.nan
        if math.isnan(got):
            wrong(f"{what}: expected a number of bits a second, got {rate!r}")
        latencies = 2 * (N - 1) * alpha
        if latencies >= seconds:
            if got != math.inf:
                wrong(
                    f"{what}: you ask for {got:.4g} bit/s; latencies alone take "
                    f"{latencies:.4g} s, so expected was that no rate is enough"
                )
            continue
        if got <= 0 or got == math.inf:
            wrong(f"{what}: expected a finite rate above 0, got {got:.4g} bit/s")
        took = latencies + 2 * (N - 1) * 8 * K / N / (data * got)
        if not math.isclose(took, seconds, rel_tol=1e-6):
            wrong(
                f"{what}: at your rate of {got:.4g} bit/s the ring takes {took:.4g} s, expected "
                f"{seconds:g} s"
            )


def _numbers(rank: int, length: int):
    """What rank ``rank`` puts into an allreduce: sums of them are exact, and differ everywhere."""
    import numpy as np

    return (rank + 1) ** 3 * (1.0 + np.arange(length))


def _reductions(answer, cluster, trials: list[tuple[int, int]]) -> list:
    """Call answer(array, comm) in each trial (ranks, length); compare with the sums.

    The first trial is gone through once more with numbers of 4 bytes, as gradients have them.

    Returns, for each trial, its ranks, its length, the bytes of a number and the outcomes.
    """
    tried = [*((*trial, "float64") for trial in trials), (*trials[0], "float32")]
    cases = [
        Case(
            n,
            lambda r, length=length, kind=kind: (_numbers(r, length).astype(kind),),
            f"{length} numbers of {kind}",
        )
        for n, length, kind in tried
    ]
    found = []
    for (n, length, kind), there in zip(tried, outcomes(cluster, answer, cases), strict=True):
        whole = sum(_numbers(rank, length) for rank in range(n))
        for rank, outcome in enumerate(there):
            where = f"on rank {rank} of {n}, {length} numbers of {kind}"
            _is_array(outcome.returned, where)
            close(outcome.returned, whole, where)
            if outcome.changed:
                wrong(f"{where}: right, but x has changed; return the sums as a new array")
        nothing_begun(there)
        found.append((n, length, 4 if kind == "float32" else 8, there))
    return found


@exercise
def ring_allreduce(answer, cluster):
    """answer(x, comm) -> the sums over all ranks, by a ring, for any length."""
    trials = [(4, 8), (4, 100_003), (3, 7), (2, 5), (4, 2), (1, 3)]
    for n, length, wide, there in _reductions(answer, cluster, trials):
        part = -(-length // n) * wide
        for rank, outcome in enumerate(there):
            most = 2 * (n - 1) * (part + PICKLE)
            if outcome.messages != 2 * (n - 1) or outcome.bytes > most:
                wrong(
                    f"right, but rank {rank} of {n} sent {outcome.messages} messages of "
                    f"{outcome.bytes} bytes altogether for {length} numbers; on a ring it is one "
                    "part in each of 2(N−1) steps"
                )
            if n > 1 and set(outcome.sent_to) not in ({(rank + 1) % n}, {(rank - 1) % n}):
                wrong(
                    f"right, but rank {rank} of {n} sent to ranks {list(outcome.sent_to)}; on a "
                    "ring it has one neighbour to send to"
                )


@exercise
def doubling(answer, cluster):
    """answer(x, comm) -> the sums over all of N = 2^L ranks, in L exchanges."""
    trials = [(4, 6), (2, 5), (1, 3), (4, 50_000)]
    for n, length, wide, there in _reductions(answer, cluster, trials):
        levels = n.bit_length() - 1
        for rank, outcome in enumerate(there):
            too_many = outcome.bytes - levels * length * wide
            if outcome.messages != levels or not 0 <= too_many <= PICKLE * levels:
                wrong(
                    f"right, but rank {rank} of {n} sent {outcome.messages} messages of "
                    f"{outcome.bytes} bytes altogether; it should exchange the array with one "
                    "partner in each of log₂ N steps"
                )
            for step, to in enumerate(outcome.sent_to):
                if (back := there[to].sent_to[step]) != rank:
                    wrong(
                        f"right, but in step {step} rank {rank} of {n} sends to rank {to}, which "
                        f"sends to rank {back}: partners exchange their sums"
                    )


@exercise
def halving_doubling(answer, cluster):
    """answer(x, comm) -> the sums over N = 2^L ranks, in 2L exchanges of halves, quarters, ..."""
    trials = [(4, 8), (4, 40_000), (2, 6), (1, 3)]
    for n, length, wide, there in _reductions(answer, cluster, trials):
        levels = n.bit_length() - 1
        for rank, outcome in enumerate(there):
            too_many = outcome.bytes - 2 * (n - 1) * length * wide // n
            if outcome.messages != 2 * levels or not 0 <= too_many <= PICKLE * 2 * levels:
                wrong(
                    f"right, but rank {rank} of {n} sent {outcome.messages} messages of "
                    f"{outcome.bytes} bytes altogether for {length} numbers; it is 2·log₂ N "
                    "messages, of half of the array, a quarter, ... and back"
                )


def _on_nodes(answer, G: int, M: int, length: int, kind: str) -> tuple | None:
    """On every rank: call answer(x, node, across) on M nodes of G ranks.

    Returns what it returned, whether x is as it was, and each call across, as (name, kind, bytes);
    None where this rank took no part.
    """
    import numpy as np
    from mpi4py import MPI

    from helpers.tracing.activity import BYTES, COLLECTIVE, COMM, EXCHANGE, KIND, NAME, SEND
    from helpers.waiting import doze

    world = MPI.COMM_WORLD.Dup()  # without the barrier that an interrupted attempt left over
    found, taking_part = None, world.rank < G * M
    group = world.Split(0 if taking_part else 1, world.rank)
    node, across = group.Split(group.rank // G), group.Split(group.rank % G)
    if taking_part:
        given = _numbers(group.rank, length).astype(kind)
        x = given.copy()
        returned = answer(x, node, across)
        sent = [
            (call[NAME], call[KIND], call[BYTES])
            for call in answer.calls
            if call[COMM] == across.identity and call[KIND] in (SEND, EXCHANGE, COLLECTIVE)
        ]
        found = returned, np.array_equal(x, given), sent
    doze(world)
    for comm in (node, across, group):
        emptied(comm)
        comm.Free()
    world.Free()
    return found


def _too_much_across(sent: list[tuple[str, str, int]], part: int, M: int) -> bool:
    """Tell whether more than a rank's part went between M nodes: in a call, or in several."""
    from helpers.tracing.activity import COLLECTIVE

    sizes: dict[str, list[int]] = {"messages": [], "reduce": [], "bcast": [], "gather": []}
    for name, kind, size in sent:
        word = next((word for word in sizes if word in name.lower()), "gather")
        sizes[word if kind == COLLECTIVE else "messages"].append(size)
    # A rank reduces its part once and gives it to all once, but sends it to each other node, and
    # is told what each node has.
    times = {"messages": max(1, M - 1), "reduce": 1, "bcast": M, "gather": 1}
    return any(size > part + PICKLE for _, _, size in sent) or any(
        sum(found) > times[word] * part + PICKLE * len(found) for word, found in sizes.items()
    )


@exercise
def two_levels(answer, cluster):
    """answer(x, node, across) -> the sums over all ranks; a G-th of x goes between nodes."""
    import numpy as np

    shapes = [(2, 2, 8), (2, 2, 40_000), (4, 1, 12), (1, 4, 5), (2, 1, 6), (1, 1, 3)]
    trials = [*((*shape, "float64") for shape in shapes), (2, 2, 12, "float32")]
    for trial, (G, M, length, kind) in enumerate(trials):
        size = f"{M} node{'s' * (M > 1)} of {G}, {length} numbers of {kind}"
        with in_case(f"on {size}", first=trial == 0):
            replies = on_ranks(cluster, _on_nodes, answer, G, M, length, kind)
        whole = sum(_numbers(rank, length) for rank in range(G * M))
        for rank, (returned, untouched, sent) in enumerate(replies[: G * M]):
            where = f"on rank {rank} of {size}"
            _is_array(returned, where)
            close(returned, whole, where)
            if not untouched:
                wrong(f"{where}: right, but x has changed; return the sums as a new array")
            whole_bytes = np.dtype(kind).itemsize * length
            if _too_much_across(sent, whole_bytes // G, M):
                wrong(
                    f"right, but {where} it put {sum(call[-1] for call in sent)} bytes into calls "
                    f"between nodes; each rank's part of {whole_bytes} bytes is "
                    f"{whole_bytes // G}, to be reduced once"
                )


@exercise
def seating(answer):
    """answer(hosts) -> how many times longer a step of the ring takes than side by side."""
    for hosts, want in (
        ((0, 0, 1, 1, 2, 2, 3, 3), 1),
        ((0, 1, 2, 3, 0, 1, 2, 3), 2),
        ((0, 1, 0, 1, 0, 1), 3),
        ((0, 0, 1, 0, 1, 1), 2),
        ((0, 0, 0, 1, 2, 2, 1, 3, 3), 2),
        ((5, 5, 5), 1),
        ((1, 0, 0, 1), 1),
        ((1, 0, 2, 0), 2),  # the last rank sends to the first
    ):
        got = call(answer, hosts)
        close(got, want, f"hosts = {hosts}: the factor", rtol=1e-9)


@exercise
def ring_on_hosts(answer):
    """answer(hosts, K, alpha, payload) -> seconds of a ring allreduce through ranks on hosts."""
    for hosts, parts, K, alpha, payload in (  # parts: through the busiest link in a step
        ((0, 1), 1, 1_000_000, 0.0, 1e6),
        ((0, 1, 2, 3), 1, 1_048_576, 5e-4, 11.9e6),
        (tuple(range(8)), 1, 8_000, 1e-3, 1.2e8),
        ((0, 0, 1, 1, 2, 2), 1, 600_000, 2e-4, 6e6),
        ((0, 1, 2, 0, 1, 2), 2, 600_000, 2e-4, 6e6),
        ((0, 0, 0, 1, 2, 2, 1, 3, 3), 2, 900_000, 1e-3, 1e7),
        ((0, 1, 0, 1, 0, 1), 3, 48_000, 0.02, 1e8),
    ):
        N = len(hosts)
        want = 2 * (N - 1) * (alpha + parts * K / N / payload)
        what = f"hosts {hosts}, {K} bytes, alpha = {alpha} s, {payload:g} bytes/s: the seconds"
        # so wide that parts of whole bytes, or of whole numbers, are right as well
        close(call(answer, hosts, K, alpha, payload), want, what, rtol=1e-3)


@exercise
def choose(answer):
    """answer(K, alpha, beta) -> "ring" or "recursive_doubling" for 8 hosts."""
    # α/β is how many bytes a latency is worth; the two cross at 8.8 times that.
    for K, alpha, beta in (
        (1_000, 1e-3, 8e-8),
        (1_000_000, 1e-3, 8e-8),
        (100_000, 1e-3, 8e-8),
        (120_000, 1e-3, 8e-8),
        (262_144, 5e-4, 8.4e-9),
        (4_000_000, 5e-4, 8.4e-9),
    ):
        doubling, ring = 3 * (alpha + K * beta), 14 * (alpha + K / 8 * beta)
        want = "ring" if ring < doubling else "recursive_doubling"
        what = f"{K} bytes, alpha = {alpha} s, beta = {beta} s/B: the faster"
        got = call(answer, K, alpha, beta)
        if got not in ("ring", "recursive_doubling"):
            wrong(f'{what}: expected one of "ring" and "recursive_doubling"; you returned {got!r}')
        equal(got, want, what)
