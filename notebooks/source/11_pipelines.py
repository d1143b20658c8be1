# %% [markdown]
# # Keep every rank busy: a model as a pipeline
#
# Here you cut a model into stages on real ranks, send micro-batches through them by five schedules, and write a schedule of your own that keeps the ranks busier than the textbook ones do.
#
# Below, four ranks train a small transformer, a quarter of it on each, on one batch in eight pieces. They do so in two orders. Both pictures are recorded.

# %%
import inspect
from dataclasses import dataclass

import matplotlib.pyplot as plt
from IPython.display import Code, Markdown, display

from helpers import claims
from helpers.cluster import Cluster
from helpers.exercises import pipeline as check_answer
from helpers.exercises.predictions import Predictions
from helpers.pipeline import Costs, Schedule, ScheduleError, check, families, runs, simulate
from helpers.pipeline import model as formulas
from helpers.plots import pipeline as draw
from helpers.plots import style
from helpers.plots.pipeline_html import pipelines

# %load_ext helpers.cluster
style.use()


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    micro: int = 8  # micro-batches of a step
    part: float = 20e-3  # seconds: a forward pass of a stage, and each half of its backward pass


P = Parameters()
PACE = Costs(P.part, P.part, P.part)
guess = Predictions()
cluster = Cluster(n=P.ranks, preload=("torch",))


# %%
LIMIT = 120  # seconds for a call on the ranks: a machine may be busy with other things


def recorded(schedule, repeats=2):
    """Run a step on the ranks, at their pace, and return when each did what."""
    thin = P.part / schedule.chunks
    return cluster.run(
        runs.record, schedule, Costs(thin, thin, thin), repeats=repeats, timeout=LIMIT
    )[0]


# %%
gpipe, one = families.gpipe(P.ranks, P.micro), families.one_f_one_b(P.ranks, P.micro)
lines = {schedule.name: recorded(schedule) for schedule in (gpipe, one)}
for line in lines.values():
    draw.lanes(line)
    plt.show()

# %% [markdown]
# Each row is a rank, and each box is a pass of the micro-batch whose number it bears. Gaps are idle time. *Paced* means that each rank does its real arithmetic and then sleeps until its stated time has passed, since your machine may have fewer cores than ranks. Messages, waiting and order are real.
#
# **You will be able to**
#
# - cut a model over ranks, and say what each sends to whom;
# - read and write a [schedule](glossary.md#schedule-of-a-pipeline), and find out before it runs whether it ends;
# - predict the idle share and the memory of a schedule from two numbers;
# - cut unequal layers so that no stage delays the others;
# - say what stale weights are, and what goes wrong without stashing.
#
# **You need** ranks and messages from [01_mpi_basics](01_mpi_basics.ipynb), and gradients by the chain rule. *Time:* 90 minutes, of which the machine works for less than two; the project takes another 30. *Cores:* two are enough. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | unit |
# |---|---|---|
# | $p$, $r$ | number of [ranks](glossary.md#rank), one of them (from 0) | |
# | $m$ | [micro-batches](glossary.md#micro-batch): pieces of a batch that go through one after another | |
# | $v$ | chunks of the model on each rank; 1 unless said | |
# | stage | consecutive layers; with $v = 1$, rank $r$ has stage $r$ | |
# | $f$ | time of a forward pass of one micro-batch through a stage | s |
# | $i$, $w$ | times of the two halves of its backward pass: gradient of the inputs, of the weights | s |
# | F3, B3 | forward, backward pass of micro-batch 3; I3 and W3 are B3's halves | |
# | idle share | the share of all ranks' time, from the first box to the last, in which they do nothing: the [bubble](glossary.md#bubble) | |

# %% [markdown]
# ## A question to begin with
#
# A model is cut into four stages of equal cost on four ranks. A backward pass takes twice as long as a forward pass. The titles above give the idle share with eight micro-batches, in the order called GPipe and in the order called 1F1B (one forward, one backward).
#
# > **Predict:** what is the idle share, from 0 to 1, if the batch goes through in one piece? With 16 micro-batches? Both orders are equally idle, so what is 1F1B good for: less "time", "memory" or "messages"? Type your answers in place of the dots.

