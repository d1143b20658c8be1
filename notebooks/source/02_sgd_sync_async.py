# %% [markdown]
# # Train on several ranks: in step and out of step
#
# By the end you will have trained the same network on the same digits by every scheme of data-parallel SGD, on real MPI ranks, and seen on one time axis what each of them costs and what it buys.

# %%
from helpers.plots import data_parallel as plots
from helpers.plots import style

style.use()
_ = plots.schemes()
# %% [markdown]
# **You will be able to**
#
# - use `torch.distributed` over an MPI that `pip` installed;
# - derive why replicas that average gradients are one process with a larger batch, and check it in numbers;
# - write the synchronisation of gradients yourself;
# - explain the hello / ready handshake of an asynchronous server, and measure staleness;
# - predict from two measured times whether a second replica pays.
#
# **You need** notebook [01](01_mpi_basics.ipynb) (ranks, send and receive, allreduce) and how a network is trained by gradient descent. *Time:* 60 minutes, of which your machine works for about three. *Cores:* 2 or more. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | shape or unit |
# |---|---|---|
# | $\theta$ | all parameters of the network, flat | $(P,)$ |
# | $g_r$ | gradient of the mean loss of replica $r$'s batch | $(P,)$ |
# | $\lambda$, $\mu$ | learning rate, momentum | 1 |
# | $R$ | number of replicas | 1 |
# | $B$ | batch of one replica | samples |
# | $D_r$ | the samples in replica $r$'s batch | $B$ samples |
# | $T_{comp}$ | forward and backward pass of one batch | s |
# | $T_{sync}$ | one synchronisation of the gradients | s |
# | $\tau$ | staleness: updates since the parameters were fetched | updates |

# %% [markdown]
# ## Set-up
#
# The four ranks live until the last cell. Each uses one thread: four ranks that each start a thread for every core would only get in each other's way.

# %% tags=["parameters"]
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch

from helpers.cluster import Cluster
from helpers.data_parallel import runs
from helpers.datasets import mnist
from helpers.exercises import data_parallel as check

# %load_ext helpers.cluster


@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    batch: int = 8  # B, samples of one replica
    gradients: int = 1500  # mini-batches that each scheme may compute
    rate: float = 0.02  # λ in step, with momentum
    momentum: float = 0.9  # μ in step
    rate_async: float = 0.05  # λ out of step, without momentum
    seed: int = 0


P = Parameters()
cluster = Cluster(n=P.ranks, preload=("torch",))

# %% [markdown]
# **Before you go on, predict.** One process computes gradients of $B$ samples and makes an update with each. Four replicas compute four such gradients at the same time, and make *one* update with their mean. On a machine with two cores: will 4 replicas need less time for the same number of samples? And will their loss per *update* be lower, equal, or higher? Write your answer down; section *All schemes* has the curves.

# %% [markdown]
# ## One process
#
# SGD in PyTorch has four calls: the forward pass makes the loss, `backward` puts the gradient of the loss into every parameter's `.grad`, `step` moves the parameters against it, `zero_grad` makes room for the next:
#
# $$\theta \leftarrow \theta - \lambda\, g, \qquad g = \nabla_\theta \frac{1}{B} \sum_{i \in D} \mathrm{loss}(x_i, y_i; \theta)$$
#
# The data are 5 000 handwritten digits; 1 000 of them are kept for testing, and no training step sees them.

# %%
digits = mnist.load(seed=P.seed)
_, axes = plt.subplots(1, 8, figsize=(10, 1.7))
for ax, image, label in zip(axes, digits.train_images, digits.train_labels, strict=False):
    ax.imshow(image[0], cmap="gray_r")
    ax.set_axis_off()
    ax.set_title(label, loc="center")

# %%
from helpers.models.lenet import LeNet

torch.set_num_threads(1)
model = LeNet(seed=P.seed)
optimizer = torch.optim.SGD(model.parameters(), lr=P.rate, momentum=P.momentum)
losses = []
for first in range(0, 100 * P.batch, P.batch):
    images = torch.from_numpy(digits.train_images[first : first + P.batch])
    labels = torch.from_numpy(digits.train_labels[first : first + P.batch])
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(
    f"loss of the first ten batches {np.mean(losses[:10]):.2f}, last ten {np.mean(losses[-10:]):.2f}"
)

