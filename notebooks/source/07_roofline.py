# %% [markdown]
# # Measure what this machine can do, and see what holds your code back
#
# At the end you have one picture of this machine, its [roofline](glossary.md#roofline), with your own kernels in it, and each kernel's distance from the roof tells you what to change.
#
# **You will be able to**
#
# - measure peak arithmetic, bandwidth and latency, and read the sizes of the caches from a curve;
# - compute arithmetic intensity from counted operations and bytes, and predict the time of a kernel;
# - explain by counted cache misses why one order of loops is ten times faster than another;
# - block a loop for a cache and for registers;
# - judge a change of a network layer by operations *and* bytes.
#
# **You need** matrix products, and loops in C at reading level; [06_pagerank_cpu_vs_gpu](06_pagerank_cpu_vs_gpu.ipynb) for section 4. *Time:* 75 minutes, of which the machine works for less than three. *Cores:* one is enough, and a C compiler. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | unit |
# |---|---|---|
# | $\pi$ | peak performance | flop/s (floating-point operations a second) |
# | $\beta$ | [bandwidth](glossary.md#bandwidth) | bytes/s |
# | $I$ | [arithmetic intensity](glossary.md#arithmetic-intensity): operations ÷ bytes moved | flop/byte |
# | $P$ | performance | flop/s |
# | $f$ | clock frequency | Hz |
# | $w$ | lanes: numbers in one register | |
# | $n$ | side of a matrix | |

# %% tags=["parameters"]
from dataclasses import dataclass

import ipywidgets as widgets
import matplotlib.pyplot as plt
import numpy as np

from helpers.exercises import roofline as check
from helpers.plots import roofline as draw
from helpers.plots import style
from helpers.timing import measure, seconds


@dataclass(frozen=True)
class Parameters:
    n: int = 384  # side of the matrices, fp32
    image: int = 2048  # side of the image for the convolutions in C
    small: int = 24  # side of the matrices in the simulated cache
    seed: int = 0


P = Parameters()
style.use()

# %% [markdown]
# ## Where this ends
#
# The next cell measures this machine for under a minute (once; the result is kept) and draws its roofline with three kernels in it: two that multiply matrices and do exactly the same operations, and one that adds two arrays. By the end you can say of each why it hangs where it does, and which of them could be made faster.

# %%
from helpers.roofline import kernels, place
from helpers.roofline.ceilings import ceilings
from helpers.roofline.matmul import flops, least_bytes, versions

machine = ceilings()
peaks = {"peak fp32": machine.peak("float32")}
roofs = {"memory": machine.bandwidth("memory", "read")}
rng = np.random.default_rng(P.seed)
a, b = (rng.random((P.n, P.n), dtype=np.float32) for _ in range(2))
first = [place(*kernels.axpy(), time_limit=1)]
for name in ("ijk", "library"):
    multiply = versions(P.n)[name]
    first.append(
        place(f"matmul, {name}", lambda f=multiply: f(a, b), flops(P.n), least_bytes(P.n),
              time_limit=1)
    )  # fmt: skip
draw.roofline(peaks, roofs, first)
plt.show()

# %% [markdown]
# ## 1. The ceilings
#
# Every figure of this section was measured just now, by small programs in C that your compiler has built: chains of multiplications and additions for the peak; reading, copying and $a = b + s c$ (**triad**) for bandwidth; and for latency a **pointer chase**, where each load yields the address of the next. On a busy machine the best of several samples counts, and the spread tells how busy it was.

# %%
print(machine.machine, f"at {machine.frequency / 1e9:.2f} GHz, measured")
print(f"{machine.date}, in {machine.seconds:.0f} s; skipped: {machine.skipped or 'nothing'}")

# %% [markdown]
# ### Peak: theory beside measurement
#
# A processor starts a fixed number of vector instructions in each cycle. With $w$ lanes, two units and FMA (multiply and add in one instruction, counted as two operations)
#
# $$\pi = f \cdot w \cdot 2 \cdot 2 .$$
#
# The source computes 243 Gflop/s for a core of the Xeon 8180M from $f = 3.8$ GHz and $w = 16$. That takes the frequency from a label, and no core holds the turbo frequency under full AVX-512 load on all cores: measure $f$. *Predict: how many operations does one core of your machine finish in a cycle?*