# %%
guess["idle share, one piece"] = ...
guess["idle share, 16 micro-batches"] = ...
guess["1F1B is good for less"] = ...

# %% [markdown]
# ## Two layers on two ranks, four numbers
#
# The model is $y = w_2\,(w_1 x)$ with $w_1 = 3$, $w_2 = 2$. The loss is $\frac12 (y - t)^2$; the data are $x = 0.5$, $t = 4$. Rank 0 has $w_1$ and $x$, rank 1 has $w_2$ and $t$. What must travel? Forward travels the *activation* $h = w_1 x$, backward its *gradient* $\partial L/\partial h$. The weights never travel.

# %%
# %%ranks --trace by_hand
if rank == 0:
    w1, x = 3.0, 0.5
    h = w1 * x
    comm.send(h, dest=1)
    dh = comm.recv(source=1)
    print(f"sent h = {h}, got dL/dh = {dh}: dL/dw1 = {dh * x}")
if rank == 1:
    w2, t = 2.0, 4.0
    h = comm.recv(source=0)
    dy = w2 * h - t
    comm.send(dy * w2, dest=0)
    print(f"got h = {h}: loss {dy**2 / 2}, dL/dw2 = {dy * h}")

# %% [markdown]
# The same in one process, differentiated by PyTorch:

# %%
import torch

w1, w2 = (torch.tensor(value, requires_grad=True) for value in (3.0, 2.0))
(0.5 * (w2 * (w1 * 0.5) - 4.0) ** 2).backward()
print(f"dL/dw1 = {w1.grad.item()}, dL/dw2 = {w2.grad.item()}")

# %% [markdown]
# This is [model-parallel](glossary.md#model-parallel) training: each rank has a part of the model and sees all data. In [data-parallel](glossary.md#data-parallel) training each rank has the whole model and a part of the data. What travels differs too. The table takes one transformer block, $C$ numbers wide, and a batch of $n$ tokens, in float32. Data-parallel ranks send the gradient of $12C^2 + 13C$ weights. Pipeline ranks send an activation of $nC$ numbers, and its gradient.

# %%
rows = [
    "| width C | tokens n | data-parallel: gradient, MB | pipeline: both ways, MB |",
    "|--:|--:|--:|--:|",
]
for C, n in ((128, 1_024), (768, 8_192), (768, 65_536), (4_096, 8_192)):
    gradient, activations = 4 * (12 * C**2 + 13 * C), 2 * 4 * n * C
    rows.append(f"| {C} | {n:,} | {gradient / 1e6:.3g} | {activations / 1e6:.3g} |")
Markdown("\n".join(rows))

# %% [markdown]
# Gradients grow with the model; activations grow with the batch. Neither is always less. (A ring allreduce sends the gradient up to twice, so weigh that column accordingly.) A pipeline also holds what one rank alone could not: each rank has only $1/p$ of the weights.
#
# In the exchange by hand, one rank always waited for the other, so two ranks did the work of one. With $p$ stages of equal cost, one works and $p - 1$ wait.
#
# ## Micro-batches
#
# **Idea.** Cut the batch into $m$ pieces. While rank 1 works on piece 0, rank 0 begins piece 1. The gradient of the mean loss is the mean of the pieces' gradients. So each rank adds up its pieces' gradients and updates its weights once, at the end. The result is that of one process.
#
# **Cost.** The last stage cannot begin before $p - 1$ forward passes, and when it has finished, $p - 1$ backward passes remain. Each way takes $m + p - 1$ passes, and every rank works during $m$ of them:
#
# $$\text{idle share} = 1 - \frac{m}{m + p - 1} = \frac{p - 1}{m + p - 1}$$
#
# ### Exercise 1: how many pieces?
#
# *Difficulty ●○○, 4 minutes.* Write the idle share as a function. Then use it: how many micro-batches do four ranks need to be idle for less than a tenth of the time?
#
# <details><summary>Hint</summary>
#
# It is the fraction above. Mind the brackets.
#
# </details>


