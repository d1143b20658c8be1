// 2-D convolution of one channel, as deep learning writes it (the filter is not flipped):
//
//   out[y][x] = sum over j, i of filter[j][i] * image[y + j - RADIUS_Y][x + i - RADIUS_X]
//
// Four rungs, one result. image, out: height × width floats, row after row.

#ifndef FILTER_HEIGHT
#define FILTER_HEIGHT 5  // odd
#endif
#ifndef FILTER_WIDTH
#define FILTER_WIDTH 5   // odd
#endif
#ifndef BORDER
#define BORDER 0         // 0 zero, 1 replicate (aaa|abc), 2 reflect (cba|abc without the edge twice)
#endif
#ifndef TILE_HEIGHT
#define TILE_HEIGHT 8    // outputs of one block: blockDim is (TILE_WIDTH, TILE_HEIGHT)
#endif
#ifndef TILE_WIDTH
#define TILE_WIDTH 32    // a whole warp along a row
#endif
#ifndef STRIP
#define STRIP 32         // outputs down a column that one thread of the last rung makes
#endif

#define RADIUS_Y (FILTER_HEIGHT / 2)
#define RADIUS_X (FILTER_WIDTH / 2)

__constant__ float weights[FILTER_HEIGHT * FILTER_WIDTH];

// The index inside 0 .. n-1 that stands for index i of the endless image; -1: a zero.
__device__ __forceinline__ int inside(int i, int n) {
    if (i >= 0 && i < n) return i;
#if BORDER == 0
    return -1;
#elif BORDER == 1
    return i < 0 ? 0 : n - 1;
#else
    if (n == 1) return 0;
    int period = 2 * (n - 1);
    i = ((i % period) + period) % period;
    return i < n ? i : period - i;
#endif
}

__device__ __forceinline__ float pixel(const float *image, int y, int x, int height, int width) {
    y = inside(y, height);
    x = inside(x, width);
    return y < 0 || x < 0 ? 0.0f : image[y * width + x];
}

// One thread per output, everything from global memory.
__global__ void convolve_global(const float *image, const float *filter, float *out,
                                int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int j = 0; j < FILTER_HEIGHT; j++)
        for (int i = 0; i < FILTER_WIDTH; i++)
            sum += filter[j * FILTER_WIDTH + i]
                 * pixel(image, y + j - RADIUS_Y, x + i - RADIUS_X, height, width);
    out[y * width + x] = sum;
}

// The filter, which every thread wants, in constant memory.
__global__ void convolve_constant(const float *image, float *out, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int j = 0; j < FILTER_HEIGHT; j++)
        for (int i = 0; i < FILTER_WIDTH; i++)
            sum += weights[j * FILTER_WIDTH + i]
                 * pixel(image, y + j - RADIUS_Y, x + i - RADIUS_X, height, width);
    out[y * width + x] = sum;
}

// The block's pixels and their halo in shared memory, loaded by all threads.
__global__ void convolve_tiled(const float *image, float *out, int height, int width) {
    const int rows = TILE_HEIGHT + FILTER_HEIGHT - 1;
    const int columns = TILE_WIDTH + FILTER_WIDTH - 1;
    __shared__ float tile[rows][columns];
    int left = blockIdx.x * TILE_WIDTH - RADIUS_X;  // of the tile, halo included
    int top = blockIdx.y * TILE_HEIGHT - RADIUS_Y;

    int me = threadIdx.y * TILE_WIDTH + threadIdx.x;
    for (int e = me; e < rows * columns; e += TILE_WIDTH * TILE_HEIGHT)
        tile[e / columns][e % columns] =
            pixel(image, top + e / columns, left + e % columns, height, width);
    __syncthreads();

    int x = blockIdx.x * TILE_WIDTH + threadIdx.x;
    int y = blockIdx.y * TILE_HEIGHT + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int j = 0; j < FILTER_HEIGHT; j++)
        for (int i = 0; i < FILTER_WIDTH; i++)
            sum += weights[j * FILTER_WIDTH + i] * tile[threadIdx.y + j][threadIdx.x + i];
    out[y * width + x] = sum;
}

