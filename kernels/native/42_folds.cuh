// Folds of a value and its position, side by side.

//@ ga_parts_of_arg if ga_arg
// Values and positions apart: a loop over lanes then goes along neighbours.
template <class T> struct ga_arg_at {
    T& value;
    unsigned long long& at;
    __forceinline__ operator ga_arg<T>() const { return {value, at}; }
    __forceinline__ void operator=(ga_arg<T> other) {
        value = other.value;
        at = other.at;
    }
};
template <class T, ga_index N> struct ga_parts<ga_arg<T>, N> {
    T value[N];
    unsigned long long at[N];
    explicit __forceinline__ ga_parts(ga_arg<T> first) {
        for (ga_index l = 0; l < N; ++l) value[l] = first.value;
        for (ga_index l = 0; l < N; ++l) at[l] = first.at;
    }
    __forceinline__ ga_arg_at<T> operator[](ga_index lane) { return {value[lane], at[lane]}; }
};

//@ ga_argmax ga_argmin
// The first of equal values; nan before everything. Without branches: a choice for each field.
template <class T> GA_INLINE ga_arg<T> ga_argmax(ga_arg<T> a, ga_arg<T> b) {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool equal = (a.value == b.value) | (a_nan & b_nan), better = (b.value > a.value) | (b_nan & !a_nan);
    const bool take = better | (equal & (b.at < a.at));
    return {take ? b.value : a.value, take ? b.at : a.at};
}
template <class T> GA_INLINE ga_arg<T> ga_argmin(ga_arg<T> a, ga_arg<T> b) {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool equal = (a.value == b.value) | (a_nan & b_nan), better = (b.value < a.value) | (b_nan & !a_nan);
    const bool take = better | (equal & (b.at < a.at));
    return {take ? b.value : a.value, take ? b.at : a.at};
}
template <class P, class T> GA_INLINE ga_arg<T> ga_argmax(P a, ga_arg<T> b) { return ga_argmax(ga_arg<T>(a), b); }
template <class P, class T> GA_INLINE ga_arg<T> ga_argmin(P a, ga_arg<T> b) { return ga_argmin(ga_arg<T>(a), b); }
