"""``await`` in a cell on a rank, whose engine runs the cell inside an event loop of its own."""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Coroutine
from typing import Any


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
