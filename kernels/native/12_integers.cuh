// Sums and products of integers.

//@ ga_add ga_sub ga_mul ga_neg
// Signed ones wrap, which the flag -fwrapv promises. Not by way of unsigned ones: of sums that change signs for each
// addition, side by side in a loop, g++ 12 makes wrong code.
template <class T> GA_INLINE T ga_add(T a, T b) { return (T)(a + b); }
template <class T> GA_INLINE T ga_sub(T a, T b) { return (T)(a - b); }
template <class T> GA_INLINE T ga_mul(T a, T b) { return (T)(a * b); }
template <class T> GA_INLINE T ga_neg(T a) { return (T)-a; }
