// The gamma function, and integrals of exponentials without a closed form. All are computed in double.

//@ ga_gamma
GA_INLINE double ga_gamma(double x) { return x == -GA_INF ? GA_NAN : tgamma(x); }

//@ ga_fraction
// 1/(b - a1/(b + s - a2/(b + 2s - ...))) with a_k = scale k (k - shift), by Lentz's algorithm.
GA_OUTLINE ga_c128 ga_fraction(ga_c128 b, double step, double scale, double shift) {
    const ga_c128 one = {1.0, 0.0};
    ga_c128 c = {1e300, 0.0}, d = ga_cdiv(one, b), h = d;
    for (int k = 1; k < 500; ++k) {
        const double a = -scale * k * (k - shift);
        b.re += step;
        d = ga_cdiv(one, ga_c128{a * d.re + b.re, a * d.im + b.im});
        c = ga_cdiv(one, c);
        c = ga_c128{b.re + a * c.re, b.im + a * c.im};
        const ga_c128 change = c * d;
        h = h * change;
        if (fabs(change.re - 1.0) + fabs(change.im) < 1e-16) break;
    }
    return h;
}

//@ ga_expn
// E_n(x): a series up to 1, a continued fraction above (DLMF 8.19).
GA_OUTLINE double ga_expn(double n, double x) {
    if (!(n >= 0) || n == GA_INF || !(x >= 0)) return GA_NAN;
    if (x == 0) return n > 1.0 ? 1.0 / (n - 1.0) : GA_INF;
    if (x == GA_INF) return 0.0;
    if (n == 0) return exp(-x) / x;
    if (x > 1.0) return exp(-x) * ga_fraction(ga_c128{x + n, 0.0}, 2.0, 1.0, 1.0 - n).re;
    const bool whole = n == floor(n);
    // The term k = n - 1 of a whole order has a logarithm instead of a pole.
    double term = 1.0, total = 0.0, lead = 0.0;
    for (int k = 0; k < 24; ++k) {
        if (k == n - 1.0) lead = term;
        else total -= term / (1.0 - n + k);
        term *= -x / (k + 1);
    }
    if (!whole) return tgamma(1.0 - n) * pow(x, n - 1.0) + total;
    double psi = -0.57721566490153286061;
    for (int k = 1; k < n && k < 24; ++k) psi += 1.0 / k;
    return total + lead * (psi - log(x));
}

//@ ga_expi
// Ei(x): a series, from 40 on the asymptotic one (DLMF 6.6, 6.12).
GA_OUTLINE double ga_expi(double x) {
    if (x != x) return x;
    if (x == 0) return -GA_INF;
    if (x < 0) return -ga_expn(1.0, -x);
    if (x > 720.0) return GA_INF;
    double term = 1.0, total = 0.0;
    if (x < 40.0) {
        for (int k = 1; k < 200; ++k) {
            term *= x / k;
            total += term / k;
            if (term < 1e-17 * total) break;
        }
        return 0.57721566490153286061 + log(x) + total;
    }
    total = 1.0;
    for (int k = 1; k < x && term > 1e-17; ++k) {
        term *= k / x;
        total += term;
    }
    return exp(x) / x * total;
}

//@ ga_trigonometric_integrals
// Ci and Si of x >= 0: series up to 3, beyond by E1(ix) = -Ci(x) + i (Si(x) - pi/2).
GA_OUTLINE ga_c128 ga_trigonometric_integrals(double x) {
    const double half_pi = 1.57079632679489661923;
    if (x == GA_INF) return {0.0, half_pi};
    if (x > 3.0) {
        const ga_c128 h = ga_fraction(ga_c128{1.0, x}, 2.0, 1.0, 0.0) * ga_c128{cos(x), -sin(x)};
        return {-h.re, half_pi + h.im};
    }
    double term = 1.0, odd = 0.0, even = 0.0;
    for (int k = 1; k < 40; ++k) {
        term *= x / k;
        const double share = (k / 2 % 2 ? -term : term) / k;
        if (k % 2) odd += share;
        else even += share;
    }
    return {0.57721566490153286061 + log(x) + even, odd};
}

