"""Objects that machine code frees: weak references are notified, subclasses and cycles work as usual, and no freed object is seen again."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np

import tenxor as tx
from tenxor import fastpath
from tenxor.fastpath.emit.free_lists import MAX_FREE_OBJECTS
from tenxor.tensor import Tensor

MANY = 4 * MAX_FREE_OBJECTS
said: list[str] = []


class Kept(Tensor):
    """A subclass with a dictionary and a finalizer."""

    def __del__(self) -> None:
        said.append(getattr(self, "name", ""))  # results have none


def apart(x: Tensor) -> Any:
    found = Kept(x.storage, x.layout, x.dtype)
    object.__setattr__(found, "name", f"row {x.offset}")
    return found


def test_more_objects_than_are_kept_for_reuse_are_freed() -> None:
    assert fastpath.state == "on"
    x = tx.asarray(np.arange(12.0).reshape(3, 4)).realize()
    for _ in range(3):
        living = [x[k % 3] + float(k) for k in range(MANY)]
        assert [t.tolist() for t in living] == [[4.0 * (k % 3) + j + k for j in range(4)] for k in range(MANY)]
        refs = [weakref.ref(t) for t in living] + [weakref.ref(t.storage) for t in living] + [weakref.ref(t.node) for t in living]
        del living
        assert [r() for r in refs] == [None] * 3 * MANY


def test_freed_scalars_are_reused_for_new_numbers() -> None:
    """The collector does not track scalars."""
    x = tx.asarray(np.arange(4.0)).realize()
    x + 0.25, x + 0.75  # Python makes the first
    for _ in range(3):
        living = [x + (k + 0.5) for k in range(MANY)]
        numbers = [t.node.sources[1] for t in living]
        assert not any(map(gc.is_tracked, numbers)) and [s.value for s in numbers] == [k + 0.5 for k in range(MANY)]
        del living
        assert [repr(s) for s in numbers[:3]] == ["0.5", "1.5", "2.5"]
        del numbers
    kept = sys.getrefcount(float)
    for k in range(MANY):
        assert (x + (k + 0.5)).tolist() == [k + j + 0.5 for j in range(4)]
    assert abs(sys.getrefcount(float) - kept) < 10


def test_weak_reference_callbacks_may_create_tensors() -> None:
    x = tx.asarray(np.arange(4.0)).realize()
    made: list[Any] = []
    refs = []
    for k in range(MANY):
        y = x + float(k)
        refs.append(weakref.ref(y, lambda _, k=k: made.append((k, x * float(k)))))
        refs.append(weakref.ref(y.storage, lambda _, k=k: made.append((k, x[1]))))
        del y
    assert len(made) == 2 * MANY
    assert all([t.tolist() in ([0.0, k, 2.0 * k, 3.0 * k], 1.0) for k, t in made])


def test_subclass_finalizers_run_once_for_each_instance() -> None:
    x = tx.asarray(np.arange(12.0).reshape(3, 4)).realize()
    for _ in range(MANY):
        y = apart(x[1])
        cycle = apart(x[2])
        object.__setattr__(cycle, "itself", cycle)
        ref = weakref.ref(y)
        assert (y + 1.0).tolist() == [5.0, 6.0, 7.0, 8.0]
        del y, cycle
        assert ref() is None
    gc.collect()
    assert sorted(said) == [""] * MANY + ["row 4"] * MANY + ["row 8"] * MANY
    said.clear()


def test_gradients_of_a_leaf_and_its_elements_are_added() -> None:
    """Both are subclasses of ours, with the same memory layout."""
    for _ in range(MANY):
        w = tx.asarray(np.arange(3.0)).requires_grad_()
        (w * w[1]).sum().backward()
        assert w.grad.tolist() == [1.0, 4.0, 1.0]  # type: ignore[union-attr]


def test_long_chains_are_freed_without_deep_recursion() -> None:
    x = tx.asarray(np.arange(3.0)).requires_grad_()
    y = x * 1.0
    for _ in range(20_000):
        y = y + 1.0
    del y
    nested: Any = None
    for k in range(20_000):
        nested = [nested, x[0] + float(k)]
    del nested
    gc.collect()
    assert (x + 1.0).tolist() == [1.0, 2.0, 3.0]


def test_cycles_through_subclass_attributes_are_collected() -> None:
    x = tx.asarray(np.arange(3.0)).realize()
    refs = []
    for _ in range(MANY):
        y = apart(x + 1.0)
        object.__setattr__(y, "others", [y, x[:2]])
        refs.append(weakref.ref(y))
        del y
    gc.collect()
    assert [r() for r in refs] == [None] * MANY
    said.clear()
    assert x[:2].tolist() == [0.0, 1.0]


def test_blocks_of_similar_sizes_reuse_the_same_memory() -> None:
    """So the results of a loop over changing sizes stay in a near cache."""
    places = set()
    for n in (*range(15_000, 15_060, 3), *range(15_000, 15_060, 3)):
        x = tx.zeros(n) + 1.0
        x.realize()
        places.add(x.node.buffer.address)
        assert x.node.buffer.nbytes == 8 * n
        del x
    assert len(places) <= 4
