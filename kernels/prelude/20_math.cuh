// Elementary functions for float and double. CUDA's own are within 1 or 2 units in the last place. Ours for float are as
// exact in fewer instructions: no branch that threads have to meet after, and chosen results where CUDA's choose
// coefficients. Contraction is off, so they say fmaf where they mean it.

//@ GA_BOTH
#define GA_BOTH(name, function)                              \
    GA_INLINE float name(float x) { return function##f(x); } \
    GA_INLINE double name(double x) { return function(x); }

//@ GA_LONG GA_LONG_CALLED
// Long functions are inlined; in a source that uses one of them often, GA_LONG_CALLED takes the place of GA_LONG
// for that one (compiler/text/prelude.py): compiling copies of it would take longer than calling it.
#define GA_LONG(name, function) GA_BOTH(name, function)
#define GA_LONG_CALLED(name, function)                        \
    GA_OUTLINE float name(float x) { return function##f(x); } \
    GA_OUTLINE double name(double x) { return function(x); }

//@ GA_LONG_DOUBLE GA_LONG_CALLED_DOUBLE
// The same for double alone.
#define GA_LONG_DOUBLE(name, function) GA_INLINE double name(double x) { return function(x); }
#define GA_LONG_CALLED_DOUBLE(name, function) GA_OUTLINE double name(double x) { return function(x); }

//@ ga_fma
// a * b + c, in one rounding.
GA_INLINE float ga_fma(float a, float b, float c) { return fmaf(a, b, c); }
GA_INLINE double ga_fma(double a, double b, double c) { return fma(a, b, c); }

//@ ga_horner
// A polynomial by Horner's scheme, coefficients from the highest power down.
template <class... C> GA_INLINE float ga_horner(float x, float first, C... rest) {
    float out = first;
    ((out = fmaf(out, x, rest)), ...);
    return out;
}

//@ GA_IN_ONE ga_near_exp2 ga_near_log2 ga_near_sqrt ga_near_reciprocal
// What a GPU computes in one instruction, to about 22 bits; numbers below 2^-126 count as 0.
#ifndef GA_HOST
#define GA_IN_ONE(name, instruction, on_host)                          \
    GA_INLINE float name(float x) {                                    \
        float y;                                                       \
        asm(instruction ".approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); \
        return y;                                                      \
    }
#else
#define GA_IN_ONE(name, instruction, on_host) \
    GA_INLINE float name(float x) { return on_host; }
#endif
GA_IN_ONE(ga_near_exp2, "ex2", exp2f(x))
GA_IN_ONE(ga_near_log2, "lg2", log2f(x))
GA_IN_ONE(ga_near_sqrt, "sqrt", sqrtf(x))
GA_IN_ONE(ga_near_reciprocal, "rcp", 1.0f / x)

//@ ga_exp
GA_BOTH(ga_exp, exp)

//@ ga_exp2
GA_BOTH(ga_exp2, exp2)

//@ ga_coarse_exp2 ga_coarse_exp
// A GPU's own instruction: 2 units in the last place of the power, and what rounding x * log2(e) leaves.
GA_INLINE float ga_coarse_exp2(float x) {
#ifndef GA_HOST
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#else
    return exp2f(x);
#endif
}
GA_INLINE float ga_coarse_exp(float x) { return ga_coarse_exp2(x * 1.4426950408889634f); }

//@ ga_expm1
GA_LONG(ga_expm1, expm1)

//@ ga_log
GA_BOTH(ga_log, log)

//@ ga_below
// a < b ? x : y. What the compiler sees to be chosen it may put into branches.
GA_INLINE float ga_below(float a, float b, float x, float y) {
#ifndef GA_HOST
    asm("{ .reg .pred p; setp.lt.f32 p, %1, %2; selp.f32 %0, %3, %0, p; }" : "+f"(y) : "f"(a), "f"(b), "f"(x));
    return y;
#else
    return a < b ? x : y;
#endif
}

//@ ga_log1p
GA_LONG_DOUBLE(ga_log1p, log1p)
// 1 + x is 2^k (1 + f), and the logarithm of 1 + f, for f from -1/4 to 1/2, a polynomial.
GA_INLINE float ga_log1p(float x) {
    const float sum = 1.0f + x;
    const int k = (__float_as_int(sum) - 0x3f400000) & (int)0xff800000;  // in the place of exponents
    const float f = fmaf(0.25f, __int_as_float(0x40800000 - k), -1.0f) + __int_as_float(__float_as_int(x) - k);
    const float rest = ga_horner(
        f, -0.0449090898f, 0.104482748f, -0.13162221f, 0.144820675f, -0.166477695f, 0.199906066f, -0.250000536f,
        0.333334535f, -0.5f);
    const float out = fmaf((float)k, 8.26295832e-08f, fmaf(f, f * rest, f));  // 2^-23 log 2
    // 0, what is below, infinity and nan have the logarithms that the instruction gives them.
    return copysignf(sum > 0.0f && sum < GA_INFF ? out : ga_near_log2(sum), x);
}

//@ ga_sqrt
GA_BOTH(ga_sqrt, sqrt)

//@ ga_cbrt
GA_LONG(ga_cbrt, cbrt)

//@ ga_sine_after
// sin(x + TURNS pi / 2) of what is not large: x is r more than n times pi / 2, of which there are three parts.
template <int TURNS> GA_INLINE float ga_sine_after(float x) {
    const float shifted = fmaf(x, 0.636619772f, 12582912.0f), n = shifted - 12582912.0f;  // n is in the last bits
    const unsigned quarter = __float_as_uint(shifted) + (unsigned)TURNS;
    const float r = fmaf(n, -5.39030295e-15f, fmaf(n, -7.54978942e-08f, fmaf(n, -1.57079625f, x))), z = r * r;
    // Adding 0 makes 0 of -0, and then the sine of -0 is -0.
    const float s = fmaf(fmaf(r, z, 0.0f), ga_horner(z, -0.00019514958f, 0.00833215844f, -0.166666552f), r);
    const float c = fmaf(z, ga_horner(z, 2.43831455e-05f, -0.00138866773f, 0.0416666195f, -0.5f), 1.0f);
    return __uint_as_float(__float_as_uint(quarter & 1u ? c : s) ^ (quarter << 30 & 0x80000000u));
}

//@ ga_sin_far ga_cos_far
// Of numbers that n pi / 2 in three parts does not reach.
GA_OUTLINE float ga_sin_far(float x) { return sinf(x); }
GA_OUTLINE float ga_cos_far(float x) { return cosf(x); }

//@ ga_sin
GA_LONG_DOUBLE(ga_sin, sin)
GA_INLINE float ga_sin(float x) {
    float y = ga_sine_after<0>(x);
    if (!(fabsf(x) < 105615.0f)) y = ga_sin_far(x);
    return y;
}

//@ ga_cos
GA_LONG_DOUBLE(ga_cos, cos)
GA_INLINE float ga_cos(float x) {
    float y = ga_sine_after<1>(x);
    if (!(fabsf(x) < 105615.0f)) y = ga_cos_far(x);
    return y;
}

//@ ga_tan
GA_LONG(ga_tan, tan)

//@ ga_asin
GA_LONG(ga_asin, asin)

//@ ga_acos
GA_LONG(ga_acos, acos)

//@ ga_atan
GA_BOTH(ga_atan, atan)

//@ ga_sinh
GA_LONG(ga_sinh, sinh)

//@ ga_cosh
GA_LONG(ga_cosh, cosh)

//@ ga_tanh
GA_BOTH(ga_tanh, tanh)

//@ ga_asinh
GA_LONG(ga_asinh, asinh)

//@ ga_acosh
GA_LONG(ga_acosh, acosh)

//@ ga_atanh
GA_LONG(ga_atanh, atanh)

//@ ga_erf
GA_LONG_DOUBLE(ga_erf, erf)
// A polynomial near 0, and beyond one for the logarithm of 1 - erf.
GA_INLINE float ga_erf(float x) {
    const float z = x * x, t = fabsf(x);
    const float near = fmaf(
        x, ga_horner(z, -0.000631525356f, 0.00505111972f, -0.0268025659f, 0.112827182f, -0.376125723f, 0.128379166f), x);
    const float power = t * ga_horner(
        t, 1.18518274e-05f, -0.000422905869f, 0.00508417375f, -0.0339274406f, 0.152865276f, 0.916567266f, 1.62823844f);
    return ga_below(t, 0.85f, near, copysignf(1.0f - ga_near_exp2(-power), x));
}

//@ ga_erfc
GA_LONG(ga_erfc, erfc)

//@ ga_rsqrt
// CUDA has rsqrt, C++ has not.
#ifndef GA_HOST
GA_BOTH(ga_rsqrt, rsqrt)
#else
GA_INLINE float ga_rsqrt(float x) { return 1.0f / sqrtf(x); }
GA_INLINE double ga_rsqrt(double x) { return 1.0 / sqrt(x); }
#endif

//@ ga_logistic
// Where exp(-x) overflows, 1 / inf is 0.
GA_INLINE float ga_logistic(float x) {
    // The exponential of -|x| is at most 1: a reciprocal of 1 to 2 needs no care.
    const float e = expf(-fabsf(x)), d = 1.0f + e, y = ga_near_reciprocal(d);
    const float r = fmaf(fmaf(-d, y, 1.0f), y, y);
    return x >= 0.0f ? r : e * r;
}
GA_INLINE double ga_logistic(double x) { return 1.0 / (1.0 + exp(-x)); }

//@ ga_pow
GA_INLINE float ga_pow(float x, float y) { return powf(x, y); }
GA_INLINE double ga_pow(double x, double y) { return pow(x, y); }

//@ ga_atan2
GA_INLINE float ga_atan2(float y, float x) { return atan2f(y, x); }
GA_INLINE double ga_atan2(double y, double x) { return atan2(y, x); }

//@ ga_logaddexp
// log(exp a + exp b), from the larger one.
template <class T> GA_INLINE T ga_logaddexp(T a, T b) {
    const T out = (a > b ? a : b) + ga_log1p(ga_exp(-ga_abs(a - b)));
    return a == b ? a + (T)0.69314718055994530942 : out;  // infinities too
}
