"""Array arguments of the numpy namespace, made Arrays once they have been checked.

Floor 6. In: the caller's arguments. Out: Arrays; lists and other objects raise a TypeError that
names the function.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from gpuarray import errors, util
from gpuarray.core import dtypes
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.numpy.construct import asarray
from gpuarray.numpy.promotion import check_arraylike, promote_dtypes, promote_dtypes_inexact


def array(name: str, x) -> Array:
    """`x` as an Array; TypeError if it is not an array or a scalar."""
    if isinstance(x, Array) and not x.bare:
        return x
    check_arraylike(name, x)
    return asarray(x)


def arrays(name: str, *xs) -> list[Array]:
    """All of `xs` as Arrays; TypeError if one of them is not an array or a scalar."""
    # Allocate nothing if all are Arrays already.
    for x in xs:
        if not isinstance(x, Array) or x.bare:
            check_arraylike(name, *xs)
            return [asarray(x) for x in xs]
    return list(xs)


def no_out(name: str, out) -> None:
    """Refuse an `out=` argument: results are new arrays here."""
    if out is not None:
        raise NotImplementedError(
            f"The 'out' argument to jnp.{name} is not supported. Arrays are immutable: use the "
            "result."
        )


def static_int(x, what: str) -> int:
    """`x` as a Python int; an error that names its purpose if it is traced or not an integer."""
    if isinstance(x, Tracer):
        need_concrete(x, what)
    return util.index(x)


def need_concrete(x, what: str) -> NoReturn:
    """Raise for a traced value where the value itself is needed."""
    raise errors.ConcretizationTypeError(x, f"Error arose in {what}.")


def as_tuple(x: Any) -> tuple:
    """A sequence as a tuple; a single value as a tuple of one."""
    several = isinstance(x, (tuple, list, range)) or (isinstance(x, np.ndarray) and x.ndim > 0)
    return tuple(x) if several else (x,)


def promoted(name: str, *xs) -> list[Array]:
    """All of `xs` as Arrays of the dtype they promote to; shapes are not changed."""
    found = _operands(name, xs)
    return [asarray(x) for x in promote_dtypes(*found)]


def promoted_inexact(name: str, *xs) -> list[Array]:
    """As `promoted`, integers and booleans becoming floats."""
    found = _operands(name, xs)
    return [asarray(x) for x in promote_dtypes_inexact(*found)]


def _operands(name: str, xs: tuple) -> Any:
    """`xs` as Arrays; unchanged if one is an array with a dtype that no scalar would get now."""
    beyond = any(isinstance(x, Array) and dtypes.is_beyond(x.dtype) for x in xs)
    return xs if beyond else arrays(name, *xs)
