"""Derivatives with respect to the stored elements of sparse arrays.

Floor 6. In: a function of arrays, some of them sparse. Out: its derivatives, sparse with the same
indices if the argument is sparse. `gpuarray.grad` refuses a sparse argument, because its indices
are integers; here they are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray import util
from gpuarray.api import grad as dense
from gpuarray.api import jacobian as dense_jacobian
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import Array
from gpuarray.experimental.sparse.base import is_sparse
from gpuarray.experimental.sparse.bcsr import BCSR
from gpuarray.experimental.sparse.coordinates import BCOO
from gpuarray.functions.vmap import vmap
from gpuarray.pytree import tree
from gpuarray.util import wraps


def _numbers(argnums: int | Sequence[int], count: int) -> list[int]:
    given = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    found = sorted({util.canonical_axis(n, count) for n in given})
    return found


def _with_data(x: Any, data: Array) -> Any:
    """A sparse array like x with these elements, which may have axes in front."""
    if isinstance(x, (BCOO, BCSR)):
        rebuild: Callable = x.with_data
    else:
        # The older formats have no `with_data`: the elements are their first array.
        parts, info = x.tree_flatten()
        rebuild = lambda d: type(x).tree_unflatten(info, (d, *parts[1:]))
    # Jacobians have axes in front: one array for each row of them.
    for _ in range(data.ndim - x.data.ndim):
        rebuild = vmap(rebuild)
    return rebuild(data)


def _over_elements(transform: Callable, has_aux: bool, options: dict) -> Callable:
    """Extend `transform` from functions of one tree of arrays to functions of sparse arrays."""

    def of(fun: Callable, argnums: int | Sequence[int], args: tuple, kwargs: dict) -> tuple:
        numbers = _numbers(argnums, len(args))
        chosen = [args[n] for n in numbers]
        leaves, spec = tree.tree_flatten(chosen, is_leaf=is_sparse)

        def like_arguments(values: list) -> list:
            """Trees like the chosen arguments, with these elements stored in them."""
            rows = zip(leaves, values, strict=True)
            return tree.unflatten(spec, [_with_data(x, v) if is_sparse(x) else v for x, v in rows])

        def of_elements(values: list) -> Any:
            full = list(args)
            for n, value in zip(numbers, like_arguments(values), strict=True):
                full[n] = value
            return fun(*full, **kwargs)

        def restored(values: list) -> Any:
            """The derivatives as a tree like the arguments."""
            trees = like_arguments(values)
            return trees[0] if len(trees) == 1 else tuple(trees)

        # Only the stored elements are differentiated: indices are closed over.
        start = [x.data if is_sparse(x) else x for x in leaves]
        return transform(of_elements, has_aux=has_aux, **options)(start), restored

    return of


def value_and_grad(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., tuple[Any, Any]]:
    """`gpuarray.value_and_grad` for arguments that may be sparse.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.BCOO.fromdense(gnp.arange(3.))
    >>> sparse.value_and_grad(lambda x, y: x @ y)(x, gnp.ones(3))
    (Array(3., dtype=float32), BCOO(float32[3], nse=2))
    """
    of = _over_elements(dense.value_and_grad, has_aux, kwargs)

    @boundary
    @wraps(fun)
    def value_and_grad_fun(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        (value, gradient), restored = of(fun, argnums, args, kwargs)
        return value, restored(gradient)

    return value_and_grad_fun


def _derivative(
    transform: Callable, fun: Callable, argnums: Any, has_aux: bool, options: dict
) -> Any:
    of = _over_elements(transform, has_aux, options)

    @boundary
    @wraps(fun)
    def derivative_fun(*args: Any, **kwargs: Any) -> Any:
        found, restored = of(fun, argnums, args, kwargs)
        return (restored(found[0]), found[1]) if has_aux else restored(found)

    return derivative_fun


def grad(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable:
    """`gpuarray.grad` for arguments that may be sparse: a gradient has the argument's indices.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.BCOO.fromdense(gnp.arange(3.))
    >>> sparse.grad(lambda x, y: x @ y)(x, gnp.ones(3)).data
    Array([1., 1.], dtype=float32)
    """
    return _derivative(dense.grad, fun, argnums, has_aux, kwargs)


def jacfwd(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable:
    """`gpuarray.jacfwd` for arguments that may be sparse, of a function with one dense result.

    >>> from gpuarray.experimental import sparse
    >>> sparse.jacfwd(lambda x: x.todense())(sparse.eye(2))
    BCOO(float32[2, 2, 2, 2], nse=2, n_batch=2)
    """
    return _derivative(dense_jacobian.jacfwd, fun, argnums, has_aux, kwargs)


def jacrev(
    fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable:
    """`gpuarray.jacrev` for arguments that may be sparse, of a function with one dense result.

    >>> from gpuarray.experimental import sparse
    >>> sparse.jacrev(lambda x: x.todense().sum(0))(sparse.eye(2))
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    return _derivative(dense_jacobian.jacrev, fun, argnums, has_aux, kwargs)


jacobian = jacrev
