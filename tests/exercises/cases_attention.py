"""Answers to the exercises of 04: the right one, and wrong ones that a reader could write."""

import itertools
import math
import random

import numpy as np
import torch

from tests.exercises.case import Case


def pooling(h, W, b, u):
    alpha = (torch.tanh(h @ W.T + b) @ u).softmax(0)
    return alpha @ h, alpha


def no_tanh(h, W, b, u):
    alpha = ((h @ W.T + b) @ u).softmax(0)
    return alpha @ h, alpha


def zeros_after(score, keep):
    return score.softmax(-1) * keep


def by_source(sources, share, whole=round):
    different = sorted(set(sources))
    chosen = set(random.Random(0).sample(different, whole(share * len(different))))
    return [s in chosen for s in sources]


def last_sources(sources, share):
    different = list(dict.fromkeys(sources))
    return np.isin(sources, different[-round(share * len(different)) :])


def paired(mine, theirs):
    a, b = int((mine & ~theirs).sum()), int((~mine & theirs).sum())
    n, low = a + b, min(a, b)
    return a, b, min(1.0, 2 * sum(math.comb(n, k) for k in range(low + 1)) / 2**n)


def one_sided(mine, theirs):
    a, b, p = paired(mine, theirs)
    return a, b, p / 2


def all_right(mine, theirs):
    _, _, p = paired(mine, theirs)
    return int(mine.sum()), int(theirs.sum()), p


def gradient_input(p, vectors):
    x = vectors.clone().requires_grad_()
    p(x).backward()
    return (x.grad * x).sum(dim=1).tolist()


def attached(p, vectors):
    x = vectors.clone().requires_grad_()
    return (torch.autograd.grad(p(x), x)[0] * x).sum(1)  # with a graph


def gradient_alone(p, vectors):
    x = vectors.clone().requires_grad_()
    return torch.autograd.grad(p(x), x)[0].norm(dim=1)


def greedy(answers, n, same=lambda p, first: int(p.argmax()) == first, most=None):
    first, hidden = int(answers([set()])[0].argmax()), set()
    while same(answers([hidden])[0], first) and len(hidden) < (most or n):
        left = [k for k in range(n) if k not in hidden]
        found = answers([hidden | {k} for k in left])[:, first]
        hidden = hidden | {left[int(found.argmin())]}
    return sorted(hidden)


def without_an_end(answers, n):
    """Wrong if no set changes the answer."""
    return greedy(answers, n, most=n + 1)


def below_one_half(answers, n):
    """Wrong for three classes."""
    return greedy(answers, n, same=lambda p, first: p[first] >= 0.5)


def greedy_then_pruned(answers, n):
    first, hidden = int(answers([set()])[0].argmax()), set(greedy(answers, n))
    for k in sorted(hidden):
        if int(answers([hidden - {k}])[0].argmax()) != first:
            hidden.discard(k)
    return hidden


def one_ranking(answers, n):
    first = int(answers([set()])[0].argmax())
    cost = answers([{k} for k in range(n)])[:, first]
    order = cost.argsort().tolist()
    for many in range(1, n + 1):
        if int(answers([set(order[:many])])[0].argmax()) != first:
            return order[:many]
    return order


def too_early(answers, n):
    first = int(answers([set()])[0].argmax())
    return {int(answers([{k} for k in range(n)])[:, first].argmin())}


def minus_10000(score, keep):
    return (score - 1e4 * ~keep).softmax(-1)


def minus_100(score, keep):
    return score.masked_fill(~keep, -100.0).softmax(-1)


def pooling_by_numpy(*given):
    return tuple(part.detach().numpy() for part in pooling(*given))


def detached(*given):
    return pooling(*(part.detach() for part in given))


def with_one_detached(h, W, b, u):
    return pooling(h, W.detach(), b, u)


def softmax_by_loops(score, keep):
    """Right numbers, and nothing to train."""
    rows = []
    for row, kept in zip(score.tolist(), keep.tolist(), strict=True):
        most = max(s for s, k in zip(row, kept, strict=True) if k)
        parts = [math.exp(s - most) * k for s, k in zip(row, kept, strict=True)]
        rows.append([part / sum(parts) for part in parts])
    return torch.tensor(rows, dtype=score.dtype)