//@ ga_sine_integral
GA_INLINE double ga_sine_integral(double x) {
    return x != x ? x : copysign(ga_trigonometric_integrals(fabs(x)).im, x);
}

//@ ga_cosine_integral
GA_INLINE double ga_cosine_integral(double x) {
    if (x != x || x == -GA_INF) return GA_NAN;
    return x == 0 ? -GA_INF : ga_trigonometric_integrals(fabs(x)).re;
}

//@ ga_fresnel
// C and S of x >= 0: series up to 1.5, beyond by an error function of a complex number.
GA_OUTLINE ga_c128 ga_fresnel(double x) {
    const double pi = 3.14159265358979323846;
    if (x > 1e8) return {0.5, 0.5};  // doubles cannot represent the phase
    if (x > 1.5) {
        const double phase = 0.5 * pi * fmod(x * x, 4.0);
        const ga_c128 h = ga_fraction(ga_c128{1.0, -pi * x * x}, 4.0, 4.0, 0.5) * ga_c128{x, -x};
        const ga_c128 rest = ga_c128{cos(phase), sin(phase)} * h;
        return ga_c128{0.5, 0.5} * ga_c128{1.0 - rest.re, -rest.im};
    }
    double term = x, even = 0.0, odd = 0.0;
    for (int k = 0; k < 40; ++k) {
        const double share = (k / 2 % 2 ? -term : term) / (2 * k + 1);
        if (k % 2) odd += share;
        else even += share;
        term *= 0.5 * pi * x * x / (k + 1);
    }
    return {even, odd};
}

//@ ga_fresnel_sin
GA_INLINE double ga_fresnel_sin(double x) { return x != x ? x : copysign(ga_fresnel(fabs(x)).im, x); }

//@ ga_fresnel_cos
GA_INLINE double ga_fresnel_cos(double x) { return x != x ? x : copysign(ga_fresnel(fabs(x)).re, x); }

//@ ga_spence
// The integral of log(t) / (1 - t) from 1 to x: a series in 1 - x for 1/2 <= x <= 3/2, by reflection elsewhere.
GA_OUTLINE double ga_spence(double x) {
    const double sixth = 1.64493406684822643647;  // pi^2 / 6
    if (!(x >= 0)) return GA_NAN;
    if (x == 0) return sixth;
    if (x == GA_INF) return -GA_INF;
    double out = 0.0, sign = 1.0;
    if (x > 1.5) {
        out = -0.5 * log(x) * log(x);
        x = 1.0 / x;
        sign = -1.0;
    }
    double z = 1.0 - x;
    if (x < 0.5) {
        out += sign * (sixth - log(x) * log1p(-x));
        z = x;
        sign = -sign;
    }
    double term = 1.0, total = 0.0;
    for (int k = 1; k < 60; ++k) {
        term *= z;
        total += term / ((double)k * k);
    }
    return out + sign * total;
}

