"""Arrays made with 64-bit types off and used with them on, and the other way round."""

import warnings

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp

NAMESPACES = {"numpy": gnp, "scipy.special": ga.scipy.special, "nn": ga.nn, "linalg": gnp.linalg}

FORMS = [
    *(lambda a: (a,), lambda a: (a, 2), lambda a: (a, 0.5), lambda a: (2, a), lambda a: (0.5, a)),
    *(lambda a: (a, a), lambda a: (a, 2, 0.5), lambda a: (True, a, 1), lambda a: (a, a, a)),
]
#: All kinds of values go alone and beside themselves; to the other forms these, unless --slow.
ALONE, TELLING = (0, 5), ("float", "ints", "strong")


def _made():
    """Weakly typed values of each kind, and strong ones."""
    weak = {"float": gnp.asarray(0.5), "int": gnp.asarray(2), "complex": gnp.asarray(0.5j)}
    weak |= {f"{k}s": gnp.broadcast_to(v, (3,)) for k, v in weak.items()}
    return weak | {"strong": gnp.full(3, 0.5, float), "strong ints": gnp.arange(3)}


def _failures(namespace, made_wide, every, names=None):
    module = NAMESPACES[namespace]
    with ga.enable_x64(made_wide):
        made = _made()
    for name in names or sorted(dir(module)):
        f = getattr(module, name)
        if name.startswith("_") or not callable(f) or isinstance(f, type):
            continue
        for number, form in enumerate(FORMS):
            for kind, a in made.items():
                if not every and number not in ALONE and kind not in TELLING:
                    continue
                try:
                    with ga.enable_x64(made_wide):
                        f(*form(a))
                except Exception:
                    continue  # it takes no such arguments
                try:
                    with ga.enable_x64(not made_wide):
                        f(*form(a))
                except Exception as error:
                    yield f"{name}, form {number}, {kind}: {error}"


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_what_takes_an_array_takes_it_with_64_bits_on(namespace, every):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(_failures(namespace, made_wide=False, every=every)) == []


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_what_takes_an_array_takes_a_wide_one_with_64_bits_off(namespace, every):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(_failures(namespace, made_wide=True, every=every)) == []


# What two operands give: among weak ones widths count, next to a strong one kinds. With 64 bits off
# a number of Python's has 32, and an array keeps what it has.
TYPES = [
    (lambda a, _: a["float"] + 1, "float32", True),
    (lambda a, _: 1 + a["float"], "float32", True),
    (lambda a, _: a["float"] + 1.0, "float64", True),
    (lambda a, _: gnp.where(True, a["float"], 1), "float32", True),
    (lambda a, _: gnp.maximum(a["floats"], 0), "float32", True),
    (lambda a, _: a["int"] + 1, "int64", True),
    (lambda a, _: a["int"] + 1.0, "float64", True),
    (lambda a, _: a["complex"] * 2, "complex64", True),
    (lambda a, _: a["float"] + np.float32(1), "float32", False),
    (lambda a, _: a["float"] + np.float64(1), "float64", False),
    (lambda a, _: a["strong"] + 1, "float32", False),
    (lambda a, _: a["strong"] + 1.0, "float32", False),
    (lambda a, _: ga.jit(lambda x: x * 2 + 1)(a["float"]), "float32", True),
    (lambda a, _: ga.vmap(lambda x: x + 1)(a["floats"]), "float32", True),
    (lambda a, _: ga.lax.cond(True, lambda x: x + 1, lambda x: x - 1, a["float"]), "float32", True),
    (lambda _, b: b["float"] + 1, "float64", True),
    (lambda _, b: b["int"] + 1, "int64", True),
    (lambda _, b: b["int"] + 1.0, "float32", True),
    (lambda _, b: b["strong"] + 1, "float64", False),
    (lambda _, b: b["strong ints"] + 1, "int64", False),
    (lambda _, b: b["strong"].sum(), "float64", False),
    (lambda _, b: gnp.cumsum(b["strong ints"]), "int64", False),
    (lambda _, b: gnp.arange(5)[b["strong ints"]], "int32", False),
]


@pytest.mark.parametrize("number", range(len(TYPES)))
def test_types_of_mixed_results(number):
    run, dtype, weak = TYPES[number]
    narrow = _made()
    with ga.enable_x64():
        wide = _made()
    with ga.enable_x64(run.__code__.co_varnames[0] == "a"):
        out = run(narrow, wide)
    assert (out.dtype, out.weak_type) == (dtype, weak)


def test_values_of_mixed_precision():
    weak = gnp.asarray(2.0)
    with ga.enable_x64():
        wide = gnp.asarray([2, -1, 2**40])
        assert (weak + 1, gnp.where(True, weak, 1), 1 - weak) == (3, 2, -1)
    clipped = gnp.take(gnp.arange(3.0), wide, mode="clip")
    assert np.asarray(clipped).tolist() == [2, 0, 2]
    assert np.asarray(gnp.arange(3.0)[wide[:2]]).tolist() == [2, 2]
    beyond = gnp.arange(3.0).at[wide[2:]].get(mode="fill", fill_value=-1)
    assert np.asarray(beyond).tolist() == [-1]
