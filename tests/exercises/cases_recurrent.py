"""Answers to the exercises of 03: the right one, and wrong ones that a reader could write."""

import math

import torch

from tests.exercises.case import Case


def backward_step(d_h, h_t, h_before, U):
    d_a = d_h * (1 - h_t**2)
    return d_a, d_a @ U, d_a.T @ h_before


def forgot_the_slope(d_h, h_t, h_before, U):
    return d_h, d_h @ U, d_h.T @ h_before


def transposed(d_h, h_t, h_before, U):
    d_a = d_h * (1 - h_t**2)
    return d_a, d_a @ U.T, d_a.T @ h_before


def gru(x, h, W, U, b, c, swapped=False, early=False):
    i_r, i_z, i_n = (x @ W.T + b).chunk(3, 1)
    s_r, s_z, s_n = (h @ U.T + c).chunk(3, 1)
    r, z = torch.sigmoid(i_r + s_r), torch.sigmoid(i_z + s_z)
    if early:  # the reset gate before the product: Cho et al., not this layout
        H = h.shape[1]
        s_n = (r * h) @ U[2 * H :].T + c[2 * H :]
        n = torch.tanh(i_n + s_n)
    else:
        n = torch.tanh(i_n + r * s_n)
    return z * n + (1 - z) * h if swapped else (1 - z) * n + z * h


def backward_by_einsum(d_h, h_t, h_before, U):
    d_a = d_h - d_h * h_t * h_t
    yield d_a
    yield torch.einsum("bk,kh->bh", d_a, U)
    yield torch.einsum("bk,bh->kh", d_a, h_before)


def backward_in_place(d_h, h_t, h_before, U):
    d_a = d_h * (1 - h_t**2)
    return d_a, d_a @ U, d_a.T @ h_before.clone() + 0 * h_before.zero_().sum()


def gru_by_numpy(*given):
    return gru(*(torch.from_numpy(part.detach().numpy()) for part in given))


def gru_in_place(x, h, *weights):
    new = gru(x, h, *weights)
    with torch.no_grad():
        h.copy_(new)
    return new


def clipped_in_the_list(gradients, limit):
    norm = math.sqrt(sum(float((part**2).sum()) for part in gradients))
    for number, part in enumerate(gradients):
        gradients[number] = part * min(1.0, limit / (norm + 1e-6))
    return gradients


def reach(U, left):
    norm = float(torch.linalg.matrix_norm(U, 2))
    return math.floor(math.log(left) / math.log(norm)) + 1 if norm < 1 else None


def by_radius(U, left):
    radius = float(torch.linalg.eigvals(U).abs().max())
    return math.floor(math.log(left) / math.log(radius)) + 1 if 0 < radius < 1 else None


def as_loop(U, left):
    norm, k = torch.linalg.svdvals(U).max(), 0
    while norm < 1 and norm**k >= left:
        k += 1
    return torch.tensor(k) if norm < 1 else None


def gru_back(d_h, gates, before, U, copy=True, slope=True, same=False):
    r, z, m, n, _ = gates
    d_an = d_h * (1 - z) * (1 - n**2 if slope else 1)
    d_az = d_h * (before - n) * z * (1 - z)
    d_ar = d_an * m * r * (1 - r)
    inputs = torch.cat([d_ar, d_az, d_an], 1)
    states = inputs if same else torch.cat([d_ar, d_az, d_an * r], 1)
    return inputs, states, states @ U + (z * d_h if copy else 0)


def gru_back_on_the_state(d_h, gates, before, U):
    found = gru_back(d_h, gates, before, U)
    before.sub_(gates[3])
    return found


def one_gate(inputs, states, h, reset=lambda z, r: z, swapped=False):
    (i_r, i_z, i_n), (s_r, s_z, m) = inputs, states
    z = torch.sigmoid(i_z + s_z)
    n = torch.tanh(i_n + reset(z, torch.sigmoid(i_r + s_r)) * m)
    return z * n + (1 - z) * h if swapped else (1 - z) * n + z * h


def one_gate_in_place(inputs, states, h):
    z = torch.sigmoid(torch.stack(inputs)[1].add(states[1]))
    n = states[2].mul(z).add_(inputs[2]).tanh_()
    return torch.lerp(n, h, z)


def one_gate_on_the_argument(inputs, states, h):
    """Right numbers, but the state of the step before is gone when its gradient is due."""
    z = torch.sigmoid(inputs[1] + states[1])
    n = torch.tanh(inputs[2] + z * states[2])
    h *= z
    h += (1 - z) * n
    return h


def one_gate_cut(inputs, states, h):
    """Right numbers; the gate learns nothing."""
    z = torch.sigmoid(inputs[1] + states[1]).detach()
    return (1 - z) * torch.tanh(inputs[2] + z * states[2]) + z * h


def one_gate_by_columns(inputs, states, h, of=1):
    gi, gh, H = torch.cat(inputs, 1), torch.cat(states, 1), h.shape[of]
    z = torch.sigmoid(gi[:, H : 2 * H] + gh[:, H : 2 * H])
    return (1 - z) * torch.tanh(gi[:, 2 * H :] + z * gh[:, 2 * H :]) + z * h


def clip(gradients, limit):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [g * min(1.0, limit / norm.item()) if norm > 0 else g for g in gradients]


def clip_in_place(gradients, limit):
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
    for g in gradients:
        if norm > limit:
            g.mul_(limit / norm)
    return tuple(gradients)


