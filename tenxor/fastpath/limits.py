"""Limits and constants that the emitted code and the Python side of the fast path share."""

import sys

MAX_SMALL_BLOCK_BYTES = 1 << 20  # bytes of a small memory block (`fastpath/emit/block_allocator.py`), and of a result computed in one
BLOCK_COUNTER_WORDS = 4  # words that count the bytes of small memory blocks: in use, peak, pooled, allowed
MAX_TUPLE_DEPTH = 4  # nesting depth of tuples among the arguments of a recorded call
# Bits of the mask in the key of a recorded call, above those of arguments: an argument is traced; it is, and a tape is recorded
TRACED_BIT, RECORDED_BIT = 1 << 61, 1 << 62
# LLVM types whose sorted elements `fastpath/emit/bincount_unique.py` makes unique
SORTABLE_LLVM_TYPES = ("i8", "i16", "i32", "i64", "float", "double")
HAS_IMMORTAL_OBJECTS = sys.version_info >= (3, 12)  # immortal objects: their 32-bit reference count is negative and never changes
