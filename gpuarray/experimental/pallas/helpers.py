"""Helpers for writing kernels: conditions, loops, scratch, numbers of blocks.

Floor 6. In: functions and values of a kernel. Out: control flow of `lax`, and plain numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.api import callbacks
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.dtypes import result_type
from gpuarray.experimental.pallas.specs import MemoryRef, scratch_of
from gpuarray.numpy.construct import asarray
from gpuarray.pytree import tree
from gpuarray.transforms.references import Ref


def when(condition: Any, /) -> Callable[[Callable[[], None]], None]:
    """Run the decorated function where a condition holds, which may be traced.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import pallas as pl
    >>> def kernel(out_ref):
    ...     @pl.when(pl.program_id(0) == 0)
    ...     def _():
    ...         out_ref[...] = 0 * out_ref[...]
    ...     out_ref[...] += 1
    >>> pl.pallas_call(kernel, ga.ShapeDtypeStruct((), "int32"), grid=(5,))()
    Array(5, dtype=int32)
    """

    def run(f: Callable[[], None]) -> None:
        # Known while tracing: a branch that is not taken is left out of the program.
        if isinstance(condition, (bool, np.bool_)):
            if condition:
                f()
        else:
            lax.cond(condition, f, lambda: None)

    return run


def loop(
    lower: Any,
    upper: Any,
    *,
    init_carry: Any = None,
    step: Any = 1,
    unroll: int | bool | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Run the decorated function for each index from `lower` up to `upper`, in steps of `step`.

    With `init_carry` the function takes the index and a value, and returns the next value; the last
    one takes the place of the function.

    >>> from gpuarray.experimental import pallas as pl
    >>> @pl.loop(0, 10, step=3, init_carry=0)
    ... def total(i, carry):
    ...     return carry + i
    >>> total
    Array(18, dtype=int32, weak_type=True)
    """
    zero: Any = 0
    for what, x in (("lower", lower), ("upper", upper), ("step", step)):
        if not isinstance(x, (int, np.integer, Array)) or getattr(x, "shape", ()):
            raise TypeError(f"loop: {what} must be an integer scalar, got {x!r}.")
    # Traced bounds need one dtype, as the loop's counter has one.
    if any(isinstance(x, Tracer) for x in (lower, upper, step)):
        dtype = result_type(lower, upper, step)
        lower, upper, step = (lax.convert_element_type(x, dtype) for x in (lower, upper, step))
        zero = asarray(0, dtype)

    def run(body: Callable[..., Any]) -> Any:
        def one(i: Any, carry: Any) -> Any:
            at = lower + i * step
            return body(at) if init_carry is None else body(at, carry)

        return lax.fori_loop(zero, cdiv(upper - lower, step), one, init_carry, unroll=unroll)

    return run


def run_scoped(f: Callable[..., Any], *types: Any, collective_axes: Any = (), **kw_types: Any):
    """Call a function with references of these types, made for it, and return its result.

    Parameters
    ----------
    collective_axes :
        Only (): programs do not share it.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import pallas as pl
    >>> def kernel(x_ref, out_ref):
    ...     def double(scratch_ref):
    ...         scratch_ref[...] = 2 * x_ref[...]
    ...         out_ref[...] = scratch_ref[...]
    ...     pl.run_scoped(double, pl.ANY((3,), "float32"))
    >>> pl.pallas_call(kernel, ga.ShapeDtypeStruct((3,), "float32"))(gnp.ones(3))
    Array([2., 2., 2.], dtype=float32)
    """
    if collective_axes not in ((), None):
        raise NotImplementedError(
            f"collective_axes={collective_axes!r}: programs do not share scratch. Leave it out, "
            "and exchange values through an output."
        )
    args, kwargs = tree.tree_map(scratch_of, (types, kw_types))
    return f(*args, **kwargs)


def with_scoped(*types: Any, collective_axes: Any = (), **kw_types: Any) -> Callable:
    """Decorator: the function gets references of these types after its arguments.

    Parameters
    ----------
    collective_axes :
        Only (): programs do not share it.

    Examples
    --------

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import pallas as pl
    >>> @pl.with_scoped(pl.ANY((), "int32"))
    ... def five(ref):
    ...     ref[...] = ga.numpy.int32(5)
    ...     return ref[...]
    >>> five()
    Array(5, dtype=int32)
    """

    def decorator(f: Callable) -> Callable:
        def call(*args: Any) -> Any:
            return run_scoped(
                lambda *refs, **named: f(*args, *refs, **named),
                *types,
                collective_axes=collective_axes,
                **kw_types,
            )

        return call

    return decorator


