// Factors of matrices, their systems and eigenvalues, a matrix a task.
//
// As LAPACK's: the same choices and the same order of the results; sums may be rounded in another order.

//@ ga_cholesky
// The lower factor L of N x N matrices L L^T, from their lower triangles; nan if there is none.
template <class T, ga_index N>
static inline void ga_cholesky(ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE o) {
    for (ga_index task = first; task < last; ++task) {
        const T* const a = x + task * N * N;
        T* const l = o + task * N * N;
        bool whole = true;
        for (ga_index j = 0; j < N; ++j) {
            T rest = a[j * N + j];
            for (ga_index k = 0; k < j; ++k) rest -= l[j * N + k] * l[j * N + k];
            whole &= rest > 0;
            const T root = ga_sqrt(rest), scale = 1 / root;
            l[j * N + j] = root;
            for (ga_index i = j + 1; i < N; ++i) {
                T sum = a[i * N + j];
                for (ga_index k = 0; k < j; ++k) sum -= l[i * N + k] * l[j * N + k];
                l[i * N + j] = sum * scale;
                l[j * N + i] = 0;
            }
        }
        if (!whole)
            for (ga_index i = 0; i < N * N; ++i) l[i] = (T)GA_NAN;
    }
}

//@ ga_lu
// L and U of M x N matrices in one, the row that each row changed places with, and where the rows came from: as in LAPACK,
// the largest element of a column, the first of equal ones, is divided by.
template <class T, ga_index M, ga_index N>
static inline void ga_lu(
    ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE o, int* GA_ALONE pivots, int* GA_ALONE rows) {
    constexpr ga_index K = M < N ? M : N;
    for (ga_index task = first; task < last; ++task) {
        T* const a = o + task * M * N;
        int *const pivot = pivots + task * K, *const row = rows + task * M;
        for (ga_index i = 0; i < M * N; ++i) a[i] = x[task * M * N + i];
        for (ga_index i = 0; i < M; ++i) row[i] = (int)i;
        for (ga_index k = 0; k < K; ++k) {
            ga_index at = k;
            for (ga_index i = k + 1; i < M; ++i)
                if (ga_abs(a[i * N + k]) > ga_abs(a[at * N + k])) at = i;
            pivot[k] = (int)at;
            if (at != k) {
                for (ga_index j = 0; j < N; ++j) {
                    const T kept = a[k * N + j];
                    a[k * N + j] = a[at * N + j];
                    a[at * N + j] = kept;
                }
                const int kept = row[k];
                row[k] = row[at];
                row[at] = kept;
            }
            // The column is zero: no division.
            if (a[k * N + k] == 0) continue;
            for (ga_index i = k + 1; i < M; ++i) {
                const T part = a[i * N + k] /= a[k * N + k];
                for (ga_index j = k + 1; j < N; ++j) a[i * N + j] -= part * a[k * N + j];
            }
        }
    }
}

//@ ga_triangular
// Solutions y of C systems A y = b with one N x N triangular matrix each task. Elements of A are AI and AJ apart along its
// rows and columns, those of a system BI apart, and systems BC.
template <class T, ga_index N, ga_index C, ga_index AI, ga_index AJ, ga_index BI, ga_index BC, bool LOWER, bool UNIT>
static inline void ga_triangular(
    ga_index first, ga_index last, const T* GA_ALONE x, const T* GA_ALONE b, T* GA_ALONE o) {
    for (ga_index task = first; task < last; ++task) {
        const T* const a = x + task * N * N;
        T* const y = o + task * N * C;
        for (ga_index i = 0; i < N * C; ++i) y[i] = b[task * N * C + i];
        for (ga_index step = 0; step < N; ++step) {
            const ga_index k = LOWER ? step : N - 1 - step, begin = LOWER ? k + 1 : 0, end = LOWER ? N : k;
            if constexpr (!UNIT)
                for (ga_index c = 0; c < C; ++c) y[k * BI + c * BC] /= a[k * AI + k * AJ];
            for (ga_index i = begin; i < end; ++i)
                for (ga_index c = 0; c < C; ++c) y[i * BI + c * BC] -= a[i * AI + k * AJ] * y[k * BI + c * BC];
        }
    }
}

// ---- larger ones, by the library ----

