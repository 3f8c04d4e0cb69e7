"""Indexing and assignment against NumPy: the same elements, or an exception of the same class."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tenxor as tx
from tenxor.errors import BadIndex, IndexOutOfRange, OutOfBounds, ReadOnlyError

Array = np.ndarray[Any, Any]
KINDS = (IndexError, TypeError, ValueError)


def outcome(call: Callable[[], Any]) -> tuple[type[Exception] | None, Any]:
    """The class of the exception, as NumPy users catch it, and the result."""
    try:
        return None, call()
    except KINDS as error:
        return next(kind for kind in KINDS if isinstance(error, kind)), None


def assign(target: Any, key: Any, value: Any) -> None:
    target[key] = value


# Tensors to index, with arrays of the same elements


@st.composite
def twins(draw: st.DrawFn, min_ndim: int = 0) -> tuple[Array, tx.Tensor]:
    """An array and a tensor with the same elements; the tensor may be any view, or still pending."""
    shape = tuple(draw(st.lists(st.sampled_from([2, 3, 1, 4, 0]), min_size=min_ndim, max_size=4)))
    a = np.arange(prod(shape)).reshape(shape)
    t = tx.asarray(a) if draw(st.booleans()) else tx.arange(prod(shape)).reshape(shape)
    for move in draw(st.lists(st.sampled_from(["transpose", "flip", "reshape", "pick", "part"]), max_size=3)):
        if move == "transpose":
            a, t = a.T, t.T
        elif move == "flip":
            a, t = np.flip(a), t.flip()
        elif move == "reshape" and a.size:
            a, t = a.reshape(-1), t.reshape(-1)
        elif move == "pick" and a.ndim and a.shape[0]:
            order = draw(st.permutations(range(a.shape[0])))
            a, t = a[list(order)], t.oindex[list(order)]
        elif move == "part" and a.ndim:
            a, t = a[..., 1:], t[..., 1:]
    return np.array(a), t


def integers(size: int) -> st.SearchStrategy[int]:
    """Draw indices of an axis, of both signs; most are valid, and some are out of range."""
    good = st.integers(-size, size - 1) if size else st.just(0)
    return st.one_of(good, good, good, good, st.integers(-size - 2, size + 1))


def slices(size: int) -> st.SearchStrategy[slice]:
    bound = st.none() | st.integers(-size - 2, size + 2)
    return st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, 3, -1, -2, -3]))


@st.composite
def index_arrays(draw: st.DrawFn, size: int) -> Any:
    shape = draw(st.sampled_from([(2,), (2,), (1,), (3,), (2, 1), (1, 3), (2, 3), (0,)]))
    numbers = [draw(integers(size)) for _ in range(prod(shape))]
    dressed = draw(st.sampled_from(["list", "array", "int32", "tensor"]))
    a = np.array(numbers, np.int64).reshape(shape)
    if dressed == "list":
        return a.tolist()
    if dressed == "tensor":
        return tx.asarray(a)
    return a.astype(np.int32) if dressed == "int32" else a


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    if draw(st.integers(0, 15)) == 0:
        shape = tuple(n + 1 for n in shape)
    mask = np.array(draw(st.lists(st.booleans(), min_size=prod(shape), max_size=prod(shape))), bool).reshape(shape)
    return draw(st.sampled_from([mask, tx.asarray(mask)])) if mask.size else mask


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...], *, advanced: bool = True) -> Any:
    """Draw any key for a tensor of this shape."""
    kinds = ["integer", "slice", "slice", "new axis", "ellipsis", "end"]
    if advanced:
        kinds += ["list", "list", "list", "mask", "flag"]
    key: list[Any] = []
    axis = 0
    for _ in range(7):
        kind = draw(st.sampled_from(kinds))
        if kind == "end":
            break
        if kind == "new axis":
            key.append(None)
        elif kind == "flag":
            key.append(draw(st.sampled_from([True, False, np.bool_(True), np.array(True)])))
        elif kind == "ellipsis":
            if Ellipsis not in [k for k in key if not isinstance(k, (np.ndarray, tx.Tensor, np.bool_))]:
                key.append(...)
                axis += draw(st.integers(0, max(0, len(shape) - axis)))
        elif axis < len(shape):
            size = shape[axis]
            if kind == "mask":
                ndim = draw(st.integers(1, min(2, len(shape) - axis)))
                key.append(draw(masks(shape[axis : axis + ndim])))
                axis += ndim
                continue
            draw_item = {"integer": integers, "slice": slices, "list": index_arrays}[kind]
            key.append(draw(draw_item(size)))
            axis += 1
    return key[0] if len(key) == 1 and draw(st.booleans()) else tuple(key)


def for_numpy(key: Any) -> Any:
    """Return the key with arrays in place of tensors."""
    if isinstance(key, tuple):
        return tuple(for_numpy(k) for k in key)
    return key.to_numpy() if isinstance(key, tx.Tensor) else key


def is_stricter(wanted: Any, error: type[Exception] | None) -> bool:
    """Return whether only NumPy accepts a key. NumPy ignores out-of-range indices in empty selections."""
    return error is IndexError and np.size(wanted) == 0


@settings(max_examples=800)
@given(st.data())
def test_reading_any_key_equals_numpy(data: st.DataObject) -> None:
    a, t = data.draw(twins())
    key = data.draw(keys(a.shape))
    error, wanted = outcome(lambda: a[for_numpy(key)])
    our_error, result = outcome(lambda: t[key])
    if error is None and our_error is not None and is_stricter(wanted, our_error):
        return
    assert our_error is error, (a.shape, key)
    if error is None:
        assert result.shape == np.shape(wanted)
        assert result.tolist() == np.asarray(wanted).tolist()


@settings(max_examples=300)
@given(st.data())
def test_basic_keys_give_views_of_the_same_storage(data: st.DataObject) -> None:
    a, t = data.draw(twins())
    key = data.draw(keys(a.shape, advanced=False))
    if not isinstance(outcome(lambda: a[key])[1], np.ndarray):
        key = (*(key if isinstance(key, tuple) else (key,)), ...)  # an Ellipsis makes a view of a single element, too
    error, view = outcome(lambda: t[key])
    if error is None:
        assert view.storage is t.storage
        view[...] = -5
        a[key] = -5
        assert t.tolist() == a.tolist()


@st.composite
def values(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Draw a value that can be assigned to a selection of this shape, and sometimes one that cannot."""
    forms = ["number", "whole", "whole", "row", "ones", "mixed", "leading", "wrong"]
    match draw(st.sampled_from(forms)):
        case "number":
            return 1000
        case "whole":
            of = shape
        case "row":
            of = shape[1:]
        case "ones":
            of = (1,) * len(shape)
        case "mixed":
            of = tuple(draw(st.sampled_from([1, n])) for n in shape)
        case "leading":
            of = (1, *shape) if shape else ()
        case _:
            of = (*shape, 5)
    return np.arange(1000, 1000 + prod(of)).reshape(of)


