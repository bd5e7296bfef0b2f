// Inverse hyperbolic functions for a CPU, by the logarithm of 1 + t.
//
// Greatest errors in units of the last place: see 18_math.cuh.

//@ ga_asinh ga_acosh ga_atanh
// For large numbers the logarithm of 2 |x|.
template <class T> GA_INLINE T ga_asinh(T x) {
    const T a = ga_abs(x), z = a * a;
    const bool large = a > (sizeof(T) == 4 ? T(1e9) : T(1e18));
    const T y = ga_log1p(large ? a : a + z / (T(1) + ga_sqrt(T(1) + z))) + (large ? T(0.69314718055994530942) : T(0));
    return x < T(0) ? -y : x == T(0) ? x : y;
}
template <class T> GA_INLINE T ga_acosh(T x) {
    const T u = x - T(1);
    const bool large = x > (sizeof(T) == 4 ? T(1e9) : T(1e18));
    const T y = ga_log1p(large ? x : u + ga_sqrt(u * (x + T(1)))) + (large ? T(0.69314718055994530942) : T(0));
    return x < T(1) ? T(GA_NAN) : y;
}
template <class T> GA_INLINE T ga_atanh(T x) {
    const T a = ga_abs(x), y = T(0.5) * ga_log1p((a + a) / (T(1) - a));
    return x < T(0) ? -y : x == T(0) ? x : y;
}
