"""Try the course on a machine where nobody has ever worked (``make test-all PART=bare-machine``).

A fresh Debian with only what the README asks for, an ordinary user with an empty home, and the
64 MB of ``/dev/shm`` that containers give. There the README's first command is typed, JupyterLab
must answer, notebooks are executed, and at the end nothing may be left but what docs/INSTALL.md
names.

The machine is a folder in mount, process and IPC namespaces of its own, which end with this
program, however it ends; it shares the network and pip's settings with the one it runs on. The
clone is of the last commit. Needs only Python's own library, and ``mmdebstrap``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.probe import pip_settings

ROOT = Path(__file__).resolve().parents[1]
ON_DISK = ROOT / "docs" / "INSTALL.md"  # names what may be left
RELEASE = "bookworm"
USER = "student"
NOTEBOOKS = ("00", "02", "05")
SHARED_MEMORY = "64m"
NAMESPACES = ("unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc")
GRACE = 5.0  # seconds in which the last processes may end
LIMIT = 900.0  # seconds for a step
# With a reader's packages alone: tools.run needs those of the tests.
EXECUTE = """
import glob, sys, nbformat
from nbclient import NotebookClient
from tools import replies
replies.install()
(path,) = glob.glob(f"work/{sys.argv[1]}_*.ipynb")
NotebookClient(nbformat.read(path, 4), timeout=180).execute(cwd="work")
"""
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/lab[\w/.]*\?token=\w+")


class TrialError(RuntimeError):
    """The course does not work there, or left something; the message says which."""


# --- what the pages say -----------------------------------------------------------------------
def first_command(readme: str, address: str) -> str:
    """Return the README's first commands as one line of shell, after a clone of ``address``."""
    block = re.search(r"^## Two commands\n[^`#]*```bash\n(.*?)```", readme, re.M | re.S)
    folder = re.match(r"cd ([\w-]+)\n", block[1]) if block else None
    if not block or not folder:
        raise TrialError("README.md has no commands under '## Two commands' that begin with cd")
    lines = [f"git clone {shlex.quote(address)} {folder[1]}", *block[1].split("\n")]
    return " && ".join(filter(None, lines))


def packages(dockerfile: str) -> list[str]:
    """Return the Debian packages that the Dockerfile installs before it sets the course up."""
    found = re.search(r"--no-install-recommends((?:\s|\\|[\w.+-])+)&&", dockerfile)
    if not found:
        raise TrialError("Dockerfile has no `apt-get install --no-install-recommends ... &&`")
    return found[1].replace("\\", " ").split()


