"""What the notebook calls on a rank, by name: the kernel imports this, and never MPI."""

from __future__ import annotations

from collections.abc import Callable

from helpers.waiting import at_most

ANSWER_SECONDS = 0.8  # what a reader waits for names


def side(deed: str, *args: object) -> dict:
    """Have this rank's RankSide do something: ``hello``, ``clock``, ``execute`` or ``call``."""
    from ipyparallel.engine.app import IPEngine

    return getattr(IPEngine.instance().side, deed)(*args)


def complete(code: str, cursor: int) -> dict:
    """Reply to Tab as a kernel does; empty if that takes too long."""
    from IPython import get_ipython

    shell = get_ipython()
    shell.Completer.use_jedi = False  # takes a second to load; the names can be looked at
    return _soon(lambda: shell.kernel.do_complete(code, cursor))


def inspect(code: str, cursor: int, detail: int, omitted: tuple[str, ...]) -> dict:
    """Reply to Shift+Tab as a kernel does; empty if that takes too long."""
    from IPython import get_ipython

    return _soon(lambda: get_ipython().kernel.do_inspect(code, cursor, detail, omitted))


def _soon(work: Callable[[], dict]) -> dict:
    """Return what there is within the time that somebody waits for it, who runs cells here."""
    try:
        with at_most(ANSWER_SECONDS, TimeoutError):
            return work()
    except TimeoutError:
        return {}
