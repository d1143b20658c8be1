# %% [markdown]
# # Split one model over eight ranks
#
# Cut a transformer's memory, matrices, sequence and layers over ranks, and check that it still computes the same. Then predict which cut over eight ranks is fastest, and run it.

# %%
from helpers.plots import sharded as plots
from helpers.plots import style
from helpers.sharded.mesh import Layout

style.use()
plots.mesh(Layout(2, 2, 2))

# %% [markdown]
# Each rank (process) is drawn with the whole model: a row is a block of the transformer, a column a quarter of its matrices. Blue is what the rank keeps. Choose a cut (replicas × pipeline stages × parts of each matrix), and click a rank: what does it exchange, and with whom?
#
# **You will be able to**
#
# - derive the bytes of ZeRO's stages, and count them on ranks;
# - say where a split layer needs a sum in each pass;
# - merge two softmaxes, and name the numbers that a split loss needs;
# - count the messages of each way to split, and predict which layout is fastest;
# - save a model on eight ranks and continue with four.
#
# **You need** notebooks [01](01_mpi_basics.ipynb), [02](02_sgd_sync_async.ipynb) and [08](08_allreduce_animation.ipynb), for Lesson 3 also [11](11_pipelines.ipynb), and a transformer's block: [attention](glossary.md#attention) with heads, then a perceptron. *Time:* 140 minutes: three lessons, a project of 20 minutes, and 10 for the rest. Each lesson's cells need only the set-up; Exercise 5 builds on lessons 1 and 2. *Cores:* 2 or more. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning |
# |---|---|
# | $N$ | ranks that share what is cut |
# | $\Psi$ | parameters of the whole model |
# | $B$, $T$ | sequences in a batch, positions (tokens) in a sequence |
# | $C$, $L$, $V$ | width, blocks, tokens of the vocabulary |
# | $x$ | in lessons 2 and 3, the stream: activations between blocks, of shape $(B, T, C)$ |

# %% [markdown]
# ## Set-up

# %%
import tempfile
from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import Markdown

from helpers import claims
from helpers.cluster import Cluster, Network
from helpers.cluster.errors import StartError
from helpers.collectives.cost import Link
from helpers.exercises import sharded as check
from helpers.models.transformer import Config, parameter_count, transformer
from helpers.predictions import Prediction
from helpers.sharded import planner, runs, ways, zero
from helpers.timing import Others

# %load_ext helpers.cluster


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    slow: float = 100e6  # bit/s of a slow link
    speed: float = 2.4e8  # operations in a second, of a paced rank
    batch: int = 16  # sequences in a step of all ranks


chosen = Parameters()
config = Config(vocabulary=96, context=32, layers=4, heads=4, width=64)
PRELOAD = ("torch", "helpers.sharded.runs", "helpers.sharded.ways")
torch.set_num_threads(1)
cluster = Cluster(n=chosen.ranks, preload=PRELOAD)
print(f"the model of this notebook has {parameter_count(config):,} parameters")


# %%
def start(n, network):
    """Start ranks on simulated hosts, or without hosts where this machine cannot make them."""
    try:
        return Cluster(n, network=network, preload=PRELOAD)
    except StartError as error:
        print(f"Without hosts, so links are this machine's memory: {error}")
        return Cluster(n, preload=PRELOAD)


# %% [markdown]
# ## Lesson 1. Must every rank keep the whole model?
#
# *35 minutes.* $N$ [replicas](glossary.md#replica) keep $N$ copies of the parameters, the gradients and Adam's *moments* (its running means of the gradient and of its square). Which of these can be cut into $N$ parts, one on each rank, and how many more bytes must a rank then send?
#
# > **Predict.** In float32, a parameter takes 4 bytes, its gradient 4 and its two moments 8. At *stage 2*, gradients and moments are cut over four ranks. How many bytes does a rank keep for each parameter of the model? At *stage 3*, parameters are cut too: ranks gather them before each pass and free them afterwards. By what factor does a rank then send more bytes in a step than a plain replica?

# %%
kept = Prediction("bytes for each parameter, stage 2, 4 ranks", None)  # your number for None
more_sent = Prediction("bytes sent, stage 3 ÷ replicas", None)

