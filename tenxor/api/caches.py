"""Functions to show and clear the caches of this process, and to count the work that caches save."""

from __future__ import annotations

from collections.abc import Iterable

from .. import fastpath
from .._utils.cache_registry import CacheRecord, clear_all, counts, registry
from .._utils.exclude_user_code import exclude_user_code
from .._utils.records import NamedTuple
from ..codegen import backend
from ..runtime.realize import compute_lock
from ..tensor.argument_parsing import check_flag

__all__ = ["clear_caches", "show_caches", "stats"]


class CacheInfo(NamedTuple):
    """A cache as it is now.

    Attributes
    ----------
    name : str
        The name of the cache.
    package : str
        The package within Tenxor that fills the cache.
    entries : int
        The number of entries.
    max_entries : int or None
        The bound on `entries`, or None.
    nbytes : int or None
        The memory of the entries in bytes, or None if it is not known.
    max_nbytes : int or None
        The bound on `nbytes`, or None.
    hits : int or None
        The number of look-ups that found an entry; None if the cache does not count them.
    misses : int or None
        The number of look-ups that found none; None if the cache does not count them.
    entry : str
        An entry and its key, in words.
    """

    name: str
    package: str
    entries: int
    max_entries: int | None
    nbytes: int | None
    max_nbytes: int | None
    hits: int | None
    misses: int | None
    entry: str


