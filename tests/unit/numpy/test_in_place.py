"""Operators that look as if they wrote in place, with a NumPy array on their left.

`a += x` gives the name `a` to a new Array, as Python does where the left side cannot change; the
NumPy array, which others may see, stays as it was. `np.add(a, x, out=a)` does write to it.
"""

import operator
import sys
import threading

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp

IN_PLACE = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "@=": operator.imatmul,
    "&=": operator.iand,
    "|=": operator.ior,
    "^=": operator.ixor,
    "<<=": operator.ilshift,
    ">>=": operator.irshift,
}
BITS = ("&=", "|=", "^=", "<<=", ">>=")
LEFT = ("float32", "float64", "float16", "int32", "int64", "uint8", "bool")


def written_out(sign):
    """The operator as a statement, which Python runs by an instruction of its own."""
    space = {}
    exec(f"def run(a, x):\n    a {sign} x\n    return a", space)
    return space["run"]


def called_on_the_left(sign):
    name = f"__{IN_PLACE[sign].__name__}__"
    return lambda a, x: getattr(a, name)(x)


WAYS = {"statement": written_out, "operator": IN_PLACE.get, "method": called_on_the_left}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", LEFT)
@pytest.mark.parametrize("sign", IN_PLACE)
def test_in_place_operators_give_a_new_array(sign, dtype, way):
    bits = sign in BITS
    if bits and dtype.startswith("float") or dtype == "bool" and sign in ("-=", "<<=", ">>="):
        pytest.skip("no such operation")
    run, plain = WAYS[way](sign), getattr(operator, IN_PLACE[sign].__name__.removeprefix("i"), None)
    plain = {"&=": operator.and_, "|=": operator.or_}.get(sign, plain)
    right = gnp.full((3, 3), 2, "int32" if bits else "float32")
    for left in (np.full((3, 3), 3).astype(dtype), np.full(3, 3).astype(dtype)):
        before = left.copy()
        want = plain(gnp.asarray(left), right)
        found = run(left, right)
        assert isinstance(found, ga.Array) and found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)
        np.testing.assert_array_equal(left, before)
        for transform in (ga.jit, lambda f: lambda x: ga.vmap(f, axis_size=1, in_axes=None)(x)[0]):
            found = transform(lambda x, left=left: run(left, x))(right)
            assert found.dtype == want.dtype
            np.testing.assert_array_equal(found, want)
            np.testing.assert_array_equal(left, before)


@pytest.mark.parametrize("way", WAYS)
def test_in_place_operators_have_derivatives(way):
    add, multiply = WAYS[way]("+="), WAYS[way]("*=")
    a = np.full(3, 2, "f")

    def f(x):
        return (add(np.ones(3, "f"), x) * multiply(a, x)).sum()  # (1 + x) 2x

    want = 2 + 4 * np.arange(3)
    np.testing.assert_array_equal(ga.grad(f)(gnp.arange(3.0)), want)
    np.testing.assert_array_equal(ga.jit(ga.grad(f))(gnp.arange(3.0)), want)
    np.testing.assert_array_equal(ga.jvp(f, (gnp.arange(3.0),), (gnp.ones(3),))[1], want.sum())
    np.testing.assert_array_equal(a, np.full(3, 2))


def test_in_place_operators_in_loops():
    total = first = np.zeros(3, "f")
    for _ in range(3):
        total += gnp.ones(3)
    np.testing.assert_array_equal(total, np.full(3, 3))
    np.testing.assert_array_equal(first, np.zeros(3))
    many = [np.zeros(3, "f") for _ in range(3)]
    found = list(map(operator.iadd, many, [gnp.ones(3)] * 3))
    np.testing.assert_array_equal(found, np.ones((3, 3)))
    np.testing.assert_array_equal(many, np.zeros((3, 3)))


def test_in_place_operators_on_parts():
    a = np.zeros(3, "f")
    a[1:] += gnp.ones(2)  # an item that is set: that is written
    np.testing.assert_array_equal(a, [0, 1, 1])
    with pytest.raises(ga.errors.TracerArrayConversionError):
        ga.jit(lambda x: operator.setitem(a, slice(1, None), a[1:] + x))(gnp.ones(2))


def test_what_cannot_be_broadcast_is_refused():
    a = np.zeros(3, "f")
    with pytest.raises((TypeError, ValueError), match="shape"):
        a += gnp.ones(2)
    np.testing.assert_array_equal(a, np.zeros(3))


def test_a_ufunc_writes_to_its_out():
    x = gnp.ones(3)
    a = np.zeros(3, "f")
    calls = [
        lambda: np.add(a, x, out=a),
        lambda: np.add(a, x, out=(a,)),
        lambda: np.add(a, x, a),
        lambda: np.add.__call__(a, x, out=a),
        lambda: next(map(np.add, [a], [x], [a])),
        lambda: np.add(x, a, out=a),
    ]
    for count, call in enumerate(calls, 1):
        for _ in range(2):
            hasattr(type(x), "__array_ufunc__")  # who else looks it up does not count
            a[:] = count
            assert call() is a
            np.testing.assert_array_equal(a, np.full(3, count + 1))
        a += x
        assert isinstance(a, ga.Array)
        a = np.zeros(3, "f")
    with pytest.raises(ga.errors.TracerArrayConversionError):
        ga.jit(lambda x: np.add(a, x, out=a))(x)
    np.testing.assert_array_equal(a, np.zeros(3))


def test_threads_do_not_mistake_each_others_operators():
    wrong = []
    x = gnp.ones(3)

    def work():
        for _ in range(500):
            a = b = np.zeros(3, "f")
            a += x
            c = np.add(b, x, out=b)
            if b is not c or b[0] != 1 or not isinstance(a, ga.Array):
                wrong.append((a, b, c))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
