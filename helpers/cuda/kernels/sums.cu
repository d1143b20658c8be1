// Four trees of sums, one total for each block of N threads. The first three lie in shared memory:
// the same additions in two of them, as many in the third, by other threads.
#ifndef N
#define N 256 // threads of a block and numbers of it: a power of two from 32 to 1024
#endif

// Each thread adds to its own number: the threads that still add lie ever further apart.
__global__ void interleaved_sum(const float *x, float *total) {
    __shared__ float part[N];
    int t = threadIdx.x;
    part[t] = x[blockIdx.x * N + t];
    for (int step = 1; step < N; step *= 2) {
        __syncthreads();
        if (t % (2 * step) == 0)
            part[t] += part[t + step]; // interleaved
    }
    if (t == 0) total[blockIdx.x] = part[0];
}

// The same additions, made by the first threads of the block.
__global__ void packed_sum(const float *x, float *total) {
    __shared__ float part[N];
    int t = threadIdx.x;
    part[t] = x[blockIdx.x * N + t];
    for (int step = 1; step < N; step *= 2) {
        __syncthreads();
        int left = 2 * step * t;
        if (left < N)
            part[left] += part[left + step]; // packed
    }
    if (t == 0) total[blockIdx.x] = part[0];
}

// The upper half is added to the lower one: the first threads, on neighbouring numbers.
__global__ void halved_sum(const float *x, float *total) {
    __shared__ float part[N];
    int t = threadIdx.x;
    part[t] = x[blockIdx.x * N + t];
    for (int half = N / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            part[t] += part[t + half]; // halved
    }
    if (t == 0) total[blockIdx.x] = part[0];
}

// Shuffles add up each warp in registers; one thread adds the sums of the warps.
__global__ void shuffled_sum(const float *x, float *total) {
    __shared__ float of_warp[N / 32];
    int t = threadIdx.x;
    float v = x[blockIdx.x * N + t];
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
    if (t % 32 == 0) of_warp[t / 32] = v;
    __syncthreads();
    if (t > 0) return;
    for (int w = 1; w < N / 32; w++) v += of_warp[w];
    total[blockIdx.x] = v;
}
