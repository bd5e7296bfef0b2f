"""The cases, one table a file: which expressions to compare for each public name.

In: the tables. Out: `all_cases()`, every case in a fixed order, and `SKIPPED`, names left out on
purpose.
"""

from . import (
    arrays,
    compositions,
    contract,
    creation,
    distributions,
    dtypes,
    elementwise,
    errors,
    indexing,
    jaxprs,
    lax_ops,
    lax_structured,
    linalg,
    nn,
    random,
    reductions,
    scientific,
    shapes,
    special,
    statistics,
    transforms,
    tree,
    x64,
)
from .dsl import Case as Case

MODULES = [
    elementwise,
    reductions,
    shapes,
    creation,
    contract,
    statistics,
    linalg,
    lax_ops,
    lax_structured,
    nn,
    random,
    special,
    distributions,
    scientific,
    tree,
    dtypes,
    indexing,
    arrays,
    transforms,
    compositions,
    errors,
    x64,
    jaxprs,
]

# Public names that no case calls, and why.
SKIPPED = {
    "jnp.load": "reads a file",
    "jnp.save": "writes a file",
    "jnp.savez": "writes a file",
    "jnp.fromfile": "reads a file",
    "lax.ConvGeneralDilatedDimensionNumbers": "a type alias",
    "lax.DotDimensionNumbers": "a type alias",
    "lax.PrecisionLike": "a type alias",
    "lax.DotAlgorithm": "describes accelerator arithmetic that a CPU lacks",
    "lax.Tolerance": "accuracy requests that the CPU ignores",
    "lax.RaggedDotDimensionNumbers": "only with ragged_dot_general",
    "lax.ragged_dot_general": "only ragged_dot runs on the CPU",
    "lax.scaled_dot": "needs an accelerator",
    "checkify.ErrorCategory": "a type alias",
    "lax.pcast": "needs a mesh of several devices",
    "lax.psend": "needs a mesh of several devices",
    "lax.precv": "needs a mesh of several devices",
    "lax.ragged_all_to_all": "needs a mesh of several devices",
}


def all_cases() -> list[Case]:
    """Every case once, in the order of the tables."""
    return list(dict.fromkeys(case for module in MODULES for case in module.CASES))
