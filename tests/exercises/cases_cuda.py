"""Right and wrong answers to exercises of notebooks 05 and 14."""

import math

from tests.exercises.case import Case

AXPY = """
__global__ void axpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    %s
}
"""
AVERAGE = """
#define R 2
__global__ void moving_average(const float *x, float *y, int n) {
    __shared__ float tile[32 + 2 * R];
    int first = blockIdx.x * 32 - R;
    %s
    __syncthreads();
    int me = blockIdx.x * 32 + threadIdx.x;
    if (me < n) {
        float sum = 0;
        for (int k = 0; k <= 2 * R; k++) sum += tile[threadIdx.x + k];
        y[me] = sum / (2 * R + 1);
    }
}
"""
LOAD = """for (int k = threadIdx.x; k < 32 + 2 * R; k += 32)
        tile[k] = first + k >= 0 && first + k < n ? x[first + k] : 0.0f;"""
SIDES = """int t = threadIdx.x, i0 = first + R + t;  // the middle, then both sides
    tile[t + R] = i0 < n ? x[i0] : 0;
    if (t < R) tile[t] = first + t >= 0 && first + t < n ? x[first + t] : 0;
    if (t >= 32 - R) tile[t + 2 * R] = i0 + R < n ? x[i0 + R] : 0;"""
BRIGHTEN = """
__global__ void brighten(const float *image, float *out, int height, int width) {
    %s
    if (x < width && y < height) out[y * width + x] = 1.2f * image[y * width + x];
}
"""
SERIAL = """
__global__ void brighten(const float *image, float *out, int height, int width) {
    if (threadIdx.x + threadIdx.y + blockIdx.x + blockIdx.y == 0)
        for (int p = 0; p < height * width; p++) out[p] = 1.2f * image[p];
}
"""
REVERSE = """
__global__ void reverse_blocks(float *x, int n) {
    __shared__ float tile[64];
    int first = blockIdx.x * 64, size = min(64, n - first);
    if (threadIdx.x < size) tile[threadIdx.x] = x[first + threadIdx.x];
    %s
    if (threadIdx.x < size) x[first + threadIdx.x] = tile[size - 1 - threadIdx.x];
}
"""

SUM = """
__global__ void tree_sum(const float *x, float *total) {
    __shared__ float part[64];
    part[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    %s
    if (threadIdx.x == 0) total[blockIdx.x] = part[0];
}
"""
TREE = """for (int half = 32; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }"""
MINE = """
__global__ void my_convolution(const float *image, const float *filter, float *out, int height,
                               int width) {
    __shared__ float tile[12][36];
    int top = blockIdx.y * 8 - 2, left = blockIdx.x * 32 - 2;
    for (int e = threadIdx.y * 32 + threadIdx.x; e < 12 * 36; e += 256) {
        int y = top + e / 36, x = left + e % 36;
        bool inside = y >= 0 && y < height && x >= 0 && x < width;
        tile[e / 36][e % 36] = inside ? image[y * width + x] : 0.0f;
    }
    __syncthreads();
    int y = top + 2 + threadIdx.y, x = left + 2 + threadIdx.x;
    if (y < height && x < width) {
        float sum = 0;
        for (int j = 0; j < 5; j++)
            for (int i = 0; i < 5; i++)
                sum += filter[5 * j + i] * tile[threadIdx.y + j][threadIdx.x + i];
        out[y * width + x] = sum;
    }
}
"""
BY_STRIDES = MINE.replace(  # the same loads, dealt out by rows and columns
    "for (int e = threadIdx.y * 32 + threadIdx.x; e < 12 * 36; e += 256) {",
    "for (int r = threadIdx.y; r < 12; r += 8) for (int q = threadIdx.x; q < 36; q += 32) {\n"
    "        int e = 36 * r + q;",
)
ONE_WARP = (
    MINE.replace(
        "int y = top + 2 + threadIdx.y, x = left + 2 + threadIdx.x;\n    if (",
        "for (int row = 0; row < 8; row++) {\n"
        "    int y = top + 2 + row, x = left + 2 + threadIdx.x;\n    if (threadIdx.y == 0 && ",
    ).replace("tile[threadIdx.y + j]", "tile[row + j]")
    + "}"
)
UNTILED = """
__global__ void my_convolution(const float *image, const float *filter, float *out, int height,
                               int width) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0;
    for (int j = -2; j <= 2; j++)
        for (int i = -2; i <= 2; i++)
            if (y + j >= 0 && y + j < height && x + i >= 0 && x + i < width)
                sum += filter[5 * (j + 2) + i + 2] * image[(y + j) * width + x + i];
    out[y * width + x] = sum;
}
"""


