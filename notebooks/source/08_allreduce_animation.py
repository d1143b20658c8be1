# %% [markdown]
# # Watch an allreduce happen, and price it
#
# When several processes train one model, each has a gradient of its own, and all of them need the sum. An *allreduce* adds up the arrays of all processes and gives every process the sum. You will write an allreduce, watch its messages, and predict its time on four processes and on sixteen thousand.

# %% tags=["parameters"]
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from helpers import claims
from helpers.cluster import Cluster, Network, RankError, RankTimeoutError, StartError
from helpers.collectives import ALGORITHMS, cost, halving, measure, on_hosts, placement
from helpers.collectives.recording import record, schedules, sent
from helpers.collectives.schedule import model
from helpers.exercises import collectives as check
from helpers.exercises.predictions import Predictions
from helpers.plots import allreduce, costs, style
from helpers.plots.animation import animate
from helpers.timing import Others

# %load_ext helpers.cluster
style.use()


@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    gradient: int = 102_000_000  # bytes: ResNet-50's 25.6 million parameters in float32


P = Parameters()
guess = Predictions()
cluster = Cluster(n=P.ranks)

# %% [markdown]
# Four processes, called *ranks*, run a *ring*, one kind of allreduce. Press *play*. A column is a rank, and a box is a **chunk** of its array. A **stripe** in rank 2's colour means that the chunk's sum contains rank 2's numbers. A thick border marks a complete sum. Below each rank is the amount that it has sent, in multiples of the array's size $K$. All messages are drawn as if they took equally long.

# %%
animate(schedules(cluster.run(record, ["ring"], (P.ranks,))))

# %% [markdown]
# **You will be able to**
#
# - write a ring allreduce from two loops, and count its steps and bytes;
# - predict the time of an allreduce from three numbers that you measure, and say how far to trust the prediction;
# - choose an algorithm for ranks on several hosts, and for thousands of GPUs;
# - judge the sentence "the cost of a ring allreduce does not depend on the number of workers".
#
# **You need** ranks, send and receive, latency and bandwidth from notebook [01](01_mpi_basics.ipynb). *Time:* 148 minutes: five for this introduction, three lessons of 47, 28 and 28, a project of 35 minutes, and five for what breaks. Each lesson runs after the cells above, without the other lessons. *Cores:* two are enough. *GPU:* none.
#
# | symbol | meaning | unit |
# |---|---|---|
# | $N$ | number of [ranks](glossary.md#rank) (workers) | |
# | $K$ | size of the array on each rank | bytes |
# | $\alpha$ | [latency](glossary.md#latency): time of a message of no bytes | s |
# | $\beta$ | time for each further byte; $1/\beta$ is the [bandwidth](glossary.md#bandwidth) | s/B |
# | $\gamma$ | time to add one byte's worth of numbers | s/B |

# %% [markdown]
# ## Lesson 1. How do ranks add up their arrays?
#
# *47 minutes.* Four ranks each have a gradient of 100 MB, and all of them need the sum. One way is a chain. Rank 0 sends its gradient to rank 1, which adds its own and sends the result to rank 2, and so on. Rank 3 sends the sum back along the chain. Can the ranks share this work better?
#
# > **Predict.** How many MB does the busiest rank of the chain send? Can the four get their sum with no rank sending more than 150 MB ("yes" or "no")? If a thousand ranks share the load evenly, how many MB must each of them send at least?

# %%
guess["MB sent by the busiest of four, in a chain"] = ...
guess["no rank more than 150 MB"] = ...
guess["MB sent by each of a thousand, at least"] = ...

# %% [markdown]
# ### Four numbers on four ranks
#
# Rank $r$ starts with the numbers $10r, 10r+1, 10r+2, 10r+3$. Every rank wants the sum of all first numbers, of all second numbers, and so on. MPI's `Allreduce` computes these four sums; we shall compare ours with them:

# %%
# %%ranks
import numpy as np

x = 10.0 * rank + np.arange(4)
reference = np.empty(4)
comm.Allreduce(x, reference)
chunks = np.split(x.copy(), size)  # here each chunk is one number
print(*x.astype(int), "->", *reference.astype(int))

# %% [markdown]
# Now by hand. Cut each array into $N$ chunks; here a chunk is one number. Put the ranks on a ring, in which rank $r$ sends only to its right neighbour, rank $r+1$ (all indices are modulo $N$). In every step every rank sends **one chunk**, and adds the chunk that it receives to its own chunk with the same index. Rank $r$ first sends chunk $r-1$, and then always the chunk to which it has just added. In the picture, the four chunks of the first step (dashed frames) are on their way:

