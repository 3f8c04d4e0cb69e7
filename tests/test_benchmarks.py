"""Test the benchmark: its workloads give right results at small sizes, and its figures are summarized correctly."""

from __future__ import annotations

import json
import os
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import goals, overhead, report
from benchmarks.check import Reference, Unequal, check
from benchmarks.inside import parts
from benchmarks.limits import IN_CACHE, limit_seconds
from benchmarks.peers import NumPy, Tenxor
from benchmarks.sized import lines as sized_lines
from benchmarks.sized import measure as sized
from benchmarks.timing import TURN, Pace, side_by_side
from benchmarks.training import first_steps, networks
from benchmarks.workloads import TINY, Workload, workloads

from .processes import python

ROOT = Path(__file__).resolve().parents[1]
WORKLOADS = {w.name: w for w in workloads(TINY)}


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload_gives_the_reference_result(name: str) -> None:
    workload = WORKLOADS[name]
    arrays = workload.inputs(np.random.default_rng(0))
    reference = Reference().result(workload, arrays)
    for peer in (Tenxor(), NumPy()):
        for run in peer.runs(workload, [peer.array(a) for a in arrays]):
            result = run()
            results = result if isinstance(result, tuple) else (result,)
            expected = reference if isinstance(reference, tuple) else (reference,)
            check(workload, peer.title, [peer.numpy(array) for array in results], expected, arrays)


@pytest.mark.parametrize("line", list(sized_lines.lines()), ids=lambda line: f"{line.name}-{line.dtypes[0]}")
def test_sized_line_gives_the_result_of_numpy(line: sized_lines.Sized) -> None:
    for dtype in line.dtypes:
        for size in line.sizes[:2]:
            runs, (ours, theirs) = sized.contenders(line, size, dtype, [Tenxor(), NumPy()])
            sized.check(line.name, line.alike, dtype, ours, theirs)
            assert list(runs) == ["tenxor", "numpy"]


def test_unequal_results_of_a_sized_line_raise_an_error() -> None:
    x = np.array([1.0, 2.0])
    sized.check("these", True, "float64", [x], [x + 1e-12])
    sized.check("signs", False, "float64", [x], [-x])
    for unequal in (x + 1e-6, x[:1]):
        with pytest.raises(AssertionError, match="those"):
            sized.check("those", True, "float64", [x], [unequal])


def test_selected_lines_are_measured_at_every_size() -> None:
    rows = sized.measured([Tenxor(), NumPy()], "^norm, float32", Pace(0.0, 1, 1))
    (row,) = rows.values()
    assert list(row) == ["3×3", "10×10", "100×100", "500×500"] and all(seconds > 0 for times in row.values() for seconds in times.values())


def test_environment_variables_that_slow_openblas_are_removed() -> None:
    program = """
import json
import os
from benchmarks.child import restrict
restrict(1)
import numpy
assert os.environ["OPENBLAS_NUM_THREADS"] == "1" and not {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"} & set(os.environ)
"""
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_L2_SIZE": "262144"}
    python("-c", program, env=environment, cwd=ROOT)


def test_tenxor_is_absent_from_no_workload() -> None:
    assert all("tenxor" not in w.absent for w in WORKLOADS.values())
    lacks = {w.absent.get("numpy", "") for w in WORKLOADS.values()}
    assert lacks == {"", "has no erf", "has no convolution", "has no attention"}


def test_workloads_cover_every_required_family() -> None:
    text = " ".join([*WORKLOADS, *(w.family for w in WORKLOADS.values())])
    required = (
        "float32 float64 small cache memory exp log sin tanh erf pow sigmoid gelu sum mean max argmax var softmax log-softmax"
        " log-sum-exp cross-entropy cumulative copied outer distances bool int32 comparison where clip Black–Scholes n-body"
        " products convolutions attention max-plus"
    )
    assert [word for word in required.split() if word not in text] == []


def test_wrong_result_of_a_workload_raises_unequal() -> None:
    workload = WORKLOADS["a + b, float32 small"]
    right = np.array([1.0, 2.0, 3.0])
    inputs = (right.astype(np.float32),)
    check(workload, "one", [right.astype(np.float32)], [right], inputs)
    with pytest.raises(Unequal, match=re.escape("at (1,) 2.000999927520752 is not 2.0, by more than 1e-05")):
        check(workload, "one", [np.array([1.0, 2.001, 3.0], np.float32)], [right], inputs)
    with pytest.raises(Unequal, match="nan"):
        check(workload, "one", [np.array([1.0, np.nan, 3.0], np.float32)], [right], inputs)
    with pytest.raises(Unequal, match="gives float64, the inputs are float32"):
        check(workload, "one", [right], [right], inputs)
    with pytest.raises(Unequal, match="shape"):
        check(workload, "one", [right[:2].astype(np.float32)], [right], inputs)


