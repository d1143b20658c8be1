"""What a function of the notebook sees on a rank: its variables, before the kernel's."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping


def let_see(thing: object, namespace: Mapping[str, object]) -> None:
    """Let the notebook's functions see ``comm``, ``rank`` and the rank's own variables.

    A name that both the kernel and the rank have means the rank's: a loop over ``rank`` in the
    kernel must not change what ``rank`` is here.

    Parameters
    ----------
    thing : object
        A function or class of the notebook, or a ``functools.partial`` with such parts; anything
        else is left alone.
    namespace : mapping of str to object
        The rank's variables.
    """
    if isinstance(thing, functools.partial):
        for part in (thing.func, *thing.args, *thing.keywords.values()):
            let_see(part, namespace)
    elif getattr(thing, "__module__", None) != "__main__":
        return
    elif isinstance(thing, type):
        for part in vars(thing).values():
            let_see(part, namespace)
    elif isinstance(thing, types.FunctionType):
        for name in _names(thing.__code__):
            if name in namespace:
                thing.__globals__[name] = namespace[name]


def _names(code: types.CodeType) -> set[str]:
    """The global names that a function uses, and those of functions inside of it."""
    inner = (_names(part) for part in code.co_consts if isinstance(part, types.CodeType))
    return set(code.co_names).union(*inner)
