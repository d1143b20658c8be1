# %% [markdown]
# # Convolve an image in CUDA C, with or without a GPU
#
# At the end you will have written a CUDA C kernel that blurs and sharpens a photograph through a tile in shared memory. You will know to the byte what each version of it reads.

# %% [markdown]
# **You will be able to**
#
# - compute which element a thread works on, and say why it tests the bounds;
# - predict how many bytes a convolution kernel asks for, and check the prediction by counting;
# - load a [tile](glossary.md#tile) with its [halo](glossary.md#halo) into shared memory, with the barrier that it needs;
# - recognise a race, and repair it.
#
# **You need** some Python, and enough C to read a `for` loop, an `if` and an array element. *Time:* 150 minutes: 5 for this opening, 35, 50 and 60 for three lessons; each runs after the set-up alone. *Cores:* any number. *GPU:* none needed; a C++ compiler is.
#
# | symbol | meaning | shape or unit |
# |---|---|---|
# | $I$, $O$ | image and output | $H \times W$ floats of 4 bytes |
# | $F$ | filter, its side odd | $k \times k$ |
# | $r$ | radius of the filter, $(k-1)/2$ | pixels |
# | $T_y \times T_x$ | outputs of one [block](glossary.md#block) | pixels |
# | $Q$ | what all threads together ask of global memory | bytes |
#
# ## Set-up

# %% tags=["parameters"]
import re

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Code, Markdown
from scipy.ndimage import correlate
from sklearn.datasets import load_sample_image

from helpers.cuda import KernelError, Module
from helpers.cuda.ladder import Convolution, flops
from helpers.exercises import cuda as check
from helpers.exercises import cuda_matrices as check_memory
from helpers.plots import cuda as plots
from helpers.plots import style
from helpers.plots.accesses import thread_picture, tile_animation
from helpers.predictions import Prediction

# %load_ext helpers.cuda
style.use()

# %% [markdown]
# The picture below was recorded while a CUDA kernel ran on your processor. The kernel averages each pixel with its eight neighbours. One thread computes one output; each colour marks a *block*, a group of threads. Frames mark one output and the pixels that its thread read. **Click another output**, or **click a pixel** to see how many threads read it.

# %%
rng = np.random.default_rng(5)
image, weights = rng.random((256, 256), np.float32), rng.standard_normal((5, 5)).astype("f4")
convolution = Convolution(weights, "zero", device="cpu")  # zeros outside the image
H, W, k, r = *image.shape, 5, 2

photograph = load_sample_image("china.jpg").mean(axis=2).astype(np.float32) / 255
corner = np.s_[150:270, 250:430]  # of 427 × 640 pixels: small enough to see single pixels
blur = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype(np.float32) / 256

small = rng.random((8, 12), np.float32)
three = Convolution(np.full((3, 3), 1 / 9), "zero", tile=(4, 4), device="cpu")
thread_picture(three.record(small, "global"), "image", "out")

# %% [markdown]
# Nine threads read a pixel in the middle of the image; each asks memory for it. This notebook counts the bytes that threads ask for, then removes most of them.
#
# ## Lesson 1. Which thread computes what, and what does it read?
#
# *35 minutes.* **The question:** with one thread for each output pixel, how many bytes does a 5 × 5 filter ask for?
#
# ### Host and device
#
# The *[host](glossary.md#host-and-device)* is your processor with its memory; the *device* is the GPU with its own. Most of the device's memory is *global memory*, which all threads can reach. A thread's own variables live in *registers*, on the GPU's chip.
#
# The host copies arrays to the device, *launches* a function there, and copies the results back. That function is a *[kernel](glossary.md#cuda-kernel)*. It is written in CUDA C, which is C++ with a few words added.
#
# | in C on the host | here, in Python |
# |---|---|
# | `cudaMalloc`, `cudaMemcpy` to the device | done for NumPy arrays when you launch; PyTorch's CUDA tensors stay where they are |
# | `kernel<<<grid, block>>>(a, n)` | `kernel[grid, block](a, n)` |
# | `cudaGetLastError()` after each call | an exception that says what went wrong |
# | `cudaMemcpy` to the host, `cudaFree` | done when the launch ends |
#
# Without a GPU, our *runner* executes the same source on your processor, one thread after the other. That is slow, but it shows us every access. The next cell says where the kernels that we supply run; yours, from `%%cuda` cells, run on your processor.

