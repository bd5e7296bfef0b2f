"""Traced programs as bytes: written here, run anywhere the library is, without the code they came
from.

Floor 6.
"""

from gpuarray.export.exported import DisabledSafetyCheck as DisabledSafetyCheck
from gpuarray.export.exported import Exported as Exported
from gpuarray.export.exported import default_export_platform as default_export_platform
from gpuarray.export.exported import deserialize as deserialize
from gpuarray.export.exported import export as export
from gpuarray.export.exported import (
    maximum_supported_calling_convention_version as maximum_supported_calling_convention_version,
)
from gpuarray.export.exported import (
    minimum_supported_calling_convention_version as minimum_supported_calling_convention_version,
)
from gpuarray.export.shapes import SymbolicScope as SymbolicScope
from gpuarray.export.shapes import is_symbolic_dim as is_symbolic_dim
from gpuarray.export.shapes import symbolic_args_specs as symbolic_args_specs
from gpuarray.export.shapes import symbolic_shape as symbolic_shape
from gpuarray.export.values import (
    register_namedtuple_serialization as register_namedtuple_serialization,
)
from gpuarray.export.values import (
    register_pytree_node_serialization as register_pytree_node_serialization,
)
from gpuarray.names import explain_names as _explain_names

__all__ = [
    "DisabledSafetyCheck",
    "Exported",
    "SymbolicScope",
    "default_export_platform",
    "deserialize",
    "export",
    "is_symbolic_dim",
    "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "symbolic_args_specs",
    "symbolic_shape",
]

__getattr__ = _explain_names(__name__)
