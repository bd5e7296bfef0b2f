"""`sparsify`: functions of dense arrays, called with sparse ones.

Floor 6. In: a function, and arguments of which some are sparse. Out: its results, sparse where that
follows from the operations. The function is traced as one of dense arrays of these shapes, and its
Graph is run with a rule for each operation with a sparse operand. An operation without a rule is an
error: nothing becomes dense implicitly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray import numpy as gnp
from gpuarray.control.call import jit_p
from gpuarray.control.checkpoint import remat_p
from gpuarray.control.cond import cond_p
from gpuarray.control.custom_jvp import custom_jvp_call_p
from gpuarray.control.custom_vjp import custom_vjp_call_p, forward_p
from gpuarray.control.graph_edits import cut
from gpuarray.control.scan import scan_p
from gpuarray.control.while_loop import while_p
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import Eqn, Graph, Literal, last_uses
from gpuarray.core.primitive import Primitive
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import Array
from gpuarray.experimental.sparse import layouts, patterns, products, slices
from gpuarray.experimental.sparse.base import SparseInfo, is_sparse, operations
from gpuarray.experimental.sparse.bcsr import (
    BCSR,
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
)
from gpuarray.experimental.sparse.coordinates import BCOO, bcoo_transpose
from gpuarray.experimental.sparse.creation import todense_p
from gpuarray.functions.inspect import eval_shape
from gpuarray.pytree import tree
from gpuarray.transforms.tracing import TracedFunction, stage_aux
from gpuarray.util import wraps

Rule = Callable[..., Any]
#: The rule of an operation by the format of its operands: rule(eqn, *operands) -> result(s).
_rules: dict[type, dict[Primitive, Rule]] = {BCOO: {}, BCSR: {}}

_CALLS: dict[Primitive, str] = {
    jit_p: "jaxpr",
    remat_p: "jaxpr",
    custom_jvp_call_p: "call_jaxpr",
    custom_vjp_call_p: "call_jaxpr",
    forward_p: "jaxpr",
}
#: Operations that make something else of 0, so that the result would be dense.
_DENSE = frozenset(
    {
        *(lax.acos_p, lax.acosh_p, lax.bessel_i0e_p, lax.cos_p, lax.cosh_p, lax.exp_p, lax.log_p),
        *(lax.eq_p, lax.ge_p, lax.gt_p, lax.le_p, lax.lt_p, lax.ne_p, lax.xor_p, lax.not_p),
        *(lax.logistic_p, lax.erfc_p, lax.is_finite_p),
    }
)


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """Extend a function of dense arrays to sparse ones.

    Keyword arguments are passed to `f` unchanged. use_tracer: JAX has two implementations; here
    there is one, and both values mean it.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> @sparse.sparsify
    ... def f(m, v):
    ...     return 2 * m.T @ v
    >>> f(sparse.eye(2, 3), gnp.array([3., 4.]))
    Array([6., 8., 0.], dtype=float32)
    """
    del use_tracer

    @boundary
    @wraps(f)
    def wrapped(*args: Any, **params: Any) -> Any:
        leaves, spec = tree.tree_flatten(args, is_leaf=is_sparse)
        avals = [_aval(x) for x in leaves]
        flat = lambda *values: tree.flatten(f(*tree.unflatten(spec, values), **params))
        # Staged on dense shapes: the user's function never sees a sparse array, so any function
        # will do.
        graph, out_spec = stage_aux(flat, avals, TracedFunction(f, "sparsify"))
        # Each argument counts separately, even if the same array is given twice: jit gets two, too.
        own = [x.with_data(x.data) if is_sparse(x) else gnp.asarray(x) for x in leaves]
        for x in own:
            if isinstance(x, BCOO):
                # Equal patterns mean that two operands have the same indices; arguments never share
                # one.
                x.pattern = object()
        return tree.unflatten(out_spec, run(graph, own))

    return wrapped


def _aval(x: Any) -> ShapedArray:
    if is_sparse(x):
        if type(x) not in _rules:
            raise NotImplementedError(
                f"sparsify: {type(x).__name__} arrays have no rules; BCOO and BCSR do"
            )
        return ShapedArray(x.shape, x.dtype, aval_of(x.data).weak_type)
    return aval_of(x)


def run(graph: Graph, args: Sequence[Any]) -> list:
    """The results of a Graph for values some of which are sparse."""
    env: dict = dict(zip(graph.constvars, graph.consts, strict=True))
    env.update(zip(graph.invars, args, strict=True))
    # Values are dropped after their last use, as an eager program would.
    last_use = last_uses(graph)
    for index, eqn in enumerate(graph.eqns):
        values = [a.operand if isinstance(a, Literal) else env[a] for a in eqn.invars]
        env.update(zip(eqn.outvars, _run_equation(eqn, values), strict=True))
        for v in last_use.get(index, ()):
            env.pop(v, None)
    return [a.operand if isinstance(a, Literal) else env[a] for a in graph.outvars]


def _run_equation(eqn: Eqn, values: list) -> list:
    prim = eqn.primitive
    kinds = [type(x) for x in values if is_sparse(x)]
    if not kinds:
        out = prim.bind(*values, **eqn.params)
        return list(out) if prim.multiple_results else [out]
    # Calls and control flow are opened.
    if prim in _CALLS:
        return run(eqn.params[_CALLS[prim]], values)
    control = _CONTROL.get(prim)
    if control is not None:
        return control(eqn.params, values)
    # Mixed formats use the rules of BCSR, which refuse unsupported operands.
    kind = BCSR if BCSR in kinds else BCOO
    rule = _rules[kind].get(prim)
    if rule is None:
        raise _no_rule(prim)
    out = rule(eqn, *values)
    return list(out) if isinstance(out, (tuple, list)) else [out]


def _no_rule(prim: Primitive) -> NotImplementedError:
    text = f"sparse rule for {prim} is not implemented"
    if prim in _DENSE:
        text += (
            " because it would result in dense output. If this is your intent, use "
            "sparse.todense() to convert your arguments to dense matrices"
        )
    return NotImplementedError(text + ".")


# ---- operations on the elements ----


def _unary(linear: bool) -> Rule:
    def rule(eqn: Eqn, x: Any) -> Any:
        # Of elements that are added later, only linear functions can be taken before.
        if not linear and not x.unique_indices:
            x = x.sum_duplicates(nse=x.nse, remove_zeros=False)
        return x.with_data(eqn.primitive.bind(x.data, **eqn.params))

    return rule


_LINEAR = (lax.conj_p, lax.copy_p, lax.imag_p, lax.neg_p, lax.real_p)
_KEEP_ZERO = (
    *(lax.abs_p, lax.asin_p, lax.asinh_p, lax.atan_p, lax.atanh_p, lax.bessel_i1e_p, lax.cbrt_p),
    *(lax.ceil_p, lax.convert_element_type_p, lax.erf_p, lax.expm1_p, lax.floor_p, lax.log1p_p),
    *(lax.round_p, lax.sign_p, lax.sin_p, lax.sinh_p, lax.sqrt_p, lax.square_p, lax.tan_p),
    lax.tanh_p,
)
for _table in _rules.values():
    _table.update(dict.fromkeys(_LINEAR, _unary(True)))
    _table.update(dict.fromkeys(_KEEP_ZERO, _unary(False)))


def _integer_pow(eqn: Eqn, x: Any) -> Any:
    if eqn.params["y"] <= 0:
        raise NotImplementedError(
            f"sparse rule for integer_pow with non-positive exponent {eqn.params['y']} is not "
            "implemented because it would result in dense output. If this is your intent, use "
            "sparse.todense() to convert your argument to a dense array."
        )
    return _unary(False)(eqn, x)


def _add(eqn: Eqn, x: Any, y: Any) -> Any:
    if not (isinstance(x, BCOO) and isinstance(y, BCOO)):
        mat, dense = (x, y) if isinstance(x, BCOO) else (y, x)
        if np.shape(dense) != eqn.outvars[0].aval.shape:
            raise NotImplementedError(
                f"a sparse array of shape {mat.shape} and a dense one of shape {np.shape(dense)} "
                "are not added: their sum would be dense, and larger than what was given. Make the "
                "sparse array dense first, with todense()."
            )
        return lax.add(mat.todense(), dense)
    if x.shape != y.shape:
        raise NotImplementedError("Addition between sparse matrices of different shapes.")
    # Stored elements match one by one: no search is needed.
    if x.pattern is y.pattern:
        return x.with_data(lax.add(x.data, y.data))
    if (x.n_batch, x.n_dense) != (y.n_batch, y.n_dense):
        raise NotImplementedError(
            "Addition between sparse matrices with different batch/dense dimensions."
        )
    # Else both lists one after the other: equal indices are added whenever that matters.
    n = x.n_batch
    batch = x.shape[:n]
    wide = [[patterns.spread(p, batch) for p in (m.data, m.indices)] for m in (x, y)]
    data, indices = (lax.concatenate(parts, n) for parts in zip(*wide, strict=True))
    return BCOO((data, indices), shape=x.shape)


def _sub(eqn: Eqn, x: Any, y: Any) -> Any:
    if not (isinstance(x, BCOO) and isinstance(y, BCOO)):
        raise NotImplementedError("Subtraction between sparse and dense array.")
    return _add(eqn, x, y.with_data(lax.neg(y.data)))


def _mul(_eqn: Eqn, x: Any, y: Any) -> Any:
    if not (isinstance(x, BCOO) and isinstance(y, BCOO)):
        mat, dense = (x, y) if isinstance(x, BCOO) else (y, x)
        return mat.with_data(products.bcoo_multiply_dense(mat, dense))
    if x.pattern is y.pattern and x.unique_indices:
        return x.with_data(lax.mul(x.data, y.data))
    return products.bcoo_multiply_sparse(x, y)


def _div(_eqn: Eqn, x: Any, y: Any) -> Any:
    if is_sparse(y):
        raise NotImplementedError(
            "Division by a sparse array is not implemented because it would result in dense "
            "output. If this is your intent, use sparse.todense() to convert your arguments to a "
            "dense array."
        )
    # By the reciprocal: the quotient has the pattern of x.
    one = np.ones((), aval_of(y).dtype)
    return x.with_data(products.bcoo_multiply_dense(x, lax.div(one, gnp.asarray(y))))


# ---- operations on shapes, and products ----


def _reduce_sum(eqn: Eqn, x: BCOO) -> Any:
    found = layouts.bcoo_reduce_sum(x, axes=eqn.params["axes"])
    return found if found.shape else found.data.sum(dtype=found.dtype)


def _broadcast(function: Callable) -> Rule:
    def rule(eqn: Eqn, x: Any) -> Any:
        shape = eqn.outvars[0].aval.shape
        return function(x, shape=shape, broadcast_dimensions=eqn.params["broadcast_dimensions"])

    return rule


def _concatenate(function: Callable) -> Rule:
    return lambda eqn, *xs: function(xs, dimension=eqn.params["dimension"])


def _stack(broadcast: Callable, concatenate: Callable) -> Rule:
    def rule(eqn: Eqn, *xs: Any) -> Any:
        axis = eqn.params["axis"]
        shape = (*xs[0].shape[:axis], 1, *xs[0].shape[axis:])
        # There is no stack of sparse arrays: each gets an axis of length 1, along which they are
        # joined.
        to = [d + (d >= axis) for d in range(xs[0].ndim)]
        wider = [broadcast(x, shape=shape, broadcast_dimensions=to) for x in xs]
        return concatenate(wider, dimension=axis)

    return rule


def _dot(function: Callable) -> Rule:
    return lambda eqn, x, y: function(
        x,
        y,
        dimension_numbers=eqn.params["dimension_numbers"],
        preferred_element_type=eqn.params.get("preferred_element_type"),
    )


def _gather(eqn: Eqn, x: Any, indices: Any) -> BCOO:
    if is_sparse(indices):
        raise NotImplementedError("sparse indices: use sparse.todense() to make them dense")
    return slices.bcoo_gather(x, indices, **eqn.params)


def _convolution(eqn: Eqn, x: Any, y: Any) -> BCOO:
    return products.bcoo_conv_general_dilated(x, y, **eqn.params)


_rules[BCOO].update(
    {
        lax.integer_pow_p: _integer_pow,
        lax.add_p: _add,
        lax.sub_p: _sub,
        lax.mul_p: _mul,
        lax.div_p: _div,
        lax.reduce_sum_p: _reduce_sum,
        lax.broadcast_in_dim_p: _broadcast(layouts.bcoo_broadcast_in_dim),
        lax.concatenate_p: _concatenate(layouts.bcoo_concatenate),
        lax.stack_p: _stack(layouts.bcoo_broadcast_in_dim, layouts.bcoo_concatenate),
        lax.conv_general_dilated_p: _convolution,
        lax.dot_general_p: _dot(products.bcoo_dot_general),
        lax.gather_p: _gather,
        lax.dynamic_slice_p: lambda eqn, x, *starts: slices.bcoo_dynamic_slice(
            x, starts, eqn.params["slice_sizes"]
        ),
        lax.reshape_p: lambda eqn, x: layouts.bcoo_reshape(x, **eqn.params),
        lax.rev_p: lambda eqn, x: layouts.bcoo_rev(x, eqn.params["dimensions"]),
        lax.slice_p: lambda eqn, x: slices.bcoo_slice(x, **eqn.params),
        lax.squeeze_p: lambda eqn, x: layouts.bcoo_squeeze(x, **eqn.params),
        lax.transpose_p: lambda eqn, x: bcoo_transpose(x, **eqn.params),
        todense_p: lambda eqn, x: x.todense(),
    }
)
_rules[BCSR].update(
    {
        lax.integer_pow_p: _integer_pow,
        lax.broadcast_in_dim_p: _broadcast(bcsr_broadcast_in_dim),
        lax.concatenate_p: _concatenate(bcsr_concatenate),
        lax.stack_p: _stack(bcsr_broadcast_in_dim, bcsr_concatenate),
        lax.dot_general_p: _dot(bcsr_dot_general),
        todense_p: lambda eqn, x: x.todense(),
    }
)


# ---- control flow ----


class _Body:
    """A Graph as a function of plain arrays, and the structure of its results."""

    def __init__(self, graph: Graph, spec: Any):
        self.graph, self.spec = graph, spec
        self.out_spec: Any = None

    def __call__(self, arrays: Sequence) -> list:
        out, self.out_spec = tree.flatten(run(self.graph, tree.unflatten(self.spec, arrays)))
        return out


def _plain(values: list) -> list:
    """The values without the promises about their indices, which a loop may not preserve."""
    return [
        type(x).tree_unflatten(SparseInfo(x.shape), x.tree_flatten()[0])
        if isinstance(x, (BCOO, BCSR))
        else x
        for x in values
    ]


def _cond(params: dict, values: list) -> list:
    index, *operands = values
    # Control flow carries plain arrays; formats are structure, which has to stay the same.
    arrays, spec = tree.flatten(_plain(operands))
    bodies = [_Body(graph, spec) for graph in params["branches"]]
    # First compare shapes alone: the error of `switch` about differing branches does not mention
    # formats.
    outs = [eval_shape(body, arrays) for body in bodies]
    made = [_plain(tree.unflatten(b.out_spec, out)) for b, out in zip(bodies, outs, strict=True)]
    specs = [tree.flatten(values)[1] for values in made]
    if any(s != specs[0] for s in specs):
        names = ("true_fun", "false_fun") if len(bodies) == 2 else ("branch 0", "other branches")
        raise TypeError(
            f"sparsified {names[0]} output must have same type structure as sparsified {names[1]} "
            f"output; got {' and '.join(str(s) for s in reversed(specs))}"
        )
    return tree.unflatten(specs[0], lax.switch(index, bodies, arrays))


def _while(params: dict, values: list) -> list:
    first, second, carry = cut(values, params["cond_nconsts"], params["body_nconsts"])
    arrays, spec = tree.flatten(_plain(carry))

    def going(arrays: list) -> Array:
        # The condition is a Graph over sparse values, so it is evaluated by rules, too.
        (found,) = run(params["cond_jaxpr"], [*first, *tree.unflatten(spec, arrays)])
        return found

    def step(arrays: list) -> list:
        return _carried(run(params["body_jaxpr"], [*second, *tree.unflatten(spec, arrays)]), spec)

    return tree.unflatten(spec, lax.while_loop(going, step, arrays))


def _carried(values: list, spec: Any) -> list:
    arrays, found = tree.flatten(_plain(values))
    if found != spec:
        raise TypeError(
            f"a sparsified loop must carry arrays of the same formats: it got {spec}, its body "
            f"gives {found}"
        )
    return arrays


def _scan(params: dict, values: list) -> list:
    consts, carry, xs = cut(values, params["num_consts"], params["num_carry"])
    if any(is_sparse(x) for x in xs):
        raise NotImplementedError("sparse rule for scan with x values.")
    arrays, spec = tree.flatten(_plain(carry))

    def step(arrays: list, x: list) -> tuple[list, list]:
        out = run(params["jaxpr"], [*consts, *tree.unflatten(spec, arrays), *x])
        new, y = cut(out, len(carry))
        if any(map(is_sparse, y)):
            raise NotImplementedError("sparse rule for scan with sparse results of each step.")
        return _carried(new, spec), y

    options = {name: params[name] for name in ("length", "reverse")}
    arrays, ys = lax.scan(step, arrays, xs, **options)
    return [*tree.unflatten(spec, arrays), *ys]


_CONTROL: dict[Primitive, Callable] = {cond_p: _cond, while_p: _while, scan_p: _scan}


# ---- methods and operators ----


def _swapped(f: Callable) -> Callable:
    return lambda x, y: sparsify(lambda a, b: f(b, a))(x, y)


def _power(x: BCOO, y: Any) -> BCOO:
    return sparsify(lambda a: gnp.power(a, y))(x)


def _getitem(x: Any, index: Any) -> Any:
    # An index within a program is slices and gathers, for which there are rules.
    found = sparsify(lambda a: a[index])(x)
    # An empty result is made without looking at the array.
    if isinstance(x, BCOO) and not is_sparse(found) and found.size == 0:
        return BCOO.fromdense(found)
    return found


def _method(name: str) -> Callable:
    return lambda x, *args, **kwargs: sparsify(lambda a: getattr(a, name)(*args, **kwargs))(x)


_BINARY: dict[str, Callable] = {
    name: getattr(gnp, name)
    for name in (
        *("matmul", "multiply", "divide", "add", "subtract"),
        *("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"),
    )
}
operations.setdefault(BCOO, {}).update(
    {name: sparsify(function) for name, function in _BINARY.items()}
    | {f"r{name}": _swapped(function) for name, function in _BINARY.items()}
    | {name: sparsify(getattr(gnp, name)) for name in ("abs", "negative", "positive")}
    | {name: _method(name) for name in ("sum", "reshape", "astype")}
    | {"power": _power, "rpower": _swapped(gnp.power), "getitem": _getitem}
)
operations.setdefault(BCSR, {}).update(
    {"matmul": sparsify(gnp.matmul), "rmatmul": _swapped(gnp.matmul), "getitem": _getitem}
)
