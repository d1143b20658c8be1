"""What a reader has beside the notebook, and in the environment, does no harm to a cluster."""

import multiprocessing.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from helpers.cluster import Cluster, RankTimeoutError, StartError
from helpers.cluster.start.forked import ForkedProcesses
from helpers.cluster.start.forkserver.handle import CannotFork
from helpers.paths import ROOT
from helpers.waiting import comes_true
from tests.cluster.kernel import SETUP, Kernel
from tests.cluster.ways import PART

pytestmark = pytest.mark.mpi

NAMES = "random queue email code tokenize signal select statistics socket types struct copy numpy"
NAMES += " torch mpi4py test zmq calendar"


def test_files_that_are_named_like_modules(tmp_path):
    for name in NAMES.split():
        (tmp_path / f"{name}.py").write_text("answer = 42\n")
    (tmp_path / "mine.py").write_text("where = 'beside the notebook'\n")
    with Kernel(cwd=str(tmp_path)) as kernel:
        assert not kernel(SETUP).error
        shown = kernel("%%ranks\nimport mine\nprint(comm.allreduce(rank), mine.where)")
        assert shown.text == "[0-2] 3 beside the notebook\n"
        kernel("cluster.stop()")


def test_the_variables_of_a_job_that_uses_pmix(monkeypatch):
    for name in ("NAMESPACE", "RANK", "SERVER_URI2"):
        monkeypatch.setenv(f"PMIX_{name}", "0")
    with Cluster(2) as cluster:
        assert cluster.run(lambda: comm.allreduce(rank)) == [1, 1]  # noqa: F821


def test_a_temporary_folder_of_few_characters_and_many_bytes(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/" + "学生的文件夹" * 6)
    with pytest.raises(CannotFork, match="too long for a socket's path"):
        ForkedProcesses(2, 1, ())


def test_a_temporary_folder_with_a_variable_in_its_name(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/$HOME")
    with pytest.raises(StartError, match=r"got /tmp/\$HOME: set TMPDIR"):
        Cluster(2)


def test_a_preloaded_module_that_was_edited(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    file = tmp_path / "edited_later.py"
    file.write_text("import edited_too\n\nnumber = edited_too.number\n")
    (tmp_path / "edited_too.py").write_text("number = 1\n")

    def number():
        import importlib

        return importlib.import_module("edited_later").number

    with Cluster(1, preload=("edited_later",)) as cluster:
        assert cluster.run(number) == [1]
        (tmp_path / "edited_too.py").write_text("number = 20\n")
        cluster.restart()
        assert cluster.run(number) == [20]


def test_a_folder_that_goes_away_under_a_cluster():
    def total():
        return comm.allreduce(rank)  # noqa: F821

    def hang():
        if rank:  # noqa: F821
            comm.Barrier()  # noqa: F821

    with Cluster(2) as cluster:
        shutil.rmtree(cluster._processes.folder)
        with pytest.raises(RankTimeoutError, match="Barrier"):
            cluster.run(hang, timeout=1.5)
        assert cluster.run(total) == [1, 1]
        shutil.rmtree(cluster._processes.folder)
        cluster.restart()
        assert cluster.run(total) == [1, 1]


def test_what_workers_by_forkserver_leave_is_removed():
    """A loader's workers are ended without MPI_Finalize, after whichever epoch."""

    def epoch():
        import importlib
        import multiprocessing

        by = multiprocessing.get_context("forkserver")
        workers = [by.Process(target=importlib.import_module, args=["mpi4py.MPI"]) for _ in "12"]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return [worker.exitcode for worker in workers], [
            Path("/dev/shm", f"mpich_shm_{worker.pid:x}_0") for worker in workers
        ]

    with Cluster(2) as cluster:
        (codes, files), _ = cluster.run(epoch)
        assert codes == [0, 0]
        assert comes_true(lambda: not any(file.exists() for file in files), 20, 0.1)
        (sockets, *_), _ = cluster.run(lambda: [multiprocessing.util.get_temp_dir()])
        assert Path(sockets).is_dir()
    assert not Path(sockets).exists()


SCRIPT = """
{before}
from helpers.cluster import Cluster

def go():
    with Cluster(2) as cluster:
        total = sum(cluster.run(lambda: comm.allreduce(rank)))
        print("sum " + str(total))  # in one piece: others print too

{run}
"""


@pytest.mark.parametrize(
    ("before", "run", "expected"),
    [
        pytest.param(
            "import threading",
            "threads = [threading.Thread(target=go) for _ in range(2)]\n"
            "for t in threads: t.start()\nfor t in threads: t.join()",
            ["sum 2"] * 2,
            marks=PART,
        ),
        *(
            pytest.param(
                f"import os\nos.environ.update(PYTHONWARNINGS='error', COURSE_RANKS='{way}')",
                "go()",
                ["sum 2"],
                marks=[] if way == "fork" else PART,
                id=way,
            )
            for way in ("fork", "spawn", "mpiexec")
        ),
        pytest.param(
            "import os, tempfile\nos.chdir(tempfile.mkdtemp())",
            "go()\nos.rmdir(os.getcwd())\ngo()",
            ["sum 2"] * 2,
            marks=PART,
        ),
        pytest.param(
            "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
            "go()",
            ["a process may have 64 files open, which is too few"],
            marks=PART,
        ),
    ],
)
def test_clusters_of_a_script(before, run, expected):
    source = SCRIPT.format(before=before, run=run)
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    said = done.stdout + done.stderr
    assert said.count(expected[0]) == len(expected), said
