"""Tensors joined by the fast path: the results equal NumPy's, reference counts stay, and unusual pieces take the fallback."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor import fastpath
from tenxor._utils import upcalls
from tenxor._utils.upcalls import CopyFunctions

Array = np.ndarray[Any, Any]
DTYPES = (tx.float64, tx.float32, tx.float16, tx.bfloat16, tx.int64, tx.int8, tx.uint16, tx.uint64, tx.bool, tx.complex64)


class Counting:
    """The copying functions of the fast path, with a count of the successful copies."""

    def __init__(self, copier: CopyFunctions) -> None:
        self.copier, self.copy_count = copier, 0

    def specs(self, *args: Any) -> bool:
        return self.copier.write_spec_addresses(*args)

    def copy(self, *args: Any) -> bool:
        is_copied = self.copier.copy_rows(*args)
        self.copy_count += is_copied
        return is_copied

    def copy_alike(self, *args: Any) -> bool:
        is_copied = self.copier.copy_equal_specs(*args)
        self.copy_count += is_copied
        return is_copied


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    if upcalls.installed is None:
        pytest.skip(f"there is no fast path: {fastpath.state}")
    result = Counting(upcalls.installed.copy_functions)
    monkeypatch.setattr(fastpath.fast_path, "copy_functions", CopyFunctions(result.specs, result.copy, result.copy_alike))
    yield result


def tensors(arrays: list[Array], dtypes: tuple[tx.DType, ...] = (tx.float64,)) -> list[tx.Tensor]:
    return [tx.asarray(a).astype(dtypes[k % len(dtypes)]).realize() for k, a in enumerate(arrays)]


def arrays_of(shapes: list[tuple[int, ...]]) -> list[Array]:
    return [(np.arange(np.prod(shape)).reshape(shape) + k) % 2 for k, shape in enumerate(shapes)]


def element_tensors(dtype: tx.DType, count: int) -> list[tx.Tensor]:
    row = tx.asarray(np.arange(count) % 2).astype(dtype).realize()
    return [row[k] for k in range(count)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_concat_of_one_dtype_is_copied_by_the_fast_path(dtype: tx.DType, counting: Counting) -> None:
    for shapes, axis in (([(3, 2)] * 5, 0), ([(3, 2)] * 5, 1), ([(3, k) for k in range(6)], 1), ([(k, 2) for k in range(6)], None)):
        arrays = arrays_of(shapes)  # type: ignore[arg-type]
        result, expected = tx.concat(tensors(arrays, (dtype,)), axis=axis), np.concatenate(arrays, axis=axis)
        assert result.dtype is dtype and result.tolist() == expected.astype(complex if dtype is tx.complex64 else float).tolist()
    assert counting.copy_count == 4


@pytest.mark.parametrize("dtypes", [DTYPES[:3], (tx.bool, tx.int8, tx.int64), (tx.complex64, tx.float64)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_joins_of_several_dtypes_are_copied_by_the_fast_path(dtypes: tuple[tx.DType, ...], axis: int, counting: Counting) -> None:
    arrays = arrays_of([(2, 3)] * 20)
    pieces = tensors(arrays, dtypes)
    stacked = tx.stack(pieces, axis=axis)
    assert stacked.dtype is tx.result_type(*dtypes)
    assert stacked.tolist() == np.stack(arrays, axis=axis).astype(stacked.dtype.numpy).tolist()
    if axis < 2:
        assert tx.concat(pieces, axis=axis).tolist() == np.concatenate(arrays, axis).astype(stacked.dtype.numpy).tolist()
    lengths = arrays_of([(k % 4, 3) for k in range(20)])
    for along in (0, None):
        expected = np.concatenate(lengths, along).astype(stacked.dtype.numpy)
        assert tx.concat(tensors(lengths, dtypes), axis=along).tolist() == expected.tolist()
    assert counting.copy_count == (4 if axis < 2 else 3)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in (tx.float16, tx.bfloat16, tx.uint64, tx.complex64)], ids=str)
def test_known_scalars_are_joined_by_the_fast_path(dtype: tx.DType, counting: Counting) -> None:
    for make in (tx.asarray, tx.stack):
        result = make(element_tensors(dtype, 7))  # type: ignore[operator]
        assert result.dtype is dtype and result.tolist() == [0, 1, 0, 1, 0, 1, 0]
    elements = element_tensors(dtype, 3)
    assert elements[1].storage.node.buffer is not None  # reading `buffer` gives the element memory
    assert tx.stack([*elements, tx.asarray(1).astype(dtype).realize()]).tolist() == [0, 1, 0, 1]
    # `asarray` writes the numbers of float64, int64 and bool without a join
    assert counting.copy_count == (2 if dtype in (tx.float64, tx.int64, tx.bool) else 3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_asarray_joins_scalars_of_every_dtype(dtype: tx.DType) -> None:
    assert tx.asarray(element_tensors(dtype, 7)).tolist() == [0, 1, 0, 1, 0, 1, 0]


def test_stack_of_reinterpreted_scalars_uses_their_bits() -> None:
    bits = tx.asarray([1.0, 2.0])[0].view(tx.int64)
    assert tx.stack([bits, bits]).tolist() == [np.float64(1.0).view(np.int64)] * 2


def test_joined_views_are_read_at_their_offsets(counting: Counting) -> None:
    m = tx.asarray(np.arange(24.0).reshape(6, 4)).realize()
    rows = [m[k] for k in (3, 0, 5)]
    assert tx.stack(rows).tolist() == m.numpy()[[3, 0, 5]].tolist()
    assert tx.stack([m.view(tx.int64)[k] for k in (1, 2)]).view(tx.float64).tolist() == m.numpy()[1:3].tolist()
    assert tx.concat([m[0, 1:3], m[2, :1], m[5]]).tolist() == [1, 2, 8, 20, 21, 22, 23]
    assert counting.copy_count == 3


def _subclass(t: tx.Tensor) -> tx.Tensor:
    class Subclass(tx.Tensor):
        pass

    return Subclass(t.storage, t.layout, t.dtype)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t[::-1],
        lambda t: t[0].expand(2, 2),
        lambda t: (t + 1) - 1,
        lambda t: t.T.T[:, ::-1][:, ::-1] * 1,
        lambda t: t.copy().requires_grad_(),
        lambda t: t.copy().requires_grad_() * 1,
        _subclass,
        lambda t: t.numpy(),
    ],
)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_joins_with_one_unusual_piece_equal_numpy(change: Callable[[tx.Tensor], Any], position: int) -> None:
    plain_pieces = [tx.asarray([[1.0, 2.0], [3.0, 4.0]]).realize() + k for k in range(3)]
    pieces = [t.realize() for t in plain_pieces]
    pieces[position] = change(pieces[position])
    expected = np.stack([np.asarray(p.tolist()) for p in pieces])
    for result in (tx.stack(pieces), tx.asarray(pieces), tx.concat(pieces).reshape(3, 2, 2)):
        assert result.tolist() == expected.tolist()
    if getattr(pieces[position], "requires_grad", False):
        assert tx.stack(pieces).requires_grad


def test_joins_keep_reference_counts(counting: Counting) -> None:
    row = tx.asarray(np.arange(6.0)).realize()
    pieces = [*tensors(arrays_of([(3,)] * 4)), row[1:4], *[row[k, ...].reshape(1).expand(1) for k in range(1)]]
    equal_pieces, lengths, elements = pieces[:4], pieces, element_tensors(tx.float64, 5)
    mixed_pieces = tensors(arrays_of([(3,)] * 6), (tx.float64, tx.int64))
    objects = [t for ts in (equal_pieces, lengths, elements, mixed_pieces) for t in ts]
    objects += [t.spec for t in objects] + [t.storage for t in objects]  # type: ignore[misc]
    objects += [t.storage.node.buffer for t in equal_pieces]  # type: ignore[misc]

    def rounds(n: int) -> None:
        for _ in range(n):
            tx.stack(equal_pieces), tx.concat(lengths), tx.stack(elements), tx.stack(mixed_pieces), tx.concat(mixed_pieces)
            with pytest.raises(tx.errors.ShapeError):
                tx.stack(lengths)

    rounds(3)
    gc.collect()
    before = [sys.getrefcount(x) for x in objects]
    rounds(50)
    gc.collect()
    after = [sys.getrefcount(x) for x in objects]
    assert max(abs(b - a) for a, b in zip(before, after, strict=True)) < 10


def test_write_between_examination_and_copy_is_seen(monkeypatch: pytest.MonkeyPatch, counting: Counting) -> None:
    """Python code may run between the examination of the pieces and the copy."""
    pieces = tensors(arrays_of([(k + 1,) for k in range(4)]))
    before = [t.tolist() for t in pieces]

    def examine_and_write(*args: Any) -> bool:
        is_known = counting.copier.write_spec_addresses(*args)
        pieces[2][...] = pieces[2] * 0 + 7  # the piece is pending from now on
        return is_known

    monkeypatch.setattr(fastpath.fast_path, "copy_functions", CopyFunctions(examine_and_write, counting.copy, counting.copy_alike))
    result = tx.concat(pieces).tolist()
    before[2] = [7.0] * 3
    assert result == [x for row in before for x in row]
