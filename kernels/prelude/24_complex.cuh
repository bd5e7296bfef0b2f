// Functions of complex numbers, with the branch cuts of C99. Where small terms cancel, single precision is computed in
// double.

//@ ga_wide ga_slim
GA_INLINE ga_c128 ga_wide(ga_c64 z) { return {(double)z.re, (double)z.im}; }
GA_INLINE ga_c64 ga_slim(ga_c128 z) { return {(float)z.re, (float)z.im}; }

//@ GA_SLIM
// The single-precision version of a function of doubles.
#define GA_SLIM(name) \
    GA_INLINE ga_c64 name(ga_c64 z) { return ga_slim(name(ga_wide(z))); }

//@ ga_cconj
template <class T> GA_INLINE ga_complex<T> ga_cconj(ga_complex<T> z) { return {z.re, -z.im}; }

//@ ga_cchoose
template <class T> GA_INLINE ga_complex<T> ga_cchoose(bool first, ga_complex<T> a, ga_complex<T> b) { return first ? a : b; }

//@ ga_cabs
GA_INLINE float ga_cabs(ga_c64 z) { return hypotf(z.re, z.im); }
GA_INLINE double ga_cabs(ga_c128 z) { return hypot(z.re, z.im); }

//@ ga_csign
template <class T> GA_INLINE ga_complex<T> ga_csign(ga_complex<T> z) {
    const T size = ga_cabs(z);
    if (size == 0) return {0, 0};
    return {z.re / size, z.im / size};
}

//@ ga_csquare
// The real part a a - b b is exact where these cancel, and finite where both are too large: a sum of halves is.
template <class T> GA_INLINE ga_complex<T> ga_csquare(ga_complex<T> z) {
    const T a = (T)0.5 * z.re, b = (T)0.5 * z.im;
    return {4 * ((a - b) * (a + b)), 2 * (z.re * z.im)};
}

//@ ga_cmax ga_cmin
// Lexicographic; the second operand where a nan makes the comparison fail.
template <class T> GA_INLINE ga_complex<T> ga_cmax(ga_complex<T> a, ga_complex<T> b) {
    return a.re > b.re || (a.re == b.re && a.im > b.im) ? a : b;
}
template <class T> GA_INLINE ga_complex<T> ga_cmin(ga_complex<T> a, ga_complex<T> b) {
    return a.re < b.re || (a.re == b.re && a.im < b.im) ? a : b;
}

//@ ga_clargest ga_csmallest ga_cnan
// Folds of them: associative, as the first operand that has a nan part is the result.
template <class T> GA_INLINE bool ga_cnan(ga_complex<T> z) { return (z.re != z.re) | (z.im != z.im); }
template <class T> GA_INLINE ga_complex<T> ga_clargest(ga_complex<T> a, ga_complex<T> b) {
    return ga_cnan(a) | (!ga_cnan(b) & ((a.re > b.re) | ((a.re == b.re) & (a.im > b.im)))) ? a : b;
}
template <class T> GA_INLINE ga_complex<T> ga_csmallest(ga_complex<T> a, ga_complex<T> b) {
    return ga_cnan(a) | (!ga_cnan(b) & ((a.re < b.re) | ((a.re == b.re) & (a.im < b.im)))) ? a : b;
}

