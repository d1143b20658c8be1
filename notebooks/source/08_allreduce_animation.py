# %% [markdown]
# # Watch an allreduce happen, and price it
#
# At the end you will have taken apart the one operation that synchronous training of neural networks waits for, seen it move chunk by chunk between real processes, and computed what it costs on four ranks and on sixteen thousand.
#
# The picture below is made of messages that four processes send while this notebook runs: press *play*.

# %% tags=["parameters"]
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Code, Markdown

from helpers.cluster import Cluster
from helpers.collectives.recording import record, schedules
from helpers.exercises import collectives as check
from helpers.plots import costs, style
from helpers.plots.animation import animate

# %load_ext helpers.cluster
style.use()


@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    gradient: int = 102_000_000  # bytes: ResNet-50's 25.6 million parameters in float32


P = Parameters()
cluster = Cluster(n=P.ranks)

# %%
plans = schedules(cluster.run(record, ["ring"], (P.ranks,)))
animate(plans)

# %% [markdown]
# **You will be able to**
#
# - draw the six collectives of MPI and say how many messages and bytes each needs;
# - write a ring allreduce from two loops, and say why part *i* ends at rank *i*;
# - predict the time of four allreduce algorithms from two numbers that you measure;
# - choose between ring, tree and two levels for a given array and machine;
# - judge the sentence "the cost of a ring allreduce does not depend on the number of workers".
#
# **You need** ranks, send and receive, latency and bandwidth from [01_mpi_basics](01_mpi_basics.ipynb). *Time:* 60 minutes, of which the machine works for less than two. *Cores:* two are enough. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | unit |
# |---|---|---|
# | $N$ | number of [ranks](glossary.md#rank) (workers) | |
# | $K$ | size of the array on each rank | bytes |
# | $\alpha$ | [latency](glossary.md#latency): time of a message of no bytes | s |
# | $\beta$ | time for each further byte; $1/\beta$ is the [bandwidth](glossary.md#bandwidth) | s/B |
# | $\gamma$ | time to add one byte's worth of numbers | s/B |
# | $G$, $M$ | ranks (GPUs) in a node, number of nodes; $N = G M$ | |
#
# In the animations every rank is a column and every chunk of its array a box. A box has one **stripe for each rank**: a coloured stripe says that this rank's numbers are in the sum which the box holds. A box with a black border is complete. Below each rank you read how much it has sent, in multiples of $K$. A green label means that these messages were recorded on the ranks of this notebook; a grey one, that they come from the same program run without sending (a *model*), because your machine is not asked to start that many ranks.

# %% [markdown]
# ## A question to begin with
#
# Four workers each have a gradient of 100 MB and all of them need the sum. One way: worker 0 sends to 1, which adds and sends to 2, and so on; worker 3 then has the sum, and it travels back the same way.
#
# **Write down your guess** before you go on: how many bytes does the busiest worker send? Is there a way in which no worker sends more than 150 MB? And if there were a thousand workers, how many bytes would each have to send at least?

# %% [markdown]
# ## Four numbers on four ranks
#
# Rank $r$ starts with the numbers $10r, 10r+1, 10r+2, 10r+3$. Everybody wants the four sums. `comm.allreduce` gives them to us, as a reference:

# %%
# %%ranks
import numpy as np

x = 10.0 * rank + np.arange(4)
reference = np.empty(4)
comm.Allreduce(x, reference)
print(f"{x} -> {reference}")

# %% [markdown]
# Now by hand. Put the ranks on a ring: each sends only to its right neighbour. In every step every rank sends **one number**, and adds the one that it gets. The trick is in which: rank $r$ begins with number $r-1$, and then always passes on the one that it has just added to.

# %%
# %%ranks --trace by_hand
right, left = (rank + 1) % size, (rank - 1) % size
mine, theirs = x.copy(), np.empty(1)
for step in range(size - 1):
    give, take = (rank - step - 1) % size, (rank - step - 2) % size
    comm.Sendrecv(mine[give : give + 1], right, 0, theirs, left, 0)
    mine[take] += theirs[0]
    print(f"step {step}: gave number {give}, added to number {take}: {mine}")
