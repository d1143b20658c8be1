"""Check the public docstrings of the libraries (``make lint``): NumPy's form, nothing left out.

The pages of the site are made from them. numpydoc looks at each public class, function, method and
property: is it described, each of its parameters and its result, and no name that it does not have?
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator

import mpi4py
from numpydoc.validate import validate

mpi4py.rc.initialize = False  # some modules are for ranks; to look at them starts nothing

LIBRARIES = (
    *("cluster", "tracing", "torch_mpi", "cuda"),
    *("collectives", "data_parallel", "autodiff", "pipeline"),
)
CHECKS = {"GL08", "PR01", "PR02", "PR03", "RT01", "YD01"}


def public(package: str) -> Iterator[str]:
    """Yield the full name of everything public that the modules of a package define."""
    root = importlib.import_module(package)
    found = pkgutil.walk_packages(root.__path__, f"{package}.")
    modules = [package, *(each.name for each in found if not each.name.endswith("__main__"))]
    for name in modules:
        module = importlib.import_module(name)
        for key, value in vars(module).items():
            own = getattr(value, "__module__", None) == name
            if key.startswith("_") or not own:
                continue
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            if inspect.isfunction(value) or _has_parameters(value):
                yield f"{name}.{key}"
            if inspect.isclass(value):
                for member, kind in vars(value).items():
                    described = inspect.isfunction(kind) or isinstance(
                        kind, (property, classmethod, staticmethod)
                    )
                    inherited = any(hasattr(base, member) for base in value.__mro__[1:])
                    inherited |= hasattr(kind, "parser")  # a magic, whose help is its docstring
                    if not member.startswith("_") and described and not inherited:
                        yield f"{name}.{key}.{member}"


def faults(names: Iterator[str]) -> list[str]:
    """Return a line for each fault of the docstrings of these objects."""
    found = []
    for name in names:
        result = validate(name)
        if result["file"] is None:  # a wrapper made at run time, with its original's docstring
            continue
        for code, words in result["errors"]:
            if code == "RT01" and not _takes_anything(name):
                continue  # its summary, "Return ...", says all
            if code in CHECKS:
                found.append(f"{result['file']}:{result['file_line']}: {name}: {code} {words}")
    return found


def _has_parameters(value: type) -> bool:
    """Whether a class is called with what its own docstring must describe."""
    if getattr(value, "_is_protocol", False):  # nobody calls a protocol
        return False
    return "__init__" in vars(value)


def _takes_anything(name: str) -> bool:
    """Whether a function has parameters besides ``self``."""
    try:
        given = list(inspect.signature(pkgutil.resolve_name(name)).parameters)
    except (TypeError, ValueError):  # a property
        return False
    return bool([each for each in given if each not in ("self", "cls")])


def main() -> int:
    """Print every fault of every library; 1 if there is one."""
    found = [line for name in LIBRARIES for line in faults(public(f"helpers.{name}"))]
    print("\n".join(found) or "every public docstring of the libraries is complete")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