//@ ga_cdiv
// R. L. Smith's algorithm (1962): scale by the larger part of the divisor, so that squares cannot overflow.
template <class T> GA_INLINE ga_complex<T> ga_cdiv(ga_complex<T> a, ga_complex<T> b) {
    if (ga_abs(b.re) >= ga_abs(b.im)) {
        if (b.re == 0 && b.im == 0) return {a.re / ga_abs(b.re), a.im / ga_abs(b.re)};
        const T ratio = b.im / b.re, scale = (T)1 / (b.re + b.im * ratio);
        return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    const T ratio = b.re / b.im, scale = (T)1 / (b.im + b.re * ratio);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}

//@ ga_cpower_times
template <int N, class Z> GA_INLINE Z ga_cpower_times(Z r, Z z) {
    if constexpr (N == 0) return r;
    else if constexpr (N % 2 == 0) return ga_cpower_times<N / 2>(r, z * z);
    else return ga_cpower_times<N / 2>(r * z, z * z);
}

//@ ga_cpower
// z to the N-th, N > 0, by squaring.
template <int N, class Z> GA_INLINE Z ga_cpower(Z z) {
    if constexpr (N == 1) return z;
    else if constexpr (N % 2 == 0) return ga_cpower<N / 2>(z * z);
    else return ga_cpower_times<N / 2>(z, z * z);
}

//@ ga_cexp
// Where the exponential alone overflows, that of a half is multiplied twice. C99's special values: an angle of zero, or
// an undefined one.
template <class T> GA_INLINE ga_complex<T> ga_cexp(ga_complex<T> z) {
    const bool far = z.re > (T)(sizeof(T) == 4 ? 88.5 : 709.5), lost = !ga_is_finite(z.im);
    const T size = ga_exp(far ? (T)0.5 * z.re : z.re), again = far ? size : (T)1;
    const T x = size * ga_cos(z.im) * again, y = size * ga_sin(z.im) * again;
    const bool endless = lost & !ga_is_finite(z.re) & (z.re == z.re);
    const T turned = endless & (z.re < 0) ? (z.im < 0 ? -(T)0 : (T)0) : y;
    return {endless ? size : x, z.im == 0 ? z.im : turned};
}

//@ ga_cexp2
template <class T> GA_INLINE ga_complex<T> ga_cexp2(ga_complex<T> z) {
    const T ln2 = (T)0.69314718055994530942;
    return ga_cexp(ga_complex<T>{z.re * ln2, z.im * ln2});
}

//@ ga_cexpm1
GA_INLINE ga_c128 ga_cexpm1(ga_c128 z) {
    // The same values of C99; otherwise e^a cos b - 1 = expm1(a) cos b - 2 sin^2(b / 2), which does
    // not cancel.
    if (z.im == 0) return {expm1(z.re) + 0.0, z.im};
    if (fabs(z.re) == GA_INF && !ga_is_finite(z.im)) {
        if (z.re > 0) return {z.re, z.im - z.im};
        return {-1.0, 0.0};
    }
    const double s = sin(0.5 * z.im);
    return {expm1(z.re) * cos(z.im) - 2.0 * s * s, exp(z.re) * sin(z.im)};
}
GA_SLIM(ga_cexpm1)

//@ ga_clog_size
// log |z|: near |z| = 1 by |z|^2 - 1 in factors, which is exact where the logarithm is small; of very large and very small
// parts by a multiple of them.
GA_INLINE double ga_clog_size(double x, double y) {
    const double a = ga_max(fabs(x), fabs(y)), b = fmin(fabs(x), fabs(y));
    if (a > 0.5 && a < 2.0) return 0.5 * log1p((a - 1.0) * (a + 1.0) + b * b);
    if (a > 1e300) return log(hypot(0.25 * x, 0.25 * y)) + 1.3862943611198906;
    if (a < 1e-290) return log(hypot(0x1p108 * x, 0x1p108 * y)) - 74.8598955004741;
    return log(hypot(x, y));
}

//@ ga_clog
GA_INLINE ga_c128 ga_clog(ga_c128 z) { return {ga_clog_size(z.re, z.im), atan2(z.im, z.re)}; }
GA_SLIM(ga_clog)

//@ ga_clog1p
GA_INLINE ga_c128 ga_clog1p(ga_c128 z) {
    // Small numbers by |1 + z|^2 - 1 = a (2 + a) + b^2; near -1, where that is -1 plus little, 1 + a is exact.
    const bool small = z.re > -0.5 && ga_max(z.re, fabs(z.im)) < 2.0;
    const double size = small ? 0.5 * log1p(z.re * (2.0 + z.re) + z.im * z.im) : ga_clog_size(1.0 + z.re, z.im);
    return {size, atan2(z.im, 1.0 + z.re)};
}
GA_SLIM(ga_clog1p)

//@ ga_csqrt
GA_INLINE ga_c128 ga_csqrt(ga_c128 z) {
    // C99's special values, then the real part from |z| and the imaginary one from it; of a multiple where |z| would
    // overflow or lose digits.
    if (z.re == 0 && z.im == 0) return {0.0, z.im};
    if (fabs(z.im) == GA_INF) return {GA_INF, z.im};
    const double most = fmax(fabs(z.re), fabs(z.im));
    const double by = most > 1e300 ? 0.25 : most < 1e-290 ? 0x1p108 : 1.0, root = most > 1e300 ? 2.0 : most < 1e-290 ? 0x1p-54 : 1.0;
    const double a = by * z.re, b = by * z.im, t = sqrt(0.5 * (fabs(a) + hypot(a, b)));
    const double s = root * t, other = t == GA_INF ? (b == b ? 0.0 : b) : root * (fabs(b) / (2.0 * t));
    if (z.re >= 0) return {s, copysign(other, z.im)};
    return {other, copysign(s, z.im)};
}
GA_SLIM(ga_csqrt)

//@ ga_crsqrt
template <class Z> GA_INLINE Z ga_crsqrt(Z z) { return ga_cdiv(Z{1, 0}, ga_csqrt(z)); }

//@ ga_clogistic
template <class Z> GA_INLINE Z ga_clogistic(Z z) { return ga_cdiv(Z{1, 0}, Z{1, 0} + ga_cexp(-z)); }

//@ ga_cpow
GA_INLINE ga_c128 ga_cpow(ga_c128 z, ga_c128 w) {
    if (w.re == 0 && w.im == 0) return {1.0, 0.0};
    if (z.re == 0 && z.im == 0) return w.re > 0 ? ga_c128{0.0, 0.0} : ga_c128{GA_NAN, GA_NAN};
    return ga_cexp(w * ga_clog(z));
}
GA_INLINE ga_c64 ga_cpow(ga_c64 z, ga_c64 w) { return ga_slim(ga_cpow(ga_wide(z), ga_wide(w))); }

//@ ga_csinh
// For large a, where sinh a alone overflows, 2 sinh(a / 2) cosh(a / 2). C99's special values: an angle of zero, or an
// undefined one.
template <class T> GA_INLINE ga_complex<T> ga_csinh(ga_complex<T> z) {
    const bool far = ga_abs(z.re) > (T)(sizeof(T) == 4 ? 88.5 : 709.5), lost = !ga_is_finite(z.im);
    const T a = far ? (T)0.5 * z.re : z.re, c = ga_cosh(a), again = far ? 2 * c : (T)1;
    const T x = ga_sinh(a) * ga_cos(z.im) * again, y = c * ga_sin(z.im) * again;
    return {lost & ((a == 0) | (ga_abs(a) == c)) ? a : x, z.im == 0 ? z.im : y};
}

//@ ga_ccosh
template <class T> GA_INLINE ga_complex<T> ga_ccosh(ga_complex<T> z) {
    const bool far = ga_abs(z.re) > (T)(sizeof(T) == 4 ? 88.5 : 709.5), lost = !ga_is_finite(z.im);
    const T a = far ? (T)0.5 * z.re : z.re, c = ga_cosh(a), again = far ? 2 * c : (T)1;
    const T x = c * ga_cos(z.im) * again, y = ga_sinh(a) * ga_sin(z.im) * again;
    const T flat = z.re < 0 ? -z.im : z.im, turned = lost & (a == 0) ? a : y;
    return {lost & (ga_abs(a) == c) ? c : x, (z.im == 0) & !ga_is_finite(c) ? flat : turned};
}

//@ ga_csin
// sin z = -i sinh iz
template <class T> GA_INLINE ga_complex<T> ga_csin(ga_complex<T> z) {
    const ga_complex<T> w = ga_csinh(ga_complex<T>{-z.im, z.re});
    return {w.im, -w.re};
}

//@ ga_ccos
// cos z = cosh iz
template <class T> GA_INLINE ga_complex<T> ga_ccos(ga_complex<T> z) { return ga_ccosh(ga_complex<T>{-z.im, z.re}); }

//@ ga_ctanh
GA_INLINE ga_c128 ga_ctanh(ga_c128 z) {
    // Beyond 20 the real part is 1 to double precision; otherwise Kahan's formula, with t = tan b
    // and s = sinh a.
    if (fabs(z.re) == GA_INF && !ga_is_finite(z.im)) return {copysign(1.0, z.re), copysign(0.0, z.im)};
    const double t = tan(z.im);
    if (fabs(z.re) > 20.0)
        return {copysign(1.0, z.re) + 0.0 * t, 4.0 * sin(z.im) * cos(z.im) * exp(-2.0 * fabs(z.re))};
    const double beta = 1.0 + t * t, s = sinh(z.re), rest = 1.0 + beta * s * s;
    const double x = z.re == 0 ? z.re : beta * sqrt(1.0 + s * s) * s / rest;
    return {x, z.im == 0 ? z.im : t / rest};
}
GA_SLIM(ga_ctanh)

//@ ga_ctan
// tan z = -i tanh iz
template <class T> GA_INLINE ga_complex<T> ga_ctan(ga_complex<T> z) {
    const ga_complex<T> w = ga_ctanh(ga_complex<T>{-z.im, z.re});
    return {w.im, -w.re};
}

//@ ga_casin
// asin and acos after W. Kahan, "Branch cuts for complex elementary functions" (1987); far from 0, where his products
// overflow, by log 2|z| and the angle of z.
GA_INLINE ga_c128 ga_casin(ga_c128 z) {
    if (fmax(fabs(z.re), fabs(z.im)) > 1e100)
        return {atan2(z.re, fabs(z.im)), copysign(ga_clog_size(z.re, z.im) + 0.69314718055994530942, z.im)};
    const ga_c128 p = ga_csqrt(ga_c128{1.0 + z.re, z.im}), m = ga_csqrt(ga_c128{1.0 - z.re, -z.im});
    return {z.re == 0 ? z.re : atan2(z.re, p.re * m.re - p.im * m.im),
            asinh(m.re * p.im - m.im * p.re)};
}
GA_SLIM(ga_casin)

//@ ga_cacos
GA_INLINE ga_c128 ga_cacos(ga_c128 z) {
    if (fmax(fabs(z.re), fabs(z.im)) > 1e100)
        return {atan2(fabs(z.im), z.re), -copysign(ga_clog_size(z.re, z.im) + 0.69314718055994530942, z.im)};
    const ga_c128 p = ga_csqrt(ga_c128{1.0 + z.re, z.im}), m = ga_csqrt(ga_c128{1.0 - z.re, -z.im});
    return {z.re == 0 ? 1.57079632679489661923 : 2.0 * atan2(m.re, p.re), asinh(p.re * m.im - p.im * m.re)};
}
GA_SLIM(ga_cacos)

//@ ga_cacosh
GA_INLINE ga_c128 ga_cacosh(ga_c128 z) {
    if (fmax(fabs(z.re), fabs(z.im)) > 1e100)
        return {ga_clog_size(z.re, z.im) + 0.69314718055994530942, atan2(z.im, z.re)};
    const ga_c128 p = ga_csqrt(ga_c128{z.re + 1.0, z.im}), m = ga_csqrt(ga_c128{z.re - 1.0, z.im});
    return {asinh(m.re * p.re + m.im * p.im), z.re == 0 ? copysign(1.57079632679489661923, z.im) : 2.0 * atan2(m.im, p.re)};
}
GA_SLIM(ga_cacosh)

//@ ga_casinh
// asinh z = -i asin iz
template <class T> GA_INLINE ga_complex<T> ga_casinh(ga_complex<T> z) {
    const ga_complex<T> w = ga_casin(ga_complex<T>{-z.im, z.re});
    return {w.im, -w.re};
}

//@ ga_catanh
GA_INLINE ga_c128 ga_catanh(ga_c128 z) {
    const double most = fmax(fabs(z.re), fabs(z.im));
    if (most == GA_INF || (most > 1e100 && z == z)) {  // i pi / 2 + 1 / z
        const double a = 0.25 * z.re, size = hypot(a, 0.25 * z.im);
        return {most == GA_INF ? copysign(0.0, z.re) : a / size / size * 0.25,
                z.im == z.im ? copysign(1.57079632679489661923, z.im) : z.im};
    }
    // Odd: for a real part of at least 0 there is no cancellation. 1 - z is computed in parts, because z may be near 1.
    const double a = fabs(z.re), far = 1.0 - a, square = z.im * z.im;
    const bool pole = far == 0 && fabs(z.im) < 1e-100;
    const double size = pole ? 0.5 * (0.69314718055994530942 - log(fabs(z.im))) : 0.25 * log1p(4.0 * a / (far * far + square));
    return {a == 0 ? z.re : copysign(size, z.re),
            0.5 * atan2(2.0 * z.im, far * (1.0 + a) - square)};
}
GA_SLIM(ga_catanh)

//@ ga_catan
template <class T> GA_INLINE ga_complex<T> ga_catan(ga_complex<T> z) {
    const ga_complex<T> w = ga_catanh(ga_complex<T>{-z.im, z.re});
    return {w.im, -w.re};
}

//@ ga_catan2
// -i log((x + iy) / sqrt(x x + y y)), the analytic continuation of the angle
template <class T> GA_INLINE ga_complex<T> ga_catan2(ga_complex<T> y, ga_complex<T> x) {
    const ga_complex<T> w = ga_clog(ga_cdiv(ga_complex<T>{x.re - y.im, x.im + y.re}, ga_csqrt(x * x + y * y)));
    return {w.im, -w.re};
}

//@ ga_clogaddexp
// log(exp a + exp b), its imaginary part in (-pi, pi].
template <class T> GA_INLINE ga_complex<T> ga_clogaddexp(ga_complex<T> a, ga_complex<T> b) {
    const T top = ga_max(a.re, b.re), by = ga_is_finite(top) ? top : (T)0;
    const ga_complex<T> shift = {by, 0};
    return shift + ga_clog(ga_cexp(a - shift) + ga_cexp(b - shift));
}
