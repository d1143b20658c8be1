# %% [markdown]
# # Measure what this machine can do, and see what limits your code
#
# In this notebook you draw one picture of your machine, its [roofline](glossary.md#roofline), and place your own kernels in it. Each kernel's distance from the roof tells you what to change.
#
# **You will be able to**
#
# - measure peak arithmetic, bandwidth and latency, and read the sizes of the caches from a curve;
# - compute arithmetic intensity from counted operations and bytes, and predict the time of a kernel;
# - separate the reasons why one loop order is ten times faster than another: cache misses, dependent additions, vector instructions;
# - write a matrix product in C that keeps its sums in registers;
# - say from which batch size on arithmetic limits a layer, how the number format changes that, and judge a change of a layer by operations *and* bytes.
#
# **You need** matrix products, and loops in C at reading level; [06_pagerank_cpu_vs_gpu](06_pagerank_cpu_vs_gpu.ipynb) for the section on [notebooks 05 and 06](#Notebooks-05-and-06-under-the-roof). *Time:* 190 minutes, of which the machine works for less than three. *Cores:* one is enough, and a C compiler. *GPU:* none.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | unit |
# |---|---|---|
# | $\pi$ | peak performance | flop/s (floating-point operations per second) |
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
from helpers.predictions import Prediction
from helpers.timing import measure, seconds


@dataclass(frozen=True)
class Parameters:
    n: int = 384  # side of the matrices, fp32
    large: int = 1152  # side of those that blocks are for
    image: int = 2048  # side of the image for the convolutions in C
    small: int = 24  # side of the matrices in the simulated cache
    seed: int = 0


P = Parameters()
style.use()

# %% [markdown]
# ## Where this ends
#
# The next cell measures this machine for less than a minute (once; the result is kept) and draws its roofline with three kernels. Two multiply matrices and do exactly the same operations; one adds two arrays. At the end you can say why each kernel stands where it does, and which could be faster.

# %%
from helpers.roofline import kernels, place
from helpers.roofline.ceilings import ceilings, thread_counts
from helpers.roofline.matmul import flops, least_bytes, versions

machine = ceilings()
threads_tried = thread_counts(machine.cores)  # one alone where the compiler has no OpenMP
peaks, roofs = {}, {}
for k in threads_tried:  # a kernel is held against the roof of as many threads as it uses
    words = f"{k} thread" + "s" * (k > 1)
    peaks[f"fp32, {words}"], roofs[f"memory, {words}"] = machine.roof(k)
rng = np.random.default_rng(P.seed)
a, b = (rng.random((P.n, P.n), dtype=np.float32) for _ in range(2))
first = [place(*kernels.axpy(), time_limit=1)]
for name in ("ijk", "library"):
    multiply = versions(P.n)[name]
    first.append(
        place(f"matmul, {name}", lambda f=multiply: f(a, b), flops(P.n), least_bytes(P.n),
              machine.cores if name == "library" else 1, time_limit=1)
    )  # fmt: skip
draw.roofline(peaks, roofs, first)
plt.show()

# %% [markdown]
# ## The ceilings
#
# Small C programs, built by your compiler, measured every figure of this section on this machine (at most three hours ago). Chains of multiplications and additions measure the peak. Reading, copying and the **triad** $a = b + s c$ measure bandwidth. A **pointer chase**, in which each load yields the address of the next, measures latency. We keep the best of several samples, since disturbances only lower a rate. Impossible rates (a first-level cache slower than the second) are measured again, and dropped if they persist.

# %%
print(machine.machine, f"at {machine.frequency / 1e9:.2f} GHz, measured")
print(f"{machine.date}, in {machine.seconds:.0f} s; left out: {machine.skipped or 'nothing'}")
print(
    f"the middle sample was {machine.disturbed:.0%} below the best: that is how noisy the samples were"
)

# %% [markdown]
# ### Peak: theory and measurement
#
# A processor starts a fixed number of vector instructions in each cycle. With $w$ lanes, two units and FMA (multiply and add in one instruction, counted as two operations),
#
# $$\pi = f \cdot w \cdot 2 \cdot 2 .$$
#
# SSE, AVX2 and AVX-512 have registers of 128, 256 and 512 bits (NEON on ARM has 128), so $w$ is 4, 8 and 16 in fp32. The number of units depends on the processor: the first ones with AVX-512 have one or two such units, and some run a 512-bit instruction as two halves.
#
# The source computes 243 Gflop/s for a core of the Xeon 8180M from $f = 3.8$ GHz and $w = 16$. This frequency comes from a label, and it is the *turbo* frequency, which a core runs at only for a while and while other cores idle. Measure $f$ instead.
#
# *Predict: how many fp32 operations does one core of your machine finish in a cycle?* Type your number; the table answers.

# %%
per_cycle = Prediction("fp32 operations of one core in a cycle", None)  # your number for None

# %%
print(f"{'':8} {'dtype':8} {'lanes':>5} {'FMA':>4} {'Gflop/s':>8} {'theory':>7} {'flop/cycle':>11}")
for row in machine.theory():
    print(
        f"{row['isa']:8} {row['dtype']:8} {row['lanes']:5} {'yes' if row['fma'] else 'no':>4} "
        f"{row['measured'] / 1e9:8.1f} {row['theory'] / 1e9:7.1f} {row['per_cycle']:11.1f}"
    )
per_cycle.answer(max(row["per_cycle"] for row in machine.theory() if row["dtype"] == "float32"))
for dtype in ("float32", "float64"):
    print(f"{dtype}, best of 1 to {machine.cores} cores: {machine.peak(dtype) / 1e9:.0f} Gflop/s")

