// Special functions of floats for a CPU: without branches, loops and calls, so that loops of them are vectorised.
//
// They are computed in double, with near-minimax polynomials (Chebyshev interpolation in 40 digits), and rounded once:
// within 1 unit in the last place, log |gamma| within 2 near its zeros. Those of doubles are the prelude's.

//@ ga_erf_inv
// The prelude's two polynomials, both of them, and a choice; 1 - x x is rounded once where there is an fma.
GA_INLINE float ga_erf_inv(float x) {
    const float w = -ga_log(ga_fma(-x, x, 1.0f)), m = w - 2.5f, t = __builtin_sqrtf(w) - 3.0f;
    const float middle = ga_horner(
        m, 2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f, -0.00125372503f,
        -0.00417768164f, 0.246640727f, 1.50140941f);
    const float tail = ga_horner(
        t, -0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f, -0.0076224613f,
        0.00943887047f, 1.00167406f, 2.83297682f);
    const float y = x * (w < 5.0f ? middle : tail);
    return w == GA_INFF ? x * GA_INFF : y;
}

//@ ga_erf_inv_double if ga_erf_inv
// The prelude's three polynomials, all evaluated; the logarithm of 1 - x x is corrected by the rounding error of the
// product.
GA_INLINE double ga_erf_inv(double x) {
    const double t = -x * x, left = ga_fma(-x, x, -t) / (t + 1.0);
    const double w = -(ga_log1p(t) + (t == -1.0 ? 0.0 : left)), root = __builtin_sqrt(w);
    const double middle = ga_horner(
        w - 3.125, -3.64441206401782e-21, -1.6850591381820166e-19, 1.28584807152564e-18, 1.1157877678025181e-17,
        -1.333171662854621e-16, 2.0972767875968562e-17, 6.637638134358324e-15, -4.054566272975207e-14,
        -8.151934197605472e-14, 2.6335093153082323e-12, -1.2975133253453532e-11, -5.415412054294628e-11,
        1.0512122733215323e-09, -4.112633980346984e-09, -2.9070369957882005e-08, 4.2347877827932404e-07,
        -1.3654692000834679e-06, -1.3882523362786469e-05, 0.00018673420803405714, -0.000740702534166267,
        -0.006033670871430149, 0.24015818242558962, 1.6536545626831027);
    const double tail = ga_horner(
        root - 3.25, 2.2137376921775787e-09, 9.075656193888539e-08, -2.7517406297064545e-07, 1.8239629214389228e-08,
        1.5027403968909828e-06, -4.013867526981546e-06, 2.9234449089955446e-06, 1.2475304481671779e-05,
        -4.7318229009055734e-05, 6.828485145957318e-05, 2.4031110387097894e-05, -0.0003550375203628475,
        0.0009532893797373805, -0.0016882755560235047, 0.002491442096107851, -0.003751208507569241,
        0.005370914553590064, 1.0052589676941592, 3.0838856104922208);
    const double far = ga_horner(
        root - 5.0, -2.7109920616438573e-11, -2.555641816996525e-10, 1.5076572693500548e-09, -3.789465440126737e-09,
        7.61570120807834e-09, -1.496002662714924e-08, 2.914795345090108e-08, -6.771199775845234e-08,
        2.2900482228026655e-07, -9.9298272942317e-07, 4.526062597223154e-06, -1.968177810553167e-05,
        7.599527703001776e-05, -0.00021503011930044477, -0.00013871931833623122, 1.0103004648645344,
        4.849906401408584);
    const double y = w < 16.0 ? tail : far, z = x * (w < 6.25 ? middle : y);
    return w == GA_INF ? x * GA_INF : z;
}

