"""The registry of caches: every cache is registered, clearing keeps the order of sources, and no result changes."""

from __future__ import annotations

import ast
import functools
import gc
import inspect
import pkgutil
import random
import re
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor._utils import cache_registry
from tenxor._utils.bounded_cache import BoundedCache
from tenxor._utils.cache_registry import CacheRecord, Source, register, sort_sources_first
from tenxor.codegen import backend, compiled_kernels
from tenxor.codegen.kernel_cache import KernelCache
from tenxor.symbolic.guards import GuardedCache

from .fuzz.lines import line
from .fuzz.programs import written
from .fuzz.running import library_world, run, same

ROOT = Path(tx.__file__).parent
PAGE = ROOT.parent / "docs" / "architecture" / "caches.md"

# Functions under `functools.cache` that are no caches of derived data. Functions without parameters compute a fact once, and are exempt.
UNREGISTERED_FUNCTIONS = {
    "tenxor.codegen.llvm.kernel_disk_cache.hash_sources": "the sources that this process was started with",
    "tenxor.codegen.llvm.types.int_type": "types are compared by identity",
}
# Containers that are empty when their module is loaded, filled later, and no caches.
STATE = {
    "tables filled by imports": (
        *("api.host_calls.HOST_VJPS", "api.numpy_functions.NUMPY_FUNCTIONS", "native.host_op_table.HOST_OPS", "ops.expr.OPS"),
        "tensor.conversion_methods.FUNCTION_OF_UFUNC",
    ),
    "what threads and contexts do now": (
        *("_utils.gc_control.open_pauses", "fastpath._disabled_contexts", "runtime.call_recording._open_contexts"),
        *("_utils.exclude_user_code._arrived_signals", "_utils.interruptible._abandoned"),
        *("fastpath.host_reports._reports_by_thread", "fastpath.write_recorder._retrying_threads"),
    ),
    "facts about tensors in use": (
        *("api.nan_check._lines", "api.nan_check._traced_lines", "autodiff.leaf_storage._detached_leaves", "autodiff.leaf_storage._leaves"),
        *("autodiff.grad_storage._retained_handlers", "runtime.pending_limits.pending_refs"),
    ),
    "objects that live as long as the process": ("_utils.cache_registry.registry", "_utils.patchable.patchable_functions"),
    "constants that are never filled": (
        *(
            "api.host_calls._NO_AXIS_SIZES",
            "fastpath.size_generic.NO_KEYWORDS",
            "runtime.plan_lowering._NO_EXTRA_SLOTS",
        ),
    ),
    "one entry for each function of the package, in a room below the registry": ("errors._public_names",),
    "why C functions are not called": ("native.numpy_abi.refusal_reasons",),
    "a class that einops finds": ("api.einops_patterns._backend_classes",),
}
NOT_IMPORTED = ("tenxor.__main__", "tenxor.threadpool")  # the command line; a plug-in that no module imports


@pytest.fixture(scope="module")
def modules() -> dict[str, ModuleType]:
    """Every module of the package, by name."""
    names = ["tenxor", *[info.name for info in pkgutil.walk_packages([str(ROOT)], "tenxor.")]]
    tx.arange(3).tolist()  # loads the back end
    return {name: import_module(name) for name in names if not name.startswith(NOT_IMPORTED)}


def iter_values(modules: dict[str, ModuleType]) -> Iterator[tuple[str, Any]]:
    """Yield each global variable of the package where it is defined, and each attribute of its classes, with the full name."""
    for name, module in modules.items():
        for key, value in vars(module).items():
            if getattr(value, "__module__", name) == name or isinstance(value, BoundedCache | KernelCache | GuardedCache):
                yield f"{name}.{key}", value
                if isinstance(value, type):
                    yield from ((f"{name}.{key}.{attribute}", member) for attribute, member in vars(value).items())


def test_every_memoised_function_is_registered(modules: dict[str, ModuleType]) -> None:
    registered = {id(getattr(record.clear_entries, "__self__", None)) for record in cache_registry.registry}
    functions = {name: value for name, value in iter_values(modules) if isinstance(value, functools._lru_cache_wrapper)}
    assert len(functions) > 40
    missing = {
        name
        for name, function in functions.items()
        if id(function) not in registered and (inspect.isclass(function.__wrapped__) or inspect.signature(function).parameters)
    }
    assert missing == UNREGISTERED_FUNCTIONS.keys()


def test_every_cache_object_is_registered(modules: dict[str, ModuleType]) -> None:
    caches = {name: value for name, value in iter_values(modules) if isinstance(value, BoundedCache | KernelCache | GuardedCache)}
    assert len(caches) > 10
    assert {name for name, cache in caches.items() if getattr(cache, "record", None) not in cache_registry.registry} == set()


