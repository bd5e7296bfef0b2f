"""Another machine to plan for: thresholds with other values, for as long as a test runs."""

from __future__ import annotations

import sys

import pytest

from gpuarray.core.target import TARGET, Target


def plan_for(monkeypatch: pytest.MonkeyPatch, **changes: float) -> Target:
    """Plan for a target that differs in these fields, wherever the compiler asks for one."""
    made = TARGET.replace(**changes)
    for name, module in list(sys.modules.items()):
        if name.startswith("gpuarray.") and vars(module).get("TARGET") is TARGET:
            monkeypatch.setattr(module, "TARGET", made)
    return made
