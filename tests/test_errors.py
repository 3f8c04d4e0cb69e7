"""Every error is raised at the call that is wrong, and says so in the user's terms.

The tests look for what a message must name (the operation, the argument, the shapes, the axis, and what would
work), not for its sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    IndexOutOfRange,
    OutOfBounds,
    ReadOnlyError,
    ShapeError,
    TenxorError,
    TraceError,
    UnknownAttribute,
)


def table() -> tx.Tensor:
    """0..5 as 2x3."""
    return tx.arange(6).reshape((2, 3))


def small() -> tx.Tensor:
    return tx.asarray([1, 2], dtype=tx.uint8)


class Wrong(NamedTuple):
    """A call that is wrong, the error it must raise, and what the message must name."""

    call: Callable[[], Any]
    error: type[Exception] | tuple[type[Exception], ...]
    names: tuple[str, ...]


def assign(target: tx.Tensor, key: Any, value: Any) -> None:
    target[key] = value


def add_in_place(target: tx.Tensor, value: Any) -> None:
    target += value


SHAPES = {
    "shapes that do not broadcast": Wrong(lambda: table() + tx.ones((4,)), ShapeError, ("add", "(2, 3)", "(4,)")),
    "where with a third shape": Wrong(
        lambda: tx.where(table() > 2, tx.ones((2, 3)), tx.ones((3, 2))),
        ShapeError,
        ("where", "(2, 3)", "(3, 2)"),
    ),
    "broadcast_shapes": Wrong(lambda: tx.broadcast_shapes((2, 3), (4,)), ShapeError, ("(2, 3)", "(4,)")),
    "a shape to expand to": Wrong(lambda: table().expand((4, 3)), ShapeError, ("(2, 3)", "(4, 3)")),
    "a reshape that does not multiply out": Wrong(lambda: table().reshape((4, 2)), ShapeError, ("reshape", "(2, 3)", "(4, 2)", "6", "8")),
    "a reshape with an unknown that does not divide": Wrong(lambda: table().reshape((-1, 4)), ShapeError, ("reshape", "(2, 3)", "4")),
    "a reshape with two unknowns": Wrong(lambda: table().reshape((-1, -1)), ShapeError, ("reshape", "-1")),
    "an unflatten that does not multiply out": Wrong(
        lambda: table().unflatten(1, (2, 2)), ShapeError, ("unflatten", "(2, 2)", "axis 1", "3")
    ),
    "a squeeze of a long axis": Wrong(lambda: table().squeeze(1), ShapeError, ("squeeze", "axis 1", "(2, 3)")),
    "a window longer than its axis": Wrong(lambda: table().windows(1, 4, 1), ShapeError, ("windows", "4", "3")),
    "matmul of 2x1 and 3x2": Wrong(lambda: tx.ones((2, 1)) @ tx.ones((3, 2)), ShapeError, ("matmul", "(2, 1)", "(3, 2)")),
    "matmul of a scalar": Wrong(lambda: tx.matmul(table(), tx.asarray(2)), ShapeError, ("matmul", "()")),
    "concat of other widths": Wrong(
        lambda: tx.concat([tx.ones((2, 3)), tx.ones((2, 4))], axis=0),
        ShapeError,
        ("concat", "(2, 3)", "(2, 4)", "axis"),
    ),
    "stack of other shapes": Wrong(lambda: tx.stack([tx.ones((2, 3)), tx.ones((3, 2))]), ShapeError, ("stack", "(2, 3)", "(3, 2)")),
    "contract over axes of other sizes": Wrong(
        lambda: tx.contract(table(), table(), [(1, 0)]),
        ShapeError,
        ("contract", "(2, 3)", "axis 1", "axis 0"),
    ),
    "a value that does not fit its target": Wrong(
        lambda: assign(table(), slice(1, None), tx.ones((2, 3))), ShapeError, ("(2, 3)", "(1, 3)")
    ),
    "a result that does not fit in place": Wrong(lambda: add_in_place(tx.ones((3,)), tx.ones((2, 3))), ShapeError, ("(3,)", "(2, 3)")),
    "ragged lists": Wrong(lambda: tx.asarray([[1, 2], [3]]), ShapeError, ("asarray", "[1]")),
    "ragged lists, deeper": Wrong(lambda: tx.asarray([[[1], [2]], [[3], [4, 5]]]), ShapeError, ("asarray", "[1][1]")),
    "a number beside a list": Wrong(lambda: tx.asarray([[1, 2], 3]), ShapeError, ("asarray", "[1]")),
    "a negative size": Wrong(lambda: tx.zeros((2, -3)), ShapeError, ("-3",)),
    "the minimum of nothing": Wrong(lambda: tx.min(tx.zeros((0,))), ShapeError, ("min", "(0,)")),
    "the maximum along an empty axis": Wrong(lambda: tx.max(tx.zeros((3, 0)), axis=1), ShapeError, ("max", "(3, 0)", "axis 1")),
}

AXES = {
    "an axis past the last": Wrong(lambda: tx.sum(table(), axis=2), AxisError, ("sum", "axis 2")),
    "an axis before the first": Wrong(lambda: tx.sum(table(), axis=-3), AxisError, ("sum", "axis -3")),
    "an axis named twice": Wrong(lambda: tx.sum(table(), axis=(0, -2)), AxisError, ("sum", "0", "-2", "twice")),
    "an axis of concat": Wrong(lambda: tx.concat([table(), table()], axis=2), AxisError, ("concat", "axis 2")),
    "an axis to expand": Wrong(lambda: tx.expand_dims(table(), axis=4), AxisError, ("expand_dims", "axis 4")),
    "a permutation with a repeat": Wrong(lambda: table().permute(0, 0), AxisError, ("permute", "(0, 0)")),
    "a permutation that is too short": Wrong(lambda: tx.permute_dims(tx.ones((2, 3, 4)), (1, 0)), AxisError, ("permute", "(1, 0)", "3")),
    "a diagonal of one axis": Wrong(lambda: table().diagonal(0, 1, 1), AxisError, ("diagonal", "axis", "1")),
}

INDICES = {
    "an index past the end": Wrong(lambda: table()[0, 3], IndexOutOfRange, ("3", "axis 1")),
    "an index before the start": Wrong(lambda: table()[-3], IndexOutOfRange, ("-3", "axis 0", "2")),
    "an index to write past the end": Wrong(lambda: assign(table(), (2, 0), 1), IndexOutOfRange, ("2", "axis 0")),
    "too many indices": Wrong(lambda: table()[0, 0, 0], IndexOutOfRange, ("3", "(2, 3)")),
    "two ellipses": Wrong(lambda: table()[..., ...], IndexError, ("...",)),
    "a list past the end": Wrong(lambda: table()[[0, 2]], IndexOutOfRange, ("2", "axis 0")),
    "an oindex list past the end": Wrong(lambda: table().oindex[None, [0, 7]], IndexOutOfRange, ("7", "axis 1", "3")),
    "too many oindex entries": Wrong(lambda: table().oindex[0, 0, 0], IndexOutOfRange, ("3", "(2, 3)")),
    "a mask of another shape": Wrong(lambda: table()[tx.asarray([True, False, True])], IndexError, ("(3,)", "(2,)", "axis 0")),
    "a float as an index": Wrong(lambda: table()[1.5], (TypeError, IndexError), ("1.5",)),
    "coordinates past an axis": Wrong(lambda: tx.layout.ravel_index((0, 3), (2, 3)), IndexOutOfRange, ("3", "axis 1")),
    "a number past the last": Wrong(lambda: tx.layout.unravel_index(6, (2, 3)), IndexOutOfRange, ("6", "(2, 3)")),
    "step is 0": Wrong(lambda: table()[:, ::0], ValueError, ("step", "axis 1")),
    "indices known only when computed": Wrong(
        lambda: tx.take(table(), tx.asarray([0, 9]), axis=1).realize(), IndexOutOfRange, ("take", "9")
    ),
}

DTYPES = {
    "dtypes with no promotion": Wrong(
        lambda: tx.ones((2,), dtype=tx.int64) + tx.ones((2,), dtype=tx.uint64),
        DTypeError,
        ("add", "int64", "uint64", "astype"),
    ),
    "a dtype that an operation does not take": Wrong(
        lambda: tx.bitwise_and(tx.ones((2,)), tx.ones((2,))), DTypeError, ("bitwise_and", "float")
    ),
    "a dtype that does not exist": Wrong(lambda: tx.zeros((2,), dtype="flaot32"), DTypeError, ("flaot32", "float32")),
    "a number too large to add": Wrong(lambda: small() + 300, OutOfBounds, ("300", "uint8")),
    "a negative number for an unsigned dtype": Wrong(lambda: small() * -1, OutOfBounds, ("-1", "uint8")),
    "a number too large to hold": Wrong(lambda: tx.asarray([1, 300], dtype=tx.uint8), OutOfBounds, ("300", "uint8")),
    "a number too large to fill with": Wrong(lambda: tx.full((2,), 128, dtype=tx.int8), OutOfBounds, ("128", "int8")),
    "a number too large to write": Wrong(lambda: assign(small(), 0, 256), OutOfBounds, ("256", "uint8")),
    "text": Wrong(lambda: tx.asarray(["a", "b"]), DTypeError, ("asarray", "str")),
}

VALUES = {
    "the truth of many": Wrong(lambda: bool(table()), ValueError, ("(2, 3)", "any", "all")),
    "the float of many": Wrong(lambda: float(table()), (TypeError, ValueError), ("(2, 3)",)),
    "the item of many": Wrong(lambda: table().item(), ValueError, ("item", "(2, 3)")),
    "the length of a scalar": Wrong(lambda: len(tx.asarray(5)), TypeError, ("0-d",)),
    "iterating over a scalar": Wrong(lambda: iter(tx.asarray(5)), TypeError, ("0-d",)),
    "a function that asks for a value": Wrong(lambda: tx.map(lambda x: x if x > 0 else -x, table()), TraceError, ("map", "where")),
    "a function that asks for a number": Wrong(lambda: tx.map(lambda x: float(x) + 1, table()), TraceError, ("map", "float")),
    "a reduction that asks for a value": Wrong(
        lambda: tx.reduce(lambda acc, x: max(acc, x), table(), axis=0, initial=0),
        TraceError,
        ("reduce", "where"),
    ),
}

SPELLINGS = {
    "dim beside axis": Wrong(lambda: tx.sum(table(), axis=0, dim=0), ArgumentError, ("sum", "dim", "axis")),
    "keepdim beside keepdims": Wrong(
        lambda: table().sum(axis=0, keepdims=True, keepdim=True),
        ArgumentError,
        ("sum", "keepdim", "keepdims"),
    ),
    "a list without a copy": Wrong(lambda: tx.asarray([1, 2], copy=False), ValueError, ("asarray", "copy")),
    "masked_fill": Wrong(lambda: table().masked_fill, UnknownAttribute, ("masked_fill", "where")),
    "type": Wrong(lambda: table().type, UnknownAttribute, ("type", "astype")),
    "a function sought as a method": Wrong(lambda: table().roll, UnknownAttribute, ("roll", "tx.roll(x")),
    "what NumPy does in place": Wrong(lambda: table().sort, UnknownAttribute, ("sort", "tx.sort(x)", "x[...] =")),
    "torch's name for a product": Wrong(lambda: table().matmul, UnknownAttribute, ("matmul", "x @ y")),
    "torch's function": Wrong(lambda: tx.from_numpy, UnknownAttribute, ("from_numpy", "copy=False")),
    "a slip of the pen in a function": Wrong(lambda: tx.reshap, UnknownAttribute, ("reshap", "tx.reshape")),
    "no such function": Wrong(lambda: tx.quux, UnknownAttribute, ("quux", "dir(tx)")),
}

ONES = tx.ones((2, 3))

KINDS = {
    "a map of a function of two arguments": Wrong(lambda: tx.map(lambda x, y: x + y, table()), TraceError, ("map", "1 argument", "'y'")),
    "a contraction by a function of one": Wrong(
        lambda: tx.contract(ONES, ONES, [(0, 0)], multiply=lambda x: x), TraceError, ("contract", "2 arguments")
    ),
    "a map that indexes": Wrong(lambda: tx.map(lambda x: x[0], table()), TraceError, ("map", "single", "indices")),
    "a map that reduces an axis": Wrong(lambda: tx.map(tx.softmax, table()), TraceError, ("map", "single", "axis")),
    "a start that is no number": Wrong(
        lambda: tx.reduce(lambda a, x: a + x, table(), initial="0"), ArgumentError, ("reduce", "initial", "'0'")
    ),
    "one pair that is no list of pairs": Wrong(lambda: tx.contract(ONES, ONES, (1, 0)), ArgumentError, ("contract", "pairs", "[(1, 0)]")),
    "half a thread": Wrong(lambda: tx.set_num_threads(1.5), ArgumentError, ("set_num_threads", "1.5")),
    "a number of bits nobody reads": Wrong(lambda: tx.asarray([2**20000]), OutOfBounds, ("asarray", "20001 bits")),
    "ragged indices": Wrong(lambda: table()[[[1], [0, 1]]], IndexError, ("indexing", "ragged")),
    "ragged indices to take": Wrong(lambda: tx.take(table(), [[1], [0, 1]]), IndexError, ("take", "ragged")),
    "a float as a coordinate": Wrong(lambda: table().item(1.0, 0), IndexError, ("1.0", "axis 0")),
    "a tensor as a dtype": Wrong(lambda: tx.zeros(2, dtype=table()), DTypeError, ("dtype", "float32")),
    "a correction that is none": Wrong(lambda: table().std(correction=None), ArgumentError, ("std", "correction")),
    "padding with nothing": Wrong(lambda: tx.pad(table(), 1, constant_values=None), ArgumentError, ("pad", "constant_values", "None")),
    "a pattern without an arrow": Wrong(lambda: tx.rearrange(table(), "h w"), ArgumentError, ("rearrange", "'h w'")),
    "values for the class": Wrong(lambda: tx.Tensor([1, 2]), DTypeError, ("Tensor", "tx.asarray")),  # type: ignore[arg-type]
    "nothing to compute": Wrong(lambda: tx.realize(None), DTypeError, ("realize", "NoneType")),  # type: ignore[arg-type]
    "a list to explain": Wrong(lambda: tx.explain([1]), DTypeError, ("explain", "list")),  # type: ignore[arg-type]
    "a dtype that is set": Wrong(lambda: setattr(table(), "dtype", tx.int8), UnknownAttribute, ("dtype", "astype")),
    "a layout that is deleted": Wrong(lambda: delattr(table(), "layout"), UnknownAttribute, ("layout", "deleted")),
    "a layout that is set": Wrong(lambda: setattr(table(), "layout", ONES.layout), UnknownAttribute, ("layout",)),
    "batches that do not broadcast": Wrong(
        lambda: tx.ones((3, 2, 2)) @ tx.ones((2, 2, 2)), ShapeError, ("matmul", "(3, 2, 2)", "(2, 2, 2)", "last two")
    ),
    **{
        f"both spellings of {name}": Wrong(call, ArgumentError, (name, "axis", "dim"))
        for name, call in {
            "concat": lambda: tx.concat([ONES], axis=0, dim=0),
            "stack": lambda: tx.stack([ONES], axis=0, dim=1),
            "softmax": lambda: tx.softmax(ONES, axis=-1, dim=0),
            "unstack": lambda: tx.unstack(ONES, axis=0, dim=0),
        }.items()
    },
    "both spellings of what is kept": Wrong(
        lambda: table().sum(keepdims=False, keepdim=True), ArgumentError, ("sum", "keepdims", "keepdim")
    ),
    "an axis to move that is none": Wrong(lambda: table().moveaxis(None, 0), AxisError, ("moveaxis", "None")),
    "an axis that is text": Wrong(lambda: table().flip("rows"), AxisError, ("flip", "'rows'")),
    "an axis that is a float": Wrong(lambda: table().swapaxes(0.0, 1), AxisError, ("swapaxes", "0.0")),
    "a window's size as text": Wrong(lambda: table().windows(0, "2"), ArgumentError, ("windows", "size", "'2'")),
    "a diagonal's offset as text": Wrong(lambda: table().diagonal("1"), ArgumentError, ("diagonal", "offset", "'1'")),
    "sizes to unflatten to as text": Wrong(lambda: table().unflatten(0, "ab"), ArgumentError, ("unflatten", "'ab'")),
    "no places to split at": Wrong(lambda: table().split(None), ArgumentError, ("split", "None")),
    "one number to join": Wrong(lambda: tx.concat(3), ArgumentError, ("concat", "sequence", "int")),
    "a map by no function": Wrong(lambda: tx.map(3, table()), TraceError, ("map", "3", "called")),
    "a reduction by no function": Wrong(lambda: tx.reduce(None, table()), TraceError, ("reduce", "None", "called")),
    "a bound that the dtype cannot hold": Wrong(lambda: tx.clip(small(), 300), OutOfBounds, ("clip", "300", "uint8")),
    "a version that there is not": Wrong(lambda: small().__array_namespace__(api_version="1999.12"), ArgumentError, ("1999.12", "2025.12")),
    "a tensor as NumPy's out": Wrong(lambda: np.spacing(table(), out=table().astype(tx.int64)), DTypeError, ("np.spacing", "out", "int64")),
}


class Unreadable:
    """An object of a library whose dtype NumPy does not have, as PyTorch's bfloat16."""

    dtype = "torch.bfloat16"

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("Can't export bfloat16")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


