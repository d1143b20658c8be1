"""`python -m bench`: good suites are recorded, broken ones are named, none is left running."""

import shutil
import subprocess
import sys
import time

import pytest

from bench.__main__ import table
from helpers import records
from helpers.records import Row

GOOD = """
from helpers.records import Row
SUITE = "good"
def rows(): return [Row("add", 2.0, "µs", "numpy", 4.0, {"n": 8}), Row("sub", 1.0, "µs", "CuPy")]
def gpu_rows(): return [Row("gpu", 1.0, "µs")]
"""
HANGS = """
import subprocess, sys, time
SUITE = "hangs"
def rows():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "PROOF"])
    time.sleep(600)
"""
BROKEN = {
    "raises": ('SUITE = "raises"\ndef rows(): raise RuntimeError("boom")', "boom"),
    "crashes": (
        'import os\nSUITE = "crashes"\ndef rows(): os.kill(os.getpid(), 11)',
        "crashes: killed by signal 11",
    ),
    "empty": ('SUITE = "empty"\ndef rows(): return []', "bench/empty.py: no rows"),
    "needs": ('import not_installed\nSUITE = "needs"\ndef rows(): return []', "not_installed"),
}


@pytest.fixture
def course(tmp_path, request):
    """A copy of the driver, with its helpers, and no suites."""
    root = request.config.rootpath
    (tmp_path / "bench").mkdir()
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(root / "bench" / name, tmp_path / "bench")
    (tmp_path / "helpers").mkdir()
    for name in ("__init__.py", "paths.py", "records.py"):
        shutil.copy(root / "helpers" / name, tmp_path / "helpers")
    shutil.copytree(root / "helpers" / "machine", tmp_path / "helpers" / "machine")
    return tmp_path


def run(course, *arguments, **suites):
    for name, source in suites.items():
        (course / "bench" / f"{name}.py").write_text(source, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=course,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_good_suite_is_printed_with_its_ratio_and_recorded(course):
    done = run(course, good=GOOD)
    assert done.returncode == 0, done.stderr
    assert "add (n=8): 2 µs, numpy 4 µs: × 0.5" in done.stdout
    assert "CuPy not here" in done.stdout
    (one,) = records.load(course / "data" / "bench")
    assert one.suites["good"][0] == Row("add", 2.0, "µs", "numpy", 4.0, {"n": 8})
    assert one.suites["good"][1].peer_value is None
    assert one.command == "python -m bench"


def test_broken_suites_are_named_and_the_others_go_on(course):
    done = run(course, good=GOOD, **{name: source for name, (source, _) in BROKEN.items()})
    assert done.returncode == 1
    for name, (_, message) in BROKEN.items():
        assert message in done.stdout + done.stderr
        assert f"suite {name} FAILED" in done.stderr
    (one,) = records.load(course / "data" / "bench")
    assert list(one.suites) == ["good"]


def test_a_suite_that_hangs_ends_at_its_limit_with_all_its_processes(course):
    import psutil

    begin = time.perf_counter()
    done = run(course, "--limit", "3", hangs=HANGS)
    assert done.returncode == 1
    assert "not finished after 3 s" in done.stdout
    assert time.perf_counter() - begin < 50
    left = []
    for process in psutil.process_iter(["cmdline", "cwd", "status"]):
        info = process.info
        if info["cwd"] == str(course) and info["status"] != psutil.STATUS_ZOMBIE:
            left.append(info["cmdline"])
    assert left == []


def test_the_gpu_part_is_called_in_its_place(course):
    only = 'from helpers.records import Row\nSUITE = "big"\nGPU = True\n'
    only += 'def rows(): return [Row("conv", 1.0, "µs")]\n'
    done = run(course, "--gpu", "--out", "gpu", good=GOOD, big=only)
    assert done.returncode == 0, done.stderr
    (one,) = records.load(course / "gpu")
    assert {name: rows[0].name for name, rows in one.suites.items()} == {
        "big": "conv",
        "good": "gpu",
    }
    assert "no suite big; there are: good" in run(course, "big").stderr


def test_a_suite_that_lacks_something_is_left_out_and_one_that_is_not_chosen_is_not_run(course):
    lacking = 'SUITE = "lacking"\ndef lacks(): return "no ncu here"\ndef rows(): 1 / 0'
    done = run(course, "good", "lacking", good=GOOD, lacking=lacking, raises=BROKEN["raises"][0])
    assert done.returncode == 0, done.stderr
    assert "lacking is left out: no ncu here" in done.stdout
    (one,) = records.load(course / "data" / "bench")
    assert list(one.suites) == ["good"]


def test_a_table_leaves_long_parameters_to_the_record():
    given = {"values": [0.5] * 20, "reason": "x" * 60, "ranks": 4, "off": 4.470348358154297e-08}
    assert table([Row("add", 0.8, "1", "one at a time", 1.6, given), Row("copy", 1.0, "s")]) == (
        "add (values=..., reason=..., ranks=4, off=4.47e-08): 0.8 1, one at a time 1.6 1: × 0.5\n"
        "copy: 1 s"
    )
