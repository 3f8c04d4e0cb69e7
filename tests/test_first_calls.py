"""Test the benchmark of first calls: the programs, the fresh processes, and the tables."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from benchmarks import __main__ as benchmark
from benchmarks import overhead
from benchmarks.check import Unequal, check
from benchmarks.first_calls import fresh_process, measure, tables
from benchmarks.first_calls.programs import PROBES, PROGRAMS, SmallProgram, find_program
from benchmarks.report import grid, markdown
from benchmarks.timing import fresh_environment, process_figures

from .processes import python
from .test_benchmarks import results

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS_AND_PROBES = PROGRAMS + PROBES
TWO_PEERS = ("tenxor", "numpy")


@pytest.mark.parametrize("program", PROGRAMS_AND_PROBES, ids=lambda program: program.name)
def test_program_gives_the_results_of_numpy(program: SmallProgram) -> None:
    arguments = program.inputs(np.random.default_rng(0), *program.tiny)
    copies = [np.copy(value) if isinstance(value, np.ndarray) else value for value in arguments]
    expected = fresh_process.read(program.function(np, *arguments))
    values = [tx.asarray(value) if isinstance(value, np.ndarray) else value for value in arguments]
    for _ in range(2):
        result = fresh_process.read(program.function(tx, *values))
        check(program, "Tenxor", result, expected, [value for value in arguments if isinstance(value, np.ndarray)])
    for value, copy in zip(arguments, copies, strict=True):
        np.testing.assert_array_equal(value, copy)


def test_wrong_result_of_a_small_program_raises_unequal() -> None:
    name = "moving average, 500 steps of 50"
    program = find_program(name)
    arguments = program.inputs(np.random.default_rng(0), *program.size)
    right = fresh_process.read(program.function(np, *arguments))
    fresh_process.compare("numpy", name, arguments, [right])
    with pytest.raises(Unequal, match="moving average"):
        fresh_process.compare("numpy", name, arguments, [right, [right[0] + 1e-6]])


def test_there_are_twelve_programs_with_distinct_names() -> None:
    assert len(PROGRAMS) == 12
    assert len({program.name for program in PROGRAMS_AND_PROBES}) == len(PROGRAMS_AND_PROBES)
    assert not any("|" in program.name for program in PROGRAMS_AND_PROBES), "the bar separates the parts of a key"
    assert all({"tenxor", "numpy"}.isdisjoint(program.absent) for program in PROGRAMS_AND_PROBES)


def test_edit_distance_and_path_cost_programs_give_known_values() -> None:
    edit, path = find_program("edit distance by rows, 200×200"), find_program("path cost by rows, 200×300")
    kitten, sitting = ([ord(letter) for letter in word] for word in ("kitten", "sitting"))
    costs = [[1.0, 9.0, 9.0], [9.0, 1.0, 9.0], [9.0, 9.0, 1.0]]
    for xp in (np, tx):
        assert int(edit.function(xp, xp.asarray(kitten), xp.asarray(sitting))[-1]) == 3
        assert path.function(xp, xp.asarray(costs)).tolist() == [11.0, 11.0, 3.0]


def test_times_of_first_early_and_last_calls_are_reported_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {"process_time": 0.0, "perf_counter": 0.0}
    calls = 0

    def run() -> int:
        nonlocal calls
        calls += 1
        seconds = {1: 100.0, 100: 50.0}.get(calls, 10.0 if calls <= 12 else 1.0)
        clocks["process_time"] += seconds
        clocks["perf_counter"] += 2 * seconds
        return calls

    for clock in clocks:
        monkeypatch.setattr(time, clock, lambda clock=clock: clocks[clock])
    figures, measurements = fresh_process.time_calls(run, 100)
    assert figures == [100.0, 200.0, 110.0, 220.0, 1.0, 2.0], "CPU and wall seconds; one slow call of the last nine does not count"
    assert measurements == [1, 100]
    calls = 0
    figures, measurements = fresh_process.time_calls(run, 12)
    assert figures == [100.0, 200.0, 110.0, 220.0] and measurements == [1, 12]


def test_process_prints_the_figures_of_calls_and_of_the_import(tmp_path: Path) -> None:
    name = "Kepler's equation, 10,000 planets"
    for peer in TWO_PEERS:
        settings = {**os.environ, **measure.ONE_THREAD, "TENXOR_CACHE_DIR": str(tmp_path)}
        for calls, count in ((12, 4), (100, 6)):
            output = python("-c", measure.CALL.format(peer=peer, name=name, calls=calls), env=settings, cwd=ROOT).stdout
            figures = [float(figure) for figure in output.split()]
            assert len(figures) == count and all(seconds > 0 for seconds in figures)
        cpu, wall, modules = map(float, python("-c", measure.IMPORT.format(peer=peer), env=settings, cwd=ROOT).stdout.split())
        assert min(cpu, wall) > 0 and 50 < modules < 1000


def test_process_of_a_peer_loads_no_other_library() -> None:
    program = "import sys; from benchmarks.first_calls.fresh_process import load; load('numpy'); import benchmarks.first_calls.programs"
    loaded = python("-c", f"{program}; print(*sys.modules)", cwd=ROOT).stdout.split()
    assert "numpy" in loaded
    assert not {"tenxor", "torch", "jax", "llvmlite"} & set(loaded)


def test_variables_that_slow_libraries_do_not_reach_a_fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    slowing = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE", "TENXOR_BACKEND")
    for name in slowing:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("KEPT", "1")
    environment = fresh_environment({"TENXOR_CACHE_DIR": "folder"})
    assert not set(slowing) & set(environment)
    assert environment["KEPT"] == "1" and environment["TENXOR_CACHE_DIR"] == "folder"


def test_error_of_a_fresh_process_has_its_text() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)^failing: the process ended with 1:.*ValueError: a reason"):
        process_figures({"failing": ("raise ValueError('a reason')", {})}, 1)


def test_folder_without_shipped_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)^shipped code: .*TENXOR_SHIPPED is .* is not used"):
        measure.measured("nothing", 1, tmp_path)


def made_up_figures(codes: measure.Codes, rounds: int) -> dict[str, list[float]]:
    """Return figures that depend on the library and the state of the disk."""
    figures = {}
    for key in codes:
        name, peer, state = key.split("|")
        if name == "import":
            figures[key] = [9.0, 0.08, 0.09, 199.0]
        else:
            first = {("tenxor", "cold"): 0.2, ("tenxor", "disk"): 0.02}.get((peer, state), 0.01)
            figures[key] = [9.0, first, 2 * first, 0.05, 0.1, *([] if (peer, state) == ("tenxor", "cold") else [0.004, 0.008])]
    return figures


@pytest.fixture
def two_peers(monkeypatch: pytest.MonkeyPatch) -> list[measure.Codes]:
    """Replace processes by made-up figures, and return the processes that were asked for, by repetition."""
    started: list[measure.Codes] = []

    def figures(codes: measure.Codes, rounds: int) -> dict[str, list[float]]:
        started.append(codes)
        return made_up_figures(codes, rounds)

    monkeypatch.setattr(measure, "PEERS", TWO_PEERS)
    monkeypatch.setattr(measure, "process_figures", figures)
    return started


def test_process_from_disk_finds_the_folder_that_the_cold_one_filled(two_peers: list[measure.Codes]) -> None:
    measure.measured("", 2)
    first, second = two_peers
    folders = {key: environment["TENXOR_CACHE_DIR"] for key, (_, environment) in first.items() if "|tenxor|" in key}
    assert len(folders) == 2 * (1 + len(PROGRAMS_AND_PROBES)) and len(set(folders.values())) == 1 + len(PROGRAMS_AND_PROBES)
    for key in [key for key in folders if key.endswith("|cold")]:
        after = key.replace("|cold", "|disk")
        assert folders[key] == folders[after] and list(first).index(key) + 1 == list(first).index(after)
        assert second[key][1]["TENXOR_CACHE_DIR"] != folders[key], "each repetition begins with an empty folder"
    program = PROGRAMS_AND_PROBES[0].name
    assert "12)" in first[f"{program}|tenxor|cold"][0] and "100)" in first[f"{program}|tenxor|disk"][0]
    assert "100)" in first[f"{program}|numpy|cold"][0]
    for _, environment in first.values():
        assert {environment[name] for name in ("OPENBLAS_NUM_THREADS", "TENXOR_NUM_THREADS")} == {"1"}
    off = {key.split("|")[0] for key, (_, environment) in first.items() if environment.get("TENXOR_FAST_PATH") == "0"}
    assert off == {"1,000 times a + a of 12, fast path off"}
    assert {environment["TENXOR_SHIPPED"] for key, (_, environment) in first.items() if "|tenxor|" in key} == {""}


def test_shipped_folder_reaches_the_processes_of_tenxor(
    two_peers: list[measure.Codes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checked: list[dict[str, str]] = []
    monkeypatch.setattr(measure, "check_shipped_code", checked.append)
    measurements = measure.measured("Kepler", 1, tmp_path)
    assert checked == [{"TENXOR_SHIPPED": str(tmp_path)}]
    (codes,) = two_peers
    assert {environment.get("TENXOR_SHIPPED") for key, (_, environment) in codes.items() if "|tenxor|" in key} == {str(tmp_path)}
    assert "machine code that its wheel contains" in tables.section(measurements, grid)


def test_report_shows_times_and_ratios(two_peers: list[measure.Codes]) -> None:
    measurements = measure.measured("Kepler|wave|pending constants", 3)
    text = tables.section(measurements, grid)
    assert "measured from a checkout, without the machine code of a wheel" in text
    assert "medians of 3 fresh processes" in text
    cpu, wall = text.split("### ")[1:]
    head = "| Kepler's equation, 10,000 planets "
    assert f"{head}| 10.0 | 50.0 | 4.00 | 200 (0.050×) | 50.0 (1.00×) | 20.0 (0.50×) | 50.0 (1.00×) | 4.00 (1.00×) |" in cpu
    assert f"{head}| 20.0 | 100 | 8.00 | 400 (0.050×) | 100 (1.00×) | 40.0 (0.50×) | 100 (1.00×) | 8.00 (1.00×) |" in wall
    assert "| **geometric mean** |  |  |  | **0.050×** | **1.00×** | **0.50×** | **1.00×** | **1.00×** |" in cpu
    assert "| worst |  |  |  | 0.050×, wave equation |" in cpu
    assert cpu.index("worst") < cpu.index("Kalman filter with pending constants"), "probes stand below the mean"
    assert "| Tenxor, from disk | 80.0 | 90.0 | 199 |" in text
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        assert len({line.count("|") for line in block.splitlines()}) == 1, block
    assert tables.section(measurements, grid) in markdown(results() | {"first calls": measurements})


def test_complete_benchmark_measures_first_calls(
    monkeypatch: pytest.MonkeyPatch, two_peers: list[measure.Codes], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick"])
    monkeypatch.setattr(benchmark, "measured", lambda threads, only, quick: results()["threads"]["1"])
    monkeypatch.setattr(overhead, "starting", lambda peers, rounds: {})
    monkeypatch.setattr(overhead, "first_results", lambda rounds: {})
    benchmark.main()
    assert len(two_peers) == 1, "a quick run has one repetition"
    assert "| wave equation, 200×200, 20 steps | 10.0 |" in capsys.readouterr().out


def test_worst_and_mean_ratio_leave_out_the_probe() -> None:
    def row(probe: bool, ours: float, **peers: float) -> dict[str, Any]:
        seconds = {
            peer: {state: {phase: {"cpu": time} for phase in tables.PHASES} for state in ("cold", "disk")}
            for peer, time in {"tenxor": ours, **peers}.items()
        }
        return {"probe": probe, "seconds": seconds, "absent": {}}

    rows = {"fast": row(False, 0.01, numpy=0.04), "slow": row(False, 0.04, numpy=0.01, jax=0.02), "probe": row(True, 1.0, numpy=0.01)}
    body = tables.table(rows, "numpy", "cpu")
    assert [line[0] for line in body] == ["program", "fast", "slow", "**geometric mean**", "worst", "probe"]
    assert body[3][4:] == ["**1.00×**"] * 5 and body[4][4:] == ["0.25×, slow"] * 5
    body = tables.table(rows, "jax", "cpu")
    assert body[1][1:5] == ["–", "–", "–", "10.0"] and body[2][1:5] == ["20.0", "20.0", "20.0", "40.0 (0.50×)"]
    assert body[3][4] == "**0.50×**"
    assert body[0][1] == "JAX from disk, first"


def test_only_installed_libraries_are_measured(monkeypatch: pytest.MonkeyPatch, two_peers: list[measure.Codes]) -> None:
    monkeypatch.setattr(measure, "PEERS", ("tenxor", "numpy", "jax"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jax" else name)
    assert list(measure.measured("Kepler", 1)["import"]) == ["tenxor", "numpy"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    measurements = measure.measured("Kepler|wave", 1)
    assert list(measurements["import"]) == ["tenxor", "numpy", "jax"]
    kepler, wave = (measurements["programs"][name] for name in ("Kepler's equation, 10,000 planets", "wave equation, 200×200, 20 steps"))
    assert "jax" in kepler["seconds"] and "jax" not in wave["seconds"]
    assert "–: JAX has no assignment to a part of an array." in tables.section(measurements, grid)
