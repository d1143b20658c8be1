# %% [markdown]
# # Train replicas that talk less
#
# Here you train four replicas that meet only now and then. You predict how far they drift apart in between, and then predict and measure how often they should meet on a link of a given speed.

# %%
from helpers.data_parallel.drift import bytes_sent
from helpers.plots import local as draw
from helpers.plots import style

style.use()
asked = {"in every step": 1000, "every 4": 250, "every 16": 1000 / 16, "every 500": 2}
sent = [bytes_sent(61_706, 4, averages) / 1e6 for averages in asked.values()]
_ = draw.lengths(sent, asked, "MB", "sent by each of four replicas of LeNet in 1000 steps")

# %% [markdown]
# A ring sends $2\,\frac{R-1}{R}$ times all parameters for each average. Averaging less often is the simplest way to send less. What does it cost?
#
# **You will be able to**
#
# - write [local SGD](glossary.md#local-sgd), and say in which cases it is one process to the last bit;
# - predict from the noise of the gradients how far replicas [drift](glossary.md#consensus-distance) apart;
# - make the step of DiLoCo, and say from a matrix how fast gossip mixes;
# - predict which interval between averages is fastest on a link, and measure it;
# - recognise processes that are slow only because their threads get in each other's way.
#
# **You need** notebook [02](02_sgd_sync_async.ipynb) (replicas, averaged gradients, momentum) and from [08](08_allreduce_animation.ipynb) what a ring allreduce sends. *Time:* 90 minutes, of which your machine works for two; the project takes another 30. *Cores:* 2 or more. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | unit |
# |---|---|---|
# | $R$, $r$ | number of replicas; one of them | 1 |
# | $\theta_r$, $\bar\theta$ | parameters of replica $r$; the mean over the replicas | $(P,)$ |
# | $H$ | steps from one average to the next | steps |
# | $\lambda$, $\mu$ | learning rate, momentum | 1 |
# | $\sigma^2$ | variance of one replica's gradient, summed over the parameters | 1 |
# | $\Xi$ | consensus distance $\frac1R \sum_r \lVert\theta_r-\bar\theta\rVert^2$ | 1 |
# | $W$ | the matrix by which replicas mix with their neighbours | $(R, R)$ |
# | $T$, $A$ | time of one gradient; of one average | s |

# %% [markdown]
# ## Set-up

# %% tags=["parameters"]
import os
from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch

from helpers import claims, records
from helpers.cluster import Cluster, Network, StartError
from helpers.data_parallel import curve_runs, drift, local_runs, runs
from helpers.data_parallel.digits import noise
from helpers.data_parallel.schemes import DiLoCo, Gossip, LocalSGD, PostLocalSGD, SometimesAveraged
from helpers.data_parallel.schemes.local import patient_average
from helpers.exercises import local_sgd as check
from helpers.exercises.predictions import Predictions
from helpers.machine import usable_cores
from helpers.paths import BENCH_RECORDS


# %%
@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    rate: float = 0.05  # λ for the digits, without momentum
    pace: float = 10e-3  # seconds of one gradient, where time is the point
    target: float = 0.5  # loss on the test digits
    link: float = 100e6  # bit/s
    size: int = 25_450  # parameters of the small perceptron


# %load_ext helpers.cluster
torch.set_num_threads(1)  # of this process; ranks have one each
chosen, guess = Parameters(), Predictions()
cluster = Cluster(n=chosen.ranks, preload=("torch",))

# %% [markdown]
# > **Predict.** Four replicas of a small network (25 450 parameters, 102 kB) are on four hosts. A link of 100 Mbit/s joins each host to a switch; a gradient takes 10 ms; each replica sees other classes of digits than the others. After how many steps should they meet to reach a given loss soonest? And if they meet every 64 steps instead of every 8, how many times as large is $\Xi$ just before they meet? Replace the dots; the sections on [drift](#How-far-do-replicas-drift?) and [intervals and links](#Which-interval-at-which-link?) answer.

# %%
guess["the fastest H at 100 Mbit/s"] = ...
guess["Ξ before the average at H = 64 ÷ at H = 8"] = ...

# %% [markdown]
# ## Go alone, then meet
#
# In local SGD (Stich, 2019) every replica makes $H$ steps of its own; then all replace their parameters by the mean:
#
# $$\theta_r \leftarrow \theta_r - \lambda g_r(\theta_r) \quad\text{in each step},\qquad \theta_r \leftarrow \bar\theta \quad\text{after every } H \text{ steps}.$$
#
# First with four numbers on four ranks. Rank $r$ has the loss $\frac{a_r}{2}(\theta - x_r)^2$ with $x = 1, 2, 3, 6$ and $a = 1, 1, 1, 5$. All begin at 0, with $\lambda = 0.1$. The mean loss is least at $\sum a_r x_r / \sum a_r = 4.5$. *Where do replicas end that meet in every step? And replicas that meet every 20 steps?*

# %%
# %%ranks
x, a = [1.0, 2.0, 3.0, 6.0][rank], [1.0, 1.0, 1.0, 5.0][rank]
for H in (1, 5, 20):
    theta = 0.0
    for step in range(200):
        theta -= 0.1 * a * (theta - x)
        if (step + 1) % H == 0:
            theta = comm.allreduce(theta) / size
    if rank == 0:
        print(f"H = {H:2d}: all are at {theta:.3f}")