bool(mine[rank] == reference[rank])

# %% [markdown]
# After three steps number $r$ on rank $r$ is the complete sum; the others are left-overs of partial sums. This half is called *reduce-scatter*. All ranks worked in every step, which the timeline shows: it is made of the messages that you have just caused.

# %%
from helpers.plots.timeline import timeline

timeline(by_hand)
plt.show()

# %% [markdown]
# The second half, *allgather*, sends the finished numbers round once more. That is for you.
#
# ### Exercise 1: what to send
#
# *Difficulty ●○○, 5 minutes.* Now rank $r$ has the finished chunk $r$ and, in step 0, sends it to the right. Which chunk does it send in step $s$, so that after $N-1$ steps everybody has all of them?
#
# <details><summary>Hint</summary>
#
# In the step before, something new arrived from the left. Nobody on the right has that yet. Which chunk did the left neighbour send?
#
# </details>


# %% exercise="chunk-to-send"
def chunk_to_send(rank, step, N):
    """Return the number of the chunk that `rank` of N sends in `step` (0, 1, ..., N-2)."""
    # BEGIN SOLUTION
    return (rank - step) % N
    # END SOLUTION


# %% check="chunk-to-send" points=1
check.chunk_to_send(chunk_to_send)

# %% [markdown]
# ### Exercise 2: the second half, on the ranks
#
# *Difficulty ●●○, 10 minutes.* Write the allgather. `work` has $N$ parts of equal length, of which only part `rank` is filled in; receive the others into their places, always from the left neighbour, and return `work`.
#
# <details><summary>Hint</summary>
#
# `parts = np.split(work, n)` gives views: what you receive into `parts[i]` is in `work`. What you receive in a step is what the left neighbour sends in it: Exercise 1 with another rank.
#
# </details>


# %% exercise="allgather"
def my_allgather(work, comm):
    """Fill in all parts of `work` by N-1 exchanges with the neighbours; return it."""
    # BEGIN SOLUTION
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    for step in range(n - 1):
        give, take = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        comm.Sendrecv(give, (rank + 1) % n, 0, take, (rank - 1) % n, 0)
    return work
    # END SOLUTION


# %% check="allgather" points=3
check.allgather(my_allgather, cluster=cluster)

# %% [markdown]
# ## The six collectives
#
# MPI names six patterns in which a whole group takes part ([collectives](glossary.md#collective)); training uses all of them.
#
# | collective | before | after | used for |
# |---|---|---|---|
# | broadcast | root has $x$ | everybody has $x$ | the first weights |
# | scatter | root has $x_0 \dots x_{N-1}$ | rank $i$ has $x_i$ | a batch, cut up |
# | gather | rank $i$ has $x_i$ | root has all of them | metrics |
# | allgather | rank $i$ has $x_i$ | everybody has all | sharded weights, before a layer |
# | reduce | rank $i$ has $x_i$ | root has $\sum x_i$ | a parameter server |
# | allreduce | rank $i$ has $x_i$ | everybody has $\sum x_i$ | gradients |
#
# `helpers.collectives` writes them by hand on sends and receives. The next cell runs each on groups of 2, 3 and 4 of our ranks, records every message, and adds the model for 6 and 8. Choose a collective from the menu and *step*.

# %%
from helpers.collectives.schedule import model

SIX = ["broadcast", "scatter", "gather", "allgather", "reduce", "tree"]
recorded = schedules(cluster.run(record, SIX, (4, 3, 2), (1, 2)))
animate([*recorded, *(model(name, n, p) for name in SIX for n in (6, 8) for p in (1, 2))])

# %% [markdown]
# Look at two things. In *scatter* and *gather* one rank does all the sending or receiving, a part at a time: $N-1$ steps. *Broadcast* and *reduce* go along a tree: in each step twice as many ranks have the data, so $\lceil\log_2 N\rceil$ steps reach everybody.
#
# Do they give what MPI gives? Every rank compares:

# %%
# %%ranks
from helpers import collectives

