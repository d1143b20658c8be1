# %% [markdown]
# # Keep every rank busy: a model as a pipeline
#
# At the end you will have cut a model over real ranks, sent pieces of a batch through it in five orders (*schedules*), and written a schedule of your own for ranks that are far apart.
#
# Below, four ranks train a small transformer, each with a quarter of it. The batch is cut into eight pieces, which the ranks process in two orders: GPipe does all forward passes, then all backward passes; 1F1B (one forward, one backward) alternates. Look at the gaps, where ranks wait.

# %%
import inspect
import textwrap
from dataclasses import dataclass

import matplotlib.pyplot as plt
from IPython.display import Code, Markdown, display
from ipywidgets import SelectionSlider, interact

from helpers import claims
from helpers.cluster import Cluster
from helpers.exercises import pipeline as check_answer
from helpers.exercises.predictions import Predictions
from helpers.pipeline import Costs, Schedule, ScheduleError, check, families, runs, simulate
from helpers.pipeline import model as formulas
from helpers.plots import pipeline as draw
from helpers.plots import style
from helpers.plots.pipeline import pipelines
from helpers.timing import Others

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
FOUR = {name: make for name, make in families.FAMILIES.items() if name != "PipeDream"}


def recorded(schedule, repeats=2):
    """Run a step on the ranks, at their pace, and return when each did what."""
    thin = P.part / schedule.chunks
    return cluster.run(
        runs.record, schedule, Costs(thin, thin, thin), repeats=repeats, timeout=LIMIT
    )[0]


# %%
gpipe, one = families.gpipe(P.ranks, P.micro), families.one_f_one_b(P.ranks, P.micro)
with Others() as others:
    lines = {schedule.name: recorded(schedule) for schedule in (gpipe, one)}
ax = draw.lanes(*lines.values(), label="What each rank does when, in two orders of the same work")
style.doubt(ax.figure, others)
plt.show()

# %% [markdown]
# Each row is a rank. Each box is a forward or backward pass of one piece (a *micro-batch*), with its number if it fits. Your machine may have fewer cores than ranks, so stages are *paced*: a rank does its real arithmetic, then sleeps until the stated time has passed. If a title says *3 of 64 took longer*, the arithmetic of 3 boxes exceeded that time. Messages, waiting and order are real.
#
# **You will be able to**
#
# - cut a model over ranks, and say what each rank sends to whom;
# - read and write a [schedule](glossary.md#schedule-of-a-pipeline), and find out before it runs whether it can end;
# - predict the idle share and the memory of a schedule;
# - say what the slowest stage costs;
# - design a schedule for slow links and little memory.
#
# **You need** ranks and messages from notebook [01](01_mpi_basics.ipynb), and gradients by the chain rule. *Time:* 150 minutes: 5 for this opening, 52 and 83 for two lessons, exercises included, and 10 for *What breaks*. Each lesson runs after the cells above, without the other. *Cores:* two are enough. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | unit |
# |---|---|---|
# | $p$, $r$ | number of [ranks](glossary.md#rank); one of them (from 0) | |
# | $m$ | [micro-batches](glossary.md#micro-batch): the pieces of a batch, which go through one after another | |
# | $v$ | chunks of the model on each rank; 1 unless stated | |
# | stage | consecutive layers; with $v = 1$, rank $r$ has stage $r$ | |
# | $f$ | time of a forward pass of one micro-batch through a stage | s |
# | $i$, $w$ | times of the two halves of its backward pass: gradient of the inputs, of the weights | s |
# | F3, B3 | forward and backward pass of micro-batch 3; I3 and W3 are the halves of B3 | |
# | idle share | share of all ranks' time, from the first box to the last, in which they do nothing: the [bubble](glossary.md#bubble) | |

# %% [markdown]
# ## Lesson 1. How can four ranks work at once on one model?
#
# *52 minutes.* Layer 2 needs the output of layer 1. If each rank holds a quarter of the layers, must three ranks always wait for the fourth?
#
# The titles in the picture above give the idle share with eight micro-batches under both orders.
#
# > **Predict.** What is the idle share, from 0 to 1, if the batch goes through in one piece? With 16 micro-batches? Both orders above are about equally idle. So what does 1F1B need less of: "time", "memory" or "messages"? Type your answers in place of the dots.

