# %% [markdown]
# # Move fewer bytes: sectors, banks, and the shape of a block
#
# You count the bytes that kernels move, and write kernels in CUDA C that move fewer.

# %% [markdown]
# **You will be able to**
#
# - recognise an access that is not coalesced, and repair it;
# - predict bank conflicts, and pad them away;
# - multiply matrices through tiles, and predict the bytes that any shape of tile asks for;
# - say what it saves and costs if each thread computes several outputs;
# - compute how many warps are resident on a multiprocessor.
#
# **You need** [notebook 05](05_cuda_tiling.ipynb): blocks, threads, shared memory, barriers. *Time:* 145 minutes: 5 for this opening, 35, 55 and 50 for three lessons; each runs after the set-up alone. *Cores:* any number. *GPU:* none needed; a C++ compiler is.
#
# | symbol | meaning |
# |---|---|
# | $l$ | a lane: the number of a thread in its warp, 0 to 31 |
# | $A$, $B$, $C$ | matrices of $m \times k$, $k \times n$ and $m \times n$ floats; $C = AB$ |
# | $T$ | side of a square tile |
# | $R$ | a thread makes $R$ outputs of a row, or $R \times R$ |
# | $h$, $w$ | rows and columns of a block's outputs |
# | $Q$ | what all threads together ask of global memory, in bytes |
#
# ## Set-up

# %% tags=["parameters"]
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Code, Markdown
from sklearn.datasets import load_sample_image

from helpers.cuda import Module
from helpers.cuda.occupancy import busy, by_resident_warps, occupancy
from helpers.exercises import cuda as check
from helpers.exercises import cuda_matrices as check_products
from helpers.plots import banks, style
from helpers.plots import cuda as plots
from helpers.plots.accesses import lane_picture
from helpers.predictions import Prediction

# %load_ext helpers.cuda
style.use()
rng = np.random.default_rng(14)
access, products = Module("access.cu", device="cpu"), Module("product.cu", device="cpu")


