"""Generated fast path of a jitted call: unwrap the arrays, run, wrap the results.

Floor 5. In: an Executable and the structure of the result. Out: a Python function of arrays,
generated for exactly this signature. Anything unusual (another device, a pending or deleted input)
is passed to the general path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuarray import util
from gpuarray.backends.numpy import program as numpy_program
from gpuarray.core.layout import space_in
from gpuarray.core.sharding import Place, Sharding
from gpuarray.pytree import tree
from gpuarray.runtime import device as devices
from gpuarray.runtime import spread
from gpuarray.runtime.array import ArrayImpl
from gpuarray.runtime.execute import Constants, Executable, explained


def fits(executable: Executable) -> bool:
    """Whether calls run on the caller's thread, as the fast path does.

    Heavy work goes to a worker thread, except on a GPU, which is asynchronous. Results in another
    memory than a device's own may have to be moved there.
    """
    if any(map(space_in, executable.out_avals)):
        return False
    return devices.default_place().device.platform == "gpu" or not executable.heavy


def generate(
    executable: Executable, constants: Constants, out_spec: Any, general: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function of the program's inputs (ArrayImpls) for this signature.

    It is specialised to the number of inputs, the structure of the result and the place of new
    arrays; a further one is made for every other place in which all inputs are.
    """
    made: dict[Place, Callable[..., Any]] = {}
    wanted = (None,) * len(executable.out_avals)
    # Three ways, the usual one first: all arguments on the default device, all on another one, or
    # over several.
    over_several = several(executable, constants, wanted, out_spec, general)

    def elsewhere(*arrays: ArrayImpl) -> Any:
        place = arrays[0]._place
        if any(x._place is not place for x in arrays) or place.is_spread:
            return over_several(*arrays)
        # An uncommitted place gives way to the mesh in context.
        if not place.committed and spread.place_of_work(place) is not place:
            return general(*arrays)
        found = made.get(place)
        if found is None:
            found = made[place] = _written(executable, constants, out_spec, place, general, general)
        return found(*arrays)

    place = spread.place_of_work(None)
    return _written(executable, constants, out_spec, place, general, elsewhere)


def several(
    executable: Executable,
    constants: Constants,
    wanted: Sequence[Sharding | None],
    out_spec: Any,
    general: Callable[..., Any],
) -> Callable[..., Any]:
    """Return a function of the inputs for calls over several devices.

    The first call with arrays in new places is a general one; those after it find its team.
    """
    made: dict[tuple, Callable[..., Any] | None] = {}

    def call(*arrays: ArrayImpl) -> Any:
        places = tuple([x._place for x in arrays])
        found = made.get(places)
        if found is not None:
            return found(arrays)
        out = general(*arrays)
        if places not in made:
            # A bound, for programs whose arrays come from ever new places.
            if len(made) >= 64:
                made.clear()
            team = spread.known_team(executable, places, wanted, constants.values)
            usable = team is not None and _direct(team, places)
            made[places] = _with_team(team, places) if usable and team is not None else None
        return out

    def _with_team(team: spread.Team, places: tuple[Place, ...]) -> Callable[..., Any]:
        count = sum(device.is_addressable for device in team.grid.devices)
        # Constants do not change from call to call: their buffers are found once.
        behind = spread.constant_rows(team, executable, constants.values)
        ones = [p.is_single for p in places]
        results = list(zip(team.out_avals, team.out_places, strict=True))

        def run(arrays: tuple[ArrayImpl, ...]) -> Any:
            # Taken before anything runs: an array that is deleted meanwhile does not touch this
            # call.
            rows = [x._bufs for x in arrays]
            if None in rows:  # pending or deleted
                return general(*arrays)
            rows = [
                # CPU devices share memory: an array on one of them is on all of them.
                row * count if one else row  # pyright: ignore[reportOptionalOperand]
                for row, one in zip(rows, ones, strict=True)
            ]
            out = team.fleet([*rows, *behind])  # pyright: ignore[reportArgumentType]
            return tree.unflatten_raw(
                out_spec, [ArrayImpl(a, p, b) for (a, p), b in zip(results, out, strict=True)]
            )

        return run

    return call


