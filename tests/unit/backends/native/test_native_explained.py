"""What `explain`, `cpp_source` and `profile` say of native code.

In: functions. Out: records and text; nothing is compiled but for profiles.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import gpuarray as ga
import gpuarray.numpy as gnp
from gpuarray import lax, nn
from gpuarray.backends.native import library
from gpuarray.config import config
from tests.support import natively

X = ga.ShapeDtypeStruct((2000, 30), "float32")


def several(x):
    y = nn.softmax(x, -1) * 2
    z = y - gnp.mean(y, 0)
    _, ys = lax.scan(lambda c, r: (c * 0.5 + r, gnp.sum(c)), gnp.zeros(30), z)
    return gnp.sort(ys), gnp.sum(z * z, 1)


def branches(x):
    n, y = lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 1, gnp.sin(s[1])), (0, x[0]))
    return lax.cond(n > 3, lambda y: y * 2, lambda y: gnp.exp(y), y)


def test_steps_have_their_calls_and_numpy_has_reasons():
    e = ga.explain(several, platform="native")(X)
    calls = {s.name: s.facts["call"] for s in e.steps}
    assert set(calls.values()) == {"routine0", "NumPy", "k3_rows"}
    (sort,) = [s for s in e.steps if s.facts["call"] == "NumPy"]
    assert sort.ops == ("sort",)
    assert "vector instructions" in sort.facts["why"]
    assert e.remarks == ("native code: 2 calls; NumPy runs sort",)
    # One launch for each call, and one for the sort.
    assert e.launches == 3
    assert all(s.user_lines for s in e.steps)


def test_loops_show_their_bodies():
    e = ga.explain(several, platform="native")(X)
    (scan,) = [s for s in e.steps if s.ops == ("scan",)]
    assert (scan.kind, scan.facts["turns"]) == ("loop", 2000)
    assert [s.ops for s in scan.body] == [("mul", "add", "reduce_sum")]
    e = ga.explain(branches, platform="native")(X)
    inside = {s.ops[0]: [b.name.split(":")[0] for b in s.body] for s in e.steps if s.body}
    assert inside == {"while": ["condition", "body", "body"], "cond": ["branch 0", "branch 1"]}
    for name in ("condition: k0_map", "branch 1: k0_map"):
        assert name in str(e)
        assert name in e.to_html()


def test_text_svg_and_html():
    e = ga.explain(several, platform="native")(X)
    assert "routine0" in str(e) and "library" in str(e)
    assert "call: routine0" in str(e.kernels[0])
    ElementTree.fromstring(e.to_svg())
    page = e.to_html()
    assert page.count("<details>") == sum(bool(s.source) for s in e.steps) >= 4
    assert "GA_TASKS" in page


def test_the_text_shown_has_the_users_lines_and_the_text_compiled_has_not():
    shown = ga.jit(several).lower(X).cpp_source()
    assert "test_native_explained.py:" in shown
    assert "// library sort(f32[2000]) -> f32[2000]: NumPy runs it" in shown
    assert ga.jit(several).lower(X).compile().cpp_source() == shown
    written = natively.written(ga.jit(several).lower(X).jaxpr)
    for source in written.kernels:
        assert "test_native_explained.py" not in source.text
        # But for comments they are the same.
        code = [re.sub(r" *//.*", "", line) for line in source.text.splitlines()]
        assert set(filter(str.strip, code)) <= {
            re.sub(r" *//.*", "", x) for x in shown.splitlines()
        }


def test_the_setting_decides_what_a_cpu_shows():
    assert "call" not in ga.explain(several)(X).steps[0].facts
    config.update("native", "auto")
    assert ga.explain(several)(X).steps[0].facts["call"] == "routine0"
    assert ga.explain(several, platform="cuda")(X).steps[0].grid
    config.update("native", "off")
    with pytest.raises(ValueError, match="'native'"):
        ga.explain(several, platform="rocm")


def test_a_donated_array_that_changes_where_it_is():
    f = ga.jit(lambda x: x.at[0].set(1.0).at[1].set(2.0), donate_argnums=0)
    (step,) = ga.explain(f, platform="native")(ga.ShapeDtypeStruct((9,), "float32")).steps
    assert "donated" in step.facts["why"]


def test_a_profile_names_routines_and_kernels():
    natively.need_compiler()
    x = np.ones((2000, 30), "float32")
    config.update("native", "wait")
    found = ga.profile(several)(x)
    assert library.loaded()
    names = [s.name for s in found.steps]
    assert names[0].startswith("routine0: k0_rows k1_columns")
    assert names[0].endswith("scan")
    assert "sort" in names and "k3_rows" in names
    for step in found.steps:
        assert step.seconds > 0
        assert step.nbytes
        assert "test_native_explained.py:" in step.lines


@pytest.mark.parametrize("platform", ["cpu", "native", "cuda", None])
def test_programs_around_a_key(platform):
    key = ga.random.key(0)

    def drawn(x):
        def turn(i, x):
            return x + ga.random.normal(ga.random.fold_in(key, i), x.shape)

        return lax.fori_loop(0, 3, turn, x) + ga.random.uniform(key)

    e = ga.explain(drawn, platform=platform)(X)
    assert e.steps
    assert ga.jit(drawn).lower(X).cpp_source()
