"""Statistics, histograms, polynomials, windows and set operations of the NumPy namespace."""

# fmt: off

# fmt: off

from .dsl import NUMBERS, calls, over

SECTION = "numpy"

WINDOW = ["0", "1", "2", "7", "8"]
SETS = [
    *over("f32 i32 u8 b1", "D(6), D(5, s=1)"), "i32(2, 3), i32(4)", "i32(5), f32(4)",
    "i32(6), i32(5, s=1), size=4, fill_value=-1", "i32(6), i32(5, s=1), size=8", "f32(0), f32(2)",
    "f32([1, np.nan]), f32([np.nan])", "2, 3", "[1, 2], [2]",
]
UNIQUE = [
    *over("f32 i32 u8 b1 c64", "D(7)"), "i32(2, 3)", "f32([np.nan, 1, np.nan])", "i32(6), size=4",
    "i32(6), size=8, fill_value=-1", "f32(0)", "f32()", "[1, 1]",
]
HISTOGRAM = [
    *over("f32 bf16 i32 u8", "D(9)"), "f32(9), 4", "f32(9), 4, (-1, 2)",
    "f32(9), f32([-2, 0, 1, 3])", "f32(9), 3, weights=f32(9, s=1)", "f32(2, 3), 3",
    "f32([1, 1, 1]), 4", "f32(9), 'auto'", "f32(9), 0", "f32(0)", "[1.0, 2.0]",
]
POLY = [
    *over("f32 i32 c64", "D(3), D(4)"), "f32(3), i32(2)", "f32(1), f32(1)", "f32(2, 2), f32(2)",
    "2, f32(2)", "[1.0], [2.0]",
]