# %% [markdown]
# Everything that travels in this notebook is one of two things: the parameters $\theta$, or their gradients, which sit in `parameter.grad` after `backward`. LeNet has both in ten tensors:

# %%
for name, parameter in model.named_parameters():
    print(f"{name:14s}{tuple(parameter.shape)!s:18s}{parameter.numel():7d} numbers")
print(f"together {sum(p.numel() for p in model.parameters())}")

# %% [markdown]
# ## `torch.distributed` over MPI, in ten lines
#
# PyTorch speaks to other processes through a *backend*. One for MPI exists in its source, but not in the wheel that `pip` installs: a source of this course spent four days building it. `helpers.torch_mpi` is a backend in Python over mpi4py instead, and needs no building. With `mpi://`, rank and size come from MPI, so `init_process_group` needs no address and no port.
#
# Another source adds 1, 2 and 3 on three ranks with `all_reduce`, and prints 0. **What must it be?**

# %%
# %%ranks --timeout 120
import torch
import torch.distributed as dist

from helpers.torch_mpi import BACKEND

torch.set_num_threads(1)
if not dist.is_available():
    raise RuntimeError("this build of PyTorch has no torch.distributed")
dist.init_process_group(BACKEND, init_method="mpi://")  # BACKEND is "mpi4py"
three = dist.new_group([0, 1, 2])
if rank < 3:
    x = torch.tensor([rank + 1.0])
    dist.all_reduce(x, op=dist.ReduceOp.SUM, group=three)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} has {x}")

# %% [markdown]
# It is $1 + 2 + 3 = 6$ on each of the three; rank 3 took no part. `send` and `recv` work as in MPI; the receiver brings a tensor of the right shape:

# %%
# %%ranks --only 0,1
if rank == 0:
    dist.send(torch.tensor([1.0, 1.0]), dst=1)
else:
    z = torch.zeros(2)
    dist.recv(z, src=0)
    print(f"rank 1 has received {z}")

# %% [markdown]
# ## Two ways to share the work
#
# **Data-parallel**: every rank has the whole model and a part of the batch. **Model-parallel**: every rank has a part of the model, and the whole batch passes through all of them. Here rank 0 holds LeNet's convolutions and rank 1 its linear layers. Activations travel forwards, their gradients backwards:

# %%
# %%ranks --only 0,1 --timeout 60
from torch.nn.functional import cross_entropy, max_pool2d, relu

from helpers.models.lenet import LeNet

torch.manual_seed(0)
net, x, y = LeNet(), torch.rand(8, 1, 28, 28), torch.randint(10, (8,))
if rank == 0:
    h = max_pool2d(relu(net.first(x)), 2)
    h = max_pool2d(relu(net.second(h)), 2).flatten(1)  # (B, 400)
    dist.send(h.detach(), dst=1)
    dh = torch.zeros_like(h)
    dist.recv(dh, src=1)
    h.backward(dh)
else:
    h = torch.zeros(8, 400)
    dist.recv(h, src=0)
    h.requires_grad_()
    z = net.fifth(relu(net.fourth(relu(net.third(h)))))
    cross_entropy(z, y).backward()
    dist.send(h.grad, dst=0)

# %% [markdown]
# Each rank now has the gradients of its own layers. Are they those of the whole network?

# %%
# %%ranks --only 0,1
whole = LeNet()
cross_entropy(whole(x), y).backward()
for (name, part), other in zip(net.named_parameters(), whole.parameters(), strict=True):
    if name.endswith("weight") and part.grad is not None:
        print(f"{name:14s} differs by {(part.grad - other.grad).abs().max():.0e}")
if rank == 0:
    print(f"a step moves {2 * h.numel() * 4} bytes; all gradients are {4 * 61706}")

