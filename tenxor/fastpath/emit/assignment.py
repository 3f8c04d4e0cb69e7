"""Assignments to an element or to a part of a tensor, written into memory at once. A storage is the mutable cell with the node (the
immutable value) of a tensor's memory; a known scalar is a Python number in a storage.

The emitted functions write only into memory that nothing else can read, so no pending node sees the change. Before any change, they decline
the cases of the fallback in Python: values with a tape node, a lock held by another thread, and externally shared buffers (except for the
write of a single element).
"""

from __future__ import annotations

from ...codegen.llvm.builder import Module, Value
from ...codegen.llvm.types import DOUBLE, FLOAT, I1, I8, I16, I32, I64, POINTER, Type, array
from ...dtypes import boolean, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32
from ..limits import MAX_SMALL_BLOCK_BYTES
from ..object_layout import SIZE_OFFSET, ObjectTable
from ..update_recipes import MIN_UPDATE_BYTES
from .basic_indexing import evaluate_key, find_element, look_up_view_spec
from .function_builder import FunctionBuilder
from .node_evaluation import is_lock_free, new_node_in_memory
from .pending_operations import compute_specs, find_or_instantiate, is_operand, load_computed_slot, read_operand, require_in_range
from .python_conversion import has_unrecorded_node, is_known_scalar, load_data_address
from .spec_table import compute_offset_range, load_nbytes
from .template_cache import get_cache_table


def emit_functions(module: Module, objects: ObjectTable) -> None:
    """Emit into `module` the functions to assign to an element or a part of a tensor.

    The functions emitted include `set_item`, `assign_item`, `set_element`, `set_masked`, `write_part`, `store_number`, `are_equal_tuples`,
    `replace_elements` and `unshare_storage`.
    """
    _emit_write_part(
        FunctionBuilder(module, objects, "write_part", [("storage", POINTER), ("spec", POINTER), ("offset", I64), ("value", POINTER)])
    )
    _emit_store_number(
        FunctionBuilder(module, objects, "store_number", [("start", POINTER), ("dtype", POINTER), ("offset", I64), ("number", POINTER)], I1)
    )
    _emit_are_equal_tuples(FunctionBuilder(module, objects, "are_equal_tuples", [("left", POINTER), ("right", POINTER)], I1))
    _emit_replace_elements(
        FunctionBuilder(module, objects, "replace_elements", [("x", POINTER), ("result", POINTER), ("operand", POINTER)], I1)
    )
    _emit_unshare_storage(FunctionBuilder(module, objects, "unshare_storage", [("storage", POINTER)], I1))
    _emit_set_masked(FunctionBuilder(module, objects, "set_masked", [("x", POINTER), ("mask", POINTER), ("value", POINTER)]))
    _emit_set_element(FunctionBuilder(module, objects, "set_element", [("x", POINTER), ("offset", I64), ("value", POINTER)]))
    parameters = [("x", POINTER), ("key", POINTER), ("value", POINTER)]
    _emit_assign_item(FunctionBuilder(module, objects, "assign_item", parameters))
    _emit_set_item(FunctionBuilder(module, objects, "set_item", parameters))


def _emit_set_item(f: FunctionBuilder) -> None:
    """Emit `set_item(x, key, value)`, for the entries of `Tensor.__setitem__` and `fill_`: do `x[key] = value` in memory now, not as a
    pending node.

    Return None as a new reference, or null to decline. The function calls `assign_item` with its own arguments. If that declines without an
    error, it calls `assign_item` again, with NumPy arrays and integers in `key` replaced by tensors and ints (`convert_key`), and a `value`
    that is no operand by a tensor (`convert_value`). If neither changes, the function declines.
    """
    x, key, value = f.arguments
    result = f.call("assign_item", POINTER, [x, key, value])
    f.return_if(~f.is_null(result), lambda: result)
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    plain_key = f.call("convert_key", POINTER, [key])
    f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
    new_key = f.hold_owned(f.choose(f.is_null(plain_key), lambda: [f.incref(key)], lambda: [plain_key])[0])
    convert_value = lambda: [f.call("convert_value", POINTER, [value])]
    new_value = f.require_new(f.choose(is_operand(f, value), lambda: [f.incref(value)], convert_value)[0])
    f.decline_if(new_key.equals(key) & new_value.equals(value))
    result = f.call("assign_item", POINTER, [x, new_key, new_value])
    f.release_held(new_key, new_value)
    f.emit_return(result)


