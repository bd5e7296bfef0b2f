// Elementary functions for a CPU: without branches and calls, so that loops of them are vectorised.
//
// They take the place of the prelude's, which call the C library one element at a time. Polynomials are near-minimax
// (Remez, in 60 digits). Greatest errors in units of the last place, measured against long double and double:
//   float   exp and exp2 1.0, expm1 1.5, log 0.9, log1p 1.4, cosh 2.0, sinh 2.2, tanh and logistic 2.5, erf 1.4, sin and cos
//           1.6, tan and cbrt 0.6, asin 2.3, acos 1.1, atan 1.5, pow 0.52, asinh 2.0, acosh 2.2, atanh 2.1
//   double  exp 1.0, exp2 1.1, expm1 2.0, log 0.9, log1p 1.5, tanh 2.6, sinh 2.5, cosh 2.0, erf 3.8, inverse hyperbolic
//           functions 2.5

//@ ga_horner
// A polynomial in x, from the coefficient of its highest power on. Its terms are arguments: a loop over them inside a loop
// over elements would not be vectorised.
template <class T> GA_INLINE T ga_horner(T, T value) { return value; }
template <class T, class... C> GA_INLINE T ga_horner(T x, T value, T next, C... others) {
    return ga_horner(x, ga_fma(value, x, next), others...);
}

//@ ga_nearest
// x rounded to an integer.
GA_INLINE float ga_nearest(float x) { return __builtin_rintf(x); }
GA_INLINE double ga_nearest(double x) { return __builtin_rint(x); }

//@ ga_whole
// A double that is an integer of less than 2^51, as an integer: conversions of doubles have no instruction before AVX-512.
GA_INLINE long long ga_whole(double x) { return __double_as_longlong(x + 6755399441055744.0) - 0x4338000000000000ll; }

//@ ga_power_of_two ga_scaled
// 2^k as a number, for normal ones; and x 2^k in two factors, for results that are subnormal or overflow.
GA_INLINE float ga_power_of_two(int k) { return __uint_as_float((unsigned)(k + 127) << 23); }
GA_INLINE double ga_power_of_two(long long k) { return __longlong_as_double((k + 1023) << 52); }
template <class T, class K> GA_INLINE T ga_scaled(T x, K k) {
    const K half = k >> 1;
    return x * ga_power_of_two(half) * ga_power_of_two(k - half);
}

// ---- exponentials ----

//@ ga_within
// x between two bounds; nan stays. Compilers make three choices of these two, so floats have one and `ga_turns_most`.
template <class T> GA_INLINE T ga_within(T x, T least, T most) {
    const T y = x < least ? least : x;
    return y > most ? most : y;
}

//@ ga_bounded
// x where |x| is at most a bound, else the bound with the sign of x; nan stays. One comparison and a choice.
GA_INLINE double ga_bounded(double x, double most) {
    const double a = fabs(x);
    return copysign(a > most ? most : a, x);
}

//@ ga_exp_rest
// x - n log 2 for an integer n: log 2 in two words, of which the first is short, so that its product with n is exact.
GA_INLINE float ga_exp_rest(float x, float n) {
    return ga_fma(n, 2.12194440e-4f, ga_fma(n, -0.693359375f, x));
}
GA_INLINE double ga_exp_rest(double x, double n) {
    return ga_fma(n, -1.9082149292705877e-10, ga_fma(n, -0.6931471803691238, x));
}

//@ ga_exp_series
// (exp(f) - 1 - f) / f^2 for |f| <= log(2) / 2. In float the small terms are added in pairs, which are independent.
GA_INLINE float ga_exp_series(float f) {
    const float high = ga_fma(f, 0.00019919911574106663f, 0.0013947213742f);
    const float middle = ga_fma(f, 0.0083332620561f, 0.041666254401f);
    return ga_horner(f, ga_fma(f * f, high, middle), 0.16666667163f, 0.5f);
}
GA_INLINE double ga_exp_series(double f) {
    return ga_horner(
        f, 2.092699659761675e-09, 2.511234865847425e-08, 2.7557233179349444e-07, 2.7557233929031195e-06,
        2.480158737396546e-05, 0.00019841269897362176, 0.0013888888888858317, 0.00833333333331662, 0.04166666666666673,
        0.16666666666666685, 0.5);
}

