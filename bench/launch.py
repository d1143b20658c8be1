"""A suite's module on several ranks, under an mpiexec of its own."""

from __future__ import annotations

import json
import sys

from helpers.machine.launcher import run_ranks
from helpers.paths import ROOT


def on_ranks(ranks: int, module: str, *arguments: str, timeout: float):
    """Run ``python -m module arguments...`` on ``ranks`` ranks; return what its last line prints.

    One thread for each rank; the last line is JSON, from one rank. Raises RuntimeError with their
    output if the ranks fail or have not ended after ``timeout`` seconds.
    """
    command = [sys.executable, "-m", module, *arguments]
    paths = {"PYTHONPATH": str(ROOT)}
    done = run_ranks(ranks, command, timeout=timeout, cwd=ROOT, env=paths, apart=True)
    if done.code != 0:
        how = "failed" if done.code else f"did not end within {timeout:g} s"
        raise RuntimeError(
            f"{' '.join(command)} on {ranks} ranks {how}:\n{done.output}{done.errors}"
        )
    return json.loads(done.output.splitlines()[-1])
