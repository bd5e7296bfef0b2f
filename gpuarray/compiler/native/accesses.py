"""Patterns in accesses of native code: choices of places, expensive parts, positions read early.

Floor 3. In: access trees (core/element.py). Out: the parts of them that a writer treats specially.
"""

from __future__ import annotations

from gpuarray.core.element import (
    Access,
    Address,
    Applied,
    Element,
    Guarded,
    Lookup,
    Test,
    atoms,
    parts,
    places_of,
)
from gpuarray.core.index import Index, axes_of
from gpuarray.core.target import PROCESSOR


def chosen_from(access: Access) -> tuple[list[Element], list[Test]]:
    """The elements that nested choices choose between, and the tests that decide; both empty if
    they choose between anything else.
    """
    leaves: list[Element] = []
    tests: list[Test] = []
    waiting = [access]
    while waiting:
        top = waiting.pop()
        if isinstance(top, Guarded):
            tests += top.tests
            waiting += [top.outside, top.inside]
        elif isinstance(top, Element):
            leaves.append(top)
        else:
            return [], []
    return leaves, tests


def always_read(access: Access) -> list[Element]:
    """The elements that an access reads whatever its guards say."""
    found: list[Element] = []
    waiting = [access]
    while waiting:
        top = waiting.pop()
        if isinstance(top, Element):
            found.append(top)
        elif isinstance(top, Applied):
            waiting += reversed(top.operands)
    return list(dict.fromkeys(found))


def searches(access: Access) -> bool:
    """Whether some part of an access has a function for a row of elements."""
    return any(isinstance(part, Applied) and part.each for part in parts(access))


def heavy_parts(access: Access, known: set[int]) -> list[Applied]:
    """The largest parts of an access that are computed whatever its guards say, take long, and vary
    along `known` axes alone.
    """
    found: list[Applied] = []
    waiting = [access]
    while waiting:
        top = waiting.pop()
        if not isinstance(top, Applied):
            continue
        if all(axes_of(index) <= known for index in places_of(top)):
            # The whole part becomes one name, not only the heavy operation in it.
            found += [top] if any(map(_is_heavy, parts(top))) else []
        else:
            waiting += reversed(top.operands)
    return list(dict.fromkeys(found))


def _is_heavy(access: Access) -> bool:
    """Whether an access is an operation of some length; those without equation call the prelude."""
    if not isinstance(access, Applied):
        return False
    return access.eqn is None or access.eqn.primitive.weight > PROCESSOR.worth_keeping


def always_looked_up(access: Access) -> list[Lookup]:
    """The positions that an access looks up whatever its guards say."""
    found: list[Lookup] = []
    waiting = [access]
    while waiting:
        top = waiting.pop()
        places: list[Index] = []
        if isinstance(top, Guarded):
            # Lookups inside a choice happen only if its tests hold, so they are not included.
            places = [t.index for t in top.tests]
        elif isinstance(top, Element | Address):
            places = [top.index]
        elif isinstance(top, Applied):
            places = list(top.places)
            waiting += reversed(top.operands)
        found += [a for index in places for a in atoms(index) if isinstance(a, Lookup)]
    return found
