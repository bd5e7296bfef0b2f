"""LSTM networks of several layers, in one or both directions, over sequences of several lengths.

Floor 6. In: sequences (batch, time, features), states, and all weights in one vector, laid out as
PyTorch and cuDNN have them: of each layer the matrices of inputs and states, then of each layer the
two biases; each holds the gates i, f, g, o. Out: outputs and last states. A layer is a `scan`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuarray import lax, nn, random, util
from gpuarray import numpy as gnp
from gpuarray.api.vjp import vjp
from gpuarray.core.avals import ShapedArray
from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names


def _shapes(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> list[tuple[int, ...]]:
    """The shapes of all weights, in order."""
    sizes = (input_size, hidden_size, num_layers)
    if min(util.indices(sizes, "numbers of features and layers")) < 1:
        raise ValueError(f"an LSTM has features and layers, got {sizes}")
    directions = 2 if bidirectional else 1
    matrices = []
    for layer in range(num_layers):
        features = input_size if layer == 0 else directions * hidden_size
        # Four gates one below the other: i, f, g, o.
        of_layer = [(4 * hidden_size, features), (4 * hidden_size, hidden_size)]
        matrices += of_layer * directions
    return matrices + [(4 * hidden_size,)] * len(matrices)


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """The length of the vector of all weights.

    >>> from gpuarray.experimental import rnn
    >>> rnn.get_num_params_in_lstm(3, 2, 1, False)
    56
    """
    return sum(map(math.prod, _shapes(input_size, hidden_size, num_layers, bidirectional)))


def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Weights at random, uniform within the root of 1 / hidden_size.

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import rnn
    >>> rnn.init_lstm_weight(ga.random.key(0), 3, 2, 1, False).shape
    (56,)
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    k = np.sqrt(1.0 / hidden_size)
    return random.uniform(rng, (count,), gnp.float32, minval=-k, maxval=k)


def _pieces(weights: Any, shapes: list) -> list[Array]:
    weights = gnp.asarray(weights)
    ends = np.cumsum([0, *map(math.prod, shapes)])
    if weights.shape != (ends[-1],):
        raise ValueError(f"weights must be a vector of {ends[-1]} numbers, got {weights.shape}")
    return [
        weights[a:b].reshape(shape) for a, b, shape in zip(ends, ends[1:], shapes, strict=False)
    ]


def swap_lstm_gates(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Weights with the gates g and o exchanged, for libraries that have them in this order.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import rnn
    >>> rnn.swap_lstm_gates(gnp.arange(16.), 1, 1, 1, False)[:4]
    Array([0., 1., 3., 2.], dtype=float32)
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    parts = [p.reshape(4, -1)[np.array([0, 1, 3, 2])] for p in _pieces(weights, shapes)]
    return gnp.concatenate([p.ravel() for p in parts])


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[dict[int, Array], dict[int, Array], dict[int, Array], dict[int, Array]]:
    """(W_ih, W_hh, b_ih, b_hh), each by the number of the layer; two for a layer of two directions.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.experimental import rnn
    >>> W_ih, W_hh, b_ih, b_hh = rnn.unpack_lstm_weights(gnp.zeros(56), 3, 2, 1, False)
    >>> W_ih[0].shape, W_hh[0].shape, b_ih[0].shape
    ((8, 3), (8, 2), (8,))
    """
    parts = _pieces(weights, _shapes(input_size, hidden_size, num_layers, bidirectional))
    # Matrices first, then as many biases; inputs and states alternate in both.
    half = len(parts) // 2
    kinds = parts[0:half:2], parts[1:half:2], parts[half::2], parts[half + 1 :: 2]
    return tuple(dict(enumerate(kind)) for kind in kinds)  # pyright: ignore[reportReturnType]


def lstm(
    x: Any,
    h_0: Any,
    c_0: Any,
    weights: Any,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any = None,
) -> tuple[Array, Array, Array]:
    """Outputs and last states (y, h_n, c_n) of an LSTM.

    Parameters
    ----------
    x :
        (batch, time, input_size).
    h_0, c_0 :
        (directions * num_layers, batch, hidden_size).
    seq_lengths :
        (batch,): how many steps of each sequence count; y is 0 after them.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import rnn
    >>> w = rnn.init_lstm_weight(ga.random.key(0), 3, 2, 1, False)
    >>> zero = gnp.zeros((1, 4, 2))
    >>> lengths = gnp.full(4, 5)
    >>> y, h, c = rnn.lstm(gnp.ones((4, 5, 3)), zero, zero, w, lengths, 3, 2, 1, 0.0, False)
    >>> y.shape, h.shape
    ((4, 5, 2), (1, 4, 2))
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    return _run(x, h_0, c_0, parts, seq_lengths, num_layers, dropout, bidirectional, precision)


