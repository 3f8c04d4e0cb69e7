"""Limits and constants that the emitted code and the Python side of the fast path share."""

import sys

LARGEST = 1 << 20  # bytes of a small memory block (`code/blocks.py`), and of a result computed in one
COUNTS = 4  # words that count the bytes of small memory blocks: in use, peak, pooled, allowed
MOST_DEPTH = 4  # nesting depth of tuples among the arguments of a recorded call
IN_ORDER = ("i8", "i16", "i32", "i64", "float", "double")  # LLVM types whose sorted elements `code/finding.py` makes unique
IMMORTAL = sys.version_info >= (3, 12)  # immortal objects: their 32-bit reference count is negative and never changes
