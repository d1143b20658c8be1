"""Checks behind the exercises of 03: recurrences by hand, their gradients, their gates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from helpers.exercises.core import WrongAnswer, call, close, exercise, wrong

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

SHARES = ("inputs", "states", "h")  # what the cell with one gate is given


@exercise
def rnn_backward_step(answer):
    """answer(d_h, h_t, h_before, U) -> (d_a, d_before, d_U) of one step of a tanh RNN."""
    import torch

    torch.manual_seed(0)
    for B, H in ((1, 1), (2, 3), (4, 2)):
        a, U = torch.randn(B, H).double(), torch.randn(H, H).double()
        before = torch.randn(B, H).double().requires_grad_()
        U.requires_grad_()
        total = (a + before @ U.T).detach().requires_grad_()  # U h on its own leaf
        h = torch.tanh(total)
        d_h = torch.randn(B, H).double()
        (d_a,) = torch.autograd.grad(h, total, d_h)
        d_before, d_U = torch.autograd.grad(torch.tanh(a + before @ U.T), (before, U), d_h)
        given = [part.detach().clone() for part in (d_h, h, before, U)]
        got = _by_hand(answer, *given)
        _untouched(("d_h", "h_t", "h_before", "U"), (d_h, h, before, U), given)
        wanted, what = (d_a, d_before, d_U), f"B={B}, H={H}"
        got = _tensors(got, wanted, f"(d_a, d_before, d_U) for {what}")
        for name, mine, true in zip(("d_a", "d_before", "d_U"), got, wanted, strict=True):
            close(mine, true, f"{name} for {what}", rtol=1e-6, atol=1e-9)


def _by_hand(answer, *given) -> object:
    """Call a step of the backward pass with tensors that record nothing for autograd."""
    import torch

    try:
        with torch.no_grad():
            return call(answer, *given)
    except WrongAnswer as error:
        if "not require grad" in str(error):  # torch's words say nothing of this exercise
            wrong("it asks autograd for a gradient: compute it from the equations")
        raise


def _tensors(got: object, like: Sequence[Tensor], what: str) -> list[Tensor]:
    """Return an answer's tensors as a list; refuse another number, other shapes or types."""
    import torch

    if isinstance(got, torch.Tensor) or not hasattr(got, "__iter__"):
        wrong(f"{what}: expected {len(like)} tensors, got {type(got).__name__}")
    parts = list(got)
    others = [type(part).__name__ for part in parts if not isinstance(part, torch.Tensor)]
    if others:
        wrong(f"{what}: expected {len(like)} tensors, got a {type(got).__name__} of {others[0]}")
    found, shapes = ([tuple(part.shape) for part in some] for some in (parts, like))
    if found != shapes:
        wrong(f"{what}: expected shapes {shapes}, got {found}")
    for part in parts:
        _same_type(part, like[0], what)
    return parts


def _same_type(part: Tensor, like: Tensor, what: str) -> None:
    """Refuse a tensor of other numbers than those that were handed in."""
    if part.dtype != like.dtype:
        wrong(f"{what}: it is given numbers of {like.dtype} and returns some of {part.dtype}")


@exercise
def gru_backward_step(answer):
    """answer(d_h, gates, h_before, U) -> (d_inputs, d_states, d_before) of one GRU step."""
    import torch

    from helpers.recurrent.steps import GRUStep

    torch.manual_seed(0)
    for B, H in ((1, 1), (2, 3), (4, 2)):
        U = torch.randn(3 * H, H).double()
        before = torch.randn(B, H).double().requires_grad_()
        inputs = torch.randn(B, 3 * H).double().requires_grad_()
        states = (before @ U.T + torch.randn(3 * H).double()).detach().requires_grad_()
        d_h = torch.randn(B, H).double()

        def step(inputs, states, before):
            (i_r, i_z, i_n), (s_r, s_z, m) = inputs.chunk(3, 1), states.chunk(3, 1)
            r, z = torch.sigmoid(i_r + s_r), torch.sigmoid(i_z + s_z)
            n = torch.tanh(i_n + r * m)
            return GRUStep(r, z, m, n, (1 - z) * n + z * before)

        gates = step(inputs, states, before)
        d_inputs, d_states, copied = torch.autograd.grad(gates.state, (inputs, states, before), d_h)
        wanted = (d_inputs, d_states, copied + d_states @ U)
        plain = GRUStep(*(part.detach().clone() for part in gates))
        given = GRUStep(*(part.clone() for part in plain)), before.detach().clone(), U.clone()
        got = _by_hand(answer, arrived := d_h.clone(), *given)
        _untouched(("gates",) * 5, plain, given[0])
        _untouched(("h_before", "U", "d_h"), (before, U, d_h), (*given[1:], arrived))
        got = _tensors(got, wanted, f"(d_inputs, d_states, d_before) for B={B}, H={H}")
        for name, mine, true in zip(("d_inputs", "d_states", "d_before"), got, wanted, strict=True):
            close(mine, true, f"{name} for B={B}, H={H}")


