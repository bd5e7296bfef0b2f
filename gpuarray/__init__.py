"""gpuarray: array math for NVIDIA GPUs with the face of JAX.

`import gpuarray as ga, gpuarray.numpy as gnp`, and a program written for JAX runs by changing those
two lines. Operations are recorded and fused into few kernels, with and without `jit`; without a GPU
the same program runs on NumPy.
"""

from typing import TYPE_CHECKING

# The printer and the evaluating trace move into their places by being imported.
import gpuarray.core.printing
import gpuarray.runtime.client
import gpuarray.runtime.garbage
import gpuarray.runtime.lazy
import gpuarray.runtime.origins  # noqa: F401
from gpuarray import custom_batching as custom_batching
from gpuarray import custom_derivatives as custom_derivatives
from gpuarray import debug as debug
from gpuarray import dtypes as dtypes
from gpuarray import errors as errors
from gpuarray import experimental as experimental
from gpuarray import lax as lax
from gpuarray import numpy as numpy
from gpuarray import random as random
from gpuarray import ref as ref
from gpuarray import sharding as sharding
from gpuarray import stages as stages
from gpuarray import tree as tree
from gpuarray import tree_util as tree_util
from gpuarray import typing as typing
from gpuarray.api.callbacks import pure_callback as pure_callback
from gpuarray.api.checkpoint import checkpoint as checkpoint
from gpuarray.api.checkpoint import checkpoint_policies as checkpoint_policies
from gpuarray.api.checkpoint import remat as remat
from gpuarray.api.compile_for import compile_for as compile_for
from gpuarray.api.cuda_op import cuda_op as cuda_op
from gpuarray.api.environment import print_environment_info as print_environment_info
from gpuarray.api.explain import explain as explain
from gpuarray.api.fwd_and_bwd import fwd_and_bwd as fwd_and_bwd
from gpuarray.api.grad import grad as grad
from gpuarray.api.grad import value_and_grad as value_and_grad
from gpuarray.api.jacobian import hessian as hessian
from gpuarray.api.jacobian import jacfwd as jacfwd
from gpuarray.api.jacobian import jacobian as jacobian
from gpuarray.api.jacobian import jacrev as jacrev
from gpuarray.api.jvp import jvp as jvp
from gpuarray.api.jvp import linearize as linearize
from gpuarray.api.pmap import pmap as pmap
from gpuarray.api.profile import profile as profile
from gpuarray.api.references import Ref as Ref
from gpuarray.api.references import empty_ref as empty_ref
from gpuarray.api.references import free_ref as free_ref
from gpuarray.api.references import freeze as freeze
from gpuarray.api.references import new_ref as new_ref
from gpuarray.api.shard_map import shard_map as shard_map
from gpuarray.api.shard_map import smap as smap
from gpuarray.api.vjp import ad as ad
from gpuarray.api.vjp import linear_transpose as linear_transpose
from gpuarray.api.vjp import vjp as vjp
from gpuarray.compat import install_as_jax as install_as_jax
from gpuarray.config import allow_f16_reductions as allow_f16_reductions
from gpuarray.config import array_garbage_collection_guard as array_garbage_collection_guard
from gpuarray.config import auto_pcast as auto_pcast
from gpuarray.config import check_tracer_leaks as check_tracer_leaks
from gpuarray.config import checking_leaks as checking_leaks
from gpuarray.config import debug_infs as debug_infs
from gpuarray.config import debug_key_reuse as debug_key_reuse
from gpuarray.config import debug_nans as debug_nans
from gpuarray.config import default_device as default_device
from gpuarray.config import default_matmul_precision as default_matmul_precision
from gpuarray.config import default_prng_impl as default_prng_impl
from gpuarray.config import disable_jit as disable_jit
from gpuarray.config import enable_checks as enable_checks
from gpuarray.config import enable_custom_prng as enable_custom_prng
from gpuarray.config import enable_x64 as enable_x64
from gpuarray.config import explain_cache_misses as explain_cache_misses
from gpuarray.config import fusion as fusion
from gpuarray.config import legacy_prng_key as legacy_prng_key
from gpuarray.config import log_compiles as log_compiles
from gpuarray.config import no_execution as no_execution
from gpuarray.config import no_tracing as no_tracing
from gpuarray.config import numpy_dtype_promotion as numpy_dtype_promotion
from gpuarray.config import numpy_rank_promotion as numpy_rank_promotion
from gpuarray.config import (
    remove_size_one_mesh_axis_from_type as remove_size_one_mesh_axis_from_type,
)
from gpuarray.config import softmax_custom_jvp as softmax_custom_jvp
from gpuarray.config import thread_guard as thread_guard
from gpuarray.config import threefry_partitionable as threefry_partitionable
from gpuarray.config import transfer_guard as transfer_guard
from gpuarray.config import transfer_guard_device_to_device as transfer_guard_device_to_device
from gpuarray.config import transfer_guard_device_to_host as transfer_guard_device_to_host
from gpuarray.config import transfer_guard_host_to_device as transfer_guard_host_to_device
from gpuarray.core.dtypes import float0 as float0
from gpuarray.core.mesh import NamedSharding as NamedSharding
from gpuarray.core.mesh import P as P
from gpuarray.core.mesh_context import set_mesh as set_mesh
from gpuarray.core.sharding import Device as Device
from gpuarray.core.sharding import Shard as Shard
from gpuarray.core.tracebacks import install as _install_hooks
from gpuarray.core.user_context import make_user_context as make_user_context
from gpuarray.core.value import Array as Array
from gpuarray.custom_derivatives import closure_convert as closure_convert
from gpuarray.custom_derivatives import custom_gradient as custom_gradient
from gpuarray.custom_derivatives import custom_jvp as custom_jvp
from gpuarray.custom_derivatives import custom_vjp as custom_vjp
from gpuarray.functions.explicit import reshard as reshard
from gpuarray.functions.inspect import ShapeDtypeStruct as ShapeDtypeStruct
from gpuarray.functions.inspect import ensure_compile_time_eval as ensure_compile_time_eval
from gpuarray.functions.inspect import eval_shape as eval_shape
from gpuarray.functions.inspect import make_jaxpr as make_jaxpr
from gpuarray.functions.inspect import named_call as named_call
from gpuarray.functions.inspect import named_scope as named_scope
from gpuarray.functions.inspect import typeof as typeof
from gpuarray.functions.jit import clear_caches as clear_caches
from gpuarray.functions.jit import jit as jit
from gpuarray.functions.vmap import vmap as vmap
from gpuarray.names import explain_names as _explain_names
from gpuarray.names import list_names as _list_names
from gpuarray.primitives.slices import ds as ds
from gpuarray.runtime.device import default_backend as default_backend
from gpuarray.runtime.device import device_count as device_count
from gpuarray.runtime.device import devices as devices
from gpuarray.runtime.device import host_count as host_count
from gpuarray.runtime.device import host_id as host_id
from gpuarray.runtime.device import host_ids as host_ids
from gpuarray.runtime.device import local_device_count as local_device_count
from gpuarray.runtime.device import local_devices as local_devices
from gpuarray.runtime.device import process_count as process_count
from gpuarray.runtime.device import process_index as process_index
from gpuarray.runtime.device import process_indices as process_indices
from gpuarray.runtime.from_pieces import make_array_from_callback as make_array_from_callback
from gpuarray.runtime.from_pieces import (
    make_array_from_process_local_data as make_array_from_process_local_data,
)
from gpuarray.runtime.from_pieces import (
    make_array_from_single_device_arrays as make_array_from_single_device_arrays,
)
from gpuarray.runtime.memory import free as free
from gpuarray.runtime.memory import live_arrays as live_arrays
from gpuarray.runtime.memory import memory_stats as memory_stats
from gpuarray.runtime.transfer import block_until_ready as block_until_ready
from gpuarray.runtime.transfer import copy_to_host_async as copy_to_host_async
from gpuarray.runtime.transfer import device_get as device_get
from gpuarray.runtime.transfer import device_put as device_put
from gpuarray.runtime.transfer import effects_barrier as effects_barrier
from gpuarray.sharding import make_mesh as make_mesh

