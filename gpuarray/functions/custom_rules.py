"""Code shared by custom rules: symbolic zeros, positional arguments, checks.

Floor 6. In: user functions and their arguments. Out: flat ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.linear import Zero, is_zero, tangent_aval
from gpuarray.functions import argnums
from gpuarray.functions.argnums import indices
from gpuarray.primitives.linear import instantiate
from gpuarray.pytree import tree
from gpuarray.pytree.tree import tree_map
from gpuarray.runtime.host import from_host
from gpuarray.transforms.references import Ref
from gpuarray.util import Struct, name_of, update_wrapper


def check_rule(what: str, name: str, rule: Any) -> None:
    """TypeError where a derivative rule is no function."""
    if not callable(rule):
        raise TypeError(f"{what}: {name} must be a function, got {rule!r}")


class SymbolicZero:
    """A tangent or cotangent that is zero everywhere, as rules with `symbolic_zeros=True` see it.

    >>> import gpuarray.numpy as gnp
    >>> SymbolicZero.from_primal_value(gnp.ones(3)).shape
    (3,)
    """

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    @staticmethod
    def from_primal_value(x: Any) -> SymbolicZero:
        """The zero tangent of a value."""
        return SymbolicZero(tangent_aval(aval_of(x)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
        return self.aval.shape

    @property
    def dtype(self):
        """The element type."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    def __repr__(self) -> str:
        return "SymbolicZero"


class CustomVJPPrimal(Struct):
    """An argument of a forward rule with `symbolic_zeros=True`: its value, and whether its
    cotangent will be needed. In a pytree it is a leaf.
    """

    value: Any
    perturbed: bool


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of a pytree of values, as arrays or as SymbolicZeros.

    >>> import gpuarray.numpy as gnp
    >>> zero_from_primal(gnp.ones(2))
    Array([0., 0.], dtype=float32)
    """

    def zero(leaf):
        aval = tangent_aval(aval_of(leaf))
        if symbolic_zeros:
            return SymbolicZero(aval)
        # The zero of an integer is float0, which no Array holds: an integer zero in its place.
        made = instantiate(Zero(aval))
        return made if isinstance(made, np.ndarray) else leaf * 0

    return tree.tree_map(zero, val)


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values of a pytree of CustomVJPPrimals."""
    return tree_map(lambda p: p.value, tree)


# ---- shared by both kinds of rules ----


def positional_count(signature: inspect.Signature | None) -> int:
    """With how many positional arguments a call is complete; -1 if that depends."""
    if signature is None:
        return -1
    params = signature.parameters.values()
    plain = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in params)
    return len(params) if plain else -1


def by_position(
    kind: str, fun: Callable, signature: inspect.Signature | None, args: tuple, kwargs: dict
) -> tuple:
    """All arguments of a call by position, defaults included; `kind` names the decorator."""
    if signature is None:
        if kwargs:
            raise TypeError(f"{name_of(fun)} has no signature: give arguments by position")
        return args
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(_unresolved(kind, fun, signature) + str(error)) from None
    # A rule gets every argument, the defaulted ones too.
    bound.apply_defaults()
    # Those that can be given by name only, and are not, keep their defaults inside the function.
    named = [name for name in bound.kwargs if name in kwargs]
    if named:
        raise TypeError(
            _unresolved(kind, fun, signature) + "The following keyword arguments could not be "
            f"resolved to positions: {', '.join(named)}. It takes them by name only, and its rule "
            "gets arguments by position."
        )
    return bound.args


def _unresolved(kind: str, fun: Callable, signature: inspect.Signature) -> str:
    return (
        f"The input arguments to the {kind}-decorated function {name_of(fun)}{signature} could not "
        "be resolved to positional-only arguments. Binding failed with the error:\n"
    )


#: Methods that define rules: of functions with several kinds of rules, any layer has them.
_RULES = ("def_vmap", "defjvp", "defjvps", "defvjp", "def_transpose")


def forwarded(made: Any, name: str) -> Any:
    """A method that gives a rule, of the function that `made` decorates."""
    # One decorator may be applied to another; before `__init__` has run there is nothing to read.
    if name not in _RULES or "fun" not in vars(made):
        raise AttributeError(f"{type(made).__name__!r} object has no attribute {name!r}")
    return getattr(made.fun, name)


