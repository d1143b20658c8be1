# %% [markdown]
# # Split one model over eight ranks
#
# By the end you will have cut a transformer in five ways (its memory, its matrices, its sequence, its experts, its layers), checked each against one process to the last digits, and placed it on eight ranks by a prediction that a run confirms.

# %%
from helpers.plots import sharded as plots
from helpers.plots import style
from helpers.sharded import zero

style.use()
_ = plots.stage_bytes([vars(zero.at_rest(stage, 8)) for stage in zero.STAGES])

# %% [markdown]
# Bytes that each of eight ranks keeps for each parameter of a model trained with Adam in float32. This notebook explains the four bars, and then the cuts that bars do not show.
#
# **You will be able to**
#
# - derive the bytes of ZeRO's stages, and count them on ranks;
# - say where a split model needs a sum in its forward pass and where in its backward pass;
# - merge two softmaxes, and compute a loss whose scores no rank has;
# - count the messages of each way to split, and tell from a link's speed which to avoid;
# - save a model on eight ranks and go on with four, or with one.
#
# **You need** notebooks [01](01_mpi_basics.ipynb), [02](02_sgd_sync_async.ipynb) (gradients averaged over replicas) and [08](08_allreduce_animation.ipynb) (the ring), and what attention is. *Time:* 110 minutes, of which your machine works for two; the project takes another 30. *Cores:* 2 or more. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | shape or unit |
# |---|---|---|
# | $N$ | ranks that share something | 1 |
# | $\Psi$ | parameters of the whole model | 1 |
# | $B$, $T$ | sequences in a batch, positions (tokens) in a sequence | 1 |
# | $C$, $H$, $V$ | width of the stream, heads of attention, tokens there are | 1 |
# | $x$ | the stream: what goes from block to block | $(B, T, C)$ |
# | $A_r$ | rank $r$'s part of a matrix $A$ | |
# | $\ell$ | logarithm of a sum of exponentials | nats |
# | $d$, $p$, $t$ | replicas (data), stages (pipeline), parts of each matrix (tensor); $d \cdot p \cdot t = N$ | 1 |
# | $m$ | micro-batches of a replica | 1 |
# | $\alpha$, $\beta$ | a message of $b$ bytes takes $\alpha + \beta b$ | s, s/B |

# %% [markdown]
# ## Set-up

# %%
import tempfile
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from helpers import claims
from helpers.cluster import Cluster, Network
from helpers.cluster.errors import StartError
from helpers.collectives.cost import Link
from helpers.exercises import sharded as check
from helpers.exercises.predictions import Predictions
from helpers.models.transformer import Config, loss, parameter_count, transformer
from helpers.sharded import checkpoint, planner, runs, ways
from helpers.sharded.mesh import Layout

# %load_ext helpers.cluster


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    slow: float = 100e6  # bit/s of a slow link
    speed: float = 2.4e8  # operations in a second, of a paced rank
    steps: int = 200  # of the training on eight ranks and then on four
    seed: int = 0


chosen = Parameters()
config = Config(vocabulary=96, context=32, layers=4, heads=4, width=64)
guess = Predictions()
PRELOAD = ("torch", "helpers.sharded.runs", "helpers.sharded.ways")
torch.set_num_threads(1)
cluster = Cluster(n=chosen.ranks, preload=PRELOAD)
print(f"the model of this notebook has {parameter_count(config):,} parameters")

# %% [markdown]
# > **Predict.** (1) Above, eight ranks keep 2 bytes for each parameter if *everything* is cut. How many do four ranks keep? And how many times as many bytes does a rank then send in a step as a replica does? (2) Two hosts with four ranks each, a slow link between them. The matrices are cut over four ranks. Which is slower, and how many times: the four on one host, or two on each?

# %%
guess["bytes for each parameter, all cut, 4 ranks"] = ...
guess["bytes sent, all cut ÷ replicas"] = ...
guess["a step with matrices cut across hosts ÷ inside hosts"] = ...

# %% [markdown]
# ## Four numbers on four ranks
#
# A model of four parameters $w = (1, 2, 3, 4)$, each at home on another rank. Its loss for a sample $x$ is $\frac12 (w \cdot x)^2$, with the gradient $(w \cdot x)\, x$. Rank $r$ has a sample of its own: ones, times $r$. To compute, a rank needs all of $w$ for a moment; of the mean gradient it needs its own number only.

# %%
# %%ranks
import numpy as np

mine = np.array([rank + 1.0])  # the parameter that lives here
w = np.empty(4)
comm.Allgather(mine, w)  # gather
x = rank * np.ones(4)
gradient = (w @ x) * x  # use
del w  # free
part = np.empty(1)
comm.Reduce_scatter_block(gradient, part)  # the sum of everybody's gradient of *my* parameter
mine -= 0.01 * part / size
print(
    f"my gradient {gradient[rank]:5.1f}, the mean {part[0] / size:5.1f}, my parameter {mine[0]:.2f}"
)

# %% [markdown]
# $w \cdot x = 10 r$, so the gradients are $10 r^2$: 0, 10, 40, 90; their mean is 35, and each parameter has moved by 0.35. An allreduce would have brought the mean of all four numbers to all four ranks. It is a *reduce-scatter* (each gets the sum of its part) and then an *all-gather* (all get all parts). Here the first half is used after the backward pass and the second before the next forward pass.
#
# ## Shards of memory: ZeRO
#
# [Replicas](glossary.md#replica) keep everything $N$ times. For each parameter Adam in float32 keeps 4 bytes of parameter, 4 of gradient, and 8 of its two moments. *ZeRO* (Rajbhandari et al., 2020) cuts that into [shards](glossary.md#shard) in three stages, dearest first and cheapest to lose first:
#
# | stage | cut into $N$ | bytes for each parameter |
# |---|---|---|
# | 0 | nothing | $4 + 4 + 8$ |
# | 1 | moments | $4 + 4 + 8/N$ |
# | 2 | and gradients | $4 + (4 + 8)/N$ |
# | 3 | and parameters | $(4 + 4 + 8)/N$ |
#
# With parameters and gradients in half precision and 12 bytes of optimizer it is 2, 2 and 12: again 16, and $16/N$ at the end.
#
# Our transformer on four ranks, trained at each stage. Every rank adds up the bytes of all that it holds when the optimizer moves:

