"""The sources that a plan's kernels are compiled from: few, and the same for as many plans as may
be.

Floor 4. In: emitted kernels. Out: `Source`s. Kernels with the same text are merged. A length that
only tells threads whether they have work (`if (i >= 2001u) return;`) may become an argument of the
launch, so that other lengths share the machine code: the constant form is for a program of one
length, which most programs are, the general one for those with several.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from gpuarray.compiler.cuda.emit import KernelSource
from gpuarray.compiler.lower.kernel import User
from gpuarray.compiler.text.plain import without_comments
from gpuarray.compiler.text.prelude import complete
from gpuarray.util import Recent, Struct

#: Kernels of one source: it takes half the time of compiling each separately, and other sources are
#: compiled meanwhile.
TOGETHER = 32

# A thread without work returns, or does nothing: the only tests whose number may become an
# argument. A loop bound stays constant, because the compiler unrolls by it.
_TEST = re.compile(
    r"^(?P<test> +(?:if \(i >= |const bool inside = [^;\n]* < ))"
    r"(?P<number>\d+)(?P<kind>u|ull)(?=;|\) (?:return|continue);)",
    re.MULTILINE,
)
_KINDS = {"u": "unsigned", "ull": "unsigned long long"}


class Source(Struct):
    """One text to compile, and the names of the kernels in it."""

    text: str
    names: tuple[str, ...]


class Form(Struct):
    """All sources of a plan, in one of their forms.

    Attributes
    ----------
    calls :
        For each kernel the name in the sources, and the lengths that its launch passes.
    """

    sources: tuple[Source, ...]
    calls: dict[str, tuple[str, tuple[int, ...]]]

    @property
    def text(self) -> str:
        """All of it, for readers."""
        same = [f"// {k} is {name}, too\n" for k, (name, _) in self.calls.items() if k != name]
        return "\n".join(s.text for s in self.sources) + "".join(same)


def constant(kernels: Sequence[KernelSource]) -> Form:
    """Return the sources with all lengths as constants."""
    return _form(kernels, [(k.text, ()) for k in kernels])


def general(kernels: Sequence[KernelSource]) -> Form:
    """Return the sources with lengths as arguments."""
    return _form(kernels, [_general(k) for k in kernels])


def _form(kernels: Sequence[KernelSource], texts: list[tuple[str, tuple[int, ...]]]) -> Form:
    names: dict[str, str] = {}  # by the text without name and comments
    distinct: list[tuple[str, str]] = []
    calls: dict[str, tuple[str, tuple[int, ...]]] = {}
    for kernel, (text, lengths) in zip(kernels, texts, strict=True):
        # Kernels that differ only in their name are merged: compiled once, and called for each.
        body = without_comments(text).replace(f" {kernel.name}(", " NAME(")
        name = names.setdefault(body, kernel.name)
        if name == kernel.name:
            distinct.append((name, text))
        calls[kernel.name] = name, lengths
    # Split evenly, whatever the machine: the texts are keys of the disk cache.
    count = -(-len(distinct) // TOGETHER)
    cuts = [len(distinct) * i // max(count, 1) for i in range(count + 1)]
    parts = [distinct[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
    return Form(
        tuple(
            Source(complete("\n".join(text for _, text in part)), tuple(name for name, _ in part))
            for part in parts
        ),
        calls,
    )


def _general(kernel: KernelSource) -> tuple[str, tuple[int, ...]]:
    """Return a kernel's text with lengths as its last parameters, and their values."""
    # The author of a hand-written kernel decides its parameters.
    if isinstance(kernel.kernel, User):
        return kernel.text, ()
    known: dict[tuple[str, str], str] = {}

    def named(found: re.Match[str]) -> str:
        return found["test"] + known.setdefault(
            (found["kind"], found["number"]), f"length{len(known)}"
        )

    text = _TEST.sub(named, kernel.text)
    if not known:
        return text, ()
    given = "".join(f",\n    const {_KINDS[kind]} {n}" for (kind, _), n in known.items())
    head, mark, tail = text.partition("__global__")
    tail = tail.replace(") {\n", f"{given}) {{\n", 1)
    return head + mark + tail, tuple(int(n) for _, n in known)


#: Lengths of the plans that were loaded, by the digest of their general form; () where there were
#: several.
_seen = Recent(1 << 12)


def chosen(kernels: Sequence[KernelSource], fixed: Form, free: Form) -> Form:
    """Return the form to compile: the constant one until other lengths come."""
    lengths = tuple(given for _, given in free.calls.values())
    if not any(lengths):
        return fixed
    # One plan with many lengths, as that of an optimiser: having fewer texts is reason enough.
    if sum(len(s.names) for s in free.sources) < sum(len(s.names) for s in fixed.sources):
        return free
    plain = "\0".join(without_comments(s.text) for s in free.sources)
    key = hashlib.blake2b(plain.encode()).digest()
    before = _seen.find(key)
    if before is None:
        _seen.put(key, lengths)
        return fixed
    # Other lengths than before: from now on the form for any.
    if before != lengths:
        _seen.put(key, ())
        return free
    return fixed
