"""Basic indexing, `x[key]` with integers, slices, None and an Ellipsis: views and elements. For other keys, `select_items`
(`row_selection.py`) and `gather_elements` (`index_gather.py`) are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import I1, I32, I64, POINTER, array
from ...graph.node import MAX_EAGER_SOURCE_BYTES
from ..object_layout import SIZE_OFFSET, SLICE_START_OFFSET, TUPLE_ITEMS_OFFSET, ObjectTable
from ..sized_template import MAX_AXES
from .call_replay import new_view
from .function_builder import FunctionBuilder
from .node_creation import can_evaluate_early
from .pending_operations import has_plain_node, load_computed_slot
from .python_conversion import compute_tensor_node
from .scalar_arithmetic import new_known_scalar
from .spec_table import VIEW_DIMS, find_spec

MAX_KEY_ITEMS = 4  # entries of a key, at most
MAX_PY_SSIZE = (1 << 63) - 1  # PY_SSIZE_T_MAX


class SelectedView(NamedTuple):
    """A view of a tensor, as selected by a key, in `Value`s of run time: its dtype, number of axes, and offset in the storage, in elements.
    `dims` is the address of an array of 64-bit integers: the sizes, and from `MAX_AXES` on the strides.
    """

    dtype: Value
    ndim: Value
    dims: Value
    offset: Value


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to read a tensor by a key, and to find the element or the view that a basic key selects.

    The functions emitted include `get_item`, `select_item`, `item_at`, `gather_among_slices`, `find_element`, `evaluate_key` and
    `is_basic`.
    """
    parameters = [("x", POINTER), ("key", POINTER)]
    _emit_find_element(FunctionBuilder(module, objects, "find_element", parameters, I64))
    _emit_evaluate_key(FunctionBuilder(module, objects, "evaluate_key", [*parameters, ("dims", POINTER)], I1))
    _emit_is_basic(FunctionBuilder(module, objects, "is_basic", [("self", POINTER), ("tensor_and_key", POINTER)], is_exported=True))
    _emit_gather_among_slices(FunctionBuilder(module, objects, "gather_among_slices", parameters))
    _emit_select_item(FunctionBuilder(module, objects, "select_item", parameters))
    _emit_get_item(FunctionBuilder(module, objects, "get_item", parameters))
    _emit_item_at(FunctionBuilder(module, objects, "item_at", parameters))


def find_element(f: FunctionBuilder, x: Value, key: Value) -> tuple[Value, Value]:
    """Emit a test whether `key`, an integer or a tuple with an integer for each axis, selects a single element of the tensor `x`.

    Return the result of the test, an `i1`, and the offset of the element in the storage, an `i64`, in elements. The offset is meaningless
    if the test fails. The test fails for other keys, an index out of range, and a tensor without strides. Python code may run.
    """
    is_int_or_tuple = f.or_else(f.is_instance(key, "int"), lambda: f.is_instance(key, "tuple"))
    (position,) = f.choose(is_int_or_tuple, lambda: [f.call("find_element", I64, [x, key])], lambda: [f.i64(0)])
    return position > 0, position - 1


def _emit_find_element(f: FunctionBuilder) -> None:
    """Emit `find_element(x, key)`: return 1 + the offset, in elements, of the element of the tensor `x` that `key` selects in the storage,
    as an `i64`.

    `key` is an integer for a vector, or a tuple with an integer for each axis. Return 0 for another key, an index out of range, or a tensor
    without strides.
    """
    x, key = f.arguments
    shape, strides, offset = _load_view_dims(f, x)
    ndim = f.load_word(shape, SIZE_OFFSET)

    def evaluate_index(item: Value, k: int | Value) -> Value:
        f.require(f.is_instance(item, "int"))
        size, (value, fits) = f.unbox_integer(f.tuple_item(shape, k)), f.unbox_checked(item)
        value = f.select_value(value < 0, value + size, value)
        f.require(fits & value.compare("ult", size))
        return value * f.unbox_integer(f.tuple_item(strides, k))

    def evaluate_tuple() -> list[Value]:
        f.require(f.is_instance(key, "tuple"))
        f.require(f.load_word(key, SIZE_OFFSET).equals(ndim))
        return [f.fold_range(ndim, f.i64(0), lambda k, total: total + evaluate_index(f.tuple_item(key, k), k))]

    def evaluate_integer() -> list[Value]:
        f.require(ndim.equals(1))
        return [evaluate_index(key, 0)]

    (shift,) = f.choose(f.is_instance(key, "int"), evaluate_integer, evaluate_tuple)
    f.emit_return(f.unbox_integer(offset) + shift + 1)


