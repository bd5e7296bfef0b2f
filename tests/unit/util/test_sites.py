"""Places in a user's program: what stands between the program and this library is not one."""

import contextlib
import functools

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import sites


def of_the_library(expression):
    """Return the value of an expression that stands in a file of the library's."""
    code = compile(expression, sites.PACKAGE + "made.py", "eval")
    return eval(code, {"sites": sites, "x": X, "y": Y})


X, Y = gnp.ones((2, 2), gnp.int32), gnp.ones(2, gnp.float32)


@contextlib.contextmanager
def block():
    yield


class Lazy:
    pass


def through_contextmanager(fun):
    return block()(fun)()


def through_singledispatch(fun):
    return functools.singledispatch(fun)(0)


def through_cached_property(fun):
    prop = functools.cached_property(fun)
    prop.__set_name__(Lazy, "found")
    return prop.__get__(Lazy(), Lazy)


def through_partialmethod(fun):
    holder = type("Holder", (), {"call": functools.partialmethod(fun, 0)})
    return holder().call()


WAYS = [
    through_contextmanager,
    through_singledispatch,
    through_cached_property,
    through_partialmethod,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_site_is_never_of_the_standard_library(way):
    assert way(of_the_library("lambda *_: sites.user_frame()")).filename == __file__


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_what_the_user_decorates_is_the_users(way):
    # A rank or dtype promotion that nobody wrote raises, one within the library does not.
    with ga.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match="rank"):
            way(lambda *_: X + Y)
        way(of_the_library("lambda *_: x + y"))


def test_decorated_functions_have_the_users_line():
    todo = list(ga.make_jaxpr(lambda x: gnp.pad(x, 1))(gnp.ones(3)).jaxpr.eqns)
    found = []
    while todo:
        equation = todo.pop()
        found.append(equation.site.filename)
        todo += [e for g in equation.params.values() if hasattr(g, "jaxpr") for e in g.jaxpr.eqns]
    assert found and set(found) == {__file__}