# %%
print(f"{'':8} {'dtype':8} {'lanes':>5} {'FMA':>4} {'Gflop/s':>8} {'theory':>7} {'flop/cycle':>11}")
for row in machine.theory():
    print(
        f"{row['isa']:8} {row['dtype']:8} {row['lanes']:5} {'yes' if row['fma'] else 'no':>4} "
        f"{row['measured'] / 1e9:8.1f} {row['theory'] / 1e9:7.1f} {row['per_cycle']:11.1f}"
    )
for dtype in ("float32", "float64"):
    print(f"{dtype}, best of 1 to {machine.cores} cores: {machine.peak(dtype) / 1e9:.0f} Gflop/s")

# %% [markdown]
# The narrow instruction sets waste most of the machine: a scalar loop leaves all lanes but one idle. Where a row without FMA still reaches its theory, the processor has separate units for multiplications and additions. On a machine shared with others, several cores together fall short: the neighbours take their part. One thread is timed by its own processor time, which leaves waiting out.

# %% [markdown]
# ### Latency: finding the caches
#
# A [cache](glossary.md#cache) keeps near the processor what was used lately. A small working set lives in the first, a larger one in the second, and so on; the time of a load tells which.
#
# *Predict: how many times longer does a load from memory take than one from the first cache?*

# %%
draw.latency(machine.latency, machine.found, machine.reported)
plt.show()
for k, level in enumerate(machine.found, 1):
    cycles = level["seconds"] * machine.frequency
    ends = f"up to {level['capacity'] / 1024:.0f} KiB" if level["capacity"] < 1e12 else "and beyond"
    print(f"plateau {k}: {level['seconds'] * 1e9:6.1f} ns, {cycles:4.0f} cycles, {ends}")
print("the system says:", [f"L{c['level']} {c['size'] // 1024} KiB" for c in machine.reported])

# %% [markdown]
# Each step of the staircase is a cache that has become too small. The last cache often looks smaller than reported: it is shared with other cores, on a cloud machine with strangers, and the tables that translate addresses run out as well.
#
# A cache moves whole **[lines](glossary.md#cache-line)**. Touch a second word $s$ bytes behind a first: while it lies in the same line it is free. And a line may only go into one small **set** of the cache, whose number is part of its address. Addresses a large power of two apart fall into the same set; one more than it has **[ways](glossary.md#associativity)**, and they throw each other out.

# %%
print(
    "line:",
    machine.line,
    "bytes; the system says",
    machine.reported[:1] and machine.reported[0]["line"],
)
print(
    "ways of L1:",
    machine.ways,
    "; the system says",
    machine.reported[:1] and machine.reported[0]["ways"],
)

# %% [markdown]
# The source's example: 32 KiB, 8 ways, lines of 64 bytes. Offset $\log_2 64 = 6$ bits; sets $32768 / 64 / 8 = 64$, so 6 bits of index. Together 12 bits, exactly the offset in a page of 4 KiB: the set is known before the address is translated. (None is printed where neighbours blurred the curve; measure again with `ceilings(again=True)`.)
#
# *What breaks here*: an earlier version of this measurement said 128 bytes on a processor with lines of 64. Its places lay 1152 bytes apart, an even number of lines, so that all of them fell into half of the sets; a second word one line further found the other half empty, and came for free. The places are now 320 bytes apart, an odd number of lines, in a working set between the first and the second cache: there, no prefetch from memory can make a second line look like the first.

# %% [markdown]
# ### Bandwidth

# %%
counts = sorted({1, machine.cores})  # threads
fig, axes = plt.subplots(1, len(counts), figsize=(6 * len(counts), 4.5), sharey=True, squeeze=False)
for ax, threads in zip(axes[0], counts, strict=True):
    draw.bandwidths(machine.bandwidths, threads=threads, ax=ax)
plt.show()

# %% [markdown]
# Bytes are counted as the program asks for them: 24 for each double of the triad (two read, one written). Before a line is written, most processors first fetch it (**[write-allocate](glossary.md#write-allocate)**); memory then moves 32. We do not count that, as STREAM does not, so a triad shows less than reading does.

