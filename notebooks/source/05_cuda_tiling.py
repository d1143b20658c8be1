# %% [markdown]
# # Convolve an image in CUDA C, with or without a GPU
#
# At the end you will have written a CUDA C kernel that blurs and sharpens a photograph through a tile in shared memory, seen which thread reads which address, and counted how many bytes each version asks for.

# %% [markdown]
# **You will be able to**
#
# - compute from block and thread number which element a thread works on, and say why a bounds test is needed;
# - predict the bytes that a convolution kernel asks for, and check the prediction by counting;
# - load a tile with its halo into shared memory, with the barriers that it needs, and recognise a race where one is missing;
# - tell a coalesced access from one that is not, and repair the second; predict bank conflicts;
# - multiply matrices through tiles, with one output a thread and with several, and scan by a tree, each with its cost counted;
# - predict in how many passes a warp takes a branch, and give the work to threads that stand together;
# - count atomics, and write a histogram that needs few of them on global memory;
# - compute how many warps are resident, and say which limit decides it.
#
# **You need** some Python and the look of C (`for`, `if`, arrays). *Time:* 300 minutes, of which your machine works for less than three. *Cores:* any number. *GPU:* none needed; a C++ compiler is.

# %% [markdown]
# ## Notation
#
# | symbol | meaning | shape or unit |
# |---|---|---|
# | $I$ | image | $H \times W$ floats of 4 bytes |
# | $F$ | filter, its side odd | $k \times k$ |
# | $O$ | output | $H \times W$ |
# | $r$ | radius of the filter, $(k-1)/2$ | pixels |
# | $T_y \times T_x$ | outputs of one [block](glossary.md#block): the [tile](glossary.md#tile) | pixels |
# | $Q$ | global memory that all threads ask for | bytes |
# | $a$ | [arithmetic intensity](glossary.md#arithmetic-intensity): operations per byte | FLOP/B |

# %% tags=["parameters"]
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Code, Markdown
from scipy.ndimage import correlate

from helpers.claims import evidence
from helpers.cuda import Module
from helpers.cuda.ladder import RUNGS, Convolution, flops
from helpers.exercises import cuda as check
from helpers.exercises import cuda_memory as check_memory
from helpers.exercises import cuda_products as check_products
from helpers.plots import cuda as plots
from helpers.plots import style
from helpers.predictions import Prediction

# %load_ext helpers.cuda
style.use()


@dataclass(frozen=True)
class Parameters:
    side: int = 256  # pixels: the image whose traffic is counted
    k: int = 5  # side of the filter
    seed: int = 5


P = Parameters()
rng = np.random.default_rng(P.seed)

# %% [markdown]
# ## Where this ends: a photograph, blurred, sharpened, its edges
#
# Each picture below comes from the same CUDA C kernel, with another filter of 25 numbers. By the end of the notebook you will have written one yourself that does the same.

# %%
from sklearn.datasets import load_sample_image

photograph = load_sample_image("china.jpg").mean(axis=2).astype(np.float32) / 255
blur = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype(np.float32) / 256
delta = np.zeros((5, 5), np.float32)
delta[2, 2] = 1
sharpen, edges = 2.5 * delta - 1.5 * blur, 4 * (delta - blur)

shown = {"photograph": photograph}
for name, weights in {"blur": blur, "sharpen": sharpen, "edges": edges}.items():
    shown[name] = np.abs(Convolution(weights, "replicate")(photograph))
corner = np.s_[150:270, 250:430]  # of 427 × 640 pixels, so that single pixels can be seen
plots.images({name: picture[corner] for name, picture in shown.items()})
plt.show()

# %% [markdown]
# **Predict:** an output pixel of a $5 \times 5$ filter needs 25 pixels of the image. For an image of $256 \times 256$ the simplest kernel therefore reads nearly $25 \cdot 65\,536$ pixels. By what factor can a cleverer kernel reduce these *pixel reads*, at most? Type your number; it is answered where the tile has been counted.

# %%
pixel_reads = Prediction(
    "pixel reads of the simplest kernel ÷ of the best possible", None
)  # your number

# %% [markdown]
# ## Host and device
#
# A GPU is a computer beside the computer. The *host* is your processor with its memory; the *[device](glossary.md#host-and-device)* is the GPU with its own. Most of that is *global memory*, which every thread there can reach; a thread's own variables lie in *registers*, inside the processor. A program on the host copies arrays to the device, *launches* a function there, and copies the results back. That function is the *[kernel](glossary.md#cuda-kernel)* (nothing to do with the kernel of a notebook), written in CUDA C: C++ with a few words added.
#
# | in C on the host | here, in Python |
# |---|---|
# | `cudaMalloc`, `cudaMemcpy` to the device | done for NumPy arrays when you launch; CUDA tensors of PyTorch are used where they are |
# | `kernel<<<grid, block>>>(a, n)` | `kernel[grid, block](a, n)` |
# | `cudaGetLastError()` after each call | an exception that says what was wrong |
# | `cudaMemcpy` to the host, `cudaFree` | done when the launch ends |
#
# Where there is no GPU, the same source runs on your processor: one thread of CUDA after the other, which is slower and sees more. The next cell says which of the two this is.

# %%
add = Module("vector_add.cu")
print(f"kernels run on: {add.device}")
needs = add["vector_add"].resources
print(add.note or f"NVIDIA's compiler took the source: {needs.registers} registers a thread")
Code(add["vector_add"].listing, language="c++")

# %% [markdown]
# (At the left stand the lines' numbers in the file; what follows names lines by them.) `__global__` marks a kernel. Every thread runs the same function; only `threadIdx` (its number in its [block](glossary.md#block)) and `blockIdx` (its block's number in the [grid](glossary.md#grid)) differ. `blockDim` is the size of a block. In a grid of one dimension a thread finds its element by
#
# $$ i = \text{blockIdx} \cdot \text{blockDim} + \text{threadIdx} $$
#
# ### By hand: ten elements, blocks of four
#
# Ten elements need $\lceil 10/4 \rceil = 3$ blocks, which are 12 threads. **Predict** how many of the 12 write an element of `c`, and what the others do; then run the cell, and click an element of `c`.

# %%
writers = Prediction("threads that write, of 12", None)  # your number for None

# %%
from helpers.plots.cuda_html import thread_picture, tile_animation

a, b, c = np.arange(10, dtype=np.float32), np.full(10, 100, np.float32), np.zeros(10, np.float32)
on_cpu = Module("vector_add.cu", device="cpu")
record = on_cpu["vector_add"][3, 4].record(a, b, c, 10)
print(c)
writers.answer(record.count(array="c", kind="write"))
thread_picture(record, "a", "c")

# %% [markdown]
# The picture was drawn from a record: `record(...)` runs the launch on the CPU and notes every access of every thread. 12 threads ran, 10 of them wrote: the other two failed the test `i < n`. Here is the whole record, one row for each access in the source: its line, how often threads did it, and how many bytes they asked for. Threads go in groups of 32 at most, and a *request* is one such group asking once. (*Sectors* and *conflicts* have their sections below.)

# %%
print(record)

# %% [markdown]
# ### What breaks: no bounds test
#
# A cell that begins with `%%cuda` is CUDA C. It is compiled, by NVIDIA's compiler too where that is installed, and its kernels become names that you can launch. Without the test, threads 10 and 11 read beyond the arrays. A GPU would not say so: the memory there usually belongs to someone else's array, and the result is wrong later. Here a launch in a notebook is checked: bounds, races, what was never written.
#
# What runs on a processor differs from a GPU in more than speed: threads take turns in a fixed order, so that a result that depends on their order comes out the same each time, and multiplications and additions are not joined into one instruction, so that last bits may differ. A *shuffle*, by which the threads of one group of 32 read each other's registers, may read one that takes no part, and CUDA does not say what it then gets: here NaN for a `float` and a number above two thousand millions for an `int`, so that no result looks right by accident. One thing the checks do not see: a `__device__` variable, which stays on the device from launch to launch, is one for checked and another for unchecked launches.

# %% language="cuda"
# __global__ void careless(const float *a, const float *b, float *c) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     c[i] = a[i] + b[i];
# }

# %% tags=["raises-exception"]
careless[3, 4](a, b, c)

# %% [markdown]
# ### A launch that no device takes
#
# A block has at most 1024 threads, and shared memory (below) has a size. A launch that breaks a limit of CUDA is refused before it starts.

# %% tags=["raises-exception"]
add["vector_add"][1, 2048](a, b, c, 10)

# %% [markdown]
# ### Up to three dimensions
#
# Grid and block may have two dimensions, or three: `blockIdx` and `threadIdx` then have an `x`, a `y` and a `z`, and so do the sizes in the launch. Below each thread writes its $z$, $y$ and $x$ as three digits, in a grid of $2 \times 1 \times 2$ blocks of $3 \times 2 \times 2$ threads. **Predict** which number the thread $(x, y, z) = (2, 0, 1)$ of block $(1, 0, 1)$ writes.

# %% language="cuda"
# __global__ void places(int *place, int height, int width) {
#     int x = blockIdx.x * blockDim.x + threadIdx.x;
#     int y = blockIdx.y * blockDim.y + threadIdx.y;
#     int z = blockIdx.z * blockDim.z + threadIdx.z;
#     place[(z * height + y) * width + x] = 100 * z + 10 * y + x;
# }

# %%
digits = Prediction("number that this thread writes", None)  # your number for None

# %%
volume = np.zeros((4, 2, 6), np.int32)  # z, y, x
record = places[(2, 1, 2), (3, 2, 2)].record(volume, 2, 6)  # x, y, z
print(volume)
# blocks and threads are numbered along x, then y, then z: this is thread 8 of block 3
written = record.picked(array="place", kind="write", block=3)
digits.answer(int(volume.flat[record.elements(written[written["thread"] == 8])[0]]))

