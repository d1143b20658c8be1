"""Checks behind the exercises of 04: splits, pooling, masks, padding, and explanations."""

from __future__ import annotations

from collections.abc import Sequence

from helpers.exercises.answers import letters, several, whole_numbers
from helpers.exercises.core import call, close, exercise, short, wrong


@exercise
def attention_pooling(answer):
    """answer(h, W, b, u) -> (s, alpha): pooling of one sentence's states h (n, H)."""
    import torch

    torch.manual_seed(0)
    for n, H in ((1, 2), (3, 4), (7, 3)):
        h, W = torch.randn(n, H).double(), torch.randn(H, H).double()
        b, u = torch.randn(H).double(), 3 * torch.randn(H).double()
        leaves = [each.requires_grad_() for each in (h, W, b, u)]
        alpha = (torch.tanh(h @ W.T + b) @ u).softmax(0)
        lent = [each * 1 for each in leaves]
        got = several(call(answer, *lent), 2, "expected two tensors (s, alpha)")
        if not all(isinstance(part, torch.Tensor) for part in got):
            wrong(f"expected two tensors (s, alpha), got {[type(part).__name__ for part in got]}")
        turned = (torch.tanh(h @ W + b) @ u).softmax(0)
        if n > 1 and got[1].shape == (n,) and torch.allclose(got[1].double(), turned):
            wrong("alpha: is W applied to each state, a row of h, as a matrix to a vector?")
        sentence = f"a sentence of {n} word{'s' * (n > 1)}"
        wanted = alpha @ h, alpha
        for name, mine, want in reversed(list(zip(("s", "alpha"), got, wanted, strict=True))):
            close(mine.detach(), want.detach(), f"{name} of {sentence}")
        for name, mine, want in zip(("s", "alpha"), got, wanted, strict=True):
            weight = torch.randn(want.shape).double()
            true = torch.autograd.grad(want, leaves, weight, allow_unused=True, retain_graph=True)
            found: Sequence = [None] * 4
            if mine.requires_grad:
                found = torch.autograd.grad(
                    mine, leaves, weight.to(mine.dtype), allow_unused=True, retain_graph=True
                )
            for leaf, gradient, expected in zip("hWbu", found, true, strict=True):
                where = f"{name} of {sentence} is right, but its gradient"
                if gradient is None and expected.abs().max() > 1e-9:
                    wrong(f"{where} does not flow back to {leaf}")
                if gradient is not None:
                    close(gradient, expected, f"{where} with respect to {leaf}", atol=1e-6)


@exercise
def mask_from_lengths(answer):
    """answer(lengths, width) -> bool tensor (N, width), True where there is a word."""
    import torch

    for lengths, width in (([1, 3, 2], 3), ([2], 5), ([4, 4], 4)):
        got = call(answer, torch.tensor(lengths), width)
        if not isinstance(got, torch.Tensor) or got.dtype != torch.bool:
            wrong(f"expected a tensor of torch.bool, got {short(got)}")
        want = [[t < n for t in range(width)] for n in lengths]
        close(got.float(), torch.tensor(want).float(), f"the mask of lengths {lengths}")


@exercise
def masked_softmax(answer):
    """answer(score, keep) -> softmax over the last axis, 0 where keep is False."""
    import torch

    torch.manual_seed(0)
    score = torch.tensor([[1.0, 2.0, 3.0], [-5.0, -6.0, 0.0], [0.0, 0.0, 0.0]])
    keep = torch.tensor([[True, True, True], [True, True, False], [True, False, False]])
    for rows, kept, what in (
        (score, keep, "the weights of three rows"),
        (score - 50 + 950 * ~keep, keep, "the weights where the padding scores 900"),
        (score.masked_fill(~keep, 1e30), keep, "the weights where the padding scores 1e30"),
        (score[1:2] - 1000, keep[1:2], "the weights where the words score −1005 and −1006"),
    ):
        leaf, weight = rows.clone().requires_grad_(), torch.randn(rows.shape)
        want = leaf.masked_fill(~kept, -torch.inf).softmax(-1)
        got = call(answer, leaf * 1, kept.clone())
        near = {"rtol": 1e-3, "atol": 1e-4}  # score − logsumexp loses digits at −1000
        close(got.detach() if isinstance(got, torch.Tensor) else got, want.detach(), what, **near)
        if not getattr(got, "requires_grad", False):
            wrong(f"{what} are right, but no gradient comes back: is it torch throughout?")
        (mine,) = torch.autograd.grad(got, leaf, weight)
        true = torch.autograd.grad(want, leaf, weight)[0]
        close(mine, true, f"the gradient back from {what}", **near)


