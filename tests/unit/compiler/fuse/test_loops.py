"""Loops and branches in registers: which ones become a kernel, and that it computes what they say.

In: programs with loops. Kernels run on the simulator; results are those of the NumPy driver, which
runs the same loops step by step.
"""

from __future__ import annotations

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.backends import simulator
from gpuarray.backends.numpy import program as host
from gpuarray.compiler.cuda.emit import emit
from gpuarray.compiler.text.prelude import complete
from gpuarray.config import strict
from gpuarray.core import dtypes
from tests.golden import shape
from tests.support import nvrtc, simulated


def floats(*lengths: int) -> np.ndarray:
    return np.random.default_rng(lengths).standard_normal(lengths).astype("float32")


# ---- programs ----


def mandelbrot(c, steps=40):
    """How many steps a point stays near, as people write it."""

    def step(_, state):
        z, n = state
        near = gnp.abs(z) < 2
        return gnp.where(near, z * z + c, z), n + near

    start = gnp.zeros_like(c), gnp.zeros(c.shape, "int32")
    return lax.fori_loop(0, steps, step, start)[1]


def ema(x):
    def step(mean, x):
        mean = 0.9 * mean + 0.1 * x
        return mean, mean

    return lax.scan(step, gnp.zeros(x.shape[1:]), x)


def pendulum(angle, rate):
    """Each element's own path, all of it kept."""

    def step(state, _):
        angle, rate = state
        rate = rate - 0.01 * gnp.sin(angle)
        angle = angle + 0.01 * rate
        return (angle, rate), {"angle": angle, "energy": rate * rate - gnp.cos(angle)}

    return lax.scan(step, (angle, rate), None, length=20)


def newton(x):
    """As many steps as the element itself needs."""

    def one(x):
        return lax.while_loop(
            lambda s: gnp.abs(s[0] * s[0] - x) > 1e-3 * x,
            lambda s: (0.5 * (s[0] + x / s[0]), s[1] + 1),
            (x, 0),
        )

    return ga.vmap(one)(x)


def collatz(n):
    def one(n):
        return lax.while_loop(
            lambda s: s[0] != 1,
            lambda s: (
                lax.cond(s[0] % 2 == 0, lambda k: k // 2, lambda k: 3 * k + 1, s[0]),
                s[1] + 1,
            ),
            (n, 0),
        )[1]

    return ga.vmap(one)(n)


def swapped(a, b):
    return lax.fori_loop(0, 7, lambda _, s: (s[1], s[0] + s[1]), (a, b))


def between(x):
    """Pointwise work before and after."""
    y = gnp.exp(-x) + 1
    z = lax.fori_loop(0, 5, lambda i, z: z * 0.5 + y + i, 2 * y)
    return gnp.sqrt(gnp.abs(z)) + x


def nested(x):
    def outer(i, y):
        return lax.fori_loop(0, 3, lambda j, z: gnp.sin(z) + 0.1 * (i + j), y) + 1.0

    return lax.fori_loop(0, 4, outer, x)


def nested_scan(x, table):
    """The inner loop goes through a table, and so does the outer one."""

    def outer(y, row):
        return lax.scan(lambda z, t: (z * 0.5 + t * row, None), y, table[:, 0])[0], y

    return lax.scan(outer, x, table[:, 1])


def chosen(x, which):
    branches = [gnp.sin, lambda v: v * v, lambda v: -v]
    return lax.fori_loop(0, 4, lambda i, y: lax.switch((which + i) % 3, branches, y) + 0.5, x)


def taken(flag, x):
    return lax.cond(flag > 0, lambda v: (gnp.sin(v), 1.0), lambda v: (v * 2, 2.0), x)


def horner(coefficients, x):
    """A scan along constants: each step sees one number."""
    return lax.scan(lambda y, c: (y * x + c, None), gnp.zeros_like(x), coefficients)[0]


def shifted(x):
    """What the body reads is seen through views."""
    y = x[1:]
    return lax.fori_loop(0, 3, lambda i, z: z + y * x[:-1][::-1], gnp.zeros_like(y))


def rows(x, gain):
    """A constant along one axis only, and a carry that has only one of the two."""

    def step(state, _):
        y, g = state
        return (y * g + gain, g * 0.5), g

    return lax.scan(step, (x, gain), None, length=5)


def counted(x):
    return lax.scan(lambda y, i: (y + i * gnp.arange(y.size), y * i), x, gnp.arange(6.0))


def walk(x):
    """Random steps made where they are used."""

    def step(y, key):
        return y + ga.random.normal(key, y.shape), None

    return lax.scan(step, x, ga.random.split(ga.random.key(3), 5))[0]


def reversed_sum(x):
    return lax.scan(lambda s, v: (s + v, s), gnp.zeros(x.shape[1:]), x, reverse=True)


def until(limit, x):
    return lax.while_loop(lambda s: s[0] < limit, lambda s: (s[0] * 2, s[1] * 0.5), (1.0, x))


def upto(n, x):
    return lax.fori_loop(0, n, lambda i, y: y * 0.5 + i, x)


def doubled(x):
    """Predicates along one of two axes."""

    def one(row):
        return lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * 1.5), (row[0], row))

    return ga.vmap(one)(gnp.abs(x))