def find_empty_containers(module: ModuleType) -> Iterator[str]:
    """Yield the names of the module's global variables that are set to an empty dictionary, list, set or deque."""
    for node in ast.parse(inspect.getsource(module) or "").body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            text = ast.unparse(node.value)
            empty_call = re.match(r"(dict|list|set|deque|Counter|OrderedDict)\b", text) and text.endswith("()")
            empty_display = isinstance(node.value, ast.Dict | ast.List | ast.Set) and not [*ast.iter_child_nodes(node.value)][1:]
            if empty_call or empty_display:
                yield from [target.id for target in targets if isinstance(target, ast.Name)]


def test_containers_filled_at_run_time_are_registered(modules: dict[str, ModuleType]) -> None:
    state = {f"tenxor.{name}" for names in STATE.values() for name in names}
    remaining, found = [], set()

    class Entry:
        def clear(self) -> None: ...

    for name, module in modules.items():
        for key in find_empty_containers(module):
            container = getattr(module, key, None)
            if not isinstance(container, dict | list | set) and type(container).__name__ != "deque":
                continue
            found.add(f"{name}.{key}")
            if f"{name}.{key}" in state or key == "__all__":
                continue
            entry: Any = Entry()
            if isinstance(container, dict):
                container[entry] = entry
            elif isinstance(container, set):
                container.add(entry)
            else:
                container.append(entry)
            tx.clear_caches()
            if entry in container:
                remaining.append(f"{name}.{key}")
    assert remaining == []
    assert state - found == set(), "these names have no such container any more"


def test_sources_are_cleared_before_dependents_and_fed_caches(modules: dict[str, ModuleType]) -> None:
    position = {record: k for k, record in enumerate(sort_sources_first())}
    assert len(position) == len(cache_registry.registry)
    for record in cache_registry.registry:
        for later in (*record.dependents, *record.fed_caches):
            assert position[record] < position[later], (record.name, later.name)
    assert [record.name for record in position if record.is_last] == ["free memory"]


def test_names_of_caches_are_unique(modules: dict[str, ModuleType]) -> None:
    names = [record.name for record in cache_registry.registry]
    assert sorted(names) == sorted(set(names))


def read_table(header: str) -> dict[str, set[str]]:
    """Return a table of the page: the names in the second column, by the first column."""
    table = PAGE.read_text(encoding="utf-8").partition(f"| {header}")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]
    return {name.strip("`"): set(names.split(", ")) for name, names in rows}


def test_page_of_caches_lists_the_registry(modules: dict[str, ModuleType]) -> None:
    fastpath.start()  # registers two caches
    caches = tx.show_caches()  # counts every file on disk
    names = {cache.package: {other.name for other in caches if other.package == cache.package} for cache in caches}
    assert read_table("Room") == names
    sources = {record.name: record for record in cache_registry.registry if record.dependents}
    threads = modules["tenxor.codegen.threads.thread_count"].thread_count_source
    expected = {name: {other.name for other in source.dependents} for name, source in {**sources, "the number of threads": threads}.items()}
    assert read_table("Source") == expected


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> list[CacheRecord]:
    """An empty registry."""
    records: list[CacheRecord] = []
    monkeypatch.setattr(cache_registry, "registry", records)
    return records


@pytest.mark.usefixtures("own_registry")
def test_clearing_a_source_clears_dependents_of_dependents_and_nothing_else() -> None:
    cleared: list[str] = []

    def make(name: str, *sources: Source) -> CacheRecord:
        return CacheRecord(name, "", __name__, lambda: cleared.append(name), int, depends_on=sources)

    setting = Source()
    low = make("low")
    high = make("high", low, setting)
    make("highest", high)
    other = make("other")
    first = make("first", setting)
    first.feed(low)
    other.feed(low)
    low.clear_dependents()
    assert cleared == ["high", "highest"]
    cleared.clear()
    setting.clear_dependents()
    assert sorted(cleared) == ["first", "high", "highest"] and cleared.index("high") < cleared.index("highest")
    cleared.clear()
    cache_registry.clear_all()
    assert sorted(cleared) == ["first", "high", "highest", "low", "other"]
    assert cleared.index("low") > max(cleared.index("first"), cleared.index("other"))
    assert cleared[-1] == "highest" or cleared.index("highest") > cleared.index("high") > cleared.index("low")


@pytest.mark.usefixtures("own_registry")
def test_full_cache_is_cleared_with_its_dependents_and_counts_an_eviction() -> None:
    source: BoundedCache[int] = register("sources", "")(BoundedCache(2))

    @register("squares", "", depends_on=(source.record,))
    @functools.lru_cache(8)
    def square(x: int) -> int:
        return x * x

    for k in range(2):
        source.put(k, k)
    square(3)
    assert (source.record.evictions, square.cache_info().currsize) == (0, 1)
    source.put(2, 2)
    assert (source.record.evictions, square.cache_info().currsize, dict(source)) == (1, 0, {2: 2})


