"""Answers to the exercises on several batches and a checkpoint (A2), and a straggler (02)."""

import copy

import numpy as np

from tests.exercises.case import Case


def one_sync(model, loss, batches, sync=lambda model: model, each=False, count=None, call=None):
    """Sync once, or after each batch; the losses are divided by as many, or by ``count``."""
    for x, y in batches:
        (loss((call or model)(x), y) / (count or len(batches))).backward()
        if each:
            sync(model)
    return model if each else sync(model)


def divided_after_sync(model, loss, batches, sync):
    for batch in batches:
        loss(model(batch[0]), batch[1]).backward()
    sync(model)
    for parameter in model.parameters():
        parameter.grad = parameter.grad / len(batches)
    return model


def by_autograd(model, loss, batches, sync):
    import torch

    parameters = list(model.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    for x, y in batches:
        for t, g in zip(total, torch.autograd.grad(loss(model(x), y), parameters), strict=True):
            t += g / len(batches)
    for parameter, t in zip(parameters, total, strict=True):
        parameter.grad = t
    return sync(model)


def one_large_batch(model, loss, batches, sync):
    import torch

    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    loss(model(x), y).backward()
    return sync(model)


def makes_a_step(model, loss, batches, sync):
    import torch

    one_sync(model, loss, batches, sync)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return model


def state(run):
    tensors = {"net": run.net.state_dict(), "sgd": run.sgd.state_dict()}
    return tensors | {"epoch": run.epoch, "done": run.done}


def go_on(run, saved):
    run.net.load_state_dict(saved["net"])
    run.sgd.load_state_dict(saved["sgd"])
    run.epoch, run.done = saved["epoch"], saved["done"]


def as_a_list(run):
    return [run.done, run.epoch, copy.deepcopy(run.sgd.state_dict()), run.net.state_dict()]


def from_a_list(run, saved):
    run.done, run.epoch, sgd, net = saved
    run.sgd.load_state_dict(sgd)
    run.net.load_state_dict(net)
    return run


def place_in_numpy(run, saved):
    go_on(run, saved)
    run.epoch, run.done = np.int64(saved["epoch"]), np.int64(saved["done"])


def without(*names):
    """Make a state and what goes on from it, some of its parts left out."""

    def some(run):
        return {name: part for name, part in state(run).items() if name not in names}

    def from_some(run, saved):
        for name, part in saved.items():
            if name in ("net", "sgd"):
                getattr(run, name).load_state_dict(part)
            else:
                setattr(run, name, part)

    return some, from_some


def parameters_only(run):
    return state(run) | {"net": [p.detach().clone() for p in run.net.parameters()]}


def from_parameters_only(run, saved):
    import torch

    with torch.no_grad():
        for parameter, value in zip(run.net.parameters(), saved["net"], strict=True):
            parameter.copy_(value)
    run.sgd.load_state_dict(saved["sgd"])
    run.epoch, run.done = saved["epoch"], saved["done"]


def momenta_only(run):
    buffers = [run.sgd.state[p]["momentum_buffer"] for p in run.net.parameters()]
    return state(run) | {"sgd": buffers}


def from_momenta_only(run, saved):
    run.net.load_state_dict(saved["net"])
    for parameter, buffer in zip(run.net.parameters(), saved["sgd"], strict=True):
        run.sgd.state[parameter]["momentum_buffer"] = buffer
    run.epoch, run.done = saved["epoch"], saved["done"]


def the_objects(run):
    return {"net": run.net, "sgd": run.sgd, "epoch": run.epoch, "done": run.done}


def with_another_net(run, saved):
    run.net = copy.deepcopy(run.net)  # the optimizer goes on with the tensors of the old one
    go_on(run, saved)


def back_to_the_beginning(run):
    run.epoch = run.done = 0
    return state(run)


def clears_the_momenta(run):
    run.sgd.state.clear()
    return state(run)


def place_in_tensors(run):
    import torch

    return state(run) | {"epoch": torch.tensor(run.epoch), "done": torch.tensor(run.done)}


def back_from_tensors(run, saved):
    go_on(run, saved | {"epoch": int(saved["epoch"]), "done": saved["done"].item()})


def speeds(k, workers, compute, rest):
    slow, others = k * compute + rest, compute + rest
    return workers / slow, (workers - 1) / others + 1 / slow


CASES = {
    "accumulate": Case(
        right=one_sync,
        also=[
            *(divided_after_sync, by_autograd),
            lambda model, *given: one_sync(model, *given, call=model.forward),  # past the hooks
        ],
        wrong=[
            lambda *given: one_sync(*given, count=1),
            lambda *given: one_sync(*given, each=True),
            lambda model, loss, batches, sync: one_sync(model, loss, batches),  # forgets to
            one_large_batch,
            lambda model, loss, batches, sync: one_sync(sync(model), loss, batches),  # too early
            *(makes_a_step, lambda *given: one_sync(*given) and None),
        ],
    ),
    "checkpoint": Case(
        right=(state, go_on),
        also=[
            (as_a_list, from_a_list),
            (state, place_in_numpy),
            (place_in_tensors, back_from_tensors),
        ],
        wrong=[
            without("sgd"),
            without("epoch"),
            without("done"),
            (parameters_only, from_parameters_only),
            (momenta_only, from_momenta_only),
            (the_objects, go_on),
            (back_to_the_beginning, go_on),
            (clears_the_momenta, go_on),
            (place_in_tensors, go_on),
            (state, with_another_net),
            (state, lambda run, saved: None),
        ],
    ),
    "with_a_straggler": Case(
        right=speeds,
        also=[lambda *asked: np.array(speeds(*asked))],
        wrong=[
            lambda k, workers, compute, rest: (1 / (k * compute + rest),) * 2,
            lambda k, workers, compute, rest: speeds(k, workers, compute, rest)[::-1],
            lambda k, workers, compute, rest: speeds(k, workers, compute, rest)[0],
        ],
    ),
}
