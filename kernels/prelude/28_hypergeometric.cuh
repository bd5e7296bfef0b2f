// Hypergeometric functions and their slopes in a parameter. All are computed in double.

//@ ga_is_pole
GA_INLINE bool ga_is_pole(double x) { return x <= 0 && x == floor(x); }

//@ ga_hyp_series
// The sum of (a)_k (b)_k / ((c)_k k!) x^k over k; without b for 1F1.
GA_OUTLINE double ga_hyp_series(double a, double b, double c, double x, bool gauss) {
    double term = 1.0, total = 1.0;
    for (int k = 0; k < 20000; ++k) {
        term *= (a + k) * (gauss ? b + k : 1.0) / ((c + k) * (k + 1.0)) * x;
        total += term;
        if (fabs(term) <= 1e-17 * fabs(total) || !ga_is_finite(total)) break;
    }
    return total;
}

//@ ga_gamma_ratio ga_gamma_sign
// gamma(a) / gamma(b) e^scale from logarithms, and the sign of gamma.
GA_INLINE double ga_gamma_sign(double x) { return x > 0 || fmod(floor(x), 2.0) == 0 ? 1.0 : -1.0; }
GA_OUTLINE double ga_gamma_ratio(double a, double b, double scale) {
    if (ga_is_pole(b)) return 0.0;
    return ga_gamma_sign(a) * ga_gamma_sign(b) * exp(lgamma(a) - lgamma(b) + scale);
}

//@ ga_hyp1f1
// Kummer's series of positive x; for large x the asymptotic one (DLMF 13.7).
GA_OUTLINE double ga_hyp1f1(double a, double b, double x) {
    if (a != a || b != b || x != x) return a + b + x;
    // Trivial cases, poles of b, and polynomials.
    if (a == 0 || x == 0) return 1.0;
    if (ga_is_pole(b) && !(ga_is_pole(a) && a >= b)) return GA_INF;
    if (ga_is_pole(a)) return ga_hyp_series(a, 1.0, b, x, false);
    if (a == b) return exp(x);
    const bool left = x < 0;  // e^x 1F1(b - a, b, -x)
    const double p = left ? b - a : a, size = fabs(x), turned = left ? x : 0.0;
    if (ga_is_pole(p)) return exp(turned) * ga_hyp_series(p, 1.0, b, size, false);
    if (size < 40.0 + 2.0 * (p * p + b * b)) return exp(turned) * ga_hyp_series(p, 1.0, b, size, false);
    // Terms of an asymptotic series are used as long as they shrink.
    double term = 1.0, total = 1.0;
    for (int k = 0; k < 200; ++k) {
        const double next = term * (b - p + k) * (1.0 - p + k) / ((k + 1.0) * size);
        if (fabs(next) > fabs(term) || fabs(next) < 1e-17 * fabs(total)) break;
        term = next;
        total += term;
    }
    return total * ga_gamma_ratio(b, p, size + turned + (p - b) * log(size));
}