# %% [markdown]
# The model-parallel step moves little here, and the more the larger the batch; the data-parallel one moves all gradients, whatever the batch. But look at the order of events above: while one rank computes, the other waits. The rest of this notebook is data-parallel.
#
# ## Gradients add
#
# Cut a batch $D$ into $R$ equal parts $D_1 \dots D_R$. The gradient of a sum is the sum of the gradients, so
#
# $$\nabla_\theta \frac{1}{RB} \sum_{i \in D} \mathrm{loss}_i = \frac{1}{R} \sum_{r=1}^{R} \underbrace{\nabla_\theta \frac{1}{B} \sum_{i \in D_r} \mathrm{loss}_i}_{g_r}$$
#
# The *mean* of the replicas' gradients is the gradient of the whole batch: $R$ replicas of batch $B$ are one process of batch $R \cdot B$. By hand first: four numbers, four ranks. Let $\mathrm{loss}_i = \frac12 (\theta - x_i)^2$, so its gradient is $\theta - x_i$, with $\theta = 0$ and $x = 1, 2, 3, 6$.

# %%
# %%ranks
x = [1.0, 2.0, 3.0, 6.0][rank]
gradient = torch.tensor([0.0 - x])
dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
gradient.item()

# %% [markdown]
# One process with all four samples: $-(1 + 2 + 3 + 6)/4 = -3$. The same.
#
# And if the parts are not equal? Then the loss of all is a *weighted* sum, $\sum_r \alpha_r L(D_r)$ with $\alpha_r = |D_r| / \sum_s |D_s|$, and so is its gradient. Five samples, two of them on rank 0:

# %%
# %%ranks --only 0,1,2,3
part = [[1.0, 2.0], [3.0], [6.0], [8.0]][rank]
mean = torch.tensor([-sum(part) / len(part)])
weighted = mean * len(part) / 5
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
dist.all_reduce(weighted)
print(f"plain mean {mean.item():.3f}, weighted {weighted.item():.3f}")

# %% [markdown]
# One process: $-(1 + 2 + 3 + 6 + 8)/5 = -4$. The plain mean counts rank 0's samples for half.
#
# ### Exercise 1: `sync_gradients`
#
# *Difficulty ●○○, 10 minutes.* Every rank has called `backward` on its own batch. Write the function that leaves the **mean** over all ranks in every parameter's `.grad`, and returns the model.
#
# <details><summary>Hint</summary>
#
# `dist.all_reduce(tensor)` replaces `tensor` by the sum over ranks. What is missing from a sum to a mean? `dist.get_world_size()` counts the ranks.
#
# </details>


# %% exercise="sync-gradients"
def sync_gradients(model):
    """Leave the mean over all ranks in the gradients of model.parameters(); return the model."""
    # BEGIN SOLUTION
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= dist.get_world_size()
    return model
    # END SOLUTION


# %% check="sync-gradients" points=2
check.sync_gradients(sync_gradients, cluster=cluster)

# %% [markdown]
# ## In step, without a server
#
# Replicas that start equal and take equal steps stay equal, so rank 0 sends its initial parameters to all, once:

# %%
# %%ranks
from helpers.models.lenet import LeNet

model = LeNet(seed=rank)  # as if nobody had fixed the seed


def show(when):
    total = sum(parameter.double().sum().item() for parameter in model.parameters())
    print(f"{when}: the parameters add up to {total:.6f}")


show("before")
for parameter in model.parameters():
    if rank == 0:
        for other in range(1, size):
            dist.send(parameter.data, dst=other)
    else:
        dist.recv(parameter.data, src=0)
show("after ")

# %% [markdown]
# (`dist.broadcast` does the same, and the root need not send to everyone itself.) After that only gradients travel. One loop, `train` in `helpers/data_parallel/loop.py`, serves every way to do that; a *scheme* is a class whose methods the loop calls before the backward pass, after it, and after the optimizer's step. Four schemes of `helpers/data_parallel/schemes` average with our ring allreduce (notebook [08](08_allreduce_animation.ipynb)), MPI's, `torch.distributed` tensor by tensor, and PyTorch's `DistributedDataParallel`. A fifth sends *buckets* of gradients while the backward pass is still busy with earlier layers.

# %%
import inspect

from helpers.data_parallel.schemes import DDP, Buckets, MPIAllreduce, PerTensor, Ring

print(inspect.getsource(Ring))
print(inspect.getsource(PerTensor))