@settings(max_examples=800)
@given(st.data())
def test_assignment_to_any_key_equals_numpy(data: st.DataObject) -> None:
    a, t = data.draw(twins())
    key = data.draw(keys(a.shape))
    error, selected = outcome(lambda: a[for_numpy(key)])
    our_error = outcome(lambda: t[key])[0]
    if error is not None or our_error is not None:
        assert outcome(lambda: assign(t, key, 7))[0] is not None
        assert t.tolist() == a.tolist()
        return
    value = data.draw(values(np.shape(selected)))
    theirs = np.squeeze(value) if np.size(value) == 1 else value  # a value of one element may have any number of axes
    error = outcome(lambda: assign(a, for_numpy(key), theirs))[0]
    as_tensor = not isinstance(value, int) and data.draw(st.booleans())
    our_error = outcome(lambda: assign(t, key, tx.asarray(value) if as_tensor else value))[0]
    if error is TypeError:  # NumPy requires 1-D values for masks; Tenxor broadcasts them as for other indices
        return
    assert (our_error is None) == (error is None), (a.shape, key, np.shape(value))
    assert t.tolist() == a.tolist()


@settings(max_examples=300)
@given(st.data())
def test_in_place_operation_on_any_key_equals_numpy(data: st.DataObject) -> None:
    a, t = data.draw(twins())
    key = data.draw(keys(a.shape))
    if outcome(lambda: a[for_numpy(key)])[0] or outcome(lambda: t[key])[0]:
        return
    a[for_numpy(key)] += 10
    t[key] += 10
    assert t.tolist() == a.tolist()


@settings(max_examples=300)
@given(st.data())
def test_assigned_value_may_read_the_target_storage(data: st.DataObject) -> None:
    a, t = data.draw(twins(min_ndim=1))
    n = a.shape[0]
    order = data.draw(st.lists(st.integers(-n, n - 1), min_size=n, max_size=n)) if n else []
    reverse = data.draw(st.booleans())
    value, ours = (a[::-1].copy(), t[::-1]) if reverse else (a.copy() * 2, t * 2)
    a[order] = value
    t[order] = ours
    assert t.tolist() == a.tolist()


# Cases that the random search meets rarely


