"""What torch asks of a process group besides communication: names, ranks, what it can do."""

# mypy: disable-error-code="override, assignment, call-arg"
# Torch declares these methods of a class that C++ makes; Python's are called in their stead.

from __future__ import annotations

import torch
import torch.distributed as dist

from helpers.torch_mpi.transport import BACKEND


class Identity(dist.ProcessGroup):
    """A process group's answers about itself, under the names that torch calls."""

    def __init__(self, rank: int, size: int, name: str, store: dist.Store | None):
        super().__init__(rank, size)
        self._rank, self._size, self._store = rank, size, store
        self._name = self._description = name

    def getBackendName(self) -> str:  # noqa: N802 (torch's own spelling, here and below)
        """Return ``"mpi4py"``."""
        return BACKEND

    _get_backend_name = name = getBackendName

    def rank(self) -> int:
        """Return this rank's number in the group."""
        return self._rank

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    getRank, getSize = rank, size  # noqa: N815

    def getGroupName(self) -> str:  # noqa: N802
        """Return the group's name."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Change the group's name."""
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """Return the group's description."""
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """Change the group's description."""
        self._description = description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> Identity:
        return self

    def get_group_store(self) -> dist.Store | None:
        """Return the store at which the group's ranks have met."""
        return self._store

    def _has_hooks(self) -> bool:
        return False

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False
