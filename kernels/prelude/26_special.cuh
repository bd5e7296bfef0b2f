// Error, gamma, beta, zeta and Bessel functions. All but the error functions are computed in double.

//@ ga_polynomial
// Horner's scheme, coefficients from the highest power down.
template <int N, class T> GA_INLINE T ga_polynomial(T x, const T (&c)[N]) {
    T out = c[0];
#pragma unroll
    for (int i = 1; i < N; ++i) out = ga_fma(out, x, c[i]);
    return out;
}

//@ ga_erf_inv
// Polynomials in w = -log(1 - x x) by M. Giles, "Approximating the erfinv function" (2012): a middle and tails.
GA_INLINE float ga_erf_inv(float x) {
    // An absolute error of w counts little. x x is rounded, as it is where JAX computes normal numbers.
    const float log = ga_near_log2(1.0f - x * x);
    const float near = ga_horner(
        fmaf(log, -0.693147181f, -2.5f), 2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f,
        0.00021858087f, -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f);
    const float far = ga_horner(
        ga_near_sqrt(log * -0.693147181f) - 3.0f, -0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f,
        0.00573950773f, -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f);
    return x * ga_below(log, -7.21347523f, fabsf(x) == 1.0f ? GA_INFF : far, near);  // where w is 5
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
    // 1 - x x again, from factors: here the rounding of x x takes most of its digits.
    const double root = sqrt(-log((1.0 - x) * (1.0 + x)));
    return x * (w < 16.0 ? ga_polynomial(root - 3.25, tail) : ga_polynomial(root - 5.0, far));
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

//@ ga_zeta_sum
// The sum of (q + k)^-x over k >= 0 for x > 1, by Euler-Maclaurin summation.
GA_OUTLINE double ga_zeta_sum(double x, double q) {
    const double series[12] = {  // (2k)! / B2k
        12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
        -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15,
        1.8152105401943546773e17, -7.1661652561756670113e18};
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

//@ ga_zeta
// The Hurwitz zeta function, the sum of (q + k)^-x over k >= 0. If that is long, for q far below 0 and integer x, it is
// the one from q - floor q on, plus the terms from q up to there, in the other order.
GA_OUTLINE double ga_zeta(double x, double q) {
    if (x == 1.0) return GA_INF;  // a pole at every place, as SciPy has it: nan too
    if (x != x || q != q) return x + q;
    if (q <= 0 && q == floor(q)) return fmod(x, 2.0) == 0 ? GA_INF : GA_NAN;
    if (x < 1.0 || (q < 0 && x != floor(x))) return GA_NAN;
    if (q == GA_INF) return 0.0;
    if (q > -100.0) return ga_zeta_sum(x, q);
    const double above = q - floor(q), sign = fmod(x, 2.0) == 0 ? 1.0 : -1.0;
    return ga_zeta_sum(x, above) + sign * ga_zeta_sum(x, 1.0 - above) - sign * ga_zeta_sum(x, 1.0 - q);
}

//@ ga_polygamma
// The m-th derivative of digamma: (-1)^(m+1) m! zeta(m + 1, x).
GA_OUTLINE double ga_polygamma(double m, double x) {
    if (!(m >= 0) || m != floor(m)) return GA_NAN;
    if (m == 0) return ga_digamma(x);
    return (fmod(m, 2.0) == 0 ? -1.0 : 1.0) * tgamma(m + 1.0) * ga_zeta(m + 1.0, x);
}

//@ ga_stirling
// log of gamma(a) / (sqrt(2 pi / a) (a / e)^a), for a >= 20.
GA_INLINE double ga_stirling(double a) {
    const double r = 1.0 / a, w = r * r;
    return r * (1.0 / 12 - w * (1.0 / 360 - w * (1.0 / 1260 - w * (1.0 / 1680 - w / 1188))));
}

//@ ga_log1p_rest
// t - log(1 + t), which is near t^2 / 2: from the series of the logarithm in s = t / (2 + t), where t - 2 s is t s.
GA_OUTLINE double ga_log1p_rest(double t) {
    const double series[11] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7,
                               1.0 / 5, 1.0 / 3};
    if (!(fabs(t) < 0.3)) return t - log1p(t);
    const double s = t / (2.0 + t);
    return s * (t - 2.0 * s * s * ga_polynomial(s * s, series));
}

//@ ga_lgamma1p
// log gamma(1 + a) for 0 <= a < 1/4, to all digits, by terms with zeta(k) - 1.
GA_OUTLINE double ga_lgamma1p(double a) {
    const double series[16] = {-4.4924691987645662e-07, 9.5514121304074194e-07, -2.0392157538013662e-06, 4.3748667899074873e-06,
        -9.439488275268395e-06, 2.0507212775670694e-05, -4.4926236738133142e-05, 9.9457512781808531e-05,
        -0.00022315475845357936, 0.00050966952474304245, -0.001192753911703261, 0.0028905103307415234,
        -0.0073855510286739857, 0.020580808427784546, -0.067352301053198102, 0.3224670334241132};
    return a * (0.42278433509846714 + a * ga_polynomial(a, series)) - log1p(a);
}

//@ ga_gamma_density
// x^a e^-x / gamma(a + 1), which is P(a, x) - P(a + 1, x). The logarithms of large factors would cancel.
GA_OUTLINE double ga_gamma_density(double a, double x) {
    if (a >= 20.0) return 0.39894228040143267794 / sqrt(a) * exp(-a * ga_log1p_rest((x - a) / a) - ga_stirling(a));
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
    return a * ga_gamma_density(a, x) * h;
}

//@ ga_gamma_upper_few
// Q(a, x) for 0 < a < 1/4 and x below a + 1: P is x^a / gamma(a + 1) (1 + a sum), and Q is small where a is.
GA_OUTLINE double ga_gamma_upper_few(double a, double x) {
    double term = 1.0, total = 0.0;
    for (int n = 1; n < 60 && fabs(term) > 1e-18; ++n) {
        term *= -x / n;
        total += term / (a + n);
    }
    const double power = a * log(x) - ga_lgamma1p(a);
    return -expm1(power) - exp(power) * a * total;
}

//@ ga_gamma_of_many
// Q(a, x), or P(a, x), for large a, by N. M. Temme's uniform asymptotic expansion (DLMF 8.12).
GA_OUTLINE double ga_gamma_of_many(double a, double x, bool upper) {
    const double c0[8] = {-571.0 / 261273600, 1.0 / 25515, -139.0 / 777600, 1.0 / 2835, 1.0 / 864, -2.0 / 135, 1.0 / 12, -1.0 / 3};
    const double c1[5] = {1.0 / 4860, -77.0 / 77760, 1.0 / 378, -1.0 / 288, -1.0 / 540};
    const double c2[3] = {1.0 / 1296, -139.0 / 51840, 25.0 / 6048};
    const double t = (x - a) / a, rest = ga_log1p_rest(t), power = a * rest;
    if (power > 745.0) return (x > a) == upper ? 0.0 : 1.0;
    const double eta = copysign(sqrt(2.0 * rest), t), root = copysign(sqrt(power), t);
    const double sum = ga_polynomial(eta, c0) + (ga_polynomial(eta, c1) + ga_polynomial(eta, c2) / a) / a;
    const double more = 0.39894228040143267794 / sqrt(a) * exp(-power) * sum;
    return upper ? 0.5 * erfc(root) + more : 0.5 * erfc(-root) - more;
}

//@ ga_igamma
template <class T> GA_INLINE double ga_igamma(T a, T x) {
    if (!(a >= 0) || !(x >= 0)) return GA_NAN;
    if (a == 0) return x > 0 ? 1.0 : GA_NAN;
    if (x == 0) return 0.0;
    if (a == GA_INF) return x == GA_INF ? GA_NAN : 0.0;
    if (x == GA_INF) return 1.0;
    if (a > 1e5) return ga_gamma_of_many(a, x, false);
    return x < a + 1.0 ? ga_gamma_lower(a, x, ga_enough(x)) : 1.0 - ga_gamma_upper(a, x, ga_enough(x));
}

//@ ga_igammac
template <class T> GA_INLINE double ga_igammac(T a, T x) {
    if (!(a >= 0) || !(x >= 0)) return GA_NAN;
    if (a == 0) return x > 0 ? 0.0 : GA_NAN;
    if (x == 0) return 1.0;
    if (a == GA_INF) return x == GA_INF ? GA_NAN : 1.0;
    if (x == GA_INF) return 0.0;
    if (a > 1e5) return ga_gamma_of_many(a, x, true);
    if (x >= a + 1.0) return ga_gamma_upper(a, x, ga_enough(x));
    return a < 0.25 ? ga_gamma_upper_few(a, x) : 1.0 - ga_gamma_lower(a, x, 1e-17);
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
// x^a (1 - x)^b / (B(a, b) I_x(a, b)) by the even part of its continued fraction (modified Lentz), below the mean.
// `apart` is a (1 - x) - b x, which the caller knows more accurately than it follows from a rounded 1 - x.
GA_OUTLINE double ga_beta_fraction(double a, double b, double x, double apart) {
    const double tiny = 1e-308;
    double out = a * (apart + 1.0) / (a + 1.0), c, d = 0.0;
    out = fabs(out) < tiny ? tiny : out;
    c = out;
    for (double n = 1.0; n < 20000.0; n += 1.0) {
        const double in = x / (a + (2.0 * n - 1.0)), k = (a + (n - 1.0)) * (a + b + (n - 1.0)) * n * (b - n) * in * in;
        const double next = n + n * (b - n) * in + (a + n) / (a + 2.0 * n + 1.0) * (apart + 1.0 + n * (2.0 - x));
        d = next + k * d;
        d = 1.0 / (fabs(d) < tiny ? tiny : d);
        c = next + k / c;
        c = fabs(c) < tiny ? tiny : c;
        out *= d * c;
        if (fabs(d * c - 1.0) < 1e-16) break;
    }
    return out;
}

//@ ga_beta_apart
// x b - (1 - x) a, which is 0 at the mean, with the rounding errors of each product and of 1 - x.
GA_INLINE double ga_beta_apart(double a, double b, double x) {
    const double y = 1.0 - x, product = a * y, left = fma(-a, y, product) - a * ((1.0 - y) - x);
    return fma(x, b, -product) + left;
}

//@ ga_beta_density
// x^a (1 - x)^b / B(a, b). The logarithms of large factors would cancel.
GA_OUTLINE double ga_beta_density(double a, double b, double x) {
    const double log_x = log(x), log_y = log1p(-x);
    if (a < 20.0 && b < 20.0 && fmin(a, b) > 1e-300)
        return tgamma(a + b) / (tgamma(a) * tgamma(b)) * pow(x, a) * (x < 0.5 ? exp(b * log_y) : pow(1.0 - x, b));
    if (a < 20.0 && b < 20.0) return exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log_x + b * log_y);
    if (a >= 20.0 && b >= 20.0) {
        const double apart = ga_beta_apart(a, b, x);
        const double power = a * ga_log1p_rest(apart / a) + b * ga_log1p_rest(-apart / b);
        return 0.39894228040143267794 * sqrt(a / (a + b) * b) *
               exp(ga_stirling(a + b) - ga_stirling(a) - ga_stirling(b) - power);
    }
    const double many = a < b ? b : a, few = a < b ? a : b, part = few / many;
    const double logs = few * (log(many) + (a < b ? log_x : log_y)) + many * (a < b ? log_y : log_x);
    return exp(logs - many * ga_log1p_rest(part) + (few - 0.5) * log1p(part) - lgamma(few) + ga_stirling(a + b) - ga_stirling(many));
}

//@ ga_beta_of_few
// I_x(a, b) for b of at most 1e-7, beyond the mean: 1 - I_y(b, a) by the power series in y = 1 - x, small where b is.
GA_OUTLINE double ga_beta_of_few(double a, double b, double y) {
    double term = 1.0, total = 0.0;
    for (int n = 1; n < 200 && fabs(term) > 1e-18; ++n) {
        term *= (n - a) / n * y;
        total += term / (b + n);
    }
    // log gamma(a + b) - log gamma(a), from the same of 1 + a
    const double rise = b * ga_digamma(1.0 + a + 0.5 * b) - log1p(b / a);
    const double power = b * log(y) - ga_lgamma1p(b) + rise;
    return -expm1(power) - exp(power) * b * total;
}

//@ ga_beta_of_many
// I_x(a, b) for large a and b, by the first term of N. M. Temme's uniform asymptotic expansion (DLMF 8.18).
GA_OUTLINE double ga_beta_of_many(double a, double b, double x) {
    const double all = a + b, apart = ga_beta_apart(a, b, x), width = sqrt(a / all) * sqrt(b / all);
    const double power = a * ga_log1p_rest(apart / a) + b * ga_log1p_rest(-apart / b);
    if (power > 745.0) return apart > 0 ? 1.0 : 0.0;
    const double root = copysign(sqrt(power), apart), eta = root * sqrt(2.0 / all), far = apart / all;
    const double first = fabs(far) < 1e-5 * width ? (b - a) / all / (3.0 * width) : 1.0 / eta - width / far;
    return 0.5 * erfc(-root) + 0.39894228040143267794 / sqrt(all) * exp(-power) * first;
}

//@ ga_regularized_incomplete_beta
GA_OUTLINE double ga_regularized_incomplete_beta(double a, double b, double x) {
    if (!(a >= 0) || !(b >= 0) || !(x >= 0) || x > 1.0) return GA_NAN;
    // All of the distribution is at 0, or at 1.
    const bool first = a <= 1e-305 * b || b == GA_INF, last = b <= 1e-305 * a || a == GA_INF;
    if (first && last) return GA_NAN;
    if (x == 0 || x == 1.0) return x;
    if (first || last) return first ? 1.0 : 0.0;
    if (fmin(a, b) > 2e10) return ga_beta_of_many(a, b, x);
    // Of one that is far larger than the other, a gamma distribution (M. E. Wise's of 1950).
    if (b > 1e9 * fmax(a, 1.0)) return ga_igamma(a, -(b + 0.5 * (a - 1.0)) * log1p(-x));
    if (a > 1e9 * fmax(b, 1.0)) return ga_igammac(b, -(a + 0.5 * (b - 1.0)) * log(x));
    // The fraction converges fast on one side of the mean; the other side is its complement.
    const double apart = ga_beta_apart(a, b, x);
    if (x < (a + 1.0) / (a + b + 2.0)) return ga_beta_density(a, b, x) / ga_beta_fraction(a, b, x, -apart);
    if (b < 1e-7) return ga_beta_of_few(a, b, 1.0 - x);
    return 1.0 - ga_beta_density(a, b, x) / ga_beta_fraction(b, a, 1.0 - x, apart);
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
