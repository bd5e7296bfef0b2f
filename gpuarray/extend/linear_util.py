"""Functions with transformations stacked on them, and side results of those: `WrappedFun`.

Floor 6. In: a function, and transformations of it: functions that call the one they are given. Out:
a function to call, and thunks that return the side results (such as an output's tree) after a call.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuarray import util
from gpuarray.core.debug_info import DebugInfo as DebugInfo
from gpuarray.names import explain_names as _explain_names
from gpuarray.runtime.cache import watch
from gpuarray.util import wraps

__all__ = [
    "DebugInfo",
    "Store",
    "StoreException",
    "WrappedFun",
    "cache",
    "merge_linear_aux",
    "transformation",
    "transformation2",
    "transformation_with_aux",
    "transformation_with_aux2",
    "wrap_init",
]


class StoreException(Exception):
    """A side result was read before the call that makes it, or made twice."""


_EMPTY: Any = object()


class Store:
    """Holds one side result, set by a call."""

    __slots__ = ("_value",)

    def __init__(self):
        self._value: Any = _EMPTY

    def store(self, value: Any) -> None:
        """Keep the side result of a call."""
        if self._value is not _EMPTY:
            raise StoreException("Store occupied: the function was called before")
        self._value = value

    def reset(self) -> None:
        """Forget it, so that the function may be called again."""
        self._value = _EMPTY

    def __bool__(self) -> bool:
        return self._value is not _EMPTY

    @property
    def val(self) -> Any:
        """The side result of the call."""
        if self._value is _EMPTY:
            raise StoreException("Store empty: call the function first")
        return self._value


class _Step(NamedTuple):
    """A transformation, `run(call, *static, *args)` or a generator, with its arguments."""

    run: Callable[..., Any]
    static: tuple


class WrappedFun:
    """A function with transformations around it; make one by `wrap_init`.

    Two are equal that have the same function, transformations and arguments of these, so that they
    can be keys of caches. A call fills the stores of side results.
    """

    __slots__ = ("_steps", "debug_info", "f", "f_transformed", "params", "stores")

    def __init__(
        self,
        f: Callable[..., Any],
        f_transformed: Callable[..., Any],
        steps: tuple[_Step, ...],
        stores: tuple[Store | None, ...],
        params: tuple,
        debug_info: DebugInfo | None,
    ):
        self.f, self.f_transformed = f, f_transformed
        self._steps, self.stores = steps, stores
        self.params, self.debug_info = params, debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    @property
    def transforms(self) -> tuple[tuple[Callable[..., Any], tuple], ...]:
        """The transformations with their arguments, the outermost first."""
        return tuple((step.run, step.static) for step in self._steps)

    def wrap(
        self,
        step: Callable[..., Any],
        static: Sequence[Any],
        store: Store | None,
        run: Callable[..., Any] | None = None,
    ) -> WrappedFun:
        """The function with one more transformation: `step(call, [store,] *static, *args)`, or the
        result of `run` for a `step` with another signature.
        """
        given = tuple(static) if store is None else (store, *static)
        return WrappedFun(
            self.f,
            # Innermost first: the new step calls the function so far.
            functools.partial(run or step, self.f_transformed, *given),
            (_Step(step, tuple(static)), *self._steps),
            (store, *self.stores),
            self.params,
            self.debug_info,
        )

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with all its transformations.

        >>> from gpuarray.extend import linear_util as lu
        >>> lu.wrap_init(lambda x, y: x - y, {"y": 1}).call_wrapped(3)
        2
        """
        return self.f_transformed(*args, **kwargs)

    def populate_stores(self, stores: Sequence[Store | None]) -> None:
        """Fill the stores with the values of others: those of an equal function that was called."""
        for mine, other in zip(self.stores, stores, strict=True):
            if mine is not None and other is not None:
                mine.store(other.val)

    def replace_debug_info(self, debug_info: DebugInfo | None) -> WrappedFun:
        """The same function, which messages call otherwise."""
        return WrappedFun(
            self.f, self.f_transformed, self._steps, self.stores, self.params, debug_info
        )

    @property
    def _key(self) -> tuple:
        # Equal where the function, its transformations and their static arguments are: stores are
        # results, so they do not count.
        return self.f, self._steps, self.params, self.debug_info

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self._key == other._key

    def __repr__(self) -> str:
        names = [getattr(step.run, "__name__", "?") for step in self._steps]
        return f"WrappedFun({self.__name__}{''.join(f', {n}' for n in names)})"


def wrap_init(
    f: Callable[..., Any],
    params: dict[str, Any] | None = None,
    *,
    debug_info: DebugInfo | None = None,
) -> WrappedFun:
    """A function as a `WrappedFun`; `params` are keyword arguments for every call.

    >>> from gpuarray.extend import linear_util as lu
    >>> lu.wrap_init(pow).call_wrapped(2, 3)
    8
    """
    given = params or {}
    call = functools.partial(f, **given) if given else f
    # Sorted, so that the order of keywords does not change the cache key.
    return WrappedFun(f, call, (), (), tuple(sorted(given.items())), debug_info)


