"""Gather and scatter by PyTorch's names, compared with loops written from PyTorch's documentation.

The index has as many axes as the tensor; it may be shorter than the tensor on all axes but `axis`, and shorter than `src` on all
axes. Nothing is broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenxor as tx
from tenxor.errors import ArgumentError, BadIndex, DTypeError, IndexOutOfRange, ShapeError

Array = np.ndarray[Any, Any]
REDUCE: dict[str, Callable[[Any, Any], Any]] = {
    **{"set": lambda old, new: new, "sum": lambda old, new: old + new, "prod": lambda old, new: old * new},
    **{"amax": max, "amin": min},
}


def gathered(x: Array, axis: int, index: Array) -> Array:
    result = np.zeros(index.shape, x.dtype)
    for at in np.ndindex(*index.shape):
        result[at] = x[(*at[:axis], index[at], *at[axis + 1 :])]
    return result


def scattered(x: Array, axis: int, index: Array, src: Array, reduce: str, include_self: bool = True) -> Array:
    result, taken = x.copy(), np.zeros(x.shape, int)
    for at in np.ndindex(*index.shape):
        place = (*at[:axis], index[at], *at[axis + 1 :])
        first = taken[place] == 0 and not include_self
        how = REDUCE["sum" if reduce == "mean" else reduce]
        result[place] = src[at] if first else how(result[place], src[at])
        taken[place] += 1
    if reduce == "mean":
        counts = taken + include_self
        result = np.where(taken > 0, result / np.maximum(counts, 1), result)
    return result


def masked(x: Array, mask: Array, source: Array) -> Array:
    result, values = x.copy(), iter(source.ravel())
    for at in np.ndindex(*x.shape):
        if mask[at]:
            result[at] = next(values)
    return result


class Sample:
    """Tensors of random shapes, with an index that is shorter on some axes."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ndim = int(rng.integers(1, 4))
        sizes = rng.integers(1, 6, ndim)
        self.axis = int(rng.integers(ndim))
        lengths = [int(rng.integers(1, n + 1)) for n in sizes]
        lengths[self.axis] = int(rng.integers(0, 8))  # which may be longer, or nothing
        self.x = rng.normal(size=sizes)
        self.src = rng.normal(size=[n + int(rng.integers(3)) for n in lengths])
        self.index = rng.integers(0, sizes[self.axis], lengths)
        self.one = rng.permutation(int(sizes[self.axis]))[: int(rng.integers(1, 4))]
        self.slices = rng.normal(size=[len(self.one) if a == self.axis else int(n) for a, n in enumerate(sizes)])
        self.mask = rng.random(sizes) < 0.5


def of_slices(x: Array, axis: int, index: Array, source: Array, add: bool) -> Array:
    result = x.copy()
    for k, i in enumerate(index):
        place, part = (*[slice(None)] * axis, i), (*[slice(None)] * axis, k)
        result[place] = result[place] * add + source[part]
    return result


# Each function on a sample, and a loop that PyTorch's documentation describes.
Case = tuple[Callable[[Any, Sample], Any], Callable[[Sample], Array]]
FAMILY: dict[str, Case] = {
    "gather": (lambda x, s: tx.gather(x, s.axis, s.index), lambda s: gathered(s.x, s.axis, s.index)),
    "scatter": (lambda x, s: tx.scatter(x, s.axis, s.index, s.src), lambda s: scattered(s.x, s.axis, s.index, s.src, "set")),
    "scatter of a number": (
        lambda x, s: tx.scatter(x, dim=s.axis, index=s.index, value=2.5),
        lambda s: scattered(s.x, s.axis, s.index, np.full(s.index.shape, 2.5), "set"),
    ),
    "scatter, multiply": (
        lambda x, s: tx.scatter(x, s.axis, s.index, s.src, reduce="multiply"),
        lambda s: scattered(s.x, s.axis, s.index, s.src, "prod"),
    ),
    "scatter_add": (lambda x, s: tx.scatter_add(x, s.axis, s.index, s.src), lambda s: scattered(s.x, s.axis, s.index, s.src, "sum")),
    "index_select": (lambda x, s: tx.index_select(x, s.axis, s.one), lambda s: np.take(s.x, s.one, s.axis)),
    "index_copy": (
        lambda x, s: tx.index_copy(x, s.axis, s.one, s.slices),
        lambda s: of_slices(s.x, s.axis, s.one, s.slices, False),
    ),
    "index_add": (lambda x, s: tx.index_add(x, s.axis, s.one, s.slices), lambda s: of_slices(s.x, s.axis, s.one, s.slices, True)),
    "masked_scatter": (
        lambda x, s: tx.masked_scatter(x, tx.asarray(s.mask), tx.asarray(s.x * 2.0)),
        lambda s: masked(s.x, s.mask, s.x * 2.0),
    ),
}
for _name in ("sum", "prod", "mean", "amax", "amin"):
    for _include in (True, False):
        FAMILY[f"scatter_reduce, {_name}{'' if _include else ' of src alone'}"] = (
            lambda x, s, n=_name, i=_include: tx.scatter_reduce(x, s.axis, s.index, s.src, n, include_self=i),  # type: ignore[misc]
            lambda s, n=_name, i=_include: scattered(s.x, s.axis, s.index, s.src, n, i),  # type: ignore[misc]
        )