def grid(*shape: int) -> tuple[Array, tx.Tensor]:
    return np.arange(prod(shape)).reshape(shape), tx.arange(prod(shape)).reshape(shape)


@pytest.mark.parametrize(
    "key",
    [
        (slice(None), [0, 1], slice(None), [1, 0]),
        (slice(None), [0, 1], [1, 0]),
        ([0, 1], slice(None), [1, 0]),
        (0, slice(None), [1, 0]),
        ([0, 1], None, [1, 0]),
        (None, [[0], [1]], [1, 0, 1]),
        (slice(None), [True, False, True], ..., -1, slice(None)),
        (slice(None), np.array([1, 0]), ..., 0, 0),
        (..., [1, 1, 0], slice(None)),
        (True, None, [1, 0]),
        (np.array(False), [1]),
        (slice(1), True, np.array([[True, False, True, False]] * 3)),
        (np.zeros((0, 2), int), [1, 0]),
        np.ones((2, 3), bool),
        np.ones((2, 3, 4, 5), bool),
        (np.int8(1), np.uint16(2), slice(None, None, np.int64(-2))),
    ],
    ids=repr,
)
def test_axes_of_index_arrays_are_placed_as_in_numpy(key: Any) -> None:
    a, t = grid(2, 3, 4, 5)
    assert t[key].shape == a[key].shape
    assert t[key].tolist() == a[key].tolist()
    a[key] = -1
    t[key] = -1
    assert t.tolist() == a.tolist()


def test_empty_ellipsis_separates_index_arrays() -> None:
    a, t = grid(3, 2, 2)
    key = (slice(1, None), [1, 1, 0], ..., -2)
    assert a[key].shape == t[key].shape == (3, 2)


def test_index_arrays_accept_every_integer_dtype() -> None:
    a, t = grid(5)
    for dtype in ("int8", "uint8", "int32", "uint64"):
        assert t[tx.asarray([4, 0, 4], dtype=dtype)].tolist() == a[[4, 0, 4]].tolist()
    assert t[tx.asarray(3)].tolist() == 3
    assert t[np.array(3), None].storage is t.storage  # a 0-d index is an int, so the result is a view
    assert t[[]].shape == (0,)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (3, IndexOutOfRange),
        (-3, IndexOutOfRange),
        ((0, 0, 0), IndexOutOfRange),
        ([0, 2], IndexOutOfRange),
        ([[0], [-3]], IndexOutOfRange),
        ((slice(None), [0, 3]), IndexOutOfRange),
        (np.array([0, 5], np.uint8), IndexOutOfRange),
        ([True, False, True], BadIndex),
        (np.ones((2, 2), bool), BadIndex),
        (([0, 1], [0, 1, 2]), BadIndex),
        (1.0, BadIndex),
        ([0.5], BadIndex),
        ("a", BadIndex),
        (["a"], BadIndex),
        ((..., ...), BadIndex),
        (tx.ones(2), BadIndex),
        (slice("a", None), IndexError),
    ],
    ids=repr,
)
def test_invalid_keys_raise_for_reads_and_writes(key: Any, error: type[Exception]) -> None:
    a, t = grid(2, 3)
    for bad in (lambda: t[key], lambda: assign(t, key, 1), lambda: assign(t, key, tx.zeros(()))):
        if error is IndexError:
            with pytest.raises((IndexError, TypeError, ValueError)):
                bad()
        else:
            with pytest.raises(error):
                bad()
    assert t.tolist() == a.tolist()


def test_out_of_range_index_raises_even_for_empty_selections() -> None:
    _, t = grid(2, 3)
    with pytest.raises(IndexOutOfRange, match="7"):
        t[[7], []]


def test_gather_is_independent_of_later_writes_to_source_and_indices() -> None:
    _, t = grid(4)
    picked, indices = t[[1, 1, 3]], tx.asarray([0, 1])
    later = t[indices]
    t[1], indices[0] = 50, 3
    assert picked.tolist() == [1, 1, 3]
    assert later.tolist() == [0, 1]
    picked[0] = -1
    assert t.tolist() == [0, 50, 2, 3]


def test_last_value_wins_for_repeated_indices() -> None:
    a, t = grid(4)
    for target in (a, t):
        target[[1, 2, 1, 1]] = np.array([10, 20, 30, 40])
    assert t.tolist() == a.tolist() == [0, 40, 20, 3]
    a, t = grid(2, 3)
    for target in (a, t):
        target[[0, 1, 0], 1:] = np.arange(6).reshape(3, 2) * 100
    assert t.tolist() == a.tolist()


def test_in_place_add_adds_once_for_repeated_indices() -> None:
    _, t = grid(4)
    t[[1, 1, 1]] += 10
    assert t.tolist() == [0, 11, 2, 3]


