"""CUDA C that runs anywhere: on a GPU through NVIDIA's libraries, else on this machine's processor.

>>> from helpers.cuda import Module
>>> module = Module("vector_add.cu")
"""

from typing import Any

from helpers.cuda.errors import (
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
from helpers.cuda.launch import Kernel, Launch
from helpers.cuda.module import Module
from helpers.cuda.record import Access, AccessRecord
from helpers.cuda.warps import WarpRecord

__all__ = [
    "Access",
    "AccessRecord",
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
    "UninitialisedError",
    "WarpRecord",
]


def load_ipython_extension(ipython: Any) -> None:
    """Give IPython ``%%cuda`` (called by ``%load_ext helpers.cuda``)."""
    from helpers.cuda.magic import CudaMagics

    ipython.register_magics(CudaMagics)
