"""pmap: values and gradients are those of vmap with the same axis name; layouts; bad input."""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

X = np.arange(24.0, dtype=np.float32).reshape(8, 3) / 5
Y = np.cos(np.arange(40.0, dtype=np.float32)).reshape(5, 8)


def close(a, b):
    for u, v in zip(ga.tree.leaves(a), ga.tree.leaves(b), strict=True):
        np.testing.assert_allclose(np.asarray(u), np.asarray(v), rtol=1e-5, atol=1e-5)


def f(tree, y, scale=1.0):
    centred = tree["x"] - lax.pmean(tree["x"], "i")
    return {"a": centred * scale, "b": (lax.psum(y, "i"), lax.axis_index("i") * tree["k"])}


AXES: Any = ({"x": 0, "k": None}, 1)


@pytest.mark.parametrize("out_axes", [0, {"a": 1, "b": (None, 0)}, {"a": -1, "b": (0, 0)}])
def test_axes(out_axes):
    tree = {"x": X, "k": 3}
    got = ga.pmap(f, "i", in_axes=AXES, out_axes=out_axes)(tree, Y)
    want = ga.vmap(f, AXES, 0, axis_name="i")(tree, Y)
    want = ga.tree.map(np.asarray, want)
    if out_axes != 0:
        b = want["b"][0][0] if out_axes["b"][0] is None else want["b"][0]
        want = {"a": want["a"].T, "b": (b, want["b"][1])}
    close(got, want)
    # Arguments by name are mapped along axis 0.
    scaled = ga.pmap(f, "i", in_axes=AXES)(tree, Y, scale=np.arange(8.0))
    close(
        scaled["a"],
        np.asarray(ga.vmap(f, AXES, axis_name="i")(tree, Y)["a"]) * np.arange(8.0)[:, None],
    )


def test_fewer_elements_than_devices_and_length_of_the_axis():
    close(ga.pmap(lambda x: lax.psum(x, "i"), "i")(X[:3]), np.broadcast_to(X[:3].sum(0), (3, 3)))
    close(ga.pmap(lambda x: x * lax.axis_index("i"), "i", in_axes=None, axis_size=4)(2.0),
          2.0 * np.arange(4))  # fmt: skip
    # Of the devices that are given, too.
    out = ga.pmap(lambda x: 2 * x, devices=ga.devices()[:1:-1])(X[:3])
    close(out, 2 * X[:3])
    assert list(out.sharding.mesh.devices.flat) == ga.devices()[7:4:-1]


def test_results_lie_over_the_devices_in_order():
    out = ga.pmap(lambda x: 2 * x)(X)
    assert isinstance(out.sharding, NamedSharding)
    assert list(out.sharding.mesh.devices.flat) == ga.devices()[:8]
    assert [s.device for s in out.addressable_shards] == ga.devices()[:8]
    close(out.addressable_shards[3].data, 2 * X[3:4])
    backwards = ga.devices()[:8][::-1]
    again = ga.pmap(lambda x: x + 1, devices=backwards)(out)
    assert list(again.sharding.mesh.devices.flat) == backwards
    close(again, 2 * X + 1)
    assert ga.pmap(lambda x: lax.psum(x, "i"), "i", out_axes=None)(X).sharding.is_fully_replicated


@pytest.mark.parametrize("call", [lambda g: g, ga.jit])
def test_derivatives(call):
    def body(x, w):
        return gnp.tanh(x * w) - lax.psum(gnp.sin(x), "i") * lax.ppermute(x, "i", [(0, 3), (3, 1)])

    loss = lambda m: lambda x, w: (m(body)(x, w) ** 2).sum()
    mapped = loss(lambda b: ga.pmap(b, "i", in_axes=(0, None)))
    plain = loss(lambda b: ga.vmap(b, (0, None), axis_name="i"))
    w = np.array([0.5, -1.0, 2.0], np.float32)
    for arg in (0, 1):
        np.testing.assert_allclose(
            np.asarray(call(ga.grad(mapped, arg))(X, w)),
            np.asarray(ga.grad(plain, arg)(X, w)), rtol=1e-4, atol=1e-4,
        )  # fmt: skip
    both = np.stack([X, -X])
    mapped_body = ga.vmap(lambda x: ga.pmap(body, "i", in_axes=(0, None))(x, w))
    plain_body = ga.vmap(lambda x: ga.vmap(body, (0, None), axis_name="i")(x, w))
    close(call(mapped_body)(both), plain_body(both))


def test_an_axis_of_vmap_may_have_the_same_name():
    inner = ga.pmap(lambda x: x - lax.psum(x, "i"), "i")
    both = np.stack([X, 2 * X])
    close(ga.vmap(inner, axis_name="i")(both), both - both.sum(1, keepdims=True))


def test_static_arguments_and_lowering():
    g = ga.pmap(lambda x, n: x * n, static_broadcasted_argnums=1)
    close(g(X, 3), 3 * X)
    close(g(X, 4), 4 * X)
    close(ga.pmap(lambda x: x + 1).lower(X).compile()(X), X + 1)
    assert g.__wrapped__ is not None
    called = []
    h = ga.pmap(lambda x: called.append(1) or x)
    h(X), h(X)
    assert called == [1]


