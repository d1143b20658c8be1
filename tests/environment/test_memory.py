"""deploy/jupyterhub/memory.py: what a notebook and all that it starts take at their peak."""

import importlib.util
import os
import subprocess
import sys

import pytest

from helpers.paths import ROOT

SPEC = importlib.util.spec_from_file_location("memory", ROOT / "deploy/jupyterhub/memory.py")
memory = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(memory)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SIZE = 60_000_000  # bytes that the child of a child keeps; more than an interpreter takes
CHILD = f"kept = bytearray(b'a' * {SIZE}); print('kept', flush=True); input()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def start(token, code=PARENT):
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {memory.MARK: token},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"kept\n"
    return process


def test_what_inherited_the_token_counts_and_nothing_else():
    one, two = start("one"), start("two")
    try:
        assert SIZE < memory.sizes("one", but=0) < 2 * SIZE, "the second process counts once"
        assert memory.sizes("three", but=0) == 0
        assert memory.sizes("on", but=0) == 0, "a token is compared as a whole"
    finally:
        for process in (one, two):
            process.communicate(b"\n", timeout=30)
    assert memory.sizes("one", but=0) == 0


def test_the_one_that_executes_does_not_count():
    process = start("alone", CHILD)
    try:
        assert memory.sizes("alone", but=0) > SIZE
        assert memory.sizes("alone", but=process.pid) == 0
    finally:
        process.communicate(b"\n", timeout=30)


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """Have ``tools.run`` be a program of the test's, which starts another."""
    (tmp_path / "tools").mkdir()
    monkeypatch.setattr(memory, "ROOT", tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def write(text):
        (tmp_path / "tools" / "run.py").write_text(text)

    return write


def test_the_peak_is_of_what_the_notebook_starts_and_not_of_its_end(notebook):
    child = (
        f"import time; kept = bytearray(b'a' * {SIZE}); time.sleep(2.5); del kept; time.sleep(1)"
    )
    notebook(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])\n")
    assert SIZE < memory.peak("00") < 2 * SIZE


def test_a_notebook_that_fails_is_no_measurement(notebook):
    notebook("raise SystemExit(1)\n")
    with pytest.raises(RuntimeError, match="notebook 00 failed: python"):
        memory.peak("00")