def compute(x: tx.Tensor) -> list[bytes]:
    """Return the bytes of results of many kinds: fused, contracted, reduced, differentiated, gathered, sorted and drawn."""
    y = (x * 2.0 + 1.0).sin()
    loss = lambda t: ((t @ t.T) * tx.exp(-t.sum(axis=1))).sum()
    results = [y, y.sum(axis=0), x @ x.T, tx.grad(loss)(x), x[x > 0.5], tx.sort(y, axis=1), x.T.reshape(-1)[1::2], tx.cumsum(x, axis=1)]
    return [r.numpy().tobytes() for r in results]


SMALL = np.linspace(0, 1, 42).reshape(6, 7)
LARGE = np.linspace(0, 1, 64_000).reshape(200, 320)


@pytest.mark.parametrize("values", [SMALL, LARGE], ids=["small", "large"])
def test_results_after_clear_caches_are_equal_to_the_bit(values: np.ndarray[Any, Any], machine_code: bool) -> None:
    x = tx.asarray(values)
    expected = compute(x)
    for _ in range(6):
        tx.clear_caches()
        assert compute(x) == expected
        assert compute(x) == expected


def test_clearing_while_threads_compute_changes_no_bit(machine_code: bool) -> None:
    expected = {id(values): compute(tx.asarray(values)) for values in (SMALL, LARGE)}
    stop, wrong = threading.Event(), list[str]()

    def work(values: np.ndarray[Any, Any]) -> None:
        try:
            while not stop.is_set():
                if compute(tx.asarray(values)) != expected[id(values)]:
                    wrong.append("another result")
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(values,)) for values in (SMALL, SMALL, LARGE)]
    for thread in threads:
        thread.start()
    for _ in range(40):
        tx.clear_caches()
        assert compute(tx.asarray(SMALL)) == expected[id(SMALL)]
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_clearing_in_a_signal_handler_changes_no_bit(machine_code: bool) -> None:
    x = tx.asarray(LARGE)
    expected, count = compute(x), 0

    def handle(*_: object) -> None:
        nonlocal count
        count += 1
        tx.clear_caches()

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.003, 0.007)
    try:
        results = [compute(x) for _ in range(12)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert results == [expected] * 12 and count > 3


def test_clearing_in_a_weakref_callback_changes_no_bit(machine_code: bool) -> None:
    x = tx.asarray(SMALL)
    expected, called = compute(x), list[int]()

    def clear(_: object) -> None:
        called.append(1)
        tx.clear_caches()

    for _ in range(6):
        refs = []
        for k in range(4):
            y = x * float(k)
            refs += [weakref.ref(y, clear), weakref.ref(y.storage, clear), weakref.ref(y.node, clear)]
            y = y.exp().sum(axis=0)
            assert y.numpy().tobytes() == (x * float(k)).exp().sum(axis=0).numpy().tobytes()
        del y
        assert compute(x) == expected
    assert len(called) > 12


@pytest.mark.parametrize("seed", range(2))
def test_clearing_at_random_lines_of_the_package_changes_no_bit(seed: int, machine_code: bool) -> None:
    """A signal handler or a finalizer may clear the caches between any two lines, for example while an entry is being stored."""
    rng, x, cleared = random.Random(seed), tx.asarray(SMALL), 0
    expected = compute(x)

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        nonlocal cleared
        if not frame.f_code.co_filename.startswith(str(ROOT)) or frame.f_code.co_filename == cache_registry.__file__:
            return None
        if rng.random() < 0.002:
            cleared += 1
            tx.clear_caches()
        return trace

    for _ in range(6):
        writer = written(rng.randrange(1 << 30))
        sys.settrace(trace)
        try:
            got = run(writer.lines, library_world)
            results = compute(x)
        finally:
            sys.settrace(None)
        triples = zip(writer.lines, writer.outcomes, got, strict=True)
        assert [(text.text, want, have) for text, want, have in triples if not same(want, have)] == []
        assert results == expected
    assert cleared > 50


@pytest.mark.parametrize("seeds", [range(k, k + 40) for k in range(0, 240, 40)], ids=str)
def test_random_programs_mean_the_same_with_cleared_caches_between_lines(seeds: range) -> None:
    clear = line("tx.clear_caches()")
    for seed in seeds:
        writer = written(seed)
        program = [part for text in writer.lines for part in (clear, text)]
        got = run(program, library_world)
        triples = zip(writer.lines, writer.outcomes, got[1::2], strict=True)
        wrong = [(text.text, want, have) for text, want, have in triples if not same(want, have)]
        assert (wrong, got[::2]) == ([], [None] * len(writer.lines)), seed


def test_random_programs_mean_the_same_while_another_thread_clears_the_caches() -> None:
    stop, wrong = threading.Event(), list[object]()

    def work(seeds: range) -> None:
        try:
            for seed in seeds:
                writer = written(seed)
                got = run(writer.lines, library_world)
                wrong.extend((seed, want, have) for want, have in zip(writer.outcomes, got, strict=True) if not same(want, have))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(range(1000 + k, 1000 + k + 60),)) for k in (0, 60)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        tx.clear_caches()
        stop.wait(0.002)
    assert wrong == []


