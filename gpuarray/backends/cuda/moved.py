"""The costs of the steps of a GPU's program: kernels, routines, their parts, copies.

Floor 4. In: a plan for a GPU. Out: the `Cost` of each of its steps; nothing is compiled or run. It
follows the order in which `program.py` decides how an equation runs: a library routine, parts that
the GPU runs, the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gpuarray.backends.cuda import convolutions, fused_products, library, products
from gpuarray.backends.cuda.substitutes import parts_graph
from gpuarray.backends.placement import Placement
from gpuarray.compiler.cuda.emit import KernelSource, emit
from gpuarray.compiler.explain.costs import NOTHING, Cost, of_eqn, of_flow, total
from gpuarray.compiler.lower.kernel import DeviceStep
from gpuarray.compiler.lower.lifetimes import Lifetimes
from gpuarray.compiler.pipeline import Plan, plan_graph
from gpuarray.core.avals import ShapedArray
from gpuarray.core.dtypes import KeyDtype
from gpuarray.core.flow import Loop
from gpuarray.core.graph import Atom, Eqn, Graph, storage_dtype, talks
from gpuarray.core.primitive import Kind, NoKernel
from gpuarray.primitives.random.ops import implementation

#: Elements that a block of CUB's merge sort sorts before blocks are merged, two at a time.
_SORTED_TILE = 1 << 11
#: Points that one kernel of cuFFT transforms.
_FFT_POINTS = 1 << 12


class Costs:
    """The costs of the steps of one plan for a GPU.

    Parameters
    ----------
    donated :
        The inputs that may be overwritten.
    """

    def __init__(self, plan: Plan, donated: frozenset[int] = frozenset()):
        steps = plan.steps
        self.kernels: dict[int, KernelSource] = {}
        launches: dict[int, KernelSource] = {}
        for i, step in enumerate(steps):
            if not isinstance(step, Eqn):
                self.kernels[id(step)] = launches[i] = emit(step)
        own = lambda eqn: range(len(eqn.outvars))
        lives = Lifetimes(plan.graph.outvars, steps, _is_view, own)
        place = Placement(plan.graph, launches, lives, donated)
        # Operands that are updated in place are copied first, unless their memory is taken over.
        self.copied: dict[int, int] = {}
        for i, source in launches.items():
            for new, old in source.kernel.aliases.items():
                mine, before = place.pieces[new], place.pieces.get(lives.root(old))
                if mine is not before and mine.donor is None:
                    self.copied[id(steps[i])] = old.aval.nbytes

    def of(self, step: DeviceStep) -> Cost:
        """The cost of a step."""
        if isinstance(step, Eqn):
            return of_call(step)
        source, copied = self.kernels[id(step)], self.copied.get(id(step), 0)
        # A kernel without elements is not launched.
        if not any(v.aval.size for v in source.outputs):
            return NOTHING
        moved = source.traffic
        cost = Cost(1, moved.bytes_read, moved.bytes_written)
        return cost + Cost(1, copied, copied) if copied else cost


def whole(graph: Graph, donated: frozenset[int] = frozenset()) -> Cost:
    """The cost of all steps of a Graph on a GPU."""
    plan = plan_graph(graph).on_device
    return total(plan, Costs(plan, donated).of)


def of_call(eqn: Eqn) -> Cost:
    """The cost of an equation that is no kernel."""
    prim, avals = eqn.primitive, [a.aval for a in eqn.invars]
    if _is_view(eqn) or talks(eqn) or prim.kind is Kind.COLLECTIVE:
        return of_eqn(eqn)
    flow = None if prim.flow is None else prim.flow(eqn)
    # A loop owns its carries from the second iteration on.
    carried = {flow.body: frozenset(flow.carry)} if isinstance(flow, Loop) else {}
    found = of_flow(eqn, lambda graph: whole(graph, carried.get(graph, frozenset())), _asked)
    if found is not None:
        return found + _rooms(eqn, flow) if isinstance(flow, Loop) else found
    if prim.assemble is not None:
        return of_eqn(eqn)
    if prim in (products.gemm_p, fused_products.gemm_lt_p):
        return of_eqn(eqn)
    if prim is convolutions.convolution_p:
        return of_eqn(eqn).replace(estimated=True)
    maker = library.ROUTINES.get(prim.name)
    if maker is not None and _takes(maker, avals, eqn.params):
        return ROUTINES.get(prim.name, _routine)(eqn)
    # Parts that are separate steps.
    first: Sequence[ShapedArray] = ()
    parts = library.parts(eqn)
    if prim.name in library.FRESH:
        fresh = library.FRESH[prim.name]
        parts = lambda *values: fresh(*values, **eqn.params)
        first = [ShapedArray((), KeyDtype(implementation("threefry2x32")))]
    if parts is not None:
        try:
            return whole(parts_graph(parts, eqn, first))
        except NoKernel:  # not for these operands
            pass
    # The host: operands are copied there, and results back.
    read, written = (sum(a.aval.nbytes for a in of) for of in (eqn.invars, eqn.outvars))
    return Cost(len(eqn.invars) + len(eqn.outvars), read, written)


def _asked(a: Atom) -> Cost:
    """A copy of a number to the host."""
    return Cost(1, a.aval.nbytes, a.aval.nbytes)


def _rooms(eqn: Eqn, loop: Loop) -> Cost:
    """Memory for stacked results is filled once before the loop."""
    made = eqn.outvars[len(loop.carry) :]
    return Cost(len(made), 0, sum(v.aval.nbytes for v in made))


def _takes(maker: Callable, avals: Sequence[ShapedArray], params: dict) -> bool:
    try:
        maker(avals, **params)
    except NoKernel:
        return False
    return True


def _is_view(eqn: Eqn) -> bool:
    return eqn.primitive.kind is Kind.VIEW or eqn.primitive.same_bytes


# ---- routines of libraries ----
def _routine(eqn: Eqn) -> Cost:
    """A routine that reads its operands and writes its results at least."""
    return of_eqn(eqn).replace(estimated=True)


def _matrices(eqn: Eqn) -> Cost:
    """A routine that is called for each matrix of a stack; the results are stacked afterwards."""
    stack = eqn.invars[0].aval.shape[:-2]
    stacked = len(eqn.outvars) if stack else 0
    return _routine(eqn).replace(launches=math.prod(stack) + stacked)


def _iterated(eqn: Eqn) -> Cost:
    """The same, with tests for numbers that are not finite before and behind each call."""
    tests = 3 + len(eqn.outvars)
    found = _matrices(eqn)
    return found.replace(launches=found.launches + tests * math.prod(eqn.invars[0].aval.shape[:-2]))


def _triangular(eqn: Eqn) -> Cost:
    """The same for solutions of triangular systems, of which a single one counts as a stack too."""
    return _routine(eqn).replace(launches=math.prod(eqn.invars[0].aval.shape[:-2]) + 1)


def _sort(eqn: Eqn) -> Cost:
    """CuPy's sort: a merge sort of all rows together, with the row number next to each key."""
    avals, params = [a.aval for a in eqn.invars], eqn.params
    keys = avals[: params["num_keys"]]
    count = keys[0].size
    rows = 8 if keys[0].ndim > 1 else 0
    passes = 1 + math.ceil(math.log2(max(1.0, count / _SORTED_TILE)))
    if len(avals) == 1:
        moved = passes * count * (storage_dtype(keys[0]).itemsize + rows)
        return Cost(1, moved, moved, estimated=True)
    # The order by each key, as positions of 8 bytes; then every operand is picked in that order.
    found = NOTHING
    for number, key in enumerate(keys):
        moved = passes * count * (storage_dtype(key).itemsize + 8 + rows)
        found += Cost(1 if number == 0 else 3, moved, moved, estimated=True)
    for a in avals:
        found += Cost(1, a.nbytes + 8 * count, a.nbytes)
    return found


def _fft(eqn: Eqn) -> Cost:
    """A pass over all points for each axis, or several along a long one."""
    once = of_eqn(eqn)
    shape = eqn.outvars[0].aval.shape
    lengths = shape[len(shape) - len(eqn.params["fft_lengths"]) :]
    passes = sum(max(1, math.ceil(math.log(max(n, 2), _FFT_POINTS))) for n in lengths)
    return Cost(1, once.read * passes, once.written * passes, estimated=True)


def _search(eqn: Eqn) -> Cost:
    """One sorted array at a time."""
    rows = max(1, math.prod(eqn.invars[0].aval.shape[:-1]))
    return _routine(eqn).replace(launches=rows + (rows > 1))


#: The costs of routines, where they do more than read their operands and write their results.
ROUTINES: dict[str, Callable[[Eqn], Cost]] = {
    "sort": _sort,
    "library_sort": _sort,
    "searchsorted": _search,
    "fft": _fft,
    "cholesky": _matrices,
    "packed_lu": _matrices,
    "geqrf": _matrices,
    "qr": _matrices,
    "eig": _iterated,
    "eigh": _iterated,
    "svd": _iterated,
    "triangular_solve": _triangular,
}
