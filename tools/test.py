"""Run the tests (``make test``) in two stages: side by side what may be, then one after the other.

Tests that start ranks, execute notebooks, drive a browser, or time something need the machine for
themselves. All others share its cores. Arguments go to pytest: ``python -m tools.test tests/cuda``.
"""

from __future__ import annotations

import subprocess
import sys
import time

from helpers.machine import usable_cores
from tools.notebooks import ROOT

ALONE = "mpi or notebook or browser or openmpi or alone"
NO_TESTS = 5  # pytest's exit status when nothing was selected


def stages(cores: int) -> dict[str, list[str]]:
    """Return the options of pytest for each stage, by its name."""
    together = ["-m", f"not ({ALONE})", "-n", str(cores), "--dist", "worksteal"]
    return {
        "side by side": [*together, "--durations=10"],
        "one after the other": ["-m", ALONE, "-p", "no:xdist", "--durations=25"],
    }


def main(arguments: list[str]) -> int:
    """Run both stages, also when the first has failures; return the exit status of the worse.

    Nothing selected in one stage is no fault, nothing selected in both is.
    """
    found = {}
    for name, options in stages(usable_cores()).items():
        print(f"\nTests {name}", flush=True)
        began = time.perf_counter()
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        found[name] = subprocess.run(command, cwd=ROOT).returncode
        print(f"Tests {name}: {time.perf_counter() - began:.0f} s", flush=True)
        if found[name] < 0 or found[name] == 2:  # killed, or interrupted by hand
            break
    if set(found.values()) == {NO_TESTS}:
        return NO_TESTS
    return max(abs(code) for code in found.values() if code != NO_TESTS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
