// Building blocks of the other files.

//@ ga_fma
// a * b + c, in one rounding where the CPU has an instruction for it.
#ifdef __FMA__
GA_INLINE float ga_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
GA_INLINE double ga_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
template <class T> GA_INLINE T ga_fma(T a, T b, T c) { return a * b + c; }
#endif
