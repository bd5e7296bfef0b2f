"""What need not be computed while a program runs is not in its plan.

In: functions. Out: the equations that are left of them, and results that keep every bit.
"""

import numpy as np

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


def test_softmax_has_no_step_without_effect():
    assert "stop_gradient" not in left(nn.softmax, X)
    assert "select_n" not in left(gnp.var, X)  # its count of elements is a constant
    np.testing.assert_array_equal(ga.jit(gnp.var)(X), gnp.var(X))
