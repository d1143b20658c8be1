// c = a + b, one element per thread. n: elements.
__global__ void vector_add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)  // the last block may reach past the end
        c[i] = a[i] + b[i];
}
