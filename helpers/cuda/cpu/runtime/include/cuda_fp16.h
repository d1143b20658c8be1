// Half precision (IEEE 754 binary16), computed as CUDA defines it: in float, rounded once to even.
#pragma once

struct __half_raw { unsigned short x; };

inline unsigned short cuda_to_half(float value) {
    unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (unsigned short)(sign | 0x7fff);   // not a number
    if (magnitude >= 0x47800000) return (unsigned short)(sign | 0x7c00);  // 65536 and above
    if (magnitude < 0x38800000)  // below 2^-14: multiples of 2^-24
        return (unsigned short)(sign | (unsigned)rintf(__uint_as_float(magnitude) * 16777216.0f));
    unsigned rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (unsigned short)(sign | ((rounded - 0x38000000) >> 13));
}
inline float cuda_from_half(unsigned short bits) {
    unsigned sign = (unsigned)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, rest = bits & 1023;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000 | rest << 13);
    if (!exponent) return (sign ? -1.0f : 1.0f) * (float)rest / 16777216.0f;
    return __uint_as_float(sign | (exponent + 112) << 23 | rest << 13);
}

struct __half {
    unsigned short bits;
    __half() = default;
    __half(__half_raw raw) : bits(raw.x) {}
    __half(float x) : bits(cuda_to_half(x)) {}
    __half(double x) {  // rounded once: to odd in float, whose last bit then decides nothing
        float f = (float)x;
        if (f != x && f == f && !(__float_as_uint(f) & 1))
            f = __uint_as_float(__float_as_uint(f) + (fabs((double)f) < fabs(x) ? 1 : -1));
        bits = cuda_to_half(f);
    }
    __half(int x) : __half((double)x) {}
    __half(unsigned x) : __half((double)x) {}
    __half(long long x) : __half((double)x) {}
    __half(unsigned long long x) : __half((double)x) {}
    operator float() const { return cuda_from_half(bits); }
    explicit operator bool() const { return (bits & 0x7fff) != 0; }
};
typedef __half half;
struct alignas(4) __half2 {
    __half x, y;
    __half2() = default;
    __half2(__half x, __half y) : x(x), y(y) {}
};
typedef __half2 half2;

CUDA_INLINE __half __float2half(float x) { return __half(x); }
CUDA_INLINE __half __float2half_rn(float x) { return __half(x); }
CUDA_INLINE __half __double2half(double x) { return __half(x); }
CUDA_INLINE __half __int2half_rn(int x) { return __half(x); }
CUDA_INLINE __half __uint2half_rn(unsigned x) { return __half(x); }
CUDA_INLINE float __half2float(__half x) { return (float)x; }
CUDA_INLINE int __half2int_rn(__half x) { return __float2int_rn((float)x); }
CUDA_INLINE int __half2int_rz(__half x) { return (int)(float)x; }
CUDA_INLINE unsigned short __half_as_ushort(__half x) { return x.bits; }
CUDA_INLINE short __half_as_short(__half x) { return (short)x.bits; }
CUDA_INLINE __half __ushort_as_half(unsigned short x) { return __half(__half_raw{x}); }
CUDA_INLINE __half __short_as_half(short x) { return __half(__half_raw{(unsigned short)x}); }
CUDA_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
CUDA_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
CUDA_INLINE __half2 __half2half2(__half x) { return {x, x}; }
CUDA_INLINE __half2 __float2half2_rn(float x) { return {x, x}; }
CUDA_INLINE __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
CUDA_INLINE __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
CUDA_INLINE float2 __half22float2(__half2 v) { return {(float)v.x, (float)v.y}; }
CUDA_INLINE __half __low2half(__half2 v) { return v.x; }
CUDA_INLINE __half __high2half(__half2 v) { return v.y; }
CUDA_INLINE float __low2float(__half2 v) { return (float)v.x; }
CUDA_INLINE float __high2float(__half2 v) { return (float)v.y; }

#define CUDA_HALF_OPERATOR(op, one, two)                                                          \
    CUDA_INLINE __half one(__half a, __half b) { return __half((float)a op (float)b); }           \
    CUDA_INLINE __half2 two(__half2 a, __half2 b) { return {one(a.x, b.x), one(a.y, b.y)}; }      \
    CUDA_INLINE __half operator op(const __half &a, const __half &b) { return one(a, b); }        \
    CUDA_INLINE __half2 operator op(const __half2 &a, const __half2 &b) { return two(a, b); }     \
    CUDA_INLINE __half &operator op##=(__half &a, const __half &b) { return a = one(a, b); }      \
    CUDA_INLINE __half2 &operator op##=(__half2 &a, const __half2 &b) { return a = two(a, b); }
