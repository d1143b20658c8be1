"""Run the tests (``make test``), a few side by side.

Tests that only ``make test-all`` runs carry the marker ``part`` (``tools/test_all.py``). What fails
is tried once more alone: what passes there does not fail the run, and is named and counted. At the
end stands what failed, what was skipped and why. Arguments go to pytest
(``python -m tools.test tests/cuda``); ``-m EXPRESSION`` narrows what runs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from helpers.machine import usable_cores
from helpers.paths import ROOT

# OpenMP's threads and MPI's ranks wait by spinning: three workers on two cores take each other's
# time. Here the ones sleep, and the others do between looks.
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}
NO_TESTS = 5  # pytest's exit status when nothing was selected
FAILED = 1


@dataclass
class Results:
    """What one or more sessions of pytest came to."""

    status: int = NO_TESTS  # of pytest; the worst of all sessions
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # test → why
    skipped: Counter[str] = field(default_factory=Counter)  # reason → how many
    left: list[str] = field(default_factory=list)  # behind
    seconds: float = 0.0

    def add(self, other: Results) -> None:
        """Take in another session: no test selected in one is no fault, in all of them it is."""
        ran = [status for status in (self.status, other.status) if status != NO_TESTS]
        self.status = max(map(abs, ran), default=NO_TESTS)  # a signal is negative
        self.passed += other.passed
        self.failed |= other.failed
        self.skipped += other.skipped
        self.left += other.left
        self.seconds += other.seconds

    @property
    def over(self) -> bool:
        """Whether it broke off, by Ctrl-C or a crash, so that nothing should follow."""
        return self.status not in (0, FAILED, NO_TESTS)

    def lines(self) -> list[str]:
        """Return what to say at the end: a line for each reason to skip, failure and leftover."""
        lines = [f"{count} skipped: {why}" for why, count in sorted(self.skipped.items())]
        lines.append(f"{len(self.passed)} passed, {len(self.failed)} failed")
        lines += [f"{test}: {why}" for test, why in self.failed.items()]
        return [*lines, *self.left]


def workers(cores: int) -> int:
    """Return how many tests run at once: those that start ranks wait more than they compute."""
    return cores + 1


def again(folder: Path, first: Results, arguments: Sequence[str]) -> tuple[Results, list[str]]:
    """Try once more alone what failed; return the results of both runs, and what passes alone."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-n", "--numprocesses")  # of the plugin that is left out here
    _, others = parser.parse_known_args(arguments)
    options = ["--last-failed", "--last-failed-no-failures=none", "-p", "no:xdist", *others]
    second = session(folder, "that failed, once more alone", options)
    alone = sorted(set(first.failed) & set(second.passed))
    if second.over:
        return first, []
    failed = {test: why for test, why in first.failed.items() if test not in alone}
    left = first.left + second.left
    status = FAILED if failed or left else 0
    seconds = first.seconds + second.seconds
    return Results(status, first.passed + alone, failed, first.skipped, left, seconds), alone


def side_by_side(folder: Path, marks: str, arguments: Sequence[str], at_once: int) -> Results:
    """Run the selected tests, so many at once; pytest's report stays in the folder."""
    options = ["-m", marks, "-n", str(at_once), "--dist", "worksteal", "--durations=15"]
    return session(folder, "side by side", [*options, *arguments])


def session(folder: Path, name: str, options: Sequence[str]) -> Results:
    """Run pytest once; what it says stays in the folder."""
    print(f"\nTests {name}", flush=True)
    began = time.perf_counter()
    report, left = folder / f"{name}.xml", folder / f"{name}.left"
    command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *options]
    command += ["-o", f"cache_dir={folder / 'cache'}"]  # of this run alone: what failed in it
    environment = PASSIVE | os.environ | {"LEFT_BEHIND": str(left)}
    environment["EXECUTED"] = str(folder / "executed")  # notebooks, once for all sessions
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles all anew
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    seconds = time.perf_counter() - began
    print(f"Tests {name}: {seconds:.0f} s", flush=True)
    if status == NO_TESTS:  # what is new lies there since pytest collected, or is another's
        return Results(seconds=seconds)
    found = read(report)
    behind = left.read_text(encoding="utf-8").splitlines() if left.exists() else []
    found.left = [f"left behind: {line}" for line in behind]
    found.status, found.seconds = status, seconds
    return found


def read(report: Path) -> Results:
    """Return what a JUnit report of pytest says; a missing one is a failure."""
    found = Results()
    if not report.exists():
        found.failed[report.stem] = "pytest ended without a report"
        return found
    for case in ET.parse(report).iter("testcase"):
        test = f"{case.get('classname')}::{case.get('name')}"
        faults = [*case.iterfind("failure"), *case.iterfind("error")]
        skips = [*case.iterfind("skipped")]
        for skip in skips:
            found.skipped[" ".join(skip.get("message", "").split())] += 1
        for fault in faults:
            found.failed[test] = " ".join(fault.get("message", "").split())[:300]
        if not faults and not skips:
            found.passed.append(test)
    return found


def takes_ctrl_c() -> None:
    """Have tests that Ctrl-C reaches: a script that starts this with & has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def main(arguments: list[str]) -> int:
    """Run them; return the worst exit status of pytest, 0 where all that failed passes alone."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-m", dest="marks")
    mine, others = parser.parse_known_args(arguments)
    takes_ctrl_c()
    marks = f"not part and ({mine.marks})" if mine.marks else "not part"
    alone: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tests-") as folder:
        results = side_by_side(Path(folder), marks, others, workers(usable_cores()))
        if results.failed and not results.over:
            results, alone = again(Path(folder), results, others)
    print("\n".join(["", *results.lines()]))
    if alone:
        told = f"{len(alone)} passed only alone, which make test-all counts as failed:"
        print("\n".join([told, *alone]))
    return abs(results.status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
