"""Kernels in Python over blocks of arrays, under JAX's names: `pallas_call` and its helpers.

Floor 6. In: functions of references. Out: functions of arrays, that compile as all others do.
"""

from gpuarray.experimental.pallas.call import pallas_call as pallas_call
from gpuarray.experimental.pallas.costs import estimate_cost as estimate_cost
from gpuarray.experimental.pallas.helpers import align_to as align_to
from gpuarray.experimental.pallas.helpers import broadcast_to as broadcast_to
from gpuarray.experimental.pallas.helpers import cdiv as cdiv
from gpuarray.experimental.pallas.helpers import debug_print as debug_print
from gpuarray.experimental.pallas.helpers import empty_like as empty_like
from gpuarray.experimental.pallas.helpers import empty_ref_like as empty_ref_like
from gpuarray.experimental.pallas.helpers import loop as loop
from gpuarray.experimental.pallas.helpers import multiple_of as multiple_of
from gpuarray.experimental.pallas.helpers import next_power_of_2 as next_power_of_2
from gpuarray.experimental.pallas.helpers import reciprocal as reciprocal
from gpuarray.experimental.pallas.helpers import run_scoped as run_scoped
from gpuarray.experimental.pallas.helpers import run_state as run_state
from gpuarray.experimental.pallas.helpers import strides_from_shape as strides_from_shape
from gpuarray.experimental.pallas.helpers import when as when
from gpuarray.experimental.pallas.helpers import with_scoped as with_scoped
from gpuarray.experimental.pallas.hints import Buffered as Buffered
from gpuarray.experimental.pallas.hints import CompilerParams as CompilerParams
from gpuarray.experimental.pallas.hints import RevisitMode as RevisitMode
from gpuarray.experimental.pallas.hints import debug_check as debug_check
from gpuarray.experimental.pallas.hints import delay as delay
from gpuarray.experimental.pallas.hints import enable_debug_checks as enable_debug_checks
from gpuarray.experimental.pallas.hints import enable_poison_buffers as enable_poison_buffers
from gpuarray.experimental.pallas.programs import num_programs as num_programs
from gpuarray.experimental.pallas.programs import program_id as program_id
from gpuarray.experimental.pallas.semaphores import DeviceIdType as DeviceIdType
from gpuarray.experimental.pallas.semaphores import semaphore as semaphore
from gpuarray.experimental.pallas.semaphores import semaphore_read as semaphore_read
from gpuarray.experimental.pallas.semaphores import semaphore_signal as semaphore_signal
from gpuarray.experimental.pallas.semaphores import semaphore_wait as semaphore_wait
from gpuarray.experimental.pallas.specs import Blocked as Blocked
from gpuarray.experimental.pallas.specs import BlockSpec as BlockSpec
from gpuarray.experimental.pallas.specs import CostEstimate as CostEstimate
from gpuarray.experimental.pallas.specs import Element as Element
from gpuarray.experimental.pallas.specs import GridSpec as GridSpec
from gpuarray.experimental.pallas.specs import MemoryRef as MemoryRef
from gpuarray.experimental.pallas.specs import MemorySpace as MemorySpace
from gpuarray.experimental.pallas.specs import Squeezed as Squeezed
from gpuarray.experimental.pallas.specs import no_block_spec as no_block_spec
from gpuarray.experimental.pallas.specs import squeezed as squeezed
from gpuarray.lax.creation import empty as empty
from gpuarray.names import explain_names as _explain_names
from gpuarray.primitives.slices import Slice as Slice
from gpuarray.primitives.slices import ds as ds
from gpuarray.primitives.slices import ds as dslice  # noqa: F401

ANY = MemorySpace.ANY
HOST = MemorySpace.HOST
BlockDim = Blocked | Element | Squeezed

__getattr__ = _explain_names(__name__, ("triton",))