# %%
zeros = cluster.run(runs.stages, config, batch=8, timeout=120)[0]
psi = zeros[0]["parameters"]
print("stage   loss        bytes/Ψ: formula  counted   sent in a step: formula  counted")
for stage, found in enumerate(zeros):
    held = sum(found["held"].values()) / psi
    sent = zero.sent(stage, chosen.ranks, psi)
    print(
        f"{stage:5d}   {found['loss']:.6f}{zero.at_rest(stage, 4).total:17.2f}{held:9.2f}"
        f"{sent / 1e6:22.3f} MB{found['bytes'] / 1e6:7.3f} MB"
    )
guess.answer("bytes for each parameter, all cut, 4 ranks", sum(zeros[3]["held"].values()) / psi)
guess.answer("bytes sent, all cut ÷ replicas", zeros[3]["bytes"] / zeros[0]["bytes"])

# %%
_ = plots.stage_bytes(
    [vars(zero.at_rest(stage, 4)) for stage in zero.STAGES],
    [{k: v / psi for k, v in found["held"].items()} for found in zeros],
)

# %% [markdown]
# The losses agree; the diamonds sit on the bars (they are a little above where a cut leaves a rest). Up to stage 2 nothing more is sent than by replicas. Stage 3 gathers parameters twice, for each pass once: half as much again.
#
# Does the operating system agree? A larger model, so that Python's own memory does not blur the count, and by how much each process has grown:

# %%
large = Config(context=16, layers=4, heads=4, width=256)
grown = {s: max(cluster.run(runs.process_bytes, large, s, timeout=120)) for s in (0, 3)}
for stage, size in grown.items():
    print(f"stage {stage}: {size / parameter_count(large):.1f} resident bytes for each parameter")

# %% [markdown]
# (More than the formula: activations, messages under way, and memory that the allocator keeps in hand.)
#
# ### Exercise 1: bytes
#
# *Difficulty ●○○, 4 minutes.* Return the bytes for each parameter of the whole model that one of `ranks` ranks keeps at a `stage` from 0 to 3, with Adam in float32.
#
# <details><summary>Hint</summary>
#
# Three terms; each is divided by `ranks` from some stage on.
#
# </details>


# %% exercise="bytes-of-a-stage"
def my_bytes(stage, ranks):
    """Return bytes for each parameter on one rank."""
    # BEGIN SOLUTION
    parameter = 4 / ranks if stage >= 3 else 4
    gradient = 4 / ranks if stage >= 2 else 4
    moments = 8 / ranks if stage >= 1 else 8
    return parameter + gradient + moments
    # END SOLUTION


# %% check="bytes-of-a-stage" points=1
check.bytes_of_a_stage(my_bytes)

# %%
for stage in zero.STAGES if check.bytes_of_a_stage.passed(my_bytes) else ():
    needed = my_bytes(stage, 64) * 7e9 / 1e9
    print(f"7 billion parameters on 64 ranks, stage {stage}: {needed:7.2f} GB on each")

# %% [markdown]
# ### Exercise 2: a step in shards
#
# *Difficulty ●●○, 12 minutes.* All ranks have the same `values` (a NumPy array whose length the ranks divide), and each the `gradient` of its own samples. Let each rank move only its shard, by `rate` times the mean gradient, and return all values. The whole mean gradient should never be on one rank, so no allreduce.
#
# <details><summary>Hint</summary>
#
# Four numbers on four ranks, above, with a shard in place of a number: `comm.Reduce_scatter_block(gradient, part)`, then `comm.Allgather(shard, whole)`.
#
# </details>


# %% exercise="zero-step"
def my_zero_step(values, gradient, comm, rate):
    """Return the values after a step; each rank moves its own shard."""
    # BEGIN SOLUTION
    size = len(values) // comm.Get_size()
    first = comm.Get_rank() * size
    mean, whole = np.empty(size), np.empty_like(values)
    comm.Reduce_scatter_block(gradient, mean)
    shard = values[first : first + size] - rate * mean / comm.Get_size()
    comm.Allgather(shard, whole)
    return whole
    # END SOLUTION


# %% check="zero-step" points=2
check.zero_step(my_zero_step, cluster=cluster)


# %% [markdown]
# Your step fits a line through points that are shared out over the ranks, $y = 3x + 1$ with two more useless inputs:


# %%
def fit(step):
    comm = runs.world()
    rng = np.random.default_rng(comm.Get_rank())
    X = rng.normal(size=(50, 4))
    y, w = 3 * X[:, 0] + 1, np.zeros(4)
    X[:, 1] = 1.0
    for _ in range(60):
        w = np.asarray(step(w, 2 * X.T @ (X @ w - y) / len(y), comm, 0.1))
    return w.round(3)


if check.zero_step.passed(my_zero_step, cluster=cluster):
    print(cluster.run(fit, my_zero_step, timeout=30)[0])