# %% [markdown]
# Only $H = 1$ ends where the mean loss is least. The longer the replicas are alone, the nearer each comes to *its own* least loss, and the mean of those is $(1+2+3+6)/4=3$. There is no noise here and no rounding: with different losses and a fixed rate, local SGD converges to a different point.
#
# ### Exercise 1: meet
#
# *Difficulty ●○○, 8 minutes.* `values` is the NumPy array of all parameters of this replica after step number `step` (from 0). After every `period` steps replace it by the mean over all replicas, *in place*; at all other times do nothing. Ask `comm` for the number of ranks. You will train with it.
#
# <details><summary>Hint</summary>
#
# After step 0 one step has been made. `comm.Allreduce(MPI.IN_PLACE, values)` leaves the sum over all ranks in `values`.
#
# </details>


# %% exercise="meet"
def meet(values, comm, step, period):
    """Average values over the ranks, in place, if `period` steps have passed."""
    from mpi4py import MPI

    # BEGIN SOLUTION
    if (step + 1) % period == 0:
        comm.Allreduce(MPI.IN_PLACE, values)
        values /= comm.Get_size()
    # END SOLUTION


# %% check="meet" points=2
check.meet(meet, cluster=cluster)

# %% [markdown]
# Your function becomes a scheme for the training loop of notebook 02 in a few lines. It trains a small perceptron on the digits; until your function is right, the replicas train alone.


# %%
from helpers.data_parallel import Scheme

can_meet = check.meet.passed(meet, cluster=cluster)


class Mine(Scheme):
    """Local SGD by your function."""

    def after_step(self, replica, step):
        if can_meet:
            meet(replica.flat.values.numpy(), self.comm, step, 8)


mine = cluster.run(local_runs.digits, Mine, steps=64, timeout=120)[0]
print(f"accuracy of replica 0 after {mine.history.updates} steps: {mine.accuracy:.1%}")

# %% [markdown]
# ### $H=1$ is one process
#
# With $H=1$ the mean of the moved parameters equals the parameters moved by the mean gradient. On paper that is exact, with momentum too: the update is linear in the gradient, so each replica may have its own momentum. On a machine sums are rounded. Two cases have no rounding: all ranks see the *same* batches, on 2 or 4 ranks; or all numbers are small binary fractions. (The course's tests check both.) The first case, for several $H$:

# %%
settings = {"steps": 12, "batch": 4, "rate": 0.02, "momentum": 0.9, "divide": False, "timeout": 120}
one = cluster.run(runs.alone, **settings)[0]
for H in (1, 3):
    scheme = partial(LocalSGD, period=H, average=patient_average)
    run = cluster.run(runs.train, scheme, **settings)[0]
    print(f"H = {H}: the same bits as one process: {np.array_equal(run.weights, one.weights)}")

# %% [markdown] claims="10-one-process"
# With different batches the last digits differ, and training multiplies the difference. After 40 steps:

# %%
claims.evidence("10-one-process")

# %% [markdown]
# ## A source's experiment, once more
#
# One of the sources fits $\sqrt x \sin(3.14\,x/5)$ on $[0, 20]$ with four linear layers (80, 80, 80, 40), on four processes. It averages the *gradients* in every step, or every 2, 4 or 10 steps, or never, and the *parameters* every 200 epochs. Its table (it ran until the loss was below 0.05):
#
# | gradients averaged every | 1 | 2 | 4 | 10 | never |
# |---|---|---|---|---|---|
# | seconds for 1000 epochs | 330 | 183 | 136 | 99 | 88 |
# | loss | 0.039 | 0.05 | 0.04 | 0.025 | 0.03 |
# | thousands of epochs needed | 4 | 6 | 6 | 7 | 8 |
# | seconds in all | 1320 | 1098 | 816 | 693 | 704 |
#
# "The results from run to run vary greatly", it says, so one run of each decides little. We run a smaller version with ten seeds: 1600 points instead of 80 000, batches of 100, a rate of 0.01 with momentum 0.9, and parameters averaged every 5 epochs. Three of the runs, here and now:

# %%
from helpers.plots import data_parallel as plots

histories = []
for every in (1, 4, 0):
    scheme = partial(SometimesAveraged, gradients=every, parameters=20, average=patient_average)
    run = cluster.run(curve_runs.fit, scheme, most=60, timeout=120)[0]
    histories.append(run.history)
    reached = "over 60" if np.isinf(run.epochs) else f"{run.epochs:g}"
    print(f"{run.history.scheme:18s} epochs {reached}, loss on other points {run.loss:.3f}")
left, right = plots.losses(histories, window=16)
left.set_ylabel("mean squared error, training")
right.legend()
plt.show()

# %% [markdown] claims="10-rarer-gradients"
# On seeds 0 to 9, epochs until the mean loss of an epoch is 0.05:

# %%
claims.evidence("10-rarer-gradients")

