"""The gradient noise scale (McCandlish et al., 2018), for nothing in data-parallel training.

A gradient of B samples is the true one G plus noise with E‖noise‖² = tr(Σ)/B, so E‖g_B‖² =
‖G‖² + tr(Σ)/B. Replicas have gradients of B samples, their mean is one of R·B: two equations for
two unknowns. The noise scale tr(Σ)/‖G‖² is the batch at which noise and gradient are as long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.schemes.averaged import MPIAllreduce


def parts(small: float, large: float, batch: int, together: int) -> tuple[float, float]:
    """Solve for estimates of ‖G‖² and tr(Σ), without bias and so sometimes below 0.

    `small` and `large` are the means of ‖g‖² for batches of `batch` and of `together` samples.

    >>> parts(1 + 8 / 2, 1 + 8 / 8, 2, 8)  # ‖G‖² = 1, tr(Σ) = 8
    (1.0, 8.0)
    """
    if not 0 < batch < together:
        raise ValueError(f"parts expects a smaller batch and a larger; got {batch} and {together}")
    signal = (together * large - batch * small) / (together - batch)
    noise = (small - large) / (1 / batch - 1 / together)
    return signal, noise


def critical_batch(batches: Sequence[float], steps: Sequence[float]) -> tuple[float, float]:
    """Fit S = S_min · (1 + B_crit / B) to steps by least squared relative errors: S_min, B_crit."""
    if len(set(batches)) < 2 or len(batches) != len(steps):
        raise ValueError(f"critical_batch expects runs of two batches; got {batches}, {steps}")
    b, s = np.asarray(batches, float), np.asarray(steps, float)
    columns = np.stack([1 / s, 1 / b / s], axis=1)  # S_min and S_min · B_crit
    (least, product), *_ = np.linalg.lstsq(columns, np.ones(len(b)), rcond=None)
    return float(least), float(product / least)


class Lengths(MPIAllreduce):
    """The mean gradient by MPI, and what :func:`parts` takes of every step.

    It costs one allreduce of a number. ``small`` has the mean of ‖g‖² over the replicas, ``large``
    ‖·‖² of their mean gradient. Average both over steps before you divide: the mean of ratios is
    another number.
    """

    name = "synchronous, lengths measured"

    def begin(self, replica: Replica) -> None:
        super().begin(replica)
        self.small: list[float] = []
        self.large: list[float] = []

    def after_backward(self, replica: Replica, step: int) -> None:
        gradients = replica.flat.gradients
        total = self.comm.allreduce(float(gradients.square().sum()))
        self.small.append(total / self.comm.Get_size())
        super().after_backward(replica, step)
        self.large.append(float(gradients.square().sum()))
