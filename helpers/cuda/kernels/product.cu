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

// Blocks of 16 x 16 threads, each with R x R outputs, 16 apart in both directions: what a thread
// takes from shared memory, 2 R numbers, serves R^2 multiply-adds.
// Grid: ceil(n / 16 R), ceil(m / 16 R).
template <int R>
__global__ void register_product(const float *a, const float *b, float *c, int m, int k, int n) {
    __shared__ float left[16 * R][16], right[16][16 * R];
    int x = threadIdx.x, y = threadIdx.y, j = blockIdx.x * 16 * R + x, i = blockIdx.y * 16 * R + y;
    float sum[R][R] = {};
    for (int from = 0; from < k; from += 16) {
        for (int q = 0; q < R; q++) {
            bool in_a = i + 16 * q < m && from + x < k, in_b = from + y < k && j + 16 * q < n;
            left[y + 16 * q][x] = in_a ? a[(i + 16 * q) * k + from + x] : 0.0f;
            right[y][x + 16 * q] = in_b ? b[(from + y) * n + j + 16 * q] : 0.0f;
        }
        __syncthreads();
        for (int p = 0; p < 16; p++) {
            float of_a[R], of_b[R];
            for (int q = 0; q < R; q++) {
                of_a[q] = left[y + 16 * q][p];
                of_b[q] = right[p][x + 16 * q];
            }
            for (int u = 0; u < R; u++)
                for (int w = 0; w < R; w++) sum[u][w] += of_a[u] * of_b[w];
        }
        __syncthreads();
    }
    for (int u = 0; u < R; u++)
        for (int w = 0; w < R; w++)
            if (i + 16 * u < m && j + 16 * w < n) c[(i + 16 * u) * n + j + 16 * w] = sum[u][w];
}
