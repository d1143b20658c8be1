"""Run a claim: each setting, each seed, and what they say together."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from helpers.claims.claim import Claim, Share
from helpers.claims.verdict import Judgement, judge, overall
from helpers.records import Row


@dataclass(frozen=True)
class Evidence:
    """What was run for a claim: for each setting the runs in the order of the seeds, judged."""

    claim: Claim
    runs: dict[str, list]
    judgements: dict[str, Judgement]
    grids: dict[str, Grid] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """One verdict for all settings."""
        return overall((found.word for found in self.judgements.values()), self.claim.axis)

    def rows(self) -> list[Row]:
        """Return a row of a record for each setting: both sides' means, or a share and its limit.

        The means of a ratio are geometric. Everything else is in ``parameters``.
        """
        return [self._row(setting) for setting in self.claim.settings]

    def _row(self, setting: str) -> Row:
        claim, runs, found = self.claim, self.runs[setting], self.judgements[setting]
        if isinstance(runs[0], Share):
            ours: float = found.effect
            rival = claim.rival_share
            values: list = [[run.events, run.trials] for run in runs]
        else:
            ratios = claim.scale == "ratio"
            mean = statistics.geometric_mean if ratios else statistics.fmean
            ours, rival = (mean(side) for side in zip(*runs, strict=True))
            values = [[float(a), float(b)] for a, b in runs]
        ends = [None if math.isinf(end) else end for end in (found.low, found.high)]
        parameters = {
            "setting": setting,
            "word": found.word,
            "verdict": self.verdict,
            "runs": len(runs),
            "effect": found.effect,
            "interval": ends,
            "margin": claim.margin,
            "scale": claim.scale,
            "ours": claim.ours,
            "seeds": list(claim.seeds),
            "values": values,
            "sentence": claim.sentence,
        }
        if setting in self.grids:
            parameters["grid"] = self.grids[setting].as_dict()
        return Row(claim.id, ours, claim.unit, claim.rival, rival, parameters)


def run(claim: Claim, told: Callable[[str], None] = lambda line: None) -> Evidence:
    """Run a claim over all its settings and seeds, telling each run in a line; judge what came out.

    Seeds are the outer loop, so that a slow change of the machine meets all settings alike.
    """
    runs: dict[tuple, list] = defaultdict(list)
    for seed in claim.seeds:
        for name, setting in claim.settings.items():
            for rate in claim.grid or [None]:
                at = {} if rate is None else {"rate": rate}
                outcome = claim.experiment(seed, **setting, **at)
                runs[name, rate].append(outcome)
                where = ", ".join([name, *(f"rate {rate:g}" for rate in at.values())])
                told(f"{claim.id}, {where}, seed {seed}: {_shown(outcome)}")
    grids = {}
    if claim.grid:
        for name in claim.settings:
            at = [runs[name, rate] for rate in claim.grid]
            ours, rival = ([[pair[side] for pair in pairs] for pairs in at] for side in (0, 1))
            grids[name] = Grid([*claim.grid], ours, rival, claim.least)
    judged = {n: grids[n].at_best() if grids else runs[n, None] for n in claim.settings}
    words = {name: judge(claim, found) for name, found in judged.items()}
    return Evidence(claim, judged, words, grids)


@dataclass(frozen=True)
class Grid:
    """All runs of a setting by rate and seed, for both sides."""

    rates: list[float]
    ours: list[list[float]]  # (rates, seeds)
    rival: list[list[float]]
    least: bool

    @property
    def best(self) -> tuple[int, int]:
        """Which rates are best on the mean of all seeds: for ours, and for the rival."""
        return self._best(self.ours), self._best(self.rival)

    def _best(self, side: list[list[float]], without: int | None = None) -> int:
        sign = 1 if self.least else -1
        kept = [k for k in range(len(side[0])) if k != without]
        return min(
            range(len(side)), key=lambda rate: sign * statistics.fmean(side[rate][k] for k in kept)
        )

    def at_best(self) -> list[tuple[float, float]]:
        """Return each seed's pair at the rates that are best on the mean of the other seeds."""
        seeds = range(len(self.ours[0]))
        return [
            (self.ours[self._best(self.ours, k)][k], self.rival[self._best(self.rival, k)][k])
            for k in seeds
        ]

    def as_dict(self) -> dict:
        """Return what a record keeps."""
        kept = {"rates": self.rates, "ours": self.ours, "rival": self.rival}
        return {**kept, "best": list(self.best)}


def run_smallest(claim: Claim) -> tuple[float, float] | Share:
    """Run the experiment once, at its smallest, and check that its outcome can be judged."""
    setting = {**next(iter(claim.settings.values()))}
    if claim.grid:
        setting["rate"] = claim.grid[0]
    outcome = claim.experiment(claim.seeds[0], **{**setting, **claim.smallest})
    judge(claim, [outcome])
    return outcome


def _shown(outcome: tuple[float, float] | Share) -> str:
    if isinstance(outcome, Share):
        return f"{outcome.events} of {outcome.trials}"
    return " against ".join(f"{value:.4g}" for value in outcome)