def _slips(x, h, W, U, b, c) -> dict:
    """What is slipped in, and the h_t that comes of it."""
    from helpers.recurrent.steps import gru_step

    step = gru_step(x, h, W, U, b, c)
    (*_, in_n), (*_, of_n) = (x @ W.T + b).chunk(3, -1), U.chunk(3)
    c_n, r, z = c.chunk(3)[-1], step.reset, step.update
    then = lambda before: ((1 - z) * before.tanh() + z * h).detach()  # noqa: E731
    return {
        "z and 1 − z are swapped (see *Notation*)": (step.candidate + h - step.state).detach(),
        "r multiplies h, where it multiplies the memory m = U h + c": then(
            in_n + (r * h) @ of_n.T + c_n
        ),
        "r multiplies U h alone, where it multiplies the memory m = U h + c": then(
            in_n + r * (h @ of_n.T) + c_n
        ),
    }


@exercise
def gru_from_equations(answer):
    """answer(x, h, W, U, b, c) -> h_t (B, H), with the blocks in the order reset, update, new."""
    import torch

    torch.manual_seed(0)
    for B, inputs, H in ((2, 3, 4), (1, 1, 1)):
        cell = torch.nn.GRUCell(inputs, H)
        x, h = torch.randn(B, inputs), torch.randn(B, H).requires_grad_()
        want, weights = cell(x, h), list(cell.parameters())
        given, what = (x.clone(), h.clone()), f"h_t for B={B}, I={inputs}, H={H}"
        got = call(answer, *given, *weights)
        _one_tensor(got, what)
        mine = got.detach() if isinstance(got, torch.Tensor) else got
        if isinstance(mine, torch.Tensor) and mine.shape == h.shape:
            for slip, theirs in _slips(x, h, *weights).items():
                if mine.allclose(theirs.to(mine), rtol=1e-4, atol=1e-5):
                    wrong(f"{what}: {slip}")
        close(mine, want.detach(), what, rtol=1e-4, atol=1e-5)
        _untouched(("x", "h"), (x, h), given)
        leaves = dict(zip(("h", "W", "U", "b", "c"), (h, *weights), strict=True))
        _gradients_back(got, want, leaves, what, rtol=1e-3, atol=1e-5)


@exercise
def one_gate_for_both(answer):
    """answer(inputs, states, h) -> h_t (..., H) of a GRU with r = z; shares: reset, update, new."""
    import torch

    torch.manual_seed(0)
    for shape in ((1, 1), (2, 3), (3, 2, 4)):
        sizes = ((3, *shape), (3, *shape), shape)
        leaves = [torch.randn(size).double().requires_grad_() for size in sizes]
        inputs, states, h = leaves
        z = torch.sigmoid(inputs[1] + states[1])
        want = (1 - z) * torch.tanh(inputs[2] + z * states[2]) + z * h
        given = [leaf.clone() for leaf in leaves]
        got = call(answer, given[0].unbind(0), given[1].unbind(0), given[2])
        what = f"h_t for contributions of shape {shape}"
        _one_tensor(got, what)
        mine = got.detach() if isinstance(got, torch.Tensor) else got
        close(mine, want.detach(), what)
        _untouched(SHARES, leaves, given)
        _gradients_back(got, want, dict(zip(SHARES, leaves, strict=True)), what)