# %%
guess["idle share, one piece"] = ...
guess["idle share, 16 micro-batches"] = ...
guess["what 1F1B needs less of"] = ...

# %% [markdown]
# ### Two layers on two ranks, by hand
#
# The model is $y = w_2\,(w_1 x)$ with $w_1 = 3$, $w_2 = 2$. The loss is $\frac12 (y - t)^2$; the data are $x = 0.5$, $t = 4$. Rank 0 has $w_1$ and $x$, rank 1 has $w_2$ and $t$. The *activation* $h = w_1 x$ travels forward, and its *gradient* $\partial L/\partial h$ travels backward. The weights never travel.

# %%
# %%ranks
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
# PyTorch finds the same gradients in one process:

# %%
import torch

w1, w2 = (torch.tensor(value, requires_grad=True) for value in (3.0, 2.0))
(0.5 * (w2 * (w1 * 0.5) - 4.0) ** 2).backward()
print(f"dL/dw1 = {w1.grad.item()}, dL/dw2 = {w2.grad.item()}")

# %% [markdown]
# This is [model-parallel](glossary.md#model-parallel) training: each rank has a part of the model and sees all data. In [data-parallel](glossary.md#data-parallel) training each rank has the whole model and a part of the data. Which of the two sends less? Take transformer blocks, $C$ numbers wide, and a batch of $n$ tokens, in float32. A block has $12C^2 + 13C$ weights (six matrices, biases and two layer norms). In a ring allreduce over many ranks ([08](08_allreduce_animation.ipynb)), each rank sends nearly twice the bytes of every block's gradient. Where a pipeline is cut, it sends an activation of $nC$ numbers, and its gradient back. The table compares one block with one cut. (A rank with $L$ blocks sends $L$ gradients; a cut sends as much, however many blocks lie between cuts.)

# %%
rows = [
    "| width C | tokens n | data-parallel: gradient, twice (MB) | pipeline: both ways (MB) |",
    "|--:|--:|--:|--:|",
]
for C, n in ((128, 1_024), (768, 8_192), (768, 65_536), (4_096, 8_192)):
    gradient, activations = 2 * 4 * (12 * C**2 + 13 * C), 2 * 4 * n * C
    rows.append(f"| {C:,} | {n:,} | {gradient / 1e6:,.1f} | {activations / 1e6:,.1f} |")
Markdown("\n".join(rows))

# %% [markdown]
# Gradients grow as $C^2$, activations as $nC$. Neither is always less. A pipeline also fits a model that is too large for one rank: each rank has $1/p$ of the weights.
#
# With $p$ stages and one piece, one rank works at a time and $p - 1$ wait.
#
# ### Micro-batches
#
# Cut the batch into $m$ pieces. While rank 1 works on piece 0, rank 0 begins piece 1. The gradient of the mean loss is the mean of the pieces' gradients. So each rank averages its pieces' gradients, and updates its weights once, at the end. One process would make the same update.
#
# The last rank can begin only after $p - 1$ forward passes. The first rank ends $p - 1$ backward passes later than the last. So each direction takes the time of $m + p - 1$ passes, and every rank works during $m$ of them:
#
# $$\text{idle share} = 1 - \frac{m}{m + p - 1} = \frac{p - 1}{m + p - 1}$$
#
# We record this share on four ranks and on two, for 1 to 16 micro-batches. The points should lie on the formula's dashed lines, or a little above:

# %%
MICRO = (1, 2, 4, 8, 16)
measured, predicted, others = {}, {}, Others()
for p in (4, 2):
    predicted[f"{p} ranks"] = [formulas.bubble("GPipe", p, m) for m in MICRO]
    with others:
        measured[f"{p} ranks"] = [recorded(families.gpipe(p, m), 1).bubble for m in MICRO]
