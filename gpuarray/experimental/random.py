"""`experimental.random`: a generator that keeps its state, as NumPy's does.

Floor 6. In: a seed. Out: an object whose methods draw numbers. Its state is a key that stays and a
counter that grows, a mutable reference; each draw is of the key folded with the counter.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuarray import numpy as gnp
from gpuarray import random
from gpuarray.api.references import new_ref
from gpuarray.core import dtypes
from gpuarray.core.trace import is_base
from gpuarray.core.value import Array
from gpuarray.pytree.registration import register_pytree_node
from gpuarray.transforms.references import Ref

__all__ = ["StatefulPRNG", "stateful_rng"]

Size = int | Sequence[int] | None


class StatefulPRNG:
    """A generator of random numbers that changes with each draw; `stateful_rng` makes one.

    It is a pytree of its key and its counter: transformed functions close over it or take it as an
    argument, and cannot return it.

    >>> from gpuarray.experimental import random
    >>> rng = random.stateful_rng(42)
    >>> float(rng.uniform()) != float(rng.uniform())
    True
    """

    __slots__ = ("_base_key", "_counter")

    def __init__(self, base_key: Array, counter: Ref):
        if not (isinstance(base_key, Array) and _is_key(base_key)):
            raise ValueError(
                f"Expected base_key to be a typed PRNG key; got {base_key}. Make one with "
                "random.key(seed)."
            )
        if not isinstance(counter, Ref):
            raise ValueError(
                f"Expected counter to be a scalar integer ref; got {counter}. Make one with "
                "new_ref(0)."
            )
        self._base_key, self._counter = base_key, counter

    def __repr__(self) -> str:
        return f"StatefulPRNG(_base_key={self._base_key!r}, _counter={self._counter!r})"

    def key(self, shape: int | Sequence[int] = ()) -> Array:
        """A new key, or an array of new keys.

        >>> from gpuarray.experimental import random
        >>> random.stateful_rng(0).key(2).shape
        (2,)
        """
        if self._base_key.shape:
            raise ValueError(
                f"cannot operate on split stateful generator: this one has shape "
                f"{self._base_key.shape}. Give it to a function that vmap maps over it."
            )
        # The counter alone is state: the key stays, and draws need no chain of splits.
        key = random.fold_in(self._base_key, self._counter[...])
        self._counter.addupdate(1)
        several = _shape(shape)
        return random.split(key, several) if several else key

    def random(self, size: Size = None, dtype: Any = float) -> Array:
        """Numbers in [0, 1).

        >>> from gpuarray.experimental import random
        >>> bool((random.stateful_rng(0).random(5) < 1).all())
        True
        """
        return random.uniform(self.key(), _shape(size), dtype)

    def uniform(
        self, low: Any = 0, high: Any = 1, size: Size = None, *, dtype: Any = float
    ) -> Array:
        """Numbers in [low, high); without `size`, of the shape of the bounds together.

        >>> from gpuarray.experimental import random
        >>> random.stateful_rng(0).uniform(0, 10, size=(2, 3)).shape
        (2, 3)
        """
        return random.uniform(self.key(), _shape(size, low, high), dtype, low, high)

    def normal(
        self, loc: Any = 0, scale: Any = 1, size: Size = None, *, dtype: Any = float
    ) -> Array:
        """Numbers from the normal distribution of this mean and standard deviation.

        >>> from gpuarray.experimental import random
        >>> random.stateful_rng(0).normal(5.0, 2.0, size=3).shape
        (3,)
        """
        drawn = random.normal(self.key(), _shape(size, loc, scale), dtype)
        return (gnp.asarray(loc) + gnp.asarray(scale) * drawn).astype(dtype)

    def integers(self, low: Any, high: Any = None, size: Size = None, *, dtype: Any = int) -> Array:
        """Integers in [low, high), or in [0, low) where `high` is not given.

        >>> from gpuarray.experimental import random
        >>> bool((random.stateful_rng(0).integers(10, size=5) < 10).all())
        True
        """
        if high is None:
            low, high = 0, low
        return random.randint(self.key(), _shape(size, low, high), low, high, dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Independent generators in one, for a function that vmap maps over them.

        >>> import gpuarray as ga
        >>> from gpuarray.experimental import random
        >>> ga.vmap(lambda rng: rng.uniform())(random.stateful_rng(0).split(3)).shape
        (3,)
        """
        return StatefulPRNG(self.key(num), new_ref(gnp.zeros(num, int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of independent generators.

        >>> from gpuarray.experimental import random
        >>> len(random.stateful_rng(0).spawn(2))
        2
        """
        return [StatefulPRNG(key, new_ref(0)) for key in self.key(n_children)]


def _is_key(x: Array) -> bool:
    return dtypes.issubdtype(x.dtype, dtypes.prng_key)


def _shape(size: Size, *args: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*(gnp.asarray(x).shape for x in args))
    if isinstance(size, Sequence):
        return tuple(map(operator.index, size))
    return (operator.index(size),)


def _rebuilt(_: None, children: Sequence[Any]) -> StatefulPRNG:
    # Not through __init__: transformations put tracers and other objects into the leaves.
    new = object.__new__(StatefulPRNG)
    new._base_key, new._counter = children
    return new


register_pytree_node(StatefulPRNG, lambda x: ((x._base_key, x._counter), None), _rebuilt)


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator that keeps its state, from a seed or, outside of transformed functions, without.

    Parameters
    ----------
    impl :
        The kind of its keys, as `random.key` takes it.

    Examples
    --------

    >>> import gpuarray as ga
    >>> from gpuarray.experimental import random
    >>> rng = random.stateful_rng(42)
    >>> draw = ga.jit(rng.uniform)
    >>> float(draw()) != float(draw())
    True
    """
    if seed is None:
        if not is_base():
            raise TypeError(
                "When used within transformed code, jax.experimental.random.stateful_rng() "
                "requires an explicit seed to be set: it would be the same at each call."
            )
        # Entropy of the system, as NumPy takes it; 31 bits fit into an int32.
        seed = int(np.random.SeedSequence().generate_state(1, np.uint32)[0]) >> 1
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))
