"""Every public name of JAX 0.10.2 is here, functions with the same parameters in the same order, or
stands in the list of what is missing; a name that is not there says which of the two it is.

In: jax_names.txt, the names by namespace. Out: a test for each namespace. Of the namespaces of
array functions no more than 2 % of the names may be missing or differ.
"""

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import missing
from gpuarray.missing import ELSEWHERE, REMOVED
from tests.support import ROOT

LIST = Path(__file__).with_name("jax_names.txt")

MISSING = {name for group in missing.GROUPS for name in group.names}
OTHER_PARAMETERS = {
    "numpy.array": "what NumPy takes by position and JAX refuses through *args, is refused here",
    "numpy.issubdtype": "the function of gpuarray.dtypes, with that one's names",
    "numpy.set_printoptions": "passes everything on to NumPy's function; ours names the options",
    "extend.backend.clear_backends": "its only parameter is private",
    "lax.random_gamma_grad": "takes any arguments and refuses all but two; ours names the two",
}


def read_names() -> dict[str, dict[str, list[str] | None]]:
    """{namespace: {name: parameters, None for what is no function}}."""
    names: dict[str, dict[str, list[str] | None]] = {}
    row: dict = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("["):
            row = names.setdefault(line.strip("[]."), {})
            continue
        name, bracket, rest = line.partition("(")
        row[name] = [p for p in rest.rstrip(")").split(", ") if p] if bracket else None
    return names


NAMES = read_names()


def parameters(function) -> list[str]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = inspect.signature(function).parameters.values()
    return [stars.get(p.kind, "") + p.name for p in found]


def agree(theirs: list[str], ours: list[str]) -> bool:
    """Theirs first and in order; names do not matter where only the position counts."""
    return len(ours) >= len(theirs) and all(
        t == "_" or t == o for t, o in zip(theirs, ours, strict=False)
    )


@pytest.mark.parametrize("namespace", NAMES)
def test_names_and_parameters(namespace):
    module = importlib.import_module(f"gpuarray.{namespace}".rstrip("."))
    missing, differing, bare = [], [], []
    for name, theirs in NAMES[namespace].items():
        full = f"{namespace}.{name}".lstrip(".")
        found = getattr(module, name, None)
        if found is None:
            if full not in MISSING and name != "newaxis":
                missing.append(full)
            continue
        assert full not in MISSING, f"{full} is here: take it off the list"
        if theirs is None:
            continue
        if not callable(found):
            differing.append(f"{full} is no function")
        elif full not in OTHER_PARAMETERS and not agree(theirs, parameters(found)):
            differing.append(f"{full}: {theirs} in JAX, {parameters(found)} here")
        if not (found.__doc__ or "").strip():
            bare.append(full)
    assert not missing, f"missing: {missing}"
    assert not differing, "\n".join(differing)
    assert not bare, f"without a docstring: {bare}"


def test_exceptions_are_few():
    named = {name for name, row in NAMES.items() if any(p is not None for p in row.values())}
    total = sum(len(NAMES[name]) for name in named)
    assert total > 1300
    # Primitives are no functions, and kernels may use what only one kind of device has.
    functions = [
        full
        for full in MISSING
        if not full.endswith("_p") and not full.startswith("experimental.pallas")
    ]
    lacking = [full for full in functions if full.rpartition(".")[0] in named]
    assert len(lacking) + len(OTHER_PARAMETERS) <= 0.025 * total
    for full in [*MISSING, *OTHER_PARAMETERS]:
        namespace, _, name = full.rpartition(".")
        assert name in NAMES[namespace], f"{full} is no name of JAX's"


# ---- what a name says that is not there


@pytest.mark.parametrize("full", sorted(MISSING))
def test_a_missing_name_says_so(full):
    namespace, _, name = full.rpartition(".")
    module = importlib.import_module(f"gpuarray.{namespace}".rstrip("."))
    assert not hasattr(module, name)
    with pytest.raises(
        AttributeError, match=r"is not in gpuarray. It belongs to .*differences\.md"
    ):
        getattr(module, name)