def _load_view_dims(f: FunctionBuilder, x: Value) -> tuple[Value, Value, Value]:
    """Emit loads of the shape, strides and offset of the tensor `x`. Return all three, as two Python tuples and a Python integer, borrowed.
    Strides and offset are in elements.

    The emitted function returns null or 0 for a tensor without strides.
    """
    spec, offset = load_computed_slot(f, x, "spec"), load_computed_slot(f, x, "offset")
    shape, strides = f.get_slot(spec, "Spec.shape"), f.get_slot(spec, "Spec.strides")
    f.decline_if(f.is_object(strides, "None"))
    return shape, strides, offset


def evaluate_key(f: FunctionBuilder, x: Value, key: Value) -> SelectedView:
    """Emit the evaluation of a basic `key` of the tensor `x`: integers, slices, None and an Ellipsis that select a view.

    Return the view's dtype, sizes, strides and offset; no tensor is made. The emitted function returns null or 0 where the emitted function
    `evaluate_key` returns false, as for other keys, keys of an element, and indices out of range.
    """
    dims = f.local(array(I64, VIEW_DIMS + 2))
    f.require(f.call("evaluate_key", I1, [x, key, dims]))
    ndim, offset = (dims.at(VIEW_DIMS + k, I64).load(I64) for k in range(2))
    return SelectedView(f.get_slot(x, "Tensor.dtype"), ndim, dims, offset)


def look_up_view_spec(f: FunctionBuilder, selected_view: SelectedView) -> Value:
    """Emit the lookup of the spec of the view described by `selected_view`; a missing spec is made. Python code may run.

    Return the spec, which is held (see `FunctionBuilder.hold_owned`). The emitted function returns null or 0 if memory runs out.
    """
    return find_spec(f, selected_view.dtype, selected_view.ndim, selected_view.dims)


