"""Mutable references: boxes that hold an Array; staged functions take and return their values.

Floor 3. In: Refs, and functions that read and write them. Out: functions without side effects,
which take the values of Refs and return the new ones.

A Ref belongs to the trace it was made in. If a function that is being staged accesses one from
outside, its trace cannot hold the written value. The trace then continues with a substitute value,
to find all such Refs, and ends with `ReferenceAccessed`; the code that staged the function (jit,
scan, cond, ...) stages it again with the Refs' values as arguments and results (`threading`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from gpuarray import errors, sites
from gpuarray.core import dtypes
from gpuarray.core import trace as traces
from gpuarray.core.avals import ShapedArray, aval_of
from gpuarray.core.value import Array
from gpuarray.primitives.define import do
from gpuarray.primitives.slices import Slice
from gpuarray.pytree.registration import register_pytree_node
from gpuarray.transforms.batch import BatchTrace
from gpuarray.transforms.tracing import GraphTrace, ReferenceAccessed, ReferenceKept, TracedFunction
from gpuarray.util import Struct, update_wrapper


class AbstractRef:
    """Abstract value of a Ref: the aval of the array it holds."""

    def __init__(self, inner_aval: ShapedArray):
        self.inner_aval = inner_aval
        self.shape, self.dtype = inner_aval.shape, inner_aval.dtype
        self.ndim, self.size = inner_aval.ndim, inner_aval.size
        self.sharding, self.weak_type = inner_aval.sharding, inner_aval.weak_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractRef) and self.inner_aval == other.inner_aval

    def __hash__(self) -> int:
        return hash((AbstractRef, self.inner_aval))

    def __repr__(self) -> str:
        return f"Ref{{{self.inner_aval.str_short()}}}"


class Ref:
    """A mutable reference to an array: `ref[...]` reads, `ref[index] = value` writes.

    Shape and dtype are fixed: a value written must have the dtype, and the shape of the elements it
    replaces. Made by `new_ref`.
    """

    __slots__ = ("__weakref__", "_home", "_passed", "_site", "_value", "kind")

    def __init__(self, value: Any, kind: str | None = None, passed: Any = None):
        self._value: Any = value
        # With "no_grad_no_remat" written values are not differentiated.
        self.kind = kind
        self._site = sites.user_frame()
        # In a jitted function that takes it: that function's calls, and the argument's number.
        self._passed: tuple[Any, int] | None = passed
        # The trace that was innermost when it was made.
        self._home: traces.Trace = traces.state.trace

    # ---- its value ----
    def get(self) -> Any:
        """Return the array that it holds."""
        self._check_access()
        return self._value

    def free(self) -> None:
        """Give the array up: the reference cannot be read or written any more."""
        self._check_access()
        self._value = _Freed(aval_of(self._value))

    def put(self, value: Any) -> None:
        """Replace the array by another one of the same shape and dtype."""
        self._check_access()
        # The kind "no_grad_no_remat" means that written values are not differentiated.
        if self.kind is not None:
            value = do.stop_gradient(value)
        self._check_level(value)
        self._value = value

    def _check_access(self) -> None:
        """Check that the current trace may access it.

        A trace that stages a function may not, but continues (`GraphTrace.stand_in`) and signals it
        at the end.
        """
        if isinstance(self._value, _Freed):
            raise errors.DeletedBufferError(
                f"A mutable array reference of type {self.type} was used after free_ref: read it "
                "before, or do not free it."
            )
        # From the innermost trace outwards to the one it was made in.
        here: traces.Trace | None = traces.state.trace
        while here is not self._home:
            if here is None:
                raise errors.UnexpectedTracerError(
                    "Encountered an unexpected tracer. A mutable array reference of type "
                    f"{self.type} escaped the scope of the function that made it, whose trace has "
                    "ended. Return its value instead: freeze(ref)."
                )
            # A Graph cannot write to a reference: the value must be an argument of it.
            if isinstance(here, GraphTrace):
                here.stand_in(self)
                return
            here = here.parent

    def _check_level(self, value: Any) -> None:
        """Refuse a value whose transformation began after the Ref was made: it would outlive it."""
        if not isinstance(value, traces.Tracer):
            return
        # Allowed are values of the Ref's own trace and of those around it, which live at least as
        # long.
        home: traces.Trace | None = self._home
        while home is not None:
            if value._trace is home:
                return
            home = home.parent
        if isinstance(value._trace, BatchTrace):
            raise ValueError(
                "performing a set/swap operation with vmapped value on an unbatched array "
                f"reference of type {self.type}: it can hold one value, not one for each element. "
                "Make the reference inside of the vmapped function, and return its value."
            )
        raise ValueError(
            "performing a set/swap operation with a differentiated value on a non-differentiated "
            f"array reference of type {self.type}. Move the array reference to be an argument of "
            "the differentiated function or make it inside, or write lax.stop_gradient(value)."
        )

    def check_kept(self) -> None:
        """Raise ReferenceKept if it only represents another Ref that a cotangent rule needs."""
        if self._passed is not None:
            raise ReferenceKept(self)

    def is_alive(self) -> bool:
        """Whether the trace it was made in is still running, in this thread."""
        here: traces.Trace | None = traces.state.trace
        while here is not None and here is not self._home:
            here = here.parent
        return here is not None

    # ---- its type ----
    @property
    def type(self) -> AbstractRef:
        """Its abstract value. It is not called `aval` because a Ref is no operand."""
        return AbstractRef(aval_of(self._value))

    @property
    def shape(self) -> tuple[int, ...]:
        return self._value.shape

    @property
    def dtype(self) -> Any:
        return self._value.dtype

    @property
    def ndim(self) -> int:
        return self._value.ndim

    @property
    def size(self) -> int:
        return self._value.size

    @property
    def sharding(self) -> Any:
        return self._value.sharding

    @property
    def at(self) -> _At:
        """References to parts: `ref.at[index]` reads and writes the elements at the index."""
        return _At(self)

    def __len__(self) -> int:
        return len(self._value)

    # ---- reading and writing ----
    def __getitem__(self, index: Any) -> Any:
        return self.get()[_checked(index, self.shape)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.write("swap", index, value)

    def addupdate(self, value: Any, idx: Any = ...) -> None:
        """Add to the elements at an index."""
        self.write("addupdate", idx, value)

    def write(self, what: str, index: Any, value: Any) -> None:
        """Set (`swap`) or add to (`addupdate`) the elements at an index."""
        old, index = self.get(), _checked(index, self.shape)
        new, aval = aval_of(value), aval_of(old)
        dtype = new.dtype
        if new.weak_type and dtypes.kind_of(dtype) == dtypes.kind_of(aval.dtype):
            dtype = aval.dtype  # a Python number of the same kind
        # Never converted silently: the type of a Ref is fixed.
        if dtype != aval.dtype:
            raise ValueError(
                f"Invalid dtype for `{what}`. Ref dtype: {aval.dtype.name}. Value dtype: "
                f"{new.dtype.name}. Convert the value with .astype(ref.dtype)."
            )
        # The index is applied once to learn the shape; in a Graph this is removed as dead.
        expected = aval_of(old[index]).shape
        if new.shape != expected:
            raise ValueError(
                f"Invalid shape for `{what}`. Ref shape: {aval.shape}. Expected shape: {expected}. "
                f"Value shape: {new.shape}. Broadcast the value first."
            )
        place = old.at[index]
        if what == "addupdate":
            new = place.add(value)
        else:
            # As in JAX a window that reaches over the end is moved inside; other positions out of
            # range are skipped.
            new = place.set(value, mode="clip" if _is_moving(index) else None)
        # Writing a weakly typed value does not make a Ref weakly typed.
        if aval_of(new).weak_type:
            new = do.convert_element_type(new, new_dtype=aval.dtype, weak_type=False, sharding=None)
        self.put(new)

    def __repr__(self) -> str:
        return f"Ref{repr(self._value).removeprefix('Array')}"

    def __str__(self) -> str:
        return repr(self)

    def __reduce__(self):
        return Ref, (self.get(), self.kind)


class _Freed(Struct):
    """Replaces the array of a Ref that was freed; holds its type."""

    aval: ShapedArray


class _At(Struct):
    """The type of `ref.at`: `at[index]` refers to a part of the Ref."""

    whole: Ref | RefView

    def __getitem__(self, index: Any) -> RefView:
        return RefView(self.whole, index)


class RefView:
    """Elements of a Ref at an index, to be read and written as a Ref is.

    It is a pytree node whose leaves are the Ref and the arrays in the index, so that transformed
    functions take it as an argument.
    """

    def __init__(self, whole: Ref | RefView, index: Any):
        self.whole, self.index = whole, index

    @property
    def aval(self) -> ShapedArray:
        """The abstract value of the elements."""
        return aval_of(self.whole[self.index])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.whole.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def at(self) -> _At:
        """References to parts of the part."""
        return _At(self)

    def __getitem__(self, index: Any) -> Any:
        return self.whole[self.index][index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.write("swap", index, value)

    def write(self, what: str, index: Any, value: Any) -> None:
        """Set (`swap`) or add to (`addupdate`) the elements at an index."""
        part = Ref(self.whole[self.index])  # checks shapes and dtypes as a Ref does
        part.write(what, index, value)
        self.whole[self.index] = part._value


class _Fixed(NamedTuple):
    """A constant in a RefView's index, which no transformation changes."""

    kind: type
    value: Any


