# %% [markdown]
# # Let threads meet: warps, scans, histograms, attention
#
# In this notebook you write kernels whose threads exchange what they compute. The last one computes attention without storing a score, as FlashAttention does.

# %% [markdown]
# **You will be able to**
#
# - predict how often a warp executes a branch, and give work to threads so that few lanes idle;
# - exchange values inside a warp by shuffles;
# - compute all running sums of an array by a tree, and say what it saves and costs;
# - count in a histogram with few [atomics](glossary.md#atomic-operation) on global memory;
# - compute attention without storing its scores, by a running softmax.
#
# **You need** [notebook 05](05_cuda_tiling.ipynb), and from [notebook 14](14_cuda_bytes_and_shapes.ipynb) sectors, [wavefronts](glossary.md#wavefront) and bank conflicts. *Time:* 150 minutes: 5 for this opening, 40, 50 and 55 for three lessons; each runs after the set-up alone. *Cores:* any number. *GPU:* none needed; a C++ compiler is.
#
# | symbol | meaning |
# |---|---|
# | $n$ | numbers of an array or of a row; in attention, positions |
# | $s$ | distance of the two numbers that a step combines: 1, 2, 4, … (`step` in the code) |
# | $d$ | distance of two lanes (lesson 3: XOR of their numbers) |
# | $m$, $l$ | of the numbers $x_j$ read so far: the maximum, and the sum of $e^{x_j - m}$ |
# | $u$ | unfinished output of attention |
# | $q_i$, $k_j$, $v_j$, $o_i$ | query, key, value and output of attention, $D$ numbers each |
#
# ## Set-up

# %% tags=["parameters"]
import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import Code, Markdown
from sklearn.datasets import load_sample_image

from helpers.claims import evidence
from helpers.cuda import Module
from helpers.cuda.record import serialized
from helpers.exercises import cuda_matrices as check_attention
from helpers.exercises import cuda_threads as check
from helpers.plots import cuda as plots
from helpers.plots import style
from helpers.plots.accesses import scan_picture
from helpers.predictions import Prediction
from helpers.sharded.running_softmax import merge

# %load_ext helpers.cuda
style.use()
rng = np.random.default_rng(15)
photograph = load_sample_image("china.jpg").mean(axis=2).astype(np.float32) / 255

# %% [markdown]
# A *[scan](glossary.md#scan)* computes, for each number of an array, the sum of all numbers before it. For 256 numbers, one thread makes 254 additions in sequence; a tree of threads takes $2 \log_2 n = 16$ steps. The picture shows the tree on eight numbers: three steps up, a zero, three steps down. **Press |◀, then ▶|** to follow it. A coloured frame marks a write, with its thread (`t2`); lines are reads. The menu's other scan also adds the number itself; lesson 2 explains both.

# %%
eight, scans = np.array([3, 1, 7, 0, 4, 1, 6, 3], np.float32), {}
with Module("scan.cu", {"N": 8}, device="cpu") as module:
    for name, kernel, threads in (("by a tree (Blelloch)", "scan_tree", 4),
                                  ("in steps (Hillis and Steele)", "scan_steps", 8)):  # fmt: skip
        scans[name] = module[kernel][1, threads].record(eight, np.zeros(8, np.float32))
scan_picture(scans, eight)

# %% [markdown]
# ## Lesson 1. What does an `if` cost a warp?
#
# *40 minutes.* **The question:** all lanes of a warp receive the same instruction. What happens where an `if` sends only some of them into a branch?
#
# ### Divergence
#
# The warp executes both branches, `if` and `else`, one after the other. While it executes one branch, the lanes of the other branch idle: the warp *[diverges](glossary.md#divergence)*. Below, `group` neighbouring threads take the same branch.

# %% language="cuda"
# __global__ void two_ways(const float *x, float *y, int group) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     float v = x[i];
#     if (threadIdx.x / group % 2)
#         for (int e = 0; e < 8; e++)
#             v = 0.5f * v + 1;  // odd
#     else
#         for (int e = 0; e < 8; e++)
#             v = v * v - 0.5f;  // even
#     y[i] = v;
# }

# %% [markdown]
# `kernel[grid, block].warps(...)` runs a launch on the CPU and groups its threads into warps. We count a *pass* each time a warp executes a piece of code, such as the body of a loop.
#
# <details><summary>What a pass is, and what it is not</summary>
#
# Lanes that diverge continue together where the branches end. We do not count the `if` and the loops' tests. Passes count what the source asks for, not clock cycles: a compiler may turn a short branch into instructions that all lanes execute and some ignore.
#
# </details>
#
# > **Predict.** With `group` 32, all lanes of a warp take the same branch. By what factor does `group` 1, where neighbouring lanes differ, multiply the passes through the two loops? By what factor does `group` 8?

