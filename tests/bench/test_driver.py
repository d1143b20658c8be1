"""`python -m bench`: good suites are recorded, broken ones are named, none is left running."""

import json
import shutil
import subprocess
import sys
import time

import pytest

from bench.__main__ import discover, table
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
    "misnamed": ('SUITE = "other"\ndef rows(): return []', "expected SUITE = 'misnamed'"),
    "norows": ('SUITE = "norows"\ndef rows(): return [3]', "expected helpers.records.Row, got 3"),
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
    for name in ("__init__.py", "paths.py", "records.py", "schema.py"):
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
    assert "4 µs (numpy)     0.5" in done.stdout
    assert "not here (CuPy)" in done.stdout
    (one,) = records.load(course / "data" / "bench")
    assert one.suites["good"][0] == Row("add", 2.0, "µs", "numpy", 4.0, {"n": 8})
    assert one.command == "python -m bench"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_suite_is_named_and_the_others_go_on(course, name):
    source, message = BROKEN[name]
    done = run(course, good=GOOD, **{name: source})
    assert done.returncode == 1
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


def test_one_suite_can_be_chosen_without_a_record(course):
    done = run(course, "good", "--no-record", good=GOOD, raises=BROKEN["raises"][0])
    assert done.returncode == 0, done.stderr
    assert not (course / "data").exists()


def test_the_gpu_part_is_called_in_its_place(course):
    gpu_only = 'SUITE = "big"\nGPU = True\n' + GOOD.split("\n", 3)[3].replace("add", "conv")
    gpu_only = "from helpers.records import Row\n" + gpu_only.split("def gpu_rows")[0]
    done = run(course, "--list", good=GOOD, big=gpu_only)
    assert done.stdout.split() == ["good"]
    done = run(course, "--list", "--gpu")
    assert done.stdout.split() == ["big", "good"]
    done = run(course, "big")
    assert "add --gpu" in done.stderr


def test_an_unknown_suite_is_repeated_with_those_that_exist(course):
    done = run(course, "colectives", good=GOOD)
    assert done.returncode == 1
    assert done.stderr.strip() == "bench: no suite colectives; there are: good"


def test_no_suite_at_all_is_said(course):
    done = run(course)
    assert (done.returncode, done.stderr.strip()) == (1, "bench: no suite")


def test_table_lines_up():
    lines = table([Row("a", 1.0, "s", "b", 2.0), Row("long name", 10.0, "s")]).splitlines()
    assert lines[1].index("1 s") == lines[2].index("10 s") == lines[0].index("ours")


def test_every_suite_of_the_course_declares_what_the_driver_calls():
    for name, names in discover().items():
        assert names & {"rows", "gpu_rows"}, f"bench/{name}.py defines neither rows nor gpu_rows"


def test_a_record_survives_json(course):
    run(course, good=GOOD)
    (path,) = (course / "data" / "bench").glob("*.json")
    assert json.loads(path.read_text(encoding="utf-8"))["suites"]["good"][1]["peer_value"] is None
