"""Random array programs: made from a seed, run over any NumPy-like namespace, shrunk when they
fail.

A program is a list of steps; step k names an operation, the earlier values it reads and its
parameters. Nothing in it depends on who runs it, so the same program serves as test and as oracle.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Step:
    op: str
    args: tuple[int, ...]
    param: object = None


@dataclass(frozen=True)
class Program:
    shapes: tuple[tuple[int, ...], ...]  # of the inputs
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def __str__(self) -> str:
        n = len(self.shapes)
        lines = [f"v{i} = input{shape}" for i, shape in enumerate(self.shapes)]
        for k, s in enumerate(self.steps):
            args = ", ".join(f"v{a}" for a in s.args)
            lines.append(f"v{n + k} = {s.op}({args}{'' if s.param is None else f'; {s.param}'})")
        return "\n".join([*lines, f"return {', '.join(f'v{o}' for o in self.outputs)}"])


UNARY = {
    "sin": lambda xp, x, p: xp.sin(x),
    "cos": lambda xp, x, p: xp.cos(x),
    "tanh": lambda xp, x, p: xp.tanh(x),
    "decay": lambda xp, x, p: xp.exp(-xp.abs(x)),
    "neg": lambda xp, x, p: -x,
    "square": lambda xp, x, p: xp.tanh(x) * xp.tanh(x),
    "root": lambda xp, x, p: xp.sqrt(xp.abs(x) + 0.25),
    "log1p": lambda xp, x, p: xp.log1p(xp.abs(x)),
    "scale": lambda xp, x, p: x * p,
    "shift": lambda xp, x, p: x + p,
    "clip": lambda xp, x, p: xp.clip(x, -p, p),
    "cast": lambda xp, x, p: xp.floor(x * 4).astype("int32").astype(x.dtype),
}
BINARY = {
    "add": lambda xp, x, y, p: x + y,
    "sub": lambda xp, x, y, p: x - y,
    "mul": lambda xp, x, y, p: x * xp.tanh(y),
    "div": lambda xp, x, y, p: x / (1.5 + xp.abs(y)),
    "max": lambda xp, x, y, p: xp.maximum(x, y),
    "min": lambda xp, x, y, p: xp.minimum(x, y),
    "hypot": lambda xp, x, y, p: xp.sqrt(x * x + y * y + 1.0),
    "where": lambda xp, x, y, p: xp.where(x > p, x, y),
}
REDUCE = {
    "sum": lambda xp, x, p: xp.sum(x, axis=p[0], keepdims=p[1]) / 4,
    "mean": lambda xp, x, p: xp.mean(x, axis=p[0], keepdims=p[1]),
    "amax": lambda xp, x, p: xp.max(x, axis=p[0], keepdims=p[1]),
    "amin": lambda xp, x, p: xp.min(x, axis=p[0], keepdims=p[1]),
    "var": lambda xp, x, p: xp.var(x, axis=p[0], keepdims=p[1]),
}
SHAPE = {
    "transpose": lambda xp, x, p: xp.transpose(x, p),
    "reshape": lambda xp, x, p: xp.reshape(x, p),
    "broadcast": lambda xp, x, p: xp.broadcast_to(x, p),
    "expand": lambda xp, x, p: xp.expand_dims(x, p),
    "squeeze": lambda xp, x, p: xp.squeeze(x, p),
    "flip": lambda xp, x, p: xp.flip(x, p),
    "slice": lambda xp, x, p: x[p],
    "concat": lambda xp, x, p: xp.concatenate([x, x * 0.5], axis=p),
    "pad": lambda xp, x, p: xp.pad(x, p),
    "cumsum": lambda xp, x, p: xp.cumsum(x, axis=p) / 4,
    "sort": lambda xp, x, p: xp.sort(x, axis=p),
    "gram": lambda xp, x, p: xp.tanh(x @ xp.swapaxes(x, -1, -2)),
}
ALL = UNARY | BINARY | REDUCE | SHAPE
LARGEST = 400


def generate(seed: int, longest: int = 30) -> Program:
    """The program of a seed: 2 to `longest` steps over 1 to 3 inputs."""
    rng = random.Random(seed)
    shapes = tuple(
        tuple(rng.choice([1, 2, 3, 5, 7]) for _ in range(rng.choice([0, 1, 2, 2, 3])))
        for _ in range(rng.randint(1, 3))
    )
    known = [np.zeros(s) for s in shapes]
    steps: list[Step] = []
    while len(steps) < rng.randint(2, longest):
        step = _random_step(rng, known)
        if step is None:
            continue
        steps.append(step)
        known.append(_apply(np, step, known))
    n = len(known)
    outputs = {n - 1, *rng.sample(range(len(shapes), n), rng.randint(0, min(2, n - len(shapes))))}
    return Program(shapes, tuple(steps), tuple(sorted(outputs)))


def _random_step(rng: random.Random, known: list) -> Step | None:
    """A step that fits the values so far; None where the drawn one does not."""
    table = rng.choices([UNARY, BINARY, REDUCE, SHAPE], [5, 5, 3, 4])[0]
    op = rng.choice(sorted(table))
    last = len(known) - 1
    a = last if rng.random() < 0.6 else rng.randrange(len(known))
    x = known[a]
    if table is UNARY:
        return Step(op, (a,), {"scale": 0.75, "shift": 0.3, "clip": 0.8}.get(op))
    if table is BINARY:
        b = rng.randrange(len(known))
        try:
            if np.broadcast(x, known[b]).size > LARGEST:
                return None
        except ValueError:
            return None
        return Step(op, (a, b), 0.1234567)
    if table is REDUCE:
        if x.size == 0:
            return None
        axes = None if rng.random() < 0.3 else tuple(i for i in range(x.ndim) if rng.random() < 0.5)
        return Step(op, (a,), (axes, rng.random() < 0.6))
    return _random_shape_step(rng, op, a, x)


def _random_shape_step(rng: random.Random, op: str, a: int, x) -> Step | None:
    axis = rng.randrange(x.ndim) if x.ndim else None
    if op == "transpose":
        return Step(op, (a,), tuple(rng.sample(range(x.ndim), x.ndim)))
    if op == "reshape":
        choices = [(-1,), (1, *x.shape), (*x.shape, 1)]
        if x.ndim >= 2:
            choices.append((x.shape[0] * x.shape[1], *x.shape[2:]))
            choices.append((*x.shape[:-2], x.shape[-2] * x.shape[-1]))
        return Step(op, (a,), rng.choice(choices))
    if op == "broadcast":
        grown = tuple(rng.choice([2, 3]) if n == 1 else n for n in x.shape)
        if rng.random() < 0.5:
            grown = (rng.choice([2, 4]), *grown)
        return Step(op, (a,), grown) if np.prod(grown) <= LARGEST else None
    if op == "expand":
        return Step(op, (a,), rng.randint(0, x.ndim)) if x.ndim < 4 else None
    if op == "squeeze":
        return Step(op, (a,), tuple(i for i, n in enumerate(x.shape) if n == 1))
    if axis is None:
        return None
    if op == "slice":
        n = x.shape[axis]
        start = rng.randint(0, n - 1)
        index = slice(start, rng.randint(start + 1, n), rng.choice([None, 1, 2]))
        if rng.random() < 0.2:
            index = slice(None, None, -1)
        return Step(op, (a,), (slice(None),) * axis + (index,))
    if op == "concat":
        return Step(op, (a,), axis) if x.size * 2 <= LARGEST else None
    if op == "pad":
        return (
            Step(op, (a,), ((1, 1),) * x.ndim)
            if np.prod([n + 2 for n in x.shape]) <= LARGEST
            else None
        )
    if op == "gram":
        return Step(op, (a,)) if x.ndim >= 2 else None
    return Step(op, (a,), axis)


def _apply(xp, step: Step, known: list):
    return ALL[step.op](xp, *[known[a] for a in step.args], step.param)


def run(program: Program, xp, inputs: list) -> list:
    """The outputs of a program over a namespace."""
    known = list(inputs)
    for step in program.steps:
        known.append(_apply(xp, step, known))
    return [known[o] for o in program.outputs]


def inputs_of(program: Program, seed: int) -> list[np.ndarray]:
    """Inputs in float64."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-2, 2, s) for s in program.shapes]


