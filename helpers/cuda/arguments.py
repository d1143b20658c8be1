"""Match a launch's arguments against the kernel's parameters; say which one does not fit."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers.cuda.c_types import Parameter
from helpers.cuda.errors import LaunchError
from helpers.cuda.source import Signature

MAX_BLOCK_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
PAGE = 4096  # bytes


@dataclass(frozen=True)
class Argument:
    """One bound argument: an array in host memory, a device address, or a number's bytes."""

    parameter: Parameter
    array: np.ndarray | None = None  # in host memory
    address: int | None = None  # in device memory
    value: bytes = b""  # a number, as the kernel reads it
    tensor: Any = None  # kept alive until the kernel has run

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array or tensor."""
        return tuple(self.array.shape) if self.array is not None else tuple(self.tensor.shape)


def dimensions(what: str, given: object) -> tuple[int, int, int]:
    """Return the three sizes of a grid or a block, or refuse what CUDA does not allow."""
    sizes = given if isinstance(given, tuple | list) else (given,)
    try:
        numbers = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise LaunchError(
            f"{what} expects whole numbers, one to three of them; got {given!r}"
        ) from None
    if not 1 <= len(numbers) <= 3:
        raise LaunchError(f"{what} expects one to three numbers; got {given!r}")
    x, y, z = numbers + (1,) * (3 - len(numbers))
    full = (x, y, z)
    if min(full) < 1:
        raise LaunchError(f"{what} {given!r} has a size below 1: no thread would run")
    limits = MAX_GRID if what == "grid" else MAX_BLOCK
    threads = x * y * z
    if what == "block" and threads > MAX_BLOCK_THREADS:
        sides = " × ".join(map(str, numbers)) + f" = {threads}" * (len(numbers) > 1)
        raise LaunchError(f"a block of {sides} threads; CUDA allows at most {MAX_BLOCK_THREADS}")
    for axis, size, limit in zip("xyz", full, limits, strict=True):
        if size > limit:
            raise LaunchError(f"{what} {given!r}: {axis} = {size} exceeds CUDA's limit of {limit}")
    return full


def bind(signature: Signature, given: tuple, device: str) -> list[Argument]:
    """Check what a launch was given against the kernel's parameters, on "cpu" or "gpu"."""
    if len(given) != len(signature.parameters):
        raise LaunchError(
            f"kernel {signature} takes {len(signature.parameters)} arguments; got {len(given)}"
        )
    bound = []
    for number, (parameter, value) in enumerate(zip(signature.parameters, given, strict=True), 1):
        try:
            bound.append(_pointer(parameter, value, device) if parameter.pointer
                         else _number(parameter, value))  # fmt: skip
        except ValueError as problem:
            raise LaunchError(
                f"argument {number} (`{parameter.c_type} {parameter.name}`) of kernel "
                f"{signature.name}: {problem}"
            ) from None
    return bound


def _number(parameter: Parameter, value: object) -> Argument:
    dtype = np.dtype(parameter.dtype)
    if parameter.components > 1 or dtype.names:
        return _compound(parameter, value)
    return Argument(parameter, value=fitting(value, dtype).tobytes())


def fitting(value: Any, dtype: np.dtype) -> np.ndarray:
    """Return a number as an array without dimensions; raise ValueError where it does not fit."""
    whole = isinstance(value, bool | int | np.integer | np.bool_)
    if not (whole or (dtype.kind == "f" and isinstance(value, float | np.floating))):
        kind = "number" if dtype.kind == "f" else "whole number"
        raise ValueError(f"expected a {kind}, got {_describe(value)}")
    try:
        with np.errstate(over="ignore"):
            found = np.array(float(value) if dtype.kind == "f" else int(value), dtype)
        fits = dtype.kind != "f" or bool(np.isfinite(found)) or not math.isfinite(value)
    except OverflowError:
        fits = False
    if not fits:
        raise ValueError(f"{value} does not fit {dtype.name}")
    return found


def _compound(parameter: Parameter, value: object) -> Argument:
    """Bind a ``float3`` or a struct that is passed by value: a sequence, or a record of NumPy's."""
    dtype = np.dtype(parameter.dtype)
    try:
        content = np.array(
            tuple(value) if dtype.names and isinstance(value, list) else value, dtype
        )
        if content.shape != (() if dtype.names else (parameter.components,)):
            raise ValueError
        if dtype.kind in "iu":
            [fitting(one, dtype) for one in np.asarray(value).tolist()]
    except (TypeError, ValueError, OverflowError):
        what = f"a record of {dtype}" if dtype.names else f"{parameter.components} numbers"
        raise ValueError(f"expected {what}, got {_describe(value)}") from None
    return Argument(parameter, value=content.tobytes())