//@ ga_lapack
// The functions syevd, getrf, potrf, geqrf, orgqr, gesdd and geev that SciPy exports for compiled code, of floats and of
// doubles; set when the unit is loaded. Arguments are Fortran's, all by address, and matrices are column-major:
// transposed.
GA_CALLED void* ga_lapack[14];
void* ga_lapack[14];

//@ ga_cholesky_by_library
// As `ga_cholesky`.
template <class T, ga_index N>
static void ga_cholesky_by_library(ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE o) {
    typedef void (*call)(char*, int*, T*, int*, int*);
    ga_blas_alone(true);
    for (ga_index task = first; task < last; ++task) {
        T* const l = o + task * N * N;
        for (ga_index i = 0; i < N * N; ++i) l[i] = x[task * N * N + i];
        char part = 'U';
        int n = N, info;
        ((call)ga_lapack[4 + (sizeof(T) == 8)])(&part, &n, l, &n, &info);
        bool whole = info == 0;
        for (ga_index i = 0; i < N; ++i) {
            whole &= l[i * N + i] > 0;
            for (ga_index j = i + 1; j < N; ++j) l[i * N + j] = 0;
        }
        if (!whole)
            for (ga_index i = 0; i < N * N; ++i) l[i] = (T)GA_NAN;
    }
    ga_blas_alone(false);
}

//@ ga_lu_by_library
// As `ga_lu`.
template <class T, ga_index M, ga_index N>
static void ga_lu_by_library(
    ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE o, int* GA_ALONE pivots, int* GA_ALONE rows) {
    typedef void (*call)(int*, int*, T*, int*, int*, int*);
    constexpr ga_index K = M < N ? M : N;
    GA_LOCAL T a[M * N];
    ga_blas_alone(true);
    for (ga_index task = first; task < last; ++task) {
        int *const pivot = pivots + task * K, *const row = rows + task * M;
        ga_turn(a, M, x + task * M * N, N, N, M);
        int m = M, n = N, info;
        ((call)ga_lapack[2 + (sizeof(T) == 8)])(&m, &n, a, &m, pivot, &info);
        ga_turn(o + task * M * N, N, a, M, M, N);
        for (ga_index i = 0; i < M; ++i) row[i] = (int)i;
        for (ga_index k = 0; k < K; ++k) {
            const int at = --pivot[k], kept = row[k];
            row[k] = row[at];
            row[at] = kept;
        }
    }
    ga_blas_alone(false);
}

//@ ga_qr_by_library
// The first C columns of an orthogonal matrix, if they are wanted, and the upper triangle that M x N matrices are with it.
template <class T, ga_index M, ga_index N, ga_index C, bool WANTED>
static void ga_qr_by_library(ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE q, T* GA_ALONE r) {
    typedef void (*factor)(int*, int*, T*, int*, T*, T*, int*, int*);
    typedef void (*columns)(int*, int*, int*, T*, int*, T*, T*, int*, int*);
    constexpr ga_index K = M < N ? M : N, W = C < N ? N : C;
    GA_LOCAL T a[M * W], tau[K], work[32 * W];
    int m = M, n = N, c = C, k = K, room = 32 * W, info;
    ga_blas_alone(true);
    for (ga_index task = first; task < last; ++task) {
        ga_turn(a, M, x + task * M * N, N, N, M);
        ((factor)ga_lapack[6 + (sizeof(T) == 8)])(&m, &n, a, &m, tau, work, &room, &info);
        for (ga_index i = 0; i < C; ++i)
            for (ga_index j = 0; j < N; ++j) r[(task * C + i) * N + j] = i <= j ? a[j * M + i] : 0;
        if (!WANTED) continue;
        ((columns)ga_lapack[8 + (sizeof(T) == 8)])(&m, &c, &k, a, &m, tau, work, &room, &info);
        ga_turn(q + task * M * C, C, a, M, M, C);
    }
    ga_blas_alone(false);
}

