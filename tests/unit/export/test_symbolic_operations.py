"""Operations that take symbolic lengths: the same as without `export`, for any length."""

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import export, image, lax, random
from gpuarray.errors import InconclusiveDimensionOperation
from gpuarray.scipy import linalg

KEY = random.key(0)
ROW = gnp.arange(6, dtype=np.float32) + 1
MATRIX = gnp.arange(12, dtype=np.float32).reshape(3, 4)


def same(f, *args, spec, constraints=()):
    """Compare a program exported for symbols with the function; both give arrays alike."""
    specs = export.symbolic_args_specs(args, spec, constraints=constraints)
    found = ga.tree.leaves(export.export(ga.jit(f))(*specs).call(*args))
    wanted = [gnp.asarray(x) for x in ga.tree.leaves(f(*args))]
    for x, want in zip(found, wanted, strict=True):
        assert (x.shape, x.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(x, want, 1e-5, 1e-6)


# ---- slices ----

#: Starts and stops of slices, for a length n of another axis.
SLICES = [
    lambda n: (None, None),
    lambda n: (-2, -n),
    lambda n: (n, None),
    lambda n: (None, -n),
    lambda n: (4, n),
    lambda n: (-n, 2 * n + 2),
    lambda n: (-2 * n - 2, 4),
    lambda n: (n, -2),
]


@pytest.mark.parametrize("step", [None, 2, -1, -2, "n", "-n"])
def test_slices_with_any_ends(step):
    # Of an axis of length c with ends that depend on another one: many slices in one program.
    def f(x, other):
        n = other.shape[0]
        by = {"n": n, "-n": -n}.get(step, step) if isinstance(step, str) else step
        return [x[slice(*ends(n), by)] for ends in SLICES]

    specs = export.symbolic_args_specs((ROW, ROW), ("c", "n"))
    program = export.export(ga.jit(f))(*specs)
    for length, other in ((5, 2), (1, 1), (3, 4)):
        x, y = np.arange(length, dtype=np.float32), np.zeros(other, np.float32)
        for found, want in zip(program.call(x, y), f(x, y), strict=True):
            assert found.tolist() == want.tolist()


def test_single_elements():
    same(lambda x: (x[1], x[-1], x[x.shape[0] - 1], x[-x.shape[0]]), ROW, spec="b")
    same(lambda x, y: (x[y.shape[0]], x[None, y.shape[0] - 1 :]), ROW, ROW[:3], spec=("b", "c"))
    same(lambda x: x.at[1].set(9.0).at[-1].add(1.0).at[::-2].mul(2.0), ROW, spec="b")
    same(lambda x: lax.index_in_dim(x, -1), ROW, spec="b")
    same(lambda x: lax.dynamic_slice(x, (0, 1), (x.shape[0], 2)), MATRIX, spec="b, _")
    same(lambda x: lax.dynamic_update_slice(x, x * 2, (-1, 0)), MATRIX, spec="b, _")
    same(lambda x: lax.slice(x, (0,), (x.shape[0] // 2,)), ROW, spec="b")


# ---- lengths as numbers ----


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "mod", "floordiv", "truediv", "pow"])
def test_arithmetic_of_lengths_and_arrays(name, swap):
    operation = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "mod": lambda a, b: a % b,
        "floordiv": lambda a, b: a // b,
        "truediv": lambda a, b: a / b,
        "pow": lambda a, b: a**b,
    }[name]
    others = [
        2,
        2.5,
        np.int32(2),
        np.float32(2.5),
        np.array(2),
        np.arange(1, 4),
        gnp.arange(1.0, 4),
    ]
    if name == "pow":  # a length to a power is a length, if the power is an int
        others = [2] if not swap else [2, 2.5, gnp.arange(1.0, 4)]

    def f(x):
        n = 2 * x.shape[0]
        found = [operation(o, n) if swap else operation(n, o) for o in others]
        return [gnp.asarray(y, gnp.result_type(y)) + 0 for y in found]

    spec = export.symbolic_args_specs((ROW,), "b")
    program = export.export(ga.jit(f))(*spec)
    for found, other in zip(program.call(ROW), others, strict=True):
        n = 12 if not isinstance(other, float) else 12.0
        want = operation(other, n) if swap else operation(n, other)
        np.testing.assert_allclose(found, np.asarray(want), 1e-6)


def test_lengths_as_arguments_of_jit():
    same(lambda x: ga.jit(lambda n, y: y * n)(x.shape[0], x), ROW, spec="b")
    same(lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], 0.0), ROW, spec="b")
    same(lambda x: gnp.clip(x, 0, x.shape[0] - 1), ROW, spec="b")