# %% exercise="idle-share"
def idle_share(p, m):
    """Return the share of the time, from 0 to 1, in which p ranks are idle with m micro-batches."""
    # BEGIN SOLUTION
    return (p - 1) / (m + p - 1)
    # END SOLUTION


# %% check="idle-share" points=1
check_answer.idle_share(idle_share)

# %% [markdown]
# Recorded on four ranks and on two, for 1 to 16 micro-batches; the dashed lines are the formula:

# %%
MICRO = (1, 2, 4, 8, 16)
measured = {f"{p} ranks": [recorded(families.gpipe(p, m), 1).bubble for m in MICRO] for p in (4, 2)}
predicted = {f"{p} ranks": [formulas.bubble("GPipe", p, m) for m in MICRO] for p in (4, 2)}
draw.bubbles(predicted, measured, MICRO)
plt.show()
guess.answer("idle share, one piece", round(measured["4 ranks"][0], 2))
guess.answer("idle share, 16 micro-batches", round(measured["4 ranks"][4], 2))
if check_answer.idle_share.passed(idle_share):
    print("less than a tenth from m =", next(m for m in range(1, 99) if idle_share(4, m) < 0.1))

# %% [markdown] claims="11-bubble"
# More pieces, less idle time. The price: each piece is smaller, and matrix products of few rows are slower per row on most machines. (Paced stages hide that; see [07_roofline](07_roofline.ipynb).) Over several runs, recorded shares and the formula agree within the claim's margin:

# %%
claims.evidence("11-bubble")

# %% [markdown]
# ## A schedule is data
#
# A schedule is a list of actions for each rank. Here are the lists of GPipe (all forward, then all backward) and of 1F1B, for three ranks:

# %%
print(families.gpipe(3, 4), families.one_f_one_b(3, 4), sep="\n\n")

# %%
Code(inspect.getsource(families._one_by_one), language="python")

# %% [markdown]
# One loop executes any schedule; this is its heart. `take` waits for what the action needs from another rank. `give` sends the result on and does not wait.

# %%
from helpers.pipeline.runner import Pipeline

Code(inspect.getsource(Pipeline.step), language="python")

# %% [markdown]
# A list can be wrong. Before anything is sent, `check` looks for work that is missing or done twice, and follows who waits for whom:

# %%
for wrong in (["F0 F1 B0", "F0 B0 F1 B1"], ["F0 B0 F1 B1", "F0 F1 B0 B1"]):
    try:
        check(Schedule.written("mine", wrong))
    except ScheduleError as error:
        print(error)

# %% [markdown]
# In the second schedule, rank 0 waits for the gradient of micro-batch 0 before it sends micro-batch 1, and rank 1 waits for micro-batch 1 first. A schedule that passes gives the result of one process. This is the largest difference of any loss or gradient, in float64, on your ranks:

# %%
for name in ("GPipe", "1F1B", "interleaved", "zero-bubble"):
    worst = cluster.run(runs.difference, families.FAMILIES[name](P.ranks, P.micro), timeout=LIMIT)
    print(f"{name:12} {max(worst):.1e}")

# %% [markdown]
# (*Interleaved* and *zero-bubble* come below.)
#
# ### Exercise 2: one forward, one backward
#
# *Difficulty ●●○, 15 minutes.* Write the list of one rank under 1F1B, as strings such as `"F0"` and `"B3"`. A rank sends ahead one micro-batch for each rank after it. Then it alternates, one forward and one backward pass. When no forward pass is left, backward passes remain. The check wants no more idle time than GPipe's, and no more micro-batches kept than 1F1B needs.
#
# <details><summary>Hint</summary>
#
# How many forward passes does rank $r$ do before its first backward pass? The last rank does one. Look at the list for three ranks above. With few micro-batches there may not be that many.
#
# </details>


