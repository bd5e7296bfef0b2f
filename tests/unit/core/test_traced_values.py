"""What traced values let Python do, tracers that escape, and the types of derivatives."""

import pickle

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax

ERRORS = ga.errors


@pytest.mark.parametrize("wrap", [ga.grad, ga.jit, lambda f: lambda x: ga.jvp(f, (x,), (x,))])
def test_a_traced_value_is_no_float(wrap):
    with pytest.raises(ERRORS.ConcretizationTypeError, match="`float` function"):
        wrap(lambda x: x * float(x))(1.0)


@pytest.mark.parametrize("wrap", [ga.jit, ga.vmap, lambda f: lambda x: ga.jvp(f, (x,), (x,))[0]])
def test_a_traced_value_has_the_methods_of_arrays(wrap):
    tracers = []
    wrap(lambda x: tracers.append(x) or x)(gnp.ones((3, 2)))
    methods = [n for n in dir(ga.Array) if not n.startswith("_") and callable(getattr(ga.Array, n))]
    assert "var" in methods
    assert [name for name in methods if not callable(getattr(tracers[0], name))] == []


@pytest.mark.parametrize("wrap", [ga.jit, ga.grad])
def test_a_traced_value_is_formatted_without_its_number(wrap):
    texts = []
    wrap(lambda x: texts.append(f"{x}") or x)(2.0)
    assert "Tracer" in texts[0]
    with pytest.raises(TypeError, match="unsupported format string passed to .*debug.print"):
        wrap(lambda x: texts.append(f"{x:.2f}") or x)(2.0)


def test_what_loses_no_derivative_works_outside_jit():
    f = lambda x: x * int(x) * x.item() * (1 if x > 0 else 2) * [1.0, 3.0][gnp.int32(x) - 1]
    assert float(ga.grad(f)(2.0)) == 12.0


@pytest.mark.parametrize("name", ["devices", "delete", "is_deleted", "tobytes", "addressable_data"])
def test_a_traced_value_has_no_memory(name):
    with pytest.raises(ERRORS.ConcretizationTypeError, match=rf"The {name}\(\) method"):
        ga.jit(lambda x: getattr(x, name)())(1.0)


@pytest.mark.parametrize(
    "wrap", [ga.jit, ga.vmap, ga.grad, lambda f: lambda x: ga.jvp(f, (x,), (x,))]
)
@pytest.mark.parametrize("use", [lambda v: v + 1, gnp.sin, lambda v: ga.jit(lambda y: y * v)(2.0)])
def test_an_escaped_tracer_says_so(wrap, use):
    box = []
    wrap(lambda x: (box.append(x * 1), x.sum())[1])(gnp.ones(2) if wrap is ga.vmap else 1.0)
    with pytest.raises(ERRORS.UnexpectedTracerError, match="escaped the scope"):
        use(box[0])


def test_weak_types_of_derivatives():
    assert ga.jacfwd(lambda x: x**2)(2.0).weak_type
    assert ga.hessian(lambda p: p["a"] ** 2 * p["b"])({"a": 2.0, "b": 3.0})["a"]["b"].weak_type
    assert not ga.jacrev(lambda x: x**2)(gnp.ones(2)).weak_type
    assert not ga.grad(lambda z: (z * z).real)(1 + 2j).weak_type
    loop = lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c), 0.0, x)[1].sum()
    assert not ga.grad(loop)(gnp.ones(3)).weak_type
    assert str(ga.typeof(2.0)) == "~float32[]" and str(ga.typeof(gnp.ones(2))) == "float32[2]"


def test_integers_have_a_jacobian_of_zeros():
    jac, other = ga.jacfwd(lambda x: (x.astype(int), x * 2))(gnp.ones(2))
    assert jac.dtype == "int32" and jac.tolist() == [[0, 0], [0, 0]]
    assert other.tolist() == [[2, 0], [0, 2]]


