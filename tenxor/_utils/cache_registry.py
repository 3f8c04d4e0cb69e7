"""The registry of caches: every cache of the package, the sources of its entries, and the order in which caches are cleared.

A cache declares its sources (`depends_on`): caches or settings whose change makes the entries invalid or useless. Clearing a source clears
the dependents afterwards. In reverse order, another thread could refill a dependent from an old entry of the source. So a lower package
needs no list of the caches in higher packages.

The dictionary `counts` counts the work of planner and compiler, where counting takes no time beside the work.
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
        *("results_by_plan", "requests_deferred", "plans_in_memory", "plans_generic", "plans_shipped", "plans_from_disk", "plans_made"),
        *("planner_seconds", "llvm_seconds"),
    ),
    0,
)
registry: list[CacheRecord] = []  # in order of registration, which follows the imports


class Source:
    """A source of cache entries: a cache, or a setting such as the number of threads.

    Clearing the source also clears `dependents`. Entries of `fed_caches` are made from entries of the source, and stay valid without the
    source; `clear_all` clears `fed_caches` later. `evictions` counts how often a bound was reached and the entries were dropped.
    """

    __slots__ = ("dependents", "evictions", "fed_caches")

    def __init__(self) -> None:
        self.dependents: list[CacheRecord] = []
        self.fed_caches: list[CacheRecord] = []
        self.evictions = 0

    def feed(self, *caches: CacheRecord) -> None:
        """Declare that entries of `caches` are made from entries of this source, but stay valid without the source."""
        self.fed_caches += caches

    def clear_dependents(self) -> None:
        """Clear the dependents of this source and their own dependents, sources first."""
        if self.dependents:
            reached = set[Source]([self])
            for record in sort_sources_first():
                if not reached.isdisjoint(record.sources):
                    reached.add(record)
                    record.clear_entries()


class CacheRecord(Source):
    """The record of a cache in the registry; the constructor registers the cache.

    `name` and `entry`, a description of one entry, are for readers. `module` defines the cache. `clear_entries` clears the cache alone, at
    any moment and in any thread. `count_entries` counts the entries, and `count_bytes` their memory (None: unknown). `max_entries` and
    `max_bytes` are the bounds, or None. `count_hits` returns the hits and misses (None: not counted). `is_on_disk` is true for entries that
    outlive the process. `is_last` is true for the pool, which receives the memory of all other caches.
    """

    __slots__ = (
        *("clear_entries", "count_bytes", "count_entries", "count_hits", "entry", "is_last", "is_on_disk", "max_bytes"),
        *("max_entries", "module", "name", "sources"),
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
        self.sources: list[Source] = []
        registry.append(self)
        self.depend_on(*depends_on)

    def depend_on(self, *sources: Source) -> None:
        """Declare that entries of this cache are invalid or useless once `sources` are cleared.

        A higher package may declare sources for a cache of a lower package, in which the higher package stores entries.
        """
        self.sources += sources
        for source in sources:
            source.dependents.append(self)


def register(name: str, entry: str, *, depends_on: Iterable[Source] = ()) -> Callable[[C], C]:
    """Return a decorator that registers a cache of the calling module: a `BoundedCache`, or a function under `functools.lru_cache`.

    `name` and `entry` are texts for readers: the name of the cache, and a description of one entry. Clearing one of the sources
    `depends_on` also clears the cache. The decorator returns the cache itself.
    """
    module = _getframe(1).f_globals["__name__"]

    def add(cache: C) -> C:
        untyped: Any = cache
        if hasattr(untyped, "cache_info"):
            CacheRecord(
                name,
                entry,
                module,
                untyped.cache_clear,
                lambda: untyped.cache_info().currsize,
                max_entries=untyped.cache_parameters()["maxsize"],
                count_hits=lambda: untyped.cache_info()[:2],
                depends_on=depends_on,
            )
        else:
            untyped.record = CacheRecord(
                name,
                entry,
                module,
                untyped.remove_entries,
                untyped.__len__,
                max_entries=untyped.max_entries,
                count_bytes=(lambda: untyped.nbytes) if untyped.max_bytes else None,
                max_bytes=untyped.max_bytes or None,
                depends_on=depends_on,
            )
        return cache

    return add


def clear_all(*, disk: bool = False) -> None:
    """Clear every cache in memory, sources first; with `disk`, also caches on disk."""
    for record in sort_sources_first():
        if disk or not record.is_on_disk:
            record.clear_entries()


def sort_sources_first() -> list[CacheRecord]:
    """Return the registered caches in the order of clearing: a source precedes its dependents and the caches fed by the source."""
    ordered: list[CacheRecord] = []
    visited = set[CacheRecord]()

    def visit(record: CacheRecord) -> None:
        if record not in visited:
            visited.add(record)
            for later in (*record.dependents, *record.fed_caches):
                visit(later)
            ordered.append(record)

    for record in reversed(registry.copy()):
        visit(record)
    return sorted(ordered[::-1], key=lambda record: record.is_last)


def add_seconds(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that adds the seconds of each call to `counts[name]`, without the seconds of decorated functions inside.

    `name` must be "planner_seconds" or "llvm_seconds". Calls that raise count as well.
    """

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