STRANGE = {
    "True as an axis": Wrong(lambda: table().sum(axis=True), AxisError, ("sum", "True")),
    "a dictionary of axes": Wrong(lambda: table().sum(axis={}), AxisError, ("sum", "{}")),
    "a list as the axis of vecdot": Wrong(lambda: tx.vecdot(ONES, ONES, axis=[0]), AxisError, ("vecdot", "[0]")),
    "an array of no axes to expand at": Wrong(lambda: tx.expand_dims(table(), np.array(0.5)), AxisError, ("expand_dims", "0.5")),
    "no shifts": Wrong(lambda: tx.roll(table(), ()), ArgumentError, ("roll", "0 shifts", "1 axes")),
    "a number to expand as": Wrong(lambda: table().expand_as(3), DTypeError, ("expand_as", "3", "expand(shape)")),
    "subscripts as a dtype": Wrong(lambda: table().astype("ij,jk->ik"), DTypeError, ("'ij,jk->ik'", "float32")),
    "a dictionary as a mode": Wrong(lambda: tx.pad(table(), 1, {}), ArgumentError, ("pad", "mode", "{}", "'wrap'")),
    "a type as an index": Wrong(lambda: table()[int], IndexError, ("indexing", "int")),
    "bytes as a shape": Wrong(lambda: tx.zeros(b"ab"), ArgumentError, ("zeros", "b'ab'")),
    "nothing as a shape": Wrong(lambda: tx.zeros(""), ArgumentError, ("zeros", "''")),
    "the tensor's class as a shape": Wrong(lambda: tx.zeros(tx.Tensor), ArgumentError, ("zeros", "Tensor")),
    "diagonals": Wrong(lambda: tx.tril(table(), k=(3, 4)), ArgumentError, ("tril", "k", "(3, 4)")),
    "several devices": Wrong(lambda: tx.zeros(2, device=np.array([])), ArgumentError, ("zeros", "device", "'cpu'")),
    "another device": Wrong(lambda: table().to_device("gpu"), ArgumentError, ("to_device", "'gpu'", "'cpu'")),
    "axes that are kept or not": Wrong(lambda: table().sum(keepdims=np.array([0, 1])), ArgumentError, ("sum", "keepdims", "True or False")),
    "more positions than can be counted": Wrong(
        lambda: tx.broadcast_to(tx.ones(()), (2**63,)), ShapeError, ("broadcast_to", f"{2**63}", "64 bits")
    ),
    "more windows than can be counted": Wrong(
        lambda: tx.broadcast_to(tx.ones(()), (2**62,)).windows(0, 2**61), ShapeError, ("windows", "64 bits")
    ),
    "no elements in a row too long": Wrong(lambda: tx.ones((2**62, 0)), ShapeError, ("ones", f"{2**62}")),
    "digits beyond all floats": Wrong(lambda: round(tx.ones(2), 400), ArgumentError, ("round", "400", "300")),
    "a mean beyond all floats": Wrong(lambda: tx.random.normal(10**400), ArgumentError, ("normal", "mean")),
    "an end beyond all floats": Wrong(lambda: tx.linspace(0, 10**400, 3), OutOfBounds, ("linspace", "float64")),
    "dims that are one number": Wrong(lambda: table().to_string(1), ArgumentError, ("to_string", "dims", "1")),
    "a 0-d array of tensors": Wrong(lambda: tx.stack(np.array(0)), ArgumentError, ("stack", "sequence")),
    "what NumPy cannot read": Wrong(
        lambda: tx.asarray(Unreadable()), DTypeError, ("asarray", "torch.bfloat16", "Can't export", "float32", "astype")
    ),
    "what DLPack cannot say": Wrong(lambda: tx.from_dlpack(Unreadable()), DTypeError, ("from_dlpack", "torch.bfloat16", "float32")),
}

