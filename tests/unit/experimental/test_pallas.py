"""Kernels of blocks: what a grid of programs computes, side by side and one after another.

References are NumPy's, written without blocks; what is read beyond an array follows JAX's
interpreter (tests/parity compares call by call).
"""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax
from gpuarray.experimental import checkify
from gpuarray.experimental import pallas as pl
from gpuarray.experimental.pallas import call, triton

RNG = np.random.default_rng(0)
A = RNG.standard_normal((8, 12)).astype(np.float32)
B = RNG.standard_normal((12, 6)).astype(np.float32)
V = RNG.standard_normal(10).astype(np.float32)
SHAPE = ga.ShapeDtypeStruct


def struct(x):
    return SHAPE(x.shape, x.dtype)


def rows(n=2, columns=12):
    return pl.BlockSpec((n, columns), lambda i: (i, 0))


def add_position(x_ref, out_ref):
    out_ref[...] = x_ref[...] * 2 + pl.program_id(0)


def matmul(x_ref, y_ref, out_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        out_ref[...] = gnp.zeros_like(out_ref)

    out_ref[...] += x_ref[...] @ y_ref[...]


def matmul_scratch(x_ref, y_ref, out_ref, total_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        total_ref[...] = gnp.zeros_like(total_ref)

    total_ref[...] += x_ref[...] @ y_ref[...]

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        out_ref[...] = total_ref[...]


PRODUCT = {
    "grid": (4, 3, 3),
    "in_specs": [
        pl.BlockSpec((2, 4), lambda i, j, k: (i, k)),
        pl.BlockSpec((4, 2), lambda i, j, k: (k, j)),
    ],
    "out_specs": pl.BlockSpec((2, 2), lambda i, j, k: (i, j)),
}
PRODUCT_SHAPE = SHAPE((8, 6), np.float32)


def running_sum(x_ref, out_ref, total_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        total_ref[...] = gnp.zeros_like(total_ref)

    total_ref[...] += x_ref[...]
    out_ref[...] = total_ref[...]


def double(x_ref, out_ref):
    out_ref[...] = x_ref[...] * 2


def copy(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def softmax(x_ref, out_ref):
    e = gnp.exp(x_ref[...] - x_ref[...].max(-1, keepdims=True))
    out_ref[...] = e / e.sum(-1, keepdims=True)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def two_results(x_ref, out_ref, sums_ref):
    # One output follows the grid, the other gathers over all of it.
    out_ref[...] = x_ref[...] * 2

    @pl.when(pl.program_id(0) == 0)
    def _():
        sums_ref[...] = gnp.zeros_like(sums_ref)

    sums_ref[...] += x_ref[...].sum(axis=0)


def moved(x_ref, out_ref):
    def step(i, _):
        out_ref[pl.ds(i * 2, 2), :] = x_ref[pl.ds(6 - i * 2, 2), :]

    lax.fori_loop(0, 4, step, None)


def looped(x_ref, out_ref):
    out_ref[...] = gnp.zeros_like(out_ref)

    @pl.loop(0, 8, step=2)
    def _(i):
        out_ref[...] += x_ref[i]


def carried(x_ref, out_ref):
    @pl.loop(0, 8, init_carry=gnp.zeros(12))
    def total(i, carry):
        return carry + x_ref[i]

    out_ref[...] = total


def previous(x_ref, out_ref):
    # Each program reads what the one before it wrote.
    i = pl.program_id(0)
    before = gnp.where(i == 0, 0.0, out_ref[gnp.maximum(i - 1, 0)])
    out_ref[i] = before + x_ref[0]


def changed_input(x_ref, out_ref):
    x_ref[...] = x_ref[...] + 1
    out_ref[...] = x_ref[...]


def left_behind(x_ref, out_ref, total_ref):
    # The scratch is left to the next program, which is another one along the inner axis.
    @pl.when(pl.program_id(0) == 0)
    def _():
        total_ref[...] = gnp.zeros_like(total_ref)

    total_ref[...] += x_ref[...]
    out_ref[...] = total_ref[...]


def _left_behind(x):
    out, total = np.zeros(6, np.float32), np.zeros(2, np.float32)
    for i in range(2):
        for j in range(3):
            total = (0 if i == 0 else total) + x[2 * j : 2 * j + 2] + 0
            out[2 * j : 2 * j + 2] = total
    return out


VECTOR = pl.BlockSpec((4,), lambda i: (i,))
BLOCK = pl.BlockSpec((2, 4), lambda i, j: (i, j))
POSITIONS = np.arange(4).repeat(2)[:, None]

#: name: kernel, shape of the output, arguments of pallas_call, inputs, the result
CASES = {
    "whole": (double, struct(A), {}, (A,), A * 2),
    "blocks": (
        add_position,
        struct(A),
        {"grid": (4, 3), "in_specs": [BLOCK], "out_specs": BLOCK},
        (A,),
        A * 2 + POSITIONS,
    ),
    "a last block that is not full": (
        double,
        struct(V),
        {"grid": (3,), "in_specs": [VECTOR], "out_specs": VECTOR},
        (V,),
        V * 2,
    ),
    "squeezed axes": (
        copy,
        SHAPE((12, 8), np.float32),
        {
            "grid": (8, 3),
            "in_specs": [pl.BlockSpec((None, 4), lambda i, j: (i, j))],
            "out_specs": pl.BlockSpec((4, pl.squeezed), lambda i, j: (j, i)),
        },
        (A,),
        A.T,
    ),
    "blocks in another order": (
        copy,
        struct(A),
        {
            "grid": (4,),
            "in_specs": [pl.BlockSpec((2, 12), lambda i: (3 - i, 0))],
            "out_specs": rows(),
        },
        (A,),
        A.reshape(4, 2, 12)[::-1].reshape(8, 12),
    ),
    "outputs in another order": (
        copy,
        struct(A),
        {
            "grid": (4,),
            "in_specs": [rows()],
            "out_specs": pl.BlockSpec((2, 12), lambda i: (3 - i, 0)),
        },
        (A,),
        A.reshape(4, 2, 12)[::-1].reshape(8, 12),
    ),
    "product": (matmul, PRODUCT_SHAPE, PRODUCT, (A, B), A @ B),
    "product in scratch": (
        matmul_scratch,
        PRODUCT_SHAPE,
        PRODUCT | {"scratch_shapes": [pl.ANY((2, 2), np.float32)]},
        (A, B),
        A @ B,
    ),
    "scratch that goes on": (
        running_sum,
        struct(A),
        {
            "grid": (8,),
            "in_specs": [rows(1)],
            "out_specs": rows(1),
            "scratch_shapes": [pl.ANY((1, 12), np.float32)],
        },
        (A,),
        A.cumsum(0),
    ),
    "scratch that inner programs leave to others": (
        left_behind,
        SHAPE((6,), np.float32),
        {
            "grid": (2, 3),
            "in_specs": [pl.BlockSpec((2,), lambda i, j: (j,))],
            "out_specs": pl.BlockSpec((2,), lambda i, j: (j,)),
            "scratch_shapes": [pl.ANY((2,), np.float32)],
        },
        (V[:6],),
        _left_behind(V[:6]),
    ),
    "scratch of each program": (
        lambda x_ref, out_ref, s_ref: (
            (
                s_ref.__setitem__(..., x_ref[...] * 2),
                out_ref.__setitem__(..., s_ref[...] + 1),
            )[2:]
            or None
        ),
        SHAPE((6,), np.float32),
        {
            "grid": (2, 3),
            "in_specs": [pl.BlockSpec((2,), lambda i, j: (j,))],
            "out_specs": pl.BlockSpec((2,), lambda i, j: (j,)),
            "scratch_shapes": [pl.ANY((2,), np.float32)],
        },
        (V[:6],),
        V[:6] * 2 + 1,
    ),
    "softmax": (
        softmax,
        struct(A),
        {"grid": (2,), "in_specs": [rows(4)], "out_specs": rows(4)},
        (A,),
        _softmax(A),
    ),
    "an output that gathers": (
        two_results,
        [struct(A), SHAPE((12,), np.float32)],
        {
            "grid": (4,),
            "in_specs": [rows()],
            "out_specs": [rows(), pl.BlockSpec((12,), lambda i: (0,))],
        },
        (A,),
        (A * 2, A.sum(0)),
    ),
    "slices with traced starts": (
        moved,
        struct(A),
        {},
        (A,),
        A.reshape(4, 2, 12)[::-1].reshape(8, 12),
    ),
    "loop": (looped, SHAPE((12,), np.float32), {}, (A,), A[::2].sum(0)),
    "loop with a carry": (carried, SHAPE((12,), np.float32), {}, (A,), A.sum(0)),
    "programs that follow one another": (
        previous,
        struct(V),
        {"grid": (10,), "in_specs": [pl.BlockSpec((1,), lambda i: (i,))]},
        (V,),
        V.cumsum(),
    ),
    "inputs that are written": (
        changed_input,
        struct(V),
        {"grid": (3,), "out_specs": pl.BlockSpec((10,), lambda i: (0,))},
        (V,),
        V + 3,
    ),
    "windows": (
        lambda x_ref, out_ref: out_ref.__setitem__(..., x_ref[...].sum()[None]),
        SHAPE((6,), np.float32),
        {
            "grid": (6,),
            "in_specs": [pl.BlockSpec((pl.Element(5),), lambda i: (i,))],
            "out_specs": pl.BlockSpec((1,), lambda i: (i,)),
        },
        (V,),
        np.lib.stride_tricks.sliding_window_view(V, 5).sum(-1),
    ),
    "windows over the ends": (
        lambda x_ref, out_ref: out_ref.__setitem__(..., gnp.nansum(x_ref[...])[None]),
        struct(V),
        {
            "grid": (10,),
            "in_specs": [pl.BlockSpec((pl.Element(3, (1, 1)),), lambda i: (i,))],
            "out_specs": pl.BlockSpec((1,), lambda i: (i,)),
        },
        (V,),
        np.convolve(V, np.ones(3, np.float32), "same"),
    ),
}


def run(name, **options):
    kernel, shape, arguments, inputs, expected = CASES[name]
    return pl.pallas_call(kernel, shape, **arguments, **options)(*inputs), expected


def check(found, expected):
    ga.tree.map(lambda x, y: np.testing.assert_allclose(x, y, 1e-5, 1e-5), found, expected)


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_computes_what_numpy_does(name, interpret):
    check(*run(name, interpret=interpret))


@pytest.mark.parametrize("name", CASES)
def test_kernels_compile_for_a_gpu(name):
    with ga.default_device("simulator"):
        check(*run(name))


@pytest.mark.parametrize("name", CASES)
def test_kernels_can_be_jitted_batched_and_derived(name):
    kernel, shape, arguments, inputs, expected = CASES[name]
    f = pl.pallas_call(kernel, shape, **arguments)
    check(ga.jit(f)(*inputs), expected)
    batch = [np.stack([x, 2 * x]) for x in inputs]
    each = [ga.tree.map(np.asarray, f(*xs)) for xs in zip(*batch, strict=True)]
    check(ga.vmap(f)(*batch), ga.tree.map(lambda *xs: np.stack(xs), *each))
    # Both derivatives agree on a random direction, and with each other.
    out, pull = ga.vjp(f, *inputs)
    weights = ga.tree.map(lambda x: RNG.standard_normal(x.shape).astype(np.float32), out)
    directions = [RNG.standard_normal(x.shape).astype(np.float32) for x in inputs]
    _, tangent = ga.jvp(f, inputs, tuple(directions))
    forward = sum(np.vdot(*p) for p in zip(*map(ga.tree.leaves, (tangent, weights)), strict=True))
    back = sum(np.vdot(d, c) for d, c in zip(directions, pull(weights), strict=True))
    np.testing.assert_allclose(forward, back, 1e-4, 1e-4)


def test_a_derivative_is_that_of_the_same_function_without_blocks():
    def kernel(x_ref, out_ref):
        out_ref[...] = gnp.sin(x_ref[...]) * x_ref[...]

    f = pl.pallas_call(kernel, struct(V), grid=(3,), in_specs=[VECTOR], out_specs=VECTOR)
    found = ga.grad(lambda x: (f(x) ** 2).sum())(V)
    expected = 2 * np.sin(V) * V * (np.cos(V) * V + np.sin(V))
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def _axes(name):
    """Along which axes of the grid the programs of a case run side by side."""
    kernel, shape, arguments, inputs, _ = CASES[name]
    seen = []
    inner = call._side_by_side
    patch = pytest.MonkeyPatch()
    with patch.context() as m:
        m.setattr(call, "_side_by_side", lambda k: seen.append(inner(k)) or seen[-1])
        pl.pallas_call(kernel, shape, **arguments)(*inputs)
    return seen[0]


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("blocks", (0, 1)),
        ("product", (0, 1)),
        ("product in scratch", (0, 1)),
        ("scratch that goes on", ()),
        ("scratch that inner programs leave to others", ()),
        ("scratch of each program", (1,)),
        ("an output that gathers", ()),
        ("outputs in another order", ()),
        ("programs that follow one another", ()),
        ("inputs that are written", ()),
    ],
)
def test_programs_run_side_by_side_where_they_do_not_meet(name, axes):
    assert _axes(name) == axes


def test_elementwise_and_row_kernels_are_one_kernel_of_the_compiler():
    x = SHAPE((64, 512), np.float32)
    block = pl.BlockSpec((16, 512), lambda i: (i, 0))
    for kernel in (double, softmax):
        f = pl.pallas_call(kernel, x, grid=(4,), in_specs=[block], out_specs=block)
        assert len(ga.explain(f)(x).kernels) == 1, kernel


def test_the_kernel_is_traced_once():
    count = []

    def kernel(x_ref, out_ref):
        count.append(1)
        out_ref[...] = x_ref[...]

    f = pl.pallas_call(kernel, struct(A), grid=(4,), in_specs=[rows()], out_specs=rows())
    f(A), f(A)
    assert len(count) == 1


def test_what_was_never_written_is_nan_and_the_like():
    shapes = [SHAPE((2,), t) for t in ("float32", "int32", "bool", "uint8")]
    found = pl.pallas_call(lambda *refs: None, shapes)()
    assert np.isnan(found[0]).all()
    assert [x.tolist()[0] for x in found[1:]] == [-(2**31), False, 0]
    # Programs that do not reach all blocks leave the rest so.
    f = pl.pallas_call(copy, struct(A), grid=(2,), in_specs=[rows()], out_specs=rows())
    assert np.isnan(f(A)[4:]).all()


def test_an_output_may_begin_as_an_input():
    def kernel(x_ref, out_ref):
        out_ref[...] = out_ref[...] + x_ref[0]

    options = {"grid": (2,), "in_specs": [rows()], "out_specs": rows()}
    f = pl.pallas_call(kernel, struct(A), input_output_aliases={0: 0}, **options)
    expected = A.copy()
    for i in (0, 2):
        expected[i : i + 2] += A[i]
    np.testing.assert_allclose(f(A), expected, 1e-6)


def test_a_traced_grid():
    @ga.jit
    def f(x, n):
        g = pl.pallas_call(
            lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 2 + pl.num_programs(0)),
            struct(A),
            grid=(n,),
            in_specs=[rows()],
            out_specs=rows(),
        )
        return g(x)

    found = f(A, 3)
    np.testing.assert_allclose(found[:6], A[:6] * 2 + 3, 1e-6)
    assert np.isnan(found[6:]).all()


def test_pytrees_and_names():
    def kernel(x, y_ref, out, *, total):
        total[...] = x["a"][...] + y_ref[...]
        out["s"][...] = total[...]

    f = pl.pallas_call(
        kernel, {"s": struct(V)}, scratch_shapes={"total": pl.ANY((10,), "float32")}, name="added"
    )
    np.testing.assert_allclose(f({"a": V}, V)["s"], V + V)
    assert "added" in str(ga.explain(f)({"a": V}, V))


def test_programs_print_in_turn(capfd):
    def kernel(x_ref, out_ref):
        pl.debug_print("row {}", pl.program_id(0))
        out_ref[...] = x_ref[...]

    options = {"grid": (4,), "in_specs": [rows()], "out_specs": rows()}
    ga.block_until_ready(pl.pallas_call(kernel, struct(A), **options)(A))
    ga.effects_barrier()
    assert capfd.readouterr().out.split() == "row 0 row 1 row 2 row 3".split()
    pl.pallas_call(copy, struct(A), debug=True, **options)(A)
    assert "copy" in capfd.readouterr().out


def test_references_from_outside():
    total = ga.new_ref(gnp.zeros(12))

    def kernel(x_ref, out_ref):
        out_ref[...] = x_ref[...]
        total[...] += x_ref[...].sum(0)

    f = pl.pallas_call(kernel, struct(A), grid=(4,), in_specs=[rows()], out_specs=rows())
    np.testing.assert_allclose(f(A), A)
    np.testing.assert_allclose(total[...], A.sum(0), 1e-5)


def test_masked_loads_and_stores_reach_over_the_end():
    def kernel(x_ref, out_ref):
        at = pl.program_id(0) * 4
        mask = at + gnp.arange(4) < 10
        part = triton.load(x_ref.at[pl.ds(at, 4)], mask=mask, other=0.0)
        triton.store(out_ref.at[pl.ds(at, 4)], part * 2, mask=mask)

    f = pl.pallas_call(kernel, struct(V), grid=(3,))
    np.testing.assert_allclose(f(V), V * 2)
    with pytest.raises(ValueError, match="Cannot broadcast mask shape"):
        triton.load(ga.new_ref(gnp.zeros(3)), mask=gnp.ones(2, bool))
    with pytest.raises(NotImplementedError, match="Leave it out"):
        triton.load(ga.new_ref(gnp.zeros(3)), eviction_policy="evict_first")


def test_atomic_histogram():
    values = RNG.integers(0, 5, 20).astype(np.int32)

    def kernel(x_ref, zeros_ref, out_ref):
        triton.atomic_add(out_ref, x_ref[0], 1)

    f = pl.pallas_call(
        kernel,
        SHAPE((5,), np.int32),
        grid=(20,),
        in_specs=[pl.BlockSpec((1,), lambda i: (i,)), pl.BlockSpec((5,), lambda i: (0,))],
        input_output_aliases={1: 0},
    )
    assert f(values, np.zeros(5, np.int32)).tolist() == np.bincount(values, minlength=5).tolist()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: pl.pallas_call(5, struct(A)), TypeError, "a kernel"),
        (lambda: pl.pallas_call(copy, 5), ValueError, "Invalid out_shape"),
        (
            lambda: pl.pallas_call(copy, struct(A), grid=(4,), in_specs=[VECTOR])(A),
            ValueError,
            "same number of dimensions",
        ),
        (
            lambda: pl.pallas_call(
                copy, struct(A), grid=(4,), in_specs=[pl.BlockSpec((2, 12), lambda i: (i,))]
            )(A),
            ValueError,
            "must return 2 values",
        ),
        (
            lambda: pl.pallas_call(
                copy, struct(A), grid=(4,), in_specs=[pl.BlockSpec((2, 12), lambda i: (i, 0.5))]
            )(A),
            ValueError,
            "integer scalars",
        ),
        (lambda: pl.pallas_call(copy, struct(A), in_specs=[])(A), ValueError, "in_specs"),
        (lambda: pl.pallas_call(lambda x, o: 3, struct(A))(A), ValueError, "should return None"),
        (
            lambda: pl.pallas_call(copy, struct(A), input_output_aliases={1: 0})(A),
            ValueError,
            "outside the range",
        ),
        (
            lambda: pl.pallas_call(copy, struct(V), input_output_aliases={0: 0})(A),
            ValueError,
            "abstract value",
        ),
        (lambda: pl.pallas_call(copy, struct(V))(A), ValueError, "Invalid shape"),
        (lambda: pl.GridSpec(("a",)), ValueError, "Grid must be a tuple of integers"),
        (lambda: pl.GridSpec((("i", 4),)), NotImplementedError, "program_id"),
        (lambda: pl.BlockSpec(("a",)), ValueError, "Unsupported block dimension"),
        (lambda: pl.BlockSpec((0,)), ValueError, "at least 1"),
        (lambda: pl.BlockSpec((1,), memory_space="vmem"), NotImplementedError, "one memory"),
        (lambda: pl.BlockSpec((1,), pipeline_mode=2), NotImplementedError, "Leave it out"),
        (
            lambda: pl.pallas_call(copy, struct(A), compiler_params={"num_warps": 4}),
            NotImplementedError,
            "Leave them out",
        ),
        (
            lambda: pl.pallas_call(copy, struct(A), grid_spec=pl.GridSpec(1), grid=(1,)),
            ValueError,
            "must not be",
        ),
        (lambda: pl.program_id(0), ValueError, "inside of the kernel"),
        (
            lambda: pl.pallas_call(lambda o: pl.program_id(2), struct(V), grid=(2,))(),
            ValueError,
            "out of bounds for grid",
        ),
        (lambda: pl.run_scoped(copy, "semaphore"), TypeError, r"pl.ANY\(shape, dtype\)"),
    ],
)
def test_what_is_refused_says_what_to_do(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_slices_of_arrays_with_traced_starts():
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for start in (-1, 0, 1, 2, 5):
        found = ga.jit(lambda x, i: (x[ga.ds(i, 2)], x[:, ga.ds(i, 2)], x[1, ga.ds(i, 3)]))(
            x, start
        )
        rows = min(start % 3 if start < 0 else start, 1)
        columns = min(start % 4 if start < 0 else start, 2)
        np.testing.assert_array_equal(found[0], x[rows : rows + 2])
        np.testing.assert_array_equal(found[1], x[:, columns : columns + 2])
        inner = min(start % 4 if start < 0 else start, 1)
        np.testing.assert_array_equal(found[2], x[1, inner : inner + 3])
    assert ga.ds(1, 2) == pl.Slice(1, 2)
    assert ga.ds(None) == slice(None)
    with pytest.raises(TypeError, match="known while tracing"):
        ga.jit(lambda x, n: x[ga.ds(0, n)])(x, 2)
    with pytest.raises(TypeError, match="less than or equal to operand shape"):
        gnp.asarray(x)[ga.ds(0, 4)]
    with pytest.raises(ValueError, match="Out of bound slice"):
        ga.new_ref(gnp.asarray(x))[ga.ds(2, 2)]


def test_a_window_of_a_reference_is_moved_inside():
    ref = ga.new_ref(gnp.zeros((3, 4)))
    ga.jit(lambda i: ref.__setitem__(ga.ds(i, 2), gnp.ones((2, 4))))(5)
    assert np.asarray(ref[...])[:, 0].tolist() == [0, 1, 1]
    ga.jit(lambda i: ref.__setitem__(i, gnp.full(4, 7.0)))(9)
    assert np.asarray(ref[...])[:, 0].tolist() == [0, 1, 7]


# ---- drawn grids ----


def _drawn(seed):
    """A grid, specs of an input and an output as (shape, blocks, maps), and a kind of kernel."""
    rng = np.random.default_rng(seed)
    grid = tuple(rng.integers(1, 4, rng.integers(1, 4)).tolist())
    ndim = int(rng.integers(1, 3))

    def one(a, c, kind):
        maps = (lambda ids: c, lambda ids: ids[a], lambda ids: ids[a] + c)
        return (*maps, lambda ids: grid[a] - 1 - ids[a])[kind]

    def spec():
        shape = tuple(rng.integers(1, 8, ndim).tolist())
        blocks = [None if rng.random() < 0.2 else int(rng.integers(1, n + 1)) for n in shape]
        draws = [(rng.integers(len(grid)), int(rng.integers(3)), rng.integers(4)) for _ in shape]
        return shape, blocks, [one(*draw) for draw in draws]

    return grid, spec(), spec(), int(rng.integers(4))


def _interpreted(grid, given, made, kind, x):
    """The same on NumPy: one program after another, on arrays that are padded to whole blocks."""

    def padded(array, blocks):
        sizes = [1 if b is None else b for b in blocks]
        width = [(0, -n % b) for n, b in zip(array.shape, sizes, strict=True)]
        return np.pad(array, width, constant_values=np.nan), sizes

    def at(array, sizes, blocks, maps, ids):
        starts = [min(f(ids) * b, n - b) for f, b, n in zip(maps, sizes, array.shape, strict=True)]
        cut = [slice(s, s + b) for s, b in zip(starts, sizes, strict=True)]
        entries = [s if b is None else c for s, b, c in zip(starts, blocks, cut, strict=True)]
        return tuple(entries)

    x, x_sizes = padded(x, given[1])
    out, out_sizes = padded(np.full(made[0], np.nan, np.float32), made[1])
    scratch = np.float32(np.nan)
    for ids in np.ndindex(grid):
        total = np.nansum(x[at(x, x_sizes, given[1], given[2], ids)])
        total = total + sum((i + 1) * n for i, n in enumerate(ids)) * (kind != 2)
        where = at(out, out_sizes, made[1], made[2], ids)
        if kind == 0:
            out[where] = total
        elif kind == 1:
            out[where] = total if ids[-1] == 0 else out[where] + total
        elif kind == 2:
            scratch = total if ids[0] == 0 else scratch + total
            out[where] = scratch + sum(ids)
        else:
            out[where] = np.nan_to_num(out[where]) * 2 + total
    return out[tuple(slice(n) for n in made[0])]


@pytest.mark.parametrize("seed", range(40))
def test_drawn_grids(seed):
    grid, given, made, kind = _drawn(seed)

    def kernel(x_ref, out_ref, *scratch):
        ids = [pl.program_id(i) for i in range(len(grid))]
        total = gnp.nansum(x_ref[...])
        total = total + sum((i + 1) * n for i, n in enumerate(ids)) * (kind != 2)
        if kind == 0:
            out_ref[...] = gnp.full(out_ref.shape, total, "float32")
        elif kind == 1:

            @pl.when(ids[-1] == 0)
            def _():
                out_ref[...] = gnp.zeros(out_ref.shape)

            out_ref[...] += total
        elif kind == 2:
            (s,) = scratch

            @pl.when(ids[0] == 0)
            def _():
                s[...] = gnp.float32(0)

            s[...] += total
            out_ref[...] = gnp.full(out_ref.shape, s[...] + sum(ids), "float32")
        else:
            out_ref[...] = gnp.nan_to_num(out_ref[...]) * 2 + total

    specs = [
        pl.BlockSpec(blocks, lambda *ids, maps=maps: tuple(f(ids) for f in maps))
        for _, blocks, maps in (given, made)
    ]
    f = pl.pallas_call(
        kernel,
        SHAPE(made[0], np.float32),
        grid=grid,
        in_specs=[specs[0]],
        out_specs=specs[1],
        scratch_shapes=[pl.ANY((), np.float32)] if kind == 2 else (),
    )
    x = np.random.default_rng(seed).standard_normal(given[0]).astype(np.float32)
    np.testing.assert_allclose(f(x), _interpreted(grid, given, made, kind, x), 1e-4, 1e-4)


# ---- hints, checks and semaphores


def test_hints_change_nothing():
    block = pl.BlockSpec((2,), lambda i: (i,), pipeline_mode=pl.Buffered(2), memory_space=pl.HOST)
    assert block.replace(block_shape=(4,)).pipeline_mode == pl.Buffered(2)
    call = pl.pallas_call(
        lambda x, o: o.__setitem__(..., 2 * x[...]),
        struct(A),
        compiler_params=triton.CompilerParams(num_warps=4),
    )
    np.testing.assert_array_equal(call(A), 2 * A)
    assert triton.max_contiguous(A, (2, 4)) is A
    with pytest.raises(TypeError):
        triton.max_contiguous(A, 2.5)


def test_checks_are_switched_on():
    def kernel(x, o):
        pl.debug_check(x[...].sum() > 0, "a sum below zero")
        o[...] = x[...]

    call = lambda x: pl.pallas_call(kernel, struct(x))(x)
    bad = gnp.full(3, -1.0)
    np.testing.assert_array_equal(ga.jit(call)(bad), bad)
    with pl.enable_debug_checks(True), pytest.raises(checkify.JaxRuntimeError, match="below zero"):
        ga.block_until_ready(ga.jit(call)(bad))
    np.testing.assert_array_equal(call(bad), bad)


def test_semaphores_count_from_one_program_to_the_next():
    def kernel(o, sems):
        pl.semaphore_signal(sems.at[1], pl.program_id(0) + 1)

        @pl.when(pl.program_id(0) == 3)
        def _():
            pl.semaphore_wait(sems.at[1], 10, decrement=False)
            pl.semaphore_wait(sems.at[1], 4)

        o[pl.program_id(0)] = pl.semaphore_read(sems.at[1])

    scratch = [pl.ANY((2,), pl.semaphore)]
    call = pl.pallas_call(
        kernel, ga.ShapeDtypeStruct((4,), "int32"), grid=(4,), scratch_shapes=scratch
    )
    assert call().tolist() == [1, 3, 6, 6]


def test_a_wait_that_nobody_ends_is_an_error():
    def kernel(o, sem):
        pl.semaphore_wait(sem)
        o[...] = 1

    scratch = [pl.ANY((), pl.semaphore)]
    call = pl.pallas_call(kernel, ga.ShapeDtypeStruct((), "int32"), scratch_shapes=scratch)
    with pytest.raises(checkify.JaxRuntimeError, match="waits for 1, the semaphore is at 0"):
        ga.block_until_ready(call())
    with pytest.raises(NotImplementedError, match="one kernel on one device"):
        pl.run_scoped(lambda s: pl.semaphore_signal(s, device_id=1), scratch[0])
    with pytest.raises(ValueError, match="a semaphore is a reference"):
        pl.run_scoped(pl.semaphore_read, pl.ANY((2,), pl.semaphore))


def test_costs_by_hand():
    x = ga.ShapeDtypeStruct((4, 6), "float32")
    f = ga.jit(lambda x, y: gnp.exp(x @ y) * 2 + lax.integer_pow(x, 5) @ y)
    cost = pl.estimate_cost(f, x, ga.ShapeDtypeStruct((6, 4), "float32"))
    # Two products of 4 x 6 x 4, a product and a sum of 16, and x^5 by two squares and two products.
    assert cost.flops == 2 * (2 * 4 * 6 * 4) + 2 * 16 + 4 * 24
    assert (cost.transcendentals, cost.bytes_accessed) == (16, 4 * (24 + 24 + 16))
