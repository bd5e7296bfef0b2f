"""one_hot: class numbers as rows with a single 1.

Floor 6. In: integers. Out: an Array with one more axis, made by comparing with an iota: inside the
kernel that uses it.
"""

from __future__ import annotations

import warnings
from typing import Any

from gpuarray import errors, lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.lax.slicing import reaching


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """1 at the class, 0 elsewhere; all 0 for a number outside 0 ... num_classes - 1.

    Shape contract: x.shape with `num_classes` inserted at `axis`. The dtype is the default float.

    >>> import gpuarray.numpy as gnp
    >>> one_hot(gnp.array([2, 0]), 3)
    Array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    # The number of classes is the length of an axis, so it has to be known.
    if isinstance(num_classes, Tracer):
        raise errors.ConcretizationTypeError(
            num_classes,
            "The error arose in jax.nn.one_hot argument `num_classes`: it decides a shape. "
            "Pass a Python int, or mark the argument static.",
        )
    count = util.index(num_classes)
    if count < 0:
        raise TypeError(
            f"iota shape must have every element be nonnegative: one_hot got num_classes={count}. "
            "Pass the number of classes, at least 0."
        )
    if isinstance(axis, str):
        raise errors.UnboundAxisError(
            f"unbound axis name: {axis}. one_hot over a named axis needs a transformation that "
            "binds it."
        )
    x = reaching(gnp.asarray(x), count)
    if dtypes.kind_of(x.dtype) not in "iu":
        warnings.warn(
            f"jax.nn.one_hot input should be integer-typed; got dtype={x.dtype}",
            DeprecationWarning,
            stacklevel=2,
        )
    # The axis counts in the result, which has one more.
    place = util.canonical_axis(axis, x.ndim + 1)
    if dtype is None:
        dtype = dtypes.default_float()
    else:
        dtype = dtypes.check_user_dtype(dtype, "one_hot")
    # Compared with 0 ... n - 1 along the new axis; a number outside gives zeros.
    shape = (1,) * place + (count,) + (1,) * (x.ndim - place)
    classes = lax.broadcasted_iota(x.dtype, shape, place)
    return gnp.equal(lax.expand_dims(x, (place,)), classes).astype(dtype)