# %% [markdown]
# So "the rarer, the more epochs" does not hold here: averaging every 4 steps needs the most.
#
# Below is the source's table beside ours. Its seconds for 1000 epochs hold for its machine; ours for [paced](glossary.md#paced) ranks at 100 Mbit/s (10 ms for a gradient, 4 steps an epoch). Epochs are the means of ten seeds from the record. The time of a step is predicted by the formula of the section on [intervals and links](#Which-interval-at-which-link?), and measured where this course has a record (`make bench SUITE=local`):


# %%
def of_record(name):
    """Rows of the newest record of the suite `local` that bear a name; none without a record."""
    found = records.load(BENCH_RECORDS, "local")
    return [row for one in found[:1] for row in one.suites["local"] if row.name == name]


theirs = {1: (330, 1320), 2: (183, 1098), 4: (136, 816), 10: (99, 693), 0: (88, 704)}
rows = {row.parameters["setting"]: row for row in claims.evidence("10-rarer-gradients").rows}
epochs = {k: rows[f"every {k}" if k else "never"].value for k in (2, 4, 10, 0)}
epochs[1] = rows["every 2"].peer_value
measured = {
    row.parameters["every"]: row.value for row in of_record("a step, gradients now and then")
}
average = 1e3 * local_runs.link_time(16_401, 4, Network(4, rate=chosen.link).payload)
print(
    "every   source: s/1000 epochs  in all   ours: ms a step, predicted (measured)  epochs  s in all"
)
for k in (1, 2, 4, 10, 0):
    step = 10 + (average / k if k else 0)
    seen = f"({measured[k]:.1f})" if k in measured else "(no record)"
    print(f"{k or 'never':>5}{theirs[k][0]:18}{theirs[k][1]:12}{step:22.1f} {seen:18}"
          f"{epochs[k]:6.0f}{epochs[k] * 4 * step / 1e3:10.2f}")  # fmt: skip

# %% [markdown]
# In the source's table an average costs nearly three times as much as the arithmetic, so the time of an epoch falls to a quarter. Here it costs about as much as the arithmetic, so the time falls to about a half.
#
# ### What should be averaged?
#
# A gradient averaged now and then moves all replicas by the same amount, so they stay as far apart as they were. The mean of the *parameters* brings them together, for the same bytes.

# %% [markdown] claims="10-what-is-averaged"
# Epochs to the loss, when every $k$ steps either the parameters are averaged, or the gradients (and the parameters every 20 steps, as above). The difference matters at $k=4$; at $k=10$ it is unresolved:

# %%
claims.evidence("10-what-is-averaged")

# %% [markdown]
# ### Speed-ups
#
# The source trains the same number of epochs with 1, 2, 4 and 8 GPUs, gradients averaged, in 934, 489, 249 and 139 s: speed-ups of 1, 1.91, 3.75 and 6.72. (It prints 6.74.) Each of $R$ workers makes $1/R$ of the steps, and each step costs $T + A/k$.
#
# ### Exercise 2: predict the speed-up
#
# *Difficulty ●○○, 5 minutes.* One worker needs `compute` ms for a gradient. An average costs `average` ms and happens every `every` steps. How many times as fast as one worker are `workers`, for the same number of batches?
#
# <details><summary>Hint</summary>
#
# One worker needs `compute` for a batch. `workers` do that many batches in the time of one step, and an average's share is `average / every`.
#
# </details>


# %% exercise="speed-up"
def predicted_speed_up(workers, compute, average, every):
    """Return the speed-up over one worker."""
    # BEGIN SOLUTION
    return workers * compute / (compute + average / every)
    # END SOLUTION


# %% check="speed-up" points=1
check.predicted_speed_up(predicted_speed_up)

# %% [markdown]
# Your prediction beside the source's GPUs and a measurement: eight hosts on this machine, links of 1 Gbit/s, every rank paced to 10 ms for a batch. The prediction takes an average's time from the link alone. (Where no hosts can be made, a record stands in.)

# %%
workers = (1, 2, 4, 8)
seconds = {
    row.parameters["ranks"]: row.parameters["seconds"] for row in of_record("speed-up of workers")
}
try:
    with Cluster(n=8, network=Network(8, rate=1e9), preload=("torch",)) as hosts:
        seconds = {
            n: hosts.run(curve_runs.speed, n, batches=40, repeats=1, timeout=120)[0]
            for n in workers
        }
except StartError as error:
    print(f"No hosts here ({error}); from the record, if there is one.")

# %%
series = {"the source's GPUs": [934 / s for s in (934, 489, 249, 139)]}
if seconds:
    series["measured"] = [seconds[1] / seconds[n] for n in workers]
averages = [1e3 * local_runs.link_time(16_401, n, Network(n, rate=1e9).payload) for n in workers]
if check.predicted_speed_up.passed(predicted_speed_up):
    series["your prediction"] = [
        predicted_speed_up(n, 10.0, a, 1) for n, a in zip(workers, averages, strict=True)
    ]
for name, values in series.items():
    print(f"{name:18s}", " ".join(f"{value:5.2f}" for value in values))
_ = draw.speed_ups(workers, series)
plt.show()

