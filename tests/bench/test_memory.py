"""bench/memory.py: what a notebook and all that it starts take at their peak."""

import os
import re
import subprocess
import sys

import nbformat
import pytest

from bench import memory
from helpers import records
from helpers.paths import BENCH_RECORDS, ROOT
from tools import memory as use_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SIZE = 60_000_000  # bytes that the child of a child keeps; more than an interpreter takes
KERNEL = 120  # MB: more than a kernel takes that has imported nothing
CHILD = f"kept = bytearray(b'a' * {SIZE}); print('kept', flush=True); input()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def start(mark, code=PARENT):
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {use_of.MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"kept\n"
    return process


def test_what_inherited_the_mark_counts_and_nothing_else():
    one, two = start("one"), start("two")
    use = use_of.Use()
    try:
        assert SIZE < use.look("one") < 2 * SIZE, "the second process counts once"
        assert use.processes == 2
        assert use.look("three") == 0
        assert use.look("on") == 0, "a mark is compared as a whole"
    finally:
        for process in (one, two):
            process.communicate(b"\n", timeout=30)
    assert use.look("one") == 0
    assert use.peak > SIZE, "it stays what it was"


def test_what_has_lost_its_parent_counts():
    orphan = f"import os; os.fork() and os._exit(0); os.setsid(); {CHILD}"
    process = start("orphan", orphan)
    try:
        process.wait(30)
        assert use_of.Use().look("orphan") > SIZE
    finally:
        process.communicate(b"\n", timeout=30)


def test_time_of_the_processor_is_that_of_all_together_and_of_those_that_ended():
    busy = "import time\nwhile time.process_time() < 0.4: pass\n"
    process = start("busy", busy + CHILD)
    use = use_of.Use()
    try:
        use.look("busy")
    finally:
        process.communicate(b"\n", timeout=30)
    use.look("busy")
    assert 0.4 <= use.busy < 5


@pytest.fixture
def notebook(tmp_path):
    """Return a function that writes a notebook of one cell and returns its row."""

    def write(code):
        path = tmp_path / "42_x.ipynb"
        cells = [nbformat.v4.new_code_cell(code)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        return memory.notebook(path)

    return write


@pytest.mark.notebook
def test_the_peak_is_of_what_the_notebook_starts_and_not_of_its_end(notebook):
    child = f"kept = bytearray(b'a' * {SIZE}); import time; time.sleep(1.5)"
    row = notebook(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])")
    assert (row.name, row.unit) == ("notebook 42", "MB")
    assert SIZE / 1e6 < row.value < SIZE / 1e6 + KERNEL
    assert row.parameters["processes"] == 2
    assert row.parameters["silent"] == []
    assert use_of.MARK not in os.environ


@pytest.mark.notebook
def test_a_notebook_that_fails_is_no_measurement(notebook):
    with pytest.raises(RuntimeError, match=r"notebook 42_x failed: .*ZeroDivisionError"):
        notebook("1 / 0")
    assert use_of.MARK not in os.environ


@pytest.fixture(scope="module")
def newest():
    """The newest row of each notebook, and of the server."""
    found = {}
    for record in records.load(BENCH_RECORDS, memory.SUITE):
        for row in record.suites[memory.SUITE]:
            found.setdefault(row.name.removeprefix("notebook "), row)
    return found


def test_the_figures_of_the_hubs_page_are_the_records(newest):
    page = (ROOT / "deploy" / "jupyterhub" / "README.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| (\d\d) \| ([\d.]+) GB \| \d+ \|", page, re.MULTILINE))
    assert said == {
        name: f"{row.value / 1000:.1f}" for name, row in newest.items() if name.isdigit()
    }
    assert len(said) == 16


def test_no_notebook_was_seen_to_say_nothing_for_long(newest):
    silent = {name: row.parameters.get("silent") for name, row in newest.items()}
    assert {name: cells for name, cells in silent.items() if cells} == {}
