"""Programs over several GPUs: `python -m tests.gpu.devices GROUP`, a line of JSON for each body.

In: the name of a group of bodies (tests/support/exchanges.py). Out: whether each gives what `vmap`
says on the CPU; the exit status is 1 where one does not. Where there is one GPU, four logical ones
share it; where there are more, each takes part, with NCCL if that is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np

import gpuarray as ga
from gpuarray.backends.cuda import device, nccl
from gpuarray.config import config
from gpuarray.sharding import Mesh
from tests.support.exchanges import BODIES, check

#: Bodies by what they show.
GROUPS = {
    "sums": [n for n in BODIES if n.startswith(("psum", "pmean"))],
    "extremes": [n for n in BODIES if n.startswith(("pmax", "pmin"))],
    "moves": [
        n
        for n in BODIES
        if n.startswith(("all_", "gathers_", "scatters_", "ppermute", "axis_index"))
    ],
    "programs": ["in_turn", "scan", "while", "cond", "gradient"],
}
#: How many logical GPUs share one.
LOGICAL = 4


def answers(group: str) -> list[dict]:
    """Run the bodies of a group on all GPUs."""
    mesh = Mesh(np.array(ga.devices("gpu")), ("x",))
    engine = type(nccl.engine(device.gpus(), {"x": mesh.size})).__name__
    found = []
    for name in GROUPS[group]:
        start = time.perf_counter()
        try:
            check(name, mesh)
            answer = {"ok": True}
        except Exception as error:
            answer = {"ok": False, "why": f"{type(error).__name__}: {error}"[:2000]}
        seconds = round(time.perf_counter() - start, 2)
        place = {"gpus": mesh.size, "engine": engine, "seconds": seconds}
        found.append({"name": f"{group}-{name}", **answer, **place})
    return found


def main() -> int:
    """Run the groups that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("groups", nargs="*")
    given = parser.parse_args().groups
    if device.cupy.cuda.runtime.getDeviceCount() == 1:
        config.update("num_gpu_devices", LOGICAL)
    # What is compared closely is not to be rounded to TF32.
    config.update("jax_default_matmul_precision", "highest")
    good = True
    for group in given or GROUPS:
        for answer in answers(group):
            good &= answer["ok"]
            print(json.dumps(answer), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
