"""Derivatives of functions: `grad`, `jvp`, `vjp` and what is made of them.

Floor 6. In: functions of pytrees. Out: functions that return derivatives, to any order and in any
composition with `jit` and `vmap`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.api.argnums import indices
from gpuarray.api.stages import struct_of
from gpuarray.api.vjp import Pullback, aval_of_tangent, real_array
from gpuarray.api.vmap import vmap
from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.graph import evaluate
from gpuarray.core.linear import Zero, is_inexact, is_zero, tangent_aval
from gpuarray.core.trace import owned
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import Array
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.matrices import eye
from gpuarray.primitives.linear import constant, instantiate, zeros
from gpuarray.pytree import tree
from gpuarray.transforms.batch import BatchAxis, batch_flat, matched
from gpuarray.transforms.jvp import jvp_flat
from gpuarray.transforms.linearize import linearize_flat
from gpuarray.transforms.stage import TracedFunction, stage
from gpuarray.transforms.transpose import transpose_flat

# ---- flat functions ----


class _Flat:
    """A function of pytrees as a function of leaves; remembers the structure of the last result."""

    def __init__(
        self, fun: Callable, args: tuple, kwargs: dict | None = None, has_aux: bool = False
    ):
        self.fun = fun
        self.kwargs = kwargs or {}
        self.has_aux = has_aux
        leaves, self.in_spec = tree.flatten(args)
        self.leaves = [owned(x) for x in leaves]
        self.out_spec: Any = None
        self.aux: Any = None

    def __call__(self, *leaves):
        result = self.fun(*tree.unflatten(self.in_spec, leaves), **self.kwargs)
        if self.has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise TypeError(
                    "With has_aux=True the function must return a pair (output, aux), got "
                    f"{type(result).__name__}"
                )
            result, aux = result
            # Only the derivative being taken ends here: those of traces around go on.
            trace: Any = traces.state.trace
            self.aux = tree.tree_map(trace.primal_of, aux)
        out, self.out_spec = tree.flatten(result)
        for x in out:
            aval_of(x)  # raises for what is no array
        return out

    def result(self, leaves: Sequence[Any]) -> Any:
        return tree.unflatten(self.out_spec, leaves)


def _check_callable(fun: Any) -> None:
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")


def _check_tangent(primal: Any, tangent: Any, what: str, error: type[Exception] = TypeError) -> Any:
    """A tangent of the type its primal asks for, or an error that says what is wrong."""
    want, given = tangent_aval(aval_of(primal)), aval_of_tangent(tangent)
    if want.dtype != given.dtype:
        raise error(
            f"{what}: primal and tangent arguments must have equal types: the primal is "
            f"{aval_of(primal).str_short()}, so the tangent must be {want.str_short()}, got "
            f"{given.str_short()}"
        )
    if want.shape != given.shape:
        raise ValueError(
            f"{what} called with different primal and tangent shapes; got primal shape "
            f"{want.shape} and "
            f"tangent shape {given.shape}"
        )
    return Zero(want) if want.dtype == dtypes.float0 else tangent


# ---- forward and reverse mode ----


@boundary
def jvp(
    fun: Callable, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """The result of `fun(*primals)` and its directional derivative along `tangents`.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.jvp(gnp.sin, (0.0,), (2.0,))
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    _check_callable(fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            "primal and tangent arguments to jvp must be tuples or lists; found "
            f"{type(primals).__name__} and {type(tangents).__name__}."
        )
    flat = _Flat(fun, tuple(primals), has_aux=has_aux)
    tangent_leaves, spec = tree.flatten(tuple(tangents))
    if spec != flat.in_spec:
        raise TypeError(
            "primal and tangent arguments to jvp must have the same tree structure; primals have "
            "tree "
            f"structure {flat.in_spec} whereas tangents have tree structure {spec}."
        )
    checked = [
        _check_tangent(p, owned(t), "jvp") for p, t in zip(flat.leaves, tangent_leaves, strict=True)
    ]
    out, out_tangents = jvp_flat(flat, flat.leaves, checked)
    given = {id(t) for t in checked}  # a tangent that is passed on stays what the caller gave
    real = [t if id(t) in given and not is_zero(t) else real_array(t) for t in out_tangents]
    result = flat.result(out), flat.result(real)
    return (*result, flat.aux) if has_aux else result


