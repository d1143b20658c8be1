# %% [markdown]
# # Watch an allreduce happen, and price it
#
# Synchronous training waits for one operation: allreduce. Here you take it apart. You watch its messages move between real processes, write it yourself, and compute what it costs on four ranks and on sixteen thousand.
#
# Four processes are about to run a ring allreduce. Press *play* to see the messages that they sent.

# %% tags=["parameters"]
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Code, Markdown, display

from helpers import claims
from helpers.cluster import Cluster
from helpers.collectives.recording import record, schedules
from helpers.exercises import collectives as check
from helpers.exercises.predictions import Predictions
from helpers.plots import costs, style
from helpers.plots.animation import animate

# %load_ext helpers.cluster
style.use()


@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    gradient: int = 102_000_000  # bytes: ResNet-50's 25.6 million parameters in float32


P = Parameters()
guess = Predictions()
cluster = Cluster(n=P.ranks)

# %%
plans = schedules(cluster.run(record, ["ring"], (P.ranks,)))
animate(plans)

# %% [markdown]
# **You will be able to**
#
# - draw the six collectives of MPI, say how many messages and bytes each needs, and write one;
# - write a ring allreduce from two loops, say why part *i* ends at rank *i*, and race it;
# - predict the time of four allreduce algorithms from three numbers that you measure, and say how far to trust the prediction;
# - choose between ring, tree and two levels for a given array and machine, and place the ranks;
# - judge the sentence "the cost of a ring allreduce does not depend on the number of workers".
#
# **You need** ranks, send and receive, latency and bandwidth from [01_mpi_basics](01_mpi_basics.ipynb). *Time:* 190 minutes, of which the machine works for less than two; the project takes another 40. *Cores:* two are enough. *GPU:* none.

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
# **Part**: a rank's 1/N of the array. **Chunk**: a box in the animation. **Piece**: one message of a part that is sent in several.
#
# In the animations a column is a rank and a box is a chunk of its array. A box has one **stripe for each rank**: a coloured stripe means that this rank's numbers are in the box's sum. A thick border marks a complete sum. Below each rank you read how much it has sent, in multiples of $K$. Green label: these messages were recorded on your ranks. Grey label: the same program, simulated for more ranks. In both, all messages are drawn as if they took equally long.

# %% [markdown]
# ## A question to begin with
#
# Four workers each have a gradient of 100 MB, and all of them need the sum. One way is a chain: worker 0 sends to worker 1, which adds its own and sends to worker 2, and so on. Worker 3 then has the sum, and sends it back the same way.
#
# > **Predict:** how many MB does the busiest worker send? Can it be done so that no worker sends more than 150 MB ("yes" or "no")? With a thousand workers that share the load evenly, how many MB must each send at least? Type your answers in place of the dots. The section *Bytes for each worker* resolves them.

# %%
guess["MB sent by the busiest of four, in a chain"] = ...
guess["no worker more than 150 MB"] = ...
guess["MB sent by each of a thousand, at least"] = ...

# %% [markdown]
# ## Four numbers on four ranks
#
# Rank $r$ starts with the numbers $10r, 10r+1, 10r+2, 10r+3$. Everybody wants the four sums. `comm.allreduce` computes them, as a reference:

# %%
# %%ranks
import numpy as np

x = 10.0 * rank + np.arange(4)
reference = np.empty(4)
comm.Allreduce(x, reference)
print(f"{x} -> {reference}")

# %% [markdown]
# Now by hand. Put the ranks on a ring: each sends only to its right neighbour. In every step every rank sends **one number**, and adds the number that it receives to its own. Rank $r$ begins with number $r-1$; after that it always passes on the number to which it has just added.

# %%
# %%ranks
from helpers.waiting import meet

long = [np.full(500_000, value) for value in x]  # 4 MB in place of each number: messages that last

# %%
# %%ranks --trace by_hand
meet(comm)
right, left = (rank + 1) % size, (rank - 1) % size
theirs = np.empty(500_000)
for step in range(size - 1):
    give, take = (rank - step - 1) % size, (rank - step - 2) % size
    comm.Sendrecv(long[give], right, 0, theirs, left, 0)
    long[take] += theirs
    mine = np.array([part[0] for part in long])
    print(f"step {step}: gave number {give}, added to number {take}: {mine}")
bool(mine[rank] == reference[rank])

# %% [markdown]
# After three steps, number $r$ on rank $r$ is the complete sum; the other numbers are partial sums. This half is called *reduce-scatter*. Why does number $i$ end at rank $i$? It starts at rank $i+1$ and moves one rank to the right in each of $N-1$ steps: $i + 1 + (N - 1) = i + N$, which is rank $i$ again.
#
# The timeline shows these messages. (Each number stood for 4 MB, so that the messages last.) Every rank has a box in every step. In the hatched part of a box the rank waits for its left neighbour. In the gaps it adds.

# %%
from helpers.plots.timeline import timeline

timeline(by_hand, labels=False, title="Reduce-scatter by hand: three steps, all ranks in each")
plt.show()

# %% [markdown]
# The second half, *allgather*, sends the finished numbers round once more. You write it.
#
# ### Exercise 1: what to send
#
# *Difficulty ●○○, 5 minutes.* Now rank $r$ has the finished chunk $r$ and, in step 0, sends it to the right. Which chunk does it send in step $s$, so that after $N-1$ steps everybody has all chunks?
#
# <details><summary>Hint</summary>
#
# In the step before, a new chunk arrived from the left. The right neighbour does not have it yet. Which chunk did the left neighbour send?
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
# Your answer, on the ranks: each starts with its one finished number, and in every step sends the chunk that you name. (The message carries the chunk's number, so that the receiver knows what came.)


# %%
# %%ranks
def go_round(choose):
    have = {rank: float(mine[rank])}  # the finished number of this rank
    for step in range(size - 1):
        give = choose(rank, step, size)
        number, value = comm.sendrecv((give, have[give]), dest=right, source=left)
        have[number] = value
    return [have[number] for number in range(size)]


# %%
if check.chunk_to_send.passed(chunk_to_send):
    held = cluster.run(lambda f: (go_round(f), reference.tolist()), chunk_to_send)
    for number, (yours, of_mpi) in enumerate(held):
        print(f"rank {number} has {yours}, equal to MPI's: {yours == of_mpi}")
else:
    print("Exercise 1 first")

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
# The same finished numbers, gathered by your function:


# %%
# %%ranks
def filled(gather):
    return gather(np.where(np.arange(size) == rank, mine, 0.0), comm).tolist()


# %%
if check.allgather.passed(my_allgather, cluster=cluster):
    held = cluster.run(lambda f: (filled(f), reference.tolist()), my_allgather)
    print("on each rank equal to MPI's:", [yours == of_mpi for yours, of_mpi in held])
else:
    print("Exercise 2 first")

# %% [markdown]
# ### Exercise 3: the whole ring
#
# *Difficulty ●●○, 12 minutes.* Join both halves: `ring_allreduce(x, comm)` returns the sums over all ranks as a new array. It must work for *any* length of `x`, including lengths that $N$ does not divide and lengths below $N$, and for any type of number (gradients are `float32`). You will race it against the others.
#
# <details><summary>Hint</summary>
#
# `np.array_split(work, n)` makes parts of nearly equal length, some perhaps empty; they are views of `work`. In the first half, what arrives must not overwrite what it is added to: receive into a new array of the same length and type as the part that you add to. For the second half, use your loop of Exercise 2 on these parts.
#
# </details>


