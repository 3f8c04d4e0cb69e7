"""`python -m tests.autodiff FIRST [COUNT]` runs random programs from a seed on, and says whose derivatives are wrong;
`python -m tests.autodiff cases` takes all derivatives of all cases in every direction and every order of modes.
"""

import sys
import traceback
from collections.abc import Callable

from tenxor import fastpath

from . import differences
from .cases import JOINING, MOVES, NUMBERS, REDUCTIONS, SCANS, TO_ROWS, real
from .larger import LARGER
from .programs import Program
from .test_programs import check_batches, check_program


def told(name: str, call: Callable[[], str | None]) -> bool:
    """Print the fault, if any, and return whether there is one."""
    try:
        found = call()
    except Exception:
        found = traceback.format_exc()
    if found is not None:
        print(f"{name}\n{found}", flush=True)
    return found is not None


def cases() -> None:
    """Check all cases."""
    differences.thorough = True
    wrong = count = 0
    for name, case in {**REDUCTIONS, **SCANS, **JOINING, **NUMBERS, **LARGER}.items():
        wrong += told(name, lambda case=case: differences.check(case.function, case.arrays, second=case.second))  # type: ignore[misc]
        count += 1
    for move, view in MOVES.items():
        for name, function in TO_ROWS.items():
            if name != "max":  # which may be there several times
                wrong += told(f"{name} of {move}", lambda f=function, g=view: differences.check(lambda x: f(g(x)), [real(3, 4)]))  # type: ignore[misc]
                count += 1
    print(f"{count} cases, {wrong} wrong")


def programs(first: int, count: int) -> None:
    """Check random programs, alone and in batches."""

    def check(seed: int) -> str | None:
        return check_program(seed) or check_batches(seed)

    wrong = sum(told(f"program {seed}\n{Program(seed)}", lambda seed=seed: check(seed)) for seed in range(first, first + count))  # type: ignore[misc]
    print(f"{count} programs, {wrong} wrong")


fastpath.start()
if sys.argv[1] == "cases":
    cases()
else:
    programs(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
