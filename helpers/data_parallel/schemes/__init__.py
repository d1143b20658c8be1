"""The schemes: what travels between the ranks in a step of training.

Gradients averaged in step: :class:`Ring` (our own allreduce), :class:`MPIAllreduce`,
:class:`PerTensor` (``torch.distributed``), :class:`DDP`, :class:`Buckets`, :class:`ByFunction`
(yours); by a server, :class:`Server`; the first of them, :class:`Backup`. Compressed:
:class:`Compressed`, :class:`PowerSGD`, :class:`Hooked` (PyTorch's). Out of step:
:class:`Asynchronous`, with cures :class:`StalenessAware` and :class:`Elastic`, and without a
handshake :class:`Unannounced` (whose receive is yours).

Parameters averaged now and then: :class:`LocalSGD`, :class:`PostLocalSGD`, :class:`DiLoCo`; with
two neighbours only, :class:`Gossip`; and to compare with, :class:`SometimesAveraged`, a source's
mixture, and :class:`AtTheMean`, which the loss's curvature does not pull together.
"""

from helpers.data_parallel.schemes.asynchronous import Asynchronous, StalenessAware
from helpers.data_parallel.schemes.averaged import DDP, ByFunction, MPIAllreduce, PerTensor, Ring
from helpers.data_parallel.schemes.backup import Backup
from helpers.data_parallel.schemes.buckets import Buckets
from helpers.data_parallel.schemes.compressed import Compressed
from helpers.data_parallel.schemes.diloco import DiLoCo
from helpers.data_parallel.schemes.elastic import Elastic
from helpers.data_parallel.schemes.gossip import Gossip
from helpers.data_parallel.schemes.hooked import Hooked
from helpers.data_parallel.schemes.local import AtTheMean, LocalSGD, PostLocalSGD, SometimesAveraged
from helpers.data_parallel.schemes.power_sgd import PowerSGD
from helpers.data_parallel.schemes.server import Server
from helpers.data_parallel.schemes.unannounced import Unannounced
from helpers.data_parallel.stop import Stop

__all__ = [
    "DDP",
    "Asynchronous",
    "AtTheMean",
    "Backup",
    "Buckets",
    "ByFunction",
    "Compressed",
    "DiLoCo",
    "Elastic",
    "Gossip",
    "Hooked",
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
