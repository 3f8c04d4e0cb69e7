"""`python -m benchmarks.sized`: only these lines, on one thread."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..child import restrict


def main() -> None:
    """All of them, or what was asked for."""
    parser = argparse.ArgumentParser("python -m benchmarks.sized", description="Order, counts, matrices and transforms beside NumPy.")
    parser.add_argument("--only", default="", metavar="RE", help="lines whose name this expression finds")
    parser.add_argument("--seconds", type=float, default=0.25, help="how long a line is measured at each size")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where to keep seconds, as JSON")
    asked = parser.parse_args()
    restrict(1)  # before any library is loaded

    from ..peers import NumPy, Tenxor
    from ..report import grid
    from .measure import PACE, measured, table

    rows = measured([Tenxor(), NumPy()], asked.only, PACE._replace(seconds=asked.seconds))
    print(grid(table(rows)))
    if asked.keep:
        asked.keep.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
