"""Networks from pairs of functions: each layer is (init_fun, apply_fun).

Floor 6. init_fun(key, input_shape) gives (output_shape, parameters); apply_fun(parameters, inputs,
rng=key) the output. In a shape, -1 stands for the length of a batch that is not known yet.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gpuarray import lax, nn, random, util
from gpuarray import numpy as gnp
from gpuarray.functions.inspect import eval_shape
from gpuarray.functions.stages import ShapeDtypeStruct
from gpuarray.names import explain_names as _explain_names
from gpuarray.nn import elu as elu
from gpuarray.nn import gelu as gelu
from gpuarray.nn import leaky_relu as leaky_relu
from gpuarray.nn import log_softmax as log_softmax
from gpuarray.nn import relu as relu
from gpuarray.nn import selu as selu
from gpuarray.nn import sigmoid as sigmoid
from gpuarray.nn import softmax as softmax
from gpuarray.nn import softplus as softplus
from gpuarray.nn import standardize as standardize
from gpuarray.nn.initializers import glorot_normal as glorot_normal
from gpuarray.nn.initializers import normal as normal
from gpuarray.nn.initializers import ones as ones
from gpuarray.nn.initializers import zeros as zeros

Layer = tuple[Callable[..., Any], Callable[..., Any]]
glorot, randn, logsoftmax = glorot_normal, normal, log_softmax
_GLOROT, _NORMAL, _SMALL = glorot_normal(), normal(), normal(1e-6)


def _shape_after(fun: Callable[..., Any], shape: Sequence[int], *others: Any) -> tuple[int, ...]:
    """The shape of fun(inputs, *arrays of the other shapes); -1 stays where it was."""
    # A batch of one represents any: layers do not change that axis.
    known = [1 if n == -1 else n for n in shape]
    structs = [ShapeDtypeStruct(tuple(s), gnp.float32) for s in (known, *others)]
    found = list(eval_shape(fun, *structs).shape)
    for axis, n in enumerate(shape):
        if n == -1:
            found[axis] = -1
    return tuple(found)


def _initializer(f: Any) -> Any:
    if not callable(f):
        raise util.wrong_type(f, "an initializer: a function of a key and a shape")
    return f


def _steps(strides: Any, count: int) -> tuple[int, ...]:
    return (1,) * count if strides is None else util.indices(strides, "strides")


def Dense(out_dim: int, W_init: Any = _GLOROT, b_init: Any = _NORMAL) -> Layer:
    """A matrix and a vector: inputs @ W + b.

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import stax
    >>> init, apply = stax.Dense(4)
    >>> shape, params = init(ga.random.key(0), (-1, 3))
    >>> shape, apply(params, gnp.ones((2, 3))).shape
    ((-1, 4), (2, 4))
    """
    W_init, b_init = _initializer(W_init), _initializer(b_init)

    def init_fun(rng: Any, input_shape: Sequence[int]) -> tuple:
        k1, k2 = random.split(rng)
        weights = W_init(k1, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (weights, b_init(k2, (out_dim,)))

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return gnp.dot(inputs, W) + b

    return init_fun, apply_fun


def _convolution(
    convolve: Callable,
    numbers: Sequence[str],
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Any,
    W_init: Any,
    b_init: Any,
) -> Layer:
    lhs_spec, rhs_spec, out_spec = numbers
    filter_shape = util.indices(filter_shape, "the shape of a filter")
    strides = _steps(strides, len(filter_shape))
    b_init = _initializer(b_init)
    make = (
        _initializer(W_init)
        if W_init is not None
        else glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))
    )

    def init_fun(rng: Any, input_shape: Sequence[int]) -> tuple:
        # The kernel's axes in the order that its names say: channels by name, lengths as they
        # come.
        lengths = iter(filter_shape)
        channels = {"O": out_chan, "I": input_shape[lhs_spec.index("C")]}
        kernel = [channels[c] if c in channels else next(lengths) for c in rhs_spec]
        shape = _shape_after(lambda x, w: convolve(x, w, strides), input_shape, kernel)
        k1, k2 = random.split(rng)
        # One number for each channel, broadcast along the other axes.
        bias = [out_chan if c == "C" else 1 for c in out_spec]
        return shape, (make(k1, kernel), b_init(k2, bias))

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return convolve(inputs, W, strides) + b

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Any = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _SMALL,
) -> Layer:
    """A convolution; dimension_numbers names the axes, such as ("NHWC", "HWIO", "NHWC").

    >>> import gpuarray as ga
    >>> from gpuarray.example_libraries import stax
    >>> init, _ = stax.GeneralConv(("NCH", "OIH", "NCH"), 4, (3,))
    >>> init(ga.random.key(0), (-1, 2, 8))[0]
    (-1, 4, 6)
    """
    one = (1,) * len(filter_shape)

    def convolve(x: Any, w: Any, strides: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, strides, padding, one, one, dimension_numbers=tuple(dimension_numbers)
        )

    return _convolution(
        convolve, dimension_numbers, out_chan, filter_shape, strides, W_init, b_init
    )


def GeneralConvTranspose(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Any = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _SMALL,
) -> Layer:
    """A transposed convolution: strides make the output longer.

    >>> import gpuarray as ga
    >>> from gpuarray.example_libraries import stax
    >>> init, _ = stax.GeneralConvTranspose(("NHC", "HIO", "NHC"), 4, (3,), strides=(2,))
    >>> init(ga.random.key(0), (-1, 8, 2))[0]
    (-1, 17, 4)
    """

    def convolve(x: Any, w: Any, strides: Any) -> Any:
        return lax.conv_transpose(
            x, w, strides, padding, dimension_numbers=tuple(dimension_numbers)
        )

    return _convolution(
        convolve, dimension_numbers, out_chan, filter_shape, strides, W_init, b_init
    )


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: Any = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Inputs brought to mean 0 and variance 1 along some axes, then scaled and moved.

    >>> import gpuarray as ga
    >>> from gpuarray.example_libraries import stax
    >>> init, _ = stax.BatchNorm(axis=0)
    >>> init(ga.random.key(0), (-1, 2))[1]
    (Array([0., 0.], dtype=float32), Array([1., 1.], dtype=float32))
    >>> _, apply = stax.BatchNorm(axis=0, center=False, scale=False)
    >>> apply(((), ()), ga.numpy.array([[1.0], [3.0]]))
    Array([[-0.999995],
           [ 0.999995]], dtype=float32)
    """
    several = isinstance(axis, Sequence)
    axes = util.indices(axis, "axes") if several else (util.index(axis, "an axis"),)
    beta_init, gamma_init = _initializer(beta_init), _initializer(gamma_init)

    def init_fun(rng: Any, input_shape: Sequence[int]) -> tuple:
        shape = tuple(d for i, d in enumerate(input_shape) if i not in axes)
        k1, k2 = random.split(rng)
        beta = beta_init(k1, shape) if center else ()
        return input_shape, (beta, gamma_init(k2, shape) if scale else ())

    def apply_fun(params: Any, x: Any, **kwargs: Any) -> Any:
        beta, gamma = params
        # Parameters have the axes that were not averaged over; the others are broadcast.
        wide = tuple(None if i in axes else slice(None) for i in range(gnp.ndim(x)))
        z = nn.standardize(x, axes, epsilon=epsilon)
        z = gamma[wide] * z if scale else z
        return z + beta[wide] if center else z

    return init_fun, apply_fun


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A function of each element, as a layer without parameters.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import stax
    >>> _, apply = stax.elementwise(gnp.square)
    >>> apply((), gnp.array([3.]))
    Array([9.], dtype=float32)
    """
    init_fun = lambda rng, input_shape: (input_shape, ())
    return init_fun, lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs)


Tanh = elementwise(gnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(gnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)


def _pool(
    reducer: Callable, start: float, window_shape: Sequence[int], strides: Any, padding: Any,
    spec: str | None, mean: bool = False,
) -> Layer:  # fmt: skip
    window = list(util.indices(window_shape, "the shape of a window"))
    steps = list(_steps(strides, len(window)))
    if not isinstance(spec, str | None):
        raise util.wrong_type(spec, 'the names of the axes, such as "NHWC"')
    # With the two axes that a window leaves alone; channels are last by default.
    last = len(window) + 1
    # A window covers one image and one channel.
    outside = (0, last) if spec is None else (spec.index("N"), spec.index("C"))
    for axis in sorted(outside):
        window.insert(axis, 1)
        steps.insert(axis, 1)

    def pool(x: Any) -> Any:
        return lax.reduce_window(x, start, reducer, tuple(window), tuple(steps), padding)

    def init_fun(rng: Any, input_shape: Sequence[int]) -> tuple:
        return _shape_after(pool, input_shape), ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        out = pool(inputs)
        # At the border a window may hold less than elsewhere.
        sizes = [1 if i in outside else n for i, n in enumerate(inputs.shape)]
        return out / pool(gnp.ones(sizes, inputs.dtype)) if mean else out

    return init_fun, apply_fun


def MaxPool(
    window_shape: Sequence[int], strides: Any = None, padding: Any = "VALID", spec: Any = None
) -> Layer:
    """The largest element of each window; spec names the axes, such as "NHWC".

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import stax
    >>> _, apply = stax.MaxPool((2,), (2,))
    >>> apply((), gnp.arange(4.).reshape(1, 4, 1)).ravel()
    Array([1., 3.], dtype=float32)
    """
    return _pool(lax.max, -float("inf"), window_shape, strides, padding, spec)


def SumPool(
    window_shape: Sequence[int], strides: Any = None, padding: Any = "VALID", spec: Any = None
) -> Layer:
    """The sum of each window.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import stax
    >>> _, apply = stax.SumPool((2,), (2,))
    >>> apply((), gnp.arange(4.).reshape(1, 4, 1)).ravel()
    Array([1., 5.], dtype=float32)
    """
    return _pool(lax.add, 0.0, window_shape, strides, padding, spec)


def AvgPool(
    window_shape: Sequence[int], strides: Any = None, padding: Any = "VALID", spec: Any = None
) -> Layer:
    """The mean of each window, of the elements that it holds.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import stax
    >>> _, apply = stax.AvgPool((2,), (2,))
    >>> apply((), gnp.arange(4.).reshape(1, 4, 1)).ravel()
    Array([0.5, 2.5], dtype=float32)
    """
    return _pool(lax.add, 0.0, window_shape, strides, padding, spec, mean=True)


def _flattened(shape: Sequence[int]) -> tuple[int, int]:
    size = 1
    for n in shape[1:]:
        size *= n
    return shape[0], size


Flatten: Layer = (
    lambda rng, input_shape: (_flattened(input_shape), ()),
    lambda params, inputs, **kwargs: gnp.reshape(inputs, (inputs.shape[0], -1)),
)
Identity: Layer = (
    lambda rng, input_shape: (input_shape, ()),
    lambda params, inputs, **kwargs: inputs,
)
FanInSum: Layer = (
    lambda rng, input_shape: (input_shape[0], ()),
    lambda params, inputs, **kwargs: sum(inputs),
)


def FanOut(num: int) -> Layer:
    """The input `num` times, for layers in parallel.

    >>> from gpuarray.example_libraries import stax
    >>> stax.FanOut(2)[1]((), 3)
    [3, 3]
    """
    return (
        lambda rng, input_shape: ([input_shape] * num, ()),
        lambda params, inputs, **kwargs: [inputs] * num,
    )


def FanInConcat(axis: int = -1) -> Layer:
    """The outputs of parallel layers, concatenated.

    >>> from gpuarray.example_libraries import stax
    >>> stax.FanInConcat()[0](None, [(2, 3), (2, 5)])[0]
    (2, 8)
    """

    axis = util.index(axis, "an axis")

    def init_fun(rng: Any, input_shape: Sequence) -> tuple:
        place = axis % len(input_shape[0])
        total = sum(shape[place] for shape in input_shape)
        first = input_shape[0]
        return (*first[:place], total, *first[place + 1 :]), ()

    return init_fun, lambda params, inputs, **kwargs: gnp.concatenate(inputs, axis)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Some inputs set to 0 at random; `rate` is how many are kept, and the rest grows by as much.

    Parameters
    ----------
    mode :
        "train", or anything else to let all pass.

    Examples
    --------

    >>> import gpuarray as ga, gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import stax
    >>> _, apply = stax.Dropout(1.0)
    >>> apply((), gnp.ones(2), rng=ga.random.key(0))
    Array([1., 1.], dtype=float32)
    """

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout layer requires apply_fun to be called with a PRNG key argument: "
                "apply_fun(params, inputs, rng=key)"
            )
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return gnp.where(keep, inputs / rate, 0)

    return lambda rng, input_shape: (input_shape, ()), apply_fun


# ---- layers of layers ----


def _keys(rng: Any, count: int) -> Any:
    return (None,) * count if rng is None else random.split(rng, count)


def serial(*layers: Layer) -> Layer:
    """Layers one after the other.

    >>> import gpuarray as ga
    >>> from gpuarray.example_libraries import stax
    >>> init, apply = stax.serial(stax.Dense(8), stax.Relu, stax.Dense(2))
    >>> init(ga.random.key(0), (-1, 4))[0]
    (-1, 2)
    """

    def init_fun(rng: Any, input_shape: Any) -> tuple:
        params = []
        for init, _ in layers:
            rng, own = random.split(rng)
            input_shape, found = init(own, input_shape)
            params.append(found)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        for (_, apply), own, key in zip(layers, params, keys, strict=True):
            inputs = apply(own, inputs, rng=key, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """Independent layers side by side, each with its own input.

    >>> import gpuarray as ga
    >>> from gpuarray.example_libraries import stax
    >>> init, apply = stax.parallel(stax.Dense(8), stax.Identity)
    >>> init(ga.random.key(0), [(-1, 4), (-1, 4)])[0]
    ((-1, 8), (-1, 4))
    """

    def init_fun(rng: Any, input_shape: Sequence) -> tuple:
        keys = random.split(rng, len(layers))
        found = [
            init(key, shape)
            for (init, _), key, shape in zip(layers, keys, input_shape, strict=True)
        ]
        return tuple(zip(*found, strict=True))

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> list:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        return [
            apply(own, x, rng=key, **kwargs)
            for (_, apply), own, x, key in zip(layers, params, inputs, keys, strict=True)
        ]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[..., Layer]) -> Layer:
    """A layer that is made when the shape of its input is known.

    >>> import gpuarray as ga
    >>> from gpuarray.example_libraries import stax
    >>> init, _ = stax.shape_dependent(lambda shape: stax.Dense(2 * shape[-1]))
    >>> init(ga.random.key(0), (-1, 4))[0]
    (-1, 8)
    """
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )


__getattr__ = _explain_names(__name__)
