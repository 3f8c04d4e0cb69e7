"""Test that benchmark programs give the results of NumPy at tiny sizes, and that their figures are summarized correctly."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from benchmarks import goals, report
from benchmarks.check import Unequal
from benchmarks.peers import NumPy, Tenxor
from benchmarks.programs.catalogue import programs
from benchmarks.programs.measure import checked, measured
from benchmarks.programs.program import Program
from benchmarks.timing import Pace

PROGRAMS = {p.name: p for p in programs()}
DISTINCT_PROGRAMS = {p.tenxor: p for p in PROGRAMS.values()}  # one size of each program


@pytest.mark.parametrize("program", DISTINCT_PROGRAMS.values(), ids=lambda program: program.name)
def test_program_gives_the_results_of_numpy(program: Program) -> None:
    checked(program, [NumPy(), Tenxor()], program.tiny)


def test_wrong_result_of_a_program_raises_unequal() -> None:
    program = PROGRAMS["heat equation, 64²"]

    def late(u: Any, steps: int) -> Any:
        return program.tenxor(u, steps - 1)

    def in_place(u: Any, steps: int) -> Any:
        u[...] = program.tenxor(u, steps)
        return u

    for wrong in (late, in_place):
        with pytest.raises(Unequal, match="heat equation"):
            checked(dataclasses.replace(program, tenxor=wrong), [NumPy(), Tenxor()], program.tiny)


def test_programs_are_selected_by_name_or_size(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = [dataclasses.replace(PROGRAMS[f"Floyd–Warshall, {n} nodes"], size=(5,)) for n in (34, 300)]
    monkeypatch.setattr("benchmarks.programs.measure.programs", lambda: tiny)
    peers = [NumPy(), Tenxor()]
    assert list(measured(peers, "34|nothing", Pace(0.0, 1, 1))) == ["Floyd–Warshall, 34 nodes"]
    results = measured(peers, "large programs", Pace(0.0, 2, 2))
    assert list(results) == ["Floyd–Warshall, 300 nodes"]
    seconds = results["Floyd–Warshall, 300 nodes"]["seconds"]
    assert results["Floyd–Warshall, 300 nodes"]["first"] > 0.0
    assert [seconds[name]["rounds"] for name in ("numpy", "tenxor")] == [2, 2]


def test_small_and_large_programs_have_separate_goals() -> None:
    def row(family: str, **seconds: float) -> dict[str, Any]:
        return {"family": family, "first": 0.05, "seconds": {name: {"median": s} for name, s in seconds.items()}}

    rows = {
        "one": row("small programs", tenxor=1e-3, numpy=2e-3, torch=2.5e-3),
        "two": row("small programs", tenxor=1e-3, numpy=0.5e-3),
        "three": row("large programs", tenxor=1e-3, numpy=1.5e-3),
    }
    table = goals.table({"1": {"workloads": {}, "programs": rows}}, goals.OF_PROGRAMS)
    assert [(line[0], line[2], line[-1]) for line in table[1:]] == [
        ("small programs: × NumPy", "0.50× (two)", "no: 1 of 2"),
        ("large programs: × NumPy", "1.50× (three)", "no: 0 of 1"),
        ("all programs: × NumPy", "0.50× (two)", "no: 2 of 3"),
        ("small programs: × PyTorch", "2.50× (one)", "yes: 1 of 1"),
    ]
    titles = {"tenxor": "Tenxor", "numpy": "NumPy", "torch": "PyTorch"}
    assert report.programs_table(rows, titles) == [
        ["program", "", "Tenxor", "NumPy", "PyTorch", "× NumPy", "× PyTorch", "first run"],
        ["one", "small", "1 ms", "2 ms", "2.5 ms", "2.00×", "2.50×", "50 ms"],
        ["two", "small", "1 ms", "500 µs", "–", "0.50×", "–", "50 ms"],
        ["three", "large", "1 ms", "1.5 ms", "–", "1.50×", "–", "50 ms"],
    ]
