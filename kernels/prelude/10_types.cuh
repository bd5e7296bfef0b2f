// Types and constants. Everything here means the same on a GPU and on the CPU that simulates it (kernels/host).

//@ GA_INLINE
#define GA_INLINE static __device__ __forceinline__

//@ GA_OUTLINE
#ifndef GA_HOST
#define GA_OUTLINE static __device__ __noinline__
#else
#define GA_OUTLINE static __device__
#endif

//@ GA_INFF GA_NANF
// Infinity and nan as bits: CUDA's own macros are in a header, and nothing is included.
#define GA_INFF __int_as_float(0x7f800000)
#define GA_NANF __int_as_float(0x7fc00000)

//@ GA_INF GA_NAN
#define GA_INF __longlong_as_double(0x7ff0000000000000ll)
#define GA_NAN __longlong_as_double(0x7ff8000000000000ll)

//@ ga_f16
// IEEE half in memory, float in registers.
struct ga_f16 {
    unsigned short bits;
    ga_f16() = default;
    __device__ __forceinline__ explicit ga_f16(float x) {
#ifndef GA_HOST
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
        unsigned u = __float_as_uint(x), sign = (u >> 16) & 0x8000u;
        u &= 0x7fffffffu;
        if (u > 0x7f800000u) u = 0x7e00u;         // nan
        else if (u >= 0x477ff000u) u = 0x7c00u;   // 65520 and more are infinite
        else if (u < 0x38800000u)                 // subnormal: the sum rounds at 2^-24
            u = __float_as_uint(__uint_as_float(u) + 0.5f) - 0x3f000000u;
        else u = (u + 0xc8000fffu + ((u >> 13) & 1u)) >> 13;
        bits = (unsigned short)(u | sign);
#endif
    }
};
GA_INLINE float ga_value(ga_f16 x) {
#ifndef GA_HOST
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
    return f;
#else
    const unsigned e = (x.bits >> 10) & 31u, m = x.bits & 1023u, sign = (unsigned)(x.bits & 0x8000u) << 16;
    if (e == 0) return __uint_as_float(__float_as_uint((float)m * 5.9604644775390625e-8f) | sign);
    return __uint_as_float((e == 31 ? 0x7f800000u : (e + 112u) << 23) | m << 13 | sign);
#endif
}

