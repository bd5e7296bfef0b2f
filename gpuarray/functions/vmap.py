"""`vmap`: map a function over an axis of its arguments, without a loop.

Floor 6. In: a function, and the axes of its arguments to map over. Out: a function of whole arrays,
which applies it to all elements along these axes together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from gpuarray import util
from gpuarray.core.avals import aval_of
from gpuarray.core.axes import named_axes
from gpuarray.core.layout import Layout, cuts_of, layout, resolving, shown, space_in, sums_of
from gpuarray.core.mesh import in_types
from gpuarray.core.tracebacks import boundary
from gpuarray.core.value import Array
from gpuarray.functions.vmappable import Whole, closed, is_spec
from gpuarray.primitives.reshard import as_typed
from gpuarray.pytree import tree
from gpuarray.transforms.batch import BatchAxis, batch_aux, matched
from gpuarray.transforms.passing import taken_out, with_values
from gpuarray.transforms.references import Ref, RefView, values_of, write_back
from gpuarray.util import wraps


def vmap(
    fun: Callable,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable:
    """Map `fun` over an axis of its arguments, without a loop.

    Parameters
    ----------
    in_axes, out_axes :
        The axis of each argument to map over, and its position in the results: one int for all, or
        a pytree that is a prefix of them; None for values that are the same for all elements.
    axis_name :
        Name of the mapped axis, for collectives inside, such as `lax.psum`.
    axis_size :
        Length of the mapped axis; default: that of the arguments.
    spmd_axis_name :
        Axes of a mesh along which a `shard_map` or sharding constraint inside cuts the mapped axis.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> ga.vmap(gnp.dot)(gnp.ones((3, 4)), gnp.ones((3, 4)))
    Array([4., 4., 4.], dtype=float32)
    """
    if not callable(fun):
        raise TypeError(f"Expected a callable value, got {fun}")
    in_axes, spread = _checked_options(in_axes, out_axes, axis_name, spmd_axis_name)

    @boundary
    @wraps(fun)
    def mapped(*args, **kwargs):
        # Before the arguments are flattened: a prefix of another length would be reported as a
        # mismatch of trees.
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                "positional arguments passed to the function, but got "
                f"len(in_axes)={len(in_axes)}, len(args)={len(args)}"
            )
        # Objects that are mapped as a whole become leaves.
        given = closed((args, kwargs))
        leaves, spec = tree.flatten(given)
        # An axis for each leaf; arguments by name are always mapped along axis 0.
        dims = _dims(in_axes, given[0]) + [0] * len(tree.flatten(given[1])[0])
        if any(isinstance(x, Ref) and d is not None for x, d in zip(leaves, dims, strict=True)):
            return over_references(args, kwargs, leaves, dims)
        dims = [checked_axis("vmap", x, d) for x, d in zip(leaves, dims, strict=True)]
        # The length that all mapped axes share.
        size = mapped_size("vmap", fun, leaves, dims, axis_size, *given)

        def flat(*values):
            if any(type(x) is Whole for x in values):
                values = [
                    x.element(d) if type(x) is Whole else x
                    for x, d in zip(values, dims, strict=True)
                ]
            inner_args, inner_kwargs = tree.unflatten(spec, values)
            results, out_spec = tree.flatten(closed(fun(*inner_args, **inner_kwargs)))
            out = [x for x in results if type(x) is not Whole]
            # Raises for values that are not arrays, with the user's function on the stack.
            for x in out:
                try:
                    aval_of(x)
                except TypeError:
                    raise TypeError(
                        f"Output from batched function {x!r} with type {type(x)} is not a valid "
                        "JAX type: return arrays, Python scalars, or containers of them."
                    ) from None
            wholes: list = [None] * len(results)
            if len(out) < len(results):
                # Their own classes say where their arrays have the axis.
                unlike = lambda dim: _unlike(dim, axis_name)
                wanted = _out_dims(out_axes, out_spec, results)
                for i, (x, want) in enumerate(zip(results, wanted, strict=True)):
                    wholes[i] = Whole(x.rebuilt(size, want, unlike)) if type(x) is Whole else None
            # Tracers are not kept beyond the trace.
            return out, (wholes, out_spec)

        axis = BatchAxis(size, axis_name, spread)
        # Run the function on values that carry the extra axis, wherever each operation leaves it.
        boxed_dims = [None if type(x) is Whole else d for x, d in zip(leaves, dims, strict=True)]
        cutters = _cutters(leaves, dims, spread)
        # Mesh axes that shard the elements cannot shard anything inside one element.
        taken = () if cutters is None or cutters.cuts is None else cutters.cuts[0]
        with named_axes({}, tuple(n for n in taken if n not in spread)):
            out, out_dims, beside = batch_aux(flat, axis, leaves, boxed_dims)
        wholes, out_spec = beside
        # Move the axis of every result to where it is wanted.
        rest = iter(zip(out, out_dims, strict=True))
        leaves = [(x, None) if x is not None else next(rest) for x in wholes]
        wanted = _out_dims(out_axes, out_spec, [x for x, _ in leaves])
        placed = []
        for (x, dim), want in zip(leaves, wanted, strict=True):
            if type(x) is Whole:
                placed.append(x.x)
                continue
            if want is None and dim is not None:
                raise _unlike(dim, axis_name)
            placed.append(_with_axis_at(x, dim, want, size, cutters))
        return tree.unflatten(out_spec, placed)

    def over_references(args: tuple, kwargs: dict, leaves: list, dims: list) -> Any:
        """Call with mapped references: each element is read and written by the call it is for."""
        is_part = lambda x: isinstance(x, RefView)
        if any(map(is_part, tree.tree_leaves((args, kwargs), is_leaf=is_part))):
            raise TypeError(
                "vmap cannot map over ref.at[index] (TransformedRefs are not allowed): the index "
                "is of the whole reference. Give vmap the reference, and index it in the function."
            )
        # Take references out of the arguments, and separate their axes from the others.
        refs, (args, kwargs) = taken_out((args, kwargs), "vmap")
        axes = [d for x, d in zip(leaves, dims, strict=True) if isinstance(x, Ref)]
        kept = [d for x, d in zip(leaves, dims, strict=True) if not isinstance(x, Ref)]
        values_in, spec = tree.flatten((args, kwargs))

        def whole(values: list, given: list) -> tuple[list, Any]:
            call = lambda args_kwargs: fun(*args_kwargs[0], **args_kwargs[1])
            return with_values(call, refs, values, tree.unflatten(spec, given))

        # The values of references are arguments and results of another mapped function, along
        # their own axes.
        inner = vmap(whole, (axes, kept), (axes, out_axes), axis_name, axis_size, spmd_axis_name)
        values, result = inner(values_of(refs), values_in)
        write_back(refs, values)
        return result

    if (words := getattr(fun, "__doc__", None)) is not None:
        mapped.__doc__ = (
            f"Vectorized version of {mapped.__name__}: over axes of arrays, `in_axes` of vmap.\n\n"
            f"Original documentation:\n\n{words}"
        )
    return mapped


def _checked_options(
    in_axes: Any, out_axes: Any, axis_name: Any, spmd_axis_name: Any
) -> tuple[Any, tuple]:
    """Return in_axes, and the names of mesh axes; raise for options of other types.

    Invalid axes are reported at the user's line, not at the first call.
    """
    # As in JAX, a list of axes is treated as a tuple: as a pytree it would have another structure.
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or _is_axis(in_axes) or isinstance(in_axes, tuple)):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments passed to the function, but got {in_axes}."
        )
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        for axis in tree.flatten_raw(axes)[0]:
            if not (axis is None or _is_axis(axis)):
                raise TypeError(
                    f"vmap {name} must be an int, None, or (nested) container with those types as "
                    f"leaves, but got {axes}."
                )
    spread = spmd_axis_name if isinstance(spmd_axis_name, tuple) else (spmd_axis_name,)
    spread = () if spmd_axis_name is None else spread
    for name in spread:
        if not isinstance(name, Hashable):
            raise util.wrong_type(name, "the name of a mesh axis, which has a hash")
    if len(set(spread)) < len(spread):
        raise ValueError(f"vmap spmd_axis_name has a mesh axis twice: {spmd_axis_name}")
    if not isinstance(axis_name, Hashable):
        raise util.wrong_type(axis_name, "the name of an axis, which has a hash")
    return in_axes, spread


def _with_axis_at(
    x: Any, dim: int | None, want: int | None, size: int, cutters: Layout | None
) -> Any:
    """Return a result with the mapped axis, which is at `dim`, at `want`; None: without it."""
    if want is not None:
        # The rank with the extra axis, which an unmapped result does not have yet.
        rank = len(_shape_of(x, want) or ()) + (dim is None)
        if not -rank <= want < rank:
            raise ValueError(
                f"vmap out_axes: axis {want} is out of bounds for an output of rank {rank}"
            )
        want %= rank
    out = matched(x, dim, want, size)
    if cutters is not None and dim is None and want is not None and isinstance(x, Array):
        return _cut(out, want, cutters)
    return out


def _unlike(dim: int, axis_name: Any) -> ValueError:
    """The error for out_axes=None, which requires that all elements are the same, of a result that
    is mapped.
    """
    named = "" if axis_name is None else f" (axis_name={axis_name})"
    return ValueError(
        f"vmap has mapped output{named} but out_axes is None: the output has an axis at {dim} that "
        "differs along the mapped axis. Reduce over it inside, or give its place at vmap out_axes."
    )


def _shape_of(x: Any, dim: Any) -> tuple[int, ...] | None:
    """The shape that an axis is counted in; None where only the object's class knows."""
    if type(x) is Whole:
        return x.shape if isinstance(dim, int) else None
    if not isinstance(dim, int):
        raise TypeError(
            f"vmap got {dim!r} for the axis of {aval_of(x).str_short()}: it says which axis of a "
            "class given to register_vmappable is mapped. Give arrays an int or None."
        )
    return aval_of(x).shape


