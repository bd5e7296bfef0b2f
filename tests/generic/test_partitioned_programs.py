"""Whole programs over eight devices, in any layout: the results are those of one device.

Programs are drawn by seed from operations that move, combine and fold arrays, with loops, branches,
derivatives and vmap around some; layouts of inputs and results are drawn too.
"""

import contextlib
import zlib
from collections.abc import Callable

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.sharding import NamedSharding
from tests.generic.test_partition import drawn_spec, mesh

pytestmark = pytest.mark.devices

N = 8
#: Of two arrays of shape (8, 8), of values of about 1, one more such array.
OPERATIONS: dict[str, Callable] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "row and column": lambda x, y: x[0] - y[:, :1],
    "tanh": lambda x, y: jnp.tanh(x) * 2,
    "where": lambda x, y: jnp.where(x > y, x, -y),
    "matmul": lambda x, y: x @ y / 3,
    "matmul transposed": lambda x, y: jnp.einsum("ki,jk->ij", x, y) / 3,
    "batched": lambda x, y: _square(jnp.einsum("aij,ajk->aik", _blocks(x), _blocks(y))),
    "outer": lambda x, y: jnp.outer(x.sum(1), y.mean(0)) / 4,
    "transpose": lambda x, y: x.T,
    "reshape": lambda x, y: x.reshape(4, 16)[:, ::2].reshape(16, 2).reshape(4, 8).repeat(2, 0),
    "merge": lambda x, y: jnp.sin(x.reshape(64)).reshape(8, 8),
    "flip": lambda x, y: x[::-1] + y[:, ::-1],
    "roll": lambda x, y: jnp.roll(x, 3, 0) - jnp.roll(y, -1, 1),
    "stencil": lambda x, y: x.at[1:-1].add(0.2 * (x[2:] - 2 * x[1:-1] + x[:-2])),
    "softmax": lambda x, y: softmax(x, 0) + softmax(y, 1),
    "layer norm": lambda x, y: (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 0.1),
    "cumsum": lambda x, y: jnp.cumsum(x, 0) / 3 + jnp.cumsum(y, 1) / 3,
    "cummax": lambda x, y: lax.cummax(x, 0, reverse=True),
    "sort": lambda x, y: jnp.sort(x, 0) + jnp.sort(y, 1),
    "argmax": lambda x, y: x * (jnp.argmax(y, 0) / 8),
    "max": lambda x, y: x - y.max(0) + y.min(1, keepdims=True),
    "take": lambda x, y: x[jnp.array([3, 1, 1, 7, 0, 2, 6, 5])],
    "take along": lambda x, y: jnp.take_along_axis(x, jnp.argsort(y, 1), 1),
    "scatter": lambda x, y: x.at[jnp.array([5, 1, 1])].add(y[:3]),
    "pad": lambda x, y: jnp.pad(x[1:, :-2], ((1, 0), (0, 2)), constant_values=0.5),
    "concatenate": lambda x, y: jnp.concatenate([x[:4], y[4:]]),
    "columns": lambda x, y: jnp.concatenate([y[:, 3:], x[:, :3]], 1),
    "dynamic slice": lambda x, y: lax.dynamic_update_slice(
        x, lax.dynamic_slice(y, (2, 1), (4, 4)), (3, 2)
    ),
    "stack": lambda x, y: jnp.stack([x, y]).mean(0),
    "tile": lambda x, y: jnp.tile(x[:2, :4], (4, 2)),
    "iota": lambda x, y: x + lax.broadcasted_iota(jnp.float32, (8, 8), 1) / 8,
    "scan": lambda x, y: lax.scan(lambda c, r: (c * 0.5 + r, c + y[0]), y[1], x)[1],
    "scan carry": lambda x, y: lax.scan(lambda c, r: (jnp.tanh(c + r), None), x, y)[0],
    "scan matmul": lambda x, y: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ y), x),
    "while": lambda x, y: lax.while_loop(lambda c: jnp.abs(c).max() > 0.5, lambda c: c * 0.6, x),
    "cond": lambda x, y: lax.cond(x[0, 0] > 0, lambda a, b: a.T + b, lambda a, b: a * b, x, y),
    "vmap": lambda x, y: ga.vmap(lambda a, b: jnp.sort(a) + b.sum() / 4)(x, y),
    "vmap columns": lambda x, y: ga.vmap(jnp.convolve, (1, 1, None), 1)(x, y, "same") / 4,
    "solve": lambda x, y: jnp.linalg.solve(x + 6 * jnp.eye(8), y),
    "checkpoint": lambda x, y: ga.checkpoint(lambda a, b: jnp.sin(a @ b))(x, y),
}  # fmt: skip


