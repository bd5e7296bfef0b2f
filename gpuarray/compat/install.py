"""`install_as_jax`: from then on `import jax` and everything below it means this library.

Floor 6. In: nothing. Out: a module named `jax`, a finder for the modules below it (each the same
module as here, under both names), and package metadata, so that version checks of other libraries
pass. Nothing of it exists before the call.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

from gpuarray import config
from gpuarray.compat import private
from gpuarray.core.trace import Tracer
from gpuarray.core.value import Array
from gpuarray.functions.jitted import Jitted
from gpuarray.runtime.array import ArrayImpl
from gpuarray.version import JAX_VERSION as JAX_VERSION

#: Modules whose counterpart here has another name.
_ELSEWHERE = {
    "jax.core": "gpuarray.compat.core",
    "jax.lib": "gpuarray.compat.version",
    "jax.version": "gpuarray.compat.version",
    "jaxlib.version": "gpuarray.compat.version",
}
#: Folders here whose names mean something else in JAX.
_OURS = frozenset(
    f"jax.{name}"
    for name in (
        *("api", "backends", "cli", "compat", "compiler", "control", "functions"),
        *("primitives", "pytree", "runtime", "transforms", "util"),
    )
)
#: The library itself; it is there whenever this module is.
_ROOT = sys.modules[__name__.partition(".")[0]]


class _Module(types.ModuleType):
    """The module `jax`: the contents of `gpuarray`, with JAX's version."""

    __version__ = JAX_VERSION
    __version_info__ = tuple(map(int, JAX_VERSION.split(".")))
    __path__: list[str] = []  # a package: its modules come from the finder below

    def __getattr__(self, name: str) -> Any:
        # gpuarray.core, for one, holds the library's own parts.
        if f"jax.{name}" not in _ELSEWHERE and hasattr(_ROOT, name):
            return getattr(_ROOT, name)
        try:
            return importlib.import_module(f"jax.{name}")
        except ModuleNotFoundError:
            return getattr(_ROOT, name)  # raises an error that names the missing or unknown name

    def __dir__(self) -> list[str]:
        return [*dir(_ROOT), "core"]

    def __reduce__(self) -> tuple:
        # By name, as cloudpickle does for modules of the usual type, in functions that use them.
        return importlib.import_module, (self.__name__,)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `jax.x.y` as `gpuarray.x.y`, and the metadata of the packages `jax` and `jaxlib`."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if private.is_known(fullname):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        ours = _name_here(fullname)
        if ours is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=ours, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if spec.origin is None:
            return private.PrivateModule(spec.name)
        # The very module, not a copy: a class has to be the same under both names.
        module = importlib.import_module(spec.origin)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run; the import system replaced the module's spec: restore it."""
        assert module.__spec__ is not None
        if not isinstance(module, private.PrivateModule):
            module.__spec__ = module.__spec__.loader_state or module.__spec__

    def find_distributions(self, context: Any) -> Iterable[Any]:
        names = ("jax", "jaxlib")
        wanted = names if context.name is None else [n for n in names if n == context.name]
        return [_distribution(name) for name in wanted]


def _distribution(package: str) -> Any:
    """The package metadata returned by `importlib.metadata`."""
    # Only if it is imported by others: it loads the parsers of mail, 10 ms of import time.
    import importlib.metadata

    class Provided(importlib.metadata.Distribution):
        def read_text(self, filename: str) -> str | None:
            if filename != "METADATA":
                return None
            return f"Metadata-Version: 2.1\nName: {package}\nVersion: {JAX_VERSION}\n"

        def locate_file(self, path: Any) -> Any:
            raise FileNotFoundError(f"{package} is provided by gpuarray and has no file {path}")

    return Provided()


def _name_here(fullname: str) -> str | None:
    """The name of the gpuarray module for a module of JAX, or None."""
    if fullname in _ELSEWHERE:
        return _ELSEWHERE[fullname]
    # Only names below `jax`, and none of this library's internal parts.
    head, _, rest = fullname.partition(".")
    if head != "jax" or not rest or ".".join(fullname.split(".")[:2]) in _OURS:
        return None
    # Modules below one that has another name here follow it.
    for theirs, ours in _ELSEWHERE.items():
        if fullname.startswith(theirs + "."):
            name = ours + fullname[len(theirs) :]
            break
    else:
        name = f"gpuarray.{rest}"
    try:
        # find_spec imports the packages above the name, and raises where one is missing.
        return name if importlib.util.find_spec(name) is not None else None
    except ModuleNotFoundError:
        return None


def install_as_jax(*, threefry_partitionable: bool | None = None) -> None:
    """Make `import jax` mean this library, for libraries written for JAX, in this process.

    Call it before anything imports JAX; calling it again has no effect.

    ```
    import gpuarray
    gpuarray.install_as_jax()
    import optax, jax.numpy as jnp       # both run on gpuarray
    ```

    Parameters
    ----------
    threefry_partitionable :
        The stream of random numbers of `jax.random` from then on. True: that of JAX 0.10, which
        also makes the same numbers over several devices. False: the older one, which JAX had before
        version 0.5. None: do not change the setting, which selects the older stream unless a
        program or `JAX_THREEFRY_PARTITIONABLE` changes it.
    """
    present = sys.modules.get("jax")
    if isinstance(present, _Module):
        _choose_stream(threefry_partitionable)
        return
    if present is not None:
        raise RuntimeError(
            "jax itself is already imported in this process: call gpuarray.install_as_jax() "
            "first, before anything that imports jax."
        )
    module = _Module("jax", "JAX's names, provided by gpuarray.")
    module.__file__ = _ROOT.__file__
    finder = _Finder()
    module.__spec__ = importlib.machinery.ModuleSpec("jax", finder, is_package=True)
    sys.meta_path.insert(0, finder)
    # After the finder, which the modules below `jax` need.
    sys.modules["jax"] = module
    # Libraries tell jitted functions by the name of their class, under which pickles look for it.
    Jitted.__qualname__ = "PjitFunction"
    vars(sys.modules[Jitted.__module__])["PjitFunction"] = Jitted
    _arrays_as_in_jax()
    _choose_stream(threefry_partitionable)


def _arrays_as_in_jax() -> None:
    """Make NumPy's functions, and those who ask where a class is from, take arrays for JAX's."""
    # Libraries write into what np.zeros_like(x) or np.sqrt(x) returns: of known values NumPy's own
    # arrays, as under JAX. Operators look at __array_priority__ then.
    for hook in ("__array_ufunc__", "__array_function__"):
        setattr(Tracer, hook, vars(Array)[hook])
        delattr(Array, hook)
    # Others choose the functions for an array by the module of its class (opt_einsum, autoray).
    Array.__module__ = "jax"
    ArrayImpl.__module__ = "jaxlib._jax"
    tracers = [Tracer]
    for kind in tracers:
        kind.__module__ = "jax._src.core"
        tracers += kind.__subclasses__()


def _choose_stream(partitionable: bool | None) -> None:
    if partitionable is not None:
        config.config.update("threefry_partitionable", partitionable)
    kept = "that of JAX 0.10" if config.state.threefry_partitionable else "the older one"
    logging.getLogger("gpuarray").info(
        "jax.random has %s of the two streams of random numbers (threefry_partitionable=%s)",
        kept,
        config.state.threefry_partitionable,
    )
