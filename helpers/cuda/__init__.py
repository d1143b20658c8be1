"""CUDA C that runs anywhere: on a GPU through NVIDIA's libraries, else on this machine's processor.

>>> from helpers.cuda import Module
>>> module = Module("vector_add.cu")
"""

from .errors import (
    BarrierError,
    BoundsError,
    CompileError,
    CudaError,
    KernelError,
    KernelTimeoutError,
    LaunchError,
    RaceError,
    UninitialisedError,
)
from .module import Kernel, Launch, Module
from .record import Access, Record

__all__ = [
    "Access",
    "BarrierError",
    "BoundsError",
    "CompileError",
    "CudaError",
    "Kernel",
    "KernelError",
    "KernelTimeoutError",
    "Launch",
    "LaunchError",
    "Module",
    "RaceError",
    "Record",
    "UninitialisedError",
]


def load_ipython_extension(ipython) -> None:
    """Give IPython ``%%cuda`` (called by ``%load_ext helpers.cuda``)."""
    from .magic import register

    register(ipython)