# %%
from helpers.plots.animation import draw_state

draw_state(model("ring", P.ranks), step=0, part=0.5, ring=True)
plt.show()

# %%
# %%ranks
right, left = (rank + 1) % size, (rank - 1) % size
for step in range(size - 1):
    give, take = (rank - step - 1) % size, (rank - step - 2) % size
    theirs = np.empty_like(chunks[take])
    comm.Sendrecv(chunks[give], right, 0, theirs, left, 0)
    chunks[take] += theirs
    mine = [int(chunk[0]) for chunk in chunks]
    print(f"step {step}: gave chunk {give}, added to chunk {take}: {mine}")
assert mine[rank] == reference[rank]

# %% [markdown]
# After three steps, chunk $r$ is complete on rank $r$: compare it with the sums above. The other chunks are partial sums. (The sum of chunk $r$ starts on rank $r+1$ and moves one rank to the right in each of $N-1$ steps. So it ends on rank $r + N$, which is rank $r$.) This half of the ring is called *reduce-scatter*.
#
# The second half, *allgather*, sends the complete chunks round the ring once more. You write it.
#
# ### Exercise 1: what to send
#
# *Difficulty ●○○, 5 minutes.* Rank $r$ now has the complete chunk $r$, and sends it to the right in step 0. Which chunk does it send in step $s$, so that after $N-1$ steps every rank has all chunks?
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
# ### Exercise 2: the whole ring
#
# *Difficulty ●●○, 25 minutes.* Join both halves: `ring_allreduce(x, comm)` returns the sums over all ranks as a new array. It must work for vectors `x` of *any* length, even below $N$ or not divisible by $N$, for any type of number (gradients are `float32`), and for $N = 1$. You can race it at the end of the project.
#
# <details><summary>Hint</summary>
#
# `np.array_split(work, n)` makes chunks of nearly equal length, some perhaps empty. They are views: receiving into a chunk changes `work`. In the first half, receive into a new array of the same length and type as the chunk that you add to. In the second half, call your function of Exercise 1 for the left neighbour: it says which chunk arrives.
#
# </details>


# %% exercise="ring-allreduce"
def ring_allreduce(x, comm):
    """Return the sums of x over all ranks, by a ring; x itself is not changed."""
    # BEGIN SOLUTION
    n, rank = comm.Get_size(), comm.Get_rank()
    right, left, work = (rank + 1) % n, (rank - 1) % n, x.copy()
    chunks = np.array_split(work, n)
    for step in range(n - 1):
        give, take = chunks[(rank - step - 1) % n], chunks[(rank - step - 2) % n]
        theirs = np.empty_like(take)
        comm.Sendrecv(give, right, 0, theirs, left, 0)
        take += theirs
    for step in range(n - 1):
        give, take = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        comm.Sendrecv(give, right, 0, take, left, 0)
    return work
    # END SOLUTION


# %% check="ring-allreduce" points=4
check.ring_allreduce(ring_allreduce, cluster=cluster)

# %% [markdown]
# ### Five ways, watched
#
# Five algorithms for an allreduce:
#
# | algorithm | what happens | steps |
# |---|---|---|
# | chain | the sum passes from rank to rank, and back | $2(N-1)$ |
# | tree | neighbours pair up: the right rank of a pair sends its array, the left rank adds it. The left ranks pair up again, until rank 0 has the sum. The sum returns the same way | $2\lceil\log_2 N\rceil$ |
# | recursive doubling | partners exchange *whole arrays*, and both add; partners are at distance 1, then 2, then 4, and so on | $\log_2 N$, for $N$ a power of two |
# | ring | $N$ chains at once, one for each chunk | $2(N-1)$ |
# | halving and doubling | partners exchange *halves*, then quarters, and so on, until each rank has one complete chunk; then the same way back | $2\log_2 N$, for $N$ a power of two |
#
# Choose an algorithm from the menu, and press ▶|. In which algorithms does every rank send in every step? (Green label: recorded on your ranks. Grey: simulated.)

# %%
FOUR = ["chain", "tree", "recursive_doubling", "ring"]
plans = schedules(cluster.run(record, FOUR, (P.ranks,)))
animate([*plans, halving.schedule(P.ranks)])

# %% [markdown]
# ### Bytes for each rank
#
# In chain and tree, some ranks wait in each step; in the other three, every rank sends. Now your ranks count what they send in an allreduce of 1.2 MB. (Halving and doubling is simulated.) Compare the highest bars:

