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
    const float y = (a + large) - large;
    return copysignf(y > 65504.0f ? GA_INFF : y, x);
}
