# %% [markdown]
# # Train on several ranks: synchronously and asynchronously
#
# You train one network on four MPI ranks, synchronously and asynchronously. When do the ranks compute the same as one process, when are they faster, and what does it cost not to wait?

# %% [markdown]
# **You will be able to**
#
# - train with `torch.distributed` over an MPI that `pip` installed;
# - derive why [replicas](glossary.md#replica) that average gradients are one process with a larger batch, and name the exceptions;
# - predict from two measured times whether a second replica pays;
# - write the receive of an asynchronous [parameter server](glossary.md#parameter-server), and measure [staleness](glossary.md#staleness) and its price.
#
# **You need** notebook [01](01_mpi_basics.ipynb) (ranks, send and receive, allreduce), how gradient descent trains a network, and how PyTorch does it (`backward`, `.grad`, an optimizer). *Time:* 150 minutes: 15 for the opening and *What breaks*, 135 for three lessons, each of which needs only the set-up. *What breaks* needs lesson 1, and the last table needs all three. *Cores:* 2 or more. *GPU:* none.
#
# | symbol | meaning | unit |
# |---|---|---|
# | $\theta$, $g_r$ | all parameters; [gradient](glossary.md#gradient) of the mean loss of replica $r$'s batch | |
# | $\lambda$, $\mu$ | learning rate, [momentum](glossary.md#momentum) | 1 |
# | $R$, $W$ | number of replicas; number of workers beside a server | 1 |
# | $B$, $N$, $D_r$ | batch size of one replica; all samples; replica $r$'s batch | samples |
# | $T_\text{comp}$, $T_\text{sync}$ | time of one forward and backward pass; of one average of the gradients | s |
# | $\tau$ | staleness: updates since the parameters were fetched | updates |
# | $k$ | how many times slower a slow rank is | 1 |

# %% [markdown]
# ## Set-up
#
# The data are 5 000 handwritten digits, of which 1 000 are kept for testing. The network is *LeNet*, a small convolutional network of 1998.

# %%
from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from helpers import claims
from helpers.cluster import Cluster, Network, StartError
from helpers.data_parallel.schemes import Asynchronous, MPIAllreduce, Server
from helpers.data_parallel.tasks import curve, lenet
from helpers.data_parallel.theory import time_model
from helpers.datasets import mnist
from helpers.exercises import data_parallel as check
from helpers.exercises.predictions import Predictions
from helpers.machine import usable_cores
from helpers.models.lenet import LeNet
from helpers.plots import data_parallel as plots
from helpers.plots import style
from helpers.plots.rates import over_rates
from helpers.timing import Others
from helpers.tracing.cutting import point_to_point

# %% tags=["parameters"]
# %load_ext helpers.cluster


@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    batch: int = 8  # B, samples of one replica
    rate: float = 0.02  # λ
    momentum: float = 0.9  # μ
    seed: int = 0


chosen = Parameters()
torch.set_num_threads(1)
digits = mnist.load(seed=chosen.seed)
settings = {"batch": chosen.batch, "rate": chosen.rate, "momentum": chosen.momentum}
settings |= {"seed": chosen.seed, "timeout": 120}
cluster = Cluster(n=chosen.ranks, preload=("torch",))
style.use()
guess = Predictions()

# %% [markdown]
# The next cell records two short trainings. Each bar is one gradient being computed; in the gaps, ranks wait. A gradient takes about 30 ms, on rank 3 (long bars) 120 ms. Above, all ranks wait for each other in every step. Below, ranks 1 to 3 are *workers*: they send each gradient to rank 0, the *server*, which answers at once. **Click *play*.** Which training computes more gradients in the same time? Whose gradients are most out of date when they arrive? (Lesson 3 answers.)

# %%
from helpers.plots.data_parallel import waiting

slow = settings | {"batch": 2, "pace": 30e-3, "slow": {3: 4.0}}
ways = {"synchronous": (MPIAllreduce, 6), "asynchronous": (Asynchronous, 56)}
recorded = {
    name: cluster.run(lenet.computing, scheme, steps=steps, **slow)
    for name, (scheme, steps) in ways.items()
}
waiting(recorded, late=3)

# %% [markdown]
# ## Lesson 1. When are four replicas one process?
#
# *50 minutes.* **The question:** four ranks train copies of one network, each on its own samples. Which single process would compute the same parameters?
#
# ### One process
#
# A step of SGD in PyTorch has four calls: `zero_grad` clears the old gradients, the forward pass computes the loss, `backward` computes the gradient of every parameter (`.grad`), and `step` moves the parameters against it. For a batch $D$ of $B$ samples:
#
# $$v \leftarrow \mu\, v + g, \qquad \theta \leftarrow \theta - \lambda\, v, \qquad g = \nabla_\theta \frac{1}{B} \sum_{i \in D} \mathrm{loss}(x_i, y_i; \theta)$$
#
# The velocity $v$ remembers earlier gradients. With $\mu = 0.9$, a gradient counts once in its own step, 0.9 times in the next, and $0.9^2$ times in the one after. Over all steps its weights add up to ten. Here are eight digits, and 100 batches of training:

# %%
figure, axes = plt.subplots(1, 8, figsize=(10, 1.7))
figure.set_label("Eight digits and their classes")
for ax, image, label in zip(axes, digits.train_images, digits.train_labels, strict=False):
    ax.imshow(image[0], cmap="gray_r")
    ax.set_axis_off()
    ax.set_title(label, loc="center")

# %%
model = LeNet(seed=chosen.seed)
optimizer = torch.optim.SGD(model.parameters(), lr=chosen.rate, momentum=chosen.momentum)
losses = []
for first in range(0, 100 * chosen.batch, chosen.batch):
    images = torch.from_numpy(digits.train_images[first : first + chosen.batch])
    labels = torch.from_numpy(digits.train_labels[first : first + chosen.batch])
    optimizer.zero_grad()
    loss = cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"{sum(p.numel() for p in model.parameters()):,} parameters, in ten tensors")
print(f"loss of the first ten batches {np.mean(losses[:10]):.2f}, last {np.mean(losses[-10:]):.2f}")

