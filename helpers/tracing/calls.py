"""What takes the place of mpi4py's methods of a communicator, so that they are watched.

mpi4py has some 150 calls of a few shapes. A shape is what a call says about its peer (a send names
a destination, a receive a source, a collective a root or nobody) and what becomes of its result.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator

from helpers.tracing import collective, exchange, point_to_point
from helpers.tracing.point_to_point import Method


def wrappers(plain: type) -> Iterator[tuple[str, Method]]:
    """Make what takes the place of each watched method of a communicator class.

    Parameters
    ----------
    plain : type
        One of mpi4py's communicator classes.

    Yields
    ------
    name : str
        MPI's name, as far as the class has it.
    method : callable
        With mpi4py's signature and documentation.
    """
    for names, make in (*point_to_point.TABLE, *exchange.TABLE, *collective.TABLE):
        for name in names.split():
            if hasattr(plain, name):
                yield name, _dressed(name, getattr(plain, name), make)


def _dressed(name: str, plain: Method, make: Callable[[str, Method], Method]) -> Method:
    """Give a watched method mpi4py's defaults, name and documentation."""
    made = make(name, plain)
    parameters = inspect.signature(plain).parameters.values()
    made.__defaults__ = tuple(p.default for p in parameters if p.default is not p.empty)
    # In a stack that another process dumps, the name of the code is all that tells the MPI call.
    made.__code__ = made.__code__.replace(co_name=name, co_filename=f"<traced {name}>")
    return functools.wraps(plain)(made)
