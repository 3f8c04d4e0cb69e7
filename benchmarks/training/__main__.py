"""`python -m benchmarks.training`: training steps beside PyTorch's eager ones, and JAX's compiled ones where there is one."""

from __future__ import annotations

import argparse

from ..child import restrict


def main() -> None:
    """All of them, or what was asked for."""
    parser = argparse.ArgumentParser("python -m benchmarks.training", description="Training steps beside PyTorch and JAX.")
    parser.add_argument("--only", default="", metavar="RE", help="steps whose name or family this expression finds")
    parser.add_argument("--turns", type=int, default=9, metavar="N", help="how often each library is timed")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads for each library")
    asked = parser.parse_args()
    restrict(asked.threads)  # before any library is loaded

    from ..report import grid
    from .measure import PACE, measured
    from .tables import outcomes, table

    rows = measured(asked.only, PACE._replace(fewest=asked.turns, most=asked.turns))
    print(grid(table(rows)))
    print(outcomes(rows))


if __name__ == "__main__":
    main()
