"""Ranks for experiments that need some: started once, kept for the next claim, ended at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.cluster import Cluster, Network

_started: dict[tuple[int, Network | None], Cluster] = {}


def ranks(n: int = 4, network: Network | None = None) -> Cluster:
    """Return a cluster of these ranks that all experiments of this process share.

    Between calls its ranks sleep: what one claim leaves running disturbs no other.
    """
    from helpers.cluster import Cluster

    if (n, network) not in _started:
        _started[n, network] = Cluster(n=n, network=network, preload=("torch",))
    return _started[n, network]


def end() -> None:
    """Stop all of them; the next call starts anew."""
    while _started:
        _started.popitem()[1].stop()