def _pointer(parameter: Parameter, value: Any, device: str) -> Argument:
    tensor = value if hasattr(value, "data_ptr") and hasattr(value, "is_contiguous") else None
    if tensor is None and not isinstance(value, np.ndarray):
        raise ValueError(f"expected an array of {parameter.dtype}, got {_describe(value)}")
    whole = value.flags.c_contiguous if tensor is None else tensor.is_contiguous()
    dtype = value.dtype if tensor is None else str(tensor.dtype).removeprefix("torch.")
    if dtype != parameter.dtype:
        raise ValueError(f"expected {parameter.dtype}, got {_describe(value)}")
    if not whole:
        use = "numpy.ascontiguousarray" if tensor is None else ".contiguous()"
        raise ValueError(f"expected contiguous memory, got {_describe(value)}; use {use}")
    if tensor is None:
        if not parameter.const and not value.flags.writeable:
            raise ValueError(f"the kernel may write to it, but the {_describe(value)} is read-only")
        return Argument(parameter, array=value)
    if tensor.device.type == "cuda" and device == "cpu":
        raise ValueError(
            f"got a tensor on {tensor.device}, but this module runs on the CPU; pass "
            "tensor.cpu() or make the module with device='gpu'"
        )
    if tensor.device.type == "cuda":
        return Argument(parameter, address=tensor.data_ptr(), tensor=tensor)
    if tensor.device.type != "cpu":
        raise ValueError(f"expected a tensor on cpu or cuda, got one on {tensor.device}")
    return Argument(parameter, array=tensor.detach().numpy(), tensor=tensor)


def _describe(value: object) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape") and np.shape(value) != ():
        strides = getattr(value, "strides", None)
        text = f"array of {str(value.dtype).removeprefix('torch.')}, shape {tuple(value.shape)}"
        contiguous = getattr(getattr(value, "flags", None), "c_contiguous", True)
        return text if contiguous else f"{text}, strides {strides}"
    return f"{type(value).__name__} {value!r}"[:120]


def whole_pages(size: int) -> int:
    """Return a size rounded up to pages of memory."""
    return max(-(-size // PAGE), 1) * PAGE


@dataclass
class Region:
    """One stretch of host memory that arguments lie in, and its place in another memory."""

    name: str  # of the first argument in it
    begin: int  # host address
    bytes: int
    itemsize: int  # bytes of an element of the first argument
    writable: bool  # whether the kernel may write to any of them
    arrays: list[tuple[int, np.ndarray]]  # offset in the region, and the host array
    offset: int = 0  # in the other memory, in bytes


def regions(arguments: list[Argument]) -> tuple[list[Region], list[tuple[int, int] | None]]:
    """Lay host arrays out in another memory; arrays that overlap here overlap there too.

    Each region has pages of its own; for each argument its region and offset, None for a number.
    """
    spans = []
    for number, argument in enumerate(arguments):
        if argument.array is not None:
            begin = argument.array.__array_interface__["data"][0]
            spans.append((begin, number, argument.array, argument.parameter))
    found: list[Region] = []
    places: list[tuple[int, int] | None] = [None] * len(arguments)
    for begin, number, array, parameter in sorted(
        spans, key=lambda span: (span[0], span[2].nbytes, span[1])
    ):
        last = found[-1] if found else None
        if last and begin < last.begin + last.bytes:
            last.bytes = max(last.bytes, begin + array.nbytes - last.begin)
            last.writable |= not parameter.const
        else:
            last = Region(parameter.name, begin, array.nbytes, np.dtype(parameter.dtype).itemsize,
                          not parameter.const, [])  # fmt: skip
            found.append(last)
        last.arrays.append((begin - last.begin, array))
        places[number] = (len(found) - 1, begin - last.begin)
    offset = 0
    for region in found:
        region.offset = offset
        offset += whole_pages(region.bytes)
    return found, places


@dataclass
class Call:
    """One launch: what the notebook asked for, and where its arrays lie in the other memory."""

    signature: Signature
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int  # bytes of dynamic shared memory of a block
    arguments: list[Argument]
    timeout: float  # s
    regions: list[Region] = field(init=False)
    places: list[tuple[int, int] | None] = field(init=False)  # region, offset in it; or a number

    def __post_init__(self) -> None:
        self.regions, self.places = regions(self.arguments)

    @property
    def pointers(self) -> list[Argument]:
        """The arguments that are arrays."""
        return [a for a in self.arguments if a.parameter.pointer]

    def copy_in(self, memory: np.ndarray) -> None:
        """Copy the arrays to where the worker sees them."""
        for region in self.regions:
            for at, array in region.arrays:
                begin = region.offset + at
                memory[begin : begin + array.nbytes] = array.reshape(-1).view(np.uint8)

    def copy_out(self, memory: np.ndarray) -> None:
        """Copy what the kernel may have written back into the arrays."""
        for region in self.regions:
            for at, array in region.arrays if region.writable else ():
                begin = region.offset + at
                array.reshape(-1).view(np.uint8)[:] = memory[begin : begin + array.nbytes]