# %% [markdown]
# The prediction knows only the link. Real ranks also start each message, wait for their neighbours, and here share the cores: where eight ranks have two cores, the measured line bends away from the predicted one.
#
# ### Processes that get slower
#
# On a server with 16 virtual cores and no GPU the same source sees the reverse: 1, 2, 4, 8 processes need 1403, 1748, 3003, 4801 s. It names the cause: in *each* process PyTorch uses a thread for every core. So 8 processes start 128 threads for 16 cores. What do these threads do to each other? The next cell gives four ranks the same work and sends nothing: first with a thread for every core in each rank, then with one thread each, then with one thread bound to one core (*pinned*). Every few milliseconds it looks which thread has a core.

# %%
from helpers.machine.cores import Watch, shares

pids = cluster.run(os.getpid)
watches = {}
many = max(2, usable_cores())
ways = {"a thread for every core": (many, False), "one thread": (1, False), "pinned": (1, True)}
for name, (threads, bound) in ways.items():
    cluster.run(curve_runs.crowd, threads, 4, timeout=60)  # threads start once
    with Watch(pids) as watch:
        took = cluster.run(curve_runs.crowd, threads, 16, core=bound, timeout=60)[0]
    ran, waited = shares(watch.slices)
    watches[name] = [piece for piece in watch.slices if piece.end < 0.25]
    print(f"{name:24s}{1e3 * took:6.0f} ms; threads had cores for {1e3 * ran:.0f} ms"
          f" and stood ready without one for {1e3 * waited:.0f} ms")  # fmt: skip
if all(watches.values()):
    _ = draw.cores(watches)
    plt.show()

# %% [markdown] claims="10-threads"
# A lane is a thread. Where it is orange, the thread could run but has no core. Within a process the threads wait for each other at the end of each operation, so the process is as slow as its thread without a core. Compare also for how long threads *had* cores: with a thread for every core, many times what the same work needs.

# %%
claims.evidence("10-threads")

# %% [markdown] claims="10-threads-waiting"
# What do they do with the cores? A waiting thread need not sleep: by default OpenMP lets it poll for a while, and so keep a core that another thread may need. `OMP_WAIT_POLICY=passive`, set before PyTorch is imported, makes waiting threads sleep and changes nothing else:

# %%
claims.evidence("10-threads-waiting")

# %% [markdown]
# Asleep, the same threads do the same work in a small part of the time. So it is the polling that costs it.
#
# The usual cure is to limit the threads: `torch.set_num_threads(1)`, or `OMP_NUM_THREADS=1` before the process starts, so that processes × threads is at most the number of cores. (The ranks of this course have one thread each from the start.) Where processes wander between cores, bind each to one; compare the last two lines that the cell printed.

# %% [markdown]
# ## How far do replicas drift?
#
# Between two averages each replica follows its own noise. Let replica $r$'s gradient be $\nabla L$ plus noise of variance $\sigma^2$, with nearly the same $\nabla L$ for all. Then each step adds $\lambda^2\sigma^2\,\frac{R-1}{R}$ to the [consensus distance](glossary.md#consensus-distance) $\Xi$, and $h$ steps after an average
#
# $$\Xi(h) = h\,\lambda^2\sigma^2\,\frac{R-1}{R}.$$
#
# ### Exercise 3: the consensus distance
#
# *Difficulty ●○○, 5 minutes.* `values` has a row for each replica. Return $\Xi=\frac1R\sum_r\lVert\theta_r-\bar\theta\rVert^2$.
#
# <details><summary>Hint</summary>
#
# The mean over the replicas is `values.mean(0)`. The squared length of a row is a *sum* over the parameters; over the replicas it is a mean.
#
# </details>


# %% exercise="consensus"
def consensus_distance(values):
    """Return Ξ of replicas (R, P)."""
    # BEGIN SOLUTION
    return np.square(values - values.mean(0)).sum(1).mean()
    # END SOLUTION


# %% check="consensus" points=1
check.consensus_distance(consensus_distance)

# %% [markdown]
# Three runs with the digits, 128 steps, each replica with all classes: averages every 8 steps, every 64 steps, and gossip (the section on [other ways to meet](#Other-ways-to-meet)). Your function measures after every second step, before anybody meets. The prediction's $\sigma^2$ is measured at the weights with which the run ended.


# %%
right = check.consensus_distance.passed(consensus_distance)
distance = consensus_distance if right else drift.consensus


def apart(runs):
    """Your Ξ, or the course's, along a run."""
    paths = np.array([run.path.before for run in runs])  # (R, T, P)
    return [float(distance(paths[:, t])) for t in range(paths.shape[1])]


curves, before = [], {}
for H in (8, 64):
    scheme = partial(LocalSGD, period=H, average=patient_average)
    run = cluster.run(local_runs.digits, scheme, steps=128, follow=2, timeout=120)
    steps, measured = np.array(run[0].path.steps), apart(run)
    sigma2 = noise(run[0].history.weights)
    since = np.where(steps % H == 0, H, steps % H) * (steps > 0)
    predicted = drift.after_steps(since, chosen.rate, sigma2, chosen.ranks)
    curves.append((f"H = {H}", steps[1:], measured[1:], predicted[1:]))
    before[H] = np.mean([m for m, k in zip(measured, steps, strict=True) if k and k % H == 0])
    print(f"H = {H:2d}: σ² at the end {sigma2:.2f}; Ξ before an average {before[H]:.3f}")
