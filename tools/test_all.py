"""Run everything that is tested, in parts (``make test-all``), and write down what came out.

    python -m tools.test_all                 every part
    python -m tools.test_all slurm cluster   these
    python -m tools.test_all --last          when each part last ran whole, and what came out

A record in ``data/bench/`` says when each part ran, on which commit, how many tests passed and
failed, and in how many seconds. A test that fails here is not tried again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from helpers import records
from helpers.machine import usable_cores
from helpers.paths import BENCH_RECORDS, ROOT
from tools.test import FAILED, Results, session, side_by_side, takes_ctrl_c, workers

SUITE = "test-all"
LINT = ("sh", "tools/lint.sh")
OPENMPI = ("sh", "tools/setup.sh", "openmpi")
MOST = 20  # of the tests that failed, by name in a record


@dataclass(frozen=True)
class Part:
    """A part: what it tests, what has to run first, and how many tests at once."""

    about: str
    before: tuple[str, ...] = ()
    fills: bool = False  # each of its tests fills the machine


PARTS = {
    "quick": Part("what make test runs, without a second try", LINT),
    "exercises": Part("more answers to exercises than make test tries"),
    "notebooks": Part("the readers' notebooks, and each section of them twice"),
    "site": Part("every page in Chromium, and the pages in one file each"),
    "browser": Part("JupyterLab, driven in Chromium"),
    "cluster": Part("ranks started in every way, killed at any moment; Open MPI", OPENMPI),
    "slurm": Part("a Slurm with three nodes, and ssh; takes root"),
    "grading": Part("each notebook through nbgrader, solved and untouched"),
    "hub": Part("a class on JupyterHub; takes root and Node.js", fills=True),
    "bare-machine": Part("a Debian with nothing on it; takes root and mmdebstrap", fills=True),
}


def main(arguments: list[str] | None = None) -> int:
    """Command line; 1 if something failed, was left behind, or was asked for and cannot run."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.test_all", description=__doc__.splitlines()[0]
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--last", action="store_true", help="show the newest record of each part")
    parser.add_argument("--out", type=Path, default=BENCH_RECORDS, help="folder of the record")
    options, others = parser.parse_known_args(arguments)
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.exit(1, f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}\n")
    if not options.last:
        status = _all(options.parts or list(PARTS), bool(options.parts), others, options.out)
    print("\n".join(last(options.out)))
    return 0 if options.last else status


def _all(parts: list[str], asked: bool, arguments: list[str], folder: Path) -> int:
    """Run parts, and after each write what is known so far."""
    takes_ctrl_c()
    status, rows, written = 0, [], None
    for name in parts:
        print(f"\nPart {name}: {PARTS[name].about}", flush=True)
        results = run_part(name, arguments)
        print("\n".join(results.lines()), flush=True)
        cannot = not results.passed and not results.failed
        if cannot:
            why = "; ".join(results.skipped) or "it has no test that was selected"
            print(f"Part {name} did not run: {why}", flush=True)
        if not results.passed or results.failed or results.left or results.over:
            status = status if cannot and not asked and not results.over else 1
        if results.over:
            break
        if cannot or arguments:  # what was narrowed is not the part
            continue
        rows.append(row(name, results))
        if written:
            written.unlink()
        command = " ".join(["python -m tools.test_all", *parts])
        written = records.write(records.make({SUITE: rows}, command), folder)
    return status


def run_part(name: str, arguments: list[str]) -> Results:
    """Run a part; return what came out."""
    part = PARTS[name]
    if part.before and subprocess.run(part.before, cwd=ROOT).returncode:
        return Results(FAILED, failed={" ".join(part.before): "failed (above)"})
    at_once = 1 if part.fills else workers(usable_cores())
    with tempfile.TemporaryDirectory(prefix="tests-") as folder:
        if name == "quick":
            return side_by_side(Path(folder), "not part", arguments, at_once)
        marks = f"part(of={name!r})"
        results = side_by_side(Path(folder), f"{marks} and not alone", arguments, at_once)
        if not results.over:
            options = ["-m", f"{marks} and alone", "-p", "no:xdist", *arguments]
            results.add(session(Path(folder), "one after the other", options))
    return results


def row(name: str, results: Results) -> records.Row:
    """Return a part's row of the record: its seconds, its counts, and the commit."""
    counts = {
        "commit": commit(),
        "passed": len(results.passed),
        "failed": len(results.failed) + len(results.left),
        "skipped": sum(results.skipped.values()),
        "failures": [*results.failed, *results.left][:MOST],
    }
    return records.Row(name, round(results.seconds), "s", parameters=counts)


def commit() -> str:
    """Return the commit in short, with a + where files differ from it; '' without git."""
    said = subprocess.run(
        ["git", "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return said.stdout.strip()


def last(folder: Path = BENCH_RECORDS) -> list[str]:
    """Return a table, a line for each part: its newest run that any record has."""
    newest: dict[str, tuple[str, records.Row]] = {}
    for record in records.load(folder, SUITE):
        for found in record.suites[SUITE]:
            newest.setdefault(found.name, (record.date, found))
    lines = [f"{'part':14}{'last run':22}{'commit':13}{'passed':>7}{'failed':>7}{'seconds':>9}"]
    for name in PARTS:
        if name not in newest:
            lines.append(f"{name:14}never")
            continue
        date, found = newest[name]
        said = found.parameters
        lines.append(
            f"{name:14}{date:22}{said['commit']:13}{said['passed']:7}{said['failed']:7}"
            f"{found.value:9.0f}"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
