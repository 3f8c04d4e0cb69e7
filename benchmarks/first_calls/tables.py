"""The figures of first calls as tables of Markdown; loads no library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..goals import geometric_mean

TITLES = {"numpy": "NumPy", "torch": "PyTorch", "jax": "JAX"}
WITH_DISK_CACHE = ("tenxor", "jax")  # libraries that keep compiled code
PHASES = {"first": "first", "early": "2–12", "last": "100th"}
COLUMNS = (("cold", "first"), ("cold", "early"), ("disk", "first"), ("disk", "early"), ("disk", "last"))
STATES = {"cold": "cold", "disk": "from disk"}
Rows = dict[str, dict[str, Any]]  # programs by name, as `measure.measured` returns them
Grid = Callable[[list[list[str]]], str]


def section(measurements: dict[str, Any], grid: Grid) -> str:
    """Return the section of the report."""
    rows: Rows = measurements["programs"]
    peers = [peer for peer in TITLES if peer in measurements["import"]]
    if measurements["shipped"]:
        origin = "**Tenxor used the machine code that its wheel contains**, so that “cold” is the first process after an installation."
    else:
        origin = "**Tenxor was measured from a checkout, without the machine code of a wheel**, so that “cold” compiles all kernels."
    parts = [
        "## First calls in a fresh process",
        f"Milliseconds of small programs (`benchmarks/first_calls`), medians of {measurements['repetitions']} fresh processes with one"
        " thread: the first call, calls 2 to 12 together, and the 100th (the median of the nine calls up to it). In brackets stands the"
        " peer's time divided by Tenxor's: 1 is equal, less than 1 is slower. Cold: the folder of compiled code was empty. From disk: an"
        f" earlier process had left its code there. {origin}",
        grid(import_table(measurements["import"])),
    ]
    for peer in peers:
        for clock, title in (("cpu", "CPU time"), ("wall", "wall time")) if peer == "numpy" else (("cpu", "CPU time"),):
            parts += [f"### {title}, beside {TITLES[peer]}", grid(table(rows, peer, clock))]
        reasons = dict.fromkeys(f"{TITLES[peer]} {row['absent'][peer]}" for row in rows.values() if peer in row["absent"])
        if reasons:
            parts.append(f"–: {'; '.join(reasons)}.")
    return "\n\n".join(parts)


def table(rows: Rows, peer: str, clock: str) -> list[list[str]]:
    """Return a row for each program, then the mean and the worst ratio of the programs, then a row for each probe."""
    title = TITLES[peer] + (f" {STATES['disk']}" if peer in WITH_DISK_CACHE else "")
    head = [f"{title}, {PHASES[phase]}" for phase in PHASES] + [f"{STATES[state]}, {PHASES[phase]}" for state, phase in COLUMNS]
    body = [["program", *head]]
    programs = {name: row for name, row in rows.items() if not row["probe"]}
    body += [row_of(name, row, peer, clock) for name, row in programs.items()]
    by_column = [ratios(programs, peer, clock, state, phase) for state, phase in COLUMNS]
    if any(by_column):
        means = [geometric_mean(column.values()) for column in by_column]
        body.append(["**geometric mean**", "", "", "", *[f"**{show_ratio(mean)}**" for mean in means]])
        worst = [min(column, key=column.__getitem__) for column in by_column]
        cells = [f"{show_ratio(column[name])}, {name.split(',')[0]}" for name, column in zip(worst, by_column, strict=True)]
        body.append(["worst", "", "", "", *cells])
    body += [row_of(name, row, peer, clock) for name, row in rows.items() if row["probe"]]
    return body


def row_of(name: str, row: dict[str, Any], peer: str, clock: str) -> list[str]:
    """Return the cells of one program."""
    cells = [name]
    for phase in PHASES:
        seconds = seconds_of(row, peer, clock, "disk", phase)
        cells.append("–" if seconds is None else milliseconds(seconds))
    for state, phase in COLUMNS:
        seconds = row["seconds"]["tenxor"][state][phase][clock]
        ratio = ratio_of(row, peer, clock, state, phase)
        cells.append(milliseconds(seconds) + ("" if ratio is None else f" ({show_ratio(ratio)})"))
    return cells


def seconds_of(row: dict[str, Any], peer: str, clock: str, state: str, phase: str) -> float | None:
    """Return the seconds of a peer. A peer without code on disk is in the state "cold" only. None: the peer takes no part."""
    by_state = row["seconds"].get(peer)
    if by_state is None:
        return None
    seconds: float = by_state.get(state, by_state["cold"])[phase][clock]
    return seconds


def ratio_of(row: dict[str, Any], peer: str, clock: str, state: str, phase: str) -> float | None:
    """Return the peer's time divided by Tenxor's; None if the peer takes no part."""
    theirs = seconds_of(row, peer, clock, state, phase)
    ours: float = row["seconds"]["tenxor"][state][phase][clock]
    return None if theirs is None else theirs / ours


def ratios(rows: Rows, peer: str, clock: str, state: str, phase: str) -> dict[str, float]:
    """Return the ratio of each program in which the peer takes part."""
    by_name = {name: ratio_of(row, peer, clock, state, phase) for name, row in rows.items()}
    return {name: ratio for name, ratio in by_name.items() if ratio is not None}


def import_table(measurements: dict[str, dict[str, dict[str, float]]]) -> list[list[str]]:
    """Return a row for each library and state of the disk: the import to the first value, and the modules that it loads."""
    body = [["`import` to `(asarray([1., 2.]) + 1).tolist()`", "CPU ms", "wall ms", "modules"]]
    for peer, by_state in measurements.items():
        for state, figures in by_state.items():
            title = TITLES.get(peer, "Tenxor") + (f", {STATES[state]}" if len(by_state) > 1 else "")
            body.append([title, milliseconds(figures["cpu"]), milliseconds(figures["wall"]), f"{figures['modules']:.0f}"])
    return body


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds with about three digits."""
    value = 1e3 * seconds
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def show_ratio(ratio: float | None) -> str:
    """Return a ratio with about two significant digits; a dash for None."""
    if ratio is None:
        return "–"
    return f"{ratio:.4f}×" if ratio < 0.01 else f"{ratio:.3f}×" if ratio < 0.1 else f"{ratio:.2f}×"
