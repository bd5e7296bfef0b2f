"""Workloads that compute each element by itself: maps, broadcasts, casts, views, random numbers."""

from __future__ import annotations

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from tests import golden
from tests.golden import shape
from tests.least_bytes.workload import BF, F16, F32, I8, INT, Workload, bytes_of


def black_scholes(price, strike, years):
    """Values of a call and of a put."""
    deviation = 0.3 * gnp.sqrt(years)
    one = (gnp.log(price / strike) + (0.02 + 0.045) * years) / deviation
    cdf = lambda x: 0.5 * (1 + lax.erf(x / 2**0.5))
    paid = strike * gnp.exp(-0.02 * years)
    call = price * cdf(one) - paid * cdf(one - deviation)
    return call, call - price + paid


def gated(x, y):
    """SwiGLU: one half of the features opens the other."""
    return nn.silu(x) * y


def halves(x):
    """The same, where both halves lie in one array."""
    n = x.shape[-1] // 2
    return nn.silu(x[:, :n]) * x[:, n:]


def horner(x):
    """A polynomial of degree 9."""
    y = gnp.zeros_like(x)
    for k in range(10):
        y = y * x + 1.0 / (k + 1)
    return y


def hsv(image):
    """Hue, saturation and value of pixels, channels last."""
    r, g, b = image[..., 0], image[..., 1], image[..., 2]
    top, low = gnp.maximum(gnp.maximum(r, g), b), gnp.minimum(gnp.minimum(r, g), b)
    spread = top - low + 1e-6
    hue = gnp.where(
        top == r, (g - b) / spread, gnp.where(top == g, 2 + (b - r) / spread, 4 + (r - g) / spread)
    )
    return hue / 6, spread / (top + 1e-6), top


def maps() -> dict[str, Workload]:
    """Chains of operations on arrays of one shape."""
    big, pair = shape(F32, 1 << 26), shape("complex64", 1 << 25)
    wide, square = shape(BF, 16384, 8192), shape(F32, 8192, 8192)
    return {
        "a x + y": Workload(lambda x, y: 2 * x + y, (big, big), 12 << 26),
        "30 operations": Workload(golden.chain, (big,), 8 << 26),
        "GELU and bias": Workload(
            lambda x, b: nn.gelu(x + b), (wide, shape(BF, 8192)), 2 * bytes_of(wide)
        ),
        "GELU, bias, residual": Workload(
            lambda x, b, r: nn.gelu(x + b) + r, (wide, shape(BF, 8192), wide), 3 * bytes_of(wide)
        ),
        "Black-Scholes": Workload(black_scholes, (big,) * 3, 20 << 26),
        "SwiGLU": Workload(gated, (wide, wide), 3 * bytes_of(wide)),
        "SwiGLU of halves": Workload(halves, (wide,), bytes_of(wide) * 3 // 2),
        "polynomial": Workload(horner, (big,), 8 << 26),
        "sine and cosine": Workload(lambda x: (gnp.sin(x), gnp.cos(x)), (big,), 12 << 26),
        "product of complex numbers": Workload(lambda x, y: x * y.conj(), (pair, pair), 24 << 25),
        "absolute value of complex": Workload(gnp.abs, (pair,), 12 << 25),
        "comparison": Workload(lambda x, y: x < y, (big, big), 9 << 26),
        "choice": Workload(lambda x, y: gnp.where(x > 0, x, y), (big, big), 12 << 26),
        "clipped": Workload(lambda x: gnp.clip(x, -1, 1), (shape(F16, 1 << 27),), 4 << 27),
        "interpolated": Workload(lambda x, y, t: x + t * (y - x), (big, big, big), 16 << 26),
        "hue and saturation": Workload(hsv, (shape(F32, 32, 512, 512, 3),), 24 << 23),
        "integers of 8 bits": Workload(
            lambda x, y: gnp.minimum(x, y) ^ 3, (shape(I8, 1 << 28),) * 2, 3 << 28
        ),
        "stencil of five points": Workload(golden.five_point, (square,), 8 << 26),
        "stencil with an edge": Workload(golden.padded_stencil, (square,), 8 << 26),
        "backwards of GELU": Workload(golden.backwards(nn.gelu), (wide, wide), 3 * bytes_of(wide)),
    }


def broadcasts() -> dict[str, Workload]:
    """What is repeated along an axis, and masks made of positions."""
    square, vector = shape(F32, 8192, 8192), shape(F32, 8192)
    images, channel = shape(BF, 256, 64, 56, 56), shape(BF, 64)
    scores = shape(BF, 16, 2048, 2048)
    return {
        "matrix + row": Workload(lambda x, r: x + r, (square, vector), 8 << 26),
        "matrix * column": Workload(lambda x, c: x * c[:, None], (square, vector), 8 << 26),
        "outer product": Workload(gnp.outer, (vector, vector), 4 << 26),
        "distances of two vectors": Workload(
            lambda a, b: gnp.abs(a[:, None] - b), (vector, vector), 4 << 26
        ),
        "scale of channels": Workload(
            lambda x, g, b: nn.relu(x * g[:, None, None] + b[:, None, None]),
            (images, channel, channel),
            2 * bytes_of(images),
        ),
        "middle axis": Workload(
            lambda x, y: x * y, (shape(F32, 512, 64, 2048), shape(F32, 512, 1, 2048)), 8 << 26
        ),
        "causal mask": Workload(
            lambda s: gnp.where(gnp.tril(gnp.ones(s.shape[-2:], bool)), s, -1e9),
            (scores,),
            2 * bytes_of(scores),
        ),
        "mask of lengths": Workload(
            lambda x, n: gnp.where(gnp.arange(x.shape[1]) < n[:, None], x, 0),
            (square, shape(INT, 8192)),
            8 << 26,
        ),
        "one hot": Workload(lambda y: nn.one_hot(y, 4096, dtype=BF), (shape(INT, 32768),), 2 << 27),
        "grid of coordinates": Workload(
            lambda x: gnp.sqrt(x[:, None] ** 2 + gnp.arange(8192.0) ** 2), (vector,), 4 << 26
        ),
    }


def casts() -> dict[str, Workload]:
    """Conversions, and quantisation."""
    big, half, bytes_ = shape(F32, 1 << 26), shape(BF, 1 << 27), shape(I8, 8192, 16384)
    rows, column = shape(BF, 8192, 16384), shape(F32, 8192)
    return {
        "float32 to bfloat16": Workload(lambda x: x.astype(BF), (big,), 6 << 26),
        "bfloat16 to float32": Workload(lambda x: x.astype(F32), (half,), 6 << 27),
        "float32 to 8 bits": Workload(
            lambda x: gnp.clip(gnp.round(x * 16), -128, 127).astype(I8), (big,), 5 << 26
        ),
        "8 bits to bfloat16, scale a row": Workload(
            lambda q, s: (q * s[:, None]).astype(BF), (bytes_, column), 3 << 27
        ),
        "rows to 8 bits": Workload(quantised_rows, (rows,), 3 << 27),
        "float8 with one scale": Workload(scaled_float8, (half,), 2 * (2 << 27) + (1 << 27)),
        "blocks of 32 in 8 bits": Workload(golden.in_blocks, (big,), 8 << 26),
        "two of 4 bits in a byte": Workload(
            lambda q: (q[:, 0::2] & 15) | (q[:, 1::2] << 4), (shape("uint8", 8192, 16384),), 3 << 26
        ),
        "rounded as trained": Workload(
            lambda x: gnp.round(gnp.clip(x, -1, 1) * 127) / 127, (half,), 4 << 27
        ),
        "numbers of a mask": Workload(lambda m: m.astype(F32), (shape("bool", 1 << 27),), 5 << 27),
    }


def quantised_rows(x):
    """Rows of 8 bits, each with its scale."""
    scale = gnp.max(gnp.abs(x), axis=1, keepdims=True).astype(F32) / 127
    return gnp.round(x.astype(F32) / scale).astype(I8), scale


def scaled_float8(x):
    """All numbers by one scale, so that the largest fits: read twice, since all is waited for."""
    scale = gnp.max(gnp.abs(x)).astype(F32) / 448
    return (x.astype(F32) / scale).astype("float8_e4m3fn")


def views() -> dict[str, Workload]:
    """Moved elements: each kernel reads them where they lie."""
    square, half, big = shape(F32, 8192, 8192), shape(BF, 8192, 8192), shape(F32, 1 << 26)
    pictures, heads = shape(F32, 64, 224, 224, 3), shape(BF, 64, 1024, 16, 64)
    return {
        "transpose": Workload(lambda x: x.T + 0, (square,), 8 << 26),
        "transpose of 16 bits": Workload(lambda x: x.T * 2, (half,), 4 << 26),
        "(A^T + B) c": Workload(lambda a, b: (a.T + b) * 3, (square, square), 12 << 26),
        "channels last": Workload(
            lambda x: gnp.transpose(x, (0, 2, 3, 1)) * 2,
            (shape(F32, 64, 64, 112, 112),),
            8 * 64 * 64 * 112 * 112,
        ),
        "heads first": Workload(
            lambda x: gnp.swapaxes(x, 1, 2) * 0.125, (heads,), 2 * bytes_of(heads)
        ),
        "reversed": Workload(lambda x: x[::-1] * 2, (big,), 8 << 26),
        "every other column": Workload(lambda x: x[:, ::2] * 2, (square,), 4 << 26),
        "every other row": Workload(lambda x: x[::2] * 2, (square,), 4 << 26),
        "two side by side": Workload(
            lambda a, b: gnp.concatenate([a, b], -1) * 2, (half, half), 8 << 26
        ),
        "two in turns": Workload(
            lambda a, b: gnp.stack([a, b], -1).reshape(-1), (big, big), 16 << 26
        ),
        "padded": Workload(
            lambda x: gnp.pad(x, ((0, 0), (3, 3), (3, 3), (0, 0))) * 2,
            (pictures,),
            4 * 64 * 3 * (224 * 224 + 230 * 230),
        ),
        "rolled": Workload(lambda x: gnp.roll(x, 5, 1) + x, (square,), 8 << 26),
        "repeated": Workload(lambda x: gnp.repeat(x, 4, 0) * 2, (half,), 10 << 26),
        "lower triangle": Workload(
            gnp.tril, (square,), 6 << 26, "elements above the diagonal are read, and not used"
        ),
        "diagonal": Workload(lambda x: gnp.diagonal(x) * 2, (square,), 8 * 8192),
        "pixels to channels": Workload(
            lambda x: (
                x.reshape(64, 112, 2, 112, 2, 3)
                .transpose(0, 1, 3, 2, 4, 5)
                .reshape(64, 112, 112, 12)
                / 255
            ),
            (pictures,),
            2 * bytes_of(pictures),
        ),
        "patches of images": Workload(patches, (pictures, shape(F32, 3)), 2 * bytes_of(pictures)),
        "differences of neighbours": Workload(lambda x: gnp.diff(x, axis=1), (square,), 8 << 26),
        "image twice as large": Workload(
            lambda x: gnp.repeat(gnp.repeat(x, 2, 1), 2, 2) * 2,
            (pictures,),
            5 * bytes_of(pictures),
        ),
        "rotary embedding": Workload(
            golden.rotated, (shape(BF, 32768, 16, 64), *(shape(BF, 16, 32),) * 2), 4 << 25
        ),
    }


def patches(x, mean):
    """Patches of 16 x 16 pixels as rows whose mean is 0."""
    n, h, w, c = x.shape
    tiles = (x - mean).reshape(n, h // 16, 16, w // 16, 16, c).transpose(0, 1, 3, 2, 4, 5)
    rows = tiles.reshape(n, (h // 16) * (w // 16), 16 * 16 * c)
    return rows - rows.mean(-1, keepdims=True)


def random_numbers() -> dict[str, Workload]:
    """Drawn in the kernel that uses them."""
    big, key, logits = shape(F32, 1 << 26), ga.random.key(0), shape(F32, 8192, 8192)
    random = ga.random
    return {
        "uniform": Workload(lambda k: random.uniform(k, (1 << 28,)), (key,), 4 << 28),
        "normal": Workload(lambda k: random.normal(k, (1 << 27,)), (key,), 4 << 27),
        "bits": Workload(lambda k: random.bits(k, (1 << 27,)), (key,), 4 << 27),
        "integers below 1000": Workload(
            lambda k: random.randint(k, (1 << 26,), 0, 1000), (key,), 4 << 26
        ),
        "dropout": Workload(golden.dropout, (big, key), 8 << 26),
        "noise": Workload(lambda x, k: x + 0.1 * random.normal(k, x.shape), (big, key), 8 << 26),
        "one of each row, by its logits": Workload(
            lambda x, k: random.categorical(k, x), (logits, key), bytes_of(logits)
        ),
        "coins": Workload(lambda k: random.bernoulli(k, 0.3, (1 << 28,)), (key,), 1 << 28),
    }


def loops() -> dict[str, Workload]:
    """Loops whose turns stay in registers."""
    big = shape(F32, 1 << 26)
    return {
        "mandelbrot": Workload(golden.mandelbrot, (shape("complex64", 4096, 4096),), 12 << 24),
        "cube roots by Newton": Workload(
            lambda x: lax.fori_loop(0, 20, lambda _, y: (2 * y + x / (y * y)) / 3, x),
            (big,),
            8 << 26,
        ),
        "logistic map": Workload(
            lambda x, r: lax.fori_loop(0, 100, lambda _, x: r * x * (1 - x), x),
            (big, big),
            12 << 26,
        ),
        "pendulum": Workload(pendulum, (big, big), 16 << 26),
        "pendulums, stacked": Workload(stacked, (shape(F32, 2, 1 << 26),), 16 << 26),
        "pendulums, set in place": Workload(set_in_place, (shape(F32, 2, 1 << 26),), 16 << 26),
        "orbits": Workload(orbits, (shape(F32, 1 << 24, 3),) * 2, 48 << 24),
        "rays to a ball": Workload(rays, (shape(F32, 3), shape(F32, 1 << 24, 3)), 16 << 24),
        "hidden states": Workload(
            hidden_states,
            (shape(F32, 1 << 20, 4), shape(F32, 4, 4), shape(F32, 100, 1 << 20, 4)),
            (100 * 20 + 16) << 20,
        ),
        "paths of cars": Workload(
            cars, (shape(F32, 1 << 18, 4), shape(F32, 100, 1 << 18, 2)), (100 * 24 + 32) << 18
        ),
        "moving average, kept": Workload(golden.ema_scan, (shape(F32, 512, 1 << 17),), 8 << 26),
        "gated recurrence": Workload(recurrence, (shape(F32, 512, 1 << 17),) * 2, 12 << 26),
        "until it is small": Workload(
            lambda x: lax.while_loop(lambda s: s[1] < 50, lambda s: (s[0] / 2, s[1] + 1), (x, 0))[
                0
            ],
            (big,),
            8 << 26,
        ),
        "branch by branch": Workload(
            lambda x, n: lax.switch(n, [gnp.sin, gnp.cos, gnp.exp], x), (big, shape(INT)), 8 << 26
        ),
    }


def pendulum(angle, speed):
    """100 steps of a pendulum."""

    def step(_, state):
        a, v = state
        v = v - 0.01 * gnp.sin(a)
        return a + 0.01 * v, v

    return lax.fori_loop(0, 100, step, (angle, speed))


def stacked(state):
    """1000 steps of a pendulum, whose state is one array."""

    def step(_, s):
        return s + 0.01 * gnp.stack([s[1], -gnp.sin(s[0])])

    return lax.fori_loop(0, 1000, step, state)


def set_in_place(state):
    """The same, each number set by itself."""

    def step(_, s):
        s = s.at[0].add(0.01 * s[1])
        return s.at[1].add(-0.01 * gnp.sin(s[0]))

    return lax.fori_loop(0, 1000, step, state)


def orbits(x, v):
    """1000 steps around one mass."""

    def step(_, state):
        x, v = state
        v = v - 0.01 * x / gnp.linalg.norm(x, axis=-1, keepdims=True) ** 3
        return x + 0.01 * v, v

    return lax.fori_loop(0, 1000, step, (x, v))


def rays(origin, direction):
    """64 steps along each ray, as far as the nearest surface is away."""

    def step(_, t):
        p = origin + t[:, None] * direction
        ball = gnp.linalg.norm(p - gnp.array([0.0, 0.0, 3.0]), axis=-1) - 1
        return t + gnp.minimum(ball, p[:, 1] + 1)

    return lax.fori_loop(0, 64, step, gnp.zeros(direction.shape[0]))


def hidden_states(a, change, seen):
    """The likelihood of what is seen of a hidden Markov chain, turn by turn."""

    def step(a, now):
        a = (a @ change) * now
        total = a.sum(-1, keepdims=True)
        return a / total, total[:, 0]

    return lax.scan(step, a, seen)


def cars(state, turned):
    """Where cars are after each turn of their wheels."""

    def step(s, u):
        x, y, angle, speed = gnp.split(s, 4, -1)
        far = 0.1 * speed
        x, y = x + far * gnp.cos(angle), y + far * gnp.sin(angle)
        s = gnp.concatenate([x, y, angle + far * u[:, :1], speed + 0.1 * u[:, 1:]], -1)
        return s, s

    return lax.scan(step, state, turned)


def recurrence(gate, x):
    """h = g h + (1 - g) x along time, all of them kept."""

    def step(h, now):
        g, x = now
        h = nn.sigmoid(g) * h + (1 - nn.sigmoid(g)) * x
        return h, h

    return lax.scan(step, gnp.zeros_like(x[0]), (gate, x))[1]


CHAPTERS = {
    "Maps": maps,
    "Broadcasts": broadcasts,
    "Casts and quantisation": casts,
    "Views": views,
    "Random numbers": random_numbers,
    "Loops": loops,
}
