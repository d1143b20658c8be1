"""Whether a notebook's cells, its claims and their record agree (asked when it is built)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import claims
from helpers.claims.claim import PROCESSOR, Claim
from helpers.claims.recorded import Recorded, recorded
from helpers.paths import CLAIM_RECORDS


def faults(
    topic: str,
    named: Collection[str],
    known: Mapping[str, Claim] | None = None,
    folder: Path = CLAIM_RECORDS,
) -> list[str]:
    """Return a sentence for each disagreement of notebook ``topic``.

    ``named`` are the claims that its cells name; ``known`` those of ``claims/TOPIC.py``, unless
    given. A name must have a claim, a claim a cell, and the newest record of each processor the
    verdict that it states; of one that depends on the processor, records must differ.
    """
    if known is None:
        known = claims.of(topic) if topic in claims.topics() else {}
    found = [
        f"a cell names claim {name!r}, which claims/{topic}.py lacks"
        for name in named
        if name not in known
    ]
    measured = recorded(folder) if known else {}
    for name, claim in known.items():
        if name not in named:
            found.append(f"no cell names claim {name!r} of claims/{topic}.py")
        if name not in measured:
            command = f"make claims NB={topic[:2]}"
            found.append(f"no record in {folder} holds claim {name!r}: `{command}` makes it")
        else:
            found += _disagreements(claim, measured[name])
    return found


def _disagreements(claim: Claim, measured: Recorded) -> list[str]:
    if claim.verdict == PROCESSOR:
        if measured.verdict == PROCESSOR:
            return []
        where = ", ".join(one.processor for one in measured.by_processor)
        return [f"claim {claim.id!r} states {PROCESSOR!r}, all its records say the same ({where})"]
    found = [
        f"claim {claim.id!r} states {claim.verdict!r}, its record on {one.processor} says "
        f"{one.here!r}"
        for one in measured.by_processor
        if one.here != claim.verdict
    ]
    if not found and measured.verdict == PROCESSOR:
        found = [f"claim {claim.id!r} states {claim.verdict!r}, a setting of it {PROCESSOR}"]
    return found
