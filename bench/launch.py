"""A suite's module on several ranks, under an mpiexec of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def on_ranks(ranks: int, module: str, *arguments: str, timeout: float):
    """Run ``python -m module arguments...`` on ``ranks`` ranks; return what its last line prints.

    One thread for each rank; the last line is JSON, from one rank. Raises RuntimeError with their
    output if the ranks fail, and subprocess.TimeoutExpired after ``timeout`` seconds.
    """
    command = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(ranks), sys.executable]
    command += ["-m", module, *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