def tripled(x):
    return lax.while_loop(lambda y: y < 100, lambda y: y * 3, x)


def turned(x):
    return lax.fori_loop(0, 3, lambda _, y: y + x.T, gnp.zeros(x.shape[::-1]))


def looked_up(table, y):
    """Rows of a table, found by the number of the step and by data."""

    def step(i, s):
        number = (i * 3 + 1) % 7
        return s * 0.5 + table[i] + table[-1, number % 5] * y

    return lax.fori_loop(0, 6, step, gnp.zeros_like(y))


def interpolated(times, knots):
    """Each step asks for two neighbours."""

    def step(state, t):
        k = gnp.floor(t).astype("int32")
        value = knots[k] + (t - k) * (knots[k + 1] - knots[k])
        return state + value, value

    return lax.scan(step, gnp.zeros(3), times)


PROGRAMS = {
    "mandelbrot": (mandelbrot, ((floats(9, 8, 2) * 0.7).view(np.complex64)[..., 0],)),
    "ema": (ema, (floats(30, 40),)),
    "pendulum": (pendulum, (floats(50), floats(50) * 0.1)),
    "newton": (newton, (np.abs(floats(70)) + 0.1,)),
    "collatz": (collatz, (np.arange(1, 60, dtype=np.int32),)),
    "swapped": (swapped, (np.arange(5, dtype=np.int32), np.arange(5, dtype=np.int32) * 3)),
    "between": (between, (floats(6, 7),)),
    "nested": (nested, (floats(33),)),
    "nested scan": (nested_scan, (floats(20), floats(4, 2))),
    "chosen": (chosen, (floats(12), np.int32(2))),
    "taken": (taken, (np.float32(-1), floats(12))),
    "horner": (horner, (floats(6), floats(3, 5))),
    "shifted": (shifted, (floats(17),)),
    "rows": (rows, (floats(4, 6), floats(6))),
    "counted": (counted, (floats(9),)),
    "looked up": (looked_up, (floats(6, 5), floats(5))),
    "interpolated": (interpolated, (np.linspace(-1, 9, 12, dtype="float32"), floats(8, 3))),
    "walk": (walk, (floats(11),)),
    "backwards": (reversed_sum, (floats(8, 3),)),
    "until": (until, (np.float32(50), floats(10))),
    "upto": (upto, (np.int32(6), floats(10))),
    "bfloat16": (ema, (floats(6, 8).astype(dtypes.bfloat16),)),
    "one number": (tripled, (np.float32(1),)),
    "transposed": (turned, (floats(4, 5),)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_is_one_kernel(name):
    function, arguments = PROGRAMS[name]
    e = ga.explain(function, platform="cuda")(*arguments)
    kinds = [s.kind for s in e.steps if s.name.split("_")[1] != "random"]
    assert kinds == ["loop"], e


@pytest.fixture(scope="module")
def built():
    simulated.need_compiler()
    found = {}
    with strict(True):
        for name, (function, arguments) in PROGRAMS.items():
            plan = ga.jit(function).lower(*arguments).plan
            found[name] = simulator.build(plan, [np.asarray(c) for c in plan.graph.consts])
    return found


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_computes_what_the_steps_do(name, built):
    function, arguments = PROGRAMS[name]
    expected = ga.tree.leaves(ga.jit(function)(*arguments))
    for seed in (1, 2):
        with simulator.order_drawn_from(seed):
            found = host.local.run(built[name], *arguments)
        for f, e in zip(found, map(np.asarray, expected), strict=True):
            assert (f.shape, f.dtype) == (e.shape, e.dtype)
            wide = np.complex128 if e.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(f.astype(wide), e.astype(wide), 1e-5, 1e-6)


def kernels_of(function, *arguments):
    return [emit(g) for g in ga.jit(function).lower(*arguments).plan.on_device.groups]


@nvrtc.needed
@pytest.mark.parametrize("arch", ["sm_75", "sm_100"])
def test_kernels_assemble(arch):
    texts = []
    for name, (function, arguments) in PROGRAMS.items():
        for kernel in kernels_of(function, *arguments):
            unique = f" {'_'.join(name.split())}_{kernel.name}("
            texts.append(kernel.text.replace(f" {kernel.name}(", unique))
    made = nvrtc.compiled(complete("\n".join(texts)), arch)
    assert len(made.kernels) >= len(PROGRAMS)
    assert all(r.spills == 0 for r in made.kernels.values())


# ---- what stays as it was ----


def test_steps_that_need_other_elements_stay_steps():
    x = shape("float32", 8, 8)
    for body in (
        lambda i, y: y + gnp.sum(y),  # a reduction
        lambda i, y: y @ y,  # a library routine
        lambda i, y: y[::-1] * 2,  # another element
        lambda i, y: y + y.T,
    ):
        e = ga.explain(lambda x, f=body: lax.fori_loop(0, 3, f, x), platform="cuda")(x)
        assert [s.kind for s in e.steps] == ["library"]


def test_a_condition_over_all_elements_stays_a_step():
    def f(x):
        return lax.while_loop(lambda y: gnp.any(y < 10), lambda y: y * 2, x)

    assert [s.kind for s in ga.explain(f, platform="cuda")(shape("float32", 8)).steps] == [
        "library"
    ]


def test_loops_of_no_steps_and_over_nothing_stay_steps():
    for length, x in ((0, shape("float32", 8)), (3, shape("float32", 0))):
        f = lambda x, n=length: lax.fori_loop(0, n, lambda i, y: y + i, x)
        assert all(s.kind != "loop" for s in ga.explain(f, platform="cuda")(x).steps)


def test_without_fusion_loops_stay_steps():
    with ga.fusion(False):
        e = ga.explain(mandelbrot, platform="cuda")(shape("complex64", 8))
    assert "loop" not in [s.kind for s in e.steps]


def test_numpy_runs_loops_step_by_step():
    e = ga.explain(mandelbrot)(shape("complex64", 8))
    assert [s.kind for s in e.steps] == ["library"]


# ---- what surrounds a loop ----


def test_a_reduction_after_a_loop_is_a_kernel_of_its_own():
    e = ga.explain(lambda x: gnp.sum(between(x)), platform="cuda")(shape("float32", 64, 64))
    assert [s.kind for s in e.steps] == ["loop", "rows"]
    assert "run again for each pass" in str(e)


def test_what_reads_stacked_results_is_a_kernel_of_its_own():
    e = ga.explain(lambda x: ema(x)[1] * 2, platform="cuda")(shape("float32", 16, 64))
    assert [s.kind for s in e.steps] == ["loop", "map"]
    assert "writes it on its way" in str(e)


def test_what_a_loop_goes_through_is_made_before_it():
    e = ga.explain(lambda x: ema(x * 2)[0], platform="cuda")(shape("float32", 16, 64))
    assert [s.kind for s in e.steps] == ["map", "loop"]
    assert "reads its elements step by step" in str(e)


def test_carries_nobody_needs_are_not_there():
    def f(x):
        return lax.fori_loop(0, 9, lambda i, s: (s[0] + 1, s[1] * gnp.exp(x)), (x, x))[0]

    (kernel,) = kernels_of(f, shape("float32", 32))
    assert "ga_exp" not in kernel.text and kernel.text.count("c1") == 0


def test_what_began_a_carry_that_nobody_needs_is_not_there_either():
    def f(x, y):
        step = lambda c, r: ((c[0] + r, c[1] * 2), c[0])
        return lax.scan(step, (y[0], gnp.cos(y[1])), x)[1]

    x, y = floats(4, 6), floats(2, 6)
    lowered = ga.jit(f).lower(x, y)
    assert [s.name for s in lowered.plan.device_steps] == ["k0_loop"]
    with strict(True), ga.default_device(ga.devices("simulator")[0]):
        found = np.asarray(ga.jit(f)(gnp.asarray(x), gnp.asarray(y)))
    np.testing.assert_array_equal(found, np.asarray(f(x, y)))


def test_carries_change_all_at_once():
    (kernel,) = kernels_of(swapped, *(shape("int32", 5),) * 2)
    assert "const int v1 = c1;" in kernel.text or "c0 = c1;" not in kernel.text


def test_few_elements_get_blocks_of_their_own():
    few, many = (kernels_of(mandelbrot, shape("complex64", n))[0].schedule for n in (4096, 1 << 20))
    assert (few.threads, few.grid) == (32, 128)
    assert (many.threads, many.grid) == (256, 4096)


def test_explain_shows_the_steps():
    (kernel,) = ga.explain(ema, platform="cuda")(shape("float32", 100, 64)).kernels
    assert kernel.ops == ("scan", "mul", "mul", "add")
    assert "scan(100 steps: e0 from 0.0)" in kernel.operations[0].text
    assert kernel.flops == 3 * 100 * 64