@boundary
def linearize(fun: Callable, *primals, has_aux: bool = False) -> tuple[Any, ...]:
    """The result of `fun(*primals)`, and the linear function that is its derivative there.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> y, f_jvp = ga.linearize(gnp.sin, 0.0)
    >>> f_jvp(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    _check_callable(fun)
    flat = _Flat(fun, primals, has_aux=has_aux)
    lin = linearize_flat(flat, flat.leaves)
    in_avals = [aval_of(p) for p in flat.leaves]
    out_avals = [aval_of(x) for x in lin.outputs]

    @boundary
    def f_jvp(*tangents):
        leaves, spec = tree.flatten(tangents)
        if spec != flat.in_spec:
            raise TypeError(
                f"the linearized function takes tangents of structure {flat.in_spec}, got {spec}"
            )
        for want, t in zip(in_avals, leaves, strict=True):
            _check_tangent(struct_like(want), t, "linearized function", ValueError)
        given = [owned(t) for t, linear in zip(leaves, lin.in_linear, strict=True) if linear]
        found = iter(evaluate(lin.graph, *given))
        out = [
            next(found) if linear else real_array(Zero(tangent_aval(a)))
            for linear, a in zip(lin.out_linear, out_avals, strict=True)
        ]
        return flat.result(out)

    result = flat.result(lin.outputs), f_jvp
    return (*result, flat.aux) if has_aux else result


def struct_like(aval: ShapedArray) -> Any:
    """Something with this aval, for checks that need no value."""
    return struct_of(aval)


@boundary
def vjp(fun: Callable, *primals, has_aux: bool = False, reduce_axes: tuple = ()) -> tuple[Any, ...]:
    """The result of `fun(*primals)`, and the function that pulls cotangents of the result back to
    the arguments.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> y, f_vjp = ga.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> f_vjp(1.0)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    if reduce_axes:
        raise NotImplementedError(
            "reduce_axes argument to vjp is deprecated: use collectives instead"
        )
    _check_callable(fun)
    flat = _Flat(fun, primals, has_aux=has_aux)
    lin = linearize_flat(flat, flat.leaves)
    f_vjp = Pullback(flat.leaves, flat.in_spec, flat.out_spec, lin)
    result = flat.result(lin.outputs), f_vjp
    return (*result, flat.aux) if has_aux else result


