"""A fresh process, which measures the calls of one program by one library, or the import of a library and its first value.

`measure.py` starts such a process with `python -c`. Before the clock starts the process loads NumPy and the library, and nothing that
either of them could need later.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any

EARLY_CALLS = range(2, 13)
LAST_CALL = 100
MEDIAN_OF = 9  # calls; the last figure is the median of so many final calls


def print_calls(peer: str, name: str, calls: int) -> None:
    """Print the CPU seconds and the wall seconds of the first call, of calls 2 to 12 together, and of the last call.

    The last call is the hundredth, or the median of the nine calls up to it. With fewer `calls` its two figures are left out. The
    process fails if the first or the last result differs from NumPy's.
    """
    import numpy as np

    from .programs import find_program

    program = find_program(name)
    arguments = program.inputs(np.random.default_rng(0), *program.size)
    xp, as_array = load(peer)
    values = [as_array(value) if isinstance(value, np.ndarray) else value for value in arguments]
    figures, results = time_calls(lambda: read(program.function(xp, *values)), calls)
    compare(peer, name, arguments, results)
    print(*figures)


def print_import(peer: str) -> None:
    """Print the CPU seconds and the wall seconds from before the import to a first value, and how many modules that loaded."""
    cpu, wall, before = time.process_time(), time.perf_counter(), len(sys.modules)
    _, as_array = load(peer)
    (as_array([1.0, 2.0]) + 1).tolist()
    print(time.process_time() - cpu, time.perf_counter() - wall, len(sys.modules) - before)


def load(peer: str) -> tuple[Any, Any]:
    """Return the library's module of functions, and the function that makes an array of it from a NumPy array or a list."""
    if peer == "jax":
        import_module("jax").config.update("jax_enable_x64", True)
    xp = import_module("jax.numpy" if peer == "jax" else peer)
    if peer == "torch":
        xp.set_default_dtype(xp.float64)
        xp.set_num_threads(1)
    return xp, xp.asarray


def read(result: Any) -> list[Any]:
    """Return the arrays of a result as NumPy arrays. A lazy library computes them now."""
    import numpy as np

    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


def time_calls(run: Any, calls: int) -> tuple[list[float], list[Any]]:
    """Return the figures that `print_calls` prints, and the first and the last result."""
    cpu_times, wall_times, results = [], [], []
    for k in range(calls):
        cpu, wall = time.process_time(), time.perf_counter()
        result = run()
        wall_times.append(time.perf_counter() - wall)
        cpu_times.append(time.process_time() - cpu)
        if k in (0, calls - 1):
            results.append(result)
    clocks = (cpu_times, wall_times)
    figures = [times[0] for times in clocks]
    figures += [sum(times[EARLY_CALLS.start - 1 : EARLY_CALLS.stop - 1]) for times in clocks]
    if calls >= LAST_CALL:
        figures += [sorted(times[-MEDIAN_OF:])[MEDIAN_OF // 2] for times in clocks]
    return figures, results


def compare(peer: str, name: str, arguments: tuple[Any, ...], results: list[Any]) -> None:
    """Raise `Unequal` if a result differs from NumPy's."""
    import numpy as np

    from ..check import check
    from .programs import find_program

    program = find_program(name)
    expected = read(program.function(np, *arguments))
    arrays = [value for value in arguments if isinstance(value, np.ndarray)]
    for result in results:
        check(program, peer, result, expected, arrays)
