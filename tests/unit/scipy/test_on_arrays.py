"""SciPy's functions, and code in the manner of scikit-learn, given our arrays.

In: a table of calls, one a line; the same line runs on NumPy arrays and on ours, in strict mode.
Out: equal numbers, whatever they come in; no fallback on the way.
"""

import numpy as np
import pytest
import scipy
import scipy.cluster.hierarchy
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.spatial
import scipy.special
import scipy.stats

import gpuarray.numpy as gnp

PARTS = (
    "stats optimize interpolate signal ndimage linalg spatial cluster fft integrate special sparse"
)
_R = np.random.default_rng(0)
VALUES = {
    "x": _R.normal(size=30).astype(np.float32),
    "y": _R.normal(size=30).astype(np.float32),
    "up": np.linspace(0, 3, 10, dtype=np.float32),
    "v": np.sin(np.linspace(0, 3, 10, dtype=np.float32)),
    "m": _R.normal(size=(12, 3)).astype(np.float32),
    "n": _R.normal(size=(8, 3)).astype(np.float32),
    "s": np.array([[4, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 2]], np.float32),
    "a": np.array([[4, 7, 1], [2, 6, 9], [-1, 3, 5]], np.float32),
    "b": np.array([1, 2, 3], np.float32),
    "i": np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32),
    "im": np.arange(48, dtype=np.float32).reshape(6, 8) % 7,
    "t": np.array([[10, 20, 30], [6, 9, 17]], np.int32),
}

