"""Run a command and end it, with every process it started, as soon as its owner is gone.

``python -I -S guard.py LOCK FOLDER COMMAND...``: the owner (a notebook's kernel) holds a lock on
the file LOCK. The operating system drops that lock when the owner ends in any way, ``kill -9``
included; then the command's processes are killed and FOLDER is removed. SIGTERM ends the command at
once. mpiexec puts its ranks in sessions of their own: a signal to a process group would miss them.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence

SHARED = "/dev/shm/mpich_shm_"  # how the names of MPICH's files in shared memory begin
TOPOLOGIES = "hydra_hwloc_xmlfile_"  # and of those in /tmp that MPICH's mpiexec makes for its ranks
PROXY = "(hydra_pmi_proxy)"  # the process of mpiexec that makes them, as /proc writes its name
OPEN_MPI = "/dev/shm/sm_segment."  # and of those of Open MPI's ranks
GENTLE_SECONDS = 0.5
CLEARING_SECONDS = 5.0  # that Open MPI's launcher has: it removes a folder and the ranks' memory
OLD_SECONDS = 300.0
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36


def prctl(option: int, value: int) -> None:
    """Tell Linux something about this process."""
    import ctypes  # a guard begins without

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def descendants(*roots: int) -> list[int]:
    """Return the ids of all processes below others, parents first."""
    children: dict[int, list[int]] = {}
    for pid, parent in _processes():
        children.setdefault(parent, []).append(pid)
    found, queue = [], list(roots)
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def kill_tree(root: int) -> None:
    """SIGKILL ``root`` and all processes below it; a process that is gone already is no error."""
    for pid in [root, *descendants(root)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_gently(root: int) -> None:
    """End a program that starts ranks, such as mpiexec, and all below it, within half a second.

    mpiexec removes its file in /tmp if it is asked to end. Open MPI's removes a folder, which may
    take longer. Ranks leave a file in shared memory.
    """
    below = descendants(root)
    beginnings = (SHARED, OPEN_MPI)
    files = shared_files(*below, beginnings=beginnings)
    if below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(root, signal.SIGTERM)
        patient = any(name.startswith("prte") for name in map(_name, (root, *below)))
        deadline = time.monotonic() + (CLEARING_SECONDS if patient else GENTLE_SECONDS)
        # A launcher whose ranks have ended may still be clearing up.
        while (still := descendants(root)) or _running(root):
            if time.monotonic() > deadline:
                break
            files |= shared_files(*still, beginnings=beginnings)  # ranks may be just starting
            time.sleep(0.01)
    for pid in [root, *below, *descendants(root)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for name in files:
        with contextlib.suppress(OSError):  # the ranks have removed it
            os.unlink(name)
    sweep_topologies(but=below)


def _running(pid: int) -> bool:
    """Return whether a process has not ended; one that nobody has waited for yet has."""
    if not os.path.isdir("/proc/self"):  # macOS
        look = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE)
        return look.stdout.strip() not in (b"", b"Z")
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _name(pid: int) -> str:
    """Return what a process is called, empty where that is not told."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
        return file.read().strip()
    return ""


