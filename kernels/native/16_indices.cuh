// Indices from memory and binary search for a CPU.

//@ ga_clip
// An index clamped to 0 ... most, by an instruction for the smaller and one for the larger of two numbers: of choices
// between constants g++ makes branches, with reads behind them, and no vectors.
template <class I, class T> GA_INLINE I ga_clip(T i, I most) {
    if constexpr ((T)-1 > (T)0) {
        return (unsigned long long)i > (unsigned long long)most ? most : (I)i;
    } else if constexpr (sizeof(T) <= 4 && sizeof(I) <= 4) {
        const int top = (int)most, low = i > top ? top : i;
        return (I)(low < 0 ? 0 : low);
    } else {
        const long long top = (long long)most, low = i > top ? top : i;
        return (I)(low < 0 ? 0 : low);
    }
}

//@ ga_before
// Whether a sorts before b: nan is last, complex numbers go by real part, then imaginary part. All of it: no branches.
template <class T> GA_INLINE bool ga_before(T a, T b) { return (a < b) | ((b != b) & (a == a)); }

//@ ga_search ga_search_of ga_is_after
// The position at which x keeps n sorted elements in order: before equal ones, or after them (RIGHT). The same steps for
// any x, each a choice and not a branch that could be guessed wrong: searches of neighbours then overlap.
template <bool RIGHT, bool HALF, bool NUMBER, class M, class T> GA_INLINE bool ga_is_after(const M& place, T x) {
    T here;
    if constexpr (HALF) here = ga_value(place);
    else here = place;
    if constexpr (NUMBER) return RIGHT ? here <= x : here < x;  // false where it is nan
    else return RIGHT ? !ga_before(x, here) : ga_before(here, x);
}
template <bool RIGHT, bool HALF, bool NUMBER, class M, class T, class I>
GA_INLINE I ga_search_of(const M* sorted, I n, T x) {
    I first = 0;
    while (n > 1) {
        const I half = n / 2, next = first + half;
        first = ga_is_after<RIGHT, HALF, NUMBER>(sorted[next - 1], x) ? next : first;
        n -= half;
    }
    return n > 0 && ga_is_after<RIGHT, HALF, NUMBER>(sorted[first], x) ? first + 1 : first;
}
template <bool RIGHT, bool HALF, class M, class T, class I> GA_INLINE I ga_search(const M* sorted, I n, T x) {
    if constexpr (!__is_class(T))
        if (x == x) return ga_search_of<RIGHT, HALF, true>(sorted, n, x);
    return ga_search_of<RIGHT, HALF, false>(sorted, n, x);
}

//@ ga_search_each
// The insertion point of each of several numbers, eight at a time: a search waits for every element that it reads, and
// meanwhile the others continue.
template <ga_index COUNT, bool RIGHT, bool HALF, bool NUMBER, class M, class I, class T, class R>
GA_INLINE void ga_search_beside(const M* sorted, I n, const T* x, R* found) {
    GA_LOCAL I first[COUNT];
    for (ga_index l = 0; l < COUNT; ++l) first[l] = 0;
    for (; n > 1; n -= n / 2) {
        const I half = n / 2;
        for (ga_index l = 0; l < COUNT; ++l) {
            const I next = first[l] + half;
            first[l] = ga_is_after<RIGHT, HALF, NUMBER>(sorted[next - 1], x[l]) ? next : first[l];
        }
    }
    for (ga_index l = 0; l < COUNT; ++l)
        found[l] = (R)(n > 0 && ga_is_after<RIGHT, HALF, NUMBER>(sorted[first[l]], x[l]) ? first[l] + 1 : first[l]);
}
template <bool RIGHT, bool HALF, class M, class I, class T, class R>
static inline void ga_search_each(const M* sorted, I n, const T* x, R* found, ga_index count) {
    constexpr ga_index SOME = 8;
    ga_index i = 0;
    for (; i + SOME <= count; i += SOME) {
        if constexpr (!__is_class(T)) {
            bool numbers = true;
            for (ga_index l = 0; l < SOME; ++l) numbers &= x[i + l] == x[i + l];
            if (numbers) {
                ga_search_beside<SOME, RIGHT, HALF, true>(sorted, n, x + i, found + i);
                continue;
            }
        }
        ga_search_beside<SOME, RIGHT, HALF, false>(sorted, n, x + i, found + i);
    }
    for (; i < count; ++i) found[i] = (R)ga_search<RIGHT, HALF>(sorted, n, x[i]);
}
