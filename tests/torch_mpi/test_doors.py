"""How the backend comes into torch, and how scripts that use it begin and end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT
from tests.cluster.ways import PART

UNWANTED = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
MPIEXEC = str(Path(sys.executable).with_name("mpiexec"))


def script(tmp_path, text: str, *launcher: str, **variables: str):
    """Run a script under a launcher; return what came of it."""
    file = tmp_path / "script.py"
    file.write_text(text)
    environment = {k: v for k, v in os.environ.items() if k not in UNWANTED}
    return subprocess.run(
        [*launcher, *(() if "torchrun" in " ".join(launcher) else (sys.executable,)), str(file)],
        env=environment | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )


NOTHING_REPLACED = """
import sys
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

def functions():
    found = {}
    for module in (dist, c10d, dist.rendezvous.__class__):
        found |= {(module.__name__, k): v for k, v in vars(module).items() if callable(v)}
    return found

before = functions()
import helpers.torch_mpi
assert functions() == before
assert "mpi4py.MPI" not in sys.modules, "the import has started MPI"
assert helpers.torch_mpi.BACKEND in dist.Backend.backend_list
"""


def test_the_import_replaces_nothing_and_starts_no_mpi(tmp_path):
    done = script(tmp_path, NOTHING_REPLACED)
    assert done.returncode == 0, done.stderr


BEGIN = """
import torch.distributed as dist, helpers.torch_mpi
dist.init_process_group("mpi4py"{method})
print("a world of", dist.get_world_size())
"""


@pytest.mark.mpi
@PART
@pytest.mark.parametrize("method", ["", ', init_method="mpi://"'])
def test_torchrun_is_refused_by_name(tmp_path, method):
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    text = BEGIN.format(method=method)  # torchrun leaves a folder of logs
    done = script(tmp_path, text, torchrun, "--nproc-per-node=2", TMPDIR=str(tmp_path))
    assert done.returncode != 0
    assert "a world of" not in done.stdout
    assert "torchrun" in done.stderr.split("RuntimeError:")[1], done.stderr
    assert "mpiexec -n 2" in done.stderr


@pytest.mark.mpi
def test_a_launcher_that_mpi_does_not_know_is_refused(tmp_path):
    text = BEGIN.format(method=', init_method="mpi://"')
    done = script(tmp_path, text, SLURM_STEP_NUM_TASKS="4")
    assert "srun --mpi=pmi2" in done.stderr
    assert "SLURM_STEP_NUM_TASKS=4" in done.stderr
    assert script(tmp_path, text, SLURM_STEP_NUM_TASKS="1").stdout == "a world of 1\n"


RAISES = """
import torch, torch.distributed as dist, helpers.torch_mpi as ours
import sys
options = ours.Options("{path}")
dist.init_process_group("mpi4py", init_method="mpi://", pg_options=options)
dist.all_reduce(torch.ones(3))
if dist.get_rank() == 1:
    raise ArithmeticError("of rank 1")
if dist.get_rank() == 2 and "{call}" == "recv":
    dist.recv(torch.ones(3), 1)
{others}
"""


@pytest.mark.mpi
@pytest.mark.parametrize("path", ["window", "network"])
@pytest.mark.parametrize("call", ["all_reduce", "recv"])
@PART
def test_a_rank_that_raises_ends_the_others_which_name_it(tmp_path, call, path):
    others = (
        "try:\n    dist.all_reduce(torch.ones(3))\nfinally:\n"
        "    sys.stdout.write('back\\n')"  # in one piece, also unbuffered
    )
    text = RAISES.format(call=call, others=others, path=path)
    done = script(tmp_path, text, MPIEXEC, "-n", "3")
    said = f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode != 0, said
    # rank 2's recv raises; that all are back before the script's limit says that nobody waits on
    assert done.stdout.split() == ["back"] * (1 if call == "recv" else 2), said
    assert "ArithmeticError: of rank 1" in done.stderr, said
    assert "rank 1 of this group has left it" in done.stderr, said


LEAVES = """
import time, torch, torch.distributed as dist, helpers.torch_mpi as ours
dist.init_process_group("mpi4py", init_method="mpi://")
rank = dist.get_rank()
if rank == 1:
    dist.send(torch.full((300_000,), 5.0), 0)
    dist.all_reduce(torch.ones(3), async_op=True)
else:
    time.sleep(0.5)  # rank 1 has done all it has to
    got = torch.zeros(300_000)
    dist.recv(got, 1)
    dist.all_reduce(x := torch.ones(3))
    print("all of it" if got.sum() == 1_500_000 and x[0] == 2 else "not all")
dist.destroy_process_group()
"""


@pytest.mark.mpi
@PART
def test_what_a_rank_did_before_it_left_still_counts(tmp_path):
    done = script(tmp_path, LEAVES, MPIEXEC, "-n", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all of it\n"


SPAWNS = """
import torch, torch.distributed as dist, helpers.torch_mpi
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    dist.init_process_group("mpi4py", init_method="mpi://")
    data = TensorDataset(torch.arange(8.0))
    loader = DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context="spawn")
    total = sum(batch.sum() for (batch,) in loader)
    dist.all_reduce(total)
    print(f"[{total:g}]")
"""


@pytest.mark.mpi
@PART
def test_workers_of_a_loader_may_be_spawned(tmp_path):
    done = script(tmp_path, SPAWNS, MPIEXEC, "-n", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[56]") == 2
