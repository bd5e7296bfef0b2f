"""`custom_jvp` as a primitive: a call with a rule for tangents.

Floor 4. In: a flat function and `jvp(primals, tangents) -> (outputs, tangents)`. Out: the
primitive. See `custom_rules` for the code shared with `custom_vjp`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress

from gpuarray.control.custom_rules import (
    CustomCall,
    ResultAxis,
    batch_flat_rule,
    check_closed,
    check_own,
    named_like,
    without_axis,
)
from gpuarray.transforms.batch import BatchAxis, BatchTrace


def _jvp(primals: list, tangents: list, **params) -> tuple[list, list]:
    # The rule knows only the arguments: values closed over must not carry a tangent.
    count = params["num_consts"]
    check_closed(custom_jvp_call_p, params, tangents[:count])
    out, out_tangents = params["jvp"](primals[count:], tangents[count:])
    check_own(custom_jvp_call_p, params, [*out, *out_tangents])
    return out, out_tangents


def _batch_rules(
    params: dict, axis: BatchAxis, dims: list, first: BatchTrace | None, place: ResultAxis
) -> dict:
    jvp: Callable = params["jvp"]

    def batched(primals, tangents):
        count = len(primals)

        # Primals and tangents side by side, as one flat function that can be batched.
        def flat(*values):
            out, out_tangents = jvp(values[:count], values[count:])
            return [*out, *out_tangents]

        # A symbolic zero has no axis to be split along, so its aval becomes that of one element.
        tangents = [without_axis(t, d) for t, d in zip(tangents, dims, strict=True)]
        found = batch_flat_rule(flat, axis, first, [*primals, *tangents], [*dims, *dims])
        out = place.put(axis, *found)
        return out[: len(out) // 2], out[len(out) // 2 :]

    return {"jvp": named_like(batched, jvp)}


def _narrow_rules(params: dict, used: list[bool], avals: list) -> dict:
    jvp: Callable = params["jvp"]

    def narrow(primals, tangents):
        out, out_tangents = jvp(primals, tangents)
        return list(compress(out, used)), list(compress(out_tangents, used))

    return {"jvp": named_like(narrow, jvp)}


custom_jvp_call_p = CustomCall("custom_jvp_call", _jvp, _batch_rules, _narrow_rules, ("jvp",))