def test_contenders_are_timed_in_rotating_order() -> None:
    """Every contender is called equally often, and is the first of a round in turn."""
    order: list[str] = []
    names = ("a", "b", "c")

    def run(name: str) -> None:
        order.append(name)
        time.sleep(TURN)  # so one call fills a turn

    timings = side_by_side({name: partial(run, name) for name in names}, Pace(0.0, 6, 6))
    assert [timings[name].rounds for name in names] == [6, 6, 6]
    assert {order.count(name) for name in names} == {3 + 6 * 2}  # a warm-up, then an uncounted call before each counted one
    turns = order[9::2]
    assert turns == order[10::2]
    assert [turns[k] for k in range(0, 18, 3)] == ["a", "b", "c"] * 2


def test_benchmark_limit_is_the_slowest_resource() -> None:
    limits = {
        "read in memory": 10.0,
        "triad in memory": 5.0,
        "read in cache": 100.0,
        "triad in cache": 50.0,
        "fma float32": 1.0,
    }
    big = IN_CACHE + 1
    assert limit_seconds(limits, 100, 0, big, 0, "float32") == (10.0, "read in memory")
    assert limit_seconds(limits, 100, 50, big, 0, "float32") == (30.0, "triad in memory")
    assert limit_seconds(limits, 100, 50, IN_CACHE, 0, "float32") == (3.0, "triad in cache")
    assert limit_seconds(limits, 100, 50, big, 40.0, "float32") == (40.0, "fma float32")


def test_time_is_split_into_kernel_and_python() -> None:
    workload: Workload = WORKLOADS["(a*b + c)**2, float32 small"]
    peer = Tenxor()
    (run,) = peer.runs(workload, [peer.array(a) for a in workload.inputs(np.random.default_rng(0))])
    run()
    kernel, python = parts(run, rounds=5)
    assert 0.0 <= kernel < 1.0
    assert 0.0 < python < 1.0


def timed(**seconds: float) -> dict[str, Any]:
    return {"seconds": {name: {"median": s, "low": s, "high": s, "rounds": 5} for name, s in seconds.items()}}


def row(family: str, **seconds: float) -> dict[str, Any]:
    return timed(**seconds) | {
        "family": family,
        "absent": {"numpy": "has no erf"} if "numpy" not in seconds else {},
        "kernel": 0.001,
        "python": 0.002,
        "first": {"tenxor": {"first": 0.03, "warm": 0.01, "compiles": 1}},
        "limit": 0.005,  # half of the time on two threads
        "limited by": "triad in memory",
        "compute bound": family == "outer",
    }


def results() -> dict[str, Any]:
    counts = {}
    for n, ours in (("1", 0.02), ("2", 0.01)):
        counts[n] = {
            "limits": {"triad in memory": 2e10, "fma float32": 1e11},
            "versions": {"tenxor": "1", "numpy": "2", "torch": "3"},
            "titles": {"tenxor": "Tenxor", "numpy": "NumPy", "torch": "PyTorch"},
            "missing": {"jax": "No module named 'jax'"},
            "workloads": {
                "slow": row("chains in memory", tenxor=ours, numpy=0.04, torch=0.03),
                "fast": row("chains in memory", tenxor=ours, numpy=0.09, torch=0.06),
                "cross": row("outer", tenxor=ours, torch=0.005),
            },
            "new shapes": {"shapes": 100, "seconds": {"tenxor": 0.03, "numpy": 0.01}, "compiles": {"tenxor": 1}},
        }
    counts["1"]["by size"] = {"sort, float64": {"12": {"tenxor": 1e-6, "numpy": 2e-6}, "1,000": {"tenxor": 4e-6, "numpy": 2e-6}}}
    counts["1"]["passes"] = {
        name: {"tenxor": [first, 1e-6], "numpy": [3e-6, 3e-6]} for name, first in (("a row", 2e-6), ("a size", 1.2e-6))
    }
    counts["1"]["training"] = {
        name: {"family": family, "learnt": learnt, "memory": {"tenxor": 2**20, "torch": torch_bytes}} | seconds
        for name, family, learnt, torch_bytes, seconds in (
            ("one", "training steps", None, 2**21, timed(tenxor=1e-3, torch=2e-3, jax=1e-3)),
            ("two", "training steps", None, 2**19, timed(tenxor=1e-3, torch=1e-3)),
            ("three", "training steps", None, 2**21, timed(tenxor=1e-3, torch=4e-3)),
            ("split: an epoch", "toys", (0.25, 0.98), 2**21, timed(tenxor=2.5e-3, torch=4e-3)),
        )
    }
    machine = {"processor": "a machine", "cpus": 2, "python": "3", "load": [0.0, 0.0, 0.0]}
    return {"date": "2026-01-01", "quick": True, "machine": machine, "threads": counts}


