"""Answers to the exercises of notebook 02."""
# ruff: noqa: F821 - answers on the ranks find comm, size, dist and MPI among their names

import math

import numpy as np

from tests.exercises.case import Case


def mean(model, divide_by=None, of="grad"):
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(getattr(parameter, of))
        getattr(parameter, of).div_(divide_by or dist.get_world_size())
    return model


def mean_of_mpi(model):
    for parameter in model.parameters():
        comm.Allreduce(MPI.IN_PLACE, parameter.grad.numpy())
        parameter.grad /= dist.get_world_size()
    return model


def first_tensor_only(model):
    dist.all_reduce(next(model.parameters()).grad, op=dist.ReduceOp.AVG)
    return model


def only_rank_0(model):
    return mean(model) if dist.get_rank() == 0 else model


def rebinds(model):
    for parameter in model.parameters():
        total = parameter.grad.clone()
        dist.all_reduce(total)
        parameter.grad = total / size
    return model


def from_one_source(comm, layers):
    from mpi4py import MPI

    status = MPI.Status()
    comm.Recv(layers[0], MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    for layer in layers[1:]:
        comm.Recv(layer, status.Get_source())
    return status.Get_source()


def by_probe(comm, layers):
    status = MPI.Status()
    comm.Probe(status=status)
    for layer in layers:
        comm.Recv(layer, source=status.source, tag=status.tag)
    return status.source


def from_anyone(comm, layers):
    status = MPI.Status()
    for layer in layers:
        comm.Recv(layer, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    return status.source


def into_arrays_of_its_own(comm, layers):
    status = MPI.Status()
    comm.Recv(layers[0], status=status)
    for number in range(1, len(layers)):
        layers[number] = np.zeros_like(layers[number])
        comm.Recv(layers[number], status.source)
    return status.source


def four_layers_only(comm, layers):
    status = MPI.Status()
    comm.Recv(layers[0], status=status)
    for number in (1, 2, 3):
        comm.Recv(layers[number], status.source)
    return status.source


def always_rank_1(comm, layers):
    for layer in layers:
        comm.Recv(layer, 1)
    return 1


def ages(workers):
    last, found = {}, []
    for update, worker in enumerate(workers):
        found.append(update - last.get(worker, 0))
        last[worker] = update + 1
    return found


def _elastic(
    name,
    all_steps=False,
    own_centre=False,
    equal=True,
    leaves_a_message=False,
    by_messages=False,
    one_is_missing=False,
    cloned=True,
    bound=None,
):
    """Make a class of elastic averaging, right or with one fault."""

    def make(comm, period, pull):
        import numpy as np

        from helpers.data_parallel import Scheme

        class Elastic(Scheme):
            def begin(self, replica):
                if equal:
                    super().begin(replica)
                if leaves_a_message and self.comm.Get_rank():
                    self.comm.send("nobody takes this", 0)
                self.centre = replica.flat.values.clone() if cloned else replica.flat.values

            def after_step(self, replica, step):
                if (step + 1) % period and not all_steps:
                    return
                apart = pull * (replica.flat.values - self.centre)
                if bound:
                    setattr(replica.flat, bound, replica.flat.values - apart)
                else:
                    replica.flat.values -= apart
                total = apart.numpy().copy()
                if by_messages and self.comm.Get_rank():
                    self.comm.send(total, 0)
                elif by_messages:
                    total = total + sum(self.comm.recv() for _ in range(1, self.comm.Get_size()))
                if by_messages:
                    total = self.comm.bcast(total)
                elif not own_centre and not (one_is_missing and self.comm.Get_rank() == 2):
                    self.comm.Allreduce(apart.numpy(), total)
                self.centre += type(apart)(total) if isinstance(total, np.ndarray) else total

        return Elastic(comm)

    make.__name__ = name
    return make


def smallest(fixed, per_sample, synchronize, others, rounded=math.floor, more=1):
    return max(1, rounded((synchronize / others - fixed) / per_sample) + more)


CASES = {
    "sync_gradients": Case(
        right=mean,
        also=[mean_of_mpi],
        wrong=[
            lambda model: mean(model) and None,  # forgets to return
            *(first_tensor_only, lambda model: mean(model, of="data")),
            lambda model: mean(model, divide_by=4),
            rebinds,
        ],
        hangs=[only_rank_0],
    ),
    "more_bytes_from": Case(
        right=lambda width, parameters: parameters // (2 * width) + 1,
        wrong=[
            lambda width, parameters: parameters // width + 1,  # one way only
            lambda width, parameters: -(-parameters // (2 * width)),  # as many is not more
        ],
    ),
    "receive_gradient": Case(
        right=from_one_source,
        also=[by_probe],
        wrong=[
            from_anyone,
            into_arrays_of_its_own,
            four_layers_only,
        ],
        hangs=[always_rank_1],
    ),
    "staleness_of": Case(
        right=ages,
        also=[lambda w: np.array(ages(w))],
        wrong=[lambda workers: [age + 1 for age in ages(workers)]],
    ),
    "predict_crossing": Case(
        right=lambda f, p, s, R: smallest(f, p, s, R - 1),
        wrong=[
            lambda f, p, s, R: smallest(0, p, s, R - 1),
            lambda f, p, s, R: smallest(f, p, s, R - 1, math.ceil, 0),  # equal is not faster
            lambda f, p, s, R: smallest(f, p, s, R - 1, round),
        ],
    ),
    "elastic": Case(
        right=_elastic("right"),
        also=[_elastic("by_messages", by_messages=True)],  # not one that another left over
        wrong=[
            _elastic("a_centre_of_its_own", own_centre=True),
            _elastic("begin_different", equal=False),
            _elastic("leaves_a_message", all_steps=True, leaves_a_message=True),
        ],
        hangs=[_elastic("one_is_missing", one_is_missing=True)],
        told={
            "the same tensor as": _elastic("is_no_clone", cloned=False),
            "another tensor": _elastic("binds_the_values", bound="values"),
            "is the tensor changed in place": _elastic("binds_a_name", bound="some"),
        },
    ),
}
