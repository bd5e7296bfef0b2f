"""The forward and the backward pass as two functions, and pullbacks as values."""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax


def layer(x, w):
    return gnp.tanh(x @ w)


def test_both_are_traced_once_whatever_runs_between():
    traced = []

    def counted(x, w):
        traced.append(x)
        return layer(x, w)

    fwd, bwd = ga.fwd_and_bwd(counted, argnums=(0, 1))
    for k in range(3):
        x, w = gnp.full((2, 3), float(k)), gnp.ones((3, 3))
        y, residuals = fwd(x, w)
        wanted_y, pull = ga.vjp(layer, x, w)
        np.testing.assert_allclose(y, wanted_y)
        for a, b in zip(bwd(residuals, y), pull(y), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert len(traced) == 1 and fwd._cache_size() == bwd._cache_size() == 1


@pytest.mark.parametrize("jitted", [True, False])
def test_one_number_gives_one_cotangent_and_negative_ones_count_from_the_end(jitted):
    fwd, bwd = ga.fwd_and_bwd(lambda x, y: x**2 * y, -1, jitted=jitted)
    out, residuals = fwd(3.0, 2.0)
    assert float(out) == 18 and float(bwd(residuals, 1.0)) == 9
    fwd, bwd = ga.fwd_and_bwd(lambda x, y: x**2 * y, [1, 0], jitted=jitted)
    assert [float(ct) for ct in bwd(fwd(3.0, 2.0)[1], 1.0)] == [9, 12]


def test_auxiliary_data_comes_last():
    fwd, bwd = ga.fwd_and_bwd(lambda d: (d["a"] * 2, {"seen": d["a"]}), 0, has_aux=True)
    out, residuals, aux = fwd({"a": 3.0})
    assert float(out) == 6 and float(aux["seen"]) == 3
    assert float(bwd(residuals, 1.0)["a"]) == 2


def test_composes_with_vmap():
    fwd, bwd = ga.fwd_and_bwd(gnp.sin, 0)
    x = gnp.arange(3.0)
    _, residuals = ga.vmap(fwd)(x)
    np.testing.assert_allclose(ga.vmap(bwd)(residuals, gnp.ones(3)), np.cos(x), rtol=1e-6)


def test_wrong_arguments_are_refused_at_the_call():
    with pytest.raises(TypeError, match="takes a function, got 5 of type int"):
        ga.fwd_and_bwd(5, 0)
    fwd, bwd = ga.fwd_and_bwd(lambda x: x, (0, 4))
    with pytest.raises(ValueError, match="argnums has 4 where len\\(args\\) is 1"):
        fwd(1.0)
    fwd, bwd = ga.fwd_and_bwd(lambda x: x, 0)
    with pytest.raises(ValueError, match="expected float32\\[3\\]"):
        bwd(fwd(gnp.ones(3))[1], gnp.ones(2))


def test_a_pullback_prints_its_graph():
    text = repr(ga.vjp(gnp.sin, 1.0)[1])
    assert text.startswith("Pullback(from PyTreeDef(*) to PyTreeDef((*,)), {") and "mul" in text


def test_a_printed_program_may_name_axes_given_with_it():
    show = ga.make_jaxpr(lambda x: lax.psum(x, "i") / lax.axis_size("i"), axis_env=[("i", 4)])
    assert [e.primitive.name for e in show(1.0).eqns] == ["psum", "div"]
    with pytest.raises(NameError, match="unbound axis name: i"):
        ga.make_jaxpr(lambda x: lax.psum(x, "i"))(1.0)
    index = ga.make_jaxpr(lambda: lax.axis_index(("i", "j")), axis_env=[("i", 2), ("j", 3)])
    assert "axis_index[axis_name=i]" in str(index()) and "mul" in str(index())