# %% [markdown]
# ### Four numbers on four ranks
#
# A model has four parameters $w = (1, 2, 3, 4)$, and each of four ranks keeps one. Rank $r$ has one sample: a vector $x$ of four numbers, all equal to $r$. Its loss is $\frac12 (w \cdot x)^2$, so its gradient is $(w \cdot x)\, x$. To compute its gradient, the rank needs all of $w$ for a moment: an *allgather* gives every rank all parts. To update its own parameter, it needs one number of the mean gradient: a *reduce-scatter* gives each rank the sum for its own part.

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
# On rank $r$, $w \cdot x = 10 r$, so each number of its gradient is $10 r^2$: 0, 10, 40 or 90. Their mean is 35, and each parameter has moved by 0.35. The two calls are the halves of the allreduce that replicas use.
#
# ### Cut the memory: ZeRO
#
# *ZeRO* (Rajbhandari et al., 2020) cuts parameters (4 bytes each in float32), gradients (4) and moments (8) into [shards](glossary.md#shard), beginning with the moments, half of all bytes:
#
# | stage | cut into $N$ | bytes for each parameter |
# |---|---|---|
# | 0 | nothing | $4 + 4 + 8$ |
# | 1 | moments | $4 + 4 + 8/N$ |
# | 2 | moments, gradients | $4 + (4 + 8)/N$ |
# | 3 | moments, gradients, parameters | $(4 + 4 + 8)/N$ |
#
# We train our transformer for two steps on four ranks at each stage. At the optimizer's step, every rank counts the bytes that it holds:

# %%
zeros = cluster.run(runs.stages, config, batch=8, timeout=120)[0]
psi = zeros[0]["parameters"]
lines = ["| stage | loss | bytes for each parameter: formula | counted "
         "| MB sent in a step: formula | counted |", "|---" * 6 + "|"]  # fmt: skip
for stage, found in enumerate(zeros):
    held, sent = sum(found["held"].values()) / psi, zero.sent(stage, chosen.ranks, psi)
    lines.append(f"| {stage} | {found['loss']:.6f} | {zero.at_rest(stage, 4).total:.2f} "
                 f"| {held:.2f} | {sent / 1e6:.3f} | {found['bytes'] / 1e6:.3f} |")  # fmt: skip
kept.answer(sum(zeros[2]["held"].values()) / psi)
more_sent.answer(zeros[3]["bytes"] / zeros[0]["bytes"])
Markdown("\n".join(lines))

# %%
_ = plots.stage_bytes([{part: n / psi for part, n in found["held"].items()} for found in zeros])

# %% [markdown]
# The counts (bars) equal the formulas, and the second step's losses agree. Stages 1 and 2 send as much as replicas (stage 0): one reduce-scatter and one allgather. Stage 3 needs a second allgather, so it sends 1.5 times as much. (Activations are neither cut nor counted here; [11](11_pipelines.ipynb) counts them, with recomputation too.)
#
# ### Exercise 1: bytes in mixed precision
#
# *Difficulty ●○○, 5 minutes.* In *mixed precision*, parameters and gradients take 2 bytes each. The optimizer keeps three numbers in float32: a copy of the parameter and two moments. The copy is cut with the moments. Return, for a `stage` from 0 to 3, the bytes that each of `ranks` ranks keeps for each parameter of the whole model.
#
# <details><summary>Hint</summary>
#
# Three terms, as in the table; each is divided by `ranks` from some stage on.
#
# </details>


# %% exercise="bytes-of-a-stage"
def my_bytes(stage, ranks):
    """Return bytes for each parameter on one rank."""
    # BEGIN SOLUTION
    parameter = 2 / ranks if stage >= 3 else 2
    gradient = 2 / ranks if stage >= 2 else 2
    optimizer = 12 / ranks if stage >= 1 else 12
    return parameter + gradient + optimizer
    # END SOLUTION


# %% check="bytes-of-a-stage" points=1
check.bytes_of_a_stage(my_bytes)

# %%
for stage in zero.STAGES if check.bytes_of_a_stage.passed(my_bytes) else ():
    needed = my_bytes(stage, 64) * 7e9 / 1e9
    print(f"7 billion parameters on 64 ranks, stage {stage}: {needed:5.1f} GB on each")

# %% [markdown]
# ### Exercise 2: a step in shards
#
# *Difficulty ●●○, 12 minutes.* All ranks have the same `values` (an array of float64 that you may overwrite; the number of ranks divides its length). Each rank has the `gradient` of its own samples. Cut `values` into equal shards. Rank $r$ subtracts `rate` times the mean gradient from shard $r$ only. Return all updated values on every rank. No rank may ever hold the whole mean gradient, or all ranks' whole gradients. So use neither an allreduce nor an allgather of gradients.
#
# <details><summary>Hint</summary>
#
# Use the two calls from the four numbers above. Does a reduce-scatter give a sum or a mean?
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
# Your step now fits $y = 3x + 1$ to points spread over the ranks. Each point has four inputs: $x$, the number 1, and two unrelated numbers. So the weights should become 3, 1, 0 and 0:


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
    print(*(f"{weight + 0:g}" for weight in cluster.run(fit, my_zero_step, timeout=30)[0]))

