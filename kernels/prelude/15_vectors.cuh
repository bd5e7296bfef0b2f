// Several neighbouring elements in one access.

//@ ga_vec
// N elements side by side, aligned so that they move as one.
template <class T, int N> struct alignas(sizeof(T) * N) ga_vec { T v[N]; };

//@ ga_load
template <int N, class T> GA_INLINE ga_vec<T, N> ga_load(const T* p) { return *(const ga_vec<T, N>*)p; }

//@ ga_store
template <class T, int N> GA_INLINE void ga_store(T* p, const ga_vec<T, N>& x) { *(ga_vec<T, N>*)p = x; }
