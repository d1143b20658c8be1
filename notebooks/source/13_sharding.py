# %% [markdown]
# # Split one model over eight ranks
#
# In this notebook you cut a transformer in five ways: its memory, its matrices, its sequence, its experts and its layers. You compare each with one process, to the last digits. Then you place the model on eight ranks by a prediction, and a run confirms it.

# %%
from helpers.plots import sharded as plots
from helpers.plots import style
from helpers.sharded import zero

style.use()
_ = plots.stage_bytes([vars(zero.at_rest(stage, 8)) for stage in zero.STAGES])

# %% [markdown]
# Bytes that each of eight ranks keeps for each parameter of a model trained with Adam in float32. This notebook explains these four bars first.
#
# **You will be able to**
#
# - derive the bytes of ZeRO's stages, and count them on ranks;
# - say where a split model needs a sum in its forward pass, and where in its backward pass;
# - merge two softmaxes, and compute a loss whose scores no rank has completely;
# - count the messages of each way to split, and tell from a link's speed which to avoid;
# - save a model on eight ranks and continue with four, or with one.
#
# **You need** notebooks [01](01_mpi_basics.ipynb), [02](02_sgd_sync_async.ipynb) (gradients averaged over replicas) and [08](08_allreduce_animation.ipynb) (the ring), and what attention is. *Time:* 130 minutes, of which your machine works for two; the project takes another 30. *Cores:* 2 or more. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | shape or unit |
# |---|---|---|
# | $N$ | ranks that share something | 1 |
# | $\Psi$ | parameters of the whole model | 1 |
# | $B$, $T$ | sequences in a batch, positions (tokens) in a sequence | 1 |
# | $C$, $H$, $V$ | width of the stream, attention heads, tokens in the vocabulary | 1 |
# | $x$ | the residual stream: the activations that pass from block to block | $(B, T, C)$ |
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
# > **Predict.** (1) In the figure, eight ranks keep 2 bytes for each parameter if *everything* is cut. How many bytes do four ranks keep? And how many times as many bytes does a rank send in a step as it would as a replica? (2) Two hosts with four ranks each are joined by a slow link. Each matrix is cut over four ranks. Which is slower, and by what factor: all four ranks on one host, or two on each?

# %%
guess["bytes for each parameter, all cut, 4 ranks"] = ...
guess["bytes sent, all cut ÷ replicas"] = ...
guess["a step with matrices cut across hosts ÷ inside hosts"] = ...

# %% [markdown]
# ## Four numbers on four ranks
#
# A model has four parameters $w = (1, 2, 3, 4)$, and each of four ranks keeps one. The loss of a sample $x$ is $\frac12 (w \cdot x)^2$, and its gradient is $(w \cdot x)\, x$. Rank $r$ has a sample of its own: a vector of four numbers, all equal to $r$. To compute, a rank needs all of $w$ for a moment. Of the mean gradient, it needs only the number for its own parameter.

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
# $w \cdot x = 10 r$, so the gradients are $10 r^2$: 0, 10, 40 and 90. Their mean is 35, so each parameter has moved by 0.35. An allreduce would have sent the mean of all four numbers to all four ranks. An allreduce consists of two halves: a *reduce-scatter* (each rank gets the sum for its part) and an *all-gather* (every rank gets all parts). Here we use the reduce-scatter after the backward pass, and the all-gather before the next forward pass.
#
# ## Cut the memory: ZeRO
#
# [Replicas](glossary.md#replica) keep everything $N$ times. Adam in float32 keeps 4 bytes for each parameter, 4 for its gradient and 8 for its two moments. *ZeRO* (Rajbhandari et al., 2020) cuts them into [shards](glossary.md#shard) in three stages. It starts with what takes most memory and costs least to cut:
#
# | stage | cut into $N$ | bytes for each parameter |
# |---|---|---|
# | 0 | nothing | $4 + 4 + 8$ |
# | 1 | moments | $4 + 4 + 8/N$ |
# | 2 | and gradients | $4 + (4 + 8)/N$ |
# | 3 | and parameters | $(4 + 4 + 8)/N$ |
#
# In mixed precision, parameters and gradients take 2 bytes each and the optimizer takes 12. The sum is 16 again, and stage 3 again keeps $16/N$.
#
# We train our transformer on four ranks at each stage. Every rank adds up the bytes of everything that it holds at the moment of the optimizer's step:

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
# The losses agree. The diamonds (counted) lie on the bars (formula), or slightly above where $N$ does not divide a size. Stages 1 and 2 send no more than replicas do. Stage 3 gathers the parameters twice, once for each pass, and so sends half as much again.
#
# Does the operating system see the same? We take a larger model, so that Python's own memory matters less, and measure how much each process grows:

# %%
large = Config(context=16, layers=4, heads=4, width=256)
grown = {s: max(cluster.run(runs.process_bytes, large, s, timeout=120)) for s in (0, 3)}
for stage, size in grown.items():
    print(f"stage {stage}: {size / parameter_count(large):.1f} resident bytes for each parameter")

# %% [markdown]
# (The processes grow by more than the formula says: they also hold activations, messages under way, and memory that the allocator keeps for later.)
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
# *Difficulty ●●○, 12 minutes.* All ranks have the same `values` (a NumPy array whose length is a multiple of the number of ranks). Each rank has the `gradient` of its own samples. Each rank updates only its shard, by `rate` times the mean gradient. Then return all values. No rank may ever hold the whole mean gradient, so do not use an allreduce.
#
# <details><summary>Hint</summary>
#
# Do as with the four numbers above, with a shard in place of a number: `comm.Reduce_scatter_block(gradient, part)`, then `comm.Allgather(shard, whole)`.
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
# Your step fits a line through points that are spread over the ranks, $y = 3x + 1$, with two useless inputs besides:


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
# ### Gather, compute, free; and gather ahead
#
# At stage 3, a rank holds all parameters of a block only while the block computes. One page of code does this, `helpers/sharded/unit.py`, on the flat buffers of notebook 02; hooks around each block call it. To make it visible, four ranks run on four hosts with slow links, and each pass through a block is [paced](glossary.md#paced) to 15 ms (there are fewer cores than ranks). First, communication and computation take turns. Then each block's parameters are *prefetched* while the block before it computes:


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
# The picture shows two of the four ranks. The upper lane of a rank is computation, the lower lane is communication. Without prefetching, a gather (hatched) always precedes the block that needs it. With prefetching, it runs while the block before computes. The remaining idle time is communication with nothing to overlap: the first gather, the last reduce-scatter, and the part that exceeds 15 ms in the backward pass, where a block both gathers and scatters.

# %%
claims.evidence("13-prefetch")

# %% [markdown]
# ## Cut the matrices: tensor parallelism
#
# ZeRO cuts what a rank *keeps*; every rank still computes whole layers. [Tensor parallelism](glossary.md#tensor-parallel) also cuts the computation. Take two matrices with a nonlinearity between them, $y = \varphi(xA)\,B$. Cut $A$ by **columns** and $B$ by **rows**:
#
# $$A = (A_1\; A_2), \quad B = \begin{pmatrix} B_1 \\ B_2 \end{pmatrix}, \qquad y = \varphi(xA_1)\,B_1 + \varphi(xA_2)\,B_2$$
#
# $\varphi$ works on each number by itself, so each rank can apply it to its own columns. The forward pass needs one communication: the sum over ranks at the end. Attention is such a pair too, with *heads* in place of $\varphi$. Each rank computes $H/N$ heads.
#
# What about the backward pass? Megatron (Shoeybi et al., 2019) names the two places where the ranks meet:
#
# | | forward | backward |
# |---|---|---|
# | $f$, where the pair begins | copy | ? |
# | $g$, where it ends | sum over ranks | ? |
#
# You fill in the question marks.

# %% [markdown]
# ### Exercise 3: the backward passes
#
# *Difficulty ●●○, 8 minutes.* Write the backward pass of $f$ and of $g$. `gradient` is the tensor that arrives from the layer above. `add(x)` returns the sum of `x` over the ranks.
#
# <details><summary>Hint</summary>
#
# At $g$ arrives the gradient of a $y$ that is the same on all ranks: does a rank have it already? At $f$ arrives the gradient that flowed through *this rank's* columns.
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
# $x$ enters the term of every rank, so its gradient is a *sum over ranks*. $y$ is the same on all ranks, so every rank has its gradient already. The library writes both as functions of `torch.autograd` that take a communicator (`helpers/sharded/conjugate.py`); `all_reduce` is notebook 08's ring:

# %%
import inspect

from helpers.sharded import conjugate

print(inspect.getsource(conjugate._Copy))
print(inspect.getsource(conjugate._Sum))


# %% [markdown]
# Your two functions take the library's place: two matrices cut over four ranks, compared with both matrices in one process. (Until your answer is right, the library's own are used.)


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
# ### A loss whose scores no rank has completely
#
# The last layer gives a score for each of $V$ tokens. Cut by columns, rank $r$ has $V/N$ of the scores. Gathering all of them would send $B\,T\,V$ numbers. But $-\ln p = \ell - z_{target}$ with $\ell = \ln \sum_v e^{z_v}$, and this sum can be computed in parts. Three numbers for each position suffice: the largest score, a sum, and the target's score.
#
# ### Exercise 4: the loss
#
# *Difficulty ●●○, 12 minutes.* For one position, `scores` are this rank's part of the scores. All parts have the same length and follow the order of the ranks. `target` is a token of the whole vocabulary. Return $-\ln p$ of the target, the same on all ranks. Scores may be as large as 1000. Send only a few numbers, however many scores there are.
#
# <details><summary>Hint</summary>
#
# Subtract the largest score of *all* ranks before you take any exponential: `comm.allreduce(x, op=MPI.MAX)`. The target lies in one rank's part, at `target - comm.Get_rank() * len(scores)`; the other ranks add 0.
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
# ### Between the matrices: sequence parallelism
#
# Between two pairs of matrices, every rank has the whole residual stream, normalizes it, and keeps a copy for the backward pass. This work is the same on all ranks. An allreduce is a reduce-scatter and an all-gather, so we can put the normalization between them. The reduce-scatter ends a pair ($\bar g$); each rank then normalizes and keeps only $T/N$ positions; the all-gather begins the next pair ($\bar f$). The activations between pairs shrink to $1/N$ (Korthikanti et al., 2022). The same number of bytes is sent, apart from small gradients of norms and biases. The backward pass of $\bar f$ is $\bar g$, and that of $\bar g$ is $\bar f$.
#
# ## Cut the sequence: ring attention
#
# If the *sequence* does not fit, each rank takes $T/N$ positions. Only attention then needs the keys and values of other ranks, and these travel around a ring. So a rank has to compute a softmax over keys that arrive piece by piece. A piece gives an output $o_i$ and $\ell_i = \ln\sum e^{s}$. Two pieces merge into one:
#
# $$\ell = \ln(e^{\ell_1} + e^{\ell_2}), \qquad o = e^{\ell_1 - \ell}\, o_1 + e^{\ell_2 - \ell}\, o_2$$
#
# ### Exercise 5: merge
#
# *Difficulty ●●○, 8 minutes.* `o1` and `o2` have the shape (queries, D), `l1` and `l2` (queries,). Scores may be as large as 1000. If a query sees nothing of a piece, its $\ell$ is $-\infty$. All are NumPy arrays; return $(o, \ell)$.
#
# <details><summary>Hint</summary>
#
# `np.logaddexp` does not overflow. $\ell_i \le \ell$, so $e^{\ell_i - \ell}$ does not overflow either.
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
# Your merge (until it is right, the library's) on a ring of four ranks with six positions each:


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
# (Because of `if source <= rank`, rank 3 works in all four steps and rank 0 in one. Ring attention in production gives each rank an early and a late piece of the sequence, which balances the work.)
#
# ## Cut the experts
#
# A *mixture of [experts](glossary.md#expert)* has several perceptrons, and each token uses one or two of them. A gate scores the experts. An *all-to-all* sends each token to the rank of its best expert, and another returns the answer, multiplied by the gate's probability. Each rank holds $E/N$ experts, and a token costs the computation of one expert. The price: message sizes vary, and experts get unequal loads. A *capacity* bounds how many tokens an expert takes. A token beyond the capacity skips the expert, and only the residual connection carries it on.
#
# ### Exercise 6: capacity
#
# *Difficulty ●○○, 5 minutes.* `chosen[i]` is the expert of token $i$. Every expert takes its first `capacity` tokens. Return the indices of all tokens that are taken, in order.
#
# <details><summary>Hint</summary>
#
# Go through the tokens and count for each expert.
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
# A gate that was just initialized, and one that was trained for a while with the load-balancing loss $E \sum_e (\text{share of tokens})_e\, (\text{mean probability})_e$. This loss is 1 if all experts are equally busy, and $E$ if one takes all tokens. Your function decides which of their tokens are taken:

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
# The tokens here share a common direction, which makes an untrained gate prefer some experts; without it, the gate is balanced before any training. Other seeds:

# %%
claims.evidence("13-balance")

# %% [markdown]
# ## What each way costs
#
# One forward and one backward pass on four ranks, split in each of the ways. The table shows the messages of a rank, counted from a trace, beside the formulas of `helpers/sharded/counts.py`. It also shows how long a rank waited for messages: through this machine's memory, and through links of 100 Mbit/s.

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
# The messages agree exactly. (The bytes of experts depend on the gate; the formula assumes that all experts are equally busy. Attention and experts are measured as parts, once for each block.) The bytes of ZeRO grow with the *parameters* and do not depend on the batch. The bytes of tensor parallelism grow with the *activations*: four allreduces of the stream for each block. So tensor parallelism needs the fastest link.
#
# ### Exercise 7: from which batch on
#
# *Difficulty ●○○, 6 minutes.* At stage 3 of ZeRO, a rank sends $3\frac{N-1}{N}\Psi$ numbers in a step. With tensor parallelism it sends $2\frac{N-1}{N}$ times the stream, $B\,T\,C$ numbers, in each of $4L + 2$ allreduces ($L$ blocks, the embedding, the last layer; the loss sends little). Return the number $B$ of sequences at which both are equal, not rounded.
#
# <details><summary>Hint</summary>
#
# Set both equal: $N$ cancels.
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
# A mesh of $2 \times 2 \times 2$: two replicas of two pipeline stages, each matrix cut in two, and Adam's moments cut between the replicas (ZeRO 1). A rank belongs to three small communicators, one along each axis. First we compare with one process, in float64:

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
# Then we train in float32 on Debian's package descriptions, character by character. Half of the steps run on eight ranks, and then the model is saved:

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
# Each part of the model is written once, under the name that its parameter has in the *whole* model; the list of parts is written last. Therefore any other mesh can cut the model anew. The other half of the steps run on four ranks, split in another way:

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
# The curve continues where it was. (Adam overshoots in the first ten steps, at this rate without warm-up; the one process above does the same.) Finally, one rank writes text:

# %%
from helpers.models.writing import generate

size, state = checkpoint.read(folder / "four")
model = transformer(size)
model.load_state_dict({name: kept["value"] for name, kept in state.items()})
print(generate(model, "This package ", count=240, context=size.context))

