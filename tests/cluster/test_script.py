"""A cell of the notebook as a script under mpiexec."""

import pytest

from helpers.cluster.script import as_script, run_script
from tests.cluster.ways import PART

CELL = '%%ranks --timeout 5\nprint(f"rank {rank} of {size}", flush=True)'


def test_the_last_ranks_cell_becomes_a_script():
    history = ["", CELL, "%%ranks\nother()", "as_script()"]
    assert as_script(history=history).endswith("\n\nother()\n")
    source = as_script("rank {rank}", history)
    assert source.endswith('print(f"rank {rank} of {size}", flush=True)\n')
    assert "%%ranks" not in source
    compile(source, "script.py", "exec")


def test_a_missing_cell_is_named():
    with pytest.raises(ValueError, match=r"2 cells.*'zebra'"):
        as_script("zebra", [CELL, "x = 1"])


@pytest.mark.mpi
@PART
@pytest.mark.parametrize("n", [1, 3])
def test_the_script_prints_what_the_cell_printed(n):
    lines = sorted(run_script(as_script(history=[CELL]), n).splitlines())
    assert lines == [f"rank {rank} of {n}" for rank in range(n)]


@pytest.mark.mpi
@PART
def test_a_script_that_fails_or_never_ends_is_reported_with_its_output():
    with pytest.raises(RuntimeError, match=r"(?s)code [1-9].*ZeroDivisionError"):
        run_script("1 / 0", n=2)
    with pytest.raises(RuntimeError, match=r"(?s)did not end within 5 s.*here"):
        run_script("import time\nprint('here', flush=True)\ntime.sleep(600)", n=2, timeout=5)
    with pytest.raises(ValueError, match="n >= 1 rank; got 0"):
        run_script("", n=0)
