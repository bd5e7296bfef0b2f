// Products of matrices: small ones as loops, others by the library that SciPy brings.

//@ ga_widened
// Halves as floats.
template <class T, class F> static void ga_widened(ga_index first, ga_index last, const T* GA_ALONE from, F* GA_ALONE to) {
    for (ga_index i = first; i < last; ++i) to[i] = ga_value(from[i]);
}

//@ ga_narrowed
// Floats as halves, each rounded.
template <class T, class F> static void ga_narrowed(ga_index first, ga_index last, const F* GA_ALONE from, T* GA_ALONE to) {
    for (ga_index i = first; i < last; ++i) to[i] = T(from[i]);
}

//@ ga_integers_widened
// Integers as floats that hold them.
template <class T, class F>
static void ga_integers_widened(ga_index first, ga_index last, const T* GA_ALONE from, F* GA_ALONE to) {
    for (ga_index i = first; i < last; ++i) to[i] = (F)from[i];
}

//@ ga_integers_narrowed
// Floats with integer values as integers, which wrap.
template <class T, class F>
static void ga_integers_narrowed(ga_index first, ga_index last, const F* GA_ALONE from, T* GA_ALONE to) {
    for (ga_index i = first; i < last; ++i) to[i] = (T)(long long)from[i];
}

//@ ga_along ga_offsets ga_offsets_along
// Several products: LENGTH of them, with these strides of operands and results; and the offset of the i-th, along
// several such axes, the last the fastest.
template <ga_index LENGTH, ga_index X, ga_index Y, ga_index O> struct ga_along {
    enum : ga_index { length = LENGTH, x = X, y = Y, o = O };
};
struct ga_offsets {
    ga_index x, y, o;
};
template <class... B> GA_INLINE ga_offsets ga_offsets_along(ga_index i) {
    ga_offsets at = {0, 0, 0};
    ga_index each = (1 * ... * (ga_index)B::length);
    const auto add = [&](ga_index length, ga_index x, ga_index y, ga_index o) {
        each /= length;
        const ga_index k = i / each % length;
        at = {at.x + k * x, at.y + k * y, at.o + k * o};
    };
    (add(B::length, B::x, B::y, B::o), ...);
    return at;
}

//@ ga_matmul ga_parts_of
// o[m, n] = sum over k of x[m, k] y[k, n], with the strides of each operand along these axes, for several products. The sum goes up k for
// every element, whatever the lengths; a few rows and columns at a time stay in registers.
template <class T> struct ga_parts_of {
    enum : ga_index { count = 1 };
};
template <class T> GA_INLINE T ga_step_of(T x, T y, T sum) { return x * y + sum; }
GA_INLINE float ga_step_of(float x, float y, float sum) { return ga_fma(x, y, sum); }
GA_INLINE double ga_step_of(double x, double y, double sum) { return ga_fma(x, y, sum); }
template <ga_index R, ga_index C, ga_index N, ga_index K, ga_index XM, ga_index XK, ga_index YN, ga_index YK, class T>
GA_INLINE void ga_matmul_tile(const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o) {
    GA_LOCAL T sum[R][C];
    for (ga_index r = 0; r < R; ++r)
        for (ga_index c = 0; c < C; ++c) sum[r][c] = T{};
    for (ga_index k = 0; k < K; ++k)
        for (ga_index r = 0; r < R; ++r) {
            const T left = x[r * XM + k * XK];
            for (ga_index c = 0; c < C; ++c) sum[r][c] = ga_step_of(left, y[k * YK + c * YN], sum[r][c]);
        }
    for (ga_index r = 0; r < R; ++r)
        for (ga_index c = 0; c < C; ++c) o[r * N + c] = sum[r][c];
}
template <ga_index C, ga_index M, ga_index N, ga_index K, ga_index XM, ga_index XK, ga_index YN, ga_index YK, class T>
GA_INLINE void ga_matmul_columns(const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o) {
    constexpr ga_index R = 4;
    ga_index m = 0;
    for (; m + R <= M; m += R) ga_matmul_tile<R, C, N, K, XM, XK, YN, YK>(x + m * XM, y, o + m * N);
    for (; m < M; ++m) ga_matmul_tile<1, C, N, K, XM, XK, YN, YK>(x + m * XM, y, o + m * N);
}
// Elements that are contiguous along the sum in both operands: partial sums side by side, merged in a fixed order, for
// C columns.
template <ga_index C, ga_index K, ga_index YN, class T>
GA_INLINE void ga_matmul_dots(const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o) {
    constexpr ga_index L = 16;
    GA_LOCAL T part[C][L];
    for (ga_index c = 0; c < C; ++c)
        for (ga_index l = 0; l < L; ++l) part[c][l] = T{};
    ga_index k = 0;
    for (; k + L <= K; k += L)
        for (ga_index c = 0; c < C; ++c)
            for (ga_index l = 0; l < L; ++l) part[c][l] = ga_step_of(x[k + l], y[c * YN + k + l], part[c][l]);
    for (ga_index c = 0; c < C; ++c) {
        for (ga_index l = 0; k + l < K; ++l) part[c][l] = ga_step_of(x[k + l], y[c * YN + k + l], part[c][l]);
        for (ga_index half = L / 2; half > 0; half /= 2)
            for (ga_index l = 0; l < half; ++l) part[c][l] = part[c][l] + part[c][l + half];
        o[c] = part[c][0];
    }
}
template <ga_index M, ga_index N, ga_index K, ga_index XM, ga_index XK, ga_index YN, ga_index YK, ga_index OM, class T>
GA_INLINE void ga_matmul_of(const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o) {
    if constexpr (XK == 1 && YK == 1 && N == 1 && OM == 1 && M > 1 && K >= 32) {
        // Rows by a vector: several sums at a time, as for the columns of a row.
        ga_matmul_of<1, M, K, 0, 1, XM, 1, M>(y, x, o);
    } else if constexpr (XK == 1 && YK == 1 && (N == 1 || YN != 1) && K >= 32) {
        for (ga_index m = 0; m < M; ++m) {
            ga_index n = 0;
            for (; n + 4 <= N; n += 4) ga_matmul_dots<4, K, YN>(x + m * XM, y + n * YN, o + m * OM + n);
            for (; n < N; ++n) ga_matmul_dots<1, K, YN>(x + m * XM, y + n * YN, o + m * OM + n);
        }
    } else if constexpr (N == 1 && OM == 1 && XM == 1 && M > 1) {
        // Adjacent rows: the product of the operands in the other order.
        ga_matmul_of<1, M, K, 0, YK, XM, XK, M>(y, x, o);
    } else {
        // A row alone needs more sums at a time, so that an addition does not wait for the one before it.
        constexpr ga_index most = (M == 1 ? 128 : 48) / ga_parts_of<T>::count, even = (N + (N + most - 1) / most - 1) / ((N + most - 1) / most);
        constexpr ga_index C = N < most ? N : (even + 7) / 8 * 8;
        ga_index n = 0;
        for (; n + C <= N; n += C) ga_matmul_columns<C, M, OM, K, XM, XK, YN, YK>(x, y + n * YN, o + n);
        if constexpr (N % C != 0) ga_matmul_columns<N % C, M, OM, K, XM, XK, YN, YK>(x, y + n * YN, o + n);
    }
}
// Adjacent columns go into vectors, so operands with another layout are transposed first, if they are small. Tasks are
// blocks of R rows; those of a result are OM apart.
template <class T, ga_index R, ga_index M, ga_index N, ga_index K, ga_index XM, ga_index XK, ga_index YN, ga_index YK,
          ga_index OM, class... B>