# %% [markdown]
# ### `torch.distributed` over MPI, in ten lines
#
# PyTorch sends messages through a *[backend](glossary.md#backend)*. The PyTorch that `pip` installs has none for MPI. `helpers.torch_mpi` is one, in Python. The address `mpi://` says that rank and size come from MPI.
#
# A tutorial adds 1, 2 and 3 on three ranks with `all_reduce`, and prints 0. We have four ranks, so `new_group` makes a group without rank 3.
#
# > **Predict.** What is the right answer? (Type your number in place of the dots.) And how can a program print 0?

# %%
guess["the sum of 1, 2 and 3 on three ranks"] = ...

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
added = torch.tensor([rank + 1.0])
if rank < 3:
    dist.all_reduce(added, op=dist.ReduceOp.SUM, group=three)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} has {added.item():.0f}")

# %%
three_summed = cluster.run(lambda: added.item())[0]
guess.answer("the sum of 1, 2 and 3 on three ranks", three_summed)

# %% [markdown]
# `all_reduce` writes the sum into its argument: a second tensor of zeros, made for the result, stays 0.
#
# ### Gradients add
#
# Cut a batch $D$ into $R$ equal parts $D_1 \dots D_R$. The gradient of a sum is the sum of the gradients, so
#
# $$\nabla_\theta \frac{1}{RB} \sum_{i \in D} \mathrm{loss}_i = \frac{1}{R} \sum_{r=1}^{R} \underbrace{\nabla_\theta \frac{1}{B} \sum_{i \in D_r} \mathrm{loss}_i}_{g_r}$$
#
# The *mean* of the replicas' gradients is the gradient of the whole batch: $R$ replicas with batch size $B$ are one process with batch size $R \cdot B$. By hand, on four ranks: let $\mathrm{loss}_i = \frac12 (\theta - x_i)^2$ with $\theta = 0$ and $x = 1, 2, 3, 6$. The gradient is $\theta - x_i$. One process gets $-(1 + 2 + 3 + 6)/4 = -3$, and so should four ranks:

# %%
# %%ranks
gradient = torch.tensor([0.0 - [1.0, 2.0, 3.0, 6.0][rank]])
dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
gradient.item()

# %% [markdown]
# ### Exercise 1: `sync_gradients`
#
# *Difficulty ●○○, 12 minutes.* Every rank has called `backward` on its own batch. Write a function that writes the **mean** over all ranks into the existing `.grad` of every parameter in `model.parameters()`, on any number of ranks, and returns the model. You will train with your function; it can use `dist`, `comm`, `rank` and `size`.
#
# <details><summary>Hint</summary>
#
# `dist.all_reduce(tensor)` replaces `tensor` by the sum over ranks. What turns a sum into a mean? `dist.get_world_size()` counts the ranks. Write into the existing gradient (`parameter.grad /= 3`): other code may hold that very tensor.
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
# ### Unequal parts
#
# If parts differ in size, the loss is a *weighted* sum of the parts' mean losses, $\sum_r \alpha_r L(D_r)$ with $\alpha_r = |D_r| / \sum_s |D_s|$, and its gradient has the same weights. Now add $x = 8$, and let rank 0 have two samples. One process gets $-(1 + 2 + 3 + 6 + 8)/5 = -4$:

# %%
# %%ranks
part = [[1.0, 2.0], [3.0], [6.0], [8.0]][rank]
mean = torch.tensor([-sum(part) / len(part)])
weighted = mean * len(part) / 5
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
dist.all_reduce(weighted)
print(f"plain mean {mean.item():.3f}, weighted {weighted.item():.3f}")

# %% [markdown]
# The plain mean gives each of rank 0's samples half the weight of the others. Language models meet this in every step: their loss is a mean over *tokens*, and texts differ in length.
#
# ### Begin equal, stay equal
#
# Replicas that begin equal and move by the same gradient stay equal. So rank 0 sends its initial parameters to all ranks, once:

# %%
# %%ranks
from helpers.models.lenet import LeNet

model = LeNet(seed=rank)  # as if nobody had fixed the seed


def show(when):
    total = sum(parameter.double().sum().item() for parameter in model.parameters())
    print(f"{when} the parameters add up to {total:.6f}")


show("before:")
for parameter in model.parameters():
    if rank == 0:
        for other in range(1, size):
            dist.send(parameter.data, dst=other)
    else:
        dist.recv(parameter.data, src=0)
show("after: ")

# %% [markdown]
# From here on only gradients are sent. A *scheme* is a class that says how. Five schemes train for 40 steps: MPI's allreduce, the course's ring ([08](08_allreduce_animation.ipynb)), `torch.distributed` tensor by tensor, PyTorch's `DistributedDataParallel` (explained in lesson 2), and **your** function. Beside them, one process trains with batches of $4 \cdot 8$.
#
# > **Predict.** After 40 steps, what is the largest difference between a replica's parameters and the single process's? And between two replicas'?

# %%
guess["largest difference from one process"] = ...
guess["largest difference between replicas"] = ...

# %%
from helpers.data_parallel.schemes import DDP, ByFunction, PerTensor, Ring

short = {"steps": 40, **settings}
ways = {"mpi": MPIAllreduce, "ring": Ring, "torch": PerTensor, "ddp": DDP}
ways["yours"] = partial(ByFunction, function=sync_gradients)
trained = {way: cluster.run(lenet.train, scheme, **short) for way, scheme in ways.items()}
one = cluster.run(lenet.alone, **(short | {"batch": chosen.ranks * chosen.batch}))[0]
print("scheme   from one process   between replicas")
for way, everyone in trained.items():
    replicas = np.array([each.weights for each in everyone])
    apart, spread = np.abs(replicas[0] - one.weights).max(), np.ptp(replicas, axis=0).max()
    print(f"{way:8s}{apart:17.1g}{spread:19.1g}")
    if way == "mpi":
        as_one, equals = apart, spread
guess.answer("largest difference from one process", as_one)
guess.answer("largest difference between replicas", equals)

