// CUDA C's keywords and built-ins for a C++ compiler: included before a kernel's source, unchanged.
//
// Each CUDA thread is a fiber; the fibers of a block share one thread of the operating system, so
// `__shared__` is a thread-local variable. What waits (barriers, shuffles) lives in scheduler.cpp.
#pragma once
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    struct name##1 { T x; };                                                                  \
    struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                        \
    CUDA_VECTOR3(T, name)                                                                     \
    struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; };        \
    inline name##1 make_##name##1(T x) { return {x}; }                                        \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                        \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define CUDA_VECTOR3(T, name) struct name##3 { T x, y, z; };
CUDA_VECTOR(float, float)
CUDA_VECTOR(double, double)
CUDA_VECTOR(signed char, char)
CUDA_VECTOR(unsigned char, uchar)
CUDA_VECTOR(short, short)
CUDA_VECTOR(unsigned short, ushort)
CUDA_VECTOR(int, int)
CUDA_VECTOR(long, long)
CUDA_VECTOR(unsigned long, ulong)
CUDA_VECTOR(long long, longlong)
CUDA_VECTOR(unsigned long long, ulonglong)
#undef CUDA_VECTOR3
#define CUDA_VECTOR3(T, name)  // uint3 is above, for threadIdx
CUDA_VECTOR(unsigned, uint)

// The scheduler's side of the bargain. `line` is where the reader's source calls.
void cuda_barrier(int line);
int cuda_barrier_reduce(int line, int operation, int predicate);
unsigned long long cuda_warp_exchange(
    int line, unsigned mask, int operation, unsigned long long value, int lane, int width);
[[noreturn]] void cuda_assert_failed(const char *expression, int line);
void cuda_site(int number);  // of the call that follows
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
template <typename T> CUDA_INLINE unsigned long long cuda_bits(T value) {
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}
// operation: 0 wait, 1 to 4 shuffles, 5 ballot, 6 match, 7 and above reductions (scheduler.cpp)
#define CUDA_SHUFFLE(name, operation)                                                         \
    template <typename T>                                                                     \
    CUDA_INLINE T name(unsigned mask, T value, int lane, int width = 32, CUDA_LINE) {         \
        return cuda_shuffle(line, mask, operation, value, lane, width);                       \
    }
CUDA_SHUFFLE(__shfl_sync, 1)
CUDA_SHUFFLE(__shfl_up_sync, 2)
CUDA_SHUFFLE(__shfl_down_sync, 3)
CUDA_SHUFFLE(__shfl_xor_sync, 4)
unsigned cuda_active_mask(int line);
CUDA_INLINE unsigned __activemask(CUDA_LINE) { return cuda_active_mask(line); }
template <typename T>
CUDA_INLINE unsigned __match_any_sync(unsigned mask, T value, CUDA_LINE) {
    return cuda_shuffle(line, mask, 6, (unsigned long long)cuda_bits(value), 0, 32);
}
template <typename T>
CUDA_INLINE unsigned __match_all_sync(unsigned mask, T value, int *all, CUDA_LINE) {
    // Compared with who takes part, not with the mask: a block's last warp may have fewer lanes.
    unsigned long long same = cuda_shuffle(line, mask, 6, cuda_bits(value), 0, 32);
    *all = (unsigned)same == same >> 32;
    return *all ? mask : 0;
}
CUDA_INLINE unsigned cuda_reduce(int line, unsigned mask, int operation, unsigned value) {
    return (unsigned)cuda_warp_exchange(line, mask, operation, value, 0, 32);
}
#define CUDA_REDUCE(name, T, operation)                                                       \
    CUDA_INLINE T name(unsigned mask, T value, CUDA_LINE) {                                   \
        return (T)cuda_reduce(line, mask, operation, (unsigned)value);                        \
    }
CUDA_REDUCE(__reduce_add_sync, int, 7)
CUDA_REDUCE(__reduce_add_sync, unsigned, 7)
CUDA_REDUCE(__reduce_min_sync, unsigned, 8)
CUDA_REDUCE(__reduce_max_sync, unsigned, 9)
CUDA_REDUCE(__reduce_min_sync, int, 10)
CUDA_REDUCE(__reduce_max_sync, int, 11)
CUDA_REDUCE(__reduce_and_sync, unsigned, 12)
CUDA_REDUCE(__reduce_or_sync, unsigned, 13)
CUDA_REDUCE(__reduce_xor_sync, unsigned, 14)
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
#define CUDA_ATOMIC(T, name)                                                                  \
    T name(T *address, T value);                                                              \
    CUDA_INLINE T name##_block(T *address, T value) { return name(address, value); }          \
    CUDA_INLINE T name##_system(T *address, T value) { return name(address, value); }
