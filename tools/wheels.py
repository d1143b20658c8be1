"""Fill a folder with every wheel of the lock, for laptops without a network (``make wheels``).

On the laptops ``make lab WHEELS=folder`` then installs from the folder alone. Wheels fit one system
and one Python: by default this machine's, or those named by ``--system`` and ``--python``. Several
runs may fill the same folder for several kinds of laptop.
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
    if (system, python) == (this_system(), here):
        return [*pip, "-r", str(lock.LOCK)]
    if system.startswith("linux") and not torch_index:
        raise ValueError(
            f"for {system} with Python {python}, name the index with PyTorch's build for "
            "processors: TORCH_INDEX=..."
        )
    pins = lock.parse(lock.LOCK.read_text(encoding="utf-8")).values()
    pip += ["--no-deps", "--python-version", python, *lock.platforms(system)]
    return [*pip, *lock.lines_for(pins, system, python)]


def main(arguments: list[str]) -> int:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    parser = argparse.ArgumentParser(prog="python -m tools.wheels", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--system", choices=lock.SYSTEMS, default=this_system())
    parser.add_argument("--python", choices=lock.PYTHONS, default=here)
    parser.add_argument("--torch-index", default="", metavar="URL")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        pip = command(options.folder, options.system, options.python, options.torch_index)
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