CALLS = """
stats.kstest(x, "norm")
stats.ks_2samp(x, y)
stats.mode(i)
stats.mode(im, axis=1, keepdims=True)
stats.ttest_ind(x, y)
stats.ttest_ind(x, y, equal_var=False)
stats.ttest_1samp(x, 0.1)
stats.ttest_rel(x, y)
stats.linregress(x, y)
stats.pearsonr(x, y)
stats.spearmanr(x, y)
stats.kendalltau(x, y)
stats.gaussian_kde(x)(up)
stats.gaussian_kde(m.T).logpdf(n.T)
stats.norm.pdf(x)
stats.norm.cdf(x, loc=[0.5], scale=2)
stats.norm.fit(x)
stats.t.ppf(v / 2 + 0.3, 5)
stats.multivariate_normal(b, s).logpdf(m)
stats.poisson.pmf(i, 3)
stats.skew(x)
stats.kurtosis(m, axis=0)
stats.zscore(m, axis=0)
stats.describe(x).variance
stats.sem(x)
stats.iqr(x)
stats.rankdata(i)
stats.entropy(v + 1)
stats.f_oneway(x, y, up)
stats.mannwhitneyu(x, y)
stats.wilcoxon(x, y)
stats.shapiro(x)
stats.chisquare(i)
stats.chi2_contingency(t).statistic
stats.trim_mean(x, 0.1)
stats.binned_statistic(x, y, "mean", bins=4).statistic
stats.percentileofscore(x, 0.2)
optimize.least_squares(lambda p: p[0] * up + p[1] - v, [1, 1]).x
optimize.least_squares(lambda p: a @ p - b, [0, 0, 0], method="dogbox", bounds=([-9] * 3, b)).x
optimize.least_squares(lambda p: a @ p - b, [0, 0, 0], method="lm").x
optimize.least_squares(lambda p: a @ p - b, b).x
optimize.least_squares(lambda p: a @ p - b, b, jac=lambda p: a).x
optimize.least_squares(lambda p: a @ p - b, b, method="dogbox", bounds=(b - 9, b + 9)).x
optimize.least_squares(lambda p: a @ p - b, b, method="lm").x
optimize.minimize(lambda p: np.sum((p - b) ** 2), [0, 0, 0], method="Powell").x
optimize.minimize(lambda p: np.sum((p - b) ** 2), [0, 0, 0], method="Nelder-Mead").x
optimize.minimize(lambda p: ((p - b) ** 2).sum(), b * 0, jac=lambda p: np.asarray(p - b) * 2).x
optimize.curve_fit(lambda t, k, c: k * t + c, up, v)[0]
optimize.root(lambda p: a @ p - b, b).x
optimize.brentq(lambda t: float(np.interp(t, up, v)) - 0.5, 0, 1)
optimize.nnls(s, b)[0]
optimize.linear_sum_assignment(s)
optimize.linprog(b, A_ub=-s, b_ub=-b).x
optimize.fsolve(lambda p: np.asarray(s @ p) - [1, 2, 3], b)
interpolate.interp1d(up, v)([0.1, 0.2])
interpolate.interp1d(up, v, kind="cubic")(up[:3])
interpolate.CubicSpline(up, v)(0.5)
interpolate.PchipInterpolator(up, v)(up[2:4])
interpolate.make_interp_spline(up, v)(0.3)
interpolate.splev(0.5, interpolate.splrep(up, v))
interpolate.RegularGridInterpolator((up[:6], up[:8]), im)([[0.5, 0.5]])
interpolate.griddata(m[:, :2], m[:, 2], m[:2, :2] * 0.5)
interpolate.RBFInterpolator(m, m[:, 0])(n)
signal.convolve(x, [1, 2, 1])
signal.fftconvolve(x, v)
signal.correlate(x, v, mode="same")
signal.lfilter([1], [1, 0.5], x)
signal.filtfilt([0.5, 0.5], [1], x)
signal.sosfilt(signal.butter(2, 0.3, output="sos"), x)
signal.savgol_filter(x, 5, 2)
signal.find_peaks(x)[0]
signal.hilbert(x)
signal.welch(x, nperseg=16)
signal.detrend(x)
signal.medfilt(x, 3)
signal.resample(x, 15)
signal.convolve2d(im, [[1, 0], [0, 1]], mode="same")
signal.peak_widths(x, signal.find_peaks(x)[0])[0]
ndimage.gaussian_filter(im, 1)
ndimage.uniform_filter(im, 3)
ndimage.median_filter(im, size=3)
ndimage.convolve(im, [[1, 0, 1], [0, 1, 0], [1, 0, 1]])
ndimage.sobel(im)
ndimage.label(im > 3)[0]
ndimage.center_of_mass(im)
ndimage.zoom(im, 2, order=1)
ndimage.rotate(im, 30, reshape=False)
ndimage.map_coordinates(im, [[0.5, 1.5], [1.0, 2.0]], order=1)
ndimage.binary_dilation(im > 4)
ndimage.distance_transform_edt(im > 1)
ndimage.sum_labels(im, im > 3, [0, 1])
linalg.solve(a, b)
linalg.inv(a)
linalg.det(a)
linalg.cholesky(s)
linalg.eigh(s, eigvals_only=True)
linalg.svd(m, compute_uv=False)
linalg.lu_solve(linalg.lu_factor(a), b)
linalg.expm(s)
linalg.norm(m, 2)
linalg.lstsq(m, m[:, 0])[0]
linalg.qr(m, mode="r")[0] ** 2
linalg.block_diag(a, s)
linalg.toeplitz(b)
linalg.solve_triangular(a, b, lower=True)
linalg.cho_solve(linalg.cho_factor(s), b)
linalg.pinv(m)
spatial.distance.pdist(m)
spatial.distance.cdist(m, n, "cityblock")
spatial.distance.squareform(spatial.distance.pdist(n))
spatial.distance.cosine(x, y)
spatial.distance.euclidean(x, y)
spatial.distance.jaccard(x > 0, y > 0)
spatial.cKDTree(m).query(n)
spatial.ConvexHull(m).volume
spatial.transform.Rotation.from_rotvec(b).apply(m)
cluster.vq.kmeans2(m, m[:3], minit="matrix", seed=0)[1]
cluster.vq.vq(m, n)
cluster.vq.whiten(m)
cluster.hierarchy.linkage(m, "ward")
cluster.hierarchy.fcluster(cluster.hierarchy.linkage(m), 2, "maxclust")
fft.fft(x)
fft.rfft(x, n=16)
fft.dct(x)
fft.fftn(im, axes=(0, 1))
integrate.trapezoid(v, up)
integrate.simpson(v, x=up)
integrate.cumulative_trapezoid(v, up, initial=0)
integrate.solve_ivp(lambda t, q: -np.asarray(s @ q), (0, 1), b).y[:, -1]
integrate.quad(lambda t: float(np.interp(t, up, v)), 0, 2, limit=200)[0]
special.erf(x)
special.logsumexp(m, axis=1)
special.softmax(m, axis=1)
special.gammaln(up + 1)
special.expit(x)
sparse.csr_matrix(s) @ np.asarray(b)
sparse.csr_matrix(im).sum(axis=0)
sparse.coo_array((b, (i[:3], i[:3]))).toarray()
"""


