# %% [markdown]
# # More of allreduce: the other collectives, links, and where ranks sit
#
# You watch six of MPI's collectives, write a broadcast for long arrays, choose a link for an allreduce, and predict what a bad placement of ranks costs.
#
# **You need** notebook [08](08_allreduce_animation.ipynb). *Time:* 73 minutes (collectives 30, links 20, placement 23). Each section needs only the set-up; the last table also needs the first section and *Links*. *Cores:* two or more. *GPU:* none.
#
# ## Set-up

# %% tags=["parameters"]
import math
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown

from helpers import claims
from helpers.cluster import Cluster, Network, StartError
from helpers.collectives import cost, measure, on_hosts
from helpers.collectives.links import PRESETS
from helpers.collectives.recording import record, schedules
from helpers.collectives.schedule import model
from helpers.exercises import more_of_allreduce as check
from helpers.exercises.predictions import Predictions
from helpers.plots import allreduce as draw
from helpers.plots import costs, style
from helpers.plots.animation import animate
from helpers.timing import Others, seconds

# %load_ext helpers.cluster


@dataclass(frozen=True)
class Parameters:
    ranks: int = 4
    gradient: int = 102_000_000  # bytes: ResNet-50's 25.6 million parameters in float32


# %%
P = Parameters()
style.use()
guess = Predictions()
cluster = Cluster(n=P.ranks)

# %% [markdown]
# ## The six collectives
#
# Training uses the six [collectives](glossary.md#collective) of notebook [01](01_mpi_basics.ipynb), the reduce-scatter (half of 08's ring) and the all-to-all (below). How many steps do notebook 01's six take?
#
# | collective | before | after | used for |
# |---|---|---|---|
# | broadcast | root has $x$ | every rank has $x$ | the first weights |
# | scatter | root has $x_0 \dots x_{N-1}$ | rank $i$ has $x_i$ | a batch, cut up |
# | gather | rank $i$ has $x_i$ | root has all of them | metrics |
# | allgather | rank $i$ has $x_i$ | every rank has all | [shards](glossary.md#shard) of the weights, before a layer |
# | reduce | rank $i$ has $x_i$ | root has $\sum x_i$ | a [parameter server](glossary.md#parameter-server) |
# | allreduce | rank $i$ has $x_i$ | every rank has $\sum x_i$ | gradients |
#
# `helpers.collectives` builds them from sends and receives. We record them on 2, 3 and 4 of your ranks, and simulate 8. Choose one from the menu.

# %%
SIX = ["broadcast", "scatter", "gather", "allgather", "reduce", "tree"]
recorded = schedules(cluster.run(record, SIX, (4, 3, 2)))
animate([*recorded, *(model(name, 8) for name in SIX)])

# %% [markdown]
# *Scatter* and *gather* take $N-1$ steps: in each, the root sends or receives one chunk. *Allgather* takes $N-1$ steps round a ring. *Broadcast* uses a tree: each step doubles the number of ranks that have the data, so $\lceil\log_2 N\rceil$ steps reach every rank. *Reduce* is this tree backwards; *allreduce: tree* is a reduce, then a broadcast. Are the results right?

# %%
# %%ranks
import numpy as np

from helpers import collectives

x = np.arange(8.0) + 100 * rank
gathered, total = np.empty(8 * size), np.empty(8)
comm.Allgather(x, gathered)
comm.Allreduce(x, total)
same = {"allgather": np.array_equal(collectives.allgather(x, comm), gathered)}
same["allreduce"] = np.array_equal(collectives.allreduce(x, comm), total)
for root in range(size):
    sent = collectives.broadcast(x.copy(), comm, root)
    whole = gathered if rank == root else None
    part = collectives.scatter(whole, comm, root, out=np.empty(8))
    all_of_them = collectives.gather(x, comm, root=root)
    added = collectives.reduce(x, comm, root=root)
    same[f"broadcast from {root}"] = np.array_equal(sent, gathered[8 * root : 8 * root + 8])
    same[f"scatter from {root}"] = np.array_equal(part, x)
    if rank == root:
        same[f"gather to {root}"] = np.array_equal(all_of_them, gathered)
        same[f"reduce to {root}"] = np.array_equal(added, total)