# %%
by_lane = Prediction("passes with group 1 ÷ with group 32", None)  # your number for None
by_eight = Prediction("passes with group 8 ÷ with group 32", None)

# %%
numbers, passes = rng.random(256, np.float32), {}
for group in (1, 8, 32, 64):
    record = two_ways[4, 64].warps(numbers, np.empty_like(numbers), group)
    loops = record.line("// odd"), record.line("// even")
    passes[group] = record.count(*loops)
    print(f"group {group:2}: {passes[group]:3} passes through the loops,",
          f"{record.idle(*loops) / (32 * passes[group]):.0%} of their lanes idle")  # fmt: skip
by_lane.answer(passes[1] / passes[32])
by_eight.answer(passes[8] / passes[32])

# %% [markdown]
# Here is the first warp with `group` 8. Each column is a pass; coloured lanes work, grey ones idle. Outside the loops (passes 1 and 18) all lanes work; in each loop, half of them do. (Here `else` comes first; the order does not matter.)

# %%
plots.warp_passes(two_ways[4, 64].warps(numbers, np.empty_like(numbers), 8))
plt.show()

# %% [markdown]
# The two loops are equally long, so a single lane in the other branch doubles a warp's passes through them. `group` 8 therefore takes as many as `group` 1.
#
# ### Who does which addition
#
# This kernel sums 256 numbers: it adds neighbours, then neighbouring sums, in steps $s = 1, 2, 4, \dots, 128$. In step $s$, each thread $t$ that is a multiple of $2s$ adds element $t + s$ to its own element.

# %%
sums = Module("sums.cu", device="cpu")
Code(sums["interleaved_sum"].listing, language="c++")

# %% [markdown]
# At $s = 1$, half of the lanes of each warp are idle. From $s = 16$ on, a warp makes at most one addition. A *packed* sum gives the same additions to neighbouring threads: in each step, thread 0 makes the first addition, thread 1 the second, and so on.
#
# > **Predict.** A warp makes a pass in each step in which one of its lanes adds. There are 8 warps and 8 steps. How many passes do the additions take in the interleaved sum, and in the packed sum?

# %%
interleaved_passes = Prediction("passes of the interleaved sum", None)  # your number for None
packed_passes = Prediction("passes of the packed sum", None)

# %% [markdown]
# ### Exercise 1: the same additions in fewer warps
#
# *Difficulty ●○○, 10 minutes.* Write the body of the loop of a packed sum. Count additions from 0: thread $t$ makes addition $t$ of the step.
#
# <details><summary>Hint</summary>
#
# Addition $t$ changes element $2st$ and reads the one $s$ places to its right. Which threads still have an addition?
#
# </details>

# %% language="cuda" exercise="packed-sum"
# __global__ void packed_sum(const float *x, float *total) {
#     __shared__ float part[256];
#     int t = threadIdx.x;
#     part[t] = x[blockIdx.x * 256 + t];
#     for (int step = 1; step < 256; step *= 2) {
#         __syncthreads();
#         // your part
#         // BEGIN SOLUTION
#         int left = 2 * step * t;
#         if (left < 256) part[left] += part[left + step];
#         // END SOLUTION
#         // end of your part
#     }
#     if (t == 0) total[blockIdx.x] = part[0];
# }

# %% check="packed-sum" points=2
check.packed_sum(packed_sum)

# %% [markdown]
# ### Shuffles: lanes read each other's registers
#
# A warp's threads can exchange values without shared memory. `__shfl_down_sync(mask, v, d)` returns the `v` of the lane whose number is larger by `d` (the lane's own `v` if there is none). `mask` has a bit for each lane that must make this call, here all 32. Lane 0 adds the number of lane 16, then lane 8's sum of two, then lane 4's of four. After five shuffles, it holds the sum of its warp:

# %% language="cuda"
# __global__ void shuffled_sum(const float *x, float *total) {
#     __shared__ float of_warp[8];
#     int t = threadIdx.x;
#     float v = x[blockIdx.x * 256 + t];
#     for (int d = 16; d > 0; d /= 2)
#         v += __shfl_down_sync(0xffffffff, v, d);  // v of lane + d
#     if (t % 32 == 0) of_warp[t / 32] = v;
#     __syncthreads();
#     if (t > 0) return;
#     for (int w = 1; w < 8; w++)
#         v += of_warp[w];  // v of warp w
#     total[blockIdx.x] = v;
# }

