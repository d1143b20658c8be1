"""The arithmetic of a reduction: combine two arrays with an MPI operation, in a given order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from mpi4py import MPI

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
        self.commutes = True
        self._given = op
        dtype = np.dtype(dtype)
        self._ufunc = _ufunc(op, dtype)
        if self._ufunc is None:
            self._prepare(op, dtype)

    def _prepare(self, op: MPI.Op | None, dtype: np.dtype) -> None:
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
        if dtype.kind not in "biufc" or not dtype.isnative:
            raise TypeError(
                f"MPI has no datatype for arrays of dtype {dtype.str}: use booleans, or numbers in "
                "this machine's byte order"
            )
        self._type = MPI.Datatype.fromcode(dtype.char)
        if self._op.is_predefined:
            one = np.zeros(1, dtype)
            try:
                self._op.Reduce_local([one, self._type], [one.copy(), self._type])
            except MPI.Exception as error:
                raise ValueError(
                    f"MPI does not define {name(self._op)} for arrays of dtype {dtype}"
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


def name(op: MPI.Op) -> str:
    """Return an operation as a program writes it; mpi4py's own repr is an address."""
    from mpi4py import MPI

    for candidate in OPERATIONS:
        if op == getattr(MPI, candidate):
            return f"MPI.{candidate}"
    function = op.__reduce__()[1][0]
    made_of = getattr(function, "__name__", "an object")
    return f"MPI.Op.Create({made_of}, commute={op.Is_commutative()})"
