"""`custom_partitioning` as a primitive: a call with the user's rule for pieces of its operands.

Floor 4. In: a Graph for whole operands, and the rule. Out: a primitive that runs its Graph on one
device, and the rule's function where operands are sharded over several.
"""

from __future__ import annotations

from gpuarray.core.graph import evaluate
from gpuarray.core.primitive import Kind, Primitive, Sentinel

_NO_RULE = Sentinel(
    "NO_RULE",
    "only its values on pieces are known; put a gpuarray.custom_vjp (or custom_vmap) around it, "
    "whose rules may use it",
)


def _show(params: dict) -> dict:
    shown = params["by"].shown()
    return dict(sorted({"call": params["call"], **shown}.items()))


custom_partitioning_p = Primitive(
    "custom_partitioning",
    Kind.CALL,
    multiple_results=True,
    aval=lambda *avals, call, **_: call.out_avals,
    jvp=_NO_RULE,
    transpose=_NO_RULE,
    batch=_NO_RULE,
    decompose=lambda *args, call, **_: evaluate(call, *args),
    inline=lambda eqn: eqn.params["call"],
    flow=lambda eqn: eqn.params["by"].flow(eqn),
    show=_show,
)
