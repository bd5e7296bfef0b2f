"""The contents of `jax.experimental`, under the same names.

Floor 6. In: other public modules. Out: their names.
"""

from gpuarray.api.callbacks import io_callback as io_callback
from gpuarray.config import enable_x64 as enable_x64
from gpuarray.core.dtypes import primal_tangent_dtype as primal_tangent_dtype
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(
    __name__,
    (
        "array_serialization",
        "buffer_callback",
        "checkify",
        "colocated_python",
        "compilation_cache",
        "compute_on",
        "custom_partitioning",
        "hijax",
        "jet",
        "key_reuse",
        "layout",
        "mesh_utils",
        "multihost_utils",
        "ode",
        "pallas",
        "pjit",
        "random",
        "rnn",
        "roofline",
        "scheduling_groups",
        "serialize_executable",
        "shard_alike",
        "shard_map",
        "sparse",
        "topologies",
        "xla_metadata",
    ),
)
