"""`python -m tests.shortcut FIRST [COUNT]` runs random programs from a seed on, and says which see something else without the short way."""

import sys
import warnings

from tenxor import shortcut

from .test_programs import differences

first, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
warnings.simplefilter("error")
shortcut.start()
print(f"the short way is {shortcut.state}")
wrong = 0
for seed in range(first, first + count):
    for short, own in differences(seed)[:1]:
        wrong += 1
        print(f"program {seed}\n  short: {short}\n  own:   {own}", flush=True)
print(f"{count} programs, {wrong} wrong")