def _curried(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that can also be applied to its first argument alone."""

    @wraps(function)
    def curried(first: Any, *rest: Any) -> Any:
        return function(first, *rest) if rest else functools.partial(function, first)

    return curried


@_curried
def transformation2(run: Callable[..., Any], fun: WrappedFun, *static: Any) -> WrappedFun:
    """A decorator that makes a transformation of `run(call, *static, *args, **kwargs)`.

    >>> from gpuarray.extend import linear_util as lu
    >>> @lu.transformation2
    ... def scaled(call, by, x):
    ...     return by * call(x)
    >>> scaled(lu.wrap_init(abs), 10).call_wrapped(-2)
    20
    """
    return fun.wrap(run, static, None)


@_curried
def transformation_with_aux2(
    run: Callable[..., Any], fun: WrappedFun, *static: Any
) -> tuple[WrappedFun, Callable[[], Any]]:
    """The same with a side result: `run(call, store, *static, *args)` puts it in the store.

    >>> from gpuarray.extend import linear_util as lu
    >>> @lu.transformation_with_aux2
    ... def noted(call, store, *args):
    ...     store.store(len(args))
    ...     return call(*args)
    >>> fun, count = noted(lu.wrap_init(max))
    >>> fun.call_wrapped(3, 7), count()
    (7, 2)
    """
    store = Store()
    return fun.wrap(run, static, store), lambda: store.val


def _run(gen: Callable[..., Any], call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a generator up to its result: it yields arguments, and is sent the call's results."""
    steps = gen(*args, **kwargs)
    inner_args, inner_kwargs = next(steps)
    return steps.send(call(*inner_args, **inner_kwargs))


def _run_with_aux(
    gen: Callable[..., Any], call: Callable[..., Any], store: Store, *args: Any, **kwargs: Any
) -> Any:
    out, aux = _run(gen, call, *args, **kwargs)
    store.store(aux)
    return out


@_curried
def transformation(gen: Callable[..., Any], fun: WrappedFun, *static: Any) -> WrappedFun:
    """The same as `transformation2` for a generator: it yields (args, kwargs), then the result.

    >>> from gpuarray.extend import linear_util as lu
    >>> @lu.transformation
    ... def negated(x):
    ...     out = yield (x,), {}
    ...     yield -out
    >>> negated(lu.wrap_init(abs)).call_wrapped(-2)
    -2
    """
    return fun.wrap(gen, static, None, functools.partial(_run, gen))


@_curried
def transformation_with_aux(
    gen: Callable[..., Any], fun: WrappedFun, *static: Any
) -> tuple[WrappedFun, Callable[[], Any]]:
    """The same with a side result: the generator yields (result, side result) in the end."""
    store = Store()
    run = functools.partial(_run_with_aux, gen)
    return fun.wrap(gen, static, store, run), lambda: store.val


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """The side result that is set, of two of which one call sets one, and whether it is the first.

    >>> from gpuarray.extend import linear_util as lu
    >>> empty, full = lu.Store(), lu.Store()
    >>> full.store("b")
    >>> lu.merge_linear_aux(lambda: empty.val, lambda: full.val)
    (False, 'b')
    """
    found = []
    # A store is read to learn whether it is full; to read an empty one is the error caught here.
    for first, aux in ((True, aux1), (False, aux2)):
        try:
            found.append((first, aux()))
        except StoreException:
            pass
    if len(found) != 1:
        raise StoreException("neither store occupied" if not found else "both stores occupied")
    return found[0]


def cache(
    call: Callable[..., Any], *, explain: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """A function of a `WrappedFun` and hashable arguments that keeps its results.

    Entries of a function are dropped with it; stores are filled again when one is found.
    `explain(fun, *args)` is called on a miss.

    >>> from gpuarray.extend import linear_util as lu
    >>> square, seen = lu.wrap_init(lambda x: x * x), []
    >>> call = lu.cache(lambda fun, x: fun.call_wrapped(x), explain=lambda *given: seen.append(1))
    >>> call(square, 3), call(square, 3), seen
    (9, 9, [1])
    """
    if explain is not None:
        util.function(explain)
    kept: weakref.WeakKeyDictionary[Any, util.Recent] = weakref.WeakKeyDictionary()

    class _All:
        """Everything kept, for `clear_caches`."""

        def turn(self) -> None:
            for one in list(kept.values()):
                one.turn()

        def clear(self) -> None:
            kept.clear()

    # Held by the function below: caches are watched weakly.
    everything = _All()
    watch(everything)

    @wraps(call)
    def cached(fun: WrappedFun, *args: Any) -> Any:
        results = kept.setdefault(fun.f, util.Recent())
        # Not the function itself, which would keep its own entry alive.
        key = (fun._key[1:], args)
        found = results.find(key)
        if found is not None:
            out, stores = found
            fun.populate_stores(stores)
            return out
        if explain is not None:
            explain(fun, *args)
        out = call(fun, *args)
        results.put(key, (out, fun.stores))
        return out

    cached.cache_clear = everything.clear  # pyright: ignore[reportAttributeAccessIssue]
    return cached


__getattr__ = _explain_names(__name__)
