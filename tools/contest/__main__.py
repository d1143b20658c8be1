"""Rank programs against the course's and each other: ``make contest CONTEST=folder``.

Each Python file of the folder (``work/contest`` unless named; made with a starter of each kind
where it is absent) may define ``product`` (a matrix product in C, notebook 07), ``allreduce``
(on real ranks, 08) and ``compressor`` (of gradients, 12). A program must be right on random inputs
before it is timed. Rivals take turns, A B C A B C, and the best of several rounds counts. A program
that hangs or crashes gets a sentence, and the contest goes on.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import cloudpickle

from helpers import board
from helpers.cluster import Cluster, ClusterError
from helpers.machine.guard import kill_tree
from helpers.paths import ROOT
from helpers.timing import seconds
from tools.contest import trials
from tools.work import work_folder

cloudpickle.register_pickle_by_value(trials)  # ranks need not be able to import it
STARTERS = Path(__file__).with_name("starters")
# What a file defines: what it is, and the course's own.
KINDS: dict[str, tuple[str, dict[str, str | None]]] = {
    "product": (f"matrix product, n = {trials.N}", {"course's loop ikj": None}),
    "allreduce": (
        f"allreduce of {4 * trials.NUMBERS >> 20} MB on 4 ranks",
        {"course's ring": "", "MPI's own": "MPI"},
    ),
    "compressor": ("compressed gradients of a training at 100 Mbit/s", {"course's top 1 %": ""}),
}
LIMIT = 20.0  # seconds for one trial
ROUNDS = 5


@dataclass
class Entry:
    """A program of a kind, the seconds of its rounds, and what went wrong with it."""

    name: str
    path: str | None  # None: timed beside each product
    times: list[float] = field(default_factory=list)
    trouble: str = ""


def entries(folder: Path) -> dict[str, list[Entry]]:
    """Return each kind's programs, the course's first, and run none; say which file has none."""
    found = {
        kind: [Entry(name, path) for name, path in own.items()] for kind, (_, own) in KINDS.items()
    }
    for path in sorted(folder.glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError, OSError) as error:
            print(f"{path.name}: left out, since Python cannot read it: {error}")
            continue
        names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        names |= {n.id for s in tree.body for n in ast.walk(s)
                  if isinstance(s, ast.Assign) and isinstance(n, ast.Name)}  # fmt: skip
        kinds = [kind for kind in KINDS if kind in names]
        for kind in kinds:
            found[kind].append(Entry(path.name, str(path.absolute())))
        if not kinds:
            print(f"{path.name}: left out, since it defines none of {', '.join(KINDS)}")
    return found


def apart(kind: str, path: str, seed: int, timed: bool, limit: float) -> dict:
    """Try a program in a process of its own, which is killed with all below it after ``limit``."""
    with tempfile.TemporaryDirectory(prefix="contest-") as place:
        result = Path(place, "result.json")
        how = "timed" if timed else "right"
        command = [sys.executable, "-m", "tools.contest.trials", kind, path]
        command += [str(seed), how, str(result)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        environment |= {"TMPDIR": place}  # a compiler that is killed leaves its files
        process = subprocess.Popen(
            command, cwd=place, env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            return {"wrong": f"no end within {limit:g} s"}
        finally:
            kill_tree(process.pid)
            process.wait()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, 9)
        if not result.exists():
            how = f"signal {-code}" if code < 0 else f"exit status {code}"
            return {"wrong": f"it crashed: {how}"}
        return json.loads(result.read_text(encoding="utf-8"))


def on_ranks(cluster: Cluster, path: str, seed: int, timed: bool, limit: float) -> dict:
    """Try an allreduce on the ranks; those that it hangs or kills are started anew."""
    try:
        replies = cluster.run(trials.allreduce, path, seed, timed, timeout=limit)
    except ClusterError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return {"wrong": lines[0][:160]}
    return next((reply for reply in replies if "wrong" in reply), replies[0])


def compete(kind: str, rivals: list[Entry], rounds: int, limit: float) -> None:
    """Fill in times and troubles: first who is right, then rounds in which rivals take turns."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(n=4)) if kind == "allreduce" else None

        def trial(entry: Entry, timed: bool) -> None:
            seed = random.randrange(1 << 20)
            path = entry.path or ""
            found = (
                on_ranks(cluster, path, seed, timed, limit)
                if cluster
                else apart(kind, path, seed, timed, limit)
            )
            entry.trouble = found.get("wrong", "")
            if timed and not entry.trouble:
                entry.times.append(found["seconds"])
                if "course" in found:
                    rivals[0].times.append(found["course"])

        for timed in [False] + rounds * [True]:
            for entry in rivals:
                if entry.path is not None and not entry.trouble:
                    trial(entry, timed)
            print(".", end="", flush=True)
    print()


def table(kind: str, rivals: list[Entry]) -> str:
    """Return the ranking, best first, with ratios to the course's; then who is not ranked."""
    own = min(rivals[0].times, default=None)
    ranked = sorted((e for e in rivals if e.times and not e.trouble), key=lambda e: min(e.times))
    wide = max(len(entry.name) for entry in rivals)
    lines = [KINDS[kind][0]]
    for place, entry in enumerate(ranked, 1):
        best = min(entry.times)
        ratio = f"{own / best:6.2f} × as fast as the course's" if own else ""
        lines.append(f"  {place:2}  {entry.name:{wide}}  {seconds(best):>8}  {ratio}")
    lines += [f"   –  {e.name:{wide}}  not ranked: {e.trouble}" for e in rivals if e.trouble]
    return "\n".join(line.rstrip() for line in lines)


def offer(found: dict[str, list[Entry]]) -> bool:
    """Offer the best program's ratio of each kind to the board, if the reader has joined it."""
    with contextlib.chdir(work_folder()) if work_folder().exists() else contextlib.nullcontext():
        if board.joined():
            for kind, (own, *rivals) in found.items():
                mine = [
                    min(e.times) for e in rivals if e.path != "MPI" and e.times and not e.trouble
                ]
                if mine and own.times:
                    best = {"× the course's": min(own.times) / min(mine)}
                    board.offer(f"contest: {kind}", **best)
            return board.flush(5.0) == 0
    return False


def main(arguments: list[str] | None = None) -> int:
    """Command line: print a table for each kind; 1 if there is nothing to rank."""
    parser = argparse.ArgumentParser(prog="python -m tools.contest", description=__doc__)
    parser.add_argument("folder", nargs="?", default="", help="default: work/contest")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one trial")
    options = parser.parse_args(arguments)
    folder = Path(options.folder).expanduser() if options.folder else work_folder() / "contest"
    if folder.exists() and not folder.is_dir():
        print(f"CONTEST={folder}: expected a folder, and it is a file", file=sys.stderr)
        return 1
    if not folder.exists():
        shutil.copytree(STARTERS, folder, ignore=shutil.ignore_patterns("__pycache__"))
        print(f"{folder} has a starter for each kind: change them, and add files of your own.")
    found = entries(folder)
    for kind, rivals in found.items():
        if all(entry.path is None or entry.name in KINDS[kind][1] for entry in rivals):
            continue
        compete(kind, rivals, options.rounds, options.limit)
        print(table(kind, rivals), end="\n\n", flush=True)
    if not any(entry.times for rivals in found.values() for entry in rivals):
        print(f"{folder}: no file has a right {' or '.join(KINDS)}", file=sys.stderr)
        return 1
    if offer(found):
        print("Sent to the class's board: the best ratio of each kind.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
