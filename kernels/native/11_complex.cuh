// Complex numbers so that loops of them are vectorised.

//@ ga_complex ga_c64 ga_c128
// Stored by parts: a loop that stores both at once is not vectorised.
template <class T> struct alignas(2 * sizeof(T)) ga_complex {
    T re, im;
    __forceinline__ ga_complex& operator=(const ga_complex& z) {
        re = z.re, im = z.im;
        return *this;
    }
};
typedef ga_complex<float> ga_c64;
typedef ga_complex<double> ga_c128;
// -x by its bits: g++ 12 rounds the sum of one product and the difference of its neighbour once where it finds both (an
// fmaddsub), which it was told not to.
GA_INLINE float ga_other_sign(float x) { return __uint_as_float(__float_as_uint(x) ^ 0x80000000u); }
GA_INLINE double ga_other_sign(double x) { return __longlong_as_double(__double_as_longlong(x) ^ (1ll << 63)); }
template <class T> GA_INLINE ga_complex<T> operator+(ga_complex<T> a, ga_complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T> GA_INLINE ga_complex<T> operator-(ga_complex<T> a, ga_complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T> GA_INLINE ga_complex<T> operator-(ga_complex<T> a) { return {-a.re, -a.im}; }
template <class T> GA_INLINE ga_complex<T> operator*(ga_complex<T> a, ga_complex<T> b) {
    return {a.re * b.re + ga_other_sign(a.im) * b.im, a.re * b.im + a.im * b.re};
}
template <class T> GA_INLINE bool operator==(ga_complex<T> a, ga_complex<T> b) { return a.re == b.re && a.im == b.im; }
template <class T> GA_INLINE bool operator!=(ga_complex<T> a, ga_complex<T> b) { return !(a == b); }
