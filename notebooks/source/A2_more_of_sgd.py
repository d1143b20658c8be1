# %% [markdown]
# # More of SGD: cut the model, save and resume, survive a failure
#
# **You will be able to**
#
# - say when cutting the model sends less than cutting the batch;
# - average once for several batches;
# - write a checkpoint from which training continues bit for bit;
# - say what a parameter server stores, and what it does when workers fail;
# - write elastic averaging as a scheme of the course's training loop.
#
# **You need** lessons 1 and 3 of [02](02_sgd_sync_async.ipynb). *Time:* 100 minutes, of which the project takes 40. Each section needs only the set-up. *Cores:* 2 or more. *GPU:* none.
#
# ## Set-up

# %% tags=["parameters"]
import inspect
import shutil
import tempfile
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from helpers.cluster import Cluster
from helpers.data_parallel import Scheme
from helpers.data_parallel.schemes import Asynchronous, MPIAllreduce, Server, Stop
from helpers.data_parallel.tasks import lenet
from helpers.data_parallel.tasks.interruptible import Run
from helpers.exercises import data_parallel as check
from helpers.exercises import going_on as check_on
from helpers.models.lenet import LeNet
from helpers.plots import style
from helpers.plots.phases import phases, waits
from helpers.predictions import Prediction

# %load_ext helpers.cluster
style.use()
settings = {"batch": 8, "rate": 0.02, "momentum": 0.9, "seed": 0, "timeout": 90}
cluster = Cluster(n=4, preload=("torch",))

# %%
# %%ranks --timeout 120
from time import perf_counter

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy, max_pool2d, relu

from helpers.data_parallel.tasks import init_distributed, lenet
from helpers.models.lenet import LeNet

init_distributed()  # torch.distributed begins, over MPI
torch.manual_seed(0)
x, y = torch.rand(8, 1, 28, 28), torch.randint(10, (8,))


