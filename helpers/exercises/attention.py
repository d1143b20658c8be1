"""Checks behind the exercises of 04: attention pooling, masks, and why padding is wrong."""

from __future__ import annotations

from helpers.exercises.core import call, close, exercise, wrong


@exercise
def attention_pooling(answer):
    """answer(h, W, b, u) -> (s, alpha): pooling of one sentence's states h (n, H)."""
    import torch

    torch.manual_seed(0)
    for n, H in ((1, 2), (3, 4), (7, 3)):
        h, W = torch.randn(n, H).double(), torch.randn(H, H).double()
        b, u = torch.randn(H).double(), 3 * torch.randn(H).double()
        alpha = (torch.tanh(h @ W.T + b) @ u).softmax(0)
        got = call(answer, h.clone(), W, b, u)
        if not (isinstance(got, (tuple, list)) and len(got) == 2):
            wrong(f"expected two tensors (s, alpha), got {type(got).__name__}")
        close(got[1], alpha, f"alpha of a sentence of {n} words")
        close(got[0], alpha @ h, f"s of a sentence of {n} words")


@exercise
def mask_from_lengths(answer):
    """answer(lengths, width) -> bool tensor (N, width), True where there is a word."""
    import torch

    for lengths, width in (([1, 3, 2], 3), ([2], 5), ([4, 4], 4)):
        got = call(answer, torch.tensor(lengths), width)
        if not isinstance(got, torch.Tensor) or got.dtype != torch.bool:
            wrong(f"expected a tensor of torch.bool, got {getattr(got, 'dtype', type(got))}")
        want = [[t < n for t in range(width)] for n in lengths]
        close(got.float(), torch.tensor(want).float(), f"the mask of lengths {lengths}")


@exercise
def masked_softmax(answer):
    """answer(score, keep) -> softmax over the last axis, 0 where keep is False."""
    import torch

    torch.manual_seed(0)
    score = torch.tensor([[1.0, 2.0, 3.0], [-50.0, -60.0, 900.0], [0.0, 0.0, 0.0]]).double()
    keep = torch.tensor([[True, True, True], [True, True, False], [True, False, False]])
    got = call(answer, score.clone(), keep.clone())
    want = score.masked_fill(~keep, -torch.inf).softmax(-1)
    close(got, want, "the weights of three rows")


@exercise
def why_padding_is_wrong(answer):
    """answer: the letters of all true statements, in any order."""
    letters = set(str(answer).lower()) & set("abcde")
    true = {"b", "c"}
    if letters - true:
        wrong("at least one statement that you name is false: test it with two documents")
    if true - letters:
        wrong("a true statement is missing: follow the backward direction, then the softmax")
