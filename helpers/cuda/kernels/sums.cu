// Three trees of sums in shared memory, one total for each block of N threads: the same additions in
// the first two, as many in the third. They differ in which thread makes which addition.
#ifndef N
#define N 256 // threads of a block and numbers of it: a power of two, 1024 at most
#endif

// A thread adds to its own number, so that the threads that still add stand ever further apart.
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
