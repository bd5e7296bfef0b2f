"""What need not be computed while a program runs is not in its plan.

In: functions. Out: the equations that are left of them, and results that keep every bit.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def left(function, *args) -> list[str]:
    """The primitives of a function's plan."""
    return [e.primitive.name for e in ga.jit(function).lower(*args).plan.graph.eqns]


def test_exact_arithmetic_on_constants_is_done_before():
    slope = ga.grad(lambda x: -gnp.mean(x))
    assert left(slope, X) == ["broadcast_in_dim"]
    np.testing.assert_array_equal(ga.jit(slope)(X), slope(X))


def test_arithmetic_on_arrays_of_one_number_is_done_before():
    def scaled(x):
        one, two = lax.full_like(x, 1), lax.full_like(x, 2, "bfloat16")
        return (x * (one - 0.0)).astype("bfloat16") * (two + two), one.T + one.T

    assert left(scaled, X) == ["convert_element_type", "mul", "broadcast_in_dim"]
    for found, expected in zip(ga.jit(scaled)(X), scaled(X), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_functions_that_machines_round_in_their_own_way_stay():
    def shifted(x):
        return x + lax.exp(lax.full_like(x, 1))

    assert "exp" in left(shifted, X)


def test_constants_that_are_not_finite_stay_where_they_were_written():
    def broken(x):
        zero = lax.full_like(x, 0)
        return x + zero / zero

    assert "div" in left(broken, X) and np.isnan(ga.jit(broken)(X)).all()


def test_scalars_stay_scalars_through_views():
    def scaled(x):
        full = lax.broadcast_in_dim(x[0, 0], (4, 3), ())
        return x * full.T

    assert left(scaled, X).count("transpose") == 0
    np.testing.assert_array_equal(ga.jit(scaled)(X), X * X[0, 0])


def test_broadcasts_of_broadcasts_of_a_number_are_that_number():
    def middle(x):
        at = lax.expand_dims(lax.full(x.shape[:1], 2, "int32"), (1,))
        return gnp.take_along_axis(x, at, 1, mode="clip")

    # The places are known: nothing compares or shifts them.
    assert {"lt", "add", "select_n"}.isdisjoint(left(middle, X))
    np.testing.assert_array_equal(ga.jit(middle)(X), X[:, 2:3])
    # The median's elements are at known places of the sorted rows.
    assert {"lt", "reduce_or", "floor"}.isdisjoint(left(lambda x: gnp.median(x, 1), X))


def test_softmax_has_no_step_without_effect():
    assert "stop_gradient" not in left(nn.softmax, X)
    assert "select_n" not in left(gnp.var, X)  # its count of elements is a constant
    np.testing.assert_array_equal(ga.jit(gnp.var)(X), gnp.var(X))


def test_what_is_the_same_along_an_axis_is_computed_once():
    def scaled(x, mean, spread):
        mean, spread = (gnp.broadcast_to(v[:, None], (3, 4)) for v in (mean, spread))
        return x * gnp.exp(mean - spread).astype("float16") + 3.0 * mean

    mean, spread = X[:, 0], X[:, 1] + 2
    graph = ga.jit(scaled).lower(X, mean, spread).plan.graph
    # Exponentials, differences and conversions of a number a row; only x has them all.
    sizes = {e.primitive.name: e.outvars[0].aval.size for e in graph.eqns}
    assert (sizes["exp"], sizes["convert_element_type"]) == (3, 3)
    expected = scaled(X, mean, spread)
    np.testing.assert_array_equal(ga.jit(scaled)(X, mean, spread), expected)


def test_broadcasts_of_other_kinds_meet_where_they_are():
    def outer(a, b):
        return gnp.broadcast_to(a[:, None], (3, 4)) + gnp.broadcast_to(b, (3, 4))

    assert set(left(outer, X[:, 0], X[0])) == {"broadcast_in_dim", "add"}
    (add,) = [e for e in ga.jit(outer).lower(X[:, 0], X[0]).plan.graph.eqns if len(e.invars) == 2]
    assert add.outvars[0].aval.shape == (3, 4)
    np.testing.assert_array_equal(ga.jit(outer)(X[:, 0], X[0]), X[:, :1] + X[:1])


#: name: (function, an operand, the equations that are left)
SHORT = {
    "truth as it is": (lambda x: gnp.where(x > 0, True, False), X, ["gt"]),
    "truth turned around": (lambda x: gnp.where(x > 0, False, True), X, ["gt", "not"]),
    "either way": (lambda x: gnp.where(x > 0, x, x), X, []),
    "minus twice": (lambda x: gnp.negative(-x), X, []),
    "not twice": (lambda x: ~~(x > 0), X, ["gt"]),
    "not, bits": (lambda x: ~~x, X.astype("int8"), []),
    "not chosen": (lambda x: gnp.where(~(x > 0), x, 1), X, ["gt", "select_n"]),
    "wide and back": (lambda x: x.astype("float32").astype("int8"), X.astype("int8"), []),
    "by a wider one": (
        lambda x: x.astype("int32").astype("float32"),
        X.astype("uint8"),
        ["convert_element_type"],
    ),
    "truth by numbers": (lambda x: (x > 0).astype("int32").astype(bool), X, ["gt"]),
    # Digits are lost on the way, or a sign.
    "narrow and back": (lambda x: x.astype("bfloat16").astype("float32"), X, 2),
    "cut and back": (lambda x: x.astype("int8").astype("float32"), X * 9, 2),
    "integers of many digits": (
        lambda x: x.astype("float32").astype("int32"),
        np.array([2**24 + 1, -(2**31)], "int32"),
        2,
    ),
    "unsigned": (lambda x: x.astype("uint8").astype("int32"), X.astype("int8") - 3, 2),
}


@pytest.mark.parametrize("name", SHORT)
def test_what_two_operations_undo(name):
    function, x, expected = SHORT[name]
    found = left(function, x)
    assert found == expected if isinstance(expected, list) else len(found) == expected
    special = np.array([-0.0, np.nan, -np.inf, 3.5], "f4") if x.dtype == np.float32 else x
    for given in (x, special):
        whole, alone = np.asarray(ga.jit(function)(given)), function(gnp.asarray(given))
        assert whole.tobytes() == np.asarray(alone).tobytes()
