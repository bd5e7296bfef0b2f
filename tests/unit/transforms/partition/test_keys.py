"""Random keys over devices move like numbers: rims, paddings and what nobody sends are keys too.

In: keys of 2 and of 4 words, cut along a mesh of 4 x 2. Out: those that NumPy's indexing of their
words gives.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.sharding import AxisType, NamedSharding
from gpuarray.sharding import PartitionSpec as P

IMPLS = ["threefry2x32", "rbg"]


def keys(impl: str, count: int = 8):
    return ga.random.split(ga.random.key(0, impl=impl), count)


def words(x) -> np.ndarray:
    return np.asarray(ga.random.key_data(x))


def updated(w: np.ndarray, start: int, new: np.ndarray) -> np.ndarray:
    out = w.copy()
    out[start : start + len(new)] = new
    return out


#: What is done to keys, and the same to their words.
MOVED = {
    "slice": (lambda k: k[:4], lambda w: w[:4]),
    "stride": (lambda k: k[1::2], lambda w: w[1::2]),
    "reverse": (lambda k: k[::-1], lambda w: w[::-1]),
    "roll": (lambda k: gnp.roll(k, 3), lambda w: np.roll(w, 3, 0)),
    "concatenate": (lambda k: gnp.concatenate([k, k[:4]]), lambda w: np.concatenate([w, w[:4]])),
    "gather": (lambda k: k[np.array([5, 0, 0, 2])], lambda w: w[[5, 0, 0, 2]]),
    "split": (lambda k: gnp.split(k, 2)[1], lambda w: w[4:]),
    "dynamic_slice": (lambda k: lax.dynamic_slice_in_dim(k, 3, 4), lambda w: w[3:7]),
    "dynamic_update_slice": (
        lambda k: lax.dynamic_update_slice_in_dim(k, k[:2], 3, 0),
        lambda w: updated(w, 3, w[:2]),
    ),
    "at": (lambda k: k.at[3].set(k[0]), lambda w: updated(w, 3, w[:1])),
    "pad": (
        lambda k: lax.pad(k, k[1], ((0, 8, 0),)),
        lambda w: np.concatenate([w, np.stack([w[1]] * 8)]),
    ),
}


@pytest.mark.devices
@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("name", MOVED)
def test_keys_move_over_devices(name, impl):
    fun, reference = MOVED[name]
    mesh = ga.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
    whole = keys(impl)
    cut = ga.device_put(whole, NamedSharding(mesh, P("x")))
    want = reference(words(whole))
    for run in (fun, ga.jit(fun)):
        np.testing.assert_array_equal(words(run(cut)), want)
        np.testing.assert_array_equal(words(run(whole)), want)


@pytest.mark.devices
@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("how", ["vmap", "shard_map"])
def test_who_is_sent_no_key_has_one_of_zeros(how, impl):
    fun = lambda k: lax.ppermute(k, "x", [(0, 1), (2, 0)])
    given = keys(impl, 4)
    if how == "vmap":
        out = ga.vmap(fun, axis_name="x")(given)
    else:
        mesh = ga.make_mesh((4,), ("x",))
        out = ga.shard_map(fun, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(given)
    assert out.dtype == given.dtype
    w = words(given)
    np.testing.assert_array_equal(words(out), np.stack([w[2], w[0], 0 * w[0], 0 * w[0]]))