def test_index_writes_to_broadcast_view_accept_only_one_number() -> None:
    t = tx.arange(3)
    wide = t.expand((2, 3))
    with pytest.raises(ReadOnlyError):
        wide[[0, 1]] = tx.ones((2, 3))
    wide[[0, 1], 1] = 7
    assert t.tolist() == [0, 7, 2]
    wide[tx.asarray([[True, False, False], [False, False, True]])] = 9
    assert t.tolist() == [9, 7, 9]


def test_elements_of_view_chains_equal_numpy() -> None:
    a, t = grid(3, 4)
    for k in range(12):
        assert t.T.reshape(12)[k].item() == t.T.reshape(12)[k : k + 1].item() == a.T.reshape(12)[k]
        assert t.T.reshape(2, 6).T.reshape(12)[k, None].item() == a.T.reshape(2, 6).T.reshape(12)[k]


def test_assigning_an_out_of_bounds_number_leaves_the_tensor_unchanged() -> None:
    t = tx.zeros(4, dtype=tx.uint8)
    for key in (0, slice(None), [0, 1], t == 0, (..., None)):
        with pytest.raises(OutOfBounds, match="256"):
            t[key] = 256
    assert t.tolist() == [0, 0, 0, 0]


# oindex: an independent index for each axis


@st.composite
def orthogonal_keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    key: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        good = st.integers(-size, size - 1) if size else st.nothing()
        forms: list[st.SearchStrategy[Any]] = [st.none(), slices(size), st.lists(good, max_size=4 if size else 0)]
        if size:
            forms += [good, st.lists(st.booleans(), min_size=size, max_size=size)]
        key.append(draw(st.one_of(forms)))
    return tuple(key)


def orthogonal(a: Array, key: tuple[Any, ...]) -> tuple[tuple[Array, ...], tuple[int, ...]]:
    """Return NumPy's open mesh for an orthogonal key, and the axes that ints drop."""
    lists = []
    dropped = []
    for axis, size in enumerate(a.shape):
        item = key[axis] if axis < len(key) else None
        everything = np.arange(size)
        if item is None:
            chosen = everything
        elif isinstance(item, slice):
            chosen = everything[item]
        elif isinstance(item, int):
            chosen = everything[[item]]
            dropped.append(axis)
        else:
            chosen = everything[np.array(item, bool if item and isinstance(item[0], bool) else int)]
        lists.append(chosen)
    return np.ix_(*lists), tuple(dropped)


@settings(max_examples=300)
@given(st.data())
def test_oindex_reads_and_writes_an_open_grid(data: st.DataObject) -> None:
    a, t = data.draw(twins(min_ndim=1))
    key = data.draw(orthogonal_keys(a.shape))
    cells, dropped = orthogonal(a, key)
    view = t.oindex[key]
    wanted = a[cells].squeeze(dropped)
    assert view.storage is t.storage
    assert view.shape == wanted.shape
    assert view.tolist() == wanted.tolist()
    with_kept_axes = t.take_view(key, keepdims=True)
    assert with_kept_axes.shape == a[cells].shape
    a[cells] = 77
    t.oindex[key] = 77
    assert t.tolist() == a.tolist()
    assert view.tolist() == np.full(view.shape, 77).tolist()


def test_oindex_accepts_tensors_and_arrays_as_keys_and_values() -> None:
    a, t = grid(4, 5)
    t.oindex[tx.asarray([3, 0]), np.array([1, 4])] = tx.asarray([[10, 20], [30, 40]])
    a[np.ix_([3, 0], [1, 4])] = [[10, 20], [30, 40]]
    assert t.tolist() == a.tolist()
    t.oindex[[3, 0], 1] += 5
    a[[3, 0], 1] += 5
    assert t.tolist() == a.tolist()
    with pytest.raises(ReadOnlyError):
        t.oindex[[1, 1]] = tx.zeros((2, 5), dtype=tx.int64)
    with pytest.raises(IndexOutOfRange):
        t.oindex[[4]] = 0


def test_named_tuple_is_a_valid_key() -> None:
    class Place(NamedTuple):
        row: Any
        column: Any

    t, a = tx.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4)
    for key in ((1, 2), ([1, 2], [0, 3]), (slice(1), -1), (a[:, 0] > 1, 2), (..., [0, 1])):
        for _ in range(3):  # the first call is recorded, further calls are replayed
            assert np.asarray(t[Place(*key)]).tolist() == a[key].tolist()
            t[Place(*key)] = 7
            a[key] = 7
            assert t.tolist() == a.tolist()