# %% [markdown]
# ### Gather, compute, free; and gather ahead
#
# At stage 3, a rank can handle blocks *in turn*: gather a block's parameters, compute, free them (`helpers/sharded/unit.py`). Or it can *prefetch*: gather the next block's parameters while a block computes. We run both ways on four simulated hosts with links of 100 Mbit/s, and [pace](glossary.md#paced) each pass through a block to 15 ms. Look for gaps in rank 0's computation (embedding, four blocks, last layer):

# %%
far = start(4, Network(hosts=4, rate=chosen.slow))
with Others() as others:
    recorded = {
        name: far.run(runs.prefetched, config, 8, prefetch, 15.0, timeout=120)[0]
        for name, prefetch in (("in turn", False), ("prefetched", True))
    }
far.stop()

# %%
style.doubt(plots.spans(recorded).figure, others)
plt.show()
in_turn, ahead = (seconds for seconds, _ in recorded.values())
print(f"prefetched, the step is {1 - ahead / in_turn:.0%} shorter")

# %% [markdown] claims="13-prefetch"
# Without prefetching, each block waits for its parameters. With it, most of the forward pass's gathering runs while another block computes. Gaps remain mostly in the backward pass: there a block's gather and reduce-scatter take longer than its 15 ms. We recorded a step both ways on two other links:

# %%
claims.evidence("13-prefetch")

# %% [markdown]
# **Answer.** No: a rank can keep $1/N$ of the parameters, gradients and moments. Cutting moments and gradients sends no further bytes. Cutting the parameters too sends 1.5 times a replica's bytes; prefetching hides part of these messages. *Evidence: bytes held and sent, counted above; the record of prefetching.*

# %% [markdown]
# ## Lesson 2. Where must the parts of a layer meet?
#
# *35 minutes.* ZeRO cuts what a rank *keeps*, but every rank still computes whole layers. Now each rank computes a part of every layer. Where must ranks exchange numbers, and how few numbers suffice?
#
# > **Predict.** Four ranks compute causal attention over 24 positions: rank 0 has the first six, rank 3 the last six. Each position needs one score for itself and one for each earlier position. Divide rank 3's number of scores by rank 0's: what is the ratio?

# %%
uneven = Prediction("scores of rank 3 ÷ scores of rank 0", None)  # your number for None

# %% [markdown]
# ### Cut the matrices: tensor parallelism
#
# Take a *pair* of matrices with a nonlinearity between them, $y = \varphi(xU)\,W$. [Tensor parallelism](glossary.md#tensor-parallel) cuts $U$ by **columns** and $W$ by **rows**. In the picture two ranks share a pair:

# %%
_ = plots.pair(2)

# %% [markdown]
# $$U = (U_0\; U_1), \quad W = \begin{pmatrix} W_0 \\ W_1 \end{pmatrix}, \qquad y = \varphi(xU_0)\,W_0 + \varphi(xU_1)\,W_1$$
#
# $\varphi$ works on each number by itself, so each rank applies it to its own columns. The forward pass needs one communication: the sum over ranks at the end.
#
# A transformer's block has two pairs: attention and perceptron. In attention, $U$ makes queries, keys and values, $\varphi$ works on each *head* by itself, and $W$ is the output matrix. So each rank computes some of the heads.
#
# What about the backward pass? Megatron (Shoeybi et al., 2019) calls the beginning of a pair $f$ and its end $g$:
#
# | | forward | backward |
# |---|---|---|
# | $f$, before $U$ | copy: all ranks take the same $x$ | ? |
# | $g$, after $W$ | sum over ranks | ? |
#
# ### Exercise 3: the backward passes
#
# *Difficulty ●●○, 8 minutes.* Write the backward pass of $f$ and of $g$. `gradient` is the gradient of the output, as this rank has it. Return the gradient of the input, and leave `gradient` unchanged. `add(x)` returns the sum of `x` over the ranks. After $g$, every rank computes the same loss from $y$.
#
# <details><summary>Hint</summary>
#
# $g$ receives the gradient of $y$, which is the same on all ranks: does a rank lack anything? $f$ receives the gradient that flowed through *this rank's* columns only.
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
# <details><summary>Why (when yours are right)</summary>
#
# Every rank's term depends on $x$, so $f$ adds gradients over ranks. Every rank has the gradient of $y$ already, so $g$ copies it.
#
# </details>
#
# Do your functions give the gradient of one process? Four ranks share two matrices:


# %%
def two_matrices(*ways_back):
    from helpers.sharded import conjugate

    comm = runs.world()
    f, g = (lambda x: conjugate.f(x, comm)), (lambda x: conjugate.g(x, comm))  # the library's
    if ways_back:  # operator(forward pass, your backward pass, comm)
        f = conjugate.operator(lambda x, add: x.view_as(x), ways_back[0], comm)
        g = conjugate.operator(lambda x, add: add(x), ways_back[1], comm)
    torch.manual_seed(0)
    U, W, x = torch.randn(6, 8).double(), torch.randn(8, 3).double(), torch.randn(5, 6).double()

    here = x.clone().requires_grad_()  # in one process
    whole = torch.tanh(here @ U) @ W
    whole.square().sum().backward()

    shared = x.clone().requires_grad_()  # in parts: two of eight columns and rows on each rank
    mine = slice(2 * comm.Get_rank(), 2 * comm.Get_rank() + 2)
    y = g(torch.tanh(f(shared) @ U[:, mine]) @ W[mine])
    y.square().sum().backward()
    return (y - whole).abs().max().item(), (shared.grad - here.grad).abs().max().item()


both = (my_f_backward, my_g_backward)
yours = both if check.conjugate_backward.passed(*both) else ()
off = cluster.run(two_matrices, *yours, timeout=30)[0]
print("your functions:" if yours else "the library's functions, until yours are right:")
print(f"y differs from one process by {off[0]:.0e}, the gradient by {off[1]:.0e}")

# %% [markdown]
# ### A loss whose scores are spread over ranks
#
# The last layer computes $V$ scores $z_v$ for each position. If its matrix is cut by columns, each rank has $V/N$ of them. Must ranks gather all scores? No: the loss is $-\ln p_\text{target} = \ell - z_\text{target}$ with $\ell = \ln \sum_v e^{z_v}$. So three allreduces of one number suffice: the largest score (against overflow), the sum of $e^{z_v}$, and the target's score (ranks without it add 0).


# %%
def split_loss(scores, target, comm):
    """Return −ln p of the target from this rank's part of the scores of one position."""
    from mpi4py import MPI  # on a rank: the kernel has no MPI

    top = comm.allreduce(scores.max(), op=MPI.MAX)
    total = comm.allreduce(np.exp(scores - top).sum())
    place = target - comm.Get_rank() * len(scores)
    found = comm.allreduce(scores[place] if 0 <= place < len(scores) else 0.0)
    return top + np.log(total) - found


# %%
def with_a_head(answer):
    comm = runs.world()
    x, y = runs.rows(config, 1, seed=0)
    z = transformer(config)(x)[0, 0].detach().double()
    part = z.numpy().reshape(comm.Get_size(), -1)[comm.Get_rank()]
    mine = answer(part, int(y[0, 0]), comm)
    return mine, torch.nn.functional.cross_entropy(z[None], y[0, :1]).item()


mine, theirs = cluster.run(with_a_head, split_loss, timeout=30)[0]
print(f"loss of the transformer's first token: in parts {mine:.6f}, torch's {theirs:.6f}")
print(f"difference: {abs(mine - theirs):.1g}")

# %% [markdown]
# ### Cut the sequence: ring attention
#
# If a *sequence* does not fit on one rank, each rank takes $T/N$ positions. Only attention needs other positions, so keys and values travel around a ring of ranks. Rank $r$ begins with $K_r, V_r$ of its own positions. Follow them along the arrows (rank 3 sends to rank 0); a rank skips keys that come later than its queries:

# %%
_ = plots.turns(4)

# %% [markdown]
# Can a rank compute a softmax over keys that arrive piece by piece? For one query and piece $i$, with the piece's scores $z$ and values $v$, the rank keeps $\ell_i = \ln\sum e^{z}$ and the output $o_i = \sum e^{z - \ell_i}\, v$. These two suffice to merge pieces.
#
# ### Exercise 4: merge
#
# *Difficulty ●●○, 8 minutes.* Derive $o$ and $\ell$ of attention over both pieces from $o_1$, $\ell_1$, $o_2$ and $\ell_2$. `o1` and `o2` are NumPy arrays (you may overwrite them) with a row for each query; `l1` and `l2` have one number for each query. Scores may be as large as 1000. If a query sees no key of a piece, its $\ell$ is $-\infty$ there and its $o$ is 0. Every query sees a key of at least one piece. Return $(o, \ell)$.
#
# <details><summary>Hint</summary>
#
# What is $\sum e^{z} v$ over one piece, written with $o_i$ and $\ell_i$? `np.logaddexp` does not overflow. As $\ell_i \le \ell$, $e^{\ell_i - \ell}$ does not either.
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
# Does your merge give the attention of one process? Four ranks have six positions each:


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
print("your merge:" if yours else "the library's:", f"at most {apart:.0e} from one process")

