"""Run the tests (``make test``) in four stages: side by side what may be, the rest alone.

Tests that compute share all cores. Tests that start ranks or execute notebooks wait more than they
compute, so a few of them run at once, and two of those on a Slurm. Tests that time something or
drive a browser have the machine for themselves, at the end, when the process that ``--beside PID``
names has ended too. What failed is tried once more alone: a test that a busy machine made fail
passes there and is named, and what fails twice has failed. At the end stands what did, in
``--failures FILE`` as well. Other arguments go to pytest: ``python -m tools.test tests/cuda``; ``-m
EXPRESSION`` narrows every stage.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Collection
from pathlib import Path

import psutil

from helpers.machine import usable_cores
from helpers.paths import ROOT

RANKS = "mpi or notebook or openmpi"
SLURM = "slurm"
ALONE = "browser or alone"
LAST = "one after the other"
NO_TESTS = 5  # pytest's exit status when nothing was selected
FAILED = 1
INTERRUPTED = 2


def stages(cores: int, marks: str | None = None) -> dict[str, list[str]]:
    """Return the options of pytest for each stage, by its name; ``marks`` narrows all."""

    def select(expression: str) -> list[str]:
        return ["-m", f"{expression} and ({marks})" if marks else expression]

    def share(workers: int) -> list[str]:
        return ["-n", str(workers), "--dist", "worksteal"]

    return {
        "side by side": [
            *select(f"not ({RANKS} or {ALONE} or {SLURM})"),
            *share(cores),
            "--durations=10",
        ],
        "with ranks, a few at once": [
            *select(f"({RANKS}) and not ({ALONE} or {SLURM})"),
            *share(cores // 2 + 1),
            "--durations=25",
        ],
        "on a Slurm, two at once": [
            *select(f"{SLURM} and not ({ALONE})"),
            *share(2),
            "--durations=25",
        ],
        LAST: [*select(f"({ALONE})"), "-p", "no:xdist", "--durations=25"],
    }


def worst(statuses: Collection[int]) -> int:
    """Return one exit status for all stages.

    Nothing selected in one stage is no fault, nothing selected in any is. A signal (negative) is a
    fault like any other.
    """
    if set(statuses) == {NO_TESTS}:
        return NO_TESTS
    return max(abs(status) for status in statuses if status != NO_TESTS)


def process_of(pid: int | None) -> psutil.Process | None:
    """Return a living process by its number, which another may bear later; None if it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid) if pid else None
    return None


def wait_for(process: psutil.Process | None) -> None:
    """Return when a process, which need not be a child of this one, has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        while process and process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.5)


def failures(report: Path) -> list[str]:
    """Return a line for each test that a JUnit report of pytest calls failed: its name and why."""
    if not report.exists():
        return [f"{report.stem}: pytest ended without a report"]
    lines = []
    for case in ET.parse(report).iter("testcase"):
        for fault in (*case.iterfind("failure"), *case.iterfind("error")):
            why = " ".join(fault.get("message", "").split())
            lines.append(f"{case.get('classname')}::{case.get('name')}: {why[:300]}")
    return lines


def main(arguments: list[str]) -> int:
    """Run all stages, also when an earlier one has failures; return the worst's exit status."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-m", dest="marks")
    parser.add_argument("--beside", type=int, metavar="PID")
    parser.add_argument("--failures", type=Path, metavar="FILE")
    mine, others = parser.parse_known_args(arguments)
    # a script that starts this with & has it ignore Ctrl-C, and so would all that the tests start
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    statuses, failed, left, beside = [], [], [], process_of(mine.beside)
    with tempfile.TemporaryDirectory(prefix="tests-") as folder:
        for name, options in stages(usable_cores(), mine.marks).items():
            if name == LAST:
                wait_for(beside)
            status, failed_now, left_now = stage(Path(folder), name, [*options, *others])
            statuses.append(status)
            failed, left = failed + failed_now, left + left_now
            if status < 0 or status == INTERRUPTED:
                break
        at_first = len(failed)
        if failed and set(statuses) <= {0, FAILED, NO_TESTS}:
            again = ["--last-failed", "--last-failed-no-failures=none", "-p", "no:xdist", *others]
            status, failed, left_now = stage(Path(folder), "that failed, once more alone", again)
            left += left_now
            statuses = [status if one == FAILED and not left else one for one in statuses]
    summary = [f"\n{len(failed)} tests failed", *failed, *left]
    if at_first > len(failed):
        summary[0] += f", {at_first - len(failed)} more at first and not alone"
    print("\n".join(summary), flush=True)
    if mine.failures:
        mine.failures.write_text("\n".join(summary) + "\n")
    return worst(statuses)


def stage(folder: Path, name: str, options: list[str]) -> tuple[int, list[str], list[str]]:
    """Run one stage; return pytest's exit status, what failed, and what was left behind."""
    print(f"\nTests {name}", flush=True)
    began = time.perf_counter()
    report, left = folder / f"{name}.xml", folder / f"{name}.left"
    command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *options]
    command += ["-o", f"cache_dir={folder / 'cache'}"]  # of this run alone: what failed in it
    environment = os.environ | {"LEFT_BEHIND": str(left)}
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    print(f"Tests {name}: {time.perf_counter() - began:.0f} s", flush=True)
    behind = left.read_text(encoding="utf-8").splitlines() if left.exists() else []
    return status, failures(report), [f"left behind: {line}" for line in behind]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
