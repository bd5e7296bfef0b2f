"""Primitives defined from outside, rule by rule (`gpuarray.extend`, `gpuarray.interpreters`)."""

import copy
import pickle

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.core.primitive import registry
from gpuarray.extend import core, source_info_util
from gpuarray.extend.core import (
    AbstractValue,
    Atom,
    Primitive,
    ShapedArray,
    eval_jaxpr,
    find_top_trace,
    get_aval,
    mapped_aval,
    primitives,
    unmapped_aval,
)
from gpuarray.interpreters import ad, batching, mlir


def multiply_add():
    """x * y + z, with every rule given after the fact."""
    p = Primitive("multiply_add")
    p.def_abstract_eval(lambda x, y, z: ShapedArray(x.shape, x.dtype))
    p.def_impl(lambda x, y, z: x * y + z)

    def jvp(primals, tangents):
        x, y, z = primals
        dx, dy, dz = map(ad.instantiate_zeros, tangents)
        return p.bind(x, y, z), p.bind(dx, y, p.bind(x, dy, dz))

    def transpose(ct, x, y, z):
        zero = gnp.zeros_like(ct)
        if ad.is_undefined_primal(x):
            return p.bind(ct, y, zero), None, ct
        return None, p.bind(x, ct, zero), ct

    ad.primitive_jvps[p] = jvp
    ad.primitive_transposes[p] = transpose
    batching.primitive_batchers[p] = lambda args, dims: (
        p.bind(*(batching.moveaxis(a, d, 0) for a, d in zip(args, dims, strict=True))),
        0,
    )
    return p


P = multiply_add()
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
def test_runs_everywhere():
    want = np.asarray(X) * 2 + 1
    two, one = gnp.full_like(X, 2), gnp.ones_like(X)
    np.testing.assert_array_equal(P.bind(X, two, one), want)
    np.testing.assert_array_equal(ga.jit(P.bind)(X, two, one), want)
    np.testing.assert_array_equal(ga.vmap(P.bind, (1, 1, 1), 1)(X, two, one), want)
    assert "multiply_add" in str(ga.make_jaxpr(P.bind)(X, two, one))


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
def test_derivatives():
    f = lambda x: gnp.sum(P.bind(x, gnp.sin(x), x) ** 2)
    g = lambda x: gnp.sum((x * gnp.sin(x) + x) ** 2)
    np.testing.assert_allclose(ga.grad(f)(X), ga.grad(g)(X), rtol=1e-5)
    np.testing.assert_allclose(ga.jit(ga.grad(f))(X), ga.grad(g)(X), rtol=1e-5)
    np.testing.assert_allclose(
        ga.jvp(f, (X,), (gnp.ones_like(X),))[1], ga.jvp(g, (X,), (gnp.ones_like(X),))[1], rtol=1e-5
    )


def test_a_missing_rule_is_named():
    bare = Primitive("bare")
    bare.def_abstract_eval(lambda x: x)
    with pytest.raises(TypeError, match="bare"):
        bare.bind(1.0)
    bare.def_impl(lambda x: x)
    with pytest.raises(TypeError, match="Differentiation rule for 'bare'"):
        ga.grad(bare.bind)(1.0)
    with pytest.raises(TypeError, match="Batching rule for 'bare'"):
        ga.vmap(bare.bind)(X)
    assert bare not in ad.primitive_jvps and bare not in batching.primitive_batchers
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(bare)


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
def test_several_results():
    p = Primitive("divide_rest")
    p.multiple_results = True
    p.def_abstract_eval(lambda x, y: (x, x))
    p.def_impl(lambda x, y: np.divmod(x, y))
    quotient, rest = ga.jit(p.bind)(gnp.arange(5.0), gnp.full(5, 2.0))
    np.testing.assert_array_equal(quotient, [0, 0, 1, 1, 2])
    np.testing.assert_array_equal(rest, [0, 1, 0, 1, 0])


