"""Target: the machine and the thresholds for which graphs are compiled.

Every decision of the compiler is a function of a graph and a `Target`; nothing else of the process is asked. The
figures were measured with NumPy 2.0 to 2.4 (OpenBLAS 0.3) on two cores of an x86-64 server with AVX-512 and 1 to 2 MB
of L2 cache, unless a comment says otherwise.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
from collections.abc import Generator
from typing import Literal

import attrs

from afx.core import constants
from afx.core.primitive import Printable
from afx.runtime.thread_pool import Thresholds


def _can_pin_blas() -> bool:
    return importlib.util.find_spec("threadpoolctl") is not None


@attrs.frozen(eq=False, repr=False)
class NativeTarget(Printable):
    """Thresholds of machine code: ``<decision>_<bound>_<quantity>``, inclusive bounds.

    >>> NativeTarget().trial_min_calls
    4
    """

    # -- when --
    compile_min_seconds: float = 0.01  # time that calls of a plan took before it is compiled: a tenth of compiling
    lower_max_instructions: int = 200_000  # of a schedule that is compiled: it takes minutes for more
    kernel_max_instructions: int = 20_000  # of a kernel: longer schedules are cut into several
    numpy_call_seconds: float = 5e-7  # of a call of NumPy on few numbers, at least
    wait_min_seconds: float = 0.4  # predicted for NumPy's plan, whose first call waits for machine code
    slow_min_seconds: float = 5e-3  # of a call: it is lowered here until the other process has imported afx
    early_min_seconds: float = 0.03  # predicted for NumPy's plan: it is lowered before its first call
    await_max_instructions: int = 2000  # lowered within this process, in less time than another needs to import afx
    piece_min_calls: int = 2  # calls of NumPy that a kernel must stand for which is part of a plan
    piece_loop_calls: int = 10  # as how many calls a loop counts there
    module_max_functions: int = 1500  # each a different step: LLVM takes some milliseconds for each
    release_min_nanoseconds: int = 20_000  # predicted work of a call that releases the interpreter's lock
    arena_max_bytes: int = 1 << 30  # more would be memory that NumPy's plan does not need

    # -- trials --
    trial_min_calls: int = 4  # of NumPy's plan and of the kernel that are timed before the faster one stays
    trial_max_calls: int = 16  # the same where neither is faster by far
    trial_clear_ratio: float = 1.25  # of the times of the slower and the faster one: noise of the least of four is less
    trial_known_ratio: float = 1.5  # of NumPy's time, as far as known, and the kernel's: it is not asked again
    trial_single_ratio: float = 4.0  # the same, at which one call of the kernel decides for it
    trial_single_min_seconds: float = 1e-3  # of such a call of NumPy's plan: below, a switch of threads may be as long
    trial_slow_ratio: float = 3.0  # of the kernel's time and NumPy's, at which a second call decides against it
    trial_first_slow_ratio: float = 9.0  # the same of the first call, which alone decides where it is long
    trial_long_min_seconds: float = 0.05  # of a call of which one pair decides
    hand_over_max_call_seconds: float = 5e-6  # of a call of NumPy in a loop: longer ones do what machine code has too
    trial_again_seconds: float = 120.0  # after which a trial that NumPy's plan won is repeated
    trial_max_other_share: float = 0.1  # processor time of other threads, of a call's own, of a call on one thread

    refused_max_calls: int = 3  # in a row, that a kernel leaves to NumPy's plan before it is given up

    # -- loops --
    nest_max_values: int = 120  # of one nest: beyond, LLVM's time grows faster than their number
    nest_max_streams: int = 16  # arrays that one nest reads and writes: more are seldom vectorized
    rows_max_elements: int = 4096  # of the largest value of rows that run together: 16-32 KB: measured
    tile_min_bytes: int = 1 << 20  # memory that tiled loops share: what is smaller stays in the second cache
    tile_max_elements: int = 4096  # of a row times the rows of a tile: measured
    tile_min_rows: int = 8  # fewer ones would be computed twice too often
    share_min_elements: int = 200_000  # of a nest that threads share: below, help costs more than it saves: measured
    share_min_nanoseconds: int = 50_000  # predicted for a nest of fewer elements: ten times what help costs
    share_slow_min_elements: int = 8192  # of such a nest: eight parts of two strips
    share_loop_min_elements: int = 50_000  # the same in a long loop, which other threads join once
    share_loop_min_nanoseconds: int = 2_000_000  # predicted for all steps of a long loop, several times too high
    share_min_rows: int = 2  # of a nest of several axes
    share_chunk_elements: int = 8192  # of which no part holds a piece: a multiple of all strips and vectors
    share_loop_chunk_elements: int = 1024  # the same in a long loop

    combine_max_row_elements: int = 16  # of a reduction whose rows are combined in one nest
    combine_max_rows: int = 16  # the same

    # -- emission --
    strip_elements: int = 512  # eight values of a strip of float64 fill the first cache
    strip_max_elements: int = 1 << 15  # of a row without calls: between strips loops look for signals
    vector_bytes: int = 64  # of the widest elements that are computed at once: LLVM splits what is wider
    vector_min_bytes: int = 16  # of a vector that no processor fills up
    vector_max_lanes: int = 32  # of a nest of small elements
    apart_max_distance: int = 4  # of elements that are taken out of vectors: then as many loads as elements
    index_lanes: int = 8  # indices that are checked at once
    search_lanes: int = 16  # values that are looked for at once: vectors of places wait for memory side by side
    call_row_min_elements: int = 128  # of a row that NumPy's loops are called for: shorter ones are computed together
    call_cut_max_elements: int = 1 << 17  # of a nest that is cut for it: measured
    short_row_max_elements: int = 64  # of a row whose extremes are found in registers: as many as an integer has bits
    group_max_values: int = 100  # of a group of short rows, in all of its vectors
    row_max_bytes: int = 512  # of results of a reduction of rows that stay in registers: eight vectors
    row_ahead_rows: int = 16  # of which pieces are reduced, that are fetched before they are needed
    split_min_length: int = 64  # of rows whose functions have loops of their own, where there are several
    long_loop_min_elements: int = 512  # of a nest of which LLVM unrolls no loop as a whole
    fold_row_max_operations: int = 48  # written out for all vectors of a row that is folded into registers
    unroll_max_operations: int = 12  # written out for all lanes of a fold: more hide how long a fold takes
    turn_bytes: int = 32  # of a row of what is turned in registers: eight of them fit there on every processor
    turn_max_operations: int = 4  # of a nest whose operands are turned, which repeats them for each row
    product_tile_max_vectors: int = 16  # of results in registers: with those of operands two thirds of 32
    product_tile_max_rows: int = 8
    function_max_steps: int = 100  # calls of a function: LLVM's time grows faster than their number
    inline_max_steps: int = 30  # of a block whose functions LLVM may join, for the same reason
    residuals_first_rows: int = 32  # of a loop that ends by a condition and runs back; then twice as many
    residuals_max_bytes: int = 1 << 32  # beyond, NumPy's plan runs: Ctrl-C ends it in a loop within another one too

    # -- LLVM's passes: few for loops over vectors that are written out --
    passes_loop_min_characters: int = 40_000  # of a module with loops: for less the stock pipeline is quick
    passes_short_max_share: float = 0.3  # of the time in other loops: the stock pipeline saves a twentieth of the whole
    passes_few_elements: int = 1 << 13  # of a loop that takes some microseconds, however it is compiled
    passes_few_folded_elements: int = 1 << 10  # the same of a fold
    passes_row_min_elements: int = 32  # of which the addresses of a row are a small part
    passes_fold_row_min_elements: int = 1024  # the same of a fold's lanes, which unrolled loops keep in registers

    # -- looks for signals and other threads, in nanoseconds: predicted before, then by the clock --
    look_min_nanoseconds: float = 100_000.0  # of a loop that looks itself; shorter ones are steps of others
    look_count_nanoseconds: float = 20_000.0  # of steps that are counted together
    look_first_nanoseconds: int = 200_000  # predicted, until the clock is read for the first time
    look_least_nanoseconds: int = 1000  # the same, at least
    look_max_nanoseconds: int = 400_000  # the same, at most
    look_read_min_nanoseconds: int = 1_000_000  # by the clock, below which the number before is doubled
    look_read_max_nanoseconds: int = 4_000_000  # above which it is halved
    look_every_nanoseconds: int = 12_000_000  # between calls of Python: with what passes until the clock is read, 20 ms
    yield_pauses: int = 1 << 11  # then another thread may take the processor, which may keep it for long
    yield_nanoseconds: int = 50_000  # that such a turn counts
    help_max_pauses: int = 1 << 19  # without a job, some 20 ms: then a helper leaves
    rest_max_pauses: int = 1 << 12  # without a program, some 0.15 ms: two to four times what waking a helper up takes

    # -- products: numbers of multiplications --
    product_max_products: int = 1 << 22  # NumPy's plan cuts larger ones, or leaves them to BLAS's threads
    product_block_max_products: int = 1 << 32  # of all products of a block: about 40 ms, in which no signal is seen
    product_many_max_products: int = 1 << 18  # of one of many: beyond, the number of OpenBLAS's threads may decide
    product_share_min_products: int = 1 << 22  # of all of many, which threads share: 0.05 ms; half as many of float64
    product_tile_share_min_products: int = 1 << 21  # in tiles that threads share: 0.02 ms
    product_tile_max_products: int = 1 << 26  # beyond, two threads of BLAS are faster: measured
    product_inline_max_products: int = 512  # of one without a call: some 30 ns, as long as BLAS takes to begin
    product_inline_max_terms: int = 16  # of each of its elements
    product_inline_max_operations: int = 128  # multiplications of vectors or numbers, of one without a loop over rows
    product_turn_operations: int = 64  # the same, of a turn of that loop
    product_chain_max_bytes: int = 1 << 17  # of terms beyond which all tiles of one chain come before the next chain
    product_panel_min_stride: int = 512  # bytes between rows of an operand whose panels are copied: few sets of a cache
    product_panel_min_rows: int = 32  # that read each panel: below, the copy costs more than it saves
    product_columns_min_bytes: int = 1 << 20  # of an operand that threads share by columns: half of the second cache
    product_block_terms: int = 256  # of one chain that caches do not hold, which all tiles go on with together
    product_copy_min_products: int = 24  # for each element that is copied first: below, BLAS reads it as fast

    # -- other operations --
    convolution_max_steps: int = 30  # copies and products of one convolution: LLVM's time grows with them
    cumulative_min_neighbours: int = 8  # that a running sum adds up at once, step by step
    matrix_max_length: int = 128  # of systems and factorizations: beyond, LAPACK works by blocks
    is_standalone: bool = False  # loops of afx's own stand in for NumPy's, which need memory to work in


@attrs.frozen(eq=False, repr=False)
class ServiceTarget(Printable):
    """Bounds of what compiles and keeps machine code: ``<what>_<bound>_<quantity>``.

    >>> ServiceTarget().child_max_ends
    2
    """

    patience_max_seconds: float = 20.0  # without a word of a child that has work: a busy machine makes it late by less
    warm_seconds: float = 0.25  # until a child has imported afx
    grace_max_seconds: float = 2.0  # once more, as this process may have been stopped with it
    end_max_seconds: float = 5.0  # for a child that has closed its pipe to end
    child_max_ends: int = 2  # children in a row that ended over their work
    task_max_seconds: float = 2.0  # that the end of the program waits for one
    room_every_seconds: float = 1e-3  # between naps of a caller, until machine code is there
    room_seconds: float = 2e-5  # of a nap: a tenth of the time at most, with what waking up costs
    recent_max_bytes: int = 1 << 23  # of this process's own code: some hundred kernels
    cache_max_bytes: int = 1 << 28  # beyond, files that were not used for longest go: some ten thousand kernels
    writing_max_seconds: float = 3600.0  # then nobody is writing a new file any longer
    verdict_max_seconds: float = 300.0  # that a trial counts: what was busy then may be idle now
    trusted_max_seconds: float = 5e-3  # of a call that NumPy's plan answers because an earlier process found it faster


@attrs.frozen(eq=False, repr=False)
class Target(Thresholds):
    """Thresholds of decisions: ``<decision>_<bound>_<quantity>``, inclusive bounds.

    >>> Target().fuse_min_elements
    32768
    """

    # -- back end --
    # "numpy": calls of NumPy; "auto": machine code with the same bits takes over when it is ready and faster;
    # "native": machine code is compiled before the first call, in its second tier
    # "portable": machine code with the same bits on every processor, compiled before the first call
    backend: Literal["auto", "numpy", "native", "portable"] = "auto"
    native_tier: Literal[1, 2] = 2  # of the back end "native"; 1: the bits of NumPy's plan, as by default
    stands_alone: bool = False  # machine code without NumPy, of which formulas are computed where its loops are NumPy's
    # denormals: "auto": flushed to zero by what computes in float32 or complex64
    denormals: Literal["auto", "keep", "flush"] = "auto"
    flush_min_elements: int = 4096  # of all equations: below, setting the register takes too much of a call
    flush_max_wide_share: float = 1 / 16  # elements of float64 beside these, such as counts of optimizers
    cpu: str = ""  # LLVM's name of the processor that machine code is made for; "": this one
    native: NativeTarget = NativeTarget()
    service: ServiceTarget = ServiceTarget()

    # -- rewriting --
    fold_max_elements: int = 4096  # constant that is computed while compiling: 16-32 KB, no longer than a trace
    known_max_elements: int = 64  # of a constant that rules compute with
    spread_max_bytes: int = 1 << 20  # of an array that repeats numbers along an axis, which may be small in memory
    share_max_bytes: int = 1 << 16  # of indices that are compared, so that equal ones become one
    scatter_max_equations: int = 16  # between a scatter and the product, or the mask, that is made of it
    chain_max_terms: int = 64  # of a sum that are looked through: the time stays linear in the graph
    formulas_max_equations: int = 1 << 16  # kept
    formula_max_bytes: int = 1 << 16  # of its arrays
    rewrite_max_depth: int = 30  # results of rules that are rewritten again: a bound on recursion, never met in use
    collapse_max_axis_length: int = 32  # last axis whose loops are so short that NumPy's overhead shows: measured
    contract_min_length: int = 4  # rows, and columns, of a sum of outer products: below, loops over elements do better
    collapse_min_elements: int = 1 << 13  # array above which they show: measured

    unmask_min_elements: int = 1 << 15  # of a masked matrix that is multiplied as a whole: below, a copy costs less
    unmask_max_share: float = 0.25  # of its elements, that the product has, which is looked at
    far_min_elements: int = 1 << 10  # of float64, far below 0, whose exponentials are chosen: below, calls cost more
    select_min_elements: int = 256  # value that is computed in part: below, its call costs more than its elements
    slice_max_share: float = 0.5  # of a value that slices read, up to which it is computed in part
    gather_max_share: float = 0.25  # the same of indices: each operand may need a gather of its own

    # -- fusion --
    fission_min_steps: int = 8  # of a loop that functions leave
    fission_max_elements: int = 16  # of their results in a step: larger ones are better computed in the first cache
    fission_max_growth: float = 2.0  # of what a loop stacks
    fuse_min_elements: int = 1 << 15  # largest value of a group: below, calls cost more than the cache gains: measured
    fuse_min_rows: int = 8  # first axis that is cut into rows
    fuse_max_row_elements: int = 1 << 16  # row: a longer one alone fills the cache
    block_max_bytes: int = 3 << 17  # one value in a block: three to four fit into L2, and two threads seldom wait
    block_min_elements: int = 1 << 14  # dearest value in a block: calls of 5 us and more: measured

    # -- instruction selection --
    fill_min_elements: int = 129  # result: above, maximum and minimum with one number take five times as long
    fill_max_elements: int = 1 << 17  # array that holds that number everywhere: 1 MB
    dot_sum_min_length: int = constants.DOT_SUM_MIN_LENGTH
    dot_sum_max_length: int = constants.DOT_SUM_MAX_LENGTH
    dot_sum_max_elements: int = constants.DOT_SUM_MAX_ELEMENTS
    turn_min_rows: int = constants.TURN_MIN_ROWS
    turn_max_columns: int = constants.TURN_MAX_COLUMNS
    unroll_max_length: int = 4  # reduced axis, neither first nor last, that is taken slice by slice: measured
    unroll_last_max_length: int = 7  # the last axis: 10-40 times as fast, and up to here in NumPy's own order: measured
    unroll_min_rows: int = 32  # rows of that length: measured

    # -- products --
    pins_blas: bool = attrs.field(factory=_can_pin_blas)  # BLAS can be held to one thread: threadpoolctl is installed
    # multiplications of a matrix product on several threads: OpenBLAS, 65536·4
    blas_threads_min_products: int = 1 << 18
    blas_threads_min_terms: int = 9216  # the same of a product with a vector: OpenBLAS, 2304·4
    blas_complex_factor: int = 8  # times as early as real ones complex products are shared out: OpenBLAS
    lapack_threads_min_elements: int = 1024  # matrix above which a factorization may: getrf and potrf are blocked
    cut_min_products: int = 1 << 22  # multiplications of a product that is cut: 0.02 ms a piece: measured
    cut_pieces: int = 2  # pieces of a product: as many as two threads need; more lose 5-10 %: measured
    cut_multiple: int = 16  # rows or columns of a piece are a multiple of it: those that BLAS computes together

    # -- memory --
    arena_alignment_bytes: int = 64  # buffers begin at cache lines, and at AVX-512 vectors
    free_min_bytes: int = 1 << 14  # value whose name is deleted before the run ends: del costs 20 ns
    bindings_max_sets: int = 8  # sets of buffers that a plan keeps: more calls seldom run at once

    # -- Python --
    function_max_lines: int = 1000  # lines of one Python function: compiling takes longer than linearly beyond

    scalar_max_lines: int = 1000  # operations of a step that runs on Python's floats: those of one function
    scalar_chunk_steps: int = 1024  # steps whose rows are Python's floats at once: 32 KB each

    @property
    def tier(self) -> int:
        """Whose bits machine code gives: 1 for those of NumPy's plan, 2 for its own."""
        return 2 if self.backend == "portable" else self.native_tier if self.backend == "native" else 1

    def sums_by_dot(self, length: int) -> bool:
        """Tell whether sums over a contiguous axis of this length are products with ones."""
        return self.dot_sum_min_length <= length <= self.dot_sum_max_length

    def cuts_rows(self, shape: tuple[int, ...]) -> bool:
        """Tell whether blocks of a value of this shape would be of its rows."""
        rows = len(shape) > 1 and shape[0] >= self.fuse_min_rows
        return rows and math.prod(shape[1:]) <= self.fuse_max_row_elements


class Current:
    """The target of what is compiled from now on.

    Attributes:
        target: the target.
        key: its values as text, for keys of caches: a str remembers its hash.
    """

    __slots__ = ("key", "target")

    def __init__(self, target: Target) -> None:
        self.set(target)

    def set(self, target: Target) -> None:
        """Compile for this target from now on."""
        self.target: Target = target
        self.key: str = repr(target)


def portable_target() -> Target:
    """Return the target of portable bits, which knows nothing of this machine, nor of what was set.

    Constants are not computed while compiling, as NumPy's loops would.
    """
    return Target(backend="portable", stands_alone=True, denormals="keep", pins_blas=True, fold_max_elements=0)


DEFAULT = Target()
current: Current = Current(DEFAULT)


@contextlib.contextmanager
def use_target(target: Target) -> Generator[Target]:
    """Compile for a target inside a ``with`` block, in all threads.

    >>> with use_target(Target(fuse_min_elements=16)):
    ...     current.target.fuse_min_elements
    16
    """
    before = current.target
    current.set(target)
    try:
        yield target
    finally:
        current.set(before)
