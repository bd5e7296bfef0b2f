"""Buckets: independent small exchanges are merged.

Floor 3. In: the Graph of one device, the lengths of the axes its collectives name, and a network.
Out: the same program, in which a psum (pmax, pmin, all_gather, reduce_scatter) has the operands of
several, and is placed where the last of them is ready.

An exchange of few bytes mostly waits for messages, so many of them are best sent together, up to
the size at which sending takes as long as waiting (`Network.bucket_bytes`). How an engine handles
several operands is its own choice: MPI sends them as one buffer, NCCL as one group of calls. Each
element is summed as before, and each piece has the same destination.

Members of a bucket have one kind, the same devices and one dtype, and none depends on the result of
another, even through other buckets: so the equations still have an order. It follows from the Graph
alone, and is the same on all devices.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from gpuarray.compiler.partition.network import Network
from gpuarray.core.graph import Atom, Eqn, Graph, Var, has_effect, has_exchanges, params_key, talks
from gpuarray.core.primitive import Kind
from gpuarray.primitives.collective import ops, together
from gpuarray.util import tuple_like


def bucketed(graph: Graph, sizes: Mapping[Any, int], network: Network) -> Graph:
    """Return a Graph whose small exchanges are merged, also those in loops and branches."""
    if not has_exchanges(graph):
        return graph
    eqns = [_inside(e, sizes, network) if talks(e) else e for e in graph.eqns]
    # Loops first, separately: exchanges of a body and of the code around it are never merged.
    joined = _joined(_needed(graph, eqns), sizes, network)
    if joined is None and all(a is b for a, b in zip(eqns, graph.eqns, strict=True)):
        return graph
    return Graph(
        graph.invars,
        graph.outvars,
        eqns if joined is None else joined,
        graph.constvars,
        graph.consts,
        debug_name=graph.debug_name,
    )


def _inside(eqn: Eqn, sizes: Mapping[Any, int], network: Network) -> Eqn:
    """Return an equation with the Graphs that it holds rewritten."""
    if eqn.primitive.kind is not Kind.CALL:
        return eqn

    def rewritten(value: Any) -> Any:
        if isinstance(value, Graph):
            return bucketed(value, sizes, network)
        if isinstance(value, tuple) and any(isinstance(x, Graph) for x in value):
            found = tuple(map(rewritten, value))
            return value if all(map(operator.is_, found, value)) else tuple_like(value, found)
        return value

    params = {name: rewritten(value) for name, value in eqn.params.items()}
    same = all(map(operator.is_, params.values(), eqn.params.values()))
    return eqn if same else eqn.replace(params=params)


def _needed(graph: Graph, eqns: Sequence[Eqn]) -> list[Eqn]:
    """Return the equations that something needs: a bucket would keep the others alive."""
    read: set[Atom] = set(graph.outvars)
    found = []
    for eqn in reversed(eqns):
        if has_effect(eqn) or not read.isdisjoint(eqn.outvars):
            found.append(eqn)
            read.update(eqn.invars)
    return found[::-1]


class _Bucket:
    """Exchanges that become one: their numbers, their bytes, a bit for each bucket they need."""

    def __init__(self, number: int):
        self.number = number
        self.members: list[int] = []
        self.nbytes = 0
        self.needs = 0


def _joined(eqns: list[Eqn], sizes: Mapping[Any, int], network: Network) -> list[Eqn] | None:
    """Return equations with each bucket merged; None if no two exchanges belong together."""
    buckets: list[_Bucket] = []
    latest: dict[tuple, _Bucket] = {}
    # The buckets that a value depends on, as bits: those of its operands, or its own.
    behind: dict[Atom, int] = {}
    effects = 0

    # Buckets that these depend on, directly and indirectly: bits, since most programs have few.
    def all_needed(bits: int) -> int:
        found, new = bits, bits
        while new:
            more = 0
            for bucket in buckets:
                if new >> bucket.number & 1:
                    more |= bucket.needs
            new, found = more & ~found, found | more
        return found

    for i, eqn in enumerate(eqns):
        bits = 0
        for a in eqn.invars:
            # Direct dependences; `all_needed` follows those through other buckets.
            bits |= behind.get(a, 0)
        if has_effect(eqn):  # these keep their order
            effects = bits = bits | effects
        key, nbytes, most = _kind(eqn, sizes, network)
        if key is not None:
            bucket = latest.get(key)
            # A new bucket where the last one of this kind is full, or is needed for this very
            # operand.
            full = bucket is not None and bucket.nbytes + nbytes > most
            if bucket is None or full or all_needed(bits) >> bucket.number & 1:
                bucket = latest[key] = _Bucket(len(buckets))
                buckets.append(bucket)
            bucket.members.append(i)
            bucket.nbytes += nbytes
            bucket.needs |= bits
            bits = 1 << bucket.number
        for v in eqn.outvars:
            behind[v] = bits
    several = [b.members for b in buckets if len(b.members) > 1]
    return _in_order(eqns, several) if several else None


def _kind(eqn: Eqn, sizes: Mapping[Any, int], network: Network) -> tuple[tuple | None, int, int]:
    """Return the key that members of a bucket share, an equation's bytes, and the maximum of the
    bucket.

    None: the equation stays separate.
    """
    prim, params = eqn.primitive, eqn.params
    kind = together.exchange_of(prim)
    if kind is None or not together.takes_several(prim) or not eqn.invars:
        return None, 0, 0
    names, groups = ops.names_in(params), params["axis_index_groups"]
    dtypes = {a.aval.dtype for a in eqn.invars}
    # A sum over own axes gives another shape.
    own = any(isinstance(a, int) for a in params.get("axes", ()))
    if len(dtypes) > 1 or own or any(n not in sizes for n in names):
        return None, 0, 0
    # The number of communicating devices: those along the axes, or of the largest group.
    count = math.prod(sizes[n] for n in names) if groups is None else max(map(len, groups))
    nbytes, most = sum(a.aval.nbytes for a in eqn.invars), network.bucket_bytes(count, kind)
    # Params in which members may differ, such as an axis, are not part of the key.
    several, common = together.shared_params(prim, params) or (prim, params)
    key = (several, params_key(common), dtypes.pop())
    # An exchange of that many bytes gains nothing from merging.
    return (key if nbytes < most else None), nbytes, most


def _as_one(eqns: Sequence[Eqn]) -> Eqn:
    """Return the exchanges of a bucket as one equation."""
    first = eqns[0]
    prim, params = first.primitive, first.params
    found = together.shared_params(prim, params)
    if found is not None:
        prim, params = found[0], together.joined_params(prim, [e.params for e in eqns])
    # An engine takes an exchange of several operands as one (primitives/collective/together.py).
    operands = [a for e in eqns for a in e.invars]
    return Eqn(prim, operands, [v for e in eqns for v in e.outvars], params, first.site)


def _in_order(eqns: list[Eqn], buckets: list[list[int]]) -> list[Eqn]:
    """Return equations, some merged, each as early as its dependences and the order allow."""
    # Each one represents itself, or a bucket at the position of its last member.
    stands = {i: i for i in range(len(eqns))}
    made: dict[int, Eqn] = dict(enumerate(eqns))
    for members in buckets:
        some = [made.pop(i) for i in members]
        stands.update(dict.fromkeys(members, members[-1]))
        made[members[-1]] = _as_one(some)
    maker = {v: stands[i] for i, e in enumerate(eqns) for v in e.outvars}
    readers: dict[int, list[int]] = {i: [] for i in made}
    missing: dict[int, int] = {}
    effect: int | None = None
    for i in sorted(made):
        needed = {maker[a] for a in made[i].invars if isinstance(a, Var) and a in maker}
        # Effects keep their order: each needs the one before.
        if has_effect(made[i]):
            needed |= set() if effect is None else {effect}
            effect = i
        missing[i] = len(needed)
        for j in needed:
            readers[j].append(i)
    # By number, the smallest first: as close to the program's order as the buckets allow.
    ready = [i for i in made if not missing[i]]
    heapq.heapify(ready)
    found = []
    while ready:
        i = heapq.heappop(ready)
        found.append(made[i])
        for j in readers[i]:
            missing[j] -= 1
            if not missing[j]:
                heapq.heappush(ready, j)
    assert len(found) == len(made), "buckets need each other"
    return found
