"""Primitives of the library by JAX's names: `add_p`, `dot_general_p`, `while_p`.

Floor 6. In: a name. Out: the primitive of that name in printed programs, for
interpreters of Graphs.
"""

from __future__ import annotations

from gpuarray.core.primitive import Primitive, registry
from gpuarray.lax.elsewhere import BY_NAME
from gpuarray.names import no_attribute

#: Primitives whose printed names differ from JAX's variable names.
_RENAMED = {
    "add_jaxvals_p": "add_any",
    "linear_solve_p": "custom_linear_solve",
    "remat_p": "remat2",
}


def __getattr__(name: str) -> Primitive:
    """The primitive of a name that ends in `_p`.

    >>> import gpuarray as ga
    >>> from gpuarray.extend.core import primitives
    >>> ga.make_jaxpr(lambda x: x + 1)(2.0).eqns[0].primitive is primitives.add_p
    True
    """
    found = None
    if name.endswith("_p"):
        plain = _RENAMED.get(name, name.removesuffix("_p"))
        # Some names in printed programs, such as "scatter-add", are not identifiers. Names that
        # programs do not contain come first: JAX's part of `device_put` has a name that programs
        # contain.
        found = BY_NAME.get(name) or registry.get(plain) or registry.get(plain.replace("_", "-"))
    if found is None:
        raise no_attribute(__name__, name)
    return found


def __dir__() -> list[str]:
    names = {f"{name.replace('-', '_')}_p" for name in registry}
    return sorted(names | set(_RENAMED) | set(BY_NAME))
