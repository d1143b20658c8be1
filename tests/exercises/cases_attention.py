"""Answers to the exercises of 04: the right one, and wrong ones that a reader could write."""

import torch

from tests.exercises.case import Case


def pooling(h, W, b, u):
    alpha = (torch.tanh(h @ W.T + b) @ u).softmax(0)
    return alpha @ h, alpha


def no_tanh(h, W, b, u):
    alpha = ((h @ W.T + b) @ u).softmax(0)
    return alpha @ h, alpha


def summed_representations(h, W, b, u):
    v = torch.tanh(h @ W.T + b)
    alpha = (v @ u).softmax(0)
    return alpha @ v, alpha


def zeros_after(score, keep):
    return score.softmax(-1) * keep


def zero_score(score, keep):
    return score.masked_fill(~keep, 0.0).softmax(-1)


CASES = {
    "attention_pooling": Case(right=pooling, wrong=[no_tanh, summed_representations]),
    "mask_from_lengths": Case(
        right=lambda lengths, width: torch.arange(width) < lengths[:, None],
        wrong=[
            lambda lengths, width: torch.arange(width) <= lengths[:, None],
            lambda lengths, width: torch.arange(width) >= lengths[:, None],
            lambda lengths, width: (torch.arange(width) < lengths[:, None]).float(),
        ],
    ),
    "masked_softmax": Case(
        right=lambda score, keep: score.masked_fill(~keep, -torch.inf).softmax(-1),
        wrong=[zeros_after, zero_score],
    ),
    "why_padding_is_wrong": Case(right="bc", wrong=["b", "abc", "a", "c"]),
}
