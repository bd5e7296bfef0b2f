"""What was given is never seen to change: every door through which host memory comes in and goes
out.

A door is called with a NumPy array, the array is written to at once, and again before the result
is read, and again between two reads. The result has to be that of the array as it was given. In
the other direction, nothing that leaves (to a callback, to NumPy, through a protocol) may be a
writable alias of an array's memory.
"""

import ctypes
import operator
import pickle
import sys
import types
from collections.abc import Hashable

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental import io_callback
from gpuarray.extend.core import Primitive

SIZES = (3, 100_000)
S = ga.ShapeDtypeStruct


def like(a):
    return S(a.shape, a.dtype)


def double(x):
    return x * 2


def same(x):
    return x


def with_rule(f):
    """A custom_jvp whose rule is that of the identity."""
    f = ga.custom_jvp(f)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    return f


def with_pullback(f):
    """A custom_vjp that keeps its argument for the way back."""
    f = ga.custom_vjp(f)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (2 * x * ct,))
    return f


def for_many(f):
    f = ga.custom_batching.custom_vmap(f)
    f.def_vmap(lambda size, batched, x: (x, True))
    return f


def after_pending(function):
    """The function behind work that is not done yet, in the same flush."""

    def run(a):
        pending = gnp.zeros(a.shape, a.dtype) + 1
        return function(a), pending

    return run


def total(f):
    return lambda x: f(x).sum()


def through_ref(a):
    ref = ga.new_ref(a)
    return ref[...]


def written_to_ref(a):
    ref = ga.new_ref(gnp.zeros(a.shape, a.dtype))
    ref[...] = a
    return ga.freeze(ref)


class Holder:
    """An object that becomes an array."""

    def __init__(self, a):
        self.a = a

    def __jax_array__(self):
        return gnp.asarray(self.a)


INSIDE = {  # functions of an array, which are put into every transformation below
    "add": lambda x: lax.add(x, np.float32(1)),
    "reshape": lambda x: lax.reshape(x, (1, *x.shape)),
    "transpose": lambda x: lax.transpose(x, range(x.ndim)),
    "slice": lambda x: lax.slice_in_dim(x, 0, 2),
    "reverse twice": lambda x: lax.rev(lax.rev(x, (0,)), (0,)),
    "broadcast": lambda x: lax.broadcast(x, (2,)),
    "squeeze": lambda x: lax.squeeze(lax.expand_dims(x, (0,)), (0,)),
    "real": gnp.real,
    "convert": lambda x: lax.convert_element_type(x, x.dtype),
    "bitcast": lambda x: lax.bitcast_convert_type(x, np.int32),
    "barrier": lambda x: lax.optimization_barrier(x),
    "stop_gradient": lax.stop_gradient,
    "copy": lambda x: gnp.copy(x),
    "take": lambda x: lax.dynamic_slice(x, (0,), (2,)),
    "pad": lambda x: lax.pad(x, np.float32(0), [(0, 0, 0)]),
    "concatenate": lambda x: lax.concatenate([x], 0),
    "sum": lambda x: lax.reduce(x, np.float32(0), lax.add, ()),
    "cumsum": lambda x: lax.cumsum(x, 0),
    "dot": lambda x: lax.dot(x, x),
    "sort": lambda x: lax.sort(x),
    "select": lambda x: lax.select(np.ones(x.shape, bool), x, x),
}

TRANSFORMS = {
    "eager": same,
    "jit": ga.jit,
    "vmap": lambda f: ga.vmap(f, in_axes=None, out_axes=None, axis_size=1),
    "jvp": lambda f: lambda a: ga.jvp(f, (a,), (a,)),
    "linearize": lambda f: lambda a: ga.linearize(f, a)[0],
    "vjp": lambda f: lambda a: ga.vjp(f, a)[0],
    "checkpoint": ga.checkpoint,
    "jit of vmap": lambda f: ga.jit(ga.vmap(f, in_axes=None, out_axes=None, axis_size=1)),
    "cond": lambda f: lambda a: lax.cond(True, f, f, a),
    "custom_jvp": with_rule,
    "custom_vjp": with_pullback,
    "disabled jit": lambda f: ga.jit(lambda x: gnp.asarray(f(x))),
    "compiled": lambda f: lambda a: ga.jit(f).lower(a).compile()(a),
}

