"""Rotations in three dimensions, kept as unit quaternions (x, y, z, w), and paths between them.

Floor 6. In: quaternions, matrices, vectors or angles; one, or a stack along a leading axis. Out:
`Rotation` and `Slerp`, pytrees that pass through jit, vmap and grad.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuarray import numpy as gnp
from gpuarray import random, util
from gpuarray.core import dtypes
from gpuarray.core.value import Array
from gpuarray.names import explain_names as _explain_names
from gpuarray.numpy.linalg.decompositions import product
from gpuarray.numpy.operands import promoted_inexact
from gpuarray.numpy.shapes import stretch
from gpuarray.scipy.special.operands import polynomial as _polynomial


def _parts(q: Array) -> tuple[Array, Array]:
    """The vector (…, 3) and the scalar (…, 1)."""
    return q[..., :3], q[..., 3:]


def _unit(q: Array) -> Array:
    return q / _norm(q)


def _norm(x: Array) -> Array:
    """The length along the last axis, kept; its derivative at 0 is 0."""
    # The root is not differentiable at 0: avoid evaluating it there.
    square = (x * x).sum(-1, keepdims=True)
    zero = square == 0
    return gnp.where(zero, 0, gnp.sqrt(gnp.where(zero, 1, square)))


def _product(p: Array, q: Array) -> Array:
    u, a = _parts(p)
    v, b = _parts(q)
    # Hamilton's product of quaternions.
    vector = a * v + b * u + gnp.cross(u, v)
    scalar = a * b - (u * v).sum(-1, keepdims=True)
    return _unit(gnp.concatenate([vector, scalar], axis=-1))


#: Power series in the square of an angle, or of a tangent: of sin(x / 2) / x, cos(x / 2), and
#: arctan(x) / x. The highest power first.
_SINE = tuple((-0.25) ** k / (2 * math.factorial(2 * k + 1)) for k in range(7, -1, -1))
_COSINE = tuple((-0.25) ** k / math.factorial(2 * k) for k in range(7, -1, -1))
_ARCTAN = tuple((-1) ** k / (2 * k + 1) for k in range(13, -1, -1))


def _of_rotvec(v: Array) -> Array:
    """The quaternion sin(x / 2) v / x, cos(x / 2), where x is the length of v."""
    # Near 0 in terms of the square: a length has no second derivative at 0.
    square = (v * v).sum(-1, keepdims=True)
    small = square < 0.25
    few, angle = gnp.where(small, square, 0), gnp.sqrt(gnp.where(small, 1, square))
    sine = gnp.where(small, _polynomial(_SINE, few), gnp.sin(angle / 2) / angle)
    cosine = gnp.where(small, _polynomial(_COSINE, few), gnp.cos(angle / 2))
    return gnp.concatenate([sine * v, cosine], axis=-1)


def _to_rotvec(q: Array) -> Array:
    # q and -q are one rotation: the one of at most half a turn.
    v, w = _parts(gnp.where(q[..., 3:] < 0, -q, q))
    square = (v * v).sum(-1, keepdims=True)
    small = 16 * square < w * w
    near = gnp.where(small, w, 1)
    series = _polynomial(_ARCTAN, gnp.where(small, square, 0) / (near * near)) / near
    sine = gnp.sqrt(gnp.where(small, 1, square))
    return 2 * gnp.where(small, series, gnp.arctan2(sine, w) / sine) * v


def _of_matrix(m: Array) -> Array:
    """The quaternion of a rotation matrix; its largest component is found first."""
    d = gnp.diagonal(m, axis1=-2, axis2=-1)
    # Four ways to read off a quaternion; the one with the largest divisor is exact.
    trace = d.sum(-1, keepdims=True)
    candidates = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        # Each candidate is the quaternion times four times its i-th component.
        at: dict[int, Array] = {
            i: 1 - trace[..., 0] + 2 * m[..., i, i],
            j: m[..., j, i] + m[..., i, j],
            k: m[..., k, i] + m[..., i, k],
            3: m[..., k, j] - m[..., j, k],
        }
        candidates.append(gnp.stack([at[c] for c in range(4)], axis=-1))
    turn = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]]
    candidates.append(gnp.stack([*turn, 1 + trace[..., 0]], axis=-1))
    largest = gnp.argmax(gnp.concatenate([d, trace], axis=-1), axis=-1)[..., None]
    return _unit(gnp.select([largest == c for c in range(4)], candidates))


def _axes(seq: str) -> tuple[list[int], bool]:
    """The axes' numbers, and whether they stay where they are while the body turns."""
    axes = [*seq]
    if not axes or not (set(axes) <= set("xyz") or set(axes) <= set("XYZ")):
        raise ValueError(
            "Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got " + seq
        )
    if any(a == b for a, b in zip(axes, axes[1:])):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return ["xyz".index(a) for a in seq.lower()], seq.islower()


