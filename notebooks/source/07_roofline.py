# %% [markdown]
# # Measure what this machine can do, and see what limits your code
#
# At the end you will have one picture of your machine, its [roofline](glossary.md#roofline), with your own kernels in it. It shows what limits each kernel, and what to change.
#
# **You will be able to**
#
# - measure peak arithmetic, bandwidth and latency, and read the sizes of the caches from a curve;
# - count the bytes that a kernel moves, and predict its least time;
# - say why one loop order is many times as fast as another;
# - write a matrix product in C that keeps its sums in registers.
#
# **You need** matrix products, and loops and pointers in C. *Time:* 150 minutes, in three lessons; each runs after the set-up alone. *Cores:* one is enough, and a C compiler. *GPU:* none.
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
#
# ## Set-up

# %%
from dataclasses import dataclass
from functools import partial
from time import thread_time

import ipywidgets as widgets
import matplotlib.pyplot as plt
import numpy as np
from threadpoolctl import threadpool_limits

from helpers.board import offer
from helpers.claims import evidence
from helpers.exercises import roofline as check
from helpers.plots import roofline as draw
from helpers.plots import style
from helpers.predictions import Prediction
from helpers.roofline import Point, kernels, place, under_roof
from helpers.roofline.ceilings import ceilings
from helpers.roofline.matmul import causes, flops, least_bytes, matrices, versions
from helpers.timing import Others, measure, seconds


# %% tags=["parameters"]
@dataclass(frozen=True)
class Parameters:
    n: int = 384  # side of the matrices, fp32
    large: int = 1152  # side of those that blocks are for
    small: int = 24  # side of the matrices in the simulated cache
    seed: int = 0


P = Parameters()
style.use()
a, b = matrices(P.n, P.seed)
products = versions(P.n)  # of two matrices, by name

# %% [markdown]
# The next cell measures this machine once, in less than a minute, and draws its roofline. The sloped lines are the limits of memory. The flat lines are the limits of arithmetic in fp32 (numbers of 32 bits). Each circle is a *kernel*, a small piece of a program. Further right, a kernel does more operations for each byte; further up, it is faster. `axpy` adds a multiple of one array to another. The other two multiply the same matrices. **Point at a circle** for its figures, and **add a kernel** of your own below the picture. Which kernel could be faster?

# %%
machine = ceilings()
work = flops(P.n), least_bytes(P.n)
slow, fast = (lambda f=products[name]: f(a, b) for name in ("ijk", "library"))


def first_three():
    return [
        place(*kernels.axpy(), time_limit=1),
        place("product, three loops", slow, *work, time_limit=1),
        place("product, library", fast, *work, machine.cores, time_limit=1),
    ]


with Others() as others:
    first = under_roof(machine, first_three)
others.say()
draw.interactive(*machine.lines(), first)

# %% [markdown]
# ## Lesson 1. How fast can a kernel be on this machine?
#
# *50 minutes.* **The question:** before you optimise a kernel, you want to know its least possible time. What must you measure?
#
# ### By hand
#
# Suppose that a core does 100 Gflop/s and reads 20 GB/s. A dot product of floats does 2 operations for every 8 bytes. Memory delivers 20 GB in a second, enough for 5 Gflop. So a dot product reaches at most 5 Gflop/s, a twentieth of the peak. No better code can change this.
#
# ### The peak
#
# A vector instruction does one operation on all $w$ numbers of a register at once. In a *fused multiply-add* (FMA), it does two: a multiplication and an addition. Suppose that each of a core's two vector units starts one FMA in each clock cycle. Then the core's peak is
#
# $$\pi = f \cdot w \cdot 2 \; \text{units} \cdot 2 \; \text{operations} .$$
#
# The instruction sets SSE, AVX2 and AVX-512 have registers of 128, 256 and 512 bits, so $w$ is 4, 8 and 16 in fp32.
#
# The source, a lecture whose figures this notebook checks, takes the *turbo* frequency for $f$. But a core keeps this frequency only while most other cores idle. So we measure $f$. For the peak, we time many independent chains of multiplications and additions.
#
# > **Predict.** How many fp32 operations can one core of your machine finish in a cycle?

# %%
per_cycle = Prediction("fp32 operations of one core in a cycle", None)  # your number for None

