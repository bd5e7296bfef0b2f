"""Argument handling shared by all samplers: one typed key, a float dtype, a shape that fits the
parameters.

Floor 6. In: the user's arguments. Out: the arguments of the traced samplers, or an error that names
the sampler.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gpuarray import config, lax
from gpuarray.core import dtypes, promotion
from gpuarray.core.value import Array
from gpuarray.lax.args import canonicalize_shape, shape_of
from gpuarray.primitives.random.ops import KeyImpl, implementation, random_wrap_p
from gpuarray.runtime import transfer
from gpuarray.runtime.key_reuse import use_up

# ---- keys ----


def is_key(x) -> bool:
    """Whether `x` is an array of typed keys."""
    return isinstance(x, Array) and isinstance(x.dtype, dtypes.KeyDtype)


def generator(impl: Any) -> KeyImpl:
    """The random generator for an `impl=` argument; None means the default one."""
    if impl is None:
        return implementation(config.state.default_prng_impl)
    if isinstance(impl, KeyImpl):
        return impl
    if isinstance(impl, dtypes.KeyDtype):
        return impl.impl
    if isinstance(impl, str):
        return implementation(impl)
    raise TypeError(
        f"unrecognized type {type(impl)} for specifying PRNG implementation. Give its name, such "
        "as 'threefry2x32'."
    )


def wrapped(data: Any, impl: KeyImpl) -> Any:
    """Key words as typed keys: uint32[..., words] -> key[...]."""
    if not (hasattr(data, "ndim") and hasattr(data, "shape") and hasattr(data, "dtype")):
        raise TypeError(
            "invalid PRNG key data: expected key_data to have ndim, shape, and dtype attributes. "
            f"Got {data}. Make a key with gpuarray.random.key(seed)."
        )
    if data.ndim < 1:
        raise TypeError(f"invalid PRNG key data: expected key_data.ndim >= 1; got ndim={data.ndim}")
    # Raw keys end in the words of their generator.
    rank = len(impl.key_shape)
    if tuple(data.shape[-rank:]) == impl.key_shape and data.dtype != np.uint32:
        raise TypeError(
            f"invalid PRNG key data: expected key_data.dtype = uint32; got dtype={data.dtype}"
        )
    return random_wrap_p.bind(data, impl=impl)


def typed(key: Any) -> tuple[Any, bool]:
    """(typed keys, whether they came as plain words)."""
    if is_key(key):
        return key, False
    if not (isinstance(key, (Array, np.ndarray, np.generic, int, float)) or hasattr(key, "aval")):
        raise TypeError(
            f"unexpected PRNG key type {type(key)}: make a key with gpuarray.random.key(seed)."
        )
    found = wrapped(key, generator(None))
    # The setting about old-style uint32 keys.
    rule = config.state.legacy_prng_key
    if rule == "error":
        raise ValueError(_LEGACY)
    if rule == "warn":
        warnings.warn(_LEGACY, stacklevel=4)
    return found, True


_LEGACY = (
    "Legacy uint32 key array passed as key to a random function. Make keys with "
    "gpuarray.random.key(), or set jax_legacy_prng_key='allow' where raw words are meant."
)


def one_key(name: str, key: Any, consume: bool = True) -> tuple[Any, bool]:
    """(one typed key, whether it was given as words); with `consume` its randomness is used up."""
    found, plain = typed(key)
    if found.ndim:
        raise ValueError(
            f"{name} accepts a single key, but was given a key array of shape {found.shape} != (). "
            "Use vmap for batching."
        )
    # Old-style keys are plain arrays, which may be read twice.
    if config.state.debug_key_reuse and consume and not plain:
        use_up(name, found)
    return found, plain


# ---- dtypes and shapes ----


def float_dtype(name: str, dtype: Any, complex_too: bool = False) -> Any:
    """The canonical dtype of a sampler's result."""
    found = dtypes.check_user_dtype(float if dtype is None else dtype, name)
    kind = dtypes.kind_of(found)
    if kind != "f" and not (complex_too and kind == "c"):
        sorts = "float or complex" if complex_too else "float"
        raise ValueError(
            f"dtype argument to `{name}` must be a {sorts} dtype, got "
            f"{getattr(found, 'name', found)}"
        )
    return found


def check_safe(name: str, dtype: Any, *parameters: Any) -> None:
    """Raise TypePromotionError where a parameter would lose digits in the dtype of the result."""
    for x in parameters:
        if promotion.lattice_result_type(x, dtype)[0] != dtype:
            raise promotion.TypePromotionError(
                f"In arguments to {name}, cannot safely cast argument of type "
                f"{dtypes.canonicalize_dtype(dtypes.dtype(x)).name} to {dtype.name}. Convert it "
                "first with .astype(...), or ask for another dtype."
            )


def int_dtype(name: str, dtype: Any) -> Any:
    """The canonical integer dtype of a sampler's result."""
    found = dtypes.check_user_dtype(int if dtype is None else dtype, name)
    if dtypes.kind_of(found) not in "iu":
        raise ValueError(
            f"dtype argument to `{name}` must be an int dtype, got {getattr(found, 'name', found)}"
        )
    return found


def sample_shape(name: str, shape: Any, *parameters: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a result: the broadcast parameters' shape, or the requested one if they
    fit it.
    """
    if shape is None:
        return lax.broadcast_shapes(*parameters)
    shape = canonicalize_shape(shape)
    common = lax.broadcast_shapes(shape, *parameters)
    if common != shape:
        raise ValueError(
            f"{name} parameter shapes must be broadcast-compatible with shape argument, and the "
            "result of broadcasting the shapes must equal the shape argument, but got result "
            f"{common} for shape argument {shape}."
        )
    return shape


def array(name: str, x: Any) -> Any:
    """A parameter that only needs to be some array or scalar."""
    dtypes.dtype(x)  # a list has none: TypeError
    return x


# ---- arithmetic between shapes ----


def spread(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` broadcast to `shape`, its axes last."""
    own = shape_of(x)
    if own == shape:
        return x
    return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - len(own), len(shape))))


def ranked(x: Any, rank: int) -> Any:
    """`x` with leading axes of length 1 up to a rank, as lax wants operands; scalars stay."""
    own = shape_of(x)
    if not own or len(own) == rank:
        return x
    lead = rank - len(own)
    return lax.broadcast_in_dim(x, (1,) * lead + own, tuple(range(lead, rank)))


def placed(name: str, x: Any, out_sharding: Any) -> Any:
    """`x` where `out_sharding` wants it."""
    return x if out_sharding is None else transfer.placed(name, x, out_sharding)
