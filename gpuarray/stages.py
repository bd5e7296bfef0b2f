"""The stages of `jit` (traced, lowered, compiled) by JAX's name: see `gpuarray.functions.stages`.

Floor 6: re-exports, and types used in annotations.
"""

from typing import Any, Protocol, runtime_checkable

from gpuarray.functions.stages import ArgInfo as ArgInfo
from gpuarray.functions.stages import Compiled as Compiled
from gpuarray.functions.stages import Lowered as Lowered
from gpuarray.functions.stages import MemoryStats as MemoryStats
from gpuarray.functions.stages import ShapeDtypeStruct as ShapeDtypeStruct
from gpuarray.functions.stages import Stage as Stage
from gpuarray.functions.stages import Traced as Traced
from gpuarray.names import explain_names as _explain_names

#: The type of `compile`'s options: those of the XLA compiler, none of which exist here.
CompilerOptions = dict[str, str | bool]


@runtime_checkable
class Wrapped(Protocol):
    """The result of `jit`: it can be called, traced and lowered.

    >>> import gpuarray as ga
    >>> isinstance(ga.jit(abs), ga.stages.Wrapped), isinstance(abs, ga.stages.Wrapped)
    (True, False)
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def trace(self, *args: Any, **kwargs: Any) -> Traced: ...

    def lower(self, *args: Any, **kwargs: Any) -> Lowered: ...


__getattr__ = _explain_names(__name__)