# %% [markdown]
# Scalar loops and narrow instruction sets waste most of the machine: a scalar loop uses one lane and leaves the others idle. The column *theory* assumes two units with FMA in every row. On a machine that you share with others, several cores together may reach less than their number times one core. (One thread is timed by its own processor time, which does not count waiting for a core.)
#
# ### Exercise 1: how many units?
#
# *Difficulty ●○○, 5 minutes.* From the measured peak of a row, compute how many vector instructions the core starts in a cycle; do not round.
#
# <details><summary>Hint</summary>
#
# Solve the formula above for the number of units. Without FMA an instruction counts as one operation per lane.
#
# </details>


# %% exercise="fma-units"
def units(flops, frequency, lanes, fma):
    """Instructions started in a cycle: flop/s, Hz, lanes of a register, whether it is FMA."""
    # BEGIN SOLUTION
    return flops / frequency / lanes / (2 if fma else 1)
    # END SOLUTION


# %% check="fma-units" points=1
check.fma_units(units)

# %%
for row in machine.theory():
    started = units(row["measured"], machine.frequency, row["lanes"], row["fma"])
    print(f"{row['isa']:8} {row['dtype']:8}", "–" if started is None else f"{started:.2f} a cycle")

# %% [markdown]
# The theory assumes two. One for AVX-512 means that this processor joins its two narrower units into one, or has a single wide one. AVX-512 then computes as much as AVX2, and the formula with two units overestimates by two. Two in a row *without* FMA means one unit that multiplies and one that adds; nearly four means two of each.

# %% [markdown]
# ### Latency: finding the caches
#
# A [cache](glossary.md#cache) keeps recently used data near the processor. A small working set fits into the first-level cache, a larger one into the second, and so on. The time of a load tells which.
#
# *Predict: how many times longer does a load from memory take than one from the first-level cache?*

# %%
further = Prediction("time of a load from memory ÷ from the first cache", None)  # your number

# %%
draw.latency(machine.latency, ())
plt.show()

# %% [markdown]
# Read the curve before a program does: **at which working set, in KiB, does the first step begin, and at which the second?** Type both. The next cell draws them beside the course's own reading and what the system reports.

# %%
first_ends = Prediction("KiB in the first cache, read off the curve", None)  # your number for None
second_ends = Prediction("KiB in the second", None)

# %%
draw.latency(machine.latency, machine.found, machine.reported)
plt.show()
for said, level in zip((first_ends, second_ends), machine.found[:-1], strict=False):
    said.answer(level["capacity"] / 1024)
for k, level in enumerate(machine.found):
    cycles, ends, says = level["seconds"] * machine.frequency, "and beyond", ""
    if level["capacity"] < 1e12:
        ends = f"up to {level['capacity'] / 1024:.0f} KiB"
    if k < len(machine.reported):
        cache = machine.reported[k]
        says = f"; the system says L{cache['level']} {cache['size'] // 1024} KiB"
    print(f"plateau {k + 1}: {level['seconds'] * 1e9:6.1f} ns, {cycles:4.0f} cycles, "
          f"rises {level['rise']:.1f} times, {ends}{says}")  # fmt: skip
if machine.found:  # else too busy for a whole curve
    further.answer(machine.found[-1]["seconds"] / machine.found[0]["seconds"])

# %% [markdown]
# Each step of the staircase shows that a cache has become too small. We cut the curve into one plateau per cache that the system reports, plus one for memory. Where two steps run into each other, a plateau is a piece of a slope, and its time and end mean little. The column *rises* shows by what factor the time grows within the plateau (1.0 if it is flat). If your numbers and the list disagree, look at the picture again before you believe either. The last-level cache may look smaller than reported: other cores share it, on a cloud machine even strangers, and the tables that translate addresses are limited too. We did not isolate which of these causes it.
#
# A cache moves whole **[lines](glossary.md#cache-line)**. A second access $s$ bytes further on is nearly free if both lie in one line. A line may only go into one small **set** of the cache; part of the line's address is the number of the set. Addresses that are a large power of two apart fall into the same set. If there are more of them than the set has **[ways](glossary.md#associativity)**, they evict each other.

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
# The source's example has 32 KiB, 8 ways and lines of 64 bytes. The offset in a line takes $\log_2 64 = 6$ bits. There are $32768 / 64 / 8 = 64$ sets, so the set takes 6 bits. Together these are 12 bits, exactly the offset in a page of 4 KiB. Tables translate a program's addresses into those of the memory page by page, and the set is known before the translation. (The cell prints none if other programs blurred the curve; then measure again with `ceilings(again=True)`.)
#
# The section on [swapped loops](#Swap-two-loops) shows what happens to addresses that a power of two separates.

# %% [markdown]
# ### Bandwidth

# %%
panels = {"figsize": (9, 3.6 * len(threads_tried)), "sharey": True, "squeeze": False}
fig, axes = plt.subplots(len(threads_tried), **panels)
for ax, threads in zip(axes[:, 0], threads_tried, strict=True):
    draw.bandwidths(machine.bandwidths, threads=threads, ax=ax)
plt.show()

# %% [markdown]
# We count the bytes that the program asks for: 24 for each double of the triad (two read, one written). Most processors first fetch a line before they write to it (**[write-allocate](glossary.md#write-allocate)**); memory then moves 32 bytes. STREAM, the usual benchmark of bandwidth, does not count this fetch, and neither do we. *Predict: in which levels does a triad show less bandwidth than reading?*

# %%
shows_less = Prediction("levels in which a triad shows less", None)  # "L1, memory", or "none"

# %%
less = []
for level in machine.levels:
    measured = {
        b["kind"]: b["rate"] for b in machine.bandwidths if (b["level"], b["threads"]) == (level, 1)
    }
    if not {"triad", "read"} <= set(measured):  # left out
        continue
    triad, read = measured["triad"], measured["read"]
    print(f"{level:6} triad ÷ reading, one thread: {triad / read:.2f}")
    less += [level] * (triad < read)