# %%
print(f"{machine.machine}, measured on {machine.date[:10]}: {machine.frequency / 1e9:.2f} GHz")
print("fp32      lanes  FMA  Gflop/s  theory  flop/cycle  instructions/cycle")
fp32 = [row for row in machine.theory() if row["dtype"] == "float32"]
for row in fp32:
    print(f"{row['isa']:8} {row['lanes']:6} {'yes' if row['fma'] else 'no':>4} "
          f"{row['measured'] / 1e9:8.0f} {row['theory'] / 1e9:7.0f} {row['per_cycle']:11.1f} "
          f"{row['units']:19.1f}")  # fmt: skip
per_cycle.answer(max(row["per_cycle"] for row in fp32))
if machine.skipped or machine.busy:
    print("Other programs disturbed these measurements. Measure again: ceilings(again=True)")

# %% [markdown]
# *Scalar* code uses one lane of a register. The column *theory* is the formula with two units and FMA, also for rows without FMA. The last column is the number of instructions that your core finishes in a cycle. With FMA, about 2 confirms the two units, and about 1 means a single unit of this width. A figure between 1 and 2 means at least two units, slowed by other programs, or by a lower clock than we measured: on a laptop with fast and slow cores, the two measurements may have run on different cores. Without FMA, more than 2 means more than two units.
#
# ### Latency: find the caches
#
# A [cache](glossary.md#cache) keeps recently used data near the core. L1 is small and fast, L2 is larger and slower, and so on down to memory. The time of a load tells which level holds the data. We measure this time with a **pointer chase**: each load returns the address of the next, so no two loads overlap. The memory that the chase visits is its **working set**.
#
# > **Predict.** A load from memory takes how many times as long as a load from L1?

# %%
further = Prediction("time of a load from memory ÷ from L1", None)  # your number for None

# %%
draw.latency(machine.latency, ())
plt.show()

# %% [markdown]
# Read the curve yourself; a point above its right neighbour is noise. **At which working set, in KiB, is the first rise steepest? And the second?**

# %%
first_ends = Prediction("KiB in L1, read off the curve", None)  # your number for None
second_ends = Prediction("KiB in L2", None)

# %%
draw.latency(machine.latency, machine.found, machine.reported)
plt.show()
for said, level in zip((first_ends, second_ends), machine.found[:-1], strict=False):
    said.answer(level["capacity"] / 1024)
for k, level in enumerate(machine.found):
    ends = level["capacity"] / 1024
    print(f"level {k + 1}: {level['seconds'] * 1e9:6.1f} ns, "
          f"{level['seconds'] * machine.frequency:4.0f} cycles, "
          f"{f'up to {ends:.0f} KiB' if ends < 1e9 else 'and beyond'}"
          f"{', a slope' if level['rise'] > 2 else ''}")  # fmt: skip
for cache in machine.reported:
    print(f"the system reports L{cache['level']}: {cache['size'] // 1024} KiB")
if machine.found:  # else too busy for a whole curve
    further.answer(machine.found[-1]["seconds"] / machine.found[0]["seconds"])
print(f"a line has {machine.line or '?'} bytes")

# %% [markdown]
# At each step of this staircase, the working set has outgrown a cache, or the TLB, the core's table of recent page addresses. A step need not stand where the system reports a cache's size: other programs or virtual machines may use a part of it. *A slope* marks a level within which the time more than doubles; we print the time of its faster half. We take the last level for memory; a cache larger than the curve may still hold its data.
#
# A cache moves whole **[lines](glossary.md#cache-line)**, usually of 64 bytes. So a second access in the same line usually finds it in L1.
#
# ### Bandwidth
#
# If a program reads many lines in order, many loads are in flight at a time. Then bandwidth limits it, not latency. We measure bandwidth for four loops: reading an array, copying one, the **triad** $a = b + s c$, and the *update* $a \leftarrow a + s b$, which writes where it read.
#
# > **Predict.** Which of the four shows the highest bandwidth from memory, on one thread?

# %%
shows_most = Prediction("loop of highest bandwidth", None)  # "read", "copy", "triad", "update"

# %%
draw.bandwidths(machine.bandwidths)
plt.show()
from_memory = [row for row in machine.bandwidths if row["level"] == "memory"]
alone = {row["kind"]: row["rate"] for row in from_memory if row["threads"] == 1}
if alone:  # else the machine was too busy
    shows_most.answer(max(alone, key=alone.get))

