"""What a notebook concludes: an experiment over seeds and settings, and the record of its runs.

- ``claim``: a sentence with its experiment, its seeds, its settings, and the verdict it states
- ``experiments``: two calls timed in turns, an experiment in a process of its own; ``ranks``
- ``verdict``: from the two sides of each run to an interval and a word
- ``running``: run a claim, or only its smallest case
- ``recorded``: the newest record of each processor, as tables for a notebook

The experiments themselves stand in the folder ``claims``, one module for each notebook.
"""

from helpers.claims.claim import PROCESSOR, Claim, Share, with_defaults
from helpers.claims.experiments import apart, in_turn
from helpers.claims.recorded import evidence

__all__ = ["PROCESSOR", "Claim", "Share", "apart", "evidence", "in_turn", "with_defaults"]
