"""Random moves of a layout, each with the same move of an array of storage offsets by NumPy."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from tenxor.layout import Layout

MAX_ELEMENTS = 600


def factorised(draw: Any, size: int) -> tuple[int, ...]:
    """Return a random shape of `size` elements, size-1 axes included."""
    if size == 0:
        return tuple(draw(st.permutations([0, draw(st.integers(0, 3))])))
    sizes = []
    while size > 1:
        factor = draw(st.sampled_from([n for n in range(2, size + 1) if size % n == 0]))
        sizes.append(factor)
        size //= factor
    for _ in range(draw(st.sampled_from([0, 0, 0, 1]))):
        sizes.insert(draw(st.integers(0, len(sizes))), 1)
    return tuple(sizes)


def any_slice(draw: Any, size: int) -> slice:
    bound = st.none() | st.integers(-size - 2, size + 2)
    return slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2, -3])))


def index_list(draw: Any, size: int) -> list[Any]:
    if draw(st.booleans()) or size == 0:
        return draw(st.lists(st.booleans(), min_size=size, max_size=size)) if size else []
    return draw(st.lists(st.integers(-size, size - 1), max_size=6))


def index(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    key: list[Any] = []
    for size in model.shape[: draw(st.integers(0, model.ndim))]:
        choices = ["slice", "slice", "all"] + (["int"] if size else [])
        kind = draw(st.sampled_from(choices))
        if kind == "int":
            key.append(draw(st.integers(-size, size - 1)))
        else:
            key.append(any_slice(draw, size) if kind == "slice" else slice(None))
    if draw(st.integers(0, 3)) == 0:
        key.insert(draw(st.integers(0, len(key))), None)
    if len([k for k in key if k is not None]) == model.ndim and draw(st.booleans()):
        key.insert(draw(st.integers(0, len(key))), Ellipsis)
    return layout.index(tuple(key)), model[tuple(key)]


def oindex(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    key: list[Any] = []
    keepdims = draw(st.booleans())
    expected = model
    axis = 0
    for size in model.shape[: draw(st.integers(0, model.ndim))]:
        kind = draw(st.sampled_from(["none", "slice", "list", "array"] + (["int"] if size else [])))
        if kind == "none":
            key.append(None)
        elif kind == "slice":
            key.append(any_slice(draw, size))
            expected = expected[(slice(None),) * axis + (key[-1],)]
        elif kind == "int":
            key.append(draw(st.integers(-size, size - 1)))
            expected = np.take(expected, [key[-1]] if keepdims else key[-1], axis=axis)
            axis -= not keepdims
        else:
            indices = index_list(draw, size)
            key.append(np.array(indices, dtype=None if indices else np.int64) if kind == "array" else indices)
            positions = np.arange(size)[np.array(indices, dtype=None if indices else np.int64)]
            expected = np.take(expected, positions, axis=axis)
        axis += 1
    return layout.oindex(tuple(key), keepdims), expected


def permute(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    axes = draw(st.permutations(range(model.ndim)))
    signed_axes = [axis - model.ndim if draw(st.booleans()) else axis for axis in axes]
    return layout.permute(signed_axes), model.transpose(axes)


def swapaxes(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    if model.ndim == 0:
        return layout.transpose(), model.T
    a, b = (draw(st.integers(-model.ndim, model.ndim - 1)) for _ in range(2))
    return layout.swapaxes(a, b), model.swapaxes(a, b)


def moveaxis(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    count = draw(st.integers(0, model.ndim))
    source = draw(st.permutations(range(model.ndim)))[:count]
    destination = draw(st.permutations(range(model.ndim)))[:count]
    return layout.moveaxis(source, destination), np.moveaxis(model, source, destination)


def reshape(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    shape = list(factorised(draw, model.size))
    size = prod(shape)
    if size and shape and draw(st.booleans()):
        shape[draw(st.integers(0, len(shape) - 1))] = -1
    return layout.reshape(shape), model.reshape(shape)


def flatten(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    if model.ndim == 0:
        return layout.flatten(), model.reshape(1)
    start = draw(st.integers(0, model.ndim - 1))
    end = draw(st.integers(start, model.ndim - 1))
    merged = (*model.shape[:start], prod(model.shape[start : end + 1]), *model.shape[end + 1 :])
    return layout.flatten(start, end), model.reshape(merged)


def unflatten(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    if model.ndim == 0:
        return layout, model
    axis = draw(st.integers(0, model.ndim - 1))
    sizes = factorised(draw, model.shape[axis])
    return layout.unflatten(axis, sizes), model.reshape((*model.shape[:axis], *sizes, *model.shape[axis + 1 :]))


def squeeze(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    unit_axes = [axis for axis, size in enumerate(model.shape) if size == 1]
    axes = tuple(unit_axes[: draw(st.integers(0, len(unit_axes)))])
    return (layout.squeeze(), model.squeeze()) if draw(st.booleans()) else (layout.squeeze(axes), model.squeeze(axes))


def expand_dims(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    axes = tuple(draw(st.permutations(range(-1, model.ndim)))[: draw(st.integers(1, 2))])
    axes = axes if len({axis % (model.ndim + len(axes)) for axis in axes}) == len(axes) else axes[:1]
    return layout.expand_dims(axes), np.expand_dims(model, axes)


def expand(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    shape = [draw(st.integers(0, 3)) if size == 1 else size for size in model.shape]
    if draw(st.booleans()):
        shape.insert(0, draw(st.integers(0, 3)))
    sizes = [-1 if size == old and draw(st.booleans()) else size for size, old in zip(shape[::-1], model.shape[::-1], strict=False)]
    return layout.expand(shape[: len(shape) - len(sizes)] + sizes[::-1]), np.broadcast_to(model, shape)


def arranged(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    dropped = [a for a, size in enumerate(model.shape) if size == 1 and draw(st.booleans())]
    order: list[int | None] = list(draw(st.permutations([a for a in range(model.ndim) if a not in dropped])))
    shape = [draw(st.integers(0, 3)) if model.shape[a] == 1 else model.shape[a] for a in order]  # type: ignore[index]
    expected = model.squeeze(tuple(dropped)).transpose(np.argsort(np.argsort(order)))
    for _ in range(draw(st.integers(0, 2))):
        position = draw(st.integers(0, len(order)))
        order.insert(position, None)
        shape.insert(position, draw(st.integers(0, 3)))
        expected = np.expand_dims(expected, position)
    return layout.arranged(order, tuple(shape)), np.broadcast_to(expected, shape)


def flip(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    if draw(st.booleans()):
        return layout.flip(), np.flip(model)
    axes = tuple(draw(st.permutations(range(model.ndim)))[: draw(st.integers(0, model.ndim))])
    return layout.flip(axes), np.flip(model, axes)


def diagonal(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    if model.ndim < 2:
        return layout, model
    a, b = draw(st.permutations(range(model.ndim)))[:2]
    offset = draw(st.integers(-3, 3))
    return layout.diagonal(offset, a, b), model.diagonal(offset, a, b)


def windows(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    axes = [axis for axis, size in enumerate(model.shape) if size]
    if not axes:
        return layout, model
    axis = draw(st.sampled_from(axes))
    size, step, dilation = (draw(st.integers(1, 3)) for _ in range(3))
    reach = dilation * (size - 1) + 1
    if reach > model.shape[axis]:
        return layout, model
    rows = (slice(None),) * axis + (slice(None, None, step),)
    expected = sliding_window_view(model, reach, axis)[rows][..., ::dilation]
    return layout.windows(axis, size, step, dilation), expected


def select(draw: Any, layout: Layout, model: np.ndarray) -> tuple[Layout, np.ndarray]:
    if model.ndim == 0:
        return layout, model
    axis = draw(st.integers(0, model.ndim - 1))
    size = model.shape[axis]
    indices = draw(st.lists(st.integers(-size, size - 1), max_size=6)) if size else []
    return layout.select(axis, indices), np.take(model, np.array(indices, dtype=np.int64), axis=axis)


AFFINE = [index, permute, swapaxes, moveaxis, reshape, flatten, unflatten, squeeze, expand_dims, expand, flip]
AFFINE += [diagonal, windows]
ALL = [*AFFINE, arranged, oindex, select, reshape, reshape]


def random_moves(draw: Any, layout: Layout, model: np.ndarray, moves: list[Any], max_moves: int) -> tuple[Layout, np.ndarray]:
    """Apply up to `max_moves` random moves, except those with too large a result."""
    for _ in range(draw(st.integers(0, max_moves))):
        new_layout, expected = draw(st.sampled_from(moves))(draw, layout, model)
        if expected.size <= MAX_ELEMENTS and expected.ndim <= 7:
            layout, model = new_layout, np.asarray(expected)
    return layout, model


def contiguous_layout(shape: tuple[int, ...], start: int = 0) -> tuple[Layout, np.ndarray]:
    numbers = np.arange(start, start + prod(shape), dtype=np.int64)
    return Layout.contiguous(shape, start), numbers.reshape(shape)


@st.composite
def layouts(draw: Any, moves: list[Any] = ALL, max_moves: int = 6, size: int | None = None) -> tuple[Layout, np.ndarray]:
    """Return a layout after random moves of a storage (of `size` elements), and its expected offsets."""
    if size is None:
        shape = tuple(draw(st.lists(st.integers(1, 6), max_size=4)))
        return random_moves(draw, *contiguous_layout(shape, draw(st.sampled_from([0, 0, 7]))), moves, max_moves)
    return random_moves(draw, *contiguous_layout(factorised(draw, size)), moves, max_moves)


@st.composite
def chains(draw: Any, moves: list[Any] = ALL, max_moves: int = 4) -> tuple[Layout, np.ndarray]:
    """Return a view chain after random moves, and its expected offsets."""
    layout, model = contiguous_layout(draw(st.sampled_from([(4, 6), (2, 3, 4), (6, 4), (3, 4, 2), (12, 2)])))
    if draw(st.booleans()):
        layout, model = layout.select(0, [1, 0, 1, -1, 0, 0]), model[[1, 0, 1, -1, 0, 0]]
    for _ in range(draw(st.integers(1, 2))):
        layout, model = layout.transpose().flatten(), model.T.reshape(-1)
        shape = factorised(draw, model.size)
        layout, model = layout.reshape(shape), model.reshape(shape)
    return random_moves(draw, layout, model, moves, max_moves)
