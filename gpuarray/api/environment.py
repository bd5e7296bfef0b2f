"""The facts about the machine and its settings that a bug report needs.

Floor 6. In: nothing. Out: lines of text.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np

from gpuarray.backends.cuda.availability import distributions
from gpuarray.runtime import device as devices
from gpuarray.version import JAX_VERSION


def print_environment_info(return_string: bool = False) -> str | None:
    """Print versions, devices and environment settings; `python -m gpuarray` prints more.

    With `return_string` return the text instead.

    >>> import gpuarray as ga
    >>> ga.print_environment_info(return_string=True).split(":")[0]
    'gpuarray'
    """
    found = devices.devices()
    kinds = ", ".join(dict.fromkeys(d.device_kind for d in found))
    here = devices.local_device_count()
    cupys = ", ".join(f"{name} {version}" for name, version in distributions())
    lines = [
        f"gpuarray: {sys.modules['gpuarray'].__version__}",
        # In JAX's words, which its users and their tools look for.
        f"jax:    {JAX_VERSION} (the names of gpuarray)",
        f"jaxlib: {JAX_VERSION} (the names of gpuarray)",
        f"numpy:  {np.__version__}",
        f"cupy: {cupys or 'not installed'}",
        f"python: {sys.version}".replace("\n", " "),
        f"devices: {len(found)} x {kinds}, {here} of them in this process",
        f"processes: {devices.process_count()}",
        f"platform: {platform.platform()}",
    ]
    prefixes = ("GPUARRAY_", "JAX_", "CUDA_")
    lines += [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(prefixes)]
    lines += _nvidia_smi()
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None


def _nvidia_smi() -> list[str]:
    try:
        done = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):  # no driver, or one that does not answer
        return []
    return ["", "$ nvidia-smi", done.stdout.rstrip()]
