"""Answers to the exercises of notebook 02."""

import math

import numpy as np

from tests.exercises.case import Case


def mean_by_hand(model):
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= dist.get_world_size()
    return model


def forgets_to_return(model):
    mean_by_hand(model)


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


def by_names_of_the_ranks(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)  # noqa: F821 - known on the ranks
        parameter.grad /= size  # noqa: F821
    return model


def by_mpi(model):
    for parameter in model.parameters():
        comm.Allreduce(MPI.IN_PLACE, parameter.grad.numpy())  # noqa: F821
        parameter.grad /= comm.Get_size()  # noqa: F821
    return model


def by_four(model):
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= 4
    return model


def rebinds(model):
    import torch.distributed as dist

    for parameter in model.parameters():
        total = parameter.grad.clone()
        dist.all_reduce(total)
        parameter.grad = total / dist.get_world_size()
    return model


def returns_true(model):
    mean_by_hand(model)
    return True


def weighted(model, count):
    import torch
    import torch.distributed as dist

    total = torch.tensor([float(count)])
    dist.all_reduce(total)
    for parameter in model.parameters():
        parameter.grad *= count / total.item()
        dist.all_reduce(parameter.grad)
    return model


def plain_mean(model, count):
    return mean_by_hand(model)


def never_divides(model, count):
    for parameter in model.parameters():
        parameter.grad *= count
    return sum_for_mean(model)


def own_count_times_ranks(model, count):
    import torch.distributed as dist

    for parameter in model.parameters():
        parameter.grad *= count
        dist.all_reduce(parameter.grad)
        parameter.grad /= count * dist.get_world_size()
    return model


def from_one_source(comm, layers):
    from mpi4py import MPI

    status = MPI.Status()
    comm.Recv(layers[0], MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    for layer in layers[1:]:
        comm.Recv(layer, status.Get_source())
    return status.Get_source()


def by_probe(comm, layers):
    status = MPI.Status()  # noqa: F821 - known on the ranks
    comm.Probe(status=status)
    for layer in layers:
        comm.Recv(layer, source=status.source, tag=status.tag)
    return status.source


def from_anyone(comm, layers):
    from mpi4py import MPI

    status = MPI.Status()
    for layer in layers:
        comm.Recv(layer, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    return status.Get_source()


def four_layers(comm, layers):
    status = MPI.Status()  # noqa: F821
    comm.Recv(layers[0], status=status)
    for number in (1, 2, 3):
        comm.Recv(layers[number], status.source)
    return status.source


def into_arrays_of_its_own(comm, layers):
    import numpy as np

    status = MPI.Status()  # noqa: F821
    comm.Recv(layers[0], status=status)
    for number in range(1, len(layers)):
        layers[number] = np.zeros_like(layers[number])
        comm.Recv(layers[number], status.source)
    return status.source


def always_rank_1(comm, layers):
    for layer in layers:
        comm.Recv(layer, 1)
    return 1


def backwards(comm, layers):
    return from_one_source(comm, layers[::-1])


def first_layer_only(comm, layers):
    return from_one_source(comm, layers[:1])


def ages(workers):
    last, found = {}, []
    for update, worker in enumerate(workers):
        found.append(update - last.get(worker, 0))
        last[worker] = update + 1
    return found


def one_too_old(workers):
    return [age + 1 for age in ages(workers)]


def always_the_others(workers):
    return [len(set(workers)) - 1] * len(workers)


def fresh_at_first(workers):
    found = ages(workers)
    return [0 if worker not in workers[:i] else found[i] for i, worker in enumerate(workers)]


def _elastic(
    name,
    sign=1.0,
    tell_centre=True,
    all_steps=False,
    own_centre=False,
    equal=True,
    leaves_a_message=False,
    by_messages=False,
    one_is_missing=False,
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
                if tell_centre:
                    self.centre = replica.flat.values.clone()

            def after_step(self, replica, step):
                if not tell_centre or ((step + 1) % period and not all_steps):
                    return
                apart = pull * (replica.flat.values - self.centre)
                replica.flat.values -= sign * apart
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


def smallest(fixed, per_sample, synchronize, ranks):
    return max(1, math.floor((synchronize / (ranks - 1) - fixed) / per_sample) + 1)


def divides_by_ranks(fixed, per_sample, synchronize, ranks):
    return max(1, math.floor((synchronize / ranks - fixed) / per_sample) + 1)


def forgets_what_is_fixed(fixed, per_sample, synchronize, ranks):
    return max(1, math.floor(synchronize / (ranks - 1) / per_sample) + 1)


def takes_equality_for_faster(fixed, per_sample, synchronize, ranks):
    return max(1, math.ceil((synchronize / (ranks - 1) - fixed) / per_sample))


def rounds(fixed, per_sample, synchronize, ranks):
    return max(1, round((synchronize / (ranks - 1) - fixed) / per_sample) + 1)


def more_bytes(width, parameters):
    return parameters // (2 * width) + 1


CASES = {
    "sync_gradients": Case(
        right=mean_by_hand,
        also=[by_names_of_the_ranks, by_mpi],
        wrong=[
            forgets_to_return,
            sum_for_mean,
            first_tensor_only,
            averages_the_parameters,
            mean_within_a_tensor,
            no_messages,
            by_four,
            rebinds,
            returns_true,
        ],
        hangs=[only_rank_0],
    ),
    "sync_weighted": Case(
        right=weighted,
        wrong=[plain_mean, never_divides, own_count_times_ranks],
    ),
    "more_bytes_from": Case(
        right=more_bytes,
        wrong=[
            lambda width, parameters: parameters // width + 1,  # one way only
            lambda width, parameters: -(-parameters // (2 * width)),  # as many is not more
            lambda width, parameters: parameters / (2 * width),
        ],
    ),
    "receive_gradient": Case(
        right=from_one_source,
        also=[by_probe],
        wrong=[from_anyone, backwards, first_layer_only, four_layers, into_arrays_of_its_own],
        hangs=[always_rank_1],
    ),
    "staleness_of": Case(
        right=ages,
        also=[lambda w: np.array(ages(w))],
        wrong=[one_too_old, always_the_others, fresh_at_first],
    ),
    "predict_crossing": Case(
        right=smallest,
        wrong=[divides_by_ranks, forgets_what_is_fixed, takes_equality_for_faster, rounds],
    ),
    "elastic": Case(
        right=_elastic("right"),
        also=[_elastic("by_messages", by_messages=True)],  # not one that another left over
        wrong=[
            _elastic("pushes_away", sign=-1.0),
            _elastic("in_every_step", all_steps=True),
            _elastic("a_centre_of_its_own", own_centre=True),
            _elastic("begin_different", equal=False),
            _elastic("leaves_a_message", all_steps=True, leaves_a_message=True),
        ],
        hangs=[_elastic("one_is_missing", one_is_missing=True)],
    ),
}
