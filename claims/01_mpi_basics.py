"""What notebook 01 concludes: when calls return, what early writes spoil, what pickling costs."""

from __future__ import annotations

from helpers.claims import Claim, Share
from helpers.claims.ranks import ranks

LIMIT = 120  # seconds for one call on the ranks
LATE = 0.02  # seconds by which a receiver is late


def _on_ranks(function, *arguments) -> list:
    return ranks().run(function, *arguments, timeout=LIMIT)


# ------------------------------------------------------------------- blocking and non-blocking


def send_to_a_late_receiver(seed: int, nbytes: int, call: str = "Send") -> tuple[float, float]:
    """Seconds of a send to a rank that comes 20 ms late, and these 20 ms."""
    return _on_ranks(_send_late, nbytes, call)[0], LATE


def _send_late(nbytes: int, call: str) -> float | None:
    import time

    import numpy as np
    from mpi4py import MPI

    from helpers.waiting import doze, meet

    comm, took = MPI.COMM_WORLD, None
    box = np.zeros(nbytes, dtype=np.uint8)
    if comm.rank < 2:
        pair = MPI.COMM_WORLD.Create_group(comm.group.Incl([0, 1]))
        meet(pair)
        if comm.rank == 1:
            time.sleep(LATE)
            comm.Recv(box, source=0)
        else:
            begin = time.perf_counter()
            request = getattr(comm, call)(box, dest=1)
            took = time.perf_counter() - begin
            if request is not None:
                request.Wait()
        pair.Free()
    doze(comm)
    return took


def overwritten(seed: int, nbytes: int) -> Share:
    """Whether a receiver gets what was written into the array after Isend, before Wait."""
    return Share(_on_ranks(_overwrite, nbytes)[1], 1)


def _overwrite(nbytes: int) -> int:
    import time

    import numpy as np
    from mpi4py import MPI

    from helpers.waiting import doze

    comm, wrong = MPI.COMM_WORLD, 0
    box = np.ones(nbytes // 8)
    if comm.rank == 0:
        request = comm.Isend(box, dest=1)
        box[:] = -1
        request.Wait()
    elif comm.rank == 1:
        time.sleep(0.02)
        comm.Recv(box, source=0)
        wrong = int((box == -1).any())
    doze(comm)
    return wrong


# ------------------------------------------------------------------------------- what messages cost


def pickled_seconds(seed: int, nbytes: int) -> tuple[float, float]:
    """Seconds there and back of an object and of an array, in turns, the best of 30."""
    return _on_ranks(_pickled, nbytes)[0]


def _pickled(nbytes: int) -> tuple[float, float]:
    import time

    import numpy as np
    from mpi4py import MPI

    from helpers.waiting import doze

    comm, best, box = MPI.COMM_WORLD, [60.0, 60.0], np.zeros(nbytes, dtype=np.uint8)
    for _ in range(30 if comm.rank < 2 else 0):
        for number in (0, 1):
            comm.sendrecv(None, 1 - comm.rank, source=1 - comm.rank)
            begin = time.perf_counter()
            for turn in (0, 1):
                if turn == comm.rank:
                    comm.Send(box, 1 - comm.rank) if number else comm.send(box, 1 - comm.rank)
                elif number:
                    comm.Recv(box, 1 - comm.rank)
                else:
                    comm.recv(source=1 - comm.rank)
            best[number] = min(best[number], time.perf_counter() - begin)
    doze(comm)
    return tuple(best)


TIMED = range(5)

CLAIMS = [
    Claim(
        id="01-send-waits",
        sentence="Send to a rank that is busy for 20 ms returns only when that rank receives.",
        experiment=send_to_a_late_receiver,
        seeds=range(8),
        settings={"8 B": {"nbytes": 8}, "4 MB": {"nbytes": 4_000_000}},
        verdict="depends on the size",
        margin=0.25,
        scale="ratio",
        axis="the size",
        ours="time of Send",
        rival="time the rank was busy",
        unit="s",
    ),
    Claim(
        id="01-isend-returns",
        sentence="Isend returns at once, whatever the size.",
        experiment=lambda seed, **setting: send_to_a_late_receiver(seed, call="Isend", **setting),
        seeds=range(8),
        settings={"8 B": {"nbytes": 8}, "4 MB": {"nbytes": 4_000_000}},
        verdict="holds",
        margin=4.0,
        scale="ratio",
        larger=False,
        ours="time of Isend",
        rival="time the rank was busy",
        unit="s",
    ),
    Claim(
        id="01-overwritten",
        sentence="A program that writes into an array between Isend and Wait sends the new "
        "numbers.",
        experiment=overwritten,
        seeds=range(10),
        settings={"800 B": {"nbytes": 800}, "8 MB": {"nbytes": 8_000_000}},
        verdict="depends on the size",
        margin=0.0,
        axis="the size",
        ours="runs with wrong numbers",
        rival="half of them",
        rival_share=0.5,
        unit="1",
    ),
    Claim(
        id="01-pickling",
        sentence="A message takes longer as a Python object than as an array.",
        experiment=pickled_seconds,
        seeds=TIMED,
        settings={
            name: {"nbytes": n}
            for name, n in (("100 B", 100), ("100 kB", 100_000), ("3 MB", 3_000_000))
        },
        verdict="holds",
        margin=0.1,
        scale="ratio",
        axis="the size",
        ours="object",
        rival="array",
        unit="s",
    ),
]