# %% [markdown]
# In each scheme all replicas have *the same bits*: the last column is 0. (If *yours* differs, your function does not yet pass the check.) Replicas differ from one process, since they add the same numbers in another order, which rounds differently. Is this all? Then the difference should all but disappear in double precision:

# %%
exact = short | {"double": True}
replica = cluster.run(lenet.train, MPIAllreduce, **exact)[0]
whole = cluster.run(lenet.alone, **(exact | {"batch": chosen.ranks * chosen.batch}))[0]
print(f"{np.abs(replica.weights - whole.weights).max():.0e} from one process, in double precision")

# %% [markdown]
# So it is only rounding.
#
# ### Exceptions
#
# The derivation needs each sample's loss to be the same, however the batch is cut. In some networks it is not.
#
# > **Predict.** In how many of three networks does the mean gradient of four parts differ from the whole batch's by more than rounding: a plain one, one with BatchNorm, and one with dropout?

# %%
guess["networks of three that break it"] = ...


# %%
def gradient_of(net, x, y):
    return torch.cat(
        [g.flatten() for g in torch.autograd.grad(cross_entropy(net(x), y), net.parameters())]
    )


torch.manual_seed(chosen.seed)
x, y, exceptions = torch.randn(32, 6).double(), torch.randint(3, (32,)), 0
for name, layer in (
    ("plain", nn.Tanh()),
    ("BatchNorm", nn.BatchNorm1d(8)),
    ("dropout", nn.Dropout()),
):
    net = nn.Sequential(nn.Linear(6, 8), layer, nn.Linear(8, 3)).double()
    whole = gradient_of(net, x, y)
    parts = [gradient_of(net, *part) for part in zip(x.chunk(4), y.chunk(4), strict=True)]
    apart = ((sum(parts) / 4 - whole).norm() / whole.norm()).item()
    exceptions += apart > 1e-6
    print(f"{name:10s} relative difference {apart:.1g}")
guess.answer("networks of three that break it", exceptions)

# %% [markdown]
# **BatchNorm** subtracts the mean *of the batch*, so a sample's loss depends on the rest of its batch. (`SyncBatchNorm` averages over all replicas.) **Dropout** draws new masks in every forward pass. The third exception is unequal parts: `DistributedDataParallel` takes the plain mean.
#
# ### Exercise 2: a part of the data for each rank
#
# *Difficulty ●●○, 10 minutes.* In each [epoch](glossary.md#epoch), every rank takes a part of the data. There are `count` samples, numbered from 0, and `size` ranks. Return the indices (0 to `count - 1`) of the samples that `rank` processes in `epoch`, first to last, as a list or an array.
#
# - No sample is on two ranks in one epoch.
# - Every rank has `count // size` samples. The rest is left out, and it differs from epoch to epoch.
# - Every epoch (0, 1, 2, ...) shuffles all samples anew. The same epoch always gives the same answer.
# - Nothing is sent: each rank calls your function with its own number.
#
# <details><summary>Hint</summary>
#
# A generator with the seed `epoch` draws the same on all ranks. Shuffle first, and then take a part.
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

# %%
own = shard if check_data.shard.passed(shard) else None
four = cluster.run(lenet.train, MPIAllreduce, steps=150, shard=own, **settings)[0]
print("train's order:" if own is None else "your shards:", end=" ")
print(f"accuracy {four.accuracy:.1%} after {four.updates} updates")

# %% [markdown]
# PyTorch's `DistributedSampler` with `drop_last=True` does this if your loop calls `set_epoch(epoch)`. Without `set_epoch` every epoch has the order of epoch 0, without a warning.
#
# ### Another batch, another rate
#
# Four replicas are one process *with four times the batch*. How accurate is one process with $B = 8$, at the same rate and after as many samples?

# %%
alone = cluster.run(lenet.alone, steps=600, **settings)[0]
for run in (four, alone):
    print(f"{run.scheme:17s}{run.updates:4d} updates, accuracy {run.accuracy:.1%}")

# %% [markdown] claims="02-own-best-rate"
# Is it the batch that makes them differ, or the rate? The record tries six rates for both, on eight seeds, and judges each seed at the rates that are best for the other seeds. In the picture, find the best rate of each curve (rings) and the rate at which the curves cross:

# %%
by_rate = claims.evidence("02-own-best-rate")
over_rates(by_rate)
plt.show()
by_rate

# %% [markdown]
# Mostly the rate. The curves cross near 0.01. At 0.02 the single process is far behind: on average by 16 points after 600 gradients, and by 29 after 1 200. But its best rate is 0.005, a quarter of the replicas' best. With each at its best rate, the single process is, if anything, *ahead*: by 1.7 points after 600 gradients (not decided), and by 1.3 after 1 200 (within the margin of 2).
#
# So do not compare schemes at one rate only: **the right rate depends on the batch**.
#
# > **Answer.** Four replicas that begin equal and average their gradients are one process with four times the batch, up to rounding, if the parts are equally large, and no sample's loss depends on other samples (BatchNorm) or on chance (dropout). *Evidence: the five schemes, the run in double precision, the three networks, and the five samples.*

# %% [markdown]
# ## Lesson 2. When does a second replica pay?
#
# *35 minutes.* **The question:** $R$ replicas compute $R$ batches at a time, but must average their gradients. From which batch size on are they faster than one process?
#
# ### By hand
#
# An epoch has 100 samples, in batches of 10. A batch takes 4 ms, an average of the gradients 3 ms. One process makes ten steps of 4 ms: 40 ms. Two replicas make five steps of $4 + 3$ ms: 35 ms. With averages of 5 ms they need 45 ms, and one process is faster. In general, an epoch of $N$ samples takes one process $\frac{N}{B} T_\text{comp}$, and $R$ replicas $\frac{N}{R B} (T_\text{comp} + T_\text{sync})$. The replicas are faster exactly if
#
# $$\frac{T_\text{sync}}{T_\text{comp}} < R - 1$$
#
# ### What an average sends
#
# LeNet has 61 706 gradients of 4 bytes.
#
# > **Predict.** Sending all gradients to each of the three other ranks takes $3 \cdot 246\,824$ bytes. In a [ring allreduce](08_allreduce_animation.ipynb) a rank sends a quarter of the gradients at a time: three times as partial sums, then three times as finished sums. How many thousand bytes leave the rank?