@exercise
def held_out_sources(answer):
    """answer(sources, share) -> one bool a document: whether its source is held out."""
    import numpy as np

    rng = np.random.default_rng(0)
    for many, share in ((403, 0.25), (1502, 0.1), (300, 0.5)):
        names = [f"source{k}" for k in range(many)]
        sources = [name for name in names for _ in range(rng.integers(1, 5))]
        rng.shuffle(sources)
        found_here = call(answer, list(sources), share)
        got = np.asarray(found_here)
        if got.shape != (len(sources),) or not np.isin(got, (0, 1)).all():
            wrong(
                f"{len(sources)} documents: expected a list or an array of as many True and False, "
                f"got {found_here!r:.60}"
            )
        found: dict[str, set[bool]] = {}
        for name, held in zip(sources, got, strict=True):
            found.setdefault(name, set()).add(bool(held))
        if torn := [name for name, both in found.items() if len(both) > 1]:
            wrong(f"{len(torn)} of {many} sources have documents on both sides: {torn[0]} has")
        out = [name for name, both in found.items() if both == {True}]
        if len(out) != round(share * many):
            wrong(
                f"of {many} sources it holds out {len(out)}, which is not the nearest whole number "
                f"to a share of {share}"
            )
        for order, where in ((list(found), "the list"), (sorted(found), "the alphabet")):
            if abs(np.mean([order.index(name) for name in out]) / many - 0.5) > 0.15:
                wrong(f"not at random: its sources lie at one end of {where}")


@exercise
def why_padding_is_wrong(answer, order="ABCDE"):
    """answer: the letters of all true statements; these may stand in another order."""
    hints = {
        "B": "follow the backward direction",
        "C": "follow the softmax",
        "E": "think of batches that are padded alike",
    }
    _true_ones(answer, order, hints, "try them on two documents")


@exercise
def who_is_ahead(answer, order="ABCDE"):
    """answer: the letters of all statements about the curves of accuracy that are true."""
    hints = {
        "B": "compare the leads at all five rates",
        "D": "find both curves' highest points, and go one rate to the right",
        "E": "ask which documents chose the highest points",
    }
    _true_ones(answer, order, hints, "measure the distances")


def _true_ones(answer, order, hints, doubt):
    """Refuse letters unless they name all true statements, those in ``hints``, and no other."""
    named = letters(answer, order)
    if false := named - set(hints):
        wrong(f"{len(false)} of the statements that you name are false: {doubt}")
    if missing := sorted(set(hints) - named):
        wrong(f"{len(missing)} true statement(s) missing: {hints[missing[0]]}")


@exercise
def paired_comparison(answer):
    """answer(mine, theirs) -> (right only in mine, right only in theirs, p of the sign test)."""
    import numpy as np
    from scipy.stats import binomtest

    rng = np.random.default_rng(0)
    for n, share in ((40, 0.5), (900, 0.84), (12, 0.6)):
        mine, theirs = rng.random(n) < share, rng.random(n) < share - 0.1
        expected = "expected three numbers (only mine, only theirs, p)"
        got = several(call(answer, mine.copy(), theirs.copy()), 3, expected)
        a, b = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
        close(got[0], a, f"documents of {n} that only mine has right")
        close(got[1], b, f"documents of {n} that only theirs has right")
        p = binomtest(a, a + b, 0.5).pvalue
        one = min(binomtest(a, a + b, 0.5, alternative=side).pvalue for side in ("less", "greater"))
        if isinstance(got[2], float) and abs(got[2] - one) < 1e-9 < abs(p - one):
            wrong(f"p of {a} against {b}: it counts uneven splits in one direction only")
        close(got[2], p, f"p of {a} against {b}", rtol=1e-6)


