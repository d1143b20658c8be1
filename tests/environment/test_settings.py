"""Every setting of `make help` arrives whole; a wrong value is repeated, with what was expected."""

import importlib.util
import os
import re
import shutil
import sys

import pytest

from helpers.paths import ROOT
from tests.environment import run
from tools import grading, notebooks
from tools import run as execution
from tools.site import __main__ as site

FOLDER = "a course, it's é"


def make(*arguments, where=ROOT):
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    return run("make", "--no-print-directory", *arguments, cwd=where, env=environment)


@pytest.fixture
def course(tmp_path):
    """Return a folder with the Makefile; set-up does nothing, Python repeats its words."""
    root = tmp_path / FOLDER
    (root / ".venv/bin").mkdir(parents=True)
    (root / "tools").mkdir()
    for name in ("Makefile", "tools/test_all.py", "tools/nearest.sh"):
        shutil.copy(ROOT / name, root / name)
    told = '#!/bin/sh\nfor word in "$@"; do printf "[%s]" "$word"; done\necho " $WORK $REQUIRE"\n'
    settings = '\necho "$PYTHON|$TORCH_INDEX|$WHEELS|$COMPILER|$OUT"\n'
    programs = {".venv/bin/python": told, "tools/lint.sh": "", "tools/gpu.sh": settings}
    for name, text in {**programs, "tools/setup.sh": settings}.items():
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    return root


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("lab", f"WORK={FOLDER}", "LAB_ARGS=--a 'b c'"), f"[lab][--a][b c] {FOLDER}"),
        (("reset", f"NB={FOLDER}"), f"[reset][{FOLDER}]"),
        (("course", f"COURSE={FOLDER}", "NB=01"), f"[{FOLDER}][01]"),
        (("course", "COURSE=a", "WRITTEN=yes"), "[a][--written=yes]"),
        (("notebooks", "NB=01 02"), "[tools.notebooks][01][02]"),
        (("site", "NB=$$x;y"), "[tools.site][$x;y]"),
        (("grading", "NB=01"), "[tools.grading][01]"),
        (("claims", "NB=01"), "[claims][01]"),
        (("html", "NB=01"), "[01][--single][build/html][--output][build/site-part]"),
        (("bench", "SUITE=cluster"), "[bench][cluster]"),
        (("test-all", "PART=hub slurm", "TEST_ARGS=--last"), "[hub][slurm][--last]"),
        (("test", "TEST_ARGS=-k 'a or b'", "REQUIRE=gpu,mpi"), "[-k][a or b]  gpu,mpi"),
        (("conformance", "TEST_ARGS=--ranks 2"), "[--ranks][2]"),
        (("release", "TEST_ARGS=--no-site"), "[--no-site]"),
        (("wheels", f"WHEELS={FOLDER}", "VERSION=3.12"), f"[{FOLDER}][TORCH_INDEX=][SYSTEM=]"),
        (("wheels", "SYSTEM=macos-arm64"), "[wheels][TORCH_INDEX=][SYSTEM=macos-arm64][VERSION=]"),
        (("setup", f"PYTHON={FOLDER}", f"WHEELS={FOLDER}"), f"{FOLDER}||{FOLDER}||"),
        (("setup", f"TORCH_INDEX={FOLDER}", "COMPILER=no"), f"|{FOLDER}||no|"),
        (("gpu", f"OUT={FOLDER}"), f"|||{'|'}{FOLDER}"),
    ],
)  # fmt: skip
def test_a_setting_arrives_as_it_was_given(course, words, told):
    done = make(*words, where=course)
    assert (done.returncode, done.stderr) == (0, "")
    assert told in done.stdout


