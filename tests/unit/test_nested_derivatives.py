"""Derivatives of derivatives: results beside the result, and custom rules under wrappers."""

import functools
import itertools

import numpy as np
import pytest
from numpy.polynomial import Polynomial

import gpuarray as ga
import gpuarray.numpy as gnp

# ---- has_aux: the derivative of what is returned beside the result ----


def _fwd_and_bwd(jitted):
    def both(f):
        fwd, bwd = ga.fwd_and_bwd(f, 0, has_aux=True, jitted=jitted)

        def run(x):
            _, residuals, aux = fwd(x)
            return bwd(residuals, 1.0), aux

        return run

    return both


def _jvp(f):
    return lambda x: ga.jvp(f, (x,), (gnp.ones_like(x),), has_aux=True)[1:]


def _linearize(f):
    def run(x):
        _, linear, aux = ga.linearize(f, x, has_aux=True)
        return linear(gnp.ones_like(x)), aux

    return run


def _vjp(f):
    def run(x):
        y, pull, aux = ga.vjp(f, x, has_aux=True)
        return pull(gnp.ones_like(y))[0], aux

    return run


def _value_and_grad(f):
    def run(x):
        (_, aux), gradient = ga.value_and_grad(f, has_aux=True)(x)
        return gradient, aux

    return run


#: name -> (which derivative it takes, a function of (result, aux) to one of (derivative, aux)).
WITH_AUX = {
    "grad": (1, functools.partial(ga.grad, has_aux=True)),
    "value_and_grad": (1, _value_and_grad),
    "vjp": (1, _vjp),
    "jvp": (1, _jvp),
    "linearize": (1, _linearize),
    "jacfwd": (1, functools.partial(ga.jacfwd, has_aux=True)),
    "jacrev": (1, functools.partial(ga.jacrev, has_aux=True)),
    "jacobian": (1, functools.partial(ga.jacobian, has_aux=True)),
    "hessian": (2, functools.partial(ga.hessian, has_aux=True)),
    "fwd_and_bwd": (1, _fwd_and_bwd(jitted=False)),
    "fwd_and_bwd, jitted": (1, _fwd_and_bwd(jitted=True)),
    "jit of grad": (1, lambda f: ga.jit(ga.grad(f, has_aux=True))),
    "grad of jit": (1, lambda f: ga.grad(ga.jit(f), has_aux=True)),
    "grad of checkpoint": (1, lambda f: ga.grad(ga.checkpoint(f), has_aux=True)),
}

OUTSIDE = {
    "grad": ga.grad,
    "jacfwd": ga.jacfwd,
    "jvp": lambda f: lambda x: ga.jvp(f, (x,), (gnp.ones_like(x),))[1],
    "jit of grad": lambda f: ga.jit(ga.grad(f)),
    "vmap of grad": lambda f: lambda x: ga.vmap(ga.grad(f))(x[None])[0],
}


def _summed(name, f, exact):
    """`f` through a wrapper that keeps a second result, both added; and that as a polynomial."""
    order, wrapper = WITH_AUX[name]
    wrapped = wrapper(lambda x: (f(x), {"beside": 2 * f(x)}))

    def run(x):
        derivative, aux = wrapped(x)
        return derivative + aux["beside"]

    return run, exact.deriv(order) + 2 * exact


@pytest.mark.parametrize("first", WITH_AUX)
def test_aux_carries_derivatives_of_the_traces_around(first):
    start, exact = (lambda x: x * x * x - x), Polynomial([0, -1, 0, 1])
    names = list(WITH_AUX)
    at = names.index(first)
    chains = [(first,), *((first, second) for second in names)]
    chains += [(first, second, names[(at + i) % len(names)]) for i, second in enumerate(names)]
    outside = itertools.cycle(OUTSIDE)
    for chain in chains:
        f, p = start, exact
        for name in chain:
            f, p = _summed(name, f, p)
        derived = next(outside)
        got = OUTSIDE[derived](f)(gnp.asarray(2.0, "float32"))
        np.testing.assert_allclose(got, p.deriv()(2.0), rtol=1e-5, err_msg=f"{derived}: {chain}")


def test_aux_may_be_anything():
    class Known:
        primal = "mine"

    known = Known()
    f = lambda x: (x**2, {"text": "a", "none": None, "object": known, "value": x})
    for transform in (ga.grad, ga.jacfwd, ga.jacrev):
        _, aux = transform(f, has_aux=True)(3.0)
        assert aux["text"] == "a" and aux["object"] is known and aux["value"] == 3.0


def test_aux_of_jacfwd_is_one_value_for_all_columns():
    sine = ga.custom_jvp(gnp.sin)
    sine.defjvp(lambda primals, tangents: (sine(*primals), tangents[0] * gnp.cos(*primals)))
    _, aux = ga.jacfwd(lambda x: (x**2, sine(gnp.arange(2.0))), has_aux=True)(gnp.arange(3.0))
    np.testing.assert_allclose(aux, np.sin(np.arange(2.0)), rtol=1e-6)