shows_less.answer(", ".join(less) or "none")

# %%
from helpers.claims import evidence

evidence("07-triad-read")

# %% [markdown] claims="07-triad-read 07-narrow-registers"
# The notebook's conclusions were measured on two processors that both call themselves *AMD EPYC*, and each table shows both records. The **older** has registers of 8 floats (AVX2) and 512 KiB of second-level cache for a core; the **newer** has registers of 16 floats (AVX-512) and 1 MiB. Where they disagree, the verdict is *depends on the processor*: yours may agree with either, or with neither.
#
# Here they disagree about memory. In the first-level cache, a triad shows a third more bandwidth than reading on the older processor, and nearly half more on the newer. From memory, it shows 5 % *more* on the older and 6 % less on the newer. So a single thread does not show everywhere that a triad gets less because of the write-allocate. The widest registers do eight times the work of a scalar loop in fp32 on the older, as many times as they have lanes. The newer has twice the lanes and reaches less than ten times; exercise 1 shows how many of its wide instructions start in a cycle.
#
# ### Exercise 2: what memory moves
#
# *Difficulty ●●○, 10 minutes.* STREAM measures four loops; a fifth is often forgotten:
#
# | loop | does, for each $i$ | arrays read | arrays written |
# |---|---|---|---|
# | copy | `a[i] = b[i]` | b | a |
# | scale | `a[i] = s * b[i]` | b | a |
# | add | `a[i] = b[i] + c[i]` | b, c | a |
# | triad | `a[i] = b[i] + s * c[i]` | b, c | a |
# | update | `a[i] = a[i] + s * b[i]` | a, b | a |
#
# The arrays are far larger than the caches: every line moves between memory and processor once each time it is read, fetched or written back. Return the bytes that memory moves for one $i$. `read` and `written` are tuples of the arrays' names, such as `("b", "c")` and `("a",)`, each name once. An element has `size` bytes. With `allocate`, the processor must have a line before it writes to it; without, it writes the line and never fetches it.
#
# <details><summary>Hint</summary>
#
# An array that is read costs one element, and an array that is written one more. Which written array has to be fetched only because it is written? Look at *update*.
#
# </details>


# %% exercise="moved-bytes"
def moved(read, written, size, allocate):
    """Bytes between memory and processor for one i: names read, names written, bytes, whether."""
    # BEGIN SOLUTION
    fetched = set(read) | set(written) if allocate else set(read)
    return size * (len(fetched) + len(written))
    # END SOLUTION


# %% check="moved-bytes" points=2
check.moved_bytes(moved)

# %% [markdown]
# The bars of memory once more: as the program counts, and as your function counts if this processor fetches each line before it writes to it. (The bars cannot tell whether it does: some instructions write without fetching, and a compiler or a library may use them.)

# %%
LOOPS = {"read": (("a",), ()), "copy": (("b",), ("a",)), "triad": (("b", "c"), ("a",))}
asked, fetched = [], []
for bar in machine.bandwidths:
    if bar["level"] == "memory":
        plain, more = (moved(*LOOPS[bar["kind"]], 8, allocate) for allocate in (False, True))
        said = "–"
        asked.append(bar | {"level": "as counted"})
        if check.moved_bytes.passed(moved):
            fetched.append(
                bar | {"level": "with lines fetched", "rate": bar["rate"] * more / plain}
            )
            said = f"{more} bytes moved for {plain}: {fetched[-1]['rate'] / 1e9:.1f} GB/s"
        print(f"{bar['kind']:5}, threads: {bar['threads']} {bar['rate'] / 1e9:6.1f} GB/s; {said}")
fig, axes = plt.subplots(len(threads_tried), **panels)
for ax, threads in zip(axes[:, 0], threads_tried, strict=True):
    draw.bandwidths(asked + fetched, threads=threads, ax=ax)
plt.show()

# %% [markdown]
# A read moves exactly the bytes that the program asked for, so both bars agree. A triad moves 24 bytes per element, or 32 if the processor first fetches the line that it is about to overwrite. Counting 32 instead of 24 raises the reported bandwidth by a third; for a copy it rises by half. **A bandwidth depends on the rule by which bytes were counted**: compare two figures only if the rule is the same. From here on the roof is the bandwidth of reading.

# %% [markdown]
# ## The roof
#
# A kernel that does $I$ operations for each byte it moves can be no faster than its bytes arrive, and no faster than the peak:
#
# $$P = \min(\pi, \; \beta I)$$
#
# Both ceilings meet at the **[ridge](glossary.md#ridge-point)**, $I = \pi / \beta$. Left of it, more arithmetic costs no time, and only fewer bytes help. Right of it, more bytes cost no time.
#
# An example by hand, with $\pi = 100$ Gflop/s and $\beta = 20$ GB/s (ridge at 5 flop/byte): a dot product does 2 operations for 8 bytes. So $I = 0.25$ and $P \le 5$ Gflop/s, a twentieth of the peak. No better code can change this: it is the roof.
#
# ### Exercise 3: predict before you measure
#
# *Difficulty ●○○, 5 minutes.* Return the least number of seconds in which a kernel with these operations and bytes can finish.
#
# <details><summary>Hint</summary>
#
# Arithmetic and transfers run at the same time: which ends last?
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
# ### Kernels under the roof
#
# `helpers/roofline/kernels.py` counts operations and bytes by hand: every input read once, every output written once.

# %%
points = [place(*builder(), time_limit=0.6) for builder in kernels.standard()]
print(
    f"{'':9} {'threads':>7} {'flop/byte':>9} {'Gflop/s':>8} {'GB/s':>6} {'roof':>5} {'predicted':>9} {'measured':>9}"
)
for p in points:
    roof = machine.roof(p.threads)
    predicted = least_seconds(p.flops, p.bytes, *roof)
    said = "–" if predicted is None else seconds(predicted)
    print(
        f"{p.name:9} {p.threads:7} {p.intensity:9.2f} {p.performance / 1e9:8.2f} "
        f"{p.bandwidth / 1e9:6.1f} {p.share(*roof):5.0%} {said:>9} {seconds(p.seconds):>9}"
    )

