"""Do again and again what must never fail (``make soak``; hours, not in CI), and write a record.

Each notebook as the reader finds it, thirty times; eight kernels that start, use, restart and stop
four ranks each at once, a hundred times. A row for each: how many of the runs failed, of how many,
with the first words of the first failure; and what was left behind, by number. The record goes to
``data/bench/``. ``python -m tools.soak --times 2 --clusters 3 00 05`` does less, ``--times 0``
leaves the notebooks out. Ctrl-C ends it with a record of the runs made so far.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from helpers import records
from helpers.machine import guard
from helpers.paths import ROOT
from tools.bare_machine import ON_DISK, undocumented
from tools.notebooks import asked_for

TIMES, ROUNDS, KERNELS, RANKS = 30, 100, 8, 4
SHARED = Path("/dev/shm")
LIMIT = 300.0  # seconds for one round of clusters
MOST_NAMES = 20  # of files left behind that a record names
SETTLE = 5.0  # seconds in which the last processes may end
KERNEL = f"""
from helpers.cluster import Cluster
with Cluster({RANKS}) as cluster:
    assert cluster.run(lambda: comm.allreduce(1)) == [{RANKS}] * {RANKS}
    cluster.restart()
    assert cluster.run(lambda: comm.allreduce(rank)) == [{RANKS * (RANKS - 1) // 2}] * {RANKS}
"""


class Trial:
    """Something that is attempted again and again; ``attempt`` says what went wrong."""

    def __init__(self, name: str, times: int, attempt: Callable[[], Sequence[str]]):
        self.name, self.times, self.attempt = name, times, attempt
        self.failures, self.first = 0, ""
        self.seconds: list[float] = []

    def once(self) -> None:
        """Attempt it, and print what went wrong."""
        began = time.perf_counter()
        wrong = list(self.attempt())
        self.seconds.append(time.perf_counter() - began)
        if wrong:
            self.failures += 1
            self.first = self.first or wrong[0][:300]
            print(f"{self.name}, run {len(self.seconds)} of {self.times}: {wrong[0]}", flush=True)

    def row(self) -> records.Row:
        """Return what the runs that ended showed."""
        runs, median = len(self.seconds), round(statistics.median(self.seconds), 2)
        print(f"{self.name}: {self.failures} of {runs} failed, {median} s each", flush=True)
        about = {"runs": runs, "median seconds": median, "first": self.first}
        return records.Row(self.name, self.failures, "failures", parameters=about)


def in_turn(trials: Sequence[Trial]) -> list[records.Row]:
    """Attempt each once, then each again, to the end or Ctrl-C; a row for each that ran."""
    with contextlib.suppress(KeyboardInterrupt):
        for number in range(max((trial.times for trial in trials), default=0)):
            for trial in trials:
                if number < trial.times:
                    trial.once()
            print(f"round {number + 1}: {_wrong(trials)} failed", flush=True)
    return [trial.row() for trial in trials if trial.seconds]


def _wrong(trials: Sequence[Trial]) -> str:
    """Return how many of the runs so far failed, in words."""
    runs = sum(len(trial.seconds) for trial in trials)
    return f"{sum(trial.failures for trial in trials)} of {runs} runs"


def notebook(name: str) -> list[str]:
    """Execute a notebook of the reader's; return what it showed that it must not.

    In a process of its own, and of its own session: Ctrl-C would be nbclient's.
    """
    command = [sys.executable, "-m", "tools.run", name, "--set", "reader"]
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, **told) as run:
        try:
            said = run.communicate()[0].strip().splitlines()
        except KeyboardInterrupt:
            run.terminate()  # which ends the kernel too
            raise
    first = f"{name}, reader: "
    wrong = [line.removeprefix(first) for line in said if line.startswith(first)]
    return wrong or (["".join(said[-1:])] if run.returncode else [])


def at_once() -> list[str]:
    """Start kernels at once, each with ranks of its own; return what those that failed said."""
    command = [sys.executable, "-c", KERNEL]
    with tempfile.TemporaryFile("w+") as said:
        kernels = [subprocess.Popen(command, cwd=ROOT, stderr=said) for _ in range(KERNELS)]
        deadline, failed = time.monotonic() + LIMIT, 0
        try:
            for kernel in kernels:
                try:
                    failed += kernel.wait(max(0.0, deadline - time.monotonic())) != 0
                except subprocess.TimeoutExpired:
                    failed += 1
        finally:
            for kernel in kernels:
                kernel.kill()
                kernel.wait()
        said.seek(0)
        last = said.read().strip().splitlines()[-1:]
    return [f"{failed} of {KERNELS} kernels: {''.join(last) or 'no end'}"] if failed else []


def there(folders: Sequence[Path]) -> set[str]:
    """Return the names of what lies in the folders."""
    return {str(path) for folder in folders if folder.is_dir() for path in folder.iterdir()}


def expected(place: str) -> set[str]:
    """Return what of the names in this folder for temporary files docs/INSTALL.md names."""
    names = {str(path): f"/tmp/{path.name}" for path in Path(place).iterdir()}
    page = ON_DISK.read_text(encoding="utf-8")
    new = undocumented(names.values(), page, getpass.getuser())
    return {path for path, name in names.items() if name not in new}


def in_use() -> set[str]:
    """Return what living processes have mapped: other people's ranks start meanwhile."""
    return guard.shared_files(*(int(path.name) for path in Path("/proc").glob("[0-9]*")))


@contextlib.contextmanager
def temporary_files_in(place: str) -> Iterator[None]:
    """Have this process and all that it starts use this folder: nobody else's files are counted."""
    kept, before = tempfile.tempdir, os.environ.pop("TMPDIR", None)
    os.environ["TMPDIR"] = tempfile.tempdir = place
    try:
        yield
    finally:
        tempfile.tempdir = kept
        del os.environ["TMPDIR"]
        if before is not None:
            os.environ["TMPDIR"] = before


def soak(names: Sequence[str], times: int, clusters: int) -> list[records.Row]:
    """Do all of it in turn; a row for each notebook and for the clusters, one for what is left."""
    trials = [Trial(name, times, lambda name=name: notebook(name)) for name in names]
    trials.append(Trial(f"{KERNELS} clusters of {RANKS} at once", clusters, at_once))
    with tempfile.TemporaryDirectory(prefix="soak-") as place, temporary_files_in(place):
        folders, before = (Path(place), SHARED), there([SHARED])
        rows = in_turn(trials)
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(SETTLE)
        left = sorted(there(folders) - before - in_use() - expected(place))
    about = {"names": left[:MOST_NAMES]}
    return [*rows, records.Row("left behind", len(left), "files", parameters=about)]


def main(arguments: Sequence[str]) -> int:
    """Command line; 1 if anything failed or was left."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("only", nargs="*", metavar="NN", help="notebooks (default: all)")
    parser.add_argument("--times", type=int, default=TIMES, help="runs of each notebook")
    parser.add_argument("--clusters", type=int, default=ROUNDS, help="rounds of clusters")
    parser.add_argument("--out", type=Path, default=ROOT / "data" / "bench")
    options = parser.parse_args(arguments)
    numbers = {"times": options.times, "clusters": options.clusters}
    if min(numbers.values()) < 0:
        parser.error(f"expected numbers from 0 on; got {numbers}")
    names = asked_for(parser, options.only)
    rows = soak(names if options.times else [], **numbers)
    asked = [f"--{name} {number}" for name, number in numbers.items()]
    command = " ".join(["python -m tools.soak", *asked, *options.only])
    written = records.write(records.record({"soak": rows}, command), options.out)
    print(f"written: {written}")
    return int(any(row.value for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