//@ ga_turns ga_turns_float ga_turns_exponent
// The integer n nearest to x y, of less than 2^22, as the last bits of a float, plus BIAS: with `ga_turns_float` n as a
// number, with `ga_turns_exponent` the bits of 2^n if BIAS is 127.
template <int BIAS = 0> GA_INLINE float ga_turns(float x, float y) { return ga_fma(x, y, 12582912.0f + BIAS); }
template <int BIAS = 0> GA_INLINE float ga_turns_float(float turns) { return turns - (12582912.0f + BIAS); }
GA_INLINE unsigned ga_turns_exponent(float turns) { return __float_as_uint(turns) << 23; }

//@ ga_turns_most
// Turns of at most MOST, BIAS included, as integers, of which the smaller is one instruction. With fewer turns than there
// are, the rest is a large number, whose exponential is as infinite as it should be.
template <int MOST> GA_INLINE float ga_turns_most(float turns) {
    const int n = __float_as_int(turns), most = 0x4b400000 + MOST;
    return __int_as_float(n < most ? n : most);
}

//@ ga_half_turns
// The bits of 2^floor(n / 2), of turns with a BIAS of 254: without them, those of `ga_turns_exponent` are of 2^ceil(n / 2).
GA_INLINE unsigned ga_half_turns(float turns) { return __float_as_uint(turns) >> 1 << 23; }

//@ ga_turns_scaled
// y 2^n in two factors, as in `ga_scaled`, of turns with a BIAS of 254.
GA_INLINE float ga_turns_scaled(float y, float turns) {
    const unsigned half = ga_half_turns(turns);
    return y * __uint_as_float(half) * __uint_as_float(ga_turns_exponent(turns) - half);
}

//@ ga_exp
GA_INLINE float ga_exp(float x) {
    const float t = x < -104.0f ? -104.0f : x, turns = ga_turns_most<254 + 150>(ga_turns<254>(t, 1.44269504f));
    const float f = ga_exp_rest(t, ga_turns_float<254>(turns));
    return ga_turns_scaled(1.0f + ga_fma(f * f, ga_exp_series(f), f), turns);
}
GA_INLINE double ga_exp(double x) {
    const double t = ga_bounded(x, 746.0);
    const double n = ga_nearest(t * 1.4426950408889634), f = ga_exp_rest(t, n);
    return ga_scaled(1.0 + ga_fma(f * f, ga_exp_series(f), f), ga_whole(n));
}

//@ ga_exp2
GA_INLINE float ga_exp2(float x) {
    const float t = x < -151.0f ? -151.0f : x, turns = ga_turns_most<254 + 150>(t + (12582912.0f + 254));
    const float f = (t - ga_turns_float<254>(turns)) * 0.693147182f;
    return ga_turns_scaled(1.0f + ga_fma(f * f, ga_exp_series(f), f), turns);
}
GA_INLINE double ga_exp2(double x) {
    const double t = ga_bounded(x, 1076.0), n = ga_nearest(t), f = (t - n) * 0.6931471805599453;
    return ga_scaled(1.0 + ga_fma(f * f, ga_exp_series(f), f), ga_whole(n));
}

//@ ga_exp_normal
// exp(t) for -87 <= t <= 88, whose results are normal numbers.
GA_INLINE float ga_exp_normal(float t) {
    const float turns = ga_turns<127>(t, 1.44269504f), f = ga_exp_rest(t, ga_turns_float<127>(turns));
    const float y = 1.0f + ga_fma(f * f, ga_exp_series(f), f);
    return y * __uint_as_float(ga_turns_exponent(turns));
}

//@ ga_expm1_part GA_HALF GA_QUARTER
// exp(t) - 1 times a power of two, PART as its exponent, where the product of 2^n with it is normal: 2^128 is no float.
template <int PART> GA_INLINE float ga_expm1_part(float t) {
    const float turns = ga_turns_most<254>(ga_turns<PART>(t, 1.44269504f));
    const float f = ga_exp_rest(t, ga_turns_float<PART>(turns));
    const float s = __uint_as_float(ga_turns_exponent(turns));
    return ga_fma(ga_fma(f * f, ga_exp_series(f), f), s, s - __uint_as_float((unsigned)PART << 23));
}
#define GA_HALF 126
#define GA_QUARTER 125

