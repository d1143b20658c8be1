"""A stage: some layers and what they keep of each micro-batch, counted in bytes. No messages here.

first, second = Stage(nn.Linear(2, 3)), Stage(nn.Linear(3, 1), loss=functional.mse_loss)
y = first.forward(0, x)
second.forward(0, y, target)  # the loss
gradient = second.backward(0)
first.backward(0, gradient)
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Meter:
    """Counts the bytes kept for backward passes: those kept ``now``, and the ``most`` there were.

    Autograd tells of each tensor that it saves. Storages that several operations save count once,
    and weights do not count: they are there anyway.
    """

    def __init__(self) -> None:
        self.now = self.most = 0
        self._holders: Counter[int] = Counter()

    def watch(self, weights: Iterable[Tensor]) -> torch.autograd.graph.saved_tensors_hooks:
        """Return a context in which what autograd saves, but weights, counts until dropped."""
        free = {weight.untyped_storage().data_ptr() for weight in weights}

        def pack(tensor: Tensor) -> Tensor | Kept:
            if tensor.untyped_storage().data_ptr() in free:
                return tensor
            return self.keep(tensor)

        return torch.autograd.graph.saved_tensors_hooks(pack, _unpack)

    def keep(self, tensor: Tensor) -> Kept:
        """Count a tensor while the result lives."""
        return Kept(tensor, self)

    def _add(self, address: int, size: int) -> None:
        self._holders[address] += 1
        if self._holders[address] == 1:
            self.now += size
            self.most = max(self.most, self.now)

    def _drop(self, address: int, size: int) -> None:
        self._holders[address] -= 1
        if not self._holders[address]:
            del self._holders[address]
            self.now -= size


class Kept:
    """A tensor that counts while this lives."""

    __slots__ = ("_address", "_meter", "_size", "tensor")

    def __init__(self, tensor: Tensor, meter: Meter) -> None:
        storage = tensor.untyped_storage()
        self.tensor, self._meter = tensor, meter
        self._address, self._size = storage.data_ptr(), storage.nbytes()
        meter._add(self._address, self._size)

    def __del__(self) -> None:
        self._meter._drop(self._address, self._size)


def _unpack(saved: Tensor | Kept) -> Tensor:
    return saved.tensor if isinstance(saved, Kept) else saved


@dataclass
class _Pass:
    """What is kept of one micro-batch between its forward and its backward pass."""

    x: Tensor
    target: Tensor | None
    y: Tensor | None  # None where it will be computed again
    kept: Kept | None = None
    later: Later | None = None


class Stage:
    """Layers that run forward and backward for one micro-batch at a time.

    The last stage has a loss, (output, target) → a number, which ``scale`` multiplies.
    ``recompute`` keeps only a micro-batch's input and goes forward again before it goes back;
    ``split`` has backward passes in two parts.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        scale: float = 1.0,
        recompute: bool = False,
        split: bool = False,
        meter: Meter | None = None,
    ) -> None:
        self.module, self.loss, self.scale = module, loss, scale
        self.recompute, self.meter = recompute, meter
        self._put = put_off(module) if split else None
        self._passes: dict[int, _Pass] = {}

    @property
    def kept(self) -> int:
        """How many micro-batches something is kept of."""
        return len(self._passes)

    def forward(self, micro: int, x: Tensor, target: Tensor | None = None) -> Tensor:
        """Go forward; return what the next stage needs, or the last stage's loss, not scaled."""
        x = x.detach()
        if x.is_floating_point():
            x.requires_grad_()
        held = _Pass(x, target, None)
        if self.recompute:
            with torch.no_grad():
                y = self._whole(x, target)
            held.kept = self.meter.keep(x) if self.meter else None
        else:
            with self._watched():
                held.y = y = self._whole(x, target)
        self._passes[micro] = held
        return y.detach()

    def backward(self, micro: int, gradient: Tensor | None = None) -> Tensor | None:
        """Go backward and forget the micro-batch; return the gradient for the stage before."""
        back = self.backward_input(micro, gradient)
        self.backward_weight(micro)
        return back

    def backward_input(self, micro: int, gradient: Tensor | None = None) -> Tensor | None:
        """Go backward as far as the stage before needs it."""
        held = self._passes[micro]
        if held.y is None:
            with self._watched():
                held.y = self._whole(held.x, held.target)
        if self._put:
            held.later = self._put[0] = Later()
        if self.loss is not None:
            (held.y * self.scale).backward()
        else:
            held.y.backward(gradient)
        held.y = held.kept = None
        if held.later and self.meter:  # what the weights' part will need is kept on
            held.kept = [self.meter.keep(t) for _, x, g in held.later.jobs for t in (x, g)]  # type: ignore[assignment]
        return held.x.grad

    def backward_weight(self, micro: int) -> None:
        """Do what is left of a backward pass, and forget the micro-batch."""
        held = self._passes.pop(micro)
        if held.later:
            held.later.work()

    def _whole(self, x: Tensor, target: Tensor | None) -> Tensor:
        y = self._layers(x)
        return y if self.loss is None else self.loss(y, target)  # type: ignore[arg-type]

    def _layers(self, x: Tensor) -> Tensor:
        return self.module(x)

    def _watched(self) -> Any:
        if self.meter is None:
            return contextlib.nullcontext()
        return self.meter.watch(self._weights())

    def _weights(self) -> Any:
        return self.module.parameters()


