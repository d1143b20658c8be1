"""The gradient noise scale (McCandlish et al., 2018), for nothing in data-parallel training.

A gradient of B samples is the true one G plus noise with E‖noise‖² = tr(Σ)/B, so E‖g_B‖² =
‖G‖² + tr(Σ)/B. Replicas have gradients of B samples, their mean is one of R·B: two equations for
two unknowns. The noise scale tr(Σ)/‖G‖² is the batch at which noise and gradient are as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.schemes.averaged import MPIAllreduce

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


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
    """Fit S = S_min · (1 + B_crit / B) to measured steps, with least squared relative errors."""
    if len(set(batches)) < 2 or len(batches) != len(steps):
        raise ValueError(f"critical_batch expects runs of two batches; got {batches}, {steps}")
    b, s = np.asarray(batches, float), np.asarray(steps, float)
    columns = np.stack([1 / s, 1 / b / s], axis=1)  # S_min and S_min · B_crit
    (least, product), *_ = np.linalg.lstsq(columns, np.ones(len(b)), rcond=None)
    return float(least), float(product / least)


class NoiseScale(MPIAllreduce):
    """The mean gradient by MPI, and from the gradients' lengths the noise scale of every step.

    It costs one allreduce of a number. Take means of `signals` and of `noises` before you divide:
    the mean of ratios is another number.
    """

    name = "synchronous, noise measured"

    def __init__(self, comm: Intracomm):
        super().__init__(comm)
        if comm.Get_size() < 2:
            raise ValueError(f"a noise scale needs gradients of 2 ranks; got {comm.Get_size()}")
        self.signals: list[float] = []
        self.noises: list[float] = []

    def after_backward(self, replica: Replica, step: int) -> None:
        gradients, ranks = replica.flat.gradients, self.comm.Get_size()
        small = self.comm.allreduce(float(gradients.square().sum())) / ranks
        super().after_backward(replica, step)
        batch = replica.history.batch
        signal, noise = parts(small, float(gradients.square().sum()), batch, ranks * batch)
        self.signals.append(signal)
        self.noises.append(noise)

    def scale(self) -> float:
        """Return the noise scale in samples over all steps."""
        return float(np.mean(self.noises) / np.mean(self.signals))