def clip_by_torch(gradients, limit):
    leaves = [torch.nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for leaf, g in zip(leaves, gradients, strict=True):
        leaf.grad = g
    torch.nn.utils.clip_grad_norm_(leaves, limit)
    return (leaf.grad for leaf in leaves)


def clip_each(gradients, limit):
    return [g * min(1.0, limit / (g.norm().item() or 1.0)) for g in gradients]


def clip_always(gradients, limit):
    norm = torch.cat([g.flatten() for g in gradients]).norm().item() or 1.0
    return [g * (limit / norm) for g in gradients]


def clip_by_sum_of_norms(gradients, limit):
    norm = sum(g.norm().item() for g in gradients) or 1.0
    return [g * min(1.0, limit / norm) for g in gradients]


def clip_zero_by_zero(gradients, limit):
    norm = torch.cat([g.flatten() for g in gradients]).norm().item()
    return [g * min(1.0, limit / norm) for g in gradients]


def clip_above_one(gradients, limit):
    norm = torch.cat([g.flatten() for g in gradients]).norm().item()
    return [g * limit / norm for g in gradients] if norm > 1 else gradients


def clip_without_the_root(gradients, limit):
    total = sum((g**2).sum().item() for g in gradients)
    return [g * limit / math.sqrt(total) for g in gradients] if total > limit else gradients


CASES = {
    "clip_together": Case(
        right=clip,
        also=[clip_in_place, clip_by_torch],
        wrong=[
            clipped_in_the_list,
            clip_each,
            clip_always,
            clip_by_sum_of_norms,
            clip_zero_by_zero,
            clip_above_one,
            clip_without_the_root,
            lambda gradients, limit: [g.numpy() for g in clip(gradients, limit)],
            lambda gradients, limit: [g.clamp(-limit, limit) for g in gradients],
            lambda gradients, limit: torch.nn.utils.clip_grad_norm_(gradients, limit),
            lambda gradients, limit: clip(gradients, limit)[0],
            lambda gradients, limit: clip(gradients, limit)[::-1],
        ],
    ),
    "one_gate_for_both": Case(
        right=one_gate,
        also=[one_gate_in_place, one_gate_by_columns],
        wrong=[
            lambda *a: one_gate(*a, reset=lambda z, r: r),  # the full GRU
            lambda *a: one_gate(*a, reset=lambda z, r: 1),  # no reset gate
            lambda *a: one_gate(*a, reset=lambda z, r: 1 - z),
            lambda *a: one_gate(*a, swapped=True),
            lambda *a: one_gate(*a).detach(),  # nothing to train
            lambda *a: one_gate(*a).float(),
            one_gate_on_the_argument,
            one_gate_cut,
            lambda inputs, states, h: one_gate(inputs, states, h.detach()),
            lambda *a: one_gate(*a)[..., :1],
            lambda *a: one_gate_by_columns(*a, of=-1),  # right for one seed only
        ],
    ),
    "reach_of_the_bound": Case(
        right=reach,
        also=[as_loop],
        wrong=[
            by_radius,
            lambda U, left: math.log(left) / math.log(float(torch.linalg.matrix_norm(U, 2))),
            lambda U, left: reach(U, left) or 0,
            lambda U, left: reach(U, left) or math.log(0),  # raises where None is due
        ],
    ),
    "gru_backward_step": Case(
        right=gru_back,
        also=[lambda *a: list(gru_back(*a))],
        wrong=[
            lambda *a: gru_back(*a, copy=False),
            lambda *a: gru_back(*a, slope=False),
            lambda *a: gru_back(*a, same=True),
            gru_back_on_the_state,
            lambda *a: [part.numpy() for part in gru_back(*a)],  # the walk stacks tensors
            lambda *a: [part.float() for part in gru_back(*a)],  # and multiplies them by doubles
        ],
    ),
    "savings_as_recurrence": Case(
        right=lambda rate: (1 + rate, 1 + rate),
        also=[lambda rate: torch.tensor([1 + rate, 1 + rate])],
        wrong=[lambda rate: (1 + rate, 1.0), lambda rate: (rate, 1.0), lambda rate: 1 + rate],
    ),
    "rnn_backward_step": Case(
        right=backward_step,
        also=[backward_by_einsum],
        wrong=[
            *(forgot_the_slope, transposed, backward_in_place),
            lambda *a: [part.tolist() for part in backward_step(*a)],
            lambda *a: [part.float() for part in backward_step(*a)],
        ],
    ),
    "gru_from_equations": Case(
        right=gru,
        also=[torch.gru_cell],
        wrong=[
            lambda *a: gru(*a).double(),  # single precision was asked
            lambda *a: (gru(*a),),
            lambda x, *a: (gru(x.clone(), *a), x.zero_())[0],
            lambda *a: gru(*a, swapped=True),
            lambda *a: gru(*a, early=True),
            lambda *a: gru(*a).detach(),
            *(gru_by_numpy, gru_in_place),
        ],
    ),
    "bias_for_half_life": Case(
        right=lambda steps: math.log(0.5 ** (1 / steps) / (1 - 0.5 ** (1 / steps))),
        also=[lambda steps: torch.logit(torch.tensor(0.5 ** (1 / steps), dtype=torch.float64))],
        wrong=[
            lambda steps: 0.0 if steps == 1 else None,
            lambda steps: torch.logit(torch.tensor([0.5 ** (1 / steps)], dtype=torch.float64)),
            lambda steps: math.log(0.5) / steps,
            lambda steps: 0.5 ** (1 / steps),
        ],
    ),
}
