"""The counterparts of NumPy's functions here, and how they are called.

Floor 6. In: a function of NumPy's namespaces and its arguments. Out: the function of the same name
here, with the arguments translated. These functions are stricter than NumPy's (no lists) and have
other keywords; this is the one place where the two are matched. Arguments that cannot be translated
raise a TypeError, and NumPy computes the result (`dispatch.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuarray import config
from gpuarray.core import dtypes, promotion
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array, surface
from gpuarray.numpy.namespace import array_namespace

#: The counterpart of a NumPy function whose name differs here.
_NAMED = {
    "asanyarray": "asarray",
    "ascontiguousarray": "asarray",
    "asfortranarray": "asarray",
    "fix": "trunc",
    "require": "asarray",
}

#: Functions whose result is not an array of numbers, or which handle memory or text: NumPy's own,
#: applied to host values. Computing these on a device would gain nothing.
_HOST = frozenset(
    "array2string busday_count busday_offset common_type datetime_as_string is_busday "
    "may_share_memory min_scalar_type save savetxt savez savez_compressed shares_memory".split()
)

_HOST_MODULES = ("numpy.char", "numpy.lib.recfunctions", "numpy.strings")

#: Functions that read arrays from files and text, ours where `like=` is one of ours.
_READERS = frozenset("fromfile fromiter fromstring genfromtxt loadtxt".split())

#: Functions that write into their first argument.
_WRITERS = frozenset("copyto fill_diagonal place put put_along_axis putmask".split())

#: Names that parameters have here.
_RENAMED = {
    "arange": {"start_or_stop": "start"},
    "clip": {"a": "arr", "a_min": "min", "a_max": "max"},
    "imag": {"val": "x"},
    "linalg.matrix_rank": {"A": "M"},
    "real": {"val": "x"},
    "reshape": {"newshape": "shape"},
}

#: Arguments that make our function behave as NumPy's.
_ASKED: dict[str, dict[str, Any]] = {
    "linalg.cholesky": {"symmetrize_input": False},
    "linalg.eigh": {"symmetrize_input": False},
    "linalg.eigvalsh": {"symmetrize_input": False},
}
#: The same, where shapes come to depend on values: not while tracing.
_ASKED_OF_VALUES: dict[str, dict[str, Any]] = {
    "linalg.lstsq": {"numpy_resid": True},
    "polydiv": {"trim_leading_zeros": True},
    "polymul": {"trim_leading_zeros": True},
}

#: Keywords that concern how a result is computed and do not change it.
_IDLE = frozenset("kind overwrite_input subok".split())
_IDLE_FOR = {
    "meshgrid": frozenset(["copy"]),
    "nan_to_num": frozenset(["copy"]),
    "require": frozenset(["requirements"]),
    **dict.fromkeys(("concatenate", "hstack", "stack", "vstack"), frozenset(["casting"])),
}

#: Keywords that our function has with another meaning.
_OTHERWISE = {"linalg.matrix_rank": frozenset(["rtol"])}

#: Functions whose `order` is one of elements; elsewhere it is one of memory, which arrays here do
#: not show.
_ORDERED = frozenset("ravel ravel_multi_index reshape unravel_index".split())

#: Parameters that are one array, and those that are several.
_ARRAYS = frozenset(
    "A M a a1 a2 a_max a_min append ar ar1 ar2 arr array ary aweights b base bins condition "
    "element f fill_value filt fp from_ fweights indices initial k left m max mean min nan neginf "
    "obj p posinf prepend q repeats right seq_of_zeros sorter start stop test_elements to_begin "
    "to_end u v val values w weights where x x1 x2 xp y z".split()
)
_SEVERAL = frozenset(
    "args arrays arys choicelist choices condlist keys multi_index sample tup varargs xi".split()
)
#: Parameters that are numbers for Python: axes, lengths, steps. NumPy takes them from arrays too.
_NUMBERS = frozenset(
    "axes axis destination dims new_shape newshape pad_width reps s shape shift source".split()
)
#: Parameters that hold positions.
_POSITIONS = frozenset("indices obj repeats sorter".split())

#: Functions that raise a LinAlgError where ours give nan or inf.
_SINGULAR = frozenset(
    "cholesky eig eigvals inv lstsq matrix_power pinv solve svd svdvals tensorinv tensorsolve"
    "".split()
)

#: Functions that raise for positions out of range unless told otherwise.
_CHECKED = frozenset("take take_along_axis".split())


# ---- arguments and results that need more than a name ----


def _conditions(x):
    """One condition or several."""
    # A vector of booleans is one condition; a list of arrays or of lists is several.
    single = x.ndim == 1 if hasattr(x, "ndim") else not isinstance(x[0], (list, Array, np.ndarray))
    return [as_operand(x)] if single else [as_operand(c) for c in x]


def _bins(x):
    """Numbers or edges, one for each axis; or the edges for both."""
    if not isinstance(x, (list, tuple)):
        return x
    # Three numbers or more are edges; two are numbers of bins, one for each axis.
    if len(x) > 2 and all(np.ndim(e) == 0 for e in x):
        return surface.asarray(x)
    return [as_operand(e) for e in x]


def _weights(x):
    """Weights of counts, which are floats."""
    found = surface.asarray(x)
    return found if found.dtype == np.float64 else surface.astype(found, float)


def _points(x):
    """Points as rows; a list has their coordinates."""
    return surface.transpose(surface.asarray(x)) if isinstance(x, (list, tuple)) else x


def _as_they_are(x):
    return x


def _up_to(most: float) -> Callable[[Any], Any]:
    """Quantiles, checked where they are known on the host: NumPy raises for others, ours not."""

    def convert(x):
        x = as_operand(x)
        if not isinstance(x, Array) and not np.all((0 <= np.asarray(x)) & (np.asarray(x) <= most)):
            raise ValueError(f"must be in the range [0, {most}]")
        return x

    return convert


_CONVERTED: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("apply_along_axis", "args"): _as_they_are,
    ("bincount", "weights"): _weights,
    ("block", "arrays"): _as_they_are,
    # The result of np.einsum_path begins with its own name.
    ("einsum", "optimize"): lambda x: x[1:] if _is_list(x) and x[0] == "einsum_path" else x,
    ("histogram2d", "bins"): _bins,
    ("histogramdd", "bins"): lambda x: [as_operand(e) for e in x] if _is_list(x) else x,
    ("histogramdd", "sample"): _points,
    ("piecewise", "args"): _as_they_are,
    ("piecewise", "condlist"): _conditions,
    ("tri", "k"): _as_they_are,
    **{(name, "q"): _up_to(100) for name in ("percentile", "nanpercentile")},
    **{(name, "q"): _up_to(1) for name in ("quantile", "nanquantile")},
}


def _bool(result, _):
    return result if isinstance(result, Tracer) else bool(result)


def _tuple(result, _):
    return tuple(result) if isinstance(result, list) else result


def _like(x, given):
    """An array of the type that was given, if an array was."""
    return surface.astype(x, given.dtype) if hasattr(given, "dtype") and np.ndim(given) else x


def _histogram(result, given):
    """Counts are integers, sums of weights have the weights' type, edges their own."""
    heights, edges = result
    # Densities are floats already.
    if not given.get("density"):
        heights = surface.astype(heights, getattr(given.get("weights"), "dtype", int))
    return heights, _like(edges, given.get("bins"))


