"""Which cells are for the ranks (those that say so, or all: ``%autoranks``), and Tab in these."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from helpers.cluster.rank import remote

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from helpers.cluster.kernel.cluster import Cluster

MAGIC = "%%ranks"
HERE = "%%local"
# given the code of a cell, who runs it: a cluster and its first rank that does; None: the kernel
Whose = Callable[[str], "tuple[Cluster, int] | None"]
_Answer = dict[str, Any]


class Cells:
    """Sends cells to the ranks while ``%autoranks`` is on."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self.options: str | None = None  # of every cell; None: only cells that say so

    def transform(self, lines: list[str]) -> list[str]:
        """Put ``%%ranks`` before a cell that is for the ranks; IPython calls this."""
        if lines and lines[0].strip() == HERE:
            return [f"# {HERE}\n", *lines[1:]]  # line numbers stay those that the reader sees
        if self.options is None or is_local(lines) or not self._is_a_readers(lines):
            return lines
        return [f"{MAGIC} --whole {self.options}\n", *lines]

    def asked(self, code: str) -> str | None:
        """Return the options with which a cell goes to the ranks, or None if it does not."""
        lines = code.splitlines(keepends=True)
        if lines and lines[0].split()[:1] == [MAGIC]:
            return lines[0].strip().removeprefix(MAGIC).strip()
        return None if is_local(lines) else self.options

    def _is_a_readers(self, lines: list[str]) -> bool:
        """Tell a cell that the reader runs from what magics and the notebook's own tools run."""
        kernel = getattr(self._shell, "kernel", None)
        asked = kernel.get_parent("shell").get("content", {}) if kernel else {}
        if asked.get("silent") or not asked.get("store_history", True):
            return False
        return str(asked.get("code", "")).rstrip("\n") == "".join(lines).rstrip("\n")


def is_local(lines: list[str]) -> bool:
    """Tell whether a cell, after its comments, begins with a magic or a shell command, or is empty.

    >>> is_local(["# the folder", "!ls"]), is_local(["%%time", "x"]), is_local(["x = %pwd"])
    (True, True, False)
    """
    code = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return not code or code[0].startswith(("%", "!"))


def install(kernel: Any, whose: Whose) -> None:
    """Let a kernel ask the ranks for completions and explanations in cells that are theirs."""
    kernel.do_complete = partial(_complete, type(kernel).do_complete.__get__(kernel), whose)
    kernel.do_inspect = partial(_inspect, type(kernel).do_inspect.__get__(kernel), whose)


def _complete(here: Callable, whose: Whose, code: str, cursor_pos: int | None) -> _Answer:
    at = len(code) if cursor_pos is None else cursor_pos
    ranks = _runs(whose, code, at)
    if ranks is None:
        return here(code, cursor_pos)
    answer = ranks[0].ask(remote.complete, _without_magic(code), at, rank=ranks[1])
    nothing = {"matches": [], "cursor_start": at, "cursor_end": at, "metadata": {}, "status": "ok"}
    return answer or nothing  # the kernel's own names would be wrong ones


def _inspect(
    here: Callable,
    whose: Whose,
    code: str,
    cursor_pos: int,
    detail_level: int = 0,
    omit_sections: Any = (),
) -> _Answer:
    ranks = _runs(whose, code, cursor_pos)
    if ranks is not None:
        asked = _without_magic(code), cursor_pos, detail_level, tuple(omit_sections)
        answer = ranks[0].ask(remote.inspect, *asked, rank=ranks[1])
        return answer or {"status": "ok", "found": False, "data": {}, "metadata": {}}
    return here(code, cursor_pos, detail_level, omit_sections)


def _runs(whose: Whose, code: str, at: int) -> tuple[Cluster, int] | None:
    """Return who runs the line that the cursor is in; the line of the magic is the kernel's."""
    if code.startswith(MAGIC) and "\n" not in code[:at]:
        return None
    return whose(code)


def _without_magic(code: str) -> str:
    """Make a remark of the magic's line; what follows stays where it is."""
    first, end, rest = code.partition("\n")
    return f"#{' ' * (len(first) - 1)}{end}{rest}" if first.startswith(MAGIC) else code
