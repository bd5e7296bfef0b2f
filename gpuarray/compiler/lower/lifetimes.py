"""Whose memory the values between steps are in, and until when it is read.

Floor 3. In: the steps of a plan or of a routine, which of them are views, and which results have
separate memory. Out: for every value the one whose memory it shares, the last step that reads it,
and whether a step made it: which values may be overwritten, freed, or returned as the caller's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from gpuarray.compiler.lower.kernel import DeviceStep
from gpuarray.compiler.lower.steps import step_inputs
from gpuarray.core.graph import Atom, Eqn, Var


class Lifetimes:
    """Where the memory of values comes from and how long it is needed.

    Parameters
    ----------
    results :
        The values that are read after all steps.
    is_view :
        Whether the results of an equation are in the memory of the operands at their places.
    own :
        The numbers of the results for which an equation other than a view allocates memory. Others
        may be operands that are returned, as the carry of a loop without iterations is.
    later :
        The steps until which exchanges in progress read their operands.

    Attributes
    ----------
    last :
        The last step that reads each value's memory; results are read after all steps. Without
        unread values.
    owned :
        Values whose memory the steps make: no other value but views of them is in it.
    """

    def __init__(
        self,
        results: Sequence[Atom],
        steps: Sequence[DeviceStep],
        is_view: Callable[[Eqn], bool],
        own: Callable[[Eqn], Collection[int]],
        later: Mapping[Var, int] | None = None,
    ):
        self._results = results
        self._viewed: dict[Var, Var] = {}  # a view -> its operand
        passed_on: dict[int, list[Var]] = {}  # step -> results that may be its operands
        self.owned: set[Var] = set()
        for i, step in enumerate(steps):
            if not isinstance(step, Eqn):
                self.owned.update(step.outputs)
            elif is_view(step):
                pairs = zip(step.outvars, step.invars)
                self._viewed.update((v, a) for v, a in pairs if isinstance(a, Var))
            else:
                made = own(step)
                self.owned.update(step.outvars[k] for k in made)
                if len(made) < len(step.outvars):
                    passed_on[i] = [v for k, v in enumerate(step.outvars) if k not in made]
        self.last = {self.root(a): len(steps) for a in results if isinstance(a, Var)}
        # In reverse, so that the lifetime of a returned operand is known before that of its own
        # operands.
        for i in range(len(steps) - 1, -1, -1):
            step = steps[i]
            if isinstance(step, Eqn) and step.outvars and step.outvars[0] in self._viewed:
                continue
            # An operand that is passed on as a result lives as long as that.
            end = max((self.last.get(v, i) for v in passed_on.get(i, ())), default=i)
            for v in map(self.root, step_inputs(step)):
                self.last[v] = max(self.last.get(v, i), end)
        for v, i in (later or {}).items():
            v = self.root(v)
            self.last[v] = max(self.last.get(v, i), i)

    def root(self, v: Var) -> Var:
        """Return the value whose memory this one is part of."""
        while v in self._viewed:
            v = self._viewed[v]
        return v

    def is_whole(self, v: Var) -> bool:
        """Return whether a value is all of the memory that it is in: no view of a part of it."""
        return self.root(v).aval.nbytes == v.aval.nbytes

    def fresh_outputs(self) -> frozenset[int]:
        """Return the numbers of results whose memory was made by the steps and is not shared with
        another result.
        """
        # Two results that share memory cannot both be returned as the caller's own.
        roots = [self.root(a) if isinstance(a, Var) else None for a in self._results]
        return frozenset(i for i, v in enumerate(roots) if v in self.owned and roots.count(v) == 1)
