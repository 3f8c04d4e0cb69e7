"""`python -m benchmarks.programs`: only the programs, each library on one thread, or where Tenxor's time goes."""

from __future__ import annotations

import argparse

from ..child import restrict


def main() -> None:
    """All of them, or what was asked for."""
    parser = argparse.ArgumentParser("python -m benchmarks.programs", description="Whole programs beside NumPy and PyTorch.")
    parser.add_argument("--only", default="", metavar="RE", help="programs whose name or family this expression finds")
    parser.add_argument("--turns", type=int, default=9, metavar="N", help="how often each library is timed")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="the N costliest functions of Tenxor's instead")
    asked = parser.parse_args()
    restrict(1)  # before any library is loaded

    from ..peers import NumPy, Tenxor, installed
    from ..timing import Pace

    if asked.profile:
        from .profiled import profiled

        profiled(NumPy(), Tenxor(), asked.only, asked.profile)
        return
    from .. import goals, report
    from .measure import measured

    peers, _ = installed()
    rows = measured(peers, asked.only, Pace(0.0, asked.turns, asked.turns))
    titles = {peer.name: peer.title for peer in peers}
    print(report.grid(report.programs_table(rows, titles)))
    print()
    print(report.grid(goals.table({"1": {"workloads": {}, "programs": rows}}, goals.OF_PROGRAMS)))


if __name__ == "__main__":
    main()