def renormalized(score, keep):
    """No weight is left for the words if padding scores far above them."""
    weight = score.softmax(-1) * keep
    return weight / weight.sum(-1, keepdim=True)


def by_logsumexp(score, keep):
    filled = score.masked_fill(~keep, -torch.inf)
    return torch.exp(filled - torch.logsumexp(filled, -1, keepdim=True))


def softmax_of_each_row(score, keep):
    """Right, in torch's usual dtype."""
    rows = zip(score, keep, strict=True)
    return torch.stack(
        [torch.zeros(len(row)).masked_scatter(kept, row[kept].softmax(0)) for row, kept in rows]
    )


def softmax_in_place(score, keep):
    score[~keep] = -torch.inf
    return score.softmax(-1)


def a_coin_for_each(sources, share):
    return [random.Random(f"coin {name}").random() < share for name in sources]


def all_sets(answers, n):
    first = int(answers([set()])[0].argmax())
    for many in range(1, n + 1):
        for chosen in itertools.combinations(range(n), many):
            if int(answers([set(chosen)])[0].argmax()) != first:
                return chosen
    return set(range(n))


CASES = {
    "attention_pooling": Case(
        right=pooling,
        also=[lambda *a: iter(pooling(*a))],
        wrong=[
            *(no_tanh, pooling_by_numpy),
            lambda *a: pooling(*a)[::-1],
        ],
        told={
            "is W applied to each state": lambda h, W, b, u: pooling(h, W.T, b, u),
            "does not flow back to h": detached,
            "does not flow back to W": with_one_detached,
        },
    ),
    "mask_from_lengths": Case(
        right=lambda lengths, width: torch.arange(width) < lengths[:, None],
        wrong=[
            lambda lengths, width: torch.arange(width) <= lengths[:, None],
            lambda lengths, width: (torch.arange(width) < lengths[:, None]).float(),
        ],
        told={"got array(": lambda lengths, width: np.arange(width) < lengths.numpy()[:, None]},
    ),
    "masked_softmax": Case(
        right=lambda score, keep: score.masked_fill(~keep, -torch.inf).softmax(-1),
        also=[softmax_in_place, softmax_of_each_row, by_logsumexp],
        told={"the padding scores 900": renormalized, "scores 1e30": minus_10000},
        wrong=[zeros_after, minus_100, softmax_by_loops],
    ),
    "held_out_sources": Case(
        right=by_source,
        wrong=[
            *(last_sources, a_coin_for_each),
            lambda sources, share: [k % 4 == 0 for k in range(len(sources))],  # by document
            lambda *a: iter(by_source(*a)),  # the notebook goes through it four times
        ],
        told={
            "of 403 sources it holds out 100": lambda *a: by_source(*a, int),
            "of 1502 sources it holds out 151": lambda *a: by_source(*a, math.ceil),
        },
    ),
    "why_padding_is_wrong": Case(
        right="bce",
        also=["B, C and E", {"e", "b", "c"}],
        wrong=["b", "abce", "bcez"],
    ),
    "who_is_ahead": Case(
        right="bde",
        also=["E, D and B", ["b", "d", "e"]],
        wrong=["abde", "a", "bcde", "de", "ade", "abcde"],
        told={"ask which documents": "bd"},
    ),
    "paired_comparison": Case(
        right=paired,
        also=[lambda *a: iter(paired(*a))],
        wrong=[all_right, lambda *a: paired(*a)[:2]],
        told={"in one direction only": one_sided},
    ),
    "gradient_times_input": Case(
        right=gradient_input,
        also=[attached],
        wrong=[gradient_alone],
    ),
    "fewest_words": Case(
        right=greedy,
        also=[greedy_then_pruned],
        wrong=[
            *(one_ranking, too_early, all_sets),
            lambda *a: iter(greedy(*a)),  # the notebook counts them
            without_an_end,
        ],
        told={"three classes": below_one_half},
    ),
}
