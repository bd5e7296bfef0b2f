// Products of small matrices.

//@ ga_product
// o[b, m, n] = sum over k of x[b, m, k] y[b, k, n], with the strides of each operand along these axes. The sum goes up k for
// every element, whatever the lengths; a few rows and columns at a time stay in registers.
template <class T> GA_INLINE T ga_step_of(T x, T y, T sum) { return x * y + sum; }
GA_INLINE float ga_step_of(float x, float y, float sum) { return ga_fma(x, y, sum); }
GA_INLINE double ga_step_of(double x, double y, double sum) { return ga_fma(x, y, sum); }
template <ga_index R, ga_index C, ga_index N, ga_index K, ga_index XM, ga_index XK, ga_index YN, ga_index YK, class T>
GA_INLINE void ga_product_tile(const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o) {
    T sum[R][C];
    for (ga_index r = 0; r < R; ++r)
        for (ga_index c = 0; c < C; ++c) sum[r][c] = 0;
    for (ga_index k = 0; k < K; ++k)
        for (ga_index r = 0; r < R; ++r) {
            const T left = x[r * XM + k * XK];
            for (ga_index c = 0; c < C; ++c) sum[r][c] = ga_step_of(left, y[k * YK + c * YN], sum[r][c]);
        }
    for (ga_index r = 0; r < R; ++r)
        for (ga_index c = 0; c < C; ++c) o[r * N + c] = sum[r][c];
}
template <ga_index C, ga_index M, ga_index N, ga_index K, ga_index XM, ga_index XK, ga_index YN, ga_index YK, class T>
GA_INLINE void ga_product_columns(const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o) {
    constexpr ga_index R = 4;
    ga_index m = 0;
    for (; m + R <= M; m += R) ga_product_tile<R, C, N, K, XM, XK, YN, YK>(x + m * XM, y, o + m * N);
    for (; m < M; ++m) ga_product_tile<1, C, N, K, XM, XK, YN, YK>(x + m * XM, y, o + m * N);
}
// Elements that lie along the sum in both operands: partial sums side by side, merged in a fixed order.
template <ga_index M, ga_index N, ga_index K, ga_index XM, ga_index YN, class T>
GA_INLINE void ga_product_dots(const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o) {
    constexpr ga_index L = 16;
    for (ga_index m = 0; m < M; ++m)
        for (ga_index n = 0; n < N; ++n) {
            T part[L];
            for (ga_index l = 0; l < L; ++l) part[l] = 0;
            ga_index k = 0;
            for (; k + L <= K; k += L)
                for (ga_index l = 0; l < L; ++l) part[l] = ga_step_of(x[m * XM + k + l], y[n * YN + k + l], part[l]);
            for (ga_index l = 0; k + l < K; ++l) part[l] = ga_step_of(x[m * XM + k + l], y[n * YN + k + l], part[l]);
            for (ga_index half = L / 2; half > 0; half /= 2)
                for (ga_index l = 0; l < half; ++l) part[l] += part[l + half];
            o[m * N + n] = part[0];
        }
}
template <ga_index B, ga_index M, ga_index N, ga_index K, ga_index XB, ga_index XM, ga_index XK, ga_index YB, ga_index YN,
          ga_index YK, class T>
static inline void ga_product(const T* GA_ALONE x, const T* GA_ALONE y, T* GA_ALONE o) {
    for (ga_index b = 0; b < B; ++b, x += XB, y += YB, o += M * N) {
        if constexpr (XK == 1 && YK == 1 && (N == 1 || YN != 1) && K >= 32) {
            ga_product_dots<M, N, K, XM, YN>(x, y, o);
        } else if constexpr (N == 1 && XM == 1) {
            // A column from columns: the rows lie side by side.
            ga_product_columns<(M < 32 ? M : 32), 1, M, K, 0, YK, XM, XK>(y, x, o);
            constexpr ga_index done = M < 32 ? M : 32;
            for (ga_index m = done; m < M; ++m) ga_product_tile<1, 1, 1, K, XM, XK, YN, YK>(x + m * XM, y, o + m);
        } else {
            constexpr ga_index C = N < 32 ? N : 32;
            ga_index n = 0;
            for (; n + C <= N; n += C) ga_product_columns<C, M, N, K, XM, XK, YN, YK>(x, y + n * YN, o + n);
            if constexpr (N % C != 0) ga_product_columns<N % C, M, N, K, XM, XK, YN, YK>(x, y + n * YN, o + n);
        }
    }
}