#define CUDA_ATOMICS(T)                                                                       \
    CUDA_ATOMIC(T, atomicAdd)                                                                 \
    CUDA_ATOMIC(T, atomicSub)                                                                 \
    CUDA_ATOMIC(T, atomicMin)                                                                 \
    CUDA_ATOMIC(T, atomicMax)                                                                 \
    CUDA_ATOMIC(T, atomicExch)                                                                \
    CUDA_ATOMIC(T, atomicAnd)                                                                 \
    CUDA_ATOMIC(T, atomicOr)                                                                  \
    CUDA_ATOMIC(T, atomicXor)                                                                 \
    CUDA_CAS(T)
#define CUDA_CAS(T)                                                                           \
    T atomicCAS(T *address, T expected, T value);                                             \
    CUDA_INLINE T atomicCAS_block(T *address, T expected, T value) {                          \
        return atomicCAS(address, expected, value);                                           \
    }                                                                                         \
    CUDA_INLINE T atomicCAS_system(T *address, T expected, T value) {                         \
        return atomicCAS(address, expected, value);                                           \
    }
CUDA_ATOMICS(int)
CUDA_ATOMICS(unsigned)
CUDA_ATOMICS(long long)
CUDA_ATOMICS(unsigned long long)
CUDA_ATOMIC(unsigned, atomicInc)
CUDA_ATOMIC(unsigned, atomicDec)
CUDA_ATOMIC(float, atomicAdd)
CUDA_ATOMIC(float, atomicExch)
CUDA_ATOMIC(double, atomicAdd)
CUDA_ATOMIC(double, atomicExch)
CUDA_CAS(unsigned short)

void cuda_fence();
CUDA_INLINE void __threadfence() { cuda_fence(); }
CUDA_INLINE void __threadfence_block() { cuda_fence(); }
CUDA_INLINE void __threadfence_system() { cuda_fence(); }
[[noreturn]] CUDA_INLINE void __trap(CUDA_LINE) { cuda_assert_failed("__trap()", line); }

// One load, however many components: a float4 through __ldg is one 16-byte access, as on a GPU.
template <typename T>
__attribute__((no_sanitize("thread"), noinline)) T cuda_load(const T *address) { return *address; }
template <typename T>
CUDA_INLINE T __ldg(const T *address) {
    cuda_read(address, sizeof(T));
    return cuda_load(address);
}
#define CUDA_LOAD(name) \
    template <typename T> CUDA_INLINE T name(const T *address) { return __ldg(address); }
CUDA_LOAD(__ldca)
CUDA_LOAD(__ldcg)
CUDA_LOAD(__ldcs)
CUDA_LOAD(__ldcv)
CUDA_LOAD(__ldlu)

template <typename T>
__attribute__((no_sanitize("thread"), noinline)) void cuda_store(T *address, T value) {
    *address = value;
}
#define CUDA_STORE(name)                                        \
    template <typename T> CUDA_INLINE void name(T *address, T value) { \
        cuda_write(address, sizeof(T));                         \
        cuda_store(address, value);                             \
    }
CUDA_STORE(__stcs)
CUDA_STORE(__stcg)
CUDA_STORE(__stwb)
CUDA_STORE(__stwt)

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
// Mixed types, as CUDA's own headers resolve them.
#define CUDA_MIXED(A, B, T)                                                                   \
    CUDA_INLINE T min(A a, B b) { return min((T)a, (T)b); }                                   \
    CUDA_INLINE T min(B a, A b) { return min((T)a, (T)b); }                                   \
    CUDA_INLINE T max(A a, B b) { return max((T)a, (T)b); }                                   \
    CUDA_INLINE T max(B a, A b) { return max((T)a, (T)b); }
CUDA_MIXED(int, unsigned, unsigned)
CUDA_MIXED(long, unsigned long, unsigned long)
CUDA_MIXED(long long, unsigned long long, unsigned long long)
CUDA_MIXED(float, double, double)