//@ ga_wofz ga_wofz_above
// e^(-z z) erfc(-i z), by the trapezoidal rule with the residues of its poles (S. Al Azah and S. N. Chandler-Wilde,
// "Computation of the complex error function using modified trapezoidal rules", 2021).
GA_OUTLINE ga_c128 ga_wofz_above(ga_c128 z) {
    const double pi = 3.14159265358979323846, h = 0.51166335397324431;  // sqrt(pi / 12)
    const double size = fabs(z.re) + fabs(z.im);
    if (size == GA_INF) return {0.0, 0.0};
    const ga_c128 one = {1.0, 0.0}, factor = ga_c128{-2.0 * h / pi * z.im, 2.0 * h / pi * z.re};
    if (size > 1e7) return ga_cdiv(ga_c128{0.0, 0.56418958354775628695}, z);
    const ga_c128 square = z * z;
    // Nodes at the midpoints unless z is near one: then at the multiples of h.
    const double place = fabs(z.re) / h, within = place - floor(place);
    const bool far = z.im >= pi / h, middle = far || !(within >= 0.25 && within <= 0.75);
    ga_c128 total = {0.0, 0.0};
    for (int k = 0; k < 12; ++k) {
        const double t = middle ? h * (k + 0.5) : h * (k + 1);
        total = total + ga_cdiv(ga_c128{exp(-t * t), 0.0}, ga_c128{square.re - t * t, square.im});
    }
    ga_c128 out = factor * total;
    if (!middle) out = out + ga_cdiv(ga_c128{0.0, h / pi}, z);
    if (far) return out;
    // 2 e^(-z z) / (1 +- e^(-2 pi i z / h))
    const ga_c128 turn = ga_cexp(ga_c128{2.0 * pi / h * z.im, -2.0 * pi / h * z.re});
    const ga_c128 residue = ga_cdiv(ga_cexp(-square), middle ? one + turn : one - turn);
    return out + residue + residue;
}
GA_OUTLINE ga_c128 ga_wofz(ga_c128 z) {
    if (z.re != z.re || z.im != z.im) return {GA_NAN, GA_NAN};
    if (z.im >= 0) return ga_wofz_above(z);
    const ga_c128 half = ga_cexp(-(z * z));
    return half + half - ga_wofz_above(-z);
}
GA_SLIM(ga_wofz)

//@ ga_dawsn
// The imaginary part of w(x) times sqrt(pi) / 2; near 0, where that would cancel, the series.
GA_OUTLINE double ga_dawsn(double x) {
    if (x != x) return x;
    if (fabs(x) > 0.2) return 0.88622692545275801365 * ga_wofz_above(ga_c128{x, 0.0}).im;
    double term = x, total = x;
    for (int k = 1; k < 10; ++k) {
        term *= -2.0 * x * x / (2 * k + 1);
        total += term;
    }
    return total;
}

//@ ga_erfcx
GA_OUTLINE double ga_erfcx(double x) {
    if (x != x) return x;
    if (x >= 0) return ga_wofz_above(ga_c128{0.0, x}).re;
    return 2.0 * exp(x * x) - ga_wofz_above(ga_c128{0.0, -x}).re;
}

//@ ga_owens_t ga_owens_t_below
// The integral of e^(-h h (1 + t t) / 2) / (2 pi (1 + t t)) from 0 to a, 0 <= a <= 1: Gauss's rule on three panels.
GA_OUTLINE double ga_owens_t_below(double h, double a) {
    const double nodes[8] = {
        0.09501250983763744, 0.28160355077925891, 0.45801677765722739, 0.61787624440264375,
        0.75540440835500303, 0.86563120238783174, 0.94457502307323258, 0.98940093499164993};
    const double weights[8] = {
        0.18945061045506850, 0.18260341504492359, 0.16915651939500254, 0.14959598881657673,
        0.12462897125553387, 0.09515851168249278, 0.06225352393864789, 0.02715245941175409};
    const double reach = h * a > 9.0 ? 9.0 / h : a, half = reach / 6.0;  // the integrand is 0 beyond
    double total = 0.0;
    for (int panel = 0; panel < 3; ++panel)
        for (int k = 0; k < 16; ++k) {
            const double t = half * (2 * panel + 1 + (k < 8 ? nodes[k] : -nodes[k - 8]));
            total += weights[k % 8] * exp(-0.5 * h * h * (1.0 + t * t)) / (1.0 + t * t);
        }
    return total * half * 0.15915494309189533577;
}
GA_OUTLINE double ga_owens_t(double h, double a) {
    if (h != h || a != a) return h + a;
    const double size = fabs(a);
    h = fabs(h);
    if (h == GA_INF) return 0.0;
    // Owen's reflection to |a| <= 1 (Owen, 1956).
    if (size <= 1.0) return copysign(ga_owens_t_below(h, size), a);
    const double root = 0.70710678118654752440, near = 0.5 * erfc(h * root);
    if (size == GA_INF) return copysign(0.5 * near, a);
    const double far = 0.5 * erfc(h * size * root);
    return copysign(0.5 * (near + far) - near * far - ga_owens_t_below(h * size, 1.0 / size), a);
}