IN_PLACE: dict[str, Callable[[Any, Sample], Any]] = {
    "scatter": lambda x, s: x.scatter_(s.axis, s.index, s.src),
    "scatter of a number": lambda x, s: x.scatter_(s.axis, s.index, value=2.5),
    "scatter, multiply": lambda x, s: x.scatter_(s.axis, s.index, s.src, reduce="multiply"),
    "scatter_add": lambda x, s: x.scatter_add_(s.axis, s.index, s.src),
    "scatter_reduce, sum": lambda x, s: x.scatter_reduce_(s.axis, s.index, s.src, "sum"),
    "scatter_reduce, amax": lambda x, s: x.scatter_reduce_(s.axis, s.index, s.src, "amax"),
    "scatter_reduce, mean": lambda x, s: x.scatter_reduce_(s.axis, s.index, s.src, "mean"),
    "scatter_reduce, prod of src alone": lambda x, s: x.scatter_reduce_(s.axis, s.index, s.src, "prod", include_self=False),
    "index_copy": lambda x, s: x.index_copy_(s.axis, s.one, s.slices),
    "index_add": lambda x, s: x.index_add_(s.axis, s.one, s.slices),
    "masked_scatter": lambda x, s: x.masked_scatter_(tx.asarray(s.mask), tx.asarray(s.x * 2.0)),
}


@pytest.mark.parametrize("name", FAMILY)
def test_gather_and_scatter_follow_pytorch_for_shorter_indices(name: str) -> None:
    ours, documented = FAMILY[name]
    for seed in range(25):
        sample = Sample(seed)
        wanted = documented(sample)
        np.testing.assert_allclose(ours(tx.asarray(sample.x), sample).to_numpy(), wanted, 1e-13, 1e-14, err_msg=f"{seed}")
        reversed_ = tx.asarray(np.ascontiguousarray(sample.x[..., ::-1]))[..., ::-1]  # a view in memory of another order
        np.testing.assert_allclose(ours(reversed_, sample).to_numpy(), wanted, 1e-13, 1e-14, err_msg=f"{seed}")


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms_write_through_views(name: str) -> None:
    for seed in range(8):
        sample = Sample(seed)
        memory = tx.asarray(np.stack([sample.x, sample.x]))
        view = memory[1]
        assert IN_PLACE[name](view, sample) is view
        np.testing.assert_allclose(memory.to_numpy(), np.stack([sample.x, FAMILY[name][1](sample)]), 1e-13, 1e-14, err_msg=f"{seed}")


@pytest.mark.parametrize("name", FAMILY)
def test_scatter_with_shorter_indices_has_vmap_and_derivatives(name: str) -> None:
    """vmap equals separate calls, and gradients equal finite differences in a random direction."""
    ours, _ = FAMILY[name]
    for seed in (1, 4, 6):
        sample = Sample(seed)
        rng = np.random.default_rng(seed + 100)
        batch = tx.asarray(np.stack([sample.x, rng.normal(size=sample.x.shape)]))
        result = tx.vmap(lambda x, s=sample: ours(x, s))(batch)
        for k in range(2):
            np.testing.assert_allclose(result[k].to_numpy(), ours(batch[k], sample).to_numpy(), 1e-13)
        weights = tx.asarray(rng.normal(size=result[0].shape))
        direction, step = rng.normal(size=sample.x.shape), 1e-6
        of_x = lambda x, s=sample, w=weights: (ours(x, s) * w).sum()
        slope = (of_x(tx.asarray(sample.x + step * direction)) - of_x(tx.asarray(sample.x - step * direction))).item() / (2 * step)
        assert abs((tx.grad(of_x)(batch[0]).to_numpy() * direction).sum() - slope) < 1e-6 * max(1.0, abs(slope))


