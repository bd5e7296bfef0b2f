"""Convolutions of few steps: each element of the result is made by one thread, where it is read.

Floor 3. In: equations. Out: the rule of elements.py for them. Filters of images and convolutions of
each channel by itself multiply so little that a library's preparations take longer; as an access
they fuse with what is around them.
"""

from __future__ import annotations

import math

from gpuarray.compiler.lower.element_folds import escaped, loops
from gpuarray.compiler.lower.elements import Get, Places, rule
from gpuarray.compiler.target import TARGET
from gpuarray.compiler.text.expressions import Reducer, expression
from gpuarray.core import dtypes
from gpuarray.core.element import Access, Below, Fixed, Folded, Multiple, Test
from gpuarray.core.graph import Eqn, Var, storage_dtype
from gpuarray.core.index import Index
from gpuarray.core.primitive import registry

#: Steps of a convolution of each channel by itself, and of any other one, at most.
ALONE, TOGETHER = TARGET.convolution_alone, TARGET.convolution_together


def steps_of(eqn: Eqn) -> int:
    """The products that are summed for one element."""
    kernel, spec = eqn.invars[1].aval.shape, eqn.params["dimension_numbers"][1]
    return math.prod(kernel[d] for d in spec[1:])


def is_short(eqn: Eqn) -> bool:
    """Whether a thread makes an element of this convolution quickly."""
    p, out = eqn.params, eqn.outvars[0].aval
    if p["batch_group_count"] != 1 or any(a.aval.dtype != out.dtype for a in eqn.invars):
        return False
    channels = eqn.invars[1].aval.shape[p["dimension_numbers"][1][1]]
    return 0 < steps_of(eqn) <= (ALONE if channels == 1 else TOGETHER)


@rule("conv_general_dilated")
def _convolution(eqn: Eqn, number: int, at: Places, get: Get) -> Access:
    p = eqn.params
    left_spec, right_spec, out_spec = p["dimension_numbers"]
    left, right, out = (a.aval for a in (*eqn.invars, *eqn.outvars))
    channels, *window = (right.shape[d] for d in right_spec[1:])
    axes, (channel, *steps) = loops([channels, *window])
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
        place: Index = (at[to] * stride + w * gap).shifted(-low)
        length = left.shape[dim]
        tests.append(Below(place, (length - 1) * holes + 1 if length else 0))
        if holes > 1:
            tests.append(Multiple(place, holes))
        places[dim], weights[own] = place.divided(holes)[0], w
    adds = Reducer(Eqn(registry["reduce_sum"], [eqn.invars[0]], eqn.outvars, {}))
    if any(t.always is False for t in tests):
        return Fixed(adds.identity)
    merged = escaped(adds.merge("\0s\0", _product(eqn)))
    step = merged.replace("\0s\0", "{s0}").replace("\0x\0", "{t0}").replace("\0y\0", "{t1}")
    terms = (
        get(0, [places[d] for d in range(left.ndim)]),
        get(1, [weights[d] for d in range(right.ndim)]),
    )
    return Folded(
        ((adds.state, Fixed(adds.identity)),),
        axes,
        tuple(t for t in tests if t.always is None),
        terms,
        (f"{{s0}} = {step};",),
        result=escaped(adds.finish("\0")).replace("\0", "{s0}"),
    )


def _product(eqn: Eqn) -> str:
    """The product of two elements; of short floats as it is before it is rounded."""
    aval = eqn.invars[0].aval.update(shape=(), weak_type=False)
    if storage_dtype(aval).kind not in "biufc" or storage_dtype(aval).itemsize < 4:
        wide = dtypes.kind_of(aval.dtype) == "f"
        aval = aval.update(dtype=dtypes.float32) if wide else aval
    x, y, out = Var(aval), Var(aval), Var(aval)
    return expression(Eqn(registry["mul"], [x, y], [out], {}), ["\0x\0", "\0y\0"])[0]
