"""Sentences for what went wrong on ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from helpers.cluster.errors import AFTER_LOSS
from helpers.cluster.kernel.folding import label, spans
from helpers.cluster.start.stuck import Wait, table

if TYPE_CHECKING:
    from helpers.cluster.kernel.gathering import Reply

NAMED_SINGLY = 4
ERROR_LINE = r"^(\x1b\[[\d;]*m)*[A-Za-z_][\w.]*(\x1b\[[\d;]*m)*: "
KEPT = "Variables on all ranks are kept."


def tracebacks(replies: dict[int, Reply]) -> dict[int, str]:
    """Return the traceback of each rank that raised."""
    return {
        rank: reply.traceback for rank, reply in sorted(replies.items()) if reply.status == "error"
    }


def failed(tracebacks: dict[int, str], waits: list[Wait], lost: bool) -> str:
    """Say which ranks raised what, and what became of the others."""
    text = _raised(tracebacks)
    if not lost:
        return f"{text}\n\n{KEPT}"
    ranks = _names([wait.rank for wait in waits]).capitalize()
    why = f"{ranks} waited inside MPI for a rank that had failed:"
    return f"{text}\n\n{why}\n{table(waits)}\n{AFTER_LOSS}"


def timed_out(timeout: float, waits: list[Wait], tracebacks: dict[int, str], lost: bool) -> str:
    """Say who was waiting for whom when the time was up."""
    ranks = _names([wait.rank for wait in waits])
    text = f"Time limit of {timeout:g} s reached by {ranks}.\n{table(waits)}"
    if tracebacks:
        text += f"\n\n{_raised(tracebacks)}\n"
    kept = f"They were interrupted in their own code. {KEPT}"
    return f"{text}\n{AFTER_LOSS if lost else kept}"


def died(rank: int | None, how: str, tracebacks: dict[int, str], after: str = AFTER_LOSS) -> str:
    """Say whose process ended and how, and that the others went with it; None: of no rank."""
    if rank is None:
        text = f"The ranks were lost: {how}." if how else "A rank died."
    else:
        text = f"Rank {rank} died{', ' if how else ''}{how}."
    if tracebacks:
        text += f"\n\n{_raised(tracebacks)}\n"
    if rank is not None:
        text += " The others were ended with it."
    return f"{text}\n{after}"


def interrupted(waits: list[Wait], lost: bool) -> str:
    """Say what the ranks were doing when the reader pressed stop."""
    where = f" They were doing this:\n{table(waits)}" if waits else ""
    return f"Interrupted.{where}\n{AFTER_LOSS if lost else KEPT}"


def _raised(tracebacks: dict[int, str]) -> str:
    """Join the tracebacks; the same one on several ranks is shown once.

    Where only the last words differ, as in ``f"rank {rank} has no data"``, those follow by rank.
    """
    alike: dict[str, dict[str, list[int]]] = {}
    for rank, text in tracebacks.items():
        way, words = _last_words(text)
        alike.setdefault(way, {}).setdefault(words, []).append(rank)
    return "\n\n".join(_told(way, ranks_of) for way, ranks_of in alike.items())


def _told(way: str, ranks_of: dict[str, list[int]]) -> str:
    ranks = sorted(rank for some in ranks_of.values() for rank in some)
    raised = f"{_names(ranks).capitalize()} raised:\n{way}"
    if len(ranks_of) == 1:
        return raised + "".join(ranks_of)
    return raised + "\n".join(label(some, words) for words, some in ranks_of.items())


def _last_words(traceback: str) -> tuple[str, str]:
    """Cut before the last line that names the error, coloured or not.

    >>> _last_words("----> 2 fail(1 / 0)\\nZeroDivisionError: division by zero")
    ('----> 2 fail(1 / 0)\\n', 'ZeroDivisionError: division by zero')
    """
    *_, begin = [0, *(found.start() for found in re.finditer(ERROR_LINE, traceback, re.MULTILINE))]
    return traceback[:begin], traceback[begin:]


def _names(ranks: Iterable[int]) -> str:
    """Name the ranks.

    >>> _names([0]), _names([0, 2, 3]), _names([0, 2, 3, 4, 5])
    ('rank 0', 'ranks 0, 2 and 3', 'ranks 0 and 2 to 5')
    """
    names = [str(rank) for rank in ranks]
    if len(names) > NAMED_SINGLY:
        names = spans(int(name) for name in names).replace("-", " to ").split(",")
    *first, last = names or ["?"]
    several = bool(first) or "to" in last
    return f"{'ranks' if several else 'rank'} {', '.join(first)}{' and ' if first else ''}{last}"
