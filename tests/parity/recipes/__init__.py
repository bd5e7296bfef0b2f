"""The cases, one table a file: which expressions to compare for each public name.

In: the tables. Out: `all_cases()`, every case in a fixed order, and `SKIPPED`, names left out on
purpose.
"""

from . import (
    arrays,
    compositions,
    contract,
    creation,
    devices,
    distributions,
    dtypes,
    elementwise,
    errors,
    hooks,
    indexing,
    jaxprs,
    keywords,
    lax_ops,
    lax_structured,
    libraries,
    linalg,
    nn,
    pallas,
    random,
    reductions,
    scientific,
    settings,
    shapes,
    shardings,
    sparse,
    sparse_primitives,
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
    sparse,
    sparse_primitives,
    pallas,
    tree,
    dtypes,
    indexing,
    arrays,
    transforms,
    settings,
    shardings,
    devices,
    compositions,
    errors,
    hooks,
    x64,
    jaxprs,
    keywords,
    libraries,
]

# Public names that no case calls, and why.
SKIPPED = {
    "lax.ConvGeneralDilatedDimensionNumbers": "a type alias, for annotations",
    "lax.DotDimensionNumbers": "a type alias, for annotations",
    "lax.PrecisionLike": "a type alias, for annotations",
    "checkify.ErrorCategory": "a type alias, for annotations",
    "lax.pcast": "inside shard_map only",
    "lax.psend": "on GPUs only, in JAX",
    "lax.precv": "on GPUs only, in JAX",
    "jax.smap": "inside shard_map only",
    "jax.auto_pcast": "inside shard_map only",
    "jax.reshard": "over a mesh with Explicit axes only",
    "jax.ad": "a namespace of what `vjp` takes and returns",
    "jax.print_environment_info": "prints versions, which differ",
    "jax.Array.format": "prints how a device of XLA lays memory",
    "jax.Array.traceback": "a class of XLA's, unless a setting is on",
    **dict.fromkeys(
        ("jax.host_count", "jax.host_id", "jax.host_ids"), "old names of process_*, which warn"
    ),
}

# Names with fewer cases than others have, and why more would say nothing.
FEW = {
    **dict.fromkeys(("jnp.e", "jnp.euler_gamma", "jnp.inf", "jnp.nan", "jnp.pi"), "a constant"),
    "jnp.ComplexWarning": "a class of NumPy's",
    "tree_util.KeyEntry": "a type alias, for annotations",
    "tree_util.KeyPath": "a type alias, for annotations",
    "lax.create_token": "takes nothing",
    "lax.after_all": "takes tokens, which are all alike",
    "lax.ragged_all_to_all": "needs devices that run at once",
}


def all_cases() -> list[Case]:
    """Every case once, in the order of the tables."""
    return list(dict.fromkeys(case for module in MODULES for case in module.CASES))