def _emit_evaluate_key(f: FunctionBuilder) -> None:
    """Emit `evaluate_key(x, key, dims)`: find the view that a basic key of the tensor `x` selects, and describe it in the array `dims`.
    Return true, or false for other keys, indices out of range, keys of an element, more than `MAX_KEY_ITEMS` items, and a tensor `x`
    without strides. The function also returns false for a view of more than `MAX_AXES` axes, a slice step of 0, and slice bounds other than
    ints and None.

    The view is stored into `dims`, an array of 64-bit integers: the sizes, and from `MAX_AXES` on the strides. The number of axes and the
    offset in the storage follow at `VIEW_DIMS`. Strides and offset are in elements.
    """
    x, key, dims = f.arguments
    shape, strides, offset = _load_view_dims(f, x)
    ndim = f.load_word(shape, SIZE_OFFSET)
    single_item = f.local(POINTER, key)
    is_tuple = f.is_instance(key, "tuple")
    count = f.choose(is_tuple, lambda: [f.load_word(key, SIZE_OFFSET)], lambda: [f.i64(1)])[0]
    items = f.select_value(is_tuple, f.address_at(key, TUPLE_ITEMS_OFFSET), single_item)
    f.require(count <= MAX_KEY_ITEMS)
    view_offset, axis, axes, is_view = (f.local(I64, v) for v in (f.unbox_integer(offset), f.i64(0), f.i64(0), f.i64(0)))
    start, stop, step = (f.local(I64) for _ in range(3))

    def next_axis() -> tuple[Value, Value]:
        axis_index = axis.load(I64)
        f.require(axis_index < ndim)
        axis.store(axis_index + 1)
        return f.unbox_integer(f.tuple_item(shape, axis_index)), f.unbox_integer(f.tuple_item(strides, axis_index))

    def append_axis(size: Value, stride: Value) -> None:
        k = axes.load(I64)
        f.require(k < MAX_AXES)
        dims.at(k, I64).store(size)
        dims.at(k + MAX_AXES, I64).store(stride)
        axes.store(k + 1)

    def apply_integer(item: Value) -> list[Value]:
        size, stride = next_axis()
        value, fits = f.unbox_checked(item)
        f.require(fits)
        value = f.select_value(value < 0, value + size, value)
        f.require(f.and_then(value >= 0, lambda: value < size))
        view_offset.store(view_offset.load(I64) + value * stride)
        return []

    def apply_slice(item: Value) -> list[Value]:
        size, stride = next_axis()
        bounds = [f.address_at(item, SLICE_START_OFFSET + 8 * k).load(POINTER) for k in range(3)]
        are_none = [f.is_object(bound, "None") for bound in bounds]
        for bound, is_none in zip(bounds, are_none, strict=True):  # another bound would run Python's `__index__`
            f.require(f.or_else(is_none, lambda bound=bound: f.is_instance(bound, "int")))  # type: ignore[misc]
        f.decline_if(f.is_object(bounds[-1], "0"))
        are_small = f.constant(I1, True)
        for bound, is_none in zip(bounds, are_none, strict=True):
            are_small = are_small & f.or_else(is_none, lambda bound=bound: f.has_one_digit(bound))  # type: ignore[misc]

        def read_bounds() -> list[Value]:
            """Emit the reading of the bounds without a call, with the results of `PySlice_Unpack`. Return an empty list, for `choose`."""

            def load_bound(k: int, default: Value) -> Value:
                return f.choose(are_none[k], lambda: [default], lambda: [f.unbox_integer(bounds[k])])[0]

            step_value, highest, zero = load_bound(2, f.i64(1)), f.i64(MAX_PY_SSIZE), f.i64(0)
            step.store(step_value)
            start.store(load_bound(0, f.select_value(step_value < 0, highest, zero)))
            stop.store(load_bound(1, f.select_value(step_value < 0, f.i64(-MAX_PY_SSIZE - 1), highest)))
            return []

        def unpack_bounds() -> list[Value]:
            f.decline_if(f.call("PySlice_Unpack", I32, [item, start, stop, step]) < 0)
            return []

        f.choose(are_small, read_bounds, unpack_bounds, (99, 1))
        step_value = step.load(I64)
        length = f.call("PySlice_AdjustIndices", I64, [size, start, stop, step_value])
        max_step = f.select_value(size < 1, f.i64(1), size)  # limits the product: a longer step selects one element as well
        step_value = f.select_value(step_value > max_step, max_step, f.select_value(step_value < -max_step, -max_step, step_value))
        start_shift = start.load(I64) * stride
        view_offset.store(view_offset.load(I64) + f.select_value(length.equals(0), f.i64(0), start_shift))
        append_axis(length, stride * step_value)
        return []

    def apply_special_item(item: Value) -> list[Value]:
        is_new = f.is_object(item, "None")
        f.require(f.or_else(is_new, lambda: f.is_object(item, "...")))
        return f.choose(is_new, append_new_axis, apply_ellipsis)

    def append_new_axis() -> list[Value]:
        append_axis(f.i64(1), f.i64(0))
        return []

    def apply_ellipsis() -> list[Value]:
        """Emit the addition of the axes for which the key has neither an integer nor a slice. Return an empty list, for `choose`."""
        consumed_axes, ellipsis_count = f.local(I64, f.i64(0)), f.local(I64, f.i64(0))

        def count_item(j: Value) -> None:
            item = items.at(j, POINTER).load(POINTER)
            f.emit_if(
                f.or_else(f.is_instance(item, "int"), lambda: f.is_instance(item, "slice")),
                lambda: consumed_axes.store(consumed_axes.load(I64) + 1),
            )
            f.emit_if(f.is_object(item, "..."), lambda: ellipsis_count.store(ellipsis_count.load(I64) + 1))

        f.for_range(count, count_item)
        f.require(f.and_then(ellipsis_count.load(I64).equals(1), lambda: consumed_axes.load(I64) <= ndim))
        copy_axes(ndim - consumed_axes.load(I64))  # `consumed_axes` counts the entries before the Ellipsis, too
        is_view.store(f.i64(1))
        return []

    def copy_axes(axis_count: Value) -> None:
        f.for_range(axis_count, lambda _: append_axis(*next_axis()))

    def apply_item(k: Value) -> None:
        item = items.at(k, POINTER).load(POINTER)
        apply_non_integer = lambda: f.choose(f.is_instance(item, "slice"), lambda: apply_slice(item), lambda: apply_special_item(item))
        f.choose(f.is_instance(item, "int"), lambda: apply_integer(item), apply_non_integer)

    f.for_range(count, apply_item)
    copy_axes(ndim - axis.load(I64))
    count = axes.load(I64)
    f.decline_if(count.equals(0) & is_view.load(I64).equals(0))  # an element is no view
    for k, value in enumerate((count, view_offset.load(I64))):
        dims.at(VIEW_DIMS + k, I64).store(value)

    def clear_axis(k: int) -> None:
        for position in (k, k + MAX_AXES):
            dims.at(position, I64).store(f.i64(0))

    for k in range(MAX_AXES):
        f.emit_if(count <= k, lambda k=k: clear_axis(k))  # type: ignore[misc]
    f.emit_return(f.constant(I1, True))


