"""What libraries use to trace functions themselves: flat functions, partial evaluation, traces."""

# ruff: noqa: E501 (an expression stays on one line)

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
TABLE += [
    ("export.symbolic_shape", [
        given(f"str({text})", e="export") for text in (
            "e.symbolic_shape('a, 2*a, b - 3, mod(a, 3), max(a, b), a^2, 3')", "e.symbolic_shape('a, _, ...', like=(None, 2, 3, 4))",
            "e.symbolic_shape(None, like=(2, 3))", "e.symbolic_shape('a b')", "e.symbolic_shape('2a')", "e.symbolic_shape('_')",
            "e.symbolic_shape('3', like=(4,))", "e.SymbolicScope(['a'])", "e.SymbolicScope('a>=2')", "e.symbolic_shape(3)",
        )
    ] + [
        given(f"(lambda a, b: {text})(*e.symbolic_shape('a, b', constraints={constraints}))", e="export")
        for constraints in ("()", "['a >= 8', 'b <= a', 'mod(a, 2) == 0']")
        for text in (
            "str(a * 2 + b - 1)", "str((a + b) * (a - b))", "str((4 * a) // 2)", "str(a // 2 * 2)", "str(a % 2)", "(4 * a) % 2", "a >= 1", "a >= 2", "a > 7",
            "a >= b", "a == b", "a == 1", "a + b == b + a", "2 * a - a == a", "int(a)", "a - b >= 0", "str(a - a)", "a % 5 < 5", "a // 2 <= a", "a + 1 < a",
            "e.is_symbolic_dim(a)", "e.is_symbolic_dim(a - a)", "str(jax.eval_shape(lambda x: jnp.concatenate([x, x[1:]]).T, jax.ShapeDtypeStruct((a, b), 'float32')).shape)",
        )
    ]),
    ("export.export", [
        given(
            f"(lambda p: ([str(x) for x in p.out_avals], [p.call(f32(*s)) for s in ((2, 3), (5, 4))]))"
            f"(e.export(jax.jit(lambda x: {text}))(jax.ShapeDtypeStruct(e.symbolic_shape('a, b'), 'float32')))", e="export",
        ) for text in (
            "jnp.sin(x) + x[0]", "x.mean() + x.var(1)", "x @ x.T", "x.reshape(-1)", "jnp.concatenate([x, x])", "x[1:]", "x[:-1, :1]", "jnp.ones(x.shape[0]) * x.shape[1]",
            "jnp.arange(x.shape[0])", "x.sum(0) / x.shape[0]", "jnp.pad(x, ((0, 1), (0, 0)))", "jnp.zeros((x.shape[0] // 2,))", "jnp.sort(x)[::-1]", "jax.nn.softmax(x)",
            "lax.fori_loop(0, x.shape[0], lambda i, c: c + i, 0)", "lax.scan(lambda c, r: (c + r, c), jnp.zeros(x.shape[1]), x)", "x if x.shape[0] > 3 else -x",
            "x + jnp.ones((3, 1))", "jax.grad(lambda x: (x ** 2).sum())(x)", "jnp.einsum('ab,cb->ac', x, x)",
        )
    ] + [
        given(
            f"e.export(jax.jit(lambda x: x + 1))(jax.ShapeDtypeStruct(e.symbolic_shape('{shape}'), 'float32')).call(f32({given_}))", e="export",
        ) for shape, given_ in (("a, a", "2, 3"), ("2*a + 1", "4"), ("2*a + 1", "5"), ("a", "0"), ("a, b", "3"))
    ] + [
        given(
            "e.export(jax.jit(lambda x: x[:8]))(*e.symbolic_args_specs((f32(8, 4),), ('a, b',), constraints=['a >= 8'])).call(f32(" + n + ", 2)).shape", e="export",
        ) for n in ("9", "3")
    ]),
]  # fmt: skip

CASES: list[Case] = expressions("libraries", TABLE)
