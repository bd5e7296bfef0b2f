"""Convolutions and their gradients as native code.

In: operands of small integers, whose sums are exact in any order. Out: what the definition says,
sum by sum; the same bits for any number of threads.
"""

import itertools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.config import config
from tests.support import natively

natively.need_compiler()

LAST, FIRST = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")

#: Shapes (batch, channels, *space), (features, channels of a group, *window), and options.
CASES = {
    "same": ((2, 5, 9, 11), (7, 5, 3, 3), {"padding": "SAME"}),
    "vectors": ((3, 16, 8, 8), (32, 16, 3, 3), {"padding": "SAME"}),
    "blocks of channels": ((1, 70, 6, 6), (5, 70, 3, 3), {}),
    "panels": ((1, 4, 7, 7), (150, 4, 3, 3), {}),
    "strides": ((2, 3, 13, 12), (8, 3, 3, 5), {"window_strides": (2, 3), "padding": "SAME"}),
    "dilations": ((2, 3, 12, 13), (9, 3, 3, 2), {"rhs_dilation": (2, 3)}),
    "spread": ((2, 4, 5, 6), (6, 4, 3, 3), {"lhs_dilation": (2, 3), "padding": [(2, 1), (0, 3)]}),
    "spread by two": (
        (2, 4, 7, 6),
        (6, 4, 3, 4),
        {"lhs_dilation": (2, 2), "padding": [(1, 2)] * 2},
    ),
    "spread points": (
        (2, 4, 7, 6),
        (6, 4, 1, 2),
        {"lhs_dilation": (4, 1), "padding": [(3, 1)] * 2},
    ),
    "spread channels": (
        (2, 20, 6, 5),
        (20, 1, 3, 3),
        {"lhs_dilation": (2, 2), "feature_group_count": 20, "padding": [(-1, 2), (2, 2)]},
    ),
    "negative padding": ((1, 3, 9, 9), (4, 3, 3, 3), {"padding": [(-1, 2), (3, -2)]}),
    "all padding": ((1, 2, 2, 2), (3, 2, 2, 2), {"padding": [(4, 0), (0, 5)]}),
    "points": ((2, 24, 5, 7), (40, 24, 1, 1), {}),
    "one window": ((3, 6, 7, 7), (10, 6, 7, 7), {}),
    "long windows": ((5, 3, 30, 31), (12, 3, 28, 29), {}),
    "long windows with strides": (
        (2, 2, 40, 30),
        (3, 2, 30, 21),
        {"window_strides": (4, 2), "padding": [(3, 2), (1, 1)]},
    ),
    "long windows that are dilated": (
        (4, 3, 33, 40),
        (17, 3, 15, 18),
        {"rhs_dilation": (2, 2), "padding": [(1, 1), (0, 0)]},
    ),
    "one feature": ((2, 3, 20, 70), (1, 3, 3, 3), {"padding": "SAME"}),
    "few features": ((2, 3, 9, 150), (7, 3, 3, 4), {"padding": "SAME"}),
    "few features of many channels": (
        (1, 70, 21, 90),
        (3, 70, 3, 3),
        {"padding": [(2, 0), (1, 3)]},
    ),
    "few features of a long line": ((1, 1, 1101), (2, 1, 5), {"rhs_dilation": (3,)}),
    "few features of short lines": ((3, 2, 9, 6), (2, 2, 3, 2), {"window_strides": (2, 1)}),
    "few features, spread": (
        (1, 2, 6, 40),
        (2, 2, 3, 5),
        {"lhs_dilation": (3, 3), "padding": [(2, 1), (0, 3)]},
    ),
    "groups": ((2, 12, 9, 8), (18, 4, 3, 3), {"feature_group_count": 3, "padding": "SAME"}),
    "depthwise": ((2, 37, 9, 8), (37, 1, 3, 3), {"feature_group_count": 37, "padding": "SAME"}),
    "depthwise with strides": (
        (2, 5, 19, 18),
        (5, 1, 3, 3),
        {"feature_group_count": 5, "window_strides": (3, 2), "rhs_dilation": (1, 2)},
    ),
    "long depthwise": ((37, 4, 15, 15), (37, 4, 13, 12), {"batch_group_count": 37}),
    "long depthwise with strides": (
        (9, 2, 30, 31),
        (9, 2, 11, 12),
        {"batch_group_count": 9, "window_strides": (5, 4), "rhs_dilation": (2, 2)},
    ),
    "channels alone": ((2, 20, 9, 8), (40, 1, 3, 3), {"feature_group_count": 20}),
    "groups of the batch": ((6, 4, 8, 8), (9, 4, 3, 3), {"batch_group_count": 3}),
    "long groups of the batch": ((6, 4, 20, 20), (9, 4, 18, 18), {"batch_group_count": 3}),
    "signal": ((3, 4, 500), (6, 4, 17), {"padding": "SAME"}),
    "one signal": ((1, 1, 300), (1, 1, 9), {}),
    "volume": ((2, 3, 6, 7, 8), (4, 3, 2, 3, 3), {"padding": "SAME"}),
    "volume with strides": ((1, 2, 9, 8, 7), (3, 2, 3, 3, 3), {"window_strides": (2, 1, 2)}),
}


