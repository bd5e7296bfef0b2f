"""Why a value is stored in memory, or computed where it is read.

Floor 3. In: an InlineCandidate, a value that could be stored or inlined, with the facts that
inline.py has collected. Out: a Decision, which `explain` shows. `RULES` is the whole decision, top
to bottom: the first reason that applies decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpuarray.compiler.fuse.group import FusedGroup, Step
from gpuarray.compiler.fuse.merge import view_order
from gpuarray.compiler.lower.vectors import keeps_from_vectors
from gpuarray.core.graph import Eqn, Var
from gpuarray.core.target import PROCESSOR, TARGET
from gpuarray.util import Struct, cached_property


class Reason(NamedTuple):
    """Why a value is inlined or not.

    Attributes
    ----------
    name :
        Its name here and in tests.
    inline :
        Whether the value is computed where it is read; else it is stored.
    sentence :
        The text for `explain`.
    thresholds :
        The thresholds it uses: fields of `Target` (core/target.py), or of `Processor` for a CPU.
    holds :
        Whether it holds for a value. Those of whole steps are found by inline.py.
    """

    name: str
    inline: bool
    sentence: str
    thresholds: tuple[str, ...] = ()
    holds: Callable[[InlineCandidate], bool] = lambda candidate: False


class Decision(NamedTuple):
    """The decision about a value, and why; with its cost in multiply-adds for each element, and how
    often an element would be computed, if these were used.
    """

    reason: Reason
    cost: float | None = None
    times: float | None = None

    @property
    def inline(self) -> bool:
        """Whether the value is computed where it is read; else it is stored."""
        return self.reason.inline


class Consumer(NamedTuple):
    """A step that reads a value (None: the value is copied), how many elements it reads in all, and
    whether it uses them as indices.
    """

    reader: Step | None
    reads: int
    is_index: bool


def reads_in_order(reader: FusedGroup, value: Var) -> bool:
    """Whether a step reads a value as it is, or with its axes in another order: not pieces of it,
    nor with its elements rearranged.
    """
    loads = [x for x in reader.loads() if x.source is value]
    return all(view_order(x.views, value.aval.ndim) is not None for x in loads)


class InlineCandidate(Struct, frozen=False, eq=False):
    """A value that can be computed element by element, and that no step needs in memory.

    Attributes
    ----------
    made_by :
        The equation that computes it.
    work :
        The equations that an element takes, each with its cost.
    depth, length :
        How many equations follow one another for an element, and the operations in its text.
    computed :
        Whether it is the result of a fused group, rather than of data movement.
    serial :
        Whether the steps are for a CPU.
    sources_behind, sources_read_by :
        The values in memory that a value is computed from, and that a step reads.
    """

    value: Var
    made_by: Eqn
    uses: Sequence[Consumer]
    work: Mapping[Eqn, float]
    depth: int
    length: int
    computed: bool
    serial: bool
    sources_behind: Callable[[Var], set[Var]]
    sources_read_by: Callable[[Step | None], set[Var]]

    @cached_property
    def cost(self) -> float:
        """Multiply-adds that an element takes."""
        return sum(self.work.values())

    @cached_property
    def reads(self) -> int:
        """Elements that all readers read."""
        return sum(u.reads for u in self.uses)

    @cached_property
    def times(self) -> float:
        """How many times each element would be computed, on average."""
        return self.reads / max(self.value.aval.size, 1)

    @cached_property
    def again(self) -> float:
        """Multiply-adds that repetitions add for each element."""
        return self.cost * (self.times - 1)

    @cached_property
    def readers(self) -> list[Step | None]:
        """The steps that read it, each once."""
        return list({id(u.reader): u.reader for u in self.uses}.values())

    @cached_property
    def sources(self) -> set[Var]:
        """The values in memory that it would be computed from."""
        return self.sources_behind(self.value)

    @property
    def most_arguments(self) -> int:
        """The most arguments that a reader would have."""
        return len(self.sources) + max(len(self.sources_read_by(r)) for r in self.readers)

    @property
    def saved_work(self) -> float:
        """Multiply-adds in the time of the bytes that are saved if each reader computes it: it is
        neither written nor read, but its inputs may be read by more steps.
        """
        saved = self.value.aval.nbytes
        for reader in self.readers:
            more = self.sources - self.sources_read_by(reader)
            saved += self.value.aval.nbytes - sum(s.aval.nbytes for s in more)
        return TARGET.instructions_a_byte * saved

    @property
    def most_length(self) -> int:
        """Operations that its text may have: more for bytes that take longer than a launch."""
        large = self.value.aval.nbytes >= TARGET.launch_bytes
        return TARGET.written_large if large else TARGET.written

    @property
    def is_tiny(self) -> bool:
        """Whether it has few elements, or serves as indices alone."""
        few = self.value.aval.size <= TARGET.few_elements
        return few or all(u.is_index for u in self.uses)

    @property
    def is_repeated(self) -> bool:
        """Whether several readers compute it, or one several times, such as the neighbours of each
        element.
        """
        return len(self.readers) > 1 or (self.computed and self.times > 1)

    @property
    def was_refused(self) -> bool:
        """Whether fusion has refused to merge its group with a reader. Readers of pieces of it do
        not count, unless each value is to be made once: fusion does not merge these.
        """
        alone = self.serial and self.times > 1
        fused = (r for r in self.readers if isinstance(r, FusedGroup) and r.is_fused)
        return self.computed and any(
            alone or r.has_flow or (r.reduced and reads_in_order(r, self.value)) for r in fused
        )

    @property
    def prevents_vectors(self) -> bool:
        """Whether a loop of native code that computes it would not be vectorised."""
        if not self.serial or self.times <= 0.5:
            return False
        return keeps_from_vectors(self.made_by, self.work, [u.reader for u in self.uses])

    @property
    def launch_work(self) -> float:
        """Multiply-adds that take as long as another kernel: on a GPU a launch, on a CPU next to
        nothing, and still less compared with expensive operations.
        """
        if not self.serial:
            return TARGET.launch_work
        heavy = any(cost > PROCESSOR.worth_keeping for cost in self.work.values())
        return PROCESSOR.computed_again if heavy else PROCESSOR.apart_work

    @property
    def takes_less_than_a_kernel(self) -> bool:
        """Whether all repetitions together take less time than a kernel that makes it once."""
        return self.cost <= TARGET.once and self.again * self.value.aval.size <= self.launch_work


# ---- always stored ----

UNFUSED = Reason("unfused", False, "fusion is switched off")
NEEDED = Reason(
    "needed", False, "a result, or a step such as a routine of a library, needs it in memory"
)
ROUTINE = Reason("routine", False, "a kernel of its own, or a routine of a library, makes it")
JOINED = Reason("joined", False, "the kernel that makes its parts writes them side by side")
FOLDED = Reason(
    "folded",
    False,
    "it is made in a kernel with a fold or a loop, which has no single elements to offer",
    ("Target.folded_inline", "Target.folded_reads"),
)
TOGETHER = Reason("together", False, "another result of its step is stored, so it is made as well")
CHANGING = Reason("changing", False, "an update in place changes what it is computed from")

# Thresholds of `takes_less_than_a_kernel`.

#: Thresholds of `takes_less_than_a_kernel`.
LAUNCH = (
    "Target.once",
    "Target.launch_work",
    "Processor.apart_work",
    "Processor.computed_again",
    "Processor.worth_keeping",
)

#: In the order in which they are tried.
RULES = (
    Reason("unread", True, "no other step reads it", holds=lambda c: not c.uses),
    # A copy reads every element once and keeps it: that is memory.
    Reason("copied", False, "a view of it is copied", holds=lambda c: None in c.readers),
    # Limits for acceptable compile times.
    Reason(
        "deep",
        False,
        "too many operations would follow one another",
        ("Target.depth",),
        lambda c: c.depth > TARGET.depth,
    ),
    Reason(
        "long",
        False,
        "the text of an element would be too long",
        ("Target.written", "Target.written_large", "Target.launch_bytes"),
        lambda c: c.length > c.most_length,
    ),
    Reason(
        "vectors",
        False,
        "a loop that computes it under conditions would not be vectorised",
        ("Processor.worth_keeping", "Processor.heavy"),
        lambda c: c.prevents_vectors,
    ),
    # `why_not_fused` has the reason of that.
    Reason(
        "refused",
        False,
        "it could not be fused with a step that reads it",
        holds=lambda c: c.was_refused,
    ),
    Reason(
        "arguments",
        False,
        "a kernel would have too many arguments",
        ("Target.arguments",),
        lambda c: c.most_arguments > TARGET.arguments,
    ),
    # Cheap enough for any number of readers.
    Reason(
        "tiny",
        True,
        "it is cheap, and has few elements or serves as an index",
        ("Target.cheap", "Target.few_elements"),
        lambda c: c.cost <= TARGET.cheap and c.is_tiny,
    ),
    Reason(
        "free",
        True,
        "computing an element takes no longer than reading it",
        ("Target.free",),
        lambda c: c.cost <= TARGET.free,
    ),
    # Elements are computed again, in less time than the bytes take that are not moved.
    Reason(
        "bytes",
        True,
        "computing it again takes less time than moving its bytes",
        ("Target.instructions_a_byte",),
        lambda c: c.is_repeated and c.reads * c.cost <= c.saved_work,
    ),
    # On a CPU, where another loop costs next to nothing, it is stored.
    Reason(
        "several",
        False,
        "computing it in each step that reads it takes longer than moving its bytes",
        ("Target.instructions_a_byte", *LAUNCH),
        lambda c: len(c.readers) > 1 and (c.serial or not c.takes_less_than_a_kernel),
    ),
    # One reader: repeated work must cost less than memory traffic or another kernel.
    Reason(
        "read once",
        True,
        "one step reads it, each element once at most",
        ("Target.once",),
        lambda c: c.times <= 1 and c.cost <= TARGET.once,
    ),
    Reason(
        "costly",
        False,
        "an element takes too many operations for a part of another kernel",
        ("Target.once",),
        lambda c: c.times <= 1,
    ),
    Reason(
        "repeated",
        True,
        "repetitions add little to each element",
        ("Target.repeated",),
        lambda c: c.again <= TARGET.repeated,
    ),
    Reason(
        "launch",
        True,
        "all repetitions together take less time than another kernel",
        LAUNCH,
        lambda c: c.takes_less_than_a_kernel,
    ),
    Reason(
        "often",
        False,
        "its elements would be computed too often",
        ("Target.repeated", *LAUNCH),
        lambda c: True,
    ),
)


def decide(candidate: InlineCandidate) -> Decision:
    """The decision of the first of `RULES` that holds."""
    reason = next(reason for reason in RULES if reason.holds(candidate))
    return Decision(reason, candidate.cost, candidate.times)