def _flatten_part(part: RefView) -> tuple[list, tuple]:
    several = isinstance(part.index, tuple)
    # Arrays of the index are leaves; everything else is part of the structure, with None in place
    # of a leaf.
    children, layout = [part.whole], []
    for entry in part.index if several else (part.index,):
        if isinstance(entry, slice):
            layout.append(_Fixed(slice, (entry.start, entry.stop, entry.step)))
        elif entry is None or entry is Ellipsis or isinstance(entry, int):
            layout.append(_Fixed(type(entry), entry))
        else:
            layout.append(None)
            children.append(entry)
    return children, (several, tuple(layout))


def _unflatten_part(aux: tuple, children: Sequence[Any]) -> RefView:
    (several, layout), (whole, *values) = aux, children
    rest = iter(values)
    entries = [
        next(rest) if e is None else slice(*e.value) if e.kind is slice else e.value for e in layout
    ]
    return RefView(whole, tuple(entries) if several else entries[0])


register_pytree_node(RefView, _flatten_part, _unflatten_part)


def _is_moving(index: Any) -> bool:
    """Whether an index is a window, made of numbers and slices, whose start may be traced."""
    entries = index if isinstance(index, tuple) else (index,)
    moving = [isinstance(e, Slice) or (isinstance(e, Array) and e.ndim == 0) for e in entries]
    plain = [e is Ellipsis or isinstance(e, (int, slice)) for e in entries]
    return any(moving) and all(m or p for m, p in zip(moving, plain, strict=True))