x = np.arange(8.0) + 100 * rank
gathered = np.empty(8 * size)
comm.Allgather(x, gathered)
same = [np.array_equal(collectives.allgather(x, comm), gathered)]
for root in range(size):
    sent = collectives.broadcast(x.copy(), comm, root)
    same.append(np.array_equal(sent, gathered[8 * root : 8 * root + 8]))
    whole = gathered if rank == root else None
    part = collectives.scatter(whole, comm, root, out=np.empty(8))
    same.append(np.array_equal(part, x))
all(same)

# %% [markdown]
# ## The naive allreduce: a chain
#
# **Idea.** Hand the sum from rank to rank; the last one hands the result back. **Cost.** $N-1$ messages of $K$ bytes one after another, twice:
#
# $$T_\text{chain} = 2(N-1)\,(\alpha + K\beta) + (N-1)K\gamma$$
#
# Here is the first half as it runs, straight from `helpers/collectives/chain.py`:

# %%
import inspect

from helpers.collectives import chain, ring, tree

Code(inspect.getsource(chain.reduce), language="python")

# %%
FOUR = ["chain", "tree", "recursive_doubling", "ring"]
plans = schedules(cluster.run(record, FOUR, (4, 3, 2), (1, 2, 4)))
plans += [model(name, n, p) for name in FOUR for n in (5, 8, 12) for p in (1, 2)]
animate([plan for plan in plans if plan.name == "chain"])

# %% [markdown]
# With one chunk, one rank sends while all others wait. Move the slider to 4 chunks: they follow one another like wagons, and most ranks are busy most of the time. The number of steps grows from $2(N-1)$ to $2(N-2+p)$ for $p$ chunks, but each is $p$ times shorter.

# %% [markdown]
# ## A tree, and recursive doubling
#
# **Idea of the tree.** Ranks 1, 3, 5, ... send to their left neighbours, then those that are left do the same at distance 2, then 4: rank 0 has the sum after $\lceil\log_2 N\rceil$ steps. Backwards for the broadcast:
#
# $$T_\text{tree} = 2\lceil\log_2 N\rceil\,(\alpha + K\beta) + \lceil\log_2 N\rceil K\gamma$$
#
# **Idea of recursive doubling.** Why send to one side only? Let pairs *exchange* and both add; then pairs of pairs: after $\log_2 N$ steps everybody has everything, $T_\text{doubling} = \log_2 N\,(\alpha + K\beta + K\gamma)$. When $N$ is no power of two, the ranks too many hand their array over before and get the result after: two more steps.

# %%
Code(inspect.getsource(tree.reduce), language="python")

# %%
animate([plan for plan in plans if plan.name in ("tree", "recursive_doubling")])

# %% [markdown]
# ## The ring
#
# **Idea.** Cut the array into $N$ parts and run $N$ chains at once, each starting at another rank: that is what you did by hand. Each of the $2(N-1)$ steps now carries $K/N$ bytes, and every rank sends in every step:
#
# $$T_\text{ring} = 2(N-1)\left(\alpha + \frac{K}{N}\beta\right) + \frac{N-1}{N}K\gamma$$

# %%
Code(inspect.getsource(ring.reduce_scatter), language="python")

# %% [markdown]
# The loop over `piece` only cuts long parts into messages of at most 4 MB, so that what arrives is added while it is still in the cache. Compare ring and chain at the same number of ranks: in the ring there is no idle column.

# %%
animate([plan for plan in plans if plan.name == "ring"] + [model("ring", 16)])

# %% [markdown]
# Four algorithms, four orders of adding: do they agree with MPI, for awkward sizes as well?

# %%
# %%ranks
from helpers.collectives import ALGORITHMS, allreduce

worst = 0.0
for length in (0, 1, 3, 1000, 100_001):
    x = np.random.default_rng(rank).normal(size=length)
    total = comm.allreduce(x)
    for algorithm in ALGORITHMS:
        error = np.abs(allreduce(x, comm, algorithm=algorithm) - total)
        worst = max(worst, error.max(initial=0.0))
f"largest difference to MPI: {worst:.1e}"

# %% [markdown]
# The differences are rounding: floating-point sums depend on the order of adding. What matters more for training is that all *ranks* end with the same bits, and they do, in all four (a test compares bytes).