# %% [markdown] claims="07-fusion 07-softmax 07-gru-step"
# The column *predicted* is your `least_seconds`, with the roof of as many threads as the kernel uses. (Under the roof of one thread, a `dot` on two threads would seem far too fast.)
#
# **Fusion saves bytes.** `unfused`, `passes` and `fused` compute the same $\max(s x + z, 0) \cdot w$. NumPy (`unfused`) makes four passes on one thread and three new arrays. `passes` makes the same four passes in C, on all threads, with one array between them. `fused` is one loop. From `passes` to `fused` only the number of passes changes, and 40 bytes per element become 16. On one thread, four passes take 2.05 to 2.25 times as long as one pass from memory, and 1.7 to 1.9 times from the second-level cache. Bytes alone would predict 2.5.
#
# Three other kernels stand apart.
#
# - `softmax` reads and writes as much as one pass over the array, and takes two to three times as long as a product that moves the same bytes (four times from a cache). So bytes do not limit it. We count *exp*, which takes many instructions, as one operation.
# - `GRU step` reaches 0.5 to 0.65 of the performance of one matrix product with as many operations at a batch of 32 and 128 units, and six sevenths at 256 and 512. It consists of two products, four passes over the gates, and function calls; we did not isolate their shares.
# - The 3 × 3 convolution has the intensity of a matrix product: a loaded weight serves all pixels, and a loaded pixel all channels.
#
# Point at a circle for its figures. Type operations, bytes and seconds to add a kernel of your own:

# %%
draw.interactive(peaks, roofs | machine.cache_roofs(), points)

# %% [markdown]
# A point above memory's roof is no mistake by itself. Its data may come from a cache, whose roof is higher; or the roof belongs to another number of threads.

# %% [markdown]
# ## Swap two loops
#
# The source multiplies matrices with three loops, and asks what happens if you swap the inner two:
#
# ```c
# for (i) for (j) for (k)  c[i][j] += a[i][k] * b[k][j];     /* ijk */
# for (i) for (k) for (j)  c[i][j] += a[i][k] * b[k][j];     /* ikj */
# ```
#
# The operations are the same, $2n^3$, and so is the result. *Predict the ratio of the times*, ijk ÷ ikj.

# %%
swap = Prediction("time of ijk ÷ time of ikj", None)  # your number for None

# %%
from threadpoolctl import threadpool_limits

products, reference = versions(P.n), a @ b
spent = {}
for name, multiply in products.items():
    assert np.allclose(multiply(a, b), reference, rtol=1e-3), name
    with threadpool_limits(1):  # the library too works on one core
        spent[name] = measure(lambda f=multiply: f(a, b), repeats=5, time_limit=1.0).best
for name, time_ in sorted(spent.items(), key=lambda pair: -pair[1]):
    print(f"{name:8} {flops(P.n) / time_ / 1e9:7.2f} Gflop/s  {spent['ijk'] / time_:6.1f} × ijk")
swap.answer(spent["ijk"] / spent["ikj"])

# %% [markdown]
# Memory is one long row of bytes, and a matrix lies in it row after row. From $a_{ik}$ to $a_{i,k+1}$ is a step of one element. From $b_{kj}$ to $b_{k+1,j}$ is a step of a whole row: another line each time, of which the loop uses 4 of 64 bytes. Is this why ijk is slower? It is one of three suspects; this section separates them.
#
# ### Exercise 4: find the order
#
# *Difficulty ●●○, 10 minutes.* For each choice of the **inner** loop, give the steps of A, B and C in elements: 0 (stays), 1 (to the neighbour) or `"n"` (to the next row). Which inner loop has no `"n"`? Give its name as `free`.
#
# <details><summary>Hint</summary>
#
# A is indexed by i and k. If the inner loop is j, A stays where it is.
#
# </details>

# %% exercise="strides"
strides = None  # replace None: {"i": (A, B, C), "j": (...), "k": (...)}
free = None  # replace None: the name of the inner loop without a jump
# BEGIN SOLUTION
strides = {"i": ("n", 0, "n"), "j": (0, 1, 1), "k": (1, "n", 0)}
free = "j"
# END SOLUTION

# %% check="strides" points=2
check.strides(strides, free)

# %% [markdown]
# ### Count the misses
#
# Here is a cache small enough to watch. It has lines and sets, and evicts the least recently used line. Play the accesses of a tiny product, or move the slider. Blue is in the cache, a dot is a hit, a cross is a miss. Then set the line to 32 bytes, a whole row of these matrices: how does the difference between `ijk` and `ikj` change?

# %%
from helpers.roofline.cache import ORDERS, Cache, count_misses


def look(order="ijk", size=512, line=16, ways=2, step=150):
    draw.cache_step(order, 8, Cache(size, line, ways), step)
    plt.show()


play = widgets.Play(value=150, max=2048, step=8, interval=400)
slider = widgets.IntSlider(150, 0, 2048, 1, continuous_update=False)
widgets.jslink((play, "value"), (slider, "value"))
display(play)
_ = widgets.interact(
    look,
    order=list(ORDERS),
    size=widgets.SelectionSlider(options=[256, 512, 1024], value=512, description="bytes"),
    line=widgets.SelectionSlider(options=[16, 32, 64], value=16),
    ways=widgets.SelectionSlider(options=[1, 2, 4], value=2),
    step=slider,
)
# %%
for line in (16, 32):
    few = {o: sum(count_misses(o, 8, Cache(512, line, 2))[m] for m in "abc") for o in ORDERS}
    print(f"lines of {line} bytes, misses of the whole product: {few}")