def resident(threads, registers, shared, system=1024, blocks=32):
    by_registers, by_shared = 65_536 // (threads * registers), 167_936 // (shared + system or 1)
    return min(2048 // threads, blocks, by_registers, by_shared) * threads // 32


CASES = {
    "tree_sum": Case(
        right=SUM % TREE,
        also=[
            SUM % "for (int t = threadIdx.x, s = 1; s < 64; s *= 2) { __syncthreads(); "
            "if (t % (2 * s) == 0) atomicAdd(&part[t], part[t + s]); }",
            SUM % "__syncthreads(); if (threadIdx.x < 32) { "
            "float sum = part[threadIdx.x] + part[threadIdx.x + 32]; "
            "for (int o = 16; o; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o); "
            "if (threadIdx.x == 0) part[0] = sum; }",
        ],
        wrong=[
            SUM % TREE.replace("__syncthreads();", ""),
            SUM
            % (
                "__syncthreads(); if (threadIdx.x == 0) "
                "for (int k = 1; k < 64; k++) part[0] += part[k];"
            ),
            SUM % "if (threadIdx.x == 0) { float sum = 0; "
            "for (int k = 0; k < 64; k++) sum += x[blockIdx.x * 64 + k]; part[0] = sum; }",
            SUM % "__syncthreads(); if (threadIdx.x) atomicAdd(&part[0], part[threadIdx.x]); "
            "__syncthreads();",
        ],
    ),
    "my_convolution": Case(
        right=MINE,
        also=[BY_STRIDES],
        wrong=[
            UNTILED,
            ONE_WARP,  # right, but 224 threads compute nothing
            BY_STRIDES.replace("r = threadIdx.y; r < 12; r += 8", "r = 0; r < 12; r++").replace(
                "for (int q", "if (threadIdx.y == 0) for (int q"
            ),
        ],
    ),
    "wavefronts": Case(
        right=lambda columns: math.gcd(columns, 32),
        wrong=[
            lambda columns: 32 if columns == 32 else 1,
            lambda columns: columns % 32 or 32,
        ],
    ),
    "resident_warps": Case(
        right=resident,
        wrong=[
            lambda *needs: resident(*needs, system=0),
            lambda *needs: resident(*needs, blocks=10**6),
            lambda *needs: resident(*needs) * 32,  # threads
            lambda threads, registers, shared: min(  # of no whole blocks
                64, threads, 2048 // registers, 167_936 // (shared + 1024) * threads // 32
            ),
        ],
    ),
    "axpy": Case(
        right=AXPY % "if (i < n) y[i] = a * x[i] + y[i];",
        also=[AXPY % "for (; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];"],
        wrong=[
            AXPY % "y[i] = a * x[i] + y[i];",
            AXPY % "if (i == 0) for (int k = 0; k < n; k++) y[k] = a * x[k] + y[k];",
            AXPY % "if (i < n) y[i] = a * x[i] + y[i]",
            "__global__ void other(float *x) {}",
        ],
    ),
    "moving_average": Case(
        right=AVERAGE % LOAD,
        also=[AVERAGE % SIDES.replace("i0", "i")],
        wrong=[
            AVERAGE
            % LOAD.replace(  # the border's elements several times
                "first + k >= 0 && first + k < n ? x[first + k] : 0.0f;",
                "x[min(max(first + k, 0), n - 1)] * (first + k >= 0 && first + k < n);",
            ),
            AVERAGE % "tile[threadIdx.x + R] = x[first + R + threadIdx.x];",
            AVERAGE % ("if (threadIdx.x == 0) " + LOAD.replace("k += 32", "k++")),
        ],
    ),
    "brighten": Case(
        right=BRIGHTEN
        % "int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;",
        also=[
            BRIGHTEN % "__syncwarp(); int x = blockIdx.x * 32 + threadIdx.x,"
            " y = blockIdx.y * 32 + threadIdx.y;"
        ],
        wrong=[
            BRIGHTEN % "int x = blockIdx.x * 32 + threadIdx.y, y = blockIdx.y * 32 + threadIdx.x;",
            BRIGHTEN % "int x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;",
            SERIAL,
        ],
    ),
    "reverse_blocks": Case(
        right=REVERSE % "__syncthreads();",
        wrong=[
            REVERSE % "__syncwarp();",
            REVERSE % "if (threadIdx.x < 32) __syncthreads();",
            REVERSE % "if (threadIdx.x < size) __syncthreads();",
        ],
    ),
}
