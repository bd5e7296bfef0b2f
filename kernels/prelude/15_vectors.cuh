// Neighbouring elements in one access.

//@ ga_vec
// N neighbouring elements, aligned so that they are loaded and stored at once.
template <class T, int N> struct alignas(sizeof(T) * N) ga_vec {
    T v[N];
#ifdef GA_HOST
    ga_vec() { __builtin_memset(v, 0xff, sizeof v); }  // makes uninitialised elements conspicuous
#endif
};

//@ ga_load
template <int N, class T> GA_INLINE ga_vec<T, N> ga_load(const T* p) { return *(const ga_vec<T, N>*)p; }

//@ ga_store
template <class T, int N> GA_INLINE void ga_store(T* p, const ga_vec<T, N>& x) { *(ga_vec<T, N>*)p = x; }

//@ ga_same
// A vector of N equal elements.
template <class V, class T> GA_INLINE V ga_same(T x) {
    V all;
    for (T& v : all.v) v = x;
    return all;
}
