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
template <class T> GA_INLINE ga_complex<T> operator+(ga_complex<T> a, ga_complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T> GA_INLINE ga_complex<T> operator-(ga_complex<T> a, ga_complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T> GA_INLINE ga_complex<T> operator-(ga_complex<T> a) { return {-a.re, -a.im}; }
// One rounding of the second product and of the sum, as in NumPy's loops: these are infinite where a product alone
// overflows. g++ 12 does so for one of the two parts if it finds both, despite the flag that forbids it.
template <class T> GA_INLINE ga_complex<T> operator*(ga_complex<T> a, ga_complex<T> b) {
    return {ga_fma(a.re, b.re, -(a.im * b.im)), ga_fma(a.re, b.im, a.im * b.re)};
}
template <class T> GA_INLINE bool operator==(ga_complex<T> a, ga_complex<T> b) { return a.re == b.re && a.im == b.im; }
template <class T> GA_INLINE bool operator!=(ga_complex<T> a, ga_complex<T> b) { return !(a == b); }
