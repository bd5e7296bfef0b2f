"""Mutable references as arguments of shard_map: each device has one to its piece."""

from typing import Any

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.sharding import Mesh, NamedSharding
from gpuarray.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

MESH: Any = Mesh(np.array(ga.devices()[:4]), ("x",)) if len(ga.devices()) >= 4 else None


def ref_of(*spec, length=8):
    x = gnp.arange(float(length))
    return ga.new_ref(ga.device_put(x, NamedSharding(MESH, P(*spec))))


def on_pieces(f, in_specs, out_specs=None, **options):
    return ga.shard_map(f, mesh=MESH, in_specs=in_specs, out_specs=out_specs, **options)


@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize("check_vma", [True, False])
def test_devices_write_their_pieces(jit, check_vma):
    def f(ref):
        assert ref.shape == (2,)
        ref[...] += lax.axis_index("x") * 10.0
        ref[0] = -1.0

    run = on_pieces(f, P("x"), check_vma=check_vma)
    run = ga.jit(run) if jit else run
    ref = ref_of("x")
    for _ in range(2):
        assert run(ref) is None
    assert ref[...].tolist() == [-1, 1, -1, 23, -1, 45, -1, 67]
    assert ref[...].sharding.is_equivalent_to(NamedSharding(MESH, P("x")), 1)


@pytest.mark.parametrize("jit", [True, False])
def test_references_beside_arrays_in_trees(jit):
    def f(state, x):
        state["sum"][...] += lax.psum(x.sum(), "x")
        state["seen"][...] = state["seen"][...] + x
        return x * state["scale"], state["sum"][...]

    specs = {"sum": P(), "seen": P("x"), "scale": P()}
    run = on_pieces(f, (specs, P("x")), (P("x"), P()))
    run = ga.jit(run) if jit else run
    total, seen = ga.new_ref(gnp.float32(1)), ref_of("x")
    out, read = run({"sum": total, "seen": seen, "scale": 3.0}, gnp.arange(8.0))
    assert out.tolist() == [3 * i for i in range(8)]
    assert float(total[...]) == float(read) == 29
    assert seen[...].tolist() == [2 * i for i in range(8)]


def test_a_reference_that_is_only_read_keeps_its_array():
    ref = ref_of("x")
    out = ga.jit(on_pieces(lambda r: lax.psum(r[...], "x"), P("x"), P()))(ref)
    assert out.tolist() == [0 + 2 + 4 + 6, 1 + 3 + 5 + 7]
    assert ref[...].tolist() == list(range(8))


def test_parts_of_references_and_loops():
    def f(ref):
        def turn(i, _):
            ref[i] = ref[i] * 2 + lax.psum(ref[i], "x")

        lax.fori_loop(0, 2, turn, None)

    ref = ref_of("x")
    ga.jit(on_pieces(f, P("x")))(ref)
    x = np.arange(8.0).reshape(4, 2)
    assert ref[...].tolist() == (x * 2 + x.sum(0)).ravel().tolist()


BAD = {
    "what varies, for all": (
        lambda: on_pieces(lambda r: r.__setitem__(..., r[...] + lax.axis_index("x")), P())(
            ref_of()
        ),
        "require replication.*array of a reference is P",
    ),
    "the same twice": (
        lambda: (lambda r: on_pieces(lambda a, b: None, P("x"))(r, r))(ref_of("x")),
        "only one reference.*shard_map",
    ),
    "returned": (
        lambda: on_pieces(lambda r: r, P("x"), P("x"))(ref_of("x")),
        "returned a mutable array reference",
    ),
    "from outside": (
        lambda: (lambda r: on_pieces(lambda v: r[...] + v, P("x"), P("x"))(gnp.ones(8)))(ref_of()),
        "mutable array reference.*from outside",
    ),
    "without a spec": (
        lambda: on_pieces(lambda r: None, None)(ref_of("x")),
        "in_specs is None for .*a reference",
    ),
    "uneven": (
        lambda: on_pieces(lambda r: None, P("x"))(ref_of(length=6)),
        "evenly divi|divisible",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()