# %% exercise="ring-allreduce"
def ring_allreduce(x, comm):
    """Return the sums of x over all ranks, by a ring; x itself is not changed."""
    # BEGIN SOLUTION
    n, rank = comm.Get_size(), comm.Get_rank()
    right, left, work = (rank + 1) % n, (rank - 1) % n, x.copy()
    parts = np.array_split(work, n)
    for step in range(n - 1):
        give, take = parts[(rank - step - 1) % n], parts[(rank - step - 2) % n]
        theirs = np.empty_like(take)
        comm.Sendrecv(give, right, 0, theirs, left, 0)
        take += theirs
    for step in range(n - 1):
        give, take = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        comm.Sendrecv(give, right, 0, take, left, 0)
    return work
    # END SOLUTION


# %% check="ring-allreduce" points=3
check.ring_allreduce(ring_allreduce, cluster=cluster)

# %% [markdown]
# ## The six collectives
#
# A [collective](glossary.md#collective) is a call in which a whole group takes part. Training uses these six of MPI's twenty or so, the reduce-scatter that you have just written, and for mixtures of experts the all-to-all of notebook [13](13_sharding.ipynb).
#
# | collective | before | after | used for |
# |---|---|---|---|
# | broadcast | root has $x$ | everybody has $x$ | the first weights |
# | scatter | root has $x_0 \dots x_{N-1}$ | rank $i$ has $x_i$ | a batch, cut up |
# | gather | rank $i$ has $x_i$ | root has all of them | metrics |
# | allgather | rank $i$ has $x_i$ | everybody has all | [shards](glossary.md#shard) of the weights, before a layer |
# | reduce | rank $i$ has $x_i$ | root has $\sum x_i$ | a [parameter server](glossary.md#parameter-server) |
# | allreduce | rank $i$ has $x_i$ | everybody has $\sum x_i$ | gradients |
#
# `helpers.collectives` writes each of them with sends and receives. The next cell runs them on groups of 2, 3 and 4 of your ranks, records every message, and simulates 6 and 8. Choose a collective from the menu and *step*.

# %%
from helpers.collectives.schedule import model

SIX = ["broadcast", "scatter", "gather", "allgather", "reduce", "tree"]
recorded = schedules(cluster.run(record, SIX, (4, 3, 2), (1, 2)))
animate([*recorded, *(model(name, n, p) for name in SIX for n in (6, 8) for p in (1, 2))])

# %% [markdown]
# Look at two things. In *scatter* and *gather* one rank sends or receives everything, a part at a time, in $N-1$ steps. *Broadcast* and *reduce* use a tree: each step doubles the number of ranks that have the data, so $\lceil\log_2 N\rceil$ steps reach everybody. (A broadcast's array is not cut: its one chunk is complete from the start.)
#
# Every rank compares the results with MPI's:

# %%
# %%ranks
from helpers import collectives

x = np.arange(8.0) + 100 * rank
gathered, total = np.empty(8 * size), np.empty(8)
comm.Allgather(x, gathered)
comm.Allreduce(x, total)
same = {"allgather": np.array_equal(collectives.allgather(x, comm), gathered)}
same["allreduce"] = np.array_equal(collectives.allreduce(x, comm), total)
for root in range(size):
    mine = gathered[8 * root : 8 * root + 8]
    sent = collectives.broadcast(x.copy(), comm, root)
    whole = gathered if rank == root else None
    part = collectives.scatter(whole, comm, root, out=np.empty(8))
    all_of_them = collectives.gather(x, comm, root=root)
    added = collectives.reduce(x, comm, root=root)
    same[f"broadcast from {root}"] = np.array_equal(sent, mine)
    same[f"scatter from {root}"] = np.array_equal(part, x)
    if rank == root:
        same[f"gather to {root}"] = np.array_equal(all_of_them, gathered)
        same[f"reduce to {root}"] = np.array_equal(added, total)
f"{sum(same.values())} of {len(same)} equal MPI's"

# %%
agreed = cluster.run(lambda: list(same.values()))  # for the table at the end

# %% [markdown]
# ### A broadcast for long arrays
#
# A broadcast by a tree has few steps, but rank 0 sends the whole array in each of them. You have already written the pieces of another way: rank 0 sends part $i$ to rank $i$, as in *scatter*; then the parts go round the ring, as in your *allgather*.
#
# > **Predict:** four ranks, an array of $K$ bytes. How many times $K$ does rank 0 send by the tree, and how many times $K$ in parts? Which takes less time on your machine for 4 MB, "tree" or "yours"?

# %%
guess["sent by rank 0 ÷ K, tree"] = ...
guess["sent by rank 0 ÷ K, in parts"] = ...
guess["the faster broadcast of 4 MB"] = ...

# %% [markdown]
# ### Exercise 4: broadcast in parts
#
# *Difficulty ●●○, 12 minutes.* Write it with sends and receives alone. On rank 0 `work` holds the numbers; on the other ranks its content does not matter. $N$ divides its length. Return `work`, filled in, on every rank. Only rank 0 may send more than $N - 1$ parts.
#
# <details><summary>Hint</summary>
#
# After the scatter, rank $i$ has part $i$ in its place. There Exercise 2 begins, and you may call `my_allgather`. The parts of `np.split(work, n)` are views; rank 0 need not send anything to itself.
#
# </details>


# %% exercise="long-broadcast"
def long_broadcast(work, comm):
    """Return `work` with the numbers of rank 0 on every rank: a scatter, then an allgather."""
    # BEGIN SOLUTION
    n, rank = comm.Get_size(), comm.Get_rank()
    parts = np.split(work, n)
    if rank == 0:
        for peer in range(1, n):
            comm.Send(parts[peer], peer)
    else:
        comm.Recv(parts[rank], 0)
    for step in range(n - 1):
        give, take = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        comm.Sendrecv(give, (rank + 1) % n, 0, take, (rank - 1) % n, 0)
    return work
    # END SOLUTION


# %% check="long-broadcast" points=3
check.long_broadcast(long_broadcast, cluster=cluster)

# %% [markdown]
# Your broadcast beside the tree and MPI's own: are the results equal, how many bytes does each rank send (MPI's own messages are not counted), and how long does it take?


# %%
# %%ranks
from helpers.collectives import measure, tree
from helpers.collectives.recording import sent_by


def by_tree(x, comm):
    return tree.broadcast(x, comm, root=0)


def look_at(yours, K, sizes):
    """Does it equal MPI's; how many bytes do I send of K; seconds for each size."""
    mine, wanted = np.arange(1000.0) + 7 * rank, np.arange(1000.0) + 7 * rank
    comm.Bcast(wanted)
    equal = np.array_equal(yours(mine, comm), wanted)
    ways = {"tree": by_tree, "yours": yours}
    sent = {name: sent_by(way, K)[1] for name, way in ways.items()}
    ways["MPI_Bcast"] = lambda x, comm: comm.Bcast(x)
    return equal, sent, measure.function_times(ways, sizes, 5)


