"""The reader's own copies of the notebooks, in ``work/``: made once, replaced only on request.

``WORK`` in the environment (``make lab WORK=~/course``) names another folder, so that many users
share one installation that they cannot write to.
``make lab`` copies what is absent and opens JupyterLab there; ``make reset NB=01`` puts a fresh
copy of one notebook in place and keeps the old one in ``work/backups/``. Nothing else writes
there, so an update of the course never meets a reader's answers.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import sys
from datetime import datetime
from pathlib import Path

from helpers import progress
from helpers.paths import ROOT
from tools import first, kernels

# No news, no grader's menus, figures with words and dark in the dark, the glossary as a page.
SETTINGS = ROOT / "tools" / "jupyterlab"
ORIGINS = ".origins.json"  # in work/: the digest of what each copy was made from


class UnknownNotebookError(ValueError):
    """No notebook answers to the number or name that was given."""


def work_folder(root: Path = ROOT) -> Path:
    """Return the folder of the reader's copies: ``WORK``, or else ``work/`` in the course's own."""
    return Path(os.environ.get("WORK") or root / "work").expanduser().absolute()


def originals(root: Path = ROOT) -> list[Path]:
    """Return what a reader gets: the notebooks in order, and the glossary."""
    folder = root / "notebooks"
    return [*sorted(folder.glob("*.ipynb")), *sorted(folder.glob("*.md"))]


def prepare(root: Path = ROOT) -> tuple[list[str], list[str]]:
    """Copy to ``work/`` what is absent there; return the names copied, and those since updated."""
    work, known = work_folder(root), _origins(root)
    work.mkdir(parents=True, exist_ok=True)
    copied, updated = [], []
    for path in originals(root):
        content, target = path.read_bytes(), work / path.name
        digest = hashlib.sha256(content).hexdigest()
        if not target.exists():
            _write(target, content)
            progress.forget(target)
            known[path.name] = digest
            copied.append(path.name)
        elif known.get(path.name) not in (None, digest):
            updated.append(path.name)
    _write(work / ORIGINS, json.dumps(known, indent=1, sort_keys=True).encode())
    return copied, updated


def reset(which: str, root: Path = ROOT, now: datetime | None = None) -> tuple[Path, Path | None]:
    """Put a fresh copy of notebook ``which`` (a number or a name) in place.

    Returns the paths of the copy and of the backup (None without one). Raises UnknownNotebookError,
    with what there is, for a ``which`` that no notebook answers to.
    """
    name = which.removesuffix(".ipynb").removesuffix(".md")
    if name.isdigit():
        name = f"{int(name):02d}"
    found = [path for path in originals(root) if name in (path.stem, path.stem[:2])]
    if not name or len(found) != 1:
        there = ", ".join(path.stem for path in originals(root))
        raise UnknownNotebookError(f"there is no notebook {which!r}: write NB= and one of {there}")
    path, work = found[0], work_folder(root)
    target, backup = work / path.name, None
    work.mkdir(parents=True, exist_ok=True)
    if target.exists():
        backup = _backup_path(work / "backups", path, now or datetime.now())
        backup.parent.mkdir(exist_ok=True)
        os.replace(target, backup)
    content = path.read_bytes()
    _write(target, content)
    progress.forget(target)
    known = _origins(root)
    known[path.name] = hashlib.sha256(content).hexdigest()
    _write(work / ORIGINS, json.dumps(known, indent=1, sort_keys=True).encode())
    return target, backup


def _backup_path(folder: Path, path: Path, now: datetime) -> Path:
    stamp = now.strftime("%Y-%m-%d_%H-%M-%S")
    wanted, count = folder / f"{path.stem}.{stamp}{path.suffix}", 1
    while wanted.exists():  # two resets within one second
        count += 1
        wanted = folder / f"{path.stem}.{stamp}-{count}{path.suffix}"
    return wanted


def _origins(root: Path) -> dict[str, str]:
    try:
        return json.loads((work_folder(root) / ORIGINS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _write(path: Path, content: bytes) -> None:
    """Write all or nothing: a full disk must not leave half a notebook."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    os.replace(part, path)


def _said(path: Path, root: Path) -> str:
    """Return a path as messages say it: from the course's folder if it lies there."""
    said = path.relative_to(root) if path.is_relative_to(root) else path
    return f"{said}/" if path.is_dir() else str(said)


def closed(folder: Path, mode: int = 0o777) -> str | None:
    """Make a folder where there is none; tell why it cannot be written to, None if it can."""
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        return None if os.access(folder, os.W_OK | os.X_OK) else "it is read-only"
    except OSError as error:
        return error.strerror


def lab(options: list[str], root: Path = ROOT) -> int:
    """Prepare ``work/`` and become JupyterLab there, on loopback, with its token; 00 is open."""
    from jupyter_core.paths import jupyter_runtime_dir

    kept = Path(jupyter_runtime_dir())
    if why := closed(kept, 0o700):
        print(
            f"JupyterLab keeps its files in {kept}, and that cannot be written ({why}): name a "
            "home that can, for example `HOME=/tmp/home make lab`",
            file=sys.stderr,
        )
        return 1
    copied, updated = prepare(root)
    work = work_folder(root)
    if copied:
        print(f"copied to {_said(work, root)}: {', '.join(copied)}")
    for name in updated:
        number = name[:2] if name[:2].isdigit() else Path(name).stem
        print(f"{name} has been updated since you began it: `make reset NB={number}` gives you")
        print(f"  the new one and keeps yours in {_said(work, root)}backups/")
    for ensure in (first.ensure, kernels.install):  # conda runs no program of the course's
        with contextlib.suppress(OSError):  # who cannot write there cannot set it up either
            ensure()
    command = [sys.executable, "-m", "jupyterlab", "--ServerApp.ip=127.0.0.1"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container; Jupyter asks to be told
        command.append("--allow-root")
    beginning = originals(root)[0].name
    if (work / beginning).exists():
        command.append(f"--LabApp.default_url=/lab/tree/{beginning}")
    command += [f"--ServerApp.root_dir={work}", *options]
    # settings are found on the one path, extensions on the other
    paths = {
        name: os.pathsep.join([str(SETTINGS), *filter(None, [os.environ.get(name)])])
        for name in ("JUPYTER_CONFIG_PATH", "JUPYTER_PATH")
    }
    sys.stdout.flush()
    os.execve(command[0], command, {**os.environ, **paths})


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Command line: ``lab [OPTION...]`` or ``reset NB``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("reset", help="a fresh copy of one").add_argument("notebook", metavar="NB")
    actions.add_parser("lab", help="prepare, then open JupyterLab (options are passed on)")
    chosen, rest = parser.parse_known_args(arguments)
    if rest and chosen.action != "lab":
        parser.error(f"unknown option {' '.join(rest)}")
    work = work_folder(root)
    if why := closed(work):
        said = f"WORK={work}: expected a folder for your copies that can be written ({why})"
        print(said, file=sys.stderr)
        return 1
    if chosen.action == "lab":
        return lab(rest, root)
    try:
        target, backup = reset(chosen.notebook, root)
    except UnknownNotebookError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{_said(target, root)} is fresh")
    if backup:
        print(f"what you had is in {_said(backup, root)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