# %% [markdown]
# ## 2. The roof
#
# A kernel that does $I$ operations for each byte it moves cannot be faster than the bytes arrive, nor than the arithmetic:
#
# $$P = \min(\pi, \; \beta I)$$
#
# Both ceilings meet at the **[ridge](glossary.md#ridge-point)**, $I = \pi / \beta$. Left of it, more arithmetic is free and only fewer bytes help; right of it, bytes are free.
#
# By hand, for $\pi = 100$ Gflop/s and $\beta = 20$ GB/s (ridge 5 flop/byte): a dot product does 2 operations for 8 bytes, $I = 0.25$, so $P \le 5$ Gflop/s, a twentieth of the peak. Nobody's fault: it is the roof.
#
# ### Exercise 1: predict before you measure
#
# *Difficulty ●○○, 5 minutes.* Return the least number of seconds in which a kernel of so many operations and bytes can finish.
#
# <details><summary>Hint</summary>
#
# Arithmetic and transfers go on at the same time: which of the two ends last?
#
# </details>


# %% exercise="predict-point"
def least_seconds(flops, bytes, peak, bandwidth):
    """Seconds at the least: flop, bytes, flop/s, bytes/s."""
    # BEGIN SOLUTION
    return max(flops / peak, bytes / bandwidth)
    # END SOLUTION


# %% check="predict-point" points=2
check.predict_point(least_seconds)

# %% [markdown]
# ### Kernels under it
#
# Operations and bytes are counted by hand in `helpers/roofline/kernels.py`: every input read once, every output written once.

# %%
points = [place(*builder(), time_limit=1.0) for builder in kernels.standard()]
print(
    f"{'':12} {'flop/byte':>9} {'Gflop/s':>8} {'GB/s':>6} {'roof':>6} {'predicted':>10} {'measured':>10}"
)
for p in points:
    bound = max(p.flops / peaks["peak fp32"], p.bytes / roofs["memory"])
    share = p.share(peaks["peak fp32"], roofs["memory"])
    print(
        f"{p.name:12} {p.intensity:9.2f} {p.performance / 1e9:8.2f} {p.bandwidth / 1e9:6.1f} "
        f"{share:5.0%} {seconds(bound):>10} {seconds(p.seconds):>10}"
    )

# %% [markdown]
# `unfused` and `fused` compute the same $\max(s x + z, 0) \cdot w$. NumPy makes four passes and writes three intermediate arrays; one loop in C reads each array once. The operations are the same; **fusion saves bytes**, and the time follows the bytes.
#
# Point at a circle for its figures; type operations, bytes and seconds to add a kernel of your own:

# %%
roofs |= {level: machine.bandwidth(level, "read") for level in machine.levels if level != "memory"}
draw.interactive(peaks, roofs, points)

# %% [markdown]
# A point above memory's roof is no miracle: its data came from a cache, whose roof is higher.

# %% [markdown]
# ## 3. Swap two loops
#
# The source multiplies matrices with three loops and asks what happens when the inner two are swapped:
#
# ```c
# for (i) for (j) for (k)  c[i][j] += a[i][k] * b[k][j];     /* ijk */
# for (i) for (k) for (j)  c[i][j] += a[i][k] * b[k][j];     /* ikj */
# ```
#
# The operations are the same, $2n^3$, and so is the result. *Predict the ratio of the times.*

# %%
from threadpoolctl import threadpool_limits

products, reference = versions(P.n), a @ b
spent = {}
for name, multiply in products.items():
    assert np.allclose(multiply(a, b), reference, rtol=1e-3), name
    with threadpool_limits(1):  # the library too works on one core
        spent[name] = measure(lambda f=multiply: f(a, b), repeats=5, time_limit=1.5).best
for name, time_ in sorted(spent.items(), key=lambda pair: -pair[1]):
    print(f"{name:8} {flops(P.n) / time_ / 1e9:7.2f} Gflop/s  {spent['ijk'] / time_:6.1f} × ijk")

# %% [markdown]
# Memory is a single row of bytes; a matrix is laid out in it row after row. The step from $a_{ik}$ to $a_{i,k+1}$ is one element, from $b_{kj}$ to $b_{k+1,j}$ a whole row: another line each time, of which 4 of 64 bytes are used.
#
# ### Exercise 2: find the order
#
# *Difficulty ●●○, 10 minutes.* For each choice of the **inner** loop, give the steps of A, B and C in elements: 0 (stays), 1 (the neighbour) or `"n"` (a row further). Which inner loop has no `"n"`?
#
# <details><summary>Hint</summary>
#
# A is indexed by i and k. If the inner loop is j, A stays where it is.
#
# </details>

# %% exercise="strides"
strides = None  # replace None: {"i": (A, B, C), "j": (...), "k": (...)}
# BEGIN SOLUTION
strides = {"i": ("n", 0, "n"), "j": (0, 1, 1), "k": (1, "n", 0)}
# END SOLUTION

