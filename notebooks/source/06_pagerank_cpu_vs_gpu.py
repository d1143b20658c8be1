# %% [markdown]
# # Rank a graph four ways, and find out why one is a hundred times faster
#
# At the end you have ranked the 63 436 packages of Debian 12 by how much leans on them, with a PageRank that you can explain down to the bytes that each iteration moves.
#
# **You will be able to**
#
# - place a tensor on a processor, a GPU included, and time what runs there without fooling yourself;
# - write PageRank as a sum over links and as a matrix product, and say where each version spends its time;
# - predict the time of an iteration from the bytes that it moves;
# - repair the formula where nodes have no out-links, and stop iterating when enough is enough;
# - cut a graph into row blocks for several MPI ranks and predict what they must exchange.
#
# **You need** a cluster of ranks as in [01_mpi_basics](01_mpi_basics.ipynb), and matrix-vector products. *Time:* 60 minutes, of which the machine works for less than three. *Cores:* two are enough, with 2 GB of memory. *GPU:* optional.

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

from helpers.exercises import pagerank as check
from helpers.plots import pagerank as draw
from helpers.plots import style


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
# ## 1. Who holds Debian up?
#
# A Debian package names the packages that it needs. Follow such a link, at random; from there another; and once in a while (with probability $1 - d$) start again anywhere. **The rank of a package is the share of your time that you spend at it.** It is high where many paths end.
#
# *Predict before you run the next cell: which package is visited most?*

# %%
from helpers.datasets.dependencies import load_dependencies
from helpers.pagerank import pagerank

debian = load_dependencies()
A = debian.adjacency()  # A[i, j] = 1: package i needs package j
result = pagerank(A)
print(f"{len(debian.names)} packages, {A.nnz} links, Debian {debian.about['version']}")
top = result.top(15)
draw.bars([debian.names[i] for i, _ in top], [s for _, s in top], "The 15 pillars of Debian 12")
plt.show()

# %% [markdown]
# The C library and the compiler's run-time library, which need each other, take nearly a third of all visits: whoever walks along dependencies falls into that pit. Behind them stand the two interpreters.
#
# Look around one package: zoom, drag, and point at the circles.

# %%
draw.neighbourhood(A, debian.names, result.scores, debian.number("python3-numpy"))

# %% [markdown]
# *What does a scientist's machine lean on?* Restart not anywhere but at the packages of the section `science`. This is **[personalised](glossary.md#personalised-pagerank)** PageRank, and the same function computes it.

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
# ## 2. Tensors, and where they live
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
# Three products to keep apart: `mm`, matrix times matrix; `mv`, matrix times vector; and `*`, element by element, which repeats a vector along the rows.

# %%
print("mm", torch.mm(M, z.reshape(3, 1)).shape, " mv", torch.mv(M, z).shape)
print("elementwise", ((M + 1) * z).shape)
scaled = M * z  # column j of M times z[j] ...
print("the same by a product with a diagonal:", torch.equal(scaled, torch.mm(M, torch.diag(z))))

# %% [markdown]
# Remember the last line: **scaling the columns of a matrix is an elementwise product**. Doing it by a matrix product gives the same numbers and costs $2N^3$ operations in place of $N^2$.
#
# A device is a name: `"cpu"`, `"cuda"`, or `"cuda:1"` for the second GPU. Operands must live on the same device, and `.to()` moves them. The cell runs on whatever this machine has:

# %%
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.ones(4, device=device)
y = torch.arange(4.0).to(device)
print((x + y).device, (x + y).to("cpu").numpy())

# %% [markdown]
# ## 3. PageRank by hand
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
print("largest difference from NetworkX:", max(abs(x[i] - reference[i]) for i in range(4)))

# %% [markdown]
# ### Exercise 1: keep the rank
#
# *Difficulty ●●○, 10 minutes.* A node without out-links is **[dangling](glossary.md#dangling-node)**. The formula above divides by zero there; with $\mathrm{Out}=0$ in its place, the node's rank vanishes at each step. Debian has thousands of such packages. Write one step in which a dangling node gives its rank to all $N$ nodes equally, so that the sum stays 1.
#
# <details><summary>Hint</summary>
#
# Add up the ranks of the dangling nodes first. What they lose, everyone receives 1/N of, and it is damped as any other link.
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
# ## 4. Four versions of one product
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
# | 5 (ours) | one bit for each possible edge | at each iteration |
#
# Here they are; each is a few lines, in `helpers/pagerank/versions.py`.

# %%
import inspect

from helpers.pagerank import versions as v
from helpers.pagerank.graphs import random_links

for version in (v.MessagePassing, v.SparseInLoop, v.DenseInLoop, v.DenseFolded, v.CSR):
    print(f"# version {version.number}: {version.title}")
    print(inspect.getsource(version.product))

