// Elementary functions for float and double. CUDA's own are within 1 or 2 units in the last place.

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

//@ ga_log1p
GA_LONG(ga_log1p, log1p)

//@ ga_sqrt
GA_BOTH(ga_sqrt, sqrt)

//@ ga_cbrt
GA_LONG(ga_cbrt, cbrt)

//@ ga_sin
GA_LONG(ga_sin, sin)

//@ ga_cos
GA_LONG(ga_cos, cos)

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
GA_LONG(ga_erf, erf)

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
GA_INLINE float ga_logistic(float x) { return 1.0f / (1.0f + expf(-x)); }
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
    if (a == b) return a + (T)0.69314718055994530942;  // infinities too
    const T apart = a - b;
    if (apart > 0) return a + ga_log1p(ga_exp(-apart));
    return apart <= 0 ? b + ga_log1p(ga_exp(apart)) : apart;
}
