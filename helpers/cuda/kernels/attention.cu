// Attention of n queries over n keys, D numbers each: out = softmax(q kᵀ / √D) v.
// q, k, v, out: n × D, row after row. Blocks of 16 × 16 threads, unless said otherwise.
#ifndef D
#define D 32 // a multiple of 16
#endif

// ---- Three kernels: the n × n scores and weights travel through global memory. ----

// scores[i][j] = q[i] · k[j] / √D. Grid: ceil(n / 16), ceil(n / 16).
__global__ void scores(const float *q, const float *k, float *scores, int n) {
    __shared__ float queries[16][D + 1], keys[16][D + 1];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16, column = blockIdx.x * 16;
    for (int c = x; c < D; c += 16) {
        queries[y][c] = row + y < n ? q[(row + y) * D + c] : 0.0f;
        keys[y][c] = column + y < n ? k[(column + y) * D + c] : 0.0f;
    }
    __syncthreads();
    float sum = 0;
    for (int c = 0; c < D; c++) sum += queries[y][c] * keys[x][c];
    if (row + y < n && column + x < n) scores[(row + y) * n + column + x] = sum / sqrtf(D);
}

__device__ float warp_max(float v) {
    for (int o = 16; o > 0; o /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
    return v;
}

__device__ float warp_sum(float v) {
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

// Softmax of each row of n numbers: a warp for each row, which reads it three times.
// Grid: rows; block: 32.
__global__ void softmax_thrice(const float *x, float *y, int n) {
    const float *row = x + blockIdx.x * n;
    float m = -1e30f, l = 0;
    for (int i = threadIdx.x; i < n; i += 32) m = fmaxf(m, row[i]);   // 1: the maximum
    m = warp_max(m);
    for (int i = threadIdx.x; i < n; i += 32) l += expf(row[i] - m);  // 2: the sum
    l = warp_sum(l);
    for (int i = threadIdx.x; i < n; i += 32) y[blockIdx.x * n + i] = expf(row[i] - m) / l;  // 3
}

// out[i] = sum over j of weights[i][j] v[j]. Grid: ceil(n / 16).
__global__ void weighted(const float *weights, const float *v, float *out, int n) {
    __shared__ float p[16][16], values[16][D];
    int x = threadIdx.x, y = threadIdx.y, i = blockIdx.x * 16 + y;
    float sum[D / 16] = {};
    for (int from = 0; from < n; from += 16) {
        p[y][x] = i < n && from + x < n ? weights[i * n + from + x] : 0.0f;
        for (int c = x; c < D; c += 16) values[y][c] = from + y < n ? v[(from + y) * D + c] : 0.0f;
        __syncthreads();
        for (int e = 0; e < D / 16; e++)
            for (int j = 0; j < 16; j++) sum[e] += p[y][j] * values[j][x + 16 * e];
        __syncthreads();
    }
    if (i < n)
        for (int e = 0; e < D / 16; e++) out[i * D + x + 16 * e] = sum[e];
}

// ---- One kernel: a tile of scores at a time, which never leaves the block. ----

// Over the largest, and over the sum, of the 16 threads of a row.
__device__ float row_max(float v) {
    for (int o = 8; o > 0; o /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
    return v;
}

__device__ float row_sum(float v) {
    for (int o = 8; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

// n queries over `count` keys. logs[i] = m + ln l of query i: with it, outputs over different keys
// can be merged. Grid: ceil(n / 16).
__global__ void attention(const float *q, const float *k, const float *v, float *out, float *logs,
                          int n, int count) {
    __shared__ float queries[16][D + 1], keys[16][D + 1], values[16][D], p[16][16];
    int x = threadIdx.x, y = threadIdx.y, i = blockIdx.x * 16 + y;
    for (int c = x; c < D; c += 16) queries[y][c] = i < n ? q[i * D + c] / sqrtf(D) : 0.0f;
    float m = -1e30f, l = 0, u[D / 16] = {};
    for (int from = 0; from < count; from += 16) {
        for (int c = x; c < D; c += 16) {
            keys[y][c] = from + y < count ? k[(from + y) * D + c] : 0.0f;
            values[y][c] = from + y < count ? v[(from + y) * D + c] : 0.0f;
        }
        __syncthreads();
        float score = 0;
        for (int c = 0; c < D; c++) score += queries[y][c] * keys[x][c];
        if (from + x >= count) score = -1e30f;

        float now = fmaxf(m, row_max(score));
        float shrink = expf(m - now);  // corrects l and u
        p[y][x] = expf(score - now);
        l = l * shrink + row_sum(p[y][x]);
        m = now;
        __syncthreads();
        for (int e = 0; e < D / 16; e++) {
            u[e] *= shrink;
            for (int j = 0; j < 16; j++) u[e] += p[y][j] * values[j][x + 16 * e];
        }
        __syncthreads();
    }
    if (i >= n) return;
    for (int e = 0; e < D / 16; e++) out[i * D + x + 16 * e] = u[e] / l;
    if (x == 0) logs[i] = m + logf(l);
}