DOORS = {
    # ---- making arrays ----
    "asarray": gnp.asarray,
    "array": gnp.array,
    "array(copy=False)": lambda a: gnp.array(a, copy=False),
    "asarray, same dtype": lambda a: gnp.asarray(a, a.dtype),
    "array of lists": lambda a: gnp.array([a, a]),
    "memoryview": lambda a: gnp.asarray(memoryview(a)),
    "frombuffer": lambda a: gnp.frombuffer(memoryview(a), a.dtype),
    "from_dlpack": gnp.from_dlpack,
    "__jax_array__": lambda a: gnp.asarray(Holder(a)),
    "device_put": ga.device_put,
    "device_put(device)": lambda a: ga.device_put(a, ga.devices()[0]),
    "device_put(may_alias)": lambda a: ga.device_put(a, may_alias=True),
    "device_put(donate)": lambda a: ga.device_put(a, donate=True),
    "full": lambda a: gnp.full(a.shape, a),
    "full_like": lambda a: gnp.full_like(a, a),
    "new_ref": through_ref,
    "ref[...] =": written_to_ref,
    # ---- functions of arrays ----
    "x + a": lambda a: gnp.ones(a.shape, a.dtype) + a,
    "a + x": lambda a: a + gnp.ones(a.shape, a.dtype),
    "np.add": lambda a: np.add(a, gnp.ones(a.shape, a.dtype)),
    "gnp.add": lambda a: gnp.add(a, a),
    "lax.add": lambda a: lax.add(a, a),
    "where": lambda a: gnp.where(a > -1, a, a),
    "at[].set": lambda a: gnp.zeros(a.shape, a.dtype).at[:].set(a),
    "at[a].add": lambda a: gnp.zeros(a.shape, a.dtype).at[a.astype(np.int32) % 3].add(a),
    "x[a]": lambda a: gnp.arange(9.0)[a.astype(np.int32) % 9],
    "take": lambda a: gnp.take(a, np.arange(2)),
    "atleast_2d": gnp.atleast_2d,
    "broadcast_to": lambda a: gnp.broadcast_to(a, (2, *a.shape)),
    "ravel": gnp.ravel,
    "split": lambda a: gnp.split(a, [1]),
    "stack": lambda a: gnp.stack([a]),
    "astype": lambda a: gnp.astype(a, a.dtype),
    "tree.map": lambda a: ga.tree.map(gnp.add, {"a": a}, {"a": a}),
    "ufunc.at": lambda a: gnp.add.at(a, np.arange(2), 1, inplace=False),
    # ---- transformations ----
    "vmap": lambda a: ga.vmap(lambda x: x + 1)(a),
    "vmap identity": lambda a: ga.vmap(same)(a),
    "vmap, not mapped": lambda a: ga.vmap(lambda x, y: (x, y), (None, 0), (None, 0))(a, a),
    "vmap, one of two": lambda a: ga.vmap(lambda x, y: x + y, (0, None))(a[:3].copy(), a),
    "grad": lambda a: ga.grad(lambda x: (x**3).sum())(a),
    "grad of another": lambda a: ga.grad(lambda s, x: (s * s * x).sum())(2.0, a),
    "value_and_grad": lambda a: ga.value_and_grad(lambda x: (x**3).sum())(a),
    "grad, aux": lambda a: ga.grad(lambda x: ((x**2).sum(), x), has_aux=True)(a),
    "grad of custom_vjp": lambda a: ga.grad(total(with_pullback(double)))(a),
    "jvp": lambda a: ga.jvp(lambda x: x * x, (a,), (np.ones_like(a),)),
    "jvp identity": lambda a: ga.jvp(same, (a,), (a,)),
    "jvp constant": lambda a: ga.jvp(lambda x: a, (1.0,), (1.0,)),
    "jvp, aux": lambda a: ga.jvp(lambda x: (x * 2, x), (a,), (a,), has_aux=True),
    "vjp": lambda a: ga.vjp(lambda x: x**3, a)[0],
    "vjp identity": lambda a: ga.vjp(same, a)[0],
    "vjp, cotangent": lambda a: ga.vjp(same, gnp.ones(a.shape, a.dtype))[1](a),
    "linearize": lambda a: ga.linearize(lambda x: x**3, a)[0],
    "linearize, tangent": lambda a: ga.linearize(same, gnp.ones(a.shape, a.dtype))[1](a),
    "linear_transpose": lambda a: ga.linear_transpose(same, a)(a),
    "jacfwd": lambda a: ga.jacfwd(lambda s, x: s * s * x)(2.0, a),
    "jacrev": lambda a: ga.jacrev(lambda x, y: (x * x).sum() * y[:2])(a, a),
    "hessian": lambda a: ga.hessian(lambda s, x: (s**3 * x).sum())(2.0, a),
    "checkpoint": lambda a: ga.checkpoint(lambda x: x + 1)(a),
    "grad of checkpoint": lambda a: ga.grad(total(ga.checkpoint(lambda x: x**3)))(a),
    "custom_jvp": lambda a: with_rule(double)(a),
    "custom_vjp": lambda a: with_pullback(double)(a),
    "custom_jvp identity": lambda a: with_rule(same)(a),
    "custom_vjp identity": lambda a: with_pullback(same)(a),
    "custom_vmap": lambda a: for_many(lambda x: x + 1)(a),
    "custom_vmap identity": lambda a: for_many(same)(a),
    "vmap of custom_vmap": lambda a: ga.vmap(for_many(same))(a),
    "jit": lambda a: ga.jit(lambda x: x + 1)(a),
    "jit, donated": lambda a: ga.jit(lambda x: x + 1, donate_argnums=0)(a),
    "closed over by jit": lambda a: ga.jit(lambda: lax.add(a, a))(),
    "returned by jit": lambda a: ga.jit(lambda: a)(),
    "closed over by vmap": lambda a: ga.vmap(lambda s: s * a)(np.ones(2, "f")),
    "closed over by grad": lambda a: ga.grad(lambda s: (s * s * a).sum())(2.0),
    "eval_jaxpr": lambda a: ga.core.eval_jaxpr(
        (g := ga.make_jaxpr(lambda x: lax.add(x, a))(a)).jaxpr, g.consts, a
    ),
    # ---- control flow ----
    "cond": lambda a: lax.cond(True, lambda x: x + 1, same, a),
    "cond identity": lambda a: lax.cond(True, same, same, a),
    "cond, closed over": lambda a: lax.cond(True, lambda: a, lambda: a),
    "switch": lambda a: lax.switch(1, [same, same, double], a),
    "switch of one": lambda a: lax.switch(0, [same], a),
    "scan": lambda a: lax.scan(lambda c, x: (c + x, c), a, np.stack([a, a])),
    "scan identity": lambda a: lax.scan(lambda c, x: (c, x), a, np.stack([a, a])),
    "scan of nothing": lambda a: lax.scan(lambda c, _: (c, None), a, None, length=0),
    "while_loop": lambda a: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1]), (0, a)),
    "while_loop, never": lambda a: lax.while_loop(lambda c: False, same, a),
    "fori_loop": lambda a: lax.fori_loop(0, 3, lambda i, c: c + 1, a),
    "fori_loop, never": lambda a: lax.fori_loop(0, 0, lambda i, c: c, a),
    "map": lambda a: lax.map(double, a.reshape(1, -1)),
    "associative_scan": lambda a: lax.associative_scan(operator.add, a),
    "associative_scan of one": lambda a: lax.associative_scan(operator.add, a[None]),
    "custom_root": lambda a: lax.custom_root(
        lambda x: x - a, a, lambda f, x: x, lambda f, y: y / f(gnp.ones(y.shape, y.dtype))
    ),
    "custom_linear_solve": lambda a: lax.custom_linear_solve(double, a, lambda f, b: b / 2),
    # ---- callbacks ----
    "pure_callback": lambda a: ga.pure_callback(lambda x: np.asarray(x) + 1, like(a), a),
    "pure_callback identity": lambda a: ga.pure_callback(same, like(a), a),
    "jit of pure_callback": lambda a: ga.jit(lambda x: ga.pure_callback(same, like(a), x))(a),
    "vmap of pure_callback": lambda a: ga.vmap(
        lambda x: ga.pure_callback(same, like(a[0]), x, vmap_method="expand_dims")
    )(a),
    "io_callback": lambda a: io_callback(same, like(a), a),
    # ---- objects that keep what they were made of ----
    "Partial": lambda a: ga.tree_util.Partial(lax.add, a)(a),
    "closure_convert": lambda a: ga.closure_convert(lambda x: x + 1, a)[0](a),
    "interpolator": lambda a: ga.scipy.interpolate.RegularGridInterpolator(
        (np.arange(a.size, dtype="f"),), a
    )(np.ones((1, 1), "f")),
}


