"""What is logged when a function is traced, and why, in the words that users of JAX look for."""

import logging

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.extend.core import Primitive


@pytest.fixture
def explained(caplog):
    with caplog.at_level(logging.WARNING, "gpuarray"), ga.explain_cache_misses(True):
        yield lambda: [record.getMessage() for record in caplog.records]


def test_the_first_call_and_no_other(explained):
    f = ga.jit(lambda x: x)
    f(gnp.ones(3))
    f(gnp.ones(3))
    (line,) = explained()
    assert line.startswith("TRACING CACHE MISS at test_misses.py:")
    assert "because: never seen function: <lambda> at " in line


F32 = np.float32


@pytest.mark.parametrize(
    "before, now, words",
    [
        ((F32(0), F32(1)), (F32(0), np.int32(1)), "at y, now i32[] and before f32[]"),
        (
            (F32(0), np.ones(1, "f4")),
            (F32(0), np.ones(2, "f4")),
            "different input types; at y, now f32[2] and before f32[1]",
        ),
        (
            (F32(0), F32(1)),
            (0.0, F32(1)),
            "at x, now f32[]{weak_type=True} and before f32[]{weak_type=False}. A Python number",
        ),
        ((1.0, (2.0, 3.0)), (1.0, [2.0, 3.0]), "different input pytree: now PyTreeDef"),
    ],
)
def test_what_differs_is_named(explained, before, now, words):
    f = ga.jit(lambda x, y: x)
    with ga.explain_cache_misses(False):
        f(*before)
    f(*now)
    (line,) = explained()
    assert words in line


def test_settings_and_static_arguments(explained):
    f = ga.jit(lambda x, n: x * n, static_argnums=1)
    with ga.explain_cache_misses(False):
        f(1.0, 2)
    with ga.default_matmul_precision("high"), ga.numpy_rank_promotion("warn"):
        f(1.0, 2)
    f(1.0, 3)
    setting, static = explained()
    assert "different tracing context; " in setting
    assert "default_matmul_precision: now high and before" in setting
    assert "numpy_rank_promotion: now warn and before allow" in setting
    assert "different static arguments: now {1: 3} and before {1: 2}" in static


def test_functions_made_anew_in_a_loop(explained):
    for _ in range(2):
        ga.jit(lambda x: 2 * x)(3)
    first, second = explained()
    assert "defined on the same line" not in first
    assert "seen another function defined on the same line" in second


def test_functions_inside_of_the_library_are_not_explained(explained):
    for n in (1, 2):
        gnp.sin(gnp.arange(n, dtype=gnp.float32))
        gnp.linalg.norm(gnp.ones(n))
    assert not explained()


def test_traces_are_logged_for_debuggers(caplog):
    f = ga.jit(lambda x: x * 2)
    with caplog.at_level(logging.DEBUG, "gpuarray"):
        f(3.0)
    assert any("Finished tracing <lambda> for jit in " in r.getMessage() for r in caplog.records)
    assert {r.levelno for r in caplog.records} == {logging.DEBUG}


def test_a_function_is_traced_once_inside_and_outside_of_another():
    traced = []

    @ga.jit
    def inner(x):
        traced.append(x)
        return 2 * x

    ga.jit(lambda x: inner(inner(x)) + x)(gnp.arange(5))
    assert inner(gnp.arange(5)).tolist() == [0, 2, 4, 6, 8]
    assert len(traced) == 1
    # Along a named axis a collective means something else: it is traced for that axis.
    ga.vmap(inner, axis_name="i")(gnp.arange(5).reshape(1, 5))
    assert len(traced) == 2


def test_static_arguments_that_cannot_be_compared():
    class Odd:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise NotImplementedError("no comparison")

    f = ga.jit(lambda x, _: x, static_argnums=1)
    f(1, Odd())
    with pytest.raises(ValueError, match="static arguments should be comparable using __eq__"):
        f(1, Odd())


def test_objects_with_jax_array_are_no_arguments():
    class Holder:
        def __jax_array__(self):
            return gnp.arange(4)

    with pytest.raises(ValueError, match=r"Triggering __jax_array__\(\) during abstractification"):
        ga.jit(lambda x: x)(Holder())


# 1 == 1.0 == True and 0.0 == -0.0, but programs made for them differ.
EQUAL = [1, True, 1.0, np.int8(1), (1 + 0j)]
ZEROS = [0.0, -0.0, np.float32(0.0), np.float32(-0.0), np.float64(-0.0)]


def _jitted(f):
    return ga.jit(f, static_argnums=0)


def _jitted_by_name(f):
    g = ga.jit(f, static_argnames="n")
    return lambda n, x: g(n=n, x=x)


def _nested(f):
    g = ga.jit(lambda n, x: f(n[0][0], x), static_argnums=0)
    return lambda n, x: g(((n,), 2), x)


def _over_devices(f):
    g = ga.pmap(f, static_broadcasted_argnums=0)
    return lambda n, x: g(n, x[None])[0]


def _checkpointed(f):
    return ga.checkpoint(f, static_argnums=0)


def _composite(f):
    g = ga.lax.composite(lambda x, *, n: f(n, x), "my.function")
    return lambda n, x: g(x, n=n)


def _primitive(f):
    prim = Primitive("by_number")
    prim.def_impl(lambda x, *, n: np.asarray(f(n, x)))
    prim.def_abstract_eval(lambda x, *, n: ga.typeof(f(n, gnp.ones(x.shape, x.dtype))))
    return lambda n, x: prim.bind(x, n=n)


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
@pytest.mark.parametrize(
    "wrap",
    [_jitted, _jitted_by_name, _nested, _over_devices, _checkpointed, _composite, _primitive],
)
def test_equal_numbers_of_other_types_are_other_arguments(wrap):
    f = lambda n, x: x * n
    g = wrap(f)
    x = gnp.ones(2, gnp.int32)
    for n in (*EQUAL, *EQUAL):
        found = g(n, x)
        assert (found.dtype, found.tolist()) == (f(n, x).dtype, f(n, x).tolist()), n
    for n in (*ZEROS, *ZEROS):
        signs = np.signbit(np.asarray(g(n, gnp.ones(2))))
        assert signs.tolist() == [bool(np.signbit(n))] * 2, n
