"""Which primitives have kernels: all but those that are steps of a library, or of the host.

In: nothing. Out: `LIBRARY`, by name, and `has_kernel(primitive)`. The list can only get shorter.
"""

from gpuarray.core.primitive import Kind, Primitive

#: What a library does better than a kernel of ours would, what runs on the host, and what holds a
#: Graph; all other primitives have kernels.
LIBRARY = frozenset(
    # matrices; products and convolutions have kernels where they are small
    "ragged_dot_general fft "
    "cholesky lu geqrf qr eigh eig svd schur hessenberg "
    "tridiagonal triangular_solve tridiagonal_solve householder_product ormqr "
    "symmetric_product cholesky_update lu_pivots_to_permutation "
    # order, where it is not promised
    "approx_top_k "
    # a generator with a state that nobody sees
    "rng_uniform "
    # copies between kinds of memory
    "device_put "
    # elements of users' dtypes, made and opened
    "to_edtype from_edtype "
    # the host
    "pure_callback io_callback debug_callback debug_print optimization_barrier".split()
)


def has_kernel(primitive: Primitive) -> bool:
    """Whether a primitive is to have kernels."""
    held = primitive.kind in (Kind.CALL, Kind.COLLECTIVE)
    return not held and primitive.name not in LIBRARY
