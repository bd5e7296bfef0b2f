"""Foundations of everything above: dtypes, avals, primitives, traces, graphs. Floor 1.

The names here are those of `jax.core`; the rest of that module is `gpuarray.extend.core`.
"""

from gpuarray.core.avals import ShapedArray as ShapedArray
from gpuarray.core.graph import Atom as Atom
from gpuarray.core.graph import eval_jaxpr as eval_jaxpr
from gpuarray.core.trace import Trace as Trace
from gpuarray.core.trace import Tracer as Tracer
