# %% [markdown]
# # Train replicas that talk less
#
# In this notebook you train four replicas that *meet* only now and then, to average their parameters. At the end you write your own scheme for a slow link.

# %%
from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch

from helpers import claims
from helpers.cluster import Cluster, Network, StartError
from helpers.data_parallel import Scheme
from helpers.data_parallel.schemes import DiLoCo, Gossip, LocalSGD, PostLocalSGD, SometimesAveraged
from helpers.data_parallel.schemes.averaged import patient_average
from helpers.data_parallel.tasks import curve, lenet, perceptron
from helpers.data_parallel.tasks.perceptron import noise
from helpers.data_parallel.theory import drift, time_model
from helpers.exercises import local_sgd as check
from helpers.exercises.predictions import Predictions
from helpers.machine import usable_cores
from helpers.plots import local as draw
from helpers.plots import style
from helpers.plots.local import replicas
from helpers.plots.rates import over_rates
from helpers.timing import Others


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    rate: float = 0.05  # λ for the digits, without momentum
    pace: float = 10e-3  # seconds of one gradient, where time is the point
    target: float = 0.5  # loss on the test digits
    link: float = 100e6  # bit/s
    size: int = 25_450  # parameters of the small perceptron


# %load_ext helpers.cluster
style.use()
torch.set_num_threads(1)  # of this process; ranks have one each
chosen, guess = Parameters(), Predictions()
cluster = Cluster(n=chosen.ranks, preload=("torch",))
waits = {"average": patient_average}  # a replica that waits leaves its core to the others


def local(H):
    """Return local SGD with an average after every H steps."""
    return partial(LocalSGD, period=H, **waits)


# %% [markdown]
# Four replicas of one network fit a curve, each with data of its own. The picture projects their 16 401 parameters onto a plane; thin lines join points of the plane with equal loss. After 59 steps alone the replicas are apart: press ▶|, and they jump to their mean. Then choose another run and press *play*.

# %%
paths, met = {}, {}
for H in (60, 20, 4):
    run = cluster.run(curve.fit, local(H), most=15, target=0.0, follow=1, seed=1, timeout=120)
    paths[f"H = {H}"] = np.array([one.path.after for one in run])
    met[f"H = {H}"] = range(H, 61, H)  # after these steps
replicas(draw.plane(paths, curve.loss_of, cells=(28, 20)), met)

# %% [markdown]
# Replicas that meet less often send less. What does it cost them?
#
# **You will be able to**
#
# - write [local SGD](glossary.md#local-sgd), and say when it trains as one process does;
# - predict from the noise of the gradients how far replicas [drift](glossary.md#consensus-distance) apart;
# - predict which interval between averages is fastest on a link, and measure it;
# - write DiLoCo's outer step, and say how fast replicas become alike if each mixes only with its neighbours (gossip);
# - design a scheme for a slow link.
#
# **You need** notebook [02](02_sgd_sync_async.ipynb) (replicas, averaged gradients, momentum) and from [08](08_allreduce_animation.ipynb) what a ring allreduce sends. *Time:* 133 minutes: three lessons, a project of 25 minutes, and ten for what breaks. Each lesson runs after the cells above; the project needs Lesson 3, and *What breaks* needs Lesson 1. *Cores:* 2 or more. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | shape or unit |
# |---|---|---|
# | $R$, $r$ | number of replicas; one of them | 1 |
# | $\theta_r$, $\bar\theta$ | the $P$ parameters of replica $r$; their mean over the replicas | $(P,)$ |
# | $g_r$ | gradient of replica $r$'s mini-batch | $(P,)$ |
# | $H$ | steps from one average to the next | steps |
# | $\lambda$ | learning rate | 1 |
# | $T$, $A$ | time of one gradient; of one average | s |
# | $\alpha$, $\beta$ | latency of a message; time for each further byte | s, s/B |

# %% [markdown]
# ## Lesson 1. How far do replicas drift while they are alone?
#
# *45 minutes.* Replicas that average their gradients in every step stay equal. If they average their *parameters*, and only after every $H$ steps, they send $1/H$ of the bytes. How far do they drift apart in between?
#
# > **Predict.** Four replicas train on the digits. If they meet every 64 steps instead of every 8, how many times as large is $\Xi$, the mean squared distance of the replicas from their mean, just before they meet? Replace the dots.

# %%
guess["Ξ before the average at H = 64 ÷ at H = 8"] = ...

