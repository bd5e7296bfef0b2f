"""`device_put` under transforms (`runtime/moves.py`).

What is moved is the identity, so derivatives and batches are known; devices are those of JAX 0.10.2
with eight CPU devices, for the same calls.
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray.sharding import Mesh, NamedSharding, SingleDeviceSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

X = np.arange(8, dtype=np.float32)


def rows(first: int, last: int) -> NamedSharding:
    return NamedSharding(Mesh(np.array(ga.devices()[first:last]), ("x",)), P("x"))


def targets() -> list:
    here, there = ga.devices()[:2]
    return [
        (here, there),
        (SingleDeviceSharding(here), rows(4, 8)),
        (rows(0, 4), rows(4, 8)),
        (rows(0, 4), SingleDeviceSharding(there)),
    ]


def lies(x: ga.Array, target) -> bool:
    wanted = ga.device_put(X, target).sharding
    return x.sharding == wanted and x.committed


@pytest.mark.parametrize("number", range(4))
def test_cotangents_go_back(number):
    here, there = targets()[number]

    def f(x, **src):
        y = ga.device_put(x * x, there, **src)
        return gnp.sum(y * 3)

    x = ga.device_put(X, here)
    # Where the value is or, of one that nobody has put anywhere, where it is said to be.
    for src, given in (({}, x), ({"src": here}, x), ({"src": here}, X)):
        value, found = ga.value_and_grad(lambda x, src=src: f(x, **src))(given)
        assert value.devices() == ga.device_put(X, there).devices()
        assert lies(found, here)
        np.testing.assert_array_equal(found, 6 * X)
    # Twice differentiated, by both modes.
    np.testing.assert_array_equal(ga.jacfwd(ga.grad(f))(x), 6 * np.eye(8))


@pytest.mark.parametrize("number", range(4))
def test_tangents_come_along(number):
    here, there = targets()[number]
    move = lambda x: ga.device_put(x, there) * 2
    out, tangent = ga.jvp(move, (ga.device_put(X, here),), (ga.device_put(X + 1, here),))
    assert lies(out, there) and lies(tangent, there)
    np.testing.assert_array_equal(tangent, 2 * X + 2)
    out, linear = ga.linearize(move, ga.device_put(X, here))
    np.testing.assert_array_equal(linear(ga.device_put(X, here)), 2 * X)


def test_a_batch_keeps_its_axis_whole():
    target = rows(0, 4)
    batch = ga.device_put(np.stack([X, X + 1, X + 2]), ga.devices()[7])
    out = ga.vmap(lambda x: ga.device_put(x, target) * 2)(batch)
    assert out.sharding.is_equivalent_to(target.update(spec=P(None, "x")), 2)
    np.testing.assert_array_equal(out, 2 * np.stack([X, X + 1, X + 2]))
    per_row = ga.vmap(ga.grad(lambda x: gnp.sum(ga.device_put(x, ga.devices()[1]) ** 2)))(batch)
    assert per_row.devices() == {ga.devices()[7]}
    np.testing.assert_array_equal(per_row, 2 * np.stack([X, X + 1, X + 2]))


def test_src_is_checked():
    x = ga.device_put(X, ga.devices()[1])
    with pytest.raises(ValueError, match="src=.*an array that is on cpu:1"):
        ga.device_put(x, ga.devices()[2], src=ga.devices()[0])
    assert lies(ga.device_put(x, ga.devices()[2], src=ga.devices()[1]), ga.devices()[2])
