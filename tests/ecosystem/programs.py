"""A typical program of each library; `python -m tests.ecosystem.programs` writes what JAX gives.

In: an environment with the libraries, and JAX or this library as `jax`. Out: for each program a few
numbers by name. They are kept in expected.json as JAX 0.10.2 gives them, so that where there is no
JAX, test_programs.py has something to compare with.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EXPECTED = Path(__file__).with_name("expected.json")

Numbers = dict[str, Any]
#: Programs by name: what they are about, of which library.
PROGRAMS: dict[str, Callable[[], Numbers]] = {}


def program(function: Callable[[], Numbers]) -> Callable[[], Numbers]:
    PROGRAMS[function.__name__] = function
    return function


def data(n: int = 64, features: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Points and a smooth function of them."""
    x = np.random.default_rng(0).normal(size=(n, features)).astype("float32")
    return x, np.sin(x).sum(1, keepdims=True).astype("float32")


def summary(x: Any) -> list[float]:
    """A few numbers that tell an array."""
    x = np.asarray(x, "float64")
    return [float(x.sum()), float(np.abs(x).sum()), float(x.flat[0]), float(x.flat[-1])]


# ---- arrays and trees ----


@program
def einops() -> Numbers:
    import einops
    import jax
    import jax.numpy as jnp

    x = jnp.arange(24.0).reshape(2, 3, 4)

    @jax.jit
    def f(x):
        y = einops.rearrange(x, "b h (w two) -> (b two) w h", two=2)
        return einops.einsum(y, y, "b w h, b w g -> h g") + einops.reduce(x, "b h w -> h", "mean")

    return {"value": f(x), "grad": jax.grad(lambda x: f(x).sum())(x)}


@program
def chex() -> Numbers:
    import chex
    import jax
    import jax.numpy as jnp

    @chex.dataclass
    class State:
        w: Any
        step: Any

    @jax.jit
    @chex.assert_max_traces(n=1)
    def update(state: State) -> State:
        chex.assert_shape(state.w, (3,))
        return state.replace(w=state.w * 0.5, step=state.step + 1)

    state = State(w=jnp.arange(3.0), step=jnp.int32(0))
    for _ in range(3):
        state = update(state)
    chex.assert_trees_all_close(state.w, jnp.arange(3.0) / 8)
    refused = 0
    try:
        chex.assert_equal_shape([jnp.ones(2), jnp.ones(3)])
    except AssertionError:
        refused += 1
    with chex.restrict_backends(forbidden=["cpu"]):
        try:
            jax.jit(lambda x: x * 2 + 1)(jnp.ones(3)).block_until_ready()
        except RuntimeError:
            refused += 1
    with chex.fake_jit():
        assert jax.jit(lambda x: x)(np.ones(2)) is not None
    return {"w": state.w, "step": state.step, "refused": refused}


# ---- optimisation ----


@program
def optax() -> Numbers:
    import jax
    import jax.numpy as jnp
    import optax

    x, y = data()
    found = {}
    for name in ("adamw", "lion", "sgd", "rmsprop"):
        schedule = optax.warmup_cosine_decay_schedule(0.0, 3e-2, 10, 60)
        tx = optax.chain(optax.clip_by_global_norm(1.0), getattr(optax, name)(schedule))
        w = {"a": jnp.zeros((3, 8)) + jnp.arange(8) / 8, "b": jnp.ones((8, 1)) / 8}
        state = tx.init(w)

        def loss(w):
            return optax.losses.huber_loss(jnp.tanh(x @ w["a"]) @ w["b"], y).mean()

        @jax.jit
        def step(w, state, tx=tx):
            value, grads = jax.value_and_grad(loss)(w)
            updates, state = tx.update(grads, state, w)
            return optax.apply_updates(w, updates), state, value

        for _ in range(60):
            w, state, value = step(w, state)
        found[name] = value
    return found


@program
def jaxopt() -> Numbers:
    import jax
    import jax.numpy as jnp
    import jaxopt

    x, y = data()

    def ridge(w, l2):
        return jnp.mean((x @ w - y[:, 0]) ** 2) + l2 * jnp.sum(w**2)

    def solution(l2):
        return jaxopt.LBFGS(ridge, maxiter=50, tol=1e-6).run(jnp.zeros(3), l2=l2).params

    solver = jaxopt.ProjectedGradient(ridge, jaxopt.projection.projection_simplex, maxiter=100)
    return {
        "lbfgs": solution(0.1),
        "implicit": jax.jacobian(solution)(0.1),
        "simplex": solver.run(jnp.ones(3) / 3, l2=0.0).params,
    }