# %% [markdown]
# ## Bytes for each worker
#
# The ranks count what they send in an allreduce of $K = 1.2$ MB, from their traces:

# %%
from helpers.collectives import ALGORITHMS, cost
from helpers.collectives.recording import sent

K = 1_200_000
counted = cluster.run(sent, [*ALGORITHMS], K)
rows = ["| algorithm | sent by each rank ÷ K | busiest, by formula | steps |", "|---|---|---|---|"]
for name in ALGORITHMS:
    by_rank = ", ".join(f"{rank[name][1] / K:g}" for rank in counted)
    formula, steps = cost.sent(name, P.ranks), cost.steps(name, P.ranks)
    assert max(rank[name][1] for rank in counted) == round(formula * K)
    rows.append(f"| {name.replace('_', ' ')} | {by_rank} | {formula:g} | {steps} |")
Markdown("\n".join(rows))

# %%
costs.bytes_by_rank({name: [rank[name][1] for rank in counted] for name in ALGORITHMS}, K)
plt.show()

# %% [markdown]
# Chain and tree load some ranks more than others; the ring loads all the same, and least. That answers the first question: with a chain the busiest of four workers sends 200 MB of a 100 MB gradient, with a ring everybody sends 150 MB. For a thousand workers it is 199.8 MB each, and no algorithm can do with less (Patarasuk and Yuan 2009).
#
# ### Exercise 3: the busiest rank
#
# *Difficulty ●●○, 8 minutes.* Write the formula for the bytes that the busiest rank sends: for `"chain"`, `"tree"` and `"ring"`, with $N$ a power of two and at least 4. Step through the animations with 4 and 8 ranks and read the numbers below the columns.
#
# <details><summary>Hint</summary>
#
# In the tree, rank 0 sends only while broadcasting, once in every step of it. In the ring, every rank sends one part in every step.
#
# </details>


# %% exercise="bytes-sent"
def bytes_sent(algorithm, N, K):
    """Return the bytes that the busiest of N ranks sends to allreduce K bytes."""
    # BEGIN SOLUTION
    if algorithm == "chain":
        return 2 * K
    if algorithm == "tree":
        return (N.bit_length() - 1) * K
    return 2 * (N - 1) * K / N
    # END SOLUTION


# %% check="bytes-sent" points=2
check.bytes_sent(bytes_sent)

# %% [markdown]
# ## Independent of the number of workers?
#
# The lecture that this notebook follows says that a ring allreduce costs each worker $2(N-1)K/N$, "independent of N". **Predict:** which curve is flat, which is not?

# %%
counts = [2**k for k in range(1, 15)]
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
left.plot(counts, [cost.sent("ring", N) for N in counts])
costs.limit(left, 2.0, "limit: 2 K")
left.set(xlabel="number of ranks, N", ylabel="bytes sent by each rank ÷ K", ylim=(0, 2.3))
right.plot(counts, [cost.steps("ring", N) for N in counts], label="ring")
right.plot(counts, [cost.steps("tree", N) for N in counts], label="tree")
right.set(xlabel="number of ranks, N", ylabel="steps, one after another", yscale="log")
for ax in (left, right):
    ax.set_xscale("log", base=2)
right.legend()
plt.show()

# %% [markdown]
# The bytes do depend on $N$ for few workers ($K$ for two, $1.5K$ for four) and only tend to $2K$. What never levels off is the number of steps, $2(N-1)$: each costs a latency $\alpha$. The sentence is true of bandwidth, in the limit, and not of time.

# %% [markdown]
# ## Cost, predicted and measured
#
# Two ranks play ping-pong with messages of growing size, as in notebook 01. A straight line $\alpha + \beta m$ is fitted to it, so that relative errors are small at both ends. The second fit is made while *all four* ranks send to the right at the same time, which is what they do inside a ring.

# %%
from helpers.collectives import measure

gamma = max(cluster.run(measure.addition))
alone = cluster.run(measure.ping_pong)[0]
together = cluster.run(measure.ring_steps)[0]
quiet, busy = (cost.fit(s, n, gamma) for s, n in ((alone, "ping-pong"), (together, "ring step")))
print(quiet, busy, f"adding: 1/γ = {1 / gamma / 1e9:.3g} GB/s", sep="\n")