# %% exercise="one-by-one"
def my_order(rank, p, m):
    """Return the actions of `rank` of p under 1F1B with m micro-batches: a list of strings."""
    # BEGIN SOLUTION
    warm = min(p - 1 - rank, m)
    order = [f"F{i}" for i in range(warm)]
    for i in range(m):
        if warm + i < m:
            order.append(f"F{warm + i}")
        order.append(f"B{i}")
    return order
    # END SOLUTION


# %% check="one-by-one" points=3
check_answer.one_by_one(my_order)

# %% [markdown]
# Your order on the ranks (or the course's, until yours is right):

# %%
yours = one
if check_answer.one_by_one.passed(my_order):
    orders = [my_order(rank, P.ranks, P.micro) for rank in range(P.ranks)]
    yours = Schedule.written("your 1F1B", orders)
line = recorded(yours)
draw.lanes(line)
plt.show()

# %% [markdown]
# ## What is kept
#
# A micro-batch that went forward keeps its activations until it goes backward. GPipe keeps all $m$. Under 1F1B a rank sends ahead only a few, and from then on each forward pass is followed by a backward pass that frees one.
#
# > **Predict:** of 8 micro-batches, how many does rank 0 keep at most under 1F1B on four ranks?

# %%
guess["kept by rank 0 of 4, 1F1B"] = ...

# %%
draw.held(list(lines.values()))
plt.show()
guess.answer("kept by rank 0 of 4, 1F1B", lines["1F1B"].most_held(0))
guess.answer("1F1B is good for less", "memory")

# %% [markdown]
# Rank $r$ keeps at most $p - r$, however many micro-batches there are: that is what the order is for. In bytes: autograd reports every tensor that it saves for the backward pass (`torch.autograd.graph.saved_tensors_hooks`), and `helpers/pipeline/memory.py` adds them up while they live, without the weights. **[Recomputation](glossary.md#recomputation)** keeps only the input of each stage, and repeats the forward pass before the backward pass. Its prediction needs one more number, the bytes of an input.

# %%
config, micro, rows = runs.SMALL, 16, []
x_bytes = 4 * runs.SIZE * config.context * config.width
for name, again in (("GPipe", False), ("1F1B", False), ("GPipe", True), ("1F1B", True)):
    counted = cluster.run(
        runs.bytes_kept, families.FAMILIES[name](P.ranks, micro), again, timeout=LIMIT
    )
    for rank in (1, 2):
        most, single = counted[rank]
        n = formulas.kept(name, P.ranks, micro, rank)
        predicted = (n - 1) * x_bytes + single if again else n * single
        label = f"{name}, recomputed" if again else name
        rows.append(
            f"| {label} | {rank} | {n} | {predicted:,} | {most:,} | {most / predicted:.2f} |"
        )
head = "| schedule | rank | micro-batches kept | predicted (B) | counted (B) | ratio |\n|---|--:|--:|--:|--:|--:|\n"
Markdown(head + "\n".join(rows))

# %% [markdown]
# Recomputation costs another forward pass for each micro-batch: with $i + w = 2f$, four thirds of the time. (The paced runs here do not recompute.)
#
# ### Exercise 3: kept at most
#
# *Difficulty ●○○, 4 minutes.* Write the number of micro-batches that rank $r$ keeps at most under 1F1B, for any $p$ and $m$.
#
# <details><summary>Hint</summary>
#
# How many forward passes has it done just before its first backward pass? And if there are fewer micro-batches than that?
#
# </details>


# %% exercise="kept"
def kept_at_most(rank, p, m):
    """Return how many micro-batches `rank` of p keeps at most, of m, under 1F1B."""
    # BEGIN SOLUTION
    return min(m, p - rank)
    # END SOLUTION


# %% check="kept" points=1
check_answer.kept_at_most(kept_at_most)

