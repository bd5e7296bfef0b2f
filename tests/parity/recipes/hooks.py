"""What programs hook into: rules of Taylor mode, effects, versions of exported programs, primitives."""

# ruff: noqa: E501 (an expression stays on one line)

from .dsl import Case, expressions

J = "module('experimental.jet')"
CORE = "module('extend.core')"


def ruled(give: str, impl: str, args: str, terms: str, result: str = "x") -> str:
    """Terms of an operation of one's own, that has a rule."""
    return (
        f"(lambda j, p: (p.def_impl({impl}), p.def_abstract_eval(lambda x, *_: {result}), {give}, "
        f"j.jet(p.bind, ({args},), ({terms},)))[-1])({J}, {CORE}.Primitive('op'))"
    )


def rules(give: str, impl: str) -> list[str]:
    """An operation of one operand on several paths."""
    return [
        ruled(give, impl, "f32(3) / 4", terms)
        for terms in (
            "[f32(3, s=1)]",
            "[f32(3, s=1), f32(3, s=2)]",
            "[jnp.ones(3), jnp.zeros(3), jnp.zeros(3), jnp.zeros(3)]",
            "[f32(3, s=1), f32(3, s=2), f32(3, s=3)]",
        )
    ] + [ruled(give, impl, "f32()", "[f32(), f32(s=1)]")]


PROPS = ("((f32(3),), ([f32(3)],))", "((f32(2, 2),), ([f32(2, 2), f32(2, 2, s=1)],))")
SELECTED = "lax.select_and_scatter_p.bind({x}, {y}, {i}, select_jaxpr=jax.make_jaxpr(lax.{s})({z}, {z}).jaxpr, select_consts=(), scatter_jaxpr=jax.make_jaxpr({m})({z}, {z}).jaxpr, scatter_consts=(), window_dimensions={w}, window_strides={t}, padding={p})"


def selected(x, y, s, m, w, t, p, kind="f32") -> str:
    zero = f"{kind}()"
    return SELECTED.format(x=x, y=y, i=zero, s=s, m=m, z=zero, w=w, t=t, p=p)