def _emit_is_basic(f: FunctionBuilder) -> None:
    """Emit `is_basic((x, key))`, called from Python: return True if `key` selects an element or a view of the tensor `x` (`find_element`,
    `evaluate_key`), else False.

    So the result is False also for an index out of range, and for a tensor without strides. An error other than MemoryError is raised.
    """
    _, tensor_and_key = f.arguments
    x, key = (f.tuple_item(tensor_and_key, k) for k in range(2))
    is_element, _ = find_element(f, x, key)
    is_basic = f.or_else(is_element, lambda: f.call("evaluate_key", I1, [x, key, f.local(array(I64, VIEW_DIMS + 2))]))
    f.emit_if(~is_basic, f.propagate_error)
    f.emit_return(f.box_bool(is_basic))


def _emit_get_item(f: FunctionBuilder) -> None:
    """Emit `get_item(x, key)`: return `x[key]` as a new reference; null to decline. The entry of `Tensor.__getitem__` calls the function.

    The function calls `select_item`. If that gives null without an error, it calls `select_item` again, with NumPy arrays and integers in
    `key` replaced by tensors and ints (`convert_key`).
    """
    x, key = f.arguments
    item = f.call("select_item", POINTER, [x, key])
    f.return_if(~f.is_null(item), lambda: item)
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    converted_key = f.require_new(f.call("convert_key", POINTER, [key]))
    item = f.call("select_item", POINTER, [x, converted_key])
    f.release_held(converted_key)
    f.emit_return(item)


def _emit_select_item(f: FunctionBuilder) -> None:
    """Emit `select_item(x, key)`: return `x[key]` as a new reference; null to decline. `get_item` calls the function.

    The result is a view for a basic key that selects no element. It is a new tensor for an element, and for a list, a mask or index
    tensors. NumPy arrays and integers in `key` are declined.
    """
    x, key = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    is_element, element_offset = find_element(f, x, key)
    f.return_if(is_element, lambda: _new_element(f, x, element_offset))
    f.return_if(f.is_instance(key, "list"), lambda: f.call("select_items", POINTER, [x, key]))
    f.return_if(f.is_instance(key, "Tensor"), lambda: _select_by_array(f, x, key))
    f.return_if(_has_item(f, key, lambda item: f.is_instance(item, "Tensor")), lambda: _select_by_arrays(f, x, key))
    selected_view = evaluate_key(f, x, key)
    spec = look_up_view_spec(f, selected_view)
    offset = f.box_integer(selected_view.offset)
    f.emit_return(new_view(f, f.get_slot(x, "Tensor.storage"), spec, offset))


