"""Calls of Python functions from programs over several devices: once, and in order."""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.experimental import io_callback
from gpuarray.sharding import NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.support.devices import mesh_of

pytestmark = pytest.mark.devices

X = np.arange(8, dtype=np.float32)


def on_devices(x: Any = X, spec=P("x")):  # noqa: B008
    return ga.device_put(x, NamedSharding(mesh_of((4, 2)), spec))


@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize("spec", [P("x"), P()])
def test_callbacks_run_once_with_all_of_their_operands(jit, spec):
    seen: list = []

    def note(x):
        seen.append(np.array(x))
        return np.cumsum(x, dtype=np.float32)

    like = ga.ShapeDtypeStruct((8,), np.float32)

    def fun(x):
        pure = ga.pure_callback(note, like, x * 2)
        impure = io_callback(note, like, x + 1, ordered=True)
        ga.debug.callback(lambda y: seen.append(np.array(y)), x - 1)
        return pure + impure

    found = (ga.jit(fun) if jit else fun)(on_devices(X, spec))
    np.testing.assert_array_equal(np.asarray(found), np.cumsum(X * 2) + np.cumsum(X + 1))
    ga.effects_barrier()
    assert len(seen) == 3
    for wanted in (X * 2, X + 1, X - 1):
        assert any(np.array_equal(s, wanted) for s in seen)


def test_prints_come_once_and_in_order(capsys):
    @ga.jit
    def fun(x):
        ga.debug.print("first {}", x.sum())
        y = x * 2
        ga.debug.print("second {}", y)
        return y

    fun(on_devices()).block_until_ready()
    ga.effects_barrier()
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["first 28.0", "second [ 0.  2.  4.  6.  8. 10. 12. 14.]"]


def test_callbacks_in_loops_and_branches_run_once_a_step():
    seen: list = []

    @ga.jit
    def fun(x):
        def step(i, x):
            ga.debug.callback(lambda i, s: seen.append((int(i), float(s))), i, x.sum())
            return x + 1

        x = lax.fori_loop(0, 3, step, x)
        return lax.cond(x.sum() > 0, lambda x: seen_by(x), lambda x: x, x)

    def seen_by(x):
        ga.debug.callback(lambda s: seen.append(float(s)), x[0])
        return x * 2

    found = fun(on_devices())
    np.testing.assert_array_equal(np.asarray(found), (X + 3) * 2)
    ga.effects_barrier()
    assert seen == [(0, 28.0), (1, 36.0), (2, 44.0), 3.0]


def test_in_a_manual_region_each_device_calls():
    seen: list = []

    def fun(x):
        ga.debug.callback(lambda y: seen.append(np.array(y)), x)
        return x + 1

    mesh = mesh_of((4, 2))
    ga.jit(ga.shard_map(fun, mesh=mesh, in_specs=P("x"), out_specs=P("x")))(on_devices())
    ga.effects_barrier()
    assert len(seen) == 8
    np.testing.assert_array_equal(np.unique(np.concatenate(seen)), X)


def test_numbers_of_one_generator_are_drawn_once():
    low, high = on_devices(np.float32(0), P()), on_devices(np.float32(1), P())
    found = ga.jit(lambda x, a, b: x + lax.rng_uniform(a, b, (8,)))(on_devices(X * 0), low, high)
    whole = np.asarray(found)
    assert len(np.unique(whole)) == 8
    for shard in found.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), whole[shard.index])


def test_errors_of_callbacks_reach_the_user():
    def fails(x):
        raise ZeroDivisionError("mine")

    like = ga.ShapeDtypeStruct((8,), np.float32)
    with pytest.raises(Exception, match="mine"):
        ga.jit(lambda x: ga.pure_callback(fails, like, x) + jnp.sin(x))(
            on_devices()
        ).block_until_ready()