def run_state(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that calls `f` with references to its arguments, and returns their final contents.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import pallas as pl
    >>> def f(ref):
    ...     ref[0] = 7.0
    >>> pl.run_state(f)(gnp.zeros(2))
    Array([7., 0.], dtype=float32)
    """

    def call(args: Any) -> Any:
        # New references: the caller's keep their contents.
        refs = tree.tree_map(lambda x: Ref(asarray(x)), args)
        f(refs)
        return tree.tree_map(lambda ref: ref.get(), refs)

    return call


def empty_like(x: object) -> Any:
    """Arrays of the shapes and dtypes of `x`, of unspecified values.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import pallas as pl
    >>> pl.empty_like(gnp.zeros(2)).dtype
    dtype('float32')
    """
    return tree.tree_map(lambda leaf: lax.empty(leaf.shape, leaf.dtype), x)


def empty_ref_like(x: object) -> Any:
    """An uninitialised reference with the shape and dtype of `x`.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.empty_ref_like(pl.ANY((2,), "float32"))
    Ref([nan, nan], dtype=float32)
    """
    if not isinstance(x, MemoryRef) and type(x).__name__ != "ShapeDtypeStruct":
        raise ValueError(f"empty_ref_like does not support {type(x)}: give it pl.ANY(shape, dtype)")
    return scratch_of(x)


def debug_print(fmt: str, *args: Any) -> None:
    """Print values from inside a kernel. Programs print in turn, in the order of the grid.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import pallas as pl
    >>> def kernel(out_ref):
    ...     pl.debug_print("at {}", pl.program_id(0))
    >>> _ = pl.pallas_call(kernel, ga.ShapeDtypeStruct((), "int32"), grid=(2,))()
    at 0
    at 1
    """
    callbacks.debug_print(fmt, *args, skip_format_check=True)


def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Array:
    """One over `x`.

    Parameters
    ----------
    approx :
        Whether the precision of bfloat16 is enough, in float32.
    full_range :
        Only True: the result is right for all values.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import pallas as pl
    >>> pl.reciprocal(gnp.array([2.0, 4.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    if not full_range:
        raise NotImplementedError("reciprocal: full_range=False saves nothing here. Leave it out.")
    if approx:
        return lax.integer_pow(asarray(x).astype("bfloat16"), -1).astype("float32")
    return lax.integer_pow(asarray(x), -1)


def multiple_of(x: Any, values: Sequence[int] | int) -> Any:
    """Return `x`, declared to be a multiple of these numbers; a known one is checked.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.multiple_of(24, 8)
    24
    """
    for n in (values,) if isinstance(values, int) else values:
        if isinstance(x, (int, np.integer)) and x % n:
            raise ValueError(f"multiple_of: {x} is no multiple of {n}.")
    return x


def broadcast_to(a: Any, shape: Sequence[int]) -> Array:
    """The array in a larger shape, as `numpy.broadcast_to`.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.broadcast_to(5, (2,))
    Array([5, 5], dtype=int32, weak_type=True)
    """
    return lax.broadcast_in_dim(
        asarray(a), tuple(shape), tuple(range(len(shape) - asarray(a).ndim, len(shape)))
    )


def cdiv(a: Any, b: Any) -> Any:
    """`a / b`, rounded up.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.cdiv(8, 2), pl.cdiv(9, 2)
    (4, 5)
    """
    if isinstance(a, (int, np.integer)) and isinstance(b, (int, np.integer)):
        return (a + b - 1) // b
    return lax.div(a + (b - 1), b)


def align_to(a: Any, alignment: Any) -> Any:
    """The next multiple of `alignment` that is not less than `a`.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.align_to(8, 4), pl.align_to(5, 4)
    (8, 8)
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """The next power of two that is not less than `x`; 1 for 0.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.next_power_of_2(5)
    8
    """
    x = operator.index(x)
    if x < 0:
        raise ValueError("`next_power_of_2` requires a non-negative integer.")
    return 1 if x == 0 else 2 ** (x - 1).bit_length()


def strides_from_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The stride of each axis, in elements.

    >>> from gpuarray.experimental import pallas as pl
    >>> pl.strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