CASES = {**SHAPES, **AXES, **INDICES, **DTYPES, **VALUES, **SPELLINGS, **KINDS, **STRANGE}


@pytest.mark.parametrize("wrong", CASES.values(), ids=CASES.keys())
def test_error_message_names_operation_and_arguments(wrong: Wrong) -> None:
    with pytest.raises(wrong.error) as caught:
        wrong.call()
    message = str(caught.value)
    missing = [name for name in wrong.names if name not in message]
    assert not missing, f"{message!r} does not name {missing}"
    assert isinstance(caught.value, TenxorError) or wrong.error is TypeError  # what Python's own protocols raise


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ShapeError, ValueError),
        (AxisError, ValueError),
        (AxisError, IndexError),
        (IndexOutOfRange, IndexError),
        (DTypeError, TypeError),
        (OutOfBounds, OverflowError),
        (ReadOnlyError, ValueError),
        (ArgumentError, ValueError),
        (TraceError, TypeError),
        (UnknownAttribute, AttributeError),
    ],
)
def test_error_class_derives_from_the_builtin_that_numpy_raises(error: type, builtin: type) -> None:
    assert issubclass(error, builtin)
    assert issubclass(error, TenxorError)


# Views in which several positions share one element


def overlapping_views() -> dict[str, Callable[[tx.Tensor], tx.Tensor]]:
    return {
        "expand": lambda t: t.expand((4, 2, 3)),
        "broadcast_to": lambda t: tx.broadcast_to(t, (2, 2, 3)),
        "windows": lambda t: t.windows(1, 2, 1),
        "oindex with repeats": lambda t: t.oindex[[1, 1]],
        "a reshape of an expand": lambda t: t.expand((2, 2, 3)).reshape((4, 3)),
    }


