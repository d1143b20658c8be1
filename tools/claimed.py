"""Whether a notebook's cells, its claims and their record agree (asked when it is built)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import claims
from helpers.claims.claim import Claim, ClaimError
from helpers.claims.recorded import FOLDER, evidence


def faults(
    topic: str,
    named: Collection[str],
    known: Mapping[str, Claim] | None = None,
    folder: Path = FOLDER,
) -> list[str]:
    """Return a sentence for each disagreement of notebook ``topic``.

    ``named`` are the claims that its cells name; ``known`` those of ``claims/TOPIC.py``, unless
    given. A name must have a claim, a claim a cell, and the record the verdict that it states.
    """
    if known is None:
        known = claims.of(topic) if topic in claims.topics() else {}
    found = [
        f"a cell names claim {name!r}, which claims/{topic}.py lacks"
        for name in named
        if name not in known
    ]
    for name, claim in known.items():
        if name not in named:
            found.append(f"no cell names claim {name!r} of claims/{topic}.py")
        try:
            measured = evidence(name, folder).verdict
        except ClaimError as error:
            found.append(str(error))
            continue
        if measured != claim.verdict:
            found.append(f"claim {name!r} states {claim.verdict!r}, its record says {measured!r}")
    return found
