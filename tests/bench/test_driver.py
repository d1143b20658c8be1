"""`python -m bench`: good suites are recorded, broken ones are named, none is left running."""

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
    gpu_only = 'SUITE = "big"\nGPU = True\n' + GOOD.split("\n", 3)[3].replace("add", "conv")
    gpu_only = "from helpers.records import Row\n" + gpu_only.split("def gpu_rows")[0]
    done = run(course, "--list", good=GOOD, big=gpu_only)
    assert done.stdout.split() == ["good"]
    done = run(course, "--list", "--gpu")
    assert done.stdout.split() == ["big", "good"]
    done = run(course, "big")
    assert "add --gpu" in done.stderr


def test_a_suite_that_lacks_something_is_left_out_and_one_that_is_not_chosen_is_not_run(course):
    lacking = 'SUITE = "lacking"\ndef lacks(): return "no ncu here"\ndef rows(): 1 / 0'
    chosen = "good", "lacking", "--no-record"
    done = run(course, *chosen, good=GOOD, lacking=lacking, raises=BROKEN["raises"][0])
    assert done.returncode == 0, done.stderr
    assert "lacking is left out: no ncu here" in done.stdout
    assert not (course / "data").exists()


def test_an_unknown_suite_is_repeated_with_those_that_exist(course):
    done = run(course)
    assert (done.returncode, done.stderr.strip()) == (1, "bench: no suite")
    done = run(course, "colectives", good=GOOD)
    assert done.returncode == 1
    assert done.stderr.strip() == "bench: no suite colectives; there are: good"


def test_a_table_fits_and_leaves_long_parameters_to_the_record():
    long = {"values": [0.5] * 20, "reason": "x" * 60, "ranks": 4, "off": 4.470348358154297e-08}
    rows = [
        Row(
            "a hierarchy without attention and so on", 0.8, "1", "one sentence at a time", 0.8, long
        ),
        Row("test_3_level_model_averager_equivalent_to_periodic_averaging", 1.0, "1", "gloo", 1.0),
    ]
    text = table(rows)
    assert max(map(len, text.splitlines())) <= 100
    assert "ranks=4, off=4.47e-08" in text
    assert "values" not in text
    assert "reason" not in text
    assert "(one sentence at a" in text
    assert max(map(len, table(rows, 80).splitlines())) <= 80


def test_a_table_lines_up_and_says_once_what_all_rows_share():
    rows = [Row("a", float(n), "s", parameters={"ranks": 4, "bytes": n}) for n in (8, 16)]
    first, head, *lines = table(rows).splitlines()
    assert first == "every row: ranks=4"
    assert [line.split()[:2] for line in lines] == [["a", "bytes=8"], ["a", "bytes=16"]]
    assert head.index("ours") == lines[0].index("8 s") == lines[1].index("16 s")


def test_every_suite_of_the_course_declares_what_the_driver_calls():
    for name, names in discover().items():
        assert names & {"rows", "gpu_rows"}, f"bench/{name}.py defines neither rows nor gpu_rows"
