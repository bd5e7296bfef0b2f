"""Meshes, partition specs and shardings as data."""

# fmt: off
# ruff: noqa: E501 (an expression stays on one line)

from .dsl import expressions

SECTION = "shardings"

MESH = "jax.sharding.AbstractMesh((4, 2), ('x', 'y'))"
TYPED = "jax.sharding.AbstractMesh((4, 2), ('x', 'y'), (jax.sharding.AxisType.Explicit,) * 2)"
CUBE = "jax.sharding.AbstractMesh((2, 2, 2), ('a', 'b', 'c'))"
HERE = "jax.sharding.SingleDeviceSharding(jax.devices()[0])"


def laid(spec: str, mesh: str = MESH) -> str:
    return f"jax.NamedSharding({mesh}, jax.P({spec}))"


X = laid("'x'")
X_ = laid("'x', None")
XY = laid("None, ('x', 'y')")
WHOLE = laid('')
OWED = laid("unreduced={'x'}", TYPED)
X_Y = laid("'x', 'y'")
AB = laid("('a', 'b')", CUBE)
BA = laid("('b', 'a')", CUBE)
X_T = laid("'x', None", TYPED)
Y = laid("'y'")
X_OWED = laid("'x', unreduced={'y'}", TYPED)
X_PAID = laid("'x', reduced={'y'}", TYPED)

