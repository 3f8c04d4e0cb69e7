"""`python -m benchmarks.training.first_steps`: the first steps of small networks in fresh processes, and later ones.

CPU time on one thread, as compiling may use other threads. *Cold* means that the folder of compiled code was empty; *from disk*, that an
earlier process had left its code there.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from ..child import SETTINGS
from ..report import grid
from ..timing import process_figures, shown
from .networks import NETWORKS, Library

STEPS = 40
CODE = "from benchmarks.training.first_steps import print_steps; print_steps({library!r}, {name!r})"
TITLES = {"cold": "Tenxor cold", "disk": "Tenxor from disk", "torch": "PyTorch"}


def print_steps(library: str, name: str) -> None:
    """Print the CPU seconds of the first step, of steps 2 to 4 together, and the median of the last nine of `STEPS` steps."""
    step, seconds = NETWORKS[name](Library.load(library)), []
    for _ in range(STEPS):
        before = time.process_time()
        step()
        seconds.append(time.process_time() - before)
    print(seconds[0], sum(seconds[1:4]), statistics.median(seconds[-9:]))


def measure(name: str, rounds: int, shipped: Path | None) -> dict[str, list[float]]:
    """Return medians of the figures of `print_steps` by the keys of `TITLES`, over `rounds` fresh processes of each."""
    one_thread = dict.fromkeys(SETTINGS, "1")
    figures: dict[str, list[list[float]]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            own = {**one_thread, "TENXOR_CACHE_DIR": folder, "TENXOR_SHIPPED": "" if shipped is None else str(shipped.resolve())}
            codes = {
                key: (CODE.format(library="tenxor", name=name), own) for key in ("cold", "disk")
            }  # the second finds what the first left
            if importlib.util.find_spec("torch"):
                codes["torch"] = CODE.format(library="torch", name=name), one_thread
            for key, row in process_figures(codes, 1).items():
                figures.setdefault(key, []).append(row[1:])
    return {key: [statistics.median(column) for column in zip(*rows, strict=True)] for key, rows in figures.items()}


def row_of(name: str, figures: dict[str, list[float]]) -> list[str]:
    """Return the cells of a network: the times of each, and for Tenxor PyTorch's time divided by ours."""
    cells = [name]
    for key in TITLES:
        for k, seconds in enumerate(figures.get(key, [])):
            peer = figures.get("torch") if key != "torch" else None
            cells.append(shown(seconds) + (f" ({peer[k] / seconds:.2f})" if peer else ""))
    return cells


def main() -> None:
    """Measure the networks that the command line selects, and print a table."""
    parser = argparse.ArgumentParser("python -m benchmarks.training.first_steps", description="First steps in fresh processes.")
    parser.add_argument("--only", default="", metavar="RE", help="networks whose name this expression finds")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="fresh processes of each kind")
    parser.add_argument("--shipped", type=Path, metavar="FOLDER", help="machine code as in a wheel, which `python -m tenxor ship` wrote")
    options = parser.parse_args()
    rows = []
    for name in NETWORKS:
        if re.search(options.only, name):
            figures = measure(name, options.rounds, options.shipped)
            rows.append(row_of(name, figures))
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
            keys = [key for key in TITLES if key in figures]
    print(grid([["CPU time", *[f"{TITLES[key]}, {phase}" for key in keys for phase in ("step 1", "steps 2–4", "later")]], *rows]))


if __name__ == "__main__":
    main()