def numbers(result):
    """All the numbers of a result, in order."""
    if isinstance(result, (tuple, list)):
        return np.concatenate([numbers(x) for x in result] or [np.zeros(0)])
    if hasattr(result, "_asdict") or hasattr(result, "__dataclass_fields__"):
        return numbers([x for x in vars(result).values() if not callable(x)])
    if hasattr(result, "statistic"):
        return numbers([result.statistic, result.pvalue])
    if hasattr(result, "toarray"):
        result = result.toarray()
    value = np.asarray(result)
    return np.zeros(0) if value.dtype == object else value.ravel()


def run(line, make):
    names = {name: make(v) for name, v in VALUES.items()}
    return eval(line, {"np": np, **{n: getattr(scipy, n) for n in PARTS.split()}, **names})


@pytest.mark.parametrize("line", CALLS.strip().splitlines())
def test_scipy_takes_our_arrays(line):
    wanted = numbers(run(line, np.copy))
    assert wanted.size
    found = numbers(run(line, gnp.asarray))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-4)


# ---- in the manner of scikit-learn ----


def check_array(X):
    """Validation: two dimensions, numbers, finite."""
    X = np.asarray(X)
    if not np.isfinite(np.sum(X)) and not np.isfinite(X).all():
        raise ValueError("Input contains NaN")
    assert X.ndim == 2 and X.shape[0] >= 1 and np.issubdtype(X.dtype, np.floating)
    return X


def finite(X):
    """The same without a conversion."""
    if not np.isfinite(np.sum(X)):
        raise ValueError("Input contains NaN")
    assert np.ndim(X) == 2 and np.shape(X)[0] == X.shape[0] and not np.iscomplexobj(X)
    return np.any(np.isnan(X)), np.all(np.isfinite(X))


def scaled(X, w):
    mean = np.average(X, axis=0, weights=w)
    variance = np.average((X - mean) ** 2, axis=0, weights=w)
    scale = np.sqrt(variance)
    scale = np.where(scale == 0.0, 1.0, scale)
    return (X - mean) / scale


def squared_distances(X, Y):
    out = np.empty((X.shape[0], Y.shape[0]), np.float32)
    np.matmul(X, np.transpose(Y), out=out)
    out *= -2
    np.add(out, np.einsum("ij,ij->i", X, X)[:, np.newaxis], out=out)
    np.add(out, np.einsum("ij,ij->i", Y, Y)[np.newaxis, :], out=out)
    return np.maximum(out, 0, out=out)


def neighbours(X, Y, k):
    d = squared_distances(X, Y)
    nearest = np.argpartition(d, k - 1, axis=1)[:, :k]
    rows = np.arange(d.shape[0])[:, None]
    return np.sort(np.sqrt(d[rows, nearest]), axis=1)


def neighbours_here(X, k):
    d = np.sqrt(np.sum((X[:, None] - X[None]) ** 2, axis=-1))
    nearest = np.argsort(d, axis=1, kind="mergesort")[:, 1 : k + 1]
    return np.take_along_axis(d, nearest, axis=1)


def kmeans(X, centres, steps):
    for _ in range(steps):
        labels = np.argmin(((X[:, None] - centres[None]) ** 2).sum(-1), axis=1)
        sums = np.zeros(centres.shape, np.float32)
        np.add.at(sums, labels, X)
        counts = np.bincount(labels, minlength=len(centres))
        centres = sums / np.clip(counts, 1, None)[:, None]
    return centres


