"""Users' own operations and types, built from arrays: `HiPrimitive`, `VJPHiPrimitive`, `HiType`.

Floor 6. In: classes that define operations in terms of arrays. Out: operations that all
transformations know. Values of such types are Python objects here: operations on them run
immediately, and inside a transformation if the type is not mutable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from gpuarray.core import trace as traces
from gpuarray.core.avals import aval_of
from gpuarray.core.primitive import BY_PARTS
from gpuarray.custom_derivatives import custom_vjp
from gpuarray.extend.core import AbstractValue as AbstractValue
from gpuarray.extend.core import Effect, Primitive
from gpuarray.extend.core import ShapedArray as ShapedArray
from gpuarray.functions.vmap import vmap
from gpuarray.interpreters import ad, batching, mlir
from gpuarray.interpreters.ad import Zero as Zero
from gpuarray.interpreters.ad import instantiate_zeros as instantiate_zeros
from gpuarray.interpreters.ad import is_undefined_primal as is_undefined_primal
from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree
from gpuarray.transforms.references import AbstractRef as AbstractRef
from gpuarray.transforms.references import RefView as TransformedRef

__all__ = [
    "AbstractRef",
    "AbstractValue",
    "AvalMutableQDD",
    "AvalQDD",
    "HiPrimitive",
    "HiType",
    "MutableHiType",
    "ShapedArray",
    "TransformedRef",
    "VJPHiPrimitive",
    "Zero",
    "aval_method",
    "aval_property",
    "control_flow_allowed_effects",
    "instantiate_zeros",
    "is_undefined_primal",
    "register_hitype",
]

#: The function that gives the type of a value, by the value's class.
_types: dict[type, Callable[[Any], Any]] = {}


class HiType:
    """Base class of types whose values consist of arrays.

    `lo_ty()` gives their avals, `lower_val(value)` the arrays, `raise_val(*arrays)` the value.
    """

    __slots__ = ()
    has_qdd = False

    def lo_ty(self) -> list[ShapedArray]:
        raise _must_override(self, "lo_ty")

    def lower_val(self, hi_val: Any) -> list[Any]:
        raise _must_override(self, "lower_val")

    def raise_val(self, *lo_vals: Any) -> Any:
        raise _must_override(self, "raise_val")

    def to_tangent_aval(self) -> HiType:
        raise _must_override(self, "to_tangent_aval")


class MutableHiType(HiType):
    """Base of types whose values change; operations on them run immediately."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True)
class AvalQDD:
    """A type, with the state of a value of it at one place of a program."""

    aval: Any
    qdd: Any
    is_high = has_qdd = True


@dataclasses.dataclass(frozen=True)
class AvalMutableQDD:
    """A type, with the mutable state of a value of it."""

    aval: Any
    mutable_qdd: Any


@dataclasses.dataclass(frozen=True)
class aval_property:
    """A property of values that their type answers: `fget(value)`."""

    fget: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class aval_method:
    """A method of values that their type answers: `fun(value, *args)`."""

    fun: Callable[..., Any]


class _EffectTypes:
    """A set of effect classes; it contains the instances of those classes."""

    def __init__(self):
        self._kinds: set[type[Effect]] = set()

    def add_type(self, effect_type: type[Effect]) -> None:
        self._kinds.add(effect_type)

    def contains(self, effect: Effect) -> bool:
        return isinstance(effect, tuple(self._kinds))

    def __iter__(self) -> Iterator[type[Effect]]:
        return iter(self._kinds)


