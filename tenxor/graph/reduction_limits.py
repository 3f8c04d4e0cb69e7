"""Limits on the kernels of reductions. The limits decide the order of additions, and so the bits: they are equal on every machine."""

from __future__ import annotations

# Small steps besides 1: a few whole vectors hold the elements for the lanes
NEAR_STEPS = (-1, 2, 3, 4)
MAX_SHORT_ITERATIONS = 4  # iterations of a short contraction, which is never vectorized along the summed axis
# Rows of this many bytes stay apart, even where neighbours in memory: so operands may be broadcast along rows without being stored first.
# Shorter rows are joined for the speed of plain sums.
MIN_ROW_BYTES = 256

# Contractions, of M rows and N columns of results with K steps
MIN_CONTRACTION_SIZES = (2, 2, 4)  # minimal M, N and K of a contraction
MIN_FULL_SIZES = (4, 8, 4)  # minimal M, N and K with well-filled vectors: smaller sizes are tried with interchanged axes
# A reduction is vectorized along its steps instead with more than MAX_SHORT_STEPS steps and fewer than MIN_RESULTS results; or, where
# the steps are contiguous on both sides, with fewer than MIN_UNIT_RESULTS results, because transposing the operands would cost more.
MAX_SHORT_STEPS, MIN_RESULTS, MIN_UNIT_RESULTS = 64, 10, 32
STEPS_PER_CHUNK = 256  # steps (KC) added in one chunk: a panel of columns for so many steps stays in the nearest cache
MIN_TILED_READS = 4  # minimal readers of each element of a side, for a contraction with register tiles

# Unrolled reductions
MAX_UNROLLED_TERMS = 32  # maximal number of terms
MAX_SHORT_ROW_ELEMENTS, MIN_TOTAL_ELEMENTS = 8, 1 << 16  # maximal elements of a short row, and minimal elements of the rows together
MIN_ARGEXTREMUM_SIZE = 1 << 14  # minimal elements of the rows together for argmax and argmin, the slowest reductions
MAX_FLOAT_ROW_ELEMENTS = 128  # maximal elements of a row of narrow floats in two passes: a single pass of argmax also compares with NaN

MIN_SPLIT_ELEMENTS = 1 << 18  # minimal elements of a reduction in blocks
