"""The schemes: what travels between the ranks in a step of training.

Synchronous, gradients averaged: :class:`Ring` (our own allreduce), :class:`MPIAllreduce`,
:class:`PerTensor` (``torch.distributed``), :class:`DDP`, :class:`ByFunction` (yours); by a server,
:class:`Server`; the first of them, :class:`Backup`. Compressed: :class:`Compressed`,
:class:`PowerSGD`. Asynchronous: :class:`Asynchronous`, with cures
:class:`StalenessAware` and :class:`Elastic`, and without a handshake :class:`Unannounced` (whose
receive is yours).

Parameters averaged now and then: :class:`LocalSGD`, :class:`PostLocalSGD`, :class:`DiLoCo`; with
two neighbours only, :class:`Gossip`; and to compare with, :class:`SometimesAveraged`, a source's
mixture, and :class:`AtTheMean`, which the loss's curvature does not pull together.
"""

from helpers.data_parallel.history import Stop
from helpers.data_parallel.schemes.asynchronous import Asynchronous
from helpers.data_parallel.schemes.averaged import (
    DDP,
    ByFunction,
    MPIAllreduce,
    PerTensor,
    Ring,
    Server,
)
from helpers.data_parallel.schemes.backup import Backup
from helpers.data_parallel.schemes.compressed import Compressed, PowerSGD
from helpers.data_parallel.schemes.cures import Elastic, StalenessAware
from helpers.data_parallel.schemes.gossip import Gossip
from helpers.data_parallel.schemes.local import (
    AtTheMean,
    DiLoCo,
    LocalSGD,
    PostLocalSGD,
    SometimesAveraged,
)
from helpers.data_parallel.schemes.unannounced import Unannounced

__all__ = [
    "DDP",
    "Asynchronous",
    "AtTheMean",
    "Backup",
    "ByFunction",
    "Compressed",
    "DiLoCo",
    "Elastic",
    "Gossip",
    "LocalSGD",
    "MPIAllreduce",
    "PerTensor",
    "PostLocalSGD",
    "PowerSGD",
    "Ring",
    "Server",
    "SometimesAveraged",
    "StalenessAware",
    "Stop",
    "Unannounced",
]
