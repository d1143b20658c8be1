"""``%%cuda``: a cell of CUDA C, compiled; its kernels become names of the notebook."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from helpers.cuda.errors import CudaError
from helpers.cuda.module import Module

USAGE = """%%cuda [NAME] [--device auto|cpu|gpu] [--no-check] [--timeout S] [-D NAME=VALUE ...]

Compiles the cell. Its module is NAME (default: cuda_module), each kernel a variable of its own:
    vector_add[grid, block](a, b, c, n)
Accesses are checked on the CPU unless --no-check or --device gpu is given."""


def parse(line: str) -> dict[str, Any]:
    """Read the magic's options."""
    options: dict[str, Any] = {
        "name": "cuda_module",
        "device": "auto",
        "check": True,
        "defines": {},
    }
    words = iter(shlex.split(line))
    for word in words:
        if word == "--device":
            options["device"] = _value(words, word)
            options["check"] &= options["device"] != "gpu"
        elif word == "--no-check":
            options["check"] = False
        elif word == "--timeout":
            try:
                options["timeout"] = float(text := _value(words, word))
            except ValueError:
                raise CudaError(f"--timeout expects seconds; got {text!r}\n\n{USAGE}") from None
        elif word.startswith("-D"):
            name, _, value = (word[2:] or _value(words, word)).partition("=")
            options["defines"][name] = value or "1"
        elif word.isidentifier():
            options["name"] = word
        else:
            raise CudaError(f"%%cuda does not know {word!r}\n\n{USAGE}")
    return options


def _value(words: Iterator[str], option: str) -> str:
    try:
        return next(words)
    except StopIteration:
        raise CudaError(f"{option} expects a value\n\n{USAGE}") from None


def cuda(line: str, cell: str, namespace: dict) -> Module:
    """Compile a cell and put its module and kernels into a namespace, for others of these names."""
    options = parse(line)
    name = options.pop("name")
    module = Module(cell, name="cell", **options)
    clash = [k for k in module.signatures if k == name]
    if clash:
        raise CudaError(f"{name!r} is a kernel of this cell; give the module another name")
    old = namespace.get(name)
    namespace[name] = module
    namespace.update({kernel: module[kernel] for kernel in module})
    if isinstance(old, Module):
        old.close()  # the cell was run again: its worker is not needed any more
    return module


def register(ipython: Any) -> None:
    """Register ``%%cuda``."""

    told: set[str] = set()  # what holds for every cell is said below the first

    def magic(line: str, cell: str) -> None:
        module = cuda(line, cell, ipython.user_ns)
        note = module.note if module.note not in told else ""
        told.add(note)
        print("\n".join([_summary(module), *([note] if note else [])]))

    ipython.register_magic_function(magic, "cell", "cuda")


def _summary(module: Module) -> str:
    kernels = []
    for name, signature in module.signatures.items():
        used = module.resources.get(name)
        size = f"  [{used.registers} registers, {used.shared} bytes shared]" if used else ""
        kernels.append(f"{signature}{size}")
    for name, parameters in module.templates.items():
        kernels.append(f"{name}<{', '.join(parameters)}>  [a template: compiled when asked for]")
    where = "the GPU" if module.device == "gpu" else "this CPU, every access checked"
    if module.device == "cpu" and not module.check:
        where = "this CPU, unchecked"
    return "\n".join([f"compiled for {where}:", *kernels])
