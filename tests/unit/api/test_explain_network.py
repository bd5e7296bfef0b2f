"""What programs would send over devices that are not here, and how long that is predicted to take.

Nothing of it depends on devices: the expected texts are those of any machine.
"""

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.compiler.partition.network import Level, Network, network_named
from gpuarray.sharding import AbstractMesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

POD = AbstractMesh((64, 8), ("data", "model"))
EIGHT = AbstractMesh((8,), ("x",))


def given(mesh, shape, *spec):
    return ga.ShapeDtypeStruct(shape, gnp.float32, sharding=NamedSharding(mesh, P(*spec)))


def loss(p, x):
    w, v = p
    return gnp.mean((gnp.tanh(x @ w) @ v - x) ** 2)


def step(p, x):
    dw, dv = ga.grad(loss)(p, x)
    return p[0] - 0.1 * dw, p[1] - 0.1 * dv


WEIGHTS = (given(POD, (4096, 16384), None, "model"), given(POD, (16384, 4096), "model"))
ROWS = given(POD, (8192, 4096), "data")


def sent(e) -> list[str]:
    """The exchanges of an explanation, a line each."""
    names = ("axes", "devices", "bytes a device", "values", "why", "predicted", "by")
    return [
        " | ".join([s.ops[0], *(str(s.facts[n]) for n in names if n in s.facts)])
        for s in e.steps
        if "axes" in s.facts and s.ops[0] != "axis_index"
    ]


def test_a_step_of_training_on_512_gpus():
    e = ga.explain(step, mesh=POD, network="h100-ib")(WEIGHTS, ROWS)
    why = "dot_general along a cut axis"
    assert sent(e) == [
        f"psum | model | 8 | 2097152 | {why} | 38.8 us | tree",
        f"psum | data | 64 | 33554432 | {why} | 2.5 ms | ring",
        f"psum | data | 64 | 33554432 | {why} | 2.5 ms | ring",
    ]
    line = step.__code__.co_firstlineno + 2
    assert e.remarks == (
        "3 exchanges among 512 devices, 5.0 ms predicted for h100-ib, 4.9 ms uncovered",
        f"most costly: psum at test_explain_network.py:{line} (step), 2.5 ms",
    )
    assert str(e).split("\n")[1:3] == list(e.remarks)


def test_times_are_those_of_the_network():
    """Along each axis of the mesh: neighbours are in one node, others are not."""
    e = ga.explain(step, mesh=POD, network="h100-ib")(WEIGHTS, ROWS)
    network = network_named("h100-ib")
    inside = network.along((64, 8), 1).cost("all_reduce", 2097152, 8)
    between = network.along((64, 8), 0).cost("all_reduce", 33554432, 64)
    assert sent(e)[0].split(" | ")[-2] == f"{inside * 1e6:.1f} us"
    assert sent(e)[1].split(" | ")[-2] == f"{between * 1e3:.1f} ms"


def test_small_sums_are_sent_together():
    p = (given(POD, (256, 64)), given(POD, (64, 256)))
    e = ga.explain(step, mesh=POD, network="h100-ib")(p, given(POD, (8192, 256), "data"))
    (line,) = sent(e)
    assert line.startswith("psum | data | 64 | 131072 | 2 | dot_general along a cut axis")


def test_exchanges_in_loops_count_as_often_as_they_are_done():
    def share(v):
        return lax.fori_loop(0, 10, lambda _, c: c / lax.psum(c, "x"), v)

    f = ga.shard_map(share, mesh=EIGHT, in_specs=P("x"), out_specs=P("x"))
    e = ga.explain(f, mesh=EIGHT, network="h200-nvlink")(given(EIGHT, (64,), "x"))
    line = share.__code__.co_firstlineno + 1
    assert e.remarks == (
        "10 exchanges among 8 devices, 180.0 us predicted for h200-nvlink, 180.0 us uncovered",
        f"most costly: psum at test_explain_network.py:{line} (<lambda>) 10 times, 180.0 us",
    )
    (loop,) = [s for s in e.steps if s.ops == ("scan",)]
    assert loop.facts["predicted"] == "180.0 us"