# Modules that load on first use: type checkers cannot see that, and get imports.
if TYPE_CHECKING:
    from gpuarray import api_util as api_util
    from gpuarray import distributed as distributed
    from gpuarray import dlpack as dlpack
    from gpuarray import example_libraries as example_libraries
    from gpuarray import export as export
    from gpuarray import extend as extend
    from gpuarray import ffi as ffi
    from gpuarray import flatten_util as flatten_util
    from gpuarray import image as image
    from gpuarray import interpreters as interpreters
    from gpuarray import nn as nn
    from gpuarray import profiler as profiler
    from gpuarray import scipy as scipy
    from gpuarray import test_util as test_util

# Last: the package attribute `config` is the settings object, no longer the module of that name.
from gpuarray.config import config as config  # isort: skip

from gpuarray.version import __version__ as __version__

_install_hooks()

# Modules that few programs use; without them the import is quicker.
_LAZY = (
    "api_util",
    "ad_checkpoint",
    "collect_profile",
    "distributed",
    "dlpack",
    "example_libraries",
    "export",
    "extend",
    "ffi",
    "flatten_util",
    "image",
    "interpreters",
    "lib",
    "memory",
    "monitoring",
    "nn",
    "ops",
    "profiler",
    "scipy",
    "test_util",
)
__getattr__ = _explain_names(__name__, _LAZY)
__dir__ = _list_names(__name__, _LAZY)
