"""Mistakes in kernels are found: a fixed sample of those that `python -m tests.mutants` tries."""

from __future__ import annotations

import re

import pytest

from tests import alike, mutants
from tests.support import simulated

simulated.need_compiler()


@pytest.fixture(scope="module")
def found() -> list[mutants.Mutant]:
    return mutants.all_mutants(mutants.cases())


def test_mistakes_are_made_everywhere(found):
    by_case = {c.name for m in found if m.where == "kernel" for c in m.cases}
    assert by_case == set(mutants.PROGRAMS) and len(found) > 2000
    assert {"ga_block_reduce", "ga_put", "ga_div", "ga_bf16"} <= {m.where for m in found}
    changes = " ".join(m.change for m in found)
    for word in ("__syncthreads();", "__threadfence();", "atomicInc", "< -> <=", "return; -> noth"):
        assert word in changes


def test_a_sample_of_mistakes_is_found(found):
    tried, left = mutants.survivors(found[7 :: len(found) // 45])
    missed = [str(m) for m in left if not alike.reason(m)]
    # 95 of 100 over all of them; a small sample scatters.
    assert tried >= 30 and len(missed) <= tried // 10, "\n".join(missed)


def test_reasons_belong_to_mistakes(found):
    described = [str(m) for m in found]
    for pattern, why in alike.EQUIVALENT:
        assert any(re.search(pattern, text) for text in described), (pattern, why)


def test_a_kernel_without_a_mistake_survives(found):
    case = found[0].case
    line = case.text.splitlines()[0]
    unchanged = mutants.Mutant((case,), case.text, 0, line, "nothing", "kernel")
    assert mutants.survivors([unchanged]) == (1, [unchanged])
