"""A machine within this machine for a class, with users, homes and a network of its own.

``python -m tests.hub.world FOLDER MODULE ARGUMENT...`` becomes the first process of namespaces that
end with it: users that are made there, what they leave, and every process are gone with it, and
this machine's own /etc, /home, /tmp and network are not touched. There it runs ``MODULE``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from helpers.cluster.start.network.system import MS_BIND, MS_NODEV, MS_NOSUID, MS_REC, mount
from helpers.paths import ROOT

HUB = ROOT / ".venv-hub"
FRESH = {"/tmp": 0o1777, "/var/tmp": 0o1777, "/dev/shm": 0o1777}
FRESH |= dict.fromkeys(("/run", "/srv", "/home"), 0o755)
NAMESPACES = ["--pid", "--fork", "--kill-child=KILL", "--mount", "--mount-proc", "--ipc", "--net"]
KEPT = Path("/mnt")


def why_not() -> str:
    """Return in one sentence why no class can be held here, '' where it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a class of Unix users takes Linux and root"
    needed = {"useradd": "passwd", "ip": "iproute2", "unshare": "util-linux"}
    missing = {needed[name] for name in needed if shutil.which(name) is None}
    if missing:
        return f"Debian's packages bring what is missing: apt install {' '.join(sorted(missing))}"
    tried = subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True)
    return "" if tried.returncode == 0 else "this container may not make namespaces"


def needed() -> list[Path]:
    """Return the folders of the installation, which everybody there must be able to read."""
    found = [ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), HUB.resolve()]
    return [one for one in found if not any(other in one.parents for other in found)]


def hidden(path: Path) -> Path | None:
    """Return the first folder on the way to ``path`` that others may not pass."""
    return next((one for one in [*path.parents][::-1] if not one.stat().st_mode & 0o001), None)


def furnish(folder: Path) -> None:
    """Mount everything: fresh folders, a copy of /etc, and the installation in sight of all."""
    mount("tmpfs", str(KEPT), "tmpfs", MS_NOSUID | MS_NODEV)
    shutil.copytree("/etc", KEPT / "etc", symlinks=True, ignore_dangling_symlinks=True)
    seen = [folder, *needed()]
    over = FRESH | {str(one): 0o755 for one in filter(None, map(hidden, needed()))}
    for number, path in enumerate(seen):
        KEPT.joinpath(str(number)).mkdir()
        mount(str(path), str(KEPT / str(number)), None, MS_BIND | MS_REC)
    for path, mode in over.items():
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV)
        os.chmod(path, mode)
    for number, path in enumerate(seen):
        if any(Path(one) in path.parents for one in over):
            path.mkdir(parents=True, exist_ok=True)
            mount(str(KEPT / str(number)), str(path), None, MS_BIND | MS_REC)
    mount(str(KEPT / "etc"), "/etc", None, MS_BIND)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def main(folder: Path, *command: str) -> int:
    """Furnish the world, run the module there, and reap whatever loses its parent meanwhile."""
    furnish(folder)
    process = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT)
    while True:
        pid, status = os.wait()
        if pid == process.pid:
            return os.waitstatus_to_exitcode(status)


def begin(folder: Path, *command: str) -> subprocess.Popen:
    """Start a world for ``command``, a module with its arguments; output goes to ``folder/out``."""
    with (folder / "out").open("w") as output:
        return subprocess.Popen(
            ["unshare", *NAMESPACES, sys.executable, "-m", "tests.hub.world", folder, *command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def groups() -> list[Path]:
    """Return the control groups of students, which are this machine's own."""
    return sorted(Path("/sys/fs/cgroup").glob("**/student-*"))


def sweep(there: set[Path]) -> None:
    """Remove the groups of a world that ended before its hub could; ``there`` were others'."""
    deadline = time.monotonic() + 5
    while (
        left := [path for path in groups() if path not in there]
    ) and time.monotonic() < deadline:
        for path in left:
            with contextlib.suppress(OSError):  # its last process is still ending
                path.rmdir()
        time.sleep(0.1)


def hold(folder: Path, students: int) -> tuple[dict, str]:
    """Hold a lesson in a world of its own; return what was seen, {} if it failed, and was said."""
    idle = 30 + 5 * students  # seconds: longer than a student waits for the others
    return watch(folder, 240 + 60 * students, "tests.hub.lesson", str(students), str(idle))


def watch(folder: Path, seconds: float, module: str, *arguments: str) -> tuple[dict, str]:
    """Run a module on ``folder`` in a world of its own; return what was seen, and was said."""
    there = set(groups())
    process = begin(folder, module, str(folder), *arguments)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        status = -1
    finally:
        process.kill()
        process.wait()
        sweep(there)
    said = (folder / "out").read_text()
    if status:
        log = folder / "hub.log"
        return {}, said + (log.read_text()[-6000:] if log.exists() else "")
    return json.loads((folder / "seen.json").read_text()), said


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
