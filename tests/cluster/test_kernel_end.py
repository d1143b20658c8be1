"""How a kernel with the extension ends: soon, and with what the reader has left open."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.mpi

SESSION = """
import gc, sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
before = gc.get_freeze_count()
shell.run_cell("%load_ext helpers.cluster")
print("left out", gc.get_freeze_count() > before + 10_000)
shell.run_cell('''
class Log:
    def __init__(self, path):
        self.file = open(path, "w")
        self.itself = self  # only garbage collection ends a circle


log = Log({path!r})
log.file.write("the last line")
for lost in [Log({path!r} + str(k)) for k in range(3)]:
    lost.file.write("lost")
del lost
gone = __import__("gc").collect()
''')
print("collected", shell.user_ns["gone"] >= 6)
"""


def test_imports_are_left_out_of_collection_and_what_a_reader_makes_is_not(tmp_path):
    path = str(tmp_path / "log")
    done = subprocess.run(
        [sys.executable, "-c", SESSION.replace("{path!r}", repr(path))],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["left out True", "collected True"]
    assert (tmp_path / "log").read_text() == "the last line"
    assert (tmp_path / "log0").read_text() == "lost"