def read(result):
    """Copies of all leaves."""
    return [np.array(x) for x in ga.tree.leaves(result)]


def refuses_to_change(door, a):
    given = a.copy()
    wanted = read(door(a.copy()))
    result = door(given)
    given[:] = -77
    gnp.zeros(8).block_until_ready()
    given[:] = 88
    first = read(result)
    given[:] = 99
    second = read(result)
    for x, y, z in zip(wanted, first, second, strict=True):
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(z, x)
    for x in ga.tree.leaves(result):
        assert isinstance(x, (ga.Array, float)), f"the result is a {type(x).__name__}"


def source(size):
    return (np.arange(size) % 7 + 1).astype(np.float32)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("door", DOORS)
def test_a_door_owns_what_comes_in(door, size):
    refuses_to_change(DOORS[door], source(size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("door", DOORS)
def test_a_door_owns_what_comes_in_while_work_is_pending(door, size):
    refuses_to_change(after_pending(DOORS[door]), source(size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_no_result_lies_in_the_memory_of_an_argument(transform, inside, size):
    if transform in ("jvp", "linearize", "vjp") and inside == "bitcast":
        pytest.skip("bits have no derivative")
    refuses_to_change(TRANSFORMS[transform](INSIDE[inside]), source(size))


def test_memory_that_is_read_only_here_may_be_written_to_there():
    a = source(4)
    seen = a.view()
    seen.flags.writeable = False
    given = [gnp.from_dlpack(seen), gnp.asarray(seen), ga.device_put(seen), ga.vmap(same)(seen)]
    a[:] = -77
    for x in given:
        np.testing.assert_array_equal(x, source(4))


def test_subclasses_of_numpy_arrays_become_plain_ones():
    class Doubled(np.ndarray):
        """Whose operators mean something else."""

        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            return 2 * getattr(ufunc, method)(*map(np.asarray, inputs), **options)

    given = source(4).view(Doubled)
    results = [
        ga.jit(lambda x: lax.add(x, x))(given),
        ga.vmap(lambda x: lax.add(x, x))(given),
        lax.add(given, given),
    ]
    given[:] = -77
    for x in results:
        assert type(np.asarray(x)) is np.ndarray
        np.testing.assert_array_equal(x, 2 * source(4))


def test_a_constant_is_what_it_was_when_it_was_traced():
    table = source(5)

    def f(x):
        first = lax.add(x, table)
        table[:] = 0
        return first, lax.add(x, table)

    for transform in (ga.jit, ga.make_jaxpr, lambda f: lambda x: ga.vmap(f)(x[None])):
        table[:] = source(5)
        made = transform(f)(gnp.zeros(5))
        if isinstance(made, tuple):
            np.testing.assert_array_equal(np.ravel(made[0]), source(5))
            np.testing.assert_array_equal(np.ravel(made[1]), np.zeros(5))


@pytest.mark.parametrize("size", SIZES)
def test_what_a_derivative_keeps(size):
    a = source(size)
    ones = np.ones(size, "f")
    _, pull = ga.vjp(lambda x: x**3, a)
    _, push = ga.linearize(lambda x: x**3, a)
    _, custom = ga.vjp(with_pullback(double), a)
    closed, consts = ga.closure_convert(lambda s: lax.mul(s, a), ones)
    partial = ga.tree_util.Partial(ga.jit(lax.mul), a)
    traced = ga.make_jaxpr(lambda s: lax.mul(s, a))(ones)
    compiled = ga.jit(lambda s: lax.mul(s, a)).lower(ones).compile()
    a[:] = -77
    want = 3 * source(size) ** 2
    np.testing.assert_allclose(pull(ones)[0], want)
    np.testing.assert_allclose(push(ones), want)
    np.testing.assert_allclose(custom(ones)[0], 2 * source(size))
    np.testing.assert_array_equal(closed(ones, *consts), source(size))
    np.testing.assert_array_equal(ga.core.eval_jaxpr(traced, traced.consts, ones)[0], source(size))
    np.testing.assert_array_equal(compiled(ones), source(size))
    del partial  # a container of what it was given, as tuples are


CALLBACKS = {
    "pure_callback": lambda f, a, x: ga.pure_callback(f, like(a), x),
    "io_callback": lambda f, a, x: io_callback(f, like(a), x),
    "ordered io_callback": lambda f, a, x: io_callback(f, like(a), x, ordered=True),
    "sequential": lambda f, a, x: ga.vmap(
        lambda v: ga.pure_callback(f, like(a), v, vmap_method="sequential")
    )(x[None])[0],
}
AROUND = {
    "eager": lambda f: lambda a: f(a),
    "jit": ga.jit,
    "pending": lambda f: lambda a: f(gnp.asarray(a) + 0),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("callback", CALLBACKS)
def test_a_callback_may_keep_what_it_returned(callback, around, size):
    kept = []

    def f(x):
        kept.append(np.array(x) + 1)
        return kept[-1]

    a = source(size)
    y = AROUND[around](lambda x: CALLBACKS[callback](f, a, x))(a)
    a[:] = -77
    ga.block_until_ready(y)
    kept[0][:] = -77
    np.testing.assert_array_equal(y, source(size) + 1)
    np.testing.assert_array_equal(y + 1, source(size) + 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("callback", [*CALLBACKS, "debug.callback"])
def test_a_callback_sees_memory_of_its_own(callback, around, size):
    seen = []

    def f(x):
        seen.append(x)
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(x)[:] = 5
        return x

    def call(x):
        if callback == "debug.callback":
            ga.debug.callback(f, x)
            return gnp.asarray(x)
        return CALLBACKS[callback](f, a, x)

    a = source(size)
    y = AROUND[around](call)(a)
    a[:] = -77
    ga.effects_barrier()
    np.testing.assert_array_equal(y, source(size))
    np.testing.assert_array_equal(np.asarray(seen[0]).reshape(-1), source(size))


def aliases(x):
    """Ways to ask for the memory of an array."""
    yield np.asarray(x)
    yield np.array(x, copy=False)
    yield x.__array__()
    yield np.from_dlpack(x)
    if sys.version_info >= (3, 12):  # before, classes had no buffer protocol
        yield np.asarray(memoryview(x))
        yield np.frombuffer(x, x.dtype)
    yield ga.device_get(x)
    yield np.asarray(x.addressable_data(0))


def base_of(a):
    while isinstance(a, np.ndarray) and a.base is not None:
        a = a.base
    return a


@pytest.mark.parametrize("size", (1, 3, 100_000, 1_000_000))
@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "int8", "complex64", "bool"))
def test_memory_that_leaves_is_read_only(dtype, size):
    ones = gnp.arange(size).astype(dtype)
    for x in (ones, ones.reshape(1, -1)[0], ones.block_until_ready() + ones):
        before = np.array(x)
        ways = [np.asarray(x)] if dtype == "bfloat16" else aliases(x)  # which no protocol knows
        for a in ways:
            with pytest.raises(ValueError):
                a.flags.writeable = True
            with pytest.raises(ValueError, match="read-only"):
                a[...] = 0
            base = base_of(a)
            assert not (isinstance(base, np.ndarray) and base.flags.writeable)
        np.testing.assert_array_equal(x, before)


def test_scalars_leave_as_they_are():
    for x in (gnp.float32(3), gnp.sum(gnp.ones(100_000))):
        assert not np.asarray(x).flags.writeable
        copied = np.array(x)
        copied[()] = 0
        assert x.item() != 0


def test_the_old_way_of_dlpack_gets_a_copy():
    class Old:
        def __init__(self, x):
            self.x = x

        def __dlpack__(self, **_):
            return self.x.__dlpack__()

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

    x = gnp.ones(3)
    a = np.from_dlpack(Old(x))
    ctypes.memset(a.ctypes.data, 0, a.nbytes)
    np.testing.assert_array_equal(x, np.ones(3))


@pytest.mark.parametrize("size", SIZES)
def test_functions_of_numpy_arrays_get_no_writable_memory(size):
    """The NumPy functions of users' own operations."""
    results = []

    def numpy(x):
        with pytest.raises(ValueError, match="read-only"):
            x[:] = 5
        results.append(x + 1)
        return results[-1]

    text = 'extern "C" __global__ void plus(const float* x, float* out) {}'
    plus = ga.cuda_op(text, "plus", out=lambda x: x, numpy=numpy)
    mine_p = Primitive("mine")
    mine_p.def_abstract_eval(lambda x: x)
    mine_p.def_impl(numpy)
    for function in (plus, ga.jit(plus), mine_p.bind, ga.jit(mine_p.bind)):
        a = source(size)
        y = function(a)
        a[:] = -77
        ga.block_until_ready(y)
        for kept in results:
            kept[:] = -77
        np.testing.assert_array_equal(y, source(size) + 1)
        results.clear()


@pytest.mark.parametrize("size", SIZES)
def test_device_put_may_alias(size):
    x = gnp.ones(size) + 1
    there = ga.devices()[0]
    for device in (None, there):
        copied = ga.device_put(x, device, may_alias=False)
        assert copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
        for given in (None, True):
            shared = ga.device_put(x, device, may_alias=given)
            assert shared.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    one, two = ga.device_put((x, x), may_alias=(False, None))
    assert one.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    assert two.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    x.delete()
    np.testing.assert_array_equal(copied, np.full(size, 2))


def test_pickles_whose_memory_the_caller_keeps():
    x = gnp.arange(5.0)
    buffers = []
    text = pickle.dumps(np.asarray(x), protocol=5, buffer_callback=buffers.append)
    assert pickle.loads(text, buffers=buffers) is not None
    buffers = []
    text = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    memory = [bytearray(b.raw()) for b in buffers]
    y = pickle.loads(text, buffers=memory)
    for m in memory:
        m[:] = bytes(len(m))
    np.testing.assert_array_equal(y, np.arange(5))


def test_an_array_is_no_key():
    assert not issubclass(ga.Array, Hashable)
    for x in (gnp.ones(2), gnp.float32(1), ga.random.key(0)):
        assert not isinstance(x, Hashable)
        with pytest.raises(TypeError, match="unhashable type: 'ArrayImpl'"):
            hash(x)
    assert ga.jit(lambda x: x + (1 if isinstance(x, Hashable) else 2))(0) == 2
    for transform in (same, ga.jit, ga.grad, lambda f: lambda x: ga.vmap(f)(x[None])):
        with pytest.raises(TypeError, match="unhashable type"):
            transform(lambda i: {0: 1.0}[i])(gnp.float32(0))
        with pytest.raises(TypeError, match="unhashable type"):
            transform(lambda i: {0: 1.0}.get(i))(gnp.float32(0))


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("size", (*SIZES, 1_000_000))
def test_donation_leaves_alone_what_was_handed_out(size, dtype):
    update = ga.jit(lambda x: x.at[0].set(5), donate_argnums=0)
    x = (gnp.arange(size) % 7).astype(dtype) + 1
    seen = np.asarray(x)
    before = seen.copy()
    y = update(x).block_until_ready()
    np.testing.assert_array_equal(seen, before)
    assert y[0] == 5


# ---- every function of the public namespaces ----

SPACES = {
    "numpy": gnp,
    "lax": lax,
    "numpy.linalg": gnp.linalg,
    "numpy.fft": gnp.fft,
    "nn": ga.nn,
    "scipy.special": ga.scipy.special,
}


def arguments():
    """Ways to call a function that takes arrays; many fit, for each function."""
    square, row = np.eye(3, dtype="f") * 2 + 1, np.array([2, 0, 1], np.int32)
    for a in (square, row):
        yield from ((a,), (a, a), (a, 0), (a, (0,)), (a, a.shape), (a, a.dtype), ([a, a],))


def functions(space):
    """The public functions by name, without helpers that are imported for them."""
    others = ("as_tuple", "shape_as_value")  # of numbers, not of arrays
    names = [n for n in dir(space) if not n.startswith("_") and n not in others]
    pairs = [(n, getattr(space, n)) for n in names]
    kinds = (types.FunctionType, gnp.ufunc)
    return [(n, f) for n, f in pairs if isinstance(f, kinds)]


def called(function, given, change=False):
    """Copies of the Arrays among the results, and these; nothing where the call is refused."""
    try:
        leaves = ga.tree.leaves(function(*given))
        arrays = [x for x in leaves if isinstance(x, ga.Array)]
        for x in ga.tree.leaves(given) if change else ():
            if isinstance(x, np.ndarray):
                x[...] = 0
        copies = read(arrays)
    except Exception:
        return [], []
    assert not any(isinstance(x, np.ndarray) for x in leaves)
    return copies, arrays


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("threshold", (0, 1 << 16), ids=("recorded", "at once"))
@pytest.mark.parametrize("space", SPACES)
def test_no_function_keeps_the_memory_of_an_argument(space, threshold):
    before = ga.config.lazy_threshold
    ga.config.update("lazy_threshold", threshold)
    tried = set()
    try:
        for name, function in functions(SPACES[space]):
            for given in arguments():
                want, _ = called(function, given)
                copies = ga.tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, given)
                found, result = called(function, copies, change=True)
                for x, y, z in zip(want, found, read(result), strict=True):
                    np.testing.assert_array_equal(y, x, err_msg=name)
                    np.testing.assert_array_equal(z, x, err_msg=name)
                if want:
                    tried.add(name)
    finally:
        ga.config.update("lazy_threshold", before)
    assert len(tried) > len(functions(SPACES[space])) // 3
