"""Element types: how promotion works, and the types that NumPy does not have.

Floor 6. The public face of `gpuarray.core.dtypes` and `core.promotion`.
"""

from gpuarray.core import dtypes as _core
from gpuarray.core.dtypes import canonicalize_dtype as canonicalize_dtype
from gpuarray.core.dtypes import extended as extended
from gpuarray.core.dtypes import finfo as finfo
from gpuarray.core.dtypes import float0 as float0
from gpuarray.core.dtypes import iinfo as iinfo
from gpuarray.core.dtypes import issubdtype as issubdtype
from gpuarray.core.dtypes import itemsize_bits as itemsize_bits
from gpuarray.core.dtypes import prng_key as prng_key
from gpuarray.core.dtypes import scalar_type_of as scalar_type_of
from gpuarray.core.promotion import TypePromotionError as TypePromotionError
from gpuarray.core.promotion import result_type as result_type
from gpuarray.names import explain_names as _explain_names

#: The scalar type of bfloat16 numbers, as `numpy.float32` is that of float32.
bfloat16 = _core.bfloat16.type

__getattr__ = _explain_names(__name__)