# %% [markdown]
# ## Smaller bubbles: interleaved, and the backward pass in two parts
#
# **Interleaved.** Give each rank $v$ chunks of the model instead of one: with $p = 4$ and $v = 2$, rank 0 has stages 0 and 4. A pass through a chunk takes $1/v$ of the time, and so filling and emptying take $1/v$ of the time. The price: an activation now goes round $v$ times.
#
# $$\text{idle share} = \frac{p - 1}{v\,m + p - 1}$$
#
# **Zero-bubble.** The backward pass of $y = xA^\top$ is two products: $g A$, the gradient of the input, for which the rank before waits; and $g^\top x$, the gradient of the weights, for which nobody waits. Do the first at once (I), and put the second (W) into time that would be idle. For $m \ge p$, with $d = \max(f + i - w,\ f,\ i)$, what remains is
#
# $$\text{idle share} = \frac{(p-1)\,d}{m(f+i+w) + (p-1)\,d}$$
#
# W can fill the wait for a gradient, but never the wait for the first F or for the last I. So a very long W does not help further.

# %%
from helpers.pipeline import splitting

Code(
    inspect.getsource(splitting.Later.work)
    + "\n\n"
    + inspect.getsource(splitting._PutOff.backward),
    language="python",
)

# %%
for name in ("interleaved", "zero-bubble"):
    lines[name] = recorded(families.FAMILIES[name](P.ranks, P.micro))
    draw.lanes(lines[name])
    plt.show()

# %% [markdown] claims="11-interleaved 11-zero-bubble"
# By the formulas, four ranks with eight micro-batches are idle for 16 % of the time interleaved, and for 11 % with the backward pass in two parts, against 27 %. Are their steps shorter on ranks too? Yes, though both have more actions, each with a message or a wait of its own:

# %%
display(claims.evidence("11-interleaved"), claims.evidence("11-zero-bubble"))

# %% [markdown]
# Now all of them to play with. Green: recorded on your ranks. Grey: simulated, with equal stages and free messages. On the right is what each rank keeps. Set *room for* to the number of micro-batches that fit in memory; ranks that need more are marked.

# %%
shown = list(lines.values())
for name, make in families.FAMILIES.items():
    if name != "PipeDream":
        shown += [recorded(make(p, 4), 1) for p in (2, 4)]
        shown += [simulate(make(p, m)) if name != "interleaved" else simulate(make(p, m), Costs(0.5, 0.5, 0.5))
                  for p in (2, 4, 8) for m in (4, 8, 16) if m >= p]  # fmt: skip
pipelines(shown)

# %% [markdown]
# ## Layers that are not alike
#
# In the long run a pipeline is as fast as its dearest stage. If layers differ in cost, equal *numbers* of layers are not equal costs. The best cut is found from left to right. Let $\text{best}(k, n)$ be the cost of the dearest stage when the first $n$ layers are cut into $k$ stages. The last of these stages begins at some layer $c$:
#
# $$\text{best}(k, n) = \min_c \max\big(\text{best}(k-1, c),\ \text{cost of layers } c \dots n-1\big)$$

# %%
from helpers.pipeline import partition

costs = [1, 1, 1, 1, 2, 2, 4, 4]  # of eight layers
for name, cut in (
    ("equal numbers", partition.equal(8, 4)),
    ("balanced", partition.balanced(costs, 4)),
):
    sums = [sum(costs[layer] for layer in stage) for stage in cut]
    forward, half = ([P.part * s / 4 for s in sums] for _ in range(2))
    schedule = Schedule(name, one.orders, P.micro)
    line = cluster.run(runs.record, schedule, Costs(forward, half, half), timeout=LIMIT)[0]
    print(f"{name}: stages cost {sums}, a step takes {1e3 * line.span:.0f} ms")
    draw.lanes(line)
    plt.show()

# %% [markdown]
# ### Exercise 4: balance
#
# *Difficulty ●●○, 12 minutes.* Return how many layers each of $p$ stages gets, so that the dearest stage is as cheap as possible. You may try all cuts: there are few.
#
# <details><summary>Hint</summary>
#
# `itertools.combinations(range(1, n), p - 1)` gives all places where $n$ layers can be cut into $p$ stages. `min(..., key=...)` finds the best.
#
# </details>


