"""`jit` as a primitive: a call that holds a Graph.

Floor 4. In: a Graph and its arguments. Out: the primitive that transforms and the compiler look
into.
"""

from __future__ import annotations

from gpuarray.core.graph import evaluate
from gpuarray.core.primitive import Kind, Primitive

_HIDDEN = {"keep_unused": False, "inline": False, "donated_invars": None}


def _show(params: dict) -> dict:
    shown = {k: v for k, v in params.items() if not (k in _HIDDEN and not v)}
    if not any(params.get("donated_invars") or ()):
        shown.pop("donated_invars", None)
    return shown


def _jit_aval(*avals, jaxpr, **_):
    return jaxpr.out_avals


jit_p = Primitive(
    "jit",
    Kind.CALL,
    multiple_results=True,
    aval=_jit_aval,
    decompose=lambda *args, jaxpr, **_: evaluate(jaxpr, *args),
    show=_show,
)