guess.answer("Ξ before the average at H = 64 ÷ at H = 8", float(before[64] / before[8]))

# %%
_ = draw.drift(curves)
plt.show()

# %% [markdown] claims="10-drift-predicted"
# A saw: the distance climbs step by step and falls at each average. The prediction is a straight line; the measured curve bends away below it. Over five seeds, $\Xi$ just before replicas meet, measured against predicted (*ties*: within a quarter; *fails*: further below). The longer alone, the further below:

# %%
claims.evidence("10-drift-predicted")

# %% [markdown] claims="10-drift-curvature"
# What bends it? The formula assumes that all replicas have the same $\nabla L$. On a curved loss they do not: along a direction of curvature $\kappa$ each step shrinks a replica's deviation to $1-\lambda\kappa$ of it. To test this, evaluate all gradients at the *mean* of the replicas and change nothing else (`schemes.AtTheMean`). Then the line should stay straight: eight times as far in eight times as many steps.

# %%
claims.evidence("10-drift-curvature")

# %% [markdown] claims="10-drift-rate 10-drift-data"
# With gradients at its own place, a replica that is alone eight times as long is some five times as far. With gradients at the mean it is eight to nine times as far, at both rates. So the line bends because each gradient is taken at the replica's own position: on a curved loss it pulls the replica back.
#
# The formula has $\lambda^2$. It has no term for data that differ: if replica $r$ sees other classes than the others, its $\nabla L_r$ differs, and the replicas part further than noise alone takes them:

# %%
claims.evidence("10-drift-rate")

# %%
claims.evidence("10-drift-data")

# %% [markdown]
# Does drift cost accuracy? This problem cannot tell: in the setting above, replicas that meet only once, at the very end, do as well as replicas that meet in every step. A larger rate, or momentum, makes a problem on which it shows; change `rate` above and see.

# %% [markdown]
# ### Watch them
#
# Three runs of the source's curve from one start, drawn in a plane through their paths. Colour is the loss at each point. Choose a run and press *play*: the replicas part, and jump to their mean when they meet.

# %%
from helpers.plots.replicas_html import replicas

paths, every = {}, 2
for name, H in (("H = 4", 4), ("H = 20", 20), ("never", 0)):
    scheme = partial(LocalSGD, period=H, average=patient_average)
    run = cluster.run(
        curve_runs.fit, scheme, most=15, target=0.0, follow=every, seed=1, timeout=120
    )
    paths[name] = np.array([one.path.after for one in run])
plane = draw.plane(paths, curve_runs.loss_of)
met = {"H = 4": range(2, 31, 2), "H = 20": range(10, 31, 10)}
replicas(plane, every, met)

# %% [markdown]
# The plane shows two of 16 401 directions: a replica that seems to stand still may be moving out of the picture. *never* shows what the average does: four replicas that part for good.

# %% [markdown]
# ## Other ways to meet
#
# **Post-local SGD** (Lin et al., 2020): $H=1$ while the parameters move fast, a larger $H$ later.
#
# **DiLoCo** (Douillard et al., 2023) takes the movement of a round, $\Delta = \theta - \bar\theta$, for a *gradient*, and a second optimizer steps with it. $\theta$ (the *anchor*) is where the round began:
#
# $$v \leftarrow \mu v + \Delta, \qquad \theta \leftarrow \theta - \eta\,(\Delta + \mu v).$$
#
# The outer optimizer is SGD with Nesterov's momentum. Inside, each replica has an optimizer of its own (AdamW in the paper, $H=500$). With $\eta=1$, $\mu=0$ it is local SGD.
#
# ### Exercise 4: the outer step
#
# *Difficulty ●●○, 8 minutes.* `anchor` is $\theta$, `mean` $\bar\theta$, `velocity` $v$ (three arrays of one shape), `rate` $\eta$ and `momentum` $\mu$. Return the new anchor and the new velocity, as a tuple.
#
# <details><summary>Hint</summary>
#
# The velocity first: the step uses the *new* one. Mind the sign of Δ: a gradient points to where one comes from.
#
# </details>


# %% exercise="outer-step"
def outer_step(anchor, mean, velocity, rate, momentum):
    """Return (new anchor, new velocity)."""
    # BEGIN SOLUTION
    moved = anchor - mean
    velocity = momentum * velocity + moved
    return anchor - rate * (moved + momentum * velocity), velocity
    # END SOLUTION


# %% check="outer-step" points=2
check.outer_step(outer_step)


# %% [markdown]
# Your step as a scheme (until it is right: the plain mean), beside the course's and the others, on data sorted by class, 96 steps:


# %%
can_step = check.outer_step.passed(outer_step)


class MyDiLoCo(DiLoCo):
    """DiLoCo by your outer step."""

    def meet(self, replica):
        values = replica.flat.values
        self.average(values, self.comm)
        if can_step:
            given = (part.numpy() for part in (self.anchor, values.clone(), self.velocity))
            step = outer_step(*given, self.rate, self.momentum)
            self.anchor, self.velocity = map(torch.as_tensor, step)
            values.copy_(self.anchor)