# %% [markdown]
# ### Exercise 1: a times x plus y
#
# *Difficulty ●○○, 5 minutes.* Complete the kernel so that $y_i \leftarrow a\,x_i + y_i$ for $i < n$, on any grid that has a thread for each element. Each element is one thread's work.
#
# <details><summary>Hint</summary>
#
# Two lines: the number of the thread in the whole grid, as in `vector_add`, is there. What must hold before it touches `x` or `y`?
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
# What is it good for? With $I$ the photograph and $B$ the blurred one, the sharpened one of the first figure is $2.5\,I - 1.5\,B$: an axpy with $a = -1.5$, $x = B$ and $y = 2.5\,I$. Here it is by yours, for the corner that was shown.

# %%
y, x = 2.5 * photograph[corner].ravel(), shown["blur"][corner].ravel()
if check.axpy.passed(axpy):
    axpy[-(-y.size // 256), 256](-1.5, x, y, y.size)
    sharper = np.abs(y.reshape(photograph[corner].shape))
    apart_by = np.abs(sharper - shown["sharpen"][corner]).max()
    print(f"sharpened by your axpy, largest difference from the first figure: {apart_by:.1e}")
    plots.images({"photograph": photograph[corner], "by your axpy": sharper})
    plt.show()
else:
    print("sharpened by your axpy: –")

# %% [markdown]
# ## The simplest convolution: a thread for each output
#
# $$ O_{y,x} = \sum_{j=0}^{k-1} \sum_{i=0}^{k-1} F_{j,i}\; I_{y+j-r,\;x+i-r} $$
#
# Deep learning calls this a convolution; a mathematician would turn the filter round first. Outside the image $I$ is taken as zero (or as the nearest pixel, or mirrored: the kernels know all three). Grid and block have two dimensions here: $x$ for columns, $y$ for rows. This kernel is the first *rung* of a ladder of four, which all compute the same: `global`, `constant`, `tiled` and `rows`.

# %%
weights = rng.standard_normal((P.k, P.k)).astype(np.float32)
convolution = Convolution(weights, "zero", device="cpu")
Code(convolution.module["convolve_global"].listing, language="c++")

# %% [markdown]
# `pixel(...)` returns the image's value, or zero outside. First the check against SciPy, then the picture: an image of $8 \times 12$, blocks of $4 \times 4$, a filter of $3 \times 3$. Click an output to see what its thread reads, then a pixel of the image to see how many threads read *it*.

# %%
small = rng.random((8, 12), np.float32)
three = Convolution(np.full((3, 3), 1 / 9), "zero", tile=(4, 4), device="cpu")
out = three(small, "global")
print(
    "largest difference from SciPy:",
    np.abs(out - correlate(small, three.weights, mode="constant")).max(),
)
naive = three.record(small, "global")
thread_picture(naive, "image", "out")

# %% [markdown]
# A pixel in the middle was read by nine threads, of up to four blocks. That is the waste that the rest of the notebook removes.
#
# ### Traffic, predicted and counted
#
# Every thread reads $k^2$ weights and up to $k^2$ pixels and writes one output:
#
# $$ Q_\text{global} = 4 H W (2k^2 + 1) \text{ bytes, less the pixels outside the image.} $$
#
# ### Exercise 2: reads at the border
#
# *Difficulty ●●○, 15 minutes.* How many pixel reads remain, over all threads, when none is made outside of the image? Return the number for an image of $H \times W$ and a filter of $k \times k$ ($k$ odd, not wider than the image).
#
# <details><summary>Hint</summary>
#
# Rows and columns separate: the number is a product of two sums. For a shift by $i$ columns, $W - |i|$ of the $W$ threads of a row still read inside.
#
# </details>


# %% exercise="reads-inside"
def reads_inside(H, W, k):
    """Return the pixel reads of all H × W threads that fall into the image."""
    # BEGIN SOLUTION
    r = k // 2
    rows = sum(H - abs(j) for j in range(-r, r + 1))
    return rows * sum(W - abs(i) for i in range(-r, r + 1))
    # END SOLUTION


# %% check="reads-inside" points=2
check.reads_inside(reads_inside)

# %%
image = rng.random((P.side, P.side), np.float32)
# blocks=[]: every block is counted, and the single accesses of none are kept
counted = {rung: convolution.record(image, rung, blocks=[]) for rung in RUNGS}
H, W = image.shape
k, r = P.k, P.k // 2
inside = round(correlate(np.ones((H, W)), np.ones((k, k)), mode="constant").sum())  # counted
print("pixel reads inside the image:", inside, "yours:", reads_inside(H, W, k) or "–")
predicted = {"global": 4 * (H * W * k**2 + inside + H * W)}
print(
    "predicted", predicted["global"], "counted", counted["global"].requested_bytes(space="global")
)

# %% [markdown]
# The two agree to the byte. `inside` counts the pixel reads that remain; those outside of the image cost nothing.
#
# ## The filter in constant memory
#
# Every thread reads the same 25 weights at the same time. *[Constant memory](glossary.md#constant-memory)* is made for that: 64 KiB that a kernel may only read, with a [cache](glossary.md#cache) that hands one value to all threads of a *[warp](glossary.md#warp)* at once. A warp is a group of 32 threads of a block that execute together, its *lanes* 0 to 31. The declaration stands outside of the kernel, and the host fills it: `module.constant("weights", array)`.

# %%
predicted["constant"] = 4 * (inside + H * W)
print(
    "predicted",
    predicted["constant"],
    "counted",
    counted["constant"].requested_bytes(space="global"),
)
print(counted["constant"])

# %% [markdown] claims="05-constant"
# Threads ask global memory for nearly half as many bytes ($k^2$ of $2k^2+1$). In sectors only about a sixth is saved: the 32 lanes of a warp read the same weight, so a request for weights touched one sector. The weights' accesses now stand in a row of their own, `constant`. Its column of sectors says nothing about a GPU, which serves constant memory from a cache of its own.
#
# ### Exercise 3: the weights move
#
# *Difficulty ●●○, 10 minutes.* `from_global` below convolves an image of $h \times w$ pixels with 5 × 5 weights, zeros outside. Write `from_constant(image, out, h, w)` beside it, with the same results: the 25 weights stand in an array of `float` called `taps` in constant memory, and are no parameter. An array lies there if its declaration begins with `__constant__`. The cell's module is called `filters`: the host fills the array by `filters.constant("taps", weights)`, and `filters["from_constant"]` is your kernel.
#
# <details><summary>Hint</summary>
#
# The declaration stands before the kernel, outside of it, and says how many numbers there are: `__constant__ float taps[25];`. What changes in a copy of `from_global`? Its name, one parameter, and one place in the sum.
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

# %%
given, results = {"from_global": (image, blur)}, {}
if check_memory.constant_filter.passed(filters):
    filters.constant("taps", blur)
    given["from_constant"] = (image,)
for name, inputs in given.items():
    results[name] = np.zeros_like(image)
    launch = filters[name][(-(-W // 32), -(-H // 8)), (32, 8)]
    record = launch.record(*inputs, results[name], H, W, blocks=[])
    print(f"{name:13} asks for {record.requested_bytes(space='global'):8} bytes of global memory,",
          f"reads {record.count(array='filter', kind='read'):7} weights there",
          f"and {record.count(space='constant'):7} in constant memory")  # fmt: skip
if check.reads_inside.passed(reads_inside):
    n = reads_inside(H, W, 5)
    print(f"by your exercise 2: {4 * (2 * n + H * W)} bytes before, {4 * (n + H * W)} afterwards")
if len(results) == 2:
    print("largest difference:", np.abs(results["from_global"] - results["from_constant"]).max())

# %% [markdown]
# (Here a weight is read only where its pixel lies inside, so that there are as many reads of weights as of pixels.)
#
# ## A tile with its halo in shared memory
#
# The threads of a block can share: `__shared__` [memory](glossary.md#shared-memory) belongs to a block, is small (48 KiB by default) and, NVIDIA's guides say, much faster than global memory; no run here shows that. The block first loads all pixels that its outputs need, once each: $T_y \times T_x$ pixels and a *[halo](glossary.md#halo)* of $r$ on each side. Then it computes from there.
#
# $$ \text{tile} = (T_y + k - 1)(T_x + k - 1) \text{ pixels for } T_y T_x \text{ outputs} $$
#
# The tile has more pixels than the block has threads, so that each thread loads one, then the next $T_y T_x$ further on, until all are there. **Predict**: which thread, numbered row by row from 0, loads the pixel in the corner of the halo at the lower right, and in which pass? Then step through it: a block of $4 \times 4$ threads, recorded while it ran.

# %%
corner_thread = Prediction("thread that loads the lower right corner", None)  # your number
corner_pass = Prediction("its pass, from 1", None)

# %%
tiled = three.record(small, "tiled")
loads = tiled.picked(array="tile", kind="write", block=1)
last = loads[tiled.elements(loads) == 6 * 6 - 1][0]  # whoever wrote the tile's last element
corner_thread.answer(int(last["thread"]))
corner_pass.answer(int(last["occurrence"]) + 1)
tile_animation(tiled, "image", "tile", (6, 6), block=1)

# %% [markdown]
# Block 1 lies at the upper border: its first pass writes zeros for the row above the image. In pass 3 only four threads have something left to load.

# %%
Code(convolution.module["convolve_tiled"].listing, language="c++")

# %% [markdown]
# `__syncthreads()` is the *[barrier](glossary.md#barrier)*: no thread passes it before all threads of the block have reached it, and what they wrote before is then visible to all. The count:

# %%
rows = [min(y + 8 + r, H) - max(y - r, 0) for y in range(0, H, 8)]
columns = [min(x + 32 + r, W) - max(x - r, 0) for x in range(0, W, 32)]
predicted["tiled"] = 4 * (sum(rows) * sum(columns) + H * W)
print("predicted", predicted["tiled"], "counted", counted["tiled"].requested_bytes(space="global"))
print(counted["tiled"])
read = {rung: counted[rung].count(array="image", kind="read") for rung in ("global", "tiled")}
print(f"pixel reads: {read['global'] / read['tiled']:.1f} times fewer than the first rung's")
pixel_reads.answer(read["global"] / (H * W))

# %% [markdown] claims="05-tile 05-small-tiles"
# Nobody can read a pixel less than once: that is the factor which the prediction asked for, nearly $k^2$. The tile comes close, as far as its halo lets it; a smaller tile has more halo for each output.

# %%
display(evidence("05-tile"), evidence("05-small-tiles"))

# %% [markdown]
# ### Exercise 4: how many loads for an output?
#
# *Difficulty ●○○, 5 minutes.* Write the number of global loads per output of the tiled kernel, away from the border, as a function of the tile and the filter.
#
# <details><summary>Hint</summary>
#
# The block loads a tile and makes outputs. Divide the one by the other.
#
# </details>


# %% exercise="loads"
def loads_per_output(tile_height, tile_width, k):
    """Return loads of global memory divided by outputs of one block."""
    # BEGIN SOLUTION
    return (tile_height + k - 1) * (tile_width + k - 1) / (tile_height * tile_width)
    # END SOLUTION


# %% check="loads" points=1
check.loads_per_output(loads_per_output)

# %% [markdown]
# ### What breaks: a barrier that half a block reaches
#
# In the kernel below half of the block has one barrier more than the other half. CUDA leaves undefined what happens then: without a check the two halves may meet at *different* barriers, go on with half a tile, or hang.

# %% language="cuda"
# __global__ void half(float *x) {
#     __shared__ float tile[64];
#     tile[threadIdx.x] = x[threadIdx.x];
#     if (threadIdx.x < 32) __syncthreads();
#     __syncthreads();
#     x[threadIdx.x] = tile[63 - threadIdx.x];
# }

# %% tags=["raises-exception"]
half[1, 64](np.arange(64, dtype=np.float32))

# %% [markdown]
# Threads that have *returned* are another matter: NVIDIA's guides promise that a barrier waits for the threads that have not exited. A block whose upper half has left by `if (i >= n) return;` before a barrier does not hang on a GPU since Volta (NVIDIA's generation of 2017); it is bad style, because the tile that those threads should have helped to load has holes, and older devices promise nothing. Here it is an error, and the launch's result is discarded.
#
# ### Exercise 5: a missing barrier
#
# *Difficulty ●●○, 5 minutes.* The kernel below turns round each block of 64 elements, and it lacks one line: put it in. The last block may be shorter than 64.
#
# <details><summary>Hint</summary>
#
# Thread 0 reads what thread 63 wrote. What must be true of thread 63 by then? And must *every* thread say so?
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
# > **Predict.** Without the line, and with threads that take turns from thread 0 on: which is the first to read what nobody has written? The cell after the next takes every barrier out of your kernel, launches it once without and once as it stands, and prints what goes wrong.

# %%
reads_first = Prediction("thread that first reads what is not there", None)  # its number for None

# %%
import re

from helpers.cuda import KernelError

without = re.sub(r"__syncthreads\s*\(\s*\)", "", reverse_blocks.module.source)
sources = {"without a barrier": without, "as it stands": reverse_blocks.module.source}
for name, source in sources.items():
    with Module(source, device="cpu", check=True) as module:
        try:
            module["reverse_blocks"][1, 64](np.arange(64, dtype=np.float32), 64)
            print(f"{name}: no fault found")
        except KernelError as error:
            print(f"{name}: {error}")
            if name == "without a barrier":
                reads_first.answer(int(re.search(r"thread \((\d+)", str(error))[1]))

# %% [markdown]
# ### Exercise 6: load a halo
#
# *Difficulty ●●○, 15 minutes.* A moving average: $y_i$ is the mean of $x_{i-2} \dots x_{i+2}$, with zeros outside. A block of 32 threads needs 36 elements. Fill `tile[k]` with $x_{\text{first}+k}$ for all $k$ from 0 to 35. No element may be read twice by a block, and no thread reads more than two.
#
# <details><summary>Hint</summary>
#
# A loop: thread $t$ takes $k = t$, then $k = t + 32$ if that is still in the tile. `first + k` may be negative, or beyond the end.
#
# </details>

# %% language="cuda" exercise="halo"
# #define R 2
# __global__ void moving_average(const float *x, float *y, int n) {
#     __shared__ float tile[32 + 2 * R];
#     int first = blockIdx.x * 32 - R;
#     // your part
#     // BEGIN SOLUTION
#     for (int k = threadIdx.x; k < 32 + 2 * R; k += 32)
#         tile[k] = first + k >= 0 && first + k < n ? x[first + k] : 0.0f;
#     // END SOLUTION
#     // end of your part
#     __syncthreads();
#     int i = blockIdx.x * 32 + threadIdx.x;
#     if (i < n) {
#         float sum = 0;
#         for (int k = 0; k <= 2 * R; k++) sum += tile[threadIdx.x + k];
#         y[i] = sum / (2 * R + 1);
#     }
# }

# %% check="halo" points=3
check.moving_average(moving_average)

# %% [markdown]
# Here it smooths a sine of 400 points to which noise was added. (The mean of five independent numbers has $1/\sqrt5 = 0.45$ of their standard deviation.)

# %%
wave = np.sin(np.linspace(0, 4 * np.pi, 400))
noisy = (wave + np.random.default_rng(P.seed).normal(0, 0.3, 400)).astype(np.float32)
curves = {"with noise": noisy}
if check.moving_average.passed(moving_average):
    curves["your moving average"] = np.zeros_like(noisy)
    moving_average[-(-400 // 32), 32](noisy, curves["your moving average"], 400)
figure, ax = plt.subplots(figsize=(8, 3.2))
for (name, curve), line in zip(curves.items(), (":", "-"), strict=False):
    ax.plot(curve, line, marker="", label=name)
    print(f"{name}: standard deviation from the sine {np.std(curve - wave):.2f}")
ax.set(xlabel="i", ylabel="$x_i$ and $y_i$", title="A sine with noise, and its moving average")
ax.legend()
plt.show()

# %% [markdown]
# ### A race
#
# So far a missing barrier meant reading what nobody had written yet. Worse is a **race**: two threads touch one place, one of them writes, and nothing says who comes first. Each run may give another sum. Here 64 threads add up a tile as a tree: 32 threads add the upper half to the lower, then 16, and so on.
#
# > **Predict.** Threads take turns again: thread 0 goes through the whole loop first, then thread 1, and so on. Which place of `part` is the first that two of them touch, one of them writing, with no barrier between?

# %%
race_at = Prediction("place of part where two threads meet", None)  # its number for None

# %% language="cuda"
# __global__ void racing_sum(const float *x, float *total) {
#     __shared__ float part[64];
#     part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
#     __syncthreads();
#     for (int half = 32; half > 0; half /= 2)
#         if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
#     if (threadIdx.x == 0) total[blockIdx.x] = part[0];
# }

# %% tags=["raises-exception"]
try:
    racing_sum[1, 64](np.arange(64, dtype=np.float32), np.zeros(1, np.float32))
except KernelError as error:
    race_at.answer(int(re.search(r"part\[(\d+)\]", str(error))[1]))
    raise

# %% [markdown] claims="05-race"
# The message names both threads, both lines and the place. Old code relied on the 32 threads of a warp moving in step and left the barrier out there; since Volta they need not. The runner reports such a loop in every run if there is no barrier in it, and also if `__syncwarp()`, which orders the threads of one warp, is the only barrier there is: the first addition takes what the other warp has stored. With a `__syncthreads()` in each turn it reports none. (Where all have met *before* the loop, as above, `__syncwarp()` at the end of each turn is enough: from the first addition on one warp does all the work.)
#
# ### Exercise 7: a sum without a race
#
# *Difficulty ●●○, 15 minutes.* Write the loop: `total[b]` becomes the sum of the 64 elements of block `b`, as a tree: no thread reads `part` more than 16 times (an addition to a place of `part` reads two), and none reads `x` again.
#
# <details><summary>Hint</summary>
#
# One barrier stands before the first addition, and one in each turn of the loop, where *all* threads reach it: outside of the `if`.
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
# Sums of 64 elements, of which again 64 are added, and so on until one is left: your kernel adds up the whole photograph, and its mean is known.

# %%
left = photograph.ravel()
while check.tree_sum.passed(tree_sum) and len(left) > 1:
    left = np.pad(left, (0, -len(left) % 64))  # zeros, up to whole blocks
    totals = np.zeros(len(left) // 64, np.float32)
    tree_sum[len(totals), 64](left, totals)
    print(f"{len(left):6} numbers, added up in blocks of 64: {len(totals):4} left")
    left = totals
mean = f"{left[0] / photograph.size:.6f}" if len(left) == 1 else "–"
print(f"mean of the photograph by your sums: {mean}, NumPy's: {photograph.mean(dtype=float):.6f}")

# %% [markdown]
# ### Exercise 8, a project: the photograph through your tile
#
# *Difficulty ●●●, 40 minutes.* Write the whole kernel: a $5 \times 5$ filter, blocks of 32 × 8 threads, zeros outside of the image. A block loads its tile with the halo once, each pixel by one thread and no more than four by any; then each thread computes one output from there. `filter` holds 25 weights, row after row.
#
# <details><summary>Hint</summary>
#
# The tile has 12 rows of 36. Number the threads, `threadIdx.y * 32 + threadIdx.x`; thread $t$ loads element $t$, then $t + 256$ while that is below 432. Element $e$ stands in row `e / 36`, column `e % 36`, and belongs to pixel (`top + e / 36`, `left + e % 36`), where `top = blockIdx.y * 8 - 2`. No thread may return before the barrier.
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

# %%
yours, height, width = {"photograph": photograph}, *photograph.shape
for name, weights_ in {"blur": blur, "sharpen": sharpen, "edges": edges}.items():
    out = np.zeros_like(photograph)
    try:
        my_convolution[(-(-width // 32), -(-height // 8)), (32, 8)](
            photograph, weights_, out, height, width
        )
    except KernelError as error:
        print(error)
    if out.any():
        yours[f"your {name}"] = np.abs(out)
plots.images({name: picture[corner] for name, picture in yours.items()})
plt.show()

# %% [markdown]
# ## Coalescing: which thread takes which element
#
# The source's rule: *adjacent threads access adjacent memories simultaneously*. Global memory moves *sectors* of 32 bytes. When the 32 lanes of a warp ask for 32 neighbouring floats, that is 128 bytes in 4 sectors, all of it used: the access is *[coalesced](glossary.md#coalescing)*. Two kernels copy the same matrix; in the second, neighbouring threads take neighbouring **rows**. **Predict**: how many times the bytes does the second move?

# %%
wasted = Prediction("bytes moved along columns ÷ along rows", None)  # your number for None

# %%
access = Module("access.cu", device="cpu")
matrix, copy = rng.random((64, 64), np.float32), np.zeros((64, 64), np.float32)
along_rows = access["copy_along_rows"][(2, 8), (32, 8)].record(matrix, copy, 64, 64)
along_columns = access["copy_along_columns"][(2, 8), (32, 8)].record(matrix, copy, 64, 64)
figure, axes = plt.subplots(1, 2, figsize=(11, 3.8))
for record, ax in zip((along_rows, along_columns), axes, strict=True):
    plots.warp_access(record, array="matrix", ax=ax)
    ax.set_title(f"{record.kernel}\n{ax.get_title(loc='left')}", fontsize=12)
plt.show()

# %%
for record in (along_rows, along_columns):
    for item in record.select(array="matrix"):
        print(
            f"{record.kernel:19} asked for {item.bytes} bytes, moved {32 * item.sectors}:"
            f" {item.efficiency:.1%} used"
        )
moved = [sum(a.sectors for a in r.select(array="matrix")) for r in (along_columns, along_rows)]
wasted.answer(moved[0] / moved[1])

# %% [markdown] claims="05-coalescing"
# The same copy, the same number of loads, and eight times the bytes: each lane's 4 bytes bring 32 with them. (Caches give some of it back, if the rest of the sector is wanted before it is thrown out.)
#
# A transposition must be uncoalesced on one side, unless it turns a tile round in shared memory. There the danger is another: shared memory has 32 *banks*, and lanes that want different words of one bank take turns: a [bank conflict](glossary.md#bank-conflict). The tile of $32 \times 32$ has each column in one bank; a column of padding spreads it.
#
# ### Exercise 9: how many turns?
#
# *Difficulty ●●○, 10 minutes.* Lane $l$ of a warp reads `tile[l][c]`, of a tile whose rows have `columns` floats. Word $w$ of shared memory lies in bank $w \bmod 32$. In how many turns are the 32 lanes served?
#
# <details><summary>Hint</summary>
#
# Which banks do the words $0, \text{columns}, 2\,\text{columns}, \dots$ lie in, and how many lanes share the fullest? Count, for 32, 33, 34 and 36.
#
# </details>


# %% exercise="turns"
def turns(columns):
    """Return the turns in which a column of a tile is read."""
    # BEGIN SOLUTION
    banks = [lane * columns % 32 for lane in range(32)]
    return max(banks.count(bank) for bank in banks)
    # END SOLUTION


# %% check="turns" points=2
check.turns(turns)

# %% [markdown]
# > **Predict.** One column of padding, and four: in how many turns is a column of the tile then read?

# %%
one_more = Prediction("turns with one column of padding", None)  # your number for None
four_more = Prediction("turns with four columns of padding", None)

# %%
for pad in (0, 1, 2, 4):
    module = Module("access.cu", {"PAD": pad}, device="cpu")
    record = module["transpose"][(2, 2), (32, 8)].record(matrix, copy, 64, 64)
    reads = record.select(array="tile", kind="read")
    passes, ideal = (sum(getattr(a, what) for a in reads) for what in ("wavefronts", "ideal"))
    yours = turns(32 + pad)
    print(
        f"tile[32][32 + {pad}]: {passes} turns, {ideal} would do; yours: {(yours or 0) * ideal or '–'}"
    )
    if said := {1: one_more, 4: four_more}.get(pad):
        said.answer(passes / ideal)
assert np.array_equal(copy, matrix.T)

# %% [markdown] claims="05-padding"
# One column spreads a column over all banks; four do not: each bank then serves four lanes. Padding helps by being odd.
#
# ### Exercise 10: repair an access
#
# *Difficulty ●●○, 10 minutes.* `brighten` multiplies each pixel by 1.2, with blocks of $32 \times 32$ threads on a grid of (columns, rows). Give `x` and `y` so that each warp's access is coalesced and each pixel is one thread's work. A warp holds the 32 threads with equal `threadIdx.y`.
#
# <details><summary>Hint</summary>
#
# Which of `x` and `y` must change by one from a lane to the next, so that the address `y * width + x` does?
#
# </details>

# %% language="cuda" exercise="coalesce"
# __global__ void brighten(const float *image, float *out, int height, int width) {
#     int x = width, y = height;
#     // your part
#     // BEGIN SOLUTION
#     x = blockIdx.x * 32 + threadIdx.x;
#     y = blockIdx.y * 32 + threadIdx.y;
#     // END SOLUTION
#     // end of your part
#     if (x < width && y < height) out[y * width + x] = 1.2f * image[y * width + x];
# }

# %% check="coalesce" points=2
check.brighten(brighten)

# %%
(height, width), brighter = photograph.shape, np.zeros_like(photograph)
if check.brighten.passed(brighten):
    brighten[(-(-width // 32), -(-height // 32)), (32, 32)](photograph, brighter, height, width)
    beyond = (brighter > 1).mean()
    print(f"{beyond:.0%} of the pixels came out above 1 and are shown as white")
    plots.images({"photograph": photograph, "by your brighten": brighter})
    plt.show()
else:
    print("the photograph by your brighten: –")

# %% [markdown]
# ### What breaks: four floats at once, from anywhere
#
# A `float4` is four floats that a lane loads with one instruction. They must begin at a multiple of 16 bytes. Here each thread begins one float later:

# %% language="cuda"
# __global__ void shifted(const float *x, float4 *y) {
#     y[threadIdx.x] = *(const float4 *)(x + 4 * threadIdx.x + 1);
# }

# %% tags=["raises-exception"]
shifted[1, 8](np.arange(64, dtype=np.float32), np.zeros((8, 4), np.float32))

# %% [markdown]
# A GPU stops such a kernel too ("misaligned address"), without saying which thread, array or line.
#
# ## Rows through registers
#
# The tiled kernel reads $k^2$ values of *shared* memory for each output, and a *multiprocessor*, the part of a GPU that runs a block, hands out 128 bytes of shared memory per clock. Whether that limits it on a given GPU only a measurement there can say; here none was made. The last rung goes round it. A thread owns four neighbouring columns and walks down the rows. It loads a row's $k + 3$ pixels into registers once; the row then feeds $k$ outputs above and below it, whose sums wait in registers until they are complete.
#
# A value that is loaded once serves up to $k^2$ multiply-adds, no barrier is needed, and neighbouring lanes ask for 16 bytes each. `load_window` fetches one row's $k+3$ pixels (`WINDOW`), as whole `float4` away from the border (`HALO_QUADS` of them on each side) and one by one near it; `inside` says which pixel stands for one beyond the border; `STRIP` is how many rows a thread walks down. All of it is in `helpers/cuda/kernels/convolution.cu`.

# %%
Code(convolution.module["convolve_rows"].listing, language="c++")

# %%
for rung in RUNGS:
    difference = np.abs(convolution(image, rung) - correlate(image, weights, mode="constant")).max()
    print(f"{rung:9} largest difference from SciPy {difference:.1e}")

# %% [markdown]
# ## Cost: what each rung moves
#
# For the last rung the prediction is by strips: each thread loads its $k+3$ pixels, rounded up to whole quads of four, for every row of its strip and the $2r$ rows around it. At the left and right border it loads single pixels.


# %%
def quads(x):
    """Pixels that a thread of the last rung loads in a row for columns x to x + 3."""
    reach = 4 * -(-r // 4)
    if x >= reach and x + 4 + reach <= W:
        return 4 + 2 * reach
    return min(x + 3 + r, W - 1) - max(x - r, 0) + 1


strips = [min(top + 32 + r, H) - max(top - r, 0) for top in range(0, H, 32)]
predicted["rows"] = 4 * (sum(strips) * sum(quads(x) for x in range(0, W, 4)) + H * W)
asked = {rung: counted[rung].requested_bytes(space="global") for rung in RUNGS}
plots.traffic(RUNGS, [predicted[rung] for rung in RUNGS], [asked[rung] for rung in RUNGS])
plt.show()

# %%
least = counted["rows"].compulsory_bytes()
operations = flops(image.shape, weights.shape)
lines = [
    "| rung | predicted (kB) | counted (kB) | ratio | FLOP/B | shared (kB) |",
    "|---" * 6 + "|",
]
for rung in RUNGS:
    shared = counted[rung].requested_bytes(space="shared") / 1e3
    lines.append(
        f"| {rung} | {predicted[rung] / 1e3:.0f} | {asked[rung] / 1e3:.0f} "
        f"| {asked[rung] / predicted[rung]:.3f} | {operations / asked[rung]:.2f} | {shared:.0f} |"
    )
lines.append(
    f"| at least | {8 * H * W / 1e3:.0f} | {least / 1e3:.0f} | {least / (8 * H * W):.3f} "
    f"| {operations / least:.2f} | |"
)
print(
    f"the tile asks for {asked['global'] / asked['tiled']:.1f} times less than the first rung;",
    f"no kernel can ask for more than {asked['global'] / least:.1f} times less",
)
Markdown("\n".join(lines))

# %% [markdown] claims="05-rows-global"
# Counted are all bytes of global memory: weights, pixels and output. (That the factor for $k = 5$ is again near 25 is an accident: it is $k^2 + \tfrac12$ here, where the prediction at the beginning was about pixel reads alone.) The last rung asks for *more* global memory than the tile, since neighbouring threads load the same pixels (a cache serves those), and for no shared memory at all. How much more depends on the filter and on the image: at widths that are multiples of 4 it loads four pixels at once and asks for half as much again to three quarters more; at other widths it loads them one by one, and moves between three and four times as many sectors as the tile. By bytes of global memory the tile is the better of the two; what the last rung saves is shared memory and barriers.
#
# ## Occupancy and the size of a tile
#
# A GPU is made of *multiprocessors*, each of which runs some blocks at a time. It hides the time of a load by running other warps meanwhile, so that many should be there, say NVIDIA's guides; no run here shows what they gain. How many fit is its *[occupancy](glossary.md#occupancy)*: limited by threads, registers and shared memory. The compiler of NVIDIA tells what each kernel takes; the limits are those of an A100 (`sm_80`).
#
# ### Exercise 11: how many warps fit?
#
# *Difficulty ●●○, 10 minutes.* A multiprocessor of an A100 has room for 2048 threads, 32 blocks, 65 536 registers and 167 936 bytes of shared memory, and a block takes 1024 bytes of the latter for the system beside its own. Return how many warps are resident, of blocks of `threads` threads (a multiple of 32) with so many registers a thread (a multiple of 8) and so many bytes of shared memory a block.
#
# <details><summary>Hint</summary>
#
# Whole blocks only. How many fit by each of the four? The scarcest decides.
#
# </details>


# %% exercise="resident"
def resident(threads, registers, shared):
    """Return the warps that one multiprocessor holds."""
    # BEGIN SOLUTION
    by_registers, by_shared = 65_536 // (threads * registers), 167_936 // (shared + 1024)
    return min(2048 // threads, 32, by_registers, by_shared) * threads // 32
    # END SOLUTION


# %% check="resident" points=2
check.resident_warps(resident)

# %% [markdown]
# > **Predict.** What limits a tile of 8 × 32 outputs: threads, registers, shared memory or blocks?

# %%
scarce = Prediction("what limits a tile of 8 × 32", None)  # a word, such as "registers"

# %%
from helpers.cuda.occupancy import occupancy

lines = [
    "| tile | loads per output | registers | shared (B) | resident warps | yours | limit |",
    "|---" * 7 + "|",
]
for tile in ((4, 8), (8, 8), (8, 32), (16, 16), (16, 32), (32, 32)):
    made = Convolution(weights, tile=tile, device="cpu").module["convolve_tiled"].resources
    if made is None:
        continue  # NVIDIA's compiler is not installed here
    threads = tile[0] * tile[1]
    fits = occupancy(threads, made.registers, made.shared, "sm_80")
    mine = resident(threads, -(-made.registers // 8) * 8, made.shared)
    loads = (tile[0] + k - 1) * (tile[1] + k - 1) / threads
    if check.loads_per_output.passed(loads_per_output):  # yours
        loads = loads_per_output(*tile, k)
    lines.append(
        f"| {tile[0]} × {tile[1]} | {loads:.2f} | {made.registers} | {made.shared} "
        f"| {fits.warps} of 64 | {mine or '–'} | {fits.limit} |"
    )
    if tile == (8, 32):
        scarce.answer(fits.limit)
Markdown("\n".join(lines))

# %% [markdown]
# Small tiles load much halo and fill the blocks' limit before the threads'. From $8 \times 8$ on the threads are the limit in every row: these kernels take few registers and little shared memory, and for them occupancy does not choose the tile. (With 33 registers a thread or more, or with more than 20 kB for a block of 256 threads, it would.) What speaks for a tile that is 32 wide: a whole warp lies along a row, so that its requests touch fewer sectors and its shared reads meet no bank twice.

# %%
for tile in ((8, 32), (16, 16)):
    made = Convolution(weights, tile=tile, device="cpu")
    reads = made.record(image, "tiled", blocks=[]).select(array="tile", kind="read")
    print(
        f"tile {tile[0]} × {tile[1]}: {sum(a.wavefronts for a in reads)} turns of the banks,",
        f"{sum(a.ideal for a in reads)} would do",
    )

# %% [markdown] claims="05-banks-tile"
# A warp of the second tile covers two rows, whose banks overlap: each of its reads takes two turns.
#
# ## The same tile multiplies matrices
#
# In $C = AB$, with $A$ of $m \times k$ and $B$ of $k \times n$ numbers ($k$ is no filter's side here), each $C_{ij}$ is a sum over a row of $A$ and a column of $B$. A thread for each output reads $2k$ numbers of global memory; all outputs of a row read the same row of $A$, all of a column the same column of $B$. A block of $T \times T$ threads can share: it walks along $k$ in steps of $T$, loads a square tile of $A$ and one of $B$, and every loaded number then serves $T$ threads.
#
# $$ Q_\text{direct} = 4\,mn\,(2k + 1) \qquad Q_\text{tiled} = 4\left( mk \left\lceil \tfrac{n}{T} \right\rceil + kn \left\lceil \tfrac{m}{T} \right\rceil + mn \right) $$
#
# **Predict**: how many barriers does a step along $k$ need, and what stands on each side of them? They are counted in a kernel of the course, after exercise 12.

# %%
barriers = Prediction("barriers in a step along k", None)  # your number for None

# %% language="cuda"
# __global__ void direct_product(const float *a, const float *b, float *c, int m, int k, int n) {
#     int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
#     if (i >= m || j >= n) return;
#     float sum = 0;
#     for (int p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
#     c[i * n + j] = sum;
# }

# %% [markdown]
# ### Exercise 12: a product through tiles
#
# *Difficulty ●●●, 25 minutes.* Write the body of the loop over `from`, which is the first column of A's tile and the first row of B's. Blocks are 16 × 16, and thread (x, y) loads one number into each tile. Sides need not be multiples of 16; what lies outside counts as zero, and no number is read twice by a block.
#
# <details><summary>Hint</summary>
#
# Thread (x, y) loads column `from + x` of its row `i`, and row `from + y` of its column `j`. Each has its own bounds test, and the load is what the test decides, not whether the thread goes on. A tile must be whole before it is read, and read by all before the next one overwrites it.
#
# </details>

# %% language="cuda" exercise="tiled-product"
# __global__ void tiled_product(const float *a, const float *b, float *c, int m, int k, int n) {
#     __shared__ float left[16][16], right[16][16];
#     int x = threadIdx.x, y = threadIdx.y;
#     int j = blockIdx.x * 16 + x, i = blockIdx.y * 16 + y;
#     float sum = 0;
#     for (int from = 0; from < k; from += 16) {
#         // your part
#         // BEGIN SOLUTION
#         left[y][x] = i < m && from + x < k ? a[i * k + from + x] : 0.0f;
#         right[y][x] = from + y < k && j < n ? b[(from + y) * n + j] : 0.0f;
#         __syncthreads();
#         for (int p = 0; p < 16; p++) sum += left[y][p] * right[p][x];
#         __syncthreads();
#         // END SOLUTION
#         // end of your part
#     }
#     if (i < m && j < n) c[i * n + j] = sum;
# }

# %% check="tiled-product" points=5
check_products.tiled_product(tiled_product)

# %%
products = Module("product.cu", device="cpu")
ones, c = np.ones((16, 80), np.float32), np.zeros((16, 16), np.float32)  # five steps along k
square = products["square_product<16>"]  # <16>: the side of its tiles
record = square[1, (16, 16)].record(ones, ones.T.copy(), c, 16, 80, 16)
barriers.answer(record.events["interval"].max() / 5)  # interval: the barriers passed so far
for m, k_, n in ((64, 64, 64), (50, 70, 90)):
    pair = rng.random((m, k_), np.float32), rng.random((k_, n), np.float32)
    across, down = -(-n // 16), -(-m // 16)  # blocks
    say = 4 * m * n * (2 * k_ + 1), 4 * (m * k_ * across + k_ * n * down + m * n)
    for kernel, bytes_ in zip((direct_product, tiled_product), say, strict=True):
        if kernel is tiled_product and not check_products.tiled_product.passed(kernel):
            continue
        c = np.zeros((m, n), np.float32)
        record = kernel[(across, down), (16, 16)].record(*pair, c, m, k_, n, blocks=[])
        assert np.allclose(c, pair[0] @ pair[1], rtol=1e-4)
        print(f"{m} × {k_} × {n} {record.kernel:15} predicted {bytes_:8}",
              f"counted {record.requested_bytes(space='global'):8}")  # fmt: skip

# %% [markdown]
# Two barriers a step: one between loading the tiles and reading them, one between reading them and loading the next. And the bytes are as predicted, edges included. With whole tiles the inputs are read $T$ times less; the rows and columns that hang over the edge cost threads, not bytes. A wider tile would save more, until shared memory or the 1024 threads of a block end it.
#
# ## Several outputs a thread
#
# A thread may also make more than one output. With *[thread coarsening](glossary.md#thread-coarsening)* each of $16 \times 16$ threads takes $C$ outputs of one row, 16 columns apart (in this section $C$ is that number, as in the code, and not the product), and keeps their sums in registers. A block then loads a tile of $A$ once, and beside it $C$ tiles of $B$.
#
# > **Predict.** All sides are 64. How many bytes does $C = 4$ ask of global memory, as a share of what $C = 1$ asks for? And of two blocks that make 1024 outputs each, which asks for less: 256 threads with $C = 4$, or a plain tile of $32 \times 32$ with 1024 threads?

# %%
coarse_share = Prediction("bytes with C = 4 ÷ with C = 1", None)  # your number for None
asks_less = Prediction("asks for less", None)  # "coarse" or "square"

# %% [markdown]
# ### Exercise 13: one tile of A for several of B
#
# *Difficulty ●●○, 20 minutes.* Write the body of the loop over `from` once more: `left` is a tile of $A$ as before, `right` has the $C$ tiles of $B$ side by side, and `sum[q]` belongs to column `j + 16 * q`. Each block reads each of its numbers once, and all threads take their part. `template <int C>` makes $C$ a number that is known when the kernel is compiled; the cell's module is called `coarse`, and `coarse["coarse_product<4>"]` is its kernel with $C = 4$.
#
# <details><summary>Hint</summary>
#
# Thread (x, y) loads one number of $A$ and $C$ of $B$, the last ones in a loop over `q`: column `j + 16 * q`, place `x + 16 * q`, each with its own bounds test. Where do the two barriers of exercise 12 stand now?
#
# </details>

# %% language="cuda" magic_args="coarse" exercise="coarse-product"
# template <int C>
# __global__ void coarse_product(const float *a, const float *b, float *c, int m, int k, int n) {
#     __shared__ float left[16][16], right[16][16 * C];
#     int x = threadIdx.x, y = threadIdx.y, j = blockIdx.x * 16 * C + x, i = blockIdx.y * 16 + y;
#     float sum[C] = {};
#     for (int from = 0; from < k; from += 16) {
#         // your part
#         // BEGIN SOLUTION
#         left[y][x] = i < m && from + x < k ? a[i * k + from + x] : 0.0f;
#         for (int q = 0; q < C; q++)
#             right[y][x + 16 * q] =
#                 from + y < k && j + 16 * q < n ? b[(from + y) * n + j + 16 * q] : 0.0f;
#         __syncthreads();
#         for (int p = 0; p < 16; p++) {
#             float one = left[y][p];  // read once, used C times
#             for (int q = 0; q < C; q++) sum[q] += one * right[p][x + 16 * q];
#         }
#         __syncthreads();
#         // END SOLUTION
#         // end of your part
#     }
#     for (int q = 0; q < C; q++) if (i < m && j + 16 * q < n) c[i * n + j + 16 * q] = sum[q];
# }

# %% check="coarse-product" points=4
check_products.coarse_product(coarse)

# %% [markdown]
# Predicted is
#
# $$ Q_\text{coarse} = 4\left( mk \left\lceil \tfrac{n}{16\,C} \right\rceil + kn \left\lceil \tfrac{m}{16} \right\rceil + mn \right) $$
#
# and for the plain tile $Q_\text{tiled}$ with $T = 32$. (Counted is your kernel if it passed its check, else the course's.)

# %%
taken = {}
made_by = coarse if check_products.coarse_product.passed(coarse) else products
kinds = {f"coarse_product<{C}>": (made_by, 16, 16 * C, (16, 16)) for C in (1, 2, 4)}
kinds["square_product<32>"] = products, 32, 32, (32, 32)
for m, k_, n in ((64, 64, 64), (50, 70, 90)):
    pair = rng.random((m, k_), np.float32), rng.random((k_, n), np.float32)
    for name, (module, high, wide, threads) in kinds.items():
        c, grid = np.zeros((m, n), np.float32), (-(-n // wide), -(-m // high))
        record = module[name][grid, threads].record(*pair, c, m, k_, n, blocks=[])
        assert np.allclose(c, pair[0] @ pair[1], rtol=1e-4)
        say = 4 * (m * k_ * grid[0] + k_ * n * grid[1] + m * n)
        taken[name, m] = record
        print(f"{m} × {k_} × {n} {name:18} predicted {say:6}",
              f"counted {record.requested_bytes(space='global'):6}",
              f"in sectors {record.sector_bytes(space='global'):6}")  # fmt: skip
bytes_of = {name: taken[name, 64].requested_bytes(space="global") for name in kinds}
coarse_share.answer(bytes_of["coarse_product<4>"] / bytes_of["coarse_product<1>"])
fewer = bytes_of["coarse_product<4>"] < bytes_of["square_product<32>"]
asks_less.answer("coarse" if fewer else "square")

# %% [markdown]
# What the threads ask for is as predicted, at sides that are no multiples of 16 too. There the sectors hold more than was asked for: a row of 90 floats does not begin where a sector does. What else does each kernel take? (*Outputs in work* are those of all blocks that a multiprocessor of an A100 holds.)

# %%
lines = [
    "| kernel | threads a block | outputs a block | shared (B) | registers | resident warps "
    "| outputs in work | turns of the banks for 32 multiply-adds |",
    "|---" * 8 + "|",
]
for name, (_, high, wide, (side, _)) in kinds.items():
    made, row = products[name].resources, ["–"] * 4
    if made is not None:  # NVIDIA's compiler is installed here
        fits = occupancy(side**2, made.registers, made.shared, "sm_80")
        row = [made.shared, made.registers, f"{fits.warps} of 64", fits.blocks * high * wide]
    turns_ = sum(a.wavefronts for a in taken[name, 64].select(space="shared"))
    row = [name, side**2, high * wide, *row, f"{turns_ / (64**3 / 32):.2f}"]
    lines.append("|".join(["", *map(str, row), ""]))
Markdown("\n".join(lines))

# %% [markdown] claims="05-coarsening 05-coarse-or-square 05-coarse-shared"
# Of the three terms only the first shrinks with $C$. And the simple rival asks for less: with whole tiles, $32 \times 32$ outputs read $mnk\,(\tfrac{1}{32} + \tfrac{1}{32})$ numbers, and $16 \times 16C$ of them $mnk\,(\tfrac{1}{16C} + \tfrac{1}{16})$, which is more, however large $C$ is. Bytes of global memory are a matter of the *shape* of a block's outputs, and a square is the better shape. Only where $A$ has few rows is it not: with 16 of them, half of the square's, $C = 4$ asks for less, and $C = 2$ for as much.
#
# What coarsening saves is elsewhere. A thread takes a number of $A$'s tile out of shared memory once for $C$ multiply-adds, so that the banks have fewer turns; with $C = 1$, a plain tile of $16 \times 16$, they have nearly as many as with one of $32 \times 32$ (the last column). And 256 threads do for as many outputs as 1024 did, so that as many resident warps have four times the outputs in work. The two do not exclude each other: a square of outputs, several for each thread, is how [notebook 07](07_roofline.ipynb) multiplies on a processor. What of this a GPU is short of, no run here says.

# %%
display(evidence("05-coarsening"), evidence("05-coarse-or-square"))
display(evidence("05-coarse-shared"))

# %% [markdown]
# ## A scan: fewer additions, and a new problem
#
# A **[scan](glossary.md#scan)** (or *prefix sum*) gives each place the sum of all that stand before it. One thread needs $n - 1$ additions, one after the other. Two ways to do it by many:
#
# - *Hillis and Steele*: in step $s = 1, 2, 4, \dots$ every place adds what stands $s$ to its left. $\log_2 n$ steps, nearly $n \log_2 n$ additions. What comes out is *inclusive*: each place's own number is in its sum.
# - *Blelloch*: up and down a tree, $2 \log_2 n$ steps, $2(n-1)$ additions.
#
# | eight numbers | 3 | 1 | 7 | 0 | 4 | 1 | 6 | 3 |
# |---|---|---|---|---|---|---|---|---|
# | up, $s$ = 1: each right one of a pair adds the left one | 3 | 4 | 7 | 7 | 4 | 5 | 6 | 9 |
# | up, $s$ = 2 | 3 | 4 | 7 | 11 | 4 | 5 | 6 | 14 |
# | up, $s$ = 4 | 3 | 4 | 7 | 11 | 4 | 5 | 6 | 25 |
# | the last becomes 0 | 3 | 4 | 7 | 11 | 4 | 5 | 6 | 0 |
# | down, $s$ = 4: the left one takes the right one's number, the right one becomes the sum of both | 3 | 4 | 7 | 0 | 4 | 5 | 6 | 11 |
# | down, $s$ = 2 | 3 | 0 | 7 | 4 | 4 | 11 | 6 | 16 |
# | down, $s$ = 1: what stood *before* each place | 0 | 3 | 4 | 11 | 11 | 15 | 16 | 22 |
#
# ### Exercise 14: down the tree
#
# *Difficulty ●●●, 20 minutes.* A block of 128 threads scans 256 numbers; the way up is there. Write the way down: `y` gets the sum of what stands before each number, in as few additions as above.
#
# <details><summary>Hint</summary>
#
# The same pairs as on the way up, the widest first: from `step` 128 down to 1, one pair for each of the first `128 / step` threads. One thread sets `part[255]` to zero. Where does a thread read what another has just written?
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
# What is a scan for? It tells every thread where to put its result. Here it packs the bright pixels of the photograph side by side: each has as its place the number of bright ones before it, and all can move at once.

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
    print(f"{len(packed)} bright pixels of {len(pixels)}, packed by your scan")

# %% [markdown]
# > **Predict.** Which of the two asks less of shared memory for 256 numbers, and by which factor? And which occupies the banks for fewer turns?

# %%
fewer = Prediction("accesses by steps ÷ by the tree", None)  # your number for None
turns_of = Prediction("turns of the banks, steps ÷ the tree", None)

# %%
numbers, sums, seen = rng.random(256, np.float32), np.zeros(256, np.float32), {}
for name, pad in (("scan_steps", 0), ("scan_tree", 0), ("scan_tree", 1)):
    with Module("scan.cu", {"PAD": pad}, device="cpu") as module:
        threads = 256 if name == "scan_steps" else 128
        record = module[name][1, threads].record(numbers, sums)
    shared = record.select(space="shared")
    barriers = record.events["interval"].max()
    seen[name, pad] = sum(a.count for a in shared), sum(a.wavefronts for a in shared)
    print(f"{name + ', padded' * pad:17} {barriers:2} barriers, {seen[name, pad][0]} accesses,",
          f"{seen[name, pad][1]} turns of the banks")  # fmt: skip
steps, tree = seen["scan_steps", 0], seen["scan_tree", 0]
fewer.answer(steps[0] / tree[0])
turns_of.answer(steps[1] / tree[1])

# %% [markdown] claims="05-scan-work 05-scan-turns"
# The tree asks for 2.4 times less at 256 numbers and 3.0 times less at 1024. Its additions alone, 3.5 and 4.5 times fewer, promise more: on the way down each also moves a number. And it holds the banks *longer*, 2.0 and 1.7 times as long: its partners stand 2, 4, 8, ... words apart, in ever fewer banks. Skipping one word in every 32 removes these conflicts, and only then is the tree ahead in turns as well, 1.7 and 2.7 times. Its steps are twice as many, each with a barrier. **Fewer operations are not yet less of what is scarce**: count that.

# %%
display(evidence("05-scan-work"), evidence("05-scan-turns"))

# %% [markdown]
# ## Lanes that part
#
# A warp is given one instruction at a time, for all of its lanes. Where an `if` sends some of them one way and the rest another, the warp goes both ways, one after the other, and those whose way it is not stand idle: the warp *[diverges](glossary.md#divergence)*. In the kernel below every thread has equally much to do, on one of two ways; `group` says how many neighbours go the same one.

# %% language="cuda"
# __global__ void parting(const float *x, float *y, int group) {
#     int i = blockIdx.x * blockDim.x + threadIdx.x;
#     float v = x[i];
#     if (threadIdx.x / group % 2)
#         for (int k = 0; k < 8; k++)
#             v = 0.5f * v + 1;  // odd
#     else
#         for (int k = 0; k < 8; k++)
#             v = v * v - 0.5f;  // even
#     y[i] = v;
# }

# %% [markdown]
# `parting[grid, block].warps(...)` runs the launch on the CPU, notes which pieces of the code each thread passes through, and puts 32 threads together to a warp. A *pass* is a warp going once through a piece (told under one line of it: the `if` and the loops' tests have no row); lanes that have parted go on together from where their ways meet. (So do the warps of textbooks. NVIDIA's compiler makes of a short branch instructions that all lanes go through and some ignore, and since Volta lanes that parted are free to meet later. Counted are passes through the source, not clocks of a GPU.)
#
# > **Predict.** With `group` 1 neighbouring lanes part, with 32 neighbouring warps. How many times the passes through the two loops does the first take? And `group` 8?

# %%
by_lane = Prediction("passes with group 1 ÷ with group 32", None)  # your number for None
by_eight = Prediction("passes with group 8 ÷ with group 32", None)

# %%
numbers, passes = rng.random(256, np.float32), {}
for group in (1, 8, 32, 64):
    record = parting[4, 64].warps(numbers, np.empty_like(numbers), group)
    two_ways = record.line("// odd"), record.line("// even")
    passes[group] = record.count(*two_ways)
    print(f"group {group:2}: {passes[group]:3} passes through the loops,",
          f"{record.idle(*two_ways) / (32 * passes[group]):.0%} of their lanes idle")  # fmt: skip
by_lane.answer(passes[1] / passes[32])
by_eight.answer(passes[8] / passes[32])
first = parting[4, 64].warps(numbers, np.empty_like(numbers), 8)
print(first)

# %%
plots.warp_passes(first)
plt.show()

# %% [markdown] claims="05-divergence"
# The picture is of the first warp with `group` 8: two passes with all lanes, and 8 through each way with half of them.
#
# With two ways of equal length the same work takes twice the passes as soon as a warp has lanes on both, however they are dealt out; with a `group` of 32 or a multiple none has. A branch between warps costs no pass.
#
# Who does what is often the programmer's choice. The sum of 256 numbers below adds neighbours, then neighbours of those: in the step $s = 1, 2, 4, \dots$ every thread whose number is a multiple of $2s$ adds what stands $s$ to its right.

# %%
sums = Module("sums.cu", device="cpu")
Code(sums["interleaved_sum"].listing, language="c++")

# %% [markdown]
# ### Exercise 15: as many additions by other threads
#
# *Difficulty ●●○, 10 minutes.* In step 1 every warp has 16 idle lanes, in step 16 it has 31. Write the step so that the same number of additions is made in as few passes as possible: $128/s$ of them in step $s$, no thread more than one.
#
# <details><summary>Hint</summary>
#
# The additions of a step go to the places $0, 2s, 4s, \dots$: number them, and let the thread of that number make each. Which threads have none?
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
# > **Predict.** In how many passes do 8 warps make the 255 additions, as above and as you wrote it? The third sum of the table adds the upper half to the lower, as in exercise 7.

# %%
apart = Prediction("passes of the interleaved additions", None)  # your number for None

# %%
x, made = rng.random(256, np.float32), {"interleaved": sums["interleaved_sum"]}
if check.packed_sum.passed(packed_sum):
    made["yours"] = packed_sum
made["halved"] = sums["halved_sum"]
for name, kernel in made.items():
    total = np.zeros(1, np.float32)
    added = kernel[1, 256].record(x, total)
    writes = [a for a in added.select(array="part") if a.kind != "read"][1:]  # the first fills part
    shared = sum(a.wavefronts for a in added.select(space="shared"))
    requests, additions = (sum(getattr(a, what) for a in writes) for what in ("requests", "count"))
    print(f"{name:11} {additions} additions in {requests} passes,",
          f"{1 - additions / (32 * requests):.0%} of the lanes idle, {shared} turns of the banks,",
          f"sum {total[0]:.4f}")  # fmt: skip
    if name == "interleaved":
        apart.answer(requests)

# %% [markdown] claims="05-divergence-sum 05-divergence-banks 05-divergence-halves"
# (A pass that adds ends in one request to shared memory, so that the record of accesses counts these passes too.) The same additions by neighbouring threads take a quarter of the passes; with 1024 numbers less than a fifth. The banks gain nothing by it. Before, a warp's words lay within 32, each in a bank of its own; now those of its adding lanes stretch over many times 32, $2s$ apart, and share banks: fewer requests, each of more turns, as many in all as before. (If yours adds halves, its row is the third.) Halves need few passes *and* few turns, because theirs are other additions, of neighbouring words. (A sum of `float`s may then differ in its last digits.)

# %%
display(evidence("05-divergence"), evidence("05-divergence-sum"))
display(evidence("05-divergence-banks"), evidence("05-divergence-halves"))

# %% [markdown]
# ## A histogram: many threads, one place
#
# How often does each of the 256 values occur among $n$ bytes? Which bin a thread adds to depends on the data, so that two threads may want the same one, and `bins[x[i]] += 1` is a race. An *atomic* operation reads, adds and writes in one step that nobody comes between:

# %% language="cuda"
# __global__ void direct_histogram(const unsigned char *x, unsigned *bins, int n) {
#     for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
#         atomicAdd(&bins[x[i]], 1u);
# }

# %% [markdown]
# (`atomicAdd` takes a place's address and what to add; `unsigned char` is a byte, `1u` a one without sign. `gridDim` is the number of blocks, so that `gridDim.x * blockDim.x` is that of all threads: they take the bytes in turns, each the next one a whole grid further on, and a grid of any size serves any $n$.) Right, but each byte is a request to global memory, $n$ of them to the same 256 places. The remedy is *[privatization](glossary.md#privatization)*: each block counts in bins of its own, in shared memory, and adds these to the common ones at the end.
#
# ### Exercise 16: bins of one's own
#
# *Difficulty ●●●, 20 minutes.* Write it for any grid and any block: with $B$ blocks `bins` is asked at most $256 B$ times, and the threads of a block share all the work. `bins` holds zeros at the start.
#
# <details><summary>Hint</summary>
#
# Three parts: zero, count, add up. A block of 64 threads has 256 bins to zero and to add up, so that each thread takes several. What must all have done before the next part begins? And which of the additions can two threads make at one place, of one block or of two?
#
# </details>

# %% language="cuda" exercise="block-histogram"
# __global__ void block_histogram(const unsigned char *x, unsigned *bins, int n) {
#     __shared__ unsigned own[256];
#     // your part
#     // BEGIN SOLUTION
#     for (int b = threadIdx.x; b < 256; b += blockDim.x) own[b] = 0;
#     __syncthreads();
#     for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
#         atomicAdd(&own[x[i]], 1u);
#     __syncthreads();
#     for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&bins[b], own[b]);
#     // END SOLUTION
#     // end of your part
# }

# %% check="block-histogram" points=4
check.block_histogram(block_histogram)

# %% [markdown]
# > **Predict.** 32 768 bytes, 8 blocks: how many times fewer atomics on global memory? And a warp counts 32 neighbouring pixels of a photograph: how many of its lanes want the bin that most of them want, on average over the warps?

# %%
fewer_atomics = Prediction("global atomics, direct ÷ own bins", None)  # your number for None
same_bin = Prediction("lanes of a warp that want one bin of the photograph", None)

# %%
from helpers.cuda.contention import turns as turns_at_one_place

data = {"photograph": (255 * photograph[4::8]).astype(np.uint8).ravel()[:32_768],
        "random bytes": rng.integers(0, 256, 32_768).astype(np.uint8)}  # fmt: skip
with Module("histogram.cu", device="cpu") as histograms:
    for (name, x), bins in ((pair, b) for pair in data.items() for b in ("bins", "own")):
        kernel = histograms["direct_histogram" if bins == "bins" else "own_histogram"]
        record = kernel[8, 256].record(x, np.zeros(256, np.uint32), len(x))
        atomics = record.count(array="bins", kind="atomic")
        crowd = turns_at_one_place(record, array=bins) / (len(x) / 32)
        print(f"{name:12}, {kernel.signature.name:16}: {atomics:5} atomics on global memory;",
              f"a warp's count takes {crowd:.1f} turns")  # fmt: skip
        if (name, bins) == ("photograph", "bins"):
            same_bin.answer(crowd)
fewer_atomics.answer(len(x) / atomics)

# %% [markdown] claims="05-histogram 05-histogram-turns"
# Predicted are $n$ and $256 B$, so $n / 256 B$ times fewer; a block that counts no more bytes than it has bins gains nothing. What privatization does not change is the crowd *within* a warp: lanes that want one place take turns, in shared memory as in global, and neighbouring pixels are alike, where random bytes seldom are. How much alike depends on the picture: the claim below takes pieces of two photographs at random. (Turns are counted as if lanes at one place went one after another; how fast a GPU serves them, no run here says.)
#
# A histogram is good for something: let each grey become the share of pixels that are no brighter. Greys that hold many pixels then move apart, the others together: here the sky gains contrast, and the trees lose some. That share is a scan of the histogram, here of yours.

# %%
grey, bins = (255 * photograph).astype(np.uint8), np.zeros(256, np.uint32)
if check.block_histogram.passed(block_histogram):
    block_histogram[32, 256](grey.ravel(), bins, grey.size)
    assert bins.sum() == grey.size
    share = bins.cumsum() / grey.size
    for part, rows in {"sky": np.s_[:51], "trees": np.s_[-80:]}.items():
        print(f"{part:5} contrast (standard deviation of the greys)",
              f"{photograph[rows].std():.2f}, then {share[grey][rows].std():.2f}")  # fmt: skip
    plots.images({"photograph": photograph, "by your histogram": share[grey]})
    plt.show()

# %%
display(evidence("05-histogram"), evidence("05-histogram-turns"))

# %% [markdown]
# ## Before and after a launch: the copies
#
# All bytes so far were between a device's memory and its threads. Where the arrays belong to the host there are more: an array that the kernel reads has to be copied to the device before the launch, one that it writes has to be copied back. The records know both.


# %%
def copies(record):
    """Return the bytes of each array that a launch reads, and of each that it writes."""
    size = {name: np.prod(shape) * record.itemsizes[name] for name, shape in record.shapes.items()}
    return [size[name] for name, counts in record.touched.items() for count in counts if count > 0]


added = on_cpu["vector_add"][3, 4].record(a, b, np.zeros(10, np.float32), 10)
launches = {"vector_add": added} | {f"convolution, {rung}": counted[rung] for rung in RUNGS}
launches |= {f"64 × 64 × 64, {name}": taken[name, 64] for name in kinds}
for name, record in launches.items():
    asked_for, moved_over = record.requested_bytes(space="global"), sum(copies(record))
    print(f"{name:34} copied {moved_over:7}, asked for {asked_for:9} bytes:",
          f"{asked_for / moved_over:5.2f} times as many")  # fmt: skip

# %% [markdown]
# An addition of vectors asks for each number once: its copies are as many bytes as its whole work. The first convolution asks for 25 times as many, the tile for little more than was copied: the better a kernel uses what it has loaded, the larger is the part of the copies. They shrink only if a kernel finds its arrays on the device, from the launch before. The three filters of the photograph copy it three times and three results back; kept there, it would go once: four pictures in place of six.
#
# How long does a copied byte take beside one of the device's own memory? That depends on the machine, and no run here says. Two figures that others state give an order of magnitude: a V100 sits on PCIe 3.0 with 16 lanes, which by the cost model of [notebook 08](08_allreduce_animation.ipynb) takes $\alpha + \beta K$ for an array of $K$ bytes (the origin of both is told there), and reads its own memory with 900 GB/s, says NVIDIA's data sheet.

# %%
from helpers.collectives.links import PRESETS

link, memory = PRESETS["PCIe 3.0 x16"], 900e9  # bytes/s: the V100's memory
print(
    f"equal, without latencies, where {memory * link.beta:.0f} times as much is asked for as copied"
)
for name, record in launches.items():
    over = sum(link.message(size) for size in copies(record))
    inside = record.requested_bytes(space="global") / memory
    print(f"{name:34} {len(copies(record))} copies {1e6 * over:5.1f} µs,",
          f"bytes asked for {1e6 * inside:5.2f} µs by these figures")  # fmt: skip

# %% [markdown]
# By these figures each launch waits longer for its copies than for all the bytes that its threads ask for, even the first convolution; for arrays of some kilobytes, as those of the products, most of the wait is latency. (Nothing else is counted: not the operations, nor the launch itself, nor what the caches serve.)

# %% [markdown]
# ## Times on a GPU
#
# Arithmetic intensity and the GPU's two limits, operations and bytes per second, give the [roofline](glossary.md#roofline) that [notebook 07](07_roofline.ipynb) explains. The figures below come from a record that names its machine, where there is one.

# %%
from helpers.cuda.measured import MISSING, newest, table

gpu = newest()
if gpu is None:
    answer = MISSING
else:
    answer = f"{gpu.machine}, {gpu.date}: µs for 4096 × 4096 pixels\n\n{table(gpu)}"
Markdown(answer)

# %%
if gpu is not None:
    pixels, bandwidth = 4096, max(gpu.bandwidth.values())
    work = flops((pixels, pixels), weights.shape)
    points = [
        (rung, operations / asked[rung], 1e6 * work / gpu.times[rung, pixels, k]) for rung in RUNGS
    ]
    plots.roofline(gpu.peak, bandwidth, points, machine=gpu.machine)
    plt.show()

# %% [markdown]
# On this CPU the times say nothing about a GPU, but they show what recording costs.

# %%
from helpers.timing import measure

launch, arguments = convolution.launch("tiled", image, np.empty_like(image))
plain = measure(lambda: launch(*arguments), repeats=3)
checked = measure(lambda: launch(*arguments, check=True), repeats=3, warmup=1)
print(f"{P.side} × {P.side} on this CPU: {plain}; every access checked: {checked}")

# %% [markdown]
# ## What the sources say, what we measured
#
# | the source says | here |
# |---|---|
# | host and device memory, copy, launch, grid of blocks of threads, at most 1024 threads in a block | launch, grids of one, two and three dimensions, and limits run above (2048 threads are refused); the bytes of the copies counted; `cudaMalloc` and error codes only described, since no GPU is needed here |
# | `ceil(N/256.0)` blocks and the test `i < N` | run above; without the test, threads 10 and 11 are caught |
# | convolution by one thread per output, the filter in constant memory, a tile with all threads loading | run above, equal to SciPy, traffic counted |
# | the parallel paradigm is *SIMD* | NVIDIA calls it SIMT: each thread has its own program counter and addresses, which is why threads of one warp can be at different lines, and a race needs a barrier |
# | adjacent threads access adjacent memories simultaneously | counted: 100 % of the bytes used, against 12.5 % |
# | "cuDNN is slower than the code I will present" | the next cell, from the GPU record |

# %%
from helpers.cuda.measured import CUDNN

claim = "No GPU record yet: the claim about cuDNN is not tested."
if gpu is not None and (CUDNN, 4096, 5) in gpu.peers:
    ratios = {rung: gpu.peers[CUDNN, 4096, 5] / gpu.times[rung, 4096, 5] for rung in RUNGS}
    claim = f"{gpu.machine}, one channel, 5 × 5, cuDNN's time ÷ ours: " + ", ".join(
        f"{rung} {ratio:.2f}" for rung, ratio in ratios.items()
    )
print(claim)

# %% [markdown]
# ## Summary
#
# - A thread finds its element as `blockIdx * blockDim + threadIdx`; the grid overshoots, so it tests the bounds.
# - The first kernel asks for $4HW(2k^2+1)$ bytes; constant memory takes the weights out, a tile with its halo the rest, down to $(T_y+k-1)(T_x+k-1)/(T_yT_x)$ loads an output.
# - A barrier stands between the last write to a place and the first read by another thread, and every thread that has not returned must reach the same one.
# - Lanes that take neighbouring addresses share sectors of 32 bytes; otherwise up to eight times the bytes move.
# - Threads, blocks, registers and shared memory decide how many warps are resident.
# - A product of matrices reads its inputs $T$ times less through tiles of side $T$. Several outputs a thread save turns of shared memory; the bytes of global memory depend on the shape of a block's outputs.
# - A scan by a tree has $2(n-1)$ additions, and bank conflicts to pad away.
# - A warp whose lanes part at a branch goes both ways; who does what decides how often, and the banks ask for something else again.
# - A histogram in bins of each block's own asks for $256 B$ atomics on global memory in place of $n$; lanes of a warp that want one bin crowd as before.
#
# **In practice** you call cuDNN through `torch.nn.functional.conv2d`, `cupyx.scipy.ndimage` for images, or write Triton or CUTLASS. NVIDIA's `compute-sanitizer` finds on a GPU much of what was caught here: `memcheck` (bounds, and misaligned accesses), `racecheck` (races in shared memory), `synccheck` (barriers), `initcheck` (reads of global memory that was never written; not of shared memory, which is what exercise 5 shows); Nsight Compute counts the sectors.
#
# **References**
#
# - NVIDIA, *CUDA C++ Programming Guide*: the language, the limits per compute capability, what a barrier promises.
# - NVIDIA, *CUDA C++ Best Practices Guide*: coalescing, banks, occupancy.
# - V. Podlozhnyuk, *Image Convolution with CUDA* (NVIDIA, 2007): tiles with halos, measured.
# - W. W. Hwu, D. B. Kirk, I. El Hajj, *Programming Massively Parallel Processors* (Morgan Kaufmann, 4th edition, 2022): trees of sums and what parting lanes cost them, among much else.
# - M. Harris, S. Sengupta, J. D. Owens, *Parallel prefix sum (scan) with CUDA* (GPU Gems 3, 2007): both scans, and the padding.
# - S. Williams, A. Waterman, D. Patterson, *Roofline*, CACM 52(4), 2009: intensity against the two limits.
#
# **Next**: [06_pagerank_cpu_vs_gpu](06_pagerank_cpu_vs_gpu.ipynb) counts the bytes of a computation on a graph.

# %%
for module in (add, on_cpu, access, sums, products, convolution.module, three.module):
    module.close()