# %% [markdown]
# ### Go alone, then meet
#
# In local SGD (Stich, 2019) every replica makes $H$ steps of its own; then all take the mean of their parameters:
#
# $$\theta_r \leftarrow \theta_r - \lambda g_r(\theta_r) \quad\text{in each step},\qquad \theta_r \leftarrow \bar\theta \quad\text{after every } H \text{ steps}.$$
#
# Take one number $\theta$ on each of four ranks. Rank $r$ has the loss $\frac{a_r}{2}(\theta - x_r)^2$ with $x = 1, 2, 3, 6$ and $a = 1, 1, 1, 5$. All begin at 0, with $\lambda = 0.1$. The mean loss is least at $\sum a_r x_r / \sum a_r = 4.5$. Where do the replicas end if they meet in every step, and where if they meet every 20 steps?

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
# Only $H = 1$ ends at 4.5. A replica that is alone moves towards $x_r$, where *its own* loss is least. The longer the replicas are alone, the nearer their mean comes to the mean of the $x_r$, which is 3. So local SGD at a fixed rate need not end where the mean loss is least.
#
# ### Exercise 1: meet
#
# *Difficulty ●○○, 8 minutes.* Your function is called on every rank after each step; `step` numbers the steps from 0. `values` is the NumPy array of all parameters of this replica. After every `period` steps replace it by the mean over all replicas, *in place*. After all other steps do nothing. Ask `comm` for the number of ranks.
#
# <details><summary>Hint</summary>
#
# When `step` is 0, one step has been made. `comm.Allreduce(MPI.IN_PLACE, values)` leaves the sum over all ranks in `values`.
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
# The next cell turns your function into a scheme for notebook 02's training loop: a small perceptron learns the digits, with meetings every 8 steps. Until your function is right, the replicas train alone.


# %%
can_meet = check.meet.passed(meet, cluster=cluster)


class Mine(Scheme):
    """Local SGD by your function."""

    def after_step(self, replica, step):
        if can_meet:
            meet(replica.flat.values.numpy(), self.comm, step, 8)


mine = cluster.run(perceptron.train, Mine, steps=64, timeout=120)[0]
print(f"accuracy of replica 0 after {mine.history.updates} steps: {mine.accuracy:.1%}")

# %% [markdown]
# ### $H=1$ trains as one process does
#
# With $H=1$, averaging the parameters after a step is the same as a step by the mean gradient. This holds with momentum, too, since the update is linear in the gradient. (Adam's update is not linear.) So four replicas with batches of 4 should train as one process does with the same digits in batches of 16. After 12 steps of LeNet, by how much do their parameters differ at most?

# %%
settings = {"steps": 12, "rate": 0.02, "momentum": 0.9, "timeout": 120}
one = cluster.run(lenet.alone, batch=16, **settings)[0]
for H in (1, 3):
    run = cluster.run(lenet.train, local(H), batch=4, **settings)[0]
    print(f"H = {H}: {np.abs(run.weights - one.weights).max():.0e} from one process")

# %% [markdown]
# With $H=1$ only rounding differs. With $H=3$ the replicas take gradients at different parameters.
#
# ### Noise drives replicas apart
#
# Why do replicas drift apart even if their data are alike? They have almost the same expected gradient $\nabla L$ while they are near each other, but each adds the noise of its own mini-batches. Let these noises be independent, with variance $\sigma^2$ (summed over the parameters). The distance between replicas is measured by the [consensus distance](glossary.md#consensus-distance):
#
# $$\Xi=\frac1R\sum_r\lVert\theta_r-\bar\theta\rVert^2 = \frac1R\sum_r\lVert\theta_r\rVert^2 - \lVert\bar\theta\rVert^2.$$
#
# The common $\nabla L$ moves all replicas alike and leaves $\Xi$ unchanged. In each step the noise adds to every replica a random vector of mean 0 and mean squared length $\lambda^2\sigma^2$. On average this adds $\lambda^2\sigma^2$ to $\frac1R\sum_r\lVert\theta_r\rVert^2$. The mean $\bar\theta$ moves by the mean of these $R$ vectors, which adds only $\lambda^2\sigma^2/R$ to $\lVert\bar\theta\rVert^2$. Hence $h$ steps after an average
#
# $$\Xi(h) = h\,\lambda^2\sigma^2\,\frac{R-1}{R}.$$
#
# ### Exercise 2: the consensus distance
#
# *Difficulty ●○○, 5 minutes.* `values` has a row for each replica; you may overwrite it. Return $\Xi=\frac1R\sum_r\lVert\theta_r-\bar\theta\rVert^2$.
#
# <details><summary>Hint</summary>
#
# Over which axis is there a sum, and over which a mean?
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
# Do real replicas follow this formula? The next cell trains on the digits for 128 steps, with $H=8$ and with $H=64$. Every replica sees all classes. Your function measures $\Xi$ after every second step, before the replicas meet. The cell prints the mean of $\Xi$ just before an average (in the run's second half), and the prediction with $\sigma^2$ at the final weights. In the figure, the wide grey lines are the formula; the vertical scale is logarithmic.

# %%
right = check.consensus_distance.passed(consensus_distance)
distance = consensus_distance if right else drift.consensus


