"""Epilogues of products: a bias, ReLU and GELU, which libraries apply to sums before they write
them.

Floor 2. In: a product. Out: what may follow it, each as a formula of scalars that a compiler
compares with what stands there, and the primitives of PRODUCTS, which are the product with it.

One definition of a formula serves three interpreters: equations of scalars, the current trace, and
NumPy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
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

#: What libraries compute with: they sum in float32, and round once when they write.
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


def with_epilogue(x: Any, bias: Sequence[Any], activation: str) -> Any:
    """Return a product with a bias, an element for each of its last axis if there is one, and an
    activation, as values of the current trace.
    """
    aval = aval_of(x)
    for b in bias:
        x = do.add(
            x,
            do.broadcast_in_dim(
                b, shape=aval.shape, broadcast_dimensions=(len(aval.shape) - 1,), sharding=None
            ),
        )
    return ACTIVATIONS[activation][0](_Traced(aval), x)


def in_numpy(x: np.ndarray, bias: Sequence[np.ndarray], activation: str, dtype: Any) -> np.ndarray:
    """Return the same of float32 numbers, rounded to `dtype` at the end."""
    for b in bias:
        x = x + b.astype(np.float32)
    return ACTIVATIONS[activation][0](_Numpy(), x).astype(dtype)


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
        factors, bias = _split(operands)
        made = np.asarray(multiply(*factors)).reshape(-1, columns)
        found = in_numpy(made, [b.reshape(columns) for b in bias], activation, aval.dtype)
        return found.reshape(aval.shape)

    return run


def _parts(*operands: Any, activation: str, **params) -> Any:
    """The product, and the rest in the precision of its result."""
    factors, bias = _split(operands)
    made = do.dot_general(*factors, **params)
    shape, columns = aval_of(made).shape, _columns(aval_of(factors[1]), params["dimension_numbers"])
    reshape = functools.partial(do.reshape, dimensions=None, sharding=None)
    rows = reshape(made, new_sizes=(math.prod(shape) // columns, columns))
    bias = [reshape(b, new_sizes=(columns,)) for b in bias]
    return reshape(with_epilogue(rows, bias, activation), new_sizes=shape)


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


#: activation(lhs · rhs + bias), with the params of `dot_general`, by the name of the activation.
#: The bias, which may be missing, has an element for each column, in any shape.
PRODUCTS = {
    "": _primitive("product_bias"),
    "relu": _primitive("product_relu"),
    "gelu": _primitive("product_gelu"),
}


# ---- rules ----
def epilogues(product: Eqn) -> tuple[Epilogue, ...]:
    """Return what may follow a product of floats."""
    dtype = product.outvars[0].aval.dtype
    return _epilogues(dtype) if dtype in DTYPES and product.outvars[0].aval.size else ()


@functools.lru_cache(maxsize=len(DTYPES))
def _epilogues(dtype: Any) -> tuple[Epilogue, ...]:
    found = []
    for name, forms in ACTIVATIONS.items():
        for form in forms:
            for biases in (1, 0):
                if name or biases:
                    formula = _formula(form, biases, dtype)
                    found.append(Epilogue(formula, (add_p, mul_p, max_p), _joined(name)))
    return tuple(found)


def _formula(form: Callable[[_Interpreter, Any], Any], biases: int, dtype: Any) -> Graph:
    scalars = _Scalars(dtype)
    x, *bias = (Var(scalars.aval) for _ in range(1 + biases))
    made = x
    for b in bias:
        made = scalars(add_p, made, b)
    return Graph([x, *bias], [form(scalars, made)], scalars.eqns)


def _joined(activation: str) -> Callable[[Eqn, Sequence[Any], Var], Eqn]:
    def joined(product: Eqn, operands: Sequence[Any], out: Var) -> Eqn:
        params = {**product.params, "activation": activation}
        operands = [*product.invars, *operands]
        return Eqn(PRODUCTS[activation], operands, [out], params, product.site)

    return joined