# %%
counted = cluster.run(sent, FOUR, 1_200_000)
shares = {name: [rank[name][1] / 1_200_000 for rank in counted] for name in FOUR}
assert all(np.isclose(max(shares[name]), cost.sent(name, P.ranks)) for name in FOUR)  # by formula
ours = halving.schedule(P.ranks).sent(1_200_000)
costs.bytes_by_rank(shares | {"halving and doubling": [each / 1_200_000 for each in ours]}, K=1)
plt.show()
thousand = cost.sent("ring", 1000)
guess.answer("MB sent by the busiest of four, in a chain", round(100 * cost.sent("chain", 4)))
most = 100 * cost.sent("ring", 4)
guess.answer("no rank more than 150 MB", "yes" if most <= 150 else "no")
print(f"in a ring of four, each rank sends {most:g} MB; of a thousand, {100 * thousand:.1f} MB")
guess.answer("MB sent by each of a thousand, at least", 100 * thousand)

# %% [markdown]
# In the chain, each inner rank sends the array once in each direction, $2K$ bytes. In the tree, rank 0 sends it in each of the $\log_2 N$ steps on the way back: $K\log_2 N$ bytes, $2K$ for four ranks. In recursive doubling, every rank sends $K\log_2 N$ bytes. In the ring, every rank sends a chunk of $K/N$ bytes in each of $2(N-1)$ steps, $1.5K$ for four ranks. Halving and doubling sends as little: on four ranks $K/2 + K/4$ while halving, and again while doubling.
#
# Can an algorithm send less than the ring? No, as long as ranks do the adding. Take one number of the result. When the first rank has it, at least $N-1$ messages have arrived: every other rank had to send its part. At that moment the other $N-1$ ranks still lack the result, so each must receive at least one more message. So each number of the result takes at least $2(N-1)$ transfers, and all ranks together send at least $2(N-1)K$ bytes. Shared evenly, these are $2(N-1)K/N$ for each rank, as in the ring. (Switches that add, as in NVIDIA's SHARP, need less: each rank sends its $K$ bytes once.)
#
# **Answer.** Yes: a ring cuts the array into $N$ chunks and runs $N$ chains at once. Every rank sends $2(N-1)K/N$ bytes, and as long as ranks do the adding, some rank must send at least as many in every algorithm. Halving and doubling needs fewer steps for the same bytes. *Evidence: your ranks' counts equal the formulas; for halving and doubling, its simulation.*

# %% [markdown]
# ## Lesson 2. What does an allreduce cost?
#
# *28 minutes.* A ring sends few bytes in many steps. A tree sends many bytes in few steps. Which is faster, and can we know it before we run them?
#
# > **Predict.** On your four ranks: which of "chain", "tree", "recursive doubling" and "ring" is fastest for 1 KB, and which for 4 MB? As more ranks join a ring, which levels off: the "bytes" that each rank sends, the number of "steps", "both" or "none"?

# %%
guess["fastest at 1 KB"] = ...
guess["fastest at 4 MB"] = ...
guess["becomes flat"] = ...

# %% [markdown]
# ### The model: count steps, bytes and additions
#
# A message of $m$ bytes takes $\alpha + m\beta$, and adding it takes $m\gamma$. What happens at the same time counts once. For example, the ring takes $2(N-1)$ steps with a chunk of $K/N$ bytes each, and each rank adds $N-1$ chunks:
#
# | algorithm | predicted time |
# |---|---|
# | chain | $2(N-1)\,(\alpha + K\beta) + (N-1)\,K\gamma$ |
# | tree | $2\lceil\log_2 N\rceil\,(\alpha + K\beta) + \lceil\log_2 N\rceil\,K\gamma$ |
# | recursive doubling | $\log_2 N\,(\alpha + K\beta + K\gamma)$ |
# | ring | $2(N-1)\left(\alpha + \frac{K}{N}\beta\right) + \frac{N-1}{N}\,K\gamma$ |
# | halving and doubling | $2\log_2 N\,\alpha + 2\,\frac{N-1}{N}\,K\beta + \frac{N-1}{N}\,K\gamma$ |
#
# A lecture says that the ring costs each worker (rank) $2(N-1)K/N$ bytes, "independent of N". Is that so for its bytes (left), and for its steps (right)?

# %%
counts = [2**k for k in range(1, 15)]
bytes_of_ring = [cost.sent("ring", N) for N in counts]
steps = {name: [cost.steps(name, N) for N in counts] for name in ("ring", "tree")}
allreduce.bytes_and_steps(counts, bytes_of_ring, steps)
plt.show()
guess.answer("becomes flat", "bytes")