def test_every_kind_of_exchange_has_a_time():
    def body(v):
        n = 8
        ring = lax.ppermute(v, "x", [(i, (i + 1) % n) for i in range(n)])
        pieces = lax.all_to_all(v.reshape(n, -1), "x", 0, 0)
        part = lax.psum_scatter(pieces, "x")
        return lax.all_gather(part, "x").sum() + ring + lax.pmax(v, "x").sum()

    f = ga.shard_map(body, mesh=EIGHT, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    slow = Network((Level(alpha=1.0, bytes_per_s=1e9),))
    e = ga.explain(f, mesh=EIGHT, network=slow)(given(EIGHT, (512,), "x"))
    times = {line.split(" | ")[0]: line.split(" | ")[-2] for line in sent(e)}
    # Latencies of a second: as many as messages one after another. Trees of eight have three steps
    # each way; an all-reduce and its halves wait as often when what they send takes no time.
    assert times == {
        "ppermute": "1.0 s", "all_to_all": "7.0 s", "reduce_scatter": "6.0 s",
        "all_gather": "6.0 s", "pmax": "6.0 s",
    }  # fmt: skip


@pytest.mark.parametrize("alpha, size", [(1.0, 16), (1e-6, 8192)])
def test_what_work_beside_an_exchange_covers(alpha, size):
    """A sum over devices beside a product that does not need it, and a reader of both."""

    def body(v, w):
        total = lax.psum(v, "x")
        return total.sum() + (w @ w).sum()

    f = ga.shard_map(body, mesh=EIGHT, in_specs=(P("x"), P()), out_specs=P(), check_vma=False)
    network = Network((Level(alpha=alpha, bytes_per_s=1e12),))
    e = ga.explain(f, mesh=EIGHT, network=network)(
        given(EIGHT, (64,), "x"), given(EIGHT, (size, size))
    )
    (psum,) = [s for s in e.steps if s.ops == ("psum",)]
    product = size**3 / 33.5e12  # multiply-adds of an H200
    seconds = network.cost("all_reduce", 32, 8)
    assert psum.facts["uncovered"] == ("0.0 us" if product > seconds else psum.facts["predicted"])
    assert e.remarks[0].endswith(f"{psum.facts['uncovered']} uncovered")
    # The start is before the product, the wait behind it.
    names = [s.ops[0] for s in e.steps]
    assert names.index("psum") < names.index("dot_general")


def test_exchanges_wait_for_each_other():
    """Two sums that nothing covers: the second one is sent when the first one has arrived."""

    def body(v):
        return lax.psum(v[:8], "x").sum() * lax.pmax(v, "x").sum()

    f = ga.shard_map(body, mesh=EIGHT, in_specs=P("x"), out_specs=P(), check_vma=False)
    slow = Network((Level(alpha=1.0, bytes_per_s=1e9),))
    e = ga.explain(f, mesh=EIGHT, network=slow)(given(EIGHT, (512,), "x"))
    assert e.remarks[0].endswith("12.0 s predicted for this network, 12.0 s uncovered")


def test_without_a_network_there_are_no_times():
    e = ga.explain(step, mesh=POD)(WEIGHTS, ROWS)
    assert len(sent(e)) == 3 and not e.remarks
    assert not any("predicted" in s.facts for s in e.steps)


def test_shardings_of_jit_are_kept():
    whole = NamedSharding(POD, P())
    f = ga.jit(lambda x: x * 2, out_shardings=whole)
    e = ga.explain(f, mesh=POD, network="a100-ib")(ROWS)
    assert [line.split(" | ")[:2] for line in sent(e)] == [["all_gather", "data"]]


def test_constraints_mean_the_mesh():
    def f(x):
        return lax.with_sharding_constraint(x * 2, P("data")) + 1

    e = ga.explain(f, mesh=POD, network="h100-ib")(given(POD, (64, 64), None, "data"))
    assert [line.split(" | ")[:3] for line in sent(e)] == [["all_to_all", "data", "64"]]


def test_a_program_for_gpus_that_are_not_here():
    e = ga.explain(step, mesh=POD, network="h100-ib", platform="cuda")(WEIGHTS, ROWS)
    assert len(sent(e)) == 3 and all(k.source for k in e.kernels)


def test_what_does_not_fit_is_told():
    with pytest.raises(TypeError, match="mesh is a Mesh or an AbstractMesh"):
        ga.explain(step, mesh=(64, 8))
    with pytest.raises(ValueError, match="did you mean 'h100-ib'"):
        ga.explain(step, network="h100")
    with pytest.raises(ValueError, match="lies over {'x': 8}, and mesh= is over"):
        ga.explain(lambda x: x, mesh=POD)(given(EIGHT, (8,), "x"))
