"""`python -m benchmarks.versus CHECKOUT`: Tenxor of this checkout beside that of another one, family by family.

Each checkout measures its own workloads in processes of its own (`child.py`), in turns, beside NumPy alone; of what both know, the
better of the turns counts. A family's figure is the geometric mean of the other's time by ours: above 1, this one is faster.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from .child import THROTTLES
from .peers import PEERS, NumPy

HERE = Path(__file__).resolve().parents[1]


def main() -> None:
    """Measure both, and print what came out."""
    parser = argparse.ArgumentParser("python -m benchmarks.versus", description="This checkout beside another one.")
    parser.add_argument("checkout", type=Path, help="the other one's folder")
    parser.add_argument("--only", default="", metavar="PATTERN", help="workloads whose name or family this finds")
    parser.add_argument("--threads", type=int, default=1, help="how many there are")
    parser.add_argument("--turns", type=int, default=2, help="how often each is measured")
    asked = parser.parse_args()
    times: dict[Path, dict[tuple[str, str], float]] = {asked.checkout.resolve(): {}, HERE: {}}
    for _ in range(asked.turns):
        for folder, best in times.items():
            for name, seconds in measured(folder, asked.threads, asked.only).items():
                best[name] = min(seconds, best.get(name, math.inf))
    print(table(*times.values()))


def measured(folder: Path, threads: int, only: str) -> dict[tuple[str, str], float]:
    """The median seconds of a checkout's Tenxor, by family and name."""
    environment = {name: value for name, value in os.environ.items() if name not in THROTTLES}
    with tempfile.TemporaryDirectory() as scratch:
        for peer in set(PEERS) - {NumPy}:  # found before the library of that name, which would take most of the time
            Path(scratch, f"{peer.module}.py").write_text('raise ImportError("only Tenxor is measured")\n')
        path = Path(scratch, "found.json")
        command = [sys.executable, "-m", "benchmarks.child", str(threads), only, "quick", str(path)]
        subprocess.run(command, cwd=folder, env=environment | {"PYTHONPATH": f"{folder}{os.pathsep}{scratch}"}, check=True)
        found = json.loads(path.read_text())["workloads"]
    return {(row["family"], name): row["seconds"]["tenxor"]["median"] for name, row in found.items()}


def table(other: dict[tuple[str, str], float], ours: dict[tuple[str, str], float]) -> str:
    """A line for each family: how many workloads, the geometric mean, and the worst of them."""
    families: dict[str, dict[str, float]] = defaultdict(dict)
    for key in ours.keys() & other.keys():
        families[key[0]][key[1]] = other[key] / ours[key]
    lines = ["| family | workloads | the other's time by this one's | worst |", "|---|---|---|---|"]
    for family, ratios in sorted(families.items()):
        worst = min(ratios, key=ratios.__getitem__)
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        lines.append(f"| {family} | {len(ratios)} | {mean:.2f} | {ratios[worst]:.2f} ({worst}) |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