# ---- operations ----

RANGES = {
    "down": lambda n: gnp.arange(n, 0, -1),
    "by two": lambda n: gnp.arange(0, n - 2, 2),
    "two down": lambda n: gnp.arange(5 * n + 2, 0, -2),
    "by n": lambda n: gnp.arange(0, 10, n),
    "by -n": lambda n: gnp.arange(n, 1, -n),
    "empty": lambda n: gnp.arange(n, 0),
    "linspace": lambda n: gnp.linspace(0, 10, n),
    "to n": lambda n: gnp.linspace(0, n, 4),
    "open": lambda n: gnp.linspace(1, 2, n, endpoint=False),
    "eye": lambda n: gnp.eye(n, 4, 1),
    "shape": lambda n: lax.shape_as_value((n, 4, 2 * n + 1)),
    "lower": lambda n: gnp.tril_indices(n, -1),
    "upper": lambda n: gnp.triu_indices(n, 2, n + 1),
    "one hot": lambda n: ga.nn.one_hot(gnp.arange(4), n),
    "permutation": lambda n: random.permutation(KEY, n),
    "choice": lambda n: random.choice(KEY, n, (2, n)),
}


@pytest.mark.parametrize("name", RANGES)
def test_arrays_made_of_lengths(name):
    f = lambda x: RANGES[name](x.shape[0])
    spec = export.symbolic_args_specs((ROW,), "b")
    program = export.export(ga.jit(f))(*spec)
    for n in (1, 2, 3, 6):
        x = np.ones(n, np.float32)
        for found, want in zip(ga.tree.leaves(program.call(x)), ga.tree.leaves(f(x)), strict=True):
            assert found.dtype == want.dtype
            np.testing.assert_allclose(found, want, 1e-6)


PADS = ["constant", "edge", "linear_ramp", "maximum", "mean", "reflect", "symmetric", "wrap"]