# %%
if check.long_broadcast.passed(long_broadcast, cluster=cluster):
    K, sizes = 1_200_000, [4**k for k in range(5, 12)]
    equal, sent, times = zip(
        *cluster.run(lambda *a: look_at(*a), long_broadcast, K, sizes), strict=True
    )
    print("as MPI's, on every rank:", all(equal))
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
    costs.bytes_by_rank({way: [one[way] for one in sent] for way in sent[0]}, K, left)
    costs.times_by_size(sizes, times[0], ax=right)
    plt.show()
    guess.answer("sent by rank 0 ÷ K, tree", sent[0]["tree"] / K)
    guess.answer("sent by rank 0 ÷ K, in parts", sent[0]["yours"] / K)
    faster = min(("tree", "yours"), key=lambda way: times[0][way][-1])
    guess.answer("the faster broadcast of 4 MB", faster)

# %% [markdown]
# The tree takes $\lceil\log_2 N\rceil$ steps of $K$ bytes; parts take $2(N-1)$ steps of $K/N$ bytes. Few steps or few bytes: every allreduce below makes this choice too.

# %% [markdown]
# ## The naive allreduce: a chain
#
# **Idea.** Hand the sum from rank to rank; the last rank hands the result back. **Cost.** $N-1$ messages of $K$ bytes one after another, twice:
#
# $$T_\text{chain} = 2(N-1)\,(\alpha + K\beta) + (N-1)K\gamma$$
#
# This is the first half as it runs, from `helpers/collectives/chain.py`. `place` is a rank's position in the chain, which ends at `root`. `combine(mine, theirs, theirs_first=True)` adds what came to what is there. `split` cuts the array into pieces that follow one another.

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
# With one chunk, one rank sends while all others wait. Move the slider to 4 chunks: they follow one another like wagons, and most ranks are busy most of the time. With $p$ chunks the number of steps grows from $2(N-1)$ to $2(N-2+p)$, but each step is $p$ times shorter.

# %% [markdown]
# ## A tree, and recursive doubling
#
# **Idea of the tree.** Ranks 1, 3, 5, ... send to their left neighbours. The ranks that received do the same at distance 2, then at distance 4. After $\lceil\log_2 N\rceil$ steps rank 0 has the sum, and broadcasts it the same way backwards:
#
# $$T_\text{tree} = 2\lceil\log_2 N\rceil\,(\alpha + K\beta) + \lceil\log_2 N\rceil K\gamma$$
#
# **Idea of recursive doubling.** Let pairs of ranks *exchange* their arrays and both add; then exchange between pairs of pairs. After $\log_2 N$ steps everybody has the sum: $T_\text{doubling} = \log_2 N\,(\alpha + K\beta + K\gamma)$. If $N$ is no power of two, each surplus rank first gives its array to a partner and gets the result at the end, in two more steps.

# %%
Code(inspect.getsource(tree.reduce), language="python")

# %% [markdown]
# ### Exercise 5: doubling
#
# *Difficulty ●●○, 10 minutes.* Write recursive doubling for $N$ a power of two: in each of $\log_2 N$ steps exchange the sum so far with one partner, and add. Return the sums as a new array, for any type of number.
#
# <details><summary>Hint</summary>
#
# `rank ^ distance` flips one bit of the rank: the partner at distance 1, 2, 4, ... Into which buffer do the partner's numbers arrive while yours are still being sent?
#
# </details>


# %% exercise="doubling"
def doubling(x, comm):
    """Return the sums of x over N = 2^L ranks, by L exchanges of whole arrays."""
    # BEGIN SOLUTION
    total, theirs, distance = x.copy(), np.empty_like(x), 1
    while distance < comm.Get_size():
        partner = comm.Get_rank() ^ distance
        comm.Sendrecv(total, partner, 0, theirs, partner, 0)
        total += theirs
        distance *= 2
    return total
    # END SOLUTION


# %% check="doubling" points=2
check.doubling(doubling, cluster=cluster)

# %%
animate([plan for plan in plans if plan.name in ("tree", "recursive_doubling")])

# %% [markdown]
# ## The ring
#
# **Idea.** Cut the array into $N$ parts and run $N$ chains at once, each starting at another rank. You did this by hand above. Each of the $2(N-1)$ steps carries $K/N$ bytes, and every rank sends in every step:
#
# $$T_\text{ring} = 2(N-1)\left(\alpha + \frac{K}{N}\beta\right) + \frac{N-1}{N}K\gamma$$

# %%
Code(inspect.getsource(ring.reduce_scatter), language="python")

# %% [markdown]
# The loop over `piece` cuts long parts into messages of at most 4 MB, so that what arrives is added while it is still in the cache. Compare ring and chain at the same number of ranks: in the ring no column is idle.

# %%
animate([plan for plan in plans if plan.name == "ring"] + [model("ring", 16)])

# %% [markdown]
# The algorithms add in different orders. Do they agree with MPI, for awkward sizes too? (`two_level` is for ranks on several hosts; on one host it is the ring. Section *Thousands of ranks* comes back to it.)

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
# The differences are rounding: a floating-point sum depends on the order of adding. For training it matters more that all *ranks* end with the same bits. Do they?

# %%
# %%ranks
x = np.random.default_rng(rank).normal(size=1001)
bits = [allreduce(x, comm, algorithm=name).tobytes() for name in ALGORITHMS]
everybody = comm.gather(bits)
if rank == 0:
    print([len(set(one)) == 1 for one in zip(*everybody, strict=True)])

# %% [markdown]
# They do. In chain, tree and ring each part is added up on one rank and copied. In doubling both partners add the same two numbers, and $a + b = b + a$ to the last bit.

# %% [markdown]
# ## Bytes for each worker
#
# The ranks count what they send in an allreduce of $K = 1.2$ MB:

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
thousand = cost.sent("ring", 1000)
guess.answer("MB sent by the busiest of four, in a chain", round(100 * cost.sent("chain", 4)))
guess.answer("no worker more than 150 MB", f"yes, {100 * cost.sent('ring', 4):g} MB in a ring")
guess.answer("MB sent by each of a thousand, at least", round(100 * thousand, 1))

# %% [markdown]
# Chain and tree load some ranks more than others. The ring loads all ranks equally, and its busiest rank sends least. Can any algorithm do with less? Every rank must contribute its numbers and receive the sums. To add $N$ arrays, somebody must send $N-1$ times: at least $(N-1)K$ bytes for the sum. Then $N-1$ ranks must receive what they lack: another $(N-1)K$. Shared evenly over $N$ ranks that is $2(N-1)K/N$ each, exactly what the ring sends (full proof: Patarasuk and Yuan 2009). Only a network whose switches add, such as NVIDIA's SHARP, gets below it: then a rank sends its array once.
#
# ### Exercise 6: the busiest rank
#
# *Difficulty ●●○, 8 minutes.* Write the formula for the bytes that the busiest rank sends: for `"chain"`, `"tree"` and `"ring"`, with $N$ a power of two and at least 4. Step through the animations with 4 and 8 ranks and read the numbers below the columns.
#
# <details><summary>Hint</summary>
#
# In the tree, rank 0 sends only while broadcasting, once in every step. In the ring, every rank sends one part in every step.
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

