"""Gradients of functions whose result is one number: `grad` and `value_and_grad`.

Floor 6. In: functions of pytrees. Out: functions that return gradients, to any order and in any
composition with `jit` and `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.api.derivatives import (
    FlatFunction,
    argnums_of,
    check_callable,
    check_input,
    check_output,
    like_its_primal,
)
from gpuarray.api.vjp import Pullback
from gpuarray.core.avals import aval_of
from gpuarray.core.mesh import NamedSharding
from gpuarray.core.tracebacks import boundary
from gpuarray.primitives.linear import constant
from gpuarray.pytree import tree
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.transfer import device_put
from gpuarray.transforms.linearize import linearize_flat
from gpuarray.util import wraps


def _check_scalar(x: Any, what: str, holomorphic: bool) -> None:
    try:
        # None, strings and the like have no aval.
        aval = aval_of(x)
    except TypeError:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output was {x}."
        ) from None
    if aval.shape:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}. "
            "Reduce it first, for example with .sum(), or use jacrev."
        )
    check_output(aval, what, holomorphic)


def _one_like(value: Any) -> Any:
    """Return the cotangent 1 of a number."""
    one = constant(value, 1)
    # Its type names the axes of an Explicit mesh; without a mesh in context nothing else determines
    # their devices.
    if isinstance(value, ArrayImpl) and value.aval.layout is None:
        sharding = value.sharding
        if isinstance(sharding, NamedSharding) and sharding.mesh.explicit_axes:
            return device_put(one, sharding)
    return one


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
    check_callable(fun)
    if reduce_axes:
        raise NotImplementedError(
            "reduce_axes argument to grad is deprecated: use collectives instead"
        )

    @boundary
    @wraps(fun)
    def value_and_grad_fun(*args, **kwargs):
        # The arguments that are differentiated, checked before anything runs.
        nums = argnums_of(argnums, len(args), TypeError)
        chosen = tuple(args[n] for n in nums)
        for x in tree.flatten(chosen)[0]:
            check_input(x, "grad", holomorphic, allow_int)

        def partial(*values):
            # The other arguments are constants of the derivative.
            full = list(args)
            for n, value in zip(nums, values, strict=True):
                full[n] = value
            return fun(*full, **kwargs)

        # Linearize: one run of the function gives the value and the linear graph of its tangents.
        flat = FlatFunction(partial, chosen, has_aux=has_aux)
        lin = linearize_flat(flat, flat.leaves, "grad")
        if len(lin.outputs) != 1:
            raise TypeError(
                "Gradient only defined for scalar-output functions. Output was "
                f"{flat.result(lin.outputs)}."
            )
        # Exactly one number: there is one cotangent, 1.
        out = lin.outputs[0]
        _check_scalar(out, "grad", holomorphic)
        # Transpose the linear graph and pull the 1 back.
        cts = Pullback(flat.leaves, flat.in_spec, flat.out_spec, lin).pull([_one_like(out)])
        avals = [aval_of(x) for x in flat.leaves]
        # Each gradient has the dtype and the weak type of its argument.
        typed = [like_its_primal(ct, a) for ct, a in zip(cts, avals, strict=True)]
        grads = tree.unflatten(flat.in_spec, typed)
        gradient = grads[0] if isinstance(argnums, (int, np.integer)) else grads
        value = flat.result(lin.outputs)
        return ((value, flat.aux), gradient) if has_aux else (value, gradient)

    return value_and_grad_fun


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
    @wraps(fun)
    def grad_fun(*args, **kwargs):
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_fun