def spread_and_padded(x, spread, padding):
    """Zeros between and around the elements of (batch, channels, *space)."""
    for axis, (d, (low, high)) in enumerate(zip(spread, padding, strict=True), 2):
        length = (x.shape[axis] - 1) * d + 1
        wide = np.zeros((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)
        wide[(slice(None),) * axis + (slice(None, None, d),)] = x
        whole = np.zeros((*x.shape[:axis], low + length + high, *x.shape[axis + 1 :]), x.dtype)
        to = slice(max(0, low), min(low + length, whole.shape[axis]))
        of = slice(max(0, -low), max(0, -low) + to.stop - to.start)
        if of.stop > of.start:
            at = (slice(None),) * axis
            whole[(*at, to)] = wide[(*at, of)]
        x = whole
    return x


def by_definition(x, w, strides, padding, spread, dilation, groups=1, batch_groups=1):
    """The sums over windows, one position of the window at a time."""
    if batch_groups > 1:
        parts = zip(np.split(x, batch_groups), np.split(w, batch_groups), strict=True)
        return np.concatenate(
            [by_definition(a, b, strides, padding, spread, dilation) for a, b in parts], 1
        )
    if groups > 1:
        parts = zip(np.split(x, groups, 1), np.split(w, groups), strict=True)
        return np.concatenate(
            [by_definition(a, b, strides, padding, spread, dilation) for a, b in parts], 1
        )
    x = spread_and_padded(x, spread, padding)
    out = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(x.shape[2:], w.shape[2:], dilation, strides, strict=True)
    ]
    total = np.zeros((len(x), len(w), *out))
    for at in itertools.product(*map(range, w.shape[2:])):
        seen = tuple(
            slice(i * d, i * d + s * (n - 1) + 1, s)
            for i, d, s, n in zip(at, dilation, strides, out, strict=True)
        )
        total += np.einsum("nc...,fc->nf...", x[(..., *seen)], w[(..., *at)])
    return total


def operands(name: str, kind: str, rng):
    left, right, options = CASES[name]
    x, w = (rng.integers(-3, 4, shape).astype(kind) for shape in (left, right))
    rank = len(left) - 2
    options = {"window_strides": (1,) * rank, "padding": "VALID", **options}
    if isinstance(options["padding"], str):
        window = [
            (k - 1) * d + 1
            for k, d in zip(right[2:], options.get("rhs_dilation", (1,) * rank), strict=True)
        ]
        strides = options["window_strides"]
        options["padding"] = lax.padtype_to_pads(left[2:], window, strides, options["padding"])
    return x, w, options


def wanted(x, w, options):
    rank = x.ndim - 2
    return by_definition(
        x,
        w,
        options["window_strides"],
        options["padding"],
        options.get("lhs_dilation", (1,) * rank),
        options.get("rhs_dilation", (1,) * rank),
        options.get("feature_group_count", 1),
        options.get("batch_group_count", 1),
    )


def layouts(rank: int):
    space = "DHW"[3 - rank :]
    return (f"N{space}C", f"{space}IO", f"N{space}C"), (f"NC{space}", f"OI{space}", f"NC{space}")