def test_benchmark_goal_is_judged_by_its_worst_line() -> None:
    rows = {line[0]: line[1:] for line in goals.table(results()["threads"])}
    assert rows["fused chains in memory: × NumPy"] == [
        "2.50×",
        "2.00× (slow)",
        "3.25×",
        "4.00× (slow)",
        "6.50×",
        "no: 3 of 4",
    ]
    assert rows["fused chains in memory: of the bandwidth"][-1] == "no: 0 of 4"
    assert rows["fused chains in memory: × JAX"][-1] == "not measured"
    by_size = rows["order, counts, matrices and transforms by size: × NumPy"]
    assert by_size == ["1.00×", "0.50× (sort, float64, 1,000)", "1.25×", "–", "–", "no: 1 of 2"]
    assert rows["training steps: × PyTorch"] == ["1.00×", "1.00× (two)", "2.00×", "–", "–", "yes: 3 of 3"]
    assert rows["training steps, the third best: × PyTorch"] == ["1.50×", "1.00× (two)", "2.00×", "–", "–", "no: 2 of 3"]
    assert rows["an epoch on 50 points: of 5 ms"] == ["1.00×", "2.00× (split: an epoch)", "2.00×", "–", "–", "yes: 1 of 1"]
    assert rows["memory of training steps: PyTorch's / Tenxor's"] == ["1.00×", "0.50× (two)", "2.00×", "–", "–", "no: 2 of 3"]
    assert rows["Hessian of 100 parameters: × JAX"][-1] == "not measured"
    assert rows["100 new shapes: compiles"][-1] == "yes: 2 of 2"
    assert rows["first pass over rows or sizes: × the second's speed"] == ["0.77×", "0.50× (a row)", "0.67×", "–", "–", "no: 1 of 2"]
    assert rows["2 threads against one, compute-bound"] == ["1.8×", "–", "–", "2.00× (cross)", "2.00×", "yes: 1 of 1"]


def test_report_has_a_row_for_each_measurement() -> None:
    text = report.markdown(results())
    assert "A quick run" in text
    assert "Not installed: jax." in text
    assert "| slow | 10 ms | 40 ms | 30 ms | 4.00× | 3.00× | **3.00×** | PyTorch | 50 %, triad in memory |" in text
    assert "| cross | 10 ms | – | 5 ms | – | 0.50× | **0.50×** | PyTorch |" in text
    assert "| sort, float64 | 2.00× (1 µs) | 0.50× (4 µs) |" in text
    assert "Without: NumPy has no erf." in text
    assert "| `a row` | 2 µs | 1 µs | 3 µs | 3 µs |" in text
    assert "| one | 1 ms | 2 ms | 1 ms | 2.00× | 1.00× | 1.0 | 2.0 |" in text
    assert "| two | 1 ms | 1 ms | – | 1.00× | – | 1.0 | 0.5 |" in text
    assert "After 200 epochs: split: loss 0.250, 98 % of the points right." in text
    assert "| triad in memory | 20.0 GB/s | 20.0 GB/s |" in text
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        assert len({line.count("|") for line in block.splitlines()}) == 1, block


@pytest.mark.parametrize("name", ["README.md", "docs/benchmarks.md"])
def test_table_of_families_replaces_the_one_between_its_marks(name: str) -> None:
    table = report.families_table(results())
    assert "| chains in memory (2) | 6.00× | 4.24× | 4.24× | 50 % | 2.12× | 25 % |" in table
    text = (ROOT / name).read_text(encoding="utf-8")
    assert report.BEGIN in text
    written = report.with_table(text, table)
    assert report.with_table(written, table) == written
    with pytest.raises(ValueError, match="the document has no"):
        report.with_table("nothing", table)


def test_table_of_the_readme_has_the_chosen_rows() -> None:
    table = report.families_table(results(), ("outer",))
    assert "| outer (1)" in table and "chains in memory" not in table
    latest = json.loads((ROOT / "benchmarks/results/latest.json").read_text())
    assert report.families_table(latest, report.README_ROWS).count("\n|") == 2 + len(report.README_ROWS)