style.doubt(draw.bubbles(predicted, measured, MICRO).figure, others)
plt.show()
guess.answer("idle share, one piece", predicted["4 ranks"][0])  # by the formula
guess.answer("idle share, 16 micro-batches", predicted["4 ranks"][4])

# %% [markdown] claims="11-bubble"
# More pieces mean less idle time. But smaller pieces have a price, which paced stages hide: a layer reads all its weights for each piece, however small ([A4](A4_more_of_roofline.ipynb)). A larger batch would keep the pieces large, but it saves fewer and fewer steps ([12](12_large_batches_and_compression.ipynb)). Averaged over four runs (each the shortest of three steps), the recorded shares are less than 0.01 above the formula's:

# %%
claims.evidence("11-bubble")

# %% [markdown]
# ### A schedule is data
#
# A schedule is a list of actions for each rank. For three ranks, GPipe and 1F1B are:

# %%
print(families.gpipe(3, 4), families.one_f_one_b(3, 4), sep="\n\n")

# %% [markdown]
# Each rank executes its list in one loop. `take` waits for what the action needs from another rank. `give` sends the result on and does not wait.

# %%
from helpers.pipeline.runner import Pipeline

source = inspect.getsource(Pipeline.step)
loop = source[source.index("        for action") : source.index("        self._wires.finish")]
Code(textwrap.dedent(loop), language="python")

# %% [markdown]
# A list can be wrong. Before anything is sent, `check` looks for work that is missing or done twice, and follows who waits for whom. It refuses both of these schedules for two ranks:

# %%
for wrong in (["F0 F1 B0", "F0 B0 F1 B1"], ["F0 B0 F1 B1", "F0 F1 B0 B1"]):
    try:
        check(Schedule.written("mine", wrong))
    except ScheduleError as error:
        print(error)

# %% [markdown]
# GPipe and 1F1B pass `check`. On your ranks, in float64, their losses and gradients differ from one process's by at most:

# %%
for name in ("GPipe", "1F1B"):
    worst = cluster.run(runs.difference, families.FAMILIES[name](P.ranks, P.micro), timeout=LIMIT)
    print(f"{name:12} {max(worst):.1e}")

# %% [markdown]
# ### Exercise 1: one forward, one backward
#
# *Difficulty ●●○, 15 minutes.* Write the list of one rank under 1F1B, as strings such as `"F0"` and `"B3"`. A rank first sends ahead one micro-batch for each rank after it (at most all $m$). Then it alternates: one forward pass, one backward pass. When no forward pass is left, it does the remaining backward passes. A rank *keeps* a micro-batch from its F to its B. The check refuses an order that is idle longer than GPipe, or keeps more than this rule needs.
#
# <details><summary>Hint</summary>
#
# How many forward passes does rank $r$ do before it begins to alternate? The last rank does none. Compare with the list for three ranks above.
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
# Now your order runs on the ranks (until yours is right, the course's):

# %%
yours = one
if check_answer.one_by_one.passed(my_order):
    orders = [my_order(rank, P.ranks, P.micro) for rank in range(P.ranks)]
    yours = Schedule.written("your 1F1B", orders)
with Others() as others:
    line = recorded(yours)
ax = draw.lanes(line, label=f"{yours.name} on your ranks: forward and backward passes alternate")
style.doubt(ax.figure, others)
plt.show()

# %% [markdown]
# ### What is kept
#
# A rank keeps a micro-batch's activations from the forward pass until the backward pass. Under GPipe it keeps those of all $m$ micro-batches. Under 1F1B, each forward pass after the first few is followed by a backward pass, which frees one micro-batch's activations.
#
# > **Predict.** Of 8 micro-batches, how many does rank 0 keep at most under 1F1B on four ranks?

# %%
guess["kept by rank 0 of 4, 1F1B"] = ...

# %%
draw.held(list(lines.values()))
plt.show()
guess.answer("kept by rank 0 of 4, 1F1B", lines["1F1B"].most_held(0))
guess.answer("what 1F1B needs less of", "memory")

