"""The reference pages: every public name is on one, with its signature and its examples."""

import importlib.util

import gpuarray.numpy as gnp
from tests.support import ROOT

PATH = ROOT / "docs" / "reference.py"
spec = importlib.util.spec_from_file_location("reference", PATH)
assert spec is not None and spec.loader is not None
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)


def test_every_namespace_has_a_page(tmp_path):
    reference.write(tmp_path / "api")
    pages = {p.stem for p in (tmp_path / "api").glob("*.md")}
    assert pages == {*reference.NAMESPACES, "index", "parity"}
    differences = (tmp_path / "api" / "parity.md").read_text(encoding="utf-8")
    assert differences.count("\n| `") > 40
    text = (tmp_path / "api" / "gpuarray.numpy.md").read_text(encoding="utf-8")
    missing = [n for n in dir(gnp) if n[0] != "_" and callable(getattr(gnp, n))
               and f"## {n}\n" not in text]  # fmt: skip
    assert not missing
    assert "numpy.clip(" in text and ">>> import gpuarray.numpy as gnp" in text


def test_the_page_of_names_is_that_of_this_library():
    found = reference.NAMES.read_text(encoding="utf-8")
    assert found == reference.names(), "docs/names.md is out of date: run python docs/reference.py"


def test_prose_means_itself():
    doc = "Sum of *args and `x*y`, see :func:`a.b`.\n\n>>> f(1)\n2\n\nThe end: a_b <c>."
    assert reference.markdown(doc) == (
        "Sum of \\*args and `x*y`, see `a.b`.\n\n```python\n>>> f(1)\n2\n```\n\n"
        "The end: a\\_b \\<c\\>.\n"
    )
    assert "Floor" not in reference.markdown("Purpose.\n\nFloor 6. In: x. Out: y.")


def test_public_functions_have_docstrings():
    bare = [
        f"{space}.{member}"
        for space in reference.NAMESPACES
        for member, value in reference.members(importlib.import_module(space))
        if callable(value)
        and str(getattr(value, "__module__", "")).startswith("gpuarray")
        and not (getattr(value, "__doc__", None) or "").strip()
    ]
    assert not bare, f"{len(bare)} without a docstring: {bare[:20]}"
