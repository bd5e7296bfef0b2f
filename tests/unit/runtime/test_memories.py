"""Kinds of memory: in shardings, in types, through programs; on a CPU they are one memory.

Answers are those of JAX 0.10.2 on a CPU.
"""

from functools import partial

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.memory import Space
from gpuarray.sharding import NamedSharding, SingleDeviceSharding
from gpuarray.sharding import PartitionSpec as P

VALUES = np.arange(8, dtype="float32")


def there(x=VALUES):
    return ga.device_put(gnp.asarray(x), Space.Host)


def kind(x) -> str:
    assert ga.typeof(x).memory_space is (Space.Host if "pinned" in kind_of(x) else Space.Device)
    return kind_of(x)


def kind_of(x) -> str:
    return x.sharding.memory_kind


def test_arrays_say_where_they_are():
    x = there()
    assert kind(x) == "pinned_host" and str(ga.typeof(x)) == "float32<host>[8]"
    assert x.sharding == SingleDeviceSharding(x.device, memory_kind="pinned_host")
    assert x.sharding != SingleDeviceSharding(x.device)
    assert not x.sharding.is_equivalent_to(SingleDeviceSharding(x.device), 1)
    assert kind(ga.device_put(x, Space.Device)) == "device"
    assert kind(ga.device_put(x, x.device)) == "device"
    assert kind(gnp.asarray(x)) == kind(ga.device_put(x)) == "pinned_host"
    assert kind(gnp.zeros(3, device=x.sharding)) == "pinned_host"
    assert kind(x.addressable_shards[0].data) == "pinned_host"
    assert x.format.sharding == x.sharding


OPERATIONS = {
    "add": lambda x: x + x,
    "a number": lambda x: 2 * x + 1,
    "sum": lambda x: x.sum(),
    "element": lambda x: x[0],
    "slice": lambda x: x[2:5],
    "convert": lambda x: x.astype("int32"),
    "dot": lambda x: x @ x,
    "sort": gnp.sort,
    "concatenate": lambda x: gnp.concatenate([x, x]),
    "cumsum": gnp.cumsum,
    "fft": gnp.fft.fft,
    "reshape": lambda x: x.reshape(2, -1),
    "set": lambda x: x.at[0].set(3.0),
    "softmax": ga.nn.softmax,
    "broadcast": lambda x: gnp.broadcast_to(x, (2, *x.shape)),
    "pad": lambda x: gnp.pad(x, 1),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: 2 * c, x),
    "cond": lambda x: lax.cond(True, lambda a: a, lambda a: 2 * a, x),
    "vmap": ga.vmap(gnp.sin),
    "jit": ga.jit(gnp.sin),
    "grad": ga.grad(lambda x: (x * x).sum()),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("transform", [lambda f: f, ga.jit])
@pytest.mark.parametrize("count", [8, 40_000])
def test_results_are_where_operands_are(name, transform, count):
    f = transform(OPERATIONS[name])
    values = np.resize(VALUES, count)
    made, want = f(there(values)), f(gnp.asarray(values))
    assert kind(made) == "pinned_host" and kind(want) == "device"
    np.testing.assert_array_equal(np.asarray(made), np.asarray(want))


@pytest.mark.parametrize("transform", [lambda f: f, ga.jit])
@pytest.mark.parametrize(
    "f, name",
    [
        (lambda x, y: x + y, "add"),
        (lambda x, y: gnp.where(x > 1, x, y), "select_n"),
        (lambda x, y: gnp.concatenate([x, y]), "concatenate"),
        (lambda x, y: x * np.arange(8, dtype="float32"), "mul"),
    ],
)
def test_memories_are_not_mixed(f, name, transform):
    with pytest.raises(ValueError, match=f"memory_space of all inputs passed to `{name}`"):
        transform(f)(there(), gnp.asarray(VALUES))


