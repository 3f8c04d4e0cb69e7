"""Asking for values, and seeing how they would come about."""

from __future__ import annotations

import platform

import numpy as np

from .. import shortcut
from ..backend import NAME, backend
from ..backend.threads import num_threads
from ..errors import DTypeError
from ..host import inplace
from ..node import Node, writes
from ..pending import relieve, waiting_bytes
from ..pool import UNLIMITED, pool
from ..realize import finish
from ..realize import realize as _realize
from ..records import NamedTuple
from ..tensor import Tensor
from ..version import __version__

__all__ = ["compile_counts", "explain", "memory", "realize", "release_memory", "show_config"]


def realize(*tensors: Tensor) -> None:
    """Compute several tensors now, together, sharing what they share. Nobody needs to call it.

    >>> import tenxor as tx
    >>> a = tx.arange(3) + 1; b = a * 2
    >>> tx.realize(a, b); b.tolist()
    [2, 4, 6]
    """
    if len(tensors) == 1 and type(tensors[0]) is Tensor:  # as mostly
        tensors[0].realize()
        return
    _realize(*[_checked("realize", t).storage.node for t in tensors])


def explain(t: Tensor) -> str:
    """How `t` would be computed: its view, and the loop IR of each kernel that is still to run. Computes nothing.

    What takes no more than 16 KiB goes the short way, if `tx.show_config()` says that it is on: operation by operation instead, by
    kernels that all expressions share. The values are the same.

    >>> import tenxor as tx
    >>> print(tx.explain(tx.zeros(3).realize()[1:]))  # doctest: +ELLIPSIS
    Tensor (2,) float64, a view of 3 elements in memory
    ...
    """
    from ..kernel.fuse import pending
    from ..plans.plan import planned

    node = _checked("explain", t).storage.node
    finish(pending([node]))
    state = "in memory" if node.buffer is not None else "to be computed"
    lines = [f"Tensor {t.shape} {t.dtype}, a view of {node.size} elements {state}", t.layout.explain()]
    steps = planned([node])
    if steps:
        kernels = sum(kernel is not None for _, kernel in steps)
        lines.append(f"{kernels} kernel{'' if kernels == 1 else 's'}:")
    for made, kernel in steps:
        lines.append(f"-- {_what(made)}")
        lines.append(str(kernel) if kernel is not None else "memory without content")
    return "\n".join(lines)


def _checked(op: str, t: Tensor) -> Tensor:
    if not isinstance(t, Tensor):
        raise DTypeError(f"{op}: takes tensors, not {type(t).__name__}; make one with tx.asarray")
    return t


def _what(node: Node) -> str:
    if writes(node.op):
        return "written in place" if node.target is not None else "stored"
    return f"{node.shape} {node.dtype}"


def show_config() -> None:
    """Print what this process computes with: versions, the back end, threads, whether small work goes the short way, and which of NumPy's
    functions of C it calls in place, or why not.

    >>> import tenxor as tx
    >>> tx.show_config()  # doctest: +ELLIPSIS
    tenxor     ...
    """
    rows = {
        "tenxor": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "back end": NAME,
        "threads": str(num_threads()),
        "short way": shortcut.state,
        "C of NumPy": inplace.state() if shortcut.state == "on" else "not called in place",
    }
    for name, value in rows.items():
        print(f"{name:10} {value}")


def compile_counts() -> tuple[int, int]:
    """How many kernels this process compiled, and how many it found compiled on disk.

    >>> import tenxor as tx
    >>> compiled, loaded = tx.compile_counts()
    """
    return backend().counts()


class Memory(NamedTuple):
    """What there is, in bytes: `in_use` by live tensors and what is pending, the `peak` of that, `waiting`, the part that lives
    for pending recipes alone, `pooled` for reuse, and the `limit` if one is set.
    """

    in_use: int
    peak: int
    waiting: int
    pooled: int
    limit: int | None


def memory(*, reset_peak: bool = False) -> Memory:
    """The bytes in use now, the most that were, those that only pending recipes keep, those kept for reuse, and the limit;
    `reset_peak` starts a new peak. Memory that tensors share with others (`copy=False`) is not counted in use.

    >>> import tenxor as tx
    >>> before = tx.memory().in_use
    >>> t = tx.ones((1000, 1000), dtype=tx.float32).realize()
    >>> tx.memory().in_use - before >= t.nbytes, tx.memory().peak >= tx.memory().in_use
    (True, True)
    >>> before, mean = tx.memory().waiting, t.mean()
    >>> del t
    >>> tx.memory().waiting - before
    4000000
    """
    waiting = waiting_bytes()  # first, as nodes may die of that: what is in use and what is kept are of one moment
    found = Memory(pool.in_use, pool.peak, waiting, pool.pooled, None if pool.limit == UNLIMITED else pool.limit)
    if reset_peak:
        pool.peak = pool.in_use
    return found


def release_memory() -> None:
    """Give back to the system what can be had again: compute small results that much memory waits for, and keep none for reuse.

    This happens by itself as memory grows, and as time passes; it is for those who know that nothing large comes soon.

    >>> import tenxor as tx
    >>> before, mean = tx.memory().waiting, tx.ones((1000, 1000)).realize().mean()
    >>> tx.release_memory(); tx.memory().waiting <= before, tx.memory().pooled < 1_000_000, mean.item()
    (True, True, 1.0)
    """
    relieve()
    pool.release(pool.pooled)
