"""ragged_all_to_all: against a loop over senders and slices; derivatives against the same."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.sharding import Mesh
from gpuarray.sharding import PartitionSpec as P


def problem(seed, n=4, each=2, rows=9, room=14):
    """Random slices: (operand, output, input_offsets, send_sizes, output_offsets, recv_sizes)."""
    rng = np.random.default_rng(seed)
    slices = n * each
    sizes = rng.integers(0, 3, (n, slices)).astype(np.int32)  # of a sender's slices
    starts = rng.integers(0, rows - 2, (n, slices)).astype(np.int32)
    targets = np.zeros_like(sizes)
    received = np.zeros_like(sizes)
    for receiver in range(n):
        at = 0
        for sender in range(n):
            for k in range(each):
                s = receiver * each + k
                targets[sender, s] = at
                received[receiver, sender * each + k] = sizes[sender, s]
                at += sizes[sender, s]
        assert at <= room * 2
    operand = rng.standard_normal((n, rows, 2)).astype(np.float32)
    output = rng.standard_normal((n, 2 * room, 2)).astype(np.float32)
    return operand, output, starts, sizes, targets, received


def by_loop(operand, output, starts, sizes, targets, received):
    n, slices = starts.shape
    out = output.copy()
    for sender in range(n):
        for s in range(slices):
            a, b, size = starts[sender, s], targets[sender, s], sizes[sender, s]
            out[s // (slices // n), b : b + size] = operand[sender, a : a + size]
    return out


def exchange(*args):
    return lax.ragged_all_to_all(*args, axis_name="i")


@pytest.mark.parametrize("seed", range(4))
def test_values(seed):
    given = problem(seed)
    np.testing.assert_array_equal(
        np.asarray(ga.vmap(exchange, axis_name="i")(*given)), by_loop(*given)
    )


def test_derivative():
    operand, output, *meta = problem(7)
    w = np.random.default_rng(8).standard_normal(output.shape).astype(np.float32)
    f = lambda a, b: (ga.vmap(exchange, axis_name="i")(a, b, *meta) * w).sum()
    got = ga.grad(f, (0, 1))(operand, output)
    # Linear: the derivative along each unit is the value there.
    ones = by_loop(np.zeros_like(operand), np.ones_like(output), *meta)
    np.testing.assert_allclose(np.asarray(got[1]), w * ones, rtol=1e-6)
    t = np.cos(np.arange(operand.size, dtype=np.float32)).reshape(operand.shape)
    want = (by_loop(t, np.zeros_like(output), *meta) * w).sum()
    np.testing.assert_allclose((np.asarray(got[0]) * t).sum(), want, rtol=1e-4)


@pytest.mark.devices
@pytest.mark.parametrize("check_vma", [True, False])
def test_between_devices(check_vma):
    given = problem(3)
    mesh = Mesh(np.array(ga.devices()[:8]).reshape(4, 2), ("i", "j"))
    one = lambda *args: exchange(*[x[0] for x in args])[None]
    f = ga.shard_map(one, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=check_vma)
    np.testing.assert_array_equal(np.asarray(ga.jit(f)(*given)), by_loop(*given))
    loss = lambda g: lambda x: gnp.sin(g(x, *given[1:])).sum()
    want = ga.grad(loss(ga.vmap(exchange, axis_name="i")))(given[0])
    np.testing.assert_allclose(np.asarray(ga.grad(loss(f))(given[0])), np.asarray(want), atol=1e-5)
    both = [np.stack([x, x[::-1]]) if k < 2 else np.stack([x, x]) for k, x in enumerate(given)]
    got = np.asarray(ga.vmap(f)(*both))
    np.testing.assert_array_equal(got[1], by_loop(*[x[1] for x in both]))


def test_groups():
    groups = [[0, 2], [3, 1]]
    parts = [problem(5, n=2), problem(6, n=2)]
    given = [np.empty((4, *p.shape[1:]), p.dtype) for p in parts[0]]
    want = np.empty_like(given[1])
    for group, part in zip(groups, parts, strict=True):
        for whole, x in zip(given, part, strict=True):
            whole[group] = x
        want[group] = by_loop(*part)
    if len(ga.devices()) < 4:
        pytest.skip("groups are for devices")
    f = lambda *args: lax.ragged_all_to_all(*args, axis_name="i", axis_index_groups=groups)
    np.testing.assert_array_equal(np.asarray(ga.pmap(f, "i")(*given)), want)


X, K = np.zeros((2, 4), np.float32), np.zeros((2, 2), np.int32)
BAD = {
    "dtypes": ((X, K, K, K, K, K), "same dtype"),
    "shapes": ((X[..., None], X, K, K, K, K), "same shape"),
    "offsets that are no integers": ((X, X, X, K, K, K), "integer type"),
    "lengths": ((X, X, K, K[:, :1], K, K), "as long as the others"),
    "slices that do not divide": ((X, X, *[K[:, :1]] * 4), "must divide"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    args, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        ga.vmap(exchange, axis_name="i")(*args)


def test_unbound_name():
    with pytest.raises(NameError, match="unbound axis name: i"):
        exchange(X[0], X[0], K[0], K[0], K[0], K[0])