@exercise
def gradient_times_input(answer):
    """answer(p, vectors) -> a score for each word (n): gradient of p times vector, summed."""
    import torch

    torch.manual_seed(0)
    for n, size in ((1, 3), (4, 2), (6, 5)):
        vectors, W = torch.randn(n, size).double(), torch.randn(n, size).double()

        def p(x, W=W):
            return torch.sigmoid((W * x).sum() + 0.3 * x.prod(dim=0).sum())

        leaf = vectors.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(p(leaf), leaf)
        got = call(answer, p, vectors.clone())
        got = got.detach() if isinstance(got, torch.Tensor) else got
        close(got, (gradient * vectors).sum(1), f"the scores of {n} words with {size} numbers each")


@exercise
def fewest_words(answer):
    """answer(answers, n) -> a small set of words whose hiding changes the answer."""
    for name, n, pushes, bias in _HIDDEN:
        asked = 0

        def answers(hidden, name=name, pushes=pushes, bias=bias, n=n):
            nonlocal asked
            asked += len(hidden)
            if asked > 4 * n * n + 40:
                wrong(f"{name}: more than {4 * n * n + 40} sets were tried for {n} words")
            return _probabilities(hidden, pushes, bias, n)

        chosen = set(whole_numbers(call(answer, answers, n), f"{name}: the words to hide"))
        greedy = _greedy(pushes, bias, n)
        if greedy is None:
            if chosen != set(range(n)):
                wrong(f"{name}: no set changes the answer, and it returned {sorted(chosen)}")
            continue
        before, after = _probabilities([set(), chosen], pushes, bias, n).argmax(1).tolist()
        if before == after:
            wrong(f"{name}: with {sorted(chosen)} hidden the answer is still the same")
        if len(chosen) > greedy:
            wrong(f"{name}: {len(chosen)} words are hidden, {greedy} are enough")


# What words add to each class: a set while one of it is to be seen, a tuple while all are.
_HIDDEN: tuple = (
    ("one word decides", 5, [({3}, (4.0, 0.0)), ({0}, (0.5, 0.0))], (0.0, 1.0)),
    (
        "one word speaks against it",
        6,
        [({1}, (3.0, 0.0)), ({4}, (0.0, 2.0)), ({2}, (1.5, 0.0))],
        (0.0, 0.5),
    ),
    ("two words make a phrase", 6, [((0, 5), (3.0, 0.0)), ({2}, (2.0, 0.0))], (0.0, 1.0)),
    ("two words say the same", 5, [({0, 4}, (4.0, 0.0)), ({2}, (0.3, 0.0))], (0.0, 1.0)),
    (
        "another class takes over",
        7,
        [({6}, (3.0, 0.0, 0.0)), ({1}, (0.0, 0.0, 2.0))],
        (0.0, 0.4, 0.2),
    ),
    (  # whoever waits for a probability below one half stops before the second word
        "three classes, and the answer has less than one half",
        5,
        [({2}, (0.3, 0.0, 0.0)), ({4}, (0.4, 0.0, 0.0))],
        (0.0, 0.2, 0.1),
    ),
    ("no word matters enough", 4, [({1}, (1.0, 0.0)), ({3}, (0.5, 0.0))], (0.5, 0.0)),
    (  # whoever tries all sets of up to four words tries too many
        "a long sentence",
        16,
        [({k}, (1.0, 0.0)) for k in (8, 10, 12, 13, 15)],
        (0.0, 1.5),
    ),
)


def _probabilities(hidden, pushes, bias, n):
    import torch

    rows = []
    for chosen in hidden:
        logits = torch.tensor(bias, dtype=torch.float64)
        for group, push in pushes:
            seen = len(set(group) - set(chosen)) / len(group)
            part = float(seen == 1) if isinstance(group, tuple) else (seen > 0) * (4 + seen) / 5
            logits = logits + part * torch.tensor(push)
        rows.append(logits.softmax(0))
    return torch.stack(rows)


def _greedy(pushes, bias, n) -> int | None:
    """Return how many words it takes if always the one is hidden that costs the answer most.

    None if it is the answer with all words hidden, too.
    """
    first = int(_probabilities([set()], pushes, bias, n).argmax())
    hidden: set[int] = set()
    while int(_probabilities([hidden], pushes, bias, n).argmax()) == first:
        if len(hidden) == n:
            return None
        left = [hidden | {k} for k in range(n) if k not in hidden]
        hidden = left[int(_probabilities(left, pushes, bias, n)[:, first].argmin())]
    return len(hidden)
