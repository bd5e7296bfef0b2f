"""`jit` over several devices: its options, meshes in context, compiled programs, callbacks."""

import contextlib
import functools
import inspect
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental.pjit import pjit
from gpuarray.experimental.shard_alike import shard_alike
from gpuarray.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
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


def test_set_mesh_refuses_arguments_that_are_somewhere_else():
    elsewhere = ga.device_put(X, ga.devices()[3])
    f = ga.jit(lambda x: x + 1)
    for context, g in ((ga.set_mesh(mesh(2, 2)), f), (mesh(2, 2), pjit(lambda x: x + 1))):
        with pytest.warns(DeprecationWarning) if g is not f else contextlib.nullcontext():
            with context:
                for x in (elsewhere, laid("x")):
                    with pytest.raises(ValueError, match="argument x of .* the mesh in context"):
                        g(x)
    for n in (1, 8):
        with ga.set_mesh(mesh(n)), pytest.raises(ValueError, match="should not be used with jit"):
            ga.jit(lambda x: x, device=ga.devices()[0])(X)


def test_none_leaves_a_layout_open():
    f = ga.jit(lambda x: lax.with_sharding_constraint(x, P("x")), out_shardings=None)
    default = inspect.signature(ga.jit).parameters["in_shardings"].default
    some = ga.jit(lambda x, y: x + y, in_shardings=(default, P("x")), out_shardings=default)
    with ga.set_mesh(mesh(4, 2)):
        np.testing.assert_array_equal(some(X, X), 2 * X)
    g = ga.jit(lambda x: x * 2, in_shardings=None, out_shardings=None)
    with ga.set_mesh(mesh(4, 2)):
        assert f(X).sharding == laid("x").sharding
        assert g(laid("x", "y")).sharding == laid("x", "y").sharding
        assert g(X).is_fully_replicated


def test_device_put_takes_specs_under_a_mesh():
    with ga.set_mesh(mesh(4, 2)):
        assert ga.device_put(X, P("x")).sharding.spec == P("x")
        put = ga.device_put({"a": X, "b": X}, {"a": P("x"), "b": P(None, "y")})
        assert (put["a"].sharding.spec, put["b"].sharding.spec) == (P("x"), P(None, "y"))
    with pytest.raises(ValueError, match="device_put requires a non-empty mesh"):
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


def test_constants_that_lie_over_a_mesh():
    constant = laid("x", "y")
    f = ga.jit(lambda x: x + constant)
    for x in (laid("x"), ga.device_put(X, NamedSharding(mesh(4, 2), P())), X, gnp.asarray(X)):
        np.testing.assert_array_equal(f(x), X + X)
        assert f(x).devices() == constant.devices()
        assert f.lower(x).compile().output_shardings.device_set == constant.devices()
    # Without arguments, and inside of other calls.
    assert ga.jit(lambda: constant * 2)().sharding.spec == P("x", "y")
    np.testing.assert_array_equal(ga.jit(lambda x: f(x) + 1)(X), X + X + 1)
    inside = ga.jit(lambda x: gnp.array(X, device=constant.sharding) + x)
    np.testing.assert_array_equal(inside(1.0), X + 1)


def test_one_device_takes_arrays_of_many():
    first, second = ga.devices()[:2]
    f = ga.jit(lambda x: x + 1, device=first)
    assert f(laid("x", "y")).devices() == {first}
    np.testing.assert_array_equal(f(laid("x", "y")), X + 1)
    g = ga.jit(lambda x: x + 1, in_shardings=SingleDeviceSharding(first))
    assert g(X).devices() == {first}
    assert g(ga.device_put(X, second)).devices() == {first}
    with pytest.raises(ValueError, match="does not match the sharding on the respective arg"):
        g(laid("x"))


def test_who_is_somewhere_else_is_named():
    target = laid("x").sharding
    f = ga.jit(lambda left, right: lax.with_sharding_constraint(right, target) + left)
    put = ga.device_put(X, ga.devices()[3])
    inside = r"argument right of .* ids \[3\] .*{} inside jit with device ids \[0, 1,"
    with pytest.raises(ValueError, match=inside.format("sharding_constraint")):
        f(X, put)
    # What the user wrote is named: a jitted function with shardings, a shard_map.
    halved = ga.shard_map(lambda x: x / 2, mesh=mesh(4, 2), in_specs=P("x"), out_specs=P("x"))
    for name, inner in (("jit", ga.jit(lambda x: x, out_shardings=target)), ("shard_map", halved)):
        with pytest.raises(ValueError, match=inside.format(name)):
            ga.jit(lambda right: inner(right) + 1)(put)  # noqa: B023
    with pytest.raises(ValueError, match=r"argument x .* ids \[0, 1, .* argument y .* ids \[3\]"):
        ga.jit(lambda x, y: x + y)(laid("x"), put)
    with pytest.raises(ValueError, match=r"args\[0\] of concatenate .*\[3\].*args\[2\] .*\[1\]"):
        gnp.concatenate([put, X, ga.device_put(X, ga.devices()[1])])