# %% check="strides" points=2
check.strides(strides)

# %% [markdown]
# ### Count the misses
#
# A cache small enough to watch: lines, sets, and the line that was not used for the longest time leaves. Move the slider through the accesses of a tiny product; blue is in the cache, orange a hit, red a miss.

# %%
from helpers.roofline.cache import ORDERS, Cache, count_misses


def look(order="ijk", size=512, line=32, ways=2, step=150):
    draw.cache_step(order, 8, Cache(size, line, ways), step)
    plt.show()


_ = widgets.interact(
    look,
    order=list(ORDERS),
    size=widgets.SelectionSlider(options=[256, 512, 1024], value=512, description="bytes"),
    line=widgets.SelectionSlider(options=[16, 32, 64], value=32),
    ways=widgets.SelectionSlider(options=[1, 2, 4], value=2),
    step=widgets.IntSlider(150, 0, 2048, 1, continuous_update=False),
)
# %%
tiny = {"size": 1024, "line": 64, "ways": 2}
counts = {order: count_misses(order, P.small, Cache(**tiny)) for order in ORDERS}
draw.misses(counts)
plt.show()
for order, one in counts.items():
    total = one["a"] + one["b"] + one["c"]
    print(
        f"{order}: {total:6d} misses in {one['accesses']} accesses, {total / one['accesses']:.1%}"
    )

# %% [markdown]
# Inner loop `j`: all steps are 0 or 1, one miss for 16 elements. Inner loop `i`: two matrices jump a row at each step. The orders come in three pairs, by their inner loop, in counts as in times. And `j` has a second advantage: neighbours in memory fill the lanes of a vector register.
#
# Is the simulation right? Valgrind's cachegrind counts the accesses of the compiled program itself, through a cache of the same shape:

# %%
from helpers.roofline import cachegrind

if cachegrind.available():
    for order in ("ijk", "ikj", "jki"):
        theirs = cachegrind.count_misses(order, P.small, **tiny)
        ours = sum(counts[order][m] for m in "abc")
        print(f"{order}: simulated {ours}, cachegrind {theirs['misses']}")
else:
    print("valgrind is not installed: skipped")

# %% [markdown]
# ### Blocks and tiles
#
# A product of two $n \times n$ matrices needs $2n^3$ operations on $3n^2$ numbers: $I = n/6$ flop/byte in fp32, far right of the ridge. The loops never get there, because a line leaves before its next use. **Blocked** loops work on tiles of side $t$ that fit the cache together; **register tiles** keep a piece of C in registers, so that a loaded number serves several operations.
#
# ### Exercise 3: choose a tile
#
# *Difficulty ●●○, 10 minutes.* Return the largest side $t$, a multiple of `multiple`, for which three $t \times t$ tiles fit into `cache` bytes, at `size` bytes an element.
#
# <details><summary>Hint</summary>
#
# $3 t^2 \cdot \text{size} \le \text{cache}$. Round down to a multiple.
#
# </details>


# %% exercise="choose-tile"
def tile(cache, size, multiple):
    """Side of the largest tile."""
    # BEGIN SOLUTION
    return int((cache / (3 * size)) ** 0.5) // multiple * multiple
    # END SOLUTION


# %% check="choose-tile" points=2
check.choose_tile(tile)

# %%
sides = (8, 16, 32, 48, 64, 96, 128, 192)
rates = []
for t in sides:
    multiply = versions(P.n, block=t)["blocked"]
    best = measure(lambda f=multiply: f(a, b), repeats=4, warmup=0, time_limit=1.0).best
    rates.append(flops(P.n) / best / 1e9)
answer = tile(machine.reported[0]["size"] if machine.reported else 32768, 4, 8)
fig, ax = plt.subplots()
ax.plot(sides, rates)
if answer:
    ax.axvline(answer, color=style.VERMILION, label="your tile for the first cache")
    ax.legend()
ax.set(xlabel="side of the tile", ylabel="Gflop/s", title="Blocked product")
plt.show()

# %%
from helpers.roofline import Point

placed = [Point(name, flops(P.n), least_bytes(P.n), time_) for name, time_ in spent.items()]
one_core = {"peak, one core": machine.peak("float32", 1)}
draw.roofline(one_core, {"memory": machine.bandwidth("memory", "read", 1)}, placed)
plt.show()