# %% [markdown]
# With lines of 16 bytes, half a row, the orders differ. If a line holds a whole row, they hardly do. The same counts for a larger product and a larger cache:

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
# With inner loop `j`, all steps are 0 or 1: one miss for 16 elements. With inner loop `i`, two matrices move by a row in each step. The orders form three pairs by their inner loop, in counts as in times.
#
# Is the simulation right? Valgrind's cachegrind counts the accesses of the compiled program itself, in a cache of the same shape:

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
# ### Three suspects
#
# Three things change at once from `ijk` to `ikj`: cache misses, dependent additions, and vector instructions. Here we remove them one after another:
#
# | program | misses | additions | vectors |
# |---|---|---|---|
# | `ijk` | B moves by a row in each step | each waits for the one before: all go into one sum | no |
# | `ijk, B turned`: B is transposed first | steps of 1, 1 and 0 | each waits | no |
# | `ikj, one lane`: the compiler may not use vectors | the same as above | each goes into a sum of its own | no |
# | `ikj` | the same | the same | yes |
#
# *Predict: which of the three steps gains most?* Write `"misses"`, `"sum"` or `"vectors"`.

# %%
suspect = Prediction("the step that gains most", None)  # "misses", "sum" or "vectors"

# %%
from functools import partial

from helpers.roofline.cache import misses_per_step
from helpers.roofline.matmul import causes

first_cache = Cache.like(machine.reported[0]) if machine.reported else Cache()
order, turned = {"ijk": "ijk", "ijk, B turned": "ijk"}, {"ijk, B turned": True}
for n in (192, P.n, 512):
    x, y = (rng.random((n, n), dtype=np.float32) for _ in range(2))
    gains, before = {}, None
    for (name, multiply), gain in zip(
        causes(n).items(), ("", "misses", "sum", "vectors"), strict=True
    ):
        missed = misses_per_step(order.get(name, "ikj"), n, first_cache, name in turned, outer=16)
        time_ = measure(partial(multiply, x, y), repeats=3, time_limit=1.2).best
        gains[gain] = (before or time_) / time_
        before = time_
        beside = f"  {gains[gain]:5.2f} × the row above" if gain else ""
        print(f"n = {n}: {name:14} {missed:5.2f} misses a step",
              f"{flops(n) / time_ / 1e9:6.2f} Gflop/s{beside}")  # fmt: skip
    if n == P.n:
        suspect.answer(max(gains, key=gains.get))

# %% [markdown] claims="07-dependent-sum 07-vectors"
# In *this order*, vectors gain most: a factor of five to eight in the records. Independent additions gain 1.55 to 1.85. Removing misses gains little at most sizes. But this does not prove that misses are harmless, because the suspects work together: while every addition waits for the one before, a miss hides behind the wait. In the project below you remove the waiting first, and then misses matter. **If you remove causes one by one, each factor depends on the order.**

# %%
for claim in ("07-dependent-sum", "07-vectors", "07-power-of-two"):
    display(evidence(claim))

# %% [markdown] claims="07-power-of-two"
# A side that is a power of two can cost extra: the elements of a column then fall into few sets of the cache. On the older processor `ijk` takes 1.6 times as long per operation at 256 as at 272, and 1.8 times at 512 as at 528. On the newer it takes 1.6 times as long at 512, and at 256 we measured no difference.
#
# ### Blocks and tiles
#
# A product of two $n \times n$ matrices does $2n^3$ operations on $3n^2$ numbers: $I = n/6$ flop/byte in fp32, far right of the ridge. This counts each number as read once. But three loops read it again and again, from any cache that still holds it. **Blocked** loops work on tiles of side $t$ that fit into the cache together. **Register tiles** keep a piece of C in registers, so that a loaded number serves several operations.
#
# ### Exercise 5: choose a tile
#
# *Difficulty ●●○, 10 minutes.* Return the largest side $t$, a multiple of `multiple`, for which three $t \times t$ tiles fit into `cache` bytes. An element has `size` bytes.
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
sides, rates = (16, 32, 48, 96, 192, 256, 384, 768), []
large = [rng.random((P.large, P.large), dtype=np.float32) for _ in range(2)]
for t in (*sides, None):  # None: not blocked
    made = versions(P.large, block=t or 1)
    multiply = made["blocked" if t else "ikj"]
    best = measure(lambda f=multiply: f(*large), repeats=2, warmup=0, time_limit=1.5).best
    rates.append(flops(P.large) / best / 1e9)
fig, ax = plt.subplots()
ax.plot(sides, rates[:-1], label="blocked")
ax.axhline(rates[-1], color=style.GREY, linestyle="--", marker="", label="ikj, not blocked")
for cache, line in zip(machine.reported[:2], ("-", ":"), strict=False):
    if answer := tile(cache["size"], 4, 8):
        ax.axvline(answer, color=style.VERMILION, linestyle=line,
                   label=f"your tile for L{cache['level']}: {answer}")  # fmt: skip
ax.set(xlabel="side of the tile", ylabel="Gflop/s", xscale="log", ylim=(0, None),
       title=f"Blocked product, n = {P.large}")  # fmt: skip
ax.set_xticks(sides, sides)
ax.set_xticks([], minor=True)
ax.legend(loc="lower left", bbox_to_anchor=(1, 0))
plt.show()

# %% [markdown] claims="07-tile-too-large 07-register-tile"
# In your plot, compare the blocked product with the line of `ikj`. At $n = 2304$ B takes 21 MB, more than the second-level cache holds, and blocks pay. (Part of the gain comes from the compiler: `blocked` promises by `restrict` that the matrices do not overlap, and `ikj` does not.) Then compare the tile for the first-level cache with the tile for the second. In the records, tiles twice too wide for the second-level cache take 16 to 45 % longer. Sums in registers gain a factor of three to four over blocks, at $n = 384$ and at 768.

