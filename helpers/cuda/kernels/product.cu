// Products of matrices through tiles: c = a b, with a of m x k, b of k x n numbers, any sides.

// Blocks of T x T threads, a thread for each output. Grid: ceil(n / T), ceil(m / T).
template <int T>
__global__ void square_product(const float *a, const float *b, float *c, int m, int k, int n) {
    __shared__ float left[T][T], right[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int j = blockIdx.x * T + x, i = blockIdx.y * T + y;
    float sum = 0;
    for (int from = 0; from < k; from += T) {
        left[y][x] = i < m && from + x < k ? a[i * k + from + x] : 0.0f;
        right[y][x] = from + y < k && j < n ? b[(from + y) * n + j] : 0.0f;
        __syncthreads();
        for (int p = 0; p < T; p++) sum += left[y][p] * right[p][x];
        __syncthreads();
    }
    if (i < m && j < n) c[i * n + j] = sum;
}

// Blocks of 16 x 16 threads, each with C outputs of a row, 16 columns apart: a tile of a serves C
// tiles of b. Grid: ceil(n / (16 C)), ceil(m / 16).
template <int C>
__global__ void coarse_product(const float *a, const float *b, float *c, int m, int k, int n) {
    __shared__ float left[16][16], right[16][16 * C];
    int x = threadIdx.x, y = threadIdx.y;
    int j = blockIdx.x * 16 * C + x, i = blockIdx.y * 16 + y;
    float sum[C] = {};
    for (int from = 0; from < k; from += 16) {
        left[y][x] = i < m && from + x < k ? a[i * k + from + x] : 0.0f;
        for (int q = 0; q < C; q++) {
            bool inside = from + y < k && j + 16 * q < n;
            right[y][x + 16 * q] = inside ? b[(from + y) * n + j + 16 * q] : 0.0f;
        }
        __syncthreads();
        for (int p = 0; p < 16; p++) {
            float one = left[y][p]; // read once, used C times
            for (int q = 0; q < C; q++) sum[q] += one * right[p][x + 16 * q];
        }
        __syncthreads();
    }
    for (int q = 0; q < C; q++)
        if (i < m && j + 16 * q < n) c[i * n + j + 16 * q] = sum[q];
}
