"""Accuracy on the long copy with gates and without, by learning rate and number of steps.

Every cell of the map is trained with the same five seeds, batches and test sets. Which of two
networks is ahead depends on the rate and on the start of each; the map shows where.

python -m bench gates
"""

from __future__ import annotations

from helpers.records import Row

SUITE = "gates"
RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
BUDGETS = (120, 360)


def rows(
    rates: tuple[float, ...] = RATES, budgets: tuple[int, ...] = BUDGETS, seeds: int = 5
) -> list[Row]:
    """Return each variant's accuracy at each rate and budget; ``each`` holds the seeds'."""
    import torch

    from helpers.recurrent.experiments import VARIANTS, comparisons

    torch.set_num_threads(1)
    task = comparisons()["long copy"]
    found = []
    for steps in budgets:
        for rate in rates:
            for variant in VARIANTS:
                scores = task.run(variant, seeds=seeds, steps=steps, rate=rate)
                parameters = {"steps": steps, "rate": rate, "each": list(scores.values)}
                found.append(Row(variant, scores.mean, "1", parameters=parameters))
                print(f"{variant}, {steps} steps, rate {rate}: {scores}", flush=True)
    return found