def _blocks(x):
    return x.reshape(4, 4, 4)


def _square(x):
    return x.reshape(8, 8) / 3


def softmax(x, axis):
    e = jnp.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def drawn_program(rng: np.random.Generator) -> tuple[list[str], Callable]:
    names = [str(n) for n in rng.choice(list(OPERATIONS), 5)]
    reads = [rng.integers(0, 3 + i, 2) for i in range(5)]

    def program(*xs):
        values = list(xs)
        for name, (i, j) in zip(names, reads, strict=True):
            values.append(OPERATIONS[name](values[i], values[j]))
        return values[-1], values[-2]

    return names, program


def derivative(program: Callable) -> Callable:
    def total(*xs):
        a, b = program(*xs)
        return jnp.sum(a * jnp.cos(b))

    return ga.value_and_grad(total, (0, 1, 2))


@contextlib.contextmanager
def recorded():
    """Let operations of any size wait for others, as large ones do."""
    before = ga.config.lazy_threshold
    ga.config.update("lazy_threshold", 0)
    try:
        yield
    finally:
        ga.config.update("lazy_threshold", before)


def check(program: Callable, rng: np.random.Generator, jitted: bool, what: str) -> None:
    xs = [rng.normal(size=(N, N)).astype(np.float32) for _ in range(3)]
    wanted = ga.tree.leaves(ga.jit(program)(*xs))
    grid = mesh()
    cut = [ga.device_put(x, NamedSharding(grid, drawn_spec(rng, x.shape))) for x in xs]
    if jitted:
        outs = [NamedSharding(grid, drawn_spec(rng, w.shape)) for w in wanted]
        tree = ga.tree.structure(ga.eval_shape(program, *xs))
        found = ga.jit(program, out_shardings=ga.tree.unflatten(tree, outs))(*cut)
        for leaf, sharding in zip(ga.tree.leaves(found), outs, strict=True):
            assert leaf.sharding == sharding, what
    else:
        found = program(*cut)
        # How results lie does not depend on when they are computed.
        with recorded():
            later = program(*cut)
        for a, b in zip(ga.tree.leaves(found), ga.tree.leaves(later), strict=True):
            assert a.sharding == b.sharding and a.aval is b.aval, what
        wanted, found = [*wanted, *wanted], [found, later]
    specs = [x.sharding.spec for x in cut]
    for a, b in zip(ga.tree.leaves(found), wanted, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        # Errors grow with what a program computes on the way: in terms of the largest value.
        bound = 2e-4 * max(1.0, float(np.abs(b).max()))
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=bound, err_msg=f"{what} {specs}")


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation(name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    fun = OPERATIONS[name]
    for trial in range(3):
        check(lambda x, y, z: fun(x, y + z), rng, trial == 0, name)


@pytest.mark.parametrize("seed", range(40))
def test_drawn_programs(seed):
    rng = np.random.default_rng(seed)
    names, program = drawn_program(rng)
    check(program, rng, seed % 2 == 0, str(names))


@pytest.mark.parametrize("seed", range(25))
def test_derivatives_of_drawn_programs(seed):
    rng = np.random.default_rng(1000 + seed)
    names, program = drawn_program(rng)
    if "while" in names:
        names, program = [n for n in names if n != "while"], lambda x, y, z: (x @ y, z)
    check(derivative(program), rng, seed % 3 > 0, f"derivative of {names}")