def test_donation():
    x = ga.pmap(lambda x: x)(X)
    ga.pmap(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()


def test_calls_with_arrays_like_before_are_asked_nothing():
    calls = []

    def add(x, y):
        calls.append(1)
        return x + 2 * y

    mapped = ga.pmap(add, in_axes=(0, 1))
    lying = ga.pmap(lambda x: x)(X), gnp.asarray(X.T)
    elsewhere = [ga.device_put(x, ga.devices()[3]) for x in (X, X.T)]
    over_four = ga.sharding.Mesh(np.array(ga.devices()[4:]), ("z",))
    cut = ga.device_put(X, NamedSharding(over_four, P("z"))), gnp.asarray(X.T)
    kinds = [lying, (lying[0], X.T), (X, lying[1]), elsewhere, cut, lying]
    for args in kinds * 2:
        close(mapped(*args), 3 * X)
        assert mapped(*args).sharding.device_set == set(ga.devices()[:8])
    assert calls == [1]
    close(mapped(2 * lying[0], lying[1]), 4 * X)
    # Other shapes, other numbers of arguments and traced ones are not taken for those.
    close(mapped(lying[0][:4], lying[1][:, :4]), 3 * X[:4])
    with pytest.raises(ValueError, match="in_axes"):
        mapped(lying[0])
    close(ga.jit(mapped)(*lying), 3 * X)
    close(ga.vmap(mapped)(X[None], X.T[None])[0], 3 * X)
    over = ga.shard_map(mapped, mesh=ga.make_mesh((8,), ("i",)), in_specs=P(), out_specs=P())
    with pytest.raises(ValueError, match="pmap inside of pmap or shard_map"):
        over(*lying)
    before = len(calls)
    mapped.clear_cache()
    close(mapped(*lying), 3 * X)
    assert len(calls) == before + 1


BAD = {
    "more than the devices": (
        lambda: ga.pmap(lambda x: x)(np.zeros((9, 2))), ValueError, "9 logical devices"),
    "sizes that differ": (
        lambda: ga.pmap(lambda x, y: x)(X, Y), ValueError, "inconsistent sizes|sizes"),
    "nothing mapped": (
        lambda: ga.pmap(lambda x: x, in_axes=None)(X), ValueError, "at least one|axis_size"),
    "no such axis": (lambda: ga.pmap(lambda x: x, in_axes=2)(X), ValueError, "rank"),
    "axis of a result": (lambda: ga.pmap(lambda x: x, out_axes=3)(X), ValueError, "out of bounds"),
    "axes of too many arguments": (
        lambda: ga.pmap(lambda x: x, in_axes=(0, 0))(X), ValueError, "len\\(in_axes\\)=2"),
    "axes for arguments by name": (
        lambda: ga.pmap(lambda x: x, in_axes=(0,))(x=X), ValueError,
        "each argument passed by keyword is mapped"),
    "axes of another structure": (
        lambda: ga.pmap(lambda x: x[0], in_axes=((0, 0, 0),))((X, X)), ValueError,
        "pmap in_axes\\[0\\]"),
    "a letter for an axis": (lambda: ga.pmap(lambda x: x, in_axes="a"), TypeError, "in_axes must"),
    "a list as a static argument": (
        lambda: ga.pmap(lambda x, n: x, static_broadcasted_argnums=1)(X, [1]), ValueError,
        "[Nn]on-hashable"),
    "pmap in pmap": (
        lambda: ga.pmap(lambda x: ga.pmap(lambda y: y)(x))(np.zeros((4, 2))), ValueError,
        "pmap inside of pmap"),
    "no devices": (lambda: ga.pmap(lambda x: x, devices=[]), ValueError, "non-empty"),
    "too few devices": (
        lambda: ga.pmap(lambda x: x, devices=ga.devices()[:2])(X), ValueError,
        "number of local devices 2"),
    "no element": (
        lambda: ga.pmap(lambda x: x, in_axes=None, axis_size=0)(X), ValueError, "at least one"),
    "an array of no elements": (
        lambda: ga.pmap(lambda x: x)(X[:0]), ValueError, "at least one element"),
    "no device among the devices": (
        lambda: ga.pmap(lambda x: x, devices=["cpu"]), TypeError, "a Device"),
    "an unknown axis": (
        lambda: ga.pmap(lambda x: lax.psum(x, "j"), "i")(X), NameError, "unbound axis name: j"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        call()


def test_pmap_is_shard_map_over_the_same_devices():
    mesh = Mesh(np.array(ga.devices()[:8]), ("i",))
    body = lambda x: lax.all_gather(x, "i").sum(0) - x
    one = lambda x: body(x[0])[None]
    mapped = ga.shard_map(one, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    close(ga.pmap(body, "i")(X), mapped(X))


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_stages_have_the_structure_of_the_arguments():
    x = np.arange(8.0, dtype=np.float32)
    scaled = ga.pmap(
        lambda n, tree, s: {"a": tree["a"] * s + tree["b"][0] + n},
        static_broadcasted_argnums=0,
        donate_argnums=1,
    )
    given = {"a": gnp.asarray(x), "b": (gnp.asarray(2 * x),)}
    for stage in (scaled.trace(3, given, s=x), scaled.lower(3, given, s=x)):
        (info,), named = stage.args_info
        assert info["b"][0].shape == (8,) and info["a"].donated and not named["s"].donated
        assert stage.out_info["a"].shape == (8,)
    compiled = scaled.lower(3, given, s=x).compile()
    with pytest.raises(TypeError, match=r"Argument \"tree\['b'\]\[0\]\" compiled with float32"):
        compiled({"a": x, "b": (np.arange(8),)}, s=x)
    np.testing.assert_array_equal(compiled(given, s=x)["a"], x * x + 2 * x + 3)