def _emit_assign_item(f: FunctionBuilder) -> None:
    """Emit `assign_item(x, key, value)`: do `x[key] = value` at once, so that no pending node sees the change. Return None as a new
    reference, or null to decline. `set_item` calls the function.

    `value` is a tensor or a number. The key is basic, a list, or one tensor: a mask or indices. Memory with further readers is not
    overwritten: small memory is copied first, and a whole tensor written under a mask gets new memory. Other writes to such memory are
    declined, and so are writes to externally shared memory, except for a single element.
    """
    x, key, value = f.arguments
    f.require(f.is_instance(x, "Tensor"))
    is_element, element_offset = find_element(f, x, key)
    f.return_if(is_element, lambda: f.call("set_element", POINTER, [x, element_offset, value]))
    f.return_if(f.is_instance(key, "Tensor"), lambda: _set_by_tensor(f, x, key, value))
    f.return_if(f.is_instance(key, "list"), lambda: f.call("write_selection", POINTER, [x, key, value]))
    value = f.hold_borrowed(_unwrap_scalar(f, x, value))
    selected_view = evaluate_key(f, x, key)
    spec = look_up_view_spec(f, selected_view)
    source = _copy_if_overlapping(f, x, (spec, selected_view.offset), value)
    result = f.call("write_part", POINTER, [f.get_slot(x, "Tensor.storage"), spec, selected_view.offset, source])
    f.release_held(spec, value, source)
    f.emit_return(result)


def _copy_if_overlapping(f: FunctionBuilder, x: Value, written: tuple[Value, Value], value: Value) -> Value:
    """Emit a choice of the value to write over a view of the tensor `x`: `value`, or a copy where `value` reads memory that is overwritten.
    Return the chosen value, which is held (see `FunctionBuilder.hold_owned`).

    `written` is the view: its spec, and its offset in elements. A copy is chosen if `value` is another view of the same storage, and the
    address ranges overlap. The copy is a replay of the recorded call `value.copy()`. The emitted function returns null if no such call is
    recorded for the spec of `value`, or if `value` has no strides.
    """
    storage = f.get_slot(x, "Tensor.storage")

    def may_overlap() -> Value:
        operand = read_operand(f, value)
        f.require(operand.is_node)
        f.decline_if(f.is_object(f.get_slot(operand.key, "Spec.strides"), "None"))
        read = operand.key, f.unbox_integer(operand.offset)
        is_same_view = f.and_then(read[0].equals(written[0]), lambda: read[1].equals(written[1]))
        return f.and_then(~is_same_view, lambda: ~_are_disjoint(f, read, written))

    shares_storage = f.and_then(f.is_instance(value, "Tensor"), lambda: f.get_slot(value, "Tensor.storage").equals(storage))
    needs_copy = f.and_then(f.and_then(shares_storage, lambda: f.is_instance(storage, "Storage")), may_overlap)
    copy = lambda: [f.call("replay_method", POINTER, [value, f.null(), f.i64(0), f.null(), f.load_object("'copy'")])]
    (source,) = f.choose(needs_copy, copy, lambda: [f.incref(value)])
    return f.require_new(source)


def _unwrap_scalar(f: FunctionBuilder, x: Value, value: Value) -> Value:
    """Emit a choice of the value to write over a part of `x`, and return it, borrowed: the Python number of `value` if `value` is a known
    scalar of the dtype of `x`, otherwise `value` itself. A bfloat16 scalar stays a tensor.
    """

    def load_number() -> list[Value]:
        spec, storage, dtype = load_computed_slot(f, value, "spec"), f.get_slot(value, "Tensor.storage"), f.get_slot(x, "Tensor.dtype")
        is_point = f.and_then(f.is_instance(storage, "ScalarStorage"), lambda: f.is_object(f.get_slot(spec, "Spec.shape"), "()"))
        has_same_dtype = lambda: f.get_slot(storage, "ScalarStorage._dtype").equals(dtype) & f.get_slot(value, "Tensor.dtype").equals(dtype)
        is_plain = f.and_then(f.and_then(is_point, has_same_dtype), lambda: ~f.is_object(dtype, "bfloat16"))
        has_known_number = f.and_then(is_plain, lambda: ~f.is_object(f.get_slot(storage, "ScalarStorage._number"), "None"))
        return f.choose(has_known_number, lambda: [f.get_slot(storage, "ScalarStorage._number")], lambda: [value])

    return f.choose(f.is_instance(value, "Tensor"), load_number, lambda: [value])[0]