class Rotation(NamedTuple):
    """A rotation, or a stack of them: quat is (4,) or (n, 4), a unit quaternion (x, y, z, w).

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.scipy.spatial.transform import Rotation
    >>> r = Rotation.from_euler("z", 90., degrees=True)
    >>> r.apply(gnp.array([1., 0., 0.])).round(4)
    Array([0., 1., 0.], dtype=float32)
    """

    quat: Array

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """All of several rotations and stacks as one stack."""
        return cls(gnp.concatenate([gnp.atleast_2d(r.quat) for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Rotations about one to three axes: "xyz" about fixed ones, "XYZ" about those of the body.

        Parameters
        ----------
        angles :
            () or (1,) for one axis, else (k,); a stack is (n, k).
        """
        axes, fixed = _axes(seq)
        if len(axes) > 3:
            raise ValueError(f"Expected axes specification to be at most 3 characters, got {seq}")
        (angles,) = promoted_inexact("from_euler", angles)
        if angles.ndim == 0:
            angles = angles[None]
        if angles.shape[-1] != len(axes):
            raise ValueError(
                f"inconsistent size for core dimension: {len(axes)} axes and angles of shape "
                f"{angles.shape}"
            )
        # Quaternions hold half the angle.
        half = (gnp.deg2rad(angles) if degrees else angles) / 2
        turns = []
        for i, axis in enumerate(axes):
            direction = np.eye(3)[axis].astype(half.dtype)
            sine, cosine = gnp.sin(half[..., i, None]), gnp.cos(half[..., i, None])
            turns.append(gnp.concatenate([sine * direction, cosine], axis=-1))
        # One turn after the other, as products of quaternions.
        out = turns[0]
        for turn in turns[1:]:
            # About fixed axes later turns come first in the product.
            out = _product(turn, out) if fixed else _product(out, turn)
        return cls(out)

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """The rotation of an orthogonal matrix: (3, 3) or (n, 3, 3)."""
        (m,) = promoted_inexact("from_matrix", matrix)
        if m.ndim < 2 or m.shape[-2:] != (3, 3):
            raise ValueError(
                f"inconsistent size for core dimension: expected (3, 3) or (n, 3, 3), got {m.shape}"
            )
        return cls(_of_matrix(m))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """The rotation of modified Rodrigues parameters, axis times tan(angle / 4)."""
        (m,) = promoted_inexact("from_mrp", mrp)
        square = (m * m).sum(-1, keepdims=True)
        return cls(gnp.concatenate([2 * m, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """The rotation of a quaternion (x, y, z, w) of any length but 0."""
        (q,) = promoted_inexact("from_quat", quat)
        return cls(_unit(q))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """The rotation about a vector, by an angle that is its length."""
        (v,) = promoted_inexact("from_rotvec", rotvec)
        return cls(_of_rotvec(gnp.deg2rad(v) if degrees else v))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The identity rotation, or `num` of them."""
        one = gnp.array([0, 0, 0, 1], dtypes.check_user_dtype(dtype, "identity"))
        return cls(one if num is None else stretch(one, (util.index(num), 4)))

    @classmethod
    def random(cls, random_key: Array, num: int | None = None) -> Rotation:
        """A uniformly distributed random rotation, or `num` of them."""
        shape = (4,) if num is None else (util.index(num), 4)
        # A normal vector in four dimensions has a uniformly distributed direction.
        return cls(_unit(random.normal(random_key, shape)))

    def __getitem__(self, indexer: Any) -> Rotation:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __mul__(self, other: Rotation) -> Rotation:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Rotation(_product(*gnp.broadcast_arrays(self.quat, other.quat)))

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not a stack."""
        return self.quat.ndim == 1

    def apply(self, vectors: Any, inverse: bool = False) -> Array:
        """Rotate vectors (or rotate them back): (3,) or (n, 3)."""
        (v,) = promoted_inexact("apply", vectors)
        if v.ndim < 1 or v.shape[-1] != 3:
            raise ValueError(
                f"inconsistent size for core dimension: expected (…, 3), got {v.shape}"
            )
        # v + 2 w (u x v) + 2 u x (u x v).
        u, w = _parts(self.inv().quat if inverse else self.quat)
        u, v = gnp.broadcast_arrays(u, v)
        twice = 2 * gnp.cross(u, v)
        return v + w * twice + gnp.cross(u, twice)

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """The angles about three axes, as `from_euler` takes them; at a gimbal lock the third is
        0.
        """
        if len(seq) != 3:
            raise ValueError(f"Expected 3 axes, got {seq}.")
        axes, fixed = _axes(seq)
        i, j, k = axes if fixed else axes[::-1]
        # Bernardes and Viollet, "Quaternion to Euler angles conversion" (2022).
        proper = i == k
        k = 3 - i - j if proper else k
        # 1 for an even permutation of the axes, -1 for an odd one.
        sign = (i - j) * (j - k) * (k - i) // 2
        at = [self.quat[..., n] for n in range(4)]
        a, b, c, d = at[3], at[i], at[j], at[k] * sign
        if not proper:
            a, b, c, d = a - c, b + d, c + a, d - b
        # The rotation is split into two, given the sum and the difference of their angles.
        middle = 2 * gnp.arctan2(gnp.hypot(c, d), gnp.hypot(a, b))
        at_zero, at_pi = abs(middle) <= 1e-7, abs(middle - np.pi) <= 1e-7
        total, difference = gnp.arctan2(b, a), gnp.arctan2(d, c)
        first, third = total - difference, total + difference
        if not fixed:
            first, third = third, first
        alone = gnp.where(at_zero, 2 * total, (-2 if fixed else 2) * difference)
        # Gimbal lock: only one sum of angles is known, and the third one is 0.
        locked = at_zero | at_pi
        first, third = gnp.where(locked, alone, first), gnp.where(locked, 0, third)
        if not proper:
            first, third = (first, third * sign) if fixed else (first * sign, third)
            middle = middle - np.pi / 2
        angles = gnp.stack([first, middle, third], axis=-1)
        # Back into [-pi, pi].
        turn = 2 * np.pi
        angles = gnp.where(angles < -np.pi, angles + turn, angles)
        angles = gnp.where(angles > np.pi, angles - turn, angles)
        return gnp.rad2deg(angles) if degrees else angles

    def as_matrix(self) -> Array:
        """The matrix: (3, 3) or (n, 3, 3)."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return gnp.stack([gnp.stack(row, axis=-1) for row in rows], axis=-2)

    def as_mrp(self) -> Array:
        """The modified Rodrigues parameters, of length 1 at most."""
        v, w = _parts(gnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat))
        return v / (1 + w)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """The quaternion (x, y, z, w); canonical: of q and -q that with w > 0."""
        q = self.quat
        if canonical:
            q = _canonical(q)
        return gnp.roll(q, 1, axis=-1) if scalar_first else q

    def as_rotvec(self, degrees: bool = False) -> Array:
        """The axis, scaled to the length of the angle."""
        v = _to_rotvec(self.quat)
        return gnp.rad2deg(v) if degrees else v

    def inv(self) -> Rotation:
        """The inverse rotation."""
        return Rotation(self.quat * np.array([-1, -1, -1, 1], self.quat.dtype))

    def magnitude(self) -> Array:
        """The angle, from 0 to pi."""
        v, w = _parts(self.quat)
        # q and -q are one rotation: the smaller angle counts.
        return (2 * gnp.arctan2(_norm(v), abs(w)))[..., 0]

    def mean(self, weights: Array | None = None) -> Rotation:
        """The rotation nearest to those of a stack, weighted."""
        w = gnp.ones(self.quat.shape[:1], self.quat.dtype) if weights is None else weights
        # The quaternion nearest to all: the eigenvector of the largest eigenvalue.
        moments = product(gnp.asarray(w) * self.quat.T, self.quat)
        return Rotation.from_quat(gnp.linalg.eigh(moments)[1][:, -1])


def _canonical(q: Array) -> Array:
    """q or -q, such that the first component that is not 0, of w, x, y, z, is positive."""
    x, y, z, w = (q[..., i : i + 1] for i in range(4))
    sign = gnp.where(w != 0, w, gnp.where(x != 0, x, gnp.where(y != 0, y, z)))
    return gnp.where(sign < 0, -q, q)


class Slerp(NamedTuple):
    """A path through rotations at given times, turning evenly in between. Made by `Slerp.init`.

    >>> import gpuarray.numpy as gnp
    >>> from gpuarray.scipy.spatial.transform import Rotation, Slerp
    >>> ends = Rotation.from_euler("z", gnp.array([[0.], [90.]]), degrees=True)
    >>> Slerp.init(gnp.array([0., 1.]), ends)(0.5).as_euler("zyx", degrees=True)[0].round(3)
    Array(45., dtype=float32)
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """The path that is at rotations[i] at times[i]; times ascend: (n,), a stack of n >= 2."""
        if not isinstance(rotations, Rotation):
            raise TypeError("`rotations` must be a `Rotation` instance.")
        if rotations.single or len(rotations) < 2:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        (times,) = promoted_inexact("Slerp.init", times)
        if times.ndim != 1:
            raise ValueError(
                f"Expected times to be specified in a 1 dimensional array, got {times.ndim} "
                "dimensions."
            )
        if times.shape[0] != len(rotations):
            raise ValueError(
                "Expected number of rotations to be equal to number of timestamps given, got "
                f"{len(rotations)} rotations and {times.shape[0]} timestamps."
            )
        start, end = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        # From each rotation to the next, as a vector that the time within the interval scales.
        return cls(times, gnp.diff(times), start, (start.inv() * end).as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """Where the path is: one time, or (m,) of them."""
        (t,) = promoted_inexact("Slerp", times)
        if t.ndim > 1:
            raise ValueError("`times` must be at most 1-dimensional.")
        at = gnp.clip(gnp.searchsorted(self.times, t, side="right") - 1, 0, len(self.timedelta) - 1)
        # Times outside extrapolate the rotation of the first or the last interval.
        share = (t - self.times[at]) / self.timedelta[at]
        return self.rotations[at] * Rotation.from_rotvec(self.rotvecs[at] * share[..., None])


__getattr__ = _explain_names(__name__)