def _cutters(leaves: list, dims: list, spread: tuple) -> Layout | None:
    """Return the sharding of the mapped axis, if types record one, as a Layout of one axis.
    ValueError if they, or spmd_axis_name, disagree.
    """
    along: Layout | None = None
    for x, d in zip(leaves, dims, strict=True):
        if d is None or type(x) is Whole:  # not mapped: it may be anything, a string for one
            continue
        found = aval_of(x).layout
        cuts = cuts_of(found)
        if found is None or cuts is None or not cuts[d]:
            continue
        mine = layout(found.varying, found.mesh, (cuts[d],))
        along = along or mine
        assert along is not None
        if along.cuts != (cuts[d],) and not resolving.depth:
            raise ValueError(
                "Mapped away dimension of inputs passed to vmap should be sharded the same. Got "
                f"inconsistent axis specs: {shown(along.cuts)} and {shown((cuts[d],))}. Lay one "
                "input as the other with sharding.reshard."
            )
    # A value shared by all elements cannot be sharded along the mesh axis that shards them.
    if along is not None and along.cuts is not None and not resolving.depth:
        for x, d in zip(leaves, dims, strict=True):
            if d is not None or not isinstance(x, Array):
                continue
            cuts = cuts_of(aval_of(x).layout) or ()
            if both := [n for part in cuts for n in part if n in along.cuts[0]]:
                raise ValueError(
                    "Unmapped values passed to vmap cannot be sharded along a mesh axis that cuts "
                    f"the mapped axis. Got type {aval_of(x).str_short(True)} with in_axes None, "
                    f"where elements lie along {both[0]!r} too. Lay it anew with sharding.reshard."
                )
    # A setting leaves axes of one device out of types, so compare only those that appear in types.
    if along is not None and spread and not resolving.depth:
        spoken = in_types(along.mesh)
        if along.cuts == (tuple(n for n in spread if n in spoken),):
            return along
        raise ValueError(
            "Only one of spmd_axis_name or arrays sharded on `Explicit` mesh axis type is allowed. "
            f"Got spmd_axis_name={spread}, and the mapped axis is sharded as {shown(along.cuts)}"
        )
    return along


