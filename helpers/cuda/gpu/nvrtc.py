"""NVIDIA's own compiler, NVRTC: it needs no driver, so what runs on a CPU is known to be CUDA."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from helpers.cuda.errors import CompileError, CudaError
from helpers.cuda.refused import too_many_constants
from helpers.cuda.source import explain

PRELUDE = "prelude.h"
ARCH = "sm_80"  # the device for which sources are verified, and whose limits hold on a CPU


@dataclass(frozen=True)
class Resources:
    """What one thread and one block of a kernel occupy, as ptxas reports it."""

    registers: int  # of a thread
    shared: int  # bytes of static shared memory of a block
    spilled: int  # bytes of registers that a thread keeps in memory for want of room
    arch: str


@dataclass(frozen=True)
class Compiled:
    """What NVRTC made of a source."""

    cubin: bytes
    names: dict[str, str]  # mangled names of kernels, and of constants as &name
    resources: dict[str, Resources]


@functools.cache
def missing() -> str:
    """Return why NVRTC cannot be used here; empty where it can."""
    try:
        from cuda.bindings import nvrtc  # type: ignore[import-untyped]

        status, *_ = nvrtc.nvrtcVersion()
    except Exception as error:  # the package or its shared library, on any system
        return (
            "The source was not checked as CUDA C: NVIDIA's compiler NVRTC is not installed "
            f"({type(error).__name__})."
        )
    return "" if status == nvrtc.nvrtcResult.NVRTC_SUCCESS else f"NVRTC does not start: {status}."


@functools.cache
def architectures() -> tuple[int, ...]:
    """Return the compute capabilities that this NVRTC compiles for, such as (75, 80, 90)."""
    from cuda.bindings import nvrtc

    status, known = nvrtc.nvrtcGetSupportedArchs()
    _expect(status)
    return tuple(int(arch) for arch in known)


def include_folders() -> tuple[str, ...]:
    """Return where CUDA's own headers lie: NVRTC's package comes without them."""
    roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")]
    folders = [Path(root, "include") for root in (*roots, "/usr/local/cuda") if root]
    nvidia = importlib.util.find_spec("nvidia")  # a namespace of many packages
    for place in (nvidia and nvidia.submodule_search_locations) or ():
        folders += sorted(Path(place).glob("cu*/include"))
    found = (str(folder) for folder in folders if (folder / "cuda_fp16.h").is_file())
    return tuple(dict.fromkeys(found))


@functools.lru_cache(maxsize=128)
def compile_cubin(
    source: str,
    name: str,
    defines: tuple[tuple[str, str], ...],
    symbols: tuple[str, ...],
    arch: str,
) -> Compiled:
    """Compile a source for one architecture; ``symbols`` are kernels ("f") and constants ("&c")."""
    from cuda.bindings import nvrtc

    if (
        not re.fullmatch(r"sm_\d+[af]?", arch)
        or int(re.sub(r"\D", "", arch)) not in architectures()
    ):
        known = ", ".join(f"sm_{a}" for a in architectures())
        raise CudaError(f"this NVRTC does not compile for {arch!r}; it knows {known}")
    headers = _headers()
    status, program = nvrtc.nvrtcCreateProgram(
        source.encode(), name.encode(), len(headers), list(headers.values()), list(headers)
    )
    _expect(status)
    try:
        for symbol in symbols:
            _expect(nvrtc.nvrtcAddNameExpression(program, symbol.encode())[0])
        options = [f"--gpu-architecture={arch}", "--std=c++17", "--ptxas-options=-v", "-lineinfo"]
        options += [f"-D{key}={value}" for key, value in defines] + [f"--pre-include={PRELUDE}"]
        options += [f"--include-path={folder}" for folder in include_folders()]
        # From a cache, which a machine with NVIDIA's driver has, ptxas's report would be missing.
        if nvrtc.nvrtcVersion()[1:] >= (12, 9):
            options.append("--no-cache")
        status = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])[0]
        size = nvrtc.nvrtcGetProgramLogSize(program)[1]
        log = bytearray(size)
        nvrtc.nvrtcGetProgramLog(program, log)
        text = bytes(log).rstrip(b"\0").decode(errors="replace")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            if size := re.search(r"too much global constant data \((0x[0-9a-f]+) bytes", text):
                raise too_many_constants(int(size[1], 16))
            raise CompileError(explain(text, source, name))
        cubin = bytearray(nvrtc.nvrtcGetCUBINSize(program)[1])
        _expect(nvrtc.nvrtcGetCUBIN(program, cubin)[0])
        names = {}
        for symbol in symbols:
            status, lowered = nvrtc.nvrtcGetLoweredName(program, symbol.encode())
            _expect(status)
            names[symbol] = lowered.decode()
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Compiled(bytes(cubin), names, _resources(text, names, arch))


def _headers() -> dict[bytes, bytes]:
    """Return headers by name that NVRTC comes without: the C library's, which the prelude is."""
    prelude = Path(__file__).with_name(PRELUDE).read_bytes()
    math = Path(__file__).parents[1] / "cpu/runtime/include/math_constants.h"
    names = ("float", "limits", "math", "stddef", "stdint", "stdio", "stdlib", "string", "assert")
    found = {PRELUDE.encode(): prelude, b"math_constants.h": math.read_bytes()}
    for name in names:
        found |= dict.fromkeys((f"{name}.h".encode(), f"c{name}".encode()), b"\n")
    return found


def _resources(log: str, names: dict[str, str], arch: str) -> dict[str, Resources]:
    """Read ptxas's report: one paragraph per kernel, headed by its mangled name."""
    found = {}
    for part in re.split(r"Compiling entry function '", log)[1:]:
        mangled = part.split("'")[0]
        number = lambda pattern, text=part: int((re.search(pattern, text) or [0, 0])[1])  # noqa: E731
        for name, lowered in names.items():
            if lowered == mangled:
                found[name] = Resources(
                    number(r"Used (\d+) registers"),
                    number(r"(\d+)(?:\+\d+)? bytes smem"),
                    number(r"(\d+) bytes spill stores"),
                    arch,
                )
    return found


def _expect(status: object) -> None:
    if getattr(status, "value", status) != 0:
        raise CudaError(f"NVRTC: {getattr(status, 'name', status)}")


# Where NVRTC is not: what it reported of kernels that notebooks ask about.
NOTE = (
    "NVIDIA's compiler NVRTC is not installed here: registers and shared memory of this kernel are "
    "those that NVRTC 13.0 reported for sm_80."
)

# (file, macros) → kernel → (registers of a thread, bytes of a block)
REPORTED: dict[tuple[str, frozenset[tuple[str, str]]], dict[str, tuple[int, int]]] = {
    ("vector_add.cu", frozenset()): {"vector_add": (12, 0)},
    ("product.cu", frozenset()): {
        "coarse_product<1>": (32, 2048),
        "coarse_product<2>": (32, 3072),
        "coarse_product<4>": (32, 5120),
        "register_product<2>": (32, 4096),
        "register_product<4>": (64, 8192),
        "square_product<16>": (32, 2048),
        "square_product<32>": (32, 8192),
    },
}


def recorded(
    source: str, shipped: Path, defines: Mapping[str, str], kernels: Iterable[str]
) -> dict[str, Resources]:
    """Return what is recorded of these kernels: nothing for a source that is not the course's."""
    known = REPORTED.get((shipped.name, frozenset(defines.items())), {})
    if not known or source != shipped.read_text():
        return {}
    return {name: Resources(*known[name], 0, ARCH) for name in kernels if name in known}