def lstm_fwd(
    x: Any,
    h_0: Any,
    c_0: Any,
    w: Any,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any,
) -> tuple[tuple[Array, Array, Array], tuple]:
    """The results of `lstm`, and the residuals for `lstm_bwd`: for derivative rules.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import rnn
    >>> w, zero = rnn.init_lstm_weight(ga.random.key(0), 3, 2, 1, False), gnp.zeros((1, 4, 2))
    >>> x, lengths, sizes = gnp.ones((4, 5, 3)), gnp.full(4, 5), (3, 2, 1, 0.0, False, None)
    >>> out, kept = rnn.lstm_fwd(x, zero, zero, w, lengths, *sizes)
    >>> dx, dh_0, dc_0, dw, _ = rnn.lstm_bwd(*sizes, kept, out)
    >>> dx.shape, dw.shape
    ((4, 5, 3), (56,))
    """
    sizes = input_size, hidden_size, num_layers, dropout, bidirectional, precision
    return lstm(x, h_0, c_0, w, seq_lengths, *sizes), (x, h_0, c_0, w, seq_lengths)


def lstm_bwd(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any,
    residuals: tuple,
    gradients: tuple,
) -> tuple[Array, Array, Array, Array, None]:
    """Cotangents (x, h_0, c_0, weights, None) from those of y, h_n and c_n.

    The forward pass runs again, so that only its arguments are kept.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import rnn
    >>> w, zero = rnn.init_lstm_weight(ga.random.key(0), 3, 2, 1, False), gnp.zeros((1, 4, 2))
    >>> kept = gnp.ones((4, 5, 3)), zero, zero, w, gnp.full(4, 5)
    >>> ones = gnp.ones((4, 5, 2)), zero, zero
    >>> rnn.lstm_bwd(3, 2, 1, 0.0, False, None, kept, ones)[3].shape
    (56,)
    """
    *given, seq_lengths = residuals
    sizes = input_size, hidden_size, num_layers, dropout, bidirectional, precision
    _, pull = vjp(lambda x, h, c, w: lstm(x, h, c, w, seq_lengths, *sizes), *given)
    dx, dh_0, dc_0, dw = pull(tuple(gradients))
    return dx, dh_0, dc_0, dw, None


def rnn_abstract_eval(
    x_aval: ShapedArray,
    h_0_aval: ShapedArray,
    c_0_aval: ShapedArray,
    w_aval: ShapedArray,
    seq_lengths_aval: ShapedArray,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    cudnn_allow_tf32: bool,
) -> tuple[ShapedArray, ...]:
    """The avals of y, h_n and c_n, and of the residuals, which have no elements.

    >>> from gpuarray.core import ShapedArray
    >>> from gpuarray.experimental import rnn
    >>> x, h = ShapedArray((4, 5, 3), "float32"), ShapedArray((1, 4, 2), "float32")
    >>> w, lengths = ShapedArray((56,), "float32"), ShapedArray((4,), "int32")
    >>> rnn.rnn_abstract_eval(x, h, h, w, lengths, 3, 2, 1, 0.0, False, True)[0]
    ShapedArray(float32[4,5,2])
    """
    directions = 2 if bidirectional else 1
    y = x_aval.update(shape=(*x_aval.shape[:2], directions * hidden_size))
    return y, h_0_aval, c_0_aval, ShapedArray((0,), x_aval.dtype)


def rnn_bwd_abstract_eval(
    dy_aval: ShapedArray,
    dhn_aval: ShapedArray,
    dcn_aval: ShapedArray,
    x_aval: ShapedArray,
    h0_aval: ShapedArray,
    c0_aval: ShapedArray,
    w_aval: ShapedArray,
    y_aval: ShapedArray,
    reserve_space_aval: ShapedArray,
    seq_lengths_aval: ShapedArray,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    cudnn_allow_tf32: bool,
) -> tuple[ShapedArray, ...]:
    """The avals of the cotangents: those of x, h_0, c_0 and the weights.

    >>> from gpuarray.core import ShapedArray
    >>> from gpuarray.experimental import rnn
    >>> x, h = ShapedArray((4, 5, 3), "float32"), ShapedArray((1, 4, 2), "float32")
    >>> y, w = ShapedArray((4, 5, 2), "float32"), ShapedArray((56,), "float32")
    >>> kept, lengths = ShapedArray((0,), "float32"), ShapedArray((4,), "int32")
    >>> avals = y, h, h, x, h, h, w, y, kept, lengths
    >>> rnn.rnn_bwd_abstract_eval(*avals, 3, 2, 1, 0.0, False, True) == (x, h, h, w)
    True
    """
    return x_aval, h0_aval, c0_aval, w_aval


