"""Updates of slices of new sizes run like those of known sizes: without Python, and with NumPy's bits."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ReadOnlyError

pytestmark = pytest.mark.usefixtures("on", "one_thread", "afresh")


def _column(a: Any, k: int) -> None:
    a[k + 1 :, k] /= a[k, k]


def _column_written(a: Any, k: int) -> None:
    a[k + 1 :, k] = a[k + 1 :, k] / a[k, k]


def _element_first(a: Any, k: int) -> None:
    a[k + 1 :, k] = a[k, k] - a[k + 1 :, k]


def _block(a: Any, k: int) -> None:
    a[k + 1 :, k + 1 :] = a[k, k]


def _row(a: Any, k: int) -> None:
    a[k, k + 1 :] -= a[k, k] * a[k + 1, k + 1 :]


def _number(a: Any, k: int) -> None:
    a[k + 1 :] *= 0.75


def _from_the_front(a: Any, k: int) -> None:
    a[: k + 1] += 0.5


def _outer(a: Any, k: int) -> None:
    a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]


def _outer_backwards(a: Any, k: int) -> None:
    a[k + 1 :, k + 1 :][::-1, ::-1] -= a[k + 1 :, k, None] * a[k, k + 1 :]


def _outer_turned(a: Any, k: int) -> None:
    a.T[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]


def _column_beside(a: Any, k: int) -> None:
    a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None]


def _itself(a: Any, k: int) -> None:
    a[k + 1 :, k + 1 :] *= a[k + 1 :, k + 1 :]


def _overlapping(a: Any, k: int) -> None:
    a[k + 1 :] += a[: -k - 1]


def _apart(a: Any, k: int) -> None:
    a[k + 1 :, : k + 1] += a[: -k - 1, : k + 1]


STEPS: dict[str, Callable[[Any, int], None]] = {
    f.__name__.strip("_"): f
    for f in (
        *(_column, _column_written, _element_first, _block, _row, _number, _from_the_front, _outer, _outer_backwards, _outer_turned),
        *(_column_beside, _itself, _overlapping, _apart),
    )
}
WITHOUT_PYTHON = ("column", "column_written", "element_first", "block", "row", "number", "from_the_front", "outer", "column_beside")


def numbers(side: int, dtype: str = "float64") -> Any:
    rng = np.random.default_rng(side)
    if dtype == "complex128":
        return rng.normal(size=(side, side)) + 1j * rng.normal(size=(side, side))
    return rng.normal(size=(side, side)).astype(dtype) if dtype[0] == "f" else rng.integers(0, 9, (side, side)).astype(dtype)


def bits(x: Any) -> bytes:
    return bytes((x.to_numpy() if isinstance(x, tx.Tensor) else x).tobytes())


def python_functions_in(run: Callable[[], object]) -> list[str]:
    """Return the Tenxor functions that run in Python."""
    found = []

    def see(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and "/tenxor/" in (name := frame.f_code.co_filename) and "/tests/" not in name:
            found.append(frame.f_code.co_name)

    gc.collect()
    sys.setprofile(see)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize(
    ("name", "side", "first"),
    [
        *[(name, 130, 86) for name in WITHOUT_PYTHON if name != "number"],  # of which parts become small on the way
        *[(name, 320, 2) for name in WITHOUT_PYTHON],
        *[(name, 700, 2) for name in WITHOUT_PYTHON if name not in ("column_beside", "block")],  # which are more than a block there
    ],
)
def test_slice_updates_of_new_sizes_run_no_python(name: str, side: int, first: int) -> None:
    """Slices are small, or larger than a memory block. A few sizes have a signature of their own and may run Python."""
    step, t = STEPS[name], tx.asarray(numbers(side)).realize()
    for k in range(first, first + 22):
        step(t, k)
    asked = [bool(python_functions_in(lambda k=k: step(t, k))) for k in range(first + 22, first + 36)]  # type: ignore[misc]
    assert sum(asked) <= 2, asked


@pytest.mark.parametrize(
    ("side", "dtype", "name"),
    [
        (side, dtype, name)
        for side, dtype in ((30, "float64"), (150, "float32"), (400, "float64"), (60, "complex128"), (90, "int64"))
        for name in STEPS
        if dtype != "int64" or name not in ("column", "column_written", "number", "from_the_front")  # which make floats
    ],
)
def test_slice_updates_of_new_sizes_equal_numpy(side: int, dtype: str, name: str) -> None:
    begin, a = numbers(side, dtype), numbers(side, dtype)
    t = tx.asarray(a).realize()
    for k in range(1, min(side - 3, 60)):
        t[...], a[...] = tx.asarray(begin), begin
        STEPS[name](t, k)
        STEPS[name](a, k)
        if dtype == "complex128":  # of which products are rounded otherwise
            np.testing.assert_allclose(t.to_numpy(), a, rtol=1e-12, atol=1e-12)
        else:
            assert bits(t) == bits(a), k


def test_slice_update_leaves_operands_and_earlier_results_unchanged() -> None:
    a = numbers(120) * 1e-2
    t = tx.asarray(a.copy()).realize()
    for k in range(2, 60):
        y, right = t[k:, k, None] * t[k, k:], a[k:, k, None] * a[k, k:]
        held, wanted = t[k:] * 2, a[k:] * 2
        t[k:, k:] -= y
        a[k:, k:] -= right
        assert [bits(t), bits(y), bits(held)] == [bits(a), bits(right), bits(wanted)]


def test_view_of_repeated_elements_is_read_only() -> None:
    for k in range(3, 30):
        x = tx.asarray(numbers(40)).realize()
        part = x[:1, :k].expand(2, k)
        before = bits(x)
        with pytest.raises(ReadOnlyError):
            part += x[:2, :k]
        with pytest.raises(ReadOnlyError):
            part[...] = part
        assert bits(x) == before


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16", "uint8", "bool", "complex64"])
def test_elements_as_operands_equal_numpy(dtype: str) -> None:
    """Elements are the first, the second, or two of three operands, and keep their dtype."""
    a = numbers(70, "int64") if dtype in ("bool", "int64", "int16", "uint8") else numbers(70)
    a = a.astype(dtype)
    t = tx.asarray(a.copy()).realize()
    for k in range(2, 60):
        one, its = t[k, k], a[k, k]
        column, right = t[k:, 1], a[k:, 1]
        assert bits(one * column) == bits(its * right) and bits(column + one) == bits(right + its)
        assert bits(column == one) == bits(right == its)
        assert bits(tx.where(column == one, one, column)) == bits(np.where(right == its, its, right))
        assert bits(tx.where(t[k:, 2] != one, column, one)) == bits(np.where(a[k:, 2] != its, right, its))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8", "bool", "complex64"])
def test_elements_assigned_to_slices_equal_numpy(dtype: str) -> None:
    """Slices have all sizes, and the dtype of the element or another one."""
    a = (numbers(60, "int64") if dtype in ("bool", "int64", "uint8") else numbers(60)).astype(dtype)
    w = np.zeros((60, 60), dtype=complex if dtype == "complex64" else float)
    t, other = tx.asarray(a.copy()).realize(), tx.asarray(w.copy()).realize()
    for k in range(2, 55):
        for x, y in ((t, other), (a, w)):
            x[k:, k] = x[0, k]
            x[k:, k:][::2] = x[1, k]
            y[k:, k] = x[2, 2]
            x[: k - 1, k] = x[3, 3:4]
        assert bits(t) == bits(a) and bits(other) == bits(w)


def test_expanded_elements_keep_their_shape_as_operands() -> None:
    a = numbers(40)
    t = tx.asarray(a.copy()).realize()
    for k in range(2, 35):
        one, its = t[k, k], a[k, k]
        row, right = one.expand(k), np.broadcast_to(its, (k,))
        point, other = one.expand_dims(0), its[None]
        for x, y in ((row, right), (point, other)):
            assert (t[0, :k] * x).tolist() == (a[0, :k] * y).tolist() and (x - t[0, :k]).tolist() == (y - a[0, :k]).tolist()
            assert (t[0, :1] + x).shape == (a[0, :1] + y).shape
            t[3, :k], a[3, :k] = x, y
        with pytest.raises(tx.errors.ShapeError):
            t[0, : k + 1] = one.expand(k)
        with pytest.raises(tx.errors.ShapeError):
            t[0, : k + 1] + one.expand(k)
        assert bits(t) == bits(a)


def test_written_or_tracked_elements_are_not_taken_for_constants() -> None:
    a = numbers(60)
    t = tx.asarray(a.copy()).realize()
    w = tx.asarray(a.copy()).requires_grad_()
    for k in range(2, 40):
        one = t[k, k]
        one += 1.0
        assert bits(t[k:, 1] * one) == bits(a[k:, 1] * (a[k, k] + 1.0))
        (t[k:, 1] * w[k, k]).sum().backward()
        expected = np.zeros_like(a)
        expected[k, k] = a[k:, 1].sum()
        np.testing.assert_allclose(w.grad.to_numpy(), expected, rtol=1e-12)
        w.grad = None


def test_repeated_slice_updates_keep_memory_and_reference_counts() -> None:
    t = tx.asarray(numbers(150) * 1e-3).realize()

    def every() -> None:
        for k in range(2, 60):
            for name in WITHOUT_PYTHON:
                if name != "from_the_front":
                    STEPS[name](t, k)

    every()
    every()
    gc.collect()
    before, objects = tx.memory().in_use, len(gc.get_objects())
    held = sys.getrefcount(tx.float64), sys.getrefcount(None), sys.getrefcount(t.storage.node.recipe)
    for _ in range(5):
        every()
    gc.collect()
    assert tx.memory().in_use <= before and len(gc.get_objects()) <= objects + 50
    after = sys.getrefcount(tx.float64), sys.getrefcount(None), sys.getrefcount(t.storage.node.recipe)
    if sys.version_info < (3, 12):  # from then on None is counted no more
        assert all([abs(x - y) < 200 for x, y in zip(after, held, strict=True)])


def _set_item(a: Any) -> None:
    a[0, -1] = 0.5


def _shift_rows(a: Any) -> None:
    a[1:] = a[:-1]


def _copy_column(a: Any) -> None:
    a[:, 0] = a[:, 1]


def _reverse_rows(a: Any) -> None:
    a[:] = a[::-1]


def _transpose(a: Any) -> None:
    a[:] = a.T


@pytest.mark.parametrize("is_pending", [False, True])
@pytest.mark.parametrize("write", [_set_item, _shift_rows, _copy_column, _reverse_rows, _transpose])
def test_writes_of_items_and_overlapping_views_run_no_python(write: Callable[[Any], None], is_pending: bool) -> None:
    base = numbers(20)
    source = tx.asarray(base).realize()

    def copy_and_write() -> Any:
        t = source * 1.0
        earlier = t[2:5] * 2.0
        write(t if is_pending else t.realize())
        return t, earlier

    for _ in range(6):
        copy_and_write()
    assert not python_functions_in(copy_and_write)
    t, earlier = copy_and_write()
    expected = base.copy()
    write(expected)
    assert bits(t) == bits(expected) and bits(earlier) == bits(base[2:5] * 2.0)
