"""Callables whose names are no names: an object may hold anything under `__name__`."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental import checkify


class Property:
    __name__ = property(lambda self: 3)

    def __call__(self, x):
        return 2 * x


class Attributes:
    def __init__(self):
        odd = {"__name__": None, "__doc__": None, "__qualname__": 5, "__module__": 7}
        vars(self).update(odd, __annotations__=3)

    def __call__(self, x):
        return 2 * x


def _checked(f):
    return lambda x: checkify.checkify(f)(x)[1]


def _with_jvp(f):
    made = ga.custom_jvp(f)
    made.defjvps(lambda t, out, x: 2 * t)
    return lambda x: ga.grad(made)(x) * 3


def _with_vjp(f):
    made = ga.custom_vjp(f)
    made.defvjp(lambda x: (2 * x, None), lambda _, ct: (2 * ct,))
    return lambda x: ga.grad(made)(x) * 3


def _with_vmap(f):
    made = ga.custom_batching.custom_vmap(f)
    made.def_vmap(lambda size, batched, x: (2 * x, batched[0]))
    return lambda x: ga.vmap(made)(x[None])[0]


MAKERS = {
    "checkify": _checked,
    "checkpoint": ga.checkpoint,
    "custom_jvp": _with_jvp,
    "custom_vjp": _with_vjp,
    "custom_vmap": _with_vmap,
    "eval_shape": lambda f: lambda x: gnp.full_like(ga.eval_shape(f, x), 6),
    "fori_loop": lambda f: lambda x: lax.fori_loop(0, 1, lambda i, x: lax.map(f, x[None])[0], x),
    "grad": lambda f: lambda x: ga.grad(f)(x) * 3,
    "hessian": lambda f: lambda x: ga.hessian(f)(x) + 6,
    "jacfwd": lambda f: lambda x: ga.jacfwd(f)(x) * 3,
    "jacrev": lambda f: lambda x: ga.jacrev(f)(x) * 3,
    "jit": ga.jit,
    "linearize": lambda f: lambda x: ga.linearize(f, x)[0],
    "make_jaxpr": lambda f: lambda x: ga.make_jaxpr(f)(x) and 6,
    "named_call": ga.named_call,
    "pmap": lambda f: lambda x: ga.pmap(f)(x[None])[0],
    "value_and_grad": lambda f: lambda x: ga.value_and_grad(f)(x)[0],
    "vectorize": gnp.vectorize,
    "vjp": lambda f: lambda x: ga.vjp(f, x)[0],
    "vmap": lambda f: lambda x: ga.vmap(f)(x[None])[0],
}


@pytest.mark.parametrize("kind", [Property, Attributes])
@pytest.mark.parametrize("maker", MAKERS)
def test_a_callable_without_a_name(maker, kind):
    assert np.asarray(MAKERS[maker](kind())(gnp.float32(3))) == 6
