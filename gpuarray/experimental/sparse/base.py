"""Shared parts of the sparse formats: a base class, its operators, and the errors of this package.

Floor 6. In: a format's own arrays. Out: an object that prints, is a pytree, and looks up the
function of an operator in `operations`, which later modules fill in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import numpy as gnp
from gpuarray import util
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array

Shape = tuple[int, ...]


class SparseEfficiencyError(ValueError):
    """A change of layout that would store many zeros."""


class SparseEfficiencyWarning(UserWarning):
    """A layout that stores many zeros."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """A warning about a layout that cuSPARSE does not support; never issued, since it is not used
    here.
    """


class SparseInfo(NamedTuple):
    """The properties of a sparse array that do not depend on its values."""

    shape: Shape
    indices_sorted: bool = False
    unique_indices: bool = False


#: The functions behind methods and operators, by class and name: `operations[BCOO]["add"]`.
operations: dict[type, dict[str, Callable[..., Any]]] = {}


def ask(name: str, method: str) -> Callable[..., Any]:
    """A method that calls the function in `operations` for its class and name."""

    def method_(self: JAXSparse, *args: Any, **kwargs: Any) -> Any:
        # Looked up when it is called: the modules with the operations import the formats.
        function = operations.get(type(self), {}).get(name)
        if function is None:
            raise NotImplementedError(
                f"{type(self).__name__}.{method}: this format has no such operation; convert the "
                "array by BCOO.fromdense(x.todense()), or use x.todense()"
            )
        return function(self, *args, **kwargs)

    method_.__name__ = method
    method_.__doc__ = f"`{name}`, on the stored elements."
    return method_


class JAXSparse:
    """Base class of all sparse arrays.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import sparse
    >>> x = sparse.BCOO.fromdense(gnp.eye(2))
    >>> isinstance(x, sparse.JAXSparse), x.size, x.ndim, len(x)
    (True, 4, 2, 2)
    """

    data: Array
    shape: Shape

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # elements can be changed for others
    # NumPy's arrays leave operators with a sparse array to the methods below.
    __array_ufunc__ = None

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int]):
        self.shape = util.indices(shape, "a shape")
        if any(n < 0 for n in self.shape):
            raise ValueError(f"a shape has no negative lengths, got {self.shape}")

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.data.dtype

    @property
    def nse(self) -> int:
        """The number of stored elements (of each element of a batch)."""
        return self.data.size

    @property
    def size(self) -> int:
        """The number of elements, stored or not."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def T(self) -> Any:
        """The array with its axes in reverse order."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def _counts(self) -> dict[str, int]:
        """The text printed after the shape."""
        return {"nse": self.nse}

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            counts = "".join(f", {key}={n}" for key, n in self._counts().items())
            text = f"{name}({self.dtype}{list(self.shape)}{counts})"
        except Exception:  # a pytree can hold anything in the place of arrays
            text = f"{name}(<invalid>)"
        if isinstance(self.data, Tracer):
            text = f"{type(self.data).__name__}[{text}]"
        return text

    def tree_flatten(self) -> tuple[tuple, Any]:
        """The arrays, and the static properties."""
        raise NotImplementedError(f"{type(self).__name__}.tree_flatten")

    def transpose(self, axes: Any = None) -> Any:
        """The array with its axes permuted."""
        raise NotImplementedError(f"{type(self).__name__}.transpose")

    def todense(self) -> Array:
        """The array with all its elements."""
        raise NotImplementedError(f"{type(self).__name__}.todense")

    def block_until_ready(self) -> Any:
        """Wait until the arrays are computed; return self."""
        for x in self.tree_flatten()[0]:
            x.block_until_ready()
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    sum = ask("sum", "sum")
    reshape = ask("reshape", "reshape")
    astype = ask("astype", "astype")
    __getitem__ = ask("getitem", "__getitem__")
    __abs__ = ask("abs", "__abs__")
    __neg__ = ask("negative", "__neg__")
    __pos__ = ask("positive", "__pos__")
    __matmul__ = ask("matmul", "__matmul__")
    __rmatmul__ = ask("rmatmul", "__rmatmul__")
    __mul__ = ask("multiply", "__mul__")
    __rmul__ = ask("rmultiply", "__rmul__")
    __truediv__ = ask("divide", "__truediv__")
    __rtruediv__ = ask("rdivide", "__rtruediv__")
    __add__ = ask("add", "__add__")
    __radd__ = ask("radd", "__radd__")
    __sub__ = ask("subtract", "__sub__")
    __rsub__ = ask("rsubtract", "__rsub__")
    __pow__ = ask("power", "__pow__")
    __rpow__ = ask("rpower", "__rpow__")
    __gt__ = ask("greater", "__gt__")
    __ge__ = ask("greater_equal", "__ge__")
    __lt__ = ask("less", "__lt__")
    __le__ = ask("less_equal", "__le__")
    __eq__ = ask("equal", "__eq__")  # pyright: ignore[reportAssignmentType]
    __ne__ = ask("not_equal", "__ne__")  # pyright: ignore[reportAssignmentType]


class Batched(JAXSparse):
    """Shared parts of BCOO and BCSR: leading batch axes, trailing dense ones, and promises about
    indices.
    """

    indices: Array
    indices_sorted: bool
    unique_indices: bool
    n_batch: int
    n_dense: int

    def __init__(self, args: Sequence[Any], shape: Sequence[int], in_order: Any, unique: Any):
        super().__init__(args, shape=shape)
        self.indices_sorted, self.unique_indices = bool(in_order), bool(unique)

    @property
    def info(self) -> SparseInfo:
        """The shape, and the promises about the indices."""
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    def _counts(self) -> dict[str, int]:
        counts = {"nse": self.nse, "n_batch": self.n_batch, "n_dense": self.n_dense}
        return {name: n for name, n in counts.items() if n or name == "nse"}


def is_sparse(x: Any) -> bool:
    """Whether a value is a sparse array: the `is_leaf` of functions of pytrees."""
    return isinstance(x, JAXSparse)


def arrays(args: Sequence[Any], wanted: Sequence[str], kind: str) -> list[Array]:
    """The arrays that a format consists of, the index arrays checked to be integers."""
    given = util.elements(args, f"the arrays {', '.join(wanted)}")
    if len(given) != len(wanted):
        raise ValueError(f"{kind} is made of {', '.join(wanted)}; got {len(given)} arrays")
    found = [gnp.asarray(x) for x in given]
    for name, x in zip(wanted[1:], found[1:], strict=True):
        if not gnp.issubdtype(x.dtype, np.integer):
            raise TypeError(f"{name} of {kind} must be integers, got {x.dtype}")
    return found
