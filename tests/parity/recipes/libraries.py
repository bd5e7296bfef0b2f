"""What libraries use to trace functions themselves: flat functions, partial evaluation, traces."""

from .dsl import Case, expressions


def module(name: str) -> str:
    """An expression for a module that is not an attribute of the package until it is imported."""
    return f"__import__('importlib').import_module(jax.__name__ + '.{name}')"


def given(text: str, **modules: str) -> str:
    """An expression with names for modules."""
    values = ", ".join(module(m) for m in modules.values())
    return f"(lambda {', '.join(modules)}: {text})({values})"


LU, API = "extend.linear_util", "api_util"
PE, CORE = "interpreters.partial_eval", "extend.core"
INFO = "api.debug_info('f', lambda *a, **k: None, (), {})"
FLAT = (
    "(lambda leaves, spec: (lambda pair: (pair[0].call_wrapped(*leaves), str(pair[1]())))"
    "(api.{}(lu.wrap_init({}, debug_info={}), spec)))(*jax.tree_util.tree_flatten({}))"
)


def partial(function: str, values: str) -> str:
    """An expression for what partial evaluation knows, and for the size of what is left."""
    return given(
        "(lambda out: ([p.is_known() for p in out[1]], [p.get_aval().shape for p in out[1]], "
        "[p.get_known() for p in out[1] if p.is_known()], len(out[0].eqns), len(out[0].invars)))"
        f"(pe.trace_to_jaxpr_nounits(lu.wrap_init({function}, debug_info={INFO}), {values}))",
        pe=PE, lu=LU, api=API,
    )  # fmt: skip


def seen(text: str, function: str = "jax.jit({})") -> str:
    """An expression for what a function sees while it is traced."""
    traced = function.format(f"lambda x: (seen.append({text}), x)[1]")
    found = given(f"{traced}(f32(3)) is None or seen", core=CORE)
    return found.replace("lambda core:", "lambda core, seen=[]:")


KNOWN, UNKNOWN = "pe.PartialVal.known(f32(3))", "pe.PartialVal.unknown(jax.typeof(f32(3)))"

