# %% [markdown]
# # Train on several ranks: synchronously and asynchronously
#
# In this notebook you train the same network on the same digits with every scheme of data-parallel SGD, on real MPI ranks. One time axis then shows what each scheme costs and what it gains.

# %%
from helpers.plots import data_parallel as plots
from helpers.plots import style

style.use()
_ = plots.schemes()

# %% [markdown]
# **You will be able to**
#
# - use `torch.distributed` over an MPI that `pip` installed, with any [backend](glossary.md#backend);
# - derive why [replicas](glossary.md#replica) that average gradients are one process with a larger batch, and check it in numbers;
# - write the synchronization of gradients, and train with it;
# - write the receive of an asynchronous [parameter server](glossary.md#parameter-server), train with it, and separate the effect of [staleness](glossary.md#staleness) from batch size and learning rate;
# - predict from two measured times whether a second replica pays.
#
# **You need** notebook [01](01_mpi_basics.ipynb) (ranks, send and receive, allreduce) and how gradient descent trains a network. *Time:* 190 minutes, of which your machine works for two; the project at the end takes another 40. *Cores:* 2 or more. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | shape or unit |
# |---|---|---|
# | $P$ | number of all parameters of the network | 1 |
# | $\theta$ | the parameters, as one vector | $(P,)$ |
# | $g_r$ | [gradient](glossary.md#gradient) of the mean loss of replica $r$'s batch | $(P,)$ |
# | $\lambda$, $\mu$ | learning rate, [momentum](glossary.md#momentum) | 1 |
# | $R$, $W$ | number of replicas; number of workers beside a server | 1 |
# | $B$, $N$ | batch size of one replica; number of all samples | samples |
# | $D_r$ | the samples in replica $r$'s batch | $B$ samples |
# | $T_{comp}$ | time of the forward and backward pass of one batch: $a + bB$ | s |
# | $T_{sync}$ | time of one synchronization of the gradients | s |
# | $\tau$ | staleness: updates since the parameters were fetched | updates |
# | $k$ | how many times slower a slow rank is | 1 |

# %% [markdown]
# ## Set-up
#
# The four ranks run until the last cell. Each uses one thread: if each started a thread for every core, they would compete for the cores.

# %% tags=["parameters"]
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.distributed as dist

from helpers import claims
from helpers.cluster import Cluster
from helpers.data_parallel import runs
from helpers.datasets import mnist
from helpers.exercises import data_parallel as check
from helpers.exercises.predictions import Predictions

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


chosen = Parameters()
guess = Predictions()
cluster = Cluster(n=chosen.ranks, preload=("torch",))

# %% [markdown]
# > **Predict.** One process makes an update with every gradient of $B$ samples. Four replicas compute four such gradients at the same time, and make *one* update with their mean. How many times as long does one process need on your machine for the same number of samples? And is the four replicas' loss after the same number of *updates* "lower", "equal" or "higher"? Replace the dots; section *All schemes* answers.

# %%
guess["seconds of one process ÷ seconds of four replicas"] = ...
guess["loss of four replicas after as many updates"] = ...

# %% [markdown]
# ## One process
#
# SGD in PyTorch has four calls. The forward pass computes the loss, `backward` puts the gradient of the loss into every parameter's `.grad`, `step` moves the parameters against the gradient, and `zero_grad` clears it for the next step:
#
# $$\theta \leftarrow \theta - \lambda\, v, \qquad v \leftarrow \mu\, v + g, \qquad g = \nabla_\theta \frac{1}{B} \sum_{i \in D} \mathrm{loss}(x_i, y_i; \theta)$$
#
# $v$ remembers earlier gradients. With momentum $\mu = 0.9$ a gradient finally moves $\theta$ ten times as far as with $\mu = 0$, where $v = g$. So do not compare a rate with momentum and a rate without it directly.
#
# The data are 5 000 handwritten digits. We keep 1 000 for testing; no training step sees them. The network is *LeNet*, a small convolutional network of 1998: two convolutions, each followed by a ReLU and a maximum over 2 × 2 numbers, and then three linear layers.

# %%
digits = mnist.load(seed=chosen.seed)
_, axes = plt.subplots(1, 8, figsize=(10, 1.7))
for ax, image, label in zip(axes, digits.train_images, digits.train_labels, strict=False):
    ax.imshow(image[0], cmap="gray_r")
    ax.set_axis_off()
    ax.set_title(label, loc="center")

# %%
from helpers.models.lenet import LeNet

torch.set_num_threads(1)
model = LeNet(seed=chosen.seed)
optimizer = torch.optim.SGD(model.parameters(), lr=chosen.rate, momentum=chosen.momentum)
losses = []
for first in range(0, 100 * chosen.batch, chosen.batch):
    images = torch.from_numpy(digits.train_images[first : first + chosen.batch])
    labels = torch.from_numpy(digits.train_labels[first : first + chosen.batch])
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(
    f"loss of the first ten batches {np.mean(losses[:10]):.2f}, last ten {np.mean(losses[-10:]):.2f}"
)

# %% [markdown]
# Data-parallel training sends either the parameters $\theta$, or their gradients, which are in `parameter.grad` after `backward`. LeNet has both in ten tensors:

# %%
for name, parameter in model.named_parameters():
    print(f"{name:14s}{tuple(parameter.shape)!s:18s}{parameter.numel():7d} numbers")
print(f"together {sum(p.numel() for p in model.parameters())}")

# %% [markdown]
# ## `torch.distributed` over MPI, in ten lines
#
# PyTorch communicates through a *backend*. Its source code includes one for MPI, but the wheel that `pip` installs does not; the author of one of the course's sources spent four days building it. `helpers.torch_mpi` is a backend in Python over mpi4py and needs no building. With `mpi://`, rank and size come from MPI, so `init_process_group` needs no address and no port.
#
# Another source adds 1, 2 and 3 on three ranks with `all_reduce`, and prints 0. The right answer is 6. *How can a program print 0?* Look for two ways before you read on. (You can run this cell again; the process group is made only once.)

# %%
# %%ranks --timeout 120
import torch
import torch.distributed as dist

from helpers.torch_mpi import BACKEND

torch.set_num_threads(1)
if not dist.is_available():
    raise RuntimeError("this build of PyTorch has no torch.distributed")
if not dist.is_initialized():
    dist.init_process_group(BACKEND, init_method="mpi://")  # BACKEND is "mpi4py"
three = dist.new_group([0, 1, 2])
if rank < 3:
    x = torch.tensor([rank + 1.0])
    dist.all_reduce(x, op=dist.ReduceOp.SUM, group=three)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} has {x}")

# %% [markdown]
# Each of the three ranks prints $1 + 2 + 3 = 6$; rank 3 took no part. (One way to get 0: print another tensor than the reduced one, since `all_reduce` writes into its argument. Another: start it with `async_op=True` and print before the `wait`. The source does not say which it was.)
#
# `send` and `recv` work as in MPI. The receiver supplies a tensor of the right shape:

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
# **Data-parallel**: every rank has the whole model and a part of the batch. **Model-parallel**: every rank has a part of the model, and the whole batch passes through all ranks. Here rank 0 holds LeNet's convolutions and rank 1 its linear layers. Activations are sent forwards, and their gradients backwards:

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
# Each rank now has the gradients of its own layers. Do they equal those of the whole network?

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
# The model-parallel step sends little here, and sends more with a larger batch. The data-parallel step sends all gradients, whatever the batch. But model-parallel ranks wait: rank 1 has nothing to do before $h$ arrives, and rank 0 nothing until $dh$ comes back. (Pipelines, in notebook [11](11_pipelines.ipynb), reduce the waiting with several small batches at once.) The rest of this notebook is data-parallel.
#
# ### Exercise 1: which sends more?
#
# *Difficulty ●○○, 4 minutes.* Between the two halves of a network, `width` activations of each sample are sent, and as many gradients back. Data-parallel training sends the gradients of all `parameters`. From which batch size on does the model-parallel step send *more* numbers?
#
# <details><summary>Hint</summary>
#
# Compare $2 \cdot \mathrm{width} \cdot B$ with `parameters`. Equal is not more.
#
# </details>


# %% exercise="more-bytes-from"
def more_bytes_from(width, parameters):
    """Return the smallest batch for which the activations are more numbers than the gradients."""
    # BEGIN SOLUTION
    return parameters // (2 * width) + 1
    # END SOLUTION


# %% check="more-bytes-from" points=1
check.more_bytes_from(more_bytes_from)

# %%
print(f"LeNet cut after its convolutions: from B = {more_bytes_from(400, 61_706)} on")

