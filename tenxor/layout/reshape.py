"""Reshape: checked sizes, the axes of a single view if possible, and the splits and merges on the way. An axis has a size and a stride, or
a table of offsets. A reshape keeps the row-major order of the elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from math import prod

from .._utils.cache_registry import register
from .._utils.records import NamedTuple
from ..errors import ShapeError
from .axes import UNIT_AXIS, Axis, coalesce_axes, join_axes, split_in_two
from .coords import Shape, as_int_tuple, contiguous_strides


class ReshapePlan(NamedTuple):
    """The steps of a reshape by splits and merges of axes.

    `kind` is "same", "merge", "split", "split then merge" or "merge then split". `steps` are the shapes on the way, ending with the new
    shape; without a change, there are none. `single_view` is False where the result needs a chain of views.
    """

    kind: str
    steps: tuple[Shape, ...]
    single_view: bool


def plan_steps(old: Shape, new: Shape) -> tuple[str, tuple[Shape, ...]]:
    """Return kind and steps, as in `ReshapePlan`, of a reshape from `old` to `new`, of as many elements; axes of size 1 are ignored.

    The number of elements is not checked.
    """
    if old == new:
        return "same", ()
    if 0 in old:
        return "merge then split", ((0,), new)
    old_products, new_products = _prefix_products(old), _prefix_products(new)
    if old_products == new_products:
        return "same", (new,)
    if new_products < old_products:
        return "merge", (new,)
    if old_products < new_products:
        return "split", (new,)
    union = sorted(old_products | new_products)
    if all(longer % shorter == 0 for shorter, longer in pairwise(union)):
        return "split then merge", (_factors(union), new)
    return "merge then split", (_factors(sorted(old_products & new_products)), new)


def _prefix_products(shape: Shape) -> set[int]:
    """Return the products of the first sizes of `shape`, for every number of sizes; 1 for none."""
    products = {1}
    product = 1
    for size in shape:
        product *= size
        products.add(product)
    return products


def _factors(products: list[int]) -> Shape:
    """Return the quotient of each of the ascending `products` by the previous one: the sizes of the axes between them, one less than
    `products`.
    """
    return tuple([longer // shorter for shorter, longer in pairwise(products)])


def reshape_axes(axes: Iterable[Axis], shape: Shape) -> list[Axis] | None:
    """Return the axes of the single view with this `shape` that walks the same offsets as `axes`, in row-major order.

    Return None if a single view cannot express this. `shape` must have as many elements as `axes`, and no axis may have size 0. The new
    axes are split off the fastest end of the old ones, which are joined only as far as a new axis needs.
    """
    slower = coalesce_axes(axes)
    current = UNIT_AXIS
    peeled: list[Axis] = []
    for size in reversed(shape):
        if size == 1:
            peeled.append(Axis(1, current.stride))
            continue
        while current.size % size:
            longer = join_axes(slower.pop(), current) if slower else None
            if longer is None:
                return None
            current = longer
        split_axes = split_in_two(current, size)
        if split_axes is None:
            return None
        current, inner = split_axes
        peeled.append(inner)
    peeled.reverse()
    return peeled


@register("reshaped strides", "the strides of a reshaped view, by old and new shape")
@lru_cache(maxsize=4096)
def compute_strides(shape: Shape, strides: Shape, target: Shape) -> Shape | None:
    """Return the strides of the single affine view with shape `target` that walks the same offsets as a view of `shape` and `strides`.

    Both walk in row-major order. Return None if no single view does. `target` must have as many elements as `shape`.
    """
    if 0 in shape or strides == contiguous_strides(shape):
        return contiguous_strides(target)
    axes = reshape_axes(map(Axis, shape, strides), target)
    return None if axes is None else tuple([axis.stride for axis in axes])


def resolve_shape(shape: Iterable[int], current_shape: Shape, size: int, op: str = "reshape") -> Shape:
    """Return `shape` as a tuple of ints, with a -1, if any, replaced to hold `size` elements. Raises ShapeError if no size fits, or for
    another negative size.

    `current_shape`, the shape before the reshape, and `op` appear in the message alone.
    """
    sizes = as_int_tuple(shape)
    if sizes and min(sizes) < 0:
        return _fill_missing_size(sizes, current_shape, size, op)
    if prod(sizes) != size:
        raise ShapeError(f"{op}: shape {current_shape} has {size} elements, shape {sizes} has {prod(sizes)}" + _suggest_shape(sizes, size))
    return sizes


def _fill_missing_size(sizes: Shape, old: Shape, size: int, op: str) -> Shape:
    """Return `sizes`, of which at least one is negative, with the -1 replaced so that the shape has `size` elements.

    Raises ShapeError, naming `op` and the shape before, `old`, if no size or several sizes fit, and for another negative size.
    """
    if min(sizes) < -1:
        raise ShapeError(f"{op}: shape {sizes} has a negative size other than -1; sizes must be 0 or more, or -1 for one size")
    if sizes.count(-1) > 1:
        raise ShapeError(f"{op}: shape {sizes} has more than one -1; only one size can be worked out")
    known_product = -prod(sizes)
    if known_product == 0:
        raise ShapeError(f"{op}: the -1 in {sizes} could be anything, because another size is 0; give the size itself")
    missing, remainder = divmod(size, known_product)
    if remainder:
        raise ShapeError(
            f"{op}: shape {old} has {size} elements, which {known_product} does not divide, so no size for the -1 in {sizes} fits"
        )
    return tuple([missing if n == -1 else n for n in sizes])


def _suggest_shape(sizes: Shape, size: int) -> str:
    """Return a hint, as the end of an error: "; ", `sizes` with the last possible size replaced by -1, and the resulting shape.

    A size is possible if another one in its place gives `size` elements. Without one, return an empty text.
    """
    for axis in reversed(range(len(sizes))):
        other_product = prod(sizes[:axis] + sizes[axis + 1 :])
        if other_product and size % other_product == 0:
            hint = tuple([-1 if i == axis else n for i, n in enumerate(sizes)])
            return f"; {hint} would be {tuple([size // other_product if n == -1 else n for n in hint])}"
    return ""
