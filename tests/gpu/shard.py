"""A pytest plugin: a share of the tests, each result written as it comes.

In: `-p tests.gpu.shard --share K/N --results FILE`. Out: a line of JSON in FILE for each test, with
how much the GPU was asked for; a later run leaves out what has a line. Tests that ask nothing of a
GPU are left out too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuarray.backends.cuda import device

#: Tests that launch nothing: of registries, of NumPy's rules, of graphs, or on other machines.
LAUNCHES_NOTHING = re.compile(
    r"test_registry\.py|test_simulated\.py|test_primitives_on_gpu\.py|::test_numpy_rule_"
)


def pytest_addoption(parser):
    parser.addoption("--share", default="0/1", help="K/N: every N-th test from number K on")
    parser.addoption("--results", default="", help="a file that gets a line for each test")


def pytest_configure(config):
    if config.getoption("--results"):
        config.pluginmanager.register(Shard(config), "share of the tests")


class Shard:
    """What one process runs."""

    def __init__(self, config):
        share, self.results = config.getoption("--share"), Path(config.getoption("--results"))
        self.first, self.step = map(int, share.split("/"))
        self.found: dict[str, dict] = {}
        self.tickets = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        """Keep this share, without what has a result."""
        done = {line["id"] for line in results_in(self.results)}
        launching = [i for i in items if not LAUNCHES_NOTHING.search(i.nodeid)]
        mine = [i for i in launching[self.first :: self.step] if i.nodeid not in done]
        kept = set(mine)
        config.hook.pytest_deselected(items=[i for i in items if i not in kept])
        items[:] = mine

    def pytest_runtest_logstart(self, nodeid):
        self.tickets = _tickets()

    def pytest_runtest_logreport(self, report):
        line = self.found.setdefault(report.nodeid, {"id": report.nodeid, "outcome": "passed"})
        line["seconds"] = round(line.get("seconds", 0.0) + report.duration, 3)
        if report.outcome != "passed":
            line["outcome"] = report.outcome
            line["why"] = str(report.longrepr)[-1500:]

    def pytest_runtest_logfinish(self, nodeid):
        line = self.found.pop(nodeid) | {"tickets": _tickets() - self.tickets}
        with self.results.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def _tickets() -> int:
    """How many tickets GPUs have drawn, without making any."""
    return sum(g.latest for g in device._gpus)


def results_in(path: Path) -> list[dict]:
    """The lines of a file, but for one that was cut off when its process ended."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