@pytest.mark.parametrize("make", overlapping_views().values(), ids=overlapping_views().keys())
def test_write_of_a_tensor_to_an_overlapping_view_raises_and_changes_nothing(
    make: Callable[[tx.Tensor], tx.Tensor],
) -> None:
    t = table()
    view = make(t)
    for write in (
        lambda: assign(view, ..., tx.ones(view.shape, dtype=tx.int64)),
        lambda: assign(view, ..., np.ones(view.shape, dtype=np.int64)),
        lambda: add_in_place(view, 1),
    ):
        with pytest.raises(ReadOnlyError, match="copy"):
            write()
    assert t.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("make", overlapping_views().values(), ids=overlapping_views().keys())
def test_overlapping_view_can_be_filled_with_a_scalar(make: Callable[[tx.Tensor], tx.Tensor]) -> None:
    t = table()
    view = make(t)
    view[...] = 9
    assert view.tolist() == tx.full(view.shape, 9).tolist()
    assert t.tolist()[1] == [9, 9, 9]


def test_element_of_an_overlapping_view_is_writable() -> None:
    t = table()
    t.expand((4, 2, 3))[2, 1, 0] = tx.asarray(7)
    assert t[1, 0].item() == 7


def test_overlapping_view_is_read_only_in_numpy() -> None:
    assert not np.asarray(table().expand((4, 2, 3))).flags.writeable
    assert np.asarray(table().T).flags.writeable


