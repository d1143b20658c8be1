"""What torch asks of a process group besides communication: names, ranks, what it can do."""

from __future__ import annotations

import torch
import torch.distributed as dist


class Identity(dist.ProcessGroup):
    """A process group's answers about itself, from its ``transport`` and its communicator."""

    def getBackendName(self) -> str:  # noqa: N802 (torch's own spelling, here and below)
        return "mpi4py"

    def getRank(self) -> int:  # noqa: N802
        return self._comm.Get_rank()

    def getSize(self) -> int:  # noqa: N802
        return self._comm.Get_size()

    def rank(self) -> int:
        return self.transport.rank

    def size(self) -> int:
        return self.transport.size

    def name(self) -> str:
        return "mpi4py"

    def getGroupName(self) -> str:  # noqa: N802
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        self._description = description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> Identity:
        return self

    def _get_backend_name(self) -> str:
        return "mpi4py"

    def get_group_store(self) -> dist.Store:
        return self._store

    def _has_hooks(self) -> bool:
        return False

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence
