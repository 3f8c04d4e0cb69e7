"""A tensor as the index of several axes, several times in an expression, or as index and data, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tenxor as tx
from tests.codegen.twins import check

Array = np.ndarray[Any, Any]
SIDE = 4


class Twin(tuple[Any, Any]):
    """A tensor and an array with equal elements; each operation is applied to both."""

    __slots__ = ()

    def then(self, step: Callable[..., Any], *operands: Twin) -> Twin:
        return Twin((step(tx, self[0], *[o[0] for o in operands]), step(np, self[1], *[o[1] for o in operands])))

    def same(self) -> None:
        np.testing.assert_array_equal(self[0].to_numpy(), self[1])


def twin(array: Array) -> Twin:
    return Twin((tx.asarray(array), array.copy()))


def square(ndim: int) -> Twin:
    return twin(np.arange(SIDE**ndim).reshape((SIDE,) * ndim))


# Forms of a single index: each form reads the node of the index, or is computed from it.
FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda lib, i: i,
    "again": lambda lib, i: i,
    "column": lambda lib, i: i[:, None],
    "row": lambda lib, i: i[None],
    "reversed": lambda lib, i: i[::-1],
    "pending": lambda lib, i: i + 0,
    "other": lambda lib, i: -1 - i,
    "gathered": lambda lib, i: i[i],
    "broadcast": lambda lib, i: lib.broadcast_to(i, (SIDE, SIDE)),
}


@st.composite
def keys(draw: st.DrawFn, ndim: int, i: Twin) -> Twin:
    """Draw a key of `ndim` axes in which forms of `i` repeat, as a pair of tuples for tensors and arrays."""
    items: list[tuple[Any, Any]] = []
    for _ in range(ndim):
        if draw(st.integers(0, 4)):
            name = draw(st.sampled_from(["itself", "itself", *FORMS]))
            items.append(i.then(FORMS[name]))
        else:
            basic = draw(st.sampled_from([slice(None), slice(None, None, -1), slice(None), 1, -1, slice(0, 3)]))
            items.append((basic, basic))
    for extra in draw(st.lists(st.sampled_from([None, Ellipsis]), max_size=1)):
        items.insert(draw(st.integers(0, ndim)), (extra, extra))
    return Twin((tuple(p[0] for p in items), tuple(p[1] for p in items)))


@st.composite
def indices(draw: st.DrawFn) -> Twin:
    numbers = draw(st.lists(st.integers(-SIDE, SIDE - 1), min_size=SIDE, max_size=SIDE))
    result = twin(np.array(numbers))
    return Twin((result[0] * 1, result[1])) if draw(st.booleans()) else result


def read(lib: Any, x: Any, key: Any) -> Any:
    return x[key]


USES: list[Callable[[Any, Any], Any]] = [
    lambda lib, x: x,
    lambda lib, x: x * x + 1,
    lambda lib, x: x[..., ::-1][..., 1:] if x.ndim else x,
    lambda lib, x: x.sum(),
    lambda lib, x: x.sum(0) if x.ndim else x,
    lambda lib, x: x.max(-1) - 1 if x.ndim else x,
    lambda lib, x: x - x.sum(-1, keepdims=True) if x.ndim else x,
    lambda lib, x: x.reshape(-1).T,
    lambda lib, x: x.T.reshape(-1) * 2,
]


@settings(max_examples=200)
@given(st.data())
def test_key_with_a_repeated_index_equals_numpy(data: st.DataObject) -> None:
    i = data.draw(indices())
    ndim = data.draw(st.integers(1, 4))
    x = square(ndim)
    if data.draw(st.booleans()):
        x = x.then(lambda lib, x: (x + 5).T[::-1])
    x.then(read, data.draw(keys(ndim, i))).then(data.draw(st.sampled_from(USES))).same()


@settings(max_examples=120)
@given(st.data())
def test_several_gathers_by_one_index_equal_numpy(data: st.DataObject) -> None:
    i = data.draw(indices())
    total = None
    for _ in range(data.draw(st.integers(2, 3))):
        ndim = data.draw(st.integers(1, 3))
        part = square(ndim).then(read, data.draw(keys(ndim, i))).then(data.draw(st.sampled_from(USES)))
        part = part.then(lambda lib, x: x.sum() if x.ndim > 1 or x.shape not in ((), (SIDE,)) else x)
        combine = data.draw(st.sampled_from([lambda lib, a, b: a * b - a, lambda lib, a, b: lib.where(a > b, b, a + 1)]))
        total = part if total is None else total.then(combine, part)
    assert total is not None
    total.same()


@settings(max_examples=120)
@given(st.data())
def test_nested_gathers_by_one_index_equal_numpy(data: st.DataObject) -> None:
    i = data.draw(indices())
    x = square(data.draw(st.integers(2, 3)))
    for _ in range(data.draw(st.integers(2, 3))):
        if not 0 < x[1].ndim < 5 or set(x[1].shape) != {SIDE}:
            break
        x = x.then(read, data.draw(keys(x[1].ndim, i)))
    x.same()


@settings(max_examples=200)
@given(st.data())
def test_writes_through_a_repeated_index_equal_numpy(data: st.DataObject) -> None:
    i = data.draw(st.permutations(range(SIDE)).map(lambda p: twin(np.array(p))))
    ndim = data.draw(st.integers(1, 3))
    x = square(ndim)
    key = data.draw(keys(ndim, i))
    value = x.then(read, key).then(lambda lib, v: v * 10 + 1)
    x[0][key[0]] = value[0]
    x[1][key[1]] = value[1]
    if data.draw(st.booleans()):
        x[0][key[0]] += 3
        x[1][key[1]] += 3
    x.same()


@pytest.mark.parametrize("shape", [(SIDE,), (SIDE, SIDE)])
def test_tensor_indexed_by_itself_equals_numpy(shape: tuple[int, ...]) -> None:
    x = twin(np.random.default_rng(3).integers(-SIDE, SIDE, shape))
    forms: list[Callable[[Any, Any], Any]] = [
        lambda lib, x: x[x],
        lambda lib, x: x[x][x],
        lambda lib, x: x[x[x]],
        lambda lib, x: x[x] + x,
        lambda lib, x: lib.take_along_axis(x, x % SIDE, axis=0),
        lambda lib, x: lib.take_along_axis(x, x % SIDE, axis=-1) * x[x].sum(),
    ]
    if len(shape) == 2:
        forms += [
            lambda lib, x: x[x, x],
            lambda lib, x: x[x, x][x, x],
            lambda lib, x: x[x[:, 0], x[0]] + x.T[x[0], x[0]],
        ]
    for form in forms:
        x.then(form).same()
        x.then(lambda lib, x: x + 0).then(form).same()


def test_gathers_by_a_constant_index_equal_numpy() -> None:
    """The index has equal values in every loop, also in the loop of a second gather by it."""
    x = square(2)
    two = Twin((tx.full((SIDE,), 2), np.full((SIDE,), 2)))
    x.then(lambda lib, x, i: lib.take_along_axis(x[i], i[:, None], axis=1), two).same()
    x.then(lambda lib, x, i: x[i, i] + x[i][:, i].sum(), two).same()
    x.then(lambda lib, x, i: x[i][:, i][i], two).same()


def test_products_and_reductions_of_gathers_equal_numpy() -> None:
    x, i = square(2), twin(np.array([3, -4, 3, 1]))
    x = x.then(lambda lib, x: x * 1.0)
    for form in (
        lambda lib, x, i: x[i] @ x[:, i],
        lambda lib, x, i: x[i][:, i] @ x[i, i],
        lambda lib, x, i: (x[i[:, None], i[None]] * x[i[None], i[:, None]]).sum(1),
        lambda lib, x, i: (x[:, None] - x[i][None]).max(-1)[i, i],
        lambda lib, x, i: (x[i, i][:, None] * x[i]).sum(0) + x[i, i],
        lambda lib, x, i: lib.stack([x[i, i], x[i[::-1], i]]).sum(0),
    ):
        x.then(form, i).same()


@pytest.mark.parametrize("count", [1, 7, 64, 5000])
def test_gathers_by_repeated_index_agree_on_both_back_ends_and_numpy(count: int) -> None:
    numbers = np.random.default_rng(count).integers(-7, 7, count)
    a = np.random.default_rng(1).normal(size=(7, 7, 7))
    t, i = tx.asarray(a), tx.asarray(numbers)
    for result, expected in (
        (t[i, i], a[numbers, numbers]),
        (t[i, i, i], a[numbers, numbers, numbers]),
        (t[:, i, i] + t[i, i].T, a[:, numbers, numbers] + a[numbers, numbers].T),
        (t[i + 0, :, i].sum(1), a[numbers, :, numbers].sum(1)),
    ):
        np.testing.assert_allclose(result.copy().to_numpy(), expected, rtol=1e-14)
        check(result.node)
