"""From the runs of a claim to an interval, and from the interval to a word.

Runs are paired: at one seed the two sides share everything but the cause, so what counts is the
difference within a pair, and its interval is Student's over the pairs (for a ratio, over the
logarithms). A share has the interval of Clopper and Pearson (1934), which ends at 0 and at 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from helpers.claims.claim import Claim, ClaimError, Share
from helpers.timing import CONFIDENCE, student


@dataclass(frozen=True)
class Judgement:
    """What the runs at one setting say.

    ``effect`` is the mean of ours − rival (or of ours ÷ rival − 1; or the share), in the direction
    in which it was measured, ``low`` and ``high`` its interval at 95 %.
    """

    effect: float
    low: float
    high: float
    word: str  # holds, equal, fails, open


def judge(claim: Claim, runs: Sequence[tuple[float, float]] | Sequence[Share]) -> Judgement:
    """Judge the runs of one setting by the interval at 95 %.

    "holds": the whole interval is on the claimed side of no difference, and the effect is the
    margin at least; "fails": the same on the other side; "equal": the whole interval is within the
    margin; "open": none of these.
    """
    if all(isinstance(run, Share) for run in runs):
        return _judge_share(claim, runs)
    if any(isinstance(run, Share) for run in runs):
        raise ClaimError(f"claim {claim.id!r} expects pairs only or shares only; got {runs!r}")
    pairs = [(float(ours), float(rival)) for ours, rival in runs]
    if not all(math.isfinite(value) for pair in pairs for value in pair):
        raise ClaimError(f"claim {claim.id!r} expects finite numbers; got {pairs}")
    if claim.scale == "ratio":
        if not all(value > 0 for pair in pairs for value in pair):
            raise ClaimError(f"claim {claim.id!r} expects positive numbers; got {pairs}")
        effect, low, high = student([math.log(ours / rival) for ours, rival in pairs])
        margin = math.log1p(claim.margin)
        shown = [_power(value) for value in (effect, low, high)]
    else:
        effect, low, high = shown = student([ours - rival for ours, rival in pairs])
        margin = claim.margin
    if not claim.larger:
        effect, low, high = -effect, -high, -low
    return Judgement(*shown, _word(effect, low, high, margin))


def overall(words: Iterable[str], axis: str) -> str:
    """Return one verdict for all settings: their common word, or ``"depends on AXIS"``.

    Where some decide nothing and the others are equal, no difference was seen: ``"open"``.
    """
    different = set(words)
    if different == {"equal", "open"}:
        return "open"
    return different.pop() if len(different) == 1 else f"depends on {axis}"


def _power(value: float) -> float:
    """A logarithm of a ratio as a part: 0.1 for ten per cent more."""
    return math.expm1(value) if value < 700 else math.inf


def _word(effect: float, low: float, high: float, margin: float) -> str:
    if low > 0 and effect >= margin:
        return "holds"
    if high < 0 and effect <= -margin:
        return "fails"
    if -margin < low and high < margin:
        return "equal"
    return "open"


def _judge_share(claim: Claim, runs: Sequence[Share]) -> Judgement:
    from scipy.stats import binomtest

    if claim.rival_share is None:
        raise ClaimError(f"claim {claim.id!r} counts, and expects a rival_share; got None")
    events, trials = sum(run.events for run in runs), sum(run.trials for run in runs)
    found = binomtest(events, trials).proportion_ci(CONFIDENCE, "exact")
    low, high = float(found.low), float(found.high)
    above, below = low > claim.rival_share, high < claim.rival_share
    held, refuted = (above, below) if claim.larger else (below, above)
    word = "holds" if held else "fails" if refuted else "open"
    return Judgement(events / trials, low, high, word)