# %%
for name in ("chain", "tree", "ring"):  # your formula beside what the ranks have counted above
    busiest, yours = max(rank[name][1] for rank in counted), bytes_sent(name, P.ranks, K)
    print(f"{name:5} counted {busiest:,} B, yours", "–" if yours is None else f"{yours:,.0f} B")

# %% [markdown]
# ## Independent of the number of workers?
#
# The lecture that this notebook follows says that a ring allreduce costs each worker $2(N-1)K/N$, "independent of N". Two curves depend on $N$: the bytes that each rank sends, and the steps that follow one another.
#
# > **Predict:** which of them becomes flat, "bytes", "steps", "both" or "none"?

# %%
guess["becomes flat"] = ...

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
guess.answer("becomes flat", "bytes")

# %% [markdown]
# Bytes become flat: $K$ for two workers, $1.5K$ for four, and never more than $2K$. Steps do not: there are $2(N-1)$ of them, and each costs a latency $\alpha$. So the sentence holds for bandwidth, for many workers; it does not hold for time. Measured on your ranks:

# %%
from helpers.collectives import measure

for n in range(2, P.ranks + 1):
    short, long = cluster.run(measure.allreduce_times, ["ring"], [1_024, 4_194_304], 9, n)[0][
        "ring"
    ]
    print(f"{n} ranks: 1 KB {1e3 * short:.3f} ms, 4 MB {1e3 * long:.2f} ms")

# %% [markdown]
# ## Cost, predicted and measured
#
# Two ranks play ping-pong with messages of growing size, as in notebook 01. We fit a straight line $\alpha + \beta m$. A second line is fitted while *all* ranks send to the right at the same time, as they do in a ring.

# %%
from helpers.collectives import measure

gamma = max(cluster.run(measure.addition))
alone = cluster.run(measure.ping_pong)[0]
together = cluster.run(measure.ring_steps)[0]
alone, together = alone[1:], together[1:]  # the first size warms up
quiet, busy = (cost.fit(s, n, gamma) for s, n in ((alone, "ping-pong"), (together, "ring step")))
print(quiet, busy, f"adding: 1/γ = {1 / gamma / 1e9:.3g} GB/s", sep="\n")

# %%
sizes = [size for size, _ in alone]
many = costs.fine(sizes)  # so many that the fit is drawn as the line that it is
costs.times_by_size(
    sizes,
    {"ping-pong, 2 ranks": [t for _, t in alone], "ring step, all ranks": [t for _, t in together]},
    {"ping-pong, 2 ranks": [quiet.message(m) for m in many],
     "ring step, all ranks": [busy.message(m) for m in many]},
    at=many,
).set(xlabel="size of the message (bytes)")  # fmt: skip
plt.show()

# %% [markdown]
# Dots are measured, dashed lines fitted. Where four ranks share two cores, a step of the ring takes longer than a message between two ranks that have the cores to themselves. So the ping-pong promises too much, and the predictions below use the fit of the *ring steps*, and γ. (For the ring that is nearly circular, since it consists of such steps. For tree and doubling it is a guess.)
#
# Now the four algorithms and MPI's own `Allreduce` run in turns, so that a disturbance hits all of them.
#
# > **Predict:** which of "chain", "tree", "recursive_doubling" and "ring" is fastest at 1 KB, and which at 4 MB?

# %%
guess["fastest at 1 KB"] = ...
guess["fastest at 4 MB"] = ...

# %%
array_sizes = [1_024, 16_384, 262_144, 1_048_576, 4_194_304]
flat = [name for name in ALGORITHMS if name != "two_level"]  # here, the ring once more
names = [*flat, "MPI_Allreduce"]
measured = cluster.run(measure.allreduce_times, names, array_sizes, 5)[0]
model_of = {name: cost.allreduce(name, P.ranks, busy) for name in flat}
predicted = {name: [model_of[name].at(K) for K in array_sizes] for name in flat}
many = costs.fine(array_sizes)
lines = {name: [model_of[name].at(K) for K in many] for name in flat}
costs.times_by_size(array_sizes, measured, lines, at=many)
plt.show()

# %%
from helpers.timing import seconds

rows = ["| algorithm | bytes | predicted | measured | measured ÷ predicted |", "|---|" + "--:|" * 4]
for name in names:
    for place in (0, 4):
        took, row = measured[name][place], f"| {name} | {array_sizes[place]:,} |"
        if name in predicted:
            said = predicted[name][place]
            rows.append(f"{row} {seconds(said)} | {seconds(took)} | {took / said:.2f} |")
        else:
            rows.append(f"{row} | {seconds(took)} | |")
Markdown("\n".join(rows))

# %% [markdown]
# What matters is less the time than the *order*. Is the algorithm that the model calls fastest really the fastest?

# %%
for size, place in (("1 KB", 0), ("4 MB", 4)):
    order = [sorted(flat, key=lambda n, t=t: t[n][place]) for t in (predicted, measured)]
    print(f"{size}: predicted {' < '.join(order[0])}\n      measured  {' < '.join(order[1])}")
    guess.answer(f"fastest at {size}", order[1][0])

# %% [markdown] claims="08-ping-pong"
# A model of three numbers knows nothing of caches, of the change from [eager](glossary.md#eager) to [rendezvous](glossary.md#rendezvous), or of ranks that share cores. For such a model a ratio between a half and two is good. With four ranks on two cores the order may differ from the predicted one. Had we predicted by the ping-pong of two ranks, we would have been further off:

# %%
claims.evidence("08-ping-pong")

# %% [markdown]
# ### Exercise 7: where ring and tree cross
#
# *Difficulty ●●○, 10 minutes.* Take $N$ a power of two and ignore γ. From which size $K$ on is the ring faster than the tree? Solve $T_\text{tree} = T_\text{ring}$ for $K$.
#
# <details><summary>Hint</summary>
#
# Both times are a number plus a number times $K$. Write $L = \log_2 N$, divide both sides by 2, and collect the terms with $\alpha$ on one side.
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
# Your formula and your functions in one picture. The line marks the size at which, by your formula and the α and β of the ring steps, ring and tree should cross. The points are measured, your own ring and doubling among them.


# %%
# %%ranks
from helpers.collectives import ALGORITHMS, measure


def by(name):
    return lambda x, comm: ALGORITHMS[name].in_place(x.copy(), comm)


def race(sizes, names, *yours):
    ways = {name: by(name) for name in ("tree", "ring")}
    for name, way in zip(names, yours, strict=True):
        if way(np.ones(8, np.float32), comm) is not None:
            ways[name] = way
    return measure.function_times(ways, sizes)


# %%
race_sizes = [4**k for k in range(5, 12)]
own = ("your ring", "your doubling")
raced = cluster.run(lambda *a: race(*a), race_sizes, own, ring_allreduce, doubling)[0]
ax = costs.times_by_size(race_sizes, raced)
crossing = crossover(P.ranks, busy.alpha, busy.beta)
if crossing:
    ax.axvline(crossing, color=style.BLACK, linestyle=":")
    ax.annotate(" your crossover", (crossing, 0.03), xycoords=("data", "axes fraction"))
plt.show()

# %% [markdown]
# ## Links
#
# What are α and β elsewhere? **PCIe** joins a processor with its devices by *lanes* that work in parallel. **NVLink** joins GPUs directly. **InfiniBand** and **Ethernet** join machines. **RDMA** lets a network card read and write another machine's memory without its processor (**RoCE**: RDMA over Ethernet). The last column of the table says where the figures come from.