# %% [markdown]
# ### Gather, use, free; and gather ahead
#
# At stage 3 the parameters of a block are together only while it computes. `helpers/sharded/unit.py` is that idea in one page, on the flat buffers of notebook 02; hooks around each block call it. To see it, four ranks stand on four hosts with a slow link each, and each rank's pass through a block is [paced](glossary.md#paced) to 15 ms (there are fewer cores than ranks). First everything in turn; then each block's parameters are *prefetched* while the one before computes:


# %%
def start(n, network):
    """Ranks on hosts of their own, or, where this machine cannot make those, beside each other."""
    try:
        return Cluster(n, network=network, preload=PRELOAD)
    except StartError as error:
        print(f"Without hosts, so links are this machine's memory: {error}")
        return Cluster(n, preload=PRELOAD)


slow = Network(hosts=4, rate=chosen.slow)
far = start(4, slow)
recorded = {
    prefetch: far.run(runs.prefetched, config, 8, prefetch, 15.0, timeout=120)
    for prefetch in (False, True)
}

# %%
figure, axes = plt.subplots(2, 1, figsize=(11, 6.4), sharex=True)
for ax, (prefetch, found) in zip(axes, recorded.items(), strict=True):
    name = "prefetched" if prefetch else "in turn"
    title = f"{name}: {1e3 * found[0][0]:.0f} ms (each block paced to 15 ms)"
    plots.spans([done for _, done in found[:2]], title, ax)
axes[0].set_xlabel("")
plt.show()

# %% [markdown] claims="13-prefetch"
# Two of the four ranks. Upper lane of a rank: arithmetic; lower lane: messages. In turn, a gather (hatched) always stands before the block that needs it. Prefetched, it runs below the block before. What stays visible is what no arithmetic covers: the first gather, the last reduce-scatter, and on the way back, where a block has both to gather and to scatter, what goes beyond its 15 ms.

# %%
claims.evidence("13-prefetch")

# %% [markdown]
# ## Shards of matrices: tensor parallel
#
# ZeRO cuts what is *kept*; every rank still computes whole layers. Now the arithmetic itself is cut ([tensor parallel](glossary.md#tensor-parallel)). Two matrices with a nonlinearity between, $y = \varphi(xA)\,B$: cut $A$ by **columns** and $B$ by **rows**,
#
# $$A = (A_1\; A_2), \quad B = \begin{pmatrix} B_1 \\ B_2 \end{pmatrix}, \qquad y = \varphi(xA_1)\,B_1 + \varphi(xA_2)\,B_2$$
#
# $\varphi$ works number by number, so each rank can apply it to its own columns. One sum over ranks at the end is all. Attention is such a pair, with *heads* in place of $\varphi$: each rank has $H/N$ of them.
#
# And backwards? Megatron (Shoeybi et al., 2019) names the two places where the ranks meet:
#
# | | forward | backward |
# |---|---|---|
# | $f$, where the pair begins | copy | ? |
# | $g$, where it ends | sum over ranks | ? |
#
# The two question marks are the exercise.

# %% [markdown]
# ### Exercise 3: the ways back
#
# *Difficulty ●●○, 8 minutes.* Write what each of the two gives back. `gradient` is the tensor that arrives from above; `add(x)` returns the sum of `x` over the ranks.
#
# <details><summary>Hint</summary>
#
# What comes back to $g$ is the gradient of a $y$ that all ranks hold alike: does a rank know it already? What comes back to $f$ is what flowed through *this rank's* columns.
#
# </details>


# %% exercise="conjugate-backward"
def my_f_backward(gradient, add):
    """Return the gradient of f's input; f copies."""
    # BEGIN SOLUTION
    return add(gradient)
    # END SOLUTION


def my_g_backward(gradient, add):
    """Return the gradient of g's input; g adds over ranks."""
    # BEGIN SOLUTION
    return gradient
    # END SOLUTION


# %% check="conjugate-backward" points=2
check.conjugate_backward(my_f_backward, my_g_backward)

# %% [markdown]
# $x$ goes into every rank's term, so its gradient is a *sum over ranks*; $y$ is the same on all, so its gradient is there already. The library's two, as functions of `torch.autograd` that are handed a communicator (`helpers/sharded/conjugate.py`); `all_reduce` is notebook 08's ring:

# %%
import inspect

from helpers.sharded import conjugate

print(inspect.getsource(conjugate._Copy))
print(inspect.getsource(conjugate._Sum))


# %% [markdown]
# Yours, in the transformer's place: two matrices cut over four ranks, against both matrices in one process. (Until your answer is right, the library's own are used.)


# %%
def two_matrices(*ways_back):
    from helpers.sharded import conjugate

    comm = runs.world()
    torch.manual_seed(0)
    A, B, x = torch.randn(6, 8).double(), torch.randn(8, 3).double(), torch.randn(5, 6).double()
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    (torch.tanh(b @ A) @ B).square().sum().backward()
    f, g = (lambda x: conjugate.f(x, comm)), (lambda x: conjugate.g(x, comm))
    if ways_back:
        f = conjugate.operator(lambda x, add: x.view_as(x), ways_back[0], comm)
        g = conjugate.operator(lambda x, add: add(x), ways_back[1], comm)
    mine = slice(2 * comm.Get_rank(), 2 * comm.Get_rank() + 2)
    y = g(torch.tanh(f(a) @ A[:, mine]) @ B[mine])
    y.square().sum().backward()
    return (y - torch.tanh(x @ A) @ B).abs().max().item(), (a.grad - b.grad).abs().max().item()


both = (my_f_backward, my_g_backward)
yours = both if check.conjugate_backward.passed(*both) else ()
off = cluster.run(two_matrices, *yours, timeout=30)[0]
print(f"y differs from one process by {off[0]:.0e}, the gradient by {off[1]:.0e}")