waits = {"average": patient_average}
ways = {
    "H = 16": partial(LocalSGD, period=16, **waits),
    "post-local: 1 for 32 steps, then 16": partial(PostLocalSGD, period=16, switch=32, **waits),
    "DiLoCo, H = 16": partial(DiLoCo, period=16, **waits),
    "yours, H = 16": partial(MyDiLoCo, period=16, **waits),
    "gossip": Gossip,
}
for name, scheme in ways.items():
    run = cluster.run(local_runs.digits, scheme, steps=96, sorted_share=1.0, timeout=120)[0]
    print(f"{name:38s} loss {run.loss:.3f}, accuracy {run.accuracy:.1%}")

# %% [markdown]
# This is one seed of each, so only large differences mean something. Which scheme is best depends on the data, the rate and the inner optimizer; no run of this course ranks them.

# %% [markdown]
# **Gossip** (Lian et al., 2017) does without an allreduce: in each step a replica mixes only with its two neighbours on a ring,
#
# $$\theta_r \leftarrow (1-2w)\,\theta_r + w\,(\theta_{r-1} + \theta_{r+1}), \qquad\text{in short } \theta \leftarrow W\theta.$$
#
# Each replica sends all parameters twice, whatever the number of replicas. The replicas are never equal: one mixing multiplies a difference along the $k$-th eigenvector of $W$ by the eigenvalue $\lambda_k$. $\lambda_1=1$ belongs to the mean itself. The largest $|\lambda_k|$ after it decides how slowly the slowest difference shrinks; $1-|\lambda_2|$ is the [spectral gap](glossary.md#spectral-gap).

# %%
from helpers.data_parallel.schemes.gossip import mixing, spectral_gap

print("ranks   gap    1 − λ₂ by formula")
for n in (4, 8, 16, 64):
    print(f"{n:5}  {spectral_gap(mixing(n)):.4f}  {(2 / 3) * (1 - np.cos(2 * np.pi / n)):.4f}")

# %% [markdown]
# The gap falls with the square of the ring's length: what rank 0 has learned takes a long time to cross the ring.
#
# ### Exercise 5: how many mixings?
#
# *Difficulty ●●○, 8 minutes.* After how many mixings is the slowest difference *below* `part` of what it was? `W` is symmetric, and its rows add up to 1. Mind two cases: an eigenvalue may be negative, and one mixing may do it all.
#
# <details><summary>Hint</summary>
#
# `np.linalg.eigvalsh(W)` are the eigenvalues. Leave out the one that is 1, and take the largest absolute value $q$ of the rest. You want the smallest whole $n$ with $q^n <$ `part`.
#
# </details>


# %% exercise="mixings"
def mixings_until(W, part):
    """Return the number of mixings."""
    # BEGIN SOLUTION
    q = np.sort(np.abs(np.linalg.eigvalsh(W)))[-2]
    return 1 if q < 1e-9 else int(np.floor(np.log(part) / np.log(q))) + 1
    # END SOLUTION


# %% check="mixings" points=2
check.mixings_until(mixings_until)

# %% [markdown]
# Your answer for rings of 4 to 64, and gossip measured: four ranks with different numbers, mixed without any gradient.

# %%
if check.mixings_until.passed(mixings_until):
    print("mixings to 1 %:", {n: mixings_until(mixing(n), 0.01) for n in (4, 8, 16, 64)})

# %%
# %%ranks
number, q = float(rank**2), 1 / 3  # the slowest difference on four ranks: λ₂ = 1/3
for mixed in range(5):
    mean = comm.allreduce(number) / size
    far = comm.allreduce((number - mean) ** 2) ** 0.5
    if rank == 0:
        print(f"after {mixed} mixings: distance from the mean {far:.4f}")
    left, right = (rank - 1) % size, (rank + 1) % size
    from_left = comm.sendrecv(number, dest=right, source=left)
    from_right = comm.sendrecv(number, dest=left, source=right)
    number = (number + from_left + from_right) / 3

# %% [markdown] claims="10-gossip"
# Each mixing leaves a third. In training, each step adds noise and each mixing shrinks it; $\Xi$ settles where they balance, at $\sum_k \frac{\lambda_k^2}{1-\lambda_k^2}\,\frac{\lambda^2\sigma^2}{R}$ (eigenvalues with an index, the learning rate without; measured in the table of the section on [drift](#How-far-do-replicas-drift?)). What does gossip cost in accuracy? With data alike, nothing measurable; with sorted classes five seeds do not decide:

# %%
claims.evidence("10-gossip")

# %% [markdown]
# ## Which interval at which link?
#
# A step costs $T$, and every $H$-th step an average costs $A$ more. If a loss needs $n(H)$ steps, then
#
# $$\text{seconds}(H) = n(H)\,\left(T + \frac{A}{H}\right), \qquad A = 2(R-1)\,\alpha + 2\,\frac{R-1}{R}\,\frac{K}{\beta}$$
#
# with $K$ bytes of parameters, a latency $\alpha$, and $\beta$ bytes/s of the link. $n(H)$ does not depend on the network, so we measure it once, without a network, in the harder case: each replica sees classes of its own.

