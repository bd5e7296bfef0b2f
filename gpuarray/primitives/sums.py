"""Which results are unreduced or reduced along axes of a mesh, from the linearity of operations.

Floor 2. In: a primitive, avals and parameters. Out: for each result, the axes along which devices
hold terms of a sum instead of the value (unreduced), and those along which its cotangent is such
terms (reduced); an error if an operation cannot be applied to terms.

An operation that is linear in its operands maps their terms to the terms of its result; so does a
product with a factor that is the same on all devices, which is what `reduced` promises. For any
other operation the operands have to be summed first, which takes `reshard`. In programs that are
derived from a user's, terms are summed implicitly where necessary (transforms/partition).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuarray.core import dtypes
from gpuarray.core import layout as layouts
from gpuarray.core.avals import ShapedArray
from gpuarray.core.layout import NO_SUMS, NONE, Sums, sums_of, unreduced_of
from gpuarray.core.mesh import in_types
from gpuarray.core.primitive import Kind, Primitive
from gpuarray.core.spec import PartitionSpec
from gpuarray.errors import ShardingTypeError

_ALL, _FIRST = slice(None), slice(0, 1)

#: Operations that are jointly linear in some operands, and which. The others are the same on all
#: devices.
LINEAR_IN: dict[str, slice] = {
    **dict.fromkeys("add add_any sub concatenate stack optimization_barrier".split(), _ALL),
    **dict.fromkeys(
        """
        neg real imag conj copy stop_gradient convert_element_type reduce_precision reduce_sum
        transpose reshape squeeze slice split unstack rev tile broadcast_in_dim dynamic_slice
        """.split(),
        _FIRST,
    ),
    **dict.fromkeys(("pad", "dynamic_update_slice"), slice(0, 2)),
    "select_n": slice(1, None),
}

#: Products: linear in each of these operands, with the other one as a factor. A quotient of
#: integers is rounded, and so is not linear.
FACTORS: dict[str, tuple[int, ...]] = {"mul": (0, 1), "div": (0,)}

#: Collectives that create or consume such sums; their own rules say what they take.
_OF_SUMS = frozenset(
    """
    unreduced_psum unreduced_reduce_scatter all_gather_reduced preduced vary_unreduced_cast
    reduced_vary_cast
    """.split()
)


def linear_operands(prim: Primitive, avals: Sequence[ShapedArray]) -> range:
    """Return the operands that are terms where the results of an operation are."""
    if prim.name in FACTORS:
        found = [i for i in _factors(prim, avals) if unreduced_of(avals[i].layout)]
        return range(found[0], found[0] + 1) if found else range(0)
    return range(len(avals))[LINEAR_IN.get(prim.name, slice(0))]


def _factors(prim: Primitive, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    whole = prim.name == "div" and dtypes.kind_of(avals[0].dtype) in "iu"
    return () if whole else FACTORS[prim.name]


def of_results(
    prim: Primitive, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray], params: dict
) -> list[Sums]:
    """Return the axes along which each result is unreduced, and those where it is reduced."""
    given = [sums_of(a.layout) for a in avals]
    if not outs or not any(map(any, given)):
        return [NO_SUMS] * len(outs)  # callbacks that only inspect values get their sums
    if prim.name == "optimization_barrier":
        return given
    strict = not layouts.resolving.depth
    if prim.kind is Kind.COLLECTIVE:
        return [_of_collective(prim, avals[0], params)] * len(outs)
    reduced = _reduced(prim, avals, strict)
    unreduced = _unreduced(prim, avals, params, strict)
    return [(unreduced, reduced - unreduced)] * len(outs)


def _of_collective(prim: Primitive, x: ShapedArray, params: dict) -> Sums:
    """Return the sums of the operand; refuse to mix values with terms of sums."""
    if prim.name in _OF_SUMS:
        return sums_of(x.layout)
    axes = params["axes"] if "axes" in params else params.get("axis_name", ())
    names = frozenset(axes if isinstance(axes, tuple) else (axes,))
    for word, concerned in zip(("unreduced", "reduced"), sums_of(x.layout), strict=True):
        if concerned & names:
            raise ValueError(
                f"{prim.name} cannot accept args which are {word}. Got {x.str_short(True)} and "
                f"axes={set(names)}: sum it up first with lax.psum, or cast it with "
                "lax.pcast(x, axes, to='varying')."
            )
    if unreduced_of(x.layout) and prim.name in ("pmax", "pmin"):
        _no_rule(prim, "unreduced")
    return sums_of(x.layout)


# ---- reduced ----


def _reduced(prim: Primitive, avals: Sequence[ShapedArray], strict: bool) -> frozenset:
    """Return the axes along which the results of an operation are reduced."""
    known = [_still_reduced(a, avals) for a in avals]
    if prim.name == "dot_general" or not any(known):
        return NONE
    if prim.name in ("concatenate", "stack", "dynamic_update_slice"):
        if len({*known}) > 1:
            return _unlike(prim, "reduced", known) if strict else NONE
        return known[0]
    # A sum is treated as an elementwise operation, so its operands have to agree.
    if prim.name in LINEAR_IN and prim.name not in ("add", "add_any", "sub"):
        return known[LINEAR_IN[prim.name].start or 0]
    if prim.kind is Kind.POINTWISE:
        return _of_elements(avals, known, strict)
    return _no_rule(prim, "unreduced/reduced") if strict else NONE


def _still_reduced(a: ShapedArray, avals: Sequence[ShapedArray]) -> frozenset:
    """Return the axes along which an operand is reduced, except those along which others vary."""
    reduced = sums_of(a.layout)[1]
    return reduced.difference(*(other.vma for other in avals)) if reduced else reduced


def _of_elements(
    avals: Sequence[ShapedArray], known: Sequence[frozenset], strict: bool
) -> frozenset:
    different = {names for names in known if names}
    if len(different) > 1:
        if not strict:
            return NONE
        raise ShardingTypeError(
            "All inputs should be reduced across the same mesh axes. Got specs: "
            f"{[set(names) for names in different]}. Lay one as the other with sharding.reshard."
        )
    (reduced,) = different
    for a in avals if strict else ():
        cutting = {n for part in layouts.cuts_of(a.layout) or () for n in part}
        if cutting & reduced:
            raise ShardingTypeError(
                "Inputs cannot be sharded/varying on the same axes that another input is reduced "
                "on. Reshard the input which is reduced to be sharded on the mesh axes it is "
                "reduced on via `sharding.reshard(x, P(...))`. Got input type: "
                f"{a.str_short()} and reduced spec: {set(reduced)}"
            )
        # A scalar has no mesh of its own.
        if a.ndim and not reduced <= frozenset().union(*sums_of(a.layout)):
            raise ShardingTypeError(
                "Inputs cannot be replicated on the same axes that another input is reduced on. "
                f"Got input type: {a.str_short()} and reduced spec: {set(reduced)}. Lay it as the "
                f"other one: sharding.reshard(x, P(reduced={set(reduced)}))."
            )
    return reduced


# ---- unreduced ----


def _unreduced(
    prim: Primitive, avals: Sequence[ShapedArray], params: dict, strict: bool
) -> frozenset:
    """Return the axes along which the results of an operation are unreduced."""
    known = [unreduced_of(a.layout) for a in avals]
    if not any(known):
        return NONE
    for a, names in zip(avals, known, strict=True):
        if mixed := names.intersection(*[frozenset().union(*(b.vma for b in avals))]):
            raise ValueError(
                f"{prim.name} cannot accept args which are unreduced along axes where others vary. "
                f"Got {a.str_short(True)} and axes={set(mixed)}: sum it up first with lax.psum."
            )
    if prim.name in FACTORS:
        return _of_product(prim, avals, known, strict)
    linear = [known[i] for i in linear_operands(prim, avals)]
    # Terms where the operation is not linear (an index, a condition): it has to see the sum.
    if any(names and i not in linear_operands(prim, avals) for i, names in enumerate(known)):
        linear = []
    if not linear or not _keeps_sums(prim, avals, params):
        if prim.name == "dot_general" and strict:
            raise _no_terms_in_product(*avals)
        return _no_rule(prim, "unreduced") if strict else NONE
    # Values combined with terms must be added once: one device has them.
    if strict and len({*linear}) > 1 and prim.name != "pad":
        return _unlike(prim, "unreduced", linear)
    return frozenset().union(*linear)


def _of_product(
    prim: Primitive, avals: Sequence[ShapedArray], known: Sequence[frozenset], strict: bool
) -> frozenset:
    """Return the axes along which a product is unreduced: as its only factor that is."""
    x, y = known
    if x and y or any(known[i] for i in range(2) if i not in _factors(prim, avals)):
        if not strict:
            return NONE
        if prim.name != "mul":
            return _no_rule(prim, "unreduced")
        raise ShardingTypeError(
            f"lhs and rhs to `mul` cannot be unreduced since mul is bilinear. Got lhs={set(x)}, "
            f"rhs={set(y)}. Sum one of them up first, with sharding.reshard."
        )
    # x * (y1 + y2) = x * y1 + x * y2: the other factor has to be whole, and the same, on each
    # device.
    mine, other = (0, 1) if x else (1, 0)
    if strict and sums_of(avals[other].layout)[1] != known[mine]:
        if prim.name != "mul":
            return _no_rule(prim, "unreduced")
        names = ("LHS", "RHS")
        lhs, rhs = (a.str_short() for a in avals)
        raise ShardingTypeError(
            f"{names[other]} should be reduced along the same axes {names[mine]} is unreduced on. "
            f"Got lhs={lhs} and rhs={rhs}. Lay it so with sharding.reshard(x, "
            f"P(reduced={set(known[mine])}))."
        )
    return known[mine]


def _keeps_sums(prim: Primitive, avals: Sequence[ShapedArray], params: dict) -> bool:
    """Whether the sum of converted terms is the converted sum: not where numbers are cut off."""
    if prim.name != "convert_element_type":
        return True
    old, new = (dtypes.kind_of(dtype) for dtype in (avals[0].dtype, params["new_dtype"]))
    # From narrow to wide kinds: rounding to an integer, or to a bool, does not go through a
    # sum.
    order = "biufc"
    return old in order and new in order and not (old in "bfc" and new in "biu" and old != new)


# ---- errors ----


def _unlike(prim: Primitive, word: str, known: Sequence[frozenset]) -> frozenset:
    """Refuse operands with pending sums over different axes."""
    names = [set(names) for names in known]
    if prim.name in ("add", "sub") and all(known):
        why = (
            f"lhs and rhs to `{prim.name}` must be unreduced along the same mesh axes. "
            f"Got lhs={names[0]}, rhs={names[1]}"
        )
    elif prim.name in ("add", "sub", "add_any"):
        which, other = ("lhs", "rhs") if known[0] else ("rhs", "lhs")
        why = (
            f"{which} is unreduced while {other} is not. `{prim.name}` operation does not allow "
            "this because there will be implicit communication. Please reduce "
            f"{which} via `reshard` before calling `{prim.name}`"
        )
    elif prim.name == "dynamic_update_slice":
        why = f"dynamic_update_slice operand and update must be {word} along the same axes"
    else:
        why = f"All operands should be {word} along the same mesh axes"
    raise ShardingTypeError(
        f"{why}. Got {word} specs: {names}. Lay one as the other with sharding.reshard."
    )


def _no_terms_in_product(lhs: ShapedArray, rhs: ShapedArray) -> ShardingTypeError:
    return ShardingTypeError(
        "lhs or rhs passed to dot_general cannot be unreduced. Got lhs="
        f"{lhs.str_short(True)} and rhs={rhs.str_short(True)}. Sum it up first, with "
        "sharding.reshard."
    )


def _no_rule(prim: Primitive, word: str) -> frozenset:
    raise NotImplementedError(
        f"{word} rule for {prim.name} is not implemented: of terms of a sum it does not make terms "
        "of its result. Sum up first, with sharding.reshard(x, spec) or, in a shard_map, lax.psum."
    )


# ---- the argument `out_sharding` of an operation ----


def _asked(out_sharding: Any) -> PartitionSpec | None:
    """Return the spec of a sharding; None if it cannot contain sums, as that of one device."""
    spec = getattr(out_sharding, "spec", out_sharding)
    return spec if isinstance(spec, PartitionSpec) else None


def check_product(
    lhs: ShapedArray, rhs: ShapedArray, contracted: Sequence, out_sharding: Any
) -> None:
    """Refuse a product that cannot have the unreduced axes of `out_sharding`.

    `contracted` are the axes of each operand that are summed over.
    """
    spec = _asked(out_sharding)
    if spec is None:
        return
    if unreduced_of(lhs.layout) or unreduced_of(rhs.layout):
        raise _no_terms_in_product(lhs, rhs)
    if not spec.unreduced:
        return
    # Each device sums up its own pieces: both operands have to be cut alike along the sum.
    cuts = [
        [(layouts.cuts_of(a.layout) or ((),) * a.ndim)[d] for d in axes]
        for a, axes in zip((lhs, rhs), contracted, strict=True)
    ]
    if cuts[0] != cuts[1]:
        raise ShardingTypeError(
            "lhs and rhs contracting dims should be sharded identically when out_sharding provided "
            f"to dot_general mentions unreduced_axes. Got lhs_contracting_spec={cuts[0]}, "
            f"rhs_contracting_spec={cuts[1]}"
        )
    named = {n for part in cuts[0] for n in part}
    if named != _in_types(lhs, spec.unreduced):
        raise ShardingTypeError(
            "out_sharding's unreduced axes should be equal to the contracting specs. Got unreduced "
            f"axes={set(spec.unreduced)} and contracting spec={cuts[0]}"
        )


def check_sum(x: ShapedArray, axes: Sequence[int], out_sharding: Any) -> None:
    """Refuse a sum that cannot have the unreduced axes of `out_sharding`."""
    spec = _asked(out_sharding)
    if spec is None or not spec.unreduced:
        return
    cuts = layouts.cuts_of(x.layout) or ((),) * x.ndim
    named = {n for d in axes for n in cuts[d]} | unreduced_of(x.layout)
    if not _in_types(x, spec.unreduced) <= named:
        raise ShardingTypeError(
            "out_sharding's unreduced axes should be in operand's specs that were summed over. Got "
            f"operand={x.str_short(True)}, axes={tuple(axes)}, unreduced_spec={set(spec.unreduced)}"
        )


def check_same(x: ShapedArray, name: str, out_sharding: Any) -> None:
    """Refuse an operation on the same elements whose `out_sharding` has other sums than its
    operand.

    They take an exchange, or are a promise: `reshard` gives both.
    """
    spec = _asked(out_sharding)
    if spec is None:
        return
    asked = spec.unreduced, spec.reduced
    for word, have, want in zip(("unreduced", "reduced"), sums_of(x.layout), asked, strict=True):
        if have == want:
            continue
        if have:
            raise ValueError(
                f"out_sharding passed to {name} must be {word} over the same mesh axes as operand. "
                f"Got out_sharding: {spec} and operand type: {x.str_short(True)}. Use "
                "sharding.reshard for that."
            )
        raise ValueError(
            f"out_sharding passed to `{name}` cannot contain {word} axes, as its operand of type "
            f"{x.str_short(True)} has none. Got {spec}. Use sharding.reshard for that."
        )


def _in_types(x: ShapedArray, names: frozenset) -> frozenset:
    """Return those of some mesh axes that appear in types."""
    mesh = x.layout.mesh if x.layout is not None else None
    return names if mesh is None else names & in_types(mesh)
