"""``%%cuda``: a cell of CUDA C, compiled; its kernels become names of the notebook."""

from __future__ import annotations

from typing import NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from helpers.cuda import source
from helpers.cuda.errors import CompileError
from helpers.cuda.module import TIMEOUT, Module


@magics_class
class CudaMagics(Magics):
    """The cell magic ``%%cuda``."""

    _told = ""  # what holds for every cell is said below the first

    @magic_arguments()
    @argument("name", nargs="?", default="cuda_module", help="a variable for the cell's module")
    @argument("--device", choices=("auto", "cpu", "gpu"), default="auto", help="what runs kernels")
    @argument("--no-check", action="store_true", help="do not check accesses on the CPU")
    @argument("--timeout", type=float, default=TIMEOUT, help="a kernel's time limit in seconds")
    @argument("-D", action="append", default=[], metavar="NAME=VALUE", help="define a macro")
    @cell_magic
    def cuda(self, line: str, cell: str) -> None:
        """Compile the cell; each kernel becomes a variable: vector_add[grid, block](a, b, c, n)."""
        options = parse_argstring(self.cuda, line)
        if not options.name.isidentifier():
            raise UsageError(f"%%cuda {line}: expected a name for a variable, got {options.name!r}")
        pairs = (each.partition("=") for each in options.D)
        assert self.shell is not None
        names = self.shell.user_ns
        try:
            module = Module(
                f"\n{cell}",  # for the line of %%cuda, so that lines are those of the cell
                {macro: value or "1" for macro, _, value in pairs},
                options.device,
                name="cell",
                check=options.device != "gpu" and not options.no_check,
                timeout=options.timeout,
            )
        except CompileError as error:  # or the kernel of an earlier run would pass for this one
            names.update(dict.fromkeys(source.names(cell), Uncompiled(error)))
            raise
        if options.name in module.signatures:
            raise UsageError(
                f"{options.name!r} is a kernel of this cell; give the module another name"
            )
        if isinstance(old := names.get(options.name), Module):
            old.close()  # the cell was run again: its worker is not needed any more
        names.update({options.name: module, **{kernel: module[kernel] for kernel in module}})
        print(_summary(module) + (f"\n{module.note}" if module.note not in self._told else ""))
        self._told += module.note


class Uncompiled:
    """What a cell that does not compile leaves under its kernels' names: a launch says why."""

    def __init__(self, error: CompileError) -> None:
        self.error = error

    def __getitem__(self, _: object) -> NoReturn:
        raise self.error


def _summary(module: Module) -> str:
    kernels = []
    for name, signature in module.signatures.items():
        used = module.resources.get(name)
        size = (
            f"  [on a GPU: {used.registers} registers, {used.shared} bytes shared]" if used else ""
        )
        kernels.append(f"{signature}{size}")
    for name, parameters in module.templates.items():
        kernels.append(f"{name}<{', '.join(parameters)}>  [a template: compiled when asked for]")
    where = "the GPU" if module.device == "gpu" else "this CPU, every access checked"
    if module.device == "cpu" and not module.check:
        where = "this CPU, unchecked"
    return "\n".join([f"compiled for {where}:", *kernels])