static inline void ga_matmul(ga_index first, ga_index last, const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o) {
    constexpr ga_index blocks = (M + R - 1) / R;
    constexpr bool TURN_X = XM == 1 && XK > 1 && M > 1 && N > 1 && K > 1 && R * K <= 4096;
    constexpr bool TURN_Y = YK == 1 && YN > 1 && N > 1 && K > 1 && K < 32 && N * K <= 4096;
    GA_LOCAL T of_x[TURN_X ? R * K : 1], of_y[TURN_Y ? N * K : 1];
    const T* turned = nullptr;
    for (ga_index task = first; task < last; ++task) {
        const ga_index m = task % blocks * R;
        const ga_offsets at = ga_offsets_along<B...>(task / blocks);
        const T *left = x + at.x + m * XM, *right = y + at.y;
        T* const out = o + at.o + m * OM;
        if constexpr (TURN_X) {
            ga_turn(of_x, K, left, XK, ga_least(R, M - m), K);
            left = of_x;
        }
        if constexpr (TURN_Y) {
            if (turned != right) ga_turn(of_y, N, right, YN, K, N);
            turned = right;
            right = of_y;
        }
        constexpr ga_index xm = TURN_X ? K : XM, xk = TURN_X ? 1 : XK, yn = TURN_Y ? 1 : YN, yk = TURN_Y ? N : YK;
        if (m + R <= M) {
            ga_matmul_of<R, N, K, xm, xk, yn, yk, OM>(left, right, out);
        } else if constexpr (M % R != 0) {
            ga_matmul_of<M % R, N, K, xm, xk, yn, yk, OM>(left, right, out);
        }
    }
}

