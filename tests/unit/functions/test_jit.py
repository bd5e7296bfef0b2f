"""jit: caching, static arguments, donation, tracing errors, looking inside."""

import ctypes
import functools
import inspect
import threading
import warnings

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import errors, lax


def sse(a, b):
    return gnp.sum((a - b) ** 2)


def test_three_spellings_agree():
    a, b = gnp.arange(6.0), gnp.ones(6)
    decorated = ga.jit(lambda a, b: sse(a, b))
    assert float(sse(a, b)) == float(ga.jit(sse)(a, b)) == float(decorated(a, b)) == 31.0

    @ga.jit
    def written(a, b):
        return sse(a, b)

    assert float(written(a, b)) == 31.0


def test_jit_afresh_hits_the_cache():
    calls = []

    def f(x):
        calls.append(1)
        return x + 1

    for _ in range(3):
        ga.jit(f)(gnp.ones(3))
    assert len(calls) == 1
    ga.jit(f)(gnp.ones(4))
    assert len(calls) == 2


def test_second_call_never_traces():
    count = 0

    @ga.jit
    def f(tree, *rest, k):
        nonlocal count
        count += 1
        return {"out": tree["a"] * rest[0] + k, "same": tree}

    x = gnp.arange(3.0)
    for scale in (1.0, 2.0, 3.0):
        out = f({"a": x, "b": None}, 2.0, k=scale)
    assert count == 1
    np.testing.assert_array_equal(out["out"], np.arange(3) * 2.0 + 3.0)
    assert out["same"]["b"] is None


def test_stale_global_stays_baked_until_the_shape_changes():
    offset = [gnp.ones(3)]

    def f(x):
        return offset[0] + x

    assert float(ga.jit(f)(gnp.ones(3))[0]) == 2.0
    offset[0] = gnp.zeros(3)
    assert float(ga.jit(f)(gnp.ones(3))[0]) == 2.0
    offset[0] = gnp.zeros(4)
    assert float(ga.jit(f)(gnp.ones(4))[0]) == 1.0


def test_each_field_of_the_key_counts():
    seen = []

    @functools.partial(ga.jit, static_argnames=("n",))
    def f(x, n=1):
        seen.append((x.dtype, x.shape, x.weak_type, n))
        return x * n

    f(gnp.ones(2))
    f(gnp.ones(2, "int32"))
    f(gnp.ones(3))
    f(1.0)
    f(gnp.float32(1.0))
    f(gnp.ones(2), n=2)
    assert len(seen) == len(set(seen)) == 6
    with ga.enable_x64(True):
        f(gnp.ones(2))
    assert len(seen) == 7


@pytest.mark.parametrize("kwargs", [{"static_argnums": 0}, {"static_argnames": "x"}])
def test_static_arguments(kwargs):
    @functools.partial(ga.jit, **kwargs)
    def f(x):
        return gnp.float32(x**2.0 if x < 0.0 else x**3.0)

    assert (float(f(2.0)), float(f(-2.0))) == (8.0, 4.0)


def test_static_arguments_must_be_hashable():
    f = ga.jit(lambda x, y: x, static_argnums=1)
    with pytest.raises(ValueError, match="Non-hashable static arguments.*list"):
        f(1.0, [1])
    with pytest.raises(ValueError, match=r"ArrayImpl'\. Pass a tuple"):
        f(1.0, np.ones(2) + gnp.ones(2))


def test_bad_static_argnums():
    with pytest.raises(ValueError, match="static_argnums"):
        ga.jit(lambda x: x, static_argnums=3)
    with pytest.raises(ValueError, match="static_argnames"):
        ga.jit(lambda x: x, static_argnames="nope")
    with pytest.raises(TypeError, match="Expected a callable"):
        ga.jit(3)