def test_weak_carries_become_what_comes_out():
    for total in (
        lax.scan(lambda c, x: (c + 1.5, x), 0, gnp.ones(3))[0],
        lax.fori_loop(0, 3, lambda i, c: c + 0.5, 0),
        lax.while_loop(lambda c: c < 3, lambda c: c + 0.5, 0),
        lax.fori_loop(0, 3, lambda i, c: (c[1], c[0]), (1, 2.0))[0],
    ):
        assert total.dtype == "float32" and not total.weak_type
    assert lax.fori_loop(0, 3, lambda i, c: c + i, 0).weak_type
    with pytest.raises(TypeError, match="must have equal types, got int32 and uint8"):
        lax.fori_loop(0, gnp.uint8(3), lambda i, c: c, 0)


def test_errors_of_derivatives():
    f = lambda x, y: x * y
    with pytest.raises(TypeError, match="requires at least 3 positional"):
        ga.grad(f, argnums=2)(1.0, 2.0)
    with pytest.raises(ValueError, match="requires at least 3 positional"):
        ga.jacfwd(f, argnums=2)(1.0, 2.0)
    with pytest.raises(TypeError, match="jacfwd requires real-valued inputs"):
        ga.jacfwd(lambda x: x**2)(gnp.ones(2, complex))
    with pytest.raises(TypeError, match="jacrev requires real-valued outputs"):
        ga.jacrev(lambda x: x + 0j)(gnp.ones(2))
    with pytest.raises(ValueError, match="linearized function"):
        ga.linearize(lambda x: x, 2.0)[1](1)
    with pytest.raises(TypeError, match="integer -> integer functions"):
        ga.linear_transpose(lambda x: x.astype(float), gnp.arange(3))
    assert ga.linear_transpose(lambda x: 2 * x, gnp.arange(3))(gnp.arange(3))[0].tolist() == [
        0,
        2,
        4,
    ]


def test_structures():
    assert ga.jvp(lambda x: (x, 2 * x), (1.0,), (1.0,), has_aux=True)[:2] == (1.0, 1.0)
    a, b = ga.vmap(lambda x: [x, x], out_axes=[0, 1])(gnp.ones((3, 2)))
    assert (a.shape, b.shape) == ((3, 2), (2, 3))
    with pytest.raises(ValueError, match="different types"):
        ga.vmap(lambda x: (x, x), out_axes=[0, 1])(gnp.ones((3, 2)))
    f = ga.custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (f(x), None), lambda _, g: g)
    with pytest.raises(TypeError, match="must produce a tuple"):
        ga.grad(f)(2.0)


def test_products_differentiate_without_an_extra_transpose():
    graph = ga.make_jaxpr(ga.grad(lambda x, y: (x @ y).sum(), argnums=1))(
        gnp.ones((2, 3)), gnp.ones((3, 4))
    )
    assert [e.primitive.name for e in graph.eqns].count("transpose") == 1
    x, y = np.ones((5, 2, 3), "float32"), np.arange(60, dtype="float32").reshape(5, 3, 4)
    both = ga.grad(lambda x, y: gnp.einsum("bij,bjk->ik", x, y).sum(), argnums=(0, 1))(x, y)
    np.testing.assert_allclose(both[0], np.broadcast_to(y.sum(2)[:, None], x.shape))
    np.testing.assert_allclose(both[1], np.full(y.shape, 2.0))


@pytest.mark.parametrize(
    "name", ["committed", "addressable_shards", "is_fully_addressable", "is_fully_replicated"]
)
def test_a_traced_value_is_on_no_device(name):
    with pytest.raises(ERRORS.ConcretizationTypeError, match=f"The {name} property"):
        ga.jit(lambda x: getattr(x, name))(1.0)
    for wrap in (ga.jit, ga.grad):
        for other in ("sharding", "device"):
            with pytest.raises(AttributeError, match=f"has no attribute {other}"):
                wrap(lambda x, other=other: getattr(x, other))(1.0)


