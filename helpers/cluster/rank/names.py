"""What a function sees on a rank: the rank's variables, before the kernel's."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator, Mapping

OWN = ("MPI", "comm", "rank", "size")  # names that every rank has


def let_see(thing: object, namespace: Mapping[str, object], *, modules: bool = True) -> None:
    """Let the notebook's functions see ``comm``, ``rank`` and the rank's own variables.

    A name that both the kernel and the rank have means the rank's: a loop over ``rank`` in the
    kernel must not change what ``rank`` is here. A function of a module sees ``MPI``, ``comm``,
    ``rank`` and ``size`` where its module has nothing of that name.
    """
    for function in _functions_of(thing, modules):
        seen = function.__globals__
        if function.__module__ == "__main__":
            seen.update({n: namespace[n] for n in _global_names(function) if n in namespace})
        else:
            own = _global_names(function).intersection(OWN) - seen.keys()
            seen.update({name: namespace[name] for name in own if name in namespace})


def hidden(thing: object) -> list[str]:
    """Return a sentence for each number or text of the notebook's that a rank's own name hides."""
    found = {
        name: function.__globals__[name]
        for function in _functions_of(thing, modules=False)
        for name in _global_names(function).intersection(OWN) & function.__globals__.keys()
        if isinstance(function.__globals__[name], int | float | str)
    }
    return [
        f"{name} on a rank is the rank's own, not the notebook's {value!r}: hand that over under "
        "another name."
        for name, value in found.items()
    ]


def _functions_of(thing: object, modules: bool) -> Iterator[types.FunctionType]:
    """Find the Python functions of which a thing to call is made, each once."""
    seen: set[int] = set()
    ahead = [thing]
    while ahead:
        one = ahead.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, functools.partial):
            ahead += [one.func, *one.args, *one.keywords.values()]
        elif isinstance(one, types.MethodType):
            owner = one.__self__
            ahead += [one.__func__, owner if isinstance(owner, type) else type(owner)]
        elif not modules and getattr(one, "__module__", None) != "__main__":
            continue
        elif isinstance(one, type):
            if one.__module__ != "builtins":
                ahead += [getattr(part, "__func__", part) for part in vars(one).values()]
        elif isinstance(one, types.FunctionType):
            yield one
            ahead += [cell.cell_contents for cell in one.__closure__ or () if _is_full(cell)]
        elif callable(one):
            ahead.append(type(one))


def _is_full(cell: types.CellType) -> bool:
    try:
        return callable(cell.cell_contents)
    except ValueError:  # a name that is not bound yet
        return False


def _global_names(function: types.FunctionType) -> set[str]:
    """Return the global names that a function reads, and those of functions inside of it."""
    return _read(function.__code__)


def _read(code: types.CodeType) -> set[str]:
    inner = [_read(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    own = {
        str(step.argval)
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL")
    }
    return own.union(*inner)
