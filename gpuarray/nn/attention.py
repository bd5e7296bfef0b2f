"""dot_product_attention: softmax(Q K^T) V, with masks, biases, grouped heads and windows.

Floor 6. In: query, key, value as (batch, time, heads, width). Out: an Array of the query's shape.
Two batched products with one fused kernel between them; the scores are kept in 32 bits or more. On
a GPU the compiler makes one kernel of it where the scores are large
(compiler/rewrite/sweep_products.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuarray import lax, util
from gpuarray import numpy as gnp
from gpuarray.core import dtypes, promotion
from gpuarray.core.value import Array
from gpuarray.lax.args import ArrayLike
from gpuarray.nn.normalize import logsumexp, softmax


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Array | tuple[Array, Array]:
    """softmax(scale * query @ key^T + bias) @ value, for each head.

    Shape contract: query (B, T, N, H), key and value (B, S, K, H), N a multiple of K (heads are
    then shared) -> (B, T, N, H); all without B where the arguments have three axes.

    Parameters
    ----------
    bias :
        (B, N, T, S), or broadcastable to it: added to the scores.
    mask :
        (B, N, T, S), or broadcastable to it: False hides a score.
    scale :
        Factor of the scores; default: 1/sqrt(H).
    is_causal :
        Whether query t sees no key s > t.
    query_seq_lengths, key_value_seq_lengths :
        (B,), int32: how many of the T queries and of the S keys are in use.
    local_window_size :
        (left, right), or one number for both: query t sees keys t - left to t + right.
    implementation :
        None or "xla".
    return_residual :
        Whether to return the logsumexp of the scores too, (B, T, N).

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> q, k = gnp.ones((1, 1, 1, 4)), gnp.ones((1, 2, 1, 4))
    >>> dot_product_attention(q, k, gnp.arange(8.0).reshape(1, 2, 1, 4))
    Array([[[[2., 3., 4., 5.]]]], dtype=float32)
    """
    _check_implementation(implementation)
    query = gnp.asarray(query)
    shape = query.shape
    q = _four_axes("query", query)
    k, v = _four_axes("key", gnp.asarray(key)), _four_axes("value", gnp.asarray(value))
    batch, length, heads, width = _check_operands(q, k, v)
    # Keys and values may have fewer heads than queries: each serves a group of them.
    span, shared = k.shape[1], k.shape[2]
    full = (batch, heads, length, span)
    window = _window(local_window_size)

    # Heads that share a key are adjacent: (B, T, K, G, H) against (B, S, K, H) -> (B, K, T, G, S).
    grouped = (batch, length, shared, heads // max(shared, 1), width)
    # Scores of half floats are kept in float32 up to the softmax.
    wide = promotion.wider(q.dtype, np.float32)
    scores = lax.dot_general(
        q.reshape(grouped), k, (((4,), (3,)), ((0, 2), (0, 2))), preferred_element_type=wide
    )
    # Scale, bias and mask, then a softmax over the keys.
    if scale is None:
        scale = 1.0 / np.sqrt(width) if width else 0.0
    # A number of the scores' own dtype: it must not widen them.
    scores = scores * gnp.asarray(scale, dtype=scores.dtype)
    if bias is not None:
        bias = _check_scores_operand("bias", gnp.asarray(bias), full)
        scores = (scores + _grouped(bias, grouped)).astype(scores.dtype)
    if mask is not None:
        mask = _check_scores_operand("mask", gnp.asarray(mask), full)
        if mask.dtype != np.bool_:
            raise ValueError(f"mask dtype should be bool, but got {mask.dtype}: compare it first.")
    q_lengths = _check_lengths("query_seq_lengths", query_seq_lengths, batch)
    kv_lengths = _check_lengths("key_value_seq_lengths", key_value_seq_lengths, batch)
    # Everything that hides a key from a query, in one mask.
    visible = _visible(full, mask, is_causal, q_lengths, kv_lengths, window)
    if visible is not None:
        # Far below every score, yet finite: a row without any visible key gives a mean, not nan.
        hidden = -0.7 * float(dtypes.finfo(scores.dtype).max)
        scores = gnp.where(_grouped(visible, grouped), scores, gnp.asarray(hidden, scores.dtype))

    weights = softmax(scores).astype(k.dtype)
    # The weighted mean of the values, back in the queries' order of axes.
    mixed = lax.dot_general(
        weights, v, (((4,), (1,)), ((0, 1), (0, 2))), preferred_element_type=k.dtype
    )
    out = gnp.transpose(mixed, (0, 2, 1, 3, 4)).reshape(q.shape)
    # Queries beyond the end of their sequence give zeros.
    if q_lengths is not None:
        in_use = gnp.arange(length)[None, :] < q_lengths[:, None]
        out = out * in_use[:, :, None, None].astype(out.dtype)
    out = out.reshape(shape)
    if not return_residual:
        return out
    # The residual of a blockwise backward pass; it is not differentiated.
    residual: Any = logsumexp(scores, axis=-1)
    residual = gnp.transpose(residual.astype(k.dtype), (0, 2, 1, 3)).reshape(shape[:-1])
    return out, lax.stop_gradient(residual)


def _four_axes(name: str, x: Array) -> Array:
    """`x` with leading axes of length 1 until it has four."""
    if x.ndim > 4:
        raise ValueError(f"{name} ndim should be 4, but got {x.ndim}: shape {x.shape}")
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def _check_implementation(implementation: str | None) -> None:
    if implementation == "cudnn":
        raise RuntimeError(
            "cuDNN is not detected: its attention kernels are not available here. Leave "
            "`implementation` out: the scores and the softmax are fused without it."
        )
    if implementation not in (None, "xla"):
        raise ValueError(
            f"Unsupported implementation option: {implementation}. Pass None or 'xla'."
        )


def _check_operands(q: Array, k: Array, v: Array) -> tuple[int, ...]:
    """Check shapes and dtypes against the key's; return the query's shape."""
    batch, span, shared, width = k.shape
    expected = (
        ("query", q, (batch, -1, -1, width)),
        ("value", v, (batch, span, shared, width)),
    )
    # -1 matches any length.
    for name, x, want in expected:
        if any(n not in (-1, have) for n, have in zip(want, x.shape, strict=True)):
            raise ValueError(f"{name} shape should be {list(want)}: but got {x.shape}")
        if x.dtype != k.dtype:
            raise ValueError(
                f"{name} dtype should be {k.dtype}, but got {x.dtype}: convert it with .astype."
            )
    # Without key heads there may be no query heads either.
    if q.shape[2] % shared if shared else q.shape[2]:
        raise ValueError(
            "The number of query heads must be a multiple of key/value heads, but got "
            f"{q.shape[2]} vs {shared}"
        )
    return q.shape


def _check_scores_operand(name: str, x: Array, full: tuple[int, ...]) -> Array:
    """A bias or mask with four axes, each of length 1 or that of the scores."""
    shape = x.shape
    x = _four_axes(name, x)
    if any(n not in (1, m) for n, m in zip(x.shape, full, strict=True)):
        raise ValueError(
            f"{name} of shape {shape} does not broadcast to (batch, heads, queries, keys) = {full}"
        )
    return x


def _check_lengths(name: str, lengths: ArrayLike | None, batch: int) -> Array | None:
    if lengths is None:
        return None
    x = gnp.asarray(lengths)
    if x.ndim != 1:
        raise ValueError(f"{name} ndim should be 1, but got {x.ndim}")
    if x.dtype != np.int32:
        raise ValueError(f"{name} dtype should be int32, but got {x.dtype}")
    if x.shape != (batch,):
        raise ValueError(f"{name} shape should be {[batch]}: but got {x.shape}")
    return x


def _window(size: Any) -> tuple[int, int] | None:
    if size is None:
        return None
    try:
        # One number looks as far in both directions.
        pair = (size, size) if not isinstance(size, (tuple, list)) else tuple(size)
        left, right = (util.index(n) for n in pair)
    except (TypeError, ValueError):
        raise ValueError(
            f"local_window_size should be an int or a pair (left, right), but got {size!r}"
        ) from None
    return left, right


def _grouped(x: Array, grouped: tuple[int, ...]) -> Array:
    """(B, N or 1, T, S) as (B, K, T, G, S), the order of the scores."""
    shared, group = grouped[2:4]
    b, n, t, s = x.shape
    # A head axis of length 1 broadcasts over both parts.
    split = (shared, group) if n == shared * group else (1, 1)
    return gnp.transpose(x.reshape(b, *split, t, s), (0, 1, 3, 2, 4))


def _visible(full, mask, is_causal, q_lengths, kv_lengths, window) -> Array | None:
    """The mask of scores that count, broadcastable to (B, N, T, S); None for all of them."""
    # Positions of queries as rows, of keys as columns.
    rows = gnp.arange(full[2])[:, None]
    columns = gnp.arange(full[3])[None, :]
    conditions = [] if mask is None else [mask]
    # t sees s <= t.
    if is_causal:
        conditions.append((columns <= rows)[None, None])
    if window is not None:
        left, right = window
        conditions.append(((rows <= columns + left) & (rows >= columns - right))[None, None])
    if q_lengths is not None:
        conditions.append((rows < q_lengths[:, None, None])[:, None])
    if kv_lengths is not None:
        conditions.append((columns < kv_lengths[:, None, None])[:, None])
    visible = None
    for condition in conditions:
        visible = condition if visible is None else visible & condition
    return visible
