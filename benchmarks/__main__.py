"""Run the benchmarks and write `results/latest.md`: `python -m benchmarks`."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np

import tenxor as tx

from . import overhead
from .timing import shown, side_by_side
from .workloads import WORKLOADS, Workload

RESULTS = Path(__file__).parent / "results" / "latest.md"


def measured(w: Workload, threads: list[int]) -> str:
    """One row of the table: results checked equal first, then timed in turns, fresh results each time."""
    arrays = w.inputs(np.random.default_rng(0))
    tensors = [tx.asarray(a) for a in arrays]
    in_numpy = w.in_numpy or w.line
    np.testing.assert_allclose(w.line(*tensors).to_numpy(), in_numpy(*arrays), rtol=w.tolerance)

    def ours(count: int) -> None:
        tx.set_num_threads(count)
        w.line(*tensors).realize()

    contenders = {f"tenxor {n}": (lambda n=n: ours(n)) for n in threads} | {"numpy": lambda: in_numpy(*arrays)}
    found = side_by_side(contenders)
    best = [f"{shown(found[f'tenxor {n}'])} | {found['numpy'] / found[f'tenxor {n}']:.2f}×" for n in threads]
    return f"| {w.name} | {shown(found['numpy'])} | {' | '.join(best)} |"


def main() -> None:
    """All of it, printed as it comes and kept as Markdown."""
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    threads = sorted({1, tx.num_threads()})
    say("# Tenxor beside NumPy\n")
    say(
        f"{platform.machine()}, {tx.num_threads()} CPUs, Python {platform.python_version()}, NumPy {np.__version__}. Medians of runs in"
    )
    say("turns in one process; every result is fresh. × is how many times as fast as NumPy's line.\n")
    heads = " | ".join(f"Tenxor, {n} thread{'s' if n > 1 else ''} | ×" for n in threads)
    say(f"| workload | NumPy | {heads} |")
    say("|---|---|" + "---|---|" * len(threads))
    for w in WORKLOADS:
        say(measured(w, threads))
    say("\n| overhead | | |\n|---|---|---|")
    for row in [*overhead.small_operations(), *overhead.compiling(), *overhead.importing()]:
        say(f"| {' | '.join(row)} |")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