# %% [markdown]
# The table below has a fourth sum, the *halved* sum of notebook 05: each step adds the upper half of the numbers to the lower half.

# %%
x, found = rng.random(256, np.float32), {}
lines = ["| sum | passes that add | barriers | wavefronts of shared memory |", "|---" * 4 + "|"]
for name in ("interleaved", "packed", "halved", "by shuffles"):
    kernel = shuffled_sum if name == "by shuffles" else sums[f"{name}_sum"]
    total = np.zeros(1, np.float32)
    warps, record = kernel[1, 256].warps(x, total), kernel[1, 256].record(x, total)
    assert np.isclose(total[0], x.sum())
    adds = ("// v of lane + d", "// v of warp w") if kernel is shuffled_sum else (f"// {name}",)
    found[name] = warps.count(*map(warps.line, adds))
    shared = sum(a.wavefronts for a in record.select(space="shared"))
    lines.append(f"| {name} | {found[name]} | {record.events['interval'].max()} | {shared} |")
interleaved_passes.answer(found["interleaved"])
packed_passes.answer(found["packed"])
Markdown("\n".join(lines))

# %% [markdown]
# The interleaved sum makes 47 passes: 8 in each of the first five steps, then 4, 2 and 1. The packed sum makes 12: 4, then 2, then 1 in each of six steps. But its lanes read words $2s$ apart, several of them in one bank, so it needs the same 150 wavefronts. The halved sum's lanes read neighbouring words: 45 wavefronts. The sum by shuffles makes 5 passes in each of 8 warps and 7 in one thread: 47. But it needs a third of the halved sum's wavefronts, and a single barrier.
#
# An H200 summed 134 million numbers in blocks of 256: interleaved in 0.58 ms, packed in 0.74 ms, halved in 0.56 ms, by shuffles in 0.37 ms (`data/gpu/`). Passes do not decide the time: the packed sum makes a quarter as many as the interleaved sum, and was slower. Our counts do not tell why.
#
# ### Exercise 2: running sums in a warp
#
# *Difficulty ●○○, 5 minutes.* A block is one warp. At the end, the `v` of lane $i$ is the sum of the numbers of lanes 0 to $i$. Write the body of the loop, without shared memory: each lane adds the `v` of the lane `d` places before it; the first `d` lanes add nothing. `__shfl_up_sync(0xffffffff, v, d)` returns that `v` (the lane's own if there is none).
#
# <details><summary>Hint</summary>
#
# Lane 0 adds nothing, but lane 1 wants its `v`. What must all 32 lanes execute?
#
# </details>

# %% language="cuda" exercise="warp-scan"
# __global__ void warp_scan(const float *x, float *y) {
#     int lane = threadIdx.x;
#     float v = x[blockIdx.x * 32 + lane];
#     for (int d = 1; d < 32; d *= 2) {
#         // your part
#         // BEGIN SOLUTION
#         float before = __shfl_up_sync(0xffffffff, v, d);
#         if (lane >= d) v += before;
#         // END SOLUTION
#         // end of your part
#     }
#     y[blockIdx.x * 32 + lane] = v;
# }

# %% check="warp-scan" points=2
check.warp_scan(warp_scan)

# %% [markdown]
# > **Answer.** A warp executes every branch that at least one of its lanes takes. If all of its lanes agree, an `if` costs no further pass. (We counted passes and did not time `two_ways`.) Additions by neighbouring threads save passes; neighbouring words save wavefronts. The halved sum saves both; on an H200 it took 3 % less time than the interleaved sum, and the sum by shuffles 35 % less.

# %% [markdown]
# ## Lesson 2. Where does each thread put its result?
#
# *50 minutes.* **The question:** threads pack the bright pixels of a photograph into one array. Where does each pixel go?
#
# ### Scan: fewer additions, and a new cost
#
# A bright pixel's place is the number of bright pixels before it: a scan. Both scans of the picture at the top:
#
# - *Hillis and Steele* scan in steps $s = 1, 2, 4, \dots, n/2$. In step $s$, every thread adds to its own number the one $s$ places to its left, as your warp did. That takes $\log_2 n$ steps and nearly $n \log_2 n$ additions. The result is *inclusive*: each sum includes the number at its own place.
# - *Blelloch* scans by going up and down a tree, in $2 \log_2 n$ steps and $2(n-1)$ additions. The result is *exclusive*: each sum stops before its own place. The way up adds pairs, then pairs of pairs; the last element then holds the sum of all. The way down sets it to zero and visits the same pairs in reverse order. In each pair, the left element takes the right element's old value, and the right element becomes the sum of the two old values.
#
# ### Exercise 3: down the tree
#
# *Difficulty ●●●, 20 minutes.* A block of 128 threads scans 256 numbers in `part`. The way up is given. Write the way down: at the end, `part[i]` holds the sum of the block's numbers before number `i`.
#
# <details><summary>Hint</summary>
#
# Pairs and threads are those of the way up, in reverse order. Keep the left element's old value. Put a barrier wherever a thread then reads what another wrote; the last line of the kernel reads too.
#
# </details>