# %%
guess["bytes that leave a rank in the ring, in thousands"] = ...

# %%
# %%ranks --trace ring_trace --timeout 60
import numpy as np

from helpers.collectives import allreduce

_ = allreduce(np.ones(61_706, dtype=np.float32), comm, algorithm="ring")

# %%
sent = [m for m in point_to_point(ring_trace).messages if m.source == 0]
ring_steps, ring_bytes = len(sent), sum(message.bytes for message in sent)
to = ", ".join(str(dest) for dest in {message.dest for message in sent})
print(f"rank 0: {ring_steps} messages, {ring_bytes:,} bytes, all to rank {to}")
guess.answer("bytes that leave a rank in the ring, in thousands", ring_bytes / 1000)

# %% [markdown]
# Each rank sends $2(R-1) = 6$ messages of a quarter of the gradients: $2(R-1)/R = 1.5$ times all gradients. $T_\text{sync}$ does not depend on the batch, while $T_\text{comp} = a + bB$ grows with it: $a$ is spent once per batch, $b$ on each sample. So replicas pay from some batch size on.
#
# ### Two networks, two links
#
# For two networks we measure $T_\text{comp}$ with rank 0 alone (the others sleep), then $T_\text{sync}$, then whole steps:
#
# - **LeNet**, with gradients sent through memory. Its convolutions use each weight up to 784 times per sample: much to compute, little to send.
# - **A wide perceptron**, with 814 090 parameters in two dense layers. Each parameter is used once per sample. Gradients are sent over **TCP**, as between machines.

# %%
sizes = {2: (1, 4, 16, 32, 64), 4: (1, 4, 16, 32, 64)}
far = {"network": "perceptron", "link": "TCP", "steps": 24, "timeout": 90}
with Others() as others:
    lenet2, lenet4 = (
        cluster.run(lenet.time_model, n, batches, steps=20, timeout=90)[0]
        for n, batches in sizes.items()
    )
    wide = cluster.run(lenet.time_model, 2, (1, 4, 16, 32, 64, 128), **far)[0]
fits = [time_model.fit(points) for points in (lenet2, wide)]
for points, (fixed, per_sample, synchronize) in zip((lenet2, wide), fits, strict=True):
    print(
        f"{points[0].name:16s} T_comp ≈ {1e3 * fixed:.2f} ms + {1e3 * per_sample:.4f} ms · B,"
        f"  T_sync ≈ {1e3 * synchronize:.2f} ms"
    )

# %% [markdown]
# > **Predict.** Estimate from the numbers above: from which $B$ on should two replicas pay, for each network? (We then time whole steps.)

# %%
guess["the batch from which LeNet pays"] = ...
guess["the batch from which the perceptron pays"] = ...

# %% [markdown]
# ### Exercise 3: predict the crossing
#
# *Difficulty ●●○, 10 minutes.* Let $T_\text{comp} = a + bB$ (`fixed` and `per_sample`, in ms), and let $T_\text{sync}$ be `synchronize` (in ms). Return the smallest whole batch size $B \ge 1$ at which $R$ replicas (`ranks`) are faster than one process.
#
# <details><summary>Hint</summary>
#
# Solve $T_\text{sync} < (R - 1)(a + bB)$ for $B$. The bound itself is not enough: $B$ must be larger.
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
# In the left panel, a circle marks where the measured ratio last falls below 1. Your $B$ (dotted) comes from the fitted line, so it may differ. The right panel times whole steps: replicas pay where a solid line is above 1 (*paid from*). Open marks have more ranks than cores.

# %%
by_function = []
for points, name, times in zip((lenet2, wide), ("LeNet", "the perceptron"), fits, strict=True):
    ratios = [1 / p.measured for p in points]
    found = time_model.crossing_batch([p.batch for p in points], ratios, 2)
    if found is None:  # no crossing: they pay from the smallest batch on, or with none
        found = points[0].batch if ratios[0] < 1 else f"beyond {points[-1].batch}"
    crossed = predict_crossing(*(1e3 * t for t in times), 2)
    seen = found if isinstance(found, str) else round(found)
    guess.answer(f"the batch from which {name} pays", seen)
    by_function.append(f"B = {crossed} for {points[0].name} (paid from: {seen})")
print("your function:", "; ".join(by_function))
ax, _ = plots.crossing(lenet2 + lenet4 + wide, usable_cores(), None if crossed == 1 else crossed)
style.doubt(ax.figure, others)
plt.show()

# %%
points = lenet2 + lenet4 + wide
others.say()
right = sum((p.synchronize / p.alone < p.ranks - 1) == (p.measured > 1) for p in points)
print(f"the inequality was right at {right} of {len(points)} points, {usable_cores()} cores")
for n, runs in ((2, lenet2), (4, lenet4), (2, wide)):
    together = np.median([p.compute / p.alone for p in runs])
    print(f"{runs[0].name}, {n} ranks: T_comp is {together:.2f} times that of one alone (median)")
within = np.median([p.step - p.compute for p in wide])
print(f"{wide[0].name}: an average takes {1e3 * wide[0].synchronize:.2f} ms alone,"
      f" {1e3 * within:.2f} ms within a step (median)")  # fmt: skip

# %% [markdown]
# The formula assumes that a rank computes as fast beside others as alone. The printed factors (medians of noisy points) show how far your cores are from that; an average within a step takes longer than alone (last line): there it also waits for the latest rank. So replicas may pay only from a larger $B$ than the circle says, if at all.
#
# ### A core for each rank, and a link between them
#
# Each rank is now [paced](glossary.md#paced), as if it had a core: it computes for real, then sleeps until 10 ms have passed. Each rank also gets its own [host](glossary.md#host) inside this machine; we set the link's rate. A small model with 65.6 kB of gradients trains on 20 batches.
#
# > **Predict.** What is $T_\text{sync}/T_\text{comp}$ for two ranks at 10 Mbit/s, with $2(R-1)/R$ times 65.6 kB to send?

