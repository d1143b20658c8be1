"""A model in units, sharded by ZeRO's stages; at stage 3 this is fully sharded data parallelism.

::

    model = transformer(config)
    channel = Channel(MPI.COMM_WORLD)
    sharded = Sharded(model, list(model), channel, stage=3, optimizer=torch.optim.Adam)
    for x, y in batches:  # this rank's part
        loss(model(x), y).backward()
        sharded.step()

Hooks around each unit gather its parameters before it computes and free them afterwards, in the
forward pass and in the backward pass; as soon as a unit has all its gradients they are
reduce-scattered. With ``prefetch`` and a channel in the background, the next unit's parameters are
on their way while this one computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from time import perf_counter, sleep

import torch
from torch import Tensor, nn

from helpers.sharded.messages import Channel, Span
from helpers.sharded.unit import Unit


class Sharded:
    """What the ranks share of a model; ``units`` come in the order in which it calls them.

    The optimizer sees flat shards, so it must move each number by itself, as SGD and Adam do.
    """

    def __init__(
        self,
        model: nn.Module,
        units: Sequence[nn.Module],
        channel: Channel,
        stage: int = 3,
        optimizer: Callable[[list], torch.optim.Optimizer] = torch.optim.Adam,
        prefetch: bool = False,
        pace: float = 0.0,
    ):
        names = {id(p): name for name, p in model.named_parameters()}
        found = [id(p) for part in units for p in part.parameters()]
        if sorted(found) != sorted(names):
            twice = {names[i] for i in found if found.count(i) > 1 and i in names}
            missing = {name for i, name in names.items() if i not in found}
            raise ValueError(
                "units expect every parameter of the model once; "
                f"in none: {sorted(missing) or 'none'}, in several: {sorted(twice) or 'none'}"
            )
        labels = {id(part): name for name, part in model.named_modules()}
        self.model, self.channel = model, channel
        self.prefetch, self.pace = prefetch, pace
        self.units = [
            Unit(labels.get(id(part)) or str(k), part, channel, stage)
            for k, part in enumerate(units)
        ]
        self.optimizer = optimizer([unit.parameter for unit in self.units])
        self.peak = 0  # bytes of parameters and gradients
        self.held: dict[str, int] = {}  # bytes at the last step, when the gradients were there
        self._began: dict[int, float] = {}
        self._missing: dict[int, int] = {}
        for number, part in enumerate(units):
            self._watch(number, part)

    def _watch(self, number: int, part: nn.Module) -> None:
        part.register_forward_pre_hook(lambda module, args: self._before(number))
        part.register_forward_hook(lambda module, args, output: self._after(number, output))
        for parameter in part.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p: self._arrived(number))

    def _before(self, number: int) -> None:
        self._ready(number, number + 1)

    def _after(self, number: int, output: Tensor) -> None:
        self._note(f"forward {self.units[number].name}", number)
        self.units[number].free()
        if isinstance(output, Tensor) and output.requires_grad:
            output.register_hook(lambda gradient: self._before_backward(number))

    def _before_backward(self, number: int) -> None:
        if number in self._missing:
            raise RuntimeError("Sharded expects step() after each backward pass; got a second one")
        self._missing[number] = len(self.units[number].flat.sizes)
        self.units[number].begin_gradients()
        self._ready(number, number - 1)

    def _ready(self, number: int, following: int) -> None:
        """Have one unit here and, if asked to, the next one on its way."""
        self.units[number].begin_gather()
        if self.prefetch and 0 <= following < len(self.units):
            self.units[following].begin_gather()
        self.units[number].gather()
        self._began[number] = perf_counter()
        self._weigh()

    def _arrived(self, number: int) -> None:
        self._missing[number] -= 1
        if self._missing[number] == 0:
            self._note(f"backward {self.units[number].name}", number)
            self.units[number].free()
            self.units[number].begin_reduce()
            for unit in self.units:
                unit.finish_reduce(wait=False)

    def _note(self, name: str, number: int) -> None:
        began = self._began.pop(number, perf_counter())
        if self.pace:
            sleep(max(0.0, began + self.pace - perf_counter()))
        self.channel.spans.append(Span("compute", name, began, perf_counter()))

    def _weigh(self) -> None:
        now = self.resident()
        self.peak = max(self.peak, now["parameter"] + now["gradient"])

    def step(self) -> None:
        """Average the gradients over the ranks, and move the parameters."""
        idle = [u.name for k, u in enumerate(self.units) if self._missing.get(k) != 0]
        if idle:
            raise RuntimeError(
                f"step expects a backward pass through all units; without all gradients: {idle}"
            )
        for unit in reversed(self.units):
            unit.finish_reduce()
        self._weigh()
        self._missing.clear()
        self.optimizer.step()
        self.held = self.resident()
        for unit in self.units:
            unit.after_step()

    def resident(self) -> dict[str, int]:
        """Return the bytes that this rank holds of parameters, gradients and optimizer."""
        held = [unit.resident() for unit in self.units]
        state = chain.from_iterable(s.values() for s in self.optimizer.state.values())
        return {
            "parameter": sum(h["parameter"] for h in held),
            "gradient": sum(h["gradient"] for h in held),
            "optimizer": sum(
                t.untyped_storage().nbytes()
                for t in state
                if isinstance(t, Tensor) and t.dim()  # Adam counts its steps in single numbers
            ),
        }

    def whole(self) -> dict[str, Tensor]:
        """Gather all parameters; every rank must call it."""
        found: dict[str, Tensor] = {}
        for unit in self.units:
            parts = unit.collect(unit.parameter.detach())
            for name, part in zip(unit.flat.names, parts, strict=True):
                found[f"{unit.name}.{name}"] = part.clone()
        return found
