// Types and constants. Everything here means the same on the device and on the host shim (kernels/host).

//@ GA_INLINE
#define GA_INLINE static __device__ __forceinline__

//@ GA_INFF GA_NANF
#define GA_INFF __int_as_float(0x7f800000)
#define GA_NANF __int_as_float(0x7fc00000)

//@ GA_INF GA_NAN
#define GA_INF __longlong_as_double(0x7ff0000000000000ll)
#define GA_NAN __longlong_as_double(0x7ff8000000000000ll)

//@ ga_f16
// IEEE half in memory; computed with as float.
struct ga_f16 {
    unsigned short bits;
    ga_f16() = default;
    __device__ __forceinline__ explicit ga_f16(float x) {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    }
};
GA_INLINE float ga_value(ga_f16 x) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
    return f;
}

//@ ga_bf16
// bfloat16 in memory: the upper half of a float; computed with as float, rounded to nearest even.
struct ga_bf16 {
    unsigned short bits;
    ga_bf16() = default;
    __device__ __forceinline__ explicit ga_bf16(float x) {
        const unsigned u = __float_as_uint(x);
        bits = x != x ? 0x7fc0 : (unsigned short)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
};
GA_INLINE float ga_value(ga_bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }

//@ ga_round
// A float rounded to what a 16-bit type holds: the declared dtype of a value is its precision.
template <class T> GA_INLINE float ga_round(float x) { return ga_value(T(x)); }

//@ ga_lowest ga_highest
template <class T> GA_INLINE T ga_lowest();
template <class T> GA_INLINE T ga_highest();
template <> __device__ __forceinline__ float ga_lowest<float>() { return -GA_INFF; }
template <> __device__ __forceinline__ float ga_highest<float>() { return GA_INFF; }
template <> __device__ __forceinline__ double ga_lowest<double>() { return -GA_INF; }
template <> __device__ __forceinline__ double ga_highest<double>() { return GA_INF; }
template <> __device__ __forceinline__ bool ga_lowest<bool>() { return false; }
template <> __device__ __forceinline__ bool ga_highest<bool>() { return true; }
template <> __device__ __forceinline__ signed char ga_lowest<signed char>() { return -128; }
template <> __device__ __forceinline__ signed char ga_highest<signed char>() { return 127; }
template <> __device__ __forceinline__ short ga_lowest<short>() { return -32768; }
template <> __device__ __forceinline__ short ga_highest<short>() { return 32767; }
template <> __device__ __forceinline__ int ga_lowest<int>() { return -2147483647 - 1; }
template <> __device__ __forceinline__ int ga_highest<int>() { return 2147483647; }
template <> __device__ __forceinline__ long long ga_lowest<long long>() { return -9223372036854775807ll - 1; }
template <> __device__ __forceinline__ long long ga_highest<long long>() { return 9223372036854775807ll; }
template <> __device__ __forceinline__ unsigned char ga_lowest<unsigned char>() { return 0; }
template <> __device__ __forceinline__ unsigned char ga_highest<unsigned char>() { return 255; }
template <> __device__ __forceinline__ unsigned short ga_lowest<unsigned short>() { return 0; }
template <> __device__ __forceinline__ unsigned short ga_highest<unsigned short>() { return 65535; }
template <> __device__ __forceinline__ unsigned ga_lowest<unsigned>() { return 0; }
template <> __device__ __forceinline__ unsigned ga_highest<unsigned>() { return 4294967295u; }
template <> __device__ __forceinline__ unsigned long long ga_lowest<unsigned long long>() { return 0; }
template <> __device__ __forceinline__ unsigned long long ga_highest<unsigned long long>() {
    return 18446744073709551615ull;
}