# %%
for claim in ("07-tile-too-large", "07-register-tile"):
    display(evidence(claim))

# %%
from helpers.roofline import Point

placed = [Point(name, flops(P.n), least_bytes(P.n), time_) for name, time_ in spent.items()]
one_core, one_memory = machine.roof(1)
draw.roofline({"peak, one core": one_core}, {"memory": one_memory}, placed)
plt.show()

# %% [markdown]
# All nine have the same intensity, that of the algorithm. They differ in their distance from the roof.
#
# ### Exercise 6, a project: your own product
#
# *Difficulty ●●●, 40 minutes.* Write `void multiply(int64_t n, const float *a, const float *b, float *c)` in C: $C = AB$ for row-major matrices whose side is a multiple of 48; `c` holds zeros at the call. It may take at most four fifths of the time of `ikj`, compiled in the same way. It runs in a process of its own, so nothing is lost if it crashes.
#
# <details><summary>Hint 1</summary>
#
# `ikj` reads and writes a value of C for each operation. A tile of C, say 6 × 16, can stay in registers while `k` runs. Each loaded value of B then serves 6 rows, and each value of A 16 columns.
#
# </details>
# <details><summary>Hint 2</summary>
#
# An addition takes about four cycles, and two can start in each, so at least eight vectors of sums must be in progress. `typedef float row __attribute__((vector_size(32), aligned(4)));` is a vector of eight floats. `row sum[6][2] = {0};` is a tile of 6 × 16 that the compiler keeps in registers if all loops over it have fixed bounds.
#
# </details>

# %% exercise="own-product"
product = None  # replace None by your C, as a string
# BEGIN SOLUTION
product = """
typedef float row __attribute__((vector_size(32), aligned(4)));
void multiply(int64_t n, const float *a, const float *b, float *c) {
    for (int64_t i = 0; i < n; i += 6)
        for (int64_t j = 0; j < n; j += 16) {
            row sum[6][2] = {0};
            for (int64_t k = 0; k < n; k++)
                for (int r = 0; r < 6; r++)
                    for (int h = 0; h < 2; h++)
                        sum[r][h] += a[(i + r) * n + k] * *(const row *)(b + k * n + j + 8 * h);
            for (int r = 0; r < 6; r++)
                for (int h = 0; h < 2; h++) *(row *)(c + (i + r) * n + j + 8 * h) = sum[r][h];
        }
}
"""
# END SOLUTION

# %% check="own-product" points=5
check.own_product(product)

# %%
from helpers.roofline.own import ProductError, try_product

if product:
    try:
        mine = try_product(product, P.n)
        placed.append(Point("yours", flops(P.n), least_bytes(P.n), mine.seconds))
        print(
            f"yours: {flops(P.n) / mine.seconds / 1e9:.1f} Gflop/s, {mine.seconds / mine.rival:.2f} of ikj"
        )
    except ProductError as error:
        print(error)
draw.interactive({"peak, one core": one_core}, {"memory": one_memory}, placed)

# %% [markdown]
# ## Notebooks 05 and 06 under the roof
#
# ### Convolution
#
# [Notebook 05](05_cuda_tiling.ipynb) computes one convolution with three kernels, each of which moves fewer bytes than the one before. Here are programs for this processor. `direct` is written as the first of them. `untested` is the same, but tests for the border only at the border. `rows` keeps its sums in registers, as `convolve_rows` of [notebook 14](14_cuda_bytes_and_shapes.ipynb) does. (All three are in `helpers/roofline/convolution.c`.) SciPy and PyTorch are beside them. Bytes are the minimum: the image read once and the result written once.

# %%
import torch
from scipy.ndimage import correlate

from helpers.roofline import convolution as conv

weights, rungs = rng.random((5, 5), np.float32), []
# %%
image = rng.random((P.image, P.image), np.float32)
out, in_torch = np.empty_like(image), torch.from_numpy(image)[None, None]
kernel = torch.from_numpy(weights)[None, None]
calls = {way: partial(conv.convolver(way, weights), image, out) for way in conv.WAYS}
calls["SciPy"] = partial(correlate, image, weights, out, mode="constant")
calls["PyTorch"] = partial(torch.nn.functional.conv2d, in_torch, kernel, padding=2)
for name, call in calls.items():
    work, moved = conv.flops(image.shape, 5), conv.least_bytes(image.shape)
    threads = {"SciPy": 1, "PyTorch": machine.cores}.get(name, threads_tried[-1])
    rungs.append(place(name, call, work, moved, threads, time_limit=1.5))
for p in rungs:
    share = p.share(*machine.roof(p.threads))
    print(
        f"{p.name:9} {p.intensity:5.2f} flop/byte {p.performance / 1e9:7.2f} Gflop/s {share:5.0%}"
    )
draw.interactive(peaks, roofs, rungs)

# %% [markdown] claims="07-border-test 07-sums-in-registers"
# With the minimum of bytes, this convolution does $2 \cdot 25$ operations for 8 bytes, more than most kernels here. `direct`, `untested` and `rows` move the same bytes and do the same operations. From `direct` to `untested` only the test for the border disappears: a factor of 5 to 8 for 3 × 3 weights, and 11 for 5 × 5. (Without the test the compiler can use vectors.) From `untested` to `rows`, each loaded pixel serves several sums: a factor of 1.2 for 5 × 5 on the older processor, and none on the newer. For 3 × 3 the compiler's own loop is the faster one on both. SciPy uses one thread.
#
# ### PageRank
#
# The versions of [notebook 06](06_pagerank_cpu_vs_gpu.ipynb) do two operations for each stored value, and use each value once. So the storage alone determines the intensity.

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

