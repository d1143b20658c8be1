"""Local SGD: every replica goes its own way, and now and then all meet (LocalSGD, DiLoCo)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch

from helpers.data_parallel.history import History
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme
from helpers.data_parallel.schemes.averaged import Average, ring_average

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

NEVER = 0  # a period: no average before the end


def steps(value: object, name: str, least: int = 1) -> int:
    """Return a whole number of steps, `least` or more; raise ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} expects a whole number of steps, {least} or more; got {value!r}")
    return int(value)


class LocalSGD(Scheme):
    """Average the parameters every H steps (Stich, 2019); between averages nothing is sent.

    At the end the replicas become their mean once more, unless they have just done so.

    ``averages`` counts how often the replicas have met.

    Parameters
    ----------
    period : int or callable
        H, or :data:`NEVER`; or ``period(step)``, which is asked before the first step and after
        each average for the steps to the next one. ``step`` counts those that have been made.
    average : callable
        ``average(flat, comm)`` leaves the mean of all ranks in a buffer.
    """

    def __init__(
        self,
        comm: Intracomm,
        period: int | Callable[[int], int],
        average: Average = ring_average,
    ):
        super().__init__(comm)
        self.period, self.average = period, average
        self.averages = self._met = 0
        self._next = self._plan(0)
        if callable(period):
            self.name = f"local SGD, {getattr(period, '__name__', 'a schedule')}"
        else:
            self.name = f"local SGD, H = {period or 'never'}"

    def _plan(self, step: int) -> int | None:
        """The number of steps after which the replicas meet next; None: not before the end."""
        asked = self.period(step) if callable(self.period) else self.period
        ahead = steps(asked, f"period at step {step}", least=NEVER)
        return step + ahead if ahead else None

    def after_step(self, replica: Replica, step: int) -> None:
        """Meet, if it is time."""
        if step + 1 == self._next:
            self.meet(replica)
            self.averages, self._met = self.averages + 1, step + 1
            self._next = self._plan(step + 1)

    def meet(self, replica: Replica) -> None:
        """Make all replicas equal: here their mean."""
        self.average(replica.flat.values, self.comm)

    def end(self, replica: Replica) -> History:
        """The replicas that are apart become their mean."""
        if self._met < replica.history.updates:
            self.meet(replica)
            self.averages += 1
        return super().end(replica)


class PostLocalSGD(LocalSGD):
    """Synchronous at first, local later (Lin et al., 2020): H = 1 for ``switch`` steps, then H."""

    def __init__(self, comm: Intracomm, period: int, switch: int, **options: Any):
        steps(period, "period")
        steps(switch, "switch", least=0)
        super().__init__(comm, lambda step: 1 if step < switch else period, **options)
        self.name = f"post-local SGD, H = 1 then {period}"


class DiLoCo(LocalSGD):
    """H steps of any inner optimizer, then one outer step by what the replicas have moved.

    With θ where the round began and θ_r where replica r has arrived, Δ = θ − mean θ_r is taken for
    a gradient: v ← μ·v + Δ, θ ← θ − η·(Δ + μ·v), Nesterov's momentum. All replicas go on from
    there. η = 1 and μ = 0 are local SGD. The inner optimizer keeps its own state.

    ``period`` and ``average`` are :class:`LocalSGD`'s.

    Parameters
    ----------
    rate : float
        η of the outer step; 0.7 in the paper.
    momentum : float
        μ of the outer step, in [0, 1); 0.9 in the paper.
    """

    def __init__(
        self,
        comm: Intracomm,
        period: int | Callable[[int], int],
        rate: float = 0.7,
        momentum: float = 0.9,
        **options: Any,
    ):
        super().__init__(comm, period, **options)
        if not (rate > 0 and 0 <= momentum < 1):
            raise ValueError(
                "DiLoCo expects an outer rate above 0 and a momentum in [0, 1); "
                f"got rate={rate!r}, momentum={momentum!r}"
            )
        self.rate, self.momentum = rate, momentum
        self.name = self.name.replace("local SGD", "DiLoCo")

    def begin(self, replica: Replica) -> None:
        """Remember where the first round begins."""
        super().begin(replica)
        self.anchor = replica.flat.values.clone()
        self.velocity = torch.zeros_like(self.anchor)

    def meet(self, replica: Replica) -> None:
        # One outer step
        values = replica.flat.values
        self.average(values, self.comm)
        moved = self.anchor - values
        self.velocity.mul_(self.momentum).add_(moved)
        self.anchor -= self.rate * (moved + self.momentum * self.velocity)
        values.copy_(self.anchor)


class SometimesAveraged(Scheme):
    """Gradients averaged in some steps only, parameters now and then: a source's experiment.

    In a step without an average each replica moves by its own gradient. So the replicas drift
    apart, and an averaged gradient moves them side by side: it brings nobody back.

    Parameters
    ----------
    gradients : int
        k: steps 0, k, 2k, ... move all replicas by their mean gradient; :data:`NEVER`: none does.
    parameters : int
        All replicas become their mean after so many steps; :data:`NEVER`: only at the end.
    """

    def __init__(
        self,
        comm: Intracomm,
        gradients: int,
        parameters: int = NEVER,
        average: Average = ring_average,
    ):
        super().__init__(comm)
        self.average = average
        self.gradients = steps(gradients, "gradients", least=NEVER)
        self.parameters = steps(parameters, "parameters", least=NEVER)
        self.averages = 0
        self.name = f"gradients every {gradients}" if gradients else "gradients never"

    def after_backward(self, replica: Replica, step: int) -> None:
        if self.gradients and step % self.gradients == 0:
            self.average(replica.flat.gradients, self.comm)
            self.averages += 1

    def after_step(self, replica: Replica, step: int) -> None:
        if self.parameters and (step + 1) % self.parameters == 0:
            self.average(replica.flat.values, self.comm)
            self.averages += 1

    def end(self, replica: Replica) -> History:
        """The replicas become their mean."""
        if not self.parameters or replica.history.updates % self.parameters:
            self.average(replica.flat.values, self.comm)
            self.averages += 1
        return super().end(replica)


class AtTheMean(LocalSGD):
    """Each replica moves by itself, but all take their gradients at the replicas' mean: a control.

    So a replica's gradient knows nothing of where that replica is: what drives replicas apart is as
    in :class:`LocalSGD`, and nothing pulls them together before they meet. It sends more than
    averaging in each step does; it is there to be compared with.
    """

    def begin(self, replica: Replica) -> None:
        super().begin(replica)
        self._own = replica.flat.values.clone()
        self.name += ", gradients at the mean"

    def before_backward(self, replica: Replica, step: int) -> None:
        """Go to the mean, for this gradient only."""
        self._own.copy_(replica.flat.values)
        self.average(replica.flat.values, self.comm)

    def after_backward(self, replica: Replica, step: int) -> None:
        """Come back."""
        replica.flat.values.copy_(self._own)
