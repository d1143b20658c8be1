"""How a kernel with the extension ends: soon, and with what the reader has left open."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.mpi

SESSION = """
import gc, os
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
before = gc.get_freeze_count()
shell.run_cell("%load_ext helpers.cluster")
print("left out", gc.get_freeze_count() > before + 10_000)

class Told:
    def __init__(self, word):
        self.word, self.itself = word, self  # only garbage collection ends a circle

    def __del__(self, write=os.write):
        write(1, self.word)

Told(b"one ")
gc.collect()
shell.user_ns["at_the_end"] = Told(b"two")
"""


def test_imports_are_left_out_of_collection_and_what_a_reader_makes_is_not():
    done = subprocess.run(
        [sys.executable, "-u", "-c", SESSION], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("left out True\none two", 0), done.stderr
