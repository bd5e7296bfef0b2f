// Sums and products of integers.

//@ ga_add ga_sub ga_mul ga_neg
// Signed ones wrap, which the flag -fwrapv promises. Not by way of unsigned ones: of sums that change signs for each
// addition, side by side in a loop, g++ 12 makes wrong code.
template <class T> GA_INLINE T ga_add(T a, T b) { return (T)(a + b); }
template <class T> GA_INLINE T ga_sub(T a, T b) { return (T)(a - b); }
template <class T> GA_INLINE T ga_mul(T a, T b) { return (T)(a * b); }
template <class T> GA_INLINE T ga_neg(T a) { return (T)-a; }

//@ ga_div ga_rem
// As for a GPU. Quotients of up to 32 bits are those of doubles, cut off: between two of them there is always a double. CPUs have
// no instruction for several quotients of integers, but for those of doubles; by a known number a compiler multiplies instead.
// By 0 and by -1 it is divided by 1, and bits tell them apart: choices g++ follows until a loop is not vectorised.
template <class T> GA_INLINE T ga_div(T a, T b) {
    const T zero = (T)-(T)(b == 0), lowered = (T)-(T)(((T)-1 < (T)0) & (b == (T)-1)), one = zero | lowered;
    const T by = (T)((b & ~one) | (one & 1));
    const T found = sizeof(T) > 4 || __builtin_constant_p(b) ? (T)(a / by) : (T)((double)a / (double)by);
    return (T)(((found ^ lowered) - lowered) | zero);
}
template <class T> GA_INLINE T ga_rem(T a, T b) {
    const T zero = (T)-(T)(b == 0), one = zero | (T)-(T)(((T)-1 < (T)0) & (b == (T)-1));
    const T by = (T)((b & ~one) | (one & 1));
    const T found = sizeof(T) > 4 || __builtin_constant_p(b) ? (T)(a / by) : (T)((double)a / (double)by);
    return (T)(ga_sub(a, ga_mul(found, by)) | (a & zero));
}
