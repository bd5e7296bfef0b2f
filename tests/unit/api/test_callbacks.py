"""Python functions called from programs: pure_callback, io_callback, debug.print and callback."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental import io_callback

F32 = ga.ShapeDtypeStruct((), np.float32)
X = np.linspace(0, 1, 3).astype(np.float32)
BIG = 3_000_000  # large enough to run on another thread


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


def sine(x, **kwargs):
    return ga.pure_callback(np.sin, ga.ShapeDtypeStruct(x.shape, np.float32), x, **kwargs)


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
def test_pure_callback(wrap):
    close(wrap(sine)(gnp.asarray(X)), np.sin(X))
    close(wrap(lambda x: sine(x * 2) + 1)(gnp.asarray(X)), np.sin(X * 2) + 1)

    def two(x, *, n):
        assert isinstance(x, ga.Array)
        return {"a": np.asarray(x) + n, "b": (np.int32(n),)}

    shapes = {"a": F32, "b": (ga.ShapeDtypeStruct((), np.int32),)}
    out = wrap(lambda x: ga.pure_callback(two, shapes, x, n=3))(2.0)
    close(out["a"], 5.0)
    close(out["b"][0], 3)


def test_callback_may_use_the_library():
    inner = ga.jit(lambda v: gnp.sum(v * v) + 1)
    shape = ga.ShapeDtypeStruct((), np.float32)
    for n in (3, BIG):
        f = ga.jit(lambda x: ga.pure_callback(lambda v: inner(gnp.sqrt(v)), shape, x * 2) + 1)
        close(f(gnp.ones(n)), 2.0 * n + 2)


def test_arguments_are_copies():
    kept = []

    def keep(x):
        kept.append(x)
        return x

    shape = ga.ShapeDtypeStruct((4,), np.float32)
    f = ga.jit(lambda x: ga.pure_callback(keep, shape, x + 1).at[0].set(9.0))
    close(f(gnp.zeros(4)), [9, 1, 1, 1])
    close(kept[0], [1, 1, 1, 1])


@pytest.mark.parametrize(
    "method, shapes",
    [
        ("sequential", [((), ())] * 3),
        ("sequential_unrolled", [((), ())] * 3),
        ("expand_dims", [((3,), (1,))]),
        ("broadcast_all", [((3,), (3,))]),
        ("legacy_vectorized", [((3,), ())]),
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
def test_vmap(method, shapes, wrap):
    seen = []

    def product(x, y):
        seen.append((x.shape, y.shape))
        return np.asarray(x) * np.asarray(y)

    def f(x, y):
        return ga.pure_callback(product, F32, x, y, vmap_method=method)

    close(wrap(ga.vmap(f, in_axes=(0, None)))(X, 2.0), X * 2)
    assert seen == shapes
    if method != "legacy_vectorized":
        close(ga.vmap(ga.vmap(f, (0, None)), (None, 0))(X, X), np.outer(X, X))


def test_vmap_of_nothing():
    f = ga.vmap(lambda x: ga.pure_callback(np.sin, F32, x, vmap_method="sequential"))
    assert f(np.zeros(0, np.float32)).shape == (0,)


def test_with_custom_jvp():
    f = ga.custom_jvp(sine)
    f.defjvps(lambda t, out, x: t * gnp.cos(x))
    close(ga.jit(ga.grad(lambda x: f(x).sum()))(gnp.asarray(X)), np.cos(X))


@pytest.mark.parametrize(
    "call, kind, phrase",
    [
        (lambda: ga.grad(lambda x: sine(x))(gnp.ones(())), ValueError, "do not support JVP"),
        (
            lambda: ga.grad(lambda x: io_callback(np.sin, F32, x))(1.0),
            ValueError,
            "IO callbacks do not support JVP",
        ),
        (lambda: ga.vmap(sine)(gnp.ones(3)), NotImplementedError, "vmap_method is one of"),
        (lambda: sine(gnp.ones(3), vmap_method="foo"), ValueError, "allowed methods"),
        (
            lambda: ga.pure_callback(lambda: np.ones(3, np.float32), F32),
            ga.errors.JaxRuntimeError,
            r"promised float32\[\]",
        ),
        (
            lambda: ga.pure_callback(lambda: np.int32(1), F32),
            ga.errors.JaxRuntimeError,
            r"promised float32\[\]",
        ),
        (
            lambda: ga.pure_callback(lambda: (1.0, 2.0), F32),
            ga.errors.JaxRuntimeError,
            "structure",
        ),
        (
            lambda: ga.jit(lambda x: ga.pure_callback(lambda v: 1 / 0, F32, x))(1.0),
            ga.errors.JaxRuntimeError,
            "ZeroDivisionError",
        ),
        (lambda: ga.pure_callback(3, F32), TypeError, "must be a callable"),
        (lambda: ga.pure_callback(np.sin, 3, 1.0), TypeError, "shape and a dtype"),
        (
            lambda: ga.pure_callback(np.sin, np.zeros((), np.float64), 1.0),
            ValueError,
            "64-bit types",
        ),
        (
            lambda: ga.vmap(lambda x: io_callback(np.sin, F32, x, ordered=True))(X),
            ValueError,
            "Cannot `vmap` ordered",
        ),
        (lambda: ga.debug.print("x", 1.0), ValueError, "Unused positional"),
        (lambda: ga.debug.print("{x}", x=1, y=1.0), ValueError, "Unused keyword"),
        (lambda: ga.debug.print("{} {}", 1.0), IndexError, "out of range"),
        (lambda: ga.debug.print("{x}", y=1.0), KeyError, "x"),
        (lambda: ga.debug.print(1.0), TypeError, "expected str"),
    ],
)
def test_errors(call, kind, phrase):
    with pytest.raises(kind, match=phrase):
        np.asarray(call())


@pytest.mark.parametrize("nothing", [None, (), [], {}])
def test_a_callback_without_results_may_return_none(nothing):
    seen = []

    def f(x):
        io_callback(lambda v: seen.append(float(v)), nothing, x, ordered=True)
        return x + 1

    close(ga.jit(f)(1.0), 2.0)
    ga.effects_barrier()
    assert seen == [1.0]


def test_io_callback_runs_once_a_run_and_in_order():
    seen = []

    def f(x):
        io_callback(lambda v: seen.append(("a", float(v))), None, x, ordered=True)
        y = x * 2
        io_callback(lambda v: seen.append(("b", float(v))), None, y, ordered=True)
        io_callback(lambda v: seen.append(("b", float(v))), None, y, ordered=True)
        return y + 1

    expected = [("a", 1.0), ("b", 2.0), ("b", 2.0)]
    close(f(gnp.ones(())), 3.0)
    assert seen == expected
    g = ga.jit(f)
    for _ in range(2):
        seen.clear()
        close(g(1.0), 3.0)
        ga.effects_barrier()
        assert seen == expected
    count = iter(range(10))
    tick = ga.jit(lambda: io_callback(lambda: np.int32(next(count)), np.zeros((), np.int32)))
    assert [int(tick()), int(tick()), int(tick())] == [0, 1, 2]
    close(ga.vmap(lambda x: io_callback(np.sin, F32, x))(X), np.sin(X))


def test_effects_are_not_dropped_nor_merged(capsys):
    @ga.jit
    def f(x):
        ga.debug.print("x {}", x)
        ga.debug.print("x {}", x)

    f(1.0)
    ga.effects_barrier()
    assert capsys.readouterr().out == "x 1.0\nx 1.0\n"


def test_debug_print(capsys):
    ga.debug.print("a {} {x:.2f} {s}", 1.0, x=gnp.ones(()), s="text")
    ga.vmap(lambda x: ga.debug.print("v {}", x))(gnp.arange(3))
    assert float(ga.grad(lambda x: (ga.debug.print("g {}", x), x * x)[1])(3.0)) == 6.0
    assert float(ga.jit(ga.grad(lambda x: (ga.debug.print("j {}", x), x * x)[1]))(3.0)) == 6.0
    ga.effects_barrier()
    expected = "a 1.0 1.00 text\nv 0\nv 1\nv 2\ng 3.0\nj 3.0\n"
    assert capsys.readouterr().out == expected


def test_debug_print_of_what_is_pending_or_in_flight(capsys):
    x = gnp.ones(BIG)
    ga.debug.print("{}", gnp.sum(x + 1))
    f = ga.jit(lambda x: (ga.debug.print("{}", gnp.sum(x + 1)), x * 2)[1])
    f(x)
    ga.effects_barrier()
    assert capsys.readouterr().out == "6000000.0\n6000000.0\n"


def test_debug_callback():
    seen = []
    ga.debug.callback(lambda *a, **k: seen.append((a, k)), gnp.ones(2), z=3)
    (array,), named = seen[0]
    assert isinstance(array, ga.Array) and int(named["z"]) == 3
    ga.jit(lambda x: ga.debug.callback(lambda v, tag: seen.append((tag, float(v))), x, "t"))(2.0)
    ga.effects_barrier()
    assert seen[1] == ("t", 2.0)


def test_in_loops(capsys):

    @ga.jit
    def f(x):
        def body(i, c):
            ga.debug.print("{} {}", i, c)
            return c + 1

        return ga.lax.fori_loop(0, 3, body, x)

    f(0.0)
    ga.effects_barrier()
    assert capsys.readouterr().out == "0 0.0\n1 1.0\n2 2.0\n"


def doubled_twice(double):
    def step(c, _):
        ga.debug.print("{}", c)
        return double(c), None

    return lambda x: ga.lax.scan(step, x, None, length=2)[0]


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit])
@pytest.mark.parametrize("derivative", [ga.grad, ga.hessian, ga.jacfwd])
def test_in_loops_under_derivatives(wrap, derivative, capsys):
    wrap(derivative(doubled_twice(lambda c: c * c)))(3.0)
    ga.effects_barrier()
    assert capsys.readouterr().out == "3.0\n9.0\n"


def test_a_checkpoint_prints_again(capsys):
    f = ga.checkpoint(lambda x: (ga.debug.print("{}", x * 2), x + 1)[1])
    for derivative in (ga.grad(f), ga.jit(ga.grad(f)), ga.grad(ga.jit(f))):
        derivative(1.0)
        ga.effects_barrier()
        assert capsys.readouterr().out == "2.0\n2.0\n"
    f(1.0), ga.jvp(f, (1.0,), (1.0,))
    ga.grad(ga.checkpoint(doubled_twice(lambda c: c * c)))(3.0)
    ga.effects_barrier()
    assert capsys.readouterr().out == "2.0\n2.0\n3.0\n9.0\n3.0\n9.0\n"


def test_a_checkpoint_does_not_call_again():
    f = ga.checkpoint(lambda x: x * io_callback(lambda: np.float32(2), F32))
    assert float(f(3.0)) == 6
    with pytest.raises(NotImplementedError, match="Effects not supported.*second time"):
        ga.grad(f)(3.0)


def test_printing():
    text = str(ga.make_jaxpr(lambda x: ga.pure_callback(np.sin, F32, x))(1.0))
    assert text == (
        "{ lambda ; a:f32[]. let\n"
        "    b:f32[] = pure_callback[\n"
        "      callback=_FlatCallback(callback_func=<ufunc 'sin'>, in_tree=PyTreeDef(((*,), {})))\n"
        "      result_avals=(ShapedArray(float32[]),)\n"
        "      sharding=None\n"
        "      vmap_method=None\n"
        "    ] a\n"
        "  in (b,) }"
    )


def test_programs_are_found_again():
    f = lambda x: sine(x)
    ga.jit(f)(gnp.ones(3))
    before = len(ga.debug.cache_report(10_000).splitlines())
    ga.jit(lambda x: sine(x))(gnp.ones(3))
    assert len(ga.debug.cache_report(10_000).splitlines()) == before


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit], ids=["eager", "jit"])
def test_options_in_a_call_of_their_own(wrap, capsys):
    seen = []

    def f(x):
        ga.debug.print(ordered=True)("x = {x}, {fmt}, {ordered}", x=x, fmt=2, ordered=3)
        ga.debug.callback(ordered=True)(
            lambda x, ordered: seen.append((int(x), ordered)), x, ordered=1
        )

    wrap(f)(42)
    ga.effects_barrier()
    assert capsys.readouterr().out == "x = 42, 2, 3\n" and seen == [(42, 1)]


@pytest.mark.parametrize("name", ["print", "callback", "log"])
def test_values_belong_into_the_second_call(name):
    function = getattr(ga.debug, name)
    for args, kwargs in (((), {"a": 42}), ((None, 42), {"ordered": True})):
        with pytest.raises(TypeError, match=f"debug_{name} received unexpected arguments .*42"):
            function(*args, **kwargs)
    with pytest.raises(ValueError, match="Unused keyword arguments.*partitioned"):
        ga.debug.print(ordered=True)("hello {a}", a=42, partitioned=True)


@pytest.mark.parametrize("wrap", [lambda f: f, ga.jit], ids=["eager", "jit"])
def test_numbers_are_printed_as_numpy_would_where_print_is_called(wrap, capsys):
    x = np.array([1.2345, 2.3456, 1e-7], np.float32)

    def f(x, digits):
        with np.printoptions(precision=digits, suppress=True):
            ga.debug.print("{} {:.1f}", x, x[0])

    for digits in (2, 3, 2):
        wrap(lambda x: f(x, digits))(x)  # noqa: B023
        ga.effects_barrier()
        with np.printoptions(precision=digits, suppress=True):
            assert capsys.readouterr().out == f"{x} 1.2\n"


def test_effects_of_rows_that_take_another_way_are_refused():
    # vmap computes both branches, and goes on with a row until all have stopped.
    seen = []

    def branch(p):
        act = lambda name: lambda: io_callback(lambda: seen.append(name), None)
        return lax.cond(p, act("true"), act("false"))

    def loop(i):
        def body(i):
            io_callback(lambda i: seen.append(int(i)), None, i)
            return i + 1

        return lax.while_loop(lambda i: i < 3, body, i)

    with pytest.raises(NotImplementedError, match="IO effect not supported in vmap-of-cond"):
        ga.vmap(branch)(gnp.array([True, False]))
    with pytest.raises(NotImplementedError, match="not supported in while_loop with batched pred"):
        ga.vmap(loop)(gnp.arange(2))
    assert seen == []
    # One way for all rows, and one row after the other, are fine.
    ga.vmap(lambda x: branch(True))(gnp.arange(1))
    ga.lax.map(loop, gnp.arange(1, 3))
    ga.effects_barrier()
    assert seen == ["true", 1, 2, 2]