# %% [markdown]
# Each level is slower than the one before. In L1, a loop that hardly gains from a second thread was probably disturbed. The figures count the bytes that the program asks for. A step of the triad reads two doubles and writes one: 24 bytes. Memory may move more: most processors fetch a line before they write to it (**[write-allocate](glossary.md#write-allocate)**). Our figures do not count this fetch.
#
# ### Exercise 1: what memory moves
#
# *Difficulty ●●○, 10 minutes.* Arrays far larger than the caches stream through these loops:
#
# | loop | does, for each $i$ | arrays read | arrays written |
# |---|---|---|---|
# | copy | `a[i] = b[i]` | b | a |
# | triad | `a[i] = b[i] + s * c[i]` | b, c | a |
# | update | `a[i] = a[i] + s * b[i]` | a, b | a |
#
# Return the bytes that move between memory and the processor for one $i$, on average. `read` and `written` are tuples of names, for the triad `("b", "c")` and `("a",)`. An element has `size` bytes. Only if `allocate` is true, the processor also fetches each line that the loop writes but does not read.
#
# <details><summary>Hint</summary>
#
# An array that is read and written costs two elements. With `allocate`, one that is only written also costs two.
#
# </details>


# %% exercise="moved-bytes"
def moved(read, written, size, allocate):
    """Bytes that memory moves for one i: names read, names written, bytes of an element."""
    # BEGIN SOLUTION
    fetched = set(read) | set(written) if allocate else set(read)
    return size * (len(fetched) + len(written))
    # END SOLUTION


# %% check="moved-bytes" points=2
check.moved_bytes(moved)

# %%
LOOPS = {"read": (("a",), ()), "copy": (("b",), ("a",)),
         "triad": (("b", "c"), ("a",)), "update": (("a", "b"), ("a",))}  # fmt: skip
right = check.moved_bytes.passed(moved)
print("GB/s from memory     as asked   if lines are fetched first")
for row in from_memory:
    asked, more = (moved(*LOOPS[row["kind"]], 8, allocate) for allocate in (False, True))
    fetched = f"{row['rate'] * more / asked / 1e9:.1f}" if right else "–"
    on = f"{row['threads']} thread{'s' * (row['threads'] > 1)}"
    print(f"{row['kind']:6} {on:9} {row['rate'] / 1e9:11.1f} {fetched:>12}")

# %% [markdown]
# With the fetch counted, the triad's bandwidth rises by a third and the copy's by half. The update's stays: it has read each line that it writes. **So compare two bandwidths only if the same rule counted their bytes.** From here on, $\beta$ is the highest of the four bandwidths, without the fetch.
#
# ### The roof
#
# A kernel does $I$ operations for each byte. If $\beta$ bytes arrive in a second, it does at most $\beta I$ operations in that second, and never more than the peak $\pi$:
#
# $$P \le \min(\pi, \; \beta I)$$
#
# The two limits meet at the **[ridge](glossary.md#ridge-point)**, $I = \pi / \beta$. If a kernel reaches its roof left of the ridge, memory limits it, and only fewer bytes help. If it reaches its roof right of the ridge, only fewer operations help. A kernel far below its roof, such as the three loops in the first picture, has another limit.
#
# ### Exercise 2: predict before you measure
#
# *Difficulty ●○○, 5 minutes.* Return the least number of seconds in which a kernel with these operations and bytes can finish.
#
# <details><summary>Hint</summary>
#
# Arithmetic and transfers run at the same time. Which of them ends last?
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
# We counted the operations and bytes of seven kernels by hand. Your `least_seconds` predicts their times. The column *of roof* is performance ÷ roof, for the kernel's number of threads. The picture adds the caches' roofs. Three of the kernels compute $\max(s x + z, 0) \cdot w$ in *passes*, each of which reads its inputs once and writes its output once:
#
# - `unfused`: four passes in NumPy, on one thread;
# - `passes`: the same four passes in C, on all threads;
# - `fused`: a single pass in C, on all threads.
#
# > **Predict.** `passes` moves 8 + 12 + 8 + 12 = 40 bytes for each element and `fused` moves 16. How many times as long as `fused` does `passes` take?

