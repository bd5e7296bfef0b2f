// Complex numbers for a CPU.

//@ ga_cabs
// hypot without branches and calls: both parts times a power of two, so that no square overflows or ends early. Within 1.1
// ULP. Infinite if a part is, whatever the other one.
GA_INLINE float ga_cabs(ga_c64 z) {
    const float a = fabsf(z.re), b = fabsf(z.im);
    unsigned up = __float_as_uint(a > b ? a : b) & 0x7f800000u;  // the power of two below it
    up = up < 0x00800000u ? 0x00800000u : up;
    up = up > 0x7e000000u ? 0x7e000000u : up;
    const float down = __uint_as_float(0x7f000000u - up), x = a * down, y = b * down;
    const float size = sqrtf(ga_fma(x, x, y * y)) * __uint_as_float(up);
    return (a == GA_INFF) | (b == GA_INFF) ? GA_INFF : size;
}
GA_INLINE double ga_cabs(ga_c128 z) {
    const double a = fabs(z.re), b = fabs(z.im);
    unsigned long long up = (unsigned long long)__double_as_longlong(a > b ? a : b) & 0x7ff0000000000000ull;
    up = up < 0x0010000000000000ull ? 0x0010000000000000ull : up;
    up = up > 0x7fc0000000000000ull ? 0x7fc0000000000000ull : up;
    const double down = __longlong_as_double((long long)(0x7fe0000000000000ull - up)), x = a * down, y = b * down;
    const double size = sqrt(ga_fma(x, x, y * y)) * __longlong_as_double((long long)up);
    return (a == GA_INF) | (b == GA_INF) ? GA_INF : size;
}
