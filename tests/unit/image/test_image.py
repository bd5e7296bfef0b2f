"""image: known values, what every method keeps, agreement with direct formulas, derivatives."""

import numpy as np
import pytest
import scipy.ndimage

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import image
from gpuarray.image import ResizeMethod
from gpuarray.test_util import check_grads

rng = np.random.default_rng(2)
SMOOTH = ["linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area"]
EYE = np.eye(5, dtype="f4")


def close(found, expected, tol=1e-6):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tol, atol=tol)


# How much of each of five pixels goes into each of the new ones.
KNOWN = [
    ("linear", True, [[0.571429, 0.428571, 0, 0, 0], [0, 2 / 9, 5 / 9, 2 / 9, 0],
                      [0, 0, 0, 0.428571, 0.571429]]),
    ("linear", False, [[2 / 3, 1 / 3, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1 / 3, 2 / 3]]),
    ("area", True, [[0.6, 0.4, 0, 0, 0], [0, 0.2, 0.6, 0.2, 0], [0, 0, 0, 0.4, 0.6]]),
    ("cubic", False, [[0.724138, 0.310345, -0.034483, 0, 0], [0, 0, 1, 0, 0],
                      [0, 0, -0.034483, 0.310345, 0.724138]]),
    ("cubic-pytorch", False, [[0.685185, 0.370370, -0.055556, 0, 0], [0, 0, 1, 0, 0],
                              [0, 0, -0.055556, 0.370370, 0.685185]]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "antialias", "weights"), KNOWN)
def test_known_weights(method, antialias, weights):
    close(image.resize(EYE, (3, 5), method, antialias), weights, 2e-6)


@pytest.mark.parametrize("method", [*SMOOTH, "nearest"])
@pytest.mark.parametrize("antialias", [True, False])
def test_what_every_method_keeps(method, antialias):
    x = rng.standard_normal((6, 7, 2)).astype("f4")
    for shape in ((6, 7, 2), (3, 7, 2), (12, 14, 2), (1, 1, 2), (5, 9, 3)):
        found = image.resize(x, shape, method, antialias)
        assert found.shape == shape and found.dtype == np.float32
        close(image.resize(0 * x + 3, shape, method, antialias), np.full(shape, 3.0))
        mirrored = image.resize(x[::-1], shape, method, antialias)
        if method != "nearest":  # which rounds halves down, from whichever side
            close(mirrored, np.asarray(found)[::-1], 1e-5)
    close(image.resize(x, x.shape, method, antialias), x)


def test_linear_is_interpolation_between_centres():
    x = rng.standard_normal(9).astype("f4")
    for n in (4, 9, 20):
        at = (np.arange(n) + 0.5) * 9 / n - 0.5
        expected = scipy.ndimage.map_coordinates(x, [at], order=1, mode="nearest")
        close(image.resize(x, (n,), "linear", antialias=False), expected, 1e-5)


def test_area_is_the_mean_of_blocks_and_nearest_picks():
    x = rng.standard_normal((6, 8)).astype("f4")
    close(image.resize(x, (3, 2), "area"), x.reshape(3, 2, 2, 4).mean((1, 3)), 1e-5)
    close(image.resize(np.arange(5), (8,), "nearest"), [0, 0, 1, 2, 2, 3, 4, 4])
    close(image.resize(np.arange(4), (2,), "nearest"), [1, 3])
    assert image.resize(np.arange(4), (2,), "nearest").dtype == np.int32
    assert image.resize(np.arange(4), (2,), "linear").dtype == np.float32
    assert image.resize(gnp.ones(4, "bfloat16"), (2,), "cubic").dtype == "bfloat16"
    assert image.resize(x, (0, 8), "linear").shape == (0, 8)


@pytest.mark.parametrize("method", SMOOTH)
def test_resize_is_a_scale_without_translation(method):
    x = rng.standard_normal((5, 6)).astype("f4")
    scale, zero = gnp.array([4 / 5, 9 / 6]), gnp.zeros(2)
    found = image.scale_and_translate(x, (4, 9), (0, 1), scale, zero, method)
    close(found, image.resize(x, (4, 9), method), 1e-5)


def test_translation():
    x = np.arange(1.0, 6, dtype="f4")
    move = lambda t, n=5: image.scale_and_translate(x, (n,), (0,), gnp.ones(1), gnp.array([t]),
                                                    "linear")  # fmt: skip
    close(move(2.0), [0, 0, 1, 2, 3])
    close(move(-1.0), [2, 3, 4, 5, 0])
    close(move(0.5), [1, 1.5, 2.5, 3.5, 4.5])
    area = image.scale_and_translate(EYE, (4, 5), (0,), gnp.array([0.5]), gnp.array([0.3]), "area")
    close(area, [[1 / 1.4, 0.4 / 1.4, 0, 0, 0], [0, 0.3, 0.5, 0.2, 0], [0, 0, 0, 0.375, 0.625],
                 [0] * 5], 1e-5)  # fmt: skip


