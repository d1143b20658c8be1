"""Several functions on the same ranks: one start for all of them."""

from __future__ import annotations

from tests.mpi.runner import run_ranks


def _in_turn(calls) -> list:
    return [function(*given) for function, *given in calls]


def on_ranks(n: int, *calls, timeout: float = 150) -> list[tuple]:
    """Make calls ``(function, *arguments)`` on n ranks; return for each what the ranks returned."""
    return list(zip(*run_ranks(n, _in_turn, calls, timeout=timeout), strict=True))


def told(call) -> str:
    """Return the error that a call raises, in words."""
    try:
        call()
    except (TypeError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
