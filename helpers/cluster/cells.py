"""Which cells are for the ranks: those that say so, or all (``%autoranks``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

MAGIC = "%%ranks"
HERE = "%%local"


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