# %% [markdown] claims="07-dense-rate 07-dense-time"
# The dense version does a hundred times the operations of the sparse one for the same answer, most of them multiplications by zero. In the records it does 3 to 7 times the operations per second, and takes 14 to 35 times as long. **The roofline ranks programs by operations per second, but you wait for the result.** Look at both.
#
# ### Exercise 7: from which batch size on?
#
# *Difficulty ●●○, 15 minutes.* A layer multiplies a batch $x$ ($B \times n$) by weights ($n \times n$): $2Bn^2$ operations. $x$, the weights and the result move once. A weight takes `weight` bytes, and a number of $x$ or of the result `value` bytes (4 and 4 in fp32). Return the least $B$ at which the layer's intensity reaches `ridge` (flop/byte), or `math.inf` if none does.
#
# <details><summary>Hint</summary>
#
# Bytes: $n^2$ weights and $2Bn$ values. Solve $I \ge$ ridge for $B$ and round up. What happens to $I$ as $B$ grows without end?
#
# </details>

# %% exercise="compute-bound-batch"
import math


def batch(n, ridge, weight, value):
    """The least batch whose layer n → n is not held up by memory, or math.inf."""
    # BEGIN SOLUTION
    room = n - value * ridge
    return math.ceil(n * ridge * weight / (2 * room)) if room > 0 else math.inf
    # END SOLUTION


# %% check="compute-bound-batch" points=2
check.compute_bound_batch(batch)

# %%
least, layers = batch(1024, one_core / one_memory, 4, 4), []
threads = torch.get_num_threads()
torch.set_num_threads(1)
for rows in sorted({1, 4, 16, 64, 256, least} - {None, math.inf}):
    name, *layer = kernels.layer(rows, 1024)
    layers.append(place(name + ", yours" * (rows == least), *layer, time_limit=0.5))
torch.set_num_threads(threads)
draw.interactive({"peak, one core": one_core}, {"memory": one_memory}, layers)

# %% [markdown]
# A batch of 1 reads all weights and uses each for two operations, so it stands far left. (The weights take 4 MB: if the last-level cache holds them, the point may lie above memory's roof.) Every further sample uses the same weights again, until arithmetic is the limit. Therefore inference for one user is slow for the work that it does, and servers collect requests into batches.
#
# ### Fewer bytes per number
#
# From fp64 to fp32, a number takes half the bytes, and a register has twice the lanes. *Predict: by which factor does the least batch size fall?* And by which, if only the weights are stored in one byte each, and converted to fp32 before the arithmetic?

# %%
falls = Prediction("least batch in fp64 ÷ in fp32", None)  # your number for None
narrow = Prediction("least batch ÷ with weights of 1 byte", None)  # your number for None

# %%
found = []
for numbers, dtype, weight, value in (
    ("fp64", "float64", 8, 8),
    ("fp32", "float32", 4, 4),
    ("fp32, weights of 2 bytes", "float32", 2, 4),
    ("fp32, weights of 1 byte", "float32", 1, 4),
):
    peak, reading = machine.roof(1, dtype)
    found.append(batch(4096, peak / reading, weight, value))
    print(f"{numbers:25} ridge {peak / reading:5.2f} flop/byte, least batch {found[-1] or '–'}")
if found[0]:
    falls.answer(found[0] / found[1])
    narrow.answer(found[1] / found[3])

# %% [markdown]
# Peak and intensity change by the same factor, so the least batch size hardly moves: fp32 is twice as fast as fp64 on *both* sides. Weights with fewer bytes change only the intensity: with 2 bytes they halve the least batch size, with 1 byte they quarter it. So far the roof. Now a layer in PyTorch, which has formats of 2 bytes. Both rows do 34 million operations. One has a batch of 1 and 4096 units, whose weights come from memory; the other has a batch of 64 and 512 units, which arithmetic limits. *Predict: what does `bfloat16` gain over `float32` in each?*

# %%
halves = Prediction("batch of 64: time in float32 ÷ in bfloat16", None)  # your number for None

# %%
torch.set_num_threads(1)
for rows, n in ((1, 4096), (64, 512)):
    taken = {}
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        p = place(*kernels.layer(rows, n, dtype), time_limit=0.3)
        taken[dtype] = p.seconds
        print(f"B = {rows:2}, n = {n}: {str(dtype)[6:]:9} {seconds(p.seconds):>8}"
              f" {p.performance / 1e9:6.1f} Gflop/s {p.bandwidth / 1e9:5.1f} GB/s")  # fmt: skip
print("errors:", {str(d)[6:]: f"{kernels.layer_error(64, 512, d):.0e}" for d in list(taken)[1:]})
torch.set_num_threads(threads)
halves.answer(taken[torch.float32] / taken[torch.bfloat16])

# %% [markdown] claims="07-half-the-bytes"
# From `float64` to `float32` a layer gains a factor of 1.9 where memory limits it, and 2.1 to 2.25 where arithmetic does, close to the factor two of the roof. The formats of 2 bytes do not follow the roof. Compare `bfloat16` with `float16` in the table: both have half the bytes of `float32`, yet one gains at $B = 1$ and not at $B = 64$, and the other at $B = 64$ and not at $B = 1$. The bytes are equal, so the difference comes from the library's kernel for this format and shape. **Fewer bytes raise the roof; measure whether a kernel follows.** The price is accuracy: the error is about $10^{-7}$ of the largest result in `float32`, half a thousandth in `float16`, and three thousandths in `bfloat16`, which has the exponent of `float32` and only 8 significant bits (`float16` has 11).

# %%
evidence("07-half-the-bytes")

# %% [markdown]
# ## Designing a layer
#
# The source lists what changes of a convolution layer save. We count operations, parameters and bytes, and measure the time:

# %%
from helpers.roofline.design import Layer, shuffle, variants

