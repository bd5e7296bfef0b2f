"""Operands that branches hand on under vmap: they are not batched for it."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax


def scanned(_, y):
    return lax.scan(lambda y, _: (y, None), y, None, length=2)[0]


def looped(_, y):
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, y))[1]


@pytest.mark.parametrize("branch", [lambda x, y: y, scanned, looped, ga.jit(lambda x, y: y)])
@pytest.mark.parametrize("y", [3.0, gnp.arange(2.0)])
def test_what_all_branches_return_is_not_batched(branch, y):
    f = lambda x, y: lax.cond(x < 1, branch, lambda x, y: y, x, y)
    out = ga.vmap(f, in_axes=(0, None), out_axes=None)(gnp.arange(3.0), y)
    assert isinstance(out, ga.Array)
    np.testing.assert_array_equal(out, y)


def test_what_branches_return_differently_is_chosen():
    f = lambda x, y: lax.switch(x, [lambda x, y: (y, x), lambda x, y: (x, y)], x, y)
    out = ga.vmap(f, in_axes=(0, None))(gnp.arange(3), 7)
    np.testing.assert_array_equal(out, [[7, 1, 2], [0, 7, 7]])


def test_the_derivative_of_a_forwarded_operand():
    f = lambda x, y: lax.cond(x < 1, lambda x, y: (x * y, y), lambda x, y: (x + y, y), x, y)
    loss = lambda y: sum(v.sum() for v in ga.vmap(f, (0, None))(gnp.arange(3.0), y))
    # x y where x < 1, x + y twice, and y three times.
    np.testing.assert_allclose(ga.grad(loss)(2.0), 0 + 2 + 3)
