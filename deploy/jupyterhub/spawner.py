"""The hub's way to start a student's server: as that Unix user, in control groups of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import limits
from jupyterhub.spawner import LocalProcessSpawner


class CourseSpawner(LocalProcessSpawner):
    """JupyterHub's local spawner, whose ``mem_limit`` and ``cpu_limit`` hold.

    They hold for all that the student runs together: server, kernels and ranks. When the server
    ends, whatever it left running is killed.
    """

    _group: limits.Group | None = None

    def group(self) -> limits.Group | None:
        """Return the user's control groups, None where this machine lets nobody make them."""
        if self._group is None and (where := limits.folders()):
            self._group = limits.Group(self.user.name, where)
        return self._group

    def make_preexec_fn(self, name: str) -> Callable[[], None]:
        """Return what the child does first: it enters the groups as root, then is the student."""
        become, group = super().make_preexec_fn(name), self.group()
        if group is None:
            self.log.warning(
                "no control groups can be made here: nothing holds %s to memory %s and %s cores",
                *(name, self.mem_limit, self.cpu_limit),
            )
            return become
        group.limit(self.mem_limit, self.cpu_limit)

        def enter() -> None:
            group.enter()
            become()

        return enter

    async def run_post_stop_hook(self) -> None:
        """End what the server left running; JupyterHub calls this whenever a server has ended."""
        if (group := self.group()) and (left := await asyncio.to_thread(group.end)):
            self.log.warning("processes of %s do not die: %s", self.user.name, left)
        hooked = super().run_post_stop_hook()
        if inspect.isawaitable(hooked):
            await hooked
