"""How ranks come to life: start some, answer what they ask first, and keep the conversation.

A rank that finds ``PMI_FD`` in its environment asks there who it is and how it reaches the others.
Clusters are started so by a process beside the kernel; :func:`start` does it here, in the open, and
lets the caller give the answers.
"""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from helpers.cluster.start.forkserver.family import KeyValueSpace, words
from helpers.machine.guard import kill_tree
from helpers.machine.shared_memory import ucx_transports
from helpers.waiting import at_most

# given who asks, the request, what was left, who waits and how many there are: who is told what
Answer = Callable[[int, dict[str, str], dict[str, str], list[int], int], "dict[int, str] | None"]
END_SECONDS = 5.0  # until a rank ends that has asked all it wanted to know
ANSWER_SECONDS = 5.0  # until an answer is there
SILENT = "nobody asked: ranks of this MPI speak another language (MPICH's is PMI, Open MPI's PMIx)"
PROGRAM = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
total = comm.allreduce(comm.rank)
print(f"rank {comm.rank} of {comm.size}: all ranks' numbers add up to {total}")
"""


@dataclass(frozen=True)
class Exchange:
    """One request of a rank and who was answered; nobody, if the rank has to wait for others."""

    seconds: float
    rank: int
    request: str
    answers: dict[int, str]


@dataclass
class Start:
    """A start of ranks: what they said in order of time, what they printed, why it failed if so."""

    ranks: int
    exchanges: list[Exchange] = field(default_factory=list)
    output: str = ""
    trouble: str = ""

    def of(self, rank: int) -> list[Exchange]:
        """Return what one rank asked, in order of time."""
        return [exchange for exchange in self.exchanges if exchange.rank == rank]


def start(n: int, answer: Answer | None = None, timeout: float = 15.0, hosts: int = 1) -> Start:
    """Start ``n`` ranks that greet each other; answer what they ask until they have ended.

    With the reason if they did not come to life; no rank is left in any case. Between ``hosts``
    they need each other's addresses; on one they share memory.

    ``answer(rank, request, words, waiting, size)`` stands in for :class:`KeyValueSpace` when a rank
    says ``put``, ``get`` or ``barrier_in``, the request being a dict such as ``{"cmd": "get",
    "key": "port"}``, ``words`` a dict and ``waiting`` a list that are kept from one request to the
    next. It returns who is answered what.
    """
    if not 1 <= n <= 16:
        raise ValueError(f"start expects from 1 to 16 ranks; got {n!r}")
    told = Start(n)
    mapping = f"(vector,(0,{hosts},{-(-n // hosts)}))"
    space = KeyValueSpace(n, f"words-{os.getpid()}-{time.monotonic_ns()}", mapping)
    begin, ends, processes = time.monotonic(), [], []
    try:
        for rank in range(n):
            ours, theirs = socket.socketpair()
            ends.append(ours)
            processes.append(_one(rank, n, theirs))
            theirs.close()
        _serve(told, space, answer, ends, begin, timeout)
        if not told.trouble:
            told.output = "".join(each.communicate(timeout=END_SECONDS)[0] for each in processes)
            if any(process.returncode for process in processes):
                told.trouble = "a rank ended with an error:\n" + told.output
            elif not told.exchanges:
                told.trouble = SILENT
    except subprocess.TimeoutExpired:
        told.trouble = "the ranks have asked all they want to know, and do not end"
    finally:
        for process in processes:
            if process.poll() is None:
                kill_tree(process.pid)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        for end in ends:
            end.close()
        space.unlink()
    return told


def _one(rank: int, n: int, end: socket.socket) -> subprocess.Popen:
    asked = {"PMI_FD": end.fileno(), "PMI_RANK": rank, "PMI_SIZE": n, "PMI_SPAWNED": 0}
    environment = {"UCX_TLS": ucx_transports(), **os.environ}
    environment |= {name: str(value) for name, value in asked.items()}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        pass_fds=[end.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _serve(
    told: Start,
    space: KeyValueSpace,
    answer: Answer | None,
    ends: list[socket.socket],
    begin: float,
    timeout: float,
) -> None:
    """Answer until every rank has closed its end."""
    unread, open_ends = dict.fromkeys(ends, b""), set(ends)
    kept: tuple[dict, list] = {}, []  # from one request to the next
    while open_ends:
        ready = select.select(list(open_ends), [], [], timeout)[0]
        if not ready:
            last = {e.rank: e.request for e in told.exchanges}
            waits = "; ".join(f"rank {rank} said {line!r}" for rank, line in sorted(last.items()))
            told.trouble = f"nothing more happened within {timeout:g} s. The last words: {waits}"
            return
        for end in ready:
            try:
                data = end.recv(65536)
            except OSError:
                data = b""
            if not data:
                open_ends.discard(end)
            *lines, unread[end] = (unread[end] + data).split(b"\n")
            for line in map(bytes.decode, lines):
                rank = ends.index(end)
                at = time.monotonic() - begin
                try:
                    answers = _answers(rank, line, space, answer, *kept)
                    told.exchanges.append(Exchange(at, rank, line, answers))
                    for other, text in answers.items():
                        if other not in range(told.ranks):
                            raise ValueError(f"an answer for rank {other!r}, which there is not")
                        ends[other].sendall(f"{text}\n".encode())
                except (ValueError, OSError) as error:
                    told.trouble = f"rank {rank} said {line[:60]!r}: {error}"
                    return


def _answers(
    rank: int, line: str, space: KeyValueSpace, answer: Answer | None, left: dict, waiting: list
) -> dict[int, str]:
    request = words(line)
    about_itself = request.get("key", "").startswith("PMI_")
    if answer is None or about_itself or request.get("cmd") not in ("put", "get", "barrier_in"):
        return {other: text.rstrip("\n") for other, text in space.answer(rank, line).items()}
    late = TimeoutError(f"the answer takes longer than {ANSWER_SECONDS:g} s")
    with at_most(ANSWER_SECONDS, lambda: late):
        answers = answer(rank, request, left, waiting, space.size)
    if answers is None:
        raise ValueError("nobody answers")
    if not isinstance(answers, dict) or not all(isinstance(t, str) for t in answers.values()):
        raise ValueError(f"expected {{rank: text}} as answers, got {answers!r}")
    return {other: text.strip() for other, text in answers.items()}


def folded(exchanges: list[Exchange]) -> list[tuple[str, str]]:
    """Put one rank's conversation into rows: what it asked, and what it was told.

    Requests of one kind that follow one another are one row, and what is the same in all is left
    out.

    >>> put = "cmd=put kvsname=x key={} value=3"
    >>> done = {0: "cmd=put_result rc=0"}
    >>> folded([Exchange(0.0, 0, put.format(key), done) for key in "ab"])
    [('put key=a value=3 (the first of 2 such)', 'put_result')]
    """
    groups: list[tuple[str, Exchange, int]] = []
    for exchange in exchanges:
        kind = words(exchange.request)["cmd"]
        if "key=PMI_" in exchange.request:
            kind += exchange.request
        if groups and groups[-1][0] == kind:
            groups[-1] = (*groups[-1][:2], groups[-1][2] + 1)
        else:
            groups.append((kind, exchange, 1))
    rows = []
    for _, exchange, count in groups:
        more = f" (the first of {count} such)" if count > 1 else ""
        told = exchange.answers.get(exchange.rank)
        asked = _plain(exchange.request, "kvsname=") + more
        rows.append((asked, "(later, when all have come)" if told is None else _plain(told)))
    return rows


def _plain(line: str, *known: str) -> str:
    """Leave out what is the same in all: the code of success, the name of the start."""
    parts = [part for part in line.split() if not part.startswith(("rc=0", "msg=", *known))]
    return re.sub(r"=words-\S+", "=words-…", " ".join(parts).removeprefix("cmd="))
