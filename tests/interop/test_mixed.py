"""NumPy functions on arrays and tensors together, arrays of other libraries, and array subclasses."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import DTypeError, ShapeError


def test_numpy_functions_write_tensors_into_arrays() -> None:
    t, there = tx.asarray([7.0, 8.0]), tx.asarray([0, 2])
    a = np.zeros(3)
    np.put(a, there, t)
    assert a.tolist() == [7.0, 0.0, 8.0]
    np.putmask(a, tx.asarray([False, True, True]), t)
    assert a.tolist() == [7.0, 8.0, 7.0]
    np.copyto(a[1:], t)
    np.copyto(dst=a[:1], src=t[1:])
    assert a.tolist() == [8.0, 7.0, 8.0]


def test_matmul_choose_and_linspace_accept_tensors() -> None:
    t = tx.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert np.linalg.matmul(t, t[0]).tolist() == [5.0, 11.0] and isinstance(np.linalg.matmul(np.eye(2), t), tx.Tensor)
    chosen = np.choose(tx.asarray([[True, False], [False, False]]), t)  # False and True are the first and the second choice
    assert chosen.tolist() == [[3.0, 2.0], [1.0, 2.0]]
    assert np.linspace(t, 5.0, 0).shape == (0, 2, 2)


def test_clip_with_where_and_out_writes_selected_elements() -> None:
    t, some = tx.asarray([-1.0, 5.0, 9.0]), np.array([True, False, True])
    out = tx.zeros(3)
    assert np.clip(t, 0, 4, out=out, where=some) is out and out.tolist() == [0.0, 0.0, 4.0]
    assert tx.clip(t, 0, 4, out=t, where=tx.asarray(some)).tolist() == [0.0, 5.0, 4.0]


def pytorchs(values: Any) -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[interop]'").tensor(values)


def jaxs(values: Any) -> Any:
    return pytest.importorskip("jax.numpy", reason="JAX is not installed: pip install '.[interop]'").asarray(values)


@pytest.mark.parametrize("made", [pytorchs, jaxs])
def test_arrays_of_other_libraries_are_indices(made: Callable[[Any], Any]) -> None:
    t, model = tx.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4)
    rows, mask = made([2, 0]), made([True, False, True])
    assert t[rows].tolist() == model[[2, 0]].tolist() and t[rows, 1].tolist() == model[[2, 0], 1].tolist()
    assert t[mask].tolist() == model[[True, False, True]].tolist() and t[made(1)].tolist() == model[1].tolist()
    assert t.oindex[rows, :2].tolist() == model[[2, 0], :2].tolist()
    t[rows] = 0
    t[mask, 1] += 7
    model[[2, 0]] = 0
    model[[True, False, True], 1] += 7
    assert t.tolist() == model.tolist()
    with pytest.raises(IndexError, match="indices are integers or booleans, not float32"):
        t[made([0.5])]


@pytest.mark.parametrize("made", [pytorchs, jaxs])
def test_lists_of_arrays_of_other_libraries_become_tensors(made: Callable[[Any], Any]) -> None:
    one, other = made([1, 2]), made([3, 4])
    found = tx.asarray([one, other])
    assert found.tolist() == [[1, 2], [3, 4]] and found.dtype == np.asarray(one).dtype
    assert tx.asarray([[one], [tx.asarray([5.0, 6.0])]]).tolist() == [[[1.0, 2.0]], [[5.0, 6.0]]]
    assert tx.asarray([made(1.5), 2.0]).tolist() == [1.5, 2.0] and tx.asarray([one, [7, 8]], dtype=tx.int8).tolist() == [[1, 2], [7, 8]]
    with pytest.raises(ShapeError):
        tx.asarray([one, made([1, 2, 3])])


def test_lists_of_pytorch_tensors_that_require_grad_raise() -> None:
    one = pytorchs([1.0, 2.0]).requires_grad_()
    with pytest.raises(DTypeError, match=r"asarray: Tensor of torch\.float32 does not show its elements to NumPy"):
        tx.asarray([one, one])


@pytest.mark.parametrize("made", [pytorchs, jaxs])
def test_arrays_of_other_libraries_are_no_operands(made: Callable[[Any], Any]) -> None:
    t, other = tx.asarray([1.0, 2.0]), made([1.0, 2.0])
    calls: list[Callable[[], Any]] = [
        *(lambda: t + other, lambda: other + t, lambda: t == other, lambda: t != other, lambda: t < other, lambda: t @ other),
        *(lambda: tx.add(t, other), lambda: divmod(t, other), lambda: t.__iadd__(other), lambda: t[:1].__setitem__(0, other)),
    ]
    for call in calls:
        for _ in range(3):  # also where machine code computes
            with pytest.raises(DTypeError, match=r"cannot compute with a (torch\.Tensor|jaxlib\.\w+) and a tensor; tx\.asarray"):
                call()
    assert (t + tx.asarray(other)).tolist() == [2.0, 4.0]


class Metres(np.ndarray[Any, Any]):
    """An array with a unit that its own multiplication keeps, and drops everything else."""

    unit = "m"

    def __mul__(self, other: Any) -> Any:
        return (np.asarray(self) * np.asarray(other)).view(Metres)

    __rmul__ = __mul__


class Counts(np.ndarray[Any, Any]):
    """An array that decides about ufuncs."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return np.asarray(getattr(ufunc, method)(*[np.asarray(x) for x in inputs], **options)).view(Counts)


