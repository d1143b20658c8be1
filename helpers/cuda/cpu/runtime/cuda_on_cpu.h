// CUDA C's keywords and built-ins for a C++ compiler: included before a kernel's source, unchanged.
//
// Each CUDA thread is a fiber; the fibers of a block share one thread of the operating system, so
// `__shared__` is a thread-local variable. What waits (barriers, shuffles) lives in scheduler.cpp.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdio.h>

struct uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

// Constant while one thread runs, which is all that the kernel's code can see of them.
extern thread_local const uint3 threadIdx, blockIdx;
extern const uint3 blockDim, gridDim;
constexpr int warpSize = 32;

#define CUDA_VECTOR(T, name)                                                                  \
    struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                        \
    struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; };        \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
CUDA_VECTOR(float, float)
CUDA_VECTOR(double, double)
CUDA_VECTOR(int, int)
CUDA_VECTOR(unsigned, uint)
CUDA_VECTOR(unsigned char, uchar)
struct float3 { float x, y, z; };
struct int3 { int x, y, z; };
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }

// The scheduler's side of the bargain. `line` is where the reader's source calls.
void cuda_barrier(int line);
int cuda_barrier_reduce(int line, int operation, int predicate);
unsigned long long cuda_warp_exchange(
    int line, unsigned mask, int operation, unsigned long long value, int lane, int width);
[[noreturn]] void cuda_assert_failed(const char *expression, int line);
void cuda_read(const void *address, unsigned size);  // recorded, when the launch is
void cuda_write(void *address, unsigned size);

#define CUDA_LINE int line = __builtin_LINE()
#define CUDA_INLINE inline __attribute__((always_inline))

CUDA_INLINE void __syncthreads(CUDA_LINE) { cuda_barrier(line); }
CUDA_INLINE int __syncthreads_count(int p, CUDA_LINE) { return cuda_barrier_reduce(line, 0, p); }
CUDA_INLINE int __syncthreads_and(int p, CUDA_LINE) { return cuda_barrier_reduce(line, 1, p); }
CUDA_INLINE int __syncthreads_or(int p, CUDA_LINE) { return cuda_barrier_reduce(line, 2, p); }
CUDA_INLINE void __syncwarp(unsigned mask = 0xffffffffu, CUDA_LINE) {
    cuda_warp_exchange(line, mask, 0, 0, 0, 32);
}

template <typename T>
CUDA_INLINE T cuda_shuffle(int line, unsigned mask, int operation, T value, int lane, int width) {
    static_assert(sizeof(T) <= 8, "shuffles move 4 or 8 bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = cuda_warp_exchange(line, mask, operation, bits, lane, width);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
#define CUDA_SHUFFLE(name, operation)                                                         \
    template <typename T>                                                                     \
    CUDA_INLINE T name(unsigned mask, T value, int lane, int width = 32, CUDA_LINE) {         \
        return cuda_shuffle(line, mask, operation, value, lane, width);                       \
    }
CUDA_SHUFFLE(__shfl_sync, 1)
CUDA_SHUFFLE(__shfl_up_sync, 2)
CUDA_SHUFFLE(__shfl_down_sync, 3)
CUDA_SHUFFLE(__shfl_xor_sync, 4)
CUDA_INLINE unsigned __ballot_sync(unsigned mask, int predicate, CUDA_LINE) {
    return (unsigned)cuda_warp_exchange(line, mask, 5, predicate != 0, 0, 32);
}
CUDA_INLINE int __any_sync(unsigned mask, int predicate, CUDA_LINE) {
    return cuda_warp_exchange(line, mask, 5, predicate != 0, 0, 32) != 0;
}
CUDA_INLINE int __all_sync(unsigned mask, int predicate, CUDA_LINE) {
    return cuda_warp_exchange(line, mask, 5, predicate == 0, 0, 32) == 0;
}

// Atomics are compiled apart (atomics.cpp), so that the recorder sees one atomic access each.
#define CUDA_ATOMICS(T)                                                                       \
    T atomicAdd(T *address, T value);                                                         \
    T atomicSub(T *address, T value);                                                         \
    T atomicMin(T *address, T value);                                                         \
    T atomicMax(T *address, T value);                                                         \
    T atomicExch(T *address, T value);
CUDA_ATOMICS(int)
CUDA_ATOMICS(unsigned)
CUDA_ATOMICS(unsigned long long)
#undef CUDA_ATOMICS
float atomicAdd(float *address, float value);
double atomicAdd(double *address, double value);
float atomicExch(float *address, float value);
int atomicCAS(int *address, int expected, int value);
unsigned atomicCAS(unsigned *address, unsigned expected, unsigned value);

CUDA_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
CUDA_INLINE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
[[noreturn]] CUDA_INLINE void __trap(CUDA_LINE) { cuda_assert_failed("__trap()", line); }

// One load, however many components: a float4 through __ldg is one 16-byte access, as on a GPU.
template <typename T>
__attribute__((no_sanitize("thread"), noinline)) T cuda_load(const T *address) { return *address; }
template <typename T>
CUDA_INLINE T __ldg(const T *address) {
    cuda_read(address, sizeof(T));
    return cuda_load(address);
}
template <typename T>
CUDA_INLINE T __ldcg(const T *address) {
    cuda_read(address, sizeof(T));
    return cuda_load(address);
}

template <typename T>
__attribute__((no_sanitize("thread"), noinline)) void cuda_store(T *address, T value) {
    *address = value;
}
template <typename T>
CUDA_INLINE void __stcs(T *address, T value) {
    cuda_write(address, sizeof(T));
    cuda_store(address, value);
}

#define CUDA_MINMAX(T)                                                                        \
    CUDA_INLINE T min(T a, T b) { return b < a ? b : a; }                                     \
    CUDA_INLINE T max(T a, T b) { return a < b ? b : a; }
CUDA_MINMAX(int)
CUDA_MINMAX(unsigned)
CUDA_MINMAX(long)
CUDA_MINMAX(unsigned long)
CUDA_MINMAX(long long)
CUDA_MINMAX(unsigned long long)
CUDA_INLINE float min(float a, float b) { return fminf(a, b); }
CUDA_INLINE float max(float a, float b) { return fmaxf(a, b); }
CUDA_INLINE double min(double a, double b) { return fmin(a, b); }
CUDA_INLINE double max(double a, double b) { return fmax(a, b); }
CUDA_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
CUDA_INLINE float __expf(float x) { return expf(x); }
CUDA_INLINE float __logf(float x) { return logf(x); }
CUDA_INLINE float __fdividef(float a, float b) { return a / b; }
CUDA_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
CUDA_INLINE float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
CUDA_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
CUDA_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
CUDA_INLINE int __ffs(int x) { return __builtin_ffs(x); }

#undef assert
#define assert(expression) \
    ((expression) ? (void)0 : cuda_assert_failed("assert(" #expression ")", __LINE__))

#define __global__
#define __device__
#define __host__
#define __shared__ thread_local
#define __constant__ __attribute__((section("cuda_constant")))
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) alignas(n)
