"""Types that say along which mesh axes a value varies: no operation loses them.

In: bodies of `shard_map`, each through another kind of operation, whose result differs between
devices. Out: that it differs is known (a result declared to be the same everywhere is refused), the
value is that of the function on each piece alone, and so are first and second derivatives. The
reference is the body without `shard_map`, piece by piece.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.sharding import Mesh
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices


@ga.custom_vjp
def summed(v):
    return v.sum()


summed.defvjp(lambda v: (v.sum(), v), lambda v, ct: (gnp.full(v.shape, ct),))

#: From a piece of shape (1, 2) to a scalar.
BODIES = {
    "sum": lambda v: v.sum(),
    "scan ys": lambda v: lax.scan(lambda c, _: (c, v.sum()), 0.0, None, length=2)[1][0],
    "scan carry": lambda v: lax.scan(lambda c, _: (c + v.sum(), None), 0.0, None, length=2)[0],
    "scan of the carry before": lambda v: lax.scan(
        lambda c, _: (c + v.sum(), c), 0.0, None, length=3
    )[1][1],
    "scan over": lambda v: lax.scan(lambda c, r: (c + r[0] * r[1], None), 0.0, v)[0],
    "fori_loop": lambda v: lax.fori_loop(0, 3, lambda i, c: c + v.sum(), 0.0),
    "cond on it": lambda v: lax.cond(v.sum() > 3, lambda: 1.0, lambda: 2.0),
    "a branch": lambda v: lax.cond(True, lambda: v.sum(), lambda: 2.0),
    "jit": lambda v: ga.jit(lambda a: a.sum())(v),
    "checkpoint": lambda v: ga.checkpoint(lambda a: (a * a).sum())(v),
    "custom_jvp": lambda v: gnp.sum(ga.nn.relu(v)),
    "custom_vjp": lambda v: summed(v),
    "vmap": lambda v: ga.vmap(lambda a: (a * a).sum())(v)[0],
    "grad": lambda v: ga.grad(lambda a: (a**3).sum())(v)[0, 0],
    "jvp": lambda v: ga.jvp(lambda a: (a * a).sum(), (gnp.ones((1, 2)),), (v,))[1],
    "hessian": lambda v: ga.hessian(lambda a: (a**3).sum())(v[0])[0, 0],
    "sort": lambda v: gnp.sort(v)[0, 0],
    "matmul": lambda v: (v @ v.T)[0, 0],
    "index by it": lambda v: gnp.arange(4.0)[v[0, 0].astype(int) % 4],
    "dynamic_slice by it": lambda v: lax.dynamic_slice(
        gnp.arange(4.0), (v[0, 0].astype(int) % 4,), (1,)
    )[0],
    "where": lambda v: gnp.where(v[0, 0] > 1, v[0, 0], 2.0),
    "associative_scan": lambda v: lax.associative_scan(gnp.multiply, v[0])[1],
    "cumsum": lambda v: gnp.cumsum(v)[-1],
    "map": lambda v: lax.map(lambda a: (a * a).sum(), v)[0],
    "norm": lambda v: gnp.linalg.norm(v @ v.T),
    "solve": lambda v: gnp.linalg.solve(gnp.eye(2) * 2, v[0])[0],
    "fft": lambda v: gnp.abs(gnp.fft.fft(v[0]))[0],
    "convolve": lambda v: gnp.convolve(v[0], v[0])[0],
}
#: Without derivatives.
MORE = {
    "while_loop": lambda v: lax.while_loop(lambda c: c < 10, lambda c: c + v.sum() + 1, 0.0),
    "while_loop until it": lambda v: lax.while_loop(lambda c: c < v.sum(), lambda c: c + 1, 0.0),
    "argmax": lambda v: gnp.argmax(v * gnp.array([1.0, -1.0])),
    "pure_callback": lambda v: ga.pure_callback(
        lambda a: np.float32(np.asarray(a).sum()), ga.ShapeDtypeStruct((), "float32"), v
    ),
    "a reference": lambda v: ga.new_ref(v.sum())[...],
}
X = (np.arange(16, dtype=np.float32).reshape(8, 2) + 1) / 7


def mapped(body, in_specs, out_specs, **options):
    mesh = Mesh(np.array(ga.devices()), ("x",))
    return ga.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


@pytest.mark.parametrize("name", BODIES | MORE)
def test_what_varies_is_known(name):
    body = (BODIES | MORE)[name]
    with pytest.raises(ValueError, match="replicat"):
        mapped(body, P("x"), P())(X)
    found = mapped(lambda v: body(v)[None], P("x"), P("x"))(X)
    alone = [body(gnp.asarray(X[i : i + 1])) for i in range(8)]
    np.testing.assert_allclose(found, np.array(alone), rtol=1e-6)


def test_the_number_of_a_device_varies():
    bodies = (
        lambda v: lax.axis_index("x"),
        lambda v: lax.switch(lax.axis_index("x") % 2, [lambda: 1.0, lambda: 2.0]),
        lambda v: ga.random.uniform(ga.random.fold_in(ga.random.key(0), lax.axis_index("x"))),
    )
    for body in bodies:
        with pytest.raises(ValueError, match="replicat"):
            mapped(body, P("x"), P())(X)


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_derivatives_are_those_of_the_pieces(name, check_vma):
    """Of a weight that all devices share, and of what is cut."""
    body = BODIES[name]
    total = mapped(lambda w, v: lax.psum(body(v * w), "x"), (P(), P("x")), P(), check_vma=check_vma)
    pieces = [gnp.asarray(X[i : i + 1]) for i in range(8)]
    one = lambda w, v: body(v * w)
    d_weight, d_cut = ga.grad(total, (0, 1))(1.5, X)
    each = [ga.grad(one, (0, 1))(1.5, piece) for piece in pieces]
    np.testing.assert_allclose(d_weight, sum(float(a) for a, _ in each), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(d_cut, np.concatenate([b for _, b in each]), rtol=1e-4, atol=1e-5)
    # The derivative of the derivative along a direction.
    slope = lambda f, x: ga.jvp(ga.grad(f), (1.5, x), (1.0, gnp.ones(x.shape)))[1]
    second = sum(float(slope(one, piece)) for piece in pieces)
    np.testing.assert_allclose(slope(total, gnp.asarray(X)), second, rtol=1e-3, atol=1e-4)
