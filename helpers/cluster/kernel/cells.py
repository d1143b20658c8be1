"""Tab and Shift+Tab in cells that are for the ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from helpers.cluster.rank import remote

if TYPE_CHECKING:
    from helpers.cluster.kernel.calls import Calls

MAGIC = "%%ranks"
# given the code of a cell, who runs it: a cluster and its first rank that does; None: the kernel
Whose = Callable[[str], "tuple[Calls, int] | None"]
_Answer = dict[str, Any]


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


def _runs(whose: Whose, code: str, at: int) -> tuple[Calls, int] | None:
    """Return who runs the line that the cursor is in; the line of the magic is the kernel's."""
    if code.startswith(MAGIC) and "\n" not in code[:at]:
        return None
    return whose(code)


def _without_magic(code: str) -> str:
    """Make a remark of the magic's line; what follows stays where it is."""
    first, end, rest = code.partition("\n")
    return f"#{' ' * (len(first) - 1)}{end}{rest}" if first.startswith(MAGIC) else code
