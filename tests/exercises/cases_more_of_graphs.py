"""Answers to exercises of A5: right ones, and wrong ones that a reader could write."""

import numpy as np

from helpers import autodiff
from tests.exercises.case import Case


def back(dh, dU, x, h, U, slope=lambda new: 1 - new**2, turned=True, more=True):
    da = dh * slope(np.tanh(x + h @ U))
    share = h.T @ da
    return da @ (U.T if turned else U), dU + share if more else share


def into_the_sum(dh, dU, x, h, U):
    """Right: by cosh and einsum, dU in place, in a list."""
    dh /= np.cosh(x + h @ U) ** 2
    dU += np.einsum("ri,rj->ij", h, dh)
    return [np.einsum("rj,ij->ri", dh, U), dU]


def of_the_new_state(dh, dU, x, h, U):
    """Wrong: U's share with the state after the step."""
    da = dh * (1 - np.tanh(x + h @ U) ** 2)
    return da @ U.T, dU + np.tanh(x + h @ U).T @ da


def over_the_state(dh, dU, x, h, U):
    found = back(dh, dU, x, h, U)
    h *= 0
    return found


def averaged(node, operands, gradients, average):
    if node.output in gradients:
        return average(autodiff.apply(node.operator, *operands))
    return None


def rebuilds_all(node, operands, gradients, average):
    """Right: builds every application anew."""
    new = autodiff.apply(node.operator, *operands, after=node.after)
    return average(new) if any(node.output is g for g in gradients) else new


def keeps_the_old(node, operands, gradients, average):
    """Wrong: readers of an average keep reading the gradient."""
    return averaged(node, operands, gradients, average) or node.output


def averages_twice(node, operands, gradients, average):
    found = averaged(node, operands, gradients, average)
    return found and average(found)


CASES = {
    "averaging_rule": Case(
        right=averaged,
        also=[rebuilds_all],
        wrong=[
            keeps_the_old,
            averages_twice,
            lambda node, xs, gs, average: average(node.output) if node.output in gs else None,
            lambda node, xs, gs, average: averaged(node, node.inputs, gs, average),
            lambda node, xs, gs, average: averaged(node, xs, gs[:1], average),
            lambda node, xs, gs, average: average(autodiff.apply(node.operator, *xs)),
            lambda node, xs, gs, average: autodiff.apply(node.operator, *xs),  # averages none
        ],
        told={
            "expected a variable or None": lambda node, *_: node,
            "it raised": lambda node, xs, gs, average: average(node.operator(*xs)),
        },
    ),
    "back_step": Case(
        right=back,
        also=[into_the_sum],
        wrong=[
            lambda *a: back(*a, slope=lambda new: 1 - new),
            lambda *a: back(*a, slope=lambda new: 1 + 0 * new),  # no tanh
            lambda *a: back(*a, turned=False),
            lambda *a: back(*a, more=False),
            of_the_new_state,
            lambda *a: back(*a)[::-1],
            lambda *a: back(*a)[0],
        ],
        told={"its argument h": over_the_state},
    ),
}
