"""Everything has a way on a GPU: a kernel, a routine, parts that have one, or a place in the table
of what runs on the host by design.

In: all samples of all primitives, and cases that they leave out. Out: plans built in strict mode,
whose kernels nobody compiles; parts run on the simulator against the NumPy rules; routines on the
stand-in for CuPy.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, random
from gpuarray.backends.cuda import library
from gpuarray.backends.cuda import program as build
from gpuarray.backends.cuda.device import gpus
from gpuarray.backends.cuda.kernels import Loaded, load
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.config import strict
from gpuarray.core.graph import Eqn, Graph, Var
from gpuarray.core.primitive import registry
from gpuarray.primitives.contract.ragged import RaggedDotDimensionNumbers
from tests.fake_cupy import installed
from tests.samples import Sample, samples, values
from tests.support import simulated
from tests.support.kernels import has_kernel
from tests.support.nearness import assert_near

simulated.need_compiler()


def eqn_of(sample: Sample) -> Eqn:
    ins = [Var(a) for a in sample.avals]
    outs = [Var(a) for a in sample.primitive.out_avals(sample.avals, sample.params)]
    return Eqn(sample.primitive, ins, outs, sample.params)


def graph_of(eqn: Eqn) -> Graph:
    return Graph(list(eqn.invars), list(eqn.outvars), [eqn])


# ---- every sample ----


def test_every_sample_has_a_way(fake_gpu, monkeypatch):
    """In strict mode what is neither a kernel nor a routine, nor in the table, is refused."""
    by_host: set[str] = set()

    def noted(eqn, gpu):
        by_host.add(eqn.primitive.name)
        assert library.host_reason(eqn) or any(a.aval.size == 0 for a in eqn.invars), eqn
        return lambda *buffers: None

    unloaded = lambda kernels, gpu: Loaded({}, {k.name: () for k in kernels}, {}, "", b"")
    defaults = tuple(
        unloaded if d is load else d for d in build.InnerFunctions.__init__.__defaults__
    )
    monkeypatch.setattr(build.InnerFunctions.__init__, "__defaults__", defaults)
    monkeypatch.setattr(build, "by_host", noted)
    tried = set()
    for sample in samples():
        with ga.enable_x64(sample.wide), strict(True):
            plan = plan_graph(graph_of(eqn_of(sample)))
            alone = not any(isinstance(s, Eqn) for s in plan.on_device.steps)
            # What is kernels alone has a way: test_cuda_text.py emits and compiles those.
            if not (alone and has_kernel(sample.primitive)):
                build.build(plan, [np.asarray(c) for c in plan.graph.consts], gpu=gpus()[0])
        tried.add(sample.primitive.name)
    assert len(tried) > 190 and set(library.HOST) <= by_host


def test_the_table_of_the_host_is_short():
    names = set(library.HOST)
    assert names == {n for n in names if "callback" in n or n == "debug_print"} | {"eig", "schur"}
    assert names <= set(registry) and all(library.HOST.values())


def test_explain_tells_what_runs_on_the_host():
    def f(x):
        return lax.linalg.schur(x)[0] + 1, lax.linalg.eig(x, compute_left_eigenvectors=False)

    steps = ga.explain(f, platform="cuda")(gnp.ones((3, 3))).steps
    told = {s.ops[0]: s.facts.get("on the host") for s in steps}
    assert told["schur"] == library.HOST["schur"] and told["eig"] is None


# ---- parts ----

#: What is said in terms of others.
PARTS = (
    "householder_product ormqr hessenberg tridiagonal qr lu_pivots_to_permutation "
    "tridiagonal_solve cholesky_update ragged_dot_general"
).split()


def row(name: str, operands, domain=None, **params) -> Sample:
    return Sample(registry[name], 0, operands, params, domain)


def _singular(rng, shape, dtype):
    out = rng.uniform(1, 2, shape)
    out[0] = 0  # of two systems one has no solution
    return out


def _ragged(dims, ragged, group=()):
    return {
        "ragged_dot_dimension_numbers": RaggedDotDimensionNumbers(dims, (ragged,), group),
        "precision": None,
        "preferred_element_type": None,
        "group_offset": None,
    }


def _short(rng, shape, dtype):
    return rng.integers(0, 3, shape)


def _infinite(rng, shape, dtype):
    out = rng.standard_normal(shape)
    out[1] = np.inf  # the matrix of one group, which is nothing to the others
    return out


ROWS = "float32"
MORE = [
    row("tridiagonal", [((2, 5, 5), "complex64")], lower=False),
    row("tridiagonal", [((4, 4), "float64")], lower=False),
    row("hessenberg", [((6, 6), "complex64")]),
    row("hessenberg", [((4, 4), "float32")], lambda rng, shape, dtype: np.triu(np.ones(shape))),
    row("qr", [((5, 3), "float32")], full_matrices=True, pivoting=True, use_magma=None),
    row("qr", [((3, 3), "float32")], lambda *_: np.zeros((3, 3)), full_matrices=True,
        pivoting=True, use_magma=None),
    row("qr", [((2, 3, 5), "complex64")], full_matrices=False, pivoting=True, use_magma=None),
    *(row("tridiagonal_solve", [*[((2, 5), kind)] * 3, ((2, 5, 3), kind)], domain,
          perturb_singular=perturb)
      for kind in ("float32", "complex64")
      for domain in (None, [_singular, _singular, _singular, None])
      for perturb in (False, True)),
    row("cholesky_update", [((2, 3, 3), "float32"), ((2, 3), "float32")], [None, None]),
    row("cholesky_update", [((3, 3), "float32"), ((3,), "float32")], (0, 0)),
    row("ragged_dot_general", [((7, 4), ROWS), ((3, 4, 5), ROWS), ((3,), "int32")],
        [None, _infinite, _short], **_ragged((((1,), (1,)), ((), ())), 0, (0,))),
    row("ragged_dot_general", [((2, 7, 4), ROWS), ((2, 3, 4, 5), ROWS), ((2, 3), "int32")],
        [None, None, _short], **_ragged((((2,), (2,)), ((0,), (0,))), 1, (1,))),
    row("ragged_dot_general", [((2, 4, 7), ROWS), ((2, 7, 5), ROWS), ((2, 3), "int8")],
        [None, None, _short], **_ragged((((2,), (1,)), ((0,), (0,))), 2)),
    row("ragged_dot_general", [((7, 4, 2), ROWS), ((7, 2, 5), ROWS), ((3,), "uint32")],
        [None, None, _short], **_ragged((((2,), (1,)), ((0,), (0,))), 0)),
    row("ragged_dot_general", [((4, 2, 6), ROWS), ((6, 2, 5), ROWS), ((2, 3), "int32")],
        [None, None, _short], **_ragged((((1, 2), (1, 0)), ((), ())), 2)),
]  # fmt: skip


def said_in_parts(sample: Sample) -> bool:
    pivots = sample.params.get("pivoting", True)
    return sample.primitive.name in library.PARTS and pivots


#: A few of each: kernels are dear to compile. Wide numbers take other routines of LAPACK, but the
#: same parts.
CASES = []
for _name in PARTS:
    _all = samples(lambda p, name=_name: p.name == name)
    _all = [s for s in _all if said_in_parts(s) and not s.wide and all(a.size for a in s.avals)]
    CASES += _all[:: 1 + len(_all) // 7]
CASES += [s for s in MORE if said_in_parts(s)]


@pytest.fixture(scope="module")
def compiled():
    """All cases as functions, made before any is compiled."""
    made = []
    for s in CASES:
        with ga.enable_x64(s.wide):
            eqn = eqn_of(s)
            parts = library.parts(eqn)
            assert parts is not None
            made.append(simulated.built(build.parts_graph(parts, eqn)))
    return made


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_the_whole(name, compiled):
    for s, function in zip(CASES, compiled, strict=True):
        if s.primitive.name != name:
            continue
        with ga.enable_x64(s.wide):
            operands = values(s)
            with np.errstate(all="ignore"):
                out = host.local.run(s.primitive.numpy_function(s.avals, s.params), *operands)
            found = simulated.run(function, operands)
        for f, e in zip(found, out if s.primitive.multiple_results else [out], strict=True):
            assert_near(f, np.asarray(e), str(s))


def test_a_loop_of_pivots_is_one_kernel():
    (sample,) = [s for s in samples(lambda p: p.name == PARTS[5]) if s.number == 3]
    parts = library.parts(eqn_of(sample))
    assert parts is not None
    steps = plan_graph(build.parts_graph(parts, eqn_of(sample))).device_steps
    assert [getattr(s, "name", None) for s in steps] == ["k0_loop"]


# ---- routines ----

MATRIX = np.random.default_rng(3).standard_normal((2, 5, 5))


@pytest.fixture(scope="module")
def gpu():
    with installed(seed=7) as world, strict(True):
        yield world


@pytest.mark.parametrize("old", [False, True], ids=["eig", "no eig"])
@pytest.mark.parametrize("kind", ["float32", "complex64"])
def test_eigenvalues(gpu, monkeypatch, kind, old):
    monkeypatch.setattr(gpu, "old_solver", old)
    a = MATRIX.astype(kind) * (1 if kind == "float32" else np.complex64(1 + 2j))
    w, v = map(np.asarray, gnp.linalg.eig(gnp.asarray(a)))
    assert w.dtype == v.dtype == np.complex64
    np.testing.assert_allclose(a @ v, v * w[:, None], atol=2e-5)
    only = np.asarray(gnp.linalg.eigvals(gnp.asarray(a)))
    np.testing.assert_allclose(np.sort_complex(only), np.sort_complex(w), rtol=1e-4, atol=1e-5)


def test_eigenvalues_of_what_is_not_finite(gpu):
    a = MATRIX.astype(np.float32)
    a[1, 2, 3] = np.inf
    w, v = map(np.asarray, gnp.linalg.eig(gnp.asarray(a)))
    assert np.isfinite(w[0]).all() and np.isnan(w[1]).all() and np.isnan(v[1]).all()


def test_what_runs_on_the_host_by_design(gpu):
    a = MATRIX[0].astype(np.float32)
    x = gnp.asarray(a)
    t, z = map(np.asarray, ga.scipy.linalg.schur(x))
    np.testing.assert_allclose(z @ t @ z.T, a, atol=1e-5)
    w, left = lax.linalg.eig(x, compute_left_eigenvectors=True, compute_right_eigenvectors=False)
    assert left.devices() == set(ga.devices("cuda"))
    w, left = np.asarray(w), np.asarray(left)
    np.testing.assert_allclose(left.conj().T @ a, w[:, None] * left.conj().T, atol=1e-5)


def test_public_factorisations(gpu):
    a = MATRIX[0].astype(np.float32)
    x = gnp.asarray(a)
    q, r, p = map(np.asarray, ga.scipy.linalg.qr(x, pivoting=True))
    np.testing.assert_allclose(q @ r, a[:, p], atol=1e-5)
    h, q = map(np.asarray, ga.scipy.linalg.hessenberg(x, calc_q=True))
    np.testing.assert_allclose(q @ h @ q.T, a, atol=1e-5)
    d, e = map(np.asarray, lax.linalg.tridiagonal(x + x.T, lower=True)[1:3])
    whole = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    expected = np.linalg.eigvalsh(a + a.T)
    np.testing.assert_allclose(np.linalg.eigvalsh(whole), expected, atol=1e-4)


def test_a_singular_matrix_has_its_lu_without_a_warning(gpu):
    a = np.ones((3, 3), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p, low, up = map(np.asarray, ga.scipy.linalg.lu(gnp.asarray(a)))
    np.testing.assert_allclose(p @ low @ up, a)


def test_triangles_of_16_bit_floats(gpu):
    a = np.tril(MATRIX[0]).astype(np.float32) + 3 * np.eye(5, dtype=np.float32)
    low = gnp.asarray(a).astype("bfloat16")
    x = lax.linalg.triangular_solve(low, gnp.ones((5, 1), "bfloat16"), left_side=True, lower=True)
    assert x.dtype == gnp.bfloat16
    np.testing.assert_allclose(a @ np.asarray(x, np.float32), np.ones((5, 1)), atol=0.05)


@pytest.mark.parametrize("low, high", [(-2.0, 3.0), (-3, 4), (np.int32(-(2**31)), 2**31 - 1)])
def test_numbers_of_the_devices_own(gpu, low, high):
    draw = ga.jit(lambda: lax.rng_uniform(low, high, (1000,)))
    first, second = np.asarray(draw()), np.asarray(draw())
    assert (first != second).any() and first.min() >= low and first.max() < high
    low = float(low)
    assert abs(first.mean(dtype=np.float64) - (low + high) / 2) < 0.1 * (high - low)


def test_unsafe_keys_are_split_and_mixed_in_kernels(gpu):
    def f(data):
        key = random.fold_in(random.wrap_key_data(data, impl="unsafe_rbg"), 5)
        return random.uniform(random.split(key, 3)[2], (4,))

    data = np.array([1, 2, 3, 4], np.uint32)
    with ga.default_device(ga.devices("cpu")[0]):
        expected = np.asarray(f(gnp.asarray(data)))
    np.testing.assert_array_equal(np.asarray(ga.jit(f)(gnp.asarray(data))), expected)


# ---- narrow floats ----


@pytest.mark.parametrize("kind, codes", [("float8_e8m0fnu", 256), ("float4_e2m1fn", 16)])
def test_floats_of_block_scales_are_converted_as_numpy_does(kind, codes):
    narrow = np.dtype(getattr(gnp, kind))
    every = np.arange(codes, dtype=np.uint8).view(narrow)
    with np.errstate(all="ignore"):
        near = every.astype(np.float32)
        middle = np.r_[(near[1:] + near[:-1]) / 2, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38]
        middle = np.r_[near, middle, 5.9e-39].astype(np.float32)
        around = np.r_[middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
        expected = around.astype(narrow)
    with strict(True), ga.default_device(ga.devices("simulator")[0]):
        found = np.asarray(ga.jit(lambda x: x.astype(kind))(gnp.asarray(around)))
        wide = np.asarray(ga.jit(lambda x: x.astype("float32"))(gnp.asarray(every)))
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))
    np.testing.assert_array_equal(wide.view(np.uint32), near.view(np.uint32))


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_scaled_products(gpu, mode):
    configs = [ga.nn.get_scaled_dot_general_config(mode) for _ in range(3)]
    a = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)

    def f(x):
        return ga.nn.scaled_dot_general(x, x, (((1,), (1,)), ((), ())), configs=configs)

    with ga.default_device(ga.devices("cpu")[0]):
        expected = np.asarray(f(gnp.asarray(a)))
    np.testing.assert_allclose(np.asarray(ga.jit(f)(gnp.asarray(a))), expected, 1e-5, 1e-4)