# %% language="cuda" exercise="scan-tree"
# __global__ void my_scan(const float *x, float *y) {
#     __shared__ float part[256];
#     int t = threadIdx.x, first = blockIdx.x * 256;
#     for (int i = t; i < 256; i += 128) part[i] = x[first + i];
#     for (int step = 1; step < 256; step *= 2) {
#         __syncthreads();
#         if (t < 128 / step) part[2 * step * (t + 1) - 1] += part[step * (2 * t + 1) - 1];
#     }
#     // your part
#     // BEGIN SOLUTION
#     if (t == 0) part[255] = 0;
#     for (int step = 128; step > 0; step /= 2) {
#         __syncthreads();
#         if (t >= 128 / step) continue;
#         float *right = part + 2 * step * (t + 1) - 1, left = right[-step];
#         right[-step] = *right;
#         *right += left;
#     }
#     __syncthreads();
#     // END SOLUTION
#     // end of your part
#     for (int i = t; i < 256; i += 128) y[first + i] = part[i];
# }

# %% check="scan-tree" points=4
check.my_scan(my_scan)

# %% [markdown]
# Your scan counts the bright pixels within each block of 256; NumPy adds the bright pixels of the blocks before it:

# %%
pixels = photograph.ravel()[: 256 * 400]
bright = (pixels > 0.8).astype(np.float32)
before = np.zeros_like(bright)
if check.my_scan.passed(my_scan):
    my_scan[400, 128](bright, before)
    blocks = before.reshape(400, 256)  # each block's own scan; their totals are scanned here
    totals = blocks[:, -1] + bright.reshape(400, 256)[:, -1]
    places = (blocks + (totals.cumsum() - totals)[:, None]).ravel().astype(int)
    packed = np.empty(int(totals.sum()), np.float32)
    packed[places[bright == 1]] = pixels[bright == 1]
    assert np.array_equal(packed, pixels[pixels > 0.8])
    print(f"{len(packed):,} bright pixels of {len(pixels):,} in the upper 160 rows,",
          "packed by your scan")  # fmt: skip

# %% [markdown]
# > **Predict.** Both scans run on 256 numbers. Each step begins with a barrier. The tree needs one more at the end, where threads return what others wrote. How many barriers does each scan need? In one step of the tree, the 32 lanes of a warp read words 8 apart. How many wavefronts does that request take?

# %%
barriers_steps = Prediction("barriers of the scan in steps", None)  # your number for None
barriers_tree = Prediction("barriers of the scan by a tree", None)
worst_request = Prediction("wavefronts of a request for words 8 apart", None)

# %%
numbers, found = rng.random(256, np.float32), {}
lines = ["| scan | barriers | accesses of shared memory | wavefronts | most wavefronts of one request |",
         "|---" * 5 + "|"]  # fmt: skip
for name, pad in (("scan_steps", 0), ("scan_tree", 0), ("scan_tree", 1)):
    with Module("scan.cu", {"PAD": pad}, device="cpu") as module:
        launch = module[name][1, 256 if name == "scan_steps" else 128]
        record = launch.record(numbers, np.zeros(256, np.float32))
    shared = record.select(space="shared")
    found[name, pad] = int(record.events["interval"].max()), max(a.worst for a in shared)
    lines.append(f"| {name}{', padded' * pad} | {found[name, pad][0]} | {sum(a.count for a in shared):,} "
                 f"| {sum(a.wavefronts for a in shared)} | {found[name, pad][1]} |")  # fmt: skip
barriers_steps.answer(found["scan_steps", 0][0])
barriers_tree.answer(found["scan_tree", 0][0])
worst_request.answer(found["scan_tree", 0][1])
Markdown("\n".join(lines))

