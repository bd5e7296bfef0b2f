"""`jit` over several devices: its options, meshes in context, compiled programs, callbacks."""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental.pjit import pjit
from gpuarray.experimental.shard_alike import shard_alike
from gpuarray.sharding import AxisType, NamedSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def mesh(*sizes):
    names = ("x", "y")[: len(sizes)]
    return ga.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes))


def laid(*spec, value=X):
    return ga.device_put(value, NamedSharding(mesh(4, 2), P(*spec)))


# ---- PartitionSpecs, and the mesh in context ----


def test_specs_are_read_by_the_mesh_of_each_call():
    f = ga.jit(lambda x: x * 2, in_shardings=P("x"), out_shardings=P("x", "y"))
    for sizes in ((4, 2), (2, 4), (4, 2)):
        with ga.set_mesh(mesh(*sizes)):
            out = f(X)
        assert out.sharding == NamedSharding(mesh(*sizes), P("x", "y"))
        np.testing.assert_array_equal(out, X * 2)
    with pytest.raises(RuntimeError, match="jit requires a non-empty mesh in context"):
        f(X)


@pytest.mark.filterwarnings("ignore:`with mesh")
def test_with_mesh_is_for_pjit():
    options: Any = {"in_shardings": P("x"), "out_shardings": P(None, "y")}
    with mesh(4, 2):
        assert pjit(lambda x: x + 1, **options)(X).sharding.spec == P(None, "y")
        with pytest.raises(RuntimeError, match="jit requires a non-empty mesh"):
            ga.jit(lambda x: x + 1, **options)(X)
        assert len(pjit(lambda x: x)(X).sharding.device_set) == 8
        assert pjit(lambda x: x, in_shardings=P("x"), out_shardings=None)(X).is_fully_replicated


def test_set_mesh_says_where_programs_run_that_nothing_else_places():
    f = ga.jit(lambda x: x + 1)
    with ga.set_mesh(mesh(4, 2)):
        assert f(X).sharding == NamedSharding(mesh(4, 2), P())
        assert f(laid("x")).sharding.spec == P("x")
    assert f(X).sharding.num_devices == 1


def test_device_put_takes_specs_under_a_mesh():
    with ga.set_mesh(mesh(4, 2)):
        assert ga.device_put(X, P("x")).sharding.spec == P("x")
        put = ga.device_put({"a": X, "b": X}, {"a": P("x"), "b": P(None, "y")})
        assert (put["a"].sharding.spec, put["b"].sharding.spec) == (P("x"), P(None, "y"))
    with pytest.raises(RuntimeError, match="device_put requires a non-empty mesh"):
        ga.device_put(X, P("x"))


def test_prefixes_of_arguments_and_results():
    m = mesh(4, 2)
    rows, columns = NamedSharding(m, P("x")), NamedSharding(m, P(None, "y"))
    f = ga.jit(
        lambda d, x: ({"s": d["a"] + d["b"]}, x),
        in_shardings=(rows, None),
        out_shardings=({"s": columns}, None),
    )
    out, x = f({"a": X, "b": X}, X)
    assert out["s"].sharding == columns
    np.testing.assert_array_equal(out["s"], X + X)
    np.testing.assert_array_equal(x, X)


def test_bad_options():
    m = mesh(4, 2)
    identity = lambda x: x
    with pytest.raises(ValueError, match="duplicate entries for `x`"):
        ga.jit(identity, in_shardings=P("x", "x"))
    with pytest.raises(ValueError, match="Unconstrained dims are not allowed"):
        ga.jit(identity, out_shardings=NamedSharding(m, P(P.UNCONSTRAINED, "x")))
    with pytest.raises(ValueError, match="arguments with path x .*evenly divide.*axis to 8"):
        ga.jit(identity, in_shardings=NamedSharding(m, P("x")))(np.ones(6))
    with pytest.raises(ValueError, match="outputs with path result.*'a'.*rank at least 2"):
        ga.jit(lambda x: {"a": x}, out_shardings=NamedSharding(m, P("x", "y")))(np.ones(8))
    with pytest.raises(ValueError, match="does not match the sharding on the respective arg"):
        ga.jit(identity, in_shardings=NamedSharding(m, P("x")))(laid(None, "y"))
    with pytest.raises(ValueError, match="in_shardings should not be specified"):
        ga.jit(identity, device=ga.devices()[0], in_shardings=NamedSharding(m, P()))


