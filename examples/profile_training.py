"""Where a training step spends its time: a trace for Perfetto, and a table of its longest steps.

Run: python examples/profile_training.py [FOLDER]
"""

import collections
import gzip
import json
import sys
from pathlib import Path

import gpuarray as ga
import gpuarray.numpy as gnp


def loss(weights, x, y):
    """Mean squared error of a network of two layers."""
    with ga.named_scope("forward"):
        for number, w in enumerate(weights):
            with ga.named_scope(f"layer{number}"):
                x = gnp.tanh(x @ w)
    with ga.named_scope("loss"):
        return gnp.mean((x - y) ** 2)


@ga.jit
def train(weights, x, y):
    """One step of gradient descent."""
    slopes = ga.grad(loss)(weights, x, y)
    with ga.named_scope("update"):
        return [w - 0.1 * g for w, g in zip(weights, slopes, strict=True)]


def main(folder: Path) -> None:
    keys = ga.random.split(ga.random.key(0), 4)
    x, y = (ga.random.normal(k, (2048, 128)) for k in keys[:2])
    weights = [0.1 * ga.random.normal(k, (128, 128)) for k in keys[2:]]
    weights = ga.block_until_ready(train(weights, x, y))  # compiles
    with ga.profiler.trace(folder):
        for number in range(5):
            with ga.profiler.StepTraceAnnotation("train", step_num=number):
                weights = ga.block_until_ready(train(weights, x, y))

    path = max(folder.rglob("*.trace.json.gz"), key=lambda p: p.stat().st_mtime)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    steps = [e for e in events if e.get("cat") == "step"]
    times: collections.Counter[str] = collections.Counter()
    for e in steps:
        times[f"{e['name']}  {e['args']['recorded at']}"] += e["dur"] / 1000
    for what, milliseconds in times.most_common(8):
        print(f"{milliseconds:8.2f} ms  {what}")
    print(f"written: {path}\nopen it at https://ui.perfetto.dev")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/examples"))
