"""Rules by which a compiler writes equations in other ways stand beside primitives, and are right.

In: equations of primitives that have such rules. Out: results of rewritten equations, which NumPy's
functions give as well.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends.numpy import program as driver
from gpuarray.core.graph import Eqn, Graph, Literal, Var, is_view
from gpuarray.core.index import view_rule
from gpuarray.core.primitive import Kind, registry
from tests.samples import samples

# ---- the rules ----


def equation(primitive: str, *operands, **params) -> Eqn:
    """An equation of a primitive; operands are shapes of float32, or avals, or literals."""
    prim = registry[primitive]
    ins = [a if isinstance(a, Literal | Var) else variable(a) for a in operands]
    outs = [Var(a) for a in prim.out_avals([a.aval for a in ins], params)]
    return Eqn(prim, ins, outs, params)


def variable(shape: tuple[int, ...]) -> Var:
    return Var(gnp.zeros(shape, "float32").aval)


def same_as(eqn: Eqn):
    """The operand that an equation gives; None if its rule names none."""
    rule = eqn.primitive.rewrite.same_as
    return None if rule is None else rule(eqn)


def run(eqns: list[Eqn], ins: list, out, *values) -> np.ndarray:
    (found,) = driver.compile_graph(Graph(ins, [out], eqns))(*values)
    return np.asarray(found)


def test_axes_of_views_are_those_numpy_shows():
    """Along an axis of the result that is one of the operand, elements change as along that."""
    seen = 0
    for sample in samples(lambda p: p.kind is Kind.VIEW):
        (given,), prim = sample.avals, sample.primitive
        if prim.multiple_results:  # each result is a piece
            continue
        eqn = equation(prim.name, given.shape, **sample.params)
        axes, (aval,) = view_rule(eqn).order(eqn), (a.aval for a in eqn.invars)
        if axes is None or not eqn.outvars[0].aval.size:
            continue
        seen += 1
        for axis in range(aval.ndim):
            counted = np.indices(aval.shape, "float32")[axis]
            out = np.asarray(prim.numpy_function([aval], sample.params)(counted))
            assert len(axes) == out.ndim
            for d in range(out.ndim):
                assert (np.diff(out, axis=d) == (axes[d] == axis)).all(), (sample, axes)
    assert seen > 20


def test_views_that_sink_have_one_result():
    for prim in registry.values():
        rules = prim.rewrite
        if rules.sinks:
            assert prim.kind is Kind.VIEW and not prim.multiple_results, prim
        if prim.kind is Kind.VIEW and prim.multiple_results:
            assert rules.piece is not None, prim


@pytest.mark.parametrize("name", ["split", "unstack"])
def test_pieces_are_the_results(name):
    params = {"axis": 1, **({"sizes": (1, 3, 2)} if name == "split" else {})}
    eqn = equation(name, (4, 6), **params)
    x = np.arange(24.0, dtype="float32").reshape(4, 6)
    results = eqn.primitive.numpy_function([eqn.invars[0].aval], params)(x)
    rule = eqn.primitive.rewrite.piece
    assert rule is not None and not is_view(eqn)
    for number, result in enumerate(results):
        axis, first, length = rule(eqn, number)
        piece = np.take(x, range(first, first + length), axis)
        np.testing.assert_array_equal(piece.reshape(result.shape), result)


def test_what_is_the_same_as_an_operand():
    x = variable((3,))

    def same(primitive, *operands, **params):
        return same_as(equation(primitive, *operands, **params))

    true, one = Literal(np.bool_(True)), Literal(np.int32(1))
    y = variable((3,))
    assert same("stop_gradient", x) is x
    assert same("convert_element_type", x, new_dtype=x.aval.dtype, weak_type=False) is x
    half = np.dtype("float16")
    assert same("convert_element_type", x, new_dtype=half, weak_type=False) is None
    assert same("select_n", true, x, y) is y and same("select_n", one, x, y) is y
    assert same("select_n", one, x, y, x) is None  # it may be any of three
    assert same("select_n", Var(gnp.zeros(3, bool).aval), x, y) is None
    assert same("sin", x) is None


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float8_e4m3fn", "int32", "uint8", "bool"]
)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min"])
def test_an_operation_goes_away_where_no_bit_would_change(name, dtype):
    prim, kind = registry[name], np.dtype(dtype)
    specials = [0, 1, 2, 3, 100]
    if dtype not in ("uint8", "bool"):
        specials += [-x for x in specials]
    if kind.kind in "fV":
        specials += [-0.0, np.nan, 448.0] + ([] if "e4m3" in dtype else [np.inf, -np.inf])
    else:
        specials += [True, False] if dtype == "bool" else [np.iinfo(kind).min, np.iinfo(kind).max]
    x = np.array(specials).astype(kind)
    v = Var(gnp.asarray(x).aval)
    for number in x:
        for operands in ((v, Literal(number)), (Literal(number), v)):
            try:
                eqn = equation(name, *operands)
            except TypeError:  # not of booleans
                continue
            if prim.rewrite.same_as(eqn) is None:
                continue
            values = [x if a is v else number for a in operands]
            with np.errstate(invalid="ignore"):
                found = prim.numpy_function([a.aval for a in operands], {})(*values)
            nan = x != x  # which of several nans comes out is not said
            same = np.asarray(found).view(f"u{kind.itemsize}") == x.view(f"u{kind.itemsize}")
            assert (same | nan).all(), (name, operands)


def test_which_operands_change_nothing():
    x = variable((3,))
    for name, number in {"mul": 1.0, "max": -np.inf, "min": np.inf, "add": -0.0}.items():
        one = Literal(np.float32(number))
        for operands in ((x, one), (one, x)):
            eqn = equation(name, *operands)
            assert same_as(eqn) is x
    for name, number in {"add": 0.0, "sub": -0.0, "max": 0.0, "div": 2.0}.items():
        eqn = equation(name, x, Literal(np.float32(number)))
        assert same_as(eqn) is None
    for name in ("sub", "div"):
        eqn = equation(name, Literal(np.float32({"sub": 0, "div": 1}[name])), x)
        assert same_as(eqn) is None


PRODUCTS = {
    "plain": ((3, 4), (4, 5), (((1,), (0,)), ((), ()))),
    "batched": ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
    "batches last": ((4, 3, 2), (5, 4, 2), (((0,), (1,)), ((2,), (2,)))),
    "several sums": ((4, 3, 2), (2, 4, 5), (((0, 2), (1, 0)), ((), ()))),
    "outer": ((3,), (5,), (((), ()), ((), ()))),
    "vectors": ((7,), (7,), (((0,), (0,)), ((), ()))),
}


@pytest.mark.parametrize("name", list(PRODUCTS))
def test_products_in_other_ways(name):
    left, right, numbers = PRODUCTS[name]
    params = {"dimension_numbers": numbers, "precision": None, "preferred_element_type": None}
    eqn = equation("dot_general", left, right, **params, out_sharding=None)
    rules, (out,) = eqn.primitive.rewrite.product, eqn.outvars
    assert rules is not None
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("float32") for s in (left, right))
    letters = {s: [*"abcdefgh"[k : k + len(s)]] for k, s in ((0, left), (4, right))}
    x, y = letters[left], letters[right] if left != right else [*"efgh"[: len(right)]]
    (gone, also_gone), (batch, also_batch) = numbers
    for d, e in zip((*gone, *batch), (*also_gone, *also_batch), strict=True):
        y[e] = x[d]
    kept = [
        *(x[d] for d in batch),
        *(s for d, s in enumerate(x) if d not in (*gone, *batch)),
        *(s for d, s in enumerate(y) if d not in (*also_gone, *also_batch)),
    ]
    expected = np.einsum(f"{''.join(x)},{''.join(y)}->{''.join(kept)}", a, b)
    extents = rules.extents(eqn)
    assert expected.shape == (*extents.batch, *extents.rows, *extents.columns)
    np.testing.assert_array_equal(run(rules.expanded(eqn), eqn.invars, out, a, b), expected)
    batches, rows, ndim = len(extents.batch), len(extents.rows), expected.ndim
    if not rows or not extents.columns:
        return
    order = (*range(batches), *range(batches + rows, ndim), *range(batches, batches + rows))
    turned = variable(tuple(expected.shape[d] for d in order))
    other = rules.exchanged(eqn, order, turned)
    assert other is not None and other.invars == eqn.invars[::-1]
    np.testing.assert_array_equal(
        run([other], eqn.invars, turned, a, b), np.transpose(expected, order)
    )
    for wrong in (tuple(range(ndim)), (None,) * ndim):
        assert rules.exchanged(eqn, wrong, turned) is None


def test_scalars_that_fill_an_array_in_a_loop_stay_scalars():
    def looped(x):
        return lax.fori_loop(0, 5, lambda _, c: c * 0.5 + x, gnp.zeros_like(x))

    plan = ga.jit(looped).lower(np.ones((4, 4), "float32")).plan.on_device
    assert [g.name for g in plan.groups] == ["k0_loop"] and len(plan.groups[0].inputs) == 1