def compiled(cases):
    """Programs of (function, operands), compiled together; each is native code as a whole."""
    with ga.enable_x64(True):
        programs = [natively.written(ga.jit(f).lower(*xs).jaxpr) for f, xs in cases]
    assert all(not p.writer.by_host for p in programs)
    natively.compile_all(programs)
    return programs


#: Cases in channels-last and channels-first layout by turns; the other way round if slow. Each is a
#: text of its own, which takes its time to compile.
TURNS = pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.slow)])


@pytest.mark.parametrize("kind", ["float32", "float64"])
@TURNS
def test_the_definition(kind, turn, rng):
    cases, expected, names = [], [], []
    for number, name in enumerate(CASES):
        x, w, options = operands(name, kind, rng)
        rank = x.ndim - 2
        channels_last, channels_first = layouts(rank)
        # In float64 every other case.
        if kind == "float32" or number % 2 == turn:
            which = number + turn + (number // 2 if kind == "float64" else 0)
            numbers = (channels_last, channels_first)[which % 2]
            f = lambda x, w, o=options, n=numbers: lax.conv_general_dilated(
                x, w, **o, dimension_numbers=n
            )
            want = wanted(x, w, options)
            if numbers is channels_last:
                to_last = (0, *range(2, rank + 2), 1)
                given = x.transpose(to_last).copy(), w.transpose(*range(2, rank + 2), 1, 0).copy()
                want = want.transpose(to_last)
            else:
                given = x, w
            cases.append((f, given))
            expected.append(want)
            names.append((name, numbers))
    for p, (_, given), want, name in zip(compiled(cases), cases, expected, names, strict=True):
        np.testing.assert_array_equal(p(*given)[0], want, str(name))


@TURNS
def test_gradients(turn, rng):
    # The sum of results is linear in each operand: its gradients are sums of the other one.
    cases, names = [], []
    for number, name in enumerate(n for n, (left, _, _) in CASES.items() if len(left) == 4):
        numbers = (LAST, FIRST)[(number + turn) % 2]
        x, w, options = operands(name, "float32", rng)
        if numbers is LAST:
            x, w = x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy()
        f = lambda x, w, o=options, n=numbers: lax.conv_general_dilated(
            x, w, **o, dimension_numbers=n
        )
        ct = rng.integers(-2, 3, ga.eval_shape(f, x, w).shape).astype("float32")
        cases.append((lambda x, w, ct, f=f: ga.vjp(f, x, w)[1](ct), (x, w, ct)))
        names.append((name, f))
    programs = [natively.written(ga.jit(f).lower(*xs).jaxpr) for f, xs in cases]
    assert all(not p.writer.by_host for p in programs)
    natively.compile_all(programs)
    for p, (_, (x, w, ct)), (name, f) in zip(programs, cases, names, strict=True):
        dx, dw = p(x, w, ct)
        assert dx.shape == x.shape
        assert dw.shape == w.shape
        # <ct, f(u, w)> = <dx, u> and <ct, f(x, v)> = <dw, v>, for any u and v.
        for _ in range(3):
            u, v = (rng.integers(-2, 3, a.shape).astype("float32") for a in (x, w))
            assert np.vdot(ct, f(u, w)) == np.vdot(dx, u), name
            assert np.vdot(ct, f(x, v)) == np.vdot(dw, v), name


@pytest.fixture
def threads():
    before = config.num_threads
    yield lambda n: config.update("num_threads", n)
    config.update("num_threads", before)


def test_the_same_bits_for_any_number_of_threads(threads, rng):
    x = rng.standard_normal((4, 20, 20, 24)).astype("float32")
    w = rng.standard_normal((3, 3, 24, 40)).astype("float32")

    def f(x, w):
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=LAST)
        return gnp.sum(gnp.tanh(y))

    (p,) = compiled([(ga.value_and_grad(f, (0, 1)), (x, w))])
    found = []
    for n in (1, 2, 5):
        threads(n)
        found.append(p(x, w))
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(a, b)