def test_lowering_is_compiled_with_what_is_around():
    p = Primitive("fourth_power")
    p.def_abstract_eval(lambda x, *, scale: x)
    mlir.register_lowering(p, mlir.lower_fun(lambda x, *, scale: scale * x * x * x * x, False))
    f = lambda x: gnp.exp(p.bind(x, scale=2.0)) + 1
    np.testing.assert_allclose(ga.jit(f)(0.5 * X), f(0.5 * X), rtol=1e-6)
    assert len(ga.explain(f)(X).kernels) == 1
    with pytest.raises(TypeError, match="lower_fun"):
        mlir.register_lowering(p, None)
    with pytest.raises(ValueError, match="multiple_results"):
        mlir.register_lowering(p, mlir.lower_fun(lambda x: [x]))


def test_results_of_a_lowering_are_typed_as_the_primitive_says():
    """Weakly or not: the rule for shapes decides, the operations of the lowering do not."""
    p = Primitive("counted")
    p.def_abstract_eval(lambda x: ShapedArray((), np.dtype("int32")))
    mlir.register_lowering(p, mlir.lower_fun(lambda x: ga.lax.add(0, 1), False))
    for found in (p.bind(1.0), ga.jit(p.bind)(1.0)):
        assert found.dtype == np.int32 and not found.aval.weak_type and int(found) == 1


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
def test_a_lowering_that_builds_mlir_leaves_the_implementation():
    p = Primitive("shown")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, lambda ctx, x: ctx.build(x))
    with pytest.raises(ga.errors.MissingRuleError, match="'shown'.*builds MLIR.*def_impl"):
        ga.jit(p.bind)(X)
    p.def_impl(lambda x: x + 1)
    mlir.register_lowering(p, lambda ctx, x: ctx.build(x), platform="tpu")
    np.testing.assert_array_equal(ga.jit(p.bind)(X), X + 1)


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
def test_short_ways():
    twice = Primitive("twice")
    twice.def_abstract_eval(lambda x: x)
    twice.def_impl(lambda x: 2 * x)
    ad.deflinear2(twice, lambda ct, x: [twice.bind(ct)])
    batching.defvectorized(twice)
    assert ga.grad(lambda x: twice.bind(x) ** 2)(3.0) == 24
    np.testing.assert_array_equal(ga.vmap(twice.bind, 1)(X), 2 * X.T)

    product = Primitive("product")
    product.def_abstract_eval(lambda x, y: x)
    product.def_impl(lambda x, y: x * y)
    ad.defbilinear(
        product, lambda ct, x, y: product.bind(ct, y), lambda ct, x, y: product.bind(x, ct)
    )
    assert ga.grad(product.bind, 0)(3.0, 5.0) == 5
    assert ga.grad(product.bind, 1)(3.0, 5.0) == 3


def test_tables_know_the_library_too():
    sin = registry["sin"]
    assert sin in ad.primitive_jvps and sin in batching.primitive_batchers
    out, tangent = ad.primitive_jvps[sin]((X,), (gnp.ones_like(X),))
    np.testing.assert_allclose(tangent, np.cos(np.asarray(X)), rtol=1e-6)
    out, dim = batching.fancy_primitive_batchers[sin](None, (X,), (1,), accuracy=None)
    assert dim == 1
    other, dim = batching.axis_primitive_batchers[sin](3, None, None, (X,), (1,), accuracy=None)
    np.testing.assert_array_equal(other, out)
    assert dim == 1
    np.testing.assert_allclose(out, np.sin(np.asarray(X)), rtol=1e-6)
    with pytest.raises(KeyError):
        ad.primitive_transposes[Primitive("nothing")]


def test_batching_rules_that_want_the_axis():
    """JAX's two signatures: the axis as one object, or as its size, its name and None."""
    count = Primitive("count")
    count.def_abstract_eval(lambda x: x)
    count.def_impl(lambda x: x)
    batching.fancy_primitive_batchers[count] = lambda axis, xs, dims: (
        xs[0] * axis.size + (axis.name == "i"),
        dims[0],
    )
    np.testing.assert_array_equal(ga.vmap(count.bind)(gnp.ones(3)), [3, 3, 3])
    np.testing.assert_array_equal(ga.vmap(count.bind, axis_name="i")(gnp.ones(3)), [4, 4, 4])
    batching.axis_primitive_batchers[count] = lambda size, name, trace, xs, dims: (
        xs[0] * size - (name == "i") * (trace is None),
        dims[0],
    )
    np.testing.assert_array_equal(ga.vmap(count.bind, axis_name="i")(gnp.ones(3)), [2, 2, 2])


