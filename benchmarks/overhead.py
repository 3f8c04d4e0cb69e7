"""What a small operation costs in Python, what new shapes cost, and what starting costs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from . import inside
from .peers import Peer
from .timing import Pace, process_figures, side_by_side

SHAPES = 100


def _expression(xp: Any, x: Any) -> Any:
    return xp.exp(x * 3.0 - x / 7.0)


def start(peers: Sequence[Peer]) -> None:
    """Compile something with everybody, so that no workload's first call pays for the start of a compiler."""
    for peer in peers:
        if peer.name != "numexpr":
            peer.ready(peer.bound(lambda xp, x: xp.sum(x * 2)), [peer.array(np.ones(64, np.float32))])()


def _realized(line: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: line(x).realize()


def _awaited(line: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: line(x).block_until_ready()


def new_shapes(peers: Sequence[Peer], rounds: int = 3) -> dict[str, Any]:
    """Seconds of calling one expression with 100 new shapes, and how many compiles that takes; medians of rounds by turns."""
    seconds: dict[str, list[float]] = {}
    compiles: dict[str, int] = {}
    for k in range(rounds):
        sizes = range(1000 + k * SHAPES, 1000 + (k + 1) * SHAPES)
        for peer in peers:
            if peer.name == "numexpr":
                continue  # a string, compiled for no shape
            inputs = [peer.array(np.ones(size, np.float32)) for size in sizes]
            line = peer.bound(_expression)
            if peer.name == "jax":
                run = jitted = peer.library.jit(line)
            elif peer.name == "tenxor":
                run = _realized(line)
                inside.forget()
            else:
                run = line
            before, begin = inside.compiles(), time.perf_counter()
            for x in inputs:
                last = run(x)
            if peer.name == "jax":
                last.block_until_ready()
            seconds.setdefault(peer.name, []).append(time.perf_counter() - begin)
            if peer.name == "tenxor":
                compiles[peer.name] = inside.compiles() - before
            elif peer.name == "jax":
                compiles[peer.name] = jitted._cache_size()
    return {
        "shapes": SHAPES,
        "seconds": {name: statistics.median(found) for name, found in seconds.items()},
        "compiles": compiles,
    }


# Each of a tensor (a vector, or a matrix for rows) and of a row or a size of it.
_OF_ROWS: dict[str, Callable[[Any, int], Any]] = {
    "x[k].sum()": lambda x, k: x[k].sum(),
    "x[k] * 2 + x[k + 1]": lambda x, k: x[k] * 2 + x[k + 1],
    "x[k] @ x[k + 1]": lambda x, k: x[k] @ x[k + 1],
}
_OF_SIZES: dict[str, Callable[[Any, int], Any]] = {
    "x[:n].sum()": lambda x, n: x[:n].sum(),
    "x[:n] * 2 + x[1:n + 1]": lambda x, n: x[:n] * 2 + x[1 : n + 1],
    "x[:n] @ x[1:n + 1]": lambda x, n: x[:n] @ x[1 : n + 1],
    "x[:n].mean()": lambda x, n: x[:n].mean(),
    **{f"x[:{m} n] * 2 + x[1:{m} n + 1]": lambda x, n, m=m: x[: m * n] * 2 + x[1 : m * n + 1] for m in (100, 2000)},
    **{f"x[:{m} n].sum()": lambda x, n, m=m: x[: m * n].sum() for m in (100, 2000, 20_000)},
}


def passes(peers: Sequence[Peer]) -> dict[str, dict[str, list[float]]]:
    """Median seconds of small work on each of 100 rows, or sizes, of which 50 others were met before: in the first pass over them and
    in the second, by line and library.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for shape, lines in (((400, 300), _OF_ROWS), ((6_000_000,), _OF_SIZES)):
        array = np.random.default_rng(0).random(shape)
        for name, line in lines.items():
            for peer in peers:
                if peer.name not in ("numpy", "torch", "tenxor"):
                    continue
                run, x = _realized_with(line) if peer.name == "tenxor" else line, peer.array(array.copy())
                for k in range(200, 250):
                    run(x, k)
                found.setdefault(name, {})[peer.name] = [_median_pass(run, x), _median_pass(run, x)]
    return found


def _realized_with(line: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    return lambda x, k: line(x, k).realize()


def _median_pass(run: Callable[[Any, int], Any], x: Any) -> float:
    seconds = []
    for k in range(50, 150):
        begin = time.perf_counter()
        run(x, k)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def small_operations(peers: Sequence[Peer], pace: Pace) -> dict[str, dict[str, float]]:
    """Views, single elements and tiny sums: nothing but Python's time. Seconds by operation and library."""

    def write(x: Any) -> None:
        x[1, 2] = 3.0

    lines: dict[str, tuple[Callable[[Any], Any], str]] = {
        "view t.T": (lambda t: t.T, "numpy torch tenxor"),
        "view t[1]": (lambda t: t[1], "numpy torch tenxor"),
        "view t[1:3, ::2]": (lambda t: t[1:3, ::2], "numpy torch tenxor"),
        "view t.reshape(5, 4)": (lambda t: t.reshape(5, 4), "numpy torch tenxor"),
        "t.T.reshape(20), a copy but in Tenxor": (lambda t: t.T.reshape(20), "numpy torch tenxor"),
        "read t[1, 2].item()": (lambda t: t[1, 2].item(), "numpy torch tenxor jax"),
        "write t[1, 2] = 3.0": (write, "numpy torch tenxor"),
        "t + t": (lambda t: t + t, "numpy torch tenxor jax"),
        "t.sum()": (lambda t: t.sum(), "numpy torch tenxor jax"),
        "(t * 2 + t).sum()": (lambda t: (t * 2 + t).sum(), "numpy torch tenxor jax"),
        "(t + t).tolist()": (lambda t: (t + t).tolist(), "numpy torch tenxor jax"),
    }
    array = np.arange(20.0).reshape(4, 5)
    sides = {peer.name: peer.array(array.copy()) for peer in peers if peer.name != "numexpr"}
    libraries = {peer.name: peer.library for peer in peers}
    found: dict[str, dict[str, float]] = {}
    for name, (line, who) in lines.items():
        contenders: dict[str, Callable[[], object]] = {}
        for peer in who.split():
            if peer not in sides:
                continue
            run, side = line, sides[peer]
            if name.startswith(("t + t", "t.sum", "(t * 2")):  # others leave no result pending
                if peer == "tenxor":
                    run = _realized(line)
                elif peer == "jax":
                    run = _awaited(libraries["jax"].jit(line))
            contenders[peer] = partial(run, side)
        timed = side_by_side(contenders, pace._replace(seconds=min(pace.seconds, 0.4)))
        found[name] = {peer: t.median for peer, t in timed.items()}
    return found


_STARTS = {
    "numpy": ("import numpy as xp", "(xp.exp(xp.ones(1000)) * 2 + 1).sum()"),
    "torch": ("import torch as xp", "(xp.exp(xp.ones(1000)) * 2 + 1).sum()"),
    "jax": (
        "import jax, jax.numpy as xp",
        "jax.jit(lambda x: (xp.exp(x) * 2 + 1).sum())(xp.ones(1000)).block_until_ready()",
    ),
    "numexpr": ("import numexpr, numpy as xp", "numexpr.evaluate('sum(exp(x)*2 + 1)', local_dict=dict(x=xp.ones(1000)))"),
    "tenxor": ("import tenxor as xp", "(xp.exp(xp.ones(1000)) * 2 + 1).sum().realize()"),
}  # fmt: skip
_PROGRAM = """
import time
a = time.perf_counter()
{imports}
b = time.perf_counter()
{call}
c = time.perf_counter()
print(b - a, c - b)
"""


def disk_cache_settings(peer: str, folder: str) -> dict[str, str]:
    """Return the variables with which a library keeps compiled code in `folder`; empty: it keeps none."""
    if peer == "tenxor":
        return {"TENXOR_CACHE_DIR": folder}
    if peer == "jax" and folder:
        return {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    return {}


def starting(installed: Sequence[str], rounds: int) -> dict[str, dict[str, float]]:
    """Seconds to import a library, and of the first call after that, when nothing is on disk and when it was run before."""
    with tempfile.TemporaryDirectory() as warm:
        codes: dict[str, tuple[str, dict[str, str]]] = {}
        for name in installed:
            imports, call = _STARTS[name]
            program = _PROGRAM.format(imports=imports, call=call)
            codes[f"{name} cold"] = (program, disk_cache_settings(name, ""))
            codes[f"{name} warm"] = (program, disk_cache_settings(name, warm))
        process_figures(codes, 1)  # Python's own compiled modules are there, and what is kept on disk
        found = process_figures(codes, rounds)
    return {
        name: {
            "import": min(found[f"{name} cold"][1], found[f"{name} warm"][1]),
            "first call, cold": found[f"{name} cold"][2],
            "first call, warm disk": found[f"{name} warm"][2],
            "process": found[f"{name} warm"][0],
        }
        for name in installed
    }


_MANY = (
    "a * 2 + b, (a - b) ** 2, xp.sqrt(a * a + b * b), xp.exp(-a) * b, (a > b).sum(), xp.where(a > b, a, b) / 2, a - a.mean(),"
    " (a * b).sum() / b.sum(), xp.maximum(a, b) - 1, 1 / (1 + xp.exp(-a))"
)
# What is made ready after the import, and the first result, or results: of NumPy's and Tenxor's.
_FIRST = {
    "x * 2 + 1 of 1000": ("x = xp.ones(1000)", "x * 2 + 1", "(x * 2 + 1).realize()"),
    "softmax of 10 × 100": (
        "x = xp.ones((10, 100))",
        "e = xp.exp(x - x.max(axis=1, keepdims=True)); e / e.sum(axis=1, keepdims=True)",
        "xp.softmax(x).realize()",
    ),
    "x @ x of 100 × 100": ("x = xp.ones((100, 100))", "x @ x", "(x @ x).realize()"),
    "ten expressions of 1000": ("a, b = xp.ones(1000), xp.ones(1000) * 2", f"[{_MANY}]", f"[x.realize() for x in ({_MANY})]"),
}
_FIRST_PROGRAM = """
import time
began = time.perf_counter()
import {library} as xp
imported = time.perf_counter()
{ready}
called = time.perf_counter()
{call}
done = time.perf_counter()
print(imported - began, done - called)
"""


def install_wheel(folder: str) -> None:
    """Make a wheel of this checkout, which takes some minutes, and install it in a folder."""
    pip = [sys.executable, "-m", "pip", "--quiet"]
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", made, str(Path(__file__).parents[1])], check=True)
        subprocess.run([*pip, "install", "--no-deps", "--target", folder, *map(str, Path(made).glob("*.whl"))], check=True)


def first_results(rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of several first results in a process, after the import, and of the import itself: of NumPy, and of Tenxor with its
    machine code on disk, with an empty folder for it, and with that where Tenxor is installed from a wheel. All take turns.
    """
    figures: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as warm, tempfile.TemporaryDirectory() as installed:
        install_wheel(installed)
        for k in range(rounds + 1):
            with tempfile.TemporaryDirectory() as empty:  # for one line each, as what is kept serves the others, too
                codes: dict[str, tuple[str, dict[str, str]]] = {}
                for number, (line, (ready, theirs, ours)) in enumerate(_FIRST.items()):
                    program = _FIRST_PROGRAM.format(library="tenxor", ready=ready, call=ours)
                    codes[f"{line}|numpy"] = _FIRST_PROGRAM.format(library="numpy", ready=ready, call=theirs), {}
                    codes[f"{line}|tenxor"] = program, {"TENXOR_CACHE_DIR": warm}
                    codes[f"{line}|tenxor, cold"] = program, {"TENXOR_CACHE_DIR": f"{empty}/{number}"}
                    there = {"PYTHONPATH": installed, "PYTHONSAFEPATH": "1"}  # and not what is in this folder
                    beside = {"TENXOR_CACHE_DIR": f"{empty}/{number}, wheel", **there}
                    codes[f"{line}|tenxor, wheel"] = program, beside
                once = process_figures(codes, 1)
            for name, found in once.items():
                if k:  # the first time Python's own compiled modules are made, and what is kept on disk
                    figures.setdefault(name, []).append(found)
    medians = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in figures.items()}
    contenders = ("numpy", "tenxor", "tenxor, cold", "tenxor, wheel")
    imports = {who: statistics.median(medians[f"{line}|{who}"][1] for line in _FIRST) for who in contenders}
    return {"import": imports} | {line: {who: medians[f"{line}|{who}"][2] for who in contenders} for line in _FIRST}
