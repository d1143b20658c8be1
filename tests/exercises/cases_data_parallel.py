"""Answers to the exercises of notebook 02."""

import math

from tests.exercises.case import Case


def mean_by_hand(model):
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= dist.get_world_size()
    return model


def sum_for_mean(model):
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    return model


def first_tensor_only(model):
    import torch.distributed as dist

    gradient = next(model.parameters()).grad
    dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
    return model


def averages_the_parameters(model):
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(parameter.data, op=dist.ReduceOp.AVG)
    return model


def only_rank_0(model):
    import torch.distributed as dist

    if dist.get_rank() == 0:
        return mean_by_hand(model)
    return model


def mean_within_a_tensor(model):
    model = mean_by_hand(model)
    for parameter in model.parameters():
        parameter.grad[:] = parameter.grad.mean()
    return model


def no_messages(model):
    for parameter in model.parameters():
        parameter.grad /= 4
    return model


def reply(brings, sizes, expected, updates, limit):
    if updates >= limit:
        return False, "the training has ended"
    if brings == "gradient" and sizes != expected:
        return False, f"layers {sizes}, expected {expected}"
    return True, ""


def never_stops(brings, sizes, expected, updates, limit):
    return (sizes == expected or brings == "nothing"), "wrong layers"


def one_too_many(brings, sizes, expected, updates, limit):
    if updates > limit:
        return False, "the training has ended"
    return reply(brings, sizes, expected, 0, limit)


def refuses_the_first_hello(brings, sizes, expected, updates, limit):
    if updates >= limit or sizes != expected:
        return False, "no"
    return True, ""


def counts_the_layers_only(brings, sizes, expected, updates, limit):
    if brings == "gradient" and len(sizes) != len(expected):
        return False, "wrong number of layers"
    return reply("nothing", (), expected, updates, limit)


def smallest(fixed, per_sample, synchronize, ranks):
    return max(1, math.floor((synchronize / (ranks - 1) - fixed) / per_sample) + 1)


def divides_by_ranks(fixed, per_sample, synchronize, ranks):
    return max(1, math.floor((synchronize / ranks - fixed) / per_sample) + 1)


def forgets_what_is_fixed(fixed, per_sample, synchronize, ranks):
    return max(1, math.floor(synchronize / (ranks - 1) / per_sample) + 1)


def takes_equality_for_faster(fixed, per_sample, synchronize, ranks):
    return max(1, math.ceil((synchronize / (ranks - 1) - fixed) / per_sample))


CASES = {
    "sync_gradients": Case(
        right=mean_by_hand,
        wrong=[
            sum_for_mean,
            first_tensor_only,
            averages_the_parameters,
            only_rank_0,
            mean_within_a_tensor,
            no_messages,
        ],
    ),
    "ready_reply": Case(
        right=reply,
        wrong=[never_stops, one_too_many, refuses_the_first_hello, counts_the_layers_only],
    ),
    "predict_crossing": Case(
        right=smallest,
        wrong=[divides_by_ranks, forgets_what_is_fixed, takes_equality_for_faster],
    ),
}
