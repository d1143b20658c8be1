"""Large batches on real data: accuracy after equally many samples, steps to a loss, the noise.

    python -m bench large_batches

Every optimizer tries nine rates, half decades apart, at every batch; the one with the lowest
training loss is taken, and the mean test accuracy of five other seeds at that rate is what counts.
One process computes each batch (that replicas are that process is notebook 02's). The peer of LARS
is SGD with momentum, the peer of LAMB is Adam, each at *its* best rate for that batch. 4096 is more
than both tasks have: all samples, in every step.
"""

from __future__ import annotations

import statistics

from helpers.records import Row

SUITE = "large_batches"
BATCHES = (64, 256, 1024, 4096)
EPOCHS = {"digits": 8, "descriptions": 8}
TARGETS = {"digits": 0.8, "descriptions": 0.6}
SEEDS = range(1, 6)  # that judge; seed 0 chooses the rate
PEERS = {"LARS": "SGD", "LAMB": "Adam"}


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
        rate, outcomes = _best_rate(task, batch, optimizer, epochs=EPOCHS[name])
        tried = search.RATES[optimizer]
        judged = [
            search.trained(task, batch, optimizer, rate, epochs=EPOCHS[name], seed=seed).accuracy
            for seed in SEEDS
        ]
        accuracy = statistics.mean(judged)
        best[batch, optimizer] = rate, accuracy
        parameters = {"task": name, "batch": batch, "optimizer": optimizer, "rate": rate,
                      "epochs": EPOCHS[name], "rates": list(tried),
                      "accuracies": [o.accuracy for o in outcomes], "seeds": len(SEEDS),
                      "lowest": min(judged), "highest": max(judged)}  # fmt: skip
        peer = {}
        if against := PEERS.get(optimizer):
            peer = {"peer": against, "peer_value": best[batch, against][1]}
        rows.append(Row("accuracy at the best rate", accuracy, "1", parameters=parameters, **peer))
        print(name, batch, optimizer, f"{rate:.4g} {accuracy:.3f}", flush=True)
    return rows


def _best_rate(task, batch: int, optimizer: str, **settings: float) -> tuple[float, list]:
    """Return the rate with the lowest training loss, and the outcomes of all rates.

    The test data choose nothing.
    """
    from helpers.data_parallel.large_batch import search

    outcomes = [
        search.trained(task, batch, optimizer, rate, **settings) for rate in search.RATES[optimizer]
    ]
    lowest = min(range(len(outcomes)), key=lambda i: outcomes[i].loss)
    return search.RATES[optimizer][lowest], outcomes


def _steps(name: str, best: dict) -> list[Row]:
    """Steps to an accuracy by SGD at each batch: the fewest over the rates beside the best.

    At each rate the median over the seeds, if all of them get there.
    """
    from helpers.data_parallel.large_batch import noise, search

    task, found, rows = search.TASKS[name](), {}, []
    rates = search.RATES["SGD"]
    for batch in BATCHES:
        middle = rates.index(best[batch, "SGD"][0])
        least = []
        for rate in rates[max(0, middle - 1) : middle + 2]:
            needed = [
                search.trained(task, batch, "SGD", rate, epochs=2 if batch < 100 else 12,
                               seed=seed, target=TARGETS[name]).steps for seed in SEEDS
            ]  # fmt: skip
            least += [] if None in needed else [statistics.median(needed)]
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