def test_primitives_by_their_names():
    graph = ga.make_jaxpr(lambda x: gnp.where(x > 0, x, 0))(X)
    names = {eqn.primitive for eqn in graph.jaxpr.eqns}
    assert {primitives.gt_p, primitives.jit_p} & names
    assert primitives.select_n_p is registry["select_n"] and "while_p" in dir(primitives)
    with pytest.raises(AttributeError, match="'none_p'"):
        _ = primitives.none_p
    assert isinstance(graph.jaxpr.eqns[0].invars[0], Atom)
    assert isinstance(graph.in_avals[0], AbstractValue)
    assert graph.in_avals[0].to_tangent_aval() == graph.in_avals[0]
    assert get_aval(3).to_tangent_aval().dtype == ga.dtypes.float0


def test_the_innermost_trace_is_that_of_its_tracers():
    seen = []

    def f(x):
        seen.append((find_top_trace([x]).main, x._trace.main, type(x)))
        return x

    ga.jvp(f, (1.0,), (1.0,))
    ((top, own, kind),) = seen
    assert top is own and kind is ad.JVPTracer


def test_graphs_as_data():
    graph = ga.make_jaxpr(lambda x, y: (x * y, x + 1))(2.0, 3.0)
    many = ga.make_jaxpr(lambda x: x + np.arange(3.0))(gnp.ones(3))
    again = ga.jit(lambda x: eval_jaxpr(many.jaxpr, many.consts, x)[0])
    np.testing.assert_array_equal(again(gnp.ones(3)), [1, 2, 3])
    with_traced = ga.jit(lambda c, x: eval_jaxpr(many.jaxpr, [c], x)[0])
    np.testing.assert_array_equal(with_traced(gnp.zeros(3), gnp.ones(3)), [1, 1, 1])
    assert [float(v) for v in eval_jaxpr(graph.jaxpr, graph.consts, 4.0, 5.0)] == [20.0, 5.0]
    aval = ShapedArray((3, 4), np.float32)
    assert mapped_aval(4, 1, aval).shape == (3,)
    assert unmapped_aval(4, 1, mapped_aval(4, 1, aval)) == aval
    with pytest.raises(ValueError, match="length 5"):
        mapped_aval(5, 0, aval)


def test_the_names_of_jax_core():
    seen = []
    ga.jit(lambda x: seen.append(isinstance(x, ga.core.Tracer)) or x)(1.0)
    assert seen == [True] and not isinstance(gnp.ones(2), ga.core.Tracer)
    assert ga.core.ShapedArray((2,), "float32") == ga.typeof(gnp.ones(2))
    a, b = gnp.arange(2.0), gnp.ones(2)
    graph = ga.make_jaxpr(lambda x: x + a)(b)
    assert ga.core.eval_jaxpr(graph.jaxpr, graph.consts, b)[0].tolist() == [1.0, 2.0]
    assert ga.core.eval_jaxpr(graph.jaxpr, [a * 10], b)[0].tolist() == [1.0, 11.0]


