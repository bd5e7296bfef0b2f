"""What libraries that trace for themselves use: WrappedFun, traces of their own, platforms, places.

Most names are compared with JAX by tests/parity/recipes/libraries.py; here is what no call shows.
"""

import gc
import weakref

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import api_util, errors, sites
from gpuarray.extend import backend, core, source_info_util
from gpuarray.extend import linear_util as lu
from gpuarray.interpreters import partial_eval as pe
from gpuarray.interpreters import pxla, xla


def test_stores_are_filled_once():
    store = lu.Store()
    with pytest.raises(lu.StoreException, match="empty"):
        _ = store.val
    store.store(3)
    assert store.val == 3 and store
    with pytest.raises(lu.StoreException, match="occupied"):
        store.store(4)
    store.reset()
    assert not store
    with pytest.raises(lu.StoreException):
        lu.merge_linear_aux(lambda: store.val, lambda: store.val)


def test_a_cache_of_wrapped_functions():
    calls = []

    @lu.cache
    def traced(fun, n):
        calls.append(n)
        return fun.call_wrapped(n)

    def f(n):
        return (n, [n + 1])

    def flat():
        return api_util.flatten_fun_nokwargs(lu.wrap_init(f), ga.tree.structure((1,)))

    # Equal functions, made twice: the second finds the result, and its store is filled.
    for _ in range(2):
        fun, out_tree = flat()
        assert traced(fun, 3) == [3, 4]
        assert out_tree() == ga.tree.structure((0, [0]))
    assert calls == [3]
    ga.clear_caches()
    fun, _ = flat()
    traced(fun, 3)
    assert calls == [3, 3]


def test_what_a_cache_keeps_goes_with_the_function():
    traced = lu.cache(lambda fun: fun.call_wrapped())

    class Called:
        def __call__(self):
            return 3

    function = Called()
    assert traced(lu.wrap_init(function)) == 3
    alive = weakref.ref(function)
    del function
    gc.collect()
    assert alive() is None


class Counting(core.Trace):
    """Counts operations by name and does them in the trace around."""

    def __init__(self, parent):
        super().__init__()
        self.around, self.names = parent, []

    def process_primitive(self, primitive, tracers, params):
        self.names.append(str(primitive))
        values = [t.value if isinstance(t, Counted) else t for t in tracers]
        avals = [ga.typeof(v) for v in values]
        out = primitive.bind_with_trace(self.around, values, avals, params)
        return ga.tree.map(lambda v: Counted(self, v), out)


class Counted(core.Tracer):
    def __init__(self, trace, value):
        super().__init__(trace, ga.typeof(value))
        self.value = value


def test_a_trace_of_ones_own():
    def run(x):
        with core.take_current_trace() as parent:
            trace = Counting(parent)
            with core.set_current_trace(trace):
                # An array of NumPy's becomes one in the trace around, which this one does not name.
                two = gnp.asarray(np.full(3, 2, "float32"))
                out = gnp.sum(gnp.sin(Counted(trace, x)) * two)
        return out.value, trace.names

    value, names = run(gnp.arange(3.0))
    np.testing.assert_allclose(value, 2 * np.sin(np.arange(3.0)).sum(), rtol=1e-6)
    assert {"sin", "mul", "reduce_sum"} <= set(names)
    # Inside of other transformations, too.
    inner = lambda x: run(x)[0]
    np.testing.assert_allclose(ga.jit(inner)(gnp.arange(3.0)), value, rtol=1e-6)
    np.testing.assert_allclose(
        ga.grad(inner)(gnp.arange(3.0)), 2 * np.cos(np.arange(3.0)), rtol=1e-6
    )


def test_a_trace_without_a_rule_says_so():
    with core.set_current_trace(core.Trace()), pytest.raises(TypeError, match="cannot evaluate"):
        gnp.sin(1.0)


def test_types_that_a_library_adds():
    from gpuarray.compat.core import pytype_aval_mappings as avals

    class Boxed:
        def __init__(self, value):
            self.value = value

    with pytest.raises(TypeError):
        ga.typeof(Boxed(1))
    avals[Boxed] = lambda x: core.ShapedArray(np.shape(x.value), "float32")
    xla.canonicalize_dtype_handlers[Boxed] = lambda x: np.asarray(x.value, "float32")
    try:
        assert ga.typeof(Boxed([1, 2])).shape == (2,)
        np.testing.assert_array_equal(ga.jit(lambda x: x + 1)(Boxed([1, 2])), [2, 3])
    finally:
        del avals[Boxed], xla.canonicalize_dtype_handlers[Boxed]


def test_partial_values_are_one_or_the_other():
    with pytest.raises(TypeError, match="PartialVal"):
        pe.PartialVal((core.ShapedArray((), "float32"), 1.0))


def test_partial_evaluation_sees_known_values():
    seen = []

    def f(x, y):
        seen.append(float(x))  # known: a value
        return [x + y]

    unknown = pe.PartialVal.unknown(core.ShapedArray((), "float32"))
    graph, (out,), consts = pe.trace_to_jaxpr_nounits(
        lu.wrap_init(f), [pe.PartialVal.known(2.0), unknown]
    )
    assert seen == [2.0] and not out.is_known()
    assert core.eval_jaxpr(graph, consts, 3.0)[0] == 5.0
    with pytest.raises(errors.ConcretizationTypeError):
        pe.trace_to_jaxpr_nounits(lu.wrap_init(f), [unknown, unknown])