def apart(runs):
    """Your Ξ, or the course's, along a run."""
    paths = np.array([run.path.before for run in runs])  # (R, T, P)
    return [float(distance(paths[:, t])) for t in range(paths.shape[1])]


# %%
curves, before = [], {}
for H in (8, 64):
    run = cluster.run(perceptron.train, local(H), steps=128, follow=2, timeout=120)
    steps, measured = np.array(run[0].path.steps), apart(run)
    sigma2 = noise(run[0].history.weights)
    since = np.where(steps % H == 0, H, steps % H) * (steps > 0)
    predicted = drift.after_steps(since, chosen.rate, sigma2, chosen.ranks)
    curves.append((f"H = {H}", steps[1:], measured[1:], predicted[1:]))
    late = [m for m, k in zip(measured, steps, strict=True) if k > 64 and k % H == 0]
    before[H] = np.mean(late)
    full = drift.after_steps(H, chosen.rate, sigma2, chosen.ranks)
    print(f"H = {H:2d}: Ξ before an average {before[H]:.3f}, predicted {full:.3f}")
guess.answer("Ξ before the average at H = 64 ÷ at H = 8", float(before[64] / before[8]))

# %%
_ = draw.drift(curves)
plt.show()

# %% [markdown] claims="10-drift-predicted"
# Real replicas follow the formula for the first steps after an average, and then fall below it. Over five seeds, $\Xi$ just before an average is 28 % below the prediction at $H=8$, and 53 % below it at $H=64$. (The record also has Lesson 3's *gossip*.)


# %%
claims.evidence("10-drift-predicted").folded()

# %% [markdown] claims="10-drift-curvature"
# Why? The formula assumes that all replicas have the same $\nabla L$. But on a curved loss, a replica away from the mean has a gradient of its own, which leads it back. To test whether this is the reason, take every replica's gradient at the *mean* of the replicas and change nothing else (rows *the mean*; `schemes.AtTheMean`). Does $\Xi$ at $H=64$ become eight times $\Xi$ at $H=8$, as the formula says?

# %%
claims.evidence("10-drift-curvature")

# %% [markdown] claims="10-drift-data"
# Yes: with gradients at the mean, $\Xi$ at $H=64$ is eight to nine times $\Xi$ at $H=8$, at both rates. With gradients at each replica's own position, it is about five times. So $\Xi$ stays below the formula because each replica takes its gradient at its own position.
#
# In these runs the replicas' data were alike. If each replica sees classes of its own, $\nabla L$ differs between the replicas, and they drift further. Sorting the data by class makes $\Xi$ (its mean over the second half of a run) 2.5 times as large at $H=8$, and 3.7 times at $H=64$.

# %%
claims.evidence("10-drift-data").folded()

# %% [markdown]
# **Answer.** Noise alone would make $\Xi = h\,\lambda^2\sigma^2\frac{R-1}{R}$ after $h$ steps, eight times as large at $H=64$ as at $H=8$. But each replica takes its gradient at its own position, and $\Xi$ is only about five times as large. Data that differ drive the replicas further apart. *Evidence: the curves above and the three records.*

# %% [markdown]
# ## Lesson 2. How often should they meet?
#
# *25 minutes.* Meeting costs time on the link. Meeting less often can cost steps. Which interval is fastest?
#
# > **Predict.** Four replicas of a small network (25 450 parameters, 102 kB) are on four hosts. A link of 100 Mbit/s joins each host to a switch; a gradient takes 10 ms, an average 13 ms. Each replica sees other classes of digits than the others. After how many steps should they meet to reach a given loss soonest: 1, 2, 4 or 8?

# %%
guess["the fastest H at 100 Mbit/s"] = ...

# %% [markdown]
# ### Seconds are steps times time
#
# Each step costs $T$, and every $H$-th step costs an average, $A$, as well. If a given loss needs $n(H)$ steps, then
#
# $$\text{seconds}(H) = n(H)\,\left(T + \frac{A}{H}\right).$$
#
# $A$ is the time of notebook 08's ring allreduce. With $K$ bytes of parameters it is
#
# $$A = 2(R-1)\,\alpha + 2\,\frac{R-1}{R}\,K\beta.$$
#
# $n(H)$ does not depend on the link, so we count it once, without a link. The data are sorted by class. Each $H$ has its best rate (from the record below). The loss is tested every 4 steps:

# %%
rates, needed = {1: 0.2, 2: 0.2, 4: 0.1, 8: 0.1}, {}
print(f"steps to a loss of {chosen.target} on the test digits:")
for H, most in {1: 80, 2: 120, 4: 176, 8: 240}.items():
    how = {"rate": rates[H], "steps": most, "sorted_share": 1.0, "follow": 4, "timeout": 120}
    run = cluster.run(perceptron.train, local(H), **how)
    needed[H] = perceptron.steps_to(run, chosen.target)
    print(f"H = {H} (λ = {rates[H]}): {needed[H]}")

