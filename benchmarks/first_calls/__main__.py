"""`python -m benchmarks.first_calls`: the first calls of small programs in fresh processes, alone."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from ..__main__ import machine
from ..report import grid
from .measure import REPETITIONS, measured
from .tables import section


def main() -> None:
    """Measure the programs that the command line selects, and print the section of the report."""
    parser = argparse.ArgumentParser("python -m benchmarks.first_calls", description="First calls of small programs in fresh processes.")
    parser.add_argument("--only", default="", metavar="RE", help="programs whose name this expression finds")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, metavar="N", help="fresh processes of each kind")
    parser.add_argument("--shipped", type=Path, metavar="FOLDER", help="machine code as in a wheel, which `python -m tenxor ship` wrote")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where to keep seconds, as JSON")
    options = parser.parse_args()
    host = machine(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    measurements = measured(options.only, options.repetitions, options.shipped)
    load = ", ".join(f"{value:.1f}" for value in host["load"])
    print(f"{host['processor']}, {host['cpus']} CPUs, Python {host['python']}; the load before was {load}.\n")
    print(section(measurements, grid))
    if options.keep:
        options.keep.write_text(json.dumps(measurements | {"machine": host}, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