# A call that is refused changes nothing


def test_write_that_raises_leaves_the_tensor_unchanged() -> None:
    t = table()
    with pytest.raises(ShapeError):
        t[1:] = tx.ones((2, 3))
    with pytest.raises(OverflowError):
        t[0, 0] = 2**63
    assert t.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_errors_of_pending_tensors_are_raised_at_the_call() -> None:
    pending = table() * 2 + 1
    with pytest.raises(ShapeError):
        pending + tx.ones((4,))
    with pytest.raises(IndexOutOfRange):
        pending[2]
    assert pending.tolist() == [[1, 3, 5], [7, 9, 11]]


# What is strange, and means something


@pytest.mark.parametrize("step", [2**61, 2**62, 2**63, 2**70])
@pytest.mark.parametrize("sign", [1, -1])
def test_slice_with_a_step_beyond_the_axis_has_one_element(step: int, sign: int) -> None:
    x, m = tx.arange(10), table()
    first = np.arange(10)[::sign][:1].tolist()
    assert x[:: sign * step].tolist() == x.oindex[:: sign * step].tolist() == first
    assert (x[:: sign * step] + 1).tolist() == [first[0] + 1]
    assert m[:: sign * step, ::-step].T.reshape(-1).tolist() == m[::sign, ::-1][:1, :1].reshape(-1).tolist()
    assert m[:: sign * step, [2, 0]].tolist() == m[::sign, [2, 0]][:1].tolist()
    x[:: sign * step] = 77
    x.oindex[:: sign * step] += 1
    assert x.tolist() == [78 if k == first[0] else k for k in range(10)]
    assert x[step::].tolist() == x[step::step].tolist() == x[: -step : sign * step][:0].tolist() == []
    assert np.asarray(x[:: sign * step]).tolist() == [78] and x.windows(0, 10, step).shape == (1, 10)
    assert x.windows(0, 1, 9, step)[:, 0].tolist() == [x[0].item(), x[9].item()]