# %% [markdown]
# Rank 0 merges one piece, rank 3 four. The pictures show which rank needs which score (row: query, column: key). On the right, each rank has an early and a late piece (*zigzag*):

# %%
pieces = {"one piece each": [0, 1, 2, 3], "an early and a late piece": [0, 1, 2, 3, 3, 2, 1, 0]}
axes = plots.scores(pieces, 24)
plt.show()
each = [sum(range(6 * rank + 1, 6 * rank + 7)) for rank in range(4)]  # one piece each
uneven.answer(each[3] / each[0])

# %% [markdown]
# With an early and a late piece, each rank needs 75 scores, so no rank waits for rank 3. *Ulysses* (Jacobs et al., 2023) cuts attention by heads instead: an all-to-all gives each rank all positions for some heads, and another restores the cut by positions. It needs at least as many heads as ranks.
#
# **Answer.** Ranks must exchange numbers where a sum or a maximum runs over what was cut. A pair of matrices needs one sum in each pass. The loss needs three numbers for each position, not all scores. Two pieces of attention merge by their outputs and their $\ell$. *Evidence: all three agree with one process to rounding, above.*

# %% [markdown]
# ## Lesson 3. Which way should this model be cut?
#
# *40 minutes.* A *layout* $d \times p \times t$ has $d$ replicas. Each replica is a [pipeline](glossary.md#pipeline) of $p$ stages (groups of consecutive layers), and each matrix is cut into $t$ parts. Can we tell the fastest layout before we run it?
#
# > **Predict.** A link of 50 Mbit/s joins two hosts with four ranks each. Two replicas each cut their matrices over four ranks. In `0000 | 1111` (a digit is a rank's replica), each replica is on one host; in `0011 | 0011`, each is spread over both. By what factor is a step longer if replicas are spread?

# %%
spread = Prediction("a step, matrices cut across hosts ÷ inside hosts", None)  # your number

# %% [markdown]
# ### What each way sends
#
# Four ranks run a step of 8 sequences in each way, then one of 16:
#
# - *ZeRO 1*, *ZeRO 3*: stages of Lesson 1;
# - *tensor*: matrices (two pairs in each block) and loss cut as in Lesson 2;
# - *tensor, sequence*: as *tensor*, but between pairs each rank keeps only $T/N$ positions (*sequence parallelism*). A reduce-scatter ends a pair, and an allgather begins the next. The ranks' gradients of norms, biases and positions must then be added, in many short messages;
# - *context*: ring attention alone;
# - *experts*: each rank has one [expert](glossary.md#expert), a perceptron. A gate chooses one for each token (*top-1*). An *all-to-all* sends tokens to their experts; another returns the results. (A gate may overload one expert. In practice a loss for balance, or a bias for each expert, works against this.)
#
# A trace counts what rank 0 sends; `helpers/sharded/counts.py` has the formulas:

# %%
counted, twice = (cluster.run(ways.splits, config, n, timeout=120)[0] for n in (8, 16))
lines = ["| way | messages: formula | counted | kB: formula | counted "
         "| kB of 16 sequences |", "|---" * 6 + "|"]  # fmt: skip
for name, found in counted.items():
    formula = found["formula"]
    lines.append(f"| {name} | {formula.messages} | {found['messages']} "
                 f"| {formula.bytes / 1e3:.0f} | {found['bytes'] / 1e3:.0f} "
                 f"| {twice[name]['bytes'] / 1e3:.0f} |")  # fmt: skip
Markdown("\n".join(lines))

# %% [markdown]
# Counts and formulas agree, except for the experts' bytes: the formula assumes equally busy experts. With 16 sequences, ZeRO sends as much as with 8: its bytes depend on the *parameters*. The other ways send more, because they send *activations*.
#
# ### Exercise 5: from which batch on
#
# *Difficulty ●●○, 8 minutes.* In an allgather or a reduce-scatter of $n$ numbers, a rank sends $\frac{N-1}{N}\,n$; in an allreduce, twice as many. Count the calls in a step: ZeRO's stage 3 makes allgathers and reduce-scatters of $\Psi$ numbers; tensor parallelism makes allreduces of the stream $x$, at each pair's $f$ and $g$. The cut vocabulary adds one $g$ after the embedding and one $f$ before the last layer. (Leave out the loss.) `parameters` is $\Psi$. Return the number $B$ of sequences at which both send equally many numbers. Do not round.
#
# <details><summary>Hint</summary>
#
# How many allreduces does one pair need in each pass? Set both numbers equal: $N$ cancels.
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
sizes = {"this notebook's model": config, "GPT-2 with a separate output matrix": gpt2}
for name, size in sizes.items() if check.equal_bytes.passed(my_batch) else ():
    count = parameter_count(size)
    sequences = my_batch(count, size.context, size.width, size.layers)
    print(f"{name}, {count:,} parameters: {sequences:.1f} sequences")