def test_donation_frees():
    x, y = ga.device_put(np.ones((2, 3))), ga.device_put(np.ones((2, 3)))
    z = ga.jit(lambda a, b: a + b, donate_argnums=(1,))(x, y)
    assert y.is_deleted() and not x.is_deleted()
    np.testing.assert_array_equal(z, np.full((2, 3), 2.0))
    with pytest.raises(RuntimeError, match="Array has been deleted with shape=float32\\[2,3\\]"):
        y + 1
    with pytest.raises(RuntimeError, match="deleted"):
        ga.jit(lambda a: a + 1)(y)


# What JAX 0.10.2 deletes: an argument that is read, and whose bytes a result can take.
@pytest.mark.parametrize(
    ("fun", "deleted"),
    [
        (lambda x, y: (x + y, x - y), [True, True]),
        (lambda x, y: x + y, [True, False]),
        (lambda x, y: y + 1, [False, True]),
        (lambda x, y: (x @ x.T, y[:2]), [False, False]),
        (lambda x, y: (x.reshape(16), y.astype("int32")), [True, True]),
        (lambda x, y: (x > 0, y.sum()), [False, False]),
        (lambda x, y: gnp.ones((8, 2)), [False, False]),
        (lambda x, y: (y, y), [False, True]),
    ],
)
@pytest.mark.parametrize("way", ["jit", "compiled"])
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_only_what_a_result_can_take_is_given_away(fun, deleted, way):
    x, y = gnp.ones((8, 2)), gnp.ones((8, 2)) + 1
    jitted = ga.jit(fun, donate_argnums=(0, 1))
    wanted = ga.tree.map(np.asarray, fun(x, y))
    found = (jitted if way == "jit" else jitted.lower(x, y).compile())(x, y)
    assert [x.is_deleted(), y.is_deleted()] == deleted
    ga.tree.map(np.testing.assert_array_equal, found, wanted)


def test_donation_never_changes_a_view_of_the_buffer():
    x = gnp.zeros(8) + 1.0
    part, same = x[2:5], x.reshape(2, 4)
    update = ga.jit(lambda a: a.at[3].set(7.0), donate_argnums=0)
    out = update(x)
    np.testing.assert_array_equal(part, np.ones(3))
    np.testing.assert_array_equal(same, np.ones((2, 4)))
    np.testing.assert_array_equal(out, [1, 1, 1, 7, 1, 1, 1, 1])


@pytest.mark.on_cpu("it looks at the address that NumPy sees")
def test_donated_update_happens_in_place():
    x = gnp.zeros(1 << 20) + 1.0
    x.block_until_ready()
    address = np.asarray(x).ctypes.data
    out = ga.jit(lambda a: a.at[3].set(7.0), donate_argnums=0)(x)
    assert out.unsafe_buffer_pointer() == address
    assert float(out[3]) == 7.0 and float(out[4]) == 1.0


@pytest.mark.on_cpu("it reads memory by its address")
def test_memory_whose_address_was_told_is_not_donated():
    x = gnp.zeros(1 << 20) + 1.0
    address = x.unsafe_buffer_pointer()
    out = ga.jit(lambda a: a.at[3].set(7.0), donate_argnums=0)(x)
    assert x.is_deleted() and out.unsafe_buffer_pointer() != address
    assert (ctypes.c_float * 4).from_address(address)[:] == [1.0] * 4
    assert float(out[3]) == 7.0


def test_update_without_donation_leaves_the_input():
    x = gnp.zeros(1 << 18)
    out = ga.jit(lambda a: a.at[0].set(1.0).at[1].set(2.0))(x)
    assert float(x.sum()) == 0.0 and float(out.sum()) == 3.0


def test_numpy_argument_is_not_aliased():
    host = np.arange(4, dtype=np.float32)
    out = ga.jit(lambda x: x)(host)
    view = ga.jit(lambda x: x[::-1])(host)
    host[:] = -1
    np.testing.assert_array_equal(out, [0, 1, 2, 3])
    np.testing.assert_array_equal(view, [3, 2, 1, 0])