# %% [markdown]
# ### A loss whose scores nobody has
#
# The head gives a score for each of $V$ tokens. Cut by columns, rank $r$ has $V/N$ of them. To gather them all would send $B\,T\,V$ numbers. But $-\ln p = \ell - z_{target}$ with $\ell = \ln \sum_v e^{z_v}$, and a sum can be taken in parts: what travels are the largest score, a sum, and the target's score, three numbers for each position.
#
# ### Exercise 4: the loss
#
# *Difficulty ●●○, 12 minutes.* For one position: `scores` are this rank's part (as many on each rank, in the order of ranks), `target` is a token of the whole vocabulary. Return $-\ln p$ of the target, the same on all ranks. Scores may be as large as 1000. No rank may get to see the others' scores: send a few numbers, however many scores there are.
#
# <details><summary>Hint</summary>
#
# Subtract the largest score of *all* ranks before any exponential: `comm.allreduce(x, op=MPI.MAX)`. The target has its place in one rank's part: `target - comm.Get_rank() * len(scores)`; the others add 0.
#
# </details>


# %% exercise="vocabulary-loss"
def my_vocabulary_loss(scores, target, comm):
    """Return −ln p of the target."""
    from mpi4py import MPI  # on a rank: the kernel has no MPI

    # BEGIN SOLUTION
    top = comm.allreduce(scores.max(), op=MPI.MAX)
    total = comm.allreduce(np.exp(scores - top).sum())
    place = target - comm.Get_rank() * len(scores)
    here = 0 <= place < len(scores)
    found = comm.allreduce(scores[place] if here else 0.0)
    return top + np.log(total) - found
    # END SOLUTION


# %% check="vocabulary-loss" points=2
check.vocabulary_loss(my_vocabulary_loss, cluster=cluster)


# %%
def with_a_head(answer):
    comm = runs.world()
    x, y = runs.rows(config, 1, seed=0)
    z = transformer(config)(x)[0, 0].detach().double()
    part = z.numpy().reshape(comm.Get_size(), -1)[comm.Get_rank()]
    mine = answer(part, int(y[0, 0]), comm)
    return mine, torch.nn.functional.cross_entropy(z[None], y[0, :1]).item()


if check.vocabulary_loss.passed(my_vocabulary_loss, cluster=cluster):
    mine, theirs = cluster.run(with_a_head, my_vocabulary_loss, timeout=30)[0]
    print(f"your loss of the transformer's first token: {mine}; torch's, of all scores: {theirs}")

# %% [markdown]
# ### Between the matrices: sequence parallel
#
# Between two pairs every rank has the whole stream, does the same norm, and keeps the same copy for the backward pass. An allreduce is a reduce-scatter and an all-gather: end a pair with only the first ($\bar g$), give each rank $T/N$ positions to normalize and keep, and begin the next with the second ($\bar f$). As many bytes travel, but for small gradients of norms and biases; activations between pairs shrink to $1/N$ (Korthikanti et al., 2022). The way back of each is the other.
#
# ## Shards of a sequence: ring attention
#
# When the *sequence* is what does not fit, each rank takes $T/N$ positions, and only attention needs others' keys and values. They go round a ring. A softmax over keys that come in pieces: a piece gives an output $o_i$ and $\ell_i = \ln\sum e^{s}$; and two pieces are one,
#
# $$\ell = \ln(e^{\ell_1} + e^{\ell_2}), \qquad o = e^{\ell_1 - \ell}\, o_1 + e^{\ell_2 - \ell}\, o_2$$
#
# ### Exercise 5: merge
#
# *Difficulty ●●○, 8 minutes.* `o1`, `o2` have the shape (queries, D), `l1`, `l2` (queries,). Scores may be as large as 1000, and $\ell$ is $-\infty$ for a piece of which a query sees nothing. NumPy arrays; return $(o, \ell)$.
#
# <details><summary>Hint</summary>
#
# `np.logaddexp` does not overflow. $\ell_i \le \ell$, so neither does $e^{\ell_i - \ell}$.
#
# </details>


# %% exercise="merge-pieces"
def my_merge(o1, l1, o2, l2):
    """Return (o, l) of both pieces as one."""
    # BEGIN SOLUTION
    both = np.logaddexp(l1, l2)
    return np.exp(l1 - both)[:, None] * o1 + np.exp(l2 - both)[:, None] * o2, both
    # END SOLUTION


# %% check="merge-pieces" points=2
check.merge_pieces(my_merge)


# %% [markdown]
# Your merge (until it is right: the library's), on a ring of four ranks with six positions each:


# %%
def ring(merge):
    from helpers.sharded.messages import shift
    from helpers.sharded.running_softmax import merge as ours
    from helpers.sharded.running_softmax import piece, scores_of

    comm = runs.world()
    n, rank = comm.Get_size(), comm.Get_rank()
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 24, 5).double()
    whole = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    mine = slice(6 * rank, 6 * rank + 6)
    keys, values = k[mine], v[mine]
    o, logs = torch.zeros(6, 5).double(), torch.full((6,), -torch.inf).double()
    for step in range(n):
        source = (rank - step) % n
        if source <= rank:  # no query sees a later key
            new = piece(scores_of(q[mine], keys, 6 * rank, 6 * source), values)
            both = (o, logs, *new)
            merged = merge(*(x.numpy() for x in both)) if merge else ours(*both)
            o, logs = (torch.as_tensor(x) for x in merged)
        keys, values = shift([keys, values], comm)
    return (o - whole[mine]).abs().max().item()


yours = my_merge if check.merge_pieces.passed(my_merge) else None
apart = max(cluster.run(ring, yours, timeout=30))
print(f"largest difference from attention in one process: {apart:.0e}")