EXPRESSIONS = [
    ("jax.sharding.PartitionSpec", [
        "repr(jax.P())", "repr(jax.P(None))", "repr(jax.P('x', None, ['y']))", "repr(jax.P((), ('x',), ['y', 'z']))",
        "repr(jax.P(jax.P.UNCONSTRAINED, 'x'))", "repr(jax.P('x', unreduced={'y'}))", "repr(jax.P(None, reduced={'y'}))",
        "repr(jax.P(unreduced={'y'}, reduced={'z'}))", "jax.P('x') is jax.P(('x',))", "jax.P('x') == jax.P('x', None)", "jax.P('x') == ('x',)",
        "repr(jax.P('x') + jax.P('y', unreduced={'z'}))", "repr(('y',) + jax.P('x'))", "repr(jax.P('x') + ('y',))",
        "jax.P('x', ('y', 'z')).index(['y', 'z'])", "jax.P('x', None, None).count(None)", "jax.P('x').index('y')", "jax.P('x', 'y')[:1]",
        "repr(jax.P('x', unreduced={'y'}).update(reduced={'z'}))", "repr(jax.P('x', unreduced={'y'}).to_ct_spec())", "repr(jax.P('x').to_lo())",
        "jax.P('x', unreduced='y')", "jax.P(unreduced={None})", "jax.P('x', unreduced={'x'})", "jax.P(('x', 'y'), reduced={'x'})",
        "jax.P(unreduced={'x'}, reduced={'x'})", "jax.P('x', unreduced={'y'})[0]", "list(jax.P('x', reduced={'y'}))",
        "jax.P('x', unreduced={'z'}) + ('y',)", "('y',) + jax.P('x', reduced={'z'})", "setattr(jax.P('x'), 'reduced', 1)",
    ]),
    ("jax.sharding.AbstractMesh", [
        f"repr({MESH})", f"repr({TYPED})", "repr(jax.sharding.AbstractMesh((), ()))", f"{MESH} is {MESH}", f"{MESH} == {TYPED}",
        f"{MESH}.shape_tuple", f"({MESH}.size, {MESH}.empty, {MESH}.axis_sizes, {MESH}.axis_names)", f"{TYPED}.are_all_axes_explicit",
        f"({TYPED}.explicit_axes, {TYPED}.auto_axes, {TYPED}.manual_axes)", f"repr({MESH}.update(axis_sizes=(2, 4)))",
        f"repr({MESH}.update_axis_types({{'x': jax.sharding.AxisType.Manual}}))", f"{MESH}.devices", f"{MESH}.local_mesh",
        "jax.sharding.AbstractMesh((4,), ('x', 'y'))", "jax.sharding.AbstractMesh((4,), ('x',), 'm')",
        "jax.sharding.AbstractMesh((4,), ('x',), (jax.sharding.AxisType.Auto,) * 2)",
    ]),
    ("jax.sharding.AbstractDevice", [
        "repr(jax.sharding.AbstractDevice('TPU', 1, 'tpu'))", "jax.sharding.AbstractDevice('a', None, 'b') == jax.sharding.AbstractDevice('a', None, 'b')",
        "jax.sharding.AbstractDevice('a', None, 'b') is jax.sharding.AbstractDevice('c', 2, 'b')", "jax.sharding.AbstractDevice('a')",
        f"repr({MESH}.update(abstract_device=jax.sharding.AbstractDevice('a', None, 'b')))",
    ]),
    ("jax.sharding.ManualAxisType", [
        "repr(jax.sharding.ManualAxisType())", "repr(jax.sharding.ManualAxisType(varying={'x'}))",
        "repr(jax.sharding.ManualAxisType(varying={'x'}).update(reduced=frozenset({'y'})))", "repr(jax.sharding.ManualAxisType(unreduced={'x'}).to_ct_mat())",
        "jax.sharding.ManualAxisType(varying={'x'}, unreduced={'x'})", "jax.sharding.ManualAxisType(varying={'x'}, reduced={'x'})",
        "jax.sharding.ManualAxisType(varying=['x'])", "jax.sharding.ManualAxisType('x')", "sorted(jax.sharding.ManualAxisType(varying={'x'}, reduced={'z'}).vur)",
    ]),
    ("jax.sharding.Mesh", [
        "repr(jax.sharding.Mesh(jax.devices()[:1], 'x'))", "str(jax.sharding.Mesh(np.array(jax.devices()[:1]), ('x',)))", "repr(jax.sharding.Mesh(None, ()))",
        "str(jax.sharding.Mesh(None, ()))", "jax.sharding.Mesh(jax.devices()[0], ()).is_scalar", "jax.sharding.Mesh(jax.devices()[:1], 'x').is_multi_process",
        "jax.sharding.Mesh(jax.devices()[:1], 'x').local_mesh is jax.sharding.Mesh(jax.devices()[:1], 'x')", "jax.sharding.Mesh(jax.devices()[:1], 'x').device_ids",
        "repr(jax.sharding.Mesh(jax.devices()[:1], 'x').abstract_mesh)", "repr(jax.sharding.Mesh(jax.devices()[:1], 'x').update(axis_names='y'))",
        "jax.sharding.Mesh(jax.devices()[:1], ('x', 'y'))", "jax.sharding.Mesh(jax.devices()[0], 'x')", "jax.sharding.Mesh(jax.devices()[:1], (None,))",
        "jax.sharding.Mesh(jax.devices()[:1], 'x', 'Auto')", "jax.sharding.Mesh(jax.devices()[:1], 'x', (jax.sharding.AxisType.Auto,) * 2)",
    ]),
    ("jax.sharding.NamedSharding", [
        f"repr({X})", f"{X} == {X_}", f"{X} == {X}", f"sorted({X}.replicated_axes)",
        f"{X}.shard_shape((8, 2))", f"{XY}.shard_shape((3, 16))", f"{X}.shard_shape((7, 2))",
        f"{X}.is_fully_replicated", f"{WHOLE}.is_fully_replicated", f"{OWED}.is_fully_replicated", f"{X}.num_devices",
        f"{X}.check_compatible_aval((7,))", f"{X}.check_compatible_aval(())", f"{X_Y}.check_compatible_aval((8,))",
        f"repr({X}.update(spec=('y',)))", f"repr({X}.with_memory_kind('device'))", f"{X}.device_set", f"{X}.is_fully_addressable",
        f"{X}.is_equivalent_to({AB}, 2)", f"{X}.is_equivalent_to({BA}, 2)",
        f"{X}.is_equivalent_to({X_T}, 2)", f"{X}.is_equivalent_to({Y}, 2)",
        f"{X_OWED}.is_equivalent_to({X}, 2)", f"{X_PAID}.is_equivalent_to({X}, 2)",
        laid("'z'"), laid("jax.P.UNCONSTRAINED", TYPED), laid("unreduced={'x'}"), laid("reduced={'x'}"), laid("unreduced={'z'}", TYPED), laid("reduced={'z'}", TYPED),
        f"setattr({X}, 'spec', jax.P())",
    ]),
    ("jax.sharding.SingleDeviceSharding", [
        f"repr({HERE})", f"{HERE} == {HERE}", f"{HERE}.num_devices", f"{HERE}.memory_kind", f"list({HERE}.devices_indices_map((3, 4)).values())",
        f"list({HERE}.addressable_devices_indices_map((3, 4)).values())", f"{HERE}.shard_shape((3, 4))", f"{HERE}.check_compatible_aval((3, 4))",
        f"{HERE}.has_addressable_devices", f"{HERE} == {HERE}.with_memory_kind('device')", f"{HERE} == jax.sharding.make_single_device_sharding(jax.devices()[0])",
        f"{HERE}.is_equivalent_to(jax.NamedSharding(jax.make_mesh((1,), 'x'), jax.P('x')), 2)", "jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind='foo')",
    ]),
    ("jax.sharding.get_abstract_mesh", [
        "repr(jax.sharding.get_abstract_mesh())", "repr(jax.sharding.get_mesh())",
        f"within(jax.sharding.use_abstract_mesh({MESH}), lambda: repr((jax.sharding.get_abstract_mesh(), jax.sharding.get_mesh())))",
        f"within(jax.sharding.use_abstract_mesh({MESH}), lambda: within(jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((3,), ('z',))), lambda: 0))",
        "jax.sharding.use_abstract_mesh(None)", "jax.jit(lambda x: (jax.sharding.get_mesh(), x)[1])(f32(2))",
    ]),
    ("jax.set_mesh", [
        "within(jax.set_mesh(jax.make_mesh((1,), 'x')), lambda: repr((jax.sharding.get_abstract_mesh(), jax.sharding.get_mesh())))",
        "within(jax.set_mesh(jax.make_mesh((1,), 'x')), lambda: within(jax.set_mesh(None), lambda: repr(jax.sharding.get_mesh())))",
        f"jax.set_mesh({MESH})", "jax.set_mesh('x')", "jax.set_mesh(jax.make_mesh((1,), 'x', jax.sharding.AxisType.Manual))",
        "jax.grad(lambda x: (jax.set_mesh(None), x)[1])(f32())",
    ]),
]

CASES = [case for row in EXPRESSIONS for case in expressions(SECTION, [row])]
