"""Primitives of the library by JAX's names: `add_p`, `dot_general_p`, `while_p`.

Floor 6. In: a name. Out: the primitive of that name in printed programs, for
interpreters of Graphs.
"""

from __future__ import annotations

from gpuarray.core.primitive import Primitive, registry
from gpuarray.names import no_attribute


def __getattr__(name: str) -> Primitive:
    """The primitive of a name that ends in `_p`.

    >>> import gpuarray as ga
    >>> from gpuarray.extend.core import primitives
    >>> ga.make_jaxpr(lambda x: x + 1)(2.0).eqns[0].primitive is primitives.add_p
    True
    """
    found = registry.get(name.removesuffix("_p")) if name.endswith("_p") else None
    if found is None:
        raise no_attribute(__name__, name)
    return found


def __dir__() -> list[str]:
    # Some names, such as "scatter-add", are not identifiers.
    return sorted(f"{name}_p" for name in registry if name.isidentifier())
