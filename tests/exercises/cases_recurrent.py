"""Answers to the exercises of 03: the right one, and wrong ones that a reader could write."""

import math

import torch

from tests.exercises.case import Case


def backward_step(d_h, h_t, h_before, U):
    d_a = d_h * (1 - h_t**2)
    return d_a, d_a @ U, d_a.T @ h_before


def transposed(d_h, h_t, h_before, U):
    d_a = d_h * (1 - h_t**2)
    return d_a, d_a @ U.T, d_a.T @ h_before


def mixed(z, n, h):
    return (1 - z) * n + z * h


def mixed_over_n(z, n, h):
    """Right numbers, in a tensor of its own that is overwritten."""
    n *= 1 - z
    n += z * h
    return n


def mixed_over_h(z, n, h):
    """Right numbers, but the state of the step before is gone when its gradient is due."""
    h *= z
    h += (1 - z) * n
    return h


def gru(x, h, W, U, b, c, early=False, mix=mixed):
    i_r, i_z, i_n = (x @ W.T + b).chunk(3, 1)
    s_r, s_z, s_n = (h @ U.T + c).chunk(3, 1)
    r, z = torch.sigmoid(i_r + s_r), torch.sigmoid(i_z + s_z)
    if early:  # the reset gate before the product: Cho et al., not this layout
        H = h.shape[1]
        n = torch.tanh(i_n + (r * h) @ U[2 * H :].T + c[2 * H :])
    else:
        n = torch.tanh(i_n + r * s_n)
    return mix(z, n, h)


def backward_by_einsum(d_h, h_t, h_before, U):
    d_a = d_h - d_h * h_t * h_t
    yield d_a
    yield torch.einsum("bk,kh->bh", d_a, U)
    yield torch.einsum("bk,bh->kh", d_a, h_before)


def backward_in_place(d_h, h_t, h_before, U):
    d_a = d_h * (1 - h_t**2)
    return d_a, d_a @ U, d_a.T @ h_before.clone() + 0 * h_before.zero_().sum()


def gru_in_place(x, h, *weights):
    new = gru(x, h, *weights)
    with torch.no_grad():
        h.copy_(new)
    return new


def gru_back(d_h, gates, before, U, copy=True, same=False):
    r, z, m, n, _ = gates
    d_an = d_h * (1 - z) * (1 - n**2)
    d_az = d_h * (before - n) * z * (1 - z)
    d_ar = d_an * m * r * (1 - r)
    inputs = torch.cat([d_ar, d_az, d_an], 1)
    states = inputs if same else torch.cat([d_ar, d_az, d_an * r], 1)
    return inputs, states, states @ U + (z * d_h if copy else 0)


def gru_back_on_the_state(d_h, gates, before, U):
    found = gru_back(d_h, gates, before, U)
    before.sub_(gates[3])
    return found


def one_gate(inputs, states, h, reset=lambda z, r: z, mix=mixed):
    (i_r, i_z, i_n), (s_r, s_z, m) = inputs, states
    z = torch.sigmoid(i_z + s_z)
    return mix(z, torch.tanh(i_n + reset(z, torch.sigmoid(i_r + s_r)) * m), h)


def one_gate_cut(*given):
    """Right numbers; the gate learns nothing."""
    mix = lambda z, n, h: mixed(z.detach(), n, h)  # noqa: E731
    return one_gate(*given, reset=lambda z, r: z.detach(), mix=mix)


def one_gate_by_columns(inputs, states, h, of=1):
    gi, gh, H = torch.cat(inputs, 1), torch.cat(states, 1), h.shape[of]
    z = torch.sigmoid(gi[:, H : 2 * H] + gh[:, H : 2 * H])
    return (1 - z) * torch.tanh(gi[:, 2 * H :] + z * gh[:, 2 * H :]) + z * h


def gru_memory_cut(x, h, W, U, b, c):
    """c_n is added beside W x + b, so that r does not multiply it."""
    H = h.shape[1]
    to_input = torch.cat([torch.zeros(2 * H), c[2 * H :]])
    return gru(x, h, W, U, b + to_input, c - to_input)


def gru_swapped(x, h, W, U, b, c):
    H = h.shape[1]
    turn = torch.ones(3 * H)
    turn[H : 2 * H] = -1  # σ(−a) = 1 − σ(a)
    return gru(x, h, W * turn[:, None], U * turn[:, None], b * turn, c * turn)


def backward_by_autograd(d_h, h_t, h_before, U):
    (d_before,) = torch.autograd.grad(h_t, h_before, d_h)
    return d_before, d_before, d_before