# %% [markdown]
# The tree makes fewer than half of `scan_steps`' accesses, but needs *twice* its wavefronts (1.7 times on an H200). Its lanes read words 2, 4, 8, … apart; 32 words 8 apart lie in four banks, 8 in each. Skipping one word in every 32 (*padding*) removes all conflicts; only then does the tree need fewer wavefronts. Either tree needs 17 barriers, `scan_steps` 8. An H200 scanned 134 million numbers in blocks of 256: in steps in 0.62 ms, by the tree in 1.16 ms, by the padded tree in 0.55 ms. **Fewer additions alone do not make a kernel faster.**
#
# ### Histogram: many threads, one bin
#
# How often does each of 256 values occur among $n$ bytes? Each value has a counter, its *bin*. If two threads want one bin at once, `bins[x[i]] += 1` is a race. An *atomic* operation reads, adds and writes in one indivisible step:

# %%
histogram = Module("histogram.cu", device="cpu")
Code(histogram["direct_histogram"].listing, language="c++")

# %% [markdown]
# `atomicAdd` takes an address and what to add. `gridDim.x` is the number of blocks, so each iteration adds the number of all threads to `i`: a grid of any size handles any $n$.
#
# Every byte costs one global atomic. With *[privatization](glossary.md#privatization)*, each block counts in bins of its own, in shared memory, and adds them to the common bins at the end.
#
# ### Exercise 4: each block its own bins
#
# *Difficulty ●○○, 8 minutes.* Complete the kernel: a block counts its bytes in `own`, then adds `own` to `bins`, with at most one atomic for each of its 256 bins. It must be right for any grid and block size.
#
# <details><summary>Hint</summary>
#
# Count as `direct_histogram` does. Before what must all bins be zero, and before what must all threads have counted?
#
# </details>

# %% language="cuda" exercise="private-histogram"
# __global__ void private_histogram(const unsigned char *x, unsigned *bins, int n) {
#     __shared__ unsigned own[256];
#     for (int b = threadIdx.x; b < 256; b += blockDim.x) own[b] = 0;
#     // your part
#     // BEGIN SOLUTION
#     __syncthreads();
#     int threads = gridDim.x * blockDim.x;
#     for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)
#         atomicAdd(&own[x[i]], 1u);
#     __syncthreads();
#     for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&bins[b], own[b]);
#     // END SOLUTION
#     // end of your part
# }

# %% check="private-histogram" points=2
check.private_histogram(private_histogram)

# %% [markdown]
# If several lanes of a warp want one bin, we count their atomics one after another, *in sequence*. The last column of the table below says how many of 32 lanes want the most wanted bin, on average: 1 if all bytes differ, 32 if all are equal.
#
# > **Predict.** 8 blocks count 32 768 bytes. By what factor do private bins reduce the atomics on global memory?

# %%
fewer_atomics = Prediction("global atomics, direct ÷ private bins", None)  # your number for None

# %%
data = {"photograph": (255 * photograph[4::8]).astype(np.uint8).ravel()[:32_768],
        "random bytes": rng.integers(0, 256, 32_768).astype(np.uint8)}  # fmt: skip
kernels = {"bins": histogram["direct_histogram"], "own": histogram["own_histogram"]}
if check.private_histogram.passed(private_histogram):
    kernels["own"] = private_histogram
lines = ["| bytes | kernel | atomics on global memory | atomics in sequence, for 32 bytes |",
         "|---" * 4 + "|"]  # fmt: skip
for (name, x), (array, kernel) in ((pair, k) for pair in data.items() for k in kernels.items()):
    record = kernel[8, 256].record(x, np.zeros(256, np.uint32), len(x))
    atomics = record.count(array="bins", kind="atomic")
    crowd = serialized(record, array=array) / (len(x) / 32)
    lines.append(f"| {name} | {kernel.signature.name} | {atomics:,} | {crowd:.1f} |")
fewer_atomics.answer(len(x) / atomics)
Markdown("\n".join(lines))

# %% [markdown] claims="15-histogram"
# The direct kernel makes $n$ global atomics, the kernel with private bins 256 for each block: it saves global atomics only if a block counts more than 256 bytes. An H200 (`data/gpu/`) counted 268 million random bytes in 69 ms with bins in global memory, and in 0.37 ms with private bins.
#
# Privatization leaves as many atomics in sequence as before. Equal bytes put 16 times as many in sequence as random bytes: the H200 took 196 ms with bins in global memory, but again 0.37 ms with private bins. So this count predicts neither time (× 2.8 and × 1.0); we do not know why.
#
# Neighbouring pixels of a photograph are alike, so more lanes want one bin than with random bytes. How many more depends on the piece: 7.7 above; in the record's five pieces of `china.jpg`, 887 for 8192 bytes: 3.5 for 32.

# %%
evidence("15-histogram")