# %% [markdown]
# ### Exercise 2: kept at most
#
# *Difficulty ●○○, 5 minutes.* How many micro-batches does rank $r$ keep at most under 1F1B, for any $p$ and $m$?
#
# <details><summary>Hint</summary>
#
# How many forward passes has the rank done just before its first backward pass? And if there are fewer micro-batches than that?
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
# Now we count bytes: those of all live tensors that autograd saves for the backward pass (`torch.autograd.graph.saved_tensors_hooks`), without the weights. **[Recomputation](glossary.md#recomputation)** keeps only the input of each stage, and repeats the forward pass before the backward pass. The table is for rank 1 and 16 micro-batches. The prediction is the bytes of one micro-batch times the number kept. With recomputation, the micro-batch in its backward pass takes its full bytes; every other one takes only the bytes of its input:

# %%
config, micro, r = runs.SMALL, 16, 1
x_bytes = 4 * runs.SIZE * config.context * config.width  # the input of a stage
mine = kept_at_most if check_answer.kept_at_most.passed(kept_at_most) else (lambda r, p, m: p - r)
rows = ["| schedule | kept | predicted (B) | counted (B) | ratio |", "|---|--:|--:|--:|--:|"]
for name, again in (("GPipe", False), ("1F1B", False), ("GPipe", True), ("1F1B", True)):
    plan = families.FAMILIES[name](P.ranks, micro)
    most, single = cluster.run(runs.bytes_kept, plan, again, timeout=LIMIT)[r]
    n = micro if name == "GPipe" else mine(r, P.ranks, micro)
    predicted = (n - 1) * x_bytes + single if again else n * single
    rows.append(f"| {name}{', recomputed' * again} | {n} | {predicted:,} | {most:,} "
                f"| {most / predicted:.2f} |")  # fmt: skip
Markdown("\n".join(rows))

# %% [markdown]
# GPipe's 16 micro-batches with recomputation take fewer bytes than 1F1B's 3 without. The price is one more forward pass for each micro-batch: with $i + w = 2f$, it takes $4f$ instead of $3f$.
#
# **Answer.** Cut the batch into $m$ micro-batches: then each rank waits only for the time of $p - 1$ forward and $p - 1$ backward passes. 1F1B is as idle as GPipe, but rank $r$ keeps at most $p - r$ micro-batches instead of all $m$. *Evidence: shares that were on average less than 0.01 above the formula's; bytes counted by autograd.*

# %% [markdown]
# ## Lesson 2. What makes a step shorter, and what does it cost?
#
# *83 minutes, of which the project takes 45.* With eight micro-batches, four ranks are idle for 27 % of the time under GPipe and 1F1B (by the formula). Can the same eight pieces be ordered so that ranks wait less?
#
# > **Predict.** A backward pass has two halves, I (gradient of the inputs) and W (gradient of the weights), each as long as F. No other rank waits for W. If a rank may do W whenever it likes, to what idle share can 27 % fall? Which rank must then keep more micro-batches than under 1F1B: the "first" or the "last"?

# %%
guess["idle share with W put off"] = ...
guess["who keeps more"] = ...

# %% [markdown]
# ### Two ways to wait less
#
# **Interleaved.** Give each rank $v$ chunks of the model instead of one: with $p = 4$ and $v = 2$, rank 0 has stages 0 and 4. A pass through a chunk takes $1/v$ of the time, so filling the pipeline takes $(p - 1)/v$ forward passes of a whole rank instead of $p - 1$; emptying shrinks alike. In exchange, an activation goes round all ranks $v$ times.
#
# $$\text{idle share} = \frac{p - 1}{v\,m + p - 1}$$
#
# **Zero-bubble.** A linear layer computes $y = xA^\top$. Its backward pass receives $\partial L/\partial y$ and computes two products:
#
# - I: $\partial L/\partial x = (\partial L/\partial y)\,A$. The rank before waits for it.
# - W: $\partial L/\partial A = (\partial L/\partial y)^\top x$. No rank waits for it.
#
# So a rank does I at once and puts off W: rank $r$ stays up to $r$ micro-batches behind with W, and catches up at the end. The ranks before it get their gradients earlier and wait less. But no W is ready while a rank waits for its first F or its first I. If F, I and W take equally long and $m \ge p$, rank $r$ waits $r$ forward passes for its first F and $p - 1 - r$ for its first I. So every rank waits for $p - 1$ forward passes and works for $3m$:
#
# $$\text{idle share} = \frac{p - 1}{3\,m + p - 1}$$
#
# ### Exercise 3: put W off
#
# *Difficulty ●●○, 8 minutes.* `order` is the 1F1B list of one rank, with each B replaced by its I: `["F0", "F1", "I0", ...]`. Return this list with every W put in where the rule above puts it. The check simulates all ranks (F, I and W equally long, messages free, $m \ge p$). It accepts every order in which no rank waits longer than $p - 1$ forward passes.
#
# <details><summary>Hint</summary>
#
# Keep a list of the W's that are put off. How long may it get on rank $r$, and which W leaves it first?
#
# </details>


