"""ZeRO's arithmetic: who keeps what of a parameter, in bytes (Rajbhandari et al., 2020, section 5).

Ψ parameters on N ranks. Each parameter needs itself, its gradient, and what the optimizer remembers
of it; stage 1 cuts the last, stage 2 the last two, stage 3 all three into N shards.
"""

from __future__ import annotations

from dataclasses import dataclass

STAGES = {
    0: "nothing (replicas)",
    1: "optimizer",
    2: "optimizer, gradients",
    3: "optimizer, gradients, parameters",
}


@dataclass(frozen=True)
class Bytes:
    """Bytes for each parameter of a model."""

    parameter: float
    gradient: float
    optimizer: float

    @property
    def total(self) -> float:
        """All three."""
        return self.parameter + self.gradient + self.optimizer


FLOAT32 = Bytes(4, 4, 8)  # as here: Adam's two moments


def at_rest(stage: int, ranks: int, each: Bytes = FLOAT32) -> Bytes:
    """Return what one rank of N keeps between two steps, for each parameter of the whole model.

    ``each`` is what one parameter takes without sharding. ValueError for a stage not from 0 to 3.

    >>> [at_rest(stage, 4).total for stage in range(4)]
    [16.0, 10.0, 7.0, 4.0]
    """
    if stage not in STAGES:
        raise ValueError(f"ZeRO has stages 0, 1, 2, 3; got {stage!r}")
    if ranks < 1:
        raise ValueError(f"at_rest expects one rank or more; got {ranks!r}")
    return Bytes(
        each.parameter / (ranks if stage > 2 else 1),
        each.gradient / (ranks if stage > 1 else 1),
        each.optimizer / (ranks if stage > 0 else 1),
    )


def sent(stage: int, ranks: int, parameters: int, itemsize: int = 4) -> float:
    """Return the bytes that one rank sends in a step, by rings.

    Stages 0 to 2 reduce-scatter gradients and gather either those or parameters; stage 3 gathers
    parameters twice, for the forward pass and for the backward pass.

    >>> sent(2, 4, 1000), sent(3, 4, 1000)
    (6000.0, 9000.0)

    Parameters
    ----------
    stage
        ZeRO's, 0 to 3, else ValueError.
    parameters
        Of the whole model.
    itemsize
        Bytes of a parameter, and of a gradient.
    """
    if stage not in STAGES:
        raise ValueError(f"ZeRO has stages 0, 1, 2, 3; got {stage!r}")
    return (3 if stage == 3 else 2) * (ranks - 1) / ranks * parameters * itemsize


def messages(stage: int, ranks: int, units: int) -> int:
    """Return how many messages one rank sends in a step."""
    return (3 if stage == 3 else 2) * (ranks - 1) * units
