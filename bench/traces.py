"""How much time watching or recording adds to an MPI call.

Every case runs on one process that talks to itself, so that nothing but the calls is timed. A row's
value is µs for one call, the peer's the same of mpi4py; ``added`` rows hold the difference, which
should stay below 5 µs.
"""

from __future__ import annotations

from functools import partial

from bench.launch import best, in_turns, on_ranks
from helpers.records import Row

SUITE = "traces"
BATCH, TURNS = 50, 300  # a batch is shorter than a time slice: the best one was not interrupted
LIMIT = 5.0  # µs


def rows() -> list[Row]:
    """Measure every case, watched and recorded, in a fresh process."""
    found = []
    for case, times in on_ranks(1, measure, timeout=300).items():
        for mode in ("watched", "recorded"):
            value, plain = times[mode], times["plain"]
            name = f"{case}, {mode}"
            found.append(Row(name, value, "µs", peer="mpi4py", peer_value=plain))
            found.append(Row(f"{name}: added", value - plain, "µs", parameters={"limit": LIMIT}))
    return found


def cases(np) -> dict:
    """Return name → (function of a communicator, number of MPI calls in it)."""
    out, box = np.zeros(1), np.zeros(1)

    def blocking(comm):
        request = comm.Irecv(box, 0)
        comm.Send(out, 0)
        request.Wait()

    def pickled(comm):
        request = comm.isend(1, 0)
        comm.recv(source=0)
        request.wait()

    return {
        "Irecv + Send + Wait": (blocking, 3),
        "isend + recv + wait": (pickled, 3),
        "Sendrecv": (lambda comm: comm.Sendrecv(out, 0, recvbuf=box, source=0), 1),
        "sendrecv": (lambda comm: comm.sendrecv(1, 0, source=0), 1),
        "Allreduce": (lambda comm: comm.Allreduce(out, box), 1),
        "allreduce": (lambda comm: comm.allreduce(1), 1),
        "Bcast": (lambda comm: comm.Bcast(out), 1),
        "Barrier": (lambda comm: comm.Barrier(), 1),
        "asking for a message (Iprobe)": (lambda comm: comm.Iprobe(), 1),
    }


def measure() -> dict[str, dict[str, float]]:
    """Return, for each case, µs per call of mpi4py, watched and recorded: the best of the turns."""
    import numpy as np
    from mpi4py import MPI

    from helpers.tracing import TracedComm

    plain, watched, recorded = MPI.COMM_SELF, *(TracedComm(MPI.COMM_SELF) for _ in range(2))
    found = {}
    for case, (function, calls) in cases(np).items():
        recorded.recorder.start()  # what it holds from the case before goes
        ways = {"plain": plain, "watched": watched, "recorded": recorded}
        taken = in_turns({way: partial(function, c) for way, c in ways.items()}, TURNS, BATCH)
        found[case] = {way: 1e6 * least / calls for way, least in best(taken).items()}
    return found
