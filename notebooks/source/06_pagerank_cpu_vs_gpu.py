# %% [markdown]
# # Rank a graph four ways, and find out why one is a hundred times faster
#
# In this notebook you rank the 63 436 packages of Debian 12 by how much other packages depend on them. You compute PageRank in several ways, and explain their times by the bytes that each iteration moves.
#
# **You will be able to**
#
# - place a tensor on a processor or a GPU, and time correctly what runs there;
# - write PageRank as a sum over links and as a matrix product, and say where each version spends its time;
# - compute from its bytes the least time that an iteration takes, and find the versions that stay far above it;
# - correct the formula for nodes without out-links, and stop iterating at the right moment;
# - cut a graph into row blocks for several MPI processes, and predict what they must exchange.
#
# **You need** a cluster of ranks as in [01_mpi_basics](01_mpi_basics.ipynb), and matrix-vector products. *Time:* 160 minutes, of which the machine works for less than three. *Cores:* two are enough, with 2.5 GB of memory. *GPU:* optional.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | shape or unit |
# |---|---|---|
# | $N$, $E$ | nodes, edges | |
# | $G$ | adjacency matrix: $G_{ij} = 1$ for a link from $j$ to $i$ | $N \times N$ |
# | $\mathrm{out}(j)$ | number of links that leave $j$ | |
# | $\mathrm{Out}$ | $1 / \mathrm{out}(j)$ | $N$ |
# | $x$ | ranks, sum 1 | $N$ |
# | $d$ | [damping](glossary.md#damping-factor): the probability of following a link | 0.85 |
# | $K$ | iterations | |
# | $\beta$ | [bandwidth](glossary.md#bandwidth) at which memory is read | bytes/s |

# %% tags=["parameters"]
# %load_ext helpers.cluster
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import torch

from helpers.claims import evidence
from helpers.exercises import pagerank as check
from helpers.plots import pagerank as draw
from helpers.plots import style
from helpers.predictions import Prediction


@dataclass(frozen=True)
class Parameters:
    nodes: int = 10_000  # of the random graph, as in the source
    probability: float = 1e-3  # of each edge: 1e5 edges
    iterations: int = 200  # K of the source
    damping: float = 0.85
    ranks: int = 4  # MPI ranks
    seed: int = 0


P = Parameters()
style.use()

# %% [markdown]
# ## Who holds Debian up?
#
# A Debian package names the packages that it needs. Follow one of these links at random, and from there another. With probability $1 - d$, start again at a random package instead. **The rank of a package is the share of your visits that it gets.** It is high where many paths end.
#
# *Predict before you run the next cell: which package is visited most?*

# %%
pillar = Prediction("the package that is visited most", None)  # a name, such as "bash"

# %%
from helpers.datasets.dependencies import load_dependencies
from helpers.pagerank import pagerank

debian = load_dependencies()
A = debian.adjacency()  # A[i, j] = 1: package i needs package j
result = pagerank(A)
print(f"{len(debian.names)} packages, {A.nnz} links, Debian {debian.about['version']}")
top = result.top(15)
pillar.answer(debian.names[top[0][0]])
draw.bars([debian.names[i] for i, _ in top], [s for _, s in top], "The 15 pillars of Debian 12")
plt.show()

# %% [markdown]
# The C library and the compiler's run-time library need each other. Together they get nearly a third of all visits, because a walk along dependencies rarely leaves them. Third is `gcc-12-base`, which both need. The interpreters of Perl and Python follow far behind.
#
# Look around one package: zoom, drag, and point at the circles.

# %%
draw.neighbourhood(A, debian.names, result.scores, debian.number("python3-numpy"))

# %% [markdown]
# *What does scientific software depend on?* Let every restart begin at a package of the section `science` instead of anywhere. This is **[personalised](glossary.md#personalised-pagerank)** PageRank, and the same function computes it.

# %%
restart = np.array([section == "science" for section in debian.sections], dtype=float)
science = pagerank(A, personalization=restart)
gain = science.scores / result.scores
by_rank = np.argsort(-science.scores)
chosen = [i for i in by_rank if gain[i] > 5 and debian.sections[i] != "science"][:15]
draw.bars(
    [debian.names[i] for i in chosen],
    science.scores[chosen],
    "Science leans on these five times more than the rest does",
)
plt.show()

# %% [markdown]
# The rest of the notebook takes that function apart.

# %% [markdown]
# ## Tensors, and where they live
#
# PyTorch computes with **tensors**: arrays that know their type and the device that holds them. From NumPy and back costs nothing, since both look at the same memory:

# %%
a = np.ones((5, 3))
M = torch.from_numpy(a)  # shares the memory of a
a[0, 0] = 7
z = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
print(M[0, 0].item(), M.dtype, M.device)
print(torch.diag(z))

# %% [markdown]
# Do not confuse three products: `mm` multiplies a matrix by a matrix, `mv` a matrix by a vector, and `*` works element by element and repeats a vector along the rows.

# %%
print("mm", torch.mm(M, z.reshape(3, 1)).shape, " mv", torch.mv(M, z).shape)
print("elementwise", ((M + 1) * z).shape)
scaled = M * z  # column j of M times z[j] ...
print("the same by a product with a diagonal:", torch.equal(scaled, torch.mm(M, torch.diag(z))))

# %% [markdown]
# Remember the last line: **scaling the columns of a matrix is an elementwise product**. A matrix product with a diagonal gives the same numbers and takes $2N^3$ operations instead of $N^2$.
#
# A device has a name: `"cpu"`, `"cuda"`, or `"cuda:1"` for the second GPU. All operands must be on the same device; `.to()` moves them. The cell uses what this machine has:

# %%
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.ones(4, device=device)
y = torch.arange(4.0).to(device)
print((x + y).device, (x + y).to("cpu").numpy())

# %% [markdown]
# ## PageRank by hand
#
# Each node gives its rank away in equal shares along its out-links; with probability $1-d$ the walk restarts anywhere:
#
# $$x_i = \frac{1-d}{N} + d \sum_{j \to i} \frac{x_j}{\mathrm{out}(j)}
# \qquad\text{or}\qquad x = \frac{1-d}{N} + d\; G\,(\mathrm{Out} \circ x)$$
#
# Start with $1/N$ everywhere and repeat: a [power iteration](glossary.md#power-iteration). Four nodes, by hand:

# %%
G = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0]], dtype=float)
Out = 1 / G.sum(axis=0)  # column sums: the links that leave each node
x = np.full(4, 1 / 4)
for k in range(60):
    x = (1 - P.damping) / 4 + P.damping * (G @ (Out * x))
    if k in (0, 1, 2, 59):
        print(f"after {k + 1:2d} iterations", x.round(4), "sum", round(x.sum(), 12))

# %% [markdown]
# An independent reference agrees:

# %%
import networkx as nx

reference = nx.pagerank(nx.from_numpy_array(G.T, create_using=nx.DiGraph), tol=1e-14, max_iter=500)
print("largest difference from NetworkX:", f"{max(abs(x[i] - reference[i]) for i in range(4)):.0e}")

# %% [markdown]
# ### Exercise 1: keep the rank
#
# *Difficulty ●●○, 10 minutes.* A node without out-links is **[dangling](glossary.md#dangling-node)**. The formula above divides by zero there. With $\mathrm{Out}=0$ instead, the node's rank is lost in each step. Debian has thousands of such packages. Write one step in which a dangling node gives its rank to all $N$ nodes equally, so that the sum stays 1.
#
# <details><summary>Hint</summary>
#
# First add up the ranks of the dangling nodes. Every node receives 1/N of this sum, and damping applies to it as to any other link.
#
# </details>


# %% exercise="keep-the-rank"
def step(G, x, damping):
    """Return the new ranks (N,); G (N, N) has 1 at (i, j) for a link j → i; x (N,) sums to 1."""
    # BEGIN SOLUTION
    out = G.sum(axis=0)
    share = np.divide(x, out, out=np.zeros_like(x), where=out > 0)
    lost = x[out == 0].sum()
    return damping * (G @ share + lost / len(x)) + (1 - damping) / len(x)
    # END SOLUTION


# %% check="keep-the-rank" points=2
check.keep_the_rank(step)

# %% [markdown]
# We repeat your step on the four nodes, after removing the last node's only link. NetworkX also gives the rank of dangling nodes to all nodes:

# %%
cut = G.copy()
cut[:, 3] = 0  # no link leaves node 3 now
if check.keep_the_rank.passed(step):
    x = np.full(4, 1 / 4)
    for _ in range(200):
        x = step(cut, x, P.damping)
    directed = nx.from_numpy_array(cut.T, create_using=nx.DiGraph)
    reference = nx.pagerank(directed, tol=1e-14, max_iter=500)
    apart = max(abs(x[i] - reference[i]) for i in range(4))
    print(x.round(4), "sum", round(x.sum(), 12), f"largest difference from NetworkX: {apart:.0e}")

# %% [markdown]
# ## Four versions of one product
#
# The source compares four programs that compute $G\,(\mathrm{Out} \circ x)$, on a random graph in which each of the $N(N-1)$ links exists with probability $10^{-3}$ and every node has an out-link. They differ in how $G$ is stored:
#
# | version | $G$ is | Out is multiplied in |
# |---|---|---|
# | 0 | a list of edges; messages are sent along them | at each iteration |
# | 1 | a sparse matrix (row, column and value of each edge) | at each iteration |
# | 2 | a dense matrix | at each iteration |
# | 3 | a dense matrix | once, by a matrix product with a diagonal matrix |
# | 4 (ours) | [compressed rows](glossary.md#compressed-rows), 32-bit indices | once, into the values |
# | 5 (ours) | one bit for each of the $N^2$ entries | at each iteration |
#
# Version 1's format is called COO, for coordinates. Version 0 is written with DGL, the Deep Graph Library, where that is installed; 0s is the same in plain PyTorch. Of each version, `prepare` stores the graph before the loop, and `product` multiplies inside of it (`helpers/pagerank/versions.py`). Versions 1 and 2, and 3 and 4, multiply by the same line: their difference is what `prepare` stores.

# %%
import inspect
import time

from helpers.pagerank import versions as v
from helpers.pagerank.graphs import random_links
from helpers.timing import measure, seconds

sources = (v.MessagePassingDGL, v.MessagePassing, v.SparseInLoop, v.DenseInLoop)
for version in (*sources, v.DenseFolded, v.CSR, v.Bits):
    print(f"# version {version.number}: {version.title}")
    for part in (version.prepare, version.product):
        lines = inspect.getsource(part).splitlines()
        print("\n".join(line for line in lines if line.strip() and "import torch" not in line))
    print()

# %%
graph = random_links(P.nodes, P.probability, P.seed)
print(f"{graph.nodes} nodes, {graph.edges} edges, at least one out of each node")
held, prepare = {}, {}
for name in ("dgl", "scatter", "sparse", "dense", "dense_scaled", "csr", "csr fp64", "bits"):
    begin = time.perf_counter()
    method, _, double = name.partition(" ")
    try:
        held[name] = v.VERSIONS[method](graph, "float64" if double else "float32")
    except (ImportError, RuntimeError) as error:  # no DGL for this Python, no C compiler
        print(f"skipped {name}: {str(error)[:90]}")
        continue
    prepare[name] = time.perf_counter() - begin
    print(f"{held[name].row:2} {name:12} stored in {seconds(prepare[name])}", flush=True)
ranks = {name: v.iterate(version, 30) for name, version in held.items()}
for name, x in ranks.items():
    print(
        f"{held[name].row:2} {name:12} largest difference from csr: {(x - ranks['csr']).abs().max():.1e}"
    )

# %% [markdown]
# All agree within the rounding of 32-bit numbers. (Row 3s is version 3 with its matrix made by scaling columns; the matrix product follows below. Row 4d is version 4 with 64-bit numbers, which a tolerance of $10^{-10}$ needs.) *Predict: which version is the fastest, and by what factor over the slowest?*

# %%
factor = Prediction("slowest version ÷ fastest", None)  # your number for None

# %%
spent = {}
for name, version in held.items():
    few = 20 if version.bytes_moved < 1e8 else 3  # dense ones take their time
    timing = measure(
        lambda held=version, k=few: v.iterate(held, k), repeats=5, warmup=1, time_limit=4
    )
    spent[name] = timing.best / few
    total = seconds(prepare[name] + P.iterations * spent[name])
    print(
        f"{version.row:2} {version.title:30} {seconds(spent[name]):>8} an iteration, "
        f"K={P.iterations} with preparation {total}",
        flush=True,
    )
factor.answer(max(spent.values()) / min(spent.values()))

# %% [markdown]
# ### Why: count the bytes
#
# The product does 2 operations for each stored value and uses each value once. A processor multiplies far faster than it reads. So **bytes ÷ bandwidth** is the least time of the product, if its bytes come from memory. How fast does this machine read?

# %%
big = torch.ones(50_000_000)  # 200 MB, more than any cache holds
bandwidth = big.numel() * 4 / measure(big.sum, repeats=5, warmup=2, time_limit=4).best
if "dense" in held:  # the dense product reads as well: what it reaches can be reached
    bandwidth = max(bandwidth, held["dense"].bytes_moved / spent["dense"])
del big
rows = [
    {"version": held[name].row, "bytes": held[name].bytes_moved, "seconds": spent[name]}
    for name in held
]
draw.time_against_bytes(rows, bandwidth)
plt.show()
for row in rows:
    bound = row["bytes"] / bandwidth
    print(
        f"version {row['version']:2} {row['bytes'] / 1e6:7.2f} MB, at least {seconds(bound):>8}, "
        f"measured {seconds(row['seconds']):>8}, ratio {row['seconds'] / bound:.1f}"
    )

# %% [markdown] claims="06-same-bytes 06-csr 06-messages-dense"
# **Bytes explain the title.** The dense matrix has about 430 times the bytes of the compressed rows, and takes about as many times as long. Both versions come near their bound. (A ratio below 1 means that some bytes came from a cache instead of memory.)
#
# Bytes do not explain the other versions. Messages and COO move about as many bytes (2.2 and 3.7 MB), but COO takes several times as long, and both are far above their bound. Is the COO format slow? The next cell gives the same edges in the same format to SciPy:

# %%
same = graph.incoming.tocoo().astype(np.float32)
vector = np.full(P.nodes, 1 / P.nodes, np.float32)
by_scipy = measure(lambda: same @ vector, repeats=5, warmup=1, min_time=0.01, time_limit=4).best
print(f"COO by PyTorch {seconds(spent['sparse'])}, by SciPy {seconds(by_scipy)}")

# %% [markdown]
# The format is not slow: SciPy's implementation of it is many times as fast as PyTorch's. So a bound says what is *possible*, and only a measurement says who reaches it. Of the source's four versions, messages are the fastest on a CPU; compressed rows are faster still.

# %%
for claim in ("06-same-bytes", "06-csr", "06-messages-dense"):
    display(evidence(claim))

# %% [markdown]
# ### Exercise 2: count the bytes
#
# *Difficulty ●○○, 5 minutes.* How many bytes does the matrix take in each form, with 4-byte values and 4-byte indices? `dense(N, E)`; `csr(N, E)`: a value and a column index for each edge and $N+1$ offsets of rows; `bits(N, E)`: one bit for each of the $N^2$ entries, $N$ a multiple of 32.
#
# <details><summary>Hint</summary>
#
# One byte is eight bits. Only one of the three depends on E.
#
# </details>


# %% exercise="count-bytes"
def dense(N, E):
    """Bytes of a dense fp32 matrix."""
    # BEGIN SOLUTION
    return 4 * N * N
    # END SOLUTION


def csr(N, E):
    """Bytes of compressed rows: values, column indices, row offsets."""
    # BEGIN SOLUTION
    return 4 * E + 4 * E + 4 * (N + 1)
    # END SOLUTION


def bits(N, E):
    """Bytes of one bit for each entry."""
    # BEGIN SOLUTION
    return N * N // 8
    # END SOLUTION


# %% check="count-bytes" points=2
check.count_bytes(dense, csr, bits)

# %% [markdown]
# ### The wrong way to scale columns
#
# Version 3 multiplies Out into the matrix before the loop, by a product with a diagonal matrix. This saves one elementwise product of length $N$ in each iteration, and costs $2N^3$ operations. We measure a quarter of the nodes, because the full product takes long:

# %%
quarter = torch.rand(P.nodes // 4, P.nodes // 4)
diagonal = torch.rand(P.nodes // 4)
product = measure(lambda: torch.mm(quarter, torch.diag(diagonal)), repeats=3, time_limit=5).best
print(f"N = {P.nodes // 4}: product {seconds(product)}", flush=True)
scale = measure(lambda: quarter * diagonal, repeats=3, time_limit=5).best
vector = measure(lambda: diagonal * diagonal, repeats=5, min_time=0.01, time_limit=5).best
print(f"N = {P.nodes // 4}: scaling columns {seconds(scale)}")
print(f"N = {P.nodes}, 4³ = 64 times the product's work: about {seconds(64 * product)}")
print(f"saved at each iteration: {seconds(vector * 4)} or so")
print(f"it pays for itself after {64 * product / (vector * 4):.0e} iterations")
del quarter

from helpers.pagerank.report import gpu_column, recorded_fold, recorded_growth

if fold := recorded_fold():  # the whole product, run once and kept
    print(f"{fold[0]}: N = 10000 by a product {seconds(fold[1])}, by scaling {seconds(fold[2])}")

# %% [markdown] claims="06-scale-columns"
# In the records of two processors, the product takes 30 and 60 times as long as scaling the columns at $N = 500$, and over 100 times as long at $N = 1500$. It does $2N$ times the operations, at a better rate.

# %% [markdown]
# ## On a GPU
#
# **The source measured an NVIDIA K80** (AWS p2.xlarge, $N = 10\,000$, $K = 200$). It calls speedups of 2 and 3 orders of magnitude "not uncommon" for versions 2 and 3, says that version 0 profits less, and that version 1 is "not competitive at all". It does not say how the clock was stopped (see *What breaks* below). The cell shows the times of this machine's GPU, or of one that `make gpu` has recorded, with its name.

# %%
gpu_name, gpu = gpu_column(graph, device)
print(f"GPU: {gpu_name}")
print(f"{'version':34} {'CPU, ms':>9}" + f" {'GPU, ms':>9} {'speed-up':>9}" * bool(gpu))
for name, version in held.items():
    cpu, other = spent[name] * 1e3, gpu.get(version.row)
    right = f" {other:9.3f} {cpu / other:9.1f}" if other else ""
    print(f"{version.row:2} {version.title:31} {cpu:9.3f}{right}")
for name in {"dense", "dense_scaled"} & set(held):
    del held[name]  # 400 MB each

# %% [markdown]
# A dense version reads the same bytes on both machines. If memory limits both, the speedup is the ratio of their bandwidths. On your own machine version 4 already moves a four-hundredth of the bytes: **first move fewer bytes, then move them faster**. On a CPU version 1 is slow, as the source says. But the reason is its implementation, not sparsity: version 4 is sparse as well, and SciPy's COO was fast.

# %% [markdown]
# ### What breaks: stopping the clock too early
#
# A call that runs on a GPU returns when its work is *queued*. A clock that is read then has measured only the queueing. A pool with one worker behaves in the same way on any machine.
#
# ### Exercise 3: time what was done
#
# *Difficulty ●●○, 10 minutes.* `call()` queues work and returns at once. `wait()` returns when all queued work is done. Return the seconds that one `call` takes, as the best of `repeats`. The very first call prepares things that later calls do not need, so it must not count. Do not time work that was queued before.
#
# <details><summary>Hint</summary>
#
# Call once without a clock. Then, `repeats` times: wait, read the clock, call, wait, read the clock.
#
# </details>

# %% exercise="timed"
import time


def timed(call, wait, repeats=3):
    """Return the best seconds of one call."""
    # BEGIN SOLUTION
    call()
    best = float("inf")
    for _ in range(repeats):
        wait()
        begin = time.perf_counter()
        call()
        wait()
        best = min(best, time.perf_counter() - begin)
    return best
    # END SOLUTION


# %% check="timed" points=2
check.timed(timed)

# %%
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(1) as queue:
    queue.submit(int).result()  # the worker's thread is there
    begin = time.perf_counter()
    work = queue.submit(v.iterate, held["csr"], 2000)  # returns at once, as a kernel launch does
    wrong = time.perf_counter() - begin
    work.result()  # wait: torch.cuda.synchronize() on a GPU
    right = time.perf_counter() - begin
    last = [work]
    yours = timed(
        lambda: last.append(queue.submit(v.iterate, held["csr"], 2000)), lambda: last[-1].result()
    )
print(f"unsynchronised {seconds(wrong)}, synchronised {seconds(right)}: {right / wrong:.0f}× off")
print("your function says", "–" if yours is None else seconds(yours))

# %% [markdown]
# The wrong clock has timed the queue, not the work: its number is the same however long the work takes.

# %% [markdown]
# ## How many iterations?
#
# The source runs $K = 200$ iterations. Each iteration multiplies the error by at most $d$, so after $k$ iterations the change is at most $2 d^k$. On a graph that mixes well it shrinks much faster. ("Change" is the sum of $|x_i^\text{new} - x_i^\text{old}|$ over all nodes, the L1 norm of the difference. It has nothing to do with the L1 cache.)
#
# ### Exercise 4: enough at the latest
#
# *Difficulty ●○○, 5 minutes.* Return the least $k$ for which the bound $2 d^k$ is at most `tolerance`.
#
# <details><summary>Hint</summary>
#
# Take logarithms of both sides; $\log d$ is negative, so the inequality turns. Round up.
#
# </details>

# %% exercise="at-the-latest"
import math


def at_the_latest(damping, tolerance):
    """Iterations after which the change is certainly at most the tolerance."""
    # BEGIN SOLUTION
    return math.ceil(math.log(tolerance / 2) / math.log(damping))
    # END SOLUTION


# %% check="at-the-latest" points=1
check.at_the_latest(at_the_latest)

# %% [markdown]
# *Predict: after how many iterations does the change fall below $10^{-10}$ on the source's graph?*

# %%
enough = Prediction("iterations to 1e-10 on the source's graph", None)  # your number for None

# %%
denser = random_links(P.nodes, 50 * P.probability, P.seed)  # 5e6 edges
runs = {
    "random, 1e5 edges": pagerank(graph, "csr"),
    "random, 5e6 edges": pagerank(denser, "csr"),
    "Debian": pagerank(A, "csr"),
}
draw.convergence({name: run.residuals for name, run in runs.items()}, P.damping, P.iterations)
plt.show()
for name, run in runs.items():
    print(f"{name:18} {run.iterations:3} iterations")
print("at the latest, as you say:", at_the_latest(P.damping, 1e-10) or "–")
enough.answer(runs["random, 1e5 edges"].iterations)

# %% [markdown] claims="06-iterations 06-slow-tail"
# On the source's graph, 19 iterations suffice: **K = 200 is ten times too many**. Debian needs four times as many, and its change shrinks by $d = 0.85$ in each iteration, the slowest possible. This happens where packages need only each other: a walk that enters such a cycle leaves it only by a restart. Debian has two such cycles: the Java packages `libgrpc-java` and `libopencensus-java`, and four packages around `node-es5-ext`. Which of them slows the convergence? With both cycles 83 iterations are needed. Without the Java cycle 80 are needed, without the other one 78, and without both 46. **Either cycle alone keeps the convergence slow.** It would be wrong to name the one that we found first as *the* reason.

# %%
evidence("06-slow-tail")

# %% [markdown]
# ### New values at once
#
# A power iteration uses the old values until all new ones are computed. **Gauss-Seidel** visits one node after another, and overwrites its rank at once; later visits read the new rank. Visiting all nodes once is a *sweep*, and a sweep has an order.
#
# ### Exercise 5: use it at once
#
# *Difficulty ●●○, 10 minutes.* Write the visits. `x` is a list of ranks, one for each of the $N$ nodes. Go through the nodes `i` of `order`, and replace `x[i]` in the given list by
#
# $$\frac{1-d}{N} + d \sum_{j \to i} \frac{x_j}{\mathrm{out}(j)}$$
#
# `into[i]` lists the nodes $j$ that link to `i`, and `out[j]` is the number of links that leave $j$. Return the change: the sum of $|x_i^\text{new} - x_i^\text{old}|$ over the visits. `order` need not contain all nodes.
#
# <details><summary>Hint</summary>
#
# Loop over `order`. Keep the new rank in a variable until you have added up the change, and then write it.
#
# </details>


# %% exercise="sweep"
def sweep(x, into, out, order, damping):
    """Write the new rank of each node in order into the list x; return the change."""
    # BEGIN SOLUTION
    change = 0.0
    for i in order:
        new = (1 - damping) / len(x) + damping * sum(x[j] / out[j] for j in into[i])
        change += abs(new - x[i])
        x[i] = new
    return change
    # END SOLUTION


# %% check="sweep" points=2
check.sweep(sweep)

# %% [markdown]
# In which order? `along_links` puts Debian's packages into groups, and each group after all groups that link to it. Two packages are in one group if each can be reached from the other. A package on no cycle is a group of its own.

# %%
from helpers.pagerank.graphs import links
from helpers.pagerank.order import along_links, linking

debian_links = links(A)
groups = along_links(debian_links)
forward = [package for group in groups for package in group]
cycles = [group for group in groups if len(group) > 1]
print(f"{len(groups)} groups; {len(cycles)} of more than one package hold", end=" ")
print(f"{sum(map(len, cycles))} packages, the largest {max(map(len, cycles))}")

# %% [markdown]
# A sweep does not return the rank that dangling packages lose. So the sum of the ranks ends below 1, and we divide the ranks by it. (*What breaks*, below, explains why this is allowed; here we test it by the distance from the power iteration's ranks.)
#
# *Predict: how many sweeps do you need until Debian's ranks change by less than $10^{-10}$ of their sum, in this order and in the reverse order?*

# %%
along = Prediction("sweeps along Debian's links", None)  # your number for None
against = Prediction("sweeps against Debian's links", None)


# %%
def settle(graph, order, keep_sum=False):
    """Sweep until nothing changes; return the ranks, sum 1, and the number of sweeps."""
    into, out = linking(graph), graph.out_weight.tolist()
    x, sweeps, change = [1 / graph.nodes] * graph.nodes, 0, 1.0
    while change > 1e-10 * sum(x):
        change = sweep(x, into, out, order, P.damping)
        sweeps += 1
        if keep_sum:
            total = sum(x)
            x = [rank / total for rank in x]
    return np.array(x) / sum(x), sweeps


# %%
yours, counts = check.sweep.passed(sweep), {}
tried = [("random, 1e5 edges", graph, "one by one", range(P.nodes))]
for which, order in (
    ("as numbered", sorted(forward)),
    ("against the links", forward[::-1]),
    ("along the links", forward),
):
    tried.append(("Debian", debian_links, which, order))
for name, sweeps_of, which, order in tried:
    run = runs[name]
    print(f"{name:17} power iteration {run.iterations:3};  sweeps {which:17}", end=" ")
    if yours:
        x, counts[which] = settle(sweeps_of, order)
        print(f"{counts[which]:3}, L1 distance {np.abs(x - run.scores).sum():.0e}")
    else:
        print("–")
if yours:
    along.answer(counts["along the links"])
    against.answer(counts["against the links"])

# %% [markdown]
# On the source's graph there are more sweeps than power iterations. A power iteration keeps the sum of the ranks at 1, and a sweep does not. This graph has no dangling node, so the final ranks have the sum 1, and we may divide the ranks by their sum after each sweep. We change nothing else:

# %%
if yours:
    x, kept_sum = settle(graph, range(P.nodes), keep_sum=True)
    apart = np.abs(x - runs["random, 1e5 edges"].scores).sum()
    print(f"sum kept: {kept_sum} sweeps, not kept: {counts['one by one']}, L1 distance {apart:.0e}")
else:
    print("sum kept: – sweeps, exercise 5 first")

# %% [markdown] claims="06-sum-kept 06-sweep-order"
# The drifting sum was what cost the extra sweeps. On five random graphs with $10^5$ edges, a change of $10^{-10}$ took 13 sweeps with the sum kept, 46 to 53 without, and 19 power iterations.
#
# Debian's rows differ only in the order. Along the links, a visit outside the cycles reads ranks that are final already. Nevertheless this order needs as many sweeps as the original numbering or a random order: in the record, a change of $10^{-10}$ takes 36 sweeps along the links and 33 to 43 in five random orders; a change of $10^{-4}$ takes 9 and 12. Against the links it takes more, 49 and 16.
#
# The cycles are what needs further sweeps. So we sweep each cycle by itself until it stops changing, and only then go on:

# %%
into, out = linking(debian_links), debian_links.out_weight.tolist()
x, visits = [1 / len(into)] * len(into), 0
for group in groups if yours else ():
    left = 1.0
    while left > 1e-12:
        change = sweep(x, into, out, group, P.damping)
        visits += len(group)
        left = change / sum(x[i] for i in group) if len(group) > 1 else 0.0
if yours:
    print(f"{visits / len(x):.3f} visits to a package, on average")
    change = sweep(x, into, out, forward, P.damping) / sum(x)
    print(f"one more sweep, over all of them, changes {change:.0e} of the ranks' sum")
else:
    print("– visits to a package: exercise 5 first")

# %% [markdown]
# `pagerank` does this by default if there is a C compiler: it repeats small cycles within a sweep, and a second sweep confirms the first.

# %%
swept = pagerank(A, "auto")
same = np.abs(swept.scores - runs["Debian"].scores).sum()
print(f"{swept.method}: {swept.iterations} sweeps, L1 distance from power iteration {same:.1e}")
for method in (swept.method, "csr"):
    print(f"{method:8}", measure(lambda m=method: pagerank(A, m), repeats=5, time_limit=5))

# %% [markdown] claims="06-ordered"
# In the record this is eight times as fast as a power iteration at a tolerance of $10^{-10}$, and twice as fast at $10^{-4}$, where a power iteration stops early.

# %% [markdown]
# ### What breaks: rank that leaks
#
# The source's loop expects an out-link at every node. On Debian it loses rank at each dangling package:

# %%
naive = v.CSR(debian_links, "float64")
sums = [float(v.iterate(naive, k).sum()) for k in (0, 1, 2, 5, 10, 50, 200)]
print("dangling packages:", int((debian_links.out_weight == 0).sum()))
print("sum of the ranks after 0, 1, 2, 5, 10, 50, 200 iterations:", np.round(sums, 3))
leaked = v.iterate(naive, 200).numpy()
order, kept = np.argsort(-leaked), np.argsort(-result.scores)
print("the top ten agree in", len({*order[:10]} & {*kept[:10]}), "places")

# %% [markdown] claims="06-order-survives"
# Leaking scales all ranks by one factor: the order is right, but the ranks are no longer probabilities. Over twenty random graphs with a third of their nodes dangling, the twenty highest nodes had the same order in 20 of 20 graphs if dangling nodes gave their rank to everyone, and in 0 of 20 if each kept its own. Libraries differ here: scikit-network leaves the rank at the dangling node. Its ranks add up to 1 all the same, so compare orders, not sums.
#
# ### Exercise 6, a project: rank Debian yourself
#
# *Difficulty ●●●, 40 minutes.* Write PageRank in NumPy from the list of edges alone: edge $e$ leads from `source[e]` to `target[e]`, and `nodes` is the number of nodes. Dangling nodes give their rank to all nodes equally. Stop when the L1 change is at most `tolerance`. The check uses 60 000 nodes, for which a dense matrix would not fit.
#
# <details><summary>Hint</summary>
#
# `np.bincount(source, minlength=nodes)` counts the out-links. `np.bincount(target, weights=..., minlength=nodes)` adds up what arrives at each node; it needs one weight for each edge.
#
# </details>


# %% exercise="my-pagerank"
def my_pagerank(source, target, nodes, damping=0.85, tolerance=1e-10):
    """Return the ranks (nodes,), sum 1."""
    # BEGIN SOLUTION
    out = np.bincount(source, minlength=nodes)
    x, change = np.full(nodes, 1 / nodes), 1.0
    while change > tolerance:
        share = np.divide(x, out, out=np.zeros(nodes), where=out > 0)
        y = damping * np.bincount(target, weights=share[source], minlength=nodes)
        y += (1 - y.sum()) / nodes  # restarts, and what the dangling nodes had
        x, change = y, np.abs(y - x).sum()
    return x
    # END SOLUTION


# %% check="my-pagerank" points=4
check.my_pagerank(my_pagerank)

# %%
edges = A.tocoo()
mine = my_pagerank(edges.row, edges.col, A.shape[0])
if mine is not None:
    print("yours:", [debian.names[i] for i in np.argsort(-mine)[:5]])
    print(f"L1 distance from the library's: {np.abs(mine - result.scores).sum():.0e}")
    print(measure(lambda: my_pagerank(edges.row, edges.col, A.shape[0]), repeats=2, time_limit=5))

# %% [markdown]
# ## How far does it grow?

# %%
from helpers.pagerank.versions import free_bytes

counts, times, sizes = [10**5, 3 * 10**5, 10**6, 3 * 10**6], [], []
for count in counts:
    grown = v.CSR(random_links(count // 10, 100 / count, P.seed))  # ten links a node
    times.append(
        measure(lambda held=grown: v.iterate(held, 3), repeats=3, warmup=1, time_limit=4).best / 3
    )
    sizes.append(count // 10)
    print(f"{count:9,} edges: {seconds(times[-1])} an iteration", flush=True)
draw.growth(counts, times, sizes, free_bytes(torch.device("cpu")), recorded_growth())
plt.show()

# %% [markdown] claims="06-per-edge"
# Filled circles were measured just now. Hollow circles come from a record (`make bench SUITE=pagerank`, up to $5 \cdot 10^7$ edges); the legend names its machine and date. An edge costs more in a larger graph: in the records of two processors, 1.3 and 2.3 times as much at $10^5$ nodes as at $10^4$, and 1.5 and 3.7 times as much at $10^6$. The ranks of a larger graph outgrow one cache after another; whether this is the reason, we did not isolate.

# %%
evidence("06-per-edge")

# %% [markdown]
# Sparse storage grows with the edges, dense storage with the square of the nodes. The web has more than $10^{11}$ pages.
#
# ### Exercise 7: where dense ends
#
# *Difficulty ●○○, 5 minutes.* Return the largest number of nodes whose dense matrix fits into `memory` bytes, at `bits` bits an entry.
#
# <details><summary>Hint</summary>
#
# $N^2 \cdot$ bits $/ 8 \le$ memory. `math.isqrt` takes whole roots.
#
# </details>


# %% exercise="largest-dense"
def largest_dense(memory, bits):
    """Nodes of the largest dense matrix that fits; memory in bytes, both whole numbers."""
    # BEGIN SOLUTION
    return math.isqrt(8 * memory // bits)
    # END SOLUTION


# %% check="largest-dense" points=1
check.largest_dense(largest_dense)

# %%
for wide in (32, 1):
    most = largest_dense(free_bytes(torch.device("cpu")), wide)
    print(f"{wide} bits an entry: up to {most or '–'} nodes in this machine's free memory")

# %% [markdown]
# With one bit for each entry, $\sqrt{32} \approx 6$ times as many nodes fit. Is it faster, too? If a twentieth of all edges exist, the bits take 12.5 MB and compressed rows 40 MB. *Predict: which is faster?*

# %%
few, yours = {}, check.count_bytes.passed(dense, csr, bits)
for name, count in (("csr", csr), ("bits", bits)):
    try:
        version = v.VERSIONS[name](denser)
    except RuntimeError as error:
        print(f"skipped {name}: {str(error)[:90]}")
        continue
    few[name] = measure(lambda held=version: v.iterate(held, 5), repeats=3, time_limit=4).best / 5
    matrix = f"{count(denser.nodes, denser.edges) / 1e6:.1f}" if yours else "–"
    print(f"{name:5} {version.bytes_moved / 1e6:5.1f} MB, of them the matrix, as you count it, "
          f"{matrix} MB; {seconds(few[name])} an iteration")  # fmt: skip

# %% [markdown] claims="06-bits"
# Bits are not faster at a twentieth of all edges: they have fewer bytes and take three times as long. They take the same time at a twentieth as at 40 % of the edges (14 ms on one processor, 16 on another), because each bit is extracted from its word, set or not. At 40 % they are therefore three to four times as *fast* as compressed rows. Bytes alone would have predicted a win at a twentieth too.

# %%
evidence("06-bits")

# %% [markdown]
# ## On several processes
#
# Give each MPI process a block of rows: the links *into* its nodes. To multiply, it needs the scores of the nodes that these links come from. There are two ways to get them:
#
# - **allgather**: everyone receives everything, $8(N - N_r)$ bytes for the process with $N_r$ rows;
# - **boundary**: everyone receives only what its rows read.
#
# *Predict for Debian on four processes: by what factor is the boundary smaller?* The graph alone determines it:

# %%
smaller = Prediction("allgather ÷ boundary for Debian on four ranks, bytes", None)  # your number

# %%
from helpers.pagerank.distributed import predicted_bytes, split

order = np.random.default_rng(P.seed).permutation(len(debian.names))
shuffled = links(debian.adjacency()[order][:, order])
graphs = {"random": graph, "Debian": debian_links, "Debian, names shuffled": shuffled}
for name, links_ in graphs.items():
    blocks, sums = split(links_, P.ranks), {}
    for exchange in ("allgather", "boundary"):
        expected = predicted_bytes(blocks, exchange)
        sums[exchange] = sum(expected)
        print(f"{name:22} {exchange:9}", [f"{b / 1e3:.0f} kB" for b in expected], "an iteration")
    if name == "Debian":
        smaller.answer(sums["allgather"] / sums["boundary"])

# %%
from helpers.cluster import Cluster

cluster = Cluster(n=P.ranks)


# %%
def solve(exchange):
    from helpers.datasets.dependencies import load_dependencies
    from helpers.pagerank.distributed import rank_block, split
    from helpers.pagerank.graphs import links

    blocks = split(links(load_dependencies().adjacency()), size)  # size, rank, comm: of the ranks
    comm.Barrier()
    begin = MPI.Wtime()
    answer = rank_block(blocks[rank], comm, exchange)
    return answer | {"seconds": MPI.Wtime() - begin}


for exchange in ("allgather", "boundary"):
    answers = cluster.run(solve, exchange, timeout=60)
    together = np.concatenate([answer["scores"] for answer in answers])
    steps = answers[0]["iterations"]
    counted = [answer["received"] // steps for answer in answers]
    print(f"{exchange:10} {steps} iterations, {seconds(answers[0]['seconds'])}")
    predicted = predicted_bytes(split(debian_links, P.ranks), exchange)
    print("  rank  predicted B  received B  ratio")
    for rank_, (say, got) in enumerate(zip(predicted, counted, strict=True)):
        print(f"  {rank_:4} {say:12} {got:11} {got / say:6.3f}")
    distance = np.abs(together - runs["Debian"].scores).sum()
    print(f"  L1 distance from one process: {distance:.0e}")
print("one process:", measure(lambda: pagerank(debian_links, "csr"), repeats=3, time_limit=5))

# %% [markdown]
# The loop that just ran, as each rank ran it:

# %%
from helpers.pagerank import distributed

print(inspect.getsource(distributed.rank_block).split('"""')[2])

# %% [markdown] claims="06-boundary"
# On a random graph every process needs nearly every node's score, so the boundary saves little. On Debian the boundary is a third of the allgather, on average over 2 to 8 processes. The lines with shuffled names explain part of it: about half of the saving comes from the order of the names. Related packages have neighbouring names, and so they fall into one block.
#
# Now compare the three times. If four processes took longer than one, and the boundary hardly less than the allgather, bytes were not the limit: on one machine, four processes share memory and cores, and wait for one another three times in each iteration. Their advantage is room for a graph that is larger than one machine.
#
# ### Exercise 8: the boundary
#
# *Difficulty ●●○, 10 minutes.* A process owns the nodes `first` to `last − 1`. `columns` holds the column index of every link in its rows, with repeats. How many scores of other nodes must it receive in each iteration?
#
# <details><summary>Hint</summary>
#
# A node is received once, even if ten links come from it. `np.unique` drops the repeats.
#
# </details>


# %% exercise="boundary"
def boundary(columns, first, last):
    """Return the number of entries that the rank must receive."""
    # BEGIN SOLUTION
    columns = np.unique(columns)
    return int(((columns < first) | (columns >= last)).sum())
    # END SOLUTION


# %% check="boundary" points=2
check.boundary(boundary)

# %% [markdown]
# Your count times 8 bytes, beside the bytes that each process has received:

# %%
right = check.boundary.passed(boundary)
print("rank  yours B  received B")
for rank_, (block, got) in enumerate(zip(split(debian_links, P.ranks), counted, strict=True)):
    yours = 8 * boundary(block.rows.indices, block.first, block.last) if right else "–"
    print(f"{rank_:4} {yours:>8} {got:11}")

# %% [markdown]
# ## What the sources say, what we measured
#
# The right column is of the runs above, on your machine.

# %%
from IPython.display import Markdown

took, moved = ({row["version"]: row[what] for row in rows} for what in ("seconds", "bytes"))
order = sorted((one for one in ("0", "0s", "1", "2", "3s") if one in took), key=took.get)
on_gpu = [f"{one} gains {1e3 * took[one] / gpu[one]:.0f} times" for one in order if one in gpu]
found = [
    ("tensors, `diag`, `mm`, `mv`, devices by name",
     f"run above, on {device}; memory shared with NumPy: {M[0, 0].item() == a[0, 0]}"),
    (f"iterate $K = {P.iterations}$ times, $N = 10\\,000$, $d = 0.85$",
     f"below $10^{{-10}}$ after {runs['random, 1e5 edges'].iterations} iterations"),
    ("version 0 second best on the CPU; sparse \"not competitive at all\"",
     f"an iteration: {', '.join(f'version {one} {seconds(took[one])}' for one in order)}; "
     f"compressed rows {seconds(took['4'])}, with {moved['4'] / moved['1']:.1f} of COO's bytes"),
    ("dense gains most from the GPU (the source's own figures)",
     f"{gpu_name}. {'; '.join(on_gpu)}" if on_gpu else "*not measured here*: no GPU, no record"),
    ("replacing $K$ vector products by a matrix product is \"not very smart\"",
     f"right: scaling columns gives the same matrix, {product / scale:.0f} times as fast"),
]  # fmt: skip
table = ["| the source says | here |", "|---|---|", *(f"| {a} | {b} |" for a, b in found)]
Markdown("\n".join(table))

# %% [markdown]
# ## Summary
#
# - Bytes ÷ bandwidth is the least time of an iteration. A version far above it is limited by something else. Count before you buy a GPU.
# - Stop at a tolerance. Return the rank of dangling nodes. Synchronize before you read the clock.
# - Row blocks distribute a graph. The boundary is what must be sent, and the graph predicts it.
#
# **In practice**: `networkx.pagerank` for small graphs, igraph on one machine, cuGraph on a GPU.
#
# **References**: Page, Brin, Motwani, Winograd, *The PageRank citation ranking* (1999): the idea and its random surfer. Langville, Meyer, *Google's PageRank and Beyond* (2006): convergence, dangling nodes. Gleich, *PageRank beyond the web* (SIAM Review, 2015): other graphs, personalisation. Arasu et al., *PageRank computation and the structure of the web* (2002): Gauss-Seidel.
#
# **Next**: [07_roofline](07_roofline.ipynb) measures the bandwidth and the peak of this machine, and places these versions under its roofline.

# %%
cluster.stop()
