"""How arrays are cut, and who has what, before a collective begins."""

from __future__ import annotations

import numpy as np


def one_a_piece(ranks: int, pieces: int) -> int:
    """Return how many chunks an array has that is cut into ``pieces`` messages."""
    return pieces


def pieces_a_rank(ranks: int, pieces: int) -> int:
    """Return how many chunks an array has whose part for each rank is cut into ``pieces``."""
    return ranks * pieces


def one_a_rank(ranks: int, pieces: int) -> int:
    """Return how many chunks an array has that is handed out or collected, one part a rank."""
    return ranks


def uncut(size: int, ranks: int) -> int:
    """Return into how many pieces an array is cut where the caller does not say: one."""
    return 1


def from_everybody(rank: int, chunk: int, owner: int) -> set[int]:
    """Tell whose contributions a rank has before a reduction: its own, to every chunk."""
    return {rank}


def from_rank_0(rank: int, chunk: int, owner: int) -> set[int]:
    """Tell whose contributions a rank has before rank 0 sends to all: only rank 0 has any."""
    return {0} if rank == 0 else set()


def from_owner(rank: int, chunk: int, owner: int) -> set[int]:
    """Tell whose contributions a rank has before parts are collected: its own, to its own part."""
    return {rank} if rank == owner else set()


def added(mine: np.ndarray, theirs: np.ndarray, theirs_first: bool = True) -> None:
    """Add ``theirs`` to ``mine``: the operation where only the messages count."""
    mine += theirs
