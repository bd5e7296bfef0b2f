"""Rows of `python -m bench --cpu`: whole programs, most of them loops of many small steps.

In: nothing. Out: PROGRAMS, in the form of `bench/cpu_operations.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.cpu_operations import RNG, Arrays, Row, normal


def _vector(n: int, scale: float = 1.0) -> Callable[[RNG, bool], Arrays]:
    return lambda rng, small: [rng.standard_normal(n).astype(np.float32) * np.float32(scale)]


def _scalar(value: float) -> Callable[[RNG, bool], Arrays]:
    return lambda rng, small: [np.float32(value)]


# ---- loops of scalars ----


def _collatz(m) -> Callable:
    def step(state):
        n, count = state
        return m.np.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return lambda n: m.lax.while_loop(lambda s: s[0] > 1, step, (n, 0))[1]


def _while_newton(m) -> Callable:
    def root(a):
        def going(s):
            return s[1] < 500

        return m.lax.while_loop(going, lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1), (a, 0))[0]

    return root


def _series(rng: RNG, small: bool) -> Arrays:
    return [np.float32(0.3), rng.uniform(3.5, 4.0, 1000).astype(np.float32)]


def _logistic_scan(m) -> Callable:
    def step(x, r):
        x = r * x * (1 - x)
        return x, x

    return lambda x, rs: m.lax.scan(step, x, rs)[1]


def _fori_sum(m) -> Callable:
    return lambda x: m.lax.fori_loop(0, 1000, lambda i, s: s * 0.999 + m.np.sin(s) * 0.1, x)


def _bisect(m) -> Callable:
    def solve(target):
        def halve(_, bounds):
            low, high = bounds
            middle = 0.5 * (low + high)
            above = middle * m.np.exp(middle) > target
            return m.np.where(above, low, middle), m.np.where(above, middle, high)

        zero = m.np.zeros_like(target)
        return m.lax.fori_loop(0, 40, halve, (zero, zero + 4))[0]

    return solve


# ---- filters and chains ----


def _kalman(m) -> Callable:
    """4 states, 2 measurements, 300 steps."""
    a = np.eye(4, dtype=np.float32) + 0.1 * np.eye(4, k=2, dtype=np.float32)
    h, q = np.eye(2, 4, dtype=np.float32), 0.01 * np.eye(4, dtype=np.float32)
    r = 0.1 * np.eye(2, dtype=np.float32)

    def step(state, z):
        x, p = state
        x, p = a @ x, a @ p @ a.T + q
        s = h @ p @ h.T + r
        k = m.np.linalg.solve(s, h @ p).T
        x = x + k @ (z - h @ x)
        return (x, p - k @ h @ p), x

    def run(zs):
        start = (m.np.zeros(4), m.np.eye(4))
        return m.lax.scan(step, start, zs)[1]

    return run


def _hmm(m) -> Callable:
    def forward(log_start, log_move, log_seen):
        def step(alpha, seen):
            alpha = m.special.logsumexp(alpha[:, None] + log_move, axis=0) + seen
            return alpha, None

        alpha, _ = m.lax.scan(step, log_start + log_seen[0], log_seen[1:])
        return m.special.logsumexp(alpha)

    return forward


def _hmm_data(rng: RNG, small: bool) -> Arrays:
    def logs(*shape):
        p = rng.random(shape).astype(np.float32) + 0.1
        return np.log(p / p.sum(-1, keepdims=True)).astype(np.float32)

    return [logs(8), logs(8, 8), logs(200, 8)]


def _viterbi(m) -> Callable:
    def best(start, move, seen):
        def step(score, row):
            each = score[:, None] + move
            return m.np.max(each, 0) + row, m.np.argmax(each, 0)

        score, back = m.lax.scan(step, start + seen[0], seen[1:])
        last, path = m.lax.scan(lambda k, row: (row[k], k), m.np.argmax(score), back, reverse=True)
        return m.np.concatenate([last[None], path])

    return best


def _hmc(m) -> Callable:
    """50 proposals of 10 leapfrog steps each, 10 dimensions."""

    def energy(x):
        return 0.5 * m.np.sum(x**2) + 0.1 * m.np.sum(m.np.cos(3 * x))

    gradient = m.top.grad(energy)

    def leap(_, state):
        x, p = state
        p = p - 0.05 * gradient(x)
        x = x + 0.1 * p
        return x, p - 0.05 * gradient(x)

    def step(x, key):
        first, second = m.random.split(key)
        p = m.random.normal(first, x.shape)
        new, q = m.lax.fori_loop(0, 10, leap, (x, p))
        gain = energy(x) + 0.5 * m.np.sum(p**2) - energy(new) - 0.5 * m.np.sum(q**2)
        x = m.np.where(m.np.log(m.random.uniform(second)) < gain, new, x)
        return x, m.np.sum(x)

    return lambda x: m.lax.scan(step, x, m.random.split(m.random.key(0), 50))[1]


def _walks(m) -> Callable:
    """16 chains of 500 proposals each, 10 dimensions."""

    def likely(x):
        return -0.5 * m.np.sum(x**2) - m.np.log1p(m.np.sum(x**4))

    def step(x, key):
        first, second = m.random.split(key)
        new = x + 0.3 * m.random.normal(first, x.shape)
        gain = likely(new) - likely(x)
        x = m.np.where(m.np.log(m.random.uniform(second)) < gain, new, x)
        return x, x

    def chain(key, x):
        return m.np.mean(m.lax.scan(step, x, m.random.split(key, 500))[1], 0)

    return lambda x: m.top.vmap(chain)(m.random.split(m.random.key(0), len(x)), x)


def _nuts(m) -> Callable:
    """30 trees that grow until the path turns round, in steps of a while loop."""

    def energy(x):
        return 0.5 * m.np.sum(x**2 / (1 + m.np.arange(8.0)))

    gradient = m.top.grad(energy)

    def grow(state):
        x, p, start, chosen, weight, _, key, count = state
        key, own = m.random.split(key)
        p = p - 0.1 * gradient(x)
        x = x + 0.2 * p
        p = p - 0.1 * gradient(x)
        own_weight = -(energy(x) + 0.5 * m.np.sum(p**2))
        total = m.np.logaddexp(weight, own_weight)
        take = m.np.log(m.random.uniform(own)) < own_weight - total
        turned = m.np.dot(x - start, p) < 0
        return x, p, start, m.np.where(take, x, chosen), total, turned, key, count + 1

    def step(x, key):
        first, second = m.random.split(key)
        p = m.random.normal(first, x.shape)
        weight = -(energy(x) + 0.5 * m.np.sum(p**2))
        state = (x, p, x, x, weight, False, second, 0)
        state = m.lax.while_loop(lambda s: ~s[5] & (s[7] < 64), grow, state)
        return state[3], state[7]

    return lambda x: m.lax.scan(step, x, m.random.split(m.random.key(1), 30))[1]


# ---- optimisation ----


def _rosenbrock(m) -> Callable:
    return lambda x: m.np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def _lbfgs(m) -> Callable:
    """Two loops over a history of 8 pairs, 60 steps of a fixed length."""
    f = _rosenbrock(m)
    gradient = m.top.grad(f)

    def direction(g, ss, ys, rhos):
        def back(q, pair):
            s, y, rho = pair
            alpha = rho * m.np.dot(s, q)
            return q - alpha * y, alpha

        q, alphas = m.lax.scan(back, g, (ss, ys, rhos), reverse=True)
        last = m.np.dot(ys[-1], ys[-1])
        q = q * m.np.where(last > 0, m.np.dot(ss[-1], ys[-1]) / (last + 1e-12), 1e-3)

        def forth(r, pair):
            s, y, rho, alpha = pair
            return r + s * (alpha - rho * m.np.dot(y, r)), None

        return m.lax.scan(forth, q, (ss, ys, rhos, alphas))[0]

    def step(_, state):
        x, g, ss, ys, rhos = state
        d = direction(g, ss, ys, rhos)
        new = x - d * m.np.minimum(1.0, 0.1 / (m.np.sqrt(m.np.sum(d * d)) + 1e-12))
        after = gradient(new)
        s, y = new - x, after - g
        sy = m.np.dot(s, y)
        rho = m.np.where(sy > 1e-10, 1 / (sy + 1e-12), 0.0)

        def pushed(rows, row):
            return m.np.concatenate([rows[1:], row[None]])

        return new, after, pushed(ss, s), pushed(ys, y), m.np.append(rhos[1:], rho)

    def run(x):
        n = len(x)
        state = (x, gradient(x), m.np.zeros((8, n)), m.np.zeros((8, n)), m.np.zeros(8))
        return f(m.lax.fori_loop(0, 60, step, state)[0])

    return run


def _adam(m) -> Callable:
    gradient = m.top.grad(_rosenbrock(m))

    def step(t, state):
        x, mean, square = state
        g = gradient(x)
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
        scale = m.np.sqrt(1 - 0.999 ** (t + 1.0)) / (1 - 0.9 ** (t + 1.0))
        return x - 0.01 * scale * mean / (m.np.sqrt(square) + 1e-8), mean, square

    def run(x):
        zero = m.np.zeros_like(x)
        return m.lax.fori_loop(0, 500, step, (x, zero, zero))[0]

    return run


def _mlp_step(m) -> Callable:
    def loss(w1, w2, x, y):
        return m.np.mean((m.np.maximum(x @ w1, 0) @ w2 - y) ** 2)

    def step(w1, w2, x, y):
        g1, g2 = m.top.grad(loss, argnums=(0, 1))(w1, w2, x, y)
        return w1 - 0.1 * g1, w2 - 0.1 * g2

    return step


def _mlp_data(rng: RNG, small: bool) -> Arrays:
    n = 64 if small else 512
    shapes = (784, n), (n, 10), (n, 784), (n, 10)
    return [0.05 * rng.standard_normal(s, np.float32) for s in shapes]


# ---- sequences ----


def _rnn_gradient(m) -> Callable:
    def loss(w, u, xs):
        def step(h, x):
            return m.np.tanh(x @ w + h @ u), None

        h, _ = m.lax.scan(step, m.np.zeros((16, 64)), xs)
        return m.np.sum(h**2)

    return m.top.grad(loss, argnums=(0, 1))


def _rnn_data(rng: RNG, small: bool) -> Arrays:
    shapes = (32, 64), (64, 64), (50, 16, 32)
    return [0.1 * rng.standard_normal(s, np.float32) for s in shapes]


def _recurrence(m) -> Callable:
    def after(one, two):
        return one[0] * two[0], two[0] * one[1] + two[1]

    return lambda a, b: m.lax.associative_scan(after, (a, b))[1]


def _recurrence_gradient(m) -> Callable:
    states = _recurrence(m)
    return m.top.grad(lambda a, b: (states(a, b) ** 2).sum(), argnums=(0, 1))


def _recurrence_data(rng: RNG, small: bool) -> Arrays:
    shape = (64, 16) if small else (2048, 512)
    kept = rng.uniform(0.5, 1, shape).astype(np.float32)
    return [kept, rng.standard_normal(shape).astype(np.float32)]


def _ctc(m) -> Callable:
    """The loss of 8 sequences of 60 steps with labels of 15, by the recursion over steps."""

    def loss(logits, labels):
        logp = m.nn.log_softmax(logits)
        blanks = m.np.zeros_like(labels)
        extended = m.np.stack([blanks, labels], -1).reshape(len(labels), -1)
        extended = m.np.concatenate([extended, blanks[:, :1]], 1)
        same = extended[:, 2:] == extended[:, :-2]
        skip = m.np.pad((extended[:, 2:] != 0) & ~same, ((0, 0), (2, 0)))
        seen = m.np.take_along_axis(logp, extended[:, None, :], 2).transpose(1, 0, 2)
        start = m.np.where(m.np.arange(extended.shape[1]) < 2, seen[0], -1e5)

        def step(alpha, row):
            one = m.np.pad(alpha, ((0, 0), (1, 0)), constant_values=-1e5)[:, :-1]
            two = m.np.pad(alpha, ((0, 0), (2, 0)), constant_values=-1e5)[:, :-2]
            two = m.np.where(skip, two, -1e5)
            return m.np.logaddexp(m.np.logaddexp(alpha, one), two) + row, None

        alpha, _ = m.lax.scan(step, start, seen[1:])
        return -m.np.mean(m.np.logaddexp(alpha[:, -1], alpha[:, -2]))

    return m.top.grad(loss)


def _ctc_data(rng: RNG, small: bool) -> Arrays:
    return [
        rng.standard_normal((8, 60, 30), np.float32),
        rng.integers(1, 30, (8, 15), dtype=np.int32),
    ]


def _beams(m) -> Callable:
    """4 beams over 40 steps of 200 words."""

    def search(table):
        def step(state, _):
            words, scores = state
            each = scores[:, None] + m.nn.log_softmax(table[words])
            found, places = m.lax.top_k(each.reshape(-1), 4)
            return (places % 200, found), places

        start = (m.np.arange(4), m.np.zeros(4))
        return m.lax.scan(step, start, None, length=40)[0][1]

    return search


def _edit_distance(m) -> Callable:
    """Two words of 100 letters, by the diagonals of the table."""

    def distance(a, b):
        def row(previous, letter):
            other = m.np.minimum(previous[1:] + 1, previous[:-1] + (b != letter))
            first = previous[0] + 1
            steps = m.np.arange(1, len(b) + 1)
            least = m.lax.cummin(m.np.append(first, other - steps))
            return m.np.append(first, least[1:] + steps), None

        return m.lax.scan(row, m.np.arange(len(b) + 1), a)[0][-1]

    return distance


def _words(rng: RNG, small: bool) -> Arrays:
    return [rng.integers(0, 4, 100, dtype=np.int32) for _ in range(2)]


def _advantages(m) -> Callable:
    """PPO: advantages backwards over 128 steps of 16 environments, then the clipped loss."""

    def loss(logits, values, rewards, done, actions, old):
        def back(carry, step):
            reward, value, after, stop = step
            gain = reward + 0.99 * after * (1 - stop) - value
            carry = gain + 0.95 * 0.99 * (1 - stop) * carry
            return carry, carry

        after = m.np.concatenate([values[1:], values[-1:]])
        rows = (rewards, values, after, done)
        _, gains = m.lax.scan(back, m.np.zeros(16), rows, reverse=True)
        targets = m.lax.stop_gradient(gains + values)
        gains = m.lax.stop_gradient((gains - m.np.mean(gains)) / (m.np.std(gains) + 1e-8))
        logp = m.nn.log_softmax(logits)
        own = m.np.take_along_axis(logp, actions[..., None], 2)[..., 0]
        ratio = m.np.exp(own - old)
        policy = m.np.minimum(ratio * gains, m.np.clip(ratio, 0.8, 1.2) * gains)
        entropy = -m.np.sum(m.np.exp(logp) * logp, -1)
        return -m.np.mean(policy + 0.01 * entropy) + m.np.mean((values - targets) ** 2)

    return m.top.grad(loss, argnums=(0, 1))


def _rollout(rng: RNG, small: bool) -> Arrays:
    floats = [(128, 16, 6), (128, 16), (128, 16)]
    return [
        *(rng.standard_normal(s, np.float32) for s in floats),
        (rng.random((128, 16)) < 0.05).astype(np.float32),
        rng.integers(0, 6, (128, 16), dtype=np.int32),
        np.full((128, 16), -1.8, np.float32),
    ]


# ---- data ----


def _kmeans(m) -> Callable:
    def step(_, centres):
        distance = m.np.sum((x_of["x"][:, None] - centres) ** 2, -1)
        nearest = m.np.argmin(distance, 1)
        one = (nearest[:, None] == m.np.arange(len(centres))).astype(m.np.float32)
        return (one.T @ x_of["x"]) / (m.np.sum(one, 0)[:, None] + 1e-9)

    x_of = {}

    def run(x):
        x_of["x"] = x
        return m.lax.fori_loop(0, 10, step, x[:8])

    return run


def _pagerank(m) -> Callable:
    def run(links):
        links = m.np.abs(links)
        move = links / m.np.sum(links, 0)

        def going(state):
            return (m.np.sum(m.np.abs(state[0] - state[1])) > 1e-6) & (state[2] < 100)

        def step(state):
            rank = 0.85 * (move @ state[0]) + 0.15 / len(links)
            return rank, state[0], state[2] + 1

        start = m.np.full(len(links), 1 / len(links))
        return m.lax.while_loop(going, step, (start, m.np.zeros_like(start), 0))[0]

    return run


PROGRAMS = (
    Row("while", "500 steps of Newton's method on a number", _while_newton, _scalar(2.0)),
    Row(
        "while_integers", "Collatz steps of 837799", _collatz, lambda rng, small: [np.int32(77031)]
    ),
    Row("scan", "logistic map, 1000 numbers", _logistic_scan, _series, tolerance=float("inf")),
    Row("fori", "1000 steps on a number", _fori_sum, _scalar(1.0)),
    Row(
        "bisection",
        "40 halvings of 10k intervals",
        _bisect,
        lambda rng, small: [rng.uniform(0.1, 50, 10_000).astype(np.float32)],
        tolerance=1e-3,
    ),
    Row("kalman", "filter of 4 states, 300 steps", _kalman, normal(300, 2), tolerance=1e-3),
    Row("hmm", "forward algorithm, 8 states, 200 steps", _hmm, _hmm_data, tolerance=1e-3),
    Row("viterbi", "most likely path, 8 states, 200 steps", _viterbi, _hmm_data),
    Row("hmc", "50 proposals of 10 leapfrog steps", _hmc, _vector(10), random=True),
    Row("walks", "random walks of 16 chains, 500 steps", _walks, normal(16, 10), random=True),
    Row("nuts", "30 paths until they turn", _nuts, _vector(8), random=True),
    Row("lbfgs", "60 steps, history of 8", _lbfgs, _vector(20, 0.1), tolerance=float("inf")),
    Row("adam", "500 steps of Adam, 20 numbers", _adam, _vector(20, 0.1), tolerance=1e-2),
    Row("mlp_step", "training step, 784-512-10", _mlp_step, _mlp_data),
    Row(
        "rnn_gradient",
        "gradient of a recurrent network, 50 steps",
        _rnn_gradient,
        _rnn_data,
        tolerance=1e-3,
    ),
    Row(
        "recurrence",
        "linear recurrence of 512 states, 2048 steps, by associative_scan",
        _recurrence,
        _recurrence_data,
        tolerance=1e-4,
    ),
    Row(
        "recurrence_gradient",
        "its gradient",
        _recurrence_gradient,
        _recurrence_data,
        tolerance=1e-3,
    ),
    Row("ctc", "gradient of the CTC loss, 8 x 60 steps", _ctc, _ctc_data, tolerance=1e-3),
    Row("beam_search", "4 beams, 40 steps, 200 words", _beams, normal(200, 200), tolerance=1e-3),
    Row("edit_distance", "words of 100 letters", _edit_distance, _words),
    Row("ppo", "gradient of the PPO loss, 128 x 16", _advantages, _rollout, tolerance=1e-2),
    Row("kmeans", "10 steps, 5000 points, 8 centres", _kmeans, normal(5000, 8), tolerance=1e-2),
    Row(
        "pagerank",
        "500 pages until it stays",
        _pagerank,
        lambda rng, small: [rng.standard_normal((500, 500), np.float32)],
    ),
)