CUDA_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
CUDA_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
CUDA_INLINE float rsqrt(float x) { return rsqrtf(x); }
CUDA_INLINE float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
CUDA_INLINE double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
CUDA_INLINE float norm3df(float x, float y, float z) { return sqrtf(x * x + y * y + z * z); }
CUDA_INLINE float rnorm3df(float x, float y, float z) { return 1.0f / norm3df(x, y, z); }
CUDA_INLINE float rcbrtf(float x) { return 1.0f / cbrtf(x); }
CUDA_INLINE void sincospif(float x, float *s, float *c) { sincosf(3.14159265f * x, s, c); }
CUDA_INLINE float sinpif(float x) { return (float)sin(3.14159265358979323846 * x); }
CUDA_INLINE float cospif(float x) { return (float)cos(3.14159265358979323846 * x); }
CUDA_INLINE float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678f); }
// The C library has hidden functions of these names: macros keep the linker from finding them.
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __sincosf(x, s, c) sincosf(x, s, c)
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
CUDA_INLINE float __fdividef(float a, float b) { return a / b; }
CUDA_INLINE float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
CUDA_INLINE float __fadd_rn(float a, float b) { return a + b; }
CUDA_INLINE float __fsub_rn(float a, float b) { return a - b; }
CUDA_INLINE float __fmul_rn(float a, float b) { return a * b; }
CUDA_INLINE float __fdiv_rn(float a, float b) { return a / b; }
CUDA_INLINE float __fsqrt_rn(float x) { return sqrtf(x); }
CUDA_INLINE float __frcp_rn(float x) { return 1.0f / x; }
CUDA_INLINE float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
CUDA_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
CUDA_INLINE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
CUDA_INLINE double __dadd_rn(double a, double b) { return a + b; }
CUDA_INLINE double __dmul_rn(double a, double b) { return a * b; }

template <typename To, typename From> CUDA_INLINE To cuda_same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
CUDA_INLINE int __float_as_int(float x) { return cuda_same_bits<int>(x); }
CUDA_INLINE unsigned __float_as_uint(float x) { return cuda_same_bits<unsigned>(x); }
CUDA_INLINE float __int_as_float(int x) { return cuda_same_bits<float>(x); }
CUDA_INLINE float __uint_as_float(unsigned x) { return cuda_same_bits<float>(x); }
CUDA_INLINE long long __double_as_longlong(double x) { return cuda_same_bits<long long>(x); }
CUDA_INLINE double __longlong_as_double(long long x) { return cuda_same_bits<double>(x); }
CUDA_INLINE int __float2int_rn(float x) { return (int)rintf(x); }
CUDA_INLINE int __float2int_rz(float x) { return (int)x; }
CUDA_INLINE int __float2int_rd(float x) { return (int)floorf(x); }
CUDA_INLINE int __float2int_ru(float x) { return (int)ceilf(x); }
CUDA_INLINE unsigned __float2uint_rn(float x) { return (unsigned)rintf(x); }
CUDA_INLINE unsigned __float2uint_rz(float x) { return (unsigned)x; }
CUDA_INLINE float __int2float_rn(int x) { return (float)x; }
CUDA_INLINE float __uint2float_rn(unsigned x) { return (float)x; }

CUDA_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
CUDA_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
CUDA_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
CUDA_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
CUDA_INLINE int __ffs(int x) { return __builtin_ffs(x); }
CUDA_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
CUDA_INLINE unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; bit++) reversed |= (x >> bit & 1) << (31 - bit);
    return reversed;
}
CUDA_INLINE int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 32; i += 8) c += (int)(signed char)(a >> i) * (signed char)(b >> i);
    return c;
}
CUDA_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
    return c;
}
CUDA_INLINE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
CUDA_INLINE unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
CUDA_INLINE int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
CUDA_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
CUDA_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}

long long cuda_clock();  // ns
CUDA_INLINE long long clock64() { return cuda_clock(); }
#define clock() ((int)cuda_clock())
void cuda_nap();
CUDA_INLINE void __nanosleep(unsigned) { cuda_nap(); }

// One argument of a launch, read as whatever the kernel's parameter is.
struct cuda_argument {
    void *place;
    template <typename T>
    __attribute__((no_sanitize("thread"), always_inline)) operator T() const { return *(T *)place; }
};