# %%
short = {"steps": 40, "batch": P.batch, "rate": P.rate, "momentum": P.momentum, "seed": P.seed}
schemes = {"ours": Ring, "mpi": MPIAllreduce, "torch": PerTensor, "ddp": DDP, "buckets": Buckets}
ways = {
    way: cluster.run(runs.train, scheme, timeout=120, **short) for way, scheme in schemes.items()
}
print("way       steps/s   T_comp ms   T_sync ms   largest difference from 'mpi'")
for way, everyone in ways.items():
    one = everyone[0]
    apart = np.abs(one.weights - ways["mpi"][0].weights).max()
    print(
        f"{way:8s}{one.steps_per_second:9.1f}{1e3 * one.compute:12.2f}"
        f"{1e3 * one.synchronize:12.2f}{apart:16.1e}"
    )

# %% [markdown]
# Five ways, the same parameters after 40 steps, to what float32 can hold. (`ddp` synchronises inside `backward`, so its $T_{sync}$ hides in its $T_{comp}$.) And every replica has the same bits:

# %%
replicas = np.array([one.weights for one in ways["ours"]])
print("replicas differ by", np.ptp(replicas, axis=0).max())

# %% [markdown]
# Is it also one process with batch $R \cdot B$? The kernel runs that process here, on the batches that the four replicas had together.

# %%
from helpers.data_parallel.sampling import batches

alone = LeNet(seed=P.seed)
optimizer = torch.optim.SGD(alone.parameters(), lr=P.rate, momentum=P.momentum)
training = digits.train_images, digits.train_labels
together = batches(*training, P.ranks * P.batch, seed=P.seed)
for _, (images, labels) in zip(range(40), together, strict=False):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(alone(images), labels).backward()
    optimizer.step()
flat = torch.cat([p.detach().flatten() for p in alone.parameters()]).numpy()
print(f"largest difference from four replicas: {np.abs(flat - replicas[0]).max():.1e}")

# %% [markdown]
# The four replicas *are* the one process. Now long enough to learn: 1 500 gradients, four in each step.

# %%
settings = {"batch": P.batch, "rate": P.rate, "momentum": P.momentum, "seed": P.seed}
steps = P.gradients // P.ranks
in_step = cluster.run(runs.train, MPIAllreduce, steps=steps, timeout=120, **settings)[0]
print(f"{in_step.updates} updates in {in_step.seconds[-1]:.1f} s, accuracy {in_step.accuracy:.1%}")

# %% [markdown]
# ## In step, with a server
#
# Rank 0 is now the *server*: it waits for one gradient from each worker, averages, makes the update and sends the parameters back. Three workers remain, so a step has three gradients.

# %%
from helpers.data_parallel.schemes import Server

steps = P.gradients // (P.ranks - 1)
served = cluster.run(runs.train, Server, steps=steps, timeout=120, **settings)[0]
print(f"{served.updates} updates in {served.seconds[-1]:.1f} s, accuracy {served.accuracy:.1%}")

# %% [markdown]
# Where does the time go? Three steps, recorded on all ranks. Rank 0 computes no gradient: it waits, and while it handles one worker's message the others wait for it.

# %%
# %%ranks --trace served_trace --timeout 120
from helpers.data_parallel import runs
from helpers.data_parallel.schemes import Asynchronous, Server

runs.train(Server, comm, steps=3, batch=8).updates

# %%
from helpers.plots.timeline import timeline

_ = timeline(served_trace, labels=False)

# %% [markdown]
# ## Out of step: a parameter server
#
# The server need not wait for everyone. Each worker *fetches* the parameters, computes a gradient on its own data, and *pushes* it; the server updates at once. In the meantime others have moved the parameters: the gradient belongs to parameters that are $\tau$ updates old.
#
# The parameters travel layer by layer, and several workers push at once. So that their layers do not mix, worker and server speak by a protocol. Each message has a *tag* that says what it is, and the server talks with one worker at a time:
#
# ```
# worker                                  server
# HELLO  what I bring, how old   ───▶     takes the next hello, from any source
#                                ◀───     READY  go or stop, and why
# GRADIENT  layer by layer       ───▶     receives from this worker only; updates
#                                ◀───     PARAMETERS  layer by layer
# ```
#
# A hello that comes while the server is busy waits in MPI's queue; it is served in order of arrival.

