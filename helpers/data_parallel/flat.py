"""All parameters of a model in one buffer, all gradients in another; the model sees both."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


class Flat:
    """The trainable parameters of ``model``, and their gradients, each in one flat buffer.

    Both share memory with the model's tensors, so one message carries either, and any optimizer of
    the model's parameters moves ``values``. The model may be on any one device; what travels by
    MPI is ``values.numpy()``, on the CPU.

    Gradients that are there already are lost.

    ValueError if no parameter is trainable, or if they differ in dtype or device.

    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> flat = Flat(model)
    >>> flat.values[:] = torch.tensor([3.0, 4.0])
    >>> model(torch.ones(1, 2)).item()
    7.0

    Attributes
    ----------
    values, gradients : torch.Tensor (P,)
        All of them, one after the other.
    parameter : torch.nn.Parameter (P,)
        ``values`` with ``gradients`` as its gradient, for an optimizer that is to see one tensor.
    """

    def __init__(self, model: nn.Module):
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        kinds = {(p.dtype, p.device) for p in trained.values()}
        if len(kinds) != 1:
            raise ValueError(
                f"Flat expects trainable parameters of one dtype on one device; got {kinds or None}"
            )
        self.names = list(trained)
        self._parameters = list(trained.values())
        self.sizes = [p.numel() for p in self._parameters]
        self.values = torch.cat([p.detach().flatten() for p in self._parameters])
        self.gradients = torch.zeros_like(self.values)
        self._addresses: list[tuple[int, int]] = []
        for p, value, gradient in zip(
            self._parameters,
            self.values.split(self.sizes),
            self.gradients.split(self.sizes),
            strict=True,
        ):
            p.data = value.view_as(p)
            p.grad = gradient.view_as(p)
            self._addresses.append((value.data_ptr(), gradient.data_ptr()))
        self.parameter = nn.Parameter(self.values)
        self.parameter.grad = self.gradients

    def layers(self, flat: Tensor) -> list[np.ndarray]:
        """Cut a flat buffer (P,) into one array for each of the model's tensors, uncopied."""
        return [part.numpy() for part in flat.split(self.sizes)]

    def check(self) -> None:
        """Refuse, naming the parameter (ValueError), a model that has left its buffers.

        A parameter or gradient that was replaced by another tensor (``p.grad = mean``,
        ``zero_grad()`` with its default ``set_to_none=True``) no longer shares the buffer's memory:
        what is sent and what is trained would silently be two things.
        """
        for name, p, (value, gradient) in zip(
            self.names, self._parameters, self._addresses, strict=True
        ):
            if p.data_ptr() != value:
                raise ValueError(
                    f"Flat expects the values of {name!r} in its buffer; got another tensor: "
                    "write into the old one (p.data.copy_(x))"
                )
            if p.grad is None or p.grad.data_ptr() != gradient:
                got = "None" if p.grad is None else "another tensor"
                raise ValueError(
                    f"Flat expects the gradient of {name!r} in its buffer; got {got}: write into "
                    "the old one (p.grad.copy_(x), p.grad /= n), and empty it by "
                    "zero_grad(set_to_none=False)"
                )


class FlatSGD:
    """All that a parameter server needs: values, gradient and velocity, three flat arrays.

    The same arithmetic as ``torch.optim.SGD``: v ← μ·v + g, θ ← θ − λ·v. No model, no graph.
    """

    def __init__(self, flat: Flat, rate: float, momentum: float):
        self.values, self.gradient = flat.values.numpy(), flat.gradients.numpy()
        self.rate, self.momentum = rate, momentum
        self._velocity = np.zeros_like(self.values)

    def step(self) -> None:
        """Move the values against the gradient."""
        self._velocity *= self.momentum
        self._velocity += self.gradient
        self.values -= self.rate * self._velocity
