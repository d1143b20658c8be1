"""The arithmetic of a reduction: combine two arrays with an MPI operation, in a given order."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from mpi4py import MPI

# MPI's pair types for MINLOC and MAXLOC: the value's type code and the index's, both as in NumPy.
PAIRS: dict[tuple[str, ...], str] = {
    ("h", "i"): "SHORT_INT",
    ("i", "i"): "TWOINT",
    ("l", "i"): "LONG_INT",
    ("f", "i"): "FLOAT_INT",
    ("d", "i"): "DOUBLE_INT",
    ("g", "i"): "LONG_DOUBLE_INT",
}

# MPI's own operations, by their names there.
OPERATIONS = (
    *("SUM", "PROD", "MAX", "MIN", "LAND", "LOR", "LXOR", "BAND", "BOR", "BXOR"),
    *("MINLOC", "MAXLOC", "REPLACE", "NO_OP"),
)


class Combiner:
    """An operation on arrays of one dtype; call it as ``combine(mine, theirs, theirs_first=True)``.

    ``op`` is predefined or made by ``MPI.Op.Create``; None is ``MPI.SUM``. TypeError if it is no
    operation, or MPI has no such dtype; ValueError if MPI does not define it on the dtype.
    """

    def __init__(self, op: MPI.Op | None, dtype: npt.DTypeLike):
        self.dtype = np.dtype(dtype)
        self.commutes = True
        self._given = op
        self._ufunc = _ufunc(op, self.dtype)
        if self._ufunc is None:
            self._prepare(op)

    def _prepare(self, op: MPI.Op | None) -> None:
        from mpi4py import MPI

        self._op = MPI.SUM if op is None else op
        if not isinstance(self._op, MPI.Op):
            raise TypeError(
                "op must be an mpi4py operation such as MPI.SUM, one made by MPI.Op.Create, "
                f"or None for the sum; got {op!r}"
            )
        if self._op == MPI.OP_NULL:
            raise ValueError("op is MPI.OP_NULL: the operation was freed or never made")
        self.commutes = self._op.Is_commutative()
        self._type = datatype(self.dtype)
        if self._op.is_predefined:
            one = np.zeros(1, self.dtype)
            try:
                self._op.Reduce_local([one, self._type], [one.copy(), self._type])
            except MPI.Exception as error:
                raise ValueError(
                    f"MPI does not define {name(self._op)} for arrays of dtype {self.dtype}"
                ) from error

    @property
    def name(self) -> str:
        """The operation as a program writes it."""
        return "MPI.SUM" if self._given is None else name(self._given)

    def __call__(self, mine: np.ndarray, theirs: np.ndarray, theirs_first: bool = True) -> None:
        """Set ``mine`` to *theirs op mine*, or to *mine op theirs*; both may be overwritten."""
        if self._ufunc is not None:
            self._ufunc(theirs, mine, out=mine)
        elif theirs_first or self.commutes:
            self._op.Reduce_local([theirs, self._type], [mine, self._type])
        else:
            self._op.Reduce_local([mine, self._type], [theirs, self._type])
            mine[...] = theirs


def _ufunc(op: MPI.Op | None, dtype: np.dtype) -> np.ufunc | None:
    """Return NumPy's function for the sum or product of numbers, which runs at memory speed.

    (MPICH 5's own ``Reduce_local`` adds floats at a third of that speed, see `bench/allreduce.py`.)
    """
    if dtype.kind not in "iufc" or not dtype.isnative:
        return None
    if op is None:
        return np.add
    from mpi4py import MPI

    if not isinstance(op, MPI.Op):
        return None
    return np.add if op == MPI.SUM else np.multiply if op == MPI.PROD else None


def datatype(dtype: np.dtype) -> MPI.Datatype:
    """Return MPI's datatype for a dtype of NumPy, not to be freed: TypeError if there is none."""
    from mpi4py import MPI

    if dtype.names is not None:
        return _structured(dtype)
    if dtype.kind not in "biufc" or not dtype.isnative:
        raise TypeError(
            f"MPI has no datatype for arrays of dtype {dtype.str}: use booleans, numbers in this "
            "machine's byte order, or records (value, index) for MPI.MINLOC and MPI.MAXLOC"
        )
    return MPI.Datatype.fromcode(dtype.char)


def _structured(dtype: np.dtype) -> MPI.Datatype:
    from mpi4py import MPI

    fields = [dtype[name] for name in dtype.names or ()]
    named = PAIRS.get(tuple(str(field.char) for field in fields))
    if named is not None:
        pair = getattr(MPI, named)
        if pair.Get_extent()[1] == dtype.itemsize:
            return pair
    return _block(dtype.itemsize)  # as which it reaches a user's operation


@functools.cache
def _block(itemsize: int) -> MPI.Datatype:
    from mpi4py import MPI

    return MPI.BYTE.Create_contiguous(itemsize).Commit()


def name(op: MPI.Op) -> str:
    """Return an operation as a program writes it; mpi4py's own repr is an address."""
    from mpi4py import MPI

    for candidate in OPERATIONS:
        if op == getattr(MPI, candidate):
            return f"MPI.{candidate}"
    function = op.__reduce__()[1][0]
    made_of = getattr(function, "__name__", "an object")
    return f"MPI.Op.Create({made_of}, commute={op.Is_commutative()})"
