"""Large batches on real data: accuracy after equally many samples, steps to a loss, the noise.

    python -m bench large_batches

Every optimizer tries six rates, half decades apart, at every batch; the one with the lowest
training loss is taken, and its test accuracy is what counts. One process computes each batch (that
replicas are that process is notebook 02's). The peer of LARS and LAMB is SGD with momentum at *its*
best rate for that batch. 4096 is more than both tasks have: all samples, in every step.
"""

from __future__ import annotations

from helpers.records import Row

SUITE = "large_batches"
BATCHES = (64, 256, 1024, 4096)
EPOCHS = {"digits": 8, "descriptions": 8}
TARGETS = {"digits": 0.8, "descriptions": 0.6}


def rows() -> list[Row]:
    """Return a row for each task, batch and optimizer; then steps to an accuracy, and the noise."""
    found = []
    for name in EPOCHS:
        best = {}
        for batch in BATCHES:
            found += _batch(name, batch, best)
        found += [*_steps(name, best), _noise(name)]
    return found


def _batch(name: str, batch: int, best: dict) -> list[Row]:
    from helpers.data_parallel.large_batch import search

    task, rows = search.TASKS[name](), []
    for optimizer in search.OPTIMIZERS:
        rate, outcomes = search.best_rate(task, batch, optimizer, epochs=EPOCHS[name])
        tried = search.RATES[optimizer]
        accuracy = outcomes[tried.index(rate)].accuracy
        best[batch, optimizer] = rate, accuracy
        parameters = {"task": name, "batch": batch, "optimizer": optimizer, "rate": rate,
                      "epochs": EPOCHS[name], "rates": list(tried),
                      "accuracies": [o.accuracy for o in outcomes]}  # fmt: skip
        peer = {} if optimizer == "SGD" else {"peer": "SGD", "peer_value": best[batch, "SGD"][1]}
        rows.append(Row("accuracy at the best rate", accuracy, "1", parameters=parameters, **peer))
        print(name, batch, optimizer, f"{rate:.4g} {accuracy:.3f}", flush=True)
    return rows


def _steps(name: str, best: dict) -> list[Row]:
    """Steps to an accuracy by SGD at each batch: the fewest over the rates beside the best."""
    from helpers.data_parallel.large_batch import noise, search

    task, found, rows = search.TASKS[name](), {}, []
    rates = search.RATES["SGD"]
    for batch in BATCHES:
        middle = rates.index(best[batch, "SGD"][0])
        least = []
        for rate in rates[max(0, middle - 1) : middle + 2]:
            outcome = search.trained(
                task, batch, "SGD", rate, epochs=2 if batch < 100 else 12, target=TARGETS[name]
            )
            least += [outcome.steps] if outcome.steps else []
        if least:
            found[batch] = min(least)
            parameters = {"task": name, "batch": batch, "target": TARGETS[name]}
            rows.append(Row("steps to an accuracy, SGD", found[batch], "1", parameters=parameters))
    if len(found) > 1:
        least_steps, critical = noise.critical_batch(list(found), list(found.values()))
        rows.append(Row("critical batch, fitted to the steps", critical, "samples",
                        parameters={"task": name, "least": least_steps}))  # fmt: skip
    return rows


def _noise(name: str) -> Row:
    """Measure the noise scale of the training at batch 64, over as many samples."""
    from helpers.claims.ranks import ranks
    from helpers.data_parallel.large_batch import search

    given = {"steps": 100, "batch": 32, "rate": 0.1}
    scale = ranks(2).run(search.noise_scale, name, timeout=300, **given)[0]
    return Row("gradient noise scale", scale, "samples", parameters={"task": name, **given})
