// The CUDA names of the prelude that have nothing to do with threads, for a host compiler.
//
// In: the prelude. Out: its blocks compile as they stand, for the simulator (cuda_host.h) and for native code
// (kernels/native). No system header is included, which keeps a compile short.
#pragma once
#define GA_HOST 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

// ---- memory and bits ----
template <class T> __forceinline__ T __ldg(const T* p) { return *p; }
template <class To, class From> __forceinline__ To host_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "bits are read as bits");
    To y;
    __builtin_memcpy(&y, &x, sizeof y);
    return y;
}
__forceinline__ unsigned __float_as_uint(float x) { return host_bits<unsigned>(x); }
__forceinline__ int __float_as_int(float x) { return host_bits<int>(x); }
__forceinline__ float __uint_as_float(unsigned x) { return host_bits<float>(x); }
__forceinline__ float __int_as_float(int x) { return host_bits<float>(x); }
__forceinline__ long long __double_as_longlong(double x) { return host_bits<long long>(x); }
__forceinline__ double __longlong_as_double(long long x) { return host_bits<double>(x); }
__forceinline__ int __popc(unsigned x) { return __builtin_popcount(x); }
__forceinline__ int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__forceinline__ int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
__forceinline__ int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
__forceinline__ int __ffs(int x) { return __builtin_ffs(x); }
__forceinline__ unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
__forceinline__ int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
__forceinline__ unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
__forceinline__ long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }

// ---- mathematics: the host's C library ----
#define HOST_MATH1(name) extern "C" double name(double); extern "C" float name##f(float);
#define HOST_MATH2(name) extern "C" double name(double, double); extern "C" float name##f(float, float);
HOST_MATH1(acos) HOST_MATH1(acosh) HOST_MATH1(asin) HOST_MATH1(asinh) HOST_MATH1(atan) HOST_MATH1(atanh) HOST_MATH1(cbrt)
HOST_MATH1(ceil) HOST_MATH1(cos) HOST_MATH1(cosh) HOST_MATH1(erf) HOST_MATH1(erfc) HOST_MATH1(exp) HOST_MATH1(exp2)
HOST_MATH1(expm1) HOST_MATH1(fabs) HOST_MATH1(floor) HOST_MATH1(lgamma) HOST_MATH1(log) HOST_MATH1(log10) HOST_MATH1(log1p)
HOST_MATH1(log2) HOST_MATH1(rint) HOST_MATH1(round) HOST_MATH1(sin) HOST_MATH1(sinh) HOST_MATH1(sqrt) HOST_MATH1(tan)
HOST_MATH1(tanh) HOST_MATH1(tgamma) HOST_MATH1(trunc)
HOST_MATH2(atan2) HOST_MATH2(copysign) HOST_MATH2(fmax) HOST_MATH2(fmin) HOST_MATH2(fmod) HOST_MATH2(hypot)
HOST_MATH2(nextafter) HOST_MATH2(pow) HOST_MATH2(remainder)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
extern "C" double ldexp(double, int);
extern "C" float ldexpf(float, int);
__forceinline__ float rsqrtf(float x) { return 1.0f / sqrtf(x); }
__forceinline__ double rsqrt(double x) { return 1.0 / sqrt(x); }
