"""`python -m benchmarks.training`: training steps beside PyTorch's eager ones, and JAX's compiled ones where there is one."""

from __future__ import annotations

import argparse
import re

from ..child import restrict


def main() -> None:
    """All of them, or what was asked for."""
    parser = argparse.ArgumentParser("python -m benchmarks.training", description="Training steps beside PyTorch and JAX.")
    parser.add_argument("--only", default="", metavar="RE", help="steps whose name this expression finds")
    parser.add_argument("--turns", type=int, default=9, metavar="N", help="how often each library is timed")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads for each library")
    parser.add_argument("--memory", action="store_true", help="the most memory of a step instead of its time")
    asked = parser.parse_args()
    restrict(asked.threads)  # before any library is loaded

    from .. import report
    from ..timing import Pace, shown, side_by_side
    from .lessons import lessons

    wanted = [lesson for lesson in lessons() if re.search(asked.only, lesson.name)]
    if asked.memory:
        from .memory import peaks

        rows = [["step", "Tenxor, MiB", "PyTorch, MiB"]]
        for lesson in wanted:
            found = peaks(lesson)
            rows.append([lesson.name, *[f"{found[name] / 2**20:.1f}" if name in found else "" for name in ("tenxor", "torch")]])
        print(report.grid(rows))
        return
    rows = [["step", "Tenxor", "PyTorch", "JAX jit", "x PyTorch", "x JAX"]]
    for lesson in wanted:
        runs = lesson.checked()
        timed = {name: t.median for name, t in side_by_side(runs, Pace(0.0, asked.turns, asked.turns)).items()}
        own = timed["tenxor"]
        times = [shown(timed[name]) if name in timed else "" for name in ("tenxor", "torch", "jax")]
        ratios = [f"{timed[name] / own:.2f}" if name in timed else "" for name in ("torch", "jax")]
        rows.append([lesson.name, *times, *ratios])
        print(" | ".join(rows[-1]), flush=True)
    print()
    print(report.grid(rows))


if __name__ == "__main__":
    main()
