// Complex numbers for a CPU.

//@ ga_cchoose
// Part by part, from operands that are there: a choice of whole numbers is a branch.
template <class T> GA_INLINE T ga_part(bool first, T a, T b) { return first ? a : b; }
template <class T> GA_INLINE ga_complex<T> ga_cchoose(bool first, ga_complex<T> a, ga_complex<T> b) {
    return {ga_part(first, a.re, b.re), ga_part(first, a.im, b.im)};
}

//@ ga_cabs
// hypot without branches and calls: both parts times a power of two, so that no square overflows or ends early. Within 1.1
// ULP. Infinite if a part is, whatever the other one: chosen before the root, or a comparison of the result would be a
// branch, and a loop with it not vectorised.
GA_INLINE float ga_cabs(ga_c64 z) {
    const float a = fabsf(z.re), b = fabsf(z.im);
    unsigned up = __float_as_uint(a > b ? a : b) & 0x7f800000u;  // the power of two below it
    up = up < 0x00800000u ? 0x00800000u : up;
    up = up > 0x7e000000u ? 0x7e000000u : up;
    const float down = __uint_as_float(0x7f000000u - up), x = a * down, y = b * down;
    const float sum = ga_fma(x, x, y * y);
    return sqrtf((a == GA_INFF) | (b == GA_INFF) ? GA_INFF : sum) * __uint_as_float(up);
}
GA_INLINE double ga_cabs(ga_c128 z) {
    const double a = fabs(z.re), b = fabs(z.im);
    unsigned long long up = (unsigned long long)__double_as_longlong(a > b ? a : b) & 0x7ff0000000000000ull;
    up = up < 0x0010000000000000ull ? 0x0010000000000000ull : up;
    up = up > 0x7fc0000000000000ull ? 0x7fc0000000000000ull : up;
    const double down = __longlong_as_double((long long)(0x7fe0000000000000ull - up)), x = a * down, y = b * down;
    const double sum = ga_fma(x, x, y * y);
    return sqrt((a == GA_INF) | (b == GA_INF) ? GA_INF : sum) * __longlong_as_double((long long)up);
}
