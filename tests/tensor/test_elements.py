"""Single elements, as in NumPy: as many integers as axes give a value that later writes do not change; an added Ellipsis gives a view."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tenxor as tx
from tenxor.errors import DTypeError, IndexOutOfRange, ReadOnlyError, ShapeError
from tenxor.graph.storage import ScalarStorage

Array = np.ndarray[Any, Any]
NUMBERS: dict[str, Any] = {
    "bool": [True, False],
    "int8": [-128, 127],
    "uint64": [2**64 - 1, 0],
    "int64": [-(2**63), 2**63 - 1],
    "float16": [0.1, -65504.0],
    "bfloat16": [0.15625, -3.0],
    "float32": [0.1, float("inf")],
    "float64": [0.1, -0.0],
    "complex64": [0.1 + 2j, -1j],
    "complex128": [0.1 + 2j, complex(float("inf"), -0.0)],
}


# Programs that run on tensors and on arrays


def swapped(x: Any) -> Any:
    x[0], x[1] = x[1], x[0]
    return x


def sorted_by_insertion(x: Any) -> Any:
    for i in range(1, len(x)):
        key, j = x[i], i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key
    return x


def normalised(x: Any) -> Any:
    first = x[0]
    x /= first
    return x * 1 + first


def history(x: Any) -> Any:
    result = []
    for _ in range(3):
        result.append(x[0])
        x[0] += x[1] * 2
    return result[0] + 10 * result[1] + 100 * result[2]


def running_sum_by_iteration(x: Any) -> Any:
    total = 0
    for e in x:
        x[-1] = e
        total = total * 3 + e
    return total + x[-1]


def last_is_the_largest(x: Any) -> Any:
    best = x[0]
    for e in x:
        if e > best:
            best = e
    x[...] = 0
    return best + x


def unpacked(x: Any) -> Any:
    a, b, *rest = x
    x[:] = -1
    return a - b + sum(rest)


def in_place_on_a_value(x: Any) -> Any:
    e = x[1]
    e += 5
    f = e
    e = e * 2
    return x + f - e


def through_a_view_of_one_element(x: Any) -> Any:
    view, value = x[1, ...], x[1]
    x[1] = 50
    view[...] += 1
    return view - value + x


PROGRAMS: list[Callable[[Any], Any]] = [
    swapped,
    sorted_by_insertion,
    normalised,
    history,
    running_sum_by_iteration,
    last_is_the_largest,
    unpacked,
    in_place_on_a_value,
    through_a_view_of_one_element,
]
FORMS: dict[str, Callable[[Any], Any]] = {
    "in memory": lambda t: t,
    "pending": lambda t: t + 0,
    "reversed": lambda t: t[::-1],
    "gathered": lambda t: t.oindex[[3, 0, 4, 1, 2]],
    "a chain": lambda t: t[:4].reshape(2, 2).T.reshape(4),
    "a column": lambda t: tx.stack([t, t], axis=1)[:, 1],
    "shared": lambda t: tx.asarray(t.to_numpy(), copy=False),
    "exported": lambda t: (t, np.asarray(t))[0],
    "a real part": lambda t: (t + 1j).real,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_that_use_elements_equal_numpy(program: Callable[[Any], Any], form: str) -> None:
    t = FORMS[form](tx.asarray([5.0, 3.0, -1.0, 8.0, 2.0]))
    a = t.to_numpy()
    if form == "pending":
        t = FORMS[form](tx.asarray([5.0, 3.0, -1.0, 8.0, 2.0]))
    result, expected = program(t), program(a)
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-15)
    np.testing.assert_allclose(t.to_numpy(), a, rtol=1e-15)


# Values


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("pending", [False, True])
def test_elements_of_every_dtype_keep_their_value(name: str, pending: bool) -> None:
    t = tx.asarray(NUMBERS[name], dtype=name)
    expected, bits = t.tolist(), t.copy().tobytes()
    if pending:
        t = tx.where(tx.asarray([True, True]), t, t)
    for uses in (
        lambda e: repr(e.item()),
        lambda e: repr(e.tolist()),
        lambda e: repr(e.to_numpy().item()),
        lambda e: repr(tx.where(True, e, e).item()),
        lambda e: repr(e.copy().realize().item()),
        lambda e: repr(e.reshape(1).tolist()[0]),
        lambda e: repr(pickle.loads(pickle.dumps(e)).item()),
        lambda e: repr(copy.deepcopy(e).item()),
    ):
        assert [uses(t[0]), uses(t[-1])] == [repr(x) for x in expected]
    assert tx.stack([t[0], t[1]]).tobytes() == bits
    assert t[0].dtype is t.dtype
    assert t[0].shape == ()
    u = tx.zeros(2, dtype=name)
    u[0], u[1] = t[0], t[1]
    assert repr(u.tolist()) == repr(expected)
    t[0] = t[1]
    assert repr(t.tolist()) == repr(expected[1:] * 2)


def test_integer_keys_give_values_and_keys_with_ellipsis_give_views() -> None:
    t = tx.arange(6).reshape(2, 3)
    for key in ((1, 2), (-1, -1), (np.int8(1), 2), (tx.asarray(1), tx.asarray(2)), (np.array(1), np.uint64(2))):
        assert t[key].storage is not t.storage
        assert t[key].item() == 5
    for key in ((1, 2, ...), (..., 1, 2), (1, ..., 2), (1, np.int8(2), ...)):
        assert t[key].storage is t.storage
        assert t[key].shape == ()
    assert t[1].storage is t[1, None, 2].storage is t.oindex[1, 2].storage is t.take_view(1, 2).storage is t.storage
    zero_d = t[0, 0, ...]
    assert zero_d[()].storage is not t.storage
    assert zero_d[...].storage is zero_d.storage
    assert t[True, 1, 2].shape == (1,)
    for key in ((2, 0), (0, -4), (0, 0, 0)):
        with pytest.raises(IndexOutOfRange):
            t[key]


def test_writes_to_an_element_do_not_change_its_source() -> None:
    t = tx.arange(3)
    e = t[1]
    view = e.reshape(1, 1)
    e += 41
    view *= 2
    e[...] = e + 1
    assert (e.item(), view.tolist(), t.tolist()) == (85, [[85]], [0, 1, 2])
    array = np.asarray(e)
    array[...] = 7
    assert e.item() == 7
    assert e.expand(2).tolist() == [7, 7]
    with pytest.raises(ShapeError, match="2 elements"):
        t[0].expand(2).item()
    with pytest.raises(IndexOutOfRange):
        t[0].item(0)


def test_in_place_operation_on_a_view_of_an_element_changes_the_element_only() -> None:
    t = tx.asarray([1, 2])
    first_element, second_element = t[0], t[0]
    wide, row = first_element.expand(2), second_element.reshape(1)
    with pytest.raises(ReadOnlyError):
        wide += tx.asarray([1, 2])
    with pytest.raises(DTypeError):
        first_element += 0.5
    row += 5
    assert (first_element.item(), wide.tolist(), second_element.item(), row.tolist(), t.tolist()) == (1, [1, 1], 6, [6], [1, 2])
    alias = second_element[...]
    second_element *= 2
    alias -= 1
    assert (second_element.item(), row.tolist()) == (11, [11])
    held = t[1]
    held_view = held.reshape(())
    held += 1
    held_view += held
    assert (held.item(), t[1].item()) == (6, 2)


def test_element_can_be_viewed_as_another_dtype() -> None:
    z = tx.asarray([1 + 2j, 3 - 4j])
    e = z[1]
    assert (e.real.item(), e.imag.item(), z.imag[0].item(), z.real[1].item()) == (3.0, -4.0, 2.0, 3.0)
    e.real[...] = 9
    assert (e.item(), z.tolist()) == (9 - 4j, [1 + 2j, 3 - 4j])
    x = tx.asarray([1.0, -2.0], dtype=tx.float32)
    assert x.view(tx.uint32)[0].item() == x[0].view(tx.uint32).item() == 0x3F800000
    pending = (x * 2).view(tx.uint32)
    assert pending[0].item() == (x * 2)[0].view(tx.uint32).item() == 0x40000000


# Memory and evaluation


@pytest.mark.large
def test_elements_do_not_keep_their_source_alive() -> None:
    t = tx.ones((1 << 20,)).realize()
    gc.collect()
    before = tx.memory().in_use
    values = [t[k] for k in range(100)]
    assert tx.memory().in_use == before
    computed = [v + 1 for v in values]
    del t
    gc.collect()
    assert before - tx.memory().in_use >= 8 << 20
    assert sum(v.item() for v in computed) == 200


def test_elements_of_a_pending_tensor_keep_their_values_after_writes() -> None:
    t = tx.arange(5) * 3
    value, later, half = t[2], t[3] + 1, t[4]
    t[2] = t[3] = 100
    assert (later / 2).storage.node.buffer is None
    assert (value.item(), later.item(), t.tolist()) == (6, 10, [0, 3, 100, 100, 12])
    assert half.item() == 12


def test_item_evaluates_the_whole_pending_source() -> None:
    t = tx.arange(100) * 3 + 1
    elements = list(t)
    assert elements[0].item() == 1
    assert t.storage.node.buffer is not None
    assert [e.item() for e in elements] == list(range(1, 301, 3))


def test_long_chains_of_elements_give_exact_results() -> None:
    x = tx.ones(3)
    for _ in range(500):
        x = x + x[0] * 0
        x = x * 1
    assert x.tolist() == [1, 1, 1]
    total = tx.zeros(())
    for e in tx.arange(1000) + 1:
        total = total + e
    assert total.item() == 500500


def test_elements_of_shared_memory_are_read_at_the_call() -> None:
    a = np.arange(3.0)
    t = tx.asarray(a, copy=False)
    value, view = t[1], t[1, ...]
    a[1] = 50
    assert (value.item(), view.item(), t[1].item()) == (1.0, 50.0, 50.0)
    t[1], t[2] = t[2], t[1]
    assert a.tolist() == [0.0, 2.0, 50.0]
    t[0] += t[1]
    assert a.tolist() == [2.0, 2.0, 50.0]


def test_pending_element_ignores_writes_through_a_later_export() -> None:
    t = tx.arange(3) + 1
    value = t[1]
    np.asarray(t)[1] = 50
    assert (value.item(), t[1].item()) == (2, 50)


def test_element_operand_reuses_the_kernel_for_python_numbers() -> None:
    x, factors = tx.ones(8).realize(), tx.asarray([2.0, 3.0])
    (x * 2.0).realize()
    before = tx.compile_counts()
    result = (x * factors[1]).realize()
    assert tx.compile_counts() == before
    assert result.tolist() == [3.0] * 8


def test_element_keeps_its_dtype_in_promotion() -> None:
    wide = tx.asarray([2.0], dtype=tx.float64)
    assert (tx.ones(2, dtype=tx.float32) * wide[0]).dtype is tx.float64  # no Python number
    assert (tx.ones(2, dtype=tx.int8) + tx.asarray([300])[0]).tolist() == [301, 301]
    assert (tx.asarray([200], dtype=tx.uint8)[0] + 100).item() == 44


def test_map_captures_the_present_value_of_elements() -> None:
    weights = tx.asarray([2.0, 3.0])
    pending = weights * 2
    result = tx.map(lambda x: x[()] * weights[1] + pending[0], tx.asarray([1.0, 2.0]))
    weights[1] = 0
    assert result.tolist() == [7.0, 10.0]


def test_iteration_and_unbind_give_elements_or_row_views() -> None:
    v, m = tx.arange(3), tx.arange(6).reshape(2, 3)
    for items in (list(v), v.unbind(), tx.unstack(v), v.unstack(-1)):
        assert all(p.storage is not v.storage and p.shape == () for p in items)
        assert [p.item() for p in items] == [0, 1, 2]
    for items in (list(m), m.unbind(), tx.unstack(m, axis=0)):
        assert all(p.storage is m.storage for p in items)
    assert [p.tolist() for p in m.unbind(1)] == [[0, 3], [1, 4], [2, 5]]
    assert all(p.storage is m.storage for p in m.unbind(1))
    assert list(tx.zeros(0)) == []


def test_element_storage_reports_its_properties() -> None:
    storage = tx.asarray([0, 1, 2], dtype=tx.int8)[2].storage
    assert isinstance(storage, ScalarStorage)
    assert (storage.dtype, storage.size, storage.nbytes, storage.tolist()) == (tx.int8, 1, 1, [2])
    with pytest.raises(AttributeError, match="nodes"):
        storage.nodes


@settings(max_examples=100)
@given(st.data())
def test_elements_keep_their_values_across_random_writes(data: st.DataObject) -> None:
    """Elements are read between random writes, by item() or in arithmetic, and compared at the end."""
    a = np.arange(12).reshape(3, 4)
    t = tx.asarray(a)
    a, t = data.draw(st.sampled_from([(a, t), (a.T[::-1], t.T[::-1]), (a.T.reshape(-1), t.T.reshape(-1)), (a + 1, t + 1)]))
    a = a.copy()
    values: list[tuple[Any, Any]] = []
    for _ in range(data.draw(st.integers(2, 8))):
        key = tuple(data.draw(st.integers(-n, n - 1)) for n in a.shape)
        second_key = tuple(data.draw(st.integers(-n, n - 1)) for n in a.shape)
        match data.draw(st.sampled_from(["read", "read", "add", "write", "swap", "whole", "look", "copy"])):
            case "read":
                values.append((a[key], t[key]))
            case "add":
                a[key] += a[second_key]
                t[key] += t[second_key]
            case "write":
                a[key], t[key] = a[second_key] * 2, t[second_key] * 2
            case "swap":
                a[key], a[second_key] = a[second_key], a[key]
                t[key], t[second_key] = t[second_key], t[key]
            case "whole":
                values.append((a[key] + 1, t[key] + 1))
                a[...] = a + a[second_key]
                t[...] = t + t[second_key]
            case "look":
                assert t[key].item() == a[key]
            case "copy":
                values.append((a[key], t[key].copy()))
    assert [k[1].item() for k in values] == [k[0] for k in values]
    assert t.tolist() == a.tolist()