// Two calls on one line are two places: each call in the text has a number of its own.
#define CUDA_SITE(name, ...) (cuda_site(__COUNTER__), name(__VA_ARGS__))
#define __syncthreads(...) CUDA_SITE(__syncthreads, __VA_ARGS__)
#define __syncthreads_count(...) CUDA_SITE(__syncthreads_count, __VA_ARGS__)
#define __syncthreads_and(...) CUDA_SITE(__syncthreads_and, __VA_ARGS__)
#define __syncthreads_or(...) CUDA_SITE(__syncthreads_or, __VA_ARGS__)
#define __syncwarp(...) CUDA_SITE(__syncwarp, __VA_ARGS__)
#define __shfl_sync(...) CUDA_SITE(__shfl_sync, __VA_ARGS__)
#define __shfl_up_sync(...) CUDA_SITE(__shfl_up_sync, __VA_ARGS__)
#define __shfl_down_sync(...) CUDA_SITE(__shfl_down_sync, __VA_ARGS__)
#define __shfl_xor_sync(...) CUDA_SITE(__shfl_xor_sync, __VA_ARGS__)
#define __ballot_sync(...) CUDA_SITE(__ballot_sync, __VA_ARGS__)
#define __any_sync(...) CUDA_SITE(__any_sync, __VA_ARGS__)
#define __all_sync(...) CUDA_SITE(__all_sync, __VA_ARGS__)
#define __match_any_sync(...) CUDA_SITE(__match_any_sync, __VA_ARGS__)
#define __match_all_sync(...) CUDA_SITE(__match_all_sync, __VA_ARGS__)
#define __reduce_add_sync(...) CUDA_SITE(__reduce_add_sync, __VA_ARGS__)
#define __reduce_min_sync(...) CUDA_SITE(__reduce_min_sync, __VA_ARGS__)
#define __reduce_max_sync(...) CUDA_SITE(__reduce_max_sync, __VA_ARGS__)
#define __reduce_and_sync(...) CUDA_SITE(__reduce_and_sync, __VA_ARGS__)
#define __reduce_or_sync(...) CUDA_SITE(__reduce_or_sync, __VA_ARGS__)
#define __reduce_xor_sync(...) CUDA_SITE(__reduce_xor_sync, __VA_ARGS__)

#ifdef CUDA_WATCHED
// The compiler puts one of these around each loop, and a mark into it: source.with_marks(). A mark
// is assembly, so that the compiler moves what does not change out of the loop as it would without.
#if defined(__x86_64__)
#define CUDA_MARK(function)                                                                   \
    asm volatile("call " #function ::: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10",  \
                 "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",       \
                 "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc")
#elif defined(__aarch64__)
#define CUDA_MARK(function)                                                                   \
    asm volatile("bl " #function ::: "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8",    \
                 "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x30", "v0",   \
                 "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",   \
                 "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", \
                 "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc")
#else
extern "C" void cuda_loop_enter(), cuda_loop_next(), cuda_loop_leave();
#define CUDA_MARK(function) function()
#endif
struct cuda_loop {
    CUDA_INLINE cuda_loop() { CUDA_MARK(cuda_loop_enter); }
    CUDA_INLINE ~cuda_loop() { CUDA_MARK(cuda_loop_leave); }
};
CUDA_INLINE bool cuda_round() {
    CUDA_MARK(cuda_loop_next);
    return false;
}
#endif

#undef assert
#define assert(expression) \
    ((expression) ? (void)0 : cuda_assert_failed("assert(" #expression ")", __LINE__))

#define __device__
#define __host__
#if defined(__SANITIZE_THREAD__) || defined(CUDA_TRACED)
// All that a kernel calls becomes part of it: the compiler then knows the size of the local
// variable that a pointer leads to, and a way through the code does not lead through another
// function. What nobody reads is written all the same: it may be out of bounds.
#define __global__ __attribute__((flatten))
#define __noinline__
#define __shared__ __attribute__((used)) thread_local
#else
#define __global__
#define __noinline__ __attribute__((noinline))
#define __shared__ thread_local
#endif
#define __constant__ __attribute__((section("cuda_constant")))
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))  // unlike alignas, in any place of a declaration
#define __grid_constant__
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __maxnreg__(...)
#ifndef __clang__
#define __builtin_assume(expression) ((expression) ? (void)0 : __builtin_unreachable())
#endif