def _checked(index: Any, shape: tuple[int, ...]) -> Any:
    """Return an index; raise ValueError if a constant in it is out of range."""
    entries = index if isinstance(index, tuple) else (index,)
    # The entries' axes are not known by counting: leave it to the index itself.
    if any(e is None or e is Ellipsis for e in entries) and entries[-1] is not Ellipsis:
        return index
    for i, n in zip(entries, shape, strict=False):
        if isinstance(i, int) and i >= n:
            raise ValueError(f"Out of bound indexer: idx={i}, dim={n}.")
        if isinstance(i, Slice) and not i.is_dynamic_start:
            if i.start + max(i.size - 1, 0) * i.stride >= n:
                raise ValueError(
                    f"Out of bound slice: start={i.start}, size={i.size}, stride={i.stride}, "
                    f"dim={n}."
                )
    return index


# ---- functions without side effects ----


@contextlib.contextmanager
def holding(refs: Sequence[Ref], values: Sequence[Any]) -> Iterator[None]:
    """Let Refs hold other values inside the block, as references of the innermost trace."""
    # Traces nest: the same Ref may be held by several calls, one inside the other.
    before = [(ref._home, ref._value) for ref in refs]
    try:
        for ref, value in zip(refs, values, strict=True):
            ref._home, ref._value = traces.state.trace, value
        yield
    finally:
        for ref, (home, value) in zip(refs, before, strict=True):
            ref._home, ref._value = home, value


def threaded(fun: Callable, refs: Sequence[Ref]) -> Callable:
    """Return `fun` as a function (values of Refs, *args) -> (new values, result)."""

    def pure(values: Sequence[Any], *args: Any, **kwargs: Any) -> tuple[list, Any]:
        with holding(refs, values):
            result = fun(*args, **kwargs)
            return [ref._value for ref in refs], result

    return update_wrapper(pure, fun)


def threading(attempt: Callable[[list[Ref]], Any]) -> Any:
    """Return `attempt(refs)` with all Refs from outside that it accesses, found by trying."""
    # Only running a function shows which Refs it accesses: the first attempt finds them, as a rule.
    refs: list[Ref] = []
    while True:
        try:
            return attempt(refs)
        except ReferenceAccessed as touched:
            new = [ref for ref in touched.refs if not any(ref is known for known in refs)]
            if not new:
                raise  # they are from outside the caller as well
            refs += new


def strong_values(refs: Sequence[Ref]) -> list:
    """Return the values of Refs, none of them weakly typed, as written values never are."""
    strong = lambda x, a: do.convert_element_type(
        x, new_dtype=a.dtype, weak_type=False, sharding=None
    )
    avals = [aval_of(x) for x in values_of(refs)]
    return [strong(x, a) if a.weak_type else x for x, a in zip(values_of(refs), avals, strict=True)]


def values_of(refs: Sequence[Ref]) -> list:
    """Return the values of Refs."""
    return [ref.get() for ref in refs]


def write_back(refs: Sequence[Ref], values: Sequence[Any]) -> None:
    """Store the values that a function returned for Refs (None where it only read)."""
    for ref, value in zip(refs, values, strict=True):
        if value is not None and value is not ref._value:
            ref.put(value)


class ReturnedReference(ValueError):
    """The error for a function that returns a Ref."""

    def __init__(self, message: str, ref: Ref):
        super().__init__(message)
        self.ref = ref


def refuse_reference(x: Any, info: TracedFunction) -> None:
    """Raise ValueError if a result of a function is a Ref."""
    if isinstance(x, Ref):
        made = "" if x._passed else f"\n\nThe returned reference was created on line {x._site}."
        raise ReturnedReference(
            f"function {info} traced for {info.purpose} returned a mutable array reference of type "
            f"{x.type}, but mutable array references cannot be returned. Return its value, "
            f"ref[...]{made}",
            x,
        )
