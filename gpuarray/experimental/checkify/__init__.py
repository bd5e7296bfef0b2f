"""Errors that depend on values, as values: `checkify(f)` returns f's first error with its result.

Floor 6. In: functions with checks in them. Out: functions that run under jit, vmap and grad and
return (Error, result). Outside checkify a check is a callback that raises.
"""

from gpuarray.experimental.checkify.errors import DivisionByZeroError as DivisionByZeroError
from gpuarray.experimental.checkify.errors import Error as Error
from gpuarray.experimental.checkify.errors import ErrorCategory as ErrorCategory
from gpuarray.experimental.checkify.errors import FailedCheckError as FailedCheckError
from gpuarray.experimental.checkify.errors import JaxException as JaxException
from gpuarray.experimental.checkify.errors import JaxRuntimeError as JaxRuntimeError
from gpuarray.experimental.checkify.errors import NaNError as NaNError
from gpuarray.experimental.checkify.errors import OOBError as OOBError
from gpuarray.experimental.checkify.errors import all_checks as all_checks
from gpuarray.experimental.checkify.errors import automatic_checks as automatic_checks
from gpuarray.experimental.checkify.errors import check as check
from gpuarray.experimental.checkify.errors import check_error as check_error
from gpuarray.experimental.checkify.errors import debug_check as debug_check
from gpuarray.experimental.checkify.errors import div_checks as div_checks
from gpuarray.experimental.checkify.errors import float_checks as float_checks
from gpuarray.experimental.checkify.errors import index_checks as index_checks
from gpuarray.experimental.checkify.errors import init_error as init_error
from gpuarray.experimental.checkify.errors import nan_checks as nan_checks
from gpuarray.experimental.checkify.errors import user_checks as user_checks
from gpuarray.experimental.checkify.transform import checkify as checkify
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