//@ ga_triangular_by_library
// Y with op(A) Y = B, or Y op(A) = B, for N x N and R x C matrices. In column-major order the result is transposed, and
// the order of the product is reversed.
template <class T, ga_index N, ga_index R, ga_index C, bool LEFT, bool LOWER, bool TURNED, bool UNIT>
static void ga_triangular_by_library(
    ga_index first, ga_index last, const T* GA_ALONE x, const T* GA_ALONE b, T* GA_ALONE o) {
    typedef void (*call)(char*, char*, char*, char*, int*, int*, T*, const T*, int*, T*, int*);
    ga_blas_alone(true);
    for (ga_index task = first; task < last; ++task) {
        T* const y = o + task * R * C;
        for (ga_index i = 0; i < R * C; ++i) y[i] = b[task * R * C + i];
        char side = LEFT ? 'R' : 'L', part = LOWER ? 'U' : 'L', turned = TURNED ? 'T' : 'N', unit = UNIT ? 'U' : 'N';
        int m = C, n = R, of_a = N;
        T one = 1;
        ((call)ga_blas[ga_blas_of<T>::trsm])(&side, &part, &turned, &unit, &m, &n, &one, x + task * N * N, &of_a, y, &m);
    }
    ga_blas_alone(false);
}

//@ ga_eigh
// COUNT vectors (as columns), if they are wanted, and values, from FIRST on, of symmetric N x N matrices, of which one
// triangle is read; nan if an element is not finite, or if the iteration does not converge.
template <class T, ga_index N, bool LOWER, ga_index FIRST, ga_index COUNT, bool WANTED>
static void ga_eigh(ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE vectors, T* GA_ALONE values) {
    typedef void (*call)(char*, char*, int*, T*, int*, T*, T*, int*, int*, int*, int*);
    GA_LOCAL T a[N * N], w[N], work[1 + 6 * N + 2 * N * N];
    GA_LOCAL int whole[3 + 5 * N];
    for (ga_index task = first; task < last; ++task) {
        const T* const from = x + task * N * N;
        bool finite = true;
        for (ga_index i = 0; i < N; ++i)
            for (ga_index j = 0; j < N; ++j) {
                const T value = from[i * N + j];
                finite &= value - value == 0;
                a[j * N + i] = value;
            }
        char job = WANTED ? 'V' : 'N', part = LOWER ? 'L' : 'U';
        int n = N, reals = 1 + 6 * N + 2 * N * N, integers = 3 + 5 * N, info = 1;
        if (finite) ((call)ga_lapack[sizeof(T) == 8])(&job, &part, &n, a, &n, w, work, &reals, whole, &integers, &info);
        T *const v = vectors + task * N * COUNT, *const e = values + task * COUNT;
        for (ga_index i = 0; i < (WANTED ? N : 0); ++i)
            for (ga_index c = 0; c < COUNT; ++c) v[i * COUNT + c] = info ? (T)GA_NAN : a[(FIRST + c) * N + i];
        for (ga_index c = 0; c < COUNT; ++c) e[c] = info ? (T)GA_NAN : w[FIRST + c];
    }
}

//@ ga_wider
// The type in which floats are computed: doubles, where WIDE says so.
template <class T, bool WIDE> struct ga_wider { typedef T type; };
template <> struct ga_wider<float, true> { typedef double type; };

//@ ga_svd_by_library
// COUNT singular values of M x N matrices from FIRST on, and, if they are wanted, the vectors of those or, if FULL, of whole
// spaces; nan where an element is not finite, or where the iteration does not end.
template <class T, bool WIDE, ga_index M, ga_index N, ga_index FIRST, ga_index COUNT, bool FULL, bool WANTED>
static void ga_svd_by_library(
    ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE values, T* GA_ALONE u, T* GA_ALONE vt) {
    typedef typename ga_wider<T, WIDE>::type R;
    typedef void (*call)(char*, int*, int*, R*, int*, R*, R*, int*, R*, int*, R*, int*, int*, int*);
    constexpr ga_index K = M < N ? M : N, ROWS = WANTED ? FULL ? M : K : 1, COLUMNS = WANTED ? FULL ? N : K : 1;
    constexpr ga_index BEGIN = FULL ? 0 : FIRST, LEFT = FULL ? M : COUNT, RIGHT = FULL ? N : COUNT;
    constexpr ga_index ROOM = 4 * K * K + 8 * K + 32 * (M + N);
    GA_LOCAL R a[M * N], w[K], left[M * ROWS], right[N * COLUMNS], work[ROOM];
    GA_LOCAL int whole[8 * K];
    ga_blas_alone(true);
    for (ga_index task = first; task < last; ++task) {
        bool finite = true;
        for (ga_index i = 0; i < M; ++i)
            for (ga_index j = 0; j < N; ++j) {
                const T value = x[(task * M + i) * N + j];
                finite &= value - value == 0;
                a[j * M + i] = value;
            }
        char job = !WANTED ? 'N' : FULL ? 'A' : 'S';
        int m = M, n = N, columns = COLUMNS, room = ROOM, info = 1;
        if (finite)
            ((call)ga_lapack[10 + (sizeof(R) == 8)])(
                &job, &m, &n, a, &m, w, left, &m, right, &columns, work, &room, whole, &info);
        for (ga_index c = 0; c < COUNT; ++c) values[task * COUNT + c] = info ? (T)GA_NAN : (T)w[FIRST + c];
        if (!WANTED) continue;
        for (ga_index i = 0; i < M; ++i)
            for (ga_index c = 0; c < LEFT; ++c) u[(task * M + i) * LEFT + c] = info ? (T)GA_NAN : (T)left[(BEGIN + c) * M + i];
        for (ga_index c = 0; c < RIGHT; ++c)
            for (ga_index j = 0; j < N; ++j)
                vt[(task * RIGHT + c) * N + j] = info ? (T)GA_NAN : (T)right[j * COLUMNS + BEGIN + c];
    }
    ga_blas_alone(false);
}