//@ ga_bf16
// bfloat16 in memory, the upper half of a float; float in registers. Rounded to nearest even.
struct ga_bf16 {
    unsigned short bits;
    ga_bf16() = default;
    __device__ __forceinline__ explicit ga_bf16(float x) {
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
        if (!__builtin_constant_p(x)) {
            // Of the two conversions, that of a pair is eight times as fast.
            asm("{ .reg .b32 pair; cvt.rn.bf16x2.f32 pair, 0f00000000, %1; cvt.u16.u32 %0, pair; }" : "=h"(bits) : "f"(x));
            return;
        }
#endif
        const unsigned u = __float_as_uint(x);
        // u + 0x7fff + the lowest kept bit carries exactly where it must round up; a nan must keep a
        // bit set.
        bits = (unsigned short)(x != x ? u >> 16 | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
};
GA_INLINE float ga_value(ga_bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }

//@ ga_float8 ga_e4m3 ga_e5m2
// Floats of 8 bits with EXPONENT and MANTISSA bits: (5, 2) has infinities; in (4, 3) too large numbers are nan.
template <int EXPONENT, int MANTISSA> struct ga_float8 {
    static constexpr unsigned bias = (1u << (EXPONENT - 1)) - 1u, cut = 23u - MANTISSA;
    static constexpr bool infinite = EXPONENT == 5;
    unsigned char bits;
    ga_float8() = default;
    __device__ __forceinline__ explicit ga_float8(float x) {
        const unsigned sign = __float_as_uint(x) >> 24 & 0x80u;
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 890
        // An instruction rounds; what would come to more than the largest number is told apart here.
        unsigned short pair;
        if constexpr (infinite) {
            asm("cvt.rn.satfinite.e5m2x2.f32 %0, 0f00000000, %1;" : "=h"(pair) : "f"(x));
            bits = (unsigned char)(fabsf(x) < 61440.0f ? pair : sign | (x == x ? 0x7cu : 0x7fu));
        } else {
            asm("cvt.rn.satfinite.e4m3x2.f32 %0, 0f00000000, %1;" : "=h"(pair) : "f"(x));
            bits = (unsigned char)(fabsf(x) <= 464.0f ? pair : sign | 0x7fu);
        }
        return;
#endif
        unsigned u = __float_as_uint(x) & 0x7fffffffu;
        if (u > 0x7f800000u) u = 0x7fu;  // nan
        else {
            if (u < (128u - bias) << 23) {  // subnormal: the sum rounds at the smallest step
                const unsigned step = (151u - bias - MANTISSA) << 23;
                u = __float_as_uint(__uint_as_float(u) + __uint_as_float(step)) - step;
            } else {
                u = ((u + ((u >> cut) & 1u) + (1u << (cut - 1)) - 1u) >> cut) - ((127u - bias) << MANTISSA);
            }
            const unsigned most = infinite ? 0x7cu : 0x7fu;
            u = u > most ? most : u;
        }
        bits = (unsigned char)(u | sign);
    }
};
typedef ga_float8<4, 3> ga_e4m3;
typedef ga_float8<5, 2> ga_e5m2;
template <int EXPONENT, int MANTISSA> GA_INLINE float ga_value(ga_float8<EXPONENT, MANTISSA> x) {
    typedef ga_float8<EXPONENT, MANTISSA> F;
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 890
    // Halves have all of these numbers.
    float value;
    const unsigned short pair = x.bits;
    if constexpr (F::infinite)
        asm("{ .reg .b32 p; .reg .f16 l, h; cvt.rn.f16x2.e5m2x2 p, %1; mov.b32 {l, h}, p; cvt.f32.f16 %0, l; }" : "=f"(value) : "h"(pair));
    else
        asm("{ .reg .b32 p; .reg .f16 l, h; cvt.rn.f16x2.e4m3x2 p, %1; mov.b32 {l, h}, p; cvt.f32.f16 %0, l; }" : "=f"(value) : "h"(pair));
    return value;
#endif
    const unsigned u = x.bits & 0x7fu, sign = (unsigned)(x.bits & 0x80u) << 24;
    const unsigned full = ((1u << EXPONENT) - 1u) << MANTISSA;  // the exponent of inf and nan
    if (F::infinite ? u > full : u == 0x7fu) return __uint_as_float(sign | 0x7fc00000u);
    if (F::infinite && u == full) return __uint_as_float(sign | 0x7f800000u);
    if (u >> MANTISSA) return __uint_as_float(sign | ((u + ((127u - F::bias) << MANTISSA)) << (23 - MANTISSA)));
    const float least = __uint_as_float((128u - F::bias - MANTISSA) << 23);
    return __uint_as_float(sign | __float_as_uint((float)u * least));
}

//@ ga_e8m0
// Powers of two from 2^-127 to 2^127, or nan: the exponent of a float, halves rounded up.
struct ga_e8m0 {
    unsigned char bits;
    ga_e8m0() = default;
    __device__ __forceinline__ explicit ga_e8m0(float x) {
        const unsigned u = __float_as_uint(x);
        if (u == 0u || u >= 0x7f800000u) bits = 255;  // zero, negative or not finite
        else if (u < 0x800000u) bits = u > 0x400000u;
        else bits = (unsigned char)((u + 0x400000u) >> 23);
    }
};
GA_INLINE float ga_value(ga_e8m0 x) {
    return __uint_as_float(x.bits == 255 ? 0x7fc00000u : x.bits == 0 ? 0x400000u : (unsigned)x.bits << 23);
}

//@ ga_e2m1
// 0, 0.5, 1, 1.5, 2, 3, 4, 6 and a sign: halves go to even, too large numbers to 6, nan to -0.
struct ga_e2m1 {
    unsigned char bits;
    ga_e2m1() = default;
    __device__ __forceinline__ explicit ga_e2m1(float x) {
        const float a = fabsf(x);
        const int up = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.0f);
        bits = (unsigned char)(up | (x != x || __float_as_uint(x) >> 31 ? 8 : 0));
    }
};
GA_INLINE float ga_value(ga_e2m1 x) {
    const unsigned m = x.bits & 7u;
    const float a = m < 2u ? 0.5f * (float)m : __uint_as_float((126u + (m >> 1)) << 23 | (m & 1u) << 22);
    return x.bits & 8u ? -a : a;
}

//@ ga_small_float ga_beyond GA_IEEE GA_UZ GA_FINITE ga_e4m3_inf ga_e3m4 ga_e4m3_uz ga_e4m3_b11 ga_e5m2_uz ga_e2m3 ga_e3m2
// The other floats of 8 and 6 bits, by what is beyond their largest number: infinity and nans as in IEEE formats, a
// single nan in the place of -0, or nothing: then that number again, and nan is -0.
enum ga_beyond { GA_IEEE, GA_UZ, GA_FINITE };
template <int BITS, int MANTISSA, int BIAS, ga_beyond BEYOND> struct ga_small_float {
    static constexpr unsigned sign = 1u << (BITS - 1), cut = 23u - MANTISSA;
    static constexpr unsigned most = BEYOND == GA_IEEE ? ((1u << (BITS - 1 - MANTISSA)) - 1u) << MANTISSA : sign - 1u;
    unsigned char bits;
    ga_small_float() = default;
    __device__ __forceinline__ explicit ga_small_float(float x) {
        const bool negative = __float_as_uint(x) >> 31;
        unsigned u = __float_as_uint(x) & 0x7fffffffu;
        if (u > 0x7f800000u) {
            if (BEYOND == GA_IEEE) u = most + (1u << (MANTISSA - 1)) + (negative ? sign : 0u);
            else u = sign;
        } else {
            if (u < (128u - BIAS) << 23) {  // subnormal: the sum rounds at the smallest step
                const unsigned step = (151u - BIAS - MANTISSA) << 23;
                u = __float_as_uint(__uint_as_float(u) + __uint_as_float(step)) - step;
            } else {
                u = ((u + ((u >> cut) & 1u) + (1u << (cut - 1)) - 1u) >> cut) - ((127u - BIAS) << MANTISSA);
            }
            if (BEYOND == GA_UZ) u = u > most ? sign : u == 0u || !negative ? u : u | sign;
            else u = (u > most ? most : u) | (negative ? sign : 0u);
        }
        bits = (unsigned char)u;
    }
};
typedef ga_small_float<8, 3, 7, GA_IEEE> ga_e4m3_inf;
typedef ga_small_float<8, 4, 3, GA_IEEE> ga_e3m4;
typedef ga_small_float<8, 3, 8, GA_UZ> ga_e4m3_uz;
typedef ga_small_float<8, 3, 11, GA_UZ> ga_e4m3_b11;
typedef ga_small_float<8, 2, 16, GA_UZ> ga_e5m2_uz;
typedef ga_small_float<6, 3, 1, GA_FINITE> ga_e2m3;
typedef ga_small_float<6, 2, 3, GA_FINITE> ga_e3m2;
template <int BITS, int MANTISSA, int BIAS, ga_beyond BEYOND>
GA_INLINE float ga_value(ga_small_float<BITS, MANTISSA, BIAS, BEYOND> x) {
    typedef ga_small_float<BITS, MANTISSA, BIAS, BEYOND> F;
    const unsigned u = x.bits & (F::sign - 1u), sign = x.bits & F::sign ? 0x80000000u : 0u;
    if (BEYOND == GA_IEEE && u >= F::most) return __uint_as_float(sign | (u > F::most ? 0x7fc00000u : 0x7f800000u));
    if (BEYOND == GA_UZ && sign && u == 0u) return __uint_as_float(0xffc00000u);  // with the sign that it has
    if (u >> MANTISSA) return __uint_as_float(sign | (u + ((127u - BIAS) << MANTISSA)) << (23 - MANTISSA));
    return __uint_as_float(sign | __float_as_uint((float)u * __uint_as_float((128u - BIAS - MANTISSA) << 23)));
}

//@ ga_small_int ga_i4 ga_i2 ga_i1 ga_u4 ga_u2 ga_u1
// Integers of 4, 2 and 1 bits, in the lowest ones of a byte; int in registers.
template <int BITS, bool SIGNED> struct ga_small_int {
    unsigned char bits;
    ga_small_int() = default;
    __device__ __forceinline__ explicit ga_small_int(int x) : bits((unsigned char)(x & ((1 << BITS) - 1))) {}
};
typedef ga_small_int<4, true> ga_i4;
typedef ga_small_int<2, true> ga_i2;
typedef ga_small_int<1, true> ga_i1;
typedef ga_small_int<4, false> ga_u4;
typedef ga_small_int<2, false> ga_u2;
typedef ga_small_int<1, false> ga_u1;
template <int BITS, bool SIGNED> GA_INLINE int ga_value(ga_small_int<BITS, SIGNED> x) {
    const int u = x.bits & ((1 << BITS) - 1);
    return SIGNED && u >> (BITS - 1) ? u - (1 << BITS) : u;
}

//@ ga_wrap
// An integer wrapped to the values of a type of few bits.
template <class T> GA_INLINE int ga_wrap(int x) { return ga_value(T(x)); }

//@ ga_round
// A float rounded to the values of a 16-bit type: a value has the precision of its declared dtype.
template <class T> GA_INLINE float ga_round(float x) { return ga_value(T(x)); }

//@ ga_round_bf16 if ga_round ga_bf16
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
// The upper of a pair, whose lower one is 0: nothing has to be moved.
template <> __device__ __forceinline__ float ga_round<ga_bf16>(float x) {
    if (__builtin_constant_p(x)) return ga_value(ga_bf16(x));
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, 0f00000000;" : "=r"(pair) : "f"(x));
    return __uint_as_float(pair);
}
#endif

//@ ga_plus ga_minus ga_times ga_over
// Arithmetic on floats that are values of a narrow type, rounded to it.
template <class T> GA_INLINE float ga_plus(float a, float b) { return ga_round<T>(a + b); }
template <class T> GA_INLINE float ga_minus(float a, float b) { return ga_round<T>(a - b); }
template <class T> GA_INLINE float ga_times(float a, float b) { return ga_round<T>(a * b); }
template <class T> GA_INLINE float ga_over(float a, float b) { return ga_round<T>(a / b); }

//@ GA_PAIRED if ga_plus ga_bf16
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 900
// A float that is a value of bfloat16 is a pair of them, the lower one 0. Arithmetic on pairs rounds at once: to
// the same bits, since a float has more than twice as many. Only subnormal results can be nearer.
#define GA_PAIRED(name, instruction, sign)                                                               \
    template <> __device__ __forceinline__ float name<ga_bf16>(float a, float b) {                       \
        if (__builtin_constant_p(a) && __builtin_constant_p(b)) return ga_round<ga_bf16>(a sign b);      \
        unsigned pair;                                                                                   \
        asm(instruction " %0, %1, %2;" : "=r"(pair) : "r"(__float_as_uint(a)), "r"(__float_as_uint(b))); \
        return __uint_as_float(pair);                                                                    \
    }
GA_PAIRED(ga_plus, "add.rn.bf16x2", +)
GA_PAIRED(ga_minus, "sub.rn.bf16x2", -)
GA_PAIRED(ga_times, "mul.rn.bf16x2", *)
// Two units of a float apart is near enough: a quotient of such values is never that close to a tie.
template <> __device__ __forceinline__ float ga_over<ga_bf16>(float a, float b) {
    float quotient;
    asm("div.full.f32 %0, %1, %2;" : "=f"(quotient) : "f"(a), "f"(b));
    return ga_round<ga_bf16>(quotient);
}
#endif

//@ ga_exact
// A float that is a value of a 16-bit type, in that type: no rounding is needed.
template <class T> GA_INLINE T ga_exact(float x) { return T(x); }

//@ ga_exact_bf16 if ga_exact ga_bf16
template <> __device__ __forceinline__ ga_bf16 ga_exact<ga_bf16>(float x) {
    ga_bf16 h;
    h.bits = (unsigned short)(__float_as_uint(x) >> 16);
    return h;
}

//@ ga_odd
// A double as a float that rounds to the same half: rounded to odd, so that two roundings equal one.
GA_INLINE float ga_odd(double x) {
    const float f = (float)x;
    if (f != f || (double)f == x) return f;
    const unsigned u = __float_as_uint(f);
    return __uint_as_float((fabs((double)f) > fabs(x) ? u - 1u : u) | 1u);
}

//@ ga_complex ga_c64 ga_c128
template <class T> struct alignas(2 * sizeof(T)) ga_complex { T re, im; };
typedef ga_complex<float> ga_c64;
typedef ga_complex<double> ga_c128;
template <class T> GA_INLINE ga_complex<T> operator+(ga_complex<T> a, ga_complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T> GA_INLINE ga_complex<T> operator-(ga_complex<T> a, ga_complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T> GA_INLINE ga_complex<T> operator-(ga_complex<T> a) { return {-a.re, -a.im}; }
template <class T> GA_INLINE ga_complex<T> operator*(ga_complex<T> a, ga_complex<T> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T> GA_INLINE bool operator==(ga_complex<T> a, ga_complex<T> b) { return a.re == b.re && a.im == b.im; }
template <class T> GA_INLINE bool operator!=(ga_complex<T> a, ga_complex<T> b) { return !(a == b); }

//@ ga_lowest ga_highest
// The ends of a type's range: identities of max and min.
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