# %%
guess["T_sync/T_comp at 10 Mbit/s"] = ...

# %%
on_links = Others()
print("link          T_sync/T_comp   predicted   measured speed-up")
for rate in (1e9, 100e6, 10e6):
    network = Network(2, rate=rate)
    ratio = time_model.link_time(16_401, 2, network.payload) / 10e-3
    line = f"{rate / 1e6:5.0f} Mbit/s {ratio:15.2f} {2 / (1 + ratio):11.2f}"
    try:
        with on_links, Cluster(n=2, network=network, preload=("torch",)) as hosts:
            once = {"repeats": 1, "timeout": 120}
            one, two = (
                min(hosts.run(curve.speed, n, 20, **once)[0] for _ in range(2)) for n in (1, 2)
            )
        print(f"{line} {one / two:10.2f}")
    except StartError as error:
        print(f"{line}   no hosts here ({error})")
guess.answer("T_sync/T_comp at 10 Mbit/s", ratio)  # of the last link
on_links.say()

# %% [markdown] claims="02-link-speed"
# The bytes alone make the ratio 5.2; packet headers raise it to 5.5. Two ranks should lose on the slowest link, where the ratio is above $R - 1 = 1$, and win on the other two. The record compares the measured speed-up with the predicted $R/(1 + T_\text{sync}/T_\text{comp})$. The prediction *fails* for eight replicas on the two faster links: they share two cores, for which the formula has no term. With 80 ms a batch (last two rows), eight replicas come within 12 % of the prediction in both records.

# %%
claims.evidence("02-link-speed")

# %% [markdown]
# ### Send during the backward pass
#
# The backward pass computes the last layer's gradient first. `DistributedDataParallel` sends finished gradients, in [buckets](glossary.md#bucket), while earlier layers still compute. Let $T_\text{back}$ be the backward pass's part of $T_\text{comp}$. With a perfect *overlap*, a step takes $T_\text{comp} + \max(0, T_\text{sync} - T_\text{back})$ in place of $T_\text{comp} + T_\text{sync}$. Below there is only a backward pass: each of eight layers computes for 5 ms (it sleeps, so the processor is free for messages) and has 33 kB of gradients to send, over 100 Mbit/s. The gradient that is ready last cannot overlap, so expect 40 ms and the time of one gradient.


# %%
def step(overlap):
    import time

    gradients, under_way = np.ones((8, 8192), np.float32), []
    comm.Barrier()
    began = time.perf_counter()
    for layer, gradient in enumerate(gradients, start=1):
        while time.perf_counter() < began + layer * 5e-3:  # this layer's backward pass
            time.sleep(2e-4)
            [request.Test() for request in under_way]  # MPI moves bytes only in its calls
        if overlap:
            under_way.append(comm.Iallreduce(MPI.IN_PLACE, gradient))
    for gradient in [] if overlap else gradients:
        comm.Allreduce(MPI.IN_PLACE, gradient)
    [request.Wait() for request in under_way]
    return time.perf_counter() - began


# %%
try:
    with on_links, Cluster(n=2, network=Network(2, rate=100e6), preload=("torch",)) as hosts:
        after, during = (min(max(hosts.run(step, o)) for _ in range(5)) for o in (False, True))
    print(f"sent after the backward pass {1e3 * after:.0f} ms, during it {1e3 * during:.0f} ms;")
    print(f"both compute for 40 ms; one gradient is sent in {1e3 * (after - 40e-3) / 8:.0f} ms")
    on_links.say()
except StartError as error:
    print(f"no hosts here ({error})")

# %% [markdown]
# ### The same batch, more ranks
#
# So far $R$ replicas made a batch of $R \cdot B$ (*weak scaling*). In *strong scaling* the whole batch stays the same: of 64 samples, each replica gets $64/R$. $T_\text{comp}$ shrinks to $a + 64\,b/R$, but $a$ and $T_\text{sync}$ remain, so the speed-up stays below $R$. (With more ranks than cores, expect less than the formula says: it has no term for shared cores. The time of *one* is the fitted line at 64, not a measured time.)

# %%
others.say()
fixed, per_sample, _ = fits[0]
whole = fixed + 64 * per_sample
for p in (lenet2[3], lenet4[2]):
    expected = fixed + p.batch * per_sample + p.synchronize
    print(f"{p.ranks} replicas, {p.batch} samples each: {whole / p.step:.2f} times as fast as one;"
          f" by the formula {whole / expected:.2f} times")  # fmt: skip

# %% [markdown]
# > **Answer.** $R$ replicas pay from the $B$ on at which $T_\text{comp} = a + bB$ exceeds $T_\text{sync}/(R - 1)$, as long as ranks neither slow each other down nor wait for a late one. Such waiting is in no term of the formula, so unless $T_\text{sync}/T_\text{comp}$ is far below $R - 1$, measure whole steps. *Evidence: the points above, and the record on three links.*

# %% [markdown]
# ## Lesson 3. What do you gain by not waiting, and what does it cost?
#
# *50 minutes.* **The question:** in a synchronous step everybody waits for the slowest rank. What is gained, and what is lost, if a server answers each worker at once?
#
# ### A synchronous server
#
# So far all ranks were alike (below, left). Now rank 0 becomes a *server*: it receives gradients, updates the parameters and sends them back. It may wait for all workers before it updates (middle), or update with each gradient as it comes (right):

# %%
_ = plots.schemes()

# %% [markdown]
# Here are three synchronous steps, recorded. Arrows are messages; a long slant is a message that waits for its receiver:

# %%
# %%ranks --trace served_trace --timeout 120
from helpers.data_parallel.schemes import Asynchronous, Server
from helpers.data_parallel.tasks import lenet

_ = lenet.train(Server, comm, steps=3, batch=8)

# %%
from helpers.data_parallel.schemes.protocol import GRADIENT, HELLO, PARAMETERS, READY
from helpers.plots.timeline import messages

tags = {GRADIENT: "gradient g", PARAMETERS: "parameters θ", HELLO: "hello", READY: "ready"}
ax = messages(point_to_point(served_trace), tags, title="Three synchronous steps with a server")
ax.figure.set_label("Rank 0 answers nobody before it has the gradients of all three workers")
plt.show()