# %% [markdown] claims="10-rare-best-rate"
# That was one seed. The record has six rates and 13 seeds, for data sorted and alike; each seed is judged at the rates that are best for the other seeds. In the right panel, how much do rare averages cost at the smallest rates? And at the best rates (rings)?

# %%
steps_by_rate = claims.evidence("10-rare-best-rate")
panels = {
    f"data {data}": {f"H = {H}": f"{data}, H = {H}, loss 0.5" for H in intervals}
    for data, intervals in (("sorted", (2, 4, 8)), ("alike", (4,)))
}
over_rates(steps_by_rate, panels)
plt.show()
steps_by_rate.folded()

# %% [markdown]
# With data alike, small rates hide the cost: up to 0.05, $H=4$ needs as many steps as $H=1$, but at the best rates 1.4 times as many (1.2 times to a loss of 0.4). With data sorted, larger intervals need more steps at every rate up to 0.2. At the best rates $H=4$ needs 2.6 times as many as $H=1$. (A run that did not reach the loss counts as 320.)
#
# ### Exercise 3: the best interval
#
# *Difficulty ●●○, 8 minutes.* `needed` maps each $H$ to the steps $n(H)$, or to `None` if the run never reached the loss. Return the $H$ with the least predicted seconds, for `compute` ($T$) and `average` ($A$), in seconds. Leave `needed` as it is.
#
# <details><summary>Hint</summary>
#
# Use `min(..., key=...)` over the intervals that reached the loss.
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
average = {rate: time_model.link_time(chosen.size, 4, b) for rate, b in payload.items()}
right = check.best_period.passed(best_period)
for rate, seconds in average.items():
    best = best_period(needed, chosen.pace, seconds) if right else "?"
    print(f"{rate / 1e6:5.0f} Mbit/s: an average {1e3 * seconds:6.1f} ms; your best H: {best}")

# %% [markdown]
# Is the formula right? We measure the seconds on four simulated hosts, first with links of 100 Mbit/s. Each gradient is made to take 10 ms.


# %%
def on_hosts(link, intervals):
    """Train on four hosts with such links; return by H the seconds and losses along the way."""
    found = {}
    with Cluster(n=4, network=Network(4, rate=link), preload=("torch",)) as hosts:
        for H in (H for H in intervals if needed[H]):
            run = hosts.run(perceptron.train, partial(LocalSGD, period=H), steps=needed[H],
                            rate=rates[H], sorted_share=1.0, pace=chosen.pace, follow=4,
                            timeout=120)  # fmt: skip
            seconds, (steps, losses) = [0, *run[0].history.seconds], perceptron.losses(run)
            found[H] = [seconds[step] for step in steps], losses
            said = needed[H] * (chosen.pace + average[link] / H)
            print(f"{link / 1e6:3.0f} Mbit/s, H = {H}: {seconds[-1]:.2f} s, "
                  f"{1e3 * seconds[-1] / needed[H]:3.0f} ms a step; predicted {said:.2f} s")  # fmt: skip
    return found


# %%
measured, others = {}, Others()
try:
    with others:
        measured[chosen.link] = on_hosts(chosen.link, needed)
except StartError as error:
    print(f"No hosts here ({error}).")
others.say()

# %% [markdown]
# Now links of 10 Mbit/s, with the smallest and the largest $H$ (about ten seconds). On each link, which curve is first at the loss 0.5 (dotted; marks show when)?

# %%
if measured:
    with others:
        measured[10e6] = on_hosts(10e6, (1, 8))
    curves = {
        f"{link / 1e6:.0f} Mbit/s": {f"H = {H}": found[H] for H in found if H in (1, 8)}
        for link, found in measured.items()
    }
    axes = draw.by_time(curves, chosen.target)
    style.doubt(axes[0].figure, others)
    plt.show()

# %% [markdown]
# Below are the formula's seconds and the measured ones. A circle marks the fastest $H$ of each link, by the formula where not every $H$ was measured:

# %%
rows = [
    {"rate": rate, "H": H, "predicted": steps * (chosen.pace + seconds / H),
     "measured": measured.get(rate, {}).get(H, [[None]])[0][-1]}
    for rate, seconds in average.items() for H, steps in needed.items() if steps is not None
]  # fmt: skip
late = max((row["measured"] / row["predicted"] for row in rows if row["measured"]), default=1.0)
if doubtful := others.disturb or late >= 1.6:
    rows = [{**row, "measured": None} for row in rows]
(ax,) = draw.fastest(rows)
if doubtful:
    ax.set_title(f"Runs took up to {late:.1f} times the predicted time: not drawn")
style.doubt(ax.figure, others)
plt.show()
at_link = [row for row in rows if row["rate"] == chosen.link]
fastest = min(at_link, key=lambda row: row["measured"] or row["predicted"])
if doubtful or not measured:
    print("No undisturbed runs here, so the answer is the formula's:")
