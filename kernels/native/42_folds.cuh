// Folds of a value and its position, side by side.

//@ ga_parts_of_arg ga_place_type ga_arg_at if ga_arg
// Values and positions apart: a loop over lanes then goes along neighbours. Positions are as wide as the values, if that is
// enough: they are chosen by comparisons of values. Rows of 2^32 - 1 elements are not for native code.
template <int BYTES> struct ga_place_type {
    typedef unsigned type;
};
template <> struct ga_place_type<8> {
    typedef unsigned long long type;
};
template <class T> struct ga_arg_at {
    typedef typename ga_place_type<sizeof(T)>::type place;
    T& value;
    place& at;
    struct taken {
        T value;
        place at;
    };
    __forceinline__ operator ga_arg<T>() const { return {value, at}; }
    __forceinline__ void operator=(taken other) {
        value = other.value;
        at = other.at;
    }
    __forceinline__ void operator=(ga_arg<T> other) { *this = taken{other.value, (place)other.at}; }
};
template <class T, ga_index N> struct ga_parts<ga_arg<T>, N> {
    GA_LOCAL T value[N];
    GA_LOCAL typename ga_arg_at<T>::place at[N];
    explicit __forceinline__ ga_parts(ga_arg<T> first) {
        for (ga_index l = 0; l < N; ++l) value[l] = first.value;
        for (ga_index l = 0; l < N; ++l) at[l] = (typename ga_arg_at<T>::place)first.at;
    }
    __forceinline__ ga_arg_at<T> operator[](ga_index lane) { return {value[lane], at[lane]}; }
};
//@ ga_ordered
// A number that is ordered as x is, nan above all: g++ makes branches of comparisons of floats, which are guessed wrong
// half of the time, and no vectors.
template <class I, class T> GA_INLINE I ga_ordered_float(T x) {
    const T y = x + (T)0;  // 0.0 for -0.0, which is equal to it
    I bits;
    __builtin_memcpy(&bits, &y, sizeof(T));
    return x != x ? (I)-1 : bits ^ (bits >> (8 * sizeof(T) - 1) | (I)1 << (8 * sizeof(T) - 1));
}
template <class T> GA_INLINE unsigned long long ga_ordered(T x) {
    constexpr bool FLOATING = (T)0.5 != (T)0.25;  // not so of bool, where both are true
    if constexpr (FLOATING && sizeof(T) > 4) return ga_ordered_float<long long>(x);
    else if constexpr (FLOATING) return (unsigned)ga_ordered_float<int>(x);
    else if constexpr ((T)-1 < (T)0) return (unsigned long long)x + (1ull << (sizeof(T) > 4 ? 63 : 31));
    else return x;
}

//@ ga_is_first
// Whether a number at a place comes before another one. Of 32 bits, both are one number: one comparison and no choices.
template <class T> GA_INLINE bool ga_is_first(unsigned long long a, unsigned long long a_at, unsigned long long b, unsigned long long b_at, T) {
    if constexpr (sizeof(T) > 4) return (a < b) | ((a == b) & (a_at < b_at));
    else return (a << 32 | (unsigned)a_at) < (b << 32 | (unsigned)b_at);
}

//@ ga_argmax ga_argmin
// The first of equal values; nan before everything. Without branches: a choice for each field.
template <class T> GA_INLINE ga_arg<T> ga_argmax(ga_arg<T> a, ga_arg<T> b) {
    const bool take = ga_is_first(ga_ordered(b.value) ^ ~0ull, b.at, ga_ordered(a.value) ^ ~0ull, a.at, b.value);
    return {take ? b.value : a.value, take ? b.at : a.at};
}
template <class T> GA_INLINE ga_arg<T> ga_argmin(ga_arg<T> a, ga_arg<T> b) {
    constexpr unsigned long long NAN_FIRST = (T)0.5 != (T)0.25;  // the number of nan, plus 1, is 0
    const bool take = ga_is_first(ga_ordered(b.value) + NAN_FIRST, b.at, ga_ordered(a.value) + NAN_FIRST, a.at, b.value);
    return {take ? b.value : a.value, take ? b.at : a.at};
}