def test_views_of_the_largest_size_can_be_sliced() -> None:
    x = tx.broadcast_to(tx.ones(()), (2**63 - 1,))
    assert x[:].shape == x[::1].shape == (2**63 - 1,) and x[::-2].shape == (2**62,)
    assert x[[0, 2**63 - 2]].tolist() == x[:: 2**62].tolist() == [1.0, 1.0]


def test_axes_may_be_given_as_arrays() -> None:
    a, b = tx.arange(12.0).reshape(3, 4), tx.arange(12.0).reshape(4, 3)
    for axes in ([[1, 0], [0, 1]], [[1], [0]], [1, 0]):
        expected = np.tensordot(a.to_numpy(), b.to_numpy(), axes)
        for array in (np.array(axes), tx.asarray(axes)):
            assert tx.tensordot(a, b, array).tolist() == expected.tolist()
    assert a.sum(axis=np.array([0, 1])).item() == 66.0 and a.sum(axis=np.array(0)).tolist() == a.sum(axis=0).tolist()
    assert tx.expand_dims(a, np.array(0)).shape == (1, 3, 4) and a.flip(axis=np.array([0])).tolist() == a[::-1].tolist()


def test_view_that_dlpack_copies_is_read_only_unless_a_copy_is_requested() -> None:
    """A write to a copy that the user did not request would be lost."""
    for view in (table().T.reshape(6), table().oindex[[0, 0, 1]]):
        shared = np.from_dlpack(view)
        assert not shared.flags.writeable and shared.tolist() == view.tolist()
        requested_copy = np.from_dlpack(view, copy=True)
        assert requested_copy.flags.writeable and requested_copy.tolist() == view.tolist()
    contiguous = table()
    np.from_dlpack(contiguous)[0, 0] = 9
    assert contiguous[0, 0].item() == 9