TABLE = [
    ("cov", [
        *over("f32 bf16 i32 c64", "D(3, 5)"), "f32(5)", "f32(5), f32(5, s=1)",
        "f32(5, 3), rowvar=False", "f32(3, 5), bias=True", "f32(3, 5), ddof=2",
        "f32(3, 5), fweights=i32(5, kind='pos')", "f32(3, 5), aweights=f32(5, kind='pos')",
        "f32(3, 5), fweights=f32(5)", "f32(2, 2, 2)", "f32(3, 1)", "f32(3, 5), dtype='bfloat16'",
        "[1.0]",
    ]),
    ("corrcoef", [
        "f32(3, 5)", "f32(5), f32(5, s=1)", "f32(5, 3), rowvar=False", "c64(2, 4)", "i32(2, 4)",
        "f32(5)",
    ]),
    (
        "histogram",
        [*HISTOGRAM, "f32(9), density=True", "f32(9), 3, density=True, weights=f32(9, kind='pos')"],
    ),
    ("histogram_bin_edges", [*HISTOGRAM, "i32(5), 3, range=(0, 6)"]),
    ("histogram2d", [
        "f32(8), f32(8, s=1), 3", "f32(8), f32(8, s=1), [2, 3]",
        "f32(8), f32(8, s=1), [f32([-2, 0, 2]), 3]", "f32(8), f32(7)",
    ]),
    ("histogram2d", [
        "f32(8), f32(8, s=1), 2, density=True", "f32(8), f32(8, s=1), 2, range=[(-1, 1), None]",
        "f32(8), f32(8, s=1), 2, weights=f32(8)",
    ]),
    ("histogramdd", [
        "f32(8, 2), 3", "f32(8, 3), (2, 1, 2)", "f32(8, 2), 2, density=True", "f32(8), 3",
        "f32(8, 2), [2]",
    ]),
    ("bincount", [
        "i32(7, kind='index')", "i32(7, kind='index'), length=3",
        "i32(7, kind='index'), minlength=9", "u8(5)", "b1(5)", "f32(5)",
    ]),
    ("bincount", [
        "i32(7, kind='index'), weights=f32(7)", "i32(7, kind='index'), weights=i32(7), length=6",
        "i32(0)", "i32(2, 2)", "i32([-1, 2])", "[1, 2]",
    ]),
    ("poly", [*over("f32 i32 c64", "D(3)"), "f32(3, 3)", "f32(0)", "[1.0, 2.0]", "2.0"]),
    ("polyadd polysub", POLY),
    ("polymul", [*POLY, "f32([0, 0, 1, 2]), f32(2), trim_leading_zeros=True"]),
    ("polydiv", [
        "f32(4), f32(2)", "f32(2), f32(3)", "i32(4), i32(2)",
        "f32([0, 1, 2, 3]), f32([0, 1]), trim_leading_zeros=True", "c64(3), c64(2)", "[1.0], [2.0]",
        "f32(3), 2.0", "f32(0), f32(2)", "i32([1, -3, 2]), f32([1, -1])", "bf16(4), bf16(2)",
        "f32(3), f32([0.0])",
    ]),
    ("polyder polyint", [
        "f32(4)", "i32(4)", "f32(4), 2", "f32(4), m=0", "c64(3)", "f32(4), -1", "f32(1)",
        "[1.0, 2.0]",
    ]),
    ("polyint", ["f32(3), 2, k=f32(2)", "f32(3), k=1.5", "f32(3), 2, k=[1, 2, 3]"]),
    ("polyval", [
        *over(NUMBERS, "D(4), D(3)"), "f32(4), 2.0", "f32(4), i32(3)", "f32(4), f32(2, 3)",
        "f32(3), f32(2), unroll=1", "f32(0), f32(2)", "[1], 2",
    ]),
    ("polyfit", [
        "f32(6), f32(6, s=1), 2", "f32(6), f32(6, 2), 1", "f32(6), f32(6, s=1), 1, full=True",
        "f32(6), f32(6, s=1), 1, cov=True",
    ]),
    ("polyfit", [
        "f32(6), f32(6, s=1), 1, w=f32(6, kind='pos')", "i32([0, 1, 2, 3]), i32(4), 1",
        "f32(6), f32(5), 1", "f32(6), f32(6), -1",
    ]),
    ("roots", [
        "f32([1, -3, 2])", "f32([0, 1, -3, 2, 0])", "i32([1, 0, -1])", "f32([2])", "f32([1, 0, 1])",
        "f32([1, -3, 2]), strip_zeros=False", "f32(2, 2)", "f32([0, 0])",
    ]),
    ("vander", [
        *over(NUMBERS, "D(3)"), "f32(3), 5", "f32(3), N=2, increasing=True", "f32(2, 2)",
        "f32(3), 0", "f32(3), -1", "[1.0]",
    ]),
    ("bartlett blackman hamming hanning", WINDOW),
    ("kaiser", ["7, 2.0", "8, 14", "1, 2.0", "0, 2.0", "5, f32()", "5, i32()"]),
    ("intersect1d", [
        *SETS, "i32(6), i32(5, s=1), return_indices=True",
        "i32([1, 2]), i32([2, 3]), assume_unique=True",
    ]),
    ("union1d", SETS),
    ("setdiff1d", [*SETS, "i32([3, 1, 2]), i32([2]), assume_unique=True"]),
    ("setxor1d", [*SETS, "i32([3, 1, 2]), i32([2, 4]), assume_unique=True"]),
    ("unique", [
        *UNIQUE, "i32(7), True, True, True", "i32(3, 2), axis=0",
        "i32(2, 4), axis=1, return_inverse=True", "f32([np.nan, np.nan]), equal_nan=False",
    ]),
    ("unique", [
        "i32(2, 3), return_inverse=True", "i32(6), return_counts=True, size=8",
        "i32(6), return_index=True, size=3", "i32(3, 2), axis=2", "i32(6), sorted=False",
    ]),
    ("unique_all unique_counts unique_inverse unique_values", UNIQUE),
]

CASES = calls(SECTION, "jnp.", TABLE)