# %% [markdown]
# ## Gradients add
#
# Cut a batch $D$ into $R$ equal parts $D_1 \dots D_R$. The gradient of a sum is the sum of the gradients, so
#
# $$\nabla_\theta \frac{1}{RB} \sum_{i \in D} \mathrm{loss}_i = \frac{1}{R} \sum_{r=1}^{R} \underbrace{\nabla_\theta \frac{1}{B} \sum_{i \in D_r} \mathrm{loss}_i}_{g_r}$$
#
# The *mean* of the replicas' gradients is the gradient of the whole batch: $R$ replicas with batch size $B$ are one process with batch size $R \cdot B$. An example by hand, with four numbers on four ranks: let $\mathrm{loss}_i = \frac12 (\theta - x_i)^2$, so the gradient is $\theta - x_i$, with $\theta = 0$ and $x = 1, 2, 3, 6$.

# %%
# %%ranks
x = [1.0, 2.0, 3.0, 6.0][rank]
gradient = torch.tensor([0.0 - x])
dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
gradient.item()

# %% [markdown]
# One process with all four samples gets $-(1 + 2 + 3 + 6)/4 = -3$, the same.
#
# What if the parts are not equal? Then the total loss is a *weighted* sum, $\sum_r \alpha_r L(D_r)$ with $\alpha_r = |D_r| / \sum_s |D_s|$, and its gradient has the same weights. Five samples, two of them on rank 0:

# %%
# %%ranks --only 0,1,2,3
part = [[1.0, 2.0], [3.0], [6.0], [8.0]][rank]
mean = torch.tensor([-sum(part) / len(part)])
weighted = mean * len(part) / 5
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
dist.all_reduce(weighted)
print(f"plain mean {mean.item():.3f}, weighted {weighted.item():.3f}")

# %% [markdown]
# One process gets $-(1 + 2 + 3 + 6 + 8)/5 = -4$. The plain mean gives each of rank 0's samples only half of the weight that the others have.
#
# ### Exercise 2: `sync_gradients`
#
# *Difficulty ●○○, 10 minutes.* Every rank has called `backward` on its own batch. Write a function that leaves the **mean** over all ranks in every parameter's `.grad`, on any number of ranks, and returns the model. You will train with it. On the ranks your function can use `dist`, `comm`, `rank` and `size`. If ranks wait for each other for ever, the attempt ends after a few seconds, with a table of who waits for whom.
#
# <details><summary>Hint</summary>
#
# `dist.all_reduce(tensor)` replaces `tensor` by the sum over ranks. What turns a sum into a mean? `dist.get_world_size()` counts the ranks. Write into the existing gradient (`parameter.grad /= 3`): the optimizer may hold that very tensor.
#
# </details>


# %% exercise="sync-gradients"
def sync_gradients(model):
    """Leave the mean over all ranks in the gradients of model.parameters(); return the model."""
    # BEGIN SOLUTION
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= dist.get_world_size()
    return model
    # END SOLUTION


# %% check="sync-gradients" points=2
check.sync_gradients(sync_gradients, cluster=cluster)

# %% [markdown]
# ### Exercise 3: unequal parts
#
# *Difficulty ●●○, 10 minutes.* Now rank $r$ has `count` samples, and its gradients are the mean over *those*. Leave the mean over **all samples of all ranks** in every `.grad`, and return the model.
#
# <details><summary>Hint</summary>
#
# Weight before you add: $\alpha_r = |D_r| / \sum_s |D_s|$. The sum in the denominator needs a message too.
#
# </details>


# %% exercise="sync-weighted"
def sync_weighted(model, count):
    """Leave the mean over all samples of all ranks in the gradients; return the model."""
    # BEGIN SOLUTION
    everything = torch.tensor(float(count))
    dist.all_reduce(everything)
    for parameter in model.parameters():
        parameter.grad *= count / everything.item()
        dist.all_reduce(parameter.grad)
    return model
    # END SOLUTION


# %% check="sync-weighted" points=2
check.sync_weighted(sync_weighted, cluster=cluster)

# %% [markdown]
# Your function on the five samples from above:


# %%
def five_samples(sync):
    part = [[1.0, 2.0], [3.0], [6.0], [8.0]][rank]
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.grad = torch.tensor([[-sum(part) / len(part)]])
    return sync(model, len(part)).weight.grad.item()


if check.sync_weighted.passed(sync_weighted, cluster=cluster):
    print("your weighted mean, on each rank:", cluster.run(five_samples, sync_weighted))
else:
    print("Exercise 3 first")

# %% [markdown]
# ## Synchronous, without a server
#
# Replicas that start equal and take equal steps stay equal. So rank 0 sends its initial parameters to all ranks once:

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
# (`dist.broadcast` does the same, and rank 0 need not send to everyone itself.) After that, only gradients are sent. One training loop serves every way to send them, `train` in `helpers/data_parallel/loop.py`. It calls the methods of a *scheme*: before the backward pass, after it, and after the optimizer's step. Four schemes in `helpers/data_parallel/schemes` average with our ring allreduce (notebook [08](08_allreduce_animation.ipynb)), with MPI's allreduce, with `torch.distributed` tensor by tensor, and with PyTorch's `DistributedDataParallel`. A fifth sends *[buckets](glossary.md#bucket)* of gradients while the backward pass still computes earlier layers. A sixth calls **your** function.
#
# Each replica also needs its own part of the data. In each [epoch](glossary.md#epoch), `train` shuffles the samples with one seed on all ranks, and each rank takes its part of every batch. PyTorch's `DistributedSampler` with `set_epoch` does this too.
#
# ### Exercise 4: a part of the data for each rank
#
# *Difficulty ●●○, 10 minutes.* Write that shuffle. There are `count` samples, numbered from 0, and `size` ranks. Return the numbers of the samples that `rank` processes in `epoch`, in order, as a list or an array.
#
# - No sample is on two ranks in one epoch.
# - Every rank has `count // size` samples. The remaining ones are left out, in each epoch other ones.
# - Every epoch (0, 1, 2, ...) shuffles all samples anew. The same epoch always gives the same answer.
# - Nothing is sent: each rank calls your function with its own number.
#
# You will train with it.
#
# <details><summary>Hint</summary>
#
# `np.random.default_rng(epoch).permutation(count)` is the same on all ranks. Shuffle first, and then take a part: every `size`-th number, or one block of `count // size`.
#
# </details>