//@ ga_matmul_complex if ga_matmul ga_complex
// Real and imaginary parts are vectors by themselves.
template <class T> struct ga_parts_of<ga_complex<T>> {
    enum : ga_index { count = 2 };
};
template <ga_index R, ga_index C, ga_index N, ga_index K, ga_index XM, ga_index XK, ga_index YN, ga_index YK, class T>
GA_INLINE void ga_matmul_tile(const ga_complex<T>* GA_ALONE x, const ga_complex<T>* GA_ALONE y, ga_complex<T>* GA_ALONE o) {
    GA_LOCAL T re[R][C], im[R][C];
    for (ga_index r = 0; r < R; ++r)
        for (ga_index c = 0; c < C; ++c) re[r][c] = im[r][c] = 0;
    for (ga_index k = 0; k < K; ++k) {
        GA_LOCAL T yr[C], yi[C];
        for (ga_index c = 0; c < C; ++c) yr[c] = y[k * YK + c * YN].re, yi[c] = y[k * YK + c * YN].im;
        for (ga_index r = 0; r < R; ++r) {
            const T xr = x[r * XM + k * XK].re, xi = x[r * XM + k * XK].im;
            for (ga_index c = 0; c < C; ++c) {
                re[r][c] = ga_fma(-xi, yi[c], ga_fma(xr, yr[c], re[r][c]));
                im[r][c] = ga_fma(xi, yr[c], ga_fma(xr, yi[c], im[r][c]));
            }
        }
    }
    for (ga_index r = 0; r < R; ++r)
        for (ga_index c = 0; c < C; ++c) o[r * N + c].re = re[r][c], o[r * N + c].im = im[r][c];
}

//@ ga_blas ga_blas_alone ga_blas_of
// The functions gemm, gemv and trsm that SciPy exports for compiled code, each for floats, doubles and complex numbers
// of both; and the function by which a call requests the library for itself, on one thread; set when the unit is
// loaded.
GA_CALLED void* ga_blas[12];
void* ga_blas[12];
template <class T> struct ga_blas_of {
    enum : int { gemm = sizeof(T) / 8, gemv = gemm + 4, trsm = gemm + 8 };
    static __forceinline__ T one() { return 1; }
};
GA_CALLED void (*ga_blas_alone)(bool begin);
void (*ga_blas_alone)(bool begin);

//@ ga_blas_of_complex if ga_blas_of ga_complex
template <class T> struct ga_blas_of<ga_complex<T>> {
    enum : int { gemm = 2 + sizeof(T) / 8, gemv = gemm + 4 };
    static __forceinline__ ga_complex<T> one() { return {1, 0}; }
};

//@ ga_gemm ga_gemm_of ga_gemv_of
// Fortran's arguments, all by address: o = a b, and o = a x, by columns.
template <class T>
inline void ga_gemm_of(char left, char right, int m, int n, int k, const T* a, int ma, const T* b, int mb, T* o, int mo) {
    typedef void (*call)(char*, char*, int*, int*, int*, T*, const T*, int*, const T*, int*, T*, T*, int*);
    T one = ga_blas_of<T>::one(), zero = {};
    ((call)ga_blas[ga_blas_of<T>::gemm])(&left, &right, &m, &n, &k, &one, a, &ma, b, &mb, &zero, o, &mo);
}
template <class T> inline void ga_gemv_of(char turned, int m, int n, const T* a, int ma, const T* x, int step, T* o) {
    typedef void (*call)(char*, int*, int*, T*, const T*, int*, const T*, int*, T*, T*, int*);
    T one = ga_blas_of<T>::one(), zero = {};
    int next = 1;
    ((call)ga_blas[ga_blas_of<T>::gemv])(&turned, &m, &n, &one, a, &ma, x, &step, &zero, o, &next);
}
// As `ga_matmul`, in pieces of PM rows and PN columns of a result with rows OM apart. The library's result for a piece
// on one thread does not depend on the number of pieces. One of the two strides of each matrix is 1.
template <class T, ga_index PM, ga_index PN, ga_index M, ga_index N, ga_index K, ga_index XM, ga_index XK, ga_index YN,
          ga_index YK, ga_index OM, class... B>
static void ga_gemm(ga_index first, ga_index last, const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o) {
    constexpr ga_index down = (M + PM - 1) / PM, across = (N + PN - 1) / PN;
    // For less work the library uses one thread anyway.
    constexpr bool large = PM * PN * K > (M == 1 || N == 1 ? 1 << 13 : 1 << 17);
    if (large) ga_blas_alone(true);
    for (ga_index task = first; task < last; ++task) {
        const ga_index m = task / across % down * PM, n = task % across * PN;
        const ga_offsets at = ga_offsets_along<B...>(task / (down * across));
        const int rows = (int)ga_least(PM, M - m), columns = (int)ga_least(PN, N - n), k = (int)K;
        const T *left = x + at.x + m * XM, *right = y + at.y + n * YN;
        T* const out = o + at.o + m * OM + n;
        if constexpr (M == 1) {
            if (YN == 1) ga_gemv_of('N', columns, k, right, (int)YK, left, (int)XK, out);
            else ga_gemv_of('T', k, columns, right, (int)YN, left, (int)XK, out);
        } else if constexpr (N == 1) {
            if (XM == 1) ga_gemv_of('N', rows, k, left, (int)XK, right, (int)YK, out);
            else ga_gemv_of('T', k, rows, left, (int)XM, right, (int)YK, out);
        } else {
            // In column-major order the result is transposed, and so are the operands, in the other order.
            const bool a = YN != 1, c = XK != 1;
            ga_gemm_of(
                a ? 'T' : 'N', c ? 'T' : 'N', columns, rows, k, right, (int)(a ? YN : YK), left, (int)(c ? XK : XM), out, (int)OM);
        }
    }
    if (large) ga_blas_alone(false);
}
