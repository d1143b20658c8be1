"""`make lab` on a free port, and Chromium to look at it; both always end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from helpers.paths import ROOT

START = """
import sys, pathlib
from tools.work import main
main(sys.argv[2:], pathlib.Path(sys.argv[1]))
"""


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, its token, and the folder that it shows."""

    url: str
    token: str
    work: Path

    def address(self, name: str) -> str:
        """Return the address of a file in a workspace of its own: a tab with nothing else open."""
        return f"{self.url}lab/workspaces/{Path(name).stem}/tree/{name}?token={self.token}"


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """JupyterLab as `make lab` starts it, for a reader with a new home and no settings."""
    home = tmp_path_factory.mktemp("reader")
    (home / "course").mkdir()
    (home / "course" / "notebooks").symlink_to(ROOT / "notebooks")
    environment = {name: value for name, value in os.environ.items() if "JUPYTER" not in name}
    environment |= {"HOME": str(home), "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(home / "ipython")}
    environment |= {"JUPYTER_RUNTIME_DIR": str(home / "runtime")}
    options = ["--no-browser", "--ServerApp.port=0", "--LabApp.expose_app_in_browser=True"]
    log = home / "lab.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-c", START, str(home / "course"), "lab", *options],
            cwd=home,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        described = home / "runtime" / f"jpserver-{server.pid}.json"
        deadline = time.monotonic() + 120
        said = None
        while said is None:
            assert server.poll() is None, f"JupyterLab ended at once:\n{log.read_text()}"
            assert time.monotonic() < deadline, f"no JupyterLab after 120 s:\n{log.read_text()}"
            time.sleep(0.2)
            with contextlib.suppress(FileNotFoundError, ValueError):  # made first, written later
                said = json.loads(described.read_text())
        yield Lab(said["url"], said["token"], home / "course" / "work")
    finally:
        server.send_signal(signal.SIGTERM)  # JupyterLab ends its kernels, and they their ranks
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