def _cut(x: Any, axis: int, along: Layout) -> Any:
    """Return an unmapped value with a mapped axis, sharded like the others."""
    assert along.cuts is not None
    cuts = list(cuts_of(aval_of(x).layout) or ((),) * aval_of(x).ndim)
    sums = sums_of(aval_of(x).layout)
    if any(set(along.cuts[0]).intersection(names) for names in (*cuts, *sums)):
        return x  # another of its axes is cut so, or it is a sum along them
    cuts[axis] = along.cuts[0]
    found = layout((), along.mesh, tuple(cuts), sums, space_in(aval_of(x)))
    return as_typed(x, aval_of(x).update(layout=found))


def _is_axis(x: Any) -> bool:
    return (isinstance(x, int) and not isinstance(x, bool)) or is_spec(x)


def _is_leaf(x: Any) -> bool:
    return x is None or is_spec(x)


def _dims(in_axes: Any, args: tuple) -> list[int | None]:
    """One axis for each leaf of the positional arguments."""
    if in_axes is None or _is_axis(in_axes):
        return [in_axes] * len(tree.flatten(args)[0])
    return tree.prefix_broadcast(in_axes, args, is_leaf=_is_leaf, name="vmap in_axes")


def _out_dims(out_axes: Any, spec: Any, out: Sequence[Any]) -> list[int | None]:
    if out_axes is None or _is_axis(out_axes):
        return [out_axes] * len(out)
    result = tree.unflatten(spec, out)
    return tree.prefix_broadcast(out_axes, result, is_leaf=_is_leaf, name="vmap out_axes")