# %%
sizes = [size for size, _ in alone]
costs.times_by_size(
    sizes,
    {"ping-pong, 2 ranks": [t for _, t in alone], "ring step, all ranks": [t for _, t in together]},
    {"ping-pong, 2 ranks": [quiet.message(m) for m in sizes],
     "ring step, all ranks": [busy.message(m) for m in sizes]},
).set(xlabel="size of the message (bytes)")  # fmt: skip
plt.show()

# %% [markdown]
# Dots are measured, dashed lines fitted. Where four ranks share two cores, a step takes longer than a message between two ranks that have the cores to themselves: most of what you see as α is then waiting for a core.
#
# Now the four algorithms and MPI's own `Allreduce`, in turns, so that a disturbance hits all of them. **Predict:** which is fastest at 1 KB, and which at 4 MB?

# %%
array_sizes = [1_024, 16_384, 262_144, 1_048_576, 4_194_304]
names = [*ALGORITHMS, "MPI_Allreduce"]
measured = cluster.run(measure.allreduce_times, names, array_sizes, 5)[0]
predicted = {
    name: [cost.allreduce(name, P.ranks, busy).at(K) for K in array_sizes] for name in ALGORITHMS
}
costs.times_by_size(array_sizes, measured, predicted)
plt.show()

# %%
from helpers.timing import seconds

rows = ["| algorithm | bytes | predicted | measured | measured ÷ predicted |", "|---|" + "--:|" * 4]
for name in names:
    for place in (0, 4):
        took, row = measured[name][place], f"| {name} | {array_sizes[place]:,} |"
        if name in predicted:
            guess = predicted[name][place]
            rows.append(f"{row} {seconds(guess)} | {seconds(took)} | {took / guess:.2f} |")
        else:
            rows.append(f"{row} | {seconds(took)} | |")
Markdown("\n".join(rows))

# %% [markdown]
# A model with three numbers does not know about caches, about the change from [eager](glossary.md#eager) to [rendezvous](glossary.md#rendezvous), nor about other programs on your machine. A ratio between a half and two is a good result for it; the *order* of the algorithms, and how it changes from small arrays to large ones, is what it is for.
#
# ### Exercise 4: where ring and tree cross
#
# *Difficulty ●●○, 10 minutes.* For $N$ a power of two, and ignoring γ, from which size $K$ on is the ring faster than the tree? Solve $T_\text{tree} = T_\text{ring}$ for $K$.
#
# <details><summary>Hint</summary>
#
# Both times are a number plus a number times $K$. Write $L = \log_2 N$, divide both sides by 2 and collect what has $\alpha$ on one side.
#
# </details>


# %% exercise="crossover"
def crossover(N, alpha, beta):
    """Return the size in bytes at which tree and ring take the same time."""
    # BEGIN SOLUTION
    L = N.bit_length() - 1
    return alpha * (N - 1 - L) / (beta * (L - (N - 1) / N))
    # END SOLUTION


# %% check="crossover" points=2
check.crossover(crossover)

# %% [markdown]
# ## Links
#
# What are α and β elsewhere? The lecture names the links in a cluster, not all of them with figures; what it leaves out is from elsewhere, as the last column says.

# %%
from helpers.collectives.links import PRESETS

rows = ["| link | α | 1/β (GB/s) | ring of 8, 102 MB | origin |", "|---|--:|--:|--:|---|"]
for link in [*PRESETS.values(), busy]:
    took = cost.allreduce("ring", 8, link).at(P.gradient)
    rows.append(
        f"| {link.name} | {seconds(link.alpha)} | {link.bandwidth / 1e9:.3g} | "
        f"{seconds(took)} | {link.origin} |"
    )
Markdown("\n".join(rows))

# %% [markdown]
# Mind the units: networks are sold in bits per second, so "100G" is 12.5 GB/s. One figure of the lecture is off: a lane of PCIe 3.0 carries 8 GT/s × 128/130 ÷ 8 = 985 **MB**/s, not MiB/s.

