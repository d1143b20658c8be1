"""A cell of CUDA C is commented in the source and becomes a ``%%cuda`` cell in both notebooks."""

from tools.notebooks import build

SOURCE = """\
# %% language="cuda" magic_args="--timeout 3" exercise="twice"
# #define N 4
# __global__ void twice(float *x) {
#     // BEGIN SOLUTION
#     x[threadIdx.x] *= 2;
#     // END SOLUTION
# }

# %% check="twice"
print(twice)
"""


def test_a_commented_cell_becomes_the_magic(tmp_path):
    path = tmp_path / "99_cells.py"
    path.write_text(SOURCE)
    reader, solved = build(path)
    lines = solved.cells[0].source.splitlines()
    assert lines[:3] == ["%%cuda --timeout 3", "#define N 4", "__global__ void twice(float *x) {"]
    assert "x[threadIdx.x] *= 2;" in solved.cells[0].source
    assert "*= 2" not in reader.cells[0].source
    assert "    // your code here" in reader.cells[0].source
    assert "language" not in solved.cells[0].metadata
