"""Functions whose derivatives the user writes: `custom_jvp`, `custom_vjp` and what is made of them.

Floor 6. In: functions of pytrees and their rules. Out: callables that every transformation takes as
they are, and differentiates by the rules given.
"""

from gpuarray.control.custom import custom_jvp_call_p as custom_jvp_call_p
from gpuarray.control.custom import custom_vjp_call_p as custom_vjp_call_p
from gpuarray.custom_derivatives.closures import closure_convert as closure_convert
from gpuarray.custom_derivatives.closures import custom_gradient as custom_gradient
from gpuarray.custom_derivatives.closures import linear_call as linear_call
from gpuarray.custom_derivatives.common import CustomVJPPrimal as CustomVJPPrimal
from gpuarray.custom_derivatives.common import SymbolicZero as SymbolicZero
from gpuarray.custom_derivatives.common import (
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
)
from gpuarray.custom_derivatives.common import zero_from_primal as zero_from_primal
from gpuarray.custom_derivatives.jvp import custom_jvp as custom_jvp
from gpuarray.custom_derivatives.vjp import custom_vjp as custom_vjp
