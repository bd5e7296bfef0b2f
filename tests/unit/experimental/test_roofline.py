"""Operations and bytes from shapes: figures that JAX 0.10.2 gives for the same functions, and
counts by hand where it leaves operations out (turns of loops).
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental import roofline as rl
from gpuarray.extend.core import Primitive

X, Y = np.ones((8, 16), np.float32), np.ones((16, 4), np.float32)
SELECTED = lambda x: lax.select(x > 0, x, -x)
NAMES = ("flops", "unfused_flops", "hbm_bytes", "unfused_hbm_bytes", "peak_hbm_bytes")
#: {name: (function, arguments, options, figures in the order of NAMES)}
FIGURES = {
    "pointwise": (gnp.sin, (X,), {}, (0, 128, 0, 1024, 512)),
    "scalar": (lambda x: x + 1, (X,), {}, (0, 128, 0, 1028, 512)),
    "product": (gnp.matmul, (X, Y), {}, (1024, 1024, 896, 896, 768)),
    "left": (gnp.matmul, (X, Y), {"pin_lhs_in_vmem": True}, (1024, 1024, 256, 256, 768)),
    "right": (gnp.matmul, (X, Y), {"pin_rhs_in_vmem": True}, (1024, 1024, 640, 640, 768)),
    "sum": (lambda x: x.sum(0), (X,), {}, (0, 112, 0, 576, 512)),
    "call": (ga.jit(lambda x, y: gnp.exp(x) @ y), (X, Y), {}, (1024, 1152, 896, 1920, 768)),
    "convolution": (
        lambda a, b: lax.conv(a, b, (1, 1), "VALID"),
        (np.ones((2, 3, 8, 8), np.float32), np.ones((4, 3, 3, 3), np.float32)),
        {},
        (0, 15552, 0, 3120, 1968),
    ),
    "gather": (lambda x: x[gnp.array([1, 2])], (X,), {}, (0, 6, 0, 308, 530)),
    "scatter": (lambda x: x.at[gnp.array([1, 2])].add(1), (X,), {}, (0, 38, 0, 436, 648)),
    "select": (SELECTED, (X,), {}, (0, 384, 0, 2308, 1152)),
    "derivative": (gnp.sin, (X.astype("bfloat16"),), {"vjp": True}, (0, 384, 0, 1792, 512)),
    # Ten turns of one operation on 16 numbers, of which JAX counts one.
    "loop": (
        lambda x: lax.fori_loop(0, 10, lambda i, c: gnp.sin(c), x),
        (X[0],),
        {},
        (0, 10 * 16, 0, 10 * 2 * 64, 64),
    ),
    "branch": (
        lambda x: lax.cond(x[0] > 0, lambda: gnp.sin(gnp.cos(x)), lambda: x),
        (X[0],),
        {},
        None,
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name):
    f, args, options, expected = FIGURES[name]
    shapes, found = rl.roofline(f, **options)(*args)
    if expected is None:
        assert found.unfused_flops == 2 * 16 + 1
        return
    assert tuple(getattr(found, n) for n in NAMES) == expected
    if not options.get("vjp"):
        assert shapes.shape == ga.eval_shape(f, *args).shape


@pytest.mark.devices
def test_links_of_a_mesh():
    mesh = ga.sharding.Mesh(np.array(ga.devices()[:8]).reshape(4, 2), ("x", "y"))
    P = ga.P
    for f, ins, outs, moved, steps in (
        (lambda a: lax.psum(a, "x"), P("x"), P(), {"x": 192}, {"x": 8}),
        (lambda a: lax.psum(a, ("x", "y")), P("x", "y"), P(), {"x": 56, "y": 56},
         {"x": 16, "y": 16}),
        (lambda a: lax.psum_scatter(a, "x", tiled=True), P(None), P("x"), {"x": 384}, {"x": 4}),
        (lambda a: lax.pmax(a, "x"), P("x"), P(), {"x": 12}, {"x": 4}),
    ):  # fmt: skip
        _, found = rl.roofline(f, mesh, ins, outs)(X)
        assert (found.ici_bytes, found.ici_latency) == (moved, steps)


def test_rules_of_users_and_results_that_add_up(capsys):
    prim = Primitive("triple")
    prim.def_abstract_eval(lambda x: x)

    @rl.register_roofline(prim)
    def rule(context, x, **params):
        assert context.primitive is prim and x == rl.RooflineShape.from_aval(ga.typeof(X))
        return rl.RooflineResult(unfused_flops=3 * x.size, ici_bytes={"a": 1})

    _, found = rl.roofline(lambda x: prim.bind(prim.bind(x)), print_jaxpr=True)(X)
    assert found.unfused_flops == 6 * 128 and found.ici_bytes == {"a": 2}
    assert "triple" in capsys.readouterr().out
    assert (2 * found).unfused_flops == 12 * 128 and (found * 0.5).ici_bytes == {"a": 1}
    assert rl.RooflineResult.zeros() + found == found
    rl.register_standard_roofline(prim)
    assert rl.roofline(prim.bind)(X)[1].unfused_flops == 0
    with pytest.raises(TypeError, match="the type of an array"):
        rl.RooflineShape.from_aval(3)
    square = rl.roofline_and_grad(lambda x: x @ x, None, None, None)
    assert square(X[:, :8])[2].flops == 3 * 1024