def test_vectors_go_along_lines_or_features(rng):
    # Along lines where features are few, along features where they are neighbours or many.
    for left, right, groups, numbers, lines in [
        ((1, 1, 64, 64), (1, 1, 3, 3), 1, FIRST, True),
        ((1, 64, 64, 1), (3, 3, 1, 1), 1, LAST, True),
        ((1, 16, 64, 64), (64, 16, 3, 3), 1, FIRST, False),
        ((1, 64, 64, 16), (3, 3, 16, 8), 1, LAST, False),
        ((1, 32, 64, 64), (32, 1, 3, 3), 32, FIRST, True),
        ((1, 64, 64, 32), (3, 3, 1, 32), 32, LAST, False),
    ]:
        f = lambda x, w, g=groups, n=numbers: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", feature_group_count=g, dimension_numbers=n
        )
        given = (ga.ShapeDtypeStruct(shape, "float32") for shape in (left, right))
        text = ga.jit(f).lower(*given).cpp_source()
        assert ("ga_window_lines" in text) == lines, (left, right)


#: Shapes of operands with channels last, and strides: short and long windows, with parts that do
#: not fill a block.
BROKEN = [
    ((1, 6, 6, 3), (3, 3, 3, 5), (1, 1)),
    ((1, 6, 6, 20), (3, 3, 20, 3), (2, 2)),
    ((2, 9, 70, 5), (3, 3, 5, 35), (1, 1)),
    ((3, 90, 73, 3), (84, 71, 3, 5), (2, 1)),
]


@pytest.mark.parametrize("left, right, strides", BROKEN)
def test_nan_and_infinities_are_where_numpy_has_them(left, right, strides, rng):
    # Padding is zeros that are multiplied: an infinite weight makes nan of it.
    x, w = (rng.standard_normal(shape).astype("float32") for shape in (left, right))
    for at in [(0, 2, 2, 1), (0, left[1] - 1, left[2] - 1, 0)]:
        x[at] = np.nan if at[3] else np.inf
    infinite = w.copy()
    infinite[0, 0, 0, 2] = np.inf
    for padding, weights in (("SAME", infinite), ("VALID", w)):
        f = lambda x, w, p=padding: lax.conv_general_dilated(
            x, w, strides, p, dimension_numbers=LAST
        )
        (p,) = compiled([(f, (x, weights))])
        with np.errstate(invalid="ignore"):
            wanted = np.asarray(f(x, weights))
        np.testing.assert_allclose(p(x, weights)[0], wanted, rtol=1e-4, atol=1e-3)


def test_a_nan_reaches_those_gradients_that_see_it(rng):
    x = rng.standard_normal((2, 37, 41, 3)).astype("float32")
    x[0, -1, -1, 0], x[1, 0, 5, 1] = np.nan, np.inf
    ct = rng.standard_normal((2, 35, 39, 4)).astype("float32")
    f = lambda w, x, ct: ga.vjp(
        lambda w: lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=LAST), w
    )[1](ct)[0]
    w = np.zeros((3, 3, 3, 4), np.float32)
    (p,) = compiled([(f, (w, x, ct))])
    with np.errstate(invalid="ignore"):
        wanted = np.asarray(f(w, x, ct))
    assert not np.isnan(wanted).all()
    np.testing.assert_allclose(p(w, x, ct)[0], wanted, rtol=1e-3, atol=1e-3)


def test_a_convolution_in_a_loop(rng):
    x = rng.integers(-1, 2, (1, 8, 8, 4)).astype("float32")
    w = rng.integers(-1, 2, (3, 3, 4, 4)).astype("float32")
    step = lambda _, x: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=LAST)
    f = lambda x: lax.fori_loop(0, 3, step, x)
    (p,) = compiled([(f, (x,))])
    want = x.transpose(0, 3, 1, 2)
    for _ in range(3):
        want = by_definition(want, w.transpose(3, 2, 0, 1), (1, 1), [(1, 1)] * 2, (1, 1), (1, 1))
    np.testing.assert_array_equal(p(x)[0], want.transpose(0, 2, 3, 1))


def test_other_numbers_are_numpys(rng):
    x = rng.integers(-3, 4, (1, 5, 5, 2))
    w = rng.integers(-3, 4, (3, 3, 2, 3))
    f = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=LAST)
    for kind in ("int32", "bfloat16", "complex64"):
        given = x.astype(ga.numpy.dtype(kind)), w.astype(ga.numpy.dtype(kind))
        p = natively.written(ga.jit(f).lower(*given).jaxpr)
        assert [*p.writer.by_host.values()]
