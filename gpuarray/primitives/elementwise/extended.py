"""Conversions between elements of an extended dtype and the numbers that they consist of.

Floor 2. In: arrays of numbers, whose last axes are those of one element, or arrays of an extended
dtype. Out: the same bytes as the other type. lax/convert.py checks whether users may convert.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.factors import leading
from gpuarray.core.linear import Zero, is_zero
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.axes import move_axis
from gpuarray.primitives.define import do


def _to_aval(x: ShapedArray, *, edtype: dtypes.ExtendedDType) -> ShapedArray:
    shape, dtype = edtype.element
    rank = x.ndim - len(shape)
    if x.dtype != dtype or rank < 0 or x.shape[rank:] != shape:
        one = ShapedArray(shape, dtype).str_short()
        raise ValueError(
            "can only convert to an extended dtype from the numbers that it is made of: "
            f"{edtype.name} is made of {one}, and the array is {x.str_short()}. Its last axes and "
            "its dtype must be those."
        )
    return ShapedArray(x.shape[:rank], edtype)


def _from_aval(x: ShapedArray, *, dtype: np.dtype) -> ShapedArray:
    shape, own = x.dtype.element
    if own != dtype:
        raise ValueError(
            "can only convert from an extended dtype to the numbers that it is made of: "
            f"{x.dtype.name} is made of {own.name}, and {dtype.name} was asked for. Convert those."
        )
    return ShapedArray((*x.shape, *shape), dtype)


def _to_numpy(avals, *, edtype):
    out = _to_aval(*avals, edtype=edtype)
    return lambda x: np.ascontiguousarray(x).reshape(-1).view(edtype.storage).reshape(out.shape)


def _from_numpy(avals, *, dtype):
    out = _from_aval(*avals, dtype=dtype)
    return lambda x: np.ascontiguousarray(x).reshape(-1).view(dtype).reshape(out.shape)


def _to_batch(axis, args, dims, *, edtype):
    # The last axes are those of an element.
    return do.to_edtype(move_axis(args[0], dims[0], 0), edtype=edtype), 0


def _from_batch(axis, args, dims, *, dtype):
    return do.from_edtype(args[0], dtype=dtype), dims[0]


def converted(x: Any, dtype: Any) -> Any:
    """Return a value in another dtype, to or from an extended one too."""
    own = aval_of(x).dtype
    if own == dtype:
        return x
    if isinstance(dtype, dtypes.ExtendedDType):
        return do.to_edtype(x, edtype=dtype)
    if isinstance(own, dtypes.ExtendedDType):
        return do.from_edtype(x, dtype=dtype)
    return do.convert_element_type(x, new_dtype=dtype, weak_type=False, sharding=None)


def _jvp(name: str):
    def jvp(primals, tangents, **params):
        (x,), (t,) = primals, tangents
        out = getattr(do, name)(x, **params)
        aval = aval_of(out).to_tangent_aval()
        if is_zero(t) or aval.dtype == dtypes.float0:
            return out, Zero(aval)
        # The dtypes of both tangents are chosen by the rules.
        return out, converted(t, aval.dtype)

    return jvp


to_edtype_p = Primitive(
    "to_edtype",
    Kind.LIBRARY,
    same_bytes=True,
    aval=_to_aval,
    numpy_pick=_to_numpy,
    jvp=_jvp("to_edtype"),
    transpose=lambda ct, x, *, edtype: (converted(ct, x.aval.dtype),),
    batch=_to_batch,
    factors=lambda avals, outs, params: leading(len(params["edtype"].element[0]))(
        avals, outs, params
    ),
)

from_edtype_p = Primitive(
    "from_edtype",
    Kind.LIBRARY,
    same_bytes=True,
    aval=_from_aval,
    numpy_pick=_from_numpy,
    jvp=_jvp("from_edtype"),
    transpose=lambda ct, x, *, dtype: (converted(ct, x.aval.dtype),),
    batch=_from_batch,
    factors=leading(0),
)
