"""Folds: how elements are combined to one, for reductions, cumulative operations and windows.

Floor 1. In: the initial value, how two partial results merge and, if partial results are not
elements, how an element becomes one and the last becomes the result. Out: a `Fold`, from which the
NumPy, CUDA and native code is derived.
"""

from __future__ import annotations

import enum
import functools
from typing import Any

import numpy as np

from gpuarray.core import dtypes
from gpuarray.util import Struct


@functools.cache
def extreme(dtype, largest: bool):
    """Return the largest or smallest value of a dtype, infinite if it has infinities."""
    kind = dtypes.kind_of(dtype)
    if kind == "b":
        return np.bool_(largest)
    if kind in "iu":
        info = dtypes.iinfo(dtype)
        return np.array(int(info.max if largest else info.min)).astype(dtype)[()]
    if dtypes.supports_inf(dtype):
        return np.array(np.inf if largest else -np.inf).astype(dtype)[()]
    info = dtypes.finfo(dtype)
    return np.array(float(info.max if largest else info.min)).astype(dtype)[()]


class Identity(enum.Enum):
    """The identity element of a merge, for any dtype."""

    ZERO = "zero"
    NEGATIVE_ZERO = "negative zero"  # as -0.0 + -0.0 is -0.0; 0 for dtypes without -0.0
    ONE = "one"
    ALL_BITS = "all bits set"
    LOWEST = "lowest"  # infinite where the dtype has infinities
    HIGHEST = "highest"
    LOG_OF_ZERO = "log of zero"

    def of(self, dtype) -> Any:
        """Return the value as a scalar of `dtype`.

        >>> Identity.LOWEST.of(np.dtype("int8")), Identity.NEGATIVE_ZERO.of(np.dtype("float32"))
        (np.int8(-128), np.float32(-0.0))
        """
        is_complex = dtypes.kind_of(dtype) == "c"
        if self in (Identity.LOWEST, Identity.HIGHEST, Identity.LOG_OF_ZERO):
            # For real dtypes log(0) is -inf too: the lowest value there is.
            if not is_complex:
                return extreme(dtype, self is Identity.HIGHEST)
            # Complex numbers are ordered by real part, then imaginary part; log(0) is -inf + 0j.
            end = float("inf" if self is Identity.HIGHEST else "-inf")
            value = complex(end, 0.0 if self is Identity.LOG_OF_ZERO else end)
        elif self is Identity.NEGATIVE_ZERO:
            value = complex(-0.0, -0.0) if is_complex else -0.0
        else:
            value = {Identity.ZERO: 0, Identity.ONE: 1, Identity.ALL_BITS: -1}[self]
        return np.asarray(value).astype(dtype)[()]

    def held(self, dtype) -> Any:
        """Return the value in the type that partial results have: float32 for narrower floats.

        >>> Identity.ZERO.held(dtypes.float8_e8m0fnu)  # which has no zero
        np.float32(0.0)
        """
        if dtypes.kind_of(dtype) != "f" or dtype.itemsize >= 4:
            return self.of(dtype)
        wide = np.dtype(np.float32)
        is_zero = self in (Identity.ZERO, Identity.NEGATIVE_ZERO)
        return self.of(wide) if is_zero else self.of(dtype).astype(wide)


class StatePart(enum.Enum):
    """Components of a partial result that have no dtype of their own."""

    ELEMENT = "element"  # of the operand's dtype; floats below 32 bits are kept as float32
    POSITION = "position"  # of an element in its row: uint64


ELEMENT, POSITION = StatePart.ELEMENT, StatePart.POSITION

#: A StatePart, a dtype, or a pair `(x, POSITION)` or `(x, x)`, where x is a State again.
State = Any

#: The maximum size of a partial result in bytes: the shared memory available to each thread of a
#: block.
MOST_STATE = 128
#: Dtypes that a partial result may contain.
_NUMBERS = tuple(
    np.dtype(name)
    for name in "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64 complex64 "
    "complex128".split()
)