@boundary
def linear_transpose(fun: Callable, *primals, reduce_axes: tuple = ()) -> Callable:
    """The transpose of a function that is linear in its arguments, which are given by shape and
    dtype.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.linear_transpose(lambda x: 3.0 * x, 1.0)(2.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    _check_callable(fun)
    if reduce_axes:
        raise NotImplementedError(
            f"linear_transpose does not sum over named axes, got reduce_axes={reduce_axes}: use "
            "lax.psum on its result."
        )
    flat = _Flat(fun, primals)
    avals = [aval_of(p) for p in flat.leaves]
    graph = stage(flat, avals, TracedFunction(fun, "linear_transpose"))
    inexact = all(is_inexact(a) for a in avals + graph.out_avals)
    if not inexact and any(dtypes.kind_of(a.dtype) not in "iu" for a in avals + graph.out_avals):
        ins, outs = (", ".join(a.str_short() for a in group) for group in (avals, graph.out_avals))
        raise TypeError(
            "linear_transpose only supports [float or complex] -> [float or complex], and integer "
            f"-> integer functions, but got [{ins}] -> [{outs}]."
        )

    @boundary
    def transposed(cotangents):
        leaves, spec = tree.flatten(cotangents)
        if spec != flat.out_spec:
            raise TypeError(
                "cotangent tree does not match function output, expected "
                f"{flat.out_spec} but got {spec}"
            )
        cts = transpose_flat(graph, [True] * len(avals), [], leaves)
        given_weak = any(aval_of(x).weak_type for x in leaves)
        typed = [
            real_array(ct) if given_weak else _as_its_primal(ct, a)
            for ct, a in zip(cts, avals, strict=True)
        ]
        return tree.unflatten(flat.in_spec, typed)

    return transposed


# ---- gradients ----


def _argnums_of(
    argnums: int | Sequence[int], count: int, error: type[Exception]
) -> tuple[int, ...]:
    single = indices(argnums, "argnums")
    for n in single:
        if not -count <= n < count:
            raise error(
                f"differentiating with respect to argnums={argnums} requires at least {n + 1} "
                f"positional "
                f"arguments to be passed by the caller, but got only {count} positional arguments."
            )
    return tuple(n % count for n in single)


def _check_input(x: Any, what: str, holomorphic: bool, allow_int: bool) -> None:
    aval = aval_of(x)
    if isinstance(aval.dtype, dtypes.KeyDtype):
        raise TypeError(
            f"{what} with input element type {aval.dtype.name}: keys have no derivative"
        )
    is_complex = dtypes.issubdtype(aval.dtype, np.complexfloating)
    if holomorphic:
        if not is_complex:
            raise TypeError(
                f"{what} with holomorphic=True requires inputs with complex dtype, but got "
                f"{aval.dtype.name}."
            )
        return
    if not dtypes.issubdtype(aval.dtype, np.inexact):
        if not allow_int:
            raise TypeError(
                f"{what} requires real- or complex-valued inputs (input dtype that is a sub-dtype "
                f"of "
                f"np.inexact), but got {aval.dtype.name}. If you want to use Boolean- or "
                f"integer-valued "
                "inputs, use vjp or set allow_int to True."
            )
    elif is_complex and what == "jacfwd":
        raise TypeError(
            f"{what} requires real-valued inputs (input dtype that is a sub-dtype of np.floating), "
            f"but got {aval.dtype.name}. For holomorphic differentiation, pass holomorphic=True; "
            "for functions of complex numbers that are not, use jvp."
        )


def _check_scalar(x: Any, what: str, holomorphic: bool) -> None:
    try:
        aval = aval_of(x)
    except TypeError:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output was {x}."
        ) from None
    if aval.shape:
        raise TypeError(
            "Gradient only defined for scalar-output functions. "
            f"Output had shape: {aval.shape}. Reduce it first, for example with .sum(), or use "
            f"jacrev."
        )
    _check_output(aval, what, holomorphic)


def _check_output(aval: ShapedArray, what: str, holomorphic: bool) -> None:
    is_complex = dtypes.issubdtype(aval.dtype, np.complexfloating)
    if holomorphic and not is_complex:
        raise TypeError(
            f"{what} with holomorphic=True requires outputs with complex dtype, but got "
            f"{aval.dtype.name}."
        )
    if not holomorphic and not dtypes.issubdtype(aval.dtype, np.floating):
        hint = (
            " For holomorphic differentiation, pass holomorphic=True. For differentiation of "
            "non-holomorphic functions involving complex outputs, use jax.vjp directly."
            if is_complex
            else ""
        )
        raise TypeError(
            f"{what} requires real-valued outputs (output dtype that is a sub-dtype of "
            f"np.floating), but "
            f"got {aval.dtype.name}.{hint}"
        )


def value_and_grad(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence = (),
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the value of `fun` and its gradient with respect to `argnums`.

    >>> import gpuarray as ga
    >>> ga.value_and_grad(lambda x: x**2)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    _check_callable(fun)
    if reduce_axes:
        raise NotImplementedError(
            "reduce_axes argument to grad is deprecated: use collectives instead"
        )

    @boundary
    @functools.wraps(fun)
    def value_and_grad_fun(*args, **kwargs):
        nums = _argnums_of(argnums, len(args), TypeError)
        chosen = tuple(args[n] for n in nums)
        for x in tree.flatten(chosen)[0]:
            _check_input(x, "grad", holomorphic, allow_int)

        def partial(*values):
            full = list(args)
            for n, value in zip(nums, values, strict=True):
                full[n] = value
            return fun(*full, **kwargs)

        flat = _Flat(partial, chosen, has_aux=has_aux)
        lin = linearize_flat(flat, flat.leaves, "grad")
        if len(lin.outputs) != 1:
            raise TypeError(
                "Gradient only defined for scalar-output functions. Output was "
                f"{flat.result(lin.outputs)}."
            )
        out = lin.outputs[0]
        _check_scalar(out, "grad", holomorphic)
        cts = Pullback(flat.leaves, flat.in_spec, flat.out_spec, lin).pull([constant(out, 1)])
        avals = [aval_of(x) for x in flat.leaves]
        typed = [_as_its_primal(ct, a) for ct, a in zip(cts, avals, strict=True)]
        grads = tree.unflatten(flat.in_spec, typed)
        gradient = grads[0] if isinstance(argnums, (int, np.integer)) else grads
        value = flat.result(lin.outputs)
        return ((value, flat.aux), gradient) if has_aux else (value, gradient)

    return value_and_grad_fun


def _as_its_primal(ct: Any, primal: ShapedArray) -> Any:
    """A gradient as an array, strongly typed where the argument is."""
    ct = real_array(ct)
    if isinstance(ct, Array) and ct.weak_type and not primal.weak_type:
        return as_type(ct, ct.dtype)
    return ct


def grad(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence = (),
) -> Callable:
    """A function that returns the gradient of `fun` with respect to `argnums`.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.grad(gnp.tanh)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @boundary
    @functools.wraps(fun)
    def grad_fun(*args, **kwargs):
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_fun


