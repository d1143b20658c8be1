// How often each of 256 values occurs among n bytes.

// Every byte is counted in global memory.
__global__ void direct_histogram(const unsigned char *x, unsigned *bins, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[x[i]], 1u);
}

// A block counts in bins of its own and adds them to all at the end.
__global__ void own_histogram(const unsigned char *x, unsigned *bins, int n) {
    __shared__ unsigned own[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) own[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[x[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&bins[b], own[b]);
}
