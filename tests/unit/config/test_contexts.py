"""What contexts set for a block is as before behind it, whatever ends the block.

Interrupts (Ctrl-C) come anywhere, and a recursion that is too deep ends anywhere: in the block,
where it is entered, where it is left. Compared is all that the package keeps of a thread, so a
context that is written later is held to the same.
"""

import dis
import functools
import gc
import inspect
import itertools
import sys
import threading

import numpy as np
import pytest

import gpuarray as ga
from gpuarray import lax, sharding, sites
from gpuarray.experimental.pallas import programs
from gpuarray.extend import source_info_util as places
from tests.unit.runtime.test_failures import PACKAGE

MESH = ga.make_mesh((1,), ("x",))
USERS = ga.make_user_context(1)

CONTEXTS = {
    "x64": lambda: ga.enable_x64(True),
    "several settings": lambda: ga.transfer_guard("log"),
    "no traced setting": lambda: ga.checking_leaks(),
    "mesh": lambda: ga.set_mesh(MESH),
    "axes of a mesh": lambda: sharding.use_abstract_mesh(MESH.abstract_mesh),
    "named scope": lambda: ga.named_scope("inner"),
    "user's": lambda: USERS(5),
    "place": lambda: places.set_name_stack(places.new_name_stack("inner")),
    "grid": lambda: programs.at((0,), (1,)),
}


def block(name):
    with CONTEXTS[name]():
        return ga.config.jax_enable_x64


def named_axis(name="i"):
    return ga.vmap(lambda x: lax.psum(x, name), axis_name=name)(np.ones(2))


RUNS = {name: lambda name=name: block(name) for name in CONTEXTS} | {"named axis": named_axis}

#: What is found or made again, and nothing depends on.
MEMOS = {"_Lookups", "_Local", "_Recorders"}


def locals_of_threads():
    """Every `threading.local` of the package."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "gpuarray":
            for value in vars(module).values():
                if isinstance(value, threading.local) and type(value).__name__ not in MEMOS:
                    found[id(value)] = value
    return list(found.values())


LOCALS = locals_of_threads()


def kept():
    """All that the package keeps of this thread."""
    return [dict(vars(value)) for value in LOCALS], dict(sites.scopes)


@functools.cache
def interruptible(code):
    """Where in a function Python looks for signals: where it begins or goes on, behind calls, and
    where loops turn.
    """
    steps = list(dis.get_instructions(code))
    looks = ("RESUME", "CALL", "JUMP_BACKWARD")
    return {
        later.offset
        for step, later in itertools.pairwise(steps)
        if step.opname.startswith(looks)
        # Before an `__exit__` could do anything, Python has nobody else to ask.
        and not (code.co_name == "__exit__" and step.opname == "RESUME")
    }


def raise_at(count, run):
    """Call `run` with an interrupt at the `count`-th place of the package that can have one;
    whether it came to it.
    """
    left = [count]

    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in interruptible(frame.f_code):
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    old = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(old)
        gc.enable()
    return left[0] <= 0


# `set_mesh(…)` sets it at the call, where no block is known of.
@pytest.mark.parametrize("name", [name for name in CONTEXTS if name != "mesh"])
def test_an_interrupt_anywhere_leaves_nothing_set(name):
    run = RUNS[name]
    # For the caches, and because Python 3.12 has no events of opcodes before a frame asks for them.
    raise_at(sys.maxsize, run)
    before, count = kept(), 1
    while raise_at(count, run):
        assert kept() == before, f"place {count}"
        count += 1
    assert count > 5  # there are so many places, or nothing was tried
    assert kept() == before


@pytest.mark.parametrize("name", RUNS)
def test_too_deep_a_recursion_leaves_nothing_set(name):
    run = RUNS[name]

    def down(levels):
        return run() if levels == 0 else down(levels - 1)

    run()
    before, ends = kept(), set()
    room = sys.getrecursionlimit() - len(inspect.stack())
    for left in range(3, 40):
        try:
            down(room - left)
            ends.add("done")
        except RecursionError:
            ends.add("too deep")
        assert kept() == before, f"{left} levels left"
    assert "too deep" in ends


def test_settings_changed_in_a_block_hold_behind_it():
    """Where it is left, only what it set itself is taken back."""
    outer, inner = ga.debug_nans(True), ga.numpy_rank_promotion("raise")
    try:
        with outer:
            ga.config.update("jax_numpy_rank_promotion", "warn")
            ga.config.update("jax_debug_nans", True)
        assert ga.config.jax_debug_nans
        assert ga.config.jax_numpy_rank_promotion == "warn"
        outer.__enter__()
        inner.__enter__()
        outer.__exit__()  # the outer one first
        assert ga.config.jax_numpy_rank_promotion == "raise"
        inner.__exit__()
        assert ga.config.jax_numpy_rank_promotion == "warn"
    finally:
        ga.config.update("jax_debug_nans", False)
        ga.config.update("jax_numpy_rank_promotion", "allow")
    assert not ga.config.jax_debug_nans
