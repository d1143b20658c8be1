"""tools.notebooks: two notebooks from one source, byte for byte, and what a source may not hold."""

import json
import re
import sys

import pytest

from helpers.paths import ROOT
from tools.notebooks import SourceError, build, main, outputs, render, sources, stale

SOURCE = '''\
# %% [markdown]
# # A title

# %% tags=["parameters"]
# %load_ext helpers.cluster
import numpy as np

# %%
# %%ranks --timeout 3
print(rank)
rank + 1

# %% exercise="twice"
def twice(x):
    """Return two times x."""
    # BEGIN SOLUTION
    return 2 * x
    # END SOLUTION

# %% check="twice" points=2
check.twice(twice)

# %% exercise="kernel"
code = """
__global__ void f() {
    // BEGIN SOLUTION
    g();
    // END SOLUTION
}"""

# %% check="kernel"
check.kernel(code)

# %% [markdown]
# The same words.

# %% [markdown]
# The same words.
'''

CUDA = """\
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


@pytest.fixture
def project(tmp_path):
    """A project with one source; call it with another text to replace the source."""

    def write(text=SOURCE, name="01_try.py"):
        folder = tmp_path / "notebooks" / "source"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        return tmp_path

    write()
    write.root, write.source = tmp_path, tmp_path / "notebooks" / "source" / "01_try.py"
    return write


def codes(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_reader_has_stubs_and_the_solution_has_answers(project):
    reader, solved = build(project.source)
    assert codes(reader)[2] == (
        'def twice(x):\n    """Return two times x."""\n    ...  # your code here'
    )
    assert "    // your code here\n}" in codes(reader)[4]
    assert "return 2 * x" in codes(solved)[2]
    assert "BEGIN SOLUTION" in codes(solved)[2], "nbgrader releases from the solved notebook"
    text = render(reader).decode()
    assert "2 * x" not in text
    assert "SOLUTION" not in text


def test_a_stub_outside_of_a_body_shows_nothing(project):
    value = "steps = None  # fmt: skip\n# BEGIN SOLUTION\nsteps = 6\n# END SOLUTION"
    project(f'# %% exercise="steps"\n{value}\n\n# %% check="steps"\ncheck.steps(steps)\n')
    reader, _ = build(project.source)
    assert codes(reader)[0] == "steps = None\n# your code here"


def test_magics_are_magics_again_and_a_commented_cell_of_cuda_becomes_one(project):
    reader, _ = build(project.source)
    assert codes(reader)[0].startswith("%load_ext helpers.cluster\nimport")
    assert codes(reader)[1].startswith("%%ranks --timeout 3\nprint(rank)")
    project(CUDA)
    reader, solved = build(project.source)
    lines = codes(solved)[0].splitlines()
    assert lines[:3] == ["%%cuda --timeout 3", "#define N 4", "__global__ void twice(float *x) {"]
    assert "x[threadIdx.x] *= 2;" in codes(solved)[0]
    assert "*= 2" not in codes(reader)[0]
    assert "    // your code here" in codes(reader)[0]
    assert "language" not in solved.cells[0].metadata


def test_nbgrader_metadata_comes_from_the_compact_header(project):
    reader, _ = build(project.source)
    cells = {cell.id: cell.metadata.get("nbgrader") for cell in reader.cells}
    common = {"schema_version": 3, "task": False}
    assert cells["twice"] == common | {
        "grade_id": "twice", "grade": False, "solution": True, "locked": False
    }  # fmt: skip
    assert cells["twice-check"] == common | {
        "grade_id": "twice-check", "grade": True, "solution": False, "locked": True, "points": 2
    }  # fmt: skip
    assert cells["kernel-check"]["points"] == 1
    assert reader.cells[1].metadata == {"tags": ["parameters"]}


def test_cell_ids_are_stable_and_unique(project):
    before = [cell.id for cell in build(project.source)[0].cells]
    assert before == [cell.id for cell in build(project.source)[1].cells]
    assert len(set(before)) == len(before)
    project("# %% [markdown]\n# A new first cell\n\n" + SOURCE)
    after = [cell.id for cell in build(project.source)[0].cells]
    assert after[1:] == before, "a cell keeps its id when another is put before it"


def test_stale_names_what_is_missing_changed_or_orphaned(project):
    folder = project.root / "notebooks"
    assert stale(project.root) == [
        "notebooks/01_try.ipynb is missing",
        "notebooks/solutions/01_try.ipynb is missing",
    ]
    for path, content in outputs(project.root):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        assert content.endswith(b"}\n")
        made = json.loads(content)["metadata"]
        assert made["kernelspec"]["name"] == "python3"
        assert "version" not in made["language_info"]
    assert stale(project.root) == []
    (folder / "01_try.ipynb").write_bytes((folder / "01_try.ipynb").read_bytes() + b" ")
    (folder / "02_gone.ipynb").write_bytes(b"{}")
    assert stale(project.root) == [
        "notebooks/01_try.ipynb differs from what its source makes",
        "notebooks/02_gone.ipynb has no source",
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('check="twice" points=2', 'check="twice" points=0'), "points=0, expected a whole number"),
        (('exercise="twice"', 'exercise="Two times"'), "exercise='Two times', expected a name"),
        (('exercise="twice"', "points=2"), "points belong to the check"),
        (('exercise="twice"', ""), "a solution outside an exercise"),
        (('check="twice" points=2', ""), "'twice' has an exercise but no check='twice' cell"),
        (('exercise="kernel"', 'exercise="twice"'), "'twice' names 2 cells"),
        (('tags=["parameters"]', 'hidden="yes"'), "unknown ['hidden'] in the header"),
        (('tags=["parameters"]', 'tags="parameters"'), "'parameters' is not of type 'array'"),
        (("    # END SOLUTION\n", ""), "do not pair up"),
        (("    # BEGIN SOLUTION\n    return 2 * x\n    # END SOLUTION\n", "    pass\n"), "needs"),
        (("import numpy as np", "import numpy as"), "is not Python"),
        (
            ("    # BEGIN SOLUTION\n    return", "    y = (\n    # BEGIN SOLUTION\n    return"),
            "is not",
        ),
        (("# The same words.", "#"), "the cell is empty"),
        (("import numpy as np", "x = 1\n" * 25), "26 lines of code, expected 24 at most"),
        (
            ("check.twice(twice)\n", "check.twice(twice)\n\n# %% exercise='x' check='x'\n1\n"),
            "both",
        ),
    ],
)
def test_a_bad_source_is_refused_with_the_cell(project, change, says):
    assert change[0] in SOURCE
    project(SOURCE.replace(*change))
    with pytest.raises(SourceError, match=re.escape(says)) as caught:
        build(project.source)
    assert str(caught.value).startswith("01_try.py")


def test_a_check_before_its_exercise_is_refused(project):
    first, second = SOURCE.split('# %% exercise="twice"')
    exercise, rest = second.split('# %% check="twice" points=2\ncheck.twice(twice)\n')
    project(f'{first}# %% check="twice"\n1\n\n# %% exercise="twice"{exercise}{rest}')
    with pytest.raises(SourceError, match="check of 'twice' stands before"):
        build(project.source)


def test_names_and_numbers(project, capsys):
    project(name="02_next.py")
    assert [path.stem for path in sources(project.root, ("02",))] == ["02_next"]
    assert [path.stem for path in sources(project.root, ("01_try",))] == ["01_try"]
    with pytest.raises(SourceError, match=r"no notebook '7'; there are 01_try, 02_next"):
        sources(project.root, ("7",))
    assert main(["nonsense"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    project(name="intro.py")
    with pytest.raises(SourceError, match=r"intro\.py: a source is called NN_topic\.py"):
        sources(project.root)


def test_the_committed_notebooks_are_what_their_sources_make():
    assert stale(ROOT) == []
    assert sources(ROOT), "no notebooks at all"


def test_what_takes_longest_of_an_import_of_nbformat_and_serves_nobody_stays_out():
    assert "rfc3987_syntax.syntax_helpers" not in sys.modules
