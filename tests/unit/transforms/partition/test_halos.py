"""Windows over cut axes: neighbours exchange rims, running folds their totals, and no more."""

import functools
import operator
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import gpuarray as ga
import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.sharding import NamedSharding
from gpuarray.sharding import PartitionSpec as P
from gpuarray.transforms.partition.halos import Sliding, reach
from tests.support.devices import mesh_of
from tests.unit.transforms.partition.test_split import normal, sent, split

pytestmark = pytest.mark.devices

IMAGES, KERNEL = normal(2, 3, 16, 16), normal(4, 3, 3, 3)
SPACE = P(None, None, "x", "y")


def conv(strides=(1, 1), padding: Any = "SAME", **options):
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, **options)


def pooled(size: int, stride: int, padding: str, init=-np.inf, by=lax.max):
    window, strides = (1, 1, size, size), (1, 1, stride, stride)
    return lambda x: lax.reduce_window(x, init, by, window, strides, padding)


def squared(f):
    return lambda *args: (f(*args) ** 2).sum()


#: What is sent where height is cut 4 times and width twice.
CONVOLUTIONS = {
    "same": (conv(), {"ppermute": 4}),
    "every other": (conv((2, 2)), {"ppermute": 2}),
    "spread kernel": (conv(rhs_dilation=(2, 2)), {"ppermute": 4}),
    "spread image": (conv(padding=((1, 2), (1, 2)), lhs_dilation=(2, 2)), {"ppermute": 4}),
    "sums of parts": (lambda x, w: conv(padding="VALID")(x, w).sum(), {"ppermute": 3, "psum": 1}),
    "by image": (ga.grad(squared(conv())), {"ppermute": 8}),
    "by kernel": (ga.grad(squared(conv()), 1), {"ppermute": 4, "psum": 1}),
    "by both, every other": (
        ga.grad(squared(conv((2, 2))), (0, 1)), {"ppermute": 4, "psum": 1},
    ),
    "two": (
        lambda x, w: conv()(jnp.tanh(conv()(x, w))[:, :3], w), {"ppermute": 8},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    fun, wanted = CONVOLUTIONS[name]
    assert sent(fun, [IMAGES, KERNEL], [SPACE, P()]) == wanted


def test_other_axes_of_convolutions_are_cut_as_ever():
    image, kernel = normal(2, 4, 16, 8), normal(4, 4, 3, 3)
    rims = {"ppermute": 2}
    assert sent(conv(), [image, kernel], [P("y", None, "x"), P()]) == rims
    assert sent(conv(), [image, kernel], [P(None, None, "x"), P("y")]) == rims
    sums = rims | {"psum": 1}
    assert sent(conv(), [image, kernel], [P(None, "y", "x"), P(None, "y")]) == sums


WINDOWS = {
    "apart": (pooled(2, 2, "VALID"), {}),
    "apart, by image": (ga.grad(squared(pooled(2, 2, "VALID"))), {}),
    "side by side": (pooled(3, 1, "SAME"), {"ppermute": 4}),
    "every other": (pooled(3, 2, "SAME"), {"ppermute": 2}),
    "smallest": (pooled(3, 1, "SAME", np.inf, lax.min), {"ppermute": 4}),
    "sums": (pooled(3, 1, "SAME", 0.0, lax.add), {"ppermute": 4}),
    "any fold": (pooled(3, 1, "SAME", 1.0, lambda a, b: a + 0.5 * b), {"ppermute": 4}),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    fun, wanted = WINDOWS[name]
    assert sent(fun, [IMAGES], [SPACE]) == wanted
    assert sent(fun, [np.abs(IMAGES) * (1 if "small" in name else -1)], [SPACE]) == wanted


PADDINGS = {
    # Pieces of 4 become pieces of 6, which begin elsewhere.
    "longer": (lambda u: jnp.pad(u, ((3, 5), (0, 0))), 3),
    "longer, with a value": (lambda u: jnp.pad(u, ((4, 4), (0, 0)), constant_values=3), 2),
    "holes": (lambda u: lax.pad(u, 0.0, ((0, 1, 1), (0, 0, 0))), 0),
    "holes of a value": (lambda u: lax.pad(u, 7.0, ((1, 0, 1), (0, 0, 0))), 1),
    "shorter": (lambda u: lax.pad(u, 0.0, ((-2, -2, 0), (0, 0, 0))), 2),
    "a rim that is used up": (lambda u: operator.add(*_ends(jnp.pad(u, ((1, 1), (0, 0))))), 5),
    "a slice that is even": (lambda u: u[4:12] * 2, 2),
}


def _ends(u):
    return u[2:], u[:-2]


@pytest.mark.parametrize("name", PADDINGS)
def test_paddings(name):
    fun, most = PADDINGS[name]
    found = sent(fun, [normal(16, 8)], [P("x", "y")])
    assert set(found) <= {"ppermute"} and sum(found.values()) <= most, found


def test_paddings_of_complex_numbers():
    u = normal(16, 8) + np.complex64(1j)
    longer = lambda u: jnp.pad(u, ((3, 5), (0, 0)))
    assert set(sent(longer, [u], [P("x", "y")])) <= {"ppermute"}


FOLDS = ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", FOLDS)
def test_running_folds_send_totals(name, reverse):
    fun = functools.partial(getattr(lax, name), axis=0, reverse=reverse)
    assert sent(fun, [normal(16, 8)], [P("x", "y")]) == {"all_gather": 1}
    parts, _ = split(fun, [normal(16, 8)], [P("x")])
    (note,) = parts.notes
    assert note.aval.shape == (1, 8) and "totals" in note.why
    assert parts.outs == ((("x",), ()),)


def on_devices(fun, value, *spec):
    x = ga.device_put(value, NamedSharding(mesh_of((4, 2)), P(*spec)))
    return np.asarray(ga.jit(fun)(x))


@pytest.mark.filterwarnings("error")
def test_running_folds_of_odd_values():
    odd = np.array([-0.0, -0.0, np.inf, 1, -np.inf, np.nan, 2, 3], np.float32)
    for name in FOLDS:
        fun = getattr(lax, name)
        for value in (odd[:4], odd[4:], odd, np.full(8, -np.inf, np.float32), -np.abs(odd[:2])):
            value = np.repeat(value, 8 // len(value))
            whole = np.asarray(fun(jnp.asarray(value)))
            np.testing.assert_allclose(on_devices(fun, value, "x"), whole, rtol=1e-6, err_msg=name)
    minus = np.full(8, -0.0, np.float32)
    assert np.signbit(on_devices(jnp.cumsum, minus, "x")).all()


def test_running_folds_of_other_types():
    ints = np.arange(16, dtype=np.int32) % 5
    for name in FOLDS[:4]:
        fun = getattr(lax, name)
        np.testing.assert_array_equal(on_devices(fun, ints, ("x", "y")), fun(jnp.asarray(ints)))
    # Narrow totals are added up in single precision and rounded once.
    ones = jnp.ones(4096, "bfloat16")
    np.testing.assert_array_equal(on_devices(jnp.cumsum, ones, "x"), jnp.cumsum(ones))
    mixed = normal(16) + 1j * normal(16)
    np.testing.assert_allclose(on_devices(jnp.cumsum, mixed, "x"), np.cumsum(mixed), rtol=1e-5)


def test_parts_of_axes_are_folded_and_slid_over():
    def fun(u, w):
        image = u[None, None, 1:-2]
        return (
            jnp.cumsum(u[1:], 0).sum(0),
            jnp.cumsum(u[:-3], 0)[-1:],
            lax.cummax(u[2:], 0, True).min(0),
            lax.reduce_window(u[1:], -jnp.inf, lax.max, (3, 1), (1, 1), "SAME").sum(),
            lax.conv_general_dilated(image, w, (1, 1), "SAME").sum(),
        )

    found = sent(fun, [normal(16, 8), normal(1, 1, 3, 3)], [P("x"), P()])
    assert found["all_gather"] <= 4, found  # totals, and a row


def test_garbage_around_a_part_is_never_read():
    def fun(u):
        inside = u[1:-1]
        return lax.reduce_window(inside, 0.0, lax.add, (3,), (1,), "SAME").sum()

    value = normal(16)
    value[[0, -1]] = np.nan
    whole = np.convolve(value[1:-1], np.ones(3), "same").sum()
    np.testing.assert_allclose(on_devices(fun, value, "x"), whole, rtol=1e-5)


def test_what_reaches_too_far_is_gathered():
    wide = normal(4, 3, 15, 15)
    found = sent(conv(), [IMAGES, wide], [SPACE, P()])
    assert "ppermute" not in found
    # What is no number is moved as a whole.
    keys = jnp.arange(16) % 3 == 0
    padded = on_devices(lambda k: jnp.pad(k, (4, 4), constant_values=True), np.asarray(keys), "x")
    np.testing.assert_array_equal(padded, np.pad(keys, (4, 4), constant_values=True))


def test_explain_shows_what_is_passed_on():
    x = ga.device_put(IMAGES, NamedSharding(mesh_of((4, 2)), SPACE))
    text = str(ga.explain(conv())(x, jnp.asarray(KERNEL)))
    assert "ppermute" in text and "conv_general_dilated reaches over pieces" in text
    assert "all_gather" not in text


@hypothesis.given(
    window=st.integers(1, 5), stride=st.integers(1, 3), base=st.integers(1, 3),
    dilation=st.integers(1, 2), low=st.integers(-2, 4), high=st.integers(-2, 4),
    length=st.sampled_from([8, 16, 24]),
)  # fmt: skip
@hypothesis.settings(deadline=None, max_examples=40)
def test_any_windows(window, stride, base, dilation, low, high, length):
    geometry: Any = {"window_strides": (stride,), "padding": [(low, high)]}
    u, k = normal(length), normal(window)

    def fun(u, k):
        image, kernel = u[None, None], k[None, None]
        spread: Any = {"lhs_dilation": (base,), "rhs_dilation": (dilation,)}
        again: Any = {"base_dilation": (base,), "window_dilation": (dilation,)}
        largest = lax.reduce_window(u, -jnp.inf, lax.max, (window,), (stride,), **again,
                                    padding=[(low, high)])  # fmt: skip
        found = lax.conv_general_dilated(image, kernel, **geometry, **spread)
        return found, largest, lax.pad(u, 0.5, [(low, high, base - 1)])

    span = (length - 1) * base + 1 + low + high
    hypothesis.assume(span >= (window - 1) * dilation + 1)
    sent(fun, [u, k], [P("x"), P()])
    loss = lambda u, k: (fun(u, k)[0] ** 2).sum()
    sent(ga.grad(loss, (0, 1)), [u, k], [P("x"), P()])


@hypothesis.given(
    extent=st.integers(1, 9), stride=st.integers(1, 3), low=st.integers(-3, 5),
    base=st.integers(1, 3), start=st.integers(0, 3), parts=st.sampled_from([2, 4]),
)  # fmt: skip
@hypothesis.settings(deadline=None)
def test_reach_by_counting(extent, stride, low, base, start, parts):
    size, length = 8 * parts, 8 * parts - 4
    span = (length - 1) * base + 1 + low
    hypothesis.assume(span >= extent)
    results = (span - extent) // stride + 1
    found = reach(
        Sliding(0, 0, extent, stride, low, 0, base), length, results, (start, size), parts
    )
    if found is None:
        return
    assert found.frame is not None and found.frame[1] >= results
    each = found.frame[1] // parts
    for device in range(parts):
        begin = found.first + device * found.step
        # Nothing past the rims.
        assert 8 * device - found.left <= begin
        assert begin + found.count <= 8 * (device + 1) + found.right
        for o in range(device * each, min((device + 1) * each, results)):
            at = [p - low for p in range(o * stride, o * stride + extent)]
            reads = {p // base + start for p in at if p % base == 0 and 0 <= p < length * base}
            assert reads <= set(range(begin, begin + found.count))