class CacheTable(tuple[CacheInfo, ...]):
    """The caches of this process, a tuple of `CacheInfo` with a readable text."""

    __slots__ = ()

    def __repr__(self) -> str:
        rows = [tuple(map(str.replace, CacheInfo._fields, "_" * 9, " " * 9)), *map(_format_row, self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        aligns = "<<>>>>>><"
        return "\n".join("  ".join(map(format, row, map("{}{}".format, aligns, widths))).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        from html import escape

        def write_row(tag: str, row: Iterable[str]) -> str:
            return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in row)}</tr>"

        head = write_row("th", [field.replace("_", " ") for field in CacheInfo._fields])
        return f"<table>{head}{''.join(write_row('td', _format_row(row)) for row in self)}</table>"


def _format_row(info: CacheInfo) -> tuple[str, ...]:
    """Return the fields of `info` as texts; None is an empty text."""
    return tuple("" if value is None else f"{value:,}" if isinstance(value, int) else str(value) for value in info)


def show_caches() -> CacheTable:
    """Return a table of all caches of this process, which prints as text, and as HTML in notebooks.

    Returns
    -------
    CacheTable
        A tuple with a `CacheInfo` for each cache, sorted by package and name. The caches of modules that are not imported yet are missing.

    See Also
    --------
    clear_caches : Clear them.
    stats : Count the work that caches save.

    Notes
    -----
    A cache holds derived data: without it, results are the same and take longer. Most caches drop all entries at their bound, as counting
    uses would make each hit slower. Those that count hits and misses drop the least recently used entry.

    Examples
    --------
    >>> import tenxor as tx
    >>> (tx.arange(3) + 1).tolist()
    [1, 2, 3]
    >>> plans = {cache.name: cache for cache in tx.show_caches()}["plans"]
    >>> plans.package, plans.max_entries, plans.entry
    ('runtime', 4096, 'a plan, by graph signature')
    """
    backend()  # registers the disk cache
    infos = [_describe(record) for record in registry.copy()]
    return CacheTable(sorted(infos, key=lambda info: (info.package, info.name)))


def _describe(record: CacheRecord) -> CacheInfo:
    """Return the present figures of the cache that `record` registers."""
    hits, misses = (None, None) if record.count_hits is None else record.count_hits()
    nbytes = None if record.count_bytes is None else record.count_bytes()
    package = record.module.split(".")[1]
    return CacheInfo(record.name, package, record.count_entries(), record.max_entries, nbytes, record.max_bytes, hits, misses, record.entry)


def clear_caches(*, disk: bool = False) -> None:
    """Clear all caches of this process, and give their memory back. No result changes; the next results take longer.

    Plans, recorded calls and derivatives, launch records and layout keys are dropped. Kernels are unloaded unless a plan that runs now
    needs them, and the free blocks of the memory pool return to the system. Tensors and pending results stay, as do the fast path itself
    and its lists of at most 2,048 dead objects a class. Another thread may compute meanwhile: the call waits for a computation that has
    begun, and what is computed afterwards fills the caches again.

    Parameters
    ----------
    disk : bool, default False
        If True, also remove the compiled kernels and plans on disk, which all processes of this user share.

    See Also
    --------
    show_caches : List the caches.
    release_memory : Give back the memory of the pool, and compute small pending results that hold much memory.

    Examples
    --------
    >>> import tenxor as tx
    >>> a = tx.arange(3) + 1
    >>> tx.clear_caches(); a.tolist()
    [1, 2, 3]
    """
    removes_files = check_flag("disk", disk)
    if removes_files:
        backend()  # registers the disk cache
    # Signal handlers, finalizers found by the collector, and tracing tools run before or after: the order of clearing holds for them, too.
    with compute_lock, exclude_user_code():
        clear_all(disk=removes_files)


class Stats(NamedTuple):
    """Counts of work since the process started, or since `stats(reset=True)`.

    Attributes
    ----------
    results_on_fast_path : int
        Results that the fast path computed.
    results_by_plan : int
        Results computed by plans, most of them fused.
    requests_deferred : int
        Requests for values whose graph was computed one operation after the other, as its plan would not have paid so far.
    plans_in_memory : int
        Requests for a plan that found one for these sizes in memory.
    plans_generic : int
        Plans made from one for other sizes.
    plans_shipped : int
        Plans that came with the package.
    plans_from_disk : int
        Plans read from the disk cache.
    plans_made : int
        Plans made by the planner, including those of parts of a graph.
    planner_seconds : float
        Seconds in the planner, without LLVM.
    kernels_compiled : int
        Kernels compiled by this process.
    kernels_loaded : int
        Kernels that came with the package, or were read from disk.
    llvm_seconds : float
        Seconds in LLVM, for kernels and for the fast path.
    evictions : int
        How often a cache reached its bound and dropped its entries.
    """

    results_on_fast_path: int
    results_by_plan: int
    requests_deferred: int
    plans_in_memory: int
    plans_generic: int
    plans_shipped: int
    plans_from_disk: int
    plans_made: int
    planner_seconds: float
    kernels_compiled: int
    kernels_loaded: int
    llvm_seconds: float
    evictions: int


_reset_values: tuple[float, ...] = (0,) * len(Stats._fields)  # the counts at the last reset


def stats(*, reset: bool = False) -> Stats:
    """Return counts of computed results, plans and kernels, with the seconds spent on them.

    Parameters
    ----------
    reset : bool, default False
        If True, later calls count from now on.

    Returns
    -------
    Stats
        A named tuple. Threads that count at the same moment may lose a count.

    See Also
    --------
    compile_counts : Count kernels since the process started.
    show_caches : List the caches.

    Examples
    --------
    >>> import tenxor as tx
    >>> before = tx.stats(reset=True)
    >>> (tx.arange(3) + 1).tolist()
    [1, 2, 3]
    >>> tx.stats().kernels_compiled <= 1
    True
    """
    global _reset_values
    fast_path = fastpath.fast_path
    compiled, loaded = backend().count_compilations()
    totals = {
        **counts,
        "results_on_fast_path": 0 if fast_path is None else fast_path.result_count.value,
        "kernels_compiled": compiled,
        "kernels_loaded": loaded,
        "evictions": sum([record.evictions for record in registry.copy()]),
    }
    values = tuple([totals[name] for name in Stats._fields])
    report = Stats(*[value - start for value, start in zip(values, _reset_values, strict=True)])  # type: ignore[arg-type]
    if check_flag("reset", reset):
        _reset_values = values
    return report