@pytest.mark.parametrize("mode", PADS)
def test_pads(mode):
    f = lambda x: gnp.pad(x, [[x.shape[0] - 1, 0], [x.shape[1], 1]], mode=mode)
    spec = export.symbolic_args_specs((MATRIX,), "b, c")
    program = export.export(ga.jit(f))(*spec)
    for shape in ((3, 4), (2, 1), (5, 2)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        widths = [[shape[0] - 1, 0], [shape[1], 1]]
        np.testing.assert_allclose(program.call(x), np.pad(x, widths, mode=mode), 1e-6)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_odd_pads(mode):
    options = {"mode": mode, "reflect_type": "odd"}
    f = lambda x: gnp.pad(x, [[x.shape[0] - 1, 0], [x.shape[1], 1]], **options)
    spec = export.symbolic_args_specs((MATRIX,), "b, c", constraints=["c >= 2"])
    program = export.export(ga.jit(f))(*spec)
    for shape in ((3, 4), (1, 2), (5, 3)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) ** 2
        widths = [[shape[0] - 1, 0], [shape[1], 1]]
        np.testing.assert_allclose(program.call(x), np.pad(x, widths, **options), 1e-6)
    # How often an array of unknown length is mirrored is unknown, unless a constraint says it.
    specs = export.symbolic_args_specs((ROW,), "b")
    with pytest.raises(InconclusiveDimensionOperation, match="Say what holds in constraints"):
        export.export(ga.jit(lambda x: gnp.pad(gnp.ones(4), x.shape[0], **options)))(*specs)


OPERATIONS = {
    "toeplitz": (lambda x: (linalg.toeplitz(x), linalg.hankel(x)), ROW, "b"),
    "matrices of a size": (
        lambda x: (linalg.hilbert(x.shape[0]), linalg.companion(x)),
        ROW,
        "b + 1",
    ),
    "polyval": (lambda x: gnp.polyval(x, gnp.arange(3.0)), ROW, "b"),
    "unravel": (lambda x: gnp.unravel_index(gnp.arange(5), x.shape), MATRIX, "b, c"),
    "split": (lambda x: gnp.split(x, 2), ROW, "2*b"),
    "roll": (lambda x: (gnp.roll(x, 2), gnp.roll(x, -x.shape[0] // 4)), ROW, "b"),
    "repeat": (lambda x: gnp.repeat(x, x.shape[0]), ROW, "b"),
    "tile": (lambda x: gnp.tile(x, (x.shape[0], 2)), ROW, "b"),
    "quantile": (lambda x: (gnp.nanquantile(x, 0.3), gnp.median(x)), ROW, "b"),
    "trace": (lambda x: (gnp.trace(x), gnp.diagonal(x, -1)), MATRIX, "b, c"),
    "interp": (lambda x: gnp.interp(gnp.ones(3) * 2.5, x, x * x), ROW, "b"),
    "unique": (lambda x: gnp.unique(x, size=x.shape[0]), ROW, "b"),
    "nonzero": (lambda x: gnp.nonzero(x > 2, size=x.size), MATRIX, "b, c"),
    "fft": (lambda x: abs(gnp.fft.fft(x)) + gnp.fft.irfft(gnp.fft.rfft(x), x.size), ROW, "b"),
    "einsum": (lambda x: gnp.einsum("ab,cb,cd->ad", x, x, x), MATRIX, "b, c"),
    "resize": (lambda x: image.resize(x, (2 * x.shape[0], 3), "linear"), MATRIX, "b, c"),
    "nearest": (lambda x: image.resize(x, (2 * x.shape[0], 3), "nearest"), MATRIX, "b, c"),
    "top_k": (lambda x: lax.top_k(x, x.shape[0] - 1), ROW, "b"),
    "segments": (
        lambda x: ga.ops.segment_sum(
            x, gnp.arange(x.shape[0]) // 2, num_segments=x.shape[0], bucket_size=4
        ),
        ROW,
        "b",
    ),
    "window": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (x.shape[0],), (1,), "SAME"),
        ROW,
        "b",
    ),
    "pool": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (2,), "VALID"), ROW, "b"),
    "factors": (lambda x: gnp.linalg.svd(x, full_matrices=False)[1], MATRIX, "b, c"),
    "cov": (gnp.cov, MATRIX, "b, c"),
    "shuffle": (lambda x: random.permutation(KEY, x), ROW, "b"),
    "sample": (lambda x: random.choice(KEY, x, (x.shape[0],), replace=False), ROW, "b"),
    "gradient of slices": (
        ga.grad(lambda x: (x[1:] * x[:-1]).sum() + (x[::-1] * x).sum()),
        ROW,
        "b",
    ),
    "gradient of sort": (ga.grad(lambda x: (gnp.sort(x) * x).sum()), ROW, "b"),
    "hessian": (ga.hessian(lambda x: (x[1:] ** 3).sum()), ROW, "b"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    f, x, spec = OPERATIONS[name]
    same(f, x, spec=spec)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_convolutions(padding):
    kernel = gnp.arange(45, dtype=np.float32).reshape(5, 3, 3)
    x = gnp.arange(24, dtype=np.float32).reshape(1, 3, 8)
    f = lambda x, k: lax.conv_general_dilated(x, k, (2,), padding)
    same(f, x, kernel, spec=("1, 3, b", None))
    same(ga.grad(lambda x, k: (f(x, k) ** 2).sum()), x, kernel, spec=("1, 3, b", None))


def test_a_permutation_of_any_length_takes_as_many_rounds():
    # From 1626 on a second round makes up for ties.
    program = export.export(ga.jit(lambda x: random.permutation(KEY, x)))(
        *export.symbolic_args_specs((ROW,), "b")
    )
    for n in (1, 1625, 1626):
        x = np.arange(n, dtype=np.float32)
        assert program.call(x).tolist() == random.permutation(KEY, x).tolist()


def test_equal_lengths_by_constraints():
    same(
        lambda x, y: x[: y.shape[0]] + y[2:],
        gnp.ones(6),
        gnp.ones(8),
        spec=("a", "b"),
        constraints=["b >= 2", "min(a, b) == b - 2"],
    )
    even = lambda x: gnp.concatenate([x, gnp.zeros(x.shape[0] % 2)]).reshape(2, -1) + 1
    same(even, gnp.ones(5), spec="a", constraints=["mod(a + mod(a, 2), -2) == 0"])
    specs = export.symbolic_args_specs((np.ones(4), np.ones(4)), ("2*a", "2*b"), ["a == b"])
    program = export.export(ga.jit(lambda x, y: x + y))(*specs)
    assert program.in_avals[0] == program.in_avals[1]
    assert export.deserialize(program.serialize()).call(np.ones(2), np.ones(2)).sum() == 4
    with pytest.raises(ValueError, match="inconsistency"):
        program.call(np.ones(2), np.ones(4))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda n: gnp.arange(0.0, n), "dimension expressions or integers"),
        (lambda n: gnp.arange(0, n, 0.5), "dimension expressions or integers"),
        (lambda n: gnp.arange(0, n, 0), "step == 0"),
        (lambda n: gnp.arange(0, n, n - 2), "resolved statically if it is > 0 or < 0"),
        (lambda n: gnp.squeeze(gnp.ones((n, 1))), "axis=None is not supported"),
        (lambda n: gnp.split(gnp.ones(n), n), "symbolic number of sections"),
        (lambda n: gnp.repeat(gnp.ones(3), n, total_repeat_length=4), "non-constant `repeats`"),
    ],
)
def test_what_cannot_be_for_all_lengths(f, message):
    specs = export.symbolic_args_specs((ROW,), "b")
    errors = (ValueError, NotImplementedError, InconclusiveDimensionOperation)
    with pytest.raises(errors, match=message):
        export.export(ga.jit(lambda x: f(x.shape[0])))(*specs)


