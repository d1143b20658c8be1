"""What an exercise says of a recorded picture is what the record shows."""

import numpy as np

from helpers import claims


def test_the_statements_about_the_curves_over_the_rate_are_true_and_false_as_the_check_has_it():
    rows = claims.evidence("04-one-rate").rows
    rates = [float(row.parameters["setting"].removeprefix("rate ")) for row in rows]
    hierarchy, flat = (
        np.mean([row.parameters["values"] for row in rows], axis=1)[:, side] for side in (0, 1)
    )
    (words,) = (
        row.peer_value for row in claims.evidence("04-tuned").rows
        if row.parameters["setting"] == "a quarter of them"
    )  # fmt: skip
    lead = hierarchy - flat
    best = [int(side.argmax()) for side in (hierarchy, flat)]
    cost = [side[k] - side[k + 1] for side, k in zip((hierarchy, flat), best, strict=True)]
    assert rates == sorted(rates)
    assert rates[best[0] + 1] == 2 * rates[best[0]]
    assert rates[int(lead.argmin())] != 0.032  # A is false
    assert rates[int(lead.argmax())] == 0.004  # B
    assert hierarchy.max() - words < 0.025  # C is false
    assert cost[1] > cost[0] + 0.01  # D