def gru_back_by_autograd(d_h, gates, before, U):
    gates.state.backward(d_h)
    return before.grad, before.grad, before.grad


def joined(first, then):
    (q1, d1), (q2, d2) = first, then
    return q1 * q2, d2 + q2 * d1


def joined_by_states(first, then):
    """Right: d is what both make of 0, and q what they add to it of 1."""
    d, one = (then[0] * (first[0] * h + first[1]) + then[1] for h in (0, 1))
    return [one - d, d]


def joined_in_place(first, then):
    first[1].mul_(then[0]).add_(then[1])
    return then[0] * first[0], first[1]


CASES = {
    "one_gate_for_both": Case(
        right=one_gate,
        also=[one_gate_by_columns],
        wrong=[
            lambda *a: one_gate(*a, reset=lambda z, r: r),  # the full GRU
            lambda *a: one_gate(*a).detach(),  # nothing to train
            lambda *a: one_gate(*a, mix=mixed_over_h),
            one_gate_cut,
            lambda inputs, states, h: one_gate(inputs, states, h.detach()),
            lambda *a: one_gate_by_columns(*a, of=-1),  # right for one seed only
        ],
        told={
            "in place, such as `n *= z`": lambda *a: one_gate(*a, mix=mixed_over_n),
            "expected one tensor, got a tuple of 1 part": lambda *a: (one_gate(*a),),
        },
    ),
    "gru_backward_step": Case(
        right=gru_back,
        also=[lambda *a: list(gru_back(*a))],
        wrong=[
            lambda *a: gru_back(*a, copy=False),
            lambda *a: gru_back(*a, same=True),
            gru_back_on_the_state,
            lambda d_h, *a: (gru_back(d_h, *a), d_h.mul_(0.5))[0],
            lambda *a: [part.numpy() for part in gru_back(*a)],  # the walk stacks tensors
            lambda *a: [part.float() for part in gru_back(*a)],  # and multiplies them by doubles
        ],
        told={"it asks autograd for a gradient": gru_back_by_autograd},
    ),
    "rnn_backward_step": Case(
        right=backward_step,
        also=[backward_by_einsum],
        wrong=[
            *(transposed, backward_in_place),
        ],
        told={"it asks autograd for a gradient": backward_by_autograd},
    ),
    "gru_from_equations": Case(
        right=gru,
        also=[torch.gru_cell],
        wrong=[
            lambda *a: gru(*a).double(),  # single precision was asked
            lambda *a: (gru(*a),),
            lambda *a: gru(*a).detach(),
            gru_in_place,
        ],
        told={
            "z and 1 − z are swapped": gru_swapped,
            "r multiplies h, where": lambda *a: gru(*a, early=True),
            "r multiplies U h alone": gru_memory_cut,
            "in place, such as `n *= z`": lambda *a: gru(*a, mix=mixed_over_n),
            "expected one tensor, got a tuple of 2 parts": lambda *a: (gru(*a), gru(*a)),
        },
    ),
    "join": Case(
        right=joined,
        also=[joined_by_states, lambda *a: iter(joined(*a)), lambda *a: torch.stack(joined(*a))],
        wrong=[
            lambda first, then: (first[0] * then[0], first[1] + then[1]),
            lambda first, then: (first[0] * then[0], then[0] * first[1] * then[1]),
            lambda first, then: (first[0] + then[0], then[0] * first[1] + then[1]),
            lambda first, then: (then[0], then[0] * first[1] + then[1]),
            lambda *a: joined(*a)[::-1],  # (d, q)
            lambda *a: joined(*a)[1],  # d alone
            lambda *a: [part.float() for part in joined(*a)],
            lambda *a: [part.sum() for part in joined(*a)],  # one number for all units
            lambda first, then: (joined(first, then)[0], joined(first, then)[1] * first[1].sign()),
        ],
        told={
            "your d belongs to `then` before `first`": lambda first, then: joined(then, first),
            "it changes `first` in place": joined_in_place,
        },
    ),
    "bias_for_half_life": Case(
        right=lambda steps: math.log(0.5 ** (1 / steps) / (1 - 0.5 ** (1 / steps))),
        also=[lambda steps: torch.logit(torch.tensor(0.5 ** (1 / steps), dtype=torch.float64))],
        wrong=[
            lambda steps: 0.0 if steps == 1 else None,
            lambda steps: torch.logit(torch.tensor([0.5 ** (1 / steps)], dtype=torch.float64)),
            lambda steps: math.log(0.5) / steps,
        ],
        told={"after 1 step": lambda steps: 1.0},
    ),
}
