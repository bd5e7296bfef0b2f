"""What the compiler makes of an operation follows from its kind and fields, not from its name.

In: scans and sorts that nobody knows. Out: they get the kernels of the built-in ones, and agree
with NumPy on every driver.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
from gpuarray.backends.numpy.program import build
from gpuarray.compiler.pipeline import plan_graph
from gpuarray.core.avals import ShapedArray
from gpuarray.core.fold import ELEMENT, POSITION, Fold, Identity
from gpuarray.core.primitive import Kind, Order, Primitive, registry
from gpuarray.primitives.elementwise.arithmetic import add_p, square_p
from gpuarray.primitives.elementwise.transcendental import sqrt_p
from tests.support import simulated


def _length(x, *, axis, reverse):
    turned = np.flip(x, axis) if reverse else x
    out = np.sqrt(np.cumsum(turned * turned, axis))
    return np.flip(out, axis) if reverse else out


#: The length of a vector as far as each element.
LENGTH = Primitive(
    "running_length",
    Kind.SCAN,
    aval=lambda x, *, axis, reverse: x,
    numpy=_length,
    fold=Fold(Identity.ZERO, add_p, lift=square_p, finish=sqrt_p, ufunc=np.add),
    register=False,
)
BY_FIRST = Primitive(
    "put_in_order",
    Kind.SORT,
    order=Order(axis="along", keys="by"),
    aval=lambda *xs, along, by: list(xs),
    numpy=lambda *xs, along, by: [
        np.take_along_axis(x, np.lexsort(xs[:by][::-1], along), along) for x in xs
    ],
    multiple_results=True,
    register=False,
)


def _forms(f, *xs) -> list[str]:
    return [k.form for k in plan_graph(ga.jit(f).lower(*xs).jaxpr).on_device.groups]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((7,), 0), ((40_000,), 0), ((300, 5), 0), ((5, 300), 1), ((5000, 3), 0)],
    ids=str,
)
def test_a_scan_by_its_fold(shape, axis, reverse):
    simulated.need_compiler()
    x = (np.arange(np.prod(shape)) % 11 - 5).reshape(shape).astype("f")
    f = lambda x: LENGTH.bind(x + 0, axis=axis, reverse=reverse)
    wanted = _length(x.astype(np.float64), axis=axis, reverse=reverse)
    np.testing.assert_allclose(ga.jit(f)(x), wanted, rtol=1e-5)
    assert _forms(f, x).count("scan") == 1
    with ga.default_device("simulator"):
        np.testing.assert_allclose(np.asarray(ga.jit(f)(x)), wanted, rtol=1e-5)


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
@pytest.mark.parametrize(
    "fold",
    [
        None,
        Fold((Identity.ZERO, Identity.ALL_BITS), "ga_argmax({0}, {1})", state=(ELEMENT, POSITION)),
        Fold(Identity.ZERO, Primitive("host_add", Kind.POINTWISE, numpy=np.add, register=False)),
    ],
    ids=["no fold", "a state that is no element", "a part without text"],
)
def test_a_scan_without_a_kernel_is_a_step_of_its_own(fold):
    scan = Primitive(
        "running_sum",
        Kind.SCAN,
        aval=lambda x, *, axis, reverse: x,
        numpy=lambda x, *, axis, reverse: np.cumsum(x, axis),
        fold=fold,
        register=False,
    )
    x = np.ones(5, "f")
    f = lambda x: scan.bind(x, axis=0, reverse=False) + 1
    plan = plan_graph(ga.jit(f).lower(x).jaxpr)
    assert [e.primitive.name for e in plan.on_device.library_calls] == ["running_sum"]
    assert any("running_sum is a step of its own (library)" in r.reason for r in plan.refusals)
    assert np.asarray(ga.jit(f)(x)).tolist() == [2, 3, 4, 5, 6]


def test_a_sort_by_its_order():
    simulated.need_compiler()
    x = ((np.arange(120) * 37) % 11).reshape(6, 20).astype("f")
    y = np.arange(120, dtype="i").reshape(6, 20)
    for along in (0, 1):
        f = lambda x, y: BY_FIRST.bind(x, y, along=along, by=1)  # noqa: B023
        assert _forms(f, x, y) == ["sort"]
        order = np.argsort(x, along, "stable")
        wanted = [np.take_along_axis(a, order, along) for a in (x, y)]
        for device in ("cpu", "simulator"):
            with ga.default_device(device):
                for got, w in zip(ga.jit(f)(x, y), wanted, strict=True):
                    np.testing.assert_array_equal(np.asarray(got), w)


@pytest.mark.parametrize("name", ["cumsum", "sort"])
def test_what_a_scan_or_a_sort_makes_may_be_written_over(name):
    """Its memory is the plan's own: an update there needs no copy."""
    made = {"cumsum": lambda x: ga.lax.cumsum(x), "sort": lambda x: ga.lax.sort(x)}[name]
    graph = ga.jit(lambda x: made(x).at[0].set(7.0)).lower(np.ones(5, "f")).jaxpr
    assert _writes_over(graph) and not _writes_over(
        ga.jit(lambda x: x.at[0].set(7.0)).lower(np.ones(5, "f")).jaxpr
    )


def _writes_over(graph) -> bool:
    """Whether a program updates some array where it is."""
    plan = plan_graph(graph)
    return "_inplace" in build(plan, plan.graph.consts).source


def test_people_read_of_library_steps():
    assert {registry[n].kind.word for n in ("cumsum", "sort", "top_k", "cholesky")} == {"library"}
    assert Kind.CALL.word == "call"


# ---- what is said twice ----


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_fold_merges_on_numpy_as_its_primitive_does(dtype):
    """`merge` and `ufunc` are one function."""
    x, y = np.array([5, -3, 0, 7], dtype), np.array([-2, -3, 6, 1], dtype)
    aval = ShapedArray((4,), x.dtype)
    seen = set()
    for name, p in registry.items():
        fold = p.fold
        if fold is None or fold.ufunc is None or not isinstance(fold.merge, Primitive):
            continue
        if dtype == "float32" and name in ("reduce_and", "reduce_or", "reduce_xor"):
            continue
        wanted = fold.merge.numpy_function([aval, aval], {})(x, y)
        np.testing.assert_array_equal(fold.ufunc(x, y), wanted, name)
        seen.add(name)
    assert seen >= {"reduce_sum", "reduce_max", "cumsum", "cummin", "reduce_window_max"}
