"""`python -m tests.fastpath FIRST [COUNT]` runs random programs and sums from a seed on.

It prints the programs whose results differ without the fast path, or when they are computed in parts.
"""

import sys
import warnings

from tenxor import fastpath

from .sums import differences as differences_of_sums
from .test_random_programs import differences

first, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
warnings.simplefilter("error")
fastpath.start()
print(f"the fast path is {fastpath.state}")
wrong = 0
for seed in range(first, first + count):
    for short, own in differences(seed)[:1]:
        wrong += 1
        print(f"program {seed}\n  short: {short}\n  own:   {own}", flush=True)
    for text in differences_of_sums(seed):
        wrong += 1
        print(f"sum {seed}, {text}", flush=True)
print(f"{count} programs, {wrong} wrong")
