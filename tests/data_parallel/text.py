"""What the test of the transformer under compression runs on its ranks."""

from __future__ import annotations


def all_of_it() -> dict:
    from helpers.data_parallel import text_runs

    train, test = text_runs.text()
    return {
        "text": (len(train), len(test), int(train.sum()), int(test.sum())),
        "losses": {
            name: [text_runs.loss_after(name, steps, batch=4) for steps in (0, 12)]
            for name in ("float32", "QSGD, s = 7", "PowerSGD, r = 2")
        },
        "reached": text_runs.to_loss("float32", 100.0, limit=30, batch=1, pace=5e-3),
        "never": text_runs.to_loss("float32", 0.0, limit=4, batch=1, every=2),
    }