def _direct(team: spread.Team, places: tuple[Place, ...]) -> bool:
    """Return whether a team takes arrays in these places without a move."""
    # Each GPU needs a copy of an array on one device.
    shared = team.grid.devices[0].platform != "gpu"
    return not team.heavy and all(
        wanted is place or (shared and place.is_single and not any(spec))
        for wanted, place, spec in zip(team.in_places, places, team.parts.ins, strict=False)
    )


def _written(
    executable: Executable,
    constants: Constants,
    out_spec: Any,
    place: Place,
    general: Callable[..., Any],
    elsewhere: Callable[..., Any],
) -> Callable[..., Any]:
    """Generate the function for arrays in one place."""
    # Constants are bound as variables of the generated function.
    behind = constants.on(place.device)
    count = len(executable.in_avals) - len(behind)
    program = executable.on(place.device)
    # Names that the generated text uses.
    space: dict[str, Any] = {
        "Array": ArrayImpl,
        "local": numpy_program.local,
        "plan": program.run,
        "place": place,
        "general": general,
        "elsewhere": elsewhere,
        "unflatten": tree.unflatten_raw,
        "spec": out_spec,
        "program": program,
        "explained": explained,
        "renewed": numpy_program.renewed,
        **{f"c{i}": x for i, x in enumerate(behind)},
    }
    args = [f"a{i}" for i in range(count)]
    arglist = ", ".join(args)
    lines = [f"def fast({arglist}):"]
    # First test the places, then take the buffers: two checks in all.
    if args:
        unlike = " or ".join(f"{a}._place is not place" for a in args)
        lines += [f"    if {unlike}:", f"        return elsewhere({arglist})"]
        buffers = ", ".join(f"{a}._bufs[0]" for a in args)
        # A tuple also where there is one argument.
        trailing = "," if count == 1 else ""
        lines += [
            "    try:",
            f"        buffers = {buffers}{trailing}",
            "    except TypeError:  # pending or deleted",
            f"        return general({arglist})",
        ]
    given = ["*buffers"] * bool(args) + [f"c{i}" for i in range(len(behind))]
    if program.gpu is None:
        run = f"local.run({', '.join(['plan', *given])})"
    else:
        run = f"plan({', '.join(given)})"
    # The program runs twice only if this thread's scratch state had to be renewed.
    lines += [
        "    try:",
        f"        out = {run}",
        "    except Exception as error:",
        "        if not renewed(error):",
        "            raise explained(program, error) from None",
        f"        out = {run}",
    ]
    # Wrap each result, and spell out the structure.
    results = []
    for i, aval in enumerate(executable.out_avals):
        space[f"aval{i}"], space[f"place{i}"] = aval, place.holding(aval)
        results.append(f"Array(aval{i}, place{i}, [out[{i}]])")
    lines.append(f"    return {_structure(out_spec, results)}")
    return util.function_of_text("\n".join(lines), "<fast>", space)


def _structure(spec: Any, results: list[str]) -> str:
    """Return the result's structure as an expression.

    A leaf, or a plain tuple, list or dict of leaves, is spelled out, which is faster than
    unflatten.
    """
    node = spec.node_data()
    if node is None:
        return results[0]
    if all(child.node_data() is None and child.num_leaves for child in spec.children()):
        kind, keys = node
        if kind is tuple:
            return f"({', '.join(results)}{',' * (len(results) == 1)})"
        if kind is list:
            return f"[{', '.join(results)}]"
        if kind is dict and all(type(k) is str for k in keys):
            return "{" + ", ".join(f"{k!r}: {r}" for k, r in zip(keys, results, strict=True)) + "}"
    return f"unflatten(spec, [{', '.join(results)}])"