guess.answer("the fastest H at 100 Mbit/s", fastest["H"])

# %% [markdown]
# At 100 Mbit/s our runs come in the formula's order: $H=1$ is fastest, although an average takes longer than a gradient. At 10 Mbit/s, $H=8$ is faster than $H=1$: it needs four times as many steps, but with $H=1$ a step takes five times as long. (One seed; every run takes longer than predicted, by up to a third.)
#
# Where does it turn? With our run's steps, $H=2$ is faster than $H=1$ only if $60\,(T + A/2) < 36\,(T + A)$, which means $A > 4T = 40$ ms. In the same way, $H=4$ is fastest from 60 ms, and $H=8$ from 95 ms.
#
# **Answer.** They should meet at the interval $H$ that makes $n(H)\,(T + A/H)$ least. On a slow link, this $H$ is larger: with data sorted, $H=1$ won against $H=8$ at 100 Mbit/s and lost at 10 Mbit/s. (With data alike, by the formula and the record's steps, $H=4$ is faster than $H=1$ even at 100 Mbit/s.) *Evidence: the steps counted, the record, and runs measured on both links.*

# %% [markdown] claims="10-early-averages"
# ## Lesson 3. What else can they do when they meet?
#
# *28 minutes.* In local SGD the replicas take the plain mean at a constant interval. What do post-local SGD, DiLoCo and gossip save, and what do they cost? And do rare averages cost more with momentum?
#
# ### A short interval first
#
# **Post-local SGD** (Lin et al., 2020) keeps $H=1$ at first, and takes a larger $H$ later. Do averages help more at first than elsewhere? The record keeps their number and moves them. The plan *early* takes one in each step of the first third, and then every 16 steps. The plan *late* is its reverse, and *even* spreads them evenly. Each has its best rate; the data are sorted. The picture shows 192 steps:

# %%
early = claims.evidence("10-early-averages")
over_rates(early, {f"elsewhere: {way}": {"early": f"{way}, 192 steps"} for way in ("late", "even")})
plt.show()
early

# %% [markdown] claims="10-rare-momentum"
# No. After 96 steps (table), the loss is 0.51 with early averages, and 0.45 with late or even ones. After 192 steps it is 0.40, 0.37 and 0.36. Only at 0.4, beyond the best rates, is early ahead of late. (Lin et al. compare with large batches, in long trainings: there post-local SGD generalizes better. Our runs are too short to test this.)
#
# ### Momentum, and one average at the end
#
# Our schemes average the parameters; with momentum, each replica keeps its own velocity. (Averaging the velocities, too, would double the bytes; we did not try it.) Do rare averages cost more then? Under a constant gradient, momentum makes steps $1/(1-\mu)$ times as large, so the picture compares equal $\lambda/(1-\mu)$. The data are alike. With *one average at the end*, the replicas never meet while they train. The record has the costs at the best rates (rings). In the picture, look at 0.4:

# %%
momentum, once = claims.evidence("10-rare-momentum"), "one average at the end"
panels = {
    f"μ = {mu:g}, 256 steps": {way: f"μ = {mu}, {way}, 256 steps" for way in ("H = 64", once)}
    for mu in (0.0, 0.9)
}
over_rates(momentum, panels, xlabel="λ ÷ (1 − μ)")
plt.show()
momentum.folded()

# %% [markdown]
# Hardly: at the best rates, rare averages cost 1.2 to 2.0 points with momentum, and 0.2 to 1.8 without (in each setting at most 1.1 more). What costs much is large steps: at 0.4, $H=64$ loses 30 points without momentum, and only 5 with it. So momentum costs much only if you add it at the same λ, which makes steps larger.
#
# ### A second optimizer
#
# **DiLoCo** (Douillard et al., 2023) can move the replicas *beyond* their mean. A round of $H$ steps begins at the *anchor* $\theta$ and ends with the mean $\bar\theta$. A second, *outer* optimizer then takes $\Delta = \theta - \bar\theta$ as its gradient: a step against $\Delta$ leads from the anchor towards the mean. This optimizer is SGD with Nesterov's momentum (its own velocity $v$, momentum $\mu$ and rate $\eta$; the replicas' optimizer keeps its own):
#
# $$v \leftarrow \mu v + \Delta, \qquad \theta \leftarrow \theta - \eta\,(\Delta + \mu v).$$
#
# All replicas begin the next round at the new $\theta$. With $\eta=1$ and $\mu=0$ in the outer step, DiLoCo is local SGD.
#
# ### Exercise 4: the outer step
#
# *Difficulty ●●○, 8 minutes.* `anchor` is $\theta$, `mean` is $\bar\theta$, `velocity` is $v$ (three arrays of one shape, which you may overwrite), `rate` is $\eta$ and `momentum` $\mu$. Return the new anchor and the new velocity, as a tuple.
#
# <details><summary>Hint</summary>
#
# Try it by hand with one number: anchor 5, mean 3, $v = 0$, $\eta = 1$. With $\mu = 0$ the new anchor is the mean. With $\mu = 0.5$ it is 2, further than the mean.
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
# ### Only neighbours meet
#
# **Gossip** (Lian et al., 2017) does without an allreduce: after each step a replica mixes only with its two neighbours on a ring,
#
# $$\theta_r \leftarrow \tfrac13\,(\theta_{r-1} + \theta_r + \theta_{r+1}), \qquad\text{in short } \theta \leftarrow W\theta.$$
#
# Each row of the matrix $W$ has three entries $\frac13$. Each replica sends all parameters to two neighbours, in one exchange; a ring allreduce takes $2(R-1)$ exchanges. The replicas never become equal, but each mixing shrinks their differences. How fast? Write the replicas as a sum of eigenvectors of $W$: each mixing multiplies every term by its eigenvalue. The eigenvalue 1 belongs to the mean, which stays. Let $q$ be the largest absolute value of the other eigenvalues. The difference that shrinks most slowly, the *slowest difference*, shrinks by the factor $q$ in each mixing. The [spectral gap](glossary.md#spectral-gap) is $1-q$.
#
# > **Predict.** On a ring of four ranks $q = \frac13$, so five mixings leave less than 1 % of the slowest difference. Roughly how many do 64 ranks need?

