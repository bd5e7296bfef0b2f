"""Loops, branches and calls by device as plain data: how a primitive that holds Graphs runs them.

Floor 1. In: an equation of such a primitive, read by its `flow` rule. Out: a `Loop`, a `Choice`, a
`ByDevice` or a `ByRule`, which a compiler can emit without knowing the primitive. Operands are
given by number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core.factors import Factors
from gpuarray.core.graph import Graph
from gpuarray.util import Struct


class Loop(Struct):
    """A Graph that is run repeatedly on its own results.

    Its results are the last carries, then ys.

    Attributes
    ----------
    body :
        (consts, carries, an element of each of xs) -> (carries, an element of each of ys).
    consts, carry, xs :
        Numbers of the operands that are constants, initial carries, and arrays to go through.
    length :
        How many steps; None: as long as `condition` (on its consts and the carries) is true.
    reverse :
        Whether xs and ys are processed from their ends.
    """

    body: Graph
    consts: range
    carry: range
    xs: range = range(0)
    length: int | None = None
    reverse: bool = False
    condition: Graph | None = None
    condition_consts: range = range(0)


class Choice(Struct):
    """One of several Graphs, applied to all operands but the first.

    The first operand is the number of the branch, clamped into range.
    """

    branches: tuple[Graph, ...]


class ByDevice(Struct):
    """A Graph that each device of a mesh runs on its pieces of the operands.

    Attributes
    ----------
    body :
        The Graph of one device.
    mesh :
        The devices, and the names of the axes that collectives in `body` use.
    in_specs, out_specs :
        PartitionSpecs of operands and results.
    automatic :
        Axes of the mesh along which values keep their sharding: pieces are whole along them.
    """

    body: Graph
    mesh: Any
    in_specs: tuple
    out_specs: tuple
    automatic: frozenset = frozenset()


class ByRule(Struct):
    """A Graph for whole operands, and the user's rule for pieces of them.

    Attributes
    ----------
    factors : (mesh) -> Factors
        The factors of operands and results; None: operands keep their sharding.
    results : (mesh, in_shardings) -> shardings of the results
        Without factors, the sharding of results; None leaves them whole.
    by_device : (mesh, in_shardings, out_shardings) -> ByDevice
        The program of each device for these shardings of operands and results.
    """

    factors: Callable[[Any], Factors] | None
    results: Callable | None
    by_device: Callable
