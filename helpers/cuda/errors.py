"""What can go wrong between a CUDA C source and its result, by name."""

from __future__ import annotations


class CudaError(Exception):
    """Anything that compiling or running a kernel reports."""

    def _render_traceback_(self) -> list[str]:
        """Show the message alone in a notebook: it names the lines that matter (IPython asks)."""
        return [f"{type(self).__name__}: {self}"]


class CompileError(CudaError):
    """The source does not compile; the message quotes the compiler and the lines of the source."""


class LaunchError(CudaError, ValueError):
    """Grid, block, shared memory or arguments do not fit the kernel or the device."""


class KernelError(CudaError, RuntimeError):
    """The kernel ran and did something wrong; ``line`` of the source is None if unknown."""

    def __init__(self, message: str, line: int | None = None):
        super().__init__(message)
        self.line = line


class BoundsError(KernelError):
    """A thread touched memory outside an array."""


class RaceError(KernelError):
    """Two threads touched one place, at least one writing, with nothing to order them."""


class UninitialisedError(KernelError):
    """A thread read shared memory that no thread of its block had written, or a local variable."""


class BarrierError(KernelError):
    """Some threads of a block (or lanes of a warp) wait where the others never come."""


class KernelTimeoutError(KernelError):
    """The kernel did not end within its time limit and was stopped."""