# %%
needed = {}
for H in (1, 2, 4, 8):
    scheme = partial(LocalSGD, period=H, average=patient_average)
    run = cluster.run(local_runs.digits, scheme, steps=208, sorted_share=1.0, follow=8, timeout=120)
    needed[H] = local_runs.steps_to(run, chosen.target)
print("steps to a loss of", chosen.target, "on the test digits:", needed)

# %% [markdown] claims="10-steps-needed"
# That was one seed. Over five:

# %%
claims.evidence("10-steps-needed")

# %% [markdown]
# ### Exercise 6: the best interval
#
# *Difficulty ●●○, 8 minutes.* `needed` maps $H$ to the steps that it needs (`None`: it never got there). Return the $H$ with the least predicted seconds, for `compute` ($T$) and `average` ($A$), in seconds.
#
# <details><summary>Hint</summary>
#
# `min(..., key=...)` over the intervals that got there.
#
# </details>


# %% exercise="best-period"
def best_period(needed, compute, average):
    """Return the best H."""
    # BEGIN SOLUTION
    there = [H for H, steps in needed.items() if steps is not None]
    return min(there, key=lambda H: needed[H] * (compute + average / H))
    # END SOLUTION


# %% check="best-period" points=2
check.best_period(best_period)

# %%
payload = {rate: Network(4, rate=rate).payload for rate in (10e6, 100e6, 1e9)}
average = {rate: local_runs.link_time(chosen.size, 4, b) for rate, b in payload.items()}
right = check.best_period.passed(best_period)
for rate, seconds in average.items():
    best = best_period(needed, chosen.pace, seconds) if right else "?"
    print(f"{rate / 1e6:5.0f} Mbit/s: an average {1e3 * seconds:6.1f} ms; your best H: {best}")

# %% [markdown]
# Now with a stopwatch: four hosts on this machine, each rank paced to 10 ms for a gradient, real messages over links of 100 Mbit/s. (Where no hosts can be made, the lines of the picture are predictions, and its marks come from a record, if there is one.)

# %%
measured = {}
try:
    with Cluster(n=4, network=Network(4, rate=chosen.link), preload=("torch",)) as hosts:
        for H in (H for H in (1, 2, 4) if needed[H]):
            run = hosts.run(local_runs.digits, partial(LocalSGD, period=H), steps=needed[H],
                            sorted_share=1.0, pace=chosen.pace, timeout=120)[0]  # fmt: skip
            measured[H] = run.history.seconds[-1]
            predicted = needed[H] * (chosen.pace + average[chosen.link] / H)
            print(f"H = {H}: {measured[H]:.2f} s, predicted {predicted:.2f} s")
except StartError as error:
    print(f"No hosts here ({error}).")

# %%
known = {(row.parameters["rate"], row.parameters["H"]): row.value
         for row in of_record("seconds to a loss")} | {(chosen.link, H): s for H, s in measured.items()}  # fmt: skip
rows = [
    {"rate": rate, "H": H, "predicted": steps * (chosen.pace + seconds / H),
     "measured": known.get((rate, H))}
    for rate, seconds in average.items() for H, steps in needed.items() if steps is not None
]  # fmt: skip
_ = draw.fastest(rows)
plt.show()
at_link = [row for row in rows if row["rate"] == chosen.link]
seen = [row for row in at_link if row["measured"]] or at_link
fastest = min(seen, key=lambda row: row["measured"] or row["predicted"])
guess.answer("the fastest H at 100 Mbit/s", fastest["H"])

# %% [markdown] claims="10-link"
# The slower the link, the larger the best $H$. Measured seconds are up to 1.4 times the predicted ones, and the $H$ that the prediction chooses is the fastest or its neighbour. In the record, `one average` takes what the formula gives at 10 and 100 Mbit/s, within 5 %, and nearly twice that at 1 Gbit/s.
#
# At a fixed number of steps, the gain of $H=16$ depends on the link alone:

# %%
claims.evidence("10-link")

# %% [markdown]
# ## What breaks
#
# **Gradients now and then, and the parameters never.** It looks like talking less. But a mean gradient moves all replicas by the same amount, so nothing ever brings them back. $\Xi$ along the training, beside local SGD with as many bytes:

# %%
for name, scheme in (
    ("gradients every 4", partial(SometimesAveraged, gradients=4, **waits)),
    ("parameters every 4", partial(LocalSGD, period=4, **waits)),
):
    run = cluster.run(local_runs.digits, scheme, steps=96, follow=2, timeout=120)
    print(f"{name}: Ξ after 30 steps {apart(run)[15]:.3f}, after 94 steps {apart(run)[47]:.3f}")

# %% [markdown]
# **Ranks that count differently.** One replica skips a step because its batch was empty, and so skips a meeting. It waits for nobody, and the others wait for it:

# %% tags=["raises-exception"]
# %%ranks --timeout 3
made = 0
for batch in range(8):
    if rank == 2 and batch == 5:
        continue  # nothing to do, so this step is not counted
    made += 1
    if made % 4 == 0:
        comm.allreduce(1.0)