//@ ga_erfcx_above
// e^(a a) erfc(a) for finite a >= 0: a polynomial in r = 1 / (a + 2.5), computed in float and refined by one step. Its
// even and its odd terms are independent.
GA_INLINE double ga_erfcx_above(float a) {
    const double s = a + 2.5, r0 = 1.0f / (a + 2.5f), r = ga_fma(r0, ga_fma(-r0, s, 1.0), r0), r2 = r * r;
    const double even = ga_horner(
        r2, -696.5392924268299, -898.4592559318786, -28.621719877811984, 11.621920406419006, 3.2439645497131373,
        0.5641895869822817);
    const double odd = ga_horner(
        r2, 1339.3974040725557, 209.89921930237279, 20.48725556290311, 6.708564799541168, 1.4104741254416475);
    return r * ga_fma(odd, r, even);
}

//@ ga_erfc
// Beyond 10.2 no float is small enough.
GA_INLINE float ga_erfc(float x) {
    const float b = fabsf(x), c = b > 10.2f ? 10.2f : b;
    const double a = c, y = ga_erfcx_above(c) * ga_exp_wide(-a * a);
    return (float)(x < 0.0f ? 2.0 - y : y);
}
GA_INLINE double ga_erfc(double x) { return erfc(x); }

//@ ga_erfcx_float if ga_erfcx
GA_INLINE float ga_erfcx(float x) {
    const float b = fabsf(x);
    const double a = b > 10.2f ? 10.2f : b, y = ga_erfcx_above(b == GA_INFF ? 0.0f : b);
    const float found = (float)(x < 0.0f ? 2.0 * ga_exp_wide(a * a) - y : y);
    return x == GA_INFF ? 0.0f : found;
}

//@ ga_erfcx_in if ga_erfcx
// For a loop that is run again for all numbers if some were below zero.
template <bool NEAR> GA_INLINE float ga_erfcx_in(int& far, float x) {
    if constexpr (!NEAR) return ga_erfcx(x);
    far |= x < 0.0f;
    const float y = (float)ga_erfcx_above(fabsf(x));
    return x == GA_INFF ? 0.0f : y;
}
template <bool NEAR> GA_INLINE double ga_erfcx_in(int&, double x) { return ga_erfcx(x); }

//@ ga_bessel_i0e_float if ga_bessel_i0e
// e^-a I_0(a): a polynomial up to 8; beyond, one in 1 / a over the root of a.
GA_INLINE float ga_bessel_i0e(float x) {
    const double a = fabs((double)x), u = (a < 8.0 ? a : 8.0) * 0.25 - 1.0, b = a > 8.0 ? a : 8.0;
    const double near = ga_horner(
        u, 0.0003359461388227254, -0.0008508526976662284, 0.00046962487311860636, -0.0007596967284124182,
        0.0040626536466720365, -0.00800984960667441, 0.011661634063608236, -0.018865125988389776, 0.030297408532378764,
        -0.04331379367909357, 0.05674911084395445, -0.06946451493109221, 0.07927874418670428, -0.08497304959010592,
        0.08734321532557372, -0.08904288918698641, 0.09451563189402233, -0.11300433610864266, 0.2070019212239867);
    const double far = ga_horner(
        16.0 / b - 1.0, 3.3635802235185296e-08, 1.0910232941075882e-07, 3.0383309086686276e-07, 1.4754756356201013e-06,
        1.1141542189580863e-05, 0.000136217407834547, 0.0033605520313900634, 0.4021765094053054);
    const float y = (float)(a < 8.0 ? near : far / __builtin_sqrt(b));
    return x != x ? x : y;
}

