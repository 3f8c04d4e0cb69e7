"""`python -m benchmarks.pauses`: how long shared work takes after pauses in which helpers fall asleep, beside NumPy's.

Each line is of one pause: the median over fresh processes of the median in each, and the least and largest of these. A helper that
wakes up on the caller's CPU shows as twice the time in some processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from statistics import median

from .child import THROTTLES

PAUSES = (0, 1, 10, 40, 300)  # milliseconds
PROGRAM = """
import json, sys, time
import numpy as np
import tenxor as tx
n, counted = 777, 15
a = np.random.default_rng(0).random((n, n), dtype=np.float32)
t = tx.asarray(a).realize()
work = (lambda: (t @ t).realize()) if sys.argv[1] == "tenxor" else (lambda: a @ a)
for _ in range(5):
    work()
found = []
for pause in json.loads(sys.argv[2]):
    times = []
    for _ in range(counted):
        time.sleep(pause / 1000)
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    found.append(sorted(times)[len(times) // 2] * 1000)
print(json.dumps(found))
"""


def main() -> None:
    """Measure, and print what came out, in milliseconds."""
    parser = argparse.ArgumentParser("python -m benchmarks.pauses", description="Shared work after pauses.")
    parser.add_argument("--processes", type=int, default=10, help="how many are started, one after the other")
    parser.add_argument("--threads", type=int, default=2, help="how many each has")
    asked = parser.parse_args()
    settings = dict.fromkeys(("TENXOR_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(asked.threads))
    environment = {k: v for k, v in os.environ.items() if k not in THROTTLES} | settings
    runs: dict[str, list[list[float]]] = {"tenxor": [], "numpy": []}
    for _ in range(asked.processes):
        for name, found in runs.items():  # each in processes of its own: threads of the one may spin while the other works
            command = [sys.executable, "-c", PROGRAM, name, json.dumps(PAUSES)]
            found.append(json.loads(subprocess.check_output(command, env=environment)))
    print("| pause (ms) | Tenxor (ms) | NumPy (ms) |\n|---|---|---|")
    for k, pause in enumerate(PAUSES):
        cells = []
        for found in runs.values():
            times = sorted(run[k] for run in found)
            cells.append(f"{median(times):.2f} ({times[0]:.2f} to {times[-1]:.2f})")
        print(f"| {pause} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
