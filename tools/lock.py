"""Regenerate requirements.txt, the lock, from pyproject.toml: ``python -m tools.lock``.

uv resolves every direct requirement (all extras and the build's) for all systems at once; what only
some need gets a marker, and what readers do not need the name of its group as a comment. Pins stay
as they are, but for the packages named after ``--upgrade`` (all, if none is named).

Two rules of ours. Local versions (``2.13.0+cpu``) lose their suffix: no public index serves them.
CUDA's packages, which PyTorch's build for Linux with CUDA pins exactly in its own metadata, stay
out, so that the build for processors does not fetch gigabytes.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helpers.paths import ROOT

LOCK = ROOT / "requirements.txt"
PYTHONS = ("3.11", "3.12", "3.13")
SYSTEMS = {
    "linux-x86_64": ("linux", "Linux", "x86_64"),
    "linux-aarch64": ("linux", "Linux", "aarch64"),
    "macos-arm64": ("darwin", "Darwin", "arm64"),
}
TARGETS = tuple(itertools.product(SYSTEMS, PYTHONS))
# What PyTorch's build with CUDA pins.
CUDA = re.compile("nvidia-(?!cuda-nvrtc)|cuda-toolkit|triton")
GPU = re.compile("cuda-|nvidia-")  # what needs a GPU from NVIDIA to be of use
READER = ("mpi", "dgl", "lab")  # the extras of everybody who reads a notebook
HEADER = """\
# The lock: every version that the course runs with, on Linux and macOS, Python 3.11 to 3.13.
# Made from pyproject.toml by `python -m tools.lock`; do not edit. PyTorch's CUDA packages are
# pinned by PyTorch's own metadata and stay out, so that its build for processors stays small.
# `make lab` installs the lines that end without a comment, and on Linux with an NVIDIA GPU those
# with `# gpu`. The first command that needs `# rest` (tests, site, bench, ...) adds it.
"""


def environment(system: str, python: str) -> dict[str, str]:
    """Return the values that markers see on ``system`` under ``python``."""
    platform, name, machine = SYSTEMS[system]
    return {
        **default_environment(),
        "sys_platform": platform,
        "platform_system": name,
        "platform_machine": machine,
        "os_name": "posix",
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def direct(extras: Iterable[str] | None = None) -> list[Requirement]:
    """Return what pyproject.toml requires: its own, its build's, and these extras' (None: all)."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = data["project"]
    named = project["optional-dependencies"]
    chosen = [named[extra] for extra in (named if extras is None else extras)]
    lines = itertools.chain(project["dependencies"], *chosen, data["build-system"]["requires"])
    return [Requirement(line) for line in lines]


def parse(text: str) -> dict[str, Requirement]:
    """Return the pins of a lock by canonical name.

    Raises ValueError for a line that is no pin, and for a name that is pinned twice.
    """
    pins = {}
    for line in text.splitlines():
        line = line.split(" #")[0].strip()
        if not line or line.startswith("#"):
            continue
        pin = Requirement(line)
        if [one.operator for one in pin.specifier] != ["=="]:
            raise ValueError(f"expected NAME==VERSION, got {line!r}")
        name = canonicalize_name(pin.name)
        if name in pins:
            raise ValueError(
                f"expected one pin of {name} for every system; got {pins[name]}, {pin}"
            )
        pins[name] = pin
    return pins


def groups(text: str) -> dict[str, str]:
    """Return the group of each pin of a lock: "" (every reader's), "gpu" or "rest"."""
    lines = {name: line for line in text.splitlines() for name in parse(line)}
    return {name: line.partition("  # ")[2] for name, line in lines.items()}


def lines_for(pins: Iterable[Requirement], system: str, python: str) -> list[str]:
    """Return the pins that hold on ``system`` under ``python``, without their markers."""
    there = environment(system, python)
    return [
        f"{pin.name}{pin.specifier}"
        for pin in pins
        if pin.marker is None or pin.marker.evaluate(there)
    ]


def resolve(wanted: Iterable[Requirement], pinned: Iterable[str]) -> str:
    """Let uv choose versions of all that is ``wanted``, keeping to ``pinned``; return its pins."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--universal", "--only-binary=:all:"]
    command += ["--fork-strategy", "fewest"]  # one version of each for every Python
    # Distributions ship the first patches of a Python for years: Debian 12 has 3.11.2.
    command += ["--python-version", f"{PYTHONS[0]}.0", "--no-header", "--no-annotate", "--quiet"]
    with tempfile.TemporaryDirectory(prefix="lock-") as folder:
        constraints = Path(folder, "constraints.txt")
        constraints.write_text("\n".join(pinned), encoding="utf-8")
        done = subprocess.run(
            [*command, "-c", str(constraints), "-"],
            input="\n".join(map(str, wanted)),
            capture_output=True,
            text=True,
            timeout=1800,
        )
    if done.returncode:
        raise SystemExit(f"uv found no set of versions:\n{done.stderr}")
    return done.stdout


def lock(resolved: str, reader: Iterable[str]) -> str:
    """Return the text of a lock: uv's pins, as far as the course's systems need them.

    ``reader`` names what PyTorch's default build and a reader's other packages need.
    """
    text = HEADER
    for name, pin in sorted(parse(resolved).items()):
        targets = {at for at in TARGETS if not pin.marker or pin.marker.evaluate(environment(*at))}
        if targets and not CUDA.match(name):
            version = next(iter(pin.specifier)).version.split("+")[0]
            condition = "" if targets == set(TARGETS) else f"; {pin.marker}"
            group = "gpu" if GPU.match(name) else "" if name in reader else "rest"
            text += f"{name}=={version}{condition}"
            text += f"  # {group}\n" if group else "\n"
    return text


def platforms(system: str) -> list[str]:
    """Return pip's options that name the wheel tags of ``system``."""
    if system.startswith("macos"):
        return ["--platform", "macosx_14_0_arm64"]
    machine = SYSTEMS[system][2]
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(28, 4, -1)]
    tags += [f"manylinux{year}_{machine}" for year in (2014, 2010, 1)]
    return [word for tag in tags for word in ("--platform", tag)]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.lock", description=__doc__)
    parser.add_argument(
        "--upgrade", nargs="*", metavar="NAME", help="take the newest of these (default: of all)"
    )
    options = parser.parse_args(arguments)
    pinned = []
    if LOCK.exists() and options.upgrade != []:
        pins = parse(LOCK.read_text(encoding="utf-8"))
        fresh = {canonicalize_name(name) for name in options.upgrade or ()}
        pinned = [f"{pin.name}{pin.specifier}" for name, pin in pins.items() if name not in fresh]
    resolved = resolve(direct(), pinned)
    chosen = [f"{pin.name}{pin.specifier}" for pin in parse(resolved).values()]
    reader = parse(resolve(direct(READER), chosen))
    LOCK.write_text(lock(resolved, reader), encoding="utf-8")
    print(f"{LOCK.name}: {len(parse(LOCK.read_text(encoding='utf-8')))} pins")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
