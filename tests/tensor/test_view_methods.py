"""Movement: every method returns a view of the same storage, with the elements of NumPy's result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, AxisError, ShapeError

SHAPE = (2, 3, 4)

MOVES: dict[str, tuple[Callable[[tx.Tensor], tx.Tensor], Callable[[Any], Any]]] = {
    "T": (lambda t: t.T, lambda a: a.T),
    "mT": (lambda t: t.mT, lambda a: a.swapaxes(-1, -2)),
    "permute": (lambda t: t.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "permute of a tuple": (lambda t: t.permute((1, 2, 0)), lambda a: a.transpose(1, 2, 0)),
    "permute from the end": (lambda t: t.permute(-1, 0, 1), lambda a: a.transpose(-1, 0, 1)),
    "permute by name": (lambda t: t.permute(dims=(1, 2, 0)), lambda a: a.transpose(1, 2, 0)),
    "permute_dims": (lambda t: t.permute_dims([2, 1, 0]), lambda a: a.transpose(2, 1, 0)),
    "transpose": (lambda t: t.transpose(), lambda a: a.transpose()),
    "transpose of None": (lambda t: t.transpose(None), lambda a: a.transpose(None)),
    "transpose to an order": (lambda t: t.transpose(1, 0, 2), lambda a: a.transpose(1, 0, 2)),
    "swapaxes": (lambda t: t.swapaxes(0, -1), lambda a: a.swapaxes(0, -1)),
    "moveaxis": (lambda t: t.moveaxis(0, -1), lambda a: np.moveaxis(a, 0, -1)),
    "moveaxis of several": (lambda t: t.moveaxis((0, 1), (-1, 0)), lambda a: np.moveaxis(a, (0, 1), (-1, 0))),
    "movedim": (lambda t: t.movedim(2, 0), lambda a: np.moveaxis(a, 2, 0)),
    "reshape": (lambda t: t.reshape(6, 4), lambda a: a.reshape(6, 4)),
    "reshape with an unknown": (lambda t: t.reshape((4, -1)), lambda a: a.reshape((4, -1))),
    "reshape of a list": (lambda t: t.reshape([24]), lambda a: a.reshape([24])),
    "reshape to an array's": (lambda t: t.reshape(np.array([8, 3])), lambda a: a.reshape(8, 3)),
    "reshape of a transpose": (lambda t: t.T.reshape(6, 4), lambda a: a.T.reshape(6, 4)),
    "view": (lambda t: t.view(12, 2), lambda a: a.reshape(12, 2)),
    "flatten": (lambda t: t.flatten(), lambda a: a.reshape(24)),
    "flatten of two axes": (lambda t: t.flatten(1, 2), lambda a: a.reshape(2, 12)),
    "ravel": (lambda t: t.ravel(), lambda a: a.ravel()),
    "ravel of a transpose": (lambda t: t.T.ravel(), lambda a: a.T.ravel()),
    "unflatten": (lambda t: t.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2)),
    "expand_dims": (lambda t: t.expand_dims(1), lambda a: np.expand_dims(a, 1)),
    "expand_dims of several": (lambda t: t.expand_dims((0, -1)), lambda a: np.expand_dims(a, (0, -1))),
    "unsqueeze": (lambda t: t.unsqueeze(-1), lambda a: np.expand_dims(a, -1)),
    "squeeze": (lambda t: t[:1, :, :1].squeeze(), lambda a: a[:1, :, :1].squeeze()),
    "squeeze of an axis": (lambda t: t[:1, :, :1].squeeze(-1), lambda a: a[:1, :, :1].squeeze(-1)),
    "squeeze of a dim": (lambda t: t[:1].squeeze(dim=0), lambda a: a[0]),
    "flip": (lambda t: t.flip(), lambda a: np.flip(a)),
    "flip of axes": (lambda t: t.flip((0, -1)), lambda a: np.flip(a, (0, -1))),
    "flip of a dim": (lambda t: t.flip(dim=1), lambda a: np.flip(a, 1)),
    "diagonal": (lambda t: t.diagonal(), lambda a: a.diagonal()),
    "diagonal above": (lambda t: t.diagonal(1, 2, 1), lambda a: a.diagonal(1, 2, 1)),
    "diagonal beyond": (lambda t: t.diagonal(9), lambda a: a.diagonal(9)),
    "expand": (lambda t: t.expand(5, 2, 3, 4), lambda a: np.broadcast_to(a, (5, 2, 3, 4))),
    "expand with kept sizes": (lambda t: t[:, :1].expand(-1, 7, -1), lambda a: np.broadcast_to(a[:, :1], (2, 7, 4))),
    "broadcast_to": (lambda t: t[:1].broadcast_to((3, 3, 4)), lambda a: np.broadcast_to(a[:1], (3, 3, 4))),
    "expand_as": (lambda t: t[0].expand_as(t), lambda a: np.broadcast_to(a[0], SHAPE)),
    "windows": (
        lambda t: t.windows(2, 3),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, 2),
    ),
    "windows with steps": (
        lambda t: t.windows(2, 2, 2),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, 2)[:, :, ::2],
    ),
    "unfold": (lambda t: t.unfold(1, 2), lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, 1)),
    "take_view": (lambda t: t.take_view([1, 0], None, 2), lambda a: a[[1, 0]][:, :, 2]),
    "take_view keeping axes": (lambda t: t.take_view(None, 1, keepdims=True), lambda a: a[:, 1:2]),
}


@pytest.mark.parametrize(("move", "model"), MOVES.values(), ids=MOVES.keys())
@pytest.mark.parametrize("start", ["contiguous", "reversed", "gathered", "pending"])
def test_movement_returns_a_view_with_the_elements_of_numpy(
    start: str, move: Callable[[tx.Tensor], tx.Tensor], model: Callable[[Any], Any]
) -> None:
    a = np.arange(24).reshape(SHAPE)
    t = tx.arange(24).reshape(SHAPE)
    match start:
        case "reversed":
            a, t = a[::-1, :, ::-1], t[::-1, :, ::-1]
        case "gathered":
            a, t = a[:, [2, 0, 1]], t.oindex[:, [2, 0, 1]]
        case "pending":
            a, t = a * 3, t * 3
    result, wanted = move(t), model(a)
    assert result.storage is t.storage
    assert result.shape == wanted.shape
    assert result.tolist() == wanted.tolist()
    t += 100
    assert result.tolist() == (model(a) + 100).tolist()


@pytest.mark.parametrize(("move", "model"), MOVES.values(), ids=MOVES.keys())
def test_write_through_a_movement_view_changes_its_source(move: Callable[[tx.Tensor], tx.Tensor], model: Callable[[Any], Any]) -> None:
    t = tx.arange(24).reshape(SHAPE)
    numbers = np.arange(24).reshape(SHAPE)
    reached = np.isin(numbers, model(numbers))
    move(t)[...] = -1
    assert t.tolist() == np.where(reached, -1, numbers).tolist()


def test_view_methods_accept_0d_and_empty_tensors() -> None:
    scalar, nothing = tx.asarray(5), tx.zeros((0, 3))
    assert scalar.T.shape == scalar.squeeze().shape == scalar.permute().shape == scalar.reshape(()).shape == ()
    assert scalar.reshape(1, 1).tolist() == [[5]]
    assert scalar.flatten().shape == scalar.ravel().shape == (1,)
    assert scalar.flip().item() == 5
    assert scalar.expand(2).tolist() == [5, 5]
    assert nothing.T.shape == (3, 0)
    assert nothing.ravel().shape == nothing.flatten().shape == (0,)
    assert nothing.reshape(5, 0, 2).shape == (5, 0, 2)
    assert nothing.reshape(3, -1).shape == (3, 0)
    assert nothing.flip().shape == (0, 3)
    assert nothing[:, :0].diagonal().shape == (0,)


def test_unbind_and_split_return_views() -> None:
    t = tx.arange(12).reshape(3, 4)
    first, *_, last = t.unbind()
    last[...] = 0
    assert first.tolist() == [0, 1, 2, 3]
    assert t[2].tolist() == [0, 0, 0, 0]
    assert [c.tolist() for c in t.unstack(axis=-1)] == t.T.tolist()
    for sections in (2, [1, 3], [1, 2, 3], [3, 9], []):
        wanted = np.split(t.to_numpy(), sections, axis=1)
        assert [p.tolist() for p in t.split(sections, axis=1)] == [p.tolist() for p in wanted]
    assert [p.shape for p in tx.zeros((2, 0)).split(3, 1)] == [(2, 0)] * 3
    with pytest.raises(ShapeError, match=r"split.*4.*3"):
        t.split(3, axis=1)


WRONG: dict[str, tuple[Callable[[tx.Tensor], Any], type[Exception], str]] = {
    "mT of a vector": (lambda t: t[0, 0].mT, AxisError, "mT.*matrix"),
    "permute twice": (lambda t: t.permute(0, 0, 1), AxisError, r"permute.*\(0, 0, 1\)"),
    "permute too few": (lambda t: t.permute(0, 1), AxisError, "permute"),
    "permute out of range": (lambda t: t.permute(0, 1, 3), AxisError, "permute.*3"),
    "transpose torch's way": (lambda t: t.transpose(0, 1), AxisError, "swapaxes"),
    "swapaxes": (lambda t: t.swapaxes(0, 3), AxisError, "swapaxes.*3"),
    "moveaxis": (lambda t: t.moveaxis(3, 0), AxisError, "moveaxis.*3"),
    "moveaxis of other counts": (lambda t: t.moveaxis((0, 1), 0), AxisError, "moveaxis"),
    "reshape": (lambda t: t.reshape(5, 5), ShapeError, r"reshape.*\(2, 3, 4\).*\(5, 5\)"),
    "reshape to a negative size": (lambda t: t.reshape(-2, 12), ShapeError, "reshape.*-2"),
    "reshape to floats": (lambda t: t.reshape(2.0, 12), ArgumentError, "reshape.*2.0"),
    "reshape to text": (lambda t: t.reshape("ab"), ArgumentError, "reshape.*ab"),
    "flatten backwards": (lambda t: t.flatten(2, 1), AxisError, "flatten.*2.*1"),
    "flatten out of range": (lambda t: t.flatten(0, 3), AxisError, "flatten.*3"),
    "unflatten": (lambda t: t.unflatten(1, (2, 2)), ShapeError, "unflatten.*axis 1"),
    "squeeze": (lambda t: t.squeeze(0), ShapeError, "squeeze.*axis 0.*2"),
    "squeeze out of range": (lambda t: t.squeeze(3), AxisError, "squeeze.*3"),
    "squeeze by two names": (lambda t: t.squeeze(0, dim=0), ArgumentError, "squeeze.*axis.*dim"),
    "expand_dims": (lambda t: t.expand_dims(5), AxisError, "expand_dims.*5"),
    "expand_dims twice": (lambda t: t.expand_dims((0, 0)), AxisError, "expand_dims"),
    "expand": (lambda t: t.expand(3, 3, 4), ShapeError, r"expand.*\(2, 3, 4\).*\(3, 3, 4\)"),
    "expand to fewer": (lambda t: t.expand(3, 4), ShapeError, "expand"),
    "expand a new axis to -1": (lambda t: t.expand(-1, 2, 3, 4), ShapeError, "expand.*-1"),
    "flip": (lambda t: t.flip(4), AxisError, "flip.*4"),
    "flip twice": (lambda t: t.flip((0, -3)), AxisError, "flip"),
    "diagonal": (lambda t: t.diagonal(0, 1, 1), AxisError, "diagonal.*1"),
    "diagonal out of range": (lambda t: t.diagonal(0, 0, 3), AxisError, "diagonal.*3"),
    "windows": (lambda t: t.windows(2, 5), ShapeError, "windows.*5.*4"),
    "windows of nothing": (lambda t: t.windows(2, 0), ArgumentError, "windows.*0"),
    "unbind": (lambda t: t.unbind(3), AxisError, "unbind.*3"),
    "split": (lambda t: t.split(2, 7), AxisError, "split.*7"),
    "take_view": (lambda t: t.take_view([5]), IndexError, "5.*axis 0"),
    "an axis that is no integer": (lambda t: t.swapaxes("a", 0), (AxisError, TypeError), "a"),
}


@pytest.mark.parametrize(("call", "error", "says"), WRONG.values(), ids=WRONG.keys())
def test_invalid_movement_raises_an_error_that_names_the_operation(
    call: Callable[[tx.Tensor], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        call(tx.arange(24).reshape(SHAPE))


@pytest.mark.parametrize("order", ["C", "F", "A"])
@pytest.mark.parametrize("key", [(), (slice(None, None, -1),), (..., slice(1, None, 2))])
def test_ravel_and_reshape_orders_equal_numpy(order: str, key: Any) -> None:
    for turned in (False, True):
        a = np.arange(24).reshape(2, 3, 4)
        t = tx.asarray(a)
        a, t = (a.T, t.T) if turned else (a, t)
        a, t = a[key], t[key]
        for _ in range(3):  # the first call is recorded, further calls are replayed
            assert np.asarray(t.ravel(order)).tolist() == a.ravel(order).tolist() == np.ravel(t, order=order).tolist()
            for shape in ((-1, 2), (3, -1, 2), (a.size,)):
                wanted = a.reshape(shape, order=order).tolist()
                assert t.reshape(*shape, order=order).tolist() == tx.reshape(t, shape, order).tolist() == wanted
                assert np.reshape(t, shape, order=order).tolist() == wanted
    t = tx.arange(6).reshape(2, 3)
    t.reshape(3, 2, order="F")[0, 1] = -1  # the result is a view
    assert t.tolist() == [[0, 1, 2], [3, -1, 5]]


def test_reshape_rejects_unsupported_orders() -> None:
    t = tx.arange(6).reshape(2, 3)
    with pytest.raises(ArgumentError, match="reshape: order must be 'C', 'F' or 'A', not 'K'"):
        t.reshape(3, 2, order="K")
    with pytest.raises(ShapeError, match=r"\(2, 3\).*\(4, 2\)"):
        t.reshape(4, 2, order="F")


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (2, 0, 1)], ids=str)
def test_copy_without_elements_can_be_viewed_as_a_dtype_of_another_itemsize(shape: tuple[int, ...]) -> None:
    nothing = tx.zeros(shape, dtype=tx.float16)[..., 0].copy()
    assert nothing.view(tx.uint8).shape == np.zeros(shape, np.float16)[..., 0].copy().view(np.uint8).shape
    assert nothing.view(tx.uint8).view(tx.float16).shape == nothing.shape


def test_permute_rejects_axes_together_with_dims() -> None:
    with pytest.raises(ArgumentError, match=r"permute: dims is given besides the axes \(1, 0\); .* x\.permute\(dims=\(1, 0\)\)"):
        tx.ones((2, 3)).permute(1, 0, dims=(1, 0))