def test_the_class_names_what_an_array_has():
    x = gnp.ones(2)
    assert all(hasattr(ga.Array, name) for name in ("item", "sharding", "to_device", "committed"))
    assert ga.jit(lambda x: x.to_device(ga.devices()[0]))(x).shape == (2,)
    assert x.on_device_size_in_bytes() == 8


def test_a_traced_value_or_a_key_stays_what_it_is():
    assert ga.jit(lambda x: ga.device_get(x) + 1)(1.0) == 2
    assert ga.device_get(ga.random.key(3)).dtype == ga.random.key(3).dtype


def test_a_platform_that_is_none():
    for ask in (ga.live_arrays, ga.process_count, ga.process_index, ga.process_indices):
        with pytest.raises(RuntimeError, match="Unknown backend nonsense"):
            ask("nonsense")


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.parametrize("f", [lambda x: x * x, lambda x: x / x, lambda x: gnp.vdot(x, x)])
def test_what_is_not_linear_is_not_transposed(f, size, wrap):
    x = gnp.ones(size)
    with pytest.raises(TypeError, match="cannot transpose a function that is not linear"):
        wrap(lambda ct: ga.linear_transpose(f, x)(ct))(f(x))


def test_equal_arrays_of_numpy_are_one_constant():
    table = np.arange(3, dtype="float32")
    graph = ga.make_jaxpr(lambda: (table, gnp.sum(table), gnp.asarray(table) * 2))()
    assert len(graph.consts) == 1

    # By content: what is written in between counts, and so do shape and dtype.
    def f(x):
        buffer = np.zeros(2, "float32")
        for i in range(3):
            buffer[0] = i
            x = x + buffer
        return x, gnp.asarray(buffer), buffer.astype("int32"), np.zeros((0, 2), "float32")

    assert len(ga.make_jaxpr(f)(gnp.float32(1)).consts) == 5
    np.testing.assert_array_equal(ga.jit(f)(1.0)[0], [4.0, 4.0 - 3.0])
    assert str(ga.make_jaxpr(lambda: np.zeros(2, ga.dtypes.float0))()).count("[...]:float0[2]") == 1


def test_traced_values_are_not_pickled():
    for transform in (ga.jit, ga.vmap, ga.grad):
        with pytest.raises(ga.errors.ConcretizationTypeError, match="__reduce__"):
            transform(lambda x: pickle.dumps(x) and x)(gnp.ones(3) if transform is ga.vmap else 1.0)


def test_pickles_follow_x64():
    with ga.enable_x64(True):
        text = pickle.dumps(gnp.array(4.0, "float64"))
        assert pickle.loads(text).dtype == "float64"
    assert pickle.loads(text).dtype == "float32"


def test_memory_spaces_of_types():
    kind = np.dtype("float32")
    aval = ga.typeof(gnp.ones(2, kind))
    assert type(aval)((2,), kind, memory_space=ga.memory.Space.Device) == aval
    host = type(aval)((2,), kind, memory_space=ga.memory.Space.Host)
    assert (str(host), host.update(shape=(3,)).str_short(True)) == (
        "float32<host>[2]",
        "f32<host>[3]",
    )
    assert host.update(memory_space=ga.memory.Space.Device) is aval
    assert pickle.loads(pickle.dumps(host)) is host
    for wrong in (ga.memory.Space.Any, "host"):
        with pytest.raises(ValueError, match="memory_space=.* is not known"):
            type(aval)((2,), kind, memory_space=wrong)
        with pytest.raises(ValueError, match="memory_space=.* is not known"):
            aval.update(memory_space=wrong)


def test_a_traced_unroll():
    with pytest.raises(ga.errors.ConcretizationTypeError, match="The `unroll` argument"):
        ga.jit(lambda n: lax.scan(lambda c, x: (c, x), 0.0, gnp.ones(3), unroll=n))(2)
