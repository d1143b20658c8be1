"""Launches: a kernel with its grid and block, and what it is called with."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from helpers.cuda import warps
from helpers.cuda.arguments import Call, bind, dimensions
from helpers.cuda.cpu.backend import CpuBackend
from helpers.cuda.errors import LaunchError
from helpers.cuda.occupancy import most_threads
from helpers.cuda.record import AccessRecord
from helpers.cuda.source import Signature, excerpt
from helpers.cuda.warps import WarpRecord

if TYPE_CHECKING:
    from helpers.cuda.gpu import nvrtc
    from helpers.cuda.module import Module

EVENT_LIMIT = 4_000_000  # of 24 bytes
WAY_LIMIT = 8_000_000  # of 4 bytes
Size = tuple[int, int, int]  # (x, y, z)


class Kernel:
    """One kernel; ``kernel[grid, block]`` or ``kernel[grid, block, shared_bytes]`` launches it."""

    def __init__(self, module: Module, signature: Signature):
        self.module, self.signature = module, signature

    @property
    def resources(self) -> nvrtc.Resources | None:
        """Registers and shared memory, as NVIDIA's compiler reports them (None: not known)."""
        return self.module.resources.get(self.signature.name)

    @property
    def source(self) -> str:
        """The kernel's own lines, with the comment above it: to show them in a notebook."""
        return excerpt(self.module.source, self.signature)

    @property
    def listing(self) -> str:
        """The same lines, each with the number by which records and faults name it."""
        return excerpt(self.module.source, self.signature, numbered=True)

    def __getitem__(self, shape: Any) -> Launch:
        if not isinstance(shape, tuple) or len(shape) not in (2, 3):
            raise LaunchError(
                f"expected kernel[grid, block] or kernel[grid, block, shared_bytes]; got {shape!r}"
            )
        try:
            shared = operator.index(shape[2]) if len(shape) == 3 else 0
        except TypeError:
            shared = -1
        if shared < 0:
            raise LaunchError(f"shared memory must be bytes, 0 or more; got {shape[2]!r}")
        return Launch(self, dimensions("grid", shape[0]), dimensions("block", shape[1]), shared)

    def __call__(self, *_: object) -> None:
        raise LaunchError(
            f"{self.signature.name} needs its grid and block: "
            f"module[{self.signature.name!r}][grid, block](...)"
        )

    def __repr__(self) -> str:
        return f"Kernel({self.signature})"


class Launch:
    """A kernel with its grid and block: call it with the kernel's arguments.

    ``shared`` are the bytes of dynamic shared memory of a block.
    """

    def __init__(self, kernel: Kernel, grid: Size, block: Size, shared: int):
        self.kernel, self.grid, self.block, self.shared = kernel, grid, block, shared

    def __call__(
        self, *arguments: object, check: bool | None = None, timeout: float | None = None
    ) -> None:
        """Run the kernel; arrays are written in place.

        On a CPU they stay as they were if it fails, and ``check`` and ``timeout`` (seconds)
        override the module's. On a GPU the launch returns at once when all arrays are CUDA
        tensors, as launches do.
        """
        module = self.kernel.module
        call = self._call(arguments, timeout)
        module._backend.launch(call, check=module.check if check is None else check, record=False)

    def record(
        self,
        *arguments: object,
        blocks: list[int] | None = None,
        limit: int = EVENT_LIMIT,
        timeout: float | None = None,
    ) -> AccessRecord:
        """Run the kernel on the CPU and return what it touched.

        Single accesses are kept of ``blocks`` (linear numbers; None: all), ``limit`` at most. The
        sums are over all blocks always. ``timeout`` in seconds replaces the module's. LaunchError
        on a GPU, or for an argument or block that does not fit; KernelError if the kernel did
        something wrong.
        """
        if self.kernel.module.device != "cpu":
            raise LaunchError("accesses are recorded on the CPU: make the module with device='cpu'")
        total = self.grid[0] * self.grid[1] * self.grid[2]
        for block in blocks or ():
            if not 0 <= block < total:
                raise LaunchError(f"block {block} is not one of this grid's {total} (0 is first)")
        options: dict[str, Any] = {"blocks": blocks, "event_limit": limit}
        call = self._call(arguments, timeout)
        found = self.kernel.module._backend.launch(call, check=True, record=True, **options)
        assert found is not None
        return found

    def warps(
        self, *arguments: object, limit: int = WAY_LIMIT, timeout: float | None = None
    ) -> WarpRecord:
        """Run the kernel on the CPU and return which lanes of its warps work in each pass.

        Accesses are not checked. A kernel whose threads wait for one another in loops goes round
        these as often as the clock says. ``limit`` counts pieces of code, of all threads together.
        LaunchError on a GPU, for an argument that does not fit, where the limit is too low, or
        where addr2line is missing; KernelError if the kernel did something wrong.
        """
        module, signature = self.kernel.module, self.kernel.signature
        if not isinstance(module._backend, CpuBackend):
            raise LaunchError("warps are counted on the CPU: make the module with device='cpu'")
        words, lines = module._backend.ways(self._call(arguments, timeout), limit)
        return warps.assemble(signature.name, self.grid, self.block, words, lines, module.source)

    def _call(self, arguments: tuple, timeout: float | None) -> Call:
        signature = self.kernel.signature
        threads, most = self.block[0] * self.block[1] * self.block[2], signature.most_threads
        if most is not None and threads > most:
            raise LaunchError(
                f"block {self.block} has {threads} threads; the __launch_bounds__ of kernel "
                f"{signature.name} allow at most {most}"
            )
        bound = bind(signature, arguments, self.kernel.module.device)
        used = self.kernel.resources.registers if self.kernel.resources else 0
        if threads > (most := most_threads(used)):
            raise LaunchError(
                f"block {self.block} has {threads} threads of {used} registers each; the "
                f"registers of kernel {signature.name} allow at most {most}"
            )
        timeout = self.kernel.module.timeout if timeout is None else timeout
        if not timeout > 0:
            raise LaunchError(f"timeout must be above 0 seconds; got {timeout!r}")
        return Call(signature, self.grid, self.block, self.shared, bound, timeout)
