"""The generated fast path of a jitted call: unwrap, run, wrap, with nothing in between.

Floor 5. In: an Executable and the structure of the result. Out: a Python function of arrays,
written for exactly this signature. Anything unusual (another device, a pending or deleted input)
goes to the general way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuarray.core import tree
from gpuarray.drivers import numpy as driver
from gpuarray.runtime import device as devices
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.execute import Executable, explained


def generate(
    executable: Executable, out_spec: Any, general: Callable[..., Any]
) -> Callable[..., Any]:
    """A function of the program's inputs as ArrayImpls, specialised to their number and the
    result's structure.
    """
    count = len(executable.in_avals)
    place = devices.default_place()
    executable = executable.on(place.device.platform)
    space: dict[str, Any] = {
        "Array": ArrayImpl,
        "local": driver.local,
        "plan": executable.run,
        "place": place,
        "general": general,
        "unflatten": tree.unflatten_raw,
        "spec": out_spec,
        "executable": executable,
        "explained": explained,
    }
    args = [f"a{i}" for i in range(count)]
    arglist = ", ".join(args)
    lines = [f"def fast({arglist}):"]
    if args:
        elsewhere = " or ".join(f"{a}._place is not place" for a in args)
        lines += [f"    if {elsewhere}:", f"        return general({arglist})"]
        buffers = ", ".join(f"{a}._bufs[0]" for a in args)
        trailing = "," if count == 1 else ""
        lines += [
            "    try:",
            f"        buffers = {buffers}{trailing}",
            "    except TypeError:  # pending or deleted",
            f"        return general({arglist})",
        ]
    lines += [
        "    try:",
        f"        out = local.run(plan{', *buffers' if args else ''})",
        "    except Exception as error:",
        "        raise explained(executable, error) from None",
    ]
    results = []
    for i, aval in enumerate(executable.out_avals):
        space[f"aval{i}"] = aval
        results.append(f"Array(aval{i}, place, [out[{i}]])")
    lines.append(f"    return {_structure(out_spec, results)}")
    exec("\n".join(lines), space)  # noqa: S102 - text made here, of generated names only
    return space["fast"]


def _structure(spec: Any, results: list[str]) -> str:
    """The result's structure as an expression, spelled out where it is a leaf or a plain tuple or
    list.
    """
    trial: Any = tree.unflatten_raw(spec, range(len(results)))
    numbers = list(range(len(results)))
    if type(trial) is int and len(results) == 1:
        return results[0]
    if type(trial) in (tuple, list) and list(trial) == numbers:  # pyright: ignore
        left, right = "()" if type(trial) is tuple else "[]"
        comma = "," if type(trial) is tuple and len(results) == 1 else ""
        return f"{left}{', '.join(results)}{comma}{right}"
    if (
        type(trial) is dict
        and list(trial.values()) == numbers
        and all(type(k) is str for k in trial)
    ):
        return "{" + ", ".join(f"{k!r}: {r}" for k, r in zip(trial, results, strict=True)) + "}"
    return f"unflatten(spec, [{', '.join(results)}])"
