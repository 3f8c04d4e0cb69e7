"""The registry of caches: every cache of the package, the sources of its entries, and the order in which caches are cleared.

A cache declares its sources (`depends_on`): other caches, or settings, without which its entries are invalid or useless. Clearing a source
clears its dependents after it. Otherwise another thread could fill a dependent again from an old entry of the source. So no cache calls
another cache, and a lower room needs no list of functions of higher rooms.

The dictionary `counts` counts the work that caches save, where counting takes no time beside the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from sys import _getframe
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")

counts: dict[str, float] = dict.fromkeys(
    (
        *("results_by_plan", "plans_in_memory", "plans_generic", "plans_shipped", "plans_from_disk", "plans_made"),
        *("planner_seconds", "llvm_seconds"),
    ),
    0,
)
registry: list[CacheRecord] = []  # in the order of registration, which varies with the order of imports


class Source:
    """A source of cache entries: a cache, or a setting such as the number of threads.

    `dependents` are the caches that are cleared after the source. `fed_caches` are caches whose entries are made from entries of the
    source, but stay valid without them: they are not cleared with the source, but after it if both are cleared. `evictions` counts how
    often a bound was reached and entries were dropped.
    """

    __slots__ = ("dependents", "evictions", "fed_caches")

    def __init__(self) -> None:
        self.dependents: list[CacheRecord] = []
        self.fed_caches: list[CacheRecord] = []
        self.evictions = 0

    def feed(self, *caches: CacheRecord) -> None:
        """Declare that entries of `caches` are made from entries of this source, but stay valid without them."""
        self.fed_caches += caches

    def clear_dependents(self) -> None:
        """Clear every cache that depends on this source, directly or through other caches, sources first."""
        if self.dependents:
            found = set(self.dependents)
            pending = [*self.dependents]
            while pending:
                new = set(pending.pop().dependents) - found
                found |= new
                pending += new
            for record in sort_sources_first():
                if record in found:
                    record.clear_entries()


class CacheRecord(Source):
    """The entry of a cache in the registry; the constructor registers it.

    `name` and `entry`, a description of one entry, are for readers. `module` defines the cache. `clear_entries` clears the cache alone, at
    any moment and in any thread. `count_entries` counts the entries, and `count_bytes` their memory, or is None if that is not known.
    `max_entries` and `max_bytes` are the bounds, or None. `count_hits` returns the hits and misses, or is None if the cache does not count
    them. `is_on_disk` tells that the entries outlive the process. `is_last` tells that the cache is cleared after all others, as they hold
    what it gets.
    """

    __slots__ = (
        *(
            "clear_entries",
            "count_bytes",
            "count_entries",
            "count_hits",
            "entry",
            "is_last",
            "is_on_disk",
            "max_bytes",
            "max_entries",
            "module",
        ),
        "name",
    )

    def __init__(
        self,
        name: str,
        entry: str,
        module: str,
        clear_entries: Callable[[], object],
        count_entries: Callable[[], int],
        *,
        max_entries: int | None = None,
        count_bytes: Callable[[], int] | None = None,
        max_bytes: int | None = None,
        count_hits: Callable[[], tuple[int, int]] | None = None,
        is_on_disk: bool = False,
        is_last: bool = False,
        depends_on: Iterable[Source] = (),
    ) -> None:
        super().__init__()
        self.name, self.entry, self.module, self.clear_entries, self.count_entries = name, entry, module, clear_entries, count_entries
        self.max_entries, self.count_bytes, self.max_bytes, self.count_hits = max_entries, count_bytes, max_bytes, count_hits
        self.is_on_disk, self.is_last = is_on_disk, is_last
        registry.append(self)
        self.depend_on(*depends_on)  # last, when the record is complete: another thread may clear a source now

    def depend_on(self, *sources: Source) -> None:
        """Declare that entries of this cache are invalid or useless once `sources` are cleared. A room that stores entries of its own kind
        in a cache of a lower room declares this for the lower room.
        """
        for source in sources:
            source.dependents.append(self)


def add_seconds(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that adds the seconds of each call to `counts[name]`, except those that calls inside add for themselves."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            start = perf_counter() - counts["planner_seconds"] - counts["llvm_seconds"]
            try:
                return function(*args, **kwargs)
            finally:
                counts[name] += perf_counter() - counts["planner_seconds"] - counts["llvm_seconds"] - start

        return timed

    return decorate


def register(name: str, entry: str, *, depends_on: Iterable[Source] = ()) -> Callable[[C], C]:
    """Return a decorator that registers a cache of the calling module: a `BoundedCache`, or a function under `functools.lru_cache`.

    The arguments are those of `CacheRecord`. The decorator returns the cache itself.
    """
    module = _getframe(1).f_globals["__name__"]

    def add(cache: C) -> C:
        c: Any = cache
        if hasattr(c, "cache_info"):
            CacheRecord(
                *(name, entry, module, c.cache_clear, lambda: c.cache_info().currsize),
                max_entries=c.cache_parameters()["maxsize"],
                count_hits=lambda: c.cache_info()[:2],
                depends_on=depends_on,
            )
        else:
            c.record = CacheRecord(
                *(name, entry, module, c.remove_entries, c.__len__),
                max_entries=c.max_entries,
                count_bytes=(lambda: c.nbytes) if c.max_bytes else None,
                max_bytes=c.max_bytes or None,
                depends_on=depends_on,
            )
        return cache

    return add


def clear_all(*, disk: bool = False) -> None:
    """Clear every cache, sources first; caches on disk only with `disk`."""
    for record in sort_sources_first():
        if disk or not record.is_on_disk:
            record.clear_entries()


def sort_sources_first() -> list[CacheRecord]:
    """Return the registered caches, each after the caches that it depends on and the caches that feed it; at last those that are last."""
    ordered: list[CacheRecord] = []
    visited = set[Source]()

    def visit(record: Any) -> None:
        if record not in visited:
            visited.add(record)
            for later in (*record.dependents, *record.fed_caches):
                visit(later)
            ordered.append(record)

    for record in reversed(registry.copy()):
        visit(record)
    return sorted(ordered[::-1], key=lambda record: record.is_last)
