// Arithmetic on numbers of any type. What C++ leaves undefined is defined here, as in NumPy and JAX.

//@ ga_add ga_sub ga_mul ga_neg
// Signed integers wrap, which C++ promises for unsigned ones only.
template <class T> GA_INLINE T ga_add(T a, T b) { return (T)((unsigned long long)a + (unsigned long long)b); }
template <class T> GA_INLINE T ga_sub(T a, T b) { return (T)((unsigned long long)a - (unsigned long long)b); }
template <class T> GA_INLINE T ga_mul(T a, T b) { return (T)((unsigned long long)a * (unsigned long long)b); }
template <class T> GA_INLINE T ga_neg(T a) { return (T)(0ull - (unsigned long long)a); }

//@ ga_div
// Integers: towards zero; x / 0 is all ones; the lowest number over -1 is itself.
template <class T> GA_INLINE T ga_div(T a, T b) {
    if (b == 0) return (T)-1;
    if ((T)-1 < (T)0 && b == (T)-1) return ga_neg(a);
    return (T)(a / b);
}

//@ ga_rem
// The remainder, with the sign of a; x rem 0 is x for integers.
template <class T> GA_INLINE T ga_rem(T a, T b) {
    if (b == 0) return a;
    if ((T)-1 < (T)0 && b == (T)-1) return 0;
    return (T)(a % b);
}

//@ ga_fmod
GA_INLINE float ga_fmod(float a, float b) { return fmodf(a, b); }
GA_INLINE double ga_fmod(double a, double b) { return fmod(a, b); }

//@ ga_max ga_min
// nan if either operand is.
template <class T> GA_INLINE T ga_max(T a, T b) { return a > b || a != a ? a : b; }
template <class T> GA_INLINE T ga_min(T a, T b) { return a < b || a != a ? a : b; }
#if !defined(GA_HOST) && __CUDA_ARCH__ >= 800
// One instruction; 0.0 is above -0.0 in it.
GA_INLINE float ga_max(float a, float b) {
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
}
GA_INLINE float ga_min(float a, float b) {
    float least;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
    return least;
}
#endif

//@ ga_abs
template <class T> GA_INLINE T ga_abs(T x) { return x < 0 ? ga_neg(x) : x; }
GA_INLINE float ga_abs(float x) { return fabsf(x); }
GA_INLINE double ga_abs(double x) { return fabs(x); }

//@ ga_sign
// -1, 0 or 1; floats keep the sign of zero, and nan.
template <class T> GA_INLINE T ga_sign(T x) { return (T)((x > 0) - (x < 0)); }
GA_INLINE float ga_sign(float x) { return x != x ? x : copysignf(x == 0.0f ? 0.0f : 1.0f, x); }
GA_INLINE double ga_sign(double x) { return x != x ? x : copysign(x == 0.0 ? 0.0 : 1.0, x); }

//@ ga_product
// A product that wraps, for the powers below.
template <class T> GA_INLINE T ga_product(T a, T b) { return ga_mul(a, b); }
GA_INLINE float ga_product(float a, float b) { return a * b; }
GA_INLINE double ga_product(double a, double b) { return a * b; }

//@ ga_power_times
// r times x to the N-th.
template <int N, class T> GA_INLINE T ga_power_times(T r, T x) {
    if constexpr (N == 0) return r;
    else if constexpr (N % 2 == 0) return ga_power_times<N / 2>(r, ga_product(x, x));
    else return ga_power_times<N / 2>(ga_product(r, x), ga_product(x, x));
}

//@ ga_power
// x to the N-th, N > 0, by squaring, from the lowest bit of N up.
template <int N, class T> GA_INLINE T ga_power(T x) {
    if constexpr (N == 1) return x;
    else if constexpr (N % 2 == 0) return ga_power<N / 2>(ga_product(x, x));
    else return ga_power_times<N / 2>(x, ga_product(x, x));
}

//@ ga_to_int
// Towards zero; a GPU saturates.
#ifndef GA_HOST
GA_INLINE int ga_to_int(float x) { return __float2int_rz(x); }
GA_INLINE int ga_to_int(double x) { return __double2int_rz(x); }
#endif

//@ ga_saturate
// A float as an integer: towards zero; nan gives 0, out of range saturates.
template <class T, class F> GA_INLINE T ga_saturate(F x) {
#ifndef GA_HOST
    if constexpr (sizeof(T) < sizeof(int) || (sizeof(T) == sizeof(int) && (T)-1 < (T)0)) {
        // What is left is to cut off what T has not.
        const int whole = x == x ? ga_to_int(x) : 0, low = ga_lowest<T>(), high = ga_highest<T>();
        return (T)(whole < low ? low : whole > high ? high : whole);
    }
#endif
    if (x != x) return 0;
    if (x <= (F)ga_lowest<T>()) return ga_lowest<T>();
    if (x >= (F)ga_highest<T>()) return ga_highest<T>();
    return (T)x;
}

//@ ga_is_finite
GA_INLINE bool ga_is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }
GA_INLINE bool ga_is_finite(double x) {
    return (__double_as_longlong(x) & 0x7ff0000000000000ll) != 0x7ff0000000000000ll;
}

//@ ga_round_away
// Halves go away from zero.
GA_INLINE float ga_round_away(float x) { return roundf(x); }
GA_INLINE double ga_round_away(double x) { return round(x); }

//@ ga_floor ga_ceil ga_rint
GA_INLINE float ga_floor(float x) { return floorf(x); }
GA_INLINE double ga_floor(double x) { return floor(x); }
GA_INLINE float ga_ceil(float x) { return ceilf(x); }
GA_INLINE double ga_ceil(double x) { return ceil(x); }
GA_INLINE float ga_rint(float x) { return rintf(x); }
GA_INLINE double ga_rint(double x) { return rint(x); }
