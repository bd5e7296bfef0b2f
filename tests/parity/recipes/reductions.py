"""Reductions, scans along an axis, sorting and searching of the NumPy namespace."""

# fmt: off

from .dsl import ALL, MOST, NUMBERS, calls, over

SECTION = "numpy"

AXES = [
    "f32(2, 3), axis=0", "f32(2, 3), axis=-1, keepdims=True", "f32(2, 3), (0, 1)",
    "f32(2, 3, 2), axis=(0, -1)", "f32(2, 3), axis=()", "f32(2, 3), keepdims=True",
    "f32(2, 3), axis=2", "f32(2, 3), axis=(0, 0)", "f32(2, 3), axis=1.5", "f32(0, 3), axis=1",
    "f32(0, 3), axis=0", "f32(0)", "2.5", "3", "True", "[1.0, 2.0]", "None", "sp('f32')",
    "f32(2, 6, kind='nan'), axis=1",
]
WHERE = [
    "f32(2, 3), where=b1(2, 3)", "f32(2, 3), axis=0, where=b1(3)", "f32(2, 3), where=f32(2, 3)",
]
INITIAL = [
    "f32(2, 3), where=b1(2, 3), initial=1", "f32(2, 3), axis=1, initial=2.5", "i32(3), initial=2.5",
    "f32(0), initial=3",
]
DTYPE = [
    "f32(2, 3), dtype='int32'", "i32(2, 3), dtype=jnp.float32", "b1(5), dtype='int8'",
    "f32(2, 3), dtype='bfloat16'", "f32(3), dtype='complex64'", "i32(3), dtype='float64'",
    "f32(3), dtype='nonsense'",
]
EACH = over(MOST, "D(2, 3)")
OUT = ["f32(3), out=f32()"]
ARG = [
    *over(ALL, "D(7)"), "f32(2, 3), axis=0", "f32(2, 3), axis=-1, keepdims=True", "f32(2, 3), 2",
    "f32(2, 3), keepdims=True", "f32(0)", "f32(0, 3), axis=1", "f32(0, 3), axis=0",
    "f32(2, 6, kind='nan'), axis=1", "i32([3, 1, 3, 1])", "sp('f32')", "sp('i32')",
    "f32([np.nan, 1, np.nan])", "2", "[1, 2]", "f32(3), axis=(0,)",
]
CUM = [
    "f32()", "f32(), axis=0",
    *over(ALL, "D(5)"), "f32(2, 3)", "f32(2, 3), axis=0", "f32(2, 3), axis=-1", "f32(2, 3), axis=2",
    "f32(0)", "f32()", "3", "i32(3), dtype='float32'", "b1(4), dtype='int8'", "f32(6, kind='nan')",
    "u8(8), dtype='uint8'", "[1, 2]",
]
QUANTILE = [
    *over("f32 bf16 i32", "D(7), 0.3"), "f32(2, 3), 0.5, axis=0",
    "f32(2, 3), 0.5, axis=1, keepdims=True", "f32(2, 3), f32([0.1, 0.9]), axis=1",
    "f32(2, 3), f32([0.1, 0.9]), axis=(0, 1)",
    *[
        f"f32(6), 0.35, method='{m}'"
        for m in "linear lower higher midpoint nearest inverted_cdf".split()
    ],
    *[
        f"f32(6), 0.35, method='{m}'"
        for m in "hazen weibull median_unbiased normal_unbiased".split()
    ],
    *[f"f32(6), 0.35, method='{m}'" for m in "averaged_inverted_cdf closest_observation".split()],
    "f32(6), 0.35, method='interpolated_inverted_cdf'", "f32(6), 0.5, method='cubic'",
    "f32(6), 1.5", "f32(6), -0.5", "f32(6, kind='nan'), 0.5", "c64(3), 0.5",
    "f32(6), 0.5, weights=f32(6, kind='pos'), method='inverted_cdf'",
    "f32(6), 0.5, weights=f32(6, kind='pos')", "[1.0, 2.0], 0.5", "f32(4), 1", "b1(4), 0.5",
]
MEDIAN = [
    *over("f32 bf16 i32 u8 b1 c64", "D(7)"), "f32(2, 4), axis=0",
    "f32(2, 4), axis=-1, keepdims=True", "f32(2, 4), axis=(0, 1)", "f32(6, kind='nan')",
    "f32(2, 6, kind='nan'), axis=0", "f32(0)", "f32()", "[1.0]",
]

