// Indices that are read from memory: bounds, binary search, atomic updates.

//@ ga_clip
// An index clamped to 0 ... most.
template <class I, class T> GA_INLINE I ga_clip(T i, I most) {
    return i < 0 ? 0 : (unsigned long long)i > most ? most : (I)i;
}

//@ ga_find
// An index, or a number larger than any if it is not in 0 ... most: comparisons then reject it.
template <class I, class T> GA_INLINE I ga_find(T i, I most) {
    return i < 0 || (unsigned long long)i > most ? ~(I)0 : (I)i;
}

//@ ga_before
// Whether a sorts before b: nan is last, complex numbers go by real part, then imaginary part.
template <class T> GA_INLINE bool ga_before(T a, T b) { return a < b || (b != b && a == a); }

//@ ga_before_complex if ga_before ga_c64
template <class T> GA_INLINE bool ga_before(ga_complex<T> a, ga_complex<T> b) {
    if (ga_before(a.re, b.re) || ga_before(b.re, a.re)) return ga_before(a.re, b.re);
    return ga_before(a.im, b.im);
}

//@ ga_search
// The position at which x keeps n sorted elements in order: before equal ones, or after them (RIGHT).
template <bool RIGHT, bool HALF, class M, class T, class I> GA_INLINE I ga_search(const M* sorted, I n, T x) {
    I first = 0;
    while (n > 0) {
        const I middle = first + n / 2;
        T here;
        if constexpr (HALF) here = ga_value(sorted[middle]);
        else here = sorted[middle];
        if (RIGHT ? !ga_before(x, here) : ga_before(here, x)) {
            first = middle + 1;
            n -= n / 2 + 1;
        } else {
            n /= 2;
        }
    }
    return first;
}

//@ ga_atomic_add
// Sums in memory; those of integers do not depend on the order.
GA_INLINE void ga_atomic_add(int* p, int v) { atomicAdd(p, v); }
GA_INLINE void ga_atomic_add(unsigned* p, unsigned v) { atomicAdd(p, v); }
GA_INLINE void ga_atomic_add(long long* p, long long v) { atomicAdd((unsigned long long*)p, (unsigned long long)v); }
GA_INLINE void ga_atomic_add(unsigned long long* p, unsigned long long v) { atomicAdd(p, v); }
GA_INLINE void ga_atomic_add(float* p, float v) { atomicAdd(p, v); }
GA_INLINE void ga_atomic_add(double* p, double v) { atomicAdd(p, v); }

//@ ga_atomic_min ga_atomic_max
template <class T> GA_INLINE void ga_atomic_min(T* p, T v) { atomicMin(p, v); }
template <class T> GA_INLINE void ga_atomic_max(T* p, T v) { atomicMax(p, v); }