CUDA_HALF_OPERATOR(+, __hadd, __hadd2)
CUDA_HALF_OPERATOR(-, __hsub, __hsub2)
CUDA_HALF_OPERATOR(*, __hmul, __hmul2)
CUDA_HALF_OPERATOR(/, __hdiv, __h2div)
CUDA_INLINE __half operator-(const __half &a) { return __ushort_as_half(a.bits ^ 0x8000); }
CUDA_INLINE __half __hneg(__half a) { return -a; }
CUDA_INLINE __half __habs(__half a) { return __ushort_as_half(a.bits & 0x7fff); }
CUDA_INLINE __half __hfma(__half a, __half b, __half c) {
    return __half((double)(float)a * (float)b + (double)(float)c);
}
CUDA_INLINE __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

#define CUDA_HALF_COMPARISON(op, name)                                                            \
    CUDA_INLINE bool name(__half a, __half b) { return (float)a op (float)b; }                    \
    CUDA_INLINE bool operator op(const __half &a, const __half &b) { return name(a, b); }
CUDA_HALF_COMPARISON(==, __heq)
CUDA_HALF_COMPARISON(!=, __hne)
CUDA_HALF_COMPARISON(<, __hlt)
CUDA_HALF_COMPARISON(<=, __hle)
CUDA_HALF_COMPARISON(>, __hgt)
CUDA_HALF_COMPARISON(>=, __hge)
#define CUDA_HALF_PAIR(name, one) \
    CUDA_INLINE __half2 name(__half2 a, __half2 b) { return {one(a.x, b.x), one(a.y, b.y)}; }
CUDA_HALF_PAIR(__heq2, __heq)
CUDA_HALF_PAIR(__hne2, __hne)
CUDA_HALF_PAIR(__hlt2, __hlt)
CUDA_HALF_PAIR(__hle2, __hle)
CUDA_HALF_PAIR(__hgt2, __hgt)
CUDA_HALF_PAIR(__hge2, __hge)
CUDA_INLINE bool __hisnan(__half a) { return (float)a != (float)a; }
CUDA_INLINE __half __hmax(__half a, __half b) { return __half(fmaxf((float)a, (float)b)); }
CUDA_INLINE __half __hmin(__half a, __half b) { return __half(fminf((float)a, (float)b)); }

CUDA_HALF_PAIR(__hmax2, __hmax)
CUDA_HALF_PAIR(__hmin2, __hmin)
CUDA_INLINE __half2 __hneg2(__half2 a) { return {-a.x, -a.y}; }
CUDA_INLINE __half2 __habs2(__half2 a) { return {__habs(a.x), __habs(a.y)}; }

// An atomic changes the bits as this function says, in one access (atomics.cpp).
unsigned short cuda_atomic_bits(unsigned short *address, unsigned short value,
                                unsigned short (*change)(unsigned short, unsigned short));
unsigned cuda_atomic_bits(unsigned *address, unsigned value, unsigned (*change)(unsigned, unsigned));
CUDA_INLINE __half atomicAdd(__half *address, __half value) {
    return __ushort_as_half(cuda_atomic_bits(
        (unsigned short *)address, value.bits, [](unsigned short a, unsigned short b) {
            return __hadd(__ushort_as_half(a), __ushort_as_half(b)).bits;
        }));
}
CUDA_INLINE __half2 atomicAdd(__half2 *address, __half2 value) {
    return cuda_same_bits<__half2>(cuda_atomic_bits(
        (unsigned *)address, cuda_same_bits<unsigned>(value), [](unsigned a, unsigned b) {
            return cuda_same_bits<unsigned>(
                __hadd2(cuda_same_bits<__half2>(a), cuda_same_bits<__half2>(b)));
        }));
}

#define CUDA_HALF_FUNCTION(name, function)                                            \
    CUDA_INLINE __half h##name(__half x) { return __half(function((float)x)); }       \
    CUDA_INLINE __half2 h2##name(__half2 v) { return {h##name(v.x), h##name(v.y)}; }
CUDA_HALF_FUNCTION(sqrt, sqrtf)
CUDA_HALF_FUNCTION(rsqrt, rsqrtf)
CUDA_HALF_FUNCTION(exp, expf)
CUDA_HALF_FUNCTION(exp2, exp2f)
CUDA_HALF_FUNCTION(log, logf)
CUDA_HALF_FUNCTION(log2, log2f)
CUDA_HALF_FUNCTION(sin, sinf)
CUDA_HALF_FUNCTION(cos, cosf)
CUDA_HALF_FUNCTION(floor, floorf)
CUDA_HALF_FUNCTION(ceil, ceilf)
CUDA_HALF_FUNCTION(rint, rintf)
CUDA_HALF_FUNCTION(trunc, truncf)
CUDA_HALF_FUNCTION(rcp, 1.0f /)
CUDA_HALF_FUNCTION(exp10, exp10f)
CUDA_HALF_FUNCTION(log10, log10f)
