"""Callbacks that write to memory, and hints for compilers, which are seen and change nothing."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.experimental.buffer_callback import ExecutionStage, buffer_callback
from gpuarray.experimental.compute_on import compute_on, compute_on2
from gpuarray.experimental.scheduling_groups import scheduling_group, xla_metadata_call
from gpuarray.experimental.xla_metadata import set_xla_metadata
from gpuarray.memory import Space

X = gnp.arange(4.0)
LIKE_X = ga.ShapeDtypeStruct((4,), np.float32)


def double(context, out, x):
    assert context.stage is ExecutionStage.EXECUTE
    assert out.writeable and not x.writeable and out.ndim == x.ndim
    np.asarray(out)[...] = 2 * np.from_dlpack(x)


@pytest.mark.parametrize("effect", [False, True])
def test_callbacks_write_their_results(effect):
    f = buffer_callback(double, LIKE_X, has_side_effect=effect)
    for g in (f, ga.jit(f)):
        np.testing.assert_array_equal(g(X), 2 * np.arange(4))

    def several(context, out, x, *, y):
        np.asarray(out["sum"])[...] = np.asarray(x) + np.asarray(y)
        np.asarray(out["seven"])[...] = 7

    results = {"sum": LIKE_X, "seven": ga.ShapeDtypeStruct((), np.int32)}
    found = buffer_callback(several, results, has_side_effect=effect)(X, y=X)
    assert found["seven"] == 7 and found["sum"].tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_callbacks_in_batches(method):
    def add(context, out, x, y):
        np.asarray(out)[...] = np.asarray(x) + np.asarray(y)

    f = buffer_callback(add, ga.ShapeDtypeStruct((2,), np.float32), vmap_method=method)
    x, y = np.ones((3, 2), np.float32), np.arange(2, dtype=np.float32)
    np.testing.assert_array_equal(ga.vmap(f, (0, None))(x, y), x + y)


def test_results_begin_with_operands():
    def increment(context, out, x):
        np.asarray(out)[...] += 1

    f = buffer_callback(increment, LIKE_X, input_output_aliases={0: 0})
    np.testing.assert_array_equal(f(X), np.arange(4) + 1)
    np.testing.assert_array_equal(X, np.arange(4))
    for aliases in ({1: 0}, {0: 1}):
        with pytest.raises(ValueError, match="outside the range"):
            buffer_callback(increment, LIKE_X, input_output_aliases=aliases)(X)
    with pytest.raises(ValueError, match="another shape or dtype"):
        buffer_callback(increment, LIKE_X, input_output_aliases={0: 0})(X[:2])
    with pytest.raises(ga.errors.JaxRuntimeError, match="must not return any values"):
        buffer_callback(lambda *_: 3, LIKE_X)(X).block_until_ready()


def scopes(f, *args):
    return {eqn.source_info.name_stack for eqn in ga.make_jaxpr(f)(*args).eqns}


def test_hints_are_scopes():
    def f(x):
        with compute_on("device_host"):
            return gnp.sin(x)

    assert scopes(f, 1.0) == {"compute_on=device_host"}
    np.testing.assert_array_equal(ga.jit(f)(X), gnp.sin(X))
    square = lambda x, y: (x * x, y)
    placed = compute_on2(square, compute_type="device", out_memory_spaces=Space.Device)
    assert [x.tolist() for x in ga.jit(placed)(X, X)] == [[0, 1, 4, 9], [0, 1, 2, 3]]
    grouped = scheduling_group("g")(lambda x: 3 * x)
    assert scopes(grouped, 1.0) == {"scheduling_group=g"} and ga.grad(grouped)(1.0) == 3
    noted = set_xla_metadata(a=1, b="c")(ga.jit(lambda x: 3 * x))
    assert scopes(noted, 1.0) == {"a=1,b=c"} and noted.lower(X).compile()(X)[1] == 3
    assert set_xla_metadata({"x": 2.0}, a=1)["x"] == 2 and noted.__name__ == "<lambda>"


def test_hints_that_are_none():
    with pytest.raises(TypeError, match="must be a string"):
        compute_on(3)
    with pytest.raises(ValueError, match="Invalid compute type gpu"):
        compute_on("gpu")
    with pytest.raises(ValueError, match="tree prefix"):
        compute_on2(lambda x: x, compute_type="device", out_memory_spaces=(Space.Device,) * 2)(X)
    with pytest.raises(TypeError, match="a str for stage"):
        xla_metadata_call(lambda x: x, stage=3)
    assert xla_metadata_call(stage="a")(lambda x: x)(2.0) == 2


def test_callbacks_have_no_stream():
    seen = []

    def callback(context, out, x):
        with pytest.raises(ga.errors.JaxRuntimeError, match="GPU context is not available"):
            context.stream
        seen.append(x.shape)
        np.asarray(out)[...] = np.asarray(x)

    f = buffer_callback(callback, ga.ShapeDtypeStruct((3,), np.float32))
    assert f(gnp.arange(3.0)).tolist() == [0, 1, 2] and seen == [(3,)]
