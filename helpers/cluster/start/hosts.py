"""The hosts of one cluster as the notebook's side sees them: asked for, waited for, ended."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

from helpers.cluster.errors import StartError
from helpers.cluster.start.forkserver import handle
from helpers.cluster.start.network import Network
from helpers.cluster.start.network.keeper import Told

KEEPER = "helpers.cluster.start.network.keeper"
CONNECT_SECONDS = 60.0
LOOK_SECONDS = 0.05  # the answer itself ends the wait
STOP_SECONDS = 5.0


class Hosts:
    """The hosts of one cluster, which a process of the fork server makes and keeps."""

    def __init__(self, asked: Network, n: int, folder: Path) -> None:
        self.asked = asked
        self.places = asked.places(n)
        self.names = [asked.names[place] for place in self.places]  # of each rank's host
        self.mapping = asked.mapping(n)
        self.status = folder / "network.json"
        self._folder = folder
        self._family = f"{folder.name}-network"

    def begin(self, server: handle.ForkServer) -> list[int]:
        """Ask for the hosts; return the numbers of the requests."""
        self.status.unlink(missing_ok=True)
        server.forget(self._family)
        options = {"folder": str(self._folder), "network": asdict(self.asked)}
        return [
            server.require(KEEPER),
            server.fork(self._family, "network", 1, options, self._folder),
        ]

    def wait(self, server: handle.ForkServer) -> None:
        """Wait until the hosts are there; raise StartError with the reason if they cannot be."""
        deadline = time.monotonic() + CONNECT_SECONDS
        while not server.ready(self._family, LOOK_SECONDS):
            if self.gone(server) or time.monotonic() > deadline:
                told = Told.read(self.status)
                output = handle.output_file(self._folder, "network").read_text(errors="replace")
                why = (told and told.error) or output.strip() or "it took too long"
                raise StartError(f"{self.asked!r} cannot be had here: {why}.")

    def gone(self, server: handle.ForkServer) -> bool:
        """Tell whether the hosts have ended, or the process that forks."""
        return server.gone(self._family)

    def kill(self, server: handle.ForkServer) -> None:
        """End the hosts."""
        if not self.gone(server):
            server.call("kill", name=self._family)
            server.wait(self._family, STOP_SECONDS)

    def options(self) -> dict:
        """Return the options by which a rank finds its host."""
        return {"status": str(self.status), "places": list(self.places)}
