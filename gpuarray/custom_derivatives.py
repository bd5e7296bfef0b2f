"""Functions whose derivatives the user writes: `custom_jvp`, `custom_vjp` and related functions.

Floor 6. In: functions of pytrees and their rules. Out: callables that every transformation accepts,
and differentiates by the given rules.
"""

from gpuarray.api.closures import closure_convert as closure_convert
from gpuarray.api.linear_call import linear_call as linear_call
from gpuarray.control.custom_jvp import custom_jvp_call_p as custom_jvp_call_p
from gpuarray.control.custom_vjp import custom_vjp_call_p as custom_vjp_call_p
from gpuarray.functions.custom_jvp import custom_jvp as custom_jvp
from gpuarray.functions.custom_rules import CustomVJPPrimal as CustomVJPPrimal
from gpuarray.functions.custom_rules import SymbolicZero as SymbolicZero
from gpuarray.functions.custom_rules import (
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
)
from gpuarray.functions.custom_rules import zero_from_primal as zero_from_primal
from gpuarray.functions.custom_vjp import custom_gradient as custom_gradient
from gpuarray.functions.custom_vjp import custom_vjp as custom_vjp
from gpuarray.lax.elsewhere import remat_opt_p as remat_opt_p
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