def test_programs_move_values():
    back = ga.jit(lambda x: ga.device_put(x, Space.Device) + 1)
    away = ga.jit(lambda x: ga.device_put(x + 1, Space.Host))
    assert kind(back(there())) == "device" and kind(away(gnp.asarray(VALUES))) == "pinned_host"
    text = str(ga.make_jaxpr(lambda x: ga.device_put(x, Space.Host) + 1)(VALUES))
    assert "b:f32<host>[8] = device_put[devices=(MemorySpace.Host,)" in text
    assert "c:f32<host>[8] = add b 1.0:f32[]" in text

    def step(total, x):
        return total + ga.device_put(x, Space.Device), ga.device_put(total, Space.Host)

    total, sums = lax.scan(step, 0.0, there())
    assert kind(total) == "device" and kind(sums) == "pinned_host"
    assert sums.tolist() == [0, 0, 1, 3, 6, 10, 15, 21]


def test_derivatives_go_back_to_the_memory_of_the_value():
    slope = ga.grad(lambda x: (ga.device_put(x, Space.Device) ** 2).sum())
    for f in (
        slope,
        ga.jit(slope),
        ga.vmap(ga.grad(lambda x: ga.device_put(x, Space.Device) ** 2)),
    ):
        assert kind(f(there())) == "pinned_host"
        assert f(there()).tolist() == (2 * VALUES).tolist()


def test_shardings_of_programs():
    pinned = there().sharding
    plain = SingleDeviceSharding(there().device)
    x = ga.device_put(VALUES, plain)
    assert kind(ga.jit(lambda x: x, out_shardings=pinned)(x)) == "pinned_host"
    assert kind(ga.jit(lambda x: x + 1, out_shardings=plain)(ga.device_put(x, pinned))) == "device"
    made = ga.jit(lambda x: x + 1, in_shardings=pinned, out_shardings=pinned)
    assert kind(made(ga.device_put(x, pinned))) == "pinned_host"
    with pytest.raises(ValueError, match="jit memory kind: pinned_host, arg memory kind: device"):
        made(x)
    compiled = ga.jit(lambda x: x + 1).lower(there()).compile()
    assert compiled.output_shardings == pinned and kind(compiled(there())) == "pinned_host"


@pytest.mark.on_cpu("a GPU has no such memory")
def test_pages_that_may_be_swapped_out_are_as_a_devices():
    unpinned = SingleDeviceSharding(there().device, memory_kind="unpinned_host")
    x = ga.device_put(VALUES, unpinned)
    assert kind_of(x) == "unpinned_host" and ga.typeof(x).memory_space is Space.Device
    for f in (lambda x: x + gnp.asarray(VALUES), ga.jit(lambda x: x + 1)):
        assert kind_of(f(x)) == kind_of(f(x)) == "device"


def test_checkpoint_keeps_values_in_the_host():
    keep = ga.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")

    def model(w, v):
        return gnp.sin(gnp.sin(v @ w) @ w)

    def loss(f, w, v):
        return f(w, v).sum()

    w = gnp.asarray(np.random.default_rng(0).normal(size=(4, 4)), "float32")
    kept = ga.grad(partial(loss, partial(ga.checkpoint, policy=keep)(model)))
    text = str(ga.make_jaxpr(kept)(w, w))
    assert text.count("device_put[devices=(MemorySpace.Host,)") == 2
    assert text.count("device_put[devices=(MemorySpace.Device,)") == 2
    want = ga.grad(partial(loss, model))(w, w)
    for f in (kept, ga.jit(kept)):
        np.testing.assert_allclose(f(w, w), want, rtol=1e-5, atol=1e-6)
    batched = ga.jit(ga.vmap(kept, (None, 0)))(w, w[None])
    np.testing.assert_allclose(batched[0], want, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="memory kinds \\['hbm'\\]"):
        ga.checkpoint_policies.offload_dot_with_no_batch_dims("device", "hbm")(
            lax.dot_general_p, dimension_numbers=(((), ()), ((), ()))
        )


UPDATES = {
    "window": lambda x, y, put: x.at[1:3].set(put(y[:2])),
    "number": lambda x, y, put: x.at[0].set(1.0),
    "combined": lambda x, y, put: x.at[1:3].multiply(put(y[:2])),
    "positions": lambda x, y, put: x.at[gnp.asarray([1, 1])].add(put(y[:2])),
    "steps": lambda x, y, put: x.at[::2].min(put(y[4:])),
    "moving": lambda x, y, put: x.at[gnp.asarray(2)].set(put(y[:2])[0], mode="clip"),
    "mask": lambda x, y, put: x.at[put(y[:8]) > 3].set(2.0),
    "masked values": lambda x, y, put: x.at[y > 3].add(put(y[:1])),
    "function": lambda x, y, put: x.at[:2].apply(gnp.sin),
    "along": lambda x, y, put: gnp.put_along_axis(x, gnp.asarray([1]), 5.0, 0, inplace=False),
}


