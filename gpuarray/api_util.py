"""Flat functions of flat arguments, and options by number or name, for libraries that trace.

Floor 6. In: `WrappedFun`s of extend.linear_util, structures of arguments. Out: functions from
leaves to leaves, and thunks that return the structure of the result after a call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpuarray.core.avals import aval_of as shaped_abstractify
from gpuarray.extend import linear_util as lu
from gpuarray.extend.linear_util import DebugInfo
from gpuarray.functions.argnums import indices, leaf_names, names_in, signature_of
from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree
from gpuarray.transforms.tracing import TracedFunction
from gpuarray.util import safe_zip, wrong_type

__all__ = [
    "argnums_partial",
    "debug_info",
    "donation_vector",
    "flatten_axes",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "rebase_donate_argnums",
    "safe_map",
    "shaped_abstractify",
]


def safe_map(f: Callable[..., Any], *sequences: Sequence[Any]) -> list[Any]:
    """The list of results of `f` over sequences of equal length; ValueError if lengths differ.

    >>> from gpuarray.api_util import safe_map
    >>> safe_map(pow, [2, 3], [3, 2])
    [8, 9]
    """
    return [f(*row) for row in safe_zip(*sequences)]


@lu.transformation_with_aux2
def _flat(call: Callable[..., Any], store: lu.Store, in_tree: Any, *leaves: Any) -> list[Any]:
    args, kwargs = tree.tree_unflatten(in_tree, leaves)
    out, structure = tree.tree_flatten(call(*args, **kwargs))
    store.store(structure)
    return out


@lu.transformation_with_aux2
def _flat_nokwargs(
    call: Callable[..., Any], store: lu.Store, in_tree: Any, *leaves: Any
) -> list[Any]:
    out, structure = tree.tree_flatten(call(*tree.tree_unflatten(in_tree, leaves)))
    store.store(structure)
    return out


def flatten_fun(f: lu.WrappedFun, in_tree: Any) -> tuple[lu.WrappedFun, Callable[[], Any]]:
    """A function from leaves to leaves, and a thunk for the structure of its result.

    Parameters
    ----------
    in_tree :
        The structure of (args, kwargs).

    Examples
    --------

    >>> import gpuarray as ga
    >>> from gpuarray.api_util import flatten_fun
    >>> from gpuarray.extend import linear_util as lu
    >>> leaves, in_tree = ga.tree.flatten(((1, 2), {"c": 3}))
    >>> flat, out_tree = flatten_fun(lu.wrap_init(lambda a, b, c: {"sum": a + b + c}), in_tree)
    >>> flat.call_wrapped(*leaves), out_tree()
    ([6], PyTreeDef({'sum': *}))
    """
    return _flat(f, in_tree)


def flatten_fun_nokwargs(f: lu.WrappedFun, in_tree: Any) -> tuple[lu.WrappedFun, Callable]:
    """As `flatten_fun`, without keyword arguments: `in_tree` is the structure of args.

    >>> import gpuarray as ga
    >>> from gpuarray.api_util import flatten_fun_nokwargs
    >>> from gpuarray.extend import linear_util as lu
    >>> leaves, in_tree = ga.tree.flatten((1, (2, 3)))
    >>> flat, out_tree = flatten_fun_nokwargs(lu.wrap_init(lambda a, b: (b, a)), in_tree)
    >>> flat.call_wrapped(*leaves), out_tree()
    ([2, 3, 1], PyTreeDef(((*, *), *)))
    """
    return _flat_nokwargs(f, in_tree)


class _Static:
    """A fixed argument as a part of a key: 1, 1.0 and True differ."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Static)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )


class _Unhashable(_Static):
    """A fixed argument that cannot be hashed: it is equal to itself alone."""

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unhashable) and self.value is other.value


@lu.transformation2
def _with_fixed(
    call: Callable[..., Any], positions: tuple[int, ...], fixed: tuple, *dynamic: Any, **kwargs: Any
) -> Any:
    given = dict(zip(positions, dynamic, strict=True))
    rest = iter(fixed)
    count = len(fixed) + len(dynamic)
    return call(*[given[i] if i in given else next(rest).value for i in range(count)], **kwargs)


def _positions(argnums: Sequence[int], count: int) -> tuple[int, ...]:
    for i in argnums:
        if not -count <= i < count:
            raise ValueError(
                "Positional argument indices, e.g. for `static_argnums`, must have value greater "
                f"than or equal to -len(args) and less than len(args), but got value {i} for "
                f"len(args) == {count}."
            )
    return tuple(i % count for i in argnums)


def argnums_partial(
    f: lu.WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Any],
    require_static_args_hashable: bool = True,
) -> tuple[lu.WrappedFun, tuple]:
    """The function of some of its arguments, with the others fixed, and those arguments.

    >>> from gpuarray.api_util import argnums_partial
    >>> from gpuarray.extend import linear_util as lu
    >>> f, dynamic = argnums_partial(lu.wrap_init(pow), 0, (3, 2))
    >>> dynamic, f.call_wrapped(5)
    ((3,), 25)
    """
    positions = _positions(indices(dyn_argnums, "dyn_argnums"), len(args))
    fixed: list[_Static] = []
    for i, arg in enumerate(args):
        if i in positions:
            continue
        if require_static_args_hashable:
            try:
                hash(arg)
            except TypeError:
                raise ValueError(
                    "Non-hashable static arguments are not supported, as this can lead to "
                    f"unexpected cache-misses. Static argument (index {i}) of type {type(arg)} "
                    f"for function {f.__name__} is non-hashable."
                ) from None
        fixed.append((_Static if require_static_args_hashable else _Unhashable)(arg))
    return _with_fixed(f, positions, tuple(fixed)), tuple(args[i] for i in positions)