# %% [markdown]
# Count what all ranks share (the number of the batch), not what each has done.
#
# **An outer rate for another optimizer.** $\eta=0.7$ and $\mu=0.9$ come from a paper with AdamW inside and long rounds. In the end a $\Delta$ moves the anchor by $\eta/(1-\mu) = 7$ times itself. Here that overshoots, and the loss is worse than without outer momentum (one seed):

# %%
for eta, mu in ((1.0, 0.0), (0.7, 0.5), (0.7, 0.9), (2.0, 0.9)):
    scheme = partial(DiLoCo, period=8, rate=eta, momentum=mu, **waits)
    run = cluster.run(local_runs.digits, scheme, steps=96, timeout=120)[0]
    print(f"η = {eta}, μ = {mu}: loss {run.loss:8.3f}, accuracy {run.accuracy:.1%}")

# %% [markdown]
# ## Project: a schedule for $H$
#
# *Difficulty ●●●, 30 minutes.* Why should $H$ stay the same? Write `plan(step)`: it is called before step 0 and after each average, and returns how many steps to make until the next average (always the same number for the same `step`). Your schedule should bring the loss to 0.5, with data sorted by class, *sooner at 100 Mbit/s* than any constant $H$, those between the table's included. The check trains with it, on the ranks, and counts steps and averages; the cell after it measures the time.
#
# <details><summary>Hint</summary>
#
# When does drift hurt: while the loss falls fast, or when it is nearly there? Try both (`check.planned(plan, cluster)` returns steps and averages, `check.seconds(steps, averages, 4)` the prediction), then move the switch.
#
# </details>


# %% exercise="schedule"
def plan(step):
    """Return H: the steps from here to the next average."""
    # BEGIN SOLUTION
    return 12 if step < 24 else 2
    # END SOLUTION


# %% check="schedule" points=5
check.schedule(plan, cluster=cluster, needed=needed)

# %%
if check.schedule.passed(plan, cluster=cluster, needed=needed):
    steps, averages = check.planned(plan, cluster)
    try:
        with Cluster(n=4, network=Network(4, rate=chosen.link), preload=("torch",)) as hosts:
            run = hosts.run(local_runs.digits, partial(LocalSGD, period=plan), steps=steps,
                            sorted_share=1.0, pace=chosen.pace, timeout=120)[0]  # fmt: skip
        print(f"yours: {run.history.seconds[-1]:.2f} s for {steps} steps and {averages} averages;"
              f" predicted {check.seconds(steps, averages, 4):.2f} s")  # fmt: skip
    except StartError as error:
        print(f"No hosts here ({error}).")

# %% [markdown]
# ## What the sources say, what we measured
#
# | claim | here |
# |---|---|
# | gradients every step converge best, at high cost; every 10 or never costs more epochs | over ten seeds every 4 costs most epochs; for every 10 and never they do not decide |
# | "results vary greatly from run to run" | so they do: the intervals of those tables are wide |
# | 1, 2, 4, 8 GPUs: 934, 489, 249, 139 s, a speed-up of 6.74 | 934/139 is 6.72; eight paced ranks on two cores reach less, and less than $T + A$ predicts |
# | more CPU processes are slower, since each uses all cores | yes: waiting threads poll and keep the cores from others. Waiting asleep cures it, and so does one thread each |
# | local SGD reaches the same loss with far fewer messages (Stich 2019) | the steps needed are counted in the section on [intervals and links](#Which-interval-at-which-link?); with classes sorted a long $H$ ends elsewhere |
# | DiLoCo's outer Nesterov helps (with AdamW, $H=500$, language models) | run here, not ranked: one small problem does not decide it |
# | gossip needs no allreduce and converges as well (Lian 2017) | on four ranks with data alike it ties; with sorted classes it is open. Its gap falls as $1/R^2$ on a ring |

# %% [markdown]
# ## Summary
#
# - Local SGD sends $1/H$ of the bytes. With $H=1$ it is one process, to the bit where nothing is rounded.
# - Replicas whose data are alike drift by $h\lambda^2\sigma^2$, and by less when they are long alone. Replicas whose data differ drift further, and a long $H$ leads them to another place.
# - The best $H$ follows from the steps needed, $T$ and $A$: large on slow links, small on fast ones.
# - Processes × threads should not exceed the cores.
#
# **In practice**: PyTorch has `torch.distributed.algorithms.model_averaging` and a hook for post-local SGD; OpenDiLoCo and Prime train language models over the internet with DiLoCo; federated learning is local SGD with data that differ (FedAvg).
#
# **References**
#
# - Stich (2019), *Local SGD converges fast and communicates little*.
# - Lin, Stich, Patel, Jaggi (2020), *Don't use large mini-batches, use local SGD*: post-local SGD.
# - Lian et al. (2017), *Can decentralized algorithms outperform centralized algorithms?*: gossip.
# - Douillard et al. (2023), *DiLoCo: distributed low-communication training of language models*.
# - Karimireddy et al. (2020), *SCAFFOLD*: why data that differ make replicas drift, and a cure.
#
# **Next**: [12_large_batches_and_compression](12_large_batches_and_compression.ipynb) sends fewer bytes instead of fewer messages, and asks how large a batch may become.

# %%
cluster.stop()