# ---- Jacobians ----


def _basis(leaves: Sequence[Any]) -> tuple[list[Any], int]:
    """Unit vectors over all leaves together: arrays of shape (total, *leaf)."""
    avals = [aval_of(x) for x in leaves]
    total = sum(a.size for a in avals)
    out, start = [], 0
    for a in avals:
        block = as_type(eye(total, a.size, -start, dtype=a.dtype), a.dtype, a.weak_type)
        out.append(block.reshape((total, *a.shape)))
        start += a.size
    return out, total


def _unstacked(x: Any, axis: int, leaves: Sequence[Any]) -> list[Any]:
    """Cut an axis that runs over all leaves together into one piece a leaf, in the leaf's shape."""
    pieces, start = [], 0
    for leaf in leaves:
        a = aval_of(leaf)
        index = (slice(None),) * axis + (slice(start, start + a.size),)
        piece = x[index]
        shape = (*x.shape[:axis], *a.shape, *x.shape[axis + 1 :])
        pieces.append(piece.reshape(shape))
        start += a.size
    return pieces


def _jacobian_fun(
    fun: Callable, argnums, has_aux: bool, holomorphic: bool, allow_int: bool, run, name
):
    _check_callable(fun)

    @boundary
    @functools.wraps(fun)
    def jacobian_fun(*args, **kwargs):
        nums = _argnums_of(argnums, len(args), ValueError)
        chosen = tuple(args[n] for n in nums)
        for x in tree.flatten(chosen)[0]:
            _check_input(x, name, holomorphic, allow_int)

        def partial(*values):
            full = list(args)
            for n, value in zip(nums, values, strict=True):
                full[n] = value
            return fun(*full, **kwargs)

        jac, aux = run(partial, chosen)
        if isinstance(argnums, (int, np.integer)):
            jac = tree.tree_map(lambda row: row[0], jac, is_leaf=lambda x: isinstance(x, _Row))
        else:
            jac = tree.tree_map(tuple, jac, is_leaf=lambda x: isinstance(x, _Row))
        return (jac, aux) if has_aux else jac

    return jacobian_fun


