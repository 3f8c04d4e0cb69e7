"""Functions to compute pending values, to explain how they are computed, and to report on memory and configuration."""

from __future__ import annotations

import platform

import numpy as np

from .. import fastpath
from .._utils.records import NamedTuple
from ..codegen import BACKEND_NAME, backend
from ..codegen.threads.thread_count import num_threads
from ..errors import DTypeError
from ..graph.node import Node, is_write
from ..memory.block_pool import UNLIMITED_BYTES, pool
from ..native import direct_call
from ..runtime.pending_limits import count_pending_bytes, free_pending_memory
from ..runtime.realize import complete_unfinished
from ..runtime.realize import realize as _realize
from ..tensor import Tensor
from ..tensor.argument_parsing import check_flag
from ..version import __version__

__all__ = ["compile_counts", "explain", "memory", "realize", "release_memory", "show_config"]


def realize(*tensors: Tensor) -> None:
    """Compute the pending values of several tensors now, each common subexpression once. A call is never necessary.

    Parameters
    ----------
    *tensors : Tensor
        The tensors to compute. They stay the same objects, with the same values.

    Raises
    ------
    DTypeError
        If an argument is no tensor.

    Examples
    --------
    >>> import tenxor as tx
    >>> a = tx.arange(3) + 1; b = a * 2
    >>> tx.realize(a, b); b.tolist()
    [2, 4, 6]
    """
    if len(tensors) == 1 and type(tensors[0]) is Tensor:  # the most common case
        tensors[0].realize()
        return
    _realize(*[_check_tensor("realize", t).storage.node for t in tensors])


def explain(t: Tensor) -> str:
    """Return a text on how a tensor would be computed: its view, and the loop IR of each kernel still to run. Nothing is computed.

    Parameters
    ----------
    t : Tensor
        A tensor, pending or in memory.

    Returns
    -------
    str
        The text.

    Raises
    ------
    DTypeError
        If `t` is no tensor.

    Notes
    -----
    Work of at most 16 KiB runs on the fast path if `tx.show_config()` reports "fast path" as on. Each operation then runs in a kernel
    shared by all expressions. The values are the same.

    Examples
    --------
    >>> import tenxor as tx
    >>> print(tx.explain(tx.zeros(3).realize()[1:]))  # doctest: +ELLIPSIS
    Tensor (2,) float64, a view of 3 elements in memory
    ...
    """
    from ..lowering.fuse import collect_pending
    from ..runtime.planner import preview_kernels

    node = _check_tensor("explain", t).storage.node
    complete_unfinished(collect_pending([node]))
    state = "in memory" if node.buffer is not None else "to be computed"
    lines = [f"Tensor {t.shape} {t.dtype}, a view of {node.size} elements {state}", t.layout.explain()]
    steps = preview_kernels([node])
    if steps:
        kernels = sum(kernel is not None for _, kernel in steps)
        lines.append(f"{kernels} kernel{'' if kernels == 1 else 's'}:")
    for step_node, kernel in steps:
        lines.append(f"-- {_heading(step_node)}")
        lines.append(str(kernel) if kernel is not None else "memory without content")
    return "\n".join(lines)


def _check_tensor(op: str, t: Tensor) -> Tensor:
    """Return `t`. Raise DTypeError, beginning with `op`, if `t` is no tensor."""
    if not isinstance(t, Tensor):
        raise DTypeError(f"{op}: the argument must be a tensor, not {type(t).__name__}; make one with tx.asarray")
    return t


def _heading(node: Node) -> str:
    """Return the heading of `node`, a node to compute, in the text of `explain`: its shape and dtype.

    For a write, the heading is "written in place", or "stored" without a target layout.
    """
    if is_write(node.op):
        return "written in place" if node.target is not None else "stored"
    return f"{node.shape} {node.dtype}"


def show_config() -> None:
    """Print the configuration of this process: versions, back end, threads, and the state of the fast path ("fast path").

    The last row, "C of NumPy", tells which C functions of NumPy are called directly on tensor memory, or why not.

    Examples
    --------
    >>> import tenxor as tx
    >>> tx.show_config()  # doctest: +ELLIPSIS
    tenxor     ...
    """
    rows = {
        "tenxor": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "back end": BACKEND_NAME,
        "threads": str(num_threads()),
        "fast path": fastpath.state,
        "C of NumPy": direct_call.describe_direct_calls() if fastpath.state == "on" else "not called in place",
    }
    for name, value in rows.items():
        print(f"{name:10} {value}")


def compile_counts() -> tuple[int, int]:
    """Return how many kernels this process compiled, and how many it loaded from disk.

    Returns
    -------
    compiled, loaded : int
        Numbers of kernels since the process started.

    Examples
    --------
    >>> import tenxor as tx
    >>> compiled, loaded = tx.compile_counts()
    """
    return backend().count_compilations()


class Memory(NamedTuple):
    """Memory in bytes.

    Attributes
    ----------
    in_use : int
        Memory of live tensors and pending results.
    peak : int
        The peak of `in_use`.
    waiting : int
        The part of `in_use` that is held only because pending recipes read it.
    pooled : int
        Memory kept for reuse.
    limit : int or None
        The upper limit of `in_use`, or None without a limit.
    """

    in_use: int
    peak: int
    waiting: int
    pooled: int
    limit: int | None


def memory(*, reset_peak: bool = False) -> Memory:
    """Return the memory in use, its peak and its limit, in bytes.

    Parameters
    ----------
    reset_peak : bool, default False
        If True, a new peak starts from the bytes now in use.

    Returns
    -------
    Memory
        A named tuple with `in_use`, `peak`, `waiting` (the part held only by pending recipes), `pooled` for reuse, and `limit`. Memory
        shared with other libraries (`copy=False`) does not count as in use.

    Examples
    --------
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
    waiting = count_pending_bytes()  # asked first, since it may free nodes; the figures below are then of one moment
    report = Memory(pool.in_use, pool.peak, waiting, pool.pooled, None if pool.limit_bytes == UNLIMITED_BYTES else pool.limit_bytes)
    if check_flag("reset_peak", reset_peak):
        pool.peak = pool.in_use
    return report


def release_memory() -> None:
    """Return memory to the system: compute small pending results that hold much memory, and free the blocks pooled for reuse.

    This also happens automatically as memory grows and time passes. Call it when no large work follows soon.

    Examples
    --------
    >>> import tenxor as tx
    >>> before, mean = tx.memory().waiting, tx.ones((1000, 1000)).realize().mean()
    >>> tx.release_memory(); tx.memory().waiting <= before, tx.memory().pooled < 1_000_000, mean.item()
    (True, True, 1.0)
    """
    free_pending_memory()
    pool.release(pool.pooled)
