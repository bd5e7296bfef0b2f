"""Random numbers: published test vectors, known streams, distributions, misuse."""

import re

import numpy as np
import pytest
from scipy import stats

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, random
from gpuarray.errors import KeyReuseError
from gpuarray.lax import RandomAlgorithm, rng_bit_generator
from gpuarray.primitives.random import host as generators
from gpuarray.primitives.random.ops import random_bits_p

U32 = np.uint32
STREAMS = [False, True]


@pytest.fixture(params=STREAMS, ids=["original", "partitionable"])
def stream(request):
    ga.config.update("jax_threefry_partitionable", request.param)
    return request.param


def words(key):
    return np.asarray(random.key_data(key)).tolist()


# ---- the generators (vectors of the Random123 distribution) ----

THREEFRY = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("repeat", [1, 3, 50_000], ids=["integers", "few", "blocks"])
@pytest.mark.parametrize("key, counter, expected", THREEFRY)
def test_threefry_vectors(key, counter, expected, repeat):
    counters = [np.full(repeat, c, U32) for c in counter]
    out = generators.threefry2x32(*map(U32, key), *counters)
    assert all((o == e).all() for o, e in zip(out, expected, strict=True))
    keys = [np.full(repeat, k, U32) for k in key]  # a key for every counter
    out = generators.threefry2x32(*keys, *counters)
    assert all((o == e).all() for o, e in zip(out, expected, strict=True))


def test_philox_vector():
    out = generators.philox_words((0, 0), 0, 4)
    assert [hex(w) for w in out] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


@pytest.mark.parametrize("size", [0, 1, 2, 7, 16, 17, 100, 40_001])
def test_streams_are_what_their_definition_says(size):
    key = np.array([5, 6], U32)
    count = np.arange(size, dtype=U32)
    a, b = generators.threefry2x32(*key, U32(0), count)
    assert (generators.threefry_stream(key, size, partitionable=True) == (a ^ b)).all()
    half = (size + 1) // 2
    second = np.zeros(half, U32)
    second[: size - half] = count[half:]
    both = np.concatenate(generators.threefry2x32(*key, count[:half], second))[:size]
    assert (generators.threefry_stream(key, size, partitionable=False) == both).all()


def test_a_full_philox_counter_carries():
    state = np.array([1, 2, 0xFFFFFFFE, 0xFFFFFFFF], U32)
    after, bits = rng_bit_generator(state, (12,))
    assert np.asarray(after).tolist() == [1, 2, 1, 0]
    wrapped = rng_bit_generator(np.array([1, 2, 0, 0], U32), (4,))[1]
    assert np.asarray(bits)[8:].tolist() != np.asarray(wrapped).tolist()


@pytest.mark.parametrize("shape, axis", [((4,), 0), ((2, 3), 0), ((3, 2), 1), ((3, 5), 1)])
def test_counted_threefry_lays_pairs_side_by_side(shape, axis):
    state, bits = rng_bit_generator(np.zeros(4, U32), shape, algorithm=RandomAlgorithm(1))
    first = np.asarray(bits)[(0,) * len(shape)]
    second = np.asarray(bits)[tuple(int(i == axis) for i in range(len(shape)))]
    assert (first, second) == (0x6B200159, 0x99BA4EFE) and int(state[2]) > 0


# ---- known streams: seed 18 (the tutorials' one) and key 42 ----

KNOWN_SPLIT = {
    False: [[4197003906, 1654466292], [1685972163, 1654824463]],
    True: [[4027907007, 1756876250], [3953557796, 1421509433]],
}
KNOWN_BITS = {
    False: {
        8: [45, 179, 215, 3, 244],
        16: [8426, 37627, 63599, 6563, 55571],
        32: [3134548294, 3733159049, 843694964, 894150801, 801545058],
    },
    True: {
        8: [162, 217, 249, 215, 21],
        16: [5026, 12505, 63993, 49623, 29461],
        32: [2098992034, 2919706841, 2646866425, 2409546199, 1935504149],
    },
}