# %% [markdown]
# > **Answer.** A bright pixel's place is the number of bright pixels before it: an exclusive scan of ones and zeros. A tree saves additions, but needs twice the barriers of the scan in steps, and padding. Where many threads update one place, atomics keep the result right, and private copies keep most of them out of global memory.
#
# ## Lesson 3. Can attention be computed without storing its scores?
#
# *55 minutes, of which the project takes 25.* **The question:** [attention](glossary.md#attention) compares each of $n$ queries with each of $n$ keys, which gives $n^2$ scores. Must they travel through global memory?
#
# ### Softmax reads its row three times
#
# The [softmax](glossary.md#softmax) of numbers $x_1, \dots, x_n$ is $p_i = e^{x_i - m} / l$, with the maximum $m$ and $l = \sum_j e^{x_j - m}$. (Without $m$, a `float` $e^{x}$ overflows for $x > 88$.) A simple kernel reads the row for the maximum, again for the sum, and again for the result.
#
# One reading is enough for maximum and sum: keep $m$ and $l$ of the numbers so far. If a new number $x$ raises the maximum to $M$, every term of the sum must shrink by the same factor $e^{m - M}$:
#
# $$ M = \max(m, x) \qquad L = l\, e^{m - M} + e^{x - M} $$
#
# By hand, for 2, 4, 3: after 2, $(m, l) = (2, 1)$. The 4 raises the maximum: $l = 1 \cdot e^{-2} + 1 = 1.135$. The 3 does not: $l = 1.135 + e^{-1} = 1.503$, which is $e^{-2} + 1 + e^{-1}$. Two lanes that read different numbers merge their results by the same rule:
#
# $$ m = \max(m_1, m_2) \qquad l = l_1 e^{m_1 - m} + l_2 e^{m_2 - m} $$
#
# ### Exercise 5: softmax of a row by one warp
#
# *Difficulty ●●○, 10 minutes.* Block `b`, one warp, computes the softmax of row `b` of `n` numbers. The first loop gives each lane $m$ and $l$ of its own numbers. Write a loop that merges them. `__shfl_xor_sync(0xffffffff, m, d)` returns the `m` of the lane whose number is this lane's number XOR `d`. After exchanges with $d = 16$, 8, 4, 2 and 1, every lane has $m$ and $l$ of the whole row.
#
# <details><summary>Hint</summary>
#
# Use the merging rule above. Fetch the other lane's `m` and `l` before you change either.
#
# </details>

# %% language="cuda" exercise="online-softmax"
# __global__ void online_softmax(const float *x, float *y, int n) {
#     const float *row = x + blockIdx.x * n;
#     float m = -1e30f, l = 0;  // of no numbers yet
#     for (int i = threadIdx.x; i < n; i += 32) {
#         float v = row[i], now = fmaxf(m, v);
#         l = l * expf(m - now) + expf(v - now);
#         m = now;
#     }
#     // your part
#     // BEGIN SOLUTION
#     for (int d = 16; d > 0; d /= 2) {
#         float m2 = __shfl_xor_sync(0xffffffff, m, d), l2 = __shfl_xor_sync(0xffffffff, l, d);
#         float now = fmaxf(m, m2);
#         l = l * expf(m - now) + l2 * expf(m2 - now);
#         m = now;
#     }
#     // END SOLUTION
#     // end of your part
#     for (int i = threadIdx.x; i < n; i += 32) y[blockIdx.x * n + i] = expf(row[i] - m) / l;
# }

# %% check="online-softmax" points=3
check_attention.online_softmax(online_softmax)

# %% [markdown]
# ### Attention in three kernels
#
# From queries $q_i$, keys $k_j$ and values $v_j$, attention computes
#
# $$ o_i = \sum_j p_{ij} v_j, \qquad p_{i\cdot} = \operatorname{softmax}_j \left( q_i \cdot k_j / \sqrt D \right). $$
#
# The simplest way takes three kernels. `scores` writes $n^2$ scores. `softmax_thrice` reads them three times and writes $n^2$ weights $p_{ij}$. `weighted` reads the weights and sums the weighted values. In all, $n^2$ numbers move six times (four times if a cache keeps the scores).
#
# ### Attention in one kernel
#
# The running softmax works for the weighted sum too. For a query, let $x_j$ be its score for key $j$. Keep $m$, $l$ and the *unfinished output* $u = \sum_j e^{x_j - m} v_j$ of the keys so far. The next key changes $m$ and $l$ as before, and
#
# $$ U = u\, e^{m - M} + e^{x_j - M} v_j. $$
#
# At the end, $o = u / l$.
#
# ### Exercise 6, the project: a thread for each query
#
# *Difficulty ●●●, 25 minutes.* $D = 32$, and each thread computes the output of one query. The block loads tiles of 32 keys and values into shared memory. Write the loop over the keys of a tile: compute a key's score, then update `m`, `l` and `u`. `query` is already divided by $\sqrt{32}$. The last tile may have fewer than 32 keys.
#
# <details><summary>Hint</summary>
#
# $x_j$ is the score of key $j$. Which keys of the last tile must not count? (Even a score of zero would count.)
#
# </details>