def test_clearing_unloads_kernels_and_returns_free_memory() -> None:
    gc.collect()  # errors of earlier tests may hold kernels
    x = tx.asarray(LARGE)
    kept = [(x * float(k) + k).sum(axis=k % 2).realize() for k in range(4)]
    tx.grad(lambda w: tx.scan(lambda carry, row: (carry * w + row, carry), tx.zeros(320), x[:9])[0].sum())(tx.ones(320)).realize()
    large = (x + 1.0).realize()
    del large
    assert compiled_kernels.count_entries() and tx.memory().pooled > LARGE.nbytes // 2
    tx.clear_caches()
    assert compiled_kernels.count_entries() == len(backend().kernels) == 0
    assert tx.memory().pooled < 1 << 16
    assert {cache.name: cache.entries for cache in tx.show_caches()}["plans"] == 0
    assert kept[1].shape == (200,)


def test_clearing_removes_files_only_with_disk(tmp_path: Path) -> None:
    program = """
import os, tenxor as tx
count = lambda: {cache.name: cache.entries for cache in tx.show_caches()}["disk cache"]
((tx.arange(12.) + 1.5).sin() * 2).tolist()
files = count()
assert files == len(os.listdir(os.environ["TENXOR_CACHE_DIR"])) > 0
open(os.path.join(os.environ["TENXOR_CACHE_DIR"], "notes.txt"), "w").close()
tx.clear_caches()
assert count() == files
tx.clear_caches(disk=True)
assert count() == 0 and os.listdir(os.environ["TENXOR_CACHE_DIR"]) == ["notes.txt"]
"""
    environment = {"TENXOR_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONPATH": str(ROOT.parent), "PATH": "/usr/bin"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_table_of_caches_is_text_html_and_data() -> None:
    table = tx.show_caches()
    text, page = str(table).splitlines(), table._repr_html_()
    assert len(text) == len(table) + 1 == page.count("<tr>") and len(set(map(len, text))) > 1
    assert text[0].split()[:3] == ["name", "package", "entries"] and repr(table) == str(table)
    assert [cache.name in row for cache, row in zip(table, text[1:], strict=True)] == [True] * len(table)
    strides = {cache.name: cache for cache in table}["contiguous strides"]
    assert strides.package == "layout" and strides.max_entries == 4096 and strides.hits is not None
    bounded = [cache for cache in table if cache.max_entries is not None and cache.name != "disk cache"]  # tests keep more files
    assert len(bounded) > 20 and all(cache.entries <= cache.max_entries for cache in bounded if cache.max_entries is not None)


def test_stats_count_plans_and_kernels_since_the_reset() -> None:
    x, factor = tx.asarray(LARGE), 0.12345
    tx.clear_caches()
    tx.stats(reset=True)
    assert tx.stats()._replace(planner_seconds=0.0, llvm_seconds=0.0) == (0,) * len(tx.stats())
    for _ in range(3):
        ((x * factor).exp().tanh().sum(axis=1) - 1.0).realize()
    first = tx.stats()
    assert first.results_on_fast_path + first.results_by_plan == 3 and first.requests_deferred == 0
    assert first.plans_made + first.plans_from_disk + first.plans_generic >= 1 and first.kernels_compiled + first.kernels_loaded >= 1
    assert first.results_by_plan <= 3 and (first.planner_seconds > 0) == (first.plans_made > 0)
    assert tx.stats(reset=True) == first
    assert tx.stats().results_by_plan == 0
    small = tx.ones(3).realize()
    (small + small).realize()  # recorded
    tx.stats(reset=True)
    (small + small).realize()
    assert tx.stats()[:2] == (1, 0)


def test_stats_count_evictions(monkeypatch: pytest.MonkeyPatch) -> None:
    from tenxor.layout import layout_key

    monkeypatch.setattr(layout_key._layout_keys, "max_entries", 20)
    tx.stats(reset=True)
    for n in range(100, 150):
        tx.ones((n, 3))[1:].T.reshape(-1)
    assert tx.stats().evictions >= 1


def test_clear_caches_and_stats_reject_flags_that_are_no_bools() -> None:
    with pytest.raises(tx.errors.ArgumentError, match="disk"):
        tx.clear_caches(disk="no")  # type: ignore[arg-type]
    with pytest.raises(tx.errors.ArgumentError, match="reset"):
        tx.stats(reset=2)  # type: ignore[arg-type]