//@ ga_expm1_of
// exp(t) - 1, or a quarter of it, for -40 <= t <= 710.6.
template <long long QUARTERS> GA_INLINE double ga_expm1_of(double t) {
    const double n = ga_nearest(t * 1.4426950408889634), f = ga_exp_rest(t, n);
    const double s = ga_power_of_two(ga_whole(n) - (QUARTERS == 1 ? 2 : 0));
    return ga_fma(ga_fma(f * f, ga_exp_series(f), f), s, s - 0.25 * QUARTERS);
}

//@ ga_expm1
GA_INLINE float ga_expm1(float x) {
    const float y = 2.0f * ga_expm1_part<GA_HALF>(x < -20.0f ? -20.0f : x);
    return x == 0.0f ? x : y;
}
GA_INLINE double ga_expm1(double x) {
    const double y = 4.0 * ga_expm1_of<1>(ga_within(x, -40.0, 710.0));
    return fabs(x) < 1e-290 ? x : y;
}

//@ ga_exp_wide
// exp(t) for |t| <= 700, in double, to 30 bits.
GA_INLINE double ga_exp_wide(double t) {
    const double turns = ga_fma(t, 1.4426950408889634, 6755399441055744.0);
    const double f = ga_fma(turns - 6755399441055744.0, -0.6931471805599453, t);
    const double even = ga_horner(f * f, 0.0013946189717182979, 0.04166626826385627, 0.5000000078434021, 1.0);
    const double odd = ga_horner(f * f, 0.00019917972586305067, 0.00833326516389351, 0.16666666856881016, 1.0);
    const double e = ga_fma(odd, f, even);
    // An integer of less than 2^51 in the last bits: 2^n is a normal double.
    return e * __longlong_as_double((__double_as_longlong(turns) << 52) + 0x3ff0000000000000ll);
}