WRITES = "(lambda np, B: lambda k, dtype, **o: B.buffer_callback(lambda c, out, x: np.asarray(out).__setitem__(..., k * np.asarray(x)), jax.ShapeDtypeStruct((4,), dtype), **o))(__import__('numpy'), module('experimental.buffer_callback'))"
NONE = "((0, 0), (0, 0))"
TABLE = [
    ("jet.def_deriv", rules("j.def_deriv(p, lambda x: 3 * x * x)", "lambda x: x ** 3")),
    ("jet.def_comp", [
        *rules("j.def_comp(p, lambda x: x * jnp.sin(x))", "lambda x: x * jnp.sin(x)"),
        ruled("j.def_comp(p, lambda x, y: x * y + x)", "lambda x, y: x * y + x", "f32(3), f32(3, s=4)", "[f32(3), f32(3)], [f32(3, s=1), f32(3, s=2)]"),
    ]),
    ("jet.deflinear", [
        *rules("j.deflinear(p)", "lambda x: 2 * x"),
        ruled("j.deflinear(p)", "lambda x, y: 2 * x - y", "f32(3), f32(3, s=4)", "[f32(3), f32(3)], [f32(3, s=1), f32(3, s=2)]"),
    ]),
    ("jet.defzero", rules("j.defzero(p)", "lambda x: jnp.round(x)")),
    ("jet.zero_prop", [f"{J}.zero_prop(lax.{p}, *{v})[0]" for p in ("floor_p", "sign_p", "ceil_p") for v in PROPS]),
    ("jet.linear_prop", [f"{J}.linear_prop(lax.{p}, *{v})" for p in ("neg_p", "copy_p") for v in PROPS]
        + [f"{J}.linear_prop(lax.add_p, (f32(3), f32(3, s=1)), ([f32(3)], [f32(3, s=2)]))", f"{J}.linear_prop(lax.transpose_p, (f32(2, 3),), ([f32(2, 3)],), permutation=(1, 0))"]),
    ("jet.deriv_prop", [f"{J}.deriv_prop(lax.{p}, {f}, *{v})" for p, f in (("square_p", "lambda x: 2 * x"), ("neg_p", "lambda x: -jnp.ones_like(x)")) for v in PROPS]
        + [f"{J}.deriv_prop(lax.square_p, lambda x: 2 * x, (f32(),), ([f32(), f32(s=1), f32(s=2)],))"]),
    ("jet.zeros", [f"jax.tree_util.tree_leaves({J}.{n})" for n in ("zero_term", "zero_series")] + [f"isinstance({J}.{a}, {J}.{b})" for a in ("zero_term", "zero_series") for b in ("ZeroTerm", "ZeroSeries")]),
    ("jet.JetTracer", [f"(lambda seen: ({J}.jet(lambda x: (seen.append((isinstance(x, {J}.JetTracer), isinstance(x, jax.core.Tracer), {what})), x)[1], (f32(3),), ([f32(3, s=1), f32(3, s=2)],)), seen)[1])([])"
        for what in ("x.primal", "list(x.terms)", "x.shape", "len(x.terms)", "x.dtype")]),
    ("debug.DebugEffect", [f"sorted(str(e) for e in jax.make_jaxpr(lambda x: ({f}, x)[1])(f32()).effects)" for f in (
        "jax.debug.print('{}', x)", "jax.debug.callback(print, x)", "jax.debug.callback(print, x, ordered=True)", "jax.experimental.io_callback(abs, x, x)", "jax.experimental.io_callback(abs, x, x, ordered=True)",
        "jax.jit(lambda x: jax.debug.print('{}', x))(x)", "lax.cond(x > 0, lambda: jax.debug.print('a'), lambda: None)", "x + 1")]
        + ["str(jax.debug.DebugEffect())", "str(jax.debug.OrderedDebugEffect())"]),
    ("debug.OrderedDebugEffect", [f"[any(isinstance(e, k) for e in jax.make_jaxpr(lambda x: ({f}, x)[1])(f32()).effects) for k in (jax.debug.DebugEffect, jax.debug.OrderedDebugEffect)]" for f in (
        "jax.debug.print('{}', x)", "jax.debug.print('{}', x, ordered=True)", "jax.debug.callback(print, x, ordered=True)", "x * 2", "jax.jit(lambda x: jax.debug.print('{}', x, ordered=True))(x)")]),
    ("export.DisabledSafetyCheck", [f"(lambda D: {t})(module('export').DisabledSafetyCheck)" for t in (
        "str(D.platform())", "repr(D.custom_call('f'))", "D.custom_call('f').is_custom_call()", "D.platform().is_custom_call()", "D.platform() == D.platform()", "D.custom_call('f') == D.custom_call('g')", "len({D.platform(), D.platform()})",
        "module('export').export(jax.jit(jnp.sin), disabled_checks=[D.platform()])(f32(2)).disabled_safety_checks == (D.platform(),)")]),
    ("export.calling_convention_version", [f"(lambda e: {t})(module('export'))" for t in (
        "e.minimum_supported_calling_convention_version <= e.maximum_supported_calling_convention_version", "type(e.minimum_supported_calling_convention_version)", "type(e.maximum_supported_calling_convention_version)",
        "e.minimum_supported_calling_convention_version <= e.export(jax.jit(jnp.sin))(f32(2)).calling_convention_version <= e.maximum_supported_calling_convention_version", "e.minimum_supported_calling_convention_version > 0")]),
    ("ffi.register_ffi_type_id", ["module('ffi').register_ffi_type_id('a', None)", *(f"module('ffi').register_ffi_type_id('a', {x}, platform='cpu')" for x in ("None", "3", "'b'", "f32()"))]),
    ("lax.select_and_scatter_p", [selected("f32(4, 6)", y, s, m, w, t, p) for s in ("ge", "le") for m in ("lax.add", "lax.sub", "lambda a, b: a") for y, w, t, p in (
        ("f32(2, 3, s=1)", (2, 2), (2, 2), NONE), ("f32(2, 2, s=1)", (2, 3), (2, 2), NONE), ("f32(3, 4, s=1)", (2, 2), (2, 2), ((1, 1), (1, 1))))] + [selected("i32(5, 5)", "i32(2, 2)", "ge", "lax.add", (2, 2), (3, 3), NONE, "i32")]),
    ("buffer_callback.buffer_callback", [f"{t.format(b=WRITES)}" for t in (
        "{b}(2, 'float32')(f32(4))", "jax.jit({b}(3, 'float32'))(f32(4))", "jax.vmap({b}(2, 'float32', vmap_method='sequential'))(f32(3, 4))", "jax.vmap({b}(2, 'float32', vmap_method='broadcast_all'))(f32(3, 4))", "jax.vmap({b}(2, 'float32'))(f32(3, 4))",
        "jax.grad(lambda x: {b}(2, 'float32')(x).sum())(f32(4))", "{b}(2, 'float32', has_side_effect=True)(f32(4))", "{b}(1, 'float32', input_output_aliases={{0: 0}})(f32(4))", "{b}(1, 'float32', input_output_aliases={{1: 0}})(f32(4))", "{b}(1, 'int32', input_output_aliases={{0: 0}})(f32(4))")]),
    ("buffer_callback.Buffer", [f"(lambda np, B, seen: (B.buffer_callback(lambda c, o, x: (seen.append({t}), np.asarray(o).__setitem__(..., 0))[2:] or None, jax.ShapeDtypeStruct((2, 3), 'float32'))(f32(2, 3)).block_until_ready(), seen)[1])(__import__('numpy'), module('experimental.buffer_callback'), [])"
        for t in ("o.shape", "x.ndim", "str(x.dtype)", "(o.writeable, x.writeable)", "np.asarray(x).tolist()", "str(c.stage)", "np.from_dlpack(x).shape")]),
    ("compute_on.compute_on", [f"(lambda m: {t})(module('experimental.compute_on'))" for t in (
        "jax.jit(lambda x: (lambda c: (c.__enter__(), jnp.sin(x), c.__exit__(None, None, None))[1])(m.compute_on('device_host')))(f32(3))", "m.compute_on('gpu').__enter__()", "m.compute_on(3).__enter__()", "m.compute_on('gpu_stream:1').__enter__() is None or 1", "m.compute_on('device').__enter__() is None or 1")]),
    ("compute_on.compute_on2", [f"(lambda m, D: {t})(module('experimental.compute_on'), jax.memory.Space.Device)" for t in (
        "m.compute_on2(lambda x: x * 2, compute_type='device_host', out_memory_spaces=D)(f32(3))", "jax.jit(m.compute_on2(lambda x: (x * 2, x), compute_type='device', out_memory_spaces=(D, D)))(f32(3))", "m.compute_on2(compute_type='device', out_memory_spaces=D)(jnp.sin)(f32(3))",
        "m.compute_on2(jnp.sin, compute_type='gpu', out_memory_spaces=D)(f32(3))", "m.compute_on2(lambda x: (x, x), compute_type='device', out_memory_spaces=(D,) * 3)(f32(3))", "jax.grad(m.compute_on2(lambda x: (x * x).sum(), compute_type='device', out_memory_spaces=D))(f32(3))", "jax.vmap(m.compute_on2(lambda x: x * 2, compute_type='device', out_memory_spaces=D))(f32(3, 2))")]),
    *[(f"scheduling_groups.{n}", [t.format(g=f"module('experimental.scheduling_groups').{n}({a})") for t in ("{g}(lambda x: x + 1)(f32(3))", "jax.grad({g}(lambda x: (x * x).sum()))(f32(3))", "jax.vmap({g}(lambda x: x.sum()))(f32(3, 2))", "jax.jit({g}(lambda x, y: [x, y * x]))(f32(3), f32(3, s=1))", "{g}(lambda x, k: x * k)(f32(3), k=2.0)")])
        for n, a in (("scheduling_group", "'g'"), ("xla_metadata_call", "a='b'"))],
    ("xla_metadata.set_xla_metadata", [f"(lambda s: {t})(module('experimental.xla_metadata').set_xla_metadata)" for t in (
        "s({'a': f32(3), 'b': 2.0}, k='v')", "s(f32(3), k=3)", "jax.jit(lambda x: s(x + 1, k='v'))(f32(3))", "jax.grad(lambda x: s(x * x, k='v'))(2.0)", "s(a=1)(lambda x: x + 1)(f32(3))", "s(a=1)(jax.jit(lambda x: x + 1)).lower(f32(3)).compile()(f32(3))", "jax.vmap(lambda x: s(x, k=1) + 1)(f32(3))")]),
    ("lax.dce_sink_p", [f"lax.dce_sink_p.bind({x}, prevent_mlir_dce=False)" for x in ("f32(3)", "i32()", "b1(2)", "f32(2, 2)")] + ["jax.jit(lambda x: (lax.dce_sink_p.bind(x, prevent_mlir_dce=False), x + 1)[1])(f32(3))"]),
]  # fmt: skip

CASES: list[Case] = expressions("hooks", TABLE)
