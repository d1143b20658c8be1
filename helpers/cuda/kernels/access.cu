// The same copy, twice: which thread takes which element decides what the memory must move.
// matrix, copy: height × width, row after row.

// Neighbouring threads (threadIdx.x) take neighbouring columns: one row's piece per warp.
__global__ void copy_along_rows(const float *matrix, float *copy, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        copy[y * width + x] = matrix[y * width + x];
}

// Neighbouring threads take neighbouring rows: their addresses lie a whole row apart.
__global__ void copy_along_columns(const float *matrix, float *copy, int height, int width) {
    int y = blockIdx.x * blockDim.x + threadIdx.x;
    int x = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height)
        copy[y * width + x] = matrix[y * width + x];
}

// A warp reads every stride-th word, of global and of shared memory. x: 32 * stride floats.
__global__ void strided(const float *x, float *y, int stride) {
    __shared__ float tile[32 * 36];
    for (int i = threadIdx.x; i < 32 * 36; i += 32) tile[i] = 0;
    __syncwarp();
    y[threadIdx.x] = x[stride * threadIdx.x] + tile[stride * threadIdx.x];
}

// Reads rows and writes rows, turning a square tile in shared memory between the two.
// PAD = 1 column of padding moves the tile's columns to different banks; 0 leaves them in one.
#ifndef PAD
#define PAD 1
#endif
__global__ void transpose(const float *matrix, float *transposed, int height, int width) {
    __shared__ float tile[32][32 + PAD];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += blockDim.y)
        if (x < width && y + row < height)
            tile[threadIdx.y + row][threadIdx.x] = matrix[(y + row) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;  // of the transposed matrix, width × height
    y = blockIdx.x * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += blockDim.y)
        if (x < height && y + row < width)
            transposed[(y + row) * height + x] = tile[threadIdx.x][threadIdx.y + row];
}
