"""The cost of a function before fusion: `estimate_cost`.

Floor 6. In: a function and arguments, of which only the types matter. Out: a CostEstimate. The
figures are comparable with JAX's; `explain` shows the bytes that a program moves here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gpuarray import lax
from gpuarray.core.graph import Eqn, Graph, called
from gpuarray.core.primitive import Primitive
from gpuarray.experimental.pallas.specs import CostEstimate
from gpuarray.functions.inspect import make_jaxpr
from gpuarray.pytree import tree

#: Operations that count once for each element of the result.
_PLAIN = frozenset(
    {
        *(lax.add_p, lax.sub_p, lax.mul_p, lax.div_p, lax.min_p, lax.max_p),
        *(lax.or_p, lax.and_p, lax.xor_p, lax.not_p),
        *(lax.neg_p, lax.floor_p, lax.ceil_p, lax.round_p),
    }
)
_TRANSCENDENTAL = frozenset(
    {
        *(lax.sin_p, lax.cos_p, lax.tan_p, lax.asin_p, lax.acos_p, lax.atan_p),
        *(lax.sinh_p, lax.cosh_p, lax.tanh_p, lax.exp_p, lax.log_p, lax.logistic_p, lax.sqrt_p),
    }
)


def _power(eqn: Eqn) -> int:
    # Squares up to the highest bit, and a product for each bit that is set.
    y = eqn.params["y"]
    return eqn.outvars[0].aval.size * (0 if y in (0, 1) else int(math.log2(y)) + y.bit_count())


def _product(eqn: Eqn) -> int:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    x = eqn.invars[0].aval
    return 2 * eqn.outvars[0].aval.size * math.prod(x.shape[i] for i in contracted)


_OTHERS: dict[Primitive, Callable[[Eqn], int]] = {
    lax.integer_pow_p: _power,
    lax.square_p: lambda eqn: 0,
    lax.dot_general_p: _product,
}


def _counted(graph: Graph) -> tuple[int, int]:
    """The plain and the transcendental operations of a Graph and of those that it calls."""
    flops = transcendentals = 0
    for eqn in graph.eqns:
        inner = called(eqn)
        if inner is not None:
            more = _counted(inner)
            flops, transcendentals = flops + more[0], transcendentals + more[1]
        elif eqn.primitive in _PLAIN:
            flops += eqn.outvars[0].aval.size
        elif eqn.primitive in _TRANSCENDENTAL:
            transcendentals += eqn.outvars[0].aval.size
        elif eqn.primitive in _OTHERS:
            flops += _OTHERS[eqn.primitive](eqn)
    return flops, transcendentals


def estimate_cost(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CostEstimate:
    """The operations of a function of arrays, and the bytes of its arguments and results.

    Arithmetic and matrix products count, loops and branches do not.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import pallas as pl
    >>> x = ga.ShapeDtypeStruct((4, 8), "float32")
    >>> pl.estimate_cost(lambda x: ga.numpy.exp(x @ x.T), x)
    CostEstimate(flops=256, transcendentals=16, bytes_accessed=192, remote_bytes_transferred=0)
    """
    graph = make_jaxpr(lambda *xs: fun(*xs, **kwargs))(*args)
    flops, transcendentals = _counted(graph)
    avals = [*tree.tree_leaves(args), *graph.out_avals]
    moved = sum(math.prod(a.shape) * a.dtype.itemsize for a in avals)
    return CostEstimate(flops, transcendentals, moved)