# %% [markdown]
# ## Thousands of ranks
#
# Take nodes of $G = 8$ GPUs, joined by NVLink inside and by InfiniBand between nodes, and grow to $M = 2048$ nodes. Three ways to allreduce:
#
# - **flat ring** through all GPUs: $2(N-1)$ steps, each as slow as the slowest link in it;
# - **tree** in every node, under a tree of nodes: $2(\log_2 G + \log_2 M)$ steps of $K$ bytes;
# - **two levels**: reduce-scatter inside each node, a ring between nodes for each of the $G$ parts, allgather inside: $2(G-1) + 2(M-1)$ steps.

# %%
from helpers.collectives.cost import Machine

Code(inspect.getsource(Machine.two_level), language="python")

# %%
NVLINK, INFINIBAND = PRESETS["NVLink 2 (V100)"], PRESETS["InfiniBand HDR (GPUs)"]
machines = [Machine(2**k, 8, NVLINK, INFINIBAND) for k in range(12)]
figure, panels = plt.subplots(1, 2, figsize=(12, 4.4), sharey=True)
for ax, nbytes, title in zip(panels, (1e6, P.gradient), ("K = 1 MB", "K = 102 MB"), strict=True):
    ways = {
        "flat ring": [m.flat_ring().at(nbytes) for m in machines],
        "tree": [m.tree().at(nbytes) for m in machines],
        "two levels": [m.two_level().at(nbytes) for m in machines],
    }
    costs.times_by_ranks([m.ranks for m in machines], ways, ax)
    ax.set_title(title)
plt.show()

# %% [markdown]
# The flat ring climbs in a straight line once latency rules: with 16 384 GPUs it takes 32 766 steps. With two levels the steps inside a node do not grow, and those between nodes are $2(M-1)$, an eighth as many. The tree hardly grows at all, but sends the whole array in each step. So which is best depends on the size:

# %%
from helpers.plots.timeline import size

rows = [
    "| GPUs | tree best up to | two levels up to | at 1 MB | at 102 MB |",
    "|--:|--:|--:|---|---|",
]
for m in machines[1::2]:
    ways = {"tree": m.tree(), "two levels": m.two_level(), "flat ring": m.flat_ring()}
    tree_two = cost.crossover(ways["tree"], ways["two levels"])
    two_flat = cost.crossover(ways["two levels"], ways["flat ring"])
    best = [min(ways, key=lambda way, K=K, ways=ways: ways[way].at(K)) for K in (1e6, P.gradient)]
    upper = "any size" if two_flat is None else size(two_flat)
    rows.append(f"| {m.ranks} | {size(tree_two)} | {upper} | {best[0]} | {best[1]} |")
Markdown("\n".join(rows))

# %% [markdown]
# Each row is a division: where two straight lines, a constant plus a multiple of $K$, cross. The more nodes, the longer an array may be for which the tree is best, since its steps grow so slowly. The flat ring wins for very long arrays only because our two levels work one after the other: the links inside a node rest while those between nodes work. Libraries cut the array into pieces and overlap the two.
#
# ### Exercise 5: why
#
# *Difficulty ●○○, 2 minutes.* On the machine above, an allreduce of 16 KB over 4 096 GPUs takes 79 ms by a flat ring and 0.2 ms by the tree. Why?
#
# - **A** Each rank of the ring sends more bytes than a rank of the tree.
# - **B** The links of a ring have less bandwidth.
# - **C** The ring has 8 190 steps one after another, and each costs a latency.
# - **D** Parts of one number each cannot be added.

# %% exercise="reason"
reason = None  # one of "A", "B", "C", "D"
# BEGIN SOLUTION
reason = "C"
# END SOLUTION

# %% check="reason" points=1
check.reason(reason)

# %% [markdown]
# ## What breaks
#
# **Send first, receive afterwards.** It reads well, and it works for the four numbers above: short messages are delivered [eagerly](glossary.md#eager), before anybody receives them. With longer ones every rank waits until its right neighbour receives, all round the ring. `Sendrecv` does both at once, which is why the ring uses it.

# %% tags=["raises-exception"]
# %%ranks --timeout 3
part = np.zeros(1_000_000)
comm.Send(part, (rank + 1) % size)
comm.Recv(part, (rank - 1) % size)

