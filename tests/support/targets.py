"""Another machine to plan for: thresholds with other values, for as long as a test runs."""

from __future__ import annotations

import sys

import pytest

from gpuarray.core import target
from gpuarray.core.target import Target


def plan_for(monkeypatch: pytest.MonkeyPatch, **changes: float) -> Target:
    """Plan for a target that differs in these fields, wherever the compiler asks for one, and in
    those that a call before has changed.
    """
    before = target.TARGET
    made = before.replace(**changes)
    for name, module in list(sys.modules.items()):
        if name.startswith("gpuarray.") and vars(module).get("TARGET") is before:
            monkeypatch.setattr(module, "TARGET", made)
    return made