def test_constants_over_devices_go_where_a_program_runs():
    c, weights = np.arange(8, dtype=np.float32), np.arange(1, 9, dtype=np.float32)
    over = ga.device_put(c, NamedSharding(mesh(8), P("x")))
    device = ga.devices()[3]
    half = Mesh(np.array(ga.devices()[:4]), ("a",))
    put = ga.device_put(weights, device)
    laid_out = ga.device_put(weights, NamedSharding(half, P("a")))

    def loop(v):
        return lax.scan(lambda total, w: (total + w * over, w), gnp.zeros(8), v)[0]

    def branch(v):
        return lax.cond(v[0] > 0, lambda v: v * over, lambda v: v - over, v)

    by_hand = {
        "sum": (lambda v: v + over, weights + c),
        "gradient": (ga.grad(lambda v: gnp.sum(v * v * over)), 2 * weights * c),
        "batch": (ga.vmap(lambda w: w * over), np.outer(weights, c)),
        "inner": (lambda v: ga.jit(lambda w: w + over)(v) * 2, 2 * (weights + c)),
        "loop": (loop, weights.sum() * c),
        "branch": (branch, weights * c),
    }
    for name, (function, expected) in by_hand.items():
        for x in (put, laid_out):
            f = ga.jit(function)
            for out in (f(x), f(x), f.lower(x).compile()(x)):
                np.testing.assert_array_equal(out, expected, err_msg=name)
                assert out.devices() == x.devices()
        # Nobody has put the argument: the constant decides, and both calls may follow another.
        f = ga.jit(function)
        for x in (weights, put, weights):
            np.testing.assert_array_equal(f(x), expected, err_msg=name)
    # By an option, and by a mesh inside of the program.
    moved = ga.jit(lambda v: v + over, device=device)(weights)
    np.testing.assert_array_equal(moved, weights + c)
    assert moved.devices() == {device}
    inside = ga.shard_map(lambda v: v + over.sum(), mesh=half, in_specs=P("a"), out_specs=P("a"))
    np.testing.assert_array_equal(ga.jit(inside)(weights), weights + c.sum())
    # Random keys are no numbers, and lie over devices too.
    keys = ga.device_put(ga.random.split(ga.random.key(0), 8), over.sharding)
    draw = lambda v: v + ga.vmap(ga.random.uniform)(keys)
    np.testing.assert_allclose(ga.jit(draw)(put), ga.jit(draw)(weights), rtol=1e-6)


@pytest.mark.parametrize("make", ["array", "asarray", "astype", "method"])
def test_an_array_that_was_put_elsewhere_is_not_moved_by_device(make):
    functions = {
        "array": gnp.array,
        "asarray": gnp.asarray,
        "astype": lambda x, device: gnp.astype(x, int, device=device),
        "method": lambda x, device: x.astype(int, device=device),
    }
    convert, devices = functions[make], ga.devices()
    put = ga.device_put(X, devices[0])
    for x, device in ((put, devices[1]), (put, laid("x").sharding), (laid("x"), devices[1])):
        with pytest.raises(ValueError, match=r"Received incompatible devices .*32\[8,4\]"):
            convert(x, device=device)
    # What nobody has put, and what lies on the same devices in another way, is moved.
    for x, device in ((gnp.asarray(X), devices[1]), (put, devices[0])):
        assert convert(x, device=device).devices() == {device}
    target = laid(None, "y").sharding
    assert convert(laid("x"), device=target).sharding == target
    with ga.set_mesh(mesh(4, 2)):
        assert convert(laid("x"), device=P(None, "y")).sharding == target