def test_nested_jit_is_one_equation_and_one_program():
    inner = ga.jit(lambda y: gnp.sin(y) * 2)
    graph = ga.make_jaxpr(lambda x: inner(inner(x)))(gnp.ones(3))
    assert [e.primitive.name for e in graph.eqns] == ["jit", "jit"]
    lowered = ga.jit(lambda x: inner(inner(x))).lower(gnp.ones(3))
    assert len(lowered.plan.groups) == 1


def test_closure_over_outer_tracer():
    @ga.jit
    def outer(x):
        return ga.jit(lambda y: y * x)(x + 1)

    assert float(outer(3.0)) == 12.0
    assert float(outer(4.0)) == 20.0


def test_methods():
    class Model:
        scale = 3.0

        @functools.partial(ga.jit, static_argnums=0)
        def apply(self, x):
            return x * self.scale

    assert float(Model().apply(2.0)) == 6.0


def test_effects_happen_once(capsys):
    @ga.jit
    def f(a, b):
        print("Calculating sum")
        return a + b

    f(gnp.arange(3), gnp.arange(3))
    f(gnp.arange(3), gnp.arange(3))
    assert capsys.readouterr().out == "Calculating sum\n"


def test_disable_jit():
    with ga.disable_jit():
        assert ga.jit(lambda x: 1 if x > 0 else 2)(gnp.float32(3.0)) == 1


def test_boolean_conversion_names_function_and_argument():
    @ga.jit
    def choose(x):
        return x**2 if x < 0.0 else x**3

    with pytest.raises(errors.TracerBoolConversionError) as caught:
        choose(1.0)
    text = str(caught.value)
    assert "Attempted boolean conversion of traced array with shape bool[]" in text
    assert "choose at" in text and "test_jit.py" in text and "argument x" in text


@pytest.mark.parametrize(
    "use, error",
    [
        (lambda x: int(x), errors.ConcretizationTypeError),
        (lambda x: float(x), errors.ConcretizationTypeError),
        (lambda x: [1, 2][x.astype(int)], errors.TracerIntegerConversionError),
        (lambda x: np.asarray(x), errors.TracerArrayConversionError),
        (lambda x: gnp.ones(3)[gnp.ones(3) > x], errors.NonConcreteBooleanIndexError),
        (lambda x: x.item(), errors.ConcretizationTypeError),
    ],
)
def test_concretization_errors(use, error):
    with pytest.raises(error):
        ga.jit(use)(1.0)


def test_leaked_tracer():
    leaked = []

    @ga.jit
    def leak(x):
        leaked.append(x * 2)
        return x

    leak(1.0)
    with pytest.raises(errors.UnexpectedTracerError, match="leak at"):
        leaked[0] + 1
    with pytest.raises(errors.UnexpectedTracerError):
        ga.jit(lambda x: x + leaked[0])(1.0)


def test_bad_leaf_names_its_path():
    with pytest.raises(TypeError, match=r"<class 'str'>.*path x\['name'\]"):
        ga.jit(lambda x: x)({"name": "a"})
    with pytest.raises(TypeError, match="returned a value of type <class 'str'>"):
        ga.jit(lambda x: "a")(1.0)
    with pytest.raises(OverflowError, match="path is x"):
        ga.jit(lambda x: x)(2**40)


def test_missing_argument():
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        ga.jit(lambda x, y: x)(1)


def test_lower_and_compile():
    lowered = ga.jit(sse).lower(gnp.ones(4), gnp.ones(4))
    assert "reduce_sum" in lowered.as_text()
    compiled = lowered.compile()
    assert float(compiled(gnp.ones(4), gnp.zeros(4))) == 4.0
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.memory_analysis().argument_size_in_bytes == 32
    with pytest.raises(
        TypeError, match="'a' compiled with float32\\[4\\] and called with float32\\[5\\]"
    ):
        compiled(gnp.ones(5), gnp.ones(5))


def test_platforms_of_lowering():
    traced = ga.jit(sse).trace(gnp.ones(4), gnp.ones(4))
    lowered = traced.lower(lowering_platforms=("cpu", "cuda"))
    assert lowered.as_text() == traced.lower().as_text()
    with pytest.raises(ValueError, match="not for 'tpu'"):
        traced.lower(lowering_platforms=("tpu",))