# %%
from helpers.collectives.links import PRESETS


def held_together(took):  # a number and its unit stay on one line
    return seconds(took).replace(" ", "\N{NO-BREAK SPACE}")


rows = ["| link | α | 1/β (GB/s) | ring of 8, 102 MB | origin |", "|---|--:|--:|--:|---|"]
for link in [*PRESETS.values(), busy]:
    took = cost.allreduce("ring", 8, link).at(P.gradient)
    rows.append(
        f"| {link.name} | {held_together(link.alpha)} | {link.bandwidth / 1e9:.3g} | "
        f"{held_together(took)} | {link.origin} |"
    )
Markdown("\n".join(rows))

# %% [markdown]
# Mind the units: networks are sold in bits per second, so "100G" is 12.5 GB/s. One of the lecture's figures has the wrong unit, "985 MiB/s" for a lane of PCIe 3.0. A lane makes $8\cdot10^9$ transfers of a bit a second, and 128 of every 130 bits are data:

# %%
lane = 8e9 * 128 / 130 / 8  # bytes per second
print(f"{lane / 1e6:.0f} MB/s = {lane / 2**20:.0f} MiB/s")

# %% [markdown]
# ### Exercise 8: the rate to ask for
#
# *Difficulty ●●○, 10 minutes.* A ring of $N$ ranks (two or more) should allreduce $K$ bytes in a given time. What rate must its links have at least, in *bits* a second? Every message has a latency of `alpha` seconds. Of the bits on a link only the share `data` belongs to the array, such as 128/130 on a lane of PCIe 3.0. Leave γ out. If no rate is enough, return `math.inf`.
#
# <details><summary>Hint</summary>
#
# Take the ring's formula from the section *The ring*. Divide the time by the number of steps. What a step has left after its latency is for the bytes that one rank sends in it. What if nothing is left?
#
# </details>


# %% exercise="rate-for"
def rate_for(seconds, N, K, alpha, data):
    """Return the bit/s at which a ring of N allreduces K bytes in so many seconds, or math.inf."""
    # BEGIN SOLUTION
    import math

    for_bytes = seconds / (2 * (N - 1)) - alpha
    return 8 * K / N / data / for_bytes if for_bytes > 0 else math.inf
    # END SOLUTION


# %% check="rate-for" points=2
check.rate_for(rate_for)

# %% [markdown]
# Which links of the table let eight ranks allreduce the gradient of 102 MB in 50 ms? Would your own ranks be fast enough? (The table's rates are of data, so `data` is 1 here.)

# %%
in_time = 0.05  # s; try others
print(f"a ring of 8, {P.gradient / 1e6:.0f} MB in {1e3 * in_time:g} ms, in Gbit/s:")
for link in [*PRESETS.values(), busy]:
    needed = rate_for(in_time, 8, P.gradient, link.alpha, 1.0)
    has, asked = 8 * link.bandwidth / 1e9, "–" if needed is None else f"{needed / 1e9:.3g}"
    verdict = "" if needed is None else ", enough" if needed / 1e9 <= has else ", too slow"
    print(f"{link.name:24} has {has:6.4g}, needs {asked}{verdict}")

# %% [markdown]
# ## Between hosts
#
# All ranks so far shared one memory. A [host](glossary.md#host) is a machine in a network. `Network` makes four hosts inside your machine (*namespaces* of the Linux kernel). Each has a name, a network of its own, and one link to a switch that joins them, at the rate that you ask for. Ranks on one host share memory; what goes to another host is cut into packets and waits its turn on the link. A link of 100 Mbit/s is so slow that a clock sees every byte.
#
# > **Predict:** four hosts with two ranks each, links of 100 Mbit/s. In an allreduce of $K$ bytes over $H$ hosts, at least $2(H-1)/H \cdot K$ bytes must leave the busiest host, whatever the algorithm. How many ms is that for 1 MB? And which of the five algorithms comes nearest to it?

# %%
guess["least ms for 1 MB"] = ...
guess["fastest between hosts"] = ...

# %% [markdown]
# Two ranks on different hosts play ping-pong, then two on the same host, while the other ranks sleep. Then all eight run the algorithms.

# %%
from helpers.cluster import Network, StartError
from helpers.collectives import on_hosts

network = Network(hosts=4, rate=100e6)  # bit/s; two ranks on each, side by side: 0 and 1, 2 and 3
host_sizes = [1_024, 16_384, 262_144, 1_048_576]
try:
    with Cluster(n=8, network=network) as hosts:
        wire = hosts.run(measure.ping_pong, measure.LINK_SIZES, 5, None, 2)[0]
        memory = hosts.run(measure.ping_pong, measure.SIZES, 9)[0]
        timed = hosts.run(measure.allreduce_times, list(ALGORITHMS), host_sizes, 3, timeout=120)[0]
    between, inside = cost.fit(wire, "between hosts"), cost.fit(memory[1:], "inside a host")
except StartError as error:
    print(f"No hosts here ({error}): this is the record of a run elsewhere.")
    between, inside, timed = on_hosts.recorded(network.rate, host_sizes)
print(between, inside, sep="\n")
print(f"the wire carries {network.payload / 1e6:.2f} MB/s, the rest of 12.5 is packets' headers")

# %% [markdown]
# Now your Exercise 8 orders a link. A ring over four hosts with one rank each should allreduce 1 MB in 0.2 s. For α we take the latency between hosts, just printed; `data` is the share that packet headers leave. The cell makes hosts with links of your rate, and measures whether it was enough.

# %%
time_asked, data = 0.2, 8 * network.payload / network.rate
if check.rate_for.passed(rate_for):
    ordered = rate_for(time_asked, 4, 1_048_576, between.alpha, data)
    print(f"ordered: links of {ordered / 1e6:.1f} Mbit/s, of which {data:.1%} are data")
    try:
        with Cluster(n=4, network=Network(hosts=4, rate=ordered)) as hosts:
            took = hosts.run(measure.allreduce_times, ["ring"], [1_048_576], 3, timeout=120)[0]
        print(f"asked for {1e3 * time_asked:.0f} ms, measured {1e3 * took['ring'][0]:.0f} ms")
    except StartError as error:
        print(f"No hosts here ({error}).")
else:
    print("Exercise 8 first")

# %% [markdown]
# β of the link is the rate that we asked for. α is some ten microseconds, since these links add no delay (`delay=` adds one). With α, β and a *schedule* (who sends what to whom in which step) we can price an allreduce. A step takes as long as its slowest part, and everything that leaves or enters a host in one step shares its one link.

# %%
from helpers.collectives import placement

Code(inspect.getsource(placement._seconds), language="python")

# %%
side_by_side, many = network.places(8), costs.fine(host_sizes)
said = {name: placement.seconds(name, many, side_by_side, inside, between) for name in ALGORITHMS}
least = 2 * 3 / 4 * 1_048_576 / network.payload
guess.answer("least ms for 1 MB", 1e3 * least)
guess.answer("fastest between hosts", min(timed, key=lambda name: timed[name][-1]))
ax = costs.times_by_size(host_sizes, timed, said, at=many)
ax.set_title("Four hosts, two ranks each, links of 100 Mbit/s")
plt.show()

