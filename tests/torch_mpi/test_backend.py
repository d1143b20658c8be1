"""The backend mpi4py on real ranks, through shared memory and through MPI."""

import re
import sys
from pathlib import Path

import pytest

from helpers.machine import launcher
from helpers.paths import ROOT
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.torch_mpi import ranks

pytestmark = pytest.mark.mpi
PATHS = ("window", "network")
WINDOW = ("window", pytest.param("network", marks=PART))


def more(path: str, n: int):
    """A case like one that `make test` runs, in the part alone."""
    return pytest.param(path, n, marks=PART)


@pytest.mark.parametrize(("path", "n"), [more("window", 2), ("window", 5), ("network", 3)])
def test_reductions(path, n):
    checked = run_ranks(n, ranks.check_reductions, path, timeout=120)
    assert checked == [checked[0]] * n
    assert checked[0] > 300


@pytest.mark.parametrize(
    ("path", "n"),
    [
        ("window", 1),
        more("window", 2),
        more("window", 4),
        ("window", 5),
        more("network", 1),
        ("network", 3),
    ],
)
def test_movement(path, n):
    run_ranks(n, ranks.check_movement, path, timeout=120)


@pytest.mark.parametrize("n", [pytest.param(2, marks=PART), 5])
def test_messages(n):
    run_ranks(n, ranks.check_messages, "auto")


@pytest.mark.parametrize(("path", "n"), [more("window", 2), ("window", 4), ("network", 3)])
def test_groups(path, n):
    run_ranks(n, ranks.check_groups, path)


@pytest.mark.parametrize("path", WINDOW)
def test_ddp_zero_fsdp_and_dtensor_equal_one_process(path):
    for errors in run_ranks(3, ranks.check_wrappers, path, timeout=120):
        assert max(errors) < 1e-5


@pytest.mark.parametrize("path", PATHS)
def test_async_operations_move_while_python_computes(path):
    run_ranks(2, ranks.check_progress, path)


@pytest.mark.parametrize("path", WINDOW)
def test_time_outs_raise_and_a_new_start_works(path):
    reports = run_ranks(3, ranks.check_time_outs, path)
    assert reports[2] == []
    for report in reports[:2]:
        assert "Timed out after 1 s" in report[0]
        assert "out of step" in report[1]
        assert "recv from rank 2" in report[2]
        if path == "window":
            assert "rank(s) 2 of this group did not arrive" in report[0]


def test_monitored_barrier_names_the_missing_rank():
    reports = run_ranks(3, ranks.check_missing_rank)
    assert "Ranks 1 failed to pass" in reports[0]
    assert "rank 0" in reports[2]


def test_ranks_that_call_different_collectives_are_told():
    reports = run_ranks(2, ranks.check_mismatch)
    assert any("broadcast" in r and "all_reduce of 16 bytes" in r for r in reports)


def test_rendezvous(tmp_path):
    run_ranks(3, ranks.check_rendezvous, str(tmp_path / "store"), timeout=120)


def test_sparse():
    run_ranks(3, ranks.check_sparse)


SOURCE_EXAMPLE = """
import torch, torch.distributed as dist, helpers.torch_mpi
dist.init_process_group("mpi4py", init_method="mpi://")
x = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(x)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {x.item():g}")
"""


@PART
def test_ten_lines_need_no_environment_and_end_without_being_asked(tmp_path, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text(SOURCE_EXAMPLE)
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    done = launcher.run_ranks(
        3, [sys.executable, script], timeout=60, env={"PYTHONPATH": str(ROOT)}, threads=None
    )
    assert done.code == 0, done.output
    # mpiexec passes output on in pieces: a line of one rank may stand within another's
    assert sorted(re.findall(r"rank \d of 3: 6", done.output)) == [
        f"rank {r} of 3: 6" for r in range(3)
    ]


@PART
@pytest.mark.openmpi
def test_the_same_backend_over_open_mpi(openmpi):
    """That environment has no torch: it borrows this one's, and brings its own MPI."""
    import torch

    packages = str(Path(torch.__file__).parents[1])
    said = run_ranks(
        3,
        ranks.check_open_mpi,
        packages,
        timeout=150,
        python=openmpi.python,
        env=openmpi.variables,
    )
    assert all("Open MPI" in library for library in said)
