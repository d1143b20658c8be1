"""ipyparallel's controller for ranks on this machine: sockets in a folder in place of open ports.

It differs from ipyparallel's own in five things. It opens no port: clients and engines reach it by
Unix sockets in a folder of this user. It tells when it is ready. An engine is registered as soon as
it says that it is connected, in place of at a heartbeat: there are none, since the process that
forked the ranks sees them end. When the first rank of a new set comes, the last set is gone. And it
does not keep a book of what is asked and answered.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from ipyparallel.controller import app as ipyparallel_app
from ipyparallel.controller.app import IPController
from ipyparallel.controller.hub import Hub

from helpers.cluster.rank.state import write_json


class RankController(IPController):
    """A controller whose engines are forked ranks."""

    @classmethod
    def begin(cls, folder: str, sockets: str, cluster_id: str, ready: Callable[[], None]) -> None:
        """Run until killed; call `ready` when clients and engines can connect."""
        program = cls.instance(log_level=logging.WARNING)
        program.ready = ready
        program.initialize(
            [
                f"--profile-dir={folder}/profile",
                f"--cluster-id={cluster_id}",
                "--IPController.transport=ipc",
                f"--IPController.ip={sockets}",
                "--IPController.ports=1-63",
                "--IPController.use_threads=True",
                "--IPController.log_level=WARN",
                "--IPController.enable_curve=False",  # nobody else can open the sockets
                "--IPController.db_class=ipyparallel.controller.dictdb.NoDB",
            ]
        )
        # traitlets would make a record of each message, for its handler to throw away
        program.log.setLevel(logging.WARNING)
        program.start()

    def construct_url(self, kind: str, channel: str, index: object = None) -> str:
        """Name an address ``ipc:///folder/s:7``; ipyparallel's own has ``-`` for ``:``."""
        head, _, port = super().construct_url(kind, channel, index).rpartition("-")
        return f"{head}:{port}"

    def save_connection_dict(self, fname: str, cdict: dict) -> None:
        """Keep the connection file back until there is somebody to connect to."""
        self._files = {**getattr(self, "_files", {}), fname: cdict}

    def init_hub(self) -> None:
        """Make the hub; ipyparallel has no setting for its class."""
        ipyparallel_app.Hub = RankHub
        # it sleeps 0.25 s, for sockets of a version long gone
        ipyparallel_app.time = SimpleNamespace(sleep=lambda seconds: None)
        super().init_hub()
        self.heartmonitor_process = threading.Thread(target=lambda: None)  # nothing to monitor

    def start(self) -> None:
        """Run until killed; say so as soon as it runs."""
        self.loop.add_callback(self._announce)
        super().start()

    def _announce(self) -> None:
        for name, told in self._files.items():
            write_json(Path(self.profile_dir.security_dir, name), told)
        self.ready()


class RankHub(Hub):
    """A hub that knows one set of ranks, and reads along nothing."""

    _family = ""  # whose ranks are registered

    def __init__(self, **options: object):
        super().__init__(**options)
        self.query_handlers["rank_connected"] = lambda _, message: self.finish_registration(
            message["content"]["uuid"].encode()
        )

    def dispatch_monitor_traffic(self, msg: list[bytes]) -> None:
        """Overlook what clients and engines say: to read it takes a core from the ranks."""

    def register_engine(self, reg: list[bytes], msg: dict) -> int | None:
        """Register a rank; strike the last ones off if it is the first of a new set."""
        family = msg["content"]["uuid"].rpartition("-")[0]
        if family != self._family:
            self._family = family
            for number in list(self.engines):
                self.unregister_engine([], {"content": {"id": number}})
        return super().register_engine(reg, msg)
