"""Traced programs as bytes: written here, run anywhere the library is, without the code they came
from.

Floor 6.
"""

from gpuarray.export.exported import Exported as Exported
from gpuarray.export.exported import deserialize as deserialize
from gpuarray.export.exported import export as export
from gpuarray.export.values import (
    register_namedtuple_serialization as register_namedtuple_serialization,
)
from gpuarray.export.values import (
    register_pytree_node_serialization as register_pytree_node_serialization,
)
from gpuarray.names import explain_names as _explain_names

__all__ = [
    "Exported",
    "deserialize",
    "export",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
]

__getattr__ = _explain_names(__name__)
