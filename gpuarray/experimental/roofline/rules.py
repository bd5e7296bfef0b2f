"""The cost of each operation as a separate step, by its kind.

Floor 6. In: a context, the shapes of operands, params. Out: a RooflineResult. Views, conversions
and generated values cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gpuarray import lax
from gpuarray.control.callbacks import debug_callback_p, io_callback_p, pure_callback_p
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.experimental.roofline.results import (
    RooflineResult,
    RooflineRuleContext,
    RooflineShape,
)
from gpuarray.util import elements

Rule = Callable[..., RooflineResult]


def _moved(ctx: RooflineRuleContext) -> int:
    return RooflineShape.total_bytes([*ctx.avals_in, *ctx.avals_out])


def _pointwise(ctx: RooflineRuleContext, *_: RooflineShape, **__: Any) -> RooflineResult:
    return RooflineResult(unfused_flops=ctx.avals_out[0].size, unfused_hbm_bytes=_moved(ctx))


def _reduction(ctx: RooflineRuleContext, x: RooflineShape, *_: Any, **__: Any) -> RooflineResult:
    # One operation less than there are elements, for each element of the result.
    return RooflineResult(
        unfused_flops=max(x.size - ctx.avals_out[0].size, 0), unfused_hbm_bytes=_moved(ctx)
    )


def _scan(ctx: RooflineRuleContext, x: RooflineShape, *_: Any, **__: Any) -> RooflineResult:
    return RooflineResult(unfused_flops=x.size, unfused_hbm_bytes=_moved(ctx))


def _callback(ctx: RooflineRuleContext, *_: Any, **__: Any) -> RooflineResult:
    return RooflineResult(unfused_hbm_bytes=_moved(ctx))


def _select(ctx: RooflineRuleContext, which: RooflineShape, *_: Any, **__: Any) -> RooflineResult:
    # Each element reads one of the cases; the other figures count only the condition.
    out = RooflineShape.from_aval(ctx.avals_out[0])
    return RooflineResult(unfused_flops=out.size, unfused_hbm_bytes=which.bytes + out.bytes)


def _dot(
    ctx: RooflineRuleContext,
    lhs: RooflineShape,
    rhs: RooflineShape,
    *,
    dimension_numbers: Any,
    **_: Any,
) -> RooflineResult:
    (contracted, _rhs), _batch = dimension_numbers
    out = RooflineShape.from_aval(ctx.avals_out[0])
    flops = 2 * out.size * math.prod(lhs.shape[i] for i in contracted)
    # Pinned operands are in fast memory already, and so are results with the left one.
    moved = 0 if ctx.pin_lhs_in_vmem else lhs.bytes + out.bytes
    moved += 0 if ctx.pin_rhs_in_vmem else rhs.bytes
    return RooflineResult(
        flops=flops, unfused_flops=flops, hbm_bytes=moved, unfused_hbm_bytes=moved
    )


def _convolution(
    ctx: RooflineRuleContext,
    _lhs: RooflineShape,
    rhs: RooflineShape,
    *,
    dimension_numbers: Any,
    **_: Any,
) -> RooflineResult:
    # Each element of the result is a product of one filter with a window.
    window = rhs.size // max(rhs.shape[dimension_numbers.rhs_spec[0]], 1)
    return RooflineResult(
        unfused_flops=2 * ctx.avals_out[0].size * window, unfused_hbm_bytes=_moved(ctx)
    )


def _gather(
    ctx: RooflineRuleContext, _x: RooflineShape, indices: RooflineShape, *, mode: Any, **_: Any
) -> RooflineResult:
    out = RooflineShape.from_aval(ctx.avals_out[0])
    # Indices that may be outside are compared at both ends, and elements are then filled in.
    checked = mode == lax.GatherScatterMode.FILL_OR_DROP
    return RooflineResult(
        unfused_flops=4 * indices.size + out.size if checked else 0,
        # Gathered elements are read, then written.
        unfused_hbm_bytes=2 * out.bytes + indices.bytes,
    )


def _scatter(combines: bool) -> Rule:
    def rule(
        _ctx: RooflineRuleContext,
        _x: RooflineShape,
        indices: RooflineShape,
        updates: RooflineShape,
        **_: Any,
    ) -> RooflineResult:
        return RooflineResult(
            unfused_flops=updates.size if combines else 0,
            # Read the updates, read and write the places they go to.
            unfused_hbm_bytes=3 * updates.bytes + indices.bytes,
        )

    return rule


# ---- collectives: rings along each axis of the mesh ----


def _ring(reduces: bool, passes: int = 1, scalar: bool = False) -> Rule:
    def rule(ctx: RooflineRuleContext, *shapes: RooflineShape, **params: Any) -> RooflineResult:
        names: Any = elements(params.get("axes", params.get("axis_name")), "names of axes")
        if ctx.mesh is None:
            raise ValueError(
                f"the roofline of {ctx.primitive} needs a mesh: give roofline(f, mesh, in_specs, "
                "out_specs)"
            )
        lengths: dict[str, int] = {name: ctx.mesh.shape[name] for name in names}
        if math.prod(lengths.values()) == 1:
            none = dict.fromkeys(names, 0)
            return RooflineResult(ici_bytes=none, ici_latency=none)
        piece: float = sum(s.dtype.itemsize if scalar else s.bytes for s in shapes)
        # Reducing and scattering is gathering of the shares, run backwards.
        if reduces:
            piece /= math.prod(lengths.values())
        # One axis after another, the longest first: pieces grow as they are concatenated.
        order: list[str] = sorted(names, key=lengths.__getitem__, reverse=True)
        piece //= len(order)
        moved = 0.0
        for name in order:
            moved += piece * (lengths[name] - 1)
            piece *= lengths[name]
        steps: int = lengths[order[0]] * len(order)
        return RooflineResult(
            ici_bytes=dict.fromkeys(order, int(moved) * passes),
            ici_latency=dict.fromkeys(order, steps * passes),
        )

    return rule


#: Rules by kind, and those of operations that differ from their kind's.
BY_KIND: dict[Kind, Rule] = {
    Kind.POINTWISE: _pointwise,
    Kind.REDUCTION: _reduction,
    Kind.SCAN: _scan,
}


def _nothing(_ctx: RooflineRuleContext, *_: Any, **__: Any) -> RooflineResult:
    return RooflineResult()


RULES: dict[Primitive, Rule] = {
    **dict.fromkeys((lax.convert_element_type_p, lax.copy_p), _nothing),
    lax.select_n_p: _select,
    lax.dot_general_p: _dot,
    lax.conv_general_dilated_p: _convolution,
    lax.gather_p: _gather,
    lax.scatter_p: _scatter(False),
    **dict.fromkeys(
        (lax.scatter_add_p, lax.scatter_mul_p, lax.scatter_min_p, lax.scatter_max_p),
        _scatter(True),
    ),
    **dict.fromkeys((pure_callback_p, io_callback_p, debug_callback_p), _callback),
    # A sum is scattered along the ring, then gathered: two passes.
    lax.psum_p: _ring(reduces=True, passes=2),
    **dict.fromkeys((lax.pmax_p, lax.pmin_p), _ring(reduces=False, scalar=True)),
    lax.all_gather_p: _ring(reduces=False),
    lax.reduce_scatter_p: _ring(reduces=True),
}
