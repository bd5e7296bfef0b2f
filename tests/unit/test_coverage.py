"""Every public name of JAX 0.10.2 is here, functions with the same parameters in the same order.

In: jax_names.txt, the names by namespace. Out: a test for each namespace. What is missing on
purpose, or differs, stands below with the reason; more than 2 % of the names may not.
"""

import importlib
import inspect
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("jax_names.txt")

_NO_OPERATION = "the function of that name works; no operation of ours goes by it"
MISSING = {
    "lax.after_all_p": _NO_OPERATION,
    "lax.create_token_p": _NO_OPERATION,
    "lax.dce_sink_p": _NO_OPERATION,
    "lax.device_put_p": _NO_OPERATION,
    "lax.ragged_all_to_all_p": _NO_OPERATION,
    "lax.sharding_constraint_p": _NO_OPERATION,
    "custom_derivatives.remat_opt_p": "custom_vjp(optimize_remat=True) needs no operation here",
    "lax.select_and_scatter_p": "has no function in JAX: lax.reduce_window's gradient is written "
    "with select_and_scatter_add_p",
}
OTHER_PARAMETERS = {
    "numpy.array": "what NumPy takes by position and JAX refuses through *args, is refused here",
    "numpy.issubdtype": "the function of gpuarray.dtypes, with that one's names",
    "numpy.set_printoptions": "passes everything on to NumPy's function; ours names the options",
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
            row = names.setdefault(line.strip("[]"), {})
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
    module = importlib.import_module(f"gpuarray.{namespace}")
    missing, differing, bare = [], [], []
    for name, theirs in NAMES[namespace].items():
        full = f"{namespace}.{name}"
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
    total = sum(map(len, NAMES.values()))
    assert total > 1300
    assert len(MISSING) + len(OTHER_PARAMETERS) <= 0.02 * total
    for full in [*MISSING, *OTHER_PARAMETERS]:
        namespace, _, name = full.rpartition(".")
        assert name in NAMES[namespace]


def test_the_comparison_of_parameters_can_fail():
    assert agree(["_", "axis"], ["x", "axis", "more"])
    assert not agree(["_", "axis"], ["x", "dim"])
    assert not agree(["a", "b"], ["a"])