def kmeans_plus_plus(X, k, rng):
    centres = [X[rng.integers(X.shape[0])]]
    for _ in range(k - 1):
        closest = np.min([np.sum((X - c) ** 2, axis=1) for c in centres], axis=0)
        at = np.searchsorted(np.cumsum(closest), rng.random() * closest.sum())
        centres.append(X[np.clip(at, None, X.shape[0] - 1)])
    return np.vstack(centres)


def pca(X, k):
    X = X - np.mean(X, axis=0)
    U, S, Vt = np.linalg.svd(X, full_matrices=False)
    signs = np.sign(U[np.argmax(np.abs(U), axis=0), range(U.shape[1])])
    U, Vt = U * signs, Vt * signs[:, np.newaxis]
    ratio = S**2 / np.sum(S**2)
    return U[:, :k] * S[:k], np.cumsum(ratio), np.dot(X, Vt.T)[:, :k]


def ridge(X, y, alpha):
    A = np.dot(X.T, X)
    A = A + alpha * np.eye(A.shape[0], dtype=np.float32)
    return np.linalg.solve(A, np.dot(X.T, y))


def least_squares(X, y):
    coef, residual, rank, singular = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y)
    return coef, residual, rank, singular


def encoded(labels):
    classes, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    onehot = np.zeros((len(labels), len(classes)))
    onehot[np.arange(len(labels)), inverse] = 1
    return classes, onehot, counts, np.isin(labels, classes[:2]).sum()


def naive_bayes(X, labels):
    means = np.vstack([np.mean(X[np.flatnonzero(labels == c)], axis=0) for c in (0, 1)])
    spread = np.stack([np.var(X[np.where(labels == c)], axis=0) for c in (0, 1)]) + 1e-9
    log = -0.5 * np.sum(np.log(2 * np.pi * spread), 1)
    log = log - 0.5 * np.sum((X[:, None] - means) ** 2 / spread, -1)
    top = np.max(log, axis=1, keepdims=True)
    return np.exp(log - top) / np.sum(np.exp(log - top), axis=1, keepdims=True)


def logistic(X, labels, steps):
    w = np.zeros(X.shape[1], np.float32)
    for _ in range(steps):
        p = 1 / (1 + np.exp(-np.clip(X @ w, -30, 30)))
        w = w - 0.1 * np.dot(X.T, p - labels) / X.shape[0]
    return w


def perceptron(X, labels):
    w = np.zeros(X.shape[1], np.float32)
    signs = np.where(labels > 0, 1, -1)
    for row, sign in zip(X, signs, strict=True):
        if sign * np.dot(w, row) <= 0:
            w += np.asarray(sign * row)
    return w


def confusion(labels, guesses):
    pairs = np.ravel_multi_index((labels, guesses), (2, 2))
    matrix = np.bincount(pairs, minlength=4).reshape(2, 2)
    return matrix, np.diag(matrix) / np.maximum(matrix.sum(axis=1), 1)


def roc_auc(labels, scores):
    order = np.argsort(scores, kind="mergesort")[::-1]
    labels = np.take(labels, order)
    tps = np.cumsum(labels)
    fps = 1 + np.arange(len(labels)) - tps
    tpr = np.concatenate([[0.0], tps / tps[-1]])
    fpr = np.r_[0.0, np.asarray(fps / fps[-1])]
    return np.trapezoid(tpr, fpr)


def folds(X, k, rng):
    at = np.arange(X.shape[0])
    rng.shuffle(at)
    parts = np.array_split(at, k)
    means = []
    for held in parts:
        mask = np.ones(X.shape[0], dtype=bool)
        mask[held] = False
        means.append(np.mean(X[mask], axis=0) - np.mean(np.take(X, held, axis=0), axis=0))
    return np.stack(means)


def train_test(X, rng):
    order = rng.permutation(len(X))
    train, test = np.split(order, [8])
    return X[train], X[test], rng.choice(np.asarray(X[:, 0]), 3), rng.permutation(X[:, 0])


