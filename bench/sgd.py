"""Steps per second and bytes per step of each scheme of data-parallel SGD, on four ranks.

    python -m bench.sgd

The peer of every scheme is the synchronous run with MPI's allreduce, in the same job.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from helpers.records import Row

SUITE = "sgd"
ROOT = Path(__file__).resolve().parents[1]
RANKS, BATCH, STEPS, ROUNDS = 4, 8, 60, 3


def rows() -> list[Row]:
    """Gradients per second of each scheme (the best of three turns), and bytes per step."""
    command = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(RANKS), sys.executable]
    done = subprocess.run(
        [*command, "-m", "bench.sgd", "--rank"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(f"the ranks failed:\n{done.stderr}")
    return [Row(**line) for line in json.loads(done.stdout)]


def _rank_main() -> None:
    from helpers.sgd import runs
    from helpers.sgd.synchronous import WAYS

    comm = runs.world()
    calls = {
        f"in step, {way}": lambda way=way: runs.synchronous(way=way, steps=STEPS, batch=BATCH)
        for way in WAYS
    }
    calls["in step, server"] = lambda: runs.with_server(steps=STEPS, batch=BATCH)
    calls["out of step"] = lambda: runs.asynchronous(
        updates=STEPS * (RANKS - 1), batch=BATCH, momentum=0.0
    )
    best: dict[str, tuple[float, float]] = {}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            history = call()
            rate = history.gradients / history.seconds[-1]
            best[name] = max(best.get(name, (0.0, 0.0)), (rate, history.bytes_per_step))
    if comm.Get_rank() == 0:
        peer = "in step, mpi"
        shared = {"peer": peer, "parameters": {"ranks": RANKS, "batch": BATCH}}
        lines = []
        for name, (rate, nbytes) in best.items():
            rate_row = {"name": f"gradients per second, {name}", "value": rate, "unit": "1/s"}
            byte_row = {"name": f"bytes per step and rank, {name}", "value": nbytes, "unit": "B"}
            lines += [
                rate_row | shared | {"peer_value": best[peer][0]},
                byte_row | shared | {"peer_value": best[peer][1]},
            ]
        print(json.dumps(lines))


if __name__ == "__main__":
    if "--rank" in sys.argv:
        _rank_main()
    else:
        for row in rows():
            print(f"{row.name:44s}{row.value:12.1f} {row.unit:4s} × {row.ratio:.2f} of {row.peer}")