def test_first_results_are_medians_by_line_and_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    cache_dirs: list[set[str]] = []
    wheels = set[str]()

    def figures(codes: dict[str, Any], rounds: int) -> dict[str, list[float]]:
        cache_dirs.append({env.get("TENXOR_CACHE_DIR", "") for _, env in codes.values()})
        wheels.update(env["PYTHONPATH"] for name, (_, env) in codes.items() if name.endswith("wheel") and env["PYTHONSAFEPATH"])
        warm, cold, shipped = [[9.0, 0.125, first] for first in (2e-3, 3e-2, 4e-3)]
        times = {"numpy": [9.0, 0.1, 1e-5], "tenxor": warm, "tenxor, cold": cold, "tenxor, wheel": shipped}
        slow = 100.0 if len(cache_dirs) == 1 else 1.0  # the first round, which does not count
        return {name: [slow * figure for figure in times[name.partition("|")[2]]] for name in codes}

    monkeypatch.setattr(overhead, "process_figures", figures)
    installed: list[str] = []
    monkeypatch.setattr(overhead, "install_wheel", installed.append)
    first_results = overhead.first_results(3)
    assert first_results["import"] == {"numpy": 0.1, "tenxor": 0.125, "tenxor, cold": 0.125, "tenxor, wheel": 0.125}
    expected = {"numpy": 1e-5, "tenxor": 2e-3, "tenxor, cold": 3e-2, "tenxor, wheel": 4e-3}
    assert all(row == expected for line, row in first_results.items() if line != "import")
    assert len(installed) == 1 and wheels == set(installed)
    assert len(cache_dirs) == 4 and len(set.intersection(*cache_dirs)) == 2  # none, and the one that is kept
    text = report._first({"first results": first_results})
    assert "| import | 100 ms | 125 ms | 125 ms | 125 ms | 1.25 |" in text and "| 2 ms | 30 ms | 4 ms |" in text
    del first_results["import"]["tenxor, wheel"]
    assert "| import | 100 ms | 125 ms | 125 ms | – | 1.25 |" in report._first({"first results": first_results}), "of an earlier run"


def test_programs_of_first_results_run(capsys: pytest.CaptureFixture[str]) -> None:
    for ready, theirs, ours in overhead._FIRST.values():
        for library, call in (("numpy", theirs), ("tenxor", ours)):
            exec(overhead._FIRST_PROGRAM.format(library=library, ready=ready, call=call), {})
            assert len([float(figure) for figure in capsys.readouterr().out.split()]) == 2


class TestFirstStepsOfNetworks:
    def test_losses_fall_and_all_forms_of_an_lstm_agree(self) -> None:
        library = networks.Library.load("tenxor")
        steps = {name: make(library, **networks.TINY[name]) for name, make in networks.NETWORKS.items()}
        results = {name: [step() for _ in range(3)] for name, step in steps.items()}
        assert all(row == sorted(row, reverse=True) and row[2] < row[0] for name, row in results.items() if "training" in name)
        assert all(len(set(row)) == 1 for name, row in results.items() if "training" not in name)
        layer, *others = [row for name, row in results.items() if "LSTM" in name and "training" in name]
        assert len(others) == 2 and all(row == pytest.approx(layer, rel=1e-5) for row in others)

    def test_disk_process_follows_the_cold_one_in_the_same_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        folders: list[list[str]] = []

        def figures(codes: dict[str, Any], rounds: int) -> dict[str, list[float]]:
            folders.append([env["TENXOR_CACHE_DIR"] for name, (_, env) in codes.items() if name != "torch"])
            return {name: [9.0, 0.1 * (k + 1), 0.01, 0.001 * len(folders)] for k, name in enumerate(codes)}

        monkeypatch.setattr(first_steps, "process_figures", figures)
        measured = first_steps.measure("LSTM layer", 3, None)
        assert len({folder for (folder, _) in folders}) == 3 and all(cold == disk for cold, disk in folders)
        assert measured["cold"] == [0.1, 0.01, 0.002] and measured["disk"][0] == 0.2
        cells = first_steps.row_of("LSTM layer", {"cold": [0.2, 0.01, 0.002], "torch": [0.1, 0.01, 0.001]})
        assert cells[1:4] == ["200 ms (0.50)", "10 ms (1.00)", "2 ms (0.50)"] and cells[4:] == ["100 ms", "10 ms", "1 ms"]

    def test_process_prints_three_figures(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setitem(networks.NETWORKS, "LSTM layer", partial(networks.NETWORKS["LSTM layer"], **networks.TINY["LSTM layer"]))
        first_steps.print_steps("tenxor", "LSTM layer")
        assert len([float(figure) for figure in capsys.readouterr().out.split()]) == 3
