"""What was slow about kernels once: figures of then, for programs that are among the workloads.

In: nothing. Out: `BEFORE`, beside which docs/least-bytes.md shows what the programs take now. Where
no figure of then is known there is none.
"""

from __future__ import annotations

from typing import NamedTuple


class Before(NamedTuple):
    """A program (its chapter and its name), what was slow about it, and figures of then.

    Attributes
    ----------
    launches :
        Kernels and routines that were started.
    times :
        Bytes that were moved, over the least.
    instructions :
        Of the machine code for sm_90.
    """

    chapter: str
    name: str
    what: str
    launches: int | None = None
    times: float | None = None
    instructions: int | None = None


BEFORE = (
    Before("Images", "convolution of 64 channels", "each pixel was copied nine times", 5, 20.0),
    Before("Rows", "8 largest of 50257", "whole rows were sorted", None, 11.0),
    Before("Sorts and searches", "32 largest", "a list a thread", 1, 1.01, 12066),
    Before("Sorts and searches", "order of short rows", "a library sorted all of it"),
    Before("Indices", "histogram of 100", "all was sorted, then a thread folded a bin"),
    Before("Indices", "sums of sorted segments", "what is sorted was sorted; a thread a segment"),
    Before(
        "Products and small matrices", "systems of 4 x 4", "a call of a library each", 786432, 5.7
    ),
    Before("Losses", "cross-entropy of labels", "probabilities were in memory", None, 5.0),
    Before("Losses", "its gradient", "a scatter sorted its updates", 6, None, 3608),
    Before("Normalisations", "layer norm backwards", "a pass for rows, and for columns", None, 7.6),
    Before("Rows", "softmax backwards", "a broadcast stood between two parts", 2, 2.0),
    Before("Optimisers", "length of all gradients", "one array after another", 170),
    Before("Optimisers", "Adam, 218 arrays", "a kernel for a few arrays", 74),
    Before("Products and small matrices", "A^T B", "the transpose was written", 2),
    Before("Products and small matrices", "matrix times vector", "the matrix was copied"),
    Before("Columns", "variance of columns", "a pass for the mean", None, 2.0),
    Before("Columns", "column sums of 16 bits", "accesses of 2 bytes, in 128 blocks"),
    Before("Rows", "softmax of long rows", "three passes over a row", None, 2.0),
    Before("Loops", "pendulums, stacked", "a stacked state was no registers", 4000),
    Before("Loops", "pendulums, set in place", "numbers set in a state were no registers", 2000),
    Before("Loops", "orbits", "vectors of which a length is taken were no registers", 2000),
    Before("Loops", "rays to a ball", "the same", 129),
    Before("Loops", "hidden states", "products with a small matrix were of a library", 301),
    Before("Loops", "paths of cars", "what is kept was stacked afterwards", 2, 2.3),
    Before("Indices", "means of 1000 groups", "the numbers of groups were sorted", 8, 43.5),
    Before("Scans", "cumsum", "two passes", None, 1.5),
    Before("Scans", "linear recurrence", "about 2 log2(n) steps", 18, 4.3),
    Before("Random numbers", "uniform", "half of each pair was thrown away"),
    Before("Attention", "attention", "scores were in memory", 4, 50.0),
    Before("Sorts and searches", "nearest of 64 centres", "distances were in memory", 2, 15.2),
)
