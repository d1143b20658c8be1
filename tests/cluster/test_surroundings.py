"""What a reader has beside the notebook, and in the environment, does no harm to a cluster."""

import tempfile

import pytest

from helpers.cluster import Cluster
from helpers.cluster.forked import ForkedProcesses
from helpers.cluster.forkserver.handle import CannotFork

pytestmark = pytest.mark.mpi

NAMES = "random queue email code tokenize signal select statistics socket types struct copy numpy"
NAMES += " torch mpi4py test zmq calendar"


def test_files_that_are_named_like_modules(tmp_path):
    from jupyter_client.manager import start_new_kernel

    for name in NAMES.split():
        (tmp_path / f"{name}.py").write_text("answer = 42\n")
    (tmp_path / "mine.py").write_text("where = 'beside the notebook'\n")
    manager, client = start_new_kernel(cwd=str(tmp_path))
    said = []
    try:
        for source in (
            "%load_ext helpers.cluster\nfrom helpers.cluster import Cluster\ncluster = Cluster(2)",
            "%%ranks\nimport mine\nprint(comm.allreduce(rank), mine.where)",
            "cluster.stop()",
        ):
            client.execute_interactive(
                source,
                timeout=120,
                output_hook=lambda message: said.append(str(message["content"])),
            )
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    assert "1 beside the notebook" in "".join(said), said


def test_the_variables_of_a_job_that_uses_pmix(monkeypatch):
    for name in ("NAMESPACE", "RANK", "SERVER_URI2"):
        monkeypatch.setenv(f"PMIX_{name}", "0")
    with Cluster(2) as cluster:
        assert cluster.run(lambda: comm.allreduce(rank)) == [1, 1]  # noqa: F821


def test_a_temporary_folder_of_few_characters_and_many_bytes(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/" + "学生的文件夹" * 6)
    with pytest.raises(CannotFork, match="too long for a socket's path"):
        ForkedProcesses(2, 1, ())


def test_a_preloaded_module_that_was_edited(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    file = tmp_path / "edited_later.py"
    file.write_text("import edited_too\n\nnumber = edited_too.number\n")
    (tmp_path / "edited_too.py").write_text("number = 1\n")

    def number():
        import edited_later

        return edited_later.number

    with Cluster(1, preload=("edited_later",)) as cluster:
        assert cluster.run(number) == [1]
        (tmp_path / "edited_too.py").write_text("number = 20\n")
        cluster.restart()
        assert cluster.run(number) == [20]
