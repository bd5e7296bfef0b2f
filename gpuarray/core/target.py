"""The machine that the compiler plans for, and every threshold that depends on it.

Floor 1. In: nothing. Out: `TARGET`, the machine that kernels are planned for. The plan does not
depend on the current machine: the same program has the same text everywhere.

The comment above each number gives its reason, and how to measure it again: halve and double it,
and run the named workloads of `python -m bench` on a GPU, or time the described program if there is
no workload. Numbers without either are limits of CUDA, or of readability.
"""

from __future__ import annotations

from gpuarray.util import Struct


class Target(Struct):
    """A machine for which kernels are planned; the default is a large GPU of today (H100, H200)."""

    # ---- the machine ----

    #: From its data sheet; a smaller GPU takes more waves, and loses little.
    multiprocessors: int = 132
    #: Threads that a multiprocessor holds at a time, by the data sheet.
    threads_held: int = 2048
    #: Registers of a multiprocessor, of 4 bytes each, by the data sheet.
    registers: int = 1 << 16
    #: Shared memory that a block has without asking for more: a limit of CUDA.
    shared_bytes: int = 48 << 10
    #: Shared memory of all blocks that a multiprocessor holds, by the data sheet.
    shared_held: int = 227 << 10
    #: Instructions of single threads in the time in which a byte moves, by the data sheet: 33.5 T a
    #: second against 4.3 TB.
    instructions_a_byte: float = 7.8
    #: Threads for which a multiprocessor starts an instruction in a cycle, and how many of them it
    #: has room for if it is one of integers, comparisons and choices; of special functions and
    #: conversions; of doubles; of shared memory and shuffles. From CUDA's table of throughputs, for
    #: 9.0.
    lanes: int = 128
    logic_lanes: int = 64
    special_lanes: int = 16
    double_lanes: int = 64
    shared_lanes: int = 32
    #: Instructions that an access takes with its address. Measure: saxpy, stencil.
    instructions_an_access: int = 4
    #: The widest access of a thread that is one instruction: a limit of CUDA.
    vector_bytes: int = 16
    #: Elements of a thread that are so far apart are read together with those between them: farther
    #: ones share no piece of memory. Measure: every other column, two of 4 bits in a byte.
    longest_step: int = 4
    #: The smallest piece of memory fetched at a time: what columns share is read in full.
    sector_bytes: int = 32
    #: Blocks of a launch: a limit of CUDA.
    most_blocks: int = 2**31 - 1
    #: Bytes that move in the time in which another kernel begins and ends, about 2 us.
    #: Measure: variance_columns, softmax of few rows.
    launch_bytes: int = 8 << 20
    #: Bytes of operands and results that exchanges in progress hold at a time: a small part of a
    #: GPU's memory, and more than any exchange needs to be as fast as the network.
    exchanged_bytes: int = 1 << 28
    #: Vectors that a kernel multiplies with one reading of matrices, where a library would copy
    #: these first: a thread has as many sums. Measure: one token, grouped queries, against 0.
    few_vectors: int = 8
    #: Multiply-adds in about a microsecond, less than another kernel takes: this much may be
    #: recomputed in all. Measure: nbody, cross_entropy.
    launch_work: float = float(1 << 25)
    #: A kernel is split into passes if it is estimated to take this many times longer than they do.
    #: Measure: softmax of few rows, and of as many as there are multiprocessors.
    split_gain: float = 1.1
    #: Threads that keep enough bytes in flight for all memory, each with a few accesses. Measure:
    #: column_sum, full_sum_short.
    full_threads: int = 1 << 16
    #: Bytes that a multiprocessor should have under way: latency times its share of the bandwidth.
    #: Measure: saxpy, stencil.
    bytes_under_way: int = 48 << 10

    # ---- blocks ----

    #: Threads of a block, unless a row is shorter or very long: eight blocks fill a multiprocessor,
    #: so that some end while others begin. Measure: saxpy, gelu_residual.
    block_threads: int = 256
    #: Rows that are longer, and too few to fill the machine, are shared by several blocks. Measure:
    #: full_sum_short, argmax.
    long_row: int = 1 << 13
    #: Spacing of the partial results of blocks: one vector access reads one. Measure: full_sum.
    slot_bytes: int = 16
    #: Kernels with at most this many operations leave registers for blocks of 1024 threads down
    #: columns. Measure: variance_columns.
    few_operations: int = 24

    # ---- registers, shared memory, and loops that are written out ----

    #: Vectors of a row that a thread keeps in registers: more are read again. Measure: softmax.
    row_vectors: int = 8
    #: Bytes that all of them may take: 32 registers, and as many are left to compute with where a
    #: multiprocessor holds 1024 threads. Measure: layer_norm.
    row_bytes: int = 128
    #: Results of columns that a thread holds while its block goes over rows: a quarter of its
    #: registers if a multiprocessor holds 512 threads. Measure: layer_norm backwards.
    column_states: int = 32
    row_column_threads: int = 512
    #: Fewer threads a block keep too few bytes under way: for short rows two kernels do better.
    row_column_least: int = 128
    #: How many times the bytes that blocks leave of their columns must be saved. Measure: the same.
    partials_worth: int = 8
    #: Bytes of a row in shared memory, besides partial results. Measure: softmax of 10000 columns.
    row_shared_bytes: int = 44 << 10
    #: Operations to which a loop along a row may be unrolled: longer text compiles slowly and
    #: misses in the instruction cache. Measure: layer_norm_grad.
    row_copies: int = 512
    #: From so many turns on, a loop that reads several vectors in each has its last turn apart, and
    #: no tests in the others. Measure: cross_entropy of 50257 classes.
    whole_turns: int = 4
    #: Shared memory of a block's tiles, from which the side of a tile follows: two blocks fit.
    #: Measure: transposed_sum.
    tile_bytes: int = 24 << 10
    #: A value is worth a tile if both axes have at least this many elements: runs of 64 bytes.
    #: Measure: transposed_sum of few columns.
    short_run: int = 16
    #: Bytes that a thread reads into registers before it waits for tiles. Measure: transposed_sum.
    ahead_bytes: int = 64
    #: Kernels with more operations compute so much that one vector for each thread is enough.
    #: Measure: black_scholes, mandelbrot.
    unrolled_members: int = 256
    #: Steps of a loop in registers that are written out together where it reads memory, so that
    #: reads are under way early; longer bodies have no registers for that. Measure: nbody.
    loop_unroll: int = 4
    loop_unroll_statements: int = 64
    #: Loops of at most this many iterations for one element are unrolled, so that all elements are
    #: requested together. Measure: stencil by convolution.
    written_out: int = 16
    #: From this many elements on, those that search in memory do it together with their neighbours.
    #: Measure: a scatter by sorting, and searchsorted.
    searchers: int = 1 << 18

    # ---- fusion into one kernel ----

    #: More operations make a kernel slow to compile and short of registers. Measure: chain_jit of
    #: that length, with the time that compiling takes.
    members: int = 256
    #: The same where a group reads more from its producer than from memory: all of that would go
    #: through memory. Measure: inverses and gradients of determinants of 4 x 4.
    chained: int = 1024
    #: Inputs and outputs of a kernel together: each address takes registers. Measure: adam_many.
    arguments: int = 96
    #: The same for kernels of single numbers, which one thread reads one after another: addresses
    #: for which a launch has room, by the limit of CUDA.
    single_numbers: int = 480
    #: Statements of a loop in registers, as `members`.
    statements: int = 1024
    #: Assumed trip count of a loop of unknown length; it only has to be large.
    guessed_steps: float = 16.0
    #: Cost, in multiply-adds, of a value that may be recomputed for each step of a broadcast axis,
    #: whatever the total. Measure: cross_entropy.
    recompute: float = 32.0
    #: A value is combined with a reduction of its own row in one kernel if a row is at most this
    #: long, or if there are enough rows to keep all processors busy, or if the computation of each
    #: element before it is `free`. Measure: softmax, few rows.
    waiting_row: int = 1 << 20
    waiting_rows: int = 32
    #: Groups of more elements are fused horizontally only if that takes no more memory than running
    #: them one after another. Measure: adam_many.
    small_group: int = 1 << 20
    #: At least this many are fused horizontally: passing their addresses to the kernel costs a
    #: copy. Measure: mlp_narrow.
    fewest_alike: int = 4

    #: The most products that an element of a convolution sums where a kernel makes it: more, and a
    #: library is faster. With one channel in, it has no products of matrices to offer. Measure:
    #: stencil by convolution.
    short_convolution: int = 16
    depthwise_convolution: int = 64

    # ---- inlining ----

    #: Cost, in multiply-adds, of an element that may be recomputed at every use: less than reading
    #: it. Measure: stencil, rms_norm_residual.
    free: float = 3.0
    #: Total cost of all recomputations of an element, for each use. Measure: stencil of padded
    #: arrays.
    repeated: float = 24.0
    #: Cost of an element that is computed only once, and the number of equations that compute it:
    #: larger expressions compile slowly. Measure: dropout, uniform.
    once: float = 1024.0
    depth: int = 24
    #: Operations emitted for it, counted again for each place that shares them, if the value has
    #: more than `launch_bytes`. Measure: the derivative of an associative scan, including compile
    #: time; vectors rotated by quaternions.
    written: int = 96
    written_large: int = 384
    #: Elements that an inlined fold may reduce, and how many elements it may read for each that it
    #: produces: the distances between few points and many, not sums of rows. Measure: nbody.
    folded_inline: int = 64
    folded_reads: int = 2
    #: Values of few elements may be made everywhere if an element costs at most so much. Measure:
    #: layer_norm.
    few_elements: int = 64
    cheap: float = 12.0
    #: Arrays side by side that one kernel reads: each is a branch. Measure: concatenate of many.
    side_by_side: int = 64
    #: With at most this many updates, every element of a scatter's result tests all of them; more
    #: are sorted, or written in place. Measure: a scatter of few updates.
    updates_looked_at: int = 8

    # ---- special forms ----

    #: Integer sums into at most this many bytes are kept in shared memory, a copy for each warp if
    #: they fit, if many updates hit each place: in global memory they would wait for one another.
    #: Measure: a histogram.
    shared_sums: int = 24 << 10
    meeting_updates: int = 64
    #: If few elements have many updates, the updates of each are cut into pieces, a thread each: of
    #: this many updates on average, at least, and this many pieces, at most. Measure: sums of few
    #: unsorted segments.
    piece_updates: int = 16
    most_pieces: int = 1024
    #: Updates of a thread that are read together, so that enough bytes are under way.
    #: Measure: as above.
    updates_ahead: int = 8

    #: If very many updates go to few targets, each warp of a block folds its own in a table of the
    #: targets, in shared memory: of at most this many bytes, so that a multiprocessor has eight
    #: warps. The numbers of updates for each target, and for each block, from which this pays.
    #: Measure: means of groups.
    table_bytes: int = 28 << 10
    table_updates: int = 4
    table_block_updates: int = 1 << 11

    #: An operand of so many bytes, and so many times as large as its updates, is changed in place
    #: and not copied. Measure: dynamic_update_slice of a cache.
    in_place_bytes: int = 1 << 16
    in_place_times: int = 4
    #: The longest rows that a block sorts: one element for each thread of the largest block.
    sorted_row: int = 1024
    #: Up to this many largest elements of a row are kept, a few in each lane of a warp; also how
    #: many a thread reads together, as shared memory allows. Measure: the largest of long rows.
    largest_kept: int = 128
    largest_ahead: int = 8
    #: Threads of a block that scans, and elements that each handles at a time. Measure: cumsum of
    #: rows, and of one long row.
    scan_threads: int = 256
    scan_items: int = 4
    #: Words of partial results that a thread holds where blocks look back at one another: looking
    #: back takes several accesses, one after another, so tiles are large. Measure: cumsum of a long
    #: row.
    scan_tile_items: int = 16
    #: The most words of a partial result: with more of them registers spill. Measure: associative
    #: scans of products of small matrices.
    scan_state: int = 32
    #: Columns that a block scans side by side: a line of memory of floats. Measure: cumsum of the
    #: columns of a narrow matrix.
    scan_across: int = 32
    #: Shorter rows and columns are not split for a scan, and pieces are not shorter. Measure: as
    #: above.
    scan_row: int = 1 << 13
    scan_column: int = 64

    # ---- sweeps ----

    #: Threads along both sides of a tile, and the tiles that are tried, largest first: owned and
    #: swept elements. Measure: attention with long sequences.
    sweep_side: int = 16
    sweep_tiles: tuple[tuple[int, int], ...] = ((64, 32), (32, 32), (32, 16), (16, 16))
    #: The same where tensor cores multiply: a warp has so many of the owned elements.
    tensor_rows: int = 16
    tensor_tiles: tuple[tuple[int, int], ...] = (
        (128, 64), (64, 64), (64, 32), (64, 16), (32, 16),
    )  # fmt: skip
    #: Features of products whose elements are made where they are used: a block holds its part of
    #: the operands in shared memory. Measure: attention with heads of that size.
    swept_features: int = 128
    #: Bytes of elements that are worth it: fewer stay in the caches between two kernels.
    #: Measure: attention over short sequences.
    swept_bytes: int = 8 << 20
    #: Operations behind one another that each element takes rather than to read their result.
    swept_depth: int = 4
    #: With short floats and more features than this, a derivative of attention is several times as
    #: fast by a library's products, which make the scores once. Measure: attention in bfloat16.
    swept_short: int = 32
    #: From this many bytes on, the scores are too large to keep in memory with other arrays.
    swept_scores: int = 1 << 30

    # ---- CUDA graphs ----

    #: Kernels of a program from which recording pays: fewer are launched while the first of them
    #: runs. Measure: first call and later ones of mlp_narrow.
    graph_kernels: int = 10
    #: Launches in a row that are replaced by one: a replay costs about two. Measure: as above.
    graph_run: int = 4
    #: Graphs kept for a run of launches, each for the addresses of one call, and addresses
    #: remembered to recognise repeated ones: donation alternates between two or three.
    graphs: int = 8
    graph_memory: int = 64
    #: Kernels in a graph of loop iterations: recording takes a few microseconds each, and the
    #: saving grows no further. Measure: a scan of short steps.
    graph_nodes: int = 256
    #: Iterations from which a graph is worth the copies around it. Measure: as above.
    graph_turns: int = 4
    #: Bytes that a graph of iterations may keep for the arrays passed through it: a small part of a
    #: GPU's memory.
    graph_bytes: int = 16 << 20
    #: Bytes that an iteration may move per kernel: with more, the kernel takes longer than its
    #: launch. Measure: as above, with longer arrays.
    graph_kernel_bytes: int = 1 << 20

    # ---- libraries ----

    #: Workspace of a library's algorithm: cuBLAS's recommendation for Hopper. Measure: mlp.
    library_workspace: int = 32 << 20
    #: The same for a convolution, which may transform its images: the size of such images. Measure:
    #: a convolution of 64 channels.
    convolution_workspace: int = 1 << 30

    # ---- rewrites ----

    #: Arithmetic up to this weight (division is the heaviest) is rounded exactly everywhere, so
    #: constants may be folded at compile time: a property of IEEE 754.
    exact_weight: float = 4.0
    #: Rows and columns, and steps, of a product that is small, and how many of them are many: a
    #: library would take longer to begin than a kernel to end. Measure: products of 3 x 3.
    product_side: int = 8
    product_steps: int = 4
    products_many: int = 64
    #: Rows and columns of matrices that are factorised and solved entry by entry, in registers of
    #: one thread, where there are `products_many`. Measure: systems of 4 x 4.
    matrix_side: int = 4
    #: Maximum number of components into which a vector is split. Measure: nbody.
    components: int = 4
    #: Arrays of fewer elements are no burden in memory. Measure: nbody of few bodies.
    vectors_from: int = 1 << 12
    #: Maximum number of components into which a loop carry is split: each takes a register or two.
    #: Measure: pendulums as a stacked state.
    carried_components: int = 16
    #: How far back a vector is split into components: text grows with it. Measure: nbody, compile
    #: time.
    component_depth: int = 48
    #: Maximum number of parts into which an axis is split at reshapes: each is an axis of kernels,
    #: and NumPy has 64. Measure: layer_norm of groups.
    axis_parts: int = 8

    # ---- text ----

    #: A source that calls a long function in more places gets it as a function instead of inlined.
    #: Measure: black_scholes, with the time that compiling takes.
    inlined_calls: int = 4
    #: A longer expression gets a name; a choice between longer ones takes several lines. For
    #: readability.
    name_from: int = 48
    #: Arguments of one type that comments list individually. For readability.
    listed: int = 16
    choice_width: int = 64
    #: Pixels whose weighted sum is a pixel of a resized image, at most, and which part of an axis
    #: they are: for more, a product with a matrix of all weights is faster. Measure: resize.
    band: int = 48
    band_share: int = 4

    # ---- derived ----

    @property
    def full_grid(self) -> int:
        """Blocks that fill the machine where threads wait for one another: two at a time."""
        return 2 * self.multiprocessors

    @property
    def column_grid(self) -> int:
        """The same for blocks that wait for memory more than they compute: all that fit."""
        return self.threads_held // self.block_threads * self.multiprocessors

    @property
    def many_blocks(self) -> int:
        """Eight waves of all blocks that fit: beyond it a thread may do more than one vector."""
        return 8 * self.column_grid

    @property
    def narrowest(self) -> int:
        """Columns of four bytes in one cache line."""
        return self.sector_bytes // 4

    @property
    def batch_grid(self) -> int:
        """Blocks for many arrays: enough that the last ones to end keep few others waiting."""
        return 4 * self.column_grid