def test_eval_shape_and_make_jaxpr():
    known = ga.ShapeDtypeStruct((2,), "int32")
    assert ga.eval_shape(lambda: (known, 1.0))[0] == known
    out = ga.eval_shape(lambda x: {"a": x.sum(0)}, ga.ShapeDtypeStruct((3, 4), "float32"))
    assert out == {"a": ga.ShapeDtypeStruct((4,), "float32")}
    x, y = gnp.array([1.0, 4.0, 3.0]), gnp.array([8.0, 1.0, 2.0])
    text = str(ga.make_jaxpr(lambda x, y: 2 * x**2 + y)(x, y))
    assert (
        text.split()
        == (
            "{ lambda ; a:f32[3] b:f32[3]. let c:f32[3] = integer_pow[y=2] a "
            "d:f32[3] = mul 2.0:f32[] c e:f32[3] = add d b in (e,) }"
        ).split()
    )


@pytest.mark.on_cpu("elsewhere the argument itself is computed by a program")
def test_cache_report_says_why():
    f = ga.jit(lambda x: x * 2)
    f(gnp.ones(3))
    f(gnp.ones(5))
    assert "float32[3]) -> ShapedArray(float32[5]" in ga.debug.cache_report(1)


def test_clear_cache():
    calls = []

    @ga.jit
    def f(x):
        calls.append(1)
        return x

    f(1.0)
    f.clear_cache()
    f(1.0)
    assert len(calls) == 2


def test_eight_threads_compile_once_a_key():
    traced = []

    @ga.jit
    def f(x):
        traced.append(x.shape)
        return (gnp.sin(x) * x.shape[0]).sum()

    sizes = [3, 5, 7, 9]
    start = threading.Barrier(8)
    failures = []

    def work(number):
        start.wait()
        for turn in range(30):
            n = sizes[(number + turn) % 4]
            got = float(f(gnp.full((n,), 0.5)))
            if abs(got - n * n * np.sin(0.5)) > 1e-4:
                failures.append((n, got))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert sorted(traced) == [(3,), (5,), (7,), (9,)]


def test_deep_graph():
    def deep(x):
        for _ in range(5000):
            x = x + 1.0
        return x

    assert float(ga.jit(deep)(0.0)) == 5000.0


@pytest.mark.parametrize("device", ["cpu", "simulator"])
@pytest.mark.parametrize("x", [1.5, [1.5, -2.0]])
def test_a_view_of_bits_of_another_width(device, x):
    """Turning round the bytes is not turning round the numbers."""

    def swapped(x):
        return lax.rev(lax.bitcast_convert_type(x, np.uint8), (np.ndim(x),)) + np.uint8(1)

    with ga.default_device(device):
        x = gnp.array(x)
        want = np.asarray(x)[..., None].view(np.uint8)[..., ::-1] + np.uint8(1)
        np.testing.assert_array_equal(ga.jit(swapped)(x), want)


@pytest.mark.parametrize(
    "first", [[np.ones(3, "float32")], [gnp.ones(3)], []], ids=["NumPy", "ours", "none"]
)
def test_calls_with_arrays_are_fast_whatever_came_before(monkeypatch, first):
    f = ga.jit(lambda x: x + 1.0)
    for x in [*first, gnp.ones(3)]:
        assert f(x).tolist() == [2.0] * 3

    def general(*_):
        raise AssertionError("taken apart, where one look-up would do")

    monkeypatch.setattr(type(f), "_general_call", general)
    assert f(gnp.zeros(3)).tolist() == [1.0] * 3
    with pytest.raises(AssertionError, match="one look-up"):
        f(np.zeros(3, "float32"))