TABLE = [
    ("linear_util.wrap_init", [
        given("lu.wrap_init(lambda x, y: [x - y, x * y]).call_wrapped(f32(3), f32(3))", lu=LU),
        given("lu.wrap_init(lambda x, y: x - y, {'y': 2.0}).call_wrapped(f32(3))", lu=LU),
        given("lu.wrap_init(abs) == lu.wrap_init(abs)", lu=LU),
        given("lu.wrap_init(abs) == lu.wrap_init(max)", lu=LU),
        given("lu.transformation2(lambda f, k, x: k * f(x))(lu.wrap_init(jnp.sin), 3.0)"
              ".call_wrapped(f32(3))", lu=LU),
        given("(lambda fun, aux: (fun.call_wrapped(f32(3)), aux()))(*lu.transformation_with_aux2("
              "lambda f, s, x: (s.store(7), f(x))[1])(lu.wrap_init(jnp.cos)))", lu=LU),
        given("lu.merge_linear_aux(lambda: 3, lambda: (_ for _ in ()).throw(lu.StoreException()))",
              lu=LU),
    ]),
    ("api_util.flatten_fun", [
        given(FLAT.format("flatten_fun", "lambda a, b: {'s': a + b, 'd': [a - b]}", INFO,
                          "((f32(3),), {'b': f32(3)})"), lu=LU, api=API),
        given(FLAT.format("flatten_fun_nokwargs", "lambda a, b: (b[0], a, None)", INFO,
                          "(f32(2), [f32(3)])"), lu=LU, api=API),
        given(FLAT.format("flatten_fun_nokwargs", "lambda a: a", INFO, "({'k': f32(2)},)"),
              lu=LU, api=API),
        given(FLAT.format("flatten_fun_nokwargs", "lambda *a: sum(a)", INFO, "(f32(2), f32(2))"),
              lu=LU, api=API),
        given(FLAT.format("flatten_fun", "lambda **k: sorted(k)", INFO, "((), {'b': f32(3)})"),
              lu=LU, api=API),
    ]),
    ("api_util.helpers", [
        given("api.rebase_donate_argnums((3, 5, 1), (0, 2))", api=API),
        given("api.rebase_donate_argnums((1,), (1,))", api=API),
        given("api.rebase_donate_argnums((), (1,))", api=API),
        given("api.donation_vector((1,), ('k',), jax.tree_util.tree_structure("
              "((1, (2, 3)), {'k': 4, 'm': [5, 6]})))", api=API),
        given("api.donation_vector((0,), (), jax.tree_util.tree_structure(((1, 4), (2, 3))), 0)",
              api=API),
        given("api.flatten_axes('axes', jax.tree_util.tree_structure((1, {'a': 2, 'b': 3})), "
              "(0, None))", api=API),
        given("api.flatten_axes('axes', jax.tree_util.tree_structure((1, 2)), (0, 1, 2))", api=API),
        given("api.safe_map(lambda a, b: a * b, [1, 2], [3, 4])", api=API),
        given("(lambda f, d: (f.call_wrapped(*d), d))(*api.argnums_partial(lu.wrap_init("
              "lambda a, b, c: a + 10 * b + 100 * c), (0, 2), (1, 2, 3)))", lu=LU, api=API),
        given("api.argnums_partial(lu.wrap_init(max), 4, (1, 2, 3))", lu=LU, api=API),
        given("api.argnums_partial(lu.wrap_init(max), 0, (1, [], 3))", lu=LU, api=API),
        given("api.debug_info('t', lambda x, *ys, z: 0, (1, 2, [3, 4]), {'z': {'k': 5}}).arg_names",
              api=API),
        given("api.shaped_abstractify(f32(2, 3)).shape", api=API),
    ]),
    ("partial_eval.trace_to_jaxpr_nounits", [
        partial("lambda x, y: [jnp.sin(x), x * y]", f"[{KNOWN}, {UNKNOWN}]"),
        partial("lambda x, y: [x + 1, y]", f"[{KNOWN}, {UNKNOWN}]"),
        partial("lambda x, y: [x + y]", f"[{UNKNOWN}, {UNKNOWN}]"),
        partial("lambda x: [x * 2]", f"[{KNOWN}]"),
        given("(lambda out: (len(out[0].eqns), [a.shape for a in out[1]]))"
              f"(pe.trace_to_jaxpr_dynamic(lu.wrap_init(lambda x: [jnp.sin(x), x * x], "
              f"debug_info={INFO}), [jax.typeof(f32(3))]))", pe=PE, lu=LU, api=API),
        given("(lambda out: (len(out[0].eqns), out[1]))(pe.dce_jaxpr(jax.make_jaxpr(lambda x, y: "
              "(lax.sin(x), lax.mul(y, y)))(f32(3), f32(3)).jaxpr, [False, True]))", pe=PE),
        given("(lambda out: (len(out[0].eqns), out[1]))(pe.dce_jaxpr(jax.make_jaxpr(jax.jit("
              "lambda x, y: (lax.sin(x), lax.mul(y, y))))(f32(3), f32(3)).jaxpr, [True, False]))",
              pe=PE),
        given("[(p.is_known(), p.get_aval().shape) for p in (pe.PartialVal.known(f32(2)), "
              "pe.PartialVal.unknown(jax.typeof(f32(3))))]", pe=PE),
    ]),
    ("extend.core", [
        given(f"core.{text}", core=CORE) for text in (
            "valid_jaxtype(f32(3))", "valid_jaxtype('text')", "valid_jaxtype(None)",
            "valid_jaxtype(3)", "unsafe_am_i_under_a_jit_DO_NOT_USE()",
            "unsafe_get_axis_names_DO_NOT_USE()", "nonempty_axis_env_DO_NOT_USE()",
            "concrete_or_error(int, 3.5)", "concrete_or_error(None, f32(2))", "no_effects",
            "get_opaque_trace_state() == core.get_opaque_trace_state()",
            "primal_dtype_to_tangent_dtype(jnp.dtype('int32'))",
            "primal_dtype_to_tangent_dtype(jnp.dtype('bfloat16'))",
            "call_impl(__import__('importlib').import_module(jax.__name__ + "
            "'.extend.linear_util').wrap_init(jnp.sin), f32(3))",
        )
    ]),
    ("extend.core.traced", [
        seen("core.unsafe_am_i_under_a_jit_DO_NOT_USE()"),
        seen("core.unsafe_am_i_under_a_vmap_DO_NOT_USE()"),
        seen("core.get_opaque_trace_state() == core.get_opaque_trace_state()"),
        seen("core.valid_jaxtype(x)"),
        seen("core.unsafe_am_i_under_a_vmap_DO_NOT_USE()", "jax.vmap({})"),
        seen("core.unsafe_get_axis_names_DO_NOT_USE()", "jax.vmap({}, axis_name='i')"),
        seen("core.nonempty_axis_env_DO_NOT_USE()", "jax.vmap({}, axis_name='i')"),
        given("jax.jit(lambda x: core.concrete_or_error(int, x, 'why'))(f32())", core=CORE),
    ]),
    ("extend.random", [
        given(text, random="extend.random") for text in (
            "random.threefry_2x32(u32(2), u32(6))", "random.threefry_2x32(u32(2), u32(5))",
            "random.threefry_2x32(u32(2), u32(3, 2))", "random.threefry_2x32(u32(2), f32(3))",
            "jax.random.key_data(random.seed_with_impl(random.threefry_prng_impl, 7))",
            "jax.random.key_data(random.seed_with_impl(random.rbg_prng_impl, 7))",
            "jax.random.key_data(random.random_seed(i32(3), impl=random.threefry_prng_impl))",
        )
    ]),
    ("interpreters.ad", [
        given("ad.add_jaxvals(f32(3), f32(3))", ad="interpreters.ad"),
        given("ad.zeros_like_aval(jax.typeof(f32(3)))", ad="interpreters.ad"),
        given("ad.zeros_like_aval(jax.typeof(i32(2, 3)))", ad="interpreters.ad"),
        given("b.bdim_at_front(f32(2, 3), 1, 3)", b="interpreters.batching"),
        given("b.bdim_at_front(f32(2), None, 3)", b="interpreters.batching"),
    ]),
]  # fmt: skip

CASES: list[Case] = expressions("libraries", TABLE)