#: Without their "_p".
JAX_PRIMITIVES = """
    abs acos acosh add_jaxvals add after_all all_gather all_to_all and approx_top_k argmax
    argmin asin asinh atan2 atan atanh axis_index bessel_i0e bessel_i1e bitcast_convert_type
    broadcast_in_dim call cbrt ceil cholesky clamp closed_call clz complex concatenate cond conj
    conv_general_dilated convert_element_type copy cos cosh create_token cumlogsumexp cummax
    cummin cumprod cumsum custom_jvp_call custom_lin custom_vjp_call device_put digamma div
    dot_general dynamic_slice dynamic_update_slice eig eigh empty2 eq eq_to erf_inv erf erfc
    exp2 exp expm1 fft floor gather ge get gt hessenberg householder_product igamma_grad_a
    igamma igammac imag integer_pow iota is_finite jit le le_to lgamma linear_solve log1p log
    logistic lt lt_to lu max min mul name ne neg nextafter not or pad pmax pmin polygamma
    population_count pow ppermute psum qr ragged_all_to_all random_bits random_fold_in
    random_gamma random_seed random_split real reduce_and reduce_max reduce_min reduce_or reduce
    reduce_precision reduce_prod reduce_sum reduce_window_max reduce_window_min reduce_window
    reduce_window_sum reduce_xor regularized_incomplete_beta rem remat reshape rev
    rng_bit_generator rng_uniform round rsqrt scan scatter_add scatter_max scatter_min
    scatter_mul scatter schur select_and_gather_add select_and_scatter_add select_and_scatter
    select_n sharding_constraint shift_left shift_right_arithmetic shift_right_logical sign sin
    sinh slice sort sqrt square squeeze stop_gradient sub svd swap tan tanh threefry2x32 top_k
    transpose triangular_solve tridiagonal tridiagonal_solve while xor zeta
"""
#: Those whose names in printed programs are others.
PRINTED = {
    "add_jaxvals": "add_any",
    "linear_solve": "custom_linear_solve",
    "remat": "remat2",
    **{f"scatter_{how}": f"scatter-{how}" for how in ("add", "max", "min", "mul")},
}


def test_every_primitive_of_jax_has_its_name():
    for short in JAX_PRIMITIVES.split():
        found = getattr(primitives, f"{short}_p")
        assert found.name == PRINTED.get(short, short)
        assert getattr(ga.lax, f"{short}_p", found) is found
        assert pickle.loads(pickle.dumps(found)) is found
        assert f"{short}_p" in dir(primitives)
    for name in ("odd_p", "add", "scatter-add_p_p"):
        with pytest.raises(AttributeError):
            getattr(primitives, name)


def test_primitives_that_programs_do_not_have():
    graph = ga.make_jaxpr(lambda x: x * x)(1.0)
    assert primitives.closed_call_p.bind(3.0, call_jaxpr=graph)[0] == 9
    assert primitives.call_p.bind(lambda x: (x + 1,), 3.0) == [4]
    device = ga.devices("cpu")[0]
    (put,) = primitives.device_put_p.bind(gnp.ones(2), devices=(device,), srcs=(None,))
    assert put.committed and put.device is device
    tokens = [primitives.create_token_p.bind() for _ in range(2)]
    assert primitives.after_all_p.bind(*tokens).shape == tokens[0].shape

    def ragged(x):
        one = gnp.zeros(1, int)
        out, sizes = gnp.zeros_like(x), one + 1
        found = primitives.ragged_all_to_all_p.bind(
            x, out, one, sizes, one, sizes, axis_name="i", axis_index_groups=None
        )
        return found

    np.testing.assert_array_equal(ga.vmap(ragged, axis_name="i")(gnp.ones((1, 3)))[0], [1, 0, 0])
    for name in ("empty2_p", "get_p", "swap_p"):
        with pytest.raises(TypeError, match=f"{name} has no `bind`.*: use"):
            getattr(primitives, name).bind(gnp.ones(2))


# ---- what interpreters of a user's ask of Graphs and equations ----


def test_an_interpreter_of_ones_own():
    def run(jaxpr, consts, *args):
        env = dict(zip(jaxpr.constvars, consts, strict=True))
        env |= dict(zip(jaxpr.invars, args, strict=True))
        read = lambda a: a.val if isinstance(a, core.Literal) else env[a]
        for eqn in jaxpr.eqns:
            assert not (eqn.primitive.call_primitive or eqn.primitive.map_primitive)
            subfuns, params = eqn.primitive.get_bind_params(eqn.params)
            with eqn.ctx.manager:
                out = eqn.primitive.bind(*subfuns, *map(read, eqn.invars), **params)
            out = out if eqn.primitive.multiple_results else [out]
            env |= dict(zip(eqn.outvars, out, strict=True))
        return [read(a) for a in jaxpr.outvars]

    table = gnp.arange(3.0)
    graph = ga.make_jaxpr(ga.jit(lambda x: gnp.sin(x) * table))(gnp.ones(3))
    assert run(graph.jaxpr, graph.consts, gnp.ones(3))[0].tolist() == pytest.approx(
        (np.sin(1.0) * np.arange(3.0)).tolist(), rel=1e-6
    )