def test_filled_arrays_take_a_spec_of_more_axes_than_they_have():
    longer, row = laid("x").sharding.update(spec=P("x", None)), np.arange(8.0, dtype=np.float32)
    for make in (
        lambda s: lax.full((8,), 1.0, sharding=s),
        lambda s: lax.full_like(row, 1, sharding=s),
        lambda s: gnp.full(8, 1.0, device=s),
        lambda s: gnp.ones(8, device=s),
        lambda s: gnp.zeros(8, device=s) + 1,
        lambda s: gnp.ones_like(row, device=s),
    ):
        x = make(longer)
        for laid_so in (x, x + 1, ga.jit(lambda x: x)(x)):
            assert laid_so.sharding == longer
        np.testing.assert_array_equal(x, np.ones(8))
        assert x.sum() == 8 and x.addressable_shards[0].data.shape == (2,)
        with pytest.raises(ValueError, match="only valid for values of rank at least 2"):
            make(longer.update(spec=P("x", "y")))
    # What lays arrays that are there takes none.
    for put in (
        lambda x: ga.device_put(x, longer),
        lambda x: gnp.asarray(x, device=longer),
        lambda x: lax.with_sharding_constraint(x, longer),
        ga.jit(lambda x: x, in_shardings=longer),
        ga.jit(lambda x: x, out_shardings=longer),
    ):
        with pytest.raises(ValueError, match="only valid for values of rank at least 2"):
            put(row)


def test_in_shardings_have_an_element_for_each_argument():
    s = laid("x").sharding
    for given, count, problem in (
        ((s, s, s), 2, "is the wrong length: .* length 3 for an args tuple of length 2"),
        ([s, s, s], 2, "is the wrong length"),
        ({"a": s}, 1, "is not a tuple: got <class 'dict'> instead.* singleton tuple"),
    ):
        with pytest.raises(ValueError, match=f"jit in_shardings must either be .*{problem}"):
            ga.jit(lambda *xs: xs, in_shardings=given)(*[X] * count)
    with pytest.raises(ValueError, match=r"different lengths of list at key path\n *jit out_shard"):
        ga.jit(lambda x: x, out_shardings=[s, s])([X] * 3)


def test_a_device_and_a_mesh_inside_do_not_go_together():
    constrained = lambda x: lax.with_sharding_constraint(x * 2, laid("x").sharding)
    first = ga.devices()[0]
    for options in (
        {"device": first},
        {"in_shardings": SingleDeviceSharding(first)},
        {"out_shardings": SingleDeviceSharding(first)},
    ):
        with pytest.raises(ValueError, match=r"device ids \[0\], by an option of jit"):
            ga.jit(constrained, **options)(X)


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


def test_a_constraint_inside_of_shard_map_names_automatic_axes_only():
    def body(x, spec):
        return lax.with_sharding_constraint(x, NamedSharding(mesh(4, 2), spec)) * 2

    def f(x, spec, names):
        cut = lambda x: body(x, spec)
        specs = {"in_specs": P("x"), "out_specs": P("x")}
        return ga.shard_map(cut, mesh=mesh(4, 2), axis_names=names, **specs)(x)

    out = ga.jit(lambda x: f(x, P(None, "y"), {"x"}))(laid("x"))
    np.testing.assert_array_equal(out, X * 2)
    for spec, names in ((P("x", "y"), {"x"}), (P("x"), {"x", "y"})):
        with pytest.raises(ValueError, match=r"manual axes \('x',\)"):
            ga.jit(lambda x, s=spec, n=names: f(x, s, n))(laid("x"))


def test_a_constraint_takes_no_device_of_its_own():
    first, second = (SingleDeviceSharding(d) for d in ga.devices()[:2])
    with pytest.raises(ValueError, match=r"is on \[1\], and the sharding asks for \[0\]"):
        lax.with_sharding_constraint(ga.device_put(X, second), first)
    spread = ga.vmap(lambda x: lax.with_sharding_constraint(x, first), spmd_axis_name="x")
    with pytest.raises(ValueError, match="spmd_axis_name .* give .* a NamedSharding"):
        ga.jit(spread)(X)


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
    # In a program too, whichever of the two is cut, and beside other operations and constants.
    constrained = lambda v: lax.with_sharding_constraint(v, x.sharding)
    ones = gnp.ones_like(X)
    for f in (
        lambda v: shard_alike(constrained(v), v * 2),
        lambda v: shard_alike(v + ones, constrained(v)),
        lambda v: shard_alike(gnp.zeros((8, 4)), constrained(v) * 3),
    ):
        a, b = ga.jit(f)(X)
        assert a.sharding == b.sharding == x.sharding
        for found, expected in zip((a, b), ga.jit(f).__wrapped__(X), strict=True):
            np.testing.assert_array_equal(found, expected)
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


