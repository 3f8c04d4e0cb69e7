"""Tensors created by the fast path equal those of Python for the same arguments, or the errors are equal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor._utils import upcalls
from tenxor.fastpath import size_generic
from tenxor.graph.node import DATA, EMPTY
from tenxor.graph.spec import intern_spec
from tenxor.layout import Layout, layout_key
from tenxor.tensor import creation_cache

pytestmark = pytest.mark.usefixtures("on")

READ_ONLY = np.arange(5.0)
READ_ONLY.flags.writeable = False
BIG, GRID = np.arange(60_000.0), np.arange(24, dtype=np.int16).reshape(2, 3, 4)
CALLS: dict[str, Callable[[], Any]] = {
    "zeros": lambda: tx.zeros((2, 3)),
    "of a size": lambda: tx.zeros(4),
    "of no axes": lambda: tx.ones(()),
    "of no elements": lambda: tx.ones((0, 3)),
    "bools": lambda: tx.ones(3, dtype=tx.boolean),
    "complex": lambda: tx.zeros((2,), dtype=tx.complex64),
    "half": lambda: tx.full((2, 2), 7, dtype=tx.bfloat16),
    "beyond": lambda: tx.full(2, 300, dtype=tx.uint8),
    "a float for a shape": lambda: tx.zeros((2.0, 3)),
    "a bool for a shape": lambda: tx.zeros(True),
    "negative": lambda: tx.zeros(-1),
    "no tuple": lambda: tx.zeros([2, 3]),
    "minus zero": lambda: tx.full(3, -0.0),
    "zero": lambda: tx.full(3, 0.0),
    "like": lambda: tx.zeros_like(tx.asarray(GRID)),
    "no memory": lambda: tx.empty((0, 2)),
    "negative memory": lambda: tx.empty((2, -1)),
    "memory elsewhere": lambda: tx.empty(2, device="gpu"),
    "positions": lambda: tx.arange(7),
    "no positions": lambda: tx.arange(0),
    "fewer than none": lambda: tx.arange(-3),
    "float positions": lambda: tx.arange(7.0),
    "a step": lambda: tx.arange(1, 9, 2),
    "a step back": lambda: tx.arange(5, 0, -2, dtype=tx.uint8),
    "steps of floats": lambda: tx.arange(0.0, 1.0, 0.1),
    "a float for a size": lambda: tx.arange(1.0, dtype=tx.int64),
    "a truth for a size": lambda: tx.arange(True),
    "no step": lambda: tx.arange(1, 5, 0),
    "a line": lambda: tx.linspace(0, 1, 5),
    "an open line": lambda: tx.linspace(-0.0, 0.0, 3, endpoint=False),
    "a closed line": lambda: tx.linspace(-0.0, 0.0, 3),
    "the line of zero": lambda: tx.linspace(0, -0.0, 3),
    "a complex line": lambda: tx.linspace(0, 1j, 3),
    "no line": lambda: tx.linspace(0, 1, -3),
    "the identity": lambda: tx.eye(3),
    "another diagonal": lambda: tx.eye(2, 3, k=1, dtype=tx.int8),
    "what it reads twice": lambda: tx.eye(4) @ tx.eye(4),
    "an array": lambda: tx.asarray(GRID),
    "its transpose": lambda: tx.asarray(GRID.T),
    "every other": lambda: tx.asarray(BIG[::2]),
    "a part": lambda: tx.asarray(BIG[5:9]),
    "no array": lambda: tx.asarray(BIG[:0]),
    "one without axes": lambda: tx.asarray(np.array(2.5)),
    "a large one": lambda: tx.asarray(BIG),
    "read-only": lambda: tx.asarray(READ_ONLY),
    "other bytes": lambda: tx.asarray(np.arange(4.0).astype(">f8")),
    "objects": lambda: tx.asarray(np.array([None, 1])),
    "a matrix": lambda: tx.asarray(np.ma.masked_array([1.0, 2.0])),
    "a float": lambda: tx.asarray(-0.0),
    "an integer": lambda: tx.asarray(-(2**63)),
    "a large integer": lambda: tx.asarray(2**63),
    "a truth": lambda: tx.asarray(True),
    "a complex number": lambda: tx.asarray(1j),
    "floats": lambda: tx.asarray([1.5, -0.0, float("nan")]),
    "integers": lambda: tx.asarray([2**62, -(2**63), 0]),
    "large integers": lambda: tx.asarray([1, 2**63]),
    "both": lambda: tx.asarray([1, 2.5]),
    "truths": lambda: tx.asarray([True, False]),
    "a truth among integers": lambda: tx.asarray([1, True]),
    "rows": lambda: tx.asarray([[1.0, 2.0], [3.0, 4.0]]),
    "rows of integers": lambda: tx.asarray([[1, 2, 3]]),
    "ragged": lambda: tx.asarray([[1.0, 2.0], [3.0]]),
    "a row and a number": lambda: tx.asarray([[1.0], 2.0]),
    "empty rows": lambda: tx.asarray([[], []]),
    "nothing": lambda: tx.asarray([]),
    "deeper": lambda: tx.asarray([[[1.0]], [[2.0]]]),
    "texts": lambda: tx.asarray(["a"]),
    "many": lambda: tx.asarray([0.5] * 40_000),
    "many rows": lambda: tx.asarray([[1, 2, 3]] * 20_000),
    "shared": lambda: tx.asarray(GRID, copy=False),
    "not copied": lambda: tx.asarray([1.0], copy=False),
}


def outcome(call: Callable[[], Any]) -> object:
    try:
        t = call()
    except Exception as error:
        return type(error).__name__, str(error)
    return t.shape, t.dtype, t.strides, t.offset, t.to_numpy().tobytes() if t.dtype != tx.bfloat16 else str(t.tolist())


@pytest.mark.parametrize("name", CALLS)
def test_created_tensors_match_python(name: str) -> None:
    with fastpath.disabled():
        assert upcalls.installed is None
        expected = outcome(CALLS[name])
    assert [outcome(CALLS[name]) for _ in range(4)] == [expected] * 4


def test_asarray_keeps_every_numpy_dtype() -> None:
    for dtype in "?bhilqBHILQefdFD":
        values = np.arange(-3, 9).astype(dtype)
        for _ in range(3):
            t = tx.asarray(values)
            assert t.dtype == values.dtype and t.to_numpy().tobytes() == values.tobytes()


def test_created_tensors_do_not_share_memory() -> None:
    values, numbers = np.arange(4.0), [1.0, 2.0]
    for _ in range(3):
        a, b = tx.asarray(values), tx.asarray(values)
        a[0] = 7.0
        assert b.tolist() == values.tolist() == [0, 1, 2, 3]
        c, d = tx.asarray(numbers), tx.zeros(2)
        c += 1
        d += 1
        assert (numbers, tx.zeros(2).tolist(), d.tolist()) == ([1.0, 2.0], [0, 0], [1, 1])


def test_fill_values_of_two_tensors_are_separate_scalars() -> None:
    """A plan with one scalar for both tensors would be wrong for other tensors of the same shape."""
    for n in (50_000, 5):
        for _ in range(3):
            assert (tx.zeros(n) + tx.zeros(n)).max().item() == 0
            assert (tx.full(n, 5, dtype=tx.float64) + tx.zeros(n)).max().item() == 5
            assert (tx.zeros(n) - tx.full(n, 2, dtype=tx.float64)).max().item() == -2


def test_creation_keeps_reference_counts_and_memory() -> None:
    array, numbers = np.arange(6.0), [1234.5, 2345.5]
    things = [array, numbers, numbers[0], array.dtype, tx.float64]
    makes: list[Callable[[], tx.Tensor]] = [lambda: tx.asarray(array), lambda: tx.asarray(numbers), lambda: tx.asarray([1, "a"])]
    makes += [lambda: tx.zeros(3), lambda: tx.arange(4)]

    def repeat() -> None:
        for make in makes:
            for _ in range(50):
                try:
                    made = make()
                    made.realize()
                    specs.append(made.spec)
                except Exception:
                    pass

    specs: list[Any] = []
    repeat()
    things += set(specs)
    specs.clear()
    before, used = [sys.getrefcount(x) for x in things], tx.memory().in_use
    repeat()
    specs.clear()
    after = [sys.getrefcount(x) for x in things]
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) < 10, (before, after)
    assert tx.memory().in_use == used


def test_arrays_and_lists_of_new_sizes_match_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(40):
        tx.asarray([1.0, 2.0]).realize()
    assert fastpath.fast_path is not None
    creations = fastpath.fast_path.creation_functions
    for table in (creations.array_recipes, creations.list_recipes):  # which may know older recipes than are known
        table.clear()
    shapes = [(), (0,), (0, 3), (3, 0, 2), (1, 1), (61,), (59, 2), (3, 1, 4, 2), (2, 3, 1, 2, 2)]
    asked: list[object] = []
    own = creation_cache.CreationFunctions.from_array
    monkeypatch.setattr(creation_cache.CreationFunctions, "from_array", lambda self, array: asked.append(array.shape) or own(self, array))
    for dtype in ("float64", "int8", "bool", "complex64", ">f8", "uint16"):
        for shape in shapes:
            values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
            for _ in range(2):
                found = tx.asarray(values)
                wanted = Layout.contiguous(shape)
                assert found.layout == wanted and found.spec is intern_spec(wanted, found.dtype), (dtype, shape)
                recipe = found.storage.node.recipe  # the one that the spec has, which may be older than Python's
                assert (recipe.op, recipe.shape, recipe.dtype, recipe.data_recipe) == (DATA, shape, found.dtype, recipe)
                assert np.array_equal(found.to_numpy(), values) and found.to_numpy().dtype == values.dtype.newbyteorder("=")
    assert set(asked) - {(2, 3, 1, 2, 2)} <= set(shapes) and len(asked) < 40  # of five axes, and in another order of bytes
    for rows, count in ((0, 67), (3, 71), (5, 1), (1, 9)):
        numbers = [float(k) for k in range(count)]
        given = [numbers] * rows if rows else numbers
        assert tx.asarray(given).tolist() == given
        assert tx.asarray(given).spec is intern_spec(Layout.contiguous(np.shape(given)), tx.float64)


@pytest.mark.usefixtures("afresh")
def test_calls_with_floats_are_recorded_when_their_signature_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fastpath.fast_path is not None
    maker, asked = fastpath.fast_path.creation_functions, list[Any]()
    own = maker.record
    monkeypatch.setattr(maker, "record", lambda name, made, *given: [asked.append(given[1]), own(name, made, *given)])
    maker.templates.clear()

    def learnt(*calls: tuple[float, ...]) -> int:
        asked.clear()
        for call in calls:
            assert np.allclose(tx.linspace(*call).to_numpy(), np.linspace(*call))  # type: ignore[call-overload]
        return sum([call in asked for call in set(calls)])

    kinds = len(size_generic._templates_by_signature)
    assert not learnt(*[(k / 7, k + 0.5, 20 + k) for k in range(30)])  # other floats each time
    assert len(size_generic._templates_by_signature) - kinds < 20  # which are kinds that others need no room for
    assert learnt((0.125, 0.5, 21), (0.125, 0.5, 21)) == 1
    assert learnt((0.25, 0.5, 21), (0.25, 0.5, 22)) == 1
    assert not learnt((0.25, 0.5, 22), (0.125, 0.5, 21))


@pytest.mark.usefixtures("afresh")
def test_call_without_a_rule_is_recorded_for_exact_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fastpath.fast_path is not None
    maker, asked = fastpath.fast_path.creation_functions, list[Any]()
    for n in range(20, 40):
        tx.arange(0.0, n, 0.5)
    own = maker.record
    monkeypatch.setattr(maker, "record", lambda name, made, *given: [asked.append(given[1]), own(name, made, *given)])
    for k in range(4):
        for n in (50, 51, 60):
            assert np.array_equal(tx.arange(0.0, n, 0.5).to_numpy(), np.arange(0.0, n, 0.5))
        assert [args for args in asked if len(args) == 3] == [(0.0, n, 0.5) for n in (50, 51, 60)] * (k > 0)


@pytest.mark.usefixtures("afresh")
def test_small_empty_tensors_get_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(30, 50):
        for _ in range(2):
            tx.empty((n, 3), dtype=tx.float32)
    learnt = list[object]()
    assert fastpath.fast_path is not None
    monkeypatch.setattr(fastpath.fast_path.creation_functions, "record", lambda *given: learnt.append(given))
    for n in (37, 61, 0, 1):
        made = [tx.empty((n, 3), dtype=tx.float32) for _ in range(3)][-1]
        assert (made.shape, made.dtype, made.storage.node.op) == ((n, 3), tx.float32, DATA)
        other = tx.empty((n, 3), dtype=tx.float32)
        made[...], other[...] = 1, 2
        assert made.tolist() == [[1.0] * 3] * n and other.tolist() == [[2.0] * 3] * n
    assert len(learnt) <= 2, "only of none and one, which are no sizes"
    large = [tx.empty(1 << 18) for _ in range(3)][-1]
    assert large.storage.node.op is EMPTY
    large[:] = tx.arange(1 << 18)
    assert large[-1].item() == (1 << 18) - 1


def test_rows_written_into_an_empty_tensor_have_their_values() -> None:
    rng = np.random.default_rng(3)
    for n in (1, 2, 5, 40):
        a, made = rng.random((n, 4)), tx.empty((n, 4))
        for k, row in enumerate(tx.asarray(a)):
            made[k] = row * 2
        assert np.array_equal(made.numpy(), a * 2)


def test_new_tensors_use_new_layout_keys_after_the_table_is_cleared() -> None:
    makes: list[Callable[[], tx.Tensor]] = [
        *(lambda: tx.asarray(np.ones(6)), lambda: tx.asarray([1.0] * 6), lambda: tx.asarray([[1, 2], [3, 4]])),
        *(lambda: tx.zeros((2, 3)), lambda: tx.empty(5), lambda: tx.asarray(np.float32(2)), lambda: tx.asarray(1.5)),
    ]
    before = [make().spec for make in makes for _ in range(3)]
    layout_key._layout_keys.clear()
    for make in makes:
        x = make()
        assert x.spec is intern_spec(Layout.contiguous(x.shape), x.dtype)
        for _ in range(3):
            x += make()
        assert x.spec is make().spec and (x.shape == () or x.spec not in before)