# %% [markdown]
# ### Exercise 2: the ready reply
#
# *Difficulty ●●○, 10 minutes.* A hello arrives. It `brings` either `"nothing"` (the worker only wants parameters) or a `"gradient"`, whose layers have `sizes` elements. Return `(go, reason)`: `go` is False, with a reason in words, when the training has made its `limit` of updates, or when a gradient's sizes are not the `expected` ones.
#
# <details><summary>Hint</summary>
#
# Two questions, one after the other. A hello that brings nothing has no sizes to compare.
#
# </details>


# %% exercise="ready-reply"
def ready_reply(brings, sizes, expected, updates, limit):
    """Return (go, reason): may this worker send what it brings?"""
    # BEGIN SOLUTION
    if updates >= limit:
        return False, "the training has ended"
    if brings == "gradient" and sizes != expected:
        return False, f"layers of {sizes} elements, expected {expected}"
    return True, ""
    # END SOLUTION


# %% check="ready-reply" points=2
check.ready_reply(ready_reply)

# %% [markdown]
# Four questions decide the design, in step with a server and out of step alike:
#
# | question | in step, no server | in step, a server | out of step |
# |---|---|---|---|
# | how many copies of the model? | $R$, always equal | $R - 1$, always equal | $R - 1$, each of another age |
# | what does the server store? | there is none | $\theta$ and momentum | $\theta$, momentum, a count of updates |
# | what does a worker store? | $\theta$, $g_r$, momentum | $\theta$, $g_r$ | $\theta$, $g_r$, the count at its last fetch |
# | what travels in a step? | gradients, summed on the way | $g_r$ up, $\theta$ down | hello and ready; $g_r$ up, $\theta$ down |
#
# What must the server store? The source holds that it needs a whole model and an optimizer, because PyTorch's optimizer is tied to parameters. Here is everything that ours keeps: two flat arrays.

# %%
from helpers.data_parallel.optimizers import FlatSGD

print(inspect.getsource(FlatSGD))

# %% [markdown]
# And is there an epoch any more? Each worker goes through its own share of the data at its own pace, so nobody ends one together. The server stops after a number of updates, or of seconds, or when the loss is low enough. We stop after as many gradients as before.

# %%
from helpers.data_parallel.schemes import Asynchronous

free = {"batch": P.batch, "rate": P.rate_async, "momentum": 0.0, "seed": P.seed}
out_of_step = cluster.run(runs.train, Asynchronous, steps=P.gradients, timeout=120, **free)[0]
print(f"{out_of_step.updates} updates in {out_of_step.seconds[-1]:.1f} s,", end=" ")
print(f"accuracy {out_of_step.accuracy:.1%}; {out_of_step.report[-1]}")

# %%
# %%ranks --trace free_trace --timeout 120
runs.train(Asynchronous, comm, steps=9, batch=8, momentum=0.0).staleness

# %%
_ = timeline(free_trace, labels=False)
# %% [markdown]
# Nine updates: the server is in one conversation at a time, and the workers' turns interleave.
#
# ## All schemes on the same axes
#
# Look at your prediction. All three computed the same number of gradients.

# %%
histories = [in_step, served, out_of_step]
_ = plots.losses(histories)
# %% [markdown]
# Each curve is a mean over the last 60 gradients. On the right, one update out of step is worth less: it uses one gradient of $B$ samples, where an update in step uses the mean of three or four. On the left, waiting for nobody does not make it faster while all ranks are equally fast and share two cores: hello, ready, ten layers up and ten down are 22 messages to one server for each gradient. It pays when a rank is slow; the section after next shows that.

# %%
print(
    f"{'scheme':22s}{'gradients':>10s}{'updates':>9s}{'seconds':>9s}{'gradients/s':>13s}{'accuracy':>10s}"
)
for history in histories:
    took = history.seconds[-1]
    print(
        f"{history.scheme:22s}{history.gradients:10d}{history.updates:9d}{took:9.1f}"
        f"{history.gradients / took:13.0f}{history.accuracy:10.1%}"
    )

