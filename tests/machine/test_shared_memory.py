"""What dead ranks leave in shared memory is swept; what is young, foreign or in use stays."""

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.machine import guard, shared_memory
from helpers.machine.shared_memory import sweep, sweep_ended

PIPE = {"stdout": subprocess.PIPE, "check": True}
LINUX = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="/dev/shm is Linux's")


def make(folder: Path, name: str, age: float) -> Path:
    path = folder / name
    path.write_bytes(bytes(4096))
    os.utime(path, (time.time() - age,) * 2)
    return path


@LINUX
def test_old_files_that_no_process_has_go_and_all_others_stay(tmp_path):
    for name, age in (("mpich_shm_1", 100), ("mpich_shm_2", 1), ("ucx_shm_posix_1", 100)):
        make(tmp_path, name, age)
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"mpich_shm_2", "ucx_shm_posix_1"}


@LINUX
def test_what_a_world_of_one_left_goes_with_its_process(tmp_path):
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], **PIPE)
    make(tmp_path, f"mpich_shm_{int(ended.stdout):x}_0", 1)
    lives = make(tmp_path, f"mpich_shm_{os.getpid():x}_0", 1)
    several = make(tmp_path, "mpich_shm_2d2665f5_0", 1)
    sweep_ended(tmp_path)
    assert {*tmp_path.iterdir()} == {lives, several}


@LINUX
def test_a_file_that_a_process_has_mapped_stays():
    mine = make(Path("/dev/shm"), f"mpich_shm_test{os.getpid()}_0", 100)
    try:
        with mine.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            sweep()
            assert mine.exists()
        sweep()
        assert not mine.exists()
    finally:
        mine.unlink(missing_ok=True)


@LINUX
def test_leftovers_are_swept_before_ranks_are_refused(monkeypatch):
    swept = []
    monkeypatch.setattr(shared_memory, "sweep", lambda: swept.append(1))
    assert shared_memory.why_not_enough(1) is None
    assert swept == []
    assert "MPI ranks need" in shared_memory.why_not_enough(10**6)
    assert swept == [1]


@LINUX
@pytest.mark.mpi
def test_a_world_of_one_that_is_never_ended_can_remove_its_own():
    code = (
        "import os\nfrom mpi4py import MPI\n"
        "from helpers.machine import guard, shared_memory\n"
        "(name,) = guard.shared_files(os.getpid())\n"
        "shared_memory.unlink_own()\n"
        "print(os.path.exists(name), flush=True)\n"
        "os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


@LINUX
def test_open_mpis_launcher_has_time_to_clear_up(tmp_path):
    launcher, folder = tmp_path / "prterun", tmp_path / "session"
    folder.mkdir()
    launcher.write_text(
        "#!/bin/sh\ntrap 'kill $!; sleep 1.2; rmdir \"$0\".ready; rmdir session; exit' TERM\n"
        'mkdir "$0".ready\nsleep 60 &\nwait\n'
    )
    launcher.chmod(0o755)
    with subprocess.Popen([launcher], cwd=tmp_path) as process:
        while not (tmp_path / "prterun.ready").exists() or not guard.descendants(process.pid):
            time.sleep(0.01)
        guard.end_gently(process.pid)
    assert not folder.exists()


def test_a_stop_that_comes_after_the_cell_shows_nothing(monkeypatch):
    def stopped():
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "mpi4py.MPI", SimpleNamespace(Is_initialized=stopped))
    shared_memory.unlink_when_alone()