def test_numbers_and_names_of_static_arguments_may_disagree():
    """What is given stands, () too; only what is left out follows from the other."""
    rows = [
        ({"static_argnums": 1}, [(False, True), (False, True)]),
        ({"static_argnames": "y"}, [(False, True), (False, True)]),
        ({"static_argnums": 1, "static_argnames": ()}, [(False, True), (False, False)]),
        ({"static_argnums": (), "static_argnames": "y"}, [(False, False), (False, True)]),
        ({"static_argnums": 1, "static_argnames": "x"}, [(False, True), (False, False)]),
    ]
    for options, expected in rows:
        seen = []

        def f(x, y, seen=seen):
            seen.append(tuple(isinstance(v, int) for v in (x, y)))
            return 1

        g = ga.jit(f, **options)
        g(2, 3)
        g(1, y=3)
        assert seen == expected, options


def test_the_compilers_own_words():
    lowered = ga.jit(lambda x: gnp.sin(x) + 1).lower(gnp.ones(3))
    assert [e.primitive.name for e in lowered.compiler_ir().eqns] == ["sin", "add"]
    assert "ga_sin" in lowered.compiler_ir("cuda")
    with pytest.raises(ValueError, match="unknown dialect: 'stablehlo'"):
        lowered.compiler_ir("stablehlo")


def test_memories_of_devices():
    x = gnp.ones(3)
    assert ga.typeof(x).memory_space is ga.memory.Space.Device
    for space in (ga.memory.Space.Device, ga.memory.Space.Any):
        assert ga.device_put(x, space).device == x.device
    tree = ga.device_put({"a": x, "b": x}, {"a": ga.memory.Space.Device, "b": None})
    assert tree["a"].tolist() == [1, 1, 1]
    assert ga.jit(lambda x: ga.device_put(x, ga.memory.Space.Device) + 1)(x).tolist() == [2, 2, 2]
    assert ga.device_put(x, ga.memory.Space.Host).device == x.device


def test_the_signature_is_that_of_the_function():
    """Also for those who do not look at what is wrapped, as chex does."""
    f = ga.jit(lambda x, y=2, *, z: x)
    for follow in (True, False):
        assert str(inspect.signature(f, follow_wrapped=follow)) == "(x, y=2, *, z)"
    assert ga.jit(max).__signature__ is None


def test_static_values_that_do_not_compare_with_each_other():
    """A NumPy number and a tuple compare element by element; as keys they are just different."""
    f = ga.jit(lambda x, axis: x.sum(axis), static_argnums=1)
    x = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for axis in ((2, 0), np.int64(1), (0, 1), 1):
        np.testing.assert_allclose(f(x, axis), x.sum(axis))
    assert f._cache_size() == 4


def test_which_leaves_are_given_away():
    inner = ga.jit(
        lambda a, b, *, z, y: (a["p"] + b, a["q"][0] * 2, y * 2, z),
        donate_argnums=(0,),
        donate_argnames=("y",),
    )
    a, b = {"p": gnp.ones(3), "q": (gnp.ones(4),)}, gnp.ones(3)
    y, z = gnp.ones(6), gnp.ones(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Inside of another function values are traced: nothing is given away, nothing fails.
        ga.jit(lambda a: inner(a, b, z=z, y=y))(a)
        inner(a, b, z=z, y=y)
    assert [x.is_deleted() for x in (*ga.tree.leaves(a), b, y, z)] == [
        *(True, True), False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("function", [ga.jit(lambda x: x * 2), gnp.tril], ids=["jit", "a unit"])
@pytest.mark.parametrize(
    "transform", [lambda f: lambda x: ga.jvp(f, (x,), (x,))[1], ga.jit, ga.vmap, ga.grad]
)
def test_traced_values_where_concrete_ones_are_computed_at_once(function, transform):
    """`ensure_compile_time_eval` changes nothing of what is not known."""
    x = gnp.ones((1, 2, 2))
    function(x[0])  # compiled, and so called without a look at what it is given

    def at_once(x):
        with ga.ensure_compile_time_eval():
            y = function(x)
        return y if transform is not ga.grad else y.sum()

    plain = transform(lambda x: function(x) if transform is not ga.grad else function(x).sum())
    x = x if transform is ga.vmap else x[0]
    np.testing.assert_array_equal(transform(at_once)(x), plain(x))