//@ ga_logistic
// 1 / (1 + 2^n y), with both sides multiplied by 2^-n/2, which neither overflows nor underflows early.
GA_INLINE float ga_logistic(float x) {
    const float t = x > 104.0f ? 104.0f : x, turns = ga_turns_most<254 + 150>(ga_turns<254>(t, -1.44269504f));
    const float f = ga_exp_rest(-t, ga_turns_float<254>(turns));
    const unsigned half = ga_half_turns(turns);
    const float y = 1.0f + ga_fma(f * f, ga_exp_series(f), f), part = __uint_as_float((254u << 23) - half);
    return part / ga_fma(y, __uint_as_float(ga_turns_exponent(turns) - half), part);
}
// From exp(-|x|), which cannot overflow.
GA_INLINE double ga_logistic(double x) {
    const double e = ga_exp(x < 0.0 ? x : -x);
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

//@ ga_tanh
// With s = 2^n and r = tanh(h) for x = n log(2) / 2 + h: (s - 1 + (s + 1) r) / (s + 1 + (s - 1) r).
GA_INLINE float ga_tanh(float x) {
    const float size = fabsf(x), t = size > 10.0f ? 10.0f : size;
    const float turns = ga_turns<127>(t, 2.88539008f), n = ga_turns_float<127>(turns);
    // n is small and log(2) / 2 as a float is nearer than most, so that one word is enough.
    const float h = ga_fma(n, -0.34657359f, t), g = h * h;
    const float r = ga_fma(h * g, ga_horner(g, -0.052710857f, 0.13331127f, -0.33333322f), h);
    const float s = __uint_as_float(ga_turns_exponent(turns)), a = s - 1.0f, b = s + 1.0f;
    return copysignf(ga_fma(b, r, a) / ga_fma(a, r, b), x);
}
GA_INLINE double ga_tanh(double x) {
    const double a = fabs(x), t = ga_expm1_of<4>(a > 22.0 ? 44.0 : a + a);
    return x != x ? x : copysign(t / (t + 2.0), x);
}

//@ ga_sinh
// (q + q / (4 q + 1)) 2 for q = (exp(|x|) - 1) / 4, which is finite where the result is.
GA_INLINE float ga_sinh(float x) {
    const float a = fabsf(x), q = ga_expm1_part<GA_QUARTER>(a > 89.5f ? 89.5f : a);
    const float y = 2.0f * q + 2.0f * (q / ga_fma(4.0f, q, 1.0f));
    return copysignf(a < 0.000244140625f ? a : y, x);
}
GA_INLINE double ga_sinh(double x) {
    const double a = fabs(x), q = ga_expm1_of<1>(a > 710.6 ? 710.6 : a);
    const double y = 2.0 * q + 2.0 * (q / ga_fma(4.0, q, 1.0));
    return copysign(a < 1e-8 ? a : y, x);
}

//@ ga_cosh
// 2 e + 1 / (8 e) for e = exp(|x|) / 4.
GA_INLINE float ga_cosh(float x) {
    const float a = fabsf(x), t = a > 89.5f ? 89.5f : a;
    const float turns = ga_turns<GA_QUARTER>(t, 1.44269504f), f = ga_exp_rest(t, ga_turns_float<GA_QUARTER>(turns));
    const float y = 1.0f + ga_fma(f * f, ga_exp_series(f), f);
    const float e = y * __uint_as_float(ga_turns_exponent(turns));
    return 2.0f * e + 0.125f / e;
}
GA_INLINE double ga_cosh(double x) {
    const double a = fabs(x), t = a > 710.6 ? 710.6 : a;
    const double n = ga_nearest(t * 1.4426950408889634), f = ga_exp_rest(t, n);
    const double e = (1.0 + ga_fma(f * f, ga_exp_series(f), f)) * ga_power_of_two(ga_whole(n) - 2);
    return 2.0 * e + 0.125 / e;
}

// ---- logarithms ----

//@ ga_log_of ga_log_steps
// e log 2 + log(1 + f) for sqrt(1/2) - 1 <= f <= sqrt(2) - 1.
GA_INLINE float ga_log_of(float f, float e) {
    const float q = ga_horner(
        f, 0.06916097551584244f, -0.11788929253f, 0.11872129887f, -0.12384458631f, 0.1421880275f, -0.16669248044f,
        0.20002217591f, -0.24999986589f, 0.33333310485f);
    const float f2 = f * f, r = ga_fma(f2 * f, q, e * -1.90465421e-9f);
    return ga_fma(e, 0.693147182f, f + ga_fma(f2, -0.5f, r));
}
// log(1 + f) = f - (f^2 / 2 - s (f^2 / 2 + R)) with s = f / (2 + f).
GA_INLINE double ga_log_of(double f, double e) {
    const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    const double r = z * ga_horner(
        z, 0.1310192856246222, 0.13267293038414138, 0.1538629566461297, 0.1818179459697809, 0.22222222401628233,
        0.285714285707591, 0.4000000000000095, 0.6666666666666666);
    return ga_fma(e, 0.6931471803691238, f - (half - (s * (half + r) + e * 1.9082149292705877e-10)));
}
// A small integer as a double.
GA_INLINE double ga_log_steps(long long k) { return __longlong_as_double(k + 0x4338000000000000ll) - 6755399441055744.0; }
// The logarithm of a positive normal number.
GA_INLINE double ga_log_of(double x) {
    const long long bits = __double_as_longlong(x), k = (bits - 0x3fe6a09e667f3bcdll) >> 52;
    return ga_log_of(__longlong_as_double(bits - (k << 52)) - 1.0, ga_log_steps(k));
}

//@ ga_log
GA_INLINE float ga_log(float x) {
    const bool small = x < 1.17549435e-38f;  // subnormal, zero, or negative
    const int bits = __float_as_int(small ? x * 8388608.0f : x), k = (bits - 0x3f3504f3) >> 23;
    const float f = __int_as_float((int)((unsigned)bits - ((unsigned)k << 23))) - 1.0f;
    float y = ga_log_of(f, (float)k - (small ? 23.0f : 0.0f));
    y = x == 0.0f ? -GA_INFF : y;
    y = x < 0.0f ? GA_NANF : y;
    return x < GA_INFF ? y : x;
}
GA_INLINE double ga_log(double x) {
    const bool small = x < 2.2250738585072014e-308;
    double y = ga_log_of(small ? x * 18014398509481984.0 : x) - (small ? 37.42994775023705 : 0.0);
    y = x == 0.0 ? -GA_INF : y;
    y = x < 0.0 ? GA_NAN : y;
    return x < GA_INF ? y : x;
}

//@ ga_log1p
// 1 + x = 2^k (1 + f), with f from x in one rounding.
GA_INLINE float ga_log1p(float x) {
    const bool large = x > 1e10f;
    const float w = large ? x * 2.3283064365386963e-10f : x, u = large ? w : 1.0f + w;
    const int k = (__float_as_int(u) - 0x3f3504f3) >> 23;
    const float f = ga_fma(w, ga_power_of_two(-k), (large ? 0.0f : ga_power_of_two(-k)) - 1.0f);
    float y = ga_log_of(f, (float)k + (large ? 32.0f : 0.0f));
    y = x == -1.0f ? -GA_INFF : y;
    y = x < -1.0f ? GA_NANF : y;
    y = x == 0.0f ? x : y;
    return x < GA_INFF ? y : x;
}
GA_INLINE double ga_log1p(double x) {
    const bool large = x > 1e20;
    const double w = large ? x * 5.421010862427522e-20 : x, u = large ? w : 1.0 + w;
    const long long k = (__double_as_longlong(u) - 0x3fe6a09e667f3bcdll) >> 52;
    const double f = ga_fma(w, ga_power_of_two(-k), (large ? 0.0 : ga_power_of_two(-k)) - 1.0);
    double y = ga_log_of(f, ga_log_steps(k) + (large ? 64.0 : 0.0));
    y = x == -1.0 ? -GA_INF : y;
    y = x < -1.0 ? GA_NAN : y;
    y = x == 0.0 ? x : y;
    return x < GA_INF ? y : x;
}

// ---- the error function ----

//@ ga_erf
// A polynomial in x for |x| < 1; beyond, 1 - p^4 with a polynomial p of |x|. A double: 1 - exp(-q).
GA_INLINE float ga_erf(float x) {
    const float a = fabsf(x), z = x * x, c = a > 4.0f ? 4.0f : a;
    const float p = ga_horner(
        z, 7.889132393756881e-05f, -0.00080208451254f, 0.0051895357f, -0.026854444295f, 0.1128360033f, -0.37612625957f,
        0.1283791670955126f);
    const float q = ga_horner(
        c, -2.25601689e-05f, 0.000182784119f, 0.000741835102f, -0.0126165878f, 0.0434935689f, -0.0170086715f,
        -0.093770586f, -0.293360412f, 1.00213015f);
    const float near = ga_fma(x, p, x), q2 = q * q, far = copysignf(ga_fma(-q2, q2, 1.0f), x);
    return a < 1.0f ? near : far;
}
GA_INLINE double ga_erf(double x) {
    const double a = fabs(x), z = x * x, u = ((a > 6.0 ? 6.0 : a) - 3.5) * 0.4;
    const double p = ga_horner(
        z, -4.233124650461926e-12, 8.710461937312833e-11, -1.21649675634089e-09, 1.4792469453107219e-08,
        -1.636464952888257e-07, 1.6462045978746048e-06, -1.4925647594397373e-05, 0.00012055332903808763,
        -0.0008548327021955926, 0.005223977625423609, -0.026866170645129868, 0.1128379167095512, -0.37612638903183754,
        1.1283791670955126);
    const double q = ga_horner(
        u, -1.512027697748838e-05, -0.00010444191850347937, -0.0003194822573971645, -0.000578467530404294,
        -0.0006464717206221569, -0.0004461695052300324, -0.00012429697292503492, 8.269097075063589e-05,
        -6.998738737354429e-06, 0.00034458305092420965, -0.0008887239795616185, 0.002371601163078043,
        -0.005954964579722346, 0.014384335874131703, -0.03412840777101854, 0.08165091572638669, 6.042206592842272,
        18.165248970928154, 14.112437402147226);
    const double y = a < 1.0 ? x * p : copysign(1.0 - ga_exp(-q), x);
    return x != x ? x : y;
}

// ---- circular functions ----

//@ ga_by_size ga_two_over_pi
// 24 bits of 2 / pi as an integer, the I-th from those on that count for a number of size a. A choice and no table: CPUs
// read tables one element at a time.
GA_INLINE double ga_by_size(double a, double v0, double v1, double v2, double v3, double v4) {
    double v = a < 0x1p49 ? v0 : v1;
    v = a < 0x1p73 ? v : v2;
    v = a < 0x1p97 ? v : v3;
    return a < 0x1p121 ? v : v4;
}
template <int I> GA_INLINE double ga_two_over_pi(double a) {
    constexpr double bits[8] = {10680707.0, 7228996.0, 1387004.0, 2578385.0, 16069853.0, 12639074.0, 9804092.0, 4427841.0};
    return ga_by_size(a, bits[I], bits[I + 1], bits[I + 2], bits[I + 3], bits[I + 4]);
}

//@ ga_rest_of_four
// x without the nearest multiple of 4: exact.
GA_INLINE double ga_rest_of_four(double x) { return x - 4.0 * ga_nearest(x * 0.25); }

//@ ga_quarters
// x 2 / pi as an integer and a rest, for any finite x.
GA_INLINE double ga_quarters(float x, int& quarter) {
    // x 2 / pi to multiples of 4: products of the 24 bits of x with 24 bits of 2 / pi are exact, and those that are such
    // multiples are left out.
    const double d = x, size = fabs(d), w = d * ga_by_size(size, 0x1p-24, 0x1p-48, 0x1p-72, 0x1p-96, 0x1p-120);
    const double a = ga_rest_of_four(w * ga_two_over_pi<0>(size)), b = ga_rest_of_four(w * 0x1p-24 * ga_two_over_pi<1>(size));
    const double c = w * 0x1p-48 * ga_two_over_pi<2>(size) + w * 0x1p-72 * ga_two_over_pi<3>(size);
    const double n = ga_nearest(a + b + c);
    quarter = (int)n;
    return ((a - n) + b) + c;
}

//@ ga_circular
// sin(x + turns pi / 2), for any finite x.
GA_INLINE float ga_circular(float x, int turns) {
    int quarter;
    const float f = (float)(ga_quarters(x, quarter) * 1.5707963267948966), z = f * f;
    quarter += turns;
    const float s = ga_fma(
        z * f, ga_horner(z, 2.7176034653e-06f, -0.00019839261949f, 0.0083333291113f, -0.16666667163f), f);
    const float q = ga_fma(
        z * z, ga_horner(z, 2.4471009965e-05f, -0.0013887687818f, 0.041666653f), ga_fma(z, -0.5f, 1.0f));
    const float y = quarter & 1 ? q : s;
    return x - x == 0.0f ? (quarter & 2 ? -y : y) : GA_NANF;
}

//@ ga_sin
GA_INLINE float ga_sin(float x) { return x == 0.0f ? x : ga_circular(x, 0); }  // -0 stays
GA_INLINE double ga_sin(double x) { return sin(x); }

//@ ga_circular_near GA_NEAR
// sin(x + turns pi / 2) where |x| is below GA_NEAR: pi / 2 in three words.
#ifdef __FMA__
#define GA_NEAR 8192.0f
#else
#define GA_NEAR 0.75f
#endif
GA_INLINE float ga_circular_near(float x, int turns) {
    const float m = ga_turns(x, 0.636619772f), n = ga_turns_float(m);
    const float f = ga_fma(n, 1.7151245e-15f, ga_fma(n, 4.37113900e-8f, ga_fma(n, -1.57079637f, x))), z = f * f;
    const int quarter = __float_as_int(m) + turns;
    const float s = ga_fma(
        z * f, ga_horner(z, 2.7176034653e-06f, -0.00019839261949f, 0.0083333291113f, -0.16666667163f), f);
    const float q = ga_fma(
        z * z, ga_horner(z, 2.4471009965e-05f, -0.0013887687818f, 0.041666653f), ga_fma(z, -0.5f, 1.0f));
    const float y = quarter & 1 ? q : s;
    return quarter & 2 ? -y : y;
}

//@ ga_sin_in
// For a loop that is run again for all numbers if some were far.
template <bool NEAR> GA_INLINE float ga_sin_in(int& far, float x) {
    if constexpr (!NEAR) return ga_sin(x);
    far |= !(fabsf(x) < GA_NEAR);
    return x == 0.0f ? x : ga_circular_near(x, 0);
}
template <bool NEAR> GA_INLINE double ga_sin_in(int&, double x) { return ga_sin(x); }

//@ ga_cos
GA_INLINE float ga_cos(float x) { return ga_circular(x, 1); }
GA_INLINE double ga_cos(double x) { return cos(x); }

//@ ga_cos_in
template <bool NEAR> GA_INLINE float ga_cos_in(int& far, float x) {
    if constexpr (!NEAR) return ga_cos(x);
    far |= !(fabsf(x) < GA_NEAR);
    return ga_circular_near(x, 1);
}
template <bool NEAR> GA_INLINE double ga_cos_in(int&, double x) { return ga_cos(x); }

//@ ga_tan_of
// The tangent of r quarters of pi more, for |r| <= pi / 4: in double, and rounded once.
GA_INLINE float ga_tan_of(double r, int quarter) {
    const double z = r * r, y = ga_fma(r * z, ga_horner(
        z, 0.0043768291519618213, 8.8431011685976214e-05, 0.010836669851302328, 0.021281862776100862,
        0.054059978161167481, 0.13332662803726917, 0.33333349770211949), r);
    const bool odd = quarter & 1;
    return (float)((odd ? -1.0 : y) / (odd ? y : 1.0));
}

//@ ga_tan
GA_INLINE float ga_tan(float x) {
    int quarter;
    const double r = ga_quarters(x, quarter) * 1.5707963267948966;
    const float y = ga_tan_of(r, quarter);
    return x - x == 0.0f ? (x == 0.0f ? x : y) : GA_NANF;
}
GA_INLINE double ga_tan(double x) { return tan(x); }

//@ ga_tan_in
template <bool NEAR> GA_INLINE float ga_tan_in(int& far, float x) {
    if constexpr (!NEAR) return ga_tan(x);
    far |= !(fabsf(x) < GA_NEAR);
    const double d = x, turns = ga_fma(d, 0.6366197723675814, 6755399441055744.0), n = turns - 6755399441055744.0;
    const double r = ga_fma(n, -6.123233995736766e-17, ga_fma(n, -1.5707963267948966, d));
    const float y = ga_tan_of(r, (int)__double_as_longlong(turns));
    return x == 0.0f ? x : y;
}
template <bool NEAR> GA_INLINE double ga_tan_in(int&, double x) { return ga_tan(x); }

// ---- their inverses ----

//@ ga_atan_part
// atan(q) for |q| <= 1.
GA_INLINE float ga_atan_part(float q) {
    const float z = q * q;
    return ga_fma(q * z, ga_horner(
        z, -0.00179362029f, 0.01091459896f, -0.03117783215f, 0.05795757843f, -0.08403449336f, 0.1095218539f,
        -0.1426424159f, 0.1999854827f, -0.3333329909f), q);
}

//@ ga_atan
GA_INLINE float ga_atan(float x) {
    const float a = fabsf(x);
    const bool steep = a > 1.0f;
    const float y = ga_atan_part((steep ? -1.0f : a) / (steep ? a : 1.0f));
    return copysignf(steep ? 1.57079637f + (y - 4.37113883e-8f) : y, x);
}
GA_INLINE double ga_atan(double x) { return atan(x); }

//@ ga_atan2
GA_INLINE float ga_atan2(float y, float x) {
    const float a = fabsf(y), b = fabsf(x);
    const bool steep = a > b;
    const float top = steep ? b : a, low = steep ? a : b, ratio = top / low;
    // 0 / 0 is flat (nan / 0 is not), and infinity / infinity a diagonal.
    const float flat = low == 0.0f ? top : ratio, part = ga_atan_part((top == GA_INFF) & (low == GA_INFF) ? 1.0f : flat);
    const float right = steep ? 1.57079637f - (part + 4.37113883e-8f) : part;
    return copysignf(__float_as_int(x) < 0 ? 3.14159274f - (right + 8.74227766e-8f) : right, y);
}
GA_INLINE double ga_atan2(double y, double x) { return atan2(y, x); }

//@ ga_asin_part
// asin(s) for s >= 0 with s^2 = z <= 1/4.
GA_INLINE float ga_asin_part(float s, float z) {
    return ga_fma(s * z, ga_horner(
        z, 0.0375164688f, 0.01443859228f, 0.03180772142f, 0.04451695489f, 0.07500504185f, 0.1666665999f), s);
}

//@ ga_asin
// Beyond 1/2 from pi / 2 on: asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2)).
GA_INLINE float ga_asin(float x) {
    const float a = fabsf(x);
    const bool steep = a > 0.5f;
    const float z = steep ? 0.5f - 0.5f * a : a * a, root = __builtin_sqrtf(z), p = ga_asin_part(steep ? root : a, z);
    return copysignf(steep ? 1.57079637f - (2.0f * p + 4.37113883e-8f) : p, x);
}
GA_INLINE double ga_asin(double x) { return asin(x); }

//@ ga_acos
GA_INLINE float ga_acos(float x) {
    const float a = fabsf(x);
    const bool steep = a > 0.5f;
    const float z = steep ? 0.5f - 0.5f * a : a * a, root = __builtin_sqrtf(z), p = ga_asin_part(steep ? root : a, z);
    const float near = 1.57079637f - (copysignf(p, x) + 4.37113883e-8f), twice = 2.0f * p;
    const float end = x < 0.0f ? 3.14159274f - (twice + 8.74227766e-8f) : twice;
    return steep ? end : near;
}
GA_INLINE double ga_acos(double x) { return acos(x); }

// ---- remainders ----

//@ ga_fmod_in
// From a quotient in double, which may be an integer too large or too small; the remainder is exact. For a loop that is
// repeated for all numbers if some quotient is very large, or nan.
template <bool NEAR> GA_INLINE float ga_fmod_in(int& far, float a, float b) {
#ifdef __FMA__
    if constexpr (!NEAR) return ga_fmod(a, b);
    const double x = fabsf(a), y = fabsf(b), n = __builtin_trunc(x / y), r = ga_fma(-n, y, x);
    const double s = r < 0.0 ? r + y : r;
    far |= !(n < 4503599627370496.0) | !(y < GA_INF);
    return copysignf((float)(s >= y ? s - y : s), a);
#else
    return ga_fmod(a, b);
#endif
}
template <bool NEAR> GA_INLINE double ga_fmod_in(int&, double a, double b) { return ga_fmod(a, b); }

// ---- powers ----

//@ ga_cbrt
// A third of the exponent, twice made better in double (Halley), and rounded once.
GA_INLINE float ga_cbrt(float x) {
    const float a = fabsf(x);
    const bool small = a < 1.17549435e-38f;  // subnormal
    const double d = small ? a * 16777216.0f : a, t0 = __uint_as_float(__float_as_uint((float)d) / 3 + 709958130u);
    const double r0 = t0 * t0 * t0, t1 = t0 * (d + d + r0) / (d + r0 + r0);
    const double r1 = t1 * t1 * t1, t2 = t1 * (d + d + r1) / (d + r1 + r1);
    const float y = (float)(t2 * (small ? 0.00390625 : 1.0));
    return (a > 0.0f) & (a < GA_INFF) ? copysignf(y, x) : x;
}
GA_INLINE double ga_cbrt(double x) { return cbrt(x); }

//@ ga_pow
// exp(y log |x|) in double; then the special values of C99.
GA_INLINE float ga_pow(float x, float y) {
    const float a = fabsf(x), b = fabsf(y);
    const double t = (double)y * ga_log_of(a < GA_INFF && a > 0.0f ? (double)a : 1.0);
    const bool whole = ga_nearest(y) == y, odd = whole & (b < 16777216.0f) & (ga_nearest(y * 0.5f) != y * 0.5f);
    float r = (float)ga_exp_wide(ga_bounded(t, 120.0));
    r = a == 0.0f ? (y < 0.0f ? GA_INFF : 0.0f) : r;
    r = a == GA_INFF ? (y < 0.0f ? 0.0f : GA_INFF) : r;
    r = b == GA_INFF ? ((a > 1.0f) == (y > 0.0f) ? GA_INFF : 0.0f) : r;
    r = (b == GA_INFF) & (a == 1.0f) ? 1.0f : r;
    r = (x < 0.0f) & !whole & (a != GA_INFF) ? GA_NANF : r;
    r = (__float_as_int(x) < 0) & odd ? -r : r;
    r = (x != x) | (y != y) ? GA_NANF : r;
    return (y == 0.0f) | (x == 1.0f) ? 1.0f : r;
}
GA_INLINE double ga_pow(double x, double y) { return pow(x, y); }
