"""Mutable references, by JAX's name: see `gpuarray.api.references`.

Floor 6: re-exports.
"""

from gpuarray.api.references import AbstractRef as AbstractRef
from gpuarray.api.references import Ref as Ref
from gpuarray.api.references import addupdate as addupdate
from gpuarray.api.references import empty_ref as empty_ref
from gpuarray.api.references import free_ref as free_ref
from gpuarray.api.references import freeze as freeze
from gpuarray.api.references import get as get
from gpuarray.api.references import new_ref as new_ref
from gpuarray.api.references import set as set
from gpuarray.api.references import swap as swap
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
