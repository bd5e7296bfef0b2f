"""Graphs inside of shard_map: their types, what they become under transformations, contexts."""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.ad_checkpoint import checkpoint_name
from gpuarray.control.shard_map import shard_map_p
from gpuarray.core.graph import subgraphs
from gpuarray.sharding import Mesh
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

X = np.arange(8.0, dtype=np.float32)
MESH: Any = (
    Mesh(np.array(ga.devices()[:8]).reshape(4, 2), ("x", "y")) if len(ga.devices()) >= 8 else None
)


def eqns_of(graph):
    for eqn in graph.eqns:
        yield eqn
        for inner in subgraphs(eqn):
            yield from eqns_of(inner)


def count(f, name, *args):
    """How many equations of this name a function has, at any depth."""
    return sum(e.primitive.name == name for e in eqns_of(ga.make_jaxpr(f)(*args).jaxpr))


ALONG = P("x")


def mapped(f, in_specs=ALONG, out_specs=ALONG, **words):
    return ga.shard_map(f, mesh=MESH, in_specs=in_specs, out_specs=out_specs, **words)


def test_the_cotangent_of_a_sum_needs_no_exchange():
    total = mapped(lambda x: lax.psum(x.sum(), "x"), out_specs=P())
    assert count(ga.grad(total), "psum", X) <= 1  # that of the value
    shared = lambda w: mapped(lambda x: x * w * w)(X).sum()
    # Two uses, one sum.
    assert count(ga.grad(shared), "psum", np.float32(2.0)) == 1


def test_types_inside_of_loops_and_calls():
    def body(x):
        out, seen = lax.scan(lambda c, v: (c + v, ga.jit(gnp.sin)(c)), 0.0, x)
        return seen + out

    jaxpr = ga.make_jaxpr(mapped(body))(X).jaxpr
    (scan,) = [e for e in eqns_of(jaxpr) if e.primitive.name == "scan"]
    for v in (*scan.outvars, *scan.params["jaxpr"].invars, *scan.params["jaxpr"].outvars):
        assert v.aval.vma == {"x"}


def test_a_swapped_carry_varies_as_a_whole():
    def body(x):
        step = lambda c, _: ((c[1], c[0] * 2), None)
        (a, b), _ = lax.scan(step, (gnp.float32(1.0), x.sum()), None, length=3)
        assert a.aval.vma == b.aval.vma == {"x"}
        return gnp.stack([a, b])

    got = np.asarray(mapped(body)(X)).reshape(4, 2)
    sums = X.reshape(4, 2).sum(1)
    # (1, s), (s, 2), (2, 2s), (2s, 4)
    np.testing.assert_allclose(got, np.stack([2 * sums, np.full(4, 4.0)], 1))


def test_residuals_stay_on_their_devices():
    f = mapped(lambda x: gnp.sin(x) * lax.psum(gnp.cos(x).sum(), "x"))
    _, pull = ga.vjp(f, X)
    (ct,) = pull(np.ones(8, np.float32))
    whole = lambda x: gnp.sin(x) * gnp.cos(x).sum()
    _, pull = ga.vjp(whole, X)
    np.testing.assert_allclose(
        np.asarray(ct), np.asarray(pull(np.ones(8, np.float32))[0]), atol=1e-5
    )


def test_named_axes_end_with_an_error():
    with pytest.raises(ZeroDivisionError):
        mapped(lambda x: x / (1 // 0))(X)
    assert ga.sharding.get_abstract_mesh().empty
    with pytest.raises(NameError, match="unbound axis name: x"):
        lax.axis_index("x")


def test_several_meshes_in_one_program():
    other = Mesh(MESH.devices.reshape(8), ("z",))
    f = lambda x: (
        mapped(lambda v: v * lax.axis_index("x"))(x)
        + ga.shard_map(
            lambda v: v + lax.axis_index("z"), mesh=other, in_specs=P("z"), out_specs=P("z")
        )(x)
    )
    want = X * np.arange(4).repeat(2) + X + np.arange(8)
    np.testing.assert_allclose(np.asarray(ga.jit(f)(X)), want)
    np.testing.assert_allclose(np.asarray(f(X)), want)


def test_the_graph_is_part_of_the_equation():
    (eqn,) = ga.make_jaxpr(mapped(lambda x: 2 * x))(X).jaxpr.eqns
    assert eqn.primitive is shard_map_p
    assert eqn.params["in_specs"] == (P("x"),)
    assert eqn.params["jaxpr"].in_avals[0].shape == (2,)
    assert eqn.outvars[0].aval.shape == (8,)


# ---- what policies of checkpoint keep of the values inside ----

POLICIES = ga.checkpoint_policies


def _layers(x, w, v):
    h = gnp.tanh(checkpoint_name(x @ w, "h"))
    h = lax.psum(gnp.sin(h) @ v, "y")
    return gnp.cos(ga.jit(lambda h: gnp.exp(h / 8) * h)(h))


#: A policy, and the matrix products and sums of devices that its pullback computes again.
KEPT = {
    "nothing": (None, 2, 1),
    "products": (POLICIES.dots_saveable, 0, 1),
    "a name": (POLICIES.save_only_these_names("h"), 1, 1),
    "sums": (lambda prim, *_, **__: prim is lax.psum_p, 1, 0),
    "everything": (POLICIES.everything_saveable, 0, 0),
}


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("name", KEPT)
def test_policies_keep_values_of_the_devices(name, check_vma):
    policy, products, sums = KEPT[name]
    mesh = Mesh(np.array(ga.devices()).reshape(4, 2), ("x", "y"))
    layers = ga.shard_map(
        _layers,
        mesh=mesh,
        in_specs=(P("x"), P(None, "y"), P("y")),
        out_specs=P("x"),
        check_vma=check_vma,
    )
    kept = ga.checkpoint(lambda *args: layers(*args) * 2, policy=policy)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s).astype(np.float32) for s in ((8, 6), (6, 4), (4, 6))]

    def plain(x, w, v):
        h = gnp.sin(gnp.tanh(x @ w)) @ v
        return gnp.cos(gnp.exp(h / 8) * h) * 2

    out, pullback = ga.vjp(kept, *given)
    bare = ga.vjp(lambda *args: layers(*args) * 2, *given)[1]
    for word, count in (("dot_general", products), ("psum", sums)):
        numbers = [
            sum(e.primitive.name == word for e in eqns_of(one.jaxpr)) for one in (pullback, bare)
        ]
        assert numbers[0] - numbers[1] == count, (word, numbers, pullback.jaxpr)
    want, pull = ga.vjp(plain, *given)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)
    for a, b in zip(pullback(gnp.ones_like(out)), pull(gnp.ones_like(want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    slope = ga.jit(ga.grad(lambda *args: kept(*args).sum(), (0, 1, 2)))(*given)
    for a, b in zip(slope, pull(gnp.ones_like(want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