// No shared memory. A thread owns 4 neighbouring columns and walks down STRIP rows. Each
// row is loaded once into registers and feeds FILTER_HEIGHT partial sums, so that one loaded value
// serves up to FILTER_HEIGHT * FILTER_WIDTH multiply-adds; the oldest sum is then complete.
// Grid: ceil(width / (4 * blockDim.x)) × ceil(height / STRIP); block (n, 1).

#define WINDOW (FILTER_WIDTH + 3)              // pixels of a row that 4 outputs need
#define HALO_QUADS ((RADIUS_X + 3) / 4)        // whole float4 to the left and to the right
#define QUADS (2 * HALO_QUADS + 1)

__device__ __forceinline__ void load_window(float window[WINDOW], const float *image, int row,
                                            int x, int height, int width, bool whole_quads) {
    row = inside(row, height);
    if (row >= 0 && whole_quads) {  // away from the border, rows aligned to 16 bytes
        float quads[4 * QUADS];
        const float4 *from = reinterpret_cast<const float4 *>(image + (size_t)row * width + x);
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            float4 v = __ldg(from + q - HALO_QUADS);
            quads[4 * q] = v.x;
            quads[4 * q + 1] = v.y;
            quads[4 * q + 2] = v.z;
            quads[4 * q + 3] = v.w;
        }
#pragma unroll
        for (int i = 0; i < WINDOW; i++) window[i] = quads[4 * HALO_QUADS - RADIUS_X + i];
        return;
    }
#pragma unroll
    for (int i = 0; i < WINDOW; i++) {
        int column = inside(x - RADIUS_X + i, width);
        window[i] = row < 0 || column < 0 ? 0.0f : __ldg(image + (size_t)row * width + column);
    }
}

__global__ void convolve_rows(const float *__restrict__ image, float *__restrict__ out,
                              int height, int width) {
    int x = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    int top = blockIdx.y * STRIP;
    if (x >= width) return;
    bool aligned = width % 4 == 0 && ((size_t)image | (size_t)out) % 16 == 0;
    bool whole_quads = aligned && x >= 4 * HALO_QUADS && x + 4 + 4 * HALO_QUADS <= width;
    int bottom = min(top + STRIP, height);

    float sums[FILTER_HEIGHT][4] = {};  // of the outputs that this row belongs to
    // FILTER_HEIGHT rows a turn: unrolled, the places in `sums` are known to the compiler,
    // and the sums stay in registers.
    for (int first = top - RADIUS_Y; first < bottom + RADIUS_Y; first += FILTER_HEIGHT) {
#pragma unroll
        for (int turn = 0; turn < FILTER_HEIGHT; turn++) {
            int row = first + turn;
            if (row >= bottom + RADIUS_Y) break;
            float window[WINDOW];
            load_window(window, image, row, x, height, width, whole_quads);
#pragma unroll
            for (int j = 0; j < FILTER_HEIGHT; j++) {
                // Filter row j of this image row belongs to output row - j + RADIUS_Y.
                const int slot = (turn - j + FILTER_HEIGHT) % FILTER_HEIGHT;
#pragma unroll
                for (int i = 0; i < FILTER_WIDTH; i++)
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        sums[slot][c] += weights[j * FILTER_WIDTH + i] * window[i + c];
            }
            const int done = (turn + 1) % FILTER_HEIGHT;  // began FILTER_HEIGHT - 1 rows ago
            int y = row - RADIUS_Y;
            if (y >= top) {
                float *to = out + (size_t)y * width + x;
                if (whole_quads) {
                    float4 four = make_float4(sums[done][0], sums[done][1], sums[done][2],
                                              sums[done][3]);
                    __stcs(reinterpret_cast<float4 *>(to), four);  // not read again
                } else {
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        if (x + c < width) to[c] = sums[done][c];
                }
            }
#pragma unroll
            for (int c = 0; c < 4; c++) sums[done][c] = 0.0f;
        }
    }
}
