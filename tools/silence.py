"""How long each cell says nothing while it runs: a reader who sees nothing thinks that it hangs.

``install`` has each notebook that this process executes tell of its cells, in their metadata, the
longest time without anything new.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from jupyter_client import KernelManager
from jupyter_client.jsonutil import extract_dates
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbmake import nb_run

LIMIT = 5.0  # seconds after which a reader should see that something goes on
MARK = "silence"  # metadata: the longest, in seconds
SHOWN = ("stream", "error", "execute_result", "display_data", "update_display_data", "comm_msg")


class Silence(NamedTuple):
    """A cell that says nothing for long: its number from 1, its first line, and the seconds."""

    number: int
    line: str
    longest: float


class Watched(NotebookClient):
    """A client that looks at its clock whenever a cell shows something, and at the cell's end."""

    since: datetime

    def create_kernel_manager(self) -> KernelManager:
        """Do as nbclient does, and encrypt what passes, as ``make lab`` does."""
        manager = super().create_kernel_manager()
        manager.transport_encryption = "auto"
        return manager

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> Any:
        """Do as nbclient does, and measure by the kernel's clock, which the message tells."""
        kind = msg["msg_type"]
        now = extract_dates(msg["header"]["date"])  # text, where ipyparallel has been imported
        if kind == "execute_input":
            self.since = now
            cell.metadata[MARK] = 0.0
        elif MARK in cell.metadata and (
            kind in SHOWN or (kind == "status" and msg["content"]["execution_state"] == "idle")
        ):
            now = max(now, self.since)  # a cell's value has the time before it was formatted
            silent = round((now - self.since).total_seconds(), 3)
            cell.metadata[MARK] = max(cell.metadata[MARK], silent)
            self.since = now
        return super().process_message(msg, cell, cell_index)


def install() -> None:
    """Have nbmake execute notebooks with such a client from now on."""
    nb_run.NotebookClient = Watched  # type: ignore[attr-defined]


def silent_cells(notebook: NotebookNode, limit: float = LIMIT) -> list[Silence]:
    """Return the cells of an executed notebook that showed nothing for longer than a limit."""
    return [
        Silence(number, cell.source.strip().partition("\n")[0], cell.metadata[MARK])
        for number, cell in enumerate(notebook.cells, 1)
        if cell.metadata.get(MARK, 0.0) > limit
    ]