def test_derivatives_jit_and_vmap():
    x = rng.standard_normal((4, 5))
    with ga.enable_x64(True):
        f = lambda x, s, t: image.scale_and_translate(x, (3, 5), (0,), s, t, "cubic", False)
        check_grads(f, (x, np.array([0.73]), np.array([0.21])), order=1, eps=1e-5)
        check_grads(lambda x: image.resize(x, (3, 7), "lanczos3"), (x,), order=2)
    resize = lambda x: image.resize(x, (3, 7), "cubic")
    stack = rng.standard_normal((2, 4, 5)).astype("f4")
    close(ga.jit(resize)(stack[0]), resize(stack[0]))
    close(ga.vmap(resize)(stack), np.stack([resize(x) for x in stack]))


@pytest.mark.parametrize("method", SMOOTH)
@pytest.mark.parametrize("shape", [(80, 240), (360, 124)])
def test_sums_of_few_pixels_are_products_with_all_weights(method, shape):
    """Of an axis of a large image few pixels count: what `scale_and_translate` multiplies."""
    x = rng.standard_normal((160, 256)).astype("f4")
    scale, shift = gnp.array(shape, "f4") / np.array(x.shape, "f4"), gnp.zeros(2, "f4")
    resize = lambda x: image.resize(x, shape, method)
    product = lambda x: image.scale_and_translate(x, shape, (0, 1), scale, shift, method)
    assert "dot_general" not in str(ga.make_jaxpr(resize)(x))
    assert "dot_general" in str(ga.make_jaxpr(product)(x))
    close(resize(x), product(x), 2e-5)
    # So are derivatives, which are sums of few elements too.
    ct = rng.standard_normal(shape).astype("f4")
    (found,), (wanted,) = ga.vjp(resize, x)[1](ct), ga.vjp(product, x)[1](ct)
    close(found, wanted, 2e-5)
    assert "scatter" not in str(ga.make_jaxpr(lambda x, ct: ga.vjp(resize, x)[1](ct))(x, ct))
    close(ga.jvp(resize, (x,), (x,))[1], product(x), 2e-5)
    close(ga.vmap(resize, 1, 1)(np.stack([x, 2 * x], 1))[:, 1], 2 * product(x), 4e-5)


def test_halves_are_added_as_floats():
    x = gnp.asarray(rng.standard_normal((64, 40)), "bfloat16")
    found = image.resize(x, (16, 40), "lanczos3")
    assert found.dtype == "bfloat16"
    wanted = image.resize(x.astype("float32"), (16, 40), "lanczos3")
    close(found.astype("float32"), wanted, 2**-7)


def test_names_of_methods():
    for name, method in [("bilinear", ResizeMethod.LINEAR), ("triangle", ResizeMethod.LINEAR),
                         ("bicubic", ResizeMethod.CUBIC), ("area", ResizeMethod.AREA)]:  # fmt: skip
        assert ResizeMethod.from_string(name) is method
    close(image.resize(EYE, (3, 5), ResizeMethod.LINEAR), image.resize(EYE, (3, 5), "bilinear"))
    assert [m.value for m in ResizeMethod] == list(range(7))


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (ValueError, "Unknown resize method", lambda: image.resize(EYE, (3, 5), "odd")),
        (ValueError, "number of dimensions", lambda: image.resize(EYE, (3,), "linear")),
        (ValueError, "Nearest neighbor", lambda: image.scale_and_translate(
            EYE, (3, 5), (0,), gnp.ones(1), gnp.zeros(1), "nearest")),
        (ValueError, "distinct", lambda: image.scale_and_translate(
            EYE, (3, 5), (0, 0), gnp.ones(2), gnp.zeros(2), "linear")),
        (ValueError, "out of bounds", lambda: image.scale_and_translate(
            EYE, (3, 5), (7,), gnp.ones(1), gnp.zeros(1), "linear")),
        (AssertionError, "scale must have a number", lambda: image.scale_and_translate(
            EYE, (3, 5), (0,), gnp.ones(2), gnp.zeros(1), "linear")),
    ],
)  # fmt: skip
def test_misuse_is_an_error(error, words, call):
    with pytest.raises(error, match=words):
        call()
