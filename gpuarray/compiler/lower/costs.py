"""Which values can be made where they are read, and what that costs.

Floor 3. In: equations. Out: numbers, by which inline.py decides what is a kernel of its own.
"""

from __future__ import annotations

import math

from gpuarray.compiler.lower import element_convolution, element_folds, element_random
from gpuarray.compiler.lower.elements import SCATTERS, rule_of
from gpuarray.compiler.target import TARGET

# They register the rules of what they are about.
from gpuarray.compiler.text import types as ct
from gpuarray.compiler.text.expressions import has_text
from gpuarray.core.graph import Eqn, Graph
from gpuarray.core.primitive import Kind

#: Of so many updates every element of a scatter's result looks at all.
LOOKED_AT = TARGET.updates_looked_at
#: Equations of which operand 1 says where elements are.
_LOOKUPS = ("gather", *SCATTERS)
#: Equations whose operand is read element by element, but never twice.
_ONCE = ("concatenate", "stack", "split", "unstack")


def can_reach(eqn: Eqn) -> bool:
    """Whether an element of an equation's results can be made where it is read."""
    name, params = eqn.primitive.name, eqn.params
    if rule_of(eqn) is None or not all(ct.has_type(a.aval) for a in (*eqn.invars, *eqn.outvars)):
        return False
    if isinstance(params.get("jaxpr", None), Graph):
        return element_folds.is_scalar_graph(params["jaxpr"])
    if name in SCATTERS:
        few = math.prod(eqn.invars[1].aval.shape[:-1]) <= LOOKED_AT
        body = params.get("update_jaxpr")
        return few and (body is None or element_folds.is_scalar_graph(body))
    if name == "conv_general_dilated":
        return element_convolution.is_short(eqn)
    if name.startswith("random") or name == "rng_bit_generator":
        return element_random.has_text(eqn)
    if eqn.primitive.kind in (Kind.POINTWISE, Kind.GENERATOR):
        return has_text(eqn)
    return True


def cost_of(eqn: Eqn) -> float:
    """Cost of an element of the results, in multiply-adds, without its operands."""
    kind, name = eqn.primitive.kind, eqn.primitive.name
    if kind is Kind.VIEW:
        return 0.0
    if kind is Kind.MOVEMENT:
        return 1.0 + max(len(eqn.invars) - 4, 0).bit_length()
    if name == "gather":
        return 3.0 * eqn.invars[1].aval.shape[-1]
    return eqn.primitive.weight * _repeated(eqn)


def _repeated(eqn: Eqn) -> int:
    """How many elements of the operands go into one of the results."""
    if "window_dimensions" in eqn.params:
        times = math.prod(eqn.params["window_dimensions"])
        return times * times if eqn.primitive.name == "select_and_scatter_add" else times
    if eqn.primitive.name == "conv_general_dilated":
        return element_convolution.steps_of(eqn)
    if eqn.primitive.name == "reduce":
        return max(eqn.invars[0].aval.size // max(eqn.outvars[0].aval.size, 1), 1)
    if eqn.primitive.name in SCATTERS:
        return max(math.prod(eqn.invars[1].aval.shape[:-1]), 1)
    return 1


def is_place(eqn: Eqn, operand: int) -> bool:
    """Whether an operand says where elements are."""
    name = eqn.primitive.name
    if name == "dynamic_update_slice":
        return operand >= 2
    return operand >= 1 if name == "dynamic_slice" else name in _LOOKUPS and operand == 1


def reads_of(eqn: Eqn, operand: int) -> int | None:
    """How many elements of an operand are read in all; None where it must be in memory."""
    name, size = eqn.primitive.name, eqn.outvars[0].aval.size
    own = eqn.invars[operand].aval.size
    if name in _ONCE or (name, operand) in (("pad", 0), ("dynamic_update_slice", 1)):
        return own
    if name == "searchsorted":
        return None if operand == 0 else size
    if name in SCATTERS:
        return size * _repeated(eqn) if operand == 1 else max(size, own)
    return size * _repeated(eqn)