# %% [markdown]
# Below this number, tensor parallelism sends fewer bytes (in the table: with 8 sequences). Above it, ZeRO 3 does (with 16). In a deep model nearly all parameters are in the blocks, about $12C^2$ in each. Then both ways send as many bytes at about $4.5\,C$ tokens, whatever the depth.
#
# ### All together, on eight ranks
#
# To combine the cuts, arrange eight ranks in a *mesh* of $2 \times 2 \times 2$. Each rank has a communicator along each axis. Rank 5 has {4, 5} (parts of the same matrices), {5, 7} (stages) and {1, 5} (replicas):

# %%
plots.mesh(Layout(2, 2, 2), rank=5)

# %% [markdown]
# Does this train as one process does, and can fewer ranks continue? Eight ranks train for six steps, with Adam's moments cut between the replicas (ZeRO 1), and save their parts under the names of the *whole* model's parameters. Four ranks ($2 \times 1 \times 2$) join the parts, cut them anew and train for six more steps, all in float64:

# %%
from helpers.datasets.characters import load_characters

text, _ = load_characters()
eight, mesh = Cluster(8, preload=PRELOAD), Layout(2, 2, 2, shard=1)
with tempfile.TemporaryDirectory(prefix="sharding-") as folder:
    given = {"steps": 6, "batch": chosen.batch, "double": True, "timeout": 150}
    first = eight.run(runs.train, config, mesh, text, micro=2, save=folder, **given)
    then = cluster.run(runs.train, config, Layout(2, 1, 2), text, load=folder, begin=6, **given)
together, alone = first[0] + then[0], runs.alone(config, text, 12, chosen.batch)
for step in (0, 5, 6, 11):
    ranks = f"on {'eight' if step < 6 else 'four'} ranks"
    print(f"step {step:2}: {together[step]:.6f} {ranks}, {alone[step]:.6f} in one process")
apart = max(abs(a - b) for a, b in zip(together, alone, strict=True))
print(f"largest difference in twelve steps: {apart:.0e}")

# %% [markdown]
# The losses agree to rounding, before and after the change of mesh.
#
# ### A planner
#
# We predict a step's time in a layout from three parts:
#
# - **A slot** is one micro-batch in the slowest stage: $F$ operations forward and $2F$ backward. The stage's $t$ ranks share them, with $s$ operations per second each. Messages add $\tau_\text{tensor}$ (among these ranks) and $\tau_\text{pipeline}$ (to the next stage and back).
# - **A replica** with $m$ [micro-batches](glossary.md#micro-batch) takes $m + p - 1$ slots. In the forward pass, the last stage waits for the $p - 1$ stages before it; in the backward pass, the first stage waits for those after it.
# - **All replicas** then average their gradients in $\tau_\text{data}$.
#
# $$\tau_\text{step} \approx (m + p - 1)\,\Big(\frac{3F}{t\,s} + \tau_\text{tensor} + \tau_\text{pipeline}\Big) + \tau_\text{data}$$
#
# Groups that use a link together share its bandwidth (`helpers/sharded/planner.py`).
#
# We try it on two hosts of four ranks, joined by a link of 100 Mbit/s, with ranks paced to $2.4 \cdot 10^8$ operations per second. A message of $b$ bytes takes $\alpha + \beta b$, which we measure inside a host while all eight ranks send. Between hosts, we take the same $\alpha$ and the link's $\beta$:

# %%
size = 1 << 14  # bytes: a tensor rank's messages
found = [eight.run(ways.link, size, timeout=60)[0] for _ in range(3)]
alpha, beta = (min(values) for values in zip(*found, strict=True))
eight.stop()
pair = Network(hosts=2, rate=chosen.slow)
beta = min(beta, 1 / pair.payload)  # memory is at least as fast as the link
print(f"inside a host: α = {1e3 * alpha:.2f} ms, β = {1e6 * beta:.3f} ms for each kB")
print(f"between hosts: β = {1e6 / pair.payload:.3f} ms for each kB")
inside, between = Link("memory", alpha, beta), Link("100 Mbit/s", alpha, 1 / pair.payload)
machine = planner.Machine(chosen.speed, inside, between, pair.places(8))

# %% [markdown]
# Now five layouts run. Bars are predictions, diamonds measurements; *bubble* is the $p - 1$ slots in which a stage has no micro-batch. Besides *compute*, which part makes each bar long? Is the shortest bar's layout also the fastest?

# %%
layouts = [Layout(8), Layout(2, 1, 4), Layout(2, 4, 1), Layout(1, 2, 4), Layout(2, 2, 2)]
micro = [1, 1, 4, 4, 2]
tries = list(zip(layouts, micro, strict=True))
hosts = start(8, pair)