def _histograms(result, given):
    """In several dimensions all counts are floats."""
    heights, *edges = result
    if dtypes.kind_of(heights.dtype) in "iu":
        heights = surface.astype(heights, float)
    bins = given.get("bins")
    # histogramdd returns one list of edges, histogram2d one array for each axis.
    if isinstance(edges[0], list):
        each = bins if _is_list(bins) else [bins] * len(edges[0])
        return heights, [_like(e, b) for e, b in zip(edges[0], each, strict=True)]
    each = bins if _is_list(bins) and len(bins) == 2 else [bins, bins]
    return heights, *(_like(e, b) for e, b in zip(edges, each, strict=True))


#: Types that NumPy's callers expect: Python's bool, tuples, dtypes.
_RESULTS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    **dict.fromkeys(("allclose", "array_equal", "array_equiv"), _bool),
    **dict.fromkeys(
        "atleast_1d atleast_2d atleast_3d broadcast_arrays gradient meshgrid".split(), _tuple
    ),
    "einsum_path": lambda result, given: (["einsum_path", *result[0]], result[1]),
    "histogram": _histogram,
    "histogram2d": _histograms,
    "histogram_bin_edges": lambda result, given: _like(result, given.get("bins")),
    "histogramdd": _histograms,
}

# NumPy's marker for an argument that was not given; its own wrappers pass it on.
NO_VALUE = inspect.signature(np.sum).parameters["initial"].default


class _Parameter(NamedTuple):
    """One parameter of NumPy's function."""

    name: str | None  #: name here; None if there is no counterpart
    default: Any
    convert: Callable[[Any], Any] | None
    is_idle: bool  #: concerns how the result is computed, not its value


