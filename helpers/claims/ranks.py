"""Ranks for experiments that need some: started once, kept for the next claim, ended at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.cluster import Cluster

_started: dict[int, Cluster] = {}


def ranks(n: int = 4) -> Cluster:
    """Return a cluster that all experiments of this process share.

    Between calls its ranks sleep: what one claim leaves running disturbs no other.

    Parameters
    ----------
    n : int
        Number of ranks.

    Returns
    -------
    helpers.cluster.Cluster
        The same at each call with this ``n``.
    """
    from helpers.cluster import Cluster

    if n not in _started:
        _started[n] = Cluster(n=n, preload=("torch",))
    return _started[n]


def end() -> None:
    """Stop all of them; the next call starts anew."""
    while _started:
        _started.popitem()[1].stop()
