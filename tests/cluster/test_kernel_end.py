"""How a kernel with the extension ends: soon, and with what the reader has left open."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.mpi

SESSION = """
import gc
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
before = gc.get_freeze_count()
shell.run_cell("%load_ext helpers.cluster")
print("left out", gc.get_freeze_count() > before + 10_000)
shell.run_cell('''
import gc, os


class Told:
    def __init__(self, word):
        self.word, self.itself = word, self  # only garbage collection ends a circle

    def __del__(self, write=os.write):
        write(1, self.word)


for word in (b"one ", b"two "):
    Told(word)
gc.collect()
at_the_end = Told(b"three")
''')
"""


def test_imports_are_left_out_of_collection_and_what_a_reader_makes_is_not():
    done = subprocess.run(
        [sys.executable, "-u", "-c", SESSION], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    first, then = done.stdout.split("\n", 1)
    assert first == "left out True"
    assert sorted(then.split()[:2]) == ["one", "two"]
    assert then.split()[-1] == "three"