def test_graphs_say_their_effects_and_are_replaced_in_part():
    pure = ga.make_jaxpr(lambda x: 2 * x)(1.0)
    assert not pure.effects and pure.pretty_print(use_color=False) == str(pure)

    def prints(x):
        ga.debug.print("{}", x)
        return x

    for f in (prints, ga.jit(prints)):
        graph = ga.make_jaxpr(f)(1.0)
        assert graph.effects == {ga.debug.DebugEffect()}
        assert any(eqn.effects == graph.effects for eqn in graph.eqns)

    def ordered(x):
        ga.debug.callback(print, x, ordered=True)
        return ga.experimental.io_callback(abs, x, ga.lax.add(x, x))

    names = {str(effect) for effect in ga.make_jaxpr(ordered)(1.0).effects}
    assert names == {"OrderedDebug", "IO"}
    swapped = pure.replace(outvars=pure.invars)
    assert core.jaxpr_as_fun(swapped)(3.0) == [3.0] and len(pure.replace(eqns=[]).eqns) == 0
    table = gnp.arange(2.0)
    consts = ga.make_jaxpr(lambda x: x + table)(1.0)
    other = consts.replace(consts=[gnp.ones(2)])
    assert core.jaxpr_as_fun(other)(1.0)[0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("several", [False, True])
def test_a_rule_that_gives_the_wrong_kind_of_avals_is_named(several):
    prim = Primitive(f"wrongly_{several}")
    prim.multiple_results = several
    prim.def_abstract_eval((lambda x: x) if several else lambda x: [x])
    prim.def_impl(lambda x: x)
    with pytest.raises(ValueError, match=f"{prim.name}.abstract_eval.. method should return"):
        ga.jit(prim.bind)(1.0)


# ---- primitives and programs that libraries change ----


@pytest.mark.on_cpu("a primitive of one's own has a NumPy rule alone")
def test_a_subclass_says_the_rules_itself():
    class Both(core.Primitive):
        multiple_results = True

        def __init__(self):
            super().__init__("both")

        def impl(self, x, *, by):
            return x, x * by

        def abstract_eval(self, x, *, by):
            return (x, x), set()

    both = Both()
    for fun in (lambda x: both.bind(x, by=3.0), ga.jit(lambda x: both.bind(x, by=3.0))):
        np.testing.assert_array_equal(np.asarray(fun(gnp.ones(2))), [[1, 1], [3, 3]])
    assert both.multiple_results and not core.Primitive("one").multiple_results


def test_a_copy_of_a_primitive_is_another_one():
    # PennyLane copies jit's and renames it; a program keeps the primitives it was made with.
    jit_p = core.primitives.jit_p
    for made in (copy.copy(jit_p), copy.deepcopy(jit_p)):
        made.name = "mine"
        assert made is not jit_p and jit_p.name == "jit" and registry["jit"] is jit_p
    graph = ga.make_jaxpr(ga.jit(lambda x: gnp.sin(x) * 2))(1.0)
    for again in (copy.deepcopy(graph), copy.deepcopy([graph])[0]):
        assert again == graph and again is not graph
        assert again.eqns[0].primitive is jit_p
        assert again.eqns[0].params["jaxpr"].eqns[0].primitive is core.primitives.sin_p


def test_replace_takes_what_the_constructor_takes():
    graph = ga.make_jaxpr(lambda first: first + 1)(1.0)
    other = ga.make_jaxpr(lambda second: second + 1)(1.0)
    made = graph.jaxpr.replace(debug_info=other.jaxpr.debug_info, effects=frozenset())
    assert made.debug_info.arg_names == ("second",) and made == graph
    assert graph.replace(eqns=graph.eqns).debug_info.arg_names == ("first",)


def test_interpreters_hand_a_place_on():
    (eqn,) = ga.make_jaxpr(lambda x: x + 1)(1.0).eqns
    with source_info_util.user_context(eqn.source_info.traceback):
        assert eqn.primitive.bind(1, 2) == 3