def test_arguments_on_different_devices_are_named():
    a, b = (ga.device_put(1.0, d) for d in ga.devices()[:2])
    with pytest.raises(ValueError, match=r"argument left of add with .*ids \[0\].*argument right"):

        @ga.jit
        def add(left, right):
            return left + right

        add(a, b)


# ---- constraints ----


def test_an_unconstrained_axis_stays_as_it_is():
    with ga.set_mesh(mesh(4, 2)):
        f = ga.jit(lambda x: lax.with_sharding_constraint(x + 1, P(P.UNCONSTRAINED, "y")))
        assert f(laid("x")).sharding.spec == P("x", "y")
        # The axis that the constraint takes cannot stay where it was.
        assert f(laid("y")).sharding.spec == P(None, "y")
        np.testing.assert_array_equal(f(laid("y")), X + 1)


def test_a_constraint_does_not_move_between_devices():
    half = ga.sharding.Mesh(np.array(ga.devices()[:4]), ("x",))
    with pytest.raises(ValueError, match="incompatible devices"):
        lax.with_sharding_constraint(laid("x"), NamedSharding(half, P("x")))


def test_an_abstract_mesh_means_the_devices_of_the_argument():
    target = NamedSharding(mesh(4, 2).abstract_mesh, P(None, "y"))
    constrain = lambda x: lax.with_sharding_constraint(x * 2, target)
    for f in (constrain, ga.jit(constrain)):
        assert f(laid("x")).sharding == NamedSharding(mesh(4, 2), P(None, "y"))
    with pytest.raises(ValueError, match="does not know its devices"):
        ga.jit(constrain)(X)


def test_values_are_laid_alike():
    x = laid("x", "y")
    for f in (shard_alike, ga.jit(shard_alike)):
        a, b = f(x, np.ones_like(X))
        assert a.sharding == b.sharding == x.sharding
        np.testing.assert_array_equal(b, 1)
    tangents = ga.jvp(lambda x: shard_alike(x, 2 * x), (x,), (x,))[1]
    np.testing.assert_array_equal(tangents[1], 2 * X)
    mapped = ga.vmap(lambda row, other: shard_alike(row, other)[1], (0, None))(x, X[0])
    np.testing.assert_array_equal(mapped, np.broadcast_to(X[0], (8, 4)))
    with pytest.raises(ValueError, match="should match"):
        shard_alike(x, X[0])


def test_how_a_traced_value_lies(capsys):
    seen = []

    def f(x):
        y = x.T * 2
        ga.debug.inspect_array_sharding(y, callback=seen.append)
        ga.debug.visualize_array_sharding(x)
        return y.sum()

    g = ga.jit(f)
    g(laid("x", "y"))
    g(laid("x", "y"))
    assert [s.spec for s in seen] == [P("y", "x")]
    assert "CPU 7" in capsys.readouterr().out
    g(X)
    g(X)
    assert len(seen) == 2 and seen[1].num_devices == 1
    ga.debug.inspect_array_sharding(laid("x"), callback=seen.append)
    assert seen[2].spec == P("x")


# ---- stages ----


def test_a_compiled_program_of_several_devices():
    x = laid("x")
    compiled = ga.jit(lambda x: {"a": x @ x.T, "b": x.sum(0)}).lower(x).compile()
    assert compiled.input_shardings == ((x.sharding,), {})
    specs = {k: s.spec for k, s in compiled.output_shardings.items()}
    assert specs == {"a": P("x"), "b": P()}
    assert compiled.out_info["a"].sharding.spec == P("x")
    # What one device needs: 2 of 8 rows; [2, 8] and [4] of the results.
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == 2 * 4 * 4
    assert memory.output_size_in_bytes == (2 * 8 + 4) * 4
    assert "all_gather" in compiled.as_text() and compiled.cost_analysis()["flops"] > 0
    np.testing.assert_array_equal(compiled(x)["a"], X @ X.T)
    # What nobody has placed is laid as the program takes it.
    assert compiled(X)["a"].sharding.spec == P("x")
    with pytest.raises(ValueError, match="compiled for input shardings that disagree"):
        compiled(laid(None, "y"))