def binned(X, k):
    edges = [np.percentile(c, np.linspace(0, 100, k + 1)) for c in X.T]
    return np.stack(
        [np.digitize(c, e[1:-1], right=False) for c, e in zip(X.T, edges, strict=True)], axis=1
    )


def imputed(X):
    X = np.where(X > 1, np.nan, X)
    statistics = np.nanmedian(X, axis=0)
    return np.where(np.isnan(X), statistics, X), np.count_nonzero(np.isnan(X), axis=0)


def polynomial(X):
    columns = [X[:, [i]] * X[:, i:] for i in range(X.shape[1])]
    return np.hstack([np.ones((X.shape[0], 1), np.float32), X, *columns])


def weighted_median(X, w):
    order = np.argsort(X)
    below = np.cumsum(np.take_along_axis(w, order, axis=0))
    return X[order[np.searchsorted(below, 0.5 * below[-1])]]


def into_numpy(X):
    out = np.empty(X.shape, np.float64)
    np.copyto(out, X)
    np.clip(X, -1, 1, out=out[:])
    out[0] = X[1]
    out[1:3] = np.sqrt(np.abs(X[1:3]))
    np.putmask(out, np.asarray(X) > 0.5, [7.0])
    return out


def tree_split(X, labels):
    best = []
    for column in X.T:
        order = np.argsort(column)
        left = np.cumsum(np.take(labels, order))[:-1]
        n = np.arange(1, len(labels))
        right = np.sum(labels) - left
        p, q = left / n, right / (len(labels) - n)
        gini = n * p * (1 - p) + (len(labels) - n) * q * (1 - q)
        best.append(np.min(gini))
    return best


def affinity(X):
    gram = np.tensordot(X, X, axes=(1, 1))
    np.testing.assert_allclose(gram, np.inner(X, X), rtol=1e-4, atol=1e-5)
    kernel = np.exp(-(np.add.outer(np.diag(gram), np.diag(gram)) - 2 * gram))
    assert np.allclose(kernel, kernel.T, rtol=[1e-4]) is True
    values = np.linalg.eigvalsh(kernel)
    return np.tril(kernel), values, np.kron(X[:2], [[1, 2]]), np.corrcoef(X, rowvar=False)


M, W = VALUES["m"], np.arange(1, 13).astype(np.float32)
LABELS = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0], np.int32)
LEARNERS = {
    "check_array": (check_array, M),
    "finite": (finite, M),
    "scaled": (scaled, M, W),
    "squared_distances": (squared_distances, M, VALUES["n"]),
    "neighbours": (neighbours, M, VALUES["n"], 3),
    "neighbours here": (neighbours_here, M, 3),
    "kmeans": (kmeans, M, M[:3], 4),
    "kmeans++": (lambda X: kmeans_plus_plus(X, 3, np.random.default_rng(1)), M),
    "pca": (pca, M, 2),
    "ridge": (ridge, M, W, 0.5),
    "least squares": (least_squares, M, W),
    "encoded": (encoded, LABELS),
    "naive Bayes": (naive_bayes, M, LABELS),
    "logistic": (logistic, M, LABELS, 5),
    "perceptron": (perceptron, M, LABELS),
    "confusion": (confusion, LABELS, LABELS[::-1]),
    "roc_auc": (roc_auc, LABELS, W),
    "folds": (lambda X: folds(X, 3, np.random.default_rng(2)), M),
    "train and test": (lambda X: train_test(X, np.random.default_rng(3)), M),
    "binned": (binned, M, 4),
    "imputed": (imputed, M),
    "polynomial": (polynomial, M),
    "weighted median": (weighted_median, M[:, 0], W),
    "into NumPy": (into_numpy, M),
    "tree": (tree_split, M, LABELS),
    "affinity": (affinity, M),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_code_in_the_manner_of_scikit_learn(name):
    function, *given = LEARNERS[name]
    wanted = numbers(function(*given))
    found = numbers(function(*[gnp.asarray(x) if isinstance(x, np.ndarray) else x for x in given]))
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-4)
