"""Names of JAX 0.10.2 that are not here, in groups that say why.

Floor 0. `gpuarray.names` loads it when a name is asked for that is not there. In: a name below
`jax`. Out: its group. A name that is added to the library goes from here; tests compare
this list with JAX's names, and with the table in docs/differences.md.
"""

from __future__ import annotations

import functools
from typing import NamedTuple


class Group(NamedTuple):
    """Names that are missing for one reason."""

    title: str
    why: str
    #: "module: names in it", `jax:` for the top level. A module that is missing as a whole stands
    #: among the names of the one above it.
    text: str

    @property
    def names(self) -> list[str]:
        """The names below `jax`: "smap", "sharding.reshard"."""
        found: list[str] = []
        module = ""
        for word in self.text.split():
            if word.endswith(":"):
                module = "" if word == "jax:" else word[:-1] + "."
            else:
                found.append(module + word)
        return found


GROUPS = (
    Group(
        "computations over several devices",
        "`shard_map`, `pmap` and `jit` run over several devices; these are to come",
        """
        jax: auto_pcast remove_size_one_mesh_axis_from_type
        experimental: topologies
        interpreters: pxla
        """,
    ),
    Group(
        "services between processes",
        "processes exchange values in computations, and files",
        "experimental: array_serialization colocated_python transfer",
    ),
    Group(
        "memories other than a device's own",
        "an array is in the memory of its device",
        "jax: memory",
    ),
    Group(
        "profiling and monitoring",
        "`explain` shows the kernels of a function and what they cost",
        """
        jax: collect_profile monitoring print_environment_info
        experimental: profiler roofline source_mapper
        """,
    ),
    Group(
        "kernels in other languages",
        "`cuda_op` makes an operation of CUDA C++, `pure_callback` of a Python function",
        """
        jax: ds
        experimental: buffer_callback fused mosaic pallas
        extend: pallas
        ffi: build_ffi_lowering_function ffi_lowering include_dir
            register_ffi_target_as_batch_partitionable register_ffi_type register_ffi_type_id
        """,
    ),
    Group(
        "the XLA compiler and its programs",
        "programs are compiled to CUDA C++ here, or run by NumPy",
        """
        jax: cloud_tpu_init jax2tf_associative_scan_reductions lib tools
        experimental: compute_on control_deps jax2tf scheduling_groups
            serialize_executable xla_metadata
        export: DisabledSafetyCheck default_export_platform
            maximum_supported_calling_convention_version
            minimum_supported_calling_convention_version
        extend: backend ifrt_programs lowering mlir sharding xla
        interpreters: xla
        interpreters.mlir: AxisContext ConstantHandler DEVICE_TO_DEVICE_TYPE LoweringParameters
            LoweringResult LoweringRuleContext Mesh ModuleContext RECV_FROM_HOST_TYPE
            SEND_TO_HOST_TYPE SPMDAxisContext ShapePolyLoweringState ShardingContext Token TokenSet
            Value aval_to_ir_type aval_to_ir_types core_call_lowering dense_int_array
            dense_int_elements dtype_to_ir_type emit_python_callback flatten_ir_types
            flatten_ir_values i32_attr i64_attr ir_attribute ir_constant ir_constants
            ir_tree_registry ir_type_handlers jaxpr_subcomp lower_jaxpr_to_fun
            lower_jaxpr_to_module lowerable_effects make_ir_context merge_mlir_modules
            module_to_bytecode module_to_string register_constant_handler shape_tensor token_type
            unflatten_ir_values_like_types
        stages: ArgInfo CompilerOptions Wrapped
        """,
    ),
    Group(
        "shapes with symbols for lengths",
        "a program is traced once for each shape",
        """
        export: SymbolicScope is_symbolic_dim symbolic_args_specs symbolic_shape
        extend.core: InconclusiveDimensionOperation
        """,
    ),
    Group(
        "experiments, and libraries on top of JAX",
        "not written here",
        """
        experimental: EArray cur_qdd hijax key_reuse primal_tangent_dtype random
        """,
    ),
    Group(
        "how JAX works inside",
        "what there is for programs that look inside is in `extend.core` and `interpreters`",
        """
        jax: ad api_util make_user_context version
        custom_derivatives: remat_opt_p
        experimental.jet: JetTrace JetTracer ZeroSeries ZeroTerm def_comp def_deriv deflinear
            defzero deriv_prop linear_prop zero_prop zero_series zero_term
        experimental.rnn: lstm_bwd lstm_fwd rnn_abstract_eval rnn_bwd_abstract_eval
        experimental.sparse: SparseTracer bcoo_dot_general_p bcoo_dot_general_sampled_p
            bcoo_extract_p bcoo_fromdense_p bcoo_sort_indices_p bcoo_spdot_general_p
            bcoo_sum_duplicates_p bcoo_todense_p bcoo_transpose_p bcsr_dot_general_p bcsr_extract_p
            bcsr_fromdense_p bcsr_todense_p coo_fromdense_p coo_matmat_p coo_matvec_p coo_todense_p
            csr_fromdense_p csr_matmat_p csr_matvec_p csr_todense_p todense_p
        experimental.sparse.linalg: spsolve_p
        debug: DebugEffect OrderedDebugEffect
        extend: linear_util random source_info_util
        extend.core: AbstractToken CallPrimitive DebugInfo DropVar Effect Effects JaxprTypeError
            Token TraceTag array_types call_impl check_jaxpr concrete_or_error gensym
            get_opaque_trace_state new_jaxpr_eqn no_effects nonempty_axis_env_DO_NOT_USE
            primal_dtype_to_tangent_dtype set_current_trace subjaxprs take_current_trace
            unsafe_am_i_under_a_jit_DO_NOT_USE unsafe_am_i_under_a_vmap_DO_NOT_USE
            unsafe_get_axis_names_DO_NOT_USE valid_jaxtype
        interpreters: partial_eval
        interpreters.ad: JVPTrace add_jaxvals add_jaxvals_p defjvp2 deflinear
            get_primitive_transpose jvp linearize zeros_like_aval
        interpreters.batching: bdim_at_front broadcast defreducer
        lax: after_all_p create_token_p dce_sink_p device_put_p select_and_scatter_p
        """,
    ),
)

_PUT = "device_put(x, NamedSharding(mesh, spec))"
_NAMED = "sharding.NamedSharding(mesh, spec)"

#: Names that older programs use, and JAX itself no longer has: what is used instead.
REMOVED = {
    "device_put_sharded": _PUT,
    "device_put_replicated": _PUT,
    "lax.pvary": "lax.pcast(x, axis_name, to='varying')",
    "sharding.PmapSharding": _NAMED,
    "sharding.PositionalSharding": _NAMED,
    "sharding.GSPMDSharding": _NAMED,
    "sharding.use_mesh": "set_mesh(mesh)",
    "lax.all_gather_invariant": "lax.all_gather(x, axis_name, to='invarying')",
}


@functools.cache
def _groups() -> dict[str, Group]:
    return {name: group for group in GROUPS for name in group.names}


def find(name: str) -> Group | None:
    """The group of a name below `jax`, or None."""
    return _groups().get(name)