def measure(layout, m):
    given = (config, layout, chosen.batch, m, chosen.speed)
    return max(seconds for seconds, _, _ in hosts.run(runs.timed, *given, 2, timeout=120))


plans = [planner.predict(config, layout, machine, chosen.batch, m) for layout, m in tries]
with Others() as others:
    measured = [measure(*one) for one in tries]
style.doubt(plots.steps(plans, micro, measured).figure, others)
plt.show()

# %%
fastest = min(plans, key=lambda plan: plan.seconds)
print(f"fastest: {fastest.layout} predicted, {layouts[int(np.argmin(measured))]} measured")
print("measured ÷ predicted, measured ÷ planner.least:")
for (layout, m), plan, took in zip(tries, plans, measured, strict=True):
    least = planner.least(config, layout, machine, chosen.batch, m)
    print(f"    {layout!s:12s}{took / plan.seconds:.2f}    {took / least:.2f}")
ratios = [took / plan.seconds for plan, took in zip(plans, measured, strict=True)]
limit = max(ratios) / min(ratios)  # predictions closer than this may be in the wrong order
near = [str(plan.layout) for plan in plans if 1 < plan.seconds / fastest.seconds <= limit]
print(f"predicted within a factor of {limit:.2f} of the fastest:", ", ".join(near) or "no other")

# %% [markdown] claims="13-placement"
# On our machine with two cores, the two layouts without a pipeline are fastest, both predicted and measured. Their predictions are so close that the formula cannot order them.
#
# Replicas exchange gradients (*data*), ranks that share matrices send many messages (*tensor*), pipeline stages wait (*bubble*), and in $1 \times 2 \times 4$ activations cross the slow link (*pipeline*). In $8 \times 1 \times 1$, a ring of eight ranks sends $1.75\,\Psi$ numbers over the slow link. In $2 \times 1 \times 4$, four rings of two ranks send $\Psi$ together, but *tensor* costs about what *data* saves.
#
# A pipeline may take less time than predicted, as two of these three did on our machine. The formula gives every stage the slowest stage's time, and lets nothing travel while a rank computes. `planner.least` counts each stage's own time. It also lets a stage send activations while it computes the next micro-batch, and gradients while earlier stages still compute. No measured step is shorter than `planner.least` (second column).
#
# Back to your prediction: $2 \times 1 \times 4$ with a matrix's four parts inside a host or across hosts:

# %%
placed = claims.evidence("13-placement")
slowest = placed.rows[0]  # 50 Mbit/s
spread.answer(slowest.peer_value / slowest.value)
placed

# %% [markdown]
# **Answer.** On two hosts with a slow link, $8 \times 1 \times 1$ and $2 \times 1 \times 4$, without a pipeline, are the fastest of these five, as predicted. If the model fits on one rank, try replicas alone first ($8 \times 1 \times 1$): they are the simplest layout. Where predictions differ by less than the printed factor, run both layouts. At 50 and 200 Mbit/s, a step is shorter if ranks that share a matrix are on one host. *Evidence: predicted and measured steps above; the record.*
#
# ## Project: place it better
#
# Run Lesson 3 first. *Difficulty ●●●, 20 minutes.* Choose a layout for a machine: return `(Layout(d, p, t, 1), m)`, with $m$ = 1, 2 or 4 micro-batches, such that
#
# - $d\,p\,t$ is the number of ranks, `len(machine.places)`;
# - a rank needs at most `machine.memory` bytes;
# - the predicted time is within 2 % of the fastest layout that fits.
#
# (The 1 is ZeRO's stage.) `planner.predict(config, layout, machine, batch, m)` returns a plan with `seconds` and `memory`; it raises ValueError for sizes that do not divide. Write the search yourself, without `planner.plans`.
#
# <details><summary>Hint</summary>
#
# Try all combinations. Which of $d$, $p$ and $t$ can you choose freely? What do you do with a plan that raises or needs too much memory?
#
# </details>


