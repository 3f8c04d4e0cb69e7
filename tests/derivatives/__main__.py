"""`python -m tests.derivatives FIRST [COUNT]` runs random programs from a seed on, and says whose derivatives are wrong."""

import sys
import traceback

from tenxor import shortcut

from .programs import Program
from .test_programs import check_program

first, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
shortcut.start()
wrong = 0
for seed in range(first, first + count):
    try:
        found = check_program(seed)
    except Exception:
        found = traceback.format_exc()
    if found is not None:
        wrong += 1
        print(f"program {seed}\n{Program(seed)}\n{found}", flush=True)
print(f"{count} programs, {wrong} wrong")
