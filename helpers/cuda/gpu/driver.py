"""Run a module's kernels on an NVIDIA GPU: NVRTC's cubin through the CUDA driver (cuda-bindings).

The context is the device's primary one, which PyTorch uses too, and launches go to PyTorch's
current stream where PyTorch runs on the GPU: tensors pass without a copy, in order with its work.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import numpy as np
from cuda.bindings import driver  # type: ignore[import-untyped]

from helpers.cuda.arguments import Call
from helpers.cuda.errors import CudaError, KernelError, LaunchError
from helpers.cuda.gpu.nvrtc import Compiled

DEFAULT_SHARED = 49_152  # bytes a block may use without asking for more (48 KiB, every device)


class GpuBackend:
    """One compiled source on one GPU (PyTorch's current device, else the first)."""

    device = "gpu"

    def __init__(self, compile_for: Callable[[str], Compiled], kernels: Iterable[str]):
        torch = _torch()
        self.ordinal = torch.cuda.current_device() if torch else 0
        handle = _call(driver.cuDeviceGet, self.ordinal)
        self._context = _call(driver.cuDevicePrimaryCtxRetain, handle)
        attributes = driver.CUdevice_attribute
        read = lambda name: _call(  # noqa: E731
            driver.cuDeviceGetAttribute, getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}"), handle
        )
        self.arch = f"sm_{read('COMPUTE_CAPABILITY_MAJOR')}{read('COMPUTE_CAPABILITY_MINOR')}"
        self.shared_limit = read("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        compiled = compile_for(self.arch)
        self.resources = compiled.resources
        self._names = compiled.names
        self._current()
        image = np.frombuffer(compiled.cubin, np.uint8)
        self._module = _call(driver.cuModuleLoadData, image.ctypes.data)
        self._functions = {
            name: _call(driver.cuModuleGetFunction, self._module, self._names[name].encode())
            for name in kernels
        }

    def _current(self) -> None:
        _call(driver.cuCtxSetCurrent, self._context)

    def _stream(self) -> int:
        torch = _torch()
        return torch.cuda.current_stream(self.ordinal).cuda_stream if torch else 0

    def set_constant(self, name: str, array: np.ndarray) -> None:
        """Copy an array into a ``__constant__`` variable of the loaded module."""
        self._current()
        symbol = self._names[f"&{name}"].encode()
        address, size = _call(driver.cuModuleGetGlobal, self._module, symbol)
        if array.nbytes > size:
            raise LaunchError(
                f"constant {name} holds {size} bytes; got {array.nbytes} (shape {array.shape})"
            )
        stream = self._stream()
        _call(driver.cuMemcpyHtoDAsync, address, array.ctypes.data, array.nbytes, stream)
        _call(driver.cuStreamSynchronize, stream)  # `array` may go when this returns

    def launch(self, call: Call, *, check: bool, record: bool, **_: object) -> None:
        """Launch one kernel. With only CUDA tensors it returns at once, as launches do."""
        if check or record:
            raise LaunchError("accesses are checked on the CPU: make the module with device='cpu'")
        self._current()
        function = self._functions[call.signature.name]
        self._fit(call, function)
        stream = self._stream()
        for argument in call.arguments:
            tensor = argument.tensor
            if argument.address is not None and tensor.device.index != self.ordinal:
                raise LaunchError(
                    f"argument `{argument.parameter.name}` is on {tensor.device}, but the module "
                    f"was made on cuda:{self.ordinal}"
                )
        with contextlib.ExitStack() as stack:
            places = self._copy_in(call, stream, stack)
            values: list[ctypes.c_void_p | ctypes.Array] = []
            for argument, place in zip(call.arguments, places, strict=True):
                if argument.parameter.pointer:
                    values.append(ctypes.c_void_p(place))
                else:
                    values.append(ctypes.create_string_buffer(argument.value, len(argument.value)))
            pointers = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
            _call(driver.cuLaunchKernel, function, *call.grid, *call.block, call.shared, stream,
                  ctypes.addressof(pointers), 0)  # fmt: skip
            if any(argument.array is not None for argument in call.arguments):
                _call(driver.cuStreamSynchronize, stream, during=call.signature.name)
                self._copy_out(stream)

    def _fit(self, call: Call, function: object) -> None:
        kernel, block, shared = call.signature.name, call.block, call.shared
        names = driver.CUfunction_attribute
        read = lambda name: _call(  # noqa: E731
            driver.cuFuncGetAttribute, getattr(names, f"CU_FUNC_ATTRIBUTE_{name}"), function
        )
        static, most = read("SHARED_SIZE_BYTES"), read("MAX_THREADS_PER_BLOCK")
        if static + shared > self.shared_limit:
            raise LaunchError(
                f"kernel {kernel} asks for {static} bytes of static and {shared} of "
                f"dynamic shared memory; a block has at most {self.shared_limit}"
            )
        if block[0] * block[1] * block[2] > most:
            raise LaunchError(
                f"block {block} has {block[0] * block[1] * block[2]} threads; the registers of "
                f"kernel {kernel} allow at most {most}"
            )
        if static + shared > DEFAULT_SHARED:
            _call(
                driver.cuFuncSetAttribute,
                function,
                names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                shared,
            )

    def _copy_in(self, call: Call, stream: int, stack: contextlib.ExitStack) -> list[int | None]:
        """Copy host arrays to the device; return each argument's device address."""
        self._copied = []
        bases = []
        for span in call.regions:
            address = int(_call(driver.cuMemAlloc, max(span.bytes, 1)))
            stack.callback(driver.cuMemFree, address)
            bases.append(address)
            for at, array in span.arrays:
                _call(driver.cuMemcpyHtoDAsync, address + at, array.ctypes.data, array.nbytes,
                      stream)  # fmt: skip
                if span.writable:
                    self._copied.append((array, address + at))
        return [
            bases[place[0]] + place[1] if place else argument.address
            for argument, place in zip(call.arguments, call.places, strict=True)
        ]

    def _copy_out(self, stream: int) -> None:
        for array, address in self._copied:
            _call(driver.cuMemcpyDtoHAsync, array.ctypes.data, address, array.nbytes, stream)
        _call(driver.cuStreamSynchronize, stream)
        self._copied = []

    def close(self) -> None:
        """Leave the module to the process's end: PyTorch may still use the context."""


def _torch() -> ModuleType | None:
    """Return torch if this process uses it on a GPU, else None (never imports it)."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() else None


def _call(function: Callable, *arguments: object, during: str = "") -> Any:
    """Call the driver; raise its error by name, else return what it gave (a tuple if several)."""
    status, *results = function(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        name = driver.cuGetErrorName(status)[1]
        text = driver.cuGetErrorString(status)[1]
        said = f"{name.decode()}: {text.decode()}" if name else str(status)
        if during:
            raise KernelError(
                f"{during} failed on the GPU: {said}. The device's context is lost with it: "
                "restart the Jupyter kernel; device='cpu' with check=True names thread and line"
            )
        raise CudaError(f"{function.__name__}: {said}")
    return results[0] if len(results) == 1 else tuple(results)
