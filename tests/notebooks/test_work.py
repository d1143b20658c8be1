"""tools.work: the reader's copies are made once, and replaced only with a backup."""

import os
from datetime import datetime
from pathlib import Path

import pytest
from jupyterlab_server.config import get_federated_extensions

from tools.work import UnknownNotebookError, lab, main, prepare, reset, work_folder

NOW = datetime(2026, 11, 21, 9, 30, 5)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.delenv("WORK", raising=False)
    folder = tmp_path / "notebooks"
    (folder / "solutions").mkdir(parents=True)
    (folder / "source").mkdir()
    for name in ("00_start.ipynb", "01_mpi.ipynb", "glossary.md"):
        (folder / name).write_text(f"first {name}")
    (folder / "solutions" / "01_mpi.ipynb").write_text("solved")
    return tmp_path


def test_a_copy_is_made_without_solutions_and_never_touched_again(root):
    assert prepare(root) == (["00_start.ipynb", "01_mpi.ipynb", "glossary.md"], [])
    assert (root / "work" / "01_mpi.ipynb").read_text() == "first 01_mpi.ipynb"
    assert not (root / "work" / "solutions").exists()
    (root / "work" / "01_mpi.ipynb").write_text("my answers")
    for name in ("00_start.ipynb", "01_mpi.ipynb"):
        (root / "notebooks" / name).write_text("second")
    (root / "notebooks" / "02_new.ipynb").write_text("first 02_new.ipynb")
    assert prepare(root) == (["02_new.ipynb"], ["00_start.ipynb", "01_mpi.ipynb"])
    assert (root / "work" / "01_mpi.ipynb").read_text() == "my answers"
    assert (root / "work" / "00_start.ipynb").read_text() == "first 00_start.ipynb"
    (root / "work" / "glossary.md").unlink()
    assert prepare(root)[0] == ["glossary.md"], "one that the reader deleted comes back"


@pytest.mark.parametrize("which", ["01", "1", "01_mpi", "01_mpi.ipynb"])
def test_reset_keeps_a_backup(root, which):
    prepare(root)
    (root / "work" / "01_mpi.ipynb").write_text("my answers")
    (root / "notebooks" / "01_mpi.ipynb").write_text("second")
    target, backup = reset(which, root, NOW)
    assert target.read_text() == "second"
    assert backup == root / "work" / "backups" / "01_mpi.2026-11-21_09-30-05.ipynb"
    assert backup.read_text() == "my answers"
    assert prepare(root) == ([], []), "the fresh copy counts as current"


def test_two_resets_in_one_second_keep_both(root):
    prepare(root)
    (root / "work" / "01_mpi.ipynb").write_text("one")
    first = reset("01", root, NOW)[1]
    (root / "work" / "01_mpi.ipynb").write_text("two")
    second = reset("01", root, NOW)[1]
    assert (first.read_text(), second.read_text()) == ("one", "two")


def test_reset_without_a_copy_makes_one(root):
    target, backup = reset("glossary", root)
    assert (target.read_text(), backup) == ("first glossary.md", None)
    assert main(["reset", "0"], root) == 0  # a number means 00


@pytest.mark.parametrize("which", ["07", "", "solutions"])
def test_an_unknown_notebook_is_one_clear_sentence(root, which, capsys):
    with pytest.raises(UnknownNotebookError, match="00_start, 01_mpi, glossary"):
        reset(which, root)
    assert main(["reset", which], root) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert repr(which) in printed.err


def test_the_copies_may_lie_elsewhere_and_it_says_what_it_did(root, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORK", str(tmp_path / "home" / "course"))
    monkeypatch.setattr(os, "execve", lambda *command: None)  # it would become JupyterLab
    lab([], root)
    lab([], root)
    copied = "copied to home/course/: 00_start.ipynb, 01_mpi.ipynb, glossary.md\n"
    assert capsys.readouterr().out == copied
    assert main(["reset", "01"], root) == 0
    assert (tmp_path / "home" / "course" / "01_mpi.ipynb").exists()
    assert not (root / "work").exists()


def test_a_relative_folder_and_a_home_are_understood(root, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WORK", "~/mine")
    assert work_folder(root) == tmp_path / "mine"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORK", "mine")
    assert work_folder(root) == tmp_path / "mine"
    monkeypatch.setenv("WORK", "")
    assert work_folder(root) == root / "work"


def test_lab_opens_the_first_notebook(root, monkeypatch):
    commands = []
    monkeypatch.setattr(os, "execve", lambda program, command, variables: commands.append(command))
    lab(["--no-browser"], root)
    assert "--LabApp.default_url=/lab/tree/00_start.ipynb" in commands[0]
    assert f"--ServerApp.root_dir={root / 'work'}" in commands[0]
    assert commands[0][-1] == "--no-browser", "the reader's own options come last, and win"


def test_lab_finds_the_courses_extension_and_what_the_reader_has(root, tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr(os, "execve", lambda program, command, variables: given.update(variables))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    lab([], root)
    course, own = given["JUPYTER_PATH"].split(os.pathsep)
    assert own == str(tmp_path)
    found = get_federated_extensions([f"{course}/labextensions"])["course-figures"]
    assert Path(found["ext_path"], found["jupyterlab"]["_build"]["load"]).is_file()