# %%
by_passes = Prediction("time of passes ÷ time of fused", None)  # your number for None


# %%
def seven():
    return [place(*make(), time_limit=0.3) for make in kernels.standard()]


with Others() as others:
    points = under_roof(machine, seven, rounds=2)
others.say()
print(f"{'':9} threads flop/byte Gflop/s  of roof predicted  measured")
for p in points:
    roof = machine.roof(p.threads)
    predicted, share = least_seconds(p.flops, p.bytes, *roof), p.share(*roof)
    print(f"{p.name:9} {p.threads:7} {p.intensity:9.2f} {p.performance / 1e9:7.2f} "
          f"{share:8.0%} {'–' if predicted is None else seconds(predicted):>9} {seconds(p.seconds):>9}"
          f"{'  above the roof' if share > 1.05 else ''}")  # fmt: skip
took = {p.name: p.seconds for p in points}
by_passes.answer(took["passes"] / took["fused"])
peak, bandwidth = machine.roof(machine.cores)
offer("the roof of all cores", **{"Gflop/s": peak / 1e9, "GB/s": bandwidth / 1e9})
peaks, roofs = machine.lines()
draw.interactive(peaks, roofs | machine.cache_roofs(), points)

# %% [markdown] claims="07-fusion 07-softmax"
# **Fusion, one pass in place of four, saves bytes and time.** In the records, on one thread, four passes take 2.0 to 2.2 times as long as one pass if the arrays lie in memory, and 1.7 to 1.9 times if they lie in L2. Bytes alone predict 2.5.
#
# **A circle above memory's roof can have two causes.** A large cache may deliver part of a kernel's arrays, which take up to 512 MiB. Or a roof was measured too low; the cell then measures it again, so it may be higher here than before.
#
# **The roof is the best of four loops.** A kernel that only reads, such as `dot`, reaches at most about the bandwidth of *read*. But `axpy` is the loop *update* in fp32: what it lacks of 100 % shows how far two measurements of one loop can differ. **Bytes do not explain `softmax`**: it moves as many bytes as `x * 2`, and takes 1.5 to 4.3 times as long in the records. One reason may be *exp*: we count it as one operation, but it takes many instructions.
#
# The convolution stands far right: each loaded weight serves all pixels. On our page, `unfused` takes over twice as long as `passes`: it runs on one thread, and each NumPy pass fills a new array, whose pages the system may first have to supply.

# %%
display(evidence("07-fusion"), evidence("07-softmax"))

# %% [markdown]
# > **Answer.** Measure two figures: the peak, with chains of operations, and the bandwidth, with loops over arrays larger than the caches. The least time is the larger of operations ÷ peak and bytes ÷ bandwidth.
#
# [Appendix A4](A4_more_of_roofline.ipynb) continues here, with the layers of networks.
#
# ## Lesson 2. Why is one loop order many times as fast as another?
#
# *35 minutes.* **The question:** the source multiplies matrices with three loops, and asks what happens if you swap the inner two. The number of operations stays $2n^3$. All products of this lesson run on one thread.
#
# ```c
# for (i) for (j) for (k)  c[i][j] += a[i][k] * b[k][j];     /* ijk */
# for (i) for (k) for (j)  c[i][j] += a[i][k] * b[k][j];     /* ikj */
# ```
#
# > **Predict.** `ijk` takes how many times as long as `ikj`?

# %%
swap = Prediction("time of ijk ÷ time of ikj", None)  # your number for None

# %%
spent, reference, others = {}, a @ b, Others()
ORDERS = ("ijk", "jik", "jki", "kji", "kij", "ikj")  # by the inner loop, the last letter
for name in 2 * (*ORDERS, "library"):  # the better of two rounds
    assert np.allclose(products[name](a, b), reference, rtol=1e-3), name
    with others, threadpool_limits(1):  # the library too works on one core
        call = lambda f=products[name]: f(a, b)
        best = measure(call, repeats=4, warmup=1, time_limit=0.7, clock=thread_time).best
    spent[name] = min(best, spent.get(name, best))
others.say()
for name, best in spent.items():
    print(f"{name:8} {flops(P.n) / best / 1e9:7.2f} Gflop/s")