@program
def optimistix() -> Numbers:
    import jax
    import jax.numpy as jnp
    import optimistix as optx

    def fn(y, a):
        return jnp.tanh(y) * a - 1 + y

    root = optx.root_find(fn, optx.Newton(rtol=1e-6, atol=1e-6), jnp.zeros(2), jnp.array([1.0, 3]))
    rosen = lambda y, _: (1 - y[0]) ** 2 + 100 * (y[1] - y[0] ** 2) ** 2
    low = optx.minimise(rosen, optx.BFGS(1e-6, 1e-6), jnp.array([-1.0, 2.0]), max_steps=300)
    residual = lambda y, t: jnp.exp(-y[0] * t) * y[1] - 2 * jnp.exp(-0.5 * t)
    fit = optx.least_squares(
        residual, optx.LevenbergMarquardt(1e-6, 1e-6), jnp.ones(2), jnp.linspace(0, 3, 20)
    )
    sens = jax.grad(
        lambda a: optx.root_find(fn, optx.Newton(1e-6, 1e-6), jnp.zeros(2), a).value.sum()
    )(jnp.array([1.0, 3]))
    return {"root": root.value, "minimum": low.value, "fit": fit.value, "sensitivity": sens}


@program
def lineax() -> Numbers:
    import jax
    import jax.numpy as jnp
    import lineax as lx

    a = np.random.default_rng(1).normal(size=(5, 5)).astype("float32")
    spd = a @ a.T + 5 * np.eye(5, dtype="float32")
    b = jnp.arange(5.0)

    def solve(m, solver, *tags):
        return lx.linear_solve(lx.MatrixLinearOperator(m, *tags), b, solver).value

    fn = lx.FunctionLinearOperator(
        lambda x: spd @ x, jax.ShapeDtypeStruct((5,), jnp.float32), lx.positive_semidefinite_tag
    )
    return {
        "lu": solve(jnp.asarray(a), lx.LU()),
        "qr": solve(jnp.asarray(a), lx.QR()),
        "svd": solve(jnp.asarray(a), lx.SVD()),
        "cg": lx.linear_solve(fn, b, lx.CG(1e-6, 1e-6)).value,
        "cholesky": jax.jit(lambda m: solve(m, lx.Cholesky(), lx.positive_semidefinite_tag))(spd),
        "grad": jax.grad(lambda m: solve(m, lx.AutoLinearSolver(well_posed=True)).sum())(
            jnp.asarray(a)
        ),
        "batch": jax.vmap(lambda s: solve(s * jnp.asarray(spd), lx.LU()))(jnp.array([1.0, 2])),
    }


@program
def diffrax() -> Numbers:
    import diffrax as dfx
    import jax
    import jax.numpy as jnp

    def field(t, y, args):
        a, b = args
        return jnp.stack([a * y[0] - b * y[0] * y[1], -y[1] + 0.3 * y[0] * y[1]])

    def solve(args):
        return dfx.diffeqsolve(
            dfx.ODETerm(field), dfx.Tsit5(), 0.0, 5.0, 0.1, jnp.array([3.0, 1.0]), args,
            saveat=dfx.SaveAt(ts=jnp.linspace(0, 5, 6)),
            stepsize_controller=dfx.PIDController(rtol=1e-5, atol=1e-5),
        ).ys  # fmt: skip

    args = (jnp.float32(1.1), jnp.float32(0.4))
    stiff = dfx.diffeqsolve(
        dfx.ODETerm(lambda t, y, k: -k * (y - jnp.cos(t))), dfx.Kvaerno3(), 0.0, 2.0, 0.05,
        jnp.array([0.0]), 50.0, stepsize_controller=dfx.PIDController(1e-4, 1e-4),
    )  # fmt: skip
    path = dfx.VirtualBrownianTree(0.0, 1.0, 1e-3, (), jax.random.key(3))
    noisy = dfx.diffeqsolve(
        dfx.MultiTerm(dfx.ODETerm(lambda t, y, a: -y), dfx.ControlTerm(lambda t, y, a: 0.1, path)),
        dfx.Heun(), 0.0, 1.0, 0.05, 1.0,
    )  # fmt: skip
    return {
        "path": jax.jit(solve)(args),
        "grad": jax.grad(lambda a: solve(a)[-1].sum())(args),
        "stiff": stiff.ys,
        "noisy": noisy.ys,
    }


# ---- layers ----


@program
def equinox() -> Numbers:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    x, y = data()
    model = eqx.nn.MLP(3, 1, 16, 2, key=jax.random.key(0))

    @eqx.filter_jit
    def step(model):
        loss = lambda m: jnp.mean((jax.vmap(m)(x) - y) ** 2)
        value, grads = eqx.filter_value_and_grad(loss)(model)
        return eqx.apply_updates(model, jax.tree.map(lambda g: -0.05 * g, grads)), value

    values = []
    for _ in range(40):
        model, value = step(model)
        values.append(value)
    attention = eqx.nn.MultiheadAttention(2, 4, key=jax.random.key(1))
    z = jnp.ones((5, 4)) * jnp.arange(5)[:, None] / 5
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "model.eqx"))
        eqx.tree_serialise_leaves(path, model)
        again = eqx.tree_deserialise_leaves(path, model)
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="b", mode="batch")
    normed, state = jax.vmap(norm, axis_name="b", in_axes=(0, None), out_axes=(0, None))(x, state)
    return {
        "losses": jnp.stack([values[0], values[-1]]),
        "attention": attention(z, z, z),
        "again": jax.vmap(again)(x[:3]),
        "normed": summary(normed),
    }


@program
def flax_linen() -> Numbers:
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax
    from flax.training import train_state

    x, y = data()

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train: bool):
            x = nn.Dense(16, use_bias=False)(x)  # BatchNorm takes a bias out again
            x = nn.BatchNorm(use_running_average=not train)(x)
            x = nn.Dropout(0.25, deterministic=not train)(nn.gelu(x))
            x = nn.LayerNorm()(nn.Dense(8)(x))
            return nn.Dense(1)(x)

    class State(train_state.TrainState):
        batch_stats: Any

    net = Net()
    variables = net.init(jax.random.key(0), x, train=False)
    state = State.create(
        apply_fn=net.apply, params=variables["params"], tx=optax.adam(1e-2),
        batch_stats=variables["batch_stats"],
    )  # fmt: skip

    @jax.jit
    def step(state, key):
        def loss(params):
            out, new = state.apply_fn(
                {"params": params, "batch_stats": state.batch_stats}, x, train=True,
                rngs={"dropout": key}, mutable=["batch_stats"],
            )  # fmt: skip
            return jnp.mean((out - y) ** 2), new

        (value, new), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=grads, batch_stats=new["batch_stats"]), value

    for i in range(30):
        state, value = step(state, jax.random.fold_in(jax.random.key(1), i))
    out = net.apply({"params": state.params, "batch_stats": state.batch_stats}, x, train=False)
    image = jnp.linspace(0, 1, 2 * 8 * 8).reshape(2, 8, 8, 1)
    conv = nn.Conv(4, (3, 3))
    cell = nn.RNN(nn.LSTMCell(4))
    sequence = jnp.linspace(-1, 1, 30).reshape(2, 5, 3)

    class Scanned(nn.Module):
        @nn.compact
        def __call__(self, x):
            body = nn.scan(
                lambda m, carry, _: (nn.tanh(nn.Dense(3)(carry)), carry.sum()),
                variable_axes={"params": 0}, split_rngs={"params": True}, length=4,
            )  # fmt: skip
            return body(self, x, None)

    attention = nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=4)
    init = lambda m, *a: m.apply(m.init(jax.random.key(5), *a), *a)
    lazy = nn.Dense(2).lazy_init(jax.random.key(2), jax.ShapeDtypeStruct((1, 3), jnp.float32))
    return {
        "loss": value, "out": summary(out), "conv": summary(init(conv, image)),
        "lstm": init(cell, sequence)[0, -1], "scan": init(Scanned(), jnp.ones(3))[0],
        "attention": summary(init(attention, sequence)), "lazy": lazy["params"]["kernel"],
        "table": len(nn.tabulate(net, jax.random.key(0))(x, train=False).splitlines()) > 5,
    }  # fmt: skip


@program
def flax_nnx() -> Numbers:
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    x, y = data()

    class Net(nnx.Module):
        def __init__(self, *, rngs: nnx.Rngs):
            self.first = nnx.Linear(3, 16, use_bias=False, rngs=rngs)
            self.norm = nnx.BatchNorm(16, rngs=rngs)
            self.drop = nnx.Dropout(0.25, rngs=rngs)
            self.last = nnx.Linear(16, 1, rngs=rngs)

        def __call__(self, x):
            return self.last(self.drop(nnx.relu(self.norm(self.first(x)))))

    net = Net(rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(net, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(net, optimizer):
        value, grads = nnx.value_and_grad(lambda n: jnp.mean((n(x) - y) ** 2))(net)
        optimizer.update(net, grads)
        return value

    for _ in range(30):
        value = step(net, optimizer)
    net.eval()
    graph, state = nnx.split(net)
    again = nnx.merge(graph, state)

    @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=(nnx.Carry, 0))
    def run(carry, x):
        carry = 0.5 * carry + x
        return carry, carry

    return {
        "loss": value, "out": summary(again(x)), "scan": run(jnp.float32(1), jnp.arange(4.0))[1],
        "size": sum(p.size for p in jax.tree.leaves(nnx.state(net, nnx.Param))),
    }  # fmt: skip


@program
def haiku() -> Numbers:
    import haiku as hk
    import jax
    import jax.numpy as jnp
    import optax

    x, y = data()

    def forward(x, train):
        x = hk.Linear(8, with_bias=False)(hk.nets.MLP([16], activate_final=True)(x))
        x = hk.BatchNorm(True, True, 0.9)(x, is_training=train)
        if train:
            x = hk.dropout(hk.next_rng_key(), 0.2, x)
        return hk.Linear(1)(x)

    net = hk.transform_with_state(forward)
    params, state = net.init(jax.random.PRNGKey(0), x, True)
    tx = optax.adam(1e-2)
    opt = tx.init(params)

    @jax.jit
    def step(params, state, opt, key):
        def loss(p):
            out, new = net.apply(p, state, key, x, True)
            return jnp.mean((out - y) ** 2), new

        (value, new), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, opt = tx.update(grads, opt)
        return optax.apply_updates(params, updates), new, opt, value

    for i in range(30):
        params, state, opt, value = step(params, state, opt, jax.random.PRNGKey(i))
    out, _ = net.apply(params, state, None, x, False)

    def core(xs):
        lstm = hk.LSTM(4)
        return hk.dynamic_unroll(lstm, xs, lstm.initial_state(2))[0]

    rnn = hk.without_apply_rng(hk.transform(core))
    xs = jnp.linspace(-1, 1, 5 * 2 * 3).reshape(5, 2, 3)
    return {
        "loss": value, "out": summary(out),
        "lstm": rnn.apply(rnn.init(jax.random.PRNGKey(1), xs), xs)[-1],
    }  # fmt: skip


@program
def jraph() -> Numbers:
    import jax
    import jax.numpy as jnp
    import jraph

    graph = jraph.GraphsTuple(
        nodes=jnp.arange(8.0).reshape(4, 2), edges=jnp.ones((5, 1)),
        senders=jnp.array([0, 1, 2, 3, 0]), receivers=jnp.array([1, 2, 3, 0, 2]),
        globals=jnp.zeros((1, 1)), n_node=jnp.array([4]), n_edge=jnp.array([5]),
    )  # fmt: skip
    batch = jraph.pad_with_graphs(jraph.batch([graph, graph]), 12, 16, 4)
    net = jraph.GraphNetwork(
        update_edge_fn=lambda e, s, r, g: jnp.tanh(e + s.sum(-1, keepdims=True) - r[..., :1]),
        update_node_fn=lambda n, s, r, g: n + s - 0.5 * r,
        update_global_fn=lambda n, e, g: n.sum(-1, keepdims=True) + e,
    )
    out = jax.jit(net)(batch)
    gat = jraph.GAT(
        lambda n: n @ jnp.ones((2, 3)),
        lambda s, r, e: jax.nn.leaky_relu((s - r).sum(-1, keepdims=True)),
    )
    return {"nodes": summary(out.nodes), "globals": out.globals, "gat": summary(gat(graph).nodes)}


@program
def e3nn() -> Numbers:
    import e3nn_jax as e3nn
    import jax
    import jax.numpy as jnp

    points = jnp.asarray(data(5)[0])
    harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", points, True)
    product = e3nn.tensor_product(harmonics, harmonics).filter("0e + 1o")
    alpha, beta, gamma = 0.3, 0.5, -0.2
    turned = e3nn.spherical_harmonics(
        "0e + 1o + 2e", points @ e3nn.angles_to_matrix(alpha, beta, gamma).T, True
    )
    assert np.allclose(
        harmonics.transform_by_angles(alpha, beta, gamma).array, turned.array, atol=1e-4
    )
    force = jax.jit(
        e3nn.grad(lambda x: e3nn.norm(e3nn.spherical_harmonics("2e", x, False)).simplify())
    )
    return {
        "harmonics": harmonics.array, "product": product.array,
        "gate": e3nn.gate(e3nn.IrrepsArray("2x0e + 1o", data(4, 5)[0])).array,
        "grad": force(e3nn.IrrepsArray("1o", points[0])).array,
    }  # fmt: skip


# ---- probability ----


@program
def distrax() -> Numbers:
    import distrax
    import jax
    import jax.numpy as jnp

    mixture = distrax.MixtureSameFamily(
        distrax.Categorical(logits=jnp.array([0.0, 1.0])),
        distrax.Normal(jnp.array([-1.0, 1.0]), jnp.array([0.5, 0.3])),
    )
    flow = distrax.Transformed(
        distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2)),
        distrax.Block(distrax.Chain([distrax.Tanh(), distrax.ScalarAffine(0.3, 0.7)]), 1),
    )
    sample, logp = flow.sample_and_log_prob(seed=jax.random.key(0), sample_shape=(3,))
    inverse = distrax.Lambda(lambda x: jnp.exp(2 * x))
    kl = distrax.Normal(0.0, 1.0).kl_divergence(distrax.Normal(0.5, 2.0))
    hmm = distrax.HMM(
        init_dist=distrax.Categorical(probs=jnp.array([0.6, 0.4])),
        trans_dist=distrax.Categorical(probs=jnp.array([[0.7, 0.3], [0.2, 0.8]])),
        obs_dist=distrax.Normal(jnp.array([0.0, 3.0]), jnp.array([1.0, 1.0])),
    )
    return {
        "mixture": jax.vmap(mixture.log_prob)(jnp.linspace(-2, 2, 5)),
        "grad": jax.grad(lambda x: mixture.log_prob(x))(0.3),
        "sample": sample, "logp": logp, "inverse": inverse.inverse(jnp.float32(3.0)), "kl": kl,
        "viterbi": hmm.viterbi(jnp.array([0.1, 2.5, 3.1, -0.2])),
    }  # fmt: skip


@program
def tfp() -> Numbers:
    import jax
    import jax.numpy as jnp
    from tensorflow_probability.substrates import jax as tfp

    tfd, tfb = tfp.distributions, tfp.bijectors
    joint = tfd.JointDistributionSequential(
        [tfd.Gamma(2.0, 1.0), lambda scale: tfd.Normal(0.0, scale), lambda mean: tfd.Poisson(4.0)]
    )
    draws = joint.sample(seed=jax.random.key(0))
    target = lambda z: tfd.MultivariateNormalTriL(
        jnp.array([1.0, -1.0]), jnp.array([[1.0, 0.0], [0.5, 0.8]])
    ).log_prob(z)
    kernel = tfp.mcmc.HamiltonianMonteCarlo(target, 0.3, 5)
    chain = jax.jit(
        lambda key: tfp.mcmc.sample_chain(
            200, jnp.zeros(2), kernel=kernel, num_burnin_steps=50, trace_fn=None, seed=key
        )
    )(jax.random.key(1))
    gp = tfd.GaussianProcess(
        tfp.math.psd_kernels.ExponentiatedQuadratic(1.0, 0.5), jnp.linspace(0, 1, 5)[:, None]
    )
    bijector = tfb.Chain([tfb.Softplus(), tfb.Shift(0.5)])
    low = tfp.optimizer.lbfgs_minimize(
        lambda z: tfp.math.value_and_gradient(lambda z: jnp.sum((z - 2.0) ** 4), z), jnp.zeros(2)
    )
    return {
        "joint": jnp.stack([jnp.float32(d) for d in draws[:2]]),
        "log_prob": joint.log_prob([jnp.float32(1), jnp.float32(0.5), jnp.float32(3)]),
        "mean": chain.mean(0), "gp": gp.log_prob(jnp.linspace(-1, 1, 5)),
        "bijector": bijector.forward_log_det_jacobian(jnp.float32(0.3), 0),
        "lbfgs": low.position, "bessel": tfp.math.bessel_kve(0.5, jnp.float32(2)),
    }  # fmt: skip


@program
def numpyro() -> Numbers:
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    x, y = data(32)

    def model(x, y=None):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
        s = numpyro.sample("s", dist.HalfNormal(1))
        with numpyro.plate("n", len(x)):
            return numpyro.sample("y", dist.Normal(x @ w, s), obs=y)

    mcmc = MCMC(NUTS(model), num_warmup=100, num_samples=100, progress_bar=False)
    mcmc.run(jax.random.key(0), x, y[:, 0])
    samples = mcmc.get_samples()
    guide = AutoNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(0.02), Trace_ELBO()).run(
        jax.random.key(1), 200, x, y[:, 0], progress_bar=False
    )
    predicted = Predictive(model, samples)(jax.random.key(2), x)["y"]
    # Chains of samplers diverge by rounding, so that means are compared, and loosely.
    return {
        "loose": {
            "w": samples["w"].mean(0), "s": samples["s"].mean(), "predicted": predicted.mean(),
            "elbo": svi.losses[-1],
        },
        "log_density": numpyro.infer.util.log_density(
            model, (x, y[:, 0]), {}, {"w": jnp.ones(3), "s": 0.5}
        )[0],
        "prior": Predictive(model, num_samples=2)(jax.random.key(3), x)["w"],
    }  # fmt: skip


@program
def blackjax() -> Numbers:
    import blackjax
    import jax
    import jax.numpy as jnp

    logdensity = lambda z: -0.5 * jnp.sum((z["a"] - 1.0) ** 2) - jnp.sum(z["b"] ** 2)
    start = {"a": jnp.zeros(2), "b": jnp.ones(1)}

    def chain(algorithm, key, steps=300):
        def one(state, key):
            state, _ = algorithm.step(key, state)
            return state, state.position

        keys = jax.random.split(key, steps)
        return jax.jit(lambda s: jax.lax.scan(one, s, keys)[1])(algorithm.init(start))

    nuts = chain(blackjax.nuts(logdensity, 0.4, jnp.ones(3)), jax.random.key(0))
    hmc = chain(blackjax.hmc(logdensity, 0.3, jnp.ones(3), 5), jax.random.key(1))
    mala = chain(blackjax.mala(logdensity, 0.1), jax.random.key(2), 50)
    return {
        "loose": {"nuts": nuts["a"].mean(0), "hmc": hmc["a"].mean(0)},
        "first": nuts["a"][0], "mala": mala["b"][:3],
    }  # fmt: skip


@program
def jaxtyping() -> Numbers:
    import jax
    import jax.numpy as jnp
    from jaxtyping import Array, Float, jaxtyped

    with jaxtyped("context"):
        matches = [
            isinstance(jnp.ones((2, 3)), Float[Array, "a b"]),
            isinstance(jnp.ones((3, 2)), Float[Array, "b a"]),
            isinstance(jnp.ones((3, 3)), Float[Array, "b a"]),
        ]
    jax.jit(lambda x: matches.append(isinstance(x, Float[Array, "4"])) or x)(jnp.ones(4))
    return {"matches": [int(m) for m in matches]}


@program
def orbax() -> Numbers:
    import jax
    import jax.numpy as jnp
    import orbax.checkpoint as ocp

    tree = {"w": jnp.arange(6.0).reshape(2, 3), "step": 3, "b": [jnp.ones(2, jnp.bfloat16)]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "one")
        with ocp.StandardCheckpointer() as saver:
            saver.save(path, tree)
            saver.wait_until_finished()
            again = saver.restore(path, jax.tree.map(ocp.utils.to_shape_dtype_struct, tree))
        with ocp.CheckpointManager(
            Path(folder, "many"), options=ocp.CheckpointManagerOptions(max_to_keep=2)
        ) as manager:
            for step in range(3):
                manager.save(step, args=ocp.args.StandardSave({"w": jnp.full(2, float(step))}))
            manager.wait_until_finished()
            steps, last = manager.all_steps(), manager.restore(manager.latest_step())
    return {"w": again["w"], "b": again["b"][0], "steps": list(steps), "last": last["w"]}


def plain(x: Any) -> Any:
    """Results as lists of numbers, for JSON."""
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    if isinstance(x, (bool, int, float)):
        return x
    return np.asarray(x).astype("float64").tolist()


def rounded(x: Any) -> Any:
    """Numbers with eight digits."""
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    if isinstance(x, list):
        return [rounded(v) for v in x]
    return float(f"{x:.8g}") if isinstance(x, float) else x


def main(names: list[str]) -> None:
    import jax

    assert not hasattr(jax, "install_as_jax"), "the values are JAX's"
    known = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}
    for name in names or PROGRAMS:
        known[name] = plain(PROGRAMS[name]())
        print(name, flush=True)
    # A line for each program; eight digits are more than the comparison looks at.
    rows = [f'"{k}": {json.dumps(rounded(known[k]))}' for k in PROGRAMS if k in known]
    EXPECTED.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