BINARY = [
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
    *(operator.eq, operator.ne, operator.lt, operator.ge, divmod, np.multiply, np.arctan2, np.greater),
]
SUBCLASSES: dict[str, Callable[[Any], Any]] = {
    "masked": lambda values: np.ma.masked_array(values, [False, True, False]),
    "with a unit": lambda values: np.array(values).view(Metres),
    "with rules for ufuncs": lambda values: np.array(values).view(Counts),
}


@pytest.mark.parametrize("kind", SUBCLASSES)
@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_array_subclasses_decide_about_operators_in_either_order(function: Any, kind: str) -> None:
    """A tensor acts as an array would. Calls repeat, so that the fast path has recorded the operation with plain arrays."""
    values = [1.5, 2.0, 4.0]
    t, plain, special = tx.asarray(values), np.array(values), SUBCLASSES[kind]([3.0, 2.0, 1.0])
    for _ in range(3):
        function(t, plain), function(t, 2.0)
        for found, wanted in ((function(t, special), function(plain, special)), (function(special, t), function(special, plain))):
            for one, other in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, wanted)], strict=True):
                assert type(one) is type(other) and repr(one) == repr(other)


def test_array_subclasses_are_not_written_into_tensors_by_operators() -> None:
    t = tx.asarray([1.0, 2.0])
    for _ in range(2):
        for name in ("iadd", "imul", "ipow", "imatmul"):
            with pytest.raises(DTypeError, match=r"^in-place \w+: cannot write a MaskedArray into a tensor; use np.asarray"):
                getattr(operator, name)(t, np.ma.masked_array([1.0, 2.0], [True, False]))
    assert t.tolist() == [1.0, 2.0]


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_products_of_tensors_are_tensors_with_memory_maps_and_matrices_with_matrices(tmp_path: Path) -> None:
    t = tx.asarray([[1.0, 2.0], [3.0, 4.0]])
    mapped = np.memmap(tmp_path / "x", dtype=float, shape=(2, 2), mode="w+")
    mapped[...] = 2.0
    assert isinstance(t * mapped, tx.Tensor) and isinstance(mapped * t, tx.Tensor)  # they are arrays like others
    matrix = np.asmatrix(np.array([[0.0, 1.0], [1.0, 0.0]]))
    product, total = t * matrix, t + matrix
    assert isinstance(product, np.matrix) and product.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert isinstance(total, np.matrix) and total.tolist() == [[1.0, 3.0], [4.0, 4.0]]
    with pytest.raises(TypeError, match="matrix"):
        matrix * t  # which would be a product by elements, as matrices leave it to tensors