# %% language="cuda" exercise="attention"
# __global__ void my_attention(const float *q, const float *k, const float *v, float *o, int n) {
#     __shared__ float keys[32][32], values[32][32];
#     int t = threadIdx.x, i = blockIdx.x * 32 + t;
#     float query[32], u[32] = {}, m = -1e30f, l = 0;
#     for (int c = 0; c < 32; c++) query[c] = i < n ? q[i * 32 + c] / sqrtf(32) : 0.0f;
#     for (int from = 0; from < n; from += 32) {
#         for (int j = 0; j < 32 && from + j < n; j++)  // coalesced: a row at a time
#             keys[j][t] = k[(from + j) * 32 + t], values[j][t] = v[(from + j) * 32 + t];
#         __syncthreads();
#         // your part
#         // BEGIN SOLUTION
#         for (int j = 0; j < 32 && from + j < n; j++) { float score = 0;
#             for (int c = 0; c < 32; c++) score += query[c] * keys[j][c];
#             float now = fmaxf(m, score), shrink = expf(m - now), p = expf(score - now);
#             l = l * shrink + p, m = now;
#             for (int c = 0; c < 32; c++) u[c] = u[c] * shrink + p * values[j][c];
#         }
#         // END SOLUTION
#         // end of your part
#         __syncthreads();
#     }
#     for (int c = 0; c < 32 && i < n; c++) o[i * 32 + c] = u[c] / l;
# }

# %% check="attention" points=5
check_attention.my_attention(my_attention)

# %% [markdown]
# ### A tile of scores, as FlashAttention computes it
#
# With one thread for each query, 4096 queries keep 4096 threads busy; an H200 has room for 270 336. FlashAttention gives a block of threads a *tile of scores*. Our tile has 16 queries × 16 keys, and each thread computes one score. The 16 threads of a query find the new maximum and sum by shuffles (`row_max`, `row_sum`), and correct $l$ and $u$ once a tile. The picture shows one step. In the listing after it, read only the lines around `shrink`:

# %%
plots.attention_tile(64, 32, 16)
plt.show()

# %%
flash = Module("attention.cu", device="cpu")
Code(flash["attention"].listing, language="c++")

# %% [markdown]
# > **Predict.** With a perfect cache, each kernel moves each number once. For $n = 128$ and $D = 32$, the three kernels together move how many times the bytes of the single kernel?

# %%
three_to_one = Prediction("each byte once, three kernels ÷ one", None)  # your number for None

# %%
n, D = 128, 32
q, k, v = rng.standard_normal((3, n, D)).astype(np.float32)
scores, weights, logs = np.zeros((n, n), "f4"), np.zeros((n, n), "f4"), np.zeros(n, "f4")
three, one, tiles, square = np.zeros_like(q), np.zeros_like(q), n // 16, (16, 16)
records = [flash["scores"][(tiles, tiles), square].record(q, k, scores, n, blocks=[]),
           flash["softmax_thrice"][n, 32].record(scores, weights, n, blocks=[]),
           flash["weighted"][tiles, square].record(weights, v, three, n, blocks=[])]  # fmt: skip
records.append(flash["attention"][tiles, square].record(q, k, v, one, logs, n, n, blocks=[]))
reference = torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)))
for name, out in {"three kernels": three, "one kernel": one}.items():
    print(f"{name}: largest difference from PyTorch {np.abs(out - reference.numpy()).max():.0e}")

# %%
costs = np.array([[r.requested_bytes(space="global"), r.sector_bytes(space="global"),
                   r.compulsory_bytes()] for r in records]) / 1e3  # fmt: skip
