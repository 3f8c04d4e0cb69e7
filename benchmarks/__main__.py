"""`python -m benchmarks`: measure all there is, and write `results/` and the README's table.

It starts a process for each number of threads (`child.py`), and loads no library itself: what a process may use has to be
settled before.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def main() -> None:
    """All of it, or what was asked for."""
    asked = arguments()
    if asked.list:
        from .programs.catalogue import programs
        from .workloads import workloads

        for w in (*workloads(), *programs()):
            print(f"{w.family}: {w.name}")
        return
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    counts = {"1": [1], "all": [cpus], "both": sorted({1, cpus})}[asked.threads]
    complete = not (asked.only or asked.quick or asked.threads != "both")
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "quick": asked.quick,
        "machine": machine(cpus),
        "threads": {str(n): measured(n, asked.only, asked.quick) for n in counts},
    }
    if not asked.only:
        from .first_calls.measure import REPETITIONS
        from .first_calls.measure import measured as first_calls
        from .overhead import first_results, starting

        here = next(iter(results["threads"].values()))["versions"]
        results["starting"] = starting(list(here), 3 if asked.quick else 7)
        results["first results"] = first_results(3 if asked.quick else 15)
        results["first calls"] = first_calls("", 1 if asked.quick else REPETITIONS, asked.shipped)

    from .report import README_ROWS, families_table, markdown, with_table

    text = markdown(results)
    folder = asked.out or (RESULTS if complete else None)
    if folder is None:
        print(text)
        print("Not kept: this is not a full run. --out FOLDER keeps it.", file=sys.stderr)
    else:
        keep(results, text, folder)
    if complete or asked.readme:
        for path, rows in ((ROOT / "README.md", README_ROWS), (ROOT / "docs" / "benchmarks.md", ())):
            text = with_table(path.read_text(encoding="utf-8"), families_table(results, rows))
            path.write_text(text, encoding="utf-8")


def arguments() -> argparse.Namespace:
    """What is asked for on the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks", description="Tenxor beside its peers.")
    parser.add_argument("--only", default="", metavar="PATTERN", help="workloads and programs whose name or family this expression finds")
    parser.add_argument("--threads", choices=("1", "all", "both"), default="both", help="how many threads everybody has")
    parser.add_argument("--quick", action="store_true", help="few rounds: for development; says so and keeps nothing")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to keep the results of a run that is not full")
    parser.add_argument("--readme", action="store_true", help="write the README's table even so")
    parser.add_argument("--shipped", type=Path, metavar="FOLDER", help="machine code as in a wheel, for the part about first calls")
    parser.add_argument("--list", action="store_true", help="name them and measure nothing")
    return parser.parse_args()


def measured(threads: int, only: str, quick: bool) -> dict[str, Any]:
    """What a process with so many threads finds."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [
            sys.executable,
            "-m",
            "benchmarks.child",
            str(threads),
            only,
            "quick" if quick else "full",
            str(found),
        ]
        subprocess.run(command, check=True, cwd=ROOT)
        result: dict[str, Any] = json.loads(found.read_text())
        return result


def machine(cpus: int) -> dict[str, Any]:
    """What it runs on."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        processor = f"{models[0]}, {platform.machine()}" if models else processor
    load = list(os.getloadavg()) if hasattr(os, "getloadavg") else []
    return {"processor": processor, "cpus": cpus, "python": platform.python_version(), "load": load}


def keep(results: dict[str, Any], text: str, folder: Path) -> None:
    """The numbers, the report and the picture."""
    from .plot import plot

    folder.mkdir(parents=True, exist_ok=True)
    written = json.dumps(rounded(results), indent=1, ensure_ascii=False)
    (folder / "latest.json").write_text(written + "\n", encoding="utf-8")
    (folder / "latest.md").write_text(text, encoding="utf-8")
    plot(results, folder / "latest.svg")


def rounded(found: Any) -> Any:
    """The same with numbers of four digits: more than that was not measured."""
    if isinstance(found, dict):
        return {key: rounded(value) for key, value in found.items()}
    if isinstance(found, list):
        return [rounded(value) for value in found]
    return float(f"{found:.4g}") if isinstance(found, float) else found


if __name__ == "__main__":
    main()
