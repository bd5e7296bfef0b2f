"""The acceptance tests of the founding texts: convolutions, and their gradients. One test an item.

They read as the texts do, with the name of the library changed.
"""

import numpy as np
import pytest

import gpuarray.numpy as jnp
from gpuarray import grad, jit, lax, random, vmap
from tests.seeds.test_autodiff_and_vmap import close, slope

IMAGE = random.normal(random.PRNGKey(0), (2, 3, 6, 5))  # batch, channels, height, width
KERNEL = random.normal(random.PRNGKey(1), (4, 3, 3, 2))  # out, in, height, width


def by_hand(x, k, stride=1, step=1):
    """Valid cross-correlation of images with kernels, from its definition in NumPy."""
    x, k = np.asarray(x, np.float64), np.asarray(k, np.float64)
    reach = [step * (n - 1) for n in k.shape[2:]]
    rows, columns = ((n - r - 1) // stride + 1 for n, r in zip(x.shape[2:], reach))
    out = np.zeros((len(x), len(k), rows, columns))
    for i, j in np.ndindex(*k.shape[2:]):
        top, left = i * step, j * step
        part = x[:, :, top : top + stride * rows : stride, left : left + stride * columns : stride]
        out += np.einsum("bchw,oc->bohw", part[:, :, :rows, :columns], k[:, :, i, j])
    return out


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolve(mode):
    a, v = jnp.arange(5.0), jnp.array([1.0, -2.0, 0.5])
    close(jnp.convolve(a, v, mode), np.convolve(a, v, mode))
    close(jnp.correlate(a, v, mode), np.correlate(a, v, mode))


@pytest.mark.parametrize("stride", [1, 2])
def test_conv(stride):
    got = lax.conv(IMAGE, KERNEL, (stride, stride), "VALID")
    close(got, by_hand(IMAGE, KERNEL, stride), rtol=1e-4, atol=1e-5)


def test_conv_padded_and_dilated():
    padded = np.pad(IMAGE, ((0, 0), (0, 0), (1, 1), (0, 2)))
    got = lax.conv_general_dilated(IMAGE, KERNEL, (2, 2), [(1, 1), (0, 2)], rhs_dilation=(2, 2))
    close(got, by_hand(padded, KERNEL, 2, 2), rtol=1e-4, atol=1e-5)


def test_conv_transpose():
    """It spreads each input over the output as the kernel says: zeros between, then a sum."""
    x, k = jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 10.0])
    got = lax.conv_transpose(x[None, :, None], k[:, None, None], (2,), "VALID")
    close(got[0, :, 0], [10, 1, 20, 2, 30, 3])


def test_gradient_of_convolve():
    a, v = jnp.arange(5.0), jnp.array([1.0, -2.0, 0.5])
    f = lambda a, v: jnp.sum(jnp.convolve(a, v) ** 2)
    for i, found in enumerate(grad(f, argnums=(0, 1))(a, v)):
        other = [lambda x: f(x, v), lambda x: f(a, x)][i]
        close(found, slope(other, (a, v)[i]), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("stride", [1, 2])
def test_gradient_of_conv(stride):
    target = jnp.cos(jnp.arange(10.0))

    def f(x, k):
        out = lax.conv(x, k, (stride, stride), "SAME")
        return jnp.mean(jnp.sin(out)) + jnp.sum(out.ravel()[:10] * target)

    gx, gk = jit(grad(f, argnums=(0, 1)))(IMAGE, KERNEL)
    close(gx, slope(lambda x: f(x, KERNEL), IMAGE), rtol=1e-2, atol=5e-3)
    close(gk, slope(lambda k: f(IMAGE, k), KERNEL), rtol=1e-2, atol=5e-3)


def test_gradient_of_conv_transpose():
    x, k = jnp.arange(4.0)[None, :, None], jnp.array([1.0, 10.0, -1.0])[:, None, None]
    f = lambda k: jnp.sum(lax.conv_transpose(x, k, (2,), "SAME") ** 2) / 10
    close(grad(f)(k), slope(f, k), rtol=1e-2, atol=1e-1)


def test_convolutions_vectorised():
    rows, v = random.normal(random.PRNGKey(2), (3, 7)), jnp.array([1.0, -2.0, 0.5])
    close(vmap(lambda a: jnp.convolve(a, v))(rows), [np.convolve(a, v) for a in rows])
    kernels = random.normal(random.PRNGKey(3), (2, *KERNEL.shape))
    got = vmap(lambda k: lax.conv(IMAGE, k, (1, 1), "VALID"))(kernels)
    close(got, [by_hand(IMAGE, k) for k in kernels], rtol=1e-4, atol=1e-5)
