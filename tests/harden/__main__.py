"""`python -m tests.harden`: all failures at all calls of all programs, and a table of what came of them."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter

import tenxor as tx

from .harness import KINDS, Run
from .programs import PROGRAMS


def main() -> None:
    """Print the table."""
    tx.set_num_threads(3)
    print("| what fails | calls that failed | succeeded all the same | raised a clear error | lost, wrong or unclear |")
    print("|---|---|---|---|---|", flush=True)
    start = time.monotonic()
    for kind in KINDS:
        for lasting in (False, True):
            found: Counter[str] = Counter()
            wrong = 0
            for program in PROGRAMS:
                run = Run(program, kind, lasting=lasting)
                try:
                    run.all()
                except AssertionError as error:
                    wrong += 1
                    print(error, file=sys.stderr)
                found += run.outcomes
            succeeded = found.pop("succeeded", 0)
            raised = sum(found.values())
            name = f"{kind}, and all after" if lasting else kind
            print(f"| {name} | {succeeded + raised + wrong} | {succeeded} | {raised} | {wrong} |", flush=True)
    print(f"\n{len(PROGRAMS)} programs, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TENXOR_CACHE_DIR"] = folder
        main()
