"""Parts of cut axes: neighbours exchange rims, and nothing is gathered."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as jnp
from gpuarray import lax
from gpuarray.sharding import NamedSharding
from gpuarray.sharding import PartitionSpec as P
from tests.support.devices import mesh_of
from tests.unit.transforms.partition.test_split import normal, sent, split

pytestmark = pytest.mark.devices


def heat(u):
    return u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])


def star(u, old):
    """Five points, of an array with a rim around."""
    across = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return old + 0.1 * (across - 4 * old)


CASES = {
    # What is sent with rows cut 4 times, and with columns cut twice too.
    "roll": (lambda u: jnp.roll(u, 1, 0), 1, 1),
    "roll both": (lambda u: jnp.roll(u, (1, -2), (0, 1)), 1, 2),
    "roll by more than a piece": (lambda u: jnp.roll(u, -9, 0), 2, 2),
    "roll by a piece": (lambda u: jnp.roll(u, 4, 0), 1, 1),
    "ring": (lambda u: u + jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0), 2, 2),
    "pad": (lambda u: jnp.pad(heat(u), ((1, 1), (0, 0))), 2, 2),
    "pad with a value": (lambda u: jnp.pad(u[:-3], ((3, 0), (0, 0)), constant_values=7), 1, 1),
    "concatenate": (lambda u: jnp.concatenate([u[:1], heat(u), u[-1:]]), 2, 2),
    "set": (lambda u: u.at[1:-1].set(heat(u)), 2, 2),
    "multiply": (lambda u: u.at[2:-3].multiply(2.0), 0, 0),
    "minimum": (lambda u: u.at[1:].min(u[:-1]), 1, 1),
    "add to the inside": (
        lambda u: u.at[1:-1, 1:-1].add(star(u, u[1:-1, 1:-1])), 2, 4,
    ),
    "update": (lambda u: lax.dynamic_update_slice(u, u[3:9] * 2, (5, 0)), 1, 1),
    "turn": (lambda u: u[::-1], 1, 1),
    "turn a part": (lambda u: jnp.pad(u[3:][::-1], ((3, 0), (0, 0))), 2, 2),
    "halves": (lambda u: jnp.concatenate([u[8:], u[:8]]), 1, 1),
    "largest difference": (lambda u: jnp.abs(u[1:] - u[:-1]).max(), 2, 2),
    "means of differences": (lambda u: (u[1:] - u[:-1]).mean(0), 2, 2),
    "sum of a part": (lambda u: u[2:5].sum(0), 1, 1),
    "a row": (lambda u: u[5], 1, 1),
    "derivative": (ga.grad(lambda u: (heat(u) ** 2).sum()), 4, 4),
    "numbers of the whole": (
        lambda u: jnp.pad(u[1:] * jnp.arange(15.0)[:, None], ((1, 0), (0, 0))), 0, 0,
    ),
    "a loop": (lambda u: lax.fori_loop(0, 3, lambda i, u: u.at[1:-1].set(heat(u)), u), 2, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rims_are_exchanged(name):
    fun, rows, both = CASES[name]
    for spec, most in ((P("x"), rows), (P("x", "y"), both)):
        found = sent(fun, [normal(16, 8)], [spec])
        assert "all_gather" not in found, found
        assert "all_to_all" not in found, found
        assert sum(found.values()) <= most, found


def test_results_stay_cut():
    for name in ("roll", "pad", "concatenate", "set", "turn", "a loop"):
        parts, _ = split(CASES[name][0], [normal(16, 8)], [P("x", "y")])
        assert parts.outs == ((("x",), ("y",)),), name


def test_a_long_part_that_leaves_is_gathered_and_told():
    parts, _ = split(lambda u: u[1:], [normal(16, 8)], [P("x")])
    (note,) = parts.notes
    assert (note.sent, note.aval.shape) == ("all_gather", (15, 8))
    assert note.site.filename == __file__
    assert sent(lambda u: u[1:], [normal(16, 8)], [P("x")]) == {"all_gather": 1}


def test_short_parts_keep_every_bit():
    x = np.array([0.0, -0.0, np.inf, np.nan, -np.inf, 1.5, -0.0, 0.0], np.float32)
    for value in (x, np.arange(8, dtype=np.int32), x > 0, x.astype(np.complex64)):
        found = _on_devices(lambda v: v[1:4], value)
        assert found.tobytes() == np.ascontiguousarray(value[1:4]).tobytes()


def _on_devices(fun, value):
    x = ga.device_put(value, NamedSharding(mesh_of((4, 2)), P("x")))
    return np.asarray(ga.jit(fun)(x))


def test_what_no_frame_holds_is_right_too():
    def fun(u):
        a, b = u[1:9], u[4:12]
        return a @ b.T, jnp.concatenate([u, u[:3]]), jnp.pad(u, ((2, 3), (1, 0))), a[:1] * u, a[::2]

    sent(fun, [normal(16, 8)], [P("x", "y")])


def test_parts_of_integers_and_booleans_are_folded():
    def fun(k):
        part = k[1:-2]
        return part.sum(), part.max(0), part.min(1), (part > 3).any(), jnp.prod(part[:2], 0)

    sent(fun, [np.arange(128, dtype=np.int32).reshape(16, 8) % 7], [P("x", "y")])


def test_lookups_in_a_cut_table_keep_every_bit():
    table = np.array([0.0, -0.0, np.inf, np.nan, -np.inf, 1.5, -0.0, 2.0], np.float32)
    at = np.array([1, 6, 2, 3, 0, 1])
    types = ("float32", "float16", "bfloat16", "complex64", "float8_e4m3fn", "int8")
    for name in types:
        values = jnp.asarray(np.nan_to_num(table) if name == "int8" else table).astype(name)
        looked = np.asarray(values)[at]
        clipped = lambda v: v.at[at].get(mode="clip")
        for fun in (lambda v: v[at], lambda v: jnp.take(v, at), clipped):
            assert _on_devices(fun, np.asarray(values)).tobytes() == looked.tobytes(), name
        part = _on_devices(lambda v: v[1:3], np.asarray(values))
        assert part.tobytes() == np.asarray(values)[1:3].tobytes(), name
    assert sent(lambda v: v[at], [np.abs(table[:4]).repeat(4)], [P("x")]) == {"psum": 1}
    rows = sent(lambda v: v[at[:4]] * 2, [normal(16, 8)], [P("x")], [P("x")])
    assert rows == {"reduce_scatter": 1}


def write(x, new, *at):
    return lax.dynamic_update_slice(x, new, at)


@pytest.mark.parametrize("spec", [P("x"), P("x", "y"), P(None, ("x", "y"))], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_updates_anywhere_along_a_cut_axis_send_the_update_at_most(spec, dtype):
    x, new = normal(16, 8), normal(3, 2)
    ends = ((0, 0), (3, 1), (5, 3), (11, 5), (13, 6), (100, 100))
    for at in (*ends, (-1, -100)) if dtype != "uint8" else ends:
        starts = [np.asarray(i, dtype) for i in at]
        assert sent(write, [x, new, *starts], [spec, P(), P(), P()]) == {}
        # As in the last equation of a step, in its own pieces along the other axis.
        found = sent(write, [x, normal(3, 8), *starts], [spec, P(None, spec[-1]), P(), P()])
        assert set(found) <= {"all_gather"} and sum(found.values()) <= 2
    parts, _ = split(write, [x, new, *starts], [spec, P(), P(), P()])
    assert parts.outs[0] == parts.ins[0]


def test_a_cache_that_is_written_step_by_step_stays_cut():
    def steps(cache, row):
        return lax.fori_loop(0, 6, lambda i, c: write(c, row * i, i * 3, 0), cache)

    assert sent(steps, [normal(16, 8), normal(1, 8)], [P("x"), P()]) == {}
    parts, _ = split(steps, [normal(16, 8), normal(1, 8)], [P("x", "y"), P(None, "y")])
    assert parts.outs == ((("x",), ("y",)),)
