"""Other texts of a workload, for libraries to which the common one is foreign.

In: the workloads' functions. Out: `text_for(function, peer, family)`. Without derivatives they are
worked out by hand (NumPy, CuPy, the float64 reference); PyTorch uses the functions it has for the
purpose; what would not fit in memory is cut in pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench import functions as common
from bench.functions import DECAY, DECAY2, LEARNING, RATE, STEP, up

#: Rows of forces that are computed at once where nothing is fused.
ROWS = 2048


# ---- by hand ----


def layer_norm_grad(m, x, scale, shift, ct):
    """x̂ = (x - mean)/σ; dx = (g - mean(g) - x̂·mean(g·x̂))/σ with g = ct·scale."""
    wide, grad = up(m, x), up(m, ct)
    centred = wide - m.mean(wide, axis=1, keepdims=True)
    deviation = m.sqrt(m.mean(centred * centred, axis=1, keepdims=True) + 1e-5)
    hat = centred / deviation
    g = grad * up(m, scale)
    along = hat * m.mean(g * hat, axis=1, keepdims=True)
    dx = (g - m.mean(g, axis=1, keepdims=True) - along) / deviation
    sums = m.sum(grad * hat, axis=0), m.sum(grad, axis=0)
    return m.astype(dx, x.dtype), *(m.astype(s, x.dtype) for s in sums)


def cross_entropy(m, logits, labels):
    """d loss / d logits = softmax - one-hot."""
    wide = up(m, logits)
    shifted = wide - m.max(wide, axis=1, keepdims=True)
    e = m.exp(shifted)
    total = m.sum(e, axis=1, keepdims=True)
    hot = m.arange(logits.shape[1]) == labels[:, None]
    loss = m.sum(m.log(total)) - m.sum(m.where(hot, shifted, 0.0))
    return loss, m.astype(e / total - hot, logits.dtype)


def mlp_step(m, x, target, *parameters):
    """Forwards with what each layer saw kept, and backwards."""
    layers = len(parameters) // 2
    weights, biases = parameters[:layers], parameters[layers:]
    seen = [x]
    for i, (w, b) in enumerate(zip(weights, biases)):
        out = seen[-1] @ w + b
        seen.append(m.where(out > 0, out, out * 0.0) if i + 1 < layers else out)
    d = up(m, seen.pop()) - up(m, target)
    loss = m.mean(d * d)
    ct = m.astype(2.0 / d.size * d, x.dtype)
    new: list[Any] = [None] * (2 * layers)
    for i in reversed(range(layers)):
        new[i] = weights[i] - LEARNING * (seen[i].T @ ct)
        new[layers + i] = biases[i] - LEARNING * m.sum(ct, axis=0)
        ct = (ct @ weights[i].T) * (seen[i] > 0)
    return loss, *new


def nbody(m, at_x, at_y, at_z, *bodies):
    """A part of the rows at a time: what lies between would take many times the memory."""
    pieces = [
        common.nbody(m, at_x[i : i + ROWS], at_y[i : i + ROWS], at_z[i : i + ROWS], *bodies)
        for i in range(0, len(at_x), ROWS)
    ]
    return tuple(m.concatenate(each) for each in zip(*pieces))


# ---- PyTorch ----


def torch_softmax(m, x):
    return m.softmax(x, dim=-1)


def torch_layer_norm(m, x, scale, shift):
    return m.nn.functional.layer_norm(x, x.shape[1:], scale, shift)


def torch_layer_norm_grad(m, x, scale, shift, ct):
    operands = [v.detach().requires_grad_() for v in (x, scale, shift)]
    return m.autograd.grad(torch_layer_norm(m, *operands), operands, ct)


def torch_gelu_residual(m, x, bias, residual):
    return m.nn.functional.gelu(x + bias, approximate="tanh") + residual


def torch_rms_norm_residual(m, x, residual, scale):
    total = x + residual
    return total, m.nn.functional.rms_norm(total, total.shape[1:], scale, 1e-6)


def torch_cross_entropy(m, logits, labels):
    wanted = logits.detach().requires_grad_()
    labels = labels.long()
    loss = m.nn.functional.cross_entropy(wanted.float(), labels, reduction="sum")
    return loss.detach(), m.autograd.grad(loss, wanted)[0]


def torch_logsumexp(m, x):
    return m.logsumexp(x, dim=1)


def torch_adam_many(m, *arrays):
    """In place, as `torch.optim.Adam(fused=True)` does it."""
    count = len(arrays) // 4
    p, g, mean, square = (list(arrays[i * count : (i + 1) * count]) for i in range(4))
    steps = [m.full((), float(STEP), device=p[0].device)] * count
    m._fused_adam_(
        p, g, mean, square, [], steps, lr=RATE, beta1=DECAY, beta2=DECAY2, weight_decay=0.0,
        eps=1e-8, amsgrad=False, maximize=False,
    )  # fmt: skip
    return *p, *mean, *square


def torch_mlp_step(m, x, target, *parameters):
    layers = len(parameters) // 2
    wanted = [p.detach().requires_grad_() for p in parameters]
    out = x
    for i, (w, b) in enumerate(zip(wanted[:layers], wanted[layers:])):
        out = m.addmm(b, out, w)
        out = m.relu(out) if i + 1 < layers else out
    loss = m.nn.functional.mse_loss(out.float(), target.float())
    gradients = m.autograd.grad(loss, wanted)
    new = m._foreach_add([p.detach() for p in parameters], gradients, alpha=-LEARNING)
    return loss.detach(), *new


def torch_dropout(m, key, x):
    return m.nn.functional.dropout(x, 0.1)


# ---- PyTorch's compiler, which does not see through `autograd.grad` ----


def compiled_layer_norm_grad(m, x, scale, shift, ct):
    return m.vjp(lambda *operands: torch_layer_norm(m, *operands), x, scale, shift)[1](ct)


def compiled_cross_entropy(m, logits, labels):
    labels, loss = labels.long(), m.nn.functional.cross_entropy
    return m.value_and_grad(lambda x: loss(x.float(), labels, reduction="sum"))(logits)


BY_HAND = {f.__name__: f for f in (layer_norm_grad, cross_entropy, mlp_step)}
PIECES = {"nbody": nbody}


def _named(prefix: str) -> dict[str, Callable]:
    """The functions above whose name begins so, by the rest of it."""
    found = {n: f for n, f in globals().items() if n.startswith(prefix)}
    return {n.removeprefix(prefix): f for n, f in found.items()}


TORCH = _named("torch_")
#: Its compiler gets parameters one by one, and may fuse as it likes.
TORCH_COMPILED = {n: f for n, f in TORCH.items() if n not in ("adam_many", "mlp_step")}
TORCH_COMPILED |= _named("compiled_")
#: By the peer's name or family; the name wins.
VERSIONS: dict[str, dict[str, Callable]] = {
    "exact": BY_HAND,
    "numpy": BY_HAND | PIECES,
    "cupy": BY_HAND | PIECES,
    "torch": TORCH | PIECES | {"adam": torch_adam_many},
    "torch compiled": TORCH_COMPILED,
}

#: Where a library computes something else under the same name.
NOTES = {
    ("uniform", "torch"): "Philox, PyTorch's own generator",
    ("dropout", "torch"): "Philox, PyTorch's own generator",
    ("uniform", "cupy"): "XORWOW, cuRAND's default generator",
    ("dropout", "cupy"): "XORWOW, cuRAND's default generator",
    ("adam", "torch"): "in place",
    ("adam_many", "torch"): "in place",
}


#: What is not tried, and why.
LEFT_OUT = {
    ("mandelbrot", "torch.compile"): "unrolls the loop: 256 steps take its compiler many minutes",
    ("adam_many", "torch.compile"): "4000 arrays take its compiler many minutes",
}


def left_out(name: str, peer: str) -> str:
    """Why a workload is not tried on a peer; mostly nothing."""
    return LEFT_OUT.get((name, peer.split()[0]), "")


def text_for(function: Callable, name: str, family: str) -> Callable:
    """The text of a workload's function for a peer."""
    for key in (name, family):
        found = VERSIONS.get(key, {}).get(function.__name__)
        if found is not None:
            return found
    return function


def note_for(function: Callable, family: str) -> str:
    """What a reader of the figures must know; mostly nothing."""
    return NOTES.get((function.__name__, family.split()[0]), "")
