"""Sums over windows (convolutions and their gradients) as calls of functions of native code.

Floor 3. In: an equation with a rule `windows`. Out: the constants that the functions of
kernels/native/48_windows.cuh are written for, how the work is cut into tasks, and their calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpuarray.compiler.lower.kernel import NoKernel
from gpuarray.core.graph import Eqn, storage_dtype
from gpuarray.core.rewrite import WindowAxis, WindowedProduct
from gpuarray.core.target import PROCESSOR


class WindowCall(NamedTuple):
    """A function, its tasks, multiply-adds of each, and its arguments: `left`, `right`, `out`,
    `room`.
    """

    function: str
    tasks: int
    work: float
    arguments: tuple[str, ...]


class WindowCalls(NamedTuple):
    """Consecutive calls, their constants, how many elements they keep between them, and their
    offsets into `right` and `out`.
    """

    constants: dict[str, int]
    calls: tuple[WindowCall, ...]
    room: int
    work: float
    right: int = 0
    out: int = 0


def window_calls(eqn: Eqn) -> list[WindowCalls]:
    """The calls that compute sums over windows: once, or once for each part of the results."""
    rule = eqn.primitive.rewrite.windows
    assert rule is not None
    out = eqn.outvars[0].aval
    dtypes = {storage_dtype(a.aval).name for a in (*eqn.invars, eqn.outvars[0])}
    if len(dtypes) > 1 or not dtypes <= {"float32", "float64"}:
        raise NoKernel("sums over windows of other numbers than float32 and float64")
    if not out.size or not all(a.aval.size for a in eqn.invars):
        raise NoKernel("windows without elements")
    w = rule(eqn)
    if len(w.space) > 3:
        raise NoKernel("windows of more than three axes")
    size = storage_dtype(out).itemsize
    return [
        _calls(part, size)._replace(right=right, out=at)
        for part, right, at in _parts(_three_axes(w))
    ]


def _calls(w: WindowedProduct, size: int) -> WindowCalls:
    long = math.prod(s.result for s in w.space) < math.prod(s.window for s in w.space)
    if not long and _has_lines(w, size):
        return _lines(w, size)
    # Depthwise: each group has one feature, so vectors go over the groups instead.
    own = w.groups > 1 and w.features == 1 and (w.images if long else w.channels) == 1
    if own:
        # Groups become features of one group, whose left operands have the stride of groups.
        right = (w.right[0], w.right[0], *w.right[2:])
        out = (*w.out[:2], w.out[0], *w.out[3:])
        w = w._replace(groups=1, features=w.groups, right=right, out=out)
    return _long(w, size, own) if long else _short(w, size, own)


def _parts(w: WindowedProduct) -> list[tuple[WindowedProduct, int, int]]:
    """Windows on an operand with zeros between its elements, by the elements they contain: in every
    E-th result an element meets the same of E parts of a window. Each with the start of its part of
    the right operand and of the result.
    """
    found = [(w, 0, 0)]
    spread = [i for i, s in enumerate(w.space) if s.spread > 1]
    # Only in steps of 1 does every E-th result meet the same part of a window.
    apart = all(w.space[i].stride == w.space[i].dilation == 1 for i in spread)
    if not apart or math.prod(w.space[i].spread for i in spread) > PROCESSOR.window_parts:
        return found
    for i in spread:
        found = [part for whole in found for part in _parts_along(i, *whole)]
    return found


def _parts_along(
    i: int, w: WindowedProduct, right: int, out: int
) -> list[tuple[WindowedProduct, int, int]]:
    """The parts along one axis."""
    s, found = w.space[i], []
    own, to = w.right[3 + i], w.out[3 + i]
    for phase in range(min(s.spread, s.result)):
        # The first position of the window that contains an element and not a zero between elements.
        first = (s.low - phase) % s.spread
        part = WindowAxis(
            length=s.length,
            window=max(1, -(-(s.window - first) // s.spread)),
            result=-(-(s.result - phase) // s.spread),
            stride=1,
            dilation=1,
            low=(s.low - phase - first) // s.spread,
            spread=1,
        )
        if first >= s.window:
            # These results see nothing but zeros: far beyond the end of the operand.
            first, part = 0, part._replace(low=-2 * (s.length + s.result))
        distances = [x[: 3 + i] + (x[3 + i] * s.spread,) + x[4 + i :] for x in (w.right, w.out)]
        cut = w._replace(space=w.space[:i] + (part,) + w.space[i + 1 :])
        cut = cut._replace(right=distances[0], out=distances[1])
        found.append((cut, right + first * own, out + phase * to))
    return found


def _three_axes(w: WindowedProduct) -> WindowedProduct:
    """The same with three axes of space."""
    # The functions have three loops: axes of one element come in front, with stride 0.
    missing = 3 - len(w.space)
    left, right, out = (
        (*distances[:3], *(0,) * missing, *distances[3:]) for distances in (w.left, w.right, w.out)
    )
    flat = WindowAxis(length=1, window=1, result=1, stride=1, dilation=1, low=0, spread=1)
    return w._replace(space=(flat,) * missing + w.space, left=left, right=right, out=out)


def _constants(w: WindowedProduct, panel: int, own: bool) -> dict[str, int]:
    """Template arguments of both variants."""
    found = {"OWN": int(own), "G": w.groups, "N": w.images, "F": w.features, "C": w.channels}
    for i, s in enumerate(w.space):
        found |= {f"I{i}": s.length, f"E{i}": s.spread, f"A{i}": s.low, f"W{i}": s.window}
        found |= {f"D{i}": s.dilation, f"O{i}": s.result, f"S{i}": s.stride}
    # Strides in left (X), right (Y) and out (Z): along groups, images or features, channels or
    # features, and the spatial axes.
    for name, letters, distances in (
        ("X", "GNC", w.left),
        ("Y", "GFC", w.right),
        ("Z", "GNF", w.out),
    ):
        found |= {f"{name}{k}": d for k, d in zip((*letters, 0, 1, 2), distances, strict=True)}
    return found | {"L": panel, "FBS": -(-w.features // panel)}


def _panel(features: int, size: int) -> int:
    """How many features are computed side by side: the width that costs least for all of them, the
    wider one of equals.
    """
    return min(
        (n // size for n in PROCESSOR.panel_bytes),
        key=lambda n: (-(-features // n) * PROCESSOR.panel_bytes[n * size], -n),
    )


def _line(length: int, size: int) -> int:
    """The elements of whole vectors for this many results: of the widest ones, or of a part."""
    widest = PROCESSOR.line // size
    return -(-length // widest) * widest if length >= widest else 1 << (length - 1).bit_length()


def _has_lines(w: WindowedProduct, size: int) -> bool:
    """Whether vectors along the innermost axis cost less than vectors of features."""
    inner = w.space[-1]
    if inner.stride > 1:
        return False
    # Depthwise: vectors of features are vectors of groups.
    own = w.groups > 1 and w.features == w.channels == 1
    features, channels = (w.groups, w.groups) if own else (w.features, w.channels)
    panel = _panel(features, size)
    # Both for one position. Vectors of features are stored as they lie along lines, or the other
    # way round.
    products = w.channels * math.prod(s.window for s in w.space)
    panels = -(-features // panel) * PROCESSOR.panel_bytes[panel * size]
    by_feature = products * panels + features * PROCESSOR.window_store
    vectors = math.ceil(inner.result * size / PROCESSOR.line) / inner.result
    by_line = products * features * vectors * PROCESSOR.window_vector
    by_line += channels * PROCESSOR.window_load if w.left[-1] > 1 else 0
    by_line += features * PROCESSOR.window_store if w.out[-1] > 1 else 0
    return by_line < by_feature


def _lines(w: WindowedProduct, size: int) -> WindowCalls:
    """Windows of few features: tasks are blocks of lines along the result's innermost axis."""
    outer, middle, inner = w.space
    pieces = math.ceil(inner.result / PROCESSOR.window_line)
    b2 = _line(-(-inner.result // pieces), size)
    b1 = _even(middle.result, max(1, PROCESSOR.window_lines // b2))

    def bytes_seen(pieces: dict[str, int]) -> int:
        along = _seen(outer, 1, outer.window), _seen(middle, pieces["b1"], middle.window)
        # The last tile may be longer than the line.
        return math.prod(along) * _seen(inner, 2 * b2, inner.window) * pieces["channels"] * size

    whole = {"b1": middle.result, "channels": w.channels}
    # All channels while that is possible: sums of a part of them go through the result.
    order = (("channels", 8), ("b1", 1), ("channels", 1))
    fitting = _fitting({"b1": b1, "channels": w.channels}, whole, order, bytes_seen)
    b1, channels = fitting["b1"], fitting["channels"]
    constants = _constants(w, 1, False) | {"B1": b1, "B2": b2, "CB": channels}
    tasks = w.groups * w.images * outer.result * -(-middle.result // b1) * -(-inner.result // b2)
    each = float(b1 * b2 * w.features * w.channels * math.prod(s.window for s in w.space))
    call = WindowCall("ga_window_lines", tasks, each, ("left", "right", "out"))
    return WindowCalls(constants, (call,), 0, tasks * each)


def _even(length: int, most: int) -> int:
    """The length of pieces of at most `most` elements, all about equally long."""
    return math.ceil(length / math.ceil(length / max(1, most)))


def _seen(s: WindowAxis, results: int, window: int) -> int:
    """How many positions `results` neighbouring results see through a piece of their windows."""
    return (results - 1) * s.stride + (window - 1) * s.dilation + 1


def _fitting(
    pieces: dict[str, int],
    whole: dict[str, int],
    order: Sequence[tuple[str, int]],
    bytes_seen: Callable[[dict[str, int]], int],
) -> dict[str, int]:
    """Pieces of the lengths `whole`, halved until a task's part of the left operand fits.

    order: which piece is halved first, and down to what length
    """
    while bytes_seen(pieces) > PROCESSOR.window_bytes:
        name = next((name for name, least in order if pieces[name] > least), None)
        if name is None:
            raise NoKernel("windows that see too much of their operand at once")
        pieces = {**pieces, name: _even(whole[name], pieces[name] // 2)}
    return pieces


def _short(w: WindowedProduct, size: int, own: bool) -> WindowCalls:
    """Windows that are shorter than the result: tasks are blocks of the result."""
    panel = _panel(w.features, size)
    window = math.prod(s.window for s in w.space)
    # As many channels as keep a panel in L1.
    channels = _even(w.channels, PROCESSOR.panel_cache // (window * panel * size))
    outer, middle, inner = w.space
    b2 = _even(inner.result, PROCESSOR.window_row)
    b1 = _even(middle.result, PROCESSOR.window_block // b2)

    def bytes_seen(pieces: dict[str, int]) -> int:
        # A task has one result along the outer axis, b1 by b2 along the others.
        along = _seen(outer, 1, outer.window), _seen(middle, pieces["b1"], middle.window)
        lanes = panel if own else pieces["channels"]
        return math.prod(along) * _seen(inner, pieces["b2"], inner.window) * lanes * size

    # Rows of results stay long: the innermost axis, b2, is halved last.
    whole = {"b1": middle.result, "b2": inner.result, "channels": w.channels}
    order = (("channels", 16), ("b1", 1), ("channels", 1), ("b2", 1))
    fitting = _fitting({"b1": b1, "b2": b2, "channels": channels}, whole, order, bytes_seen)
    b1, b2, channels = fitting["b1"], fitting["b2"], fitting["channels"]
    panels = -(-w.features // panel)
    most = 1 if own else PROCESSOR.window_bytes // (b1 * b2 * panel * size)
    # As many panels of features together as have sums that fit into the same part of the cache.
    at_once = _even(panels, max(1, most))
    blocks = -(-w.channels // channels)
    constants = _constants(w, panel, own)
    constants |= {"B0": 1, "B1": b1, "B2": b2, "CB": channels, "CBS": blocks, "PB": at_once}
    # The right operand is first copied into panels, as it is read repeatedly.
    packs = w.groups * panels * blocks
    each = b1 * b2 * at_once * panel * w.channels * window
    tasks = w.groups * w.images * -(-panels // at_once) * outer.result
    tasks *= -(-middle.result // b1) * -(-inner.result // b2)
    calls = (
        WindowCall("ga_window_pack", packs, window * channels * panel, ("right", "room")),
        WindowCall("ga_windows", tasks, each, ("left", "room", "out")),
    )
    room = packs * window * channels * panel
    return WindowCalls(constants, calls, room, float(tasks * each))


def _long(w: WindowedProduct, size: int, own: bool) -> WindowCalls:
    """Windows that are longer than the result: tasks are pieces of the sums."""
    panel = _panel(w.features, size)
    outer, middle, inner = w.space
    results = math.prod(s.result for s in w.space)
    lengths = [s.window for s in w.space]
    # A block of the window whose panel stays in L1.
    most = PROCESSOR.panel_cache // (panel * size)
    b2 = _even(inner.window, most)
    b1 = _even(middle.window, most // b2)
    b0 = _even(outer.window, most // (b2 * b1))
    # An image has few results, so a task computes those of several images.
    images = _even(w.images, PROCESSOR.window_row)

    def bytes_seen(pieces: dict[str, int]) -> int:
        along = zip(w.space, ("b0", "b1", "b2"), strict=True)
        lanes = panel if own else pieces["images"]
        return math.prod(_seen(s, s.result, pieces[b]) for s, b in along) * lanes * size

    whole = {"b0": outer.window, "b1": middle.window, "b2": inner.window, "images": w.images}
    order = (("b0", 1), ("images", 16), ("b1", 1), ("b2", 1), ("images", 1))
    fitting = _fitting({"b0": b0, "b1": b1, "b2": b2, "images": images}, whole, order, bytes_seen)
    b0, b1, b2, images = fitting["b0"], fitting["b1"], fitting["b2"], fitting["images"]
    panels = -(-w.features // panel)
    rows = results * images
    most = 1 if own else PROCESSOR.window_bytes // (rows * panel * size)
    at_once = _even(panels, max(1, most))
    groups = -(-w.images // images)
    blocks = w.channels * math.prod(-(-n // b) for n, b in zip(lengths, (b0, b1, b2), strict=True))
    others = w.groups * groups * -(-panels // at_once)
    sums = rows * at_once * panel
    work = blocks * b0 * b1 * b2 * sums
    # As few pieces as the work needs: each has its own sums, which are merged.
    pieces = min(blocks, -(-PROCESSOR.many_tasks // others), work // PROCESSOR.window_piece)
    # Pieces of whole blocks, of which rounding up may leave fewer.
    pieces = -(-blocks // -(-blocks // max(1, pieces)))
    constants = _constants(w, panel, own)
    constants |= {"B0": b0, "B1": b1, "B2": b2, "NB": images, "NBS": groups, "PB": at_once}
    constants |= {"PIECES": pieces}
    merges = w.groups * groups * panels
    calls = (
        WindowCall("ga_long_windows", others * pieces, work / pieces, ("left", "right", "room")),
        WindowCall("ga_windows_merge", merges, rows * panel * pieces, ("room", "out")),
    )
    return WindowCalls(constants, calls, others * pieces * sums, float(others * work))