# %% [markdown]
# Rank 0 receives the three gradients in the order of ranks, makes the update, and answers in that order. (On two cores its last answer may wait until another rank stops computing.)
#
# ### A server that does not wait
#
# An *asynchronous* worker fetches the parameters, computes a gradient on its own data, and pushes it. The server updates at once and answers this worker only. While a worker computes, other workers' gradients change the server's parameters, so this worker's gradient belongs to parameters that are $\tau$ updates old. This $\tau$ is its *staleness*.
#
# > **Predict.** Two workers push at once, each a gradient of four layers, layer by layer. The server takes every layer from *anyone* (`MPI.ANY_SOURCE`). How many of the two gradients mix layers of both workers?

# %%
guess["gradients of two that mix layers of both workers"] = ...

# %%
# %%ranks --timeout 60
import numpy as np

layer, status, mixtures = np.zeros(2), MPI.Status(), {}
for from_whom in ("anyone", "the first one's source"):
    for _ in range(4):
        if rank in (1, 2):
            comm.Send(np.full(2, float(rank)), dest=0)
        comm.Barrier()  # both workers are equally fast
    gradients = []
    for number in range(8 if rank == 0 else 0):
        known = number % 4 and from_whom != "anyone"
        comm.Recv(layer, status.Get_source() if known else MPI.ANY_SOURCE, status=status)
        gradients.append(int(layer[0]))
    if rank == 0:
        print(f"first layer from anyone, others from {from_whom}: {gradients[:4]}, {gradients[4:]}")
        mixtures[from_whom] = sum(len(set(g)) > 1 for g in (gradients[:4], gradients[4:]))
    comm.Barrier()

# %%
guess.answer(
    "gradients of two that mix layers of both workers", cluster.run(lambda: mixtures)[0]["anyone"]
)

# %% [markdown]
# Each number is the rank that sent a layer. A mixture is not a gradient of the loss: its layers belong to different data. In the second line only the first layer may come from anyone, and the gradients are whole: messages from *one* source with one tag never overtake each other ([01](01_mpi_basics.ipynb)).
#
# ### Exercise 4: the server's receive
#
# *Difficulty ●●○, 12 minutes.* Workers push their gradients layer by layer, in order, without asking first. `layers` are the server's arrays, one for each layer. Fill them with the gradient of **one** worker: the worker whose first layer arrives first. Return its rank.
#
# <details><summary>Hint</summary>
#
# `MPI` is imported. `status = MPI.Status()` makes a status; after `comm.Recv(array, source=..., status=status)`, `status.Get_source()` tells the source.
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
# The server `Unannounced` calls your function for every update, and answers the worker whose rank it returned.

# %%
from helpers.data_parallel.schemes import Unannounced

fair = settings | {"rate": 0.05, "momentum": 0.0}
by_you = partial(Unannounced, receive=receive_gradient)
own = cluster.run(lenet.train, by_you, steps=200, **(fair | {"timeout": 30}))[0]
print(f"{own.updates} updates by ranks {sorted(set(own.workers))}", *own.report)

# %% [markdown]
# ### The same picture, asynchronously
#
# Below we trace the course's server, `Asynchronous`. Its workers send a *hello* before each gradient and wait for *ready* ([A2](A2_more_of_sgd.ipynb) says why).

# %%
# %%ranks --trace free_trace --timeout 120
from functools import partial

flat = partial(Asynchronous, layers=False)  # each gradient in one message: fewer arrows
ages = lenet.train(flat, comm, steps=9, batch=8, momentum=0.0).staleness
print("staleness of the nine gradients:", *ages)

# %%
title = "Asynchronous: the first updates"
ax = messages(point_to_point(free_trace), tags, title=title, share=0.5)
ax.figure.set_label("Rank 0 serves one worker at a time, updating at each gradient")
plt.show()

# %% [markdown]
# Follow one worker from its second hello: it receives ready, sends g and receives θ. Then it computes while the server answers others. (The first hello fetches θ, beside a ready. After a gradient, rank 0's box is the update; other thin boxes handle messages.) A hello waits while rank 0 serves another worker. Four questions about the three schemes:
#
# | question | synchronous, no server | synchronous, a server | asynchronous |
# |---|---|---|---|
# | how many replicas? | $R$, always equal | $W$, always equal | $W$, of different ages |
# | what *must* the server store? | there is none | $\theta$, $v$, an arriving gradient | $\theta$, $v$, an arriving gradient, and the count of updates to measure staleness |
# | what *must* a worker store? | $\theta$, $g_r$, $v$ | $\theta$, $g_r$ | $\theta$, $g_r$, the count at its last fetch |
# | what is sent in a step? | gradients, summed on the way | $g_r$ to the server, $\theta$ back | $g_r$ to the server, $\theta$ back |
#
# ### Exercise 5: staleness by hand
#
# *Difficulty ●○○, 8 minutes.* The list `workers` says whose gradient made each update. All workers begin with the initial parameters, and each fetches new parameters right after its own update. For each gradient, how many updates old were its parameters? `staleness_of([1, 2, 1])` is `[0, 1, 1]`: rank 2's gradient misses the update by rank 1, and rank 1's second gradient misses the update by rank 2.
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
counted = staleness_of(own.workers)
if counted is not None:
    agrees = np.array_equal(counted, own.staleness)
    print("your staleness", "agrees with" if agrees else "differs from", "the server's")

# %% [markdown]
# ### What staleness costs
#
# To isolate staleness, one process and the asynchronous server have the same rate and batch, no momentum, and equally many updates. Four replicas make half as many updates, each with four gradients.
#
# > **Predict.** Three workers push, all equally fast. What is the mean staleness? And after 320 updates, is the asynchronous loss "lower" or "higher" than the single process's?

# %%
guess["mean staleness of three workers"] = ...
guess["the asynchronous loss is"] = ...

# %%
with Others() as raced:
    single = cluster.run(lenet.alone, steps=320, **fair)[0]
    together = cluster.run(lenet.train, MPIAllreduce, steps=160, **fair)[0]
    free = cluster.run(lenet.train, Asynchronous, steps=320, **fair)[0]
together.scheme = "four replicas"
guess.answer("mean staleness of three workers", float(np.mean(free.staleness)))
stale, fresh = free.smooth(60)[-1], single.smooth(60)[-1]
guess.answer("the asynchronous loss is", "higher" if stale > fresh else "lower")
axes = plots.losses([single, together, free])
style.doubt(axes[0].figure, raced)
plt.show()

# %% [markdown]
# Each curve is a moving mean over 60 gradients. In the right panel, compare the asynchronous loss with one process's after equally many updates: what lies between them is the cost of staleness. The left panel shows the same losses by time; the table below lists the seconds to a loss of 1. Where ranks share cores, one process may be first:

# %%
print(f"{'scheme':18s}{'updates/s':>10s}{'seconds to loss 1':>19s}{'loss at the end':>17s}")
times = {}
for run in (single, together, free):
    smooth = run.smooth(60 * run.updates // run.gradients)
    reached = np.flatnonzero(smooth <= 1.0)
    if reached.size:
        times[run.scheme] = run.seconds[reached[0]]
    when = f"{times[run.scheme]:.1f}" if reached.size else "not reached"
    print(f"{run.scheme:18s}{run.updates / run.seconds[-1]:10.0f}{when:>19s}{smooth[-1]:17.2f}")
print("first at loss 1, one run each:", min(times, key=times.get, default="none of them"))
raced.say()

# %% [markdown] claims="02-stale-best-rate"
# The mean staleness is $W - 1$ (less at the start): an update delivers one gradient and makes the $W - 1$ others one update staler. The record compares losses after equally many updates, at five rates on eight seeds. Where does staleness cost most?

# %%
by_rate = claims.evidence("02-stale-best-rate")
over_rates(by_rate)
plt.show()
by_rate

# %% [markdown]
# At 0.1: it raises the loss by 1.2 after 200 updates, and by 1.1 after 400. At 0.0125 both have learned little after 200 updates, and staleness hardly shows. With each at its best rate, the asynchronous loss is about 1.4 instead of 0.7 after 200 updates, and about 0.5 instead of 0.3 after 400. (*About*: the order in which gradients arrive changes from run to run.)

# %% [markdown]
# ### A straggler
#
# Now rank 3 becomes a *[straggler](glossary.md#straggler)*, $k$ times slower. All ranks are [paced](glossary.md#paced), like devices of their own: a gradient takes 30 ms, or $30\,k$ ms on rank 3.
#
# ### Exercise 6: what a straggler costs
#
# *Difficulty ●○○, 8 minutes.* Each of `workers` workers needs `compute` seconds for a gradient and `rest` seconds for everything else (messages, the update). One worker is slow: it needs `k` times `compute`, and the same `rest`. Return two numbers, the gradients per second of all workers together: **synchronous**, where every step lasts until the slow worker has finished, and **asynchronous**, where each works at its own pace.
#
# <details><summary>Hint</summary>
#
# Synchronous: `workers` gradients in the time that the slow worker needs for one. Asynchronous: how many gradients does each worker deliver per second?
#
# </details>


# %% exercise="with-a-straggler"
def with_a_straggler(k, workers, compute, rest):
    """Return the gradients per second, synchronous and asynchronous, one worker k times slower."""
    # BEGIN SOLUTION
    slow, others = k * compute + rest, compute + rest
    return workers / slow, (workers - 1) / others + 1 / slow
    # END SOLUTION


# %% check="with-a-straggler" points=2
from helpers.exercises import going_on as check_on

check_on.with_a_straggler(with_a_straggler)

# %% [markdown]
# > **Predict.** Rank 3 is four times slower. By what factor does each scheme slow down? And what does the *mean* staleness become?

# %%
guess["synchronous, times slower"] = ...
guess["asynchronous, times slower"] = ...
guess["mean staleness with a slow rank"] = ...

# %%
runs_at = {}
with Others() as beside:
    for k in (1, 4):
        delayed = fair | {"batch": 2, "pace": 30e-3, "slow": {3: float(k)}}
        waiting = cluster.run(lenet.train, MPIAllreduce, steps=20, **delayed)[0]
        pushing = cluster.run(lenet.train, Asynchronous, steps=90, **delayed)[0]
        runs_at[k] = waiting, pushing
speeds = {k: [run.gradients / run.seconds[-1] for run in pair] for k, pair in runs_at.items()}
ages = {k: float(np.mean(pair[1].staleness)) for k, pair in runs_at.items()}
beside.say()
print("all equally fast, gradients/s: synchronous {:.0f}, asynchronous {:.0f}".format(*speeds[1]))
for name, before, now in zip(("synchronous", "asynchronous"), speeds[1], speeds[4], strict=True):
    print(f"{name}: {before / now:.2f} times slower")
    guess.answer(f"{name}, times slower", before / now)
guess.answer("mean staleness with a slow rank", ages[4])
_ = plots.staleness(pushing)
plt.show()

# %%
if check_on.with_a_straggler.passed(with_a_straggler):
    compute = 30e-3
    for place, (scheme, workers) in enumerate((("synchronous", 4), ("asynchronous", 3))):
        rest = workers / speeds[1][place] - compute
        said = with_a_straggler(4, workers, compute, rest)[place]
        print(f"{scheme}: your function {said:.0f} gradients/s, measured {speeds[4][place]:.0f}")
else:
    print("Exercise 6 first")

# %% [markdown]
# With equal ranks the asynchronous scheme is slower: its rank 0 only serves. A synchronous step takes as long as the straggler; the factor is below 4, since only `compute` is slower. (Your function uses the `rest` measured at $k = 1$.) The mean staleness (picture) is still about $W - 1 = 2$, but rank 3's few gradients are much staler, and other workers' gradients are fresher.
#
# So far each rank's times were constant. Now no rank is slow, but each gradient takes a random time: exponential, with a mean of 30 ms. Which scheme is faster?

# %%
chance = fair | {"batch": 2, "pace": 30e-3, "random": True}
with Others() as beside:
    drawn = [
        cluster.run(lenet.train, scheme, steps=steps, **chance)[0]
        for scheme, steps in ((MPIAllreduce, 40), (Asynchronous, 120))
    ]
rates = [run.gradients / run.seconds[-1] for run in drawn]
print("random times, gradients/s: synchronous {:.0f}, asynchronous {:.0f}".format(*rates))
beside.say()

# %% [markdown]
# The asynchronous scheme: a synchronous step waits for the slowest of four random times, which is $1 + \frac12 + \frac13 + \frac14 = 2.1$ times their mean on average.
#
# > **Answer.** Without waiting, a straggler slows down only its own contribution, and random times delay nobody else. The price is a rank that only serves, and a mean staleness of $W - 1$: at the best rates, the loss after 200 updates is about 1.4 instead of 0.7, and after 400 updates 0.5 instead of 0.3. With a straggler, we did not measure whose loss falls sooner. *Evidence: the measured rates and losses of this lesson, and the record.*

# %% [markdown]
# ## What breaks
#
# > **Predict.** Replicas that begin with *different* parameters average their *gradients*: how far apart are they after 40 steps, as a share of the distance at the start? And what is the loss after 100 steps at $\lambda = 0.05$ and $\mu = 0.9$ if you forget to divide the sum by $R$?

# %%
guess["distance after 40 steps ÷ at the start"] = ...
guess["loss with the sum in place of the mean"] = ...

# %% [markdown]
# **A rank that skips the collective.** Rank 2 has nothing to do in this step and continues; the others wait until the time limit of 3 s. The culprit is the rank missing from the error's table, 2. It should take part, with zeros.

# %% tags=["raises-exception"]
# %%ranks --timeout 3
import numpy as np
from mpi4py import MPI

mine = np.ones(4) if rank != 2 else None
if mine is not None:
    comm.Allreduce(MPI.IN_PLACE, mine)

# %% [markdown]
# **Replicas that never were equal.** Nobody sent the initial parameters; everything else is right.


# %%
class NeverEqual(MPIAllreduce):
    def begin(self, replica):
        self.share_untrained(replica)  # Scheme.begin would send rank 0's parameters to all


def distance(weights):
    return np.mean([np.linalg.norm(each - weights[0]) for each in weights[1:]])


drawn = [LeNet(seed=chosen.seed + r).parameters() for r in range(chosen.ranks)]
begun = [torch.cat([p.detach().flatten() for p in each]).numpy() for each in drawn]
everyone = cluster.run(lenet.train, NeverEqual, **short)
guess.answer(
    "distance after 40 steps ÷ at the start",
    float(distance([each.weights for each in everyone]) / distance(begun)),
)

# %% [markdown]
# All replicas subtract the same $\lambda v$, so their difference stays: equal gradients *keep* replicas equal, but do not *make* them equal.
#
# **The sum instead of the mean.** `all_reduce` adds: without the division, the rate is in fact $R$ times as large.


# %%
def forgot_to_divide(model):
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


faster = settings | {"rate": 0.05, "steps": 100}
for name, scheme in (
    ("mean", MPIAllreduce),
    ("sum", partial(ByFunction, function=forgot_to_divide)),
):
    run = cluster.run(lenet.train, scheme, **faster)[0]
    print(f"{name:5s} loss {np.mean(run.losses[80:]):.2f}, accuracy {run.accuracy:.1%}")
guess.answer("loss with the sum in place of the mean", float(np.mean(run.losses[80:])))

# %% [markdown]
# A loss of $\ln 10 = 2.30$ is guessing. At the rate $\lambda / R$ the sum would train as the mean does.
#
# ## What the sources say, what we measured
#
# Left: what this course's sources say or ask. Right: what your machine has just shown.

# %%
from IPython.display import Markdown

equal = sum(not np.ptp([r.weights for r in each], axis=0).any() for each in trained.values())
rows = [
    ("PyTorch for MPI takes four days to build",
     f"nothing was built: PyTorch {torch.__version__} from `pip` has trained over MPI"),
    ("`all_reduce` of 1, 2, 3 prints 0", f"{three_summed:.0f}"),
    ("gradients of parts add up to the gradient of the whole",
     f"parameters at most $10^{{{np.ceil(np.log10(as_one)):.0f}}}$ apart after 40 steps"),
    ("replicas stay equal", f"to the last bit in {equal} of {len(trained)} schemes"),
    (r"worthwhile if $T_\text{sync}/T_\text{comp} < R - 1$",
     f"right at {right} of {len(points)} points, with {usable_cores()} cores to use{'; ' * others.disturb}{others}"),
    ("how does a ring allreduce work?", f"{ring_steps} messages and {ring_bytes:,} bytes from each rank, counted"),
    ("does asynchronous training have epochs?", f"no; what ended the run: {free.ended}"),
]  # fmt: skip
lines = ["<details><summary><b>Row by row</b></summary>\n", "| the sources say or ask | here |",
         "|---|---|", *(f"| {said} | {found} |" for said, found in rows), "\n</details>"]  # fmt: skip
Markdown("\n".join(lines))

# %% [markdown]
# **In practice**: `torch.nn.parallel.DistributedDataParallel` averages gradients in buckets during the backward pass, over NCCL on GPUs, with `DistributedSampler` for the data. `torch.distributed.fsdp` also shards the parameters.
#
# **References**
#
# - Li et al. (2020), *PyTorch Distributed*: buckets and overlap.
# - Dean et al. (2012), *Large scale distributed deep networks*: asynchronous SGD with a parameter server.
# - Mitliagkas et al. (2016), *Asynchrony begets momentum*: staleness acts as momentum does, so less momentum should be added.
# - Goyal et al. (2017), *Accurate, large minibatch SGD*: raise the rate with the batch.
#
# **More**: the appendix [A2](A2_more_of_sgd.ipynb) cuts the *model* over ranks, writes a checkpoint, lets workers fail, and has the project.
#
# **Next**: [10 Train replicas that talk less](10_local_sgd.ipynb) lets replicas train alone for a while.

# %%
cluster.stop()
