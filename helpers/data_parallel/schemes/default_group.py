"""What schemes over ``torch.distributed`` have in common: the default group must be theirs."""

from __future__ import annotations

import torch.distributed as dist

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme


class DefaultGroup(Scheme):
    """A scheme that moves gradients by the default group of ``torch.distributed``."""

    def begin(self, replica: Replica) -> None:
        ranks = self.comm.Get_size()
        if not dist.is_initialized():
            raise ValueError(
                f"{type(self).__name__} needs torch.distributed: import helpers.torch_mpi, then "
                "call torch.distributed.init_process_group('mpi4py', init_method='mpi://')"
            )
        if dist.get_world_size() != ranks:
            raise ValueError(
                f"the default group of torch.distributed has {dist.get_world_size()} ranks, "
                f"the communicator {ranks}"
            )
        super().begin(replica)