//@ ga_bessel_i1e_float if ga_bessel_i1e
// The same for I_1, which is divided by a up to 8.
GA_INLINE float ga_bessel_i1e(float x) {
    const double a = fabs((double)x), u = (a < 8.0 ? a : 8.0) * 0.25 - 1.0, b = a > 8.0 ? a : 8.0;
    const double near = a * ga_horner(
        u, 4.598305152779168e-05, -0.00012355277798277542, 0.00010047992147952936, -0.00020317835512352177,
        0.000799466383692478, -0.0016976303713239355, 0.002969059017748294, -0.00542831465539487, 0.009598630764419986,
        -0.015613829637624494, 0.02368259371734132, -0.03366142389080357, 0.044675003635408585, -0.05528129039883324,
        0.06376737911929498, -0.06848253478920088, 0.06805760032013919, -0.06112433922221312, 0.044687709875608835);
    const double far = ga_horner(
        16.0 / b - 1.0, -3.7856024793316294e-08, -1.2318419674047784e-07, -3.5481954165334105e-07,
        -1.8250069387125121e-06, -1.5037047143805947e-05, -0.00021923738535629923, -0.009749577241315432,
        0.3893984590744713);
    const float y = (float)(a < 8.0 ? near : far / __builtin_sqrt(b));
    return x != x ? x : copysignf(y, x);
}

// ---- the gamma function ----

//@ ga_sin_of_half_turn ga_cos_of_half_turn
// sin(pi r) and cos(pi r) for |r| <= 1/2, to 13 digits; the cosine's zeros are where they are.
GA_INLINE double ga_sin_of_half_turn(double r) {
    return r * ga_horner(
        r * r, 0.0004474920849077101, -0.007364005472115722, 0.08214479467064854, -0.5992644339357286, 2.550164035906745,
        -5.167712779987959, 3.141592653589635);
}
GA_INLINE double ga_cos_of_half_turn(double r) {
    return (1.0 - 4.0 * r * r) * ga_horner(
        r * r, 2.4974834925688047e-05, -0.00047560663114590605, 0.00633268941110998, -0.05724946724222999,
        0.31950332404404197, -0.9348022005416492, 0.9999999999999922);
}

//@ ga_lgamma_above
// log |gamma(y)| from 1/2 on by Stirling's series six above.
GA_INLINE double ga_lgamma_above(double y) {
    const double w = y + 6.0, v = 1.0 / (w * w);
    const double product = y * (y + 1.0) * (y + 2.0) * (y + 3.0) * (y + 4.0) * (y + 5.0);
    const double series = ga_horner(
        v, -3617.0 / 122400, 1.0 / 156, -691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12);
    return (w - 0.5) * ga_log(w) - w + 0.91893853320467274178 + series / w - ga_log(product);
}

//@ ga_lgamma_float if ga_lgamma
// Below 1/2 by reflection.
GA_INLINE float ga_lgamma(float x) {
    const double d = x, above = ga_lgamma_above(d < 0.5 ? 1.0 - d : d);
    const double sine = fabs(ga_sin_of_half_turn(d - ga_nearest(d)));
    const double z = d < 0.5 ? ga_log(3.14159265358979323846 / sine) - above : above;
    const float found = fabsf(x) == GA_INFF ? GA_INFF : (float)z;
    return (x == 1.0f) | (x == 2.0f) ? 0.0f : found;
}

//@ ga_digamma_float if ga_digamma
// The same with derivatives: that of the logarithm of the product is a quotient of polynomials. nan at the poles.
GA_INLINE float ga_digamma(float x) {
    const double d = x, y = d < 0.5 ? 1.0 - d : d, w = y + 6.0, v = 1.0 / (w * w);
    double product = y, slope = 1.0;
    slope = slope * (y + 1.0) + product, product *= y + 1.0;
    slope = slope * (y + 2.0) + product, product *= y + 2.0;
    slope = slope * (y + 3.0) + product, product *= y + 3.0;
    slope = slope * (y + 4.0) + product, product *= y + 4.0;
    slope = slope * (y + 5.0) + product, product *= y + 5.0;
    const double series = ga_horner(
        v, 1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12);
    const double above = ga_log(w) - 0.5 / w - v * series - slope / product, r = d - ga_nearest(d);
    const double turned = 3.14159265358979323846 * ga_cos_of_half_turn(r) / ga_sin_of_half_turn(r);
    const double z = d < 0.5 ? above - turned : above;
    const bool pole = (x <= 0.0f) & (r == 0.0);
    return x == GA_INFF ? x : (pole | (x == -GA_INFF)) ? GA_NANF : (float)z;
}
