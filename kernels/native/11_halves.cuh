// Halves without branches, so that loops of them are vectorised.

//@ ga_f16
// IEEE half in memory, float in registers.
struct ga_f16 {
    unsigned short bits;
    ga_f16() = default;
    __forceinline__ explicit ga_f16(float x) {
        const unsigned all = __float_as_uint(x), u = all & 0x7fffffffu;
        const unsigned small = __float_as_uint(__uint_as_float(u) + 0.5f) - 0x3f000000u;  // subnormal: rounded at 2^-24
        const unsigned normal = (u + 0xc8000fffu + ((u >> 13) & 1u)) >> 13;
        unsigned found = u < 0x38800000u ? small : normal;
        found = u >= 0x477ff000u ? 0x7c00u : found;  // 65520 and more are infinite
        found = u > 0x7f800000u ? 0x7e00u : found;   // nan
        bits = (unsigned short)(found | (all >> 16 & 0x8000u));
    }
};
GA_INLINE float ga_value(ga_f16 x) {
    const unsigned u = (x.bits & 0x7fffu) << 13, sign = (unsigned)(x.bits & 0x8000u) << 16;
    // The exponent counts from another number; for infinity and nan it is the largest one.
    const unsigned finite = __float_as_uint(__uint_as_float(u) * 0x1p112f);
    return __uint_as_float((u >= 0x0f800000u ? u | 0x7f800000u : finite) | sign);
}

//@ ga_round_f16 if ga_round ga_f16
// The sum with a number 2^13 times as large is rounded where a half ends.
template <> __forceinline__ float ga_round<ga_f16>(float x) {
    const float a = fabsf(x);
    const unsigned u = __float_as_uint(a), least = u > 0x38800000u ? u : 0x38800000u;
    const float large = __uint_as_float(((least < 0x47800000u ? least : 0x47800000u) & 0x7f800000u) + 0x06800000u);
    // 65536 is infinite: it is when it is 2^112 times as large. A comparison might be taken for a branch.
    return copysignf(((a + large) - large) * 0x1p112f * 0x1p-112f, x);
}

//@ ga_exact_f16 if ga_exact ga_f16
// Smaller by 2^112 a float has the exponent of a half, also where it is subnormal.
template <> __forceinline__ ga_f16 ga_exact<ga_f16>(float x) {
    const unsigned u = __float_as_uint(fabsf(x) * 0x1p-112f) >> 13 & 0x7fffu;
    ga_f16 found;
    found.bits = (unsigned short)(u | (__float_as_uint(x) >> 16 & 0x8000u));
    return found;
}

//@ ga_round_bf16 if ga_round ga_bf16
// As the upper half of a float, without taking it out; a nan keeps a bit there.
template <> __forceinline__ float ga_round<ga_bf16>(float x) {
    const unsigned u = __float_as_uint(x), near = (u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u;
    return x != x ? __uint_as_float(u | 0x400000u) : __uint_as_float(near);
}

//@ GA_HALVES ga_widen ga_narrow ga_as_halves ga_each_half
// A block of halves as floats and back: an instruction each way, which compilers do not make of conversions in a loop.
#if defined(__AVX512F__) && !defined(__clang__)
constexpr int GA_HALVES = 16;
typedef short ga_half_bits __attribute__((vector_size(32)));
typedef float ga_half_floats __attribute__((vector_size(64)));
GA_INLINE ga_half_floats ga_half_to_float(ga_half_bits x) { return __builtin_ia32_vcvtph2ps512_mask(x, ga_half_floats{}, -1, 4); }
GA_INLINE ga_half_bits ga_float_to_half(ga_half_floats x) { return __builtin_ia32_vcvtps2ph512_mask(x, 0, ga_half_bits{}, -1); }
#elif defined(__F16C__) && !defined(__clang__)
constexpr int GA_HALVES = 8;
typedef short ga_half_bits __attribute__((vector_size(16)));
typedef float ga_half_floats __attribute__((vector_size(32)));
GA_INLINE ga_half_floats ga_half_to_float(ga_half_bits x) { return __builtin_ia32_vcvtph2ps256(x); }
GA_INLINE ga_half_bits ga_float_to_half(ga_half_floats x) { return __builtin_ia32_vcvtps2ph256(x, 0); }
#else
constexpr int GA_HALVES = 16;
struct ga_half_bits {
    GA_LOCAL ga_f16 x[GA_HALVES];
};
struct ga_half_floats {
    GA_LOCAL float x[GA_HALVES];
};
GA_INLINE ga_half_floats ga_half_to_float(ga_half_bits from) {
    ga_half_floats to;
    for (int l = 0; l < GA_HALVES; ++l) to.x[l] = ga_value(from.x[l]);
    return to;
}
GA_INLINE ga_half_bits ga_float_to_half(ga_half_floats from) {
    ga_half_bits to;
    for (int l = 0; l < GA_HALVES; ++l) to.x[l] = ga_f16(from.x[l]);
    return to;
}
#endif
GA_INLINE void ga_widen(float* to, const ga_f16* from) {
    ga_half_bits x;
    __builtin_memcpy(&x, from, GA_HALVES * sizeof *from);
    const ga_half_floats y = ga_half_to_float(x);
    __builtin_memcpy(to, &y, GA_HALVES * sizeof *to);
}
GA_INLINE void ga_narrow(ga_f16* to, const float* from) {
    ga_half_floats x;
    __builtin_memcpy(&x, from, GA_HALVES * sizeof *from);
    const ga_half_bits y = ga_float_to_half(x);
    __builtin_memcpy(to, &y, GA_HALVES * sizeof *to);
}
GA_INLINE void ga_as_halves(float* at) {
    ga_half_floats x;
    __builtin_memcpy(&x, at, GA_HALVES * sizeof *at);
    x = ga_half_to_float(ga_float_to_half(x));
    __builtin_memcpy(at, &x, GA_HALVES * sizeof *at);
}
// An iteration for each place of a block: not unrolled, because compilers vectorise a loop.
template <class F> GA_INLINE void ga_each_half(ga_index first, F turn) {
#pragma GCC unroll 1
    for (int l = 0; l < GA_HALVES; ++l) turn(first + l, l);
}
