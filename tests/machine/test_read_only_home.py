"""A home that cannot be written, a temporary folder of one's own: both are honoured everywhere."""

import getpass
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.machine.cache import cache_folder
from helpers.machine.compilers import has_compiler
from helpers.paths import ROOT
from tests.cluster.ways import PART

EVERYTHING = """
import numpy as np
from helpers import native
from helpers.cluster import Cluster
from helpers.cuda import Module
from helpers.machine.cache import cache_folder
from helpers.pagerank import pagerank
from scipy.sparse import csr_array
import helpers.plots.style, torch

native.load_c("int one(void) { return 1; }")
x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
Module("__global__ void copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }",
       device="cpu")["copy"][1, 4](x, y)
with Cluster(n=2) as cluster:
    ranks = cluster.run(lambda: __import__("mpi4py.MPI").MPI.COMM_WORLD.rank)
pagerank(csr_array([[0, 1], [0, 0]]))
torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1).step()
print(ranks, y.tolist(), cache_folder("c"))
"""


def run(tmp_path: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run Python with this home and a temporary folder of its own."""
    # Below a file nothing can be made, whoever tries; permissions would not stop root.
    (tmp_path / "file").touch()
    (tmp_path / "t").mkdir()
    others = ("XDG_", "MPL", "IPY", "JUPYTER", "TORCHINDUCTOR")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    environment |= {"HOME": str(home), "TMPDIR": str(tmp_path / "t")}
    environment |= {"WORK": str(tmp_path / "work"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=150, cwd=ROOT
    )


@pytest.mark.mpi
@pytest.mark.skipif(not has_compiler("C++"), reason="no C++ compiler")
@PART  # it compiles everything anew
@pytest.mark.parametrize("home", ["file/home", "none/of/these"])
def test_everything_works_without_a_home(tmp_path, home):
    temporary = tmp_path / "t"
    done = run(tmp_path, tmp_path / home, "-c", EVERYTHING)
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert said.startswith("[0, 1] [1.0, 1.0, 1.0, 1.0] ")
    inside = temporary if home == "file/home" else tmp_path / home
    assert Path(said.split()[-1]).is_relative_to(inside)
    # Where the home cannot be written IPython and Matplotlib make folders of their own for each
    # process, empty but for IPython's README.
    left = {
        path.name.partition("-")[0]
        for path in temporary.iterdir()
        if any(p.is_file() and p.name != "README" for p in path.rglob("*"))
    }
    assert left <= {"parallel", "matplotlib"}
    assert (temporary / f"torchinductor_{getpass.getuser()}").is_dir()


KERNEL = """
from tests.cluster.kernel import Kernel
with Kernel() as kernel:
    kernel("%load_ext helpers.cluster\\nfrom helpers.cluster import Cluster\\ncluster = Cluster(2)")
    print(kernel("%%ranks\\ncomm.allreduce(rank + 20)").text)
    kernel("cluster.stop()")
"""


@pytest.mark.mpi
def test_a_notebook_has_ranks_without_a_home(tmp_path):
    done = run(tmp_path, tmp_path / "file/home", "-c", KERNEL)
    assert "[0-1] 41" in done.stdout, done.stdout + done.stderr


def test_jupyterlab_without_a_home_says_what_to_set(tmp_path):
    done = run(tmp_path, tmp_path / "file/home", "-m", "tools.work", "lab", "--no-browser")
    assert done.returncode == 1
    assert "cannot be written (Not a directory): name a home that can" in done.stderr
    assert "HOME=/tmp/home make lab" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_cache_settings_are_honoured(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert cache_folder("c").is_relative_to(tmp_path / "mine")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder("c").is_relative_to(tmp_path / "home")  # as the XDG specification says
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder("c").is_relative_to(tmp_path / "home")