# %% [markdown]
# How old were the parameters behind each gradient? With $W$ equal workers, between two turns of one worker the $W - 1$ others have had theirs: $\tau \approx W - 1$.

# %%
_ = plots.staleness(out_of_step)
# %% [markdown]
# ## A straggler
#
# Make rank 3 slower by a factor $k$ and see what each scheme makes of it. In step, everyone waits for the slowest; out of step, rank 3 only contributes less, and what it contributes is older. Move the slider: both runs happen anew.

# %%
import ipywidgets


def straggle(k=4):
    global cluster
    if not cluster.running:  # the last cell of this notebook has stopped it
        cluster = Cluster(n=P.ranks, preload=("torch",))
    slow = {3: float(k)}
    common = {"slow": slow, "timeout": 90}
    together = cluster.run(runs.train, MPIAllreduce, steps=15, **common, **settings)[0]
    alone = cluster.run(runs.train, Asynchronous, steps=60, **common, **free)[0]
    pushes = np.bincount(alone.workers, minlength=P.ranks)[1:]
    _, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6))
    rates = [h.gradients / h.seconds[-1] for h in (together, alone)]
    left.bar(["in step", "out of step"], rates, color=style.PALETTE[:2])
    left.set(ylabel="gradients per second", title=f"rank 3 is {k} times slower")
    right.bar([f"rank {r}" for r in (1, 2, 3)], pushes, color=style.PALETTE[1])
    right.set(ylabel="gradients pushed", title="out of step")
    plt.show()


slider = ipywidgets.IntSlider(4, 1, 10, description="k", continuous_update=False)
ipywidgets.interactive(straggle, k=slider)

# %% [markdown]
# Workers also fail outright. The server gives up a worker that falls silent in the middle of a push, drops a gradient that is not finite, and refuses layers of the wrong shape; each is in its report.

# %%
from functools import partial

from helpers.data_parallel.faults import Faulty

faulty = partial(Faulty, faults={1: ("die mid-push", 4), 2: ("nan", 10)}, patience=1.0)
survived = cluster.run(runs.train, faulty, steps=40, timeout=60, **free)[0]
print(*survived.report, sep="\n")
print(f"{survived.updates} updates by ranks {sorted(set(survived.workers))}")

# %% [markdown]
# What this does not survive is a rank whose *process* is killed: MPI's launcher then ends all the others. A worker that leaves cleanly, as here, costs nobody anything.
#
# ## Cost: when does a replica pay?
#
# Alone, an epoch of $N$ samples takes $\frac{N}{B} T_{comp}$. In step on $R$ replicas it takes $\frac{N}{R B} (T_{comp} + T_{sync})$. The second is smaller exactly if
#
# $$\frac{T_{sync}}{T_{comp}} < R - 1$$
#
# $T_{sync}$ depends on the number of parameters only, $T_{comp}$ grows with the batch. So there is a batch from which on the replicas pay. How large it is, network and link decide. Two cases, each measured once with rank 0 computing alone, then with all:
#
# - **LeNet**, gradients through memory: its convolutions use each weight up to 784 times for a sample, so there is much to compute for little to send.
# - **A wide perceptron** of 814 090 parameters, each used once for a sample, whose gradients go over **TCP**, as between machines.

# %%
from helpers.data_parallel import time_model
from helpers.machine import usable_cores

LARGE = (1, 2, 4, 8, 16, 32, 64, 128)
lenet2 = cluster.run(runs.time_model, 2, (1, 4, 16, 64), timeout=90)[0]
lenet4 = cluster.run(runs.time_model, 4, (1, 4, 16, 64), timeout=90)[0]
wide = cluster.run(runs.time_model, 2, LARGE, "perceptron", "TCP", timeout=90)[0]
fits = {points[0].name: time_model.fit(points) for points in (lenet2, wide)}
for name, (fixed, per_sample, synchronize) in fits.items():
    print(
        f"{name:16s} T_comp ≈ {1e3 * fixed:.2f} ms + {1e3 * per_sample:.3f} ms · B,"
        f"  T_sync ≈ {1e3 * synchronize:.2f} ms"
    )