# %% [markdown] claims="08-two-levels 08-hosts-model"
# Read the picture from the right: at 1 MB the bytes decide, and the two levels and the ring come nearest to the least time. In the records of two processors the model is within 6 % for recursive doubling and the ring. The two levels take 18 % longer than it says and the tree a quarter. (α was measured while the other ranks slept; with all of them at work a step takes longer.) By the model the two levels should beat the ring, and at 1 Gbit/s they do. At 100 Mbit/s the records are a draw. (Ranks must first learn who shares a host. These times leave that out.)

# %%
display(claims.evidence("08-two-levels"), claims.evidence("08-hosts-model"))

# %% [markdown]
# ### Who sits where
#
# The ring's ranks sat side by side: of each host's two ranks, only one sends to another host. A job scheduler can also deal the ranks out in turn: 0 to 3 on hosts 0 to 3, and 4 to 7 on hosts 0 to 3 again.

# %%
dealt = Network(hosts=4, rate=100e6, placement="cyclic")
print("side by side", side_by_side, " dealt out", dealt.places(8))
for name in ("ring", "two_level"):
    for way, places in (("side by side", side_by_side), ("dealt out", dealt.places(8))):
        (took,) = placement.seconds(name, [1_048_576], places, inside, between)
        print(f"{name:10s} {way:13s} {1e3 * took:6.1f} ms")

# %% [markdown] claims="08-placement"
# Now both ranks of each host send to another host, and its link carries twice the bytes in every step. Measured on two processors, it takes 1.8 to 1.9 times as long for 256 KB and 2.1 times for 1 MB. Two levels form their rings by host, whatever the ranks' numbers. A job script that asks for `--distribution=block` or `cyclic` chooses between these two.

# %%
claims.evidence("08-placement")

# %% [markdown]
# ### Exercise 9: a seating plan
#
# *Difficulty ●●○, 10 minutes.* In the flat ring rank $r$ sends to rank $(r+1) \bmod N$. Given the host of each rank, such as `(0, 0, 1, 1)`, how many times slower than the best seating does this seating make the ring, for a long array? All steps are alike, so count what the busiest link must carry in one. (If all ranks share one host there is no link, and the factor is 1.)
#
# <details><summary>Hint</summary>
#
# For each host count its ranks whose right neighbour sits elsewhere. In the best seating that is 1 for each host. A link carries both directions at once, and as many messages enter a host as leave it.
#
# </details>


# %% exercise="seating"
def seating(hosts):
    """Return how many times longer a step takes than with hosts side by side."""
    # BEGIN SOLUTION
    n = len(hosts)
    if len(set(hosts)) == 1:
        return 1
    leaving = dict.fromkeys(hosts, 0)
    for rank in range(n):
        leaving[hosts[rank]] += hosts[rank] != hosts[(rank + 1) % n]
    return max(leaving.values())
    # END SOLUTION


# %% check="seating" points=2
check.seating(seating)

# %%
for way, places in (("side by side", side_by_side), ("dealt out", dealt.places(8))):
    print(f"{way}: {places}, by your count × {seating(places) or '–'}")

# %% [markdown]
# ### Exercise 10: predict, then set it
#
# *Difficulty ●●○, 10 minutes.* Exercise 9 compared seatings; now predict the time of one. `hosts` names the host of each rank, on two hosts or more, such as `(0, 1, 0, 1)`. Return the least seconds of an allreduce of $K$ bytes by the flat ring through all ranks in order. A host's link carries `payload` bytes a second each way. Each step costs `alpha` seconds once, however many messages share a link in it. Messages inside a host and adding cost nothing. Then choose hosts, ranks, a seating, a rate and a size: the next cell makes those hosts, measures, and compares.
#
# <details><summary>Hint</summary>
#
# How many ranks does the ring have, how many steps, there and back again, and how long is a part? In each step the busiest link carries as many parts as you counted in Exercise 9.
#
# </details>


# %% exercise="ring-on-hosts"
def ring_on_hosts(hosts, K, alpha, payload):
    """Return the seconds of a ring allreduce of K bytes; hosts[r] is the host of rank r."""
    # BEGIN SOLUTION
    N = len(hosts)
    leaving = [hosts[r] for r in range(N) if hosts[r] != hosts[(r + 1) % N]]
    parts = max(map(leaving.count, leaving))  # through the busiest link, in each step
    return 2 * (N - 1) * (alpha + parts * K / N / payload)
    # END SOLUTION


my_hosts, my_ranks = 2, 4  # yours: 2 to 8 hosts, and as many ranks on each
my_seating, my_rate, my_size = "cyclic", 50e6, 500_000  # "block" or "cyclic", bit/s, bytes

# %% check="ring-on-hosts" points=2
check.ring_on_hosts(ring_on_hosts)

# %%
mine = Network(my_hosts, rate=my_rate, placement=my_seating)
if check.ring_on_hosts.passed(ring_on_hosts):
    places = mine.places(my_ranks)
    try:
        with Cluster(n=my_ranks, network=mine) as hosts:
            took = hosts.run(measure.allreduce_times, ["ring"], [my_size], 3, timeout=120)[0]
        told = ring_on_hosts(places, my_size, between.alpha, mine.payload)
        print(f"{places}: predicted {seconds(told)}, measured {seconds(took['ring'][0])}")
    except StartError as error:
        print(f"No hosts here ({error}).")
else:
    print("Exercise 10 first")

# %% [markdown]
# ### Exercise 11: eight hosts
#
# *Difficulty ●●○, 10 minutes.* Eight hosts with one rank each. Which algorithm, `"recursive_doubling"` (3 steps of $K$) or `"ring"` (14 steps of $K/8$), do you take for $K$ bytes on a link of latency `alpha` and `beta` seconds a byte?
#
# <details><summary>Hint</summary>
#
# Each step costs a latency and its own bytes. Which algorithm pays more latencies, and which sends more bytes?
#
# </details>


# %% exercise="choose"
def choose(K, alpha, beta):
    """Return the name of the faster algorithm."""
    # BEGIN SOLUTION
    doubling = 3 * (alpha + K * beta)
    ring = 14 * (alpha + K / 8 * beta)
    return "ring" if ring < doubling else "recursive_doubling"
    # END SOLUTION


# %% check="choose" points=1
check.choose(choose)

# %% [markdown]
# Does the ring's cost depend on the number of workers? Time against the number of hosts, for an array of 256 KB, recorded and by the model; and what you would choose.

# %%
counts, grown, model_says = on_hosts.growing(rate=100e6)
ax = costs.times_by_ranks(counts, grown, predicted=model_says)
ax.set(xlabel="number of hosts, one rank each", title="256 KB, links of 100 Mbit/s")
plt.show()
if check.choose.passed(choose):
    for nbytes in (1_024, 262_144):
        print(f"for {nbytes:7,} bytes you choose {choose(nbytes, between.alpha, between.beta)}")

# %% [markdown]
# It does. By the model the ring's time grows from 22 ms on two hosts to 38 on eight, since $2(N-1)/N$ grows from 1 to 1.75; it never passes 2, while the other two algorithms grow without end. Measured, it is 23 and 64 ms: all hosts of this record share two cores, and the model knows nothing of cores.

