"""Run the tests (``make test``) in two stages: side by side what may be, then one after the other.

Tests that start ranks, execute notebooks, drive a browser, or time something need the machine for
themselves. All others share its cores. Arguments go to pytest: ``python -m tools.test tests/cuda``;
``-m EXPRESSION`` narrows both stages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Collection

from helpers.machine import usable_cores
from helpers.paths import ROOT

ALONE = "mpi or notebook or browser or openmpi or alone"
NO_TESTS = 5  # pytest's exit status when nothing was selected
INTERRUPTED = 2


def stages(cores: int, marks: str | None = None) -> dict[str, list[str]]:
    """Return the options of pytest for each stage, by its name; ``marks`` narrows both."""
    also = f" and ({marks})" if marks else ""
    together = ["-m", f"not ({ALONE}){also}", "-n", str(cores), "--dist", "worksteal"]
    return {
        "side by side": [*together, "--durations=10"],
        "one after the other": ["-m", f"({ALONE}){also}", "-p", "no:xdist", "--durations=25"],
    }


def worst(statuses: Collection[int]) -> int:
    """Return one exit status for all stages.

    Nothing selected in one stage is no fault, nothing selected in any is. A signal (negative) is a
    fault like any other.
    """
    if set(statuses) == {NO_TESTS}:
        return NO_TESTS
    return max(abs(status) for status in statuses if status != NO_TESTS)


def main(arguments: list[str]) -> int:
    """Run both stages, also when the first has failures; return the exit status of the worse."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-m", dest="marks")
    mine, others = parser.parse_known_args(arguments)
    statuses = []
    for name, options in stages(usable_cores(), mine.marks).items():
        print(f"\nTests {name}", flush=True)
        began = time.perf_counter()
        command = [sys.executable, "-m", "pytest", *options, *others]
        statuses.append(subprocess.run(command, cwd=ROOT).returncode)
        print(f"Tests {name}: {time.perf_counter() - began:.0f} s", flush=True)
        if statuses[-1] < 0 or statuses[-1] == INTERRUPTED:
            break
    return worst(statuses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
