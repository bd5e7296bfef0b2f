"""Operations and programs over several devices, one after another: values, layouts, memory."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.sharding import AxisType, Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def mesh():
    return ga.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def laid(*spec, value: Any = X):
    return ga.device_put(value, NamedSharding(mesh(), P(*spec)))


#: An operation on X as P("x", None), and the spec that JAX 0.10.2 gives its result.
OPERATIONS = {
    "add": (lambda x: x + 1, P("x", None)),
    "transpose": (lambda x: x.T, P(None, "x")),
    "sum over a cut axis": (lambda x: x.sum(0), P()),
    "sum over a whole axis": (lambda x: x.sum(1), P("x")),
    # Along the axis that is left: each device then keeps a piece, and nothing is gathered.
    "one row": (lambda x: x[0], P("x")),
    "one column": (lambda x: x[:, 0], P("x")),
    "rows": (lambda x: x[2:4], P(None, "x")),
    "ravel": (lambda x: x.reshape(-1), P("x")),
    "split": (lambda x: x.reshape(4, 2, 4), P("x")),
    "matmul": (lambda x: x @ x.T, P("x", None)),
    "zeros_like": (gnp.zeros_like, P("x", None)),
    "full_like": (lambda x: gnp.full_like(x, 2), P("x", None)),
    "sort": (lambda x: gnp.sort(x, 1), P("x", None)),
    "astype": (lambda x: x.astype("int32"), P("x", None)),
    "array": (lambda x: gnp.array(x), P("x", None)),
    "copy": (lambda x: x.copy(), P("x", None)),
    "where": (lambda x: gnp.where(x > 0, x, 0), P("x", None)),
    "stack": (lambda x: gnp.stack([x, x]), P(None, "x")),
    "new axis": (lambda x: x[None], P(None, "x")),
    "broadcast": (lambda x: gnp.broadcast_to(x, (2, 8, 4)), P(None, "x")),
    "deepcopy": (copy.deepcopy, P("x", None)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_layouts_of_results(name):
    function, spec = OPERATIONS[name]
    out = function(laid("x", None))
    assert out.sharding.spec == spec
    np.testing.assert_allclose(out, function(gnp.asarray(X)), rtol=1e-6)


def test_operands_that_are_recorded_or_elsewhere():
    ones = np.ones((512, 512), np.float32)
    there = laid("x", value=ones)
    pending = gnp.ones((512, 512)) + 1
    out = pending + there
    assert out.sharding.spec == P("x")
    np.testing.assert_array_equal(out, 3)
    assert (there + gnp.ones(512)).sharding.spec == P("x")  # nobody has placed the vector
    with pytest.raises(ValueError, match="incompatible devices"):
        _ = there + ga.device_put(1.0, ga.devices()[0])


def test_random_keys_are_cut_like_other_arrays():
    keys = ga.random.split(ga.random.key(0), 8)
    there = laid("x", value=keys)
    draw = ga.vmap(lambda key: ga.random.normal(key, (3,)))
    assert draw(there).sharding.spec == P("x")
    np.testing.assert_array_equal(draw(there), draw(keys))
    np.testing.assert_array_equal(ga.random.key_data(there[1]), ga.random.key_data(keys[1]))


def test_an_effect_outside_a_mesh_happens_once(capsys):
    ga.debug.print("sum {}", laid("x", "y").sum())
    ga.effects_barrier()
    assert capsys.readouterr().out == "sum 496.0\n"


def test_python_on_arrays_that_are_cut():
    x = laid("x", "y")
    assert repr(x) == repr(gnp.asarray(X)) and len(x) == 8
    np.testing.assert_array_equal(np.stack(list(x)), X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)), X)
    assert gnp.asarray(x) is x and x.block_until_ready() is x
    host = X.copy()
    np.add(host, np.asarray(x), out=host)
    np.testing.assert_array_equal(host, 2 * X)
    np.testing.assert_array_equal(X + x, 2 * X)
    with pytest.raises(BufferError, match="one device"):
        np.from_dlpack(x)
    y = x
    y += 1
    assert y.sharding == x.sharding and float(x[7, 3]) == 31
    np.testing.assert_array_equal(x.at[0].set(5)[:2], [[5] * 4, X[1]])
    assert bool((x >= 0).all())


def test_loops_and_branches():
    x = laid("x", "y")
    np.testing.assert_array_equal(lax.cond(x.sum() > 0, lambda: x, lambda: -x), X)
    total, rows = lax.scan(lambda c, row: (c + row.sum(), row * 2), 0.0, x)
    assert float(total) == X.sum()
    np.testing.assert_array_equal(rows, 2 * X)
    np.testing.assert_array_equal(
        lax.while_loop(lambda c: c.sum() < 1e3, lambda c: 2 * c, x), 4 * X
    )


def test_without_fusion():
    before = ga.config.fusion
    ga.config.update("fusion", False)
    try:
        np.testing.assert_array_equal(laid("x") * 2 + 1, 2 * X + 1)
    finally:
        ga.config.update("fusion", before)


def test_deleting_one_replica_leaves_the_others():
    x = laid()
    x.addressable_shards[0].data.delete()
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(x.addressable_shards[1].data, X)


def test_many_programs_in_flight():
    x = laid("x", "y")
    f = ga.jit(lambda x: x + 1)
    for _ in range(10_000):
        x = f(x)
    np.testing.assert_array_equal(x, X + 10_000)


def test_the_cache_report_says_whose_layout_changed():
    def why(f, *args):
        f(*args)
        return ga.debug.cache_report(1)

    f = ga.jit(lambda a, b: a + 3 * b)
    assert "first call" in why(f, laid("x"), laid())
    moved = "the layout of input 0 changed: P('x',) over x=4, y=2 -> P('y',) over x=4, y=2"
    assert moved in why(f, laid("y"), laid())
    both = why(f, laid(), laid("x"))
    assert "input 0 changed" in both and "input 1 changed" in both
    # Another shape is traced anew, and that is the reason.
    shapes = why(f, laid()[:4], laid()[:4])
    assert "float32[8,4]" in shapes and "layout" not in shapes
    asked = lambda spec: ga.jit(lambda a: a * 11, out_shardings=NamedSharding(mesh(), spec))
    why(asked(P("x")), laid())
    assert "-> NamedSharding" in why(asked(P("y")), laid())


def test_misses_for_the_layout_are_explained(caplog):
    f = ga.jit(lambda a: a * 13)
    with ga.explain_cache_misses(True), caplog.at_level("WARNING", "gpuarray"):
        f(laid("x"))
        caplog.clear()
        f(laid("x"))
        assert not caplog.records
        f(laid("y"))
    assert "<lambda> is partitioned anew because: the layout of input 0 changed" in caplog.text


def test_donated_pieces_are_written_over():
    def places(x: Any) -> list[int]:
        return [buffer.ctypes.data for buffer in x._buffers()]

    value = np.ones((64, 32), np.float32)
    programs = {
        "alone": lambda x: x.at[:, 1].add(2.0),
        "with a sum over devices": lambda x: x.at[:, 1].add(x.sum(), unique_indices=True),
    }
    for name, fun in programs.items():
        # Each device's own piece is; what several have is not, nor is what somebody still reads.
        for spec, reused in ((("x", "y"), 8), (("x",), 0), ((), 0)):
            x = laid(*spec, value=value) + 0
            before = places(x)
            y = ga.jit(fun, donate_argnums=0)(x)
            assert x.is_deleted()
            if name == "alone":
                assert sum(a == b for a, b in zip(before, places(y), strict=True)) == reused
            np.testing.assert_allclose(y, fun(gnp.asarray(value)), rtol=1e-6)
        x = laid("x", "y", value=value) + 0
        kept = x.addressable_shards[3].data
        y = ga.jit(fun, donate_argnums=0)(x)
        np.testing.assert_array_equal(kept, np.ones_like(kept))
        np.testing.assert_allclose(y, fun(gnp.asarray(value)), rtol=1e-6)


def test_a_new_layout_on_the_same_devices_is_no_transfer():
    devices = np.array(ga.devices()[:4])
    one, other = (Mesh(d.reshape(2, 2), ("x", "y")) for d in (devices, devices[::-1]))
    x = ga.device_put(np.arange(16).reshape(8, 2), NamedSharding(one, P("x", "y")))
    with ga.transfer_guard("disallow_explicit"):
        out = ga.device_put(x, NamedSharding(other, P("x")))
        with pytest.raises(ga.errors.JaxRuntimeError, match="device-to-device"):
            ga.device_put(x, ga.devices()[7])
    np.testing.assert_array_equal(out, np.arange(16).reshape(8, 2))
