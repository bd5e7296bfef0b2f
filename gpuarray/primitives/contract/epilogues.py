"""Epilogues of products: a bias, another matrix, ReLU and GELU, which libraries apply to sums
before they write them.

Floor 2. In: a product. Out: the possible epilogues, each as a formula of scalars that a compiler
compares with the equations that follow, and the primitives of PRODUCTS, which are the product with
an epilogue.

One definition of a formula serves three interpreters: equations of scalars, the current trace, and
NumPy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Eqn, Graph, Literal, Var
from gpuarray.core.primitive import Kind, Primitive, registry
from gpuarray.core.rewrite import Epilogue
from gpuarray.primitives.define import do
from gpuarray.primitives.elementwise.arithmetic import add_p, integer_pow_p, max_p, mul_p
from gpuarray.primitives.elementwise.transcendental import tanh_p

#: Dtypes that libraries compute with: they sum in float32, and round once when they write.
DTYPES = (dtypes.float32, dtypes.float16, dtypes.bfloat16)


# ---- formulas ----
class _Interpreter(Protocol):
    """How a formula is computed."""

    def __call__(self, primitive: Primitive, *operands: Any, **params: Any) -> Any: ...
    def number(self, value: float) -> Any: ...


def _relu(do_: _Interpreter, x: Any) -> Any:
    return do_(max_p, x, do_.number(0))


def _gelu(do_: _Interpreter, x: Any) -> Any:
    """x / 2 (1 + tanh(√(2/π) (x + 0.044715 x³))), as `nn.gelu(x, approximate=True)` has it."""
    return do_(mul_p, x, do_(mul_p, do_.number(0.5), _one_and_tanh(do_, x)))


def _gelu_from_left(do_: _Interpreter, x: Any) -> Any:
    """The same with x / 2 computed first, as people write it."""
    return do_(mul_p, do_(mul_p, do_.number(0.5), x), _one_and_tanh(do_, x))


def _one_and_tanh(do_: _Interpreter, x: Any) -> Any:
    cube = do_(mul_p, do_.number(0.044715), do_(integer_pow_p, x, y=3))
    inner = do_(mul_p, do_.number(math.sqrt(2 / math.pi)), do_(add_p, x, cube))
    return do_(add_p, do_.number(1), do_(tanh_p, inner, accuracy=None))


#: How a bias and another matrix are added to a product: how many there are of each.
_SUMS: dict[tuple[int, int], tuple[Callable[..., Any], ...]] = {
    (0, 0): (lambda do_, x: x,),
    (1, 0): (lambda do_, x, b: do_(add_p, x, b),),
    (0, 1): (lambda do_, x, c: do_(add_p, x, c),),
    (1, 1): (
        lambda do_, x, b, c: do_(add_p, do_(add_p, x, b), c),
        lambda do_, x, b, c: do_(add_p, do_(add_p, x, c), b),
        lambda do_, x, b, c: do_(add_p, x, do_(add_p, b, c)),
    ),
}
#: Activations by name, each in the ways in which it may be written; the first one computes it.
ACTIVATIONS: dict[str, tuple[Callable[[_Interpreter, Any], Any], ...]] = {
    "": (lambda do_, x: x,),
    "relu": (_relu,),
    "gelu": (_gelu, _gelu_from_left),
}


class _Scalars:
    """Notes a formula as equations of scalars."""

    def __init__(self, dtype: Any):
        self.aval, self.eqns = ShapedArray((), dtype), list[Eqn]()

    def __call__(self, primitive: Primitive, *operands: Any, **params: Any) -> Var:
        out = Var(self.aval)
        self.eqns.append(Eqn(primitive, operands, [out], params))
        return out

    def number(self, value: float) -> Literal:
        return Literal(np.asarray(value, self.aval.dtype)[()], self.aval)


class _Traced:
    """Computes a formula in the current trace, for values of one shape."""

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __call__(self, primitive: Primitive, *operands: Any, **params: Any) -> Any:
        return primitive.bind(*operands, **params)

    def number(self, value: float) -> Any:
        scalar = np.asarray(value, self.aval.dtype)[()]
        return do.broadcast_in_dim(
            scalar, shape=self.aval.shape, broadcast_dimensions=(), sharding=None
        )


class _Numpy:
    """Computes a formula with NumPy, in float32 as libraries do."""

    def __call__(self, primitive: Primitive, *operands: Any, **params: Any) -> Any:
        return primitive.numpy_function([aval_of(x) for x in operands], params)(*operands)

    def number(self, value: float) -> np.float32:
        return np.float32(value)


def with_epilogue(x: Any, added: Sequence[Any], activation: str) -> Any:
    """Return a product with addends and an activation, as values of the current trace.

    An addend has an element for each of the product's last axis, or for each of the product.
    """
    aval = aval_of(x)
    for a in added:
        if aval_of(a).ndim == 1:
            axes = (len(aval.shape) - 1,)
            a = do.broadcast_in_dim(a, shape=aval.shape, broadcast_dimensions=axes, sharding=None)
        x = do.add(x, a)
    return ACTIVATIONS[activation][0](_Traced(aval), x)


def in_numpy(x: np.ndarray, added: Sequence[np.ndarray], activation: str, dtype: Any) -> np.ndarray:
    """Return the same of float32 numbers, rounded to `dtype` at the end."""
    for a in added:
        x = x + a.astype(np.float32)
    return ACTIVATIONS[activation][0](_Numpy(), x).astype(dtype)


def as_matrices(shape: tuple[int, ...], added: Iterable[ShapedArray]) -> list[tuple[int, ...]]:
    """Return the matrix shapes of addends of matrices of this shape: a row, or the same shape."""
    found: list[tuple[int, ...]] = []
    for a in added:
        found.append(shape[-1:] if a.size == shape[-1] and not found else shape)
    return found


# ---- the product with one of them ----
def _split(operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    return operands[:2], operands[2:]


def _columns(rhs: ShapedArray, dimension_numbers: Any) -> int:
    """The number of columns of a product."""
    (_, summed), (_, batch) = dimension_numbers
    return math.prod(n for d, n in enumerate(rhs.shape) if d not in (*summed, *batch))


def _aval(*avals: ShapedArray, activation: str, **params) -> ShapedArray:
    return registry["dot_general"].out_avals(avals[:2], params)[0]


def _numpy(avals: Sequence[ShapedArray], *, activation: str, **params) -> Callable[..., Any]:
    product, aval = registry["dot_general"], _aval(*avals, activation=activation, **params)
    columns = _columns(avals[1], params["dimension_numbers"])
    wide = {**params, "preferred_element_type": dtypes.float32}
    multiply = product.numpy_function(avals[:2], wide)

    def run(*operands: np.ndarray) -> np.ndarray:
        factors, added = _split(operands)
        made = np.asarray(multiply(*factors)).reshape(-1, columns)
        shapes = as_matrices(made.shape, map(aval_of, added))
        added = [a.reshape(s) for a, s in zip(added, shapes, strict=True)]
        found = in_numpy(made, added, activation, aval.dtype)
        return found.reshape(aval.shape)

    return run


def _parts(*operands: Any, activation: str, **params) -> Any:
    """The product, and the rest in the precision of its result."""
    factors, added = _split(operands)
    made = do.dot_general(*factors, **params)
    shape, columns = aval_of(made).shape, _columns(aval_of(factors[1]), params["dimension_numbers"])
    reshape = functools.partial(do.reshape, dimensions=None, sharding=None)
    rows = (math.prod(shape) // columns, columns)
    shapes = as_matrices(rows, map(aval_of, added))
    added = [reshape(a, new_sizes=s) for a, s in zip(added, shapes, strict=True)]
    made = with_epilogue(reshape(made, new_sizes=rows), added, activation)
    return reshape(made, new_sizes=shape)


def _work(avals: Sequence[ShapedArray], *, activation: str, **params) -> float:
    work = registry["dot_general"].work
    assert work is not None
    return work(avals[:2], **params)


def _primitive(name: str) -> Primitive:
    return Primitive(
        name,
        Kind.LIBRARY,
        aval=_aval,
        numpy_pick=_numpy,
        decompose=_parts,
        work=_work,
        register=False,
    )


#: activation(lhs · rhs + bias + matrix), with the params of `dot_general`, by the name of the
#: activation. The bias has an element for each column, in any shape; it or the matrix may be
#: missing.
PRODUCTS = {
    "": _primitive("product_add"),
    "relu": _primitive("product_relu"),
    "gelu": _primitive("product_gelu"),
}


# ---- rules ----
def epilogues(product: Eqn) -> tuple[Epilogue, ...]:
    """Return the possible epilogues of a product of floats."""
    dtype = product.outvars[0].aval.dtype
    return _epilogues(dtype) if dtype in DTYPES and product.outvars[0].aval.size else ()


@functools.lru_cache(maxsize=len(DTYPES))
def _epilogues(dtype: Any) -> tuple[Epilogue, ...]:
    found = []
    for name, forms in ACTIVATIONS.items():
        for form in forms:
            for (columns, whole), sums in _SUMS.items():
                for add in sums if name or columns or whole else ():
                    formula = _formula(form, add, columns + whole, dtype)
                    found.append(Epilogue(formula, whole, (add_p, mul_p, max_p), _joined(name)))
    return tuple(found)


def _formula(form: Callable[..., Any], add: Callable[..., Any], added: int, dtype: Any) -> Graph:
    scalars = _Scalars(dtype)
    operands = [Var(scalars.aval) for _ in range(1 + added)]
    return Graph(operands, [form(scalars, add(scalars, *operands))], scalars.eqns)


def _joined(activation: str) -> Callable[[Eqn, Sequence[Any], Var], Eqn]:
    def joined(product: Eqn, operands: Sequence[Any], out: Var) -> Eqn:
        params = {**product.params, "activation": activation}
        operands = [*product.invars, *operands]
        return Eqn(PRODUCTS[activation], operands, [out], params, product.site)

    return joined