# %% exercise="place"
def my_place(config, machine, batch):
    """Return (Layout, micro-batches)."""
    # BEGIN SOLUTION
    n, best, found = len(machine.places), float("inf"), None
    for d in range(1, n + 1):
        for p in range(1, n + 1):
            for m in (1, 2, 4):
                if n % (d * p):
                    continue
                layout = Layout(d, p, n // (d * p), 1)
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

# %% [markdown]
# Your function now chooses for Lesson 3's two hosts, with 3.1 MB on each rank. Which of Lesson 3's layouts fit, with ZeRO 1?

# %%
tight = replace(machine, memory=3.1e6)
for layout, m in tries:
    plan = planner.predict(config, replace(layout, shard=1), tight, chosen.batch, m)
    fits = "" if plan.memory <= tight.memory else ": does not fit"
    print(f"{layout!s:12s}{plan.memory / 1e6:.2f} MB{fits}")

# %% [markdown]
# Your layout runs with $m$ = 1, 2 and 4. Which parts of the bar change with $m$?

# %%
yours = my_place(config, tight, chosen.batch) if check.place.passed(my_place) else None
if yours:
    layout, best = yours
    mine = [planner.predict(config, layout, tight, chosen.batch, m) for m in (1, 2, 4)]
    with Others() as others:
        steps = [measure(layout, m) for m in (1, 2, 4)]
    figure = plots.steps(mine, (1, 2, 4), steps).figure
    figure.set_label("A step of your layout with 1, 2 and 4 micro-batches")
    style.doubt(figure, others)
    plt.show()
    print(f"yours: {layout}, m = {best}, {mine[0].memory / 1e6:.2f} MB")
    for m, plan, took in zip((1, 2, 4), mine, steps, strict=True):
        messages = plan.tensor + plan.pipeline
        print(f"m = {m}: bubble {1e3 * plan.bubble:.0f} ms, tensor and pipeline "
              f"{1e3 * messages:.0f} ms, measured step {1e3 * took:.0f} ms")  # fmt: skip
hosts.stop()

# %% [markdown]
# *Compute* and *data* do not depend on $m$. The bubble is $p - 1$ slots, and a slot with half as many sequences takes about half the time. *Tensor* (0 if $t = 1$) and *pipeline* (thin here) send the same bytes in more messages, and each costs $\alpha$. More micro-batches pay as long as the bubble shrinks by more than these two grow. On our machine, the step is shortest with $m = 4$.

# %% [markdown]
# ## What breaks
#
# **Backward passes swapped.** Let $f$ copy in both passes, and $g$ add in both. Then $y$ is right, and the gradient is wrong. (Run Lesson 2 first.)

# %%
broken = cluster.run(two_matrices, lambda g, add: g, lambda g, add: add(g), timeout=30)[0]
print(f"y differs from one process by {broken[0]:.0e}, the gradient by {broken[1]:.2f}")

# %% [markdown]
# Nothing warns you: compare gradients with one process before you train.
#
# **A rank that saves alone.** `if rank == 0: save()` is right for replicas. With shards, saving means gathering, in which all ranks must take part:

# %% tags=["raises-exception"]
# %%ranks cluster --timeout 4
import numpy as np

shard = np.full(3, float(rank))
if rank == 0:
    whole = np.empty(12)
    comm.Allgather(shard, whole)
print("on to the next epoch")

# %% [markdown]
# Rank 0 waits for ranks that have gone on. Let every rank gather; then rank 0 writes.
#
# <details><summary><b>What the sources say, what we measured</b></summary>
#
# | claim | here |
# |---|---|
# | data against model parallelism | lesson 3: both at once give the losses of one process |
# | ZeRO: 16 bytes for each parameter become $16/N$; stages 1 and 2 send no more than replicas, stage 3 sends 1.5 times as much | lesson 1: counted, equal to the formulas |
# | one allreduce for a pair of matrices in each pass; sequence parallelism; ring attention; experts by all-to-all | lesson 3: messages equal to the formulas |
# | tensor parallelism belongs inside a host | lesson 3: faster there than across hosts, at 50 and 200 Mbit/s |
#
# </details>
#
# **In practice**: `torch.distributed.fsdp.fully_shard`, `torch.distributed.tensor` and `torch.distributed.checkpoint` also run on the course's MPI backend (tested). DeepSpeed offers ZeRO; Megatron-LM offers the other cuts, and can send a pair's messages while its products run.
#
# **References**
#
# - Rajbhandari et al. (2020), *ZeRO*: stages and their bytes. Zhao et al. (2023), *PyTorch FSDP*: prefetching.
# - Shoeybi et al. (2019), *Megatron-LM*: $f$ and $g$. Korthikanti et al. (2022), *Reducing activation recomputation*: sequence parallelism.
# - Liu, Zaharia, Abbeel (2023), *Ring attention*. Lepikhin et al. (2020), *GShard*: experts.
# - Narayanan et al. (2021), *Efficient large-scale language model training*: data, pipeline and tensor together.
# - The scaling book (Austin et al., 2025), the Ultra-Scale Playbook (Hugging Face, 2025): the same for TPUs and GPUs.
#
# **Next**: [03 Derive a GRU, and find out what its gates are for](03_gru_derivation.ipynb) asks where one model's gradients come from.

# %%
cluster.stop()
