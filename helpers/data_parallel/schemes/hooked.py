"""PyTorch's own compressors: communication hooks of ``DistributedDataParallel``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.schemes.averaged import DDP

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

HOOKS = ("fp16", "PowerSGD", "quantisation")


class Hooked(DDP):
    """``DistributedDataParallel`` with one of PyTorch's hooks, for the default group's ranks.

    ``hook`` is "fp16" (half precision), "PowerSGD" (rank 2 from the third step on) or
    "quantisation" (8 bits for each value of a bucket).
    """

    def __init__(self, comm: Intracomm, hook: str = "fp16"):
        super().__init__(comm)
        if hook not in HOOKS:
            raise ValueError(f"a hook is one of {', '.join(HOOKS)}; got {hook!r}")
        self.hook, self.name = hook, f"torch, {hook}"

    def begin(self, replica: Replica) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks import (
            default_hooks,
            powerSGD_hook,
            quantization_hooks,
        )

        super().begin(replica)
        state: Any = None
        hooks = {
            "fp16": default_hooks.fp16_compress_hook,
            "PowerSGD": powerSGD_hook.powerSGD_hook,
            "quantisation": quantization_hooks.quantization_pertensor_hook,
        }
        if self.hook == "PowerSGD":
            state = powerSGD_hook.PowerSGDState(None, 2, start_powerSGD_iter=2)
        replica.forward.register_comm_hook(state, hooks[self.hook])  # type: ignore[operator]