def averaged(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
    return model


# %% [markdown]
# ## Cut the batch, or cut the model?
#
# **Data-parallel**: every rank has the whole model and a part of the batch. **Model-parallel**: every rank has a part of the model, and the whole batch passes through all ranks. Here rank 0 holds LeNet's convolutions and rank 1 its linear layers. Activations $h$ are sent forwards, and their gradients $dh$ backwards:


# %%
# %%ranks --only 0,1 --timeout 60
def step(net, note):
    """A forward and a backward pass; `note` keeps the time at which a phase ends."""
    if rank == 0:
        h = max_pool2d(relu(net.first(x)), 2)
        h = max_pool2d(relu(net.second(h)), 2).flatten(1)  # (B, 400)
        note("forward")
        dist.send(h.detach(), dst=1)
        dh = torch.zeros_like(h)
        dist.recv(dh, src=1)
        note("waits")
        h.backward(dh)
        note("backward")
    else:
        h = torch.zeros(8, 400)
        dist.recv(h, src=0)
        note("waits")
        z = net.fifth(relu(net.fourth(relu(net.third(h.requires_grad_())))))
        loss = cross_entropy(z, y)
        note("forward")
        loss.backward()
        note("backward")
        dist.send(h.grad, dst=0)


# %% [markdown]
# Do the gradients of each rank's layers equal the whole network's?

# %%
# %%ranks --only 0,1
steps = []
for _ in range(30):  # the quickest is drawn below
    net, marks = LeNet(seed=0), [("begins", perf_counter())]
    step(net, lambda what, marks=marks: marks.append((what, perf_counter())))
    steps.append(marks)
whole = LeNet(seed=0)
cross_entropy(whole(x), y).backward()
for (name, part), other in zip(net.named_parameters(), whole.parameters(), strict=True):
    if name.endswith("weight") and part.grad is not None:
        print(f"{name:14s} differs by {(part.grad - other.grad).abs().max():.1g}")
if rank == 0:
    print(f"a step moves {2 * 8 * 400 * 4:,} bytes; all gradients are {4 * 61706:,}")

# %% [markdown]
# Yes. Here $h$ and $dh$ together are a tenth of the gradients' bytes, but they grow with the batch; the data-parallel step always sends all gradients. (We count each gradient once. In an allreduce both ranks send it, which doubles the data-parallel bytes.)
#
# What does each rank do meanwhile, in the quickest of the 30 steps? Do both ever compute at once?

# %%
tried = cluster.run(lambda: steps if rank < 2 else None)[:2]
quickest = min(zip(*tried, strict=True), key=lambda both: both[0][-1][1] - both[0][0][1])
phases(quickest, [("h", (0, 0), (1, 1)), ("dh", (1, 2), (0, 2))])  # (rank, phase) to (rank, phase)
plt.show()
for number, share in enumerate(waits(quickest)):
    print(f"rank {number} waits for {share:.0%} of the step")

# %% [markdown]
# No: rank 1 waits until $h$ arrives, rank 0 until $dh$ comes back, and then rank 1 waits again. In pipelines ([11](11_pipelines.ipynb)) they wait less.
#
# ### Exercise 1: which sends more?
#
# *Difficulty ●○○, 5 minutes.* A network is cut in two. For each sample, the model-parallel step sends `width` activations forwards and as many gradients back. For the data-parallel step, count once the gradient of each of `parameters` parameters. From which batch size $B$ on does the model-parallel step send *more* numbers?
#
# <details><summary>Hint</summary>
#
# Compare $2 \cdot \mathrm{width} \cdot B$ with `parameters`. Equal is not more.
#
# </details>


# %% exercise="more-bytes-from"
def more_bytes_from(width, parameters):
    """Return the smallest batch for which the model-parallel step sends more numbers."""
    # BEGIN SOLUTION
    return parameters // (2 * width) + 1
    # END SOLUTION


# %% check="more-bytes-from" points=1
check.more_bytes_from(more_bytes_from)

# %%
print(f"LeNet cut after its convolutions: from B = {more_bytes_from(400, 61_706)} on")

# %% [markdown]
# ## Several batches, one average
#
# If a batch is too large for a rank's memory, or the link is slow, each rank adds up the gradients of several small batches, and the ranks average only the sums. For this `DistributedDataParallel` (DDP) has the context `no_sync()`. Below, each rank processes four small batches: first without `no_sync()`, then with the first three inside it. A *hook*, a function that DDP calls for each average (here of all gradients at once), counts the calls.
#
# > **Predict.** How many averages does the hook count without `no_sync()`, and how many with it?

# %%
loud = Prediction("averages without no_sync()", None)  # your number for None
quiet = Prediction("averages with no_sync()", None)

# %%
# %%ranks --timeout 60
from contextlib import nullcontext

from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

sent, summed = {False: 0, True: 0}, {}
for hold in (False, True):
    ddp = DistributedDataParallel(LeNet(seed=0))

    def counted(state, bucket):
        sent[state] += 1
        return allreduce_hook(None, bucket)

    ddp.register_comm_hook(hold, counted)
    for number in range(4):
        with ddp.no_sync() if hold and number < 3 else nullcontext():
            (cross_entropy(ddp(x + rank + number), y) / 4).backward()
    summed[hold] = torch.cat([p.grad.flatten() for p in ddp.parameters()])
print(f"the gradients differ by {(summed[False] - summed[True]).abs().max():.1g}")

# %%
counts = cluster.run(lambda: sent)[0]
loud.answer(counts[False])
quiet.answer(counts[True])

# %% [markdown]
# DDP averages in *every* `backward` outside `no_sync()`: four times, then once. The gradients are equal up to rounding: a mean of sums is the sum of means.
#
# ### Exercise 2: one average for several batches
#
# *Difficulty ●●○, 10 minutes.* Do this without DDP. Every rank has a list `batches` of pairs `(x, y)`. All lists have the same length and all batches the same size, and `loss(model(x), y)` is the mean over a batch. Leave in every `.grad` the gradient averaged over all samples **of all ranks**, and return the model. `sync(model)` replaces every `.grad` by its mean over all ranks: call it once. Finish the backward pass of each batch before you begin the next, so that the activations of only one batch are held. At first every `.grad` is `None`.
#
# <details><summary>Hint</summary>
#
# `backward` *adds* to the numbers in `.grad`. By what must each batch's loss be divided, so that the sum of the gradients is the mean over the rank's samples?
#
# </details>


# %% exercise="accumulate"
def accumulate(model, loss, batches, sync):
    """Leave the mean over all batches of all ranks in the gradients; return the model."""
    # BEGIN SOLUTION
    for x, y in batches:
        (loss(model(x), y) / len(batches)).backward()
    return sync(model)
    # END SOLUTION


# %% check="accumulate" points=2
check_on.accumulate(accumulate, cluster=cluster)

# %% [markdown]
# The next cell gives your function 32 digits on each rank, in 1, 2, 4 and 8 batches:


# %%
def in_parts(count, function):
    """On each rank: the gradient of 32 digits in so many batches."""
    data, net = lenet.digits(), LeNet(seed=0)
    x, y = (torch.from_numpy(d[rank::size][:32]) for d in (data.train_images, data.train_labels))
    batches = list(zip(x.chunk(count), y.chunk(count), strict=True))
    function(net, cross_entropy, batches, averaged)
    return torch.cat([p.grad.flatten() for p in net.parameters()])


if check_on.accumulate.passed(accumulate, cluster=cluster):
    found = {count: cluster.run(in_parts, count, accumulate)[0] for count in (1, 2, 4, 8)}
    for count, gradient in found.items():
        apart = (gradient - found[1]).abs().max()
        print(f"{count} × {32 // count:2d} samples: differs by {apart:.1g} from one batch of 32")
else:
    print("Exercise 2 first")

# %% [markdown]
# ## A checkpoint
#
# A *checkpoint* is a file from which training can continue. All replicas have equal parameters, so rank 0 saves and all ranks read; a barrier makes them wait for the file. What must the file contain? Here are the constructor and the step of `Run`, a training run:

# %%
from IPython.display import Code

Code(
    "\n".join(["class Run:", *map(inspect.getsource, (Run.__init__, Run.step))]), language="python"
)

# %% [markdown]
# ### Exercise 3: interrupted and resumed
#
# *Difficulty ●●○, 12 minutes.* Write two functions.
#
# - `state_of(run)` returns what a checkpoint of `run` (a `Run`) must contain, as something that `torch.save` writes and `torch.load` reads: a dictionary of tensors, numbers and `state_dict()`s. It does not change the run.
# - `go_on_from(run, saved)` gets a **new** run and what was read from the file. The new run has made no step and has other parameters, perhaps another momentum. Change it so that its next steps equal the old run's, to the last bit.
#
# This must hold after any number of steps (even none), for any network without dropout (BatchNorm included), and when a schedule has changed the rate.
#
# <details><summary>Hint</summary>
#
# Go through `step` and ask of each name after `self.`: does a step change it, and would a new run have another value? `run.net` and `run.sgd` have `state_dict()` and `load_state_dict(...)`. Loading changes the tensors in place, so the optimizer still holds them.
#
# </details>


# %% exercise="checkpoint"
def state_of(run):
    """Return all that a new run needs to go on as this one would."""
    # BEGIN SOLUTION
    nets = {"net": run.net.state_dict(), "sgd": run.sgd.state_dict()}
    return nets | {"epoch": run.epoch, "done": run.done}
    # END SOLUTION


def go_on_from(run, saved):
    """Change the new run so that it goes on as the saved one would."""
    # BEGIN SOLUTION
    run.net.load_state_dict(saved["net"])
    run.sgd.load_state_dict(saved["sgd"])
    run.epoch, run.done = saved["epoch"], saved["done"]
    # END SOLUTION


# %% check="checkpoint" points=2
check_on.checkpoint(state_of, go_on_from)

# %% [markdown]
# After seven steps rank 0 saves what your function returns. On each rank two new runs load it. The second of these runs forgets its position in the data and starts from the first batch. All three runs make six more steps. A *fingerprint* is a hash of all parameters: equal fingerprints mean equal bits.


# %%
def cut_off(state_of, go_on_from):
    """On each rank: fingerprints of a run and of those that go on from its checkpoint."""
    data, path = lenet.digits(), comm.bcast(tempfile.mkdtemp() if rank == 0 else None)
    few = data.train_images[:160], data.train_labels[:160]
    going = [Run(LeNet(seed=rank + n), *few, (rank, size), averaged) for n in range(3)]
    going[0].net.load_state_dict(comm.bcast(going[0].net.state_dict()))
    for _ in range(7):
        going[0].step()
    if rank == 0:
        torch.save(state_of(going[0]), f"{path}/checkpoint.pt")
    dist.barrier()
    for run in going[1:]:
        go_on_from(run, torch.load(f"{path}/checkpoint.pt"))
    going[2].epoch = going[2].done = 0
    for run in going:
        for _ in range(6):
            run.step()
    dist.barrier()
    if rank == 0:
        shutil.rmtree(path)
    return [run.fingerprint() for run in going]


# %%
names = ("not interrupted", "from your checkpoint", "the data from the beginning")
if check_on.checkpoint.passed(state_of, go_on_from):
    for name, *found in zip(names, *cluster.run(cut_off, state_of, go_on_from), strict=True):
        print(f"{name:28s}", *found)
else:
    print("Exercise 3 first")

# %% [markdown]
# Each column is a rank. From your checkpoint, training continues bit for bit. Without the position in the data the same samples come again, and the parameters differ.
#
# ## What a server stores, and when it stops
#
# Must a parameter server hold a PyTorch model and optimizer, as a blog post of 2018 says? This class holds three flat arrays:

# %%
from helpers.data_parallel.flat import FlatSGD

print(inspect.getsource(FlatSGD))

# %% [markdown]
# Does the class compute what PyTorch's optimizer does? We train three workers with this server, and three replicas with PyTorch's optimizer and no server:


# %%
def without_a_server():
    group = comm.Split(0 if rank < 3 else 1)
    how = {"batch": 8, "rate": 0.02, "momentum": 0.9, "seed": 0}
    return lenet.train(MPIAllreduce, group, steps=40, **how).weights if rank < 3 else None


served = cluster.run(lenet.train, Server, steps=40, **settings)[0].weights
by_flat_arrays = np.abs(served - cluster.run(without_a_server, timeout=60)[0]).max()
print(f"largest difference after 40 steps: {by_flat_arrays:.1g}")

# %% [markdown]
# Yes, up to rounding: for its updates, the server needs neither model nor optimizer.
#
# `Stop` ends a run after a number of seconds, or once the loss (averaged over 20 updates) falls below a value. An asynchronous server decides alone, and tells each worker at its next gradient. Synchronous ranks must stop after the *same* update, or some would wait for ever; so they agree after each update.

# %%
free = settings | {"rate": 0.05, "momentum": 0.0}
for scheme, how in ((MPIAllreduce, settings), (Asynchronous, free)):
    for stop in (Stop(seconds=0.3), Stop(seconds=10, loss=1.5)):
        run = cluster.run(lenet.train, scheme, steps=1000, stop=stop, **how)[0]
        print(
            f"{run.scheme:17s} {run.updates:4d} updates, {run.seconds[-1]:.2f} s, ended by {run.ended}"
        )

# %% [markdown]
# Before a worker of `Asynchronous` *pushes* a gradient (sends it layer by layer), it asks:
#
# ```
# worker                                  server
# HELLO  what I bring, how stale ───▶     takes the next hello, from any source
#                                ◀───     READY  go or stop, and why
# GRADIENT  layer by layer       ───▶     receives from this worker only; updates
#                                ◀───     PARAMETERS  layer by layer
# ```
#
# By this *handshake* the server can refuse a gradient before it is sent, and stop the training.
#
# Workers also fail. In the first run below, worker 1 falls silent during a push, worker 2 sends gradients that are not finite, and worker 3 sends layers of the wrong shape. In the second run worker 1 says goodbye and leaves.

# %%
from helpers.data_parallel.schemes.faults import Faulty

bad = {
    1: ("die mid-push", 4),
    2: ("nan", 10),
    3: ("wrong shape", 25),
}  # what fails, and from which push on
cases = {"silence and bad gradients": bad, "a goodbye": {1: ("die", 4)}}
figure, ax = plt.subplots(figsize=(9, 3.6))
figure.set_label("The server's updates over time, while workers fail in two ways")
for (name, faults), dash in zip(cases.items(), ("-", "--"), strict=True):
    faulty = partial(Faulty, faults=faults, patience=1.0)
    survived = cluster.run(lenet.train, faulty, steps=40, **free)[0]
    print(f"{name}:", *survived.report, sep="\n  ")
    gap = np.diff(survived.seconds).max(initial=0)
    print(f"  {survived.updates} updates; the longest pause between two was {gap:.2f} s\n")
    made = np.arange(1, survived.updates + 1)
    ax.plot(survived.seconds, made, dash, marker="", drawstyle="steps-post", label=name)
ax.set(xlabel="time since all ranks began [s]", ylabel="updates made")
ax.set_title("One silent worker stops everybody for a second")
ax.legend()
plt.show()

# %% [markdown]
# Silence costs most (the flat stretch): for `patience` (here 1 s) the server waits for the rest of the gradient, and *everybody* waits for the server. It dismisses workers 2 and 3 and gives up worker 1. No worker is left, so the solid line stops before 40 updates. After a goodbye nobody waits.
#
# ## Project: elastic averaging
#
# *Difficulty ●●●, 40 minutes.* In *elastic averaging* (Zhang, Choromanska, LeCun 2015) each replica $\theta_r$ trains by itself. After every `period` steps, the replicas and a *centre* $c$ pull on each other with strength $\rho$ (`pull`):
#
# $$d_r = \rho\,(\theta_r - c), \qquad \theta_r \leftarrow \theta_r - d_r, \qquad c \leftarrow c + \sum_r d_r$$
#
# Write it as a `Scheme` for the course's training loop. All replicas and the centre begin equal. Every rank keeps a copy of the centre, `self.centre`, and the copies stay equal. `replica.flat.values` is the tensor of all parameters: change it in place. `step` counts from 0: with `period` 10, the first pull is after step 9.
#
# <details><summary>Hint</summary>
#
# `super().begin(replica)` gives all replicas rank 0's parameters; `clone` them as the centre. To update the centre, add up the $d_r$ by `self.comm.Allreduce`, which takes NumPy arrays (`tensor.numpy()`). `MPI` is defined on the ranks.
#
# </details>


# %% exercise="elastic"
class Elastic(Scheme):
    """Every `period` steps each replica and a centre pull on each other."""

    def __init__(self, comm, period=10, pull=0.2):
        super().__init__(comm)
        self.period, self.pull, self.name = period, pull, "elastic averaging"

    def begin(self, replica):
        super().begin(replica)
        # BEGIN SOLUTION
        self.centre = replica.flat.values.clone()
        # END SOLUTION

    def after_step(self, replica, step):
        # BEGIN SOLUTION
        if (step + 1) % self.period == 0:
            apart = self.pull * (replica.flat.values - self.centre)
            replica.flat.values -= apart
            self.comm.Allreduce(MPI.IN_PLACE, apart.numpy())
            self.centre += apart
        # END SOLUTION


# %% check="elastic" points=5
check.elastic(Elastic, cluster=cluster)

# %% [markdown]
# We train LeNet by synchronous SGD and by your scheme, which averages as many numbers, but only every 10 steps. Its replicas differ at the end. We test each replica and, as the paper does, the centre. A *watcher* notes each replica's distance from the centre, before and after a pull.


# %%
def train(scheme, how):
    """On each rank: the accuracy of its replica and of the centre, and (step, their distance)."""
    from helpers.data_parallel.loop import Watcher
    from helpers.models.lenet import accuracy_of

    made, far = scheme(comm), []

    class Look(Watcher):
        def moved(self, replica, step):
            apart = replica.flat.values - torch.as_tensor(made.centre)
            far.append((step + 1, apart.norm().item()))
            return ""

        ended = moved

    if not hasattr(made, "period"):
        return lenet.train(lambda comm: made, steps=150, **how).accuracy
    run = lenet.train(lambda comm: made, steps=150, watch=[Look()], **how)
    return run.accuracy, accuracy_of(torch.as_tensor(made.centre).numpy(), lenet.digits()), far


# %%
how = {name: value for name, value in settings.items() if name != "timeout"}
print(f"synchronous, all replicas: {cluster.run(train, MPIAllreduce, how)[0]:.1%}")
if check.elastic.passed(Elastic, cluster=cluster):
    replicas, centres, distances = zip(*cluster.run(train, Elastic, how), strict=True)
    print("elastic, the four replicas:", *(f"{accuracy:.1%}" for accuracy in replicas))
    print(f"elastic, the centre: {centres[0]:.1%}")
    figure, ax = plt.subplots(figsize=(9, 3.6))
    figure.set_label("Each replica's distance from the centre, before and after each pull")
    for rank, (far, dash) in enumerate(zip(distances, ("-", "--", "-.", ":"), strict=True)):
        ax.plot(*zip(*far, strict=True), dash, marker="", linewidth=1.8, label=f"rank {rank}")
    ax.set(xlabel="steps made", ylabel="distance from the centre", ylim=(0, None))
    ax.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    plt.show()
else:
    print("your scheme does not pull yet: the project first")

# %% [markdown]
# Between two pulls the replicas move away from the centre; each pull brings them nearer. In our run, distances grow until both effects balance, and the centre is more accurate than each replica.
#
# One run at one rate does not tell which scheme is better: each scheme needs its best rate, and several seeds.
#
# **References**: Zhang, Choromanska, LeCun (2015), *Deep learning with elastic averaging SGD*. Li et al. (2014), *Scaling distributed machine learning with the parameter server*.
#
# **Next**: [10 Train replicas that talk less](10_local_sgd.ipynb).

# %%
cluster.stop()
