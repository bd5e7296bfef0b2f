"""Branches and loops: values, every transformation in every order, and what is said of misuse.

Laws instead of recorded numbers: a program with `cond`, `scan` and the like equals the same program
as plain Python (`disable_jit`), vmap equals a loop, derivatives equal central differences, jit
changes nothing. Expected values that are written out come from the mathematics.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, tree

X = np.array([0.5, -1.2, 2.0])
MATRIX = np.array([[0.3, -0.7, 1.1], [-0.4, 0.9, 0.2]])


@pytest.fixture(autouse=True)
def double_precision():
    with ga.enable_x64(True):
        yield


# ---- programs: functions of a vector of three ----


def scan_with_ys(x):
    return lax.scan(lambda c, y: (c * gnp.sin(y) + 1, c * y), 1.0, x)


def scan_reversed_and_nested(x):
    def outer(c, y):
        def inner(d, z):
            return d * gnp.cos(z) + y * c, d

        d, e = lax.scan(inner, c, x)
        return d, e.sum()

    return lax.scan(outer, 1.0, x, reverse=True)


def scan_of_pytrees(x):
    def step(c, y):
        return {"a": c["b"] * y[0], "b": c["a"] + y[1]["z"]}, (c["a"], {"k": y[0] * x[1]})

    return lax.scan(step, {"a": x[0], "b": 2.0}, (x, {"z": x * 2}))


def scan_with_integers(x):
    def step(c, y):
        i, total = c
        return (i + 1, total * y * i + x[i]), i * y

    return lax.scan(step, (1, 1.0), x)


def scan_of_cond(x):
    def step(c, y):
        return lax.cond(y > 0, lambda: (c * y, c), lambda: (c + gnp.exp(y), y))

    return lax.scan(step, 1.0, x)


def scan_of_switch(x):
    branches = [
        lambda c, y: ((c[0] + 1, c[1] * y), c[1]),
        lambda c, y: ((c[0] + 1, c[1] + y), y * y),
        lambda c, y: ((c[0] + 2, c[1]), 1.0),
    ]
    return lax.scan(lambda c, y: lax.switch(c[0] % 3, branches, c, y), (0, 1.0), x)


def scan_with_constants(x):
    w = gnp.sin(x[:, None] * x)  # the same at every step, and so is its sine
    return lax.scan(lambda c, y: (gnp.tanh((gnp.sin(w) * c).sum(1) + y), c.sum()), x, x * 2)


def scan_with_updates(x):
    return lax.fori_loop(0, 3, lambda i, c: c.at[i].set(c[i - 1] * x[i]), x * x)


def cond_of_scan(x):
    return lax.cond(
        x.sum() > 0, lambda x: lax.scan(lambda c, y: (c * y, c), x[0], x)[1], lambda x: x**2, x
    )


def cond_with_closures(x):
    w = gnp.exp(x)
    return lax.cond(x[0] > 0, lambda: gnp.sin(w) * x[1], lambda: x**2 + w[0])


def jitted_inside(x):
    step = ga.jit(lambda c, y: (c * gnp.sin(y), c + y))
    return ga.jit(lambda x: lax.scan(step, x[0], x))(x)


def mapped(x):
    return lax.map(lambda y: gnp.sin(y) * x.sum(), x)


def mapped_in_batches(x):
    return lax.map(lambda y: gnp.sin(y) * x.sum(), x, batch_size=2)


def associative(x):
    pairs = (x, gnp.cos(x))
    return lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), pairs)


def bounded_while(x):
    return lax.while_loop(
        lambda c: c[1] < 4,
        lambda c: (c[0] * gnp.sin(x) + x[0], c[1] + c[0][0] ** 2 + 0.5),
        (x, 0.0),
        max_steps=12,
    )


def gradient_inside(x):
    return lax.scan(lambda c, y: (c + ga.grad(lambda z: gnp.sin(z) * x[0] * z)(y), c), 0.0, x)


def vmap_inside(x):
    def step(c, y):
        return c + ga.vmap(lambda a: lax.cond(a > 0, gnp.sin, gnp.cos, a))(x * y), c.sum()

    return lax.scan(step, x, x)


REVERSIBLE = [
    scan_with_ys,
    scan_reversed_and_nested,
    scan_of_pytrees,
    scan_with_integers,
    scan_of_cond,
    scan_of_switch,
    scan_with_constants,
    scan_with_updates,
    cond_of_scan,
    cond_with_closures,
    jitted_inside,
    mapped,
    mapped_in_batches,
    associative,
    bounded_while,
    gradient_inside,
    vmap_inside,
]


def free_while(x):
    return lax.while_loop(
        lambda c: c[1] < 9.0 + x[0],
        lambda c: (c[0] * x, c[1] + gnp.abs(c[0]).sum(), c[2] + 1),
        (x, 0.0, 0),
    )


def while_in_scan(x):
    def step(c, y):
        return lax.while_loop(lambda z: z < 5.0, lambda z: z * 1.5 + y * y + 0.1, c * 0.1 + 0.2), c

    return lax.scan(step, 1.0, x)


def dynamic_fori(x):
    n = gnp.where(x[0] > 0, 3, 1)
    return lax.fori_loop(0, n, lambda i, c: c * gnp.sin(x) + i, x)


FORWARD = [free_while, while_in_scan, dynamic_fori]

reversible = pytest.mark.parametrize("program", REVERSIBLE, ids=lambda f: f.__name__)
every = pytest.mark.parametrize("program", REVERSIBLE + FORWARD, ids=lambda f: f.__name__)


def leaves(value) -> list[np.ndarray]:
    return [np.asarray(x) for x in tree.leaves(value)]


def assert_close(found, expected, tolerance: float = 1e-9):
    found, expected = leaves(found), leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def scalar(program):
    """A number that depends on every floating result."""

    def total(x):
        out = [y for y in tree.leaves(program(x)) if gnp.issubdtype(y.dtype, gnp.floating)]
        return sum((gnp.sin(y) * (k + 1)).sum() for k, y in enumerate(out))

    return total


def differences(fun, x, step: float = 1e-6):
    """The Jacobian (results' axes, then x's) by central differences."""
    columns = []
    for i in range(x.size):
        d = np.zeros(x.size)
        d[i] = step
        d = d.reshape(x.shape)
        plus, minus = leaves(fun(gnp.asarray(x + d))), leaves(fun(gnp.asarray(x - d)))
        columns.append([(p - m) / (2 * step) for p, m in zip(plus, minus, strict=True)])
    return [np.stack(c, -1).reshape(c[0].shape + x.shape) for c in zip(*columns, strict=True)]


# ---- laws ----


@every
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_equals_plain_python(program, sign):
    x = gnp.asarray(X * sign)
    if program is dynamic_fori:  # its bound is an array, which Python's range takes too
        x = x * 1
    with ga.disable_jit():
        expected = program(x)
    assert_close(program(x), expected)
    assert_close(ga.jit(program)(x), expected)


@every
@pytest.mark.parametrize("size", [0, 1, 2])
def test_vmap_is_a_loop(program, size):
    rows = gnp.asarray(MATRIX[:size])
    found = ga.vmap(program)(rows)
    assert_close(ga.jit(ga.vmap(program))(rows), found)
    if size == 0:
        assert all(x.shape[0] == 0 for x in leaves(found))
        return
    each = [leaves(program(row)) for row in rows]
    assert_close(found, [np.stack(column) for column in zip(*each, strict=True)])
    columns = ga.vmap(program, in_axes=1, out_axes=-1)(rows.T)
    assert_close(columns, [np.stack(c, -1) for c in zip(*each, strict=True)])


@every
def test_forward_derivatives(program):
    fun = scalar(program)
    x = gnp.asarray(X)
    (expected,) = differences(fun, X)
    assert_close(ga.jacfwd(fun)(x), expected, 1e-6)
    direction = gnp.asarray([1.0, -2.0, 0.5])
    slope = np.asarray(expected) @ np.asarray(direction)
    assert_close(ga.jvp(fun, (x,), (direction,))[1], slope, 1e-6)
    assert_close(ga.jvp(ga.jit(fun), (x,), (direction,))[1], slope, 1e-6)
    assert_close(ga.linearize(fun, x)[1](direction), slope, 1e-6)


@reversible
def test_gradients_in_every_order_with_jit(program):
    fun = scalar(program)
    x = gnp.asarray(X)
    (expected,) = differences(fun, X)
    for f in (
        ga.grad(fun),
        ga.jit(ga.grad(fun)),
        ga.grad(ga.jit(fun)),
        ga.jit(ga.grad(ga.jit(fun))),
    ):
        assert_close(f(x), expected, 1e-6)


@reversible
def test_gradients_and_vmap_change_places(program):
    rows = gnp.asarray(MATRIX)
    fun = scalar(program)
    expected = np.stack([np.asarray(ga.grad(fun)(row)) for row in rows])
    assert_close(ga.vmap(ga.grad(fun))(rows), expected)
    assert_close(ga.grad(lambda rows: ga.vmap(fun)(rows).sum())(rows), expected)
    assert_close(ga.jit(ga.vmap(ga.grad(ga.jit(fun))))(rows), expected)


@reversible
def test_second_derivatives(program):
    fun = scalar(program)
    x = gnp.asarray(X)
    (expected,) = differences(ga.grad(fun), X)
    assert_close(ga.hessian(fun)(x), expected, 1e-5)
    assert_close(ga.jacrev(ga.jacrev(fun))(x), expected, 1e-5)
    assert_close(ga.jacrev(ga.jacfwd(fun))(x), expected, 1e-5)


# ---- shapes of vmap ----


def test_predicates_that_differ_select():
    f = ga.vmap(lambda p, x: lax.cond(p, lambda x: x + 1, lambda x: -x, x))
    found = f(gnp.array([True, False, True]), gnp.array([1.0, 2.0, 3.0]))
    assert_close(found, np.array([2.0, -2.0, 4.0]))


def test_what_is_not_selected_has_no_part_in_gradients():
    f = ga.vmap(ga.grad(lambda x: lax.cond(x > 0, gnp.sqrt, lambda x: x, x)))
    assert_close(f(gnp.array([-1.0, 0.0, 4.0])), np.array([1.0, 1.0, 0.25]))


PAIRS = [(True, False), (False, True), (True, True)]


@pytest.mark.parametrize(("inner", "outer"), list(itertools.product(PAIRS, repeat=2)))
def test_while_under_two_vmaps(inner, outer):
    """a ** (n + 1) by a loop, for all ways in which a and n have the axes of two vmaps."""

    def power(a, n):
        return lax.while_loop(lambda c: c[1] < n, lambda c: (c[0] * a, c[1] + 1), (a, 0))[0]

    def numbers(start, has_inner, has_outer):
        full = np.arange(start, start + 9).reshape(3, 3)
        return full[slice(None) if has_outer else 1, ..., slice(None) if has_inner else 1]

    def spread(x, has_inner, has_outer):
        x = x if has_outer else np.asarray(x)[None]
        return x if has_inner else x[..., None]

    a, n = numbers(1.0, inner[0], outer[0]), numbers(-2, inner[1], outer[1])
    axes = [tuple(0 if has else None for has in level) for level in (inner, outer)]
    found = ga.vmap(ga.vmap(power, axes[0]), axes[1])(gnp.asarray(a), gnp.asarray(n))
    powers = np.maximum(spread(n, inner[1], outer[1]), 0) + 1
    assert_close(found, np.broadcast_to(spread(a, inner[0], outer[0]) ** powers, (3, 3)))


def test_mapped_while_with_values_that_stay_the_same():
    """What every turn repeats is computed before the loop; the rest still has its shapes."""

    def body(y):
        step = gnp.linalg.det(gnp.eye(3))  # 1, in every turn
        return gnp.where(y > 0, y, 0.0) + step + gnp.cumsum(gnp.stack([y, -y]))[1]

    def condition(y):
        one = gnp.linalg.det(gnp.eye(3))
        return gnp.where(y + gnp.cumsum(gnp.stack([y, -y]))[1] < 5, one, 0.0) > 0.5

    start, end = np.array([3.5, 1.0, -1.0, 7.0]), np.array([5.5, 5.0, 5.0, 7.0])
    assert_close(ga.vmap(lambda x: lax.while_loop(lambda y: y < 5, body, x))(start), end)
    assert_close(ga.vmap(lambda x: lax.while_loop(condition, body, x))(start), end)


# ---- sizes ----


def test_ten_thousand_steps_with_gradient():
    def f(x):
        return lax.scan(lambda c, _: (c * 0.9999 + x, None), x, None, 10_000)[0]

    r = 0.9999
    expected = r**10_000 + (1 - r**10_000) / (1 - r)
    assert_close(ga.grad(f)(0.5), expected, 1e-9)
    assert_close(ga.jit(ga.grad(f))(0.5), expected, 1e-9)


def test_no_steps():
    empty = gnp.zeros((0, 2))
    carry, ys = lax.scan(lambda c, x: (c + x.sum(), c * x), 3.0, empty)
    assert (float(carry), ys.shape) == (3.0, (0, 2))
    total = ga.grad(lambda c: lax.scan(lambda c, x: (c * x.sum(), c), c, empty)[0])
    assert float(total(3.0)) == 1.0
    assert int(lax.fori_loop(0, -3, lambda i, c: c + 1, 7)) == 7


def test_loops_in_plain_python_give_arrays_and_leave_traced_conditions_to_the_program():
    def count(n):
        return lax.while_loop(lambda c: c < n, lambda c: c + 1, 0)

    with ga.disable_jit():
        for n in (0, 3):
            found = count(n)
            assert isinstance(found, ga.Array) and found.weak_type and int(found) == n
        # The condition closes over what vmap traces.
        assert ga.vmap(count)(gnp.arange(3)).tolist() == [0, 1, 2]
        with pytest.raises(TypeError, match="not a valid JAX type|valid"):
            lax.while_loop(lambda c: False, lambda c: c, "a")


def test_carries_are_overwritten_only_where_nobody_else_sees_them():
    z = gnp.arange(5.0)
    swapped = lax.fori_loop(0, 4, lambda i, c: (c[1], c[0].at[i].set(c[1][i + 1] * 2)), (z, z))
    with ga.disable_jit():
        expected = lax.fori_loop(0, 4, lambda i, c: (c[1], c[0].at[i].set(c[1][i + 1] * 2)), (z, z))
    assert_close(swapped, expected)
    last, before = lax.scan(lambda c, x: (c.at[0].add(x), c), z, z)
    assert_close(last, np.array([10.0, 1, 2, 3, 4]))
    assert_close(before[:, 0], np.array([0.0, 0, 1, 3, 6]))
    both = lax.fori_loop(0, 3, lambda i, c: (c[0].at[i].set(-1.0), c[0]), (z, z))
    assert_close(both, [np.array([-1.0, -1, -1, 3, 4]), np.array([-1.0, -1, 2, 3, 4])])
    assert_close(z, np.arange(5.0))


def test_only_the_branch_that_is_taken_runs():
    def endless(x):
        return lax.while_loop(lambda c: True | (c > 0), lambda c: c, x)

    assert float(lax.cond(True, lambda x: x, endless, 2.0)) == 2.0
    assert float(ga.jit(lambda p: lax.cond(p, lambda x: x, endless, 2.0))(True)) == 2.0


def test_bounded_while_ends():
    f = ga.jit(lambda x: lax.while_loop(lambda c: c < 1e9, lambda c: c * 2, x, max_steps=5))
    assert float(f(1.0)) == 32.0
    assert float(f(5e8)) == 1e9
    assert float(ga.grad(f)(1.0)) == 32.0
    assert float(ga.grad(f)(5e8)) == 2.0


def test_what_a_while_loop_passes_on_has_a_gradient():
    def f(x):
        return lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] * 2, c[1]), (1, x.sum()))[1]

    assert_close(ga.grad(f)(gnp.asarray(X)), np.ones(3))


def test_inputs_still_in_flight():
    big = gnp.ones((3, 200_000)) * 2 + 1
    total, parts = lax.scan(lambda c, y: (c + y.sum(), y[:2]), 0.0, big)
    assert float(total) == 1_800_000.0
    assert_close(parts * 1, np.full((3, 2), 3.0))


# ---- types ----


def test_weak_numbers_take_the_type_that_comes_out():
    with ga.enable_x64(False):
        assert lax.while_loop(lambda c: c < 3, lambda c: c + 1.5, 0).dtype == np.float32
        carry, ys = lax.scan(lambda c, y: (c + y, c), 0, gnp.ones(3))
        assert (carry.dtype, ys.dtype) == (np.float32, np.float32)
        assert not carry.weak_type
        half = lax.fori_loop(0, 3, lambda i, c: c + i, gnp.float16(0))
        assert (half.dtype, float(half)) == (np.float16, 3.0)
        bounds = lax.fori_loop(0, gnp.int16(3), lambda i, c: c + i, gnp.int16(0))
        assert (bounds.dtype, int(bounds)) == (np.int16, 3)


def test_branches_may_differ_in_weak_type():
    found = lax.cond(True, lambda: 1.0, lambda: gnp.float64(2))
    assert (found.dtype, found.weak_type) == (np.float64, False)
    assert lax.cond(True, lambda: 1.0, lambda: 2.0).weak_type


@pytest.mark.parametrize(("index", "expected"), [(-5, 1), (0, 1), (1, 2), (2, 3), (99, 3)])
def test_indices_are_clamped(index, expected):
    branches = [lambda: 1, lambda: 2, lambda: 3]
    assert int(lax.switch(index, branches)) == expected
    assert int(ga.jit(lambda i: lax.switch(i, branches))(index)) == expected
    assert ga.vmap(lambda i: lax.switch(i, branches))(gnp.array([index])).tolist() == [expected]


def test_random_keys_are_carried():
    def step(key, y):
        key, used = ga.random.split(key)
        return key, y * ga.random.uniform(used)

    key = ga.random.key(7)
    _, found = lax.scan(step, key, gnp.ones(3))
    for i in range(3):
        key, expected = step(key, 1.0)
        assert float(found[i]) == pytest.approx(float(expected))


def test_complex_carries():
    f = lambda x: gnp.abs(lax.scan(lambda c, y: (c * (y + 1j), None), 1j + 0 * x[0], x)[0])
    (expected,) = differences(f, X)
    assert_close(ga.grad(f)(gnp.asarray(X)), expected, 1e-6)


def test_linear_transpose_runs_the_loop_backwards():
    f = lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2 * (i + 1), x)
    (found,) = ga.linear_transpose(f, gnp.asarray(X))(gnp.asarray(X))
    assert_close(found, X * 2 * 4 * 6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", range(8))
def test_associative_scan(length, reverse):
    x = np.arange(1.0, length + 1)
    found = lax.associative_scan(gnp.multiply, gnp.asarray(x), reverse=reverse)
    expected = np.cumprod(x[::-1])[::-1] if reverse else np.cumprod(x)
    assert_close(found, expected)
    grid = gnp.asarray(np.stack([x, x + 1]) > 2)
    either = lax.associative_scan(gnp.logical_or, grid, axis=-1)
    assert_close(either, np.logical_or.accumulate(np.asarray(grid), axis=1))


@pytest.mark.parametrize("batch_size", [None, 0, 1, 3, 7, 10])
def test_map_in_batches(batch_size):
    xs = {"a": gnp.arange(7), "b": gnp.ones((7, 2))}
    found = lax.map(lambda x: (x["a"] * x["b"], x["a"]), xs, batch_size=batch_size)
    assert_close(found, [np.arange(7.0)[:, None] * np.ones(2), np.arange(7)])


# ---- misuse ----

MISUSE = [
    (lambda x: lax.cond(True, lambda x: x, lambda x: x > 0, x), TypeError,
     "cond branches must have equal output types but they differ"),
    (lambda x: lax.cond(True, lambda x: (x,), lambda x: x, x), TypeError,
     "cond branch outputs must have the same pytree structure"),
    (lambda x: lax.cond(x, lambda x: x, lambda x: x, x), TypeError, "Pred must be a scalar"),
    (lambda x: lax.cond([True], lambda x: x, lambda x: x, x), TypeError, "Pred must be a scalar"),
    (lambda x: lax.cond(None, lambda x: x, lambda x: x, x), TypeError, "cond predicate is None"),
    (lambda x: lax.cond(1j, lambda x: x, lambda x: x, x), TypeError,
     "Pred type must be either boolean or number, got complex128"),
    (lambda x: lax.cond(True, 3, lambda x: x, x), TypeError,
     "true_fun and false_fun arguments should be callable"),
    (lambda x: lax.cond(True, lambda x: x, lambda x: x, "s"), TypeError,
     "Argument 's' of type <class 'str'> is not a valid JAX type"),
    (lambda x: lax.cond(True, lambda x: "s", lambda x: x, x), TypeError,
     "traced for cond returned a value of type <class 'str'>"),
    (lambda x: lax.cond(True, lambda x: x, lambda x: x, x, operand=x), TypeError,
     "if 'operand' keyword is passed then no positional operands can be passed"),
    (lambda x: lax.switch(0.5, [lambda: 1, lambda: 2]), TypeError,
     "Index type must be an integer, got 0.5 as float64"),
    (lambda x: lax.switch(gnp.arange(3), [lambda: 1, lambda: 2]), TypeError,
     "Branch index must be scalar"),
    (lambda x: lax.switch(0, []), ValueError, "Empty branch sequence"),
    (lambda x: lax.switch(0, [3, 4]), TypeError, "should be a sequence of callables"),
    (lambda x: lax.switch(0, [lambda: x, lambda: x[0]]), TypeError,
     "switch branches must have equal output types"),
    (lambda x: lax.while_loop(lambda c: c < 3, lambda c: (c, c), 0), TypeError,
     "while_loop body function carry input and carry output must have the same pytree structure"),
    (lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0], c[1][:2]), (0, x)), TypeError,
     "The input carry component c[1] has type float64[3] but the corresponding output carry "
     "component has type float64[2], so the shapes do not match"),
    (lambda x: lax.while_loop(lambda c: c, lambda c: c, 0), TypeError,
     "cond_fun must return a boolean scalar, but got output type(s) [ShapedArray(int64[]"),
    (lambda x: lax.while_loop(lambda c: (c < 3,), lambda c: c, 0), TypeError,
     "cond_fun must return a boolean scalar, but got pytree"),
    (lambda x: lax.while_loop(3, lambda c: c, 0), TypeError, "should be callable"),
    (lambda x: lax.while_loop(lambda c: c < 1, lambda c: c, 0, max_steps=-1), ValueError,
     "max_steps must not be negative"),
    (lambda x: lax.fori_loop(0.0, 3, lambda i, c: c, 1), TypeError,
     "lower and upper arguments to fori_loop must have equal types, got float64 and int64"),
    (lambda x: ga.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c, 1, unroll=2))(3), ValueError,
     "Can only use `unroll` in `fori_loop` if the loop bounds are statically known"),
    (lambda x: lax.scan(lambda c, y: c, 0.0, x), TypeError, "scan body output must be a pair"),
    (lambda x: lax.scan(lambda c, y: (c > 0, c), 0.0, x), TypeError,
     "scan body function carry input and carry output must have equal types"),
    (lambda x: lax.scan(lambda c, y: (c, c), 0, x, length=2), ValueError,
     "scan got `length` argument of 2 which disagrees with leading axis sizes [3]"),
    (lambda x: lax.scan(lambda c, y: (c, c), 0, (x, gnp.ones(4))), ValueError,
     "scan got values with different leading axis sizes: 3, 4"),
    (lambda x: lax.scan(lambda c, y: (c, c), 0, None), ValueError,
     "scan got no values to scan over and `length` not provided"),
    (lambda x: lax.scan(lambda c, y: (c, c), 0, 3.0), ValueError,
     "scan got value with no leading axis to scan over"),
    (lambda x: lax.scan(3, 0, x), TypeError, "f argument should be a callable"),
    (lambda x: lax.scan(lambda c, y: (c, c), 0, x, unroll=-1), ValueError,
     "`unroll` must be a `bool` or a non-negative `int`"),
    (lambda x: lax.scan(lambda c, y: (c, "s"), 0, x), TypeError, "at output component [1]"),
    (lambda x: ga.jit(lambda n: lax.scan(lambda c, y: (c, y), 0, None, length=n))(3),
     ga.errors.ConcretizationTypeError, "expects a concrete `int` value"),
    (lambda x: ga.grad(lambda x: lax.while_loop(lambda c: c < 3, lambda c: c * x, x))(1.5),
     ValueError, "Reverse-mode differentiation does not work for lax.while_loop"),
    (lambda x: lax.associative_scan(3, x), TypeError, "fn argument should be callable"),
    (lambda x: lax.associative_scan(gnp.add, (x, x[:2])), ValueError,
     "must have the same first dimension"),
    (lambda x: lax.associative_scan(gnp.add, x, axis=3), ValueError,
     "axis 3 is out of bounds for array of dimension 1"),
    (lambda x: lax.map(lambda x: x, 3), ValueError, "no leading axis"),
]  # fmt: skip


@pytest.mark.parametrize(("misuse", "error", "words"), MISUSE, ids=[w[:40] for *_, w in MISUSE])
def test_misuse_is_explained(misuse, error, words):
    with pytest.raises(error) as caught:
        misuse(gnp.asarray(X))
    assert words in str(caught.value)


# ---- text ----


def test_printed_scan():
    with ga.enable_x64(False):
        text = str(
            ga.make_jaxpr(lambda x: lax.scan(lambda c, y: (c * y, c + y), x[0], x))(gnp.ones(3))
        )
    assert (
        "length=3\n      num_carry=1\n      num_consts=0\n      reverse=False\n      unroll=1"
        in text
    )
    assert "jaxpr={ lambda ; f:f32[] g:f32[]. let\n          h:f32[] = mul f g\n" in text


def test_constants_become_operands():
    w = gnp.ones(3)
    graph = ga.make_jaxpr(lambda x: lax.scan(lambda c, _: (c * w, None), x, None, 2)[0])(w * 2)
    (eqn,) = graph.eqns
    assert eqn.params["num_consts"] == 1
    assert not eqn.params["jaxpr"].consts


def test_loops_without_steps_and_with_arrays_that_can_be_written():
    def grow(carry):
        x, y = carry
        x += 1  # in place, were it the array that was given
        return x, y + x

    start = np.array(1.0)
    loop = lambda: lax.while_loop(lambda c: c[0] < 10, grow, (start, start))[1]
    with ga.disable_jit():
        found = loop()
        assert lax.fori_loop(3, 3, lambda i, c: c + i, 1.0) == 1.0
    assert found == loop() == 1 + sum(range(2, 11)) and start == 1


STRONG = np.float64(1.0)


@pytest.mark.parametrize(
    ("program", "weak"),
    [
        # A branch's type: that of the first one, which a false predicate takes.
        (lambda x: lax.cond(x < 3, lambda: STRONG, lambda: 2.0), True),
        (lambda x: lax.cond(x < 3, lambda: 2.0, lambda: STRONG), False),
        (lambda x: lax.switch(2, [lambda: 2.0, lambda: STRONG, lambda: STRONG]), True),
        (lambda x: lax.switch(0, [lambda: STRONG, lambda: 2.0]), False),
        # A loop's: that of what the body returns, whatever went in and though it never runs.
        (lambda x: lax.scan(lambda c, _: (2.0, None), STRONG, None, length=2)[0], True),
        (lambda x: lax.scan(lambda c, _: (2.0, None), STRONG, None, length=0)[0], True),
        (lambda x: lax.scan(lambda c, _: (c * 2.0, None), STRONG, None, length=2)[0], False),
        (lambda x: lax.scan(lambda c, _: (STRONG, None), 1.0, None, length=2)[0], False),
        (lambda x: lax.fori_loop(0, 2, lambda i, c: 2.0, STRONG), True),
        (lambda x: lax.while_loop(lambda c: c < 2, lambda c: 2.0, STRONG), True),
        # An array made inside, which is a constant of the program, is what it was.
        (
            lambda x: lax.scan(lambda c, _: (gnp.asarray(2.0) * 3, None), 1.0, None, length=2)[0],
            True,
        ),
        (lambda x: lax.cond(x < 3, lambda: STRONG, lambda: gnp.asarray(2.0)), True),
    ],
)
def test_weak_types_of_branches_and_loops(program, weak):
    assert ga.jit(program)(1.0).weak_type is weak
    assert program(1.0).weak_type is weak
    assert ga.jvp(program, (1.0,), (1.0,))[0].weak_type is weak
    assert ga.vjp(program, 1.0)[0].weak_type is weak
    assert ga.vmap(lambda _: program(1.0))(gnp.ones(2)).weak_type is weak
    # What follows promotes accordingly.
    narrow = np.float32(1)
    assert (program(1.0) + narrow).dtype == (np.float32 if weak else np.float64)


@pytest.mark.parametrize("narrow", [np.int8, np.int16])
def test_a_bound_traced_of_a_python_int_takes_the_others_dtype(narrow):
    count = lambda low, high: lax.fori_loop(low, high, lambda i, c: c + 1, 0)
    assert ga.jit(lambda n: count(narrow(2), n))(5) == 3
    assert ga.jit(lambda n: count(n, narrow(5)))(2) == 3
    with pytest.raises(TypeError, match="must have equal types"):
        ga.jit(lambda n: count(narrow(2), n))(np.int64(5))
    with pytest.raises(ValueError, match="Can only use `unroll`"):
        ga.jit(lambda n: lax.fori_loop(narrow(0), n, lambda i, c: c, 0, unroll=3))(5)


def test_functions_in_the_place_of_the_choice():
    with pytest.raises(TypeError, match="Pred type must be .* got <function"):
        lax.cond(lambda x: True, lambda x: 2.0, lambda x: 3.0, 1.0)
    with pytest.raises(TypeError, match="Index type must be an integer, got <function"):
        lax.switch(lambda x: 0, [lambda x: 2.0, lambda x: 3.0], 1.0)
