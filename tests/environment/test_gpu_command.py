"""`make gpu` installs nothing, and says in a sentence why it cannot run."""

import sys

import pytest

from bench.__main__ import suites
from helpers.paths import ROOT
from tests.environment import run


def gpu(python):
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(python)}
    return run("sh", "tools/gpu.sh", cwd=ROOT, env=environment)


def stand_in(tmp_path, torch="", version=""):
    """Return an interpreter that finds the given torch (none: no torch at all)."""
    folder = tmp_path / "modules"
    folder.mkdir()
    if torch:
        (folder / "torch.py").write_text(torch, encoding="utf-8")
    python = tmp_path / "python"
    change = f"import sys; sys.version_info = {version}" if version else ""
    (folder / "usercustomize.py").write_text(change, encoding="utf-8")
    (folder / "sitecustomize.py").write_text(change, encoding="utf-8")
    # -S: without site-packages, so that the torch of this environment is not seen
    launcher = f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} -S "$@"\n'
    if version:
        launcher = launcher.replace(" -S", "")
    python.write_text(launcher, encoding="utf-8")
    python.chmod(0o755)
    return python


TORCH = """
__version__ = "{version}"
class version: cuda = {cuda!r}
class cuda:
    is_available = staticmethod(lambda: False)
"""


def test_no_gpu_is_a_sentence():
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    done = gpu(sys.executable)
    assert done.returncode == 1
    (said,) = done.stderr.strip().splitlines()
    assert said.startswith("make gpu: there is no GPU that torch")
    assert "nothing was measured" in said


@pytest.mark.parametrize(
    ("torch", "version", "said"),
    [
        ("", "", "make gpu needs torch 2.11 or later; {python} cannot import it"),
        (TORCH.format(version="2.10.1", cuda="13.0"), "", "{python} has 2.10.1"),
        (TORCH.format(version="2.12.0+cu130", cuda="13.0"), "", "built for CUDA 13.0"),
        (TORCH.format(version="2.11.0", cuda=None), "", "built without CUDA"),
        ("", (3, 10, 4), "make gpu needs Python 3.11 or later; {python} is "),
    ],
)
def test_what_is_missing_is_a_sentence(tmp_path, torch, version, said):
    done = gpu(stand_in(tmp_path, torch, version))
    assert done.returncode == 1
    assert said.format(python=sys.executable) in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_interpreter_that_does_not_exist_is_repeated():
    done = gpu("no-such-python")
    assert (done.returncode, done.stderr.strip()) == (
        1,
        "make gpu: PYTHON=no-such-python is not a program here.",
    )


ABSENT = """
import importlib, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError("absent: " + name, name=name)

sys.meta_path.insert(0, Absent())
for name in {modules}:
    importlib.import_module(name)
"""


def test_what_runs_on_a_gpu_machine_imports_nothing_that_is_absent_there():
    absent = (
        "dgl ipyparallel IPython traitlets zmq playwright nbformat jupytext mpich igraph sknetwork"
    )
    marked = [
        p for p in ROOT.glob("tests/**/test_*.py") if "pytest.mark.gpu" in p.read_text("utf-8")
    ]
    parts = suites(gpu=True)
    assert parts == ["counters", "cuda", "kernels", "pagerank", "roofline"]
    modules = [".".join(p.relative_to(ROOT).with_suffix("").parts) for p in marked]
    modules += [f"bench.{name}" for name in parts]
    modules += ["bench.__main__", "helpers.cuda.gpu.driver", "helpers.cuda.ladder"]
    program = ABSENT.format(absent=set(absent.split()), modules=modules)
    done = run(sys.executable, "-c", program, cwd=ROOT)
    assert done.returncode == 0, done.stderr