def test_lowered_from_shapes():
    s = NamedSharding(mesh(4, 2), P("x"))
    struct = ga.ShapeDtypeStruct((8, 4), "float32", sharding=s)
    compiled = ga.jit(lambda x: x + 1).lower(struct).compile()
    assert compiled.out_info.sharding == s
    assert compiled(X).sharding == s
    open_struct = ga.ShapeDtypeStruct((8,), "float32", sharding=P("x"))
    with ga.set_mesh(mesh(4, 2)):
        assert open_struct.sharding == NamedSharding(mesh(4, 2), P("x"))
    with pytest.raises(TypeError, match="context mesh cannot be empty"):
        _ = open_struct.sharding


def test_explain_lists_exchanges():
    explanation = ga.explain(lambda x: (x @ x.T).sum(0))(laid("x"))
    gather, total = (step.facts for step in explanation.steps if "axes" in step.facts)
    assert (gather["axes"], gather["devices"], gather["bytes a device"]) == ("x", 4, 2 * 4 * 4)
    assert "dot_general" in gather["why"] and "reduce_sum" in total["why"]
    assert "test_jit_devices.py" in str(explanation)


def test_explain_says_what_is_sent_together():
    def slopes(w, x):
        return ga.grad(lambda w: gnp.sum(gnp.tanh(x @ w[0] + w[1]) ** 2))(w)

    w = ga.device_put((gnp.ones((4, 5)), gnp.ones(5)), NamedSharding(mesh(4, 2), P()))
    explanation = ga.explain(slopes)(w, laid("x"))
    (total,) = (step for step in explanation.steps if step.ops == ("psum",))
    assert (total.facts["values"], total.facts["bytes a device"]) == (2, 4 * 5 * 4 + 5 * 4)
    assert "along a cut axis" in total.facts["why"]
    # Nobody reads them, so they belong to the line that left them to be summed.
    assert total.user_lines == (f"test_jit_devices.py:{slopes.__code__.co_firstlineno + 1}",)


# ---- calls ----


def test_donated_arrays_are_deleted():
    x, y = laid("x"), laid("x")
    out = ga.jit(lambda x, y: x + y, donate_argnums=0)(x, y)
    assert x.is_deleted() and not y.is_deleted()
    np.testing.assert_array_equal(out, X + X)


def test_bad_numbers_are_found():
    x = laid("x", "y")
    with ga.debug_nans(True):
        assert ga.jit(lambda x: gnp.log(x + 1))(x).sharding == x.sharding
        with pytest.raises(FloatingPointError, match="in log"):
            ga.jit(lambda x: gnp.log(x - 100) + 1)(x)
        with pytest.raises(FloatingPointError, match="in log"):
            gnp.log(x - 100)


def test_calls_with_the_same_places_find_their_program():
    f = ga.jit(lambda x, y: x * y)
    whole = gnp.float32(2)
    for x in (laid("x"), laid(None, "y"), laid("x")):
        for _ in range(3):
            out = f(x, whole)
            assert out.sharding == x.sharding
            np.testing.assert_array_equal(out, X * 2)
    deleted = laid("x")
    deleted.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        f(deleted, whole)
    m = mesh(4, 2)
    g = ga.jit(lambda x: x + 1, in_shardings=NamedSharding(m, P("x")))
    for x in (X, laid("x"), gnp.asarray(X), laid("x")):
        np.testing.assert_array_equal(g(x), X + 1)
    with pytest.raises(ValueError, match="respective arg"):
        g(laid(None, "y"))


def test_live_arrays_do_not_grow():
    x = laid("x", "y")
    f = ga.jit(lambda x: x * 0.5)
    y = f(x)
    before = len(ga.live_arrays())
    for _ in range(1000):
        y = f(y)
    assert len(ga.live_arrays()) == before
    np.testing.assert_allclose(y, 0, atol=1e-30)