def lstm_ref(
    x: Any,
    h_0: Any,
    c_0: Any,
    W_ih: dict[int, Array],
    W_hh: dict[int, Array],
    b_ih: dict[int, Array],
    b_hh: dict[int, Array],
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Array, Array, Array]:
    """As `lstm`, with the weights as `unpack_lstm_weights` gives them.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.experimental import rnn
    >>> w = rnn.init_lstm_weight(ga.random.key(0), 3, 2, 1, False)
    >>> parts = rnn.unpack_lstm_weights(w, 3, 2, 1, False)
    >>> zero = gnp.zeros((1, 4, 2))
    >>> lengths = gnp.full(4, 5)
    >>> x = gnp.ones((4, 5, 3))
    >>> rnn.lstm_ref(x, zero, zero, *parts, lengths, 3, 2, 1, 0.0, False)[0].shape
    (4, 5, 2)
    """
    expected = _shapes(input_size, hidden_size, num_layers, bidirectional)
    given = [gnp.shape(w) for pair in ((W_ih, W_hh), (b_ih, b_hh)) for i in sorted(W_ih)
             for w in (pair[0][i], pair[1][i])]  # fmt: skip
    if given != expected:
        raise ValueError(f"weights of shapes {given} are not those of this LSTM: {expected}")
    parts = W_ih, W_hh, b_ih, b_hh
    return _run(x, h_0, c_0, parts, seq_lengths, num_layers, dropout, bidirectional, None)


def _run(
    x: Any,
    h_0: Any,
    c_0: Any,
    parts: tuple,
    seq_lengths: Any,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any,
) -> tuple[Array, Array, Array]:
    if dropout != 0.0:
        raise NotImplementedError(
            "an LSTM with dropout: which elements are dropped cannot be told from its arguments; "
            "use dropout=0.0, and drop elements between calls of one layer each"
        )
    directions = 2 if bidirectional else 1
    x, h_0, c_0, lengths = map(gnp.asarray, (x, h_0, c_0, seq_lengths))
    if lengths.dtype != np.int32:
        raise NotImplementedError(f"`seq_lengths` can only be int32, got {lengths.dtype}")
    # Time in front, for the scans.
    values = x.transpose(1, 0, 2)
    times = gnp.arange(x.shape[1], dtype=np.int32)
    last_h, last_c = [], []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            own = [kind[k] for kind in parts]
            (h, c), y = _layer(
                values, (h_0[k], c_0[k]), own, lengths, times, direction == 1, precision
            )
            outputs.append(y)
            last_h.append(h)
            last_c.append(c)
        # The next layer reads both directions.
        values = gnp.concatenate(outputs, axis=-1) if bidirectional else outputs[0]
    return values.transpose(1, 0, 2), gnp.stack(last_h), gnp.stack(last_c)


def _layer(
    values: Array,
    start: tuple,
    weights: list,
    lengths: Array,
    times: Array,
    backwards: bool,
    precision: Any,
) -> tuple[tuple, Array]:
    W_ih, W_hh, b_ih, b_hh = weights
    # The products with all inputs together: one matrix product, before the loop.
    inputs = gnp.matmul(values, W_ih.T, precision=precision) + (b_ih + b_hh)

    def step(state: tuple, at: tuple) -> tuple[tuple, Array]:
        h, c = state
        given, time = at
        gates = given + gnp.matmul(h, W_hh.T, precision=precision)
        i, f, g, o = gnp.split(gates, 4, axis=-1)
        new_c = nn.sigmoid(f) * c + nn.sigmoid(i) * gnp.tanh(g)
        new_h = nn.sigmoid(o) * gnp.tanh(new_c)
        # After the end of a sequence its state is kept, in either direction.
        there = (time < lengths)[:, None]
        kept = gnp.where(there, new_h, h), gnp.where(there, new_c, c)
        return kept, gnp.where(there, new_h, 0)

    return lax.scan(step, start, (inputs, times), reverse=backwards)


__getattr__ = _explain_names(__name__)
