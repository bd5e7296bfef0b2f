"""How results lie where nothing says it: as in JAX, for these programs.

In: programs of operands cut along a mesh of 4 x 2 devices. Out: the layouts of their results,
beside those that JAX 0.10.2 chose on eight devices of a CPU. Others may differ: a compiler decides.
"""

from collections.abc import Callable

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.scipy.special import logsumexp
from gpuarray.sharding import NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.support.devices import mesh_of

pytestmark = pytest.mark.devices


def convolution(x, w):
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)


def reshaped(x):
    turned = x.reshape(2, 4, 3, 4).transpose(3, 1, 0, 2).reshape(16, 6)
    columns = x.reshape(-1, 3, order="F")
    return x.reshape(4, 2, 12).sum(1), x.reshape(96), x.reshape(12, 8), turned, columns


DTYPES = {"f": np.float32, "s": np.float32, "i": np.int32, "n": np.int32}
#: A program, the kinds and shapes of its operands, and how these lie -> how the results do: for
#: each axis the axes of the mesh that cut it, "-" for none; () is a number.
CASES: dict[str, tuple[Callable, str, list, list[str]]] = {
    "cumsum": (
        lambda x: (gnp.cumsum(x, 0), gnp.cumsum(x, 1), lax.cumsum(x, 1, reverse=True)),
        "f",
        [(8, 12)],
        ["-.y -> -.y -.y -.y", "x.y -> x.y x.y x.y", "yx.- -> yx.- yx.- yx.-"],
    ),
    "cummin": (
        lambda x: lax.cummin(x, 0, reverse=True),
        "f",
        [(16, 4)],
        ["x.- -> x.-", "x.y -> x.y"],
    ),
    "conv": (
        convolution,
        "f f",
        [(8, 16, 16, 4), (3, 3, 4, 8)],
        [
            "y.-.-.x -.-.x.y -> y.-.-.-",
            "xy.-.-.- -.-.-.yx -> xy.-.-.-",
            "-.-.x.y -.-.x.- -> -.-.x.-",
        ],
    ),
    "sort keys": (
        lambda k, x: lax.sort((k, x), dimension=1, num_keys=1),
        "i f",
        [(8, 8), (8, 8)],
        ["-.xy yx.- -> yx.- yx.-", "y.x -.yx -> y.- y.-", "-.y yx.- -> yx.- yx.-"],
    ),
    "topk": (lambda x: lax.top_k(x, 3), "f", [(8, 16)], ["xy.- -> xy.- xy.-", "y.- -> y.- y.-"]),
    "scatter set": (
        lambda x, i, y: x.at[(i * 0 + gnp.arange(8) + 3) % 8].set(y),
        "f n f",
        [(8, 8), (8,), (8, 8)],
        ["yx.- xy x.y -> yx.-", "yx.- xy yx.- -> yx.-", "xy.- y -.x -> xy.-"],
    ),
    "scatter elem": (
        lambda x, i, j, y: x.at[i, j].add(y),
        "f n n f",
        [(8, 8), (8,), (8,), (8,)],
        ["y.- x x y -> y.-", "x.y xy xy xy -> x.y", "-.xy - yx - -> -.xy"],
    ),
    "take clip": (
        lambda x, i: gnp.take(x, i, axis=1, mode="clip"),
        "f i",
        [(8, 8), (8, 4)],
        ["xy.- x.- -> xy.-.-", "-.yx xy.- -> -.xy.-", "-.- x.y -> -.x.y"],
    ),
    "reduce window": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 2, 1), (1, 2, 1), "SAME"),
        "f",
        [(8, 8, 4)],
        ["y.-.x -> y.-.x", "y.x.- -> y.x.-"],
    ),
    "tensordot": (
        lambda a, b: gnp.tensordot(a, b, ((0, 1), (0, 1))),
        "f f",
        [(8, 4, 8), (8, 4, 6)],
        ["-.x.y -.x.y -> y.-", "yx.-.- y.x.- -> -.-"],
    ),
    "batched mm": (lambda a, b: a @ b, "f f", [(4, 8, 6), (4, 6, 8)], ["y.x.- -.y.x -> y.x.-"]),
    "mv": (
        lambda a, v: (a @ v, v @ a, v @ v, gnp.outer(v, v)),
        "f f",
        [(8, 8), (8,)],
        ["yx.- yx -> yx - () yx.-", "xy.- yx -> xy - () yx.-", "-.xy - -> - xy () -.-"],
    ),
    "cholesky": (gnp.linalg.cholesky, "s", [(4, 8, 8)], ["y.-.x -> y.-.-"]),
    "norm": (
        lambda a: (gnp.linalg.norm(a), gnp.linalg.norm(a, axis=0), gnp.linalg.norm(a, 1)),
        "f",
        [(8, 8)],
        ["-.xy -> () xy ()", "xy.- -> () - ()", "y.x -> () x ()"],
    ),
    "scan rev": (
        lambda x: lax.scan(lambda c, r: (gnp.sin(c) + r, c), x[0] * 0, x, reverse=True),
        "f",
        [(8, 8)],
        ["xy.- -> - -.-", "y.- -> - -.-", "yx.- -> - -.-"],
    ),
    "vmap cond": (
        lambda x: ga.vmap(lambda r: lax.cond(r[0] > 0, gnp.sin, gnp.cos, r))(x),
        "f",
        [(8, 8)],
        ["-.yx -> -.yx", "y.x -> y.x", "xy.- -> xy.-"],
    ),
    "logsumexp": (
        lambda x, y: logsumexp(x, axis=0, b=abs(y)) + ga.nn.logsumexp(y, 1),
        "f f",
        [(8, 8), (8, 8)],
        ["-.yx yx.- -> yx", "x.y y.x -> y"],
    ),
    "triu": (
        lambda x: (gnp.triu(x, 1), gnp.tril(x, -2), gnp.diag(x), gnp.diagonal(x, 1), gnp.trace(x)),
        "f",
        [(8, 12)],
        ["y.x -> y.x y.x - - ()", "xy.- -> xy.- xy.- - - ()", "x.y -> x.y x.y - - ()"],
    ),
    "kron": (
        gnp.kron,
        "f f",
        [(4, 4), (2, 4)],
        ["y.- -.y -> y.-", "-.y -.y -> -.y", "x.y y.x -> x.y"],
    ),
    "cross": (
        gnp.cross,
        "f f",
        [(8, 3), (8, 3)],
        ["y.- -.- -> y.-", "x.- xy.- -> xy.-", "xy.- x.- -> xy.-"],
    ),
    "reshape": (reshaped, "f", [(8, 12)], ["y.x -> y.x y y.- -.y -.-", "x.- -> x.- x x.- -.- -.-"]),
    "vmap scatter": (
        lambda x, i: ga.vmap(lambda r, k: r.at[k].add(2.0))(x, i),
        "f n",
        [(8, 8), (8,)],
        ["x.y xy -> x.y", "-.y x -> x.y", "y.x yx -> y.x"],
    ),
    "gradient": (gnp.gradient, "f", [(8, 8)], ["x.y -> x.y x.y", "-.yx -> -.yx -.yx"]),
    "interp": (
        lambda x, y: gnp.interp(y, gnp.linspace(-2, 2, 16), x),
        "f f",
        [(16,), (8,)],
        ["y - -> -", "xy - -> -", "x xy -> xy"],
    ),
}


def layout_of(sharding: NamedSharding, ndim: int) -> str:
    parts = [*sharding.spec, *[None] * (ndim - len(sharding.spec))]
    return ".".join("".join(part or "-") for part in parts) or "()"


@pytest.mark.parametrize("name", CASES)
def test_results_lie_as_in_jax(name):
    fun, kinds, shapes, facts = CASES[name]
    mesh = mesh_of((4, 2))
    assert facts
    for fact in facts:
        ins, outs = fact.split(" -> ")
        structs = []
        for kind, shape, word in zip(kinds.split(), shapes, ins.split(), strict=True):
            parts = [() if p in ("-", "()") else tuple(p) for p in word.split(".")]
            sharding = NamedSharding(mesh, P(*parts[: len(shape)]))
            structs.append(ga.ShapeDtypeStruct(shape, DTYPES[kind], sharding=sharding))
        compiled = ga.jit(fun).lower(*structs).compile()
        shardings = ga.tree.leaves(compiled.output_shardings)
        ranks = [out.ndim for out in ga.tree.leaves(ga.eval_shape(fun, *structs))]
        assert [layout_of(s, n) for s, n in zip(shardings, ranks, strict=True)] == outs.split()