# %%
add = Module("vector_add.cu")
print(f"kernels run on: {add.device}")
Code(add["vector_add"].listing, language="c++")

# %% [markdown]
# `__global__` marks a kernel. All threads execute the same function, so each must compute which element is its own. Threads form [blocks](glossary.md#block), and blocks form a [grid](glossary.md#grid). CUDA numbers both in up to three dimensions, `.x`, `.y` and `.z`. In one dimension, a thread's element is:
#
# $$ i = \text{blockIdx} \cdot \text{blockDim} + \text{threadIdx} $$
#
# `blockIdx` is the block's number in the grid, `threadIdx` the thread's number in its block, and `blockDim` the number of threads in a block.
#
# ### By hand: ten elements, blocks of four
#
# Ten elements need $\lceil 10/4 \rceil = 3$ blocks, which have 12 threads.
#
# > **Predict.** How many of the 12 threads write an element of `c`?

# %%
writers = Prediction("threads that write, of 12", None)  # your number for None

# %%
a, b, c = np.arange(10, dtype=np.float32), np.full(10, 100, np.float32), np.zeros(10, np.float32)
on_cpu = Module("vector_add.cu", device="cpu")
record = on_cpu["vector_add"][3, 4].record(a, b, c, 10)
print(c)
writers.answer(record.count(array="c", kind="write"))
thread_picture(record, "a", "c")

# %% [markdown]
# Ten threads wrote. Threads 2 and 3 of the last block computed $i = 10$ and $i = 11$ and failed the test `i < n`.
#
# `record(...)` runs a launch on the CPU and notes every access. Its table has one row for each access in the source:

# %%
print(record)

# %% [markdown]
# - **count** and **bytes** say what the threads asked for.
# - **requests** count loads and stores of whole *[warps](glossary.md#warp)*. A warp is a group of 32 threads, its *lanes*, that run together. When it loads or stores, the addresses of its lanes go to memory as one request. A block of four threads is a warp with four lanes in use.
# - **sectors** say what was moved. A sector is 32 bytes of global memory that move together. A request moves every sector that one of its lanes touches. Here the floats of each request lie in one sector.
#
# So a kernel has two costs, the bytes *asked for* and the bytes *moved*. (A GPU may find a sector in a cache; our runner has none.)
#
# ### What breaks: no bounds test
#
# A cell that begins with `%%cuda` is CUDA C; you launch its kernels by name. This kernel lacks the test.

# %% language="cuda"
# __global__ void careless(const float *a, const float *b, float *c) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     c[i] = a[i] + b[i];
# }

# %% tags=["raises-exception"]
careless[3, 4](a, b, c)

# %% [markdown]
# On a GPU this kernel would usually run without an error, read beyond `a` and `b`, and overwrite whatever lies behind `c`. Kernels from a `%%cuda` cell run on the CPU and are checked: the runner reports accesses out of bounds, races, and reads of memory that was never written.
#
# A block can also be too large. It has at most 1024 threads:

# %% tags=["raises-exception"]
add["vector_add"][1, 2048](a, b, c, 10)

# %% [markdown]
# ### Exercise 1: a times x plus y
#
# *Difficulty ●○○, 5 minutes.* BLAS calls this function *axpy*. Complete the kernel so that $y_i \leftarrow a\,x_i + y_i$ for $i < n$, on any grid that has a thread for each element. Each thread handles one element.
#
# <details><summary>Hint</summary>
#
# `i` is given, as in `vector_add`. What must hold before the thread may touch `x` or `y`?
#
# </details>

# %% language="cuda" exercise="axpy"
# __global__ void axpy(float a, const float *x, float *y, int n) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     // your part
#     // BEGIN SOLUTION
#     if (i < n) y[i] = a * x[i] + y[i];
#     // END SOLUTION
#     // end of your part
# }

# %% check="axpy" points=2
check.axpy(axpy)

# %% [markdown]
# An axpy can sharpen a photograph. Let $I$ be the photograph and $B$ a blurred copy. Then $2.5\,I - 1.5\,B = I + 1.5\,(I - B)$ exaggerates what the blur removed. Here is your kernel with $a = -1.5$, $x = B$ and $y = 2.5\,I$. Its grid has $\lceil \text{size} / 256 \rceil$ blocks, in Python `-(-y.size // 256)`:

# %%
blurred = Convolution(blur, "replicate")(photograph)[corner]
x, y = blurred.ravel(), 2.5 * photograph[corner].ravel()
shown = {"photograph": photograph[corner], "blurred": blurred}
if check.axpy.passed(axpy):
    axpy[-(-y.size // 256), 256](-1.5, x, y, y.size)
    shown["sharpened by your axpy"] = y.reshape(blurred.shape)
plots.images(shown, "What the blur removes, an axpy can exaggerate: I + 1.5 (I − B)")
plt.show()

# %% [markdown]
# ### The simplest convolution
#
# Each output is a weighted sum of $k \times k$ pixels:
#
# $$ O_{y,x} = \sum_{j=0}^{k-1} \sum_{i=0}^{k-1} F_{j,i}\; I_{y+j-r,\;x+i-r} $$
#
# (Deep learning calls this a convolution. A mathematician would first rotate the filter by 180°.) Outside the image, $I$ is zero. Grid and block now have two dimensions: $x$ for columns, $y$ for rows. Blocks have 8 rows of 32 threads. `FILTER_…` and `RADIUS_…` are set when the kernel is compiled.

# %%
Code(convolution.module["convolve_global"].listing, language="c++")

# %% [markdown]
# `pixel(...)` returns a pixel, or zero outside the image. Every thread reads $k^2$ weights and up to $k^2$ pixels, and writes one output:
#
# $$ Q_\text{global} = 4 H W (2k^2 + 1) \text{ bytes, less the reads that fall outside the image.} $$
#
# > **Predict.** For an image of 256 × 256 pixels this kernel reads nearly $25 \cdot 65\,536$ pixels. By what factor could a cleverer kernel reduce these *pixel reads*, at most?

# %%
pixel_reads = Prediction("pixel reads, simplest kernel ÷ best possible", None)  # your number

# %%
naive = convolution.record(image, "global", blocks=[])  # blocks=[]: count only
inside = round(correlate(np.ones((H, W)), np.ones((k, k)), mode="constant").sum())
predicted = 4 * (H * W * k**2 + inside + H * W)
wrong_by = np.abs(convolution(image, "global") - correlate(image, weights, mode="constant")).max()
print(f"largest difference from SciPy: {wrong_by:.0e}")
print(f"predicted {predicted:,} bytes, counted {naive.requested_bytes(space='global'):,}")
pixel_reads.answer(naive.count(array="image", kind="read") / (H * W))
lines = [
    "| array | accesses (millions) | asked for (MB) | moved in sectors (MB) |",
    "|---" * 4 + "|",
]
for name in ("image", "filter", "out"):
    asked, moved = (f(array=name) / 1e6 for f in (naive.requested_bytes, naive.sector_bytes))
    lines.append(f"| {name} | {naive.count(array=name) / 1e6:.2f} | {asked:.2f} | {moved:.2f} |")
Markdown("\n".join(lines))

# %% [markdown]
# The predicted bytes are exact. Every pixel must be read at least once, so the best kernel makes $HW$ pixel reads: nearly $k^2$ times fewer.
#
# Compare the last two columns. The 32 lanes of a warp ask for 32 neighbouring pixels, which lie in four or five sectors. But all lanes ask for the *same* weight, which lies in one sector. Weights are half of the bytes asked for, but only a sixth of the bytes moved.
#
# > **Answer.** With one thread for each output, the threads ask for $4HW(2k^2+1)$ bytes less the border: 13.3 MB for an image of 0.26 MB. A kernel needs to read each pixel only once.
#
# ## Lesson 2. What can threads share?
#
# *50 minutes.* **The question:** neighbouring threads read the same weights and almost the same pixels. Which of these reads can a block avoid?
#
# ### Weights: constant memory
#
# *[Constant memory](glossary.md#constant-memory)* holds 64 KiB that kernels may only read. Its cache hands one value to all lanes of a warp at once, and all lanes want the same weight. The weights' array is declared outside the kernel with `__constant__`, and the host fills it.
#
# > **Predict.** The weights leave global memory. By how many percent do the bytes *asked for* fall, and the bytes *moved*?

# %%
asked_less = Prediction("bytes asked for that disappear (%)", None)  # your number for None
moved_less = Prediction("bytes moved in sectors that disappear (%)", None)


# %%
def cost(record):
    """Bytes of global memory: asked for by threads, and moved in sectors of 32 bytes."""
    return np.array([record.requested_bytes(space="global"), record.sector_bytes(space="global")])


costs = {rung: cost(convolution.record(image, rung, blocks=[])) for rung in ("global", "constant")}
for rung, (asked, moved) in costs.items():
    print(f"weights in {rung} memory: asked {asked / 1e6:5.2f} MB, moved {moved / 1e6:5.2f} MB")
less = 100 * (1 - costs["constant"] / costs["global"])
asked_less.answer(less[0])
moved_less.answer(less[1])

# %% [markdown]
# Nearly half of the bytes asked for are gone, but only a sixth of the bytes moved: a request for a weight asked for 128 bytes and moved 32.
#
# ### Exercise 2: the weights move
#
# *Difficulty ●●○, 10 minutes.* `from_global` below convolves an image of $h \times w$ pixels with 5 × 5 weights, zeros outside. Write `from_constant(image, out, h, w)` with the same results. Its weights are an array of 25 `float` called `taps` in constant memory. The cell makes a module, `filters`. The check fills your array by `filters.constant("taps", weights)` and launches `filters["from_constant"]`.
#
# <details><summary>Hint</summary>
#
# `__constant__ float taps[25];` stands before the kernel, outside of it. Below it, copy `from_global`, and change its name, its parameters and one place of the sum.
#
# </details>

# %% language="cuda" magic_args="filters" exercise="constant-filter"
# __global__ void from_global(const float *image, const float *filter, float *out, int h, int w) {
#     int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
#     if (x >= w || y >= h) return;
#     float sum = 0;
#     for (int j = -2; j <= 2; j++) for (int i = -2; i <= 2; i++)
#         if (y + j >= 0 && y + j < h && x + i >= 0 && x + i < w)
#             sum += filter[5 * (j + 2) + i + 2] * image[(y + j) * w + x + i];
#     out[y * w + x] = sum;
# }
# // your part
# // BEGIN SOLUTION
# __constant__ float taps[25];
# __global__ void from_constant(const float *image, float *out, int h, int w) {
#     int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
#     if (x >= w || y >= h) return;
#     float sum = 0;
#     for (int j = -2; j <= 2; j++) for (int i = -2; i <= 2; i++)
#         if (y + j >= 0 && y + j < h && x + i >= 0 && x + i < w)
#             sum += taps[5 * (j + 2) + i + 2] * image[(y + j) * w + x + i];
#     out[y * w + x] = sum;
# }
# // END SOLUTION
# // end of your part

# %% check="constant-filter" points=2
check_memory.constant_filter(filters)

# %% [markdown]
# Your kernel should ask for and move as much as the line *weights in constant memory* above. (`from_global` skips weights whose pixel lies outside the image, so it asks for a little less than `convolve_global`.)

# %%
given = {"from_global": (image, blur)}
if check_memory.constant_filter.passed(filters):
    filters.constant("taps", blur)
    given["from_constant"] = (image,)
for name, inputs in given.items():
    launch = filters[name][(-(-W // 32), -(-H // 8)), (32, 8)]
    asked, moved = cost(launch.record(*inputs, np.zeros_like(image), H, W, blocks=[]))
    print(f"{name:13} asked {asked / 1e6:5.2f} MB, moved {moved / 1e6:5.2f} MB")

# %% [markdown]
# ### Pixels: a tile with its halo in shared memory
#
# *[Shared memory](glossary.md#shared-memory)* belongs to a block: all of its threads can read and write it. It is small (48 KiB by default) and lies on the GPU's chip. The pixels that a block needs are its *[tile](glossary.md#tile)*: the pixels at its $T_y \times T_x$ outputs, and a *[halo](glossary.md#halo)* of $r$ pixels on each side. The block can load each of them once, and then compute from shared memory:
#
# $$ (T_y + k - 1)(T_x + k - 1) \text{ loads for } T_y T_x \text{ outputs} $$
#
# The tile has more pixels than the block has threads, so each thread loads in a loop. Thread $t$ loads pixel $t$ of the tile, then pixel $t + T_y T_x$, and so on, until the tile is full.
#
# > **Predict.** A block has 4 × 4 threads and the filter is 3 × 3, so the tile is 6 × 6. Number threads and pixels row by row from 0. Which thread loads the last pixel of the tile, and in which iteration of its loop?

# %%
corner_thread = Prediction("thread that loads the last pixel", None)  # your number for None
corner_pass = Prediction("its iteration, from 1", None)

# %%
tiled = three.record(small, "tiled")
loads = tiled.picked(array="tile", kind="write", block=1)
last = loads[tiled.elements(loads) == 6 * 6 - 1][0]  # whoever wrote the tile's last element
corner_thread.answer(int(last["thread"]))
corner_pass.answer(int(last["occurrence"]) + 1)
tile_animation(tiled, "image", "tile", (6, 6), block=1)

# %% [markdown]
# Step through the picture. In iteration 1, threads 0 to 5 write zeros (grey), because the tile's first row lies above the image. In iteration 3, only four threads still have a pixel to load. Here is the kernel:

# %%
Code(convolution.module["convolve_tiled"].listing, language="c++")

# %% [markdown]
# `__shared__` declares the tile; `weights` is the filter in constant memory. `__syncthreads()` is a *[barrier](glossary.md#barrier)*: no thread passes it before all threads of the block have reached it. Every thread then sees what the others wrote before the barrier. Lesson 3 shows what happens without it.
#
# > **Predict.** Blocks have 8 rows of 32 threads, the filter is 5 × 5. By what factor does `convolve_tiled` reduce the bytes that `convolve_global` asks of global memory?

# %%
tile_factor = Prediction("bytes asked for, first kernel ÷ tile", None)  # your number for None

# %%
operations, table = flops(image.shape, weights.shape), []
for rung in ("global", "constant", "tiled"):
    record = convolution.record(image, rung, blocks=[])
    asked, moved = cost(record)
    shared = record.requested_bytes(space="shared")
    table.append((f"convolve_{rung}", asked, moved, operations / moved, shared))
least = record.compulsory_bytes()
table.append(("the least: each byte once", least, least, operations / least, 0))
tile_factor.answer(table[0][1] / table[2][1])
lines = ["| kernel | asked for (MB) | moved in sectors (MB) | operations per byte moved "
         "| shared memory (MB) |", "|---" * 5 + "|"]  # fmt: skip
lines += [f"| {name} | {asked / 1e6:.2f} | {moved / 1e6:.2f} | {intensity:.1f} "
          f"| {f'{shared / 1e6:.1f}' if shared else '–'} |" for name, asked, moved, intensity, shared in table]  # fmt: skip
print(f"convolve_global ÷ convolve_tiled: asked for {table[0][1] / table[2][1]:.1f},",
      f"moved {table[0][2] / table[2][2]:.1f}")  # fmt: skip
Markdown("\n".join(lines))

# %% [markdown]
# A block loads $12 \cdot 36$ pixels for $8 \cdot 32$ outputs: 1.7 pixels for each output, where the first kernel loads 25. All further reads of pixels go to shared memory; the last column counts them and the writes that fill the tiles. `convolve_constant` and `convolve_tiled` move more bytes than they ask for: many requests for pixels begin inside a sector.
#
# **Is the tile 19 times as fast?** No, 1.8 times: on an H200, with 8192 × 8192 pixels, the three kernels took 0.77, 0.73 and 0.43 ms. With a 3 × 3 filter they took 0.32, 0.31 and 0.35 ms: the tile was the slowest. All three moved each byte to or from the GPU's memory about once: its caches keep a pixel that another thread has just read. So the tile can save only requests to the caches, and for the small filter this did not pay. (Times and counts on an H200 come from `make gpu`; `data/gpu/` holds the record.)
#
# The *operations per byte moved* (multiplications and additions) are the kernel's [arithmetic intensity](glossary.md#arithmetic-intensity). [Notebook 07](07_roofline.ipynb) shows what it decides.
#
# ### Exercise 3: load a halo
#
# *Difficulty ●●○, 15 minutes.* In a moving average, $y_i$ is the mean of $x_{i-2} \dots x_{i+2}$, with zeros outside. A block of 32 threads needs 36 elements. Fill `tile[j]` with `x[first + j]` for all `j` from 0 to 35. A block may read each element of `x` at most once, a thread at most two elements.
#
# <details><summary>Hint</summary>
#
# There are 36 elements and 32 threads: which threads load a second element? For which $j$ does `first + j` lie outside of `x`?
#
# </details>

# %% language="cuda" exercise="halo"
# #define R 2
# __global__ void moving_average(const float *x, float *y, int n) {
#     __shared__ float tile[32 + 2 * R];
#     int first = blockIdx.x * 32 - R;
#     // your part
#     // BEGIN SOLUTION
#     for (int j = threadIdx.x; j < 32 + 2 * R; j += 32)
#         tile[j] = first + j >= 0 && first + j < n ? x[first + j] : 0.0f;
#     // END SOLUTION
#     // end of your part
#     __syncthreads();
#     int me = blockIdx.x * 32 + threadIdx.x;
#     if (me < n) {
#         float sum = 0;
#         for (int e = 0; e <= 2 * R; e++) sum += tile[threadIdx.x + e];
#         y[me] = sum / (2 * R + 1);
#     }
# }

# %% check="halo" points=3
check.moving_average(moving_average)

# %% [markdown]
# Your kernel smooths a noisy sine. In theory, the mean of five independent numbers has $1/\sqrt5 = 0.45$ of their standard deviation. Here the ratio is 0.47:

# %%
wave = np.sin(np.linspace(0, 4 * np.pi, 400))
noisy = (wave + np.random.default_rng(5).normal(0, 0.3, 400)).astype(np.float32)
curves = {"with noise": noisy}
if check.moving_average.passed(moving_average):
    curves["your moving average"] = np.zeros_like(noisy)
    moving_average[-(-400 // 32), 32](noisy, curves["your moving average"], 400)
figure, ax = plt.subplots(
    figsize=(8, 3.2), label="The mean of five numbers lies nearer the sine than one number does"
)
ax.plot(wave, "--", color=style.GREY, marker="", lw=2.5, zorder=3, label="sine")
for (name, curve), line in zip(curves.items(), (".", "-"), strict=False):
    ax.plot(curve, line, ms=4, label=name)
    print(f"{name}: standard deviation from the sine {np.std(curve - wave):.3f}")
ax.set(xlabel="$i$", ylabel="$x_i$ and $y_i$")
ax.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
plt.show()

# %% [markdown]
# > **Answer.** A block avoids nearly all repeated reads: weights go to constant memory, and the block loads each pixel of its tile once, which takes $(T_y+k-1)(T_x+k-1) / (T_yT_x)$ loads for each output. Only the pixels of halos are still read by more than one block.
#
# ## Lesson 3. What does a barrier order?
#
# *60 minutes, of which the project takes 30.* **The question:** when threads exchange values through shared memory, what goes wrong without a barrier, and where does one belong?
#
# ### Reverse 64 elements
#
# The next kernel reverses each block of 64 elements through shared memory. Thread 0 needs what thread 63 loads. Nothing guarantees that thread 63 has loaded it yet.
#
# ### Exercise 4: a missing barrier
#
# *Difficulty ●○○, 5 minutes.* Insert the missing line. The last block may hold fewer than 64 elements.
#
# <details><summary>Hint</summary>
#
# Every thread of the block must reach the barrier, even if it loaded nothing.
#
# </details>

# %% language="cuda" exercise="barrier"
# __global__ void reverse_blocks(float *x, int n) {
#     __shared__ float tile[64];
#     int first = blockIdx.x * 64, size = min(64, n - first);
#     if (threadIdx.x < size) tile[threadIdx.x] = x[first + threadIdx.x];
#     // your part
#     // BEGIN SOLUTION
#     __syncthreads();
#     // END SOLUTION
#     // end of your part
#     if (threadIdx.x < size) x[first + threadIdx.x] = tile[size - 1 - threadIdx.x];
# }

# %% check="barrier" points=2
check.reverse_blocks(reverse_blocks)

# %% [markdown]
# > **Predict.** Take the barrier out. The runner executes thread 0 to its end, then thread 1, and so on. The first to read an unwritten element is thread 0. Which element is it?

# %%
reads_first = Prediction("the first unwritten element that is read", None)  # its number for None

# %%
without = re.sub(r"__syncthreads\s*\(\s*\)", "", reverse_blocks.module.source)
for name, source in {"without": without, "as it stands": reverse_blocks.module.source}.items():
    with Module(source, device="cpu", check=True) as module:
        try:
            module["reverse_blocks"][1, 64](np.arange(64, dtype=np.float32), 64)
            print(f"{name}: no fault found")
        except KernelError as error:
            print(f"{name}: {error}")
            if name == "without":
                reads_first.answer(int(re.search(r"tile\[(\d+)\]", str(error))[1]))

# %% [markdown]
# ### What breaks: a barrier that half a block reaches
#
# Here, half of the threads meet an extra barrier:

# %% language="cuda"
# __global__ void half_waits(float *x) {
#     __shared__ float tile[64];
#     tile[threadIdx.x] = x[threadIdx.x];
#     if (threadIdx.x < 32) __syncthreads();
#     __syncthreads();
#     x[threadIdx.x] = tile[63 - threadIdx.x];
# }

# %% tags=["raises-exception"]
half_waits[1, 64](np.arange(64, dtype=np.float32))

# %% [markdown]
# In CUDA, the result of such a kernel is undefined. The block may hang, or the two halves may meet at different barriers and read half a tile. So put only the load under the `if`; all threads must reach the *same* barrier. For the same reason, do not write `if (i >= n) return;` above a barrier: a thread that has returned never reaches it. (Some GPUs tolerate this; our runner does not.)
#
# ### A race
#
# In a **[race](glossary.md#race)**, two threads touch the same element, at least one of them writes, and nothing orders the two accesses. The result may change from run to run. This kernel sums 64 numbers as a tree: 32 threads add the upper half of `part` to the lower half, then 16 threads do so with the 32 sums, and so on. Its loop has no barrier.

# %% language="cuda"
# __global__ void racing_sum(const float *x, float *total) {
#     __shared__ float part[64];
#     part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
#     __syncthreads();
#     for (int half = 32; half > 0; half /= 2)
#         if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
#     if (threadIdx.x == 0) total[blockIdx.x] = part[0];
# }

# %% [markdown]
# > **Predict.** After the barrier, the runner executes thread 0 to its end, then thread 1, and so on. For which element of `part` does the runner report the first race?

# %%
race_at = Prediction("element of part where two threads meet", None)  # its number for None

# %% tags=["raises-exception"]
try:
    racing_sum[1, 64](np.arange(64, dtype=np.float32), np.zeros(1, np.float32))
except KernelError as error:
    race_at.answer(int(re.search(r"part\[(\d+)\]", str(error))[1]))
    raise

# %% [markdown]
# Thread 0 ran its whole loop and read `part[1]` before thread 1 had added to it. (An [atomic operation](glossary.md#atomic-operation) helps only if both threads add; thread 0 only reads `part[1]`.) Old code left out barriers among the last 32 threads, because all threads of a warp used to execute an instruction together. Since NVIDIA's Volta (2017) they may run apart, and the barriers are needed.
#
# ### Exercise 5: a sum without a race
#
# *Difficulty ●●○, 15 minutes.* Write the loop. `total[b]` becomes the sum of the 64 elements of block `b`, computed as a tree: each thread does at most one addition per step. Do not read `x` again.
#
# <details><summary>Hint</summary>
#
# The first step reads what other threads have just loaded; each later step reads what the step before wrote. At which place of the loop does one barrier serve both, and do all threads reach it?
#
# </details>

# %% language="cuda" exercise="tree-sum"
# __global__ void tree_sum(const float *x, float *total) {
#     __shared__ float part[64];
#     part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
#     // your part
#     // BEGIN SOLUTION
#     for (int half = 32; half > 0; half /= 2) {
#         __syncthreads();
#         if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
#     }
#     // END SOLUTION
#     // end of your part
#     if (threadIdx.x == 0) total[blockIdx.x] = part[0];
# }

# %% check="tree-sum" points=3
check.tree_sum(tree_sum)

# %% [markdown]
# A launch turns every 64 numbers into one. Launched again on its own sums, your kernel adds up the whole photograph:

# %%
left = photograph.ravel()
while check.tree_sum.passed(tree_sum) and len(left) > 1:
    left = np.pad(left, (0, -len(left) % 64))  # zeros, up to whole blocks
    totals = np.zeros(len(left) // 64, np.float32)
    tree_sum[len(totals), 64](left, totals)
    print(f"{len(left):6} numbers become {len(totals):4}")
    left = totals
mean = f"{left[0] / photograph.size:.5f}" if len(left) == 1 else "–"
print(f"mean of the photograph by your sums: {mean}, NumPy's: {photograph.mean(dtype=float):.5f}")

# %% [markdown]
# ### Exercise 6, the project: the photograph through your tile
#
# *Difficulty ●●●, 30 minutes.* Write the whole kernel: a 5 × 5 filter, blocks of 8 rows of 32 threads, zeros outside the image. A block first fills its tile: it reads each pixel at most once, and no thread reads more than four pixels. Then each thread computes one output from the tile. `filter` holds 25 weights, row after row.
#
# <details><summary>Hint</summary>
#
# Load the tile as in lesson 2: number threads and elements of the tile row by row. The tile's first pixel lies two rows above and two columns left of the block's first output; in which row and column of the tile lies element $e$? No thread may return before the barrier.
#
# </details>

# %% language="cuda" exercise="my-convolution"
# __global__ void my_convolution(const float *image, const float *filter, float *out,
#                                int height, int width) {
#     __shared__ float tile[12][36];
#     // your part
#     // BEGIN SOLUTION
#     int top = blockIdx.y * 8 - 2, left = blockIdx.x * 32 - 2;
#     for (int e = threadIdx.y * 32 + threadIdx.x; e < 12 * 36; e += 256) {
#         int y = top + e / 36, x = left + e % 36;
#         bool inside = y >= 0 && y < height && x >= 0 && x < width;
#         tile[e / 36][e % 36] = inside ? image[y * width + x] : 0.0f;
#     }
#     __syncthreads();
#     int y = top + 2 + threadIdx.y, x = left + 2 + threadIdx.x;
#     if (y < height && x < width) {
#         float sum = 0;
#         for (int j = 0; j < 5; j++)
#             for (int i = 0; i < 5; i++)
#                 sum += filter[5 * j + i] * tile[threadIdx.y + j][threadIdx.x + i];
#         out[y * width + x] = sum;
#     }
#     // END SOLUTION
#     // end of your part
# }

# %% check="my-convolution" points=5
check.my_convolution(my_convolution)

# %% [markdown]
# Three filters through your kernel: one blurs the photograph, one sharpens it, and one finds its edges.

# %%
delta = np.zeros((5, 5), np.float32)
delta[2, 2] = 1
yours, (height, width) = {"photograph": photograph}, photograph.shape
if check.my_convolution.passed(my_convolution):
    for name, taps in {"blur": blur, "sharpen": 2.5 * delta - 1.5 * blur,
                       "edges": 4 * (delta - blur)}.items():  # fmt: skip
        out, grid = np.zeros_like(photograph), (-(-width // 32), -(-height // 8))
        my_convolution[grid, (32, 8)](photograph, taps, out, height, width)
        yours[f"your {name}"] = np.abs(out)
plots.images({name: picture[corner] for name, picture in yours.items()},
             "One kernel, three filters: edges are what the blur removes")  # fmt: skip
plt.show()

# %% [markdown]
# > **Answer.** Without a barrier a thread may read an element before another has written it, or overwrite one that another thread still needs. A barrier belongs between a write and the first read by another thread. If a loop then overwrites the element, a second barrier belongs between that read and the next write; notebook 14 has such a loop. Every thread of the block must reach each barrier.
#
# ## In practice, and where to read on
#
# You rarely write a convolution yourself: `torch.nn.functional.conv2d` calls cuDNN, and `cupyx.scipy.ndimage` filters images. On a GPU, NVIDIA's `compute-sanitizer` finds much of what the runner caught here: `memcheck` (bounds), `racecheck` (races in shared memory), `synccheck` (barriers), `initcheck` (reads of global memory that was never written).
#
# <details><summary>What the sources say, what we measured</summary>
#
# | the source says | here |
# |---|---|
# | host and device memory, copy, launch, grid of blocks of threads, at most 1024 threads in a block | launches and their limits run in lesson 1; `cudaMalloc` and error codes are only described |
# | `ceil(N/256.0)` blocks and the test `i < N` | run; without the test, two threads are caught out of bounds |
# | convolution by one thread for each output, the filter in constant memory, a tile that all threads load | run, equal to SciPy, traffic counted |
#
# </details>
#
# - NVIDIA, *CUDA C++ Programming Guide*: the language, the limits, what a barrier promises.
# - V. Podlozhnyuk, *Image Convolution with CUDA* (NVIDIA, 2007): tiles with halos, measured.
# - W. W. Hwu, D. B. Kirk, I. El Hajj, *Programming Massively Parallel Processors* (4th edition, 2022), chapters 2 to 7: the same road, at length.
# - S. Rush, *GPU Puzzles*: fourteen more exercises of this kind.
#
# **Next**: [14 Move fewer bytes: sectors, banks, and the shape of a block](14_cuda_bytes_and_shapes.ipynb) asks why, of two kernels that ask for the same bytes, one moves eight times as many.
