"""Extending the library: user-defined primitives, Graphs as data, traces, generators, platforms.

Floor 6.
"""

from gpuarray.extend import backend as backend
from gpuarray.extend import core as core
from gpuarray.extend import ifrt_programs as ifrt_programs
from gpuarray.extend import linear_util as linear_util
from gpuarray.extend import random as random
from gpuarray.extend import source_info_util as source_info_util
from gpuarray.names import explain_names as _explain_names

__getattr__ = _explain_names(__name__)
