"""Associative scans as one operation, and the linear recurrences that are their derivatives.

In: merges of one and of several numbers, of all kinds of dtypes; functions that are not element by
element. Out: what a loop over the elements gives (NumPy), derivatives against finite differences,
and one operation where there can be one.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.test_util import check_grads


def affine(one, two):
    return one[0] * two[0], two[0] * one[1] + two[1]


def matrices(one, two):
    """Products of 2 by 2 matrices, whose order matters."""
    a, b, c, d = one
    p, q, r, s = two
    return p * a + q * c, p * b + q * d, r * a + s * c, r * b + s * d


def smooth(one, two):
    """log(exp x + exp y), and the mean of what was seen by its count."""
    (x, n), (y, m) = one, two
    top = gnp.maximum(x, y)
    return top + gnp.log(gnp.exp(x - top) + gnp.exp(y - top)), n + m


def loop(fn, elems, axis=0, reverse=False):
    """The scan by its definition, with NumPy arrays between the steps."""
    way = slice(None, None, -1 if reverse else 1)
    xs = [np.moveaxis(np.asarray(x), axis, 0)[way] for x in elems]
    state = [x[0] for x in xs]
    out = [state]
    for i in range(1, len(xs[0])):
        state = [np.asarray(s) for s in fn(tuple(state), tuple(x[i] for x in xs))]
        out.append(state)
    return [np.moveaxis(np.stack(ys)[way], 0, axis) for ys in zip(*out, strict=True)]


def numbers(count, shape, seed=0):
    return [
        np.random.default_rng(seed + k).uniform(0.5, 1, shape).astype("f4") for k in range(count)
    ]


def operations(fn, *args):
    return [e.primitive.name for e in ga.make_jaxpr(fn)(*args).eqns]


MERGES = {"affine": (affine, 2), "matrices": (matrices, 4), "smooth": (smooth, 2)}


@pytest.mark.parametrize("name", MERGES)
@pytest.mark.parametrize(
    ("shape", "axis"), [((9, 4), 0), ((3, 16), 1), ((17,), 0), ((2, 5, 3), -2)]
)
@pytest.mark.parametrize("reverse", [False, True])
def test_values(name, shape, axis, reverse):
    fn, count = MERGES[name]
    xs = numbers(count, shape)

    def scanned(*xs):
        return lax.associative_scan(fn, xs, axis=axis, reverse=reverse)

    assert operations(scanned, *xs) == ["associative_scan"]
    for want, *found in zip(loop(fn, xs, axis, reverse), scanned(*xs), ga.jit(scanned)(*xs)):
        for each in found:
            np.testing.assert_allclose(each, want, rtol=3e-5)


@pytest.mark.parametrize("name", MERGES)
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives(name, reverse):
    fn, count = MERGES[name]
    with ga.enable_x64(True):
        xs = [x.astype("f8") for x in numbers(count, (6, 2))]
        check_grads(lambda *xs: lax.associative_scan(fn, xs, reverse=reverse), xs, 2, rtol=1e-5)


def test_the_derivative_is_one_recurrence():
    a, b = numbers(2, (64, 3))

    def loss(a, b):
        return (lax.associative_scan(affine, (a, b))[1] ** 2).sum()

    names = operations(ga.grad(loss, (0, 1)), a, b)
    assert names.count("linear_recurrence") == 1 and names.count("associative_scan") == 1
    # The derivative of that is one again.
    twice = operations(ga.grad(lambda a: ga.grad(loss)(a, b).sum()), a)
    assert twice.count("associative_scan") == 1 and 2 <= twice.count("linear_recurrence") <= 4


def test_complex_numbers():
    with ga.enable_x64(True):
        a, b = (x + 1j * y for x, y in zip(numbers(2, (7, 2)), numbers(2, (7, 2), 9), strict=True))
        np.testing.assert_allclose(
            lax.associative_scan(affine, (a, b))[1], loop(affine, (a, b))[1], rtol=1e-6
        )
        check_grads(lambda a, b: lax.associative_scan(affine, (a, b)), (a, b), 2, rtol=1e-4)

        def turned(one, two):  # associative, but not complex linear in what is before
            return two[0] * one[0], two[0] * gnp.conj(gnp.conj(one[1])) + two[1]

        check_grads(lambda a, b: lax.associative_scan(turned, (a, b)), (a, b), 1, rtol=1e-4)


def test_known_merges_are_their_own_operations():
    x = numbers(1, (5,))[0]
    for fn, name in (
        (gnp.add, "cumsum"),
        (lax.mul, "cumprod"),
        (lambda a, b: gnp.maximum(b, a), "cummax"),
    ):
        assert operations(lambda x, fn=fn: lax.associative_scan(fn, x), x) == [name]
    # Not where one operand is another thing.
    assert operations(lambda x: lax.associative_scan(lambda a, b: a * a, x), x) == [
        "associative_scan"
    ]
    found = lax.associative_scan(lambda a, b: b, gnp.arange(4))
    np.testing.assert_array_equal(found, np.arange(4))


def test_functions_that_look_at_more_than_one_element_go_level_by_level():
    m = numbers(1, (5, 2, 2))[0]
    products = lax.associative_scan(lambda a, b: b @ a, m)
    want = [m[0]]
    for x in m[1:]:
        want.append(x @ want[-1])
    np.testing.assert_allclose(products, np.stack(want), rtol=1e-5)

    # An operation along the axis is one of many elements, though it keeps the shape.
    def shifted(a, b):
        return a + b + 0 * gnp.roll(b, 1, 0)

    x = numbers(1, (6,))[0]
    np.testing.assert_allclose(lax.associative_scan(shifted, x), np.cumsum(x), rtol=1e-5)
    assert "associative_scan" not in operations(lambda x: lax.associative_scan(shifted, x), x)
    # Leaves of several shapes.
    out = lax.associative_scan(lambda a, b: (a[0] + b[0], a[1] + b[1]), (x, m[[0] * 6]))
    np.testing.assert_allclose(out[1][-1], 6 * m[0], rtol=1e-5)


def test_what_a_function_closes_over():
    x = numbers(1, (6,))[0]
    weight = gnp.array(numbers(1, (1,))[0][0])

    def scaled(x, w):
        # (x w) (y w) / w: associative for any w.
        return lax.associative_scan(lambda a, b: a * b * w, x)

    want = np.cumprod(x * float(weight)) / float(weight)
    np.testing.assert_allclose(scaled(x, weight), want, rtol=1e-5)
    np.testing.assert_allclose(ga.jit(scaled)(x, weight), want, rtol=1e-5)
    check_grads(scaled, (x, weight), 1, rtol=1e-2)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "bfloat16", "float16"])
def test_dtypes(dtype):
    x = np.random.default_rng(0).integers(0, 2, (7, 3)).astype(np.dtype(dtype))

    def later(a, b):  # the later one that is not 0
        return gnp.where(b != 0, b, a)

    found = lax.associative_scan(later, gnp.array(x))
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, np.maximum.accumulate(x.astype("f4")).astype(dtype))


@pytest.mark.parametrize("length", [0, 1, 2])
def test_short_axes(length):
    a, b = numbers(2, (length, 3))
    found = lax.associative_scan(affine, (a, b))
    assert found[0].shape == found[1].shape == (length, 3)
    if length:
        np.testing.assert_allclose(found[1], loop(affine, (a, b))[1], rtol=1e-6)


def test_vmap():
    a, b = numbers(2, (4, 6, 3))
    over = ga.vmap(lambda a, b: lax.associative_scan(affine, (a, b), axis=1), (2, None), 1)
    first, second = over(a, b[:, :, 0])
    for k in range(3):
        want = loop(affine, (a[:, :, k], b[:, :, 0]), axis=1)
        np.testing.assert_allclose(first[:, k], want[0], rtol=1e-5)
        np.testing.assert_allclose(second[:, k], want[1], rtol=1e-5)
    jacobian = ga.jacrev(lambda b: lax.associative_scan(affine, (a[0], b))[1])(b[0])
    forward = ga.jacfwd(lambda b: lax.associative_scan(affine, (a[0], b))[1])(b[0])
    np.testing.assert_allclose(jacobian, forward, rtol=1e-5)


def test_the_function_is_traced_once():
    calls = []

    def merge_pairs(a, b):
        calls.append(a[0].shape)
        return a[0] * b[0], a[1] + b[1]

    lax.associative_scan(merge_pairs, numbers(2, (100,)))
    assert calls == [(50,)]


def test_weak_types_stay():
    weak = gnp.full((4,), 2.0, dtype=None)
    found = lax.associative_scan(lambda a, b: a * b + 0 * a, weak)
    assert weak.aval.weak_type and found.aval.weak_type
    strong = lax.associative_scan(lambda a, b: a * b + 0 * a, gnp.full((4,), 2.0, "float32"))
    assert not strong.aval.weak_type


def test_bad_input_of_the_operation():
    from gpuarray.control.associative_scan import associative_scan_p

    a, b = numbers(2, (4,))
    jaxpr = ga.make_jaxpr(lambda p, q, r, s: affine((p, q), (r, s)))(1.0, 1.0, 1.0, 1.0).jaxpr
    with pytest.raises(TypeError, match="arrays of one shape"):
        associative_scan_p.bind(a, b[:2], jaxpr=jaxpr, axis=0, reverse=False)
    with pytest.raises(TypeError, match="of the same dtypes"):
        associative_scan_p.bind(a, b.astype("i4"), jaxpr=jaxpr, axis=0, reverse=False)


def test_the_transpose_of_a_linear_scan():
    a, b = numbers(2, (7, 2))
    seconds = lambda b: lax.associative_scan(affine, (a, b), reverse=True)[1]
    (found,) = ga.linear_transpose(seconds, b)(b)
    # Row i of the matrix of the scan in column j holds the products of a from i up to before k.
    for j in range(2):
        matrix = np.array(
            [[np.prod(a[i:k, j]) if k >= i else 0 for k in range(7)] for i in range(7)]
        )
        np.testing.assert_allclose(found[:, j], matrix.T @ b[:, j], rtol=1e-5)
    with pytest.raises(TypeError, match="not linear in the operands"):
        ga.linear_transpose(lambda a: lax.associative_scan(affine, (a, b))[1], a)(b)


@pytest.mark.devices
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("spec", [("x", "y"), ("x",), (None, "y"), (("x", "y"),)])
def test_pieces_of_the_axis_exchange_their_totals(spec, reverse):
    types = (ga.sharding.AxisType.Auto,) * 2
    mesh = ga.make_mesh((4, 2), ("x", "y"), axis_types=types)
    lies = ga.NamedSharding(mesh, ga.P(*spec))
    xs = numbers(2, (16, 6))

    def scanned(a, b):
        return lax.associative_scan(affine, (a, b), reverse=reverse)

    given = [ga.device_put(x, lies) for x in xs]
    for fn in (scanned, ga.jit(scanned)):
        for got, want in zip(fn(*given), loop(affine, xs, 0, reverse), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
            assert got.sharding.is_equivalent_to(lies, 2)
    text = str(ga.explain(scanned)(*given))
    assert ("totals of other pieces" in text) == (spec[0] is not None) and "whole" not in text
    loss = lambda a, b: (scanned(a, b)[1] ** 2).sum()
    for got, want in zip(ga.jit(ga.grad(loss, (0, 1)))(*given), ga.grad(loss, (0, 1))(*xs)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