# %%
guess["mixings to 1 % on 64 ranks"] = ...

# %%
from helpers.data_parallel.schemes.gossip import mixing, spectral_gap

for n in (4, 8, 16, 64):
    gap = spectral_gap(mixing(n))
    mixings = 1 + int(np.log(0.01) / np.log(1 - gap))
    print(f"{n:2} ranks: gap {gap:.4f}, mixings to 1 %: {mixings}")
guess.answer("mixings to 1 % on 64 ranks", mixings)

# %% [markdown]
# On a ring $q = \frac13\left(1+2\cos\frac{2\pi}{R}\right)$ for $R\ge4$, so the gap of a long ring is about $13/R^2$: twice as many ranks need four times as many mixings.
#
# ### What is saved, and what does it cost?
#
# Each scheme now trains for 96 steps on data sorted by class, and a trace counts what each rank sends. DiLoCo ($\eta=0.7$, $\mu=0.9$) uses your outer step once it is right:


# %%
can_step = check.outer_step.passed(outer_step)


class MyDiLoCo(DiLoCo):
    """DiLoCo by your outer step."""

    def meet(self, replica):
        if not can_step:
            return super().meet(replica)
        values = replica.flat.values
        self.average(values, self.comm)
        given = (part.numpy() for part in (self.anchor, values.clone(), self.velocity))
        step = outer_step(*given, self.rate, self.momentum)
        self.anchor, self.velocity = map(torch.as_tensor, step)
        return values.copy_(self.anchor)


# %%
from helpers.data_parallel.schemes import Ring


def counted(scheme):
    """Return a run, and the messages and bytes that a rank sent in it."""
    from helpers.tracing import gather, record

    with record(comm) as traced:
        run = perceptron.train(scheme, traced, steps=96, sorted_share=1.0)
    trace = gather(traced)
    return trace and (run, len(trace.messages) / size, sum(trace.bytes_sent().values()) / size)


# %%
ways = {
    "synchronous SGD": Ring,
    "local SGD, H = 16": partial(LocalSGD, period=16),
    "post-local: H = 1 for 32 steps, then 16": partial(PostLocalSGD, period=16, switch=32),
    "DiLoCo, H = 16": partial(MyDiLoCo, period=16),
    "gossip": Gossip,
}
trained = {name: cluster.run(counted, way, timeout=120)[0] for name, way in ways.items()}

# %% [markdown]
# The counts predict the time: steps · $T$ + messages · $\alpha$ (60 µs) + bytes · $\beta$. Set the link. How much time does each scheme save against synchronous SGD, and how much higher is its loss?


# %%
import ipywidgets


def on_link(rate):
    alpha, beta = 60e-6, 1 / Network(4, rate=rate).payload
    compute, rows = 96 * chosen.pace, []
    print(f"{'each rank sends':>58s}     MB  time [s]   loss  accuracy")
    for name, (run, messages, sent) in trained.items():
        seconds = compute + messages * alpha + sent * beta
        rows.append({"name": name, "sent": sent, "seconds": seconds, "loss": run.loss})
        print(f"{name:40s}{messages:9.0f} messages{sent / 1e6:7.2f}{seconds:10.2f}"
              f"{run.loss:7.2f}{run.accuracy:10.1%}")  # fmt: skip
    draw.price(rows, compute, rate)
    plt.show()