def state_bytes(state: State, element: int = 16) -> int:
    """Return the bytes of a partial result; `element` is the size of an element.

    >>> state_bytes(ELEMENT, 4), state_bytes((np.dtype("float32"), POSITION))
    (4, 16)
    """
    if isinstance(state, StatePart):
        return element if state is ELEMENT else 8
    if isinstance(state, np.dtype):
        return state.itemsize
    # A C++ struct: its size is a multiple of that of the widest part.
    parts = [state_bytes(part, element) for part in state]
    return -(-sum(parts) // max(parts)) * max(parts)


def _checked(state: State) -> State:
    """Return a state with types replaced by dtypes; raise TypeError if it is not a State."""
    if isinstance(state, StatePart):
        return state
    if isinstance(state, tuple) and len(state) == 2:
        first, second = map(_checked, state)
        # The prelude has C++ types only for such pairs: two of one type, or one and its position.
        if second in (first, POSITION):
            return first, second
    elif isinstance(state, np.dtype | type) and state in _NUMBERS:
        return np.dtype(state)
    raise TypeError(
        f"a Fold has the state {state!r}, whose size is not known. Make it of ELEMENT, of "
        f"{', '.join(d.name for d in _NUMBERS)} (as dtypes), and of pairs of them: (x, x) or "
        "(x, POSITION)."
    )


def _fits(identity: Any, state: State) -> bool:
    """Whether there is an identity for each part of a state."""
    if not isinstance(state, tuple):
        return isinstance(identity, Identity)
    return isinstance(identity, tuple) and len(identity) == 2 and all(map(_fits, identity, state))


class Fold(Struct):
    """How elements are folded into one.

    Parameters
    ----------
    identity : Identity, or pair of them for a state that is a pair
        The initial partial result.
    merge : Primitive, or a `cuda` rule
        How two partial results merge: a pointwise primitive of two operands, or CUDA text like that
        of one, in which {T} is the type of a partial result. It must be associative and
        commutative, since the order of merging depends on the backend.
    lift : Primitive, str or Sentinel
        How an element becomes a partial result: a pointwise primitive, or a template in which {0}
        is the element, {1} its position in its row and {T} its type. A Sentinel if there is a NumPy
        rule only.
    finish : Primitive or str
        How the last partial result becomes the result: a pointwise primitive, or a template.
    state : State
        The components of a partial result; at most `MOST_STATE` bytes.
    neutral : Identity, or pair of them
        Initial value of cumulative operations, if `identity` would change elements, as in
        0.0 + -0.0 == 0.0. Default: `identity`.
    ufunc : np.ufunc
        The ufunc that merges as `merge` does, if there is one.
    selects : bool
        Whether merging returns one of the two operands unchanged, so that nothing is rounded.

    Examples
    --------

    >>> Fold(Identity.ZERO, "{0} + {1}", lift="{0} * {0}", ufunc=np.add).plain
    False
    """

    identity: Any
    merge: Any
    lift: Any = "{0}"
    finish: Any = "{0}"
    state: State = ELEMENT
    neutral: Any = None
    ufunc: Any = None
    selects: bool = False

    def __post_init__(self):
        # A Struct is frozen, but fields may be normalised while it is being made.
        object.__setattr__(self, "state", _checked(self.state))
        if self.neutral is None:
            object.__setattr__(self, "neutral", self.identity)
        for given in (self.identity, self.neutral):
            if not _fits(given, self.state):
                raise TypeError(
                    f"a Fold starts from {given!r}, and its state is {self.state!r}: give an "
                    "Identity for each part of it, as Identity.ZERO."
                )
        size = state_bytes(self.state)
        if size > MOST_STATE:
            raise TypeError(
                f"a Fold has a state of {size} bytes, {self.state!r}, and shared memory has room "
                f"for {MOST_STATE} a thread: make it smaller."
            )

    @property
    def plain(self) -> bool:
        """Whether partial results and the result are like elements: no lift, state or finish."""
        return (self.state, self.lift, self.finish) == (ELEMENT, "{0}", "{0}")

    @property
    def takes_positions(self) -> bool:
        """Whether a partial result records the position of an element in its row."""
        return "{1}" in self.lift if isinstance(self.lift, str) else False

    @property
    def plain_ufunc(self) -> Any:
        """The ufunc that folds the unchanged elements, or None if no ufunc does."""
        return self.ufunc if self.plain else None

    @property
    def result_ufunc(self) -> Any:
        """The ufunc that merges the results of two pieces of an axis, or None."""
        # A lift is no obstacle: the pieces' results are partial results already. A finish is: it
        # has changed them.
        return self.ufunc if self.finish == "{0}" else None

    @property
    def is_complete(self) -> bool:
        """Whether no part is a template only, so that the NumPy rule can be derived."""
        for part in (self.lift, self.finish):
            if part != "{0}" and not hasattr(part, "numpy_function"):
                return False
        return self.ufunc is not None and self.state is ELEMENT

    def of_nothing(self, dtype) -> Any:
        """Return the fold of no elements of `dtype`; for complex dtypes its imaginary part is 0.

        >>> Fold(Identity.HIGHEST, "ga_min({0}, {1})").of_nothing(np.dtype("complex64"))
        np.complex64(inf+0j)
        """
        value = self.identity.of(dtype)
        return value.real.astype(dtype) if dtypes.kind_of(dtype) == "c" else value