# %% [markdown]
# All nine stand at the same intensity, that of the algorithm; they differ in how far below the roof they hang. Reordering, blocking, register tiles: each step removes traffic between two levels of the hierarchy.

# %% [markdown]
# ## 4. Notebooks 05 and 06 under the roof
#
# ### Convolution
#
# The ladder of [notebook 05](05_cuda_tiling.ipynb) makes one result by four kernels. For a GPU it counted what the threads of each *ask for*; that count, here for $512 \times 512$ pixels and $5 \times 5$ weights, gives each rung an intensity of its own. The times of these four points are those of the program that imitates a GPU's threads on this processor, one after the other: they say what the imitation costs, and nothing about a GPU.
#
# The other points are programs for this processor: `direct`, written as rung 1 is; `rows`, whose sums stay in registers as those of the last rung do (both in `helpers/roofline/convolution.c`); SciPy; and PyTorch. Their bytes are what cannot be avoided, the image read once and the result written once.

# %%
from functools import partial

import torch
from scipy.ndimage import correlate

from helpers.cuda.ladder import RUNGS, Convolution
from helpers.roofline import convolution as conv

weights = rng.random((5, 5), np.float32)
small = rng.random((512, 512), np.float32)
ladder, rungs = Convolution(weights, device="cpu"), []
for rung in RUNGS:
    asked = ladder.record(small, rung, blocks=[]).requested_bytes(space="global")
    launch, given = ladder.launch(rung, small, np.empty_like(small))
    work = conv.flops(small.shape, 5)
    rungs.append(place(f"imitated {rung}", partial(launch, *given), work, asked, time_limit=1))
ladder.module.close()

# %%
image = rng.random((P.image, P.image), np.float32)
out, in_torch = np.empty_like(image), torch.from_numpy(image)[None, None]
kernel = torch.from_numpy(weights)[None, None]
calls = {way: partial(conv.convolver(way, weights), image, out) for way in conv.WAYS}
calls["SciPy"] = partial(correlate, image, weights, out, mode="constant")
calls["PyTorch"] = partial(torch.nn.functional.conv2d, in_torch, kernel, padding=2)
for name, call in calls.items():
    work, moved = conv.flops(image.shape, 5), conv.least_bytes(image.shape)
    rungs.append(place(name, call, work, moved, time_limit=1.5))
for p in rungs:
    share = p.share(peaks["peak fp32"], roofs["memory"])
    print(
        f"{p.name:18} {p.intensity:5.2f} flop/byte {p.performance / 1e9:7.2f} Gflop/s {share:5.0%}"
    )
draw.interactive(peaks, roofs, rungs)

# %% [markdown]
# At its least traffic this convolution does $2 \cdot 25$ operations for 8 bytes, more than most kernels here. `direct` and `rows` move the same bytes and do the same operations; what lies between them is the test at each pixel, which keeps the compiler from using vectors, and one load for each multiplication. The libraries pay for being general: any number of dimensions in SciPy, many channels in PyTorch. None of this changes the roof.
#
# ### PageRank
#
# The versions of [notebook 06](06_pagerank_cpu_vs_gpu.ipynb): two operations for each stored value, which is used once. Intensity is set by the storage alone.

# %%
from helpers.pagerank.graphs import random_links
from helpers.pagerank.versions import VERSIONS

graph, ranked = random_links(4000, 0.01), []
for name in ("scatter", "sparse", "dense", "dense_scaled", "csr", "bits"):
    version = VERSIONS[name](graph)
    x = version.out * 0 + 1 / graph.nodes
    work = 2 * (graph.nodes**2 if name.startswith(("dense", "bits")) else graph.edges)
    label = f"{version.number} {name}"
    ranked.append(place(label, lambda v=version, x=x: v.product(x), work, version.bytes_moved))
draw.interactive(peaks, roofs, ranked)

# %% [markdown]
# The dense version does a hundred times the operations of the sparse one to reach the same answer, most of them multiplications by zero. **The roofline ranks programs by speed per operation; what you wait for is time.** Look at both.

# %% [markdown]
# ## 5. Designing a layer
#
# The source lists what changes of a convolution layer save. Operations, parameters and bytes can be counted, and the time measured:

# %%
from helpers.roofline.design import Layer, shuffle, variants

