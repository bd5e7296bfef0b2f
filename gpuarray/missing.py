"""Names of JAX 0.10.2 that are not here, in groups that say why; names of other libraries.

Floor 0. Loaded by `gpuarray.names` when a name that does not exist is looked up. In: a name below
`jax`. Out: its group. When a name is added to the library, remove it here; tests compare this list
with JAX's names, and with the table in docs/differences.md.
"""

from __future__ import annotations

import functools
from typing import NamedTuple


class Group(NamedTuple):
    """Names that are missing for one reason."""

    title: str
    why: str
    #: "module: names in it", `jax:` for the top level. A module that is missing entirely is listed
    #: among the names of its parent.
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
        "devices that are not there",
        "`compile_for` compiles a function for a GPU that is not attached",
        "experimental.topologies: get_topology_desc",
    ),
    Group(
        "services between processes",
        "processes exchange values in computations, and files",
        "experimental: transfer",
    ),
    Group(
        "profiling and monitoring",
        "`explain` shows the kernels of a function and their lines, `profile` how long they take",
        """
        experimental: profiler source_mapper
        """,
    ),
    Group(
        "kernels in other languages",
        "`cuda_op` makes an operation of CUDA C++, `pure_callback` of a Python function; of Pallas "
        "there is what holds on every device",
        """
        experimental: fused mosaic
        experimental.pallas: BoundedSlice Indirect core_map get_global kernel lower_as_mlir
            pallas_call_p pallas_export_experimental select_ref fuser mosaic_gpu ops tpu tpu_sc
        experimental.pallas.triton: elementwise_inline_asm
        extend: pallas
        ffi: build_ffi_lowering_function ffi_lowering
            register_ffi_target_as_batch_partitionable
        """,
    ),
    Group(
        "the XLA compiler and its programs",
        "programs are compiled to CUDA C++ here, or run by NumPy",
        """
        jax: cloud_tpu_init jax2tf_associative_scan_reductions tools
        experimental: control_deps jax2tf
        extend: lowering mlir sharding xla
        extend.backend: get_compile_options ifrt_proxy register_backend_factory
        experimental.scheduling_groups: attr_get
        interpreters.pxla: create_compile_options
        interpreters.mlir: AxisContext ConstantHandler DEVICE_TO_DEVICE_TYPE LoweringParameters
            LoweringResult Mesh ModuleContext RECV_FROM_HOST_TYPE
            SEND_TO_HOST_TYPE SPMDAxisContext ShapePolyLoweringState ShardingContext Token TokenSet
            Value aval_to_ir_type aval_to_ir_types core_call_lowering dense_int_array
            dense_int_elements dtype_to_ir_type emit_python_callback flatten_ir_types
            flatten_ir_values i32_attr i64_attr ir_attribute ir_constant ir_constants
            ir_tree_registry ir_type_handlers jaxpr_subcomp lower_jaxpr_to_fun lower_jaxpr_to_module
            lowerable_effects make_ir_context merge_mlir_modules module_to_bytecode module_to_string
            register_constant_handler shape_tensor token_type unflatten_ir_values_like_types
        """,
    ),
    Group(
        "experiments, and libraries on top of JAX",
        "not written here",
        """
        experimental.hijax: HiPspec
        experimental: EArray cur_qdd
        """,
    ),
    Group(
        "how JAX works inside",
        "what there is for programs that look inside is in `extend.core` and `interpreters`",
        """
        experimental.sparse: SparseTracer
        interpreters.partial_eval: custom_partial_eval_rules partial_eval_jaxpr_custom_rules
        interpreters.ad: jvp linearize
        """,
    ),
)

_PUT = "device_put(x, NamedSharding(mesh, spec))"
_NAMED = "sharding.NamedSharding(mesh, spec)"

#: Modules searched, in this order, for a name that was looked up in the wrong module.
NAMESPACES = ("", "numpy", "lax", "nn", "random", "numpy.linalg", "numpy.fft")

_GPU = "gpuarray.devices('gpu'), which says why there is none"
_FLOAT = "float, or gpuarray.numpy.float32"

#: Names of NumPy, CuPy and PyTorch that newcomers try: what to write instead. ".x" is at the top
#: level.
ELSEWHERE = {
    ".Tensor": "gpuarray.numpy.asarray(values)",
    ".cuda": _GPU,
    ".empty_cache": "gpuarray.free()",
    ".fft": "gpuarray.numpy.fft",
    ".from_numpy": "gpuarray.numpy.asarray(array)",
    ".linalg": "gpuarray.numpy.linalg",
    ".manual_seed": "key = gpuarray.random.key(seed), and give the key to each draw",
    ".no_grad": "nothing: only what is inside gpuarray.grad is differentiated (lax.stop_gradient)",
    ".relu": "gpuarray.nn.relu",
    ".synchronize": "x.block_until_ready()",
    ".tensor": "gpuarray.numpy.asarray(values)",
    "numpy.asnumpy": "numpy.asarray(x)",
    "numpy.cat": "concatenate(arrays, axis=0)",
    "numpy.cuda": _GPU,
    "numpy.float": _FLOAT,
    "numpy.from_numpy": "asarray(array)",
    "numpy.fuse": "gpuarray.jit, or nothing: operations fuse without it",
    "numpy.get_default_memory_pool": "gpuarray.memory_stats() or gpuarray.free()",
    "numpy.matrix": "asarray(values): arrays of two axes, and @ for their product",
    "numpy.random": "gpuarray.random, whose functions take a key: normal(key(0), shape)",
    "numpy.tensor": "asarray(values)",
    "random.default_rng": "key = random.key(seed), and random.split(key) before each draw",
    "random.rand": "random.uniform(key, shape)",
    "random.randn": "random.normal(key, shape)",
    "random.random": "random.uniform(key, shape)",
    "random.seed": "key = random.key(seed), and give the key to each draw",
    "random.shuffle": "random.permutation(key, x)",
}

#: Names that older programs use and JAX itself has removed: their replacements.
REMOVED = {
    "device_put_sharded": _PUT,
    "device_put_replicated": _PUT,
    "lax.pvary": "lax.pcast(x, axis_name, to='varying')",
    "sharding.PmapSharding": _NAMED,
    "sharding.PositionalSharding": _NAMED,
    "sharding.GSPMDSharding": _NAMED,
    "sharding.use_mesh": "set_mesh(mesh)",
    "experimental.pallas.load": "experimental.pallas.triton.load(ref.at[index], mask=mask)",
    "experimental.pallas.store": "experimental.pallas.triton.store(ref.at[index], x, mask=mask)",
    "experimental.pallas.swap": "ref.swap(ref, index, x)",
    "experimental.pallas.atomic_add": "experimental.pallas.triton.atomic_add(ref, index, x)",
    "experimental.pallas.dot": "experimental.pallas.triton.dot(a, b)",
    "lax.all_gather_invariant": "lax.all_gather(x, axis_name, to='invarying')",
}


@functools.cache
def _groups() -> dict[str, Group]:
    return {name: group for group in GROUPS for name in group.names}


def find(name: str) -> Group | None:
    """The group of a name below `jax`, or None."""
    return _groups().get(name)