# %% exercise="put-off"
def put_off(order, rank):
    """Return the actions of `rank`: those of `order`, a list of strings, and every W."""
    # BEGIN SOLUTION
    made, late = [], []
    for action in order:
        made.append(action)
        if action[0] == "I":
            late.append("W" + action[1:])
            if len(late) > rank:
                made.append(late.pop(0))
    return made + late
    # END SOLUTION


# %% check="put-off" points=2
check_answer.put_off(put_off)

# %% [markdown]
# Your zero-bubble runs on the ranks (until it is right, the course's). Compare the gaps with those of 1F1B. A black bar marks a pass through a rank's second chunk:

# %%
zero = families.zero_bubble(P.ranks, P.micro)
if check_answer.put_off.passed(put_off):
    halves = [[str(action).replace("B", "I") for action in order] for order in one.orders]
    orders = [put_off(order, rank) for rank, order in enumerate(halves)]
    zero = Schedule.written("zero-bubble", orders)
with Others() as others:
    lines["interleaved"] = recorded(families.interleaved(P.ranks, P.micro))
    lines["zero-bubble"] = recorded(zero)
three = (lines[name] for name in ("1F1B", "interleaved", "zero-bubble"))
style.doubt(draw.lanes(*three, label="Two ways to wait less than 1F1B").figure, others)
plt.show()
formula = formulas.bubble("zero-bubble", P.ranks, P.micro)
guess.answer("idle share with W put off", formula)

# %% [markdown] claims="11-interleaved 11-zero-bubble"
# Over several runs, both orders have shorter steps than 1F1B:

# %%
display(claims.evidence("11-interleaved"), claims.evidence("11-zero-bubble"))

# %% [markdown]
# If W takes half as long as F and I, ranks wait longer. If it takes twice as long, they wait as long as before (simulated, $f = i = 1$):

# %%
for w in (0.5, 1, 2):
    line = simulate(families.zero_bubble(P.ranks, P.micro), Costs(1, 1, w))
    print(f"w = {w}: ranks wait for {line.bubble * line.span:.1f} forward passes on average")

# %% [markdown]
# ### What it costs: memory
#
# Under zero-bubble, a rank keeps a micro-batch until its W: $p - r$ as under 1F1B, and up to $r$ more, whose W is put off. The table compares each schedule with its formula. Its last column says how many each rank keeps at most; a micro-batch kept in one of two chunks counts as half:

# %%
rows = ["| schedule | idle: formula | recorded | step: formula (ms) | recorded (ms) "
        "| kept, rank 0 to 3 |", "|---|" + "--:|" * 5]  # fmt: skip
for name, make in FOUR.items():
    line = lines[name] if name in lines else recorded(make(P.ranks, P.micro))
    v = line.schedule.chunks
    said = formulas.bubble(name, P.ranks, P.micro, v)
    kept = ", ".join(f"{line.most_held(rank) / v:g}" for rank in range(P.ranks))
    rows.append(f"| {name} | {said:.1%} | {line.bubble:.1%} | {3e3 * P.part * P.micro / (1 - said):.0f} "
                f"| {1e3 * line.span:.0f} | {kept} |")  # fmt: skip
display(Markdown("\n".join(rows)))
guess.answer("who keeps more", "last")