names = [r.kernel for r in records[:3]] + ["**the three together**", "**attention, one kernel**"]
rows = [*costs[:3], costs[:3].sum(axis=0), costs[3]]
if check_attention.my_attention.passed(my_attention):
    r = my_attention[n // 32, 32].record(q, k, v, np.zeros_like(q), n, blocks=[])
    names.append("yours, a thread for each query")
    rows.append(np.array([r.requested_bytes(space="global"), r.sector_bytes(space="global"),
                          r.compulsory_bytes()]) / 1e3)  # fmt: skip
three_to_one.answer(rows[3][2] / rows[4][2])
lines = ["| kernel | asked for (kB) | in sectors (kB) | each byte once (kB) |", "|---" * 4 + "|"]
lines += [f"| {name} | {' | '.join(f'{x:.0f}' for x in row)} |"
          for name, row in zip(names, rows, strict=True)]  # fmt: skip
Markdown("\n".join(lines))

# %% [markdown]
# By the last column, the three kernels move $4n^2 + 4nD$ numbers. The single kernel moves $4nD$ and the $n$ numbers of `logs`: no score, no weight. The ratio, nearly $1 + n/D$, grows with $n$: 5 here, and 128 for $n = 4096$. (We did not time these kernels.)
#
# In the first column the ratio is only 2.7: in the single kernel, each block reads all keys and values again. Your blocks have 32 queries, ours 16, so yours read them half as often. But they move more in sectors than they ask for: lanes load different queries and store different outputs, 128 bytes apart.
#
# ### The same softmax, on a ring of ranks
#
# For each query, `attention` returns $m + \ln l = \ln \sum_j e^{x_j}$ in `logs`. With these logs, `merge` joins outputs over *different* keys, here the first 50 and the last 78. [Notebook 13](13_sharding.ipynb#Cut-the-sequence:-ring-attention) calls `merge` for pieces that travel round a ring of ranks.

# %%
pieces = []
for some in (slice(0, 50), slice(50, n)):
    out, logs = np.zeros_like(q), np.zeros(n, np.float32)
    keys, values = k[some].copy(), v[some].copy()
    flash["attention"][tiles, square](q, keys, values, out, logs, n, len(keys))
    pieces += [torch.from_numpy(out), torch.from_numpy(logs)]
merged, _ = merge(*pieces)
print(f"two pieces merged: largest difference from PyTorch {(merged - reference).abs().max():.0e}")

# %% [markdown]
# > **Answer.** No. A running maximum, a running sum and an unfinished output replace the stored scores: a tile of scores stays inside its block. The same rule merges lanes, tiles, and ranks of a ring.
#
# ## In practice, and where to read on
#
# CUB and Thrust offer sums, scans and histograms. PyTorch's `scaled_dot_product_attention` uses FlashAttention where GPU and shapes allow it. For the gradient, FlashAttention stores `logs` and computes the scores again, as checkpointing does in [notebook 09](09_computation_graphs.ipynb).
#
# <details><summary>The tile of scores in Triton (not run; T divides n)</summary>
#
# ```python
# @triton.jit
# def attention(q, k, v, out, n, D: tl.constexpr, T: tl.constexpr):
#     i, c = tl.program_id(0) * T + tl.arange(0, T), tl.arange(0, D)
#     query = tl.load(q + i[:, None] * D + c[None, :]) / D**0.5
#     m, l = tl.full((T,), -1e30, tl.float32), tl.zeros((T,), tl.float32)
#     u = tl.zeros((T, D), tl.float32)
#     for first in range(0, n, T):
#         j = first + tl.arange(0, T)
#         score = tl.dot(query, tl.load(k + j[None, :] * D + c[:, None]))  # T × T
#         now = tl.maximum(m, tl.max(score, 1))
#         shrink, p = tl.exp(m - now), tl.exp(score - now[:, None])
#         l, m = l * shrink + tl.sum(p, 1), now
#         u = u * shrink[:, None] + tl.dot(p, tl.load(v + j[:, None] * D + c[None, :]))
#     tl.store(out + i[:, None] * D + c[None, :], u / l[:, None])
# ```
#
# The compiler adds threads, shuffles and barriers.
#
# </details>
#
# <details><summary>What the sources say, what we measured</summary>
#
# | the source says | here |
# |---|---|
# | the parallel paradigm is *SIMD* | NVIDIA calls it SIMT; lesson 1 counts passes of lanes that diverge |
#
# </details>
#
# - M. Harris, S. Sengupta, J. D. Owens, *Parallel prefix sum (scan) with CUDA* (GPU Gems 3, 2007): both scans, and the padding.
# - M. Milakov, N. Gimelshein, *Online normalizer calculation for softmax* (2018): the running softmax.
# - T. Dao et al., *FlashAttention* (2022), and T. Dao, *FlashAttention-2* (2023): the tile, its bytes and its work.
# - W. W. Hwu, D. B. Kirk, I. El Hajj, *Programming Massively Parallel Processors* (4th edition, 2022), chapters 9 to 11.
#
# **Next**: [06 Rank a graph in several ways, and find out why one is hundreds of times slower](06_pagerank_cpu_vs_gpu.ipynb) counts the bytes of a computation on a graph.