//@ ga_hyp2f1 ga_hyp2f1_inside
// F(x) for 0 <= x < 1: its series up to 1/2; beyond, Taylor series of the differential equation, each of which covers
// half of the distance to the singularity at 1.
GA_OUTLINE double ga_hyp2f1_inside(double a, double b, double c, double x) {
    if (x <= 0.5) return ga_hyp_series(a, b, c, x, true);
    double at = 0.5, value = ga_hyp_series(a, b, c, at, true);
    double slope = a * b / c * ga_hyp_series(a + 1.0, b + 1.0, c + 1.0, at, true);
    while (at < x && ga_is_finite(value)) {
        const double half = 0.5 * (1.0 - at), step = x - at < half ? x - at : half;
        // Value and slope of the sum of u_n t^n; u includes the powers of the step.
        double u = value, v = slope * step, total = u + v, rise = v;
        for (int n = 0; n < 2000; ++n) {
            const double middle = ((1.0 - 2.0 * at) * n + c - (a + b + 1.0) * at) * (n + 1.0);
            const double w = ((n + a) * (n + b) * u * step - middle * v) * step / (at * (1.0 - at) * (n + 2.0) * (n + 1.0));
            total += w;
            rise += (n + 2) * w;
            u = v;
            v = w;
            if (fabs(u) + fabs(v) < 1e-18 * fabs(total)) break;
        }
        value = total;
        slope = rise / step;
        at += step;
    }
    return value;
}
GA_OUTLINE double ga_hyp2f1(double a, double b, double c, double x) {
    if (a != a || b != b || c != c || x != x) return a + b + c + x;
    // Trivial cases, polynomials (which end before a pole of c), and closed forms.
    if (x == 0 || a == 0 || b == 0) return 1.0;
    const bool ends = ga_is_pole(a) || ga_is_pole(b);
    const double last = ga_is_pole(a) && ga_is_pole(b) ? fmax(a, b) : ga_is_pole(a) ? a : b;
    if (ga_is_pole(c) && !(ends && last >= c)) return GA_INF;
    if (ends) return ga_hyp_series(a, b, c, x, true);
    if (x > 1.0) return GA_INF;
    if (b == c) return pow(1.0 - x, -a);
    if (a == c) return pow(1.0 - x, -b);
    // Gauss's theorem.
    if (x == 1.0) {
        if (!(c - a - b > 0)) return GA_INF;
        return ga_gamma_ratio(c, c - a, 0.0) * ga_gamma_ratio(c - a - b, c - b, 0.0);
    }
    double front = 1.0;
    if (x < 0) {  // (1 - x)^-a F(a, c - b, c, x / (x - 1))
        front = pow(1.0 - x, -a);
        b = c - b;
        x = x / (x - 1.0);
    }
    if (c - a - b < 0) {  // (1 - x)^(c - a - b) F(c - a, c - b, c, x)
        front *= pow(1.0 - x, c - a - b);
        a = c - a;
        b = c - b;
    }
    if (ga_is_pole(a) || ga_is_pole(b)) return front * ga_hyp_series(a, b, c, x, true);
    return front * ga_hyp2f1_inside(a, b, c, x);
}

//@ ga_hyp1f1_slope ga_hyp_step
// By central differences of eighth order; steps are small against the distance to a pole of the lower parameter.
GA_INLINE double ga_hyp_step(double p, bool lower) {
    if (!lower || p > 0.5) return 0.01;
    return 0.01 * fmax(fabs(p - rint(p)), 1e-3);
}
template <int OF> GA_OUTLINE double ga_hyp1f1_slope(double a, double b, double x) {
    const double weights[4] = {4.0 / 5, -1.0 / 5, 4.0 / 105, -1.0 / 280}, step = ga_hyp_step(OF ? b : a, OF == 1);
    double total = 0.0;
    for (int k = 1; k < 5; ++k)
        for (int sign = -1; sign < 2; sign += 2) {
            const double move = sign * k * step;
            total += sign * weights[k - 1] * ga_hyp1f1(OF == 0 ? a + move : a, OF == 1 ? b + move : b, x);
        }
    return total / step;
}

//@ ga_hyp2f1_slope
template <int OF> GA_OUTLINE double ga_hyp2f1_slope(double a, double b, double c, double x) {
    const double weights[4] = {4.0 / 5, -1.0 / 5, 4.0 / 105, -1.0 / 280};
    const double step = ga_hyp_step(OF == 0 ? a : OF == 1 ? b : c, OF == 2);
    double total = 0.0;
    for (int k = 1; k < 5; ++k)
        for (int sign = -1; sign < 2; sign += 2) {
            const double move = sign * k * step;
            const double p = OF == 0 ? a + move : a, q = OF == 1 ? b + move : b, r = OF == 2 ? c + move : c;
            total += sign * weights[k - 1] * ga_hyp2f1(p, q, r, x);
        }
    return total / step;
}