@pytest.mark.parametrize("op", ["scatter", "scatter_add", "scatter_reduce"])
def test_gradient_of_longer_src_is_zero_beyond_the_index(op: str) -> None:
    reduce = ("sum",) if op == "scatter_reduce" else ()
    x, index = tx.zeros((3, 4)), tx.asarray([[1], [3]])
    gradient = tx.grad(lambda src: (getattr(tx, op)(x, 1, index, src, *reduce) * tx.arange(12.0).reshape(3, 4)).sum())(tx.ones((3, 2)))
    assert gradient.tolist() == [[1.0, 0.0], [7.0, 0.0], [0.0, 0.0]]


def test_an_index_axis_of_size_1_is_not_broadcast() -> None:
    x, src = tx.zeros((3, 4)), tx.ones((3, 4))
    for result in (tx.scatter_add(x, 1, [[2]], src), x.copy().scatter_add_(1, [[2]], src), tx.scatter_reduce(x, 1, [[2]], src, "sum")):
        assert result.sum().item() == 1.0 and result[0, 2].item() == 1.0
    assert tx.gather(src, 1, [[0, 1]]).shape == (1, 2)


X = tx.zeros((3, 4))
LONG = tx.zeros((4, 1), dtype=tx.int64)
WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "axes": (lambda: tx.gather(X, 0, [1]), ShapeError, r"gather: index has shape \(1,\) and the tensor \(3, 4\); both must"),
    "a long index": (lambda: tx.scatter(X, 1, LONG, 1), ShapeError, "on axes other than axis 1, index must not be longer"),
    "a short src": (lambda: tx.scatter_add(X, 1, [[0, 1]], X[:, :1]), ShapeError, r"src \(3, 1\); src must be .* src.expand\(1, 2\)"),
    "no index": (lambda: tx.gather(X, 0), ArgumentError, r"gather: takes an axis and an index: x.gather\(axis, index\)"),
    "floats": (lambda: X.scatter_add_(0, [[1.5]], 1), BadIndex, "scatter_add_: indices must be integers, not float64"),
    "out of range": (lambda: tx.gather(X, 1, [[4]]), IndexOutOfRange, "gather: index 4 is out of range for axis 1 of size 4"),
    "another reduction": (lambda: tx.scatter(X, 1, [[1]], 1, reduce="max"), ArgumentError, "scatter: reduce"),
    "rows of an index": (lambda: tx.index_select(X, 0, [[0]]), ShapeError, r"index has shape \(1, 1\); it must have one axis"),
    "a source": (lambda: X.index_copy_(0, [0], tx.zeros(4)), ShapeError, r"source has shape \(4,\); it must have shape \(1, 4\)"),
    "a mask": (lambda: tx.masked_scatter(X, X, X), DTypeError, "masked_scatter: mask must be a bool tensor, not float64"),
    "few values": (lambda: X.masked_scatter(X == 0, X[0, :3]).tolist(), IndexOutOfRange, r"index \d+ is out of range for axis 0 of size 3"),
    "no values": (lambda: X.masked_scatter(X == 0, tx.zeros(0)), ShapeError, "source has no elements, and mask is true for 12"),
}


@pytest.mark.parametrize("name", WRONG)
def test_scatter_errors_state_shapes_and_what_is_required(name: str) -> None:
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call()


def test_take_along_dim_broadcasts_and_flattens_by_default() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4))
    order = np.argsort(x, axis=1)
    assert tx.take_along_dim(tx.asarray(x), order, 1).tolist() == np.take_along_axis(x, order, 1).tolist()
    assert tx.take_along_dim(tx.asarray(x), order[:1], dim=1).tolist() == np.take_along_axis(x, order[:1].repeat(3, 0), 1).tolist()
    assert tx.take_along_dim(tx.asarray(x), [[11, 0]]).tolist() == [x.ravel()[11], x.ravel()[0]]
