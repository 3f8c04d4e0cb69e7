"""The picture of a run: for each workload how many times as fast as each peer Tenxor is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .goals import ratio
from .report import PEERS, threads

COLOURS = {"numpy": "#4c72b0", "torch": "#dd8452", "jax": "#55a868", "numexpr": "#8172b3"}
ROW = 0.155  # inches


def plot(results: dict[str, Any], path: Path) -> None:
    """Write an SVG: a panel for each number of threads, a row for each workload, a dot for each peer."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tenxor"  # the same measurements make the same file
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: small, and it can be searched
    matplotlib.rcParams["font.size"] = 7
    import matplotlib.pyplot as plt

    counts = results["threads"]
    first = next(iter(counts.values()))
    families: dict[str, list[str]] = {}
    for name, row in first["workloads"].items():
        families.setdefault(row["family"], []).append(name)
    places: dict[str, float] = {}
    heads: list[tuple[float, str]] = []
    at = 0.0
    for family, names in families.items():
        heads.append((at + 0.2, family))
        for name in names:
            at += 1
            places[name] = at
        at += 1.5
    figure, axes = plt.subplots(
        1,
        len(counts),
        figsize=(4.2 + 3.2 * len(counts), ROW * at + 1),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for panel, (count, result) in zip(axes[0], counts.items(), strict=True):
        for peer in PEERS:
            found = {name: ratio(row, peer) for name, row in result["workloads"].items() if name in places}
            there = {name: value for name, value in found.items() if value is not None}
            if there:
                panel.scatter(
                    list(there.values()),
                    [places[n] for n in there],
                    s=11,
                    color=COLOURS[peer],
                    label=result["titles"][peer],
                    zorder=3,
                )
        panel.axvline(1, color="black", linewidth=0.8)
        panel.set_xscale("log")
        panel.grid(axis="x", which="major", linewidth=0.3)
        panel.set_ylim(at - 0.8, -0.5)
        panel.set_title(f"{threads(count)}: times as fast as")
        for y, head in heads:
            panel.text(0.01, y, head, transform=panel.get_yaxis_transform(), weight="bold", va="center", fontsize=6.5)
            panel.axhspan(y - 0.45, y + 0.45, color="#eeeeee", zorder=0)
        panel.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}×"))
    axes[0][0].set_yticks(list(places.values()), list(places))
    axes[0][0].legend(loc="upper right", framealpha=1)
    if results["quick"]:
        figure.suptitle("A quick run")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