def _select_by_array(f: FunctionBuilder, x: Value, key: Value) -> Value:
    """Emit the selection `x[key]` by the tensor `key`, a mask or indices: a call of `select_items`, which copies now, and if that declines
    without an error, a call of `gather_elements`, which gives a pending tensor.

    Return the new tensor as a new reference, or null to decline.
    """
    key_items = f.local(POINTER, key)
    result = f.call("select_items", POINTER, [x, key])
    declined = f.and_then(f.is_null(result), lambda: f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    return f.choose(declined, lambda: [f.call("gather_elements", POINTER, [x, key_items, f.i64(1)])], lambda: [result])[0]


def _has_item(f: FunctionBuilder, key: Value, predicate: Callable[[Value], Value]) -> Value:
    """Emit a test whether `key` is a tuple with an item for which the test emitted by `predicate(item)` gives true. Return the result, an
    `i1`: false for keys other than tuples.
    """

    def merge_item(k: Value, has_match: Value) -> Value:
        return has_match | predicate(f.tuple_item(key, k)).cast("zext", I64)

    return f.and_then(f.is_instance(key, "tuple"), lambda: f.fold_range(f.load_word(key, SIZE_OFFSET), f.i64(0), merge_item).differs(0))


def _select_by_arrays(f: FunctionBuilder, x: Value, key: Value) -> Value:
    """Emit the selection `x[key]` by `key`, a tuple with index tensors, and maybe slices and an Ellipsis: a call of `gather_elements` or
    `gather_among_slices`.

    Return the new, pending tensor as a new reference, or null to decline.
    """
    has_slices = _has_item(f, key, lambda item: f.is_instance(item, "slice") | f.is_object(item, "..."))
    gather = lambda: [f.call("gather_elements", POINTER, [x, f.address_at(key, TUPLE_ITEMS_OFFSET), f.load_word(key, SIZE_OFFSET)])]
    return f.choose(has_slices, lambda: [f.call("gather_among_slices", POINTER, [x, key])], gather)[0]


def _emit_gather_among_slices(f: FunctionBuilder) -> None:
    """Emit `gather_among_slices(x, key)`: return `x[key]`, a new pending tensor, for a tuple of index tensors, slices and at most one
    Ellipsis; null to decline, as for other items in the key or more than `MAX_AXES` axes.

    The indices select from the view that the slices select, as in `copy_descriptors.apply_slices`. `select_item` calls the function.
    """
    x, key = f.arguments
    count, ndim = f.load_word(key, SIZE_OFFSET), f.load_word(f.get_slot(load_computed_slot(f, x, "spec"), "Spec.shape"), SIZE_OFFSET)
    indexers, indexer_count = f.local(array(POINTER, MAX_AXES)), f.local(I64, f.i64(0))

    def append_indexer(item: Value) -> None:
        f.require(indexer_count.load(I64) < MAX_AXES)
        indexers.at(indexer_count.load(I64), POINTER).store(item)
        indexer_count.store(indexer_count.load(I64) + 1)

    def convert_item(k: Value) -> Value:
        item = f.tuple_item(key, k)
        is_array, is_ellipsis = f.is_instance(item, "Tensor"), f.is_object(item, "...")
        f.require(is_array | is_ellipsis | f.is_instance(item, "slice"))
        axis_count = f.select_value(is_ellipsis, ndim + 1 - count, f.i64(1))
        f.require(axis_count > 0)
        f.for_range(axis_count, lambda _: append_indexer(f.select_value(is_array, item, f.load_object("slice"))))
        return f.incref(f.select_value(is_array, f.load_object("slice(None)"), item))

    slice_key = f.build_tuple(count, convert_item)
    selected_view = evaluate_key(f, x, slice_key)
    spec = look_up_view_spec(f, selected_view)
    offset = f.box_integer(selected_view.offset)
    view = new_view(f, f.get_slot(x, "Tensor.storage"), spec, offset)
    selected = f.call("gather_elements", POINTER, [view, indexers, indexer_count.load(I64)])
    f.release_held(slice_key, view)
    f.emit_return(selected)


def _emit_item_at(f: FunctionBuilder) -> None:
    """Emit `item_at(x, key)`: return the element of `x` that a key selects, as a Python number and a new reference; null to decline. The
    entry of `Tensor.item` calls the function.

    A pending tensor is evaluated as a whole first, if it is small (`require_small`). Declined are keys that select no single element, known
    scalars, and larger pending tensors.
    """
    x, key = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    is_element, element_offset = find_element(f, x, key)
    f.require(is_element)
    storage = f.get_slot(x, "Tensor.storage")
    f.require(has_plain_node(f, storage))
    is_pending = f.is_object(f.get_slot(f.get_slot(storage, "Storage.node"), "Node.buffer"), "None")
    f.emit_if(is_pending, lambda: require_small(f, f.get_slot(storage, "Storage.node")))
    node = compute_tensor_node(f, x)
    number = f.call("load_number", POINTER, [f.get_slot(node, "Node.buffer"), f.get_slot(x, "Tensor.dtype"), element_offset])
    f.transfer_held(node)
    f.decref(node)
    f.emit_return(number)


def _new_element(f: FunctionBuilder, x: Value, offset: Value) -> Value:
    """Emit the creation of a 0-d tensor, a known scalar (a Python number in the storage), with an element of `x`. `offset` is the position
    of the element in the storage of `x`, an `i64`, in elements. Return the tensor as a new reference, not held.

    A small pending storage is computed whole: further elements are likely to be read. The emitted function returns null or 0 for a storage
    on the tape, and for a view as another dtype. A large pending storage, or a pending storage while results may not be computed early,
    also gives null or 0.
    """
    held_references = list(f._held)
    storage, dtype = f.get_slot(x, "Tensor.storage"), f.hold_borrowed(f.get_slot(x, "Tensor.dtype"))
    f.require(has_plain_node(f, storage))
    node = f.hold_borrowed(f.get_slot(storage, "Storage.node"))
    f.require(f.is_object(f.get_slot(node, "Node.tape_node"), "None"))
    f.require(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.dtype").equals(dtype))

    def compute_whole() -> None:
        f.require(can_evaluate_early(f))
        require_small(f, node)
        f.require(f.call("compute_node", I1, [node]))

    f.emit_if(f.is_object(f.get_slot(node, "Node.buffer"), "None"), compute_whole)
    scalar_spec = f.tuple_item(f.load_object("0-d specs"), f.unbox_integer(f.get_slot(dtype, "DType.rank")))
    number = f.require_new(f.call("load_number", POINTER, [f.get_slot(node, "Node.buffer"), dtype, offset]))
    f.release_held(dtype, node)
    element = new_known_scalar(f, number, scalar_spec)
    f._held[:] = held_references
    return element


def require_small(f: FunctionBuilder, node: Value) -> None:
    """Emit an early exit, returning null or 0, if the pending `node`, or the largest buffer read by its graph, has more than
    `MAX_EAGER_SOURCE_BYTES` bytes. Return None.
    """
    nbytes = f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.nbytes"), f.get_slot(node, "Node.max_operand_nbytes")
    f.require((f.unbox_integer(nbytes[0]) <= MAX_EAGER_SOURCE_BYTES) & (f.unbox_integer(nbytes[1]) <= MAX_EAGER_SOURCE_BYTES))
