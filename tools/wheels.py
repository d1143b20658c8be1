"""Fill a folder with a reader's wheels, for laptops without a network (``make wheels``).

On the laptops ``make lab WHEELS=folder`` then installs from the folder alone. Wheels fit one system
and one Python: by default this machine's, or those named by SYSTEM and VERSION. Several runs may
fill the same folder for several kinds of laptop.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from pathlib import Path

from tools import lock


def this_system() -> str:
    """Return this machine's name in lock.SYSTEMS. Raises SystemExit where the course cannot run."""
    for name, (sys_platform, _, machine) in lock.SYSTEMS.items():
        if (sys.platform, platform.machine()) == (sys_platform, machine):
            return name
    raise SystemExit(f"the course runs on {', '.join(lock.SYSTEMS)}, not on {platform.machine()}")


def command(folder: Path, system: str, python: str, torch_index: str) -> list[str]:
    """Return the pip command that downloads the lock's wheels for ``system`` and ``python``.

    Raises ValueError for a system other than this one that runs Linux, without ``torch_index``:
    the default build of PyTorch needs CUDA's packages, which pip finds on such a system only.
    """
    pip = [sys.executable, "-m", "pip", "download", "--only-binary=:all:", "--dest", str(folder)]
    if torch_index:
        pip += ["--extra-index-url", torch_index]
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    text = lock.LOCK.read_text(encoding="utf-8")
    group = lock.groups(text)
    pins = [pin for name, pin in lock.parse(text).items() if group[name] != "rest"]
    lines = lock.lines_for(pins, system, python)
    if (system, python) == (this_system(), here):
        return [*pip, "-c", str(lock.LOCK), *lines]
    if system.startswith("linux") and not torch_index:
        raise ValueError(
            f"for {system} with Python {python}, name the index with PyTorch's build for "
            "processors: TORCH_INDEX=..."
        )
    pip += ["--no-deps", "--python-version", python, *lock.platforms(system)]
    return [*pip, *lines]


def main(arguments: list[str]) -> int:
    """Command line: the folder, and make's settings, such as SYSTEM=macos-arm64."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheels", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE")
    options = parser.parse_args(arguments)
    given = dict(setting.split("=", 1) for setting in options.settings)
    system = given.get("SYSTEM") or this_system()
    python = given.get("VERSION") or f"{sys.version_info[0]}.{sys.version_info[1]}"
    for name, value, known in (("SYSTEM", system, lock.SYSTEMS), ("VERSION", python, lock.PYTHONS)):
        if value not in known:
            print(f"{name}={value}: expected one of {', '.join(known)}", file=sys.stderr)
            return 1
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        pip = command(options.folder, system, python, given.get("TORCH_INDEX", ""))
    except OSError as error:
        said = f"expected a folder that can be written ({error.strerror})"
        print(f"WHEELS={options.folder}: {said}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if subprocess.run(pip, check=False).returncode:
        print("pip could not fetch every wheel (its own words are above)", file=sys.stderr)
        return 1
    found = list(options.folder.glob("*.whl"))
    size = sum(path.stat().st_size for path in found) / 1e6
    print(
        f"{options.folder}: {len(found)} wheels, {size:.0f} MB. On each laptop, with this folder:"
    )
    print(f"    make lab WHEELS={options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
