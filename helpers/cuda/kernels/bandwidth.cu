// Reads an array again and again, past L1: what L2 (or, for a large array, the memory) delivers.
// x: n float4. sums: one float for each thread of the grid, so that no load can be left out.
__global__ void read_rounds(const float4 *x, float *sums, int n, int rounds) {
    int me = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (int round = 0; round < rounds; round++)
#pragma unroll 4
        for (int i = me; i < n; i += all) {
            float4 v = __ldcg(x + i);  // kept in L2 only
            sum += v.x + v.y + v.z + v.w;
        }
    sums[me] = sum;
}