# %% [markdown]
# For bytes, nearly: each rank sends $K$ bytes if there are two ranks, $1.5K$ if there are four, and always less than $2K$. But the number of steps grows without limit, and each step costs a latency $\alpha$. So "independent of N" is wrong for the time.
#
# ### Measure α, β and γ
#
# Can a ping-pong predict a ring's time? In a *ping-pong* one rank sends at a time, as in notebook 01. In a *ring step* all ranks send to the right at once. We fit a line $\alpha + \beta m$ to each (curved on logarithmic axes). We take the shortest of several runs: other programs can only lengthen a run. For $\gamma$ all ranks time an addition, and the slowest rank's median counts. Compare the two lines:

# %%
with Others() as others:
    gamma = max(cluster.run(measure.addition))
    alone = cluster.run(measure.ping_pong, repeats=9, best=True)[0][1:]  # the first size warms up
    together = cluster.run(measure.ring_steps, repeats=9, best=True)[0][1:]
pair, busy = (cost.fit(s, n, gamma) for s, n in ((alone, "ping-pong"), (together, "ring step")))
print(pair, busy, f"adding: 1/γ = {1 / gamma / 1e9:.3g} GB/s", sep="\n")
sizes, pings, rings = [m for m, _ in alone], [t for _, t in alone], [t for _, t in together]
times = {"ping-pong, 2 ranks": pings, "ring step, all ranks": rings}
models = {"ping-pong, 2 ranks": pair.message, "ring step, all ranks": busy.message}
ax = allreduce.with_model(sizes, times, models, lines="fitted")
ax.set(xlabel="size of the message [bytes]", ylabel="time, best of 9 [s]")
ax.figure.set_label("Time of a message alone, and of a ring's step with all ranks at work")
style.doubt(ax.figure, others)
plt.show()
factors = (f"{ring / ping:.1f}" for ring, ping in zip(rings, pings, strict=True))
print("ring step ÷ ping-pong, from 64 B to 4 MB:", *factors)

# %% [markdown] claims="08-ping-pong"
# A ping-pong cannot: a ring step takes longer (the last printed line says how many times as long), so a ping-pong predicts too short a time. In our two records, each on two cores, a ring allreduce took 4 to 17 times as long as predicted. From here on we predict with the line of the *ring steps*.

# %%
claims.evidence("08-ping-pong")

# %% [markdown]
# ### The race
#
# Does the model predict which algorithm is fastest? Compare marks with the line of the same colour. MPI's own `Allreduce` shows what a library reaches:

# %%
array_sizes = [4**k for k in range(5, 12)]  # 1 KB to 4 MB
flat = [name for name in ALGORITHMS if name != "two_level"]  # on one host the ring once more
with Others() as others:
    names = [*flat, "MPI_Allreduce"]
    timed = cluster.run(measure.allreduce_times, names, [1024, *array_sizes], 7, best=True)[0]
measured = {name: times[1:] for name, times in timed.items()}  # the first size warms up
model_of = {name: cost.allreduce(name, P.ranks, busy) for name in flat}
models = {name: model.at for name, model in model_of.items()}
ax = allreduce.with_model(array_sizes, measured, models)
ax.set_ylabel("time, best of 7 [s]")
ax.figure.set_label("Time of each allreduce, measured and predicted")
style.doubt(ax.figure, others)
plt.show()

# %% [markdown]
# The next cell sorts the four from fastest to slowest. Its picture shows measured ÷ predicted time for every size. Where would you trust the model?

# %%
for name, place in (("1 KB", 0), ("4 MB", -1)):
    said = {way: model_of[way].at(array_sizes[place]) for way in flat}
    took = {way: measured[way][place] for way in flat}
    order = sorted(took, key=took.get)
    print(f"{name}: predicted {' < '.join(map(costs.shown, sorted(said, key=said.get)))}")
    print(f"      measured  {' < '.join(map(costs.shown, order))}")
    own = measured["MPI_Allreduce"][place] / took[order[0]]
    print(f"      MPI's own Allreduce takes {own:.2g} times as long as the fastest")
    guess.answer(f"fastest at {name}", costs.shown(order[0]))
ax, ratios = allreduce.off_by_size(array_sizes, measured, models)
style.doubt(ax.figure, others)
plt.show()
for K, at_K in zip(array_sizes, zip(*ratios.values(), strict=True), strict=True):
    print(f"{allreduce.written(K):>6}: measured ÷ predicted {min(at_K):.1f} to {max(at_K):.1f}")

# %% [markdown]
# Your order may differ. The model did name the fastest in a race that we recorded on two cores: few steps won for short arrays, few bytes for long ones. For 4 KB recursive doubling took 0.18 ms, the tree 0.21 and the ring 0.29. For 8 MB the ring took 7.4 ms, recursive doubling 13.8, and the tree 18.0. The chain, slowest by the model, beat the tree: 13.7 ms. (AMD EPYC, 21 November 2026, suite *allreduce* in `data/bench`.)
#
# Trust the order of two predictions only if their ratio exceeds the ratio of the two factors printed for this size. Within the grey band predictions are good for a model that ignores caches and the change from [eager](glossary.md#eager) to [rendezvous](glossary.md#rendezvous). Above 1, the model leaves costs out; below 1, a step takes less than fitted. (We have not measured why.) Even the ring, whose steps gave α and β, can be off by two.
#
# ### Exercise 3: where ring and tree cross
#
# *Difficulty ●●○, 10 minutes.* Take $N\ge4$, a power of two, and ignore γ. From which size $K$ on is the ring faster than the tree? Solve $T_\text{tree} = T_\text{ring}$ for $K$.
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
# Does your formula, with the α and β of the ring steps, agree with the race above?

# %%
crossover_size = crossover(P.ranks, busy.alpha, busy.beta)

ahead = allreduce.where_faster(array_sizes, measured["ring"], measured["tree"])
print(f"the ring was faster than the tree at {ahead}")
if crossover_size:
    print(f"by your formula it is faster from {allreduce.written(crossover_size)} on")

# %% [markdown]
# **Answer.** The tree is faster for short arrays, the ring for long ones. The model says so before a run: a step costs $\alpha$, each byte of its message $\beta$, and each byte added $\gamma$. Your formula gives the order of magnitude of the size where they cross. Fit $\alpha$ and $\beta$ while all ranks are at work. *Evidence: the recorded race and the record of ping-pongs; your own race if its picture is not marked as busy.*

# %% [markdown]
# ## Lesson 3. What changes between hosts, and with thousands of ranks?
#
# *28 minutes.* So far all ranks shared one memory. Real training runs on several [hosts](glossary.md#host), and a host's ranks share its link to the others. Which algorithm is best there?
#
# ### Between hosts
#
# `Network` emulates four hosts on your machine, with two ranks each. One link leads from each host to a switch. Its rate is 100 Mbit/s, so low that the link should set the time, not your processor.
#
# A new algorithm, *two levels*, knows which ranks share a host, and sends less over the links. First, the two ranks of each host reduce-scatter through memory: each gets the host's sums of one half of the array. Then the four ranks with the same half, one on each host, allreduce it in a ring over the links. Finally, the two ranks of each host allgather the halves through memory.
#
# By the argument of Lesson 1, with hosts in place of ranks, at least $2(H-1)/H \cdot K$ bytes must leave the busiest of $H$ hosts. For $K$ = 1 MB ($2^{20}$ bytes) and four hosts this is 1.57 million bytes.
#
# > **Predict.** After packet headers, a link of 100 Mbit/s carries 12 million bytes of data a second. How many ms do the 1.57 million bytes take? Which algorithm comes nearest to this time: "chain", "tree", "recursive doubling", "ring" or "two levels"?

# %%
guess["ms for 1.57 million bytes on one link"] = ...
guess["fastest between hosts"] = ...

# %% [markdown]
# The model now needs two pairs of α and β. One is for the links, fitted to ring steps. The other is for memory, fitted to a ping-pong inside one host. A step takes as long as its slowest part: a message in memory, or all bytes on the busiest link.

# %%
network = Network(hosts=4, rate=100e6)  # bit/s; two ranks on each, side by side: 0 and 1, 2 and 3
host_sizes, how = [1_048_576], "best of 3"
try:
    with Others() as others, Cluster(n=8, network=network) as hosts:
        wire = hosts.run(measure.ring_steps, measure.LINK_SIZES, 3, best=True, timeout=120)[0]
        memory = hosts.run(measure.ping_pong, measure.SIZES, 9, best=True)[0]
        timed = hosts.run(
            measure.allreduce_times, list(ALGORITHMS), host_sizes, 3, best=True, timeout=120
        )[0]
    between, inside = cost.fit(wire, "between hosts"), cost.fit(memory[1:], "inside a host")
except StartError as error:
    print(f"No hosts here ({error}): this is the record of a run elsewhere.")
    between, inside, timed = on_hosts.recorded(network.rate, host_sizes)
    others, how = Others(), "recorded"
print(between, inside, sep="\n")
print(f"of a link's 12.5 MB/s, packet headers leave {network.payload / 1e6:.3g} MB/s")

# %%
least = 1e3 * 2 * 3 / 4 * 1_048_576 / network.payload
took = {name: 1e3 * timed[name][-1] for name in timed}
said = {name: 1e3 * placement.seconds(name, [1_048_576], network.places(8), inside, between)[0]
        for name in timed}  # fmt: skip
ax = costs.bars(took, said, least, "ms for 1 MB")
ax.set_ylabel(f"ms for 1 MB (bars: {how})")
ax.figure.set_label("Allreduce of 1 MB: four hosts, two ranks each, links of 100 Mbit/s")
style.doubt(ax.figure, others)
plt.show()
guess.answer("ms for 1.57 million bytes on one link", least)
guess.answer("fastest between hosts", costs.shown(min(took, key=took.get)))

# %% [markdown]
# Ring and two levels come nearest to the least time, as predicted (dots). But two levels save less than predicted, and either may win a run. How many bytes does each send through the links?
#
# ### Exercise 4: the bytes that leave a host
#
# *Difficulty ●●○, 5 minutes.* Each of $H$ hosts has $G$ ranks, numbered host by host, and every rank has an array of $K$ bytes. How many bytes leave each host in an allreduce by one ring through all ranks, and how many in two levels? (There, each of a host's ranks allreduces one $G$-th of the array in a ring with its partners on the other hosts.) Return both numbers. $H$ or $G$ may be 1.
#
# <details><summary>Hint</summary>
#
# Ring: how many of a host's ranks send to another host? Two levels: in how many rings does a host take part, how many ranks are in each of them, and how long is the array that they add up?
#
# </details>


# %% exercise="bytes-out"
def bytes_out(H, G, K):
    """Return the bytes that leave each host: (by one ring, in two levels)."""
    # BEGIN SOLUTION
    N = H * G
    ring = 2 * (N - 1) * K / N if H > 1 else 0
    return ring, G * 2 * (H - 1) / H * (K / G)
    # END SOLUTION


# %% check="bytes-out" points=1
check.bytes_out(bytes_out)

# %%
if check.bytes_out.passed(bytes_out):
    for H, G in ((4, 2), (4, 8), (2048, 8)):
        ring, two = bytes_out(H, G, 1.0)
        print(f"{H} hosts, {G} ranks each: ring {ring:.4g} K, two levels {two:.4g} K", end="")
        print(f", {1 - two / ring:.2%} fewer")
else:
    print("Exercise 4 first")

# %% [markdown] claims="08-two-levels"
# On our four hosts, two levels send 14 % fewer bytes than the ring; on thousands of hosts both send nearly $2K$. Bytes alone do not set the time: in our two records for 1 MB, two levels save 3 to 5 % at 100 Mbit/s, and 29 to 39 % at 1 Gbit/s. (We have not measured why.) In the table, *equal* means within 10 %:

# %%
claims.evidence("08-two-levels")

# %% [markdown]
# ### Thousands of ranks
#
# Now each of $H$ hosts (*nodes*) has $G = 8$ GPUs. A fast link, NVLink, joins the GPUs of a host; **one** port of a fast network, InfiniBand, leads to the other hosts. (We assume one; many newer hosts have one for each GPU.) How does the time grow with $H$, up to 2048 hosts and $N = GH = 16\,384$ GPUs? Here we have the model alone, with β from data sheets and α from a table in NCCL, NVIDIA's library of collectives. We compare four ways:
#
# - **flat ring** through all GPUs: $2(N-1)$ steps, each as slow as its slowest link;
# - **tree** inside every host, and a tree over the hosts: $2(\log_2 G + \log_2 H)$ steps of $K$ bytes;
# - **two levels, ring**: $2(G-1)$ steps inside the hosts, and a ring of $2(H-1)$ steps between them;
# - **two levels, halving**: the same inside the hosts; between them halving and doubling, which sends the ring's bytes in $2\log_2 H$ steps.
#
# > **Predict.** For 1 MB on 16 384 GPUs: which of the four is fastest ("flat ring", "tree", "two levels, ring", "two levels, halving")?

# %%
guess["fastest for 1 MB on 16 384 GPUs"] = ...

# %%
from helpers.collectives.cost import Machine
from helpers.collectives.links import PRESETS

nvlink, infiniband = PRESETS["NVLink 2 (V100)"], PRESETS["InfiniBand HDR (GPUs)"]
machines = [Machine(2**k, 8, nvlink, infiniband) for k in range(12)]
left, right = allreduce.growing(machines, {"1 MB": 1e6, "102 MB": P.gradient})
left.figure.set_label("Time on 8 to 16 384 GPUs by the model, for 1 MB and for 102 MB")
plt.show()
largest = {name: way.at(1e6) for name, way in machines[-1].ways().items()}
print("1 MB, 16 384 GPUs:", "; ".join(f"{way} {1e3 * s:.3g} ms" for way, s in largest.items()))
guess.answer("fastest for 1 MB on 16 384 GPUs", min(largest, key=largest.get))

# %% [markdown]
# Two levels with halving are the fastest on 16 384 GPUs, for both sizes: between hosts they take as few steps as the tree and send as few bytes as the ring. The flat ring's steps grow with $H$: the latency of 32 766 steps takes nearly all its time, for 1 MB as for 102 MB. The tree's steps grow only with $\log_2 H$, but each carries the whole array.
#
# ### Two trees at once
#
# NCCL has trees with few bytes: *double binary trees* (Sanders et al., 2009). One tree adds up the first half of the array, another tree the second half, at the same time. A rank with children in one tree is a leaf of the other, so no rank sends more than $2K$ bytes. Press *play*: which ranks are leaves of the tree of chunk 0 (a leaf sends before it receives)?

# %%
from helpers.collectives import double_tree

animate([double_tree.schedule(8)])

# %% [markdown]
# The odd ranks. Long arrays are cut into *pieces*, so that a rank receives one piece while it sends another. What does this cost on 256 hosts with one rank each, by the model (without γ)?

# %%
N, rows = 256, {}
for name in ("ring", "tree"):
    way = cost.allreduce(name, N, infiniband)
    rows[name] = cost.steps(name, N), cost.sent(name, N), way.at(1e6), way.at(102e6)
for pieces in (1, 4, 16):
    plan, chunk = double_tree.schedule(N, pieces), 1 / (2 * pieces)
    each = [plan.steps * (infiniband.alpha + K * chunk * infiniband.beta) for K in (1e6, 102e6)]
    rows[f"double trees, pieces: {pieces}"] = plan.steps, chunk * max(plan.sent(2 * pieces)), *each
print(f"{'':24s}steps  bytes ÷ K   1 MB [ms]  102 MB [ms]")
for name, (steps, most, short, long) in rows.items():
    print(f"{name:24s}{steps:5d}{most:11.2f}{1e3 * short:12.2f}{1e3 * long:13.1f}")

# %% [markdown]
# With one piece each, two trees gain little or lose: a step carries half as much, but there are nearly twice as many, as two children send one after the other. With four pieces, 1 MB takes less time than by ring or tree. With 16 pieces, 102 MB take less than a quarter of the tree's time, and little more than the ring's. (By this model halving and doubling takes less still: 0.23 and 8.3 ms.)
#
# **Answer.** Between hosts, ring and two levels are best for 1 MB: the busiest link sets a least time, and few bytes leave each host. Two levels send fewest; how much time this saves depends on the array's size and the link. With thousands of ranks each step's latency counts, too: an algorithm needs few steps *and* few bytes. *Evidence: the bars above and the record of two levels; for thousands of GPUs, the model alone.*

# %% [markdown]
# ## Project: few steps *and* few bytes
#
# *Difficulty ●●●, 35 minutes.* Write *recursive halving and doubling* (Rabenseifner 2004), which you watched in Lesson 1: $2\log_2 N$ steps and $2(N-1)K/N$ bytes. Your first partner, at distance $N/2$, is rank $r$ with one bit flipped. You and your partner keep one *half* of the array each, send the other half, and add what arrives. Do the same with quarters at distance $N/4$, and so on, until each rank has the complete sums of one $N$-th. Then go back: exchange the sums that you have with the same partners in reverse order, until every rank has all sums.
#
# Write it for $N$ a power of two (1 included) that divides the length of `x`, and for any type of number. Return a new array. In the model your function is never slower than tree or ring; is it so in the race?
#
# <details><summary>Hint</summary>
#
# Keep `low, high`, the range that is still yours, and a list of `(partner, low, high)` of the steps taken. The partner at a distance has the number `rank ^ distance`. A rank with the bit `rank & distance` set keeps the upper half and gives away the lower.
#
# </details>


# %% exercise="halving-doubling"
def halving_doubling(x, comm):
    """Return the sums of x over N = 2^L ranks, by 2 L exchanges of N/2, N/4, ... chunks."""
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

# %% [markdown]
# Your functions race the course's tree, ring and recursive doubling. Hollow markers are yours. Which lines cross?

# %%
race_sizes, own = [4**k for k in range(5, 12)], {}
if "ring_allreduce" in globals() and check.ring_allreduce.passed(ring_allreduce, cluster=cluster):
    own["your ring"] = ring_allreduce
if check.halving_doubling.passed(halving_doubling, cluster=cluster):
    own["your halving and doubling"] = halving_doubling
if own:
    with Others() as others:
        rivals = ["tree", "ring", "recursive_doubling"]
        raced = cluster.run(measure.race, rivals, own, race_sizes)[0]
    ax = costs.times_by_size(race_sizes, raced)
    ax.set_ylabel("time, best of 7 [s]")
    ax.figure.set_label("Your functions against the course's algorithms: time by size")
    style.doubt(ax.figure, others)
    plt.show()
for rival in rivals if "your halving and doubling" in own else ():
    ahead = allreduce.where_faster(race_sizes, raced["your halving and doubling"], raced[rival])
    print(f"halving and doubling beats {costs.shown(rival)} at {ahead}")

# %% [markdown]
# By the model, recursive doubling wins on the left, with half as many steps. Halving and doubling wins on the right, with fewer bytes, and beats tree and ring everywhere: it has the tree's steps and the ring's bytes. The printed lines say where your race agrees.

# %% [markdown]
# ## What breaks
#
# > **Predict.** Rank 2 calls a broadcast before an allreduce, and the other ranks call the allreduce first. Do you get "a deadlock", "an error" or "a result"?

# %%
guess["one rank in another order"] = ...


# %%
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
# All ranks must call the same collectives in the same order. If one does not, the outcome depends on the library: a deadlock, an error about sizes, or, worst of all, a wrong result. In training it happens when one rank skips a layer or takes another branch of an `if`.
#
# <details><summary><b>What the sources say, what we measured</b></summary>
#
# | the sources say | here |
# |---|---|
# | allreduce by a chain: "communication per worker is N" | lesson 1: no, the ends of the chain send $K$ bytes, the ranks between them $2K$; the number of *steps*, $2(N-1)$, grows with $N$ |
# | ring allreduce: can workers do without a server? | yes: two loops over `Sendrecv`, no rank is special |
# | a worker sends $2(N-1)K/N$ bytes, whatever $N$ is | lesson 1: $1.5K$ counted for four; the bytes become flat, the steps grow |
# | reduce part $i$ to worker $i$, all at once, then broadcast each | the ring does this step by step: rank $i$ completes the sum of chunk $i$ and sends it round |
# | the six collectives, drawn; PCIe, NVLink, Ethernet, InfiniBand, RDMA | in the appendix [A3](A3_more_of_allreduce.ipynb) |
#
# </details>
#
# ## In practice, and where to read on
#
# You call `torch.distributed.all_reduce` or `DistributedDataParallel`; NCCL (on GPUs) or gloo (on CPUs) does the work. NCCL estimates the time of rings and trees from a table of latencies and bandwidths such as ours, and takes the faster. [Appendix A3](A3_more_of_allreduce.ipynb) compares collectives by their *bus bandwidth*, and places ranks on hosts.
#
# - R. Rabenseifner, *Optimization of collective reduction operations*, 2004: halving and doubling.
# - R. Thakur, R. Rabenseifner, W. Gropp, [Optimization of collective communication operations in MPICH](https://doi.org/10.1177/1094342005051521), 2005: the algorithms and their costs.
# - P. Patarasuk, X. Yuan, [Bandwidth optimal all-reduce algorithms for clusters of workstations](https://doi.org/10.1016/j.jpdc.2008.09.002), 2009: why nobody can send less than the ring.
# - P. Sanders, J. Speck, J. L. Träff, [Two-tree algorithms for full bandwidth broadcast, reduction and scan](https://doi.org/10.1016/j.parco.2009.09.001), 2009: double binary trees.
# - R. Hockney, [The communication challenge for MPP](https://doi.org/10.1016/S0167-8191(06)80021-9), 1994: the model with α and β.
# - Z. Tian, *Introduction to Computation Technologies in Deep Learning*, 2019: the lecture whose claims are examined.
# - [NCCL's tuning.cc](https://github.com/NVIDIA/nccl/blob/master/src/graph/tuning.cc): the cost model of a library in use.
#
# **Next**: [02 Train on several ranks: synchronously and asynchronously](02_sgd_sync_async.ipynb) trains a network on four ranks with allreduce.

# %%
cluster.stop()
