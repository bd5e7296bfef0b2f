"""Which products may be rounded to TF32.

In: precisions, and functions that multiply matrices on their way to something else. Out: JAX's rule
(lax.Precision: DEFAULT and HIGH use TF32 on GPUs that have it, HIGHEST does not), full precision
inside functions, and derivatives as precise as what they are of.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, random, scipy
from gpuarray.core.graph import Eqn, Graph, graphs_in
from gpuarray.experimental.sparse.linalg import lobpcg_standard
from gpuarray.primitives.contract.precision import allows_tf32, canonicalize_precision
from gpuarray.scipy.spatial.transform import Rotation
from gpuarray.scipy.stats import gaussian_kde

RULE = {
    None: True,
    "default": True,
    "fastest": True,
    "bfloat16": True,
    "high": True,
    "tensorfloat32": True,
    "bfloat16_3x": True,
    "highest": False,
    "float32": False,
    ("default", "high"): True,
    ("highest", "default"): False,
    ("default", "highest"): False,
    "TF32_TF32_F32": True,
    "TF32_TF32_F32_X3": False,
    "BF16_BF16_F32_X9": False,
    "F32_F32_F32": False,
    "F64_F64_F64": False,
    lax.DotAlgorithmPreset.DEFAULT: True,
    lax.DotAlgorithm(np.float32, np.float32, np.float32): False,
}


@pytest.mark.parametrize("precision", RULE, ids=str)
def test_rule(precision):
    assert allows_tf32(canonicalize_precision(precision)) == RULE[precision]


WORDS = [p for p in RULE if p is None or isinstance(p, str)]


@pytest.mark.parametrize("precision", [p for p in WORDS if p not in ("fastest", "bfloat16_3x")])
def test_default_precision(precision):
    """It stands in for a precision that is not given, and for no other."""
    with ga.default_matmul_precision(precision):
        assert allows_tf32(canonicalize_precision(None)) == RULE[precision]
        assert not allows_tf32(canonicalize_precision("highest"))


def contractions(graph: Graph) -> Iterator[Eqn]:
    """The products and convolutions of a graph and those inside it."""
    for eqn in graph.eqns:
        if "precision" in eqn.params:
            yield eqn
        for inner in graphs_in(eqn.params):
            yield from contractions(inner)


def roundings(f, *args) -> list[bool]:
    """Whether each of the products and convolutions of f may be rounded."""
    return [allows_tf32(e.params["precision"]) for e in contractions(ga.make_jaxpr(f)(*args).jaxpr)]


RNG = np.random.default_rng(0)
A, B = (RNG.normal(size=(5, 5)).astype(np.float32) for _ in range(2))
S, LONG = A @ A.T + np.eye(5, dtype=np.float32), RNG.normal(size=(8, 5)).astype(np.float32)
KEY = random.key(0)
INSIDE = {
    "inv": (gnp.linalg.inv, A),
    "solve": (gnp.linalg.solve, A, B),
    "det": (gnp.linalg.det, A),
    "slogdet": (lambda a: gnp.linalg.slogdet(a)[1], A),
    "pinv": (gnp.linalg.pinv, LONG),
    "lstsq": (lambda a, b: gnp.linalg.lstsq(a, b)[0], LONG, LONG),
    "lstsq with residuals": (lambda a, b: gnp.linalg.lstsq(a, b)[1], LONG, LONG),
    "cholesky": (gnp.linalg.cholesky, S),
    "qr": (lambda a: gnp.linalg.qr(a)[1], LONG),
    "svd": (lambda a: gnp.linalg.svd(a, full_matrices=False)[0], LONG),
    "eigh": (lambda a: gnp.linalg.eigh(a)[1], S),
    "symmetric_product": (lambda a, b: lax.linalg.symmetric_product(a, b), A, S),
    "expm": (scipy.linalg.expm, A),
    "polar": (lambda a: scipy.linalg.polar(a)[0], A),
    "lu": (lambda a: scipy.linalg.lu(a)[1], A),
    "sqrtm": (scipy.linalg.sqrtm, S),
    "solve_sylvester": (lambda a, b: scipy.linalg.solve_sylvester(a, b, a), S, S),
    "eigh of two": (lambda a, b: scipy.linalg.eigh(a, b)[1], S, S),
    "cov": (gnp.cov, LONG),
    "cov, weighted": (lambda a: gnp.cov(a, aweights=gnp.arange(5.0)), LONG),
    "corrcoef": (gnp.corrcoef, LONG),
    "polyfit": (lambda y: gnp.polyfit(gnp.arange(8.0), y, 2, cov=True)[1], LONG[:, 0]),
    "polymul": (gnp.polymul, A[0], B[0]),
    "patches": (
        lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "SAME"),
        A[None, None],
    ),
    "multivariate_normal": (lambda m, c: random.multivariate_normal(KEY, m, c), A[0], S),
    "kde": (lambda x: gaussian_kde(x).evaluate(x), LONG.T),
    "cg": (lambda a, b: scipy.sparse.linalg.cg(a, b)[0], S, B),
    "gmres": (lambda a, b: scipy.sparse.linalg.gmres(a, b)[0], A, B[0]),
    "gmres by rotations": (
        lambda a, b: scipy.sparse.linalg.gmres(a, b, solve_method="incremental")[0],
        A,
        B[0],
    ),
    "bicgstab": (lambda a, b: scipy.sparse.linalg.bicgstab(a, b)[0], A, B[0]),
    "detrend": (lambda x: scipy.signal.detrend(x, 0, bp=[4]), LONG),
    "lobpcg": (
        lambda a, x: lobpcg_standard(a, x, m=2)[1],
        np.diag(np.arange(1, 31, dtype=np.float32)),
        np.eye(30, 2, dtype=np.float32),
    ),
    "rotations": (lambda q: Rotation.from_quat(q).mean().as_quat(), LONG[:, :4]),
    "minimize": (
        lambda x: scipy.optimize.minimize(lambda v: (v**2).sum(), x, method="BFGS").x,
        A[0],
    ),
    "resize": (lambda x: ga.image.resize(x, (9, 9), "cubic"), A),
}
#: Those whose derivative is not defined, or searched for.
NOT_DERIVED = {
    "minimize",
    "lobpcg",
    "sqrtm",
    "lu",
    "svd",
    "eigh of two",
    "solve_sylvester",
    "polyfit",
}


@pytest.mark.parametrize("name", INSIDE)
def test_full_precision_inside(name):
    """What a function multiplies on the way is not rounded, nor are the products of its derivative:
    only those that a program asks for are.
    """
    f, *args = INSIDE[name]
    assert not any(roundings(f, *args))
    if name not in NOT_DERIVED:
        derived = lambda *xs: ga.jvp(f, xs, xs)
        pulled = ga.grad(lambda *xs: f(*xs).sum(), tuple(range(len(args))))
        assert not any(roundings(derived, *args) + roundings(pulled, *args))


CONV = lambda **how: lambda x, w: lax.conv(x, w, (1, 1), "SAME", **how)
ASKED = {
    "product": (lambda **how: lambda x, w: lax.dot(x, w, **how), A, B),
    "convolution": (CONV, A[None, None], B[None, None, :3, :3]),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("precision", [None, "high", "highest", ("highest", "default")])
def test_derivatives_keep_the_precision(name, precision):
    make, *args = ASKED[name]
    loss = lambda x, w: (make(precision=precision)(x, w) ** 2).sum()
    found = roundings(ga.grad(loss, (0, 1)), *args)
    assert len(found) == 3 and set(found) == {allows_tf32(canonicalize_precision(precision))}


def test_explain_says_it():
    x = gnp.ones((64, 64))
    said = lambda f, **how: [
        s.facts.get("rounded to") for s in ga.explain(f, platform="cuda", **how)(x).library_calls
    ]
    assert said(lambda x: x @ x) == ["TF32"]
    assert said(lambda x: x @ x, arch="sm_75") == [None]
    assert said(lambda x: gnp.matmul(x, x, precision="highest")) == [None]
    assert said(lambda x: (1j * x) @ x[0]) == [None]  # reading the matrix takes longer
    assert said(lambda x: x.astype(gnp.bfloat16) @ x.astype(gnp.bfloat16)) == [None]