def _untouched(names, before, after) -> None:
    """Refuse a step that has changed what it was given."""
    for name, was, one in zip(names, before, after, strict=True):
        if not one.equal(was):
            wrong(f"it changes `{name}` in place: leave what it is given unchanged")


def _one_tensor(got: object, what: str) -> None:
    """Refuse several tensors where one is asked for."""
    if isinstance(got, (tuple, list)):
        count = f"{len(got)} part{'s' * (len(got) != 1)}"
        wrong(f"{what}: expected one tensor, got a {type(got).__name__} of {count}")


def _gradients_back(got, want: Tensor, leaves: dict[str, Tensor], what: str, **near) -> None:
    """Refuse a state through which other gradients come back than through the equations."""
    import torch

    if not getattr(got, "requires_grad", False):
        wrong("no gradient comes back through the state that it returns: is it torch throughout?")
    _same_type(got, want, what)
    weight = torch.randn_like(want)
    try:
        mine = torch.autograd.grad(got, [*leaves.values()], weight, allow_unused=True)
    except RuntimeError as error:
        if "inplace" in str(error):  # torch's words name its own functions, no line of the reader's
            wrong(
                "right, but no gradient comes back: an operation in place, such as `n *= z`, has "
                "overwritten what the gradient needs; make a new tensor"
            )
        raise
    true = torch.autograd.grad(want, [*leaves.values()], weight)
    for name, found, due in zip(leaves, mine, true, strict=True):
        if found is None:
            wrong(f"right, but no gradient comes back to {name}: is it cut off on the way?")
        close(found, due, f"{what} is right, but the gradient that comes back to {name}", **near)


@exercise
def bias_for_half_life(answer, share=0.5):
    """answer(steps) -> bias of the update gate at which σ(bias)^steps = share."""
    for steps in (1, 10, 100):
        got = call(answer, steps)
        try:
            bias = float(f"{got:.17g}")  # it is printed in this way
        except (TypeError, ValueError):
            wrong(f"expected a number, not an array or a text; got {got!r}")
        left = (1 / (1 + math.exp(min(700.0, -bias)))) ** steps
        if not math.isclose(left, share, rel_tol=1e-4):
            wrong(
                f"with the bias {bias:.3f} a state keeps {left:.3f} of itself after {steps} "
                f"step{'s' * (steps != 1)}"
            )


@exercise
def join(answer):
    """answer(first, then) -> the pair (q, d) of the one step h → q ∘ h + d that does both."""
    import torch

    from helpers.recurrent import steps

    torch.manual_seed(0)
    for shape in ((), (3,), (4, 2)):
        first, then = (tuple(torch.randn(2, *shape).double().unbind(0)) for _ in range(2))
        want, given = steps.join(first, then), [part.clone() for part in (*first, *then)]
        got = call(answer, tuple(given[:2]), tuple(given[2:]))
        got = got.unbind(0) if isinstance(got, torch.Tensor) and got.dim() else got
        what = f"(q, d) of two steps of shape {shape}"
        got = _tensors(got, want, what)
        _untouched(("first", "first", "then", "then"), (*first, *then), given)
        if not got[0].allclose(want[0]):
            wrong(f"{what}: after both steps, h is multiplied by another number than your q")
        if got[1].allclose(steps.join(then, first)[1]):
            wrong(f"{what}: your d belongs to `then` before `first`")
        close(got[1], want[1], f"{what}: d, what both steps make of h = 0")
    for length in (5, 8):  # joined in groups, a segment leads where its steps lead in a loop
        segment, h = torch.randn(length, 2, 3).double(), torch.zeros(3).double()
        for q, d in segment:
            h = q * h + d
        _, end = _pairs(answer, [tuple(pair) for pair in segment])
        close(end, h, f"d of {length} steps, joined in pairs, and the pairs again")


def _pairs(answer, parts: list) -> object:
    """Join a segment's steps as a tree does: neighbours first."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return call(answer, _pairs(answer, parts[:half]), _pairs(answer, parts[half:]))
