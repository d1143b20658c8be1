"""In which round every message of a trace arrives, if all messages take equally long."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.tracing.trace import Trace


def rounds(trace: Trace) -> list[int]:
    """Return the round, from 1, in which each of ``trace.messages`` arrives.

    In a round a rank can send one message and receive one (a full-duplex port). A message goes out
    after those that its sender sent or received before, and waits where its receiver is busy with
    another. Ranks never wait for a send, only for what they receive. Messages of ranks that wait
    for one another in a circle, which no run records, never arrive: their round is 0.
    """
    by_send = {message.send: k for k, message in enumerate(trace.messages)}
    done_in = defaultdict(list)  # event -> the messages that the rank had once it returned
    for k, message in enumerate(trace.messages):
        done_in[message.completed_in].append(k)
    actions: dict[int, deque] = {rank: deque() for rank in trace.ranks}
    for i, event in sorted(enumerate(trace.events), key=lambda pair: (pair[1].begin, pair[0])):
        if i in by_send:
            actions[event.rank].append(("send", by_send[i]))
        actions[event.rank].extend(("receive", k) for k in done_in[i])
    sent = dict.fromkeys(trace.ranks, 0)  # the last round in which a rank sent, received
    received = dict.fromkeys(trace.ranks, 0)
    gone: dict[int, int] = {}  # message -> the round in which it went out
    arrived = [0] * len(trace.messages)
    progress = True
    while progress:
        progress = False
        for rank, queue in actions.items():
            while queue:
                what, k = queue[0]
                if what == "send":
                    sent[rank] = gone[k] = 1 + max(sent[rank], received[rank])
                elif k in gone:
                    received[rank] = arrived[k] = max(gone[k], received[rank] + 1)
                else:
                    break  # its sender has not come so far yet
                queue.popleft()
                progress = True
    return arrived
