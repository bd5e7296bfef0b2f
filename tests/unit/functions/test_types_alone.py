"""Functions that look at types alone, what stages say of arguments, values that leave a trace."""

import copy
import gc
import warnings
import weakref
from functools import partial, wraps
from types import SimpleNamespace

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax


class Likeness:
    """Something with a shape and a dtype, and no data."""

    def __init__(self, *shape, dtype="float32"):
        self.shape, self.dtype = shape, np.dtype(dtype)


class Description(dict):
    """A dict by type, a leaf to pytrees, and with the attributes of an array."""

    def __init__(self, **entries):
        super().__init__(entries)
        self.__dict__ = self


LIKENESSES = {
    "object": Likeness(3),
    "namespace": SimpleNamespace(shape=(3,), dtype=np.dtype("float32")),
    "dict": Description(shape=(3,), dtype=np.dtype("float32")),
    "struct": ga.ShapeDtypeStruct((3,), "float32"),
    "aval": ga.core.ShapedArray((3,), "float32"),
    "list for a shape": SimpleNamespace(shape=[3], dtype="float32"),
}
LOOKS = {
    "eval_shape": lambda x: ga.eval_shape(gnp.sin, x).shape,
    "make_jaxpr": lambda x: ga.make_jaxpr(gnp.sin)(x).out_avals[0].shape,
    "lower": lambda x: ga.jit(gnp.sin).lower(x).out_info.shape,
    "trace": lambda x: ga.jit(gnp.sin).trace(x).out_info.shape,
    "linear_transpose": lambda x: ga.linear_transpose(lambda y: 2 * y, x)(gnp.ones(3))[0].shape,
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("given", LIKENESSES)
def test_shape_and_dtype_are_enough(look, given):
    assert LOOKS[look](LIKENESSES[given]) == (3,)


@pytest.mark.parametrize("x64", [False, True])
def test_wide_types_narrow_where_arrays_of_them_would(x64):
    """What a program says of its result is the dtype that the result has."""
    wide = ga.ShapeDtypeStruct((3,), "float64")
    assert wide.dtype == np.float64  # as it was stated
    with ga.enable_x64(x64):
        found = gnp.sin(np.ones(3)).dtype
        for given in (wide, Likeness(3, dtype="float64")):
            assert ga.eval_shape(gnp.sin, given).dtype == found
            assert ga.make_jaxpr(gnp.sin)(given).out_avals[0].dtype == found
            assert ga.jit(gnp.sin).lower(given).out_info.dtype == found
            back = ga.linear_transpose(lambda x: 2 * x, given)(gnp.ones(3))[0]
            assert back.dtype == found


@pytest.mark.parametrize("given", LIKENESSES)
def test_they_are_no_values(given):
    for use in (ga.jit(gnp.sin), ga.grad(lambda x: x), gnp.sin):
        with pytest.raises(TypeError):
            use(LIKENESSES[given])


@pytest.mark.parametrize("x", [SimpleNamespace(shape=3), Likeness(2.5), object(), "text"])
def test_other_objects_are_refused(x):
    with pytest.raises(TypeError):
        ga.eval_shape(lambda x: x, x)


# ---- what stages say ----


@pytest.mark.parametrize("options", [{"donate_argnums": (1,)}, {"donate_argnames": "y"}])
def test_arguments_know_whether_they_are_donated(options):
    f = ga.jit(lambda x, y: (x["a"], y["b"]), **options)
    given = {"a": gnp.ones(2)}, {"b": gnp.arange(3)}
    for lowered in (f.lower(*given), f.trace(*given)):
        (x, y), named = lowered.args_info
        assert (x["a"].donated, y["b"].donated, named) == (False, True, {})
        assert (y["b"].shape, y["b"].dtype) == ((3,), np.int32)
    _, named = f.lower(x=given[0], y=given[1]).args_info
    assert named["y"]["b"].donated and not named["x"]["a"].donated


def test_donated_memory_that_fits_no_result_is_warned_of():
    x, y = gnp.ones(2), gnp.arange(2)
    with pytest.warns(UserWarning, match=r"Some donated buffers were not usable: .*int32\[2\]"):
        ga.jit(lambda x, y: x + y.sum(), donate_argnums=(0, 1))(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # One that nobody reads stays, and one that fits is used.
        ga.jit(lambda x, y: x + 1.0, donate_argnums=(0, 1))(gnp.ones(2), gnp.arange(2))
    with pytest.warns(UserWarning, match="not usable: float32"):
        ga.jit(lambda x: x[:1], donate_argnums=0).lower(gnp.ones(2))


@pytest.mark.parametrize("name", ["a", "args"])
@pytest.mark.parametrize("option", ["static_argnames", "donate_argnames"])
def test_names_that_no_call_can_give(name, option):
    def f(a, /, b, *args, **kwargs):
        return b

    assert ga.jit(f, **{option: ("b", "other")})
    with pytest.raises(ValueError, match=f"invalid argname .*{name}"):
        ga.jit(f, **{option: (name, "b")})


def test_a_wrapper_may_take_other_arguments_than_what_it_wraps():
    def adding(fun):
        @wraps(fun)
        def call(x, extra):
            return fun(x) + extra

        return call

    assert ga.jit(adding(lambda x: 2 * x))(3, 4) == 10
    assert ga.jit(ga.jit(adding(lambda x: 2 * x)))(3, extra=4) == 10


def test_staticmethods_are_refused():
    with pytest.raises(TypeError, match="staticmethod arguments are not supported"):
        ga.jit(staticmethod(lambda x: x))


def test_results_that_are_no_arrays_are_named_by_their_place():
    def f(x):
        return 2.0, {"b": f}

    with pytest.raises(TypeError, match=r"function f at .* at output component \[1\]\['b'\]"):
        ga.eval_shape(f, 1)


# ---- derivatives as pytrees ----


@pytest.mark.parametrize("make", [lambda f, x: ga.linearize(f, x)[1], lambda f, x: ga.vjp(f, x)[1]])
def test_linear_functions_are_pytrees_that_jit_knows_again(make):
    traced = []

    @ga.jit
    def apply(linear, t):
        traced.append(t)
        return linear(t)

    f = lambda x: gnp.sin(x) * 2.0
    for x in (0.0, 1.0):
        got = apply(ga.jit(partial(make, f))(gnp.float32(x)), gnp.float32(3.0))
        (got,) = ga.tree.leaves(got)
        assert abs(float(got) - 6.0 * np.cos(x)) < 1e-6
    assert len(traced) == 1
    pushed = ga.tree.map(lambda leaf: leaf, make(f, gnp.float32(0.5)))
    (got,) = ga.tree.leaves(pushed(gnp.float32(1.0)))
    assert abs(float(got) - 2.0 * np.cos(0.5)) < 1e-6


def test_a_pullback_takes_one_cotangent():
    def pair(x):
        return x, x

    with pytest.raises(TypeError, match="applied to pair was called with 2 arguments"):
        ga.vjp(pair, 1.0)[1](1.0, 1.0)


# ---- traced values ----


def test_traced_values_can_be_copied_and_referred_to_weakly():
    seen = []

    def f(x):
        seen.append(weakref.ref(x))
        assert copy.copy(x) is x and copy.deepcopy({"x": [x]})["x"][0] is x
        return copy.deepcopy(x) + 1

    for wrap in (ga.jit, ga.vmap, ga.grad):
        assert wrap(f)(gnp.ones(3) if wrap is ga.vmap else 1.0) is not None
    gc.collect()
    assert all(ref() is None for ref in seen)


def test_traced_values_that_leave_are_refused_by_everything_that_runs():
    kept = []
    ga.jit(lambda x: kept.append(x) or x)(1.0)
    for use in (
        ga.jit(lambda x: x),
        lambda x: ga.jit(lambda y, x: x + y)(1.0, x),
        lambda x: x + 1,
        lambda x: ga.jit(lambda: x + 1)(),
        ga.jit(lambda x: x).lower(1.0).compile(),
        lambda x: lax.scan(lambda c, _: (c + x, None), 0.0, None, 2),
    ):
        with pytest.raises(ga.errors.UnexpectedTracerError, match="unexpected tracer"):
            use(kept[0])


def test_compiled_functions_are_not_transformed():
    compiled = ga.jit(lambda x: x).lower(1.0).compile()
    with pytest.raises(TypeError, match="Cannot apply JAX transformations to a function lowered"):
        ga.vmap(compiled)(gnp.ones(3))


# ---- what vmap says ----


def test_messages_of_vmap():
    f = lambda x, y: x
    with pytest.raises(ValueError, match="vmap got inconsistent sizes for array axes to be mapped"):
        ga.vmap(f)(gnp.ones(2), gnp.ones(3))
    with pytest.raises(ValueError, match="must be passed at least one argument containing an arr"):
        ga.vmap(lambda x: x)({})
    with pytest.raises(ValueError, match="mapped output .axis_name=n. but out_axes is None"):
        ga.vmap(lambda x: x, out_axes=None, axis_name="n")(gnp.ones(2))
    with pytest.raises(ValueError, match="(?s)must be a tree prefix of the .*details .2 found."):
        ga.vmap(f, in_axes=({"a": (0,), "b": (0,)}, 0))({"a": [1.0], "b": [2.0]}, gnp.ones(2))