# %% [markdown]
# ## Thousands of ranks
#
# Take nodes of $G = 8$ GPUs, with NVLink inside and InfiniBand between the nodes. The eight GPUs share **one** InfiniBand port (`ports=1`; large training machines have four to eight). Let the number of nodes grow to $M = 2048$. Three ways to allreduce:
#
# - **flat ring** through all GPUs: $2(N-1)$ steps, each as slow as its slowest link;
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
far = Machine(512, 8, NVLINK, INFINIBAND)
small = {way: cost.at(16_384) for way, cost in (("ring", far.flat_ring()), ("tree", far.tree()))}
for way, took in small.items():
    print(f"16 KB on 4096 GPUs by the {way}: {1e3 * took:.3g} ms")

# %% [markdown]
# The flat ring's time becomes a straight line: with 16 384 GPUs it takes 32 766 steps, and latency is all that counts. With two levels the steps inside a node stay the same, and there are $2(M-1)$ steps between nodes, an eighth as many. The tree's time hardly grows, but each of its steps carries the whole array. (The kink between 8 and 16 GPUs is the edge of the first node: from there on InfiniBand takes part.) Which of the three is best depends on the size:

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
# Each row is a division: two straight lines, a constant plus a multiple of $K$, cross there. Of *these three*, the tree is best for ever longer arrays as the machine grows. That is not the last word: the project below, used between nodes in place of the ring, has as few steps as a tree and as few bytes as a ring, and takes most of that range. For the very longest arrays the flat ring wins only because our two levels run one after the other: the links inside a node rest while those between nodes work. Libraries cut the array into pieces and overlap both levels.
#
# ### Exercise 12: two levels, on two hosts
#
# *Difficulty ●●○, 12 minutes.* Write the two levels. `node` is the communicator of the $G$ ranks of your node; `across` is the communicator of the ranks with your place in each of the $M$ nodes. Return the sums of `x` over all ranks of all nodes, as a new array. $G$ divides its length. You may call MPI's own collectives on both communicators (`Reduce_scatter_block` is its reduce-scatter with equal parts), but a call on `across` may carry only your part, one $G$-th of the array. There may be one node, or one rank in each.
#
# <details><summary>Hint</summary>
#
# Three calls, one for each of the three phases in the list at the head of this section. `node.Reduce_scatter_block(x, part)` leaves in `part` the node's sums of this rank's part of `x`: make `part` long enough, with the type of `x`.
#
# </details>