# %% exercise="balance"
def balance(costs, p):
    """Return a list of p numbers of layers, one or more each, that add up to len(costs)."""
    # BEGIN SOLUTION
    import itertools

    n = len(costs)

    def dearest(cut):
        return max(sum(costs[a:b]) for a, b in itertools.pairwise((0, *cut, n)))

    best = min(itertools.combinations(range(1, n), p - 1), key=dearest)
    return [b - a for a, b in itertools.pairwise((0, *best, n))]
    # END SOLUTION


# %% check="balance" points=2
check_answer.balance(balance)

# %% [markdown]
# ## Never empty: PipeDream
#
# The bubble comes from emptying the pipeline at every update. PipeDream never empties it: each "micro-batch" is a batch of its own, and a rank updates its weights (U) after each backward pass, while other batches are under way. The pipeline is filled once in the whole training.

# %%
schedule = families.pipedream(P.ranks, 8)
pace = Costs(P.part, P.part, P.part, update=P.part / 4)
line = cluster.run(runs.record, schedule, pace, timeout=LIMIT)[0]
draw.lanes(line)
plt.show()
print(f"idle, recorded: {line.bubble:.1%}; by the formula below, of m batches:", end="")
for m in (8, 80, 800):
    print(f"  m = {m}: {formulas.bubble('PipeDream', P.ranks, m, costs=pace):.1%}", end="")

# %% [markdown]
# With $u$ for an update, filling and emptying still cost each rank $(p - 1)(f + i + w)$, but only once in $m$ *batches*:
#
# $$\text{idle share} = \frac{(p-1)(f+i+w)}{(p-1)(f+i+w) + m\,(f+i+w+u)}$$
#
# The price: on rank 0, three updates happen between a batch's forward pass and the return of its gradient. The gradient is **[stale](glossary.md#staleness)**: it belongs to weights that are three updates old. And which weights should its backward pass use? With **[weight stashing](glossary.md#weight-stashing)** a rank keeps, for each batch under way, the weights of its forward pass. Counted on the ranks:

# %%
from helpers.pipeline import following

stashed = cluster.run(
    following.follow_updates,
    families.pipedream(P.ranks, 8),
    True,
    newest=P.ranks + 1,
    timeout=LIMIT,
)[0]
for rank, missed in enumerate(stashed["staleness"]):
    versions = stashed["versions"][rank]
    print(
        f"rank {rank}: updates missed by batches 0 to 7: {list(missed.values())}; {versions} versions kept"
    )

# %% [markdown]
# ### Exercise 5: how stale?
#
# *Difficulty ●○○, 3 minutes.* Once the pipeline is full, how many updates does a gradient miss on rank $r$ of $p$?
#
# <details><summary>Hint</summary>
#
# How many other batches go forward on this rank between F and B of the same batch? On the last rank there are none.
#
# </details>


# %% exercise="staleness"
def updates_missed(rank, p):
    """Return how many updates rank `rank` of p makes between F and B of the same batch."""
    # BEGIN SOLUTION
    return p - 1 - rank
    # END SOLUTION


# %% check="staleness" points=1
check_answer.staleness(updates_missed)

# %% [markdown]
# ## Cost: predicted and recorded

# %%
head = "| schedule | idle, predicted | idle, recorded | step, predicted (ms) | recorded (ms) | ratio | kept by rank 0, predicted | counted |\n"
rows = [head + "|---|" + "--:|" * 7]
for name, line in lines.items():
    v = line.schedule.chunks
    said = formulas.bubble(name, P.ranks, P.micro, v)
    step = 3e3 * P.part * P.micro / (1 - said)
    room = formulas.kept(name, P.ranks, P.micro, 0, v) / v
    rows.append(
        f"| {name} | {said:.1%} | {line.bubble:.1%} | {step:.0f} | {1e3 * line.span:.0f} | "
        f"{1e3 * line.span / step:.2f} | {room:g} | {line.most_held(0) / v:g} |"
    )
Markdown("\n".join(rows))

# %% [markdown]
# The model leaves out messages, Python, and ranks that wake up late because others have the cores. Compare the ratios of the schedules with more actions (interleaved, zero-bubble) with the others'.
#
# The model can also give a message a price. Here each message takes no time, a quarter of a forward pass, and a whole one:

# %%
print("step, in forward passes" + "".join(f"{price:>8g}" for price in (0, 0.25, 1)))
for name in ("GPipe", "1F1B", "interleaved", "zero-bubble"):
    plan = families.FAMILIES[name](P.ranks, P.micro)
    part = 1 / plan.chunks
    spans = [simulate(plan, Costs(part, part, part, message)).span for message in (0, 0.25, 1)]
    print(f"{name:23}" + "".join(f"{span:8.1f}" for span in spans))

# %% [markdown]
# GPipe waits for messages only while it fills and empties. The other orders alternate forward and backward passes, and wait for messages in between. With free messages 1F1B takes as long as GPipe; with dear ones it takes longer, and interleaving, which sends more messages, loses its lead.
#
# ### Project: a schedule of your own
#
# *Difficulty ●●●, 30 minutes.* Write a schedule for the same work whose idle share is below that of 1F1B with every "B" cut into "I" and "W" (20 % for 4 ranks and 8 micro-batches). You may use halves ("I0", "W0") in place of "B0", and chunks ("F0.1" is the pass through a rank's second chunk; with two chunks, each costs half as much). The check asks your function for 4 ranks and 8 micro-batches, for 2 and 4, and for 3 and 6. It says what is wrong, predicts the idle share with $f = i = w$, and compares your gradients, on the ranks, with those of one process.
#
# <details><summary>Hint</summary>
#
# Begin with your 1F1B of Exercise 2, and replace every "B" by an "I" and a "W". On the last rank this changes nothing. On the first rank nobody waits for the W's. On the other ranks: which W could wait until a moment at which the rank would be idle? `simulate(Schedule.written("mine", orders))` and `draw.lanes` show you where.
#
# </details>


# %% exercise="own-schedule"
def my_schedule(p, m):
    """Return a list of actions for each of p ranks, m micro-batches."""
    # BEGIN SOLUTION
    orders = []
    for rank in range(p):
        order, put_off = [], []
        for action in my_order(rank, p, m):
            if action[0] == "F":
                order.append(action)
                continue
            order.append("I" + action[1:])
            put_off.append("W" + action[1:])
            if len(put_off) > rank:
                order.append(put_off.pop(0))
        orders.append(order + put_off)
    return orders
    # END SOLUTION


# %% check="own-schedule" points=5
check_answer.own_schedule(my_schedule, cluster=cluster)

# %%
if check_answer.own_schedule.passed(my_schedule, cluster=cluster):
    orders = my_schedule(P.ranks, P.micro)
    own = Schedule.written("your schedule", orders, 2 if "." in str(orders) else 1)
    draw.lanes(recorded(own))
    plt.show()

# %% [markdown]
# ## What breaks
#
# **Sends that wait.** The runner's sends do not wait (`Isend`). With blocking sends of long messages 1F1B deadlocks although every list is complete: rank 0 sends F1 while rank 1 sends the gradient of B0, and neither receives. `check` finds it:

# %%
try:
    check(families.one_f_one_b(2, 2), blocking=True)
except ScheduleError as error:
    print(error)

# %% [markdown]
# The same on ranks, with `ssend`, which returns only once the other side receives. The cell ends after 3 seconds, with the table of who waits for whom:

# %% tags=["raises-exception"]
# %%ranks --timeout 3
if rank == 0:
    comm.ssend("F0", dest=1)
    comm.ssend("F1", dest=1)
    comm.recv(source=1)
elif rank == 1:
    comm.recv(source=0)
    comm.ssend("gradient of B0", dest=0)
    comm.recv(source=0)

# %% [markdown]
# GPipe has no such pair: all its forward messages go right, and then all its gradients go left. So the mistake shows only on the day when somebody changes the schedule.
#
# **The wrong micro-batch.** Our messages carry the number of their micro-batch as a [tag](glossary.md#tag). Without it, a rank takes whatever comes first. Here rank 1 wants micro-batch 1 first. `check` accepts this list, but without tags rank 1 receives micro-batch 0. Nothing fails, and the loss is wrong:

