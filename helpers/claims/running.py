"""Run a claim: each setting, each seed, and what they say together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from helpers.claims.claim import Claim, Share
from helpers.claims.verdict import Judgement, judge, overall
from helpers.records import Row


@dataclass(frozen=True)
class Evidence:
    """What was run for a claim: for each setting the runs in the order of the seeds, judged."""

    claim: Claim
    runs: dict[str, list]
    judgements: dict[str, Judgement]

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
        return Row(claim.id, ours, claim.unit, claim.rival, rival, parameters)


def run(claim: Claim, told: Callable[[str], None] = lambda line: None) -> Evidence:
    """Run a claim over all its settings and seeds, telling each run in a line; judge what came out.

    Seeds are the outer loop, so that a slow change of the machine meets all settings alike.
    """
    runs: dict[str, list] = {name: [] for name in claim.settings}
    for seed in claim.seeds:
        for name, setting in claim.settings.items():
            outcome = claim.experiment(seed, **setting)
            runs[name].append(outcome)
            told(f"{claim.id}, {name}, seed {seed}: {_shown(outcome)}")
    return Evidence(claim, runs, {name: judge(claim, found) for name, found in runs.items()})


def run_smallest(claim: Claim) -> tuple[float, float] | Share:
    """Run the experiment once, at its smallest, and check that its outcome can be judged."""
    setting = next(iter(claim.settings.values()))
    outcome = claim.experiment(claim.seeds[0], **{**setting, **claim.smallest})
    judge(claim, [outcome])
    return outcome


def _shown(outcome: tuple[float, float] | Share) -> str:
    if isinstance(outcome, Share):
        return f"{outcome.events} of {outcome.trials}"
    return " against ".join(f"{value:.4g}" for value in outcome)
