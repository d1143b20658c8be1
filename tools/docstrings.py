"""Check the docstrings of ``helpers`` (``make lint``): NumPy's sections where readers need them.

Sections may stand on what a notebook uses, on what a library's ``__init__`` lists in ``__all__``
and others use, and on public members of these; not on what a notebook prints with
``inspect.getsource``, where code is to be seen and not parameters. There an entry is for what name
and type hint do not say: a unit, a shape, a default's meaning. Each of these names has a docstring,
and no entry is of a parameter that is not there. Everything else has a sentence.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEFINED = ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
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


def faults(text: str, file: Path) -> list[str]:
    """Return a line for each docstring of a file that is missing, too long or wrong."""
    found = []
    tree, module = ast.parse(text), module_name(file)
    for node in tree.body:
        name = f"{module}.{getattr(node, 'name', '')}"
        if name in exported() and "._" not in name and not ast.get_docstring(node):
            found.append(f"{file}:{node.lineno}: {name}: no docstring")
    for node, name in described(tree, module):
        where = f"{file}:{node.body[0].lineno}: {name}"
        words = ast.get_docstring(node)
        if HEADING.search(words) and not is_exported(name):
            found.append(f"{where}: sections, though no notebook or library uses it")
        if wrong := _entries(words) - _taken(node):
            found.append(f"{where}: no parameter is called {', '.join(sorted(wrong))}")
    return found


def _entries(words: str) -> set[str]:
    """Return the names below the heading Parameters."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?:^\w+\n-+\n|\Z)", words, re.M | re.S)
    entries = re.findall(r"^(\S[^:\n]*)", section[1], re.M) if section else []
    return {name.strip(" *") for entry in entries for name in entry.split(",")}


def _taken(node: ast.AST) -> set[str]:
    """Return the parameters of a function, or those with which a class is made."""
    if isinstance(node, ast.ClassDef):
        made = [each for each in node.body if getattr(each, "name", "") == "__init__"]
        fields = {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
        return fields.union(*map(_taken, made))
    if isinstance(node, DEFINED):
        given = node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        return {each.arg for each in every if each}
    return set()


def described(node: ast.AST, name: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield each module, class and function that has a docstring, with its full name."""
    if isinstance(node, (ast.Module, *DEFINED)) and ast.get_docstring(node, False) is not None:
        yield node, name
    for child in ast.iter_child_nodes(node):
        own = f"{name}.{child.name}" if isinstance(child, DEFINED) else name
        yield from described(child, own)


def _room(module: str) -> str:
    """Return the library that a name is of: ``helpers.plots`` of ``helpers.plots.style.ink``."""
    return ".".join(module.split(".")[:2])


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
    files = sorted((ROOT / "helpers").rglob("*.py"))
    found = [line for file in files for line in faults(file.read_text("utf-8"), file)]
    print("\n".join(found) or "every docstring says what it is to say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
