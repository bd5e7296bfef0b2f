"""`linear_call` as a primitive: a linear function that comes with its transpose.

Floor 4. In: the Graphs of both, which take residuals and then linear operands. Out: the primitive.
"""

from __future__ import annotations

from gpuarray.control.custom_rules import in_front
from gpuarray.control.graph_edits import cut
from gpuarray.core.graph import evaluate
from gpuarray.core.linear import is_undefined, is_zero
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.primitives.linear import instantiate
from gpuarray.transforms.batch import BatchAxis
from gpuarray.transforms.graphs import batch_graph


def _jvp(primals: list, tangents: list, **params) -> tuple[list, list]:
    """Linear in all but the residuals."""
    count = params["num_res"]
    if not all(is_zero(t) for t in tangents[:count]):
        raise NotImplementedError(
            "linear_call is not differentiable with respect to its residual arguments: stop the "
            "gradient there, or pass them as linear arguments"
        )
    out = linear_call_p.bind(*primals, **params)
    # The operation is linear in the rest: it is applied to their tangents.
    rest = [instantiate(t) for t in tangents[count:]]
    return out, linear_call_p.bind(*primals[:count], *rest, **params)


def _transpose(cts: list, *operands, callee, transpose, num_res, **params) -> list:
    residuals, linear = cut(operands, num_res)
    # The transpose of the transpose is the function itself.
    given = linear_call_p.bind(
        *residuals,
        *map(instantiate, cts),
        callee=transpose,
        transpose=callee,
        num_res=num_res,
        **params,
    )
    pairs = zip(given, linear, strict=True)
    return [None] * num_res + [ct if is_undefined(x) else None for ct, x in pairs]


def _batch(axis: BatchAxis, args: list, dims: list, *, callee, transpose, num_res, **params):
    where = tuple(dims)
    new = batch_graph(callee, axis, where, (0,) * len(callee.outvars)).graph
    # Cotangents have the axis in front, like results; those of operands are moved to match the
    # operands.
    back = where[:num_res] + (0,) * len(callee.outvars)
    wanted = where[num_res:]
    # An operand without the axis would need its cotangents summed: it gets the axis instead.
    if any(d is None for d in wanted):
        args = [*args[:num_res], *in_front(axis, args[num_res:], wanted)]
        wanted = (0,) * len(wanted)
        new = batch_graph(callee, axis, where[:num_res] + wanted, (0,) * len(callee.outvars)).graph
    transposed = batch_graph(transpose, axis, back, wanted).graph
    out = linear_call_p.bind(*args, callee=new, transpose=transposed, num_res=num_res, **params)
    return out, [0] * len(out)


linear_call_p = Primitive(
    "linear_call",
    Kind.CALL,
    multiple_results=True,
    aval=lambda *avals, callee, **_: callee.out_avals,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    decompose=lambda *args, callee, **_: evaluate(callee, *args),
    inline=lambda eqn: eqn.params["callee"],
)
