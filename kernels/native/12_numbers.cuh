// Choices and conversions for a CPU.

//@ ga_max ga_min
// nan if either operand is. Without branches: an instruction for the larger one, and a choice.
template <class T> GA_INLINE T ga_max(T a, T b) {
    const T found = a > b ? a : b;
    return a != a ? a : found;
}
template <class T> GA_INLINE T ga_min(T a, T b) {
    const T found = a < b ? a : b;
    return a != a ? a : found;
}

//@ ga_saturate ga_or_zero
// A float as an integer: towards zero; nan gives 0, out of range saturates. By bits and without choices: g++ propagates
// each choice of a constant through all its comparisons, and the remaining loop is then not vectorised.
GA_INLINE float ga_or_zero(float x, bool wanted) { return __uint_as_float(__float_as_uint(x) & -(unsigned)wanted); }
GA_INLINE double ga_or_zero(double x, bool wanted) { return __longlong_as_double(__double_as_longlong(x) & -(long long)wanted); }
template <class T, class F> GA_INLINE T ga_saturate(F x) {
    const F low = (F)ga_lowest<T>(), high = (F)ga_highest<T>();
    const T found = (T)ga_or_zero(x, (x > low) & (x < high));
    return (T)(found | (ga_lowest<T>() & -(T)(x <= low)) | (ga_highest<T>() & -(T)(x >= high)));
}
