"""`custom_partitioning`: a function with a custom rule for sharded arguments.

Floor 6. In: a function, and either the correspondence of its axes or each device's computation.
Out: the function; in `jit` over several devices each runs the rule's function on its pieces.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuarray import errors
from gpuarray.control.custom_partitioning import custom_partitioning_p as custom_partitioning_p
from gpuarray.control.shard_map import axes_inside, piece_aval
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.factors import Factors
from gpuarray.core.flow import ByDevice, ByRule
from gpuarray.core.graph import Eqn
from gpuarray.core.mesh import NamedSharding, PartitionSpec
from gpuarray.core.sharding_rule import BATCHING as BATCHING
from gpuarray.core.sharding_rule import ArrayMapping as ArrayMapping
from gpuarray.core.sharding_rule import CompoundFactor as CompoundFactor
from gpuarray.core.sharding_rule import SdyShardingRule, parse_rule
from gpuarray.core.tracebacks import boundary
from gpuarray.functions import argnums
from gpuarray.functions.stages import ShapeDtypeStruct
from gpuarray.pytree import tree
from gpuarray.transforms.tracing import TracedFunction, stage, stage_aux
from gpuarray.util import update_wrapper

__all__ = ["BATCHING", "ArrayMapping", "CompoundFactor", "SdyShardingRule", "custom_partitioning"]


class custom_partitioning:
    """A function with a custom rule for sharded arguments.

    In `jit`, the function is traced for whole arguments; `def_partition` defines what each device
    computes from its pieces. Outside `jit` the function is called unchanged.

    Parameters
    ----------
    fun :
        The function of whole arguments.
    static_argnums :
        Arguments that are Python values: the rule's functions get them first.

    Examples
    --------

    Norms of rows, which need whole rows:

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental.custom_partitioning import custom_partitioning
    >>> @custom_partitioning
    ... def norms(x):
    ...     return gnp.sqrt((x * x).sum(-1))
    >>> def partition(mesh, arg_shapes, result_shape):
    ...     return mesh, norms.fun, result_shape.sharding, (arg_shapes[0].sharding,)
    >>> norms.def_partition(
    ...     partition, sharding_rule="... i -> ...", need_replication_factors=("i",)
    ... )
    >>> ga.jit(norms)(gnp.ones((2, 4)))
    Array([2., 2.], dtype=float32)
    """

    def __init__(self, fun: Callable, static_argnums: int | Sequence[int] = ()):
        if not callable(fun):
            raise TypeError(f"Expected a callable value, got {fun}")
        update_wrapper(self, fun)  # pyright: ignore[reportArgumentType]
        self.fun = fun
        self._name = getattr(fun, "__name__", repr(fun))
        self.static_argnums = argnums.indices(static_argnums, "static_argnums")
        self._signature = argnums.signature_of(fun)
        self._rule: _Rule | None = None

    def def_partition(
        self,
        partition: Callable,
        infer_sharding_from_operands: Callable | None = None,
        propagate_user_sharding: Callable | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        *,
        reduction_factors: Sequence[str] = (),
        need_replication_factors: Sequence[str] = (),
        permutation_factors: Sequence[str] = (),
        **factor_sizes: int,
    ) -> None:
        """Set the rule for sharded arguments.

        Parameters
        ----------
        partition : (mesh, arg_shapes, result_shape) -> (mesh, lower, result_shardings, shardings)
            The program of each device. Shapes are `ShapeDtypeStruct`s of the whole, with the
            shardings that were found; the function may return others, and arguments are resharded
            to them. `lower` is a function of pieces; collectives in it name axes of the mesh.
        infer_sharding_from_operands : (mesh, arg_shapes, result_shape) -> shardings of the results
            The sharding of results, if there is no `sharding_rule`. By default they are replicated.
        propagate_user_sharding :
            Accepted for compatibility: the rule determines the shardings that readers prefer.
        decode_shardings :
            Taken for compatibility: shardings are always NamedSharding.
        sharding_rule :
            How axes correspond, such as "i k, k j -> i j": axes of one name are sharded alike; `(i
            j)` is an axis of two factors, `...` any leading axes. Or an `SdyShardingRule`, or a
            function (mesh, arg_shapes, result_shape) that returns either.
        reduction_factors :
            Factors that no result has: where they are cut, `lower` adds up the shares.
        need_replication_factors :
            Factors that are never cut.
        permutation_factors :
            Factors along which `lower` passes elements on, where they are cut.
        factor_sizes :
            Lengths of factors that only `(i j)` has.
        """
        for name, function, needed in (
            ("partition", partition, True),
            ("infer_sharding_from_operands", infer_sharding_from_operands, False),
            ("propagate_user_sharding", propagate_user_sharding, False),
        ):
            if not callable(function) and (needed or function is not None):
                raise TypeError(f"def_partition: {name} must be a function, got {function!r}")
        options: dict[str, Any] = {
            "reduction_factors": tuple(reduction_factors),
            "need_replication_factors": tuple(need_replication_factors),
            "permutation_factors": tuple(permutation_factors),
        }
        options = {name: names for name, names in options.items() if names} | factor_sizes
        if sharding_rule is not None and not callable(sharding_rule):
            sharding_rule = _as_rule(sharding_rule, options)
        self._rule = _Rule(
            partition,
            infer_sharding_from_operands,
            propagate_user_sharding,
            decode_shardings,
            sharding_rule,
            tuple(sorted(options.items())),
        )

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._rule is None:
            raise AttributeError(
                f"custom_partitioning function {self._name} has no rule: give one by def_partition"
            )
        args = self._positional(args, kwargs)
        # Static arguments are identified by position; negative numbers count from the end.
        fixed = frozenset(n % len(args) for n in self.static_argnums)
        static = tuple(args[n] for n in sorted(fixed))
        dynamic = tuple(x for i, x in enumerate(args) if i not in fixed)
        leaves, in_spec = tree.flatten(dynamic)
        # Outside a program there is nothing to partition.
        if traces.is_base() and not any(isinstance(x, traces.Tracer) for x in leaves):
            return self.fun(*args)

        def flat(*values: Any) -> tuple[list, Any]:
            kept, given = iter(static), iter(tree.unflatten(in_spec, values))
            # Static arguments go back to their places among the others.
            whole = [next(kept if i in fixed else given) for i in range(len(args))]
            return tree.flatten(self.fun(*whole))

        info = TracedFunction(self.fun, "custom_partitioning")
        # Traced for whole arguments: this defines the call, and runs on one device.
        graph, out_spec = stage_aux(flat, [aval_of(x) for x in leaves], info)
        if any(isinstance(c, traces.Tracer) for c in graph.consts):
            raise errors.UnexpectedTracerError(
                f"the custom_partitioning function {self._name} closes over a traced value: "
                "pass it as an argument"
            )
        by = _Bound(self._rule, in_spec, out_spec, static)
        return tree.unflatten(out_spec, custom_partitioning_p.bind(*leaves, call=graph, by=by))

    def _positional(self, args: tuple, kwargs: dict) -> tuple:
        if self._signature is None:
            if kwargs:
                raise TypeError(f"{self._name} has no signature: give arguments by position")
            return args
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                "keyword arguments could not be resolved to positions: "
                f"{', '.join(bound.kwargs)} of {self._name} can be given by name only"
            )
        return bound.args


class _Rule(NamedTuple):
    """The arguments of `def_partition`."""

    partition: Callable
    infer_sharding_from_operands: Callable | None
    propagate_user_sharding: Callable | None
    decode_shardings: bool
    sharding_rule: Any
    options: tuple


class _Bound(NamedTuple):
    """A rule with the structure of the current call."""

    rule: _Rule
    in_spec: Any
    out_spec: Any
    static: tuple

    def shown(self) -> dict:
        """Return the params that printed programs show."""
        shown = self.rule._asdict()
        del shown["options"]
        trees = {"in_tree": tree.from_raw(self.in_spec), "out_tree": tree.from_raw(self.out_spec)}
        return shown | trees | {"static_args": self.static}

    def flow(self, eqn: Eqn) -> ByRule:
        """Return how an equation is evaluated on pieces."""
        avals, outs = [a.aval for a in eqn.invars], [v.aval for v in eqn.outvars]
        by_device = functools.partial(self._by_device, avals, outs)
        factors = results = None
        # A rule of factors also determines how readers shard results. Without one, only shardings
        # of operands are used.
        if self.rule.sharding_rule is not None:
            factors = functools.partial(self._factors, avals, outs)
        elif self.rule.infer_sharding_from_operands is not None:
            results = functools.partial(self._inferred, avals, outs)
        return ByRule(factors, results, by_device)

    def _factors(self, avals, outs, mesh: Any) -> Factors:
        given = self.rule.sharding_rule
        if callable(given):
            shapes = self._shapes(avals, outs)
            given = _as_rule(given(*self.static, mesh, *shapes), dict(self.rule.options))
        return given.factors(avals, outs)

    def _shapes(
        self,
        avals: Sequence[ShapedArray],
        outs: Sequence[ShapedArray],
        in_shardings: Sequence[Any] | None = None,
        out_shardings: Sequence[Any] | None = None,
    ) -> tuple[Any, Any]:
        """Return arguments and results as ShapeDtypeStructs, in their structures."""

        def structs(of: Sequence[ShapedArray], shardings: Sequence[Any] | None) -> list:
            laid = shardings or [None] * len(of)
            return [
                ShapeDtypeStruct(a.shape, a.dtype, sharding=_full(s, a), weak_type=a.weak_type)
                for a, s in zip(of, laid, strict=True)
            ]

        return (
            tree.unflatten(self.in_spec, structs(avals, in_shardings)),
            tree.unflatten(self.out_spec, structs(outs, out_shardings)),
        )

    def _inferred(self, avals, outs, mesh: Any, in_shardings: Sequence[NamedSharding]) -> list:
        assert self.rule.infer_sharding_from_operands is not None
        shapes = self._shapes(avals, outs, in_shardings)
        found = self.rule.infer_sharding_from_operands(*self.static, mesh, *shapes)
        return _shardings(found, self.out_spec, "infer_sharding_from_operands", mesh)

    def _by_device(self, avals, outs, mesh: Any, in_shardings, out_shardings) -> ByDevice:
        """Return the Graph of one device, and its shardings, as `partition` determines."""
        shapes = self._shapes(avals, outs, in_shardings, out_shardings)
        found = self.rule.partition(*self.static, mesh, *shapes)
        if not isinstance(found, tuple) or len(found) != 4:
            raise ValueError(
                "partition of custom_partitioning must return (mesh, lower_fn, result_shardings, "
                f"arg_shardings), got {found!r}"
            )
        mesh, lower, result_shardings, arg_shardings = found
        ins = _shardings(arg_shardings, self.in_spec, "partition for arguments", mesh)
        outs_laid = _shardings(result_shardings, self.out_spec, "partition for results", mesh)
        names = frozenset(mesh.axis_names)
        in_specs, out_specs = ([s.spec for s in some] for some in (ins, outs_laid))
        for aval, sharding in (*zip(avals, ins, strict=True), *zip(outs, outs_laid, strict=True)):
            sharding.shard_shape(aval.shape)  # raises where it does not fit
        # The device's function is traced for its pieces, within a shard_map over all axes.
        pieces = [
            piece_aval(a, s, mesh, names, False) for a, s in zip(avals, in_specs, strict=True)
        ]

        def flat(*values: Any) -> list:
            return tree.flatten(lower(*tree.unflatten(self.in_spec, values)))[0]

        with axes_inside(mesh, names, False):
            body = stage(flat, pieces, TracedFunction(lower, "custom_partitioning"))
        wanted = [
            piece_aval(a, s, mesh, names, False) for a, s in zip(outs, out_specs, strict=True)
        ]
        # The resulting pieces must match those of the declared shardings.
        types = [[(a.shape, a.dtype) for a in some] for some in (body.out_avals, wanted)]
        if types[0] != types[1]:
            got, need = ([a.str_short() for a in some] for some in (body.out_avals, wanted))
            raise ValueError(
                f"Mismatch in result shapes. {got} vs {need}: the function of pieces that "
                "partition returned gives the first, and its result_shardings need the second"
            )
        return ByDevice(body, mesh, tuple(in_specs), tuple(out_specs))


def _full(sharding: NamedSharding | None, aval: ShapedArray) -> NamedSharding | None:
    """Return a sharding whose spec has an entry for every axis, so that rules may index it."""
    if sharding is None:
        return None
    # A spec may leave out axes at its end that are not cut.
    parts = tuple(sharding.spec)
    return sharding.update(spec=PartitionSpec(*parts, *[None] * (aval.ndim - len(parts))))


def _as_rule(given: Any, options: dict[str, Any]) -> SdyShardingRule:
    """Return a rule from a text and its options, or the rule that was given."""
    if isinstance(given, SdyShardingRule):
        if options:
            raise ValueError(
                f"Unknown keyword arguments: {options}: an SdyShardingRule has its own"
            )
        return given
    return parse_rule(given, **options)


def _shardings(given: Any, spec: Any, what: str, mesh: Any) -> list[NamedSharding]:
    """Return the leaves of shardings in a structure, each over this mesh."""
    leaves, found = tree.flatten(given)
    if found != spec:
        raise ValueError(
            f"{what} of custom_partitioning returned shardings of structure "
            f"{tree.from_raw(found)}, which must be {tree.from_raw(spec)}"
        )
    for leaf in leaves:
        if not isinstance(leaf, NamedSharding):
            raise TypeError(
                f"{what} of custom_partitioning must return NamedShardings, got {leaf!r}"
            )
        if leaf.mesh != mesh:
            raise ValueError(
                f"{what} of custom_partitioning returned a sharding over {leaf.mesh}; all must be "
                f"over the mesh that it returns, {mesh}"
            )
    return leaves