# %% [markdown]
# Zero-bubble keeps four micro-batches on *every* rank; under 1F1B, the last rank keeps one. Interleaving keeps one and a half more than 1F1B. The formulas leave out messages, Python's own time and late wake-ups.
#
# Which schedules fit if there is room for four? Bars at the right show what each rank keeps. Set *room for* to the number of micro-batches that fit in memory; ranks that need more are marked.

# %%
shown = list(lines.values())
for name, make in FOUR.items():
    part = 0.5 if name == "interleaved" else 1.0
    shown += [recorded(make(p, 4), 1) for p in (2, 4)]
    shown += [simulate(make(p, m), Costs(part, part, part))
              for p in (2, 4, 8) for m in (4, 8, 16) if m >= p]  # fmt: skip
pipelines(shown)

# %% [markdown]
# ### What it costs: messages
#
# In the formulas, messages take no time. Set their time, up to two forward passes, and see which becomes the slowest (simulated):


# %%
def steps(message):
    """Draw how long a step takes when each message takes so long."""
    spans = {}
    for name, make in FOUR.items():
        plan = make(P.ranks, P.micro)
        part = 1 / plan.chunks
        spans[name] = simulate(plan, Costs(part, part, part, message)).span
    draw.spans(spans, f"a message takes {message:g} forward passes").set_xlim(0, 72)
    plt.show()


_ = interact(steps, message=SelectionSlider(options=[0, 0.25, 0.5, 1, 2], value=0.25))

# %% [markdown]
# With free messages, GPipe and 1F1B take longest. If a message takes a quarter of a forward pass, GPipe is already faster than 1F1B. If a message takes a whole one, GPipe is the fastest of the four: it waits for messages only while the pipeline fills and empties. The other orders wait in between, too. At two, interleaving is the slowest (it has 7 boundaries between stages instead of 3).
#
# ### Layers that are not alike
#
# In a language model, the first stage also has the embedding, and the last stage has the output matrix. So stages with equally many blocks do not cost the same. Below, later layers cost more. In the upper half, compare rank 3 with rank 0:

# %%
from helpers.pipeline import partition

costs, cuts, others = [1, 1, 1, 1, 2, 2, 4, 4], [], Others()  # costs of eight layers
for name, layers in (("equal numbers", [2, 2, 2, 2]), ("equal costs", [4, 2, 1, 1])):
    sums = [sum(costs[layer] for layer in stage) for stage in partition.by_hand(layers)]
    parts = [P.part * cost / 4 for cost in sums]
    schedule = Schedule(name, one.orders, P.micro)
    with others:
        line = cluster.run(runs.record, schedule, Costs(parts, parts, parts), timeout=LIMIT)[0]
    print(f"{name}: stages cost {sums}, a step takes {1e3 * line.span:.0f} ms")
    cuts.append(line)
ax = draw.lanes(*cuts, label="Equal costs, not equal numbers of layers, make the step shorter")
style.doubt(ax.figure, others)
plt.show()

# %% [markdown]
# Equal costs make the step shorter. It is never shorter than the slowest stage's work on eight micro-batches: $8 \cdot 120 = 960$ ms on rank 3 with equal numbers of layers, $8 \cdot 60 = 480$ ms with equal costs.
#
# ### Exercise 4, the project: far apart, and little room
#
# *Difficulty ●●●, 45 minutes.* Your ranks are far apart: a message takes as long as a forward pass. Memory is short: a rank has room for `room` micro-batches, and each takes up room from its F until its W (or B). With $f = i = w = 1$, four ranks, eight micro-batches and room for six, GPipe does not fit; 1F1B takes 49 (in forward passes) and zero-bubble 41. Write a schedule that fits and takes at most 35. Use "I0" and "W0" in place of "B0" where you like; each rank has one chunk.
#
# Write a rule, not a list: the check also asks for three ranks (six micro-batches, room for four, at most 27), for two (four micro-batches, room for three, at most 16), and for a case that you do not see. It says what is wrong, and compares your ranks' gradients with one process's.
#
# <details><summary>Hint</summary>
#
# Begin with your lists of Exercises 1 and 3. A micro-batch now needs longer to come back: how many should a rank send ahead? Draw it (the cell after the check draws yours): who waits, and which W could fill that time? How many W can a rank put off before its room is full?
#
# </details>