# %% [markdown]
# ### Exercise 3: predict the crossing
#
# *Difficulty ●●○, 10 minutes.* Let $T_{comp} = a + bB$ (`fixed` and `per_sample`, in ms) and $T_{sync}$ be given (`synchronize`, in ms). Return the smallest whole batch $B \ge 1$ for which $R$ replicas (`ranks`) are faster than one process.
#
# <details><summary>Hint</summary>
#
# Put $a + bB$ into the inequality and solve for $B$. *Faster* means strictly: where both are equal, nothing is gained yet.
#
# </details>


# %% exercise="predict-crossing"
def predict_crossing(fixed, per_sample, synchronize, ranks):
    """Return the smallest batch B for which the replicas are faster."""
    # BEGIN SOLUTION
    bound = (synchronize / (ranks - 1) - fixed) / per_sample
    return max(1, int(np.floor(bound)) + 1)
    # END SOLUTION


# %% check="predict-crossing" points=2
check.predict_crossing(predict_crossing)

# %% [markdown]
# Before you run the next cell: with the numbers printed above and $R = 2$, from which batch on does each of the two pay? Then let your function answer, and the measurements judge it: on the left, where the measured ratio passes 1; on the right, where the measured speed-up does.

# %%
answers = {}
for points in (lenet2, wide):
    name = points[0].name
    answers[name] = predict_crossing(*(1e3 * t for t in fits[name]), 2)
    ratios = [fits[name][2] / p.alone for p in points]  # T_sync does not depend on B
    found = time_model.crossing([p.batch for p in points], ratios, 2)
    if found is None:
        found = f"below {points[0].batch}" if ratios[0] < 1 else f"beyond {points[-1].batch}"
    else:
        found = f"{found:.1f}"
    print(f"{name:16s} your prediction: B = {answers[name]}, ratio crosses 1 at B = {found}")

# %%
_ = plots.crossing(lenet2 + lenet4 + wide, usable_cores(), answers["perceptron, TCP"])
# %%
print("network, link      R    B   T_sync/T_comp   predicted   measured   T_comp together / alone")
for p in lenet2 + lenet4 + wide:
    print(
        f"{p.name:17s}{p.ranks:3d}{p.batch:5d}{p.synchronize / p.alone:13.2f}{p.predicted:14.2f}"
        f"{p.measured:11.2f}{p.compute / p.alone:17.2f}"
    )

# %% [markdown]
# On a quiet machine LeNet's ratio starts below 1: it pays from the first sample on. The perceptron over TCP pays only from the batch that your formula finds: below it, two processes are *slower* than one.
#
# The last column tells which assumption holds. The model takes $T_{comp}$ for the same alone and together. As long as every rank has a core of its own, the column stays near 1 and the prediction near the measurement. With more ranks than cores it climbs towards $R$ / cores: the ranks take turns on the cores, and the predicted speed-up of 4 never comes. (Also the baseline is a matter of choice: one process may use all cores by itself.)

# %%
import time

x, y = torch.from_numpy(digits.train_images[:64]), torch.from_numpy(digits.train_labels[:64])
for threads in (1, usable_cores()):
    torch.set_num_threads(threads)
    began = time.perf_counter()
    for _ in range(10):
        torch.nn.functional.cross_entropy(alone(x), y).backward()
    print(
        f"one process, {threads} thread(s): {100 * (time.perf_counter() - began):.1f} ms for B = 64"
    )
torch.set_num_threads(1)

# %% [markdown]
# ## What breaks
#
# **No handshake.** Two workers push their layers; the server takes whatever comes next, from any source, and fills layer after layer. Both workers send four layers of ones times their rank:

# %%
# %%ranks --only 0,1,2 --timeout 60
import time

import numpy as np

if rank == 0:
    gradient = np.zeros((4, 2))
    for layer in gradient:
        comm.Recv(layer, source=MPI.ANY_SOURCE)
    print(f"one 'gradient', layer by layer from ranks {gradient[:, 0].astype(int).tolist()}")
    for _ in range(4):
        comm.Recv(np.zeros(2), source=MPI.ANY_SOURCE)
else:
    for _ in range(4):
        comm.Send(np.full(2, float(rank)), dest=0)
        time.sleep(0.01)  # the backward pass of one layer