# %% [markdown]
# Nobody is broken, nobody moves: a [deadlock](glossary.md#deadlock). The ranks were started anew, so imports are gone too.
#
# **An operation that does not commute.** The ring adds part $i$ in the order $i+1, i+2, \dots, i$, another one for each part. For sums that is rounding. For products of matrices, say, it is another result, so our ring refuses and names those that keep the order:

# %%
# %%ranks
import numpy as np

from helpers.collectives import allreduce


def append(left, right, datatype):  # 12 and 3 give 123
    a, b = np.frombuffer(left, "q"), np.frombuffer(right, "q")
    b[:] = a * 10 ** np.array([len(str(n)) for n in b]) + b


op = MPI.Op.Create(append, commute=False)
digits = np.array([rank + 1])
try:
    allreduce(digits, comm, op, "ring")
except ValueError as error:
    print("refused:", str(error).partition(", but")[0])
print("tree:", allreduce(digits, comm, op, "tree"))

# %% [markdown]
# ## What the sources say, what we measured
#
# | the sources say | here |
# |---|---|
# | collectives: broadcast, scatter, gather, allgather, reduce, allreduce, drawn | recorded from ranks, playable, equal to MPI's |
# | allreduce by a chain: reduce to the last worker, then broadcast; "communication per worker is N" | $2K$ for each worker inside the chain, $K$ at its ends: the $N$ is in the number of *steps*, $2(N-1)$ |
# | ring allreduce, with a question mark: can workers do without a server? | yes: two loops over `Sendrecv`, no rank is special |
# | "cost for each worker is 2(N−1)K/N, independent of N" | counted exactly $2(N-1)K/N$; it tends to $2K$, and latency steps grow with $N$ |
# | reduce part $i$ to worker $i$, all at once, then broadcast each | the ring above, with the same numbering |
# | PCIe 3.0: 985 MiB/s a lane | 985 MB/s |
# | Ethernet 10M-100G, 100-20 µs; InfiniBand 2.5-250G, 5-0.5 µs | taken over, with units; 2.5G carries 2 Gbit/s of data |
# | NVLink, RDMA: named without figures | figures with other origins in the table of links |

# %% [markdown]
# ## Summary
#
# - Six collectives, drawn from real messages; allreduce is reduce-scatter plus allgather.
# - Two loops of `Sendrecv` make a ring; part $i$ ends at rank $i$ because it sets out at rank $i+1$.
# - $\alpha$ and $\beta$ from a ping-pong predict all four algorithms; few steps win for short arrays, few bytes for long ones.
# - Tree for short, two levels for many nodes, ring for long: the crossover is one division.
# - A ring's bytes are bounded by $2K$ for any $N$; its time is not.
#
# **In practice** you call `torch.distributed.all_reduce` or `DistributedDataParallel`, and NCCL (on GPUs) or gloo (on CPUs) does this. NCCL has rings and trees, estimates the time of each with a table of latencies and bandwidths such as ours, and takes the smaller; its trees are two at once, cut into pieces, so that they lose no bandwidth. Baidu and Horovod brought the ring to deep learning.
#
# **References**
#
# - R. Thakur, R. Rabenseifner, W. Gropp, [Optimization of collective communication operations in MPICH](https://doi.org/10.1177/1094342005051521), 2005: the algorithms and their costs.
# - P. Patarasuk, X. Yuan, [Bandwidth optimal all-reduce algorithms for clusters of workstations](https://doi.org/10.1016/j.jpdc.2008.09.002), 2009: why nobody can send less than the ring.
# - R. Hockney, [The communication challenge for MPP](https://doi.org/10.1016/S0167-8191(06)80021-9), 1994: the model with α and β.
# - Z. Tian, *Introduction to Computation Technologies in Deep Learning*, 2019: the lecture whose claims are examined.
# - [NCCL's tuning.cc](https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc): the cost model of a library in use.
#
# **Next:** [02_sgd_sync_async](02_sgd_sync_async.ipynb), where gradients travel on what you have built here.

# %%
cluster.stop()