# %% exercise="own-schedule"
def my_schedule(p, m, room):
    """Return a list of actions for each of p ranks, m micro-batches, room for so many."""
    # BEGIN SOLUTION
    orders = []
    for rank in range(p):
        ahead = min(2 * (p - 1 - rank), room - 1, m)  # a message there and one back
        order, late = [f"F{i}" for i in range(ahead)], []
        for i in range(m):
            if ahead + i < m:
                order.append(f"F{ahead + i}")
            order.append(f"I{i}")
            late.append(f"W{i}")
            if len(late) > min(rank, room - 1 - ahead):
                order.append(late.pop(0))
        orders.append(order + late)
    return orders
    # END SOLUTION


# %% check="own-schedule" points=5
check_answer.own_schedule(my_schedule, cluster=cluster)

# %%
far = Costs(1, 1, 1, message=1)
lists = my_schedule(P.ranks, P.micro, 6)
plan = Schedule.written("yours", lists) if lists else families.zero_bubble(P.ranks, P.micro)
try:
    check(plan)
    draw.lanes(simulate(plan, far), label=f"{plan.name}, far apart: who waits?")
    plt.show()
    print(f"far apart, a step takes {simulate(plan, far).span:g} forward passes")
except ScheduleError as error:
    print(error)
if check_answer.own_schedule.passed(my_schedule, cluster=cluster):
    print(f"on your ranks, with nearly free messages, {recorded(plan).bubble:.1%} idle")

# %% [markdown]
# **Answer.** With cheap messages, a step gets shorter if passes are cut finer (interleaved), if W fills idle time (zero-bubble), and if the stages cost the same. Interleaving costs messages and memory, and zero-bubble costs memory. On slow links, sending more micro-batches ahead shortens the step, and costs memory. *Evidence: recorded steps, the table of what each rank keeps, and your own schedule.*

# %% [markdown]
# ## What breaks
#
# **The wrong micro-batch.** Our messages carry the number of their micro-batch as a [tag](glossary.md#tag). Without tags, a rank that wants micro-batch 1 first gets micro-batch 0's input:

# %%
# %%ranks
if rank == 0:
    for i in (0, 1, 0, 1):
        comm.send(f"the input of {i}", dest=1, tag=i)
if rank == 1:
    for i in (1, 0):
        print(f"with tags, the target of {i} meets", comm.recv(source=0, tag=i))
    for i in (1, 0):
        print(f"without, the target of {i} meets", comm.recv(source=0))

# %% [markdown]
# Nothing fails, and the loss compares the wrong pairs.
#
# **Sends that wait.** The runner's sends do not wait (`Isend`). With blocking sends of long messages, 1F1B deadlocks: rank 0 sends the output of F1 while rank 1 sends the gradient of B0, and neither receives. `check` lets GPipe pass and finds the deadlock:

# %%
check(families.gpipe(2, 2), blocking=True)
try:
    check(families.one_f_one_b(2, 2), blocking=True)
except ScheduleError as error:
    print(error)

# %% [markdown]
# Here it happens, with `ssend`, which returns only once the other side receives:

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
# GPipe has no such pair: no gradient is sent back before the last activation has arrived.
#
# **Never empty.** PipeDream removes the bubble by not emptying the pipeline: each "micro-batch" is a batch of its own, and a rank updates its weights after each backward pass, while other batches are under way. Now the pipeline fills and empties once in the whole training. With eight batches, that is still a quarter of the time; with many, next to nothing:

# %%
plan, pace = families.pipedream(P.ranks, 8), Costs(P.part, P.part, P.part, update=P.part / 4)
with Others() as others:
    line = cluster.run(runs.record, plan, pace, timeout=LIMIT)[0]