# %%
# %%ranks
xs, targets = [1.0, 5.0], [1.0, 5.0]  # right: every loss is 0
for use_tags in (True, False):
    if rank == 0:
        for micro in (0, 1):
            comm.send(xs[micro], dest=1, tag=micro if use_tags else 0)
    if rank == 1:
        loss = 0.0
        for micro in (1, 0):
            y = comm.recv(source=0, tag=micro if use_tags else 0)
            loss += (y - targets[micro]) ** 2 / 2
        print(f"tags {use_tags}: loss {loss}")

# %% [markdown]
# **No stashing.** Without it, the backward pass of PipeDream multiplies today's weights with yesterday's activations. Is the result the gradient of any model? The ranks keep the $p+1$ newest versions of every stage's weights. One version for each stage gives $(p+1)^p$ models. The last batch's gradient is compared with the gradient of *each* of them:

# %%
for stash in (True, False):
    plan = families.pipedream(P.ranks, 8)
    found = cluster.run(following.follow_updates, plan, stash, newest=P.ranks + 1, timeout=LIMIT)[0]
    print(
        f"stashing {stash}: the nearest model's gradient is {found['nearest']:.1e} away, relatively"
    )

# %% [markdown]
# With stashing the distance is zero. Each stage used weights of a different age, but forward and backward pass used the same ones, so the result is the gradient of *a* model. Without stashing, from three ranks on, it is the gradient of none of them. (With two ranks it still is: the first stage sends no gradient on, so it never reads today's weights.)
#
# ## What the sources say, what we measured
#
# | the sources say | here |
# |---|---|
# | layers on two devices; by itself this gives no parallelism: one is idle while the other works | *Two layers on two ranks*: the same gradients as one process; with one piece, four ranks are idle for the share in *Micro-batches* |
# | one can pipeline batches through the model: as soon as batch 0 clears the first device, push batch 1 | *Micro-batches*: the idle share falls as the formula says; results equal one process to 1e-12 |
# | accumulate the set of batches at the end | every micro-batch's loss is divided by $m$, gradients add up; compared in *A schedule is data* |
# | back-propagation pushes back up the pipeline; after a start-up there is work for every slot | *Never empty*: yes, and the price is staleness, $p - 1 - r$ updates on rank $r$, counted |
# | care must be taken that the model is consistent | *What breaks*: from three ranks on, without stashing the gradient belongs to no model; with it, to one |
# | data against model parallelism | *Two layers*: bytes of a gradient against bytes of activations, for four sizes |
# | (ours, E2) schedules, bubble, memory | GPipe, 1F1B, interleaved, zero-bubble, PipeDream: each run, each beside its formula |
#
# ## Summary
#
# - A pipeline's ranks send activations forward and gradients backward, never weights.
# - The idle share is $(p-1)/(m+p-1)$ for GPipe and for 1F1B. Chunks divide it; a split backward pass fills it.
# - The order decides memory (GPipe keeps $m$ micro-batches, 1F1B at most $p - r$), and how often a rank waits for a message. Recomputation keeps inputs only.
# - A schedule is a list that can be checked before it runs: nothing is missing, and nobody waits in a circle.
# - Updating without emptying makes gradients stale; without stashing it makes them wrong.
#
# **In practice**: `torch.distributed.pipelining` (GPipe, 1F1B, interleaved, zero-bubble), Megatron-LM, DeepSpeed.
#
# **References**
# - Huang et al. (2019), *GPipe*: micro-batches, recomputation.
# - Narayanan et al. (2019), *PipeDream*: 1F1B, weight stashing, the cut by dynamic programming.
# - Narayanan et al. (2021), *Efficient large-scale language model training on GPU clusters using Megatron-LM*: 1F1B with a flush, interleaved.
# - Qi et al. (2024), *Zero bubble pipeline parallelism*: the backward pass in two parts, ZB-H1.
#
# **Next**: [13_sharding](13_sharding.ipynb) cuts the same model inside its layers, and then in all ways together.

# %%
cluster.stop()
