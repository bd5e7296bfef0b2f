"""Factors of products and transforms: batch, rows, columns, and the summed axis.

Floor 2. In: avals and parameters. Out: `Factors` (core/factors.py).
"""

from __future__ import annotations

from typing import Any

from gpuarray.core import dtypes
from gpuarray.core.factors import Factors


def combined(operands, out) -> str | None:
    """How sums of parts of the products are combined; None if each would be rounded to integers, or
    compared with 0.
    """
    kinds = {dtypes.kind_of(a.dtype) for a in operands}
    kind = dtypes.kind_of(out.dtype)
    if kind == "b":
        return "or" if kinds == {"b"} else None
    return "sum" if kind in "fc" or not kinds & {"f", "c"} else None


def _free(ndim: int, *used) -> list[int]:
    return [d for d in range(ndim) if not any(d in axes for axes in used)]


def dot_factors(avals, out_avals, params) -> Factors:
    """Batch axes, rows of the left operand, columns of the right one; sums are owed."""
    (lhs, rhs), (out,) = avals, out_avals
    ins, kept, summed = product_names(lhs, rhs, params["dimension_numbers"])
    how = combined(avals, out)
    # Then summed axes have to be whole.
    if how is None:
        ins = [[None if n in summed else n for n in names] for names in ins]
    owed = dict.fromkeys(summed, how) if how else None
    return Factors.named(avals, out_avals, ins, [kept], owed=owed)


def product_names(lhs, rhs, numbers) -> tuple[list[list[Any]], list[Any], list[Any]]:
    """Return the names of the operands' axes, of the result's, and of those that are summed."""
    (lc, rc), (lb, rb) = numbers
    left: list[Any] = [f"l{d}" for d in range(lhs.ndim)]
    right: list[Any] = [f"r{d}" for d in range(rhs.ndim)]
    for kind, ours, theirs in (("b", lb, rb), ("k", lc, rc)):
        for i, (d, e) in enumerate(zip(ours, theirs, strict=True)):
            left[d] = right[e] = f"{kind}{i}"
    # In the order of `dot_general`: batch axes, rows, columns.
    kept = [left[d] for d in lb]
    kept += [left[d] for d in _free(lhs.ndim, lb, lc)]
    kept += [right[d] for d in _free(rhs.ndim, rb, rc)]
    return [left, right], kept, [left[d] for d in lc]


def conv_factors(avals, out_avals, params) -> Factors:
    """Batch, groups, output features; sums over input features are owed.

    Spatial axes are whole, but where kernels have one position that moves along all of the image.
    """
    (lhs, rhs), (out,) = avals, out_avals
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    groups, batch_groups = params["feature_group_count"], params["batch_group_count"]
    how = combined(avals, out)
    ins: list[list[Any]] = [[None] * lhs.ndim, [None] * rhs.ndim]
    outs: list[list[Any]] = [[None] * out.ndim]
    ins[0][lhs_spec[0]] = ("batch_groups", "batch")
    ins[0][lhs_spec[1]] = ("groups", "in") if how else "groups"
    # Features are groups first; at most one of the two kinds of groups has more than one.
    ins[1][rhs_spec[0]] = outs[0][out_spec[1]] = ("groups", "batch_groups", "out")
    ins[1][rhs_spec[1]] = "in" if how else None
    outs[0][out_spec[0]] = "batch"
    sizes = {
        "groups": groups,
        "batch_groups": batch_groups,
        "batch": lhs.shape[lhs_spec[0]] // batch_groups,
        "in": rhs.shape[rhs_spec[1]],
        "out": rhs.shape[rhs_spec[0]] // (groups * batch_groups),
    }
    geometry = zip(
        lhs_spec[2:],
        rhs_spec[2:],
        out_spec[2:],
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        strict=True,
    )
    for i, k, o, stride, padding, dilation in geometry:
        # A window of one element at every position: no result depends on a neighbour.
        if (rhs.shape[k], stride, tuple(padding), dilation) == (1, 1, (0, 0), 1):
            ins[0][i] = outs[0][o] = f"s{i}"

    def resize(params, ins, outs):
        left, right = ins
        # Groups of a piece follow from its shapes.
        features, depth = left[lhs_spec[1]], right[rhs_spec[1]]
        batch, images = left[lhs_spec[0]], outs[0][out_spec[0]]
        return params | {
            "feature_group_count": features // depth if depth else groups,
            "batch_group_count": batch // images if images else batch_groups,
        }

    owed = {"in": how} if how else None
    return Factors.named(avals, out_avals, ins, outs, sizes=sizes, owed=owed, resize=resize)


def fft_factors(avals, out_avals, params) -> Factors:
    """All axes except the last ones, which are transformed."""
    count = avals[0].ndim - len(params["fft_lengths"])
    ins, outs = (
        [[d if d < count else None for d in range(a.ndim)] for a in some]
        for some in (avals, out_avals)
    )
    return Factors.named(avals, out_avals, ins, outs)
