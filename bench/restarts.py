"""A thousand restarts in a row: does a process, a file or memory grow?

    python -m bench.restarts                  a thousand, some five minutes; writes a record
    python -m bench.restarts --times 200      fewer

One cluster is restarted and called, again and again, in a folder for temporary files of its own;
every tenth time the kernel's process, the one that forks and the controller are looked at. The exit
status is 1 if one of them grew, or if anything is left in the end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from helpers import records
from helpers.cluster.start.forkserver.family import SHARED_MEMORY, fnv1a, name_of
from helpers.paths import ROOT
from helpers.records import Row

RANKS = 4
EVERY = 10  # restarts between two looks
SHOWN = 100  # restarts between two figures of the record
MOST = 5.0  # MB that a process may have grown by: the second half of the looks beside the first
KERNEL, FORKS, CONTROLLER = "the kernel", "the process that forks", "the controller"


@dataclass(frozen=True)
class Look:
    """What there is after so many restarts.

    ``memory`` is of each process what it shares with nobody, in MB; ``files`` are those in the
    folder for temporary files, ``shared`` MPICH's in shared memory.
    """

    restarts: int
    seconds: float
    processes: int
    files: int
    shared: int
    descriptors: dict[str, int]
    memory: dict[str, float]


def restarts(times: int, place: Path) -> list[Look]:
    """Restart ``times`` times, with files in ``place``; the last look is after the end."""
    from helpers.cluster import Cluster

    looks, begin = [], time.perf_counter()
    with Cluster(RANKS) as cluster:
        for number in range(times + 1):
            if number:
                cluster.restart()
            if (found := cluster.run(max, 1, 2)) != [2] * RANKS:
                raise RuntimeError(f"restart {number}: the ranks returned {found}")
            if number % EVERY == 0:
                looks.append(_look(number, time.perf_counter() - begin, place, cluster.pids))
                if number % SHOWN == 0:
                    print(_line(looks[-1]), flush=True)
        forks = psutil.Process(cluster.pids[0]).ppid()
    looks.append(
        Look(times, time.perf_counter() - begin, len(psutil.Process().children(recursive=True)),
             len(list(place.iterdir())), _shared(forks, 2 * times), {}, {})
    )  # fmt: skip
    return looks


def _look(number: int, seconds: float, place: Path, pids: list[int]) -> Look:
    forks = psutil.Process(pids[0]).parent()
    (controller,) = [child for child in forks.children() if child.pid not in pids]
    seen = {KERNEL: psutil.Process(), FORKS: forks, CONTROLLER: controller}
    return Look(
        number,
        seconds,
        len(psutil.Process().children(recursive=True)),
        sum(1 for path in place.rglob("*") if not path.is_dir()),
        _shared(forks.pid, 2 * number + 2),
        {name: process.num_fds() for name, process in seen.items()},
        {name: process.memory_full_info().uss / 1e6 for name, process in seen.items()},
    )


def _shared(forks: int, sets: int) -> int:
    """Count MPICH's files of the sets of ranks that a process has forked."""
    names = {f"mpich_shm_{fnv1a(name_of(forks, number)):x}_0" for number in range(sets)}
    return len(names & {path.name for path in SHARED_MEMORY.iterdir()})


def grown(looks: list[Look]) -> list[str]:
    """Return a sentence for each thing that grew from the first half of the looks to the second.

    The last look is after the end, when nothing may be left.
    """
    *during, end = looks
    first, second = during[: len(during) // 2], during[len(during) // 2 :]
    found = []
    for what in ("processes", "files", "shared"):
        before, after = (max(getattr(look, what) for look in half) for half in (first, second))
        if after > before:
            found.append(f"{what}: {before} in the first half, {after} in the second")
        if left := getattr(end, what):
            found.append(f"{what}: {left} left in the end")
    for name in during[0].memory:
        before, after = (max(look.descriptors[name] for look in half) for half in (first, second))
        if after > before:
            found.append(f"open files of {name}: {before}, then {after}")
        a, b = (statistics.median(look.memory[name] for look in half) for half in (first, second))
        if b - a > MOST:
            found.append(f"memory of {name}: {a:.1f} MB, then {b:.1f} MB")
    return found


def rows(looks: list[Look]) -> list[Row]:
    """Return the last figures beside the first, with the series between."""
    *during, end = looks
    shown = [look for look in during if look.restarts % SHOWN == 0]
    case = {"ranks": RANKS, "restarts": end.restarts, "after": [look.restarts for look in shown]}
    start = "before the first restart"

    def row(name: str, unit: str, values: list[float], most: float) -> Row:
        told = {**case, "series": values, "most": most}
        return Row(name, values[-1], unit, start, values[0], told)

    found = [
        Row("a restart and a call", end.seconds / end.restarts, "s", parameters=case),
        *(
            row(f"{what} there are", "1", [getattr(look, what) for look in shown],
                max(getattr(look, what) for look in during))
            for what in ("processes", "files", "shared")
        ),
    ]  # fmt: skip
    for name in during[0].memory:
        memory = [round(look.memory[name], 2) for look in shown]
        most = round(max(look.memory[name] for look in during), 2)
        files = [look.descriptors[name] for look in shown]
        found += [
            row(f"memory of {name} alone", "MB", memory, most),
            row(f"open files of {name}", "1", files, max(x.descriptors[name] for x in during)),
        ]
    return found


def _line(look: Look) -> str:
    each = ", ".join(
        f"{name} {memory:.1f} MB {look.descriptors[name]} files"
        for name, memory in look.memory.items()
    )
    return (
        f"{look.restarts:5d} restarts, {look.seconds:4.0f} s: {look.processes} processes, "
        f"{look.files} files, {look.shared} in shared memory; {each}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.restarts")
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=ROOT / "data" / "bench", metavar="FOLDER")
    parser.add_argument("--no-record", action="store_true", help="print only")
    options = parser.parse_args()
    if options.times < 2 * SHOWN or options.times % SHOWN:
        parser.error(f"--times {options.times}: expected a multiple of {SHOWN} from {2 * SHOWN}")
    with tempfile.TemporaryDirectory(prefix="restarts-") as name:
        os.environ["TMPDIR"] = tempfile.tempdir = name
        looks = restarts(options.times, Path(name))
        tempfile.tempdir = None
    if not options.no_record:
        command = f"python -m bench.restarts --times {options.times}"
        record = records.record({"restarts": rows(looks)}, command)
        print("written:", records.write(record, options.out).name)
    trouble = grown(looks)
    print("\n".join(trouble) or "nothing grew, and nothing is left")
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
