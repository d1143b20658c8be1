"""Check the docstrings of ``helpers`` (``make lint``): NumPy's sections where readers need them.

Sections may stand on what a notebook uses, on what a library's ``__init__`` lists in ``__all__``
and others use, and on public members of these; not on what a notebook prints with
``inspect.getsource``, where code is to be seen and not parameters. There an entry is for what name
and type hint do not say: a unit, a shape, a default's meaning. numpydoc looks that each of these
names has a docstring, which names no parameter that is not there. Everything else has a sentence.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARIES = (
    *("cluster", "tracing", "torch_mpi", "cuda"),
    *("collectives", "data_parallel", "autodiff", "pipeline"),
)
CHECKS = {"GL08", "PR02", "PR03"}
HEADING = re.compile(r"^\s*-{3,}\s*$", re.MULTILINE)


def is_exported(name: str) -> bool:
    """Tell whether a name is exported, alone or as a public member of what is."""
    above, _, own = name.rpartition(".")
    if name in printed():
        return False
    return name in exported() or (above in exported() and not own.startswith("_"))


@cache
def exported() -> frozenset[str]:
    """Return the full name, where it is defined, of what notebooks use, or is listed and used."""
    rooms = defaultdict(set)  # who uses a name
    for file in (*(ROOT / "helpers").rglob("*.py"), *(ROOT / "claims").rglob("*.py")):
        for name in _used(_tree(file)):
            rooms[_home(name)].add(_room(module_name(file)))
    found = set()
    for init in (ROOT / "helpers").rglob("__init__.py"):
        listed = {_home(f"{module_name(init)}.{name}") for name in _listed(init)}
        found |= {name for name in listed if rooms[name] - {_room(name)}}
    for notebook in sorted((ROOT / "notebooks/source").glob("*.py")):
        found |= {_home(name) for name in _used(_tree(notebook))}
    return frozenset(found)


@cache
def printed() -> frozenset[str]:
    """Return the full names of what notebooks print with ``inspect.getsource``."""
    found = set()
    for notebook in sorted((ROOT / "notebooks/source").glob("*.py")):
        tree = _tree(notebook)
        homes = {alias: f"{module}.{name}" for module, name, alias in _imports(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "inspect.getsource":
                first, *rest = ast.unparse(node.args[0]).split(".")
                home = homes.get(first, first)
                if _file(home) and rest:
                    found.add(f"{_home(f'{home}.{rest.pop(0)}')}{''.join(f'.{r}' for r in rest)}")
                else:
                    found.add(".".join([_home(home), *rest]))
    return frozenset(found)


def public(package: str) -> Iterator[str]:
    """Yield the full name of everything exported that the modules of a package define."""
    root = importlib.import_module(package)
    found = pkgutil.walk_packages(root.__path__, f"{package}.")
    modules = [package, *(each.name for each in found if not each.name.endswith("__main__"))]
    for name in modules:
        module = importlib.import_module(name)
        for key, value in vars(module).items():
            own = getattr(value, "__module__", None) == name
            if key.startswith("_") or not own or not is_exported(f"{name}.{key}"):
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
                    if is_exported(f"{name}.{key}.{member}") and described and not inherited:
                        yield f"{name}.{key}.{member}"


def faults(names: Iterator[str]) -> list[str]:
    """Return a line for each fault of the docstrings of these objects."""
    from numpydoc.validate import validate

    found = []
    for name in names:
        result = validate(name)
        if result["file"] is None:  # a wrapper made at run time, with its original's docstring
            continue
        for code, words in result["errors"]:
            if code in CHECKS:
                found.append(f"{result['file']}:{result['file_line']}: {name}: {code} {words}")
    return found


def inner(text: str, file: Path) -> list[str]:
    """Return a line for each docstring of a file that has sections where none belong."""
    found = []
    for node, name in described(ast.parse(text), module_name(file)):
        if HEADING.search(ast.get_docstring(node, clean=False)) and not is_exported(name):
            line = node.body[0].lineno
            found.append(f"{file}:{line}: {name}: sections, though no notebook or library uses it")
    return found


def described(tree: ast.Module, module: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield each module, class and function that has a docstring, with its full name."""
    if ast.get_docstring(tree, clean=False) is not None:
        yield tree, module
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from described(node, f"{module}.{node.name}")
        elif not isinstance(node, ast.expr):
            yield from _nested(node, module)


def _nested(node: ast.AST, module: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield what is defined below a statement, such as an ``if``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from described(child, f"{module}.{child.name}")
        elif isinstance(child, ast.stmt):
            yield from _nested(child, module)


def _room(module: str) -> str:
    """Return the library that a name is of: ``helpers.plots`` of ``helpers.plots.style.ink``."""
    return ".".join(module.split(".")[:2])


def _has_parameters(value: type) -> bool:
    """Whether a class is called with what its own docstring must describe."""
    if getattr(value, "_is_protocol", False):  # nobody calls a protocol
        return False
    return "__init__" in vars(value)


def _listed(init: Path) -> list[str]:
    """Return what an ``__init__`` lists in ``__all__``."""
    for node in _tree(init).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [each.value for each in node.value.elts if isinstance(each, ast.Constant)]
    return []


def _used(tree: ast.Module) -> Iterator[str]:
    """Yield what a notebook imports from ``helpers``, and what it reads of imported modules."""
    modules = {}
    for module, name, alias in _imports(tree):
        if _file(f"{module}.{name}"):
            modules[alias] = f"{module}.{name}"
        else:
            yield f"{module}.{name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (above := ast.unparse(node.value)) in modules:
            yield f"{modules[above]}.{node.attr}"


def _home(name: str) -> str:
    """Follow a name through the imports of modules to the module that defines it."""
    module, _, own = name.rpartition(".")
    file = _file(module)
    if not file:
        return name
    for source, given, alias in _imports(_tree(file)):
        if alias == own and f"{source}.{given}" != name:
            return _home(f"{source}.{given}")
    return name


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def _imports(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Yield (module, name, name here) of each ``from helpers... import``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "helpers":
            yield from ((node.module, each.name, each.asname or each.name) for each in node.names)


def _file(module: str) -> Path | None:
    """Return the file of a module, if this is one."""
    path = ROOT / module.replace(".", "/")
    return next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.exists()), None)


def module_name(file: Path) -> str:
    """Return a module's full name."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def main() -> int:
    """Print every fault of every library; 1 if there is one."""
    import mpi4py

    mpi4py.rc.initialize = False  # some modules are for ranks; to look at them starts nothing
    found = [line for name in LIBRARIES for line in faults(public(f"helpers.{name}"))]
    for file in sorted((ROOT / "helpers").rglob("*.py")):
        found += inner(file.read_text("utf-8"), file)
    print("\n".join(found) or "every docstring says what it is to say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