def checked_axis(what: str, x: Any, dim: int | None) -> int | None:
    """The axis of an argument to be mapped, counted from the front; ValueError if it has none."""
    if dim is None:
        return None
    shape = _shape_of(x, dim)
    if shape is None:
        return dim
    rank = len(shape)
    if not -rank <= dim < rank:
        raise ValueError(
            f"{what} was requested to map its argument along axis {dim}, which implies that its "
            f"rank should be at least {dim + 1 if dim >= 0 else -dim}, but is only {rank} (its "
            f"shape is {shape})"
        )
    return dim % rank


def mapped_size(
    what: str,
    fun: Callable,
    leaves: list,
    dims: list,
    axis_size: int | None,
    args: tuple,
    kwargs: dict,
) -> int:
    """The common length of the mapped axes; `what` is the transformation's name, for messages."""
    # Leaves by the length of their mapped axis.
    found: dict[int, list[int]] = {}
    for i, (x, d) in enumerate(zip(leaves, dims, strict=True)):
        if d is not None and (shape := _shape_of(x, d)) is not None:
            found.setdefault(shape[d], []).append(i)
    # Nothing is mapped: axis_size alone gives the number.
    if not found:
        if axis_size is None and not leaves and what == "pmap":
            raise ValueError(
                "pmap requires at least one argument with a mapped axis, got "
                f"args={args} and kwargs={kwargs}"
            )
        if axis_size is None and not leaves:
            raise ValueError(
                f"{what} wrapped function must be passed at least one argument containing an array "
                f"or axis_size must be specified, got empty *args={args} and **kwargs={kwargs}"
            )
        if axis_size is None and any(d is not None for d in dims):
            raise ValueError(
                f"{what} needs axis_size: the lengths of the mapped objects are their class's own"
            )
        if axis_size is None:
            raise ValueError(f"{what} must have at least one non-None value in in_axes")
        return axis_size
    size = next(iter(found))
    if len(found) == 1 and axis_size in (None, size):
        return size
    # The lengths differ: list which arguments have which, the majority first, as JAX does.
    names = _argument_names(fun, args, kwargs)
    lines = [] if axis_size is None else [f"the `axis_size` argument was {axis_size}"]
    most = max(found, key=lambda n: len(found[n]))
    for n in sorted(found, key=lambda n: n != most):
        which, i = found[n], found[n][0]
        count = f"most axes ({len(which)} of them)" if n == most else f"some axes ({len(which)})"
        some = "one axis had" if len(which) == 1 else f"{count} had"
        eg = "" if len(which) == 1 else " e.g."
        sep = ":" if len(which) == 1 else ","
        x = leaves[i]
        kind = repr(x.x) if type(x) is Whole else aval_of(x).str_short()
        lines.append(f"{some} size {n}{sep}{eg} axis {dims[i]} of {names[i]} of type {kind}")
    listed = ";".join(f"\n  * {line}" for line in lines)
    raise ValueError(f"{what} got inconsistent sizes for array axes to be mapped:{listed}")


def _argument_names(fun: Callable, args: tuple, kwargs: dict) -> list[str]:
    """A name for each leaf of the arguments, after the function's parameters."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):  # a builtin function, say
        parameters = []
    names = []
    for i, arg in enumerate(args):
        named = i < len(parameters) and parameters[i].kind in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        )
        name = f"argument {parameters[i].name}" if named else f"args[{i}]"
        names += [name + path for path in tree.leaf_paths(arg)]
    return names + [f"kwargs{path}" for path in tree.leaf_paths(kwargs)]
