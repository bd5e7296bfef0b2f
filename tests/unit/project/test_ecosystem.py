"""The harness of ci/ecosystem: which failures count, and what the documentation says."""

import json
import re

from tests.ecosystem.__main__ import IN_JAX, SUITES, Known, judge, known_failures, read
from tests.support import ROOT

REPORT = """<testsuites><testsuite>
<testcase classname="a_test.T" name="test_good"/>
<testcase classname="a_test.T" name="test_bad">
<failure message="E: 1&#10;more">x</failure></testcase>
<testcase classname="a_test.T" name="test_left"><skipped/></testcase>
<testcase classname="" name=".b_test"><error message="collection failure">x</error></testcase>
</testsuite></testsuites>"""


def test_a_report_is_read(tmp_path):
    path = tmp_path / "report.xml"
    path.write_text(REPORT)
    found = read(path)
    assert (found.passed, found.skipped) == (1, 1)
    assert found.failures == {"a_test.T.test_bad": "E: 1", "..b_test": "collection failure"}


def test_failures_that_nobody_knows_count():
    entries = [
        Known("a", "test_bad", "no HLO here", False),
        Known("a", "test_gone", "was mended", False),
        Known("b", "test_other", "of another suite", False),
    ]
    verdict = judge("a", ["a_test.T.test_bad", "a_test.T.test_other"], entries)
    assert verdict.unknown == ["a_test.T.test_other"]
    counts = [(entry.name, len(names)) for entry, names in verdict.known]
    assert counts == [("test_bad", 1), ("test_gone", 0)]


def test_known_failures_are_of_a_suite_and_say_why():
    in_jax = json.loads(IN_JAX.read_text(encoding="utf-8"))
    names = {suite.name for suite in SUITES}
    assert names >= in_jax.keys()
    for entry in known_failures():
        assert entry.suite in names and len(entry.reason) > 10, entry
        if entry.suite in in_jax:  # what is said of JAX is what was run
            failed = in_jax[entry.suite]["failed"]
            assert any(re.search(entry.name, f) for f in failed) == entry.jax_too, entry


def test_the_documentation_has_every_library_in_its_version():
    table = (ROOT / "docs" / "interop.md").read_text(encoding="utf-8")
    text = (ROOT / "tests" / "ecosystem" / "requirements.txt").read_text(encoding="utf-8")
    libraries = text.split("# The libraries.")[1].split("# What they need.")[0]
    for name, version in re.findall(r"^([\w-]+)==([\w.]+)", libraries, re.MULTILINE):
        if name != "tfp-nightly":  # in words
            assert f"| {name} {version}" in table, f"{name} {version} is not in docs/interop.md"