def donation_vector(
    donate_argnums: Iterable[int], donate_argnames: Iterable[str], in_tree: Any, kws: bool = True
) -> tuple[bool, ...]:
    """Whether each leaf belongs to an argument that is donated, by number or by name.

    Parameters
    ----------
    in_tree :
        The structure of (args, kwargs), or with `kws=False` of args.

    Examples
    --------

    >>> import gpuarray as ga
    >>> from gpuarray.api_util import donation_vector
    >>> donation_vector((0,), ("b",), ga.tree.structure((((1, 2), 3), {"a": 4, "b": 5})))
    (True, True, False, False, True)
    """
    args, named = in_tree.children() if kws else (in_tree, None)
    # One flag for each leaf: an argument's own, as often as it has leaves.
    flags: list[bool] = []
    for i, arg in enumerate(args.children()):
        flags += [i in donate_argnums] * arg.num_leaves
    if named is not None:
        for name, value in zip(named.node_data()[1], named.children(), strict=True):
            flags += [name in donate_argnames] * value.num_leaves
    return tuple(flags)


def rebase_donate_argnums(
    donate_argnums: Iterable[int], static_argnums: Iterable[int]
) -> tuple[int, ...]:
    """Renumber donated arguments with the static ones left out.

    >>> from gpuarray.api_util import rebase_donate_argnums
    >>> rebase_donate_argnums((2, 5), (1, 3))
    (1, 3)
    """
    static, donated = sorted(set(static_argnums)), sorted(set(donate_argnums))
    if set(static) & set(donated):
        raise ValueError(
            f"`static_argnums` {static} and `donate_argnums` {donated} cannot intersect."
        )
    return tuple(i - sum(s < i for s in static) for i in donated)


def flatten_axes(
    name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False
) -> list[Any]:
    """One axis for each leaf of a structure; `axis_tree` is a prefix of it and may contain None.

    >>> import gpuarray as ga
    >>> from gpuarray.api_util import flatten_axes
    >>> flatten_axes("in_axes", ga.tree.structure((1, (2, 3))), (0, None))
    [0, None, None]
    """
    # Any leaves will do: only their places count.
    whole = tree.tree_unflatten(treedef, [object()] * treedef.num_leaves)
    try:
        return tree.prefix_broadcast(axis_tree, whole, lambda x: x is None, name)
    except ValueError as error:
        # The hint of `in_axes`: a list of arguments is a tuple, even for one of them.
        given = whole[0] if kws else whole
        mine = axis_tree[0] if kws else axis_tree
        hint = ""
        if tupled_args:
            hint = (
                f" Note that {name} that are non-trivial pytrees should always be wrapped in a "
                "tuple representing the argument list."
            )
            if isinstance(given, tuple) and len(given) == 1 and not isinstance(mine, tuple):
                hint += (
                    " In particular, you're passing in a single argument which means that "
                    f"{name} might need to be wrapped in a singleton tuple."
                )
        raise ValueError(
            f"{name} specification must be a tree prefix of the corresponding value;{hint} {error}"
        ) from None


def debug_info(
    traced_for: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    result_paths_thunk: Any = None,
    sourceinfo: str | None = None,
    signature: inspect.Signature | None = None,
) -> DebugInfo:
    """How error messages name a traced function: its source location, and a name for each leaf of
    its arguments that is not static.

    >>> from gpuarray.api_util import debug_info
    >>> def model(x, params): ...
    >>> info = debug_info("my transformation", model, (1.0,), {"params": {"w": 2.0}})
    >>> info.func_name, info.arg_names
    ('model', ('x', "params['w']"))
    """
    if signature is None:
        signature = signature_of(fun)
    elif not isinstance(signature, inspect.Signature):
        raise wrong_type(signature, "an inspect.Signature")
    if sourceinfo is not None and not isinstance(sourceinfo, str):
        raise wrong_type(sourceinfo, "a str, such as 'f at file.py:3'")
    static = frozenset(_positions(indices(static_argnums, "static_argnums"), len(args)))
    static_names = names_in(static_argnames, "static_argnames")
    dynamic = tuple(arg for i, arg in enumerate(args) if i not in static)
    named = {key: value for key, value in kwargs.items() if key not in static_names}
    return DebugInfo(
        traced_for,
        sourceinfo or str(TracedFunction(fun, traced_for)),
        tuple(leaf_names(signature, dynamic, named, static)),
        result_paths_thunk,
    )


def infer_argnums_and_argnames(
    sig: inspect.Signature,
    argnums: int | Iterable[int] | None,
    argnames: str | Iterable[str] | None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Numbers and names of the same parameters, where one of the two is given.

    >>> import inspect
    >>> from gpuarray.api_util import infer_argnums_and_argnames
    >>> infer_argnums_and_argnames(inspect.signature(lambda a, b, c: 0), 1, None)
    ((1,), ('b',))
    """
    nums = indices(argnums, "argnums") if argnums is not None else None
    names = names_in(argnames, "argnames") if argnames is not None else None
    # Only parameters that can be given both ways have a number and a name.
    both = [
        (i, p.name)
        for i, p in enumerate(sig.parameters.values())
        if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    # Both given: use them unchanged. Neither given: there is nothing to infer.
    if nums is None and names is not None:
        nums = tuple(i for i, name in both if name in names)
    elif names is None and nums is not None:
        names = tuple(name for i, name in both if i in nums)
    return nums or (), names or ()


__getattr__ = _explain_names(__name__)
