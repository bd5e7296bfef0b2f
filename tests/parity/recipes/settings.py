"""The top level of the package: settings as contexts, devices, meshes, and the few names left."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import expressions

SECTION = "settings"

SWITCHES = (
    "allow_f16_reductions check_tracer_leaks debug_infs debug_key_reuse debug_nans enable_checks enable_custom_prng enable_x64 "
    "explain_cache_misses log_compiles no_execution no_tracing remove_size_one_mesh_axis_from_type softmax_custom_jvp thread_guard threefry_partitionable"
)
CHOICES = {
    "array_garbage_collection_guard": ["allow", "log", "fatal"],
    "default_matmul_precision": ["highest", "bfloat16", "tensorfloat32"],
    "default_prng_impl": ["threefry2x32", "rbg", "unsafe_rbg"],
    "legacy_prng_key": ["allow", "warn", "error"],
    "transfer_guard_device_to_device": ["allow", "log", "disallow"],
    "transfer_guard_device_to_host": ["allow", "log", "disallow"],
    "transfer_guard_host_to_device": ["allow", "log", "disallow"],
    "numpy_dtype_promotion": ["standard", "strict"],
    "numpy_rank_promotion": ["allow", "warn", "raise"],
}
RANKS = "jax.numpy_rank_promotion"


def inside(context: str, *bodies: str) -> list[str]:
    return [f"within(jax.{context}, lambda: {body})" for body in bodies]


def refused(context: str, *bodies: str) -> list[str]:
    return [f"within(jax.{context}, lambda: raises(lambda: {body}))" for body in bodies]


EXPRESSIONS = [
    *[
        (
            f"jax.{n}",
            [
                *[f"within(jax.{n}({v}), lambda: jax.config.jax_{n})" for v in (True, False)],
                f"(within(jax.{n}(True), lambda: 0), jax.config.jax_{n})",
                f"within(jax.{n}(True), lambda: within(jax.{n}(False), lambda: jax.config.jax_{n}))",
                f"jax.{n}(True, False)",
            ],
        )
        for n in SWITCHES.split()
    ],
    *[
        (
            f"jax.{n}",
            [
                *[f"str(within(jax.{n}('{v}'), lambda: jax.config.jax_{n}))" for v in values],
                f"(within(jax.{n}('{values[-1]}'), lambda: 0), str(jax.config.jax_{n}))",
                f"within(jax.{n}('odd'), lambda: 0)", f"jax.{n}('{values[0]}', 1)",
            ],
        )
        for n, values in CHOICES.items()
    ],
    ("jax.checking_leaks", [
        "within(jax.checking_leaks(), lambda: jax.config.jax_check_tracer_leaks)",
        "(within(jax.checking_leaks(), lambda: 0), jax.config.jax_check_tracer_leaks)",
        "within(jax.checking_leaks(), lambda: jax.jit(lambda x: x * 2)(f32(2)))",
        "within(jax.checking_leaks(), lambda: raises(lambda: (lambda box: jax.jit(lambda x: (box.append(x), x)[1])(1.0))([])) != 'nothing')",
        "jax.checking_leaks(1, 2)",
    ]),
    ("jax.debug_nans", [
        *refused("debug_nans(True)", "jnp.log(f32([-1.0]))", "jnp.log(f32([1.0]))", "jax.jit(lambda x: x / x)(f32([0.0]))", "jnp.divide(1.0, 0.0)", "jax.grad(jnp.sqrt)(0.0)"),
        *refused("debug_nans(False)", "jnp.log(f32([-1.0]))"),
    ]),
    ("jax.debug_infs", refused("debug_infs(True)", "1.0 / f32([0.0])", "jnp.log(f32([-1.0]))", "jax.jit(lambda x: jnp.exp(x))(f32([1000.0]))")),
    ("jax.enable_x64", [
        *inside("enable_x64(True)", "jnp.arange(3)", "jnp.array(1.5)", "jnp.float64(2)", "f32(2) * 2.0"),
        *inside("enable_x64(False)", "jnp.arange(3, dtype='int64')"),
        *inside("enable_x64(True)", "jnp.ones(2) + f32(2)", "random.uniform(key(1), (2,)).dtype"),
    ]),
    ("jax.debug_key_reuse", refused("debug_key_reuse(True)", "(lambda k: (random.bits(k), random.bits(k)))(random.key(7))", "(lambda k: [random.bits(v) for v in random.split(k)])(random.key(7))")),
    ("jax.check_tracer_leaks", [
        "within(jax.check_tracer_leaks(True), lambda: raises(lambda: (lambda box: jax.jit(lambda x: (box.append(x), x)[1])(2.0))([])) != 'nothing')",
    ]),
    ("jax.no_tracing", refused("no_tracing(True)", "jax.jit(lambda x: x + 11)(f32(2))")),
    ("jax.no_execution", refused("no_execution(True)", "f32(2) + 1")),
    ("jax.threefry_partitionable", [
        *inside("threefry_partitionable(True)", "random.bits(key(1), (5,))", "random.split(key(1), 3)"),
        *inside("threefry_partitionable(False)", "random.bits(key(1), (5,))"),
    ]),
    ("jax.default_prng_impl", inside("default_prng_impl('rbg')", "random.key(1).dtype", "random.PRNGKey(1).shape")),
    ("jax.transfer_guard", [
        *[f"within(jax.transfer_guard('{v}'), lambda: jax.config.jax_transfer_guard_host_to_device)" for v in ("allow", "log", "disallow")],
        *refused("transfer_guard('disallow')", "jnp.sin(np.ones(2, np.float32))", "jax.device_put(np.ones(2))", "f32(2) + 1", "f32(2)[0]"),
        "within(jax.transfer_guard('odd'), lambda: 0)",
        "(within(jax.transfer_guard('log'), lambda: 0), jax.config.jax_transfer_guard_host_to_device)",
    ]),
    ("jax.default_device", [
        "within(jax.default_device(jax.devices()[0]), lambda: f32(3) * 2)",
        "within(jax.default_device(None), lambda: jnp.ones(2))",
        "within(jax.default_device(jax.devices()[0]), lambda: jnp.ones(2).committed)",
        "within(jax.default_device('cpu'), lambda: jnp.ones(2))",
        "within(jax.default_device('nonsense'), lambda: jnp.ones(2))",
        "(within(jax.default_device(jax.devices()[0]), lambda: 0), jax.config.jax_default_device)",
    ]),
    ("jax.default_matmul_precision", inside("default_matmul_precision('highest')", "f32(2, 3) @ f32(3)")),
    ("jax.make_user_context", [
        "(lambda c: c.value)(jax.make_user_context())",
        "(lambda c: (c.value, within(c(3), lambda: c.value), c.value))(jax.make_user_context(1))",
        "(lambda c: [jax.jit(lambda x: x * c.value)(f32(2)), within(c(3), lambda: jax.jit(lambda x: x * c.value)(f32(2)))])(jax.make_user_context(2))",
        "(lambda c, f: [f(c, 2.0), within(c(3), lambda: f(c, 2.0)), f(c, 2.0)])(jax.make_user_context(1), jax.jit(lambda c, x: x * c.value, static_argnums=0))",
        "(lambda c: jax.grad(lambda x: within(c('b'), lambda: x * {'a': 2.0, 'b': 3.0}[c.value]))(f32(2)[0]))(jax.make_user_context('a'))",
        "(lambda c: within(c([1]), lambda: jax.jit(lambda x: x)(1.0)))(jax.make_user_context())",
        "(lambda c: within(c(1), lambda: within(c(2), lambda: c.value) + c.value))(jax.make_user_context(0))",
    ]),
    ("jax.named_scope", [
        "within(jax.named_scope('a'), lambda: f32(2) + 1)",
        "jax.jit(lambda x: within(jax.named_scope('a'), lambda: x * 2))(f32(2))",
        "jax.named_scope(5)", "jax.named_scope()", "jax.named_scope('a')(lambda x: x + 1)(2)",
        "jax.grad(lambda x: within(jax.named_scope('b'), lambda: x**2))(3.0)",
        *(f"[str(e.source_info.name_stack) for e in jax.make_jaxpr({f})(f32(3)).jaxpr.eqns]" for f in ("lambda x: within(jax.named_scope('a'), lambda: jnp.sin(x) * 2)", "jax.vmap(lambda x: within(jax.named_scope('a'), lambda: jnp.sin(x) * 2))", "lambda x: within(jax.named_scope('a'), lambda: jax.vmap(lambda y: within(jax.named_scope('b'), lambda: jnp.sin(y)))(x))", "lambda x: jax.vjp(lambda x: within(jax.named_scope('a'), lambda: jnp.sin(x)), x)[1](x)", "jax.vmap(lambda x: jax.vjp(lambda x: within(jax.named_scope('a'), lambda: jnp.sin(x)), x)[1](x))", "lambda x: jax.vjp(jax.vmap(lambda x: within(jax.named_scope('a'), lambda: jnp.sin(x))), x)[1](x)")),
    ]),
    ("jax.clear_caches", [
        "jax.clear_caches()", "(jax.clear_caches(), jax.jit(lambda x: x + 1)(f32(2)))[1]",
        "(lambda f: (f(1.0), jax.clear_caches(), f(1.0))[2])(jax.jit(lambda x: x * 3))",
        "jax.clear_caches(1)", "jax.jit(lambda x: (jax.clear_caches(), x)[1])(1.0)",
    ]),
    ("jax.copy_to_host_async", [
        "jax.copy_to_host_async(f32(2))", "jax.copy_to_host_async({'a': f32(2), 'b': 1})",
        "jax.copy_to_host_async('a')", "jax.copy_to_host_async(None)", "jax.copy_to_host_async()",
        "jax.copy_to_host_async([np.ones(2)])",
    ]),
    ("jax.effects_barrier", [
        "jax.effects_barrier()", "jax.effects_barrier(1)",
        "(lambda box: (jax.jit(lambda x: (jax.debug.callback(box.append, x), x)[1])(2), jax.effects_barrier(), [int(v) for v in box])[2])([])",
        "(lambda box: (jax.debug.callback(lambda v: box.append(int(v)), 3), jax.effects_barrier(), box)[2])([])",
        "(jax.effects_barrier(), jax.effects_barrier())",
    ]),
    ("jax.default_backend", [
        "jax.default_backend()", "jax.default_backend(1)", "type(jax.default_backend()).__name__",
        "jax.default_backend() == jax.devices()[0].platform", "jax.jit(lambda x: x * len(jax.default_backend()))(1)",
    ]),
    *[
        (
            f"jax.{n}",
            [f"jax.{n}()", f"jax.{n}('cpu')", f"jax.{n}('nonsense')", f"jax.{n}(backend='cpu')", f"type(jax.{n}()).__name__"],
        )
        for n in ("device_count", "local_device_count", "process_count", "process_index")
    ],
    ("jax.process_indices", [
        "jax.process_indices()", "jax.process_indices('cpu')", "jax.process_indices('nonsense')",
        "jax.process_indices(backend='cpu')", "type(jax.process_indices()).__name__",
    ]),
    ("jax.local_devices", [
        "len(jax.local_devices())", "jax.local_devices()[0] == jax.devices()[0]",
        "len(jax.local_devices(backend='cpu'))", "jax.local_devices(backend='nonsense')",
        "len(jax.local_devices(process_index=0))", "jax.local_devices(process_index=7)",
    ]),
    ("jax.Device", [
        "isinstance(jax.devices()[0], jax.Device)", "isinstance(5, jax.Device)", "jax.Device.__name__",
        "jax.devices()[0].device_kind", "jax.devices()[0].process_index", "hash(jax.devices()[0]) == hash(jax.devices()[0])",
        "jax.devices()[0].local_hardware_id", "len({jax.devices()[0], jax.local_devices()[0]})",
    ]),
    ("jax.Array", [
        "isinstance(f32(2), jax.Array)", "isinstance(np.ones(2), jax.Array)", "isinstance(2.0, jax.Array)",
        "jax.jit(lambda x: isinstance(x, jax.Array) * x)(f32(2))", "issubclass(jax.Array, object)",
        "jax.Array is jnp.ndarray", "isinstance(key(1), jax.Array)", "isinstance(jnp.float32, jax.Array)",
    ]),
    ("jax.float0", [
        "jax.float0", "np.zeros((2,), jax.float0).shape", "jax.float0 == dtypes.float0",
        "jnp.zeros(2, jax.float0)", "jnp.issubdtype(jax.float0, np.generic)",
        "jax.vjp(lambda x: x * 1.0, i32(2))[1](f32(2))[0].dtype == jax.float0",
    ]),
    ("jax.P", [
        "jax.P('a', None)", "jax.P()", "jax.P('a') == jax.P('a')", "jax.P(('a', 'b'))", "hash(jax.P('a')) == hash(jax.P('a'))",
        "jax.P('a') is not None and len(jax.P('a', 'b'))", "jax.P('a')[0]", "jax.P('a', 'a')", "jax.P(5)", "tuple(jax.P('a', None))",
    ]),
    ("jax.make_mesh", [
        "jax.make_mesh((1,), ('x',)).shape", "jax.make_mesh((1, 1), ('x', 'y')).axis_names", "jax.make_mesh((2,), ('x',))",
        "jax.make_mesh((1,), ('x', 'y'))", "jax.make_mesh((1,), ('x',), devices=jax.devices()[:1]).size",
        "jax.make_mesh((1, 1), ('x', 'x'))", "jax.make_mesh((1,), ('x',)).devices.shape", "jax.make_mesh((1,), ('x',)) == jax.make_mesh((1,), ('x',))",
    ]),
    ("jax.NamedSharding", [
        "jax.NamedSharding(jax.make_mesh((1,), ('x',)), jax.P('x')).spec",
        "jax.NamedSharding(jax.make_mesh((1,), ('x',)), jax.P('y'))",
        "jax.NamedSharding(jax.make_mesh((1,), ('x',)), jax.P('x')).shard_shape((4, 2))",
        "jax.NamedSharding(jax.make_mesh((1,), ('x',)), jax.P('x')).is_fully_replicated",
        "jax.NamedSharding(jax.make_mesh((1,), ('x',)), jax.P()) == jax.NamedSharding(jax.make_mesh((1,), ('x',)), jax.P())",
        "jax.NamedSharding(5, jax.P())", "jax.device_put(f32(2, 2), jax.NamedSharding(jax.make_mesh((1,), ('x',)), jax.P('x')))",
        "len(jax.NamedSharding(jax.make_mesh((1,), ('x',)), jax.P('x')).device_set)",
    ]),
    ("jax.Shard", [
        "isinstance(f32(2).addressable_shards[0], jax.Shard)", "f32(2).addressable_shards[0].data.shape",
        "f32(2, 3).addressable_shards[0].index", "f32(2).addressable_shards[0].replica_id", "jax.Shard.__name__",
    ]),
    ("jax.checkpoint_policies", [
        f"jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.dot(x, x)), policy=jax.checkpoint_policies.{p}))(f32(2))"
        for p in ("dots_saveable", "nothing_saveable", "dots_with_no_batch_dims_saveable", "save_only_these_names('a')", "save_anything_except_these_names('a')", "save_from_both_policies(jax.checkpoint_policies.dots_saveable, jax.checkpoint_policies.nothing_saveable)")
    ]),
    ("jax.checkpoint_policies", ["jax.checkpoint_policies.nonsense", "sorted(vars(jax.checkpoint_policies))"]),
    ("jax.freeze", [
        "jax.freeze(jax.new_ref(f32(2)))",
        "(lambda r: (r.__setitem__(0, 9.0), jax.freeze(r))[1])(jax.new_ref(f32(2)))",
        "(lambda r: (jax.freeze(r), r[...]))(jax.new_ref(f32(2)))",
        "jax.jit(lambda x: jax.freeze(jax.new_ref(x)) + 1)(f32(2))", "jax.freeze(f32(2))",
        "jax.freeze()",
    ]),
    ("jax.free_ref", [
        "jax.free_ref(jax.new_ref(f32(2)))",
        "(lambda r: (jax.free_ref(r), r[...]))(jax.new_ref(f32(2)))",
        "(lambda r: (jax.free_ref(r), jax.free_ref(r)))(jax.new_ref(f32(2)))",
        "jax.free_ref(f32(2))", "jax.free_ref()",
    ]),
    ("jax.empty_ref", [
        "jax.empty_ref(jax.ShapeDtypeStruct((2, 3), 'float32')).shape",
        "(lambda r: (r.__setitem__(slice(None), 2), r[...])[1])(jax.empty_ref(jax.ShapeDtypeStruct((2,), 'int32')))",
        "jax.empty_ref(jax.typeof(f32(2))).dtype", "jax.empty_ref(5)", "jax.empty_ref()",
    ]),
    ("jax.Ref", [
        "isinstance(jax.new_ref(f32(2)), jax.Ref)", "isinstance(f32(2), jax.Ref)",
        "jax.Ref.__name__", "jax.jit(lambda x: isinstance(jax.new_ref(x), jax.Ref) * x)(f32(2))",
        "jax.new_ref(f32(2, 3)).shape", "len(jax.new_ref(f32(2, 3)))",
    ]),
]

CASES = [case for row in EXPRESSIONS for case in expressions(SECTION, [row])]
