// Neighbouring elements in one access.

//@ ga_vec
// N neighbouring elements, aligned so that they are loaded and stored in one access.
template <class T, int N> struct alignas(sizeof(T) * N) ga_vec {
    T v[N];
#ifdef GA_HOST
    ga_vec() { __builtin_memset(v, 0xff, sizeof v); }  // makes uninitialised elements conspicuous
#endif
};

//@ ga_load
template <int N, class T> GA_INLINE ga_vec<T, N> ga_load(const T* p) { return *(const ga_vec<T, N>*)p; }

//@ ga_load_whole
// The same, of which not all elements are used: of words of 4 bytes the compiler would read the others one by one.
template <int N, class T> GA_INLINE ga_vec<T, N> ga_load_whole(const T* p) {
#ifndef GA_HOST
    if constexpr (sizeof(ga_vec<T, N>) == 16) {
        union Words {
            unsigned long long w[2];
            ga_vec<T, N> x;
        };
        Words all;
        asm("ld.global.v2.b64 {%0, %1}, [%2];" : "=l"(all.w[0]), "=l"(all.w[1]) : "l"(__cvta_generic_to_global(p)));
        return all.x;
    }
#endif
    return ga_load<N>(p);
}

//@ ga_prefetch
// Ask for memory that this block will read soon.
GA_INLINE void ga_prefetch(const void* p) {
#ifndef GA_HOST
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p)));
#endif
}

//@ ga_store
template <class T, int N> GA_INLINE void ga_store(T* p, const ga_vec<T, N>& x) {
#ifndef GA_HOST
    if (sizeof x == 16) {
        // One access: the compiler takes some of them apart.
        union Words {
            ga_vec<T, N> x;
            unsigned w[4];
        };
        const Words all = {x};
        asm volatile("{ .reg .u64 p; cvta.to.global.u64 p, %0; st.global.v4.b32 [p], {%1, %2, %3, %4}; }" ::"l"(p),
                     "r"(all.w[0]), "r"(all.w[1]), "r"(all.w[2]), "r"(all.w[3])
                     : "memory");
        return;
    }
#endif
    *(ga_vec<T, N>*)p = x;
}

//@ ga_vector
// The vector of these elements.
template <class T, class... U> GA_INLINE ga_vec<T, 1 + sizeof...(U)> ga_vector(T first, U... others) {
    const T all[] = {first, others...};
    ga_vec<T, 1 + sizeof...(U)> x;
#pragma unroll
    for (unsigned e = 0; e < 1 + sizeof...(U); ++e) x.v[e] = all[e];
    return x;
}

//@ ga_load_part
// A vector of which at least `left` elements exist; those beyond the end repeat the first.
template <int N, class T> GA_INLINE ga_vec<T, N> ga_load_part(const T* p, unsigned left) {
    if (left >= N) return ga_load<N>(p);
    ga_vec<T, N> x;
#pragma unroll
    for (unsigned e = 0; e < N; ++e) x.v[e] = e < left ? p[e] : p[0];
    return x;
}

//@ ga_store_part
template <class T, int N> GA_INLINE void ga_store_part(T* p, const ga_vec<T, N>& x, unsigned left) {
    if (left >= N) return ga_store(p, x);
#pragma unroll
    for (unsigned e = 0; e < N; ++e)
        if (e < left) p[e] = x.v[e];
}

//@ ga_same
// A vector of N equal elements.
template <class V, class T> GA_INLINE V ga_same(T x) {
    V all;
    for (T& v : all.v) v = x;
    return all;
}
