"""Functions whose batching rule the user writes: `custom_vmap`, `sequential_vmap`.

Floor 6. In: functions of pytrees and their rules. Out: callables that vmap maps by these rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray import lax
from gpuarray.control.custom_vmap import FlatRule, custom_vmap_call_p
from gpuarray.control.graph_edits import chosen, lifted, merged
from gpuarray.core.avals import aval_of
from gpuarray.core.tracebacks import boundary
from gpuarray.functions.argnums import signature_of
from gpuarray.functions.custom_rules import by_position, forwarded, positional_count
from gpuarray.pytree import tree
from gpuarray.transforms.tracing import TracedFunction, stage_aux
from gpuarray.util import name_of, update_wrapper


class custom_vmap:
    """A function with its own rule for vmap.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> @ga.custom_batching.custom_vmap
    ... def f(x, y):
    ...     return x @ y
    >>> @f.def_vmap
    ... def f_vmap(axis_size, in_batched, x, y):
    ...     x_batched, y_batched = in_batched
    ...     return gnp.einsum("bij,j->bi" if not y_batched else "bij,bj->bi", x, y), True
    >>> ga.vmap(f, in_axes=(0, None))(gnp.ones((3, 2, 2)), gnp.ones(2)).shape
    (3, 2)
    """

    def __init__(self, fun: Callable):
        if not callable(fun):
            raise TypeError(f"Expected a callable value, got {fun}")
        update_wrapper(self, fun)
        self.fun = fun
        self._signature = signature_of(fun)
        self._count = positional_count(self._signature)
        self.vmap_rule: Callable | None = None

    def __getattr__(self, name: str) -> Any:
        return forwarded(self, name)

    def def_vmap(self, vmap_rule: Callable) -> Callable:
        """Give the rule: `rule(axis_size, in_batched, *args) -> (output, out_batched)`; returns it.

        in_batched: for each argument, which of its leaves have an extra axis, in front
        out_batched: the same for the output, or one bool for a part of it
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    @boundary
    def __call__(self, *args, **kwargs):
        if self.vmap_rule is None:
            raise AttributeError(
                f"No batching rule defined for custom_vmap function {name_of(self.fun)} using "
                "def_vmap."
            )
        if len(args) != self._count or kwargs:
            # The rule gets all arguments by position; defaults, where some are given by name.
            given = by_position("custom_vmap", self.fun, self._signature, args, kwargs)
            args = given if kwargs else args
        leaves, in_spec = tree.flatten(args)

        def flat(*values):
            out, out_spec = tree.flatten(self.fun(*tree.unflatten(in_spec, values)))
            for x in out:
                aval_of(x)
            return out, out_spec

        # The function is traced immediately: the primitive needs a Graph for derivatives and for
        # jit.
        info = TracedFunction(self.fun, "custom_vmap")
        graph, out_spec = stage_aux(flat, [aval_of(x) for x in leaves], info)
        graph, consts = lifted(graph)
        rule = FlatRule(self.vmap_rule, self._flat_rule(len(consts), in_spec, out_spec))
        # Printed graphs show the structure of all operands, lifted constants first.
        lead = tree.structure([0] * len(consts))
        out = custom_vmap_call_p.bind(
            *consts,
            *leaves,
            call=graph,
            rule=rule,
            in_tree=tree.treedef_tuple((lead, in_spec)),
            out_tree=out_spec,
        )
        return tree.unflatten(out_spec, out)

    def _flat_rule(self, count: int, in_spec: Any, out_spec: Any) -> Callable:
        vmap_rule = self.vmap_rule
        assert vmap_rule is not None

        def rule(size: int, batched: Sequence[bool], values: Sequence) -> tuple[list, list]:
            # The rule's answer does not cover values that are not passed to it.
            if any(batched[:count]):
                raise ValueError(
                    f"the custom_vmap function {name_of(self.fun)} closes over a value that is "
                    "mapped: its rule knows of its arguments only, so make it one of them"
                )
            # The first values are those the function closed over.
            args = tree.unflatten(in_spec, values[count:])
            in_batched = list(tree.unflatten(in_spec, batched[count:]))
            pair = vmap_rule(size, in_batched, *args)
            if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
                raise TypeError(
                    f"the custom vmap rule ({name_of(vmap_rule)}) must return a pair (output, "
                    f"out_batched), got {pair}"
                )
            # One bool may apply to a whole subtree of the output.
            try:
                flags = tree.prefix_broadcast(pair[1], pair[0], name="out_batched")
            except ValueError:
                raise ValueError(
                    "structure of output value and output batching specification returned by "
                    f"custom vmap rule ({name_of(vmap_rule)}) do not match.\nOutput values: "
                    f"{tree.structure(pair[0])}\nBatching spec: {tree.structure(pair[1])}"
                ) from None
            out, spec = tree.flatten(pair[0])
            if spec != out_spec:
                raise ValueError(
                    f"structure of output returned by custom vmap rule ({name_of(vmap_rule)}) does "
                    "not match that of original custom-vmapped function.\n"
                    f"Original output: {out_spec}\nRule output: {spec}"
                )
            return out, [bool(f) for f in flags]

        return rule


def sequential_vmap(f: Callable) -> custom_vmap:
    """`f`, which vmap runs for one element after the other, in a loop.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> f = sequential_vmap(lambda x: gnp.sin(x))
    >>> ga.vmap(f)(gnp.zeros(3))
    Array([0., 0., 0.], dtype=float32)
    """
    made = custom_vmap(f)

    def rule(axis_size, in_batched, *args):
        # Only the batched leaves are mapped over; the others are the same for every element.
        leaves, spec = tree.flatten(args)
        flags = tree.flatten(tuple(in_batched))[0]
        mapped = chosen(leaves, flags)
        fixed = [x for x, b in zip(leaves, flags, strict=True) if not b]

        def one(values):
            return made(*tree.unflatten(spec, merged(flags, values, fixed)))

        out = lax.map(one, mapped)
        return out, tree.tree_map(lambda _: True, out)

    made.def_vmap(rule)
    return made