# %% exercise="two-levels"
def two_levels(x, node, across):
    """Return the sums of x over all nodes; between nodes goes one part from each rank."""
    # BEGIN SOLUTION
    part = np.empty(len(x) // node.Get_size(), x.dtype)
    node.Reduce_scatter_block(x, part)
    total, whole = np.empty_like(part), np.empty_like(x)
    across.Allreduce(part, total)
    node.Allgather(total, whole)
    return whole
    # END SOLUTION


# %% check="two-levels" points=3
check.two_levels(two_levels, cluster=cluster)

# %% [markdown]
# Your two levels against the flat ring, on two hosts with two ranks each and links of 100 Mbit/s.
#
# > **Predict:** how many times as long as your two levels does the flat ring take for 1 MB? (Count what leaves a host: $2(N-1)/N \cdot K$ in the ring of $N = 4$; how much in yours?)

# %%
guess["flat ring ÷ two levels, 1 MB"] = ...


# %%
def race_on_hosts(yours, sizes):
    from helpers.collectives import ALGORITHMS, measure

    node, across = comm.Split(rank // 2), comm.Split(rank % 2)
    ways = {"flat ring": lambda x, comm: ALGORITHMS["ring"].in_place(x.copy(), comm)}
    ways["your two levels"] = lambda x, comm: yours(x, node, across)
    return measure.function_times(ways, sizes, 3)


if check.two_levels.passed(two_levels, cluster=cluster):
    try:
        with Cluster(n=4, network=Network(2, rate=100e6)) as hosts:
            raced = hosts.run(race_on_hosts, two_levels, host_sizes, timeout=120)[0]
        costs.times_by_size(host_sizes, raced).set(title="Two hosts, two ranks each, 100 Mbit/s")
        plt.show()
        ring_took, yours_took = raced["flat ring"][-1], raced["your two levels"][-1]
        guess.answer("flat ring ÷ two levels, 1 MB", ring_took / yours_took)
    except StartError as error:
        print(f"No hosts here ({error}).")

# %% [markdown]
# ## Project: few steps *and* few bytes
#
# *Difficulty ●●●, 40 minutes.* The tree has few steps, the ring few bytes. *Recursive halving and doubling* (Rabenseifner 2004) has both: $2\log_2 N$ steps and $2(N-1)K/N$ bytes. Exchange *halves* with a partner at distance $N/2$, so that each of you is left with the sums of one half. Exchange quarters with a partner at distance $N/4$, and so on, until each rank has the complete sums of one $N$-th. Then go back: exchange what you have with the same partners in reverse order, until everybody has everything.
#
# Write it for $N$ a power of two that divides the length of `x`, and for any type of number. Return a new array.
#
# <details><summary>Hint</summary>
#
# Keep `low, high`, the range that is still yours, and a list of `(partner, low, high)` of the steps taken. A rank with the bit `rank & distance` set keeps the upper half and gives away the lower.
#
# </details>


# %% exercise="halving-doubling"
def halving_doubling(x, comm):
    """Return the sums of x over N = 2^L ranks, by 2 L exchanges of N/2, N/4, ... parts."""
    # BEGIN SOLUTION
    n, rank, work = comm.Get_size(), comm.Get_rank(), x.copy()
    low, high, distance, taken = 0, len(x), n // 2, []
    while distance:
        partner, middle = rank ^ distance, (low + high) // 2
        taken.append((partner, low, high))
        lower, upper = slice(low, middle), slice(middle, high)
        mine, other = (upper, lower) if rank & distance else (lower, upper)
        theirs = np.empty_like(work[mine])
        comm.Sendrecv(work[other], partner, 0, theirs, partner, 0)
        work[mine] += theirs
        low, high, distance = mine.start, mine.stop, distance // 2
    for partner, first, last in reversed(taken):
        other = slice(high, last) if low == first else slice(first, low)
        comm.Sendrecv(work[low:high], partner, 0, work[other], partner, 0)
        low, high = first, last
    return work
    # END SOLUTION


# %% check="halving-doubling" points=5
check.halving_doubling(halving_doubling, cluster=cluster)

# %%
own = ("your ring", "your doubling", "yours: halving, doubling")
mine = (ring_allreduce, doubling, halving_doubling)
entrants = cluster.run(lambda *a: race(*a), race_sizes, own, *mine)[0]
costs.times_by_size(race_sizes, entrants)
plt.show()

# %% [markdown]
# ## What breaks
#
# > **Predict:** three things go wrong below. Rank 2 calls a broadcast before an allreduce, the other ranks call them the other way round: is it "a deadlock", "an error" or "a result"? Rank 1 brings 7 numbers to an allreduce of 8: how many of the four ranks notice? An operation that does not commute goes round the ring: how many of four numbers come out right?

# %%
guess["one rank in another order"] = ...
guess["ranks that notice a missing number"] = ...
guess["numbers that the ring gets right"] = ...

# %% [markdown]
# **One rank calls something else.** All ranks must call the same collectives in the same order. Here rank 2 calls the broadcast first:

# %%
import re

from helpers.cluster import RankError, RankTimeoutError


def in_another_order():
    first, then = (comm.bcast, comm.allreduce) if rank == 2 else (comm.allreduce, comm.bcast)
    first(rank)
    return then(rank)


try:
    print(cluster.run(in_another_order, timeout=3))
    came_of_it = "a result"
except (RankTimeoutError, RankError) as error:
    print(error)
    came_of_it = "a deadlock" if isinstance(error, RankTimeoutError) else "an error"
guess.answer("one rank in another order", came_of_it)

# %% [markdown]
# Libraries differ here: a deadlock, an error about sizes, or, worst of all, a wrong result. In training it happens when one rank skips a layer, or takes an `if` that the others do not take.
#
# **Arrays of different length.** Rank 1 has lost a number:


# %%
def one_has_lost_a_number():
    from helpers import collectives

    return collectives.allreduce(np.ones(7 if rank == 1 else 8), comm)


try:
    print(cluster.run(one_has_lost_a_number))
    noticed = 0
except RankError as error:
    last = [text.strip().splitlines()[-1] for text in error.tracebacks.values()]
    noticed = len(last)
    print(f"{noticed} ranks:", re.sub(r"\x1b\[[0-9;]*m", "", last[0]))  # without its colours
guess.answer("ranks that notice a missing number", noticed)

# %% [markdown]
# All four ranks notice, and each says who passed what. Before its first message the course's `allreduce` compares the calls of all ranks, which takes a small allreduce more; the loops that we timed above leave it out. MPI does not compare. If a message is longer than the array that it is to fill, one rank raises an error and the others wait for it. If a message is *shorter*, MPI says nothing, and the rest of the array keeps what was in it.
#
# **An operation that does not commute.** The ring adds part $i$ in the order $i+1, i+2, \dots, i$, another one for each part. For sums that is rounding. For an operation whose order matters, such as a product of matrices, it is another result. Here the operation appends digits, so that four ranks should make 1234; the ring's two loops are called directly, without the question whether the operation commutes:

# %%
# %%ranks
import numpy as np

from helpers.collectives import allreduce, ring, tree


def append(mine, theirs, theirs_first=True):  # 12 and 3 give 123
    first, then = (theirs, mine) if theirs_first else (mine, theirs)
    mine[:] = first * 10 ** np.array([len(str(n)) for n in then]) + then


by_ring, by_tree = np.full(4, rank + 1), np.full(4, rank + 1)
ring.allreduce(by_ring, comm, append)
tree.allreduce(by_tree, comm, append)
if rank == 0:
    print("ring:", by_ring, " tree:", by_tree)

# %%
right = sum(cluster.run(lambda: by_ring)[0] == 1234)
guess.answer("numbers that the ring gets right", int(right))

# %% [markdown]
# Three of the ring's four numbers are wrong, and nothing warned us. So the course's `allreduce` asks first:

# %%
# %%ranks --only 0,1,2,3
product = MPI.Op.Create(lambda a, b, kind: None, commute=False)
try:
    allreduce(np.ones(4), comm, product, "ring")
except ValueError as error:
    if rank == 0:
        print("refused:", error)

# %% [markdown]
# ## What the sources say, what we measured
#
# The right column is what ran in this notebook on your machine, unless it names another origin.

# %%
chain_sent, ring_sent = ([one[name][1] / K for one in counted] for name in ("chain", "ring"))
level_ms, ring_ms = (1e3 * timed[name][-1] for name in ("two_level", "ring"))
rows = [
    ("collectives: broadcast, scatter, gather, allgather, reduce, allreduce, drawn",
     f"recorded, playable; {sum(map(sum, agreed))} of {sum(map(len, agreed))} results are MPI's"),
    ("allreduce by a chain: \"communication per worker is N\"",
     f"sent by each of four, ÷ K: {', '.join(f'{x:g}' for x in chain_sent)}; the N is in the number "
     f"of *steps*, {cost.steps('chain', P.ranks)}"),
    ("ring allreduce, with a question mark: can workers do without a server?",
     "yes: two loops over `Sendrecv`, no rank is special"),
    ("\"cost for each worker is 2(N−1)K/N, independent of N\"",
     f"counted {max(ring_sent):g} K; for N = 1000 by the formula {thousand:.3f} K"),
    ("reduce part $i$ to worker $i$, all at once, then broadcast each", "the ring, numbered so"),
    ("one ring through all ranks (two levels are not in the sources)",
     f"four hosts, 100 Mbit/s, 1 MB: two levels {level_ms:.0f} ms, ring {ring_ms:.0f} ms"),
    ("PCIe 3.0: 985 MiB/s a lane", f"computed: {lane / 1e6:.0f} MB/s"),
    ("Ethernet 10M-100G, 100-20 µs; InfiniBand 2.5-250G, 5-0.5 µs", "*the sources' figures*, taken "
     f"over with units, not measured; your ranks: {1 / busy.beta / 1e9:.2g} GB/s, "
     f"{seconds(busy.alpha)}"),
    ("NVLink, RDMA: named without figures", "*not measured*: other origins, in the table of links"),
]  # fmt: skip
table = ["| the sources say | here |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)]
Markdown("\n".join(table))

# %% [markdown]
# ## Summary
#
# - Allreduce is reduce-scatter plus allgather. Two loops of `Sendrecv` make a ring; part $i$ ends at rank $i$ because it starts at rank $i+1$.
# - A ring's bytes are bounded by $2K$ for any $N$; its number of steps, and so its time, is not.
# - Few steps win for short arrays and few bytes for long ones. With $\alpha$, $\beta$ and $\gamma$ each crossover is one division.
# - A ping-pong of two ranks promises too much for a ring. Fit the numbers to what the ranks will really do.
# - Between hosts the busiest link sets the time: seat neighbours side by side, or use two levels.
#
# **In practice** you call `torch.distributed.all_reduce` or `DistributedDataParallel`; NCCL (on GPUs) or gloo (on CPUs) does the work. NCCL has rings and trees, estimates the time of each from a table of latencies and bandwidths such as ours, and takes the faster. Its trees are two at once, cut into pieces, so that they lose no bandwidth. Baidu and Horovod brought the ring to deep learning.
#
# **References**
#
# - R. Rabenseifner, *Optimization of collective reduction operations*, 2004: halving and doubling.
# - R. Thakur, R. Rabenseifner, W. Gropp, [Optimization of collective communication operations in MPICH](https://doi.org/10.1177/1094342005051521), 2005: the algorithms and their costs.
# - P. Patarasuk, X. Yuan, [Bandwidth optimal all-reduce algorithms for clusters of workstations](https://doi.org/10.1016/j.jpdc.2008.09.002), 2009: why nobody can send less than the ring.
# - R. Hockney, [The communication challenge for MPP](https://doi.org/10.1016/S0167-8191(06)80021-9), 1994: the model with α and β.
# - Z. Tian, *Introduction to Computation Technologies in Deep Learning*, 2019: the lecture whose claims are examined.
# - [NCCL's tuning.cc](https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc): the cost model of a library in use.
#
# **Next**: [02_sgd_sync_async](02_sgd_sync_async.ipynb) trains a network on four ranks with the collectives that you have just built.

# %%
cluster.stop()