# %%
graph = random_links(P.nodes, P.probability, P.seed)
print(f"{graph.nodes} nodes, {graph.edges} edges, at least one out of each node")
held, prepare = {}, {}
for name in ("dgl", "scatter", "sparse", "dense", "dense_scaled", "csr", "csr fp64", "bits"):
    import time

    begin = time.perf_counter()
    method, _, double = name.partition(" ")
    try:
        held[name] = v.VERSIONS[method](graph, "float64" if double else "float32")
    except (ImportError, RuntimeError) as error:  # no DGL for this Python, no C compiler
        print(f"skipped {name}: {str(error)[:90]}")
        continue
    prepare[name] = time.perf_counter() - begin
ranks = {name: v.iterate(version, 30) for name, version in held.items()}
for name, x in ranks.items():
    print(f"{name:8} largest difference from csr: {(x - ranks['csr']).abs().max():.1e}")

# %% [markdown]
# All agree within the rounding of 32-bit numbers. (Row 3s is version 3 with its matrix made by scaling columns; what the matrix product costs instead comes below. Row 4d is version 4 with 64-bit numbers, which a tolerance of $10^{-10}$ needs.) *Predict: which is the fastest, and by what factor over the slowest?*

# %%
from helpers.timing import measure, seconds

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
        f"K={P.iterations} with preparation {total}"
    )

# %% [markdown]
# ### Why: count the bytes
#
# A product does 2 operations for each stored value and uses each value once. A processor multiplies far faster than it reads, so the time is **bytes ÷ bandwidth**. How fast does this machine read?

# %%
big = torch.ones(50_000_000)  # 200 MB, more than any cache holds
bandwidth = big.numel() * 4 / measure(big.sum, repeats=5, warmup=2, time_limit=4).best
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

# %% [markdown]
# The dense version sits on the line: no program that reads a dense matrix can be faster. The sparse ones move a hundredth of the bytes and less. They are small enough to stay in cache, so they can even lie below a line that stands for memory; what holds them up is the cost of each call and of jumping to the values that each row needs.

# %% [markdown]
# ### Exercise 2: count the bytes
#
# *Difficulty ●○○, 5 minutes.* How many bytes does the matrix take in each form, with 4-byte values and 4-byte indices? `dense(N, E)`; `csr(N, E)`: a value and a column index for each edge and $N+1$ offsets of rows; `bits(N, E)`: one bit for each possible edge, $N$ a multiple of 32.
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
    """Bytes of one bit for each possible edge."""
    # BEGIN SOLUTION
    return N * N // 8
    # END SOLUTION


# %% check="count-bytes" points=2
check.count_bytes(dense, csr, bits)

# %% [markdown]
# ### The wrong way to scale columns
#
# Version 3 folds Out into the matrix before the loop, by a product with a diagonal matrix. It saves one vector product of length $N$ at each iteration, and pays $2N^3$ operations for it. Measured on a quarter of the nodes, since the whole takes long:

# %%
quarter = torch.rand(P.nodes // 4, P.nodes // 4)
diagonal = torch.rand(P.nodes // 4)
product = measure(lambda: torch.mm(quarter, torch.diag(diagonal)), repeats=3, time_limit=5).best
scale = measure(lambda: quarter * diagonal, repeats=3, time_limit=5).best
vector = measure(lambda: diagonal * diagonal, repeats=5, min_time=0.01, time_limit=5).best
print(f"N = {P.nodes // 4}: product {seconds(product)}, scaling columns {seconds(scale)}")
print(f"N = {P.nodes}, 4³ = 64 times the product's work: about {seconds(64 * product)}")
print(f"saved at each iteration: {seconds(vector * 4)} or so")
print(f"it pays for itself after {64 * product / (vector * 4):.0e} iterations")

from helpers.pagerank.report import gpu_column, recorded_fold, recorded_growth

if fold := recorded_fold():  # the whole product, run once and kept
    print(f"{fold[0]}: N = 10000 by a product {seconds(fold[1])}, by scaling {seconds(fold[2])}")

# %% [markdown]
# ## 5. On a GPU
#
# The source reports the table's second column on an NVIDIA K80 and finds speed-ups of 2 to 3 orders of magnitude for the dense versions. Below are this machine's processor, and a GPU: this machine's, or the one in a record made by `make gpu`, with its name.

# %%
gpu_name, gpu = gpu_column(graph, device)
print(f"{'version':34} {'CPU, ms':>9} {'GPU, ms':>9} {'speed-up':>9}   (GPU: {gpu_name})")
for name, version in held.items():
    cpu, other = spent[name] * 1e3, gpu.get(version.row)
    right = f"{other:9.3f} {cpu / other:9.1f}" if other else f"{'–':>9} {'–':>9}"
    print(f"{version.row:2} {version.title:31} {cpu:9.3f} {right}")

# %% [markdown]
# A GPU reads its memory at thousands of GB/s, so a dense version can gain the ratio of the bandwidths. Version 4 gains a factor of four hundred in bytes on the machine that you have: **moving fewer bytes comes before moving them faster**. The source's conclusion that version 1 is "not competitive at all" holds for the sparse format of its day, not for sparsity.

# %% [markdown]
# ### What breaks: stopping the clock too early
#
# A call that runs on a GPU returns when the work is *queued*. A clock read then has timed the queue. A pool with one worker behaves the same way on any machine:

# %%
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(1) as queue:
    begin = time.perf_counter()
    work = queue.submit(v.iterate, held["csr"], 2000)  # returns at once, as a kernel launch does
    wrong = time.perf_counter() - begin
    work.result()  # wait: torch.cuda.synchronize() on a GPU
    right = time.perf_counter() - begin
print(f"unsynchronised {seconds(wrong)}, synchronised {seconds(right)}: {right / wrong:.0f}× off")

# %% [markdown]
# ## 6. How many iterations?
#
# The source runs $K = 200$ iterations. Each iteration shrinks the error by $d$ at least: after $k$, the change is at most $2 d^k$. On a graph that mixes well it shrinks much faster. *Predict: after how many iterations does the change fall below $10^{-10}$?*

# %%
denser = random_links(P.nodes, 50 * P.probability, P.seed)  # 5e6 edges
runs = {
    "random, 1e5 edges": pagerank(graph, "csr"),
    "random, 5e6 edges": pagerank(denser, "csr"),
    "Debian": pagerank(A, "csr"),
}
draw.convergence({name: run.residuals for name, run in runs.items()}, P.damping, P.iterations)
plt.show()
print({name: run.iterations for name, run in runs.items()})

# %% [markdown]
# On the source's graph, 19 iterations do: **K = 200 is ten times too many**. Debian needs four times as many, and its tail falls by exactly $d = 0.85$ an iteration, the slowest there is: two Java packages, `libgrpc-java` and `libopencensus-java`, need each other and nothing else, so a walk that enters leaves only by a restart.
#
# Apart from a few such cycles Debian's links never lead back. Visit the packages *in the order of their links* and use each new value at once, and one sweep is enough, with a second to confirm. That is what `pagerank` does by default:

# %%
swept = pagerank(A, "auto")
same = np.abs(swept.scores - runs["Debian"].scores).sum()
print(f"{swept.method}: {swept.iterations} sweeps, L1 distance from power iteration {same:.1e}")
for method in (swept.method, "csr"):
    print(f"{method:8}", measure(lambda m=method: pagerank(A, m), repeats=5, time_limit=5))

# %% [markdown]
# ### What breaks: rank that leaks
#
# The source's loop expects an out-link at every node. On Debian it loses rank at each dangling package:

# %%
from helpers.pagerank.graphs import links

debian_links = links(A)
naive = v.CSR(debian_links, "float64")
sums = [float(v.iterate(naive, k).sum()) for k in (0, 1, 2, 5, 10, 50, 200)]
print("dangling packages:", int((debian_links.out_weight == 0).sum()))
print("sum of the ranks after 0, 1, 2, 5, 10, 50, 200 iterations:", np.round(sums, 3))
leaked = v.iterate(naive, 200).numpy()
order, kept = np.argsort(-leaked), np.argsort(-result.scores)
print("the top ten agree in", len({*order[:10]} & {*kept[:10]}), "places")

# %% [markdown]
# When the dangling rank returns to where walks restart, the ranks are the leaking ones times a constant: the order survives, the meaning as probabilities does not. A different treatment of dangling nodes changes even the order; libraries differ here, so compare their sums before you compare their ranks.

# %% [markdown]
# ## 7. How far does it grow?

# %%
from helpers.pagerank.versions import free_bytes

counts, times, sizes = [10**5, 3 * 10**5, 10**6, 3 * 10**6], [], []
for count in counts:
    grown = v.CSR(random_links(count // 10, 100 / count, P.seed))  # ten links a node
    times.append(
        measure(lambda held=grown: v.iterate(held, 3), repeats=3, warmup=1, time_limit=4).best / 3
    )
    sizes.append(count // 10)
draw.growth(counts, times, sizes, free_bytes(torch.device("cpu")), recorded_growth())
plt.show()

# %% [markdown]
# Filled circles were measured just now. Hollow ones come from a record (`make bench SUITE=pagerank`, up to $5 \cdot 10^7$ edges), whose machine and date the legend names; graphs of that size take gigabytes to make. As long as the ranks fit a cache the time grows with the edges; where they no longer do, at a few million nodes, each edge costs a visit to memory, and the curve turns upwards.
#
# Sparse storage grows with the edges, dense storage with the square of the nodes: it meets this machine's memory before a hundred thousand nodes. The web has more than $10^{11}$ pages. One bit an entry moves the limit out by a factor $\sqrt{32} \approx 6$ in nodes, and pays on *dense* graphs: at $5 \cdot 10^6$ edges of $10^8$ possible ones, 12.5 MB of bits stand against 40 MB of CSR.

# %%
few = {}
for name in ("csr", "bits"):
    try:
        version = v.VERSIONS[name](denser)
    except RuntimeError as error:
        print(f"skipped {name}: {str(error)[:90]}")
        continue
    few[name] = measure(lambda held=version: v.iterate(held, 5), repeats=3, time_limit=4).best / 5
    print(f"{name:5} {version.bytes_moved / 1e6:5.1f} MB {seconds(few[name])} an iteration")

# %% [markdown]
# ## 8. On several ranks
#
# Give each MPI rank a block of rows: the links *into* its nodes. To multiply, it needs the ranks of the nodes that these links come from. Two ways to get them:
#
# - **allgather**: everyone receives everything, $8(N - N_r)$ bytes for the rank with $N_r$ rows;
# - **boundary**: everyone receives only what its rows read.
#
# *Predict for Debian on four ranks: by what factor is the boundary smaller?* The graph alone tells:

# %%
from helpers.pagerank.distributed import predicted_bytes, split

for name, links_ in (("Debian", debian_links), ("random", graph)):
    blocks = split(links_, P.ranks)
    for exchange in ("allgather", "boundary"):
        expected = predicted_bytes(blocks, exchange)
        print(f"{name:7} {exchange:10}", [f"{b / 1e3:.0f} kB" for b in expected], "an iteration")

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
    print(
        "  bytes received, counted = predicted:",
        counted == predicted_bytes(split(debian_links, P.ranks), exchange),
    )
    print("  L1 distance from one process:", np.abs(together - runs["Debian"].scores).sum())

# %% [markdown]
# The loop that just ran, as each rank ran it:

# %%
from helpers.pagerank import distributed

print(inspect.getsource(distributed.rank_block).split('"""')[2])

# %% [markdown]
# On a random graph every rank needs nearly everybody's rank, and the boundary saves little. On Debian most packages are needed by nobody, so their rank never travels. On one machine four ranks share the memory that one process reads alone: they win where a graph is larger than one machine.
#
# ### Exercise 3: the boundary
#
# *Difficulty ●●○, 10 minutes.* A rank owns the nodes `first` to `last − 1`; `columns` holds the column index of every link in its rows, repeats included. How many ranks of other nodes must it receive in each iteration?
#
# <details><summary>Hint</summary>
#
# A node that ten links come from is received once. `np.unique` drops the repeats.
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
# ## What the sources say, what we measured
#
# | row | the source says | here |
# |---|---|---|
# | C1 | tensors, `diag`, `mm`, `mv`, devices by name | run in section 2; conversion from NumPy shares memory |
# | C2 | iterate $K=200$ times, $N=10\,000$, $d=0.85$ | the formula holds; the change is below $10^{-10}$ after 19 iterations |
# | C3 | version 0 second best on the CPU; sparse "not competitive at all"; dense gains most from the GPU | dense sits on the read bandwidth, which is what the GPU raises; sparse with compressed rows moves a four-hundredth of the bytes and wins on the CPU |
# | C3 | replacing $K$ vector products by a matrix product is "not very smart" | right, and it is not needed: scaling columns gives the same matrix (section 4) |
#
# ## Summary
#
# - An iteration takes bytes ÷ bandwidth. Count the bytes before you buy a GPU.
# - Stop at a tolerance; send back the rank of dangling nodes; synchronise before you read the clock.
# - Row blocks distribute a graph; what travels is the boundary, and the graph predicts it.
#
# **In practice**: `networkx.pagerank` for small graphs, igraph or scikit-network on one machine, cuGraph on a GPU.
#
# **References**: Page, Brin, Motwani, Winograd, *The PageRank citation ranking* (1999): the idea and its random surfer. Langville, Meyer, *Google's PageRank and Beyond* (2006): convergence, dangling nodes. Gleich, *PageRank beyond the web* (SIAM Review, 2015): other graphs, personalisation. Arasu et al., *PageRank computation and the structure of the web* (2002): Gauss-Seidel.
#
# **Next**: [notebook 07](07_roofline.ipynb) measures the bandwidth and the peak of this machine, and places these versions under its roofline.

# %%
cluster.stop()
