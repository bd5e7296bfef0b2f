"""Libraries of C functions in the stand-in: what they have made, and what they are to refuse.

In: functions of Python that take C's arguments. Out: functions of C, called through their addresses
with the C types that the caller says; objects that a caller must give back.
"""

from __future__ import annotations

import collections
import ctypes
import itertools
import traceback
from collections.abc import Callable
from typing import Any

from tests.fake_cupy.world import world

_SIZES = {ctypes.c_void_p: 8, ctypes.c_int: 4, ctypes.c_size_t: 8}


class Wrong(Exception):
    """A call that the library answers with a status."""

    def __init__(self, status: int):
        self.status = status


class CLibrary:
    """A library whose functions are added by `function`.

    Attributes
    ----------
    objects : dict
        What was made and not given back yet, by its address.
    refused : dict
        Statuses that functions return instead of doing anything, by name.
    called : Counter
        How often each function was called.
    """

    def __init__(self, name: str, broken: int):
        self.name, self.broken = name, broken
        self.functions: dict[str, Any] = {}
        self.objects: dict[int, Any] = {}
        self.refused: dict[str, int] = {}
        self.called: collections.Counter[str] = collections.Counter()
        self._addresses = itertools.count(0x7E57_0000, 0x10)

    def reset(self) -> None:
        self.objects.clear()
        self.refused.clear()
        self.called.clear()

    def __getattr__(self, name: str) -> Any:
        try:
            return self.functions[name]
        except KeyError:
            raise AttributeError(f"{self.name} has no function {name}") from None

    def function(self, *arguments: Any) -> Callable[[Callable], Callable]:
        """Add a function with these types of arguments, under its Python name."""

        def add(fun: Callable) -> Callable:
            name = fun.__name__

            def answer(*given: Any) -> int:
                self.called[name] += 1
                if name in self.refused:
                    return self.refused[name]
                try:
                    fun(*given)
                except Wrong as error:
                    return error.status
                except Exception:  # would be lost on its way through C
                    world.fault(f"{name}: {traceback.format_exc()}")
                    return self.broken
                return 0

            made = ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(answer)
            self.functions[name] = made
            return fun

        return add

    def make(self, out: int, thing: Any) -> None:
        """Write the address of a new object to where C's caller wants it."""
        address = next(self._addresses)
        self.objects[address] = thing
        ctypes.c_void_p.from_address(out).value = address

    def find(self, address: int, kind: type) -> Any:
        """An object of this kind; a fault where there is none."""
        thing = self.objects.get(address)
        if type(thing) is not kind:
            raise TypeError(f"{address and hex(address)} is {thing!r}, and no {kind.__name__}")
        return thing

    def destroy(self, address: int, kind: type) -> None:
        self.find(address, kind)
        del self.objects[address]

    def check(self) -> None:
        """Everything was given back."""
        for thing in self.objects.values():
            world.fault(f"{self.name}: {thing!r} was never destroyed")