//@ ga_singular_values_by_library
template <class T, bool WIDE, ga_index M, ga_index N, ga_index FIRST, ga_index COUNT>
static void ga_singular_values_by_library(ga_index first, ga_index last, const T* GA_ALONE x, T* GA_ALONE values) {
    ga_svd_by_library<T, WIDE, M, N, FIRST, COUNT, false, false>(first, last, x, values, nullptr, nullptr);
}

//@ ga_eig_by_library
// Eigenvalues of N x N matrices, and their vectors (as columns), if they are wanted: those of the right, or with LEFT of the
// left; nan where an element is not finite, or where the iteration does not end.
template <class T, bool WIDE, ga_index N, bool LEFT>
static void ga_eig_by_library(
    ga_index first, ga_index last, const T* GA_ALONE x, ga_complex<T>* GA_ALONE values, ga_complex<T>* GA_ALONE vectors) {
    typedef typename ga_wider<T, WIDE>::type R;
    typedef void (*call)(char*, char*, int*, R*, int*, R*, R*, R*, int*, R*, int*, R*, int*, int*);
    GA_LOCAL R a[N * N], re[N], im[N], v[N * N], work[36 * N];
    ga_blas_alone(true);
    for (ga_index task = first; task < last; ++task) {
        bool finite = true;
        for (ga_index i = 0; i < N; ++i)
            for (ga_index j = 0; j < N; ++j) {
                const T value = x[(task * N + i) * N + j];
                finite &= value - value == 0;
                a[j * N + i] = value;
            }
        char left = vectors && LEFT ? 'V' : 'N', right = vectors && !LEFT ? 'V' : 'N';
        int n = N, room = 36 * N, info = 1;
        if (finite)
            ((call)ga_lapack[12 + (sizeof(R) == 8)])(&left, &right, &n, a, &n, re, im, v, &n, v, &n, work, &room, &info);
        const ga_complex<T> none{(T)GA_NAN, (T)GA_NAN};
        for (ga_index c = 0; c < N; ++c) {
            values[task * N + c] = info ? none : ga_complex<T>{(T)re[c], (T)im[c]};
            if (!vectors) continue;
            // Two conjugate vectors are two columns of numbers: their real and their imaginary parts.
            const ga_index at = !info && im[c] < 0 ? c - 1 : c;
            const R sign = info || im[c] == 0 ? 0 : im[c] < 0 ? -1 : 1;
            for (ga_index i = 0; i < N; ++i)
                vectors[(task * N + i) * N + c] =
                    info ? none : ga_complex<T>{(T)v[at * N + i], sign == 0 ? 0 : (T)(sign * v[(at + 1) * N + i])};
        }
    }
    ga_blas_alone(false);
}

//@ ga_eigenvalues_by_library
template <class T, bool WIDE, ga_index N>
static void ga_eigenvalues_by_library(ga_index first, ga_index last, const T* GA_ALONE x, ga_complex<T>* GA_ALONE values) {
    ga_eig_by_library<T, WIDE, N, false>(first, last, x, values, nullptr);
}