# %%
def multiplied(module, name, high, wide, side=16):
    """Record a product of 64 × 64 matrices; a block of side × side threads makes high × wide of it."""
    a, b, c = (rng.random((64, 64), np.float32) for _ in range(3))
    launch = module[name][(64 // wide, 64 // high), (side, side)]
    record = launch.record(a, b, c, 64, 64, 64, blocks=[])
    assert np.allclose(c, a @ b, rtol=1e-4)
    return record


# %% [markdown]
# The 32 threads of a [warp](glossary.md#warp) execute a load together. Their 32 addresses go to memory as one *request*. Its cost depends on the memory:
#
# - **Global memory** moves *sectors* of 32 bytes: 8 words of 4 bytes. A request moves every sector that any of its lanes touches.
# - **Shared memory** has 32 *banks*; word $i$ lies in bank $i \bmod 32$. In one *wavefront*, every bank serves one word. If lanes want different words of one bank, the request needs several wavefronts: a *[bank conflict](glossary.md#bank-conflict)*. Lanes that want the *same* word share a wavefront.
#
# In the picture, memory stands in rows of 32 words: a column is a bank, 8 neighbouring words are a sector. The lanes read words 36 apart. **Press |◀, then ▶|** for words 1, 2, 4, … apart. **Click a bank** to see which lanes want its words.

# %%
memory, requests = np.zeros(32 * 36, np.float32), {}
for stride in (1, 2, 4, 8, 16, 32, 33, 34, 36):
    launch = access["strided"][1, 32]  # lane l reads word stride · l, of global and shared memory
    requests[f"{stride} apart"] = launch.record(memory, np.zeros(32, np.float32), stride)
lane_picture(requests, "x", "tile")

# %% [markdown]
# ## Lesson 1. Why can the same copy move more bytes?
#
# *35 minutes.* **The question:** two kernels copy the same matrix with the same number of loads. Why does one of them move several times the bytes?
#
# ### Which thread takes which element
#
# Each thread copies one element of a matrix of 64 × 64 floats. In `copy_along_rows`, lane $l$ of a warp copies `matrix[y][x + l]`. In `copy_along_columns`, it copies `matrix[y + l][x]`: the addresses of neighbouring lanes lie 64 floats apart.
#
# > **Predict.** By what factor does `copy_along_columns` move more bytes? (Compare the picture for words 36 apart.)

# %%
wasted = Prediction("bytes moved, along columns ÷ along rows", None)  # your number for None

# %%
matrix, moved = rng.random((64, 64), np.float32), {}
for name in ("copy_along_rows", "copy_along_columns"):
    record = access[name][(2, 8), (32, 8)].record(matrix, np.zeros_like(matrix), 64, 64, blocks=[])
    asked, moved[name] = (f(space="global") for f in (record.requested_bytes, record.sector_bytes))
    print(f"{name:19} asked for {asked / 1e3:.1f} kB, moved {moved[name] / 1e3:5.1f} kB:",
          f"{asked / moved[name]:.1%} used")  # fmt: skip
wasted.answer(moved["copy_along_columns"] / moved["copy_along_rows"])

# %% [markdown]
# Along rows, the 128 bytes of a warp fill 4 sectors: the access is *[coalesced](glossary.md#coalescing)*. Along columns, each lane touches a sector of its own and uses 4 of its 32 bytes.
#
# On an H200, with 8192 × 8192 floats, the copy along rows took 0.215 ms and the copy along columns 0.97 ms: 4.5 times as long, not eight times. Eight times as many sectors moved between threads and caches, but the memory behind the caches moved only 3 % more bytes: the caches keep sectors whose other words are still to come. (`make gpu` took these figures; `data/gpu/` holds the record.)
#
# ### Exercise 1: coalesce an access
#
# *Difficulty ●○○, 5 minutes.* `brighten` multiplies each pixel by 1.2. Its blocks have 32 × 32 threads, and its grid $\lceil \text{width}/32 \rceil \times \lceil \text{height}/32 \rceil$ blocks. Now each warp takes a column. Set `x` and `y` anew, so that each warp's access is coalesced and each pixel belongs to one thread. A warp holds the 32 threads with equal `threadIdx.y`.
#
# <details><summary>Hint</summary>
#
# The address is `y * width + x`. Which of `x` and `y` must grow by one from each lane to the next?
#
# </details>

# %% language="cuda" exercise="coalesce"
# __global__ void brighten(const float *image, float *out, int height, int width) {
#     int x = blockIdx.x * 32 + threadIdx.y, y = blockIdx.y * 32 + threadIdx.x;
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
photograph = load_sample_image("china.jpg").mean(axis=2).astype(np.float32) / 255
(height, width), shown = photograph.shape, {"photograph": photograph}
if check.brighten.passed(brighten):
    shown["by your brighten"] = np.zeros_like(photograph)
    grid = -(-width // 32), -(-height // 32)
    brighten[grid, (32, 32)](photograph, shown["by your brighten"], height, width)
plots.images(shown, "Each pixel times 1.2: what was brighter than 0.83 becomes white")
plt.show()

# %% [markdown]
# ### What breaks: four floats at once, from anywhere
#
# A lane can load four floats, a `float4`, with one instruction, if their address is a multiple of 16 bytes. Here each address lies 4 bytes after such a multiple:

# %% language="cuda"
# __global__ void shifted(const float *x, float4 *y) {
#     y[threadIdx.x] = *(const float4 *)(x + 4 * threadIdx.x + 1);
# }

# %% tags=["raises-exception"]
shifted[1, 8](np.arange(64, dtype=np.float32), np.zeros((8, 4), np.float32))

# %% [markdown]
# A GPU stops such a kernel too, but names neither thread nor array. If a matrix's width is no multiple of four, pad its rows (`cudaMallocPitch`).
#
# ### Transpose: coalesced on both sides
#
# A transposition reads rows and writes columns. Through a tile in shared memory, both accesses are coalesced: a block fills the tile row by row, then reads its columns. The table shows what lane $l$ of a warp touches; all lanes share the other indices. **Where `l` stands in the last brackets, an access to global memory is coalesced:**
#
# | kernel | reads | through the tile | writes |
# |---|---|---|---|
# | a transposition without a tile | `matrix[y][x + l]` | | `transposed[x + l][y]` |
# | `transpose` | `matrix[y][x + l]` | writes `tile[r][l]`, reads `tile[l][c]` | `transposed[x][y + l]` |
#
# In `transpose`, only shared memory is read by columns. There banks count instead of sectors: in a tile of 32 × 32 words (`PAD` is 0), a whole column lies in one bank.

# %%
Code(access["transpose"].listing, language="c++")

# %% [markdown]
# ### Exercise 2: how many wavefronts?
#
# *Difficulty ●●○, 10 minutes.* The rows of a tile hold `columns` floats. Lane $l$ reads `tile[l][c]`, with the same $c$ for all lanes. Return how many wavefronts serve the 32 lanes.
#
# <details><summary>Hint</summary>
#
# Lane $l$ reads word $l \cdot \text{columns}$ of the tile, plus $c$. The picture shows 32, 33, 34 and 36 columns. What decides the number of wavefronts?
#
# </details>


# %% exercise="wavefronts"
def wavefronts(columns):
    """Return the wavefronts in which a column of a tile is read."""
    # BEGIN SOLUTION
    banks = [lane * columns % 32 for lane in range(32)]
    return max(banks.count(bank) for bank in banks)
    # END SOLUTION


# %% check="wavefronts" points=2
check.wavefronts(wavefronts)

# %% [markdown]
# > **Predict,** without your function. The tile gets one or eight columns of *padding*, which no thread uses. How many wavefronts does reading a column then take?

# %%
one_more = Prediction("wavefronts with one column of padding", None)  # your number for None
eight_more = Prediction("wavefronts with eight columns of padding", None)

# %%
for pad in (0, 1, 2, 8):
    with Module("access.cu", {"PAD": pad}, device="cpu") as module:
        turned = np.zeros_like(matrix)
        record = module["transpose"][(2, 2), (32, 8)].record(matrix, turned, 64, 64, blocks=[])
    assert np.array_equal(turned, matrix.T)
    (reads,) = record.select(array="tile", kind="read")
    share = record.requested_bytes(space="global") / record.sector_bytes(space="global")
    print(f"tile[32][32 + {pad}]: wavefronts per request {reads.wavefronts / reads.requests:2.0f},",
          f"yours {wavefronts(32 + pad) or '–'}; {share:.0%} of the sectors' bytes used")  # fmt: skip
    if said := {1: one_more, 8: eight_more}.get(pad):
        said.answer(reads.wavefronts / reads.requests)

# %% [markdown]
# Why does one column remove all conflicts? The picture has 8 banks and 8 lanes. The number in each word is its bank; the lanes read the orange column:

# %%
banks.padding(banks=8, pads=(0, 1))
plt.show()

# %% [markdown]
# Left, all lanes want bank 2. Right, each row begins one bank further, so each lane wants another bank. With 32 banks and eight columns of padding, each row begins eight banks further, and every fourth lane wants the same bank. Padding removes every conflict if it makes the row's length odd. On an H200, a transposition of 8192 × 8192 floats took 0.39 ms without padding and 0.20 ms with one column.
#
# > **Answer.** A request moves whole sectors. If neighbouring lanes take neighbouring words, aligned to sectors, all bytes are used; if they take neighbouring rows, 4 of each 32 are. A kernel that needs columns reads rows into a padded tile of shared memory, and takes the columns from there.
#
# ## Lesson 2. What does a tile save in a matrix product?
#
# *55 minutes.* **The question:** in $C = AB$ every number of $A$ is needed $n$ times. How often must it come from global memory?
#
# ### The direct product, and a tile by hand
#
# Each $C_{ij}$ is a sum over a row of $A$ and a column of $B$, so a thread that makes one output reads $2k$ numbers of global memory. But all outputs of a row need the same row of $A$, and all outputs of a column the same column of $B$. So a block of $T \times T$ threads can share its loads. It walks along $k$ in steps of $T$, and in each step loads a square tile of $A$ and one of $B$. Every loaded number serves $T$ threads. The picture shows a block for $T = 16$, and its outputs in blue:

# %%
plots.product_blocks({"16 × 16 outputs": (16, 16)}, side=64, step=16)
plt.show()

# %% [markdown]
# By hand, with $T = 2$ and $4 \times 4$ matrices: directly, the four threads of a block read $4 \cdot 2k = 32$ numbers. Through tiles, they load $4 + 4$ numbers in each of two steps: 16. In general, in bytes, with each output written once:
#
# $$ Q_\text{direct} = 4\,mn\,(2k + 1) \qquad Q_\text{tiled} = 4\left( mk \left\lceil \tfrac{n}{T} \right\rceil + kn \left\lceil \tfrac{m}{T} \right\rceil + mn \right) $$

# %% language="cuda"
# __global__ void direct_product(const float *a, const float *b, float *c, int m, int k, int n) {
#     int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
#     if (i >= m || j >= n) return;
#     float sum = 0;
#     for (int p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
#     c[i * n + j] = sum;
# }

# %% [markdown]
# > **Predict.** How many barriers does each step along $k$ need?

# %%
barriers = Prediction("barriers in a step along k", None)  # your number for None

# %% [markdown]
# ### Exercise 3: a product through tiles
#
# *Difficulty ●●●, 25 minutes.* Write the body of the loop over `from`, the first column of $A$'s tile and the first row of $B$'s. Blocks are 16 × 16. Thread (x, y) loads one number into `left`, the tile of $A$, and one into `right`, the tile of $B$. Sides need not be multiples of 16; what lies outside counts as zero. A block reads each number of $A$ and $B$ at most once.
#
# <details><summary>Hint</summary>
#
# Which number of $A$ lies at `left[y][x]`, and which number of $B$ at `right[y][x]`? Each of the two loads has its own bounds test. Guard only the load; every thread must reach the barriers.
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
ones, c = np.ones((16, 80), np.float32), np.zeros((16, 16), np.float32)  # five steps along k
record = products["square_product<16>"][1, (16, 16)].record(ones, ones.T.copy(), c, 16, 80, 16)
barriers.answer(record.events["interval"].max() / 5)  # interval: the barriers passed so far
for m, k, n in ((64, 64, 64), (50, 70, 90)):
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    across, down = -(-n // 16), -(-m // 16)  # blocks
    say = 4 * m * n * (2 * k + 1), 4 * (m * k * across + k * n * down + m * n)
    for kernel, predicted in zip((direct_product, tiled_product), say, strict=True):
        if kernel is tiled_product and not check_products.tiled_product.passed(kernel):
            continue
        c = np.zeros((m, n), np.float32)
        record = kernel[(across, down), (16, 16)].record(a, b, c, m, k, n, blocks=[])
        assert np.allclose(c, a @ b, rtol=1e-4)
        print(f"{m} × {k} × {n} {record.kernel:15} predicted {predicted:9,},",
              f"asked for {record.requested_bytes(space='global'):9,},",
              f"moved {record.sector_bytes(space='global'):9,} bytes")  # fmt: skip

# %% [markdown]
# Each step needs two barriers: one between loading the tiles and reading them, one between reading them and loading the next tiles.
#
# The bytes asked for are as predicted. But at 64 × 64 × 64, the direct kernel asks for fourteen times as many bytes as the tiled one, and *moves* only seven times as many: lanes that want the same number share its sector. At 50 × 70 × 90 most rows do not begin where a sector does, so the tiled kernel moves more than it asks for.
#
# ### Several outputs for each thread
#
# A wider tile saves more, but 1024 threads a block allow only $T \le 32$. With *[thread coarsening](glossary.md#thread-coarsening)*, each of $16 \times 16$ threads computes $R$ outputs of one row, 16 columns apart, and keeps their sums in registers. In each step a block loads one tile of $A$, and $R$ tiles of $B$ side by side.
#
# > **Predict.** All sides are 64. By which factor do the bytes asked for change from $R = 1$ to $R = 4$?

# %%
coarse_share = Prediction("bytes asked for with R = 4 ÷ with R = 1", None)  # your number for None

# %% [markdown]
# ### Exercise 4: one tile of A for several of B
#
# *Difficulty ●●○, 15 minutes.* Write the body of the loop once more. `left` is a tile of $A$ as before, `right` holds the $R$ tiles of $B$ side by side, and `sum[q]` belongs to column `j + 16 * q`. A block reads each number of $A$ and $B$ at most once. `template <int R>` makes $R$ a number that the compiler knows; `coarse["coarse_product<4>"]` has $R = 4$.
#
# <details><summary>Hint</summary>
#
# Start from your tiled product. Which of its lines must now run for each `q`, and which place of `right` belongs to column `j + 16 * q`?
#
# </details>

# %% language="cuda" magic_args="coarse" exercise="coarse-product"
# template <int R>
# __global__ void coarse_product(const float *a, const float *b, float *c, int m, int k, int n) {
#     __shared__ float left[16][16], right[16][16 * R];
#     int x = threadIdx.x, y = threadIdx.y, j = blockIdx.x * 16 * R + x, i = blockIdx.y * 16 + y;
#     float sum[R] = {};
#     for (int from = 0; from < k; from += 16) {
#         // your part
#         // BEGIN SOLUTION
#         left[y][x] = i < m && from + x < k ? a[i * k + from + x] : 0.0f;
#         for (int q = 0; q < R; q++)
#             right[y][x + 16 * q] =
#                 from + y < k && j + 16 * q < n ? b[(from + y) * n + j + 16 * q] : 0.0f;
#         __syncthreads();
#         for (int p = 0; p < 16; p++) {
#             float one = left[y][p];  // read once, used R times
#             for (int q = 0; q < R; q++) sum[q] += one * right[p][x + 16 * q];
#         }
#         __syncthreads();
#         // END SOLUTION
#         // end of your part
#     }
#     for (int q = 0; q < R; q++) if (i < m && j + 16 * q < n) c[i * n + j + 16 * q] = sum[q];
# }

# %% check="coarse-product" points=4
check_products.coarse_product(coarse)
# %%
made_by = coarse if check_products.coarse_product.passed(coarse) else products
found = {}
for R in (1, 2, 4):
    record = multiplied(made_by, f"coarse_product<{R}>", 16, 16 * R)
    found[R] = record.requested_bytes(space="global")
    print(f"R = {R}: predicted {4 * (64 * 64 * 4 // R + 64 * 64 * 4 + 64 * 64):7,},",
          f"asked for {found[R]:7,}, moved {record.sector_bytes(space='global'):7,} bytes;",
          f"{record.count(array='left', kind='read'):7,} reads of A's tile")  # fmt: skip
coarse_share.answer(found[4] / found[1])

# %% [markdown]
# In global memory, only the reads of $A$ shrink with $R$. Each block still makes 16 rows of outputs, so four blocks still read each number of $B$. In shared memory, a thread needs a number of $A$'s tile only once for $R$ products. (If your reads of A's tile do not shrink with $R$, read `left[y][p]` into a variable before the loop over `q`.)
#
# On an H200, with all sides 4096, the $16 \times 16$ tile took 16.9 ms, $R = 2$ 14.1 ms, and $R = 4$ 12.4 ms. PyTorch's product (cuBLAS, single precision) took 2.7 ms. (We did not time the direct product.)
#
# > **Answer.** Each block that needs a number of $A$ reads it once: $\lceil n/T \rceil$ times instead of $n$ times, for a tile of side $T$. If each thread makes $R$ outputs of a row, $R$ times fewer blocks read it.
#
# ## Lesson 3. Which shape should a block's outputs have?
#
# *50 minutes.* **The question:** one block makes 16 × 64 outputs, another 32 × 32. Which moves fewer bytes? And what does it cost if each thread makes more outputs?
#
# ### By hand
#
# A block makes $h \times w$ outputs. At each index along $k$, it loads $h$ numbers from a column of $A$ and $w$ from a row of $B$, and makes $hw$ *multiply-adds*: products, each added to a sum. For 1024 multiply-adds the 16 × 64 block loads 80 numbers, the 32 × 32 block only 64. Of all shapes with the same area $hw$, the square has the smallest $h + w$:

# %%
shapes = {"16 × 64 outputs: 16 + 64 = 80": (16, 64), "32 × 32 outputs: 32 + 32 = 64": (32, 32)}
plots.product_blocks(shapes, side=64, step=16)
plt.show()

# %% [markdown]
# All blocks together ask for this many bytes:
#
# $$ Q = 4\left( mk \left\lceil \tfrac{n}{w} \right\rceil + kn \left\lceil \tfrac{m}{h} \right\rceil + mn \right) $$
#
# ### Registers as tiles: a square of outputs for each thread
#
# The same argument holds for one thread and shared memory. For $R$ outputs of a row, a thread reads $1 + R$ numbers of shared memory for $R$ multiply-adds. For $R \times R$ outputs, 16 rows and 16 columns apart, it reads only $2R$ (`of_a`, `of_b`) for $R^2$ multiply-adds:

# %%
Code(products["register_product<2>"].listing, language="c++")

# %% [markdown]
# > **Predict.** All sides are 64. The plain tile `square_product<32>` has 1024 threads with one output each, `register_product<2>` has 256 threads with 2 × 2 outputs each. By which factor does the plain tile ask for more bytes, and need more wavefronts?

# %%
bytes_ratio = Prediction("bytes, plain 32 × 32 ÷ register_product<2>", None)  # your number
bank_ratio = Prediction("wavefronts, plain 32 × 32 ÷ register_product<2>", None)

# %%
blocks = {"square_product<16>": (16, 16, 16), "square_product<32>": (32, 32, 32),
          "coarse_product<4>": (16, 64, 16), "register_product<2>": (32, 32, 16),
          "register_product<4>": (64, 64, 16)}  # fmt: skip
seen = {}
lines = ["| kernel | outputs of a block | threads | asked for (kB) | moved (kB) "
         "| wavefronts for 32 multiply-adds |", "|---" * 6 + "|"]  # fmt: skip
for name, (high, wide, side) in blocks.items():
    record = multiplied(products, name, high, wide, side)
    served = sum(a.wavefronts for a in record.select(space="shared")) / (64**3 / 32)
    asked, moved = (f(space="global") for f in (record.requested_bytes, record.sector_bytes))
    seen[name] = asked, served
    lines.append(f"| {name} | {high} × {wide} | {side**2} | {asked / 1e3:.0f} | {moved / 1e3:.0f} "
                 f"| {served:.2f} |")  # fmt: skip
ratios = np.divide(seen["square_product<32>"], seen["register_product<2>"])
bytes_ratio.answer(ratios[0])
bank_ratio.answer(ratios[1])
Markdown("\n".join(lines))

# %% [markdown]
# - **Bytes of global memory** depend only on $h$ and $w$: both kernels with 32 × 32 outputs ask for 82 kB, the one with 16 × 64 for 98 kB.
# - **Wavefronts of shared memory** depend on the shape of a *thread's* outputs. With one output, a warp's multiply-add needs two reads, each one wavefront; with 4 × 4 outputs, half a read. (The rest of the last column fills the tiles.)
#
# How many wavefronts are too many? A *multiprocessor* is the part of a GPU that runs a block. In one clock, a multiprocessor of an H200 can start 128 multiply-adds, and its shared memory can serve one wavefront. So if 32 multiply-adds need more than a quarter of a wavefront, the banks take longer than the arithmetic. All five kernels need more: even `register_product<4>` needed 0.42 on an H200, where NVIDIA's compiler merges some reads. **Among these five kernels, fewer wavefronts went with less time**, but they differ in more than wavefronts. On an H200, with all sides 4096:

# %%
from helpers import records
from helpers.paths import GPU_RECORDS

h200 = records.newest(GPU_RECORDS, "kernels", lambda one, rows: "H200" in one.gpu and rows)
ms = {row.name: row.value / 1e3 for row in h200}
figure, ax = plt.subplots(figsize=(9, 4.6))
figure.set_label("Products of 4096 × 4096 numbers on an H200: fewer wavefronts, less time")
for name, (_, served) in seen.items():
    ax.plot(served, ms[name], "o", markersize=12)
    style.note(ax, f"{name}, {ms[name]:.3g} ms", (served, ms[name]), (11, 5))
ax.set(xlabel="wavefronts for 32 multiply-adds, as counted above", ylabel="time [ms]")
ax.set(xlim=(0, 3.4), ylim=(0, 19))
ax.grid(False)
plt.show()

# %% [markdown]
# cuBLAS is still 1.8 times as fast as our best kernel. Libraries also tile each warp's outputs, load the next tile while they compute on this one, and use *tensor cores* for 16-bit numbers (not measured here).
#
# ### The price: registers, and resident warps
#
# A multiprocessor runs several blocks at a time: while one warp waits for memory, another computes. The warps that it holds are *resident*; their number ÷ the most that it can hold is the *[occupancy](glossary.md#occupancy)*. Four things limit how many blocks fit: threads, blocks, registers and shared memory.
#
# ### Exercise 5: how many warps fit?
#
# *Difficulty ●●○, 10 minutes.* A multiprocessor of an A100 has room for 2048 threads, 32 blocks, 65 536 registers and 167 936 bytes of shared memory. CUDA takes 1024 more bytes of shared memory for each block. Return how many warps are resident, for blocks of `threads` threads (a multiple of 32), with `registers` registers for each thread (a multiple of 8) and `shared` bytes for each block.
#
# <details><summary>Hint</summary>
#
# Whole blocks only. How many fit by each of the four limits? The smallest number decides.
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
# > **Predict.** NVIDIA's compiler gives `register_product<4>` 64 registers for each thread. A block has 256 threads and 8192 bytes of shared memory. How many warps are resident?

# %%
few_warps = Prediction("resident warps of register_product<4>", None)  # your number for None

# %%
lines = ["| kernel | registers per thread | shared memory per block (B) | resident warps of 64 "
         "| yours | limit | outputs at once |", "|---" * 7 + "|"]  # fmt: skip
for name, (high, wide, side) in blocks.items():
    needs = products[name].resources  # as NVIDIA's compiler reports them
    if needs is None:
        continue
    fits = occupancy(side**2, needs.registers, needs.shared, "sm_80")
    mine = resident(side**2, -(-needs.registers // 8) * 8, needs.shared)
    lines.append(f"| {name} | {needs.registers} | {needs.shared} | {fits.warps} | {mine or '–'} "
                 f"| {fits.limit} | {fits.blocks * high * wide:,} |")  # fmt: skip
    if name == "register_product<4>":
        few_warps.answer(fits.warps)
if products.note:
    print(products.note)
Markdown("\n".join(lines))

# %% [markdown]
# The sums of $R \times R$ outputs live in registers. The registers of an A100's or an H200's multiprocessor suffice for only 4 blocks of `register_product<4>`: 32 warps instead of 64. Yet these hold the most outputs, $4 \cdot 64^2 = 16\,384$. Are 32 warps enough?
#
# ### How many warps hide a load?
#
# A load from global memory takes several hundred clocks. A multiprocessor has four *schedulers*, each with a quarter of the resident warps. In each clock, a scheduler can start one request of a warp that is ready. We replay the recorded requests on one scheduler with 2 to 16 warps. A warp starts one request a clock until the barrier that follows its loads. There it waits until 500 clocks after its last load; meanwhile another warp starts its requests. (The replay leaves out arithmetic, banks, and waiting for other warps.)
#
# > **Predict.** Between two waits, a warp of `square_product<16>` starts 36 requests: 2 loads, 2 stores into the tiles and 32 reads of them. A scheduler has 8 such warps, half of what it can hold. In what % of the clocks does it start a request?

# %%
busy_clocks = Prediction("% of clocks, 8 warps of square_product<16>", None)  # your number

# %%
lines = ["| warps of a scheduler | 2 | 4 | 8 | 16 |", "|---" * 5 + "|"]
for name in ("square_product<16>", "register_product<2>", "register_product<4>"):
    side, steps = blocks[name][0], 512
    a, b = rng.random((side, steps), np.float32), rng.random((steps, side), np.float32)
    c = np.empty((side, side), np.float32)
    record = products[name][1, (16, 16)].record(a, b, c, side, steps, side, blocks=[0])
    shares = {warps: busy(record, warps, latency=500) for warps in (2, 4, 8, 16)}
    lines.append(f"| {name} | " + " | ".join(f"{share:.0%}" for share in shares.values()) + " |")
    if name == "square_product<16>":
        busy_clocks.answer(100 * shares[8])
Markdown("\n".join(lines))

# %% [markdown]
# By hand, a warp's round takes about $36 + 500$ clocks, in which 8 warps start $8 \cdot 36 = 288$ requests: 54 % (53 % with start and end). Twice the warps start twice the requests, until the scheduler is busy. A warp of `register_product<4>` starts four times as many reads of the tiles between two waits: 128. So 8 warps, all that the registers allow, keep a scheduler busy.
#
# Are fewer warps enough on an H200 too? We gave each block unused shared memory, so that fewer blocks fit, and timed the products:

# %%
figure, ax = plt.subplots(figsize=(9, 4.8))
figure.set_label("The same products with fewer resident warps, on an H200")
for name, rows in by_resident_warps(h200).items():
    few = {warps: row.value / 1e3 for warps, row in rows.items()}
    ax.loglog(few.keys(), few.values(), label=name)
    for warps, took in few.items():
        style.note(ax, f"{took:.3g}", (warps, took), (0, 9), ha="center")
ax.set(xlabel="resident warps of a multiprocessor", ylabel="time [ms]", ylim=(3, 150))
ax.set_xticks((8, 16, 32, 64), ("8", "16", "32", "64"))
ax.minorticks_off()
ax.grid(False)
ax.legend()
plt.show()

# %% [markdown]
# Yes: with 16 resident warps (four for each scheduler), `register_product<4>` reaches 84 % of its best speed, `square_product<16>` only 40 %. The replay has the trend, with 88 % and 27 % of the clocks, but not the numbers: with 32 warps it says 53 % for `square_product<16>`, which reached 77 % of its best speed.
#
# > **Answer.** The square block moves fewer bytes: of all blocks with $hw$ outputs, it has the smallest $h + w$. A thread that makes a square of outputs saves reads of shared memory in the same way. The price is registers, which limit the resident warps. But if each thread makes more outputs, fewer warps suffice to hide the loads.
#
# ## In practice, and where to read on
#
# `torch.matmul` calls cuBLAS. To write your own product, start from CUTLASS or Triton. A Triton program names tiles; its compiler assigns threads, shared memory and registers. Nsight Compute reports sectors, bank conflicts and occupancy under these names.
#
# <details><summary>What the source says, what we counted</summary>
#
# "Adjacent threads access adjacent memories simultaneously": 100 % of the bytes are used, by columns 12.5 % (lesson 1).
#
# </details>
#
# - NVIDIA, *CUDA C++ Best Practices Guide*: coalescing, banks, occupancy.
# - S. Boehm, *How to optimize a CUDA matmul kernel for cuBLAS-like performance* (2022): to 94 % of cuBLAS in ten kernels.
# - V. Volkov, *Better performance at lower occupancy* (GTC 2010): fewer warps with more outputs.
# - W. W. Hwu, D. B. Kirk, I. El Hajj, *Programming Massively Parallel Processors* (4th edition, 2022), chapters 5 and 6.
#
# **Next**: [15 Let threads meet: warps, scans, histograms, attention](15_cuda_threads_that_meet.ipynb) lets threads exchange what they compute.
