"""``Module``: CUDA C source in, callable kernels out, on a GPU or on this machine's processor."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.cuda import refused
from helpers.cuda import source as source_text
from helpers.cuda.arguments import fitting
from helpers.cuda.cpu.backend import CpuBackend
from helpers.cuda.errors import CompileError, CudaError, LaunchError
from helpers.cuda.gpu import missing, nvrtc
from helpers.cuda.launch import Kernel

if TYPE_CHECKING:
    from helpers.cuda.gpu.driver import GpuBackend

KERNELS = Path(__file__).parent / "kernels"
TIMEOUT = 30.0  # seconds: far beyond any kernel of the course, on a loaded machine too


class Module:
    """Compile CUDA C and call its kernels.

    >>> module = Module('__global__ void twice(float *x) { x[threadIdx.x] *= 2; }', device="cpu")
    >>> x = np.ones(4, np.float32)
    >>> module["twice"][1, 4](x)
    >>> x.tolist()
    [2.0, 2.0, 2.0, 2.0]

    Parameters
    ----------
    source_or_path : str or Path
        The text, the path of a ``.cu`` file, or the name of one that the course ships
        ("convolution.cu").
    device : str, default "auto"
        "cpu", "gpu", or "auto": a GPU if there is one and nothing is to be checked.
    name : str, optional
        What messages call the source.
    check : bool, default False
        Watch every access of every launch (on a CPU).
    timeout : float, default 30
        Seconds after which a kernel that does not end is stopped. On a GPU nothing can stop it
        from outside, and this has no effect.
    threads : int, optional
        Processors to use; by default all that this process may.
    verify : bool, default True
        Compile by NVRTC too, for sm_80, where that is installed: ``resources`` then gives registers
        and shared memory of each kernel. Where it is not, ``note`` says so, and ``resources`` has
        what was recorded of kernels that the notebooks ask about.

    Raises
    ------
    CompileError
        With the lines of the source.
    LaunchError
        For an option that does not fit.
    CudaError
        There is no GPU to run on.
    """

    def __init__(
        self,
        source_or_path: str | Path,
        defines: dict[str, object] | None = None,
        device: str = "auto",
        *,
        name: str | None = None,
        check: bool = False,
        timeout: float = TIMEOUT,
        threads: int | None = None,
        verify: bool = True,
    ):
        if device not in ("auto", "cpu", "gpu"):
            raise LaunchError(f'device must be "auto", "cpu" or "gpu"; got {device!r}')
        if not timeout > 0:
            raise LaunchError(f"timeout must be above 0 seconds; got {timeout!r}")
        self.source, file_name = _read(source_or_path)
        self.name = name or file_name
        self.defines = {key: str(value) for key, value in (defines or {}).items()}
        self.check, self.timeout = check, timeout
        refused.check(self.source, refused.PROGRAM)
        self.templates = source_text.templates(self.source)
        self.signatures = source_text.kernels(self.source, self.defines)
        self.constants = source_text.constants(self.source, self.defines)
        if not self.signatures and not self.templates:
            raise CompileError(f"{self.name} defines no kernel: no function is marked __global__")
        self.resources: dict[str, nvrtc.Resources] = {}
        self.note = ""
        if device == "gpu" and check:
            raise LaunchError("accesses are checked on the CPU: check=True needs device='cpu'")
        on_gpu = device == "gpu" or (device == "auto" and not check and not missing())
        self._options = (on_gpu, threads, verify)
        self._values: dict[str, np.ndarray] = {}  # of constants, for a backend made anew
        self._backend = self._compile()
        self.device = self._backend.device
        self._finalize = weakref.finalize(self, self._backend.close)

    def _compile(self) -> CpuBackend | GpuBackend:
        """Make the backend, with all instances of templates that have been asked for."""
        on_gpu, threads, verify = self._options
        if on_gpu:
            if missing():
                raise CudaError(f"there is no GPU to run on: {missing()}; use device='cpu'")
            from helpers.cuda.gpu.driver import GpuBackend  # which needs cuda-bindings

            backend = GpuBackend(self.compile_for, self.signatures)
            self.resources = backend.resources
            return backend
        verified = verify and self._check_as_cuda()
        instances = [name for name in self.signatures if "<" in name]
        try:
            return CpuBackend(self.source, self.name, self.defines, threads, self.check, instances)
        except CompileError as error:
            if not verified:
                raise
            raise CompileError(
                "a GPU runs this source, the CPU runner does not: "
                f"{refused.lacking(str(error))}\n{error}"
            ) from None

    def _check_as_cuda(self) -> bool:
        """Compile by NVRTC; return whether that was possible, else say why not in ``note``."""
        self.note = nvrtc.missing()
        if self.note:
            self.resources = nvrtc.recorded(
                self.source, KERNELS / self.name, self.defines, self.signatures
            )
            self.note = nvrtc.NOTE if self.resources else self.note
            return False
        try:
            compiled = self.compile_for(nvrtc.ARCH)
        except CompileError as error:
            header = re.search(r'(?:could not|cannot) open source file "([^"]+)"', str(error))
            if not header:
                raise
            self.note = (
                f"The source was not checked as CUDA C: NVRTC finds no {header[1]} (CUDA's own "
                "headers come with its toolkit, found by CUDA_HOME, or with the package "
                "nvidia-cuda-runtime)."
            )
            return False
        self.resources = compiled.resources
        return True

    def _instance(self, name: str) -> source_text.Signature:
        """Compile one more instance of a kernel template: "scale<float, 4>"."""
        wanted = [*(n for n in self.signatures if "<" in n), name]
        self.signatures = source_text.kernels(self.source, self.defines, wanted)
        self._finalize()
        self._backend = self._compile()
        self._finalize = weakref.finalize(self, self._backend.close)
        for constant, values in self._values.items():
            self._backend.set_constant(constant, values)
        return self.signatures[name]

    def compile_for(self, arch: str) -> nvrtc.Compiled:
        """Return what NVRTC makes of the source for a device such as "sm_90": cubin and report.

        CompileError has the lines of the source; CudaError is for one that this NVRTC does not
        know.
        """
        symbols = (*self.signatures, *(f"&{name}" for name in self.constants))
        return nvrtc.compile_cubin(
            self.source, self.name, tuple(sorted(self.defines.items())), symbols, arch
        )

    def __getitem__(self, name: str) -> Kernel:
        name = re.sub(r"\s*([<>,])\s*", r"\1", name)
        if "<" in name and name.split("<")[0] in self.templates and name not in self.signatures:
            self._instance(name)
        if name not in self.signatures:
            shown = [f"{n}<{', '.join(names)}>" for n, names in self.templates.items()]
            known = ", ".join([*map(str, self.signatures.values()), *shown])
            raise KeyError(f"{self.name} has no kernel {name!r}; it has {known}")
        return Kernel(self, self.signatures[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.signatures)

    def constant(self, name: str, array: Any) -> None:
        """Copy an array, or a number, into a ``__constant__`` variable of as many elements or more.

        LaunchError for an unknown name, another dtype or too many elements.
        """
        if name not in self.constants:
            known = ", ".join(self.constants) or "none"
            raise LaunchError(f"{self.name} has no constant {name!r}; it has: {known}")
        wanted = self.constants[name]
        if wanted is None:
            raise LaunchError(
                f"constant {name} is of a type that NumPy does not have; expected a number, a "
                "vector such as float4, a named struct of these, or an array of one"
            )
        if hasattr(array, "data_ptr"):
            array = array.detach().cpu().numpy()
        if isinstance(array, bool | int | float | np.number | np.bool_):
            try:
                array = fitting(array, np.dtype(wanted))
            except ValueError as problem:
                raise LaunchError(f"constant {name}: {problem}") from None
        values = np.ascontiguousarray(array)
        if values.dtype != wanted:
            raise LaunchError(f"constant {name} expects {wanted}; got {values.dtype}")
        self._backend.set_constant(name, values)
        self._values[name] = values

    @property
    def processes(self) -> list[int]:
        """Numbers of the processes that run kernels on the CPU now: up to two."""
        return self._backend.processes if isinstance(self._backend, CpuBackend) else []

    def close(self) -> None:
        """End the module's processes (they also end with it, and with this process)."""
        self._finalize()

    def __enter__(self) -> Module:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        kernels = ", ".join(map(str, self.signatures.values()))
        return f"Module({self.name} on {self.device}: {kernels})"


def _read(source_or_path: str | Path) -> tuple[str, str]:
    text = str(source_or_path)
    if isinstance(source_or_path, Path) or (text.endswith(".cu") and "\n" not in text):
        path = Path(source_or_path)
        shipped = KERNELS / path.name
        if not path.exists() and path == Path(path.name) and shipped.exists():
            path = shipped
        if not path.exists():
            known = ", ".join(sorted(p.name for p in KERNELS.glob("*.cu")))
            raise CompileError(f"there is no file {text!r}, and the course ships {known}")
        return path.read_text(), path.name
    return text, "source"
