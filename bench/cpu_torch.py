"""The rows of `python -m bench --cpu` as PyTorch computes them, where it has a way of its own.

In: torch, which is imported by whoever measures. Out: `WHOLE`, functions that are compiled whole,
by the name of the row, and `TURNS`, loops of a function that is compiled. Programs whose loops
depend on what they compute, or have hundreds of short turns, have no natural text there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

Text = Callable[..., Any]


# ---- texts of more than a line ----
def _softmax(t, x):
    return t.softmax(x, -1)


def _layer_norm(t, x):
    return t.nn.functional.layer_norm(x, x.shape[-1:], eps=1e-5)


def _half_chain(t, x, y):
    return t.relu(x * y + x) * y - t.exp(-t.abs(x))


def _interp(t, x, xp, fp):
    i = t.clamp(t.searchsorted(xp, x), 1, len(xp) - 1)
    low, high = xp[i - 1], xp[i]
    inside = fp[i - 1] + (x - low) * ((fp[i] - fp[i - 1]) / (high - low))
    return t.where(x < xp[0], fp[0], t.where(x > xp[-1], fp[-1], inside))


def _map_coordinates(t, image, places):
    size = t.tensor([image.shape[1] - 1, image.shape[0] - 1], dtype=t.float32)
    grid = places.flip(0).T / size * 2 - 1
    sample = t.nn.functional.grid_sample
    found = sample(image[None, None], grid[None, None], padding_mode="border", align_corners=True)
    return found.reshape(-1)


def _segments(t, x, ids):
    return t.zeros((1000, *x.shape[1:])).index_add(0, ids, x)


def _segment_max(t, x, ids):
    return t.full((1000,), -t.inf).scatter_reduce(0, ids.long(), x, "amax")


def _overlaps(t, boxes):
    low = t.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = t.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    inside = t.prod(t.clamp(high - low, 0), -1)
    area = t.prod(boxes[:, 2:] - boxes[:, :2], -1)
    return inside / (area[:, None] + area[None] - inside)


def _convolution(t, x, w, *_):
    found = t.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1)
    return found.permute(0, 2, 3, 1)


def _gradient(loss: Text, *argnums: int) -> Text:
    where = argnums if len(argnums) > 1 else argnums[0]
    return lambda t, *xs: t.func.grad(functools.partial(loss, t), argnums=where)(*xs)


def _embedding_loss(t, table, places):
    return t.sum(table[places] ** 2)


def _solve_loss(t, a, b):
    return t.sum(t.linalg.solve(a, b) ** 2)


def _conv_norm_loss(t, x, w, scale, shift):
    y = _convolution(t, x, w)
    mean, var = t.mean(y, (0, 1, 2)), t.var(y, (0, 1, 2), correction=0)
    return t.mean(t.relu((y - mean) / t.sqrt(var + 1e-5) * scale + shift) ** 2)


def _mlp_step(t, w1, w2, x, y):
    loss = lambda w1, w2: t.mean((t.relu(x @ w1) @ w2 - y) ** 2)
    g1, g2 = t.func.grad(loss, argnums=(0, 1))(w1, w2)
    return w1 - 0.1 * g1, w2 - 0.1 * g2


def _ctc_loss(t, logits, labels):
    logp = t.log_softmax(logits, -1).transpose(0, 1)
    lengths = [(n,) * len(labels) for n in (logits.shape[1], labels.shape[1])]
    return t.nn.functional.ctc_loss(logp, labels.long(), *lengths, reduction="none").mean()


WHOLE: dict[str, Text] = {
    "chain": lambda t, a, b: (((a * b + 1.5) * a - b) * 0.5 + a * 0.25) - b,
    "integer_chain": lambda t, i: t.sum(((i * 3 + 7) % 11 < 5) & (i > 2)),
    "boolean_chain": lambda t, a, b: (a & ~b) | (a ^ b),
    "bf16_chain": _half_chain,
    "f16_chain": _half_chain,
    "bf16_sum": lambda t, x: t.sum(x, 1),
    "gelu": lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
    "exp": lambda t, x: t.exp(x),
    "sin": lambda t, x: t.sin(x),
    "tanh": lambda t, x: t.tanh(x),
    "power": lambda t, x: x**2.7,
    "where": lambda t, a, b: t.where(a > 0, a, b * 0.1),
    "erf": lambda t, x: t.erf(x),
    "erfinv": lambda t, x: t.erfinv(x),
    "digamma": lambda t, x: t.digamma(x),
    "gammaln": lambda t, x: t.lgamma(x),
    "polygamma": lambda t, x: t.polygamma(1, x),
    "gammainc": lambda t, x: t.special.gammainc(t.full_like(x, 2.5), x),
    "i0e": lambda t, x: t.special.i0e(x),
    "log_ndtr": lambda t, x: t.special.log_ndtr(x),
    "expit": lambda t, x: t.sigmoid(x),
    "squared_distance": lambda t, a, b: t.sum((a - b) ** 2),
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "variance": lambda t, x: t.var(x, 0, correction=0),
    "logsumexp": lambda t, x: t.logsumexp(x, 1),
    "argmax": lambda t, x: t.argmax(x, 1),
    "cumsum": lambda t, x: t.cumsum(x, 1),
    "transpose_add": lambda t, a, b: (a.T + b) * 3,
    "sort": lambda t, x: t.sort(x)[0],
    "argsort": lambda t, x: t.argsort(x, stable=True),
    "argsort_rows": lambda t, x: t.argsort(x, dim=1, stable=True),
    "top_k": lambda t, x: t.topk(x, 8)[0],
    "median": lambda t, x: t.quantile(x, 0.5, dim=1),
    "searchsorted": lambda t, x, v: t.searchsorted(x, v),
    "interp": _interp,
    "map_coordinates": _map_coordinates,
    "gather": lambda t, x, i: x[i] * 2,
    "gather_rows": lambda t, x, i: x[i],
    "take_along": lambda t, x: t.take_along_dim(x, t.argmin(x, 1)[:, None], 1),
    "scatter_add": _segments,
    "embedding_gradient": _gradient(_embedding_loss, 0),
    "segment_sum": _segments,
    "segment_rows": _segments,
    "segment_max": _segment_max,
    "histogram": lambda t, x: t.histc(x, 100),
    "matmul": lambda t, a, b: a @ b,
    "small_matmul": lambda t, a, b: a @ b,
    "int8_matmul": lambda t, a, b: t._int_mm(a, b),
    "complex_matmul": lambda t, a: t.abs(a @ a.conj().T),
    "overlaps": _overlaps,
    "attention": lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
    "solve_2x2": lambda t, a, b: t.linalg.solve(a, b),
    "solve_6x6": lambda t, a, b: t.linalg.solve(a, b),
    "solve_gradient": _gradient(_solve_loss, 0, 1),
    "inv_3x3": lambda t, a: t.linalg.inv(a),
    "det_4x4": lambda t, a: t.linalg.det(a),
    "cholesky_8x8": lambda t, a: t.linalg.cholesky(a),
    "expm": lambda t, a: t.linalg.matrix_exp(a),
    "eigh": lambda t, a: t.linalg.eigh(a)[0],
    "fft": lambda t, x: t.abs(t.fft.fft(x)),
    "rfft": lambda t, x, k: t.fft.irfft(t.fft.rfft(x) * t.fft.rfft(k)),
    "convolution": _convolution,
    "conv_norm_gradient": _gradient(_conv_norm_loss, 1, 2, 3),
    "normal": lambda t: t.randn(1_000_000),
    "uniform": lambda t: t.rand(1_000_000),
    "permutation": lambda t: t.randperm(100_000),
    "gamma": lambda t: t._standard_gamma(t.full((100_000,), 2.5)),
    "mlp_step": _mlp_step,
    "ctc": _gradient(_ctc_loss, 0),
}

#: Rows that torch.compile refuses, and which run operation by operation.
UNCOMPILED = {"ctc"}


# ---- loops ----
class Turns(NamedTuple):
    """A loop: what it starts with, of the arrays; a turn, which is compiled; how often; and what of
    the last state is the result.
    """

    start: Text
    turn: Text
    count: int
    result: Text = lambda t, state: state[0]


def _kmeans_turn(t, centres, x):
    nearest = t.argmin(t.sum((x[:, None] - centres) ** 2, -1), 1)
    one = (nearest[:, None] == t.arange(len(centres))).float()
    return (one.T @ x) / (t.sum(one, 0)[:, None] + 1e-9), x


def _bodies_turn(t, x, v):
    d = x[None] - x[:, None]
    near = t.sum(d * d, -1) + 0.01
    v = v + 0.001 * t.sum(d / (near * t.sqrt(near))[..., None], 1)
    return x + 0.001 * v, v


def _heat_turn(t, u):
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    inner = u[1:-1, 1:-1]
    changed = inner + 0.2 * (around - 4 * inner)
    return (t.slice_scatter(u, t.cat([u[1:-1, :1], changed, u[1:-1, -1:]], 1), 0, 1, -1),)


def _life_turn(t, alive):
    places = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    near = sum(t.roll(alive, at, (0, 1)) for at in places)
    return (((near == 3) | ((alive == 1) & (near == 2))).int(),)


def _mandelbrot_turn(t, z, n, c):
    inside = t.abs(z) < 2
    return t.where(inside, z * z + c, z), n + inside, c


def _cloth_turn(t, x, v):
    def pull(a, b):
        d = b - a
        return d * (1 - 0.03 / t.sqrt(t.sum(d * d, -1, keepdim=True) + 1e-9))

    pad = t.nn.functional.pad
    down, right = pull(x[:-1], x[1:]), pull(x[:, :-1], x[:, 1:])
    f = pad(down, (0, 0, 0, 0, 0, 1)) - pad(down, (0, 0, 0, 0, 1, 0))
    f = f + pad(right, (0, 0, 0, 1)) - pad(right, (0, 0, 1, 0))
    v = (v + 0.005 * (100 * f - t.tensor([0.0, 0.0, 9.8]))) * 0.999
    v = t.cat([t.zeros_like(v[:1]), v[1:]])
    return x + 0.005 * v, v


def _bisection_turn(t, low, high, target):
    middle = 0.5 * (low + high)
    above = middle * t.exp(middle) > target
    return t.where(above, low, middle), t.where(above, middle, high), target


TURNS = {
    "kmeans": Turns(lambda t, x: (x[:8], x), _kmeans_turn, 10),
    "bodies": Turns(lambda t, x: (x, t.zeros_like(x)), _bodies_turn, 20),
    "heat": Turns(lambda t, u: (u,), _heat_turn, 100),
    "life": Turns(lambda t, alive: (alive,), _life_turn, 50),
    "cloth": Turns(lambda t, x: (x, t.zeros_like(x)), _cloth_turn, 50),
    "mandelbrot": Turns(
        lambda t, c: (t.zeros_like(c), t.zeros(c.shape, dtype=t.int32), c),
        _mandelbrot_turn,
        30,
        lambda t, state: state[1],
    ),
    "bisection": Turns(lambda t, x: (t.zeros_like(x), t.zeros_like(x) + 4, x), _bisection_turn, 40),
}


def function(torch: Any, name: str, jit: Callable[[Callable], Callable]) -> Callable | None:
    """The row of this name as a function of tensors; None where PyTorch has no text of it."""
    whole, turns = WHOLE.get(name), TURNS.get(name)
    if whole is not None:
        called = lambda *xs: whole(torch, *xs)
        return called if name in UNCOMPILED else jit(called)
    if turns is None:
        return None
    turn = jit(lambda *state: turns.turn(torch, *state))

    def looped(*xs):
        state = turns.start(torch, *xs)
        for _ in range(turns.count):
            state = turn(*state)
        return turns.result(torch, state)

    return looped