swap.answer(spent["ijk"] / spent["ikj"])

# %% [markdown]
# The last letter of an order names its *inner* loop. The two orders with inner loop `j` are by far the fastest of the six. `kij` moves more: for each k it reads and writes all of C, where `ikj` only reads all of B for each i.
#
# A matrix lies in memory row after row. From $a_{ik}$ to $a_{i,k+1}$ is a step of one element, mostly within the same line. From $b_{kj}$ to $b_{k+1,j}$ is a step of a whole row, into another line. So in `ijk`, each run of the inner loop uses 4 of the 64 bytes of a line of B.
#
# ### Exercise 3: find the order
#
# *Difficulty ●●○, 10 minutes.* Suppose that the **inner** loop is the one over `i`. By how many elements do the accesses to A, B and C move from one iteration to the next? Answer 0 (it stays), 1 (to the neighbour) or `"n"` (to the next row). Do the same for `j` and `k`. Which inner loop has no `"n"`? Give its name as `free`.
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
# Here is a cache small enough to watch. It is divided into *sets*. The address of a line decides its set, and a set holds as many lines as the cache has **[ways](glossary.md#associativity)**. A full set evicts its least recently used line for a new one, even if the rest of the cache is empty. Play the accesses of a product of 8 × 8 matrices, or move the slider. Blue elements are in the cache. A dot marks a hit, a cross a miss. In JupyterLab, compare the misses of `ijk` and `ikj` at the last step. Then set *line* to 32 bytes, a whole row, and compare again.

# %%
from helpers.roofline.cache import Cache, count_misses


def look(order="ijk", size=256, line=16, ways=4, step=150):
    draw.cache_step(order, 8, Cache(size, line, ways), step)
    plt.show()


play = widgets.Play(value=150, max=2048, step=8, interval=400)
slider = widgets.IntSlider(150, 0, 2048, 1, continuous_update=False)
widgets.jslink((play, "value"), (slider, "value"))
display(play)
_ = widgets.interact(
    look,
    order=list(ORDERS),
    size=widgets.SelectionSlider(options=[256, 512, 1024], value=256, description="bytes"),
    line=widgets.SelectionSlider(options=[16, 32, 64], value=16),
    ways=widgets.SelectionSlider(options=[1, 2, 4], value=4),
    step=slider,
)

# %% [markdown]
# The next cell counts the misses of 24 × 24 products, in a simulated cache of 1 KiB with lines of 64 bytes and two ways. Valgrind's cachegrind, if installed, counts those of the compiled program:

# %%
from helpers.roofline import cachegrind

shape = {"size": 1024, "line": 64, "ways": 2}
counts = {order: count_misses(order, P.small, Cache(**shape)) for order in ORDERS}
draw.misses(counts)
plt.show()
for order, one in counts.items():
    total = sum(one[matrix] for matrix in "abc")
    print(f"{order}: {total:5} misses in {one['accesses']} accesses, {total / one['accesses']:.1%}",
          end="")  # fmt: skip
    if cachegrind.available():
        print(f"; cachegrind {cachegrind.count_misses(order, P.small, **shape)['misses']}", end="")
    print()

# %% [markdown]
# Orders with the same inner loop miss about equally often. Inner loop `j` misses least: all steps are 0 or 1, so one miss serves a whole line. With inner loop `i` two matrices jump, with `k` only one. So `i` misses about twice as often as `k`. `ijk` misses four times as often as `ikj`. Did it also take four times as long above? If not, misses in this small cache do not decide alone.
#
# (The slider's last step: `ijk` 380 misses, `ikj` 160; with lines of 32 bytes, 304 and 80.)
#
# Do ways matter? In the product with $n = 384$, neighbours in a column of B are 1536 bytes apart. The next cell reads 16 columns as `ijk` does, in a cache of 32 KiB: with 8 ways, and with a single set of 512 lines.

# %%
for ways in (8, 512):
    cache = Cache(32 * 1024, 64, ways)
    for j in range(16):
        for k in range(P.n):
            cache.access(4 * (k * P.n + j))  # b[k][j]
    print(f"{ways:3} ways: {cache.misses} misses in {cache.misses + cache.hits} accesses")
print(f"this machine's L1: {machine.ways or '?'} ways")