# %% [markdown]
# (Look at `if source <= rank`: rank 3 works in all four steps, rank 0 in one. Ring attention in production gives each rank an early and a late piece of the sequence instead.)
#
# ## Shards of knowledge: experts
#
# A *mixture of [experts](glossary.md#expert)* has several perceptrons and lets each token use one or two. A gate scores the experts, the token travels to the best one's rank by an *all-to-all*, and the answer travels back, multiplied by the gate's chance. So each rank holds $E/N$ experts, and a token costs the arithmetic of one. The price: messages of unknown length, and experts that are not equally busy. A *capacity* bounds how many tokens an expert takes; who finds no place goes past.
#
# ### Exercise 6: capacity
#
# *Difficulty ●○○, 5 minutes.* `chosen[i]` is the expert of token $i$. Return the tokens (their numbers, in order) that find a place, if every expert takes its first `capacity` ones.
#
# <details><summary>Hint</summary>
#
# Count for each expert as you go through the tokens.
#
# </details>


# %% exercise="keep-within-capacity"
def my_keep(chosen, capacity):
    """Return the tokens that their experts take."""
    # BEGIN SOLUTION
    taken, kept = {}, []
    for token, expert in enumerate(chosen):
        taken[expert] = taken.get(expert, 0) + 1
        if taken[expert] <= capacity:
            kept.append(token)
    return kept
    # END SOLUTION


# %% check="keep-within-capacity" points=1
check.keep_within_capacity(my_keep)

# %% [markdown]
# A gate that has just been made, and one that was trained for a while with the loss of balance $E \sum_e (\text{share of tokens})_e\, (\text{mean chance})_e$, which is 1 when all are equally busy and $E$ when one takes all. Their tokens, through your function:

# %%
from helpers.sharded.routing import capacity_of, imbalance

torch.manual_seed(chosen.seed)
tokens = torch.randn(256, 16) + 1.5 * torch.randn(16)  # a direction that all tokens share
gate = torch.nn.Linear(16, 8, bias=False)
choices = {"just made": gate(tokens).argmax(-1).tolist()}
optimizer = torch.optim.Adam(gate.parameters(), lr=0.01)
for _ in range(200):
    optimizer.zero_grad()
    balance = imbalance(gate(tokens))
    balance.backward()
    optimizer.step()
choices["balanced"] = gate(tokens).argmax(-1).tolist()
capacity = capacity_of(256, 8, 1, 1.25)
for name, choice in choices.items():
    lost = "?"
    if check.keep_within_capacity.passed(my_keep):
        lost = 256 - len(list(my_keep(choice, capacity)))
    print(f"{name:10s} {lost} of 256 tokens find no place")
_ = plots.experts({n: np.bincount(c, minlength=8) for n, c in choices.items()}, capacity)

# %% [markdown] claims="13-balance"
# Whether the gate's balance is worth it elsewhere than on this seed:

# %%
claims.evidence("13-balance")

# %% [markdown]
# ## What each way costs
#
# One forward and one backward pass in each way on four ranks: messages of a rank, counted from a trace, against the formulas of `helpers/sharded/counts.py`; and how long a rank waited for messages through this machine's memory, and through links of 100 Mbit/s.

# %%
near_by = cluster.run(ways.splits, config, 8, timeout=120)
far_off = far.run(ways.splits, config, 8, timeout=120)
print("way                  messages: formula, counted   kB: formula, counted   waited: near, far")
for name, found in near_by[0].items():
    formula = found["formula"]
    waited = [max(one[name]["waited"] for one in side) for side in (near_by, far_off)]
    print(
        f"{name:22s}{formula.messages:16d}{found['messages']:9d}{formula.bytes / 1e3:14.0f}"
        f"{found['bytes'] / 1e3:9.0f}{1e3 * waited[0]:13.0f} ms{1e3 * waited[1]:6.0f} ms"
    )

# %% [markdown]
# Messages agree exactly. (The experts' bytes follow the gate; the formula takes all experts as equally busy. Attention and experts are those parts alone, once a block.) What decides is what the bytes grow with: ZeRO's with the *parameters*, whatever the batch; tensor parallelism's with the *activations*, four allreduces of the stream a block. So it is tensor parallelism that wants the fastest link.
#
# ### Exercise 7: from which batch on
#
# *Difficulty ●○○, 6 minutes.* A rank sends $3\frac{N-1}{N}\Psi$ numbers in a step at stage 3 of ZeRO. Tensor parallelism sends $2\frac{N-1}{N}$ times the stream, $B\,T\,C$ numbers, in each of $4L + 2$ allreduces ($L$ blocks, the embedding, the head; the loss sends little). Return the number $B$ of sequences, not rounded, at which both are equal.
#
# <details><summary>Hint</summary>
#
# Set the two equal: $N$ goes away.
#
# </details>


# %% exercise="equal-bytes"
def my_batch(parameters, T, C, L):
    """Return B."""
    # BEGIN SOLUTION
    return 3 * parameters / (2 * (4 * L + 2) * T * C)
    # END SOLUTION


# %% check="equal-bytes" points=1
check.equal_bytes(my_batch)

# %%
gpt2 = Config(vocabulary=50_304, context=1024, layers=12, heads=12, width=768)
for name, size in (("this notebook's model", config), ("one of GPT-2's size", gpt2)):
    count, sequences = parameter_count(size), np.nan
    if check.equal_bytes.passed(my_batch):
        sequences = my_batch(count, size.context, size.width, size.layers)
    print(f"{name}, {count:,} parameters: from {sequences:.1f} sequences on")