class CustomFunction:
    """A function, the arguments that are not differentiated, and calls by position."""

    kind = ""

    def __init__(
        self,
        fun: Callable,
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ):
        if not callable(fun):
            raise TypeError(f"Expected a callable value, got {fun}")
        # The wrapper shows the function's name, docstring and signature.
        update_wrapper(self, fun)  # pyright: ignore[reportArgumentType]
        self.fun = fun
        self._signature = argnums.signature_of(fun)
        self._count = positional_count(self._signature)
        nums = indices(nondiff_argnums, "nondiff_argnums")
        names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else nondiff_argnames
        if names and self._signature is not None:
            # Names become numbers once, so that calls look at positions only.
            known = list(self._signature.parameters)
            nums += tuple(known.index(n) for n in names)
        self.nondiff_argnums = nums

    def _positional(self, args: tuple, kwargs: dict) -> tuple:
        """All arguments by position, defaults included."""
        # The common case costs no binding of signatures.
        if len(args) == self._count and not kwargs:
            return args
        return by_position(self.kind, self.fun, self._signature, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return forwarded(self, name)

    def _split(self, args: tuple) -> tuple[frozenset[int], tuple, tuple]:
        """Which positions are not differentiated, their values in that order, and the others."""
        # Negative numbers count from the end of this call's arguments.
        nums = [n + len(args) if n < 0 else n for n in self.nondiff_argnums]
        for n in nums:
            if not 0 <= n < len(args):
                raise ValueError(
                    f"nondiff_argnums={self.nondiff_argnums} of {name_of(self.fun)} names argument "
                    f"{n}, but it was called with {len(args)} arguments"
                )
        fixed = frozenset(nums)
        return (
            fixed,
            tuple(args[n] for n in sorted(fixed)),
            tuple(a for i, a in enumerate(args) if i not in fixed),
        )

    def _whole(self, fixed: frozenset[int], static: tuple, dynamic: Sequence) -> list:
        """All arguments in order again."""
        a, b = iter(static), iter(dynamic)
        return [next(a if i in fixed else b) for i in range(len(static) + len(dynamic))]


class _Text(str):
    """Text that is shown without quotation marks."""

    __slots__ = ()
    __repr__ = str.__str__


class Results:
    """The structure of a function's result, as its calls and its rule find it."""

    def __init__(self):
        self.of_fun: Any = None
        self.of_rule: Any = None
        #: Types of the leaves of the function's result, without the axes of mapped values.
        self.avals: list[ShapedArray] = []
        #: Unflattens the residuals that the forward rule of a vjp returned last.
        self.residuals: Callable[[list], Any]

    def note(self, out: Any) -> list:
        """Take the function's result; return its leaves."""
        leaves, self.of_fun = flatten_outputs(out)
        self.avals = [aval_of(x) for x in leaves]
        return leaves

    def check(self, out: list, spec: Any, must: str, rule: str, fun: str) -> None:
        """TypeError where a rule's primal output is not like the function's result, if known.

        Parameters
        ----------
        must :
            The required output of the rule, with a pair of braces for the part that must agree.
        """
        # The function may not have run: under jvp only the rule does.
        if self.of_fun is None:
            return
        kind = "custom_vjp" if rule == "fwd" else "custom_jvp"
        text = lambda spec, avals: tree.unflatten(spec, [_Text(a.str_short()) for a in avals])
        avals = [aval_of(x) for x in out]
        if spec != self.of_fun:
            what = "container/pytree structure"
            must = must.replace("{}", "of the same container/pytree structure")
        elif any((a.shape, a.dtype) != (b.shape, b.dtype) for a, b in zip(avals, self.avals)):
            what = "shapes/dtypes of"
            must = must.replace("{}", "with leaves of the same shape/dtype")
        else:
            return
        raise TypeError(
            f"{must}, but instead the {rule} rule output's first element had {what}:\n"
            f"    {text(spec, avals)}\nwhile the {kind}-decorated function {fun} had output "
            f"{what}:\n    {text(self.of_fun, self.avals)}."
        )

    @property
    def spec(self) -> Any:
        return self.of_rule if self.of_fun is None else self.of_fun


def operands(args: Any) -> tuple[Any, list, Any]:
    """Arguments with Arrays in the place of NumPy arrays, their leaves and structure."""
    leaves, spec = tree.flatten(args)
    for x in leaves:
        aval_of(x)  # raises for values that are not arrays
    if any(isinstance(x, np.ndarray) for x in leaves):
        leaves = [traces.immutable(x) for x in leaves]
        # The function must see the same values as transformations.
        args = tree.unflatten(spec, leaves)
    return args, leaves, spec


def flatten_outputs(out: Any, what: str = "function with a custom rule") -> tuple[list, Any]:
    """The leaves and structure of a result; messages name `what` as its origin."""
    leaves, spec = tree.flatten(out)
    for x in leaves:
        if isinstance(x, Ref):
            raise ValueError(
                f"the {what} returned a mutable array reference of type {x.type}, but references "
                "cannot be returned. Return its value, ref[...]"
            )
        aval_of(x)  # raises for values that are not arrays
    return [traces.immutable(x) for x in leaves], spec


def to_symbolic(x: Any) -> Any:
    return SymbolicZero(x.aval) if is_zero(x) else as_array(x)


def as_array(x: Any) -> Any:
    """A (co)tangent as rules may expect it: with the attributes of an array."""
    x = instantiate(x)
    # Rules may read .shape and .dtype, which Python scalars do not have.
    return from_host(x) if isinstance(x, (bool, int, float, complex)) else x


def from_symbolic(x: Any) -> Any:
    """A rule's (co)tangent as transformations take it."""
    if isinstance(x, SymbolicZero):
        return Zero(x.aval)
    # A rule's result for an integer argument.
    if isinstance(x, np.ndarray) and x.dtype == dtypes.float0:
        return Zero(ShapedArray(x.shape, dtypes.float0))
    return x
