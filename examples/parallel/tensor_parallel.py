"""A transformer block whose matrices are cut over the devices, in two ways.

The cuts are Megatron's: attention's first matrix by heads and its second likewise, the first matrix
of the MLP by columns and the second by rows. Each device then has whole inputs, works on its own
heads and hidden values, and has a part of the sum that is the output: one `psum` after attention
and one after the MLP.

`shard_map` says so by hand. `jit` finds the same from how the matrices lie.

Run: python examples/parallel/tensor_parallel.py
"""

import numpy as np

import gpuarray as ga

ga.config.update("num_cpu_devices", 8)  # before the first array

from exchanges import show  # noqa: E402

import gpuarray.numpy as gnp  # noqa: E402
from gpuarray import lax, nn  # noqa: E402
from gpuarray.sharding import AxisType, NamedSharding  # noqa: E402
from gpuarray.sharding import PartitionSpec as P  # noqa: E402

BATCH, TOKENS, WIDTH, HEADS, DEPTH, HIDDEN = 2, 16, 64, 8, 8, 256

# How each parameter is cut along the axis "model" of the mesh.
SPECS = {
    "qkv": P(None, None, "model"),  # (width, 3, heads, depth)
    "out": P("model"),  # (heads, depth, width)
    "up": P(None, "model"),  # (width, hidden)
    "down": P("model"),  # (hidden, width)
}


def parameters() -> dict:
    """Random matrices of one block."""
    rng = np.random.default_rng(0)
    shapes = {
        "qkv": (WIDTH, 3, HEADS, DEPTH),
        "out": (HEADS, DEPTH, WIDTH),
        "up": (WIDTH, HIDDEN),
        "down": (HIDDEN, WIDTH),
    }
    return {k: rng.normal(0, 0.05, s).astype(np.float32) for k, s in shapes.items()}


def attention(p, x):
    """Causal attention of some heads: x (batch, tokens, width) -> their share of the output."""
    q, k, v = gnp.einsum("btw,wchd->cbhtd", x, p["qkv"])
    scores = gnp.einsum("bhtd,bhsd->bhts", q, k) / DEPTH**0.5
    seen = gnp.tril(gnp.ones((TOKENS, TOKENS), bool))
    weights = nn.softmax(gnp.where(seen, scores, -1e9), axis=-1)
    return gnp.einsum("bhts,bhsd,hdw->btw", weights, v, p["out"])


def mlp(p, x):
    """Two matrices with some of the hidden values between them: their share of the output."""
    return nn.gelu(x @ p["up"]) @ p["down"]


def block(p, x, total=lambda share: share):
    """A block; `total` adds up the shares of the devices."""
    x = x + total(attention(p, nn.standardize(x)))
    return x + total(mlp(p, nn.standardize(x)))


def main() -> None:
    p = parameters()
    x = np.random.default_rng(1).normal(size=(BATCH, TOKENS, WIDTH)).astype(np.float32)
    plain = ga.jit(block)(p, x)

    mesh = ga.make_mesh((8,), ("model",), axis_types=(AxisType.Auto,))
    laid = {name: ga.device_put(p[name], NamedSharding(mesh, SPECS[name])) for name in p}
    held = sum(w.addressable_shards[0].data.size for w in laid.values())
    print(f"each device has {held:,} of {sum(w.size for w in laid.values()):,} parameters")

    def of_one_device(p, x):
        return block(p, x, lambda share: lax.psum(share, "model"))

    by_hand = ga.jit(ga.shard_map(of_one_device, mesh=mesh, in_specs=(SPECS, P()), out_specs=P()))
    by_compiler = ga.jit(block)
    for name, forward in (("shard_map", by_hand), ("jit", by_compiler)):
        show(f"{name}, forward", forward, laid, x)
        y = forward(laid, x)
        print(f"{name}, equal to one device's: {bool(gnp.allclose(y, plain, atol=1e-5))}")

    def gradient_of(forward):
        return ga.jit(ga.grad(lambda p, x: gnp.mean(forward(p, x) ** 2)))

    wanted = gradient_of(block)(p, x)
    for name, forward in (("shard_map", by_hand), ("jit", by_compiler)):
        gradient = gradient_of(forward)
        show(f"{name}, with gradients", gradient, laid, x)
        got = gradient(laid, x)
        close = all(bool(gnp.allclose(got[k], wanted[k], atol=1e-6)) for k in p)
        print(f"{name}, gradients equal to one device's: {close}")
    print(f"gradients lie as the parameters do: {got['up'].sharding == laid['up'].sharding}")


if __name__ == "__main__":
    main()