def shrink(program: Program, fails) -> Program:
    """A smaller program that still fails: fewer outputs, then fewer steps, until nothing can go."""
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(program):
            if fails(smaller):
                program, changed = smaller, True
                break
    return program


def _smaller(program: Program):
    n = len(program.shapes)
    if len(program.outputs) > 1:
        for o in program.outputs:
            yield Program(program.shapes, program.steps, (o,))
    last = program.outputs[-1] - n
    if len(program.outputs) == 1 and last >= 0:
        for a in program.steps[last].args:
            if a >= n:
                yield Program(program.shapes, program.steps[: a - n + 1], (a,))
    for k in reversed(range(len(program.steps))):
        for a in program.steps[k].args:
            cut = _without(program, k, a)
            if cut is not None:
                yield cut


def _without(program: Program, k: int, stand_in: int) -> Program | None:
    """The program without step k, its readers given `stand_in` instead; None where that does not
    run.
    """
    n = len(program.shapes)
    gone = n + k

    def moved(v: int) -> int:
        v = stand_in if v == gone else v
        return v - 1 if v > gone else v

    steps = [
        Step(s.op, tuple(map(moved, s.args)), s.param)
        for i, s in enumerate(program.steps)
        if i != k
    ]
    outputs = tuple(sorted({moved(o) for o in program.outputs}))
    cut = Program(program.shapes, tuple(steps), outputs)
    try:
        with np.errstate(all="ignore"):
            run(cut, np, [np.ones(s) for s in cut.shapes])
    except Exception:
        return None
    return cut