links = [("10 Mbit/s", 1e7), ("30 Mbit/s", 3e7), ("100 Mbit/s", 1e8), ("1 Gbit/s", 1e9)]
ipywidgets.interactive(on_link, rate=ipywidgets.SelectionSlider(options=links, description="link"))

# %% [markdown]
# Synchronous SGD and gossip send the most and reach the lowest losses. By the counts, they take about eight and ten times as long as local SGD at 10 Mbit/s, but less than a fifth longer at 1 Gbit/s. (One seed, one rate: this is no ranking.)
#
# **Answer.** Post-local SGD lies between synchronous and local SGD in bytes and in loss, but as many averages elsewhere reach as low a loss or a lower one. DiLoCo and local SGD send a sixteenth of synchronous SGD's bytes. DiLoCo's loss is lower than local SGD's at this rate; we searched no best rates. Gossip sends fewer messages than a ring allreduce but more bytes, so by the counts it takes longer on all four links. On a long ring, differences shrink slowly. With data alike, rare averages cost much accuracy with large steps; at the best rates, about 2 points at most. *Evidence: the two records; the table of bytes and losses (one seed); the gaps.*
#
# ## Project: a slow link
#
# *Difficulty ●●●, 25 minutes.* The link has 10 Mbit/s now, so an average of all parameters takes 128 ms. Classes are sorted, and $\lambda = 0.05$. Counting 10 ms for each step and 128 ms for each average, how long do constant intervals take to the loss 0.5? (This rate stays fixed in the project; a larger one, as in lesson 2, may be faster.)

# %%
each, constant = time_model.link_time(chosen.size, 4, Network(4, rate=check.LINK).payload), {}
for H in (4, 6, 8):
    how = {"steps": 240, "sorted_share": 1.0, "follow": 4, "timeout": 120}
    steps = perceptron.steps_to(cluster.run(perceptron.train, local(H), **how), check.TARGET)
    constant[H] = steps * check.PACE + steps // H * each
    print(f"H = {H}: {steps} steps, {constant[H]:.1f} s")

# %% [markdown]
# Write a scheme that takes at most 2 s.
#
# Your function is called on every rank, once before the first step (`made` is 0) and then after each step (`made` steps have been made). `values` is the array of this replica's parameters: change it in place. `state` is a dictionary of your own, empty at first.
#
# The check trains with your function for 200 steps. It counts 10 ms for each step, and for each MPI call the time of its bytes on the link (for an `Allreduce`, the ring's time). Every four steps it tests the replicas' mean, and it stops counting at a loss of 0.5.
#
# <details><summary>Hint</summary>
#
# Two ways lead there: get further in each round, or send fewer bytes. Your `outer_step` gets further: what must `state` keep for it? DiLoCo's $\eta=0.7$, $\mu=0.9$ come close to 2 s at $H=8$; search from there.
#
# </details>


# %% exercise="slow-link"
def my_meeting(values, comm, made, state):
    """Meet or not, after `made` steps; change values in place."""
    from mpi4py import MPI

    # BEGIN SOLUTION
    if made == 0:
        state["anchor"], state["velocity"] = values.copy(), np.zeros_like(values)
    elif made % 10 == 0:
        mean = values.copy()
        comm.Allreduce(MPI.IN_PLACE, mean)
        mean /= comm.Get_size()
        step = outer_step(state["anchor"], mean, state["velocity"], 1.0, 0.7)
        state["anchor"], state["velocity"] = step
        values[:] = state["anchor"]
    # END SOLUTION


# %% check="slow-link" points=5
check.slow_link(my_meeting, cluster=cluster)

# %% [markdown]
# Once your scheme passes, the next cell shows the check's seconds, and measures as many steps on four hosts with links of 10 Mbit/s:

# %%
if check.slow_link.passed(my_meeting, cluster=cluster):
    steps, counted = check.reached["steps"], check.reached["seconds"]
    H = min(constant, key=constant.get)
    print(f"constant H = {H}, λ = 0.05: {constant[H]:.2f} s; yours: {steps} steps, {counted:.2f} s")
    try:
        with Cluster(n=4, network=Network(4, rate=check.LINK), preload=("torch",)) as hosts:
            run = hosts.run(perceptron.train, check.theirs(my_meeting), steps=steps,
                            sorted_share=1.0, pace=chosen.pace, timeout=120)[0]  # fmt: skip
        print(f"measured on four hosts: {run.history.seconds[-1]:.2f} s")
    except StartError as error:
        print(f"No hosts here ({error}).")


# %% [markdown]
# ## What breaks
#
# **Average gradients every 4 steps, and parameters never.** This scheme sends as few bytes as local SGD with $H=4$. But a mean gradient moves all replicas by the same amount, so it never brings them closer, and $\Xi$ goes on growing:

# %%
for name, scheme in (
    ("gradients every 4", partial(SometimesAveraged, gradients=4, **waits)),
    ("parameters every 4", local(4)),
):
    run = cluster.run(perceptron.train, scheme, steps=96, follow=2, timeout=120)
    print(f"{name}: Ξ after 30 steps {apart(run)[15]:.3f}, after 94 steps {apart(run)[47]:.3f}")

# %% [markdown]
# **Ranks that count differently.** Rank 2 does not count an empty batch. So it never counts to 8 and misses the second meeting, where the other ranks wait for it:

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
# Decide by the batch's number, which all ranks share.

# %% [markdown] claims="10-rarer-best-rate 10-threads"
# ## What the sources say, what we measured
#
# The tutorial *Doing Deep Learning in Parallel with PyTorch* fits the curve of our first picture on four processes. It averages *parameters* every 200 epochs, and *gradients* as often as the table says, until the loss is at most 0.05:
#
# | gradients averaged every ... steps | 1 | 2 | 4 | 10 | never |
# |---|--:|--:|--:|--:|--:|
# | thousands of epochs | 4 | 6 | 6 | 7 | 8 |
#
# Do rarer averages need more epochs? Our runs are smaller (1600 points, momentum 0.9, five rates, eight seeds, parameters averaged every 5 epochs), with one linear layer more than the tutorial's. A run that never reached the loss counts as 300 epochs:

# %%
epochs = claims.evidence("10-rarer-best-rate")
curves = {interval: interval for interval in ("every 2", "every 4", "every 10", "never")}
over_rates(epochs, {"gradients averaged": curves})
plt.show()
epochs.folded()

# %% [markdown]
# Our runs show no such order: at 0.02 (all rings), runs that average gradients in every step need 57 epochs in the mean, every 4 steps 103, and never 62. All confidence intervals contain 1: each seed is judged at the other seeds' best rate, and one, at 0.03, never reached the loss with averages in every step. As the tutorial warns, "results vary greatly from run to run".
#
# On a server with 16 virtual cores, the tutorial's 1, 2, 4, 8 processes need 1403, 1748, 3003, 4801 s: more processes take longer. The tutorial names the cause: in *each* process PyTorch uses a thread for every core, and the threads compete. The next cell gives four ranks the same work without messages, first with a thread for every core, then with one:

# %%
for threads in (max(2, usable_cores()), 1):
    cluster.run(curve.crowd, threads, 4, timeout=60)  # threads start once
    took = min(cluster.run(curve.crowd, threads, 16, timeout=60)[0] for _ in range(2))
    print(f"threads in each rank: {threads}; time: {1e3 * took:4.0f} ms")
claims.evidence("10-threads")

# %% [markdown]
# In the records, a thread for every core in each rank takes 11 to 22 times as long. Give each rank one thread: `torch.set_num_threads(1)`, or `OMP_NUM_THREADS=1` before the start.
#
# <details><summary><b>What else the sources say</b></summary>
#
# | the sources say | here |
# |---|---|
# | 1, 2, 4, 8 GPUs: 934, 489, 249, 139 s, a speed-up of 6.74 (the tutorial) | 934/139 is 6.72: $8T/(T + A)$ with $A = 0.19\,T$ |
# | local SGD reaches the same loss with far fewer messages (Stich 2019) | lesson 2: at the best rates, $H=4$ needs more steps, but 12 averages instead of 34 with data alike, 22 instead of 35 with classes sorted |
# | DiLoCo's outer Nesterov helps (Douillard 2023: AdamW, $H=500$, language models) | the project: at λ = 0.05 it shortens the runs; not ranked |
# | gossip needs no allreduce and converges as well (Lian 2017) | lesson 3: its gap falls as $1/R^2$ on a ring; not ranked |
#
# </details>
#
# **In practice**: PyTorch has `torch.distributed.algorithms.model_averaging` and a hook for post-local SGD. OpenDiLoCo and Prime train language models over the internet with DiLoCo. Streaming DiLoCo (2025) sends a part of the parameters at a time, while the replicas go on. Federated learning (FedAvg) is local SGD on data that differ; SCAFFOLD corrects each gradient for that difference.
#
# **References**
#
# - Stich (2019), *Local SGD converges fast and communicates little*.
# - Lin, Stich, Patel, Jaggi (2020), *Don't use large mini-batches, use local SGD*: post-local SGD.
# - Lian et al. (2017), *Can decentralized algorithms outperform centralized algorithms?*: gossip.
# - Douillard et al. (2023), *DiLoCo: distributed low-communication training of language models*.
# - McMahan et al. (2017), *Communication-efficient learning of deep networks from decentralized data*: FedAvg.
# - Karimireddy et al. (2020), *SCAFFOLD*: why data that differ make replicas drift, and a cure.
#
# **Next**: [12 Talk less: fewer bits, fewer waits, fewer steps](12_large_batches_and_compression.ipynb) sends fewer bytes instead of fewer messages, and asks how large a batch may become.

# %%
cluster.stop()