def test_errors_name_what_was_obtained():
    spec = ga.ShapeDtypeStruct(export.symbolic_shape("a + 2*b, a, a + b + c"), np.float32)
    program = export.export(ga.jit(lambda x: x))(spec)
    assert program.call(np.ones((8, 2, 9), np.float32)).shape == (8, 2, 9)
    obtained = "Obtained dimension variables: 'a' = 2 from specification 'a' for dimension "
    for shape, text in (
        ((3, 2, 6), rf"remainder 1 when computing the value of 'b'\..*{obtained}"),
        ((2, 2, 6), rf"value >= 1 for dimension variable 'b'\..*{obtained}"),
    ):
        with pytest.raises(ValueError, match=text):
            program.call(np.ones(shape, np.float32))
    with pytest.raises(ValueError, match="parsed 3 already and 'like' shape has only 2 dimensions"):
        export.symbolic_shape("b, 7, c, ...", like=(4, 7))


def test_rolls_by_parts_of_a_length():
    same(lambda x: (gnp.fft.fftshift(x), gnp.fft.ifftshift(x)), ROW, spec="b")
    same(gnp.fft.fftshift, MATRIX, spec="a, b")
    same(lambda x: gnp.roll(x, (x.shape[0] // 2, 1), (0, 1)), MATRIX, spec="a, b")


def test_elements_put_in_and_bits_put_together():
    same(lambda x: (gnp.insert(x, 1, 5.0), gnp.insert(x, -1, 5.0)), ROW, spec="b")
    same(lambda x: gnp.insert(x, gnp.array([0, 2, 2]), gnp.arange(3.0)), ROW, spec="b")
    for length in (6, 8, 17):
        same(lambda x: gnp.packbits(x > 2), gnp.arange(length), spec="b")