@pytest.mark.parametrize("case", UPDATES)
@pytest.mark.parametrize("jitted", [False, True])
def test_an_updated_array_stays_where_it_is(case, jitted):
    y = gnp.asarray(VALUES)
    want = UPDATES[case](y, y, lambda v: v)
    for x, put in ((there(), lambda v: v), (there(), there), (y, there)):
        f = partial(UPDATES[case], y=y, put=put)
        made = (ga.jit(f) if jitted else f)(x)
        assert kind(made) == kind(x)
        np.testing.assert_array_equal(made, want)


def test_sums_of_segments_and_orders_of_arrays_in_the_host():
    x = there([2.0, 1.0, 3.0, 0.0])
    for sums in (ga.ops.segment_sum, ga.jit(ga.ops.segment_sum, static_argnums=2)):
        found = sums(x, gnp.asarray([0, 0, 1, 1]), 2)
        assert kind(found) == "device" and found.tolist() == [3.0, 3.0]
    slope = ga.grad(lambda x: (ga.ops.segment_sum(x, gnp.asarray([0, 0, 1, 1]), 2) ** 2).sum())(x)
    assert kind(slope) == "pinned_host" and slope.tolist() == [6.0] * 4
    # Each array that is sorted stays where it is, and so the positions are on the device.
    for order in (gnp.argsort, ga.jit(gnp.argsort)):
        assert kind(order(x)) == "device" and order(x).tolist() == [3, 1, 0, 2]
    for sort in (lax.sort, ga.jit(lax.sort)):
        made = sort((gnp.arange(4), x))
        assert [*map(kind, made)] == ["device", "pinned_host"]
        assert made[1].tolist() == x.tolist()


def _over(spec: P, memory_kind: str = "pinned_host") -> NamedSharding:
    mesh = ga.make_mesh((8,), ("x",), axis_types=(ga.sharding.AxisType.Auto,))
    return NamedSharding(mesh, spec, memory_kind=memory_kind)


@pytest.mark.devices
def test_over_several_devices():
    x = ga.device_put(VALUES, _over(P("x")))
    assert kind(x) == "pinned_host" and x.sharding.spec == P("x")
    for made in (x + 1, ga.jit(lambda x: x + 1)(x)):
        assert made.sharding == x.sharding and kind(made) == "pinned_host"
        assert np.asarray(made).tolist() == (VALUES + 1).tolist()
    assert kind(x.sum()) == "pinned_host"
    back = ga.jit(lambda x: ga.device_put(x, Space.Device) + 1)(x)
    assert back.sharding == _over(P("x"), "device")
    assert kind(x.addressable_shards[3].data) == "pinned_host"
    y = ga.device_put(VALUES, _over(P("x"), "device"))
    assert kind(ga.device_put(y, Space.Host)) == "pinned_host"
    assert kind(ga.jit(lambda x: x * 2, out_shardings=x.sharding)(y)) == "pinned_host"
    assert kind(ga.jit(lambda x: ga.device_put(x * 2, _over(P("x"))))(y)) == "pinned_host"
    with pytest.raises(ValueError, match="jit memory kind: device, arg memory kind: pinned_host"):
        ga.jit(lambda x: x, in_shardings=y.sharding)(x)
    with pytest.raises(ValueError, match="memory_space of all inputs passed to `add`"):
        x + y
    assert ga.jit(lambda x: x + 1).lower(x).compile().output_shardings == x.sharding


@pytest.mark.devices
def test_over_an_explicit_mesh():
    mesh = ga.make_mesh((8,), ("x",))
    x = ga.device_put(VALUES, NamedSharding(mesh, P("x"), memory_kind="pinned_host"))
    assert str(ga.typeof(x)) == "float32<host>[8@x]"
    for made in (2 * x, ga.jit(lambda x: 2 * x)(x)):
        assert str(ga.typeof(made)) == "float32<host>[8@x]" and made.sharding == x.sharding
    assert str(ga.typeof(ga.device_put(x, Space.Device))) == "float32[8@x]"