# %% [markdown]
# ## All together, on eight ranks
#
# A mesh of $2 \times 2 \times 2$: two replicas, of two stages, of two halves of every matrix; and Adam's moments cut between the replicas (ZeRO 1). A rank belongs to three small communicators, one along each axis. First the proof, in float64 and against one process:

# %%
from helpers.datasets.characters import batch as draw
from helpers.datasets.characters import load_characters

text, _ = load_characters()
eight = Cluster(8, preload=PRELOAD)
proof = eight.run(
    runs.train, config, Layout(2, 2, 2, shard=1), text, 10, 16, 2, double=True, timeout=150
)
model = transformer(config, dtype=torch.float64)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step, together in enumerate(proof[5]):
    x, y = map(torch.from_numpy, draw(text, 16, config.context, 0, step))
    optimizer.zero_grad()
    alone = loss(model(x), y)
    alone.backward()
    optimizer.step()
    print(f"step {step}: eight ranks {together:.14f}, one process {alone.item():.14f}")

# %% [markdown]
# Then in float32, on package descriptions of Debian, character by character. Half of the steps on eight ranks; then a checkpoint:

# %%
folder = Path(tempfile.mkdtemp(prefix="sharding-"))
half = chosen.steps // 2
shown = eight.run(
    runs.train,
    config,
    Layout(2, 2, 2, shard=1),
    text,
    half,
    16,
    2,
    save=folder / "eight",
    timeout=200,
)[0]
for path in sorted((folder / "eight").iterdir()):
    print(f"{path.name:28s}{path.stat().st_size:9,} B")
print(f"loss {shown[0]:.2f} → {shown[-1]:.2f} in {half} steps")

# %% [markdown]
# Each part of the model is written once, under the names that its parameters have in the *whole* model; the list comes last, when all parts are there. So any other mesh can cut it anew. The other half of the steps on four ranks, otherwise split:

# %%
shown += cluster.run(
    runs.train, config, Layout(2, 1, 2), text, chosen.steps - half, 16, 1,
    load=folder / "eight", save=folder / "four", begin=half, timeout=200,
)[0]  # fmt: skip
_, axes = plt.subplots(figsize=(9, 3.4))
axes.plot(shown, marker="")
axes.axvline(half, color=style.GREY, linestyle="--")
axes.text(half + 1, max(shown) - 0.1, "from here on four ranks", va="top")
axes.set(xlabel="step", ylabel="loss [nats for each character]")
plt.show()

# %% [markdown]
# The curve goes on where it was. (Its peak in the first ten steps is Adam overshooting at this rate without warm-up: the one process above has it too.) Last, on one rank, it writes:

# %%
from helpers.models.writing import generate

size, state = checkpoint.read(folder / "four")
model = transformer(size)
model.load_state_dict({name: kept["value"] for name, kept in state.items()})
print(generate(model, "This package ", count=240, context=size.context))

# %% [markdown]
# A few seconds of training by ranks that share a laptop: it has learned how long words are and which letters are frequent, and hardly a word.
#
# What more does it take to write words? A minute of one process on two cores and a wider model. And do *tokens that are pieces of words* help? From the 96 characters on, the two neighbours that stand together most often become one token, again and again (*byte-pair encoding*, Sennrich et al., 2016; `helpers/datasets/subwords.py`). The same text is then fewer tokens. Beside it a model with characters, trained for about as long. Three seeds, from the record of `make bench SUITE=writing`:

# %%
from helpers import records
from helpers.paths import BENCH_RECORDS

rows = records.newest(BENCH_RECORDS, "writing", lambda record, rows: rows) or ()
for row in rows:
    print(f"{row.name:40s} pieces {row.value:6.2f} {row.unit}, {row.peer} {row.peer_value:6.2f}")
texts = next((row.parameters for row in rows if "text" in row.parameters), {})
for name in ("text", "peer's text"):
    print(f"\n{name}:", texts.get(name, "no record yet, see the command above"))

# %% [markdown]
# Bits are those of text that neither has seen, for each *character*, $-\log_2 p$: so both can be compared. The words counted are those of three letters or more, in 16 texts like these, that occur in the text for training. In the record, pieces predict better, 2.16 bits for each character against 2.50, and yet fewer of the words that they write exist: 75 to 78 % against 89 to 91. (One that writes only frequent words does well by this count, too.) Neither writes sentences that hold.
#
# ## Which way? A planner
#
# A step of $m$ micro-batches through $p$ stages takes $m + p - 1$ slots, each of arithmetic, of tensor ranks' sums, of a message between stages; then the replicas average:
#
# $$T \approx (m + p - 1)\,\Big(\frac{3F}{t\,s} + T_{tensor} + T_{pipeline}\Big) + T_{data}, \qquad \text{each message } \alpha + \beta b$$
#
# $F$ are the operations of a stage's forward pass for one micro-batch (a backward pass has twice as many), $s$ a rank's operations in a second. `helpers/sharded/planner.py` adds what is easily forgotten: groups that cross a host's link *at the same time* share it.
#
# Here are two hosts with four ranks each, a link of 100 Mbit/s between them, ranks paced to $2.4 \cdot 10^8$ operations a second (a laptop has fewer than eight cores; arithmetic, messages and waiting are real). Each stretch of arithmetic between two messages is paced by itself: else a rank would wait in a message for another that has to share its core, and the link would get the blame. What a message inside a host costs is measured first, on eight ranks that share your cores; $\beta$ between hosts is the link's. Predicted, then run:

# %%
alpha, beta = eight.run(ways.link, 1 << 14, timeout=60)[0]  # 16 KB: a tensor rank's messages
pair = Network(hosts=2, rate=chosen.slow)
hosts = start(8, pair)
inside, between = Link("memory", alpha, beta), Link("100 Mbit/s", alpha, 1 / pair.payload)
machine = planner.Machine(chosen.speed, inside, between, pair.places(8))
print(f"a message in memory, between ranks that share your cores: α = {1e3 * alpha:.2f} ms", end="")
print(f", β = {1e6 * beta:.3f} ms for each KB; between hosts β = {1e6 * between.beta:.3f}")
BATCH = 16
layouts = [(Layout(8), 1), (Layout(2, 1, 4), 1), (Layout(2, 4, 1), 4), (Layout(1, 2, 4), 4), (Layout(2, 2, 2), 2)]  # fmt: skip
plans = [planner.predict(config, layout, machine, BATCH, m) for layout, m in layouts]
measured, held = [], []
for layout, m in layouts:
    found = hosts.run(runs.timed, config, layout, BATCH, m, chosen.speed, 2, timeout=120)
    measured.append(max(seconds for seconds, _, _ in found))
    held.append(max(kept for _, kept, _ in found))
_ = plots.steps(plans, measured)

# %%
print("data × pipeline × tensor   predicted    measured   ratio   kB kept: predicted, counted")
for plan, seconds, counted in zip(plans, measured, held, strict=True):
    most = max(
        planner.stage_parameters(config, pieces, plan.layout.tensor)
        for pieces in planner.stage_pieces(config, plan.layout.pipeline)
    )
    kept = most * zero.at_rest(plan.layout.shard, plan.layout.data).total
    print(
        f"{plan.layout!s:24s}{1e3 * plan.seconds:9.0f} ms{1e3 * seconds:9.0f} ms"
        f"{seconds / plan.seconds:8.2f}{kept / 1e3:19.0f}{counted / 1e3:9.0f}"
    )

# %% [markdown]
# Where do the largest ratios stand on your machine? The formula gives each message its $\alpha + \beta b$, and knows nothing of two ranks that have to be awake at the same moment on cores that eight share; what makes a ratio large is not isolated here. Which parts the bars are made of says what the *prediction* differs by: replicas send all gradients over the slow link; with tensor parallelism inside each host only sums between two replicas cross it.
#
# And the second prediction: four parts of every matrix inside a host, or the same with neighbours on different hosts.

# %%
seconds = {"block": measured[1]}
crossed = start(8, Network(hosts=2, rate=chosen.slow, placement="cyclic"))
found = crossed.run(runs.timed, config, Layout(2, 1, 4), BATCH, 1, chosen.speed, 2, timeout=120)
seconds["cyclic"] = max(one for one, _, _ in found)
crossed.stop()
guess.answer(
    "a step with matrices cut across hosts ÷ inside hosts", seconds["cyclic"] / seconds["block"]
)

# %% claims="13-placement"
claims.evidence("13-placement")

# %% [markdown]
# ### Project: place it better
#
# *Difficulty ●●●, 30 minutes.* Write a function that places a model on a machine's ranks: it returns a `Layout` and a number of micro-batches (1, 2 or 4) that fit the machine's memory and are predicted to be within 2 % of the fastest. `planner.predict(config, layout, machine, batch, micro)` gives a plan with `seconds` and `memory`, and raises ValueError for what does not divide. ZeRO's stages 0 and 1 are allowed. It is checked on machines that you have not seen. Then it places this notebook's model on the two hosts, if each rank had 3.1 MB for parameters, gradients, Adam and activations, and your layout is run against those of the five above that fit.
#
# <details><summary>Hint</summary>
#
# Three loops over the divisors of `len(machine.places)`, one over stages of ZeRO, one over micro-batches: few enough to try all. Leave out what needs more than `machine.memory`.
#
# </details>


