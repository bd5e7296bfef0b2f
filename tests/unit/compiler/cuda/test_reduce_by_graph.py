"""`lax.reduce` with functions of the user: rows and columns that threads share, as of sums.

In: folds that no primitive has, of one array and of several. Out: the kernels' forms, what they
read, and the values of the NumPy driver in every order of threads.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.cuda.emit import emit
from gpuarray.core import dtypes
from tests.golden import shape
from tests.support import nvrtc, simulated

simulated.need_compiler()

SIZES = [((7, 5), (1,)), ((1003, 3), (0,)), ((300, 70), (0,)), ((65, 1000), (1,)), ((40001,), (0,))]
SIZES += [((6, 50, 7), (1,)), ((6, 50, 7), (0, 2)), ((3, 30000), (1,)), ((4, 1), (1,))]


def numbers(*lengths: int, dtype: str = "float32") -> np.ndarray:
    x = np.random.default_rng(lengths).uniform(0.1, 1, lengths)
    return x.astype(getattr(dtypes, dtype, dtype))


def larger(a, b):
    """Of two numbers with their places the larger one; of equal ones the first."""
    mine = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
    return tuple(gnp.where(mine, x, y) for x, y in zip(a, b, strict=True))


def places(x, axes):
    start = np.array(-np.inf, x.dtype), np.int32(2**31 - 1)
    return lax.reduce((x, gnp.arange(x.size, dtype="int32").reshape(x.shape)), start, larger, axes)


def spread(x, axes):
    """Mean and squares of differences, merged by Chan's formula; how many there are comes along."""

    def merge(p, q):
        n = p[0] + q[0]
        part = q[0] / gnp.maximum(n, 1)
        d = q[1] - p[1]
        return n, p[1] + d * part, p[2] + q[2] + d * d * p[0] * part

    start = (np.float32(0),) * 3
    ones = gnp.ones_like(x)
    return lax.reduce((ones, x, 0 * ones), start, merge, axes)[1:]


def hypotenuse(x, axes):
    return lax.reduce(x, np.array(0, x.dtype), lambda a, b: gnp.sqrt(a * a + b * b), axes)


def joined(x, axes):
    """Two folds of one row, an operation before, and elements that wait for both."""
    y = gnp.exp(x)
    one = lax.reduce(y, 1.0, lambda a, b: a + b + a * b * 1e-9, axes)
    two = lax.reduce(-y, -1.0, lambda a, b: gnp.maximum(a, b) + 0.0, axes)
    return y * gnp.expand_dims(one - two, axes)


FUNCTIONS = {"hypotenuse": hypotenuse, "places": places, "spread": spread, "joined": joined}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_compute_what_numpy_does(name):
    cases = [(lambda x, f=FUNCTIONS[name], a=a: f(x, a), (numbers(*s),)) for s, a in SIZES]
    simulated.compare(cases, limit=200)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32", "uint8", "complex64"])
def test_every_dtype(dtype):
    def farther(a, b):
        """The one that is farther from 5."""
        return gnp.where(abs(a - 5) > abs(b - 5), a, b)

    def f(x):
        return lax.reduce(x, np.array(5, x.dtype), farther, (1,)), hypotenuse(x * 1.5, (1,))

    x = (numbers(20, 70) * 9).astype(getattr(dtypes, dtype, dtype))
    if dtype in ("int32", "uint8"):
        simulated.compare([(lambda x: f(x)[0], (x,))])
    else:  # each step rounds
        simulated.compare([(f, (x,))], limit=70)


def test_initial_values_are_merged_once():
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    add = lambda a, b: lax.add(a, b)  # not known to be the sum
    simulated.compare([(lambda x: lax.reduce(x, 100, add, (1,)), (x,))])
    made = simulated.built(ga.jit(lambda x: lax.reduce(x, 100, add, (1,))).lower(x).jaxpr)
    assert simulated.run(made, [x])[0].tolist() == [106, 122, 138]


