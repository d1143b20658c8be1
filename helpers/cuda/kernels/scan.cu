// Two scans of blocks of N numbers in shared memory: y[i] becomes a sum of the numbers up to x[i].
#ifndef N
#define N 256 // numbers of a block: a power of two, 1024 at most
#endif
#ifndef PAD
#define PAD 0 // 1: a word is left out after every 32, so that strides of powers of two spread
#endif
#define AT(i) ((i) + (i) / 32 * PAD)

// Hillis and Steele: N threads, log2(N) steps, in each of which every thread adds what stands
// `step` places to its left. Inclusive: x[i] is in the sum.
__global__ void scan_steps(const float *x, float *y) {
    __shared__ float part[2][N];
    int t = threadIdx.x, now = 0;
    part[0][t] = x[blockIdx.x * N + t];
    for (int step = 1; step < N; step *= 2) {
        __syncthreads();
        part[1 - now][t] = part[now][t] + (t >= step ? part[now][t - step] : 0.0f);
        now = 1 - now;
    }
    y[blockIdx.x * N + t] = part[now][t];
}

// Blelloch: N / 2 threads, up and down a tree. Exclusive: x[i] is not in the sum.
__global__ void scan_tree(const float *x, float *y) {
    __shared__ float part[N + N / 32];
    int t = threadIdx.x, first = blockIdx.x * N;
    part[AT(t)] = x[first + t];
    part[AT(t + N / 2)] = x[first + t + N / 2];
    for (int step = 1; step < N; step *= 2) {
        __syncthreads();
        int right = 2 * step * (t + 1) - 1;
        if (right < N) part[AT(right)] += part[AT(right - step)];
    }
    if (t == 0) part[AT(N - 1)] = 0;
    for (int step = N / 2; step > 0; step /= 2) {
        __syncthreads();
        int right = 2 * step * (t + 1) - 1;
        if (right < N) {
            float left = part[AT(right - step)];
            part[AT(right - step)] = part[AT(right)];
            part[AT(right)] += left;
        }
    }
    __syncthreads();
    y[first + t] = part[AT(t)];
    y[first + t + N / 2] = part[AT(t + N / 2)];
}