class Counterpart:
    """One of NumPy's functions, and how ours of the same name is called in its place."""

    def __init__(self, function: Callable[..., Any]):
        module, name = function.__module__ or "", function.__name__
        # "linalg.inv" for numpy.linalg.inv: the path within the namespace.
        self.name = ".".join([*module.split(".")[1:], name])
        self.is_numpys = module.split(".")[0] == "numpy"
        self.is_host = not self.is_numpys or name in _HOST or module in _HOST_MODULES
        self.reads = self.is_numpys and self.name in _READERS
        self.writes = self.is_numpys and self.name in _WRITERS
        self.ours = None if self.is_host else _ours(module, name)
        # Signatures are read once; calls only look names up.
        ours = _signature(self.ours)
        named = _signature(function) or ours
        self._positional = [p.name for p in named if p.kind in _POSITIONAL]
        #: From how many positional arguments on there is an `out` among them.
        self.outs_from = 1 + self._positional.index("out") if "out" in self._positional else 999
        self._rest = next((p.name for p in named if p.kind is p.VAR_POSITIONAL), None)
        self._takes = {p.name for p in ours} - _OTHERWISE.get(self.name, frozenset())
        self._takes_all = any(p.kind is p.VAR_KEYWORD for p in ours)
        self._known = {p.name: self._parameter(p.name, p.default) for p in named}
        self._asked = _ASKED.get(self.name, {})
        self._asked_of_values = _ASKED_OF_VALUES.get(self.name, {})
        self._casts = "casting" in _IDLE_FOR.get(self.name, ())
        self.may_fail = module == "numpy.linalg" and name in _SINGULAR
        self._checks = self.name in _CHECKED
        self._result = _RESULTS.get(self.name)
        # Arrays go by position, so that whatever looks at them sees them; all else by name.
        arrays = {p.name for p in self._known.values() if p.convert not in (None, _numbers)}
        self._first = [
            p.name
            for p in ours
            if p.kind is p.POSITIONAL_ONLY or (p.kind in _POSITIONAL and p.name in arrays)
        ]
        # Only up to the first gap in the signature: after it, arguments must be passed by name.
        for at, p in enumerate(ours[: len(self._first)]):
            if p.name != self._first[at]:
                del self._first[at:]
                break

    def _parameter(self, name: str, default: Any = inspect.Parameter.empty) -> _Parameter:
        """The translation of one of NumPy's parameters."""
        ours = _RENAMED.get(self.name, {}).get(name, name)
        return _Parameter(
            ours if ours in self._takes or self._takes_all else None,
            default,
            self._conversion(name),
            name in _IDLE or name in _IDLE_FOR.get(self.name, ()),
        )

    def _conversion(self, name: str) -> Callable[[Any], Any] | None:
        if (self.name, name) in _CONVERTED:
            return _CONVERTED[self.name, name]
        if name == "order":
            return _order if self.name in _ORDERED else _memory_order
        kinds = ((_NUMBERS, _numbers), (_SEVERAL, _several), (_POSITIONS, _positions))
        for names, convert in (*kinds, (_ARRAYS, as_operand)):
            if name in names:
                return convert
        return None

    def __call__(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call our function; TypeError if it lacks one of the arguments."""
        assert self.ours is not None
        operands, given = self.arguments(args, kwargs)
        if self._asked_of_values and not any(isinstance(x, Tracer) for x in operands):
            given.update(self._asked_of_values)
        # NumPy raises for a position out of range; ours would fill or clip.
        if self._checks and "mode" not in given:
            with config.oob("raise"):
                return self.ours(*operands, **given)
        result = self.ours(*operands, **given)
        if self._result is None:
            return result
        return self._result(result, {**dict(zip(self._first, operands, strict=False)), **given})

    def first(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The first argument, which some functions write to."""
        return args[0] if args else kwargs.get(self._positional[0])

    def named(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a function without `*args`, by name."""
        return {**dict(zip(self._positional, args, strict=False)), **kwargs}

    def arguments(self, args: tuple, kwargs: dict[str, Any]) -> tuple[list, dict[str, Any]]:
        """Translate arguments of NumPy's function to those of its counterpart."""
        if self.name in ("einsum", "einsum_path"):
            return _operands_of_einsum(args), self._keywords(kwargs)
        if self._rest is not None:  # preceding arguments have to be given by position
            first = zip(self._positional, args, strict=False)
            operands = [self._converted(name, x) for name, x in first]
            rest = self._converted(self._rest, args[len(operands) :])
            return [*operands, *rest], self._keywords(kwargs)
        if len(args) > len(self._positional):
            raise TypeError(f"gpuarray.numpy.{self.name} has no so many positional arguments")
        given = self._keywords(self.named(args, kwargs))
        if self._casts:
            _check_cast(given, kwargs.get("casting", "same_kind"))
        operands = []
        for name in self._first:
            if name not in given:
                break
            operands.append(given.pop(name))
        return operands, given

    def _converted(self, name: str, x: Any) -> Any:
        convert = self._known[name].convert
        return x if convert is None else convert(x)

    def _keywords(self, named: dict[str, Any]) -> dict[str, Any]:
        given = dict(self._asked)
        for name, x in named.items():
            # A name that NumPy's signature lacks is among its `**kwargs`.
            known = self._known.get(name) or self._parameter(name)
            default = known.default
            # Arguments at their default are not passed on, so the counterpart may lack the
            # parameter.
            if x is default or known.is_idle or x is NO_VALUE:
                continue
            # Compared by value only where `==` is known to give a bool.
            if type(x) is type(default) and isinstance(x, (str, int, float)) and x == default:
                continue
            if known.convert is not None:
                x = known.convert(x)
                if x is _NOTHING:
                    continue
            if known.name is None:
                raise TypeError(f"gpuarray.numpy.{self.name} has no argument {name!r}")
            given[known.name] = x
        return given


#: Returned by a conversion for an argument that has no effect here.
_NOTHING = object()


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@functools.lru_cache(4096)
def counterpart(function: Callable[..., Any]) -> Counterpart:
    """How a function of NumPy's, or of a library that follows its protocol, is answered."""
    return Counterpart(function)


def _ours(module: str, name: str) -> Callable[..., Any] | None:
    space = array_namespace()
    # None if the namespace has no counterpart: then no function is found in it.
    for part in module.split(".")[1:]:
        space = getattr(space, part, None)
    found = getattr(space, _NAMED.get(name, name), None)
    return found if callable(found) else None


def _signature(function: Callable[..., Any] | None) -> list[inspect.Parameter]:
    if function is None:
        return []
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # a function in C that does not say
        return []


def _check_cast(given: dict[str, Any], casting: Any) -> None:
    """Refuse operands or results that `casting` does not allow to be converted to their dtype."""
    dtype = given.get("dtype")
    # Ours promotes by these rules anyway.
    if dtype is None and casting in ("same_kind", "unsafe"):
        return
    parts = list(given.get("arrays", given.get("tup")))  # pyright: ignore[reportArgumentType]
    wanted = np.dtype(dtype) if dtype is not None else promotion.result_type(*parts)
    for x in parts:
        if not np.can_cast(dtypes.dtype(x), wanted, casting):
            raise TypeError(f"cannot cast {dtypes.dtype(x)} to {wanted} with casting={casting!r}")


def _memory_order(x: Any) -> Any:
    """Omit an argument that requests an order in memory."""
    return _NOTHING if x is None or x in ("C", "F", "A", "K") else x


def _order(x: Any) -> Any:
    """The order of elements; in memory it is always C."""
    return _NOTHING if x in ("A", "C", "K") else x


def _numbers(x: Any) -> Any:
    if isinstance(x, range):
        return tuple(x)
    return _tupled(x.tolist()) if isinstance(x, np.ndarray) else x


def _tupled(x: Any) -> Any:
    return tuple(map(_tupled, x)) if isinstance(x, list) else x


def _several(x: Any) -> Any:
    return x if isinstance(x, (Array, np.ndarray)) else [as_operand(e) for e in x]


def _positions(x: Any) -> Any:
    """Positions; an empty list of them is one of integers."""
    return surface.asarray(np.zeros(0, np.int32)) if _is_list(x) and not x else as_operand(x)


def _is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple))


def _operands_of_einsum(args: tuple) -> list:
    if isinstance(args[0], str):
        return [args[0], *map(as_operand, args[1:])]
    # operand, axes, operand, axes, ... and maybe the axes of the result
    last = len(args) - len(args) % 2
    return [as_operand(x) if i % 2 == 0 and i < last else x for i, x in enumerate(args)]


def as_operand(x: Any) -> Any:
    """Convert lists and other array-likes to Arrays; leave arrays, scalars and other objects."""
    if isinstance(x, _PLAIN):
        return x
    if _is_list(x):
        return surface.asarray(x)
    if isinstance(x, range) or (hasattr(x, "__array__") and not isinstance(x, type)):
        return surface.asarray(np.asarray(x))
    return x


_PLAIN = (Array, np.ndarray, int, float, complex, str, np.generic, type(None), slice)
