"""What native code keeps in memory so that the loops of its readers are vectorised.

In: values that take long, read at places that are looked up. Out: the steps of the plan; no text.
"""

from __future__ import annotations

import numpy as np

import gpuarray as ga
import gpuarray.numpy as gnp

X = ga.ShapeDtypeStruct((1000,), "float32")
PLACES = np.arange(1000, dtype=np.int32)


def steps(function, *arguments):
    """The operations of each native step."""
    plan = ga.jit(function).lower(*arguments).plan.on_native
    return [{m.eqn.primitive.name for m in step.group.members} for step in plan.steps]


def test_values_that_take_long_are_made_once_and_looked_up():
    made = steps(lambda x, i: gnp.tanh(gnp.exp(x))[i], X, PLACES)
    assert len(made) == 2 and {"exp", "tanh"} <= made[0]


def test_cheap_values_are_made_where_they_are_looked_up():
    assert len(steps(lambda x, i: (x * 2 + 1)[i], X, PLACES)) == 1


def test_few_of_many_are_made_where_they_are_looked_up():
    assert len(steps(lambda x, i: gnp.tanh(gnp.exp(x))[i], X, PLACES[:10])) == 1