class _Row(tuple):
    """The derivatives of one output leaf with respect to all chosen arguments."""

    __slots__ = ()


def jacfwd(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """The Jacobian of `fun`, a column at a time by forward mode: good for few inputs.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.jacfwd(lambda x: x**2)(gnp.arange(2.0))
    Array([[0., 0.],
           [0., 2.]], dtype=float32)
    """

    def run(partial, chosen):
        flat = _Flat(partial, chosen, has_aux=has_aux)
        basis, total = _basis(flat.leaves)
        aux_spec: Any = None

        def push(*tangents):
            nonlocal aux_spec
            out, out_tangents = jvp_flat(flat, flat.leaves, tangents)
            # An integer does not change: zeros of its own dtype.
            columns = [
                instantiate(t) if is_inexact(aval_of(x)) else zeros(aval_of(x))
                for x, t in zip(out, out_tangents, strict=True)
            ]
            aux, aux_spec = tree.flatten(flat.aux)
            return [*columns, *aux]

        found, dims = batch_flat(push, BatchAxis(total), basis, [0] * len(basis))
        count = flat.out_spec.num_leaves
        columns = [
            matched(c, d, aval_of(c).ndim - (d is not None), total)
            for c, d in zip(found[:count], dims, strict=False)
        ]
        rows = [
            _Row(tree.unflatten(flat.in_spec, _unstacked(c, c.ndim - 1, flat.leaves)))
            for c in columns
        ]
        # No tangent enters what is beside the result: it is the same for all of them.
        aux = [
            x if d is None else x[(slice(None),) * d + (0,)]
            for x, d in zip(found[count:], dims[count:], strict=True)
        ]
        return flat.result(rows), tree.unflatten(aux_spec, aux)

    return _jacobian_fun(fun, argnums, has_aux, holomorphic, False, run, "jacfwd")


def jacrev(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable:
    """The Jacobian of `fun`, a row at a time by reverse mode: good for few outputs.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.jacrev(lambda x: x**2)(gnp.arange(2.0))
    Array([[0., 0.],
           [0., 2.]], dtype=float32)
    """

    def run(partial, chosen):
        flat = _Flat(partial, chosen, has_aux=has_aux)
        lin = linearize_flat(flat, flat.leaves, "jacrev")
        for x in lin.outputs:
            _check_output(aval_of(x), "jacrev", holomorphic)
        pullback = Pullback(flat.leaves, flat.in_spec, flat.out_spec, lin)
        basis, _ = _basis(lin.outputs)
        pulled = vmap(lambda *cts: [instantiate(ct) for ct in pullback.pull(cts)])(*basis)
        # pulled[k] has a leading axis over all outputs together.
        by_input = [_unstacked(p, 0, lin.outputs) for p in pulled]
        rows = [
            _Row(tree.unflatten(flat.in_spec, [pieces[o] for pieces in by_input]))
            for o in range(len(lin.outputs))
        ]
        return flat.result(rows), flat.aux

    return _jacobian_fun(fun, argnums, has_aux, holomorphic, allow_int, run, "jacrev")


def jacobian(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable:
    """The Jacobian of `fun`: another name of `jacrev`.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.jacobian(lambda x: 2.0 * x)(gnp.ones(2))
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    return jacrev(fun, argnums, has_aux, holomorphic, allow_int)


def hessian(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable:
    """The matrix of second derivatives: forward over reverse.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.hessian(lambda x: (x**3).sum())(gnp.arange(2.0))
    Array([[0., 0.],
           [0., 6.]], dtype=float32)
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )
