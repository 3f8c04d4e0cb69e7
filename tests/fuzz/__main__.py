"""`python -m tests.fuzz SEED` prints the program of a seed and then runs it, small if it fails; `python -m tests.fuzz FIRST COUNT` runs
that many of them, and says how many have run.
"""

import faulthandler
import sys
import time

from .programs import write_program
from .running import check_seed
from .small import as_large, blocks
from .ways import WAYS


def main(first: int, count: int = 1) -> int:
    """Run programs; how many have failed."""
    failed, began = 0, time.perf_counter()
    for seeds in blocks(range(first, first + count)):
        with as_large(seeds.start):
            for seed in seeds:
                try:
                    check_seed(seed)
                except AssertionError as error:
                    failed += 1
                    print(error, flush=True)
        spent = time.perf_counter() - began
        print(f"seeds {first}-{seeds.stop - 1}, each in {WAYS} ways: {failed} failed; {spent:.0f} seconds", flush=True)
    return failed


if __name__ == "__main__":
    faulthandler.enable()
    given = [int(text) for text in sys.argv[1:]]
    if len(given) == 1:
        print(*(text for text, _ in write_program(given[0])), sep="\n", flush=True)
    sys.exit(bool(main(*given)))
