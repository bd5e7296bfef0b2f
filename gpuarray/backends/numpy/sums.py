"""Sums of products: one NumPy call for two equations, without memory for the products.

Floor 4. In: members of a group, and those of their values that are read elsewhere. Out: the members
without such products, and the functions of the sums that absorb them.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from gpuarray.compiler.fuse.group import Dims, Inner, Load, Member, Operand
from gpuarray.core.graph import Eqn, Var
from gpuarray.primitives.reduce.host import sum_of_products

Function = Callable[..., Any]


def function_of(eqn: Eqn) -> Function:
    """Return the NumPy function of an equation."""
    return eqn.primitive.numpy_function([a.aval for a in eqn.invars], eqn.params)


def inner_operands(members: Iterable[Member]) -> list[Var]:
    """Return the values that members read from their own group, as often as they read them."""
    return [o.var for m in members for o in m.operands if isinstance(o, Inner)]


def summed_products(
    members: Iterable[Member], kept: Collection[Var]
) -> tuple[list[Member], dict[Member, Function]]:
    """Return the members without products that only a sum reads, and functions for those sums."""
    members = list(members)
    # The member that makes each value, and how many times it is read. Only members with one result
    # are products.
    makers = {m.eqn.outvars[0]: m for m in members if len(m.eqn.outvars) == 1}
    reads = collections.Counter(inner_operands(members))
    left: list[Member] = []
    taken: set[Member] = set()
    functions: dict[Member, Function] = {}
    for member in members:
        product = _product(member, makers)
        if product is not None:
            (v,) = product.eqn.outvars
            factors = _factors(product)
            # A product that others read, or that leaves the group, has to be in memory anyway.
            if factors is not None and reads[v] == 1 and v not in kept:
                taken.add(product)
                member = member.replace(operands=factors)
                functions[member] = sum_of_products(member.eqn.params["axes"], v.aval.dtype)
        left.append(member)
    return [m for m in left if m not in taken], functions


def _product(member: Member, makers: dict[Var, Member]) -> Member | None:
    """Return the member whose result is summed here unchanged, or None."""
    eqn = member.eqn
    # A sum in another dtype than its operand's would convert each product first.
    same = eqn.invars[0].aval.dtype == eqn.outvars[0].aval.dtype
    if eqn.primitive.plain_fold is not np.add or not same:
        return None
    (operand,) = member.operands
    maker = makers.get(operand.var) if isinstance(operand, Inner) else None
    return maker if maker is not None and _straight(operand, maker.dims) else None


def _factors(product: Member) -> list[Operand] | None:
    """Return the two factors of a product of floats, or None for anything else.

    Half precision is excluded: its products are rounded before they are summed.
    """
    function, dtype = function_of(product.eqn), product.eqn.outvars[0].aval.dtype
    if function not in (np.square, np.multiply) or dtype not in (np.float32, np.float64):
        return None
    # A square has one operand, which is both factors.
    factors = product.operands * (2 if function is np.square else 1)
    return factors if all(_straight(o, product.dims) for o in factors) else None


def _straight(operand: Operand, dims: Dims) -> bool:
    """Whether an operand has exactly the dimensions `dims`, in their order."""
    # No transpose and no broadcast: the sum's axes must be those of both factors.
    if isinstance(operand, Inner):
        return operand.order == tuple(range(len(dims))) and operand.var.aval.ndim == len(dims)
    return isinstance(operand, Load) and operand.dims == dims
