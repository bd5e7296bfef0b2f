"""check_tracer_leaks: values kept beyond the function that made them are named, others are not."""

import re

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

X = np.arange(3.0, dtype=np.float32)

RUNS = {
    "jit": lambda f: ga.jit(f)(X),
    "vmap": lambda f: ga.vmap(f)(X),
    "grad": lambda f: ga.grad(lambda x: f(x).sum())(X),
    "jvp": lambda f: ga.jvp(f, (X,), (X,)),
    "linearize": lambda f: ga.linearize(f, X),
    "vjp": lambda f: ga.vjp(f, X)[1](X),
    "scan": lambda f: lax.scan(lambda c, x: (c, f(x)), 0.0, X),
    "vmap of grad": lambda f: ga.vmap(ga.grad(f))(X),
    "grad of vmap": lambda f: ga.grad(lambda x: ga.vmap(f)(x).sum())(X),
    "jit of vmap": lambda f: ga.jit(ga.vmap(f))(X),
    "checkpoint": lambda f: ga.grad(lambda x: ga.checkpoint(f)(x).sum())(X),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_is_kept_is_named(name):
    kept = []

    def f(x):
        kept.append(gnp.sin(x))
        return x

    with ga.check_tracer_leaks(), pytest.raises(RuntimeError, match="Leaked trace") as caught:
        RUNS[name](f)
    assert re.search(
        r"This \w+Tracer with object id \d+ was created on line:\n  test_leaks.py:\d+ .*\n"
        r"<\w+Tracer \d+> is referred to by <list \d+>\[0\]",
        str(caught.value),
    )


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("f", [lambda x: x, lambda x: gnp.sin(x) * x], ids=["same", "sine"])
def test_nothing_is_said_where_nothing_leaks(name, f):
    with ga.check_tracer_leaks():
        RUNS[name](f)
        RUNS[name](ga.jit(f))


def test_rules_do_not_leak():
    @ga.custom_vjp
    def f(x):
        return gnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * gnp.cos(x),))
    with ga.check_tracer_leaks():
        for name in RUNS.keys() - {"jvp"}:
            RUNS[name](f)
        ga.jit(ga.grad(lambda x: ga.vmap(f)(x).sum()))(X)


def test_the_holder_is_told():
    class Holder:
        pass

    holder = Holder()

    def f(x):
        holder.kept = {"hi": [lambda: x]}
        return x

    with ga.check_tracer_leaks(), pytest.raises(RuntimeError) as caught:
        ga.vmap(f)(X)
    text = str(caught.value)
    assert "(<lambda>)" in text and "is referred to by <cell " in text