def test_seeds_and_splits(stream):
    key = random.PRNGKey(18)
    assert repr(key) == "Array([ 0, 18], dtype=uint32)"
    assert np.asarray(random.split(key)).tolist() == KNOWN_SPLIT[stream]
    assert words(random.split(random.wrap_key_data(key))) == KNOWN_SPLIT[stream]
    assert np.asarray(random.fold_in(key, 7)).tolist() == [1745706436, 2120347443]


def test_tutorial_numbers():
    _, subkey = random.split(random.PRNGKey(18))
    x = np.asarray(random.normal(subkey, (3, 2)))
    np.testing.assert_allclose(x[0], [1.0465655, 0.1074554], rtol=3e-7)


@pytest.mark.parametrize("width", [8, 16, 32])
def test_bits(stream, width):
    out = random.bits(random.key(42), (5,), f"uint{width}")
    assert np.asarray(out).tolist() == KNOWN_BITS[stream][width]


KNOWN = {  # name: (call, value with the original stream, value with the partitionable one)
    "uniform": (
        lambda k: [float(x).hex() for x in random.uniform(k, (3,))],
        ["0x1.25f6400000000p-1", "0x1.9a3f800000000p-4", "0x1.e71b000000000p-5"],
        ["0x1.f470480000000p-2", "0x1.5c0e600000000p-1", "0x1.3b87f00000000p-1"],
    ),
    "randint": (
        lambda k: random.randint(k, (6,), -3, 100).tolist(),
        [31, 89, 83, 90, 82, 87],
        [21, 25, 89, 97, 42, 30],
    ),
    "randint, narrow and whole range": (
        lambda k: random.randint(k, (6,), 0, 256, "uint8").tolist(),
        [116, 107, 61, 9, 72, 218],
        [196, 18, 183, 193, 141, 107],
    ),
    "permutation": (
        lambda k: random.permutation(k, 8).tolist(),
        [6, 0, 3, 7, 2, 5, 4, 1],
        [7, 4, 2, 5, 3, 6, 0, 1],
    ),
    "choice": (lambda k: random.choice(k, 10, (4,)).tolist(), [5, 4, 7, 3], [4, 4, 1, 9]),
    "choice without replacement": (
        lambda k: random.choice(k, 10, (4,), replace=False).tolist(),
        [9, 0, 2, 6],
        [7, 4, 2, 5],
    ),
    "choice with probabilities": (
        lambda k: random.choice(k, 5, (4,), p=gnp.array([0.1, 0.2, 0.3, 0.2, 0.2])).tolist(),
        [2, 1, 4, 4],
        [2, 2, 2, 2],
    ),
    "categorical": (
        lambda k: random.categorical(k, gnp.arange(4.0), shape=(6,)).tolist(),
        [2, 3, 3, 3, 3, 2],
        [3] * 6,
    ),
    "bernoulli": (
        lambda k: random.bernoulli(k, 0.4, (6,)).tolist(),
        [False, False, False, True, True, False],
        [False] * 6,
    ),
    "rademacher": (
        lambda k: random.rademacher(k, (5,)).tolist(),
        [-1, -1, 1, 1, 1],
        [1, -1, -1, -1, 1],
    ),
    "poisson": (
        lambda k: random.poisson(k, np.array([3.0, 30.0], np.float32)).tolist(),
        [4, 30],
        [6, 35],
    ),
    "binomial": (
        lambda k: random.binomial(k, np.array([20.0, 300.0], np.float32), 0.3).tolist(),
        [5, 90],
        [5, 97],
    ),
    "geometric": (
        lambda k: random.geometric(k, 0.2, (5,)).tolist(),
        [2, 1, 8, 8, 8],
        [4, 2, 3, 3, 4],
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_exact(stream, name):
    call, original, partitionable = KNOWN[name]
    assert call(random.key(42)) == (partitionable if stream else original)


KNOWN_FLOATS = {  # sampler: (arguments, original, partitionable), first number of the scalar shape
    "normal": (((3,),), 0.18693546950817108, -0.02830461598932743),
    "exponential": (((2,),), 0.015123789198696613, 0.670817494392395),
    "gumbel": (((2,),), -1.434855580329895, 0.3340933918952942),
    "laplace": (((2,),), 3.505889415740967, 0.022839652374386787),
    "logistic": (((2,),), -4.183914661407471, -0.0451694130897522),
    "cauchy": (((2,),), -21.19062614440918, -0.03548463061451912),
    "maxwell": (((2,),), 1.71131432056427, 0.553582489490509),
    "gamma": ((np.array([0.3, 4.0], np.float32),), 0.03599043935537338, 0.43624743819236755),
    "beta": ((2.0, 3.0), 0.5001280903816223, 0.4319617748260498),
    "t": ((3.0,), 0.15803207457065582, 0.08987478166818619),
    "chisquare": ((3.0,), 11.548944473266602, 5.87071418762207),
    "f": ((3.0, 4.0), 0.5788596868515015, 0.7448718547821045),
    "pareto": ((2.0,), 1.3207464218139648, 1.3985118865966797),
    "rayleigh": ((2.0,), 2.6101489067077637, 2.3933022022247314),
    "wald": ((2.0,), 2.429933786392212, 2.226588249206543),
    "weibull_min": ((2.0, 3.0), 1.6449682712554932, 1.7507795095443726),
    "triangular": ((0.0, 1.0, 3.0), 1.1453747749328613, 1.2485027313232422),
    "lognormal": ((0.5,), 0.911780595779419, 0.9859473705291748),
    "truncated_normal": ((-1.0, 2.0), 0.019984418526291847, 0.14770005643367767),
}


@pytest.mark.parametrize("name", KNOWN_FLOATS)
def test_known_floats(stream, name):
    arguments, original, partitionable = KNOWN_FLOATS[name]
    out = np.asarray(getattr(random, name)(random.key(42), *arguments)).reshape(-1)[0]
    np.testing.assert_allclose(out, partitionable if stream else original, rtol=2e-5)


def test_wide_numbers():
    with ga.enable_x64(True):
        assert np.asarray(random.PRNGKey(2**40 + 5)).tolist() == [256, 5]
        bits = random.bits(random.key(42), (2,))
        assert np.asarray(bits).tolist() == [10591095138341673235, 15802173259169302873]
        x = random.uniform(random.key(42), (2,))
        assert [float(v).hex() for v in x] == ["0x1.25f641d41e71ap-1", "0x1.b69931b61fed0p-1"]


def test_other_generators():
    key = random.key(7, impl="rbg")
    assert key.dtype.name == "key<rbg>" and random.key_impl(key) == "rbg"
    assert np.asarray(random.bits(key, (3,))).tolist() == [3109483441, 1367189518, 2515982561]
    assert words(random.split(key))[0] == [966301609, 989289821] * 2
    assert random.normal(random.key(7, impl="unsafe_rbg"), (2, 3)).shape == (2, 3)


#: Known answers of the paper's library (Random123): the hash of zeros under a key of zeros.
HASHES = {
    "philox2x32": [0xFF1DAE59, 0x6CD10DF2],
    "philox4x32": [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8],
    "threefry4x32": [0x9C6CA96A, 0xE17EAE66, 0xFC10ECD4, 0x5256A7D8],
}


@pytest.mark.parametrize("impl", HASHES)
def test_generators_of_one_hash(impl):
    # A key from seed 0 is that hash; numbers of the key zero begin with it, folded.
    key = random.key(0, impl=impl)
    count = key.dtype.itemsize // 4
    assert words(key) == HASHES[impl][:count]
    zero = random.wrap_key_data(np.zeros(count, np.uint32), impl=impl)
    assert np.asarray(random.bits(zero, (2,)))[0] == np.bitwise_xor.reduce(
        np.array(HASHES[impl], np.uint32)
    )
    assert random.key_impl(key) == impl
    # Keys and numbers differ, pieces agree, batches are rows.
    keys = random.split(key, 50)
    assert len({tuple(w) for w in words(keys)}) == 50
    short, long = random.bits(key, (3,)), random.bits(key, (100,))
    np.testing.assert_array_equal(short, long[:3])
    rows = ga.vmap(lambda k: random.bits(k, (4,)))(keys)
    np.testing.assert_array_equal(rows[7], random.bits(keys[7], (4,)))
    assert words(random.fold_in(key, 1)) != words(random.fold_in(key, 2))
    assert abs(float(random.uniform(key, (4000,)).mean()) - 0.5) < 0.02


# ---- laws ----


def test_seeds_keep_their_low_bits():
    known = {0: [0, 0], -1: [0, 2**32 - 1], 2**31: [0, 2**31], 2**40 + 5: [0, 5]}
    for seed, expected in known.items():
        assert np.asarray(random.PRNGKey(seed)).tolist() == expected


def test_partitionable_parts_do_not_depend_on_the_whole():
    with ga.threefry_partitionable(True):
        few, many = (np.asarray(random.bits(random.key(3), (n,))) for n in (5, 5000))
        assert (few == many[:5]).all()


def test_keys_move_like_any_elements():
    keys = random.split(random.key(0), (2, 3))
    assert keys.shape == (2, 3) and keys[1].shape == (3,)
    assert words(keys.reshape(6)[4]) == words(keys[1, 1])
    assert words(gnp.concatenate([keys[:1], keys[1:]])) == words(keys)
    assert words(random.wrap_key_data(random.key_data(keys))) == words(keys)


def test_many_keys_give_what_each_gives(stream):
    keys = random.split(random.key(0), 3)
    for shape, width in [((7,), 32), ((5,), 8), ((3, 2000), 32), ((4,), 64)]:
        params = {"bit_width": width, "shape": shape, "partitionable": stream}
        with ga.enable_x64(True):
            many = np.asarray(random_bits_p.bind(keys, **params))
            each = [np.asarray(random_bits_p.bind(k, **params)) for k in keys]
        assert (many == np.stack(each)).all()


def test_jit_and_eager_agree(stream):
    def f(key):
        first, second = random.split(key)
        return random.normal(first, (4, 3)), random.randint(second, (5,), 0, 7)

    eager, compiled = f(random.key(9)), ga.jit(f)(random.key(9))
    for a, b in zip(eager, compiled, strict=True):
        assert (np.asarray(a) == np.asarray(b)).all()


def test_the_stream_is_part_of_what_is_compiled():
    f = ga.jit(lambda key: random.bits(key, (4,)))
    original = np.asarray(f(random.key(1)))
    with ga.threefry_partitionable(True):
        assert (np.asarray(f(random.key(1))) != original).any()
    assert (np.asarray(f(random.key(1))) == original).all()


def test_a_printed_program_does_not_show_the_stream():
    with ga.threefry_partitionable(True):
        text = str(ga.make_jaxpr(lambda k: random.bits(k, (3,)))(random.key(0)))
    assert text == (
        "{ lambda ; a:key<fry>[]. let\n"
        "    b:u32[3] = random_bits[bit_width=32 shape=(3,)] a\n"
        "  in (b,) }"
    )


LAWS = {  # sampler: (arguments, distribution)
    "uniform": ((), stats.uniform()),
    "normal": ((), stats.norm()),
    "exponential": ((), stats.expon()),
    "gumbel": ((), stats.gumbel_r()),
    "laplace": ((), stats.laplace()),
    "logistic": ((), stats.logistic()),
    "cauchy": ((), stats.cauchy()),
    "maxwell": ((), stats.maxwell()),
    "gamma": ((0.3,), stats.gamma(0.3)),
    "beta": ((2.0, 0.5), stats.beta(2, 0.5)),
    "chisquare": ((3.0,), stats.chi2(3)),
    "f": ((3.0, 5.0), stats.f(3, 5)),
    "t": ((3.0,), stats.t(3)),
    "generalized_normal": ((3.0,), stats.gennorm(3)),
    "pareto": ((2.0,), stats.pareto(2)),
    "rayleigh": ((2.0,), stats.rayleigh(scale=2)),
    "triangular": ((0.0, 1.0, 4.0), stats.triang(0.25, 0, 4)),
    "wald": ((1.0,), stats.invgauss(1)),
    "weibull_min": ((2.0, 3.0), stats.weibull_min(3, scale=2)),
    "lognormal": ((0.5,), stats.lognorm(0.5)),
    "truncated_normal": ((-1.0, 0.5), stats.truncnorm(-1, 0.5)),
}


@pytest.mark.parametrize("name", LAWS)
def test_samples_follow_their_distribution(name):
    arguments, law = LAWS[name]
    shape = (3000,)
    out = np.asarray(getattr(random, name)(random.key(11), *arguments, shape=shape), np.float64)
    assert stats.kstest(out, law.cdf).pvalue > 1e-3


def test_discrete_samples_follow_their_distribution():
    out = np.asarray(random.geometric(random.key(0), 0.3, (4000,)))
    assert out.min() == 1 and abs(out.mean() - 1 / 0.3) < 0.15
    p = np.array([0.1, 0.0, 0.6, 0.3], np.float32)
    drawn = np.asarray(random.choice(random.key(1), 4, (4000,), p=p))
    assert np.abs(np.bincount(drawn, minlength=4) / 4000 - p).max() < 0.03
    with np.errstate(divide="ignore"):
        drawn = np.asarray(random.categorical(random.key(2), np.log(p), shape=(4000,)))
    assert np.abs(np.bincount(drawn, minlength=4) / 4000 - p).max() < 0.03


def test_correlated_and_orthogonal():
    cov = np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
    for method in ("cholesky", "svd", "eigh"):
        x = random.multivariate_normal(random.key(0), gnp.zeros(2), cov, (4000,), method=method)
        np.testing.assert_allclose(np.cov(np.asarray(x).T), cov, atol=0.15)
    q = np.asarray(random.orthogonal(random.key(0), 4, (3,), m=2))
    np.testing.assert_allclose(q.mT @ q, np.broadcast_to(np.eye(2), (3, 2, 2)), atol=1e-6)
    x = np.asarray(random.ball(random.key(0), 3, 1.5, (50,)))
    assert ((np.abs(x) ** 1.5).sum(-1) <= 1 + 1e-6).all()
    d = np.asarray(random.dirichlet(random.key(0), gnp.array([0.2, 1.0, 3.0]), (10,)))
    np.testing.assert_allclose(d.sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("mean", [0.3, 6.0, 40.0])
def test_poisson_counts(mean):
    x = np.asarray(random.poisson(random.key(3), mean, (4000,)))
    assert x.min() >= 0 and x.dtype == np.int32
    error = 4 * (mean / 4000) ** 0.5
    assert abs(x.mean() - mean) < error and abs(x.var() / mean - 1) < 0.15
    top = int(x.max()) + 1
    expected = stats.poisson(mean).pmf(np.arange(top)) * 4000
    often = expected > 5
    found = np.bincount(x, minlength=top)
    assert (((found - expected) ** 2 / expected)[often]).sum() < 2.5 * often.sum()


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "int64"])
def test_poisson_counts_in_other_types(dtype):
    with ga.enable_x64(True):
        draw = lambda t: random.poisson(random.key(3), np.float32([0, 4, 50]), dtype=t)
        assert draw(dtype).dtype == dtype
        assert draw(dtype).tolist() == draw("int32").tolist()


@pytest.mark.parametrize("p", [0.5, 1.0])
def test_binomial_counts_do_not_depend_on_their_type(p):
    """The probability says in which type numbers are drawn."""
    draw = lambda t: random.binomial(random.key(3), 20, np.float32(p), (5,), t)
    for dtype in ("float16", "bfloat16"):
        assert draw(dtype).dtype == dtype
        assert draw(dtype).tolist() == draw("float32").tolist()


def test_poisson_at_its_ends():
    lam = np.array([0.0, -1.0, np.nan], np.float32)
    assert random.poisson(random.key(0), lam).tolist() == [0, -1, -1]


@pytest.mark.parametrize("n, p", [(5, 0.5), (100, 0.02), (100, 0.4), (1000, 0.7)])
def test_binomial_counts(n, p):
    x = np.asarray(random.binomial(random.key(4), float(n), p, (4000,)))
    assert x.min() >= 0 and x.max() <= n and (x == np.floor(x)).all()
    law = stats.binom(n, p)
    assert abs(x.mean() - law.mean()) < 4 * (law.var() / 4000) ** 0.5
    assert abs(x.var() / law.var() - 1) < 0.15


def test_binomial_at_its_ends():
    n = np.array([3, -1, np.nan, np.inf, 5, 5, 0, 100], np.float32)
    p = np.array([0.0, 0.5, 0.5, 0.5, -1, 2, 0.5, 1], np.float32)
    out = np.asarray(random.binomial(random.key(0), n, p))
    np.testing.assert_array_equal(out, [0, np.nan, np.nan, np.inf, np.nan, np.nan, 0, 100])


def test_multinomial_counts():
    p = gnp.array([0.2, 0.0, 0.5, 0.3])
    x = np.asarray(random.multinomial(random.key(5), 50, p, shape=(500, 4), dtype=int))
    assert x.dtype == np.int32 and (x.sum(-1) == 50).all() and (x[:, 1] == 0).all()
    assert np.abs(x.mean(0) / 50 - np.asarray(p)).max() < 0.02


@pytest.mark.parametrize("n", [0, 1, 5, 3000])
def test_permutations_are_permutations(n):
    assert np.sort(np.asarray(random.permutation(random.key(0), n))).tolist() == list(range(n))


def test_permutation_of_slices_and_of_lines():
    x = gnp.arange(12).reshape(4, 3)
    rows = np.asarray(random.permutation(random.key(1), x))
    assert {tuple(r) for r in rows.tolist()} == {tuple(r) for r in np.asarray(x).tolist()}
    lines = np.asarray(random.permutation(random.key(1), x, axis=1, independent=True))
    assert (np.sort(lines, 1) == np.asarray(x)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_uniform_stays_below_its_bound(dtype):
    x = np.asarray(random.uniform(random.key(0), (4000,), dtype, 1.0, 2.0)).astype(np.float64)
    assert x.min() >= 1 and x.max() < 2


@pytest.mark.parametrize(
    "x64, dtype", [(False, "int8"), (False, "uint32"), (True, "uint8"), (True, "int32")]
)
def test_randint_takes_bounds_of_any_width(x64, dtype):
    """The numbers are those of the same bounds as Python ints: none of them wraps around."""
    with ga.enable_x64(x64):
        for drawn in (int, "uint8", "uint32"):
            want = random.randint(random.key(0), (40,), 2, 7, drawn)
            for low, high in ((gnp.asarray(2, dtype), 7), (2, gnp.asarray(7, dtype))):
                got = random.randint(random.key(0), (40,), low, high, drawn)
                np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    # The largest bound there is.
    wide = random.randint(random.key(0), (40,), 0, np.uint32(2**32 - 1), "uint32")
    assert np.asarray(wide).max() > 2**31


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_randint_covers_its_range(dtype):
    info = np.iinfo(dtype)
    x = np.asarray(random.randint(random.key(0), (4000,), 2, 6, dtype))
    assert x.dtype == dtype and set(x.tolist()) == {2, 3, 4, 5}
    if info.bits <= 16:
        whole = np.asarray(random.randint(random.key(0), (9000,), info.min, info.max + 1, dtype))
        assert whole.min() < info.min + info.max // 50 + 1 and whole.max() > info.max * 0.97
    assert (np.asarray(random.randint(random.key(0), (3,), 5, 5, dtype)) == 5).all()


def test_gamma_where_floats_end():
    a = gnp.array([0.0, -1.0, gnp.nan, 1e-3])
    out = np.asarray(random.gamma(random.key(0), a))
    assert out[0] == 0 and np.isnan(out[1:3]).all() and out[3] >= 0
    logs = np.asarray(random.loggamma(random.key(0), gnp.full((100,), 1e-3)))
    assert np.isfinite(logs).all() and logs.min() < -500


# ---- misuse ----

KEY = random.key(0)
MANY = random.split(KEY)
WRONG = [
    (lambda: random.key(1.5), TypeError, "seed must be an integer"),
    (lambda: random.key(np.array([1, 2])), TypeError, "accepts a scalar seed"),
    (lambda: random.key(KEY), TypeError, "was given a PRNG key"),
    (lambda: random.key(0, impl="mt19937"), ValueError, "unrecognized PRNG implementation"),
    (lambda: random.key(0, impl=3), TypeError, "unrecognized type"),
    (lambda: random.split(None), TypeError, "unexpected PRNG key type"),
    (lambda: random.split(3), TypeError, "to have ndim, shape, and dtype"),
    (lambda: random.split(np.array([1, 2])), TypeError, "expected key_data.dtype = uint32"),
    (lambda: random.split(gnp.ones(3)), TypeError, r"to end with \(2,\); got shape=\(3,\)"),
    (lambda: random.split(MANY), ValueError, "accepts a single key"),
    (lambda: random.fold_in(KEY, -1), OverflowError, "out of bounds"),
    (lambda: random.fold_in(KEY, np.arange(2)), TypeError, "accepts a scalar"),
    (lambda: random.uniform(MANY, (2,)), ValueError, "accepts a single key.*vmap"),
    (lambda: random.uniform(KEY, (2,), int), ValueError, "must be a float dtype, got int32"),
    (lambda: random.normal(KEY, "a"), TypeError, "Shapes must be 1D sequences"),
    (lambda: random.bits(KEY, (2,), "int32"), ValueError, "unsigned int dtype, got int32"),
    (lambda: random.randint(KEY, (2,), 0, 10, float), TypeError, "only accepts integer dtypes"),
    (lambda: random.randint(KEY, (2,), 0, 2**40), OverflowError, ""),
    (lambda: random.randint(KEY, (2,), np.zeros(3, int), 9), ValueError, "broadcasting"),
    (lambda: random.bernoulli(KEY, 1), TypeError, "must have a floating dtype"),
    (lambda: random.bernoulli(KEY, gnp.ones(3), (1,)), ValueError, "must equal the shape"),
    (lambda: random.permutation(KEY, 5.0), TypeError, "integer or at least 1-dimensional"),
    (lambda: random.permutation(KEY, [1, 2]), TypeError, "ndarray or scalar arguments"),
    (lambda: random.choice(KEY, 5, (6,), replace=False), ValueError, "larger sample"),
    (lambda: random.choice(KEY, 0), ValueError, "a must be greater than 0"),
    (lambda: random.choice(KEY, 5, 2), TypeError, "must be a sequence, got 2"),
    (lambda: random.choice(KEY, 5, p=gnp.ones(4)), ValueError, "same size as a.shape"),
    (lambda: random.categorical(KEY, gnp.ones(3), axis=2), IndexError, "out of bounds"),
    (lambda: random.gumbel(KEY, mode="x"), ValueError, "valid mode"),
    (lambda: random.dirichlet(KEY, 2.0), ValueError, "alpha.ndim >= 1"),
    (lambda: random.geometric(KEY, 0.3, dtype=float), ValueError, "must be an int dtype"),
    (
        lambda: random.multivariate_normal(KEY, gnp.ones(3), gnp.eye(2)),
        ValueError,
        r"cov.shape == \(..., n, n\) for n=3",
    ),
    (lambda: random.poisson(KEY, 3.0, dtype=float), ValueError, "must be an int dtype"),
    (lambda: random.binomial(KEY, [1.0], 0.5), TypeError, "ndarray or scalar arguments"),
    (lambda: random.multinomial(KEY, 3, 0.5), ValueError, "axis of categories"),
    (lambda: random.orthogonal(KEY, -1), ValueError, "negative dimensions"),
    (lambda: random.uniform(KEY, out_sharding="x"), TypeError, "out_sharding"),
]


_F32 = np.float32(2)
UNSAFE = {
    "beta": lambda t: random.beta(KEY, _F32, 1.0, dtype=t),
    "chisquare": lambda t: random.chisquare(KEY, _F32, dtype=t),
    "f": lambda t: random.f(KEY, 1, _F32, dtype=t),
    "lognormal": lambda t: random.lognormal(KEY, _F32, dtype=t),
    "pareto": lambda t: random.pareto(KEY, _F32, dtype=t),
    "rayleigh": lambda t: random.rayleigh(KEY, _F32, dtype=t),
    "t": lambda t: random.t(KEY, _F32, dtype=t),
    "triangular": lambda t: random.triangular(KEY, 0.0, 1.0, _F32, dtype=t),
    "wald": lambda t: random.wald(KEY, _F32, dtype=t),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_a_dtype_that_does_not_hold_a_parameter(name):
    with pytest.raises(ga.dtypes.TypePromotionError, match=f"to {name}, cannot safely cast"):
        UNSAFE[name]("float16")
    assert UNSAFE[name]("float32").dtype == np.float32


@pytest.mark.parametrize("call, kind, text", WRONG)
def test_misuse(call, kind, text):
    with pytest.raises(kind, match=re.compile(text, re.DOTALL)):
        call()


def test_a_key_used_twice_is_found():
    with ga.debug_key_reuse(True):
        key = random.key(0)
        random.normal(key)
        with pytest.raises(KeyReuseError, match="Previously-consumed key passed to uniform"):
            random.uniform(key)
        random.uniform(random.clone(key))
        fresh = random.key(1)
        random.fold_in(fresh, 1)
        random.fold_in(fresh, 2)  # folding in does not use a key up

        @ga.jit
        def twice(key):
            return random.normal(key) + random.normal(key)

        with pytest.raises(KeyReuseError):
            twice(random.key(2))
    key = random.key(0)
    assert float(random.normal(key)) == float(random.normal(key))


#: Uses of a key, and whether they use it up.
USES = {
    "eager": (random.bits, True),
    "jitted": (ga.jit(random.bits), True),
    "nested": (ga.jit(lambda k: ga.jit(random.normal)(k) + 1), True),
    "branch": (ga.jit(lambda k: lax.cond(True, random.normal, lambda k: 0.0, k)), True),
    "loop": (ga.jit(lambda k: lax.fori_loop(0, 1, lambda i, c: c + random.normal(k), 0.0)), True),
    "gradient": (lambda k: ga.grad(ga.jit(lambda x, k: x * random.normal(k)))(1.0, k), True),
    "passed on": (ga.jit(lambda k: k), False),
    "folded in": (ga.jit(lambda k: random.fold_in(k, 1)), False),
    "cloned": (ga.jit(lambda k: random.bits(random.clone(k))), False),
}


@pytest.mark.parametrize("second", USES)
@pytest.mark.parametrize("first", USES)
def test_keys_are_used_up_by_programs(first, second):
    (f, uses), (g, uses_too) = USES[first], USES[second]
    with ga.debug_key_reuse(True):
        key = random.key(0)
        f(key)
        if uses and uses_too:
            with pytest.raises(KeyReuseError, match="Previously-consumed key passed to"):
                g(key)
        else:
            g(key)
        f(random.key(0))  # another key of the same words


def test_a_key_that_a_jitted_function_closes_over():
    with ga.debug_key_reuse(True):
        key = random.key(0)
        f = ga.jit(lambda: random.normal(key))
        f()
        with pytest.raises(KeyReuseError, match="jit-compiled function"):
            f()


SAMPLERS = {
    "choice": lambda k: random.choice(k, 5),
    "choice, no replacement": lambda k: random.choice(k, 5, (3,), replace=False),
    "choice, p": lambda k: random.choice(k, 5, (3,), p=gnp.ones(5)),
    "choice, rows": lambda k: random.choice(k, gnp.ones((5, 2)), (3,), replace=False),
    "permutation": lambda k: random.permutation(k, 5),
    "multivariate_normal": lambda k: random.multivariate_normal(k, gnp.ones(2), gnp.eye(2)),
    "dirichlet": lambda k: random.dirichlet(k, gnp.ones(3)),
    "ball": lambda k: random.ball(k, 3),
    "orthogonal": lambda k: random.orthogonal(k, 3),
    "poisson": lambda k: random.poisson(k, 3.0),
    "binomial": lambda k: random.binomial(k, 3, 0.5),
    "t": lambda k: random.t(k, 2.0),
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_uses_its_key_once(name, jit):
    f = ga.jit(SAMPLERS[name]) if jit else SAMPLERS[name]
    with ga.debug_key_reuse(True):
        key = random.key(0)
        f(key)
        with pytest.raises(KeyReuseError):
            random.bits(key)


def test_multinomial_draws_in_the_type_of_its_probabilities():
    p = gnp.array([0.5, 0.5])
    half = random.multinomial(random.key(1), 50, p, dtype="float16")
    assert half.dtype == np.float16
    assert half.tolist() == random.multinomial(random.key(1), 50, p).tolist()