@pytest.mark.parametrize("full", sorted(REMOVED))
def test_a_removed_name_says_what_to_use(full):
    namespace, _, name = full.rpartition(".")
    module = importlib.import_module(f"gpuarray.{namespace}".rstrip("."))
    with pytest.raises(AttributeError, match=rf"jax\.{full} is deprecated.* Use ") as raised:
        getattr(module, name)
    # The name that it points to is there.
    path = str(raised.value).rpartition(" Use ")[2].partition("(")[0]
    found: Any = ga
    for part in path.split("."):
        found = getattr(found, part)
    assert callable(found)
    assert name not in NAMES.get(namespace, ())


@pytest.mark.parametrize("namespace", [n for n in NAMES if not n.startswith("scipy.stats.")])
def test_a_typo_gets_the_nearest_name(namespace):
    if namespace == "errors":
        pytest.skip("classes only, on a floor below the helper")
    module = importlib.import_module(f"gpuarray.{namespace}".rstrip("."))
    name = max((n for n in NAMES[namespace] if hasattr(module, n)), key=len)
    with pytest.raises(AttributeError, match=rf"\(did you mean '{name}'\?\)"):
        getattr(module, name + "x")


@pytest.mark.parametrize("full", sorted(ELSEWHERE))
def test_a_name_of_another_library_says_what_to_write(full):
    namespace, _, name = full.rpartition(".")
    module = importlib.import_module(f"gpuarray.{namespace}".rstrip("."))
    assert name not in NAMES.get(namespace, ())
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': write "):
        getattr(module, name)


@pytest.mark.parametrize(
    ("module", "name", "where"),
    [
        (ga, "zeros", "gpuarray.numpy.zeros"),
        (ga.numpy, "jit", "gpuarray.jit"),
        (ga.numpy, "softmax", "gpuarray.nn.softmax"),
        (ga.numpy, "svd", "gpuarray.numpy.linalg.svd"),
        (ga.lax, "matmul", "gpuarray.numpy.matmul"),
        (ga.random, "scan", "gpuarray.lax.scan"),
    ],
)
def test_a_name_of_another_module_says_where_it_is(module, name, where):
    with pytest.raises(AttributeError, match=rf"\(did you mean '{where}'\?\)"):
        getattr(module, name)


def test_other_names_are_pythons_own():
    for name in ("qwertz", "_vmpa", "__wrapped__"):
        with pytest.raises(AttributeError) as e:
            getattr(ga, name)
        assert str(e.value) == f"module 'gpuarray' has no attribute {name!r}"
    with pytest.raises(ImportError, match="cannot import name 'vmpa' from 'gpuarray'"):
        exec("from gpuarray import vmpa")
    assert not hasattr(gnp, "arnage")
    assert hasattr(gnp, "arange")


@pytest.mark.parametrize(
    "line",
    [
        "import gpuarray.cloud_tpu_init",
        "import gpuarray.experimental.transfer",
        "from gpuarray.experimental.transfer import start",
        "from gpuarray.experimental import transfer",
        "import gpuarray.experimental.pallas.tpu",
    ],
)
def test_the_import_of_a_missing_name_says_so(line):
    with pytest.raises(ImportError, match=r"jax\.[a-z_.]+ is not in gpuarray. It belongs to "):
        exec(line)


def test_the_documentation_lists_what_is_missing():
    text = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    section = text.partition("## Names of JAX that are not here\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    expected = [
        f"| {g.title} | {g.why} | {', '.join(f'`{name}`' for name in g.names)} |"
        for g in missing.GROUPS
    ]
    assert rows == expected, "the rows should be:\n" + "\n".join(expected)


def test_the_comparison_of_parameters_can_fail():
    assert agree(["_", "axis"], ["x", "axis", "more"])
    assert not agree(["_", "axis"], ["x", "dim"])
    assert not agree(["a", "b"], ["a"])
