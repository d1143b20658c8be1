"""A variant of the course: its own solutions pass, published ones and open stubs do not."""

import contextlib
import copy
import functools
import importlib
import math
import random
import re
import subprocess

import nbformat
import pytest

from helpers.exercises.core import NotAttempted, WrongAnswer
from helpers.paths import ROOT
from tools import course, grading
from tools.notebooks import _check_python, sources
from tools.release import OpenExercises
from tools.run import location
from tools.variants import exercises, vary
from tools.varying import NUMBERS

NAMES = [path.stem for path in sources(ROOT)]
SEEDS = (7, 48_213)


@functools.cache
def published(name):
    return nbformat.read(location(name, "solved"), 4)


@functools.cache
def variant(name, seed):
    notebook = copy.deepcopy(published(name))
    return notebook, vary(notebook, name, seed)


def given(cell):
    """What a check is handed: the names in its brackets that are no module and no cluster."""
    inside = re.sub(r"'[^']*'", "", cell.source.partition("(")[2])
    return set(re.findall(r"(?<![\w.])[A-Za-z_]\w*(?!\w*=)", inside)) - {"cluster", "lambda", "run"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_exercise_varies_and_nothing_else_does(name, seed):
    plain, (other, changed) = published(name), variant(name, seed)
    graded = exercises(other)
    assert set(changed) == {each.name for each in graded}
    for before, after in zip(plain.cells, other.cells, strict=True):
        assert (before.id, before.metadata) == (after.id, after.metadata)
        _check_python(after, f"{name}, variant {seed}")
    for before, after in zip(exercises(plain), graded, strict=True):
        defined = set(re.findall(r"\w+", before.answer.source))
        assert not given(after.check) & defined, f"{name}: the check takes a published answer"
        stub = OpenExercises().preprocess_cell(copy.deepcopy(after.answer), {}, 0)[0].source
        assert given(after.check) <= set(re.findall(r"\w+", stub))
        assert "SOLUTION" in after.answer.source
        assert "SOLUTION" not in stub


def test_two_variants_differ_and_one_is_always_the_same():
    first, second = (
        ["".join(cell.source for cell in variant(name, seed)[0].cells) for name in NAMES]
        for seed in SEEDS
    )
    assert all(a != b for a, b in zip(first, second, strict=True))
    again = copy.deepcopy(published("01_mpi_basics"))
    vary(again, "01_mpi_basics", SEEDS[0])
    assert again == variant("01_mpi_basics", SEEDS[0])[0]
    assert vary(again, "01_mpi_basics", 0) == {}


def test_numbers_vary_where_the_table_says():
    named = {f"{name[:2]} {each}" for name in NAMES for each, what in
             variant(name, SEEDS[0])[1].items() if "numbers" in what}  # fmt: skip
    assert named == set(NUMBERS)
    assert len({name[:2] for name in named}) > 9


def modules(notebook):
    """The checks' modules under the names that the notebook gives them, and what answers use."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    found = re.findall(r"^from helpers\.exercises import (\w+) as (check\w*)", text, re.M)
    space = {short: importlib.import_module(f"helpers.exercises.{full}") for full, short in found}
    space |= {word: importlib.import_module(word) for word in ("torch",)}
    return space | {
        "np": importlib.import_module("numpy"),
        "autodiff": importlib.import_module("helpers.autodiff"),
        "math": math,
        "random": random,
    }


ALONE = [key for key in NUMBERS if key.split()[1] not in
         ("squares", "shift", "grid-sums", "life", "coalesce")]  # fmt: skip


@pytest.mark.parametrize("key", ALONE)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_published_solution_is_wrong_and_the_variants_own_is_right(key, seed, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    number, _, wanted = key.partition(" ")
    (name,) = (name for name in NAMES if name.startswith(number))
    (old,) = (each for each in exercises(published(name)) if each.name == wanted)
    (new,) = (each for each in exercises(variant(name, seed)[0]) if each.name == wanted)
    space = modules(published(name))
    mine, copied = dict(space), dict(space)
    exec(new.answer.source, mine)
    exec(new.check.source, mine)
    exec(old.answer.source, copied)
    with pytest.raises(NameError, match="is not defined"):
        exec(new.check.source, copied)
    order = [re.findall(r"(?<![\w.])[a-zA-Z]\w*", each.check.source) for each in (old, new)]
    for before, after in zip(*order, strict=False):  # who only changes the name
        copied.setdefault(after, copied.get(before))
    with pytest.raises((WrongAnswer, NotAttempted)) as refused:
        exec(new.check.source, copied)
    assert "wrong: " in str(refused.value)


def test_a_variant_is_asked_for_by_a_whole_number_and_a_folder_holds_one(tmp_path, capsys):
    for wrong in ("x", "-1", "1.5", ""):
        assert course.main([str(tmp_path / "none"), f"--variant={wrong}"]) == 1
        assert f"VARIANT={wrong}: expected a whole number" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    folder = tmp_path / "course"
    assert course.main([str(folder), "00", "--variant=7"]) == 0
    made = (folder / "source" / "00_start_here" / "00_start_here.ipynb").read_text("utf-8")
    assert [cell.source for cell in nbformat.reads(made, 4).cells] == [
        course.among_assignments(cell.source) for cell in variant("00_start_here", 7)[0].cells
    ]
    assert course.main([str(folder), "01", "--variant=7"]) == 0
    capsys.readouterr()
    assert course.main([str(folder), "02"]) == 1
    assert "holds variant 7" in (said := capsys.readouterr().err)
    assert "got VARIANT=0" in said
    with contextlib.chdir(tmp_path):
        assert course.main(["course", "02", "--variant=8"]) == 1


@pytest.mark.part(of="grading")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("seed", "copied"), [(SEEDS[0], False), (SEEDS[1], True)])
def test_full_marks_for_the_variants_solutions_and_none_for_published_ones(
    tmp_path, name, seed, copied
):
    teacher = grading.open_course(tmp_path, [name], seed)
    marks = grading.grade(tmp_path, teacher, name, copied=copied)
    assert marks == (marks.full, marks.full, 0, False)
    assert marks.right


def plain(text):
    return re.sub(r"\\n|[\s\"\\,#]+", "", text)


def test_only_what_the_hubs_recipe_closes_holds_solutions():
    recipe = (ROOT / "deploy" / "jupyterhub" / "README.md").read_text("utf-8")
    (closed,) = re.findall(r"^chgrp -R teachers (.*)", recipe, re.M)
    assert f"chmod -R o= {closed}\n" in recipe
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    texts = {}
    for path in listed.stdout.decode().split("\0"):
        known = re.search(r"\.(py|ipynb|md|cu|json|html|js|yml|toml|txt)$", path)
        if known and not f"{path}/".startswith(tuple(f"{each}/" for each in closed.split())):
            with contextlib.suppress(FileNotFoundError):  # removed, and not yet committed
                texts[path] = plain((ROOT / path).read_text("utf-8"))
    found = {}
    for name in NAMES:
        for each in exercises(published(name)):
            regions = re.findall(r"BEGIN SOLUTION\n(.*?)(?:#|//) END", each.answer.source, re.S)
            for answer in map(plain, regions):
                if len(answer) > 24 and (
                    where := [p for p, text in texts.items() if answer in text]
                ):
                    found[f"{name[:2]} {each.name}"] = where
    assert not found
