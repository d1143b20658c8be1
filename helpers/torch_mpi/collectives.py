"""torch.distributed's collectives: each is flattened here and handed to the group's transport.

The methods have torch's names and take what torch hands over: lists of one tensor, and an options
object with the time limit and whether the caller waits (older parts of torch pass a root, a reduce
operation or a time limit in its place). What torch checks before it calls is not checked again.
"""

from __future__ import annotations

from helpers.torch_mpi.exchanging import Exchanging
from helpers.torch_mpi.gathering import Gathering
from helpers.torch_mpi.reducing import Reducing


class Collectives(Reducing, Gathering, Exchanging):
    """The collectives of a process group, each kind in a file of its own."""