# %% [markdown]
# After a few seconds of training, the model has learned how long words are and which letters are frequent. It writes hardly any word.
#
# What does it take to write words? A minute of one process on two cores, and a wider model. Do *tokens that are pieces of words* help? *Byte-pair encoding* (Sennrich et al., 2016; `helpers/datasets/subwords.py`) begins with the 96 characters and repeatedly makes the most frequent pair of neighbours one token. The same text then has fewer tokens. We compare with a model of characters that is trained for about as long. Three seeds, from the record of `make bench SUITE=writing`:

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
# Bits are $-\log_2 p$ for each *character* of text that neither model has seen, so both models can be compared. The words counted have three letters or more; *existing* words occur in the training text. In the record, the model of pieces predicts better, 2.16 bits for each character against 2.50. But fewer of the words that it writes exist, 75 to 78 % against 89 to 91 %. (A model that writes only frequent words also does well by this count.) Neither model writes coherent sentences.
#
# ## Which way? A planner
#
# With $m$ micro-batches and $p$ stages, a step takes $m + p - 1$ slots. A slot consists of computation, the sums of tensor parallelism, and a message between stages. After the slots, the replicas average:
#
# $$T \approx (m + p - 1)\,\Big(\frac{3F}{t\,s} + T_{tensor} + T_{pipeline}\Big) + T_{data}, \qquad \text{each message } \alpha + \beta b$$
#
# $F$ is the number of operations of a stage's forward pass for one micro-batch (the backward pass has twice as many), and $s$ is a rank's operations per second. `helpers/sharded/planner.py` also considers that groups which cross a host's link *at the same time* share it.
#
# Here are two hosts with four ranks each, and a link of 100 Mbit/s between them. Ranks are paced to $2.4 \cdot 10^8$ operations per second, because a laptop has fewer than eight cores; computation, messages and waiting are real. We pace each computation between two messages separately, because otherwise waiting for a shared core would look like time on the link. The cost of a message inside a host is measured first, on eight ranks that share your cores. Between hosts, $\beta$ is the link's. First the prediction, then the run:

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
# Where are the largest ratios on your machine? The formula gives each message its $\alpha + \beta b$. It does not know that two ranks have to be awake at the same moment on cores that eight ranks share; whether this makes the ratios large, we did not isolate. The colours of the bars show why the *predictions* differ: replicas send all gradients over the slow link, while with tensor parallelism inside each host only sums between two replicas cross it.
#
# Now the second prediction: each matrix in four parts, all inside a host, or with neighbours on different hosts.

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
# *Difficulty ●●●, 30 minutes.* Write a function that places a model on a machine's ranks. It returns a `Layout` and a number of micro-batches (1, 2 or 4). The layout must fit into the machine's memory, and its predicted time must be within 2 % of the fastest that fits. `planner.predict(config, layout, machine, batch, micro)` returns a plan with `seconds` and `memory`; it raises ValueError for sizes that do not divide. ZeRO's stages 0 and 1 are allowed. The check uses machines that you have not seen. Afterwards your function places this notebook's model on the two hosts, with 3.1 MB on each rank for parameters, gradients, Adam and activations. Your layout then runs against those of the five above that fit.
#
# <details><summary>Hint</summary>
#
# Three loops over the divisors of `len(machine.places)`, one over the stages of ZeRO and one over micro-batches are few enough to try all combinations. Leave out those that need more than `machine.memory`.
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
# `torch.distributed` has all of this: `fully_shard` (ZeRO 3), `DTensor` with `parallelize_module` (columns and rows), `torch.distributed.checkpoint`. They run on the course's MPI backend. The table compares what they leave on each rank with what ours leave, for the same model and the same rows:

# %%
from helpers.sharded import peers

for name, off, ours, theirs in cluster.run(peers.compare, config, 8, timeout=170)[0]:
    print(
        f"{name:34s} largest difference {off:.0e}   ours {ours:6.1f} ms   theirs {theirs:6.1f} ms"
    )

# %% [markdown]
# ## What breaks
#
# **f and g swapped.** Let $f$ be a plain copy in both passes, and $g$ a sum in both passes (this is what differentiating an allreduce gives). The loss is right, and the gradient is wrong on every rank:

# %%
broken = cluster.run(two_matrices, lambda g, add: g, lambda g, add: add(g), timeout=30)[0]
print(f"y differs from one process by {broken[0]:.0e}, the gradient by {broken[1]:.2f}")

# %% [markdown]
# Nothing warns you: the loss is right, and each step follows a wrong gradient (we did not measure what becomes of the training). Compare gradients with one process before anything else.
#
# **A rank that saves alone.** `if rank == 0: save()` is right for replicas. With shards, saving means gathering, and the other ranks have to take part:

# %% tags=["raises-exception"]
# %%ranks cluster --timeout 4
import numpy as np

shard = np.full(3, float(rank))
if rank == 0:
    whole = np.empty(12)
    comm.Allgather(shard, whole)
print("on to the next epoch")

# %% [markdown]
# **Seeds of dropout.** The residual stream is the same on all tensor-parallel ranks, so all must drop the same places of it. Each rank's heads are its own, so each rank must drop different places of them:

# %%
for mistake in ("", "different", "equal"):
    apart, common = cluster.run(ways.dropout, mistake, timeout=30)[0]
    name = {"": "as it should be", "equal": "one seed everywhere"}.get(
        mistake, "a seed for each rank"
    )
    print(f"{name:22s} copies differ by {apart:.2f}; two ranks' heads drop {common:.0%} in common")

# %% [markdown]
# If each rank uses its own seed everywhere, the copies of the stream differ. If all ranks use one seed everywhere, all drop the same places of their heads: at a rate of one half, two ranks should have half of the dropped places in common, not all.
#
# **An all-gather out of order.** Pairs of ranks share two blocks of equal size. The odd rank takes a branch in which it gathers them in the other order. Every message finds a receiver:

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
# Rank 0 has joined its own half of the first block with rank 1's half of the second block. The sizes fit, so MPI cannot notice. Therefore PyTorch's `fully_shard` fixes the order in the first pass; ours follows the list of units.

# %% [markdown]
# ## What the sources say, what we measured
#
# | claim | here |
# |---|---|
# | data against model parallelism (each rank has the whole model, or a part of it) | both at once: 2 × 2 × 2 ranks give the losses of one process, printed above to 14 digits |
# | ZeRO: 16 bytes for each parameter become $16/N$ | counted on ranks at all stages, equal to the formula where $N$ divides the sizes |
# | ZeRO 1 and 2 send no more than replicas, stage 3 half as much again | equal to the formula, by trace |
# | one allreduce for a pair of matrices in each pass | messages equal to the formula, by trace |
# | tensor parallelism belongs inside a host | it does where the link between hosts is slow (`13-placement`: 50 and 200 Mbit/s) |
# | layers on two devices, micro-batches through them | notebook 11 has the schedules; here the pipeline is one axis of the mesh |

# %% [markdown]
# ## Summary
#
# - Stage 3 of ZeRO keeps $16/N$ bytes for each parameter and sends $3(N-1)/N \cdot 4\Psi$ bytes, half as much again as replicas. It cuts memory without cutting computation.
# - A pair of matrices, cut by columns and rows, needs one sum in the forward pass ($g$) and one in the backward pass ($f$). With $f$ and $g$ swapped, the loss is still right and the gradients are wrong.
# - A softmax can be computed piece by piece with two numbers for each row. So can attention and the loss.
# - The bytes of ZeRO grow with the parameters, and the bytes of tensor parallelism with the activations. The axis that sends most belongs on the fastest link.
# - A checkpoint that names parameters as the whole model does can be read by any mesh.
#
# **In practice**: `torch.distributed.fsdp.fully_shard`, DeepSpeed (ZeRO), Megatron-LM (tensor, sequence, pipeline, experts), `torch.distributed.tensor`, JAX's `shard_map` and `pjit`; picotron and nanotron are short enough to read.
#
# **References**
#
# - Rajbhandari et al. (2020), *ZeRO*: the stages and their bytes. Zhao et al. (2023), *PyTorch FSDP*: gather, compute, free, prefetch.
# - Shoeybi et al. (2019), *Megatron-LM*: $f$ and $g$. Korthikanti et al. (2022), *Reducing activation recomputation*: sequence parallelism.
# - Milakov and Gimelshein (2018), *Online normalizer calculation for softmax*; Liu, Zaharia, Abbeel (2023), *Ring attention*.
# - Lepikhin et al. (2020), *GShard*; Fedus et al. (2021), *Switch transformers*: experts, capacity, balance.
# - Huang et al. (2019), *GPipe*: micro-batches. Narayanan et al. (2021), *Efficient large-scale language model training*: all three axes.
# - The scaling book (Austin et al., 2025) and the Ultra-Scale Playbook (Hugging Face, 2025): the same calculations for TPUs and GPUs.
#
# **Next**: [03_gru_derivation](03_gru_derivation.ipynb) begins again with one model on one process, and asks where its gradients come from.

# %%
import shutil

shutil.rmtree(folder, ignore_errors=True)
for one in (cluster, far, eight):
    one.stop()
