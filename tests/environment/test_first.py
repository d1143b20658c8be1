"""What hides the course's package is named by the import itself, in the environment's Pythons."""

import os
import subprocess
import sys
import venv

import pytest

from helpers.paths import ROOT
from tests.environment import run
from tools import first, kernels, work

PROGRAM = "from helpers.cluster import Cluster; print(Cluster.__module__)"
FINDER = f"""
import importlib.machinery, sys
class Course:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, [{str(ROOT)!r}])
sys.meta_path.append(Course)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Return the Python of an environment that has the course as pip -e installs it."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    made = folder / "bin/python"
    subprocess.run([made, ROOT / "tools/first.py"], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    assert [path.name for path in site.iterdir()] == ["parallel_deep_learning_first.pth"]
    packages = [path for path in sys.path if path.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join([*packages, "import course_finder"]))
    (site / "course_finder.py").write_text(FINDER)
    return made


def imported(python, folder):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return run(python, "-c", PROGRAM, cwd=folder, env=environment)


def test_the_course_is_imported_where_nothing_hides_it(python, tmp_path):
    done = imported(python, tmp_path)
    assert (done.stdout, done.stderr) == ("helpers.cluster.kernel.cluster\n", "")
    assert imported(python, ROOT).stdout == done.stdout  # its own folder hides nothing


@pytest.mark.parametrize("name", ["helpers.py", "helpers/tools.py", "helpers/__init__.py"])
def test_what_hides_it_is_named(python, tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    last = imported(python, tmp_path).stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {tmp_path}/helpers")
    assert last.endswith("hides the course's package `helpers` from what is beside it: rename it")


def test_a_python_whose_course_is_gone_starts_in_silence(python, tmp_path):
    moved = tmp_path / "first.pth"
    (written,) = python.parents[1].glob("lib/python*/site-packages/parallel*.pth")
    moved.write_text(written.read_text().replace(str(ROOT), "/nowhere"))
    code = f"import site; site.addpackage({str(tmp_path)!r}, 'first.pth', set())"
    done = run(sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_conda_gets_it_by_its_first_lab(tmp_path, monkeypatch):
    """`conda env create` runs no program of the course's; `python -m tools.work lab` does."""
    placed = tmp_path / "parallel_deep_learning_first.pth"
    monkeypatch.setattr(first, "place", lambda: str(placed))
    monkeypatch.setattr(kernels, "place", lambda: str(tmp_path / "ipython/settings.py"))
    monkeypatch.setattr(os, "execve", lambda *command: None)  # it would become JupyterLab
    monkeypatch.setenv("WORK", str(tmp_path / "work"))
    work.lab([])
    assert str(ROOT / "tools" / "first.py") in placed.read_text()
    assert kernels.EXTENSION in (tmp_path / "ipython/settings.py").read_text()
    placed.write_text("as it is")
    work.lab([])
    assert placed.read_text() == "as it is"


@pytest.mark.parametrize("module", [first, kernels])
def test_a_folder_that_nobody_may_write_to_is_no_obstacle(tmp_path, monkeypatch, module):
    (tmp_path / "none").touch()
    (tmp_path / "some").mkdir()
    other = kernels if module is first else first
    monkeypatch.setattr(module, "place", lambda: str(tmp_path / "none" / "it.py"))
    monkeypatch.setattr(other, "place", lambda: str(tmp_path / "some" / "it.py"))
    started = []
    monkeypatch.setattr(os, "execve", lambda *command: started.append(command))
    monkeypatch.setenv("WORK", str(tmp_path / "work"))
    work.lab([])
    assert started
    assert len(list((tmp_path / "some").iterdir())) == 1, "the other is installed all the same"
