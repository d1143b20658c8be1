"""What is imported first in a notebook is light: the heavy packages come where they are used."""

import subprocess
import sys

HEAVY = {"torch", "dgl", "mpi4py", "ipyparallel", "numpy", "scipy", "matplotlib", "sklearn"}
LIGHT = [
    *("helpers.waiting", "helpers.records", "helpers.checkup", "helpers.tracing"),
    *("helpers.attention", "helpers.recurrent", "helpers.plots.attention"),
    *("helpers.plots.recurrent", "helpers.exercises.recurrent", "helpers.exercises.attention"),
    "helpers.datasets.descriptions",
]
CODE = """
import importlib, sys
for name in {names}:
    importlib.import_module(name)
    if found := {heavy} & set(sys.modules):
        sys.exit(f"{{name}} loads {{found}}")
sys.modules["helpers.records"].machine()
print({heavy} & set(sys.modules))
"""


def test_nothing_heavy_is_imported():
    code = CODE.format(names=LIGHT, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr
