"""Bodies of loops and branches are traced once for each kind of call, and never out of date."""

import gc

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.transforms import trace_cache


def counted(calls: list):
    """A scan body that counts how often it is traced; `calls` is no constant, so it is not kept."""

    def step(carry, x):
        calls.append(1)
        return carry + x, carry

    return step


def plain_step(carry, x):
    return carry * 2 + x, carry


SCALE = gnp.float32(3.0)


def scaled_step(carry, x):
    return carry + SCALE * x, None


def traces_of(function, run) -> int:
    """How many kinds of calls of `function` are remembered after `run`."""
    trace_cache.forget()
    run()
    return len(trace_cache._made.get(function, {}))


def test_a_body_is_kept_for_each_kind_of_call():
    xs = gnp.arange(4.0)

    def run():
        for _ in range(3):
            lax.scan(plain_step, 0.0, xs)
        lax.scan(plain_step, 0.0, gnp.arange(4))
        lax.map(lambda x: x, xs)

    # A weak float carry is traced again as a strong one: two kinds of calls for each dtype of xs.
    kinds = traces_of(plain_step, run)
    assert kinds and traces_of(plain_step, lambda: (run(), run())) == kinds


def test_the_same_graph_is_bound_again():
    body = lambda c: c + 1
    test = lambda c: c < 5
    first = ga.make_jaxpr(lambda x: lax.while_loop(test, body, x))(0)
    second = ga.make_jaxpr(lambda x: lax.while_loop(test, body, x))(0)
    inner = [j.eqns[0].params["body_jaxpr"] for j in (first, second)]
    assert inner[0] is inner[1]


def test_a_changed_global_is_seen():
    global SCALE
    xs = gnp.arange(3.0)
    assert float(lax.scan(scaled_step, 0.0, xs)[0]) == 9.0
    SCALE = gnp.float32(5.0)
    assert float(lax.scan(scaled_step, 0.0, xs)[0]) == 15.0
    SCALE = gnp.float32(3.0)


def test_a_changed_closure_is_seen():
    k = 1.0

    def step(carry, x):
        return carry + k * x, None

    xs = gnp.arange(3.0)
    assert float(lax.scan(step, 0.0, xs)[0]) == 3.0
    k = 2.0
    assert float(lax.scan(step, 0.0, xs)[0]) == 6.0


def test_a_function_that_closes_over_what_can_change_is_traced_each_time():
    calls: list = []
    step = counted(calls)
    lax.scan(step, gnp.float32(0), gnp.arange(3.0))
    before = len(calls)
    lax.scan(step, gnp.float32(0), gnp.arange(3.0))
    assert len(calls) == 2 * before
    params = {"w": gnp.float32(1)}
    double = lambda x: x * params["w"]
    through = lambda c, x: (c + double(x), None)  # the dict is one function further away
    assert float(lax.scan(through, 0.0, gnp.arange(3.0))[0]) == 3.0
    params["w"] = gnp.float32(2)
    assert float(lax.scan(through, 0.0, gnp.arange(3.0))[0]) == 6.0


def test_traced_constants_are_not_kept():
    def outer(v):
        def step(carry, x):
            return carry + v * x, None

        return lax.scan(step, 0.0, gnp.arange(3.0))[0]

    assert float(ga.grad(outer)(1.0)) == 3.0
    assert float(ga.jit(outer)(2.0)) == 6.0
    assert ga.vmap(outer)(gnp.array([1.0, 2.0])).tolist() == [3.0, 6.0]


def test_wrappers_of_one_function_do_not_meet():
    body = lambda i, x: (i + x) * 1.0
    assert float(lax.fori_loop(0, 3, body, 1.0)) == 4.0
    bounds = ga.jit(lambda n: lax.fori_loop(0, n, body, 1.0))
    assert float(bounds(3)) == 4.0
    same = lambda x: (x, x)
    assert lax.map(same, gnp.arange(2.0))[0].tolist() == [0.0, 1.0]
    assert lax.map(same, gnp.arange(3.0), batch_size=2)[1].tolist() == [0.0, 1.0, 2.0]


def test_settings_and_axes_are_part_of_the_key():
    total = lambda c, x: (c + lax.psum(x, "i"), None)
    mapped = lambda n: ga.vmap(lambda x: lax.scan(total, 0.0, x)[0], axis_name="i", in_axes=0)(
        gnp.ones((n, 2))
    )
    assert mapped(2).tolist() == [4.0] * 2
    assert mapped(3).tolist() == [6.0] * 3
    with ga.enable_x64(True):
        assert lax.scan(plain_step, 0.0, gnp.arange(3.0))[1].dtype == "float64"


def test_forgotten_with_the_function():
    trace_cache.forget()

    def step(carry, x):
        return carry + x, None

    lax.scan(step, 0.0, gnp.arange(3.0))
    assert step in trace_cache._made
    del step
    gc.collect()
    assert not trace_cache._made
    lax.scan(plain_step, 0.0, gnp.arange(3.0))
    ga.clear_caches()
    assert not trace_cache._made


def test_branches_keep_their_graphs():
    xs = gnp.arange(3.0)
    up, down = (lambda x: x + 1), (lambda x: x - 1)
    graphs = [ga.make_jaxpr(lambda p: lax.cond(p, up, down, xs))(True) for _ in range(2)]
    first, second = (g.eqns[-1].params["branches"] for g in graphs)
    assert all(a is b for a, b in zip(first, second, strict=True))


def test_a_function_given_as_several_branches_is_traced_once():
    seen = []
    f, g = lambda x: seen.append("f") or x + 1, lambda x: seen.append("g") or x * 2
    assert lax.cond(True, f, f, 1) == 2 and seen == ["f"]
    assert lax.switch(3, [f, g, f, g], 4) == 8 and sorted(seen) == ["f", "f", "g"]