def _emit_set_element(f: FunctionBuilder) -> None:
    """Emit `set_element(x, offset, value)`: write the number `value` into the storage of the tensor `x`, at `offset`, an `i64`, in elements
    from the start. Return None as a new reference, or null to decline.

    `value` is a number, or a tensor of one element with the dtype of `x`. Pending content of the storage is evaluated first. Small memory
    with other readers is copied first; externally shared memory is written in place in spite of other readers. Declined are known scalars
    `x`, nodes on the tape, views as another dtype, read-only memory, larger memory with other readers, a lock held by another thread, and
    numbers that `store_number` does not take. `assign_item` calls the function.
    """
    x, offset, value = f.arguments
    storage, dtype = f.get_slot(x, "Tensor.storage"), f.get_slot(x, "Tensor.dtype")
    f.require(f.is_instance(storage, "Storage"))
    compute_storage(f, storage)
    number = require_number(f, value, dtype)

    def load_buffer() -> tuple[Value, Value]:
        node = f.get_slot(storage, "Storage.node")
        buffer = f.get_slot(node, "Node.buffer")
        f.decline_if(f.is_object(buffer, "None"))
        return node, buffer

    def is_writable(node: Value, buffer: Value) -> Value:
        is_unshared = f.and_then(f.has_one_reference(node), lambda: f.has_one_reference(buffer))
        return f.or_else(is_unshared, lambda: ~f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0"))

    f.emit_if(~is_writable(*load_buffer()), lambda: f.require(f.call("unshare_storage", I1, [storage])))
    node, buffer = load_buffer()
    f.require(is_writable(node, buffer))
    f.require(f.is_object(f.get_slot(node, "Node.tape_node"), "None"))
    f.require(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.dtype").equals(dtype))
    f.require(f.is_object(f.get_slot(buffer, "Buffer.is_read_only"), "False"))
    f.require(is_lock_free(f))
    f.require(f.call("store_number", I1, [load_data_address(f, buffer), dtype, offset, number]))
    f.transfer_held(number)
    f.decref(number)
    f.emit_return(f.incref(f.load_object("None")))


def _set_by_tensor(f: FunctionBuilder, x: Value, key: Value, value: Value) -> Value:
    """Emit `x[key] = value` for a tensor `key`: a call of `set_masked`, and where that gives null, a call of `write_selection`, for masks
    and indices. Return the result: None as a new reference, or null to decline.
    """
    result = f.call("set_masked", POINTER, [x, key, value])
    return f.choose(f.is_null(result), lambda: [f.call("write_selection", POINTER, [x, key, value])], lambda: [result])[0]


def _emit_are_equal_tuples(f: FunctionBuilder) -> None:
    """Emit `are_equal_tuples(left, right)`: return whether two Python tuples of integers that fit into 64 bits, such as shapes or strides,
    are equal.
    """
    left, right = f.arguments
    f.return_if(left.equals(right), lambda: f.constant(I1, True))
    f.require(f.load_word(left, SIZE_OFFSET).equals(f.load_word(right, SIZE_OFFSET)))
    f.for_range(
        f.load_word(left, SIZE_OFFSET),
        lambda k: f.require(f.unbox_integer(f.tuple_item(left, k)).equals(f.unbox_integer(f.tuple_item(right, k)))),
    )
    f.emit_return(f.constant(I1, True))


def _emit_set_masked(f: FunctionBuilder) -> None:
    """Emit `set_masked(x, mask, value)`: do `x[mask] = value` for a number, as `x = where(mask, value, x)`. Return None as a new reference,
    or null to decline.

    `x` and `mask` are tensors. Declined are masks of another dtype than bool or another shape than `x`, a tensor as `value`, and externally
    shared memory. `replace_elements` writes the result into `x`, and may decline, too. `assign_item` calls the function.
    """
    x, mask, value = f.arguments
    compute_specs(f, x, mask)
    spec, mask_spec = f.get_slot(x, "Tensor.spec"), f.get_slot(mask, "Tensor.spec")
    f.require(f.is_object(f.get_slot(mask_spec, "Spec.dtype"), "bool"))
    f.require(f.call("are_equal_tuples", I1, [f.get_slot(spec, "Spec.shape"), f.get_slot(mask_spec, "Spec.shape")]))
    f.decline_if(f.is_instance(value, "Tensor"))
    decline_if_shared(f, x)
    operands = f.local(array(POINTER, 2))
    operands.store(value)
    operands.at(1, POINTER).store(x)
    result = f.require_new(f.call("apply_operation", POINTER, [f.load_object("op where"), mask, operands, f.i64(2)]))
    f.require(f.call("replace_elements", I1, [x, result, mask]))
    f.release_held(result)
    f.emit_return(f.incref(f.load_object("None")))


def decline_if_shared(f: FunctionBuilder, x: Value) -> None:
    """Emit an early exit, returning null or 0, unless `x` is a tensor outside of externally shared memory (`Buffer.externally_shared`).
    Only the fallback writes such memory. Return None. Pending tensors and known scalars pass.
    """
    f.require(f.is_instance(x, "Tensor"))
    storage = f.get_slot(x, "Tensor.storage")

    def is_externally_shared() -> Value:
        buffer = f.get_slot(f.get_slot(storage, "Storage.node"), "Node.buffer")
        return f.and_then(~f.is_object(buffer, "None"), lambda: ~f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0"))

    f.decline_if(f.and_then(f.is_instance(storage, "Storage"), is_externally_shared))


def _emit_replace_elements(f: FunctionBuilder) -> None:
    """Emit `replace_elements(x, result, operand)`: replace the elements of the tensor `x` by those of the tensor `result`, in place. Return
    true, or false to decline, with `x` unchanged.

    `result` was computed from `x` and `operand`, a tensor or a number, and must have the shape and the dtype of `x`. If `x` covers its
    storage and has the layout of `result`, the storage takes over the node of `result`. Otherwise the elements are written into the part of
    the storage. Known scalars `x`, and storages on the tape, are declined. `apply_in_place` and `set_masked` call the function.
    """
    x, result, operand = f.arguments
    storage, spec, offset = (f.hold_borrowed(f.get_slot(x, f"Tensor.{slot}")) for slot in ("storage", "spec", "offset"))
    f.require(f.is_instance(storage, "Storage"))
    node, result_spec = f.get_slot(storage, "Storage.node"), f.get_slot(result, "Tensor.spec")
    f.require(f.is_object(f.get_slot(node, "Node.tape_node"), "None"))
    covers_storage = f.unbox_integer(f.get_slot(f.get_slot(node, "Node.recipe"), "Recipe.size")).equals(
        f.unbox_integer(f.get_slot(spec, "Spec.size"))
    )
    has_same_layout = f.and_then(result_spec.equals(spec), lambda: f.and_then(covers_storage, lambda: f.is_object(offset, "0")))

    def swap_node() -> list[Value]:
        buffer = f.get_slot(node, "Node.buffer")
        f.require(f.or_else(f.is_object(buffer, "None"), lambda: f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0")))
        f.require(is_lock_free(f))
        f.set_slot(storage, "Storage.node", f.incref(f.get_slot(f.get_slot(result, "Tensor.storage"), "Storage.node")))
        f.decref(node)
        return []

    def write() -> list[Value]:
        f.require(f.get_slot(result_spec, "Spec.dtype").equals(f.get_slot(spec, "Spec.dtype")))
        f.require(f.call("are_equal_tuples", I1, [f.get_slot(result_spec, "Spec.shape"), f.get_slot(spec, "Spec.shape")]))
        element_offset = f.unbox_integer(offset)
        emit_update = lambda: f.call("update_part", I1, [x, operand, storage, spec, element_offset, result])
        is_updated = f.and_then(load_nbytes(f, spec) >= MIN_UPDATE_BYTES, emit_update)
        return f.choose(is_updated, list, lambda: write_elements(element_offset))

    def write_elements(element_offset: Value) -> list[Value]:
        f.require(f.is_null(f.call("PyErr_Occurred", POINTER, [])))
        f.emit_if(f.is_instance(operand, "Tensor"), lambda: _compute_second_operand(f, operand))
        status = f.call("write_part", POINTER, [storage, spec, element_offset, result])
        f.decline_if(f.is_null(status))
        f.decref(status)
        return []

    def write_if_any() -> list[Value]:
        return f.choose(_is_empty_write(f, result_spec, spec), list, write)

    def replace_by_node() -> list[Value]:
        return f.choose(has_same_layout, swap_node, write_if_any)

    result_storage = f.get_slot(result, "Tensor.storage")
    f.choose(
        f.is_instance(result_storage, "ScalarStorage"),
        lambda: _write_known_scalar(f, (storage, spec, offset), result_spec, result_storage),
        replace_by_node,
    )
    f.release_held(storage, spec, offset)
    f.emit_return(f.constant(I1, True))


def _write_known_scalar(
    f: FunctionBuilder, destination: tuple[Value, Value, Value], scalar_spec: Value, scalar_storage: Value
) -> list[Value]:
    """Emit a write of a known scalar into the memory of a tensor of the same dtype and shape. Return an empty list, for `choose`.

    `destination` is the storage, spec and offset of the tensor. `scalar_spec` and `scalar_storage` are the spec and the `ScalarStorage` of
    the scalar. The emitted function returns null or 0 if dtypes or shapes differ, if the scalar has a node by now, and where
    `require_own_memory` does.
    """
    storage, spec, offset = destination
    dtype = f.get_slot(spec, "Spec.dtype")
    f.require(f.get_slot(scalar_spec, "Spec.dtype").equals(dtype))
    f.require(f.call("are_equal_tuples", I1, [f.get_slot(scalar_spec, "Spec.shape"), f.get_slot(spec, "Spec.shape")]))
    number = f.get_slot(scalar_storage, "ScalarStorage._number")
    f.decline_if(f.is_object(number, "None"))
    f.hold_borrowed(number)
    buffer = require_own_memory(f, storage, storage, dtype)
    f.require(f.call("store_number", I1, [load_data_address(f, buffer), dtype, f.unbox_integer(offset), number]))
    f.release_held(number)
    return []


def _is_empty_write(f: FunctionBuilder, value_spec: Value, spec: Value) -> Value:
    """Emit a test whether a write has nothing to write: the destination has no elements, and the value has the same shape and dtype.

    `value_spec` is the spec of the value, and `spec` the spec of the destination. Return the result, an `i1`.
    """
    (shape, dtype), (target_shape, target_dtype) = [(f.get_slot(s, "Spec.shape"), f.get_slot(s, "Spec.dtype")) for s in (value_spec, spec)]
    is_empty = f.and_then(f.is_object(f.get_slot(spec, "Spec.size"), "0"), lambda: dtype.equals(target_dtype))
    return f.and_then(is_empty, lambda: f.call("are_equal_tuples", I1, [shape, target_shape]))


def _compute_second_operand(f: FunctionBuilder, y: Value) -> None:
    """Emit the evaluation of the tensor `y`, the second operand of an in-place write: while pending, `y` may refer to memory that is
    overwritten. A known scalar is not evaluated. Return None. The emitted function returns null or 0 where `compute_storage` does.
    """
    storage = f.get_slot(y, "Tensor.storage")
    f.emit_if(f.is_instance(storage, "Storage"), lambda: compute_storage(f, storage))


def compute_storage(f: FunctionBuilder, storage: Value) -> None:
    """Emit the evaluation of the node of `storage`, a `Storage`, unless the node is in memory already. Return None. Python code may run.

    The emitted function returns null or 0 for a pending node on the tape or under tracing, and if the evaluation fails.
    """

    def compute() -> None:
        node = f.hold_borrowed(f.get_slot(storage, "Storage.node"))
        f.require(f.is_object(f.get_slot(node, "Node.tape_node"), "None"))
        f.require(f.call("compute_node", I1, [node]))
        f.release_held(node)

    f.emit_if(f.is_object(f.get_slot(f.get_slot(storage, "Storage.node"), "Node.buffer"), "None"), compute)


def _emit_write_part(f: FunctionBuilder) -> None:
    """Emit `write_part(storage, spec, offset, value)`: write `value`, a tensor or a number, over a part of a storage. Return None as a new
    reference, or null to decline. `assign_item` and `replace_elements` call the function.

    The part is the view with the spec `spec` that begins at element `offset`. If `value` is this view itself, or has no elements, nothing
    is written. Small memory with other readers is copied first; larger memory with other readers is declined. Also declined are known
    scalars as `storage`, values on the tape, values that overlap the part, and writes without a launch record.

    The old content is evaluated first, since the value may depend on it, then the value. Either may run Python code, so the storage is
    examined afterwards.
    """
    storage, spec, offset, value = f.arguments
    f.hold_borrowed(storage), f.hold_borrowed(spec)
    f.require(f.is_instance(storage, "Storage"))
    compute_storage(f, storage)
    kind = f.type_of(value)
    is_tensor = f.is_instance(value, "Tensor")

    def load_number_key() -> list[Value]:
        return [kind, f.load_object("0")]

    def load_tensor_key() -> list[Value]:
        operand = read_operand(f, value)
        f.require(operand.is_node)
        return [operand.key, operand.offset]

    key, start = f.choose(is_tensor, load_tensor_key, load_number_key)
    f.hold_borrowed(start)
    shares_storage = f.and_then(is_tensor, lambda: f.get_slot(value, "Tensor.storage").equals(storage))

    def is_already_written() -> Value:
        """Emit a test whether the value is the part itself: then `x[key] += y` has already written the part."""
        is_same_view = f.and_then(f.get_slot(value, "Tensor.spec").equals(spec), lambda: f.unbox_integer(start).equals(offset))
        return f.and_then(is_same_view, lambda: f.call("is_injective", I1, [spec]))

    cache_table = get_cache_table(f, spec, "call_templates")

    def instantiate_rule() -> list[Value]:
        f.require(f.call("sign_write", I1, [storage, spec, value]))
        return [f.call("instantiate_cached", POINTER, [*cache_table, f.load_object("'write_part'"), key])]

    def write() -> list[Value]:
        template = f.hold_borrowed(find_or_instantiate(f, cache_table, f.load_object("'write_part'"), key, instantiate_rule))
        f.decline_if(f.is_object(f.get_slot(template, "ResultTemplate.launch_record"), "NO_LAUNCH_RECORD"))
        f.emit_if(f.is_object(kind, "int"), lambda: require_in_range(f, value, template, "WriteTemplate"))
        f.emit_if(shares_storage, lambda: f.require(_are_disjoint(f, (key, f.unbox_integer(start)), (spec, offset))))
        (source,) = f.choose(is_tensor, lambda: [_compute_source(f, value)], lambda: [_new_scalar(f, value)])
        f.hold_owned(source)
        sources, offsets = f.new_tuple(source), f.new_tuple(f.hold_borrowed(start), f.box_integer(offset))
        _launch_in_place(f, storage, template, source, sources, offsets)
        f.release_held(template, sources, offsets)
        return []

    is_empty_write = lambda: f.and_then(is_tensor, lambda: _is_empty_write(f, f.get_slot(value, "Tensor.spec"), spec))
    f.choose(f.or_else(f.and_then(shares_storage, is_already_written), is_empty_write), list, write)
    f.release_held(storage, spec, start)
    f.emit_return(f.incref(f.load_object("None")))


def _are_disjoint(f: FunctionBuilder, read: tuple[Value, Value], written: tuple[Value, Value]) -> Value:
    """Emit a test whether the address ranges of two views of one storage, `read` and `written`, do not overlap. Return the result, an `i1`.

    Each view is a pair of a spec with strides and an offset in elements. Interleaved views overlap, even without a common element.
    """
    (read_start, read_end), (write_start, write_end) = (
        [offset + bound for bound in compute_offset_range(f, spec)] for spec, offset in (read, written)
    )
    return f.or_else(read_end < write_start, lambda: write_end < read_start)


def _compute_source(f: FunctionBuilder, value: Value) -> Value:
    """Emit the evaluation of the node of the tensor `value`, the assigned value. Return the node as a new reference, not held.

    The emitted function returns null or 0 if the node is on the tape or cannot be computed.
    """
    node = f.hold_borrowed(f.get_slot(f.get_slot(value, "Tensor.storage"), "Storage.node"))
    f.require(f.is_object(f.get_slot(node, "Node.tape_node"), "None"))
    f.require(f.call("compute_node", I1, [node]))
    f.transfer_held(node)
    return node


def _new_scalar(f: FunctionBuilder, value: Value) -> Value:
    """Emit a `Scalar` of the Python number `value`, as the source of a write. Return a new reference, not held. The emitted function
    returns null or 0 if memory runs out.

    The scalar has None as its dtype: the launch record of the write knows the type.
    """
    scalar = f.new_instance("Scalar", value=f.incref(value), dtype=f.incref(f.load_object("None")))
    f.transfer_held(scalar)
    return scalar


def _launch_in_place(f: FunctionBuilder, storage: Value, template: Value, source: Value, sources: Value, offsets: Value) -> None:
    """Emit the launch of a write over the memory of `storage`; small memory with other readers is copied first. Return None.

    `template` is the recorded template of the write (`WriteTemplate`), and `source` the node or scalar written. `sources` is the tuple with
    `source` alone, and `offsets` the tuple of the offsets of the source and of the destination. The emitted function returns null or 0
    without a write if `require_own_memory` or the launch fails.
    """
    buffer = require_own_memory(f, storage, source, f.get_slot(f.get_slot(template, "ResultTemplate.spec"), "Spec.dtype"))
    f.require(f.call("launch", I1, [f.get_slot(template, "ResultTemplate.launch_record"), f.null(), sources, offsets, buffer]))


def require_own_memory(f: FunctionBuilder, storage: Value, source: Value, dtype: Value) -> Value:
    """Emit code after which only the storage `storage` and the write itself refer to the memory of `storage`. Return the `Buffer` to write
    into, borrowed.

    `source` is the node read by the write, possibly the node of `storage`. If the memory has further readers, the storage gets a copy
    first, of up to `MAX_SMALL_BLOCK_BYTES` bytes. The emitted function returns null or 0 for larger memory with further readers. Further
    reasons are pending content, another dtype than `dtype`, a node on the tape, externally shared or read-only memory, and a lock held by
    another thread. The caller's code must write at once, before Python code can run.
    """
    f.emit_if(~_is_only_reader(f, storage, source), lambda: f.require(f.call("unshare_storage", I1, [storage])))
    f.require(_is_only_reader(f, storage, source))
    old_node = f.get_slot(storage, "Storage.node")
    buffer = f.get_slot(old_node, "Node.buffer")
    f.require(f.is_object(f.get_slot(old_node, "Node.tape_node"), "None"))
    f.require(f.get_slot(f.get_slot(old_node, "Node.recipe"), "Recipe.dtype").equals(dtype))
    f.require(f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0"))
    f.require(f.is_object(f.get_slot(buffer, "Buffer.is_read_only"), "False"))
    f.require(is_lock_free(f))
    return buffer


def _is_only_reader(f: FunctionBuilder, storage: Value, source: Value) -> Value:
    """Emit a test whether nothing but the storage, and the write with the source node `source`, refers to the content of `storage`. Return
    the result, an `i1`.

    The emitted function returns null or 0 for a pending node.
    """
    old_node = f.get_slot(storage, "Storage.node")
    buffer = f.get_slot(old_node, "Node.buffer")
    f.decline_if(f.is_object(buffer, "None"))
    owners = f.select_value(source.equals(old_node), f.constant(I32, 2), f.constant(I32, 1))
    return f.and_then(f.load_refcount(old_node).equals(owners), lambda: f.has_one_reference(buffer))


def _emit_unshare_storage(f: FunctionBuilder) -> None:
    """Emit `unshare_storage(storage)`: give a storage a new node with a copy of its elements, so that nothing else reads its memory. Return
    true, or false to decline. Writes call the function before they overwrite memory with other readers.

    The content must be in memory, of up to `MAX_SMALL_BLOCK_BYTES` bytes, neither on the tape nor externally shared. False is also the
    result if another thread holds the lock, or memory runs out.
    """
    (storage,) = f.arguments
    old_node = f.hold_borrowed(f.get_slot(storage, "Storage.node"))
    recipe = f.get_slot(old_node, "Node.recipe")
    f.require(f.is_object(f.get_slot(recipe, "Recipe.op"), "DATA"))  # so the node has no sources
    f.require(f.is_object(f.get_slot(old_node, "Node.tape_node"), "None"))
    nbytes = f.unbox_integer(f.get_slot(recipe, "Recipe.nbytes"))
    f.require(nbytes <= MAX_SMALL_BLOCK_BYTES)
    new_buffer = f.require_new(f.call("new_buffer", POINTER, [recipe]))
    node = new_node_in_memory(f, recipe, new_buffer)
    buffer = f.get_slot(old_node, "Node.buffer")  # read late: Python code may have run and replaced the buffer
    f.require(f.get_slot(storage, "Storage.node").equals(old_node))
    f.require(f.is_object(f.get_slot(buffer, "Buffer.externally_shared"), "0"))
    f.require(is_lock_free(f))
    f.call("memcpy", POINTER, [load_data_address(f, new_buffer), load_data_address(f, buffer), nbytes])
    f.set_slot(storage, "Storage.node", node)
    f.transfer_held(node)
    f.decref(old_node)
    f.release_held(old_node)
    f.emit_return(f.constant(I1, True))


def require_number(f: FunctionBuilder, value: Value, dtype: Value) -> Value:
    """Emit a choice of the number to write into elements of `dtype`: the element of a tensor `value`, otherwise `value` itself, of any
    type.

    Return the number, which is held (see `FunctionBuilder.hold_owned`). The emitted function returns null or 0 for a tensor of a different
    dtype, on the tape, or without exactly one element.
    """

    def load_element() -> list[Value]:
        f.require(f.get_slot(value, "Tensor.dtype").equals(dtype))
        storage = f.get_slot(value, "Tensor.storage")
        f.require(f.or_else(is_known_scalar(f, storage), lambda: has_unrecorded_node(f, storage)))
        return [f.call("load_only_element", POINTER, [value])]

    (number,) = f.choose(f.is_instance(value, "Tensor"), load_element, lambda: [f.incref(value)])
    return f.require_new(number)


def _emit_store_number(f: FunctionBuilder) -> None:
    """Emit `store_number(start, dtype, offset, number)`: store a Python number as element `offset` of the array of `dtype` at the address
    `start`. Return true, or false to decline, with nothing stored.

    Float64 and float32 take floats and integers of 64 bits; float32 rounds them, and declines finite numbers beyond its range. Integer
    dtypes take integers in their range, and bool takes bools. Declined are the dtypes uint64, narrow floats and complex ones, and other
    types of numbers.
    """
    start, dtype, offset, number = f.arguments
    true = f.constant(I1, True)

    def store_value(kind: Type, value: Value) -> Value:
        start.at(offset, kind).store(value)
        return true

    def convert_to_double() -> Value:
        is_float = f.is_instance(number, "float")
        f.require(f.or_else(is_float, lambda: f.is_instance(number, "int")))
        f.emit_if(~is_float, lambda: f.require(f.unbox_checked(number)[1]))
        return f.call("PyFloat_AsDouble", DOUBLE, [number])

    def store_float32() -> Value:
        value = convert_to_double()
        magnitude = value.abs()
        f.require(f.or_else(magnitude <= float32.highest, lambda: f.or_else(value.is_nan(), lambda: magnitude.equals(float("inf")))))
        return store_value(FLOAT, value.cast("fptrunc", FLOAT))

    def store_bool() -> Value:
        f.require(f.is_instance(number, "bool type"))
        return store_value(I8, f.is_object(number, "True").cast("zext", I8))

    def store_integer(kind: Type, low: int, high: int) -> Value:
        f.require(f.is_instance(number, "int"))
        value, fits = f.unbox_checked(number)
        f.require(fits)
        if kind is I64:
            return store_value(I64, value)
        f.require(f.and_then(value >= low, lambda: value <= high))
        return store_value(kind, value.cast("trunc", kind))

    f.return_if(dtype.equals(f.load_object(float64.name)), lambda: store_value(DOUBLE, convert_to_double()))
    f.return_if(dtype.equals(f.load_object(float32.name)), store_float32)
    f.return_if(dtype.equals(f.load_object(boolean.name)), store_bool)
    kinds = ((int64, I64), (int32, I32), (uint8, I8), (int16, I16), (int8, I8), (uint16, I16), (uint32, I32))
    for d, kind in kinds:
        f.return_if(
            dtype.equals(f.load_object(d.name)),
            lambda d=d, kind=kind: store_integer(kind, int(d.lowest), int(d.highest)),  # type: ignore[misc]
        )
    f.decline()