class Later:
    """Work that was put off: ``jobs`` has the parameter, the input and the gradient of each.

    For y = x Aᵀ + b and the gradient g of y, the rank before waits for g A, and nobody for gᵀ x
    (zero-bubble pipelines: Qi et al., 2024).
    """

    def __init__(self) -> None:
        self.jobs: list[tuple[nn.Parameter, Tensor, Tensor]] = []

    def work(self) -> None:
        """Add gᵀ x to each matrix's gradient, and forget x and g."""
        with torch.no_grad():
            while self.jobs:
                weight, x, g = self.jobs.pop()
                found = _rows(g).T @ _rows(x)  # (out, n) (n, in)
                weight.grad = found if weight.grad is None else weight.grad.add_(found)


class _PutOff(torch.autograd.Function):
    """A linear map whose backward pass leaves the weights' part for later."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, put: list) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.has_bias, ctx.put = weight, bias is not None, put
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        ctx.put[0].jobs.append((ctx.weight, x, g))
        back = g @ ctx.weight if ctx.needs_input_grad[0] else None
        return back, None, _rows(g).sum(0) if ctx.has_bias else None, None


def put_off(module: nn.Module) -> list[Later]:
    """Let a module's linear layers put their weights' part off, into the list's one `Later`."""
    put = [Later()]
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.forward = _linear(part, put)  # type: ignore[method-assign]
    return put


def _linear(part: nn.Linear, put: list[Later]) -> Any:
    def forward(x: Tensor) -> Tensor:
        return _PutOff.apply(x, part.weight, part.bias, put)

    return forward


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])  # (..., n) → (rows, n)


class UpdatingStage(Stage):
    """PipeDream's stage: it updates its weights after every micro-batch, others under way.

    A micro-batch that went forward before an update goes backward after it. With ``stash`` the
    stage keeps, for each micro-batch under way, the weights that it went forward with; without, the
    backward pass meets weights that its activations do not come from.
    """

    def __init__(
        self,
        module: nn.Module,
        rate: float,
        loss: Callable[[Tensor, Tensor], Tensor] | None,
        stash: bool,
        meter: Meter | None,
    ) -> None:
        super().__init__(module, loss, meter=meter)
        self.rate, self.stash = rate, stash
        self.version = 0
        self.staleness: dict[int, int] = {}
        self.gradients: dict[int, list[Tensor]] = {}
        self.most_versions = 1
        self._used: dict[int, tuple[int, dict[str, Tensor]]] = {}
        self._newest = self._copy()

    def forward(self, micro: int, x: Tensor, target: Tensor | None = None) -> Tensor:
        """Go forward with the newest weights, and remember which these were."""
        self._used[micro] = (self.version, self._newest)
        versions = {version for version, _ in self._used.values()} | {self.version}
        self.most_versions = max(self.most_versions, len(versions) if self.stash else 1)
        return super().forward(micro, x, target)

    def update(self, micro: int) -> None:
        """Follow a micro-batch's gradient, wherever the weights are by now."""
        version, used = self._used.pop(micro)
        self.staleness[micro] = self.version - version
        found = [weight.grad for weight in used.values()]
        self.gradients[micro] = [g.clone() for g in found if g is not None]
        for weight in used.values():
            weight.grad = None
        with torch.no_grad():
            new = {
                name: now if g is None else now - self.rate * g
                for (name, now), g in zip(self._newest.items(), found, strict=True)
            }
            for name, parameter in self.module.named_parameters():
                parameter.copy_(new[name])
            if self.stash:  # a new version beside those in use
                self._newest = self._copy()
            else:  # in place, behind autograd's back: graphs under way now hold these weights
                for name, weight in self._newest.items():
                    weight.data.copy_(new[name])
        self.version += 1

    def _copy(self) -> dict[str, Tensor]:
        named = self.module.named_parameters()
        return {name: p.detach().clone().requires_grad_() for name, p in named}

    def _layers(self, x: Tensor) -> Tensor:
        return torch.func.functional_call(self.module, self._newest, (x,))

    def _weights(self) -> Iterable[Any]:
        return self._newest.values()
