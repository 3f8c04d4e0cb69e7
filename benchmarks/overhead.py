"""What a small operation costs in Python, what a compile costs, and what an import costs."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import numpy as np

import tenxor as tx

from .timing import process_seconds, shown, side_by_side

Row = tuple[str, str, str]  # what, the figure, beside what


def small_operations() -> list[Row]:
    """Views, element access and a tiny sum, beside NumPy."""
    t, n = tx.asarray(np.arange(20.0)).reshape(4, 5).realize(), np.arange(20.0).reshape(4, 5)
    a, b = tx.asarray(np.arange(10.0)), np.arange(10.0)

    def write(x: Any) -> None:
        x[1, 2] = 3.0

    pairs = {
        "view: t.T": (lambda: t.T, lambda: n.T),
        "view: t[1]": (lambda: t[1], lambda: n[1]),
        "view: t[1:3, ::2]": (lambda: t[1:3, ::2], lambda: n[1:3, ::2]),
        "view: t.reshape(5, 4)": (lambda: t.reshape(5, 4), lambda: n.reshape(5, 4)),
        "view: t.T.reshape(20)": (lambda: t.T.reshape(20), lambda: n.T.reshape(20)),
        "read t.item(1, 2)": (lambda: t.item(1, 2), lambda: n.item(1, 2)),
        "write t[1, 2] = 3.0": (lambda: write(t), lambda: write(n)),
        "a + a, 10 elements, built": (lambda: a + a, lambda: b + b),
        "a + a, 10 elements, computed": (lambda: (a + a).realize(), lambda: b + b),
        "a + a, 10 elements, to a list": (lambda: (a + a).tolist(), lambda: (b + b).tolist()),
    }
    rows = []
    for name, (ours, theirs) in pairs.items():
        found = side_by_side({"tenxor": ours, "numpy": theirs}, seconds=0.3)
        rows.append((name, shown(found["tenxor"]), f"NumPy {shown(found['numpy'])}"))
    return rows


def compiling() -> list[Row]:
    """First calls, new shapes, and a second process."""
    inputs = [tx.asarray(np.ones(size, np.float32)) for size in range(1000, 1100)]
    start, before = time.perf_counter(), tx.compile_counts()[0]
    for x in inputs:
        (x * 3.0 - x / 7.0).realize()
    rows = [
        (
            "100 new shapes of one expression",
            shown(time.perf_counter() - start),
            f"{tx.compile_counts()[0] - before} compiles",
        )
    ]
    with tempfile.TemporaryDirectory() as folder:
        code = "import tenxor as tx; (tx.ones(10) + 1).realize()"
        process_seconds("import tenxor, llvmlite.binding", rounds=1)  # Python's own compiled modules are there
        (cold,) = process_seconds(code, rounds=1, TENXOR_CACHE_DIR=folder)
        (warm,) = process_seconds(code, rounds=5, TENXOR_CACHE_DIR=folder)
    rows.append(("a process that computes once, nothing cached", shown(cold), "with Python's and LLVM's start"))
    rows.append(("the same, compiled on disk", shown(warm), "no compile"))
    return rows


def importing() -> list[Row]:
    """`import tenxor` beside `import numpy`, Python's own start taken off."""
    python, numpy, ours = process_seconds("pass", "import numpy", "import tenxor")
    numpy, ours = numpy - python, ours - python
    return [("import tenxor", shown(ours), f"NumPy {shown(numpy)}: {ours / numpy:.2f} times that")]
