"""Optimizers of first order, as triples of functions.

Floor 6. In: a step size, or a schedule that gives it for each step. Out: (init, update,
get_params): init(params) is a state, update(i, gradient, state) the state after step i,
get_params(state) the parameters. A rule is written for one array; `optimizer` makes it one for
trees.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuarray import numpy as gnp
from gpuarray.core.avals import aval_of
from gpuarray.names import explain_names as _explain_names
from gpuarray.pytree import tree
from gpuarray.tree_util import register_pytree_node

__all__ = [
    "JoinPoint",
    "Optimizer",
    "OptimizerState",
    "adagrad",
    "adam",
    "adamax",
    "clip_grads",
    "constant",
    "exponential_decay",
    "inverse_time_decay",
    "l2_norm",
    "make_schedule",
    "momentum",
    "nesterov",
    "optimizer",
    "pack_optimizer_state",
    "piecewise_constant",
    "polynomial_decay",
    "rmsprop",
    "rmsprop_momentum",
    "sgd",
    "sm3",
    "unpack_optimizer_state",
]

Schedule = Callable[[Any], Any]


class OptimizerState(NamedTuple):
    """The states of all arrays of a tree, as flat lists, with their structures."""

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


register_pytree_node(
    OptimizerState,
    lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
    lambda specs, children: OptimizerState(children[0], *specs),
)


class Optimizer(NamedTuple):
    """The three functions of an optimizer."""

    init_fn: Callable[[Any], Any]
    update_fn: Callable[[Any, Any, Any], Any]
    params_fn: Callable[[Any], Any]


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Make the maker of a rule for one array the maker of an optimizer for trees.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import optimizers
    >>> @optimizers.optimizer
    ... def signs(size):
    ...     return lambda x: x, lambda i, g, x: x - size * gnp.sign(g), lambda x: x
    >>> init, update, get_params = signs(0.5)
    >>> get_params(update(0, {"w": gnp.ones(2)}, init({"w": gnp.zeros(2)})))
    {'w': Array([-0.5, -0.5], dtype=float32)}
    """

    @functools.wraps(opt_maker)
    def of_trees(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def packed(states: list, spec: Any, expected: Any = None) -> OptimizerState:
            # The state of one array may itself be a tree: each is kept flat, with its structure
            # separate.
            flat = [tree.tree_flatten(s) for s in states]
            specs = tuple(s for _, s in flat)
            for before, after in zip(specs if expected is None else expected, specs, strict=True):
                if before != after:
                    raise TypeError(
                        "optimizer update function produced an output structure that did not "
                        f"match its input structure: input {before} and output {after}."
                    )
            return OptimizerState([leaves for leaves, _ in flat], spec, specs)

        def unpacked(state: OptimizerState) -> list:
            return [
                tree.unflatten(spec, leaves)
                for spec, leaves in zip(state.subtree_defs, state.packed_state, strict=True)
            ]

        def tree_init(params: Any) -> OptimizerState:
            leaves, spec = tree.tree_flatten(params)
            return packed([init(x) for x in leaves], spec)

        def tree_update(i: Any, grad_tree: Any, opt_state: OptimizerState) -> OptimizerState:
            gradients, spec = tree.tree_flatten(grad_tree)
            if spec != opt_state.tree_def:
                raise TypeError(
                    "optimizer update function was passed a gradient tree that did not match the "
                    "parameter tree structure with which it was initialized: parameter tree "
                    f"{opt_state.tree_def} and grad tree {spec}."
                )
            states = [update(i, g, s) for g, s in zip(gradients, unpacked(opt_state), strict=True)]
            return packed(states, spec, opt_state.subtree_defs)

        def tree_get_params(opt_state: OptimizerState) -> Any:
            return tree.unflatten(opt_state.tree_def, [get_params(s) for s in unpacked(opt_state)])

        return Optimizer(tree_init, tree_update, tree_get_params)

    return of_trees


def _number(x: Any) -> Any:
    """A factor of a rule, which may be traced; TypeError if it is no number."""
    aval_of(x)
    return x


def _rule(extra: int, step: Callable[..., tuple]) -> tuple:
    """A rule whose state is the array and `extra` others, zero at first.

    step(i, gradient, x, *others) gives the new state.
    """
    init = lambda x: (x, *(gnp.zeros_like(x) for _ in range(extra)))
    return init, lambda i, g, state: step(i, g, *state), lambda state: state[0]


# ---- rules ----


@optimizer
def sgd(step_size: Any) -> Any:
    """Stochastic gradient descent.

    >>> from gpuarray.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sgd(0.5)
    >>> get_params(update(0, 2.0, init(3.0)))
    2.0
    """
    size = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - size(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent with momentum: steps along a decaying sum of gradients.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import optimizers
    >>> init, update, get_params = optimizers.momentum(0.5, mass=0.9)
    >>> get_params(update(0, gnp.ones(1), init(gnp.ones(1))))
    Array([0.5], dtype=float32)
    """
    mass = _number(mass)
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, velocity: Any) -> tuple:
        velocity = mass * velocity + g
        return x - size(i) * velocity, velocity

    return _rule(1, step)


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Gradient descent with Nesterov's momentum: the step looks one ahead.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import optimizers
    >>> init, update, get_params = optimizers.nesterov(0.5, mass=1.0)
    >>> get_params(update(0, gnp.ones(1), init(gnp.ones(1))))
    Array([0.], dtype=float32)
    """
    mass = _number(mass)
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, velocity: Any) -> tuple:
        velocity = mass * velocity + g
        # The step of momentum from where the velocity will lead.
        return x - size(i) * (mass * velocity + g), velocity

    return _rule(1, step)


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Adagrad: each element's steps shrink with the sum of its squared gradients.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adagrad(1.0)
    >>> get_params(update(0, gnp.full(1, 4.0), init(gnp.ones(1)))).round(3)
    Array([0.9], dtype=float32)
    """
    momentum = _number(momentum)
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, squares: Any, mean: Any) -> tuple:
        squares = squares + gnp.square(g)
        # An element whose gradients were all 0 has not moved, and does not now.
        scale = gnp.where(squares > 0, 1.0 / gnp.sqrt(squares), 0.0)
        mean = (1.0 - momentum) * (g * scale) + momentum * mean
        return x - size(i) * mean, squares, mean

    return _rule(2, step)


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """RMSProp: steps divided by a running root mean square of gradients.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import optimizers
    >>> init, update, get_params = optimizers.rmsprop(0.1, gamma=0.0)
    >>> get_params(update(0, gnp.full(1, 4.0), init(gnp.ones(1)))).round(3)
    Array([0.9], dtype=float32)
    """
    gamma, eps = _number(gamma), _number(eps)
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, mean_square: Any) -> tuple:
        mean_square = mean_square * gamma + gnp.square(g) * (1.0 - gamma)
        return x - size(i) * g / gnp.sqrt(mean_square + eps), mean_square

    return _rule(1, step)


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Any:
    """RMSProp with momentum: the steps of RMSProp are summed up, decaying.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import optimizers
    >>> init, update, get_params = optimizers.rmsprop_momentum(0.1, gamma=0.0)
    >>> get_params(update(0, gnp.full(1, 4.0), init(gnp.ones(1)))).round(3)
    Array([0.9], dtype=float32)
    """
    gamma, eps, momentum = map(_number, (gamma, eps, momentum))
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, mean_square: Any, moved: Any) -> tuple:
        mean_square = mean_square * gamma + gnp.square(g) * (1.0 - gamma)
        moved = momentum * moved + size(i) * g / gnp.sqrt(mean_square + eps)
        return x - moved, mean_square, moved

    return _rule(2, step)


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam: running means of gradients and their squares, without the bias of their start.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adam(0.1)
    >>> get_params(update(0, gnp.full(1, 4.0), init(gnp.ones(1)))).round(3)
    Array([0.9], dtype=float32)
    """
    b1, b2, eps = map(_number, (b1, b2, eps))
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, mean: Any, square: Any) -> tuple:
        mean = (1 - b1) * g + b1 * mean
        square = (1 - b2) * gnp.square(g) + b2 * square
        # The averages start at zero: divide by the total weight to remove the bias.
        unbiased = mean / (1 - gnp.asarray(b1, mean.dtype) ** (i + 1))
        spread = square / (1 - gnp.asarray(b2, mean.dtype) ** (i + 1))
        return x - size(i) * unbiased / (gnp.sqrt(spread) + eps), mean, square

    return _rule(2, step)


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adamax: Adam with a decaying maximum in the place of the root mean square.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adamax(0.1)
    >>> get_params(update(0, gnp.full(1, 4.0), init(gnp.ones(1)))).round(3)
    Array([0.9], dtype=float32)
    """
    b1, b2, eps = map(_number, (b1, b2, eps))
    size = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, mean: Any, largest: Any) -> tuple:
        mean = (1 - b1) * g + b1 * mean
        largest = gnp.maximum(b2 * largest, gnp.abs(g))
        unbiased = size(i) / (1 - gnp.asarray(b1, mean.dtype) ** (i + 1))
        return x - unbiased * mean / (largest + eps), mean, largest

    return _rule(2, step)


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """SM3: Adagrad whose sums are kept for each row and column only.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sm3(1.0)
    >>> get_params(update(0, gnp.full((1, 1), 4.0), init(gnp.ones((1, 1))))).round(3)
    Array([[0.9]], dtype=float32)
    """
    momentum = _number(momentum)
    size = make_schedule(step_size)

    def init(x: Any) -> tuple:
        flat = gnp.atleast_1d(x)
        sums = [gnp.zeros(n, flat.dtype) for n in flat.shape]
        return flat, gnp.zeros_like(flat), sums, gnp.shape(x)

    def update(i: Any, g: Any, state: tuple) -> tuple:
        x, mean, sums, shape = state
        g = gnp.reshape(g, x.shape)
        # The bound of an element: the smallest of the sums it is part of.
        known = [
            s[tuple(slice(None) if axis == k else None for k in range(x.ndim))]
            for axis, s in enumerate(sums)
        ]
        total = functools.reduce(gnp.minimum, known) + gnp.square(g)
        scale = gnp.where(total > 0, 1.0 / gnp.sqrt(total), 0)
        mean = (1.0 - momentum) * (g * scale) + momentum * mean
        axes = range(x.ndim)
        # One number for each row, column and so on, instead of one for each element.
        sums = [total.max(tuple(k for k in axes if k != axis)) for axis in axes]
        return x - size(i) * mean, mean, sums, shape

    return init, update, lambda state: state[0].reshape(state[3])


# ---- schedules ----


def constant(step_size: Any) -> Schedule:
    """The same size for all steps.

    >>> from gpuarray.example_libraries import optimizers
    >>> optimizers.constant(0.5)(7)
    0.5
    """
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """Steps multiplied by `decay_rate` every `decay_steps`.

    >>> from gpuarray.example_libraries import optimizers
    >>> optimizers.exponential_decay(1.0, 10, 0.5)(20)
    0.25
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """Steps divided by 1 + decay_rate * i / decay_steps; with `staircase` by whole multiples.

    >>> from gpuarray.example_libraries import optimizers
    >>> optimizers.inverse_time_decay(1.0, 10, 1.0)(10)
    0.5
    """
    if staircase:
        return lambda i: step_size / (1 + decay_rate * gnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0
) -> Schedule:
    """Step sizes that go to `final_step_size` within `decay_steps`, as a power of the remaining
    fraction.

    >>> from gpuarray.example_libraries import optimizers
    >>> float(optimizers.polynomial_decay(1.0, 10, 0.0)(5))
    0.5
    """

    def schedule(i: Any) -> Any:
        # After the last step the fraction stays 0, whatever the power.
        left = (1 - gnp.minimum(i, decay_steps) / decay_steps) ** power
        return left * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """The value after the last boundary that a step has passed.

    >>> from gpuarray.example_libraries import optimizers
    >>> float(optimizers.piecewise_constant([10, 20], [1.0, 0.5, 0.25])(15))
    0.5
    """
    boundaries, values = gnp.array(boundaries), gnp.array(values)
    if not boundaries.ndim == values.ndim == 1:
        raise ValueError("boundaries and values must be sequences")
    if boundaries.shape[0] != values.shape[0] - 1:
        raise ValueError("boundaries length must be one shorter than values length")
    return lambda i: values[gnp.sum(i > boundaries)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule as it is, a number as the schedule of this size.

    >>> from gpuarray.example_libraries import optimizers
    >>> optimizers.make_schedule(0.5)(3)
    0.5
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if gnp.ndim(scalar_or_schedule):
        raise TypeError(
            f"a step size is a number or a function of the step, got {type(scalar_or_schedule)}"
        )
    return constant(scalar_or_schedule)


# ---- trees of gradients ----


def l2_norm(tree: Any) -> Any:  # the name is JAX's
    """The square root of the sum of all squares in a tree.

    >>> from gpuarray.example_libraries import optimizers
    >>> float(optimizers.l2_norm({"a": 3.0, "b": 4.0}))
    5.0
    """
    return gnp.sqrt(sum(gnp.vdot(x, x) for x in _leaves(tree)))


def _leaves(x: Any) -> list:
    return tree.tree_flatten(x)[0]


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """A tree of gradients scaled to this norm, if its norm is larger.

    >>> from gpuarray.example_libraries import optimizers
    >>> [float(g) for g in optimizers.clip_grads([3.0, 4.0], 1.0)]
    [0.6000000238418579, 0.800000011920929]
    """
    norm = l2_norm(grad_tree)
    return tree.tree_map(lambda g: gnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


# ---- states as plain trees ----


class JoinPoint:
    """Marks where the parameter tree ends and a parameter's state begins."""

    def __init__(self, subtree: Any):
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """A state as the tree of parameters with a `JoinPoint` for each, for example to save it.

    >>> from gpuarray.example_libraries import optimizers
    >>> state = optimizers.sgd(0.1)[0]({"w": 1.0})
    >>> optimizers.unpack_optimizer_state(state)["w"].subtree
    1.0
    """
    states = [
        JoinPoint(tree.unflatten(spec, leaves))
        for spec, leaves in zip(opt_state.subtree_defs, opt_state.packed_state, strict=True)
    ]
    return tree.unflatten(opt_state.tree_def, states)


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The state that `unpack_optimizer_state` made a plain tree of.

    >>> from gpuarray.example_libraries import optimizers
    >>> init, update, get_params = optimizers.sgd(0.1)
    >>> marked = optimizers.unpack_optimizer_state(init({"w": 1.0}))
    >>> get_params(optimizers.pack_optimizer_state(marked))
    {'w': 1.0}
    """
    marks, spec = tree.tree_flatten(marked_pytree)
    if not all(isinstance(m, JoinPoint) for m in marks):
        raise TypeError(f"all leaves must be JoinPoints, got {[type(m).__name__ for m in marks]}")
    flat = [tree.tree_flatten(m.subtree) for m in marks]
    return OptimizerState([leaves for leaves, _ in flat], spec, tuple(s for _, s in flat))


__getattr__ = _explain_names(__name__)