# %% exercise="shard"
def shard(count, rank, size, epoch):
    """Return the samples of this rank in this epoch, in the order in which it takes them."""
    # BEGIN SOLUTION
    order = np.random.default_rng(epoch).permutation(count)
    return order[rank::size][: count // size]
    # END SOLUTION


# %% check="shard" points=2
from helpers.exercises import sampling as check_data

check_data.shard(shard)

# %% [markdown]
# Train with it (until it passes the check, with the order of `train`):

# %%
from helpers.data_parallel.schemes import MPIAllreduce

own_order = shard if check_data.shard.passed(shard) else None
learning = {"batch": chosen.batch, "rate": chosen.rate, "momentum": chosen.momentum}
sharded = cluster.run(runs.train, MPIAllreduce, steps=150, shard=own_order, timeout=60, **learning)[
    0
]
whose = "train's order" if own_order is None else "your shards"
print(f"{whose}: accuracy {sharded.accuracy:.1%} after {sharded.updates} updates")

# %% [markdown]
# PyTorch's `DistributedSampler` does the same if you tell it the epoch. Ten samples, four ranks, two epochs:
#
# > **Predict:** how many different orders do the two epochs have if nobody calls `set_epoch`? And how many samples, of ten, do the four ranks have together?

# %%
guess["orders of two epochs without set_epoch"] = ...
guess["samples of four ranks together, of ten"] = ...

# %%
from torch.utils.data import DistributedSampler

drawn = {}
for told in (False, True):
    samplers = [DistributedSampler(range(10), chosen.ranks, r) for r in range(chosen.ranks)]
    for epoch in (0, 1):
        for sampler in samplers if told else ():
            sampler.set_epoch(epoch)
        drawn[told, epoch] = [list(sampler) for sampler in samplers]
        print("told" if told else "not told", f"epoch {epoch}: {drawn[told, epoch]}")
guess.answer("orders of two epochs without set_epoch", len({str(drawn[False, e]) for e in (0, 1)}))
guess.answer("samples of four ranks together, of ten", sum(map(len, drawn[True, 0])))

# %% [markdown]
# The training loop has to call `set_epoch` itself. If you forget it, every epoch repeats the order of the first, without a warning. And where your function leaves samples out, `DistributedSampler` uses some of them twice, unless you ask for `drop_last=True`.
#
# Now the schemes, side by side.

# %%
import inspect

from helpers.data_parallel.schemes import DDP, Buckets, ByFunction, MPIAllreduce, PerTensor, Ring

print(inspect.getsource(Ring))
print(inspect.getsource(ByFunction.after_backward))

# %% [markdown]
# What does the ring send? We record one average of LeNet's 61 706 gradients on all ranks. Each gradient takes 4 bytes.
#
# > **Predict:** sending everything to every other rank would take 3 messages of 246 824 bytes from each rank. How many bytes leave a rank in the ring?

# %%
guess["bytes that leave a rank in the ring"] = ...

# %%
# %%ranks --trace ring_trace --timeout 60
import numpy as np

from helpers.collectives import allreduce

_ = allreduce(np.ones(61_706, dtype=np.float32), comm, algorithm="ring")

# %%
from helpers.tracing.cutting import point_to_point

sent = [m for m in point_to_point(ring_trace).messages if m.source == 0]
ring_steps, ring_bytes = len(sent), sum(message.bytes for message in sent)
print(
    f"rank 0: {ring_steps} messages, {ring_bytes} bytes, to ranks {sorted({m.dest for m in sent})}"
)
guess.answer("bytes that leave a rank in the ring", ring_bytes)

# %% [markdown]
# Each rank sends $2(R-1) = 6$ messages of a quarter of the gradients to one neighbour: $2(R-1)/R = 1.5$ times the bytes of all gradients. Notebook [08](08_allreduce_animation.ipynb) steps through the ring, and shows why no algorithm can send less.

# %%
from functools import partial

settings = {"batch": chosen.batch, "rate": chosen.rate, "momentum": chosen.momentum}
short = {"steps": 40, "seed": chosen.seed, **settings}
schemes = {"mpi": MPIAllreduce, "ours": Ring, "torch": PerTensor, "ddp": DDP, "buckets": Buckets}
schemes["yours"] = partial(ByFunction, function=sync_gradients)
ways = {
    way: cluster.run(runs.train, scheme, timeout=120, **short) for way, scheme in schemes.items()
}
print("way       steps/s   T_comp ms   T_sync ms   difference from 'mpi'   between replicas")
for way, everyone in ways.items():
    one, replicas = everyone[0], np.array([each.weights for each in everyone])
    apart = np.abs(one.weights - ways["mpi"][0].weights).max()
    print(
        f"{way:8s}{one.steps_per_second:9.1f}{1e3 * one.compute:12.2f}"
        f"{1e3 * one.synchronize:12.2f}{apart:20.0e}{np.ptp(replicas, axis=0).max():19.0e}"
    )

# %% [markdown]
# After 40 steps all schemes have the same parameters up to float32 rounding, and within each scheme *all replicas have the same bits*: the last column is 0. If your line differs, your function does not yet pass the check, and the replicas train apart.
#
# Now the times. $T_{sync}$ is the time in messages of the rank that waits least; $T_{comp}$ is the time of the slowest rank. With more ranks than cores, ranks also wait for a core. `ddp` and `buckets` send during `backward`, so part of their $T_{sync}$ counts as $T_{comp}$.
#
# Do the buckets pay? Compare their steps per second with those of `mpi`. Overlap needs a device that moves bytes while the processor computes. Here the processor moves them itself, and every bucket also pays the latency $\alpha$ of a message (notebook 01). `DistributedDataParallel` was made for machines whose network card moves the bytes.

# %% [markdown]
# Are the replicas also one process with batch size $R \cdot B$? The notebook's kernel runs that process, on the batches that the four replicas had together.

# %%
from helpers.data_parallel.sampling import batches

alone = LeNet(seed=chosen.seed)
optimizer = torch.optim.SGD(alone.parameters(), lr=chosen.rate, momentum=chosen.momentum)
training = digits.train_images, digits.train_labels
together = batches(*training, chosen.ranks * chosen.batch, seed=chosen.seed)
for _, (images, labels) in zip(range(40), together, strict=False):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(alone(images), labels).backward()
    optimizer.step()
flat = torch.cat([p.detach().flatten() for p in alone.parameters()]).numpy()
as_one = np.abs(flat - ways["mpi"][0].weights).max()
print(f"largest difference from four replicas: {as_one:.1e}")

# %% [markdown] claims="02-one-larger-batch 02-one-larger-batch-double 02-kinks"
# The four replicas *are* the one process, up to the order in which numbers are added. Does this hold for every seed, and does the rounding error stay small? The records answer three questions. Does the difference stay below $10^{-4}$? Does it stay below $10^{-12}$ in double precision? And how large is it as long as both *decide* alike, that is, every ReLU is on in both or off in both, and every maximum takes the same number?

# %%
for name in ("one-larger-batch", "one-larger-batch-double", "kinks"):
    display(claims.evidence(f"02-{name}"))

# %% [markdown]
# In double precision all runs stay below $10^{-12}$: nothing but rounding separates the two. In single precision, all 16 runs on one processor stay below $10^{-4}$, and 14 on another. As long as all decisions are alike, they stay within $10^{-6}$. But rounding can put a number on the other side of a ReLU's kink. From then on the two gradients differ by more than rounding.

# %% [markdown]
# Now a longer training: 1 500 gradients, four in each step. Beside it runs *one process* as in the opening question: it makes an update with each gradient of 8 samples, with the same rate and momentum.

# %%
settings["seed"] = chosen.seed
steps = chosen.gradients // chosen.ranks
in_step = cluster.run(runs.train, MPIAllreduce, steps=steps, timeout=120, **settings)[0]
single = cluster.run(runs.alone, steps=chosen.gradients, timeout=120, **settings)[0]
for run in (in_step, single):
    print(f"{run.scheme}: {run.updates} updates in {run.seconds[-1]:.1f} s,", end=" ")
    print(f"accuracy {run.accuracy:.1%}")

# %% [markdown] claims="02-one-process"
# With the same number of gradients and four times as many updates, the one process is *worse*. The reason is not that it is one process: the rate was chosen for batches of 32. In the records it is worse by 26 and 37 points on average, on two processors. Seeds range from 10 to 89 %; on the second processor five seeds are too few to decide. With a quarter of the rate, the one process is better on both processors:

# %%
claims.evidence("02-one-process")

# %% [markdown]
# So **the right learning rate depends on the batch size**. Going from one process to $R$ replicas multiplies the batch by $R$. You may then raise the rate, and often must, to gain anything.

# %% [markdown]
# ### Several batches, one average
#
# A batch may be too large for a rank's memory, or the link may be slow. Then each rank adds up the gradients of several small batches, and the ranks average only the sum. `DistributedDataParallel` has a context for this, `no_sync()`. Below each rank processes four small batches, first without `no_sync()`, and then with the first three batches in it. A hook that replaces the allreduce of `DistributedDataParallel` counts.
#
# > **Predict:** how many allreduces does it count for the four batches, and how many with three of them under `no_sync()`?

# %%
guess["allreduces of 4 backwards"] = ...
guess["allreduces of 4 backwards, 3 of them under no_sync"] = ...

# %%
# %%ranks --timeout 60
from contextlib import nullcontext

from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(rank)
small = [(torch.rand(8, 1, 28, 28), torch.randint(10, (8,))) for _ in range(4)]
sent, summed = {False: [], True: []}, {}
for quiet in (False, True):
    ddp = DistributedDataParallel(LeNet(seed=0))

    def counted(numbers, bucket):
        numbers.append(bucket.buffer().numel())
        return allreduce_hook(None, bucket)

    ddp.register_comm_hook(sent[quiet], counted)
    for number, (x, y) in enumerate(small):
        with ddp.no_sync() if quiet and number < 3 else nullcontext():
            (cross_entropy(ddp(x), y) / 4).backward()
    summed[quiet] = torch.cat([p.grad.flatten() for p in ddp.parameters()])
print(f"apart {(summed[False] - summed[True]).abs().max():.0e}, sizes {sent[False]}, {sent[True]}")

# %%
without, within = cluster.run(lambda: [len(sent[quiet]) for quiet in (False, True)])[0]
guess.answer("allreduces of 4 backwards", without)
guess.answer("allreduces of 4 backwards, 3 of them under no_sync", within)

# %% [markdown]
# `DistributedDataParallel` averages in *every* `backward` outside `no_sync()`. The gradients are equal up to rounding: the mean over ranks of a sum over batches is the sum of the means.
#
# ### Exercise 5: one average for several batches
#
# *Difficulty ●●○, 10 minutes.* Do by hand what `no_sync()` does. Every rank has a list `batches` of pairs `(x, y)`. All lists have the same length and all batches the same size, and `loss(model(x), y)` is the mean over a batch. Leave the mean over all samples of all batches **of all ranks** in every `.grad`, and return the model. `sync(model)` is your function from Exercise 2: it replaces every `.grad` by its mean over all ranks. Call it once. Never hold the activations of more than one batch: finish the backward pass of a batch before you begin the next. At the beginning every `.grad` is `None`.
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
from helpers.exercises import going_on as check_on

check_on.accumulate(accumulate, cluster=cluster)

# %% [markdown]
# Your function on LeNet: 32 digits on each rank, cut into 1, 2, 4 and 8 batches. Beside it stands one `backward` of all 32 digits with one average. (Both average by your `sync_gradients`, or by `averaged` until yours is right.)


# %%
def averaged(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
    return model


def in_parts(count, function, sync):
    """On each rank: the gradient of 32 digits in so many batches, and how often it averaged."""
    averages = []

    def counted(model):
        averages.append(model)
        return sync(model)

    data, net = runs.digits(), LeNet(seed=0)
    x, y = (torch.from_numpy(d[rank::size][:32]) for d in (data.train_images, data.train_labels))
    if function is None:
        torch.nn.functional.cross_entropy(net(x), y).backward()
        counted(net)
    else:
        batches = list(zip(x.chunk(count), y.chunk(count), strict=True))
        function(net, torch.nn.functional.cross_entropy, batches, counted)
    return torch.cat([p.grad.flatten() for p in net.parameters()]), len(averages)


# %%
passed = check.sync_gradients.passed(sync_gradients, cluster=cluster)
sync = sync_gradients if passed else averaged
if check_on.accumulate.passed(accumulate, cluster=cluster):
    at_once, _ = cluster.run(in_parts, 1, None, sync)[0]
    for count in (1, 2, 4, 8):
        found, averages = cluster.run(in_parts, count, accumulate, sync)[0]
        print(
            f"{count} batches of {32 // count:2d}: {10 * averages} allreduces of a tensor, "
            f"{10 * count} with one in every backward; {(found - at_once).abs().max():.0e} from the whole"
        )
else:
    print("Exercise 5 first")

# %% [markdown]
# For any number of batches, the gradient is that of all 32 samples of each rank, up to rounding. Each of LeNet's ten tensors is averaged once.
#
# ### A checkpoint
#
# Replicas are equal, so one of them saves, and all of them read. Nobody may read before rank 0 has written everything: hence the barrier. What must a checkpoint contain? Each line below trains three more steps: without interruption; from the checkpoint; and from the checkpoint's parameters alone. The *fingerprint* is a hash of all parameters: it shows whether two networks are equal to the last bit.

# %%
# %%ranks --timeout 60
import hashlib
import shutil
import tempfile


def begin(seed):
    net = LeNet(seed=seed)
    return net, torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)


def three_steps(net, sgd):
    for x, y in small[:3]:
        sgd.zero_grad()
        cross_entropy(net(x), y).backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        sgd.step()
    bits = b"".join(parameter.detach().numpy().tobytes() for parameter in net.parameters())
    return hashlib.sha256(bits).hexdigest()[:8]


# %%
# %%ranks --timeout 60
folder = comm.bcast(tempfile.mkdtemp() if rank == 0 else None)
net, sgd = begin(seed=0)
three_steps(net, sgd)
if rank == 0:
    saved = {"net": net.state_dict(), "sgd": sgd.state_dict()}
    torch.save(saved, f"{folder}/checkpoint.pt")
dist.barrier()
print("not interrupted ", three_steps(net, sgd))
for parts in (("net", "sgd"), ("net",)):
    net, sgd = begin(seed=rank)  # what a new process begins with
    read = torch.load(f"{folder}/checkpoint.pt")
    net.load_state_dict(read["net"])
    if "sgd" in parts:
        sgd.load_state_dict(read["sgd"])
    print(f"from {' and '.join(parts):11s}", three_steps(net, sgd))
dist.barrier()
if rank == 0:
    shutil.rmtree(folder)

# %% [markdown]
# One line stands for all ranks: after loading, the four have the same bits, though each had begun with other parameters. With the optimizer's state, training continues as if nothing had happened. Without it, $v$ begins at 0 again, and the parameters differ. So everything that moves the parameters belongs in the checkpoint. (On several hosts all must see the file; otherwise rank 0 reads it and broadcasts.)
#
# Those three steps used the same batches each time. A training over epochs has more state. Here is one of its steps:

# %%
from helpers.data_parallel.interruptible import Run

print(inspect.getsource(Run.__init__), inspect.getsource(Run.step), sep="\n")

# %% [markdown]
# ### Exercise 6: interrupted and resumed
#
# *Difficulty ●●○, 12 minutes.* Write two functions.
#
# - `state_of(run)` returns what a checkpoint of `run` (a `Run`) must contain, as something that `torch.save` writes and `torch.load` reads: a dictionary of tensors, numbers and `state_dict()`s. It leaves the run as it is.
# - `go_on_from(run, saved)` gets a **new** run, with another network's random parameters and no step done, and what was read from the file. It changes the new run so that every further step equals, to the last bit, the step that the old run would have made. It need not return anything.
#
# This must hold after any number of steps, even none, for any network that draws no random numbers in a step, and if a schedule has changed the rate in the meantime. (With dropout, the state of the random generator would be needed too.) You need no messages: rank 0 saves, and all read.
#
# <details><summary>Hint</summary>
#
# Go through `step` and ask of every name that begins with `self.`: does a step change it, and would a new run have another value? `run.net` and `run.sgd` have `state_dict()` and `load_state_dict(...)`; the latter changes in place, so the optimizer keeps its tensors.
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
# Four ranks, 160 digits, five steps an epoch. After seven steps rank 0 saves what your function returns. Then the run makes six more steps, and so does a new run on each rank, from your checkpoint. Line 3 restores everything except the position in the data.


# %%
def cut_off(state_of, go_on_from, sync):
    """On each rank: fingerprints of a run and of those that go on from its checkpoint."""
    data, path = runs.digits(), comm.bcast(tempfile.mkdtemp() if rank == 0 else None)
    few = data.train_images[:160], data.train_labels[:160]
    going = [Run(LeNet(seed=rank + n), *few, (rank, size), sync) for n in range(3)]
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
    for name, *found in zip(names, *cluster.run(cut_off, state_of, go_on_from, sync), strict=True):
        print(f"{name:28s}", *found)
else:
    print("Exercise 6 first")

# %% [markdown]
# Each rank has a column. From your checkpoint, training continues to the last bit, on four ranks that had begun with four other networks. Without the position in the data, the same samples come again, and the parameters differ.

# %% [markdown]
# ## Synchronous, with a server
#
# Rank 0 is now the *server*. It receives one gradient from each worker, averages them, makes the update and sends the parameters back. Three workers remain, so a step has three gradients.

# %%
from helpers.data_parallel.schemes import Server

steps = chosen.gradients // (chosen.ranks - 1)
served = cluster.run(runs.train, Server, steps=steps, timeout=120, **settings)[0]
print(f"{served.updates} updates in {served.seconds[-1]:.1f} s, accuracy {served.accuracy:.1%}")

# %% [markdown]
# Where does the time go? Three steps, recorded on all ranks:

# %%
# %%ranks --trace served_trace --timeout 120
from helpers.data_parallel import runs
from helpers.data_parallel.schemes import Asynchronous, Server

runs.train(Server, comm, steps=3, batch=8).updates

# %%
from helpers.data_parallel.messages import GRADIENT, HELLO, PARAMETERS, READY
from helpers.plots.timeline import timeline

tags = {GRADIENT: "g", PARAMETERS: "θ", HELLO: "hello", READY: "ready"}
title = "Three steps in step with a server: gradients g up, parameters θ down"
_ = timeline(point_to_point(served_trace), title=title, tags=tags)
plt.show()

# %% [markdown]
# Read one step from the left. A worker computes between the arrow that brings parameters (θ) and the arrow that takes its gradient (g). Nothing is drawn there, because only MPI calls are drawn. Rank 0 computes no gradient. It waits for the first g (orange: it looks again and again), receives the others one by one, makes the update and sends θ to one worker after another. A worker that is served first begins its next gradient first.

# %% [markdown]
# ## Asynchronous: a parameter server
#
# The server need not wait for everyone. Each worker *fetches* the parameters, computes a gradient on its own data, and *pushes* it. The server updates at once. Meanwhile other workers have changed the parameters: the gradient was computed with parameters that are $\tau$ updates old.
#
# A worker sends its gradient layer by layer, in the order of the backward pass, and several workers push at once. The server must not fill one gradient with layers of two workers. MPI can keep them apart: messages from *one* source with one tag never overtake each other ([01](01_mpi_basics.ipynb)). So receive the *first* layer from any source and the others from *that* source. First without this precaution:

# %%
# %%ranks --timeout 60
import time

import numpy as np

layer, status = np.zeros(2), MPI.Status()
for from_whom in ("anyone", "the first one's source"):
    for _ in range(4 if rank in (1, 2) else 0):
        comm.Send(np.full(2, float(rank)), dest=0)
        time.sleep(0.01)  # the backward pass of one layer
    for _ in range(2 if rank == 0 else 0):
        sources = []
        for number in range(4):
            known = number and from_whom != "anyone"
            comm.Recv(layer, status.Get_source() if known else MPI.ANY_SOURCE, status=status)
            sources.append(int(layer[0]))
        print(f"layers after the first from {from_whom}: a gradient of ranks {sources}")
    comm.Barrier()

# %% [markdown] claims="02-mixed-layers"
# These "gradients" mix layers of two workers with different parameters and different data, so they are the gradient of no function. In the lines below, each gradient is one worker's, without any handshake. (The synchronous server gets one flat message from a worker, which cannot mix.)

# %%
claims.evidence("02-mixed-layers")

# %% [markdown]
# ### Exercise 7: the server's receive
#
# *Difficulty ●●○, 12 minutes.* Workers push their gradients layer by layer, all in the same order, without asking first. `layers` are the server's arrays. Fill them with the layers of **one** worker's gradient, that of the worker who comes first. Return this worker's rank. Your function then serves a training.
#
# <details><summary>Hint</summary>
#
# `comm.Recv(array, source, tag, status)`: afterwards `status.Get_source()` tells the source. `MPI.Status()` makes a status; the ranks know `MPI`.
#
# </details>


# %% exercise="receive-gradient"
def receive_gradient(comm, layers):
    """Fill `layers` with the layers of one worker's gradient; return that worker's rank."""
    # BEGIN SOLUTION
    status = MPI.Status()
    comm.Recv(layers[0], MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    for layer in layers[1:]:
        comm.Recv(layer, status.Get_source())
    return status.Get_source()
    # END SOLUTION


# %% check="receive-gradient" points=3
check.receive_gradient(receive_gradient, cluster=cluster)

# %% [markdown]
# The server `Unannounced` calls your function for every update, and answers the worker that it names. (Until it works, there is no update, and the report says why.)

# %%
from helpers.data_parallel.schemes import Unannounced

print(inspect.getsource(Unannounced.after_backward))
free = {"batch": chosen.batch, "rate": chosen.rate_async, "momentum": 0.0, "seed": chosen.seed}
by_you = partial(Unannounced, receive=receive_gradient)
own = cluster.run(runs.train, by_you, steps=400, timeout=30, **free)[0]
print(f"{own.updates} updates by ranks {sorted(set(own.workers))},", end=" ")
print(f"accuracy {own.accuracy:.1%}", *own.report)

# %% [markdown]
# ### Exercise 8: staleness by hand
#
# *Difficulty ●●○, 8 minutes.* The list `workers` says whose gradient made each update. All workers began with the parameters of update 0, and each fetches new parameters right after its own update. For each gradient, how many updates old were its parameters? `staleness_of([1, 2, 1])` is `[0, 1, 1]`: rank 2's gradient misses the update by rank 1, and rank 1's second gradient misses the update by rank 2.
#
# <details><summary>Hint</summary>
#
# For each worker, remember the number of updates at its last fetch.
#
# </details>


# %% exercise="staleness-of"
def staleness_of(workers):
    """Return, for each update, how many updates old the parameters behind its gradient were."""
    # BEGIN SOLUTION
    fetched, found = {}, []
    for update, worker in enumerate(workers):
        found.append(update - fetched.get(worker, 0))
        fetched[worker] = update + 1
    return found
    # END SOLUTION


# %% check="staleness-of" points=2
check.staleness_of(staleness_of)

# %%
print("as the server noted it:", staleness_of(own.workers) == own.staleness)

# %% [markdown]
# ### What a handshake is for
#
# The course's server, `Asynchronous`, exchanges more messages. Each has a *tag* that says what it is:
#
# ```
# worker                                  server
# HELLO  what I bring, how old   ───▶     takes the next hello, from any source
#                                ◀───     READY  go or stop, and why
# GRADIENT  layer by layer       ───▶     receives from this worker only; updates
#                                ◀───     PARAMETERS  layer by layer
# ```
#
# The hello is not needed to keep layers apart. It lets the server *refuse* a gradient before it is sent (wrong sizes, too old), *stop* the training, serve one worker at a time, and *give up* a worker that falls silent. A hello that arrives while the server is busy waits in MPI's queue.

# %% [markdown]
# Four questions decide the design of each scheme:
#
# | question | synchronous, no server | synchronous, a server | asynchronous |
# |---|---|---|---|
# | how many copies of the model? | $R$, always equal | $R - 1$, always equal | $R - 1$, of different ages |
# | what *must* the server store? | there is none | $\theta$, $v$, an arriving gradient | $\theta$, $v$, an arriving gradient, the count of updates |
# | what *must* a worker store? | $\theta$, $g_r$, $v$ | $\theta$, $g_r$ | $\theta$, $g_r$, the count at its last fetch |
# | what is sent in a step? | gradients, summed on the way | $g_r$ to the server, $\theta$ back | hello and ready; $g_r$ to the server, $\theta$ back |
#
# A source says that the server needs a whole model and an optimizer, because PyTorch's optimizer is tied to parameters. But the update needs only flat arrays; this is all of it:

# %%
from helpers.data_parallel.optimizers import FlatSGD

print(inspect.getsource(FlatSGD))

# %% [markdown]
# Does it compute the same as PyTorch's optimizer? Then a server with three workers must end where three replicas without a server do:

# %%
three = cluster.run(runs.train, Server, timeout=60, **short)[0].weights


def without_a_server():
    group = comm.Split(0 if rank < 3 else 1)
    return runs.train(MPIAllreduce, group, **short).weights if rank < 3 else None


by_flat_arrays = np.abs(three - cluster.run(without_a_server, timeout=60)[0]).max()
print(f"largest difference after 40 steps: {by_flat_arrays:.0e}")

# %% [markdown]
# Does an asynchronous training have epochs? Each worker goes through its own part of the data at its own pace, so they do not end an epoch together. The server stops after a number of updates or seconds, or when the loss is low enough. Here it stops after as many gradients as before.

# %%
from helpers.data_parallel.schemes import Asynchronous

out_of_step = cluster.run(runs.train, Asynchronous, steps=chosen.gradients, timeout=120, **free)[0]
print(f"{out_of_step.updates} updates in {out_of_step.seconds[-1]:.1f} s,", end=" ")
print(f"accuracy {out_of_step.accuracy:.1%}; {out_of_step.report[-1]}")

# %% [markdown]
# `Stop` ends a run after a number of seconds, or once the loss (averaged over 20 updates) falls below a value, whichever comes first. An asynchronous server decides alone, and tells each worker at its next hello. In a synchronous run every rank must leave after the *same* update, or the others would wait for it. So the ranks agree after each update, on rank 0's clock and on the mean of their losses.

# %%
from helpers.data_parallel.schemes import Stop

ends = []
for scheme, how in ((MPIAllreduce, settings), (Asynchronous, free)):
    for stop in (Stop(seconds=0.3), Stop(seconds=10, loss=1.5)):
        run = cluster.run(runs.train, scheme, steps=1000, stop=stop, timeout=60, **how)[0]
        ends.append(run.ended)
        print(f"{run.scheme:14s} {run.updates:4d} updates, {run.seconds[-1]:.2f} s: {run.ended}")

# %%
# %%ranks --trace free_trace --timeout 120
from functools import partial

flat = partial(Asynchronous, layers=False)  # each gradient in one message: fewer arrows
runs.train(flat, comm, steps=9, batch=8, momentum=0.0).staleness

# %%
whole = point_to_point(free_trace)
_ = timeline(point_to_point(free_trace, end=0.5 * whole.duration), tags=tags, title="Out of step")
plt.show()

# %% [markdown]
# The picture shows the first half of nine updates. Follow one worker: hello, ready, g, θ, and then it computes while others are served. The server serves one worker at a time. Nobody waits for the slowest worker; a worker waits only while the server serves another.
#
# ## All schemes on the same axes
#
# All four runs computed the same number of gradients. First the answers to your predictions:

# %%
histories = [in_step, single, served, out_of_step]
ratio = single.seconds[-1] / in_step.seconds[-1]
guess.answer("seconds of one process ÷ seconds of four replicas", ratio)
at = in_step.updates - 1
lower = in_step.smooth(15)[at] < single.smooth(60)[at]
guess.answer("loss of four replicas after as many updates", "lower" if lower else "higher")
_ = plots.losses(histories)
plt.show()

# %% [markdown] claims="02-batch 02-rate 02-stale-update 02-async-with-momentum"
# Each curve is a mean over the last 60 gradients. The left picture shows the time that you wait, the right one the loss after each update. Do not conclude too much from the right picture: the asynchronous and the synchronous run differ in *three* things, batch, rate and staleness. We change one at a time, over several seeds:

# %%
for name in ("batch", "rate", "stale-update", "async-with-momentum"):
    display(claims.evidence(f"02-{name}"))

# %% [markdown]
# - **Batch.** At the same rate, an update with the mean of four gradients lowers the loss more than an update with one gradient.
# - **Rate and momentum.** $\lambda = 0.02$, $\mu = 0.9$ is better than $\lambda = 0.05$, $\mu = 0$ with batches of 32, and worse with batches of 8.
# - **Staleness.** At $\lambda = 0.05$ and equal batches, a gradient that is about two updates old lowers the loss less than a fresh one. At $\lambda = 0.02$ five seeds do not decide.
# - **Together.** At the synchronous run's rate, one process reaches 75 % (mean of twelve seeds) on one processor and 64 % on another, where two of the twelve seeds only guess. The asynchronous runs reach 24 and 30 %; eight and six of the twelve seeds guess. (The seed does not fix an asynchronous run, because it does not fix the order in which workers arrive.) So at this rate asynchrony hurts. At a quarter of the rate, twelve seeds show no cost.

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
# Here four busy ranks share few cores, and the asynchronous scheme is not faster: one rank of four only serves, and all compete for the cores. With a core for each worker and step times that vary, a synchronous step waits for the slowest worker, and an asynchronous worker does not; section *A straggler* measures this.

# %% [markdown]
# > **Predict.** With $W = 3$ workers, how many updates old are the parameters of a gradient, on average? If rank 3 is four times slower than the others, does the *average over all gradients* become larger, smaller, or stay the same?

# %%
guess["mean staleness of three workers"] = ...
guess["... when one is four times slower"] = ...

# %%
slow_run = cluster.run(runs.train, Asynchronous, steps=120, slow={3: 4.0}, timeout=90, **free)[0]
guess.answer("mean staleness of three workers", float(np.mean(out_of_step.staleness)))
guess.answer("... when one is four times slower", float(np.mean(slow_run.staleness)))
_ = plots.staleness(slow_run)
plt.show()

# %% [markdown] claims="02-mean-staleness 02-slow-is-stale"
# The average stays $W - 1$: each update makes the parameters of the $W - 1$ other workers one update older, whoever is slow, and nothing else ages them. But the ages are unequal: the rare gradients of the slow rank are much older, and those of the others are fresher.

# %%
for name in ("mean-staleness", "slow-is-stale"):
    display(claims.evidence(f"02-{name}"))

# %% [markdown]
# What helps against old gradients? A **staleness-aware rate** (Zhang, Gupta, Lian, Liu 2016) divides the rate by $\tau$. As a scheme it takes three lines:


# %%
# %%ranks
class StalenessAware(Asynchronous):
    def update(self, replica, step):
        if self.serves:
            replica.flat.gradients /= max(1, self.staleness)
        super().update(replica, step)


# %%
careful = cluster.run(lambda: runs.train(StalenessAware, steps=400, **free), timeout=60)[0]
print(f"λ ÷ τ: accuracy {careful.accuracy:.1%} after {careful.updates} updates")
claims.evidence("02-staleness-aware")

# %% [markdown] claims="02-staleness-aware"
# These runs do not show that it helps: with three workers nearly all gradients are two updates old, so this is little more than half the rate. (Notebook [12](12_large_batches_and_compression.ipynb) has seven workers.) Another idea, **elastic averaging**, is the project at the end.
#
# ## A straggler
#
# We make one rank a *[straggler](glossary.md#straggler)*: rank 3 is slower by a factor $k$ (it sleeps after each gradient). Synchronous training waits for it in every step. In asynchronous training, rank 3 only contributes less. How much does it cost?
#
# ### Exercise 9: what a straggler costs
#
# *Difficulty ●●○, 8 minutes.* Each of `workers` workers needs `compute` seconds for a gradient and `rest` seconds for everything else between two gradients (messages, waiting to be served, the update). One worker is slow: it needs `k` times `compute`, and the same `rest`. Return two numbers, the gradients per second of all workers together: **synchronous**, where every step lasts until the slow worker has finished, and **asynchronous**, where each works at its own pace.
#
# <details><summary>Hint</summary>
#
# Synchronous: `workers` gradients in the time that the slow worker needs for one. Asynchronous: each worker delivers one gradient in its own time; how many does it deliver per second?
#
# </details>


# %% exercise="with-a-straggler"
def with_a_straggler(k, workers, compute, rest):
    """Return the gradients per second in step and out of step, one worker k times slower."""
    # BEGIN SOLUTION
    slow, others = k * compute + rest, compute + rest
    return workers / slow, (workers - 1) / others + 1 / slow
    # END SOLUTION


# %% check="with-a-straggler" points=2
check_on.with_a_straggler(with_a_straggler)

# %% [markdown]
# Move the slider: the ranks train once for each $k$. The grey bars are $k = 1$. The diamonds show your function's values for the slider's $k$. `compute` is $T_{comp}$ of the slowest rank in the synchronous run at $k = 1$. `rest` is the time between gradients minus `compute`, measured at $k = 1$ for each scheme.

# %%
from functools import cache

import ipywidgets


@cache  # each k is measured once
def rates(k):
    common = {"slow": {3: float(k)}, "timeout": 90}
    together = cluster.run(runs.train, MPIAllreduce, steps=30, **common, **settings)[0]
    alone = cluster.run(runs.train, Asynchronous, steps=120, **common, **free)[0]
    pushes = np.bincount(alone.workers, minlength=chosen.ranks)[1:]
    return [h.gradients / h.seconds[-1] for h in (together, alone)], pushes, together.compute


def foretold(k, speeds, compute):
    """What your function says for k, of the speeds at k = 1."""
    if not check_on.with_a_straggler.passed(with_a_straggler):
        return []
    pairs = enumerate(zip((chosen.ranks, chosen.ranks - 1), speeds, strict=True))
    return [with_a_straggler(k, n, compute, n / speed - compute)[i] for i, (n, speed) in pairs]


# %%
def straggle(k=4):
    if not cluster.running:
        print("The ranks were stopped in the last cell: run the notebook's cluster cell again.")
        return
    _, axes = plt.subplots(1, 2, figsize=(10, 3.6))
    schemes, names = ["in step", "out of step"], [f"rank {r}" for r in (1, 2, 3)]
    measured = {1: rates(1), k: rates(k)}
    for factor, colours, width in ((1, [style.GREY], 0.8), (k, style.PALETTE[:2], 0.5)):
        speeds, pushes, _ = measured[factor]
        axes[0].bar(schemes, speeds, width, color=colours, label=f"k = {factor}")
        axes[1].bar(names, pushes, width, color=colours[-1], label=f"k = {factor}")
    told = foretold(k, measured[1][0], measured[1][2])
    print("gradients/s:", *(f"{n} {v:.0f}," for n, v in zip(schemes, speeds, strict=True)), end=" ")
    print("your function:", *([f"{value:.0f}" for value in told] or "–"))
    if told:
        axes[0].plot(schemes, told, "D", color=style.VERMILION, label="your function")
    axes[0].set(ylabel="gradients per second", title="rank 3 is k times slower")
    axes[1].set(ylabel="gradients pushed", title="out of step, of 120")
    axes[0].legend()
    plt.show()


slider = ipywidgets.IntSlider(4, 1, 10, description="k", continuous_update=False)
ipywidgets.interactive(straggle, k=slider)

# %% [markdown]
# At $k = 1$ your function returns what was measured. At another $k$, a diamond that misses its bar shows that `compute` or `rest` has changed.
#
# Workers also fail. The server gives up a worker that falls silent in the middle of a push, drops a gradient that is not finite, and refuses layers of the wrong shape. Its report lists each case. A fourth worker leaves properly: it says goodbye.

# %%
from helpers.data_parallel.faults import Faulty

bad = {1: ("die mid-push", 4), 2: ("nan", 10), 3: ("wrong shape", 25)}
for faults in (bad, {1: ("die", 4)}):
    faulty = partial(Faulty, faults=faults, patience=1.0)
    survived = cluster.run(runs.train, faulty, steps=40, timeout=60, **free)[0]
    print(*survived.report, sep="\n")
    gap = np.diff(survived.seconds).max(initial=0)
    print(f"{survived.updates} updates; the longest pause between two was {gap:.2f} s\n")

# %% [markdown]
# The first fault is the expensive one: for `patience` seconds the server waits for layers that never come, and *everybody* waits for the server; see the longest pause above. After a goodbye nobody waits.
#
# If a rank's *process* is killed, MPI ends all the others too.
#
# ## Cost: when does a replica pay?
#
# One process needs $\frac{N}{B} T_{comp}$ for an epoch of $N$ samples. $R$ synchronous replicas need $\frac{N}{R B} (T_{comp} + T_{sync})$. This is less exactly if
#
# $$\frac{T_{sync}}{T_{comp}} < R - 1$$
#
# $T_{sync}$ depends on the number of parameters, on $R$ and on the link, but not on the batch. $T_{comp}$ grows with the batch. So replicas pay from some batch size on. We measure two cases, first with rank 0 computing alone (the others *sleep*, because a rank that waits in a barrier keeps a core busy), and then with all:
#
# - **LeNet**, with gradients sent through memory. Its convolutions use each weight up to 784 times for a sample: much computation, little to send.
# - **A wide perceptron** of 814 090 parameters, each used once for a sample. Its gradients are sent over **TCP**, as between machines.

# %%
from helpers.data_parallel import time_model
from helpers.machine import usable_cores

LARGE = (1, 2, 4, 8, 16, 32, 64, 128)
lenet2 = cluster.run(runs.time_model, 2, (1, 4, 16, 64), steps=12, timeout=90)[0]
lenet4 = cluster.run(runs.time_model, 4, (1, 4, 16, 64), steps=12, timeout=90)[0]
wide = cluster.run(runs.time_model, 2, LARGE, "perceptron", "TCP", steps=12, timeout=90)[0]
fits = {points[0].name: time_model.fit(points) for points in (lenet2, wide)}
for name, (fixed, per_sample, synchronize) in fits.items():
    print(
        f"{name:16s} T_comp ≈ {1e3 * fixed:.2f} ms + {1e3 * per_sample:.3f} ms · B,"
        f"  T_sync ≈ {1e3 * synchronize:.2f} ms"
    )

# %% [markdown]
# ### Exercise 10: predict the crossing
#
# *Difficulty ●●○, 10 minutes.* Let $T_{comp} = a + bB$ (`fixed` and `per_sample`, in ms), and let $T_{sync}$ be `synchronize` (in ms). Return the smallest whole batch size $B \ge 1$ at which $R$ replicas (`ranks`) are faster than one process.
#
# <details><summary>Hint</summary>
#
# Put $a + bB$ into the inequality and solve for $B$. *Faster* is strict: where both are equal, nothing is gained yet.
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
# Before you run the next cell: with the numbers printed above and $R = 2$, from which batch size on does each of the two pay? Your function answers too, and the measurements judge both: on the left, where the measured ratio passes 1; on the right, where the measured speedup does. Text and picture use one $T_{sync}$ for each curve, the median over all batches.

# %%
guess["LeNet pays from B ="] = ...
guess["the perceptron over TCP pays from B ="] = ...

# %%
answers = {}
asked = ("LeNet pays from B =", "the perceptron over TCP pays from B =")
for points, question in zip((lenet2, wide), asked, strict=True):
    name = points[0].name
    answers[name] = predict_crossing(*(1e3 * t for t in fits[name]), 2)
    ratios = [p.synchronize / p.alone for p in points]
    found = time_model.crossing([p.batch for p in points], ratios, 2)
    if found is None:
        found = f"below {points[0].batch}" if ratios[0] < 1 else f"beyond {points[-1].batch}"
    guess.answer(question, found)
    print(f"    your function says B = {answers[name]}")

# %%
_ = plots.crossing(lenet2 + lenet4 + wide, usable_cores(), answers["perceptron, TCP"])
plt.show()

# %%
print("network, link      R    B   T_sync/T_comp   predicted   measured   T_comp together / alone")
for p in lenet2 + lenet4 + wide:
    print(
        f"{p.name:17s}{p.ranks:3d}{p.batch:5d}{p.synchronize / p.alone:13.2f}{p.predicted:14.2f}"
        f"{p.measured:11.2f}{p.compute / p.alone:17.2f}"
    )

# %% [markdown]
# Compare two columns in each line. Where $T_{sync}/T_{comp}$ is below $R - 1$, the measured speedup should be above 1. Elsewhere the replicas should be *slower* than one process. The table of the sources, at the end, counts how often this was right here.
#
# The last column tests an assumption: the model takes the same $T_{comp}$ alone and together, which gives 1. If there are more ranks than cores, ranks wait for a core. If all of them compute at the same time, the column is $R$ / cores, and the predicted speedup cannot be reached. The table cannot separate other causes, such as shared caches.

# %% [markdown]
# ### A core for each rank, and a link between them
#
# In that table two costs come together: ranks share cores, and gradients are sent. To separate them, each rank is [paced](glossary.md#paced): it computes for real, and then sleeps until 10 ms have passed. So every rank acts as a device of its own, however few cores there are. Each rank also gets its own [host](glossary.md#host): `Network` makes hosts inside this machine, joined by links of a rate that you choose. We train 20 batches of a small network with 16 401 parameters, that is, 65.6 kB of gradients.
#
# > **Predict:** two ranks, 10 Mbit/s. What is $T_{sync}/T_{comp}$, with $2(R-1)/R$ times 65.6 kB to send? Do two such devices pay? Do they at 1 Gbit/s?

# %%
guess["T_sync/T_comp at 10 Mbit/s"] = ...

# %%
from helpers.cluster import Network, StartError
from helpers.data_parallel import curve_runs, local_runs

print("link          T_sync/T_comp   R - 1   predicted   measured speed-up")
for rate in (10e6, 100e6, 1e9):
    network = Network(2, rate=rate)
    ratio = local_runs.link_time(16_401, 2, network.payload) / 10e-3
    line = f"{rate / 1e6:5.0f} Mbit/s {ratio:15.2f} {1:7d} {2 / (1 + ratio):11.2f}"
    try:
        with Cluster(n=2, network=network, preload=("torch",)) as hosts:
            limits = {"repeats": 1, "timeout": 120}
            one, two = (hosts.run(curve_runs.speed, n, 20, **limits)[0] for n in (1, 2))
        print(f"{line} {one / two:10.2f}")
    except StartError as error:
        print(f"{line}   no hosts here ({error})")
    if rate == 10e6:
        guess.answer("T_sync/T_comp at 10 Mbit/s", ratio)

# %% [markdown] claims="02-link-speed 02-link-cores"
# The inequality holds where only these two times matter. In the records of two processors (five runs each), two paced replicas reach the speedup $R/(1 + T_{sync}/T_{comp})$ within 11 % on all three links. Four reach it within 10 % on the two slower links; at 1 Gbit/s they are 9 and 12 % below it, which five runs leave open at the claim's margin of 15 %. On the slowest link, two devices take three times as *long* as one (speedups 0.33 and 0.34): $T_{sync}/T_{comp}$ is 5.5 there, and $R - 1$ is 1. (Gradients alone would give 5.2; packets also have headers.) On the fastest link two devices pay (1.83 and 1.87).
#
# On the two faster links eight replicas miss the prediction, by 35 and 41 % on one processor and by 27 and 33 % on the other. With steps of 40 ms, a step takes them 6 to 12 ms longer on two cores than pace and link together, and another 6 to 8 ms on *one* core: few cores have to do the computation and the messages of eight ranks, and the formula has no term for this work. In a longer step it weighs less: with 80 ms the speedup is 6 to 12 % below the formula's.

# %%
display(claims.evidence("02-link-speed"), claims.evidence("02-link-cores"))

# %% [markdown]
# The result also depends on the baseline, because one process can use all cores by itself:

# %%
import time

for size in (8, 64, 256):
    x, y = (torch.from_numpy(part[:size]) for part in training)
    for threads in (1, usable_cores()):
        torch.set_num_threads(threads)
        took = []
        for _ in range(6):
            began = time.perf_counter()
            torch.nn.functional.cross_entropy(alone(x), y).backward()
            took.append(time.perf_counter() - began)
        print(f"B = {size:3d}, {threads} thread(s): {1e3 * min(took):6.2f} ms, the best of 6")
torch.set_num_threads(1)

# %% [markdown]
# Threads inside one process send nothing at all. So replicas on *one* machine compete with threads. Compare the two columns for each batch size before you start replicas.

# %% [markdown]
# ## What breaks
#
# > **Predict.** Six faults follow. What accuracy (0 to 1; guessing gives 0.1) does each of five reach? And four replicas that begin with *different* parameters average their *gradients*: how far apart are they after 40 steps, as a share of the distance at the start?

# %%
guess["accuracy with the same data on every rank"] = ...
guess["accuracy out of step with the settings of the run in step"] = ...
guess["accuracy of the mean of two networks"] = ...
guess["distance after 40 steps ÷ at the start"] = ...
guess["loss with the sum in place of the mean"] = ...

# %% [markdown]
# **A rank that skips the collective.** Rank 2 has nothing to do in this step and continues. The others wait for it for ever. The cell ends after 3 seconds, and the table says for whom they wait.

# %% tags=["raises-exception"]
# %%ranks --timeout 3
import numpy as np
from mpi4py import MPI

mine = np.ones(4) if rank != 2 else None
if mine is not None:
    comm.Allreduce(MPI.IN_PLACE, mine)

# %% [markdown]
# The cure: take part with zeros. (`DistributedDataParallel` has `Join` for ranks whose data end early.)
#
# **The same data on every rank.** Without the sampler all replicas see the same batches. Their gradients are equal, and so is the mean. No warning appears.

# %%
same = cluster.run(
    runs.train, MPIAllreduce, steps=in_step.updates, divide=False, timeout=90, **settings
)[0]
for name, run in (("a part for each", in_step), ("the same for all", same)):
    print(f"{name:18s} accuracy {run.accuracy:.1%} after {run.updates} updates")
guess.answer("accuracy with the same data on every rank", same.accuracy)

# %% [markdown] claims="02-same-data"
# Four processes have done the work of one, and learned what one learns:

# %%
claims.evidence("02-same-data")

# %% [markdown]
# **Asynchronous, with the settings of the synchronous run.**

# %%
run = cluster.run(runs.train, Asynchronous, steps=400, timeout=90, **settings)[0]
print(
    f"accuracy {run.accuracy:.1%}, loss {np.mean(run.losses[-60:]):.2f}; ln 10 is {np.log(10):.2f}"
)
guess.answer("accuracy out of step with the settings of the run in step", run.accuracy)

# %% [markdown]
# At 10 % the network guesses; with other seeds it learns something. Section *All schemes* has twelve seeds: the rate is too large for batches of 8 even in one process, and asynchronous runs at this rate end lower still. With a quarter of the rate both learn.
#
# **Averaging parameters that were never equal.** Two networks that begin with different random weights use their hidden units for different things. The mean of the two networks is neither of them.

# %%
from helpers.models.lenet import accuracy_of

trained = []
for seed in (1, 2):
    net = LeNet(seed=seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=chosen.rate, momentum=chosen.momentum)
    for _, (images, labels) in zip(range(150), batches(*training, 16, seed=seed), strict=False):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()
    trained.append(torch.cat([p.detach().flatten() for p in net.parameters()]).numpy())
for name, weights in zip(("first", "second", "mean"), [*trained, sum(trained) / 2], strict=True):
    print(f"{name:7s}{accuracy_of(weights, digits):7.1%}")
guess.answer("accuracy of the mean of two networks", accuracy_of(sum(trained) / 2, digits))

# %% [markdown]
# Hidden unit 7 of one network has nothing to do with unit 7 of the other, so nobody trained their mean. An equal start does not guarantee a useful mean either: trained apart for long enough, or at a large rate, two networks from one start also drift apart.

# %% [markdown]
# **Averaging the gradients of replicas that were never equal.** Nobody sent the initial parameters; everything else is right. Three seeds:


# %%
class NeverEqual(MPIAllreduce):
    def begin(self, replica):
        self.share_untrained(replica)  # Scheme.begin would send rank 0's parameters to all


def far(weights):
    return np.mean([np.linalg.norm(each - weights[0]) for each in weights[1:]])


for seed in (0, 10, 20):
    drawn = [LeNet(seed=seed + r).parameters() for r in range(chosen.ranks)]
    start = far([torch.cat([p.detach().flatten() for p in each]).numpy() for each in drawn])
    given = settings | {"seed": seed}
    everyone = cluster.run(runs.train, NeverEqual, steps=40, timeout=60, **given)
    kept = far([each.weights for each in everyone]) / start
    right = ", ".join(f"{each.accuracy:.0%}" for each in everyone)
    print(
        f"seed {seed:2d}: {start:.2f} apart at first, {kept:.6f} of it in the end; right: {right}"
    )
guess.answer("distance after 40 steps ÷ at the start", float(kept))

# %% [markdown]
# All replicas subtract the same $\lambda v$ in every step, so $\theta_r - \theta_s$ changes only by rounding. Equal gradients do not make replicas equal; they only *keep* equal replicas equal. And each replica subtracts a mean of four gradients, three of which belong to other parameters than its own.
#
# **The sum instead of the mean.** `all_reduce` adds. Without the division every step is $R$ times too long.


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
guess.answer("loss with the sum in place of the mean", float(np.mean(run.losses[80:])))

# %% [markdown]
# The rate and the batches are the same. With the sum the loss stays at $\ln 10 = 2.30$, and the accuracy at one digit in ten: the network guesses.

# %% [markdown] claims="02-sum-for-mean"
# In exact arithmetic, the sum at a quarter of the rate equals the mean. In the runs both learn, but they are not equal number by number: five seeds on one processor do not decide which ends higher, and on another they tie. So forgetting to divide works only if you retune the rate whenever $R$ changes:

# %%
claims.evidence("02-sum-for-mean")

# %% [markdown]
# ## Project: elastic averaging
#
# *Difficulty ●●●, 40 minutes.* Replicas need not be equal all the time. In *elastic averaging* (Zhang, Choromanska, LeCun 2015) each replica trains by itself. Every `period` steps it and a *centre* $c$ pull on each other with strength $\rho$ (`pull`):
#
# $$d_r = \rho\,(\theta_r - c), \qquad \theta_r \leftarrow \theta_r - d_r, \qquad c \leftarrow c + \sum_r d_r$$
#
# Write it as a scheme for this notebook's training loop. All replicas and the centre begin equal. Every rank keeps its own copy of the centre, and all copies stay equal. `replica.flat.values` is the tensor of all parameters: change it in place. `step` counts from 0.
#
# <details><summary>Hint</summary>
#
# `super().begin(replica)` gives all replicas rank 0's parameters; then `clone` them. After the pull only the sum of the $d_r$ has to be sent, by `self.comm.Allreduce`, which takes NumPy arrays (`tensor.numpy()`).
#
# </details>


# %% exercise="elastic"
from helpers.data_parallel import Scheme


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
# Your scheme trains LeNet. The replicas differ at the end, so judge the first one. It sends as many numbers as there are gradients, but only every 10 steps: a tenth of the bytes.
#
# > **Predict:** by how many points does its accuracy differ from that of the synchronous run?

# %%
guess["points of accuracy, elastic minus in step"] = ...

# %%
elastic = cluster.run(runs.train, Elastic, steps=in_step.updates, timeout=90, **settings)[0]
for run in (in_step, elastic):
    print(f"{run.scheme:20s} accuracy {run.accuracy:.1%} in {run.seconds[-1]:.1f} s")
if check.elastic.passed(Elastic, cluster=cluster):
    points = 100 * float(elastic.accuracy - in_step.accuracy)
    guess.answer("points of accuracy, elastic minus in step", points)
else:
    print("the second without a pull: the project first")

# %% [markdown]
# ## What the sources say, what we measured
#
# The second column is this run, on your machine.

# %%
from IPython.display import Markdown

points = lenet2 + lenet4 + wide
pays = [p.synchronize / p.alone < p.ranks - 1 for p in points]
foretold = sum(yes == (p.measured > 1) for yes, p in zip(pays, points, strict=True))
equal = sum(not np.ptp([r.weights for r in everyone], axis=0).any() for everyone in ways.values())
rows = [
    ("PyTorch with MPI must be built, in four days",
     f"nothing was built: PyTorch {torch.__version__} from `pip` has trained over MPI"),
    ("`all_reduce` of 1, 2, 3 prints 0", "6 on each of the three ranks"),
    ("gradients of parts add up to the gradient of the whole",
     f"parameters at most {as_one:.0e} apart after 40 steps"),
    ("replicas stay equal", f"to the last bit in {equal} of {len(ways)} ways"),
    ("$L(\\{d_0, d_1\\}) = \\alpha_0 L(d_0) + \\alpha_1 L(d_1)$",
     "with $\\alpha_r$ = share of the samples; equal weights gave another gradient, above"),
    ("the server needs a whole model and optimizer",
     f"flat arrays end {by_flat_arrays:.0e} from replicas with PyTorch's optimizer"),
    ("is there an epoch any more?", "no; what ended runs: " + ", ".join(ends)),
    ("worthwhile if $T_{sync}/T_{comp} < R - 1$",
     f"right about {foretold} of {len(points)} points, with {usable_cores()} cores to use"),
    ("\"ring allreduce?\"", f"{ring_steps} messages and {ring_bytes} bytes from each rank, counted"),
]  # fmt: skip
lines = ["| the source says | here |", "|---|---|"]
Markdown("\n".join(lines + [f"| {said} | {found} |" for said, found in rows]))

# %% [markdown]
# ## Summary
#
# - `torch.distributed` runs over an MPI from `pip`. Replicas that average gradients *are* one process with a larger batch. You have written the averaging, and trained with it.
# - The right learning rate depends on the batch size: a rate that trains four replicas is too large for one process.
# - An asynchronous gradient is $W - 1$ updates old on average, and needs a smaller rate. To keep layers apart, receive all of them from one source.
# - A second replica pays if $T_{sync}/T_{comp} < R - 1$. Where ranks share cores, $T_{comp}$ grows with the number of ranks.
#
# **In practice**: `torch.nn.parallel.DistributedDataParallel` averages gradients in buckets during the backward pass, over NCCL on GPUs, with `DistributedSampler` for the data. Horovod does it over MPI, gloo or NCCL. `torch.distributed.fsdp` also shards the parameters. DistBelief (2012) trained with parameter servers; recommendation models with huge sparse tables now shard the tables over all ranks instead (TorchRec).
#
# **References**
#
# - LeCun, Bottou, Bengio, Haffner (1998), *Gradient-based learning applied to document recognition*: LeNet and MNIST.
# - Li et al. (2020), *PyTorch Distributed*: buckets and overlap.
# - Dean et al. (2012), *Large scale distributed deep networks*: asynchronous SGD with a parameter server.
# - Mitliagkas et al. (2016), *Asynchrony begets momentum*: staleness acts as momentum does, so less momentum should be added.
# - Zhang, Gupta, Lian, Liu (2016), *Staleness-aware async-SGD*; Zhang, Choromanska, LeCun (2015), *Deep learning with elastic averaging SGD*.
# - Goyal et al. (2017), *Accurate, large minibatch SGD*: raise the rate with the batch.
#
# **Next**: [10_local_sgd](10_local_sgd.ipynb) lets replicas train alone for a while, so that they send less often.

# %%
cluster.stop()
