"""CUDA C on an NVIDIA GPU: NVIDIA's own compiler (nvrtc), and launches through its driver."""

from __future__ import annotations

import functools


@functools.cache
def missing() -> str:
    """Return why there is no GPU to run on; empty where there is one."""
    try:
        from cuda.bindings import driver  # type: ignore[import-untyped]
    except ImportError:
        return "cuda-bindings is not installed (extra [gpu])"
    try:
        _expect(driver.cuInit(0)[0])
        status, count = driver.cuDeviceGetCount()
        _expect(status)
    except Exception as error:  # no driver library, or a driver that finds no device
        return f"no NVIDIA driver with a device answers ({type(error).__name__}: {error})"
    return "" if count else "the NVIDIA driver finds no GPU"


def _expect(status: object) -> None:
    if getattr(status, "value", status) != 0:
        raise OSError(getattr(status, "name", str(status)))
