"""The modules that libraries import in spite of their names, below `jax._src` and `jaxlib`, or for
devices that are not there: one table.

Floor 6. In: the name of such a module. Out: a module of that name, with the names of the modules
listed for it in the table. A name outside the table is missing, as documented.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

from gpuarray.missing import find

#: module below `jax._src`: the modules here that have its names, in order; "a=b" gives the name `a`
#: to `b` of the preceding module.
_SRC = {
    "": "",
    "ad_checkpoint": "ad_checkpoint api.checkpoint",
    "ad_util": "compat.leftovers interpreters.ad",
    "api": "gpuarray api_util",
    "api_util": "api_util functions.argnums fun_signature=signature_of",
    "array": "runtime.array compat.leftovers _reconstruct_array=unpickled",
    "checkify": "experimental.checkify compat.leftovers",
    "compiler": "runtime.execute",
    "config": "config",
    "core": "compat.core extend.tracing compat.leftovers",
    "custom_derivatives": "custom_derivatives",
    "dispatch": "interpreters.xla runtime.transfer wait_for_tokens=effects_barrier",
    "distributed": "compat.leftovers",
    "dtypes": "dtypes core.dtypes core.promotion core.extended compat.leftovers",
    "effects": "extend.core",
    "flatten_util": "flatten_util",
    "interpreters": "",
    "interpreters.ad": "interpreters.ad",
    "interpreters.batching": "interpreters.batching",
    "interpreters.mlir": "interpreters.mlir",
    "interpreters.partial_eval": "interpreters.partial_eval",
    "interpreters.pxla": "interpreters.pxla",
    "interpreters.xla": "interpreters.xla",
    "lax": "",
    "lax.control_flow": "lax extend.core.primitives",
    "lax.lax": "lax extend.core.primitives",
    "linear_util": "extend.linear_util",
    "mesh": "sharding",
    "numpy": "",
    "numpy.lax_numpy": "numpy",
    "numpy.ufuncs": "numpy",
    "numpy.util": "compat.leftovers numpy.promotion",
    "pjit": "extend.core.primitives sharding",
    "public_test_util": "test_util",
    "random": "random",
    "scipy": "",
    "scipy.special": "scipy.special",
    "sharding": "sharding",
    "sharding_impls": "sharding",
    "source_info_util": "extend.source_info_util",
    "stages": "stages",
    "state": "transforms.references",
    "state.types": "transforms.references",
    "traceback_util": "compat.tracebacks",
    "tree_util": "tree_util compat.leftovers _registry=registry",
    "typing": "typing",
    "util": "util api_util",
    "xla_bridge": "extend.backend compat.leftovers _backends=platforms",
}
#: What jaxlib's modules written in C++ have, which annotations and checks of types name.
_TYPES = (
    "compat.leftovers runtime.array runtime.client core.sharding sharding tree_util "
    "errors XlaRuntimeError=JaxRuntimeError functions.jitted PjitFunction=Jitted"
)
#: module: the modules here that have its names. Those without any are kernels for TPUs: programs
#: import them wherever they run, and use them there.
TABLE = {
    **{f"jax._src.{name}".rstrip("."): sources for name, sources in _SRC.items()},
    "jax.experimental.pallas.ops": "",
    "jax.experimental.pallas.ops.tpu": "",
    "jax.experimental.pallas.ops.tpu.splash_attention": "",
    "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel": "",
    "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask": "",
    "jaxlib": "compat.version __version__=__version__",
    "jaxlib._jax": _TYPES,
    "jaxlib.xla_client": _TYPES,
}
_HERE = __name__.partition(".")[0]


class PrivateModule(types.ModuleType):
    """A module of the table, which takes its names from modules here."""

    __path__: list[str] = []  # modules below it come from the finder

    def __init__(self, name: str):
        super().__init__(name, f"Names of {name} that libraries use, provided by {_HERE}.")
        self._sources: list[str] = []
        self._renamed: dict[str, tuple[str, str]] = {}
        for word in TABLE[name].split():
            theirs, renamed, ours = word.partition("=")
            if renamed:
                self._renamed[theirs] = self._sources[-1], ours
            else:
                self._sources.append(word if word == _HERE else f"{_HERE}.{word}")

    def __reduce__(self) -> tuple:
        return importlib.import_module, (self.__name__,)

    def __setattr__(self, name: str, value: Any) -> None:
        # A function that a library replaces is replaced where it is used.
        for source in () if name[:1] == "_" else self._sources:
            module = importlib.import_module(source)
            if hasattr(module, name):
                setattr(module, name, value)
                return
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        # Looked up at each use: a value may change, such as the table of platforms.
        if name in self._renamed:
            source, ours = self._renamed[name]
            return getattr(importlib.import_module(source), ours)
        # A module below, whether it was imported before or not.
        if is_known(f"{self.__name__}.{name}"):
            return importlib.import_module(f"{self.__name__}.{name}")
        # The import system looks up dunder names.
        if name[:2] != "__":
            for source in self._sources:
                found = getattr(importlib.import_module(source), name, self)
                if found is not self:
                    return found
        raise AttributeError(
            f"module {self.__name__!r} has no attribute {name!r}: {_why_missing(self.__name__)}"
        )


def _why_missing(module: str) -> str:
    # A part of something public that is missing as a whole says why that is.
    path = module.removeprefix("jax.")
    while path:
        if group := find(path):
            return f"it belongs to {group.title}: {group.why}."
        path = path.rpartition(".")[0]
    return (
        f"it is private to JAX, and {_HERE} has only what libraries are known to use of it "
        f"({__name__})."
    )


def is_known(fullname: str) -> bool:
    """Whether the table has a module of this name."""
    return fullname in TABLE
