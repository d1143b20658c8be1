"""A conclusion of a notebook, and the experiment that can refute it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PROCESSOR = "depends on the processor"
STATED = ("holds", "equal", "fails", "open", PROCESSOR)


class ClaimError(ValueError):
    """A claim that could not be run or judged; the message names it and says what was expected."""


@dataclass(frozen=True)
class Share:
    """The outcome of a run that counts: in ``events`` of ``trials`` the thing happened."""

    events: int
    trials: int

    def __post_init__(self) -> None:
        if self.trials < 1 or not 0 <= self.events <= self.trials:
            raise ClaimError(f"Share expects 0 <= events <= trials, trials >= 1; got {self!r}")


@dataclass(frozen=True)
class Claim:
    """A sentence of a notebook with the experiment behind it.

    Parameters
    ----------
    experiment : callable
        ``experiment(seed, **setting)`` returns ``(ours, rival)``, two numbers in ``unit`` from runs
        in which only the cause differs; or a :class:`Share`, which is held against ``rival_share``.
    seeds : sequence of int
        One run of the experiment for each, at each setting.
    settings : mapping of str to mapping
        What else varies: a name for each setting, and its keyword arguments. At least two.
    verdict : str
        What the notebook states: "holds", "equal", "fails" (the reverse is so), "open" (these runs
        do not decide), "depends on ..." its axis, or "depends on the processor" where records of
        several say different things: then each machine's answer is right for that machine.
    margin : float
        The least difference that counts: in ``unit``, or for ``scale="ratio"`` as a part (0.1: ten
        per cent).
    ours, rival, unit : str
        Names of the two sides, and the unit of both: "s" or "ms", or a word for what was measured,
        such as "accuracy", which then heads the columns; "1" where the names say it.
    scale : str
        "difference" for accuracies and the like, "ratio" for times and sizes.
    larger : bool
        Whether the sentence says that ours is the larger (False: the smaller).
    axis : str
        What the settings vary, for "depends on AXIS".
    rival_share : float, optional
        For an experiment that counts: the share that the sentence says it is above or below.
    grid : sequence of float
        Learning rates for which each setting is run, as keyword ``rate``: then each side has the
        best of its own. Each seed is judged at the rates that are best for the mean of the others.
    least : bool
        For a grid: whether the best is the least (a loss, steps) or the greatest (an accuracy).
    smallest : mapping
        Keyword arguments that replace a setting's own where only a smallest run is asked for.
    """

    id: str
    sentence: str
    experiment: Callable[..., tuple[float, float] | Share]
    seeds: Sequence[int]
    settings: Mapping[str, Mapping]
    verdict: str
    margin: float
    ours: str
    rival: str
    unit: str
    scale: str = "difference"
    larger: bool = True
    axis: str = "the setting"
    rival_share: float | None = None
    grid: Sequence[float] = ()
    least: bool = True
    smallest: Mapping = field(default_factory=dict)

    def __post_init__(self) -> None:
        def need(holds: bool, name: str, expected: str) -> None:
            if not holds:
                value = getattr(self, name)
                raise ClaimError(f"claim {self.id!r}: {name} expects {expected}; got {value!r}")

        need(
            bool(re.fullmatch(r"[\dA]\d-[a-z0-9-]+", self.id)), "id", "a name such as 03-reset-gate"
        )
        depends = self.verdict == f"depends on {self.axis}"
        words = f"one of {', '.join(STATED)} or 'depends on {self.axis}'"
        need(self.verdict in STATED or depends, "verdict", words)
        need(len(set(self.seeds)) == len(self.seeds) > 1, "seeds", "two different seeds or more")
        enough = not self.grid or min(len(self.grid), len(self.seeds)) >= 5
        need(enough, "grid", "five rates or more, and five seeds or more")
        need(len(self.settings) > 1, "settings", "two settings or more")
        need(self.margin >= 0, "margin", "a number >= 0")
        need(self.scale in ("difference", "ratio"), "scale", "'difference' or 'ratio'")
        inside = self.rival_share is None or 0 <= self.rival_share <= 1
        need(inside, "rival_share", "a share from 0 to 1, or None")

    def agrees(self, found: str) -> bool:
        """Whether what runs on some machine said, ``found``, is what the notebook states."""
        return self.verdict in (found, PROCESSOR)

    @property
    def notebook(self) -> str:
        """The number of its notebook, such as ``"03"``."""
        return self.id[:2]


def with_defaults(**defaults: Any) -> Callable[..., Claim]:
    """Return a maker of claims in which a notebook's habits need not be said again.

    >>> claim = with_defaults(seeds=range(5), unit="s", scale="ratio")
    >>> claim("00-faster", "A beats B.", lambda seed, n: (2.0, 1.0), {"n = 1": {"n": 1},
    ...       "n = 2": {"n": 2}}, "holds", 0.1, "B", "A").unit
    's'
    """

    def claim(
        id: str,
        sentence: str,
        experiment: Callable[..., tuple[float, float] | Share],
        settings: Mapping[str, Mapping],
        verdict: str,
        margin: float,
        ours: str,
        rival: str,
        **more: Any,
    ) -> Claim:
        return Claim(
            id=id, sentence=sentence, experiment=experiment, settings=settings, verdict=verdict,
            margin=margin, ours=ours, rival=rival, **(defaults | more),
        )  # fmt: skip

    return claim
