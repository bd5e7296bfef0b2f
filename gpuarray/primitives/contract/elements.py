"""Element rule of small convolutions: one thread computes each element of the result.

Floor 2. In: equations. Out: accesses, as in core/element_rules.py. For image filters and depthwise
convolutions the overhead of a library call exceeds the arithmetic; as accesses, they fuse with the
operations around them.
"""

from __future__ import annotations

import math

from gpuarray.core import dtypes
from gpuarray.core.element import (
    Access,
    Below,
    Constant,
    Multiple,
    Reduced,
    SerialFold,
    Test,
)
from gpuarray.core.element_rules import ElementRule, Get, Places
from gpuarray.core.graph import Eqn, Var, storage_dtype
from gpuarray.core.index import Index
from gpuarray.core.target import TARGET
from gpuarray.primitives.elements import loops
from gpuarray.primitives.elementwise.arithmetic import mul_p
from gpuarray.primitives.elementwise.bits import and_p
from gpuarray.primitives.reduce.ops import reduce_or_p, reduce_sum_p


def _steps(eqn: Eqn) -> int:
    """Rule `times`: the number of products that are summed for one element."""
    kernel, spec = eqn.invars[1].aval.shape, eqn.params["dimension_numbers"][1]
    # Input channels of a group times positions in the window.
    return math.prod(kernel[d] for d in spec[1:])


def _is_short(eqn: Eqn) -> bool:
    """Rule `when`: whether the convolution is small enough."""
    p, out = eqn.params, eqn.outvars[0].aval
    # Groups of the batch are for the library; so are sums in another dtype.
    if p["batch_group_count"] != 1 or any(a.aval.dtype != out.dtype for a in eqn.invars):
        return False
    channels = eqn.invars[1].aval.shape[p["dimension_numbers"][1][1]]
    most = TARGET.depthwise_convolution if channels == 1 else TARGET.short_convolution
    return 0 < _steps(eqn) <= most


def _convolution(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    p = eqn.params
    left_spec, right_spec, out_spec = p["dimension_numbers"]
    left, right, out = (a.aval for a in (*eqn.invars, *eqn.outvars))
    channels, *window = (right.shape[d] for d in right_spec[1:])
    # A loop along the channels of a group, and one along each axis of the window.
    axes, (channel, *steps) = loops([channels, *window])
    # An output feature sees the input channels of its group.
    feature = at[out_spec[1]]
    group = feature.divided(out.shape[out_spec[1]] // p["feature_group_count"])[0]
    places = {left_spec[0]: at[out_spec[0]], left_spec[1]: group * channels + channel}
    weights = {right_spec[0]: feature, right_spec[1]: channel}
    tests: list[Test] = []
    geometry = zip(
        left_spec[2:],
        right_spec[2:],
        out_spec[2:],
        steps,
        p["window_strides"],
        p["padding"],
        p["lhs_dilation"],
        p["rhs_dilation"],
        strict=True,
    )
    for dim, own, to, w, stride, (low, _), holes, gap in geometry:
        # Position in the dilated input; it counts if inside and on an element.
        place: Index = (at[to] * stride + w * gap).shifted(-low)
        length = left.shape[dim]
        tests.append(Below(place, (length - 1) * holes + 1 if length else 0))
        if holes > 1:
            tests.append(Multiple(place, holes))
        places[dim], weights[own] = place.divided(holes)[0], w
    # The window is in the padding for every element.
    if any(t.always is False for t in tests):
        return Constant(0, out)
    terms = (
        get(0, [places[d] for d in range(left.ndim)]),
        get(1, [weights[d] for d in range(right.ndim)]),
    )
    # Bools are summed by `or`.
    summed = reduce_or_p if out.dtype == dtypes.bool_ else reduce_sum_p
    sum_of = Eqn(summed, [eqn.invars[0]], eqn.outvars, {})
    open_tests = tuple(t for t in tests if t.always is None)
    return SerialFold(Reduced(sum_of, _product(eqn)), out, (), axes, open_tests, terms)


def _product(eqn: Eqn) -> Eqn:
    """Return the product of two elements as an equation; for short floats in float32, unrounded."""
    aval = eqn.invars[0].aval.update(shape=(), weak_type=False)
    if storage_dtype(aval).kind not in "biufc" or storage_dtype(aval).itemsize < 4:
        # Narrow floats are multiplied as float; integers are not converted.
        wide = dtypes.kind_of(aval.dtype) == "f"
        aval = aval.update(dtype=dtypes.float32) if wide else aval
    x, y, out = Var(aval), Var(aval), Var(aval)
    return Eqn(and_p if aval.dtype == dtypes.bool_ else mul_p, [x, y], [out], {})


CONVOLUTION = ElementRule(_convolution, when=_is_short, times=_steps)