print(f"{sum(same.values())} of {len(same)} results are right")

# %% [markdown]
# ### How good is a time? Bus bandwidth
#
# A collective's *bus bandwidth* is the number of bytes that each rank must send, divided by the time $T$. NVIDIA's [nccl-tests](https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md) report it. With $K$ bytes on each rank it is $\frac{2(N-1)}{N}\,K / T$ for an allreduce. It is $\frac{N-1}{N}\,K / T$ for an *all-to-all*, in which every rank sends each other rank a different chunk. Both are compared with a *ring step*, in which every rank sends $K$ bytes to its right neighbour. How near do they come?

# %%
# %%ranks
from helpers.collectives import measure

K = 4_194_304  # bytes
out = np.empty(K // 4, np.float32)  # once: the first write to new memory takes longer
right, left = (rank + 1) % size, (rank - 1) % size
ways = {
    "ring step": lambda x, comm: comm.Sendrecv(x, right, 0, out, left, 0),
    "allreduce": lambda x, comm: comm.Allreduce(x, out),
    "all-to-all": lambda x, comm: comm.Alltoall(x, out),
}
share = {"ring step": 1, "allreduce": 2 * (size - 1) / size, "all-to-all": (size - 1) / size}
times = measure.function_times(ways, [K], repeats=50, best=True)
bus = {way: share[way] * K / times[way][0] for way in ways}
if rank == 0:
    for way in ways:
        print(f"{way:10} of 4 MB: {1e3 * times[way][0]:.3g} ms, bus bandwidth "
              f"{bus[way] / 1e9:.2g} GB/s, {bus[way] / bus['ring step']:.0%} of the ring step's")  # fmt: skip

# %% [markdown]
# On our page, where four ranks share two cores, the allreduce reaches about a third of the ring step's rate. The all-to-all comes nearer.
#
# ### The same bits on every rank
#
# A floating-point sum depends on the order of adding, so two *algorithms* may give sums that differ in the last digits. But all *ranks* must get the same bits, or their copies of the model differ. Do they, with five algorithms of 08?

# %%
# %%ranks
from helpers.collectives import ALGORITHMS, allreduce

x = np.random.default_rng(rank).normal(size=1001)
results = [allreduce(x, comm, algorithm=name) for name in ALGORITHMS]
everybody = comm.gather([one.tobytes() for one in results])
if rank == 0:
    off = max(np.abs(one - results[0]).max() for one in results)
    print(f"largest difference from the chain's sums: {off:.1e}")
    equal = [len(set(one)) == 1 for one in zip(*everybody, strict=True)]
    print(f"equal bits on all ranks: {sum(equal)} of {len(equal)} algorithms")

# %% [markdown]
# Yes, with all five. (On one host, two levels are the ring.) In chain, tree and ring, one rank finishes the sum of a chunk, and the other ranks get copies. In recursive doubling, both partners add the same two numbers, and $a + b = b + a$ to the last bit.
#
# ### Exercise 1: a broadcast for long arrays
#
# A broadcast by a tree has few steps, but rank 0 sends the whole array in each. A broadcast *in chunks* has two parts: rank 0 sends chunk $i$ to rank $i$, as in *scatter*; then the chunks go round the ring, as in the second half of the ring allreduce.
#
# > **Predict.** Four ranks broadcast $K$ bytes. How many times $K$ does rank 0 send by the tree, and in chunks? Which is faster here for 64 KB, "tree" or "yours" (in chunks)?

# %%
guess["sent by rank 0 ÷ K, tree"] = ...
guess["sent by rank 0 ÷ K, in chunks"] = ...
guess["the faster broadcast of 64 KB"] = ...

# %% [markdown]
# *Difficulty ●●○, 12 minutes.* Write the broadcast in chunks, with sends and receives alone. On rank 0 the array `work` holds the numbers; on other ranks its content does not matter. The number of ranks, $N$, divides its length. Every rank returns `work`, filled in, or a new array with rank 0's numbers. Rank 0 may send $2(N-1)$ chunks, every other rank $N-1$.
#
# <details><summary>Hint</summary>
#
# After the scatter, rank $i$ has chunk $i$ in its place. In step $s$ of the ring, rank $r$ sends chunk $r - s$ (modulo $N$) to the right. The chunks of `np.split(work, n)` are views of `work`. Rank 0 sends nothing to itself.
#
# </details>


# %% exercise="long-broadcast"
def long_broadcast(work, comm):
    """Return the numbers of rank 0 on every rank: a scatter, then an allgather."""
    # BEGIN SOLUTION
    n, rank = comm.Get_size(), comm.Get_rank()
    chunks = np.split(work, n)
    if rank == 0:
        for peer in range(1, n):
            comm.Send(chunks[peer], peer)
    else:
        comm.Recv(chunks[rank], 0)
    for step in range(n - 1):
        give, take = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        comm.Sendrecv(give, (rank + 1) % n, 0, take, (rank - 1) % n, 0)
    return work
    # END SOLUTION


# %% check="long-broadcast" points=3
check.long_broadcast(long_broadcast, cluster=cluster)

# %% [markdown]
# Your ranks count and time both broadcasts. Compare rank 0's bars, and see where your line falls below 1.


# %%
# %%ranks
from helpers.collectives import measure, tree
from helpers.collectives.recording import sent_by


def by_tree(x, comm):
    return tree.broadcast(x, comm, root=0)


def look_at(yours, K, sizes):
    """What each way sends, in bytes of K, and its seconds for each size, beside MPI's own."""
    ways = {"tree": by_tree, "yours": yours}
    sent = {name: sent_by(way, K)[1] for name, way in ways.items()}
    ways["MPI_Bcast"] = lambda x, comm: comm.Bcast(x)
    return sent, measure.function_times(ways, sizes, best=True)


# %%
if check.long_broadcast.passed(long_broadcast, cluster=cluster):
    K, sizes = 1_200_000, [4**k for k in range(5, 12)]
    with Others() as others:
        looks = cluster.run(lambda *a: look_at(*a), long_broadcast, K, sizes)
    sent, times = zip(*looks, strict=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    costs.bytes_by_rank({way: [one[way] for one in sent] for way in sent[0]}, K, left)
    by_the_tree = np.asarray(times[0].pop("tree"))
    ratios = {way: took / by_the_tree for way, took in times[0].items()}
    costs.times_by_size(sizes, ratios, ax=right)
    right.axhline(1, color="black", linestyle=":", label="tree")
    right.set(xlabel="size of the array, K", ylabel="time ÷ the tree's")
    right.set(yscale="linear", ylim=(0, None))
    right.set_xticks(sizes, ["1 KB", "4", "16", "64", "256", "1 MB", "4"])
    right.minorticks_off()
    right.legend()
    figure.set_label("Two broadcasts: what each rank sends, and how long they take")
    style.doubt(figure, others)
    plt.show()
    guess.answer("sent by rank 0 ÷ K, tree", sent[0]["tree"] / K)
    guess.answer("sent by rank 0 ÷ K, in chunks", sent[0]["yours"] / K)
    faster = "yours" if times[0]["yours"][3] < by_the_tree[3] else "tree"
    guess.answer("the faster broadcast of 64 KB", faster)

# %% [markdown]
# Left: rank 0 sends $2K$ by the tree, $1.5K$ in chunks. The tree takes $\lceil\log_2 N\rceil$ steps of $K$ bytes. The broadcast in chunks takes $2(N-1)$ steps of $K/N$ bytes, so by the model it wins for long arrays. Right: each time ÷ the tree's, for your broadcast and MPI's own. Up to 256 KB yours loses: six steps cost more than two. (The model's ratio never exceeds 3; we have not measured why ours can.) At 1 and 4 MB neither is far ahead: in chunks rank 0 sends less, but all ranks together send $3.75K$, by the tree $3K$. MPI's own is much the fastest for short arrays.
#
# ## Links
#
# On a link between GPUs or machines, a message takes $\alpha$ for its start and $\beta$ for each byte. **PCIe** joins a processor to its devices by parallel *lanes*. **NVLink** joins GPUs directly. **InfiniBand** and **Ethernet** join machines. **RDMA** lets a network card read and write another machine's memory without that machine's processor (**RoCE**: RDMA over Ethernet). The table predicts a ring allreduce of ResNet-50's gradient (102 MB) over eight ranks. In the column *source*, *NCCL* stands for NVIDIA's `tuning.cc` (`hwLat`, version 2.10); *Tian 2019* is a lecture. Compare $\alpha$ only within one source. *Your ring steps* is one fit to many sizes (so not the 4 MB rate above); only this row includes additions.

# %%
with Others() as others:
    gamma = max(cluster.run(measure.addition))
    here = cost.fit(cluster.run(measure.ring_steps, best=True)[0][1:], "your ring steps", gamma)
others.say()
links = [*PRESETS.values(), here]
rows = ["| link | α | 1/β (GB/s) | ring of 8, 102 MB | source |", "|---|--:|--:|--:|---|"]
for link in links:
    took = seconds(cost.allreduce("ring", 8, link).at(P.gradient))
    figures = f"{seconds(link.alpha)} | {link.bandwidth / 1e9:.3g} | {took}"
    rows.append(f"| {link.name} | {figures} | {link.origin} |")
Markdown("\n".join(rows))

# %% [markdown]
# For 102 MB, α hardly matters: 14 steps of 20 µs are 2 % of Ethernet 100G's 14.6 ms. Networks are sold in *bits* per second: "100G" is 12.5 GB/s. The lecture gives a lane of PCIe 3.0 "985 MiB/s", in the wrong unit: a lane transfers $8\cdot10^9$ bits a second, 128 of every 130 of them data.

# %%
lane = 8e9 * 128 / 130 / 8  # bytes per second
print(f"{lane / 1e6:.0f} MB/s = {lane / 2**20:.0f} MiB/s")

# %% [markdown]
# ### Exercise 2: the rate to ask for
#
# *Difficulty ●●○, 10 minutes.* A ring of $N$ ranks (two or more) should allreduce $K$ bytes in `seconds` seconds. Which rate must its links have at least, in *bits* a second? Every message has a latency of `alpha` seconds. Only the share `data` of a link's bits belongs to the array: 128/130 on a lane of PCIe 3.0. Additions (γ) take no time. If no rate is enough, return `math.inf`.
#
# <details><summary>Hint</summary>
#
# Divide the time by the ring's $2(N-1)$ steps and subtract the latency. In the time that is left, a rank sends a chunk of $K/N$ bytes. What if no time is left?
#
# </details>


# %% exercise="rate-for"
def rate_for(seconds, N, K, alpha, data):
    """Return the bit/s at which a ring of N allreduces K bytes in so many seconds, or math.inf."""
    # BEGIN SOLUTION
    for_bytes = seconds / (2 * (N - 1)) - alpha
    return 8 * K / N / data / for_bytes if for_bytes > 0 else math.inf
    # END SOLUTION


# %% check="rate-for" points=2
check.rate_for(rate_for)

# %% [markdown]
# Which links let eight ranks allreduce 1 MB in 0.5 ms? (The table's rates exclude coding bits, and we ignore packet headers: `data` is 1. Your function ignores γ, so it flatters your ring steps.)

# %%
in_time, array = 5e-4, 1_000_000  # s, bytes; try others
if check.rate_for.passed(rate_for):
    print(f"a ring of 8, {array / 1e6:g} MB in {1e3 * in_time:g} ms, in Gbit/s:")
    for link in links:
        needed, has = rate_for(in_time, 8, array, link.alpha, 1.0), 8 / link.beta
        verdict = "enough" if needed <= has else "too slow"
        print(f"{link.name:21} has {has / 1e9:8.4g}, needs {needed / 1e9:5.3g}: {verdict}")

# %% [markdown]
# No rate helps Ethernet 10G: its 14 latencies take 0.7 ms. Is your function's rate enough? A ring over four hosts, one rank each, should allreduce 1 MB in 0.2 s. The cell emulates links of your rate, and measures. (We assume α = 0.1 ms; `data` is the share that packet headers leave.)

# %%
network = Network(hosts=4, rate=100e6)  # 100 Mbit/s
if check.rate_for.passed(rate_for):
    ordered = rate_for(0.2, 4, 1_048_576, 1e-4, 8 * network.payload / network.rate)
    print(f"links of {ordered / 1e6:.1f} Mbit/s")
    try:
        with Others() as others, Cluster(n=4, network=Network(hosts=4, rate=ordered)) as hosts:
            took = hosts.run(measure.allreduce_times, ["ring"], [1_048_576], 3, timeout=120)[0]
        took = took["ring"][0]
        print(f"asked for 200 ms, measured {1e3 * took:.0f} ms: {took / 0.2 - 1:+.0%}")
        others.say()
    except StartError as error:
        print(f"No hosts here ({error}).")

# %% [markdown]
# Nearly: the ring is a few percent late.
#
# ## Where ranks sit
#
# Let each host have two ranks. In *block* placement, ranks 0 and 1 share a host, and rank 0's messages stay inside it. In *cyclic* placement, neighbours on the ring sit on different hosts, so every rank sends to another host.
#
# > **Predict.** How many times as long does a ring allreduce take in cyclic as in block placement?

# %%
guess["time in cyclic ÷ in block placement"] = ...

# %% [markdown]
# Coloured messages cross a host's link; each title counts them for one host:

# %%
draw.ring_over_hosts({"block": (0, 0, 1, 1), "cyclic": (0, 1, 0, 1)})
plt.show()

# %% [markdown]
# ### Exercise 3: a ring on hosts
#
# *Difficulty ●●○, 15 minutes.* In a ring, rank $r$ sends to rank $(r+1) \bmod N$. `hosts` names the host of each rank (at least two hosts): `(0, 0, 1, 1)` is block, `(0, 1, 0, 1)` is cyclic. Return the seconds of this ring's allreduce of $K$ bytes. A host's link carries `payload` bytes a second each way. Each step costs `alpha` seconds, however many messages it has. Messages inside a host and additions cost nothing. (`my_hosts` to `my_size` are for the next experiment.)
#
# <details><summary>Hint</summary>
#
# How many steps do both halves of the ring allreduce take, and how long is a chunk? All steps are alike. For each host count the ranks whose right neighbour sits on another host. The largest count is the number of chunks that the busiest link carries in each step.
#
# </details>


# %% exercise="ring-on-hosts"
def ring_on_hosts(hosts, K, alpha, payload):
    """Return the seconds of a ring allreduce of K bytes; hosts[r] is the host of rank r."""
    # BEGIN SOLUTION
    N = len(hosts)
    leaving = [hosts[r] for r in range(N) if hosts[r] != hosts[(r + 1) % N]]
    chunks = max(map(leaving.count, leaving))  # through the busiest link, in each step
    return 2 * (N - 1) * (alpha + chunks * K / N / payload)
    # END SOLUTION


my_hosts, my_ranks = 2, 4  # try 2 to 8 hosts, and a multiple of that number of ranks
my_rate, my_size = 50e6, 500_000  # bit/s, bytes

# %% check="ring-on-hosts" points=3
check.ring_on_hosts(ring_on_hosts)

# %% [markdown]
# The next cell emulates both placements of `my_ranks`, and compares times with your function's. (α comes from a record.)

# %%
alpha, measured = on_hosts.recorded(100e6, [1_048_576])[0].alpha, {}
for way in ("block", "cyclic") if check.ring_on_hosts.passed(ring_on_hosts) else ():
    mine = Network(my_hosts, rate=my_rate, placement=way)
    places = mine.places(my_ranks)
    told = ring_on_hosts(places, my_size, alpha, mine.payload)
    try:
        with Others() as others, Cluster(n=my_ranks, network=mine) as hosts:
            took = hosts.run(measure.allreduce_times, ["ring"], [my_size], 3, timeout=120)[0]
        measured[way] = took["ring"][0]
        print(f"{way:6s} predicted {seconds(told)}, measured {seconds(measured[way])}")
        others.say()
    except StartError as error:
        print(f"{way:6s} predicted {seconds(told)}. No hosts here ({error}).")
if len(measured) == 2:
    ratio = measured["cyclic"] / measured["block"]
    guess.answer("time in cyclic ÷ in block placement", ratio)

# %% [markdown] claims="A3-placement"
# About twice as long. In every step, cyclic placement sends twice as many bytes through each link as block placement. In the records below (eight ranks, four hosts, two cores), it takes 1.8 to 1.9 times as long for 256 KB, 2.1 times for 1 MB (why above 2, we have not measured):

# %%
claims.evidence("A3-placement")

# %% [markdown]
# ### More and more hosts
#
# Which algorithm's time grows least with the number of hosts? The times were recorded (suite *links* in `data/bench`) for 256 KB at 100 Mbit/s; both axes are logarithmic.

# %%
counts, grown, model_says = on_hosts.growing(rate=100e6)
ax = costs.times_by_ranks(counts, grown, predicted=model_says)
ax.set(xlabel="number of hosts, one rank each")
ax.figure.set_label("Time of an allreduce of 256 KB by the number of hosts, links of 100 Mbit/s")
plt.show()
for way, ms in grown.items():
    ratios = [f"{m / p:.2f}" for m, p in zip(ms, model_says[way], strict=True)]
    print(f"{costs.shown(way):18} measured ÷ model, on {list(counts)} hosts: {', '.join(ratios)}")

# %% [markdown]
# The ring's time grows least. Each of its ranks sends $K$ bytes on two hosts, $1.75\,K$ on eight, and always less than $2K$. (But its number of steps grows fastest, so for short arrays the ring loses.) In the tree and in recursive doubling, the busiest rank's bytes grow without limit. Recursive doubling zigzags: with 3 or 6 hosts, no powers of two, it needs two extra steps. On eight hosts, all three take 37 to 50 % longer than predicted; we have not measured why.
#
# ## What the sources say, what we measured

# %%
agreed = [one for rank in cluster.run(lambda: list(same.values())) for one in rank]
rows = [
    ("drawings of broadcast, scatter, gather, allgather, reduce, allreduce",
     f"recorded, playable; {sum(agreed)} of {len(agreed)} results are right"),
    ("PCIe 3.0: 985 MiB/s a lane", f"computed: {lane / 1e6:.0f} MB/s"),
    ("Ethernet: 10 to 100 000 Mbit/s, 100 to 20 µs", "*not measured*; your ranks: "
     f"{8 * here.bandwidth / 1e9:.3g} Gbit/s, {seconds(here.alpha)}"),
    ("InfiniBand: 2.5 to 250 Gbit/s, 5 to 0.5 µs", "*not measured*"),
    ("NVLink, RDMA: named without figures", "*not measured*: other sources, in the table of links"),
]  # fmt: skip
table = ["| the sources say | here |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)]
Markdown("\n".join(table))

# %% [markdown]
# **References**
#
# - Z. Tian, *Introduction to Computation Technologies in Deep Learning*, 2019: the lecture.
# - [NCCL's tuning.cc](https://github.com/NVIDIA/nccl/blob/v2.10.3-1/src/graph/tuning.cc): its cost model.
#
# **Next**: [02 Train on several ranks: synchronously and asynchronously](02_sgd_sync_async.ipynb).

# %%
cluster.stop()