base = Layer()
print(f"base: {base}, {base.flops / 1e6:.0f} Mflop, {base.bytes / 1e6:.1f} MB")
module, x = base.build()
torch.set_num_threads(1)
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
grouped, x = variants(base)["4 groups"][0].build()
served = measure(lambda: grouped(x), repeats=25, time_limit=1).best
moved = measure(lambda: shuffle(x, 4), repeats=25, time_limit=1).best
print(f"shuffle: 0 operations, {seconds(moved)}, {moved / served:.3f} of the grouped layer's time")
torch.set_num_threads(threads)

# %% [markdown]
# ### Exercise 8: what a change saves
#
# *Difficulty ●●○, 10 minutes.* A convolution with a kernel of side $k_1$ gets side $k_2$, a stride of $s$ and $g$ groups; channels and padding stay. Return new ÷ old for its operations, its parameters and its outputs.
#
# <details><summary>Hint</summary>
#
# Each output channel now uses $C/g$ input channels. The stride leaves $1/s^2$ of the positions: which of the three does this change?
#
# </details>


# %% exercise="layer-factors"
def factors(k1, k2, stride, groups):
    """What is left of (operations, parameters, outputs)."""
    # BEGIN SOLUTION
    parameters = k2**2 / k1**2 / groups
    return parameters / stride**2, parameters, 1 / stride**2
    # END SOLUTION


# %% check="layer-factors" points=2
check.layer_factors(factors)

# %%
print("what is left of operations, parameters, outputs")
print(f"{'':13} {'yours':>23} {'counted':>23}   memory, by the source")
stated = ("Param k₁²/k₂²", "Output 1/s²", "Param 1/g", "Param 1/g")
for (name, (layer, _, _)), source in zip(variants(base).items(), stated, strict=True):
    mine = factors(base.kernel, layer.kernel, layer.stride, layer.groups)
    counted = tuple(
        getattr(layer, part) / getattr(base, part) for part in ("flops", "parameters", "output")
    )
    show = ["–" if t is None else " ".join(f"{v:7.4f}" for v in t) for t in (mine, counted)]
    print(f"{name:13} {show[0]:>23} {show[1]:>23}   {source}")

# %% [markdown] claims="07-time-operations 07-shuffle"
# The source's $1/g^2$ for the computation of groups has one power too many: each of the same $C$ output channels uses $C/g$ inputs, so operations and parameters both shrink by $1/g$. The source's memory factor for small kernels is inverted: from side 3 to 1 a ninth of the parameters is left, not nine times as many.
#
# **Time does not follow operations.** The depthwise layer keeps 0.8 % of the operations and takes 5 to 25 % of the time, at least six times its share. It has 1/128 of the operations and nearly all of the bytes, and stands left of the ridge. The channel shuffle needs no operations, and adds 3 to 7 % to the time of the grouped layer that it serves.

# %%
display(evidence("07-time-operations"), evidence("07-shuffle"))

# %% [markdown]
# ### What breaks: a benchmark without a result
#
# A compiler removes work if nobody uses its result. The same sum, used and not used:

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

# %% [markdown] claims="07-unused-result"
# The second line is faster than any processor can add: the compiler removed the loop. It is 75 to 100 times faster at $10^5$ additions, and more than a thousand times at $3 \cdot 10^6$. A rate that grows with the work measures nothing.

# %% [markdown]
# ## A GPU's roof
#
# The same picture for a GPU. `make gpu` measured it on a machine with one, and wrote the record that this cell reads:

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
# | the source says | here |
# |---|---|
# | L1 4 cycles, L2 10, L3 40 and more, memory 60-100 ns (a Xeon of 2009) | [ceilings](#The-ceilings): the staircase of this machine, in ns and cycles. Additions that wait for one another appear in the section on [swapped loops](#Swap-two-loops). We did not measure lines that another core has changed |
# | peak = frequency × width × instructions per cycle, FMA counted twice | holds with the *measured* frequency and the *measured* instructions per cycle (exercise 1); the label's frequency overstates it, and so do two units where AVX-512 has one |
# | swap the j and k loops | [swapped loops](#Swap-two-loops): a factor of five to eight by vectors, 1.55 to 1.85 by independent additions, and 1.0 to 2.5 by misses, depending on $n$ and on this order of removal; register tiles gain another three to four, and blocks gain where the matrix outgrows the caches |
# | groups: computation $1/g^2$; small kernels: parameters $k_1^2/k_2^2$ | counted: $1/g$ and $k_2^2/k_1^2$; times stay above the operations' share in each row |
# | $P = \min(\pi, \beta I)$ | [the roof](#The-roof), with the roof of as many threads as the kernel uses |
#
# ## Summary
#
# - Count operations and bytes before you optimise; their ratio says which of the two to reduce.
# - Several causes hide behind one factor. Change one at a time before you say *because*; the factors depend on the order of the changes.
# - Fusion saves bytes. Blocks help where a matrix outgrows the caches. Sums in registers speed up the product three to four times.
# - A change of a layer saves less time than operations.
# - A number format with fewer bytes raises the roof. Measure whether a library's kernel follows: `bfloat16` took eight times as long on one processor and half the time on another of the same name.
#
# **In practice**: Intel Advisor and `likwid-perfctr` (roofline from hardware counters), NVIDIA Nsight Compute (for GPUs), STREAM (bandwidth); OpenBLAS, oneDNN and `torch.compile` do the blocking and fusing.
#
# **References**: Williams, Waterman, Patterson, *Roofline* (CACM, 2009): the model. McCalpin, *STREAM* (1995): the byte convention. Goto, van de Geijn, *Anatomy of high-performance matrix multiplication* (2008): the tiles. Ostrovsky, *Gallery of processor cache effects* (2010): experiments. Drepper, *What every programmer should know about memory* (2007): everything else.
#
# **Next**: this was the last notebook. The [glossary](glossary.md) lists all terms of the course.
