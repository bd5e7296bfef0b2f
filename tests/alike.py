"""Mistakes in kernels that are none: what tests/mutants.py changes, and nobody can tell.

In: the description of a mistake. Out: why a kernel with it computes the same, where it does.
"""

from __future__ import annotations

import re

#: (what the mutant's description matches, why it computes the same)
EQUIVALENT: tuple[tuple[str, str], ...] = (
    (r"(?:__shared__|\[\d+\](?:\[\d+\])?(?: = \{\})?[;,]).*more\]$", "more room"),
    (
        r"(?:tile\d+|mine\d+|theirs\d+|w)\[\d+\]\[\d+\];.*less\]$",
        "rows closer together are slower",
    ),
    (
        r"(?:lane|deep|i\d+|threadIdx\.x(?: % 32u)?) == 0.*\[0 -> 1",
        "another thread does it",
    ),
    (r"\? .* : 0u;    \[0u -> 1u", "threads outside compute something that nobody reads"),
    (r"\(T\)-1 < \(T\)0.*\[(?:< -> <=|.*more\])", "all ones is small only below zero"),
    (r"(?:rows|columns).* u < .*\[(?:< -> <=|.*more\])", "one round more finds the row at its end"),
    (r"if \(lane \* \d+u < .*more\]$", "the same lanes have something to do"),
    (r"(?:if|for) \(.*(?:<|>=) .*less\]$", "vectors begin at multiples of their width"),
    (
        r"b = (?:threadIdx\.x; b < (?:\d+u|tile\[4\]); b \+= 256u|"
        r"deep; b < [1-8]u; b \+= (?:8|16)u).*\[(?:256u -> |8u -> |16u -> |\+= -> -=)",
        "there are fewer blocks than threads: one round is all",
    ),
    (
        r"(?:all|odd|columns|batch|in one pass|rows, long).*ga_(?:block|column)_reduce.*less\]$",
        "the last ones hold nothing",
    ),
    (r"ga_warp_reduce<\d+>.*more\]$", "half of it, rounded down, is the same"),
    (r"ga_column_reduce<(\d+),.*\[\1 -> .*more\]$", "half of it, rounded down, is the same"),
    (
        r"rows, arg.*u \* 32u \+ lane.*\[32u -> 31u less",
        "what two threads see changes no extremum",
    ),
    (r"threadIdx\.x % 32u == 0.*33u more\]$", "still one lane of each warp"),
    (r"atomicInc.*\[\+ -> -", "the bytes between slots serve as well"),
    (
        r"(?:all|columns, in one pass).*b < \du;.*\[(?:< -> <=|.*more\])",
        "the slot behind the last adds nothing",
    ),
    (r"tickets = gridDim.*\[16u -> ", "the bytes between slots serve as well"),
    (r"(?:smallest|places).*e < left.*\[< -> <=", "behind the end is the first element again"),
    (r"entries: .*int v.*(?:2 -> 3 more|2 : 1;.*1 -> 0 less)", "no comparison tells the two apart"),
    (r"base\d = 0;.*\[0 -> 1", "nothing refers to it yet"),
    (r"row < (\d+)u; row \+= \1u.*(?:more\]$|\[\+= -> -=)", "there is a block for each row"),
    (r"base\d_now = .* == 0 .*\[0 -> 1", "what is infinite is compared with any number"),
    (r"r\d \+ \((\w+) - \1\);    \[\+ -> -", "what is added is 0, or no number"),
    (r"for \(unsigned k = .*\[(?:< -> <=|.*more\])", "a turn beyond the end has no elements"),
    (r"GA_ROOM\(room, |GA_ROOM_BYTES.*more\]$", "what does not fit is read again"),
    (r"return place_other < place;.*\[< -> <=", "no two elements stand at one place"),
    (r"run = 2; .*\[2 -> 1 less", "runs of one element are sorted"),
    (r"run <= (\d+)u; .*\[\1u -> .*more", "lengths of runs double"),
    (r"sort.*(?:t / (\d+)u.*\[\1u -> |kept0\[256\]).*less\]", "nobody has the last place of a row"),
    (r"key_other < key.*\[< -> <=", "no two elements stand at one place"),
    (r"sort, and more: .*__syncthreads", "one exchange through shared memory is all"),
    (r"(?:in one pass|deep): .*r1 == 0 \? r1.*\[0 -> 1", "every thread has elements"),
    (r"ga_shift_left: .*bool negative = ", "compilers shift signs in by themselves"),
    (r"ga_column_reduce: .*DEEP < 8 \?.*\[8 -> 9", "8 is 8 either way"),
    (r"columns, softmax: .*base0 - base0_now.*\[- -> \+", "one turn is all"),
    (r"columns, in one pass: .*many = .*\[16u -> 17u", "columns have as many elements"),
    (r"ga_odd: .*\| 1u.*\[1u -> 2u", "any bit beyond a half's tells the side"),
    (r"tables: .*place\d\[u\] = \d+u;.*(?:less|more)\]$", "what is added there is nothing"),
    (r"tables: .*(?:ga_find|if \(at\d).*(?:<=|more|-> \{)\]$", "places are tested again"),
    (r"tables: .*p < warps \*.*(?:<=|more)\]$", "the next table is filled afterwards"),
    (r"tables: .*ga_min\(GA_ROOM_BYTES.*less\]$", "there is room for fewer"),
    (r"tables: .*first < .*(?:<=|more)\]$", "a turn beyond the end has no updates"),
    (r"ga_tell_word: .*words\[0\] = 0", "these values are whole words"),
    (r"ga_power: .*N == 1\).*\[1 -> 0", "x times nothing is x"),
    (r"ga_store_part: .*e < N.*\[< -> <=", "fewer are left"),
    (r"ga_shift_left: return .*\[8 -> 9", "what is shifted out is gone either way"),
    (r"rows, in one pass: .*4096u -> 4097u", "the row ends in a turn where that is the same"),
    (r"ga_put: .*\[SLOT / 4\].*\[/ -> \*", "more room"),
    (r"ga_(?:high|low)est<bool>", "a number becomes a bool without limits"),
    (r"sweep: .*i < 256u; i \+= 256u.*\[(?:< -> <=|\+= -> -=)", "one round is all a tile needs"),
    (r"sweep: .*c < 1u.*more\]", "features beyond the last are not written"),
    (r"sweep: .*c \* 16u", "of 8 features a thread has one at most"),
    (
        r"sweep, tensor(?:, rounded)?: .*(?:adds|continue;|(?:own|at) = .*(?:y \+ i|x \+ j))",
        "in the test for hidden tiles, which may be computed",
    ),
    (r"sweep, tensor.*(?:// sweep|// the next tiles)", "nothing is read behind the last tile"),
    (r"sweep, tensor.*own < 70u && at < 75u", "elements beyond the ends have no weight"),
    (r"apart >= 32u.*\[32u -> 31u", "distances are powers of two"),
    (
        r"ga_look_back_down: .*(?: each = |\* each \+ each.*\[\+ -> -)",
        "how many tiles a thread hears of is a matter of speed",
    ),
    (
        r"ga_look_back(?:_down)?: .*(?:tiles \+ 31u\) / 32u|supers = ).*\[3\du? -> 3\du?",
        "the words stand elsewhere",
    ),
    (r"words\[\(sizeof\(T\) \+ 3\) / 4\];", "more room"),
    (r"if \(lane == 0\) ga_tell\(words", "all threads of the warp know the same"),
    (r"ga_f16: .*\[(?:>= -> >|< -> <=|- -> \+)", "the bits that are kept are the same"),
    (r"ga_saturate: .*lowest.*\[<= -> <", "a number that fits is itself"),
    (r"unsigned: .*bool v\d+ = v\d+ < 0u.*\[(?:< -> <=|0u -> 1u)", "zero is not corrected"),
    (
        r"rows and columns, both: .*(?:u \* 32u \+ lane.*\[\* -> \+|j >= 101u.*\[101u -> 102u)",
        "these sums are not written",
    ),
    (r"scan, and more: .*tile < 1200u.*more\]", "tiles begin at multiples of their length"),
    (r"ga_look_back\(.* (1\d+u), piece.*\[\1 -> .*more", "the words stand elsewhere"),
    (r"launch = .*\[2\] \+ 1u;.*\[\+ -> -", "any number serves that no launch had"),
    (r"ga_odd: .*> fabs\(x\).*\[> -> >=", "numbers that are equal are done with"),
    (r"ga_warp_scan: .*o < LANES.*\[< -> <=", "no lane is so far from the first"),
    (r"integers: .*bool v\d+ = v\d+ < .*\[(?:< -> <=|0 -> 1)", "zero is decided before"),
    (r"ga_arg\w+: return a\.at.*\[< -> <=", "no two elements stand at one place"),
    (r"~0ull.*\[", "no element stands so far back"),
    (r"ga_abs: .*x < 0.*\[(?:< -> <=|0 -> 1)", "0 is its own negative"),
    (r"waiting\[2304\].*less\]", "31 are the most that are left waiting"),
    (
        r"ga_top<\d+>.*more\]|ga_top_take: .*K - 1.*(?:\[- -> \+|less\])",
        "keeping more finds as much",
    ),
    (r"top.*: kernel: .*first < .*(?:\[< -> <=|more\])", "turns beyond the end have no elements"),
    (r"top.*: kernel: .*u \* 256u \+ threadIdx.*\[\+ -> -", "every element is some thread's"),
    (r"x\[u\] = 0|ga_top_block: .*own\[lane\] : 0.*more\]", "elements are larger than 1 too"),
    (
        r"ga_top_step: .*> other|ga_top_meet: .*> x|x\[k\] > top\.least",
        "no two are equal but 0",
    ),
    (r"ga_top_rising: .*run = 2u; .*less\]", "runs of one element are sorted"),
    (r"ga_top_take: while .*(?:>= -> >|more\])", "the last 32 wait for the end"),
    (r"ga_top(?:_block)?: .*\(K \+ 31\) / 32.*\[(?:31 -> 32|32 -> 31)", "more room"),
    (r"top.*: kernel: .* p < \d+u;.*\[(?:< -> <=|.*more\])", "there are no elements so far back"),
    (r"ga_top_meet: .*p \+ 1 < PARTS", "the smallest meet nobody"),
    (r"ga_arg\w+: .*a\.value (?:>|<) b\.value.*\[[<>] -> ", "the two are known to differ"),
)


def reason(mistake: object) -> str:
    """Why a mistake that nobody notices changes nothing; empty where no reason is known."""
    return next((why for pattern, why in EQUIVALENT if re.search(pattern, str(mistake))), "")