#: The machine that kernels are planned for.
TARGET = Target()


class Processor(Struct):
    """The CPU model of native code. Plans and texts do not depend on the current CPU or its number
    of threads: the same program gives the same bits everywhere.
    """

    #: Elements that a thread takes at a time: 4,096 cost 15 % more, four million the same. Measure:
    #: saxpy.
    task: int = 1 << 14
    #: Tasks that keep any number of threads busy to the end: with fewer, axes are cut.
    many_tasks: int = 32
    #: Partial results that a fold along a row keeps side by side: several vector registers, so that
    #: an addition does not wait for the previous one. Also the row length from which this many are
    #: used; shorter rows use half, since merging more takes longer. Measure: full_sum, bf16_sum.
    lanes: int = 64
    lanes_from: int = 256
    #: Pieces in which the kernel of a fold along rows writes them elsewhere (heads of a normalised
    #: row): with 16 elements it takes twice as long as a copy behind it, with 32 as long, with 64
    #: less. Measure: layer norm of rows of 1,024, returned as heads.
    written_piece: int = 32
    #: Columns that are folded side by side: their partial results stay in the first cache, and each
    #: row of them fills several lines of memory. Measure: column_sum.
    columns: int = 512
    #: Columns of a thread that do not share a cache line with another's. Measure: cumsum of few
    #: columns.
    least_columns: int = 32
    #: Rows that a running fold processes at a time: sums of one row wait for one another, those of
    #: several rows do not. Measure: cumsum.
    scanned_rows: int = 4
    #: Elements of a running sum of floats from which on it is a double. Measure: cumsum.
    long_scan: int = 1 << 10
    #: Positions along an axis that are computed together, if values are chosen by position along
    #: it: each adds text for the compiler. Measure: ode.
    together: int = 8
    #: Elements of a row or column that is cut, each piece with a partial result.
    piece: int = 1 << 16
    #: Rows and columns of a tile with transposed operands: runs of two cache lines one way, of
    #: sixteen the other, where waiting for a line takes most of the time. Measure: transposed_sum.
    tile_rows: int = 32
    tile_columns: int = 256
    #: Loops are split where conditions on the position change, if the longest piece has at least
    #: this many iterations, and all pieces together at most this many lines to compile. Measure:
    #: life, cloth.
    split_from: int = 8
    split_lines: int = 2000
    #: Bytes of a result that is stored past the cache, which it would not fit into: a smaller one
    #: is still there when it is read next. Measure: saxpy.
    streamed_bytes: int = 12 << 20
    #: Bytes that are computed into the first cache before they are stored past it.
    stream_block: int = 1 << 11
    #: Bytes of values that are kept from pass to pass over a row; more are computed again.
    #: Measure: softmax.
    row_bytes: int = 1 << 17
    #: Bytes from which on lookups miss L1 and L2, the prefetch distance in iterations, and the
    #: largest number of operations in such a loop: it is not vectorised. Measure: gather.
    far_bytes: int = 4 << 20
    ahead: int = 64
    fetched_steps: int = 16
    #: Operations that weigh more (an exponential, not a product) are not done again in a later
    #: pass, if there is room for their results. Measure: softmax.
    worth_keeping: int = 4
    #: Weight of such operations from which on they are separate kernels from conditional reads
    #: (padding, joined arrays, updates): compilers may not vectorise both in one. Measure: ctc,
    #: ppo.
    heavy: int = 8
    #: Elements of a row that is long enough for vectors along it, or so short that compilers have
    #: vectors over the rows anyway; rows that fill a vector side by side, and elements of rows that
    #: are. Measure: ppo.
    short_row: int = 32
    shortest_row: int = 3
    side_by_side: int = 8
    row_block: int = 1 << 13
    #: Operations that may be recomputed rather than done once in a separate kernel: that costs no
    #: launch, but their results go through L1 or L2. Measure: life, cloth, wave.
    apart_work: float = float(1 << 18)
    #: The same for operations that take long (`worth_keeping`), in all and for each element.
    #: Measure: Newton's method for a logistic regression, random walks of a few chains.
    computed_again: float = float(1 << 11)
    again_each: float = 24.0
    #: Bytes of a line of a cache, at which values between steps begin.
    line: int = 64
    #: Bytes of a value between steps that is a local array of a routine; larger ones are in the
    #: block of memory that it is given.
    local_bytes: int = 1 << 12
    #: Bytes of a carry that is copied at the end of an iteration: the compiler may keep it in
    #: registers. Larger carries swap buffers.
    carried_bytes: int = 1 << 10
    #: Operations of a kernel that is inlined in a loop.
    inlined: int = 1 << 10
    #: Multiply-adds of a product that is an inlined loop where BLAS is not called: larger ones are
    #: faster in NumPy. Measure: kalman.
    product: int = 1 << 18
    #: The same for a product in a loop, which would not be native code otherwise.
    looped_product: int = 1 << 22
    #: Multiply-adds from which on BLAS is faster than loops, which are slow sooner where sums go
    #: along neighbours or columns do not fill vectors (64x64x64: the same; 64x10x128: 4 times
    #: faster in BLAS; 16x16x16: 3 times slower). Measure: gru, mlp.
    even_product: int = 1 << 18
    awkward_product: int = 1 << 12
    #: Multiply-adds of a piece of a product by BLAS, at least: for the first four pieces, up to
    #: eight, and for more. BLAS copies its operands for each: of a product of 1000x1000x1000, eight
    #: pieces cost a tenth, 32 a quarter. Each is on one thread, since the threads of BLAS wait for
    #: one another by computing: on a busy machine that takes four times as long. Measure: python -m
    #: bench.limits busy; attention.
    product_piece: int = 1 << 19
    large_piece: int = 1 << 21
    larger_piece: int = 1 << 26
    #: Multiply-adds, and rows and columns, from which on operands of a product of integers are
    #: copied for it. Measure: int8_matmul.
    integer_product: int = 1 << 14
    integer_rows: int = 4
    #: Columns of a panel and numbers of a group at most (45_integers.cuh). How many there are
    #: depends on the CPU, which plans do not know: copies have room for these.
    panel_columns: int = 32
    panel_group: int = 4
    #: Elements of Fourier transforms that are computed side by side, on the stack; for longer rows
    #: those of their rows and columns. And bytes of a row between these, on the stack too. Measure:
    #: fft, rfft.
    transformed: int = 1 << 10
    transformed_bytes: int = 1 << 17
    #: The prime factors of lengths that have functions (49_transforms.cuh), and sequences of a
    #: task: as many as the widest registers have numbers, which plans do not know.
    transform_primes: tuple[int, ...] = (2, 3, 5, 7, 11, 13)
    sequences: int = 16
    #: Rows of a product that are a task, and multiply-adds that a thread takes at a time.
    product_rows: int = 16
    product_task: int = 1 << 17
    #: Operations on a small matrix that is factored, or whose systems are solved, by loops: for
    #: more, LAPACK's blocks are faster than starting it is slow. Measure: kalman, cholesky_8x8.
    matrix_work: float = 1 << 13
    #: Rows of a triangular matrix up to which loops solve any number of systems with it. Measure:
    #: the distances of 5,000 points to 6 centres by their covariances.
    substituted: int = 16
    #: Rows of a matrix up to which native code calls LAPACK itself, on one thread: for larger ones
    #: LAPACK's own threads save more than calls from Python cost. Measure: newton_sqrtm (bench).
    library_rows: int = 256
    #: Rows of a matrix up to which its eigenvalues or singular values are found by loops: of larger
    #: ones LAPACK's vectors are faster than starting it is slow. Measure: svd_3x3 (bench).
    rotated_rows: int = 16
    #: Rows of a matrix of a stack up to which LAPACK works in memory of the thread's stack.
    #: Measure: eigh.
    stacked_rows: int = 64
    #: Bytes of the features that are computed side by side in sums over windows, and their relative
    #: cost: a few vectors of AVX-512 keep its multipliers busy. Measure: convolution.
    panel_bytes: dict[int, float] = {192: 3.0, 128: 2.0, 64: 1.2, 32: 1.1, 16: 1.0}
    #: Bytes of such a panel of the right operand, which is read again and again: a part of the
    #: first cache.
    panel_cache: int = 20 << 10
    #: Results of a task along the innermost axis, and in all: the more, the less of the left
    #: operand is copied twice.
    window_row: int = 48
    window_block: int = 256
    #: Bytes that a task sees of the left operand, and those of its sums: a part of the second
    #: cache, and of a thread's stack.
    window_bytes: int = 1 << 17
    #: In the same measure, of vectors along the innermost axis instead: a product with one vector,
    #: an element of the left operand that lies apart from its neighbours, and one of the result.
    #: Measure: convolutions of 1, 3, 16 and 64 channels to 1 ... 32, either axis last.
    window_vector: float = 2.25
    window_load: float = 5.0
    window_store: float = 2.0
    #: Results of few features along the innermost axis that are computed together, and those of a
    #: task: what they see stays in L1. Measure: convolution of an image with one channel.
    window_line: int = 512
    window_lines: int = 1 << 12
    #: Separate texts for parts of windows on an operand with zeros between its elements: those of a
    #: stride of 2 along two axes. With more, the zeros are multiplied.
    window_parts: int = 4
    #: Multiply-adds from which on sums over windows are separate from the kernels around them,
    #: where they would be computed one by one.
    windows: int = 1 << 12
    #: Elements up to which NumPy computes exp, log and the like of float32 in double, because its
    #: own loops err by more than 2 units in the last place: up to here a call takes as long as the
    #: arithmetic. Measure: exp of 16 to 4,096 numbers with GPUARRAY_NATIVE=off.
    exact_functions: int = 1 << 9
    #: Elements of windows that NumPy materialises at a time for a product: a part of L2, from which
    #: it is twice as fast; the least number of windows, with fewer of which BLAS has little to do;
    #: and the maximum (16 MB of float32). Measure: convolution with GPUARRAY_NATIVE=off.
    windows_near: int = 1 << 17
    windows_together: int = 256
    windows_laid: int = 1 << 22
    #: Multiply-adds of a piece of long sums, which has partial sums of its own.
    window_piece: int = 1 << 22
    #: Tasks into which many updates are split, merged at the end: more take longer to merge. And
    #: parts of a task, whose scalar updates alternate (for rows a task has one part, which stays in
    #: L1 or L2). And updates for each element of all parts, at least: each part is filled and
    #: merged, and a large one leaves L2; fewer parts do where results are large. Measure:
    #: segment_max, segment_rows.
    update_tasks: int = 8
    update_turns: int = 2
    update_share: int = 8
    #: Operations after the targets and values of single updates from which on a block of both is
    #: computed in vectors first. Measure: histogram of two values.
    placed_steps: int = 8
    #: Bytes of a row of updates that are the columns of a task, and of a shorter row that has two
    #: tasks: a core reads ahead along whole rows, so that pieces of them take up to twice as long.
    #: Measure: segment_rows with 50,000 targets, of 64 and of 1024 columns.
    updated_bytes: int = 512
    least_updated_bytes: int = 128
    #: Rows up to this length are sorted by counting, for each element, how many come before it: it
    #: is compared with many at a time. Longer ones are radix-sorted. Measure: argsort_rows.
    ranked_row: int = 96
    #: Elements of a row that is one task: sorted on the stack, and in memory. Threads share longer
    #: ones: that is three times as many passes. Measure: argsort, permutation.
    sorted_row: int = 1 << 12
    sorted_in_memory: int = 1 << 18
    #: Values without payload that are sorted natively outside loops too: for more, NumPy's vector
    #: instructions save more than its call costs. Measure: python -m bench host.
    sorted_alone: int = 1024
    #: Bits of a key by which long rows are sorted at a time. Measure: argsort.
    digit_bits: int = 11
    #: Largest elements that are kept while a row is read, and as which part of the row at most; for
    #: more it is sorted. Measure: top_k.
    largest_kept: int = 1 << 11
    largest_part: float = 0.25
    #: As in `Target`: in a loop, where the operand's memory is written over.
    in_place_bytes: int = 1 << 10
    #: Elements of a block for which a loop runs all its iterations before the next: its carries are
    #: then in L1. Measure: mandelbrot.
    block: int = 512
    #: Elements of a block that goes through several kernels before the next block: each kernel
    #: finds its input in L2. Measure: map_coordinates.
    chained: int = 1 << 12
    #: Bytes of such blocks, on the stack of a thread and in L2, for values that nothing else reads.
    chain_bytes: int = 1 << 18
    #: Products of a batch from which on each goes through its following steps before the next
    #: product: with fewer, threads would wait for the last. Measure: attention.
    chained_batches: int = 8
    #: Operations on a block after which a loop looks for signals.
    patience: int = 1 << 26
    #: Calls after which a program with such short calls is left to NumPy: native code could save
    #: less than the rest of a call takes. Measure: python -m bench host.
    trial_calls: int = 64
    trial_seconds: float = 5e-6
    #: Operations of a call that keeps Python's lock: to take it back from another thread costs
    #: about as much. Measure: python -m bench host.
    brief: int = 1 << 14
    #: Kernels in a routine, and in a compilation unit: compiling ends within a second or two, and a
    #: program has few units.
    routine: int = 64
    unit: int = 32
    #: Kernels of one routine at the top level of a program. Measure: python -m bench host.
    stretch: int = 16
    #: Iterations of a loop that compilers may unroll early.
    unrolled: int = 32
    #: Libraries that a process has loaded at a time. Each takes five memory maps, of which Linux
    #: gives a process 65,530, and 20 kB of memory.
    units: int = 4096
    #: Programs in succession that a compiler may fail to compile before no more are tried: each
    #: may take half a minute.
    failures: int = 3


def has_tensor_cores(arch: str) -> bool:
    """Whether GPUs of an architecture multiply bfloat16, and float32 rounded to TF32.

    >>> has_tensor_cores("sm_90"), has_tensor_cores("sm_75")
    (True, False)
    """
    return int(arch.removeprefix("sm_")) >= 80


#: The processor that native code is planned for.
PROCESSOR = Processor()
