"""Einstein summation: any product and sum of arrays, named by index letters.

Floor 6. In: subscripts such as "ij,jk->ik" and arrays. Out: a chain of pairwise contractions, in an
order that opt_einsum finds where there are more than two operands.
"""

from __future__ import annotations

import functools
import string
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuarray import lax
from gpuarray.core import dtypes, promotion
from gpuarray.core.avals import aval_of
from gpuarray.core.dims import Dim
from gpuarray.core.layout import out_given
from gpuarray.core.value import Array
from gpuarray.functions.explicit import as_program, makes_terms
from gpuarray.numpy.axes import moveaxis, transpose
from gpuarray.numpy.construct import as_type
from gpuarray.numpy.operands import arrays, no_out
from gpuarray.numpy.products import diagonal
from gpuarray.numpy.promotion import convert
from gpuarray.primitives.sums import check_product
from gpuarray.runtime.transfer import placed
from gpuarray.util import lazy_module

opt_einsum = lazy_module("opt_einsum")


def einsum(
    subscripts,
    /,
    *operands,
    out=None,
    optimize: Any = "auto",
    precision=None,
    preferred_element_type=None,
    _dot_general=None,
    out_sharding=None,
) -> Array:
    """The sum over all indices that the result does not name, of products of elements.

    Parameters
    ----------
    subscripts :
        Text such as "ij,jk->ik". Without "->" the result has the indices that occur once, in
        alphabetical order; "..." represents leading axes, which broadcast. Instead of a text,
        operands may alternate with lists of index numbers.
    optimize :
        How opt_einsum looks for the order of contractions.

    Examples
    --------

    >>> import gpuarray.numpy as gnp
    >>> gnp.einsum("ij,j->i", gnp.array([[1, 2], [3, 4]]), gnp.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    if makes_terms(out_sharding):
        options = {"optimize": optimize, "precision": precision, "_dot_general": _dot_general}
        options |= {"preferred_element_type": preferred_element_type, "out_sharding": out_sharding}
        return as_program(einsum, subscripts, *operands, **options)
    no_out("einsum", out)
    spec, given = _as_string(subscripts, operands)
    xs = arrays("einsum", *given)
    # The order of contractions depends on subscripts and shapes alone, and is kept.
    steps = _plan(spec, tuple(x.shape for x in xs), _hashable(optimize))
    # Promoted once, before the first product; if a dtype is requested, operands keep their own.
    if preferred_element_type is None:
        kind, weak = promotion.lattice_result_type(*xs)
        terms = [convert(x, kind, False) for x in xs]
    else:
        kind, weak = dtypes.check_user_dtype(preferred_element_type, "einsum"), False
        terms = [*xs]
    dot_general = _dot_general or lax.dot_general
    if out_sharding is not None and len(steps) == 1:
        # None of several products is the one that the option refers to.
        dot_general = functools.partial(_checked, dot_general, out_sharding)
    # opt_einsum's convention: terms are popped, results are appended.
    with out_given(out_sharding):
        for chosen, labels, result in steps:
            taken = [terms.pop(i) for i in chosen]
            if len(taken) == 1:
                terms.append(_single(taken[0], labels[0], result, kind))
            else:
                terms.append(_pair(taken, labels, result, precision, kind, dot_general))
    out = as_type(terms[0], kind, weak)
    return out if out_sharding is None else placed("einsum", out, out_sharding)


def _checked(dot_general: Callable, out_sharding: Any, a: Any, b: Any, dims: Any, **options: Any):
    check_product(aval_of(a), aval_of(b), dims[0], out_sharding)
    return dot_general(a, b, dims, **options)


def einsum_path(subscripts, /, *operands, optimize: Any = "auto") -> tuple[list[Any], Any]:
    """The order in which `einsum` would contract, and opt_einsum's account of its cost.

    >>> import gpuarray.numpy as gnp
    >>> gnp.einsum_path("ij,jk->ik", gnp.ones((2, 3)), gnp.ones((3, 4)))[0]
    [(0, 1)]
    """
    spec, given = _as_string(subscripts, operands)
    xs = arrays("einsum_path", *given)
    # As np.einsum does then.
    if optimize is False and len(xs) > 1:  # pairs from left to right
        optimize = [(0, 1)] * (len(xs) - 1)
    return opt_einsum.contract_path(
        spec, *[x.shape for x in xs], shapes=True, optimize=_optimizer(optimize)
    )


# ---- reading subscripts ---------------------------------------------------------------------


def _as_string(subscripts, operands: tuple) -> tuple[str, tuple]:
    if isinstance(subscripts, str):
        return subscripts.replace(" ", ""), operands
    # Operands and index lists in turn; an odd one at the end is the result's.
    items = (subscripts, *operands)
    lists = [*items[1::2]] if len(items) % 2 == 0 else [*items[1::2], items[-1]]
    # NumPy's other notation: einsum(a, [0, 1], b, [1, 2], [0, 2]).
    # Numbers become letters, so that everything below reads one notation.
    names: dict[Any, str] = {}
    letters = iter(string.ascii_letters)
    known = sorted({i for entry in lists for i in entry if i is not Ellipsis})
    for i in known:  # in order, so that an implicit result is in order too
        names[i] = next(letters)
    terms = ["".join("..." if i is Ellipsis else names[i] for i in entry) for entry in lists]
    if len(items) % 2 == 0:
        return ",".join(terms), items[::2]
    return ",".join(terms[:-1]) + "->" + terms[-1], items[:-1:2]


def _hashable(optimize):
    return tuple(map(_hashable, optimize)) if isinstance(optimize, (list, tuple)) else optimize


def _optimizer(optimize):
    """Return the option for opt_einsum: True is its greedy algorithm, False no optimisation."""
    if optimize is False:
        return False
    if optimize is True:
        return "greedy"
    return list(optimize) if isinstance(optimize, tuple) else optimize


#: The length that a symbolic axis counts as where an order of contractions is chosen.
_SYMBOLIC = 8


@functools.lru_cache(maxsize=4096)
def _plan(spec: str, shapes: tuple[tuple[int, ...], ...], optimize) -> list[tuple]:
    """The contractions: (which terms, their labels, the result's labels), every term popped in that
    order.
    """
    terms, result = _labels(spec, shapes)
    sizes = _sizes(terms, shapes)
    # One term: sums and diagonals only. Two: there is but one order.
    if len(terms) == 1:
        return [((0,), (terms[0],), result)]
    if len(terms) == 2:
        order: Any = [(0, 1)]
    else:
        # opt_einsum uses the broadcast lengths, and rejects a 1 among them.
        known = {c: _SYMBOLIC if isinstance(n, Dim) else n for c, n in sizes.items()}
        full = [tuple(known[c] for c in t) for t in terms]
        order, _ = opt_einsum.contract_path(
            ",".join(terms) + "->" + result, *full, shapes=True, optimize=_optimizer(optimize)
        )
    # A stretched axis (length 1 where another operand has more) is marked by "1" and squeezed away.
    live = [
        "".join(c if n == sizes[c] else "1" for c, n in zip(t, shape, strict=True))
        for t, shape in zip(terms, shapes, strict=True)
    ]
    steps = []
    for chosen in order:
        # From the back, so that popping one does not move the others.
        positions = tuple(sorted(chosen, reverse=True))
        taken = [live.pop(i) for i in positions]
        while len(taken) > 2:  # a path may name more than two together
            inside = set("".join(taken[2:])) | set("".join(live)) | set(result)
            made = _joined(taken[0], taken[1], inside)
            steps.append((positions[:2], tuple(taken[:2]), made))
            # The intermediate result is last among the remaining terms.
            positions = (len(live) + len(taken) - 2, *positions[2:])
            taken = [made, *taken[2:]]
        # Sum over labels that neither a later step nor the result needs.
        needed = set("".join(live)) | set(result)
        made = _joined(taken[0], taken[1] if len(taken) == 2 else "", needed) if live else result
        steps.append((positions, tuple(taken), made))
        live.append(made)
    return steps


def _joined(first: str, second: str, needed: set[str]) -> str:
    # Batch labels first, as dot_general returns them.
    both = [c for c in first if c in second and c in needed]
    # dict.fromkeys drops repeated labels and keeps the order.
    return "".join(dict.fromkeys([*both, *(c for c in first + second if c in needed and c != "1")]))


def _labels(spec: str, shapes) -> tuple[list[str], str]:
    """One string of letters for each term, with separate letters for the axes of "...", and the
    result's.
    """
    left, arrow, right = spec.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            "Number of einsum subscripts must be equal to the number of operands: got "
            f"{len(terms)} terms in {spec!r} and {len(shapes)} operands."
        )
    for c in spec.replace("->", "").replace("...", "").replace(",", ""):
        if not c.isalnum():
            raise ValueError(
                f"Character '{c}' in einsum subscripts {spec!r} is not a valid symbol."
            )
    # Digits are labels too, and get letters here: "1" is a mark of ours.
    free = (c for c in string.ascii_letters if c not in spec)
    for digit in sorted({c for c in spec if c.isdigit()}):
        spec = spec.replace(digit, next(free))
    left, arrow, right = spec.partition("->")
    terms = left.split(",")
    # The axes of "..." get letters that the subscripts do not use, aligned at the right.
    free = [c for c in string.ascii_letters if c not in spec]
    longest = 0
    for term, shape in zip(terms, shapes, strict=True):
        if "..." in term:
            longest = max(longest, len(shape) - len(term.replace("...", "")))
    dots = "".join(free[-longest:]) if longest else ""
    full = []
    # Spell out every term; operands with fewer leading axes get the last of the letters.
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        if "..." in term:
            count = len(shape) - len(term.replace("...", ""))
            if count >= 0:
                term = term.replace("...", dots[len(dots) - count :], 1)
        if len(term) != len(shape):
            raise ValueError(
                f"Einstein sum subscript '{terms[k]}' does not contain the correct number of "
                f"indices for operand {k}, which has shape {shape}."
            )
        full.append(term)
    # Without an arrow the result has the labels that occur once, in alphabetical order.
    if arrow:
        result = right.replace("...", dots, 1)
    else:
        counts = Counter("".join(full))
        result = dots + "".join(sorted(c for c, n in counts.items() if n == 1 and c not in dots))
    for c in result:
        if not any(c in term for term in full):
            raise ValueError(f"Output character '{c}' did not appear in the input")
        if result.count(c) > 1:
            raise ValueError(f"Output character '{c}' appeared more than once in the output.")
    return full, result


def _sizes(terms: list[str], shapes) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        for c, n in zip(term, shape, strict=True):
            # A length of 1 stretches, as in broadcasting.
            known = sizes.get(c, 1)
            if n != 1 and known not in (1, n):
                raise ValueError(
                    f"Size of label '{c}' for operand {k} ({n}) does not match previous terms "
                    f"({known})."
                )
            sizes[c] = n if known == 1 else known
    return sizes


# ---- contracting ----------------------------------------------------------------------------


def _single(x: Array, labels: str, result: str, dtype) -> Array:
    """Squeeze stretched axes, take diagonals of repeated labels, sum the others away, and order
    what is left.
    """
    x, labels = _tidied(x, labels, set(result), dtype)
    return transpose(x, [labels.index(c) for c in result])


def _tidied(x: Array, labels: str, needed: set[str], dtype) -> tuple[Array, str]:
    stretched = tuple(i for i, c in enumerate(labels) if c == "1")
    if stretched:
        x, labels = lax.squeeze(x, stretched), labels.replace("1", "")
    # A label twice in one term means its diagonal.
    while len(set(labels)) < len(labels):
        c = next(c for c in labels if labels.count(c) > 1)
        i, j = labels.index(c), labels.rindex(c)
        # diagonal() puts the new axis last; it takes the place of the first of the two.
        x = moveaxis(diagonal(x, 0, i, j), -1, i)
        labels = labels[:j] + labels[j + 1 :]
    # Summed before the product, which gets smaller by it.
    gone = tuple(i for i, c in enumerate(labels) if c not in needed)
    if gone:
        x = _sum(convert(x, promotion.lattice_result_type(x, dtype)[0], False), gone)
        labels = "".join(c for c in labels if c in needed)
    return x, labels


def _sum(x: Array, axes: tuple[int, ...]) -> Array:
    """The sum in the same dtype; of booleans, whether any holds."""
    return lax.reduce_or(x, axes) if x.dtype == np.bool_ else lax.reduce_sum(x, axes)


def _pair(taken: list[Array], labels, result: str, precision, dtype, dot_general) -> Array:
    """One dot_general: labels of both that the result keeps are batch axes, the rest of the shared
    ones are summed.
    """
    (b, a), (lb, la) = taken, labels  # terms are popped from the back
    a, la = _tidied(a, la, set(result) | set(lb), dtype)
    b, lb = _tidied(b, lb, set(result) | set(la), dtype)
    # Shared and kept: a batch axis. Shared and dropped: contracted.
    shared = [c for c in la if c in lb]
    batch = [c for c in shared if c in result]
    over = [c for c in shared if c not in result]
    rest_a = [c for c in la if c not in shared]
    rest_b = [c for c in lb if c not in shared]
    if [*batch, *rest_a, *rest_b] != list(result):
        # The other way round may already give the wanted order.
        a, b, la, lb, rest_a, rest_b = b, a, lb, la, rest_b, rest_a
    dims = (
        (tuple(la.index(c) for c in over), tuple(lb.index(c) for c in over)),
        (tuple(la.index(c) for c in batch), tuple(lb.index(c) for c in batch)),
    )
    out = dot_general(a, b, dims, precision=precision, preferred_element_type=dtype)
    made = [*batch, *rest_a, *rest_b]
    return transpose(out, [made.index(c) for c in result])