def test_rules_of_ones_own_for_dead_code():
    graph = ga.make_jaxpr(lambda x: (gnp.sin(x), gnp.cos(x)))(1.0)
    asked = []

    def rule(used, eqn):
        asked.append(used)
        return [True], eqn

    pe.dce_rules[core.primitives.sin_p] = rule
    try:
        short, used = pe.dce_jaxpr(graph, [True, False])
    finally:
        del pe.dce_rules[core.primitives.sin_p]
    assert asked == [[True]] and len(short.eqns) == 1 and used == [True]
    short, constants, used = pe.dce_jaxpr_consts(graph, [False, False], True)
    assert not short.eqns and used == [True] and constants == []


def test_well_formed_programs():
    graph = ga.make_jaxpr(lambda x: gnp.sin(x) + 1)(1.0)
    core.check_jaxpr(graph)
    wrong = core.Jaxpr(graph.constvars, graph.invars, graph.outvars, graph.eqns[::-1])
    with pytest.raises(errors.JaxprTypeError, match="before it is defined"):
        core.check_jaxpr(wrong)


def test_programs_made_by_hand():
    def scaled(x, y):
        return {"out": x["a"] * y + gnp.ones(2)}

    graph = ga.make_jaxpr(scaled)({"a": 1.0}, 2.0)
    info = graph.jaxpr.debug_info
    assert (info.func_name, info.arg_names) == ("scaled", ("x['a']", "y"))
    assert info.func_src_info.startswith("scaled at ") and info.traced_for
    made = core.Jaxpr(graph.constvars, graph.invars, graph.outvars, graph.eqns, graph.effects, info)
    closed = core.ClosedJaxpr(made, graph.consts)
    assert closed == graph and str(closed) == str(graph) and closed.debug_info == info
    assert graph.replace(consts=graph.consts).debug_info == info
    for x in (graph, made, closed):
        assert isinstance(x, core.Jaxpr) and isinstance(x, core.ClosedJaxpr)
    assert not isinstance(graph.eqns[0], core.Jaxpr)
    np.testing.assert_array_equal(core.jaxpr_as_fun(closed)(2.0, 3.0)[0], [7.0, 7.0])
    # Constants without values: the program may be looked at, and run with values.
    w = gnp.arange(3.0)
    graph = ga.make_jaxpr(lambda x: x * w)(2.0)
    opened = core.Jaxpr(graph.constvars, graph.invars, graph.outvars, graph.eqns)
    core.check_jaxpr(opened)
    np.testing.assert_array_equal(core.eval_jaxpr(opened, [w], 2.0)[0], 2 * np.arange(3))
    for run in (lambda: core.eval_jaxpr(opened, [], 2.0), lambda: core.jaxpr_as_fun(opened)(2.0)):
        with pytest.raises(TypeError, match="with 1 constants takes as many values, got 0"):
            run()
    with pytest.raises(ValueError, match="with 0 constants takes as many values, got 1"):
        core.ClosedJaxpr(made, [1.0])
    with pytest.raises(ValueError, match="is_high"):
        core.Jaxpr((), graph.invars, graph.outvars, graph.eqns, is_high=True)
    # In messages too, the function is the user's.
    with pytest.raises(
        errors.TracerBoolConversionError, match=r"function _branch(.|\n)*argument x"
    ):
        ga.make_jaxpr(_branch)(1.0)


def _branch(x):
    return x if x > 0 else -x


def test_names_of_scopes():
    with source_info_util.extend_name_stack("a"), source_info_util.extend_name_stack("b") as names:
        assert str(names) == str(source_info_util.current_name_stack()) == "a/b"
        with source_info_util.reset_name_stack():
            assert len(source_info_util.current_name_stack()) == 0
        with source_info_util.transform_name_stack("vmap") as inner:
            assert str(inner) == "vmap(a/b)"
        graph = ga.make_jaxpr(lambda x: gnp.sin(x))(1.0)
    assert str(source_info_util.current_name_stack()) == ""
    # What is traced in scopes of its own has none of those around.
    assert source_info_util.summarize(graph.eqns[0].source_info).endswith("(<lambda>)")
    site = graph.eqns[0].source_info.site
    with pytest.raises(ValueError) as e, source_info_util.user_context(site):
        raise ValueError("wrong")
    assert "test_libraries.py" in e.value.__notes__[0]


def test_files_of_libraries_are_left_out():
    def where():
        return ga.make_jaxpr(lambda x: x * 2)(1.0).eqns[0].source_info.site.filename

    assert where() == __file__
    source_info_util.register_exclusion(__file__)
    try:
        assert where() != __file__
    finally:
        sites.excluded.remove(__file__)
    assert where() == __file__


def test_platforms():
    assert backend.get_backend("cpu") is ga.devices("cpu")[0].client
    assert backend.get_backend(backend.get_backend("cpu")).platform == "cpu"
    assert backend.get_default_device() in ga.devices()
    with pytest.raises(TypeError, match="cache_clear"):
        backend.register_backend_cache(3, "numbers")


def test_the_mesh_of_older_programs():
    mesh = ga.sharding.Mesh(np.array(ga.devices("cpu")[:1]), ("x",))
    with pytest.warns(DeprecationWarning, match="with mesh"), mesh:
        assert pxla.thread_resources.env.physical_mesh == mesh
    assert pxla.thread_resources.env.physical_mesh.empty


def test_where_no_mesh_is_set_a_sharding_of_none_asks_for_nothing():
    sharding = ga.typeof(gnp.ones((2, 3))).sharding
    key = ga.random.key(0)
    want = ga.random.bernoulli(key, 0.5, (2, 3))
    np.testing.assert_array_equal(
        ga.random.bernoulli(key, 0.5, (2, 3), out_sharding=sharding), want
    )