ax = draw.lanes(line, label="PipeDream: idle only while it fills and empties")
style.doubt(ax.figure, others)
plt.show()
print(f"idle {line.bubble:.1%}; by the formula, of m batches:", end="")
for m in (8, 80, 800):
    print(f"  m = {m}: {formulas.bubble('PipeDream', P.ranks, m, costs=pace):.1%}", end="")

# %% [markdown]
# But a gradient comes back [stale](glossary.md#staleness): rank $r$ has made $p - 1 - r$ updates since the batch's forward pass. With **[weight stashing](glossary.md#weight-stashing)** a rank keeps the weights with which a batch went forward, and uses them again in its backward pass. Without stashing, the backward pass combines the newest weights with activations of older ones. Is the result still the gradient of some model? For a small model with one tanh layer on each rank, we compute the last batch's gradient for every model made of recent versions of the stages. The last column says how far PipeDream's gradient is from the nearest:

# %%
from helpers.pipeline import following

rows = ["| ranks | stashing | updates missed, rank 0 to last | versions kept "
        "| distance ÷ length of the gradient |", "|--:|---|---|---|--:|"]  # fmt: skip
with Cluster(n=2, preload=("torch",)) as pair:
    for where, stash in ((cluster, True), (cluster, False), (pair, False)):
        plan = families.pipedream(where.n, 8)
        found = where.run(following.follow_updates, plan, stash, newest=where.n + 1,
                          timeout=LIMIT)[0]  # fmt: skip
        missed = [list(batches.values())[-1] for batches in found["staleness"]]
        lists = (", ".join(map(str, each)) for each in (missed, found["versions"]))
        rows.append(f"| {where.n} | {'yes' if stash else 'no'} | {' | '.join(lists)} "
                    f"| {found['nearest']:.0e} |")  # fmt: skip
Markdown("\n".join(rows))

# %% [markdown]
# With stashing the distance is zero up to rounding: the result is the gradient of one model. Without stashing, on four ranks, it is the gradient of none of them. Two ranks need no stashing here. The last stage updates nothing between its F and its B. The first stage is a single layer and sends no gradient on, so its B reads no weights.
#
# <details><summary><b>What the sources say, what we measured</b></summary>
#
# | the sources say | here |
# |---|---|
# | layers on two devices; by itself this gives no parallelism: one is idle while the other works | lesson 1: the same gradients as one process; with one piece, four ranks are idle for three quarters of the time |
# | one can pipeline batches through the model: as soon as batch 0 clears the first device, push batch 1 | lesson 1: the idle share falls as the formula says, and the results equal those of one process |
# | accumulate the set of batches at the end | lesson 1: every micro-batch's loss is divided by $m$, and gradients add up |
# | back-propagation pushes back up the pipeline; after a start-up there is work for every slot | *Never empty*: yes, and the price is staleness: $p - 1 - r$ updates on rank $r$, counted |
# | care must be taken that the model is consistent | *Never empty*: with stashing the gradient belongs to one model; without, on four ranks, to none |
# | data against model parallelism | lesson 1: bytes of a gradient against bytes of activations, for four sizes |
#
# </details>
#
# **In practice**: `torch.distributed.pipelining` offers GPipe, 1F1B, interleaved and zero-bubble; Megatron-LM and DeepSpeed have pipelines, too. Newer schedules place a rank's two chunks in a V (ZB-V, DualPipe); `Schedule(..., places=...)` expresses such places. Two ranks with four micro-batches idle for 4.0 % in a ZB-V and for 7.7 % in zero-bubble (simulated).
#
# **References**
# - Huang et al. (2019), *GPipe*: micro-batches, recomputation.
# - Narayanan et al. (2019), *PipeDream*: 1F1B, weight stashing, the cut by dynamic programming.
# - Narayanan et al. (2021), *Efficient large-scale language model training on GPU clusters using Megatron-LM*: 1F1B with a flush, interleaved.
# - Qi et al. (2024), *Zero bubble pipeline parallelism*: the backward pass in two parts, ZB-H1.
#
# **Next**: [13 Split one model over eight ranks](13_sharding.ipynb) cuts the same model inside its layers, and then in all ways together.

# %%
cluster.stop()
