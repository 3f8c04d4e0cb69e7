"""Movement functions: views that share the storage and have the elements of NumPy's result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import AxisError, ReadOnlyError, ShapeError

from .samples import SAMPLES, Array, assert_same, check_refused, each_sample


class Move(NamedTuple):
    ours: Callable[[tx.Tensor], tx.Tensor]
    numpys: Callable[[Array], Array]
    fits: Callable[[tuple[int, ...]], bool] = lambda shape: True


def at_least(ndim: int) -> Callable[[tuple[int, ...]], bool]:
    return lambda shape: len(shape) >= ndim


MOVES = {
    "permute_dims": Move(
        lambda x: tx.permute_dims(x, (*range(1, x.ndim), 0)),
        lambda a: np.transpose(a, (*range(1, a.ndim), 0)),
        at_least(1),
    ),
    "permute_dims, negative": Move(lambda x: tx.permute_dims(x, (-1, 0)), lambda a: a.T, lambda s: len(s) == 2),
    "transpose": Move(tx.transpose, np.transpose),
    "matrix_transpose": Move(tx.matrix_transpose, lambda a: np.swapaxes(a, -1, -2), at_least(2)),
    "moveaxis": Move(lambda x: tx.moveaxis(x, 0, -1), lambda a: np.moveaxis(a, 0, -1), at_least(1)),
    "moveaxis of two": Move(lambda x: tx.moveaxis(x, (0, 1), (-1, 0)), lambda a: np.moveaxis(a, (0, 1), (-1, 0)), at_least(2)),
    "swapaxes": Move(lambda x: tx.swapaxes(x, 0, -1), lambda a: np.swapaxes(a, 0, -1), at_least(1)),
    "flip": Move(tx.flip, np.flip),
    "flip of one axis": Move(lambda x: tx.flip(x, axis=-1), lambda a: np.flip(a, -1), at_least(1)),
    "flip of two axes": Move(lambda x: tx.flip(x, axis=(0, -1)), lambda a: np.flip(a, (0, -1)), at_least(2)),
    "ravel": Move(tx.ravel, np.ravel),
    "flatten": Move(tx.flatten, np.ravel),
    "flatten of two axes": Move(lambda x: tx.flatten(x, 0, 1), lambda a: a.reshape(a.shape[0] * a.shape[1], *a.shape[2:]), at_least(2)),
    "reshape": Move(lambda x: tx.reshape(x, (x.size, 1)), lambda a: a.reshape(a.size, 1)),
    "reshape to halves": Move(lambda x: tx.reshape(x, (2, -1)), lambda a: a.reshape(2, -1), lambda s: np.prod(s) % 2 == 0 and 0 not in s),
    "unflatten": Move(lambda x: tx.unflatten(x, 0, (1, -1)), lambda a: a[None], lambda s: bool(s) and 0 not in s),
    "expand_dims": Move(tx.expand_dims, lambda a: np.expand_dims(a, 0)),
    "expand_dims of two": Move(lambda x: tx.expand_dims(x, (0, -1)), lambda a: np.expand_dims(a, (0, -1))),
    "unsqueeze": Move(lambda x: tx.unsqueeze(x, -1), lambda a: np.expand_dims(a, -1)),
    "squeeze": Move(tx.squeeze, np.squeeze),
    "squeeze of one axis": Move(lambda x: tx.squeeze(x, 1), lambda a: np.squeeze(a, 1), lambda s: len(s) > 1 and s[1] == 1),
    "broadcast_to": Move(lambda x: tx.broadcast_to(x, (3, *x.shape)), lambda a: np.broadcast_to(a, (3, *a.shape))),
    "diagonal": Move(tx.diagonal, np.diagonal, at_least(2)),
    "a diagonal above": Move(lambda x: tx.diagonal(x, 1), lambda a: np.diagonal(a, 1), at_least(2)),
    "a diagonal below": Move(lambda x: tx.diagonal(x, -1, -1, 0), lambda a: np.diagonal(a, -1, -1, 0), at_least(2)),
    "windows": Move(
        lambda x: tx.windows(x, 0, 2),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, axis=0),
        lambda s: bool(s) and s[0] >= 2,
    ),
    "windows apart": Move(
        lambda x: tx.windows(x, -1, 2, step=2),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, axis=-1)[..., ::2, :],
        lambda s: bool(s) and s[-1] >= 2,
    ),
    "unstack": Move(lambda x: tx.unstack(x)[-1], lambda a: a[-1], lambda s: len(s) > 1 and s[0] > 0),
    "unstack of another axis": Move(lambda x: tx.unstack(x, axis=1)[0], lambda a: a[:, 0], lambda s: len(s) > 1 and s[1] > 0),
    "split": Move(lambda x: tx.split(x, 2)[1], lambda a: np.split(a, 2)[1], lambda s: bool(s) and s[0] % 2 == 0),
    "split at indices": Move(lambda x: tx.split(x, [1, 3], axis=-1)[1], lambda a: np.split(a, [1, 3], -1)[1], at_least(1)),
}


@each_sample
@pytest.mark.parametrize("move", MOVES)
def test_movement_function_returns_a_view_equal_to_numpy(move: str, sample: str) -> None:
    tensor, array = SAMPLES[sample]()
    ours, numpys, fits = MOVES[move]
    if not fits(array.shape):
        return
    view = ours(tensor)
    assert view.storage is tensor.storage
    assert_same(view, numpys(array))
    if tensor.layout.is_injective():
        tensor[...] = tensor * 3 + 100
        assert_same(view, numpys(array * 3 + 100))
    if view.layout.is_injective() and view.size:
        view[...] = -view
        assert np.count_nonzero(tensor.to_numpy() < -50) >= view.size or not tensor.layout.is_injective()


@pytest.mark.parametrize("move", MOVES)
def test_every_view_function_under_test_fits_some_sample(move: str) -> None:
    """A condition that no sample meets would leave a test without cases."""
    assert any(MOVES[move].fits(build()[1].shape) for build in SAMPLES.values())


def test_write_through_a_view_changes_the_tensor() -> None:
    t = tx.arange(20).reshape(4, 5)
    tx.reshape(tx.matrix_transpose(t), 20)[1] = -7
    tx.flip(t)[0, 0] = -8
    tx.diagonal(t, 1)[0] = -9
    tx.unstack(t, axis=1)[3][2] = -10
    expected = np.arange(20).reshape(4, 5)
    expected[1, 0], expected[3, 4], expected[0, 1], expected[2, 3] = -7, -8, -9, -10
    assert_same(t, expected)


def test_reshape_copies_on_request() -> None:
    t = tx.arange(4)
    assert tx.reshape(t, (2, 2), copy=False).storage is t.storage
    copied = tx.reshape(t, (2, 2), copy=True)
    copied[0, 0] = 9
    assert t.tolist() == [0, 1, 2, 3]
    assert copied.tolist() == [[9, 1], [2, 3]]


def test_broadcast_arrays_returns_views_equal_to_numpy() -> None:
    tensors = tx.arange(3), tx.arange(2).reshape(2, 1), tx.asarray(5)
    result = tx.broadcast_arrays(*tensors)
    expected = np.broadcast_arrays(np.arange(3), np.arange(2).reshape(2, 1), np.asarray(5))
    assert isinstance(result, tuple)
    for tensor, view, array in zip(tensors, result, expected, strict=True):
        assert view.storage is tensor.storage
        assert_same(view, array)
    assert tx.broadcast_arrays() == ()
    assert tx.broadcast_shapes() == ()


def test_split_and_unstack_return_all_parts() -> None:
    t = tx.arange(12).reshape(3, 4)
    assert [p.tolist() for p in tx.split(t, [1, 1, 9])] == [[[0, 1, 2, 3]], [], [[4, 5, 6, 7], [8, 9, 10, 11]], []]
    assert [p.tolist() for p in tx.unstack(t, axis=-1)] == t.T.tolist()


def test_view_functions_accept_names_of_pytorch() -> None:
    t = tx.arange(6).reshape(2, 1, 3)
    assert_same(tx.permute(t, (2, 0, 1)), t.to_numpy().transpose(2, 0, 1))
    assert_same(tx.movedim(t, 0, 2), np.moveaxis(t.to_numpy(), 0, 2))
    assert tx.squeeze(t, dim=1).shape == (2, 3)
    assert_same(tx.flip(t, dims=(2,)), np.flip(t.to_numpy(), 2))
    assert [p.shape for p in tx.unbind(t, dim=2)] == [(2, 1)] * 3
    assert [p.shape for p in tx.split(t, 3, dim=2)] == [(2, 1, 1)] * 3


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "a permutation with a repeat": (
        lambda: tx.permute_dims(tx.zeros((2, 3)), (0, 0)),
        AxisError,
        ("permute", "axis 0", "(0, 0)"),
    ),
    "a short permutation": (lambda: tx.permute_dims(tx.zeros((2, 3)), (0,)), AxisError, ("permute", "(0,)", "2 axes")),
    "a vector as a matrix": (lambda: tx.matrix_transpose(tx.zeros(3)), AxisError, ("matrix_transpose", "(3,)")),
    "an axis to flip": (lambda: tx.flip(tx.zeros((2, 3)), axis=2), AxisError, ("flip", "axis 2")),
    "an axis to move": (lambda: tx.moveaxis(tx.zeros((2, 3)), 2, 0), AxisError, ("moveaxis", "axis 2")),
    "more axes than places": (lambda: tx.moveaxis(tx.zeros((2, 3)), (0, 1), 0), AxisError, ("moveaxis", "(0, 1)")),
    "a long axis to squeeze": (lambda: tx.squeeze(tx.zeros((2, 3)), 1), ShapeError, ("squeeze", "axis 1", "(2, 3)")),
    "a place for a new axis": (lambda: tx.expand_dims(tx.zeros((2, 3)), 4), AxisError, ("expand_dims", "axis 4")),
    "a shape of another size": (lambda: tx.reshape(tx.zeros((2, 3)), (4, 2)), ShapeError, ("(2, 3)", "(4, 2)")),
    "a shape to broadcast to": (lambda: tx.broadcast_to(tx.zeros((2, 3)), (4, 3)), ShapeError, ("(2, 3)", "(4, 3)")),
    "shapes to broadcast": (
        lambda: tx.broadcast_arrays(tx.zeros(3), tx.zeros(2)),
        ShapeError,
        ("broadcast_arrays", "(3,)", "(2,)", "axis -1"),
    ),
    "parts that are not equal": (lambda: tx.split(tx.zeros((2, 3)), 2, axis=1), ShapeError, ("split", "axis 1", "3")),
    "a 0-d tensor to unstack": (lambda: tx.unstack(tx.asarray(1)), AxisError, ("no axes",)),
    "a window longer than its axis": (lambda: tx.windows(tx.zeros(3), 0, 4), ShapeError, ("windows", "4", "3")),
    "a write to what repeats": (
        lambda: tx.broadcast_to(tx.zeros(3), (2, 3)).__setitem__(..., tx.zeros(3)),
        ReadOnlyError,
        ("read-only", "(2, 3)"),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_view_functions_reject_invalid_arguments(wrong: str) -> None:
    check_refused(*WRONG[wrong])


# Lists and arrays


def test_functions_accept_lists_and_arrays() -> None:
    a = np.arange(6).reshape(2, 3)
    for result, wanted in [
        (tx.broadcast_to([1, 2], (2, 2)), [[1, 2], [1, 2]]),
        (tx.permute_dims(a, (1, 0)), a.T.tolist()),
        (tx.flip([1, 2, 3]), [3, 2, 1]),
        (tx.reshape(a, (3, 2)), [[0, 1], [2, 3], [4, 5]]),
        (tx.moveaxis(a, 0, 1), a.T.tolist()),
        (tx.squeeze([[1], [2]]), [1, 2]),
        (tx.expand_dims([1], 0), [[1]]),
        (tx.diagonal(a), [0, 4]),
        (tx.windows([1, 2, 3], 0, 2), [[1, 2], [2, 3]]),
        (tx.zeros_like([1, 2]), [0, 0]),
        (tx.full_like(a[0], 7), [7, 7, 7]),
        (tx.astype([1.5], tx.int8), [1]),
        (tx.clip([1, 5], 2, 4), [2, 4]),
        (tx.contract([1, 2], [3, 4], [(0, 0)]), 11),
        (tx.reduce(lambda acc, x: acc + x, [1, 2, 3]), 6),
        (tx.split([1, 2], 2)[1], [2]),
        (tx.unstack([1, 2])[1], 2),
        (tx.broadcast_arrays([1], [[2], [3]])[0], [[1], [1]]),
    ]:
        assert type(result) is tx.Tensor and result.tolist() == wanted
    assert tx.broadcast_shapes(3, (2, 1)) == (2, 3)


def test_broadcast_shapes_rejects_negative_sizes() -> None:
    for shapes in (((-1,),), ((3,), (2, -1)), (-1,)):
        with pytest.raises(ValueError):
            np.broadcast_shapes(*shapes)
        with pytest.raises(ShapeError, match=r"^broadcast_shapes: shape \(.*-1,?\) has a negative size; sizes must be 0 or more$"):
            tx.broadcast_shapes(*shapes)


def test_methods_accept_pytorch_names_of_arguments() -> None:
    t = tx.zeros((2, 3))
    assert t.unsqueeze(dim=1).shape == t.expand_dims(dim=-2).shape == (2, 1, 3)
    assert t.flatten(start_dim=0, end_dim=1).shape == (6,)
    assert tx.arange(3).flip(dims=(0,)).tolist() == tx.arange(3).flip(dim=0).tolist() == [2, 1, 0]
    assert t.mean(dtype=tx.float32).dtype is tx.float32
