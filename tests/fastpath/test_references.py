"""Each method leaves every reference count unchanged, whatever it does or raises, and leaves no garbage."""

from __future__ import annotations

import gc
import re
import sys
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import dtypes, fastpath
from tenxor.fastpath.emit.free_lists import MAX_FREE_OBJECTS
from tenxor.fastpath.sized_template import VARIANTS
from tenxor.graph import node
from tenxor.graph.spec import ChainViewTemplate, InMemoryTemplate, NumpyCallTemplate, clear_templates
from tenxor.layout import layout_key
from tenxor.runtime import pending_limits

from .calls import Call, calls, operands

realize = sys.modules["tenxor.runtime.realize"]
ROUNDS = 12
IN_PLACE = re.compile(r"\.[a-z_]*[a-z]_\(")  # a method whose name ends in an underscore writes its tensor
EVERY = 96  # of the calls one is made, for each dtype another; 1 for all
OWN = (
    "Tensor",
    "Storage",
    "ScalarStorage",
    "Node",
    "Recipe",
    "Scalar",
    "Buffer",
    "Spec",
    *(cls.__name__ for cls in (*VARIANTS, InMemoryTemplate, ChainViewTemplate, NumpyCallTemplate)),
    "LayoutKey",
    "Layout",
    "DType",
    "Op",
    "Reduction",
)
ALWAYS = [
    None,
    True,
    False,
    ...,
    (),
    b"",
    *range(-5, 9),
    *dtypes.ALL_DTYPES,
    *[type(x) for x in (1, 1.0, True, "", (), None, dtypes.float64)],
]
OLDER: list[Any] = []  # what there was before the calls
DTYPES = ("float64", "float32", "int64", "bool", "float16", "bfloat16", "uint64", "complex64")


@pytest.fixture(autouse=True, scope="module")
def _few_are_older() -> Iterator[None]:
    clear_templates(), realize.evict_plans(), layout_key._layout_keys.clear(), node._recipes.clear()
    gc.unfreeze()
    some = [(tx.asarray([1.0, 2.0]) + 1.0, tx.asarray([1.0, 2.0])[1]) for _ in range(2 * MAX_FREE_OBJECTS)]
    del some  # as many as are kept for reuse, which are more each time until then
    gc.collect()
    freeze_present_objects()
    yield
    OLDER.clear()


def freeze_present_objects() -> None:
    """Freeze the present objects of Tenxor, so that later searches find new objects only."""
    OLDER.extend(own_objects(writes=True))
    gc.freeze()


def named() -> dict[str, Any]:
    """Return the objects that machine code knows by name."""
    assert fastpath.fast_path is not None
    return fastpath.fast_path.objects_by_name


def own_objects(writes: bool = False) -> list[Any]:
    """Return the objects of Tenxor that are not frozen."""
    kinds = set(OWN) - ({"Node", "Buffer"} if writes else set())
    is_class = lambda x: issubclass(type(x), type) and f"{getattr(x, '__module__', None)}".startswith("tenxor")
    return [x for x in gc.get_objects() if type(x).__name__ in kinds or is_class(x)]


def counted_objects(its: dict[str, Any], writes: bool) -> list[Any]:
    """Return the objects whose references are counted. Nodes are excluded for writes, since a held node makes a write copy it."""
    own = own_objects(writes)
    frames = [x.launch_record for x in own if type(x).__name__ == "Recipe" and x.launch_record is not None]
    parts = [part for x in its.values() for part in (x, x.spec, x.offset)]
    return [*ALWAYS, *OLDER, *own, *frames, *parts, *named().values()]


def counts(things: list[Any]) -> array[int]:
    """Return the reference counts in an array: a list would itself refer to small integers."""
    return array("q", [sys.getrefcount(x) for x in things])


def repeat(call: Call, its: dict[str, Any], times: int) -> None:
    for _ in range(times):
        try:
            found = call(its)
            if found is None or any(found is x for x in its.values()):  # what was written waits in the tensors themselves
                its["x"].realize(), its["pending"].realize(), its["known"].realize()
        except Exception:
            pass


def collect() -> None:
    """Free garbage, and the weak references to pending nodes, which are otherwise cleared only when there may be many."""
    gc.collect()
    pending_limits._cleanup_length = 0
    pending_limits.prune_pending_refs()


def count_kept_blocks(call: Call, its: dict[str, Any]) -> int:
    """Return how many blocks of Python's allocator some calls keep after many calls.

    CPython's cache of attributes keeps names, and `reprlib` builds new names for errors. After many calls they are those of before.
    """
    repeat(call, its, 50 * ROUNDS)
    collect()
    allocated = sys.getallocatedblocks()
    repeat(call, its, ROUNDS)
    collect()
    return sys.getallocatedblocks() - allocated


def change(call: Call, its: dict[str, Any], writes: bool) -> list[str]:
    """Return the differences in reference counts after some calls."""
    repeat(call, its, 4)
    collect()
    things = counted_objects(its, writes)
    blocks, memory = len(gc.get_objects()), tx.memory().in_use
    before = counts(things)
    allocated = sys.getallocatedblocks()
    repeat(call, its, ROUNDS)
    collect()
    more = sys.getallocatedblocks() - allocated
    after = counts(things)
    # What everybody has may by chance be referred to once more, or less; a mistake is made every time.
    by_chance = ROUNDS // 2
    found = [f"{x!r}: {b - a:+}" for x, a, b in zip(things, before, after, strict=True) if abs(b - a) > by_chance]
    found += [f"objects: {n:+}" for n in [len(gc.get_objects()) - blocks] if abs(n) > by_chance]
    found += [f"memory: {n:+}" for n in [tx.memory().in_use - memory] if n]
    found += [f"blocks: {more:+}"] if more >= ROUNDS else []
    return found


def changes(dtype: str, chosen: Callable[[int], bool]) -> list[str]:
    """Return the differences for all selected calls."""
    clear_templates()
    wrong = []
    gc.collect()
    freeze_present_objects()
    gc.disable()
    try:
        for k, (said, call) in enumerate(calls()):
            if chosen(k):
                writes = (".__i" in said and ".__invert" not in said) or "setitem" in said or IN_PLACE.search(said) is not None
                its = operands(getattr(tx, dtype))
                # What happens now and then is no mistake: an allocator gathers, a test before this one is collected.
                found = change(call, its, writes) and change(call, its, writes) and change(call, its, writes)
                if found and all([text.startswith("blocks") for text in found]) and count_kept_blocks(call, its) < ROUNDS:
                    found = []
                wrong += [f"{dtype}: {said}: {found[:4]}"] if found else []
    finally:
        gc.enable()
    return wrong


@pytest.mark.parametrize("dtype", DTYPES)
def test_calls_keep_reference_counts(dtype: str) -> None:
    assert fastpath.state == "on"
    at = DTYPES.index(dtype)
    assert changes(dtype, lambda k: k % EVERY == at) == []


def test_leak_check_detects_one_lost_reference_per_call() -> None:
    lost: list[Any] = []
    its = operands(tx.float64)
    assert change(lambda its: lost.append(its["x"].spec), its, False)
    assert change(lambda its: lost.append(its["x"] + 1), its, False)
    assert not change(lambda its: its["x"] + 1, its, False)


WIDE: tuple[Call, ...] = (
    lambda its: (its["x"] * 2.0 + its["other"]).realize(),
    lambda its: (its["x"] - its["x"].mean(0)).sum().item(),
    lambda its: (its["x"].T @ its["x"][:, :2]).realize(),
    lambda its: its["x"].__setitem__(its["x"] > 1.0, 0.5),
    lambda its: its["row"].__setitem__(its["row"] > 1.0, 0.5),
    lambda its: its["x"][1:-1].__iadd__(its["x"][2:] * 0.5),
    lambda its: (its["x"] + 1.0, its["x"].__setitem__((slice(1, 3), 0), 4.0)),
    lambda its: its["x"][(its["indices"] * 7) % 50].realize(),
    lambda its: its["x"][its["indices"] + 1].realize(),
    lambda its: its["known"] * 2.0 + its["known"] > 3.0,
    lambda its: its["x"][[3, 4]],
    lambda its: its["x"].__setitem__([3, 4], its["x"][[4, 3]]),
    lambda its: its["x"][its["x"] > 1e9],
    lambda its: its["x"][its["x"] > 100.0].sum().item(),
    lambda its: its["x"].__setitem__(its["x"] > 100.0, its["x"][its["x"] > 100.0] + 1.0),
    lambda its: its["x"].__setitem__(its["indices"], its["x"][::-1].copy()),
    lambda its: tx.roll(its["x"] + 1.0, (3, -1), (0, 1)),
    lambda its: tx.stack([its["row"], its["x"][:, 4], its["row"] * 2.0], 1),
    lambda its: tx.concat((its["x"], its["other"], its["x"].T.reshape(50, 60)), 1),
)


@pytest.mark.parametrize("number", range(len(WIDE)))
def test_large_graphs_keep_reference_counts(number: int) -> None:
    x = tx.asarray(np.arange(3000.0).reshape(50, 60)).realize()
    its = {"x": x, "other": (x + x).realize(), "row": x[:, 3], "known": x[1, 1], "pending": x + x}
    its["indices"] = tx.asarray(np.arange(50)).realize()
    gc.collect()
    gc.freeze()
    changes = [change(WIDE[number], its, True) for _ in range(3)]
    # Of weak references to what waits there are some that are forgotten later.
    assert [] in [[found for found in each if not found.startswith("objects")] for each in changes], changes