#: Effects that the bodies of loops and branches may have: here any.
control_flow_allowed_effects = _EffectTypes()


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Register a class whose values consist of arrays: `typeof_fn(value)` is their HiType."""
    _types[val_cls] = typeof_fn


def _type_of(x: Any) -> Any:
    found = _types.get(type(x))
    return None if found is None else found(x)


class HiPrimitive(Primitive):
    """An operation that a subclass defines by methods.

    `abstract_eval(*avals, **params)` gives the aval and the effects, `to_lojax(*values, **params)`
    the result in terms of other operations; `jvp(primals, tangents, **params)` and
    `transpose(ct, *args, **params)` where derivatives are not those of `to_lojax`. With
    `multiple_results = True` results are lists.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental.hijax import HiPrimitive
    >>> class Square(HiPrimitive):
    ...     def abstract_eval(self, aval):
    ...         return aval, set()
    ...     def to_lojax(self, x):
    ...         return x * x
    >>> square = Square("square").bind
    >>> ga.jit(square)(3.0), ga.grad(square)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """

    multiple_results = False

    def __init__(self, name: str):
        # The initialiser of Primitive would set its own default.
        multiple = type(self).multiple_results
        super().__init__(name)
        self.multiple_results = multiple
        self.def_abstract_eval(lambda *avals, **params: self.abstract_eval(*avals, **params)[0])
        mlir.register_lowering(self, mlir.lower_fun(self.to_lojax, multiple))
        # Only if the subclass defines its own rules; otherwise those of `to_lojax` apply.
        kind: Any = type(self)
        if hasattr(kind, "jvp"):
            ad.primitive_jvps[self] = kind.jvp.__get__(self)
        else:
            self.jvp = BY_PARTS
            batching.fancy_primitive_batchers[self] = self._batch
        if hasattr(kind, "transpose"):
            ad.primitive_transposes[self] = kind.transpose.__get__(self)

    def _batch(self, axis: Any, args: tuple, dims: tuple, **params: Any) -> tuple[Any, Any]:
        """The batching rule of the operations in `to_lojax`."""
        one = lambda *values: self.to_lojax(*values, **params)
        out = vmap(one, dims, axis_name=axis.name, axis_size=axis.size)(*args)
        return out, [0] * len(out) if self.multiple_results else 0

    def abstract_eval(self, *arg_avals: Any, **params: Any) -> tuple[Any, Any]:
        """The aval of the result, or avals of results, and the effects."""
        raise _must_override(self, "abstract_eval")

    def to_lojax(self, *values: Any, **params: Any) -> Any:
        """The result in terms of other operations."""
        raise _must_override(self, "to_lojax")

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation to arrays, or to values of registered types."""
        types = [found for x in args if (found := _type_of(x)) is not None]
        if not types and not self._makes_high(args, params):
            return super().bind(*args, **params)
        # A mutable value would keep tracers alive after the trace.
        if not traces.is_base() and any(isinstance(t, MutableHiType) for t in types):
            raise TypeError(
                f"{self.name} on a mutable value of {types[0]} inside of a transformation: values "
                "of such types are Python objects here. Take the arrays out of it before, and put "
                "them back after."
            )
        # Values of registered types are Python objects: the operation runs on them now, and the
        # operations on their arrays are traced as usual.
        run = self.to_lojax if self.impl is None else self.impl
        return run(*args, **params)

    def _makes_high(self, args: tuple, params: dict) -> bool:
        """Whether an operation of arrays gives a value of a registered type."""
        found = self.abstract_eval(*map(aval_of, args), **params)[0]
        return isinstance(found, (HiType, AvalQDD))


class VJPHiPrimitive:
    """An operation on pytrees of arrays with a custom derivative, as a callable object.

    A subclass's `__init__` sets `in_avals`, `out_aval` and `params`, and calls this one. It defines
    `expand(*args)`, the result in terms of other operations; for derivatives `vjp_fwd(nonzero,
    *args)`, which gives the result and residuals, and `vjp_bwd_retval(residuals, ct)`.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental.hijax import VJPHiPrimitive
    >>> class Cube(VJPHiPrimitive):
    ...     def __init__(self, aval):
    ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
    ...         super().__init__()
    ...     def expand(self, x):
    ...         return x**3
    ...     def vjp_fwd(self, nonzero, x):
    ...         return self(x), x
    ...     def vjp_bwd_retval(self, x, ct):
    ...         return (3 * x**2 * ct,)
    >>> ga.grad(lambda x: Cube(ga.typeof(x))(x))(2.0)
    Array(12., dtype=float32, weak_type=True)
    """

    in_avals: tuple
    out_aval: Any
    params: dict[str, Any]

    def __init__(self):
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(f"subclass __init__ should set `self.{name}`")
        self.__dict__.update(self.params)
        self._avals, self._tree = tree.tree_flatten(self.in_avals)
        # The class is a function with a custom rule, written as methods.
        derived = custom_vjp(lambda *args: self.expand(*args))
        nonzero = tree.tree_map(lambda _: True, self.in_avals)
        derived.defvjp(
            lambda *args: self.vjp_fwd(nonzero, *args),
            lambda res, ct: tuple(self.vjp_bwd_retval(res, ct)),
        )
        self._derived = derived

    def expand(self, *args: Any) -> Any:
        """The result in terms of other operations."""
        raise _must_override(self, "expand")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> tuple[Any, Any]:
        """The result and the residuals; `nzs_in` tells for each operand whether its derivative is
        wanted, here True for all.
        """
        raise _must_override(self, "vjp_fwd")

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """A cotangent for each operand."""
        raise _must_override(self, "vjp_bwd_retval")

    def __call__(self, *args: Any) -> Any:
        """Apply the operation to operands of the types it was made for."""
        leaves, structure = tree.tree_flatten(args)
        given = [aval_of(x) for x in leaves]
        if structure != self._tree or any(
            (a.shape, a.dtype) != (b.shape, b.dtype) for a, b in zip(given, self._avals)
        ):
            raise TypeError(
                f"{type(self).__name__} was made for operands of type {self.in_avals}, got {given}"
            )
        return self._derived(*args)


def _must_override(x: Any, method: str) -> TypeError:
    return TypeError(f"{type(x).__name__} must define the method {method}, which is needed here")


__getattr__ = _explain_names(__name__)