def shared_files(*pids: int, beginnings: Sequence[str] = (SHARED,)) -> set[str]:
    """Return the paths of files in shared memory by which processes talk (default: MPICH's)."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/maps") as file:
            lines = [line for line in file if any(begin in line for begin in beginnings)]
            found |= {line.split(None, 5)[5].rstrip("\n") for line in lines}
    return {name for name in found if not name.endswith(" (deleted)")}


def sweep_topologies(folder: str = "/tmp", but: Collection[int] = ()) -> None:
    """Remove files with the machine's topology that MPICH's mpiexec leaves behind if it is killed.

    Which file is whose cannot be told, but a file that is older than every process that makes them
    is nobody's. (A rank reads it in its first second: it may go when it is minutes old.) Processes
    in ``but`` have been killed, and may not be gone yet.
    """
    oldest = min(_proxies_started(but), default=time.time())
    for name in os.listdir(folder):
        if not name.startswith(TOPOLOGIES):
            continue
        with contextlib.suppress(OSError):  # swept by another
            path = os.path.join(folder, name)
            found = os.lstat(path)
            made = found.st_mtime
            if found.st_uid == os.getuid() and (
                made < oldest - 0.02 or time.time() - made > OLD_SECONDS
            ):
                os.unlink(path)


def unlink_topology(rank: int, folder: str = "/tmp") -> None:
    """Remove the file with the machine's topology that the mpiexec of a rank has made, on Linux.

    Its proxy makes it when the first rank starts MPI; call this once all ranks have. Where two
    files are younger than the proxy nobody can tell whose they are: both stay, until their mpiexec
    ends.
    """
    if not os.path.isdir("/proc/self"):
        return
    proxy, _, began = _stat(int(_stat(rank)[1][1]))
    found = []
    for name in os.listdir(folder) if proxy == PROXY else ():
        if name.startswith(TOPOLOGIES):
            with contextlib.suppress(OSError):  # its mpiexec has ended
                look = os.lstat(os.path.join(folder, name))
                if look.st_uid == os.getuid() and look.st_mtime > began - 0.02:
                    found.append(name)
    if len(found) == 1:
        os.unlink(os.path.join(folder, found[0]))


def _proxies_started(but: Collection[int]) -> list[float]:
    """Return when each living process that makes such files began, in seconds since 1970."""
    if not os.path.isdir("/proc/self"):  # macOS: only old files are swept
        return [0.0]
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            name, fields, began = _stat(int(pid))
            if name == PROXY and int(pid) not in but and fields[0] != "Z":
                found.append(began)
    return found


def _stat(pid: int) -> tuple[str, list[str], float]:
    """Return a process's name in parentheses, the fields after it, and when it began, on Linux."""
    with open(f"/proc/{pid}/stat") as file:
        called, _, rest = file.read().partition(" ")[2].rpartition(")")
    fields = rest.split()
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return f"{called})", fields, booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _processes() -> list[tuple[int, int]]:
    """Return (pid, parent's pid) of every process."""
    if not os.path.isdir("/proc/self"):  # macOS
        look = subprocess.Popen(["ps", "-axo", "pid=,ppid="], stdout=subprocess.PIPE, text=True)
        lines = look.communicate(timeout=10)[0].splitlines()
        pairs = [(int(pid), int(parent)) for pid, parent in map(str.split, lines)]
        return [pair for pair in pairs if pair[0] != look.pid]  # which has ended
    pairs = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # the name in parentheses may itself hold spaces and parentheses
                pairs.append((int(name), int(file.read().rpartition(b")")[2].split()[1])))
        except (OSError, IndexError):
            pass
    return pairs


def main(lock: str, folder: str, *command: str) -> int:
    """Run a command while its owner locks the file ``lock``; return its exit code, as a shell's."""
    child = None
    asked = threading.Event()  # to end, maybe before there is a child to end

    def on_sigterm(*_: object) -> None:
        asked.set()
        if child is not None:
            end_gently(child.pid)
            os._exit(143)

    signal.signal(signal.SIGTERM, on_sigterm)
    child = subprocess.Popen(command)
    if asked.is_set():
        on_sigterm()

    def wait_for_owner() -> None:
        try:
            with open(lock, "r+") as file:
                fcntl.lockf(file, fcntl.LOCK_EX)
        except FileNotFoundError:
            pass  # the owner is gone already, with its folder
        owner_gone.set()  # before the kill, which wakes the main thread
        end_gently(child.pid)
        for _ in range(100):  # a rank that is just dying may still write into it
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break
            time.sleep(0.05)
        os._exit(1)

    owner_gone = threading.Event()
    watcher = threading.Thread(target=wait_for_owner, daemon=True)
    watcher.start()
    code = child.wait()
    if owner_gone.is_set():
        watcher.join()
    if code < 0:  # nobody asked mpiexec
        sweep_topologies()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
