"""What one user can reach of another's, tried as that user; and what users have running."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import requests

from helpers.paths import ROOT
from tests.hub.student import HUB, Student
from tests.hub.world import groups, needed

SHARED = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/srv")
LISTENS = 0x10000  # in /proc/net/unix: SO_ACCEPTCON
SECRET = "what only the student printed"
# as another user: open files, list folders, connect to sockets; print what could be
TRY = """
import json, os, socket, stat, sys
could = []
for path in json.load(sys.stdin):
    try:
        kind = stat.S_IFREG if path.startswith("/proc/") else os.lstat(path).st_mode
        if stat.S_ISDIR(kind):
            os.listdir(path)
        elif stat.S_ISSOCK(kind):
            with socket.socket(socket.AF_UNIX) as one:
                one.connect(path)
        else:
            open(path, "rb").close()
        could.append(path)
    except OSError:
        pass
print(json.dumps(could))
"""
# as another user: listen to every port as a kernel's client listens
LISTEN = """
import json, sys, time, zmq
ports, seconds = json.load(sys.stdin)
sub = zmq.Context().socket(zmq.SUB)
sub.subscribe(b"")
for port in ports:
    sub.connect(f"tcp://127.0.0.1:{port}")
print("listening", flush=True)
heard, deadline = [], time.monotonic() + seconds
while time.monotonic() < deadline:
    if sub.poll(100):
        heard.append(b" ".join(sub.recv_multipart()).decode(errors="replace"))
print(json.dumps(heard))
"""


def as_user(name: str, program: str, told: object) -> subprocess.Popen:
    """Start a program of Python's as a user, handing it what it reads; one waits for its output."""
    user = pwd.getpwnam(name)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=os.getgrouplist(name, user.pw_gid),
        env={"HOME": user.pw_dir, "PATH": os.defpath, "PYTHONPATH": str(ROOT)},
        cwd="/",
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdin.write(json.dumps(told))
    process.stdin.close()
    return process


def could(name: str, paths: list[str]) -> list[str]:
    """Return which of the paths a user can open, list or connect to."""
    with as_user(name, TRY, paths) as process:
        return json.loads(process.stdout.read())


def answer(get: Callable[..., requests.Response], address: str) -> int:
    """Return the status with which a server answers, 0 if it speaks no HTTP."""
    try:
        return get(address, timeout=5).status_code
    except requests.RequestException:
        return 0


def owned(uid: int) -> list[str]:
    """Return every file, folder and socket of a user, and what /proc shows of the processes."""
    home = Path(pwd.getpwuid(uid).pw_dir)
    found = [str(home), *map(str, home.rglob("*"))]
    for top in map(Path, SHARED):
        for path in top.rglob("*"):
            with contextlib.suppress(OSError):
                if path.lstat().st_uid == uid:
                    found.append(str(path))
    for process in of(uid):
        found += [f"/proc/{process.pid}/{name}" for name in ("environ", "mem", "maps")]
    return found


def of(uid: int) -> list[psutil.Process]:
    """Return a user's living processes."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().real == uid and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def ranks(uid: int) -> list[int]:
    """Return the numbers of a user's processes that hold MPI's shared memory."""
    found = []
    for process in of(uid):
        with contextlib.suppress(OSError):
            if "mpich_shm" in Path(f"/proc/{process.pid}/maps").read_text():
                found.append(process.pid)
    return found


def pss(uid: int) -> int:
    """Return the bytes that a user's processes take, what is shared counted once, in parts."""
    total = 0
    for process in of(uid):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            total += int(text.split("\nPss:")[1].split()[0]) << 10
    return total


def ports(uid: int) -> list[int]:
    """Return the TCP ports on which a user listens."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[7]) == uid:
                found.add(int(words[1].rpartition(":")[2], 16))
    return sorted(found)


def outside() -> list[str]:
    """Return the addresses other than loopback's on which anybody listens."""
    local = {"0100007F", "00000000000000000000000001000000"}
    found = []
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[1].rpartition(":")[0] not in local:
                found.append(words[1])
    return found


def pry(student: Student, victim: Student, files: list[str], uid: int) -> dict:
    """Let a student try the files of others, and the kernel and server of one; return what was."""
    seen = {
        "paths": len(files),
        "sockets": sum(Path(path).is_socket() for path in files),
        "connection files": sum("/runtime/kernel-" in path for path in files),
        "ports": len(ports(uid)),
        "reached": could(student.name, files),
    }
    with as_user(student.name, LISTEN, [ports(uid), 2.0]) as listener:
        assert listener.stdout.readline() == "listening\n"
        time.sleep(0.5)  # connections are made meanwhile
        assert SECRET in victim.run(f"print({SECRET!r})")
        seen["heard"] = json.loads(listener.stdout.readline())
    doors = [HUB, *(f"http://127.0.0.1:{port}" for port in ports(uid))]
    path = f"/user/{victim.name}/api/contents"
    seen["served"] = [answer(student.session.get, door + path) for door in doors]
    return seen


def all_on_all(students: list[Student], uids: dict[str, int]) -> dict[str, dict]:
    """Let each student pry into all others; return by name what was tried and could be done."""
    files = {student.name: owned(uids[student.name]) for student in students}

    def into_others(pair: tuple[Student, Student]) -> dict:
        student, victim = pair
        theirs = [path for name in files if name != student.name for path in files[name]]
        return pry(student, victim, theirs, uids[victim.name])

    pairs = list(zip(students, [*students[1:], students[0]], strict=True))
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(into_others, pairs)
        return {student.name: told for (student, _), told in zip(pairs, found, strict=True)}


def of_all(student: str) -> dict[str, list[str]]:
    """Return what a user can reach of root's, and what all listen on that no file guards."""
    sockets = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    listening = [words[-1] for words in sockets if int(words[3], 16) & LISTENS]
    seen = {"outside": outside()}
    # MPI's ranks have sockets of such names too, which do not listen
    seen["abstract"] = [name for name in listening if name.startswith("@")]
    user = pwd.getpwnam(student)
    kinds = ("(", "-type", "d", "-o", "-type", "f", ")")
    seen["writable"] = subprocess.run(
        ["find", *map(str, needed()), *kinds, "-writable", "-print"],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=os.getgrouplist(student, user.pw_gid),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ).stdout.splitlines()
    secrets = [*map(str, Path("/srv/jupyterhub").rglob("*")), "/srv/jupyterhub", "/etc/shadow"]
    secrets += [f"/proc/{process.pid}/environ" for process in of(0)]
    seen["of root's"] = could(student, secrets)
    return seen


def listed(folder: str, uids: dict[str, int]) -> dict[str, list[str]]:
    """Return what is in a folder, and who of the users can list it."""
    return {
        "there": sorted(os.listdir(folder)),
        "could": [name for name in uids if could(name, [folder])],
    }


def gone(uids: Iterable[int], seconds: float) -> list[str]:
    """Wait until none of the users has a process; return the command lines of those left."""
    deadline = time.monotonic() + seconds
    while True:
        left = []
        for uid in uids:
            for process in of(uid):
                with contextlib.suppress(psutil.Error):
                    left.append(f"{process.username()}: {' '.join(process.cmdline())}")
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.5)


def traces(but: Path) -> set[str]:
    """Return all that lies in the folders that users share, and the control groups."""
    paths = {path for top in SHARED[:-1] for path in Path(top).rglob("*")}
    found = {str(path) for path in paths if but not in path.parents}
    return found | set(map(str, groups()))


def processes() -> list[str]:
    """Return the command lines of all processes but this one and the world's first."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid not in (1, os.getpid()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found