base = Layer()
module, x = base.build()
base_time = measure(lambda: module(x), repeats=25, time_limit=1.5).best
print(
    f"{'':13} {'source':>8} {'flops':>8} {'params':>8} {'output':>7} {'bytes':>6} {'time':>6}   flop/byte"
)
for name, (layer, words, _) in variants(base).items():
    module, x = layer.build()
    spent_ = measure(lambda m=module, x=x: m(x), repeats=25, time_limit=1.5).best
    print(
        f"{name:13} {words:>8} {layer.flops / base.flops:8.4f} "
        f"{layer.parameters / base.parameters:8.4f} {layer.output / base.output:7.2f} "
        f"{layer.bytes / base.bytes:6.2f} {spent_ / base_time:6.2f} {layer.flops / layer.bytes:10.1f}"
    )
moved = measure(lambda: shuffle(x, 4), repeats=25, time_limit=1).best
print(f"shuffle: 0 operations, {seconds(moved)}, {moved / base_time:.2f} of the layer it serves")

# %% [markdown]
# Two lessons. The table's $1/g^2$ for groups is one power too many: with $g$ groups each of the same $C$ output channels sees $C/g$ inputs, so operations and parameters both shrink by $1/g$. And **time does not follow operations**: the depthwise layer does 1/128 of them at a fraction of the intensity, so it stands left of the ridge, where only bytes count. The channel shuffle, free by operations, costs real time.

# %% [markdown]
# ### What breaks: a benchmark without a result
#
# A compiler removes work whose result nobody uses. The same sum, used and not used:

# %%
from ctypes import c_double, c_int64

from helpers import native

text = """#include <stdint.h>
double used(int64_t n) { double s = 0; for (int64_t i = 0; i < n; i++) s += 1.0 / (i + 1); return s; }
void unused(int64_t n) { double s = 0; for (int64_t i = 0; i < n; i++) s += 1.0 / (i + 1); }"""
library = native.load_c(text)
library.used.argtypes, library.used.restype = (c_int64,), c_double
library.unused.argtypes, library.unused.restype = (c_int64,), None
for name, function in (("used", library.used), ("unused", library.unused)):
    timing = measure(lambda f=function: f(3_000_000), repeats=3, time_limit=2)
    print(f"{name:7} {seconds(timing.best):>8}: {3e6 / timing.best / 1e9:.3g} Gadditions/s")

# %% [markdown]
# ## 6. A GPU's roof
#
# The same picture for a GPU comes from a record that `make gpu` wrote on a machine with one.

# %%
from helpers.roofline.report import gpu_roof

name, gpu_peaks, gpu_bands = gpu_roof()
print(name)
if gpu_peaks:
    draw.roofline(gpu_peaks, gpu_bands)
    plt.show()

# %% [markdown]
# ## What the sources say, what we measured
#
# | row | the source says | here |
# |---|---|---|
# | D8 | L1 4 cycles, L2 10, L3 40 and more, memory 60-100 ns (a Xeon of 2009) | section 1: the staircase of this machine, in ns and cycles |
# | D9 | peak = frequency × width × instructions per cycle, FMA counted twice | holds, with the *measured* frequency; the label's turbo frequency overstates it |
# | D10 | swap the j and k loops | section 3: explained by counted misses; blocking and register tiles go as far again |
# | D12 | groups: computation $1/g^2$ | counted: $1/g$; the other factors hold; times do not follow them |
# | D13 | $P = \min(\pi, \beta I)$ | section 2; kernels above memory's roof run from a cache |
#
# ## Summary
#
# - Count operations and bytes before you optimise; their ratio says which of the two to reduce.
# - Caches reward neighbours and soon-again; loops can be reordered, blocked and fused to give them that.
# - Fewer operations are not less time.
#
# **In practice**: Intel Advisor and `likwid-perfctr` (roofline from hardware counters), NVIDIA Nsight Compute (for GPUs), STREAM (bandwidth); OpenBLAS, oneDNN and `torch.compile` do the blocking and fusing.
#
# **References**: Williams, Waterman, Patterson, *Roofline* (CACM, 2009): the model. McCalpin, *STREAM* (1995): the byte convention. Goto, van de Geijn, *Anatomy of high-performance matrix multiplication* (2008): the tiles. Ostrovsky, *Gallery of processor cache effects* (2010): experiments. Drepper, *What every programmer should know about memory* (2007): everything else.
#
# **Next**: [notebook 08](08_allreduce_animation.ipynb): what messages between machines cost.
