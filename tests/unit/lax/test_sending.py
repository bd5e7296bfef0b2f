"""psend and precv: the value goes where it is sent, and halves that do not fit are refused."""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.errors import JaxRuntimeError
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

X = np.arange(1.0, 9.0, dtype=np.float32).reshape(4, 2)
LINE = [(0, 1), (1, 2), (2, 3)]


def line(x):
    return lax.precv(lax.psend(x, "i", LINE), x, "i", LINE)


def forth_and_back(x):
    """What comes back depends on what went forth; a barrier orders the two."""
    there = lax.precv(lax.psend(x, "i", LINE), ga.ShapeDtypeStruct.like(x), "i", LINE)
    weight, _ = lax.optimization_barrier((gnp.float32(2), there))
    back = [(3, 0)]
    return lax.precv(lax.psend(there * weight, "i", back), there, axis_name="i", perm=back)


def tree_of_tokens(x):
    tokens = lax.psend({"a": x, "b": x.sum()}, ("i",), LINE)
    tokens = lax.optimization_barrier(tokens)
    a = lax.precv(tokens["a"], x, ("i",), LINE)
    return a + lax.precv(tokens["b"], x[0], ["i"], LINE)


# Who receives nothing has zeros.
WANTED = {
    line: np.concatenate([np.zeros((1, 2)), X[:-1]]),
    forth_and_back: np.concatenate([2 * X[2:3], np.zeros((3, 2))]),
    tree_of_tokens: np.concatenate([np.zeros((1, 2)), X[:-1] + X[:-1].sum(1, keepdims=True)]),
}


@pytest.mark.parametrize("f", WANTED)
def test_along_an_axis_of_vmap(f):
    for run in (ga.vmap(f, axis_name="i"), ga.jit(ga.vmap(f, axis_name="i"))):
        np.testing.assert_array_equal(run(X), WANTED[f])


@pytest.mark.devices
@pytest.mark.parametrize("f", WANTED)
def test_between_devices(f):
    mesh = Mesh(np.array(ga.devices()[:4]), ("i",))
    x = ga.device_put(X, NamedSharding(mesh, P("i")))
    mapped = ga.shard_map(lambda v: f(v[0])[None], mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    for run in (mapped, ga.jit(mapped), ga.pmap(f, axis_name="i", devices=ga.devices()[:4])):
        np.testing.assert_array_equal(run(x), WANTED[f])


@pytest.mark.devices
def test_tokens_go_through_loops_and_calls():
    mesh = Mesh(np.array(ga.devices()[:4]), ("i",))

    def pipeline(x):
        def turn(carry, _):
            x, token = carry
            x = x + lax.precv(token, x, "i", LINE)
            return (x, ga.jit(lambda v: lax.psend(v, "i", LINE))(x)), None

        return lax.scan(turn, (x, lax.psend(x, "i", LINE)), None, length=2)[0][0]

    run = ga.jit(ga.shard_map(pipeline, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
    wanted = X
    for _ in range(2):
        wanted = wanted + np.concatenate([np.zeros((1, 2)), wanted[:-1]])
    np.testing.assert_array_equal(run(X), wanted)


def test_derivatives():
    def loss(x):
        return (lax.psum(line(x) * gnp.array([1.0, 2.0]), "i") ** 2).sum()

    total = lambda x: ga.vmap(loss, axis_name="i")(x)[0]
    moved = np.concatenate([np.zeros((1, 2)), X[:-1]])
    slope = 2 * (moved * [1, 2]).sum(0) * [1, 2]
    wanted = np.concatenate([np.tile(slope, (3, 1)), np.zeros((1, 2))])
    np.testing.assert_allclose(ga.grad(total)(X), wanted, rtol=1e-6)


def sent(x, perm=LINE):
    return lax.psend(x, "i", perm)


BAD: dict[str, tuple[Any, type, str]] = {
    "a circle": (lambda x: sent(x, [(0, 1), (1, 0)]), JaxRuntimeError, "non-cyclical"),
    "to itself": (lambda x: sent(x, [(2, 2)]), JaxRuntimeError, "non-cyclical.*ppermute"),
    "a source twice": (lambda x: sent(x, [(0, 1), (0, 2)]), ValueError, "psend .*must be unique"),
    "a target twice": (lambda x: sent(x, [(0, 1), (2, 1)]), ValueError, "psend .*must be unique"),
    "no such element": (lambda x: sent(x, [(0, 4)]), ValueError, "from 0 to 3"),
    "no psend": (
        lambda x: lax.precv(lax.create_token(), x, "i", LINE),
        JaxRuntimeError,
        "Expected send to match recv",
    ),
    "other pairs": (
        lambda x: lax.precv(sent(x), x, "i", [(1, 0)]),
        JaxRuntimeError,
        r"Deadlock detected.*\(2, 3\)\], precv expects along \('i',\) by \[\(1, 0\)\]",
    ),
    "another shape": (
        lambda x: lax.precv(sent(x), x[:1], "i", LINE),
        ValueError,
        r"out_shape is float32\[1\], and what was sent is float32\[2\]",
    ),
    "another dtype": (
        lambda x: lax.precv(sent(x), x.astype("int32"), "i", LINE),
        ValueError,
        r"out_shape is int32\[2\]",
    ),
    "no shape": (lambda x: lax.precv(sent(x), (2,), "i", LINE), TypeError, r"got \(2,\) of type"),
    "an unknown axis": (lambda x: lax.psend(x, "j", LINE), NameError, "unbound axis name: j"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    f, kind, message = BAD[name]
    with pytest.raises(kind, match=f"(?s){message}"):
        ga.vmap(f, axis_name="i")(X)
