"""Shared by all tests: two options, the Hypothesis profiles, the marker of value tests, the folder of kernels, threads."""

from __future__ import annotations

import argparse
import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from functools import cache as cache_of
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis.strategies import none

import tenxor as tx
from tenxor import fastpath
from tenxor._utils.gc_control import pause_gc, resume_gc
from tenxor.codegen import backend
from tenxor.codegen.llvm import kernel_disk_cache
from tenxor.fastpath import size_generic
from tenxor.graph import node, spec
from tenxor.layout import layout_key
from tenxor.runtime import generic_plans, plan_disk_cache

CACHE_DIR = "TENXOR_CACHE_DIR"
KEPT = Path(__file__).resolve().parents[1] / ".kernels"  # removed by `make clean`
FUZZ_PROGRAMS = 1_000  # each in 16 ways

# The gate draws the same examples every time, so that it fails only for a change that breaks something.
# `pytest --hypothesis-profile=explore` draws new ones, and more of them.
settings.register_profile("gate", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1_000, print_blob=True)
settings.load_profile("gate")


def _positive(text: str) -> int:
    number = int(text.replace("_", "").replace(",", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least one has to run")
    return number


TESTS = Path(__file__).parent
# What is about values, whatever computes them: `pytest -m "values and not large"` is for any back end.
VALUES = (
    *("api", "ops", "tensor"),
    *(f"test_{name}.py" for name in ("behaviours", "creation", "errata", "errors", "in_place", "plans")),
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the value tests, and keep only each n-th test with `--every n`."""
    items[:] = items[:: config.getoption("--every")]
    folders = tuple(TESTS / name for name in VALUES)
    are_of_values = cache_of(lambda path: any(path.is_relative_to(folder) for folder in folders))
    for item in items:
        if are_of_values(item.path):
            item.add_marker("values")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without automatic garbage collections, which would take a third of the time, and find none.

    `gc.isenabled()` stays true: Dask, which some tests import, remembers it, and would switch the collector off for good.
    """
    pause_gc()
    try:
        return (yield)
    finally:
        resume_gc()


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collections, which tests request; `earlier_objects_frozen` does so for later objects.

    Hypothesis makes its random numbers first, as it asks the collector for references to them.
    """
    given(none())(lambda nothing: None)()
    gc.collect()
    gc.freeze()


collect_ignore = ["codegen/exhaustive_float32.py"]  # a program to run by hand: 2**32 inputs a function


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz",
        type=_positive,
        default=FUZZ_PROGRAMS,
        metavar="N",
        help=f"run N random programs in the aliasing fuzz, each in 16 ways (default {FUZZ_PROGRAMS:,})",
    )
    parser.addoption("--kept", action="store_true", help="keep plans on disk, too, all that are made, and find those that are there")
    parser.addoption("--every", type=_positive, default=1, metavar="N", help="run one of N tests, for machines that are slow")


def pytest_configure(config: pytest.Config) -> None:
    """Keep kernels in the checkout's own folder, never the user's, so that later runs find them.

    That is safe, as the name of a kernel contains everything that decides its code, including the source of the emitters. It is safe for
    the workers of a parallel run, since files are written atomically. The cache has room for all kernels of a run.
    """
    before = os.environ.get(CACHE_DIR)
    os.environ[CACHE_DIR] = str(KEPT)
    if config.getoption("--kept"):
        plan_disk_cache.MAX_LOOKUPS = kernel_disk_cache.MAX_CACHE_FILES
    else:
        plan_disk_cache.disable_stored_plans()  # tests of this process look at kernels, which plans on disk are without

    def restore() -> None:
        if before is None:
            os.environ.pop(CACHE_DIR, None)
        else:
            os.environ[CACHE_DIR] = before

    config.add_cleanup(restore)
    # A shell's background job ignores Ctrl-C, and so would each process started by a test
    signal.signal(signal.SIGINT, signal.default_int_handler)
    fastpath.start()


def pytest_runtest_setup() -> None:
    """Clear all caches if one is more than half full, so that no cache reaches its bound within a test.

    A cache at its bound drops its entries, and equal layouts or recipes are new objects afterwards. Some tests compare them by identity.
    """
    realize = import_module("tenxor.runtime.realize")  # which the function of that name hides
    tables = layout_key._layout_keys, node._recipes, realize._plans, size_generic._templates_by_signature
    counts = (
        (backend().kernel_count(), realize.MAX_KERNELS),
        (spec._template_count, spec.MAX_TEMPLATES),
        *[(len(table), table.max_entries) for table in tables],
    )
    if any(2 * count > most for count, most in counts):
        tx.clear_caches()


@pytest.fixture(scope="module", autouse=True)
def earlier_objects_frozen() -> None:
    """Free the garbage of earlier modules, and exclude from later collections what is left: there may be millions of objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def plain() -> Iterator[None]:
    """Without the fast path, for tests of the Python implementation."""
    with fastpath.disabled():
        yield


@pytest.fixture(params=["aside", "on"])
def machine_code(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Without the fast path and with it, one after the other; the value tells which."""
    if request.param == "on":
        fastpath.start()
        assert fastpath.state == "on"
        yield True
    else:
        with fastpath.disabled():
            yield False


@pytest.fixture
def unobserved() -> Iterator[None]:
    """Remove callbacks of the garbage collector, such as Hypothesis's: an error of a signal handler would be lost there."""
    others = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = others


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """A function that sets the number of threads, which is restored after the test."""
    before = tx.num_threads()
    yield tx.set_num_threads
    tx.set_num_threads(before)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The shipped plans by key, empty at first; kernels are those compiled here."""
    own, found = backend(), dict[str, bytes]()

    def find(facts: object) -> object:
        return next((code for code in own.kernels.values() if own.get_facts(code) == facts), None)

    monkeypatch.setattr(own, "read_shipped", found.get)
    monkeypatch.setattr(own, "find_compiled", find)
    monkeypatch.setattr(generic_plans, "_caches", generic_plans.BoundedCache(generic_plans.MAX_STRUCTURES))
    return found
