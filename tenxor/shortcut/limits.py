"""What machine code and Python's side of the short way both go by."""

import sys

LARGEST = 1 << 20  # bytes of a block of small memory (`code/blocks.py`), and of what is computed in such
COUNTS = 4  # words in which it is counted
MOST_DEPTH = 4  # of tuples in tuples among arguments
IN_ORDER = ("i8", "i16", "i32", "i64", "float", "double")  # types of those in order of which each is found once (`code/finding.py`)
IMMORTAL = sys.version_info >= (3, 12)  # some objects live for ever: their count, of 32 bits, is below 0, and stays what it is
