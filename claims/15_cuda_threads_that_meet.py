"""What notebook 15 concludes of data: how often lanes of a warp want the same bin."""

from __future__ import annotations

from helpers.claims import with_defaults


def wanted(seed: int, photograph: str, n: int = 8192) -> tuple[float, float]:
    """Serialized atomics of a histogram: of a piece of a photograph, and of random bytes."""
    import numpy as np
    from sklearn.datasets import load_sample_image

    from helpers.cuda import Module
    from helpers.cuda.record import serialized

    rng, found = np.random.default_rng(seed), []
    grey = load_sample_image(photograph).mean(axis=2).astype(np.uint8).ravel()
    first = rng.integers(0, grey.size - n)
    with Module("histogram.cu", device="cpu") as module:
        for x in (grey[first : first + n], rng.integers(0, 256, n).astype(np.uint8)):
            record = module["direct_histogram"][4, 256].record(
                x.copy(), np.zeros(256, np.uint32), n
            )
            found.append(serialized(record, array="bins"))
    return found[0], found[1]


_ratio = with_defaults(seeds=range(5), scale="ratio")

CLAIMS = [
    _ratio(
        "15-histogram",
        "Neighbouring pixels of a photograph want the same bin of a histogram more "
        "often than random bytes do.",
        wanted,
        {name: {"photograph": name} for name in ("china.jpg", "flower.jpg")},
        "holds",
        0.5,
        "photograph",
        "random bytes",
        unit="atomics in sequence",
        smallest={"n": 512},
    ),
]
