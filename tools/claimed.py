"""Whether a notebook's cells, its claims and their record agree (asked when it is built)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import claims
from helpers.claims.claim import Claim
from helpers.claims.recorded import recorded
from helpers.paths import CLAIM_RECORDS


def faults(
    topic: str,
    named: Collection[str],
    known: Mapping[str, Claim] | None = None,
    folder: Path = CLAIM_RECORDS,
) -> list[str]:
    """Return a sentence for each disagreement of notebook ``topic``.

    ``named`` are the claims that its cells name; ``known`` those of ``claims/TOPIC.py``, unless
    given. A name must have a claim, a claim a cell, and the newest records of all processors
    together the verdict that it states.
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
        elif (said := measured[name]).verdict != claim.verdict:
            each = "; ".join(f"{one.processor}: {one.here}" for one in said.by_processor)
            found.append(
                f"claim {name!r} states {claim.verdict!r}, "
                f"its record says {said.verdict!r} ({each})"
            )
    return found
