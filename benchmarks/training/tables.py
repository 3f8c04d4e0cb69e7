"""What was measured of training, to read; no library is loaded for that."""

from __future__ import annotations

from typing import Any

from ..timing import shown

EPOCHS = 200  # of which it is told what has been learnt
PEERS = {"torch": "PyTorch", "jax": "JAX jit"}


def table(rows: dict[str, Any]) -> list[list[str]]:
    """A row for each lesson."""
    peers = [name for name in PEERS if any(name in row["seconds"] for row in rows.values())]
    titles = [PEERS[name] for name in peers]
    found = [["step", "Tenxor", *titles, *[f"× {title}" for title in titles], "MiB at most", "PyTorch's MiB"]]
    for name, row in rows.items():
        times = {peer: t["median"] for peer, t in row["seconds"].items()}
        cells = [shown(times[peer]) if peer in times else "–" for peer in ("tenxor", *peers)]
        cells += [f"{times[peer] / times['tenxor']:.2f}×" if peer in times else "–" for peer in peers]
        cells += [f"{row['memory'][peer] / 2**20:.1f}" if peer in row["memory"] else "–" for peer in ("tenxor", "torch")]
        found.append([name, *cells])
    return found


def outcomes(rows: dict[str, Any]) -> str:
    """What was learnt, in a sentence."""
    each = [
        f"{name.partition(':')[0]}: loss {row['learnt'][0]:.3f}, {100 * row['learnt'][1]:.0f} % of the points right"
        for name, row in rows.items()
        if row["learnt"]
    ]
    return f"After {EPOCHS} epochs: {'; '.join(each)}." if each else ""
