"""`make hub`, typed as the recipe says, used by a student and ended; what was seen goes to a file.

``python -m tests.hub.typed FOLDER SIGNAL`` runs within a world (``tests.hub.world``) and writes
``FOLDER/seen.json``. Ctrl-C at a terminal is SIGINT to make and all that it started; `kill` of
make is SIGTERM to make alone.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from helpers.paths import ROOT
from tests.hub import prying
from tests.hub.lesson import RECIPE, answers, enrol
from tests.hub.student import Student

NAME = "ada"


def command() -> list[str]:
    """Return the line by which the recipe starts the hub."""
    text = (RECIPE / "README.md").read_text(encoding="utf-8")
    line = shlex.split(re.search(r"^## 3\. .*?```text\n(make hub .*?)\n", text, re.M | re.S)[1])
    return [*shlex.split(os.environ.get("MAKE") or line[0]), *line[1:]]


def main(folder: Path, how: str) -> None:
    """Type it, let a student run a cell, end it, and look at what is left."""
    enrol([NAME])
    before = prying.traces(folder)
    programs = [str(Path(shutil.which("node")).parent), "/usr/local/bin", "/usr/bin", "/bin"]
    with (folder / "hub.log").open("w") as output:
        hub = subprocess.Popen(
            command(),
            cwd=ROOT,
            env={"PATH": os.pathsep.join([*programs, "/usr/sbin", "/sbin"]), "LANG": "C.UTF-8"},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    answers(hub, 300)
    student = Student(NAME, f"secret of {NAME}")
    student.enter()
    student.open("00_start_here.ipynb")
    seen = {"cell": student.run("import helpers; 6 * 7"), "running": len(prying.processes())}
    if how == "SIGINT":
        os.killpg(hub.pid, signal.SIGINT)
    else:
        hub.send_signal(signal.Signals[how])
    seen["ended with"] = hub.wait(120)
    deadline = time.monotonic() + 20
    while prying.processes() and time.monotonic() < deadline:
        time.sleep(0.2)
    seen["processes"] = prying.processes()
    seen["left"] = sorted(prying.traces(folder) - before)
    seen["listening"] = prying.ports(0) + prying.outside()
    (folder / "seen.json").write_text(json.dumps(seen, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
