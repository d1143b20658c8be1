"""A model's layers on several ranks, and micro-batches through them.

Who does what when is data, a `Schedule`: `check` finds what is wrong with it before it runs,
`simulate` says how long it takes, a `Pipeline` executes it on real ranks.

    schedule = families.one_f_one_b(ranks=4, micro=8)
    check(schedule)
    pipeline = Pipeline(comm, schedule, modules, loss)
    result = pipeline.step(inputs, targets)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.pipeline.model import Costs, simulate
    from helpers.pipeline.runner import Pipeline
    from helpers.pipeline.schedule import Action, Schedule, ScheduleError, check

__all__ = ["Action", "Costs", "Pipeline", "Schedule", "ScheduleError", "check", "simulate"]


def __getattr__(name: str) -> object:
    """Import a name when it is asked for: the runner needs torch, a schedule does not."""
    if name in __all__:
        for home in ("schedule", "model", "runner"):
            found = vars(importlib.import_module(f"{__name__}.{home}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
