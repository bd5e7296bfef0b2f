// Error, gamma, beta, zeta and Bessel functions. All but the error functions are computed in double.

//@ ga_polynomial
// Horner's scheme, coefficients from the highest power down.
template <int N, class T> GA_INLINE T ga_polynomial(T x, const T (&c)[N]) {
    T out = c[0];
#pragma unroll
    for (int i = 1; i < N; ++i) out = out * x + c[i];
    return out;
}

//@ ga_erf_inv
// Polynomials in w = -log(1 - x x) by M. Giles, "Approximating the erfinv function" (2012): a middle and tails.
GA_INLINE float ga_erf_inv(float x) {
    const float middle[9] = {
        2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
        -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f};
    const float tail[9] = {
        -0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
        -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f};
    const float w = -log1pf(-x * x);
    if (w == GA_INFF) return x * GA_INFF;
    return x * (w < 5.0f ? ga_polynomial(w - 2.5f, middle) : ga_polynomial(sqrtf(w) - 3.0f, tail));
}

//@ ga_erf_inv_double if ga_erf_inv
GA_INLINE double ga_erf_inv(double x) {
    const double middle[23] = {
        -3.64441206401782e-21, -1.6850591381820166e-19, 1.28584807152564e-18, 1.1157877678025181e-17,
        -1.333171662854621e-16, 2.0972767875968562e-17, 6.637638134358324e-15, -4.054566272975207e-14,
        -8.151934197605472e-14, 2.6335093153082323e-12, -1.2975133253453532e-11, -5.415412054294628e-11,
        1.0512122733215323e-09, -4.112633980346984e-09, -2.9070369957882005e-08, 4.2347877827932404e-07,
        -1.3654692000834679e-06, -1.3882523362786469e-05, 0.00018673420803405714, -0.000740702534166267,
        -0.006033670871430149, 0.24015818242558962, 1.6536545626831027};
    const double tail[19] = {
        2.2137376921775787e-09, 9.075656193888539e-08, -2.7517406297064545e-07, 1.8239629214389228e-08,
        1.5027403968909828e-06, -4.013867526981546e-06, 2.9234449089955446e-06, 1.2475304481671779e-05,
        -4.7318229009055734e-05, 6.828485145957318e-05, 2.4031110387097894e-05, -0.0003550375203628475,
        0.0009532893797373805, -0.0016882755560235047, 0.002491442096107851, -0.003751208507569241,
        0.005370914553590064, 1.0052589676941592, 3.0838856104922208};
    const double far[17] = {
        -2.7109920616438573e-11, -2.555641816996525e-10, 1.5076572693500548e-09, -3.789465440126737e-09,
        7.61570120807834e-09, -1.496002662714924e-08, 2.914795345090108e-08, -6.771199775845234e-08,
        2.2900482228026655e-07, -9.9298272942317e-07, 4.526062597223154e-06, -1.968177810553167e-05,
        7.599527703001776e-05, -0.00021503011930044477, -0.00013871931833623122, 1.0103004648645344,
        4.849906401408584};
    const double w = -log1p(-x * x);
    if (w == GA_INF) return x * GA_INF;
    if (w < 6.25) return x * ga_polynomial(w - 3.125, middle);
    return x * (w < 16.0 ? ga_polynomial(sqrt(w) - 3.25, tail) : ga_polynomial(sqrt(w) - 5.0, far));
}

//@ ga_lgamma
// log |gamma(x)|
GA_INLINE double ga_lgamma(double x) { return fabs(x) == GA_INF ? GA_INF : lgamma(x); }

//@ ga_digamma
// Below 0 by reflection, up to 10 by recurrence, above by the asymptotic series; nan at the poles.
GA_OUTLINE double ga_digamma(double x) {
    const double series[7] = {1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12};
    const double pi = 3.14159265358979323846;
    if (x <= 0 && x == floor(x)) return GA_NAN;
    double out = 0.0;
    if (x < 0) {
        out = -pi / tan(pi * (x - rint(x)));
        x = 1.0 - x;
    }
    for (; x < 10.0; x += 1.0) out -= 1.0 / x;
    if (x == GA_INF) return GA_INF;
    const double w = 1.0 / (x * x);
    return out + log(x) - 0.5 / x - w * ga_polynomial(w, series);
}

//@ ga_zeta
// The Hurwitz zeta function, the sum of (q + k)^-x over k >= 0, by Euler-Maclaurin summation.
GA_OUTLINE double ga_zeta(double x, double q) {
    const double series[12] = {  // (2k)! / B2k
        12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
        -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15,
        1.8152105401943546773e17, -7.1661652561756670113e18};
    if (x == 1.0) return GA_INF;  // a pole at every place, as SciPy has it: nan too
    if (x != x || q != q) return x + q;
    if (q <= 0 && q == floor(q)) return fmod(x, 2.0) == 0 ? GA_INF : GA_NAN;
    if (x < 1.0 || (q < 0 && x != floor(x))) return GA_NAN;
    if (q == GA_INF) return 0.0;
    // The first terms, then the integral of the rest, then corrections by Bernoulli numbers.
    double total = pow(q, -x), at = q, term = 0.0;
    for (int i = 0; i < 9 || at <= 9.0; ++i) {
        at += 1.0;
        term = pow(at, -x);
        total += term;
        // Beyond 1, all terms after one that is 0 are 0; the comparison does not see it.
        if (fabs(term) < 1e-17 * fabs(total) || (term == 0.0 && at > 1.0)) return total;
    }
    total += term * at / (x - 1.0) - 0.5 * term;
    double a = 1.0, k = 0.0;
    for (int i = 0; i < 12; ++i) {
        a *= x + k;
        term /= at;
        const double more = a * term / series[i];
        total += more;
        if (fabs(more) < 1e-17 * fabs(total)) break;
        k += 1.0;
        a *= x + k;
        term /= at;
        k += 1.0;
    }
    return total;
}

//@ ga_polygamma
// The m-th derivative of digamma: (-1)^(m+1) m! zeta(m + 1, x).
GA_OUTLINE double ga_polygamma(double m, double x) {
    if (!(m >= 0) || m != floor(m)) return GA_NAN;
    if (m == 0) return ga_digamma(x);
    return (fmod(m, 2.0) == 0 ? -1.0 : 1.0) * tgamma(m + 1.0) * ga_zeta(m + 1.0, x);
}

//@ ga_gamma_density
// x^a e^-x / gamma(a + 1), which is P(a, x) - P(a + 1, x).
GA_OUTLINE double ga_gamma_density(double a, double x) {
    return exp((a == 0 ? 0.0 : a * log(x)) - x - lgamma(a + 1.0));
}

//@ ga_enough
// How small a term has to be before a sum of doubles for a result of this type ends. Where one minus the sum is the
// result, which may be small, it ends at a double's end.
template <class T> GA_INLINE double ga_enough(T) { return sizeof(T) == 8 ? 1e-17 : 1e-11; }

//@ ga_gamma_lower
// P(a, x) for a > 0 by its power series, which converges fast for x below a + 1.
GA_OUTLINE double ga_gamma_lower(double a, double x, double enough) {
    double term = 1.0, total = 1.0;
    for (int n = 1; n < 20000 && term > enough * total; ++n) {
        term *= x / (a + n);
        total += term;
    }
    return total * ga_gamma_density(a, x);
}

//@ ga_gamma_upper
// Q(a, x) = 1 - P(a, x) for a > 0 by its continued fraction (modified Lentz), for x above a + 1.
GA_OUTLINE double ga_gamma_upper(double a, double x, double enough) {
    const double tiny = 1e-300;
    double b = x + 1.0 - a, c = 1.0 / tiny, d = 1.0 / b, h = d;
    for (int n = 1; n < 20000; ++n) {
        const double k = -n * (n - a);
        b += 2.0;
        d = k * d + b;
        d = 1.0 / (fabs(d) < tiny ? tiny : d);
        c = b + k / c;
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        if (fabs(d * c - 1.0) < 10.0 * enough) break;
    }
    return exp(a * log(x) - x - lgamma(a)) * h;
}

//@ ga_igamma
template <class T> GA_INLINE double ga_igamma(T a, T x) {
    if (!(a >= 0) || !(x >= 0)) return GA_NAN;
    if (a == 0) return x > 0 ? 1.0 : GA_NAN;
    if (x == 0) return 0.0;
    if (a == GA_INF) return x == GA_INF ? GA_NAN : 0.0;
    if (x == GA_INF) return 1.0;
    return x < a + 1.0 ? ga_gamma_lower(a, x, ga_enough(x)) : 1.0 - ga_gamma_upper(a, x, ga_enough(x));
}

//@ ga_igammac
template <class T> GA_INLINE double ga_igammac(T a, T x) {
    if (!(a >= 0) || !(x >= 0)) return GA_NAN;
    if (a == 0) return x > 0 ? 0.0 : GA_NAN;
    if (x == 0) return 1.0;
    if (a == GA_INF) return x == GA_INF ? GA_NAN : 1.0;
    if (x == GA_INF) return 0.0;
    return x < a + 1.0 ? 1.0 - ga_gamma_lower(a, x, 1e-17) : ga_gamma_upper(a, x, ga_enough(x));
}

//@ ga_igamma_grad_a
// dP/da by central differences of eighth order, of the logarithm of the smaller one of P and Q.
GA_OUTLINE double ga_igamma_grad_a(double a, double x) {
    const double weights[4] = {4.0 / 5, -1.0 / 5, 4.0 / 105, -1.0 / 280};
    if (!(a > 0) || !(x >= 0)) return GA_NAN;
    if (x == 0) return 0.0;
    double out = 0.0, slope = 0.0;
    if (x < a) {  // log P is smooth for a >= 5; smaller a are raised by P(a, x) = P(a + 1, x) + density(a, x)
        for (; a < 5.0; a += 1.0) out += ga_gamma_density(a, x) * (log(x) - ga_digamma(a + 1.0));
        const double step = fmin(0.08 * sqrt(a), a / 5.0);
        for (int k = 0; k < 4; ++k)
            slope += weights[k] * (log(ga_igamma(a + (k + 1) * step, x)) - log(ga_igamma(a - (k + 1) * step, x)));
        slope = slope / step * ga_igamma(a, x);
        return out + (ga_is_finite(slope) ? slope : 0.0);
    }
    // Q has zeros at a = 0, -1 and -2, by which it is divided.
    const double step = fmin(0.08 * sqrt(a), a / 5.0);
    for (int k = 0; k < 4; ++k) {
        const double up = a + (k + 1) * step, down = a - (k + 1) * step;
        slope += weights[k] * (log(ga_igammac(up, x) / (up * (up + 1.0) * (up + 2.0))) -
                               log(ga_igammac(down, x) / (down * (down + 1.0) * (down + 2.0))));
    }
    slope = slope / step + 1.0 / a + 1.0 / (a + 1.0) + 1.0 / (a + 2.0);
    out = -slope * ga_igammac(a, x);
    return ga_is_finite(out) ? out : 0.0;
}

//@ ga_random_gamma_grad
// dx/da of a gamma variate x(a) at a fixed uniform: -(dP/da) / (dP/dx).
GA_OUTLINE double ga_random_gamma_grad(double a, double x) {
    if (x == 0 && a > 0) return 0.0;
    if (x > 0 && ga_igamma(a, x) == 0) return -x / a * (log(x) - ga_digamma(a + 1.0));
    const double density = ga_gamma_density(a, x);
    if (density == 0 && x > a && x < GA_INF) {  // it vanishes before the quotient Q / density, which is r / x
        const double r = x / (x - a + 1.0);
        return (log(x) - ga_digamma(a) + r / x) * r;
    }
    return -ga_igamma_grad_a(a, x) * x / (a * density);
}

//@ ga_beta_fraction
// The continued fraction of the incomplete beta function (modified Lentz).
GA_OUTLINE double ga_beta_fraction(double a, double b, double x) {
    const double tiny = 1e-300;
    double c = 1.0, d = 1.0 - (a + b) * x / (a + 1.0);
    d = 1.0 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int n = 1; n < 20000; ++n) {
        double k = n * (b - n) * x / ((a + 2 * n - 1.0) * (a + 2 * n));
        d = 1.0 + k * d;
        d = 1.0 / (fabs(d) < tiny ? tiny : d);
        c = 1.0 + k / c;
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        k = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1.0));
        d = 1.0 + k * d;
        d = 1.0 / (fabs(d) < tiny ? tiny : d);
        c = 1.0 + k / c;
        c = fabs(c) < tiny ? tiny : c;
        h *= d * c;
        if (fabs(d * c - 1.0) < 1e-16) break;
    }
    return h;
}

//@ ga_regularized_incomplete_beta
GA_OUTLINE double ga_regularized_incomplete_beta(double a, double b, double x) {
    if (!(a >= 0) || !(b >= 0) || !(x >= 0) || x > 1.0) return GA_NAN;
    // All of the distribution is at 0, or at 1.
    const bool first = a == 0 || b == GA_INF, last = b == 0 || a == GA_INF;
    if (first && last) return GA_NAN;
    if (x == 0 || x == 1.0) return x;
    if (first || last) return first ? 1.0 : 0.0;
    // The fraction converges fast on one side of the mean; the other side is its complement.
    const double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1.0) / (a + b + 2.0)) return front * ga_beta_fraction(a, b, x) / a;
    return 1.0 - front * ga_beta_fraction(b, a, 1.0 - x) / b;
}

//@ ga_bessel
// e^-|x| I_n(x) for x >= 0, n = 0 or 1: the power series (all terms positive), from 30 on the asymptotic one.
GA_OUTLINE double ga_bessel(int n, double x) {
    double term = 1.0, total = 1.0;
    if (x < 30.0) {
        const double square = 0.25 * x * x;
        for (int k = 1; k < 200 && term > 1e-17 * total; ++k) {
            term *= square / ((double)k * (k + n));
            total += term;
        }
        return exp(-x) * total * (n == 1 ? 0.5 * x : 1.0);
    }
    for (int k = 1; k < 40 && fabs(term) > 1e-17; ++k) {
        const double odd = 2 * k - 1;
        term *= (odd * odd - 4.0 * n * n) / (8.0 * k * x);
        total += term;
    }
    return total / (2.50662827463100050242 * sqrt(x));
}

//@ ga_bessel_i0e
GA_INLINE double ga_bessel_i0e(double x) { return x != x ? x : ga_bessel(0, fabs(x)); }

//@ ga_bessel_i1e
GA_INLINE double ga_bessel_i1e(double x) { return x != x ? x : copysign(ga_bessel(1, fabs(x)), x); }