def undocumented(found: Iterable[str], page: str, user: str = USER) -> list[str]:
    """Return those of the paths (``~/.cache/x``) that the page's section does not name."""
    section = re.search(r"^## What it leaves on your disk\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    text = section[1].replace("YOU", user).replace("UID", str(os.getuid())) if section else ""
    named = re.findall(r"`((?:~|/tmp)/[^`\s]+?)/?`", text)
    return sorted(p for p in found if not any(f"{p}/".startswith(f"{name}/") for name in named))


# --- the machine ------------------------------------------------------------------------------
def hindrance() -> str:
    """Return why no bare machine can be made here, '' where it can."""
    if not sys.platform.startswith("linux"):
        return f"it takes Linux, and this is {sys.platform}"
    if os.geteuid() != 0:
        return f"it takes root, and this is {pwd.getpwuid(os.geteuid()).pw_name}"
    if shutil.which("mmdebstrap") is None:
        return "mmdebstrap is not installed (apt install mmdebstrap)"
    tried = subprocess.run(
        [*NAMESPACES, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True
    )
    if tried.returncode:
        return f"this root may not make namespaces and mounts: {tried.stderr.decode().strip()}"
    return ""


def bootstrap(machine: Path) -> None:
    """Unpack Debian with the Dockerfile's packages, which are the README's, into the folder."""
    include = ",".join(packages((ROOT / "Dockerfile").read_text(encoding="utf-8")))
    _call(
        *("mmdebstrap", "--quiet", "--variant=apt", f"--include={include}"),
        *('--aptopt=Acquire::Languages "none"', "--dpkgopt=force-unsafe-io", RELEASE, str(machine)),
    )


def furnish(machine: Path) -> None:
    """Mount what a container has, hand on network and pip's settings, and add the user."""
    _call("mount", "--make-rprivate", "/")
    _mount("proc", machine / "proc", "-t", "proc")
    _mount("sysfs", machine / "sys", "-t", "sysfs", "-o", "ro")
    _mount("/dev", machine / "dev", "--rbind")
    _mount("shm", machine / "dev/shm", "-t", "tmpfs", "-o", f"mode=1777,size={SHARED_MEMORY}")
    for name in ("resolv.conf", "hosts"):
        shutil.copy(Path("/etc", name), machine / "etc")
    settings = pip_settings()
    lines = [f"{name} = {value}" for name, value in settings.items() if name != "cache-dir"]
    (machine / "etc/pip.conf").write_text("\n".join(["[global]", *lines, ""]))
    for path in local_paths(settings.values()):
        _bind(path, machine)
    _call("chroot", str(machine), "useradd", "--create-home", "--shell", "/bin/bash", USER)


def local_paths(values: Iterable[str]) -> list[Path]:
    """Return the files and folders on this machine that settings name, an index with its files."""
    paths = set()
    for word in " ".join(values).split():
        path = Path(word.removeprefix("file://"))
        if path.is_absolute() and path.exists():
            paths.add(path.parent if path.name == "simple" else path)
    return sorted(paths)


def _bind(path: Path, machine: Path) -> None:
    """Show a file or folder of this machine at the same place there, read-only."""
    target = machine / path.relative_to("/")
    (target if path.is_dir() else target.parent).mkdir(parents=True, exist_ok=True)
    if not path.is_dir():
        target.touch()
    _call("mount", "--bind", "-o", "ro", str(path), str(target))


def _mount(what: str, where: Path, *options: str) -> None:
    where.mkdir(exist_ok=True)
    _call("mount", *options, what, str(where))


def _call(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        raise TrialError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


# --- the user ---------------------------------------------------------------------------------
def as_user(machine: Path, command: str) -> list[str]:
    """Return the command line that types ``command`` there in a fresh login shell."""
    return ["chroot", str(machine), "su", "-", USER, "-c", command]


@contextlib.contextmanager
def lab(machine: Path, command: str, log: Path) -> Iterator[None]:
    """Type the README's command, wait until JupyterLab answers, and end it as Ctrl+C does."""
    with log.open("wb") as output:
        shell = subprocess.Popen(
            as_user(machine, command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + LIMIT
    while not (address := ADDRESS.search(log.read_text(errors="replace"))):
        if shell.poll() is not None or time.monotonic() > deadline:
            raise TrialError(f"no JupyterLab came:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.2)
    with urllib.request.urlopen(address[0], timeout=60) as page:
        if "JupyterLab" not in page.read().decode():
            raise TrialError(f"{address[0]} is not JupyterLab's page")
    yield
    for number, line in processes(machine).items():
        if "jupyterlab" in line:
            os.kill(number, 15)  # as two Ctrl+C, without the question
    shell.wait(30)


def processes(machine: Path) -> dict[int, str]:
    """Return the user's living processes: the command line by number."""
    user = (machine / "home" / USER).stat().st_uid
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state = folder.joinpath("stat").read_text().rpartition(")")[2].split()[0]
            if folder.stat().st_uid == user and state != "Z":
                line = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = line.strip()
    return found


def left_behind(machine: Path, before: set[str], page: str) -> list[str]:
    """Return a sentence for each thing that is there and should not be."""
    deadline = time.monotonic() + GRACE
    while (alive := processes(machine)) and time.monotonic() < deadline:
        time.sleep(0.2)
    found = [f"process {number} still runs: {line}" for number, line in alive.items()]
    there = set(at_home(machine)) - before
    for folder in ("dev/shm", "tmp", "var/tmp"):
        there |= {f"/{folder}/{path.name}" for path in (machine / folder).iterdir()}
    segments = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    found += [f"shared memory segment {line.split()[1]}" for line in segments]
    return found + [
        f"{path}, which {ON_DISK.name} does not name" for path in undocumented(there, page)
    ]


def at_home(machine: Path) -> list[str]:
    """Return what is in the user's home, as ``~/course`` and, below hidden folders, every file."""
    home = machine / "home" / USER
    found = []
    for top in home.iterdir():
        below = [top]
        if top.is_dir() and top.name.startswith("."):
            below = [p for p in top.rglob("*") if not p.is_dir() or not any(p.iterdir())] or below
        found += [f"~/{path.relative_to(home)}" for path in below]
    return found


# --- the trial --------------------------------------------------------------------------------
def trial(machine: Path, notebooks: Iterable[str]) -> None:
    """Do all of it, printing the seconds of each step. Raises TrialError."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    with step("Debian with the README's packages"):
        bootstrap(machine)
        furnish(machine)
        bundle = machine / "srv/course.bundle"
        safe = ("git", "-c", "safe.directory=*", "-C", str(ROOT))
        _call(*safe, "bundle", "create", "--quiet", str(bundle), "HEAD")
    before = set(at_home(machine))
    command = first_command(readme, "/srv/course.bundle")
    with contextlib.ExitStack() as running:
        with step(command):
            running.enter_context(lab(machine, command, machine / "var/log/lab"))
        (clone,) = {path for path in at_home(machine) if not path.startswith("~/.")}
        for number in notebooks:
            with step(f"notebook {number}"):
                execute = f"cd {clone} && .venv/bin/python -c {shlex.quote(EXECUTE)} {number}"
                _call(*as_user(machine, execute))
    with step("JupyterLab has ended, and nothing is left"):
        before |= {clone}
        changed = _call(*as_user(machine, f"cd {clone} && git status --porcelain"))
        page = ON_DISK.read_text(encoding="utf-8")
        found = [*changed.splitlines(), *left_behind(machine, before, page)]
    if found:
        raise TrialError("\n".join(["left behind:", *found]))


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Print how long the step took."""
    began = time.monotonic()
    yield
    print(f"{time.monotonic() - began:6.1f} s  {what}", flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bare_machine", description=__doc__)
    parser.add_argument("notebooks", nargs="*", default=NOTEBOOKS, metavar="NN")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        try:
            trial(options.inside, options.notebooks)
        except (TrialError, subprocess.TimeoutExpired) as error:
            print(f"bare machine: {error}", file=sys.stderr)
            return 1
        return 0
    if why := hindrance():
        print(f"bare machine: not possible, because {why}")
        return 1
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of `finally`
    machine = Path(tempfile.mkdtemp(prefix="bare-machine-", dir="/var/tmp"))
    machine.chmod(0o755)
    inner = [sys.executable, "-m", "tools.bare_machine", "--inside", str(machine)]
    try:
        status = subprocess.run([*NAMESPACES, *inner, *options.notebooks], cwd=ROOT).returncode
    finally:  # the namespaces and all that was mounted in them have ended
        shutil.rmtree(machine)
    print(f"bare machine: {time.monotonic() - began:.0f} s together, exit status {status}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