# %% [markdown]
# The first four layers that arrived are no gradient of anything: they belong to two workers with different parameters and different data.
#
# **Averaging parameters that were never equal.** Two networks that begin with different random weights compute different things with their hidden units; their mean computes neither.

# %%
from helpers.models.lenet import accuracy_of

trained = []
for seed in (1, 2):
    net = LeNet(seed=seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=P.rate, momentum=P.momentum)
    for _, (images, labels) in zip(range(150), batches(*training, 16, seed=seed), strict=False):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()
    trained.append(torch.cat([p.detach().flatten() for p in net.parameters()]).numpy())
for name, weights in zip(("first", "second", "mean"), [*trained, sum(trained) / 2], strict=True):
    print(f"{name:7s}{accuracy_of(weights, digits):7.1%}")

# %% [markdown]
# **The sum taken for the mean.** `all_reduce` adds. Without the division every step is $R$ times too long; the source that divides by nothing has to choose a rate that is $R$ times smaller, and another one for each $R$.


# %%
from helpers.data_parallel.schemes import ByFunction


def forgot_to_divide(model):
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


faster = settings | {"rate": 0.05, "steps": 100}
summed = partial(ByFunction, function=forgot_to_divide)
for name, scheme in (("mean", MPIAllreduce), ("sum", summed)):
    run = cluster.run(runs.train, scheme, timeout=90, **faster)[0]
    print(f"{name:5s} loss {np.mean(run.losses[80:]):.2f}, accuracy {run.accuracy:.1%}")

# %% [markdown]
# The same rate, the same batches: with the sum the loss stays at $\ln 10 = 2.30$, and the accuracy at one digit in ten. That is guessing.

# %% [markdown]
# ## What the sources say, what we measured
#
# | claim | here |
# |---|---|
# | PyTorch with MPI must be built, in four days | no longer: `pip install`, and `import helpers.torch_mpi` |
# | `all_reduce` of 1, 2, 3 prints 0 | wrong: it is 6, on each of the three |
# | gradients of parts add up to the gradient of the whole | largest difference after 40 steps printed above, in float32's last digits |
# | replicas stay equal | to the last bit |
# | the server needs a whole model and optimizer | wrong: two flat arrays do the same arithmetic |
# | a handshake keeps layers apart; without it they mix | both shown |
# | is there an epoch any more? | no: we stop by updates, seconds or loss |
# | "ring allreduce?" | 2(R − 1) steps, 2(R − 1)/R of the gradients' bytes sent by each rank: `Ring`, notebook 08 |
# | $L(\{d_0, d_1\}) = \alpha_0 L(d_0) + \alpha_1 L(d_1)$ | holds with $\alpha_r$ = share of the samples; with equal weights it is wrong for unequal parts |
# | asynchronous SGD is noisier and harder to tune | it needed another rate and no momentum; losses and staleness above |
# | worthwhile if $T_{sync}/T_{comp} < R - 1$ | holds while each rank has a core; beyond, $T_{comp}$ itself grows |

# %% [markdown]
# ## Summary
#
# You have used `torch.distributed` over MPI from `pip`, checked that replicas with averaged gradients are one process with a larger batch, written the averaging, and the reply that keeps the layers of asynchronous workers apart. Staleness is about the number of other workers, and a second replica pays when $T_{sync}/T_{comp} < R - 1$ *and* it has a core.
#
# **In practice**: `torch.nn.parallel.DistributedDataParallel` averages gradients in buckets during the backward pass, over NCCL on GPUs; Horovod does it over MPI; `torch.distributed.fsdp` also shards the parameters. Parameter servers live on where models are sparse and huge, as in recommendation (TorchRec).
#
# **References**
#
# - LeCun, Bottou, Bengio, Haffner (1998), *Gradient-based learning applied to document recognition*: LeNet and MNIST.
# - Li et al. (2020), *PyTorch Distributed*: buckets and overlap.
# - Dean et al. (2012), *Large scale distributed deep networks*: asynchronous SGD with a parameter server.
# - Mitliagkas et al. (2016), *Asynchrony begets momentum*: why the run out of step has no momentum of its own.
#
# **Next**: [08](08_allreduce_animation.ipynb), what happens inside allreduce.

# %%
cluster.stop()
