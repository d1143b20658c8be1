"""What each notebook concludes, as experiments: one module ``NN_topic.py`` for each notebook."""

from __future__ import annotations

import importlib
from pathlib import Path

from helpers.claims.claim import Claim, ClaimError

FOLDER = Path(__file__).resolve().parent


def topics(folder: Path = FOLDER) -> list[str]:
    """Return the notebooks that have claims, by name and in order."""
    return sorted(path.stem for path in folder.glob("[0-9A][0-9]_*.py"))


def of(topic: str) -> dict[str, Claim]:
    """Return the claims of one notebook by identifier.

    Raises ClaimError for a claim of another notebook, or an identifier that comes twice.
    """
    found: dict[str, Claim] = {}
    for claim in importlib.import_module(f"claims.{topic}").CLAIMS:
        if claim.notebook != topic[:2] or claim.id in found:
            raise ClaimError(
                f"claims/{topic}.py expects names of its own, {topic[:2]}-..., each once; "
                f"got {claim.id!r}"
            )
        found[claim.id] = claim
    return found
