"""Both libraries by turns, after their results have been compared; and the table."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..peers import Peer, Run
from ..timing import Pace, shown, side_by_side
from .lines import NAMES, Sized, lines

PACE = Pace(0.25, 5, 40)
WHOLE = "by size"  # what all of it is called on the command line
Rows = dict[str, dict[str, dict[str, float]]]  # seconds by line, size and library


def measured(peers: Sequence[Peer], only: str = "", pace: Pace = PACE) -> Rows:
    """Median seconds of lines whose name the expression `only` finds, of Tenxor and of NumPy."""
    two = [next(peer for peer in peers if peer.name == name) for name in ("tenxor", "numpy")]
    found: Rows = {}
    for sized in lines():
        for dtype in sized.dtypes:
            name = f"{sized.name}, {dtype}"
            if re.search(only, WHOLE) or re.search(only, name):
                found[name] = {_shown(size): _one(sized, size, dtype, two, pace) for size in sized.sizes}
                ratios = ", ".join(f"{size} {row['numpy'] / row['tenxor']:.2f}" for size, row in found[name].items())
                print(f"{name}: as fast as NumPy {ratios}", file=sys.stderr, flush=True)
    return found


def _one(sized: Sized, size: Any, dtype: str, peers: Sequence[Peer], pace: Pace) -> dict[str, float]:
    runs, results = contenders(sized, size, dtype, peers)
    check(f"{sized.name}, {dtype}, {_shown(size)}", sized.alike, dtype, *results)
    return {name: timed.median for name, timed in side_by_side(runs, pace).items()}


@cache
def names_of(library: Any) -> SimpleNamespace:
    """What lines use of a library, looked up once, as in all workloads."""
    return SimpleNamespace(**{name: getattr(library, name) for name in NAMES})


def contenders(sized: Sized, size: Any, dtype: str, peers: Sequence[Peer]) -> tuple[dict[str, Run], list[list[Any]]]:
    """What each library does, and what comes of it."""
    given = sized.made(np.random.default_rng(0), size, dtype)
    runs, results = dict[str, Run](), list[list[Any]]()
    for peer in peers:
        line = sized.numpys if peer.name == "numpy" and sized.numpys is not None else sized.line
        run = peer.ready(partial(line, names_of(peer.library)), [peer.array(x) if isinstance(x, np.ndarray) else x for x in given])
        found = run()
        results.append([peer.numpy(x) for x in (found if isinstance(found, tuple) else (found,))])
        runs[peer.name] = run
    return runs, results


def check(where: str, alike: bool, dtype: str, ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Hold results against NumPy's."""
    tolerance = 1e-3 if dtype == "float32" else 1e-9
    for x, y in zip(ours, theirs, strict=True):
        assert x.shape == y.shape, f"{where}: {x.shape}, and NumPy's {y.shape}"
        assert not alike or np.allclose(x, y, rtol=tolerance, atol=tolerance * np.abs(y).max(initial=1)), f"{where}: other numbers"


def table(rows: Rows) -> list[list[str]]:
    """A row for each line with a size: how many times as fast as NumPy we are at each, and how long we take."""
    sizes = list(dict.fromkeys(size for row in rows.values() for size in row))
    found = [["", *sizes]]
    for name, row in rows.items():
        cells = [f"{row[s]['numpy'] / row[s]['tenxor']:.2f}× ({shown(row[s]['tenxor'])})" if s in row else "" for s in sizes]
        found.append([name, *cells])
    return found


def _shown(size: Any) -> str:
    return f"{size:,}" if isinstance(size, int) else "×".join(map(str, size))
