// Choices for a CPU.

//@ ga_max ga_min
// nan if either operand is. Without branches: an instruction for the larger one, and a choice.
template <class T> GA_INLINE T ga_max(T a, T b) {
    const T found = a > b ? a : b;
    return a != a ? a : found;
}
template <class T> GA_INLINE T ga_min(T a, T b) {
    const T found = a < b ? a : b;
    return a != a ? a : found;
}
