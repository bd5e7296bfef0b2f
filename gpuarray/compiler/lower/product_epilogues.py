"""Products fused with elementwise epilogues: one library call instead of two steps.

Floor 3. In: the steps of a device, producers inlined. Out: the same, where a group that computes
only what a library can do to a product before writing it (a rule of the product's primitive) is one
step with the product. A group that does more stays a kernel: its bytes move either way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from gpuarray.compiler.fuse.group import FusedGroup, Inner, Load, Operand, Step
from gpuarray.compiler.fuse.merge import view_order
from gpuarray.compiler.lower.steps import step_inputs
from gpuarray.core.graph import Atom, Eqn, Graph, Literal, Var
from gpuarray.core.rewrite import Epilogue, Extents


def fuse_product_epilogues(graph: Graph, steps: list[Step]) -> list[Step]:
    """Merge products and their only readers, if a library does both."""
    products = {
        s.outvars[0]: s for s in steps if isinstance(s, Eqn) and s.primitive.rewrite.product
    }
    if not products:
        return steps
    place = {v: k for k, v in enumerate(products)}
    readers = Counter(v for s in steps for v in dict.fromkeys(step_inputs(s)))
    readers.update(a for a in graph.outvars if isinstance(a, Var))
    gone: set[int] = set()
    made: list[Step] = []
    for step in steps:
        found = None
        if isinstance(step, FusedGroup):
            # A product that another step reads, too, has to be materialised. Of two products that
            # are added, one is an operand of the other.
            mine = [v for v in step.inputs if v in products and readers[v] == 1]
            for v in sorted(mine, key=place.__getitem__, reverse=True):
                found = _joined(products[v], step)
                if found is not None:
                    gone.add(id(products[v]))
                    break
        made.append(step if found is None else found)
    return [s for s in made if id(s) not in gone] if gone else steps


def _joined(product: Eqn, group: FusedGroup) -> Eqn | None:
    """The product with the group as its epilogue; None if no library does that."""
    rules = product.primitive.rewrite.product
    assert rules is not None
    if not group.is_fused or group.reduced or group.has_flow or group.inlined:
        return None
    if len(group.outputs) != 1 or len(group.inputs) > 3:
        return None
    (out,) = group.outputs
    whole = group.made[out].dims
    # The result has the elements of the product, in its order.
    if out.aval.shape != product.outvars[0].aval.shape:
        return None
    sizes, extents = (len(group.members), len(group.inputs)), rules.extents(product)
    for epilogue in rules.epilogues(product):
        formula = epilogue.formula
        if (len(formula.eqns), len(formula.invars)) != sizes:
            continue
        match = _Match(group, epilogue, product.outvars[0], whole, extents)
        if match.is_whole(out):
            return epilogue.joined(product, match.operands, out)
    return None


class _Match:
    """The comparison of a group with a formula."""

    def __init__(
        self,
        group: FusedGroup,
        epilogue: Epilogue,
        product: Var,
        whole: tuple[int | None, ...],
        extents: Extents,
    ):
        self.group, self.epilogue, self.product, self.whole = group, epilogue, product, whole
        # The axes of the result that are its columns: the last ones.
        self.columns = whole[len(whole) - len(extents.columns) :]
        self.count = math.prod(extents.columns)
        formula = epilogue.formula
        self.like_product = formula.invars[len(formula.invars) - epilogue.whole :]
        self.makers = {e.outvars[0]: e for e in formula.eqns}
        self.bound: dict[Var, Var] = {}

    @property
    def operands(self) -> list[Var]:
        """The values of the formula's operands after the product."""
        return [self.bound[v] for v in self.epilogue.formula.invars[1:]]

    def is_whole(self, out: Var) -> bool:
        """Whether a result of the group, of as many operations as the formula, is the formula."""
        order = tuple(range(out.aval.ndim))
        return self._is(Inner(out, order), self.epilogue.formula.outvars[0])

    def _is(self, operand: Operand, wanted: Atom) -> bool:
        if isinstance(operand, Literal):
            return isinstance(wanted, Literal) and wanted.key[:2] == operand.key[:2]
        if isinstance(wanted, Literal):
            return False
        if isinstance(operand, Load):
            return wanted not in self.makers and self._is_input(operand, wanted)
        made, eqn = self.makers.get(wanted), self.group.made[operand.var].eqn
        if made is None or operand.order != tuple(range(len(self.whole))):
            return False
        if eqn.primitive is not made.primitive or eqn.params != made.params:
            return False
        operands = self.group.made[operand.var].operands
        if self._are(operands, made.invars):
            return True
        return made.primitive in self.epilogue.either_way and self._are(operands[::-1], made.invars)

    def _are(self, operands: Sequence[Operand], wanted: Sequence[Atom]) -> bool:
        before = dict(self.bound)
        if all(map(self._is, operands, wanted)):
            return True
        self.bound = before
        return False

    def _is_input(self, load: Load, wanted: Var) -> bool:
        """Whether an input is the product, or a further operand with the right layout."""
        if self.bound.setdefault(wanted, load.source) != load.source:
            return False
        if load.source is self.product:
            return wanted is self.epilogue.formula.invars[0] and self._is_product(load)
        if wanted is self.epilogue.formula.invars[0]:
            return False
        if wanted in self.like_product:
            return self._is_product(load) and load.source.aval.dtype == self.product.aval.dtype
        aval, order = load.source.aval, view_order(load.views, load.source.aval.ndim)
        if order is None or aval.size != self.count or aval.dtype != self.product.aval.dtype:
            return False
        # Its axes, in order, are those of the columns; others have length 1 or are repeated.
        shown = [(o, d) for o, d in zip(order, load.dims, strict=True) if o is not None]
        shown = [(o, d) for o, d in shown if aval.shape[o] != 1]
        places = [o for o, _ in shown]
        labels = [d for _, d in shown]
        return places == sorted(places) and labels == [d for d in self.columns if d is not None]

    def _is_product(self, load: Load) -> bool:
        return not load.views and load.dims == self.whole