# %% [markdown]
# A column's 384 lines take 24 KiB and would fit. But they lie in 8 of the 64 sets, which hold 64 lines. So they evict one another, and each access misses.
#
# ### Three causes at once
#
# Misses are one difference between `ijk` and `ikj`. Two others:
#
# - **Waiting.** In `ijk` all products of the inner loop go into one sum. Each addition waits three or four cycles for the one before. In `ikj` each addition goes to another element of C: none waits.
# - **Vectors.** The compiler turns the inner loop of `ikj` into vector instructions. It must not do so with the single sum of `ijk`: another order of additions rounds differently.
#
# In the picture, each colour is a sum, an addition takes four cycles, and one starts in each cycle (most cores can start two):

# %%
draw.waiting(8, 4)
plt.show()

# %% [markdown]
# Which cause matters most? We write `ijk` in eight ways, one for each combination of three choices:
#
# - *misses:* B is as it is, or **turned** (transposed) beforehand, so that the inner loop reads it in steps of one;
# - *waiting:* the products go into **one** sum, or in turn into **eight** sums, which do not wait for one another;
# - *vectors:* each sum is a **single** number, or a **vector** of eight numbers.
#
# > **Predict.** By what factor does turning B speed up the plain loop (one sum, single numbers)? By what factor does it speed up the loop with eight sums, each a vector?

# %%
plain = Prediction("gain of turning B: one sum, single numbers", None)  # your number for None
after = Prediction("gain of turning B: eight sums, vectors", None)

# %%
rate, others = {}, Others()
for _ in range(3):  # the best of three rounds
    for kind, call in causes(a, b).items():
        with others:
            best = measure(call, repeats=2, warmup=1, time_limit=0.5, clock=thread_time).best
        rate[kind] = max(flops(P.n) / best / 1e9, rate.get(kind, 0))
gain = {}
others.say()
print(f"n = {P.n}, Gflop/s      B as it is   B turned   turning gains")
for sums, wide in ((1, 1), (8, 1), (1, 8), (8, 8)):
    jumps, turned = rate[False, sums, wide], rate[True, sums, wide]
    gain[sums, wide] = turned / jumps
    print(f"{sums} sum{'s' if sums > 1 else ' '}  {'vectors' if wide > 1 else 'single '} "
          f"{jumps:19.2f} {turned:10.2f} {turned / jumps:12.1f} ×")  # fmt: skip
for name, kind in (("eight sums", (8, 1)), ("vectors", (1, 8)), ("both", (8, 8))):
    gains = [rate[lies, *kind] / rate[lies, 1, 1] for lies in (False, True)]
    print(f"gain of {name:10} {gains[0]:14.1f} × {gains[1]:8.1f} ×")
plain.answer(gain[1, 1])
after.answer(gain[8, 8])

# %% [markdown] claims="07-causes-together"
# Read the last column. In the record, turning B gains a factor of 1.2 to 2 in the plain loop, and of 9 to 36 with eight sums of vectors. The last three lines show what eight sums and vectors gain. If they gain little with B as it is and much with B turned, jumps hide their gain. A possible explanation: the plain loop loads the next number while the addition waits, so jumps in B cost little. With eight sums nothing waits, so the jumps show: each one misses, and each vector of B needs eight separate loads.
#
# **So no single cause makes `ijk` slow. The causes hide one another**: remove one, and the next one takes over. (On our page the fastest of the eight still reaches less than half of `ikj`; one reason may be that it adds up 64 partial sums for each element of C.)

# %%
evidence("07-causes-together")

# %% [markdown]
# > **Answer.** The inner loop of `ikj` takes steps of one element, lets no addition wait, and compiles to vectors. Alone, each of the three gains little.
#
# ## Lesson 3. How do you use each loaded number more often?
#
# *60 minutes, of which the project takes 45.* **The question:** `ikj` still loads and stores an element of C for each multiplication. How can a product load less?
#
# ### Blocks
#
# A product of two $n \times n$ matrices does $2n^3$ operations on $3n^2$ numbers. In fp32 its intensity is $I = 2n^3 / 12n^2 = n/6$ flop/byte: 64 for $n = 384$, far right of the ridge. But this counts each number as read once. Three plain loops read B $n$ times, from memory if no cache holds it. **Blocked** loops work on square *tiles* of side $t$, at the left of the picture. If three tiles, one of each matrix, fit into a cache, each loaded number is used $t$ times before it leaves. Arrows point to the next tile. The right half is for later:

# %%
draw.reuse(32, (6, 16))
plt.show()

# %% [markdown]
# ### Exercise 4: choose a tile
#
# *Difficulty ●○○, 5 minutes.* Return the largest side $t$ that is a multiple of `multiple` and for which three $t \times t$ tiles fit into `cache` bytes. An element has `size` bytes.
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

# %% [markdown]
# > **Predict.** At $n = 1152$, B takes 5.3 MB. Which side of the tile is the fastest: 16, 32, 48, 96, 192, 256, 384, 768, or 1152, a single tile and so no blocks?

# %%
best_side = Prediction("side of the fastest tile", None)  # your number for None

# %%
sides = (16, 32, 48, 96, 192, 256, 384, 768, P.large)  # the last one: a single tile, so no blocks
large = matrices(P.large, P.seed)
rates, others = dict.fromkeys(sides, 0.0), Others()
for t in 3 * sides:  # the best of three rounds
    multiply = versions(P.large, block=t)["blocked"]
    with others:
        timing = measure(lambda f=multiply: f(*large), repeats=1, warmup=0, clock=thread_time)
    rates[t] = max(rates[t], flops(P.large) / timing.best)
caches = {f"L{cache['level']}": tile(cache["size"], 4, 8) for cache in machine.reported[:2]}
yours = {cache: side for cache, side in caches.items() if side}
ax = draw.tiles(sides[:-1], [rates[t] for t in sides[:-1]], rates[P.large], yours)
style.doubt(ax.figure, others)
plt.show()
best_side.answer(max(rates, key=rates.get))

# %% [markdown] claims="07-tile-too-large 07-register-tile"
# The dashed line is the same program with a single tile: where the curve lies above it, blocks pay. Is there a peak just left of your tile for L1, or for L2? The curve may rise beyond L1's: the inner loop gets longer, and L2 may still hold the tiles. In the records, tiles twice as wide as those for L2 take 16 to 45 % longer.
#
# Blocks do not change the innermost loop: it still loads and stores an element of C for each multiplication. A **register tile**, at the right of the picture above, changes it: a piece of C stays in registers while $k$ runs. In the records, on AMD, register tiles are three to four times as fast as blocks of side 64; on our Intel page, less than twice. Exercise 5 ends with a race; `tiled` is ours.

# %%
display(evidence("07-tile-too-large"), evidence("07-register-tile"))

# %% [markdown]
# ### Exercise 5, a project: your own product
#
# *Difficulty ●●●, 45 minutes.* Write `void multiply(int64_t n, const float *a, const float *b, float *c)` in C, as a string. It computes $C = AB$ for $n \times n$ matrices, stored row after row, on one thread and with a tile of C in registers. $n$ is a multiple of 48, and `c` holds zeros at the call. For $n = 768$, your product may take at most four fifths of the time of `ikj`. Both are compiled with `-O3 -march=native`, and `<stdint.h>` is included already. Your code runs in a process of its own, so nothing is lost if it crashes.
#
# <details><summary>Hint 1</summary>
#
# Keep a tile of C, say 6 × 16, in registers while `k` runs, and store it at the end.
#
# </details>
# <details><summary>Hint 2</summary>
#
# An addition takes about four cycles, and two can start in each cycle. So at least eight vectors of sums must be in progress. `typedef float row __attribute__((vector_size(32), aligned(4)));` is a vector of eight floats. `row sum[6][2] = {0};` is a tile of 6 × 16 that stays in registers if all loops over it have fixed bounds. With a float pointer `p`, `*(const row *)p` loads eight floats; a float times a row multiplies all eight.
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


def race():
    """Time each product in turn; yours and ikj take turns in a process of their own."""
    timed = {}
    for name in ("ijk", "ikj", "blocked", "tiled", "library"):
        call = partial(products[name], a, b)
        timed[name] = measure(call, repeats=2, warmup=1, clock=thread_time).best
    if runs:
        mine = try_product(product, P.n)
        timed |= {"ikj": mine.rival, "yours": mine.seconds}
    return [Point(name, *work, spent) for name, spent in timed.items()]


