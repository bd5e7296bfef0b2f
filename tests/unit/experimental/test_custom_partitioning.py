"""`custom_partitioning`: rules in text and in objects, what they cut, and what each device runs."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)
from gpuarray.sharding import AxisType, Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def mesh(*sizes: int) -> Mesh:
    names = ("x", "y")[: len(sizes)]
    return ga.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(sizes))


def laid(*spec, value=X):
    return ga.device_put(value, NamedSharding(mesh(4, 2), P(*spec)))


def ruled(fun, lower=None, static: tuple = (), seen: list | None = None, **options):
    """A function with a rule that leaves shardings as they are found."""

    def partition(mesh, args, result):
        if seen is not None:
            seen.append([tuple(a.sharding.spec) for a in ga.tree.leaves((args, result))])
        sharding = lambda s: s.sharding
        return mesh, lower or fun, ga.tree.map(sharding, result), ga.tree.map(sharding, args)

    made = custom_partitioning(fun, static)
    made.def_partition(partition, **options)
    return made


def sent(fun, *args) -> Counter:
    text = ga.jit(fun).lower(*args).as_text()
    return Counter({n: text.count(n) for n in ("all_gather", "psum", "all_to_all") if n in text})


# ---- rules ----


@pytest.mark.parametrize(
    "text, operands, results",
    [
        ("i j -> j i", (("i", "j"),), (("j", "i"),)),
        ("i k,k j->i j", (("i", "k"), ("k", "j")), (("i", "j"),)),
        ("... i -> ... i", ((BATCHING, "i"),), ((BATCHING, "i"),)),
        ("...1 i, ...2 -> ...1 i", (("…1", "i"), ("…2",)), (("…1", "i"),)),
        ("(i j) -> i j", ((("i", "j"),),), (("i", "j"),)),
        ("-> i", ((),), (("i",),)),
        ("i ->", (("i",),), ((),)),
        (", ->", ((), ()), ((),)),
        ("row_1 I -> I", (("row_1", "I"),), (("I",),)),
    ],
)
def test_texts_are_mappings(text, operands, results):
    made = custom_partitioning(lambda x: x)
    made.def_partition(lambda *_: None, sharding_rule=text)
    assert made._rule is not None
    assert made._rule.sharding_rule == SdyShardingRule(operands, results)


@pytest.mark.parametrize(
    "text, options, said",
    [
        ("i j", {}, "There is no -> in rule"),
        ("i -> i -> i", {}, "There is no -> in rule"),
        ("i ... -> i", {}, "Ellipsis can only be used at the beginning"),
        ("(i) -> i", {}, "at least two factors"),
        ("() -> i", {}, "at least two factors"),
        ("(i j -> i j", {}, "not balanced"),
        ("i) -> i", {}, "not balanced"),
        ("((i j) k) -> i", {}, "nested brackets"),
        ("(... i) -> i", {}, "Ellipsis can't be used in a compound factor"),
        ("1 j -> j", {}, "start with a letter"),
        ("i* -> i", {}, r"Unknown character '\*'"),
        ("(i j) -> j", {}, "Factor i is only used in compound factors"),
        ("i -> i", {"i": 3}, "Factor i represents a whole dimension"),
        ("i -> i", {"q": 3}, "Factor q is not used in the rule, but"),
        ("i -> i", {"reduction_factors": ("q",)}, "Factor q in reduction_factors is not used"),
        ("i j -> i", {"reduction_factors": "j", "permutation_factors": "j"}, "can only be in one"),
        ("i -> i", {"reduction_factors": ("i",)}, "reduction factor cannot be in result mappings"),
    ],
)
def test_what_is_no_rule(text, options, said):
    with pytest.raises(ValueError, match=said):
        custom_partitioning(lambda x: x).def_partition(
            lambda *_: None, sharding_rule=text, **options
        )


def test_what_is_no_mapping():
    with pytest.raises(ValueError, match="at least two factors"):
        CompoundFactor("i")
    with pytest.raises(ValueError, match="must be a str, but got 2"):
        CompoundFactor("i", 2)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="at the beginning"):
        ArrayMapping("i", BATCHING)
    with pytest.raises(ValueError, match="must be a str or CompoundFactor, got 3"):
        ArrayMapping(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="rule must be a str"):
        custom_partitioning(lambda x: x).def_partition(lambda *_: None, sharding_rule=3)
    with pytest.raises(ValueError, match="Unknown keyword arguments"):
        custom_partitioning(lambda x: x).def_partition(
            lambda *_: None,
            sharding_rule=SdyShardingRule((("i",),), (("i",),)),
            need_replication_factors=("i",),
        )


def test_rules_are_shown_compared_and_hashed():
    one = SdyShardingRule((("i", "k"),), (("i",),), reduction_factors=("k",))
    assert repr(one) == "SdyShardingRule((('i', 'k'),), (('i',),), {} reduction_factors=('k',))"
    assert one == SdyShardingRule([("i", "k")], [("i",)], reduction_factors=("k",))
    assert hash(one) == hash(SdyShardingRule([("i", "k")], [("i",)], reduction_factors=["k"]))
    assert one != SdyShardingRule((("i", "k"),), (("i",),))


# ---- on one device ----


def test_without_a_mesh_it_is_the_function():
    double = ruled(lambda x: 2 * x, lambda x: 0 * x, sharding_rule="i j -> i j")
    np.testing.assert_array_equal(double(X), 2 * X)
    np.testing.assert_array_equal(ga.jit(double)(X), 2 * X)
    assert double.fun(X).sum() == 2 * X.sum()
    with pytest.raises(AttributeError, match="no rule: give one by def_partition"):
        custom_partitioning(lambda x: x)(X)
    with pytest.raises(TypeError, match="partition must be a function, got None"):
        custom_partitioning(lambda x: x).def_partition(None)  # pyright: ignore[reportArgumentType]


def test_printed_programs_show_the_rule():
    double = ruled(lambda x: 2 * x, sharding_rule="i j -> i j")
    text = str(ga.make_jaxpr(double)(X))
    for name in ("call", "partition", "sharding_rule=SdyShardingRule", "static_args", "in_tree"):
        assert name in text


def test_static_arguments_and_names():
    seen = []

    def partition(power, mesh, args, result):
        seen.append(power)
        return mesh, lambda x: x**power, result.sharding, (args[0].sharding,)

    made = custom_partitioning(lambda x, power: x**power, static_argnums=(1,))
    made.def_partition(partition, sharding_rule="i j -> i j")
    np.testing.assert_array_equal(ga.jit(lambda x: made(x, power=3))(X), X**3)
    with pytest.raises(TypeError, match="could not be resolved to positions: n of"):
        ruled(lambda x, *, n: x, sharding_rule="i -> i")(X, n=1)
    assert seen == []


def test_transforms_need_rules_of_their_own():
    double = ruled(lambda x: 2 * x, sharding_rule="... -> ...")
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'custom_partitioning'"):
        ga.grad(lambda x: double(x).sum())(X)
    with pytest.raises(NotImplementedError, match="Batching rule for 'custom_partitioning'"):
        ga.vmap(double)(X)
    around = ga.custom_vjp(lambda x: double(x))
    around.defvjp(lambda x: (double(x), None), lambda _, ct: (2 * ct,))
    np.testing.assert_array_equal(ga.grad(lambda x: around(x).sum())(X), np.full_like(X, 2))


def test_closures():
    three = gnp.float32(3)
    times = ruled(lambda x: three * x, sharding_rule="i j -> i j")
    np.testing.assert_array_equal(ga.jit(times)(X), 3 * X)

    def inside(x, factor):
        return ruled(lambda x: factor * x, sharding_rule="i j -> i j")(x)

    with pytest.raises(ga.errors.UnexpectedTracerError, match="pass it as an argument"):
        ga.jit(inside)(X, 3.0)


# ---- over devices ----


@pytest.mark.devices
def test_factors_are_cut_and_the_rest_gathered():
    seen: list = []
    rows = ruled(
        lambda x: gnp.fft.fft(x, axis=-1),
        seen=seen,
        sharding_rule="... i -> ... i",
        need_replication_factors=("i",),
    )
    out = ga.jit(rows)(laid("x", "y"))
    assert seen[-1] == [("x", None), ("x", None)]
    assert out.sharding.spec == P("x")
    np.testing.assert_allclose(out, np.fft.fft(X), rtol=1e-5, atol=1e-4)
    assert sent(rows, laid("x")) == {}
    assert sent(rows, laid("x", "y")) == {"all_gather": 1}


@pytest.mark.devices
def test_reductions_are_added_up_by_the_function_of_pieces():
    w = np.linspace(0, 1, 24, dtype=np.float32).reshape(4, 6)
    for lower, wanted in (
        (lambda a, b: lax.psum(a @ b, "y"), X @ w),
        (lambda a, b: a @ b, None),
    ):
        product = ruled(
            lambda a, b: a @ b,
            lower,
            sharding_rule="i k, k j -> i j",
            reduction_factors=("k",),
        )
        out = ga.jit(product)(laid("x", "y"), laid("y", value=w))
        assert out.sharding.spec == P("x")
        if wanted is not None:
            np.testing.assert_allclose(out, wanted, rtol=1e-5)
        else:
            # Each device's own share: nothing is added up that the function does not.
            np.testing.assert_allclose(out.addressable_shards[0].data, X[:2, :2] @ w[:2], rtol=1e-5)


@pytest.mark.devices
def test_permutations_pass_elements_on():
    def lower(x):
        left = lax.ppermute(x[-1:], "x", [(i, (i + 1) % 4) for i in range(4)])
        return gnp.concatenate([left, x[:-1]])

    rolled = ruled(
        lambda x: gnp.roll(x, 1, 0), lower, sharding_rule="i j -> i j", permutation_factors=("i",)
    )
    np.testing.assert_array_equal(ga.jit(rolled)(laid("x")), np.roll(X, 1, 0))


@pytest.mark.devices
def test_what_is_wanted_is_passed_back():
    seen: list = []
    double = ruled(lambda x: 2 * x, seen=seen, sharding_rule="i j -> i j")
    whole = NamedSharding(mesh(4, 2), P())
    f = ga.jit(double, in_shardings=whole, out_shardings=NamedSharding(mesh(4, 2), P("x", "y")))
    np.testing.assert_array_equal(f(X), 2 * X)
    assert seen[-1] == [("x", "y"), ("x", "y")]


@pytest.mark.devices
def test_compound_factors():
    seen: list = []
    flat = ruled(lambda x: x.reshape(-1), seen=seen, sharding_rule="i j -> (i j)")
    out = ga.jit(flat)(laid("x"))
    np.testing.assert_array_equal(out, X.reshape(-1))
    assert seen[-1] == [("x", None), ("x",)]
    # Pieces of the minor factor are no runs of the whole: it is gathered.
    np.testing.assert_array_equal(ga.jit(flat)(laid("x", "y")), X.reshape(-1))
    assert seen[-1] == [("x", None), ("x",)]
    pairs = ruled(
        lambda x: x.reshape(4, 2, 4).sum(1),
        lambda x: x.reshape(-1, 2, 4).sum(1),
        sharding_rule="(i j) k -> i k",
        j=2,
    )
    np.testing.assert_array_equal(ga.jit(pairs)(laid("x")), X.reshape(4, 2, 4).sum(1))


@pytest.mark.devices
def test_factors_before_one_that_is_whole_are_cut():
    """Pieces of what follows it would have gaps, wherever that factor is."""
    seen: list = []
    rule = "(i k) j, (i k j) -> (i k j)"
    fun = ruled(
        lambda a, b: a.reshape(-1) + b,
        seen=seen,
        sharding_rule=rule,
        i=4,
        k=2,
        need_replication_factors=("k",),
    )
    b = np.arange(32, dtype=np.float32)
    for specs in ((("x", None), ("x",)), ((None, "y"), ("x",)), (("x", "y"), (("x", "y"),))):
        out = ga.jit(fun)(laid(*specs[0]), laid(*specs[1], value=b))
        assert out.sharding.spec == P("x")
        np.testing.assert_array_equal(out, X.reshape(-1) + b)
    assert seen == [[("x", None), ("x",), ("x",)]] * 3


@pytest.mark.devices
def test_results_that_are_scalars():
    fun = ruled(
        lambda v: v.sum(),
        lambda v: lax.psum(v.sum(), ("x", "y")),
        sharding_rule="i j ->",
        reduction_factors=("i", "j"),
    )
    out = ga.jit(fun)(laid("x", "y"))
    assert out == X.sum() and out.sharding.is_fully_replicated


@pytest.mark.devices
def test_axes_that_do_not_fit_the_rule():
    for rule, said in (
        ("i -> i", "0th operand has rank 1, but the operation 0th operand has rank 2"),
        ("i j, i j -> i j", "has 2 operands, but the operation has 1 operands"),
        ("i j -> i j, i", "has 2 results, but the operation has 1 results"),
        ("... i j k -> i j k", "has rank 3, but the operation 0th operand has rank 2"),
        ("... k -> ...", "different number of leading dimensions 1 and 2"),
    ):
        with pytest.raises(ValueError, match=said):
            ga.jit(ruled(lambda x: 2 * x, sharding_rule=rule))(laid("x"))
    with pytest.raises(ValueError, match="doesn't match the size 6"):
        ga.jit(ruled(lambda x: x, sharding_rule="(i j) k -> (i j) k", i=3, j=2))(laid("x"))
    # Lengths that differ: such an axis is never cut.
    seen: list = []
    first = ruled(lambda a, b: a, seen=seen, sharding_rule="i j, j i -> i j")
    np.testing.assert_array_equal(ga.jit(first)(laid("x"), laid("x", value=X[:4, :3])), X)
    assert seen[-1] == [(None, "x"), ("x", None), (None, "x")]


@pytest.mark.devices
def test_pytrees_and_rules_as_functions():
    asked: list = []

    def rule(mesh, args, result):
        asked.append((mesh.axis_names, args[0]["a"].shape, sorted(result)))
        return "i j, i j -> i, i j"

    def both(d):
        return {"sum": d["a"] + d["b"], "rows": d["a"].sum(1)}

    made = ruled(both, sharding_rule=rule)
    out = ga.jit(made)({"a": laid("x"), "b": laid("x")})
    np.testing.assert_array_equal(out["sum"], 2 * X)
    np.testing.assert_array_equal(out["rows"], X.sum(1))
    assert asked[-1] == (("x", "y"), (8, 4), ["rows", "sum"])


@pytest.mark.devices
def test_without_a_rule_operands_stay_and_results_are_inferred():
    made = ruled(
        lambda x: 2 * x, infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding
    )
    assert ga.jit(made)(laid("x", "y")).sharding.spec == P("x", "y")
    # Nobody says how results lie: every device is to have them whole.
    whole = ruled(lambda x: 2 * x, lambda x: lax.all_gather(2 * x, "x", tiled=True))
    out = ga.jit(whole)(laid("x"))
    assert out.is_fully_replicated
    np.testing.assert_array_equal(out, 2 * X)


@pytest.mark.devices
def test_partition_may_choose_other_layouts():
    def columns(mesh, args, result):
        sharding = NamedSharding(mesh, P(None, "x"))
        return mesh, lambda x: x.cumsum(0), sharding, (sharding,)

    made = custom_partitioning(lambda x: x.cumsum(0))
    made.def_partition(columns, sharding_rule="i j -> i j")
    out = ga.jit(made)(laid("x"))
    assert out.sharding.spec == P(None, "x")
    np.testing.assert_array_equal(out, X.cumsum(0))


@pytest.mark.devices
@pytest.mark.parametrize(
    "returned, error, said",
    [
        (lambda m, s: (m, lambda x: x), ValueError, r"must return \(mesh, lower_fn"),
        (lambda m, s: (m, lambda x: x, s, s), ValueError, "for arguments .* structure"),
        (lambda m, s: (m, lambda x: x, s, [s]), ValueError, "for arguments .* structure"),
        (lambda m, s: (m, lambda x: x, P("x"), (P("x"),)), TypeError, "must return NamedSharding"),
        (lambda m, s: (m, lambda x: x.sum(1), s, (s,)), ValueError, "Mismatch in result shapes"),
        (lambda m, s: (m, lambda x: (x, x), s, (s,)), ValueError, "Mismatch in result shapes"),
        (
            lambda m, s: (m, lambda x: x, s, (NamedSharding(mesh(8), P("x")),)),
            ValueError,
            "all must be over the mesh",
        ),
        (
            lambda m, s: (m, lambda x: x, NamedSharding(m, P("x", None, "y")), (s,)),
            ValueError,
            "rank at least 3",
        ),
    ],
)  # fmt: skip
def test_what_partition_must_return(returned, error, said):
    made = custom_partitioning(lambda x: 2 * x)
    made.def_partition(
        lambda m, args, result: returned(m, result.sharding), sharding_rule="i j -> i j"
    )
    with pytest.raises(error, match=said):
        ga.jit(made)(laid("x", "y"))


@pytest.mark.devices
def test_in_loops_and_in_shard_map():
    double = ruled(lambda x: 2 * x, sharding_rule="i j -> i j")

    def loop(x):
        return lax.fori_loop(0, 3, lambda _, v: double(v), x)

    out: Any = ga.jit(loop)(laid("x", "y"))
    assert out.sharding.spec == P("x", "y")
    np.testing.assert_array_equal(out, 8 * X)
    cut = ga.shard_map(double, mesh=mesh(4, 2), in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(ga.jit(cut)(X), 2 * X)
    # There pieces are one device's own, and how axes are cut is nobody's question.
    other = ruled(lambda x: 2 * x, sharding_rule="i -> i")
    cut = ga.shard_map(other, mesh=mesh(4, 2), in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(ga.jit(cut)(X), 2 * X)


@pytest.mark.devices
def test_over_several_meshes_the_rule_is_given_one():
    seen: list = []
    add = ruled(lambda a, b: a + b, seen=seen, sharding_rule="i j, i j -> i j")
    eight = ga.device_put(X, NamedSharding(mesh(8), P("x")))
    np.testing.assert_array_equal(ga.jit(add)(laid("x", "y"), eight), 2 * X)
    np.testing.assert_array_equal(ga.jit(add)(eight, laid("y")), 2 * X)
    assert len(seen) == 2
