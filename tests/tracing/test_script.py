"""The package by its door alone: in a plain script under mpiexec, without notebook or cluster."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT
from tests.cluster.ways import PART

SCRIPT = """
import pickle
import sys

from mpi4py import MPI

from helpers.tracing import gather, record, save_chrome

with record() as comm:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    request = comm.isend("x" * 1000, right, tag=7)
    comm.recv(source=left, tag=7)
    request.wait()
    comm.barrier()
trace = gather(comm)
assert (trace is None) == (MPI.COMM_WORLD.rank > 0)
assert not {"helpers.cluster", "torch", "IPython"} & set(sys.modules)
if trace is not None:
    save_chrome(trace, "chrome.json")
    with open("trace.pickle", "wb") as file:
        pickle.dump(trace, file)
"""


@pytest.mark.mpi
@PART
def test_a_plain_script_records_and_leaves_its_trace_in_files(tmp_path):
    Path(tmp_path, "ring.py").write_text(SCRIPT)
    mpiexec = Path(sys.executable).with_name("mpiexec")
    subprocess.run(
        [mpiexec, "-n", "3", sys.executable, "ring.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=True,
    )
    trace = pickle.loads(Path(tmp_path, "trace.pickle").read_bytes())
    assert [(m.source, m.dest, m.tag) for m in sorted(trace.messages, key=lambda m: m.source)] == [
        (0, 1, 7), (1, 2, 7), (2, 0, 7),
    ]  # fmt: skip
    assert [event.call for event in trace.of(1)] == ["isend", "recv", "wait", "barrier"]
    drawn = json.loads(Path(tmp_path, "chrome.json").read_text())["traceEvents"]
    assert sum(item["ph"] == "X" for item in drawn) == len(trace.events) == 12