def test_arrays_like_a_struct_lie_as_it_says():
    struct = ga.ShapeDtypeStruct((8, 4), "float32", sharding=laid("x", "y").sharding)
    for x in (gnp.zeros_like(struct), gnp.full_like(struct, 2), lax.full_like(struct, 2)):
        assert x.sharding == struct.sharding and x.dtype == "float32"
    # Another shape would be cut otherwise; a mesh without devices is the one in context.
    assert gnp.zeros_like(struct, shape=(4,)).sharding.num_devices == 1
    abstract = struct.update(sharding=NamedSharding(mesh(4, 2).abstract_mesh, P("x")))
    assert gnp.ones_like(abstract).sharding.num_devices == 1
    with ga.set_mesh(mesh(4, 2)):
        assert gnp.ones_like(abstract).sharding == laid("x").sharding
    for sharding in (laid("x").sharding.update(spec=P(None, None, "x")), P(None, None, "x")):
        with pytest.raises(ValueError, match="rank at least 3, but was applied .* rank 2"):
            ga.ShapeDtypeStruct((8, 4), "float32", sharding=sharding)


def test_types_are_no_values():
    struct = ga.ShapeDtypeStruct((2,), "int32")
    for described in (struct, ga.typeof(np.zeros(2, "int32")), ga.ShapeDtypeStruct((), bool)):
        with pytest.raises(TypeError, match=r"Argument .x\['a'\]. of shape .*has no value"):
            ga.jit(lambda x: x)({"a": described})
        assert ga.jit(lambda x: x).lower({"a": described}).out_info["a"].dtype == described.dtype
    with pytest.raises(TypeError, match="ShapeDtypeStruct does not have a value"):
        ga.jit(lambda x: (x, struct))(X)


def test_options_of_compile():
    lowered = ga.jit(lambda x: x + 1).lower(laid("x"))
    devices = tuple(laid("x").sharding.mesh.devices.flat)
    np.testing.assert_array_equal(lowered.compile(device_assignment=devices)(laid("x")), X + 1)
    alone = ga.jit(lambda x: x + 1).lower(ga.device_put(X, devices[3]))
    assert alone.compile(None, device_assignment=devices[3:4]).output_shardings.num_devices == 1
    for which in (lowered, alone):
        with pytest.raises(ValueError, match="must match the device_assignment calculated from"):
            which.compile(device_assignment=devices[:2])
        with pytest.raises(ValueError, match="No such compile option: 'fast'"):
            which.compile({"fast": True})


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


def test_explain_says_what_is_gathered_together():
    @functools.partial(
        ga.shard_map, mesh=mesh(4, 2), in_specs=P("x"), out_specs=P(), check_vma=False
    )
    def gathered(v):
        return lax.all_gather(v, "x"), lax.all_gather(v.sum(0) + 1, "x"), lax.all_gather(v[:1], "x")

    (step,) = ga.explain(gathered)(laid("x")).steps[-1:]
    assert step.ops == ("all_gather_together",)
    assert (step.facts["values"], step.facts["axes"], step.facts["devices"]) == (3, "x", 4)
    assert step.facts["bytes a device"] == 4 * (2 * 4 + 4 + 4)


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
    # Those that are laid out before they go in, as well.
    target = laid("x").sharding
    for sharding in (target, SingleDeviceSharding(ga.devices()[1])):
        f = ga.jit(lambda x: x * 2, in_shardings=sharding, donate_argnums=0)
        given = [gnp.asarray(X), gnp.asarray(X)]
        np.testing.assert_array_equal(f(given[0]), X * 2)
        np.testing.assert_array_equal(f.lower(X).compile()(given[1]), X * 2)
        assert [x.is_deleted() for x in given] == [True, True]


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


def test_graphs_inside_hold_no_array_of_several_devices():
    """What a function closes over is an operand of its call: no device has its value."""
    y, one = laid("x", "y"), gnp.ones(4)
    calls = [
        ga.checkpoint(lambda x: x * y + one),
        ga.jit(lambda x: x * y + one),
        ga.jit(lambda x: lax.scan(lambda c, r: (c + (r * y).sum(), r), 0.0, x)[1]),
    ]
    for call in calls:
        graph = ga.make_jaxpr(lambda x, call=call: call(x))(laid("x"))
        assert any(c is y for c in graph.consts)
        inside = graph.eqns[-1].params["jaxpr"]
        assert not any(c is y for c in inside.consts)
    slope = ga.jit(ga.grad(ga.checkpoint(lambda x: (gnp.sin(x) * y).sum())))(laid("x"))
    np.testing.assert_allclose(slope, np.cos(X) * X, rtol=1e-5)