@pytest.mark.parametrize("axes, form", [((1,), "rows"), ((0,), "columns"), ((0, 1), "rows")])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_threads_share_rows_and_columns(name, axes, form):
    x = shape("float32", 2048, 4096)
    kernels = [
        emit(g) for g in ga.jit(lambda x: FUNCTIONS[name](x, axes)).lower(x).plan.on_device.groups
    ]
    assert {k.kernel.form for k in kernels} <= {form, "map"} and kernels[0].kernel.form == form
    s = kernels[0].schedule
    assert s.grid * s.threads >= 1 << 16
    times = 1 if name != "joined" else 2 if axes == (1,) else 3
    assert sum(k.traffic.total for k in kernels) < 1.05 * times * x.size * 4


def test_results_do_not_depend_on_the_order_of_blocks():
    x = numbers(50_000)
    made = simulated.built(ga.jit(lambda x: hypotenuse(x, (0,))).lower(x).jaxpr)
    assert len({simulated.run(made, [x], seed)[0].tobytes() for seed in (1, 2, 3)}) == 1


WINDOWS = [
    ((40, 320), (1, 64), (1, 64)),
    ((64, 30), (64, 1), (1, 1)),
    ((33, 20, 24), (1, 5, 8), (1, 5, 8)),
    ((50, 2000), (50, 2000), (3, 1)),
]


@pytest.mark.parametrize("sizes, window, strides", WINDOWS)
def test_windows_side_by_side_are_rows_and_columns(sizes, window, strides):
    def f(x):
        hypot = lambda a, b: gnp.sqrt(a * a + b * b)
        one = lax.reduce_window(x, 0.0, hypot, window, strides, "VALID")
        start = np.float32(-np.inf), np.int32(2**31 - 1)
        at = gnp.arange(x.size, dtype="int32").reshape(x.shape)
        return one, lax.reduce_window((x, at), start, larger, window, strides, "VALID")

    simulated.compare([(f, (numbers(*sizes),))], limit=200)
    groups = ga.jit(f).lower(numbers(*sizes)).plan.on_device.groups
    assert {g.form for g in groups} <= {"rows", "columns"}


def test_windows_that_overlap_or_are_padded_are_read_where_they_are():
    def f(x):
        hypot = lambda a, b: gnp.sqrt(a * a + b * b)
        return [
            lax.reduce_window(x, 0.0, hypot, (1, 20), strides, padding)
            for strides, padding in [((1, 1), "VALID"), ((1, 20), "SAME"), ((1, 20), "VALID")]
        ]

    simulated.compare([(f, (numbers(6, 70),))], limit=40)


def test_no_elements_are_the_initial_value():
    x = np.zeros((3, 0), np.float32)
    simulated.compare(
        [(lambda x: hypotenuse(x, (1,)), (x,)), (lambda x: hypotenuse(x, (0,)), (x,))]
    )


def test_a_function_of_its_second_operand_alone_stays_as_it_is():
    """Its result is no result of an equation: nothing could be merged with the initial value."""
    x = numbers(5, 6)
    simulated.compare([(lambda x: lax.reduce(x, 0.0, lambda a, b: b, (1,)), (x,))])


def test_derivatives_are_those_of_the_sum():
    x = numbers(4, 9)
    own = lambda x: lax.reduce(x, 0.0, lambda a, b: a + b * 1.0, (1,)).sum()
    assert np.allclose(ga.grad(own)(x), 1)
    tangents = ga.jvp(lambda x: places(x, (1,))[0], (x,), (numbers(4, 9) * 2,))[1]
    assert np.allclose(tangents, np.take_along_axis(x * 2, x.argmax(1)[:, None], 1)[:, 0])


@nvrtc.needed
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_kernels_assemble(arch):
    kernels = []
    for name, f in FUNCTIONS.items():
        for axes in ((0,), (1,), (0, 1)):
            x = shape("bfloat16" if name == "hypotenuse" else "float32", 512, 4096)
            plan = ga.jit(f, static_argnums=1).lower(x, axes).plan
            kernels += map(emit, plan.on_device.groups)
    assert {used.spills for used in nvrtc.resources(kernels, arch)} == {0}
