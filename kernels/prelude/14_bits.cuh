// Numbers as words of bits.

//@ ga_word
// The bits of a number, as an unsigned integer of its width.
GA_INLINE unsigned char ga_word(signed char x) { return (unsigned char)x; }
GA_INLINE unsigned char ga_word(unsigned char x) { return x; }
GA_INLINE unsigned short ga_word(short x) { return (unsigned short)x; }
GA_INLINE unsigned short ga_word(unsigned short x) { return x; }
GA_INLINE unsigned ga_word(int x) { return (unsigned)x; }
GA_INLINE unsigned ga_word(unsigned x) { return x; }
GA_INLINE unsigned long long ga_word(long long x) { return (unsigned long long)x; }
GA_INLINE unsigned long long ga_word(unsigned long long x) { return x; }
GA_INLINE unsigned ga_word(float x) { return __float_as_uint(x); }
GA_INLINE unsigned long long ga_word(double x) { return (unsigned long long)__double_as_longlong(x); }

//@ ga_half_word
// The bits of a float rounded to a 16-bit type.
template <class H> GA_INLINE unsigned short ga_half_word(float x) { return H(x).bits; }

//@ ga_from_half_word
template <class H> GA_INLINE float ga_from_half_word(unsigned short word) {
    H h;
    h.bits = word;
    return ga_value(h);
}

//@ ga_order
// Integers that order as floats in total order: -nan, -inf, ..., -0.0, 0.0, ..., inf, nan.
GA_INLINE int ga_order(float x) {
    const int b = __float_as_int(x);
    return b ^ ((b >> 31) & 0x7fffffff);
}
GA_INLINE long long ga_order(double x) {
    const long long b = __double_as_longlong(x);
    return b ^ ((b >> 63) & 0x7fffffffffffffffll);
}

//@ ga_rising
// An unsigned integer that orders as a number does in a sort: -0.0 is 0.0, and nan comes last.
GA_INLINE unsigned ga_rising(float x) { return x != x ? 0xffffffffu : (unsigned)ga_order(x + 0.0f) ^ 0x80000000u; }
GA_INLINE unsigned ga_rising(int x) { return (unsigned)x ^ 0x80000000u; }
GA_INLINE unsigned ga_rising(unsigned x) { return x; }

//@ ga_same_key
// Whether two random keys of four words are the same: bits are compared, not numbers.
GA_INLINE bool ga_same_key(ga_c128 a, ga_c128 b) {
    return __double_as_longlong(a.re) == __double_as_longlong(b.re) &&
           __double_as_longlong(a.im) == __double_as_longlong(b.im);
}

//@ ga_shift_left ga_shift_right_logical ga_shift_right_arithmetic
// Shifts by the width or more leave 0, or the sign; a negative amount counts as huge.
template <class T> GA_INLINE T ga_shift_left(T x, T n) {
    return ga_word(n) >= 8 * sizeof(T) ? (T)0 : (T)((unsigned long long)ga_word(x) << (unsigned)n);
}
template <class T> GA_INLINE T ga_shift_right_logical(T x, T n) {
    return ga_word(n) >= 8 * sizeof(T) ? (T)0 : (T)(ga_word(x) >> (unsigned)n);
}
template <class T> GA_INLINE T ga_shift_right_arithmetic(T x, T n) {
    const unsigned by = ga_word(n) >= 8 * sizeof(T) ? 8u * sizeof(T) - 1u : (unsigned)n;
    const bool negative = ga_word(x) >> (8 * sizeof(T) - 1);
    return negative ? (T)~((T)~x >> by) : (T)(x >> by);
}

//@ ga_population_count
template <class T> GA_INLINE T ga_population_count(T x) {
    return sizeof(T) == 8 ? (T)__popcll((unsigned long long)ga_word(x)) : (T)__popc((unsigned)ga_word(x));
}

//@ ga_clz
// The 32-bit count includes the bits that a narrower type lacks.
template <class T> GA_INLINE T ga_clz(T x) {
    return sizeof(T) == 8 ? (T)__clzll((long long)ga_word(x)) : (T)(__clz((int)ga_word(x)) - (32 - 8 * (int)sizeof(T)));
}

//@ ga_mulhi
// The upper half of the product at twice the width.
GA_INLINE int ga_mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
GA_INLINE unsigned ga_mulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
GA_INLINE long long ga_mulhi(long long a, long long b) { return __mul64hi(a, b); }
GA_INLINE unsigned long long ga_mulhi(unsigned long long a, unsigned long long b) { return __umul64hi(a, b); }
template <class T> GA_INLINE T ga_mulhi(T a, T b) { return (T)(((int)a * (int)b) >> 8 * (int)sizeof(T)); }
GA_INLINE unsigned short ga_mulhi(unsigned short a, unsigned short b) { return (unsigned short)(((unsigned)a * b) >> 16); }

//@ ga_nextafter
GA_INLINE float ga_nextafter(float x, float y) { return nextafterf(x, y); }
GA_INLINE double ga_nextafter(double x, double y) { return nextafter(x, y); }

//@ ga_nextafter_half
// The next number of a 16-bit type towards y.
template <class H> GA_INLINE float ga_nextafter_half(float x, float y) {
    if (x != x || y != y) return x + y;
    if (x == y) return y;
    if (x == 0.0f) return copysignf(ga_from_half_word<H>(1), y);
    const unsigned short w = ga_half_word<H>(x);
    return ga_from_half_word<H>((unsigned short)((x < y) == (x > 0.0f) ? w + 1 : w - 1));
}

//@ ga_reduce_precision
// The word of a float with MANTISSA and EXPONENT bits, rounded to fewer of them (nearest, halves to even).
template <int MANTISSA, int EXPONENT, int M, int E, class W> GA_INLINE W ga_reduce_precision(W bits) {
    const W one = 1, sign = one << (MANTISSA + EXPONENT), powers = ((one << EXPONENT) - one) << MANTISSA;
    if ((W)(bits & (W)~sign) > powers) return bits;  // nan
    W out = bits;
    if constexpr (M < MANTISSA) {
        const W last = one << (MANTISSA - M), odd = (bits >> (MANTISSA - M)) & one;
        out = (W)((W)(out + odd + (W)((last >> 1) - one)) & (W)~(W)(last - one));
    }
    if constexpr (E < EXPONENT) {
        const W bias = (one << (EXPONENT - 1)) - one, reach = (one << (E - 1)) - one;
        const W power = out & powers;
        if (power > (W)((W)(bias + reach) << MANTISSA)) out = (bits & sign) | powers;
        if (power <= (W)((W)(bias - reach) << MANTISSA)) out = bits & sign;
    }
    return out;
}