@pytest.mark.parametrize("tool", [grading, notebooks, execution, site])
def test_a_notebook_that_is_not_there_is_named(tool, capsys):
    with pytest.raises(SystemExit, match="1"):
        raise SystemExit(tool.main(["77"]))  # some return it
    assert "there is no notebook '77'; there are 00_start_here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("-m tools.work reset 01 WORK=/etc/passwd", "WORK=/etc/passwd: expected a folder for"),
        ("-m tools.work reset mpi", "there is no notebook 'mpi': write NB= and one of 00_start"),
        ("-m tools.wheels {} VERSION=3.14", "VERSION=3.14: expected one of 3.11, 3.12, 3.13"),
        ("-m tools.wheels {} SYSTEM=windows", "SYSTEM=windows: expected one of linux-x86_64, "),
        ("-m tools.wheels /etc/passwd", "WHEELS=/etc/passwd: expected a folder"),
        ("-m tools.course /etc/passwd", "COURSE=/etc/passwd: expected a folder"),
        ("-m tools.course {} --written=no", "WRITTEN=no: expected yes, or nothing"),
        ("-m tools.course {} mpi", "there is no notebook 'mpi'; there are 00_start_here, "),
        ("-m claims mpi", "claims: expected a notebook or a claim of one; got mpi. There are: "),
        ("-m bench allreducer", "allreducer"),
        ("deploy/jupyterhub/settings.py CORES=x", "CORES=x: expected a number of cores above 0"),
        ("deploy/jupyterhub/settings.py CORES=0.0", "CORES=0.0: expected a number of cores above"),
        ("deploy/jupyterhub/settings.py MEMORY=5GB", "MEMORY=5GB: expected a size with K, M, G"),
        ("deploy/jupyterhub/settings.py IDLE=1h", "IDLE=1h: expected whole seconds, 1 or more"),
        ("deploy/jupyterhub/settings.py STATE=/etc/passwd", "STATE=/etc/passwd: expected a folder"),
        ("deploy/jupyterhub/settings.py EXCHANGE=here", "EXCHANGE=here: expected a folder, from /"),
        ("deploy/jupyterhub/settings.py MEMBERS=nobodys", "this machine has no group nobodys, so"),
        ("-m tools.test_all slrum", "there is no part 'slrum'; there are quick, exercises"),
    ],
)
def test_a_wrong_value_is_repeated_with_what_was_expected(tmp_path, words, answer):
    command = [word.format(tmp_path) for word in words.split()]
    settings = "WORK=", "CORES=", "MEMORY=", "IDLE=", "STATE=", "EXCHANGE=", "MEMBERS="
    passed = [word for word in command if word.startswith(settings)]  # by environment
    environment = os.environ | dict(word.split("=", 1) for word in passed)
    told = (word for word in command if word not in passed)
    done = run(sys.executable, *told, cwd=ROOT, env=environment)
    assert done.returncode == 1
    assert answer in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_hub_takes_what_its_recipe_says():
    spec = importlib.util.spec_from_file_location(
        "settings", ROOT / "deploy/jupyterhub/settings.py"
    )
    settings = sys.modules["settings"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(settings)
    finally:
        del sys.modules["settings"]
    assert settings.read({"CORES": "", "MEMORY": "5G"}) == settings.Settings()
    found = settings.read({"CORES": "0.5", "MEMORY": "512M", "IDLE": "60", "COURSE": "~/a course"})
    assert (found.cores, found.memory, found.idle, found.course) == (0.5, "512M", 60, "a course")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("labs", "lab"), ("tst", "test"), ("setup_all", "setup-all"), ("tests", "test")],
)
def test_an_unknown_command_suggests_the_nearest(course, typed, meant):
    (course / "tests").mkdir()  # a folder's name is no command either
    done = make(typed, where=course)
    said = done.stderr.splitlines()[0]
    assert done.returncode == 2
    assert said.startswith(f"There is no command 'make {typed}': did you mean 'make {meant}'? ")


def test_nothing_is_suggested_for_what_is_near_nothing(course):
    said = make("xyzzy", where=course).stderr.splitlines()[0]
    assert said == "There is no command 'make xyzzy': 'make help' lists them all."


def test_what_readers_type_takes_a_readers_set_and_the_rest_the_whole_lock():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    needs = dict(re.findall(r"^([a-z-]+): ?([a-z-]*) *## ", makefile, re.MULTILINE))
    readers = {name for name, need in needs.items() if need == "setup"}
    assert readers == {"lab", "board", "contest", "hosts", "reset", "claims"}
    whole = {"test", "test-all", "lint", "site", "html", "bench", "grading", "notebooks", "course"}
    assert whole <= {name for name, need in needs.items() if need == "setup-all"}