# %%
runs = False
try:
    runs = bool(product and try_product(product, P.n))
except ProductError as error:
    print(error)
with Others() as others, threadpool_limits(1):
    raced = under_roof(machine, race, rounds=7)
others.say()
took = {point.name: point.seconds for point in raced}
print(", ".join(f"{p.name} {p.performance / 1e9:.0f}" for p in raced), "Gflop/s")
print(f"tiled is {took['blocked'] / took['tiled']:.1f} times as fast as blocked")
if runs:
    print(f"yours takes {took['yours'] / took['ikj']:.2f} of the time of ikj at n = {P.n}")
draw.interactive(*machine.lines(), raced)

# %% [markdown]
# All products have the same counted operations and bytes, hence the same intensity. At n = 384, B takes 0.6 MB: if a cache holds it, blocks, here of side 64, may even lose time.
#
# > **Answer.** Blocks reuse numbers in a cache. Register tiles reuse numbers in registers. Whether blocks pay depends on the size and on the caches: measure.
#
# ## What breaks: a benchmark without a result
#
# *2 minutes.* A compiler removes work whose result nobody uses. The next cell times the same loop twice: one function returns its sum, the other drops it:

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
    rate = 3e6 / timing.best / 1e9
    print(f"{name:7} {seconds(timing.best):>8}: {rate:6.1f} billion additions in a second")

# %% [markdown] claims="07-unused-result"
# The second line is faster than any processor can add: the compiler has removed the loop. To test a benchmark, do 30 times the work. In the records, the used sum then takes 30 times as long, and the unused sum half a microsecond longer.

# %%
evidence("07-unused-result")

# %% [markdown]
# ## The roof of a GPU
#
# *3 minutes.* `make gpu` measures and records such a roof on a machine with a GPU. The picture has the GPU's memory (HBM), its L2 cache, and its peak for several formats; *tf32* and *bf16* have fewer significant bits than fp32:

# %%
from helpers.roofline.report import gpu_roof

name, gpu_peaks, gpu_bands = gpu_roof()
print(name)
for kind, peak in gpu_peaks.items():
    print(f"{kind}: {peak / 1e12:4.0f} Tflop/s, ridge at {peak / gpu_bands['HBM']:4.0f} flop/byte")
draw.interactive(gpu_peaks, gpu_bands) if gpu_peaks else None

# %% [markdown]
# The products in tf32 and bf16 ran on **tensor cores**, units that multiply small tiles of matrices in one instruction. (H100 and H200 also use them for fp64.) Tensor cores lift the peak, but not the bandwidth, so the ridge moves to the right. At 50 operations a byte, arithmetic limits the recorded GPU in fp32, but memory limits it in bf16. **Asynchronous copies** load the next tile while the tensor cores work on the current one. They raise no roof, but a kernel that used to wait for its loads comes closer to it.
#
# <details><summary>What the sources say, what we measured</summary>
#
# | the source says | here |
# |---|---|
# | L1 4 cycles, L2 10, L3 40 and more, memory 60-100 ns (a Xeon of 2009) | lesson 1: the staircase of this machine, in ns and cycles |
# | peak = frequency × width × instructions per cycle: 243 Gflop/s for a core of the Xeon 8180M at 3.8 GHz | lesson 1: 3.8 GHz is the turbo frequency, so we measure |
# | swap the j and k loops | lesson 2: many times as fast, by three causes that hide one another |
# | $P = \min(\pi, \beta I)$ | lesson 1, with the roof of as many threads as the kernel uses |
#
# </details>
#
# ## In practice, and where to read on
#
# Intel Advisor and `likwid-perfctr` draw rooflines from hardware counters; NVIDIA Nsight Compute does this on GPUs. OpenBLAS, oneDNN and `torch.compile` do the blocking and the fusing for you.
#
# - S. Williams, A. Waterman, D. Patterson, *Roofline* (CACM, 2009): the model.
# - J. McCalpin, *STREAM* (1995): our rule for counting bytes.
# - K. Goto, R. van de Geijn, *Anatomy of high-performance matrix multiplication* (2008): blocks and register tiles.
# - U. Drepper, *What every programmer should know about memory* (2007): caches.
#
# **Next**: in the course's order this notebook is the last. The [glossary](glossary.md) lists all terms.
