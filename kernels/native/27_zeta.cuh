// Zeta functions of floats for a CPU, for operands that need short sums; loops of others are run again by the prelude's.

//@ ga_inverse_power
// a^-s for a > 0; without a logarithm if the compiler knows the exponent.
GA_INLINE double ga_inverse_power(double a, double s) {
    if (__builtin_constant_p(s) && s == 2.0) return 1.0 / (a * a);
    if (__builtin_constant_p(s) && s == 3.0) return 1.0 / (a * a * a);
    if (__builtin_constant_p(s) && s == 4.0) return 1.0 / (a * a * (a * a));
    return ga_exp(-s * ga_log(a));
}

//@ ga_zeta_near
// Hurwitz's zeta function for s > 1 and q > 0, to 9 digits: six terms, and the rest by the formula of Euler and Maclaurin, whose
// coefficients are B_2j / (2j)!.
GA_INLINE double ga_zeta_near(double s, double q) {
    const double a = q + 6.0, last = ga_inverse_power(a, s), v = 1.0 / (a * a);
    const double terms = ga_inverse_power(q, s) + ga_inverse_power(q + 1.0, s) + ga_inverse_power(q + 2.0, s) +
                         ga_inverse_power(q + 3.0, s) + ga_inverse_power(q + 4.0, s) + ga_inverse_power(q + 5.0, s);
    // Nested: each term has two more factors s + i than the one before it.
    double series = 1.0 / 74724249600.0;
    series = ga_fma((s + 11.0) * (s + 12.0) * v, series, -691.0 / 1307674368000.0);
    series = ga_fma((s + 9.0) * (s + 10.0) * v, series, 1.0 / 47900160.0);
    series = ga_fma((s + 7.0) * (s + 8.0) * v, series, -1.0 / 1209600.0);
    series = ga_fma((s + 5.0) * (s + 6.0) * v, series, 1.0 / 30240.0);
    series = ga_fma((s + 3.0) * (s + 4.0) * v, series, -1.0 / 720.0);
    series = ga_fma((s + 1.0) * (s + 2.0) * v, series, 1.0 / 12.0);
    return terms + last * (a / (s - 1.0) + 0.5 + s / a * series);
}

//@ ga_zeta_far
// Whether sums are long: one of the two is negative or very large.
GA_INLINE bool ga_zeta_far(double s, double q) { return (s <= 1.0) | (s > 1e4) | (q <= 0.0) | (q > 1e38); }

//@ ga_zeta_in
template <bool NEAR, class T> GA_INLINE float ga_zeta_in(int& far, T s, float q) {
    if constexpr (!NEAR) return (float)ga_zeta(s, q);
    far |= ga_zeta_far(s, q);
    return (float)ga_zeta_near(s, q);
}
template <bool NEAR, class T> GA_INLINE double ga_zeta_in(int&, T s, double q) { return ga_zeta(s, q); }

//@ ga_factorial
// m! for the integers 0 ... N.
template <int N> GA_INLINE double ga_factorial(double m) {
    if constexpr (N < 2) return 1.0;
    else return (m >= N ? (double)N : 1.0) * ga_factorial<N - 1>(m);
}

//@ ga_polygamma_in
// (-1)^(m+1) m! zeta(m + 1, x) for derivatives of a moderate order.
template <bool NEAR, class T> GA_INLINE float ga_polygamma_in(int& far, T order, float x) {
    const double m = order;
    if constexpr (!NEAR) return (float)ga_polygamma(m, x);
    const double half = m * 0.5, y = ga_factorial<20>(m) * ga_zeta_near(m + 1.0, x);
    far |= ga_zeta_far(m + 1.0, x) | (m > 20.0) | (m != ga_nearest(m));
    return (float)(half == ga_nearest(half) ? -y : y);
}
template <bool NEAR, class T> GA_INLINE double ga_polygamma_in(int&, T m, double x) { return ga_polygamma(m, x); }