//@ ga_arg_so_far ga_arg_first ga_arg_by
// The fold of a short row, whose elements come in order: among equal ones the first is already there, so one comparison
// of keys decides. Keys are as wide as the numbers, and those of argmax are inverted. An empty fold is at the first
// place.
template <class T> struct ga_arg_so_far {
    typedef typename ga_place_type<(sizeof(T) > 4 ? 8 : 4)>::type key_type;
    key_type key, at;
    T value;
};
template <class T> GA_INLINE ga_arg_so_far<T> ga_arg_first(ga_arg_so_far<T> a, ga_arg_so_far<T> b) {
    const bool take = b.key < a.key;
    return {take ? b.key : a.key, take ? b.at : a.at, take ? b.value : a.value};
}
template <class T> GA_INLINE ga_arg_so_far<T> ga_arg_by(unsigned long long key, ga_arg<T> x) {
    typedef typename ga_arg_so_far<T>::key_type key_type;
    return {(key_type)key, (key_type)(x.at == ~0ull ? 0 : x.at), x.value};
}

//@ ga_argmax_begun
template <class T> GA_INLINE auto ga_argmax_begun(ga_arg<T> x) { return ga_arg_by(~ga_ordered(x.value), x); }
template <class T> GA_INLINE auto ga_argmax(ga_arg_so_far<T> a, ga_arg<T> b) { return ga_arg_first(a, ga_argmax_begun(b)); }

//@ ga_argmin_begun
template <class T> GA_INLINE auto ga_argmin_begun(ga_arg<T> x) {
    constexpr unsigned long long NAN_FIRST = (T)0.5 != (T)0.25;  // the number of nan, plus 1, is 0
    return ga_arg_by(ga_ordered(x.value) + NAN_FIRST, x);
}
template <class T> GA_INLINE auto ga_argmin(ga_arg_so_far<T> a, ga_arg<T> b) { return ga_arg_first(a, ga_argmin_begun(b)); }

//@ ga_argmax_of_lanes if ga_parts_of_arg ga_argmax
// Fold an element that comes after those of its lane: it is taken if it is the first, or larger, or not comparable, as
// nan. Nothing replaces a nan.
template <class T> GA_INLINE auto ga_argmax(ga_arg_at<T> a, ga_arg<T> b) {
    typedef typename ga_arg_at<T>::place place;
    const bool take = (!(b.value <= a.value) & (a.value == a.value)) | (a.at == (place)-1);
    return typename ga_arg_at<T>::taken{take ? b.value : a.value, take ? (place)b.at : a.at};
}
// Two lanes.
template <class T> GA_INLINE auto ga_argmax(ga_arg_at<T> a, ga_arg_at<T> b) {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool equal = (a.value == b.value) | (a_nan & b_nan), better = (b.value > a.value) | (b_nan & !a_nan);
    const bool take = better | (equal & (b.at < a.at));
    return typename ga_arg_at<T>::taken{take ? b.value : a.value, take ? b.at : a.at};
}

//@ ga_argmin_of_lanes if ga_parts_of_arg ga_argmin
template <class T> GA_INLINE auto ga_argmin(ga_arg_at<T> a, ga_arg<T> b) {
    typedef typename ga_arg_at<T>::place place;
    const bool take = (!(b.value >= a.value) & (a.value == a.value)) | (a.at == (place)-1);
    return typename ga_arg_at<T>::taken{take ? b.value : a.value, take ? (place)b.at : a.at};
}
template <class T> GA_INLINE auto ga_argmin(ga_arg_at<T> a, ga_arg_at<T> b) {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool equal = (a.value == b.value) | (a_nan & b_nan), better = (b.value < a.value) | (b_nan & !a_nan);
    const bool take = better | (equal & (b.at < a.at));
    return typename ga_arg_at<T>::taken{take ? b.value : a.value, take ? b.at : a.at};
}
