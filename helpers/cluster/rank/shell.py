"""IPython's shell on a rank: cells inside the engine's loop, pages and errors in its words."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tokenize
import warnings
from asyncio import events
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def make_ready() -> Any:
    """Return the shell, for cells that run inside the engine's own loop and leave no history."""
    from IPython import get_ipython

    shell = get_ipython()
    shell.set_hook("show_in_pager", _print_page, 0)  # what ``name?`` explains
    shell.loop_runner = Nested()
    shell.ask_exit = _exit_cell
    warnings.filterwarnings("ignore", "To exit: use")  # IPython's advice on a SystemExit
    shell._tee = lambda channel: contextlib.nullcontext()  # would keep all that is printed
    return shell


class Nested:
    """Runs a cell's coroutine in a loop that lives as long as the rank, and so do its tasks."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def __call__(self, coroutine: Coroutine) -> Any:
        outer = events._get_running_loop()
        events._set_running_loop(None)
        try:
            self._runner = self._runner or asyncio.Runner()
            return self._runner.run(coroutine)
        finally:
            events._set_running_loop(outer)


class CellExit(BaseException):
    """Ends a cell in which somebody wrote ``exit()``: it must not cost all ranks."""


def _exit_cell() -> None:
    raise CellExit


def _print_page(shell: InteractiveShell, data: dict | str, start: int, screen_lines: int) -> None:
    """Print what a notebook would open a pager for: a rank has none."""
    text = data["text/plain"] if isinstance(data, dict) else data
    # the same on all ranks: without the number of this one's process
    print(re.sub(r"/\S*/ipykernel_\d+/\d+\.py", "a cell", text))


class Ours(Exception):  # noqa: N818
    """Carries an error of the reader's code out of ours."""


def ends_in_semicolon(shell: InteractiveShell, source: str) -> bool:
    """Tell whether the reader wants to see no value, as IPython reads a cell's end."""
    try:
        return shell.displayhook.semicolon_at_end_of_expression(source)
    except (tokenize.TokenError, SyntaxError):  # not Python alone, or not Python at all
        return False


def describe(error: BaseException) -> dict:
    """Turn an error into plain data: type, message and a traceback of the reader's frames."""
    if isinstance(error, Ours):
        error = error.args[0]
    if isinstance(error, KeyboardInterrupt):
        return {"status": "interrupted", "ename": "KeyboardInterrupt"}
    from IPython import get_ipython

    tb = error.__traceback__
    while tb is not None and _is_ours(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    make = get_ipython().SyntaxTB if isinstance(error, SyntaxError) else get_ipython().InteractiveTB
    structured = make.structured_traceback(type(error), error, tb)
    text = make.stb2text(structured)
    return {
        "status": "error",
        "ename": type(error).__name__,
        "evalue": _as_mpi_names_it(str(error)),
        # the ranks count their own executions: that number means nothing to the reader
        "traceback": re.sub(
            r"( |\x1b\[[\d;]*m)*In\s?\[\d+\](\x1b\[[\d;]*m)*, line",
            " line",
            _as_mpi_names_it(text),
        ),
    }


def _as_mpi_names_it(text: str) -> str:
    """Name the class of a watched communicator or request as mpi4py's documentation does."""
    return re.sub(r"'Traced(\w+)' object", r"'MPI.\1' object", text).replace(
        "'MPI.Comm' object", "'MPI.Intracomm' object"
    )


def _is_ours(filename: str) -> bool:
    """Tell whether a frame belongs to this package or to IPython's running of cells."""
    return os.path.dirname(filename) == os.path.dirname(__file__) or "/IPython/core/" in filename