TABLE = [
    ("sum prod", EACH + AXES + WHERE + INITIAL + DTYPE + OUT),
    ("sum prod", [
        "i8(4), promote_integers=False", "u8(4), promote_integers=False",
        "b1(4), promote_integers=False",
    ]),
    ("max min", EACH + AXES + WHERE + INITIAL + OUT),
    ("amax amin", [
        "f32(2, 3)", "i32(2, 3), axis=0", "f32(0)", "f32(2, 3), axis=-1, keepdims=True",
        "f32(2, 3, kind='nan'), 1", "f32(2, 3), where=b1(2, 3), initial=-9.0",
        "f32(2, 3), where=b1(2, 3)", "[1.0, 2.0]", "c64(3)",
    ]),
    ("all any", EACH + AXES + WHERE + OUT),
    ("mean", EACH + AXES + WHERE + DTYPE),
    ("var std", EACH + AXES + WHERE + DTYPE),
    ("var std", [
        "f32(2, 3), ddof=1", "f32(2, 3), axis=1, correction=1", "f32(5), mean=0.5",
        "f32(1), ddof=1",
    ]),
    ("var std", [
        "f32(3), ddof=1, correction=1", "i32(5), ddof=2",
        "f32(2, 3), axis=0, ddof=1, where=b1(2, 3)",
    ]),
    ("ptp", EACH + AXES[:20]),
    ("count_nonzero", EACH + AXES),
    ("nansum nanprod", over(MOST, "D(2, 3, kind='nan')") + AXES + WHERE + INITIAL[:2] + DTYPE[:3]),
    ("nanmax nanmin", over(MOST, "D(2, 3, kind='nan')") + AXES + INITIAL),
    ("nanmean nanvar nanstd", over(NUMBERS, "D(2, 3, kind='nan')") + AXES + WHERE),
    ("nanmedian", [r.replace("D(7)", "D(7, kind='nan')") for r in MEDIAN]),
    ("median", MEDIAN),
    ("quantile", QUANTILE),
    (
        "nanquantile",
        QUANTILE[:8] + ["f32(6, kind='nan'), 0.4", "f32(2, 6, kind='nan'), 0.4, axis=1"],
    ),
    ("percentile", [
        "f32(7), 30", "f32(7), f32([10, 90])", "i32(7), 50",
        "f32(2, 3), 25, axis=0, method='lower'", "f32(2, 3), f32([0, 100]), axis=-1, keepdims=True",
        "f32([1, np.nan, 2]), 50", "f32([1, np.inf, 2]), 60", "f32(5), 101", "f32(5), -1.0",
        "f32(2, 3), 50, axis=2", "b1(3), 50", "[1.0], 50",
        "f32(5), 30, weights=f32(5, kind='pos'), method='inverted_cdf'",
        "f32(5), 30, weights=f32(5, kind='pos')", "f32(3), f32(2, 2, kind='prob')",
    ]),
    ("nanpercentile", [
        "f32(7, kind='nan'), 30", "f32(2, 6, kind='nan'), 25, axis=1", "i32(7), 50",
        "f32(5, kind='nan'), f32([10, 90]), keepdims=True", "f32([np.nan, np.nan]), 50",
        "f32(5, kind='nan'), 50, method='nearest'", "f32(2, 3, kind='nan'), f32([0, 100]), axis=-2",
        "f32(0), 50", "f32(3), 110", "bf16(5), 50", "c64(3), 50", "[1.0], 50",
        "f32(2, 3, kind='nan'), 50, axis=(0, 1)",
        "f32(4, kind='nan'), 50, weights=f32(4, kind='pos'), method='inverted_cdf'",
    ]),
    ("average", [
        *over(NUMBERS, "D(2, 3)"), "f32(2, 3), axis=0", "f32(2, 3), weights=f32(2, 3, kind='pos')",
        "f32(2, 3), axis=1, weights=f32(3, kind='pos')",
        "f32(2, 3), axis=1, weights=f32(3, kind='pos'), returned=True",
        "f32(2, 3), axis=1, weights=f32(2, kind='pos')", "f32(2, 3), weights=f32(3)",
        "i32(4), weights=i32(4, kind='pos'), returned=True", "f32(2, 3), axis=0, keepdims=True",
        "[1.0]",
    ]),
    ("argmax argmin", ARG),
    ("nanargmax nanargmin", ARG),
    ("cumsum cumprod", CUM),
    ("nancumsum nancumprod", CUM),
    (
        "cumulative_sum cumulative_prod",
        over(NUMBERS, "D(5)") + ["f32(2, 3), axis=1", "f32(2, 3)", "f32()"],
    ),
    (
        "cumulative_sum cumulative_prod",
        ["f32(3), include_initial=True", "i32(2, 3), axis=0, include_initial=True"],
    ),
    ("sort", [
        *over(ALL, "D(7)"), "f32(2, 3), axis=0", "f32(2, 3), axis=None",
        "f32(2, 3), descending=True", "f32(6, kind='nan')", "f32(6, kind='nan'), descending=True",
        "sp('f32')", "sp('bf16')", "sp('c64')", "f32(), axis=None", "f32()", "f32(0)",
        "f32(3), axis=1", "f32(3), kind='quicksort'", "f32(3), stable=False", "[2, 1]",
    ]),
    ("argsort", [
        *over(ALL, "D(7)"), "f32(2, 3), axis=0", "f32(2, 3), axis=None", "i32([2, 1, 2, 1, 0])",
        "i32([2, 1, 2, 1, 0]), descending=True", "f32(6, kind='nan')",
        "f32(6, kind='nan'), descending=True", "sp('f32')", "f32()", "f32(0)", "f32(3), axis=1",
        "[2, 1]",
    ]),
    ("sort_complex", [
        "c64(5)", "f32(5)", "i32(3)", "c64([1j, 1 - 1j, 0])", "c64([[2, 1], [1j, 0]])", "bf16(3)",
        "b1(3)", "[1j]", "c64(0)", "u8(3)", "f32([np.nan, 1, -np.inf])", "f32()",
    ]),
    ("partition", ["i32(7), 2", "f32(2, 5), 1, axis=0", "f32(7), -1", "f32(7), 7", "[1, 2], 0"]),
    ("argpartition", [
        "i32([5, 3, 1, 4]), 0", "f32(2, 3), 1, axis=1", "f32(7), 7", "f32([3, 1, 2]), -1",
        "f32([np.nan, 1, -np.inf, 2]), 2", "b1(4), 1", "c64(3), 1", "f32(0), 0", "[1.0], 0",
        "i32([[5, 3], [1, 4]]), 0, axis=None", "f32(3), 1.0", "u8([3, 3, 1]), -4",
    ]),
    ("lexsort", [
        "(i32(6), f32(6))", "i32(2, 5)", "[i32([1, 1, 0]), i32([2, 1, 3])]", "i32(2, 3), axis=0",
        "[]",
    ]),
    ("searchsorted", [
        *over("f32 bf16 i32 u8", "jnp.sort(D(6)), D(4, s=1)"),
        "f32([1, 2, 2, 3]), f32([2, 2.5, 0, 9])",
        "f32([1, 2, 2, 3]), f32([2, 2.5, 0, 9]), side='right'", "f32([1, 2, 2, 3]), 2",
        "f32([1, 2, np.nan]), f32([np.nan, 2])", "f32([3, 1, 2]), f32([2]), sorter=i32([1, 2, 0])",
        *[
            f"f32([1, 2, 2, 3]), f32([2, 2.5]), method='{m}'"
            for m in "scan scan_unrolled sort compare_all".split()
        ],
        "f32([1, 2]), f32(2, 3), side='middle'", "f32(2, 2), f32(2)", "i32([1, 2, 3]), 2.5",
        "f32(0), f32(2)", "[1], [2]",
    ]),
    ("digitize", [
        "f32(5), f32([-1, 0, 1])", "f32(5), f32([1, 0, -1])", "i32(5), i32([0, 1]), right=True",
        "f32(3), f32(2, 2)",
    ]),
    ("digitize", ["f32(3), f32([1, 0, 1]), method='sort'", "2.0, f32([1, 2])"]),
    ("nonzero", [
        *over("f32 i32 b1 c64", "D(5)"), "b1(2, 3)", "f32(2, 3), size=4",
        "i32(5), size=2, fill_value=-1", "b1(2, 3), size=8, fill_value=(9, 8)", "f32()", "f32(0)",
        "[1]",
    ]),
    ("flatnonzero", [
        "i32(2, 3)", "b1(5), size=4, fill_value=7", "f32(0)", "f32()", "[0, 1, 2]",
        "f32([np.nan, 0, -0.0, 1])", "2", "c64([0, 1j]), size=1", "b1(5), size=7, fill_value=-1",
    ]),
    ("argwhere", ["i32(2, 3)", "b1(5), size=4, fill_value=7", "f32(0)", "f32()", "b1(2, 2, 2)"]),
    ("diff", [
        *over(NUMBERS + " b1", "D(5)"), "f32(2, 4), axis=0", "f32(5), n=2", "f32(5), n=0",
        "f32(5), n=-1", "f32(5), prepend=0.0", "f32(2, 3), append=f32(2, 1)",
        "f32(2, 3), prepend=i32(2, 2), axis=1", "f32()", "f32(1)", "f32(3), axis=1",
    ]),
    ("ediff1d", [
        "f32(2, 3)", "i32(4), to_end=9", "f32(4), to_end=f32(2), to_begin=-1.0",
        "i32(3), to_end=2.5", "f32()", "[1, 2, 4]", "f32(1), to_begin=1, to_end=f32(2)",
        "u8([3, 1, 2])", "b1(3)", "f32(3), to_end='a'", "bf16(3), to_begin=1.5", "f32(0)",
    ]),
    ("gradient", [
        *over("f32 bf16 i32 c64", "D(5)"), "f32(3, 4)", "f32(3, 4), axis=1", "f32(3, 4), 2.0",
        "f32(3, 4), 2.0, 0.5", "f32(5), f32([0, 1, 3, 4, 7])", "f32(3, 4), axis=(0, 1)",
        "f32(5), edge_order=2", "f32(1)", "f32(3, 4), 1.0, 2.0, 3.0",
    ]),
    ("trapezoid", [
        "f32(5)", "f32(5), dx=0.5", "f32(2, 5), f32([0, 1, 3, 4, 7])", "i32(5)",
        "f32(3, 4), axis=0", "c64(3)",
    ]),
    ("trapezoid", ["bf16(6)", "f32(1)", "f32(0)", "f32(3), f32(2)"]),
    ("isin", [
        "i32(2, 3), i32(2)", "f32(5), [1.0, 2.0]", "i32(5), i32(3), invert=True", "i32(3), 1",
        "u8(3), i32(2)",
    ]),
    (
        "isin",
        [f"i32(5), i32(3), method='{m}'" for m in "compare_all binary_search sort auto".split()],
    ),
]

CASES = calls(SECTION, "jnp.", TABLE)