# %% exercise="place"
def my_place(config, machine, batch):
    """Return (Layout, micro-batches)."""
    # BEGIN SOLUTION
    n, best, found = len(machine.places), float("inf"), None
    for d in range(1, n + 1):
        for p in range(1, n + 1):
            for shard in (0, 1):
                for m in (1, 2, 4):
                    if n % (d * p):
                        continue
                    layout = Layout(d, p, n // (d * p), shard)
                    try:
                        plan = planner.predict(config, layout, machine, batch, m)
                    except ValueError:
                        continue
                    if plan.memory <= machine.memory and plan.seconds < best:
                        best, found = plan.seconds, (layout, m)
    return found
    # END SOLUTION


# %% check="place" points=5
check.place(my_place)

# %%
from dataclasses import replace

tight = replace(machine, memory=3.1e6)
yours = my_place(config, tight, BATCH) if check.place.passed(my_place) else None
if yours:
    plan = planner.predict(config, yours[0], tight, BATCH, yours[1])
    found = hosts.run(runs.timed, config, yours[0], BATCH, yours[1], chosen.speed, 2, timeout=120)
    took = max(seconds for seconds, _, _ in found)
    print(f"yours, {yours[0]}, {yours[1]} micro-batches: {1e3 * took:.0f} ms", end=", ")
    print(f"predicted {1e3 * plan.seconds:.0f} ms and {plan.memory / 1e6:.2f} MB")
for plan, took in zip(plans, measured, strict=True):
    print(f"{plan.layout!s:12s}{1e3 * took:6.0f} ms, {plan.memory / 1e6:.2f} MB", end="")
    print("" if plan.memory <= tight.memory else ": does not fit")
hosts.stop()

# %% [markdown]
# ## In one run with PyTorch's own
#
# `torch.distributed` has all of this: `fully_shard` (ZeRO 3), `DTensor` with `parallelize_module` (columns and rows), `torch.distributed.checkpoint`. They run on the course's MPI backend. The same model, the same rows; what they leave, against ours:

# %%
from helpers.sharded import peers

for name, off, ours, theirs in cluster.run(peers.compare, config, 8, timeout=170)[0]:
    print(
        f"{name:34s} largest difference {off:.0e}   ours {ours:6.1f} ms   theirs {theirs:6.1f} ms"
    )

# %% [markdown]
# ## What breaks
#
# **f and g swapped.** With $f$ as plain copy and a sum on both ways at the end (what differentiating an allreduce gives), the loss is right, and the gradient wrong on every rank:

# %%
broken = cluster.run(two_matrices, lambda g, add: g, lambda g, add: add(g), timeout=30)[0]
print(f"y differs from one process by {broken[0]:.0e}, the gradient by {broken[1]:.2f}")

# %% [markdown]
# Nothing warns: the loss is right, and each step follows a wrong gradient (what training makes of it is not measured here). Compare gradients with one process before anything else.
#
# **A rank that saves alone.** `if rank == 0: save()` is right for replicas. In shards to save is to gather, and the others have to be there:

# %% tags=["raises-exception"]
# %%ranks cluster --timeout 4
import numpy as np

shard = np.full(3, float(rank))
if rank == 0:
    whole = np.empty(12)
    comm.Allgather(shard, whole)
print("on to the next epoch")

# %% [markdown]
# **Seeds of dropout.** What all tensor ranks hold alike (the stream) must be dropped alike; what each has for itself (its heads) must be dropped differently:

# %%
for mistake in ("", "different", "equal"):
    apart, common = cluster.run(ways.dropout, mistake, timeout=30)[0]
    name = {"": "as it should be", "equal": "one seed everywhere"}.get(
        mistake, "a seed for each rank"
    )
    print(f"{name:22s} copies differ by {apart:.2f}; two ranks' heads drop {common:.0%} in common")

# %% [markdown]
# With a seed for each rank everywhere, the copies of the stream part. With one seed everywhere, all ranks' heads lose the same places: half of dropped places should be common at a rate of one half, not all.
#
# **An all-gather out of order.** Ranks in pairs share two blocks of equal size; the odd rank gathers them in the other order (a branch that it alone takes). Every message finds a receiver:

# %%
# %%ranks cluster
import numpy as np

pair = comm.Split(rank // 2, rank)
blocks = {name: np.array([value + rank]) for name, value in (("first", 10.0), ("second", 20.0))}
for name in ("first", "second") if rank % 2 == 0 else ("second", "first"):
    whole = np.empty(2)
    pair.Allgather(blocks[name], whole)
    if rank < 2:
        print(name, whole)
pair.Free()

# %% [markdown]
# Rank 0 has put together a block of its own first half and of rank 1's second block. Sizes fit, so MPI cannot know. PyTorch's `fully_shard` fixes the order at the first pass for this reason; ours follows the list of units.

# %% [markdown]
# ## What the sources say, what we measured
#
# | claim | here |
# |---|---|
# | data against model parallelism (each rank the whole model, or a part of it) | both at once: 2 × 2 × 2 ranks give one process's losses, printed above to 14 digits |
# | ZeRO: 16 bytes for each parameter become $16/N$ | counted on ranks at all stages, equal to the formula but for rests |
# | ZeRO 1 and 2 send no more than replicas, stage 3 half as much again | equal to the formula, by trace |
# | one allreduce for a pair of matrices each way | messages equal to the formula, by trace |
# | tensor parallelism belongs inside a host | it does where the link between hosts is slow (`13-placement`: 50 and 200 Mbit/s); from 400 Mbit/s on nothing was lost here |
# | layers on two devices, micro-batches through them | notebook 11 has the schedules; here as one axis of the mesh |

# %% [markdown]
# ## Summary
#
# - Stage 3 of ZeRO keeps $16/N$ bytes a parameter, and sends $3(N-1)/N \cdot 4\Psi$ bytes where replicas send two thirds of it. What is kept can be cut without cutting arithmetic.
# - A pair of matrices by columns and rows needs one sum forwards ($g$) and one backwards ($f$). Swapped, the loss stays right.
# - A softmax, and so attention and the loss, can be taken in pieces with two numbers for each row.
# - ZeRO's bytes grow with parameters, tensor parallelism's with activations: the axis with most messages belongs on the fastest link.
# - A checkpoint that names parameters as the whole model does can be read by any mesh.
#
# **In practice**: `torch.distributed.fsdp.fully_shard`, DeepSpeed (ZeRO), Megatron-LM (tensor, sequence, pipeline, experts), `torch.distributed.tensor`, JAX's `shard_map` and `pjit`; picotron and nanotron are short enough to read.
#
# **References**
#
# - Rajbhandari et al. (2020), *ZeRO*: the stages and their bytes. Zhao et al. (2023), *PyTorch FSDP*: gather, use, free, prefetch.
# - Shoeybi et al. (2019), *Megatron-LM*: $f$ and $g$. Korthikanti et al. (2022), *Reducing activation recomputation*: sequence parallel.
# - Milakov and Gimelshein (2018), *Online normalizer calculation for softmax*; Liu, Zaharia, Abbeel (2023), *Ring attention*.
# - Lepikhin et al. (2020), *GShard*; Fedus et al. (2021), *Switch transformers*: experts, capacity, balance.
# - Huang et al. (2019), *GPipe*: micro-batches. Narayanan et al. (2021), *Efficient large-scale language model training*: all three axes.
# - The scaling book (Austin et al., 2025) and the Ultra-Scale Playbook (Hugging Face, 2025): the same arithmetic on TPUs and on GPUs.
#
# **Next**: [03_gru_derivation](03_gru_derivation.ipynb) begins again with one model on one process: where its gradients come from.

# %%
import shutil

shutil.rmtree(folder, ignore_errors=True)
for one in (cluster, far, eight):
    one.stop()
